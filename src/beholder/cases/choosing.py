"""Which cases are judged: --limit, --only, --shuffle."""

from __future__ import annotations

import hashlib
import pickle
from array import array
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from tempfile import SpooledTemporaryFile
from typing import Any

from beholder.cases import Case
from beholder.cases.reading import Row

KEPT_BYTES = 16 * 1024 * 1024  # of shuffled rows in memory; beyond that they wait in a nameless temporary file


def chosen(
    rows: Iterable[Row], limit: int | None = None, only: str = "", shuffle: int | str | None = None
) -> Iterator[Row]:
    """The rows whose id fits `only` (`p1*/anime`), shuffled by a seed, at most `limit` good ones.

    A row whose id cannot be read is always among them, so that its problem is told. The order of a shuffle depends on
    the seed and the ids alone, not on the order of the rows. Without a shuffle nothing is held; a shuffle holds some 50
    bytes a row (100 while it sorts), and of the rows themselves no more than `KEPT_BYTES`.
    """
    fitting = (row for row in rows if not only or not row.id or fnmatchcase(row.id, only))
    return _limited(fitting if shuffle is None else _shuffled(fitting, str(shuffle)), limit)


def _limited(rows: Iterator[Row], limit: int | None) -> Iterator[Row]:
    count = 0
    while limit is None or count < limit:
        row = next(rows, None)
        if row is None:
            return
        count += not row.problems
        yield row


def _shuffled(rows: Iterable[Row], seed: str) -> Iterator[Row]:
    places, offsets = array("Q"), array("Q")
    # Two rows of one id are told apart by where they stand; which of them comes first does not matter.
    with SpooledTemporaryFile(KEPT_BYTES) as kept:
        for row in rows:
            offsets.append(kept.tell())
            places.append(_place(seed, row.id))
            pickle.dump(_plain(row), kept, protocol=5)
        for position in sorted(range(len(places)), key=places.__getitem__):
            kept.seek(offsets[position])
            yield _row(*pickle.load(kept))


def _place(seed: str, id_: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{id_}".encode(), digest_size=8).digest(), "big")


def _plain(row: Row) -> tuple[object, ...]:
    """A row in parts that pickle takes; it does not take every kind of mapping."""
    case = row.case
    parts = None if case is None else (case.id, dict(case.images), dict(case.fields), dict(case.groups))
    return row.place, parts, row.problems, row.id


def _row(place: str, parts: Any, problems: tuple[str, ...], id_: str) -> Row:
    return Row(place, None if parts is None else Case(*parts), problems, id_)
