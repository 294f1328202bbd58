"""How far people agree with each other: the ceiling for any judge, and what to know of each rater.

Everything here rests on cases that two or more people rated. Ratings are cases × raters, nan where somebody did not
rate. `times` is how many cases of the data stand behind each row, 1 if not given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from beholder.statistics.agreement.coefficients import Pairs, Sums, Table, distances, paired, ranks, spearman_of, summed
from beholder.statistics.agreement.weighing import Drawn, Weighed
from beholder.statistics.data import Floats, Ints, Ratings
from beholder.statistics.intervals import ratio

LEAST_SHARED = 5  # cases that a rater must share with others for a rank correlation of his own
MOST_RATERS = 100  # of them: beyond, the ones with the most cases stand for all
STRAIGHT = 0.9  # of a rater's ratings: one value so often is a straight line
LEAST_STRAIGHT = 5  # ratings before anybody is said to give straight lines


@dataclass(frozen=True, slots=True)
class Rater:
    """One rater of one aspect: how many cases, the mean and standard deviation (n - 1) of the ratings, how far they lie
    above the others' mean for the same cases, the value given most often and its share. None where not defined."""

    rater: str
    rated: int
    mean: float
    deviation: float | None
    bias: float | None
    usual: float
    share: float

    @property
    def straight(self) -> bool:
        """Whether nearly everything got the same rating (`STRAIGHT`)."""
        return self.rated >= LEAST_STRAIGHT and self.share >= STRAIGHT

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


def each_rater(ratings: Ratings) -> tuple[Rater, ...]:
    """Every rater with at least one rating."""
    others = _others(ratings.values)
    found = []
    for at, name in enumerate(ratings.raters):
        own = ratings.values[:, at]
        there = ~np.isnan(own)
        if not there.any():
            continue
        levels, counts = np.unique(own[there], return_counts=True)
        beside = (own - others[:, at])[there & ~np.isnan(others[:, at])]
        found.append(
            Rater(
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


def alphas(values: Floats, times: Ints | None = None) -> Weighed:
    """Krippendorff's `alpha_ordinal`, `alpha_interval` and `alpha_nominal`: 1 where all raters of a case agree, 0 where
    they agree as ratings dealt out at random would, and not defined where every rating is the same.

    α is a correlation of the ratings of one case, taken two by two: of the numbers themselves (interval) or of their
    middle ranks among all ratings (ordinal). On a scale with very many values ordinal α is drawn over classes of it, as
    rank coefficients are, and the nominal one is that of the classes.
    """
    pairs = coincidences(values, times)
    interval = _interval(pairs)
    table = Table(pairs, mirrored=True)

    def tabled(weights: Drawn) -> dict[str, Floats]:
        blocks = [(_alpha(spearman_of(one), one.sum(axis=(1, 2))), _nominal(one)) for one in table.filled(weights)]
        names = ("alpha_ordinal", "alpha_nominal")
        return {name: np.concatenate([block[at] for block in blocks]) for at, name in enumerate(names)}

    moved = 0.0
    if table.cut:
        whole = _whole(len(values), times)
        moved = float(_interval(coincidences(_ranked(values, times), times))(whole)["alpha_interval"][0])
        moved -= float(tabled(whole)["alpha_ordinal"][0])

    def statistics(weights: Drawn) -> dict[str, Floats]:
        found = tabled(weights)
        return {**found, "alpha_ordinal": found["alpha_ordinal"] + moved, **interval(weights)}

    return statistics


def coincidences(values: Floats, times: Ints | None = None) -> Pairs:
    """Every two ratings of one case, one way round, shared out so that each rating counts once in all where pairs are
    counted both ways."""
    counts = (~np.isnan(values)).sum(axis=1)
    # Who rated does not matter here: ratings to the front, so that many raters of few cases each cost little.
    front = np.take_along_axis(values, np.argsort(np.isnan(values), axis=1, kind="stable"), axis=1)
    sides: list[tuple[Ints, Floats, Floats]] = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))]
    for second in range(1, int(counts.max(initial=0))):
        case = np.flatnonzero(counts > second)
        sides += [(case, front[case, first], front[case, second]) for first in range(second)]
    case, one, other = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    share = 1 / (counts[case] - 1)
    return Pairs(one, other, case, len(values), share, times)


def _interval(pairs: Pairs) -> Sums:
    both = Pairs(
        np.concatenate([pairs.x, pairs.y]),
        np.concatenate([pairs.y, pairs.x]),
        np.concatenate([pairs.case, pairs.case]),
        pairs.size,
        None if pairs.share is None else np.concatenate([pairs.share, pairs.share]),
    )
    correlated = distances(both)

    def follows(sums: Floats) -> dict[str, Floats]:
        return {"alpha_interval": _alpha(correlated.follows(sums[:, :-1])["pearson"], sums[:, -1])}

    return Sums(np.hstack([correlated.terms, summed(both, np.ones(len(both)))]), follows)


