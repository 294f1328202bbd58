"""The card for people: every flag and correction is on it, whatever a judge claimed."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from beholder.reports.cards import format_score, render_verdict
from beholder.rubrics.rubric import GateRule
from beholder.verdicts.verdict import (
    Correction,
    Coverage,
    CriterionResult,
    Flag,
    Juror,
    Jury,
    Outcome,
    SentImage,
    Verdict,
    round_half_up,
)

VERDICT = Verdict("c", "r", "1", "j", Outcome.SCORED, score=0.5)


def shown(verdict: Verdict, width: int = 160) -> str:
    text = io.StringIO()
    Console(file=text, width=width).print(render_verdict(verdict))
    return text.getvalue()


@pytest.mark.parametrize("claim", [10**400, -(10**400), 1e300, "9" * 100_000, {"a": 1}, [1] * 1000])
def test_a_claim_past_all_bounds_is_quoted(
    claim: object, verdict: Callable[..., Verdict], restyle: Callable[..., dict[str, Any]]
) -> None:
    made = verdict("restyle", restyle() | {"summary": {"weighted_total": claim}})
    assert len(shown(made)) < 20_000
    assert len(shown(replace(VERDICT, corrections=(Correction("total", claim, 3, "computed"),)))) < 3_000
    if isinstance(claim, int):
        assert "a huge number" in shown(made)


def test_a_score_past_all_bounds_is_quoted(
    verdict: Callable[..., Verdict], restyle: Callable[..., dict[str, Any]]
) -> None:
    answer = restyle(confidence={})
    answer["criteria"]["accuracy"]["score"] = 10**50
    assert "said a huge number" in shown(verdict("restyle-confidence", answer))
    answer["criteria"]["accuracy"]["score"] = 10**4000
    assert verdict("restyle-confidence", answer).scored
    result = CriterionResult(score=1, reported=10**400, scale=(1, 5), weight=1)
    assert "said a huge number" in shown(replace(VERDICT, criteria={"sharp": result}))


def test_every_flag_is_on_the_card() -> None:
    flags = tuple(Flag("empty_evidence", f"A{n}", why="no evidence") for n in range(12))
    flags += tuple(Flag(f"other_{n}") for n in range(12))
    text = shown(replace(VERDICT, flags=flags))
    assert all(f"A{n}" in text and f"other_{n}" in text for n in range(12))
    assert text.count("empty_evidence") == 1


def test_a_very_long_reason_says_how_much_more_there_is() -> None:
    made = replace(VERDICT, outcome=Outcome.REFUSED, score=None, detail="no " * 10_000)
    assert "28,000 characters more" in shown(made)


def test_a_jurors_flags_are_shown_beside_it() -> None:
    juror = Juror("openai:x", 1, Outcome.SCORED, 0.5, flags=(Flag("repair_asked"), Flag("cut_off"), Flag("cut_off")))
    text = shown(replace(VERDICT, jury=Jury(1, 0, {}, None, (juror,))))
    assert "openai:x #2  0.50  ⚑ repair_asked, cut_off" in text


def test_a_failed_gate_is_named_beside_the_failure(
    verdict: Callable[..., Verdict], description: Callable[..., dict[str, Any]]
) -> None:
    made = verdict(
        "description",
        description((1, 1, 1, 0.9), hallucinations=["a", "b"]),
        gates=(GateRule(finding="hallucinations"),),
    )
    assert "failed (hallucinations)" in shown(made)
    assert "gate hallucinations (a finding that fails the case: 2 entries)" in shown(made)
    juror = Flag("gate", "juror 1: relevance", why="x")
    assert "(hallucinations)" in shown(replace(made, flags=(*made.flags, juror)))
    below = verdict("description", description((0, 0, 0, 0)), gates=(GateRule(finding="hallucinations"),))
    assert "failed" in shown(below)
    assert "failed (" not in shown(below)


def test_the_foot_is_never_cut() -> None:
    judge = "openai:a-model-with-a-very-long-name-2025-08-07"
    text = shown(replace(VERDICT, judge=judge, attempts=1, usage={"input_tokens": 12345, "output_tokens": 67890}), 80)
    flat = " ".join(text.replace("│", " ").split())
    assert f"{judge} · 12,345 + 67,890 tokens · cost unknown" in flat


def test_images_are_not_claimed_to_have_been_sent() -> None:
    image = SentImage("input", "d" * 64, 8, 8, 1000, False, "image/png", "d", 8, 8, "png")
    text = shown(replace(VERDICT, outcome=Outcome.UNREACHABLE, score=None, images=(image,)))
    assert "Images" in text
    assert "Sent" not in text


@pytest.mark.parametrize(("value", "said"), [(17.555, "17.56"), (0.705, "0.71"), (2.675, "2.68"), (20.0, "20")])
def test_card_and_seed_round_alike(value: float, said: str) -> None:
    """Halves go up, as a person rounds, and not as the nearest double happens to lie."""
    assert format_score(value) == said
    assert round_half_up(value) == float(said)
    assert f"{float(said):.2f}" in shown(replace(VERDICT, score=value))


def test_what_was_left_open_is_said_with_its_range() -> None:
    open_ = CriterionResult(None, None, (1, 5), 1, yes=1, abstained=2, score_range=(2, 4))
    unknown = CriterionResult(None, None, (1, 5), 1, abstained=5, score_range=(1, 5))
    made = replace(
        VERDICT,
        outcome=Outcome.UNMEASURED,
        score=None,
        criteria={"accuracy": open_, "charm": unknown},
        coverage=Coverage(9, 23),
        total_range=(9.5, 22.0),
        max_total=25.0,
    )
    text = shown(made)
    assert "no score: unmeasured" in text
    assert (
        "9 of 23 assertions measured; the total lies between 9.5 and 22.0 of 25; no grade below 80 % coverage" in text
    )
    assert "2–4 / 5" in text
    assert "– / 5" in text


def test_a_mean_of_some_factors_says_how_many() -> None:
    text = shown(replace(VERDICT, score_derived=True, partial=True, coverage=Coverage(5, 6, "factors")))
    assert "5 of 6 factors measured" in text
    assert "partial: rescaled to what was answered" in text
    assert "grade" not in text


def test_a_juror_that_left_too_much_open_says_so_and_has_not_failed() -> None:
    jurors = (Juror("a:b", 0, Outcome.SCORED, 0.5), Juror("instruments", 0, Outcome.UNMEASURED, detail="only 0 of 3"))
    text = shown(replace(VERDICT, jury=Jury(1, 0, {}, None, jurors)))
    assert "Jury: 1 answered, 1 unmeasured, 0 without a score" in text
    assert "unmeasured: only 0 of 3" in text
