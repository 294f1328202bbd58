"""Estimation of a run's mean human score (`beholder estimate`), from a judge on all cases and people on a few.

This is prediction-powered inference with a tuned weight (PPI++, Angelopoulos, Duchi and Zrnic 2023) in the form where
the rated cases are part of all cases: mean(people) + weight · (mean(judge, all) − mean(judge, rated)). The best weight
is then the slope of people on judge among the rated cases, and the whole is the regression estimator under double
sampling of survey statistics. PPI++ keeps its weight within 0 and 1, since its predictions are in the unit of the
labels; a judge here may use any scale, so that the weight (human points per point of the judge) has only a lower
bound: a judge that correlates negatively with people among the rated cases is taken to be uninformative.

The estimate is unbiased whatever the judge's scale and errors; a judge that correlates well makes the interval
narrower. That holds only where the rated cases were drawn at random from the run. The interval is for the mean over
cases like those of the run: it does not shrink to zero when every case is rated.

Pass rates have a Wilson interval, which stays within 0 and 1, and are also corrected by sensitivity and specificity
(Rogan and Gladen 1978). `RatingPlan` says how many ratings give which width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from beholder.statistics.bootstrap import (
    CONFIDENCE_LEVEL,
    ClusterBootstrap,
    Estimate,
    undefined_estimate,
)
from beholder.statistics.data import Bools, Floats, Ints
from beholder.statistics.student_t import t_cdf, t_quantile
from beholder.verdicts.verdict import format_count

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


def wilson_estimate(fit: RegressionFit, rated: int) -> Estimate:
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
    return Estimate(value, max(0.0, float(centre - half)), min(1.0, float(centre + half)))


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A pass rate corrected by the judge's errors (Rogan and Gladen 1978).

    Attributes:
        rate: The corrected pass rate.
        sensitivity: Share of the cases that people pass which the judge passes.
        specificity: Share of the cases that people fail which the judge fails.
        clipped: Whether the interval was clipped to 0 and 1.
    """

    rate: Estimate
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
        return CorrectedRate(Estimate(value, why="no interval: too few groups are rated"), sensitivity, specificity)
    sums = np.bincount(group, influence)
    variance = float(sums @ sums) * groups / (groups - 1)
    variance += _unobserved_variance(int(good.sum())) * (value / better) ** 2 * (sensitivity == 1)
    variance += _unobserved_variance(int(bad.sum())) * ((1 - value) / better) ** 2 * (specificity == 1)
    half = interval_half_width(variance, groups - 2)
    low, high = raw - half, raw + half
    ends = Estimate(value, float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1)))
    return CorrectedRate(ends, sensitivity, specificity, clipped=low < 0 or high > 1)


def _unobserved_variance(count: int) -> float:
    """Return the variance to assume for a rate of which no event was seen in `count` cases."""
    rate = 1 / (count + 2)
    return rate * (1 - rate) / count


_ROUND_NUMBERS = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class ExpectedWidth:
    """Expected width of the interval with a number of randomly drawn rated cases.

    Attributes:
        ratings: Number of rated cases.
        with_judge: Width with the judge; None where too few are rated to tune a weight, or the judge is uninformative.
        people: Width by people alone.
    """

    ratings: int
    with_judge: float | None
    people: float


@dataclass(frozen=True, slots=True)
class RatingsNeeded:
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
        self, group: Ints, now: int, alone: tuple[RegressionFit, Estimate], both: tuple[RegressionFit, Estimate] | None
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

    def _scaled_width(self, made: tuple[RegressionFit, Estimate], ratings: int) -> float:
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


