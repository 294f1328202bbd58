"""What a calibration learns from: all that a judge said of a case, and what was measured of it, as a matrix.

A feature's name says what it is, so that it can be computed again from a verdict: a criterion's key, `score` (where
several rubrics have one `RUBRIC.KEY`, `RUBRIC.score`), an assertion's id (with its style, `Anime/A1`, if it has one),
`spread.KEY` of a jury, `measured.NAME` of a verdict, `min(a, b)` and so on of criteria, `pixels.NAME` for an instrument
on the images at 512 px, `given.NAME` for a column of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from beholder.cases import ImageSource
from beholder.cases.reading import Shape, read_rows
from beholder.errors import SetupError, UsageError
from beholder.statistics.data import Bools, Column, Floats, Ints, Kind, Scores
from beholder.statistics.mapping import answering
from beholder.verdicts.combinations import Combination, combination

GIVEN = "given."
MOST_MISSING = 0.5  # of the cases that a map is fitted on: a feature that more of them lack is left out

_COMBINED = ("min", "mean")  # of the criteria that answer an aspect together: the one that was not chosen stands beside
_LEFT = frozenset({Kind.PASSED})  # says nothing that the score does not


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Cases × features; a missing value is nan."""

    names: tuple[str, ...]
    values: Floats

    def at(self, rows: Sequence[int] | Ints | Bools) -> Features:
        return Features(self.names, self.values[np.asarray(rows)])

    def named(self, names: tuple[str, ...]) -> Features:
        """The features of these names, in this order; one that is not there is missing for every case."""
        if names == self.names:
            return self
        place = {name: at for at, name in enumerate(self.names)}
        values = np.full((len(self.values), len(names)), np.nan)
        for at, name in enumerate(names):
            if name in place:
                values[:, at] = self.values[:, place[name]]
        return Features(names, values)

    def only(self, names: Collection[str]) -> Features:
        """These of them, in the order they stand in."""
        places = [place for place, name in enumerate(self.names) if name in names]
        return Features(tuple(self.names[place] for place in places), self.values[:, places])


@dataclass(frozen=True, slots=True)
class Usable:
    """Which features can be learned from (their places), the median of each, the share of cases that lack it, and why
    the others were left out, by name."""

    places: tuple[int, ...]
    medians: tuple[float, ...]
    missing: tuple[float, ...]
    left_out: Mapping[str, str]

    def filled(self, values: Floats) -> Floats:
        """These features of cases, a missing value as the median."""
        chosen = values[:, list(self.places)]
        return np.where(np.isnan(chosen), np.array(self.medians), chosen)


def usable(features: Features) -> Usable:
    """What these cases allow to be learned from: a feature that more than half of them lack, and one that is the same
    for all of them, is left out."""
    gaps = np.isnan(features.values)
    missing = gaps.mean(axis=0) if len(features.values) else np.ones(len(features.names))
    places, medians, left_out = [], [], {}
    for place, (name, share) in enumerate(zip(features.names, missing, strict=True)):
        known = features.values[~gaps[:, place], place]
        if share > MOST_MISSING or not len(known):
            left_out[name] = f"missing in {share:.0%} of the cases"
        elif np.ptp(known) == 0:
            left_out[name] = "the same for all cases"
        else:
            places.append(place)
            medians.append(float(np.median(known)))
    return Usable(tuple(places), tuple(medians), tuple(float(missing[place]) for place in places), left_out)


@dataclass(frozen=True, slots=True, eq=False)
class Besides:
    """What is learned from besides the columns of the scores: `extra` are features by case and name, `beside` the
    columns that answer other aspects. With `names` only features of these names are taken."""

    extra: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    names: Collection[str] | None = None
    beside: Sequence[Column] = ()


NOTHING_BESIDES = Besides()


