"""Which version of the tables a file has, and the steps that bring an older one up to date.

A new file gets the tables as `tables` states them. A change there comes with a step here, which does the same to a
file of the version before; steps are never changed once they were released, and use no table from `tables`, which
moves on. `tests/ledger/version-1.sql` is the oldest file there is: a test brings it up and compares.
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
    """Grade, passed and facets of a verdict stand beside its body, where lists are filtered and sorted by them."""
    for column in ("grade TEXT", "passed BOOLEAN", "facets TEXT"):
        connection.execute(text(f"ALTER TABLE verdicts ADD COLUMN {column}"))
    page = text("SELECT number, case_id, body FROM verdicts WHERE number > :last ORDER BY number LIMIT :most")
    change = text("UPDATE verdicts SET grade = :grade, passed = :passed, facets = :facets WHERE number = :number")
    last = 0
    while rows := connection.execute(page, {"last": last, "most": _PAGE_SIZE}).all():
        told = [(row.number, unpack_verdict(row.body, f"the verdict on {row.case_id!r}")) for row in rows]
        connection.execute(
            change,
            [
                {
                    "number": number,
                    "grade": None if one.grade is None else storable_text(one.grade),
                    "passed": one.passed,
                    "facets": encode_facets(one),
                }
                for number, one in told
            ],
        )
        last = rows[-1].number
    connection.execute(text("DROP INDEX verdicts_in_order"))
    columns = "run, position, number, outcome, score, grade, passed, facets"
    connection.execute(text(f"CREATE INDEX verdicts_in_order ON verdicts ({columns})"))


def _add_worker_and_batch_tables(connection: Connection) -> None:
    """Tables for several processes on one run, and for what providers answer in their own time."""
    then = MetaData()
    Table("runs", then, Column("number", BigNumber, primary_key=True))

    def run(*, key: bool) -> Column[int]:
        return Column(
            "run", BigNumber, ForeignKey("runs.number"), primary_key=key, nullable=False, index=not key or None
        )

    def words(*names: str) -> list[Column[str]]:
        return [Column(name, ByteOrderedText, nullable=False) for name in names]

    new = [
        Table(
            "workers",
            then,
            run(key=True),
            Column("holder", ByteOrderedText, primary_key=True),
            Column("since", Float, nullable=False),
            Column("until", Float, nullable=False),
            Column("part", Float, nullable=False),
            *words("allowance_usd", "written"),
            sqlite_with_rowid=False,
        ),
        Table(
            "leases",
            then,
            run(key=True),
            *(Column(name, ByteOrderedText, primary_key=True) for name in ("case_id", "rubric")),
            *words("holder"),
            Column("done", Float),
            sqlite_with_rowid=False,
        ),
        Table(
            "jobs",
            then,
            Column("number", BigNumber, primary_key=True),
            run(key=False),
            *words("judge", "state", "handle", "reserved_usd", "created"),
            Column("body", LargeBinary, nullable=False),
        ),
        Table(
            "replies",
            then,
            run(key=True),
            Column("key", LargeBinary, primary_key=True),
            Column("body", LargeBinary, nullable=False),
            sqlite_with_rowid=False,
        ),
    ]
    then.create_all(connection, tables=new)


# The first one takes a file from version 1 to version 2, and so on.
MIGRATIONS: Sequence[Migration] = (_add_facets, _add_worker_and_batch_tables)


def newest_version(steps: Sequence[Migration] = MIGRATIONS) -> int:
    return 1 + len(steps)


def read_version(connection: Connection) -> int:
    """The version of the file; 0 where there is nothing in it yet. Raises `LedgerError` for a file of others."""
    names = inspect(connection).get_table_names()
    if not names:
        return 0
    found = None
    if "meta" in names:
        columns = {column["name"] for column in inspect(connection).get_columns("meta")}
        if {"key", "value"} <= columns:
            found = connection.scalar(select(meta.c.value).where(meta.c.key == _VERSION_KEY))
    if found is None or not str(found).isdecimal():
        raise LedgerError("is a database of another program, not a ledger; name another one with --ledger.")
    return int(found)


def check_version(found: int, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Refuses what this version of Beholder cannot read."""
    if found > newest_version(steps):
        raise LedgerError(
            f"was written by a newer Beholder (its tables are of version {found}, this one knows {newest_version(steps)}); "
            "upgrade Beholder, or name another ledger with --ledger."
        )


def migrate(connection: Connection, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Makes the tables, or brings them up to date, inside the transaction of `connection`: all of it or nothing."""
    found = read_version(connection)
    check_version(found, steps)
    if found == 0:
        metadata.create_all(connection)
        connection.execute(meta.insert().values(key=_VERSION_KEY, value=str(newest_version(steps))))
        return
    for step in steps[found - 1 :]:
        step(connection)
    if found < newest_version(steps):
        connection.execute(update(meta).where(meta.c.key == _VERSION_KEY).values(value=str(newest_version(steps))))
