"""What recorded judges and the instruments together say of people's ratings: calibrations on ImagenHub.

    python benchmarks/alignment/calibration.py [--fit DIR] [--data DIR] [--json]

DIR is laid out like `../shared/data` (the default for both) and holds `imagenhub/`. Text-guided edits. The numbers of
GPT-4o and Gemini (0-shot) are brought along as in `examples/foreign-judge`; a number that an answer lacks is missing,
and the others count. Every instrument measures every pair of images. The map is chosen and finished as `beholder
calibrate` does, for each aspect: by its error on edits of which it has seen neither maker nor photograph.

One folder: each photograph's edits by a map of the others' (ten folds). Two folders: fitted on the one and tested on
the other, without photographs that both hold. ρ of several folds is of positions among what one map says (see
`statistics.calibration_held_out`). Compared with GPT-4o alone (the lower of its two numbers, 10 being 1), with a
constant (the median) and with one rater against the mean of the others, while all else is compared with the mean of all
three.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import claims
import imagenhub
import numpy as np
from claims import Claim, Table
from imagenhub import Edits

from beholder.bands import IntervalBand
from beholder.judges.recorded import RecordedAnswer, Rescorer
from beholder.rubrics.load import load_rubric
from beholder.statistics.aspects import find_column
from beholder.statistics.bootstrap import ClusterBootstrap, Interval, Statistic
from beholder.statistics.calibration import DEFAULT_FOLDS
from beholder.statistics.calibration_evaluation import (
    CandidateEvaluation,
    MapChoice,
    SelectionMeasure,
    absolute_error_statistic,
    one_rater_statistics,
    rank_correlation_statistic,
)
from beholder.statistics.calibration_features import ExtraFeatures, list_juror_features, measure_pixels, merge_features
from beholder.statistics.calibration_held_out import conformal_bands, interval_ends
from beholder.statistics.calibration_recipes import RECIPES, CalibrationRecipe
from beholder.statistics.calibration_task import CalibrationTask, TaskOptions, build_task
from beholder.statistics.data import Bools, Floats, Scores, read_ratings, tabulate_verdicts

EXAMPLE = Path(__file__).parents[2] / "examples" / "foreign-judge"
ANSWERED_BY = {"SC": "min(edit_success, over_editing)", "PQ": "min(naturalness, artefacts)"}
SECOND = "gemini_0shot"  # the judge beside GPT-4o

ONE, JURY, NEITHER, JUDGE, CONSTANT, RATER = (
    "GPT-4o and the instruments",
    "GPT-4o, Gemini and the instruments",
    "neither maker nor photograph seen",
    "GPT-4o alone",
    "a constant",
    "one rater against the others",
)
SUCCESSFUL = "edits that GPT-4o calls successful"
SUCCESS = 7  # GPT-4o's first `SC` number from which it calls an edit successful
RHO, ERROR = "ρ", "mean absolute error"
AIMS = {"SC": 0.73, "PQ": 0.75}
SUCCESSFUL_AIM = 0.62
COVERED = (0.75, 0.85)
ROUNDING = 1e-9

Said = tuple[Floats, Floats]
"""What is said of each case, and the number by which it is ordered."""


def converter() -> ModuleType:
    """`answers.py` of the example."""
    spec = importlib.util.spec_from_file_location("answers", EXAMPLE / "answers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded_scores(folder: Path, edits: Edits, judge: str = imagenhub.JUDGE) -> Scores:
    """What a judge said of these edits, by way of the example's converter and rubric; of a short answer what it has."""
    groups = {row.id: {"source": row.source, "model": row.model} for row in edits.rows}
    rescorer = Rescorer(load_rubric(str(EXAMPLE)))
    answers = converter().answers(folder / imagenhub.SET / "judge_scores.jsonl", judge)
    verdicts = []
    for one in answers:
        if one["case"] in groups:
            recorded = RecordedAnswer(one["case"], one["answer"], {}, one["judge"])
            verdict, rubric = rescorer.verdict(recorded)
            valid = None if verdict.answered else rescorer.valid_criteria(recorded, rubric)
            verdicts.append(verdict if valid is None else replace(verdict, criteria=valid))
    return tabulate_verdicts(judge, ((one, groups[one.case]) for one in verdicts))