def features_of(scores: Scores, raw: Column, besides: Besides = NOTHING_BESIDES) -> Features:
    """Everything that is known of the cases; `raw` (the column that answers the aspect) is always among it, under its
    name. Of `min(a, b)` there is the mean as well, and the other way round."""
    columns = {one.name: one.values for one in scores.columns.values() if one.kind not in _LEFT}
    for column in (raw, *besides.beside):
        columns[column.name] = column.values
        combined = combination(column.name)
        if combined is not None and column.name not in scores.columns and combined.how in _COMBINED:
            for other in (other for other in _COMBINED if other != combined.how):
                sister = answering(str(Combination(other, combined.parts)), scores)
                columns[sister.name] = sister.values
    rows = [besides.extra.get(case, {}) for case in scores.cases]
    for name in dict.fromkeys(name for row in rows for name in row):
        columns[name] = np.array([row.get(name, np.nan) for row in rows])
    chosen = [name for name in columns if besides.names is None or name in besides.names or name == raw.name]
    return Features(tuple(chosen), np.column_stack([columns[name] for name in chosen]))


def read_features(path: Path) -> dict[str, dict[str, float]]:
    """Features of a file with a row for each case, CSV or JSONL: by case, its numbers as `given.NAME`.

    An empty cell is a missing value. A column with anything but numbers is no feature; raises `UsageError` where none
    is one.
    """
    rows: dict[str, Mapping[str, str]] = {}
    for row in read_rows(path, Shape(roles=((),))):
        if row.case is None:
            raise UsageError(f"{row.place}: {'; '.join(row.problems)}.")
        rows[row.case.id] = row.case.groups
    names = dict.fromkeys(name for groups in rows.values() for name in groups)
    numbers = {
        name: {case: number for case, groups in rows.items() if (number := _number(groups.get(name, ""))) is not None}
        for name in names
    }
    whole = [name for name, found in numbers.items() if found and not any(np.isinf(one) for one in found.values())]
    if not whole:
        raise UsageError(f"{str(path)!r} has no column of numbers; it should have a row for each case: case,NAME,…")
    return {case: {f"{GIVEN}{name}": numbers[name][case] for name in whole if case in numbers[name]} for case in rows}


def _number(text: str) -> float | None:
    """The number that stands there; None where nothing does; infinity for what is no number."""
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        return np.inf
    return value if np.isfinite(value) else np.inf


def measured_pixels(
    pairs: Mapping[str, tuple[ImageSource, ImageSource]],
    names: Collection[str] | None = None,
    *,
    workers: int | None = None,
    done: Callable[[int], None] | None = None,
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """What the instruments say of pairs of images, by case, as `pixels.NAME`; and why a case could not be measured.

    `names` are instruments or families, all for pairs unless given. It is done in `workers` processes, as many as
    there are cores unless said (0: here); `done` is told how many are ready. Raises `SetupError` where a process did
    not live to the end.
    """
    import os
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from functools import partial
    from multiprocessing import get_context

    from beholder.instruments.pixels import pixels_of

    wanted = None if names is None else tuple(names)
    work = partial(pixels_of, names=wanted)
    found: dict[str, dict[str, float]] = {}
    failed: dict[str, str] = {}

    def take(case: str, result: tuple[dict[str, float], str]) -> None:
        values, why = result
        if why:
            failed[case] = why
        else:
            found[case] = values
        if done is not None:
            done(len(found) + len(failed))

    count = (os.cpu_count() or 1) if workers is None else workers
    if not count:
        for case, pair in pairs.items():
            take(case, work(pair))
        return found, failed
    try:
        with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_alone) as pool:
            for case, result in zip(pairs, pool.map(work, pairs.values(), chunksize=4), strict=True):
                take(case, result)
    except BrokenProcessPool:
        raise SetupError(
            f"A process that measured was ended from outside after {len(found) + len(failed)} of {len(pairs)} cases, "
            "most often for want of memory; run it again with more of it."
        ) from None
    return found, failed


def _alone() -> None:
    """At the start of a process that measures: there are as many of them as cores, so that each takes one."""
    import cv2

    cv2.setNumThreads(1)
