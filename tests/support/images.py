"""Real files for the tests, built on the spot."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Sequence
from functools import cache

import cv2
import numpy as np
from PIL import Image, ImageCms

from beholder.images.codec import Pixels

GPS_MARK = b"SECRET-DATUM-48N11E"
TEXT_MARK = b"secret words of the owner"


@cache
def _photo(width: int, height: int) -> Image.Image:
    """Smooth colours with some grain; no two quarters alike, so that any turn or flip shows."""
    y, x = np.mgrid[0:height, 0:width]
    grain = np.random.default_rng(7).normal(0, 4, (height, width, 1))
    base = np.stack([x * 200 / width + 20, y * 200 / height + 20, (x * y) * 160 / (width * height) + 30], axis=-1)
    return Image.fromarray((base + grain).clip(0, 255).astype(np.uint8))


def photo(width: int = 96, height: int = 64) -> Image.Image:
    return _photo(width, height).copy()


def blocks(width: int = 96, height: int = 64) -> Image.Image:
    """Four flat quarters: red, green, blue, white. Survives every lossy codec."""
    image = Image.new("RGB", (width, height), (255, 255, 255))
    image.paste((255, 0, 0), (0, 0, width // 2, height // 2))
    image.paste((0, 255, 0), (width // 2, 0, width, height // 2))
    image.paste((0, 0, 255), (0, height // 2, width // 2, height))
    return image


def saved(image: Image.Image, file_format: str, **options: object) -> bytes:
    out = io.BytesIO()
    if file_format == "HEIF":
        import pillow_heif

        pillow_heif.from_pillow(image).save(out, **{"quality": 90, **options})
    else:
        image.save(out, file_format, **options)
    return out.getvalue()


def pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB")).astype(int)


def read_bgr(path: str | os.PathLike[str]) -> Pixels:
    """The pixels of an image file in OpenCV's order: blue, green, red."""
    return np.asarray(cv2.imread(os.fspath(path)), np.uint8)


def gps_exif(orientation: int | None = None) -> bytes:
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    exif[0x010E] = TEXT_MARK.decode()
    exif.get_ifd(0x8825).update({1: "N", 2: (48.0, 8.0, 14.0), 3: "E", 4: (11.0, 34.0, 30.0), 18: GPS_MARK.decode()})
    block = exif.tobytes()
    assert GPS_MARK in block
    return block


# Red, green and blue under D50, as the profiles of these spaces state them.
SRGB_COLUMNS = ((0.4361, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7139))
P3_COLUMNS = ((0.5151, 0.2412, -0.0011), (0.2920, 0.6922, 0.0419), (0.1571, 0.0666, 0.7841))


def profile(columns: Sequence[Sequence[float]] = SRGB_COLUMNS, gamma: float | None = None) -> bytes:
    """A colour profile without a name: that of LittleCMS for sRGB, with other primaries or with a power for a curve."""
    data = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    (count,) = struct.unpack_from(">I", data, 128)
    places = {
        name: (at, size) for name, at, size in (struct.unpack_from(">4sII", data, 132 + 12 * n) for n in range(count))
    }
    at, size = places[b"desc"]
    data[at + 28 : at + size] = bytes(size - 28)
    for tag, column in zip((b"rXYZ", b"gXYZ", b"bXYZ"), columns, strict=True):
        struct.pack_into(">3i", data, places[tag][0] + 8, *(round(value * 65536) for value in column))
    if gamma is not None:
        for tag in (b"rTRC", b"gTRC", b"bTRC"):
            struct.pack_into(">4s4xHHi", data, places[tag][0], b"para", 0, 0, round(gamma * 65536))
    return bytes(data)


def png_chunk(kind: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", zlib.crc32(kind + payload))


def with_png_chunk(png: bytes, kind: bytes, payload: bytes) -> bytes:
    """The chunk right after the header."""
    return png[:33] + png_chunk(kind, payload) + png[33:]


def jpeg_segment(marker: int, payload: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def with_jpeg_segment(jpeg: bytes, marker: int, payload: bytes) -> bytes:
    """The segment right after the start of the image."""
    return jpeg[:2] + jpeg_segment(marker, payload) + jpeg[2:]
