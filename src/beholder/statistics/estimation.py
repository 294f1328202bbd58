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

`estimate_aspects` matches what people rated with the columns of a judge and estimates each aspect; the arithmetic is in
`regression`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from beholder.errors import UsageError
from beholder.statistics.aspects import (
    Scale,
    can_rescale,
    describe_matches,
    find_guessed_scales,
    infer_scales_by_aspect,
    match_aspects,
    rescale,
)
from beholder.statistics.bootstrap import Interval, number_groups, t_cdf, to_json_values, undefined_estimate
from beholder.statistics.data import Bools, Column, ColumnKind, Floats, Ints, Ratings, Scores, select_group
from beholder.statistics.regression import (
    MIN_RATED_GROUPS,
    ROUNDING_SQUARE,
    CorrectedRate,
    ExpectedWidth,
    RatingPlan,
    RatingsNeeded,
    RegressionFit,
    correct_pass_rate,
    fit_regression,
    wilson_estimate,
)
from beholder.statistics.sentences import describe_aspect, describe_estimate

SAMPLING_ALARM = 0.01  # p-value of a difference between rated and other cases below which there is a warning


class SamplingWarning(msgspec.Struct, frozen=True):
    """The judge's mean of rated and of other cases, which differ by more than chance explains."""

    rated: float
    others: float
    probability: float


class HumanScoreEstimate(
    msgspec.Struct,
    frozen=True,
    rename={
        "combined": "together",
        "judge": "judge_alone",
        "correction": "corrected",
        "clipped_to": "cut",
        "sampling_warning": "unlike",
    },
):
    """The estimated mean human score (or pass rate) of all cases.

    Attributes:
        cases: Number of cases.
        judged: Cases with a number from the judge; the others enter as cases of which it knows nothing.
        rated: Rated cases.
        groups: Groups of the rated cases.
        combined: The answer: people and judge together.
        people: Estimate by the rated cases alone.
        judge: Estimate by the judge alone, on the human scale.
        bias: The judge minus people.
        weight: Human points per point of the judge; None where the judge is not used and `combined` is `people`.
        correlation: Correlation of judge and people on the rated cases.
        correction: The corrected pass rate.
        clipped_to: The scale to which intervals were clipped; None where none reached beyond it.
        widths: Expected widths for other numbers of ratings; empty where the rated cases do not look randomly drawn.
        needed: Ratings needed for the wanted width.
        sampling_warning: Set where the rated cases do not look randomly drawn.
        bias_rated_only: Whether `bias` is over the rated cases only, not over all that were judged: these are of too
            few groups, or too alike, to tell how it depends on the judge's score.
        bias_cases: Number of cases that `bias` is over.
    """

    cases: int
    judged: int
    rated: int
    groups: int
    combined: Interval
    people: Interval
    judge: Interval
    bias: Interval
    weight: float | None
    correlation: float | None
    correction: CorrectedRate | None = None
    clipped_to: Scale | None = None
    widths: tuple[ExpectedWidth, ...] = ()
    needed: RatingsNeeded | None = None
    sampling_warning: SamplingWarning | None = None
    bias_rated_only: bool = False
    bias_cases: int = 0


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
    group = number_groups(groups, len(human))
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
    bias = _estimate_bias(human, judge_rescaled, group)
    return HumanScoreEstimate(
        cases=len(human),
        judged=int(judged.sum()),
        rated=count,
        groups=many,
        people=people,
        judge=_estimate_judge(judge_rescaled, group, rate),
        bias=bias.interval,
        combined=combined,
        weight=None if both is None else both.weight,
        correlation=_correlate(human, judge),
        widths=() if plan is None else plan.expected_widths(),
        needed=needed,
        sampling_warning=sampling_warning,
        correction=correct_pass_rate(human, judge, group) if rate else None,
        bias_rated_only=bias.rated_only,
        bias_cases=bias.cases,
    )


def _add_interval(fit: RegressionFit | None, human: Floats, rate: bool) -> Interval:
    known = human[~np.isnan(human)]
    if not len(known):
        return undefined_estimate("no case of these is rated")
    if fit is None:
        why = "no interval: one case is rated" if len(known) == 1 else "no interval: all rated cases are of one group"
        return Interval(float(known.mean()), why=why)
    if rate:
        return wilson_estimate(fit, len(known))
    if np.ptp(known) == 0:
        return Interval(fit.value, why="no interval: all rated cases have the same score")
    return Interval(fit.value, fit.value - fit.half_width, fit.value + fit.half_width)


def _clip_estimate(estimate: Interval, scale: tuple[float, float]) -> Interval:
    value, low, high = (
        None if number is None else float(np.clip(number, *scale))
        for number in (estimate.value, estimate.low, estimate.high)
    )
    return Interval(value, low, high, estimate.why)


