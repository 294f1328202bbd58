"""Whatever is wrong with a PostgreSQL ledger is told in one sentence, within seconds, and never with its password."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from support.ledger import entry, listed, run_record, verdict
from support.postgres import PASSWORD, USER, Server

from beholder.errors import LedgerError, LedgerGone
from beholder.ledger import postgres as dialect
from beholder.ledger.database import newest_version
from beholder.ledger.ledger import Ledger

NEWER_TABLES = ("workers", "leases", "jobs", "replies", "stars", "comments", "views", "case_texts")
URLS = (
    "postgresql://me:s3cret@[::1/db",
    "postgresql://me:s3cret@127.0.0.1:port/db",
    "postgresql://me:s3cr@et@127.0.0.1/db",
    "postgresql://me:s3@127.0.0.1:1/s3cret@127.0.0.1/db",
    "postgresql://me:s3@127.0.0.1:1/db?s3cret@127.0.0.1/db",
    "postgresql://me:s3cret@127.0.0.1/db?nothing=1",
    "postgresql://me@127.0.0.1:1/db?password=s3cret",
    "postgres://me:s3cret@127.0.0.1:1/db",
    "postgresql+psycopg://me:s3cret@127.0.0.1:1/db",
    "postgresql+asyncpg://me:s3cret@127.0.0.1:1/db",
    "postgresql://me:s3cret@127.0.0.1:99999/db",
    "postgresql://me:s3cret@127.0.0.1:1/db?sslmode=perhaps",
    "postgresql:/me:s3cret@127.0.0.1:1/db",
)


@contextmanager
def told(said: str, kind: type[LedgerError] = LedgerError) -> Iterator[None]:
    with pytest.raises(kind, match=said) as caught:
        yield
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "sqlalchemy" not in sentence.lower()
    assert "psycopg" not in sentence.lower()
    assert PASSWORD not in sentence


@pytest.fixture
def url(postgres: Server) -> str:
    return postgres.database()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url, create=True) as ledger:
        ledger.start(run_record())
        yield ledger


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with told(f"'postgresql://me@127.0.0.1:{port}/db' does not answer: .*refused. Is the server running", LedgerGone):
        Ledger.open(f"postgresql://me:{PASSWORD}@127.0.0.1:{port}/db", create=True)


def test_the_host_is_unknown() -> None:
    with told("does not answer: failed to resolve host", LedgerGone):
        Ledger.open(f"postgresql://me:{PASSWORD}@nowhere.invalid/db", create=True)


def test_somebody_listens_and_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with told("does not answer: .*timeout", LedgerGone):
            Ledger.open(f"postgresql://me:{PASSWORD}@127.0.0.1:{port}/db?connect_timeout=2", create=True)


def test_a_wrong_password_a_wrong_name_and_no_such_database(postgres: Server) -> None:
    with told("cannot be opened: password authentication failed"):
        Ledger.open(postgres.url("postgres", password="wrong"), create=True)
    with told("cannot be opened: password authentication failed"):
        Ledger.open(postgres.url("postgres", user="nobody"), create=True)
    with told('cannot be opened: database "none" does not exist.*createdb'):
        Ledger.open(postgres.url("none"), create=True)


@pytest.mark.parametrize("address", URLS)
def test_an_address_that_is_wrong_is_not_repeated_with_its_password(address: str) -> None:
    with pytest.raises(LedgerError) as caught:
        Ledger.open(address, create=True)
    assert "s3cr" not in str(caught.value)
    assert "et@" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_the_driver_it_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from beholder.errors import BeholderError; from beholder.ledger.ledger import Ledger\n"
        "try: Ledger.open('postgresql://me@127.0.0.1/db', create=True)\n"
        "except BeholderError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "A ledger in PostgreSQL needs psycopg: pip install 'beholder[postgres]'\n"


def test_a_ledger_that_is_not_there_is_not_made_to_be_read(url: str) -> None:
    for how in ({"read_only": True}, {"create": False}):
        with told("There is no ledger at"):
            Ledger.open(url, **how)


def test_the_server_stops_and_comes_back(postgres: Server, ledger: Ledger) -> None:
    ledger.write("r1", [entry(1)])
    postgres.stop()
    try:
        with told("does not answer", LedgerGone):
            ledger.run("r1")
        with told("does not answer", LedgerGone):
            ledger.write("r1", [entry(2)])
        with told("does not answer", LedgerGone):
            Ledger.open(ledger.address, create=True)
    finally:
        postgres.start()
    assert [one.case for one in ledger.verdicts("r1")] == [verdict(1).case]
    ledger.write("r1", [entry(2)])
    assert ledger.progress()["r1"].done == 2
    assert ledger.check() == []


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_the_server_stops_in_the_middle_of_writing(postgres: Server, ledger: Ledger, how: str) -> None:
    before = ledger.run("r1")
    with told("is gone|does not answer", LedgerGone), ledger._writing() as connection:
        connection.execute(text("UPDATE runs SET name = 'half'"))
        postgres.stop(how)
        postgres.start()
        connection.execute(text("UPDATE runs SET name = 'other half'"))
    assert ledger.run("r1") == before
    ledger.write("r1", [entry(2)])
    assert ledger.progress()["r1"].done == 1


def test_somebody_ends_the_connection(postgres: Server, ledger: Ledger) -> None:
    with told("is gone", LedgerGone), ledger._reading() as connection:
        mine = connection.scalar(text("SELECT pg_backend_pid()"))
        postgres.sql(f"SELECT pg_terminate_backend({mine})")
        connection.execute(text("SELECT 1"))
    assert ledger.run("r1").name == "nightly"


def test_a_process_that_stands_still_in_the_middle_is_not_waited_for(postgres: Server, ledger: Ledger) -> None:
    with told("is gone|does not answer", LedgerGone), ledger._writing() as connection:
        mine = connection.scalar(text("SELECT pg_backend_pid()"))
        connection.execute(text("SET idle_in_transaction_session_timeout = 50"))
        while postgres.sql(f"SELECT 1 FROM pg_stat_activity WHERE pid = {mine}"):
            pass
        connection.execute(text("SELECT 1"))
    ledger.write("r1", [entry(1)])
    assert postgres.sql("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'") == []


def test_nor_one_that_stands_still_between_two_messages(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a batch of rows, which travels in many messages: there the server's own patience never runs out."""
    with (
        Ledger.open(ledger.address, timeout_s=0.2, create=True) as other,
        closing(psycopg.connect(ledger.address)) as still,
    ):
        still.execute("SET idle_in_transaction_session_timeout = 50")
        still.execute(f"SELECT pg_advisory_xact_lock({dialect._WRITE_LOCK})")
        still.pgconn.enter_pipeline_mode()
        still.pgconn.send_query_params(b"SELECT 1", [])
        still.pgconn.send_flush_request()
        still.pgconn.flush()
        with told("locked by another program", LedgerGone):
            other.write("r1", [entry(1)])
        monkeypatch.setattr(dialect, "_IDLE_TIMEOUT_S", 0.1)
        other.write("r1", [entry(1)])
        assert other.progress()["r1"].done == 1


