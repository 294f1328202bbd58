"""Scoring is monotone: a higher score, a Yes for a No, or a hallucination less never makes a verdict worse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.rubrics.rubric import GateRule
from beholder.verdicts.verdict import Verdict

Answer = Callable[..., dict[str, Any]]
Judge = Callable[..., Verdict]

COUNTS = {"accuracy": 5, "completeness": 5, "relevance": 4, "usefulness": 4, "exceptional": 5}
GRADES = ["F", "C", "B", "A", "A+"]
sets = st.fixed_dictionaries({key: st.text("YN/", min_size=n, max_size=n) for key, n in COUNTS.items()}).filter(
    lambda answers: set("".join(answers.values())) != {"/"}  # where nothing applies there is no score
)
fives = st.fixed_dictionaries(dict.fromkeys(COUNTS, st.integers(1, 5)))
keys = st.sampled_from(list(COUNTS))


def no_worse(better: Verdict, worse: Verdict) -> bool:
    assert better.score is not None
    assert worse.score is not None
    return (
        better.score >= worse.score
        and better.total >= worse.total  # type: ignore[operator]
        and GRADES.index(better.grade) >= GRADES.index(worse.grade)  # type: ignore[arg-type]
        and (better.passed or not worse.passed)
    )


@settings(max_examples=150, deadline=None)
@given(answers=sets, scores=fives, key=keys)
def test_a_higher_score_never_lowers_a_restyle(
    verdict: Judge, restyle: Answer, answers: dict[str, str], scores: dict[str, int], key: str
) -> None:
    higher = scores | {key: min(5, scores[key] + 1)}
    one, other = (verdict("restyle", restyle(answers, given), threshold=0.7) for given in (higher, scores))
    assert no_worse(one, other)


@settings(max_examples=150, deadline=None)
@given(answers=sets, scores=fives, key=keys)
def test_a_yes_for_a_no_never_lowers_a_restyle(
    verdict: Judge, restyle: Answer, answers: dict[str, str], scores: dict[str, int], key: str
) -> None:
    kinder = answers | {key: answers[key].replace("N", "Y", 1)}
    one, other = (verdict("restyle", restyle(given, scores), threshold=0.7) for given in (kinder, answers))
    assert no_worse(one, other)


@settings(max_examples=150, deadline=None)
@given(answers=sets, sure=st.fixed_dictionaries({k: st.lists(st.integers(1, 5), min_size=n, max_size=n) for k, n in
                                                 COUNTS.items()}), key=keys)  # fmt: skip
def test_a_yes_for_a_no_never_lowers_a_restyle_with_confidence(
    verdict: Judge, restyle: Answer, answers: dict[str, str], sure: dict[str, list[int]], key: str
) -> None:
    kinder = answers | {key: answers[key].replace("N", "Y", 1)}
    one, other = (
        verdict("restyle-confidence", restyle(given, confidence=sure), threshold=0.7) for given in (kinder, answers)
    )
    assert no_worse(one, other)


hundredths = st.integers(0, 100)


@settings(max_examples=150, deadline=None)
@given(scores=st.tuples(*[hundredths] * 4), which=st.integers(0, 3), more=st.integers(1, 100))
def test_a_higher_score_never_lowers_a_description(
    verdict: Judge, description: Answer, scores: tuple[int, ...], which: int, more: int
) -> None:
    higher = [min(100, one + more) if n == which else one for n, one in enumerate(scores)]
    better, worse = (verdict("description", description([one / 100 for one in given])) for given in (higher, scores))
    assert better.score >= worse.score  # type: ignore[operator]
    assert better.passed or not worse.passed


@settings(max_examples=100, deadline=None)
@given(scores=st.tuples(*[hundredths] * 4), lies=st.lists(st.text(max_size=10), max_size=3), gated=st.booleans())
def test_another_hallucination_never_turns_fail_into_pass(
    verdict: Judge, description: Answer, scores: tuple[int, ...], lies: list[str], gated: bool
) -> None:
    gates = (GateRule(finding="hallucinations"),) if gated else ()
    given = [one / 100 for one in scores]
    fewer = verdict("description", description(given, hallucinations=lies), gates=gates)
    more = verdict("description", description(given, hallucinations=[*lies, "a unicorn"]), gates=gates)
    assert fewer.passed or not more.passed
    assert fewer.score == more.score
    if gated:
        assert more.passed is False


@settings(max_examples=100, deadline=None)
@given(scores=st.tuples(*[st.integers(1, 7)] * 3), which=st.integers(0, 2))
def test_a_higher_factor_never_lowers_the_mean(
    verdict: Judge, factors: Answer, scores: tuple[int, ...], which: int
) -> None:
    higher = [min(7, one + 1) if n == which else one for n, one in enumerate(scores)]
    better, worse = (verdict("edit-preservation online", factors(given)) for given in (higher, scores))
    assert better.score >= worse.score  # type: ignore[operator]
