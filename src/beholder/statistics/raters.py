"""Agreement among people, and the statistics that are bootstrapped for one aspect.

Agreement among people is the ceiling for any judge: Krippendorff's α, intraclass correlation, and each rater against
the others. It rests on cases that two or more people rated. Ratings are cases × raters, nan where somebody did not
rate; `times` is how many identical cases each row stands for, 1 if None.

For one aspect there are the statistics of the judge against people, of people among themselves, of a constant
prediction, and of another metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from beholder.statistics.bootstrap import divide_or_nan
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
from beholder.statistics.data import Floats, Ints, Ratings

MIN_SHARED_CASES = 5  # cases that a rater must share with others for a rank correlation of his own
MAX_RATERS = 100  # of them: beyond, the ones with the most cases stand for all
STRAIGHTLINING_SHARE = 0.9  # of a rater's ratings: one value so often is a straight line
MIN_STRAIGHTLINING_RATINGS = 5  # ratings before anybody is said to give straight lines


@dataclass(frozen=True, slots=True)
class RaterSummary:
    """Summary of one rater's ratings of one aspect; None where a number is not defined.

    Attributes:
        rater: The rater's name.
        rated: Number of rated cases.
        mean: Mean rating.
        deviation: Standard deviation (n − 1).
        bias: How far the ratings are above the mean of the other raters, on the same cases.
        usual: The most frequent rating.
        share: The share of ratings that are `usual`.
    """

    rater: str
    rated: int
    mean: float
    deviation: float | None
    bias: float | None
    usual: float
    share: float

    @property
    def straight(self) -> bool:
        """Whether nearly all ratings are the same (straightlining)."""
        return self.rated >= MIN_STRAIGHTLINING_RATINGS and self.share >= STRAIGHTLINING_SHARE

    def to_dict(self) -> dict[str, object]:
        return {
            "rater": self.rater,
            "rated": self.rated,
            "mean": self.mean,
            "deviation": self.deviation,
            "bias": self.bias,
            "usual": self.usual,
            "share": self.share,
            "straight": self.straight,
        }


def summarize_raters(ratings: Ratings) -> tuple[RaterSummary, ...]:
    """Summarize every rater with at least one rating."""
    others = _mean_of_others(ratings.values)
    found = []
    for at, name in enumerate(ratings.raters):
        own = ratings.values[:, at]
        there = ~np.isnan(own)
        if not there.any():
            continue
        levels, counts = np.unique(own[there], return_counts=True)
        beside = (own - others[:, at])[there & ~np.isnan(others[:, at])]
        found.append(
            RaterSummary(
                rater=name,
                rated=int(there.sum()),
                mean=float(own[there].mean()),
                deviation=float(own[there].std(ddof=1)) if there.sum() > 1 else None,
                bias=float(beside.mean()) if len(beside) else None,
                usual=float(levels[counts.argmax()]),
                share=float(counts.max() / there.sum()),
            )
        )
    return tuple(found)


def krippendorff_statistics(values: Floats, times: Ints | None = None) -> WeightedStatistics:
    """Return Krippendorff's `alpha_ordinal`, `alpha_interval` and `alpha_nominal`.

    α is 1 where all raters of a case agree, 0 where they agree no more than randomly dealt ratings would, and not
    defined where every rating is the same. It is a correlation of the ratings of one case taken in pairs: of the
    numbers themselves (interval) or of their mean ranks among all ratings (ordinal). On a scale with very many values
    ordinal α is drawn over bins, as rank coefficients are, and nominal α is that of the bins.
    """
    pairs = pair_coincidences(values, times)
    interval = _interval_alpha(pairs)
    table = ContingencyTable(pairs, mirrored=True)

    def tabled(weights: WeightsLike) -> dict[str, Floats]:
        blocks = [
            (_alpha_from_correlation(spearman_from_table(one), one.sum(axis=(1, 2))), _nominal_alpha(one))
            for one in table.filled(weights)
        ]
        names = ("alpha_ordinal", "alpha_nominal")
        return {name: np.concatenate([block[at] for block in blocks]) for at, name in enumerate(names)}

    moved = 0.0
    if table.cut:
        whole = _full_weights(len(values), times)
        moved = float(
            _interval_alpha(pair_coincidences(_rank_ratings(values, times), times))(whole)["alpha_interval"][0]
        )
        moved -= float(tabled(whole)["alpha_ordinal"][0])

    def statistics(weights: WeightsLike) -> dict[str, Floats]:
        found = tabled(weights)
        return {**found, "alpha_ordinal": found["alpha_ordinal"] + moved, **interval(weights)}

    return statistics


def pair_coincidences(values: Floats, times: Ints | None = None) -> ScorePairs:
    """Return every pair of ratings of one case, in one order.

    Pairs are weighted so that each rating counts once in total when pairs are counted in both orders.
    """
    counts = (~np.isnan(values)).sum(axis=1)
    # Who rated does not matter here: ratings to the front, so that many raters of few cases each cost little.
    front = np.take_along_axis(values, np.argsort(np.isnan(values), axis=1, kind="stable"), axis=1)
    sides: list[tuple[Ints, Floats, Floats]] = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))]
    for second in range(1, int(counts.max(initial=0))):
        case = np.flatnonzero(counts > second)
        sides += [(case, front[case, first], front[case, second]) for first in range(second)]
    case, one, other = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    share = 1 / (counts[case] - 1)
    return ScorePairs(one, other, case, len(values), share, times)


def _interval_alpha(pairs: ScorePairs) -> SumStatistics:
    both = ScorePairs(
        np.concatenate([pairs.x, pairs.y]),
        np.concatenate([pairs.y, pairs.x]),
        np.concatenate([pairs.case, pairs.case]),
        pairs.size,
        None if pairs.share is None else np.concatenate([pairs.share, pairs.share]),
    )
    correlated = distance_statistics(both)

    def follows(sums: Floats) -> dict[str, Floats]:
        return {"alpha_interval": _alpha_from_correlation(correlated.follows(sums[:, :-1])["pearson"], sums[:, -1])}

    return SumStatistics(np.hstack([correlated.terms, sum_by_case(both, np.ones(len(both)))]), follows)


def _rank_ratings(values: Floats, times: Ints | None) -> Floats:
    """Replace the ratings of cases with two or more by their mean ranks among all of these."""
    usable = ~np.isnan(values) & ((~np.isnan(values)).sum(axis=1) > 1)[:, None]
    case = np.nonzero(usable)[0]
    _, place = np.unique(values[usable], return_inverse=True)
    counts = np.bincount(place, None if times is None else times[case]).astype(np.float64)
    ranked = np.full(values.shape, np.nan)
    ranked[usable] = (np.cumsum(counts) - counts / 2)[place]
    return ranked


def _full_weights(size: int, times: Ints | None) -> Floats:
    return np.ones((1, size)) if times is None else times[None].astype(np.float64)


def intraclass_statistics(values: Floats) -> SumStatistics:
    """Return the intraclass correlations `icc_1` and `icc_k` (one-way random effects): the share of the variance of one
    rating, or of a case's mean rating, that is between cases.

    Raters need not be the same for each case. With different numbers of raters per case, k is
    k₀ = (N − Σkᵢ²/N) / (n − 1), as in the analysis of variance. Not defined for fewer than two cases, or where nothing
    varies.
    """
    there = ~np.isnan(values)
    k = np.where(there.sum(axis=1) > 1, there.sum(axis=1), 0).astype(np.float64)
    used = k > 0
    low, high = (np.nanmin(values), np.nanmax(values)) if there.any() else (0.0, 0.0)
    width = high - low if high > low else 1.0
    known = np.where(there & used[:, None], (values - (low + high) / 2) / width, 0.0)
    total = known.sum(axis=1)
    between = np.divide(total**2, k, out=np.zeros_like(total), where=used)
    terms = np.stack([used.astype(np.float64), k, k**2, total, between, (known**2).sum(axis=1)], axis=1)

    def follows(sums: Floats) -> dict[str, Floats]:
        n, ratings, squares, total, between, every = sums.T
        mean_k = divide_or_nan(ratings - divide_or_nan(squares, ratings), np.where(n > 1, n - 1, 0.0))
        among = divide_or_nan(between - divide_or_nan(total**2, ratings), np.where(n > 1, n - 1, 0.0))
        within = divide_or_nan(every - between, ratings - n)
        among, within = (np.where(np.abs(one) < _ROUNDING_ERROR, 0.0, one) for one in (among, within))
        return {
            "icc_1": divide_or_nan(among - within, among + (mean_k - 1) * within),
            "icc_k": divide_or_nan(among - within, among),
        }

    return SumStatistics(terms, follows)


_ROUNDING_ERROR = 1e-13


def rater_rank_statistics(values: Floats, times: Ints | None = None, *, each: bool = False) -> WeightedStatistics:
    """Return the statistic `rater_spearman`: one rater's ranking against the others' on the same cases, averaged over
    raters.

    Raters count who share `MIN_SHARED_CASES` cases or more with others and do not rate all cases the same, at most the
    `MAX_RATERS` with the most cases. A rater whose ratings are constant in one draw is left out of that draw.

    Args:
        values: Ratings, cases × raters.
        times: How many identical cases each row stands for.
        each: Compare with each single rating of the others instead of their mean.
    """
    found = [rank_statistics(pairs, kendall=False) for pairs in _pair_with_other_raters(values, times, each)]
    return lambda weights: {"rater_spearman": _average_spearman(found, weights)}


def judge_as_rater_statistics(
    x: Floats, values: Floats, times: Ints | None = None, *, each: bool = False
) -> WeightedStatistics:
    """Return the statistic `judge_as_rater`: `rater_spearman` with the judge in each rater's place in turn.

    It uses the same cases and the same other raters, so that only this may be compared with `rater_spearman`.
    """
    places = _pair_with_other_raters(values, times, each)
    found = [rank_statistics(replace(pairs, x=x[pairs.case]), kendall=False) for pairs in places]
    return lambda weights: {"judge_as_rater": _average_spearman(found, weights)}


def _pair_with_other_raters(values: Floats, times: Ints | None, each: bool) -> list[ScorePairs]:
    """Return, for each eligible rater, the pairs of own ratings and the others' ratings of the same cases."""
    others = _mean_of_others(values)
    sharing: list[tuple[int, ScorePairs]] = []
    for at in range(values.shape[1]):
        pairs = pair_scores(values[:, at], np.delete(values, at, axis=1) if each else others[:, at], times)
        cases = np.unique(pairs.case)
        shared = len(cases) if times is None else int(times[cases].sum())
        if shared >= MIN_SHARED_CASES and np.ptp(pairs.x) > 0 and np.ptp(pairs.y) > 0:
            sharing.append((shared, pairs))
    return [pairs for _, pairs in sorted(sharing, key=lambda one: -one[0])[:MAX_RATERS]]