def test_locked(ledger: Ledger) -> None:
    with ledger._writing(), Ledger.open(ledger.address, read_only=True, timeout_s=0) as reader:
        assert reader.run("r1").name == "nightly"
        with told("locked by another program"):
            Ledger.open(ledger.address, timeout_s=0.05, create=True)
    with Ledger.open(ledger.address, timeout_s=0.05, create=True) as other:
        with ledger._writing(), told("locked by another program"):
            other.write("r1", [entry(1)])
        other.write("r1", [entry(1)])  # and then it goes on
        assert other.progress()["r1"].done == 1


def test_a_server_that_may_only_be_read(postgres: Server, ledger: Ledger) -> None:
    ledger.write("r1", [entry(1)])
    postgres.sql(f"ALTER DATABASE {name_of(ledger.address)} SET default_transaction_read_only = on")
    with told("may not be written"):
        Ledger.open(ledger.address, create=True)
    with Ledger.open(ledger.address, read_only=True) as reader:
        assert len(list(reader.verdicts("r1"))) == 1
        assert reader.check() == []


def test_a_user_who_may_only_read(postgres: Server, ledger: Ledger) -> None:
    ledger.write("r1", [entry(1)])
    database = name_of(ledger.address)
    postgres.sql(f"CREATE ROLE guest_{database} LOGIN PASSWORD '{PASSWORD}'")
    guest = postgres.url(database, user=f"guest_{database}")
    with told("lacks the right to"):
        Ledger.open(guest, read_only=True)
    postgres.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO guest_{database}", database=database)
    with told("lacks the right to"):
        Ledger.open(guest, create=True)
    with Ledger.open(guest, read_only=True) as reader:
        assert len(list(reader.verdicts("r1"))) == 1
        with told("may not be written"):
            reader.write("r1", [entry(2)])


def test_a_read_only_ledger_refuses_to_write(ledger: Ledger) -> None:
    with Ledger.open(ledger.address, read_only=True) as reader, told("may not be written"):
        reader.write("r1", [entry(1)])


def test_from_a_newer_version(postgres: Server, ledger: Ledger) -> None:
    postgres.sql("UPDATE meta SET value = '99' WHERE key = 'version'", database=name_of(ledger.address))
    for read_only in (False, True):
        with told("written by a newer Beholder .*version 99.* upgrade Beholder"):
            Ledger.open(ledger.address, read_only=read_only)


