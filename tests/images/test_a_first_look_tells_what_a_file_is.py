"""A first look agrees with a full read on what a file is and how large, and finds files that are cut off."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from support.images import gps_exif, jpeg_segment, photo, png_chunk, saved, with_jpeg_segment

from beholder.errors import ImageError
from beholder.images.image import ImageLimits
from beholder.images.prepare import prepare_image
from beholder.images.source import inspect_image


def files() -> dict[str, bytes]:
    return {
        "jpeg": saved(photo(), "JPEG"),
        "jpeg with gps": saved(photo(), "JPEG", exif=gps_exif(6)),
        "jpeg progressive": saved(photo(), "JPEG", progressive=True),
        "jpeg with much before its frame": with_jpeg_segment(
            with_jpeg_segment(saved(photo(), "JPEG"), 0xE5, bytes(60_000)), 0xE5, bytes(60_000)
        ),
        "jpeg with more behind": saved(photo(), "JPEG") + jpeg_segment(0xE1, bytes(100)),
        "png": saved(photo(), "PNG"),
        "webp lossy": saved(photo(), "WEBP"),
        "webp lossless": saved(photo(), "WEBP", lossless=True),
        "webp extended": saved(photo(), "WEBP", exif=gps_exif()),
        "gif": saved(photo(), "GIF"),
        "bmp": saved(photo(), "BMP"),
        "tiff": saved(photo(), "TIFF"),
        "avif": saved(photo(), "AVIF"),
        "heic": saved(photo(), "HEIF"),
    }


@pytest.mark.parametrize("name", files())
def test_format_and_size(tmp_path: Path, name: str) -> None:
    data = files()[name]
    path = tmp_path / "picture"
    path.write_bytes(data)
    seen = inspect_image(path)
    assert (seen.format, seen.width, seen.height) == (name.split()[0], 96, 64)
    assert (seen.bytes, seen.mtime_ns) == (len(data), path.stat().st_mtime_ns)
    assert inspect_image(data).width == 96
    assert inspect_image(data).mtime_ns is None


@pytest.mark.parametrize("name", ["jpeg", "png", "webp lossy", "webp lossless"])
@pytest.mark.parametrize("share", [0.2, 0.6, 0.99])
def test_a_file_that_is_cut_off_is_told(tmp_path: Path, name: str, share: float) -> None:
    data = files()[name]
    path = tmp_path / "picture"
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ImageError, match=r"picture is (cut off|damaged)"):
        inspect_image(path)


def test_what_is_no_picture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.jpg"
    path.write_text("hello")
    with pytest.raises(ImageError, match=r"notes\.jpg is a text file"):
        inspect_image(path)
    with pytest.raises(ImageError, match="does not exist"):
        inspect_image(str(tmp_path / "none.png"))
    with pytest.raises(ImageError, match="is a directory"):
        inspect_image(tmp_path)
    with pytest.raises(ImageError, match="remote image"):
        inspect_image("https://pictures.invalid/a.png")
    with pytest.raises(ImageError, match="not a name"):
        inspect_image("a\0b.png")


@pytest.mark.parametrize("name", files())
def test_caps_hold(tmp_path: Path, name: str) -> None:
    path = tmp_path / "picture"
    path.write_bytes(files()[name])
    for limits in (ImageLimits(max_side=95), ImageLimits(max_pixels=6000), ImageLimits(max_bytes=100)):
        with pytest.raises(ImageError, match=r"picture (is|has) .+ are opened"):
            inspect_image(path, limits)


def test_fill_bytes_without_end_take_no_time(tmp_path: Path) -> None:
    """A search that tried every one of them as the start of a marker would take hours for this file."""
    file = tmp_path / "fill.jpg"
    file.write_bytes(b"\xff\xd8" + b"\xff" * 4_000_000 + b"\xff\xd9")
    with pytest.raises(ImageError, match=r"damaged|cut off|no frame|without"):
        inspect_image(file)


def test_a_bit_depth_that_png_does_not_have_is_found_when_the_image_is_prepared(tmp_path: Path) -> None:
    file = tmp_path / "odd.png"
    header = struct.pack(">IIBBBBB", 6, 4, 3, 2, 0, 0, 0)
    chunks = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", zlib.compress(bytes(64))) + png_chunk(b"IEND", b"")
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + chunks)
    assert (inspect_image(file).width, inspect_image(file).height) == (6, 4)
    with pytest.raises(ImageError, match="3 bits"):
        prepare_image(file.read_bytes())
