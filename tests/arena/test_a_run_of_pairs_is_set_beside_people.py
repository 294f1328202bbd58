"""The verdicts of a run of pairs are votes, and so is each answer behind them, beside those of people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.preferences import candidates, choose, judge_by, paint, pair, prefer_red

import beholder
from beholder import Case, Run, ScriptedJudge, Unreachable, UsageError, agree_arena, run, show_arena
from beholder.rubrics.brief import Brief


def say(brief: Brief) -> Any:
    """Prefer red, follow the position where one is 77, and fail in one order where it is 99."""
    if 77 in candidates(brief):
        return choose("A")
    return Unreachable("the line is dead") if candidates(brief)[0] == 99 else prefer_red(brief)


PAIRS = [(200, 10), (10, 220), (230, 10), (77, 200), (99, 10)]
PEOPLE = ["model_a", "model_b", "model_b", "model_b", "model_a"]


@pytest.fixture
def judged(tmp_path: Path) -> Run:
    cases = [pair(*one, model_first="m1", model_second="m2", source=f"photo {at}") for at, one in enumerate(PAIRS)]
    return run(rubric="edit-preference", cases=cases, judge=judge_by(say), ledger=tmp_path / "runs.db", name="pairs")


def people() -> list[dict[str, str]]:
    voted = zip(PAIRS, PEOPLE, strict=True)
    return [
        {"case": f"{first}-{second}", "model_a": "m1", "model_b": "m2", "winner": winner, "judge": "p1"}
        for (first, second), winner in voted
    ]


def test_verdicts_and_single_answers_are_votes(judged: Run) -> None:
    found = agree_arena(runs=[judged], people=people(), draws=100)
    verdicts, answers = found.judges
    assert (verdicts.judge, answers.judge) == ("scripted", "scripted, each answer")
    # Three pairs have a winner, two of them that of people; the flip is a tie; the failed pair is no vote.
    assert (verdicts.pairs, verdicts.unanswered, verdicts.decided) == (4, 1, 3)
    assert verdicts.accuracy.value == pytest.approx(2 / 4)
    assert verdicts.accuracy_decided.value == pytest.approx(2 / 3)
    assert verdicts.confusion["second"] == {"first": 1, "second": 1, "tie": 1, "both_bad": 0}
    # Of nine answers, the follower's two are split by position.
    assert (answers.pairs, answers.unanswered) == (9, 1)
    assert answers.first_judge is not None


def test_a_judge_that_follows_the_position_leans(tmp_path: Path) -> None:
    cases = [pair(200, number, model_first="m1", model_second="m2") for number in range(1, 31)]
    follower = ScriptedJudge(choose("A"))
    done = run(rubric="edit-preference", cases=cases, judge=follower, ledger=tmp_path / "runs.db")
    rows = [{"case": one.id, "model_a": "m1", "model_b": "m2", "winner": "model_a"} for one in cases]
    verdicts, answers = agree_arena(runs=[done], people=rows, draws=100).judges
    assert (verdicts.accuracy.value, answers.lean.value) == (0, 0.5)
    # Nothing was shown first to a verdict over both orders.
    assert (verdicts.lean.value, verdicts.first_judge, verdicts.first_people) == (None, None, None)
    said = beholder.estimate_arena(done, people=rows, draws=100)._repr_html_()
    assert "scripted, each answer leans to what was shown first by 0.50" in said
    assert "It leans" not in said


@pytest.mark.parametrize("jurors", [1, 2])
def test_a_judge_that_follows_the_position_leans_where_each_pair_is_asked_in_one_order(
    tmp_path: Path, jurors: int
) -> None:
    cases = [pair(200, number, model_first="m1", model_second="m2") for number in range(1, 31)]
    followers = [ScriptedJudge(choose("A"), name=f"follower {number}") for number in range(jurors)]
    ledger = tmp_path / "runs.db"
    done = run(rubric="edit-preference", cases=cases, judge=followers, ledger=ledger, options={"orders": "random"})
    rows = [{"case": one.id, "model_a": "m1", "model_b": "m2", "winner": "model_a"} for one in cases]
    found = agree_arena(runs=[done], people=rows, draws=100).judges
    shown = [verdict.preference.answers[0].order for verdict in done.verdicts() if verdict.preference]
    lean = shown.count("swapped") / len(shown)  # where the second is shown first, people would not name it
    assert 0.2 < lean < 0.8
    assert [judge.lean.value for judge in found] == [pytest.approx(lean)] * len(found)
    assert {judge.first_judge for judge in found} == {1.0}
    assert show_arena(done).statistics.lean.value == 0.5


def test_runs_of_one_judge_are_voters_of_their_own(tmp_path: Path) -> None:
    ledger = tmp_path / "runs.db"
    cases = [pair(*one, model_first="m1", model_second="m2") for one in PAIRS[:3]]
    runs = [
        run(rubric="edit-preference", cases=cases, judge=judge_by(say), ledger=ledger, name=name, fresh=True)
        for name, say in (("red", prefer_red), ("both bad", lambda brief: choose("both_bad")))
    ]
    found = agree_arena(runs=runs, people=people(), draws=100)
    assert {judge.judge: judge.pairs for judge in found.judges} == {
        "scripted (red)": 3,
        "scripted (red), each answer": 6,
        "scripted (both bad)": 3,
        "scripted (both bad), each answer": 6,
    }
    named = agree_arena(runs=["red", "both bad", "red"], ledger=ledger, people=people(), draws=100)
    assert named.to_dict() == found.to_dict()


def test_runs_of_one_name_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    cases = [pair(200, 10, model_first="m1", model_second="m2")]
    given: dict[str, Any] = {"rubric": "edit-preference", "cases": cases, "ledger": tmp_path / "runs.db", "name": "x"}
    runs = [run(**given, judge=judge_by(say), fresh=True) for say in (prefer_red, lambda brief: choose("tie"))]
    found = agree_arena(runs=runs, people=people(), draws=100).judges
    assert [judge.judge for judge in found][::2] == [f"scripted ({one.id})" for one in runs]


def test_pairs_need_no_models(tmp_path: Path) -> None:
    done = run(rubric="edit-preference", cases=[pair(200, 10)], judge=judge_by(), ledger=tmp_path / "runs.db")
    found = agree_arena(runs=[done.id], ledger=tmp_path / "runs.db", people=[{"case": "200-10", "winner": "model_a"}])
    assert found.judges[0].accuracy.value == 1


def test_a_run_of_scores_is_refused_with_a_sentence(tmp_path: Path) -> None:
    block = {"justification": " ".join(["seen"] * 16), "score": 6}
    keys = ("unchanged_regions", "global_consistency", "identity_preservation")
    case = Case("c1", {"input": paint(1), "edited": paint(2)}, {"instruction": "make it red"})
    scored = ScriptedJudge({"criteria": dict.fromkeys(keys, block)})
    done = run(rubric="edit-preservation", cases=[case], judge=scored, ledger=tmp_path / "runs.db")
    with pytest.raises(UsageError, match="does not ask which of two is better"):
        agree_arena(runs=[done], people=people())
    with pytest.raises(UsageError, match="one of the two"):
        agree_arena()
    with pytest.raises(UsageError, match="runs is a list"):
        agree_arena(runs=done, people=people())  # type: ignore[arg-type]  # what is refused


def test_a_run_that_nobody_voted_on_is_not_compared_with_its_own_answers(judged: Run) -> None:
    with pytest.raises(UsageError, match=r"Nobody has voted on the pairs of the run yet.*--people or people="):
        agree_arena(runs=[judged])


def test_runs_without_people_are_compared_among_themselves_by_their_verdicts(tmp_path: Path) -> None:
    cases = [pair(*one, model_first="m1", model_second="m2") for one in PAIRS[:3]]
    runs = [
        run(
            rubric="edit-preference",
            cases=cases,
            judge=judge_by(say),
            ledger=tmp_path / "runs.db",
            name=name,
            fresh=True,
        )
        for name, say in (("red", prefer_red), ("follower", lambda brief: choose("A")))
    ]
    found = agree_arena(runs=runs, draws=100).people
    assert found is not None
    assert (found.pairs, found.votes, found.same.value) == (3, 6, 0)


def test_agree_on_a_run_of_pairs_names_the_command_for_votes(judged: Run, tmp_path: Path) -> None:
    ledger = tmp_path / "runs.db"
    with pytest.raises(UsageError, match=rf"`beholder arena agree {judged.id} --people votes.csv --ledger .*runs.db`"):
        beholder.agree("pairs", ratings="votes.csv", ledger=ledger)
    with pytest.raises(UsageError, match=f"`beholder arena agree {judged.id}`, or agree_arena in Python"):
        beholder.agree(judged)
    with pytest.raises(UsageError, match=f"`beholder arena agree {judged.id} other --runs`"):
        beholder.agree(judged, with_="other")


def test_calibrate_and_estimate_on_a_run_of_pairs_name_the_board_that_people_correct(judged: Run) -> None:
    for refused in (beholder.calibrate, beholder.estimate):
        with pytest.raises(
            UsageError, match=f"`beholder arena estimate {judged.id} --people votes.csv`, or estimate_arena in Python"
        ):
            refused(judged, ratings="votes.csv")


def test_answers_about_one_pair_are_not_taken_as_independent(tmp_path: Path) -> None:
    cases = [pair(100, 94 + number, model_first="m1", model_second="m2") for number in range(12) if number != 6]
    done = run(rubric="edit-preference", cases=cases, judge=judge_by(prefer_red), ledger=tmp_path / "runs.db")
    verdicts, answers = show_arena(done).board, show_arena(done, position=True).board
    assert (verdicts.group, verdicts.groups, verdicts.votes) == ("", 11, 11)
    assert (answers.group, answers.groups, answers.votes) == ("case", 11, 22)
