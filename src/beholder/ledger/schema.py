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

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from beholder.ledger.damage import check_columns
from beholder.ledger.encoding import to_json_text

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


# mypy cannot see the types of columns.
AnyRow: TypeAlias = "sa.Row[*tuple[Any, ...]]"
AnySelect: TypeAlias = "sa.Select[*tuple[Any, ...]]"

# 64-bit integers, and texts that compare and sort by their bytes, whatever the collation of the database is.
BigNumber = sa.BigInteger().with_variant(sa.Integer, "sqlite")
ByteOrderedText = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

PARSED_COLUMN = "parsed"  # in the `info` of a JSON column: the name of its `jsonb` copy in PostgreSQL

metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", ByteOrderedText, primary_key=True),
    sa.Column("value", ByteOrderedText, nullable=False),
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("number", BigNumber, primary_key=True),
    sa.Column("id", ByteOrderedText, nullable=False, unique=True),
    sa.Column("name", ByteOrderedText, nullable=False, index=True),
    sa.Column("fingerprint", ByteOrderedText, nullable=False, index=True),
    sa.Column("state", ByteOrderedText, nullable=False),
    sa.Column("created", ByteOrderedText, nullable=False),
    sa.Column("updated", ByteOrderedText, nullable=False),
    sa.Column("total", BigNumber, nullable=False),
    sa.Column("skipped", BigNumber, nullable=False),
    sa.Column("spent_usd", ByteOrderedText, nullable=False),
    sa.Column("unpriced", BigNumber, nullable=False),
    sa.Column("tags", ByteOrderedText, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # suite, rubrics, prompt, versions
    sqlite_autoincrement=True,
)


def _run_column() -> sa.Column[int]:
    return sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), nullable=False)


cases = sa.Table(
    "cases",
    metadata,
    sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), primary_key=True),
    sa.Column("id", ByteOrderedText, primary_key=True),
    sa.Column("groups", ByteOrderedText, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # images, fields
    sqlite_with_rowid=False,
)

verdicts = sa.Table(
    "verdicts",
    metadata,
    sa.Column("number", BigNumber, primary_key=True),
    _run_column(),
    sa.Column("position", BigNumber, nullable=False),
    sa.Column("case_id", ByteOrderedText, nullable=False),
    sa.Column("rubric", ByteOrderedText, nullable=False),
    sa.Column("outcome", ByteOrderedText, nullable=False),
    sa.Column("score", sa.Float),
    sa.Column("reused", sa.Boolean, nullable=False),
    sa.Column("answers", sa.LargeBinary, nullable=False),  # the ids of the answers it was made from, 16 bytes each
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("grade", ByteOrderedText),
    sa.Column("passed", sa.Boolean),
    # JSON of `encoding.encode_facets`
    sa.Column("facets", ByteOrderedText, info={PARSED_COLUMN: "facets_parsed"}),
    # Packed transcripts; NULL where there was one turn, where the answers are from the cache, and before version 4
    sa.Column("transcripts", sa.LargeBinary),
    sa.UniqueConstraint("run", "case_id", "rubric"),
)
# Casting text to jsonb takes PostgreSQL four microseconds for each row and condition, so a generated column stores it.
_ADD_PARSED_SQL = (
    "ALTER TABLE verdicts ADD COLUMN facets_parsed jsonb GENERATED ALWAYS AS (CAST(facets AS jsonb)) STORED"
)
_ADD_PARSED = sa.DDL(_ADD_PARSED_SQL).execute_if(dialect="postgresql")  # type: ignore[no-untyped-call]  # in SQLAlchemy
sa.event.listen(verdicts, "after_create", _ADD_PARSED)
# Covers all columns that lists are filtered and sorted by, so that they need not read the bodies.
sa.Index(
    "verdicts_in_order",
    *(verdicts.c[name] for name in ("run", "position", "number", "outcome", "score", "grade", "passed", "facets")),
).ddl_if(dialect="sqlite")
# An index entry of PostgreSQL has at most 2,700 bytes, which facets may exceed.
sa.Index(
    "verdicts_in_order_without_facets",
    *(verdicts.c[name] for name in ("run", "position", "number", "outcome", "score", "grade", "passed")),
).ddl_if(dialect="postgresql")
sa.Index("verdicts_by_outcome", verdicts.c.run, verdicts.c.outcome, verdicts.c.score)