def _interval_width(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


# With fewer rated cases, skewed scores make intervals too narrow (simulated: 90 instead of 95 % coverage).
FEW_RATINGS = 30
SAMPLING_ALARM = 0.01  # p-value of a difference between rated and other cases below which there is a warning


@dataclass(frozen=True, slots=True)
class SamplingWarning:
    """The judge's mean of rated and of other cases, which differ by more than chance explains."""

    rated: float
    others: float
    probability: float


@dataclass(frozen=True, slots=True)
class HumanScoreEstimate:
    """The estimated mean human score (or pass rate) of all cases.

    Attributes:
        cases: Number of cases.
        judged: Cases with a number from the judge; the others enter as cases of which it knows nothing.
        rated: Rated cases.
        groups: Groups of the rated cases.
        people: Estimate by the rated cases alone.
        judge: Estimate by the judge alone, on the human scale.
        bias: The judge minus people.
        combined: The answer: people and judge together.
        weight: Human points per point of the judge; None where the judge is not used and `combined` is `people`.
        correlation: Correlation of judge and people on the rated cases.
        widths: Expected widths for other numbers of ratings; empty where the rated cases do not look randomly drawn.
        needed: Ratings needed for the wanted width.
        sampling_warning: Set where the rated cases do not look randomly drawn.
        correction: The corrected pass rate.
        clipped_to: The scale to which intervals were clipped; None where none reached beyond it.
    """

    cases: int
    judged: int
    rated: int
    groups: int
    people: Estimate
    judge: Estimate
    bias: Estimate
    combined: Estimate
    weight: float | None
    correlation: float | None
    widths: tuple[ExpectedWidth, ...] = ()
    needed: RatingsNeeded | None = None
    sampling_warning: SamplingWarning | None = None
    correction: CorrectedRate | None = None
    clipped_to: tuple[float, float] | None = None


def estimate_human_mean(
    human: Floats,
    judge: Floats,
    groups: Sequence[str] | None,
    *,
    judge_rescaled: Floats | None = None,
    scale: tuple[float, float] | None = None,
    allow_negative: bool = False,
    width: float | None = None,
) -> HumanScoreEstimate:
    """Estimate the mean human score of all cases.

    Args:
        human: One score per case, nan where nobody rated.
        judge: One number per case, nan where there is none.
        groups: Group name of each case; None where there are no groups.
        judge_rescaled: The judge on the human scale; without it `judge` and `bias` of the result are undefined.
        scale: The human scale where it is known; means and intervals are clipped to it.
        allow_negative: Accept a column that correlates negatively with people, such as a distance.
        width: A width of the interval for which the ratings needed are computed.
    """
    found = _estimate_score(
        human, judge, judge_rescaled, groups, allow_negative=allow_negative, width=width, rate=False
    )
    if scale is None:
        return found
    people, alone, combined = (
        _clip_estimate(estimate, scale) for estimate in (found.people, found.judge, found.combined)
    )
    same = (people, alone, combined) == (found.people, found.judge, found.combined)
    return replace(found, people=people, judge=alone, combined=combined, clipped_to=None if same else scale)


def estimate_pass_rate(
    human: Floats, judge: Floats, groups: Sequence[str] | None, *, width: float | None = None
) -> HumanScoreEstimate:
    """Estimate the share of all cases that people would pass; 1 is pass, 0 fail, nan not rated or not judged."""
    return _estimate_score(human, judge, judge, groups, allow_negative=False, width=width, rate=True)


def _estimate_score(
    human: Floats,
    judge: Floats,
    judge_rescaled: Floats | None,
    groups: Sequence[str] | None,
    *,
    allow_negative: bool,
    width: float | None,
    rate: bool,
) -> HumanScoreEstimate:
    group = ClusterBootstrap(groups, len(human)).group_index
    rated = ~np.isnan(human)
    judged = ~np.isnan(judge)
    # A case without a score counts as an average one for the weight. It must not be left out: the estimate would be of
    # the cases that the judge did score.
    known = np.where(judged, judge, judge[judged].mean() if judged.any() else 0.0)
    alone = fit_regression(human, group)
    count, many = int(rated.sum()), len(np.unique(group[rated]))
    both = fit_regression(human, group, known, allow_negative=allow_negative) if many >= MIN_RATED_GROUPS else None
    if both and alone and not rate and both.rating_variance <= ROUNDING_SQUARE * alone.rating_variance:
        both = None  # that a few cases have no error at all does not say how large errors are
    # The judge is used even where people alone have the narrower interval: choosing the narrower one would cost a point
    # of coverage or more at 20 ratings, while an uninformative judge widens the interval only a little.
    people = _add_interval(alone, human, rate)
    combined = people if both is None else _add_interval(both, human, rate)
    plan = None
    sampling_warning = _check_sampling(rated, judge, group)
    if alone is not None and np.ptp(human[rated]) > 0 and sampling_warning is None:
        plan = RatingPlan(group, count, (alone, people), None if both is None else (both, combined))
    needed = None
    if width is not None and sampling_warning is None:
        needed = plan.ratings_needed(width) if plan else RatingsNeeded(width, None, None)
    return HumanScoreEstimate(
        cases=len(human),
        judged=int(judged.sum()),
        rated=count,
        groups=many,
        people=people,
        judge=_estimate_judge(judge_rescaled, group, rate),
        bias=_estimate_bias(human, judge_rescaled, group),
        combined=combined,
        weight=None if both is None else both.weight,
        correlation=_correlate(human, judge),
        widths=() if plan is None else plan.expected_widths(),
        needed=needed,
        sampling_warning=sampling_warning,
        correction=correct_pass_rate(human, judge, group) if rate else None,
    )


def _add_interval(fit: RegressionFit | None, human: Floats, rate: bool) -> Estimate:
    known = human[~np.isnan(human)]
    if not len(known):
        return undefined_estimate("no case of these is rated")
    if fit is None:
        why = "no interval: one case is rated" if len(known) == 1 else "no interval: all rated cases are of one group"
        return Estimate(float(known.mean()), why=why)
    if rate:
        return wilson_estimate(fit, len(known))
    if np.ptp(known) == 0:
        return Estimate(fit.value, why="no interval: all rated cases have the same score")
    return Estimate(fit.value, fit.value - fit.half_width, fit.value + fit.half_width)


def _clip_estimate(estimate: Estimate, scale: tuple[float, float]) -> Estimate:
    value, low, high = (
        None if number is None else float(np.clip(number, *scale))
        for number in (estimate.value, estimate.low, estimate.high)
    )
    return replace(estimate, value=value, low=low, high=high)


_UNKNOWN_SCALE = undefined_estimate("its scale or that of people is not known")


def _estimate_judge(judge_rescaled: Floats | None, group: Ints, rate: bool) -> Estimate:
    if judge_rescaled is None:
        return _UNKNOWN_SCALE
    if np.isnan(judge_rescaled).all():
        return undefined_estimate("the judge has no score for any case")
    return _add_interval(fit_regression(judge_rescaled, group), judge_rescaled, rate)


def _estimate_bias(human: Floats, judge_rescaled: Floats | None, group: Ints) -> Estimate:
    """Estimate the judge minus people, using the judge's own numbers as the regressor."""
    if judge_rescaled is None:
        return _UNKNOWN_SCALE
    judged = ~np.isnan(judge_rescaled)
    if not judged.any():
        return undefined_estimate("the judge has no score for any case")
    judged_groups = np.unique(group[judged], return_inverse=True)[1]
    differences, judge = (judge_rescaled - human)[judged], judge_rescaled[judged]
    many = len(np.unique(judged_groups[~np.isnan(differences)]))
    fit = fit_regression(differences, judged_groups, judge, allow_negative=True) if many >= MIN_RATED_GROUPS else None
    return _add_interval(fit or fit_regression(differences, judged_groups), differences, rate=False)


def _correlate(human: Floats, judge: Floats) -> float | None:
    both = ~np.isnan(human) & ~np.isnan(judge)
    if both.sum() < 3 or np.ptp(human[both]) == 0 or np.ptp(judge[both]) == 0:
        return None
    return float(np.corrcoef(human[both], judge[both])[0, 1])


def _check_sampling(rated: Bools, judge: Floats, group: Ints) -> SamplingWarning | None:
    """Return a warning where the judge's scores of rated and other cases differ significantly, robust to clustering."""
    judged = ~np.isnan(judge)
    rated_cases, other_cases = rated & judged, ~rated & judged
    if rated_cases.sum() < 2 or other_cases.sum() < 2:
        return None
    one, other = float(judge[rated_cases].mean()), float(judge[other_cases].mean())
    parts = np.zeros(len(judge))
    parts[rated_cases] = (judge[rated_cases] - one) / rated_cases.sum()
    parts[other_cases] = -(judge[other_cases] - other) / other_cases.sum()
    sums = np.bincount(group, parts)
    freedom = min(len(np.unique(group[rated_cases])), len(np.unique(group[other_cases]))) - 1
    if freedom < 1:
        return None
    error = float(np.sqrt(sums @ sums * (freedom + 1) / freedom))
    if error <= 0:
        return None
    probability = 2 * (1 - t_cdf(abs(one - other) / error, freedom))
    return SamplingWarning(one, other, probability) if probability < SAMPLING_ALARM else None


def describe_estimate(estimate: HumanScoreEstimate) -> list[str]:
    """Return the sentences a reader needs to interpret an estimate."""
    percent = f"{CONFIDENCE_LEVEL:.0%}"
    by = f" of {estimate.groups:,} groups" if estimate.groups < estimate.rated else ""
    sentences = [
        f"People rated {estimate.rated:,} {'case' if estimate.rated == 1 else 'cases'}{by} of {estimate.cases:,}. "
        "Right only where these were drawn at random from all: if people chose what to rate, the estimate is of what "
        "they chose. "
        f"Intervals are {percent}."
    ]
    if (warning := estimate.sampling_warning) is not None:
        seldom = f"{warning.probability:.2%}" if warning.probability >= 0.0001 else "less than 0.01%"
        sentences.append(
            f"Warning: these do not look drawn at random. The judge gives {warning.rated:.3g} to the rated cases and "
            f"{warning.others:.3g} to the others; chance makes such a difference in {seldom} of draws. "
            "What more ratings would give is therefore not told: that can be known of random draws only."
        )
    if estimate.clipped_to is not None:
        sentences.append(
            f"An interval reached beyond the scale, {estimate.clipped_to[0]:g} to {estimate.clipped_to[1]:g}, and was "
            "cut there; widths for other numbers of ratings are before the cut."
        )
    if estimate.judged < estimate.cases:
        missing = format_count(estimate.cases - estimate.judged, "case has no score", "cases have no score")
        sentences.append(f"{missing} from the judge, and so it tells nothing of what people would say there.")
    if estimate.rated < 2:
        sentences.append("An interval needs at least two rated cases.")
    elif estimate.weight is None and estimate.groups < MIN_RATED_GROUPS:
        sentences.append(f"The judge is not used: that takes rated cases of at least {MIN_RATED_GROUPS} groups.")
    elif estimate.weight is None:
        sentences.append("The judge is not used: among the rated cases it does not go along with people.")
    if 2 <= estimate.rated < FEW_RATINGS:
        sentences.append(
            f"With fewer than {FEW_RATINGS} rated cases the interval is too narrow where scores pile up at an end of "
            "the scale."
        )
    return sentences
