"""A run whose cases are chosen in rounds, by the verdicts so far: it grows, stops, resumes, and is one run."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

import beholder
from beholder.cases.case import Case
from beholder.errors import UsageError
from beholder.judges.recorded import ScriptedJudge
from beholder.ledger.ledger import Ledger
from beholder.runs.suite import Suite, SuiteObjects, load_suite

ANSWER = {
    "criteria": {
        name: {"reason": "fifteen words are wanted here and so there are fifteen words in this one reason", "score": 5}
        for name in ("unchanged_regions", "global_consistency", "identity_preservation")
    }
}


class TwoByTwo:
    """Chooses two cases that have no verdict, until there are `most`."""

    name = "two by two"

    def __init__(self, cases: Sequence[Case], most: int) -> None:
        self.cases, self.most = cases, most
        self.rounds: list[list[str]] = []

    def choose_cases(self, ledger: Ledger, run: str, ids: Collection[str]) -> Collection[str]:
        done = set(ledger.case_ids(run))
        left = [case.id for case in self.cases if case.id in ids and case.id not in done]
        chosen = left[: 2 if len(done) < self.most else 0]
        self.rounds.append(chosen)
        return chosen


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    from PIL import Image

    made = []
    for number in range(9):
        for role, shade in (("input", 90), ("edited", 120)):
            image = Image.new("RGB", (64, 64), (shade, number * 20, 40))
            image.save(tmp_path / f"{number}-{role}.png")
        images = {role: tmp_path / f"{number}-{role}.png" for role in ("input", "edited")}
        made.append(Case(f"c{number}", images, {"instruction": "make it red"}))
    return made


def make_suite(cases: Sequence[Case], rounds: TwoByTwo | None, judge: ScriptedJudge, ledger: str | Path) -> Suite:
    flags = {"rubric": "edit-preservation", "judges": ["scripted"], "ledger": str(ledger), "audit": False}
    return load_suite(None, flags, SuiteObjects(cases=cases, judges={0: judge}, rounds=rounds))


def test_a_run_grows_by_its_rounds_and_is_finished_when_none_is_left(cases: list[Case], place: str) -> None:
    judge, rounds = ScriptedJudge(ANSWER), TwoByTwo(cases, 5)
    run = beholder.run(make_suite(cases, rounds, judge, place), progress=False)
    assert rounds.rounds == [["c0", "c1"], ["c2", "c3"], ["c4", "c5"], []]
    assert (run.state, run.total, len(judge.briefs)) == ("finished", 6, 6)
    assert run.record.suite["rounds"] == "two by two"
    assert sorted(verdict.case for verdict in run.verdicts()) == [f"c{number}" for number in range(6)]
    with Ledger.open(place) as ledger:
        assert ledger.find_incomplete_runs() == []
        assert sorted(
            position for case in ledger.case_ids(run.id) if (position := ledger.case_position(run.id, case)) is not None
        ) == [*range(6)]


def test_the_same_call_goes_on_where_it_was_and_asks_nothing_twice(cases: list[Case], place: str) -> None:
    first = beholder.run(make_suite(cases, TwoByTwo(cases, 3), ScriptedJudge(ANSWER), place), progress=False)
    judge, rounds = ScriptedJudge(ANSWER), TwoByTwo(cases, 7)
    again = beholder.run(make_suite(cases, rounds, judge, place), progress=False)
    assert again.id == first.id
    assert (first.total, again.total, len(judge.briefs)) == (4, 8, 4)
    assert rounds.rounds == [["c4", "c5"], ["c6", "c7"], []]


def test_what_failed_is_asked_again_at_the_next_start_only(cases: list[Case], tmp_path: Path) -> None:
    judge = ScriptedJudge(say=lambda brief: "no JSON at all")
    first = beholder.run(make_suite(cases, TwoByTwo(cases, 3), judge, tmp_path / "a.db"), progress=False)
    assert {str(verdict.outcome) for verdict in first.verdicts()} == {"invalid"}
    asked = len({brief.digest for brief in judge.briefs})
    assert asked == 4
    better = ScriptedJudge(ANSWER)
    again = beholder.run(make_suite(cases, TwoByTwo(cases, 3), better, tmp_path / "a.db"), progress=False)
    assert again.id == first.id
    assert len(better.briefs) == 4
    assert {str(verdict.outcome) for verdict in again.verdicts()} == {"scored"}
    assert again.total == 4


def test_a_stopped_run_is_interrupted_whatever_its_rounds_were(
    cases: list[Case], tmp_path: Path, asked_to_stop: threading.Event
) -> None:
    stop = threading.Event()

    def say(brief: object) -> object:
        stop.set()
        assert asked_to_stop.wait(60)
        return ANSWER

    judge = ScriptedJudge(say=say)  # type: ignore[arg-type]  # a line of JSON
    run = beholder.run(make_suite(cases, TwoByTwo(cases, 9), judge, tmp_path / "a.db"), progress=False, stop=stop)
    assert run.state == "interrupted"
    assert run.total == len(list(run.verdicts())) <= 2


def test_cases_that_cannot_be_read_are_not_chosen(cases: list[Case], tmp_path: Path) -> None:
    (tmp_path / "0-edited.png").write_bytes(b"no image")
    rounds = TwoByTwo(cases, 9)
    suite = make_suite(cases, rounds, ScriptedJudge(ANSWER), tmp_path / "a.db")
    run = beholder.run(suite, progress=False, skip_bad=True)
    assert run.total == 8
    assert "c0" not in {id_ for chosen in rounds.rounds for id_ in chosen}


def test_a_run_in_rounds_is_not_the_run_of_all_cases(cases: list[Case], tmp_path: Path) -> None:
    some = beholder.run(make_suite(cases, TwoByTwo(cases, 3), ScriptedJudge(ANSWER), tmp_path / "a.db"), progress=False)
    judge = ScriptedJudge(ANSWER)
    every = beholder.run(make_suite(cases, None, judge, tmp_path / "a.db"), progress=False)
    assert every.id != some.id
    assert (every.total, len(judge.briefs)) == (9, 5)  # four answers are in the ledger
    with pytest.raises(UsageError, match="its selection of cases differ"):
        beholder.run(make_suite(cases, None, judge, tmp_path / "a.db"), progress=False, resume=some.id)
