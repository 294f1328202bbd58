"""Recipes for calibration maps: grouped folds, the training data, and fitting, from the simplest map up.

constant   the median rating, which of all constants has the least absolute error on the cases it is fitted on
offset     the judge's number on the human scale, shifted by its mean difference from people
line       the line of least squares through the judge's number, flat where it would fall
isotonic   a non-decreasing step function of the judge's number (pool adjacent violators); its ties stay ties
linear     ridge regression on standardized features, with one strong penalty
curved     ridge regression on normal scores of the features and their squares, which outliers do not affect; the
           penalty is chosen within the training cases, by grouped cross-validation
blend      the mean of `curved` and a forest of extremely randomized trees

What is learned from more than the judge's own number is finished by held-out predictions (`calibration_held_out`).

Simpler sets were measured (paired differences, 95 % intervals). On 580 edits of ImagenHub a forest alone has a lower ρ
than `blend` by 0.042 (0.014 to 0.067; SC) and 0.013 (0.001 to 0.027; PQ), and `linear` by 0.066 and 0.037; ρ of boosted
trees was 0.639 against 0.664. On 41 edits with twelve factors a chosen penalty for `linear` has more error than the
strong one by 0.025 (0.004 to 0.052) points of 7.

Trees are grown by scikit-learn, kept as plain lists, and applied without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heapreplace
from importlib.util import find_spec
from statistics import NormalDist
from typing import Any

import numpy as np

from beholder.errors import SetupError, UsageError
from beholder.statistics.data import Bools, Floats, Ints
from beholder.verdicts.calibration_maps import (
    LEAF_COLUMN,
    BlendMap,
    CalibrationMap,
    ConstantMap,
    CurvedMap,
    DecisionTree,
    IsotonicMap,
    LinearMap,
    OffsetMap,
    SimpleMap,
    TreeEnsembleMap,
)


def assign_folds(groups: Ints, count: int, seed: int = 0) -> Ints:
    """Assign each case to a fold without splitting a group; folds have about the same number of cases.

    Args:
        groups: Group of each case.
        count: Number of folds; fewer where there are fewer groups.
        seed: The same seed gives the same folds.
    """
    names, place, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    count = max(1, min(count, len(names)))
    order = np.random.default_rng(seed).permutation(len(names))
    order = order[np.argsort(-sizes[order], kind="stable")]  # large groups first, equal ones in random order
    filled = [(0, number) for number in range(count)]  # a heap: the emptiest fold is the first
    fold = np.zeros(len(names), np.int64)
    for group, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        cases, number = filled[0]
        fold[group] = number
        heapreplace(filled, (cases + size, number))
    return np.asarray(fold[place], np.int64)


def cross_folds(*folds: Ints) -> Ints:
    """Return the cell of each case where cases are divided in several ways at once."""
    return np.asarray(np.unique(np.column_stack(folds), axis=0, return_inverse=True)[1], np.int64).reshape(-1)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """Data to fit a map on.

    Attributes:
        names: Names of the features.
        values: Cases × features, without missing values.
        ratings: Mean human rating of each case, on `scale`.
        groups: Group of each case.
        raw: Position of the judge's own number among the features.
        raw_scale: Scale of that number.
        scale: The human scale.
        seed: Seed of folds and forests.
    """

    names: tuple[str, ...]
    values: Floats
    ratings: Floats
    groups: Ints
    raw_index: int
    raw_scale: tuple[float, float]
    scale: tuple[float, float]
    seed: int = 0

    def select(self, rows: Bools) -> TrainingData:
        """Return some of the cases."""
        return replace(self, values=self.values[rows], ratings=self.ratings[rows], groups=self.groups[rows])

    def rescaled_judge(self) -> OffsetMap:
        """Return the map of the judge's own number onto the human scale, ends on ends."""
        (low, high), (first, last) = self.raw_scale, self.scale
        slope = (last - first) / (high - low)
        return OffsetMap(self.raw_index, slope, first - slope * low)


@dataclass(frozen=True, slots=True)
class CalibrationRecipe:
    """How a map is fitted.

    Attributes:
        fit: The function that fits it.
        raw_only: It uses only the judge's own number.
    """

    fit: Callable[[TrainingData], CalibrationMap]
    raw_only: bool = False


# Small on purpose: human ratings are noisy, and a deep tree learns the noise.
FOREST_TREES = 100
TREE_SETTINGS = {"min_samples_leaf": 5, "max_features": 0.4}
# With more cases each tree gets a random sample. On 20,000 simulated cases whole trees had 1.7 % less error, in twice
# the time, which grows with the cases.
MAX_TREE_CASES = 5000


