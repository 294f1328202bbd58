"""`--format seed`: exactly the JSON of the seed, and reading it back gives the same verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.errors import UsageError
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.score import VerdictHeader
from beholder.verdicts.seed_format import to_seed_format
from beholder.verdicts.verdict import Outcome, Verdict

Answer = Callable[..., dict[str, Any]]
Judge = Callable[..., Verdict]

COUNTS = {"accuracy": 5, "completeness": 5, "relevance": 4, "usefulness": 4, "exceptional": 5}
sets = st.fixed_dictionaries({key: st.text("YN/", min_size=n, max_size=n) for key, n in COUNTS.items()}).filter(
    lambda answers: set("".join(answers.values())) != {"/"}  # where nothing applies there is no score
)
fives = st.fixed_dictionaries(dict.fromkeys(COUNTS, st.integers(1, 5)))
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


def outcome(verdict: Verdict) -> dict[str, Any]:
    """All that a seed's JSON can carry: not what the judge first said, nor what was noted beside it."""
    kept = verdict.to_dict()
    for gone in ("corrections", "flags", "reported"):
        del kept[gone]
    for result in kept["criteria"].values():
        del result["reported"]
    return kept


def back(verdict: Judge, name: str, first: Verdict, rubrics: dict[str, Rubric]) -> Verdict:
    assert first.scored, first.detail
    text = json.dumps(to_seed_format(first, rubrics[name]))
    second = verdict(name, text)
    assert second.scored, second.detail
    assert not second.corrections
    return second


@settings(max_examples=150, deadline=None)
@given(answers=sets, scores=fives, words=texts)
def test_a_restyle(
    verdict: Judge,
    restyle: Answer,
    rubrics: dict[str, Rubric],
    answers: dict[str, str],
    scores: dict[str, int],
    words: str,
) -> None:
    answer = restyle(answers, scores) | {"assessment": words}
    first = verdict("restyle", answer)
    assert outcome(back(verdict, "restyle", first, rubrics)) == outcome(first)


@settings(max_examples=150, deadline=None)
@given(answers=sets, sure=st.fixed_dictionaries({key: st.lists(st.integers(1, 5), min_size=n, max_size=n)
                                                 for key, n in COUNTS.items()}))  # fmt: skip
def test_a_restyle_with_confidence(
    verdict: Judge, restyle: Answer, rubrics: dict[str, Rubric], answers: dict[str, str], sure: dict[str, list[int]]
) -> None:
    first = verdict("restyle-confidence", restyle(answers, confidence=sure))
    assert outcome(back(verdict, "restyle-confidence", first, rubrics)) == outcome(first)


hundredths = st.integers(0, 100).map(lambda n: n / 100)
lists = st.lists(texts, max_size=3)


@settings(max_examples=150, deadline=None)
@given(scores=st.tuples(*[hundredths] * 4), lies=lists, missing=lists, words=texts)
def test_a_description(
    verdict: Judge,
    description: Answer,
    rubrics: dict[str, Rubric],
    scores: tuple[float, ...],
    lies: list[str],
    missing: list[str],
    words: str,
) -> None:
    answer = description(scores, hallucinations=lies, missing_elements=missing, assessment=words)
    first = verdict("description", answer)
    one, other = outcome(first), outcome(back(verdict, "description", first, rubrics))
    for kept in (one, other):  # the seed has one reasoning for all four scores
        for result in kept["criteria"].values():
            del result["reason"]
    assert one == other


FACTORS = [
    f"{name} {one}" for name in ("edit-preservation", "edit-quality", "edit-fidelity") for one in ("online", "offline")
]


@settings(max_examples=150, deadline=None)
@given(data=st.data(), name=st.sampled_from(FACTORS))
def test_factors(verdict: Judge, rubrics: dict[str, Rubric], data: st.DataObject, name: str) -> None:
    blocks = {
        one.key: {"score": data.draw(st.integers(1, 7)), "justification": data.draw(texts)}
        for one in rubrics[name].criteria
    }
    first = verdict(name, {"image_id": "case-1", "criteria": blocks})
    assert outcome(back(verdict, name, first, rubrics)) == outcome(first)


