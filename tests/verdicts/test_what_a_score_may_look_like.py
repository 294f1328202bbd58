"""Numbers as models write them: 6.0 and "6" are 6, flagged; 4.5 is off a whole scale; true, NaN, infinity never."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from beholder.rubrics.rubric import Rubric
from beholder.verdicts.parse import parse_number
from beholder.verdicts.verdict import Outcome, Verdict, quote_value

Answer = Callable[..., dict[str, Any]]
Judge = Callable[..., Verdict]

HUGE = "9" * 4000


def written(answer: dict[str, object], score: str) -> str:
    """The answer as JSON with `score` written into it as it is."""
    return json.dumps(answer).replace('"HERE"', score)


@pytest.mark.parametrize(
    ("score", "flagged"),
    [
        ("6", False),
        ("6.0", True),
        ('"6"', True),
        ("6.00", True),
        ("6e0", True),
        ('" 6 "', True),
        ('"6.0"', True),
        ('"+6"', True),
    ],
)
def test_a_whole_score_in_another_form_is_read_and_flagged(
    score: str, flagged: bool, verdict: Judge, factors: Answer, flags: Callable[..., list[str]]
) -> None:
    made = verdict("edit-preservation online", written(factors(("HERE", 4, 4)), score))
    assert made.criteria["unchanged_regions"].score == 6
    assert isinstance(made.criteria["unchanged_regions"].score, int)
    assert flags(made) == (["score_in_odd_form"] if flagged else [])
    if flagged:
        assert made.flags[0].at == "unchanged_regions.score"


NEVER = ["true", "false", "null", "[]", "[6]", "{}", '""', '"six"', '"6/7"', '"6 out of 7"', '"NaN"', '"Infinity"',
         '"1e1"', HUGE, "-" + HUGE, "1e400", "-1e400", "1e999999999", "1e-999999999", f"1e{HUGE}", f"1e-{HUGE}",
         "0.1e99999", "6." + "0" * 70 + "1", '"' + "6" * 100 + '"', "NaN", "Infinity", "-Infinity"]  # fmt: skip


@pytest.mark.parametrize("score", [*NEVER, "4.5", "0", "8", "-1", "6.999", '"4.5"', "7.0000001", "9" * 5000])
def test_what_is_no_score_of_a_whole_scale_is_invalid(score: str, verdict: Judge, factors: Answer) -> None:
    made = verdict("edit-preservation online", written(factors(("HERE", 4, 4)), score))
    assert made.outcome is Outcome.INVALID
    assert made.detail
    assert len(made.detail) < 400
    assert made.score is None
    assert made.criteria == {}


@pytest.mark.parametrize(("score", "value"), [("0", 0), ("1", 1), ("0.5", 0.5), ("1.0", 1),
                                              ("0.123456789012", 0.123456789012), ("5e-1", 0.5), ("-0.0", 0),
                                              ("1E0", 1), ("0." + "3" * 50, 1 / 3)])  # fmt: skip
def test_a_description_takes_any_number_from_0_to_1(
    score: str, value: float, verdict: Judge, description: Answer, flags: Callable[..., list[str]]
) -> None:
    made = verdict("description", written(description(("HERE", 0, 0, 0)), score))
    assert made.criteria["visual_accuracy"].score == value
    assert flags(made) == []


@pytest.mark.parametrize("score", [*NEVER, "1.0000001", "-0.0000001", "2", "85", '"85%"'])
def test_what_is_no_number_from_0_to_1_is_invalid(score: str, verdict: Judge, description: Answer) -> None:
    made = verdict("description", written(description(("HERE", 0, 0, 0)), score))
    assert made.outcome is Outcome.INVALID


def test_scores_without_an_object_around_them(
    verdict: Judge, rubrics: dict[str, Rubric], flags: Callable[..., list[str]], restyle: Answer
) -> None:
    """All that the published form of `description` has; flagged for an edit; for a restyle no answer at all."""
    details = {"details": dict.fromkeys(("visual_accuracy", "completeness", "clarity", "relevance"), 0.5)}
    made = verdict("description", details | {key: [] for key in ("hallucinations", "missing_elements", "strengths",
                                                                 "improvements")} | {"reasoning": "x"})  # fmt: skip
    assert (made.score, flags(made)) == (0.5, [])
    keys = ("unchanged_regions", "global_consistency", "identity_preservation")
    made = verdict("edit-preservation online", {"criteria": dict.fromkeys(keys, 4)})
    assert (made.score, flags(made)) == (0.5, ["empty_reason"] * 3)
    made = verdict("edit-preservation online", {"criteria": dict.fromkeys(keys, "4")})
    assert sorted(flags(made)) == ["empty_reason"] * 3 + ["score_in_odd_form"] * 3
    answer = restyle()
    answer["criteria"]["accuracy"] = 4
    made = verdict("restyle", answer)
    assert made.outcome is Outcome.INVALID
    assert made.detail == "accuracy should be an object with its assertions and is 4"
    assert verdict("restyle-confidence", {"criteria": dict.fromkeys(answer["criteria"], 4)}).outcome is Outcome.INVALID


@pytest.mark.parametrize("sure", ["0", "6", "4.5", "true", "null", '"sure"', "NaN"])
def test_a_confidence_is_a_whole_number_from_1_to_5(sure: str, verdict: Judge, restyle: Answer) -> None:
    answer = restyle(confidence={"accuracy": ["HERE", 5, 5, 5, 5]})
    assert verdict("restyle-confidence", written(answer, sure)).outcome is Outcome.INVALID
    made = verdict("restyle-confidence", written(answer, "4.0"))
    assert [(flag.flag, flag.at) for flag in made.flags] == [("score_in_odd_form", "A1.confidence")]


@pytest.mark.parametrize("value", [True, False, None, [], {}, "x", float("nan"), float("inf"), "١٢٣٤٥٦٧٨٩٠١٢٣", "²"])
def test_what_is_no_number_is_none(value: object) -> None:
    assert parse_number(value) is None


def test_a_quoted_value_is_short_and_on_one_line() -> None:
    for value in ("x" * 10_000, "a\nb", "\u202e", 10**5000, -(10**5000), {"a": 1}, [1], None, True, 1.5):
        assert len(quote_value(value)) <= 60
        assert quote_value(value).isprintable()


def test_a_verdict_is_json_whatever_the_judge_claimed(verdict: Judge, description: Answer) -> None:
    for claimed in ("1e400", "-1e400", HUGE, "1e-400", "123456789012345678901234567890.5"):
        made = verdict("description", written(description(score="HERE"), claimed))
        assert made.scored
        text = json.dumps(made.to_dict(), allow_nan=False)
        assert HUGE not in text
        assert [one.at for one in made.corrections] == ["score"]