def fit_forest(data: TrainingData, trees: int = FOREST_TREES) -> TreeEnsembleMap:
    """Fit extremely randomized trees and return their mean.

    The trees are those of scikit-learn's `ExtraTreesRegressor` (a test compares them). They are made one by one: the
    forest copies and checks its settings for each tree, which on a few hundred cases takes longer than growing it.

    Raises:
        SetupError: scikit-learn is not installed.
    """
    try:
        from sklearn import config_context
        from sklearn.tree import ExtraTreeRegressor
    except ImportError:
        raise SetupError("Forests need scikit-learn: pip install 'beholder[calibrate]'") from None
    values, ratings = np.ascontiguousarray(data.values, np.float32), data.ratings[:, None]
    grown = []
    with config_context(skip_parameter_validation=True):
        for seed in np.random.RandomState(data.seed).randint(np.iinfo(np.int32).max, size=trees).tolist():
            weights: Ints | None = None
            if len(ratings) > MAX_TREE_CASES:
                sample = np.random.RandomState(seed).randint(0, len(ratings), MAX_TREE_CASES)
                weights = np.bincount(sample, minlength=len(ratings))
            tree = ExtraTreeRegressor(random_state=seed, **TREE_SETTINGS)
            grown.append(export_tree(tree.fit(values, ratings, weights, check_input=False).tree_))
    return TreeEnsembleMap(0.0, 1 / len(grown), tuple(grown))


def export_tree(tree: Any) -> DecisionTree:
    """Convert a tree of scikit-learn, which grows depth first and so numbers its nodes as `DecisionTree` does."""
    leaf = tree.children_left < 0
    assert (tree.children_left == np.arange(1, len(leaf) + 1))[~leaf].all()
    columns = np.where(leaf, LEAF_COLUMN, tree.feature)
    at = np.where(leaf, tree.value.reshape(-1), tree.threshold)
    right = np.where(leaf, 0, tree.children_right)
    return DecisionTree(*(tuple(part.tolist()) for part in (columns, at, right)))


PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)
STRONG_PENALTY = 100.0  # with few cases, choosing a penalty fits noise: a fixed one is better
INNER_FOLDS = 5  # for choosing a penalty

# Quantiles of a feature at which knots are placed: denser at the ends, where normal scores change fastest.
KNOT_SHARES = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)
_KNOT_SCORES = np.array([NormalDist().inv_cdf(share) for share in KNOT_SHARES])


def fit_constant(data: TrainingData) -> ConstantMap:
    return ConstantMap(float(np.median(data.ratings)))


def fit_mean(data: TrainingData) -> ConstantMap:
    return ConstantMap(float(data.ratings.mean()))


def fit_offset(data: TrainingData) -> OffsetMap:
    judge = data.rescaled_judge()
    difference = float((data.ratings - judge.predict(data.values)).mean())
    return OffsetMap(judge.column, judge.slope, judge.shift + difference)


def fit_line(data: TrainingData) -> OffsetMap:
    """Fit the line of least squared error through the judge's number; flat where it would fall."""
    raw = data.values[:, data.raw_index]
    spread = float(((raw - raw.mean()) ** 2).sum())
    slope = max(0.0, float((raw - raw.mean()) @ data.ratings) / spread) if spread > 0 else 0.0
    return OffsetMap(data.raw_index, slope, float(data.ratings.mean() - slope * raw.mean()))


def fit_isotonic(data: TrainingData) -> IsotonicMap:
    at, where = np.unique(data.values[:, data.raw_index], return_inverse=True)
    counts = np.bincount(where).astype(np.float64)
    ratings = pool_adjacent_violators(np.bincount(where, data.ratings) / counts, counts)
    # Knots inside a flat stretch are redundant: only its ends are kept.
    inner = np.zeros(len(at), np.bool_)
    inner[1:-1] = (ratings[1:-1] == ratings[:-2]) & (ratings[1:-1] == ratings[2:])
    return IsotonicMap(data.raw_index, tuple(at[~inner].tolist()), tuple(ratings[~inner].tolist()))


def pool_adjacent_violators(values: Floats, weights: Floats) -> Floats:
    """Return the nearest non-decreasing sequence by weighted least squares: violating neighbors are pooled at their
    mean.
    """
    levels: list[tuple[float, float, int]] = []  # mean, weight, number of values
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, total, count = value, weight, 1
        while levels and levels[-1][0] >= mean:
            before, more, many = levels.pop()
            mean = (before * more + mean * total) / (more + total)
            total, count = more + total, count + many
        levels.append((mean, total, count))
    return np.repeat([mean for mean, _, _ in levels], [count for _, _, count in levels])


