"""What people would say of an edit: the fitted maps (`aligning`), as measurements of a pair.

They are no instruments: they measure nothing by themselves, and take a second look at the pair in the size that the
maps were fitted on.
"""

from __future__ import annotations

import cv2
import numpy as np

from beholder.instruments import aligning
from beholder.instruments.model import Bytes, Measurement
from beholder.instruments.pair import Pair
from beholder.instruments.registry import measure_pair
from beholder.instruments.sizes import shrunk

_LEAST_SIDE, _LEAST_DETAIL = 64, 0.01  # px; share of the image
_MASKED = "Not predicted: the map was fitted on edits without a mask, and does not hold for others."


def predictions(pair: Pair) -> dict[str, Measurement]:
    """`people.realism` and `people.kept`: the mean rating, 0–1, that people would give."""
    if why := _nothing_to_say(pair):
        return {name: Measurement(name, None, "", "higher", why) for name in map("people.{}".format, aligning.MAPS)}
    small = Pair(*(shrunk(one, aligning.SIDE) for one in (pair.before, pair.after)), sizes=pair.sizes)
    names = {one.name for name in aligning.MAPS for one in aligning.load(name).features}
    measured = measure_pair(small, names)
    found: dict[str, Measurement] = {}
    for name in aligning.MAPS:
        said = aligning.predict(name, measured)
        found[f"people.{name}"] = Measurement(f"people.{name}", said.value, "", "higher", said.sentence)
    return found


def _nothing_to_say(pair: Pair) -> str:
    """Why the maps do not hold for a pair: they know photographs and edits of them, and take black for calm."""
    if pair.mask is not None:
        return _MASKED
    for which, image in (("before", pair.before), ("after", pair.after)):
        height, width = image.shape[:2]
        if min(height, width) < _LEAST_SIDE:
            return f"Not predicted: the image {which} is too small ({width}×{height} px)."
        if _detail(image) < _LEAST_DETAIL:
            return f"Not predicted: the image {which} has no detail that people could find real."
    if pair.identical:
        return "Not predicted: the images are identical, and there is no edit that people could rate."
    if pair.obstacle:
        return f"Not predicted: {pair.obstacle}."
    if not pair.alignment.registered:
        return f"Not predicted: the images could not be registered ({pair.alignment.why})."
    return ""


def _detail(image: Bytes) -> float:
    """The share of the image that is not flat: windows of 11 px at ≤ 256 px that span more than 8 levels."""
    grey = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    scale = min(1.0, 256 / max(grey.shape))
    small = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    box = np.ones((11, 11), np.uint8)
    return float((cv2.subtract(cv2.dilate(small, box), cv2.erode(small, box)) > 8).mean())
