"""Calibration (`beholder calibrate`): choosing and testing a map from a judge's numbers to people's mean rating.

    task = build_task(scores, ratings, column)      data to learn from, for one aspect
    result = calibrate(task)                        fits every recipe, chooses one, and tests it on unseen cases
    saved = build_document([result], made)          the maps that help, as plain JSON

Every number is of cases that the map had not seen, nor any case of their group (except `CalibrationResult.new_model`,
where it has seen their photographs). The choice of the recipe is repeated without each fold (nested cross-validation),
so that the score of the chosen one is not the best of many lucky ones. Differences are paired over the same draws;
positive ones favor the map.

The interval of a calibrated score is conformal: the errors of unseen cases stand for the error of the next case, which
itself takes a place among them. Plain quantiles leave out that place, and cover 71 % instead of 80 % with ten cases.
Cases of one group have similar errors, and the next case is of a new group, so that each group has one place, shared
by its cases (Lee, Barber and Willett 2023).

Calibration files are read and applied in `verdicts.calibration`, since a run applies one to every verdict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from beholder.errors import UsageError
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.bootstrap import (
    ClusterBootstrap,
    Estimate,
    Statistic,
    mean_of_defined,
    undefined_estimate,
    weighted_mean,
)
from beholder.statistics.calibration_recipes import RECIPES, CalibrationRecipe, assign_folds
from beholder.statistics.calibration_task import (
    MAX_CROSSED_MAKER_FOLDS,
    CalibrationTask,
    FittedMap,
    fit_map,
    predict_out_of_fold,
)
from beholder.statistics.coefficients import pair_scores, rank_statistics
from beholder.statistics.data import Bools, Floats, Ints
from beholder.statistics.raters import rater_distance_statistics, rater_rank_statistics
from beholder.verdicts.calibration import CALIBRATION_FORMAT, CALIBRATION_KIND, AspectMap, MapInput, aspect_to_dict


class SelectionMeasure(StrEnum):
    """What a map is chosen by: the mean absolute error, or the rank correlation (Spearman's ρ) with people."""

    ERROR = "error"
    RANK = "rank"


def rank_correlation_statistic(one: Floats, other: Floats) -> Statistic:
    """Return the statistic for Spearman's ρ over the cases where both are known; nan where either is constant."""
    statistics = rank_statistics(pair_scores(one, other), kendall=False)
    return lambda weights: statistics(weights)["spearman"]


def absolute_error_statistic(predictions: Floats, ratings: Floats) -> Statistic:
    """Return the statistic for the mean absolute difference, over the cases where both are known."""
    return weighted_mean(np.abs(predictions - ratings))


def one_rater_statistics(raters: Floats) -> tuple[Statistic, Statistic]:
    """Return the statistics for ρ and error of one rater against the others, as `agree` computes them."""
    order, away = rater_rank_statistics(raters), rater_distance_statistics(raters)
    return lambda weights: order(weights)["rater_spearman"], lambda weights: away(weights)["rater_mae"]


def average_statistics(statistics: list[Statistic]) -> Statistic:
    """Return the statistic for the mean of those statistics that are defined in a draw; nan where none is."""

    def statistic(weights: Floats) -> Floats:
        if not statistics:
            return np.full(len(weights), np.nan)
        return mean_of_defined([statistic(weights) for statistic in statistics])

    return statistic


INTERVAL_COVERAGE = 0.8  # of the cases: the share whose mean rating lies within the interval of a calibrated score
_SHARE_TOLERANCE = 1e-9  # what may be lacking where shares are added up


def conformal_bounds(away: Floats, groups: Ints) -> tuple[float, float] | None:
    """Return what to add to a prediction for the two ends of its interval.

    Args:
        away: People's mean minus the out-of-fold prediction of each case; nan where there is none.
        groups: Group of each case.

    Returns:
        None where there are too few groups (fewer than 9).
    """
    known = ~np.isnan(away)
    _, place, sizes = np.unique(groups[known], return_inverse=True, return_counts=True)
    share = 1 / (len(sizes) + 1) / sizes[place]
    high = _upper_bound(away[known], share)
    low = _upper_bound(-away[known], share)
    return None if low is None or high is None else (-low, high)


def _upper_bound(away: Floats, share: Floats) -> float | None:
    """Return the smallest error that covers the upper half of the interval."""
    order = np.argsort(away, kind="stable")
    enough = np.cumsum(share[order]) >= (1 + INTERVAL_COVERAGE) / 2 - _SHARE_TOLERANCE
    return float(away[order][enough.argmax()]) if enough.any() else None


SELECTION_FOLDS = 3  # folds within a fold, for the choice
RAW_JUDGE, ONE_RATER, AS_CHOSEN, CONSTANT_NAME = (
    "the raw judge",
    "one rater against the others",
    "as chosen",
    "constant",
)

Predictions = Mapping[str, Sequence[Floats]]
"""By candidate, its predictions for each task."""


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """How close a candidate is to people; gains are paired and positive where it is closer.

    Attributes:
        rho: Spearman's ρ with the mean rating.
        error: Mean absolute error.
        rho_gain: Gain in ρ over the raw judge.
        error_gain: Gain in error over the raw judge.
        constant_gain: Gain in error over a constant.
    """

    rho: Estimate
    error: Estimate
    rho_gain: Estimate | None = None
    error_gain: Estimate | None = None
    constant_gain: Estimate | None = None

    def to_dict(self) -> dict[str, object]:
        given = {
            "rho": self.rho,
            "error": self.error,
            "rho_gain_over_judge": self.rho_gain,
            "error_gain_over_judge": self.error_gain,
            "error_gain_over_constant": self.constant_gain,
        }
        return {name: estimate.to_dict() for name, estimate in given.items() if estimate is not None}


class CandidateEvaluation:
    """Evaluates candidate maps for one or more tasks on the same folds and draws.

    Folds and draws are over the cases of all tasks; scores of several tasks are means over them.

    Raises:
        UsageError: The tasks' scales differ, or all cases are of one group.
    """

    def __init__(
        self, tasks: Sequence[CalibrationTask], recipes: Mapping[str, CalibrationRecipe], seed: int, draw_count: int
    ) -> None:
        if len({task.scale for task in tasks}) > 1:
            raise UsageError("Aspects that are rated on different scales cannot be taken together; do one at a time.")
        self.tasks, self.recipes, self.seed = tuple(tasks), dict(recipes), seed
        names: dict[str, str] = {}
        for task in tasks:
            names |= dict(zip(task.cases, task.groups or ("",) * len(task.cases), strict=True))
        place = {case: row for row, case in enumerate(names)}
        self._rows: list[Ints] = [np.array([place[case] for case in task.cases], np.int64) for task in tasks]
        groups = list(names.values()) if any(names.values()) else None
        self.bootstrap = ClusterBootstrap(groups, len(names), count=draw_count, seed=seed)
        self.groups = self.bootstrap.group_index
        if self.bootstrap.group_count < 2:
            raise UsageError("All cases are of one group, so that nothing can be held back to test a map on.")
        self._means = [task.mean for task in tasks]
        self.judges = [task.judge for task in tasks]

    def folds(self, count: int) -> Ints:
        """Assign the cases to folds."""
        return assign_folds(self.groups, count, self.seed)

    def predict_across(self, fold: Ints) -> dict[str, list[Floats]]:
        """Predict each case by maps that saw none of its fold, for each recipe."""
        return {
            name: [predict_out_of_fold(task, recipe, fold[rows]) for task, rows in self._tasks_with_rows()]
            for name, recipe in self.recipes.items()
        }

    def predict_within(self, some: Bools) -> dict[str, list[Floats]]:
        """Cross-validate within some of the cases, for each recipe; nan for the rest."""
        fold = np.full(len(some), -1, np.int64)
        fold[some] = assign_folds(self.groups[some], SELECTION_FOLDS, self.seed)
        return {
            name: [
                predict_out_of_fold(task, recipe, fold[rows], rows=some[rows]) for task, rows in self._tasks_with_rows()
            ]
            for name, recipe in self.recipes.items()
        }

    def score_new_makers(self, names: Collection[str], fold: Ints | None = None) -> dict[str, CandidateScore]:
        """Score recipes on cases by makers that the maps have not seen.

        Without `fold` the maps have seen the same photograph by other makers, with its ratings; with it they have seen
        neither. Empty where a task does not know the makers, or has only one.
        """
        if any(task.makers is None or len(set(task.makers)) < 2 for task in self.tasks):
            return {}
        divided: list[tuple[Ints, ...]] = [
            (task.maker_folds(),) if fold is None else (task.maker_folds(MAX_CROSSED_MAKER_FOLDS), fold[rows])
            for task, rows in self._tasks_with_rows()
        ]
        predictions = {
            name: [predict_out_of_fold(task, recipe, *by) for task, by in zip(self.tasks, divided, strict=True)]
            for name, recipe in self.recipes.items()
            if name in names
        }
        return self.score(predictions)

    def choose_best(self, predictions: Predictions, by: SelectionMeasure) -> str:
        """Return the candidate that is closest to people; of equal ones the first, which is the simplest."""
        distances = {name: self._distance(name, prediction, by) for name, prediction in predictions.items()}
        return min(distances, key=lambda name: distances[name])

    def predict_nested(
        self, predictions: Predictions, fold: Ints, by: SelectionMeasure
    ) -> tuple[list[Floats], set[str]]:
        """Predict each fold by the recipe that is best without it; also return the recipes that were chosen."""
        nested = [np.full(len(task.cases), np.nan) for task in self.tasks]
        picked = set()
        for number in np.unique(fold):
            name = self.choose_best(self.predict_within(fold != number), by)
            picked.add(name)
            for values, predicted, rows in zip(nested, predictions[name], self._rows, strict=True):
                out = fold[rows] == number
                values[out] = predicted[out]
        return nested, picked

    @cached_property
    def constant_recipes(self) -> frozenset[str]:
        """Recipes whose map is constant, so that it has no order.

        Across folds it would seem to have one, negatively correlated with people: without a fold of high ratings the
        constant of the others is lower.
        """
        return frozenset(
            name
            for name, recipe in self.recipes.items()
            if all(np.ptp(task.clip(fit_map(task, recipe).predict(task.features))) == 0 for task in self.tasks)
        )

    @property
    def order_preserving(self) -> frozenset[str]:
        """Recipes that keep the judge's order, and so its ρ.

        Across folds they would seem to lose some of it, since the shift differs a little from fold to fold.
        """
        return frozenset(name for name, recipe in self.recipes.items() if recipe.keeps_order)

    def score(self, predictions: Predictions, chosen: Set[str] = frozenset()) -> dict[str, CandidateScore]:
        """Score predictions and the raw judge; `chosen` are the recipes behind the predictions `AS_CHOSEN`."""
        candidates = {RAW_JUDGE: self.judges, **predictions}
        recipes_behind = {name: {name} for name in candidates} | {AS_CHOSEN: set(chosen)}
        rho = {
            name: self._average_over_tasks(
                rank_correlation_statistic, self.judges if recipes_behind[name] <= self.order_preserving else candidate
            )
            for name, candidate in candidates.items()
            if not recipes_behind[name] <= self.constant_recipes
        }
        error = {
            name: self._average_over_tasks(absolute_error_statistic, candidate)
            for name, candidate in candidates.items()
        }

        def statistics(weights: Floats) -> dict[str, Floats]:
            rhos = {name: statistic(weights) for name, statistic in rho.items()}
            errors = {name: statistic(weights) for name, statistic in error.items()}
            found = {f"rho {name}": rho for name, rho in rhos.items()}
            found |= {f"error {name}": error for name, error in errors.items()}
            found |= {f"rho_gain {name}": rho - rhos[RAW_JUDGE] for name, rho in rhos.items()}
            found |= {f"error_gain {name}": errors[RAW_JUDGE] - error for name, error in errors.items()}
            if CONSTANT_NAME in errors:
                found |= {f"constant_gain {name}": errors[CONSTANT_NAME] - error for name, error in errors.items()}
            return found

        found = self.bootstrap.estimates(statistics)
        none = undefined_estimate("a constant has no order")
        return {
            name: CandidateScore(
                found.get(f"rho {name}", none),
                found[f"error {name}"],
                found.get(f"rho_gain {name}") if name != RAW_JUDGE else None,
                found[f"error_gain {name}"] if name != RAW_JUDGE else None,
                found.get(f"constant_gain {name}") if name != CONSTANT_NAME else None,
            )
            for name in candidates
        }

    def score_one_rater(self) -> CandidateScore:
        """Score one rater against the mean of the others.

        That mean is of fewer raters, and so less precise, than the mean of all that a map is compared with: a good map
        may well be closer than this.
        """
        each = [(one_rater_statistics(task.ratings.values), rows) for task, rows in self._tasks_with_rows()]
        rho, error = (average_statistics([_restrict_rows(both[side], rows) for both, rows in each]) for side in (0, 1))
        why = "fewer than two people rated the same cases"
        return CandidateScore(self.bootstrap.estimate(rho, why), self.bootstrap.estimate(error, why))

    def _tasks_with_rows(self) -> Iterator[tuple[CalibrationTask, Ints]]:
        return zip(self.tasks, self._rows, strict=True)

    def _distance(self, name: str, predictions: Sequence[Floats], by: SelectionMeasure) -> float:
        if by is SelectionMeasure.RANK and name == CONSTANT_NAME:
            return 0.0
        kind = rank_correlation_statistic if by is SelectionMeasure.RANK else absolute_error_statistic
        ordered = self.judges if by is SelectionMeasure.RANK and name in self.order_preserving else predictions
        measured = []
        for mean, one, known in zip(
            self._means, ordered, (~np.isnan(prediction) for prediction in predictions), strict=True
        ):
            value = float(kind(one[known], mean[known])(np.ones((1, int(known.sum()))))[0])
            measured.append((0.0 if np.isnan(value) else -value) if by is SelectionMeasure.RANK else value)
        return float(np.mean(measured))

    def _average_over_tasks(
        self, kind: Callable[[Floats, Floats], Statistic], predictions: Sequence[Floats]
    ) -> Statistic:
        """Return the statistic for the mean over the tasks of a statistic of predictions and ratings."""
        return average_statistics(
            [
                _restrict_rows(kind(prediction, mean), rows)
                for prediction, mean, rows in zip(predictions, self._means, self._rows, strict=True)
            ]
        )


def _restrict_rows(statistic: Statistic, rows: Ints) -> Statistic:
    """Return a statistic of some cases as a statistic of all."""
    return lambda weights: statistic(weights[:, rows])


DEFAULT_FOLDS = 10


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationResult:
    """The result of `calibrate`.

    Attributes:
        tasks: The calibrated aspects.
        by: What the map was chosen by.
        chosen: Name of the chosen recipe.
        rows: Scores by recipe, with `RAW_JUDGE`, `ONE_RATER` and `AS_CHOSEN` (nested choice).
        new_model: Scores of the chosen recipe, the judge and a constant with each maker left out; empty where makers
            are not known.
        new_model_and_photo: The same with each maker and each fold of photographs left out at once.
        helps: Whether the chosen map is worth applying.
        why: The reason for `helps`, in a sentence.
        maker_note: A sentence on what remains of the gain for new makers and photographs.
        learned_makers: Whether nothing remains.
        interval_note: A sentence on how intervals were computed.
        maps: The fitted maps by aspect; empty where they do not help.
        error_bounds: By aspect, what to add to a prediction for the interval that covers `INTERVAL_COVERAGE` of the
            ratings; the whole scale where there are too few groups.
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
    error_bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)

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
) -> CalibrationResult:
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
    evaluation = CandidateEvaluation(tasks, recipes, seed, draw_count)
    fold = evaluation.folds(folds)
    predictions = evaluation.predict_across(fold)
    chosen = evaluation.choose_best(predictions, by)
    nested, picked = evaluation.predict_nested(predictions, fold, by)
    rows = evaluation.score({**predictions, AS_CHOSEN: nested}, picked) | {ONE_RATER: evaluation.score_one_rater()}
    helps, why = _decide_if_it_helps(rows[AS_CHOSEN], chosen, by)
    neither = evaluation.score_new_makers({CONSTANT_NAME, chosen}, fold)
    makers, learned = _describe_unseen_makers(chosen, rows, neither, by) if neither else ("", False)
    return CalibrationResult(
        tasks=tuple(tasks),
        by=by,
        chosen=chosen,
        rows=rows,
        new_model=evaluation.score_new_makers({CONSTANT_NAME, chosen}),
        new_model_and_photo=neither,
        helps=helps,
        why=why,
        maker_note=makers,
        learned_makers=learned,
        interval_note=evaluation.bootstrap.describe(),
        maps={task.aspect: fit_map(task, recipes[chosen]) for task in tasks} if helps else {},
        error_bounds={
            task.aspect: _bound_errors(task, predictions) for task, predictions in zip(tasks, nested, strict=True)
        },
    )


def _decide_if_it_helps(row: CandidateScore, chosen: str, by: SelectionMeasure) -> tuple[bool, str]:
    gain, against = (row.rho_gain, row.rho) if by is SelectionMeasure.RANK else (row.error_gain, row.constant_gain)
    if chosen == CONSTANT_NAME:
        return False, "A constant is as near to people as anything that was learned from the judge."
    if gain is None or not _is_above_zero(gain):
        return False, f"The chosen map ({chosen}) is not surely nearer to people than the raw judge."
    if against is not None and not _is_above_zero(against):
        return False, f"The chosen map ({chosen}) is not surely nearer to people than a constant."
    return True, f"The chosen map ({chosen}) is nearer to people than the raw judge and than a constant."


def _is_above_zero(estimate: Estimate) -> bool:
    return estimate.low is not None and estimate.low > 0


def _describe_unseen_makers(
    chosen: str, rows: Mapping[str, CandidateScore], unseen: Mapping[str, CandidateScore], by: SelectionMeasure
) -> tuple[str, bool]:
    """Describe what remains of the gain for new makers and photographs; also return whether nothing remains."""
    if by is SelectionMeasure.RANK:
        what, seen, kept = "ρ", rows[chosen].rho.value, unseen[chosen].rho.value
        without = max(rows[RAW_JUDGE].rho.value or 0.0, 0.0)
        gained, lost = seen is not None and seen > without, kept is None or kept <= without
    else:
        what, seen, kept = "the error", rows[chosen].error.value, unseen[chosen].error.value
        rivals = [rows[RAW_JUDGE].error.value, unseen[CONSTANT_NAME].error.value if CONSTANT_NAME in unseen else None]
        without = min((rival for rival in rivals if rival is not None), default=0.0)
        gained, lost = seen is not None and seen < without, kept is None or kept >= without
    first, then = ("not defined" if value is None else f"{value:.3f}" for value in (seen, kept))
    sentence = f"Where the map has seen other images of the same maker, {what} of {chosen} is {first}; "
    sentence += f"where it has seen neither the maker nor the photograph, {then}"
    if not lost:
        better = "still better" if _is_surely_better(unseen[chosen], by) else "not surely better"
        return (
            f"{sentence}, {better} than without any map ({without:.3f}).{_describe_lost_order(chosen, unseen, by)}",
            False,
        )
    learned = ": it learned who made the image" if gained else ""
    return f"{sentence}, no better than without any map ({without:.3f}){learned}.", gained


def _is_surely_better(row: CandidateScore, by: SelectionMeasure) -> bool:
    """Return whether a map is better than the judge, and than a constant, by intervals that exclude 0."""
    gains = [row.rho_gain] if by is SelectionMeasure.RANK else [row.error_gain, row.constant_gain]
    return all(gain is not None and _is_above_zero(gain) for gain in gains)


def _describe_lost_order(chosen: str, unseen: Mapping[str, CandidateScore], by: SelectionMeasure) -> str:
    """Return a sentence where a map is closer to people, but orders images of a new maker no better than the judge."""
    order, judge = unseen[chosen].rho.value, unseen[RAW_JUDGE].rho.value
    if by is SelectionMeasure.RANK or order is None or judge is None or order > judge:
        return ""
    return f" Its order is then no better than the judge's own (ρ {order:.3f} and {judge:.3f})."


def _bound_errors(task: CalibrationTask, predictions: Floats) -> tuple[float, float]:
    """Return what to add to a prediction for its interval: the whole scale where too little is known."""
    return conformal_bounds(task.mean - predictions, task.group_index) or _full_scale_errors(task)


def _full_scale_errors(task: CalibrationTask) -> tuple[float, float]:
    width = task.scale[1] - task.scale[0]
    return -width, width


def build_document(results: Sequence[CalibrationResult], made: Mapping[str, object]) -> dict[str, Any]:
    """Return the maps of all results that help as the JSON values of a calibration file.

    Args:
        results: Results of `calibrate`.
        made: Where the maps come from. A verdict must be by one of its `judges` and `rubrics` for them to be applied.
    """
    aspects = {
        task.aspect: aspect_to_dict(build_aspect_map(result, task))
        for result in results
        if result.helps
        for task in result.tasks
    }
    return {"kind": CALIBRATION_KIND, "format": CALIBRATION_FORMAT, "made": dict(made), "aspects": aspects}


def build_aspect_map(result: CalibrationResult, task: CalibrationTask) -> AspectMap:
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
    )


def summarize_task(result: CalibrationResult, task: CalibrationTask) -> dict[str, Any]:
    """Return the scores of all candidates and the data they are of, as JSON values."""
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
        "rows": {name: row.to_dict() for name, row in result.rows.items()},
        "maker_unseen": {name: row.to_dict() for name, row in result.new_model.items()},
        "neither_maker_nor_photograph_seen": {name: row.to_dict() for name, row in result.new_model_and_photo.items()},
        "intervals": result.interval_note,
    }


def format_json(values: object, depth: int = 0) -> str:
    """Format JSON for people: short values, and every list of numbers, on one line."""
    flat = json.dumps(values, ensure_ascii=False, allow_nan=False)
    nested = isinstance(values, dict) or (isinstance(values, list) and any(isinstance(value, dict) for value in values))
    if len(flat) <= 100 or not nested:
        return flat
    inner = "  " * (depth + 1)
    if isinstance(values, dict):
        lines = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {format_json(value, depth + 1)}"
            for key, value in values.items()
        ]
        return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"
    assert isinstance(values, list)
    return "[\n" + ",\n".join(f"{inner}{format_json(value, depth + 1)}" for value in values) + "\n" + "  " * depth + "]"