def tasks_of(folder: Path) -> dict[tuple[str, str], CalibrationTask] | None:
    """What there is to learn in a folder, by aspect and judges; None where the data is not there."""
    everything = imagenhub.load(folder)
    if everything is None:
        return None
    edits = everything.chosen(np.array([row.task == "text" for row in everything.rows]))
    pixels, failed = measure_pixels({row.id: (row.before, row.after) for row in edits.rows})
    if failed:
        case, why = next(iter(failed.items()))
        raise SystemExit(f"{len(failed)} edits of {folder} could not be measured, the first {case}: {why}")
    scores, second = recorded_scores(folder, edits), recorded_scores(folder, edits, SECOND)
    extra = {ONE: pixels}
    if second.cases:
        extra[JURY] = merge_features(pixels, list_juror_features(second, SECOND))
    ratings = read_ratings(folder / imagenhub.SET / "ratings.csv")
    return {
        (aspect, who): build_task(
            scores, ratings[aspect], find_column(by, scores), TaskOptions(scale=(0, 1)), ExtraFeatures(numbers)
        )
        for aspect, by in ANSWERED_BY.items()
        for who, numbers in extra.items()
    }


def predicted(
    known: CalibrationTask, tested: CalibrationTask, recipes: Mapping[str, CalibrationRecipe], same: bool
) -> tuple[dict[str, Said], str, list[IntervalBand]]:
    """What maps say of cases whose photograph they have not seen, and of which neither maker nor photograph, and a
    constant; with the name of the map that was chosen, and the intervals by thirds of the prediction, learned from
    known cases, with their coverage of the tested ones."""
    if not same:
        known = known.select(claims.fresh(known.groups, tested.groups))
    evaluation = CandidateEvaluation([known], recipes, DEFAULT_FOLDS, known.seed, 1)
    choice = evaluation.choose(SelectionMeasure.ERROR)
    name = f"{choice.recipe}, weight {choice.weight:g}"
    folds = [evaluation.choose(SelectionMeasure.ERROR, without=int(one)) for one in np.unique(evaluation.fold)]
    held_out = evaluation.predict_as_chosen(folds)[0]
    bands = list(conformal_bands(held_out[0], known.mean, known.group_index, evaluation.fold))
    if not same:
        [fitted], [flat] = evaluation.fit_to_all(choice), evaluation.fit_to_all(MapChoice("constant"))
        values, constant = (tested.clip(one.predict(tested.features)) for one in (fitted, flat))
        return {"": (values, values), CONSTANT: (constant, constant)}, name, tested_bands(bands, values, tested.mean)
    return (
        {
            "": held_out,
            NEITHER: evaluation.predict_as_chosen(folds, new_makers=True)[0],
            CONSTANT: evaluation.predict(MapChoice("constant"))[0],
        },
        name,
        bands,
    )


def tested_bands(bands: Sequence[IntervalBand], values: Floats, ratings: Floats) -> list[IntervalBand]:
    """The bands with their coverage of other cases than they were learned from; without those that have none."""
    if not bands:
        return []
    low, high = interval_ends(bands, values)
    inside = (ratings >= low - ROUNDING) & (ratings <= high + ROUNDING)
    number = np.searchsorted([band.up_to for band in bands[:-1] if band.up_to is not None], values)
    return [
        replace(band, covered=float(inside[number == one].mean()), cases=int((number == one).sum()))
        for one, band in enumerate(bands)
        if (number == one).any()
    ]


def is_honest(band: IntervalBand) -> bool:
    """Whether an interval covers what it should. Where the lowest rating is predicted and more than 85 % of people's
    ratings are exactly that, the interval is this point, and no interval could cover fewer: that is honest too."""
    return COVERED[0] <= band.covered and (band.covered <= COVERED[1] or band.low == band.high == 0)


