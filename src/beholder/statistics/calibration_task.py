"""The data of a calibration: features of cases, the task for one aspect, fitting, and predictions out of fold.

A feature's name says how to compute it again from a verdict: a criterion's key, `score` (`RUBRIC.KEY`, `RUBRIC.score`
with several rubrics), an assertion's id (`Anime/A1` with a style), `spread.KEY` of a jury, `measured.NAME` of a
verdict, combinations such as `min(a, b)`, `pixels.NAME` for an instrument on the images at 512 px, and `given.NAME` for
a column of a file.

`Provenance` records the run or files, judge, rubrics and styles that a calibration is for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from beholder.cases.case import PAIR_ROLES, Case, CaseSchema
from beholder.cases.files import read_rows
from beholder.errors import SetupError, UsageError
from beholder.images.image import ImageSource
from beholder.statistics.aspects import find_column, rescale
from beholder.statistics.bootstrap import ClusterBootstrap
from beholder.statistics.calibration_recipes import CalibrationRecipe, TrainingData, assign_folds, cross_folds
from beholder.statistics.data import Bools, Column, ColumnKind, Floats, Ints, Ratings, Scores, select_group
from beholder.verdicts.calibration import collect_numbers, look_up_number
from beholder.verdicts.calibration_maps import CalibrationMap, Combination, parse_combination

if TYPE_CHECKING:
    from beholder.ledger.ledger import Ledger


_T = TypeVar("_T")
_R = TypeVar("_R")

GIVEN_PREFIX = "given."
MAX_MISSING_SHARE = 0.5  # a feature that is missing in a larger share of the cases is left out

_COMBINED_WAYS = ("min", "mean")  # of criteria that answer an aspect together, the other way is a feature, too
_IGNORED_KINDS = frozenset({ColumnKind.PASSED})  # redundant with the score


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Feature values, cases × features; nan where missing."""

    names: tuple[str, ...]
    values: Floats

    def select(self, rows: Sequence[int] | Ints | Bools) -> Features:
        """Return these rows."""
        return Features(self.names, self.values[np.asarray(rows)])

    def by_name(self, names: tuple[str, ...]) -> Features:
        """Return the features of these names, in this order; all nan where one does not exist."""
        if names == self.names:
            return self
        place = {name: at for at, name in enumerate(self.names)}
        values = np.full((len(self.values), len(names)), np.nan)
        for at, name in enumerate(names):
            if name in place:
                values[:, at] = self.values[:, place[name]]
        return Features(names, values)

    def restrict(self, names: Collection[str]) -> Features:
        """Return the features with these names, in their present order."""
        places = [place for place, name in enumerate(self.names) if name in names]
        return Features(tuple(self.names[place] for place in places), self.values[:, places])


@dataclass(frozen=True, slots=True)
class UsableFeatures:
    """Features that can be learned from.

    Attributes:
        places: Their positions among all features.
        medians: Median of each, which replaces missing values.
        missing: Share of the cases in which each is missing.
        left_out: Why the others were left out, by name.
    """

    positions: tuple[int, ...]
    medians: tuple[float, ...]
    missing_shares: tuple[float, ...]
    left_out: Mapping[str, str]

    def fill_missing(self, values: Floats) -> Floats:
        """Return the usable features of cases, with missing values replaced by medians."""
        chosen = values[:, list(self.positions)]
        return np.where(np.isnan(chosen), np.array(self.medians), chosen)


def select_usable(features: Features) -> UsableFeatures:
    """Select the features that these cases allow to be learned from.

    A feature that more than half of the cases lack, or that is the same for all of them, is left out.
    """
    gaps = np.isnan(features.values)
    missing = gaps.mean(axis=0) if len(features.values) else np.ones(len(features.names))
    places, medians, left_out = [], [], {}
    for place, (name, share) in enumerate(zip(features.names, missing, strict=True)):
        known = features.values[~gaps[:, place], place]
        if share > MAX_MISSING_SHARE or not len(known):
            left_out[name] = f"missing in {share:.0%} of the cases"
        elif np.ptp(known) == 0:
            left_out[name] = "the same for all cases"
        else:
            places.append(place)
            medians.append(float(np.median(known)))
    return UsableFeatures(tuple(places), tuple(medians), tuple(float(missing[place]) for place in places), left_out)


@dataclass(frozen=True, slots=True, eq=False)
class ExtraFeatures:
    """Features besides the columns of the scores.

    Attributes:
        extra: Features by case and name.
        names: Use only features of these names; None for all.
        beside: Columns that answer other aspects.
    """

    by_case: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    names: Collection[str] | None = None
    other_columns: Sequence[Column] = ()


