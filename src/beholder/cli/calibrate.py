"""`beholder calibrate`: learn from human ratings how to predict them from a judge's scores.

`load_calibration_applier` applies a calibration to the verdicts of a run, for `show`, `export` and `score`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.options import (
    AspectOption,
    CasesFile,
    DrawsOption,
    FeaturesFile,
    GroupOption,
    JsonOption,
    JudgeScaleOption,
    LedgerOption,
    MapOption,
    OptionalRun,
    PeopleScaleOption,
    RatingsOrReviews,
    ScoresFiles,
    SeedOption,
    load_people_ratings,
    load_scores,
    write_text,
)
from beholder.errors import UsageError
from beholder.reports.text import print_text, printable
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED

if TYPE_CHECKING:
    from beholder.cases.case import Case
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import RunRecord, StoredVerdict
    from beholder.statistics.calibration import CalibrationResult, CandidateScore, SelectionMeasure
    from beholder.statistics.calibration_recipes import CalibrationRecipe
    from beholder.statistics.calibration_task import CalibrationTask, Provenance, TaskOptions
    from beholder.statistics.data import Ratings, Scores
    from beholder.verdicts.calibration import Calibration
    from beholder.verdicts.verdict import Verdict


FeatureValues = dict[str, dict[str, float]]
MAX_LISTED = 3


def measure_cases(cases: Iterable[Case], names: Collection[str] | None = None) -> FeatureValues:
    """Measure the images of cases with all instruments, or the named ones; print which cases could not be measured."""
    from beholder.cases.case import choose_pair_roles
    from beholder.cli.progress import progress_bar
    from beholder.statistics.calibration_task import measure_pixels

    pairs, failed = {}, {}
    for case in cases:
        roles = choose_pair_roles(list(case.images))
        if roles is None:
            failed[case.id] = "it has no two images to compare"
        else:
            pairs[case.id] = case.images[roles[0]], case.images[roles[1]]
    with progress_bar("measuring", len(pairs)) as update:
        features, unread = measure_pixels(pairs, names, done=lambda count: update(completed=count))
    failed |= unread
    if failed:
        print_text(f"beholder: {len(failed)} of {len(failed) + len(features)} cases could not be measured:", error=True)
        for case_id, why in list(failed.items())[:MAX_LISTED]:
            print_text(printable(f"  {case_id}: {why}")[:300], error=True)
    return features


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationApplier:
    """Applies a calibration to verdicts; `extra` are its further features by case."""

    calibration: Calibration
    extra: Mapping[str, Mapping[str, float]]
    anyway: bool

    def __call__(self, verdicts: Iterable[StoredVerdict]) -> Iterator[StoredVerdict]:
        """Yield calibrated verdicts; those on one case must follow each other, since they are calibrated together."""
        for _, judged in groupby(verdicts, key=lambda one: one.verdict.case):
            of_case = list(judged)
            for stored, verdict in zip(of_case, self.to_case([stored.verdict for stored in of_case]), strict=True):
                yield replace(stored, verdict=verdict)

    def to_case(self, verdicts: list[Verdict]) -> list[Verdict]:
        """Return the verdicts on one case, calibrated."""
        from beholder.verdicts.calibration import apply_calibration

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
) -> CalibrationApplier | None:
    """Load a calibration for the verdicts of a run, and measure the features that it needs from the images.

    Args:
        ledger: The ledger.
        record: The run.
        calibration: File of `beholder calibrate`; None returns None.
        features: File of further features.
        anyway: Apply it also to another rubric, style or judge than it was fitted for.
        case: Only this case of the run.

    Raises:
        UsageError: A file cannot be read, or features are given without a calibration.
    """
    from beholder.verdicts.calibration import load_calibration

    if calibration is None:
        if features is not None:
            raise UsageError("--features is for a calibration, and none is named: --calibration FILE.")
        return None
    loaded = load_calibration(calibration)
    extra: FeatureValues = {}
    if features is not None:
        from beholder.statistics.calibration_task import read_features

        extra = read_features(features)
    if loaded.instrument_names:
        cases = ledger.cases(record.id) if case is None else [ledger.case(record.id, case)]
        for case_id, values in measure_cases(cases, loaded.instrument_names).items():
            extra[case_id] = {**extra.get(case_id, {}), **values}
    return CalibrationApplier(loaded, extra, anyway)


def calibrate(
    run: OptionalRun = None,
    *,
    ratings: RatingsOrReviews = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write the maps that help.", show_default=False)
    ] = None,
    aspect: AspectOption = None,
    together: Annotated[
        bool, typer.Option("--together", help="One choice and one decision for all aspects: for few ratings of many.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Learn from the pixels too: every instrument on every pair of images.")
    ] = False,
    features: FeaturesFile = None,
    for_: Annotated[
        str, typer.Option("--for", help="What the map is chosen by: error (how far from people), or rank (the order).")
    ] = "error",
    try_: Annotated[
        list[str] | None, typer.Option("--try", help="Only this kind of map; again for another.", show_default=False)
    ] = None,
    map_: MapOption = None,
    scale: JudgeScaleOption = None,
    rating_scale: PeopleScaleOption = None,
    group: GroupOption = None,
    under_test: Annotated[
        str | None,
        typer.Option(help="The group that says what made an image: else `model`, if there.", show_default=False),
    ] = None,
    scores: ScoresFiles = None,
    judge: Annotated[str | None, typer.Option(help="Which judge of --scores.", show_default=False)] = None,
    cases: CasesFile = None,
    folds: Annotated[int, typer.Option(min=2, help="Into how many parts cases are divided to test maps.")] = 10,
    seed: SeedOption = DEFAULT_SEED,
    draws: DrawsOption = DEFAULT_DRAWS,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Learn the map from what a judge said (and what was measured) to the rating that people would give.

    Maps of several kinds are tried on cases that they have not seen. The best is written to -o, if it is surely nearer
    to people than the judge's own number and than a constant; else nothing is, and the exit code is 1.
    """
    from beholder.cli import EXIT_THRESHOLD
    from beholder.cli.output import show_spinner
    from beholder.statistics.aspects import parse_scales
    from beholder.statistics.calibration import build_document, calibrate, format_json
    from beholder.statistics.calibration_task import TaskOptions

    by = _make_measure(for_)
    recipes, notes = _recipes(try_ or ())
    known = _load_data(_CalibrationSources(run, ratings, scores, cases, address), judge, aspect)
    known = replace(known, extra=_load_features(known, features, measure=measure))
    rated_on = parse_scales(rating_scale or ()) or ({} if ratings is not None else _rubric_scales(known))
    terms = TaskOptions(group=group, under_test=under_test, seed=seed)
    tasks = _make_tasks(
        known, _CalibrationRequest(map_ or (), parse_scales(scale or ()), rated_on, terms), notes.append
    )
    with show_spinner("fitting maps, and testing them on what they have not seen"):
        sets = [tasks] if together else [[task] for task in tasks]
        results = [calibrate(*each, recipes=recipes, by=by, folds=folds, seed=seed, draw_count=draws) for each in sets]
    source = "reviews" if ratings is None else ratings.name
    made = {**known.pedigree.to_dict(), "seed": seed, "folds": folds, "ratings": source}
    saved = build_document(results, made)
    written = output if saved["aspects"] else None
    if written is not None:
        write_text(written, format_json(saved) + "\n")
    if json_:
        _print_json(results, made, notes, written)
    else:
        _print_results(results, notes)
        _print_written(results, output)
    raise typer.Exit(0 if saved["aspects"] else EXIT_THRESHOLD)


