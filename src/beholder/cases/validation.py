"""Select rows (`--limit`, `--only`, `--shuffle`) and check all cases of a run before the first call."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache, partial

import msgspec

from beholder.cases.case import Case, CaseRow
from beholder.cases.sources import RowSpool
from beholder.errors import ImageError
from beholder.images.image import DEFAULT_IMAGE_LIMITS, ImageLimits
from beholder.images.source import inspect_image, is_object_store, is_remote, object_store_problem

MAX_PROBLEMS = 50  # kept as text
_CACHED_IMAGES = 16_384  # image files whose check is cached, some 400 bytes each
_FEW = 100_000  # up to so many ids are compared as a set

ImageIdentity = tuple[object, ...]  # what the fingerprint covers of an image


def select_rows(
    rows: Iterable[CaseRow], limit: int | None = None, only: str = "", shuffle: int | str | None = None
) -> Iterator[CaseRow]:
    """Return the rows to judge.

    A shuffle depends on the seed and the ids alone, not on the order of the rows. It keeps some 50 bytes a row (100
    while it sorts) in memory, and of the rows themselves no more than `sources.KEPT_BYTES`; without a shuffle nothing
    is kept.

    Args:
        rows: Rows of a case file or of patterns.
        limit: The most rows without problems; `None` for all.
        only: A glob for ids (`p1*/anime`); a row whose id cannot be read is always selected, so that its problem is
            reported. Empty for all.
        shuffle: The seed of a shuffle; `None` for the order of the rows.
    """
    matching = (row for row in rows if not only or not row.id or fnmatchcase(row.id, only))
    return _limit_rows(matching if shuffle is None else _shuffle_rows(matching, str(shuffle)), limit)


def _limit_rows(rows: Iterator[CaseRow], limit: int | None) -> Iterator[CaseRow]:
    count = 0
    while limit is None or count < limit:
        row = next(rows, None)
        if row is None:
            return
        count += not row.problems
        yield row


def _shuffle_rows(rows: Iterable[CaseRow], seed: str) -> Iterator[CaseRow]:
    """Yield rows in the order of a hash of seed and id.

    Rows cannot be read again in another order (CSV, Parquet, patterns), so they are spooled and read from there.
    """
    keys, places = array("Q"), array("Q")
    spool = RowSpool()
    for row in rows:
        key = hashlib.blake2b(f"{seed}\0{row.id}".encode(), digest_size=8).digest()
        keys.append(int.from_bytes(key, "big"))
        places.append(spool.append(row))
    for position in sorted(range(len(keys)), key=keys.__getitem__):
        yield spool.read(places[position])[0]


@dataclass(frozen=True, slots=True)
class CaseCheck:
    """The result of checking all rows.

    Attributes:
        count: The number of valid cases.
        fingerprint: A digest of ids, fields, groups and image files (path, size, modification time) of the valid cases.
        problems: The first `MAX_PROBLEMS` problems, each with its location.
        problem_count: The number of all problems.
        bad_positions: The positions of the rows that are not valid, ascending.
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
    """Check all cases and their image files. Remote images are not fetched.

    Of two cases with one id the first is valid. Takes 16 bytes of memory for each row, and 8 more for each bad one.

    Args:
        rows: Can be iterated more than once: a second pass is made where an id seems to occur twice.
        limits: The largest image that is opened.
        allow_remote: Whether images may be addresses.
        open_files: Whether image files are opened (see `inspect_image`). Without that only their size and modification
            time are read, for files that were checked before.
    """
    if iter(rows) is rows:
        raise TypeError("check_cases may take a second look at its rows; pass something that is no iterator")

    @lru_cache(_CACHED_IMAGES)
    def identify_file(path: str) -> ImageIdentity | str:
        return (not open_files and _identify_by_stat(path)) or _identify_image(path, limits)

    problems = _ProblemLog()
    fingerprint = hashlib.sha256()
    ids = array("Q")
    bad = array("Q")
    total = 0
    for position, row in enumerate(rows):
        total += 1
        if row.id:
            ids.append(_hash(row.id))
        image_problems, identities = _check_images(row.case, identify_file, limits, allow_remote)
        for problem in (*row.problems, *image_problems):
            problems.add(row.location, problem)
        if row.problems or image_problems or row.case is None:
            bad.append(position)
        else:
            fingerprint.update(_fingerprint_bytes(row.case, identities))
    duplicates = _find_duplicates(ids)
    if duplicates:
        bad = array("Q", sorted({*bad, *_find_duplicate_rows(rows, duplicates, problems)}))
    return CaseCheck(total - len(bad), fingerprint.hexdigest(), tuple(problems.kept), problems.count, tuple(bad))


