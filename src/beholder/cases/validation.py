"""Which cases are judged: --limit, --only, --shuffle.

Everything that is wrong with the cases of a run, found before the first call.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import stat
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from tempfile import SpooledTemporaryFile
from typing import Any

import msgspec

from beholder.cases.case import Case, CaseRow
from beholder.errors import ImageError
from beholder.images.image import DEFAULT_IMAGE_LIMITS, ImageLimits
from beholder.images.source import inspect_image, is_object_store, is_remote, object_store_problem

KEPT_BYTES = 16 * 1024 * 1024  # of shuffled rows in memory; beyond that they wait in a nameless temporary file


def select_rows(
    rows: Iterable[CaseRow], limit: int | None = None, only: str = "", shuffle: int | str | None = None
) -> Iterator[CaseRow]:
    """The rows whose id fits `only` (`p1*/anime`), shuffled by a seed, at most `limit` good ones.

    A row whose id cannot be read is always among them, so that its problem is told. The order of a shuffle depends on
    the seed and the ids alone, not on the order of the rows. Without a shuffle nothing is held; a shuffle holds some 50
    bytes a row (100 while it sorts), and of the rows themselves no more than `KEPT_BYTES`.
    """
    fitting = (row for row in rows if not only or not row.id or fnmatchcase(row.id, only))
    return _limit_rows(fitting if shuffle is None else _shuffle_rows(fitting, str(shuffle)), limit)


def _limit_rows(rows: Iterator[CaseRow], limit: int | None) -> Iterator[CaseRow]:
    count = 0
    while limit is None or count < limit:
        row = next(rows, None)
        if row is None:
            return
        count += not row.problems
        yield row


def _shuffle_rows(rows: Iterable[CaseRow], seed: str) -> Iterator[CaseRow]:
    places, offsets = array("Q"), array("Q")
    # Two rows of one id are told apart by where they stand; which of them comes first does not matter.
    with SpooledTemporaryFile(KEPT_BYTES) as kept:
        for row in rows:
            offsets.append(kept.tell())
            places.append(_shuffle_key(seed, row.id))
            pickle.dump(_row_to_tuple(row), kept, protocol=5)
        for position in sorted(range(len(places)), key=places.__getitem__):
            kept.seek(offsets[position])
            yield _row_from_tuple(*pickle.load(kept))


def _shuffle_key(seed: str, id_: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}\0{id_}".encode(), digest_size=8).digest(), "big")


def _row_to_tuple(row: CaseRow) -> tuple[object, ...]:
    """A row in parts that pickle takes; it does not take every kind of mapping."""
    case = row.case
    parts = None if case is None else (case.id, dict(case.images), dict(case.fields), dict(case.groups))
    return row.location, parts, row.problems, row.id


def _row_from_tuple(place: str, parts: Any, problems: tuple[str, ...], id_: str) -> CaseRow:
    return CaseRow(place, None if parts is None else Case(*parts), problems, id_)


MAX_PROBLEMS = 50  # kept as text
_CACHED_IMAGES = 16_384  # images whose look is remembered, some 400 bytes each
_FEW = 100_000  # ids that are compared as a set


@dataclass(frozen=True, slots=True)
class CaseCheck:
    """What a look at all rows came to.

    `count` are the good cases. `problems` are the first `MOST_PROBLEMS`, each with its place; `problem_count` counts
    all. `bad_positions` are the positions of the rows that `good` leaves out, ascending. The `fingerprint` is the same as long as
    ids, fields, groups and image files (path, size, time of change) of the good cases are.
    """

    count: int
    fingerprint: str
    problems: tuple[str, ...]
    problem_count: int
    bad_positions: tuple[int, ...]


def check_cases(
    rows: Iterable[CaseRow],
    *,
    limits: ImageLimits = DEFAULT_IMAGE_LIMITS,
    allow_remote: bool = False,
    open_files: bool = True,
) -> CaseCheck:
    """Goes through the rows once, and a second time only where an id seems to occur twice: `rows` must be something
    that can be gone through again, not an iterator.

    An image file is looked at from outside (`images.looking`), or where its inside is known from before, not even
    `open_files`; a remote one is not fetched. Of two cases with one id the first is good. Memory: 16 bytes a row, and 8 for
    each bad one.
    """
    if iter(rows) is rows:
        raise TypeError("check() may need a second look at its rows; give it something that is no iterator")
    looked: ImageLookup = lru_cache(_CACHED_IMAGES)(
        lambda path: (
            _identify_image(path, limits) if open_files else _identify_by_stat(path) or _identify_image(path, limits)
        )
    )
    problems = _ProblemLog()
    fingerprint = hashlib.sha256()
    ids = array("Q")
    bad = array("Q")
    total = 0
    for position, row in enumerate(rows):
        total += 1
        if row.id:
            ids.append(_hash(row.id))
        wrong, known = _check_images(row.case, looked, limits, allow_remote)
        for problem in (*row.problems, *wrong):
            problems.add(row.location, problem)
        if row.problems or wrong or row.case is None:
            bad.append(position)
        else:
            fingerprint.update(_fingerprint_bytes(row.case, known))
    twice = _find_duplicates(ids)
    if twice:
        again = _find_duplicate_rows(rows, twice, problems)
        bad = array("Q", sorted({*bad, *again}))
    return CaseCheck(total - len(bad), fingerprint.hexdigest(), tuple(problems.kept), problems.count, tuple(bad))


def iter_valid_cases(rows: Iterable[CaseRow], checked: CaseCheck) -> Iterator[Case]:
    """The cases that `check` found good in the same rows, in their order."""
    bad = iter(checked.bad_positions)
    next_bad = next(bad, None)
    for position, row in enumerate(rows):
        if position == next_bad:
            next_bad = next(bad, None)
        elif row.case is not None:
            yield row.case


@dataclass(slots=True)
class _ProblemLog:
    kept: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, place: str, problem: str) -> None:
        self.count += 1
        if len(self.kept) < MAX_PROBLEMS:
            self.kept.append(f"{place}: {problem}")


ImageIdentity = tuple[object, ...]  # what the fingerprint knows of an image
ImageLookup = Callable[[str], ImageIdentity | str]  # or the sentence that says why it cannot be used


def _check_images(
    case: Case | None, looked: ImageLookup, limits: ImageLimits, allow_remote: bool
) -> tuple[list[str], list[ImageIdentity]]:
    """What is wrong with the images of a case, and what is known of them."""
    wrong: list[str] = []
    known: list[ImageIdentity] = []
    for role, source in case.images.items() if case else ():
        if isinstance(source, str) and is_remote(source) and allow_remote:
            seen: ImageIdentity | str = (is_object_store(source) and object_store_problem(source)) or (source,)
        elif isinstance(source, bytes) or (isinstance(source, str) and source[:5].lower() == "data:"):
            seen = _identify_image(source, limits)  # not remembered: it would be held as a whole
        else:
            seen = looked(os.fspath(source))
        if isinstance(seen, str):
            wrong.append(f"the image {role!r}: {seen}")
        else:
            known.append((role, *seen))
    return wrong, known


def _identify_image(source: str | bytes, limits: ImageLimits) -> ImageIdentity | str:
    try:
        found = inspect_image(source, limits)
    except ImageError as error:
        return str(error)
    if found.mtime_ns is None:
        data = source if isinstance(source, bytes) else source.encode()
        return (hashlib.sha256(data).hexdigest(),)
    return os.path.abspath(source), found.bytes, found.mtime_ns


def _identify_by_stat(path: str) -> ImageIdentity | None:
    """As `_seen`, for a file that is not opened; `None` where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (os.path.abspath(path), found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def _fingerprint_bytes(case: Case, images: list[ImageIdentity]) -> bytes:
    """Whatever is in a case, as bytes that are the same each time."""
    parts = [case.id, dict(case.fields), dict(case.groups), images]
    try:
        return msgspec.json.encode(parts, order="deterministic")
    except UnicodeEncodeError:  # the name of a file that is no UTF-8
        return json.dumps(parts, sort_keys=True).encode()


def _hash(id_: str) -> int:
    return hash(id_) & 0xFFFF_FFFF_FFFF_FFFF


def _find_duplicates(hashes: array[int]) -> set[int]:
    """The hashes that occur more than once. Of very many no set is made: sorted they take 8 bytes each, not 60."""
    if len(hashes) > _FEW:
        import numpy as np

        ordered = np.sort(np.frombuffer(hashes, np.uint64))
        return {int(value) for value in ordered[1:][ordered[1:] == ordered[:-1]]}
    seen: set[int] = set()
    twice: set[int] = set()
    for value in hashes:
        (twice if value in seen else seen).add(value)
    return twice


def _find_duplicate_rows(rows: Iterable[CaseRow], twice: set[int], problems: _ProblemLog) -> Iterator[int]:
    """The positions of rows whose id stood in an earlier row already; each a problem that names both places."""
    first: dict[str, str] = {}
    for position, row in enumerate(rows):
        if not row.id or _hash(row.id) not in twice:
            continue
        if row.id in first:
            problems.add(row.location, f"the id {row.id!r} stands already in {first[row.id]}")
            yield position
        else:
            first[row.id] = row.location
