"""Whatever the image: quality and naturalness are finite numbers, or none and a sentence that says why."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.instruments import Image, flat, noisy, photo

from beholder.instruments.instrument import Measurement
from beholder.instruments.naturalness import MIN_SIDE
from beholder.instruments.pair import ImagePair, SingleImage
from beholder.instruments.registry import list_instruments, measure_image, measure_pair

FAMILIES = ("quality", "naturalness")
SHARES = ("clipping", "halos", "small_shapes", "busied", "wiped")

sides = st.integers(1, 120)
fillings = st.sampled_from(["black", "white", "noise", "ramp", "dots", "stripes"])


def image(width: int, height: int, filling: str) -> Image:
    random = np.random.default_rng(width * 1000 + height)
    if filling == "noise":
        return random.integers(0, 256, (height, width, 3), np.uint8)
    row = {
        "ramp": np.linspace(0, 255, width),
        "stripes": np.arange(width) // 3 % 2 * 255,
        "dots": np.zeros(width),
        "black": np.zeros(width),
        "white": np.full(width, 255),
    }[filling]
    grey = np.tile(row.astype(np.uint8), (height, 1))
    if filling == "dots":
        grey[random.random(grey.shape) > 0.97] = 255
    return np.repeat(grey[:, :, None], 3, axis=2)


def check(found: Measurement) -> None:
    assert found.sentence.endswith(".")
    if found.value is None:
        assert found.sentence.startswith("Not measured: ")
        assert found.map is None
        return
    assert math.isfinite(found.value)
    if found.unit == "×":
        assert found.value >= 0
    if found.name.endswith(SHARES):
        assert 0 <= found.value <= 1 + 1e-6, found


@given(sides, sides, fillings)
def test_any_image(width: int, height: int, filling: str) -> None:
    for found in measure_image(SingleImage(image(width, height, filling)), ["quality"]).values():
        check(found)


@given(sides, sides, fillings, sides, sides, fillings)
@settings(max_examples=60)
def test_any_pair(w1: int, h1: int, first: str, w2: int, h2: int, second: str) -> None:
    for found in measure_pair(ImagePair(image(w1, h1, first), image(w2, h2, second)), FAMILIES).values():
        check(found)


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (20, 20)])
def test_a_tiny_image_is_said_to_be(size: tuple[int, int]) -> None:
    tiny = SingleImage(noisy(flat((90, 120, 150), *size)))
    found = measure_image(tiny, ["quality"])
    without = {"quality.clipping", "quality.print_size", "quality.screen_size"}
    assert all("too small" in one.sentence for name, one in found.items() if name not in without)
    assert all(one.value is None for name, one in found.items() if name not in without)


def test_a_flat_image_has_nothing_to_be_sharp_by() -> None:
    found = measure_image(SingleImage(flat((128, 128, 128))), ["quality"])
    for name in ("sharpness", "blockiness", "banding", "halos"):
        assert found[f"quality.{name}"].value is None
    assert found["quality.clipping"].value == 0
    assert measure_image(SingleImage(flat((0, 0, 0))), ["quality"])["quality.noise"].value is None


def test_against_the_input_it_is_said_which_image_cannot_be_measured() -> None:
    pair = ImagePair(photo("coffee"), flat((9, 9, 9), 480, 360))
    said = measure_pair(pair, ["quality.sharpness_change"])["quality.sharpness_change"].sentence
    assert said == "Not measured: of the image after, the image is flat, without an edge that could be sharp."


def test_quality_needs_no_common_shape_but_naturalness_does() -> None:
    found = measure_pair(ImagePair(photo("coffee"), photo("astronaut", 200, 400)), FAMILIES)
    assert all(one.value is None for name, one in found.items() if name.startswith("naturalness"))
    assert found["quality.sharpness_change"].value is not None


def test_naturalness_needs_room() -> None:
    small = photo("coffee", MIN_SIDE - 1, MIN_SIDE - 1)
    for found in measure_pair(ImagePair(small, small), ["naturalness"]).values():
        assert found.value is None
        assert "too small" in found.sentence


def test_there_are_both_kinds() -> None:
    kinds = {kind: {one.name for one in list_instruments(kind)} for kind in ("image", "pair")}
    for name in ("sharpness", "noise", "blockiness", "banding", "clipping", "halos"):
        assert f"quality.{name}" in kinds["image"]
        assert f"quality.{name}_change" in kinds["pair"]
