"""How far people's mean may lie from a calibrated score: an interval that holds most of them, also where cases are few.

Conformal: the errors of cases that a map had not seen stand for that of the next one, and since that might be greater
than all of them, the error itself takes a place among them. Plain quantiles leave that place out, and so hold 71 % in
place of 80 where there are ten cases. Cases of one group err alike, and the next one is of a new group, so that a place
is one for each group, shared by its cases (Lee, Barber and Willett 2023).
"""

from __future__ import annotations

import numpy as np

from beholder.statistics.data import Floats, Ints

HOLDS = 0.8  # of the cases: the share whose mean rating lies within the interval of a calibrated score
_ROUNDING = 1e-9  # what may be lacking where shares are added up


def error_bounds(away: Floats, groups: Ints) -> tuple[float, float] | None:
    """What to add to a prediction, from `away`, how far people lie above predictions for cases that were not seen (nan:
    none), and the number of each case's group. None where there are too few groups to say (fewer than 9)."""
    known = ~np.isnan(away)
    _, place, sizes = np.unique(groups[known], return_inverse=True, return_counts=True)
    share = 1 / (len(sizes) + 1) / sizes[place]
    high = _end(away[known], share)
    low = _end(-away[known], share)
    return None if low is None or high is None else (-low, high)


def _end(away: Floats, share: Floats) -> float | None:
    """The least error that the next one is not above, but for half of what need not be held."""
    order = np.argsort(away, kind="stable")
    enough = np.cumsum(share[order]) >= (1 + HOLDS) / 2 - _ROUNDING
    return float(away[order][enough.argmax()]) if enough.any() else None