_UNKNOWN_SCALE = undefined_estimate("its scale or that of people is not known")


def _estimate_judge(judge_rescaled: Floats | None, group: Ints, rate: bool) -> Interval:
    if judge_rescaled is None:
        return _UNKNOWN_SCALE
    if np.isnan(judge_rescaled).all():
        return undefined_estimate("the judge has no score for any case")
    return _add_interval(fit_regression(judge_rescaled, group), judge_rescaled, rate)


class _Bias(NamedTuple):
    interval: Interval
    rated_only: bool = False
    cases: int = 0


def _estimate_bias(human: Floats, judge_rescaled: Floats | None, group: Ints) -> _Bias:
    """Estimate the judge minus people over all judged cases, using the judge's own numbers as the regressor.

    With few groups, or where the judge's numbers do not vary, it is the mean difference of the rated cases.
    """
    if judge_rescaled is None:
        return _Bias(_UNKNOWN_SCALE)
    judged = ~np.isnan(judge_rescaled)
    if not judged.any():
        return _Bias(undefined_estimate("the judge has no score for any case"))
    judged_groups = np.unique(group[judged], return_inverse=True)[1]
    differences, judge = (judge_rescaled - human)[judged], judge_rescaled[judged]
    many = len(np.unique(judged_groups[~np.isnan(differences)]))
    fit = fit_regression(differences, judged_groups, judge, allow_negative=True) if many >= MIN_RATED_GROUPS else None
    interval = _add_interval(fit or fit_regression(differences, judged_groups), differences, rate=False)
    rated = int((~np.isnan(differences)).sum())
    rated_only = fit is None and 0 < rated < len(differences)
    return _Bias(interval, rated_only, rated if fit is None else len(differences))


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


@dataclass(frozen=True, slots=True)
class EstimateOptions:
    """What is estimated.

    Attributes:
        passes: Estimate a pass rate: the human score from which a case passes; None for the mean score.
        judge_passes: The judge's score from which a case passes; None for the same place on its scale.
        width: A width of the interval for which the ratings needed are computed.

    Raises:
        UsageError: A number is not finite, the width is not above 0, or `judge_passes` is given without `passes`.
    """

    passes: float | None = None
    judge_passes: float | None = None
    width: float | None = None

    def __post_init__(self) -> None:
        if self.judge_passes is not None and self.passes is None:
            raise UsageError("judge_pass goes with pass, which says from which human score a case passes.")
        for name, value in (("pass", self.passes), ("judge_pass", self.judge_passes)):
            if value is not None and not isfinite(value):
                raise UsageError(f"{name} is a score from which a case passes, and {value} is none.")
        if self.width is not None and not 0 < self.width < inf:
            raise UsageError(
                "The width must be above 0: it is how far an interval may reach from its low to its high end."
            )


@dataclass(frozen=True, slots=True)
class RatedAspects:
    """Ratings by aspect and the scales that were given, by aspect, `""` for all.

    If people `reviewed` the run itself, they rated on the scales of the rubric, even if they used few of the values.
    """

    ratings: Mapping[str, Ratings]
    judge_scales: Mapping[str, Scale]
    scales: Mapping[str, Scale]
    reviewed: bool


@dataclass(frozen=True, slots=True)
class AspectScales:
    """Scales of judge and people; `guessed` if the people's scale is only the range of their ratings."""

    judge: Scale
    people: Scale
    guessed: bool


@dataclass(frozen=True, slots=True)
class AspectEstimate:
    """The estimate for one judge and aspect.

    Attributes:
        judge: Name of the judge.
        aspect: What people rated.
        column: The judge's column for it.
        estimated: The estimate.
        judge_passes: When the judge passes a case, in words; empty for a mean score.
        scales: None where none was needed.
    """

    judge: str
    aspect: str
    column: str
    estimated: HumanScoreEstimate
    judge_passes: str = ""
    scales: AspectScales | None = None

    def sentences(self) -> list[str]:
        """Return the result, and what a reader needs to interpret it, in sentences."""
        return [*describe_aspect(self), *describe_estimate(self.estimated)]

    def to_dict(self) -> dict[str, object]:
        names = {"judge": self.judge, "aspect": self.aspect, "column": self.column}
        values = names | to_json_values(self.estimated)
        if self.estimated.correction is not None:
            corrected = to_json_values(self.estimated.correction)
            del corrected["rate"]
            values["corrected"] = self.estimated.correction.rate.to_dict() | corrected
        return values | {"told": self.sentences()}


