"""Evaluation of candidate maps of a calibration: predictions of unseen cases, scores with intervals, the best of them.

Every number is of cases that the map had not seen, nor any case of their group. The choice of the recipe is repeated
without each fold, so that the score of the chosen one is not the best of many lucky ones. Up to `MAX_NESTED_CASES`
cases every recipe is fitted anew within the other folds for that (nested cross-validation). With more cases the choice
goes by the errors on the other folds that are known by then, of maps that did see the fold (as in Tsamardinos,
Greasidou and Borboudakis 2018), in a quarter of the time. Differences are paired over the same draws; positive ones
favor the map. The constant to beat is the median or the mean of the ratings, whichever is nearer to unseen cases:
of a judge that knows nothing, with 20 photographs of three cases whose worth is spread evenly (400 simulations each), a
map was surely nearer than the median in 9 %, than the mean in 5 %, and than the nearer of the two in 0.3 % of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from beholder.errors import UsageError
from beholder.statistics.bootstrap import (
    ClusterBootstrap,
    Interval,
    Statistic,
    divide_or_nan,
    mean_of_defined,
    undefined_estimate,
)
from beholder.statistics.calibration_held_out import HeldOutPredictions, MapFinish, predict_out_of_fold
from beholder.statistics.calibration_recipes import (
    CONSTANT_NAME,
    LINE_NAME,
    RECIPES,
    CalibrationRecipe,
    assign_folds,
    fit_line,
    fit_mean,
)
from beholder.statistics.calibration_task import MAX_CROSSED_MAKER_FOLDS, CalibrationTask, FittedMap, fit_map
from beholder.statistics.coefficients import BootstrapWeights, WeightsLike, pair_scores, rank_statistics
from beholder.statistics.data import Bools, Floats, Ints
from beholder.statistics.raters import rater_distance_statistics, rater_rank_statistics


class SelectionMeasure(StrEnum):
    """What a map is chosen by: the mean absolute error, or the rank correlation (Spearman's ρ) with people."""

    ERROR = "error"
    RANK = "rank"


WeightedStatistic = Callable[[WeightsLike], Floats]
"""A statistic that can share its weights, prepared once, with others."""


def rank_correlation_statistic(one: Floats, other: Floats) -> WeightedStatistic:
    """Return the statistic for Spearman's ρ over the cases where both are known; nan where either is constant."""
    statistics = rank_statistics(pair_scores(one, other), kendall=False)
    return lambda weights: statistics(weights)["spearman"]


def absolute_error_statistic(predictions: Floats, ratings: Floats) -> WeightedStatistic:
    """Return the statistic for the mean absolute difference, over the cases where both are known."""
    away = np.abs(predictions - ratings)
    terms = np.column_stack([np.nan_to_num(away), ~np.isnan(away)])
    return lambda weights: divide_or_nan(*BootstrapWeights.wrap(weights).weighted_sums(terms).T)


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


SELECTION_FOLDS = 3  # folds within a fold, for the choice
MAX_NESTED_CASES = 300
MIN_MAKERS = 3  # from here on a map is chosen by what it says of makers that it has not seen
CROSSED_FOLDS = 5  # of photographs, where makers are left out as well, which multiplies the maps to fit
MANY_CASES, CROSSED_FOLDS_OF_MANY = 5_000, 3
TIE = 1e-9  # a smaller difference between two distances is a rounding error
WEIGHTS = (1.0, 0.75, 0.5, 0.25)  # of a map, the rest being the line through the judge's own number
MEAN_NAME = "the mean"  # a constant as the median is, with which maps are compared
RAW_JUDGE, ONE_RATER, AS_CHOSEN = "the raw judge", "one rater against the others", "as chosen"

Predicted = tuple[Floats, Floats]
"""What is said of each case, and the number by which it is ordered (`HeldOutPredictions.positions`)."""
Predictions = Mapping[str, Sequence[Predicted]]
"""By candidate, what it says for each task."""


class _Division(StrEnum):
    """What is held back together when maps are tested."""

    PHOTO = "photo"
    MAKER = "maker"
    BOTH = "both"


class MapChoice(NamedTuple):
    """A recipe, and the weight of its map beside the line through the judge's own number."""

    recipe: str
    weight: float = 1.0


class CandidateScore(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "rho_gain": "rho_gain_over_judge",
        "error_gain": "error_gain_over_judge",
        "constant_gain": "error_gain_over_constant",
    },
):
    """How close a candidate is to people; gains are paired and positive where it is closer.

    Attributes:
        rho: Spearman's ρ with the mean rating.
        error: Mean absolute error.
        rho_gain: Gain in ρ over the raw judge.
        error_gain: Gain in error over the raw judge.
        constant_gain: Gain in error over a constant.
    """

    rho: Interval
    error: Interval
    rho_gain: Interval | None = None
    error_gain: Interval | None = None
    constant_gain: Interval | None = None


