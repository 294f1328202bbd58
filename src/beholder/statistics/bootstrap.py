"""Confidence intervals by cluster bootstrap: estimates, draws of groups, BCa and percentile intervals; Student's t.

Cases that share a group (`source`: the photograph) are drawn together, since they are not independent of each other. A
draw is a weight for each case: how often its group was drawn. A statistic takes a matrix of weights, one row per draw,
and returns a value for each row, nan where it is not defined, so that thousands of draws are a few matrix products.

Means need only the sum and count of each group (`GroupSums`): their draws are a product over groups instead of cases,
and the jackknife follows without drawing. 100,000 cases × 12 columns × 2,000 draws take seconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from math import atan2, cos, pi, sin, sqrt
from statistics import NormalDist

import msgspec
import numpy as np
import numpy.typing as npt

from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.data import Bools, Floats, Ints

CONFIDENCE_LEVEL = 0.95
MAX_BCA_GROUPS = 2000  # with more groups the jackknife is slow, and BCa and percentile intervals coincide
RELIABLE_GROUPS = 10  # from here on 93 to 97 of 100 intervals of 95 % cover (normal, skewed and yes/no values)
MIN_DEFINED_SHARE = 0.9  # a statistic that is defined in fewer of the draws has no interval

_WEIGHTS_PER_BLOCK = 1 << 21  # number of weights that are generated at a time: 16 MB

Statistic = Callable[[Floats], Floats]
"""Weights (draws × cases) to a value for each draw."""
Statistics = Callable[[Floats], Mapping[str, Floats]]
"""The same for several at once, by name: what they have in common is computed once."""


class IntervalMethod(StrEnum):
    """How an interval is computed from draws: bias-corrected and accelerated, or plain percentiles."""

    BCA = "BCa"
    PERCENTILE = "percentile"


class Interval(msgspec.Struct, frozen=True, omit_defaults=True):
    """A number with its confidence interval.

    Attributes:
        value: The number; None where it is not defined.
        low: Lower end of the interval; None where there is none.
        high: Upper end of the interval; None where there is none.
        why: Why the number or its interval is missing.
    """

    value: float | None
    low: float | None = msgspec.field(default_factory=type(None))  # in JSON also where it is None: no plain default
    high: float | None = msgspec.field(default_factory=type(None))
    why: str = ""

    @property
    def excludes_zero(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def to_dict(self) -> dict[str, object]:
        return to_json_values(self)


def to_json_values(result: msgspec.Struct) -> dict[str, object]:
    """Return a result of this package as JSON values, under the names that `--json` prints."""
    values: dict[str, object] = json.loads(json.dumps(msgspec.to_builtins(result)))  # tuples become lists
    return values


def undefined_estimate(why: str) -> Interval:
    """Return an estimate without a value, with the reason."""
    return Interval(None, why=why)


def number_groups(groups: Sequence[str] | None, size: int) -> Ints:
    """Return the group of each case as a number from 0; None, or an empty name, is a group of its own."""
    names = [name or f"\0{row}" for row, name in enumerate(groups)] if groups is not None else range(size)
    return np.unique(np.asarray(names), return_inverse=True)[1] if size else np.zeros(0, np.int64)


class ClusterBootstrap:
    """Draws of groups with replacement.

    The same draws are generated each time they are asked for, so that statistics computed over them are paired.

    Attributes:
        group_index: The group of each case, numbered from 0.
        group_count: Number of groups.
    """

    def __init__(
        self,
        groups: Sequence[str] | None,
        size: int,
        *,
        count: int = DEFAULT_DRAWS,
        seed: int = DEFAULT_SEED,
        method: IntervalMethod | None = None,
        strata: Sequence[int] = (),
    ) -> None:
        """Prepare the groups; draws are generated when they are needed.

        Args:
            groups: Group name of each case; None, or an empty name, for a case that is a group of its own.
            size: Number of cases.
            count: Number of draws.
            seed: Seed of the random generator.
            method: How intervals are computed; by default BCa up to `MAX_BCA_GROUPS` groups, percentiles beyond.
            strata: Sizes of sets of groups that are each drawn by themselves, in the order of the groups' numbers.
        """
        self.size, self.count, self.seed = size, count, seed
        self.group_index = number_groups(groups, size)
        self.group_count = int(self.group_index.max()) + 1 if size else 0
        self.is_clustered = self.group_count < size
        self.strata = [count for count in strata or (self.group_count,) if count]
        self.method = method or (
            IntervalMethod.BCA if self.group_count <= MAX_BCA_GROUPS else IntervalMethod.PERCENTILE
        )

    def group_weights(self) -> Iterator[npt.NDArray[np.uint16]]:
        """Yield blocks of draws × groups: how often each group was drawn."""
        rng = np.random.default_rng(self.seed)
        for rows in self._blocks(self.count):
            yield np.hstack([_draw_weights(rng, rows, count) for count in self.strata])

    def case_weights(self) -> Iterator[Floats]:
        """Yield blocks of draws × cases: how often each case was drawn."""
        for counts in self.group_weights():
            yield counts[:, self.group_index].astype(np.float64)

    def jackknife_weights(self) -> Iterator[Floats]:
        """Yield blocks of groups × cases: weight 1 for all cases except those of one group."""
        start = 0
        for rows in self._blocks(self.group_count):
            yield (self.group_index[None, :] != np.arange(start, start + rows)[:, None]).astype(np.float64)
            start += rows

    def estimate(self, statistic: Statistic, why: str = "not defined for these cases") -> Interval:
        """Return the statistic of all cases with its interval; `why` is the reason given where it is not defined."""
        return self.estimates(lambda weights: {"": statistic(weights)}, why)[""]

    def estimates(self, statistics: Statistics, why: str = "not defined for these cases") -> dict[str, Interval]:
        """Return several statistics by name, with intervals over the same draws."""
        if not self.size:
            return {}
        point = {name: float(values[0]) for name, values in statistics(np.ones((1, self.size))).items()}
        if self.group_count < 2:
            lone = "no interval: all cases are of one group" if self.size > 1 else "no interval: there is one case"
            return {
                name: undefined_estimate(why) if np.isnan(value) else Interval(value, why=lone)
                for name, value in point.items()
            }
        drawn = _evaluate_blocks(statistics, self.case_weights())
        left = _evaluate_blocks(statistics, self.jackknife_weights()) if self.method is IntervalMethod.BCA else {}
        return {
            name: estimate_from_draws(value, drawn[name], left.get(name), why, groups=self.group_count)
            for name, value in point.items()
        }

    def describe(self) -> str:
        """Describe the intervals in a sentence to print below a table."""
        by = f"{self.group_count:,} groups" if self.is_clustered else "cases, each taken as independent of the others"
        few = (
            f" With so few of them intervals are too narrow; {RELIABLE_GROUPS} would do."
            if self.group_count < RELIABLE_GROUPS
            else ""
        )
        how = f"{CONFIDENCE_LEVEL:.0%}, {self.method} bootstrap, {self.count:,} draws of {by}"
        return f"Intervals are {how} (seed {self.seed}).{few}"

    def _blocks(self, rows: int) -> Iterator[int]:
        size = max(1, _WEIGHTS_PER_BLOCK // max(1, self.size))
        yield from (min(size, rows - start) for start in range(0, rows, size))


def _draw_weights(rng: np.random.Generator, rows: int, groups: int) -> npt.NDArray[np.uint16]:
    picked = rng.integers(0, groups, (rows, groups))
    picked += np.arange(rows)[:, None] * groups
    return np.bincount(picked.ravel(), minlength=rows * groups).astype(np.uint16).reshape(rows, groups)


def estimate_from_draws(
    point: float, drawn: Floats, left_out: Floats | None = None, why: str = "", *, groups: int = 0
) -> Interval:
    """Return a value with the interval that its draws give.

    Draws in which the statistic is nan are ignored; where more than a tenth of them are, there is no interval. A value
    that is the same in every draw has an interval of zero width.

    Args:
        point: The statistic of all cases.
        drawn: The statistic of each draw.
        left_out: The statistic without each group (jackknife), for a BCa interval; None for percentiles.
        why: The reason to give where `point` is nan.
        groups: Number of groups drawn; 0 for the length of `left_out`, or for very many.
    """
    if np.isnan(point):
        return undefined_estimate(why or "not defined for these cases")
    known = drawn[~np.isnan(drawn)]
    if len(known) < MIN_DEFINED_SHARE * len(drawn) or not len(known):
        return Interval(point, why=f"no interval: it is not defined in {len(drawn) - len(known)} of {len(drawn)} draws")
    reach = _interval_reach(groups or (0 if left_out is None else len(left_out)))
    low, high = (NormalDist().cdf(z) for z in (-reach, reach))
    if left_out is not None:
        low, high = _bca_quantiles(point, known, left_out[~np.isnan(left_out)], reach)
    ends = np.quantile(known, (low, high))
    return Interval(point, float(ends[0]), float(ends[1]))


def _interval_reach(groups: int) -> float:
    """Return half the width of an interval in standard errors.

    Draws of few groups vary too little, by √((G − 1) / G), and their quantiles are normal where Student's t is needed,
    so that the quantiles are taken further out (Hesterberg 2015, "expanded percentile").
    """
    if groups < 2:
        return NormalDist().inv_cdf((1 + CONFIDENCE_LEVEL) / 2)
    return t_quantile((1 + CONFIDENCE_LEVEL) / 2, groups - 1) * math.sqrt(groups / (groups - 1))


def _bca_quantiles(point: float, drawn: Floats, left_out: Floats, reach: float) -> tuple[float, float]:
    """Return the quantiles of the draws at which the BCa interval ends (Efron 1987)."""
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
    """Return the statistic for the mean of a column, ignoring nan."""
    defined: Bools = ~np.isnan(values)
    known = np.where(defined, values, 0.0)

    def statistic(weights: Floats) -> Floats:
        counts: Floats = weights @ defined.astype(np.float64)
        return divide_or_nan(weights @ known, counts)

    return statistic


def divide_or_nan(above: Floats, below: Floats) -> Floats:
    """Divide; nan where `below` is 0."""
    quotient: Floats = np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below != 0)
    return quotient


def mean_of_defined(values: Sequence[Floats]) -> Floats:
    """Return the mean over several statistics of those that are defined in a draw; nan where none is."""
    rows = np.vstack(values)
    known = ~np.isnan(rows)
    return divide_or_nan(np.where(known, rows, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))


def _evaluate_blocks(statistics: Statistics, blocks: Iterator[Floats]) -> dict[str, Floats]:
    evaluated = [statistics(weights) for weights in blocks]
    return {name: np.concatenate([block[name] for block in evaluated]) for name in evaluated[0]}


NO_VALUES = "no case has a value"
EQUALITY_TOLERANCE = 1e-9  # scores are sums of a few decimals: a smaller difference is a rounding error


@dataclass(frozen=True, slots=True, eq=False)
class GroupSums:
    """Sum and number of non-missing values, groups × columns."""

    sums: Floats
    counts: Floats

    @property
    def means(self) -> Floats:
        """The mean of each column; nan where no case has a value."""
        return divide_or_nan(zero_rounding_errors(self.sums.sum(axis=0)), self.counts.sum(axis=0))

    @property
    def groups_with_values(self) -> Ints:
        """Number of groups that have a value, for each column."""
        group_counts: Ints = np.count_nonzero(self.counts, axis=0)
        return group_counts

    def standard_errors(self) -> Floats:
        """Return the clustered standard errors of the means.

        This is the linearized variance of a ratio, `G/(G−1) · Σ (s − m·n)² / (Σ n)²` over the G groups with sum s and
        count n; nan where fewer than two groups have a value.
        """
        residuals = self.sums - np.nan_to_num(self.means) * self.counts
        groups = self.groups_with_values.astype(np.float64)
        spread = divide_or_nan(groups * (residuals**2).sum(axis=0), groups - 1)
        errors = np.sqrt(divide_or_nan(np.where(groups > 1, spread, np.nan), self.counts.sum(axis=0) ** 2))
        return np.asarray(errors, np.float64)


def sum_by_group(bootstrap: ClusterBootstrap, columns: Sequence[Floats]) -> GroupSums:
    """Sum columns (one value per case, nan where missing) by the groups of a bootstrap.

    Rounding errors of differences that cancel are set to 0: ten groups of them would look like ten that agree.
    """
    sums = np.zeros((bootstrap.group_count, len(columns)))
    counts = np.zeros_like(sums)
    for at, values in enumerate(columns):
        defined = ~np.isnan(values)
        group = bootstrap.group_index[defined]
        sums[:, at] = np.bincount(group, values[defined], bootstrap.group_count)
        counts[:, at] = np.bincount(group, minlength=bootstrap.group_count)
    return GroupSums(zero_rounding_errors(sums), counts)


def zero_rounding_errors(sums: Floats) -> Floats:
    """Return the sums with values below `EQUALITY_TOLERANCE` set to 0."""
    return np.where(np.abs(sums) <= EQUALITY_TOLERANCE, 0.0, sums)


def estimate_means(bootstrap: ClusterBootstrap, sums: GroupSums) -> list[Interval]:
    """Return the mean of each column with its interval, over the same draws."""
    points = sums.means
    if bootstrap.group_count < 2:
        lone = "no interval: all cases are of one group"
        return [
            undefined_estimate(NO_VALUES) if np.isnan(point) else Interval(float(point), why=lone) for point in points
        ]
    both = np.hstack([sums.sums, sums.counts])
    width = len(points)
    parts = [counts.astype(np.float64) @ both for counts in bootstrap.group_weights()]
    total = np.concatenate(parts)
    drawn = divide_or_nan(zero_rounding_errors(total[:, :width]), total[:, width:])
    left = _jackknife_means(sums) if bootstrap.method is IntervalMethod.BCA else None
    groups = sums.groups_with_values
    estimates = []
    for at, point in enumerate(points):
        if groups[at] == 1:
            estimates.append(Interval(float(point), why="no interval: all values are of one group"))
        else:
            without = None if left is None else left[:, at]
            estimates.append(
                estimate_from_draws(float(point), drawn[:, at], without, NO_VALUES, groups=int(groups[at]))
            )
    return estimates


def _jackknife_means(sums: GroupSums) -> Floats:
    """Return the means without each group."""
    return divide_or_nan(zero_rounding_errors(sums.sums.sum(axis=0) - sums.sums), sums.counts.sum(axis=0) - sums.counts)


# Degrees of freedom beyond which four terms of an expansion are exact to nine digits, and faster.
_EXPANSION_FREEDOM = 200
_NORMAL_FREEDOM = 2000  # beyond which a normal approximation of the probability is exact to seven digits

_EXPANSION_TERMS: tuple[tuple[dict[int, int], int], ...] = (
    ({3: 1, 1: 1}, 4),
    ({5: 5, 3: 16, 1: 3}, 96),
    ({7: 3, 5: 19, 3: 17, 1: -15}, 384),
    ({9: 79, 7: 776, 5: 1482, 3: -1920, 1: -945}, 92160),
)


@cache
def t_quantile(share: float, freedom: int) -> float:
    """Return the value below which a t-distributed variable lies with probability `share`.

    Args:
        share: A probability strictly between 0 and 1.
        freedom: Degrees of freedom, 1 or more.

    Raises:
        ValueError: An argument is out of range.
    """
    if not 0 < share < 1 or freedom < 1:
        raise ValueError(f"no t quantile at {share} with {freedom} degrees of freedom")
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
    normal = NormalDist().inv_cdf(share)
    if freedom > _EXPANSION_FREEDOM:  # Abramowitz and Stegun, 26.7.5
        terms = (sum(by * normal**power for power, by in powers.items()) / under for powers, under in _EXPANSION_TERMS)
        return normal + sum(term / float(freedom) ** at for at, term in enumerate(terms, start=1))
    low, high = 0.0, max(1.0, normal)
    while t_cdf(high, freedom) < share:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def t_cdf(value: float, freedom: int) -> float:
    """Return the probability that a t variable is below `value` (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    if freedom > _NORMAL_FREEDOM:
        return NormalDist().cdf(value * (1 - 1 / (4 * freedom)) / sqrt(1 + value**2 / (2 * freedom)))
    angle = atan2(value, sqrt(freedom))
    turn = cos(angle)
    odd = freedom % 2
    term, total = (turn, turn if freedom > 1 else 0.0) if odd else (1.0, 1.0)
    for step in range(2 + odd, freedom - 1, 2):
        term *= turn**2 * (step - 1) / step
        total += term
    within = (angle + sin(angle) * total) * 2 / pi if odd else sin(angle) * total
    return (1 + within) / 2