def fit_linear(data: TrainingData, penalties: Sequence[float] = (STRONG_PENALTY,)) -> LinearMap:
    means, scales = data.values.mean(axis=0), data.values.std(axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    weights = _fit_ridge((data.values - means) / scales, data, penalties)
    return LinearMap(float(data.ratings.mean()), *(tuple(row.tolist()) for row in (means, scales, weights)))


def fit_curved(data: TrainingData, penalties: Sequence[float] = PENALTIES) -> CurvedMap:
    knots = [_normal_score_knots(column) for column in data.values.T]
    scores = np.column_stack(
        [np.interp(column, at[:, 0], at[:, 1]) for column, at in zip(data.values.T, knots, strict=True)]
    )
    design = np.hstack([scores, (scores * scores - 1) / 2])
    middle = design.mean(axis=0)
    weights = _fit_ridge(design - middle, data, penalties)
    count = len(knots)
    return CurvedMap(
        float(data.ratings.mean() - middle @ weights),
        tuple(tuple((value, score) for value, score in at.tolist()) for at in knots),
        tuple(weights[:count].tolist()),
        tuple(weights[count:].tolist()),
    )


def blend_fits(*fits: Callable[[TrainingData], SimpleMap]) -> Callable[[TrainingData], BlendMap]:
    """Return a fit whose map is the plain mean of several maps, each fitted by itself."""
    return lambda data: BlendMap(tuple(fit(data) for fit in fits), (1.0,) * len(fits))


RECIPES: dict[str, CalibrationRecipe] = {
    "constant": CalibrationRecipe(fit_constant, raw_only=True),
    "offset": CalibrationRecipe(fit_offset, raw_only=True),
    "line": CalibrationRecipe(fit_line, raw_only=True),
    "isotonic": CalibrationRecipe(fit_isotonic, raw_only=True),
    "linear": CalibrationRecipe(fit_linear),
    "curved": CalibrationRecipe(fit_curved),
    "blend": CalibrationRecipe(blend_fits(fit_curved, fit_forest)),
}

SKLEARN_RECIPES = frozenset({"blend"})  # recipes that need scikit-learn for fitting
CONSTANT_NAME, LINE_NAME = "constant", "line"
# What is tried for several aspects together, which is for few ratings of each: on 41 edits with twelve factors the map
# that was chosen of all has an error of 0.723, `linear`, with its one strong penalty, 0.704.
TOGETHER_RECIPES = ("constant", "linear")


def select_recipes(wanted: Sequence[str]) -> tuple[dict[str, CalibrationRecipe], list[str]]:
    """Return the recipes to try, always with a constant, and a note for the user where scikit-learn is missing.

    Args:
        wanted: Names of recipes; empty for all.

    Raises:
        UsageError: A name is unknown, or needs scikit-learn.
    """
    if unknown := [name for name in wanted if name not in RECIPES]:
        raise UsageError(f"There is no map {unknown[0]!r} to try; there are {', '.join(RECIPES)}.")
    chosen = {name: recipe for name, recipe in RECIPES.items() if not wanted or name in wanted or name == CONSTANT_NAME}
    if find_spec("sklearn") is not None or not SKLEARN_RECIPES & set(chosen):
        return chosen, []
    if wanted and SKLEARN_RECIPES & set(wanted):
        raise UsageError(
            f"{', '.join(SKLEARN_RECIPES & set(wanted))} needs scikit-learn: pip install 'beholder[calibrate]'"
        )
    note = f"Not tried without scikit-learn (pip install 'beholder[calibrate]'): {', '.join(sorted(SKLEARN_RECIPES))}."
    return {name: recipe for name, recipe in chosen.items() if name not in SKLEARN_RECIPES}, [note]


def solve_ridge(design: Floats, ratings: Floats, penalties: Sequence[float]) -> Floats:
    """Return ridge weights, one row per penalty, for centered `design` and `ratings`.

    Minimizes Σ (rating − mean − design · weights)² + penalty · Σ weights².
    """
    centred, away = design - design.mean(axis=0), ratings - ratings.mean()
    tall = len(design) >= design.shape[1]
    # The eigenvalues of the smaller Gram matrix are four times as fast as a singular value decomposition, and as
    # accurate, since the penalty is far above rounding errors.
    squares, turned = np.linalg.eigh(centred.T @ centred if tall else centred @ centred.T)
    along = turned.T @ (centred.T @ away if tall else away)
    shrunk = along / (np.maximum(squares, 0.0) + np.array(penalties)[:, None])
    weights: Floats = shrunk @ turned.T if tall else shrunk @ turned.T @ centred
    return weights


def _fit_ridge(design: Floats, data: TrainingData, penalties: Sequence[float]) -> Floats:
    """Return the ridge weights for the penalty that predicts best within these cases, without splitting groups."""
    best = penalties[0] if len(penalties) == 1 else _choose_penalty(design, data, penalties)
    weights: Floats = solve_ridge(design, data.ratings, (best,))[0]
    return weights


def _choose_penalty(design: Floats, data: TrainingData, penalties: Sequence[float]) -> float:
    """Return the penalty with the least squared error on held-out cases."""
    fold = assign_folds(data.groups, INNER_FOLDS, data.seed)
    squares = np.zeros(len(penalties))
    for number in np.unique(fold):
        out = fold == number
        if out.all():
            return penalties[-1]
        seen = design[~out]
        weights = solve_ridge(seen, data.ratings[~out], penalties)
        predicted = data.ratings[~out].mean() + (design[out] - seen.mean(axis=0)) @ weights.T
        squares += ((data.ratings[out][:, None] - predicted) ** 2).sum(axis=0)
    return penalties[int(squares.argmin())]


def _normal_score_knots(column: Floats) -> Floats:
    """Return rows of (value, normal score).

    Quantiles that fall on the same value (many cases may have none of something) become one knot with their mean score.
    """
    values, place = np.unique(np.quantile(column, KNOT_SHARES), return_inverse=True)
    return np.column_stack([values, np.bincount(place, _KNOT_SCORES) / np.bincount(place)])
