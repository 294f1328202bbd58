"""Agreement among people, and the statistics that are bootstrapped for one aspect.

Agreement among people is the ceiling for any judge: Krippendorff's α, intraclass correlation, and each rater against
the others. It rests on cases that two or more people rated. Ratings are cases × raters, nan where somebody did not
rate; `multiplicity` is how many identical cases each row stands for, 1 if None.

For one aspect there are the statistics of the judge against people, of people among themselves, of a constant
prediction, and of another metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum

import msgspec
import numpy as np

from beholder.statistics.bootstrap import divide_or_nan, mean_of_defined
from beholder.statistics.coefficients import (
    BootstrapWeights,
    ClassSums,
    ContingencyTable,
    ScorePairs,
    SumStatistics,
    WeightedStatistics,
    WeightsLike,
    combine_sums,
    distance_statistics,
    exact_agreement_statistics,
    find_scale_step,
    pair_scores,
    quadratic_kappa_statistics,
    rank_statistics,
    spearman_from_table,
    sum_by_case,
)
from beholder.statistics.data import Floats, Ints, Ratings, mean_ratings

MIN_SHARED_CASES = 5  # a rater must share as many cases with others to have a rank correlation
MAX_RATERS = 100  # of more, only those with the most cases count
STRAIGHTLINING_SHARE = 0.9  # a rater straightlines whose most frequent rating has at least this share
MIN_STRAIGHTLINING_RATINGS = 5  # with fewer ratings nobody is said to straightline


class RaterSummary(
    msgspec.Struct,
    frozen=True,
    rename={"most_frequent": "usual", "most_frequent_share": "share", "is_straightlining": "straight"},
):
    """Summary of one rater's ratings of one aspect; None where a number is not defined.

    Attributes:
        rater: The rater's name.
        rated: Number of rated cases.
        mean: Mean rating.
        deviation: Standard deviation (n − 1).
        bias: How far the ratings are above the mean of the other raters, on the same cases.
        most_frequent: The most frequent rating.
        most_frequent_share: The share of ratings that are `most_frequent`.
        is_straightlining: Whether nearly all ratings are the same.
    """

    rater: str
    rated: int
    mean: float
    deviation: float | None
    bias: float | None
    most_frequent: float
    most_frequent_share: float
    is_straightlining: bool


def summarize_raters(ratings: Ratings) -> tuple[RaterSummary, ...]:
    """Summarize every rater with at least one rating."""
    others = _mean_of_others(ratings.values)
    summaries = []
    for at, name in enumerate(ratings.raters):
        rated = ratings.values[:, at]
        defined = ~np.isnan(rated)
        if not defined.any():
            continue
        levels, counts = np.unique(rated[defined], return_counts=True)
        beside = (rated - others[:, at])[defined & ~np.isnan(others[:, at])]
        share = float(counts.max() / defined.sum())
        summaries.append(
            RaterSummary(
                rater=name,
                rated=int(defined.sum()),
                mean=float(rated[defined].mean()),
                deviation=float(rated[defined].std(ddof=1)) if defined.sum() > 1 else None,
                bias=float(beside.mean()) if len(beside) else None,
                most_frequent=float(levels[counts.argmax()]),
                most_frequent_share=share,
                is_straightlining=bool(defined.sum() >= MIN_STRAIGHTLINING_RATINGS) and share >= STRAIGHTLINING_SHARE,
            )
        )
    return tuple(summaries)


def krippendorff_statistics(values: Floats, multiplicity: Ints | None = None) -> WeightedStatistics:
    """Return Krippendorff's `alpha_ordinal`, `alpha_interval` and `alpha_nominal`.

    α is 1 where all raters of a case agree, 0 where they agree no more than randomly dealt ratings would, and not
    defined where every rating is the same. It is a correlation of the ratings of one case taken in pairs: of the
    numbers themselves (interval) or of their mean ranks among all ratings (ordinal). On a scale with very many values
    ordinal α is drawn over bins, as rank coefficients are, and nominal α is that of the bins.
    """
    pairs = pair_coincidences(values, multiplicity)
    interval = _interval_alpha(pairs)
    table = ContingencyTable(pairs, mirrored=True)

    def tabled(weights: WeightsLike) -> dict[str, Floats]:
        blocks = [
            (_alpha_from_correlation(spearman_from_table(block), block.sum(axis=(1, 2))), _nominal_alpha(block))
            for block in table.tables(weights)
        ]
        names = ("alpha_ordinal", "alpha_nominal")
        return {name: np.concatenate([block[at] for block in blocks]) for at, name in enumerate(names)}

    binning_shift = 0.0
    if table.binned:
        whole = _full_weights(len(values), multiplicity)
        binning_shift = float(
            _interval_alpha(pair_coincidences(_rank_ratings(values, multiplicity), multiplicity))(whole)[
                "alpha_interval"
            ][0]
        )
        binning_shift -= float(tabled(whole)["alpha_ordinal"][0])

    def statistics(weights: WeightsLike) -> dict[str, Floats]:
        alphas = tabled(weights)
        return {**alphas, "alpha_ordinal": alphas["alpha_ordinal"] + binning_shift, **interval(weights)}

    return statistics


def pair_coincidences(values: Floats, multiplicity: Ints | None = None) -> ScorePairs:
    """Return every pair of ratings of one case, in one order.

    Pairs are weighted so that each rating counts once in total when pairs are counted in both orders.
    """
    counts = (~np.isnan(values)).sum(axis=1)
    # Who rated does not matter here. Moving ratings to the front makes many raters of few cases each cheap.
    front = np.take_along_axis(values, np.argsort(np.isnan(values), axis=1, kind="stable"), axis=1)
    sides: list[tuple[Ints, Floats, Floats]] = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))]
    for second in range(1, int(counts.max(initial=0))):
        case = np.flatnonzero(counts > second)
        sides += [(case, front[case, first], front[case, second]) for first in range(second)]
    case, one, other = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    share = 1 / (counts[case] - 1)
    return ScorePairs(one, other, case, len(values), share, multiplicity)


def _interval_alpha(pairs: ScorePairs) -> SumStatistics:
    both = ScorePairs(
        np.concatenate([pairs.x, pairs.y]),
        np.concatenate([pairs.y, pairs.x]),
        np.concatenate([pairs.case, pairs.case]),
        pairs.size,
        None if pairs.weight is None else np.concatenate([pairs.weight, pairs.weight]),
    )
    correlated = distance_statistics(both)

    def finish(sums: Floats) -> dict[str, Floats]:
        return {"alpha_interval": _alpha_from_correlation(correlated.finish(sums[:, :-1])["pearson"], sums[:, -1])}

    return SumStatistics(np.hstack([correlated.terms, sum_by_case(both, np.ones(len(both)))]), finish)


def _rank_ratings(values: Floats, multiplicity: Ints | None) -> Floats:
    """Replace the ratings of cases with two or more by their mean ranks among all of these."""
    usable = ~np.isnan(values) & ((~np.isnan(values)).sum(axis=1) > 1)[:, None]
    case = np.nonzero(usable)[0]
    _, place = np.unique(values[usable], return_inverse=True)
    counts = np.bincount(place, None if multiplicity is None else multiplicity[case]).astype(np.float64)
    ranked = np.full(values.shape, np.nan)
    ranked[usable] = (np.cumsum(counts) - counts / 2)[place]
    return ranked


def _full_weights(size: int, multiplicity: Ints | None) -> Floats:
    return np.ones((1, size)) if multiplicity is None else multiplicity[None].astype(np.float64)


def intraclass_statistics(values: Floats) -> SumStatistics:
    """Return the intraclass correlations `icc_1` and `icc_k` (one-way random effects): the share of the variance of one
    rating, or of a case's mean rating, that is between cases.

    Raters need not be the same for each case. With different numbers of raters per case, k is
    k₀ = (N − Σkᵢ²/N) / (n − 1), as in the analysis of variance. Not defined for fewer than two cases, or where nothing
    varies.
    """
    defined = ~np.isnan(values)
    k = np.where(defined.sum(axis=1) > 1, defined.sum(axis=1), 0).astype(np.float64)
    used = k > 0
    low, high = (np.nanmin(values), np.nanmax(values)) if defined.any() else (0.0, 0.0)
    width = high - low if high > low else 1.0
    known = np.where(defined & used[:, None], (values - (low + high) / 2) / width, 0.0)
    total = known.sum(axis=1)
    between = np.divide(total**2, k, out=np.zeros_like(total), where=used)
    terms = np.stack([used.astype(np.float64), k, k**2, total, between, (known**2).sum(axis=1)], axis=1)

    def finish(sums: Floats) -> dict[str, Floats]:
        n, ratings, squares, total, between, every = sums.T
        mean_k = divide_or_nan(ratings - divide_or_nan(squares, ratings), np.where(n > 1, n - 1, 0.0))
        among = divide_or_nan(between - divide_or_nan(total**2, ratings), np.where(n > 1, n - 1, 0.0))
        within = divide_or_nan(every - between, ratings - n)
        among, within = (np.where(np.abs(variance) < _ROUNDING_ERROR, 0.0, variance) for variance in (among, within))
        return {
            "icc_1": divide_or_nan(among - within, among + (mean_k - 1) * within),
            "icc_k": divide_or_nan(among - within, among),
        }

    return SumStatistics(terms, finish)


_ROUNDING_ERROR = 1e-13


def rater_rank_statistics(
    values: Floats, multiplicity: Ints | None = None, *, each: bool = False
) -> WeightedStatistics:
    """Return the statistic `rater_spearman`: one rater's ranking against the others' on the same cases, averaged over
    raters.

    Raters count who share `MIN_SHARED_CASES` cases or more with others and do not rate all cases the same, at most the
    `MAX_RATERS` with the most cases. A rater whose ratings are constant in one draw is left out of that draw.

    Args:
        values: Ratings, cases × raters.
        multiplicity: How many identical cases each row stands for.
        each: Compare with each single rating of the others instead of their mean.
    """
    return _average_spearman("rater_spearman", _pair_with_other_raters(values, multiplicity, each))


def judge_as_rater_statistics(
    x: Floats, values: Floats, multiplicity: Ints | None = None, *, each: bool = False
) -> WeightedStatistics:
    """Return the statistic `judge_as_rater`: `rater_spearman` with the judge in each rater's place in turn.

    It uses the same cases and the same other raters, so that only this may be compared with `rater_spearman`.
    """
    places = _pair_with_other_raters(values, multiplicity, each)
    return _average_spearman("judge_as_rater", [replace(pairs, x=x[pairs.case]) for pairs in places])


def _pair_with_other_raters(values: Floats, multiplicity: Ints | None, each: bool) -> list[ScorePairs]:
    """Return, for each eligible rater, the pairs of own ratings and the others' ratings of the same cases."""
    others = _mean_of_others(values)
    sharing: list[tuple[int, ScorePairs]] = []
    for at in range(values.shape[1]):
        pairs = pair_scores(values[:, at], np.delete(values, at, axis=1) if each else others[:, at], multiplicity)
        cases = np.unique(pairs.case)
        shared = len(cases) if multiplicity is None else int(multiplicity[cases].sum())
        if shared >= MIN_SHARED_CASES and np.ptp(pairs.x) > 0 and np.ptp(pairs.y) > 0:
            sharing.append((shared, pairs))
    return [pairs for _, pairs in sorted(sharing, key=lambda one: -one[0])[:MAX_RATERS]]


