"""`score`: score recorded answers again; `import_ratings` and `export_ratings`: what people said of a run.

Answers are scored in one pass and in constant memory.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from beholder.api.files import OutputFile, OutputKind, open_output
from beholder.api.options import Options, RubricLike
from beholder.api.run import Run
from beholder.api.statistics import Pairs, Scales, to_pairs, to_scales
from beholder.errors import UsageError
from beholder.judges.recorded import Rescorer, parse_recorded, read_recorded
from beholder.ledger.ledger import LedgerLike, open_ledger
from beholder.reviews import ratings as review_ratings
from beholder.reviews.ratings import RatingsImport, format_ratings_csv
from beholder.reviews.review import list_reviews, load_review
from beholder.reviews.vote_files import format_votes_csv, import_votes
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from beholder.statistics.calibration_features import CalibrationApplier, Progress

MAX_LISTED = 10

Answers = str | os.PathLike[str] | Iterable[str | Mapping[str, object]]


@dataclass(slots=True, repr=False)
class ScoreSummary:
    """Counts and means over verdicts. Of sentences, the first few are kept.

    Attributes:
        outcomes: How many verdicts have which outcome, by rubric and outcome.
        flags: How many verdicts have a flag.
        corrected: How many verdicts have a correction, by what was corrected.
        sums: By rubric and criterion, the sum of the scores and their number.
        unscored: How many verdicts have no score; `first_unscored` says why.
        calibrated: How many verdicts say how people would rate, in one aspect at least.
        filled: How many ratings have a median in place of an input of the calibration, by input.
        uncalibrated: Why calibrated values are missing.
        malformed: How many lines are no recorded answers; `first_malformed` says why.
        measured: How many cases' images were measured for the calibration.
        unmeasured: Cases whose images could not be measured, each with the reason.
    """

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    corrected: Counter[str] = field(default_factory=Counter)
    sums: dict[tuple[str, str], tuple[float, int]] = field(default_factory=dict)
    unscored: int = 0
    first_unscored: list[str] = field(default_factory=list)
    calibrated: int = 0
    filled: Counter[str] = field(default_factory=Counter)
    uncalibrated: Counter[str] = field(default_factory=Counter)
    malformed: int = 0
    first_malformed: list[str] = field(default_factory=list)
    measured: int = 0
    unmeasured: Mapping[str, str] = field(default_factory=dict)

    @property
    def means(self) -> dict[tuple[str, str], float]:
        """The mean by rubric and criterion."""
        return {key: total / count for key, (total, count) in self.sums.items()}

    def __repr__(self) -> str:
        return f"<ScoreSummary of {self.outcomes.total():,} verdicts, {self.unscored:,} without a score>"

    def add(self, verdict: Verdict) -> None:
        self.outcomes[verdict.rubric, str(verdict.outcome)] += 1
        self.flags.update({flag.flag for flag in verdict.flags})
        self.corrected.update({correction.at.rpartition(".")[2] for correction in verdict.corrections})
        if verdict.missing_score_reason:
            self.unscored += 1
            if len(self.first_unscored) < MAX_LISTED:
                self.first_unscored.append(f"{verdict.case} ({verdict.rubric}): {verdict.missing_score_reason[:300]}")
        values = {key: result.score for key, result in verdict.criteria.items()} | {"score": verdict.score}
        self.uncalibrated.update(rating.why for rating in verdict.calibrated.values() if rating.value is None)
        self.calibrated += any(rating.value is not None for rating in verdict.calibrated.values())
        self.filled.update(name for rating in verdict.calibrated.values() for name in rating.filled)
        values |= {f"{key}, calibrated": people.value for key, people in verdict.calibrated.items()}
        for key, value in values.items():
            if value is not None:
                total, count = self.sums.get((verdict.rubric, key), (0.0, 0))
                self.sums[verdict.rubric, key] = (total + value, count + 1)

    def add_malformed(self, sentence: str) -> None:
        self.malformed += 1
        if len(self.first_malformed) < MAX_LISTED:
            self.first_malformed.append(sentence)

    def to_dict(self) -> dict[str, object]:
        """Return JSON values."""
        rubrics: dict[str, dict[str, dict[str, object]]] = {}
        for (rubric, outcome), count in self.outcomes.items():
            rubrics.setdefault(rubric, {"outcomes": {}, "criteria": {}})["outcomes"][outcome] = count
        for (rubric, key), (total, count) in self.sums.items():
            rubrics[rubric]["criteria"][key] = {"score": total / count, "scored": count}
        return {
            "rubrics": rubrics,
            "flags": dict(self.flags.most_common()),
            "corrections": dict(self.corrected.most_common()),
            "unscored": self.unscored,
            "malformed": self.malformed,
        }


class ScoreResult:
    """The verdicts on recorded answers, scored while they are iterated over, and a summary of them.

    It is read once, so that a pipe will do; verdicts are not kept. `summary` reads what is left.
    """

    def __init__(self, rescorers: Sequence[Rescorer], answers: Answers, applier: CalibrationApplier | None) -> None:
        self._rescorers, self._answers = rescorers, answers
        self._calibrate = None if applier is None else applier.to_case
        self._summary = ScoreSummary()
        if applier is not None:
            self._summary.measured, self._summary.unmeasured = applier.measured, applier.unmeasured
        self._scored = self._score()

    def __iter__(self) -> Iterator[Verdict]:
        return (verdict for verdict, _ in self._scored)

    def with_rubrics(self) -> Iterator[tuple[Verdict, Rubric]]:
        """Iterate over the verdicts, each with the rubric in the style and setting of the answer."""
        return self._scored

    @property
    def summary(self) -> ScoreSummary:
        """The summary of all verdicts."""
        for _ in self._scored:
            pass
        return self._summary

    @property
    def exit_code(self) -> int:
        """The exit code of `beholder score`: 0; 2 some lines are no recorded answers; 3 some verdicts have no score, or
        a calibration gave no verdict a rating."""
        lacking = self.summary.unscored or (self._calibrate is not None and not self.summary.calibrated)
        return 2 if self.summary.malformed else 3 if lacking else 0

    def to_dict(self) -> dict[str, object]:
        """Return the summary as JSON values."""
        return self.summary.to_dict()

    def __repr__(self) -> str:
        return f"<ScoreResult, {sum(self._summary.outcomes.values()):,} verdicts so far>"

    def _score(self) -> Iterator[tuple[Verdict, Rubric]]:
        if (
            isinstance(self._answers, Mapping)
            or hasattr(self._answers, "columns")
            or not isinstance(self._answers, str | os.PathLike | Iterable)
        ):
            raise UsageError(
                "Recorded answers are a file, or an iterable of JSON lines or mappings: [answer], or a frame's rows."
            )
        if isinstance(self._answers, str | os.PathLike):
            recorded = read_recorded(Path(self._answers), self._summary.add_malformed)
        else:
            recorded = parse_recorded(self._answers, "answers", self._summary.add_malformed)
        for one in recorded:
            judged = [rescorer.verdict(one) for rescorer in self._rescorers]
            verdicts = [
                replace(verdict, valid_criteria=rescorer.valid_criteria(one, rubric))
                if verdict.outcome is Outcome.INVALID
                else verdict
                for rescorer, (verdict, rubric) in zip(self._rescorers, judged, strict=True)
            ]
            if self._calibrate is not None:
                verdicts = [self._calibrate_valid_part(verdict) for verdict in self._calibrate(verdicts)]
            for verdict, (_, rubric) in zip(verdicts, judged, strict=True):
                self._summary.add(verdict)
                yield verdict, rubric
        if not self._summary.outcomes:
            named = repr(os.fspath(self._answers)) if isinstance(self._answers, str | os.PathLike) else "This"
            first = "".join(f" {sentence}" for sentence in self._summary.first_malformed[:1])
            raise UsageError(f"{named} holds no answer; it should have one JSON object a line.{first}")

    def _calibrate_valid_part(self, verdict: Verdict) -> Verdict:
        """Return an invalid verdict with the ratings of those aspects that its valid criteria answer."""
        if verdict.valid_criteria is None or self._calibrate is None:
            return verdict
        [calibrated] = self._calibrate([replace(verdict, outcome=Outcome.SCORED, criteria=verdict.valid_criteria)])
        return replace(verdict, calibrated=calibrated.calibrated)


def score(
    answers: Answers,
    rubric: RubricLike,
    /,
    *,
    setting: str = "",
    styles: Sequence[str | os.PathLike[str]] = (),
    threshold: float | None = None,
    gates: Sequence[str] = (),
    not_applicable: str | None = None,
    calibration: str | os.PathLike[str] | None = None,
    features: str | os.PathLike[str] | None = None,
    cases: str | os.PathLike[str] | None = None,
    measure: bool = False,
    anyway: bool = False,
    progress: Progress | None = None,
) -> ScoreResult:
    """Score recorded answers again: parse, check, correct and flag them as those of a live judge. Asks nobody.

    Args:
        answers: A file with one JSON object a line, `{"case", "answer", "fields", "judge"}` or an answer itself; "-" is
            standard input. Or an iterable of such lines or mappings.
        rubric: The rubric that was asked, or its name, folder or YAML file. A family ("edit") gives several verdicts on
            each answer.
        setting: One of the rubric's settings; without it each answer says so itself.
        styles: Folders with styles of your own.
        threshold: The score (0 to 1) from which a case passes.
        gates: Findings that fail a case.
        not_applicable: What happens to N/A answers: accept, offer or refuse.
        calibration: A file of `calibrate`: verdicts then also say how people would rate. Of an invalid answer this is
            said where the criteria that it takes are valid by themselves.
        features: A file of further numbers for the calibration, or verdicts of further judges.
        cases: A case file that names the images of the cases, for `measure`.
        measure: Measure what the calibration needs on the images of `cases`.
        anyway: Apply the calibration also to another rubric, style or judge than it was fitted for.
        progress: Called with what is being done, and how much of how much is finished.

    Returns:
        The verdicts, to be iterated over once, and their summary. Lines that are no answers are counted there.

    Raises:
        UsageError: An argument is wrong; while iterating, the file cannot be read or holds no answer.
    """
    if not isinstance(answers, str | os.PathLike | Iterable):
        raise UsageError(f"answers are a file or an iterable, and {type(answers).__name__} is neither.")
    options = Options(threshold=threshold, gates=gates, not_applicable=not_applicable)
    rubrics = options.load_rubrics(rubric)
    folders = [Path(folder) for folder in ([styles] if isinstance(styles, str | os.PathLike) else styles)]
    rescorers = [
        Rescorer(loaded, setting=setting, style_folders=folders, family=len(rubrics) > 1) for loaded in rubrics
    ]
    if measure and (calibration is None or cases is None):
        raise UsageError(
            "Measuring is for a calibration (--calibration or calibration=), on the images of a case file (--cases or "
            "cases=)."
        )
    images = Path(cases) if measure and cases is not None else None
    return ScoreResult(rescorers, answers, _load_applier(calibration, features, images, anyway, progress))


def _load_applier(
    calibration: str | os.PathLike[str] | None,
    features: str | os.PathLike[str] | None,
    images: Path | None,
    anyway: bool,
    progress: Progress | None,
) -> CalibrationApplier | None:
    """Load a calibration, and measure the images for it; None without a calibration."""
    if calibration is None:
        if features is not None:
            raise UsageError("Features are for a calibration, and none is named (--calibration or calibration=).")
        return None
    from beholder.statistics.calibration_features import (
        CalibrationApplier,
        measure_cases,
        merge_features,
        read_features,
    )
    from beholder.statistics.calibration_task import read_image_cases
    from beholder.verdicts.calibration import load_calibration

    loaded = load_calibration(calibration)
    extra = {} if features is None else read_features(Path(features))
    if images is None or not loaded.instrument_names:
        return CalibrationApplier(loaded, extra, anyway)
    measured, unmeasured = measure_cases(read_image_cases(images), loaded.instrument_names, progress)
    return CalibrationApplier(loaded, merge_features(extra, measured), anyway, len(measured), unmeasured)


def import_ratings(
    run: str | Run,
    path: str | os.PathLike[str],
    *,
    map_: Pairs = (),
    rating_scale: Scales = (),
    ledger: LedgerLike = None,
) -> RatingsImport:
    """Take ratings from a file as reviews of a run, one for each rater.

    Where a rating is there already, what the file says takes its place and the rest stays.

    Args:
        run: The run that was rated: a `Run`, or its id, the start of it, its name, `latest` …: see `Run.load`.
        path: CSV or JSONL with case, rater, aspect, score. An aspect is a criterion of the run's rubric or one of its
            assertions (1 yes, 0 no). `score` is computed and not taken. Of a run of pairs: votes with case, rater,
            aspect (`overall`, or a criterion), winner (`first`, `second`, `tie`, `both_bad`) and order (`given`,
            `swapped`, or empty if that is not known); or the rows of public boards (`case`, `judge`, `model_a`,
            `model_b`, `winner`).
        map_: For other aspects the criterion that is meant: `{"looks": "accuracy"}`, or `["looks=accuracy"]`.
        rating_scale: The people's scale, where it is not the one of the criterion: `(0, 1)`, or `{"looks": (0, 1)}`.
            Its ends are mapped to the ends of the criterion's scale. Assertions stay 1 and 0.
        ledger: The ledger of a run that is given by name; see `Run.load`.

    Returns:
        How many cases each rater has rated, and notes.

    Raises:
        UsageError: Something in the file does not fit the run; it lists everything, and nothing is imported.
        LedgerError: There is no such run.
    """
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"Ratings are imported from a CSV or JSONL file, and {type(path).__name__} is no path.")
    name, place = _locate(run, ledger)
    with open_ledger(place, read_only=False) as opened:
        if not opened.run(name).is_preference:
            return review_ratings.import_ratings(opened, name, Path(path), to_pairs(map_), to_scales(rating_scale))
        if to_pairs(map_):
            raise UsageError("Votes on pairs have the aspects of their rubric, and nothing is mapped (--map or map_=).")
        if to_scales(rating_scale):
            raise UsageError("Votes on pairs are on no scale (--rating-scale or rating_scale=).")
        return import_votes(opened, name, Path(path))


def export_ratings(
    run: str | Run,
    output: OutputFile,
    *,
    raters: str | Sequence[str] = (),
    force: bool = False,
    ledger: LedgerLike = None,
) -> None:
    """Write the ratings of a run as CSV: case, rater, aspect, score.

    An aspect is a criterion by its key, `score` for the overall (0 to 1, computed), or an assertion by its id (1 yes,
    0 no). What was not answered has no row. Of a run of pairs: case, rater, aspect, winner, order; see
    `import_ratings`.

    Args:
        run: The run that was rated, or one person's review of it; see `import_ratings`.
        output: A path, or an open binary file.
        raters: Only these raters.
        force: Overwrite a file that holds no ratings. Without it only ratings, or an empty file, are replaced.
        ledger: The ledger of a run that is given by name; see `Run.load`.

    Raises:
        UsageError: Nobody rated the run, or not all of these raters did; or the file cannot be written, or holds
            something else.
        LedgerError: There is no such run.
    """
    name, place = _locate(run, ledger)
    with open_ledger(place) as opened:
        record = opened.run(name)
        reviews = list_reviews(opened, record.id)
        if record.is_review:  # one person's ratings, named by their own run
            reviews = [load_review(opened, record.id)]
            record = opened.run(reviews[0].run)
        if raters:
            wanted = {rater.casefold() for rater in ([raters] if isinstance(raters, str) else raters)}
            known = ", ".join(review.rater for review in reviews) or "nobody"
            reviews = [review for review in reviews if review.rater.casefold() in wanted]
            if len(reviews) < len(wanted):
                raise UsageError(f"Not all of these rated the run {record.id}; who did: {known}.")
        if not reviews:
            raise UsageError(
                f"Nobody reviewed the run {record.id} ({record.name}); `beholder view` lets people rate it, and "
                "`beholder ratings import` takes ratings from a file."
            )
        with open_output(opened, output, OutputKind.RATINGS, force=force) as file:
            format_csv = format_votes_csv if record.is_preference else format_ratings_csv
            file.writelines(format_csv(opened, record.id, reviews))


def _locate(run: str | Run, ledger: LedgerLike) -> tuple[str, LedgerLike]:
    return (run.id, run.address) if isinstance(run, Run) else (run, ledger)
