"""Exporting verdicts: flat rows, CSV, JSON lines, and frames of Polars (which write Parquet).

A verdict is one flat row. A column is named by its path in the verdict's JSON, without the leading `criteria.`: a
criterion's score is `accuracy.score`. A group of the case is `group.NAME`; calibrated values are `ASPECT.calibrated`,
`ASPECT.calibrated_low` and `ASPECT.calibrated_high`. In CSV, texts that a spreadsheet would run as a formula are
escaped. Importing this module loads no database library.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING

from beholder.errors import SetupError
from beholder.ledger.types import StoredVerdict

if TYPE_CHECKING:
    import pandas
    import polars


_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_FORMULA = re.compile(
    r"'*[=+\-@\t\r]"
)  # also after apostrophes, so that `unescape_formula` removes only what was added


def csv_line(cells: Iterable[str | int | float | bool | None]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(cells)  # with \n as its line terminator, it would not quote a cell with a \r
    return line.getvalue().removesuffix("\r\n").encode("utf-8", "backslashreplace") + b"\n"


def escape_formula(text: str) -> str:
    """Put an apostrophe, which spreadsheets do not show, in front of a text that they would run as a formula: one that
    starts with = + - @, a tab or a return, and is no number."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unescape_formula(text: str) -> str:
    """Remove the apostrophe of `escape_formula`; one that belongs to a name ('t Hooft) stays."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text[1:]) else text


Cell = str | int | float | bool | None

TEXT_COLUMNS = ("rubric", "rubric_version", "setting", "style", "judge", "model", "outcome", "detail")
NUMBER_COLUMNS = ("score", "total", "max_total", "percentage")
USAGE_COUNTS = ("input_tokens", "output_tokens", "cached_tokens")
_USAGE_COLUMNS = tuple(f"usage.{name}" for name in USAGE_COUNTS)

COLUMN_TYPES: Mapping[str, type] = {
    "case": str,
    **dict.fromkeys(TEXT_COLUMNS, str),
    **dict.fromkeys(NUMBER_COLUMNS, float),
    "grade": str,
    "passed": bool,
    "score_derived": bool,
    "partial": bool,
    "coverage": float,
    "total_low": float,
    "total_high": float,
    "flags": str,
    "corrections": int,
    "assessment": str,
    **dict.fromkeys(_USAGE_COLUMNS, int),
    "cost_usd": float,
    "latency_s": float,
    "attempts": int,
    "reused": bool,
    "brief_digest": str,
}


# Of verdicts by a rubric of kind `preference`; other exports have none of them.
PREFERENCE_COLUMNS: Mapping[str, type] = {"winner": str, "strength": float, "flipped": bool}


class ExportColumns:
    """Collects the columns that verdicts need: the fixed ones, and groups, preferences, criteria and calibrated aspects
    in order of appearance."""

    def __init__(self) -> None:
        self._groups: dict[str, type] = {}
        self._criteria: dict[str, type] = {}
        self._calibrated: dict[str, type] = {}
        self._preference: dict[str, type] = {}

    def add(self, stored: StoredVerdict) -> None:
        self._groups |= dict.fromkeys((f"group.{name}" for name in stored.groups), str)
        self._criteria |= dict.fromkeys((f"{key}.score" for key in stored.verdict.criteria), float)
        if stored.verdict.preference is not None:
            choices = (f"{key}.choice" for key in stored.verdict.criteria)
            self._preference |= {**PREFERENCE_COLUMNS, **dict.fromkeys(choices, str)}
        self._calibrated |= dict.fromkeys(
            (name for key in stored.verdict.calibrated for name in _calibrated_columns(key)), float
        )

    @property
    def kinds(self) -> dict[str, type]:
        """The types of the columns by name, in order."""
        names = list(COLUMN_TYPES)
        at = names.index("grade")
        first, second = ({name: COLUMN_TYPES[name] for name in part} for part in (names[1:at], names[at:]))
        return {"case": str} | self._groups | first | self._preference | self._criteria | self._calibrated | second


def flatten_verdict(stored: StoredVerdict) -> dict[str, Cell]:
    """Return the row of a verdict, by column name."""
    verdict = stored.verdict
    row: dict[str, Cell] = {"case": verdict.case}
    row |= {f"group.{name}": value for name, value in stored.groups.items()}
    for name in (
        *TEXT_COLUMNS,
        *NUMBER_COLUMNS,
        "grade",
        "passed",
        "score_derived",
        "partial",
        "assessment",
        "latency_s",
    ):
        value = getattr(verdict, name)
        row[name] = str(value) if name == "outcome" else value
    if verdict.coverage:
        row["coverage"] = verdict.coverage.measured / verdict.coverage.of
    if verdict.total_range:
        row["total_low"], row["total_high"] = verdict.total_range
    row |= {f"{key}.score": result.score for key, result in verdict.criteria.items()}
    if verdict.preference is not None:
        row |= {name: getattr(verdict.preference, name) for name in PREFERENCE_COLUMNS}
        row |= {f"{key}.choice": result.choice for key, result in verdict.criteria.items()}
    for key, people in verdict.calibrated.items():
        row |= dict(zip(_calibrated_columns(key), (people.value, people.low, people.high), strict=True))
    row["flags"] = " ".join(dict.fromkeys(flag.flag for flag in verdict.flags))
    row["corrections"] = len(verdict.corrections)
    row |= {f"usage.{name}": verdict.usage.get(name) for name in USAGE_COUNTS}
    row["cost_usd"] = None if verdict.cost_usd is None else float(verdict.cost_usd)
    row |= {"attempts": verdict.attempts, "reused": stored.reused, "brief_digest": verdict.brief_digest}
    return row


def _calibrated_columns(aspect: str) -> tuple[str, str, str]:
    return f"{aspect}.calibrated", f"{aspect}.calibrated_low", f"{aspect}.calibrated_high"


FORMATS = ("csv", "jsonl", "parquet")  # of `beholder export`

_PAGE_SIZE = 1024


def csv_lines(verdicts: Callable[[], Iterable[StoredVerdict]]) -> Iterator[bytes]:
    """Yield the lines of a CSV file with a header: UTF-8, RFC 4180 with `\\n` as line ends, formulas escaped.

    Args:
        verdicts: Called twice: the header needs to know every column.
    """
    columns = ExportColumns()
    for stored in verdicts():
        columns.add(stored)
    kinds = columns.kinds
    yield csv_line([escape_formula(name) for name in kinds])
    for stored in verdicts():
        row = flatten_verdict(stored)
        yield csv_line([_escape_cell(row.get(name)) for name in kinds])


def json_lines(verdicts: Iterable[StoredVerdict]) -> Iterator[bytes]:
    """Yield whole verdicts as JSON lines, with `groups` and `reused` beside them; `Verdict.from_dict` reads them."""
    for stored in verdicts:
        line = {**stored.verdict.to_dict(), "groups": dict(stored.groups), "reused": stored.reused}
        try:
            yield json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n"
        except UnicodeEncodeError:  # half a surrogate pair is escaped
            yield json.dumps(line).encode("ascii") + b"\n"


def to_frame(verdicts: Iterable[StoredVerdict]) -> polars.DataFrame:
    """Return flat rows as a Polars frame, in memory; null where a row has no value.

    Raises:
        SetupError: Polars is not installed.
    """
    try:
        import polars
    except ImportError:
        raise SetupError("Frames and Parquet need Polars: pip install 'beholder[tables]'") from None
    types = {str: polars.String, float: polars.Float64, int: polars.Int64, bool: polars.Boolean}
    columns = ExportColumns()
    pages: list[polars.DataFrame] = []
    iterator = iter(verdicts)
    while True:
        rows: list[dict[str, Cell]] = []
        for stored in islice(iterator, _PAGE_SIZE):
            columns.add(stored)
            rows.append(_encodable_row(flatten_verdict(stored)))
        kinds = columns.kinds
        pages.append(polars.DataFrame(rows, schema={name: types[kind] for name, kind in kinds.items()}))
        if len(rows) < _PAGE_SIZE:
            return polars.concat(pages, how="diagonal").select(list(kinds))


def to_any_frame(verdicts: Iterable[StoredVerdict]) -> polars.DataFrame | pandas.DataFrame:
    """Return flat rows as a frame of Polars if it is installed, else of pandas.

    Raises:
        SetupError: Neither is installed.
    """
    if find_spec("polars"):
        return to_frame(verdicts)
    try:
        import pandas
    except ImportError:
        raise SetupError("Frames need Polars (pip install 'beholder[tables]') or pandas.") from None
    columns = ExportColumns()
    rows = []
    for stored in verdicts:
        columns.add(stored)
        rows.append(flatten_verdict(stored))
    types = {str: "string", float: "Float64", int: "Int64", bool: "boolean"}
    series = {
        name: pandas.array([row.get(name) for row in rows], dtype=types[kind]) for name, kind in columns.kinds.items()
    }
    return pandas.DataFrame(series)


def _escape_cell(cell: Cell) -> Cell:
    return escape_formula(cell) if isinstance(cell, str) else cell


def _encodable_row(row: dict[str, Cell]) -> dict[str, Cell]:
    return {
        name: cell.encode("utf-8", "backslashreplace").decode() if isinstance(cell, str) else cell
        for name, cell in row.items()
    }
