"""Features that a calibration learns from: numbers of verdicts, measurements of images, columns of a file.

A feature's name says how to compute it again from a verdict: a criterion's key, `score` (`RUBRIC.KEY`, `RUBRIC.score`
with several rubrics), an assertion's id (`Anime/A1` with a style), `spread.KEY` of a jury, `measured.NAME` of a
verdict, combinations such as `min(a, b)`, `pixels.NAME` for an instrument on the images at 512 px, `juror.JUDGE.NAME`
for what another judge said, and `given.NAME` for a column of a file.

`CalibrationApplier` applies a calibration to the verdicts of a run, with the features that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from beholder.cases.case import Case, CaseSchema, find_pair
from beholder.cases.files import read_rows
from beholder.errors import SetupError, UsageError
from beholder.images.image import ImageSource
from beholder.statistics.aspects import find_column
from beholder.statistics.data import Bools, Column, ColumnKind, Floats, Ints, Scores, contains_verdicts, read_scores
from beholder.verdicts.calibration import (
    GIVEN_PREFIX,
    JUROR_PREFIX,
    Calibration,
    apply_calibration,
    juror_name,
    load_calibration,
)
from beholder.verdicts.calibration_maps import Combination, parse_combination
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import RunRecord, StoredVerdict


_T = TypeVar("_T")
_R = TypeVar("_R")

FeatureValues = dict[str, dict[str, float]]
"""Features by case and name."""
Progress = Callable[[str, int, int], None]
"""Called with what is being done, and how much of how much is finished."""

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


@dataclass(frozen=True, slots=True)
class UsableFeatures:
    """Features that can be learned from.

    Attributes:
        positions: Their positions among all features.
        medians: Median of each, which replaces missing values.
        missing_shares: Share of the cases in which each is missing.
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


def select_usable(features: Features, keep: str = "") -> UsableFeatures:
    """Select the features that these cases allow to be learned from.

    A feature that more than half of the cases lack, or that is the same for all of them, is left out; the one called
    `keep` is not, even if it is the same for all.
    """
    gaps = np.isnan(features.values)
    missing = gaps.mean(axis=0) if len(features.values) else np.ones(len(features.names))
    places, medians, left_out = [], [], {}
    for place, (name, share) in enumerate(zip(features.names, missing, strict=True)):
        known = features.values[~gaps[:, place], place]
        if share > MAX_MISSING_SHARE or not len(known):
            left_out[name] = f"missing in {share:.0%} of the cases"
        elif np.ptp(known) == 0 and name != keep:
            left_out[name] = "the same for all cases"
        else:
            places.append(place)
            medians.append(float(np.median(known)))
    return UsableFeatures(tuple(places), tuple(medians), tuple(float(missing[place]) for place in places), left_out)


@dataclass(frozen=True, slots=True, eq=False)
class ExtraFeatures:
    """Features besides the columns of the scores.

    Attributes:
        by_case: Features by case and name.
        names: Use only features of these names; None for all.
    """

    by_case: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    names: Collection[str] | None = None


NO_EXTRA_FEATURES = ExtraFeatures()


def build_features(scores: Scores, raw: Column, extra_features: ExtraFeatures = NO_EXTRA_FEATURES) -> Features:
    """Return the features of all cases.

    Args:
        scores: The judge's scores.
        raw: The column that answers the aspect, which is always a feature. For `min(a, b)` the mean is added, and for
            the mean the minimum. Those of other aspects are not: they tell nothing that a and b do not, and cost ρ 0.02
            (0.00 to 0.05) for `SC` on ImagenHub, with one judge as with two.
        extra_features: Further features.
    """
    columns = {column.name: column.values for column in scores.columns.values() if column.kind not in _IGNORED_KINDS}
    columns[raw.name] = raw.values
    combined = parse_combination(raw.name)
    if combined is not None and raw.name not in scores.columns and combined.how in _COMBINED_WAYS:
        for other in (other for other in _COMBINED_WAYS if other != combined.how):
            sister = find_column(str(Combination(other, combined.parts)), scores)
            columns[sister.name] = sister.values
    rows = [extra_features.by_case.get(case, {}) for case in scores.cases]
    for name in dict.fromkeys(name for row in rows for name in row):
        columns[name] = np.array([row.get(name, np.nan) for row in rows])
    if combined is not None:
        columns |= _combine_jurors(columns, combined)
    allowed = extra_features.names
    chosen = [name for name in columns if allowed is None or name in allowed or name == raw.name or "(juror." in name]
    return Features(tuple(chosen), np.column_stack([columns[name] for name in chosen]))


def _combine_jurors(columns: Mapping[str, Floats], combined: Combination) -> dict[str, Floats]:
    """Return for each further judge the combinations of its numbers that answer the aspect for the main judge."""
    found: dict[str, Floats] = {}
    for name in columns:
        prefix = name.removesuffix(combined.parts[0])
        parts = [prefix + part for part in combined.parts]
        if name.startswith(JUROR_PREFIX) and prefix != name and all(part in columns for part in parts):
            for how in _COMBINED_WAYS:
                combination = Combination(how, tuple(parts))
                found[str(combination)] = combination.combine([columns[part] for part in parts])
    return found


_SAID_KINDS = (ColumnKind.CRITERION, ColumnKind.OVERALL, ColumnKind.ASSERTION)


def list_juror_features(scores: Scores, judge: str) -> FeatureValues:
    """Return what a further judge said as features by case, under `juror.JUDGE.NAME`."""
    columns = {juror_name(judge, one.name): one.values for one in scores.columns.values() if one.kind in _SAID_KINDS}
    return {
        case: {name: float(values[row]) for name, values in columns.items() if not np.isnan(values[row])}
        for row, case in enumerate(scores.cases)
    }


