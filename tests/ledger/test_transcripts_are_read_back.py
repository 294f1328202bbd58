"""Conversations of more than one turn: stored small, read back, copied, checked; in older ledgers the answer alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sqlalchemy import select, update
from support.ledger import entry, run_record, verdict

from beholder.ledger import schema
from beholder.ledger.copy import copy_run
from beholder.ledger.ledger import Ledger
from beholder.verdicts.answer import Transcript, TranscriptTurn
from beholder.verdicts.verdict import Outcome

RUBRIC = verdict(0).rubric


def repaired(answer: str) -> Transcript:
    turns = (
        TranscriptTurn("", "half \ud800 a pair, \0", "complete"),
        TranscriptTurn("Mend that.", answer, "complete"),
    )
    return Transcript("openai:gpt-5-mini", 0, turns)


def packed(ledger: Ledger) -> list[bytes | None]:
    column = schema.verdicts.c.transcripts
    with ledger._reading() as connection:
        return list(connection.scalars(select(column).order_by(schema.verdicts.c.position)))


def test_it_is_read_back_and_the_last_answer_is_stored_once(ledger: Ledger) -> None:
    told = repaired(verdict(0).answer)
    ledger.write("r1", [entry(0, transcripts=(told,)), entry(1)])
    assert ledger.transcripts("r1", verdict(0).case) == {RUBRIC: (told,)}
    [data, nothing] = packed(ledger)
    assert nothing is None
    assert data is not None
    assert len(data) < 150
    assert ledger.check() == []


def test_one_turn_is_the_answer(ledger: Ledger) -> None:
    ledger.write("r1", [entry(1)])
    [one] = ledger.transcripts("r1", verdict(1).case)[RUBRIC]
    assert one == Transcript(verdict(1).judge, 0, (TranscriptTurn("", verdict(1).answer, "complete"),))


def test_a_verdict_that_is_judged_again_loses_the_old_turns(ledger: Ledger) -> None:
    ledger.write("r1", [entry(0, transcripts=(repaired("x"),))])
    ledger.write("r1", [entry(0)])
    assert packed(ledger) == [None]


def test_a_verdict_without_an_answer_has_no_turns(ledger: Ledger) -> None:
    gone = replace(verdict(0), outcome=Outcome.UNREACHABLE, answer="", score=None, criteria={}, finish=None)
    ledger.write("r1", [entry(0, gone)])
    assert ledger.transcripts("r1", gone.case) == {RUBRIC: ()}


def test_a_copied_run_has_them(ledger: Ledger, new_place: Callable[[], str | Path]) -> None:
    told = repaired(verdict(0).answer)
    ledger.write("r1", [entry(0, transcripts=(told,))])
    with Ledger.open(new_place(), create=True) as other:
        copy_run(ledger, other, "r1")
        assert other.transcripts("r1", verdict(0).case) == {RUBRIC: (told,)}
        assert copy_run(ledger, other, "r1").written == {}


def test_damage_is_found(ledger: Ledger) -> None:
    ledger.write("r1", [entry(0, transcripts=(repaired("x"),))])
    with ledger._writing() as connection:
        connection.execute(update(schema.verdicts).values(transcripts=b"damaged"))
    assert "transcript" in " ".join(ledger.check())


def test_a_ledger_of_version_3_is_upgraded_and_shows_the_answer_alone(tmp_path: Path) -> None:
    place = tmp_path / "old.db"
    with Ledger.open(place, create=True) as ledger:
        ledger.start(run_record())
        ledger.write("r1", [entry(0)])
    with sqlite3.connect(place) as file:
        file.execute("ALTER TABLE verdicts DROP COLUMN transcripts")
        file.execute("UPDATE meta SET value = '3' WHERE key = 'version'")
    file.close()
    with Ledger.open(place, read_only=True) as ledger:
        [one] = ledger.transcripts("r1", verdict(0).case)[RUBRIC]
        assert [turn.answer for turn in one.turns] == [verdict(0).answer]
        assert ledger.check() == []
