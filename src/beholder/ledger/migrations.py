"""The version of a ledger's tables, and the migrations from older ones.

A new ledger gets the tables of `schema`. Every change there needs a migration here, which does the same to a ledger of
the version before. A migration is never changed once it was released, and uses no table of `schema`, which moves on. A
test migrates `tests/ledger/version-1.sql`, the oldest file there is, and compares its tables with those of a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import (
    Column,
    Connection,
    Float,
    ForeignKey,
    LargeBinary,
    MetaData,
    Table,
    inspect,
    select,
    text,
    update,
)

from beholder.errors import LedgerError
from beholder.ledger.encoding import encode_facets, storable_text, unpack_verdict
from beholder.ledger.schema import BigNumber, ByteOrderedText, meta, metadata

Migration = Callable[[Connection], None]

_VERSION_KEY = "version"
_PAGE_SIZE = 256


def _add_facets(connection: Connection) -> None:
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


def _add_worker_and_batch_tables(connection: Connection) -> None:
    """Add the tables for several processes on one run, and for batch jobs."""
    tables = MetaData()
    Table("runs", tables, Column("number", BigNumber, primary_key=True))

    def run(*, key: bool) -> Column[int]:
        return Column(
            "run", BigNumber, ForeignKey("runs.number"), primary_key=key, nullable=False, index=not key or None
        )

    def texts(*names: str) -> list[Column[str]]:
        return [Column(name, ByteOrderedText, nullable=False) for name in names]

    new = [
        Table(
            "workers",
            tables,
            run(key=True),
            Column("holder", ByteOrderedText, primary_key=True),
            *(Column(name, Float, nullable=False) for name in ("since", "until", "part")),
            *texts("allowance_usd", "written"),
            sqlite_with_rowid=False,
        ),
        Table(
            "leases",
            tables,
            run(key=True),
            *(Column(name, ByteOrderedText, primary_key=True) for name in ("case_id", "rubric")),
            *texts("holder"),
            Column("done", Float),
            sqlite_with_rowid=False,
        ),
        Table(
            "jobs",
            tables,
            Column("number", BigNumber, primary_key=True),
            run(key=False),
            *texts("judge", "state", "handle", "reserved_usd", "created"),
            Column("body", LargeBinary, nullable=False),
        ),
        Table(
            "replies",
            tables,
            run(key=True),
            Column("key", LargeBinary, primary_key=True),
            Column("body", LargeBinary, nullable=False),
            sqlite_with_rowid=False,
        ),
    ]
    tables.create_all(connection, tables=new)


# The first one migrates from version 1 to version 2, and so on.
MIGRATIONS: Sequence[Migration] = (_add_facets, _add_worker_and_batch_tables)


def newest_version() -> int:
    return 1 + len(MIGRATIONS)


def read_version(connection: Connection) -> int:
    """Return the version of the tables, 0 for an empty database. Raises `LedgerError` if it is another program's."""
    names = inspect(connection).get_table_names()
    if not names:
        return 0
    version = None
    if "meta" in names:
        columns = {column["name"] for column in inspect(connection).get_columns("meta")}
        if {"key", "value"} <= columns:
            version = connection.scalar(select(meta.c.value).where(meta.c.key == _VERSION_KEY))
    if version is None or not str(version).isdecimal():
        raise LedgerError("is a database of another program, not a ledger; name another one with --ledger.")
    return int(version)


def check_version(version: int) -> None:
    """Raise `LedgerError` if the tables are newer than this version of Beholder can read."""
    if version > newest_version():
        raise LedgerError(
            f"was written by a newer Beholder (its tables are of version {version}, this one knows "
            f"{newest_version()}); upgrade Beholder, or name another ledger with --ledger."
        )


def migrate(connection: Connection) -> None:
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
        connection.execute(update(meta).where(meta.c.key == _VERSION_KEY).values(value=str(newest_version())))
