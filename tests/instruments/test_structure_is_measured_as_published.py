"""SSIM, MS-SSIM and GMSD are those of their papers; edges and keypoints see what was kept and what went."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from skimage.metrics import structural_similarity
from support.instruments import PHOTOS, Image, blurred, noisy, pasted, photo, value_of

from beholder.instruments.pair import ImagePair
from beholder.instruments.pixel_metrics import compute_ssim
from beholder.instruments.registry import measure_pair

FAMILY = ["structure.ssim", "structure.ms_ssim", "structure.gradients", "structure.edges", "structure.keypoints"]


def grey(image: Image) -> np.ndarray:
    return (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) / 255).astype(np.float64)


def measured(before: Image, after: Image, name: str) -> float:
    value = measure_pair(ImagePair(before, after), [f"structure.{name}"])[f"structure.{name}"].value
    assert value is not None
    return value


def changed(image: Image) -> dict[str, Image]:
    return {
        "blurred": blurred(image, 2),
        "noisy": noisy(image, 12),
        "darker": (image * 0.6).astype(np.uint8),
        "inverted": 255 - image,
    }


@pytest.mark.parametrize("name", PHOTOS)
@pytest.mark.parametrize("size", [(480, 360), (333, 217), (1000, 97)])
def test_ssim_equals_scikit_image(name: str, size: tuple[int, int]) -> None:
    image = photo(name, *size)
    for what, after in changed(image).items():
        mean, values = structural_similarity(
            grey(image),
            grey(after),
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
            data_range=1,
            full=True,
        )
        ours = compute_ssim(grey(image).astype(np.float32), grey(after).astype(np.float32))[0]
        assert np.abs(ours - values).max() < 1e-3, what
        assert measured(image, after, "ssim") == pytest.approx(mean, abs=1e-4), what


def test_ms_ssim_is_the_product_over_scales_of_its_paper() -> None:
    image = photo("coffee", 512, 384)
    after = noisy(blurred(image, 1), 6)
    one, other = grey(image), grey(after)
    product = 1.0
    for scale, weight in enumerate([0.0448, 0.2856, 0.3001, 0.2363, 0.1333]):
        kernel = {"sigma": 1.5, "truncate": 3.5, "mode": "reflect"}
        x, y = ndimage.gaussian_filter(one, **kernel), ndimage.gaussian_filter(other, **kernel)
        both = ndimage.gaussian_filter(one * other, **kernel) - x * y
        each = ndimage.gaussian_filter(one**2 + other**2, **kernel) - x * x - y * y
        contrast = (2 * both + 0.03**2) / (each + 0.03**2)
        luminance = (2 * x * y + 0.01**2) / (x * x + y * y + 0.01**2)
        values = contrast * luminance if scale == 4 else contrast
        product *= values[5:-5, 5:-5].mean() ** weight
        one, other = (v.reshape(v.shape[0] // 2, 2, v.shape[1] // 2, 2).mean(axis=(1, 3)) for v in (one, other))
    assert measured(image, after, "ms_ssim") == pytest.approx(product, abs=1e-4)


def test_the_gradient_deviation_is_that_of_its_paper() -> None:
    image = photo("chelsea", 400, 300)
    after = blurred(image, 1.5)
    sizes = []
    for values in (grey(image) * 255, grey(after) * 255):
        half = values.reshape(150, 2, 200, 2).mean(axis=(1, 3))
        filters = np.array([[1, 0, -1]] * 3) / 3
        sizes.append(np.hypot(ndimage.convolve(half, filters), ndimage.convolve(half, filters.T))[1:-1, 1:-1])
    similar = (2 * sizes[0] * sizes[1] + 170) / (sizes[0] ** 2 + sizes[1] ** 2 + 170)
    assert measured(image, after, "gradients") == pytest.approx(similar.std(), abs=1e-4)


def test_textures_that_all_went_have_no_small_deviation() -> None:
    texture = np.random.default_rng(3).integers(0, 256, (200, 300, 3), np.uint8)
    said = measure_pair(ImagePair(texture, np.zeros_like(texture)), ["structure"])
    assert said["structure.gradients"].value is None
    assert value_of(said["structure.ssim"]) < 0.05


@pytest.mark.parametrize("name", PHOTOS)
def test_an_identical_image_is_perfect(name: str) -> None:
    said = measure_pair(ImagePair(photo(name), photo(name)), FAMILY)
    assert [round(said[one].value or 0, 5) for one in FAMILY] == [1, 1, 0, 1, 1]


@pytest.mark.parametrize("name", PHOTOS)
def test_more_damage_is_never_closer(name: str) -> None:
    image = photo(name)
    for family, direction in (("ssim", -1), ("ms_ssim", -1), ("gradients", 1), ("edges", -1), ("keypoints", -1)):
        values = [measured(image, blurred(image, sigma), family) for sigma in (0.6, 1.5, 4, 9)]
        assert np.all(np.diff(values) * direction >= 0), (family, values)
        assert values[0] != values[-1]


@given(st.integers(0, 10_000))
@settings(max_examples=15)
def test_ssim_is_symmetric_and_within_its_range(seed: int) -> None:
    random = np.random.default_rng(seed)
    one, other = random.integers(0, 256, (2, 60, 70, 3), np.uint8)
    there, back = (compute_ssim(*pair)[0] for pair in (ImagePair(one, other).luma, ImagePair(other, one).luma))
    assert np.allclose(there, back, atol=1e-5)
    assert there.min() >= -1.0001
    assert there.max() <= 1.0001


def test_edges_count_what_went_and_what_is_new() -> None:
    before = np.full((300, 400, 3), 255, np.uint8)
    cv2.rectangle(before, (40, 40), (140, 140), (0, 0, 0), -1)
    after = before.copy()
    cv2.rectangle(after, (240, 160), (340, 260), (0, 0, 0), -1)
    said = measure_pair(ImagePair(before, after), ["structure.edges"])["structure.edges"]
    assert said.sentence == "100 % of the edges are still there, and 50 % of those after are new."
    assert said.value == pytest.approx(2 / 3, abs=0.01)


def test_edges_are_the_same_in_other_light() -> None:
    image = photo("coffee")
    assert measured(image, (image * 0.4).astype(np.uint8), "edges") > 0.8
    assert measured(image, photo("rocket"), "edges") < 0.35


@pytest.mark.parametrize("name", ["astronaut", "coffee"])
def test_keypoints_stay_where_nothing_was_done(name: str) -> None:
    image = photo(name)
    left = pasted(image, 0, 0, 0.5, 1, (120, 120, 120))
    said = measure_pair(ImagePair(image, noisy(left, 1)), ["structure.keypoints"])["structure.keypoints"]
    assert 0.2 < (said.value or 0) < 0.8
    assert "left" in said.sentence
    assert measured(image, noisy(image, 4), "keypoints") > 0.9
    assert measured(image, photo("chelsea"), "keypoints") < 0.05


def test_the_map_shows_where_structure_went() -> None:
    image = photo("coffee")
    said = measure_pair(ImagePair(image, pasted(image, 0.6, 0.6, 0.9, 0.9, (90, 200, 40))), ["structure.ssim"])
    values = said["structure.ssim"].map
    assert values is not None
    assert values.shape == image.shape[:2]
    assert values[250:310, 310:400].mean() < 0.5
    assert values[:180, :240].min() > 0.999
    assert said["structure.ssim"].sentence.endswith("least lower right.")
