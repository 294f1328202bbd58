"""Stopped or killed, the same command goes on; what it costs is shown beforehand and asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from beholder import Ledger
from beholder.testing.base import Fault, Received


def exam(room: Any) -> tuple[int, int]:
    """How many papers there are, and how many questions a whole sitting asks: some three times more."""
    folder = Path("exam") / "edit-preservation"
    first, *further = (
        len((folder / f"{name}.jsonl").read_text("utf-8").splitlines())
        for name in ("cases", "again", "order", "labels")
    )
    return first, first + sum(further)


def test_a_killed_sitting_asks_hardly_anything_twice_and_its_card_is_whole(room: Any, said: Any) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    command = [sys.executable, "-m", "beholder", *room.words, "--yes", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)

    def killing(asked: Received) -> Any:
        if len(room.server.received) == 36:  # in the second sheet
            process.kill()
        return said(room.truth(asked))

    room.server.default = killing
    assert process.wait() != 0
    before = len(room.server.received)
    room.server.default = lambda asked: said(room.truth(asked))
    (card,) = room.cards()
    papers, questions = exam(room)
    assert (card["papers"], card["missing"]) == (papers, 0)
    assert papers < before < questions
    assert len(room.server.received) <= questions + before - papers  # nothing of the sheet that was finished
    with Ledger.open("beholder.db", create=True) as ledger:
        assert len(ledger.runs()) == 4
        assert {run.state for run in ledger.runs()} == {"finished"}


def test_a_finished_sitting_asks_nobody_again_and_a_fresh_one_everybody(room: Any) -> None:
    (first,) = room.cards()
    asked = len(room.server.received)
    assert asked == exam(room)[1]
    (second,) = room.cards()
    assert (second, len(room.server.received)) == (first, asked)
    (third,) = room.cards("--fresh")
    assert third["run"] != first["run"]
    twice = 12  # what is asked twice is asked both times
    assert len(room.server.received) == asked + exam(room)[1] + twice


def test_a_judge_that_cannot_be_asked_is_wrong_use(room: Any) -> None:
    room.server.say(Fault.bad_key())
    assert room.sit("--yes").code == 2


def test_a_paper_without_an_answer_is_counted_and_asked_again(room: Any, said: Any) -> None:
    tries: list[str] = []

    def at_a_loss(asked: Received) -> Any:
        """The first paper of the exam has no answer, and none when that is to be mended."""
        paper = room.paper(asked)["id"]
        if paper == next(iter(room.papers.values()))["id"] and len(tries) < 2:
            tries.append(paper)
            return "{}"
        return said(room.truth(asked))

    room.server.default = at_a_loss
    lacking = room.sit("--yes")
    assert lacking.code == 3
    assert "1 question has no answer" in lacking.err
    assert "1 invalid" in lacking.out
    assert room.sit("--yes").code == 0


def test_without_consent_nobody_is_asked(room: Any) -> None:
    done = room.sit()
    assert done.code == 2
    assert "at an unknown price" in done.err
    assert "--yes, or --budget" in done.err
    assert room.server.received == []


def test_the_plan_counts_every_question_once(room: Any) -> None:
    done = room.sit("--price-input", "1", "--price-output", "8")
    _, questions = exam(room)
    assert f"would be asked {questions} questions for $" in done.err
    room.cards("--price-input", "1", "--price-output", "8")
    assert len(room.server.received) == questions
    shown = room.sit("--price-input", "1", "--price-output", "8")
    assert shown.code == 0  # nothing is left to pay, so nobody is asked whether it may cost


def test_one_budget_holds_for_all_sheets(room: Any) -> None:
    prices = ("--price-input", "100", "--price-output", "800")
    done = room.sit(*prices, "--budget", "12", "--json")
    assert done.code == 3
    (card,) = json.loads(done.out)["cards"]
    with Ledger.open("beholder.db", create=True) as ledger:
        spent = sum(run.spent_usd or 0 for run in ledger.runs())
    assert 0 < spent <= 12
    assert any("over_budget" in mark["lacking"] for mark in card["marks"])
    again = room.sit(*prices, "--budget", "12", "--json")
    assert again.code == 3
    with Ledger.open("beholder.db", create=True) as ledger:
        assert sum(run.spent_usd or 0 for run in ledger.runs()) <= 12
