"""The tables of the newest version, and SQL expressions that SQLite and PostgreSQL write differently.

A change of a table needs a migration in `migrations`. `runs.number` counts up and is never reused: it is the order of
the runs, whatever the clock says. Digests that link tables are bytes. `body` columns are packed JSON (`encoding.pack`);
what queries need is in columns beside them.

Texts compare and sort by their bytes on both databases (`ByteOrderedText`). JSON columns are text, which PostgreSQL
casts to `jsonb`; as that takes neither NUL nor half a surrogate pair, those are escaped (`encoding.storable_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    ColumnClause,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Select,
    Table,
    Text,
    UniqueConstraint,
    cast,
    event,
    func,
    literal,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from beholder.ledger.encoding import to_json_text

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


# mypy cannot see the types of columns.
AnyRow: TypeAlias = "Row[*tuple[Any, ...]]"
AnySelect: TypeAlias = "Select[*tuple[Any, ...]]"

# 64-bit integers, and texts that compare and sort by their bytes, whatever the collation of the database is.
BigNumber = BigInteger().with_variant(Integer, "sqlite")
ByteOrderedText = Text().with_variant(Text(collation="C"), "postgresql")

PARSED_COLUMN = "parsed"  # in the `info` of a JSON column: the name of its `jsonb` copy in PostgreSQL

metadata = MetaData()

meta = Table(
    "meta", metadata, Column("key", ByteOrderedText, primary_key=True), Column("value", ByteOrderedText, nullable=False)
)

runs = Table(
    "runs",
    metadata,
    Column("number", BigNumber, primary_key=True),
    Column("id", ByteOrderedText, nullable=False, unique=True),
    Column("name", ByteOrderedText, nullable=False, index=True),
    Column("fingerprint", ByteOrderedText, nullable=False, index=True),
    Column("state", ByteOrderedText, nullable=False),
    Column("created", ByteOrderedText, nullable=False),
    Column("updated", ByteOrderedText, nullable=False),
    Column("total", BigNumber, nullable=False),
    Column("skipped", BigNumber, nullable=False),
    Column("spent_usd", ByteOrderedText, nullable=False),
    Column("unpriced", BigNumber, nullable=False),
    Column("tags", ByteOrderedText, nullable=False),
    Column("body", LargeBinary, nullable=False),  # suite, rubrics, prompt, versions
    sqlite_autoincrement=True,
)


def _run_column() -> Column[int]:
    return Column("run", BigNumber, ForeignKey("runs.number"), nullable=False)


cases = Table(
    "cases",
    metadata,
    Column("run", BigNumber, ForeignKey("runs.number"), primary_key=True),
    Column("id", ByteOrderedText, primary_key=True),
    Column("groups", ByteOrderedText, nullable=False),
    Column("body", LargeBinary, nullable=False),  # images, fields
    sqlite_with_rowid=False,
)

verdicts = Table(
    "verdicts",
    metadata,
    Column("number", BigNumber, primary_key=True),
    _run_column(),
    Column("position", BigNumber, nullable=False),
    Column("case_id", ByteOrderedText, nullable=False),
    Column("rubric", ByteOrderedText, nullable=False),
    Column("outcome", ByteOrderedText, nullable=False),
    Column("score", Float),
    Column("reused", Boolean, nullable=False),
    Column("answers", LargeBinary, nullable=False),  # the ids of the answers it was made from, 16 bytes each
    Column("body", LargeBinary, nullable=False),
    Column("grade", ByteOrderedText),
    Column("passed", Boolean),
    # JSON of `encoding.encode_facets`
    Column("facets", ByteOrderedText, info={PARSED_COLUMN: "facets_parsed"}),
    UniqueConstraint("run", "case_id", "rubric"),
)
# Casting text to jsonb takes PostgreSQL four microseconds for each row and condition, so a generated column stores it.
_ADD_PARSED_SQL = (
    "ALTER TABLE verdicts ADD COLUMN facets_parsed jsonb GENERATED ALWAYS AS (CAST(facets AS jsonb)) STORED"
)
_ADD_PARSED = DDL(_ADD_PARSED_SQL).execute_if(dialect="postgresql")  # type: ignore[no-untyped-call]  # in SQLAlchemy
event.listen(verdicts, "after_create", _ADD_PARSED)
# Covers all columns that lists are filtered and sorted by, so that they need not read the bodies.
Index(
    "verdicts_in_order",
    *(verdicts.c[name] for name in ("run", "position", "number", "outcome", "score", "grade", "passed", "facets")),
).ddl_if(dialect="sqlite")
# An index entry of PostgreSQL has at most 2,700 bytes, which facets may exceed.
Index(
    "verdicts_in_order_without_facets",
    *(verdicts.c[name] for name in ("run", "position", "number", "outcome", "score", "grade", "passed")),
).ddl_if(dialect="postgresql")
Index("verdicts_by_outcome", verdicts.c.run, verdicts.c.outcome, verdicts.c.score)

answers = Table(
    "answers",
    metadata,
    Column("number", BigNumber, primary_key=True),
    Column("key", LargeBinary, nullable=False),  # of brief, judge and sample
    Column("id", LargeBinary, nullable=False, index=True),  # of brief and text
    Column("brief_digest", LargeBinary, nullable=False),
    Column("judge", ByteOrderedText, nullable=False),
    Column("sample", BigNumber, nullable=False),
    Column("model", ByteOrderedText),
    Column("usage", ByteOrderedText, nullable=False),
    Column("cost_usd", ByteOrderedText),
    Column("latency_s", Float),
    Column("attempts", BigNumber, nullable=False),
    Column("flags", LargeBinary),  # packed; empty for none, as nearly always
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("key", "id"),
)

thumbnails = Table(
    "thumbnails",
    metadata,
    Column("digest", LargeBinary, primary_key=True),  # of the image file
    Column("webp", LargeBinary, nullable=False),
)

# Which run uses which answers and thumbnails, so that deleting a run deletes what only it used. The primary keys start
# with what is used, as that is what deleting looks up.
run_answers = Table(
    "run_answers",
    metadata,
    Column("answer", LargeBinary, primary_key=True),
    Column("run", BigNumber, ForeignKey("runs.number"), primary_key=True),
    sqlite_with_rowid=False,
)
run_thumbnails = Table(
    "run_thumbnails",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("run", BigNumber, ForeignKey("runs.number"), primary_key=True),
    sqlite_with_rowid=False,
)

# Several processes at work on one run (`leases`).
workers = Table(
    "workers",
    metadata,
    Column("run", BigNumber, ForeignKey("runs.number"), primary_key=True),
    Column("holder", ByteOrderedText, primary_key=True),
    Column("since", Float, nullable=False),  # seconds since 1970, by the database's own clock
    Column("until", Float, nullable=False),
    Column("part", Float, nullable=False),  # share of the run's rate limits, 0 to 1
    Column("allowance_usd", ByteOrderedText, nullable=False),  # reserved for it, and not yet in the run's `spent_usd`
    Column("written", ByteOrderedText, nullable=False),  # its last `WriteToken.batch`, so that none is written twice
    sqlite_with_rowid=False,
)
leases = Table(
    "leases",
    metadata,
    Column("run", BigNumber, ForeignKey("runs.number"), primary_key=True),
    Column("case_id", ByteOrderedText, primary_key=True),
    Column("rubric", ByteOrderedText, primary_key=True),
    Column("holder", ByteOrderedText, nullable=False),
    Column("done", Float),  # when it got a verdict without a score; NULL while it is leased
    sqlite_with_rowid=False,
)

# Batch jobs at providers, and the replies until there are verdicts by them (`batch_jobs`).
jobs = Table(
    "jobs",
    metadata,
    Column("number", BigNumber, primary_key=True),
    Column("run", BigNumber, ForeignKey("runs.number"), nullable=False, index=True),
    Column("judge", ByteOrderedText, nullable=False),
    Column("state", ByteOrderedText, nullable=False),
    Column("handle", ByteOrderedText, nullable=False),  # JSON for the provider's batch API; empty until submitted
    Column("reserved_usd", ByteOrderedText, nullable=False),
    Column("created", ByteOrderedText, nullable=False),
    Column("body", LargeBinary, nullable=False),  # the keys of its requests
)
replies = Table(
    "replies",
    metadata,
    Column("run", BigNumber, ForeignKey("runs.number"), primary_key=True),
    Column("key", LargeBinary, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)


T = TypeVar("T")
Insert: TypeAlias = "sqlite.Insert | postgresql.Insert"

SQLITE, POSTGRESQL = "sqlite", "postgresql"

_CHUNK_SIZE = 500  # values in one IN (…); SQLite takes 32,766, PostgreSQL 65,535
_PLAIN_KEY = re.compile(r"[\w .:/-]+")


def insert_for(connection: Connection, table: Table) -> Insert:
    """Return an insert with `on_conflict_do_update`, which both databases support in the same way."""
    if connection.dialect.name == POSTGRESQL:
        from sqlalchemy.dialects.postgresql import insert  # takes 60 ms to load, which a file need not wait for

        return insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split values into parts that fit into one statement."""
    return (values[start : start + _CHUNK_SIZE] for start in range(0, len(values), _CHUNK_SIZE))


