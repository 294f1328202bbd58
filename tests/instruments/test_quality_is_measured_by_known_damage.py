"""Damage of known strength: each quality instrument measures it, more damage more of it, and against the input too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np
import pytest
from skimage import data, measure
from support.instruments import PHOTOS, Image, blurred, flat, jpeg, noisy, photo, resized

from beholder.instruments.pair import ImagePair, SingleImage
from beholder.instruments.quality import (
    HIGH_BANDING,
    HIGH_BLOCKINESS,
    HIGH_HALOS,
    HIGH_NOISE,
    SOFT_SHARPNESS,
    measure_blockiness,
)
from beholder.instruments.registry import measure_image, measure_pair


def grey(image: Image) -> Image:
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)


def of_image(image: Image, name: str) -> float:
    value = measure_image(SingleImage(image), [f"quality.{name}"])[f"quality.{name}"].value
    assert value is not None
    return value


def of_pair(before: Image, after: Image, name: str) -> float:
    value = measure_pair(ImagePair(before, after), [f"quality.{name}"])[f"quality.{name}"].value
    assert value is not None
    return value


def coded(image: Image, quality: int) -> Image:
    pixels = cv2.imdecode(np.frombuffer(jpeg(image, quality), np.uint8), cv2.IMREAD_COLOR)
    return np.ascontiguousarray(np.asarray(pixels, np.uint8)[:, :, ::-1])


def sharpened(image: Image, amount: float) -> Image:
    fine = image.astype(np.float32) - cv2.GaussianBlur(image, (0, 0), 2.0).astype(np.float32)
    return np.clip(image + amount * fine, 0, 255).astype(np.uint8)


def in_tones(image: Image, step: int) -> Image:
    return np.asarray(image // step * step, np.uint8)


def whitened(image: Image, share: float) -> Image:
    result = image.copy()
    result[: round(share * len(image))] = 255
    return result


SKY = np.repeat(np.tile(np.linspace(20, 240, 480).astype(np.uint8), (360, 1))[:, :, None], 3, axis=2)

GRADED: dict[str, tuple[Callable[[Image, Any], Image], Sequence[float], bool, bool]] = {
    # name: the damage and its strengths; whether the number falls; whether a smooth sky stands in for the photo
    "sharpness": (blurred, (0.01, 0.8, 1.5, 3.0, 6.0), True, False),
    "noise": (noisy, (0, 2, 5, 10, 20), False, False),
    "blockiness": (coded, (90, 60, 35, 20, 10), False, False),
    "banding": (in_tones, (1, 2, 4, 8, 16), False, True),
    "clipping": (whitened, (0, 0.1, 0.2, 0.4, 0.8), False, False),
    "halos": (sharpened, (0, 0.5, 1.0, 2.0), False, False),
}


@pytest.mark.parametrize("name", GRADED)
@pytest.mark.parametrize("which", ["astronaut", "coffee", "rocket"])
def test_more_damage_is_more_of_it(name: str, which: str) -> None:
    damage, strengths, falls, sky = GRADED[name]
    image = SKY if sky else photo(which)
    damaged = [damage(image, strength) for strength in strengths]
    alone = [of_image(one, name) for one in damaged]
    against = [of_pair(image, one, f"{name}_change") for one in damaged]
    for values in (alone, against):
        steps = np.diff(values)
        assert (steps < 0).all() if falls else (steps > 0).all(), values


@pytest.mark.parametrize("which", PHOTOS)
@pytest.mark.parametrize("sigma", [0.01, 1.5, 4.0])
def test_sharpness_is_one_less_the_blur_effect(which: str, sigma: float) -> None:
    image = blurred(photo(which), sigma)
    expected = 1 - measure.blur_effect(grey(image), h_size=11)
    assert of_image(image, "sharpness") == pytest.approx(expected, abs=0.02)


def test_sharpness_of_a_large_image_is_that_of_its_parts() -> None:
    tiled = np.tile(data.astronaut(), (3, 2, 1))
    assert of_image(tiled, "sharpness") == pytest.approx(of_image(data.astronaut(), "sharpness"), abs=0.03)


@pytest.mark.parametrize("sigma", [3.0, 5.0, 10.0, 20.0])
def test_noise_is_the_standard_deviation_that_was_added(sigma: float) -> None:
    in_luma = sigma * np.linalg.norm([0.299, 0.587, 0.114])  # the channels' noise is independent
    assert of_image(noisy(flat((128, 128, 128), 256, 256), sigma), "noise") == pytest.approx(in_luma, rel=0.08)
    assert of_image(noisy(photo("chelsea"), sigma), "noise") == pytest.approx(in_luma, rel=0.15)


def test_texture_is_no_noise() -> None:
    assert of_image(photo("rocket"), "noise") < 2 < HIGH_NOISE


def test_a_grid_is_found_wherever_it_begins() -> None:
    image = coded(photo("coffee"), 20)
    assert of_image(image, "blockiness") > HIGH_BLOCKINESS
    assert of_image(image[3:, 5:].copy(), "blockiness") == pytest.approx(of_image(image, "blockiness"), rel=0.05)
    assert of_image(photo("coffee"), "blockiness") < 1.1


def test_a_grid_that_was_shrunk_away_is_not_looked_for() -> None:
    half = measure_blockiness(grey(resized(coded(photo("coffee"), 10), (240, 180), cv2.INTER_LINEAR)), 0.5)
    assert isinstance(half, float)
    assert half > 1.2
    small = SingleImage(photo("coffee"), size=(1600, 1200))
    found = measure_image(small, ["quality.blockiness"])["quality.blockiness"]
    assert found.value is None
    assert "shrunk to 30%" in found.sentence


@pytest.mark.parametrize("step", [2, 4, 8, 16])
def test_banding_is_the_height_of_the_steps(step: int) -> None:
    assert of_image(in_tones(SKY, step), "banding") == pytest.approx(step, rel=0.08)  # one step may lie at the border
    assert (of_image(in_tones(SKY, step), "banding") > HIGH_BANDING) == (step > 2)


def test_a_smooth_sky_and_a_photo_are_not_banded() -> None:
    assert of_image(SKY, "banding") == 0
    for which in PHOTOS:
        assert of_image(photo(which), "banding") < 0.2


@pytest.mark.parametrize("overshoot", [0, 6, 12, 24])
def test_halos_are_the_overshoot_in_shares_of_the_edge(overshoot: int) -> None:
    image = flat((60, 60, 60), 200, 200)
    image[:, 100:] = 180
    image[:, 98:100] = 60 - overshoot
    image[:, 100:102] = 180 + overshoot
    assert of_image(image, "halos") == pytest.approx(overshoot / 120, abs=0.001)
    assert of_image(np.rot90(image), "halos") == pytest.approx(overshoot / 120, abs=0.001)


def test_a_blurred_edge_has_no_halo_and_a_sharpened_photo_has() -> None:
    assert of_image(blurred(photo("coffee"), 1.5), "halos") < 0.01
    assert of_image(sharpened(photo("coffee"), 2.0), "halos") > HIGH_HALOS


def test_clipping_is_the_share_of_white_and_black() -> None:
    image = flat((128, 90, 200), 100, 100)
    image[:30] = 255
    image[30:40] = (0, 1, 0)
    image[40:50] = (255, 255, 0)  # yellow is a colour
    assert of_image(image, "clipping") == pytest.approx(0.4)


def test_an_unchanged_image_is_as_good_as_it_was() -> None:
    image = photo("astronaut")
    found = measure_pair(ImagePair(image, image.copy()), ["quality"])
    changes = {name: one.value for name, one in found.items()}
    ratios = [value for name, value in changes.items() if found[name].unit == "×"]
    assert ratios == [1.0] * 3
    assert [value for name, value in changes.items() if found[name].unit != "×"] == [0.0] * 3
    assert all("as in the input" in one.sentence for one in found.values())


def test_shrinking_alone_is_no_change_of_sharpness() -> None:
    """A smaller output is compared with the input at its own size."""
    large = data.astronaut()
    small = np.asarray(cv2.resize(large, (200, 200), interpolation=cv2.INTER_AREA), np.uint8)
    assert of_pair(large, small, "sharpness_change") == pytest.approx(1, abs=0.02)
    enlarged = np.asarray(cv2.resize(small, (512, 512), interpolation=cv2.INTER_CUBIC), np.uint8)
    assert of_pair(large, enlarged, "sharpness_change") < 0.85


def test_the_words_follow_the_numbers() -> None:
    image = photo("astronaut")
    said = measure_pair(ImagePair(image, blurred(image, 4)), ["quality"])
    assert of_image(blurred(image, 4), "sharpness") < SOFT_SHARPNESS
    assert said["quality.sharpness_change"].sentence.endswith("softer.")
    assert "(soft)" in said["quality.sharpness_change"].sentence
    assert measure_pair(ImagePair(image, coded(image, 10)), ["quality"])["quality.blockiness_change"].sentence.endswith(
        "blockier."
    )


def test_resolution_is_that_of_the_file() -> None:
    found = measure_image(
        SingleImage(photo("coffee"), size=(3000, 1500)), ["quality.print_size", "quality.screen_size"]
    )
    assert found["quality.print_size"].value == pytest.approx(25.4)
    assert "25.4 × 12.7 cm" in found["quality.print_size"].sentence
    pixel = measure_image(SingleImage(photo("coffee")[:1, :1]), ["quality.print_size"])["quality.print_size"]
    assert pixel.sentence == "1×1 px print at 0.1 × 0.1 mm with 300 pixels an inch."
    assert found["quality.screen_size"].value == pytest.approx(3000 / 1920)
    upright = measure_image(SingleImage(photo("coffee"), size=(540, 960)), ["quality.screen_size"])[
        "quality.screen_size"
    ]
    assert upright.value == pytest.approx(0.5)
    assert "enlarged 2.00×" in upright.sentence


def test_both_images_of_a_pair_keep_the_size_of_their_files() -> None:
    pair = ImagePair(photo("coffee"), photo("coffee"), sizes=((4000, 3000), (480, 360)))
    assert [picture.size for picture in pair.images()] == [(4000, 3000), (480, 360)]
