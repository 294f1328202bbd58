"""Coefficients of agreement between two columns, computed for many bootstrap draws at once.

A whole weight counts a case that many times, so that a bootstrap draw is a row of weights. What is the same in all
draws is computed once: most coefficients follow from a few weighted sums (`SumStatistics`), and rank coefficients from
the weighted contingency table of distinct values (`ContingencyTable`), without sorting.

A side with more than `MAX_LEVELS` distinct values is binned into `RANK_BINS` classes of equal size for the draws. The
coefficient of all cases is still exact, and the draws are shifted by what binning changed for all cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from beholder.statistics.bootstrap import divide_or_nan
from beholder.statistics.data import Floats, Ints

_SUMS_PER_BLOCK = 1 << 21  # number of sums that are computed at a time: 16 MB

# Weights are small whole numbers, so three draws share one 64-bit integer, 21 bits each, and one addition serves all
# three. Measured with benchmarks/statistics_speed.py on 10,000 verdicts: `agree` takes 1.6 s of CPU in this way, 3.0 s
# with one draw at a time, 3.1 s with `np.bincount`.
_DRAWS_PER_INTEGER = 3
_BITS_PER_DRAW = 21


class BootstrapWeights:
    """Weights of cases in some draws.

    Attributes:
        rows: Draws × cases, whole numbers from 0; draws × groups where `group_index` is given.
        group_index: The group of each case; None where weights are by case.
    """

    def __init__(self, rows: Floats, group: Ints | None = None) -> None:
        self.rows, self.group_index = rows, group

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def wrap(cls, weights: WeightsLike) -> BootstrapWeights:
        """Return the weights as `BootstrapWeights`; a plain matrix is draws × cases."""
        return weights if isinstance(weights, BootstrapWeights) else cls(weights)

    def weighted_sums(self, terms: Floats) -> Floats:
        """Return the weighted sums of `terms` (cases × terms) as draws × terms."""
        if self.group_index is None:
            return self.rows @ terms
        groups = self.rows.shape[1]
        return self.rows @ np.stack([np.bincount(self.group_index, term, groups) for term in terms.T], axis=1)

    @cached_property
    def largest(self) -> int:
        """The largest weight."""
        return int(self.rows.max(initial=0))

    @cached_property
    def packed_rows(self) -> Ints:
        """`_DRAWS_PER_INTEGER` draws in each row, the first of them in the lowest bits."""
        whole = self.rows.astype(np.int64)
        packed = whole[::_DRAWS_PER_INTEGER].copy()
        for lane in range(1, _DRAWS_PER_INTEGER):
            of_lane = whole[lane::_DRAWS_PER_INTEGER]
            packed[: len(of_lane)] += of_lane << (lane * _BITS_PER_DRAW)
        return packed


_RowsT = TypeVar("_RowsT", Floats, Ints)

WeightsLike = Floats | BootstrapWeights
"""Weights, draws × cases."""
WeightedStatistics = Callable[[WeightsLike], dict[str, Floats]]
"""Statistics by name, a value for each draw."""


class ClassSums:
    """Sums of weights by class.

    Each point has a class, one of `size`, and carries the weight of its case, times a weight of its own (1 by default).
    Points are sorted by class once, so that each draw is one gather and one `np.add.reduceat`.
    """

    def __init__(self, place: Ints, case: Ints, size: int, weight: Floats | None = None) -> None:
        self.size = size
        point_weights = np.ones(len(place)) if weight is None else weight
        self._parts = [
            _sort_by_class(place, case, np.flatnonzero(point_weights == value), size, float(value))
            for value in np.unique(point_weights)
        ]

    def sums(self, weights: WeightsLike) -> Iterator[Floats]:
        """Yield the weight of each class as draws × classes, some draws at a time."""
        every = BootstrapWeights.wrap(weights)
        step = _DRAWS_PER_INTEGER * max(1, _SUMS_PER_BLOCK // (_DRAWS_PER_INTEGER * self.size))
        for start in range(0, len(every), step):
            draws = slice(start, min(start + step, len(every)))
            parts = [part.sums(every, draws) for part in self._parts]
            yield sum(parts[1:], parts[0]) if parts else np.zeros((draws.stop - draws.start, self.size))


@dataclass(frozen=True, slots=True, eq=False)
class _EqualShareClasses:
    """Points of equal weight, sorted by class: each point's case, where each class begins, the empty classes, and how
    many points the largest class has."""

    weight: float
    case: Ints
    first: Ints
    empty: Ints
    largest: int

    def sums(self, weights: BootstrapWeights, draws: slice) -> Floats:
        """Return the sums as draws × classes; `draws` begins with the first draw of a packed row."""
        if self.largest * weights.largest >= 1 << _BITS_PER_DRAW:  # a sum would overflow into the next draw's bits
            return self.weight * self._sum_rows(weights.rows[draws], weights.group_index)
        rows = slice(draws.start // _DRAWS_PER_INTEGER, -(-draws.stop // _DRAWS_PER_INTEGER))
        packed = self._sum_rows(weights.packed_rows[rows], weights.group_index)
        sums = np.empty((draws.stop - draws.start, packed.shape[1]))
        for lane in range(_DRAWS_PER_INTEGER):
            of_lane = sums[lane::_DRAWS_PER_INTEGER]
            of_lane[:] = (packed[: len(of_lane)] >> (lane * _BITS_PER_DRAW)) & ((1 << _BITS_PER_DRAW) - 1)
        return sums if self.weight == 1 else sums * self.weight

    def _sum_rows(self, rows: _RowsT, group: Ints | None) -> _RowsT:
        place = self.case if group is None else group[self.case]
        sums = np.empty((len(rows), len(self.first)), rows.dtype)
        gathered = np.zeros(len(place) + 1, rows.dtype)  # the last stays 0: empty classes at the end begin there
        for row, of_row in zip(rows, sums, strict=True):
            np.take(row, place, out=gathered[:-1], mode="clip")  # all are there; "raise" would copy once more
            np.add.reduceat(gathered, self.first, out=of_row)
        sums[:, self.empty] = 0  # `reduceat` takes the next class's first point
        return sums


def _sort_by_class(place: Ints, case: Ints, points: Ints, size: int, weight: float) -> _EqualShareClasses:
    order = points[np.argsort(place[points], kind="stable")]
    counts = np.bincount(place[points], minlength=size)
    first = np.cumsum(counts) - counts
    empty = np.flatnonzero(counts == 0)
    return _EqualShareClasses(weight, case[order].astype(np.intp), first, empty, int(counts.max(initial=0)))


MAX_LEVELS = 64
RANK_BINS = 64
MAX_STEPS = 20  # a scale with more distinct ratings is continuous: exact agreement is not defined

_ZERO_VARIANCE = 1e-12  # relative to the squared range: a smaller variance is a rounding error


@dataclass(frozen=True, slots=True, eq=False)
class ScorePairs:
    """Points to compare: `x` of the judge with `y` of people.

    Attributes:
        x: The judge's numbers.
        y: The people's numbers.
        case: Position of each point among `size` case weights.
        size: Number of case weights.
        weight: Weight of each point in addition to that of its case; 1 if None.
        multiplicity: How many identical cases of the data each case weight stands for; 1 if None.
    """

    x: Floats
    y: Floats
    case: Ints
    size: int
    weight: Floats | None = None
    multiplicity: Ints | None = None

    def __len__(self) -> int:
        return len(self.x)


def pair_scores(x: Floats, y: Floats, multiplicity: Ints | None = None) -> ScorePairs:
    """Return the points where both sides have a number.

    Args:
        x: One number per case.
        y: One number per case, or cases × raters; then each rating is a point.
        multiplicity: How many identical cases each row stands for; 1 if None.
    """
    across = y[:, None] if y.ndim == 1 else y
    case, rater = np.nonzero(~np.isnan(across) & ~np.isnan(x)[:, None])
    return ScorePairs(x[case], across[case, rater], case.astype(np.int64), len(x), multiplicity=multiplicity)


@dataclass(frozen=True, slots=True, eq=False)
class SumStatistics:
    """Statistics that follow from sums over cases.

    Attributes:
        terms: What is summed: cases × terms.
        finish: Computes the statistics by name from the sums (draws × terms).
    """

    terms: Floats
    finish: Callable[[Floats], dict[str, Floats]]

    def __call__(self, weights: WeightsLike) -> dict[str, Floats]:
        return self.finish(BootstrapWeights.wrap(weights).weighted_sums(self.terms))


def combine_sums(parts: Sequence[SumStatistics]) -> SumStatistics:
    """Combine several statistics so that they need only one matrix product."""
    ends = np.cumsum([part.terms.shape[1] for part in parts])[:-1]

    def finish(sums: Floats) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for part, own in zip(parts, np.split(sums, ends, axis=1), strict=True):
            found |= part.finish(own)
        return found

    return SumStatistics(np.hstack([part.terms for part in parts]), finish)


def distance_statistics(pairs: ScorePairs) -> SumStatistics:
    """Return statistics `pearson`, `mae` (mean absolute error) and `bias` (how far the judge is above people on
    average).

    Pearson's coefficient is not defined where one side is constant.
    """
    x, y = _standardize(pairs.x), _standardize(pairs.y)
    away = pairs.x - pairs.y

    def finish(sums: Floats) -> dict[str, Floats]:
        n, sx, sy, sxx, syy, sxy, far, above = sums.T
        mx, my = divide_or_nan(sx, n), divide_or_nan(sy, n)
        vx, vy = divide_or_nan(sxx, n) - mx**2, divide_or_nan(syy, n) - my**2
        wide = (vx > _ZERO_VARIANCE) & (vy > _ZERO_VARIANCE)
        under = np.sqrt(np.where(wide, vx * vy, 0.0))
        pearson = np.clip(divide_or_nan(divide_or_nan(sxy, n) - mx * my, under), -1, 1)
        return {"pearson": pearson, "mae": divide_or_nan(far, n), "bias": divide_or_nan(above, n)}

    return SumStatistics(sum_by_case(pairs, np.ones_like(x), x, y, x * x, y * y, x * y, np.abs(away), away), finish)


def quadratic_kappa_statistics(pairs: ScorePairs) -> SumStatistics:
    """Return the statistic `quadratic_kappa`: Cohen's kappa with squared distance on the scale as weights.

    It is 1 minus the mean squared difference divided by that of randomly combined pairs. It needs no classes, and
    equals the usual kappa on a scale of equal steps. Not defined where both sides are the same constant.
    """
    both = np.concatenate([pairs.x, pairs.y])
    standard = _standardize(both)
    x, y = standard[: len(pairs)], standard[len(pairs) :]

    def finish(sums: Floats) -> dict[str, Floats]:
        n, sx, sy, sxx, syy, apart = sums.T
        chance = divide_or_nan(sxx + syy, n) - 2 * divide_or_nan(sx, n) * divide_or_nan(sy, n)
        chance = np.where(chance > _ZERO_VARIANCE, chance, 0.0)
        return {"quadratic_kappa": 1 - divide_or_nan(divide_or_nan(apart, n), chance)}

    return SumStatistics(sum_by_case(pairs, np.ones_like(x), x, y, x * x, y * y, (x - y) ** 2), finish)


def exact_agreement_statistics(pairs: ScorePairs, low: float, step: float) -> SumStatistics:
    """Return statistics `exact` (share of points with the same step on the people's scale) and `within_one` (at most
    one step apart).

    Args:
        pairs: The points; both sides are rounded to steps, halves to the even step.
        low: Where the steps begin.
        step: Width of a step.
    """
    away = np.abs(np.rint((pairs.x - low) / step) - np.rint((pairs.y - low) / step))

    def finish(sums: Floats) -> dict[str, Floats]:
        n, exact, near = sums.T
        return {"exact": divide_or_nan(exact, n), "within_one": divide_or_nan(near, n)}

    terms = (np.ones_like(away), (away == 0).astype(np.float64), (away <= 1).astype(np.float64))
    return SumStatistics(sum_by_case(pairs, *terms), finish)


def find_scale_step(values: Floats) -> float | None:
    """Return the step of a scale: the smallest distance between two ratings on it.

    None where there are fewer than two distinct ratings or more than `MAX_STEPS`, or where they are not equally spaced.
    """
    levels = np.unique(values)
    if not 2 <= len(levels) <= MAX_STEPS:
        return None
    step = float(np.diff(levels).min())
    places = (levels - levels[0]) / step
    return step if np.allclose(places, np.rint(places), atol=1e-6) else None


def decision_statistics(pairs: ScorePairs) -> SumStatistics:
    """Return statistics for yes and no as 1 and 0: `kappa` (Cohen's), and `precision` and `recall` of failures.

    Precision is the share of the judge's failures that people fail too, recall the share of people's failures that the
    judge fails. Kappa is not defined where everything is one class on both sides, precision where the judge fails
    nothing, recall where people fail nothing.
    """
    x, y = pairs.x, pairs.y

    def finish(sums: Floats) -> dict[str, Floats]:
        n, both, judge, people = sums.T  # failures
        agreed = divide_or_nan(n - judge - people + 2 * both, n)
        failed, meant = divide_or_nan(judge, n), divide_or_nan(people, n)
        chance = failed * meant + (1 - failed) * (1 - meant)
        left = np.where(chance < 1 - _ZERO_VARIANCE, 1 - chance, 0.0)
        return {
            "kappa": divide_or_nan(agreed - chance, left),
            "precision": divide_or_nan(both, judge),
            "recall": divide_or_nan(both, people),
        }

    return SumStatistics(sum_by_case(pairs, np.ones_like(x), (1 - x) * (1 - y), 1 - x, 1 - y), finish)


def rank_statistics(pairs: ScorePairs, *, kendall: bool = True) -> WeightedStatistics:
    """Return statistics `spearman`, and with `kendall` also `tau_b` and `tau_c`; ties have their mean rank.

    Not defined where one side is constant. τc uses the number of distinct values in each draw.
    """
    table = ContingencyTable(pairs)
    names = ("spearman", "tau_b", "tau_c") if kendall else ("spearman",)

    def binned(weights: WeightsLike) -> dict[str, Floats]:
        blocks = [
            (spearman_from_table(one), *(_kendall_from_table(one) if kendall else ())) for one in table.tables(weights)
        ]
        return {name: np.concatenate([block[at] for block in blocks]) for at, name in enumerate(names)}

    if not table.binned:
        return binned
    binned_values = binned(
        np.ones((1, pairs.size)) if pairs.multiplicity is None else pairs.multiplicity[None].astype(np.float64)
    )
    exact = _exact_rank_statistics(*_expand_repeated(pairs), kendall=kendall)
    binning_shift = {name: exact[name] - float(binned_values[name][0]) for name in names}
    return lambda weights: {name: np.clip(one + binning_shift[name], -1, 1) for name, one in binned(weights).items()}


class ContingencyTable:
    """Weights of each distinct x with each distinct y, by draw.

    Args:
        pairs: The points.
        mirrored: Count each point both ways round, with the same classes on both sides.

    Attributes:
        binned: Whether a side was binned into classes.
    """

    def __init__(self, pairs: ScorePairs, *, mirrored: bool = False) -> None:
        every_x, every_y = _expand_repeated(pairs)
        if mirrored:
            both, self.rows, self.binned = _assign_levels(
                np.concatenate([pairs.x, pairs.y]), np.concatenate([every_x, every_y])
            )
            x, y, self.columns = both[: len(pairs)], both[len(pairs) :], self.rows
        else:
            x, self.rows, x_cut = _assign_levels(pairs.x, every_x)
            y, self.columns, y_cut = _assign_levels(pairs.y, every_y)
            self.binned = x_cut or y_cut
        self._mirrored = mirrored
        self._cells = ClassSums(x * self.columns + y, pairs.case, self.rows * self.columns, pairs.weight)

    def tables(self, weights: WeightsLike) -> Iterator[Floats]:
        """Yield tables as draws × rows × columns, some draws at a time."""
        for cells in self._cells.sums(weights):
            table = cells.reshape(-1, self.rows, self.columns)
            yield table + table.transpose(0, 2, 1) if self._mirrored else table


def spearman_from_table(table: Floats) -> Floats:
    """Return Pearson's coefficient of the mean ranks for each table."""
    x, y = table.sum(axis=2), table.sum(axis=1)
    rank_x, rank_y = _centered_midranks(x), _centered_midranks(y)
    product = np.einsum("dk,dk->d", np.matmul(table, rank_y[:, :, None])[:, :, 0], rank_x)
    spread = np.einsum("dk,dk->d", x, rank_x**2), np.einsum("dk,dk->d", y, rank_y**2)
    return np.clip(
        divide_or_nan(product, np.sqrt(_zero_if_constant(spread[0], x) * _zero_if_constant(spread[1], y))), -1, 1
    )


def sum_by_case(pairs: ScorePairs, *terms: Floats) -> Floats:
    """Return what each case contributes to each sum: cases × terms."""
    weight = 1.0 if pairs.weight is None else pairs.weight
    sums = [np.bincount(pairs.case, term * weight, pairs.size) for term in terms]
    return np.stack(sums).astype(np.float64).T  # a term lies in one piece


def _kendall_from_table(table: Floats) -> tuple[Floats, Floats]:
    """Return τb and τc for each table."""
    x, y = table.sum(axis=2), table.sum(axis=1)
    n = x.sum(axis=1)
    below = np.cumsum(table, axis=1) - table  # smaller x, the same y
    left = np.cumsum(below, axis=2)
    # Smaller x and smaller y agree, smaller x and larger y do not.
    surplus = np.einsum("dkl,dkl->d", table, 2 * left - below) - np.einsum("dk,dk->d", x, left[:, :, -1])
    untied_x, untied_y = n**2 - (x**2).sum(axis=1), n**2 - (y**2).sum(axis=1)
    classes = np.minimum((x > 0).sum(axis=1), (y > 0).sum(axis=1)).astype(np.float64)
    tau_b = divide_or_nan(2 * surplus, np.sqrt(_zero_if_constant(untied_x, x) * _zero_if_constant(untied_y, y)))
    tau_c = divide_or_nan(2 * surplus * classes, n**2 * (classes - 1))
    return np.clip(tau_b, -1, 1), tau_c


def _centered_midranks(counts: Floats) -> Floats:
    """Return the mean ranks of ordered classes, minus the overall mean rank."""
    ranked: Floats = np.cumsum(counts, axis=1) - counts / 2 - counts.sum(axis=1, keepdims=True) / 2
    return ranked


def center_ranks(values: Floats) -> Floats:
    """Return the rank of each value minus the mean rank; ties have their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = _centered_midranks(counts[None].astype(np.float64))[0][place]
    return ranks


def _zero_if_constant(spread: Floats, counts: Floats) -> Floats:
    """Return the spread, exactly 0 where everything is in one class."""
    return np.where((counts > 0).sum(axis=1) > 1, spread, 0.0)


def _expand_repeated(pairs: ScorePairs) -> tuple[Floats, Floats]:
    """Return the points of all cases: those that stand for several identical cases are repeated."""
    if pairs.multiplicity is None:
        return pairs.x, pairs.y
    multiplicity = pairs.multiplicity[pairs.case]
    return np.repeat(pairs.x, multiplicity), np.repeat(pairs.y, multiplicity)


def _assign_levels(values: Floats, every: Floats) -> tuple[Ints, int, bool]:
    """Assign each value to a level, or to one of `RANK_BINS` quantile bins of `every` where there are too many levels.

    Returns:
        The level of each value, the number of levels, and whether values were binned.
    """
    distinct, place = np.unique(values, return_inverse=True)
    if len(distinct) <= MAX_LEVELS:
        return place.astype(np.int64), max(1, len(distinct)), False
    ordered = np.sort(every)
    middle = (np.searchsorted(ordered, distinct, "left") + np.searchsorted(ordered, distinct, "right")) / 2
    classes = np.minimum((middle / len(ordered) * RANK_BINS).astype(np.int64), RANK_BINS - 1)
    used, own = np.unique(classes, return_inverse=True)
    return own[place].astype(np.int64), len(used), True


def _exact_rank_statistics(x: Floats, y: Floats, *, kendall: bool) -> dict[str, float]:
    """Return the rank coefficients of unweighted points in O(n log n)."""
    at_x, at_y = (np.unique(side, return_inverse=True)[1].astype(np.int64) for side in (x, y))
    counts_x, counts_y = np.bincount(at_x), np.bincount(at_y)
    n, classes = len(x), min(len(counts_x), len(counts_y))
    if classes < 2:
        return {"spearman": np.nan, "tau_b": np.nan, "tau_c": np.nan}
    rank_x, rank_y = (_centered_midranks(one[None].astype(np.float64))[0] for one in (counts_x, counts_y))
    spread = float(counts_x @ rank_x**2) * float(counts_y @ rank_y**2)
    found = {"spearman": float(rank_x[at_x] @ rank_y[at_y]) / float(np.sqrt(spread))}
    if kendall:
        pairs = n * (n - 1) // 2
        tied_x, tied_y = (int((one * (one - 1)).sum()) // 2 for one in (counts_x, counts_y))
        both = np.unique(at_x * len(counts_y) + at_y, return_counts=True)[1]
        tied = int((both * (both - 1)).sum()) // 2
        order = np.lexsort((at_y, at_x))
        surplus = pairs - tied_x - tied_y + tied - 2 * _count_inversions(at_y[order])
        found["tau_b"] = surplus / float(np.sqrt(float(pairs - tied_x) * float(pairs - tied_y)))
        found["tau_c"] = 2 * surplus * classes / (n**2 * (classes - 1))
    return found


def _count_inversions(values: Ints) -> int:
    """Count pairs in descending order.

    Works bit by bit from the highest: among values with the same higher bits, each value with the bit that stands
    before one without it is an inversion.
    """
    found = 0
    for bit in reversed(range(int(values.max()).bit_length())):
        alike = values >> (bit + 1)
        order = np.argsort(alike, kind="stable")
        alike, has = alike[order], (values[order] >> bit) & 1
        before = np.cumsum(has) - has
        first = np.flatnonzero(np.diff(alike, prepend=-1))
        start = np.repeat(before[first], np.diff(first, append=len(values)))
        found += int(((before - start) * (1 - has)).sum())
    return found


def _standardize(values: Floats) -> Floats:
    """Center and scale values so that sums of squares lose no digits; zeros where all are the same."""
    if not len(values) or values.min() == values.max():
        return np.zeros_like(values)
    centred = values - values.mean()
    return np.asarray(centred / np.abs(centred).max(), np.float64)
