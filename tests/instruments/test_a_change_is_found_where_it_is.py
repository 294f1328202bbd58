"""Where a change is, how much of the image it takes, and what of it lies where it does not belong."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.instruments import PHOTOS, Image, flat, noisy, pasted, photo, value_of

from beholder.instruments.instrument import Bools, Measurement
from beholder.instruments.pair import ImagePair
from beholder.instruments.pixel_metrics import compute_color_difference
from beholder.instruments.regions import find_changed_regions
from beholder.instruments.registry import measure_pair

GREY = flat((128, 128, 128), 400, 300)
RED = (220, 20, 20)


def locality(pair: ImagePair) -> dict[str, Measurement]:
    return {name.partition(".")[2]: one for name, one in measure_pair(pair, ["locality"]).items()}


def delta(one: tuple[int, int, int], other: tuple[int, int, int]) -> float:
    return compute_color_difference(np.array([[one]], np.uint8), np.array([[other]], np.uint8)).item()


def test_a_red_square_in_the_upper_left() -> None:
    pair = ImagePair(GREY, pasted(GREY, 0.05, 0.05, 0.25, 0.30, RED))
    said = locality(pair)
    assert said["changed"].value == pytest.approx(0.05, abs=0.003)
    assert said["changed"].sentence == "5 % of the image changed, mostly upper left."
    assert said["regions"].value == 1
    assert said["regions"].sentence.startswith("One region of change: upper left (5 % of the image, ΔE ")
    (region,) = find_changed_regions(pair.difference, pair.changed_mask)
    assert region.difference == pytest.approx(delta((128, 128, 128), RED), rel=0.06)
    assert said["region"].sentence.endswith("of the image, upper left.")
    assert said["leakage"].value == 0
    assert said["inside"].value == 1
    assert said["concentration"].value == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("name", PHOTOS)
def test_it_is_found_on_a_noisy_photograph_too(name: str) -> None:
    image = photo(name)
    said = locality(ImagePair(image, noisy(pasted(image, 0.7, 0.7, 0.9, 0.95, (250, 0, 250)), 4)))
    assert said["changed"].value == pytest.approx(0.05, abs=0.01)
    assert said["changed"].sentence.endswith("mostly lower right.")
    assert value_of(said["leakage"]) < 0.1


def test_each_of_several_regions_is_told_the_largest_first() -> None:
    after = pasted(pasted(GREY, 0.05, 0.05, 0.2, 0.2, RED), 0.7, 0.6, 0.95, 0.9, (20, 20, 220))
    said = locality(ImagePair(GREY, after))["regions"]
    assert said.value == 2
    assert said.sentence.startswith("2 regions of change: lower right (8 % of the image, ΔE")
    assert " and upper left (2 % of the image, ΔE" in said.sentence
    boxes = [
        one.box for one in find_changed_regions(ImagePair(GREY, after).difference, ImagePair(GREY, after).changed_mask)
    ]
    assert boxes == [pytest.approx((0.7, 0.6, 0.95, 0.9), abs=0.02), pytest.approx((0.05, 0.05, 0.2, 0.2), abs=0.02)]


@given(st.floats(0, 0.7), st.floats(0, 0.7), st.floats(0.08, 0.3), st.floats(0.08, 0.3))
@settings(max_examples=30)
def test_the_share_is_that_of_the_rectangle(left: float, top: float, width: float, height: float) -> None:
    after = pasted(GREY, left, top, left + width, top + height, RED)
    true = float(np.any(after != GREY, axis=2).mean())
    said = locality(ImagePair(GREY, after))
    assert said["changed"].value == pytest.approx(true, abs=0.012)
    assert said["regions"].value == 1
    assert said["leakage"].value == 0


def test_leakage_outside_a_given_mask_is_exact() -> None:
    mask = np.zeros((300, 400), np.bool_)
    mask[100:200, 100:300] = True
    patch = pasted(pasted(GREY, 0.25, 1 / 3, 0.75, 2 / 3, RED), 0.3, 0, 0.7, 0.1, (90, 160, 200))
    said = locality(ImagePair(GREY, patch, mask=mask))
    outside = 1 - 1 / 6
    assert said["leakage"].value == pytest.approx(0.04 / outside, abs=1e-6)
    assert said["leakage"].sentence == "5 % of the pixels outside the mask differ by more than ΔE 10, mostly top."
    assert said["leakage_mean"].value == pytest.approx(
        0.04 / outside * delta((128, 128, 128), (90, 160, 200)), rel=1e-3
    )
    assert said["leakage_high"].value == 0
    assert said["edit"].value == pytest.approx(delta((128, 128, 128), RED), rel=1e-4)
    assert said["region"].sentence == "The given mask covers 17 % of the image, centre."
    values = said["leakage_mean"].map
    assert values is not None
    assert values[150, 200] == 0
    assert values[10, 200] == pytest.approx(delta((128, 128, 128), (90, 160, 200)), rel=1e-4)


def test_leakage_is_seen_beside_an_inferred_edit() -> None:
    # The edit is by far the strongest change; a weaker one took hold of the sky.
    after = pasted(pasted(GREY, 0, 0, 1, 0.3, (122, 128, 150)), 0.4, 0.5, 0.6, 0.8, (0, 255, 0))
    pair = ImagePair(GREY, after)
    said = locality(pair)
    assert pair.region_is_inferred
    assert said["region"].value == pytest.approx(0.09, abs=0.02)
    assert said["leakage"].value == pytest.approx(0.3 / 0.91, abs=0.02)
    sentence = "33 % of the pixels outside the inferred edit differ by more than ΔE 10, mostly across the top."
    assert said["leakage"].sentence == sentence


def test_a_tint_over_everything_leaks_from_the_edit() -> None:
    image = photo("coffee")
    tinted = np.clip(image.astype(int) + np.array([60, 0, -60]), 0, 255).astype(np.uint8)
    said = locality(ImagePair(image, pasted(tinted, 0.6, 0.2, 0.8, 0.5, (0, 255, 60))))
    assert value_of(said["region"]) < 0.2
    assert value_of(said["leakage"]) > 0.5
    assert value_of(said["leakage_mean"]) > 8


def test_nothing_is_said_of_leakage_where_the_change_fills_the_image() -> None:
    for after in (photo("rocket"), 255 - photo("coffee")):
        said = locality(ImagePair(photo("coffee"), after))
        for name in ("leakage", "leakage_mean", "leakage_high", "inside"):
            assert said[name].value is None
            assert "so nothing tells what was to stay; a mask would" in said[name].sentence


def test_a_mask_tells_though_the_change_fills_the_image() -> None:
    mask = np.zeros((360, 480), np.bool_)
    mask[:, :240] = True
    said = locality(ImagePair(photo("coffee"), 255 - photo("coffee"), mask=mask))
    assert value_of(said["leakage"]) > 0.9


def test_no_change_leaks_nothing() -> None:
    image = photo()
    said = locality(ImagePair(image, noisy(image, 1)))
    assert said["changed"].sentence == "Nothing that can be seen has changed."
    assert (said["changed"].value, said["regions"].value, said["region"].value, said["leakage"].value) == (0, 0, 0, 0)
    assert said["edit"].value is None
    assert "no edit is seen" in said["leakage"].sentence


@pytest.mark.parametrize("full", [False, True])
def test_a_mask_that_is_empty_or_full_says_so(full: bool) -> None:
    after = pasted(GREY, 0.1, 0.1, 0.3, 0.3, RED)
    said = locality(ImagePair(GREY, after, mask=np.full((300, 400), full)))
    if full:
        assert (said["region"].value, said["leakage"].value) == (1, None)
        assert said["leakage"].sentence == "Not measured: the mask leaves nothing outside."
    else:
        assert (said["region"].value, said["inside"].value, said["edit"].value) == (0, None, None)
        assert said["edit"].sentence == "Not measured: the mask is empty."
        assert said["leakage"].value == pytest.approx(0.04, abs=0.001)


def test_a_change_that_is_the_same_everywhere_is_not_concentrated() -> None:
    said = locality(ImagePair(GREY, flat((180, 128, 128), 400, 300)))
    assert said["concentration"].value == pytest.approx(0, abs=1e-4)
    assert said["changed"].sentence == "100 % of the image changed, everywhere."


def inpainted(image: Image) -> tuple[Image, Bools]:
    mask = np.zeros(image.shape[:2], np.uint8)
    cv2.ellipse(mask, (image.shape[1] // 3, image.shape[0] // 2), (70, 90), 0, 0, 360, 255, -1)
    return np.asarray(cv2.inpaint(image, mask, 5, cv2.INPAINT_TELEA), np.uint8), mask > 0


def test_the_inferred_region_is_about_where_an_object_was_inpainted() -> None:
    image = photo("astronaut")
    after, mask = inpainted(image)
    region = ImagePair(image, after).region
    assert (region & mask).sum() / mask.sum() > 0.6
    assert (region & ~mask).sum() / mask.sum() < 0.35
