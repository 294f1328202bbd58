"""The pictures of a report: the ledger's thumbnails, made smaller until all of them fit into the room there is."""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import IO

from beholder.images.thumbnails import SIDE
from beholder.ledger import Ledger
from beholder.reports.html.gathering import Watch, unwatched

THREADS = 2
BLOCK = 400_000  # characters of pictures that the page reads at a time, when it needs one of them
AROUND = 80  # bytes that the page has around a block, whatever is in it
_SAMPLE = 40  # pictures from which the size of all is guessed
_MARGIN = 1.04  # by which a guess may be wrong before a second try is likely
_PAGE = 64
_METHOD = 2  # of WebP: 4 makes a picture 4 % smaller and takes 20 % longer


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a picture is kept: pixels on its longer side, WebP quality. `None`: as the ledger has it."""

    side: int
    quality: int | None = None

    @property
    def told(self) -> str:
        return f"at most {self.side} pixels wide and high" + (
            "" if self.quality is None else f", WebP quality {self.quality}"
        )


LADDER = (Detail(SIDE), *(Detail(side, 32 + side // 12) for side in range(448, 32, -32)))


@dataclass(frozen=True, slots=True)
class Pictures:
    """Pictures in a file, as blocks of base64 JSON. `starts` has the number of the first picture of each block;
    `missing` are numbers of pictures that the ledger does not have; `size` is in bytes as the page holds them, with
    what it says of blocks and of missing ones."""

    detail: Detail
    size: int
    starts: tuple[int, ...]
    missing: frozenset[int] = frozenset()
    lengths: tuple[int, ...] = field(default=(), repr=False)

    def blocks(self, file: IO[bytes]) -> Iterator[str]:
        file.seek(0)
        for length in self.lengths:
            yield file.read(length).decode("ascii")


def least_room(ledger: Ledger, digests: Sequence[str]) -> int:
    """About how many bytes of a page the pictures need at least."""
    return round(_guessed(ledger, digests, LADDER[-1]) * _MARGIN)


def fitted(ledger: Ledger, digests: Sequence[str], room: int, file: IO[bytes], watch: Watch = unwatched) -> Pictures:
    """Writes the pictures to `file` with as much detail as `room` bytes of the page allow; with the least there is
    where none of them fits. Pictures that are small already stay as they are."""
    at = bisect_left(LADDER, True, key=lambda rung: _guessed(ledger, digests, rung) * _MARGIN <= room)
    for rung in LADDER[at:-1]:
        made = _written(ledger, digests, rung, file, room, watch)
        if made is not None:
            return made
    made = _written(ledger, digests, LADDER[-1], file, None, watch)
    assert made is not None
    return made


def _written(
    ledger: Ledger, digests: Sequence[str], rung: Detail, file: IO[bytes], room: int | None, watch: Watch
) -> Pictures | None:
    import pybase64

    file.seek(0)
    file.truncate()
    size, starts, lengths, missing = AROUND, [0], [0], set()
    for number, data in enumerate(_made(ledger, digests, rung)):
        if data is None:
            missing.add(number)
        text = b"" if data is None else pybase64.b64encode(data)
        if lengths[-1] + len(text) > BLOCK and lengths[-1]:
            lengths[-1] += file.write(b"]")
            starts.append(number)
            lengths.append(0)
            size += AROUND
        lengths[-1] += file.write((b'["' if number == starts[-1] else b',"') + text + b'"')
        size += _taken(data, number)
        watch("making pictures", number + 1, len(digests))
        if room is not None and size > room:
            return None
    lengths[-1] += file.write(b"]" if digests else b"[]")
    return Pictures(rung, size, tuple(starts), frozenset(missing), tuple(lengths))


def _made(ledger: Ledger, digests: Sequence[str], rung: Detail) -> Iterator[bytes | None]:
    """The pictures in order; `None` where there is none. Some are made at a time, so that memory stays flat."""
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(digests), _PAGE):
            some = digests[start : start + _PAGE]
            kept = ledger.has_thumbnail(some)
            stored = [ledger.thumbnail(digest) if digest in kept else None for digest in some]
            yield from pool.map(partial(_reduced, rung=rung), stored)


def _guessed(ledger: Ledger, digests: Sequence[str], rung: Detail) -> float:
    """Bytes in the page, judged by some pictures from beginning to end; exact where there are few."""
    step = max(1, len(digests) // _SAMPLE)
    some = digests[::step]
    sizes = [_taken(data, len(digests)) for data in _made(ledger, some, rung)]
    return AROUND + sum(sizes) / max(1, len(some)) * len(digests)


def _taken(data: bytes | None, number: int) -> int:
    """Bytes that a picture takes in the page: base64 in quotes, a comma, and for a missing one its number in a list."""
    return 4 * ((len(data) + 2) // 3) + 3 if data is not None else 3 + len(str(number)) + 1


def _reduced(stored: bytes | None, rung: Detail) -> bytes | None:
    """The picture with no more detail than the rung has; `None` where there is none, or none that can be read."""
    if stored is None or rung.quality is None:
        return stored
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(stored), formats=["WEBP"]) as opened:
            picture = opened.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError):
        return None
    share = rung.side / max(picture.size)
    if share < 1:
        size = (max(1, round(picture.width * share)), max(1, round(picture.height * share)))
        picture = picture.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=rung.quality, method=_METHOD)
    return out.getvalue() if share < 1 or out.tell() < len(stored) else stored
