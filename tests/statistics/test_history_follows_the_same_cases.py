"""A history compares each run with the one before over the cases of both, and draws its trend over those of all."""

from __future__ import annotations

import numpy as np
import pytest

from beholder.cli.statistics import sparkline, trend_sentence
from beholder.errors import UsageError
from beholder.statistics.comparison import compare
from beholder.statistics.data import Column, ColumnKind, Floats, Scores
from beholder.statistics.history import analyze_history


def scores(name: str, values: Floats, start: int = 0) -> Scores:
    cases = tuple(f"c{start + row}" for row in range(len(values)))
    sources = tuple(f"s{(start + row) // 2}" for row in range(len(values)))
    return Scores(name, cases, {"score": Column("score", ColumnKind.OVERALL, values, (0.0, 1.0))}, {"source": sources})


def test_the_slope_is_that_of_least_squares_over_common_cases() -> None:
    rng = np.random.default_rng(1)
    table = rng.uniform(0.2, 0.8, (5, 30)) - 0.05 * np.arange(5)[:, None]
    [line] = analyze_history([scores(f"r{at}", values) for at, values in enumerate(table)])
    assert line.slope.value == pytest.approx(np.polyfit(np.arange(5), table.mean(axis=1), 1)[0])
    assert line.common == 30
    assert line.slope.excludes_zero
    assert [point.mean.value for point in line.points] == pytest.approx(list(table.mean(axis=1)))
    assert line.points[0].change is None
    assert line.points[3].change is not None
    assert line.points[3].change.value == pytest.approx((table[3] - table[2]).mean())


def test_a_case_that_joined_later_is_in_no_difference() -> None:
    old, new = np.full(10, 0.5), np.full(12, 0.5)
    new[10:] = 1.0
    [line] = analyze_history([scores("a", old), scores("b", new)])
    point = line.points[1]
    assert point.change is not None
    assert (point.change.value, point.common, point.p) == (0, 10, 1)
    assert point.mean.value == pytest.approx(7 / 12)


def test_a_run_that_lost_a_case_says_so_and_the_trend_does_without() -> None:
    gap = np.full(10, 0.5)
    gap[3] = np.nan
    [line] = analyze_history([scores("a", np.full(10, 0.4)), scores("b", gap), scores("c", np.full(10, 0.6))])
    assert [point.without for point in line.points] == [0, 1, 0]
    assert line.common == 9
    assert line.slope.value == pytest.approx(0.1)


def test_what_rounding_leaves_is_no_change_and_no_trend() -> None:
    high, low = np.tile([0.9, 0.0], 12), np.tile([0.6, 0.3], 12)
    assert (high - low).sum() != 0
    [line] = analyze_history([scores(f"r{at}", values) for at, values in enumerate((low, high, low, high, high))])
    for point in line.points[1:]:
        assert point.change is not None
        assert (point.change.value, point.change.low, point.change.high, point.p) == (0, 0, 0, 1)
    assert not line.slope.excludes_zero


def test_a_change_is_what_compare_says_of_it() -> None:
    rng = np.random.default_rng(3)
    runs = [scores(f"r{at}", rng.uniform(0.2, 0.8, 30) - 0.1 * at) for at in range(2)]
    point = analyze_history(runs)[0].points[1]
    told = compare(runs[0], runs[1]).changes[0]
    assert (point.change, point.p, point.common) == (told.difference, told.p, told.cases)


def test_two_runs_have_no_trend() -> None:
    [line] = analyze_history([scores("a", np.ones(5)), scores("b", np.ones(5))])
    assert line.slope.value is None
    assert "3 runs" in line.slope.why


def test_strangers_have_no_difference_and_no_trend() -> None:
    [line] = analyze_history([scores("a", np.ones(5)), scores("b", np.ones(5), 9), scores("c", np.ones(5), 20)])
    assert line.points[1].change is not None
    assert (line.points[1].change.value, line.slope.value) == (None, None)
    assert line.slope.why == "no case is in every run"


def test_an_unknown_column_or_group_lists_those_there_are() -> None:
    runs = [scores("a", np.ones(5))]
    with pytest.raises(UsageError, match="'clarity' to follow; there are: score"):
        analyze_history(runs, ["clarity"])
    with pytest.raises(UsageError, match="'model'; there are: source"):
        analyze_history(runs, group="model")


def test_a_sparkline_has_a_bar_for_each_run() -> None:
    assert sparkline([0.1, None, 0.5, 0.9]) == "▁ ▅█"
    assert sparkline([0.5, 0.5]) == "▄▄"
    assert sparkline([None]) == ""


def test_a_trend_that_is_not_shown_says_which_one_would_have_been_found_and_how_often() -> None:
    rng = np.random.default_rng(3)
    found = 0
    for world in range(60):
        table = rng.normal(0, 0.1, (4, 40)) + rng.normal(0.5, 0.1, 40)
        [flat] = analyze_history([scores(f"r{at}", values) for at, values in enumerate(table)], draw_count=200)
        assert flat.detectable is not None
        if world == 0:
            assert f"of {flat.detectable:.2g} a run would have been found in only 80% of such" in trend_sentence(flat)
        steeper = table + flat.detectable * np.arange(4)[:, None]
        [line] = analyze_history([scores(f"r{at}", values) for at, values in enumerate(steeper)], draw_count=200)
        found += line.slope.excludes_zero
    assert 38 <= found <= 57  # 48 of 60 at a power of 80 %