def table_of(
    known: Mapping[str, CalibrationTask],
    tested: Mapping[str, CalibrationTask],
    recipes: Mapping[str, CalibrationRecipe],
    same: bool,
) -> Table:
    """One aspect, by who was asked."""
    first = tested[ONE]
    said: dict[str, Said] = {JUDGE: (first.judge, first.judge)}
    notes = [
        f"{len(first.cases)} cases, {len(set(first.groups or ()))} photographs, {len(set(first.makers or ()))} models."
    ]
    covered: dict[str, list[IntervalBand]] = {}
    for who, task in tested.items():
        found, name, covered[who] = predicted(known[who], task, recipes, same)
        said |= {f"{who}{': ' + which if which else ''}": one for which, one in found.items() if which != CONSTANT}
        said[CONSTANT] = found[CONSTANT]
        shares = ", ".join(
            f"{band.covered:.0%} of {band.cases} up to {1 if band.up_to is None else band.up_to:.2f} "
            f"({band.low:+.2f} to {band.high:+.2f})"
            for band in covered[who]
        )
        notes.append(f"{who}: {len(task.features.names)} features, {name}; 80 % intervals by thirds cover {shares}.")
    successful = first.features.by_name(("edit_success",)).values[:, 0] >= SUCCESS
    draws = ClusterBootstrap(first.groups, len(first.cases))
    rows = measured(first, said, successful, draws)
    aspect, best = first.aspect, list(tested)[-1]
    wanted = [Claim(f"{aspect}, ρ of {best}", rows[best][RHO], AIMS[aspect])]
    if aspect == "SC":
        wanted.append(Claim(f"{aspect}, ρ of {best}, {SUCCESSFUL}", rows[best][SUCCESSFUL], SUCCESSFUL_AIM))
    if same:
        wanted.append(
            Claim(f"{aspect}, ρ of {best}: {NEITHER} less {JUDGE}", rows[f"{best}: {NEITHER} less {JUDGE}"][RHO], 0)
        )
    share = Interval(float(np.mean([is_honest(band) for band in covered[best]] or [0.0])))
    wanted.append(Claim(f"{aspect}, share of bands with 75 to 85 % coverage, or more at a single point", share, 1))
    return Table(
        f"calibration of {aspect}: recorded judges and the instruments, against the mean of three raters (0–1)",
        notes,
        (RHO, ERROR, SUCCESSFUL),
        rows,
        wanted,
        f"{draws.describe()} ρ is Spearman's: 1 where the order is that of people, 0 where it is any.",
        {"cases": len(first.cases)},
    )


def measured(
    tested: CalibrationTask, said: Mapping[str, Said], successful: Bools, draws: ClusterBootstrap
) -> dict[str, dict[str, Interval]]:
    """ρ and error of each, and differences from the judge, all over the same draws."""
    rows: dict[str, dict[str, Statistic]] = {}
    for name, (values, order) in said.items():
        rows[name] = {ERROR: absolute_error_statistic(values, tested.mean)}
        if name != CONSTANT:
            rows[name][RHO] = rank_correlation_statistic(order, tested.mean)
            rows[name][SUCCESSFUL] = rank_correlation_statistic(np.where(successful, order, np.nan), tested.mean)
    rows[RATER] = dict(zip((RHO, ERROR), one_rater_statistics(tested.ratings.values), strict=True))
    for name in [name for name in said if name not in (JUDGE, CONSTANT)]:
        rows[f"{name} less {JUDGE}"] = {key: _less(one, rows[JUDGE][key]) for key, one in rows[name].items()}
    flat = {(name, heading): one for name, row in rows.items() for heading, one in row.items()}
    found = draws.estimates(lambda weights: {str(key): one(weights) for key, one in flat.items()})
    return {name: {heading: found[str((name, heading))] for heading in row} for name, row in rows.items()}


def _less(one: Statistic, other: Statistic) -> Statistic:
    return lambda weights: one(weights) - other(weights)


def tables(fit: Path, data: Path, recipes: Mapping[str, CalibrationRecipe] = RECIPES) -> list[Table] | None:
    same = fit.resolve() == data.resolve()
    tested = tasks_of(data)
    known = tested if same else tasks_of(fit)
    if known is None or tested is None:
        return None
    return [
        table_of(
            {who: task for (which, who), task in known.items() if which == aspect},
            {who: task for (which, who), task in tested.items() if which == aspect and (aspect, who) in known},
            recipes,
            same,
        )
        for aspect in ANSWERED_BY
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    missing = f"No human ratings of edits there ({imagenhub.SET}/): no calibration to measure."
    return claims.main(__doc__, tables, missing, arguments)


if __name__ == "__main__":
    sys.exit(main())