NO_EXTRA_FEATURES = ExtraFeatures()


def build_features(scores: Scores, raw: Column, extra_features: ExtraFeatures = NO_EXTRA_FEATURES) -> Features:
    """Return the features of all cases.

    Args:
        scores: The judge's scores.
        raw: The column that answers the aspect, which is always a feature. For `min(a, b)` the mean is added, and for
            the mean the minimum.
        extra_features: Further features.
    """
    columns = {column.name: column.values for column in scores.columns.values() if column.kind not in _IGNORED_KINDS}
    for column in (raw, *extra_features.other_columns):
        columns[column.name] = column.values
        combined = parse_combination(column.name)
        if combined is not None and column.name not in scores.columns and combined.how in _COMBINED_WAYS:
            for other in (other for other in _COMBINED_WAYS if other != combined.how):
                sister = find_column(str(Combination(other, combined.parts)), scores)
                columns[sister.name] = sister.values
    rows = [extra_features.by_case.get(case, {}) for case in scores.cases]
    for name in dict.fromkeys(name for row in rows for name in row):
        columns[name] = np.array([row.get(name, np.nan) for row in rows])
    chosen = [
        name for name in columns if extra_features.names is None or name in extra_features.names or name == raw.name
    ]
    return Features(tuple(chosen), np.column_stack([columns[name] for name in chosen]))


def read_features(path: Path) -> dict[str, dict[str, float]]:
    """Read features from a file with one row per case, CSV or JSONL.

    Args:
        path: A file with a column `case`; an empty cell is a missing value, and columns with other texts are ignored.

    Returns:
        By case, numbers by name `given.NAME`.

    Raises:
        UsageError: No column holds numbers.
    """
    rows: dict[str, Mapping[str, str]] = {}
    for row in read_rows(path, CaseSchema(roles=((),))):
        if row.case is None:
            raise UsageError(f"{row.location}: {'; '.join(row.problems)}.")
        rows[row.case.id] = row.case.groups
    names = dict.fromkeys(name for groups in rows.values() for name in groups)
    numbers = {
        name: {
            case: number for case, groups in rows.items() if (number := _parse_number(groups.get(name, ""))) is not None
        }
        for name in names
    }
    whole = [name for name, found in numbers.items() if found and not any(map(np.isinf, found.values()))]
    if not whole:
        raise UsageError(f"{str(path)!r} has no column of numbers; it should have a row for each case: case,NAME,…")
    return {
        case: {f"{GIVEN_PREFIX}{name}": numbers[name][case] for name in whole if case in numbers[name]} for case in rows
    }


def _parse_number(text: str) -> float | None:
    """Return the number in a cell; None where it is empty, infinity where it is not a finite number."""
    if not text.strip():
        return None
    try:
        value = float(text)
    except ValueError:
        return np.inf
    return value if np.isfinite(value) else np.inf


