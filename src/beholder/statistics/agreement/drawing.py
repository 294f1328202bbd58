"""What is computed for one aspect in every draw: the judge against people, people among themselves, always saying one
number, and another metric."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from beholder.statistics.agreement.coefficients import (
    Sums,
    distances,
    hits,
    paired,
    quadratic,
    ranks,
    step_of,
    summed,
    together,
)
from beholder.statistics.agreement.raters import (
    alphas,
    consistency,
    distance_to_others,
    judge_as_rater,
    one_against_others,
)
from beholder.statistics.agreement.weighing import Classes, Drawn, Weighed, Weights
from beholder.statistics.data import Floats, Ints
from beholder.statistics.intervals import ratio

JUDGE = ("spearman", "tau_b", "tau_c", "pearson", "mae", "bias", "quadratic_kappa", "exact", "within_one")
DECISIONS = ("kappa", "precision", "recall")
PEOPLE = (
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


class Against(StrEnum):
    """What a judge's score is compared with: the mean rating of the case, or each rating for itself."""

    MEAN = "mean"
    EACH = "each"


def reference(values: Floats, against: Against) -> Floats:
    """What the judge is compared with, from cases × raters: a mean for each case, or the ratings as they are."""
    if against is Against.EACH:
        return values
    there = ~np.isnan(values)
    counts = there.sum(axis=1)
    sums = np.where(there, values, 0.0).sum(axis=1)
    means = np.round(ratio(sums, counts.astype(np.float64)), 12)  # one number, in whatever order it was summed
    return np.where(counts == 1, sums, means)


def judge_and_people(x: Floats, values: Floats, against: Against, low: float, *, people: bool = True) -> Weighed:
    """The coefficients of a judge's scores with cases × raters: `JUDGE`; with `people` also `judge_as_rater`. `low` is
    where the people's scale begins. `exact` and `within_one` are left out where ratings lie on no steps."""
    place, first, times = alike(np.column_stack([x, values]))
    x, values = x[first], values[first]
    unit, single = paired(x, reference(values, against), times), paired(x, values)
    sums = [distances(unit), quadratic(single)]
    step = step_of(single.y)
    if step is not None:
        sums.append(hits(single, low, step))
    parts: list[Weighed] = [ranks(unit), together(sums)]
    if people:
        parts.append(judge_as_rater(x, values, times, each=against is Against.EACH))
    return _counted_together(place, len(first), parts)


def people_themselves(values: Floats, against: Against) -> Weighed:
    """The coefficients of raters among themselves: `PEOPLE`. One rater is held against the mean of the others, or
    against each of them, as a judge is."""
    place, first, times = alike(values)
    values = values[first]
    one_rater = one_against_others(values, times, each=against is Against.EACH)
    sums = together([consistency(values), distance_to_others(values)])
    return _counted_together(place, len(first), [sums, alphas(values, times), one_rater])


def always_one_number(x: Floats, values: Floats, against: Against, group: Ints) -> Sums:
    """`constant`, the mean absolute error of always saying the median, each case told that of the other groups; and
    `difference`, the judge's error less that, on the same points. Not defined where there is one group."""
    pairs = paired(x, reference(values, against))
    medians = medians_of_others(pairs.y, group[pairs.case])
    told = np.abs(pairs.y - medians)
    less = np.abs(pairs.y - pairs.x) - told
    counts = np.where(np.isnan(told), 0.0, 1.0)
    terms = (counts, *(np.where(np.isnan(one), 0.0, one) for one in (told, less)))

    def follows(sums: Floats) -> dict[str, Floats]:
        n, constant, difference = sums.T
        return {"constant": ratio(constant, n), "difference": ratio(difference, n)}

    return Sums(summed(pairs, *terms), follows)


def other_metric(x: Floats, metric: Floats, values: Floats, against: Against) -> Weighed:
    """`spearman` of another metric, and `difference`: the judge's less the metric's, on the cases that have both. A
    metric that falls where people's ratings rise counts as if it were turned round."""
    beside = reference(np.where(np.isnan(x) | np.isnan(metric), np.nan, values.T).T, against)
    judge, other = ranks(paired(x, beside), kendall=False), ranks(paired(metric, beside), kendall=False)
    whole = other(np.ones((1, len(x))))["spearman"][0]
    turned = -1.0 if whole < 0 else 1.0

    def statistics(weights: Drawn) -> dict[str, Floats]:
        own = other(weights)["spearman"]
        return {"spearman": own, "difference": judge(weights)["spearman"] - turned * own}

    return statistics


def medians_of_others(values: Floats, group: Ints) -> Floats:
    """For each value the median of those that are in other groups; nan where there are none."""
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
            low, high = (_place(rank, own) for rank in ((left - 1) // 2, left // 2))
            medians[at] = (ordered[low] + ordered[high]) / 2
    return medians[group]


def _place(rank: int, without: Ints) -> int:
    """Where the value of this rank stands among all, if those at the rising places `without` are passed over."""
    place = rank
    for one in without.tolist():
        if one > place:
            break
        place += 1
    return place


def alike(columns: Floats) -> tuple[Ints, Ints, Ints]:
    """Cases that are alike in everything: each one's class, a case of each class, and how many it has; where few are
    alike, every case is a class of its own."""
    found = np.zeros(len(columns), np.int64)
    for column in columns.T:
        levels, place = np.unique(column, return_inverse=True)  # nan is a level like others
        found = np.unique(found * len(levels) + place, return_inverse=True)[1].astype(np.int64)
    _, first, times = np.unique(found, return_index=True, return_counts=True)
    if 2 * len(first) > len(columns):
        every = np.arange(len(columns))
        return every, every, np.ones(len(columns), np.int64)
    return found, first.astype(np.int64), times.astype(np.int64)


def _counted_together(place: Ints, size: int, parts: Sequence[Weighed]) -> Weighed:
    """The parts, each for weights of cases that are alike added up."""

    classes = Classes(place, np.arange(len(place)), size) if size < len(place) else None

    def statistics(weights: Drawn) -> dict[str, Floats]:
        counted = weights if classes is None else Weights(np.concatenate(list(classes.weighed(weights))))
        found: dict[str, Floats] = {}
        for part in parts:
            found |= part(counted)
        return found

    return statistics


def yes_or_no(values: Floats) -> bool:
    known = values[~np.isnan(values)]
    return bool(len(known)) and bool(np.isin(known, (0.0, 1.0)).all())
