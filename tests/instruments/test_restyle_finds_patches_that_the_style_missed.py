"""Photo that shows through a style is found, and its place is said."""

from __future__ import annotations

from functools import cache
from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data

from beholder.instruments.instrument import Measurement
from beholder.instruments.pair import ImagePair
from beholder.instruments.restyle import INSTRUMENTS, MIN_EVENNESS, MIN_UNTOUCHED_SEEN

Image = Any

PATCHES = {
    "upper left": (slice(20, 150), slice(20, 150)),
    "upper right": (slice(20, 150), slice(360, 490)),
    "lower left": (slice(360, 490), slice(20, 150)),
    "lower right": (slice(360, 490), slice(360, 490)),
}


@cache
def drawn() -> tuple[Image, Image]:
    """A photograph with texture everywhere, and its restyle."""
    photo = cv2.resize(skimage.data.chelsea()[:, 75:375], (512, 512), interpolation=cv2.INTER_CUBIC)
    grain = np.random.default_rng(3).normal(0, 9, (512, 512, 1))
    photo = np.clip(photo + cv2.GaussianBlur(grain, (0, 0), 0.8)[:, :, None] * 2, 0, 255).astype(np.uint8)
    return photo, cv2.stylization(photo, sigma_s=60, sigma_r=0.45)


def measured(before: Image, after: Image) -> dict[str, Measurement]:
    pair = ImagePair(before, after)
    return {one.name.removeprefix("restyle."): one.measure(pair) for one in INSTRUMENTS}


def test_a_whole_restyle_has_none() -> None:
    found = measured(*drawn())
    assert found["untouched"].value is not None
    assert found["untouched"].value < MIN_UNTOUCHED_SEEN
    assert found["evenness"].value is not None
    assert found["evenness"].value > MIN_EVENNESS


@pytest.mark.parametrize("where", PATCHES)
def test_a_patch_that_was_left_is_found_where_it_is(where: str) -> None:
    before, after = drawn()
    patched = after.copy()
    patched[PATCHES[where]] = before[PATCHES[where]]
    found = measured(before, patched)["untouched"]
    area = 130 * 130 / 512**2
    assert found.value is not None
    assert area / 2 < found.value < area * 1.5
    assert where in found.sentence
    assert found.map is not None
    inside = np.zeros((512, 512), bool)
    inside[PATCHES[where]] = True
    near = cv2.dilate(inside.astype(np.uint8), np.ones((33, 33), np.uint8)) > 0
    assert found.map[inside].mean() > 0.6
    assert found.map[~near].mean() < 0.02


def test_a_patch_is_found_after_recompression_at_another_size() -> None:
    before, after = drawn()
    patched = after.copy()
    patched[PATCHES["lower right"]] = before[PATCHES["lower right"]]
    larger = cv2.resize(patched, (720, 720), interpolation=cv2.INTER_CUBIC)
    sent = cv2.imdecode(cv2.imencode(".jpg", larger, [cv2.IMWRITE_JPEG_QUALITY, 75])[1], cv2.IMREAD_COLOR)
    found = measured(before, sent)["untouched"]
    assert found.value is not None
    assert found.value > 0.03
    assert "lower right" in found.sentence


@pytest.mark.parametrize(("share", "side"), [(0.25, "left"), (0.5, "left"), (0.75, "right")])
def test_evenness_is_the_share_that_the_style_reached(share: float, side: str) -> None:
    before, after = drawn()
    half = after.copy()
    edge = round(512 * share)
    half[:, :edge] = before[:, :edge]
    found = measured(before, half)["evenness"]
    assert found.value == pytest.approx(1 - share, abs=0.05)
    assert side in found.sentence


def test_flat_areas_are_no_untouched_photo() -> None:
    """A white wall stays white in a drawing."""
    before, after = drawn()
    before, after = before.copy(), after.copy()
    before[:, :256], after[:, :256] = 255, 255
    found = measured(before, after)["untouched"]
    assert found.value is not None
    assert found.value < MIN_UNTOUCHED_SEEN


def test_a_photo_without_texture_cannot_tell() -> None:
    flat = np.full((256, 256, 3), 200, np.uint8)
    for name in ("untouched", "evenness", "texture_ratio", "structure_kept"):
        found = measured(flat, flat // 2)[name]
        assert found.value is None
        assert found.sentence.startswith("The image before has no")
