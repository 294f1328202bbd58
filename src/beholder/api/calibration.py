"""What people would say, in Python: `calibrate` learns to predict their ratings, `estimate` their mean of a run.

As in `api.statistics`, everything is computed in the calling thread, from a ledger that is opened for reading.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from beholder.api.arguments import check_number, check_whole, to_names, to_path
from beholder.api.files import OutputKind, check_output, write_text
from beholder.api.statistics import (
    Files,
    Pairs,
    PathLike,
    RunLike,
    Scales,
    check_sampling,
    load_people_ratings,
    load_scores,
    open_run,
    refuse_pairs,
    to_pairs,
    to_paths,
    to_scales,
)
from beholder.cases.sources import CaseSource
from beholder.errors import UsageError
from beholder.ledger.ledger import LedgerLike
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.aspects import Scale
from beholder.statistics.calibration import (
    DEFAULT_FOLDS,
    CalibrationChoice,
    build_document,
    format_json,
    summarize_task,
)
from beholder.statistics.calibration import calibrate as calibrate_tasks
from beholder.statistics.calibration_evaluation import SelectionMeasure
from beholder.statistics.calibration_features import (
    FeatureValues,
    Progress,
    list_juror_features,
    measure_cases,
    merge_features,
    read_features,
)
from beholder.statistics.calibration_recipes import TOGETHER_RECIPES, select_recipes
from beholder.statistics.calibration_task import (
    CalibrationData,
    Provenance,
    TaskOptions,
    build_tasks,
    load_run_provenance,
    read_file_provenance,
)
from beholder.statistics.data import Ratings, Scores, parse_choice
from beholder.statistics.estimation import AspectEstimate, EstimateOptions, RatedAspects, estimate_aspects


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationResult:
    """What was learned of a judge: the result of `calibrate`.

    Attributes:
        choices: For each aspect, or for all together: the maps that were tried, the chosen one, and whether it helps.
        made: Where the maps come from, as a calibration file says it.
        notes: What was inferred and left out, in sentences.
        measured: Number of cases whose images were measured.
        unmeasured: Cases whose images could not be measured, each with the reason.
    """

    choices: tuple[CalibrationChoice, ...]
    made: Mapping[str, object]
    notes: tuple[str, ...] = ()
    measured: int = 0
    unmeasured: Mapping[str, str] = field(default_factory=dict)

    @property
    def helps(self) -> bool:
        """Whether at least one map is surely nearer to people than the judge's own number and than a constant."""
        return any(choice.is_worth_having(task) for choice in self.choices for task in choice.tasks)

    def save(self, path: PathLike, *, anyway: bool = False, force: bool = False) -> None:
        """Write the maps that help to a file, which `--calibration` and `Options(calibration=…)` take.

        Args:
            path: The file.
            anyway: Write also maps that do not help.
            force: Overwrite a file that is no calibration. Without it only one, or an empty file, is replaced.

        Raises:
            UsageError: No map helps, or the file cannot be written or is no calibration.
        """
        document = build_document(self.choices, self.made, anyway=anyway)
        if not document["aspects"]:
            raise UsageError(f"Nothing is written to {str(path)!r}: no map is worth having (anyway=True writes it).")
        check_output(Path(path), OutputKind.CALIBRATION, force=force)
        write_text(Path(path), format_json(document) + "\n")

    def to_dict(self) -> dict[str, object]:
        """Return what `beholder calibrate --json` prints where nothing is written."""
        aspects = [
            summarize_task(choice, task)
            | {"aspect": task.aspect, "bands": [asdict(band) for band in choice.bands[task.aspect]]}
            for choice in self.choices
            for task in choice.tasks
        ]
        return {"written": None, "made": dict(self.made), "aspects": aspects, "notes": list(self.notes)}

    def __repr__(self) -> str:
        words = [f"{one.aspect} {one.chosen} {'helps' if one.helps else 'does not help'}" for one in self.choices]
        return f"<CalibrationResult for {self.made['from']}: {'; '.join(words)}>"

    def _repr_html_(self) -> str:
        from beholder.reports.charts import html_interval, html_result, html_sentences, html_table

        rows = [
            (choice.aspect, name, html_interval(score.rho), html_interval(score.error))
            for choice in self.choices
            for name, score in choice.rows.items()
        ]
        table = html_table(("aspect", "map", "Spearman's ρ with people", "mean error"), rows)
        sentences = [f"{one.aspect}: {one.chosen} was chosen. {one.why}" for one in self.choices]
        return html_result(f"Calibration of {self.made['from']}", [table, html_sentences([*sentences, *self.notes])])


