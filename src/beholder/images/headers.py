"""What the first bytes of a picture say: what it is, how large it is, and whether it may be sent as it lies.

The reasons that this package's inner modules give in an `ImageError` are predicates ("is cut off …"); `prepare`
puts the name of the picture in front of them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from beholder.errors import ImageError
from beholder.images.model import Caps

FORMATS = "JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF or HEIC"

_BMP_HEADER_SIZES = {12, 40, 52, 56, 64, 108, 124}
_AVIF_BRANDS = {b"avif", b"avis"}
_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}

# What people hand over by mistake, by how it begins.
_STRANGERS = (
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or an office document"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"8BPS", "a Photoshop document"),
    (b"\xff\x0a", "a JPEG XL image, which no judge reads"),
    (b"\0\0\0\x0cJXL ", "a JPEG XL image, which no judge reads"),
    (b"\0\0\0\x0cjP  ", "a JPEG 2000 image, which no judge reads"),
    (b"version https://git-lfs", "a Git LFS pointer whose image was never downloaded"),
)


@dataclass(frozen=True, slots=True)
class Header:
    """A picture before a pixel is decoded.

    `profile` is the ICC profile to convert from; `None` when the pixels are sRGB or untagged. `alpha` says that
    there may be transparency: only decoding tells whether any is in use. `essence` is the file without a byte of
    metadata, in pieces to be joined; empty where the file's structure must not be sent (or is none that we cut).
    `sendable` says that judges read what `essence` holds, once it is known to be upright, sRGB and opaque.
    """

    format: str
    width: int
    height: int
    orientation: int = 1
    bits: int = 8
    channels: int = 3
    lossless: bool = False
    alpha: bool = False
    animated: bool = False
    sendable: bool = False
    profile: bytes | None = None
    essence: tuple[bytes | memoryview, ...] = ()
    notes: tuple[str, ...] = ()


def sniff(data: bytes) -> str | None:
    """The format by its magic bytes, never by a name: `jpeg`, `png`, `webp`, `gif`, `bmp`, `tiff`, `avif`, `heic`."""
    if data.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in _BMP_HEADER_SIZES:
        return "bmp"
    if data.startswith((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")):
        return "tiff"
    if data[4:8] == b"ftyp":
        return _brand(data)
    return None


def _brand(data: bytes) -> str | None:
    (size,) = struct.unpack_from(">I", data)
    ends = min(size, len(data), 1024)
    brands = {data[8:12]} | {data[at : at + 4] for at in range(16, ends - 3, 4)}
    if brands & _AVIF_BRANDS:
        return "avif"
    return "heic" if brands & _HEIC_BRANDS else None


def recognise(data: bytes) -> str:
    """`sniff`, or an `ImageError` that says what the bytes look like instead."""
    if not data:
        raise ImageError("is empty (0 bytes)")
    found = sniff(data)
    if found is None:
        raise ImageError(f"is {_resemblance(data)}; give {FORMATS}")
    return found


def _resemblance(data: bytes) -> str:
    for start, kind in _STRANGERS:
        if data.startswith(start):
            return kind
    if data[4:8] == b"ftyp":
        return "a video or another media file, not an image"
    opening = data[:1024]
    try:
        text = opening.decode("utf-8", "strict" if len(data) <= 1024 else "ignore")
    except UnicodeDecodeError:
        return "not an image of a known format"
    if len(text.encode()) < len(opening) - 3 or any(c < " " and c not in "\t\n\r\f\x1b" for c in text):
        return "not an image of a known format"
    lowered = text.lower()
    if "<svg" in lowered:
        return "an SVG drawing, which no judge reads"
    if "<html" in lowered or "<!doctype html" in lowered:
        return "a web page, not an image"
    return "a text file, not an image"


def check_size(width: int, height: int, caps: Caps) -> None:
    """Refuses a size before a decoder sees it."""
    if width < 1 or height < 1:
        raise ImageError(f"is damaged: its header says {width}×{height} pixels")
    if max(width, height) > caps.max_side:
        raise ImageError(
            f"is {width}×{height} pixels; at most {caps.max_side} on a side are opened, scale it down first"
        )
    if width * height > caps.max_pixels:
        raise ImageError(
            f"is {width}×{height} pixels, {width * height / 1e6:.0f} million; "
            f"at most {caps.max_pixels / 1e6:.0f} million are opened, scale it down first"
        )


def check_bytes(size: int, caps: Caps) -> None:
    """Refuses a file before it is read or parsed."""
    if size > caps.max_bytes:
        raise ImageError(f"has {_megabytes(size)}; at most {_megabytes(caps.max_bytes)} are opened")


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MB" if size >= 2**20 else f"{size} bytes"
