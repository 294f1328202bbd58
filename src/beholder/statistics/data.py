"""What statistics are made of: what a judge said of cases, and what people said, as columns.

A missing value is nan everywhere: a case without a score, an assertion that did not apply, a person who did not rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SOURCE = "source"  # the group that cases share when they show the same thing: the photograph


class Kind(StrEnum):
    """What a column tells: a criterion's score on its own scale, a rubric's overall 0–1, whether it passed, whether an
    assertion holds, or the jurors' spread (highest less lowest)."""

    CRITERION = "criterion"
    OVERALL = "overall"
    PASSED = "passed"
    ASSERTION = "assertion"
    SPREAD = "spread"
    MEASUREMENT = "measurement"


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One number for each case. `scale` is where it can lie, `None` where that is not known; `about` is the question of
    an assertion. Passed and assertions are 1 (yes) and 0 (no)."""

    name: str
    kind: Kind
    values: Floats
    scale: tuple[float, float] | None = None
    about: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """What one judge said: a row for each case, in the order of the run or file.

    `groups` are texts by group name, a row each, empty where a case is in no such group. `lacks` says for a case why it
    has no score or not all of them: the outcomes in words. `name` is for people.
    """

    name: str
    cases: tuple[str, ...]
    columns: Mapping[str, Column]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lacks: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.cases)

    def at(self, rows: Sequence[int] | Ints) -> Scores:
        """These rows, in this order."""
        places = np.asarray(rows, np.int64)
        cases = tuple(self.cases[row] for row in places)
        columns = {
            name: Column(one.name, one.kind, one.values[places], one.scale, one.about)
            for name, one in self.columns.items()
        }
        groups = {name: tuple(values[row] for row in places) for name, values in self.groups.items()}
        kept = set(cases)
        return Scores(self.name, cases, columns, groups, {k: v for k, v in self.lacks.items() if k in kept})


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """What people said of one aspect: cases × raters, nan where somebody did not rate."""

    aspect: str
    cases: tuple[str, ...]
    raters: tuple[str, ...]
    values: Floats

    def mean(self) -> Floats:
        """By case; nan where nobody rated. The same ratings have the same mean to the last digit, in whatever order
        they stand: ranks would take what rounding leaves for a difference."""
        there = ~np.isnan(self.values)
        sums = np.where(there, self.values, 0.0).sum(axis=1)
        counts = there.sum(axis=1)
        means = np.divide(sums, counts, out=np.full(len(self.cases), np.nan), where=counts > 0)
        rounded: Floats = np.where(counts == 1, sums, np.round(means, 12))
        return rounded

    def at(self, cases: Sequence[str]) -> Ratings:
        """For these cases, in this order; rows of nan for cases that nobody rated."""
        place = {case: row for row, case in enumerate(self.cases)}
        rows = np.array([place.get(case, -1) for case in cases], np.int64)
        padded = np.vstack([self.values, np.full((1, len(self.raters)), np.nan)])
        return Ratings(self.aspect, tuple(cases), self.raters, padded[rows])