def _average_spearman(name: str, pairs: Sequence[ScorePairs]) -> WeightedStatistics:
    by_rater = [rank_statistics(one, kendall=False) for one in pairs]

    def statistics(weights: WeightsLike) -> dict[str, Floats]:
        rhos = [statistic(weights)["spearman"] for statistic in by_rater]
        return {name: mean_of_defined(rhos) if rhos else np.full(len(weights), np.nan)}

    return statistics


def rater_distance_statistics(values: Floats) -> SumStatistics:
    """Return the statistic `rater_mae`: the mean distance of a rating from the mean of the case's other ratings."""
    away = np.abs(values - _mean_of_others(values))
    defined = ~np.isnan(away)
    terms = np.stack([defined.sum(axis=1).astype(np.float64), np.where(defined, away, 0.0).sum(axis=1)], axis=1)
    return SumStatistics(terms, lambda sums: {"rater_mae": divide_or_nan(sums[:, 1], sums[:, 0])})


def _mean_of_others(values: Floats) -> Floats:
    """Return for each rating the mean of the other ratings of the case; nan where there is none."""
    defined = ~np.isnan(values)
    known = np.where(defined, values, 0.0)
    left = defined.sum(axis=1, keepdims=True) - defined
    means = divide_or_nan(known.sum(axis=1, keepdims=True) - known, left.astype(np.float64))
    # Subtraction leaves rounding errors, which ranks would take for differences.
    return np.where(defined, np.round(means, 12), np.nan)


