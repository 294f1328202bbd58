"""Everything that is wrong with the cases of a run, found before the first call."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from beholder.cases import Case
from beholder.cases.reading import Row
from beholder.errors import ImageError
from beholder.images.looking import look
from beholder.images.model import STANDARD_CAPS, Caps
from beholder.images.sources import is_remote, is_stored
from beholder.images.stores import objection

MOST_PROBLEMS = 50  # kept as text
_LOOKS = 16_384  # images whose look is remembered, some 400 bytes each
_FEW = 100_000  # ids that are compared as a set


@dataclass(frozen=True, slots=True)
class Checked:
    """What a look at all rows came to.

    `count` are the good cases. `problems` are the first `MOST_PROBLEMS`, each with its place; `problem_count` counts
    all. `bad` are the positions of the rows that `good` leaves out, ascending. The `fingerprint` is the same as long as
    ids, fields, groups and image files (path, size, time of change) of the good cases are.
    """

    count: int
    fingerprint: str
    problems: tuple[str, ...]
    problem_count: int
    bad: tuple[int, ...]


def check(
    rows: Iterable[Row], *, caps: Caps = STANDARD_CAPS, allow_remote: bool = False, opened: bool = True
) -> Checked:
    """Goes through the rows once, and a second time only where an id seems to occur twice: `rows` must be something
    that can be gone through again, not an iterator.

    An image file is looked at from outside (`images.looking`), or where its inside is known from before, not even
    `opened`; a remote one is not fetched. Of two cases with one id the first is good. Memory: 16 bytes a row, and 8 for
    each bad one.
    """
    if iter(rows) is rows:
        raise TypeError("check() may need a second look at its rows; give it something that is no iterator")
    looked: Look = lru_cache(_LOOKS)(lambda path: _seen(path, caps) if opened else _named(path) or _seen(path, caps))
    problems = _Problems()
    fingerprint = hashlib.sha256()
    ids = array("Q")
    bad = array("Q")
    total = 0
    for position, row in enumerate(rows):
        total += 1
        if row.id:
            ids.append(_hash(row.id))
        wrong, known = _images(row.case, looked, caps, allow_remote)
        for problem in (*row.problems, *wrong):
            problems.add(row.place, problem)
        if row.problems or wrong or row.case is None:
            bad.append(position)
        else:
            fingerprint.update(_printed(row.case, known))
    twice = _twice(ids)
    if twice:
        again = _second_look(rows, twice, problems)
        bad = array("Q", sorted({*bad, *again}))
    return Checked(total - len(bad), fingerprint.hexdigest(), tuple(problems.kept), problems.count, tuple(bad))


def good(rows: Iterable[Row], checked: Checked) -> Iterator[Case]:
    """The cases that `check` found good in the same rows, in their order."""
    bad = iter(checked.bad)
    next_bad = next(bad, None)
    for position, row in enumerate(rows):
        if position == next_bad:
            next_bad = next(bad, None)
        elif row.case is not None:
            yield row.case


@dataclass(slots=True)
class _Problems:
    kept: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, place: str, problem: str) -> None:
        self.count += 1
        if len(self.kept) < MOST_PROBLEMS:
            self.kept.append(f"{place}: {problem}")


Known = tuple[object, ...]  # what the fingerprint knows of an image
Look = Callable[[str], Known | str]  # or the sentence that says why it cannot be used


def _images(case: Case | None, looked: Look, caps: Caps, allow_remote: bool) -> tuple[list[str], list[Known]]:
    """What is wrong with the images of a case, and what is known of them."""
    wrong: list[str] = []
    known: list[Known] = []
    for role, source in case.images.items() if case else ():
        if isinstance(source, str) and is_remote(source) and allow_remote:
            seen: Known | str = (is_stored(source) and objection(source)) or (source,)
        elif isinstance(source, bytes) or (isinstance(source, str) and source[:5].lower() == "data:"):
            seen = _seen(source, caps)  # not remembered: it would be held as a whole
        else:
            seen = looked(os.fspath(source))
        if isinstance(seen, str):
            wrong.append(f"the image {role!r}: {seen}")
        else:
            known.append((role, *seen))
    return wrong, known


def _seen(source: str | bytes, caps: Caps) -> Known | str:
    try:
        found = look(source, caps)
    except ImageError as error:
        return str(error)
    if found.mtime_ns is None:
        data = source if isinstance(source, bytes) else source.encode()
        return (hashlib.sha256(data).hexdigest(),)
    return os.path.abspath(source), found.bytes, found.mtime_ns


def _named(path: str) -> Known | None:
    """As `_seen`, for a file that is not opened; `None` where there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (os.path.abspath(path), found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def _printed(case: Case, images: list[Known]) -> bytes:
    """Whatever is in a case, as bytes that are the same each time."""
    parts = [case.id, dict(case.fields), dict(case.groups), images]
    try:
        return msgspec.json.encode(parts, order="deterministic")
    except UnicodeEncodeError:  # the name of a file that is no UTF-8
        return json.dumps(parts, sort_keys=True).encode()


def _hash(id_: str) -> int:
    return hash(id_) & 0xFFFF_FFFF_FFFF_FFFF


def _twice(hashes: array[int]) -> set[int]:
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


def _second_look(rows: Iterable[Row], twice: set[int], problems: _Problems) -> Iterator[int]:
    """The positions of rows whose id stood in an earlier row already; each a problem that names both places."""
    first: dict[str, str] = {}
    for position, row in enumerate(rows):
        if not row.id or _hash(row.id) not in twice:
            continue
        if row.id in first:
            problems.add(row.place, f"the id {row.id!r} stands already in {first[row.id]}")
            yield position
        else:
            first[row.id] = row.place
