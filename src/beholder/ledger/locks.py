"""Locks on runs that are under way and on answers that are being asked for. All of them end with their process.

A run in a SQLite file is locked by a byte of a file beside the ledger (`lock_run_file`); PostgreSQL has advisory locks
(`LedgerConnection.lock_run`).

Of all that use a ledger one asks for an answer, and the others wait for it (`AnswerLocks`). Such a lock is held from
the question until the answer is in the ledger. For a SQLite file it is a byte of a file in the folder for temporary
files; for PostgreSQL it is an advisory lock. Where neither is possible (on Windows, or if another user owns the file)
only the runs and sessions of one process wait for each other. A lock on an answer saves money and decides nothing:
whoever cannot lock it asks for it.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import threading
import time
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from beholder.errors import LedgerError

MAX_LOCKS = 256  # that one process holds: a server of PostgreSQL has room for some thousands in all
OPEN_TRIES, OPEN_PAUSE_S = 20, 0.001
LOCK_TRIES = 5
_LOCKED_ERRNOS = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)


class LockMode(Enum):
    """What `lock_file` does. On Windows no lock is shared."""

    EXCLUSIVE = auto()
    SHARED = auto()
    UNLOCK = auto()


def lock_file(handle: int, byte: int | None = None, mode: LockMode = LockMode.EXCLUSIVE) -> bool:
    """Lock or unlock a byte of an open file, or all of it, without waiting.

    Args:
        handle: The descriptor of the file.
        byte: The byte. Its lock belongs to this process, and closing any descriptor of the file ends it. Without a byte
            the whole file is locked, for this descriptor only.
        mode: What to do.

    Returns:
        False if another process, or without a byte another descriptor, has a lock that is in the way.

    Raises:
        OSError: The file cannot be locked at all.
    """
    try:
        try:
            fcntl = import_module("fcntl")
        except ImportError:  # Windows
            msvcrt = import_module("msvcrt")
            os.lseek(handle, byte or 0, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_UNLCK if mode is LockMode.UNLOCK else msvcrt.LK_NBLCK, 1)
            return True
        how = fcntl.LOCK_SH if mode is LockMode.SHARED else fcntl.LOCK_EX
        how = fcntl.LOCK_UN if mode is LockMode.UNLOCK else how | fcntl.LOCK_NB
        fcntl.flock(handle, how) if byte is None else fcntl.lockf(handle, how, 1, byte)
    except OSError as error:
        if error.errno not in _LOCKED_ERRNOS:
            raise
        return False
    return True


_locked_runs: set[tuple[int, int, int, int]] = set()  # this process, device and inode of the ledger, byte of the run
_run_lock_handles: dict[Path, int] = {}
_run_lock_guard = threading.Lock()


@contextmanager
def lock_run_file(ledger: Path, run_id: str) -> Iterator[bool]:
    """Lock the byte of a run in the file `NAME.lock` beside the ledger, wherever symbolic links to the ledger are.

    Yields whether that succeeded. The file is never removed: who had it open would lock another file than those who
    come later. Nor is it closed: that would end all locks that this process has on it.
    """
    path = ledger.resolve()
    identity = path.stat()
    byte = _run_byte(run_id)
    key = os.getpid(), identity.st_dev, identity.st_ino, byte
    with _run_lock_guard:
        handle = _open_run_lock(path.with_name(f"{path.name}.lock"), identity.st_mode)
        locked = key not in _locked_runs and _try_lock(handle, byte)  # else another thread has it
        if locked:
            _locked_runs.add(key)
    try:
        yield locked
    finally:
        if locked:
            with _run_lock_guard:
                _locked_runs.discard(key)
                lock_file(handle, byte, LockMode.UNLOCK)


def is_run_file_locked(ledger: Path, run_id: str) -> bool:
    """Return whether some process has the lock of a run (see `lock_run_file`); also if that cannot be told.

    Nothing is created. For a moment nobody else can lock the run: `lock_run_file` tries more than once.
    """
    path = ledger.resolve()
    lock = path.with_name(f"{path.name}.lock")
    byte = _run_byte(run_id)
    with _run_lock_guard:
        try:
            identity = path.stat()
            if (os.getpid(), identity.st_dev, identity.st_ino, byte) in _locked_runs:
                return True  # asking would change the lock that this process has
            if not lock.exists():
                return False
            handle = _open_run_lock(lock, identity.st_mode)
            if not lock_file(handle, byte, LockMode.SHARED):
                return True
            lock_file(handle, byte, LockMode.UNLOCK)
        except (OSError, LedgerError):  # another user's
            return True
    return False


def _run_byte(run_id: str) -> int:
    return zlib.crc32(run_id.encode()) >> 2  # below 2³⁰, as Windows needs it


def _try_lock(handle: int, byte: int) -> bool:
    """Lock a byte, in spite of processes that ask just now whether it is locked."""
    for _ in range(LOCK_TRIES):
        if lock_file(handle, byte):
            return True
        time.sleep(OPEN_PAUSE_S)
    return False


def _open_run_lock(path: Path, mode: int) -> int:
    """Return a descriptor of the lock file, which whoever may write the ledger may open. Raises `LedgerError`."""
    if (handle := _run_lock_handles.get(path)) is None or not _is_file_at(path, handle):  # somebody removed it
        try:
            handle = _run_lock_handles[path] = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            reason = error.strerror or str(error)
            raise LedgerError(f"The lock {str(path)!r} of the ledger cannot be opened: {reason}.") from None
        with suppress(OSError):  # another user's
            path.chmod(stat.S_IMODE(mode))
    return handle


def _is_file_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


class _NumberLocks(Protocol):
    """Locks by number, among all processes. `has_others` is whether another process, or run of this one, may lock."""

    def try_lock(self, number: int) -> bool: ...

    def unlock(self, number: int) -> None: ...

    def has_others(self) -> bool: ...

    def close(self) -> None: ...


class AnswerLocks:
    """The locks of one run or session, by the ids of answer keys (`encoding.key_id`). May be used from any thread."""

    def __init__(self, path: Path | None, engine: Engine) -> None:
        self._locks: _NumberLocks = _AdvisoryLocks(engine) if path is None else _open_byte_locks(path)
        self._held: set[bytes] = set()
        self._guard = threading.Lock()

    def lock(self, ids: Collection[bytes]) -> bool:
        """Lock all of these, or none. Returns whether they are locked.

        Nobody waits for one lock while it holds another, so that no two can wait for each other.
        """
        with self._guard:
            if not self._held.isdisjoint(ids):
                return False
            if len(self._held) + len(ids) > MAX_LOCKS:
                return True
            locked: list[bytes] = []
            for id_ in set(ids):
                if not self._locks.try_lock(_to_number(id_)):
                    for other in locked:
                        self._locks.unlock(_to_number(other))
                    return False
                locked.append(id_)
            self._held.update(locked)
            return True

    def unlock(self, ids: Collection[bytes]) -> None:
        """Unlock those of these that are locked."""
        with self._guard:
            for id_ in self._held.intersection(ids):
                self._held.discard(id_)
                self._locks.unlock(_to_number(id_))

    def has_others(self) -> bool:
        """Return whether somebody else may have asked for answers since the last look into the ledger."""
        with self._guard:
            return self._locks.has_others()

    def close(self) -> None:
        self.unlock(set(self._held))
        with self._guard:
            self._locks.close()


def _to_number(id_: bytes) -> int:
    return (int.from_bytes(id_[:8], "big") >> 2) + 1  # byte 0 of the file is for those that use it


class _AdvisoryLocks:
    """Advisory locks of PostgreSQL, held by a connection of their own. Without a server everything can be locked."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def try_lock(self, number: int) -> bool:
        return self._call(func.pg_try_advisory_lock, number)

    def unlock(self, number: int) -> None:
        self._call(func.pg_advisory_unlock, number)

    def has_others(self) -> bool:
        return True

    def close(self) -> None:
        if self._connection is not None:
            with suppress(SQLAlchemyError):
                self._connection.invalidate()  # closes the connection, which ends the locks
            self._connection = None

    def _call(self, function: Any, number: int) -> bool:
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
            done = self._connection.scalar(select(function(number)))
            self._connection.commit()
        except Exception:  # whatever it is, the run does not depend on it, and its next write says what is wrong
            self.close()
            return True
        return bool(done)


