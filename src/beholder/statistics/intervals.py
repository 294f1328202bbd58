"""Intervals by drawing groups with replacement.

Cases that share a group (`source`: the photograph) are drawn together, since they are not independent of each other.
A draw is a weight for each case: how often its group was drawn. A statistic takes weights, one row a draw, and returns
its value for each row, nan where it is not defined; so that thousands of draws are a handful of matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from beholder.statistics.data import Bools, Floats, Ints
from beholder.statistics.student import quantile

DRAWS = 2000
SEED = 0
LEVEL = 0.95
MOST_BCA = 2000  # groups: beyond, leaving each out once costs more than it tells, and BCa and percentiles coincide
ENOUGH = 10  # groups: from there on 93 to 97 of 100 intervals of 95 % cover (normal, skewed and yes/no values)
LEAST_DEFINED = 0.9  # of the draws: where a statistic is undefined more often, it has no interval

_BLOCK = 1 << 21  # weights at a time: 16 MB

Statistic = Callable[[Floats], Floats]
"""Weights (draws × cases) to a value for each draw."""
Statistics = Callable[[Floats], Mapping[str, Floats]]
"""The same for several at once, by name: what they have in common is computed once."""


class Method(StrEnum):
    """How an interval follows from the draws: bias-corrected and accelerated, or plain percentiles."""

    BCA = "BCa"
    PERCENTILE = "percentile"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval. `value` is None where it is not defined, and `why` says why; `low` and `high` are
    None where there is no interval."""

    value: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""

    @property
    def excludes_zero(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"value": self.value, "low": self.low, "high": self.high}
        return found | {"why": self.why} if self.why else found


def undefined(why: str) -> Estimate:
    return Estimate(None, why=why)


