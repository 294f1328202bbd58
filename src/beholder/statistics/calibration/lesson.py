"""What a map is learned from, and what learns it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from beholder.statistics.data import Bools, Floats, Ints
from beholder.verdicts.maps import Map, Offset


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """What a map is learned from: cases × features without gaps, and the mean human rating of each case.

    `groups` number what belongs together. `raw` is the place of the judge's own number for the aspect, which lies on
    `raw_scale`; ratings lie on `scale`. `seed` is for what is drawn.
    """

    names: tuple[str, ...]
    values: Floats
    ratings: Floats
    groups: Ints
    raw: int
    raw_scale: tuple[float, float]
    scale: tuple[float, float]
    seed: int = 0

    def part(self, rows: Bools) -> Lesson:
        """Some of the cases."""
        return replace(self, values=self.values[rows], ratings=self.ratings[rows], groups=self.groups[rows])

    def judge(self) -> Offset:
        """The judge's own number on the human scale: ends on ends."""
        (low, high), (first, last) = self.raw_scale, self.scale
        slope = (last - first) / (high - low)
        return Offset(self.raw, slope, first - slope * low)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a map is fitted. `raw_only`: it learns from the judge's own number alone, and needs nothing else later.
    `keeps_order`: it only moves that number, so that the judge's order, and with it ρ, stays what it is."""

    fit: Callable[[Lesson], Map]
    raw_only: bool = False
    keeps_order: bool = False