def make_image_check(
    *, limits: ImageLimits = DEFAULT_IMAGE_LIMITS, allow_remote: bool = False
) -> Callable[[Case], list[str]]:
    """Return a function that says what is wrong with the images of a case; each file is opened once."""
    identify_file = lru_cache(_CACHED_IMAGES)(partial(_identify_image, limits=limits))
    return lambda case: _check_images(case, identify_file, limits, allow_remote)[0]


def iter_valid_cases(rows: Iterable[CaseRow], checked: CaseCheck) -> Iterator[Case]:
    """Return the cases that `check_cases` found valid in the same rows, in their order."""
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

    def add(self, location: str, problem: str) -> None:
        self.count += 1
        if len(self.kept) < MAX_PROBLEMS:
            self.kept.append(f"{location}: {problem}")


def _check_images(
    case: Case | None, identify_file: Callable[[str], ImageIdentity | str], limits: ImageLimits, allow_remote: bool
) -> tuple[list[str], list[ImageIdentity]]:
    """Return what is wrong with the images of a case, and the identities of the others, each with its role.

    `identify_file` returns the identity of an image file, or the sentence that says why it cannot be used.
    """
    problems: list[str] = []
    identities: list[ImageIdentity] = []
    for role, source in case.list_images() if case else ():
        if isinstance(source, str) and is_remote(source) and allow_remote:
            identity: ImageIdentity | str = (is_object_store(source) and object_store_problem(source)) or (source,)
        elif isinstance(source, bytes) or (isinstance(source, str) and source[:5].lower() == "data:"):
            identity = _identify_image(source, limits)  # not cached: the cache would keep the whole image
        else:
            identity = identify_file(os.fspath(source))
        if isinstance(identity, str):
            problems.append(f"the image {role!r}: {identity}")
        else:
            identities.append((role, *identity))
    return problems, identities


def _identify_image(source: str | bytes, limits: ImageLimits) -> ImageIdentity | str:
    """Return the identity of an image, or the sentence that says why it cannot be used."""
    try:
        info = inspect_image(source, limits)
    except ImageError as error:
        return str(error)
    if info.mtime_ns is None:
        data = source if isinstance(source, bytes) else source.encode()
        return (hashlib.sha256(data).hexdigest(),)
    return os.path.abspath(source), info.bytes, info.mtime_ns


def _identify_by_stat(path: str) -> ImageIdentity | None:
    """Return the same identity as `_identify_image` without opening the file; `None` where there is no file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (os.path.abspath(path), status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None


def _fingerprint_bytes(case: Case, images: list[ImageIdentity]) -> bytes:
    """Return the content of a case as bytes that are the same each time."""
    parts = [case.id, dict(case.fields), dict(case.groups), images]
    try:
        return msgspec.json.encode(parts, order="deterministic")
    except UnicodeEncodeError:  # the name of a file that is not UTF-8
        return json.dumps(parts, sort_keys=True).encode()


def _hash(id_: str) -> int:
    return hash(id_) & 0xFFFF_FFFF_FFFF_FFFF


def _find_duplicates(hashes: array[int]) -> set[int]:
    """Return the hashes that occur more than once.

    Very many are sorted in NumPy, where they take 8 bytes each; in a set they would take 60.
    """
    if len(hashes) > _FEW:
        import numpy as np

        ordered = np.sort(np.frombuffer(hashes, np.uint64))
        return {int(value) for value in ordered[1:][ordered[1:] == ordered[:-1]]}
    seen: set[int] = set()
    duplicates: set[int] = set()
    for value in hashes:
        (duplicates if value in seen else seen).add(value)
    return duplicates


def _find_duplicate_rows(rows: Iterable[CaseRow], duplicates: set[int], problems: _ProblemLog) -> Iterator[int]:
    """Return the positions of rows whose id is that of an earlier row; each adds a problem that names both.

    `duplicates` are the hashes to look at; different ids may share one.
    """
    first_locations: dict[str, str] = {}
    for position, row in enumerate(rows):
        if not row.id or _hash(row.id) not in duplicates:
            continue
        if row.id in first_locations:
            problems.add(row.location, f"the id {row.id!r} stands already in {first_locations[row.id]}")
            yield position
        else:
            first_locations[row.id] = row.location
