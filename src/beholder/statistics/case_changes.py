"""What became of each case from one run to another: the light table behind the lists and charts of a comparison.

A score is a share of its scale: the mean overall score of a case, or, where a rubric has none, the mean of its
criteria. The table has a few numbers for each case, so that a list of many thousand cases is filtered, sorted and
paged without reading a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from beholder.statistics.bootstrap import EQUALITY_TOLERANCE, mean_of_defined
from beholder.statistics.data import Bools, ColumnKind, Floats, Ints, Scores, parse_choice
from beholder.statistics.pairs import PairedColumn, SharedCases

SAME_POINT = 0.0005  # scores that are this close share a point of a chart

NumberRange = tuple[float, float]


class ChangeKind(StrEnum):
    """What became of the score of a case."""

    WORSE = "worse"
    BETTER = "better"
    LOST = "lost"
    GAINED = "gained"
    SAME = "same"


@dataclass(frozen=True, slots=True, eq=False)
class GroupValues:
    """The values of one group, and the value of each case as a number among them; -1 where a case has none."""

    values: tuple[str, ...]
    rows: Ints

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupValues) and self.values == other.values and np.array_equal(self.rows, other.rows)


@dataclass(frozen=True, slots=True, eq=False)
class GroupChange:
    """What became of the cases of one value of a group: how many of each kind, and the mean difference."""

    value: str
    cases: int
    counts: Mapping[ChangeKind, int]
    mean: float | None


@dataclass(frozen=True, slots=True, eq=False)
class CaseChanges:
    """Cases of two runs with their scores before and after.

    Attributes:
        cases: Ids of the cases that both runs have.
        before: Score in the first run; nan where there is none.
        after: Score in the second run; nan where there is none.
        by: After minus before, over the numbers that both runs have.
        lost: Whether a number of the first run is missing in the second.
        gained: Whether a number of the second run was missing in the first.
        groups: The groups of the cases.
    """

    cases: tuple[str, ...]
    before: Floats
    after: Floats
    by: Floats
    lost: Bools
    gained: Bools
    groups: Mapping[str, GroupValues] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CaseChanges)
            and (self.cases, self.groups) == (other.cases, other.groups)
            and np.array_equal(self.before, other.before, equal_nan=True)
            and np.array_equal(self.after, other.after, equal_nan=True)
            and np.array_equal(self.by, other.by, equal_nan=True)
            and np.array_equal(self.lost, other.lost)
            and np.array_equal(self.gained, other.gained)
        )

    def is_kind(self, kind: ChangeKind) -> Bools:
        """Return which cases are of a kind; one of several rubrics may have lost a score and be worse by another."""
        with np.errstate(invalid="ignore"):
            found: Bools = {
                ChangeKind.WORSE: self.by < -EQUALITY_TOLERANCE,
                ChangeKind.BETTER: self.by > EQUALITY_TOLERANCE,
                ChangeKind.LOST: self.lost,
                ChangeKind.GAINED: self.gained,
                ChangeKind.SAME: np.abs(self.by) <= EQUALITY_TOLERANCE,
            }[kind]
        return found

    def counts(self, groups: Mapping[str, str] | None = None) -> dict[ChangeKind, int]:
        """Return how many cases are of each kind, of those that have these values of groups."""
        kept = self._in_groups(groups or {})
        return {kind: int(np.count_nonzero(self.is_kind(kind) & kept)) for kind in ChangeKind}

    def _in_groups(self, groups: Mapping[str, str]) -> Bools:
        kept = np.ones(len(self.cases), np.bool_)
        for name, value in groups.items():
            known = self.groups.get(name)
            number = known.values.index(value) if known is not None and value in known.values else None
            kept = kept & (known.rows == number) if known is not None and number is not None else np.zeros_like(kept)
        return kept

    def select(
        self,
        kind: str | None = None,
        *,
        groups: Mapping[str, str] | None = None,
        before: NumberRange | None = None,
        after: NumberRange | None = None,
        by: NumberRange | None = None,
    ) -> Ints:
        """Return the rows of cases, the greatest fall first, of those that are only better the greatest rise first.

        Args:
            kind: What became of them: `worse`, `better`, `lost`, `gained` or `same`; None for all.
            groups: The value of each group that they have.
            before: Where their score in the first run lies, see `lies_in`.
            after: The same for the second run. With both, only cases that have a difference: the dots of a chart.
            by: Where their difference lies, see `differs_by`.

        Raises:
            UsageError: There is no such kind.
        """
        chosen_kind = None if kind is None else parse_choice(ChangeKind, kind, "kind")
        kept = self._in_groups(groups or {})
        if chosen_kind is not None:
            kept = kept & self.is_kind(chosen_kind)
        for values, wanted in ((self.before, before), (self.after, after)):
            if wanted is not None:
                kept = kept & lies_in(values, wanted)
        if before is not None and after is not None:  # of two rubrics one may be lost and the other gained
            kept = kept & ~np.isnan(self.by)
        if by is not None:
            kept = kept & differs_by(self.by, by)
        rows = np.flatnonzero(kept)
        if chosen_kind is ChangeKind.LOST:  # the best ones are missed most
            order = -self.before[rows]
        elif chosen_kind is ChangeKind.GAINED:
            order = self.after[rows]
        else:
            order = -self.by[rows] if chosen_kind is ChangeKind.BETTER else self.by[rows]
        chosen: Ints = rows[np.argsort(order, kind="stable")]  # nan is last
        return chosen

    def by_group(self, name: str) -> list[GroupChange]:
        """Return what became of the cases of each value of a group, the greatest mean fall first."""
        known = self.groups[name]
        size = len(known.values) + 1  # the first is for cases that are in no such group

        def count(weights: Floats | Bools | None = None) -> Floats:
            found = np.bincount(known.rows + 1, None if weights is None else weights.astype(np.float64), size)
            return found[1:].astype(np.float64)

        defined: Bools = ~np.isnan(self.by)
        cases, sums, differences = count(), count(np.where(defined, self.by, 0.0)), count(defined)
        kinds = {kind: count(self.is_kind(kind)) for kind in ChangeKind}
        changes = [
            GroupChange(
                value,
                int(cases[at]),
                {kind: int(counts[at]) for kind, counts in kinds.items()},
                float(sums[at] / differences[at]) if differences[at] else None,
            )
            for at, value in enumerate(known.values)
        ]
        return sorted(changes, key=lambda change: (change.mean is None, change.mean or 0.0))


def lies_in(values: Floats, wanted: NumberRange, highest: float = 1.0) -> Bools:
    """Return which values lie in a range: its lower end belongs to it, its upper end only where that is the `highest`
    value of the scale, or where both are the same number, which is one point of a chart."""
    low, high = wanted
    with np.errstate(invalid="ignore"):
        if low == high:
            near: Bools = np.abs(values - low) <= SAME_POINT + EQUALITY_TOLERANCE
            return near
        upper = values <= high + EQUALITY_TOLERANCE if high >= highest else values < high - EQUALITY_TOLERANCE
        inside: Bools = (values >= low - EQUALITY_TOLERANCE) & upper
    return inside


def differs_by(values: Floats, wanted: NumberRange) -> Bools:
    """Return which differences lie in a range on one side of 0: the end that is farther from 0 belongs to it."""
    low, high = wanted
    with np.errstate(invalid="ignore"):
        if high <= 0:
            found: Bools = (values >= low - EQUALITY_TOLERANCE) & (values < high - EQUALITY_TOLERANCE)
        elif low >= 0:
            found = (values > low + EQUALITY_TOLERANCE) & (values <= high + EQUALITY_TOLERANCE)
        else:
            found = (values >= low - EQUALITY_TOLERANCE) & (values <= high + EQUALITY_TOLERANCE)
    return found


def measure_case_changes(pairs: SharedCases, after: Scores | None = None) -> CaseChanges:
    """Return what became of each shared case; its groups are those of `after`, the second run."""
    ranked = ranked_columns(pairs)
    nothing = np.full(len(pairs.cases), np.nan)
    shares = [(_to_share(column, column.before), _to_share(column, column.after)) for column in ranked]
    lost = np.zeros(len(nothing), np.bool_)
    gained = np.zeros(len(nothing), np.bool_)
    for old, new in shares:
        lost |= ~np.isnan(old) & np.isnan(new)
        gained |= np.isnan(old) & ~np.isnan(new)
    if not ranked:
        return CaseChanges(pairs.cases, nothing, nothing, nothing, lost, gained)
    by = difference_by_case(ranked)
    both = [~np.isnan(old) & ~np.isnan(new) for old, new in shares]
    known = ~np.isnan(by)
    means = []
    for at in (0, 1):
        comparable = [np.where(shared, pair[at], np.nan) for shared, pair in zip(both, shares, strict=True)]
        means.append(np.where(known, mean_of_defined(comparable), mean_of_defined([pair[at] for pair in shares])))
    return CaseChanges(pairs.cases, means[0], means[1], by, lost, gained, _number_groups(pairs.cases, after))


def ranked_columns(pairs: SharedCases) -> list[PairedColumn]:
    """Return the columns by which cases are ranked: the overall scores, else the criteria."""
    overall = [column for column in pairs.columns if column.kind == ColumnKind.OVERALL]
    return overall or [column for column in pairs.columns if column.kind == ColumnKind.CRITERION]


def difference_by_case(columns: list[PairedColumn]) -> Floats:
    """Return the mean difference of each case as a share of the scale, over the columns that both runs have."""
    return mean_of_defined([column.difference / scale_width(column) for column in columns])


def scale_width(column: PairedColumn) -> float:
    """Return the width of the scale; where it is not known, that of the values."""
    return _scale_of(column)[1]


def _to_share(column: PairedColumn, values: Floats) -> Floats:
    low, width = _scale_of(column)
    return (values - low) / width


def _scale_of(column: PairedColumn) -> tuple[float, float]:
    """Return the low end of the scale and its width; where it is not known, those of the values."""
    if column.scale is not None:
        return column.scale[0], column.scale[1] - column.scale[0] or 1.0
    values = np.concatenate([column.before, column.after])
    values = values[~np.isnan(values)]
    return (float(values.min()), float(np.ptp(values)) or 1.0) if len(values) else (0.0, 1.0)


def _number_groups(cases: tuple[str, ...], scores: Scores | None) -> dict[str, GroupValues]:
    if scores is None:
        return {}
    place = {case: row for row, case in enumerate(scores.cases)}
    rows = [place[case] for case in cases]
    groups = {}
    for name, given in scores.groups.items():
        found = [given[row] for row in rows]
        values = sorted({value for value in found if value})
        number = {value: at for at, value in enumerate(values)} | {"": -1}
        groups[name] = GroupValues(tuple(values), np.array([number[value] for value in found], np.int32))
    return groups