def _ranked(values: Floats, times: Ints | None) -> Floats:
    """Ratings of cases with two or more, as middle ranks among them all."""
    usable = ~np.isnan(values) & ((~np.isnan(values)).sum(axis=1) > 1)[:, None]
    case = np.nonzero(usable)[0]
    _, place = np.unique(values[usable], return_inverse=True)
    counts = np.bincount(place, None if times is None else times[case]).astype(np.float64)
    ranked = np.full(values.shape, np.nan)
    ranked[usable] = (np.cumsum(counts) - counts / 2)[place]
    return ranked


def _whole(size: int, times: Ints | None) -> Floats:
    return np.ones((1, size)) if times is None else times[None].astype(np.float64)


def consistency(values: Floats) -> Sums:
    """`icc_1` and `icc_k`, the intraclass correlation of one-way random effects: how much of the variance of one
    rating, or of a case's mean rating, is between cases. Raters need not be the same for each case.

    Cases may have different numbers of raters: k is then k₀ = (N - Σkᵢ²/N) / (n - 1), as in the analysis of variance.
    Not defined for fewer than two cases, or where nothing varies.
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
        mean_k = ratio(ratings - ratio(squares, ratings), np.where(n > 1, n - 1, 0.0))
        among = ratio(between - ratio(total**2, ratings), np.where(n > 1, n - 1, 0.0))
        within = ratio(every - between, ratings - n)
        among, within = (np.where(np.abs(one) < _ROUNDING, 0.0, one) for one in (among, within))
        return {
            "icc_1": ratio(among - within, among + (mean_k - 1) * within),
            "icc_k": ratio(among - within, among),
        }

    return Sums(terms, follows)


_ROUNDING = 1e-13


def one_against_others(values: Floats, times: Ints | None = None, *, each: bool = False) -> Weighed:
    """`rater_spearman`, one rater's ranking against the mean of the others on the same cases, or against `each` of
    their ratings, averaged over raters: those who share `LEAST_SHARED` cases or more with others and do not rate all
    alike, at most the `MOST_RATERS` with the most cases.

    A rater who rates all alike in one draw is left out of that draw.
    """
    found = [ranks(pairs, kendall=False) for pairs in _places(values, times, each)]
    return lambda weights: {"rater_spearman": _averaged(found, weights)}


def judge_as_rater(x: Floats, values: Floats, times: Ints | None = None, *, each: bool = False) -> Weighed:
    """`judge_as_rater`, what `one_against_others` gives for a judge in each rater's place in turn: the same cases, the
    same others. Only this may be held against `rater_spearman`."""
    places = _places(values, times, each)
    found = [ranks(replace(pairs, x=x[pairs.case]), kendall=False) for pairs in places]
    return lambda weights: {"judge_as_rater": _averaged(found, weights)}


def _places(values: Floats, times: Ints | None, each: bool) -> list[Pairs]:
    """Each rater's ratings with what the others said of the same cases."""
    others = _others(values)
    sharing: list[tuple[int, Pairs]] = []
    for at in range(values.shape[1]):
        pairs = paired(values[:, at], np.delete(values, at, axis=1) if each else others[:, at], times)
        cases = np.unique(pairs.case)
        shared = len(cases) if times is None else int(times[cases].sum())
        if shared >= LEAST_SHARED and np.ptp(pairs.x) > 0 and np.ptp(pairs.y) > 0:
            sharing.append((shared, pairs))
    return [pairs for _, pairs in sorted(sharing, key=lambda one: -one[0])[:MOST_RATERS]]


def _averaged(found: Sequence[Weighed], weights: Drawn) -> Floats:
    if not found:
        return np.full(len(weights), np.nan)
    every = np.stack([one(weights)["spearman"] for one in found])
    known = ~np.isnan(every)
    return ratio(np.where(known, every, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def distance_to_others(values: Floats) -> Sums:
    """`rater_mae`: how far one rating lies from the mean of the others for the case, over all ratings."""
    away = np.abs(values - _others(values))
    there = ~np.isnan(away)
    terms = np.stack([there.sum(axis=1).astype(np.float64), np.where(there, away, 0.0).sum(axis=1)], axis=1)
    return Sums(terms, lambda sums: {"rater_mae": ratio(sums[:, 1], sums[:, 0])})


def _others(values: Floats) -> Floats:
    """For each rating the mean of the others for the case; nan where there is none."""
    there = ~np.isnan(values)
    known = np.where(there, values, 0.0)
    left = there.sum(axis=1, keepdims=True) - there
    means = ratio(known.sum(axis=1, keepdims=True) - known, left.astype(np.float64))
    # Subtracting leaves crumbs, and ranks would take them for differences.
    return np.where(there, np.round(means, 12), np.nan)


def _alpha(correlation: Floats, counted: Floats) -> Floats:
    """α from the correlation of coincidences and the number of ratings: chance draws without putting back."""
    return 1 - (1 - correlation) * ratio(counted - 1, counted)


def _nominal(table: Floats) -> Floats:
    counts = table.sum(axis=1)
    n = counts.sum(axis=1)
    apart = n - np.einsum("dkk->d", table)
    chance = np.where((counts > 0).sum(axis=1) > 1, n**2 - (counts**2).sum(axis=1), 0.0)
    return 1 - ratio(apart * (n - 1), chance)
