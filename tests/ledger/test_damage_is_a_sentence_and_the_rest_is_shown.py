"""A damaged value in a ledger is a sentence that names table and row, in every command; all other rows are shown.

Each column of each table gets, in turn, every kind of wrong value (one kind a row), and every command and page that
reads a ledger is carried out: none crashes, and `doctor` and `ledger check` name what was damaged.
"""

from __future__ import annotations

import csv
import gzip
import logging
import random
import shutil
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import cycle
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from support.golden import FILES
from support.ledger import entry, hexed, run_record

from beholder.errors import LedgerError
from beholder.ledger import schema
from beholder.ledger.damage import _logged as logged
from beholder.ledger.damage import log_damage
from beholder.ledger.encoding import ZLIB_DICTIONARY, pack, unpack_text
from beholder.ledger.ledger import Ledger
from beholder.web.server import create_app

CarryOut = Callable[[Sequence[str]], tuple[int, str, str]]
Database = sqlite3.Connection

TABLES = {name: table for name, table in schema.metadata.tables.items() if name != "meta"}
COLUMNS = [(name, column.name) for name, table in TABLES.items() for column in table.columns]
# Columns of which any value of the right kind is as good as another; so is any number of a row.
UNUSED = [("answers", "model"), ("leases", "holder"), ("workers", "written"), ("run_thumbnails", "digest")]
NOT_UTF_8 = b"golden-\xff\xfe\xfa"
WRONG: tuple[object, ...] = (
    None,
    -7,
    2**62,
    3.5,
    "",
    "nonsense",
    "[[1], {}]",
    '{"a": 1}',
    b"",
    b"\x00\xff not zlib",
    pack([1]),
    pack({}),
    pack({"suite": 1, "rubrics": 2, "prompt": [], "versions": 3, "id": 4, "images": 5, "fields": 6}),
    pack([[[]]] * 3),
    b"[" * 4000,
    pack("[" * 100_000),
    NOT_UTF_8,
    "2026-01-01",
    "NaN",
    float("inf"),
    "9" * 5000,
)

