"""Whatever two images there are: a restyle is a number with a meaning, or none and a sentence that says why."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.instruments.pair import ImagePair
from beholder.instruments.restyle import INSTRUMENTS, MIN_SIDE

sides = st.integers(1, 90)
fillings = st.sampled_from(["black", "white", "noise", "ramp", "grey noise", "dots"])


def image(width: int, height: int, filling: str) -> np.ndarray:
    random = np.random.default_rng(width * 1000 + height)
    if filling == "ramp":
        row = np.linspace(0, 255, width).astype(np.uint8)
        return np.repeat(np.tile(row, (height, 1))[:, :, None], 3, axis=2)
    if filling == "noise":
        return random.integers(0, 256, (height, width, 3), np.uint8)
    if filling == "grey noise":
        return np.repeat(random.integers(0, 256, (height, width, 1), np.uint8), 3, axis=2)
    if filling == "dots":
        return np.where(random.random((height, width, 1)) > 0.97, 255, 0).astype(np.uint8).repeat(3, axis=2)
    return np.full((height, width, 3), 0 if filling == "black" else 255, np.uint8)


@given(sides, sides, fillings, sides, sides, fillings)
def test_any_pair(w1: int, h1: int, first: str, w2: int, h2: int, second: str) -> None:
    pair = ImagePair(image(w1, h1, first), image(w2, h2, second))
    for instrument in INSTRUMENTS:
        found = instrument.measure(pair)
        assert found.name == instrument.name
        assert found.sentence.endswith(".")
        if found.value is None:
            assert found.map is None
        else:
            assert math.isfinite(found.value)
            assert found.value >= 0
            assert found.unit != "share" or found.value <= 1 + 1e-6
        if found.map is not None:
            assert found.map.shape == pair.before.shape[:2]
            assert np.isfinite(found.map).all()


@pytest.mark.parametrize("size", [(1, 1), (MIN_SIDE - 1, 400), (400, MIN_SIDE - 1)])
def test_a_tiny_image_is_said_to_be(size: tuple[int, int]) -> None:
    tiny = image(*size, "noise")
    for instrument in INSTRUMENTS:
        found = instrument.measure(ImagePair(tiny, tiny))
        assert found.value is None
        assert "too small" in found.sentence


def test_images_of_another_shape_that_show_something_else_are_not_compared() -> None:
    pair = ImagePair(image(90, 40, "noise"), image(40, 90, "ramp"))
    for instrument in INSTRUMENTS:
        found = instrument.measure(pair)
        assert found.value is None
        assert found.sentence.startswith("Not measured: ")
