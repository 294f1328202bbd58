"""The pictures of an HTML report: the thumbnails of the ledger, reduced until they fit, as blocks of base64 texts."""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import IO

from beholder.images.prepare import THUMBNAIL_SIDE
from beholder.ledger.ledger import Ledger
from beholder.reports.run_data import ProgressCallback, no_progress

THREADS = 2
BLOCK_BYTES = 400_000  # of base64 in a block of pictures; the page parses a block when it needs one of its pictures
BLOCK_OVERHEAD = 80  # bytes of markup around a block
_SAMPLE_SIZE = 40  # pictures from which the size of all is estimated
_SIZE_MARGIN = 1.04  # error of the estimate that is allowed for, so that a second try is rare
_BATCH = 64  # pictures that are reduced at a time, so that memory stays bounded
_WEBP_METHOD = 2  # effort of the encoder: 4 makes a picture 4 % smaller and takes 20 % longer


@dataclass(frozen=True, slots=True)
class PictureDetail:
    """Size limit of pictures: pixels of the longer side, and WebP quality (None: as the ledger has it)."""

    side: int
    quality: int | None = None

    @property
    def description(self) -> str:
        return f"at most {self.side} pixels wide and high" + (
            "" if self.quality is None else f", WebP quality {self.quality}"
        )


DETAIL_LEVELS = (PictureDetail(THUMBNAIL_SIDE), *(PictureDetail(side, 32 + side // 12) for side in range(448, 32, -32)))


@dataclass(frozen=True, slots=True)
class ReportPictures:
    """Pictures in a file, as blocks of JSON arrays of base64 texts.

    Attributes:
        detail: The size limit that they were reduced to.
        size: Bytes in the page, with the markup around blocks and the list of missing pictures.
        starts: Number of the first picture of each block.
        missing: Numbers of pictures that the ledger does not have.
        lengths: Bytes of each block in the file.
    """

    detail: PictureDetail
    size: int
    starts: tuple[int, ...]
    missing: frozenset[int] = frozenset()
    lengths: tuple[int, ...] = field(default=(), repr=False)

    def blocks(self, file: IO[bytes]) -> Iterator[str]:
        """Read the blocks back from the file."""
        file.seek(0)
        for length in self.lengths:
            yield file.read(length).decode("ascii")


def estimate_picture_bytes(ledger: Ledger, digests: Sequence[str], detail: PictureDetail = DETAIL_LEVELS[-1]) -> int:
    """Estimate the bytes that the pictures need in the page, by default with the least detail."""
    return round(_estimate_bytes(ledger, digests, detail) * _SIZE_MARGIN)


def write_pictures(
    ledger: Ledger, digests: Sequence[str], max_bytes: int, file: IO[bytes], watch: ProgressCallback = no_progress
) -> ReportPictures:
    """Write pictures with as much detail as fits, or with the least detail where nothing fits.

    Args:
        ledger: The ledger with the thumbnails.
        digests: Of the image files, in the order of their numbers on the page.
        max_bytes: Size limit in the page.
        file: Where the blocks are written.
        watch: Told of progress.
    """
    at = bisect_left(
        DETAIL_LEVELS, True, key=lambda detail: _estimate_bytes(ledger, digests, detail) * _SIZE_MARGIN <= max_bytes
    )
    for detail in DETAIL_LEVELS[at:-1]:
        made = _write_blocks(ledger, digests, detail, file, max_bytes, watch)
        if made is not None:
            return made
    made = _write_blocks(ledger, digests, DETAIL_LEVELS[-1], file, None, watch)
    assert made is not None
    return made


def _write_blocks(
    ledger: Ledger,
    digests: Sequence[str],
    detail: PictureDetail,
    file: IO[bytes],
    max_bytes: int | None,
    watch: ProgressCallback,
) -> ReportPictures | None:
    """Write all pictures; return None as soon as they exceed `max_bytes`."""
    import pybase64

    file.seek(0)
    file.truncate()
    size, starts, lengths, missing = BLOCK_OVERHEAD, [0], [0], set()
    for number, data in enumerate(_make_pictures(ledger, digests, detail)):
        if data is None:
            missing.add(number)
        text = b"" if data is None else pybase64.b64encode(data)
        if lengths[-1] + len(text) > BLOCK_BYTES and lengths[-1]:
            lengths[-1] += file.write(b"]")
            starts.append(number)
            lengths.append(0)
            size += BLOCK_OVERHEAD
        lengths[-1] += file.write((b'["' if number == starts[-1] else b',"') + text + b'"')
        size += _encoded_size(data, number)
        watch("making pictures", number + 1, len(digests))
        if max_bytes is not None and size > max_bytes:
            return None
    lengths[-1] += file.write(b"]" if digests else b"[]")
    return ReportPictures(detail, size, tuple(starts), frozenset(missing), tuple(lengths))


def _make_pictures(ledger: Ledger, digests: Sequence[str], detail: PictureDetail) -> Iterator[bytes | None]:
    """Yield the pictures in order, None for one that the ledger does not have."""
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(digests), _BATCH):
            batch = digests[start : start + _BATCH]
            kept = ledger.has_thumbnail(batch)
            stored = [ledger.thumbnail(digest) if digest in kept else None for digest in batch]
            yield from pool.map(partial(_reduce_picture, detail=detail), stored)


def _estimate_bytes(ledger: Ledger, digests: Sequence[str], detail: PictureDetail) -> float:
    """Estimate bytes in the page from an evenly spaced sample of pictures; exact where there are few."""
    step = max(1, len(digests) // _SAMPLE_SIZE)
    sample = digests[::step]
    sizes = [_encoded_size(data, len(digests)) for data in _make_pictures(ledger, sample, detail)]
    return BLOCK_OVERHEAD + sum(sizes) / max(1, len(sample)) * len(digests)


def _encoded_size(data: bytes | None, number: int) -> int:
    """Return the bytes of a picture in the page: base64 in quotes, a comma, and a missing one's number in a list."""
    return 4 * ((len(data) + 2) // 3) + 3 if data is not None else 3 + len(str(number)) + 1


def _reduce_picture(stored: bytes | None, detail: PictureDetail) -> bytes | None:
    """Return the picture reduced to `detail`, or as it is if that is smaller; None for one that cannot be read."""
    if stored is None or detail.quality is None:
        return stored
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(stored), formats=["JPEG", "WEBP"]) as opened:
            picture = opened.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError):
        return None
    share = detail.side / max(picture.size)
    if share < 1:
        size = (max(1, round(picture.width * share)), max(1, round(picture.height * share)))
        picture = picture.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=detail.quality, method=_WEBP_METHOD)
    return out.getvalue() if share < 1 or out.tell() < len(stored) else stored
