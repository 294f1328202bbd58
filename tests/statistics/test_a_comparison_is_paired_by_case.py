"""A comparison takes the difference of each case with itself, whichever run is called the old one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.errors import UsageError
from beholder.statistics.bootstrap import ClusterBootstrap, estimate_means, sum_by_group, weighted_mean
from beholder.statistics.comparison import ComparisonOptions, compare
from beholder.statistics.data import Column, ColumnKind, Floats, Scores
from beholder.statistics.pairs import RubricGrades

NAN = float("nan")


def scores(name: str, values: Sequence[float] | Floats, sources: Sequence[str] | None = None, start: int = 0) -> Scores:
    cases = tuple(f"c{start + row}" for row in range(len(values)))
    numbers = np.array(values, np.float64)
    columns = {
        "score": Column("score", ColumnKind.OVERALL, numbers, (0.0, 1.0)),
        "accuracy": Column("accuracy", ColumnKind.CRITERION, 1 + 4 * numbers, (1.0, 5.0)),
    }
    groups = {} if sources is None else {"source": tuple(sources)}
    lacks = {case: "refused, no" for case, value in zip(cases, numbers, strict=True) if np.isnan(value)}
    return Scores(name, cases, columns, groups, lacks)


tenths = st.one_of(st.integers(0, 10).map(lambda number: number / 10), st.just(NAN))
pairs = st.lists(st.tuples(tenths, tenths, st.sampled_from("abcdefghijklmno")), min_size=1, max_size=30)


@given(pairs)
@settings(max_examples=60)
def test_swapping_the_runs_negates_the_differences(rows: list[tuple[float, float, str]]) -> None:
    old, new, sources = zip(*rows, strict=True)
    there = compare(scores("a", old, sources), scores("b", new, sources), ComparisonOptions(draw_count=200))
    back = compare(scores("b", new, sources), scores("a", old, sources), ComparisonOptions(draw_count=200))
    assert [one.name for one in there.changes] == [one.name for one in back.changes]
    for first, second in zip(there.changes, back.changes, strict=True):
        assert (first.better, first.same, first.worse) == (second.worse, second.same, second.better)
        assert (first.before, first.after, first.p, first.p_holm) == (
            second.after,
            second.before,
            second.p,
            second.p_holm,
        )
        if first.difference.value is None:
            assert second.difference.value is None
            continue
        assert second.difference.value is not None
        assert first.difference.value == pytest.approx(-second.difference.value)
        assert first.power.minimum_detectable == (
            None if second.power.minimum_detectable is None else pytest.approx(second.power.minimum_detectable)
        )
        if first.difference.low is not None:
            assert second.difference.high is not None
            assert first.difference.low == pytest.approx(-second.difference.high, abs=1e-6)
    assert {one.case for one in there.uneven_cases} == {one.case for one in back.uneven_cases}
    assert sorted(one.by for one in there.changed_cases) == pytest.approx(sorted(-one.by for one in back.changed_cases))


@given(st.lists(st.tuples(tenths, st.sampled_from("abcdef")), min_size=1, max_size=30))
@settings(max_examples=60)
def test_a_run_against_itself_is_all_ties(rows: list[tuple[float, str]]) -> None:
    values, sources = zip(*rows, strict=True)
    one = scores("a", values, sources)
    found = compare(one, one, ComparisonOptions(draw_count=100))
    for change in found.changes:
        assert (change.better, change.worse) == (0, 0)
        assert change.same == change.cases == sum(value == value for value in values)
        assert change.lost == 0
        if change.cases:
            assert (change.p, change.p_holm, change.difference.value) == (1, 1, 0)
        assert not change.is_significant
    assert found.changed_cases == ()
    assert found.uneven_cases == ()


def test_order_does_not_matter_and_ids_do() -> None:
    old, new = scores("a", [0.1, 0.5, 0.9]), scores("b", [0.2, 0.7, 0.9]).select([2, 0, 1])
    score = compare(old, new).changes[0]
    assert score.difference.value == pytest.approx(0.1)
    assert (score.better, score.same, score.worse) == (2, 1, 0)


def test_no_case_in_common_is_wrong_use() -> None:
    with pytest.raises(UsageError, match=r"no case in common.*'c0' here and 'c9' there"):
        compare(scores("a", [0.1]), scores("b", [0.1], start=9))


def test_an_unknown_group_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match="'model'; there are: source"):
        compare(scores("a", [0.1], "x"), scores("b", [0.1], "x"), ComparisonOptions(group="model"))


def test_cases_of_one_source_do_not_count_as_many() -> None:
    rng = np.random.default_rng(3)
    sources = [f"s{row // 10}" for row in range(100)]
    shared = np.repeat(rng.normal(0, 0.1, 10), 10)
    old, new = np.full(100, 0.5), 0.5 + shared
    clustered = compare(scores("a", old, sources), scores("b", new, sources)).changes[0]
    loose = compare(scores("a", old), scores("b", new)).changes[0]
    assert clustered.groups == 10
    assert loose.groups == 100
    width = [one.difference.high - one.difference.low for one in (clustered, loose)]  # type: ignore[operator]
    assert width[0] > 2 * width[1]
    assert clustered.p > loose.p  # type: ignore[operator]


def test_sums_by_group_give_the_same_draws_as_weights_by_case() -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(size=(3, 60))
    values[1, ::7] = np.nan
    draws = ClusterBootstrap([f"g{row // 4}" for row in range(60)], 60, count=500, seed=4)
    for column, estimate in zip(values, estimate_means(draws, sum_by_group(draws, list(values))), strict=True):
        expected = draws.estimate(weighted_mean(column))
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
            (expected.value, expected.low, expected.high)
        )


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    sources = [f"s{row // 3}" for row in range(90)]
    covered = 0
    for number in range(200):
        shift = np.repeat(rng.normal(0.05, 0.1, 30), 3) + rng.normal(0, 0.1, 90)
        found = compare(
            scores("a", np.full(90, 0.5), sources),
            scores("b", 0.5 + shift, sources),
            ComparisonOptions(draw_count=300, seed=number),
        )
        low, high = found.changes[0].difference.low, found.changes[0].difference.high
        assert low is not None
        assert high is not None
        covered += low <= 0.05 <= high
    assert 180 <= covered <= 199


def test_grades_are_counted_and_go_up_or_down() -> None:
    old, new = scores("a", [0.9, 0.5, 0.2, NAN]), scores("b", [0.5, 0.9, 0.2, 0.5])
    grades = RubricGrades(
        "grade", ("A", "B", "F"), {"c0": "A", "c1": "B", "c2": "F"}, {"c0": "F", "c1": "A", "c2": "F", "c3": "B"}
    )
    grade = next(one for one in compare(old, new, graded=[grades]).changes if one.kind == "grade")
    assert (grade.better, grade.same, grade.worse) == (1, 1, 1)
    assert {name: (old, new) for name, (old, new) in grade.grades.items()} == {"A": (1, 1), "B": (1, 0), "F": (1, 2)}
    assert grade.difference.value == pytest.approx(-1 / 3)


def test_two_scales_of_one_name_are_not_compared() -> None:
    old, new = scores("a", [0.1, 0.2]), scores("b", [0.1, 0.2])
    other = Column("accuracy", ColumnKind.CRITERION, np.array([0.5, 0.5]), (0.0, 1.0))
    found = compare(old, Scores("b", new.cases, {**new.columns, "accuracy": other}))
    assert [one.name for one in found.changes] == ["score"]
    assert found.warnings == ("accuracy has two scales (1 to 5 in a, 0 to 1 in b) and is not compared.",)


def test_what_only_one_run_was_asked_is_named() -> None:
    old, new = scores("a", [0.1]), scores("b", [0.1])
    found = compare(old, Scores("b", new.cases, {"score": new.columns["score"]}))
    assert found.warnings == ("Only a has accuracy, which cannot be compared.",)


def test_the_cases_that_changed_most_come_first() -> None:
    found = compare(scores("a", [0.5, 0.5, 0.5], "xyz"), scores("b", [0.6, 0.1, 0.5], "xyz"), ComparisonOptions(top=5))
    assert [(one.case, one.group) for one in found.changed_cases] == [("c1", "y"), ("c0", "x")]
    assert found.changed_cases[0].by == pytest.approx(-0.4)
    assert tuple(found.changed_cases[0].changes["score"]) == (0.5, 0.1)
    assert tuple(found.changed_cases[0].changes["accuracy"]) == pytest.approx((3, 1.4))
