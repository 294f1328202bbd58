"""Sums over very many cases, told from a random part of them, and how far off they may be."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

SEED = 0  # the same cases give the same plan
_Z = 1.96  # 95 of 100 such intervals hold the true sum


def drawn(places: Sequence[int], most: int | None) -> Sequence[int]:
    """At most so many of the places, each with the same chance, ascending as they were; all of them without a limit."""
    if most is None or len(places) <= most:
        return places
    return array("Q", sorted(places[index] for index in Random(SEED).sample(range(len(places)), most)))


def at(values: Iterable[T], places: Sequence[int]) -> Iterator[T]:
    """The values at these places, which are ascending."""
    wanted = iter(places)
    place = next(wanted, None)
    for position, value in enumerate(values):
        if place is None:
            return
        if position == place:
            yield value
            place = next(wanted, None)


class Spread:
    """How much the parts of a sum differ."""

    def __init__(self) -> None:
        self._total = 0.0
        self._squares = 0.0

    def add(self, part: float) -> None:
        self._total += part
        self._squares += part * part

    def margin(self, drawn: int, of: int) -> float:
        """By how much of itself a sum over `of` parts may be off, either way, when `drawn` of them were added (those
        that were not are 0): 0.02 is 2 %, in 95 of 100 draws. 0 where all of them were; 1 where all were nothing or
        fewer than two were drawn, which tells nothing."""
        if drawn >= of:
            return 0.0
        if drawn < 2 or not self._total:
            return 1.0
        mean = self._total / drawn
        variance = max(0.0, (self._squares - drawn * mean * mean) / (drawn - 1))
        return _Z * math.sqrt(variance * (1 - drawn / of) / drawn) / mean
