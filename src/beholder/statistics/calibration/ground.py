"""Candidates side by side: how near each is to people, on the same folds and over the same draws."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.calibration.folding import folds_of
from beholder.statistics.calibration.lesson import Recipe
from beholder.statistics.calibration.scoring import (
    Measure,
    absolute_error,
    averaged,
    one_rater,
    rank_correlation,
)
from beholder.statistics.calibration.task import MOST_CROSSED, Task, fitted, out_of_fold
from beholder.statistics.data import Bools, Floats, Ints
from beholder.statistics.intervals import Draws, Estimate, Statistic, undefined

INNER = 3  # folds within a fold, for the choice
RAW, RATER, CHOSEN, CONSTANT = "the raw judge", "one rater against the others", "as chosen", "constant"

Said = Mapping[str, Sequence[Floats]]
"""By candidate, its predictions for each task."""


@dataclass(frozen=True, slots=True)
class Row:
    """How near something is to people: `rho` (Spearman) and `error` (mean absolute). The gains are paired, positive
    where it is nearer: in ρ over the raw judge, in error over the raw judge and over a constant."""

    rho: Estimate
    error: Estimate
    rho_gain: Estimate | None = None
    error_gain: Estimate | None = None
    constant_gain: Estimate | None = None

    def to_dict(self) -> dict[str, object]:
        given = {
            "rho": self.rho,
            "error": self.error,
            "rho_gain_over_judge": self.rho_gain,
            "error_gain_over_judge": self.error_gain,
            "error_gain_over_constant": self.constant_gain,
        }
        return {name: one.to_dict() for name, one in given.items() if one is not None}


class Ground:
    """Tasks on common ground: the cases of all of them, so that folds and draws are the same for each.

    What is said of several tasks is the mean over them. Raises `UsageError` where their scales differ, or where the
    cases are all of one group.
    """

    def __init__(self, tasks: Sequence[Task], recipes: Mapping[str, Recipe], seed: int, draws: int) -> None:
        if len({task.scale for task in tasks}) > 1:
            raise UsageError("Aspects that are rated on different scales cannot be taken together; do one at a time.")
        self.tasks, self.recipes, self.seed = tuple(tasks), dict(recipes), seed
        names: dict[str, str] = {}
        for task in tasks:
            names |= dict(zip(task.cases, task.groups or ("",) * len(task.cases), strict=True))
        place = {case: row for row, case in enumerate(names)}
        self._places: list[Ints] = [np.array([place[case] for case in task.cases], np.int64) for task in tasks]
        groups = list(names.values()) if any(names.values()) else None
        self.draws = Draws(groups, len(names), count=draws, seed=seed)
        self.groups = self.draws.group
        if self.draws.groups < 2:
            raise UsageError("All cases are of one group, so that nothing can be held back to test a map on.")
        self._means = [task.mean for task in tasks]
        self.judges = [task.judge for task in tasks]

    def folds(self, count: int) -> Ints:
        return folds_of(self.groups, count, self.seed)

    def across(self, fold: Ints) -> dict[str, list[Floats]]:
        """Each case by maps that saw none of its fold."""
        return {
            name: [out_of_fold(task, one, fold[rows]) for task, rows in self._each()]
            for name, one in self.recipes.items()
        }

    def within(self, some: Bools) -> dict[str, list[Floats]]:
        """Each of some cases by maps of others of them alone; nan for the rest."""
        fold = np.full(len(some), -1, np.int64)
        fold[some] = folds_of(self.groups[some], INNER, self.seed)
        return {
            name: [out_of_fold(task, one, fold[rows], rows=some[rows]) for task, rows in self._each()]
            for name, one in self.recipes.items()
        }

    def unseen(self, names: Collection[str], fold: Ints | None = None) -> dict[str, Row]:
        """How near maps of these kinds are on cases of whose maker they saw nothing, and with a `fold` on cases of
        which they saw neither the maker nor the photograph. Without one they have seen the photograph, by other makers:
        what people say of it is known. Empty where a task does not know makers, or only one."""
        if any(task.makers is None or len(set(task.makers)) < 2 for task in self.tasks):
            return {}
        divided: list[tuple[Ints, ...]] = [
            (task.maker_folds(),) if fold is None else (task.maker_folds(MOST_CROSSED), fold[rows])
            for task, rows in self._each()
        ]
        said = {
            name: [out_of_fold(task, one, *by) for task, by in zip(self.tasks, divided, strict=True)]
            for name, one in self.recipes.items()
            if name in names
        }
        return self.rows(said)

    def at(self, fold: Ints) -> list[Ints]:
        """The fold of the cases of each task."""
        return [fold[rows] for rows in self._places]

    def best(self, said: Said, by: Measure) -> str:
        """The candidate that is nearest to people; the first, which is the simplest, of several that are as near."""
        found = {name: self._distance(name, one, by) for name, one in said.items()}
        return min(found, key=lambda name: found[name])

    @cached_property
    def flat(self) -> frozenset[str]:
        """The recipes whose map says one number for all cases: it has no order. Across folds it would seem to have one,
        and against people, since without a fold of high ratings the others are lower."""
        return frozenset(
            name
            for name, one in self.recipes.items()
            if all(np.ptp(task.clipped(fitted(task, one).predict(task.features))) == 0 for task in self.tasks)
        )

    @property
    def moved(self) -> frozenset[str]:
        """The recipes that leave the judge's order as it is, and so its ρ. Across folds they would seem to lose some of
        it, since in each the judge's number is moved by a little more or less."""
        return frozenset(name for name, one in self.recipes.items() if one.keeps_order)

    def rows(self, said: Said, chosen: Set[str] = frozenset()) -> dict[str, Row]:
        """How near each is to people, beside the raw judge. `chosen` are the recipes that are behind `CHOSEN`."""
        everyone = {RAW: self.judges, **said}
        behind = {name: {name} for name in everyone} | {CHOSEN: set(chosen)}
        rho = {
            name: self._mean(rank_correlation, self.judges if behind[name] <= self.moved else one)
            for name, one in everyone.items()
            if not behind[name] <= self.flat
        }
        error = {name: self._mean(absolute_error, one) for name, one in everyone.items()}

        def statistics(weights: Floats) -> dict[str, Floats]:
            rhos = {name: one(weights) for name, one in rho.items()}
            errors = {name: one(weights) for name, one in error.items()}
            found = {f"rho {name}": one for name, one in rhos.items()}
            found |= {f"error {name}": one for name, one in errors.items()}
            found |= {f"rho_gain {name}": one - rhos[RAW] for name, one in rhos.items()}
            found |= {f"error_gain {name}": errors[RAW] - one for name, one in errors.items()}
            if CONSTANT in errors:
                found |= {f"constant_gain {name}": errors[CONSTANT] - one for name, one in errors.items()}
            return found

        found = self.draws.estimates(statistics)
        none = undefined("a constant has no order")
        return {
            name: Row(
                found.get(f"rho {name}", none),
                found[f"error {name}"],
                found.get(f"rho_gain {name}") if name != RAW else None,
                found[f"error_gain {name}"] if name != RAW else None,
                found.get(f"constant_gain {name}") if name != CONSTANT else None,
            )
            for name in everyone
        }

    def people(self) -> Row:
        """One rater against the mean of the others, which is of fewer, and so less sure, than the mean of all that a
        map is held against: a good map may well be nearer than this."""
        each = [(one_rater(task.ratings.values), rows) for task, rows in self._each()]
        rho, error = (averaged([_over(both[side], rows) for both, rows in each]) for side in (0, 1))
        why = "fewer than two people rated the same cases"
        return Row(self.draws.estimate(rho, why), self.draws.estimate(error, why))

    def _each(self) -> Iterator[tuple[Task, Ints]]:
        return zip(self.tasks, self._places, strict=True)

    def _distance(self, name: str, said: Sequence[Floats], by: Measure) -> float:
        if by is Measure.RANK and name == CONSTANT:
            return 0.0
        kind = rank_correlation if by is Measure.RANK else absolute_error
        ordered = self.judges if by is Measure.RANK and name in self.moved else said
        measured = []
        for mean, one, known in zip(self._means, ordered, (~np.isnan(one) for one in said), strict=True):
            value = float(kind(one[known], mean[known])(np.ones((1, int(known.sum()))))[0])
            measured.append((0.0 if np.isnan(value) else -value) if by is Measure.RANK else value)
        return float(np.mean(measured))

    def _mean(self, kind: Callable[[Floats, Floats], Statistic], said: Sequence[Floats]) -> Statistic:
        """The mean over the tasks of a statistic of predictions and ratings."""
        return averaged(
            [_over(kind(one, mean), rows) for one, mean, rows in zip(said, self._means, self._places, strict=True)]
        )


def _over(statistic: Statistic, rows: Ints) -> Statistic:
    """A statistic of some cases as one of all."""
    return lambda weights: statistic(weights[:, rows])
