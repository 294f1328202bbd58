"""Coefficients of agreement, for many weightings of the cases at once.

A whole weight counts a case that many times, so that a bootstrap draw is a row of weights. What is the same in all
draws is done once: ranks follow from the weights of the distinct values, without sorting, and the rest from a few sums.

Rank coefficients need the table of distinct values against distinct values. A side with more than `MOST_LEVELS` of them
is cut into `BINS` classes of equal size for the draws; the coefficient of all cases is exact all the same, and the
draws are moved by what the cutting changed for all cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from beholder.statistics.agreement.weighing import Classes, Drawn, Weighed, Weights
from beholder.statistics.data import Floats, Ints
from beholder.statistics.intervals import ratio

MOST_LEVELS = 64
BINS = 64
STEPS = 20  # a scale with more distinct ratings than this has no steps on which to agree exactly

_NOTHING = 1e-12  # of the squared range: what is left by rounding where a variance is zero


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
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


def paired(x: Floats, y: Floats, times: Ints | None = None) -> Pairs:
    """The points where both are known. `y` is a number for each case; or cases × raters, then a rating is a point."""
    across = y[:, None] if y.ndim == 1 else y
    case, rater = np.nonzero(~np.isnan(across) & ~np.isnan(x)[:, None])
    return Pairs(x[case], across[case, rater], case.astype(np.int64), len(x), times=times)


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Statistics that follow from sums over cases: what is summed (cases × terms), and what follows from the sums
    (draws × terms)."""

    terms: Floats
    follows: Callable[[Floats], dict[str, Floats]]

    def __call__(self, weights: Drawn) -> dict[str, Floats]:
        return self.follows(Weights.of(weights).times(self.terms))


def together(parts: Sequence[Sums]) -> Sums:
    """Several at the price of one product."""
    ends = np.cumsum([part.terms.shape[1] for part in parts])[:-1]

    def follows(sums: Floats) -> dict[str, Floats]:
        found: dict[str, Floats] = {}
        for part, own in zip(parts, np.split(sums, ends, axis=1), strict=True):
            found |= part.follows(own)
        return found

    return Sums(np.hstack([part.terms for part in parts]), follows)


def distances(pairs: Pairs) -> Sums:
    """`pearson`; `mae`, the mean distance; and `bias`, how far the judge lies above people on average.

    Pearson's coefficient is not defined where one side is constant.
    """
    x, y = _standard(pairs.x), _standard(pairs.y)
    away = pairs.x - pairs.y

    def follows(sums: Floats) -> dict[str, Floats]:
        n, sx, sy, sxx, syy, sxy, far, above = sums.T
        mx, my = ratio(sx, n), ratio(sy, n)
        vx, vy = ratio(sxx, n) - mx**2, ratio(syy, n) - my**2
        wide = (vx > _NOTHING) & (vy > _NOTHING)
        under = np.sqrt(np.where(wide, vx * vy, 0.0))
        pearson = np.clip(ratio(ratio(sxy, n) - mx * my, under), -1, 1)
        return {"pearson": pearson, "mae": ratio(far, n), "bias": ratio(above, n)}

    return Sums(summed(pairs, np.ones_like(x), x, y, x * x, y * y, x * y, np.abs(away), away), follows)


def quadratic(pairs: Pairs) -> Sums:
    """`quadratic_kappa`, Cohen's kappa with squared distance on the scale as weights: 1 less the mean squared
    difference over that of pairs put together at random. It needs no classes, and on a scale of equal steps it is the
    usual one. Not defined where both sides are the same constant."""
    both = np.concatenate([pairs.x, pairs.y])
    standard = _standard(both)
    x, y = standard[: len(pairs)], standard[len(pairs) :]

    def follows(sums: Floats) -> dict[str, Floats]:
        n, sx, sy, sxx, syy, apart = sums.T
        chance = ratio(sxx + syy, n) - 2 * ratio(sx, n) * ratio(sy, n)
        chance = np.where(chance > _NOTHING, chance, 0.0)
        return {"quadratic_kappa": 1 - ratio(ratio(apart, n), chance)}

    return Sums(summed(pairs, np.ones_like(x), x, y, x * x, y * y, (x - y) ** 2), follows)


def hits(pairs: Pairs, low: float, step: float) -> Sums:
    """`exact`, how often the judge, rounded to a step of the people's scale, gives the very rating, and `within_one`,
    how often it is at most one step away. Steps begin at `low`; halfway goes to the even step."""
    away = np.abs(np.rint((pairs.x - low) / step) - np.rint((pairs.y - low) / step))

    def follows(sums: Floats) -> dict[str, Floats]:
        n, exact, near = sums.T
        return {"exact": ratio(exact, n), "within_one": ratio(near, n)}

    terms = (np.ones_like(away), (away == 0).astype(np.float64), (away <= 1).astype(np.float64))
    return Sums(summed(pairs, *terms), follows)


