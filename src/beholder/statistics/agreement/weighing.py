"""Weights of cases added up by class, for many draws at once: what tables of ranks are made of, and nearly all of the
time that agreement takes.

Weights are small whole numbers, so several draws go into one number, each with bits of its own, and one addition adds
up all of them: a fifth of the time of a `bincount` for each draw (`benchmarks/statistics_speed.py`). Points are sorted
by class once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from beholder.statistics.data import Floats, Ints

PACKED = 3  # draws to a number
BITS = 21  # for each draw

_BLOCK = 1 << 21  # sums at a time: 16 MB

_Rows = TypeVar("_Rows", Floats, Ints)


class Weights:
    """How often each case counts in some draws: `rows`, draws × cases, whole numbers from 0; or draws × groups, then
    `group` is the group of each case. Where several statistics are given the same `Weights`, what has to be made of
    them is made once."""

    def __init__(self, rows: Floats, group: Ints | None = None) -> None:
        self.rows, self.group = rows, group

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, weights: Drawn) -> Weights:
        return weights if isinstance(weights, Weights) else cls(weights)

    def times(self, terms: Floats) -> Floats:
        """The weighted sums of terms (cases × terms): draws × terms."""
        if self.group is None:
            return self.rows @ terms
        groups = self.rows.shape[1]
        return self.rows @ np.stack([np.bincount(self.group, term, groups) for term in terms.T], axis=1)

    @cached_property
    def most(self) -> int:
        return int(self.rows.max(initial=0))

    @cached_property
    def packed(self) -> Ints:
        """`PACKED` draws to a row, the first of them in the lowest bits."""
        whole = self.rows.astype(np.int64)
        found = whole[::PACKED].copy()
        for lane in range(1, PACKED):
            own = whole[lane::PACKED]
            found[: len(own)] += own << (lane * BITS)
        return found


Drawn = Floats | Weights
"""Weights, draws × cases."""
Weighed = Callable[[Drawn], dict[str, Floats]]
"""Statistics by name, a value for each draw."""


class Classes:
    """Points that have a class each, one of `size`, and carry the weight of a case, times a `share`, 1 if not given."""

    def __init__(self, place: Ints, case: Ints, size: int, share: Floats | None = None) -> None:
        self.size = size
        shares = np.ones(len(place)) if share is None else share
        self._parts = [_part(place, case, np.flatnonzero(shares == one), size, float(one)) for one in np.unique(shares)]

    def weighed(self, weights: Drawn) -> Iterator[Floats]:
        """The weight of each class: draws × classes, some draws at a time."""
        every = Weights.of(weights)
        step = PACKED * max(1, _BLOCK // (PACKED * self.size))
        for start in range(0, len(every), step):
            rows = slice(start, min(start + step, len(every)))
            parts = [part.sums(every, rows) for part in self._parts]
            yield sum(parts[1:], parts[0]) if parts else np.zeros((rows.stop - rows.start, self.size))


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Points of one share in the order of their classes: the case of each, where each class begins, the classes that
    have no point, and how many points the largest has."""

    share: float
    case: Ints
    first: Ints
    empty: Ints
    largest: int

    def sums(self, weights: Weights, rows: slice) -> Floats:
        """Draws × classes. `rows` begins with the first of `PACKED` draws."""
        if self.largest * weights.most >= 1 << BITS:
            return self.share * self._added(weights.rows[rows], weights.group)
        packed = self._added(weights.packed[rows.start // PACKED : -(-rows.stop // PACKED)], weights.group)
        found = np.empty((rows.stop - rows.start, packed.shape[1]))
        for lane in range(PACKED):
            own = found[lane::PACKED]
            own[:] = (packed[: len(own)] >> (lane * BITS)) & ((1 << BITS) - 1)
        return found if self.share == 1 else found * self.share

    def _added(self, rows: _Rows, group: Ints | None) -> _Rows:
        place = self.case if group is None else group[self.case]
        found = np.empty((len(rows), len(self.first)), rows.dtype)
        gathered = np.zeros(len(place) + 1, rows.dtype)  # the last stays 0: empty classes at the end begin there
        for row, sums in zip(rows, found, strict=True):
            np.take(row, place, out=gathered[:-1], mode="clip")  # all are there; "raise" would copy once more
            np.add.reduceat(gathered, self.first, out=sums)
        found[:, self.empty] = 0  # `reduceat` takes the next class's first point
        return found


def _part(place: Ints, case: Ints, own: Ints, size: int, share: float) -> _Part:
    order = own[np.argsort(place[own], kind="stable")]
    counts = np.bincount(place[own], minlength=size)
    first = np.cumsum(counts) - counts
    return _Part(share, case[order].astype(np.intp), first, np.flatnonzero(counts == 0), int(counts.max(initial=0)))
