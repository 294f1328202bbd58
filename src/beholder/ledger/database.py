"""Where a ledger is (a path, `sqlite:///path` or `postgresql://user:password@host/database`), opening it, migrations.

A new ledger gets the tables of `schema`. Every change there needs a migration here, which does the same to a ledger of
the version before. A migration is never changed once it was released, and uses no table of `schema`, which moves on. A
test migrates `tests/ledger/version-1.sql`, the oldest file there is, and compares its tables with those of a new one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy import text

from beholder.errors import LedgerError
from beholder.ledger import sqlite
from beholder.ledger.encoding import encode_facets, pack_verdict, storable_text, unpack_verdict
from beholder.ledger.schema import BigNumber, ByteOrderedText, meta, metadata
from beholder.verdicts.verdict import Outcome, mark_unmeasured

LEDGER_VARIABLE = "BEHOLDER_LEDGER"
DEFAULT_FILE = "beholder.db"

_POSTGRESQL_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")


def resolve_address(where: str | os.PathLike[str] | None = None) -> str:
    """Return the path of a ledger file, or the URL of a PostgreSQL database.

    The URL includes the password; `Ledger.place` is for messages.

    Args:
        where: A path or URL; by default the value of `BEHOLDER_LEDGER`, else `beholder.db`.

    Raises:
        LedgerError: It is empty, or neither a file nor PostgreSQL.
    """
    if where is not None and not isinstance(where, str | os.PathLike):
        raise LedgerError(f"A ledger is the path of a file, or the URL of a PostgreSQL database, not {where!r}.")
    text = os.fspath(where if where is not None else os.environ.get(LEDGER_VARIABLE, "").strip() or DEFAULT_FILE)
    if not text.strip():
        raise LedgerError("The ledger has no name; name a file or a PostgreSQL database (--ledger or ledger=).")
    scheme, separator, rest = text.partition("://")
    if not separator and text.startswith(
        tuple(f"{name}:/" for name in _POSTGRESQL_SCHEMES)
    ):  # what `Path` makes of a URL
        raise LedgerError("The address of the ledger has lost a slash: it begins with postgresql://, and is no path.")
    if not separator or is_postgresql(text):
        return text
    if scheme == "sqlite":
        return rest.removeprefix("/")  # as SQLAlchemy writes them: sqlite:///relative, sqlite:////absolute
    raise LedgerError(
        f"A ledger is a file, or a PostgreSQL database at postgresql://user@host/database, and not at {scheme}:// "
        "addresses; name another one (--ledger or ledger=)."
    )


def is_postgresql(where: str) -> bool:
    """Return whether an address is a PostgreSQL URL; any other is a file."""
    return where.partition("://")[0] in _POSTGRESQL_SCHEMES and "://" in where


def ledger_exists(where: str | os.PathLike[str] | None) -> bool:
    """Return whether there is a ledger where `Ledger.open` would look for it.

    Raises:
        LedgerError: The database server cannot be reached.
    """
    address = resolve_address(where)
    if not is_postgresql(address):
        return os.path.exists(address)
    from beholder.ledger import postgres

    return postgres.has_tables(address)


class DatabaseBackend(Protocol):
    """What SQLite and PostgreSQL do in different ways; the modules `sqlite` and `postgres` implement it."""

    def translate_errors(self, place: object) -> AbstractContextManager[None]: ...

    def writer_engine(self, engine: sa.Engine) -> sa.Engine: ...

    def unlocked_writer_engine(self, engine: sa.Engine) -> sa.Engine: ...

    def check_write_access(self, connection: sa.Connection) -> None: ...

    def check_pages(self, connection: sa.Connection) -> list[str]: ...

    def size(self, connection: sa.Connection) -> int: ...

    def shrink(self, engine: sa.Engine) -> None: ...


@dataclass(frozen=True, slots=True)
class Database:
    """An open database. `place` is for messages, `address` has the password, `file` is `None` for PostgreSQL."""

    backend: DatabaseBackend
    engine: sa.Engine
    place: str
    address: str = field(repr=False)
    file: sqlite.LedgerFile | None


def open_database(where: str, *, create: bool, read_only: bool, timeout_s: float) -> Database:
    """Open the database at an address of `resolve_address`. Raises `LedgerError`."""
    if is_postgresql(where):
        from beholder.ledger import postgres

        engine, shown = postgres.open_engine(where, read_only=read_only, timeout_s=timeout_s)
        return Database(postgres, engine, shown, where, None)
    path = sqlite.check_path(where, create=create)
    if not read_only:
        sqlite.check_single_name(path)
    file = sqlite.LedgerFile(path)
    engine = sqlite.open_engine(file, create=create, read_only=read_only, timeout_s=timeout_s)
    return Database(sqlite, engine, str(path), str(path), file)


Migration = Callable[[sa.Connection], None]

_VERSION_KEY = "version"
_PAGE_SIZE = 256


def _add_facets(connection: sa.Connection) -> None:
    """Add the columns grade, passed and facets to verdicts, by which lists are filtered and sorted."""
    for column in ("grade TEXT", "passed BOOLEAN", "facets TEXT"):
        connection.execute(text(f"ALTER TABLE verdicts ADD COLUMN {column}"))
    page = text("SELECT number, case_id, body FROM verdicts WHERE number > :last ORDER BY number LIMIT :most")
    change = text("UPDATE verdicts SET grade = :grade, passed = :passed, facets = :facets WHERE number = :number")
    last = 0
    while rows := connection.execute(page, {"last": last, "most": _PAGE_SIZE}).all():
        verdicts = [(row.number, unpack_verdict(row.body, f"the verdict on {row.case_id!r}")) for row in rows]
        connection.execute(
            change,
            [
                {
                    "number": number,
                    "grade": None if verdict.grade is None else storable_text(verdict.grade),
                    "passed": verdict.passed,
                    "facets": encode_facets(verdict),
                }
                for number, verdict in verdicts
            ],
        )
        last = rows[-1].number
    connection.execute(text("DROP INDEX verdicts_in_order"))
    columns = "run, position, number, outcome, score, grade, passed, facets"
    connection.execute(text(f"CREATE INDEX verdicts_in_order ON verdicts ({columns})"))


def _add_worker_and_batch_tables(connection: sa.Connection) -> None:
    """Add the tables for several processes on one run, and for batch jobs."""
    tables = sa.MetaData()
    sa.Table("runs", tables, sa.Column("number", BigNumber, primary_key=True))

    def run(*, key: bool) -> sa.Column[int]:
        return sa.Column(
            "run", BigNumber, sa.ForeignKey("runs.number"), primary_key=key, nullable=False, index=not key or None
        )

    def texts(*names: str) -> list[sa.Column[str]]:
        return [sa.Column(name, ByteOrderedText, nullable=False) for name in names]

    new = [
        sa.Table(
            "workers",
            tables,
            run(key=True),
            sa.Column("holder", ByteOrderedText, primary_key=True),
            *(sa.Column(name, sa.Float, nullable=False) for name in ("since", "until", "part")),
            *texts("allowance_usd", "written"),
            sqlite_with_rowid=False,
        ),
        sa.Table(
            "leases",
            tables,
            run(key=True),
            *(sa.Column(name, ByteOrderedText, primary_key=True) for name in ("case_id", "rubric")),
            *texts("holder"),
            sa.Column("done", sa.Float),
            sqlite_with_rowid=False,
        ),
        sa.Table(
            "jobs",
            tables,
            sa.Column("number", BigNumber, primary_key=True),
            run(key=False),
            *texts("judge", "state", "handle", "reserved_usd", "created"),
            sa.Column("body", sa.LargeBinary, nullable=False),
        ),
        sa.Table(
            "replies",
            tables,
            run(key=True),
            sa.Column("key", sa.LargeBinary, primary_key=True),
            sa.Column("body", sa.LargeBinary, nullable=False),
            sqlite_with_rowid=False,
        ),
    ]
    tables.create_all(connection, tables=new)


def _add_transcripts(connection: sa.Connection) -> None:
    """Add the column transcripts to verdicts: the conversations that took more than one turn."""
    kind = sa.LargeBinary().compile(connection.dialect)
    connection.execute(text(f"ALTER TABLE verdicts ADD COLUMN transcripts {kind}"))


def _mark_unmeasured(connection: sa.Connection) -> None:
    """Give the outcome `unmeasured` to verdicts that were `scored` although too little was answered for a score."""
    page = text("SELECT number, case_id, outcome, body FROM verdicts WHERE number > :last ORDER BY number LIMIT :most")
    change = text(
        "UPDATE verdicts SET outcome = :outcome, score = NULL, grade = NULL, passed = :passed, body = :body "
        "WHERE number = :number"
    )
    change_body = text("UPDATE verdicts SET body = :body WHERE number = :number")
    last = 0
    while rows := connection.execute(page, {"last": last, "most": _PAGE_SIZE}).all():
        for row in rows:
            try:
                verdict = unpack_verdict(row.body, f"the verdict on {row.case_id!r}")
            except (LedgerError, TypeError):  # damaged: `doctor` names it, and the others can still be read
                continue
            marked = mark_unmeasured(verdict)
            is_new = marked.outcome is Outcome.UNMEASURED and row.outcome != marked.outcome
            if not is_new and marked is verdict:
                continue
            values = {"number": row.number, "body": pack_verdict(marked, answer=True)}
            if is_new:
                connection.execute(change, {**values, "outcome": str(marked.outcome), "passed": marked.passed})
            else:  # only a juror is unmeasured
                connection.execute(change_body, values)
        last = rows[-1].number


def _add_marks_and_search(connection: sa.Connection) -> None:
    """Add the tables for stars, comments, saved views and the texts of cases, and the highest possible scores."""
    tables = sa.MetaData()
    sa.Table("runs", tables, sa.Column("number", BigNumber, primary_key=True))

    def texts(*names: str, key: bool = False) -> list[sa.Column[str]]:
        return [sa.Column(name, ByteOrderedText, primary_key=key, nullable=False) for name in names]

    def run(*, key: bool = True) -> sa.Column[int]:
        return sa.Column("run", BigNumber, sa.ForeignKey("runs.number"), primary_key=key, nullable=False)

    new = [
        sa.Table("stars", tables, run(), *texts("case_id", key=True), sqlite_with_rowid=False),
        sa.Table(
            "comments",
            tables,
            run(),
            *texts("id", key=True),
            *texts("case_id", "author", "text", "created"),
            sqlite_with_rowid=False,
        ),
        sa.Table("views", tables, run(), *texts("name", key=True), *texts("query"), sqlite_with_rowid=False),
        sa.Table(
            "case_texts",
            tables,
            sa.Column("number", BigNumber, primary_key=True),
            run(key=False),
            *texts("case_id", "text"),
            sa.UniqueConstraint("run", "case_id"),
        ),
    ]
    tables.create_all(connection, tables=new)
    for statement in _CASE_WORDS_6[connection.dialect.name]:
        connection.exec_driver_sql(statement)
    page = text(
        "SELECT number, case_id, body FROM verdicts WHERE outcome = 'unmeasured' AND number > :last "
        "ORDER BY number LIMIT :most"
    )
    change = text("UPDATE verdicts SET facets = :facets WHERE number = :number")
    last = 0
    while rows := connection.execute(page, {"last": last, "most": _PAGE_SIZE}).all():
        for row in rows:
            with suppress(LedgerError, TypeError):  # damaged: `doctor` names it
                verdict = unpack_verdict(row.body, f"the verdict on {row.case_id!r}")
                connection.execute(change, {"number": row.number, "facets": encode_facets(verdict)})
        last = rows[-1].number


_CASE_WORDS_6 = {
    "sqlite": (
        "CREATE VIRTUAL TABLE IF NOT EXISTS case_words USING fts5(text, content='case_texts', content_rowid='number')",
        "CREATE TRIGGER IF NOT EXISTS case_texts_added AFTER INSERT ON case_texts BEGIN "
        "INSERT INTO case_words(rowid, text) VALUES (NEW.number, NEW.text); END",
        "CREATE TRIGGER IF NOT EXISTS case_texts_removed AFTER DELETE ON case_texts BEGIN "
        "INSERT INTO case_words(case_words, rowid, text) VALUES ('delete', OLD.number, OLD.text); END",
    ),
    "postgresql": ("CREATE INDEX IF NOT EXISTS case_words ON case_texts USING gin (to_tsvector('simple', text))",),
}

# The first one migrates from version 1 to version 2, and so on.
MIGRATIONS: Sequence[Migration] = (
    _add_facets,
    _add_worker_and_batch_tables,
    _add_transcripts,
    _mark_unmeasured,
    _add_marks_and_search,
)


def newest_version() -> int:
    return 1 + len(MIGRATIONS)


def read_version(connection: sa.Connection) -> int:
    """Return the version of the tables, 0 for an empty database. Raises `LedgerError` if it is another program's."""
    names = sa.inspect(connection).get_table_names()
    if not names:
        return 0
    version = None
    if "meta" in names:
        columns = {column["name"] for column in sa.inspect(connection).get_columns("meta")}
        if {"key", "value"} <= columns:
            version = connection.scalar(sa.select(meta.c.value).where(meta.c.key == _VERSION_KEY))
    if version is None or not str(version).isdecimal():
        raise LedgerError("is a database of another program, not a ledger; name another one (--ledger or ledger=).")
    return int(version)


def check_version(version: int) -> None:
    """Raise `LedgerError` if the tables are newer than this version of Beholder can read."""
    if version > newest_version():
        raise LedgerError(
            f"was written by a newer Beholder (its tables are of version {version}, this one knows "
            f"{newest_version()}); upgrade Beholder, or name another ledger (--ledger or ledger=)."
        )


def migrate(connection: sa.Connection) -> None:
    """Create the tables or migrate them to the newest version, all in the transaction of `connection`."""
    version = read_version(connection)
    check_version(version)
    if version == 0:
        metadata.create_all(connection)
        connection.execute(meta.insert().values(key=_VERSION_KEY, value=str(newest_version())))
        return
    for migration in MIGRATIONS[version - 1 :]:
        migration(connection)
    if version < newest_version():
        connection.execute(sa.update(meta).where(meta.c.key == _VERSION_KEY).values(value=str(newest_version())))