def step_of(values: Floats) -> float | None:
    """The step of a scale, from the ratings on it: the smallest distance between two. None where there are fewer than
    two distinct ratings or more than `STEPS`, or where they lie on no equal steps."""
    levels = np.unique(values)
    if not 2 <= len(levels) <= STEPS:
        return None
    step = float(np.diff(levels).min())
    places = (levels - levels[0]) / step
    return step if np.allclose(places, np.rint(places), atol=1e-6) else None


def decisions(pairs: Pairs) -> Sums:
    """For yes and no as 1 and 0: `kappa` (Cohen's), and `precision` and `recall` of failures: how many of those that
    the judge fails are failed by people, and how many of those that people fail the judge finds.

    Kappa is not defined where everything is one class on both sides, precision where the judge fails nothing, recall
    where people do not.
    """
    x, y = pairs.x, pairs.y

    def follows(sums: Floats) -> dict[str, Floats]:
        n, both, judge, people = sums.T  # failures
        agreed = ratio(n - judge - people + 2 * both, n)
        failed, meant = ratio(judge, n), ratio(people, n)
        chance = failed * meant + (1 - failed) * (1 - meant)
        left = np.where(chance < 1 - _NOTHING, 1 - chance, 0.0)
        return {"kappa": ratio(agreed - chance, left), "precision": ratio(both, judge), "recall": ratio(both, people)}

    return Sums(summed(pairs, np.ones_like(x), (1 - x) * (1 - y), 1 - x, 1 - y), follows)


def ranks(pairs: Pairs, *, kendall: bool = True) -> Weighed:
    """`spearman`, and with `kendall` also `tau_b` and `tau_c`; ties have their middle rank.

    Not defined where one side is constant. τc counts the distinct values that are there in a draw.
    """
    table = Table(pairs)
    names = ("spearman", "tau_b", "tau_c") if kendall else ("spearman",)

    def binned(weights: Drawn) -> dict[str, Floats]:
        blocks = [(spearman_of(one), *(_kendall_of(one) if kendall else ())) for one in table.filled(weights)]
        return {name: np.concatenate([block[at] for block in blocks]) for at, name in enumerate(names)}

    if not table.cut:
        return binned
    rough = binned(np.ones((1, pairs.size)) if pairs.times is None else pairs.times[None].astype(np.float64))
    exact = _exact(*_each(pairs), kendall=kendall)
    moved = {name: exact[name] - float(rough[name][0]) for name in names}
    return lambda weights: {name: np.clip(one + moved[name], -1, 1) for name, one in binned(weights).items()}


class Table:
    """The weight of each distinct x with each distinct y, by draw. `cut` says whether a side was cut into classes.

    `mirrored` counts each point both ways round, with the same classes on both sides.
    """

    def __init__(self, pairs: Pairs, *, mirrored: bool = False) -> None:
        every_x, every_y = _each(pairs)
        if mirrored:
            both, self.rows, self.cut = _levels(np.concatenate([pairs.x, pairs.y]), np.concatenate([every_x, every_y]))
            x, y, self.columns = both[: len(pairs)], both[len(pairs) :], self.rows
        else:
            x, self.rows, x_cut = _levels(pairs.x, every_x)
            y, self.columns, y_cut = _levels(pairs.y, every_y)
            self.cut = x_cut or y_cut
        self._mirrored = mirrored
        self._cells = Classes(x * self.columns + y, pairs.case, self.rows * self.columns, pairs.share)

    def filled(self, weights: Drawn) -> Iterator[Floats]:
        """Draws × rows × columns, some draws at a time."""
        for cells in self._cells.weighed(weights):
            table = cells.reshape(-1, self.rows, self.columns)
            yield table + table.transpose(0, 2, 1) if self._mirrored else table


def spearman_of(table: Floats) -> Floats:
    """Pearson's coefficient of middle ranks."""
    x, y = table.sum(axis=2), table.sum(axis=1)
    rank_x, rank_y = _middle(x), _middle(y)
    product = np.einsum("dk,dk->d", np.matmul(table, rank_y[:, :, None])[:, :, 0], rank_x)
    spread = np.einsum("dk,dk->d", x, rank_x**2), np.einsum("dk,dk->d", y, rank_y**2)
    return np.clip(ratio(product, np.sqrt(_known(spread[0], x) * _known(spread[1], y))), -1, 1)


