"""Damaged values of a ledger: they are read as empty ones, and logged in a sentence that names table and row.

A file that a disk, a copy or another program has damaged may hold anything in any column: SQLite stores a text where a
number belongs without a word. The column types here pass on only values of the kind that was written, so that one bad
row neither ends a command nor hides the others. PostgreSQL checks types itself.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from beholder.errors import LedgerError
from beholder.ledger.encoding import DAMAGED_MESSAGE, NegativeAmount, parse_amount

_logger = logging.getLogger(__name__)
_noticed = threading.local()

MAX_ROWS = 20  # of one column that are named
_REPEATED_AFTER_S = 60.0
_logged: dict[str, float] = {}  # sentences, and when they were logged
_logged_lock = threading.Lock()
_KINDS = {"null": "no value", "integer": "a number", "real": "a number", "text": "a text", "blob": "bytes"}

Check = Callable[[Any], Any]


def log_damage(sentence: object) -> None:
    """Log a sentence on something that cannot be read: each once a minute, and not too many."""
    collected: list[str] | None = getattr(_noticed, "collected", None)
    if collected is not None:
        collected.append(str(sentence))
        return
    now = time.monotonic()
    with _logged_lock:
        for old in [one for one, moment in _logged.items() if now - moment > _REPEATED_AFTER_S]:
            del _logged[old]
        if len(_logged) == MAX_ROWS:
            sentence = "More of the ledger is damaged; `beholder ledger check` lists what."
        if str(sentence) in _logged or len(_logged) > MAX_ROWS:
            return
        _logged[str(sentence)] = now
    _logger.warning("%s", sentence)


@contextmanager
def collect_damage() -> Iterator[list[str]]:
    """Collect what this thread would log, for a check."""
    _noticed.collected = collected = list[str]()
    try:
        yield collected
    finally:
        _noticed.collected = None


def describe_row(table: str, *key: object) -> str:
    """Return how sentences name a row: `row 5 of verdicts`, by its primary key."""
    values = ", ".join(value.hex()[:12] if isinstance(value, bytes) else str(value) for value in key)
    return f"row {values} of {table}"


def read_amount(text: str | None, what: str) -> Decimal:
    """Return an amount of money that limits depend on.

    A negative one is damage. It is logged and counts as nothing, so that it raises no budget.

    Raises:
        LedgerError: It cannot be read; with `what` it is about.
    """
    try:
        return parse_amount(text)
    except NegativeAmount:
        log_damage(f"The ledger is damaged: {what} is less than nothing ({text:.60}); it counts as nothing.")
        return Decimal(0)
    except (ValueError, TypeError, ArithmeticError):
        raise LedgerError(DAMAGED_MESSAGE.format(what)) from None


class _CheckedType(sa.types.TypeEngine[Any]):
    """A type whose values are checked when they are read. `place` is the table and the column."""

    kinds: tuple[type, ...]
    stored: tuple[str, ...]  # SQLite's names of the kinds that are right
    expected: str

    def __init__(self, place: tuple[str, str]) -> None:
        super().__init__()
        self.place = place

    def replacement(self, value: Any) -> Any:
        """Return what is read instead of a value of another kind."""

    def result_processor(self, dialect: object, coltype: object) -> Check:
        kinds, place, replacement = frozenset(self.kinds), self.place, self.replacement

        def check(value: Any) -> Any:
            if value is None or type(value) in kinds:
                return value
            _notice(place)
            return replacement(value)

        return check


class CheckedText(_CheckedType, sa.Text):
    kinds, stored, expected = (str,), ("text",), "a text"

    def replacement(self, value: Any) -> str:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class CheckedInteger(_CheckedType, sa.Integer):
    kinds, stored, expected = (int,), ("integer",), "a whole number"

    def replacement(self, value: Any) -> int:
        return 0


class CheckedBytes(_CheckedType, sa.LargeBinary):
    kinds, stored, expected = (bytes,), ("blob",), "bytes"

    def replacement(self, value: Any) -> bytes:
        return b""


class CheckedFloat(_CheckedType, sa.Float[float]):
    kinds, stored, expected = (float, int), ("real", "integer"), "a number"

    def result_processor(self, dialect: object, coltype: object) -> Check:
        check = super().result_processor(dialect, coltype)

        def check_finite(value: Any) -> Any:
            value = check(value)
            return value if value is None or math.isfinite(value) else None

        return check_finite


class CheckedBoolean(_CheckedType, sa.Boolean):
    kinds, stored, expected = (int,), ("integer",), "yes or no"

    def result_processor(self, dialect: object, coltype: object) -> Check:
        check = super().result_processor(dialect, coltype)

        def to_boolean(value: Any) -> bool | None:
            value = check(value)
            return None if value is None else bool(value)

        return to_boolean


_CHECKED_TYPES: tuple[tuple[type[sa.types.TypeEngine[Any]], type[_CheckedType]], ...] = (
    (sa.Boolean, CheckedBoolean),
    (sa.Float, CheckedFloat),
    (sa.LargeBinary, CheckedBytes),
    (sa.Integer, CheckedInteger),
    (sa.Text, CheckedText),
)


def check_columns(metadata: sa.MetaData) -> None:
    """Give every column of these tables, in SQLite, the checked type of its kind."""
    for table in metadata.tables.values():
        for column in table.columns:
            kind = next(checked for plain, checked in _CHECKED_TYPES if isinstance(column.type, plain))
            checked = kind((table.name, column.name))
            plain = sa.BigInteger() if kind is CheckedInteger else column.type
            column.type = plain.with_variant(checked, "sqlite")


def _notice(place: tuple[str, str]) -> None:
    if not hasattr(_noticed, "places"):
        _noticed.places = set()
    _noticed.places.add(place)


def take_noticed() -> set[tuple[str, str]]:
    """Return the tables and columns of which this thread has read a value of a wrong kind since the last call."""
    places: set[tuple[str, str]] = getattr(_noticed, "places", set())
    _noticed.places = set()
    return places


def find_wrong_values(connection: sa.Connection, columns: Iterable[sa.Column[Any]]) -> Iterator[str]:
    """Yield a sentence for each value, of these columns, of another kind than the column has, or that is missing.

    Of each column at most `MAX_ROWS`. Yields nothing for PostgreSQL, which stores no such values.
    """
    if connection.dialect.name != "sqlite":
        return
    for column in columns:
        yield from _find_wrong_kinds(connection, column)
        checked = column.type.dialect_impl(connection.dialect)
        if isinstance(checked, CheckedText):
            yield from _find_wrong_texts(connection, column)


def _find_wrong_kinds(connection: sa.Connection, column: sa.Column[Any]) -> Iterator[str]:
    checked = column.type.dialect_impl(connection.dialect)
    assert isinstance(checked, _CheckedType)
    kind: sa.ColumnElement[str] = sa.func.typeof(column)
    right = [*checked.stored, *(["null"] if column.nullable else [])]
    for *key, found in connection.execute(
        sa.select(*_raw_key(column.table), kind).where(kind.not_in(right)).limit(MAX_ROWS)
    ):
        yield (
            f"The ledger is damaged: {describe_row(column.table.name, *key)} has {_KINDS[found]} as its "
            f"{column.name!r}, where {checked.expected} belongs."
        )


def _find_wrong_texts(connection: sa.Connection, column: sa.Column[Any]) -> Iterator[str]:
    """Yield a sentence for each text that is not UTF-8; the connection reads it with replacement characters."""
    raw = sa.cast(column, sa.BLOB())
    suspicious = sa.select(*_raw_key(column.table), sa.type_coerce(raw, CheckedBytes(("", ""))), column)
    found = 0
    with connection.execute(suspicious.execution_options(yield_per=256)) as rows:
        for *key, data, text in rows:
            if text is None or "\ufffd" not in text or not isinstance(data, bytes):
                continue
            try:
                data.decode("utf-8")
            except UnicodeDecodeError:
                name = describe_row(column.table.name, *key)
                yield f"The ledger is damaged: {name} has bytes in its {column.name!r} that are no text."
                found += 1
                if found == MAX_ROWS:
                    return


def _raw_key(table: sa.FromClause) -> list[sa.ColumnElement[Any]]:
    """Return the columns of the primary key with types that convert nothing."""
    return [sa.type_coerce(column, sa.types.NullType()) for column in table.primary_key]
