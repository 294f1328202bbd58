"""Calibration (`beholder calibrate`): choosing and testing a map from a judge's numbers to people's mean rating.

    task = build_task(scores, ratings, column)      data to learn from, for one aspect
    result = calibrate(task)                        fits every recipe, chooses one, and tests it on unseen cases
    saved = build_document([result], made)          the maps that help, as plain JSON

Candidates are scored on cases that they have not seen (`calibration_evaluation`), of which the intervals of calibrated
scores are computed too (`calibration_held_out`).

Calibration files are read and applied in `verdicts.calibration`, since a run applies one to every verdict.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from beholder.bands import IntervalBand
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.bootstrap import Interval, to_json_values
from beholder.statistics.calibration_evaluation import (
    AS_CHOSEN,
    ONE_RATER,
    RAW_JUDGE,
    CandidateEvaluation,
    CandidateScore,
    MapChoice,
    Predicted,
    SelectionMeasure,
)
from beholder.statistics.calibration_held_out import INTERVAL_COVERAGE, conformal_bands, conformal_bounds
from beholder.statistics.calibration_recipes import CONSTANT_NAME, RECIPES, CalibrationRecipe, assign_folds
from beholder.statistics.calibration_task import CalibrationTask, FittedMap
from beholder.statistics.data import Floats
from beholder.verdicts.calibration import (
    CALIBRATION_FORMAT,
    CALIBRATION_KIND,
    AspectMap,
    MapInput,
    aspect_to_dict,
)

DEFAULT_FOLDS = 10


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationChoice:
    """The result of `calibrate`.

    Attributes:
        tasks: The calibrated aspects.
        by: What the map was chosen by.
        chosen: Name of the chosen recipe.
        rows: Scores by recipe, with `RAW_JUDGE`, `ONE_RATER` and `AS_CHOSEN` (nested choice).
        new_model: Scores of the chosen recipe, the judge and a constant with each maker left out; empty where makers
            are not known.
        new_model_and_photo: The same with each maker and each fold of photographs left out at once; only the thresholds
            beyond which an end of the scale is predicted are found on other makers' images of all photographs.
        helps: Whether the chosen map is worth applying.
        why: The reason for `helps`, in a sentence.
        maker_note: A sentence on what remains of the gain for new makers and photographs.
        learned_makers: Whether nothing remains.
        interval_note: A sentence on how intervals were computed.
        maps: The fitted maps by aspect.
        refused: Aspects that were taken together with others and whose own map is no nearer to people than a constant,
            each with a sentence.
        error_bounds: By aspect, what to add to a prediction for the interval that covers `INTERVAL_COVERAGE` of the
            ratings; the whole scale where there are too few groups.
        bands: By aspect, the same by thirds of the prediction; empty where there are too few groups.
        weight: The weight of the chosen map beside the line through the judge's own number; 1 for the map alone.
    """

    tasks: tuple[CalibrationTask, ...]
    by: SelectionMeasure
    chosen: str
    rows: Mapping[str, CandidateScore]
    new_model: Mapping[str, CandidateScore]
    new_model_and_photo: Mapping[str, CandidateScore]
    helps: bool
    why: str
    maker_note: str
    learned_makers: bool
    interval_note: str
    maps: Mapping[str, FittedMap] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    error_bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    bands: Mapping[str, tuple[IntervalBand, ...]] = field(default_factory=dict)
    weight: float = 1.0

    def is_worth_having(self, task: CalibrationTask) -> bool:
        """Return whether the map of an aspect is saved without being asked for."""
        return self.helps and task.aspect not in self.refused

    @property
    def aspect(self) -> str:
        return ", ".join(task.aspect for task in self.tasks)

    @property
    def has_intervals(self) -> bool:
        """Whether the intervals of calibrated scores are narrower than the scale."""
        return all(self.error_bounds[task.aspect] != _full_scale_errors(task) for task in self.tasks)


def calibrate(
    *tasks: CalibrationTask,
    recipes: Mapping[str, CalibrationRecipe] = RECIPES,
    by: SelectionMeasure = SelectionMeasure.ERROR,
    folds: int = DEFAULT_FOLDS,
    seed: int = DEFAULT_SEED,
    draw_count: int = DEFAULT_DRAWS,
) -> CalibrationChoice:
    """Fit every recipe, choose one by nested cross-validation, and decide whether it helps.

    A map helps where it is closer to people than the raw judge on the human scale and than a constant, each by a paired
    interval that excludes 0. By `SelectionMeasure.RANK` the first is in ρ, and the second is that ρ is above 0.

    Args:
        tasks: One aspect; or several, rated on one scale. These get one choice and one decision by their mean, and a
            map each, for where each alone has too few ratings.
        recipes: Recipes to try, by name, the simplest first.
        by: What the map is chosen by.
        folds: Number of folds.
        seed: Seed of folds and draws.
        draw_count: Number of bootstrap draws.

    Raises:
        UsageError: All cases are of one group, or the scales of the tasks differ.
    """
    evaluation = CandidateEvaluation(tasks, recipes, folds, seed, draw_count)
    choice = evaluation.choose(by)
    choices = [evaluation.choose(by, without=int(number)) for number in np.unique(evaluation.fold)]
    as_chosen = evaluation.predict_as_chosen(choices)
    predictions = {name: evaluation.predict(MapChoice(name)) for name in recipes}
    constant = predictions[CONSTANT_NAME] = evaluation.predict_constant()
    rows = evaluation.score({**predictions, AS_CHOSEN: as_chosen}) | {ONE_RATER: evaluation.score_one_rater()}
    helps, why = _decide_if_it_helps(rows[AS_CHOSEN], choice, by)
    new_model: dict[str, CandidateScore] = {}
    new_model_and_photo: dict[str, CandidateScore] = {}
    makers, learned = "", False
    if evaluation.maker_count:
        new_model = evaluation.score(_predict_new_makers(evaluation, choice, and_photo=False))
        new_model_and_photo = evaluation.score(
            _predict_new_makers(evaluation, choice, and_photo=True)
            | {AS_CHOSEN: evaluation.predict_as_chosen(choices, new_makers=True)}
        )
        makers, learned = _describe_unseen_makers(choice, rows, new_model_and_photo, by)
    said = [values for values, _ in as_chosen]
    return CalibrationChoice(
        tasks=tuple(tasks),
        by=by,
        chosen=choice.recipe,
        rows=rows,
        new_model=new_model,
        new_model_and_photo=new_model_and_photo,
        helps=helps,
        why=why,
        maker_note=makers,
        learned_makers=learned,
        interval_note=evaluation.bootstrap.describe(),
        maps={task.aspect: fitted for task, fitted in zip(tasks, evaluation.fit_to_all(choice), strict=True)},
        refused=_refuse_aspects(tasks, said, constant) if len(tasks) > 1 else {},
        error_bounds={task.aspect: _bound_errors(task, found) for task, found in zip(tasks, said, strict=True)},
        bands={
            task.aspect: conformal_bands(
                found, task.mean, task.group_index, assign_folds(task.group_index, folds, seed)
            )
            for task, found in zip(tasks, said, strict=True)
        },
        weight=choice.weight,
    )


def _predict_new_makers(
    evaluation: CandidateEvaluation, choice: MapChoice, *, and_photo: bool
) -> dict[str, list[Predicted]]:
    """Return what a constant and the chosen map say of makers that they have not seen."""
    predict = partial(evaluation.predict_new_makers, and_photo=and_photo)
    chosen = {} if choice.recipe == CONSTANT_NAME else {choice.recipe: predict(choice)}
    return {CONSTANT_NAME: evaluation.predict_constant(predict), **chosen}


def _refuse_aspects(
    tasks: Sequence[CalibrationTask], said: Sequence[Floats], constant: Sequence[Predicted]
) -> dict[str, str]:
    """Return the aspects whose map has no less error than a constant, each with a sentence."""
    refused = {}
    for task, values, (median, _) in zip(tasks, said, constant, strict=True):
        error, rival = (float(np.nanmean(np.abs(one - task.mean))) for one in (values, median))
        if error >= rival:
            refused[task.aspect] = f"{task.aspect}: the map's error is {error:.3f}, a constant's {rival:.3f}."
    return refused


def _decide_if_it_helps(row: CandidateScore, choice: MapChoice, by: SelectionMeasure) -> tuple[bool, str]:
    gain, against = (row.rho_gain, row.rho) if by is SelectionMeasure.RANK else (row.error_gain, row.constant_gain)
    chosen = _name_choice(choice)
    if choice.recipe == CONSTANT_NAME:
        return False, "A constant is as near to people as anything that was learned from the judge."
    if gain is None or not _is_above_zero(gain):
        return False, f"The chosen map ({chosen}) is not surely nearer to people than the raw judge."
    if against is not None and not _is_above_zero(against):
        return False, f"The chosen map ({chosen}) is not surely nearer to people than a constant."
    return True, f"The chosen map ({chosen}) is nearer to people than the raw judge and than a constant."


def _name_choice(choice: MapChoice) -> str:
    if choice.weight == 1:
        return choice.recipe
    share = f"{choice.weight:.0%} of it beside {1 - choice.weight:.0%} of the line through the judge's own number"
    return f"{choice.recipe}, {share}, chosen on makers and photographs that it had not seen"


def _is_above_zero(estimate: Interval) -> bool:
    return estimate.low is not None and estimate.low > 0


def _describe_unseen_makers(
    choice: MapChoice, rows: Mapping[str, CandidateScore], unseen: Mapping[str, CandidateScore], by: SelectionMeasure
) -> tuple[str, bool]:
    """Describe what remains of the gain for new makers and photographs; also return whether nothing remains."""
    if by is SelectionMeasure.RANK:
        what, seen, kept = "ρ", rows[AS_CHOSEN].rho.value, unseen[AS_CHOSEN].rho.value
        without = max(rows[RAW_JUDGE].rho.value or 0.0, 0.0)
        gained, lost = seen is not None and seen > without, kept is None or kept <= without
    else:
        what, seen, kept = "the error", rows[AS_CHOSEN].error.value, unseen[AS_CHOSEN].error.value
        rivals = [rows[RAW_JUDGE].error.value, unseen[CONSTANT_NAME].error.value]
        without = min((rival for rival in rivals if rival is not None), default=0.0)
        gained, lost = seen is not None and seen < without, kept is None or kept >= without
    first, then = ("not defined" if value is None else f"{value:.3f}" for value in (seen, kept))
    sentence = f"Where the map has seen other images of the same maker, {what} of {choice.recipe} is {first}; "
    sentence += f"where it has seen neither the maker nor the photograph, {then}"
    if not lost:
        better = "still better" if _is_surely_better(unseen[AS_CHOSEN], by) else "not surely better"
        return f"{sentence}, {better} than without any map ({without:.3f}).{_describe_lost_order(unseen, by)}", False
    gained = gained and not (choice.recipe in RECIPES and RECIPES[choice.recipe].raw_only)  # the judge alone
    learned = ": it learned who made the image" if gained else ""
    return f"{sentence}, no better than without any map ({without:.3f}){learned}.", gained


def _is_surely_better(row: CandidateScore, by: SelectionMeasure) -> bool:
    """Return whether a map is better than the judge, and than a constant, by intervals that exclude 0."""
    gains = [row.rho_gain] if by is SelectionMeasure.RANK else [row.error_gain, row.constant_gain]
    return all(gain is not None and _is_above_zero(gain) for gain in gains)


def _describe_lost_order(unseen: Mapping[str, CandidateScore], by: SelectionMeasure) -> str:
    """Return a sentence where a map is closer to people, but orders images of a new maker no better than the judge."""
    order, judge = unseen[AS_CHOSEN].rho.value, unseen[RAW_JUDGE].rho.value
    if by is SelectionMeasure.RANK or order is None or judge is None or order > judge:
        return ""
    return f" Its order is then no better than the judge's own (ρ {order:.3f} and {judge:.3f})."


def _bound_errors(task: CalibrationTask, predictions: Floats) -> tuple[float, float]:
    """Return what to add to a prediction for its interval: the whole scale where too little is known."""
    return conformal_bounds(task.mean - predictions, task.group_index) or _full_scale_errors(task)


def _full_scale_errors(task: CalibrationTask) -> tuple[float, float]:
    width = task.scale[1] - task.scale[0]
    return -width, width


def build_document(
    results: Sequence[CalibrationChoice], made: Mapping[str, object], *, anyway: bool = False
) -> dict[str, Any]:
    """Return the maps of all results that help as the JSON values of a calibration file.

    Args:
        results: Results of `calibrate`.
        made: Where the maps come from. A verdict must be by one of its `judges` and `rubrics` for them to be applied.
        anyway: Also the maps that do not help.
    """
    aspects = {
        task.aspect: aspect_to_dict(build_aspect_map(result, task))
        for result in results
        for task in result.tasks
        if anyway or result.is_worth_having(task)
    }
    return {"kind": CALIBRATION_KIND, "format": CALIBRATION_FORMAT, "made": dict(made), "aspects": aspects}


def build_aspect_map(result: CalibrationChoice, task: CalibrationTask) -> AspectMap:
    """Return the chosen map of an aspect in the form in which it is applied."""
    fitted: FittedMap = result.maps[task.aspect]
    inputs = tuple(
        MapInput(fitted.names[place], median, missing)
        for place, median, missing in zip(
            fitted.usable.positions, fitted.usable.medians, fitted.usable.missing_shares, strict=True
        )
    )
    low, high = result.error_bounds[task.aspect]
    return AspectMap(
        task.aspect,
        task.scale,
        task.raw.name,
        inputs,
        fitted.map,
        low,
        high,
        INTERVAL_COVERAGE,
        summarize_task(result, task),
        result.bands[task.aspect],
    )


def summarize_task(result: CalibrationChoice, task: CalibrationTask) -> dict[str, Any]:
    """Return the scores of all candidates and the data they are of, as JSON values."""
    unseen = {"maker_unseen": result.new_model, "neither_maker_nor_photograph_seen": result.new_model_and_photo}
    return {
        "cases": len(task.cases),
        "raters": len(task.ratings.raters),
        "groups": len(set(task.group_index.tolist())),
        "together_with": [other.aspect for other in result.tasks if other is not task],
        "chosen": result.chosen,
        "by": str(result.by),
        "helps": result.helps,
        "why": result.why,
        "learned_makers": result.learned_makers,
        "makers": result.maker_note,
        "left_out": dict(result.maps[task.aspect].usable.left_out) if result.maps else {},
        **{
            key: {name: to_json_values(row) for name, row in rows.items()}
            for key, rows in ({"rows": result.rows} | unseen).items()
        },
        "intervals": result.interval_note,
    }


def format_json(values: object, depth: int = 0) -> str:
    """Format JSON for people: short values, and every list of numbers, on one line."""
    flat = json.dumps(values, ensure_ascii=False, allow_nan=False)
    if isinstance(values, dict):
        items = [f"{json.dumps(key, ensure_ascii=False)}: {format_json(one, depth + 1)}" for key, one in values.items()]
    elif isinstance(values, list) and any(isinstance(value, dict) for value in values):
        items = [format_json(value, depth + 1) for value in values]
    else:
        return flat
    indent = "\n" + "  " * (depth + 1)
    return flat if len(flat) <= 100 else flat[0] + indent + f",{indent}".join(items) + indent[:-2] + flat[-1]
