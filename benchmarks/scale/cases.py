"""Very many small cases: each with an edited picture of its own, four with the same picture before it."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from random import Random

SIDE = 16  # pixels; the files have 870 bytes
MODELS = 4  # cases on one photo
FOLDER = 1000  # cases whose pictures lie in one folder

# Photos carry a mark of their colours that is cut off before they are sent, so that what is sent is another file.
_SRGB = b"sRGB", b"\0"
_HEADER = b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
_NOISE = Random(5).randbytes(SIDE * SIDE * 3)


def write_pictures(folder: Path, count: int) -> None:
    """The pictures of so many cases, no two alike."""
    for number in range(count):
        place = folder / f"{number // FOLDER:04}"
        if number % FOLDER == 0:
            place.mkdir(parents=True)
        (place / f"{number}.png").write_bytes(_png(number))
        if number % MODELS == 0:
            (place / f"{number}-before.png").write_bytes(_png(number + 2**31))


def write_cases(path: Path, count: int, pictures: int) -> Path:
    """A case file beside the pictures; where there are fewer of them, they come round again."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            picture = number % pictures
            before = picture // MODELS * MODELS
            case = {
                "id": f"photo-{number // MODELS:07}/model-{number % MODELS}",
                "input": f"{before // FOLDER:04}/{before}-before.png",
                "edited": f"{picture // FOLDER:04}/{picture}.png",
                "instruction": f"make the car in lane {number} red",
                "source": f"photo-{number // MODELS:07}",
                "model": f"model-{number % MODELS}",
            }
            file.write(json.dumps(case) + "\n")
    return path


def _png(number: int) -> bytes:
    pixels = struct.pack(">I", number) + _NOISE[4:]
    lines = b"".join(b"\0" + pixels[at : at + 3 * SIDE] for at in range(0, len(pixels), 3 * SIDE))
    parts = (_HEADER, _SRGB, (b"IDAT", zlib.compress(lines, 0)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, *zip(*parts, strict=True)))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