def _alpha_from_correlation(correlation: Floats, counted: Floats) -> Floats:
    """Return α from the correlation of coincidences and the number of ratings (chance draws without replacement)."""
    return 1 - (1 - correlation) * divide_or_nan(counted - 1, counted)


def _nominal_alpha(table: Floats) -> Floats:
    counts = table.sum(axis=1)
    n = counts.sum(axis=1)
    disagreements = n - np.einsum("dkk->d", table)
    chance = np.where((counts > 0).sum(axis=1) > 1, n**2 - (counts**2).sum(axis=1), 0.0)
    return 1 - divide_or_nan(disagreements * (n - 1), chance)


JUDGE_COEFFICIENTS = ("spearman", "tau_b", "tau_c", "pearson", "mae", "bias", "quadratic_kappa", "exact", "within_one")
DECISION_COEFFICIENTS = ("kappa", "precision", "recall")
PEOPLE_COEFFICIENTS = (
    "judge_as_rater",
    "rater_spearman",
    "rater_difference",
    "rater_mae",
    "alpha_ordinal",
    "alpha_interval",
    "alpha_nominal",
    "icc_1",
    "icc_k",
)


class ReferenceMode(StrEnum):
    """What a judge's score is compared with: the mean rating of the case, or each single rating."""

    MEAN = "mean"
    EACH = "each"


