"""Cases that are not in the numbers of a comparison are named, counted, and weighed."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from beholder.reports.ci import comparison_junit, comparison_markdown, format_prose
from beholder.reports.comparison import comparison_notes, conclusion
from beholder.statistics.comparison import Comparison, ComparisonOptions, compare
from beholder.statistics.data import Column, ColumnKind, Scores
from beholder.statistics.gate import FailOn, gate_comparison

NAN = float("nan")


def scores(name: str, values: list[float], **lacks: str) -> Scores:
    cases = tuple(f"c{row}" for row in range(len(values)))
    column = Column("score", ColumnKind.OVERALL, np.array(values), (0.0, 1.0))
    return Scores(name, cases, {"score": column}, {"source": cases}, lacks)


def lost(count: int, of: int = 40) -> Comparison:
    """The last `count` cases are refused in the second run; all others are as they were, up to a little."""
    old = [0.8] * of
    new = [0.8 + 0.01 * (-1) ** row for row in range(of - count)] + [NAN] * count
    refused = {f"c{row}": "refused, I cannot" for row in range(of - count, of)}
    return compare(scores("old", old), scores("new", new, **refused), ComparisonOptions(margin=0.02))


def test_a_case_that_is_refused_in_one_run_is_named_with_what_it_said() -> None:
    found = lost(1)
    assert [(one.case, one.before, one.after, one.lost) for one in found.uneven_cases] == [
        ("c39", "scored", "refused, I cannot", ("score",))
    ]
    assert (found.cases, found.changes[0].cases, found.changes[0].lost) == (40, 39, 1)
    assert any("c39 (before: scored; now: refused, I cannot)" in note for note in comparison_notes(found))
    assert found.to_dict()["unlike"] == [
        {"case": "c39", "before": "scored", "after": "refused, I cannot", "lost": ["score"], "gained": []}
    ]


def test_what_refusals_could_turn_is_said_and_leaves_the_gate_open() -> None:
    found = lost(10)
    change = found.changes[0]
    assert change.worst is not None
    assert change.worst.value == pytest.approx(-0.2, abs=0.01)
    assert any(
        "10 cases had a score and have none now" in note and "wholly below the margin" in note
        for note in comparison_notes(found)
    )
    assert gate_comparison(found).failed == {}
    assert "10 cases have no number any more" in gate_comparison(found, fail_on=FailOn.INCONCLUSIVE).failed["score"]


def test_the_first_thing_said_is_how_many_cases_the_result_does_not_speak_of() -> None:
    old = [0.6 + 0.01 * (row % 9) for row in range(60)]
    half = compare(scores("old", old), scores("half", old[:30] + [NAN] * 30))
    said = conclusion(half)
    assert re.match(r"30 of 60 cases lost their score; had each the lowest, score would be worse by 0\.3\d\d \(", said)
    assert said.endswith(
        "it could be a regression. Of the others only: "
        "half is the same as old on 30 of 60 cases, those with a number in both runs."
    )
    one = compare(scores("old", old), scores("new", [*old[:59], NAN], c59="refused"), ComparisonOptions(margin=0.5))
    assert conclusion(one) == (
        "1 of 60 cases lost its score. Of the others only: "
        "new is the same as old on 59 of 60 cases, those with a number in both runs."
    )


def test_cases_without_a_number_before_are_not_counted_as_the_same() -> None:
    old = [0.6 + 0.01 * (row % 9) for row in range(60)]
    assert conclusion(compare(scores("old", [*old[:40], *[NAN] * 20]), scores("new", old))) == (
        "new is the same as old on 40 of 60 cases, those with a number in both runs."
    )


def test_a_gate_that_is_open_in_spite_of_lost_cases_says_so_and_what_would_close_it() -> None:
    found = lost(10)
    decided = gate_comparison(found)
    assert (decided.failed, decided.undecided) == ({}, {})
    assert decided.unweighed.startswith(
        "10 of 40 cases lost their score, which the gate does not look at: to fail on `inc"
    )
    assert "`max_unscored` of a run" in decided.unweighed
    assert decided.to_dict()["unweighed"] == decided.unweighed
    text = comparison_markdown(found, decided)
    assert "⚠️ **No regression shown, and cases lost** on <code>score</code>." in text
    assert format_prose(decided.unweighed) in text
    assert decided.unweighed in comparison_junit(found, decided)
    assert gate_comparison(found, fail_on=FailOn.INCONCLUSIVE).unweighed == ""
    assert gate_comparison(compare(scores("old", [0.5] * 9), scores("new", [0.5] * 9))).unweighed == ""


def test_a_run_that_was_refused_throughout_still_has_its_columns() -> None:
    old = scores("old", [0.8] * 12)
    refused = Scores("new", old.cases, {}, old.groups, dict.fromkeys(old.cases, "refused, no"))
    found = compare(old, refused, ComparisonOptions(margins={"score": 0.02}))
    assert [(one.name, one.cases, one.lost) for one in found.changes] == [("score", 0, 12)]
    assert found.is_empty
    assert conclusion(found).startswith(
        "12 of 12 cases lost their score; had each the lowest, score would be worse by 0.800"
    )
    assert conclusion(found).endswith("Nothing has a number in both old and new: they cannot be compared.")
    assert not any("cannot be compared" in warning for warning in found.warnings)
    back = compare(refused, old)
    assert [(one.name, one.cases, one.lost) for one in back.changes] == [("score", 0, 0)]


def test_a_rubric_that_was_refused_throughout_is_lost_and_one_that_was_left_out_is_not() -> None:
    first = Column("a.score", ColumnKind.OVERALL, np.full(12, 0.8), (0.0, 1.0))
    cases = tuple(f"c{row}" for row in range(12))
    old = Scores("old", cases, {"a.score": first, "b.score": replace(first, name="b.score")})
    new = Scores("new", cases, {"a.score": first})
    refused = replace(new, missing_reasons=dict.fromkeys(cases, "refused, no"))
    assert {one.name: one.lost for one in compare(old, refused).changes} == {"a.score": 0, "b.score": 12}
    left_out = compare(old, new)
    assert [one.name for one in left_out.changes] == ["a.score"]
    assert "Only old has b.score, which cannot be compared." in left_out.warnings


def test_refusals_that_turn_nothing_are_said_to_turn_nothing() -> None:
    worse = compare(scores("old", [0.8] * 40), scores("new", [0.3 + 0.01 * (row % 3) for row in range(39)] + [NAN]))
    assert any("not even the lowest or highest score" in note for note in comparison_notes(worse))
    assert conclusion(worse).startswith(
        "1 of 40 cases lost its score. Of the others only: new is worse on score by 0.49"
    )


def test_a_regression_that_the_lost_cases_could_undo_is_said_to_be_so() -> None:
    old, new = [0.6] * 40, [0.55 + 0.001 * (row % 3) for row in range(30)] + [NAN] * 10
    found = compare(scores("old", old), scores("new", new))
    assert any(
        "had each the highest score" in note and "not wholly below the margin" in note
        for note in comparison_notes(found)
    )


def test_cases_of_one_run_alone_are_named() -> None:
    first = scores("old", [0.5, 0.6, 0.7])
    found = compare(first.select([0, 1]), scores("new", [0.5, 0.6, 0.7]).select([1, 2]))
    assert (found.only_before, found.only_after, found.cases) == (("c0",), ("c2",), 1)
    assert "1 case is only in old: c0." in comparison_notes(found)
    assert "1 case is only in new: c2." in comparison_notes(found)


def test_cases_without_a_score_in_both_runs_are_named() -> None:
    found = compare(
        scores("old", [0.5, NAN], c1="truncated, too long"), scores("new", [0.5, NAN], c1="refused, I cannot")
    )
    assert [(one.case, one.before, one.after) for one in found.unscored_cases] == [
        ("c1", "truncated, too long", "refused, I cannot")
    ]
    assert any("c1 (before: truncated, too long; now: refused, I cannot)" in note for note in comparison_notes(found))


def test_a_criterion_that_is_missing_in_one_run_is_named_too() -> None:
    old, new = scores("old", [0.5, 0.6]), scores("new", [0.5, 0.6])
    more = Column("accuracy", ColumnKind.CRITERION, np.array([4.0, 4.0]), (1.0, 5.0))
    fewer = replace(more, values=np.array([4.0, NAN]))
    found = compare(
        Scores("old", old.cases, {**old.columns, "accuracy": more}),
        Scores("new", new.cases, {**new.columns, "accuracy": fewer}),
    )
    assert [(one.case, one.lost) for one in found.uneven_cases] == [("c1", ("accuracy",))]
    assert any("c1 (no accuracy any more)" in note for note in comparison_notes(found))


def test_nothing_left_to_compare_is_a_sentence_and_not_a_zero() -> None:
    found = compare(scores("old", [0.5, 0.5]), scores("new", [NAN, NAN], c0="refused, no", c1="refused, no"))
    assert found.changes[0].difference.value is None
    assert "cannot be compared" in conclusion(found)
    assert len(found.uneven_cases) == 2
