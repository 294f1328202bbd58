"""What all formats share before decoding: format detection, header, limits, EXIF orientation, ICC profiles.

Inside this package the message of an `ImageError` is a predicate ("is cut off …"); the functions that know the name of
the image (`prepare`, `source`) put it in front.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from beholder.errors import ImageError
from beholder.images.image import ImageLimits

ImageSize = tuple[int, int]  # width, height

SUPPORTED_FORMATS = "JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF or HEIC"

_BMP_HEADER_SIZES = {12, 40, 52, 56, 64, 108, 124}
_AVIF_BRANDS = {b"avif", b"avis"}
_HEIC_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}

# Files that people often give by mistake, by their first bytes, so that the message can name what they gave.
_OTHER_SIGNATURES = (
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
class ImageHeader:
    """What is known of an image before a pixel is decoded.

    Attributes:
        width: The width in the file, before it is turned upright; `height` likewise.
        orientation: The EXIF orientation, 1 to 8.
        bits: Bits per channel.
        alpha: Whether there may be transparency; only decoding shows whether any is in use.
        sendable: Whether judges can read `stripped`, provided that it is upright, sRGB and opaque.
        profile: The ICC profile to convert from; `None` when the pixels are sRGB or untagged.
        stripped: The file without any metadata, in pieces to be joined; empty for formats that are always encoded
            again and for files with segments of unknown meaning.
        stripped_opaque: The same without the alpha channel, where that is a part of its own (WebP).
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
    stripped: tuple[bytes | memoryview, ...] = ()
    stripped_opaque: tuple[bytes | memoryview, ...] = ()
    notes: tuple[str, ...] = ()


def join_stripped(data: bytes, header: ImageHeader) -> bytes:
    """Return a file without its metadata. One that has none is returned itself, which saves a copy of the image, and
    whoever needs its digest a second SHA-256."""
    if sum(map(len, header.stripped)) != len(data):
        return b"".join(header.stripped)
    at = 0
    for piece in header.stripped:
        if not data.startswith(piece, at):
            return b"".join(header.stripped)
        at += len(piece)
    return data


def detect_format(data: bytes) -> str | None:
    """Return the format by its magic bytes: `jpeg`, `png`, `webp`, `gif`, `bmp`, `tiff`, `avif`, `heic` or `None`."""
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
        return _detect_brand(data)
    return None


def _detect_brand(data: bytes) -> str | None:
    (size,) = struct.unpack_from(">I", data)
    end = min(size, len(data), 1024)
    brands = {data[8:12]} | {data[at : at + 4] for at in range(16, end - 3, 4)}
    if brands & _AVIF_BRANDS:
        return "avif"
    return "heic" if brands & _HEIC_BRANDS else None


def recognize_format(data: bytes) -> str:
    """Return the format like `detect_format`; raise an `ImageError` that says what the bytes seem to be otherwise."""
    if not data:
        raise ImageError("is empty (0 bytes)")
    file_format = detect_format(data)
    if file_format is None:
        raise ImageError(f"is {_describe_content(data)}; give {SUPPORTED_FORMATS}")
    return file_format


def _describe_content(data: bytes) -> str:
    for start, kind in _OTHER_SIGNATURES:
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


def check_size(width: int, height: int, limits: ImageLimits) -> None:
    """Raise `ImageError` for a size in pixels that is zero or above the limits."""
    if width < 1 or height < 1:
        raise ImageError(f"is damaged: its header says {width}×{height} pixels")
    if max(width, height) > limits.max_side:
        raise ImageError(
            f"is {width}×{height} pixels; at most {limits.max_side} on a side are opened, scale it down first"
        )
    if width * height > limits.max_pixels:
        raise ImageError(
            f"is {width}×{height} pixels, {width * height / 1e6:.0f} million; "
            f"at most {limits.max_pixels / 1e6:.0f} million are opened, scale it down first"
        )


def check_bytes(size: int, limits: ImageLimits) -> None:
    """Raise `ImageError` for a file that has more bytes than the limits allow."""
    if size > limits.max_bytes:
        raise ImageError(f"has {_megabytes(size)}; at most {_megabytes(limits.max_bytes)} are opened")


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MB" if size >= 2**20 else f"{size} bytes"


_ORIENTATION_TAG = 0x0112
_TYPE_SHORT = 3
_MAX_EXIF_ENTRIES = 1024


