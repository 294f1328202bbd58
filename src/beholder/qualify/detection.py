"""What marks are made of: how well scores tell damaged papers from clean ones, and how they follow its strength.

Scores are shares of their scale (0 its lowest, 1 its highest), nan where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beholder.statistics.data import Bools, Floats
from beholder.statistics.intervals import Statistic, ratio

LEAST_STEPS = 3  # strengths, the clean twin among them, that a series needs


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
    of_steps, of_scores = (one - one.mean() for one in (ranks(steps), ranks(given)))
    return -float((of_steps * of_scores).sum() / np.sqrt((of_steps**2).sum() * (of_scores**2).sum()))


def ranks(values: Floats) -> Floats:
    """Ranks from 1, those of equal values their mean."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Floats = (last - (counts - 1) / 2)[place]
    return means
