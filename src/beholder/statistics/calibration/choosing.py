"""Which map is worth having: chosen by grouped cross-validation, held against the raw judge, a constant and people.

Every number is of cases that the map had not seen, nor any case of their group (but for `Result.unseen`, where it has
seen their photographs). The choice itself is made anew without each fold (nested), so that the score of what was chosen
is not the best of many lucky ones. Differences are paired, over the same draws; one that is above 0 speaks for the map.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from beholder.statistics.calibration.ground import CHOSEN, CONSTANT, RATER, RAW, Ground, Row
from beholder.statistics.calibration.holding import error_bounds
from beholder.statistics.calibration.lesson import Recipe
from beholder.statistics.calibration.recipes import RECIPES
from beholder.statistics.calibration.scoring import Measure
from beholder.statistics.calibration.task import Fitted, Task, fitted
from beholder.statistics.data import Floats
from beholder.statistics.intervals import DRAWS, SEED, Estimate

FOLDS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What calibrating came to.

    `rows` are by recipe, with `RAW`, `RATER` and `CHOSEN` (the choice nested). `unseen` are those of the chosen one,
    the judge and a constant with each maker left out; `neither` the same with each maker and each photograph left out
    at once, so that what people say of the photograph is not known either (both empty where makers are not known).
    `helps` says whether the chosen map is worth having, and `why` why (not); `fitted` are the maps by aspect, there
    only where they help; `errors` what to add to a prediction for the interval that holds `HOLDS` of the ratings, the
    whole scale where there are too few groups to say. `makers` is a sentence on what is left where maker and photograph
    are new, and `learned_makers` whether that is nothing. `told` says how intervals were made.
    """

    tasks: tuple[Task, ...]
    by: Measure
    chosen: str
    rows: Mapping[str, Row]
    unseen: Mapping[str, Row]
    neither: Mapping[str, Row]
    helps: bool
    why: str
    makers: str
    learned_makers: bool
    told: str
    fitted: Mapping[str, Fitted] = field(default_factory=dict)
    errors: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def aspect(self) -> str:
        return ", ".join(task.aspect for task in self.tasks)

    @property
    def bounded(self) -> bool:
        """Whether the intervals of calibrated scores are narrower than the scale."""
        return all(self.errors[task.aspect] != _whole(task) for task in self.tasks)


def calibrate(
    *tasks: Task,
    recipes: Mapping[str, Recipe] = RECIPES,
    by: Measure = Measure.ERROR,
    folds: int = FOLDS,
    seed: int = SEED,
    draws: int = DRAWS,
) -> Result:
    """Fits every recipe, chooses, and says whether the choice helps.

    Several tasks (aspects on one human scale, rated on the same cases) are taken together: one choice and one decision
    by the mean over them, for where each alone has too few ratings; each still gets a map of its own.

    A map helps where it is nearer to people than the raw judge on the human scale and than a constant, each by a
    paired interval that excludes 0. By `Measure.RANK` the first is in ρ, and the second is that ρ is above 0.
    Raises `UsageError` where the cases are all of one group, or the scales of several tasks differ.
    """
    ground = Ground(tasks, recipes, seed, draws)
    fold = ground.folds(folds)
    said = ground.across(fold)
    chosen = ground.best(said, by)
    nested = [np.full(len(task.cases), np.nan) for task in tasks]
    picked: set[str] = set()
    for one in np.unique(fold):
        name = ground.best(ground.within(fold != one), by)
        picked.add(name)
        for place, its in enumerate(ground.at(fold)):
            nested[place][its == one] = said[name][place][its == one]
    rows = ground.rows({**said, CHOSEN: nested}, picked) | {RATER: ground.people()}
    helps, why = _helps(rows[CHOSEN], chosen, by)
    neither = ground.unseen({CONSTANT, chosen}, fold)
    makers, learned = _makers(chosen, rows, neither, by) if neither else ("", False)
    return Result(
        tasks=tuple(tasks),
        by=by,
        chosen=chosen,
        rows=rows,
        unseen=ground.unseen({CONSTANT, chosen}),
        neither=neither,
        helps=helps,
        why=why,
        makers=makers,
        learned_makers=learned,
        told=ground.draws.told(),
        fitted={task.aspect: fitted(task, recipes[chosen]) for task in tasks} if helps else {},
        errors={task.aspect: _errors(task, one) for task, one in zip(tasks, nested, strict=True)},
    )


def _helps(row: Row, chosen: str, by: Measure) -> tuple[bool, str]:
    gain, against = (row.rho_gain, row.rho) if by is Measure.RANK else (row.error_gain, row.constant_gain)
    if chosen == CONSTANT:
        return False, "A constant is as near to people as anything that was learned from the judge."
    if gain is None or not _above(gain):
        return False, f"The chosen map ({chosen}) is not surely nearer to people than the raw judge."
    if against is not None and not _above(against):
        return False, f"The chosen map ({chosen}) is not surely nearer to people than a constant."
    return True, f"The chosen map ({chosen}) is nearer to people than the raw judge and than a constant."


def _above(one: Estimate) -> bool:
    return one.low is not None and one.low > 0


def _makers(chosen: str, rows: Mapping[str, Row], unseen: Mapping[str, Row], by: Measure) -> tuple[str, bool]:
    """What is left of the gain where maker and photograph are new, in a sentence, and whether that is nothing."""
    if by is Measure.RANK:
        what, seen, kept = "ρ", rows[chosen].rho.value, unseen[chosen].rho.value
        without = max(rows[RAW].rho.value or 0.0, 0.0)
        gained, lost = seen is not None and seen > without, kept is None or kept <= without
    else:
        what, seen, kept = "the error", rows[chosen].error.value, unseen[chosen].error.value
        rivals = [rows[RAW].error.value, unseen[CONSTANT].error.value if CONSTANT in unseen else None]
        without = min((one for one in rivals if one is not None), default=0.0)
        gained, lost = seen is not None and seen < without, kept is None or kept >= without
    first, then = ("not defined" if one is None else f"{one:.3f}" for one in (seen, kept))
    told = f"Where the map has seen other images of the same maker, {what} of {chosen} is {first}; "
    told += f"where it has seen neither the maker nor the photograph, {then}"
    if not lost:
        better = "still better" if _surely(unseen[chosen], by) else "not surely better"
        return f"{told}, {better} than without any map ({without:.3f}).{_order_lost(chosen, unseen, by)}", False
    learned = ": it learned who made the image" if gained else ""
    return f"{told}, no better than without any map ({without:.3f}){learned}.", gained


def _surely(row: Row, by: Measure) -> bool:
    """Whether a map is better than the judge, and than a constant, by intervals that exclude 0."""
    gains = [row.rho_gain] if by is Measure.RANK else [row.error_gain, row.constant_gain]
    return all(one is not None and _above(one) for one in gains)


def _order_lost(chosen: str, unseen: Mapping[str, Row], by: Measure) -> str:
    """A map may be nearer to people and yet put images of a new maker into no better order than the judge does."""
    order, judge = unseen[chosen].rho.value, unseen[RAW].rho.value
    if by is Measure.RANK or order is None or judge is None or order > judge:
        return ""
    return f" Its order is then no better than the judge's own (ρ {order:.3f} and {judge:.3f})."


def _errors(task: Task, said: Floats) -> tuple[float, float]:
    """What to add to a prediction for the interval: from end to end of the scale where too little is known."""
    return error_bounds(task.mean - said, task.numbers) or _whole(task)


def _whole(task: Task) -> tuple[float, float]:
    width = task.scale[1] - task.scale[0]
    return -width, width
