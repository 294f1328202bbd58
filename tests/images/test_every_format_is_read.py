"""Promise: JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF and HEIC are read, by their bytes and never by their name."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from PIL import Image
from support.images import blocks, photo, pixels, saved

from beholder.errors import ImageError
from beholder.images.image import Sizing
from beholder.images.prepare import prepare_image

FORMATS = {
    "jpeg": "JPEG",
    "png": "PNG",
    "webp": "WEBP",
    "gif": "GIF",
    "bmp": "BMP",
    "tiff": "TIFF",
    "avif": "AVIF",
    "heic": "HEIF",
}


@pytest.mark.parametrize("sizing", [Sizing(), Sizing(max_side=48)], ids=["whole", "shrunk"])
@pytest.mark.parametrize("name", FORMATS)
def test_each_format_arrives_as_what_it_shows(name: str, sizing: Sizing) -> None:
    sent = prepare_image(saved(blocks(), FORMATS[name]), sizing, name="misnamed.txt")
    assert sent.source_format == name
    assert sent.media_type in ("image/jpeg", "image/png", "image/webp")
    assert (sent.source_width, sent.source_height) == (96, 64)
    wanted = np.asarray(blocks(sent.width, sent.height)).astype(int)
    assert abs(pixels(sent.data) - wanted).mean() < 6
    assert sent.notes == ()


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "YCbCr"])
def test_each_kind_of_pixel_of_a_tiff_is_read(mode: str) -> None:
    image = photo().convert(mode)
    sent = prepare_image(saved(image, "TIFF"))
    assert np.array_equal(pixels(sent.data), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("compression", ["tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg"])
def test_compressed_tiffs_are_read(compression: str) -> None:
    sent = prepare_image(saved(photo(), "TIFF", compression=compression))
    assert abs(pixels(sent.data) - np.asarray(photo())).mean() < 6


@pytest.mark.parametrize(
    ("kind", "name"), [("GIF", "gif"), ("WEBP", "webp"), ("TIFF", "tiff"), ("PNG", "png"), ("AVIF", "avif")]
)
def test_of_several_frames_the_first_is_taken_and_flagged(kind: str, name: str) -> None:
    others = [blocks().rotate(180), blocks().transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    sent = prepare_image(saved(blocks(), kind, save_all=True, append_images=others))
    assert sent.notes == (f"first_frame_of_{name}",)
    assert abs(pixels(sent.data) - np.asarray(blocks())).mean() < 6


def test_heic_without_its_decoder_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    file = saved(blocks(), "HEIF")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ImageError, match=r"^holiday\.heic is a HEIC image.*pip install 'beholder\[heic\]'$"):
        prepare_image(file, name="holiday.heic")


def test_pixels_without_a_range_are_refused_rather_than_guessed() -> None:
    for mode in ("F", "I"):
        with pytest.raises(ImageError, match="range"):
            prepare_image(saved(Image.new(mode, (8, 8), 3), "TIFF"))