def reference_ratings(values: Floats, against: ReferenceMode) -> Floats:
    """Return what the judge is compared with: the mean of each case, or the ratings (cases × raters) as they are."""
    if against is ReferenceMode.EACH:
        return values
    return mean_ratings(values)


def judge_statistics(
    x: Floats, values: Floats, against: ReferenceMode, low: float, *, people: bool = True
) -> WeightedStatistics:
    """Return the coefficients of a judge's scores against ratings (`JUDGE_COEFFICIENTS`).

    Args:
        x: The judge's scores on the people's scale.
        values: Ratings, cases × raters.
        against: Whether to compare with means or with single ratings.
        low: Where the people's scale begins. `exact` and `within_one` are missing where ratings are not equally spaced.
        people: Also compute `judge_as_rater`.
    """
    place, first, multiplicity = find_identical_cases(np.column_stack([x, values]))
    x, values = x[first], values[first]
    unit, single = pair_scores(x, reference_ratings(values, against), multiplicity), pair_scores(x, values)
    sums = [distance_statistics(unit), quadratic_kappa_statistics(single)]
    step = find_scale_step(single.y)
    if step is not None:
        sums.append(exact_agreement_statistics(single, low, step))
    parts: list[WeightedStatistics] = [rank_statistics(unit), combine_sums(sums)]
    if people:
        parts.append(judge_as_rater_statistics(x, values, multiplicity, each=against is ReferenceMode.EACH))
    return _merge_identical_cases(place, len(first), parts)


def people_statistics(values: Floats, against: ReferenceMode) -> WeightedStatistics:
    """Return the coefficients of raters among themselves (`PEOPLE_COEFFICIENTS`).

    One rater is compared with the mean of the others, or with each of them, as the judge is.
    """
    place, first, multiplicity = find_identical_cases(values)
    values = values[first]
    one_rater = rater_rank_statistics(values, multiplicity, each=against is ReferenceMode.EACH)
    sums = combine_sums([intraclass_statistics(values), rater_distance_statistics(values)])
    return _merge_identical_cases(place, len(first), [sums, krippendorff_statistics(values, multiplicity), one_rater])


