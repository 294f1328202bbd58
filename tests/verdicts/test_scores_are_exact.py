"""Code scores, exactly: the worked examples of the design, and every number worked out a second time."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.rubrics.rubric import GateRule, Rubric
from beholder.verdicts.verdict import Correction, Verdict

Answer = Callable[..., dict[str, Any]]
Judge = Callable[..., Verdict]

WEIGHTS = {"accuracy": Fraction(1), "completeness": Fraction(1), "relevance": Fraction(1, 2),
           "usefulness": Fraction(1, 2), "exceptional": Fraction(2)}  # fmt: skip
COUNTS = {"accuracy": 5, "completeness": 5, "relevance": 4, "usefulness": 4, "exceptional": 5}
GRADES = ((90, "A+"), (80, "A"), (70, "B"), (60, "C"), (0, "F"))
TOPS = (5, 4, 3, 2)

sets = st.fixed_dictionaries({key: st.text("YN/", min_size=n, max_size=n) for key, n in COUNTS.items()}).filter(
    lambda answers: set("".join(answers.values())) != {"/"}  # where nothing applies there is no score
)
fives = st.fixed_dictionaries(dict.fromkeys(COUNTS, st.integers(1, 5)))


def by_hand(answers: dict[str, str], scores: dict[str, int]) -> tuple[Fraction, str]:
    """The percentage and grade of a restyle, worked out in six lines."""
    counted = {
        key: min(scores[key], TOPS[min(said.count("N"), 3)]) for key, said in answers.items() if set(said) != {"/"}
    }
    reached = sum((WEIGHTS[key] * score for key, score in counted.items()), Fraction())
    percentage = 100 * reached / sum(5 * WEIGHTS[key] for key in counted)
    return percentage, next(grade for least, grade in GRADES if percentage >= least)


@settings(max_examples=300, deadline=None)
@given(answers=sets, scores=fives)
def test_a_restyle_comes_to_what_it_comes_to_by_hand(
    verdict: Judge, restyle: Answer, answers: dict[str, str], scores: dict[str, int]
) -> None:
    made = verdict("restyle", restyle(answers, scores))
    percentage, grade = by_hand(answers, scores)
    assert made.scored
    assert made.grade == grade
    assert made.percentage == float(percentage)
    assert made.score == float(percentage / 100)
    assert made.total == float(percentage / 4)
    assert made.max_total == 25
    assert made.partial == any(set(said) == {"/"} for said in answers.values())
    for key, said in answers.items():
        one = made.criteria[key]
        assert (one.yes, one.no, one.not_applicable) == (said.count("Y"), said.count("N"), said.count("/"))


def test_a_dimension_that_does_not_apply_leaves_the_total(verdict: Judge, restyle: Answer) -> None:
    made = verdict("restyle", restyle({"relevance": "////"}))
    assert (made.total, made.max_total, made.percentage, made.grade, made.partial) == (20.0, 25.0, 80.0, "A", True)
    assert made.criteria["relevance"].score is None
    assert made.corrections == (Correction("relevance.score", 4, None, "none of its assertions applied"),)


@pytest.mark.parametrize("given", [None, "N/A", "n/a", "absent"])
def test_a_dimension_that_does_not_apply_needs_no_score(given: object, verdict: Judge, restyle: Answer) -> None:
    answer = restyle({"relevance": "////"}, {"relevance": given})
    if given == "absent":
        del answer["criteria"]["relevance"]["score"]
    assert verdict("restyle", answer).total == 20.0


@pytest.mark.parametrize(("failures", "score", "stands"), [
    (failures, score, min(score, TOPS[min(failures, 3)])) for failures in range(6) for score in range(1, 6)
])  # fmt: skip
def test_a_ceiling_binds_and_its_lower_end_only_flags(
    failures: int, score: int, stands: int, verdict: Judge, restyle: Answer, flags: Callable[..., list[str]]
) -> None:
    made = verdict("restyle", restyle({"accuracy": "N" * failures + "Y" * (5 - failures)}, {"accuracy": score}))
    assert (made.criteria["accuracy"].score, made.criteria["accuracy"].reported) == (stands, score)
    lowered = [one for one in made.corrections if one.at == "accuracy.score"]
    assert [(one.said, one.stands) for one in lowered] == ([(score, stands)] if stands < score else [])
    assert flags(made) == (["below_guidance"] if stands < (4, 3, 2, 1)[min(failures, 3)] else [])


def test_why_a_score_was_lowered_is_said(verdict: Judge, restyle: Answer) -> None:
    made = verdict("restyle", restyle({"accuracy": "NYYYY"}, {"accuracy": 5}))
    assert made.corrections == (Correction("accuracy.score", 5, 4, "1 failed assertion allows at most 4"),)


def test_a_failure_that_does_not_apply_is_none(verdict: Judge, restyle: Answer) -> None:
    assert verdict("restyle", restyle({"accuracy": "YYY//"}, {"accuracy": 5})).criteria["accuracy"].score == 5
    assert verdict("restyle", restyle({"accuracy": "YYYN/"}, {"accuracy": 5})).criteria["accuracy"].score == 4


def test_the_worked_example_passes_at_its_threshold(verdict: Judge, description: Answer) -> None:
    made = verdict("description", description((0.35, 1, 0.95, 0.7)))
    assert (made.score, made.passed, made.grade) == (0.7, True, "Good")
    just_under = verdict("description", description((0.34999999, 1, 0.95, 0.7)))
    assert (just_under.passed, just_under.grade) == (False, "Acceptable")


def test_the_seeds_own_example_is_086(verdict: Judge, description: Answer) -> None:
    made = verdict("description", description((0.9, 0.8, 0.85, 0.9), score=0.85, passed=True))
    assert made.score == 0.86
    assert made.to_dict()["reported"] == {"score": 0.85, "passed": True}
    assert [(one.at, one.said, one.stands) for one in made.corrections] == [("score", 0.85, 0.86)]


units = st.integers(0, 1000).map(lambda n: Fraction(n, 1000))


@settings(max_examples=200, deadline=None)
@given(scores=st.tuples(units, units, units, units), threshold=st.integers(0, 100))
def test_a_description_comes_to_what_it_comes_to_by_hand(
    verdict: Judge, description: Answer, scores: tuple[Fraction, ...], threshold: int
) -> None:
    exact = sum(weight * one for weight, one in zip((40, 30, 20, 10), scores, strict=True)) / 100
    made = verdict("description", description([float(one) for one in scores]), threshold=threshold / 100)
    assert made.score == float(exact)
    assert made.passed == (exact >= Fraction(threshold, 100))
    bands = ((90, "Excellent"), (70, "Good"), (50, "Acceptable"), (30, "Poor"), (0, "Failed"))
    assert made.grade == next(name for least, name in bands if exact >= Fraction(least, 100))


@pytest.mark.parametrize(("scores", "grade"), [
    # of 25, with everything else at 5: a point of E is 2, of A 1, of R or U 0.5
    ({"exceptional": 4, "relevance": 4}, "A+"),  # 22.5 is 90 %
    ({"exceptional": 4, "relevance": 3}, "A"),
    ({"exceptional": 3, "accuracy": 4}, "A"),  # 20 is 80 %
    ({"exceptional": 3, "accuracy": 4, "relevance": 4}, "B"),
    ({"exceptional": 2, "accuracy": 4, "relevance": 4}, "B"),  # 17.5 is 70 %
    ({"exceptional": 2, "accuracy": 3}, "C"),
    ({"exceptional": 1, "accuracy": 3}, "C"),  # 15 is 60 %
    ({"exceptional": 1, "accuracy": 3, "usefulness": 4}, "F"),
])  # fmt: skip
def test_grades_change_at_the_unrounded_percentage(
    scores: dict[str, int], grade: str, verdict: Judge, restyle: Answer
) -> None:
    assert verdict("restyle", restyle(scores=scores, score=5)).grade == grade


def test_a_percentage_that_rounds_to_90_is_no_a_plus(verdict: Judge, restyle: Answer) -> None:
    answer = restyle(
        confidence={"exceptional": [4, 4, 4, 4, 4], "accuracy": [4, 4, 5, 5, 5], "relevance": [4, 5, 5, 5]}
    )
    # 4.6 + 5 + 2.375 + 2.5 + 8 = 22.475 of 25 is 89.9 %
    made = verdict("restyle-confidence", answer)
    assert (made.total, made.percentage, made.grade) == (22.475, 89.9, "A")


def test_confidence_is_pass_rate_times_mean_confidence(verdict: Judge, restyle: Answer) -> None:
    made = verdict("restyle-confidence", restyle({"accuracy": "YNYNY"}, confidence={"accuracy": [5, 5, 5, 5, 4]}))
    assert made.criteria["accuracy"].score == 2.88  # 3/5 × 4.8
    assert made.max_total == 25


def test_confidence_of_an_answer_that_does_not_apply_does_not_count(verdict: Judge, restyle: Answer) -> None:
    made = verdict("restyle-confidence", restyle({"accuracy": "YYN//"}, confidence={"accuracy": [5, 4, 3, 1, 1]}))
    assert made.criteria["accuracy"].score == float(Fraction(2, 3) * 4)


def test_a_confidence_score_is_at_most_the_top_of_its_scale_and_at_least_0(verdict: Judge, restyle: Answer) -> None:
    made = verdict("restyle-confidence", restyle({"accuracy": "NNNNN"}, confidence={}))
    assert (made.criteria["accuracy"].score, made.criteria["completeness"].score) == (0, 5)
    assert made.criteria["accuracy"].scale == (0, 5)


def test_the_mean_factor_is_offered_and_marked_as_derived(verdict: Judge, factors: Answer) -> None:
    made = verdict("edit-preservation online", factors((7, 4, 2)))
    assert made.score == float((Fraction(6, 6) + Fraction(3, 6) + Fraction(1, 6)) / 3)
    assert made.score_derived
    assert (made.total, made.percentage, made.grade, made.passed) == (None, None, None, None)


def test_gates_fail_a_case_whatever_its_score(verdict: Judge, description: Answer) -> None:
    perfect = description((1, 1, 1, 1), hallucinations=["a cat"])
    assert verdict("description", perfect).passed is True
    gate = (GateRule(finding="hallucinations"),)
    assert verdict("description", perfect, gates=gate).passed is False
    assert verdict("description", description((1, 1, 1, 1)), gates=gate).passed is True
    assert verdict("description", description((1, 1, 1, 1), hallucinations=["", " "]), gates=gate).passed is True
    least = (GateRule(criterion="clarity", least=0.5),)
    assert verdict("description", description((1, 1, 0.5, 1)), gates=least).passed is True
    assert verdict("description", description((1, 1, 0.49, 1)), gates=least).passed is False
    assert verdict("description", description((0, 0, 1, 0)), gates=least, threshold=None).passed is True


def test_a_gate_that_fails_a_case_says_why(verdict: Judge, description: Answer, restyle: Answer) -> None:
    gates = (GateRule(finding="hallucinations"), GateRule(criterion="clarity", least=0.5))
    low = (1, 1, 0.495, 1)
    made = verdict("description", description(low, hallucinations=["a cat", "a dog"]), gates=gates)
    assert [(one.flag, one.at, one.why) for one in made.flags] == [
        ("gate", "hallucinations", "a finding that fails the case: 2 entries"),
        ("gate", "clarity", "0.495 is below the least, 0.5"),
    ]
    made = verdict("description", description((0, 0, 0, 0), hallucinations=["a cat"]), gates=gates[:1])
    assert [one.why for one in made.flags] == ["a finding that fails the case: 1 entry"]  # below the threshold too
    lowered = restyle({"accuracy": "NYYYY"}, score=5)
    made = verdict("restyle", lowered, gates=(GateRule(criterion="accuracy", least=5),))
    assert [(one.at, one.why) for one in made.flags] == [("accuracy", "4 is below the least, 5")]
    assert verdict("description", description((1, 1, 1, 1)), gates=gates).flags == ()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_scale_and_weight_of_a_users_rubric(data: st.DataObject, verdict: Judge) -> None:
    from beholder.rubrics.rubric import Criterion, RubricImage, Scoring

    criteria, expected, weights, blocks = [], Fraction(0), 0, {}
    for n in range(data.draw(st.integers(1, 4))):
        low = data.draw(st.integers(-50, 50))
        high = low + data.draw(st.integers(1, 100))
        weight = data.draw(st.integers(1, 40))
        score = data.draw(st.integers(low * 10, high * 10))
        criteria.append(Criterion(key=f"c{n}", scale=(low, high), weight=weight / 8, whole=False))
        blocks[f"c{n}"] = {"score": score / 10, "reason": "x"}
        expected += weight * (Fraction(score, 10) - low) / (high - low)
        weights += weight
    rubric = Rubric("mine", tuple(criteria), images=(RubricImage("a", "A"),), scoring=Scoring(threshold=0.5))
    made = verdict(rubric, {"criteria": blocks})
    assert made.scored, made.detail
    assert made.score == float(expected / weights)
    assert made.passed == (expected / weights >= Fraction(1, 2))
