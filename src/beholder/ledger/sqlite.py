"""The SQLite backend: opening a file, its pragmas, its errors as sentences, checking and shrinking.

The file is in WAL mode with `synchronous=FULL`: a batch that was written is on the disk before `write` returns, so it
survives kill -9 and a power cut (as far as the disk honors fsync). Readers never wait for a writer, and writers wait
for each other up to the timeout.
"""

from __future__ import annotations

import difflib
import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from beholder.errors import LedgerError

# Room on the disk for all verdicts that are under way, with thumbnails, in the log and in the file.
MIN_FREE_BYTES = 16 * 1024 * 1024

_BEGIN_OPTION = "beholder_begin"  # the execution option with the statement that begins a transaction

# By the start of SQLite's name for the error; the longest match counts.
_ERROR_SENTENCES = {
    "SQLITE_BUSY": "is locked by another program; wait until that is done, or close it, and try again.",
    "SQLITE_LOCKED": "is locked by another program; wait until that is done, or close it, and try again.",
    "SQLITE_READONLY": "may not be written (it or its folder is read-only); name another one (--ledger or ledger=).",
    "SQLITE_FULL": "cannot be written: the disk is full. Make room and start again; what was written is safe.",
    "SQLITE_IOERR_WRITE": "cannot be written: the disk is full or failing. What was written before is safe.",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error.",
    "SQLITE_NOTADB": "is not a ledger, and not a database at all; name another file (--ledger or ledger=).",
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
            raise LedgerError(f"There is no ledger at {str(path)!r}; {_suggest_ledger(path)}") from None
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


def check_single_name(path: Path) -> None:
    """Raise `LedgerError` for a file with several names.

    SQLite keeps recent changes beside each name, so that who opens another name does not see and overwrites them.
    """
    with suppress(FileNotFoundError):
        if path.stat().st_nlink > 1:
            raise LedgerError(
                f"The ledger {str(path)!r} has another name (a hard link), under which it would be damaged; remove the "
                "other name, or copy the file and name the copy (--ledger or ledger=). A symbolic link is fine."
            )


def _suggest_ledger(path: Path) -> str:
    """Return what to do where there is no ledger: the most similar name of a ledger in the same folder, if any."""
    with suppress(OSError):
        names = sorted(file.name for file in path.parent.glob("*.db"))
        if near := difflib.get_close_matches(path.name, names, n=1):
            return f"did you mean {str(path.with_name(near[0]))!r}?"
        if names:
            return f"there is {', '.join(map(repr, names[:5]))} beside it. Name one (--ledger or ledger=)."
    return "name one (--ledger or ledger=)."


class LedgerFile:
    """The file of an open ledger. It is known by device and inode, from `remember` on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = path.absolute()  # the working folder may change
        self._folder = os.path.dirname(self._place)
        self._identity: os.stat_result | None = None

    def remember(self) -> None:
        """Remember which file is open."""
        self._identity = self._place.stat()

    @property
    def is_displaced(self) -> bool:
        """Whether the open file is no longer where it was: moved, deleted, or another one took its place."""
        try:
            return self._identity is not None and not os.path.samestat(os.stat(self._place), self._identity)
        except OSError:
            return True

    def find_problem(self) -> str:
        """Return in a sentence why nothing more may be paid for, or nothing. Takes microseconds."""
        if self.is_displaced:
            return f"The ledger {str(self.path)!r} was moved or deleted while it was in use, so nothing more is asked."
        try:
            free = shutil.disk_usage(self._folder).free
        except OSError:  # a file system that does not say, or one that is just being removed
            return ""
        if free < MIN_FREE_BYTES:
            return (
                f"The ledger {str(self.path)!r} has {free / 1e6:.1f} MB left on its disk, too little for more verdicts "
                f"(less than {MIN_FREE_BYTES / 1e6:.0f} MB). Make room and start again; what was written is safe."
            )
        return ""

    def save_displaced(self, engine: Engine) -> str:
        """Save what a displaced file contains beside its place, and return in a sentence where; nothing if it is there.

        It is still open, whatever became of its name.
        """
        if not self.is_displaced:
            return ""
        name = f"{self.path.stem}.saved-{os.getpid()}{self.path.suffix}"
        for folder in (self._place.parent, Path.cwd(), Path(tempfile.gettempdir())):
            with suppress(sqlite3.Error, OSError):
                with closing(sqlite3.connect(folder / name)) as target, closing(engine.raw_connection()) as source:
                    driver: sqlite3.Connection = source.driver_connection  # type: ignore[assignment]
                    driver.backup(target)
                return (
                    f" All that was paid for is in {str(folder / name)!r}: put it in the old place, or name it "
                    "(--ledger or ledger=), and start again."
                )
        return " What it contained could not be saved."


def open_engine(file: LedgerFile, *, create: bool, read_only: bool, timeout_s: float) -> Engine:
    """Return an engine for the file. A connection may be used from any thread, by one at a time."""
    path = file.path
    engine = _build_engine(file, "mode=rwc" if create else "mode=rw", read_only, timeout_s)
    with translate_errors(path):
        if not read_only:
            _enable_wal(engine, timeout_s)
            file.remember()
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
            engine = _build_engine(file, "mode=ro&immutable=1", True, timeout_s)
            _probe(engine)
    return engine


def writer_engine(engine: Engine) -> Engine:
    """Return the engine for write transactions: they take the lock when they begin, so that none fails half-way because
    another process wrote in between."""
    return engine.execution_options(**{_BEGIN_OPTION: "BEGIN IMMEDIATE"})


unlocked_writer_engine = writer_engine  # SQLite has one writer at a time in any case


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
        if str(cause).startswith(("no such table", "no such column", "malformed")):  # `meta` says that they are there
            raise LedgerError(f"The ledger {str(place)!r} is damaged ({cause}).") from None
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
    without_run = [f"{_name_row(table, number)} belongs to no run" for table, number, *_ in orphans]
    return [line for line in problems if line != "ok"] + without_run


def _name_row(table: str, number: int | None) -> str:
    return f"a row of {table}" if number is None else f"row {number} of {table}"


def shrink(engine: Engine) -> None:
    """Return the space of deleted rows to the disk, and truncate the log."""
    connection = engine.raw_connection()
    try:
        cursor = connection.cursor()
        cursor.executescript("PRAGMA incremental_vacuum")  # `execute` would take only the first of its steps
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.close()


def _build_engine(file: LedgerFile, mode: str, read_only: bool, timeout_s: float) -> Engine:
    address = f"{file.path.absolute().as_uri()}?{mode}"

    def connect() -> sqlite3.Connection:
        if file.is_displaced:  # one more connection would be to another file
            raise LedgerError(file.find_problem())
        made = sqlite3.connect(address, uri=True, timeout=timeout_s, isolation_level=None, check_same_thread=False)
        # One damaged text must not end a whole query. Costs 0.4 µs for each text.
        made.text_factory = partial(str, encoding="utf-8", errors="replace")
        return made

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
