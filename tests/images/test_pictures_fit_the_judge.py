"""Promise: a picture never exceeds the judge's limits, is never scaled up, and what was sent is told."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from support.images import photo, pixels, saved

from beholder.errors import ImageError
from beholder.images.image import Sizing
from beholder.images.prepare import fit_size, prepare_image

NOISE = Image.fromarray(np.random.default_rng(3).integers(0, 256, (200, 300, 3), dtype=np.uint8))


@given(
    st.integers(1, 16_384),
    st.integers(1, 16_384),
    st.none() | st.integers(16, 4096),
    st.sampled_from([None, "low", "high"]),
)
def test_a_fitted_size_is_within_every_limit_and_of_the_same_shape(
    width: int, height: int, max_side: int | None, detail: str | None
) -> None:
    w, h = fit_size(width, height, Sizing(max_side=max_side, detail=detail))
    assert 1 <= w <= width
    assert 1 <= h <= height
    assert max_side is None or max(w, h) <= max_side
    assert detail != "low" or max(w, h) <= 512
    assert abs(w / width - h / height) <= 1 / min(width, height)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP"])
def test_the_size_that_was_sent_is_the_size_that_is_told(kind: str) -> None:
    sent = prepare_image(saved(photo(640, 400), kind), Sizing(max_side=333))
    with Image.open(io.BytesIO(sent.data)) as image:
        assert image.size == (sent.width, sent.height) == (333, 208)
    assert sent.scaled
    wanted = np.asarray(photo(640, 400).resize((333, 208), Image.Resampling.BOX)).astype(int)
    assert abs(pixels(sent.data) - wanted).mean() < 3


def test_small_pictures_are_not_scaled_up() -> None:
    sent = prepare_image(saved(photo(30, 20), "BMP"), Sizing(max_side=2048))
    assert (sent.width, sent.height) == (30, 20)


def test_detail_low_bounds_the_side() -> None:
    assert prepare_image(saved(photo(1024, 512), "JPEG"), Sizing(detail="low")).width == 512
    assert prepare_image(saved(photo(1024, 512), "JPEG"), Sizing(detail="high")).width == 1024


def test_what_came_lossless_stays_lossless_while_it_fits() -> None:
    bmp = saved(photo(), "BMP")
    sent = prepare_image(bmp)
    assert sent.media_type == "image/png"
    assert np.array_equal(pixels(sent.data), np.asarray(photo()))
    assert prepare_image(bmp, Sizing(max_bytes=len(sent.data) - 1)).media_type == "image/jpeg"


def test_quality_falls_in_stated_steps_and_only_then_the_size() -> None:
    bmp = saved(NOISE, "BMP")
    jpeg_only = frozenset({"jpeg"})
    seen = []
    limit: int | None = None
    for _ in range(4):
        sent = prepare_image(bmp, Sizing(max_bytes=limit, formats=jpeg_only))
        assert limit is None or len(sent.data) <= limit
        seen.append((sent.notes, sent.width))
        limit = len(sent.data) - 1
    assert seen[:3] == [((), 300), (("jpeg_quality_85",), 300), (("jpeg_quality_78",), 300)]
    assert seen[3][1] == 225


@pytest.mark.parametrize("formats", [{"jpeg"}, {"png"}, {"webp"}, {"jpeg", "png"}])
@pytest.mark.parametrize("max_bytes", [2_000, 20_000])
def test_the_limit_of_bytes_holds_for_every_format(formats: set[str], max_bytes: int) -> None:
    for kind in ("PNG", "JPEG", "WEBP"):
        sent = prepare_image(saved(NOISE, kind), Sizing(max_bytes=max_bytes, formats=frozenset(formats)))
        assert len(sent.data) <= max_bytes
        assert sent.media_type.removeprefix("image/") in formats


def test_a_limit_that_nothing_fits_is_an_image_error() -> None:
    with pytest.raises(ImageError, match="cannot be made to fit into 10 bytes"):
        prepare_image(saved(NOISE, "PNG"), Sizing(max_bytes=10))


def test_reencoding_adds_nothing_that_can_be_seen() -> None:
    sent = prepare_image(saved(photo(400, 300), "BMP"), Sizing(formats=frozenset({"jpeg"})))
    error = pixels(sent.data) - np.asarray(photo(400, 300)).astype(int)
    assert 10 * np.log10(255**2 / (error**2).mean()) > 38  # dB, where people no longer tell two pictures apart


def test_grey_stays_grey() -> None:
    sent = prepare_image(saved(photo(400, 300).convert("L"), "JPEG"), Sizing(max_side=100))
    with Image.open(io.BytesIO(sent.data)) as image:
        assert image.mode == "L"
