"""Means of many columns with clustered intervals, from the sums of each group.

A mean needs of a group only its sum and its count: draws are then a matrix product over groups, not over cases, and
what a group left out would change follows without drawing. 100,000 cases × 12 columns × 2,000 draws take seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beholder.statistics.data import Floats, Ints
from beholder.statistics.intervals import Draws, Estimate, Method, estimate_from, ratio, undefined

NOTHING = "no case has a value"
SAME = 1e-9  # scores are sums of a few decimals: a difference that small is none


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Groups × columns: the sum of the values that are there, and how many they are."""

    sums: Floats
    counts: Floats

    @property
    def means(self) -> Floats:
        """By column; nan where no case has a value."""
        return ratio(settled(self.sums.sum(axis=0)), self.counts.sum(axis=0))

    @property
    def groups(self) -> Ints:
        """By column, how many groups have a value."""
        found: Ints = np.count_nonzero(self.counts, axis=0)
        return found

    def standard_errors(self) -> Floats:
        """Of the means, clustered: the linearised variance of a ratio, `G/(G−1) · Σ (s − m·n)² / (Σ n)²` over the G
        groups with sum s and count n. nan where fewer than two groups have a value."""
        residuals = self.sums - np.nan_to_num(self.means) * self.counts
        groups = self.groups.astype(np.float64)
        spread = ratio(groups * (residuals**2).sum(axis=0), groups - 1)
        errors = np.sqrt(ratio(np.where(groups > 1, spread, np.nan), self.counts.sum(axis=0) ** 2))
        return np.asarray(errors, np.float64)


def sums_of(draws: Draws, columns: Sequence[Floats]) -> GroupSums:
    """The sums of columns (a value for each case, nan where there is none) by the groups of the draws. What rounding
    leaves of differences that cancel is 0: ten groups of it would look like ten that agree."""
    sums = np.zeros((draws.groups, len(columns)))
    counts = np.zeros_like(sums)
    for at, values in enumerate(columns):
        there = ~np.isnan(values)
        group = draws.group[there]
        sums[:, at] = np.bincount(group, values[there], draws.groups)
        counts[:, at] = np.bincount(group, minlength=draws.groups)
    return GroupSums(settled(sums), counts)


def settled(sums: Floats) -> Floats:
    """Sums, 0 where they are no more than rounding leaves."""
    return np.where(np.abs(sums) <= SAME, 0.0, sums)


def mean_estimates(draws: Draws, sums: GroupSums) -> list[Estimate]:
    """The mean of each column with its interval, over the same draws."""
    points = sums.means
    if draws.groups < 2:
        lone = "no interval: all cases are of one group"
        return [undefined(NOTHING) if np.isnan(point) else Estimate(float(point), why=lone) for point in points]
    both = np.hstack([sums.sums, sums.counts])
    width = len(points)
    parts = [counts.astype(np.float64) @ both for counts in draws.counts()]
    total = np.concatenate(parts)
    drawn = ratio(settled(total[:, :width]), total[:, width:])
    left = _left_out(sums) if draws.method is Method.BCA else None
    groups = sums.groups
    found = []
    for at, point in enumerate(points):
        if groups[at] == 1:
            found.append(Estimate(float(point), why="no interval: all values are of one group"))
        else:
            without = None if left is None else left[:, at]
            found.append(estimate_from(float(point), drawn[:, at], without, NOTHING, groups=int(groups[at])))
    return found


def _left_out(sums: GroupSums) -> Floats:
    """The means without each group."""
    return ratio(settled(sums.sums.sum(axis=0) - sums.sums), sums.counts.sum(axis=0) - sums.counts)
