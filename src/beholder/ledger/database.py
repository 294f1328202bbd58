"""Where a ledger is (a path, `sqlite:///path` or `postgresql://user:password@host/database`), and opening it."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine

from beholder.errors import LedgerError
from beholder.ledger import sqlite

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
    text = os.fspath(where if where is not None else os.environ.get(LEDGER_VARIABLE, "").strip() or DEFAULT_FILE)
    if not text.strip():
        raise LedgerError("The ledger has no name; name a file or a PostgreSQL database with --ledger.")
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
        "addresses; name another one with --ledger."
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

    def writer_engine(self, engine: Engine) -> Engine: ...

    def check_write_access(self, connection: Connection) -> None: ...

    def check_pages(self, connection: Connection) -> list[str]: ...

    def size(self, connection: Connection) -> int: ...

    def shrink(self, engine: Engine) -> None: ...


@dataclass(frozen=True, slots=True)
class Database:
    """An open database. `place` is for messages, `address` has the password, `path` is `None` for PostgreSQL."""

    backend: DatabaseBackend
    engine: Engine
    place: str
    address: str = field(repr=False)
    path: Path | None


def open_database(where: str, *, create: bool, read_only: bool, timeout_s: float) -> Database:
    """Open the database at an address of `resolve_address`. Raises `LedgerError`."""
    if is_postgresql(where):
        from beholder.ledger import postgres

        engine, shown = postgres.open_engine(where, read_only=read_only, timeout_s=timeout_s)
        return Database(postgres, engine, shown, where, None)
    path = sqlite.check_path(where, create=create)
    engine = sqlite.open_engine(path, create=create, read_only=read_only, timeout_s=timeout_s)
    return Database(sqlite, engine, str(path), str(path), path)
