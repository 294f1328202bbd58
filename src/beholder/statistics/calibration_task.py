"""The data of a calibration: the task for one aspect, fitting, and where the data comes from.

`Provenance` records the run or files, judge, rubrics and styles that a calibration is for.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from beholder.cases.case import PAIR_ROLES, Case, CaseSchema
from beholder.cases.files import read_rows
from beholder.errors import UsageError
from beholder.statistics.aspects import (
    Scale,
    describe_matches,
    infer_scales_by_aspect,
    match_aspects,
    rescale,
)
from beholder.statistics.bootstrap import number_groups
from beholder.statistics.calibration_features import (
    NO_EXTRA_FEATURES,
    ExtraFeatures,
    Features,
    FeatureValues,
    UsableFeatures,
    build_features,
    select_usable,
)
from beholder.statistics.calibration_recipes import CalibrationRecipe, TrainingData, assign_folds
from beholder.statistics.data import Bools, Column, ColumnKind, Floats, Ints, Ratings, Scores, select_group
from beholder.verdicts.calibration import collect_numbers, look_up_number
from beholder.verdicts.calibration_maps import CalibrationMap, Combination, parse_combination

if TYPE_CHECKING:
    from beholder.ledger.ledger import Ledger


MIN_CASES = 10
MAX_MAKER_FOLDS = 30  # with more makers, several are left out at a time
MAX_CROSSED_MAKER_FOLDS = 10  # where folds of photographs are left out as well, which multiplies the maps to fit
MAKER_GROUP = "model"  # default group that names what made an image


@dataclass(frozen=True, eq=False)  # no slots, for the cached properties
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

    @cached_property
    def mean(self) -> Floats:
        """Mean human rating of each case."""
        return self.ratings.mean()

    @property
    def judge(self) -> Floats:
        """The judge's own number, mapped linearly onto the human scale."""
        return rescale(self.raw, self.scale).values

    @cached_property
    def group_index(self) -> Ints:
        """Group of each case, numbered from 0."""
        return number_groups(self.groups, len(self.cases))

    def maker_folds(self, most: int = MAX_MAKER_FOLDS) -> Ints:
        """Return folds by maker: one fold each, at most `most` folds; a case of unknown maker is a maker of its own."""
        return assign_folds(number_groups(self.makers, len(self.cases)), most, self.seed)

    def select(self, rows: Bools) -> CalibrationTask:
        """Return some of the cases."""
        keep = np.flatnonzero(rows).tolist()

        def pick(values: tuple[str, ...] | None) -> tuple[str, ...] | None:
            return None if values is None else tuple(values[row] for row in keep)

        return replace(
            self,
            cases=tuple(self.cases[row] for row in keep),
            features=self.features.select(keep),
            ratings=self.ratings.for_cases([self.cases[row] for row in keep]),
            raw=replace(self.raw, values=self.raw.values[keep]),
            groups=pick(self.groups),
            makers=pick(self.makers),
        )

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
        raise UsageError(
            f"The scale of {raw.name!r} is not known; give it, such as {raw.name}=0..10 (--scale or scale=)."
        )
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
    features = task.features.by_name((task.raw.name,)) if recipe.raw_only else task.features
    which = np.ones(len(task.cases), np.bool_) if rows is None else rows
    part = features.select(which)
    usable = select_usable(part, keep=task.raw.name)
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

    Verdicts name their rubric themselves.

    Args:
        scores: The scores that were read.
        files: The files they were read from.
        cases: A case file that names the images, relative to it.
    """
    rubrics: dict[str, str] = {}
    styles: dict[str, None] = {}
    if scores.file is not None and scores.file.suffix.lower() in (".jsonl", ".ndjson"):
        for judge, rubric, version, style in _read_verdict_labels(scores.file):
            if judge == scores.judge:  # a file may hold other judges' verdicts too
                rubrics[rubric], styles[style] = version, None
    known = () if cases is None else read_image_cases(cases)
    source = ", ".join(file.name for file in files)
    return Provenance(source, (scores.judge or scores.name,), rubrics, cases=known, styles=tuple(styles))


def read_image_cases(path: Path) -> tuple[Case, ...]:
    """Return the cases of a case file that have two images to compare."""
    rows = read_rows(path, CaseSchema(roles=(*PAIR_ROLES, ())))
    return tuple(row.case for row in rows if row.case is not None and len(row.case.images) == 2)


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


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationData:
    """What a calibration is learned from.

    Attributes:
        people: Ratings by aspect.
        judged: Scores of the judge.
        provenance: Where the scores come from.
        extra: Further features by case and name.
    """

    people: Mapping[str, Ratings]
    judged: Scores
    provenance: Provenance
    extra: FeatureValues = field(default_factory=dict)

    @property
    def rated_cases(self) -> tuple[Case, ...]:
        """Cases whose images are known, and that have both ratings and scores."""
        rated = {case for ratings in self.people.values() for case in ratings.cases} & set(self.judged.cases)
        return tuple(case for case in self.provenance.cases if case.id in rated)

    @property
    def rubric_scales(self) -> dict[str, Scale]:
        """The scales of the rubric for the rated aspects: reviewers of the run rated on them."""
        columns = self.judged.columns.items()
        return {name: column.scale for name, column in columns if column.scale is not None and name in self.people}


def build_tasks(
    data: CalibrationData,
    pairs: Sequence[str],
    scales: Mapping[str, Scale],
    rating_scales: Mapping[str, Scale],
    options: TaskOptions = DEFAULT_TASK_OPTIONS,
) -> tuple[list[CalibrationTask], list[str]]:
    """Build the task of each rated aspect that a column of the judge answers.

    Args:
        data: Ratings and scores.
        pairs: Pairs `ASPECT=CRITERION`; those for aspects that are not in the data are ignored.
        scales: Given scales of the judge by aspect, `""` for all aspects.
        rating_scales: Given scales of the people, likewise.
        options: Groups and seed; the scale is set for each aspect.

    Returns:
        The tasks, and sentences on what was inferred.

    Raises:
        UsageError: As `match_aspects`, `infer_scales_by_aspect` and `build_task`.
    """
    people = data.people
    pairs = [pair for pair in pairs if pair.partition("=")[0].strip() in people]
    columns = match_aspects(people, data.judged, pairs)
    notes = describe_matches(columns, people, pairs)
    inferred = infer_scales_by_aspect(columns, people, scales, rating_scales)
    aliases = data.provenance.column_aliases(data.judged)
    judged = aliases.rename_all(data.judged)
    columns = {aspect: aliases.rename(column) for aspect, column in columns.items()}
    further = {name for values in data.extra.values() for name in values}
    tasks = []
    for aspect, column in columns.items():
        judge_scale, people_scale = inferred[aspect]
        names = data.provenance.names_for(column.name)
        tasks.append(
            build_task(
                judged,
                people[aspect],
                replace(column, scale=judge_scale),
                replace(options, scale=people_scale),
                ExtraFeatures(data.extra, None if names is None else names | further),
            )
        )
    return tasks, notes