COMMANDS = (
    "runs",
    "runs --json",
    "runs --reviews",
    "runs --tag golden",
    "runs comment many",
    "show many --search red",
    "show golden-live",
    "show many",
    "show many photo-00003/model-a",
    "show many --by model",
    "export many",
    "report many -o out.html",
    "compare many golden-live",
    "show golden-live --json",
    "show golden-live --by source",
    "show golden-jury",
    "show golden-batch",
    "show tag:golden",
    "show no-such-run",
    "show golden-live c1 --full",
    "show golden-live c1 --json",
    "show golden-live c1 --raw",
    "show golden-jury c1 --transcript",
    "export golden-live",
    "export golden-jury --to jsonl",
    "export golden-live --to parquet -o out.parquet",
    "ratings export golden-live",
    "report golden-live -o out.html",
    "report golden-jury --format md -o out.md",
    "report golden-live --format junit -o out.xml --against golden-files",
    "agree golden-live",
    "compare golden-live golden-jury",
    "compare golden-live golden-batch --fail-on regression",
    "history golden-live",
    "history --tag golden",
    "estimate golden-live",
    "ledger copy golden.db copied.db",
    "ledger check",
    "doctor",
    "runs tag golden-live new",
    "runs delete golden-files --yes",
    "runs delete many --yes",
)
PAGES = (
    "/",
    "/api/runs",
    "/api/runs/golden-live",
    "/runs/golden-live",
    "/runs/golden-jury",
    "/runs/golden-live/cases",
    "/runs/golden-live/cases?sort=case&text=c",
    "/runs/many/cases?q=red&marked=star",
    "/runs/many/case?id=photo-00003/model-a",
    "/runs/golden-live/cases?flag=x&assertion=A1&group=source=s",
    "/api/runs/golden-live/verdicts",
    "/runs/golden-live/case?id=c1",
    "/api/runs/golden-jury/case?id=c1",
    "/compare?before=golden-live&after=golden-jury",
    "/agreement?run=golden-live",
    "/calibration?run=golden-live",
    "/review",
    "/review/run/golden-live",
    "/review/run/golden-live/ratings.csv",
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with runs, a jury, a batch, reviews and a worker; and tables that take anything."""
    place = tmp_path_factory.mktemp("sound") / "golden.db"
    place.write_bytes(gzip.decompress((FILES / "ledger" / "golden.db.gz").read_bytes()))
    count = len(WRONG) + 3
    with Ledger.open(place) as ledger:
        ledger.start(run_record("many", name="many"))
        thumbnails = [(hexed(f"photo {number}"), b"RIFF....WEBPVP8 ") for number in range(count)]
        ledger.write("many", [entry(number, thumbnails=(thumbnails[number],)) for number in range(count)])
        for number, case_id in enumerate(ledger.case_ids("many")):
            ledger.star("many", case_id)
            ledger.comment("many", case_id, f"comment {number}", "Ada")
            ledger.save_view("many", f"view {number}", "grade=F")
        ledger.index_texts("many")
        for number in range(count):
            ledger.start(run_record(f"r{number}"))
            ledger.heartbeat("many", f"worker {number}", 3600.0)
        ledger.claim("many", "worker 1", [(f"c{number}", "edit-preservation") for number in range(count)], (), 3600.0)
    with sqlite3.connect(place) as database:
        for number in range(count):
            database.execute(
                "INSERT INTO jobs (run, judge, state, handle, reserved_usd, created, body) "
                "SELECT run, ?, state, handle, reserved_usd, created, body FROM jobs LIMIT 1",
                (f"judge {number}",),
            )
            database.execute("INSERT INTO replies SELECT run, ?, body FROM replies LIMIT 1", (b"%16d" % number,))
        database.execute("PRAGMA journal_mode=DELETE")
        database.execute("PRAGMA writable_schema=ON")
        # As other programs and bad disks do not care for them either.
        database.execute("UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE type = 'table'")
        version = database.execute("PRAGMA schema_version").fetchone()[0]
        database.execute(f"PRAGMA schema_version={version + 1}")
    database.close()
    return place


@pytest.fixture
def place(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BEHOLDER_LEDGER", "golden.db")
    monkeypatch.setenv("COLUMNS", "200")
    yield Path(shutil.copy(sound, tmp_path / "golden.db"))
    logged.clear()


@contextmanager
def changing(place: Path) -> Iterator[Database]:
    with closing(sqlite3.connect(place)) as database, database:
        yield database


def damage(database: Database, table: str, columns: Sequence[str], seed: int = 0) -> None:
    """Put every wrong value into these columns, each into a row of its own, as far as there are rows."""
    names = [column.name for column in TABLES[table].primary_key]
    condition = " AND ".join(f"{name} = ?" for name in names)
    rows = database.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()
    chance = random.Random(f"{table} {columns} {seed}")
    chance.shuffle(rows)
    values = list(WRONG)
    chance.shuffle(values)
    for key, value, column in zip(rows, values, cycle(columns), strict=False):
        with suppress(sqlite3.Error):  # a key that is there already, or none
            if value == NOT_UTF_8:
                database.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE {condition}", (value, *key))
            else:
                database.execute(f"UPDATE {table} SET {column} = ? WHERE {condition}", (value, *key))


def carry_out(carried_out: CarryOut, command: str) -> tuple[int, str, str]:
    """Carries a command out as in a process of its own: nothing was logged before."""
    monkeyed = [] if command.startswith("ledger copy") else ["--ledger", "golden.db"]
    logged.clear()
    code, out, err = carried_out([*command.split(), *monkeyed])
    assert code in (0, 1, 2, 3, 4), (command, err[-3000:])
    assert "Traceback" not in out + err, (command, err[-3000:])
    Path("copied.db").unlink(missing_ok=True)
    return code, out, err


def visit(place: Path) -> None:
    app = create_app(place)
    try:
        client = TestClient(app, base_url="http://127.0.0.1")  # raises what the app does not handle
        for page in PAGES:
            assert client.get(page).status_code != 500, page
    finally:
        app.state.background.close()
        app.state.ledger.close()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("table", TABLES)
def test_a_wrong_value_never_ends_in_a_traceback(place: Path, carried_out: CarryOut, table: str, seed: int) -> None:
    columns = [column.name for column in TABLES[table].columns]
    random.Random(seed).shuffle(columns)
    with changing(place) as database:
        damage(database, table, columns, seed)
    for command in COMMANDS:
        carry_out(carried_out, command)
    visit(place)


def test_the_check_finds_nothing_wrong_where_nothing_is(place: Path) -> None:
    with Ledger.open(place) as ledger:
        assert ledger.check() == []


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=[".".join(names) for names in COLUMNS])
def test_the_check_names_table_and_row(place: Path, table: str, column: str) -> None:
    with changing(place) as database:
        damage(database, table, [column])
    with Ledger.open(place) as ledger:
        problems = ledger.check()
    if column == "number" or (table, column) in UNUSED:
        assert all("row" in problem for problem in problems)
    else:
        assert any(f"of {table}" in problem for problem in problems), problems
        assert len(problems) <= 21


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_page_is_a_sentence(place: Path, carried_out: CarryOut, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(place.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    for _ in range(chance.choice((1, 1, 3))):
        at = chance.randrange(0 if seed % 4 == 0 else 1, len(data) // size) * size
        data[at : at + size] = chance.choice((bytes(size), chance.randbytes(size)))
    place.write_bytes(data)
    for command in ("runs", "show golden-live", "show many", "export many", "report many -o out.html", "doctor"):
        carry_out(carried_out, command)
    code, out, _ = carry_out(carried_out, "ledger check")
    assert code in (1, 2) or "is sound" in out  # a page that nothing uses


def test_a_verdict_that_cannot_be_read_is_named_and_the_others_are_shown(place: Path, carried_out: CarryOut) -> None:
    with changing(place) as database:
        [[row]] = database.execute("SELECT number FROM verdicts WHERE case_id = 'photo-00003/model-a'")
        database.execute("UPDATE verdicts SET body = x'00' WHERE number = ?", (row,))
    named = f"the verdict on 'photo-00003/model-a' (row {row} of verdicts) cannot be read"
    for command in ("show many", "export many", "report many -o out.html", "history many", "doctor", "ledger check"):
        _, out, err = carry_out(carried_out, command)
        assert named in out + err, command
    _, out, _ = carry_out(carried_out, "export many")
    rows = list(csv.DictReader(out.splitlines()))
    assert len(rows) == len(WRONG) + 3
    assert {row["case"]: row["outcome"] for row in rows if row["outcome"] != "scored"} == {
        "photo-00003/model-a": "unreadable"
    }
    with Ledger.open(place) as ledger:
        [verdict] = ledger.verdict("many", "photo-00003/model-a")
        assert (verdict.outcome, verdict.score) == ("unreadable", None)
        assert named in verdict.detail
        assert ledger.tally("many").outcomes == {"scored": len(WRONG) + 2, "unreadable": 1}
    app = create_app(place)
    client = TestClient(app, base_url="http://127.0.0.1")
    page = client.get("/runs/many/case", params={"id": "photo-00003/model-a"})
    app.state.background.close()
    app.state.ledger.close()
    assert page.status_code == 200
    assert f"row {row} of verdicts" in page.text


def test_a_run_that_cannot_be_read_does_not_hide_the_others(place: Path, carried_out: CarryOut) -> None:
    with changing(place) as database:
        database.execute("UPDATE runs SET body = x'00' WHERE id = 'many'")
        database.execute("UPDATE runs SET created = 'yesterday' WHERE id = 'r1'")
        database.execute("UPDATE runs SET name = NULL WHERE id = 'r2'")
    code, out, err = carry_out(carried_out, "runs")
    assert code == 0
    assert {"golden-live", "many", "r1", "r2"} <= set(out.split())
    assert "the run 'many' (row 7 of runs) cannot be read" in err
    assert "has 'yesterday' as its 'created'" in err
    # Nobody knows its thresholds, so it is no run that passed.
    code, _, err = carry_out(carried_out, "show many")
    assert (code, "row 7 of runs" in err) == (2, True)


def test_a_few_bytes_cannot_become_gigabytes(place: Path) -> None:
    bomb = zlib.compressobj(9, zdict=ZLIB_DICTIONARY)
    packed = b"".join(bomb.compress(bytes(2**20)) for _ in range(300)) + bomb.flush()
    with pytest.raises(LedgerError, match="damaged"):
        unpack_text(packed, "an answer")


def test_threads_may_meet_damage_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sentence is old at once, so that each call deletes and adds some."""
    monkeypatch.setattr("beholder.ledger.damage._REPEATED_AFTER_S", -1.0)
    monkeypatch.setattr("beholder.ledger.damage._logger", logging.getLogger("unheard"))
    logging.getLogger("unheard").setLevel(logging.CRITICAL)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            for _ in threads.map(log_damage, map(str, range(20_000)), chunksize=1):
                pass
    finally:
        sys.setswitchinterval(interval)
        logged.clear()