class CandidateEvaluation:
    """Evaluates candidate maps for one or more tasks on the same folds and draws.

    Folds and draws are over the cases of all tasks; scores of several tasks are means over them.

    Args:
        tasks: The tasks.
        recipes: Recipes to try, by name.
        folds: Number of folds of photographs.
        seed: Seed of folds and draws.
        draw_count: Number of bootstrap draws.

    Raises:
        UsageError: The tasks' scales differ, or all cases are of one group.
    """

    def __init__(
        self,
        tasks: Sequence[CalibrationTask],
        recipes: Mapping[str, CalibrationRecipe],
        folds: int,
        seed: int,
        draw_count: int,
    ) -> None:
        if len({task.scale for task in tasks}) > 1:
            raise UsageError("Aspects that are rated on different scales cannot be taken together; do one at a time.")
        self.tasks, self.names, self.seed = tuple(tasks), tuple(recipes), seed
        self.recipes = {LINE_NAME: RECIPES[LINE_NAME], CONSTANT_NAME: RECIPES[CONSTANT_NAME], **recipes}
        self.recipes[MEAN_NAME] = CalibrationRecipe(fit_mean, raw_only=True)
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
        self.judges: list[Predicted] = [(task.judge, task.judge) for task in tasks]
        self.fold = assign_folds(self.groups, folds, seed)
        self._predicted: dict[tuple[MapChoice, _Division], list[Predicted]] = {}
        self._held_out: dict[tuple[str, _Division], list[HeldOutPredictions]] = {}

    @cached_property
    def maker_count(self) -> int:
        """Number of makers; 0 where a task does not know them, or has only one."""
        counts = [len(set(task.makers or ())) for task in self.tasks]
        return min(counts) if min(counts) > 1 else 0

    def _divide(self, division: _Division) -> list[tuple[Ints, ...]]:
        """Return the folds of each task."""
        if division is _Division.PHOTO:
            return [(self.fold[rows],) for rows in self._rows]
        if division is _Division.MAKER:
            return [(task.maker_folds(),) for task in self.tasks]
        many = len(self.fold) > MANY_CASES
        photos = assign_folds(self.groups, CROSSED_FOLDS_OF_MANY if many else CROSSED_FOLDS, self.seed)
        most = CROSSED_FOLDS_OF_MANY if many else MAX_CROSSED_MAKER_FOLDS
        return [(photos[rows], task.maker_folds(most)) for task, rows in self._tasks_with_rows()]

    def held_out(self, name: str, division: _Division) -> list[HeldOutPredictions]:
        """Predict each case of each task by maps that saw none of its folds."""
        key = name, division
        if key not in self._held_out:
            self._held_out[key] = [
                predict_out_of_fold(task, self.recipes[name], *folds)
                for task, folds in zip(self.tasks, self._divide(division), strict=True)
            ]
        return self._held_out[key]

    def predict(self, choice: MapChoice, division: _Division = _Division.PHOTO) -> list[Predicted]:
        """Return what the finished map of a choice says of cases that it has not seen; by default by photograph."""
        key = choice, division
        if key not in self._predicted:
            self._predicted[key] = self._predict(choice, division)
        return self._predicted[key]

    def _predict(self, choice: MapChoice, division: _Division) -> list[Predicted]:
        finish = self.finish(choice)
        lines = self.held_out(LINE_NAME, division)
        # The ends of a new maker are found on other makers, with the ratings of the same photographs. On other
        # photographs as well they would be found anew for five times as many parts, and differ more among these than
        # those of one map do.
        found = [
            finish.predictions(task, map_, line, folds[-1])
            for task, map_, line, folds in zip(
                self.tasks, self.held_out(choice.recipe, division), lines, self._divide(division), strict=True
            )
        ]
        return [(task.clip(one.values), one.positions(task.scale)) for task, one in zip(self.tasks, found, strict=True)]

    def finish(self, choice: MapChoice) -> MapFinish:
        return MapFinish(choice.weight, snaps=not self.recipes[choice.recipe].raw_only)

    def predict_new_makers(self, choice: MapChoice, *, and_photo: bool) -> list[Predicted]:
        """Return what the map of a choice says of makers that it has not seen.

        Without `and_photo` the maps have seen the same photograph by other makers, with its ratings; with it they have
        seen neither, except that the thresholds from which on a finished map predicts an end of the scale are found on
        other makers' images of all photographs.
        """
        return self.predict(choice, _Division.BOTH if and_photo else _Division.MAKER)

    def predict_constant(self, predict: Callable[[MapChoice], list[Predicted]] | None = None) -> list[Predicted]:
        """Return what a constant says of unseen cases: the median or the mean of the others, the nearer of the two.

        Of few photographs the mean of a map that has learned nothing is often nearer to new ones than their median.

        Args:
            predict: How cases are predicted; without their photograph unless given.
        """
        everything = np.ones(len(self.fold), np.bool_)
        constants = [(predict or self.predict)(MapChoice(name)) for name in (CONSTANT_NAME, MEAN_NAME)]
        return min(constants, key=lambda said: self._distance(said, SelectionMeasure.ERROR, everything))

    def choose(self, by: SelectionMeasure, without: int | None = None) -> MapChoice:
        """Return the map that is closest to people; of equal ones the first, which is the simplest.

        With enough makers it goes by cases of which the map has seen neither maker nor photograph (but for the ends of
        the scale, see `predict_new_makers`), in error as in ρ no worse than the judge alone; it may lean towards the
        judge's own number for that.

        Args:
            by: What the map is chosen by.
            without: Choose without this fold.
        """
        some = np.ones(len(self.fold), np.bool_) if without is None else self.fold != without
        if self.maker_count < MIN_MAKERS:
            found = {name: self._distance(one, by, some) for name, one in self._predict_to_choose(some).items()}
            return MapChoice(min(found, key=lambda name: found[name]))
        judge = {measure: self._distance(self.judges, measure, some) for measure in SelectionMeasure}
        distances = {}
        for name in self.names:
            for weight in WEIGHTS[:1] if self.recipes[name].raw_only else WEIGHTS:
                predicted = self.predict_new_makers(choice := MapChoice(name, weight), and_photo=True)
                near = {measure: self._distance(predicted, measure, some) for measure in SelectionMeasure}
                if all(near[one] <= judge[one] + TIE for one in near):
                    distances[choice] = near[by]
        # The line keeps the judge's order; a constant, which has none, is what is to be beaten.
        lost = not distances and set(self.names) > {CONSTANT_NAME}
        for fallback in (MapChoice(CONSTANT_NAME), *((MapChoice(LINE_NAME),) if lost else ())):
            distances[fallback] = self._distance(self.predict_new_makers(fallback, and_photo=True), by, some)
        return min(distances, key=lambda choice: distances[choice])

    def _predict_to_choose(self, some: Bools) -> Predictions:
        """Predict the cases `some` to choose a recipe by."""
        if some.all() or len(some) > MAX_NESTED_CASES:
            return {name: self.predict(MapChoice(name)) for name in self.names}
        inner = np.full(len(some), -1, np.int64)
        inner[some] = assign_folds(self.groups[some], SELECTION_FOLDS, self.seed)
        found: dict[str, list[Predicted]] = {}
        for name in self.names:
            found[name] = []
            for task, rows in self._tasks_with_rows():
                held_out = predict_out_of_fold(task, self.recipes[name], inner[rows], rows=some[rows])
                finished = self.finish(MapChoice(name)).predictions(task, held_out, held_out, inner[rows])
                found[name].append((task.clip(finished.values), finished.positions(task.scale)))
        return found

    def predict_as_chosen(self, choices: Sequence[MapChoice], *, new_makers: bool = False) -> list[Predicted]:
        """Predict each fold by the map that was chosen without it.

        Args:
            choices: By fold.
            new_makers: By maps that have not seen its makers either.
        """
        predicted = {
            choice: self.predict_new_makers(choice, and_photo=True) if new_makers else self.predict(choice)
            for choice in set(choices)
        }
        found = []
        for at, rows in enumerate(self._rows):
            fold = self.fold[rows]
            values, positions = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
            for number, choice in enumerate(choices):
                out = fold == number
                values[out], positions[out] = (side[out] for side in predicted[choice][at])
            found.append((values, positions))
        return found

    def fit_to_all(self, choice: MapChoice) -> list[FittedMap]:
        """Return the finished map of all cases for each task."""
        fitted, finish = [], self.finish(choice)
        for task, *held_out in zip(
            self.tasks,
            self.held_out(choice.recipe, _Division.PHOTO),
            self.held_out(LINE_NAME, _Division.PHOTO),
            strict=True,
        ):
            map_ = fit_map(task, self.recipes[choice.recipe])
            line = fit_map(task, CalibrationRecipe(fit_line, self.recipes[choice.recipe].raw_only))
            fitted.append(replace(map_, map=finish.apply(task, (map_.map, line.map), (held_out[0], held_out[1]))))
        return fitted

    def score(self, predictions: Predictions) -> dict[str, CandidateScore]:
        """Score predictions and the raw judge."""
        candidates = {RAW_JUDGE: self.judges, **predictions}
        rho = {
            name: [rank_correlation_statistic(order, mean) for (_, order), mean in zip(one, self._means, strict=True)]
            for name, one in candidates.items()
            if any(np.ptp(order[~np.isnan(order)]) > 0 for _, order in one)
        }
        error = {
            name: [absolute_error_statistic(said, mean) for (said, _), mean in zip(one, self._means, strict=True)]
            for name, one in candidates.items()
        }

        def statistics(weights: Floats) -> dict[str, Floats]:
            of_tasks = [BootstrapWeights(_select_rows(weights, rows)) for rows in self._rows]
            rhos, errors = (
                {
                    name: mean_of_defined([one(own) for one, own in zip(each, of_tasks, strict=True)])
                    for name, each in measured.items()
                }
                for measured in (rho, error)
            )
            found = {f"rho {name}": rho for name, rho in rhos.items()}
            found |= {f"error {name}": error for name, error in errors.items()}
            if RAW_JUDGE in rhos:
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

    def _distance(self, predicted: Sequence[Predicted], by: SelectionMeasure, some: Bools) -> float:
        """Return the mean error, or minus ρ (0 where it is not defined), over the cases `some`."""
        kind = rank_correlation_statistic if by is SelectionMeasure.RANK else absolute_error_statistic
        measured = []
        for (values, positions), mean, rows in zip(predicted, self._means, self._rows, strict=True):
            known = ~np.isnan(values) & some[rows]
            one = positions if by is SelectionMeasure.RANK else values
            value = float(kind(one[known], mean[known])(np.ones((1, int(known.sum()))))[0])
            measured.append((0.0 if np.isnan(value) else -value) if by is SelectionMeasure.RANK else value)
        return float(np.mean(measured))


def _restrict_rows(statistic: Statistic, rows: Ints) -> Statistic:
    """Return a statistic of some cases as a statistic of all."""
    return lambda weights: statistic(_select_rows(weights, rows))


def _select_rows(weights: Floats, rows: Ints) -> Floats:
    """Return the weights of some cases, without a copy where they are all cases."""
    return weights if len(rows) == weights.shape[1] and (np.diff(rows) == 1).all() else weights[:, rows]
