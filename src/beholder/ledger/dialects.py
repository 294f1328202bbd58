"""What SQLite and PostgreSQL say differently, said once: the rest of the ledger is one code for both.

Texts compare and sort by their bytes on both (`tables.Words`). JSON is kept as text; PostgreSQL reads it as `jsonb`,
which knows neither NUL nor half a surrogate pair, so those are escaped before they are written (`packing.plain_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sqlalchemy import (
    Boolean,
    ColumnClause,
    ColumnElement,
    Connection,
    Float,
    Integer,
    Table,
    Text,
    cast,
    func,
    literal,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from beholder.ledger.packing import dump
from beholder.ledger.tables import PARSED

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite

T = TypeVar("T")
Insert: TypeAlias = "sqlite.Insert | postgresql.Insert"

SQLITE, POSTGRESQL = "sqlite", "postgresql"

_PART = 500  # values in one IN (…); SQLite takes 32,766, PostgreSQL 65,535
_PLAIN = re.compile(r"[\w .:/-]+")


def insert_for(connection: Connection, table: Table) -> Insert:
    """The insert that knows `on_conflict_do_update`, which both databases do in the same way."""
    if connection.dialect.name == POSTGRESQL:
        from sqlalchemy.dialects.postgresql import insert  # takes 60 ms to load, which a file need not wait for

        return insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Many values, in as many as one statement takes."""
    return (values[start : start + _PART] for start in range(0, len(values), _PART))


def text_at(column: ColumnElement[Any], *path: str) -> ColumnElement[str]:
    """The text at a place of a JSON column, NULL where there is none."""
    *way, last = path
    within = "$" + "".join(f'."{name}"' for name in way)
    keys = [literal(name) for name in path]
    if _PLAIN.fullmatch(last):
        return _At(column, literal(f'{within}."{last}"'), *keys)
    return _AtOddKey(column, literal(within), *keys)


def number_at(column: ColumnElement[Any], *path: str) -> ColumnElement[float]:
    """The number at a place of a JSON column, NULL where there is none."""
    return cast(text_at(column, *path), Float)


def has_item(column: ColumnElement[Any], name: str, item: str) -> ColumnElement[bool]:
    """Whether the list of that name in a JSON column has this text in it."""
    # Most rows do not have the text anywhere, which is quicker to see.
    return (_Position(column, literal(dump(item)[1:-1])) > 0) & _HasItem(column, literal(name), literal(item))