def json_text(column: ColumnElement[Any], *path: str) -> ColumnElement[str]:
    """Return the text at a path of a JSON column; NULL if there is none."""
    *parents, last = path
    within = "$" + "".join(f'."{name}"' for name in parents)
    keys = [literal(name) for name in path]
    if _PLAIN_KEY.fullmatch(last):
        return _JsonText(column, literal(f'{within}."{last}"'), *keys)
    return _JsonTextByKey(column, literal(within), *keys)


def json_number(column: ColumnElement[Any], *path: str) -> ColumnElement[float]:
    """Return the number at a path of a JSON column; NULL if there is none."""
    return cast(json_text(column, *path), Float)


def json_list_has(column: ColumnElement[Any], name: str, item: str) -> ColumnElement[bool]:
    """Return whether a list in a JSON column contains this text."""
    # Most rows do not have the text anywhere, which is quicker to check.
    return (_Position(column, literal(to_json_text(item)[1:-1])) > 0) & _JsonListHas(
        column, literal(name), literal(item)
    )


def text_contains(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Return whether a text column contains this text; case-insensitive for ASCII letters."""
    return _Position(func.lower(column), literal(lower_ascii(text))) > 0


def json_values_contain(column: ColumnElement[Any], text: str) -> ColumnElement[bool]:
    """Return whether a value of a JSON object of texts contains this text; case-insensitive for ASCII letters."""
    # Most rows do not have the text anywhere, which is quicker to check.
    return text_contains(column, to_json_text(text)[1:-1]) & _JsonValuesContain(column, literal(lower_ascii(text)))


def lower_ascii(text: str) -> str:
    """Lower only ASCII letters, as both databases do for texts that compare by their bytes."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def without_index(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return a text column that SQLite uses no index for: the covering index `verdicts_in_order` has all that a list
    needs, any other leads to the table for each row. PostgreSQL has statistics and needs no such hint."""
    return _WithoutIndex(column)


def database_time_s() -> ColumnElement[float]:
    """Return the seconds since 1970 by the database's own clock, when the statement is executed."""
    return _DatabaseTime()


class _JsonText(FunctionElement[str]):
    """Arguments: column, SQLite's path, then the keys one by one."""

    inherit_cache = True
    type = Text()


class _JsonTextByKey(FunctionElement[str]):
    """Arguments: column, SQLite's path without the last key, then the keys one by one. For keys that a path of SQLite
    cannot express; slower."""

    inherit_cache = True
    type = Text()


class _JsonListHas(FunctionElement[bool]):
    """Arguments: column, the name of the list, the text."""

    inherit_cache = True
    type = Boolean()


class _JsonValuesContain(FunctionElement[bool]):
    """Arguments: column, the text in lower case."""

    inherit_cache = True
    type = Boolean()


class _Position(FunctionElement[int]):
    """The position of one text in another, from 1; 0 if it is not there."""

    inherit_cache = True
    type = Integer()


class _WithoutIndex(FunctionElement[str]):
    inherit_cache = True
    type = Text()


class _DatabaseTime(FunctionElement[float]):
    inherit_cache = True
    type = Float()


def _compile_arguments(element: FunctionElement[Any], compiler: SQLCompiler, **how: Any) -> list[str]:
    return [compiler.process(clause, **how) for clause in element.clauses]


def _jsonb(column: ColumnElement[Any], compiler: SQLCompiler, **how: Any) -> str:
    """Return the `jsonb` copy of a JSON column, or a cast if it has none."""
    parsed = getattr(column, "info", {}).get(PARSED_COLUMN)
    if parsed is None:
        return f"CAST({compiler.process(column, **how)} AS jsonb)"
    copy: ColumnClause[Any] = ColumnClause(parsed)
    copy.table = getattr(column, "table", None)
    return compiler.process(copy, **how)


@compiles(_JsonText, SQLITE)
def _json_text_in_sqlite(element: _JsonText, compiler: SQLCompiler, **how: Any) -> str:
    column, path, *_ = list(element.clauses)
    return f"json_extract({compiler.process(column, **how)}, {compiler.process(path, **how)})"


@compiles(_JsonTextByKey, SQLITE)
def _json_text_by_key_in_sqlite(element: _JsonTextByKey, compiler: SQLCompiler, **how: Any) -> str:
    column, within, *_, last = list(element.clauses)  # SQLAlchemy binds no value for a clause that is not processed
    items = f"json_each({compiler.process(column, **how)}, {compiler.process(within, **how)})"
    return f"(SELECT value FROM {items} WHERE key = {compiler.process(last, **how)})"


@compiles(_JsonText, POSTGRESQL)
@compiles(_JsonTextByKey, POSTGRESQL)
def _json_text_in_postgresql(element: _JsonText | _JsonTextByKey, compiler: SQLCompiler, **how: Any) -> str:
    column, _, *keys = list(element.clauses)
    path = ", ".join(compiler.process(key, **how) for key in keys)
    return f"({_jsonb(column, compiler, **how)} #>> CAST(ARRAY[{path}] AS text[]))"


@compiles(_JsonListHas, SQLITE)
def _json_list_has_in_sqlite(element: _JsonListHas, compiler: SQLCompiler, **how: Any) -> str:
    column, name, item = _compile_arguments(element, compiler, **how)
    return f"EXISTS (SELECT 1 FROM json_each({column}, '$.' || {name}) AS item WHERE item.value = {item})"


@compiles(_JsonListHas, POSTGRESQL)
def _json_list_has_in_postgresql(element: _JsonListHas, compiler: SQLCompiler, **how: Any) -> str:
    column, name, item = list(element.clauses)
    items = f"{_jsonb(column, compiler, **how)} -> CAST({compiler.process(name, **how)} AS text)"
    return f"({items}) @> to_jsonb(CAST({compiler.process(item, **how)} AS text))"


@compiles(_JsonValuesContain, SQLITE)
def _json_values_contain_in_sqlite(element: _JsonValuesContain, compiler: SQLCompiler, **how: Any) -> str:
    column, text = _compile_arguments(element, compiler, **how)
    return f"EXISTS (SELECT 1 FROM json_each({column}) AS item WHERE instr(lower(item.value), {text}) > 0)"


@compiles(_JsonValuesContain, POSTGRESQL)
def _json_values_contain_in_postgresql(element: _JsonValuesContain, compiler: SQLCompiler, **how: Any) -> str:
    column, text = _compile_arguments(element, compiler, **how)
    items = f"jsonb_each_text(CAST({column} AS jsonb)) AS item"
    return f'EXISTS (SELECT 1 FROM {items} WHERE strpos(lower(item.value COLLATE "C"), {text}) > 0)'


@compiles(_Position, SQLITE)
def _position_in_sqlite(element: _Position, compiler: SQLCompiler, **how: Any) -> str:
    return f"instr({', '.join(_compile_arguments(element, compiler, **how))})"


@compiles(_Position, POSTGRESQL)
def _position_in_postgresql(element: _Position, compiler: SQLCompiler, **how: Any) -> str:
    return f"strpos({', '.join(_compile_arguments(element, compiler, **how))})"


@compiles(_WithoutIndex, SQLITE)
def _without_index_in_sqlite(element: _WithoutIndex, compiler: SQLCompiler, **how: Any) -> str:
    return f"({_compile_arguments(element, compiler, **how)[0]} || '')"


@compiles(_WithoutIndex, POSTGRESQL)
def _without_index_in_postgresql(element: _WithoutIndex, compiler: SQLCompiler, **how: Any) -> str:
    return _compile_arguments(element, compiler, **how)[0]


@compiles(_DatabaseTime, SQLITE)
def _database_time_in_sqlite(element: _DatabaseTime, compiler: SQLCompiler, **how: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(_DatabaseTime, POSTGRESQL)
def _database_time_in_postgresql(element: _DatabaseTime, compiler: SQLCompiler, **how: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
