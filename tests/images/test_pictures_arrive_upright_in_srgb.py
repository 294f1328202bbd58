"""Promise: what a judge sees is what a person's viewer shows: upright, sRGB, 8 bits, over the declared background."""

from __future__ import annotations

import io
import struct

import cv2
import numpy as np
import pytest
from PIL import Image, ImageCms, ImageOps
from support.images import (
    P3_COLUMNS,
    blocks,
    gps_exif,
    photo,
    pixels,
    profile,
    saved,
    with_jpeg_segment,
    with_png_chunk,
)

from beholder.images.image import Sizing
from beholder.images.prepare import prepare_image

# x and y of white, red, green and blue, in 1/100000.
SRGB_CHRM = struct.pack(">8I", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
P3_CHRM = struct.pack(">8I", 31270, 32900, 68000, 32000, 26500, 69000, 15000, 6000)


def _close(found: np.ndarray, wanted: np.ndarray, tolerance: float = 6) -> bool:
    return found.shape == wanted.shape and abs(found - wanted.astype(int)).mean() < tolerance


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF", "HEIF"])
def test_every_orientation_is_turned_upright(kind: str, orientation: int) -> None:
    stored = blocks()
    stored.getexif()[0x0112] = orientation
    upright = np.asarray(ImageOps.exif_transpose(stored))
    exif = Image.Exif()
    exif[0x0112] = orientation

    sent = prepare_image(saved(blocks(), kind, exif=exif.tobytes() if kind == "HEIF" else exif))

    assert (sent.height, sent.width) == upright.shape[:2]
    assert _close(pixels(sent.data), upright)
    assert not sent.scaled
    if kind != "HEIF":  # libheif turns HEIC itself and does not say so
        assert ("rotated_upright" in sent.notes) == (orientation != 1)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_scaled_by_its_upright_size(orientation: int) -> None:
    jpeg = saved(blocks(640, 160), "JPEG", exif=gps_exif(orientation))
    sent = prepare_image(jpeg, Sizing(max_side=80))
    assert (sent.width, sent.height) == ((80, 20) if orientation < 5 else (20, 80))
    assert sent.scaled


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF", "HEIF"])
def test_colours_of_another_profile_become_srgb(kind: str) -> None:
    p3 = profile(P3_COLUMNS)
    flat = Image.new("RGB", (32, 32), (200, 80, 60))
    wanted = ImageCms.profileToProfile(flat, io.BytesIO(p3), ImageCms.createProfile("sRGB"))
    assert abs(np.asarray(wanted)[0, 0].astype(int) - (200, 80, 60)).max() > 10, "else this test shows nothing"
    options = {"quality": 95} if kind in ("JPEG", "WEBP", "AVIF", "HEIF") else {}

    sent = prepare_image(saved(flat, kind, icc_profile=p3, **options))

    assert "converted_to_srgb" in sent.notes
    assert abs(pixels(sent.data)[16, 16] - np.asarray(wanted)[0, 0]).max() <= 5
    assert b"ICC" not in sent.data


def test_a_profile_with_swapped_channels_swaps_them_back() -> None:
    red, green, blue = P3_COLUMNS
    swapped = profile((green, red, blue))
    sent = prepare_image(saved(Image.new("RGB", (8, 8), (250, 10, 10)), "PNG", icc_profile=swapped))
    red, green, _ = pixels(sent.data)[0, 0]
    assert green > 200 > red


def test_grey_with_a_profile_keeps_its_tones_converted() -> None:
    sent = prepare_image(saved(Image.new("L", (8, 8), 128), "PNG", icc_profile=profile(gamma=1.0)))
    assert "converted_to_srgb" in sent.notes
    assert abs(pixels(sent.data)[0, 0] - 188).max() <= 1  # linear one half is 188 in sRGB


@pytest.mark.parametrize("chunk", [(b"gAMA", struct.pack(">I", 100_000)), (b"cHRM", P3_CHRM)], ids=["gAMA", "cHRM"])
def test_gamma_and_primaries_of_a_png_are_not_obeyed_and_that_is_noted(chunk: tuple[bytes, bytes]) -> None:
    png = saved(photo(), "PNG")
    sent = prepare_image(with_png_chunk(png, *chunk))
    assert (sent.data, sent.notes) == (png, ("colour_profile_ignored",))
    overruled = prepare_image(with_png_chunk(with_png_chunk(png, *chunk), b"sRGB", b"\0"))
    assert (overruled.data, overruled.notes) == (png, ())


def test_gamma_and_primaries_of_srgb_are_not_worth_a_note() -> None:
    png = saved(photo(), "PNG")
    for gamma in (45_455, 45_000):
        usual = with_png_chunk(with_png_chunk(png, b"cHRM", SRGB_CHRM), b"gAMA", struct.pack(">I", gamma))
        sent = prepare_image(usual)
        assert (sent.data, sent.notes) == (png, ())


def test_a_broken_profile_is_ignored_and_noted() -> None:
    for kind in ("JPEG", "PNG", "WEBP"):
        sent = prepare_image(saved(photo(), kind, icc_profile=b"\0" * 16 + b"RGB XYZ " + b"junk" * 60))
        assert "colour_profile_ignored" in sent.notes
    hdr = with_png_chunk(saved(photo(), "PNG"), b"cICP", bytes([9, 16, 0, 1]))
    assert prepare_image(hdr).notes == ("colour_profile_ignored",)


def test_cmyk_becomes_rgb_also_when_adobe_stored_it_inverted() -> None:
    cmyk = Image.new("CMYK", (32, 32), (0, 200, 200, 0))  # red ink
    for file in (saved(cmyk, "JPEG", quality=95), saved(cmyk, "TIFF")):
        sent = prepare_image(file)
        red, green, blue = pixels(sent.data)[16, 16]
        assert red > 230
        assert max(green, blue) < 90
        assert "converted_from_cmyk" in sent.notes


@pytest.mark.parametrize("kind", [".png", ".tiff"])
@pytest.mark.parametrize("channels", [1, 3])
def test_16_bits_are_scaled_to_8_and_not_clipped(kind: str, channels: int) -> None:
    ramp = np.linspace(0, 65535, 64 * 64).astype(np.uint16).reshape(64, 64)
    deep = ramp if channels == 1 else np.stack([ramp, ramp[::-1], ramp.T], axis=-1)
    done, file = cv2.imencode(kind, deep if channels == 1 else deep[:, :, ::-1])
    assert done

    sent = prepare_image(file.tobytes())

    wanted = np.repeat(deep[:, :, None], 3, axis=2) if channels == 1 else deep
    assert abs(pixels(sent.data) - wanted / 257).max() <= 1
    assert "reduced_to_8_bit" in sent.notes
    assert sent.media_type == "image/png"


@pytest.mark.parametrize("background", [(255, 255, 255), (0, 0, 0), (10, 120, 230)])
@pytest.mark.parametrize(
    ("mode", "kind"), [("RGBA", "PNG"), ("LA", "PNG"), ("RGBA", "WEBP"), ("RGBA", "TIFF"), ("RGBA", "AVIF")]
)
def test_alpha_goes_over_the_declared_background(mode: str, kind: str, background: tuple[int, int, int]) -> None:
    image = Image.new("RGBA", (32, 16), (90, 90, 90, 0))
    image.paste((90, 90, 90, 255), (16, 0, 32, 16))
    image.paste((90, 90, 90, 128), (24, 0, 32, 16))
    options = {"lossless": True} if kind == "WEBP" else {"quality": 100} if kind == "AVIF" else {}

    sent = prepare_image(saved(image.convert(mode), kind, **options), Sizing(background=background))

    found = pixels(sent.data)
    assert abs(found[8, 4] - background).max() <= 3
    assert abs(found[8, 20] - (90, 90, 90)).max() <= 3
    assert abs(found[8, 28] - (np.array(background) + 90) / 2).max() <= 4
    assert "alpha_over_background" in sent.notes


def test_transparency_of_palettes_and_single_colours_goes_over_the_background() -> None:
    sizing = Sizing(background=(0, 200, 0))
    palette = Image.new("P", (16, 16), 1)
    palette.putpalette([255, 0, 0, 0, 0, 255])
    palette.paste(0, (0, 0, 8, 16))
    for kind in ("PNG", "GIF"):
        sent = prepare_image(saved(palette, kind, transparency=0), sizing)
        assert list(pixels(sent.data)[8, 4]) == [0, 200, 0]
        assert list(pixels(sent.data)[8, 12]) == [0, 0, 255]
    keyed = saved(blocks(), "PNG", transparency=(255, 0, 0))
    assert list(pixels(prepare_image(keyed, sizing).data)[4, 4]) == [0, 200, 0]
    deep = np.full((8, 8), 40_000, np.uint16)
    deep[:, 4:] = 1_000
    grey = with_png_chunk(cv2.imencode(".png", deep)[1].tobytes(), b"tRNS", struct.pack(">H", 1_000))
    assert list(pixels(prepare_image(grey, sizing).data)[4, 6]) == [0, 200, 0]


def test_a_jpeg_keeps_its_exif_orientation_from_the_first_block_only() -> None:
    jpeg = with_jpeg_segment(saved(blocks(), "JPEG"), 0xE1, gps_exif(3))
    jpeg = with_jpeg_segment(jpeg, 0xE1, gps_exif(6))
    sent = prepare_image(jpeg)
    assert (sent.width, sent.height) == (64, 96)
