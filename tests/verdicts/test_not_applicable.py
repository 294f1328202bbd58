"""N/A in its three modes: accepted and flagged, offered, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beholder.cases.case import Case
from beholder.rubrics.brief import Composer
from beholder.rubrics.rubric import Assertion, Criterion, NotApplicable, Rubric, RubricImage, ScoringKind
from beholder.verdicts.verdict import Outcome, Verdict

Answer = Callable[..., dict[str, Any]]
Judge = Callable[..., Verdict]


@pytest.mark.parametrize("written", ["N/A", "n/a", "NA", "Not applicable", " N/A. ", "not_applicable"])
def test_accepted_it_is_flagged_and_leaves_the_denominator(
    written: str, verdict: Judge, restyle: Answer, flags: Callable[..., list[str]]
) -> None:
    answer = restyle({"accuracy": "NYYYY"})
    answer["criteria"]["accuracy"]["assertions"]["A5"]["answer"] = written
    made = verdict("restyle", answer)
    one = made.criteria["accuracy"]
    assert (one.yes, one.no, one.not_applicable, one.score) == (3, 1, 1, 4)
    assert one.assertions[4].answer == "not_applicable"
    assert flags(made) == ["not_applicable"]
    assert made.flags[0].at == "A5"
    assert not made.partial


def test_offered_it_is_no_news(verdict: Judge, restyle: Answer) -> None:
    made = verdict("restyle", restyle({"accuracy": "YYYY/"}), not_applicable=NotApplicable.OFFER)
    assert made.flags == ()
    assert made.criteria["accuracy"].not_applicable == 1


def test_a_condition_offers_it_for_its_own_assertion_only(
    verdict: Judge, restyle: Answer, flags: Callable[..., list[str]]
) -> None:
    """In the generic set A2 asks for people and A3 for animals."""
    made = verdict("restyle", restyle({"accuracy": "Y//YY"}))
    assert made.flags == ()
    made = verdict("restyle", restyle({"accuracy": "///YY"}))
    assert [(flag.flag, flag.at) for flag in made.flags] == [("not_applicable", "A1")]


def test_refused_it_is_an_error(verdict: Judge, restyle: Answer) -> None:
    made = verdict("restyle", restyle({"accuracy": "YYYY/"}), not_applicable=NotApplicable.REFUSE)
    assert made.outcome is Outcome.INVALID
    assert "A5.answer is N/A, which this rubric does not allow" in made.detail


def test_a_whole_dimension_is_marked_partial_in_each_mode(
    verdict: Judge, restyle: Answer, flags: Callable[..., list[str]]
) -> None:
    answer = restyle({"relevance": "////"})
    for mode, told in ((NotApplicable.ACCEPT, 4), (NotApplicable.OFFER, 0)):
        made = verdict("restyle", answer, not_applicable=mode)
        assert (made.total, made.partial) == (20.0, True)
        assert sorted(flags(made)) == sorted(["not_applicable"] * told + ["partial"])


def test_it_does_not_count_into_total_assertions(verdict: Judge, restyle: Answer) -> None:
    answer = restyle({"relevance": "////"}) | {"summary": {"total_assertions": 19, "total_passed": 19}}
    assert not [one for one in verdict("restyle", answer).corrections if one.at.startswith("total")]
    answer["summary"] = {"total_assertions": 23}
    assert [one.stands for one in verdict("restyle", answer).corrections if one.at == "total_assertions"] == [19]


def test_a_preset_knows_which_of_its_assertions_have_conditions(verdict: Judge, restyle: Answer) -> None:
    anime = Composer(Rubric.load("restyle")).rubric_for(Case("c", fields={"style": "Anime"}))
    conditional = {one.id for one in anime.assertions() if one.applies}
    assert conditional == {"A2", "A3", "C3", "C4", "E1"}
    answer = restyle({"accuracy": "Y//YY", "completeness": "YY//Y", "exceptional": "/YYYY"})
    assert verdict(anime, answer).flags == ()


COUNTS = {"accuracy": 5, "completeness": 5, "relevance": 4, "usefulness": 4, "exceptional": 5}


@pytest.mark.parametrize("mode", [NotApplicable.ACCEPT, NotApplicable.OFFER])
def test_an_answer_in_which_nothing_applies_has_no_score(mode: str, verdict: Judge, restyle: Answer) -> None:
    made = verdict("restyle", restyle({key: "/" * n for key, n in COUNTS.items()}), not_applicable=mode)
    assert made.outcome is Outcome.INVALID
    assert made.detail == "nothing in it applies: every assertion is N/A"
    assert (made.score, made.criteria) == (None, {})


@pytest.mark.parametrize("kind", ScoringKind)
def test_a_criterion_without_weight_is_nothing_to_score(kind: ScoringKind, verdict: Judge) -> None:
    sharp = Criterion(key="sharp", assertions=(Assertion("Is it sharp?", id="S1"),))
    rubric = Rubric("mine", (sharp, Criterion(key="calm", weight=0)), images=(RubricImage("photo", "Photo"),))
    blocks = {
        "sharp": {"assertions": {"S1": {"answer": "N/A", "evidence": "dark"}}, "score": 3, "reason": "x"},
        "calm": {"score": 5, "reason": "x"},
    }
    made = verdict(rubric, {"criteria": blocks}, kind=kind)
    assert made.outcome is Outcome.INVALID
    assert made.detail == "nothing in it applies: every assertion of a criterion with a weight is N/A"
    blocks["sharp"]["assertions"] = {"S1": {"answer": "Yes", "evidence": "edges"}}
    assert verdict(rubric, {"criteria": blocks}, kind=kind).score is not None
