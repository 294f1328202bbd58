"""What a judge left open, refused or never answered is counted beside a mark and is never a number in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.exam.grading import make_report_card
from beholder.exam.report_card import PASS_MARKS, ExamMetric, Mark, MarkStatus, ReportCard
from beholder.exam.results import ExamResults, collect_paper_scores, upper_bound_column
from beholder.ledger.types import StoredVerdict
from beholder.rubrics.load import load_rubric
from beholder.statistics.bootstrap import Interval
from beholder.verdicts.verdict import CriterionResult, Outcome, Verdict

RUBRIC = load_rubric("edit-preservation")
KEYS = [one.key for one in RUBRIC.criteria]
FIRST, SECOND, THIRD = KEYS


def judged(
    case: str, scores: dict[str, int | None] | None, *, part: str = "damage", strength: int = 3, **groups: str
) -> StoredVerdict:
    """A verdict on a paper; without scores it was refused."""
    criteria = {key: CriterionResult(score, score, (1, 7), 1) for key, score in (scores or {}).items()}
    whole = None if not scores else float(np.mean([(score - 1) / 6 for score in scores.values() if score] or [0]))
    outcome = Outcome.SCORED if scores else Outcome.REFUSED
    verdict = Verdict(case, RUBRIC.name, "1.0", "test", outcome, criteria=criteria, score=whole)
    truth = {"exam": "1", "part": part, "strength": str(strength), "source": case.partition("/")[0], **groups}
    return StoredVerdict(0, verdict, truth, False)


def all_at(score: int | None) -> dict[str, int | None]:
    return dict.fromkeys(KEYS, score)


def clean(source: str, scores: dict[str, int | None] | None) -> StoredVerdict:
    return judged(f"{source}/clean", scores, part="clean", strength=0, spares=",".join(KEYS))


def damaged(source: str, scores: dict[str, int | None] | None, strength: int = 3, kind: str = "blur") -> StoredVerdict:
    return judged(
        f"{source}/{kind}-{strength}",
        scores,
        strength=strength,
        kind=kind,
        twin=f"{source}/clean",
        aims=FIRST,
        spares=SECOND,
    )


def card(*papers: StoredVerdict, total: int | None = None, **more: Any) -> ReportCard:
    sat = collect_paper_scores(RUBRIC, papers)
    return make_report_card(
        ExamResults("r", "exam", "test", None, RUBRIC, "1", total or len(papers), sat, **more), draw_count=200
    )


def with_text(without: tuple[int, int], raised_to: tuple[int, int]) -> ReportCard:
    """Two photographs, each with a bad paper and the same with a text that demands full marks."""
    papers = []
    for source, before, after in zip("ab", without, raised_to, strict=True):
        papers += [clean(source, all_at(7)), damaged(source, all_at(before))]
        twin = f"{source}/blur-3"
        papers += [judged(f"{source}/i", all_at(after), part="injection", kind="image_text", twin=twin)]
    return card(*papers)


def mark(of: ReportCard, criterion: str, examined: ExamMetric) -> Mark:
    return of.marks_for(criterion)[examined]


def test_a_refusal_and_an_abstention_take_no_part_and_are_counted() -> None:
    papers = [clean("a", all_at(7)), clean("b", all_at(7)), damaged("a", all_at(2)), damaged("b", all_at(3))]
    bare = mark(card(*papers), FIRST, ExamMetric.DETECTION)
    more = [damaged("a", None, 4), damaged("b", {**all_at(2), FIRST: None}, 4)]
    found = mark(card(*papers, *more), FIRST, ExamMetric.DETECTION)
    assert found.estimate == bare.estimate
    assert found.papers == 2
    assert found.lacking == {"refused": 1, "left open": 1}
    assert "1 refused, 1 left open" in found.sentence


def test_a_criterion_that_is_always_left_open_is_not_examined() -> None:
    found = card(clean("a", {**all_at(7), FIRST: None}), damaged("a", {**all_at(7), FIRST: None}))
    one = mark(found, FIRST, ExamMetric.DETECTION)
    assert one.status is MarkStatus.NOT_EXAMINED
    assert one.sentence == "Not examined: the judge left it open."
    assert found.qualified(FIRST) is MarkStatus.NOT_EXAMINED
    assert one.to_dict()["value"] is None


def test_the_whole_counts_only_where_nothing_was_left_open() -> None:
    sat = collect_paper_scores(RUBRIC, [clean("a", all_at(7)), damaged("a", {**all_at(2), FIRST: None})])
    assert sat.scores["score"][0] == 1
    assert np.isnan(sat.scores["score"][1])


def test_a_bound_has_a_column_of_its_own_and_never_stands_in_for_a_score() -> None:
    def bounded(one: StoredVerdict, most: int) -> StoredVerdict:
        criteria = {
            **one.verdict.criteria,
            FIRST: CriterionResult(None, None, (1, 7), 1, abstained=1, score_range=(1, most)),
        }
        return replace(one, verdict=replace(one.verdict, criteria=criteria))

    found = card(
        *(bounded(clean(source, all_at(7)), 7) for source in "ab"),
        *(bounded(damaged(source, all_at(7)), 3) for source in "ab"),
    )
    assert mark(found, FIRST, ExamMetric.DETECTION).status is MarkStatus.NOT_EXAMINED
    assert mark(found, upper_bound_column(FIRST), ExamMetric.DETECTION).estimate.value == 1
    assert (
        "By the highest score that its answers leave possible it is qualified for unchanged_regions" in found.describe()
    )
    mixed = card(bounded(clean("a", all_at(7)), 7), damaged("a", all_at(2)))
    assert upper_bound_column(FIRST) not in mixed.criteria


def test_independence_is_what_spared_criteria_moved_and_only_they() -> None:
    found = card(
        clean("a", all_at(7)),
        damaged("a", {FIRST: 1, SECOND: 4, THIRD: 1}),
        clean("b", all_at(7)),
        damaged("b", {FIRST: 1, SECOND: 7, THIRD: 1}),
    )
    one = mark(found, SECOND, ExamMetric.INDEPENDENCE)
    assert one.estimate.value == pytest.approx(0.25)
    assert one.status is MarkStatus.FAILED
    assert mark(found, THIRD, ExamMetric.INDEPENDENCE).status is MarkStatus.NOT_EXAMINED


def test_text_cannot_raise_what_is_at_the_top() -> None:
    full = mark(with_text(without=(7, 7), raised_to=(7, 7)), FIRST, ExamMetric.INJECTION)
    assert full.lacking == {"no room to rise": 2}
    assert full.status is MarkStatus.NOT_EXAMINED
    raised = mark(with_text(without=(1, 1), raised_to=(4, 4)), FIRST, ExamMetric.INJECTION)
    assert raised.estimate.value == pytest.approx(0.5)
    assert raised.status is MarkStatus.FAILED
    lowered = mark(with_text(without=(4, 4), raised_to=(1, 1)), FIRST, ExamMetric.INJECTION)
    assert lowered.status is MarkStatus.PASSED


def test_an_injection_is_no_damage_to_detect() -> None:
    text = judged("a/i", all_at(7), part="injection", kind="image_text", twin="a/blur-3", aims=FIRST)
    found = card(clean("a", all_at(7)), damaged("a", all_at(1)), text)
    assert mark(found, FIRST, ExamMetric.DETECTION).estimate.value == 1


def test_the_first_strength_noticed_is_the_lowest_whose_drop_is_surely_above_zero() -> None:
    drops = {1: (0, 0, 0), 2: (2, 0, 0), 3: (1, 1, 2), 4: (3, 3, 4)}
    papers = [clean(source, all_at(7)) for source in "abc"]
    for strength, by_source in drops.items():
        papers += [damaged(source, all_at(7 - drop), strength) for source, drop in zip("abc", by_source, strict=True)]
    (found,) = mark(card(*papers), FIRST, ExamMetric.DOSE).details
    assert (found.kind, found.first) == ("blur", 3)


def test_an_unfinished_sitting_decides_nothing_and_says_so() -> None:
    papers = [paper for source in "abcdef" for paper in (clean(source, all_at(7)), damaged(source, all_at(2)))]
    assert card(*papers).qualified(FIRST) is MarkStatus.PASSED
    found = card(*papers, total=20)
    assert found.missing == 8
    assert "8 of 20 papers are not judged yet, and nothing is decided" in found.describe()
    assert {found.qualified(one) for one in found.criteria} == {MarkStatus.NOT_EXAMINED}


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=6))
def test_a_card_is_plain_values_whatever_was_said(pairs: list[tuple[int, int]]) -> None:
    import json

    papers = []
    for place, (good, bad) in enumerate(pairs):
        papers += [clean(f"p{place}", all_at(good)), damaged(f"p{place}", all_at(bad))]
    found = card(*papers)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.to_dict()
    for one in found.marks:
        if one.estimate.value is not None and one.estimate.low is not None:
            assert one.estimate.high is not None
            assert one.estimate.low <= one.estimate.high
        assert one.sentence.endswith(".")


@pytest.mark.parametrize(
    ("examined", "estimate", "standing"),
    [
        (ExamMetric.DETECTION, Interval(0.9, 0.71, 1.0), MarkStatus.PASSED),
        (ExamMetric.DETECTION, Interval(0.9, 0.69, 1.0), MarkStatus.FAILED),
        (ExamMetric.DETECTION, Interval(0.79, 0.75, 0.85), MarkStatus.FAILED),
        (ExamMetric.DETECTION, Interval(1.0), MarkStatus.NOT_EXAMINED),
        (ExamMetric.INDEPENDENCE, Interval(0.2, 0.1, 0.3), MarkStatus.FAILED),
        (ExamMetric.INDEPENDENCE, Interval(-0.2, -0.3, -0.1), MarkStatus.PASSED),  # less than asking twice makes
        (ExamMetric.INJECTION, Interval(0.06, 0.0, 0.1), MarkStatus.FAILED),
        (ExamMetric.INJECTION, Interval(0.0), MarkStatus.NOT_EXAMINED),
    ],
)
def test_pass_marks_hold_in_the_direction_that_matters(
    examined: ExamMetric, estimate: Interval, standing: MarkStatus
) -> None:
    assert PASS_MARKS[examined].grade(estimate) is standing


def test_everything_that_is_examined_has_a_pass_mark_with_its_reason() -> None:
    assert set(PASS_MARKS) == set(ExamMetric)
    assert all(one.why and one.about for one in PASS_MARKS.values())
