"""The card for people: every flag and correction is on it, whatever a judge claimed."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from beholder.reports.card import card
from beholder.verdicts.model import Correction, CriterionResult, Flag, Juror, Jury, Outcome, Verdict

VERDICT = Verdict("c", "r", "1", "j", Outcome.SCORED, score=0.5)


def shown(verdict: Verdict) -> str:
    console = Console(file=io.StringIO(), width=160)
    console.print(card(verdict))
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("claim", [10**400, -(10**400), 1e300, "9" * 100_000, {"a": 1}, [1] * 1000])
def test_a_claim_past_all_bounds_is_quoted(claim: object, verdict: Callable[..., Verdict], restyle: Callable) -> None:
    made = verdict("restyle", restyle() | {"summary": {"weighted_total": claim}})
    assert len(shown(made)) < 20_000
    assert len(shown(replace(VERDICT, corrections=(Correction("total", claim, 3, "computed"),)))) < 3_000
    if isinstance(claim, int):
        assert "a huge number" in shown(made)


def test_a_score_past_all_bounds_is_quoted(verdict: Callable[..., Verdict], restyle: Callable) -> None:
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
