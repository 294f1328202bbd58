"""The PostgreSQL backend: opening a database, its transactions, its errors as sentences.

A write transaction first takes one lock for the whole ledger (`pg_advisory_xact_lock`): there is one writer at a time,
as in a SQLite file: answers are numbered in the order in which they become visible, and writers cannot deadlock. Only a
worker that renews its leases does without it.
Readers never wait, and see one snapshot of the ledger for as long as their transaction lasts. A batch that was written
is on the server's disk before `write` returns (if `synchronous_commit` is on, the default).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from beholder.errors import LedgerError, LedgerGone, SetupError
from beholder.ledger import schema

if TYPE_CHECKING:
    import psycopg


MIN_SERVER_VERSION = 12  # the oldest release that was supported when this was written is 13

_WRITE_LOCK = 0x6265686F6C646572  # "beholder"; one for each database
_WRITE_OPTION = "beholder_writes"  # the execution option of a write transaction: `_WITH_LOCK` or `_WITHOUT_LOCK`
_WITH_LOCK, _WITHOUT_LOCK = "with lock", "without lock"

# A server that does not answer is noticed after seconds, not after the minutes that TCP would take. Settings in the URL
# take precedence.
_TIMEOUTS = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
}
# A process that stalls in a write transaction (a closed laptop) must not block the others. Between two statements the
# server's own timeout ends it; in the middle of one, whoever waits for the lock does.
_IDLE_TIMEOUT_S = 10  # less than others wait for the lock
_TERMINATE_STALLED = """
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND (classid::bigint << 32) + objid::bigint = %s AND datname = current_database() AND usename = current_user
    AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - make_interval(secs => %s)