def test_the_restyle_form_is_the_seeds(verdict: Judge, restyle: Answer, rubrics: dict[str, Rubric]) -> None:
    first = verdict("restyle", restyle({"accuracy": "YYYYN", "relevance": "////"}, {"accuracy": 5}))
    seed = to_seed_format(first, rubrics["restyle"])
    assert list(seed) == ["style", "assertions", "summary", "overall_assessment"]
    assert list(seed["assertions"]) == list(COUNTS)
    accuracy = seed["assertions"]["accuracy"]
    assert list(accuracy) == ["results", "pass_rate", "score", "reason"]
    assert (accuracy["pass_rate"], accuracy["score"]) == ("4/5", 4)
    assert list(accuracy["results"][0]) == ["id", "question", "answer", "evidence"]
    assert [one["answer"] for one in accuracy["results"]] == ["Yes"] * 4 + ["No"]
    assert "Mosaic" in accuracy["results"][0]["question"]
    assert seed["assertions"]["relevance"]["score"] == "N/A"
    assert {one["answer"] for one in seed["assertions"]["relevance"]["results"]} == {"N/A"}
    assert seed["summary"] == {
        "total_assertions": 19, "total_passed": 18, "overall_pass_rate": "18/19", "weighted_total": 20.0,
        "max_score": 25.0, "percentage": 80.0, "grade": "A",
    }  # fmt: skip
    assert list(seed["summary"]) == ["total_assertions", "total_passed", "overall_pass_rate", "weighted_total",
                                     "max_score", "percentage", "grade"]  # fmt: skip
    assert seed["style"] == "Mosaic"


def test_the_description_form_is_the_seeds(verdict: Judge, description: Answer, rubrics: dict[str, Rubric]) -> None:
    first = verdict("description", description((0.9, 0.8, 0.85, 0.9), missing_elements=["wall art"], score=0.85))
    assert json.dumps(to_seed_format(first, rubrics["description"])) == json.dumps(
        {
            "score": 0.86,
            "passed": True,
            "details": {"visual_accuracy": 0.9, "completeness": 0.8, "clarity": 0.85, "relevance": 0.9},
            "reasoning": "Fine.",
            "hallucinations": [],
            "missing_elements": ["wall art"],
            "strengths": [],
            "improvements": [],
        }
    )


def test_numbers_have_at_most_two_decimals(verdict: Judge, description: Answer, rubrics: dict[str, Rubric]) -> None:
    seed = to_seed_format(verdict("description", description((0.125, 0.333, 1, 0.005))), rubrics["description"])
    assert seed["details"] == {"visual_accuracy": 0.13, "completeness": 0.33, "clarity": 1, "relevance": 0.01}
    assert seed["score"] == 0.35  # 0.05 + 0.0999 + 0.2 + 0.0005 = 0.3504


@pytest.mark.parametrize("name", FACTORS)
def test_the_form_of_the_factors_is_the_seeds(name: str, verdict: Judge, rubrics: dict[str, Rubric]) -> None:
    blocks = {one.key: {"score": 4, "justification": "x"} for one in rubrics[name].criteria}
    seed = to_seed_format(verdict(name, {"image_id": "case-1", "criteria": blocks}), rubrics[name])
    results = "online_factor_results" if name.endswith("online") else "offline_factor_results"
    assert list(seed) == ["image_id", results]
    assert seed["image_id"] == "p12/anime"  # the real id, not the label that the judge saw
    assert [list(block) for block in seed[results].values()] == [["score", "justification"]] * len(blocks)


def test_what_is_not_scored_has_no_seed_format(rubrics: dict[str, Rubric]) -> None:
    for one in Outcome:
        if one is not Outcome.SCORED:
            with pytest.raises(UsageError, match=str(one)):
                to_seed_format(
                    VerdictHeader("c", rubrics["description"], "j").make_verdict(one), rubrics["description"]
                )


def test_a_rubric_of_ones_own_has_no_seed_format(verdict: Judge) -> None:
    from beholder.rubrics.rubric import Criterion

    mine = Rubric("mine", (Criterion("a"),))
    with pytest.raises(UsageError, match="no seed format"):
        to_seed_format(verdict(mine, {"criteria": {"a": {"score": 3, "reason": "x"}}}), mine)
