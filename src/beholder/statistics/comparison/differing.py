"""The mean of paired differences with its interval, and the test of it: what a comparison and a history share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beholder.statistics.comparison.flipping import flip_p
from beholder.statistics.data import Floats, Ints
from beholder.statistics.grouped import GroupSums, mean_estimates, settled, sums_of
from beholder.statistics.intervals import Draws, Estimate


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
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


def differences_of(
    draws: Draws, columns: Sequence[Floats], margins: Sequence[float] | None = None, beside: Sequence[Floats] = ()
) -> Differences:
    """Of columns of differences, a value for each case, nan where there is none; all over the same draws. A margin is
    0 or more, 0 where none is given."""
    sums = sums_of(draws, [*columns, *beside])
    means = mean_estimates(draws, sums)
    count = len(columns)
    real = GroupSums(sums.sums[:, :count], sums.counts[:, :count])
    p, beyond = _tested(real, np.zeros(count) if margins is None else np.array(margins, np.float64), draws.seed)
    return Differences(
        tuple(means[:count]),
        real.standard_errors(),
        real.groups,
        real.counts.sum(axis=0).astype(np.int64),
        p,
        beyond,
        tuple(means[count:]),
    )


def _tested(sums: GroupSums, margins: Floats, seed: int) -> tuple[Floats, Floats]:
    """p of no difference, and of a drop by the margin."""
    empty = sums.groups == 0
    wide = margins > 0
    both = flip_p(np.hstack([sums.sums, settled(sums.sums + margins * sums.counts)[:, wide]]), seed)
    plain = np.where(empty, np.nan, both[: len(margins)])
    beyond = plain.copy()
    beyond[wide] = np.where(empty[wide], np.nan, both[len(margins) :])
    return plain, beyond
