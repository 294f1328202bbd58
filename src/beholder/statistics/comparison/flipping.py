"""The sign-flip permutation test on paired differences, and Holm's correction for several of them.

If nothing changed between two runs, which of them is called the old one does not matter: the difference of a case is
as likely to be up as down. Flipping the sign of whole groups at random shows how large a mean difference chance alone
would give. Cases of one group are flipped together, since they are not independent of each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, log2

import numpy as np

from beholder.statistics.data import Bools, Floats

EXACT_GROUPS = 12  # up to 2^12 ways to flip: all of them are gone through
FLIPS = 10_000
RARE = 0.05  # a p that is no larger is not put down to chance

_BLOCK = 1 << 19  # signs at a time: as many as a cache holds
_CLOSE = 1e-9  # of the largest sum there could be: two sums as near as that are a tie


def flip_p(sums: Floats, seed: int) -> Floats:
    """Two-sided p for each column of `sums` (groups × columns: the sum of each group's differences).

    The share of flips whose sum is at least as far from 0 as the one that was seen. Exact, over all ways to flip, where
    at most `EXACT_GROUPS` groups differ from 0; else over `FLIPS` seeded ones, counted as (b + 1) / (m + 1) so that it
    is never 0. A column in which nothing changed has p = 1.
    """
    found = np.ones(sums.shape[1])
    moving = np.count_nonzero(sums, axis=0)
    few = moving <= EXACT_GROUPS
    for at in np.flatnonzero(few & (moving > 0)):
        column = sums[sums[:, at] != 0, at]
        found[at] = float(_as_far(_all_ways(len(column)) @ column[:, None], column[:, None]).mean())
    many = sums[:, ~few]
    if many.shape[1]:
        many = many[np.any(many != 0, axis=1)]
        reached = np.zeros(many.shape[1])
        for flips in _random_ways(len(many), seed):
            reached += np.count_nonzero(_as_far(flips @ many, many), axis=0)
        found[~few] = (reached + 1) / (FLIPS + 1)
    return found


def holm(p: Floats) -> Floats:
    """Holm's step-down correction: the p of each test, so that the chance of any false alarm among them stays at the
    level. nan stays nan and is no test."""
    corrected = np.full(len(p), np.nan)
    there = np.flatnonzero(~np.isnan(p))
    order = there[np.argsort(p[there], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def least_p(groups: int) -> float:
    """The smallest p that so many groups can have: all down is one way to flip them, all up another."""
    return 2.0 ** (1 - groups) if groups <= EXACT_GROUPS else 1 / (FLIPS + 1)


def deciding_level(groups: int, tests: int = 1) -> float:
    """The largest p that so many groups can have and that is still rare as the least of so many tests (Holm); 0 where
    no p is: whatever changed, the test could not show it."""
    step = least_p(groups)
    return floor(RARE / max(1, tests) / step * (1 + _CLOSE)) * step


def least_groups(tests: int = 1) -> int:
    """How many groups it takes at least to have a p that is rare as the least of so many tests: 6 for one."""
    return min(ceil(log2(2 * max(1, tests) / RARE)), EXACT_GROUPS + 1)


def _as_far(flipped: Floats, sums: Floats) -> Bools:
    """Flips × columns: whether a flip's sum is as far from 0 as that of `sums`, given the part that it flips."""
    total = sums.sum(axis=0)
    far: Bools = np.abs(total - 2 * flipped) >= np.abs(total) - _CLOSE * np.abs(sums).sum(axis=0)
    return far


def _all_ways(groups: int) -> Floats:
    """Ways × groups: 1 where a group is flipped."""
    bits = np.arange(1 << groups)[:, None] >> np.arange(groups)
    return (bits & 1).astype(np.float64)


def _random_ways(groups: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    size = max(1, _BLOCK // max(1, groups))
    for start in range(0, FLIPS, size):
        packed = rng.integers(0, 256, (min(size, FLIPS - start), -(-groups // 8)), np.uint8)
        yield np.unpackbits(packed, axis=1, count=groups).astype(np.float64)