answers = sa.Table(
    "answers",
    metadata,
    sa.Column("number", BigNumber, primary_key=True),
    sa.Column("key", sa.LargeBinary, nullable=False),  # of brief, judge and sample
    sa.Column("id", sa.LargeBinary, nullable=False, index=True),  # of brief and text
    sa.Column("brief_digest", sa.LargeBinary, nullable=False),
    sa.Column("judge", ByteOrderedText, nullable=False),
    sa.Column("sample", BigNumber, nullable=False),
    sa.Column("model", ByteOrderedText),
    sa.Column("usage", ByteOrderedText, nullable=False),
    sa.Column("cost_usd", ByteOrderedText),
    sa.Column("latency_s", sa.Float),
    sa.Column("attempts", BigNumber, nullable=False),
    sa.Column("flags", sa.LargeBinary),  # packed; empty for none, as nearly always
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("key", "id"),
)

thumbnails = sa.Table(
    "thumbnails",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True),  # of the image file
    sa.Column("webp", sa.LargeBinary, nullable=False),  # JPEG; WebP in older ledgers
)

# Which run uses which answers and thumbnails, so that deleting a run deletes what only it used. The primary keys start
# with what is used, as that is what deleting looks up.
run_answers = sa.Table(
    "run_answers",
    metadata,
    sa.Column("answer", sa.LargeBinary, primary_key=True),
    sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), primary_key=True),
    sqlite_with_rowid=False,
)
run_thumbnails = sa.Table(
    "run_thumbnails",
    metadata,
    sa.Column("digest", sa.LargeBinary, primary_key=True),
    sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), primary_key=True),
    sqlite_with_rowid=False,
)

# Several processes at work on one run (`leases`).
workers = sa.Table(
    "workers",
    metadata,
    sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), primary_key=True),
    sa.Column("holder", ByteOrderedText, primary_key=True),
    sa.Column("since", sa.Float, nullable=False),  # seconds since 1970, by the database's own clock
    sa.Column("until", sa.Float, nullable=False),
    sa.Column("part", sa.Float, nullable=False),  # share of the run's rate limits, 0 to 1
    sa.Column("allowance_usd", ByteOrderedText, nullable=False),  # reserved for it, not yet in the run's `spent_usd`
    sa.Column("written", ByteOrderedText, nullable=False),  # its last `WriteToken.batch`, so that none is written twice
    sqlite_with_rowid=False,
)
leases = sa.Table(
    "leases",
    metadata,
    sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), primary_key=True),
    sa.Column("case_id", ByteOrderedText, primary_key=True),
    sa.Column("rubric", ByteOrderedText, primary_key=True),
    sa.Column("holder", ByteOrderedText, nullable=False),
    sa.Column("done", sa.Float),  # when it got a verdict without a score; NULL while it is leased
    sqlite_with_rowid=False,
)

# Batch jobs at providers, and the replies until there are verdicts by them (`batch_jobs`).
jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("number", BigNumber, primary_key=True),
    sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), nullable=False, index=True),
    sa.Column("judge", ByteOrderedText, nullable=False),
    sa.Column("state", ByteOrderedText, nullable=False),
    sa.Column("handle", ByteOrderedText, nullable=False),  # JSON for the provider's batch API; empty until submitted
    sa.Column("reserved_usd", ByteOrderedText, nullable=False),
    sa.Column("created", ByteOrderedText, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # the keys of its requests
)
replies = sa.Table(
    "replies",
    metadata,
    sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), primary_key=True),
    sa.Column("key", sa.LargeBinary, primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# What people made of cases, and the filters of lists that they gave a name (`marks`).
stars = sa.Table(
    "stars",
    metadata,
    sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), primary_key=True),
    sa.Column("case_id", ByteOrderedText, primary_key=True),
    sqlite_with_rowid=False,
)
comments = sa.Table(
    "comments",
    metadata,
    sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), primary_key=True),
    sa.Column("id", ByteOrderedText, primary_key=True),
    sa.Column("case_id", ByteOrderedText, nullable=False),
    sa.Column("author", ByteOrderedText, nullable=False),
    sa.Column("text", ByteOrderedText, nullable=False),
    sa.Column("created", ByteOrderedText, nullable=False),
    sqlite_with_rowid=False,
)
views = sa.Table(
    "views",
    metadata,
    sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), primary_key=True),
    sa.Column("name", ByteOrderedText, primary_key=True),
    sa.Column("query", ByteOrderedText, nullable=False),  # of the address of the list
    sqlite_with_rowid=False,
)

