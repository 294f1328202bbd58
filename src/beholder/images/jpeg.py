"""JPEG at the level of its markers: one walk from the first to the end-of-image marker, without decoding.

The walk finds size, orientation and colour profile, and collects the file's essence: what a decoder needs and
nothing else. Everything after the first end-of-image marker goes: phones append whole second pictures and videos
there, each with its own GPS.

What the walk catches: a file cut off anywhere before its end marker, a segment that runs past the file, tables that
do not fill theirs, two frame headers, no frame, no scan. What it cannot catch: damage inside a scan that left the end
marker in place. Finding that takes a full decode (6 ms for 2 megapixels against 0.2), which only pictures that must
be re-encoded get.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

from beholder.errors import ImageError
from beholder.images.headers import ImageHeader, ImageSize, is_srgb, read_orientation

_FRAME_MARKERS = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}


def read_jpeg_size(start: bytes, end: bytes, size: int) -> ImageSize | None:
    if not end.endswith(b"\xff\xd9"):
        return None
    at = 2
    while at + 9 <= len(start) and start[at] == 0xFF:
        marker, length = start[at + 1], int.from_bytes(start[at + 2 : at + 4], "big")
        if marker in _FRAME_MARKERS:
            height, width = struct.unpack_from(">HH", start, at + 5)
            return width, height
        if not 0xC0 <= marker <= 0xFE or length < 2:
            return None
        at += 2 + length
    return None


# In a scan 0xFF is data when followed by 0 and a restart when followed by D0..D7; anything else ends the scan.
# 0.17 ms for 460 KB, the fastest of what the standard library offers (bytes.find takes 0.41).
_AFTER_SCAN = re.compile(rb"\xff[\x01-\xcf\xd8-\xfe]")
_MARKER = re.compile(rb"\xff+([\x01-\xfe])")

_EOI, _SOS = 0xD9, 0xDA
_DHT, _DQT, _DRI = 0xC4, 0xDB, 0xDD  # Huffman and quantisation tables, restart interval
_FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}
_COMMON_FRAMES = {0xC0, 0xC1, 0xC2}  # baseline, extended, progressive: what every judge decodes
_STANDALONE = {0x01, *range(0xD0, 0xD9)}  # no length, and no meaning outside a scan
_METADATA = {0xFE, *range(0xE0, 0xF0)}

_MAX_SEGMENTS = 20_000
_MAX_SCANS = 200  # a progressive file has about ten; thousands are an attack on the decoder's time

_CUT_OFF = "is cut off: the JPEG data ends before its end marker"


@dataclass(slots=True)
class _JpegParts:
    """What the walk has collected. `frame` is the frame's marker, bits, height, width and channels; `known` says that
    there was no segment whose meaning nobody told us."""

    essence: list[bytes | memoryview]
    frame: tuple[int, int, int, int, int] | None = None
    scans: int = 0
    exif: bytes = b""
    profile_parts: list[bytes] = field(default_factory=list)
    known: bool = True


def read_jpeg_header(data: bytes) -> ImageHeader:
    """Raises `ImageError` where the structure is broken."""
    found = _walk_segments(data)
    if found.frame is None or found.scans == 0:
        raise ImageError("is damaged: a JPEG without a picture in it")
    marker, bits, height, width, channels = found.frame
    profile = _join_profile(found.profile_parts)
    return ImageHeader(
        format="jpeg",
        width=width,
        height=height,
        orientation=read_orientation(found.exif),
        bits=bits,
        channels=channels,
        sendable=found.known and marker in _COMMON_FRAMES and bits == 8 and channels in (1, 3),
        profile=None if profile is None or is_srgb(profile) else profile,
        essence=tuple(found.essence) if found.known else (),
    )


def _walk_segments(data: bytes) -> _JpegParts:
    view = memoryview(data)
    found = _JpegParts([view[:2]])
    at = 2
    for _ in range(_MAX_SEGMENTS):
        match = _MARKER.search(data, at)  # bytes between segments are skipped, as every decoder does
        if match is None:
            raise ImageError(_CUT_OFF)
        marker = match[1][0]
        start, at = match.end() - 2, match.end()
        if marker == _EOI:
            found.essence.append(view[start:at])
            return found
        if marker in _STANDALONE:
            continue
        at = _segment_end(data, at)
        payload = data[start + 4 : at]
        if marker in _METADATA:
            _take_metadata(found, marker, payload)
            continue
        if marker == _SOS:
            at = _scan_end(data, at, payload, found)
        elif marker in _FRAMES:
            if found.frame is not None:
                raise ImageError("is damaged: a JPEG with two frame headers")
            found.frame = (marker, *_parse_frame(payload))
        elif marker in (_DHT, _DQT, _DRI):
            _check_tables(marker, payload)
        else:
            found.known = False
            continue
        found.essence.append(view[start:at])
    raise ImageError("is damaged: a JPEG with too many segments")


def _take_metadata(found: _JpegParts, marker: int, payload: bytes) -> None:
    found.essence.extend(_required_metadata(marker, payload))
    if marker == 0xE1 and not found.exif and payload.startswith(b"Exif\0\0"):
        found.exif = payload
    elif marker == 0xE2 and payload.startswith(b"ICC_PROFILE\0"):
        found.profile_parts.append(payload[12:])


def _scan_end(data: bytes, at: int, payload: bytes, found: _JpegParts) -> int:
    """Where the scan whose header ends at `at` is over."""
    found.scans += 1
    if found.scans > _MAX_SCANS:
        raise ImageError("is damaged: a JPEG with too many scans")
    if found.frame is None or not payload or len(payload) != 4 + 2 * payload[0]:
        raise ImageError("is damaged: a JPEG scan without its header")
    match = _AFTER_SCAN.search(data, at)
    if match is None:
        raise ImageError(_CUT_OFF)
    return match.start()


def _segment_end(data: bytes, at: int) -> int:
    length = int.from_bytes(data[at : at + 2], "big")
    if at + max(length, 2) > len(data):
        raise ImageError(_CUT_OFF)
    if length < 2:
        raise ImageError("is damaged: a JPEG segment without a length")
    return at + length


def _parse_frame(payload: bytes) -> tuple[int, int, int, int]:
    if len(payload) < 6 or len(payload) != 6 + 3 * payload[5]:
        raise ImageError("is damaged: its JPEG frame header has the wrong length")
    bits, height, width, channels = struct.unpack_from(">BHHB", payload)
    if any(not 1 <= factor <= 4 for sampling in payload[7::3] for factor in (sampling >> 4, sampling & 15)):
        raise ImageError("is damaged: its JPEG frame header makes no sense")
    return bits, height, width, channels


def _check_tables(marker: int, payload: bytes) -> None:
    """That the tables fill their segment exactly. Says nothing of what is in them."""
    at = 0
    if marker == _DRI:
        at = 2
    while marker == _DQT and at < len(payload):
        at += 129 if payload[at] >> 4 else 65
    while marker == _DHT and at < len(payload):
        at += 17 + sum(payload[at + 1 : at + 17])
    if at != len(payload):
        raise ImageError("is damaged: its JPEG tables have the wrong length")


def _required_metadata(marker: int, payload: bytes) -> list[bytes]:
    """What must stay of an application segment: JFIF and Adobe say how colours were transformed. Both are written
    anew at their standard length, so that no thumbnail and nothing else travels in them."""
    if marker == 0xE0 and payload.startswith(b"JFIF\0") and len(payload) >= 14:
        return [b"\xff\xe0\x00\x10" + payload[:12] + b"\0\0"]
    if marker == 0xEE and payload.startswith(b"Adobe") and len(payload) >= 12:
        return [b"\xff\xee\x00\x0e" + payload[:12]]
    return []


def _join_profile(parts: list[bytes]) -> bytes | None:
    """The parts in the order of their numbers; each starts with its number and the count of all."""
    if not parts:
        return None
    return b"".join(part[2:] for part in sorted(parts, key=lambda part: part[:1]))
