"""A thumbnail shows the picture as it is seen: upright, in its colours, at most 512 pixels on a side, no metadata."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from support.images import GPS_MARK, TEXT_MARK, blocks, gps_exif, photo, pixels, saved

from beholder.errors import ImageError
from beholder.images.image import ImageLimits, Sizing
from beholder.images.prepare import make_thumbnail, prepare_image


def size(data: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "JPEG"
        return image.size


@pytest.mark.parametrize("given", [(1600, 1200), (1200, 1600), (96, 64), (3000, 10), (1, 1), (512, 512), (513, 7)])
@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
def test_it_fits_and_is_never_enlarged(given: tuple[int, int], file_format: str) -> None:
    data = saved(photo(*given), file_format)
    width, height = size(make_thumbnail(data))
    as_a_judge_gets_it = prepare_image(data, Sizing(max_side=512))
    assert (width, height) == (as_a_judge_gets_it.width, as_a_judge_gets_it.height)
    assert max(width, height) == min(512, max(given))


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF"])
def test_every_format_that_a_judge_gets(file_format: str) -> None:
    data = saved(blocks(640, 480), file_format)
    expected = pixels(prepare_image(data).data)
    found = pixels(make_thumbnail(data))
    for row, column in ((0.25, 0.25), (0.25, 0.75), (0.75, 0.25), (0.75, 0.75)):
        there = expected[int(row * 480), int(column * 640)]
        assert np.abs(found[int(row * 384), int(column * 512)] - there).max() < 24


@pytest.mark.parametrize("orientation", range(1, 9))
def test_it_is_upright(orientation: int) -> None:
    data = saved(blocks(960, 640), "JPEG", exif=gps_exif(orientation), quality=95)
    upright = np.asarray(Image.open(io.BytesIO(prepare_image(data).data)).convert("RGB")).astype(int)
    found = pixels(make_thumbnail(data))
    for row, column in ((0.2, 0.2), (0.2, 0.8), (0.8, 0.2), (0.8, 0.8)):
        there = upright[int(row * upright.shape[0]), int(column * upright.shape[1])]
        assert np.abs(found[int(row * found.shape[0]), int(column * found.shape[1])] - there).max() < 24


def test_nothing_of_the_metadata_is_in_it() -> None:
    small = make_thumbnail(saved(photo(700, 500), "JPEG", exif=gps_exif(1)))
    assert GPS_MARK not in small
    assert TEXT_MARK not in small
    assert b"Exif" not in small
    assert b"ICC_PROFILE" not in small


def test_grey_and_transparent_pictures() -> None:
    assert size(make_thumbnail(saved(photo(700, 500).convert("L"), "JPEG")))[0] == 512
    clear = Image.new("RGBA", (40, 30), (255, 0, 0, 0))
    assert pixels(make_thumbnail(saved(clear, "PNG")))[15, 20].min() > 250  # over white, as the judge saw it


def test_what_is_no_picture_is_said_to_be_none() -> None:
    with pytest.raises(ImageError, match="photo is a text file"):
        make_thumbnail(b"hello", name="photo")
    with pytest.raises(ImageError, match="at most 100 on a side"):
        make_thumbnail(saved(photo(200, 20), "PNG"), ImageLimits(max_side=100))
