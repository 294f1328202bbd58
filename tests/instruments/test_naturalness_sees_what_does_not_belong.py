"""What edits do that looks unreal is measured, in its place, and an untouched photo has none of it."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from skimage import color
from support.instruments import Image, flat, noisy, pasted, photo

from beholder.instruments.instrument import Measurement
from beholder.instruments.pair import ImagePair
from beholder.instruments.registry import measure_pair

NEUTRAL = {
    "detail_gained": 1, "detail_lost": 1, "detail_uneven": 0, "foreign": 0, "redrawn": 0,
    "colour_patch": 0, "busied": 0, "wiped": 0, "whitened": 0, "accents": 1, "coarse_shapes": 1,
}  # fmt: skip


def measured(before: Image, after: Image) -> dict[str, Measurement]:
    found = measure_pair(ImagePair(before, after), ["naturalness"])
    return {name.removeprefix("naturalness."): one for name, one in found.items()}


def number(before: Image, after: Image, name: str) -> float:
    value = measured(before, after)[name].value
    assert value is not None
    return value


def blurred_part(image: Image, share: float) -> Image:
    """The upper left part, as wide and high as this share of the sides, without its texture."""
    result = image.copy()
    height, width = (round(share * side) for side in image.shape[:2])
    result[:height, :width] = cv2.GaussianBlur(image, (0, 0), 12)[:height, :width]
    return result


def scribbled(image: Image, share: float) -> Image:
    """Hard stripes over the lower right part."""
    result = image.copy()
    height, width = (round((1 - share) * side) for side in image.shape[:2])
    stripes = (np.indices(result[height:, width:].shape[:2]).sum(axis=0) // 4 % 2 * 255).astype(np.uint8)
    result[height:, width:] = stripes[:, :, None]
    return result


@pytest.mark.parametrize("which", ["astronaut", "chelsea", "coffee", "rocket"])
def test_an_untouched_photo_has_none_of_it(which: str) -> None:
    image = photo(which)
    found = {name: one.value for name, one in measured(image, image.copy()).items()}
    # What is not there has no detail and no size.
    assert (found.pop("standing_out"), found.pop("small_shapes")) == (None, None)
    assert found == pytest.approx(NEUTRAL)


def test_lost_detail_is_found_in_its_place() -> None:
    image = noisy(photo("coffee"), 25)
    found = measured(image, blurred_part(image, 0.4))
    assert found["detail_lost"].value is not None
    assert found["detail_lost"].value < 0.3
    assert "upper left" in found["detail_lost"].sentence
    assert found["detail_gained"].value == pytest.approx(1, abs=0.05)
    assert "No place gained detail" in found["detail_gained"].sentence
    assert found["detail_lost"].map is not None
    assert found["detail_lost"].map[20, 20] < 0.5 < found["detail_lost"].map[-20, -20]


@pytest.mark.parametrize("name", ["detail_uneven", "wiped"])
def test_more_wiped_texture_is_more_of_it(name: str) -> None:
    image = noisy(photo("coffee"), 25)
    values = [number(image, blurred_part(image, share), name) for share in (0, 0.3, 0.5, 0.65)]
    assert (np.diff(values) > 0).all(), values


@pytest.mark.parametrize("name", ["busied", "redrawn", "detail_uneven"])
def test_more_scribbling_is_more_of_it(name: str) -> None:
    image = flat((120, 150, 180), 480, 360)
    values = [number(image, scribbled(image, share), name) for share in (0.1, 0.15, 0.25, 0.4)]
    assert (np.diff(values) >= 0).all(), values
    assert values[-1] > values[0]


def test_scribbling_on_a_calm_sky_is_said_where_it_is() -> None:
    image = flat((120, 150, 180), 480, 360)
    found = measured(image, scribbled(image, 0.3))
    assert found["busied"].value == pytest.approx(0.09, abs=0.03)
    assert "lower right" in found["busied"].sentence
    assert "lower right" in found["foreign"].sentence
    assert found["standing_out"].value is not None
    assert found["standing_out"].value > 3


def test_what_is_copied_from_the_photo_is_not_foreign() -> None:
    image = photo("astronaut", 512, 512)
    copied = image.copy()
    copied[256:384, 256:384] = image[64:192, 64:192]
    stripes = scribbled(image, 0.25)
    assert number(image, copied, "foreign") < 0.7 * number(image, stripes, "foreign")  # its seams are a little foreign
    assert number(image, copied, "redrawn") > 1


def test_a_patch_of_colour_is_measured_by_its_difference() -> None:
    image = flat((128, 128, 128), 480, 360)
    after = pasted(image, 0.5, 0.5, 0.75, 0.75, (128, 128, 255))
    expected = color.deltaE_ciede2000(*(color.rgb2lab(np.array(rgb) / 255) for rgb in ([128] * 3, [128, 128, 255])))
    assert number(image, after, "colour_patch") == pytest.approx(expected, abs=0.1)


def test_new_white_is_counted() -> None:
    image = flat((128, 128, 128), 480, 360)
    assert number(image, pasted(image, 0, 0, 0.5, 0.5, (255, 255, 255)), "whitened") == pytest.approx(0.25, abs=0.01)
    assert number(pasted(image, 0, 0, 0.5, 0.5, (255, 255, 255)), image, "whitened") == pytest.approx(-0.25, abs=0.01)


def test_the_size_of_a_change_tells_small_shapes_from_grain_and_areas() -> None:
    image = photo("coffee", 512, 384)
    dots = image.astype(np.int16)
    dots += (np.indices(dots.shape[:2]) // 6 % 2).sum(axis=0)[:, :, None] % 2 * 24 - 12
    lighter = np.clip(image.astype(np.int16) + 20, 0, 255).astype(np.uint8)
    small = number(image, np.clip(dots, 0, 255).astype(np.uint8), "small_shapes")
    assert small > 2 * number(image, noisy(image, 12), "small_shapes")
    assert small > 2 * number(image, lighter, "small_shapes")


def test_size_hardly_matters() -> None:
    large = photo("astronaut", 1024, 1024)
    after = blurred_part(scribbled(large, 0.2), 0.3)
    half = [np.asarray(cv2.resize(one, (512, 512), interpolation=cv2.INTER_AREA), np.uint8) for one in (large, after)]
    for name, one in measured(large, after).items():
        assert one.value == pytest.approx(number(half[0], half[1], name), rel=0.05, abs=0.02), name


def test_what_a_shift_moved_out_counts_as_unchanged() -> None:
    image = photo("astronaut", 480, 360)
    moved = np.asarray(cv2.warpAffine(image, np.array([[1, 0, 14], [0, 1, 0]], np.float32), (480, 360)), np.uint8)
    found = measured(image, moved)
    assert found["foreign"].value is not None
    assert found["foreign"].value < 0.7
    assert found["coarse_shapes"].value is not None
    assert found["coarse_shapes"].value > 0.95
