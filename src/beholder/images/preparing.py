"""From the bytes of a file to the bytes for a judge: as they lie where that is right, else decoded and encoded anew.

A picture in one of the wanted formats that fits, is upright, sRGB (or untagged), of 8 bits and opaque goes out with
its pixels untouched; only metadata is cut out of the container, so no decoder runs: 0.6 ms of CPU for a 2-megapixel
JPEG, most of it SHA-256. What is noticed about a damaged file without decoding stands in `jpeg`, `png` and `webp`.
"""

from __future__ import annotations

import hashlib
import math

from beholder.errors import ImageError
from beholder.images import headers, jpeg, png, webp
from beholder.images.headers import Header
from beholder.images.model import STANDARD_CAPS, STANDARD_SIZING, Caps, PreparedImage, Sizing
from beholder.images.names import shown

_LOW_DETAIL_SIDE = 512
_OWN_READERS = {"jpeg": jpeg.header, "png": png.header, "webp": webp.header}


def digest(data: bytes) -> str:
    """SHA-256, in hex."""
    return hashlib.sha256(data).hexdigest()


def prepare(
    data: bytes, sizing: Sizing = STANDARD_SIZING, caps: Caps = STANDARD_CAPS, name: str = "image"
) -> PreparedImage:
    """The picture as a judge gets it. Pure: the same arguments give the same bytes, in any process.

    `name` is only for the sentence of the `ImageError` that anything unusable raises.
    """
    try:
        headers.check_bytes(len(data), caps)
        header = _header(data)
        headers.check_size(header.width, header.height, caps)
        return _prepared(data, header, sizing)
    except ImageError as error:
        raise ImageError(f"{shown(name)} {error}") from None


def _header(data: bytes) -> Header:
    file_format = headers.recognise(data)
    reader = _OWN_READERS.get(file_format)
    if reader is not None:
        return reader(data)
    from beholder.images import decoding

    return decoding.header(data, file_format)


def _prepared(data: bytes, header: Header, sizing: Sizing) -> PreparedImage:
    size = header.width, header.height
    upright = size if header.orientation < 5 else size[::-1]
    target = fitted(*upright, sizing)
    notes = ((f"first_frame_of_{header.format}",) if header.animated else ()) + header.notes
    passes = header.sendable and header.orientation == 1 and header.profile is None and target == size
    passes = passes and header.format in sizing.formats
    if passes and not header.alpha and (essence := _fitting_essence(header, sizing)) is not None:
        return _result(data, essence, f"image/{header.format}", size, header, notes)

    from beholder.images import decoding, encoding

    raster = decoding.decode(data, header, target, sizing.background)
    if passes and raster.opaque and (essence := _fitting_essence(header, sizing)) is not None:
        return _result(data, essence, f"image/{header.format}", size, header, notes)
    encoded = encoding.encode(
        encoding.resize(raster.pixels, *target),
        lossless=header.lossless,
        formats=sizing.formats,
        max_bytes=sizing.max_bytes,
    )
    notes += raster.notes + encoded.notes
    return _result(data, encoded.data, encoded.media_type, (encoded.width, encoded.height), header, notes)


def fitted(width: int, height: int, sizing: Sizing) -> tuple[int, int]:
    """The largest size of the same shape within the limits; never larger than it was, never under one pixel."""
    limits = [side for side in (sizing.max_side, _LOW_DETAIL_SIDE if sizing.detail == "low" else None) if side]
    scale = min([1.0, *(limit / max(width, height) for limit in limits)])
    if sizing.max_pixels is not None:
        scale = min(scale, math.sqrt(sizing.max_pixels / (width * height)))
    if scale >= 1:
        return width, height
    # Down, since rounding both sides up could break max_pixels; the hair keeps an exact limit exact.
    return max(1, math.floor(width * scale + 1e-6)), max(1, math.floor(height * scale + 1e-6))


def _fitting_essence(header: Header, sizing: Sizing) -> bytes | None:
    essence = b"".join(header.essence)
    return essence if sizing.max_bytes is None or len(essence) <= sizing.max_bytes else None


def _result(
    source: bytes, data: bytes, media_type: str, size: tuple[int, int], header: Header, notes: tuple[str, ...]
) -> PreparedImage:
    source_digest = digest(source)
    return PreparedImage(
        data=data,
        media_type=media_type,
        width=size[0],
        height=size[1],
        digest=source_digest if len(data) == len(source) and data == source else digest(data),
        source_digest=source_digest,
        source_width=header.width,
        source_height=header.height,
        source_format=header.format,
        notes=tuple(dict.fromkeys(notes)),
    )