def measure_pixels(
    pairs: Mapping[str, tuple[ImageSource, ImageSource]],
    names: Collection[str] | None = None,
    *,
    workers: int | None = None,
    done: Callable[[int], None] | None = None,
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Measure pairs of images with instruments.

    Args:
        pairs: Image before and after, by case.
        names: Instruments or families; None for all instruments for pairs.
        workers: Number of processes; None for the number of cores, 0 to measure in this process.
        done: Called with the number of finished cases.

    Returns:
        Values by case and `pixels.NAME`, and the reason for each case that could not be measured.

    Raises:
        SetupError: A worker process was killed.
    """
    from concurrent.futures.process import BrokenProcessPool
    from functools import partial

    from beholder.instruments.human_ratings import measure_pixel_features

    work = partial(measure_pixel_features, names=None if names is None else tuple(names))
    features: dict[str, dict[str, float]] = {}
    failed: dict[str, str] = {}
    try:
        for case, (values, why) in zip(pairs, _map_in_processes(work, pairs.values(), workers), strict=True):
            if why:
                failed[case] = why
            else:
                features[case] = values
            if done is not None:
                done(len(features) + len(failed))
    except BrokenProcessPool:
        raise SetupError(
            f"A process that measured was ended from outside after {len(features) + len(failed)} of {len(pairs)} "
            "cases, most often for want of memory; run it again with more of it."
        ) from None
    return features, failed


def _map_in_processes(work: Callable[[_T], _R], items: Collection[_T], workers: int | None) -> Iterator[_R]:
    """Yield the result of each item; with 0 workers it is computed in this process."""
    if workers == 0:
        yield from map(work, items)
        return
    import os
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    count = workers or os.cpu_count() or 1
    with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_use_one_thread) as pool:
        yield from pool.map(work, items, chunksize=4)


def _use_one_thread() -> None:
    """Initialize a worker process: there is one per core, so that each uses one thread."""
    import cv2

    cv2.setNumThreads(1)


MIN_CASES = 10
MAX_MAKER_FOLDS = 30  # with more makers, several are left out at a time
MAX_CROSSED_MAKER_FOLDS = 10  # where folds of photographs are left out as well, which multiplies the maps to fit
MAKER_GROUP = "model"  # default group that names what made an image


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationTask:
    """One aspect to calibrate. Every case has a mean human rating and the judge's own number.

    Attributes:
        aspect: What people rated.
        cases: Case ids.
        features: Features of the cases.
        ratings: Ratings of the cases.
        raw: The judge's own number for the aspect.
        scale: The human scale.
        groups: Group of each case; None where there are no groups.
        makers: The model that made each image; None where that is not known.
        seed: Seed of folds and forests.
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
        """Mean human rating of each case."""
        return self.ratings.mean()

    @property
    def judge(self) -> Floats:
        """The judge's own number, mapped linearly onto the human scale."""
        return rescale(self.raw, self.scale).values

    @property
    def group_index(self) -> Ints:
        """Group of each case, numbered from 0."""
        return ClusterBootstrap(self.groups, len(self.cases)).group_index

    def maker_folds(self, most: int = MAX_MAKER_FOLDS) -> Ints:
        """Return folds by maker: one fold each, at most `most` folds; a case of unknown maker is a maker of its own."""
        return assign_folds(ClusterBootstrap(self.makers, len(self.cases)).group_index, most, self.seed)

    def clip(self, predictions: Floats) -> Floats:
        return np.clip(predictions, *self.scale)


@dataclass(frozen=True, slots=True, eq=False)
class FittedMap:
    """A fitted map with the features that it takes.

    Attributes:
        names: Names of all features, in order.
        usable: Which of them the map uses, and how missing values are replaced.
        map: The map.
    """

    names: tuple[str, ...]
    usable: UsableFeatures
    map: CalibrationMap

    def predict(self, features: Features) -> Floats:
        """Return unclipped ratings; features are looked up by name, and missing ones are replaced by medians."""
        return self.map.predict(self.usable.fill_missing(features.by_name(self.names).values))


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """Options of a calibration task.

    Attributes:
        scale: The human scale; None for the range of the ratings.
        group: The group that is never split between folds; None for `source`.
        under_test: The group that names what made the image; None for `model`, where there is one.
        seed: Seed of folds and forests.
    """

    scale: tuple[float, float] | None = None
    group: str | None = None
    under_test: str | None = None
    seed: int = 0


DEFAULT_TASK_OPTIONS = TaskOptions()


def build_task(
    scores: Scores,
    ratings: Ratings,
    raw: Column,
    options: TaskOptions = DEFAULT_TASK_OPTIONS,
    extra_features: ExtraFeatures = NO_EXTRA_FEATURES,
) -> CalibrationTask:
    """Build the task of one aspect from the cases with both a rating and the judge's number.

    Args:
        scores: The judge's scores.
        ratings: Ratings of the aspect.
        raw: The column that answers it.
        options: Scale, groups and seed.
        extra_features: Further features.

    Raises:
        UsageError: A group is unknown, there are fewer than `MIN_CASES` cases, the ratings do not fit the scale, or the
            judge's scale is not known.
    """
    rated = ratings.for_cases(scores.cases)
    rated_and_scored = ~(np.isnan(rated.mean()) | np.isnan(raw.values))
    rows = np.flatnonzero(rated_and_scored)
    if len(rows) < MIN_CASES:
        raise UsageError(
            f"Only {len(rows)} cases of {scores.name} have both a rating of {ratings.aspect!r} and the judge's number "
            f"for it ({raw.name}); a calibration needs {MIN_CASES} at least."
        )
    groups = select_group(scores, options.group)
    makers = (
        select_group(scores, options.under_test) if options.under_test is not None else scores.groups.get(MAKER_GROUP)
    )
    values = rated.values[rows]
    low, high = options.scale or (float(np.nanmin(values)), float(np.nanmax(values)))
    if not low < high or np.nanmin(values) < low or np.nanmax(values) > high:
        seen = f"{np.nanmin(values):g} to {np.nanmax(values):g}"
        raise UsageError(f"The ratings of {ratings.aspect!r} ({seen}) do not fit a scale from {low:g} to {high:g}.")
    if raw.scale is None:
        raise UsageError(f"The scale of {raw.name!r} is not known; say it with --scale {raw.name}=0..10.")
    return CalibrationTask(
        ratings.aspect,
        tuple(scores.cases[row] for row in rows),
        build_features(scores, raw, extra_features).select(rows),
        Ratings(ratings.aspect, tuple(rated.cases[row] for row in rows), rated.raters, values),
        replace(raw, values=raw.values[rows]),
        (low, high),
        None if groups is None else tuple(groups[row] for row in rows),
        None if makers is None else tuple(makers[row] for row in rows),
        options.seed,
    )


def fit_map(task: CalibrationTask, recipe: CalibrationRecipe, rows: Bools | None = None) -> FittedMap:
    """Fit a recipe to a task's cases, or to some of them."""
    features = task.features.restrict((task.raw.name,)) if recipe.raw_only else task.features
    which = np.ones(len(task.cases), np.bool_) if rows is None else rows
    part = features.select(which)
    usable = _keep_raw(select_usable(part), part, task.raw.name)
    assert task.raw.scale is not None
    lesson = TrainingData(
        tuple(features.names[place] for place in usable.positions),
        usable.fill_missing(part.values),
        task.mean[which],
        task.group_index[which],
        usable.positions.index(features.names.index(task.raw.name)),
        task.raw.scale,
        task.scale,
        task.seed,
    )
    return FittedMap(features.names, usable, recipe.fit(lesson))


def _keep_raw(usable: UsableFeatures, features: Features, raw: str) -> UsableFeatures:
    """Return the usable features with the judge's own number among them, even where it is the same for all cases."""
    place = features.names.index(raw)
    if place in usable.positions:
        return usable
    at = sum(position < place for position in usable.positions)
    middle = float(np.median(features.values[:, place]))
    return UsableFeatures(
        (*usable.positions[:at], place, *usable.positions[at:]),
        (*usable.medians[:at], middle, *usable.medians[at:]),
        (*usable.missing_shares[:at], 0.0, *usable.missing_shares[at:]),
        {name: why for name, why in usable.left_out.items() if name != raw},
    )


def predict_out_of_fold(
    task: CalibrationTask, recipe: CalibrationRecipe, *folds: Ints, rows: Bools | None = None
) -> Floats:
    """Predict each case by a map that was fitted without its fold.

    Args:
        task: The task.
        recipe: How maps are fitted.
        folds: One or more divisions of the cases (by photograph, by maker); a map sees none of any fold of the case.
        rows: Use only these cases.

    Returns:
        Predictions clipped to the human scale; nan for cases not in `rows`, and where nothing is left to learn from.
    """
    predictions = np.full(len(task.cases), np.nan)
    within = np.ones(len(task.cases), np.bool_) if rows is None else rows
    cell = cross_folds(*folds)
    for number in np.unique(cell[within]):
        out = within & (cell == number)
        first = int(out.argmax())
        seen = within & np.logical_and.reduce([fold != fold[first] for fold in folds])
        if seen.any():
            predictions[out] = task.clip(fit_map(task, recipe, seen).predict(task.features.select(out)))
    return predictions


@dataclass(frozen=True, slots=True, eq=False)
class Provenance:
    """Where a calibration comes from.

    Attributes:
        source: The run or files, for people.
        judges: Judges it may be applied to.
        rubrics: Versions of the rubrics it may be applied to, by name; empty where a file does not name them.
        names: By rubric, the names of the numbers in its verdicts.
        prompt: SHA-256 of the run's own prompt; empty for the standard one.
        cases: Cases whose images are known.
        styles: Styles it may be applied to; an empty name for verdicts without a style.
    """

    source: str
    judges: tuple[str, ...]
    rubrics: Mapping[str, str] = field(default_factory=dict)
    number_names: Mapping[str, frozenset[str]] = field(default_factory=dict)
    prompt: str = ""
    cases: tuple[Case, ...] = ()
    styles: tuple[str, ...] = ()

    def names_for(self, raw: str) -> frozenset[str] | None:
        """Return the names of the numbers that the rubric with the number `raw` gives, where there are several rubrics.

        A verdict is calibrated by itself and has no numbers of another rubric. None where there is only one rubric.
        """
        if len(self.number_names) < 2:
            return None
        own_names = [
            names for names in self.number_names.values() if look_up_number(raw, dict.fromkeys(names, 0.0)) is not None
        ]
        return own_names[0] if own_names else None

    def column_aliases(self, scores: Scores) -> ColumnAliases:
        """Return the names of the scores' columns in a calibration file.

        Scores of one style name its assertions by id alone, but `A1` of another style is another question: in the file
        it is `Anime/A1`.
        """
        style = self.styles[0] if len(self.styles) == 1 else ""
        plain = [column.name for column in scores.columns.values() if column.kind is ColumnKind.ASSERTION]
        return ColumnAliases({name: f"{style}/{name}" for name in plain} if style else {})

    def to_dict(self) -> dict[str, object]:
        """Return the object `made` of a calibration file."""
        from beholder import __version__

        return {
            "by": f"beholder {__version__}",
            "on": datetime.now(UTC).date().isoformat(),
            "from": self.source,
            "judges": list(self.judges),
            "rubrics": dict(self.rubrics),
            "styles": [style for style in self.styles if style],
            "prompt": self.prompt or None,
        }


@dataclass(frozen=True, slots=True)
class ColumnAliases:
    """Other names for columns, by their own names."""

    names: Mapping[str, str]

    def rename(self, column: Column) -> Column:
        """Return the column, which may be a combination of others, under its other name."""
        combined = parse_combination(column.name)
        if column.name in self.names or combined is None:
            return replace(column, name=self.names.get(column.name, column.name))
        parts = tuple(self.names.get(part, part) for part in combined.parts)
        return replace(column, name=str(Combination(combined.how, parts)))

    def rename_all(self, scores: Scores) -> Scores:
        return replace(scores, columns={column.name: column for column in map(self.rename, scores.columns.values())})


def load_run_provenance(ledger: Ledger, run: str) -> Provenance:
    """Return the provenance of a run in the ledger, in one pass over its verdicts."""
    record = ledger.run(run)
    judges: dict[str, None] = {}
    rubrics: dict[str, str] = {}
    names: dict[str, set[str]] = {}
    styles: dict[str, None] = {}
    for stored in ledger.stored_verdicts(record.id):
        verdict = stored.verdict
        judges[verdict.judge] = None
        rubrics[verdict.rubric] = verdict.rubric_version
        styles[verdict.style or ""] = None
        names.setdefault(verdict.rubric, set()).update(collect_numbers([verdict]))
    prompt = hashlib.sha256(record.prompt.encode("utf-8", "surrogatepass")).hexdigest() if record.prompt else ""
    return Provenance(
        f"run {record.id} ({record.name})",
        tuple(judges),
        rubrics,
        {rubric: frozenset(found) for rubric, found in names.items()},
        prompt,
        tuple(ledger.cases(record.id)),
        tuple(styles),
    )


def read_file_provenance(scores: Scores, files: Sequence[Path], cases: Path | None) -> Provenance:
    """Return the provenance of plain files.

    Verdicts name their judge and rubric themselves; of a table, the judge is the name of the scores.

    Args:
        scores: The scores that were read.
        files: The files they were read from.
        cases: A case file that names the images, relative to it.
    """
    judges: dict[str, None] = {}
    rubrics: dict[str, str] = {}
    styles: dict[str, None] = {}
    for file in files:
        if file.suffix.lower() in (".jsonl", ".ndjson"):
            for judge, rubric, version, style in _read_verdict_labels(file):
                if scores.name in (judge, f"{judge} ({file.name})"):  # a file may hold other judges' verdicts too
                    judges[judge], rubrics[rubric], styles[style] = None, version, None
    rows = read_rows(cases, CaseSchema(roles=(*PAIR_ROLES, ()))) if cases is not None else ()
    known = tuple(row.case for row in rows if row.case is not None and len(row.case.images) == 2)
    source = ", ".join(file.name for file in files)
    return Provenance(source, tuple(judges) or (scores.name,), rubrics, cases=known, styles=tuple(styles))


def _read_verdict_labels(file: Path) -> list[tuple[str, str, str, str]]:
    """Return judge, rubric, version and style of each verdict in a file; lines that are not verdicts are skipped."""
    labels = []
    with file.open(encoding="utf-8-sig") as lines:
        for line in lines:
            try:
                values = json.loads(line)
            except ValueError:
                continue
            if isinstance(values, dict) and "criteria" in values:
                texts = [str(values.get(name) or "") for name in ("judge", "rubric", "rubric_version", "style")]
                labels.append((texts[0], texts[1], texts[2], texts[3]))
    return labels
