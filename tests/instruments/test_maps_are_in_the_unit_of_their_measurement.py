"""Every map lies in the frame of its image, has a number at every pixel, and is in the unit that its legend names."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import skimage.data

from beholder.instruments.pair import ImagePair, SingleImage
from beholder.instruments.registry import list_instruments


@pytest.fixture(scope="module")
def pairs() -> list[ImagePair]:
    """An edit with and without a mask, a restyle, and a photo of another size and shape."""
    photo = cv2.resize(skimage.data.coffee(), (360, 240), interpolation=cv2.INTER_AREA)
    edited = photo.copy()
    edited[60:120, 150:220] = 255 - edited[60:120, 150:220]
    mask = np.zeros((240, 360), np.bool_)
    mask[60:120, 150:200] = True
    other = cv2.resize(skimage.data.astronaut(), (200, 200), interpolation=cv2.INTER_AREA)
    return [
        ImagePair(photo, edited),
        ImagePair(photo, edited, mask=mask),
        ImagePair(photo, cv2.stylization(photo, sigma_s=60, sigma_r=0.45)),
        ImagePair(photo, other),
        ImagePair(photo, cv2.resize(other, (360, 240))),
    ]


@pytest.mark.parametrize("name", [one.name for kind in ("pair", "image") for one in list_instruments(kind)])
def test_every_map_is(pairs: list[ImagePair], name: str) -> None:
    instrument = next(one for kind in ("pair", "image") for one in list_instruments(kind) if one.name == name)
    for pair in pairs:
        found = instrument.measure(pair if instrument.kind == "pair" else SingleImage(pair.after))
        if found.map is None:
            continue
        frame = pair.before if instrument.kind == "pair" else pair.after
        assert found.map.shape == frame.shape[:2]
        assert np.isfinite(found.map).all()
        if found.unit == "share":
            assert found.map.max() <= 1 + 1e-6
            assert found.map_top is None or found.map_top <= 1
