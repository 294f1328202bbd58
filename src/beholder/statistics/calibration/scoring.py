"""How near predictions are to people: rank correlation and error as statistics of weighted cases, for `Draws`."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from beholder.statistics.agreement.coefficients import paired, ranks
from beholder.statistics.data import Floats
from beholder.statistics.intervals import Statistic, ratio, weighted_mean


class Measure(StrEnum):
    """What a map is chosen by: the mean absolute error, or the rank correlation (Spearman's ρ) with people."""

    ERROR = "error"
    RANK = "rank"


def rank_correlation(one: Floats, other: Floats) -> Statistic:
    """Spearman's ρ over the cases where both are there; ties share the mean of their ranks; nan where either is
    constant."""
    found = ranks(paired(one, other), kendall=False)
    return lambda weights: found(weights)["spearman"]


def absolute_error(said: Floats, ratings: Floats) -> Statistic:
    """The mean distance, over the cases where both are there."""
    return weighted_mean(np.abs(said - ratings))


def one_against_the_others(raters: Floats) -> tuple[Statistic, Statistic]:
    """ρ and mean absolute error of a single rater against the mean of the others, averaged over raters; a rater for
    whom it is not defined takes no part. `raters` is cases × raters, nan where somebody did not rate."""
    rhos, errors = [], []
    for place in range(raters.shape[1]):
        others = np.delete(raters, place, axis=1)
        counts = (~np.isnan(others)).sum(axis=1)
        mean = ratio(np.nansum(others, axis=1), counts.astype(np.float64))
        if np.count_nonzero(~np.isnan(raters[:, place] + mean)) > 1:
            rhos.append(rank_correlation(raters[:, place], mean))
            errors.append(absolute_error(raters[:, place], mean))
    return averaged(rhos), averaged(errors)


def averaged(statistics: list[Statistic]) -> Statistic:
    """The mean of those that are defined in a draw; nan where none is."""

    def statistic(weights: Floats) -> Floats:
        if not statistics:
            return np.full(len(weights), np.nan)
        found = np.vstack([one(weights) for one in statistics])
        known = ~np.isnan(found)
        return ratio(np.where(known, found, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))

    return statistic
