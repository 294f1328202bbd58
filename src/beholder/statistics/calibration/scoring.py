"""How near predictions are to people: rank correlation and error as statistics of weighted cases, for `Draws`."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from beholder.statistics.agreement.coefficients import paired, ranks
from beholder.statistics.agreement.raters import distance_to_others, one_against_others
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


def one_rater(raters: Floats) -> tuple[Statistic, Statistic]:
    """ρ and error of one rater against the others, as `agree` gives them. `raters` is cases × raters, nan where
    somebody did not rate."""
    order, away = one_against_others(raters), distance_to_others(raters)
    return lambda weights: order(weights)["rater_spearman"], lambda weights: away(weights)["rater_mae"]


def averaged(statistics: list[Statistic]) -> Statistic:
    """The mean of those that are defined in a draw; nan where none is."""

    def statistic(weights: Floats) -> Floats:
        if not statistics:
            return np.full(len(weights), np.nan)
        found = np.vstack([one(weights) for one in statistics])
        known = ~np.isnan(found)
        return ratio(np.where(known, found, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))

    return statistic
