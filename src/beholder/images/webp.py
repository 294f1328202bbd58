"""WebP chunks: read the header and strip profile, EXIF, XMP and unknown chunks, without decoding.

The walk detects: a file shorter than its RIFF length, a chunk that runs past it, a canvas that differs from the image
in it, a first partition longer than its chunk. Damage inside the bitstream, and bytes behind its end, take a decode to
find (docs/judges.md, "What is sent of an image").
"""

from __future__ import annotations

import struct

from beholder.errors import ImageError
from beholder.images.headers import ImageHeader, ImageSize, is_srgb, read_orientation

_MAX_CHUNKS = 100_000
_ALPHA, _ANIMATION = 0x10, 0x02  # flags of VP8X
_KEY_FRAME_CODE = b"\x9d\x01\x2a"
_LOSSLESS_SIGNATURE = 0x2F

ChunkData = bytes | memoryview


def read_webp_size(start: bytes, end: bytes, size: int) -> ImageSize | None:
    """Return the size from the first bytes of a file; `None` where they are not enough. See `read_jpeg_size`."""
    if 8 + int.from_bytes(start[4:8], "little") > size or len(start) < 30:
        return None
    kind, payload = start[12:16], start[20:30]
    if kind == b"VP8X":
        return _canvas_size(payload)
    if kind == b"VP8 " and payload[3:6] == _KEY_FRAME_CODE:
        return _lossy_size(payload)
    if kind == b"VP8L" and payload[0] == _LOSSLESS_SIGNATURE:
        return _lossless_size(payload)
    return None


def read_webp_header(data: bytes) -> ImageHeader:
    """Return the header of a whole WebP file. Raises `ImageError` where the structure is broken."""
    chunks = _walk_chunks(data)
    canvas = chunks.get(b"VP8X")
    orientation = read_orientation(bytes(chunks.get(b"EXIF", b"")))
    embedded = bytes(chunks.get(b"ICCP", b""))
    profile = embedded if embedded and not is_srgb(embedded) else None
    if canvas is not None and len(canvas) < 10:
        raise ImageError("is damaged: a WebP header that is too short")
    if canvas is not None and canvas[0] & _ANIMATION:
        size = _canvas_size(canvas)
        return ImageHeader("webp", *size, orientation=orientation, alpha=True, animated=True, profile=profile)
    lossless = b"VP8L" in chunks
    kind = b"VP8L" if lossless else b"VP8 "
    if kind not in chunks:
        raise ImageError("is damaged: a WebP without a picture in it")
    stream = chunks[kind]
    if lossless:
        _check_lossless(stream)
    else:
        _check_lossy(stream)
    size = _lossless_size(stream) if lossless else _lossy_size(stream)
    scaled = not lossless and bool((stream[7] | stream[9]) & 0xC0)  # hints for scaling it up, which decoders ignore
    if canvas is not None and _canvas_size(canvas) != size:
        raise ImageError("is damaged: a WebP whose picture does not fill its canvas")
    picture = _make_chunk(kind, stream)
    alpha_chunks: list[ChunkData] = []
    if not lossless and canvas is not None and b"ALPH" in chunks:
        canvas_chunk = _make_chunk(b"VP8X", bytes([_ALPHA, 0, 0, 0]) + bytes(canvas[4:10]))
        alpha_chunks = [*canvas_chunk, *_make_chunk(b"ALPH", chunks[b"ALPH"])]
    return ImageHeader(
        "webp",
        *size,
        orientation=orientation,
        lossless=lossless,
        alpha=bool(stream[4] & 0x10) if lossless else bool(alpha_chunks),
        sendable=not scaled,
        profile=profile,
        stripped=_make_file([*alpha_chunks, *picture]),
        stripped_opaque=_make_file(picture) if alpha_chunks else (),
    )


def _walk_chunks(data: bytes) -> dict[bytes, ChunkData]:
    """Return the first chunk of each kind."""
    view = memoryview(data)
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data):
        raise ImageError(f"is cut off: {len(data)} of {end} bytes of the WebP are there")
    chunks: dict[bytes, ChunkData] = {}
    at = 12
    for _ in range(_MAX_CHUNKS):
        if at + 8 > end:
            return chunks
        kind, length = struct.unpack_from("<4sI", data, at)
        if at + 8 + length > end:
            raise ImageError("is damaged: a WebP chunk runs past the end of the file")
        chunks.setdefault(kind, view[at + 8 : at + 8 + length])
        at += 8 + length + length % 2
    raise ImageError("is damaged: a WebP with too many chunks")


def _canvas_size(canvas: ChunkData) -> ImageSize:
    return int.from_bytes(canvas[4:7], "little") + 1, int.from_bytes(canvas[7:10], "little") + 1


def _lossy_size(stream: ChunkData) -> ImageSize:
    width, height = struct.unpack_from("<HH", stream, 6)
    return width & 0x3FFF, height & 0x3FFF


def _lossless_size(stream: ChunkData) -> ImageSize:
    bits = int.from_bytes(stream[1:5], "little")
    return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1


def _check_lossy(stream: ChunkData) -> None:
    tag = int.from_bytes(stream[:3], "little")
    shown_key_frame = not tag & 1 and tag >> 1 & 7 <= 3 and tag >> 4 & 1
    if len(stream) < 10 or bytes(stream[3:6]) != _KEY_FRAME_CODE or not shown_key_frame:
        raise ImageError("is damaged: a WebP without a key frame")
    if tag >> 5 > len(stream) - 10:
        raise ImageError("is cut off: the WebP picture is shorter than it says")


def _check_lossless(stream: ChunkData) -> None:
    if len(stream) < 5 or stream[0] != _LOSSLESS_SIGNATURE:
        raise ImageError("is damaged: a WebP without its lossless signature")
    if stream[4] >> 5:
        raise ImageError("is damaged: a lossless WebP of an unknown version")


def _make_file(chunks: list[ChunkData]) -> tuple[ChunkData, ...]:
    return b"RIFF", struct.pack("<I", 4 + sum(map(len, chunks))), b"WEBP", *chunks


def _make_chunk(kind: bytes, payload: ChunkData) -> list[ChunkData]:
    return [kind, struct.pack("<I", len(payload)), payload, b"\0" * (len(payload) % 2)]
