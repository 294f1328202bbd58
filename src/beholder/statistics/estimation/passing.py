"""Pass rates: an interval that stays within 0 and 1, and the correction by sensitivity and specificity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beholder.statistics.data import Floats, Ints
from beholder.statistics.estimation.regression import Fit, reach
from beholder.statistics.intervals import LEVEL, Estimate, undefined
from beholder.statistics.student import quantile


def rate_interval(fit: Fit, rated: int) -> Estimate:
    """A rate with Wilson's interval for as many independent cases as its variance is worth.

    Where people and judge never differed (or, without a judge, all rated cases are alike) the spread says nothing:
    then one difference in `rated` + 2 cases is taken as still possible.
    """
    value = float(np.clip(fit.value, 0, 1))
    variance = max(fit.variance, fit.by_cases + _unseen(rated))
    shrunk = (rated * value + 1) / (rated + 2)
    worth = shrunk * (1 - shrunk) / variance
    square = quantile((1 + LEVEL) / 2, fit.freedom) ** 2
    centre = (value + square / (2 * worth)) / (1 + square / worth)
    half = np.sqrt(square * (value * (1 - value) / worth + square / (4 * worth**2))) / (1 + square / worth)
    return Estimate(value, max(0.0, float(centre - half)), min(1.0, float(centre + half)))


@dataclass(frozen=True, slots=True)
class Corrected:
    """The pass rate after Rogan and Gladen (1978), and what it is made of: how many of the cases that people pass the
    judge passes (sensitivity), and how many of those they fail it fails (specificity)."""

    rate: Estimate
    sensitivity: float | None
    specificity: float | None
    clipped: bool = False


def corrected(human: Floats, judge: Floats, group: Ints) -> Corrected:
    """The judge's pass rate of all cases, corrected by how it errs on the rated ones; both are 1, 0 or nan.

    Not defined where people pass all rated cases or none, or the judge is no better than chance (sensitivity and
    specificity together not above 1). The interval is by the delta method, robust to groups.
    """
    seen = ~np.isnan(judge)
    rated = seen & ~np.isnan(human)
    good, bad = rated & (human == 1), rated & (human == 0)
    if not good.any() or not bad.any():
        alike = "fail" if bad.any() else "pass"
        why = f"people {alike} every rated case" if rated.any() else "no case is both judged and rated"
        return Corrected(undefined(f"not defined: {why}"), None, None)
    sensitivity, specificity = float(judge[good].mean()), float(1 - judge[bad].mean())
    better = sensitivity + specificity - 1
    if better <= 0:
        why = "not defined: the judge passes what people fail as often as what they pass"
        return Corrected(undefined(why), sensitivity, specificity)
    passed = float(judge[seen].mean())
    raw = (passed + specificity - 1) / better
    value = float(np.clip(raw, 0, 1))
    moves: Floats = np.zeros(len(judge))
    moves[seen] += (judge[seen] - passed) / seen.sum() / better
    moves[good] -= (judge[good] - sensitivity) / good.sum() * value / better
    moves[bad] += (1 - judge[bad] - specificity) / bad.sum() * (1 - value) / better
    groups = len(np.unique(group[rated]))
    if groups < 3:
        return Corrected(Estimate(value, why="no interval: too few groups are rated"), sensitivity, specificity)
    sums = np.bincount(group, moves)
    variance = float(sums @ sums) * groups / (groups - 1)
    variance += _unseen(int(good.sum())) * (value / better) ** 2 * (sensitivity == 1)
    variance += _unseen(int(bad.sum())) * ((1 - value) / better) ** 2 * (specificity == 1)
    half = reach(variance, groups - 2)
    low, high = raw - half, raw + half
    ends = Estimate(value, float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1)))
    return Corrected(ends, sensitivity, specificity, clipped=low < 0 or high > 1)


def _unseen(count: int) -> float:
    """The variance of a rate of which none was seen in `count`."""
    rate = 1 / (count + 2)
    return rate * (1 - rate) / count
