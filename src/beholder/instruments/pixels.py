"""What the pair instruments say of two images as plain numbers: features for a calibration."""

from __future__ import annotations

from collections.abc import Collection

from beholder.errors import ImageError
from beholder.images import read
from beholder.images.model import ImageSource
from beholder.instruments.aligning import SIDE
from beholder.instruments.pair import Pair
from beholder.instruments.registry import measure_pair

PREFIX = "pixels."

# Roles of which the second is what became of the first, in the order in which they are looked for.
ROLES = (("input", "edited"), ("original", "restyled"))


def pair_of(images: Collection[str]) -> tuple[str, str] | None:
    """Which of a case's images are measured against each other: known roles, else the first two; None of fewer."""
    known = next((roles for roles in ROLES if images and set(roles) <= set(images)), None)
    if known is not None:
        return known
    first = list(images)[:2]
    return (first[0], first[1]) if len(first) == 2 else None


def pixels_of(
    pair: tuple[ImageSource, ImageSource], names: Collection[str] | None = None
) -> tuple[dict[str, float], str]:
    """By `pixels.NAME` what can be measured of an image before and after (paths or bytes), at 512 px, and nothing; or
    nothing, and why. `names` are instruments or families; all of them unless given. What has no meaning for a pair is
    left out. Raises `UsageError` for a name that no pair instrument has."""
    try:
        before, after = map(read, pair)
        found = measure_pair(Pair.load(before, after, side=SIDE), names)
    except ImageError as error:
        return {}, str(error)
    return {f"{PREFIX}{name}": one.value for name, one in found.items() if one.value is not None}, ""
