"""The sign-flip permutation test on paired differences, and Holm's correction for several of them.

If nothing changed between two runs, which of them is called the old one does not matter: the difference of a case is
as likely to be up as down. Flipping the sign of whole groups at random shows how large a mean difference chance alone
would give. Cases of one group are flipped together, since they are not independent of each other.

The mean of paired differences with its interval, and the test of it: what a comparison and a history share.

What a comparison could have shown: the smallest difference it would have noticed, and the cases for a smaller one.

With the clustered standard error `SE` of the mean difference over G groups, a two-sided test at the level a finds a
true difference of

    (t₁₋ₐ⁄₂ + t₀.₈₀) · SE          t with G − 1 degrees of freedom

in 80 of 100 such comparisons. The level is the one that decides: 5 %, shared among the tests of one family (Holm), and
of the p-values that G groups can have. `SE` falls with the square root of the number of groups, as long as new groups
are like those that were seen and hold as many cases each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log2, sqrt
from statistics import NormalDist

import numpy as np

from beholder.statistics.bootstrap import (
    ClusterBootstrap,
    Estimate,
    GroupSums,
    estimate_means,
    sum_by_group,
    t_quantile,
    zero_rounding_errors,
)
from beholder.statistics.data import Bools, Floats, Ints

MAX_EXACT_GROUPS = 12  # up to 2^12 ways to flip: all of them are gone through
RANDOM_FLIPS = 10_000
SIGNIFICANCE_LEVEL = 0.05  # a p that is no larger is not put down to chance

_SIGNS_PER_BLOCK = 1 << 19  # signs at a time: as many as a cache holds
_TIE_TOLERANCE = 1e-9  # of the largest sum there could be: two sums as near as that are a tie


def sign_flip_test(sums: Floats, seed: int) -> Floats:
    """Two-sided p for each column of `sums` (groups × columns: the sum of each group's differences).

    The share of flips whose sum is at least as far from 0 as the one that was seen. Exact, over all ways to flip, where
    at most `EXACT_GROUPS` groups differ from 0; else over `FLIPS` seeded ones, counted as (b + 1) / (m + 1) so that it
    is never 0. A column in which nothing changed has p = 1.
    """
    found = np.ones(sums.shape[1])
    moving = np.count_nonzero(sums, axis=0)
    few = moving <= MAX_EXACT_GROUPS
    for at in np.flatnonzero(few & (moving > 0)):
        column = sums[sums[:, at] != 0, at]
        found[at] = float(_at_least_as_extreme(_all_sign_flips(len(column)) @ column[:, None], column[:, None]).mean())
    many = sums[:, ~few]
    if many.shape[1]:
        many = many[np.any(many != 0, axis=1)]
        reached = np.zeros(many.shape[1])
        for flips in _random_sign_flips(len(many), seed):
            reached += np.count_nonzero(_at_least_as_extreme(flips @ many, many), axis=0)
        found[~few] = (reached + 1) / (RANDOM_FLIPS + 1)
    return found


def correct_holm(p: Floats) -> Floats:
    """Holm's step-down correction: the p of each test, so that the chance of any false alarm among them stays at the
    level. nan stays nan and is no test."""
    corrected = np.full(len(p), np.nan)
    there = np.flatnonzero(~np.isnan(p))
    order = there[np.argsort(p[there], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def smallest_p(groups: int) -> float:
    """The smallest p that so many groups can have: all down is one way to flip them, all up another."""
    return 2.0 ** (1 - groups) if groups <= MAX_EXACT_GROUPS else 1 / (RANDOM_FLIPS + 1)


def effective_level(groups: int, tests: int = 1) -> float:
    """The largest p that so many groups can have and that is still rare as the least of so many tests (Holm); 0 where
    no p is: whatever changed, the test could not show it."""
    step = smallest_p(groups)
    return floor(SIGNIFICANCE_LEVEL / max(1, tests) / step * (1 + _TIE_TOLERANCE)) * step


def min_groups_to_decide(tests: int = 1) -> int:
    """How many groups it takes at least to have a p that is rare as the least of so many tests: 6 for one."""
    return min(ceil(log2(2 * max(1, tests) / SIGNIFICANCE_LEVEL)), MAX_EXACT_GROUPS + 1)


def _at_least_as_extreme(flipped: Floats, sums: Floats) -> Bools:
    """Flips × columns: whether a flip's sum is as far from 0 as that of `sums`, given the part that it flips."""
    total = sums.sum(axis=0)
    far: Bools = np.abs(total - 2 * flipped) >= np.abs(total) - _TIE_TOLERANCE * np.abs(sums).sum(axis=0)
    return far


def _all_sign_flips(groups: int) -> Floats:
    """Ways × groups: 1 where a group is flipped."""
    bits = np.arange(1 << groups)[:, None] >> np.arange(groups)
    return (bits & 1).astype(np.float64)


def _random_sign_flips(groups: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    size = max(1, _SIGNS_PER_BLOCK // max(1, groups))
    for start in range(0, RANDOM_FLIPS, size):
        packed = rng.integers(0, 256, (min(size, RANDOM_FLIPS - start), -(-groups // 8)), np.uint8)
        yield np.unpackbits(packed, axis=1, count=groups).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class PairedDifferences:
    """By column: the mean difference, its clustered standard error, the groups and cases with a value, `p` of no
    difference and `p_beyond` of a drop by the margin (both nan where no case has a value). `beside` has the means of
    columns that are not tested."""

    means: tuple[Estimate, ...]
    errors: Floats
    groups: Ints
    cases: Ints
    p: Floats
    p_beyond: Floats
    beside: tuple[Estimate, ...] = ()


def estimate_differences(
    draws: ClusterBootstrap,
    columns: Sequence[Floats],
    margins: Sequence[float] | None = None,
    beside: Sequence[Floats] = (),
) -> PairedDifferences:
    """Of columns of differences, a value for each case, nan where there is none; all over the same draws. A margin is
    0 or more, 0 where none is given."""
    sums = sum_by_group(draws, [*columns, *beside])
    means = estimate_means(draws, sums)
    count = len(columns)
    real = GroupSums(sums.sums[:, :count], sums.counts[:, :count])
    p, beyond = _test_differences(
        real, np.zeros(count) if margins is None else np.array(margins, np.float64), draws.seed
    )
    return PairedDifferences(
        tuple(means[:count]),
        real.standard_errors(),
        real.groups,
        real.counts.sum(axis=0).astype(np.int64),
        p,
        beyond,
        tuple(means[count:]),
    )


def _test_differences(sums: GroupSums, margins: Floats, seed: int) -> tuple[Floats, Floats]:
    """p of no difference, and of a drop by the margin."""
    empty = sums.groups == 0
    wide = margins > 0
    both = sign_flip_test(
        np.hstack([sums.sums, zero_rounding_errors(sums.sums + margins * sums.counts)[:, wide]]), seed
    )
    plain = np.where(empty, np.nan, both[: len(margins)])
    beyond = plain.copy()
    beyond[wide] = np.where(empty[wide], np.nan, both[len(margins) :])
    return plain, beyond


TARGET_POWER = 0.80
MAX_GROUPS = 10_000_000


@dataclass(frozen=True, slots=True)
class PowerAnalysis:
    """`least` is the smallest difference that would have been found in 80 of 100 comparisons like this one; None where
    it is not known, and `why` says why. `level` is the largest p that counts, 0 where no p of so few groups does.
    `detect` is the difference that was asked about, `cases` and `groups` how many it takes in all, `more` how many
    cases that is beyond those that are there (0 where they are enough)."""

    least: float | None
    why: str = ""
    detect: float | None = None
    groups: int | None = None
    cases: int | None = None
    more: int | None = None
    level: float = 0.0

    @property
    def blind(self) -> bool:
        """Whether no difference could have been shown, however large."""
        return self.level <= 0

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {
            "minimum_detectable_difference": self.least,
            "at_power": TARGET_POWER,
            "at_level": self.level,
        }
        if self.why:
            found["why"] = self.why
        if self.detect is not None:
            found |= {"detect": self.detect, "groups": self.groups, "cases": self.cases, "more_cases": self.more}
        return found


def analyze_power(
    standard_error: float, groups: int, cases: int, detect: float | None = None, tests: int = 1
) -> PowerAnalysis:
    """What `cases` in `groups` groups could show, given the standard error that was seen, as one of so many tests; see
    `Power`."""
    level = effective_level(groups, tests)
    if not isfinite(standard_error) or groups < 2:
        return PowerAnalysis(None, "one group of cases tells nothing of how groups differ", detect, level=level)
    if standard_error <= 0 and level > 0:
        why = "every difference is the same, so that there is nothing to reckon from"
        return PowerAnalysis(None, why, detect, level=level)
    least, why = (
        (_detectable_standard_errors(groups, tests) * standard_error, "")
        if level > 0
        else (None, explain_too_few_groups(groups, tests))
    )
    if detect is None or standard_error <= 0:
        return PowerAnalysis(least, why, detect, level=level)
    needed = _find_groups_needed(standard_error * sqrt(groups), detect, tests)
    if needed is None:
        why = f"a difference of {detect:g} takes more than {MAX_GROUPS:,} groups"
        return PowerAnalysis(least, why, detect, level=level)
    in_all = ceil(needed * cases / groups)
    return PowerAnalysis(least, why, detect, needed, in_all, max(0, in_all - cases), level)


def explain_too_few_groups(groups: int, tests: int) -> str:
    """Why no difference can be shown, in words."""
    held = "1 group of cases" if groups == 1 else f"{groups} groups of cases"
    among = f" in one of {tests} columns" if tests > 1 else ""
    return f"{held} cannot tell any change{among} from chance: it takes {min_groups_to_decide(tests)} at least"


def _find_groups_needed(spread: float, detect: float, tests: int) -> int | None:
    """The fewest groups whose reach is `detect`; `spread` is the standard error times the root of its groups. The
    reach falls with every group more, so that it is found by halving."""

    def enough(groups: int) -> bool:
        return _detectable_standard_errors(groups, tests) * spread <= detect * sqrt(groups)

    low = high = min_groups_to_decide(tests)
    while not enough(high):
        low, high = high, high * 2
        if high > MAX_GROUPS:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def _detectable_standard_errors(groups: int, tests: int) -> float:
    """In standard errors. Where a single way to flip is rare enough, all groups must go the same way: a rarer thing
    than t says."""
    level = effective_level(groups, tests)
    if level <= 0:
        return float("inf")
    reach = t_quantile(1 - level / 2, groups - 1) + t_quantile(TARGET_POWER, groups - 1)
    if groups <= MAX_EXACT_GROUPS and level <= smallest_p(groups):
        reach = max(reach, sqrt(groups) * NormalDist().inv_cdf(TARGET_POWER ** (1 / groups)))
    return reach
