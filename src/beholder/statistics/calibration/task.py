"""One aspect to be calibrated: cases that people rated and a judge gave a number to, and honest predictions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.calibration.features import Features, Usable, features_of, usable
from beholder.statistics.calibration.folding import folds_of, numbered
from beholder.statistics.calibration.lesson import Lesson, Recipe
from beholder.statistics.data import Bools, Column, Floats, Ints, Ratings, Scores
from beholder.statistics.mapping import on_scale
from beholder.statistics.reading import group_of
from beholder.verdicts.maps import Map

LEAST_CASES = 10
MOST_LEFT_OUT = 30  # makers: more are left out some at a time
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
        return numbered(self.groups, len(self.cases))

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


def task_of(
    scores: Scores,
    ratings: Ratings,
    raw: Column,
    *,
    scale: tuple[float, float] | None = None,
    group: str | None = None,
    under_test: str | None = None,
    extra: Mapping[str, Mapping[str, float]] | None = None,
    names: Collection[str] | None = None,
    beside: Iterable[Column] = (),
    seed: int = 0,
) -> Task:
    """What there is to learn an aspect from: the cases with both a rating and a number by the judge.

    `scale` is the human scale, unless given from the least to the greatest rating that anybody gave. `group` names what
    belongs together (else `source`), `under_test` the group that says what made the image (else `model`, where there
    is one). For `extra`, `names` and `beside` see `features_of`. Raises `UsageError` for an unknown group, and where
    there is too little to learn from.
    """
    rated = ratings.at(scores.cases)
    there = ~(np.isnan(rated.mean()) | np.isnan(raw.values))
    rows = np.flatnonzero(there)
    if len(rows) < LEAST_CASES:
        raise UsageError(
            f"Only {len(rows)} cases of {scores.name} have both a rating of {ratings.aspect!r} and the judge's number "
            f"for it ({raw.name}); a calibration needs {LEAST_CASES} at least."
        )
    groups = group_of(scores, group)
    makers = group_of(scores, under_test) if under_test is not None else scores.groups.get(MAKER)
    values = rated.values[rows]
    low, high = scale or (float(np.nanmin(values)), float(np.nanmax(values)))
    if not low < high or np.nanmin(values) < low or np.nanmax(values) > high:
        seen = f"{np.nanmin(values):g} to {np.nanmax(values):g}"
        raise UsageError(f"The ratings of {ratings.aspect!r} ({seen}) do not fit a scale from {low:g} to {high:g}.")
    if raw.scale is None:
        raise UsageError(f"The scale of {raw.name!r} is not known; say it with --scale {raw.name}=0..10.")
    return Task(
        ratings.aspect,
        tuple(scores.cases[row] for row in rows),
        features_of(scores, raw, extra, names, beside).at(rows),
        Ratings(ratings.aspect, tuple(rated.cases[row] for row in rows), rated.raters, values),
        replace(raw, values=raw.values[rows]),
        (low, high),
        None if groups is None else tuple(groups[row] for row in rows),
        None if makers is None else tuple(makers[row] for row in rows),
        seed,
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


def out_of_fold(task: Task, recipe: Recipe, fold: Ints, rows: Bools | None = None) -> Floats:
    """Each case by a map that saw none of its fold; nan for cases of a fold that is everything, and for those that are
    not among `rows`. Clipped to the human scale, as it is applied."""
    said = np.full(len(task.cases), np.nan)
    within = np.ones(len(task.cases), np.bool_) if rows is None else rows
    for one in np.unique(fold[within]):
        out = within & (fold == one)
        seen = within & (fold != one)
        if seen.any():
            said[out] = task.clipped(fitted(task, recipe, seen).predict(task.features.at(out)))
    return said


def leaving_out(task: Task, recipe: Recipe, names: Sequence[str]) -> Floats:
    """Each case by a map of the cases with another name: of other makers, or of other sources."""
    return out_of_fold(task, recipe, folds_of(numbered(names, len(task.cases)), MOST_LEFT_OUT, task.seed))
