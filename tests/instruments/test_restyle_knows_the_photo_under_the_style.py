"""A restyle keeps the composition whatever it does to colour and texture; another photo does not have it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import permutations
from typing import Any

import cv2
import numpy as np
import pytest
import skimage.data

from beholder.instruments.instrument import Measurement
from beholder.instruments.pair import ImagePair
from beholder.instruments.restyle import (
    INSTRUMENTS,
    MAX_COMPOSITION_LOST,
    MAX_STRENGTH,
    MIN_COMPOSITION_KEPT,
    MIN_STRENGTH,
)

Image = Any
PHOTOS = ("astronaut", "chelsea", "coffee", "rocket")


@cache
def photo(name: str) -> Image:
    return getattr(skimage.data, name)()


def measured(before: Image, after: Image) -> dict[str, Measurement]:
    pair = ImagePair(before, after)
    return {one.name.removeprefix("restyle."): one.measure(pair) for one in INSTRUMENTS}


def stylised(image: Image) -> Image:
    return cv2.stylization(image, sigma_s=60, sigma_r=0.45)


def pencil(image: Image) -> Image:
    return cv2.cvtColor(cv2.pencilSketch(image, sigma_s=60, sigma_r=0.07, shade_factor=0.05)[0], cv2.COLOR_GRAY2RGB)


def colour_pencil(image: Image) -> Image:
    return cv2.pencilSketch(image, sigma_s=60, sigma_r=0.07, shade_factor=0.05)[1]


def poster(image: Image) -> Image:
    return cv2.medianBlur(image, 7) // 64 * 85


def other_hues(image: Image) -> Image:
    hsv = cv2.cvtColor(image, cv2.COLOR_RGB2HSV)
    hsv[:, :, 0] = (hsv[:, :, 0].astype(int) + 60) % 180
    return cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)


def halftone(image: Image) -> Image:
    """Round dots of 8 pixels, black on white, at 45°."""
    grey = cv2.GaussianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), (0, 0), 2) / 255
    y, x = np.mgrid[: grey.shape[0], : grey.shape[1]] * (np.pi / 4 / np.sqrt(2))
    screen = (np.cos(x + y) + np.cos(x - y)) / 4 + 0.5
    return np.repeat(np.where(grey > screen, 255, 0).astype(np.uint8)[:, :, None], 3, axis=2)


def line_art(image: Image) -> Image:
    grey = cv2.medianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), 7)
    drawn = cv2.adaptiveThreshold(grey, 255, cv2.ADAPTIVE_THRESH_MEAN_C, cv2.THRESH_BINARY, 9, 4)
    return cv2.cvtColor(drawn, cv2.COLOR_GRAY2RGB)


def negative(image: Image) -> Image:
    return 255 - image


STYLES: tuple[Callable[[Image], Image], ...] = (
    *(stylised, pencil, colour_pencil, poster, other_hues, halftone, line_art, negative),
)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", PHOTOS)
def test_a_true_restyle_keeps_the_composition(name: str, style: Callable[[Image], Image]) -> None:
    found = measured(photo(name), style(photo(name)))
    kept, strength = found["structure_kept"], found["strength"]
    assert kept.value is not None
    assert strength.value is not None
    assert kept.value > MIN_COMPOSITION_KEPT, kept.sentence
    assert "composition is kept" in kept.sentence
    assert strength.value > MIN_STRENGTH, strength.sentence


@pytest.mark.parametrize(("name", "other"), list(permutations(PHOTOS, 2)))
@pytest.mark.parametrize("style", [lambda image: image, stylised])
def test_another_photo_has_lost_it(name: str, other: str, style: Callable[[Image], Image]) -> None:
    before = photo(name)
    after = cv2.resize(style(photo(other)), before.shape[1::-1], interpolation=cv2.INTER_AREA)
    kept = measured(before, after)["structure_kept"]
    assert kept.value is not None
    assert kept.value < MAX_COMPOSITION_LOST, kept.sentence
    assert "composition is lost" in kept.sentence


@pytest.mark.parametrize("shade", [0, 128, 255])
def test_nothing_is_kept_on_an_empty_sheet(shade: int) -> None:
    found = measured(photo("coffee"), np.full_like(photo("coffee"), shade))
    assert found["structure_kept"].value == 0
    assert found["texture_ratio"].value is not None
    assert found["texture_ratio"].value < 0.1


def test_redrawing_with_edges_a_little_aside_still_keeps_it() -> None:
    before = photo("astronaut")
    height, width = before.shape[:2]
    y, x = np.mgrid[:height, :width].astype(np.float32)
    bent = cv2.remap(before, x + 8 * np.sin(y / 60), y + 8 * np.sin(x / 70), cv2.INTER_LINEAR)
    kept = measured(before, stylised(bent))["structure_kept"]
    assert kept.value is not None
    assert kept.value > MIN_COMPOSITION_KEPT


def test_where_the_composition_is_lost_is_on_the_map() -> None:
    before = photo("astronaut")
    after = stylised(before)
    after[256:] = stylised(cv2.resize(photo("coffee"), before.shape[1::-1]))[256:]
    found = measured(before, after)["structure_kept"]
    assert found.map is not None
    assert found.map.shape == before.shape[:2]
    assert found.map[:200].mean() > found.map[300:].mean() + 0.2


@pytest.mark.parametrize("name", PHOTOS)
def test_identical_images_have_strength_0(name: str) -> None:
    found = measured(photo(name), photo(name).copy())
    assert found["strength"].value == 0
    assert "identical" in found["strength"].sentence
    assert found["structure_kept"].value == pytest.approx(1)
    assert found["texture_change"].value == 0
    assert found["texture_ratio"].value == 1
    assert found["untouched"].value == 1
    assert found["evenness"].value is None


def recompressed(image: Image) -> Image:
    return cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 60])[1], cv2.IMREAD_COLOR)


def halved(image: Image) -> Image:
    return cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)


def grained(image: Image) -> Image:
    return np.clip(image + np.random.default_rng(5).normal(0, 4, image.shape), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("change", [recompressed, halved, grained])
@pytest.mark.parametrize("name", PHOTOS)
def test_what_is_no_restyle_is_called_too_little(name: str, change: Callable[[Image], Image]) -> None:
    found = measured(photo(name), change(photo(name)))
    assert found["strength"].value is not None
    assert found["strength"].value < MIN_STRENGTH
    assert "too little" in found["strength"].sentence
    assert found["untouched"].value is not None
    assert found["untouched"].value > 0.9
    assert found["evenness"].value is None


def test_nothing_left_of_the_surface_is_called_too_much() -> None:
    squares = np.kron(np.random.default_rng(0).integers(0, 2, (32, 32)), np.ones((8, 8))) * 255
    before = np.repeat(squares[:, :, None], 3, axis=2).astype(np.uint8)
    blue = np.zeros_like(before)
    blue[:, :, 2] = 255 - before[:, :, 0]
    found = measured(before, blue)["strength"]
    assert found.value is not None
    assert found.value > MAX_STRENGTH
    assert "too much" in found.sentence


@pytest.mark.parametrize("style", [stylised, poster, halftone])
def test_more_of_a_style_is_more_strength(style: Callable[[Image], Image]) -> None:
    before = photo("chelsea")
    after = style(before)
    values = [
        measured(before, cv2.addWeighted(before, 1 - share, after, share, 0))["strength"].value
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert values == sorted(values, key=lambda value: value or 0)


def test_strength_hardly_depends_on_the_resolution() -> None:
    before = photo("astronaut")
    after = stylised(before)
    large, small = (
        (cv2.resize(one, (size, size), interpolation=cv2.INTER_AREA) for one in (before, after)) for size in (1024, 384)
    )
    values = [measured(*pair)["strength"].value or 0 for pair in (large, small)]
    assert abs(values[0] - values[1]) < 0.1


def test_texture_says_flattened_or_added() -> None:
    flat = measured(photo("chelsea"), cv2.edgePreservingFilter(photo("chelsea"), flags=1, sigma_s=60, sigma_r=0.4))
    busy = measured(photo("chelsea"), halftone(photo("chelsea")))
    assert (flat["texture_ratio"].value or 9) < 0.8 < 2 < (busy["texture_ratio"].value or 0)
    assert "flatter" in flat["texture_ratio"].sentence
    assert "busier" in busy["texture_ratio"].sentence
    assert (busy["texture_change"].value or 0) > 0.4
