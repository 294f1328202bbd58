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

_MASKED = "Not predicted: the map was fitted on edits without a mask, and does not hold for others."


def predictions(pair: Pair) -> dict[str, Measurement]:
    """`people.realism` and `people.kept`: the mean rating, 0–1, that people would give."""
    small = Pair(_fitted(pair.before), _fitted(pair.after), sizes=pair.sizes)
    names = {one.name for name in aligning.MAPS for one in aligning.load(name).features}
    measured = measure_pair(small, names)
    found: dict[str, Measurement] = {}
    for name in aligning.MAPS:
        said = aligning.predict(name, measured)
        masked = pair.mask is not None
        value, sentence = (None, _MASKED) if masked else (said.value, said.sentence)
        found[f"people.{name}"] = Measurement(f"people.{name}", value, "", "higher", sentence)
    return found


def _fitted(image: Bytes) -> Bytes:
    height, width = image.shape[:2]
    scale = min(1.0, aligning.SIDE / max(height, width))
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
