"""What marks are made of: how well scores tell damaged papers from clean ones, and how they follow its strength.

Scores are shares of their scale (0 its lowest, 1 its highest), nan where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beholder.statistics.agreement.coefficients import paired, ranks
from beholder.statistics.data import Bools, Floats
from beholder.statistics.intervals import Statistic, ratio

LEAST_STEPS = 3  # strengths, the clean twin among them, that a series needs
ROUNDING = 1e-9  # two sums of the same shares may differ in their last bit


def same(differences: Floats) -> Floats:
    """Differences of shares, those that are mere rounding set to 0."""
    return np.where(np.abs(differences) < ROUNDING, 0.0, differences)


def auc(scores: Floats, damaged: Bools, clean: Bools) -> Statistic:
    """How often a damaged paper scores below a clean one, ties counting half: the area under the ROC curve. nan where
    there is none of one sort."""
    there = ~np.isnan(scores)
    below, above = np.flatnonzero(damaged & there), np.flatnonzero(clean & there)
    apart = np.sign(scores[above][None, :] - scores[below][:, None])
    won = (apart + 1) / 2

    def statistic(weights: Floats) -> Floats:
        of_damaged, of_clean = weights[:, below], weights[:, above]
        total: Floats = ((of_damaged @ won) * of_clean).sum(axis=1)
        return ratio(total, of_damaged.sum(axis=1) * of_clean.sum(axis=1))

    return statistic


def fall(strengths: Sequence[float] | Floats, scores: Sequence[float] | Floats) -> float:
    """How faithfully scores fall as strength rises: Spearman's rank correlation with its sign turned, so that 1 is a
    lower score at every step. Papers without a score are left out. A score that never moves is 0: no response; nan
    with fewer than `LEAST_STEPS` strengths."""
    given = np.asarray(scores, np.float64)
    there = ~np.isnan(given)
    steps, given = np.asarray(strengths, np.float64)[there], given[there]
    if len(np.unique(steps)) < LEAST_STEPS:
        return float("nan")
    if np.ptp(given) == 0:
        return 0.0
    pairs = paired(steps, given)
    return -float(ranks(pairs, kendall=False)(np.ones((1, pairs.size)))["spearman"][0])
