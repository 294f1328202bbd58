"""Boxes of AVIF and HEIC files: the size of the coded pictures, from their own sequence headers, without decoding.

The size that a file states in its boxes (`ispe`) is what Pillow and pillow-heif report, but a decoder allocates what
the bitstream says. A file whose bitstream is much larger than it states is refused before it is decoded. The first
picture of an animation, which is the one that is decoded, is looked at as well.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain

from beholder.errors import ImageError
from beholder.images.headers import ImageSize

_SEQUENCE_HEADER = 1  # the type of the OBU (open bitstream unit)
_MAX_OBUS = 16  # in front of the sequence header, which comes first or second
_MAX_ITEMS = 10_000
_SEQUENCE_PARAMETERS = 33  # the type of the NAL unit of HEVC
_MAX_UNITS, _MAX_UNIT_BYTES = 16, 1024  # of HEVC, in front of a picture; the size stands in the first bytes
_TRACK = (b"moov", b"trak", b"mdia", b"minf", b"stbl")
_SAMPLE_ENTRY_BYTES = 78  # of a video track, before its boxes
_DAMAGE = (struct.error, IndexError, ValueError)
_FREE_PIXELS = 256 * 256  # a small picture may be coded with any padding


def check_avif_size(data: bytes, stated: ImageSize) -> None:
    """Raise `ImageError` if a picture in the file has over twice as many pixels as the file states, and not just a few.

    A file that cannot be parsed passes: the decoder will say what is wrong with it.
    """
    _check_size(_list_av1_sizes(data), stated)


def check_heic_size(data: bytes, stated: ImageSize) -> None:
    """Do the same for a HEIC file."""
    _check_size(_list_hevc_sizes(data), stated)


def _check_size(sizes: Iterator[ImageSize], stated: ImageSize) -> None:
    largest = stated
    with suppress(*_DAMAGE):
        for size in sizes:
            largest = max(largest, size, key=lambda one: one[0] * one[1])
    if largest[0] * largest[1] > 2 * stated[0] * stated[1] + _FREE_PIXELS:
        raise ImageError(
            f"is damaged: its header says {stated[0]}×{stated[1]} pixels, and its picture has {largest[0]}×{largest[1]}"
        )


def _list_av1_sizes(data: bytes) -> Iterator[ImageSize]:
    """Yield the sizes of the coded pictures: of the tracks, the image, its alpha channel, and the tiles of a grid."""
    for offset in chain(_locate_first_samples(data), _locate_pictures(data, b"av01")):
        with suppress(*_DAMAGE):  # of one picture; the decoder may take another
            if size := _read_sequence_size(data, offset):
                yield size


def _list_hevc_sizes(data: bytes) -> Iterator[ImageSize]:
    """Yield the sizes in the parameter sets: those in the boxes `hvcC`, and those at the beginning of a picture."""
    descriptions = _find_boxes(data, (*_TRACK, b"stsd"))
    entries = [
        (begin + _SAMPLE_ENTRY_BYTES, end)
        for description, stop in descriptions
        for _, begin, end in _boxes(data, description + 8, stop)
    ]
    properties = _find_boxes(data, (b"meta", b"iprp", b"ipco"))
    for begin, end in (*properties, *entries):
        for kind, at, stop in _boxes(data, begin, end):
            if kind == b"hvcC":
                yield from _parse_units(_list_stored_units(data[at:stop]))
    for offset in chain(_locate_first_samples(data), _locate_pictures(data, b"hvc1", b"hev1")):
        yield from _parse_units(_list_leading_units(data, offset))


def _find_boxes(data: bytes, path: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return the start and end of the content of the boxes on a path of kinds."""
    found = [(0, len(data))]
    for wanted in path:
        found = [
            (at + 4 if wanted == b"meta" else at, stop)  # which has a version
            for begin, end in found
            for kind, at, stop in _boxes(data, begin, end)
            if kind == wanted
        ]
    return found


def _locate_first_samples(data: bytes) -> Iterator[int]:
    """Yield where the first picture of each track begins."""
    for begin, end in _find_boxes(data, _TRACK):
        for kind, at, _ in _boxes(data, begin, end):
            if kind in (b"stco", b"co64") and int.from_bytes(data[at + 4 : at + 8], "big"):
                yield int.from_bytes(data[at + 8 : at + (12 if kind == b"stco" else 16)], "big")


def _locate_pictures(data: bytes, *kinds: bytes) -> Iterator[int]:
    """Yield where the pictures begin that are items of these kinds."""
    for meta in _find_boxes(data, (b"meta",))[:1]:
        inner = {kind: (begin, end) for kind, begin, end in _boxes(data, *meta)}
        pictures = set(_find_pictures(data, *inner[b"iinf"], kinds)) if b"iinf" in inner else set()
        stored = inner.get(b"idat", (0, 0))[0]
        for item, in_idat, offset in _locate_items(data, inner[b"iloc"][0]) if b"iloc" in inner else ():
            if item in pictures:
                yield offset + (stored if in_idat else 0)