def _make_measure(name: str) -> SelectionMeasure:
    from beholder.statistics.calibration import SelectionMeasure

    if name not in tuple(SelectionMeasure):
        raise UsageError(f"--for is one of {', '.join(SelectionMeasure)}, not {name!r}.")
    return SelectionMeasure(name)


def _rubric_scales(known: _CalibrationData) -> dict[str, tuple[float, float]]:
    """Return the scales of the rubric: reviewers of the run rated on them."""
    columns = known.judged.columns.items()
    return {name: column.scale for name, column in columns if column.scale is not None and name in known.people}


def _recipes(wanted: Sequence[str]) -> tuple[dict[str, CalibrationRecipe], list[str]]:
    """Return the kinds of map to try, always with a constant, and notes for the user."""
    from importlib.util import find_spec

    from beholder.statistics.calibration import CONSTANT_NAME
    from beholder.statistics.calibration_recipes import RECIPES, SKLEARN_RECIPES

    if unknown := [name for name in wanted if name not in RECIPES]:
        raise UsageError(f"--try takes {', '.join(RECIPES)}, not {unknown[0]!r}.")
    chosen = {name: recipe for name, recipe in RECIPES.items() if not wanted or name in wanted or name == CONSTANT_NAME}
    if find_spec("sklearn") is not None or not SKLEARN_RECIPES & set(chosen):
        return chosen, []
    if wanted and SKLEARN_RECIPES & set(wanted):
        raise UsageError(
            f"{', '.join(SKLEARN_RECIPES & set(wanted))} needs scikit-learn: pip install 'beholder[calibrate]'"
        )
    note = f"Not tried without scikit-learn (pip install 'beholder[calibrate]'): {', '.join(sorted(SKLEARN_RECIPES))}."
    return {name: recipe for name, recipe in chosen.items() if name not in SKLEARN_RECIPES}, [note]