def test_from_an_older_version(postgres: Server, ledger: Ledger) -> None:
    ledger.write("r1", [entry(1)])
    ledger.close()
    database = name_of(ledger.address)
    whole = schema(postgres, database)
    postgres.sql(
        *(f"DROP TABLE {name}" for name in NEWER_TABLES),
        "ALTER TABLE verdicts DROP COLUMN transcripts",
        "UPDATE meta SET value = '2' WHERE key = 'version'",
        database=database,
    )
    assert schema(postgres, database) != whole
    with Ledger.open(ledger.address, read_only=True) as reader:  # brought up to date, also to be read
        assert reader.check() == []
    assert schema(postgres, database) == whole
    assert postgres.sql("SELECT value FROM meta WHERE key = 'version'", database=database) == [(str(newest_version()),)]
    with Ledger.open(ledger.address, create=True) as again:
        assert list(again.verdicts("r1", answers=True)) == [verdict(1)]


def schema(postgres: Server, database: str) -> list[tuple[object, ...]]:
    return postgres.sql(
        "SELECT table_name, column_name, data_type, collation_name, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'public' UNION SELECT tablename, indexdef, '', '', '' FROM pg_indexes "
        "WHERE schemaname = 'public' ORDER BY 1, 2",
        database=database,
    )


def test_a_database_of_others(postgres: Server, url: str) -> None:
    for statement in (
        "CREATE TABLE songs (title text)",
        "CREATE TABLE meta (key text, value text)",
        "DROP TABLE meta",
        "CREATE TABLE meta (x text)",
    ):
        postgres.sql(statement, database=name_of(url))
        for read_only in (False, True):
            with told("a database of another program"):
                Ledger.open(url, read_only=read_only)
    postgres.sql("CREATE SCHEMA beholder", database=name_of(url))
    with Ledger.open(f"{url}?options=-csearch_path%3Dbeholder", create=True) as beside:  # the way out
        beside.start(run_record())
        assert beside.check() == []


def test_a_schema_that_is_not_there(url: str) -> None:
    with told("no schema to keep its tables in"):
        Ledger.open(f"{url}?options=-csearch_path%3Dnowhere", create=True)


def test_a_name_past_all_bounds(ledger: Ledger) -> None:
    long = os.urandom(3000).hex()
    with told("cannot hold a name that long"):
        ledger.write("r1", [entry(1), entry(2, verdict(2, case=long))])
    assert list(ledger.verdicts("r1")) == []


def test_facets_past_the_bounds_of_an_index(ledger: Ledger) -> None:
    criteria = {os.urandom(30).hex(): verdict(1).criteria["unchanged_regions"] for _ in range(200)}
    ledger.write("r1", [entry(1, verdict(1, criteria=criteria))])
    assert listed(ledger, "r1")[0][-1]["scores"].keys() == criteria.keys()


def test_the_disk_is_full(postgres: Server) -> None:
    # A server of its own: one whose tablespace is gone cannot write its dirty pages, and fails everybody's statements.
    with own_server(postgres.programs) as server, small_disk(server) as folder:
        server.sql(f"CREATE TABLESPACE small LOCATION '{folder}'", "CREATE DATABASE full_up TABLESPACE small")
        written = 0
        with Ledger.open(server.url("full_up"), create=True) as ledger:
            ledger.start(run_record())
            with told("the server's disk is full. Make room"):
                for start in range(0, 64_000, 64):
                    ledger.write("r1", [entry(number) for number in range(start, start + 64)])
                    written = start + 64
            assert ledger.progress()["r1"].done == written > 0
            assert ledger.check() == []


@contextmanager
def own_server(programs: Path) -> Iterator[Server]:
    server = Server(programs)
    try:
        yield server
    finally:
        server.end()


@contextmanager
def small_disk(server: Server) -> Iterator[Path]:
    """A file system of 16 MB, which only root may have; the server is stopped before it is taken away."""
    with tempfile.TemporaryDirectory() as name:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", name], capture_output=True, text=True
        )
        if mounted.returncode:
            pytest.skip(f"a small disk cannot be had here: {mounted.stderr.strip()}")
        try:
            folder = Path(name) / "data"
            folder.mkdir()
            os.chown(folder, server.data.stat().st_uid, -1)
            Path(name).chmod(0o755)
            yield folder
        finally:
            server.stop("immediate")
            subprocess.run(["umount", name], check=True)


def test_the_password_is_nowhere_to_be_seen(ledger: Ledger) -> None:
    assert ledger.place == f"postgresql://{USER}@127.0.0.1:{ledger.address.split(':')[3].partition('/')[0]}/" + name_of(
        ledger.address
    )
    assert PASSWORD not in repr(ledger)
    assert PASSWORD not in repr(ledger._engine)
    assert PASSWORD not in str(ledger.run("r1"))
    with told("There is no run 'x'"):
        ledger.run("x")
