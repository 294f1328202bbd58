"""Where a ledger is: a path, `sqlite:///path`, or `postgresql://user:password@host/database`."""

from __future__ import annotations

import os

from beholder.errors import LedgerError

VARIABLE = "BEHOLDER_LEDGER"
USUAL = "beholder.db"

_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")


def place(where: str | os.PathLike[str] | None = None) -> str:
    """The ledger that `where` names; without one `BEHOLDER_LEDGER` does, else it is `beholder.db`. A file is given as
    its path, a database as its URL, password included: what may be shown of it is `Ledger.place`."""
    text = os.fspath(where if where is not None else os.environ.get(VARIABLE, "").strip() or USUAL)
    if not text.strip():
        raise LedgerError("The ledger has no name; name a file or a PostgreSQL database with --ledger.")
    scheme, found, rest = text.partition("://")
    if not found and text.startswith(tuple(f"{name}:/" for name in _POSTGRESQL)):  # as `Path` leaves an address
        raise LedgerError("The address of the ledger has lost a slash: it begins with postgresql://, and is no path.")
    if not found or in_postgresql(text):
        return text
    if scheme == "sqlite":
        return rest.removeprefix("/")  # as SQLAlchemy writes them: sqlite:///relative, sqlite:////absolute
    raise LedgerError(
        f"A ledger is a file, or a PostgreSQL database at postgresql://user@host/database, and not at {scheme}:// "
        "addresses; name another one with --ledger."
    )


def in_postgresql(where: str) -> bool:
    """Whether a place is a PostgreSQL database; any other is a file."""
    return where.partition("://")[0] in _POSTGRESQL and "://" in where


def exists_at(where: str | os.PathLike[str] | None) -> bool:
    """Whether there is a ledger where `Ledger.open` would look for it. Raises `LedgerError` for a database that cannot
    be asked."""
    found = place(where)
    if not in_postgresql(found):
        return os.path.exists(found)
    from beholder.ledger import postgres

    return postgres.holds_tables(found)