def constant_statistics(x: Floats, values: Floats, against: ReferenceMode, group: Ints) -> SumStatistics:
    """Return statistics `constant`, the mean absolute error of a constant prediction, and `difference`, the judge's
    error minus that on the same points.

    The constant for a case is the median of the other groups. Not defined where there is only one group.
    """
    pairs = pair_scores(x, reference_ratings(values, against))
    medians = leave_group_out_medians(pairs.y, group[pairs.case])
    constant_error = np.abs(pairs.y - medians)
    less = np.abs(pairs.y - pairs.x) - constant_error
    counts = np.where(np.isnan(constant_error), 0.0, 1.0)
    terms = (counts, *(np.where(np.isnan(distance), 0.0, distance) for distance in (constant_error, less)))

    def finish(sums: Floats) -> dict[str, Floats]:
        n, constant, difference = sums.T
        return {"constant": divide_or_nan(constant, n), "difference": divide_or_nan(difference, n)}

    return SumStatistics(sum_by_case(pairs, *terms), finish)


def metric_statistics(x: Floats, metric: Floats, values: Floats, against: ReferenceMode) -> WeightedStatistics:
    """Return statistics `spearman` of another metric, and `difference`: the judge's minus the metric's, on cases with
    both.

    A metric that correlates negatively with people counts by its strength.
    """
    beside = reference_ratings(np.where(np.isnan(x) | np.isnan(metric), np.nan, values.T).T, against)
    judge, other = (
        rank_statistics(pair_scores(x, beside), kendall=False),
        rank_statistics(pair_scores(metric, beside), kendall=False),
    )
    whole = other(np.ones((1, len(x))))["spearman"][0]
    turned = -1.0 if whole < 0 else 1.0

    def statistics(weights: WeightsLike) -> dict[str, Floats]:
        metric_rho = other(weights)["spearman"]
        return {"spearman": metric_rho, "difference": judge(weights)["spearman"] - turned * metric_rho}

    return statistics


def leave_group_out_medians(values: Floats, group: Ints) -> Floats:
    """Return for each value the median of the values of other groups; nan where there are none."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    medians = np.full(int(group.max(initial=-1)) + 1, np.nan)
    places = group[order]
    by_group = np.argsort(places, kind="stable")  # places of a group's values, rising
    ends = np.cumsum(np.bincount(places, minlength=len(medians)))
    for at, (start, end) in enumerate(zip((0, *ends[:-1]), ends, strict=True)):
        group_positions = by_group[start:end]
        left = len(values) - len(group_positions)
        if left:
            low, high = (_rank_position(rank, group_positions) for rank in ((left - 1) // 2, left // 2))
            medians[at] = (ordered[low] + ordered[high]) / 2
    return medians[group]


def _rank_position(rank: int, without: Ints) -> int:
    """Return the position of the value of this rank when those at the ascending positions `without` are skipped."""
    place = rank
    for skipped in without.tolist():
        if skipped > place:
            break
        place += 1
    return place


def find_identical_cases(columns: Floats) -> tuple[Ints, Ints, Ints]:
    """Find cases with identical values in all columns, which can be weighted together.

    Returns:
        The class of each case, one case of each class, and the size of each class. Where fewer than half of the cases
        could be saved, every case is a class of its own.
    """
    identical = np.zeros(len(columns), np.int64)
    for column in columns.T:
        levels, place = np.unique(column, return_inverse=True)  # nan is a level like others
        identical = np.unique(identical * len(levels) + place, return_inverse=True)[1].astype(np.int64)
    _, first, multiplicity = np.unique(identical, return_index=True, return_counts=True)
    if 2 * len(first) > len(columns):
        every = np.arange(len(columns))
        return every, every, np.ones(len(columns), np.int64)
    return identical, first.astype(np.int64), multiplicity.astype(np.int64)


def _merge_identical_cases(place: Ints, size: int, parts: Sequence[WeightedStatistics]) -> WeightedStatistics:
    """Return the statistics of all parts, evaluated on the summed weights of identical cases."""

    classes = ClassSums(place, np.arange(len(place)), size) if size < len(place) else None

    def statistics(weights: WeightsLike) -> dict[str, Floats]:
        counted = weights if classes is None else BootstrapWeights(np.concatenate(list(classes.sums(weights))))
        values: dict[str, Floats] = {}
        for part in parts:
            values |= part(counted)
        return values

    return statistics


def is_binary(values: Floats) -> bool:
    """Return whether all known values are 0 or 1."""
    known = values[~np.isnan(values)]
    return bool(len(known)) and bool(np.isin(known, (0.0, 1.0)).all())
