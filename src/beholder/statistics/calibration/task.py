"""One aspect to be calibrated: cases that people rated and a judge gave a number to, and honest predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.calibration.features import NOTHING_BESIDES, Besides, Features, Usable, features_of, usable
from beholder.statistics.calibration.folding import crossed, folds_of
from beholder.statistics.calibration.lesson import Lesson, Recipe
from beholder.statistics.data import Bools, Column, Floats, Ints, Ratings, Scores
from beholder.statistics.intervals import Draws
from beholder.statistics.mapping import on_scale
from beholder.statistics.reading import group_of
from beholder.verdicts.maps import Map

LEAST_CASES = 10
MOST_LEFT_OUT = 30  # makers: more are left out some at a time
MOST_CROSSED = 10  # where photographs are held back as well, which takes as many times more maps
MAKER = "model"  # the group that says what made an image, unless another is named


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What is calibrated. Every case has a human mean and the judge's own number (`raw`).

    `scale` is the human one; `groups` number what belongs together, `makers` name what made the image (None where that
    is not known).
    """

    aspect: str
    cases: tuple[str, ...]
    features: Features
    ratings: Ratings
    raw: Column
    scale: tuple[float, float]
    groups: tuple[str, ...] | None
    makers: tuple[str, ...] | None
    seed: int = 0

    @property
    def mean(self) -> Floats:
        """The mean human rating of each case."""
        return self.ratings.mean()

    @property
    def judge(self) -> Floats:
        """The judge's own number on the human scale, ends on ends."""
        return on_scale(self.raw, self.scale).values

    @property
    def numbers(self) -> Ints:
        """The group of each case."""
        return Draws(self.groups, len(self.cases)).group

    def maker_folds(self, most: int = MOST_LEFT_OUT) -> Ints:
        """The cases divided by what made them: a fold each, for at most so many; a case whose maker is not known stands
        alone."""
        return folds_of(Draws(self.makers, len(self.cases)).group, most, self.seed)

    def clipped(self, said: Floats) -> Floats:
        return np.clip(said, *self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A map with the features that it takes, in order."""

    names: tuple[str, ...]
    usable: Usable
    map: Map

    def predict(self, features: Features) -> Floats:
        """Ratings for these cases, not clipped. Features are found by name; those that are not there, and gaps, are
        filled with medians."""
        return self.map.predict(self.usable.filled(features.named(self.names).values))


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms an aspect is learned. `scale` is the human scale, unless given from the least to the greatest
    rating that anybody gave. `group` names what belongs together (else `source`), `under_test` the group that says what
    made the image (else `model`, where there is one)."""

    scale: tuple[float, float] | None = None
    group: str | None = None
    under_test: str | None = None
    seed: int = 0


USUAL = Terms()


def task_of(
    scores: Scores, ratings: Ratings, raw: Column, terms: Terms = USUAL, besides: Besides = NOTHING_BESIDES
) -> Task:
    """What there is to learn an aspect from: the cases with both a rating and a number by the judge.

    Raises `UsageError` for an unknown group, and where there is too little to learn from.
    """
    rated = ratings.at(scores.cases)
    there = ~(np.isnan(rated.mean()) | np.isnan(raw.values))
    rows = np.flatnonzero(there)
    if len(rows) < LEAST_CASES:
        raise UsageError(
            f"Only {len(rows)} cases of {scores.name} have both a rating of {ratings.aspect!r} and the judge's number "
            f"for it ({raw.name}); a calibration needs {LEAST_CASES} at least."
        )
    groups = group_of(scores, terms.group)
    makers = group_of(scores, terms.under_test) if terms.under_test is not None else scores.groups.get(MAKER)
    values = rated.values[rows]
    low, high = terms.scale or (float(np.nanmin(values)), float(np.nanmax(values)))
    if not low < high or np.nanmin(values) < low or np.nanmax(values) > high:
        seen = f"{np.nanmin(values):g} to {np.nanmax(values):g}"
        raise UsageError(f"The ratings of {ratings.aspect!r} ({seen}) do not fit a scale from {low:g} to {high:g}.")
    if raw.scale is None:
        raise UsageError(f"The scale of {raw.name!r} is not known; say it with --scale {raw.name}=0..10.")
    return Task(
        ratings.aspect,
        tuple(scores.cases[row] for row in rows),
        features_of(scores, raw, besides).at(rows),
        Ratings(ratings.aspect, tuple(rated.cases[row] for row in rows), rated.raters, values),
        replace(raw, values=raw.values[rows]),
        (low, high),
        None if groups is None else tuple(groups[row] for row in rows),
        None if makers is None else tuple(makers[row] for row in rows),
        terms.seed,
    )


def fitted(task: Task, recipe: Recipe, rows: Bools | None = None) -> Fitted:
    """The map that a recipe makes of a task's cases, or of some of them."""
    features = task.features.only((task.raw.name,)) if recipe.raw_only else task.features
    which = np.ones(len(task.cases), np.bool_) if rows is None else rows
    part = features.at(which)
    found = _with_raw(usable(part), part, task.raw.name)
    assert task.raw.scale is not None
    lesson = Lesson(
        tuple(features.names[place] for place in found.places),
        found.filled(part.values),
        task.mean[which],
        task.numbers[which],
        found.places.index(features.names.index(task.raw.name)),
        task.raw.scale,
        task.scale,
        task.seed,
    )
    return Fitted(features.names, found, recipe.fit(lesson))


def _with_raw(found: Usable, features: Features, raw: str) -> Usable:
    """The judge's own number is always learned from, even where it is the same for all these cases."""
    place = features.names.index(raw)
    if place in found.places:
        return found
    at = sum(one < place for one in found.places)
    middle = float(np.median(features.values[:, place]))
    return Usable(
        (*found.places[:at], place, *found.places[at:]),
        (*found.medians[:at], middle, *found.medians[at:]),
        (*found.missing[:at], 0.0, *found.missing[at:]),
        {name: why for name, why in found.left_out.items() if name != raw},
    )


def out_of_fold(task: Task, recipe: Recipe, *folds: Ints, rows: Bools | None = None) -> Floats:
    """Each case by a map that saw none of its fold; where cases are divided in several ways (by photograph and by
    maker), none of any of its folds. nan where that leaves nothing to learn from, and for cases that are not among
    `rows`. Clipped to the human scale, as it is applied."""
    said = np.full(len(task.cases), np.nan)
    within = np.ones(len(task.cases), np.bool_) if rows is None else rows
    cell = crossed(*folds)
    for one in np.unique(cell[within]):
        out = within & (cell == one)
        first = int(out.argmax())
        seen = within & np.logical_and.reduce([fold != fold[first] for fold in folds])
        if seen.any():
            said[out] = task.clipped(fitted(task, recipe, seen).predict(task.features.at(out)))
    return said
