"""A judge of your own that fails is an outcome, as any other; one that is written wrongly is told in one sentence."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from support.scripts import PATIENCE_S

from beholder import Answer, AnswerError, Case, ScriptedJudge, Session, SetupError, run
from beholder.rubrics.brief import Brief

RUBRIC = "edit-preservation"
KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
ANSWER = {"criteria": {key: {"justification": " ".join(["seen"] * 20), "score": 6} for key in KEYS}}


class OwnJudge(ScriptedJudge):
    """Fails at the second question."""

    def __init__(self, failure: BaseException) -> None:
        super().__init__(ANSWER, name="own")
        self.failure = failure

    async def answer(self, brief: Brief, **how: Any) -> Answer:
        answer = await super().answer(brief, **how)
        if len(self.briefs) == 2:
            raise self.failure
        return answer


@pytest.fixture
def cases(make_case: Callable[[int], Case]) -> list[Case]:
    return [make_case(number) for number in range(4)]


@pytest.mark.parametrize(
    ("failure", "outcome", "detail"),
    [
        (ConnectionError("reset by peer"), "unreachable", "the judge raised ConnectionError: reset by peer"),
        (TimeoutError(), "unreachable", "the judge raised TimeoutError: "),
        (KeyError("choices"), "unreachable", "the judge raised KeyError: 'choices'"),
        (AnswerError(["no score", "no words"]), "invalid", "no score; no words"),
        (SystemExit(3), "unreachable", "the judge raised SystemExit: 3"),
        (KeyboardInterrupt(), "unreachable", "the judge raised KeyboardInterrupt: "),
        (asyncio.CancelledError(), "unreachable", "the judge raised CancelledError: "),
        (BaseException("panicked"), "unreachable", "the judge raised BaseException: panicked"),
    ],
)
def test_what_it_raises_is_an_outcome(failure: BaseException, outcome: str, detail: str, cases: list[Case]) -> None:
    with Session(OwnJudge(failure), concurrency=1) as session:
        verdicts = list(session.judge_many(RUBRIC, cases))
    assert [verdict.outcome for verdict in verdicts] == ["scored", outcome, "scored", "scored"]
    assert verdicts[1].detail == detail


def test_it_cannot_end_the_program_or_the_loop_of_a_run(cases: list[Case]) -> None:
    done = run(rubric=RUBRIC, cases=cases, judge=OwnJudge(SystemExit(0)), ledger="a.db", progress=False)
    assert (done.state, dict(done.summary.outcomes)) == ("finished", {"scored": 3, "unreachable": 1})


def test_ctrl_c_while_it_answers_ends_a_program_whose_loop_is_in_the_main_thread(cases: list[Case]) -> None:
    code = """
import asyncio
from beholder import AsyncSession, ScriptedJudge
class Interrupted(ScriptedJudge):
    async def answer(self, brief, **how):
        raise KeyboardInterrupt
async def main():
    async with AsyncSession(Interrupted("{}")) as session:
        await session.judge("edit-preservation", input="a0.png", edited="a0.png", instruction="x")
asyncio.run(main())
print("not interrupted")
"""
    Path("a0.png").write_bytes(Path(str(cases[0].images["input"])).read_bytes())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert "KeyboardInterrupt" in done.stderr


def test_a_run_goes_on_and_the_log_has_the_traceback(cases: list[Case], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "beholder")
    done = run(rubric=RUBRIC, cases=cases, judge=OwnJudge(KeyError("choices")), ledger="a.db", progress=False)
    assert (done.state, dict(done.summary.outcomes)) == ("finished", {"scored": 3, "unreachable": 1})
    logged = [(record.levelname, record.message) for record in caplog.records if "KeyError" in record.message]
    assert [level for level, _ in logged] == ["WARNING", "DEBUG"]
    assert logged[0][1] == "the judge own raised KeyError"
    assert "raise self.failure" in logged[1][1]


@pytest.mark.parametrize(
    "text",
    [
        "GET https://models.example/v1?key=AIzaSyA1234567890abcdefghijklmnop failed",
        "headers {'Authorization': 'Bearer sk-proj-Zq7PxT4mW9vRb2NcLk8sYd3H'}",
        "x" * 470 + " sk-proj-Zq7PxT4mW9vRb2NcLk8sYd3H",
    ],
)
def test_a_key_in_what_it_raises_is_nowhere(text: str, cases: list[Case], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "beholder")
    with Session(OwnJudge(ConnectionError(text)), concurrency=1, ledger="a.db") as session:
        detail = list(session.judge_many(RUBRIC, cases))[1].detail
    assert "ConnectionError" in detail
    kept = detail + caplog.text + b"".join(file.read_bytes() for file in Path().glob("a.db*")).decode("latin-1")
    assert "the judge raised ConnectionError" in kept
    assert "AIzaSy" not in kept
    assert "sk-proj" not in kept


class WrongJudge(ScriptedJudge):
    """Answers with what is no `Answer`."""

    def __init__(self, value: object) -> None:
        super().__init__("{}", name="own")
        self.value = value

    async def answer(self, brief: Brief, **how: Any) -> Any:
        return self.value


class SynchronousJudge(ScriptedJudge):
    def answer(self, brief: Brief, **how: Any) -> Any:
        return Answer("{}")


@pytest.mark.parametrize(
    ("judge", "sentence"),
    [
        (WrongJudge("{}"), "The judge 'own' returned a value of type str; its `answer` is to return an Answer"),
        (WrongJudge(None), "The judge 'own' returned a value of type NoneType"),
        (WrongJudge(Answer(cast("str", ANSWER))), "The judge 'own' returned a value of type dict"),
        (SynchronousJudge("{}", name="own"), "The judge 'own' cannot be asked: its `answer` is to be an `async def`."),
    ],
)
def test_what_is_no_answer_is_told(judge: ScriptedJudge, sentence: str, cases: list[Case]) -> None:
    with Session(judge) as session, pytest.raises(SetupError) as error:
        session.judge(RUBRIC, cases[0])
    assert str(error.value).startswith(sentence)
