"""Open cases from any source: a case file, a Hugging Face dataset, a pandas or Polars frame, an iterable.

Rows can be iterated over several times, as a run needs (it checks all cases before the first call). A case file and a
`datasets.Dataset` are read again each time. Whatever else is given is read once, as far as it is needed, and spooled:
its rows go to a temporary file, its in-memory images to files named by their digest in a temporary folder (`TMPDIR`
says where), so that memory stays flat. Both are deleted with the rows, at the latest when the process ends. A run's
fingerprint covers the digest of such an image, not where it is, so that the same call made again resumes the run.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import threading
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import SpooledTemporaryFile, mkdtemp
from typing import Any, TypeGuard, cast

from beholder.cases.case import Case, CaseRow, CaseSchema, id_problem, make_case_id
from beholder.cases.files import iter_frame, parse_record, read_rows
from beholder.errors import CaseError

# A path, an iterable of cases or mappings, a `datasets.Dataset` or a frame.
CaseSource = str | os.PathLike[str] | Iterable[object]

KEPT_BYTES = 16 * 1024 * 1024  # of spooled rows in memory; beyond that they are in an unnamed temporary file
_SPOOLED_IMAGE_BYTES = 4096  # images from this size on are files of their own, once for all cases that share them


def open_cases(source: CaseSource, schema: CaseSchema, base: str | os.PathLike[str] = "") -> Iterable[CaseRow]:
    """Return the rows of a source; they can be iterated over several times, also by several threads.

    Args:
        source: The path of a case file; a `datasets.Dataset` or `IterableDataset`; a pandas or Polars frame; or an
            iterable of `Case` objects or mappings, which may be an iterator. A mapping is a record as in a case file,
            whose images may be anything that `Case` takes; without `id` it gets one by its content (`make_case_id`).
        schema: Which names are images and fields, and which of them every case needs.
        base: The folder that image paths in mappings are relative to; those in a case file are relative to its folder.

    Raises:
        CaseError: The source is none of these. A file that cannot be read, or an iterator that raises, is a `CaseError`
            when the rows are iterated over; whatever is wrong with one case is a problem of its row.
    """
    if isinstance(source, str | os.PathLike):
        return _ReadAgain(source, schema, base)
    _check_source(source)
    if _is_dataset(source) and hasattr(source, "__len__"):  # in files of Arrow; a streamed one has no length
        return _ReadAgain(source, schema, base)
    if isinstance(source, list | tuple) and all(isinstance(item, Case) for item in source):
        return _ReadAgain(tuple(source), schema, base)
    return _SpooledRows(iter_cases(source, schema, base))


def iter_cases(source: CaseSource, schema: CaseSchema, base: str | os.PathLike[str] = "") -> Iterator[CaseRow]:
    """Return the rows of a source for one pass, without spooling them; see `open_cases`."""
    if isinstance(source, str | os.PathLike):
        return read_rows(Path(source), schema)
    _check_source(source)
    return _iter_rows(source, schema, os.fspath(base))


async def iter_async_cases(source: AsyncIterable[object], schema: CaseSchema) -> AsyncIterator[CaseRow]:
    """Return the rows of an asynchronous iterable of `Case` objects or mappings for one pass; see `open_cases`."""
    number = 1
    try:
        async for item in source:
            yield _make_row(item, f"case {number}", schema, "")
            number += 1
    except Exception as error:
        raise CaseError(f"Reading case {number} raised {type(error).__name__}: {error}") from error


def _iter_rows(source: object, schema: CaseSchema, base: str) -> Iterator[CaseRow]:
    for number, item in enumerate(_iter_items(source), start=1):
        yield _make_row(item, f"case {number}", schema, base)


class _ReadAgain:
    """Rows of a source that is read again for each iteration."""

    def __init__(self, source: CaseSource, schema: CaseSchema, base: str | os.PathLike[str]) -> None:
        self._arguments = source, schema, base

    def __iter__(self) -> Iterator[CaseRow]:
        return iter_cases(*self._arguments)


class _SpooledRows:
    """Rows of an iterator, read when they are first asked for, and from the spool after that."""

    def __init__(self, rows: Iterator[CaseRow]) -> None:
        self._rows = rows
        self._spool = RowSpool()
        self._failure: CaseError | None = None
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[CaseRow]:
        place = 0
        while (found := self._find_row(place)) is not None:
            row, place = found
            yield row

    def _find_row(self, place: int) -> tuple[CaseRow, int] | None:
        """Return the row at a place, and the place of the next one; `None` at the end."""
        with self._lock:
            if place < self._spool.size:
                return self._spool.read(place)
            if self._failure is not None:
                raise self._failure
            try:
                row = next(self._rows, None)
                if row is None:
                    return None
                self._spool.append(row)
            except CaseError as error:  # kept, since the iterator would seem to end here the next time
                self._failure = error
                raise
            return row, self._spool.size


class RowSpool:
    """Rows on disk, which are read back by their place. `size` is the place of the next row."""

    def __init__(self) -> None:
        self.size = 0
        self._file = file = SpooledTemporaryFile(KEPT_BYTES)  # noqa: SIM115  it is closed with the spool
        self._images: Path | None = None
        weakref.finalize(self, file.close)

    def append(self, row: CaseRow) -> int:
        """Write a row and return its place. Raises `CaseError` if the disk is full."""
        place = self.size
        try:
            buffer = BytesIO()
            _SpoolPickler(buffer, self).dump(row)
            self._file.seek(place)
            self._file.write(len(buffer.getvalue()).to_bytes(8, "big") + buffer.getvalue())
            self.size = self._file.tell()
        except OSError as error:
            raise CaseError(
                f"The cases cannot be kept in a temporary file ({error.strerror or error}); set TMPDIR to a folder "
                "with more room."
            ) from None
        return place

    def read(self, place: int) -> tuple[CaseRow, int]:
        """Return the row at a place, and the place of the row after it."""
        self._file.seek(place)
        length = int.from_bytes(self._file.read(8), "big")
        row: CaseRow = _SpoolUnpickler(BytesIO(self._file.read(length)), self).load()
        return row, place + 8 + length

    def keep_image(self, data: bytes) -> str:
        """Write an image file unless it is there already, and return its digest."""
        if self._images is None:
            self._images = Path(mkdtemp(prefix="beholder-cases-"))
            weakref.finalize(self, _remove_folder, self._images, os.getpid())
        digest = hashlib.sha256(data).hexdigest()
        path = self._image_path(digest)
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        return digest

    def load_image(self, digest: str) -> bytes:
        return self._image_path(digest).read_bytes()

    def _image_path(self, digest: str) -> Path:
        assert self._images is not None
        return self._images / digest[:2] / digest


def _remove_folder(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child that ends must leave it to its parent
        shutil.rmtree(folder, ignore_errors=True)


class _SpoolPickler(pickle.Pickler):
    """Pickles a row with the digests of its images in place of their bytes."""

    def __init__(self, file: BytesIO, spool: RowSpool) -> None:
        super().__init__(file, protocol=5)
        self._spool = spool

    def persistent_id(self, obj: object) -> str | None:
        is_image = isinstance(obj, bytes) and len(obj) >= _SPOOLED_IMAGE_BYTES
        return self._spool.keep_image(cast("bytes", obj)) if is_image else None


class _SpoolUnpickler(pickle.Unpickler):
    """Reads what `_SpoolPickler` wrote in this process, so that nothing unknown is unpickled."""

    def __init__(self, file: BytesIO, spool: RowSpool) -> None:
        super().__init__(file)
        self._spool = spool

    def persistent_load(self, pid: str) -> bytes:
        return self._spool.load_image(pid)


def _check_source(source: object) -> None:
    """Raise `CaseError` for what is no source of cases."""
    if isinstance(source, Mapping):
        splits = [name for name, part in source.items() if _is_dataset(part)]
        if splits:
            raise CaseError(f"The cases are a dataset with splits; give one of them: {', '.join(map(str, splits))}.")
        raise CaseError("A mapping is one case; give a list of mappings.")
    if isinstance(source, Case):
        raise CaseError("This is one case; give a list of cases.")
    if not is_case_source(source):
        raise CaseError(
            "Cases are given as the path of a case file, an iterable of Case objects or mappings, a dataset or a "
            f"frame; this is of type {type(source).__name__}."
        )


def is_case_source(source: object) -> TypeGuard[Iterable[object]]:
    """Return whether something other than a path can be read as cases: an iterable, a dataset or a frame."""
    if isinstance(source, bytes | bytearray):
        return False
    return _is_polars(source) or hasattr(source, "__iter__") or hasattr(source, "__getitem__")


def _is_dataset(source: object) -> bool:
    """Return whether this is a `Dataset` or `IterableDataset` of Hugging Face."""
    return hasattr(source, "features") and hasattr(source, "cast_column")


def _is_polars(source: object) -> bool:
    return hasattr(source, "collect_schema") and hasattr(source, "lazy")


def _iter_items(source: Any) -> Iterator[object]:
    """Return the cases or mappings of a source. Whatever it raises becomes a `CaseError` that names the place."""
    number = 1
    try:
        for item in _iter_raw_items(source):
            yield item
            number += 1
    except Exception as error:
        raise CaseError(f"Reading case {number} raised {type(error).__name__}: {error}") from error


def _iter_raw_items(source: Any) -> Iterator[object]:
    if _is_dataset(source):
        return iter(_leave_images_encoded(source))
    if _is_polars(source):
        return (record for _, records in iter_frame(source.lazy()) for record in records)
    if hasattr(source, "itertuples"):  # pandas
        names = list(source.columns)
        return (
            {str(name): None if _is_blank_cell(value) else value for name, value in zip(names, values, strict=True)}
            for values in source.itertuples(index=False, name=None)
        )
    return iter(source)


def _leave_images_encoded(dataset: Any) -> Any:
    """Return a dataset whose images are the files as they are, `{"bytes", "path"}`, and not decoded."""
    dataset = dataset.with_format(None)
    for name, feature in (dataset.features or {}).items():
        encoded = _without_decoding(feature)
        if encoded is not None:
            dataset = dataset.cast_column(name, encoded)
    return dataset


def _without_decoding(feature: Any) -> Any:
    """Return a feature for images, or a list of them, that does not decode; `None` for any other feature."""
    if type(feature).__name__ == "Image" and getattr(feature, "decode", False):
        # A mode that the dataset asks for is made by decoding.
        return None if getattr(feature, "mode", None) else type(feature)(decode=False)
    inner = getattr(feature, "feature", None)
    encoded = None if inner is None else _without_decoding(inner)
    return None if encoded is None else type(feature)(encoded)


def _is_blank_cell(value: object) -> bool:
    """Return whether a cell of a pandas frame is empty: NaN, `NA` or `NaT`."""
    return (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")


def _make_row(item: object, location: str, schema: CaseSchema, base: str) -> CaseRow:
    if isinstance(item, Case):
        return _check_case(item, location, schema)
    if not isinstance(item, Mapping):
        return CaseRow(location, None, (f"is of type {type(item).__name__}; give a Case or a mapping",))
    if any(item.get(key) is not None for key in ("id", "case")):
        return parse_record(item, location, schema, base)
    row = parse_record({**item, "id": "…"}, location, schema, base)
    if row.case is None:
        return replace(row, id="")
    id_ = make_case_id(row.case.images, row.case.fields)
    return replace(row, case=replace(row.case, id=id_), id=id_)


def _check_case(case: Case, location: str, schema: CaseSchema) -> CaseRow:
    """Return the row of a `Case`; whether it fits the rubric in other respects is checked with all rows."""
    problems = [problem] if (problem := id_problem(case.id)) else []
    problems += [f"lacks the image {role!r}" for role in schema.choose_roles(case.images)[1]]
    return CaseRow(location, None if problems else case, tuple(problems), "" if id_problem(case.id) else case.id)