@dataclass(frozen=True, slots=True)
class _CalibrationSources:
    """Where scores and ratings are read from."""

    run: str | None
    ratings: Path | None
    scores: Sequence[Path] | None
    cases: Path | None
    ledger: str | None


@dataclass(frozen=True, slots=True, eq=False)
class _CalibrationData:
    """Ratings by aspect, the scores of the judge and their provenance, and further features by case."""

    people: Mapping[str, Ratings]
    judged: Scores
    pedigree: Provenance
    extra: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def rated(self) -> set[str]:
        """Cases that have both ratings and scores."""
        return {case for ratings in self.people.values() for case in ratings.cases} & set(self.judged.cases)


@dataclass(frozen=True, slots=True, eq=False)
class _CalibrationRequest:
    """The columns for the aspects (`--map`), the scales of judge and people, and options of the tasks."""

    pairs: Sequence[str]
    scales: Mapping[str, tuple[float, float]]
    rating_scales: Mapping[str, tuple[float, float]]
    terms: TaskOptions


def _load_data(files: _CalibrationSources, judge: str | None, aspects: Collection[str] | None) -> _CalibrationData:
    """Load the scores of one judge and the ratings of these aspects, or all."""
    from beholder.statistics.calibration_task import load_run_provenance, read_file_provenance

    people = load_people_ratings(files.ratings, files.run, files.scores, files.ledger, aspects)
    people = {name: ratings for name, ratings in people.items() if not aspects or name in aspects}
    all_scores = load_scores(files.run, files.scores, files.cases, files.ledger)
    named = [scores for scores in all_scores if judge is None or scores.name == judge]
    if len(named) != 1:
        names = ", ".join(scores.name for scores in all_scores)
        raise UsageError(f"A calibration is for one judge; say which with --judge: {names}.")
    if files.scores:
        return _CalibrationData(people, named[0], read_file_provenance(named[0], files.scores, files.cases))
    from beholder.ledger.ledger import Ledger

    with Ledger.open(files.ledger, read_only=True) as ledger:
        return _CalibrationData(people, named[0], load_run_provenance(ledger, files.run or "latest"))


def _load_features(known: _CalibrationData, features: Path | None, *, measure: bool) -> dict[str, dict[str, float]]:
    """Return further features of the rated cases, by case: from a file, and measured from the images."""
    from beholder.statistics.calibration_task import read_features

    extra = read_features(features) if features is not None else {}
    if not measure:
        return extra
    if not known.pedigree.cases:
        raise UsageError("--measure needs the images of the cases: a run, or plain files with --cases FILE.")
    for case, values in measure_cases(case for case in known.pedigree.cases if case.id in known.rated).items():
        extra[case] = {**extra.get(case, {}), **values}
    return extra


def _make_tasks(
    known: _CalibrationData, wanted: _CalibrationRequest, note: Callable[[str], None]
) -> list[CalibrationTask]:
    from beholder.statistics.aspects import describe_matches, infer_scales_by_aspect, match_aspects
    from beholder.statistics.calibration_task import ExtraFeatures, build_task

    people = known.people
    pairs = [pair for pair in wanted.pairs if pair.partition("=")[0].strip() in people]  # others were not asked for
    columns = match_aspects(people, known.judged, pairs)
    for sentence in describe_matches(columns, people, pairs):
        note(sentence)
    scales = infer_scales_by_aspect(columns, people, wanted.scales, wanted.rating_scales)
    spelling = known.pedigree.column_aliases(known.judged)
    judged, columns = (
        spelling.rename_all(known.judged),
        {aspect: spelling.rename(column) for aspect, column in columns.items()},
    )
    further = {name for values in known.extra.values() for name in values}
    tasks = []
    for aspect, column in columns.items():
        judge_scale, of_people = scales[aspect]
        beside = [given for given in columns.values() if given is not column]
        names = known.pedigree.names_for(column.name)
        tasks.append(
            build_task(
                judged,
                people[aspect],
                replace(column, scale=judge_scale),
                replace(wanted.terms, scale=of_people),
                ExtraFeatures(known.extra, None if names is None else names | further, beside),
            )
        )
    return tasks


