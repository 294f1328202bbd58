"""Opening the database of a ledger, whichever of the two it is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine

from beholder.ledger import sqlite
from beholder.ledger.places import in_postgresql


class Kind(Protocol):
    """What a kind of database does in its own way: the modules `sqlite` and `postgres`."""

    def told(self, where: object) -> AbstractContextManager[None]: ...

    def writing(self, engine: Engine) -> Engine: ...

    def may_write(self, connection: Connection) -> None: ...

    def check_pages(self, connection: Connection) -> list[str]: ...

    def size(self, connection: Connection) -> int: ...

    def shrink(self, engine: Engine) -> None: ...


@dataclass(frozen=True, slots=True)
class Database:
    """An open database: `place` may be shown, `address` may not, `path` is there where it is a file."""

    kind: Kind
    engine: Engine
    place: str
    address: str = field(repr=False)
    path: Path | None


def opened(where: str, *, create: bool, read_only: bool, timeout_s: float) -> Database:
    """The database at a place (`places.place`). Raises `LedgerError`."""
    if in_postgresql(where):
        from beholder.ledger import postgres

        engine, shown = postgres.open_engine(where, read_only=read_only, timeout_s=timeout_s)
        return Database(postgres, engine, shown, where, None)
    path = sqlite.checked_path(where, create=create)
    engine = sqlite.open_engine(path, create=create, read_only=read_only, timeout_s=timeout_s)
    return Database(sqlite, engine, str(path), str(path), path)
