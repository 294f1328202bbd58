"""A first look at an image file: what it is and how large, without reading all of it.

For JPEG, PNG and WebP the first 4 (or 64) KB and the last bytes tell; where they do not, and for the rarer formats, the
whole file is read as `prepare` would read it. Measured on a 680 KB JPEG: 17 µs against 800. Damage in the middle
shows only when the picture is prepared.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from beholder.errors import ImageError
from beholder.images import headers
from beholder.images.model import STANDARD_CAPS, Caps, ImageSource
from beholder.images.names import shown
from beholder.images.preparing import looked_at
from beholder.images.sources import read

_STARTS = (4 * 1024, 64 * 1024)  # the first is nearly always enough; a large Exif block wants the second
_END = 12
_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
_PNG_END = b"\0\0\0\0IEND\xaeB`\x82"

Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Look:
    """An image seen from outside. Width and height are those in the file, before it is turned upright; `mtime_ns` is
    `None` for what is no file."""

    format: str
    width: int
    height: int
    bytes: int
    mtime_ns: int | None = None


def look(source: ImageSource, caps: Caps = STANDARD_CAPS) -> Look:
    """What a path, a `data:` URI or bytes hold. Raises `ImageError`: missing, no file, no image, cut off, over the
    caps; also for a web address, which is not fetched."""
    if isinstance(source, bytes) or (isinstance(source, str) and source[:5].lower() == "data:"):
        return _whole(source, caps)
    try:
        found = os.stat(source)
        if stat.S_ISREG(found.st_mode) and found.st_size <= caps.max_bytes and (quick := _quick(source, found)):
            headers.check_size(quick.width, quick.height, caps)
            return quick
    except ImageError as error:
        raise ImageError(f"{_named(source)} {error}") from None
    except (OSError, ValueError):
        return _whole(source, caps)  # it has a sentence for each of these
    return replace(_whole(source, caps), mtime_ns=found.st_mtime_ns)


def _whole(source: ImageSource, caps: Caps) -> Look:
    data = read(source, caps=caps)
    try:
        header = looked_at(data, caps)
    except ImageError as error:
        raise ImageError(f"{_named(source)} {error}") from None
    return Look(header.format, header.width, header.height, len(data))


def _quick(path: str | os.PathLike[str], found: os.stat_result) -> Look | None:
    """What the two ends of the file tell; `None` where they do not."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # half the time of `open`
    try:
        end = os.pread(file, _END, max(0, found.st_size - _END))
        for length in _STARTS:
            start = os.pread(file, length, 0)
            kind = headers.recognise(start)
            size = _READERS[kind](start, end, found.st_size) if kind in _READERS else None
            if size:
                return Look(kind, *size, bytes=found.st_size, mtime_ns=found.st_mtime_ns)
    finally:
        os.close(file)
    return None


def _named(source: ImageSource) -> str:
    if isinstance(source, bytes):
        return "the image"
    text = os.fspath(source)
    return "the data URI" if text[:5].lower() == "data:" else shown(text)


def _jpeg(start: bytes, end: bytes, size: int) -> Size | None:
    if not end.endswith(b"\xff\xd9"):
        return None
    at = 2
    while at + 9 <= len(start) and start[at] == 0xFF:
        marker, length = start[at + 1], int.from_bytes(start[at + 2 : at + 4], "big")
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", start, at + 5)
            return width, height
        if not 0xC0 <= marker <= 0xFE or length < 2:
            return None
        at += 2 + length
    return None


def _png(start: bytes, end: bytes, size: int) -> Size | None:
    if end != _PNG_END or start[12:16] != b"IHDR":
        return None
    width, height = struct.unpack_from(">II", start, 16)
    return width, height


def _webp(start: bytes, end: bytes, size: int) -> Size | None:
    if 8 + int.from_bytes(start[4:8], "little") > size or len(start) < 30:
        return None
    kind = start[12:16]
    if kind == b"VP8X":
        return int.from_bytes(start[24:27], "little") + 1, int.from_bytes(start[27:30], "little") + 1
    if kind == b"VP8 " and start[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", start, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and start[20] == 0x2F:
        bits = int.from_bytes(start[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return None


_READERS: dict[str, Callable[[bytes, bytes, int], Size | None]] = {"jpeg": _jpeg, "png": _png, "webp": _webp}
