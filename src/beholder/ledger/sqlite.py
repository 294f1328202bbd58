"""The SQLite backend: opening a file, its pragmas, its errors as sentences, checking and shrinking.

The file is in WAL mode with `synchronous=FULL`: a batch that was written is on the disk before `write` returns, so it
survives kill -9 and a power cut (as far as the disk honors fsync). Readers never wait for a writer, and writers wait
for each other up to the timeout.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from beholder.errors import LedgerError

_BEGIN_OPTION = "beholder_begin"  # the execution option with the statement that begins a transaction

# By the start of SQLite's name for the error; the longest match counts.
_ERROR_SENTENCES = {
    "SQLITE_BUSY": "is locked by another program; wait until that is done, or close it, and try again.",
    "SQLITE_LOCKED": "is locked by another program; wait until that is done, or close it, and try again.",
    "SQLITE_READONLY": "may not be written (it or its folder is read-only); name another one with --ledger.",
    "SQLITE_FULL": "cannot be written: the disk is full. Make room and start again; what was written is safe.",
    "SQLITE_IOERR_WRITE": "cannot be written: the disk is full or failing. What was written before is safe.",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error.",
    "SQLITE_NOTADB": "is not a ledger, and not a database at all; name another file with --ledger.",
    "SQLITE_CORRUPT": "is damaged; `beholder doctor` says how much of it is sound.",
    "SQLITE_CANTOPEN": "cannot be opened; look at its folder and its permissions.",
    "SQLITE_PERM": "may not be opened: permission denied.",
    "SQLITE_AUTH": "may not be opened: permission denied.",
    "SQLITE_NOLFS": "is too large for this file system.",
    "SQLITE_TOOBIG": "cannot hold a value that large (a gigabyte).",
}


def check_path(where: str | os.PathLike[str], *, create: bool) -> Path:
    """Return the path of a ledger, if the file system allows that there is one or can be. Raises `LedgerError`."""
    path = Path(where)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not create:
            raise LedgerError(f"There is no ledger at {str(path)!r}; name one with --ledger.") from None
        if not path.parent.is_dir():
            raise LedgerError(f"The ledger {str(path)!r} cannot be made: its folder does not exist.") from None
        return path
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "no file can have this name"
        raise LedgerError(f"The ledger {str(path)!r} cannot be opened: {reason}.") from None
    if stat.S_ISDIR(mode):
        raise LedgerError(f"The ledger {str(path)!r} is a folder; name a file in it, such as beholder.db.")
    if not stat.S_ISREG(mode):
        raise LedgerError(f"The ledger {str(path)!r} is not a file.")
    if not create and not path.stat().st_size:
        raise LedgerError(f"{str(path)!r} is an empty file and no ledger.")
    return path


def open_engine(path: Path, *, create: bool, read_only: bool, timeout_s: float) -> Engine:
    """Return an engine for the file. A connection may be used from any thread, by one at a time."""
    engine = _build_engine(path, "mode=rwc" if create else "mode=rw", read_only, timeout_s)
    with translate_errors(path):
        if not read_only:
            _enable_wal(engine, timeout_s)
            return engine
        try:
            _probe(engine)
        except sqlite3.OperationalError as error:
            engine.dispose()
            if not error.sqlite_errorname.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
                raise
            # SQLite creates files beside a database even to read it. Where it may not, no process with our rights can
            # write either, so the file can be read as immutable, unless its newest part is still in the log.
            log = Path(f"{path}-wal")
            if log.exists() and log.stat().st_size:
                raise LedgerError(
                    f"The ledger {str(path)!r} has unsaved changes in {log.name!r}, which cannot be read in a folder "
                    "that is read-only; copy both files elsewhere."
                ) from None
            engine = _build_engine(path, "mode=ro&immutable=1", True, timeout_s)
            _probe(engine)
    return engine


def writer_engine(engine: Engine) -> Engine:
    """Return the engine for write transactions: they take the lock when they begin, so that none fails half-way because
    another process wrote in between."""
    return engine.execution_options(**{_BEGIN_OPTION: "BEGIN IMMEDIATE"})


@contextmanager
def translate_errors(place: object) -> Iterator[None]:
    """Turn SQLite's errors into a `LedgerError` of one sentence; our own mistakes keep their traceback."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        name = getattr(cause, "sqlite_errorname", None) or ""
        for start in sorted(_ERROR_SENTENCES, key=len, reverse=True):
            if name.startswith(start):
                raise LedgerError(f"The ledger {str(place)!r} {_ERROR_SENTENCES[start]}") from None
        raise


def check_write_access(connection: Connection) -> None:
    """Do nothing: a write transaction raises when it begins."""


def size(connection: Connection) -> int:
    """Return the size of the file in bytes."""
    pages, each = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in ("page_count", "page_size")
    )
    return pages * each


def check_pages(connection: Connection) -> list[str]:
    """Return what SQLite itself finds wrong with the file, at most ten lines of each check."""
    problems = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(10)")]
    orphans = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(10)
    return [line for line in problems if line != "ok"] + [f"a row of {row[0]} belongs to no run" for row in orphans]


def shrink(engine: Engine) -> None:
    """Return the space of deleted rows to the disk, and truncate the log."""
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        cursor.executescript("PRAGMA incremental_vacuum")  # `execute` would take only the first of its steps
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.close()


def _build_engine(path: Path, mode: str, read_only: bool, timeout_s: float) -> Engine:
    address = f"{path.absolute().as_uri()}?{mode}"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(address, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False)

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)

    @event.listens_for(engine, "connect")
    def _set_up(connection: sqlite3.Connection, record: object) -> None:
        for pragma in ("synchronous=FULL", "foreign_keys=ON", "secure_delete=ON", f"query_only={int(read_only)}"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN_OPTION, "BEGIN"))

    return engine


def _probe(engine: Engine) -> None:
    """Read as little as possible, so that an unreadable file raises now."""
    connection = engine.raw_connection()
    try:
        connection.cursor().execute("SELECT count(*) FROM sqlite_master").fetchall()
    finally:
        connection.close()


def _enable_wal(engine: Engine, timeout_s: float) -> None:
    """Switch the file to WAL, once for its life. SQLite's busy timeout does not apply here, so we retry."""
    connection = engine.raw_connection()
    deadline = time.monotonic() + timeout_s
    try:
        cursor = connection.cursor()
        cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")  # has an effect only while the file is still empty
        while cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                if cursor.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
                    return  # a file system without shared memory: slower, and as safe
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
    finally:
        connection.close()
