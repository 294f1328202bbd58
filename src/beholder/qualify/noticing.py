"""From which strength on a judge notices a kind of damage, more surely than by chance.

If it does not notice a strength it notices none below it either, since damage only grows: the scores of the clean paper
and of all papers up to that strength might then stand in any order. How often a random order falls as steadily as what
was seen is the p of that strength (a permutation test for trend, in all photographs at once). The strongest is tested
first, then the next as long as each is noticed (Tukey, Ciminera and Heyse 1985), so that with a judge that answers at
random one kind in twenty is called noticed at all, however many strengths there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import factorial, prod

import numpy as np

from beholder.statistics.data import Floats

CHANCE = 0.05  # of a judge that answers at random: how often any strength of a kind may be called noticed
ORDERS = 10_000  # random ones, where there are more in all

_CLOSE = 1e-9  # two sums as near as that are a tie


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """The papers of one photograph that grow worse, the clean one with strength 0; scores nan where there is none."""

    strengths: Floats
    scores: Floats

    def up_to(self, strength: float) -> Series:
        """As far as there are scores."""
        kept = ~np.isnan(self.scores) & (self.strengths <= strength)
        return Series(self.strengths[kept], self.scores[kept])


def noticed(series: Sequence[Series], seed: int) -> tuple[int, ...]:
    """The strengths that are noticed, the strongest first; none where not even that one is."""
    found: list[int] = []
    scored = [one.strengths[~np.isnan(one.scores)] for one in series]
    for strength in sorted({int(one) for strengths in scored for one in strengths if one > 0}, reverse=True):
        if trend_p([one.up_to(strength) for one in series], seed) > CHANCE:
            break
        found.append(strength)
    return tuple(found)


def trend_p(series: Sequence[Series], seed: int) -> float:
    """How often scores in a random order fall with strength as much as these do, or more: over all orders up to
    `ORDERS` of them, else over as many seeded ones, counted as (b + 1) / (m + 1). 1 where no score moves."""
    moving = [one for one in series if len(one.scores) > 1 and np.ptp(one.scores) > _CLOSE]
    if not moving:
        return 1.0
    seen = -sum(float(one.strengths @ one.scores) for one in moving)
    falls = [-_orders(one.scores) @ one.strengths for one in moving]
    if prod(factorial(len(one.scores)) for one in moving) <= ORDERS:
        reached = np.zeros(1)
        for fall in falls:
            reached = np.add.outer(reached, fall).ravel()
        return float((reached >= seen - _CLOSE).mean())
    chance = np.random.default_rng(seed)
    drawn = sum(chance.choice(fall, ORDERS) for fall in falls)
    return float((np.count_nonzero(drawn >= seen - _CLOSE) + 1) / (ORDERS + 1))


def _orders(scores: Floats) -> Floats:
    return np.array(list(permutations(scores.tolist())))