class _ByteLocks:
    """Bytes of a file, for all runs and sessions of this process that use one ledger.

    The system knows such a lock by its process, and ends all locks of a process when it closes the file once: so there
    is one of these for each file and process, in `_open_files`.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.users = 0
        self._numbers: set[int] = set()
        self._handle = -1
        with suppress(ImportError, OSError):
            if path is not None:
                import_module("fcntl")  # Windows has none, and no shared locks
                self._handle = self._open(path)

    def try_lock(self, number: int) -> bool:
        with _registry_guard:
            if number in self._numbers:
                return False
            if self._handle >= 0 and not self._lock(number):
                return False
            self._numbers.add(number)
            return True

    def unlock(self, number: int) -> None:
        with _registry_guard:
            self._numbers.discard(number)
            if self._handle >= 0:
                self._lock(number, LockMode.UNLOCK)

    def has_others(self) -> bool:
        with _registry_guard:
            return self.users > 1 or (self._handle >= 0 and not self._is_only_process())

    def close(self) -> None:
        with _registry_guard:
            self.users -= 1
            if self.users:
                return
            _open_files.pop(self.path, None)
            if self._handle >= 0:
                if self.path is not None and self._lock(0):
                    self.path.unlink(missing_ok=True)
                os.close(self._handle)
                self._handle = -1

    def _open(self, path: Path) -> int:
        """Open the file and lock byte 0 together with all others that use it; whoever is last deletes the file.

        Returns:
            -1 if another user owns it, or a process holds byte 0 for itself for longer than a moment: it was stopped.
        """
        for _ in range(OPEN_TRIES):
            handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            is_ours = os.fstat(handle).st_uid == os.getuid()
            if lock_file(handle, 0, LockMode.SHARED) and is_ours and _is_file_at(path, handle):
                return handle
            os.close(handle)
            time.sleep(OPEN_PAUSE_S)
        return -1

    def _is_only_process(self) -> bool:
        if not self._lock(0):
            return False
        self._lock(0, LockMode.SHARED)
        return True

    def _lock(self, number: int, mode: LockMode = LockMode.EXCLUSIVE) -> bool:
        try:
            return lock_file(self._handle, number, mode)
        except OSError:  # a file system without locks: nobody has one
            return True


_open_files: dict[Path | None, _ByteLocks] = {}
_registry_guard = threading.Lock()


def _forget_locks() -> None:
    """A forked child has none of its parent's locks, and its other threads, which may have had the guard, are gone."""
    global _registry_guard, _run_lock_guard
    _registry_guard, _run_lock_guard = threading.Lock(), threading.Lock()
    _open_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


def _open_byte_locks(ledger: Path) -> _ByteLocks:
    """Return the locks for a ledger file, whatever path leads to it."""
    try:
        status = ledger.stat()
        user = os.getuid() if hasattr(os, "getuid") else 0
        name = f"beholder-asking-{user}-{status.st_dev:x}-{status.st_ino:x}"
        path: Path | None = Path(tempfile.gettempdir()) / name
    except OSError:
        path = None
    with _registry_guard:
        if path not in _open_files:
            _open_files[path] = _ByteLocks(path)
        _open_files[path].users += 1
        return _open_files[path]
