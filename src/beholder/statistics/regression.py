"""The regression behind `beholder estimate`: a mean by people on a few cases and a judge on all, and its variance.

This is the regression estimator under double sampling of survey statistics: the slope of people on judge among the
rated cases corrects the mean of people by what the judge says of the other cases. Variances are robust to clustering.
Pass rates have a Wilson interval, which stays within 0 and 1, and are also corrected by sensitivity and specificity
(Rogan and Gladen 1978). `RatingPlan` says how many ratings give which width.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from beholder.statistics.bootstrap import CONFIDENCE_LEVEL, Interval, t_quantile, undefined_estimate
from beholder.statistics.data import Bools, Floats, Ints

MIN_RATED_GROUPS = 10  # with fewer rated groups a tuned weight is a guess, and people are used alone
ROUNDING_SQUARE = 1e-20  # relative to the squared numbers: a smaller sum of squares is a rounding error


@dataclass(frozen=True, slots=True)
class RegressionFit:
    """A mean and the two parts of its variance.

    Attributes:
        value: The mean.
        weight: Human points per point of the judge; 0 without a judge.
        rating_variance: The part of the variance that more ratings reduce.
        case_variance: The part that only more cases reduce, since the cases of a run are themselves a sample.
        degrees_of_freedom: Degrees of freedom of the first part, counted in groups.
        intraclass_correlation: Correlation of the errors of two cases of one group, 0 to 1.
    """

    value: float
    weight: float
    rating_variance: float
    case_variance: float
    degrees_of_freedom: int
    intraclass_correlation: float

    @property
    def variance(self) -> float:
        return self.rating_variance + self.case_variance

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return interval_half_width(self.variance, self.degrees_of_freedom)


def interval_half_width(variance: float, freedom: int) -> float:
    """Return half the width of a t interval."""
    return float(t_quantile((1 + CONFIDENCE_LEVEL) / 2, freedom) * np.sqrt(variance))


def fit_regression(
    human: Floats, group: Ints, judge: Floats | None = None, *, allow_negative: bool = False
) -> RegressionFit | None:
    """Estimate the mean of `human` over all cases, with a cluster-robust variance and small-sample factors.

    Args:
        human: One score per case, nan where nobody rated.
        group: Group of each case, numbered from 0 without gaps.
        judge: One number per case; None to use people alone.
        allow_negative: Accept a judge that correlates negatively with people.

    Returns:
        None where fewer than two groups (three with a judge) are rated, or where the judge is uninformative: it or
        people are constant on the rated cases, or it correlates negatively without `allow_negative`.
    """
    rated: Bools = ~np.isnan(human)
    people, rated_groups = human[rated], group[rated]
    count, groups, tuned = len(people), len(np.unique(rated_groups)), int(judge is not None)
    if groups < 2 + tuned or count < 2 + tuned:
        return None
    mean, slope = float(people.mean()), 0.0
    errors: Floats = people - mean
    shares: Floats = np.full(count, 1 / count)
    spread: Floats = np.zeros(len(human))
    if judge is not None:
        away = judge[rated] - judge[rated].mean()
        square = float(away @ away)
        if square <= ROUNDING_SQUARE * float(np.abs(judge).max()) ** 2 or np.ptp(people) == 0:
            return None
        slope = float(away @ errors) / square
        if slope <= 0 and not allow_negative:
            return None
        gap = float(judge.mean() - judge[rated].mean())
        mean += slope * gap
        errors = errors - slope * away
        shares = shares + gap / square * away
        spread = slope * (judge - judge.mean()) / len(judge)
    parts, every = shares * errors, int(group.max()) + 1
    alone = float(parts @ parts) * count / (count - 1 - tuned)
    ours = np.bincount(rated_groups, parts, every) * np.sqrt(groups / (groups - 1) * (count - 1) / (count - 1 - tuned))
    others = np.bincount(group, spread, every) * np.sqrt(every / (every - 1))
    by_ratings = float(ours @ ours)
    return RegressionFit(
        value=mean,
        weight=slope,
        rating_variance=by_ratings,
        case_variance=float(others @ others + 2 * ours @ others),
        degrees_of_freedom=groups - 1 - tuned,
        intraclass_correlation=_intraclass_correlation(rated_groups, by_ratings / alone if alone > 0 else 1.0),
    )


def _intraclass_correlation(group: Ints, inflation: float) -> float:
    """Return the correlation that explains a variance inflation of 1 + correlation · (other cases of the group)."""
    sizes = np.bincount(group).astype(np.float64)
    companions = float(sizes @ (sizes - 1)) / len(group)
    return float(np.clip((inflation - 1) / companions, 0, 1)) if companions else 0.0


def wilson_estimate(fit: RegressionFit, rated: int) -> Interval:
    """Return a rate with Wilson's interval for the number of independent cases that its variance corresponds to.

    Where people and judge never differed (or, without a judge, all rated cases are alike) the observed variance is
    zero; then one difference in `rated` + 2 cases is assumed to be possible.
    """
    value = float(np.clip(fit.value, 0, 1))
    variance = max(fit.variance, fit.case_variance + _unobserved_variance(rated))
    shrunk = (rated * value + 1) / (rated + 2)
    worth = shrunk * (1 - shrunk) / variance
    square = t_quantile((1 + CONFIDENCE_LEVEL) / 2, fit.degrees_of_freedom) ** 2
    centre = (value + square / (2 * worth)) / (1 + square / worth)
    half = np.sqrt(square * (value * (1 - value) / worth + square / (4 * worth**2))) / (1 + square / worth)
    return Interval(value, max(0.0, float(centre - half)), min(1.0, float(centre + half)))


class CorrectedRate(msgspec.Struct, frozen=True):
    """A pass rate corrected by the judge's errors (Rogan and Gladen 1978).

    Attributes:
        rate: The corrected pass rate.
        sensitivity: Share of the cases that people pass which the judge passes.
        specificity: Share of the cases that people fail which the judge fails.
        clipped: Whether the interval was clipped to 0 and 1.
    """

    rate: Interval
    sensitivity: float | None
    specificity: float | None
    clipped: bool = False


def correct_pass_rate(human: Floats, judge: Floats, group: Ints) -> CorrectedRate:
    """Correct the judge's pass rate of all cases by its errors on the rated ones; all values are 1, 0 or nan.

    Not defined where people pass all rated cases or none, or where the judge is no better than chance (sensitivity plus
    specificity not above 1). The interval is by the delta method, robust to clustering.
    """
    seen = ~np.isnan(judge)
    rated = seen & ~np.isnan(human)
    good, bad = rated & (human == 1), rated & (human == 0)
    if not good.any() or not bad.any():
        alike = "fail" if bad.any() else "pass"
        why = f"people {alike} every rated case" if rated.any() else "no case is both judged and rated"
        return CorrectedRate(undefined_estimate(f"not defined: {why}"), None, None)
    sensitivity, specificity = float(judge[good].mean()), float(1 - judge[bad].mean())
    better = sensitivity + specificity - 1
    if better <= 0:
        why = "not defined: the judge passes what people fail as often as what they pass"
        return CorrectedRate(undefined_estimate(why), sensitivity, specificity)
    passed = float(judge[seen].mean())
    raw = (passed + specificity - 1) / better
    value = float(np.clip(raw, 0, 1))
    influence: Floats = np.zeros(len(judge))
    influence[seen] += (judge[seen] - passed) / seen.sum() / better
    influence[good] -= (judge[good] - sensitivity) / good.sum() * value / better
    influence[bad] += (1 - judge[bad] - specificity) / bad.sum() * (1 - value) / better
    groups = len(np.unique(group[rated]))
    if groups < 3:
        return CorrectedRate(Interval(value, why="no interval: too few groups are rated"), sensitivity, specificity)
    sums = np.bincount(group, influence)
    variance = float(sums @ sums) * groups / (groups - 1)
    variance += _unobserved_variance(int(good.sum())) * (value / better) ** 2 * (sensitivity == 1)
    variance += _unobserved_variance(int(bad.sum())) * ((1 - value) / better) ** 2 * (specificity == 1)
    half = interval_half_width(variance, groups - 2)
    low, high = raw - half, raw + half
    ends = Interval(value, float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1)))
    return CorrectedRate(ends, sensitivity, specificity, clipped=low < 0 or high > 1)


def _unobserved_variance(count: int) -> float:
    """Return the variance to assume for a rate of which no event was seen in `count` cases."""
    rate = 1 / (count + 2)
    return rate * (1 - rate) / count


_ROUND_NUMBERS = (1, 2, 5)


class ExpectedWidth(msgspec.Struct, frozen=True):
    """Expected width of the interval with a number of randomly drawn rated cases.

    Attributes:
        ratings: Number of rated cases.
        with_judge: Width with the judge; None where too few are rated to tune a weight, or the judge is uninformative.
        people: Width by people alone.
    """

    ratings: int
    with_judge: float | None
    people: float


class RatingsNeeded(msgspec.Struct, frozen=True):
    """Number of rated cases that give an interval of the wanted width; None where not even rating every case does."""

    width: float
    with_judge: int | None
    people: int | None


class RatingPlan:
    """Expected widths for other numbers of rated cases, extrapolated from the present ones.

    Widths fall as ratings are added; the width for the present number is the one that was observed.

    Args:
        group: Group of each case.
        now: Number of rated cases.
        alone: Fit and interval by people alone.
        both: Fit and interval with the judge; None where it is not used.
    """

    def __init__(
        self, group: Ints, now: int, alone: tuple[RegressionFit, Interval], both: tuple[RegressionFit, Interval] | None
    ) -> None:
        self._cases, self._rated = len(group), now
        self._sizes, self._size_counts = np.unique(np.bincount(group), return_counts=True)
        pairs = float((self._size_counts * self._sizes * (self._sizes - 1)).sum())
        self._other_cases_share = (
            pairs / self._cases / max(1, self._cases - 1)
        )  # by how many cases are drawn beside one
        self._alone, self._both = alone, both

    def expected_width(self, ratings: int) -> ExpectedWidth:
        """Return the expected width with `ratings` rated cases, from two to all."""
        people = self._scaled_width(self._alone, ratings)
        if self._both is None or ratings < MIN_RATED_GROUPS:
            return ExpectedWidth(ratings, None, people)
        # Rating every case leaves the judge nothing to add: with it no width is below that one. The two need not agree
        # on it by themselves, since each has its own estimate of how alike cases of a group are. A judge costs at most
        # what it costs now, and what came out now is kept: so that widths fall from row to row.
        now, alone = (_interval_width(made[1]) for made in (self._both, self._alone))
        least = min(now, self._scaled_width(self._alone, self._cases))
        most = people * max(1.0, now / alone)
        return ExpectedWidth(ratings, min(most, max(least, self._scaled_width(self._both, ratings))), people)

    def expected_widths(self) -> tuple[ExpectedWidth, ...]:
        """Return the widths at round numbers, at the present number, and at all cases."""
        round_ones = (step * 10**power for power in range(1, 8) for step in _ROUND_NUMBERS)
        steps = {*(step for step in round_ones if step < self._cases), self._rated, self._cases}
        return tuple(self.expected_width(ratings) for ratings in sorted(steps))

    def ratings_needed(self, width: float) -> RatingsNeeded:
        """Return the fewest rated cases for this width."""
        judged = None
        if self._both is not None:
            judged = self._fewest_ratings(width, MIN_RATED_GROUPS, judge=True)
        return RatingsNeeded(width, judged, self._fewest_ratings(width, 2, judge=False))

    def _fewest_ratings(self, width: float, start: int, *, judge: bool) -> int | None:
        def enough(ratings: int) -> bool:
            found = self.expected_width(ratings)
            return ((found.with_judge if judge else None) or found.people) <= width

        low, high = start, self._cases
        if low > high or not enough(high):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle + 1, high)
        return low

    def _scaled_width(self, made: tuple[RegressionFit, Interval], ratings: int) -> float:
        fit, estimate = made
        # Of a rate the interval is not quite a t interval, and groups are hit by chance: what came out sets the unit.
        return _interval_width(estimate) * self._half_width(fit, ratings) / self._half_width(fit, self._rated)

    def _half_width(self, fit: RegressionFit, ratings: int) -> float:
        """Return the half-width as `RegressionFit.half_width`, for so many randomly drawn cases."""

        def inflation(count: int) -> float:
            return 1 + fit.intraclass_correlation * (count - 1) * self._other_cases_share

        by_ratings = fit.rating_variance * self._rated / ratings * inflation(ratings) / inflation(self._rated)
        hit = float((self._size_counts * (1 - (1 - ratings / self._cases) ** self._sizes)).sum())
        freedom = max(1, round(hit) - (2 if fit.weight else 1))
        # `by_cases` has what the two parts have in common, which may be negative.
        return interval_half_width(max(by_ratings / 100, by_ratings + fit.case_variance), freedom)


def _interval_width(estimate: Interval) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low