def _print_json(
    results: Sequence[CalibrationResult], made: Mapping[str, object], notes: Sequence[str], written: Path | None
) -> None:
    from beholder.statistics.calibration import summarize_task

    aspects = [summarize_task(result, task) | {"aspect": task.aspect} for result in results for task in result.tasks]
    where = None if written is None else str(written)
    print_text(json.dumps({"written": where, "made": made, "aspects": aspects, "notes": notes}))


def _print_results(results: Sequence[CalibrationResult], notes: Sequence[str]) -> None:
    from beholder.statistics.calibration import AS_CHOSEN

    for result in results:
        first = result.tasks[0]
        raters, groups = len(first.ratings.raters), len(set(first.group_index.tolist()))
        raw = ", ".join(dict.fromkeys(task.raw.name for task in result.tasks))
        about = f"{len(first.cases):,} cases in {groups:,} groups, {raters} raters"
        about += f", {len(first.features.names)} features"
        print_text(printable(f"{result.aspect} (judge: {raw})\n{about}", lines=True))
        named = {key: f"{key}: {result.chosen}" if key == AS_CHOSEN else key for key in result.rows}
        _result_table("", {named[key]: row for key, row in result.rows.items()})
        if result.new_model:
            _result_table("maker unseen", result.new_model)
            _result_table("neither maker nor photograph seen", result.new_model_and_photo)
        for line in _result_sentences(result):
            print_text(printable(line))
        print_text("")
    low, high = results[0].tasks[0].scale
    print_text(f"error: how far from the people's mean on average, on their scale ({low:g} to {high:g}).")
    print_text("ρ: how far the order is that of people (1 wholly, 0 not at all; Spearman).")
    print_text(
        "In the first table every number is of cases whose group the map had not seen; `as chosen` made the choice "
        "anew without them."
    )
    if any(result.new_model for result in results):
        print_text(
            "Maker unseen: by maps of other makers' images, those of the same photograph among them. Neither seen: by "
            "maps of other makers' images of other photographs, which is what new images by a new maker can expect."
        )
    print_text(results[0].interval_note)
    for note in notes:
        print_text(printable(note))


def _result_table(title: str, rows: Mapping[str, CandidateScore]) -> None:
    from beholder.reports.formatting import format_interval, numbers_table, print_table

    cells = [(name, format_interval(row.rho), format_interval(row.error)) for name, row in rows.items()]
    print_table(numbers_table([title, "ρ", "error"], cells))


def _result_sentences(result: CalibrationResult) -> list[str]:
    """Return the conclusions from the table, in sentences."""
    from beholder.reports.formatting import format_interval
    from beholder.statistics.calibration import AS_CHOSEN

    row = result.rows[AS_CHOSEN]
    gains = {
        "less error than the raw judge": row.error_gain,
        "than a constant": row.constant_gain,
        "a higher ρ than the raw judge": row.rho_gain,
    }
    gained = "; ".join(f"{what} by {format_interval(gain)}" for what, gain in gains.items() if gain is not None)
    lines = [f"As chosen: {gained}.", result.why if result.helps else f"Not saved: {result.why}"]
    if result.maker_note:
        lines.append(result.maker_note)
    if result.helps and not result.has_intervals:
        lines.append("There are too few groups to say how far people may be from it: its interval is the whole scale.")
    left = {name: why for fitted in result.maps.values() for name, why in fitted.usable.left_out.items()}
    if left:
        lines.append("Left out: " + ", ".join(f"{name} ({why})" for name, why in list(left.items())[:8]) + ".")
    return lines


def _print_written(results: Sequence[CalibrationResult], output: Path | None) -> None:
    helped = [result.aspect for result in results if result.helps]
    if not helped:
        print_text("Nothing was written: no map is worth having.")
    elif output is None:
        print_text(f"A map is worth having for {', '.join(helped)}; write it to a file with -o calibration.json.")
    else:
        print_text(printable(f"Wrote {output} for {', '.join(helped)}; apply it with --calibration {output}."))
