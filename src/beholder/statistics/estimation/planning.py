"""How many human ratings buy which width."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beholder.statistics.data import Ints
from beholder.statistics.estimation.regression import LEAST_GROUPS, Fit, reach
from beholder.statistics.intervals import Estimate

_STEPS = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class Width:
    """How wide the interval is expected to be with so many rated cases, drawn at random; `with_judge` is None where too
    few are rated to tune a weight, or the judge tells nothing."""

    ratings: int
    with_judge: float | None
    people: float


@dataclass(frozen=True, slots=True)
class Needed:
    """How many rated cases give an interval of the wanted width; None where not even rating every case does."""

    width: float
    with_judge: int | None
    people: int | None


class Plan:
    """What other numbers of rated cases would give, by what the `now` rated ones show.

    `alone` is the fit and interval by people alone, `both` with the judge. Widths fall as ratings are added; the one
    for `now` is the one that came out.
    """

    def __init__(self, group: Ints, now: int, alone: tuple[Fit, Estimate], both: tuple[Fit, Estimate] | None) -> None:
        self._cases, self._now = len(group), now
        self._sizes, self._times = np.unique(np.bincount(group), return_counts=True)
        pairs = float((self._times * self._sizes * (self._sizes - 1)).sum())
        self._companions = pairs / self._cases / max(1, self._cases - 1)  # by how many cases are drawn beside one
        self._alone, self._both = alone, both

    def width(self, ratings: int) -> Width:
        """With `ratings` rated cases, from two to all."""
        people = self._expected(self._alone, ratings)
        if self._both is None or ratings < LEAST_GROUPS:
            return Width(ratings, None, people)
        # Rating every case leaves the judge nothing to add: with it no width is below that one. The two need not agree
        # on it by themselves, since each has its own estimate of how alike cases of a group are. A judge costs at most
        # what it costs now, and what came out now is kept: so that widths fall from row to row.
        now, alone = (_wide(made[1]) for made in (self._both, self._alone))
        least = min(now, self._expected(self._alone, self._cases))
        most = people * max(1.0, now / alone)
        return Width(ratings, min(most, max(least, self._expected(self._both, ratings))), people)

    def widths(self) -> tuple[Width, ...]:
        """At round numbers, at what is rated now, and at all cases."""
        round_ones = (step * 10**power for power in range(1, 8) for step in _STEPS)
        steps = {*(step for step in round_ones if step < self._cases), self._now, self._cases}
        return tuple(self.width(ratings) for ratings in sorted(steps))

    def needed(self, width: float) -> Needed:
        """The fewest rated cases for this width."""
        judged = None
        if self._both is not None:
            judged = self._least(width, LEAST_GROUPS, judge=True)
        return Needed(width, judged, self._least(width, 2, judge=False))

    def _least(self, width: float, start: int, *, judge: bool) -> int | None:
        def enough(ratings: int) -> bool:
            found = self.width(ratings)
            return ((found.with_judge if judge else None) or found.people) <= width

        low, high = start, self._cases
        if low > high or not enough(high):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle + 1, high)
        return low

    def _expected(self, made: tuple[Fit, Estimate], ratings: int) -> float:
        fit, estimate = made
        # Of a rate the interval is not quite a t interval, and groups are hit by chance: what came out sets the unit.
        return _wide(estimate) * self._reach(fit, ratings) / self._reach(fit, self._now)

    def _reach(self, fit: Fit, ratings: int) -> float:
        """As `Fit.reach`, where so many cases were drawn at random."""

        def inflation(count: int) -> float:
            return 1 + fit.likeness * (count - 1) * self._companions

        by_ratings = fit.by_ratings * self._now / ratings * inflation(ratings) / inflation(self._now)
        hit = float((self._times * (1 - (1 - ratings / self._cases) ** self._sizes)).sum())
        freedom = max(1, round(hit) - (2 if fit.weight else 1))
        # `by_cases` has what the two parts have in common, which may be negative.
        return reach(max(by_ratings / 100, by_ratings + fit.by_cases), freedom)


def _wide(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low
