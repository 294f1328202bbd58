"""A value of the wrong type or out of range is one sentence that names the argument, never a TypeError from within."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest
from support.statistics import write_builds

import beholder
from beholder import BeholderError, Ledger, Rubric, Run, Session, Verdict, judge_from

ANY: Any = 5  # what no type checker would let through


@pytest.fixture(autouse=True)
def _builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_builds(tmp_path / "beholder.db")


def compare(**given: Any) -> Any:
    return beholder.compare("whole", "lower", **given)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: compare(margin="x"), "margin is a number, not 'x'"),
        (lambda: compare(margin={"score": None}), "margin['score'] is a number"),
        (lambda: compare(detect=float("nan")), "detect is a number above 0, not nan"),
        (lambda: compare(seed=-1), "seed is a whole number from 0 on, not -1"),
        (lambda: compare(top="3"), "top is a whole number from 0 on, not '3'"),
        (lambda: compare(top=True), "top is a whole number"),
        (lambda: compare(draws=99), "draws is a whole number from 100 to 100,000, not 99"),
        (lambda: compare(ledger=5), "A ledger is the path of a file"),
        (lambda: beholder.compare(scores=ANY), "scores is the path of a file, not 5"),
        (lambda: beholder.agree("whole", with_="lower", scale=ANY), "low and its high end, such as (1, 7), not 5"),
        (lambda: beholder.agree("whole", with_="lower", seed=-1), "seed is a whole number"),
        (lambda: beholder.calibrate("whole", folds="3"), "folds is a whole number from 2 on, not '3'"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: beholder.calibrate(scores=[{}]), "scores is the path of a file, not a dict"),  # type: ignore[list-item]  # wrong on purpose
        (lambda: beholder.estimate("whole", pass_="x"), "pass_ is a number, not 'x'"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: beholder.estimate("whole", width=0), "The width must be above 0"),
        (lambda: beholder.history(last=0), "last is a whole number from 1 on, not 0"),
        (lambda: beholder.history(on=ANY), "on is a text or several, not 5"),
        (lambda: beholder.measure("a.png", "b.png", only=ANY), "only is a text or several, not 5"),
        (lambda: beholder.doctor(judge=ANY), "judge is the name of a judge"),
        (lambda: beholder.doctor(timeout_s=-1), "timeout_s is a number above 0, not -1"),
        (lambda: beholder.run(rubric="edit-preservation", cases=[], retry=ANY), "retry takes outcomes"),
        (lambda: Ledger.open(ANY), "A ledger is the path of a file"),
        (lambda: beholder.list_runs(ANY), "A ledger is the path of a file"),
        (lambda: Rubric.load(ANY), "A rubric is named by its name or path, not by 5"),
        (lambda: Rubric.load("edit-preservation").with_setting("x"), "no setting 'x'; there are: online, offline"),
        (lambda: judge_from(ANY), "A judge is named by a text"),
        (lambda: Verdict.from_dict(ANY), "A verdict is described by a mapping, not by 5"),
        (lambda: Run.load("whole").export(io.StringIO()), "open for bytes"),  # type: ignore[arg-type]  # wrong on purpose
        (lambda: Run.load("whole").report(ANY), "Name a file to write"),
        (lambda: Run.load("whole").report("r.html", max_mb=0), "max_mb is a number from 0.1 on, not 0"),
        (lambda: list(Run.load("whole").verdicts(outcome="scord")), "did you mean 'scored'?"),
        (lambda: list(Run.load("whole").verdicts(rubric="nope")), "there are edit-preservation."),
        (lambda: list(beholder.score({"case": "c", "answer": "x"}, "edit")), "Recorded answers are a file"),
        (lambda: list(beholder.score(pandas.DataFrame({"case": ["c"]}), "edit")), "a frame's rows"),
        (lambda: Session(name="x"), "A session has a name in a ledger"),
        (lambda: beholder.plan(rubric="edit", cases="c.jsonl", timeot_s=3), "did you mean 'timeout_s'"),
        (lambda: beholder.plan(rubric="edit", cases="c.jsonl", jugde="x"), "did you mean 'judge'"),
        (lambda: beholder.plan(rubric="edit", cases="c.jsonl", parms={}), "did you mean 'params'"),
    ],
)
def test_one_sentence(call: Callable[[], object], said: str) -> None:
    with pytest.raises(BeholderError) as error:
        call()
    assert said in str(error.value)
    assert str(error.value).count("\n") == 0


def test_the_verdicts_of_one_rubric_can_be_chosen() -> None:
    run = Run.load("whole")
    assert len(list(run.verdicts(rubric="edit-preservation"))) == len(list(run.verdicts())) > 0


def test_one_folder_of_styles_may_be_a_text(tmp_path: Path) -> None:
    with pytest.raises(BeholderError, match="nowhere"):
        beholder.score([], "restyle", styles=str(tmp_path / "nowhere"))
