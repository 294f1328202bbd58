"""No bytes are sent that draw nothing, except where only decoding would find them, which docs/judges.md lists.

Each place of a file where something can be hidden gets a mark; the picture looks as before, and the mark is gone.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from support.images import jpeg_segment, photo, png_chunk, saved, with_png_chunk

from beholder.errors import ImageError
from beholder.images.image import Sizing
from beholder.images.prepare import prepare_image, prepare_unchanged

MARK = b"h!d3n-m4rk"
DOCS = Path(__file__).parents[2] / "docs" / "judges.md"


def jpeg(**options: object) -> bytes:
    return saved(photo(), "JPEG", **options)


def before(data: bytes, marker: int, inserted: bytes) -> bytes:
    at = data.index(bytes([0xFF, marker]))
    return data[:at] + inserted + data[at:]


def table(marker: int, number: int) -> bytes:
    """A table that nothing uses, full of marks."""
    filling = (MARK * 20)[: 64 if marker == 0xDB else 160]
    counts = b"" if marker == 0xDB else bytes(15) + bytes([160])
    return jpeg_segment(marker, bytes([number]) + counts + filling)


def joined_tables(data: bytes) -> bytes:
    """One segment with a table that is used and one that is not."""
    at = data.index(b"\xff\xdb")
    size = struct.unpack_from(">H", data, at + 2)[0]
    both = data[at + 4 : at + 2 + size] + b"\x03" + (MARK * 7)[:64]
    return data[:at] + jpeg_segment(0xDB, both) + data[at + 2 + size :]


def changed(data: bytes, found: bytes, offset: int, new: bytes) -> bytes:
    at = data.index(found) + offset
    return data[:at] + new + data[at + len(new) :]


def second_scan(data: bytes) -> bytes:
    """A whole picture in front of the one that is seen: its scan is overwritten by the next."""
    at = data.index(b"\xff\xda")
    scan = data[at:-2]
    other = re.sub(rb"[\x01-\x20]", b"\x15", scan[14:])
    return data[:at] + scan[:14] + other + MARK + scan + data[-2:]


JFIF, ADOBE = b"JFIF\0", b"Adobe"
JPEGS: dict[str, Callable[[], bytes]] = {
    "comment": lambda: before(jpeg(), 0xDB, jpeg_segment(0xFE, MARK)),
    "between segments": lambda: before(jpeg(), 0xDB, MARK),
    "between scans": lambda: before(jpeg(progressive=True), 0xDA, MARK),
    "behind the end": lambda: jpeg() + MARK,
    "segments of applications": lambda: before(
        jpeg(), 0xDB, b"".join(jpeg_segment(0xE0 + number, MARK) for number in range(16))
    ),
    "quantization table that nothing uses": lambda: before(jpeg(), 0xC0, table(0xDB, 3)),
    "quantization table that is replaced": lambda: before(jpeg(), 0xDB, table(0xDB, 0)),
    "quantization table in one segment with others": lambda: joined_tables(jpeg()),
    "Huffman table that nothing uses": lambda: before(jpeg(), 0xDA, table(0xC4, 0x13)),
    "Huffman table that is replaced": lambda: before(jpeg(), 0xC4, table(0xC4, 0x00)),
    "tables behind the last scan": lambda: jpeg()[:-2] + table(0xC4, 0x00) + table(0xDB, 0) + jpeg()[-2:],
    "restart intervals that are replaced": lambda: before(
        jpeg(restart_marker_blocks=4), 0xDB, b"".join(jpeg_segment(0xDD, MARK[at : at + 2]) for at in range(0, 10, 2))
    ),
    "several JFIF segments": lambda: before(jpeg(), 0xDB, jpeg_segment(0xE0, JFIF + b"\x01\x01" + MARK)),
    "version and density": lambda: changed(jpeg(), JFIF, 5, MARK[:7]),
    "version and flags of Adobe": lambda: changed(jpeg(keep_rgb=True), ADOBE, 5, MARK[:6]),
    "several Adobe segments": lambda: before(
        jpeg(keep_rgb=True), 0xDB, jpeg_segment(0xEE, ADOBE + MARK[:6] + b"\1") + jpeg_segment(0xEE, ADOBE + bytes(7))
    ),
    "a scan that is overwritten": lambda: second_scan(jpeg()),
    "behind a restart marker that no interval asks for": lambda: jpeg()[:-2] + b"\xff\xd0" + MARK + jpeg()[-2:],
    "fill bytes": lambda: jpeg()[:-2] + b"\xff" * 50 + jpeg()[-2:],
}


def end_chunk(data: bytes) -> bytes:
    return data[:-12] + png_chunk(b"IEND", MARK)


def png(**options: object) -> bytes:
    return saved(photo(), "PNG", **options)


def few_colours() -> Image.Image:
    return photo().convert("P", palette=Image.Palette.ADAPTIVE, colors=16)


PNGS: dict[str, Callable[[], bytes]] = {
    "behind the end": lambda: png() + MARK,
    "in the end chunk": lambda: end_chunk(png()),
    "text": lambda: with_png_chunk(png(), b"tEXt", b"Comment\0" + MARK),
    "own chunk": lambda: with_png_chunk(png(), b"prVt", MARK),
    "palette of a picture that needs none": lambda: with_png_chunk(png(), b"PLTE", (MARK * 6)[:60]),
    "suggested palette": lambda: with_png_chunk(png(), b"sPLT", MARK),
    "histogram": lambda: with_png_chunk(png(), b"hIST", MARK),
    "physical size": lambda: with_png_chunk(png(), b"pHYs", MARK[:9]),
    "transparent colour that does not occur": lambda: with_png_chunk(png(), b"tRNS", MARK[:6]),
    "gamma": lambda: with_png_chunk(png(), b"gAMA", MARK[:4]),
}


def webp(**options: object) -> bytes:
    return saved(photo(), "WEBP", **options)


def extended(*chunks: tuple[bytes, bytes], flags: int = 0, **options: object) -> bytes:
    """A WebP with further chunks in front of and behind its picture."""
    picture = webp(**options)[12:]
    canvas = bytes([flags]) + MARK[:3] + b"".join((side - 1).to_bytes(3, "little") for side in photo().size)
    packed = [kind + struct.pack("<I", len(data)) + data + b"!" * (len(data) % 2) for kind, data in chunks]
    first = [b"VP8X" + struct.pack("<I", 10) + canvas, *(one for one in packed if one[:4] == b"ALPH")]
    body = b"WEBP" + b"".join(first) + picture + b"".join(one for one in packed if one[:4] != b"ALPH")
    return b"RIFF" + struct.pack("<I", len(body)) + body


def opaque_alpha() -> bytes:
    """An alpha channel, not packed, that is opaque, with a mark behind it."""
    width, height = photo().size
    return b"\0" + b"\xff" * (width * height) + MARK


WEBPS: dict[str, Callable[[], bytes]] = {
    "behind the end": lambda: webp() + MARK,
    "own chunk": lambda: extended((b"prVt", MARK)),
    "behind the odd end of a chunk": lambda: extended((b"prVt", MARK + b"x")),
    "EXIF, XMP and profile": lambda: extended((b"EXIF", MARK), (b"XMP ", MARK), (b"ICCP", MARK)),
    "animation without one": lambda: extended((b"ANIM", MARK), (b"ANMF", MARK)),
    "second picture": lambda: extended((b"VP8 ", MARK)),
    "alpha of an opaque picture": lambda: extended((b"ALPH", opaque_alpha()), flags=0x10),
    "alpha of a lossless picture": lambda: extended((b"ALPH", MARK), lossless=True),
    "hints for scaling": lambda: changed(
        webp(), b"\x9d\x01\x2a", 3, struct.pack("<HH", *(s | 0x8000 for s in photo().size))
    ),
}
FILES = {
    f"{kind}: {name}": make
    for kind, files in (("JPEG", JPEGS), ("PNG", PNGS), ("WebP", WEBPS))
    for name, make in files.items()
}


REFUSED = ("JPEG: a scan that is overwritten", "JPEG: behind a restart marker that no interval asks for")


def pixels(data: bytes) -> NDArray[np.int16]:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"), np.int16)


@pytest.mark.parametrize("place", FILES)
def test_what_draws_nothing_is_not_sent(place: str) -> None:
    try:
        sent = prepare_image(FILES[place](), Sizing(max_bytes=None)).data
    except ImageError:
        assert place in REFUSED
        return
    assert all(MARK[at : at + 4] not in sent for at in range(len(MARK) - 3))
    assert b"\xff\xff" not in sent[-60:]
    assert np.abs(pixels(sent) - np.asarray(photo(), np.int16)).mean() < 8


ORDINARY: dict[str, Callable[[], bytes]] = {
    "JPEG, 4:4:4": lambda: jpeg(subsampling=0),
    "JPEG, 4:2:2": lambda: jpeg(subsampling=1),
    "JPEG, 4:2:0": lambda: jpeg(subsampling=2),
    "JPEG, progressive": lambda: jpeg(progressive=True),
    "JPEG, optimized": lambda: jpeg(optimize=True),
    "JPEG, gray": lambda: saved(photo().convert("L"), "JPEG"),
    "JPEG, gray and progressive": lambda: saved(photo().convert("L"), "JPEG", progressive=True),
    "JPEG, RGB": lambda: jpeg(keep_rgb=True),
    "JPEG, restarts": lambda: jpeg(restart_marker_blocks=3),
    "JPEG, 300 dpi": lambda: jpeg(dpi=(300, 300)),
    "PNG": png,
    "PNG, palette": lambda: saved(few_colours(), "PNG"),
    "PNG, gray": lambda: saved(photo().convert("L"), "PNG"),
    "WebP": webp,
    "WebP, lossless": lambda: webp(lossless=True),
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_an_ordinary_file_is_sent_as_it_is(kind: str) -> None:
    file = ORDINARY[kind]()
    prepared = prepare_unchanged(file, Sizing(max_bytes=None))
    assert prepared is not None
    assert prepared.data == file


def trailing_idat(data: bytes) -> bytes:
    at = data.index(b"IDAT")
    size = struct.unpack_from(">I", data, at - 4)[0]
    return data[: at - 4] + png_chunk(b"IDAT", data[at + 4 : at + 4 + size] + MARK) + data[at + 8 + size :]


def longer_picture(data: bytes) -> bytes:
    at = data.index(b"IDAT")
    size = struct.unpack_from(">I", data, at - 4)[0]
    packed = zlib.compress(zlib.decompress(data[at + 4 : at + 4 + size]) + MARK, 0)
    return data[: at - 4] + png_chunk(b"IDAT", packed) + data[at + 8 + size :]


def unused_colours() -> bytes:
    data = saved(few_colours(), "PNG")
    at = data.index(b"PLTE")
    size = struct.unpack_from(">I", data, at - 4)[0]
    return data[: at - 4] + png_chunk(b"PLTE", data[at + 4 : at + 4 + size] + (MARK * 3)[:30]) + data[at + 8 + size :]


def longer_stream(**options: object) -> bytes:
    data = webp(**options)
    at = 12
    stream = data[at + 8 : at + 8 + struct.unpack_from("<I", data, at + 4)[0]] + MARK + MARK
    body = b"WEBP" + data[at : at + 4] + struct.pack("<I", len(stream)) + stream + b"\0" * (len(stream) % 2)
    return b"RIFF" + struct.pack("<I", len(body)) + body


# What only a decoder would find: the words by which the docs list it, and a file that has it.
REMAINING: dict[str, Callable[[], bytes]] = {
    "behind the last block of a JPEG scan": lambda: jpeg()[:-2] + MARK + jpeg()[-2:],
    "behind the compressed data of a PNG": lambda: trailing_idat(png()),
    "behind the last row of a PNG": lambda: longer_picture(png()),
    "colours of a palette that no pixel has": unused_colours,
    "behind the picture data of a WebP": longer_stream,
    "behind the picture data of a lossless WebP": lambda: longer_stream(lossless=True),
}


@pytest.mark.parametrize("place", REMAINING)
def test_what_stays_is_documented_and_goes_when_the_image_is_encoded_again(place: str) -> None:
    file = REMAINING[place]()
    assert MARK[:8] in prepare_image(file, Sizing(max_bytes=None)).data, "it goes: take it out of the docs"
    assert place.replace(" lossless", "") in " ".join(DOCS.read_text("utf-8").split())
    assert MARK[:8] not in prepare_image(file, Sizing(max_side=64)).data
