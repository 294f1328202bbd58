"""Verdicts for other programs: CSV and JSON lines as a stream, Parquet and frames through Polars."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import IO, TYPE_CHECKING

from beholder.errors import SetupError
from beholder.ledger.flattening import Cell, Columns, flat
from beholder.ledger.reading import Judged
from beholder.ledger.spreadsheets import csv_line, harmless

if TYPE_CHECKING:
    import polars

FORMATS = ("csv", "jsonl", "parquet")

_PAGE = 1024


def csv_lines(verdicts: Callable[[], Iterable[Judged]]) -> Iterator[bytes]:
    """Flat rows under a header, UTF-8, RFC 4180 with `\\n` at the ends of lines. Goes through the verdicts twice: the
    header needs to know every column.

    Texts and the names of columns are made `harmless`: no spreadsheet runs one as a formula.
    """
    columns = Columns()
    for one in verdicts():
        columns.add(one)
    kinds = columns.kinds
    yield csv_line([harmless(name) for name in kinds])
    for one in verdicts():
        row = flat(one)
        yield csv_line([_cell(row.get(name)) for name in kinds])


def json_lines(verdicts: Iterable[Judged]) -> Iterator[bytes]:
    """Whole verdicts, one a line, with `groups` and `reused` beside them; `Verdict.from_dict` reads a line back."""
    for one in verdicts:
        line = {**one.verdict.to_dict(), "groups": dict(one.groups), "reused": one.reused}
        try:
            yield json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n"
        except UnicodeEncodeError:  # half a surrogate pair is escaped
            yield json.dumps(line).encode("ascii") + b"\n"


def frame(verdicts: Iterable[Judged]) -> polars.DataFrame:
    """Flat rows as a frame; columns without a value in a row hold null. Built in memory."""
    try:
        import polars
    except ImportError:
        raise SetupError("Frames and Parquet need Polars: pip install 'beholder[tables]'") from None
    types = {str: polars.String, float: polars.Float64, int: polars.Int64, bool: polars.Boolean}
    columns = Columns()
    pages: list[polars.DataFrame] = []
    iterator = iter(verdicts)
    while True:
        rows: list[dict[str, Cell]] = []
        for one in islice(iterator, _PAGE):
            columns.add(one)
            rows.append(_encodable(flat(one)))
        kinds = columns.kinds
        pages.append(polars.DataFrame(rows, schema={name: types[kind] for name, kind in kinds.items()}))
        if len(rows) < _PAGE:
            return polars.concat(pages, how="diagonal").select(list(kinds))


def write_parquet(verdicts: Iterable[Judged], file: IO[bytes]) -> None:
    frame(verdicts).write_parquet(file)


def _cell(cell: Cell) -> Cell:
    return harmless(cell) if isinstance(cell, str) else cell


def _encodable(row: dict[str, Cell]) -> dict[str, Cell]:
    return {
        name: cell.encode("utf-8", "backslashreplace").decode() if isinstance(cell, str) else cell
        for name, cell in row.items()
    }
