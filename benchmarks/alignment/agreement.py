"""Agreement with people: Spearman's ρ, the human ceiling, and intervals by drawing sources with replacement."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

DRAWS = 1000

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Strings = npt.NDArray[np.str_]


def ranks(values: Floats) -> Floats:
    """From 1; ties share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[place], np.float64)


def spearman(one: Floats, other: Floats) -> float:
    """ρ over the cases where both have a value; 0 where either is constant."""
    there = ~(np.isnan(one) | np.isnan(other))
    if there.sum() < 2:
        return 0.0
    first, second = (ranks(values[there]) for values in (one, other))
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def ceiling(raters: Floats) -> float:
    """Each rater against the mean of the others, averaged over raters."""
    everyone = range(raters.shape[1])
    return float(np.mean([spearman(raters[:, one], np.delete(raters, one, axis=1).mean(axis=1)) for one in everyone]))


def draws(sources: Strings, seed: int = 0, count: int = DRAWS) -> list[Ints]:
    """Cases of sources drawn with replacement, so that cases of one photograph stay together."""
    rng = np.random.default_rng(seed)
    by_source = [np.flatnonzero(sources == one) for one in np.unique(sources)]
    return [
        np.concatenate([by_source[one] for one in rng.integers(0, len(by_source), len(by_source))])
        for _ in range(count)
    ]


def interval(statistic: Callable[[Ints], float], drawn: Sequence[Ints]) -> tuple[float, float]:
    """The middle 95 % of a statistic of case numbers over draws."""
    low, high = np.quantile([statistic(cases) for cases in drawn], (0.025, 0.975))
    return float(low), float(high)
