"""Weights of cases added up by class, for many draws at once: what tables of ranks are made of, and nearly all of the
time that agreement takes.

Weights are small whole numbers, so several draws go into one number, each with bits of its own, and one addition adds
up all of them: a fifth of the time of a `bincount` for each draw (`benchmarks/statistics_speed.py`). Points are sorted
by class once.

Coefficients of agreement, for many weightings of the cases at once.

A whole weight counts a case that many times, so that a bootstrap draw is a row of weights. What is the same in all
draws is done once: ranks follow from the weights of the distinct values, without sorting, and the rest from a few sums.

Rank coefficients need the table of distinct values against distinct values. A side with more than `MOST_LEVELS` of them
is cut into `BINS` classes of equal size for the draws; the coefficient of all cases is exact all the same, and the
draws are moved by what the cutting changed for all cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from beholder.statistics.bootstrap import divide_or_nan
from beholder.statistics.data import Floats, Ints

PACKED_DRAWS = 3  # draws to a number
BITS_PER_DRAW = 21  # for each draw

_SUMS_PER_BLOCK = 1 << 21  # sums at a time: 16 MB

_RowsT = TypeVar("_RowsT", Floats, Ints)


class BootstrapWeights:
    """How often each case counts in some draws: `rows`, draws × cases, whole numbers from 0; or draws × groups, then
    `group` is the group of each case. Where several statistics are given the same `Weights`, what has to be made of
    them is made once."""

    def __init__(self, rows: Floats, group: Ints | None = None) -> None:
        self.rows, self.group = rows, group

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, weights: WeightsLike) -> BootstrapWeights:
        return weights if isinstance(weights, BootstrapWeights) else cls(weights)

    def times(self, terms: Floats) -> Floats:
        """The weighted sums of terms (cases × terms): draws × terms."""
        if self.group is None:
            return self.rows @ terms
        groups = self.rows.shape[1]
        return self.rows @ np.stack([np.bincount(self.group, term, groups) for term in terms.T], axis=1)

    @cached_property
    def most(self) -> int:
        return int(self.rows.max(initial=0))

    @cached_property
    def packed(self) -> Ints:
        """`PACKED` draws to a row, the first of them in the lowest bits."""
        whole = self.rows.astype(np.int64)
        found = whole[::PACKED_DRAWS].copy()
        for lane in range(1, PACKED_DRAWS):
            own = whole[lane::PACKED_DRAWS]
            found[: len(own)] += own << (lane * BITS_PER_DRAW)
        return found


WeightsLike = Floats | BootstrapWeights
"""Weights, draws × cases."""
WeightedStatistics = Callable[[WeightsLike], dict[str, Floats]]
"""Statistics by name, a value for each draw."""


class ClassSums:
    """Points that have a class each, one of `size`, and carry the weight of a case, times a `share`, 1 if not given."""

    def __init__(self, place: Ints, case: Ints, size: int, share: Floats | None = None) -> None:
        self.size = size
        shares = np.ones(len(place)) if share is None else share
        self._parts = [
            _sort_by_class(place, case, np.flatnonzero(shares == one), size, float(one)) for one in np.unique(shares)
        ]

    def weighed(self, weights: WeightsLike) -> Iterator[Floats]:
        """The weight of each class: draws × classes, some draws at a time."""
        every = BootstrapWeights.of(weights)
        step = PACKED_DRAWS * max(1, _SUMS_PER_BLOCK // (PACKED_DRAWS * self.size))
        for start in range(0, len(every), step):
            rows = slice(start, min(start + step, len(every)))
            parts = [part.sums(every, rows) for part in self._parts]
            yield sum(parts[1:], parts[0]) if parts else np.zeros((rows.stop - rows.start, self.size))


@dataclass(frozen=True, slots=True, eq=False)
class _EqualShareClasses:
    """Points of one share in the order of their classes: the case of each, where each class begins, the classes that
    have no point, and how many points the largest has."""

    share: float
    case: Ints
    first: Ints
    empty: Ints
    largest: int

    def sums(self, weights: BootstrapWeights, rows: slice) -> Floats:
        """Draws × classes. `rows` begins with the first of `PACKED` draws."""
        if self.largest * weights.most >= 1 << BITS_PER_DRAW:
            return self.share * self._added(weights.rows[rows], weights.group)
        packed = self._added(weights.packed[rows.start // PACKED_DRAWS : -(-rows.stop // PACKED_DRAWS)], weights.group)
        found = np.empty((rows.stop - rows.start, packed.shape[1]))
        for lane in range(PACKED_DRAWS):
            own = found[lane::PACKED_DRAWS]
            own[:] = (packed[: len(own)] >> (lane * BITS_PER_DRAW)) & ((1 << BITS_PER_DRAW) - 1)
        return found if self.share == 1 else found * self.share

    def _added(self, rows: _RowsT, group: Ints | None) -> _RowsT:
        place = self.case if group is None else group[self.case]
        found = np.empty((len(rows), len(self.first)), rows.dtype)
        gathered = np.zeros(len(place) + 1, rows.dtype)  # the last stays 0: empty classes at the end begin there
        for row, sums in zip(rows, found, strict=True):
            np.take(row, place, out=gathered[:-1], mode="clip")  # all are there; "raise" would copy once more
            np.add.reduceat(gathered, self.first, out=sums)
        found[:, self.empty] = 0  # `reduceat` takes the next class's first point
        return found


def _sort_by_class(place: Ints, case: Ints, own: Ints, size: int, share: float) -> _EqualShareClasses:
    order = own[np.argsort(place[own], kind="stable")]
    counts = np.bincount(place[own], minlength=size)
    first = np.cumsum(counts) - counts
    return _EqualShareClasses(
        share, case[order].astype(np.intp), first, np.flatnonzero(counts == 0), int(counts.max(initial=0))
    )


MAX_LEVELS = 64
RANK_BINS = 64
MAX_STEPS = 20  # a scale with more distinct ratings than this has no steps on which to agree exactly

_ZERO_VARIANCE = 1e-12  # of the squared range: what is left by rounding where a variance is zero


@dataclass(frozen=True, slots=True, eq=False)
class ScorePairs:
    """Points to compare: `x` of the judge with `y` of people. `case` is each point's place among `size` weights.

    `share` is what a point counts beside its weight, 1 if not given. `times` is how many cases of the data stand behind
    each weight, 1 if not given: cases that are alike may be counted together.
    """

    x: Floats
    y: Floats
    case: Ints
    size: int
    share: Floats | None = None
    times: Ints | None = None

    def __len__(self) -> int:
        return len(self.x)


def pair_scores(x: Floats, y: Floats, times: Ints | None = None) -> ScorePairs:
    """The points where both are known. `y` is a number for each case; or cases × raters, then a rating is a point."""
    across = y[:, None] if y.ndim == 1 else y
    case, rater = np.nonzero(~np.isnan(across) & ~np.isnan(x)[:, None])
    return ScorePairs(x[case], across[case, rater], case.astype(np.int64), len(x), times=times)


@dataclass(frozen=True, slots=True, eq=False)
class SumStatistics:
    """Statistics that follow from sums over cases: what is summed (cases × terms), and what follows from the sums
    (draws × terms)."""

    terms: Floats
    follows: Callable[[Floats], dict[str, Floats]]

    def __call__(self, weights: WeightsLike) -> dict[str, Floats]:
        return self.follows(BootstrapWeights.of(weights).times(self.terms))


def combine_sums(parts: Sequence[SumStatistics]) -> SumStatistics:
    """Several at the price of one product."""
    ends = np.cumsum([part.terms.shape[1] for part in parts])[:-1]

    def follows(sums: Floats) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for part, own in zip(parts, np.split(sums, ends, axis=1), strict=True):
            found |= part.follows(own)
        return found

    return SumStatistics(np.hstack([part.terms for part in parts]), follows)


def distance_statistics(pairs: ScorePairs) -> SumStatistics:
    """`pearson`; `mae`, the mean distance; and `bias`, how far the judge lies above people on average.

    Pearson's coefficient is not defined where one side is constant.
    """
    x, y = _standardize(pairs.x), _standardize(pairs.y)
    away = pairs.x - pairs.y

    def follows(sums: Floats) -> dict[str, Floats]:
        n, sx, sy, sxx, syy, sxy, far, above = sums.T
        mx, my = divide_or_nan(sx, n), divide_or_nan(sy, n)
        vx, vy = divide_or_nan(sxx, n) - mx**2, divide_or_nan(syy, n) - my**2
        wide = (vx > _ZERO_VARIANCE) & (vy > _ZERO_VARIANCE)
        under = np.sqrt(np.where(wide, vx * vy, 0.0))
        pearson = np.clip(divide_or_nan(divide_or_nan(sxy, n) - mx * my, under), -1, 1)
        return {"pearson": pearson, "mae": divide_or_nan(far, n), "bias": divide_or_nan(above, n)}

    return SumStatistics(sum_by_case(pairs, np.ones_like(x), x, y, x * x, y * y, x * y, np.abs(away), away), follows)


def quadratic_kappa_statistics(pairs: ScorePairs) -> SumStatistics:
    """`quadratic_kappa`, Cohen's kappa with squared distance on the scale as weights: 1 less the mean squared
    difference over that of pairs put together at random. It needs no classes, and on a scale of equal steps it is the
    usual one. Not defined where both sides are the same constant."""
    both = np.concatenate([pairs.x, pairs.y])
    standard = _standardize(both)
    x, y = standard[: len(pairs)], standard[len(pairs) :]

    def follows(sums: Floats) -> dict[str, Floats]:
        n, sx, sy, sxx, syy, apart = sums.T
        chance = divide_or_nan(sxx + syy, n) - 2 * divide_or_nan(sx, n) * divide_or_nan(sy, n)
        chance = np.where(chance > _ZERO_VARIANCE, chance, 0.0)
        return {"quadratic_kappa": 1 - divide_or_nan(divide_or_nan(apart, n), chance)}

    return SumStatistics(sum_by_case(pairs, np.ones_like(x), x, y, x * x, y * y, (x - y) ** 2), follows)


def exact_agreement_statistics(pairs: ScorePairs, low: float, step: float) -> SumStatistics:
    """`exact`, how often the judge, rounded to a step of the people's scale, gives the very rating, and `within_one`,
    how often it is at most one step away. Steps begin at `low`; halfway goes to the even step."""
    away = np.abs(np.rint((pairs.x - low) / step) - np.rint((pairs.y - low) / step))

    def follows(sums: Floats) -> dict[str, Floats]:
        n, exact, near = sums.T
        return {"exact": divide_or_nan(exact, n), "within_one": divide_or_nan(near, n)}

    terms = (np.ones_like(away), (away == 0).astype(np.float64), (away <= 1).astype(np.float64))
    return SumStatistics(sum_by_case(pairs, *terms), follows)


def find_scale_step(values: Floats) -> float | None:
    """The step of a scale, from the ratings on it: the smallest distance between two. None where there are fewer than
    two distinct ratings or more than `STEPS`, or where they lie on no equal steps."""
    levels = np.unique(values)
    if not 2 <= len(levels) <= MAX_STEPS:
        return None
    step = float(np.diff(levels).min())
    places = (levels - levels[0]) / step
    return step if np.allclose(places, np.rint(places), atol=1e-6) else None


def decision_statistics(pairs: ScorePairs) -> SumStatistics:
    """For yes and no as 1 and 0: `kappa` (Cohen's), and `precision` and `recall` of failures: how many of those that
    the judge fails are failed by people, and how many of those that people fail the judge finds.

    Kappa is not defined where everything is one class on both sides, precision where the judge fails nothing, recall
    where people do not.
    """
    x, y = pairs.x, pairs.y

    def follows(sums: Floats) -> dict[str, Floats]:
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

    return SumStatistics(sum_by_case(pairs, np.ones_like(x), (1 - x) * (1 - y), 1 - x, 1 - y), follows)


def rank_statistics(pairs: ScorePairs, *, kendall: bool = True) -> WeightedStatistics:
    """`spearman`, and with `kendall` also `tau_b` and `tau_c`; ties have their middle rank.

    Not defined where one side is constant. τc counts the distinct values that are there in a draw.
    """
    table = ContingencyTable(pairs)
    names = ("spearman", "tau_b", "tau_c") if kendall else ("spearman",)

    def binned(weights: WeightsLike) -> dict[str, Floats]:
        blocks = [
            (spearman_from_table(one), *(_kendall_from_table(one) if kendall else ())) for one in table.filled(weights)
        ]
        return {name: np.concatenate([block[at] for block in blocks]) for at, name in enumerate(names)}

    if not table.cut:
        return binned
    rough = binned(np.ones((1, pairs.size)) if pairs.times is None else pairs.times[None].astype(np.float64))
    exact = _exact_rank_statistics(*_expand_repeated(pairs), kendall=kendall)
    moved = {name: exact[name] - float(rough[name][0]) for name in names}
    return lambda weights: {name: np.clip(one + moved[name], -1, 1) for name, one in binned(weights).items()}


class ContingencyTable:
    """The weight of each distinct x with each distinct y, by draw. `cut` says whether a side was cut into classes.

    `mirrored` counts each point both ways round, with the same classes on both sides.
    """

    def __init__(self, pairs: ScorePairs, *, mirrored: bool = False) -> None:
        every_x, every_y = _expand_repeated(pairs)
        if mirrored:
            both, self.rows, self.cut = _assign_levels(
                np.concatenate([pairs.x, pairs.y]), np.concatenate([every_x, every_y])
            )
            x, y, self.columns = both[: len(pairs)], both[len(pairs) :], self.rows
        else:
            x, self.rows, x_cut = _assign_levels(pairs.x, every_x)
            y, self.columns, y_cut = _assign_levels(pairs.y, every_y)
            self.cut = x_cut or y_cut
        self._mirrored = mirrored
        self._cells = ClassSums(x * self.columns + y, pairs.case, self.rows * self.columns, pairs.share)

    def filled(self, weights: WeightsLike) -> Iterator[Floats]:
        """Draws × rows × columns, some draws at a time."""
        for cells in self._cells.weighed(weights):
            table = cells.reshape(-1, self.rows, self.columns)
            yield table + table.transpose(0, 2, 1) if self._mirrored else table


def spearman_from_table(table: Floats) -> Floats:
    """Pearson's coefficient of middle ranks."""
    x, y = table.sum(axis=2), table.sum(axis=1)
    rank_x, rank_y = _centered_midranks(x), _centered_midranks(y)
    product = np.einsum("dk,dk->d", np.matmul(table, rank_y[:, :, None])[:, :, 0], rank_x)
    spread = np.einsum("dk,dk->d", x, rank_x**2), np.einsum("dk,dk->d", y, rank_y**2)
    return np.clip(
        divide_or_nan(product, np.sqrt(_zero_if_constant(spread[0], x) * _zero_if_constant(spread[1], y))), -1, 1
    )


def sum_by_case(pairs: ScorePairs, *terms: Floats) -> Floats:
    """What each case contributes to each sum: cases × terms."""
    share = 1.0 if pairs.share is None else pairs.share
    sums = [np.bincount(pairs.case, term * share, pairs.size) for term in terms]
    return np.stack(sums).astype(np.float64).T  # a term lies in one piece


def _kendall_from_table(table: Floats) -> tuple[Floats, Floats]:
    """τb and τc."""
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
    """Middle ranks of classes in order, less the mean rank."""
    ranked: Floats = np.cumsum(counts, axis=1) - counts / 2 - counts.sum(axis=1, keepdims=True) / 2
    return ranked


def _zero_if_constant(spread: Floats, counts: Floats) -> Floats:
    """0 where all is in one class, whatever rounding left."""
    return np.where((counts > 0).sum(axis=1) > 1, spread, 0.0)


def _expand_repeated(pairs: ScorePairs) -> tuple[Floats, Floats]:
    """The points with those repeated that stand for several cases."""
    if pairs.times is None:
        return pairs.x, pairs.y
    times = pairs.times[pairs.case]
    return np.repeat(pairs.x, times), np.repeat(pairs.y, times)


def _assign_levels(values: Floats, every: Floats) -> tuple[Ints, int, bool]:
    """Each value's class, how many there are, and whether values were put together, as many in each class of `every`
    as can be."""
    distinct, place = np.unique(values, return_inverse=True)
    if len(distinct) <= MAX_LEVELS:
        return place.astype(np.int64), max(1, len(distinct)), False
    ordered = np.sort(every)
    middle = (np.searchsorted(ordered, distinct, "left") + np.searchsorted(ordered, distinct, "right")) / 2
    classes = np.minimum((middle / len(ordered) * RANK_BINS).astype(np.int64), RANK_BINS - 1)
    used, own = np.unique(classes, return_inverse=True)
    return own[place].astype(np.int64), len(used), True


def _exact_rank_statistics(x: Floats, y: Floats, *, kendall: bool) -> dict[str, float]:
    """The rank coefficients of unweighted points, in the order of n log n."""
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
    """How many pairs stand in falling order: bit by bit from the highest, within values that are alike so far, how
    many with the bit stand before one without."""
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
    """Moved and shrunk so that sums of squares lose no digits; zero where all are the same."""
    if not len(values) or values.min() == values.max():
        return np.zeros_like(values)
    centred = values - values.mean()
    return np.asarray(centred / np.abs(centred).max(), np.float64)