def read_features(path: Path) -> dict[str, dict[str, float]]:
    """Read features from a file with one row per case, CSV or JSONL; or from verdicts of further judges.

    Args:
        path: A file with a column `case`; an empty cell is a missing value, and columns with other texts are ignored.
            Or verdicts as JSON lines.

    Returns:
        By case, numbers by name: `given.NAME`, or `juror.JUDGE.NAME`.

    Raises:
        UsageError: No column holds numbers.
    """
    if path.suffix.lower() in (".jsonl", ".ndjson") and contains_verdicts(path):
        found: FeatureValues = {}
        for scores in read_scores(path, valid_parts=True):
            found = merge_features(found, list_juror_features(scores, scores.name.removesuffix(f" ({path.name})")))
        return found
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
    from concurrent.futures import BrokenExecutor

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
    except BrokenExecutor:
        raise SetupError(
            f"A process that measured was ended from outside after {len(features) + len(failed)} of {len(pairs)} "
            "cases, most often for want of memory; run it again with more of it."
        ) from None
    return features, failed


def _map_in_processes(work: Callable[[_T], _R], items: Collection[_T], workers: int | None) -> Iterator[_R]:
    """Yield the result of each item; with 0 workers it is computed in this process."""
    from beholder.runs.worker_processes import WorkerPool, default_worker_count

    count = default_worker_count() if workers is None else workers
    if not count:
        yield from map(work, items)
        return
    with WorkerPool(count) as pool:
        yield from pool.map(partial(_run_on_one_thread, work), items)


def _run_on_one_thread(work: Callable[[_T], _R], item: _T) -> _R:
    """Run `work` in a worker process: there is one per core, so that each uses one thread."""
    import cv2

    cv2.setNumThreads(1)
    return work(item)


def measure_cases(
    cases: Iterable[Case], names: Collection[str] | None = None, progress: Progress | None = None
) -> tuple[FeatureValues, dict[str, str]]:
    """Measure the two images of each case that are compared.

    Args:
        cases: The cases.
        names: Instruments or families; None for all instruments for pairs.
        progress: Called with `measuring` and the number of cases.

    Returns:
        As `measure_pixels`.
    """
    pairs, failed = {}, {}
    for case in cases:
        pair = find_pair(case)
        if pair is None:
            failed[case.id] = "it has no two images to compare"
        else:
            pairs[case.id] = pair
    done = None if progress is None else (lambda count: progress("measuring", count, len(pairs)))
    if done is not None:
        done(0)
    features, unread = measure_pixels(pairs, names, done=done)
    return features, failed | unread


def merge_features(first: FeatureValues, second: FeatureValues) -> FeatureValues:
    """Return the features of both, by case."""
    return {case: {**first.get(case, {}), **second.get(case, {})} for case in {**first, **second}}


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationApplier:
    """Applies a calibration to verdicts.

    Attributes:
        calibration: The calibration.
        extra: Its further features by case.
        anyway: Apply it also to another rubric, style or judge than it was fitted for.
        measured: Number of cases whose images were measured for it.
        unmeasured: Cases whose images could not be measured, each with the reason.
    """

    calibration: Calibration
    extra: Mapping[str, Mapping[str, float]]
    anyway: bool
    measured: int = 0
    unmeasured: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, verdicts: Iterable[StoredVerdict]) -> Iterator[StoredVerdict]:
        """Yield calibrated verdicts; those on one case must follow each other, since they are calibrated together."""
        for _, judged in groupby(verdicts, key=lambda one: one.verdict.case):
            of_case = list(judged)
            for stored, verdict in zip(of_case, self.to_case([stored.verdict for stored in of_case]), strict=True):
                yield replace(stored, verdict=verdict)

    def to_case(self, verdicts: list[Verdict]) -> list[Verdict]:
        """Return the verdicts on one case, calibrated."""
        known = self.extra.get(verdicts[0].case, {}) if verdicts else {}
        return apply_calibration(self.calibration, verdicts, known, anyway=self.anyway)


def load_calibration_applier(
    ledger: Ledger,
    record: RunRecord,
    calibration: Path | None,
    features: Path | None = None,
    *,
    anyway: bool = False,
    case: str | None = None,
    progress: Progress | None = None,
) -> CalibrationApplier | None:
    """Load a calibration for the verdicts of a run, and measure the features that it needs from the images.

    Args:
        ledger: The ledger.
        record: The run.
        calibration: File of `beholder calibrate`; None returns None.
        features: File of further features.
        anyway: Apply it also to another rubric, style or judge than it was fitted for.
        case: Only this case of the run.
        progress: Called while images are measured.

    Raises:
        UsageError: A file cannot be read, or features are given without a calibration.
    """
    if calibration is None:
        if features is not None:
            raise UsageError("Features are for a calibration, and none is named (--calibration or calibration=).")
        return None
    loaded = load_calibration(calibration)
    extra = read_features(features) if features is not None else {}
    measured: FeatureValues = {}
    unmeasured: dict[str, str] = {}
    if loaded.instrument_names:
        cases = ledger.cases(record.id) if case is None else [ledger.case(record.id, case)]
        measured, unmeasured = measure_cases(cases, loaded.instrument_names, progress)
        extra = merge_features(extra, measured)
    return CalibrationApplier(loaded, extra, anyway, len(measured), unmeasured)