"""

_READ_ONLY = "may not be written (the server or its user is read-only); name another one (--ledger or ledger=)."
_LOCKED = "is locked by another program; wait until that is done, or close it, and try again."

# By the start of SQLSTATE; the longest match counts. https://www.postgresql.org/docs/current/errcodes-appendix.html
_ERROR_SENTENCES = {
    "25006": _READ_ONLY,
    "3F000": "has no schema to keep its tables in; make the one that the search_path names.",
    "42501": "may not be used so: its user lacks the right to. Grant it, or name another ledger (--ledger or ledger=).",
    "42P01": "is damaged: one of its tables is missing.",
    "53100": "cannot be written: the server's disk is full. Make room and start again; what was written is safe.",
    "53200": "cannot be used: the server is out of memory.",
    "54000": "cannot hold a name that long; the id of a case may have about 2,600 bytes in PostgreSQL.",
    "57014": "took too long to answer, and the server gave up (statement_timeout).",
    "58": "cannot be read or written: the server's disk reports an error.",
    "XX": "is damaged, as far as the server can tell; look into its log.",
}
_LOCK_TIMEOUT_STATE = "55P03"
_GONE_STATES = ("08", "25P03", "53300", "57P01", "57P02", "57P03", "57P05")
# In the server's message when it refuses a connection, for which psycopg has no SQLSTATE.
_GONE_WORDS = (
    "starting up",
    "not yet accepting connections",
    "shutting down",
    "in recovery mode",
    "too many clients",
    "connection slots",
)
_REFUSED_WORDS = ("FATAL:", "password", "authentication", "SSL")


def open_engine(where: str, *, read_only: bool, timeout_s: float) -> tuple[Engine, str]:
    """Return an engine for the database, and its address without the password.

    Raises:
        LedgerError: The URL cannot be read, or the server cannot be used.
    """
    url = _parse_url(where)
    place = _without_password(url)
    engine = _build_engine(url, read_only=read_only, timeout_s=timeout_s)
    try:
        with translate_errors(place), engine.connect() as connection:
            version = int((connection.dialect.server_version_info or (0,))[0])
        if version < MIN_SERVER_VERSION:
            raise LedgerError(
                f"The ledger {place!r} is on PostgreSQL {version}; {MIN_SERVER_VERSION} or newer is needed."
            )
    except BaseException:
        engine.dispose()
        raise
    return engine, place


def writer_engine(engine: Engine) -> Engine:
    """Return the engine for write transactions."""
    return engine.execution_options(**{_WRITE_OPTION: _WITH_LOCK})


def unlocked_writer_engine(engine: Engine) -> Engine:
    """Return the engine for transactions that write to rows of their own only, and so need no lock."""
    return engine.execution_options(**{_WRITE_OPTION: _WITHOUT_LOCK})


def check_write_access(connection: Connection) -> None:
    """Raise what writing would raise, if this user has no right to."""
    for table in (schema.runs, schema.verdicts):
        names = ", ".join(column.name for column in table.c)
        connection.execute(text(f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {table.name} WHERE false"))
        connection.execute(text(f"UPDATE {table.name} SET number = number WHERE false"))


def has_tables(where: str) -> bool:
    """Return whether the database has any tables."""
    engine, place = open_engine(where, read_only=True, timeout_s=5)
    try:
        with translate_errors(place), engine.begin() as connection:
            return bool(inspect(connection).get_table_names())
    finally:
        engine.dispose()


@contextmanager
def translate_errors(place: object) -> Iterator[None]:
    """Turn PostgreSQL's errors into a `LedgerError` of one sentence; our own mistakes keep their traceback."""
    import psycopg

    try:
        yield
    except (DBAPIError, psycopg.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        state = getattr(cause, "sqlstate", None) or ""
        for start in sorted(_ERROR_SENTENCES, key=len, reverse=True):
            if state.startswith(start):
                raise LedgerError(f"The ledger {str(place)!r} {_ERROR_SENTENCES[start]}") from None
        if state == _LOCK_TIMEOUT_STATE:
            raise LedgerGone(f"The ledger {str(place)!r} {_LOCKED}") from None
        if state.startswith(_GONE_STATES):
            raise LedgerGone(
                f"The ledger {str(place)!r} is gone: the server stopped or closed the connection."
            ) from None
        if state or not isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
            raise
        raise _connection_error(str(place), str(cause)) from None


def check_pages(connection: Connection) -> list[str]:
    """Return rows that belong to no run. PostgreSQL checks its pages itself when it reads them."""
    problems = []
    for table in schema.metadata.sorted_tables:
        if "run" in table.c:
            orphans = connection.scalar(
                text(f"SELECT count(*) FROM {table.name} t WHERE NOT EXISTS (SELECT 1 FROM runs WHERE number = t.run)")
            )
            problems += [f"{orphans} rows of {table.name} belong to no run"] if orphans else []
    return problems


def size(connection: Connection) -> int:
    """Return the size of the database in bytes."""
    return int(connection.scalar(text("SELECT pg_database_size(current_database())")) or 0)


def shrink(engine: Engine) -> None:
    """Do nothing: autovacuum reuses the space of deleted rows."""


def _connection_error(place: str, message: str) -> LedgerError:
    """Return why there is no connection, in the server's or the system's own words, which may be in any language."""
    words = " ".join(message.split())
    reason = words.rpartition("FATAL: ")[2] if "FATAL: " in words else words.rpartition(" failed: ")[2]
    reason = re.sub(r"\[Errno -?\d+\] ", "", reason.partition(" Is the server running")[0]).strip(" .")
    if any(word in words for word in _GONE_WORDS):
        return LedgerGone(f"The ledger {place!r} does not answer yet: {reason}. Try again in a moment.")
    if any(word in words for word in _REFUSED_WORDS):
        make = " Make it with `createdb`, or name another one." if reason.startswith("database ") else ""
        return LedgerError(f"The ledger {place!r} cannot be opened: {reason}.{make}")
    return LedgerGone(
        f"The ledger {place!r} does not answer: {reason}. Is the server running, and is this its address?"
    )


def _parse_url(where: str) -> URL:
    """Parse a URL. The `LedgerError` shows nothing of one that cannot be read: any part may be the password."""
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise LedgerError(
            "The address of the ledger cannot be read; it is written postgresql://user:password@host:5432/database."
        ) from None
    if where.count("@") > 1:  # then a part of the password stands where another part of the address should
        raise LedgerError(
            "The address of the ledger cannot be read: write %40 for an @ in the name or the password "
            "(postgresql://user:password@host:5432/database)."
        )
    return url.set(drivername="postgresql+psycopg")


def _without_password(url: URL) -> str:
    """Return the URL without its password, and without settings that do not say where it is."""
    query = {name: value for name, value in url.query.items() if name in ("host", "port", "dbname", "options")}
    return URL.create("postgresql", url.username, None, url.host, url.port, url.database, query).render_as_string()


def _build_engine(url: URL, *, read_only: bool, timeout_s: float) -> Engine:
    try:
        import psycopg
    except ImportError:
        raise SetupError("A ledger in PostgreSQL needs psycopg: pip install 'beholder[postgres]'") from None

    def connect() -> psycopg.Connection[Any]:
        try:
            connection = psycopg.connect(**_libpq_settings(url), autocommit=True)
        except psycopg.ProgrammingError as error:  # a setting that libpq does not know
            raise LedgerError(
                f"The ledger {_without_password(url)!r} cannot be opened: {' '.join(str(error).split())}."
            ) from None
        try:
            connection.execute(
                "SELECT set_config('lock_timeout', %s, false),"
                " set_config('idle_in_transaction_session_timeout', %s, false)",
                (f"{max(1, int(timeout_s * 1000))}ms", f"{_IDLE_TIMEOUT_S}s"),
            )
            if read_only:
                connection.execute("SET default_transaction_read_only = on")
            connection.autocommit = False
        except BaseException:
            connection.close()
            raise
        return connection

    # The ping reconnects to a server that was restarted.
    engine = create_engine("postgresql+psycopg://", creator=connect, pool_pre_ping=True, hide_parameters=True)

    level = psycopg.IsolationLevel

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITE_OPTION)
        raw: Any = connection.connection.dbapi_connection
        raw.isolation_level = level.READ_COMMITTED if writes else level.REPEATABLE_READ
        raw.read_only = None if writes else True  # `None` is what the server has set, `False` would overrule that
        if writes == _WITH_LOCK:
            _take_write_lock(connection, raw)

    return engine


def _take_write_lock(connection: Connection, raw: psycopg.Connection[Any]) -> None:
    """Wait for the write lock, and terminate a stalled process that holds it."""
    lock = f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})"
    try:
        connection.exec_driver_sql(lock)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_TIMEOUT_STATE:
            raise
        raw.rollback()
        terminated = raw.execute(_TERMINATE_STALLED, (_WRITE_LOCK, _IDLE_TIMEOUT_S)).fetchall()
        raw.rollback()
        if not terminated:
            raise
        connection.exec_driver_sql(lock)


def _libpq_settings(url: URL) -> dict[str, Any]:
    """Return the settings for libpq: our timeouts, overridden by those in the URL."""
    named = url.translate_connect_args(username="user", database="dbname")
    in_query = {name: value if isinstance(value, str) else ",".join(value) for name, value in url.query.items()}
    return {**_TIMEOUTS, "application_name": "beholder", **named, **in_query}