def _boxes(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, start and end of the content of each box."""
    while at + 8 <= end:
        size, kind = struct.unpack_from(">I4s", data, at)
        begin = at + 8
        if size == 1:
            (size,) = struct.unpack_from(">Q", data, begin)
            begin += 8
        stop = end if size == 0 else at + size
        if stop < begin or stop > end:
            return
        yield kind, begin, stop
        at = stop


def _find_pictures(data: bytes, begin: int, end: int, kinds: Sequence[bytes]) -> Iterator[int]:
    """Yield the numbers of the items that are pictures of these kinds."""
    entries = begin + (6 if data[begin] == 0 else 8)
    for kind, at, _ in _boxes(data, entries, end):
        if kind == b"infe" and data[at] >= 2:
            wide = data[at] >= 3
            (item,) = struct.unpack_from(">I" if wide else ">H", data, at + 4)
            if data[at + (10 if wide else 8) : at + (14 if wide else 12)] in kinds:
                yield item


def _locate_items(data: bytes, at: int) -> Iterator[tuple[int, bool, int]]:
    """Yield number, whether it is in the box `idat`, and offset of the first extent of each item of the box `iloc`."""
    version = data[at]
    offset_size, length_size = data[at + 4] >> 4, data[at + 4] & 15
    base_size, index_size = data[at + 5] >> 4, data[at + 5] & 15 if version else 0
    at += 6

    def read(size: int) -> int:
        nonlocal at
        at += size
        if at > len(data):
            raise IndexError
        return int.from_bytes(data[at - size : at], "big")

    number_size = 4 if version == 2 else 2
    for _ in range(min(read(number_size), _MAX_ITEMS)):
        item = read(number_size)
        in_idat = bool(version) and read(2) & 15 == 1
        read(2)
        base = read(base_size)
        extents = read(2)
        if extents:
            read(index_size)
            offset = read(offset_size)
            read(length_size + (extents - 1) * (index_size + offset_size + length_size))
            yield item, in_idat, base + offset


def _read_sequence_size(data: bytes, at: int) -> ImageSize | None:
    for _ in range(_MAX_OBUS):
        header = data[at]
        at += 2 if header & 4 else 1
        size = 0
        for shift in range(0, 56, 7):
            size |= (data[at] & 127) << shift
            at += 1
            if not data[at - 1] & 128:
                break
        if header >> 3 & 15 == _SEQUENCE_HEADER:
            return _parse_sequence_header(_BitReader(data[at : at + min(size, 256)]))
        if not header & 2:  # it has no size: the last one
            return None
        at += size
    return None


class _BitReader:
    def __init__(self, data: bytes) -> None:
        self._bits = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    def read(self, count: int) -> int:
        self._left -= count
        if self._left < 0:
            raise IndexError
        return self._bits >> self._left & (1 << count) - 1

    def read_exponential(self) -> int:
        """Read a number with its length in zeros in front (Exp-Golomb)."""
        zeros = 0
        while not self.read(1):
            zeros += 1
        return (1 << zeros) - 1 + self.read(zeros)


def _parse_sequence_header(bits: _BitReader) -> ImageSize:
    """Return the largest frame that the sequence may have (AV1 specification, 5.5.1)."""
    bits.read(4)  # profile, still picture
    if bits.read(1):  # reduced header of a still picture
        bits.read(5)
    else:
        _skip_operating_points(bits)
    width_bits, height_bits = bits.read(4) + 1, bits.read(4) + 1
    return bits.read(width_bits) + 1, bits.read(height_bits) + 1


def _skip_operating_points(bits: _BitReader) -> None:
    delay_bits = 0
    if bits.read(1):  # timing
        bits.read(64)
        if bits.read(1):  # equal intervals
            bits.read_exponential()
        if bits.read(1):  # decoder model
            delay_bits = bits.read(5) + 1
            bits.read(42)
    has_delay = bits.read(1)
    for _ in range(bits.read(5) + 1):
        bits.read(12)
        if bits.read(5) > 7:
            bits.read(1)
        if delay_bits and bits.read(1):
            bits.read(2 * delay_bits + 1)
        if has_delay and bits.read(1):
            bits.read(4)


def _list_stored_units(box: bytes) -> Iterator[bytes]:
    """Yield the parameter sets of a box `hvcC` (ISO/IEC 14496-15, 8.3.3.1)."""
    at = 23
    for _ in range(box[22]):
        count, at = int.from_bytes(box[at + 1 : at + 3], "big"), at + 3
        for _ in range(min(count, _MAX_UNITS)):
            (size,) = struct.unpack_from(">H", box, at)
            yield box[at + 2 : at + 2 + size]
            at += 2 + size


def _list_leading_units(data: bytes, at: int) -> Iterator[bytes]:
    """Yield what stands in front of a picture: units that have their length before them."""
    for _ in range(_MAX_UNITS):
        (size,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 4 + min(size, _MAX_UNIT_BYTES)]
        at += 4 + size


def _parse_units(units: Iterator[bytes]) -> Iterator[ImageSize]:
    """Yield the sizes in those units that are parameter sets of a sequence."""
    with suppress(*_DAMAGE):
        for unit in units:
            with suppress(*_DAMAGE):  # of one unit; the decoder may take another
                if unit[0] >> 1 & 63 == _SEQUENCE_PARAMETERS:
                    yield _parse_sequence_parameters(unit)


def _parse_sequence_parameters(unit: bytes) -> ImageSize:
    """Return the size of the pictures of a sequence (H.265, 7.3.2.2)."""
    bits = _BitReader(unit[2:_MAX_UNIT_BYTES].replace(b"\0\0\3", b"\0\0"))
    bits.read(4)
    layers = bits.read(3)
    bits.read(1 + 96)  # profile and level
    present = [(bits.read(1), bits.read(1)) for _ in range(8 if layers else 0)][:layers]
    for has_profile, has_level in present:
        bits.read(88 * has_profile + 8 * has_level)
    bits.read_exponential()
    if bits.read_exponential() == 3:  # all colors at full size
        bits.read(1)
    return bits.read_exponential(), bits.read_exponential()