# The words of the cases of runs that were searched (`search`), with an index that the database keeps up to date.
case_texts = sa.Table(
    "case_texts",
    metadata,
    sa.Column("number", BigNumber, primary_key=True),
    sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), nullable=False),
    sa.Column("case_id", ByteOrderedText, nullable=False),
    sa.Column("text", ByteOrderedText, nullable=False),
    sa.UniqueConstraint("run", "case_id"),
)
CASE_WORDS_SQL = {
    "sqlite": (
        "CREATE VIRTUAL TABLE case_words USING fts5(text, content='case_texts', content_rowid='number')",
        "CREATE TRIGGER case_texts_added AFTER INSERT ON case_texts BEGIN "
        "INSERT INTO case_words(rowid, text) VALUES (NEW.number, NEW.text); END",
        "CREATE TRIGGER case_texts_removed AFTER DELETE ON case_texts BEGIN "
        "INSERT INTO case_words(case_words, rowid, text) VALUES ('delete', OLD.number, OLD.text); END",
    ),
    "postgresql": ("CREATE INDEX case_words ON case_texts USING gin (to_tsvector('simple', text))",),
}
for _dialect, _statements in CASE_WORDS_SQL.items():
    for _statement in _statements:
        _add_words = sa.DDL(_statement).execute_if(dialect=_dialect)  # type: ignore[no-untyped-call]  # in SQLAlchemy
        sa.event.listen(case_texts, "after_create", _add_words)
check_columns(metadata)


T = TypeVar("T")
Insert: TypeAlias = "sqlite.Insert | postgresql.Insert"

_CHUNK_SIZE = 500  # values in one IN (…); SQLite takes 32,766, PostgreSQL 65,535
_PLAIN_KEY = re.compile(r"[\w .:/-]+")


def insert_for(connection: sa.Connection, table: sa.Table) -> Insert:
    """Return an insert with `on_conflict_do_update`, which both databases support in the same way."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # takes 60 ms to load, which a file need not wait for

        return insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split values into parts that fit into one statement."""
    return (values[start : start + _CHUNK_SIZE] for start in range(0, len(values), _CHUNK_SIZE))


def json_text(column: sa.ColumnElement[Any], *path: str) -> sa.ColumnElement[str]:
    """Return the text at a path of a JSON column; NULL if there is none."""
    *parents, last = path
    within = "$" + "".join(f'."{name}"' for name in parents)
    keys = [sa.literal(name) for name in path]
    if _PLAIN_KEY.fullmatch(last):
        return _JsonText(column, sa.literal(f'{within}."{last}"'), *keys)
    return _JsonTextByKey(column, sa.literal(within), *keys)


def json_number(column: sa.ColumnElement[Any], *path: str) -> sa.ColumnElement[float]:
    """Return the number at a path of a JSON column; NULL if there is none."""
    return sa.cast(json_text(column, *path), sa.Float)


def json_list_has(column: sa.ColumnElement[Any], name: str, item: str) -> sa.ColumnElement[bool]:
    """Return whether a list in a JSON column contains this text."""
    # Most rows do not have the text anywhere, which is quicker to check.
    return (_Position(column, sa.literal(to_json_text(item)[1:-1])) > 0) & _JsonListHas(
        column, sa.literal(name), sa.literal(item)
    )


def text_contains(column: sa.ColumnElement[Any], text: str) -> sa.ColumnElement[bool]:
    """Return whether a text column contains this text; case-insensitive for ASCII letters."""
    return _Position(sa.func.lower(column), sa.literal(lower_ascii(text))) > 0


def json_values_contain(column: sa.ColumnElement[Any], text: str) -> sa.ColumnElement[bool]:
    """Return whether a value of a JSON object of texts contains this text; case-insensitive for ASCII letters."""
    # Most rows do not have the text anywhere, which is quicker to check.
    return text_contains(column, to_json_text(text)[1:-1]) & _JsonValuesContain(column, sa.literal(lower_ascii(text)))


def lower_ascii(text: str) -> str:
    """Lower only ASCII letters, as both databases do for texts that compare by their bytes."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def json_list_length(column: sa.ColumnElement[Any], name: str) -> sa.ColumnElement[int]:
    """Return how many items a list in a JSON column has; 0 if there is none."""
    return sa.func.coalesce(_JsonListLength(column, sa.literal(name)), 0)


def words_begin(number: sa.ColumnElement[int], words: Sequence[str]) -> sa.ColumnElement[bool]:
    """Return whether each of these words begins a word in a row of `case_texts`, by its number."""
    columns = case_texts.c
    in_sqlite = " ".join(f'"{word}"*' for word in words)
    in_postgresql = " & ".join(f"{word}:*" for word in words)
    return _WordsBegin(number, columns.text, sa.literal(in_sqlite), sa.literal(in_postgresql))


def without_index(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return a text column that SQLite uses no index for: the covering index `verdicts_in_order` has all that a list
    needs, any other leads to the table for each row. PostgreSQL has statistics and needs no such hint."""
    return _WithoutIndex(column)


def database_time_s() -> sa.ColumnElement[float]:
    """Return the seconds since 1970 by the database's own clock, when the statement is executed."""
    return _DatabaseTime()


