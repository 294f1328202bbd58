"""`beholder show RUN CASE --transcript`: every turn of the conversation with a judge, repair included."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beholder import Ledger, Run
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer
from beholder.verdicts.answer import Transcript, TranscriptTurn

BROKEN = '{"criteria": {}}'


@pytest.fixture
def shown(
    tmp_path: Path, beholder: Callable[[list[str]], subprocess.CompletedProcess[str]]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`beholder show` of case c0 in the newest run."""
    line = [sys.executable, "-m", "beholder", "show", "latest", "c0", "--ledger", str(tmp_path / "ledger.db")]
    return lambda *more: beholder([*line, *more])


@pytest.fixture
def judged(server: JudgeServer, cases: Any, run: Any, tmp_path: Path) -> Callable[..., tuple[Transcript, ...]]:
    """The conversations about one case that got these replies first, and good ones then."""

    def judge(*replies: Any, options: tuple[str, ...] = ()) -> tuple[Transcript, ...]:
        cases(1)
        server.say(*replies)
        run("--quiet", *options)
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            assert ledger.check() == []
            return ledger.transcripts("latest", "c0")["edit-preservation"]

    return judge


def test_a_repair_is_two_turns(judged: Any, good_answer: Any) -> None:
    [one] = judged(BROKEN)
    first, second = one.turns
    assert (one.judge, one.sample) == ("openai:test", 0)
    assert first == TranscriptTurn("", BROKEN, "complete")
    assert "does not have the required form" in second.question
    assert json.loads(second.answer) == good_answer()


def test_an_answer_that_stays_wrong_is_shown_with_the_first(judged: Any) -> None:
    [one] = judged(BROKEN, "no JSON")
    assert [turn.answer for turn in one.turns] == [BROKEN, "no JSON"]


def test_a_question_without_an_answer_is_shown(judged: Any) -> None:
    [one] = judged(BROKEN, Fault.status(400, "no more"))
    assert one.turns[0] == TranscriptTurn("", BROKEN, "complete")
    assert (one.turns[1].answer, one.turns[1].finish) == ("", "")
    assert "does not have the required form" in one.turns[1].question


def test_answers_that_were_empty_or_cut_off_are_turns(judged: Any) -> None:
    [one] = judged(Fault.truncated('{"crit'), Fault.empty())
    assert [(turn.question, turn.finish) for turn in one.turns] == [("", "length"), ("", "complete"), ("", "complete")]
    assert [turn.answer for turn in one.turns][:2] == ['{"crit', ""]


def test_a_single_turn_is_the_answer_alone(judged: Any, good_answer: Any) -> None:
    [one] = judged()
    assert [json.loads(turn.answer) for turn in one.turns] == [good_answer()]


def test_jurors_without_a_score_are_shown_too(judged: Any, server: JudgeServer, good_answer: Any) -> None:
    server.default = lambda received: "{}" if received.model == "bad" else good_answer()
    bad, good = judged(options=("--judge", "openai:bad"))
    assert (bad.judge, [turn.answer for turn in bad.turns]) == ("openai:bad", ["{}", "{}"])
    assert (good.judge, [json.loads(turn.answer) for turn in good.turns]) == ("", [good_answer()])


def test_it_is_printed_for_people_and_as_json(judged: Any, shown: Any) -> None:
    [one] = judged(BROKEN)
    text = shown("--transcript").stdout
    assert "── edit-preservation, openai:test, sample 1" in text
    assert "[1] asked: the prompt with the images of the case" in text
    assert f"[1] answered: {BROKEN}" in text
    assert "[2] asked: Your answer does not have the required form" in text
    assert "The prompt itself is not stored" in text
    [told] = json.loads(shown("--transcript", "--json").stdout)["edit-preservation"]
    assert told["turns"][0] == {"question": "", "answer": BROKEN, "finish": "complete"}
    assert len(told["turns"]) == len(one.turns)


def test_python_has_it_with_the_case(judged: Any, tmp_path: Path) -> None:
    told = judged(BROKEN)
    assert Run.load("latest", tmp_path / "ledger.db").case("c0").transcripts == {"edit-preservation": told}


def test_an_answer_from_another_run_says_that_its_turns_are_not_here(
    judged: Any, shown: Any, cases: Any, run: Any
) -> None:
    judged(BROKEN)
    cases(2)
    assert run("--quiet").returncode == 0
    text = shown("--transcript").stdout
    assert "Earlier turns are not stored here" in text
    assert "[2]" not in text


def test_a_transcript_is_of_a_case(
    judged: Any, tmp_path: Path, beholder: Callable[[list[str]], subprocess.CompletedProcess[str]]
) -> None:
    judged()
    ledger = ("--ledger", str(tmp_path / "ledger.db"))
    done = beholder([sys.executable, "-m", "beholder", "show", "latest", "--transcript", *ledger])
    assert (done.returncode, "name it after the run" in done.stderr) == (2, True)
