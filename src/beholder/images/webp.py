"""WebP at the level of its RIFF chunks: the bitstream is kept, profile, EXIF, XMP and anything unknown dropped.

What the walk catches: a file shorter than its RIFF length, a chunk that runs past it, a canvas that differs from
the picture in it, a first partition longer than its chunk. Damage inside the bitstream takes a decode to find.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from beholder.errors import ImageError
from beholder.images.headers import ImageHeader, ImageSize, is_srgb, read_orientation


def read_webp_size(start: bytes, end: bytes, size: int) -> ImageSize | None:
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


_MAX_CHUNKS = 100_000
_ALPHA, _ANIMATION = 0x10, 0x02

ChunkData = bytes | memoryview


@dataclass(frozen=True, slots=True)
class _WebpBitstream:
    width: int
    height: int
    lossless: bool
    alpha: bool


def read_webp_header(data: bytes) -> ImageHeader:
    """Raises `ImageError` where the structure is broken."""
    chunks = _walk_chunks(data)
    canvas = chunks.get(b"VP8X")
    turned = read_orientation(bytes(chunks.get(b"EXIF", b"")))
    tagged = bytes(chunks.get(b"ICCP", b""))
    profile = tagged if tagged and not is_srgb(tagged) else None
    if canvas is not None and len(canvas) < 10:
        raise ImageError("is damaged: a WebP header that is too short")
    if canvas is not None and canvas[0] & _ANIMATION:
        width, height = _canvas_size(canvas)
        return ImageHeader("webp", width, height, orientation=turned, alpha=True, animated=True, profile=profile)
    kind = b"VP8L" if b"VP8L" in chunks else b"VP8 "
    if kind not in chunks:
        raise ImageError("is damaged: a WebP without a picture in it")
    stream = _parse_lossless(chunks[kind]) if kind == b"VP8L" else _parse_lossy(chunks[kind])
    if canvas is not None and _canvas_size(canvas) != (stream.width, stream.height):
        raise ImageError("is damaged: a WebP whose picture does not fill its canvas")
    has_alpha_chunk = kind == b"VP8 " and canvas is not None and b"ALPH" in chunks
    essence: list[ChunkData] = _make_chunk(kind, chunks[kind])
    if has_alpha_chunk and canvas is not None:
        flags = _make_chunk(b"VP8X", bytes([_ALPHA, 0, 0, 0]) + bytes(canvas[4:10]))
        essence = [*flags, *_make_chunk(b"ALPH", chunks[b"ALPH"]), *essence]
    return ImageHeader(
        format="webp",
        width=stream.width,
        height=stream.height,
        orientation=turned,
        lossless=stream.lossless,
        alpha=stream.alpha or has_alpha_chunk,
        sendable=True,
        profile=profile,
        essence=(b"RIFF", struct.pack("<I", 4 + sum(map(len, essence))), b"WEBP", *essence),
    )


def _walk_chunks(data: bytes) -> dict[bytes, ChunkData]:
    """The first chunk of each kind."""
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


def _canvas_size(canvas: ChunkData) -> tuple[int, int]:
    return int.from_bytes(canvas[4:7], "little") + 1, int.from_bytes(canvas[7:10], "little") + 1


def _parse_lossy(stream: ChunkData) -> _WebpBitstream:
    tag = int.from_bytes(stream[:3], "little")
    shown_key_frame = not tag & 1 and tag >> 1 & 7 <= 3 and tag >> 4 & 1
    if len(stream) < 10 or bytes(stream[3:6]) != b"\x9d\x01\x2a" or not shown_key_frame:
        raise ImageError("is damaged: a WebP without a key frame")
    if tag >> 5 > len(stream) - 10:
        raise ImageError("is cut off: the WebP picture is shorter than it says")
    width, height = struct.unpack_from("<HH", stream, 6)
    return _WebpBitstream(width & 0x3FFF, height & 0x3FFF, lossless=False, alpha=False)


def _parse_lossless(stream: ChunkData) -> _WebpBitstream:
    if len(stream) < 5 or stream[0] != 0x2F:
        raise ImageError("is damaged: a WebP without its lossless signature")
    bits = int.from_bytes(stream[1:5], "little")
    if bits >> 29:
        raise ImageError("is damaged: a lossless WebP of an unknown version")
    return _WebpBitstream((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, lossless=True, alpha=bool(bits >> 28 & 1))


def _make_chunk(kind: bytes, payload: ChunkData) -> list[ChunkData]:
    return [kind, struct.pack("<I", len(payload)), payload, b"\0" * (len(payload) % 2)]