def summed(pairs: Pairs, *terms: Floats) -> Floats:
    """What each case contributes to each sum: cases × terms."""
    share = 1.0 if pairs.share is None else pairs.share
    sums = [np.bincount(pairs.case, term * share, pairs.size) for term in terms]
    return np.stack(sums).astype(np.float64).T  # a term lies in one piece


def _kendall_of(table: Floats) -> tuple[Floats, Floats]:
    """τb and τc."""
    x, y = table.sum(axis=2), table.sum(axis=1)
    n = x.sum(axis=1)
    below = np.cumsum(table, axis=1) - table  # smaller x, the same y
    left = np.cumsum(below, axis=2)
    # Smaller x and smaller y agree, smaller x and larger y do not.
    surplus = np.einsum("dkl,dkl->d", table, 2 * left - below) - np.einsum("dk,dk->d", x, left[:, :, -1])
    untied_x, untied_y = n**2 - (x**2).sum(axis=1), n**2 - (y**2).sum(axis=1)
    classes = np.minimum((x > 0).sum(axis=1), (y > 0).sum(axis=1)).astype(np.float64)
    tau_b = ratio(2 * surplus, np.sqrt(_known(untied_x, x) * _known(untied_y, y)))
    tau_c = ratio(2 * surplus * classes, n**2 * (classes - 1))
    return np.clip(tau_b, -1, 1), tau_c


def _middle(counts: Floats) -> Floats:
    """Middle ranks of classes in order, less the mean rank."""
    ranked: Floats = np.cumsum(counts, axis=1) - counts / 2 - counts.sum(axis=1, keepdims=True) / 2
    return ranked


def _known(spread: Floats, counts: Floats) -> Floats:
    """0 where all is in one class, whatever rounding left."""
    return np.where((counts > 0).sum(axis=1) > 1, spread, 0.0)


def _each(pairs: Pairs) -> tuple[Floats, Floats]:
    """The points with those repeated that stand for several cases."""
    if pairs.times is None:
        return pairs.x, pairs.y
    times = pairs.times[pairs.case]
    return np.repeat(pairs.x, times), np.repeat(pairs.y, times)


def _levels(values: Floats, every: Floats) -> tuple[Ints, int, bool]:
    """Each value's class, how many there are, and whether values were put together, as many in each class of `every`
    as can be."""
    distinct, place = np.unique(values, return_inverse=True)
    if len(distinct) <= MOST_LEVELS:
        return place.astype(np.int64), max(1, len(distinct)), False
    ordered = np.sort(every)
    middle = (np.searchsorted(ordered, distinct, "left") + np.searchsorted(ordered, distinct, "right")) / 2
    classes = np.minimum((middle / len(ordered) * BINS).astype(np.int64), BINS - 1)
    used, own = np.unique(classes, return_inverse=True)
    return own[place].astype(np.int64), len(used), True


def _exact(x: Floats, y: Floats, *, kendall: bool) -> dict[str, float]:
    """The rank coefficients of unweighted points, in the order of n log n."""
    at_x, at_y = (np.unique(side, return_inverse=True)[1].astype(np.int64) for side in (x, y))
    counts_x, counts_y = np.bincount(at_x), np.bincount(at_y)
    n, classes = len(x), min(len(counts_x), len(counts_y))
    if classes < 2:
        return {"spearman": np.nan, "tau_b": np.nan, "tau_c": np.nan}
    rank_x, rank_y = (_middle(one[None].astype(np.float64))[0] for one in (counts_x, counts_y))
    spread = float(counts_x @ rank_x**2) * float(counts_y @ rank_y**2)
    found = {"spearman": float(rank_x[at_x] @ rank_y[at_y]) / float(np.sqrt(spread))}
    if kendall:
        pairs = n * (n - 1) // 2
        tied_x, tied_y = (int((one * (one - 1)).sum()) // 2 for one in (counts_x, counts_y))
        both = np.unique(at_x * len(counts_y) + at_y, return_counts=True)[1]
        tied = int((both * (both - 1)).sum()) // 2
        order = np.lexsort((at_y, at_x))
        surplus = pairs - tied_x - tied_y + tied - 2 * _inversions(at_y[order])
        found["tau_b"] = surplus / float(np.sqrt(float(pairs - tied_x) * float(pairs - tied_y)))
        found["tau_c"] = 2 * surplus * classes / (n**2 * (classes - 1))
    return found


def _inversions(values: Ints) -> int:
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


def _standard(values: Floats) -> Floats:
    """Moved and shrunk so that sums of squares lose no digits; zero where all are the same."""
    if not len(values) or values.min() == values.max():
        return np.zeros_like(values)
    centred = values - values.mean()
    return np.asarray(centred / np.abs(centred).max(), np.float64)