def contains(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Whether the text stands anywhere in a text column; capital or small is the same, as far as ASCII goes."""
    return _Position(func.lower(column), literal(small(text))) > 0


def value_contains(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Whether the text stands in a value of a JSON column of texts by name; capital and small as in `contains`."""
    # Most rows do not have the text anywhere, which is quicker to see.
    return contains(column, dump(text)[1:-1]) & _ValueContains(column, literal(small(text)))


def small(text: str) -> str:
    """As both databases lower a text that compares by its bytes: only ASCII has capitals."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def unindexed(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A text column that SQLite chooses no index for: the one in order has all that a list needs, others lead to the
    table for each row. PostgreSQL counts what is in its tables and needs no such hint."""
    return _Unindexed(column)


def now_s() -> ColumnElement[float]:
    """Seconds since 1970 by the database's own clock, when the statement is carried out."""
    return _Now()


class _At(FunctionElement[str]):
    """Column, SQLite's path, then the keys one by one."""

    inherit_cache = True
    type = Text()


class _AtOddKey(FunctionElement[str]):
    """Column, SQLite's path as far as the last key, then the keys one by one. A path cannot name everything that a key
    can be; going through the keys can, and is slower."""

    inherit_cache = True
    type = Text()


class _HasItem(FunctionElement[bool]):
    """Column, the list's name, the text."""

    inherit_cache = True
    type = Boolean()


class _ValueContains(FunctionElement[bool]):
    """Column, the text in small letters."""

    inherit_cache = True
    type = Boolean()


class _Position(FunctionElement[int]):
    """Where in one text another stands, from 1; 0 for nowhere."""

    inherit_cache = True
    type = Integer()


class _Unindexed(FunctionElement[str]):
    inherit_cache = True
    type = Text()


class _Now(FunctionElement[float]):
    inherit_cache = True
    type = Float()


def _said(element: FunctionElement[Any], compiler: SQLCompiler, **how: Any) -> list[str]:
    return [compiler.process(clause, **how) for clause in element.clauses]


def _jsonb(column: ColumnElement[Any], compiler: SQLCompiler, **how: Any) -> str:
    """A JSON column as PostgreSQL reads it; where another column has that already, that one."""
    parsed = getattr(column, "info", {}).get(PARSED)
    if parsed is None:
        return f"CAST({compiler.process(column, **how)} AS jsonb)"
    beside: ColumnClause[Any] = ColumnClause(parsed)
    beside.table = getattr(column, "table", None)
    return compiler.process(beside, **how)


@compiles(_At, SQLITE)
def _at_in_sqlite(element: _At, compiler: SQLCompiler, **how: Any) -> str:
    column, path, *_ = list(element.clauses)
    return f"json_extract({compiler.process(column, **how)}, {compiler.process(path, **how)})"


@compiles(_AtOddKey, SQLITE)
def _at_odd_key_in_sqlite(element: _AtOddKey, compiler: SQLCompiler, **how: Any) -> str:
    column, within, *_, last = list(element.clauses)  # what is not processed asks for no value either
    items = f"json_each({compiler.process(column, **how)}, {compiler.process(within, **how)})"
    return f"(SELECT value FROM {items} WHERE key = {compiler.process(last, **how)})"


@compiles(_At, POSTGRESQL)
@compiles(_AtOddKey, POSTGRESQL)
def _at_in_postgresql(element: _At | _AtOddKey, compiler: SQLCompiler, **how: Any) -> str:
    column, _, *keys = list(element.clauses)
    path = ", ".join(compiler.process(key, **how) for key in keys)
    return f"({_jsonb(column, compiler, **how)} #>> CAST(ARRAY[{path}] AS text[]))"


@compiles(_HasItem, SQLITE)
def _has_item_in_sqlite(element: _HasItem, compiler: SQLCompiler, **how: Any) -> str:
    column, name, item = _said(element, compiler, **how)
    return f"EXISTS (SELECT 1 FROM json_each({column}, '$.' || {name}) AS item WHERE item.value = {item})"


@compiles(_HasItem, POSTGRESQL)
def _has_item_in_postgresql(element: _HasItem, compiler: SQLCompiler, **how: Any) -> str:
    column, name, item = list(element.clauses)
    items = f"{_jsonb(column, compiler, **how)} -> CAST({compiler.process(name, **how)} AS text)"
    return f"({items}) @> to_jsonb(CAST({compiler.process(item, **how)} AS text))"


@compiles(_ValueContains, SQLITE)
def _value_contains_in_sqlite(element: _ValueContains, compiler: SQLCompiler, **how: Any) -> str:
    column, text = _said(element, compiler, **how)
    return f"EXISTS (SELECT 1 FROM json_each({column}) AS item WHERE instr(lower(item.value), {text}) > 0)"


@compiles(_ValueContains, POSTGRESQL)
def _value_contains_in_postgresql(element: _ValueContains, compiler: SQLCompiler, **how: Any) -> str:
    column, text = _said(element, compiler, **how)
    items = f"jsonb_each_text(CAST({column} AS jsonb)) AS item"
    return f'EXISTS (SELECT 1 FROM {items} WHERE strpos(lower(item.value COLLATE "C"), {text}) > 0)'


@compiles(_Position, SQLITE)
def _position_in_sqlite(element: _Position, compiler: SQLCompiler, **how: Any) -> str:
    return f"instr({', '.join(_said(element, compiler, **how))})"


@compiles(_Position, POSTGRESQL)
def _position_in_postgresql(element: _Position, compiler: SQLCompiler, **how: Any) -> str:
    return f"strpos({', '.join(_said(element, compiler, **how))})"


@compiles(_Unindexed, SQLITE)
def _unindexed_in_sqlite(element: _Unindexed, compiler: SQLCompiler, **how: Any) -> str:
    return f"({_said(element, compiler, **how)[0]} || '')"


@compiles(_Unindexed, POSTGRESQL)
def _unindexed_in_postgresql(element: _Unindexed, compiler: SQLCompiler, **how: Any) -> str:
    return _said(element, compiler, **how)[0]


@compiles(_Now, SQLITE)
def _now_in_sqlite(element: _Now, compiler: SQLCompiler, **how: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(_Now, POSTGRESQL)
def _now_in_postgresql(element: _Now, compiler: SQLCompiler, **how: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
