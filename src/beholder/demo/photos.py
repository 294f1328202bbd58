"""The photographs: those that scikit-image and scikit-learn carry in their wheels. Nothing is fetched."""

from __future__ import annotations

from beholder.demo.model import Pixels
from beholder.errors import SetupError

CREDITS = """\
astronaut   Eileen Collins, by NASA; public domain
chelsea     by Stefan van der Walt; CC0
coffee      by Rachel Michetti, courtesy of Pikolo Espresso Bar; CC0
motorcycle  Middlebury stereo benchmark 2014: N. Nesic, P. Westling, X. Wang, Y. Kitajima, G. Krathwohl, D. Scharstein
rocket      by SpaceX; public domain
china       by danielbuechele on Flickr; CC BY 2.0
flower      by vultilion on Flickr; CC BY 2.0
"""

_STEREO = "stereo_motorcycle"  # the view of two cameras; ours is the left one
_MISSING = "The demo takes its photographs from scikit-image and scikit-learn: pip install 'beholder[demo]'"


def photos() -> dict[str, Pixels]:
    """The photographs by name, RGB, at most 768 pixels a side. Raises `SetupError` where the extra is missing."""
    try:
        from skimage import data
        from sklearn.datasets import load_sample_image  # type: ignore[import-untyped]  # it ships no types

        names = ("astronaut", "chelsea", "coffee", "rocket")
        shots: dict[str, Pixels] = {name: getattr(data, name)() for name in names}
        shots |= {name: load_sample_image(f"{name}.jpg") for name in ("china", "flower")}
        left, *_ = getattr(data, _STEREO)()
    except ImportError:
        raise SetupError(_MISSING) from None
    return {**shots, "motorcycle": left}
