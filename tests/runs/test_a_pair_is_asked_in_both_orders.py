"""Which of two is better is asked in both orders: two calls, one verdict; a flip is a tie, a failed call never is."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.preferences import MIRRORED, candidates, choose, judge_by, paint, pair, prefer_red

from beholder import Answer, Case, CaseError, Ledger, Outcome, ScriptedJudge, Unreachable, UsageError, judge, plan, run
from beholder.rubrics.brief import Brief, Composer
from beholder.rubrics.load import load_rubric

PRICES = {"input": 1.0, "output": 10.0}


def flags_of(verdict: Any) -> list[str]:
    return [flag.flag for flag in verdict.flags]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 255), st.integers(0, 255))
def test_a_judge_that_ignores_positions_gives_mirrored_verdicts(first: int, second: int) -> None:
    if first == second:
        return
    there = judge("edit-preference", pair(first, second), judge=judge_by())
    back = judge("edit-preference", pair(second, first), judge=judge_by())
    assert there.preference is not None
    assert back.preference is not None
    assert back.preference.winner == MIRRORED[str(there.preference.winner)]
    assert back.preference.strength == there.preference.strength
    assert there.score is not None
    assert back.score == 1 - there.score
    for key, result in there.criteria.items():
        assert back.criteria[key].choice == MIRRORED[str(result.choice)]
        assert result.score is not None
        assert back.criteria[key].score == -result.score
    assert not there.preference.flipped
    assert there.flags == back.flags == ()
    # The four briefs are two: that of (x, y) swapped is that of (y, x).
    digests = [{answer.order: answer.brief_digest for answer in one.preference.answers} for one in (there, back)]  # type: ignore[union-attr]  # asserted above
    assert (digests[0]["given"], digests[0]["swapped"]) == (digests[1]["swapped"], digests[1]["given"])


@given(st.sampled_from(["A", "B"]), st.integers(1, 3))
@settings(max_examples=6, deadline=None)
def test_a_judge_that_always_names_one_position_gives_flips_only(letter: str, strength: int) -> None:
    verdict = judge("edit-preference", pair(200, 10), judge=ScriptedJudge(choose(letter, strength)))
    assert verdict.preference is not None
    assert (verdict.preference.winner, verdict.preference.flipped, verdict.score) == ("tie", True, 0.5)
    assert verdict.preference.strength is None
    assert flags_of(verdict).count("order_flip") == 1
    assert {answer.choice for answer in verdict.preference.answers} == {"first", "second"}
    assert {result.score for result in verdict.criteria.values()} == {0}


@pytest.mark.parametrize(
    ("given_order", "swapped", "winner", "flag"),
    [
        ("A", "B", "first", None),
        ("B", "A", "second", None),
        ("both_bad", "both_bad", "both_bad", None),
        ("A", "A", "tie", "order_flip"),
        ("A", "tie", "tie", "order_lean"),
        ("both_bad", "A", "tie", "order_lean"),
        ("both_bad", "tie", "tie", None),
    ],
)
def test_what_two_orders_come_to(given_order: str, swapped: str, winner: str, flag: str | None) -> None:
    def say(brief: Brief) -> dict[str, Any]:
        return choose(given_order if candidates(brief)[0] == 200 else swapped)

    verdict = judge("edit-preference", pair(200, 10), judge=judge_by(say))
    assert verdict.preference is not None
    assert verdict.preference.winner == winner
    assert [one for one in flags_of(verdict) if one.startswith("order_")] == ([flag] if flag else [])
    assert [answer.order for answer in verdict.preference.answers] == ["given", "swapped"]


def test_images_and_flags_have_the_roles_of_the_case() -> None:
    one = judge_by()
    verdict = judge("edit-preference", pair(200, 10), judge=one)
    again = judge("edit-preference", pair(10, 200), judge=one)
    by_role = {image.role: image.digest for image in verdict.images}
    assert list(by_role) == ["input", "first", "second"]
    assert {image.role: image.digest for image in again.images}["first"] == by_role["second"]


@pytest.mark.parametrize("outcome", ["refused", "unreachable", "invalid"])
def test_a_failed_call_is_its_outcome_and_never_a_tie(outcome: str) -> None:
    def say(brief: Brief) -> Any:
        if candidates(brief)[0] == 200:
            return choose("A")
        if outcome == "unreachable":
            return Unreachable("the line is dead")
        return "I'm sorry, I can't help with that." if outcome == "refused" else "well"

    verdict = judge("edit-preference", pair(200, 10), judge=judge_by(say))
    assert (str(verdict.outcome), verdict.score) == (outcome, None)
    assert verdict.preference is not None
    assert verdict.preference.winner is None
    assert [(one.order, str(one.outcome), one.choice) for one in verdict.preference.answers] == [
        ("given", "scored", "first"),
        ("swapped", outcome, None),
    ]
    assert verdict.detail.startswith("swapped order: ")


def test_a_resume_asks_only_for_the_order_that_failed(tmp_path: Path) -> None:
    works = False
    asked: list[int] = []

    def say(brief: Brief) -> Any:
        asked.append(candidates(brief)[0])
        return prefer_red(brief) if works or candidates(brief)[0] == 200 else Unreachable("the line is dead")

    place = tmp_path / "runs.db"
    cases = [pair(200, 10, source="photo1", model_first="m1", model_second="m2")]
    first = run(rubric="edit-preference", cases=cases, judge=judge_by(say), ledger=place)
    [verdict] = first.verdicts()
    assert verdict.outcome is Outcome.UNREACHABLE
    assert sorted(asked) == [10, 200]
    works = True
    second = run(rubric="edit-preference", cases=cases, judge=judge_by(say), ledger=place)
    assert second.id == first.id
    [verdict] = second.verdicts()
    assert verdict.preference is not None
    assert verdict.preference.winner == "first"
    assert sorted(asked) == [10, 10, 200]
    third = run(rubric="edit-preference", cases=cases, judge=judge_by(say), ledger=place)
    assert len(asked) == 3
    assert next(iter(third.verdicts())) == verdict
    # Both raw answers are kept.
    with Ledger.open(place, create=False) as ledger:
        texts = ledger.raw_answers(first.id, "200-10")["edit-preference"]
    assert sorted(json.loads(text)["overall"]["choice"] for text in texts) == ["A", "B"]


def test_the_mirrored_pair_costs_no_call(tmp_path: Path) -> None:
    one = judge_by()
    place = tmp_path / "runs.db"
    run(rubric="edit-preference", cases=[pair(200, 10)], judge=one, ledger=place)
    assert len(one.briefs) == 2
    done = run(rubric="edit-preference", cases=[pair(10, 200)], judge=one, ledger=place)
    [verdict] = done.verdicts()
    assert len(one.briefs) == 2
    assert verdict.preference is not None
    assert verdict.preference.winner == "second"


def test_orders_may_be_one(tmp_path: Path) -> None:
    one = judge_by()
    verdict = judge("edit-preference", pair(200, 10), judge=one, options={"orders": "given"})
    assert verdict.preference is not None
    assert ([answer.order for answer in verdict.preference.answers], len(one.briefs)) == (["given"], 1)
    assert verdict.answer
    shown: dict[str, str] = {}
    for number in range(40):
        for _ in range(2):
            verdict = judge("edit-preference", pair(200, 10, f"c{number}"), judge=one, options={"orders": "random"})
            assert verdict.preference is not None
            [answer] = verdict.preference.answers
            assert shown.setdefault(verdict.case, answer.order) == answer.order
            assert verdict.preference.winner == "first"
            assert [image.role for image in verdict.images] == ["input", "first", "second"]
    assert 8 < list(shown.values()).count("swapped") < 32


def test_a_jury_of_samples_in_both_orders() -> None:
    fair, biased = judge_by(name="fair"), ScriptedJudge(choose("A"), name="biased")
    verdict = judge("edit-preference", pair(200, 10), judge=[fair, biased], samples=3)
    assert (len(fair.briefs), len(biased.briefs)) == (6, 6)
    assert verdict.preference is not None
    assert verdict.jury is not None
    # Three jurors say first, three a tie by a flip.
    assert (verdict.preference.winner, verdict.preference.flipped) == ("tie", True)
    assert "jury_split" in flags_of(verdict)
    assert flags_of(verdict).count("order_flip") == 3
    assert len(verdict.preference.answers) == 12
    assert [(one.judge, one.sample, one.score) for one in verdict.jury.jurors][2:4] == [
        ("fair", 2, 1.0),
        ("biased", 0, 0.5),
    ]
    assert verdict.jury.spread["score"] == 0.5
    assert verdict.jury.agreement == 0
    majority = judge("edit-preference", pair(200, 10), judge=[fair, judge_by(name="too"), biased])
    assert majority.preference is not None
    assert majority.jury is not None
    assert (majority.preference.winner, majority.preference.strength, majority.score) == ("first", 3.0, 1.0)
    failing = ScriptedJudge(Unreachable("dead"), name="dead")
    fewer = judge("edit-preference", pair(200, 10), judge=[fair, failing])
    assert fewer.preference is not None
    assert fewer.jury is not None
    assert (fewer.preference.winner, fewer.jury.failed, "jurors_failed" in flags_of(fewer)) == ("first", 1, True)


def test_the_strength_of_a_jury_counts_each_juror_once() -> None:
    def say(brief: Brief) -> Any:
        answer = choose("A" if candidates(brief)[0] > candidates(brief)[1] else "B", 1)
        if candidates(brief)[0] < candidates(brief)[1]:
            del answer["overall"]["strength"]
        return answer

    verdict = judge("edit-preference", pair(200, 10), judge=[judge_by(name="far"), judge_by(say, name="slightly")])
    assert verdict.preference is not None
    assert [answer.strength for answer in verdict.preference.answers] == [3, 3, 1, None]
    assert verdict.preference.strength == 2


def test_a_budget_counts_both_calls(tmp_path: Path) -> None:
    def say(brief: Brief) -> Answer:
        return Answer(json.dumps(prefer_red(brief)), cost_usd=Decimal("0.01"))

    done = run(rubric="edit-preference", cases=[pair(200, 10)], judge=judge_by(say), ledger=tmp_path / "runs.db")
    [verdict] = done.verdicts()
    assert (verdict.cost_usd, verdict.attempts) == (Decimal("0.02"), 2)
    assert done.record.spent_usd == Decimal("0.02")


def test_a_plan_counts_every_call(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "rubric": "edit-preference",
        "cases": [pair(200, 10), pair(90, 10)],
        "judge": "openai:gpt-5-mini",
    }
    whole = plan(**given)
    assert (whole.verdicts, whole.calls) == (2, 4)
    assert plan(**given, samples=2).calls == 8
    assert plan(**given, orders="given").calls == 2


@pytest.mark.parametrize("as_file", [False, True])
def test_the_same_image_twice_is_a_sentence(tmp_path: Path, as_file: bool) -> None:
    images: dict[str, Any] = {"input": paint(0), "first": paint(9), "second": paint(9)}
    if as_file:
        for role in ("first", "second"):
            (tmp_path / f"{role}.png").write_bytes(images[role])
            images[role] = str(tmp_path / f"{role}.png")
    case = Case("c1", images, {"instruction": "make it red"})
    with pytest.raises(CaseError, match="the same image as first and second"):
        judge("edit-preference", case, judge=judge_by())


def test_orders_of_a_rubric_that_compares_nothing_are_wrong_use() -> None:
    case = Case("c1", {"input": paint(0), "edited": paint(9)}, {"instruction": "make it red"})
    with pytest.raises(UsageError, match="orders: is for rubrics that ask which of two is better"):
        judge("edit-preservation", case, judge=judge_by(), options={"orders": "given"})


def test_candidates_are_compared_once_and_not_while_cases_are_judged(tmp_path: Path) -> None:
    """Reading files holds up the event loop: it is left to the check of a case, and briefs compare digests."""
    for role in ("first", "second"):
        (tmp_path / f"{role}.png").write_bytes(paint(9))
    images: dict[str, Any] = {"input": paint(0), **{role: tmp_path / f"{role}.png" for role in ("first", "second")}}
    case = Case("c1", images, {"instruction": "make it red"})
    composer = Composer(load_rubric("edit-preference"))
    assert composer.rubric_for(case).is_preference
    assert not composer.is_ready_for(case)  # sessions check it in a thread
    with pytest.raises(CaseError, match="the same image as first and second"):
        composer.check(case)


def test_a_pair_with_one_image_missing_is_a_sentence() -> None:
    case = Case("c1", {"input": paint(0), "first": paint(9)}, {"instruction": "make it red"})
    with pytest.raises(CaseError, match="lacks the image 'second'"):
        judge("edit-preference", case, judge=judge_by())


def test_two_texts_are_compared() -> None:
    def say(brief: Brief) -> dict[str, Any]:
        text = "".join(getattr(block, "text", "") for block in brief.content)
        a, b = (text.split(f'name="Candidate {letter}">\n')[1].split("\n</data")[0] for letter in "AB")
        keys = brief.criteria
        assert len(keys) == 3
        better = "A" if len(a) > len(b) else "B"
        block = {"reason": "longer", "choice": better, "strength": 1}
        return {"criteria": {one.key: block for one in keys}, "overall": block}

    texts: dict[str, Any] = {"input": "What is it?", "first": "A cat.", "second": "A cat on a mat."}
    verdict = judge("description-preference", image=paint(3), judge=judge_by(say), **texts)
    assert verdict.preference is not None
    assert verdict.preference.winner == "second"
    with pytest.raises(CaseError, match="the same text as first and second"):
        judge("description-preference", image=paint(3), judge=judge_by(say), **{**texts, "first": texts["second"]})