def estimate_aspects(
    judge: Scores, people: RatedAspects, pairs: Sequence[str], group: str | None, options: EstimateOptions
) -> tuple[list[AspectEstimate], list[str]]:
    """Estimate what people would say of all cases of a judge, for each aspect that they rated.

    Args:
        judge: The judge's scores.
        people: Ratings and scales.
        pairs: Pairs `ASPECT=CRITERION`.
        group: The group by which cases are clustered; None for `source`.
        options: What is estimated.

    Returns:
        The estimates, and notes for the user.

    Raises:
        UsageError: Names do not match (`match_aspects`), or no rated case is among those of the judge.
    """
    columns = match_aspects(people.ratings, judge, pairs)
    notes = [*describe_matches(columns, people.ratings, pairs)]
    belongs = select_group(judge, group)
    rubric_scales = {
        name: column.scale for name, column in columns.items() if people.reviewed and column.scale is not None
    }
    rated_on = people.scales or rubric_scales
    scales = infer_scales_by_aspect(columns, people.ratings, people.judge_scales, rated_on)
    guessed = find_guessed_scales(columns, scales, people.judge_scales, rated_on)
    estimates = []
    for name, column in columns.items():
        ratings = people.ratings[name]
        notes += _unknown_case_notes(ratings, judge)
        estimates.append(
            _estimate_aspect(judge, ratings, column, belongs, AspectScales(*scales[name], name in guessed), options)
        )
    return estimates, notes


def _unknown_case_notes(people: Ratings, judge: Scores) -> list[str]:
    here = set(judge.cases)
    strange = sum(case not in here for case in people.cases)
    if strange == len(people.cases):
        cases = "The one case" if strange == 1 else f"All {strange:,} cases"
        example = f"; one of its cases is {judge.cases[0]!r}" if judge.cases else ""
        rated = f"that people rated {'is' if strange == 1 else 'are'} not in {judge.name}: {people.cases[0]!r}"
        raise UsageError(f"{cases} {rated}{example}.")
    which = "rated case is" if strange == 1 else "rated cases are"
    return [f"{strange:,} {which} not in {judge.name} and left out."] if strange else []


def _estimate_aspect(
    judge: Scores,
    ratings: Ratings,
    column: Column,
    belongs: Sequence[str] | None,
    scales: AspectScales,
    options: EstimateOptions,
) -> AspectEstimate:
    scaled = Column(column.name, column.kind, column.values, scales.judge, column.question)
    human = ratings.for_cases(judge.cases).mean()
    if options.passes is not None:
        return _estimate_aspect_passes(judge, ratings.aspect, scaled, human, scales, belongs, options)
    estimated = estimate_human_mean(
        human,
        column.values,
        belongs,
        judge_rescaled=rescale(scaled, scales.people).values if can_rescale(scales.judge, scales.people) else None,
        scale=None if scales.guessed else scales.people,
        allow_negative=column.kind in (ColumnKind.MEASUREMENT, ColumnKind.SPREAD),
        width=options.width,
    )
    return AspectEstimate(judge.name, ratings.aspect, column.name, estimated, scales=scales)


def _estimate_aspect_passes(
    judge: Scores,
    aspect: str,
    column: Column,
    human: Floats,
    scales: AspectScales,
    belongs: Sequence[str] | None,
    options: EstimateOptions,
) -> AspectEstimate:
    assert options.passes is not None
    least, used = options.judge_passes, None
    if column.kind is ColumnKind.OVERALL and least is None:
        column = judge.columns.get(column.name.removesuffix("score") + "passed", column)
    if column.kind in (ColumnKind.PASSED, ColumnKind.ASSERTION):
        least, words = 1.0, f"{column.name} says so"
    else:
        used = scales if least is None else None
        least = _map_pass_score(column, scales.people, options.passes) if least is None else least
        words = f"its {column.name} is at least {least:.3g}"

    def at_least(values: Floats, least: float) -> Floats:
        # A mean of thirds may come out a hair under the value that it is.
        return np.where(np.isnan(values), np.nan, (values >= least - 1e-9).astype(np.float64))

    passed = at_least(human, options.passes), at_least(column.values, least)
    estimated = estimate_pass_rate(*passed, belongs, width=options.width)
    return AspectEstimate(judge.name, aspect, column.name, estimated, words, used)


def _map_pass_score(column: Column, of_people: Scale, passes: float) -> float:
    """Return the point of the judge's scale at the same relative place as `passes` on the people's."""
    assert column.scale is not None
    (low, high), (people_low, people_high) = column.scale, of_people
    if people_low == people_high:
        raise UsageError(
            "People gave one score only, so that their scale is not known; give it, such as 1..7 "
            "(--rating-scale or rating_scale=)."
        )
    return low + (passes - people_low) / (people_high - people_low) * (high - low)
