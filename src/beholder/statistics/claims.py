"""Which statements on a judge hold over all criteria together: a rank test, p-values of intervals, Holm's correction.

An interval of one criterion excludes 0 by chance in 5 of 100 cases, so that with twelve criteria nearly every second
judge that knows nothing would be said to rank one of them well, or in reverse. And the bootstrap is too sure of a judge
that says nearly always the same: with one answer for 31 of 34 cases its intervals exclude 0 in 16 to 20 of 100. So a
statement needs its interval, a p-value that is corrected over the criteria, and enough cases with another answer.

The rank test flips signs, as the tests of `significance` do, of what each group of cases contributes to Spearman's ρ:
the sum of the products of centered ranks. A few cases that alone have another answer can then not be significant,
since few signs agree by chance. Cases of one group may depend on each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan, nan
from statistics import NormalDist

import msgspec
import numpy as np

from beholder.statistics.bootstrap import CONFIDENCE_LEVEL, MAX_BCA_GROUPS, Interval, t_cdf, t_quantile
from beholder.statistics.coefficients import center_ranks, pair_scores
from beholder.statistics.data import Floats, Ints
from beholder.statistics.significance import SIGNIFICANCE_LEVEL, correct_holm, min_groups_to_decide, sign_flip_test

MIN_OTHER_ANSWERS = min_groups_to_decide()
"""Cases, on either side, that have another answer than the most frequent one: with fewer no ranking is told."""


class AnswerVariety(msgspec.Struct, frozen=True):
    """How often one side gives the same answer.

    Attributes:
        cases: Cases with an answer.
        same: Cases that have the most frequent answer.
    """

    cases: int
    same: int

    @property
    def is_enough(self) -> bool:
        """Whether enough cases have another answer to tell anything of a ranking."""
        return self.cases - self.same >= MIN_OTHER_ANSWERS


def count_answers(values: Floats) -> AnswerVariety:
    """Count how many of the known values are the most frequent one."""
    known = values[~np.isnan(values)]
    counts = np.unique(known, return_counts=True)[1]
    return AnswerVariety(len(known), int(counts.max(initial=0)))


def compute_rank_p_values(sides: Sequence[tuple[Floats, Floats]], group: Ints, seed: int) -> Floats:
    """Return, for each criterion, the two-sided p-value of no rank correlation; nan where ρ is not defined.

    Up to `MAX_BCA_GROUPS` groups the signs are flipped, beyond them the sum is normal.

    Args:
        sides: Of each criterion the judge's scores, one per case, and the reference: one per case, or cases × raters.
        group: The group of each case, numbered from 0.
        seed: Seed of the flips.
    """
    size = int(group.max(initial=-1)) + 1
    sums = np.zeros((size, len(sides)))
    for at, (x, y) in enumerate(sides):
        pairs = pair_scores(x, y)
        products = center_ranks(pairs.x) * center_ranks(pairs.y)
        sums[:, at] = np.bincount(group[pairs.case], products, size)
    defined = np.any(sums != 0, axis=0)
    if size <= MAX_BCA_GROUPS:
        p_values = sign_flip_test(sums, seed)
    else:
        spread = np.sqrt((sums**2).sum(axis=0))
        scores = np.divide(np.abs(sums.sum(axis=0)), spread, out=np.zeros(len(sides)), where=spread > 0)
        p_values = np.array([2 * NormalDist().cdf(-score) for score in scores])
    return np.where(defined, p_values, np.nan)


def p_of_interval(estimate: Interval, groups: int) -> float:
    """Return the two-sided p-value of 0 that an interval implies; nan where it has none (Altman and Bland 2011).

    The standard error is taken from the end that faces 0, so that p is below 5 % where the interval excludes 0.
    """
    if estimate.value is None or estimate.low is None or estimate.high is None or groups < 2:
        return nan
    reach = estimate.value - estimate.low if estimate.value > 0 else estimate.high - estimate.value
    if reach <= 0:
        return 0.0 if estimate.excludes_zero else 1.0
    t = abs(estimate.value) / reach * t_quantile((1 + CONFIDENCE_LEVEL) / 2, groups - 1)
    return 2 * (1 - t_cdf(t, groups - 1))


def correct_claims(p_values: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    """Return the p-values of each criterion by name, each name corrected by Holm over all criteria; nan is left out."""
    corrected: list[dict[str, float]] = [{} for _ in p_values]
    for name in dict.fromkeys(name for found in p_values for name in found):
        family = correct_holm(np.array([found.get(name, nan) for found in p_values]))
        for found, p in zip(corrected, family.tolist(), strict=True):
            if not isnan(p):
                found[name] = p
    return corrected


def is_shown(estimate: Interval, p_holm: float | None) -> bool:
    """Return whether both the interval and the corrected p-value exclude 0."""
    return estimate.excludes_zero and p_holm is not None and p_holm <= SIGNIFICANCE_LEVEL