def read_orientation(exif: bytes) -> int:
    """Return the EXIF orientation, 1 to 8; 1 (upright) where there is none or the block is broken.

    Takes the block with or without its `Exif\\0\\0` prefix. Never raises: viewers show an image with a broken EXIF
    block without turning it, and so do we.
    """
    tiff = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    if order is None:
        return 1
    try:
        (start,) = struct.unpack_from(f"{order}I", tiff, 4)
        (entries,) = struct.unpack_from(f"{order}H", tiff, start)
        for index in range(min(entries, _MAX_EXIF_ENTRIES)):
            tag, kind, count, value = struct.unpack_from(f"{order}HHIH", tiff, start + 2 + 12 * index)
            if tag == _ORIENTATION_TAG:
                return value if kind == _TYPE_SHORT and count == 1 and 1 <= value <= 8 else 1
    except struct.error:
        pass
    return 1


# The primaries as XYZ under D50, as every sRGB profile states them up to rounding.
_SRGB_COLUMNS = {
    b"rXYZ": (0.4360, 0.2225, 0.0139),
    b"gXYZ": (0.3851, 0.7169, 0.0971),
    b"bXYZ": (0.1431, 0.0606, 0.7141),
}
_TOLERANCE = 0.002  # under half a step of 8 bits over nearly the whole curve
_SAMPLES = tuple(step / 16 for step in range(1, 16))
_TABLE_TAGS = {b"A2B0", b"A2B1", b"A2B2", b"D2B0", b"D2B1"}  # a profile that has these is more than its matrix
_SRGB_CURVE = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
_MAX_TAGS = 100


def is_srgb(profile: bytes) -> bool:
    """Return whether an ICC profile describes sRGB; a gray profile counts when its curve is that of sRGB.

    Decided by primaries and tone curve, not by the name: cameras, phones and web services each write their own profile,
    named `sRGB IEC61966-2.1`, `sRGB built-in`, `c2` or not at all. A profile that cannot be parsed is not sRGB; the
    color conversion then reports it.
    """
    try:
        tags = _parse_tags(profile)
        if profile[20:24] != b"XYZ " or tags.keys() & _TABLE_TAGS:
            return False
        if profile[16:20] == b"GRAY":
            return _has_srgb_curve(tags[b"kTRC"])
        if profile[16:20] != b"RGB ":
            return False
        return all(_is_close(_parse_xyz(tags[tag]), column) for tag, column in _SRGB_COLUMNS.items()) and all(
            _has_srgb_curve(tags[tag]) for tag in (b"rTRC", b"gTRC", b"bTRC")
        )
    except (KeyError, IndexError, ArithmeticError, ValueError, struct.error):
        return False


def _parse_tags(profile: bytes) -> dict[bytes, bytes]:
    (count,) = struct.unpack_from(">I", profile, 128)
    entries = (struct.unpack_from(">4sII", profile, 132 + 12 * index) for index in range(min(count, _MAX_TAGS)))
    return {name: profile[offset : offset + size] for name, offset, size in entries}


def _parse_xyz(tag: bytes) -> tuple[float, ...]:
    return tuple(value / 65536 for value in struct.unpack_from(">3i", tag, 8))


def _is_close(values: tuple[float, ...], expected: tuple[float, ...]) -> bool:
    return all(abs(a - b) <= _TOLERANCE for a, b in zip(values, expected, strict=True))


def _has_srgb_curve(tag: bytes) -> bool:
    return all(abs(_evaluate_curve(tag, x) - _evaluate_parametric(3, _SRGB_CURVE, x)) <= _TOLERANCE for x in _SAMPLES)


def _evaluate_curve(tag: bytes, x: float) -> float:
    if tag[:4] == b"para":
        (kind,) = struct.unpack_from(">H", tag, 8)
        count = (1, 3, 4, 5, 7)[kind]
        return _evaluate_parametric(
            kind, tuple(value / 65536 for value in struct.unpack_from(f">{count}i", tag, 12)), x
        )
    if tag[:4] != b"curv":
        raise ValueError("not a tone curve")
    (count,) = struct.unpack_from(">I", tag, 8)
    if count == 0:
        return x
    if count == 1:
        (gamma,) = struct.unpack_from(">H", tag, 12)
        return float(x ** (gamma / 256))
    below = min(int(x * (count - 1)), count - 2)
    low, high = struct.unpack_from(">2H", tag, 12 + 2 * below)
    share = x * (count - 1) - below
    return float((low + (high - low) * share) / 65535)


def _evaluate_parametric(kind: int, p: tuple[float, ...], x: float) -> float:
    """Evaluate one of the five function types of ICC.1:2010, 10.16; a negative base counts as 0."""
    if kind == 0:
        return float(x ** p[0])
    g, a, b = p[:3]
    base = float(max(a * x + b, 0.0) ** g)
    if kind == 1:
        return base if x >= -b / a else 0.0
    if kind == 2:
        return (base if x >= -b / a else 0.0) + p[3]
    c, d = p[3:5]
    if kind == 3:
        return base if x >= d else c * x
    return base + p[5] if x >= d else c * x + p[6]
