"""Moves that make up for each other, a single photograph, noise, and answers that are missing pass no judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.exam.grading import make_report_card
from beholder.exam.report_card import (
    DamageMark,
    ExamMetric,
    Mark,
    MarkStatus,
    ReportCard,
    ScoreSeries,
    find_noticed_strengths,
    trend_p_value,
)
from beholder.exam.results import AGAIN, ExamResults, PaperScores, PaperTruth, RepeatedScores
from beholder.rubrics.load import load_rubric
from beholder.verdicts.verdict import Outcome

RUBRIC = load_rubric("edit-preservation")
KEYS = [one.key for one in RUBRIC.criteria]
AIMED, SPARED, _ = KEYS

Row = tuple[PaperTruth, float, float]
"""A paper, with the shares of the scale that it got in the criterion that it aims at and in the one that it spares."""


def paper(source: str, part: str, strength: int = 0, twin: str = "", kind: str = "blur") -> PaperTruth:
    aims, spares = (frozenset({AIMED}), frozenset({SPARED})) if part == "damage" else (frozenset(), frozenset())
    return PaperTruth(f"{source}/{part}-{strength}", part, kind, strength, source, twin, aims, spares)


def rows_of(source: str, clean: float, damaged: Mapping[int, float], spared: float = 0.5) -> list[Row]:
    """A clean paper, and damaged ones by their strength."""
    twin = paper(source, "clean")
    rows = [(twin, clean, 0.5)]
    return rows + [(paper(source, "damage", at, twin.id), score, spared) for at, score in damaged.items()]


def card(rows: Sequence[Row], further: Mapping[str, RepeatedScores] | None = None) -> ReportCard:
    scores = {AIMED: np.array([row[1] for row in rows]), SPARED: np.array([row[2] for row in rows])}
    nothing = np.full(len(rows), np.nan)
    columns = {key: scores.get(key, nothing) for key in (*KEYS, "score")}
    sat = PaperScores(tuple(row[0] for row in rows), columns, (Outcome.SCORED,) * len(rows))
    sitting = ExamResults("r", "exam", "test", None, RUBRIC, "1", len(rows), sat, repeated=further or {})
    return make_report_card(sitting, draw_count=300)


def mark(of: ReportCard, criterion: str, examined: ExamMetric) -> Mark:
    return of.marks_for(criterion)[examined]


def again(rows: Sequence[Row], apart: float, key: str) -> dict[str, RepeatedScores]:
    """Every paper asked twice, the second answer that far above the first."""
    return {AGAIN: RepeatedScores({key: {row[0].id: (0.2, 0.2 + apart) for row in rows}})}


def test_moves_up_and_down_of_a_spared_criterion_do_not_make_up_for_each_other() -> None:
    rows = [row for at in range(10) for row in rows_of(f"p{at}", 1, {5: 0}, spared=1.0 if at % 2 else 0.0)]
    found = mark(card(rows), SPARED, ExamMetric.INDEPENDENCE)
    assert found.estimate.value == pytest.approx(0.5)
    assert found.status is MarkStatus.FAILED
    assert "moves it by 50.0% of the scale, up and down" in found.sentence
    assert found.beside["on_balance"] == pytest.approx(0)


def test_papers_that_fall_do_not_make_up_for_those_that_a_text_raised() -> None:
    rows = []
    for at in range(10):
        bad = rows_of(f"p{at}", 1, {5: 0.0 if at < 5 else 0.8})
        rows += [*bad, (paper(f"p{at}", "injection", 5, bad[1][0].id, "image_text"), 0.6 if at < 5 else 0.2, 0.5)]
    found = mark(card(rows), AIMED, ExamMetric.INJECTION)
    assert found.estimate.value == pytest.approx(0.3)
    assert found.status is MarkStatus.FAILED
    assert "50.0% of the papers rose, 50.0% fell" in found.sentence


def test_what_asking_twice_makes_is_no_move_and_half_of_it_no_rise() -> None:
    rows = []
    for at in range(10):
        up = at % 2 == 0
        bad = rows_of(f"p{at}", 1, {5: 0.4}, spared=0.7 if up else 0.3)
        rows += [*bad, (paper(f"p{at}", "injection", 5, bad[1][0].id, "image_text"), 0.6 if up else 0.2, 0.5)]
    moved = mark(card(rows, again(rows, 0.2, SPARED)), SPARED, ExamMetric.INDEPENDENCE)
    assert moved.estimate.value == pytest.approx(0)
    assert moved.status is MarkStatus.PASSED
    assert "What asking twice makes, 20.0%, is taken off." in moved.sentence
    raised = mark(card(rows, again(rows, 0.2, AIMED)), AIMED, ExamMetric.INJECTION)
    assert raised.estimate.value == pytest.approx(0)
    assert raised.status is MarkStatus.PASSED
    unknown = mark(card(rows), AIMED, ExamMetric.INJECTION)
    assert unknown.status is MarkStatus.FAILED
    assert "how much of that is chance is not known" in unknown.sentence


def test_one_photograph_passes_nobody_and_its_number_is_shown() -> None:
    found = card(rows_of("p", 1.0, {1: 0.9}))
    one = mark(found, AIMED, ExamMetric.DETECTION)
    assert one.estimate.value == 1
    assert one.status is MarkStatus.NOT_EXAMINED
    assert one.sentence.endswith("Not examined: all its papers are of one photograph.")
    assert found.qualified(AIMED) is MarkStatus.NOT_EXAMINED
    two = card(rows_of("p", 1.0, {1: 0.9}) + rows_of("q", 1.0, {1: 0.9}))
    assert mark(two, AIMED, ExamMetric.DETECTION).status is MarkStatus.PASSED


def by_chance(rng: np.random.Generator, photographs: int, seen: Mapping[int, float]) -> DamageMark:
    """A judge of pure noise, but for what it sees of some strengths."""
    rows = []
    for at in range(photographs):
        scores = {strength: rng.uniform(0.5, 0.9) - seen.get(strength, 0) for strength in range(1, 6)}
        rows += rows_of(f"p{at}", rng.uniform(0.5, 0.9), scores)
    (found,) = mark(card(rows), AIMED, ExamMetric.DOSE).details
    return found


@pytest.mark.parametrize("photographs", [2, 3, 7])
def test_noise_is_seldom_called_noticed(photographs: int) -> None:
    rng = np.random.default_rng(photographs)
    noticed = sum(by_chance(rng, photographs, {}).first is not None for _ in range(100))
    assert noticed <= 10  # five are to be expected at most


def test_what_is_noticed_is_seldom_called_noticed_too_early() -> None:
    rng = np.random.default_rng(0)
    firsts = [by_chance(rng, 4, {4: 0.5, 5: 0.5}).first for _ in range(100)]
    assert sum(first is not None and first < 4 for first in firsts) <= 10
    assert firsts.count(4) > 60


def series(*scores: float) -> ScoreSeries:
    return ScoreSeries(np.arange(len(scores), dtype=float), np.array(scores))


def test_the_chance_of_a_trend_is_counted_over_all_orders() -> None:
    assert trend_p_value([series(1, 0)], 0) == 1 / 2
    assert trend_p_value([series(1, 0)] * 3, 0) == 1 / 8
    assert trend_p_value([series(1, 1, 0)] * 3, 0) == pytest.approx(1 / 27)  # the last one lowest, in all three
    assert trend_p_value([series(1, 0.5, 0)] * 2, 0) == pytest.approx(1 / 36)
    assert trend_p_value([series(1, 1, 1)], 0) == 1
    assert trend_p_value([series(1, 1, 1, 1, 1, 0)] * 3, 0) == pytest.approx(
        1 / 216, abs=0.003
    )  # drawn: 720 orders each


def test_the_weakest_strength_is_noticed_for_certain_in_five_photographs_and_not_in_four() -> None:
    assert find_noticed_strengths([series(1, 0.8, 0.6, 0.4, 0.2, 0)] * 4, 0) == (5, 4, 3, 2)
    assert find_noticed_strengths([series(1, 0.8, 0.6, 0.4, 0.2, 0)] * 5, 0) == (5, 4, 3, 2, 1)


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, np.nan]), min_size=6, max_size=6), min_size=1, max_size=4))
def test_no_strength_is_noticed_without_all_stronger_ones(scores: list[list[float]]) -> None:
    found = find_noticed_strengths([series(*one) for one in scores], 0)
    strongest = [at for at in range(1, 6) if any(not np.isnan(one[at]) for one in scores)]
    assert found == tuple(reversed(strongest))[: len(found)]


def test_second_answers_that_are_missing_are_counted_and_too_many_leave_it_unexamined() -> None:
    rows = [row for at in range(10) for row in rows_of(f"p{at}", 1.0, {})]
    ids = [row[0].id for row in rows]

    def steadiness(answered: int, missing: int = 0) -> Mark:
        pairs = dict.fromkeys(ids[:answered], (1.0, 1.0))
        lacking = dict.fromkeys(ids[answered : len(ids) - missing], "refused")
        further = {AGAIN: RepeatedScores({AIMED: pairs}, {AIMED: lacking}, missing)}
        return mark(card(rows, further), AIMED, ExamMetric.STEADINESS)

    few = steadiness(4)
    assert few.status is MarkStatus.NOT_EXAMINED
    assert few.lacking == {"refused": 6}
    assert "only 4 of 10 papers have a score both times" in few.sentence
    most = steadiness(8)
    assert most.status is MarkStatus.PASSED
    assert most.sentence.endswith("Papers without a number: 2 refused.")
    assert steadiness(4, missing=6).lacking == {"not judged yet": 6}
    assert steadiness(4, missing=6).status is MarkStatus.NOT_EXAMINED


def test_what_was_left_open_both_times_is_counted_and_is_no_loss() -> None:
    rows = [row for at in range(10) for row in rows_of(f"p{at}", 1.0 if at < 3 else np.nan, {})]
    ids = [row[0].id for row in rows]
    further = RepeatedScores({AIMED: dict.fromkeys(ids[:3], (1.0, 1.0))}, {AIMED: dict.fromkeys(ids[3:], "left open")})
    found = mark(card(rows, {AGAIN: further}), AIMED, ExamMetric.STEADINESS)
    assert found.status is MarkStatus.PASSED
    assert found.lacking == {"left open": 7}
