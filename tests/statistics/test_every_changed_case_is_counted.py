"""The table of a comparison has every case once: its kinds, ranges and groups count what the comparison counts."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.errors import UsageError
from beholder.statistics.case_changes import CaseChanges, ChangeKind
from beholder.statistics.comparison import ComparisonOptions, compare
from beholder.statistics.data import Column, ColumnKind, Scores

NAN = float("nan")
quarters = st.one_of(st.integers(0, 20).map(lambda number: number / 20), st.just(NAN))
rows_of_cases = st.lists(st.tuples(quarters, quarters, st.sampled_from("abc")), min_size=1, max_size=30)


def scores(name: str, values: list[float], models: list[str], kind: ColumnKind = ColumnKind.OVERALL) -> Scores:
    scale = (0.0, 1.0) if kind is ColumnKind.OVERALL else (1.0, 5.0)
    numbers = np.array(values, np.float64) * (scale[1] - scale[0]) + scale[0]
    cases = tuple(f"c{row}" for row in range(len(values)))
    return Scores(name, cases, {"score": Column("score", kind, numbers, scale)}, {"model": tuple(models)})


def changes(rows: list[tuple[float, float, str]], kind: ColumnKind = ColumnKind.OVERALL) -> CaseChanges:
    old, new, models = (list(part) for part in zip(*rows, strict=True))
    compared = compare(
        scores("a", old, models, kind), scores("b", new, models, kind), ComparisonOptions(draw_count=100)
    )
    assert "case_changes" not in json.dumps(compared.to_dict())
    assert compared.case_changes is not None
    [change] = compared.changes
    counts = compared.case_changes.counts()
    assert (change.worse, change.better, change.same, change.lost) == (
        counts[ChangeKind.WORSE],
        counts[ChangeKind.BETTER],
        counts[ChangeKind.SAME],
        counts[ChangeKind.LOST],
    )
    return compared.case_changes


@given(rows_of_cases)
@settings(max_examples=40)
def test_bars_and_groups_add_up_to_the_comparison(rows: list[tuple[float, float, str]]) -> None:
    table = changes(rows)
    counts = table.counts()
    ends = [number / 10 for number in range(-10, 11)]
    bars = [set(table.select(by=both).tolist()) for both in pairwise(ends)]
    assert sum(map(len, bars)) == len(set().union(*bars)) == counts[ChangeKind.WORSE] + counts[ChangeKind.BETTER]
    cells = [number / 4 for number in range(5)]
    sides = list(pairwise(cells))
    squares = [set(table.select(before=old, after=new).tolist()) for old in sides for new in sides]
    both = int((~np.isnan(table.by)).sum())
    assert sum(map(len, squares)) == len(set().union(*squares)) == both
    for kind in ChangeKind:
        assert sum(one.counts[kind] for one in table.by_group("model")) == counts[kind] == len(table.select(kind))


def test_the_worst_come_first_and_of_lost_scores_the_best() -> None:
    table = changes([(0.5, 0.25, "a"), (1.0, 0.0, "b"), (0.25, NAN, "a"), (0.75, NAN, "b"), (0.5, 1.0, "a")])
    assert table.select(ChangeKind.WORSE).tolist() == [1, 0]
    assert table.select("lost").tolist() == [3, 2]
    with pytest.raises(UsageError, match="gained"):
        table.select("gone")
    assert table.select(ChangeKind.LOST, groups={"model": "a"}).tolist() == [2]
    assert table.select(groups={"model": "nobody"}).tolist() == []
    assert table.select(before=(0.5, 0.5)).tolist() == [0, 4]
    assert [one.value for one in table.by_group("model")] == ["b", "a"]


def test_a_case_that_lost_one_score_and_gained_another_is_in_no_dot() -> None:
    def of(name: str, first: list[float], second: list[float]) -> Scores:
        columns = {
            f"{rubric}.score": Column(f"{rubric}.score", ColumnKind.OVERALL, np.array(values, np.float64), (0.0, 1.0))
            for rubric, values in (("a", first), ("b", second))
        }
        return Scores(name, ("c0", "c1"), columns, {})

    compared = compare(
        of("old", [0.5, 0.5], [0.5, NAN]), of("new", [0.5, NAN], [0.5, 0.5]), ComparisonOptions(draw_count=100)
    )
    table = compared.case_changes
    assert table is not None
    assert (table.before.tolist(), table.after.tolist()) == ([0.5, 0.5], [0.5, 0.5])
    assert table.select(before=(0.5, 0.5), after=(0.5, 0.5)).tolist() == [0]
    assert table.select(before=(0.5, 0.5)).tolist() == [0, 1]
    assert table.select("lost").tolist() == table.select("gained").tolist() == [1]


def test_without_an_overall_score_criteria_count_as_shares_of_their_scale() -> None:
    table = changes([(0.5, 0.25, "a"), (0.0, 1.0, "a")], ColumnKind.CRITERION)
    assert table.before.tolist() == pytest.approx([0.5, 0.0])
    assert table.by.tolist() == pytest.approx([-0.25, 1.0])