class Draws:
    """Groups drawn with replacement, the same ones whenever they are asked for: what is computed over the same draws
    is paired."""

    def __init__(
        self,
        groups: Sequence[str] | None,
        size: int,
        *,
        count: int = DRAWS,
        seed: int = SEED,
        method: Method | None = None,
    ) -> None:
        """`groups` names the group of each of `size` cases; None or an empty name: a case stands alone. Without a
        `method` it is BCa up to `MOST_BCA` groups, percentiles beyond."""
        self.size, self.count, self.seed = size, count, seed
        names = [name or f"\0{row}" for row, name in enumerate(groups)] if groups is not None else range(size)
        self.group: Ints = np.unique(np.asarray(names), return_inverse=True)[1] if size else np.zeros(0, np.int64)
        self.groups = int(self.group.max()) + 1 if size else 0
        self.grouped = self.groups < size
        self.method = method or (Method.BCA if self.groups <= MOST_BCA else Method.PERCENTILE)

    def counts(self) -> Iterator[npt.NDArray[np.uint16]]:
        """How often each group was drawn, some draws at a time."""
        rng = np.random.default_rng(self.seed)
        for rows in self._blocks(self.count):
            picked = rng.integers(0, self.groups, (rows, self.groups))
            picked += np.arange(rows)[:, None] * self.groups
            flat = np.bincount(picked.ravel(), minlength=rows * self.groups)
            yield flat.astype(np.uint16).reshape(rows, self.groups)

    def weights(self) -> Iterator[Floats]:
        """How often each case was drawn, some draws at a time."""
        for counts in self.counts():
            yield counts[:, self.group].astype(np.float64)

    def left_out(self) -> Iterator[Floats]:
        """All cases but those of one group, for each group."""
        start = 0
        for rows in self._blocks(self.groups):
            yield (self.group[None, :] != np.arange(start, start + rows)[:, None]).astype(np.float64)
            start += rows

    def estimate(self, statistic: Statistic, why: str = "not defined for these cases") -> Estimate:
        """The statistic of all cases, with its interval."""
        return self.estimates(lambda weights: {"": statistic(weights)}, why)[""]

    def estimates(self, statistics: Statistics, why: str = "not defined for these cases") -> dict[str, Estimate]:
        """Several statistics over the same draws."""
        if not self.size:
            return {}
        point = {name: float(values[0]) for name, values in statistics(np.ones((1, self.size))).items()}
        if self.groups < 2:
            lone = "no interval: all cases are of one group" if self.size > 1 else "no interval: there is one case"
            return {
                name: undefined(why) if np.isnan(value) else Estimate(value, why=lone) for name, value in point.items()
            }
        drawn = _gathered(statistics, self.weights())
        left = _gathered(statistics, self.left_out()) if self.method is Method.BCA else {}
        return {
            name: estimate_from(value, drawn[name], left.get(name), why, groups=self.groups)
            for name, value in point.items()
        }

    def told(self) -> str:
        """In a sentence, for under a table."""
        by = f"{self.groups:,} groups" if self.grouped else "cases, each taken as independent of the others"
        few = f" With so few of them intervals are too narrow; {ENOUGH} would do." if self.groups < ENOUGH else ""
        return (
            f"Intervals are {LEVEL:.0%}, {self.method} bootstrap, {self.count:,} draws of {by} (seed {self.seed}).{few}"
        )

    def _blocks(self, rows: int) -> Iterator[int]:
        size = max(1, _BLOCK // max(1, self.size))
        yield from (min(size, rows - start) for start in range(0, rows, size))


def estimate_from(
    point: float, drawn: Floats, left_out: Floats | None = None, why: str = "", *, groups: int = 0
) -> Estimate:
    """A value with the interval that draws give: BCa where the values without each group are given, else percentiles;
    of so many groups (0: of those left out, or of very many).

    Draws in which the statistic is not defined are set aside; where that is more than a tenth of them there is no
    interval. A value that is the same in every draw has an interval without width.
    """
    if np.isnan(point):
        return undefined(why or "not defined for these cases")
    known = drawn[~np.isnan(drawn)]
    if len(known) < LEAST_DEFINED * len(drawn) or not len(known):
        return Estimate(point, why=f"no interval: it is not defined in {len(drawn) - len(known)} of {len(drawn)} draws")
    reach = _reach(groups or (0 if left_out is None else len(left_out)))
    low, high = (NormalDist().cdf(z) for z in (-reach, reach))
    if left_out is not None:
        low, high = _bca(point, known, left_out[~np.isnan(left_out)], reach)
    ends = np.quantile(known, (low, high))
    return Estimate(point, float(ends[0]), float(ends[1]))


def _reach(groups: int) -> float:
    """How many standard errors an interval reaches. Draws of few groups spread too little, by √((G − 1) / G), and what
    they lack is Student's t; so the ends are taken further out (Hesterberg 2015, "expanded percentile")."""
    if groups < 2:
        return NormalDist().inv_cdf((1 + LEVEL) / 2)
    return quantile((1 + LEVEL) / 2, groups - 1) * math.sqrt(groups / (groups - 1))


def _bca(point: float, drawn: Floats, left_out: Floats, reach: float) -> tuple[float, float]:
    """The shares of the draws at which the bias-corrected and accelerated interval ends (Efron 1987)."""
    normal = NormalDist()
    below = (np.count_nonzero(drawn < point) + np.count_nonzero(drawn == point) / 2) / len(drawn)
    if not 0 < below < 1 or len(left_out) < 2:
        return normal.cdf(-reach), normal.cdf(reach)
    bias = normal.inv_cdf(below)
    away = left_out.mean() - left_out
    spread = float((away**2).sum())
    acceleration = float((away**3).sum()) / (6 * spread**1.5) if spread > 0 else 0.0

    def moved(z: float) -> float:
        under = 1 - acceleration * (bias + z)
        return normal.cdf(bias + (bias + z) / under) if under > 0 else normal.cdf(z)

    return moved(-reach), moved(reach)


def weighted_mean(values: Floats) -> Statistic:
    """The mean of a column, nan left out."""
    there: Bools = ~np.isnan(values)
    known = np.where(there, values, 0.0)

    def statistic(weights: Floats) -> Floats:
        counts: Floats = weights @ there.astype(np.float64)
        return ratio(weights @ known, counts)

    return statistic


def ratio(above: Floats, below: Floats) -> Floats:
    """The quotient, nan where `below` is 0."""
    quotient: Floats = np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below != 0)
    return quotient


def _gathered(statistics: Statistics, blocks: Iterator[Floats]) -> dict[str, Floats]:
    found = [statistics(weights) for weights in blocks]
    return {name: np.concatenate([one[name] for one in found]) for name in found[0]}
