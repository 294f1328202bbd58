"""A ledger of any earlier version is read and written by this one; an upgrade happens as a whole or not at all."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection
from support.ledger import entry, verdict

from beholder.ledger import database
from beholder.ledger.ledger import Ledger

FIRST = Path(__file__).with_name("version-1.sql")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """All this is about files."""
    return tmp_path / "beholder.db"


def old_file(place: Path) -> None:
    """A ledger as the first version of Beholder that had one left it."""
    with sqlite3.connect(place) as old:
        old.executescript(FIRST.read_text("utf-8"))
    old.close()


def schema(place: Path) -> set[tuple[str, str]]:
    with sqlite3.connect(place) as file:
        rows = file.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    file.close()
    return {(name, re.sub(r"\s+", " ", sql)) for name, sql in rows if not name.startswith("sqlite_")}


def test_the_oldest_file_is_read_and_written(place: Path) -> None:
    old_file(place)
    with Ledger.open(place, create=True) as ledger:
        assert ledger.check() == []
        assert ledger.verdict("r1", "photo-00001/model-a") == [verdict(1)]
        assert ledger.run("latest").tags == ("ci",)
        assert ledger.thumbnail(verdict(1).images[0].source_digest) is not None
        ledger.write("r1", [entry(2)])
        assert ledger.progress()["r1"].done == 3


def test_it_then_has_the_tables_of_a_new_one(place: Path, tmp_path: Path) -> None:
    old_file(place)
    Ledger.open(place, create=True).close()
    Ledger.open(tmp_path / "new.db", create=True).close()
    assert schema(place) == schema(tmp_path / "new.db")


def add_mood(connection: Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE runs ADD COLUMN mood TEXT")


def fill_mood(connection: Connection) -> None:
    connection.exec_driver_sql("UPDATE runs SET mood = 'fine'")


def fail(connection: Connection) -> None:
    connection.exec_driver_sql("DROP TABLE verdicts")
    raise RuntimeError("the power went")


def later(monkeypatch: pytest.MonkeyPatch, *steps: database.Migration) -> None:
    """As if a later Beholder had these steps."""
    monkeypatch.setattr(database, "MIGRATIONS", steps)


def test_steps_are_taken_in_order(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_file(place)
    later(monkeypatch, add_mood, fill_mood)
    Ledger.open(place, create=True).close()
    with sqlite3.connect(place) as file:
        assert file.execute("SELECT mood FROM runs").fetchall() == [("fine",)]
        assert file.execute("SELECT value FROM meta WHERE key = 'version'").fetchone() == ("3",)
    Ledger.open(place, create=True).close()  # and not taken again


def test_a_step_that_fails_changes_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_file(place)
    before = schema(place)
    with monkeypatch.context() as patch:
        later(patch, add_mood, fail)
        with pytest.raises(RuntimeError):
            Ledger.open(place, create=True)
    assert schema(place) == before
    with Ledger.open(place, create=True) as ledger:
        assert len(list(ledger.verdicts("r1"))) == 2


def test_an_older_file_is_brought_up_to_date_to_be_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old_file(place)
    later(monkeypatch, add_mood)
    with Ledger.open(place, read_only=True) as ledger:
        assert len(list(ledger.verdicts("r1"))) == 2
    assert "mood" in str(schema(place))
