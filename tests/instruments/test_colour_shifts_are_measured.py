"""What became of the colours as a whole: exposure, contrast, saturation, a cast, the palette."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.instruments import PHOTOS, Image, flat, noisy, pasted, photo, value_of

from beholder.instruments.instrument import Measurement
from beholder.instruments.pair import ImagePair
from beholder.instruments.pixel_metrics import compute_color_difference, to_lab
from beholder.instruments.registry import measure_pair


def colour(before: Image, after: Image, mask: np.ndarray | None = None) -> dict[str, Measurement]:
    said = measure_pair(ImagePair(before, after, mask=mask), ["colour"])
    return {name.partition(".")[2]: one for name, one in said.items()}


def test_one_difference_everywhere_is_measured_exactly() -> None:
    first, second = (120, 90, 60), (150, 80, 90)
    true = compute_color_difference(np.array([[first]], np.uint8), np.array([[second]], np.uint8)).item()
    said = colour(flat(first), flat(second))
    assert said["difference_median"].value == pytest.approx(true, abs=1e-3)
    assert said["difference_high"].value == pytest.approx(true, abs=1e-3)
    assert said["noticeable"].value == (1 if true > 10 else 0)


def test_quantiles_tell_a_tenth_from_a_half() -> None:
    grey = flat((128, 128, 128), 400, 300)
    said = colour(grey, pasted(grey, 0, 0, 0.1, 1, (255, 255, 255)))
    assert said["difference_median"].value == 0
    assert value_of(said["difference_high"]) > 30
    assert said["noticeable"].value == pytest.approx(0.1)
    assert said["noticeable"].sentence == "10 % of the pixels differ by more than ΔE 10, mostly along the left edge."
    assert said["difference_median"].map is not None
    assert said["difference_median"].map_top == 40
    # The sentence stands above the map, and must say what glows there.
    assert said["difference_median"].sentence == (
        "Half of the pixels or more look the same (median ΔE 0.0); what changed is mostly along the left edge."
    )


def test_quantiles_of_a_large_image_are_those_of_all_its_pixels() -> None:
    image = photo("coffee", 1200, 900)
    pair = ImagePair(image, noisy(photo("coffee", 1200, 900), 25))
    assert pair.difference_quantiles[0] == pytest.approx(np.quantile(pair.difference, 0.5), rel=0.02)
    assert pair.difference_quantiles[1] == pytest.approx(np.quantile(pair.difference, 0.95), rel=0.02)


@pytest.mark.parametrize("name", PHOTOS)
def test_exposure_contrast_and_saturation_are_those_of_cielab(name: str) -> None:
    image = photo(name)
    after = np.clip(image * 0.7 + 20, 0, 255).astype(np.uint8)
    said = colour(image, after)
    first, second = to_lab(image), to_lab(after)
    chroma = [float(np.hypot(one[..., 1], one[..., 2]).mean()) for one in (first, second)]
    assert said["exposure"].value == pytest.approx(float(second[..., 0].mean() - first[..., 0].mean()), abs=0.3)
    assert said["contrast"].value == pytest.approx(float(second[..., 0].std() / first[..., 0].std()), abs=0.01)
    assert said["saturation"].value == pytest.approx(chroma[1] - chroma[0], abs=0.3)
    assert "what it was" in said["contrast"].sentence
    assert "less colourful" in said["saturation"].sentence


@pytest.mark.parametrize(
    ("change", "towards"),
    [((0, 0, -45), "yellow"), ((0, 0, 45), "blue"), ((45, -10, 10), "red"), ((-40, 10, -10), "green")],
)
def test_a_cast_is_told_by_its_colour(change: tuple[int, int, int], towards: str) -> None:
    image = photo("chelsea")
    after = np.clip(image.astype(int) + change, 0, 255).astype(np.uint8)
    mask = np.zeros(image.shape[:2], np.bool_)
    mask[100:200, 100:200] = True
    said = colour(image, after, mask)["cast"]
    first, second = (to_lab(one)[~mask][:, 1:].mean(axis=0) for one in (image, after))
    assert said.value == pytest.approx(float(np.hypot(*(second - first))), abs=0.4)
    assert towards in said.sentence


def test_the_edit_itself_is_no_cast() -> None:
    image = photo("coffee")
    said = colour(image, pasted(image, 0.1, 0.1, 0.4, 0.4, (0, 0, 255)))["cast"]
    assert said.value == pytest.approx(0, abs=0.2)
    assert said.sentence == "Outside the edit the colours lean neither way."


def test_no_cast_is_told_where_the_change_fills_the_image() -> None:
    assert colour(photo("coffee"), 255 - photo("coffee"))["cast"].value is None


def test_the_palette_does_not_care_where_colours_are() -> None:
    image = photo("coffee")
    flipped = np.ascontiguousarray(image[::-1, ::-1])
    said = colour(image, flipped)
    assert value_of(said["palette"]) < 0.7
    assert value_of(said["difference_median"]) > 10


@given(st.integers(-40, 40), st.integers(30, 200))
@settings(max_examples=20)
def test_a_shift_of_all_colours_is_the_palette_distance(change: int, base: int) -> None:
    # A shift of lightness alone: greys only.
    other = int(np.clip(base + change, 0, 255))
    first, second = flat((base, base, base)), flat((other, other, other))
    true = abs(float(to_lab(second)[0, 0, 0] - to_lab(first)[0, 0, 0]))
    assert colour(first, second)["palette"].value == pytest.approx(true, rel=0.06, abs=0.02)


@pytest.mark.parametrize(("one", "other"), [("coffee", "rocket"), ("chelsea", "astronaut")])
def test_the_palette_distance_is_symmetric(one: str, other: str) -> None:
    there, back = (colour(photo(a), photo(b))["palette"].value for a, b in ((one, other), (other, one)))
    assert there == pytest.approx(back, rel=1e-4)


@pytest.mark.parametrize("name", PHOTOS)
def test_an_identical_image_has_the_same_colours(name: str) -> None:
    said = colour(photo(name), photo(name))
    for one in ("difference_median", "difference_high", "noticeable", "palette", "exposure", "saturation", "cast"):
        assert said[one].value == 0, one
    assert said["contrast"].value == 1
