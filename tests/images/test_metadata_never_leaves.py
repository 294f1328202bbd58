"""Promise: no metadata is sent, whatever the container and whether the picture passes through or not."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import pytest
from PIL import Image, PngImagePlugin
from support.images import (
    GPS_MARK,
    TEXT_MARK,
    gps_exif,
    jpeg_segment,
    photo,
    png_chunk,
    saved,
    with_jpeg_segment,
    with_png_chunk,
)

from beholder.images.image import Sizing
from beholder.images.prepare import prepare_image

XMP = b"<x:xmpmeta>" + TEXT_MARK + b"</x:xmpmeta>"


def _png_with_everything() -> bytes:
    info = PngImagePlugin.PngInfo()
    info.add_text("Comment", TEXT_MARK.decode())
    info.add_text("Packed", TEXT_MARK.decode(), zip=True)
    info.add_itxt("XML:com.adobe.xmp", XMP.decode())
    png = saved(photo(), "PNG", exif=gps_exif(), pnginfo=info)
    png = with_png_chunk(png, b"prVt", TEXT_MARK + GPS_MARK)
    return png + TEXT_MARK + GPS_MARK


def _jpeg_with_everything() -> bytes:
    jpeg = saved(photo(), "JPEG", exif=gps_exif(), comment=TEXT_MARK, xmp=XMP, progressive=True)
    for marker in (*range(0xE2, 0xF0), 0xFE):
        jpeg = with_jpeg_segment(jpeg, marker, b"Anything\0" + TEXT_MARK + GPS_MARK)
    scan = jpeg.index(b"\xff\xda")
    second = jpeg.index(b"\xff\xc4", scan)
    jpeg = jpeg[:second] + jpeg_segment(0xFE, TEXT_MARK + GPS_MARK) + jpeg[second:]
    return jpeg + saved(photo(), "JPEG", exif=gps_exif()) + b"ftypmp42 motion photo" + GPS_MARK


def _webp_with_everything(**options: object) -> bytes:
    webp = saved(photo(), "WEBP", exif=gps_exif(), xmp=XMP, **options)
    extra = b"prvt" + struct.pack("<I", len(GPS_MARK) + 1) + GPS_MARK + b"!"
    return b"RIFF" + struct.pack("<I", len(webp) - 8 + len(extra)) + webp[8:] + extra + TEXT_MARK


FILES: dict[str, Callable[[], bytes]] = {
    "jpeg": _jpeg_with_everything,
    "png": _png_with_everything,
    "webp": _webp_with_everything,
    "webp-lossless": lambda: _webp_with_everything(lossless=True),
    "tiff": lambda: saved(photo(), "TIFF", artist=GPS_MARK.decode(), description=TEXT_MARK.decode()),
    "avif": lambda: saved(photo(), "AVIF", exif=gps_exif(), xmp=XMP),
    "heic": lambda: saved(photo(), "HEIF", exif=gps_exif(), xmp=XMP),
    "gif": lambda: saved(photo(), "GIF", comment=TEXT_MARK + GPS_MARK),
    "bmp": lambda: saved(photo(), "BMP") + TEXT_MARK + GPS_MARK,
}
SIZINGS = {
    "as it lies": Sizing(),
    "shrunk": Sizing(max_side=48),
    "as png": Sizing(formats=frozenset({"png"}), max_side=48),
    "as webp": Sizing(formats=frozenset({"webp"}), max_side=48),
}


@pytest.mark.parametrize("sizing", SIZINGS.values(), ids=SIZINGS)
@pytest.mark.parametrize("kind", FILES)
def test_no_gps_byte_and_no_word_is_sent(kind: str, sizing: Sizing) -> None:
    file = FILES[kind]()
    assert GPS_MARK in file, "the test file itself must hold what may not leave"

    sent = prepare_image(file, sizing).data

    assert GPS_MARK not in sent
    assert TEXT_MARK not in sent
    assert b"Exif" not in sent
    with Image.open(io.BytesIO(sent)) as image:
        image.load()
        assert not image.getexif()
        assert not {"exif", "xmp", "comment", "icc_profile", "XML:com.adobe.xmp"} & image.info.keys()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_no_gps_byte_is_sent_when_the_picture_is_turned(kind: str, orientation: int) -> None:
    file = saved(photo(), kind, exif=gps_exif(orientation))
    assert GPS_MARK in file
    assert GPS_MARK not in prepare_image(file).data


def test_a_thumbnail_in_the_jfif_segment_is_not_sent() -> None:
    jpeg = saved(photo(), "JPEG")
    assert jpeg[2:4] == b"\xff\xe0"
    size = struct.unpack(">H", jpeg[4:6])[0]
    thumbnail = GPS_MARK * 3
    jfif = b"JFIF\0\x01\x01\0\0\x01\0\x01" + bytes([len(GPS_MARK), 1]) + thumbnail
    sent = prepare_image(jpeg[:2] + jpeg_segment(0xE0, jfif) + jpeg[4 + size :]).data
    assert GPS_MARK not in sent
    assert sent == jpeg


def test_bytes_hidden_in_an_adobe_segment_are_not_sent() -> None:
    jpeg = saved(photo(), "JPEG", keep_rgb=True)
    adobe = jpeg.index(b"Adobe")
    size = struct.unpack(">H", jpeg[adobe - 2 : adobe])[0]
    longer = jpeg_segment(0xEE, jpeg[adobe : adobe - 2 + size] + GPS_MARK)
    sent = prepare_image(jpeg[: adobe - 4] + longer + jpeg[adobe - 2 + size :]).data
    assert GPS_MARK not in sent
    assert sent == jpeg


def test_the_name_of_a_colour_profile_is_not_sent() -> None:
    from PIL import ImageCms

    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for kind in ("JPEG", "PNG", "WEBP"):
        sent = prepare_image(saved(photo(), kind, icc_profile=profile)).data
        assert b"ICC" not in sent
        assert b"iCCP" not in sent


def test_frames_of_an_animated_png_behind_the_first_are_not_sent() -> None:
    png = saved(photo(), "PNG", save_all=True, append_images=[photo().rotate(180)])
    hidden = png_chunk(b"fdAT", b"\0\0\0\x09" + GPS_MARK)
    sent = prepare_image(png[:-12] + hidden + png[-12:])
    assert GPS_MARK not in sent.data
    assert b"fdAT" not in sent.data
    assert sent.notes == ("first_frame_of_png",)
