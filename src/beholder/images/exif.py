"""The one thing we want from EXIF: which way is up."""

from __future__ import annotations

import struct

_ORIENTATION = 0x0112
_SHORT = 3
_MOST_ENTRIES = 1024


def orientation(exif: bytes) -> int:
    """The EXIF orientation, 1 to 8; 1 (upright) where there is none or the block makes no sense.

    Takes the block with or without its `Exif\\0\\0` prefix. Never raises: a broken EXIF block is no reason to
    refuse a picture, every viewer shows it as it lies.
    """
    tiff = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    if order is None:
        return 1
    try:
        (start,) = struct.unpack_from(f"{order}I", tiff, 4)
        (entries,) = struct.unpack_from(f"{order}H", tiff, start)
        for index in range(min(entries, _MOST_ENTRIES)):
            tag, kind, count, value = struct.unpack_from(f"{order}HHIH", tiff, start + 2 + 12 * index)
            if tag == _ORIENTATION:
                return value if kind == _SHORT and count == 1 and 1 <= value <= 8 else 1
    except struct.error:
        pass
    return 1
