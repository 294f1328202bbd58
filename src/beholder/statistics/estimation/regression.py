"""The mean human score of all cases, from a judge on all of them and people on a few: the arithmetic.

This is prediction-powered inference with the tuned weight (PPI++, Angelopoulos, Duchi and Zrnic 2023) in the form where
the rated cases are part of all cases: mean(people) + weight · (mean(judge, all) − mean(judge, rated)). Its best weight
is then the slope of people on judge among the rated cases, and the whole is what survey statisticians call the
regression estimator under double sampling. PPI++ keeps its weight within 0 and 1 since its predictions are in the unit
of the labels; a judge here may use any scale, so that the weight, in human points for one point of the judge, has a
lower bound only: a judge that runs against people among the few rated cases is taken as one that tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beholder.statistics.data import Bools, Floats, Ints
from beholder.statistics.intervals import LEVEL
from beholder.statistics.student import quantile

LEAST_GROUPS = 10  # rated groups from which a weight is tuned: with fewer it is a guess, and people stand alone
TINY = 1e-20  # of the squared size of numbers: what rounding leaves where all are the same


@dataclass(frozen=True, slots=True)
class Fit:
    """A mean and where its uncertainty comes from.

    The variance has two parts: `by_ratings`, which more ratings make smaller, and `by_cases`, which only more cases
    would, since the cases of a run are themselves a draw from all that there could be. `freedom` are the degrees of
    freedom of the first, counted in groups. `likeness` is how alike the errors of two cases of one group are, 0 to 1.
    """

    value: float
    weight: float
    by_ratings: float
    by_cases: float
    freedom: int
    likeness: float

    @property
    def variance(self) -> float:
        return self.by_ratings + self.by_cases

    @property
    def reach(self) -> float:
        """Half the width of the interval."""
        return reach(self.variance, self.freedom)


def reach(variance: float, freedom: int) -> float:
    """Half the width of a t interval."""
    return float(quantile((1 + LEVEL) / 2, freedom) * np.sqrt(variance))


def fitted(human: Floats, group: Ints, judge: Floats | None = None, *, either_way: bool = False) -> Fit | None:
    """The mean of `human` over all cases, nan where nobody rated; by people alone without a `judge`, which has a number
    for each case. `group` numbers the groups from 0 without gaps.

    The variance is robust to whatever cases of one group have in common: errors are added up by group before they are
    squared, with the usual small-sample factors for each part. None where fewer than two groups (three with a judge)
    are rated, and with a judge also where it tells nothing: it or people say the same of all rated cases,
    or (unless `either_way`) it says more where people say less.
    """
    rated: Bools = ~np.isnan(human)
    people, own = human[rated], group[rated]
    count = len(people)
    groups = len(np.unique(own))
    tuned = int(judge is not None)
    if groups < 2 + tuned or count < 2 + tuned:
        return None
    mean = float(people.mean())
    errors: Floats = people - mean
    shares: Floats = np.full(count, 1 / count)
    spread: Floats = np.zeros(len(human))
    slope = 0.0
    if judge is not None:
        away = judge[rated] - judge[rated].mean()
        square = float(away @ away)
        if square <= TINY * float(np.abs(judge).max()) ** 2 or np.ptp(people) == 0:
            return None
        slope = float(away @ errors) / square
        if slope <= 0 and not either_way:
            return None
        gap = float(judge.mean() - judge[rated].mean())
        mean += slope * gap
        errors = errors - slope * away
        shares = shares + gap / square * away
        spread = slope * (judge - judge.mean()) / len(judge)
    parts = shares * errors
    every = int(group.max()) + 1
    alone = float(parts @ parts) * count / (count - 1 - tuned)
    ours = np.bincount(own, parts, every) * np.sqrt(groups / (groups - 1) * (count - 1) / (count - 1 - tuned))
    others = np.bincount(group, spread, every) * np.sqrt(every / (every - 1))
    by_ratings = float(ours @ ours)
    return Fit(
        value=mean,
        weight=slope,
        by_ratings=by_ratings,
        by_cases=float(others @ others + 2 * ours @ others),
        freedom=groups - 1 - tuned,
        likeness=_likeness(own, by_ratings / alone if alone > 0 else 1.0),
    )


def _likeness(group: Ints, inflation: float) -> float:
    """From how much larger the variance is than that of independent cases: 1 + likeness · (companions of a case)."""
    sizes = np.bincount(group).astype(np.float64)
    companions = float(sizes @ (sizes - 1)) / len(group)
    return float(np.clip((inflation - 1) / companions, 0, 1)) if companions else 0.0