class _DialectFunction(FunctionElement[T]):
    """A function that the databases write differently: `sqlite` and `postgresql` are its SQL, `{0}` its first argument,
    `{last}` its last, `{keys}` all from the third on, and `{jsonb}` the first as PostgreSQL's `jsonb`. `{json}` is the
    first as SQLite's JSON functions take it, which end a query at the first text that is no JSON."""

    inherit_cache = True
    sqlite: str
    postgresql: str


class _JsonText(_DialectFunction[str]):
    """Arguments: column, SQLite's path, then the keys one by one."""

    inherit_cache, type = True, sa.Text()
    sqlite = "json_extract({json}, {1})"
    postgresql = "({jsonb} #>> CAST(ARRAY[{keys}] AS text[]))"


class _JsonTextByKey(_DialectFunction[str]):
    """Arguments: column, SQLite's path without the last key, then the keys one by one. For keys that a path of SQLite
    cannot express; slower."""

    inherit_cache, type = True, sa.Text()
    sqlite = "(SELECT value FROM json_each({json}, {1}) WHERE key = {last})"
    postgresql = _JsonText.postgresql


class _JsonListHas(_DialectFunction[bool]):
    """Arguments: column, the name of the list, the text."""

    inherit_cache, type = True, sa.Boolean()
    sqlite = "EXISTS (SELECT 1 FROM json_each({json}, '$.' || {1}) AS item WHERE item.value = {2})"
    postgresql = "({jsonb} -> CAST({1} AS text)) @> to_jsonb(CAST({2} AS text))"


class _JsonValuesContain(_DialectFunction[bool]):
    """Arguments: column, the text in lower case."""

    inherit_cache, type = True, sa.Boolean()
    sqlite = "EXISTS (SELECT 1 FROM json_each({json}) AS item WHERE instr(lower(item.value), {1}) > 0)"
    postgresql = (
        "EXISTS (SELECT 1 FROM jsonb_each_text(CAST({0} AS jsonb)) AS item "
        'WHERE strpos(lower(item.value COLLATE "C"), {1}) > 0)'
    )


class _JsonListLength(_DialectFunction[int]):
    """Arguments: column, the name of the list."""

    inherit_cache, type = True, sa.Integer()
    sqlite = "json_array_length({json}, '$.' || {1})"
    postgresql = "jsonb_array_length({jsonb} -> CAST({1} AS text))"


class _WordsBegin(_DialectFunction[bool]):
    """Arguments: the number of the row, its text, the query in the language of SQLite's FTS5 and of PostgreSQL."""

    inherit_cache, type = True, sa.Boolean()
    sqlite = "({0} IN (SELECT rowid FROM case_words WHERE case_words MATCH {2}))"
    postgresql = "(to_tsvector('simple', {1}) @@ to_tsquery('simple', {3}))"


class _Position(_DialectFunction[int]):
    """The position of one text in another, from 1; 0 if it is not there."""

    inherit_cache, type = True, sa.Integer()
    sqlite, postgresql = "instr({0}, {1})", "strpos({0}, {1})"


class _WithoutIndex(_DialectFunction[str]):
    inherit_cache, type = True, sa.Text()
    sqlite, postgresql = "({0} || '')", "{0}"


class _DatabaseTime(_DialectFunction[float]):
    inherit_cache, type = True, sa.Float()
    sqlite = "((julianday('now') - 2440587.5) * 86400.0)"
    postgresql = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


@compiles(_DialectFunction)
def _compile_dialect_function(element: _DialectFunction[Any], compiler: SQLCompiler, **how: Any) -> str:
    arguments = list(element.clauses)

    def write(match: re.Match[str]) -> str:
        if match[1] == "jsonb":
            return _jsonb(arguments[0], compiler, **how)
        if match[1] == "json":
            column = compiler.process(arguments[0], **how)
            return f"CASE WHEN json_valid({column}) THEN {column} END"
        written = {"keys": arguments[2:], "last": arguments[-1:]}.get(match[1])
        # An argument that is not written must not be processed: SQLAlchemy would bind a value that has no place.
        return ", ".join(compiler.process(one, **how) for one in written or [arguments[int(match[1])]])

    return re.sub(r"\{(\w+)\}", write, getattr(element, compiler.dialect.name))


def _jsonb(column: sa.ColumnElement[Any], compiler: SQLCompiler, **how: Any) -> str:
    """Return the `jsonb` copy of a JSON column, or a cast if it has none."""
    parsed = getattr(column, "info", {}).get(PARSED_COLUMN)
    if parsed is None:
        return f"CAST({compiler.process(column, **how)} AS jsonb)"
    copy: sa.ColumnClause[Any] = sa.ColumnClause(parsed)
    copy.table = getattr(column, "table", None)
    return compiler.process(copy, **how)