def _average_spearman(found: Sequence[WeightedStatistics], weights: WeightsLike) -> Floats:
    if not found:
        return np.full(len(weights), np.nan)
    every = np.stack([one(weights)["spearman"] for one in found])
    known = ~np.isnan(every)
    return divide_or_nan(np.where(known, every, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def rater_distance_statistics(values: Floats) -> SumStatistics:
    """Return the statistic `rater_mae`: the mean distance of a rating from the mean of the other ratings of the case."""
    away = np.abs(values - _mean_of_others(values))
    there = ~np.isnan(away)
    terms = np.stack([there.sum(axis=1).astype(np.float64), np.where(there, away, 0.0).sum(axis=1)], axis=1)
    return SumStatistics(terms, lambda sums: {"rater_mae": divide_or_nan(sums[:, 1], sums[:, 0])})


def _mean_of_others(values: Floats) -> Floats:
    """Return for each rating the mean of the other ratings of the case; nan where there is none."""
    there = ~np.isnan(values)
    known = np.where(there, values, 0.0)
    left = there.sum(axis=1, keepdims=True) - there
    means = divide_or_nan(known.sum(axis=1, keepdims=True) - known, left.astype(np.float64))
    # Subtracting leaves crumbs, and ranks would take them for differences.
    return np.where(there, np.round(means, 12), np.nan)


def _alpha_from_correlation(correlation: Floats, counted: Floats) -> Floats:
    """Return α from the correlation of coincidences and the number of ratings (chance draws without replacement)."""
    return 1 - (1 - correlation) * divide_or_nan(counted - 1, counted)


def _nominal_alpha(table: Floats) -> Floats:
    counts = table.sum(axis=1)
    n = counts.sum(axis=1)
    apart = n - np.einsum("dkk->d", table)
    chance = np.where((counts > 0).sum(axis=1) > 1, n**2 - (counts**2).sum(axis=1), 0.0)
    return 1 - divide_or_nan(apart * (n - 1), chance)


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
    there = ~np.isnan(values)
    counts = there.sum(axis=1)
    sums = np.where(there, values, 0.0).sum(axis=1)
    means = np.round(divide_or_nan(sums, counts.astype(np.float64)), 12)  # one number, in whatever order it was summed
    return np.where(counts == 1, sums, means)


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
    place, first, times = find_identical_cases(np.column_stack([x, values]))
    x, values = x[first], values[first]
    unit, single = pair_scores(x, reference_ratings(values, against), times), pair_scores(x, values)
    sums = [distance_statistics(unit), quadratic_kappa_statistics(single)]
    step = find_scale_step(single.y)
    if step is not None:
        sums.append(exact_agreement_statistics(single, low, step))
    parts: list[WeightedStatistics] = [rank_statistics(unit), combine_sums(sums)]
    if people:
        parts.append(judge_as_rater_statistics(x, values, times, each=against is ReferenceMode.EACH))
    return _merge_identical_cases(place, len(first), parts)


def people_statistics(values: Floats, against: ReferenceMode) -> WeightedStatistics:
    """Return the coefficients of raters among themselves (`PEOPLE_COEFFICIENTS`).

    One rater is compared with the mean of the others, or with each of them, as the judge is.
    """
    place, first, times = find_identical_cases(values)
    values = values[first]
    one_rater = rater_rank_statistics(values, times, each=against is ReferenceMode.EACH)
    sums = combine_sums([intraclass_statistics(values), rater_distance_statistics(values)])
    return _merge_identical_cases(place, len(first), [sums, krippendorff_statistics(values, times), one_rater])


def constant_statistics(x: Floats, values: Floats, against: ReferenceMode, group: Ints) -> SumStatistics:
    """Return statistics `constant`, the mean absolute error of a constant prediction, and `difference`, the judge's
    error minus that on the same points.

    The constant for a case is the median of the other groups. Not defined where there is only one group.
    """
    pairs = pair_scores(x, reference_ratings(values, against))
    medians = leave_group_out_medians(pairs.y, group[pairs.case])
    told = np.abs(pairs.y - medians)
    less = np.abs(pairs.y - pairs.x) - told
    counts = np.where(np.isnan(told), 0.0, 1.0)
    terms = (counts, *(np.where(np.isnan(one), 0.0, one) for one in (told, less)))

    def follows(sums: Floats) -> dict[str, Floats]:
        n, constant, difference = sums.T
        return {"constant": divide_or_nan(constant, n), "difference": divide_or_nan(difference, n)}

    return SumStatistics(sum_by_case(pairs, *terms), follows)


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
        own = other(weights)["spearman"]
        return {"spearman": own, "difference": judge(weights)["spearman"] - turned * own}

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
        own = by_group[start:end]
        left = len(values) - len(own)
        if left:
            low, high = (_rank_position(rank, own) for rank in ((left - 1) // 2, left // 2))
            medians[at] = (ordered[low] + ordered[high]) / 2
    return medians[group]


def _rank_position(rank: int, without: Ints) -> int:
    """Return the position of the value of this rank when those at the ascending positions `without` are skipped."""
    place = rank
    for one in without.tolist():
        if one > place:
            break
        place += 1
    return place


def find_identical_cases(columns: Floats) -> tuple[Ints, Ints, Ints]:
    """Find cases with identical values in all columns, which can be weighted together.

    Returns:
        The class of each case, one case of each class, and the size of each class. Where fewer than half of the cases
        could be saved, every case is a class of its own.
    """
    found = np.zeros(len(columns), np.int64)
    for column in columns.T:
        levels, place = np.unique(column, return_inverse=True)  # nan is a level like others
        found = np.unique(found * len(levels) + place, return_inverse=True)[1].astype(np.int64)
    _, first, times = np.unique(found, return_index=True, return_counts=True)
    if 2 * len(first) > len(columns):
        every = np.arange(len(columns))
        return every, every, np.ones(len(columns), np.int64)
    return found, first.astype(np.int64), times.astype(np.int64)


def _merge_identical_cases(place: Ints, size: int, parts: Sequence[WeightedStatistics]) -> WeightedStatistics:
    """Return the statistics of all parts, evaluated on the summed weights of identical cases."""

    classes = ClassSums(place, np.arange(len(place)), size) if size < len(place) else None

    def statistics(weights: WeightsLike) -> dict[str, Floats]:
        counted = weights if classes is None else BootstrapWeights(np.concatenate(list(classes.weighed(weights))))
        found: dict[str, Floats] = {}
        for part in parts:
            found |= part(counted)
        return found

    return statistics


def is_binary(values: Floats) -> bool:
    """Return whether all known values are 0 or 1."""
    known = values[~np.isnan(values)]
    return bool(len(known)) and bool(np.isin(known, (0.0, 1.0)).all())
