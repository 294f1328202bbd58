"""An open ledger: opening it, upgrading its tables, its transactions, and the state of its file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import Connection, column, func, select, table, text

from beholder.errors import LedgerError
from beholder.ledger import schema
from beholder.ledger.damage import find_wrong_values, log_damage, take_noticed
from beholder.ledger.database import (
    Database,
    check_version,
    migrate,
    newest_version,
    open_database,
    read_version,
    resolve_address,
)
from beholder.ledger.locks import is_run_file_locked, lock_run_file
from beholder.ledger.runs import find_run

if TYPE_CHECKING:
    from types import TracebackType


TIMEOUT_S = 30.0

_RUN_LOCK = 0x6265  # first number of PostgreSQL's advisory locks on runs, to tell them from those of other programs

P = ParamSpec("P")
T = TypeVar("T")


class LedgerConnection:
    """The connection of a `Ledger`: what opens it, and the transactions in which its methods work.

    Every problem with the file or the server is a `LedgerError` of one sentence.
    """

    place: str
    """Where the ledger is, without a password: for messages."""
    path: Path | None
    """The file, or `None` for PostgreSQL."""
    shared: bool
    """Whether several processes may work on one run at the same time (PostgreSQL)."""

    read_only = False
    """Whether nothing may be written to it."""

    address: str
    """Where the ledger is, as `open` takes it: with the password, so never show it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.place, self.address = database.place, database.address
        self.path = None if database.file is None else database.file.path
        self.shared = self.path is None
        self._backend = database.backend
        self._engine = database.engine
        self._writer = database.backend.writer_engine(database.engine)
        self._damaged_columns: set[tuple[str, str]] = set()  # those that were logged

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str] | None = None,
        *,
        create: bool = False,
        read_only: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> Self:
        """Open a ledger, and upgrade its tables if they are of an older version.

        Args:
            where: A path, `sqlite:///path` or `postgresql://user@host/database`. By default the value of
                `BEHOLDER_LEDGER`, else `beholder.db`.
            create: Create the ledger if there is none; without it a wrong name is an error, and leaves no file behind.
            read_only: Never create the ledger, and never write to it except to upgrade its tables.
            timeout_s: How long a write waits for another process; twice that where it had to terminate a process that
                had stalled.

        Raises:
            LedgerError: The ledger does not exist, cannot be opened, or was written by a newer Beholder.
        """
        create = create and not read_only
        ledger = cls(open_database(resolve_address(where), create=create, read_only=read_only, timeout_s=timeout_s))
        ledger.read_only = read_only
        try:
            outdated = ledger._upgrade(create, read_only)
        except BaseException:
            ledger.close()
            raise
        if outdated:
            ledger.close()
            cls.open(ledger.address, timeout_s=timeout_s).close()
            return cls.open(ledger.address, read_only=True, timeout_s=timeout_s)
        return ledger

    def __repr__(self) -> str:
        return f"<Ledger {self.place}>"  # the address may hold a password

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A read transaction."""
        with self._backend.translate_errors(self.place), self._engine.begin() as connection:
            yield connection
            if new := take_noticed() - self._damaged_columns:
                self._damaged_columns |= new
                columns = (schema.metadata.tables[table].c[column] for table, column in sorted(new))
                for sentence in find_wrong_values(connection, columns):
                    log_damage(sentence)

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A write transaction, one at a time over all processes. It is rolled back when the block raises."""
        with self._backend.translate_errors(self.place), self._writer.begin() as connection:
            yield connection

    def _run_number(self, connection: Connection, run: str) -> int:
        """Return `runs.number` of a run, the key of its rows in the other tables."""
        return int(find_run(connection, run, self.place).number)

    def _find_number(self, run: str) -> int:
        with self._reading() as connection:
            return self._run_number(connection, run)

    def _read(
        self, work: Callable[Concatenate[Connection, int, P], T], run: str, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call `work` with a connection and the number of a run, in a read transaction."""
        with self._reading() as connection:
            return work(connection, self._run_number(connection, run), *args, **kwargs)

    def _write(
        self, work: Callable[Concatenate[Connection, int, P], T], run: str, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call `work` with a connection and the number of a run, in a write transaction."""
        with self._writing() as connection:
            return work(connection, self._run_number(connection, run), *args, **kwargs)

    @contextmanager
    def lock_run(self, run: str, *, alone: bool) -> Iterator[bool]:
        """Try to lock a run for this process until the end of the context, and yield whether that succeeded.

        The lock also ends with the process. On a file it is always an exclusive one.

        Args:
            run: The id of the run.
            alone: An exclusive lock; otherwise one that is shared with other processes that did not ask for it alone.
        """
        if self.path is not None:
            with lock_run_file(self.path, run) as mine:
                yield mine
            return
        with self._backend.translate_errors(self.place), self._engine.connect() as connection:
            number = self._run_number(connection, run)
            lock = func.pg_try_advisory_lock if alone else func.pg_try_advisory_lock_shared
            locked = connection.scalar(select(lock(_RUN_LOCK, number)))
            connection.commit()
            try:
                yield bool(locked)
            finally:
                connection.invalidate()  # closes the connection, which releases the lock

    # The file of a ledger

    def is_run_locked(self, run: str) -> bool:
        """Return whether some process, this one too, has locked a run; see `lock_run`."""
        if self.path is not None:
            return is_run_file_locked(self.path, run)
        with self._reading() as connection:
            number = self._run_number(connection, run)
            locks = column("objid") == number, column("classid") == _RUN_LOCK, column("locktype") == "advisory"
            here = text("database = (SELECT oid FROM pg_database WHERE datname = current_database())")
            return bool(connection.scalar(select(func.count()).select_from(table("pg_locks")).where(*locks, here)))

    def find_file_problem(self) -> str:
        """Return in a sentence why nothing more may be paid for, or nothing: the file was moved or deleted, or its disk
        is nearly full. Quick enough to be called before each case."""
        return self.database.file.find_problem() if self.database.file else ""

    @property
    def is_displaced(self) -> bool:
        """Whether the file was moved or deleted since it was opened."""
        return self.database.file is not None and self.database.file.is_displaced

    def save_displaced(self) -> str:
        """Save the contents of a file that was moved or deleted beside its place, and return in a sentence where."""
        return self.database.file.save_displaced(self._engine) if self.database.file else ""

    def size(self) -> int:
        """Return the size in bytes, as the database counts it."""
        with self._reading() as connection:
            return self._backend.size(connection)

    def _upgrade(self, create: bool, read_only: bool) -> bool:
        """Create or upgrade the tables; with `read_only`, return whether they are of an older version instead."""
        try:
            with self._reading() as connection:
                version = read_version(connection)
                check_version(version)
            if not version and not create and self.path is None:
                raise LedgerError(f"There is no ledger at {self.place!r}; name one (--ledger or ledger=).")
            if read_only:
                return version < newest_version()
            # Also when there is nothing to upgrade: missing write access must show before anything is paid for.
            with self._writing() as connection:
                migrate(connection)
                self._backend.check_write_access(connection)
            return False
        except LedgerError as error:
            sentence = str(error)
            if sentence.startswith(("The ledger", "There is no ledger")):
                raise
            raise LedgerError(f"The ledger {self.place!r} {sentence}") from None