def calibrate(
    run: RunLike | Sequence[RunLike] | None = None,
    *,
    ratings: CaseSource | None = None,
    aspect: str | Sequence[str] = (),
    together: bool = False,
    measure: bool = False,
    features: PathLike | None = None,
    for_: str = SelectionMeasure.ERROR,
    try_: str | Sequence[str] = (),
    map_: Pairs = (),
    scale: Scales = (),
    rating_scale: Scales = (),
    group: str | None = None,
    under_test: str | None = None,
    scores: Files = (),
    judge: str | Sequence[str] | None = None,
    cases: PathLike | None = None,
    folds: int = DEFAULT_FOLDS,
    seed: int = DEFAULT_SEED,
    draws: int = DEFAULT_DRAWS,
    ledger: LedgerLike = None,
    progress: Progress | None = None,
) -> CalibrationResult:
    """Learn the map from what a judge said (and what was measured) to the rating that people would give.

    Maps of several kinds are tried on cases that they have not seen; the best is kept if it is surely nearer to people
    than the judge's own number and than a constant. With several judges it is learned from what all of them said, and
    stands for the ratings beside the first one's numbers.

        calibrate("nightly", ratings="ratings.csv").save("calibration.json")

    Args:
        run: The run to learn from: a `Run`, or its name, id, or the start of it; else the latest. Of several runs, the
            judge of the first is calibrated, and what the others' judges said is learned from too.
        ratings: Human ratings with case, rater, aspect and score: a file, a frame or an iterable of mappings; without
            it the run's reviews count.
        aspect: Only these aspects.
        together: One choice and one decision for all aspects: for few ratings of many. Only the map `linear` is tried,
            since few ratings do not tell which of several is best; `try_` names others.
        measure: Learn from the pixels too: every instrument on every pair of images.
        features: A file of further numbers: case, NAME, …
        for_: What a map is chosen by: `error` (how far from people), or `rank` (the order).
        try_: Only these kinds of map.
        map_: The criterion for each aspect that people rated; else by name.
        scale: The judge's scale, where it is not known.
        rating_scale: The people's scale.
        group: The group that is never split between learning and testing; else `source`, if the cases have it.
        under_test: The group that says what made an image; else `model`, if there.
        scores: In place of a run: files with case, judge, aspect and score, or verdicts as JSON lines.
        judge: Which judge of `scores`; of several, the first is calibrated, as for `run`.
        cases: A case file, for the groups and images of cases in plain files.
        folds: Into how many parts cases are divided to test maps.
        seed: Random seed.
        draws: Number of bootstrap samples.
        ledger: The ledger of a run that is given by name; else `BEHOLDER_LEDGER`, else `beholder.db`.
        progress: Called with what is being done, and how much of how much is finished.

    Raises:
        UsageError: Nobody rated the run, names do not match, or there are too few cases to learn from.
        LedgerError: The ledger cannot be read. It is never created.
    """
    by = parse_choice(SelectionMeasure, for_, "for_")
    check_whole("folds", folds, least=2)
    check_sampling(seed, draws)
    recipes, notes = select_recipes(_to_list(try_) or (TOGETHER_RECIPES if together else ()))
    runs = list(run) if isinstance(run, Sequence) and not isinstance(run, str) else [run]
    source = _Source(tuple(runs) or (None,), to_paths(scores), cases, ledger)
    if judge and not source.scores:
        raise UsageError(
            "A judge is chosen of files of scores (--scores or scores=); of runs, the first is calibrated."
        )
    for one in source.runs if not source.scores else ():
        refuse_pairs(one, ratings, ledger, "estimate")
    people = load_people_ratings(ratings, source.runs[0], scores, ledger, _to_list(aspect))
    data, jurors = _load_data(source, people, _to_list(judge or ()), aspect)
    given = {} if features is None else read_features(to_path("features", features))
    measured: FeatureValues = {}
    unmeasured: dict[str, str] = {}
    if measure:
        if not data.provenance.cases:
            raise UsageError(
                "Measuring needs the images of the cases: a run, or plain files with a case file (--cases or cases=)."
            )
        measured, unmeasured = measure_cases(data.rated_cases, progress=progress)
    data = replace(data, extra=merge_features(merge_features(data.extra, given), measured))
    rated_on = to_scales(rating_scale) or ({} if ratings is not None else data.rubric_scales)
    options = TaskOptions(group=group, under_test=under_test, seed=seed)
    tasks, inferred = build_tasks(data, to_pairs(map_), to_scales(scale), rated_on, options)
    sets = [tasks] if together else [[task] for task in tasks]
    choices = []
    for done, each in enumerate(sets):
        if progress is not None:
            progress("fitting maps, and testing them on what they have not seen", done, len(sets))
        choices.append(calibrate_tasks(*each, recipes=recipes, by=by, folds=folds, seed=seed, draw_count=draws))
    said = "reviews" if ratings is None else Path(ratings).name if isinstance(ratings, str | os.PathLike) else "a table"
    made = {**data.provenance.to_dict(), "seed": seed, "folds": folds, "ratings": said}
    if jurors:
        made["jurors"] = jurors
    return CalibrationResult(tuple(choices), made, (*notes, *inferred), len(measured), unmeasured)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where scores are read from."""

    runs: tuple[RunLike | None, ...]
    scores: list[Path]
    cases: PathLike | None
    ledger: LedgerLike

    def load(self) -> list[Scores]:
        return [
            scores
            for run in self.runs
            for scores in load_scores(run, self.scores, self.cases, self.ledger, valid_parts=True)
        ]

    def load_provenance(self, scores: Sequence[Scores]) -> list[Provenance]:
        """Return where each of the scores comes from."""
        if self.scores:
            cases = None if self.cases is None else to_path("cases", self.cases)
            return [read_file_provenance(one, self.scores, cases) for one in scores]
        found = []
        for run in self.runs:
            with open_run(run, self.ledger) as (opened, name):
                found.append(load_run_provenance(opened, name))
        return found


def _load_data(
    source: _Source, people: Mapping[str, Ratings], judges: Sequence[str], aspect: str | Sequence[str]
) -> tuple[CalibrationData, list[str]]:
    """Load the scores of a judge, with those of further judges as features, and choose the ratings of these aspects, or
    all; also return the names of the further judges."""
    wanted = _to_list(aspect)
    people = {name: ratings for name, ratings in people.items() if not wanted or name in wanted}
    found = source.load()
    if source.scores and not judges and len(found) > 1:
        known = ", ".join(scores.name for scores in found)
        raise UsageError(
            f"A calibration is for one judge, beside whom others may be named; say which (--judge or judge=): {known}."
        )
    named = [_find_judge(judge, found) for judge in judges] or found
    provenance = source.load_provenance(named)
    names = [" + ".join(one.judges) for one in provenance]
    if len(set(names)) < len(names):
        raise UsageError(f"Two of the judges have one name, and cannot be told apart later: {', '.join(names)}.")
    extra: FeatureValues = {}
    for scores, name in zip(named[1:], names[1:], strict=True):
        extra = merge_features(extra, list_juror_features(scores, name))
    return CalibrationData(people, named[0], provenance[0], extra), names[1:]


def _find_judge(judge: str, found: Sequence[Scores]) -> Scores:
    """Return the scores of this name; else those of the judge whose own name it is, if there is only one."""
    matching = [one for one in found if one.name == judge] or [one for one in found if one.judge == judge]
    if len(matching) != 1:
        how_many = "several judges" if matching else "no judge"
        known = ", ".join(one.name for one in matching or found)
        raise UsageError(f"{judge!r} is the name of {how_many} here; say which (--judge or judge=): {known}.")
    return matching[0]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What people would say of all cases: the result of `estimate`.

    Attributes:
        passes: The human score from which a case passes, where a pass rate was estimated; None for mean scores.
        aspects: An estimate for each judge and aspect.
        notes: What was inferred and left out, in sentences.
    """

    passes: float | None
    aspects: tuple[AspectEstimate, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return what `beholder estimate --json` prints."""
        estimates = [aspect.to_dict() for aspect in self.aspects]
        return {"passes": self.passes, "estimates": estimates, "notes": list(self.notes)}

    def __repr__(self) -> str:
        words = []
        for one in self.aspects:
            found = one.estimated.combined
            value = "not defined" if found.value is None else f"{found.value:.3f}"
            ends = "" if found.low is None or found.high is None else f" ({found.low:.3f} to {found.high:.3f})"
            words.append(f"{one.aspect} {value}{ends}")
        return f"<Estimate of the {'mean human score' if self.passes is None else 'pass rate'}: {', '.join(words)}>"

    def _repr_html_(self) -> str:
        from beholder.reports.charts import html_interval, html_result, html_sentences, html_table

        rows = [
            (one.judge, one.aspect, html_interval(found.combined), html_interval(found.people), f"{found.rated:,}")
            for one in self.aspects
            for found in (one.estimated,)
        ]
        table = html_table(("judge", "aspect", "people and judge", "people alone", "rated cases"), rows)
        sentences = [sentence for one in self.aspects for sentence in one.sentences()]
        title = f"Estimate of the {'mean human score' if self.passes is None else 'pass rate'}"
        return html_result(title, [table, html_sentences([*sentences, *self.notes])])


def estimate(
    run: RunLike | None = None,
    *,
    ratings: CaseSource | None = None,
    aspect: str | Sequence[str] = (),
    scores: Files = (),
    cases: PathLike | None = None,
    map_: Pairs = (),
    group: str | None = None,
    pass_: float | None = None,
    judge_pass: float | None = None,
    scale: Scales = (),
    rating_scale: Scales = (),
    width: float | None = None,
    ledger: LedgerLike = None,
) -> Estimate:
    """Estimate what people would say of all cases, from the judge on all and people on a few drawn at random.

    Args:
        run: The run: a `Run`, or its name, id, or the start of it; else the latest.
        ratings: Human ratings with case, rater, aspect and score: a file, a frame or an iterable of mappings; without
            it the run's reviews count.
        aspect: Only these aspects.
        scores: In place of a run: files with case, judge, aspect and score, or verdicts as JSON lines.
        cases: A case file, for the groups of cases in plain files.
        map_: The criterion for each aspect that people rated; else by name.
        group: The group by which cases belong together; else `source`, if the cases have it.
        pass_: Estimate a pass rate: the human score from which a case passes.
        judge_pass: The judge's score from which a case passes; else at the same place of its scale.
        scale: The judge's scale, where it is not known.
        rating_scale: The people's scale.
        width: Also compute how many ratings give an interval of this width.
        ledger: The ledger of a run that is given by name; else `BEHOLDER_LEDGER`, else `beholder.db`.

    Raises:
        UsageError: Nobody rated the run, names do not match, or no rated case is in the run.
        LedgerError: The ledger cannot be read. It is never created.
    """
    for name, value in (("pass_", pass_), ("judge_pass", judge_pass), ("width", width)):
        check_number(name, value, optional=True)
    options = EstimateOptions(pass_, judge_pass, width)
    wanted = _to_list(aspect)
    if not to_paths(scores):
        refuse_pairs(run, ratings, ledger, "estimate")
    every = load_people_ratings(ratings, run, scores, ledger, wanted)
    people = {name: every[name] for name in wanted or every}
    # A pair for an aspect that was not asked for is no mistake.
    pairs = [pair for pair in to_pairs(map_) if (name := pair.partition("=")[0].strip()) in people or name not in every]
    rated = RatedAspects(people, _rated_scales(scale, people), _rated_scales(rating_scale, people), ratings is None)
    aspects: list[AspectEstimate] = []
    notes: dict[str, None] = {}
    for judge in load_scores(run, scores, cases, ledger):
        found, sentences = estimate_aspects(judge, rated, pairs, group, options)
        aspects += found
        notes |= dict.fromkeys(sentences)
    return Estimate(pass_, tuple(aspects), tuple(notes))


def _rated_scales(given: Scales, people: Mapping[str, Ratings]) -> dict[str, Scale]:
    scales = to_scales(given)
    for name in scales:
        if name and name not in people:
            raise UsageError(f"Nobody rated the aspect {name!r}, which has a scale; rated are {', '.join(people)}.")
    return scales


def _to_list(names: str | Sequence[str]) -> list[str]:
    return to_names("aspect, try_", names)
