"""Evaluation of candidate maps of a calibration: predictions of unseen cases, scores with intervals, the best of them.

Every number is of cases that the map had not seen, nor any case of their group. The choice of the recipe is repeated
without each fold, so that the score of the chosen one is not the best of many lucky ones. Up to `MAX_NESTED_CASES`
cases every recipe is fitted anew within the other folds for that (nested cross-validation). With more cases the choice
goes by the errors on the other folds that are known by then, of maps that did see the fold (as in Tsamardinos,
Greasidou and Borboudakis 2018), in a quarter of the time. Of a judge that knows nothing, with five recipes in 200
simulations, a map seemed to help in 2 % (nested) and 8 % of them with 40 cases, and in 3 % either way with 150.
Differences are paired over the same draws; positive ones favor the map.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from enum import StrEnum
from functools import cached_property

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
from beholder.statistics.calibration_recipes import CONSTANT_NAME, CalibrationRecipe, assign_folds
from beholder.statistics.calibration_task import (
    MAX_CROSSED_MAKER_FOLDS,
    CalibrationTask,
    FittedMap,
    fit_map,
    predict_out_of_fold,
)
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
RAW_JUDGE, ONE_RATER, AS_CHOSEN = "the raw judge", "one rater against the others", "as chosen"

Predictions = Mapping[str, Sequence[Floats]]
"""By candidate, its predictions for each task."""


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
        self._fitted: dict[str, tuple[FittedMap, ...]] = {}

    def predict(self, fold: Ints, some: Bools | None = None) -> dict[str, list[Floats]]:
        """Predict each case by maps that saw none of its fold, for each recipe; nan for cases not in `some`."""
        return self._predict([(fold[rows],) for rows in self._rows], self.recipes, some)

    def _predict(
        self, folds: Sequence[tuple[Ints, ...]], names: Collection[str], some: Bools | None = None
    ) -> dict[str, list[Floats]]:
        """Predict each task by its own divisions of its cases."""
        return {
            name: [
                predict_out_of_fold(task, recipe, *by, rows=None if some is None else some[rows])
                for (task, rows), by in zip(self._tasks_with_rows(), folds, strict=True)
            ]
            for name, recipe in self.recipes.items()
            if name in names
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
        return self.score(self._predict(divided, names))

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
            name = self.choose_best(self._predict_without(predictions, fold != number), by)
            picked.add(name)
            for values, predicted, rows in zip(nested, predictions[name], self._rows, strict=True):
                out = fold[rows] == number
                values[out] = predicted[out]
        return nested, picked

    def _predict_without(self, predictions: Predictions, some: Bools) -> Predictions:
        """Predict the cases `some` to choose a recipe by; nan for the others."""
        if len(some) <= MAX_NESTED_CASES:
            inner = np.full(len(some), -1, np.int64)
            inner[some] = assign_folds(self.groups[some], SELECTION_FOLDS, self.seed)
            return self.predict(inner, some)
        return {
            name: [np.where(some[rows], values, np.nan) for values, rows in zip(predicted, self._rows, strict=True)]
            for name, predicted in predictions.items()
        }

    @cached_property
    def constant_recipes(self) -> frozenset[str]:
        """Recipes whose map is constant, so that it has no order.

        Across folds it would seem to have one, negatively correlated with people: without a fold of high ratings the
        constant of the others is lower.
        """
        return frozenset(
            name
            for name in self.recipes
            if all(
                np.ptp(task.clip(fitted.predict(task.features))) == 0
                for task, fitted in zip(self.tasks, self.fit_to_all(name), strict=True)
            )
        )

    def fit_to_all(self, name: str) -> tuple[FittedMap, ...]:
        """Return a recipe's map of all cases for each task."""
        if name not in self._fitted:
            self._fitted[name] = tuple(fit_map(task, self.recipes[name]) for task in self.tasks)
        return self._fitted[name]

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
        ordered = {
            name: self.judges if recipes_behind[name] <= self.order_preserving else candidate
            for name, candidate in candidates.items()
            if not recipes_behind[name] <= self.constant_recipes
        }
        rho = {name: list(map(rank_correlation_statistic, one, self._means)) for name, one in ordered.items()}
        error = {name: list(map(absolute_error_statistic, one, self._means)) for name, one in candidates.items()}

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
        for mean, one, prediction in zip(self._means, ordered, predictions, strict=True):
            known = ~np.isnan(prediction)
            value = float(kind(one[known], mean[known])(np.ones((1, int(known.sum()))))[0])
            measured.append((0.0 if np.isnan(value) else -value) if by is SelectionMeasure.RANK else value)
        return float(np.mean(measured))


def _restrict_rows(statistic: Statistic, rows: Ints) -> Statistic:
    """Return a statistic of some cases as a statistic of all."""
    return lambda weights: statistic(_select_rows(weights, rows))


def _select_rows(weights: Floats, rows: Ints) -> Floats:
    """Return the weights of some cases, without a copy where they are all cases."""
    return weights if len(rows) == weights.shape[1] and (np.diff(rows) == 1).all() else weights[:, rows]
