"""Forests and boosted trees: grown by scikit-learn, kept as plain lists, applied without it."""

from __future__ import annotations

from typing import Any

import numpy as np

from beholder.errors import SetupError
from beholder.statistics.calibration.lesson import Lesson
from beholder.verdicts.maps import LEAF, Tree, Trees

# Small on purpose: human ratings are noisy, and a deep tree learns the noise.
FOREST = {"n_estimators": 100, "min_samples_leaf": 5, "max_features": 0.4, "n_jobs": 1}
BOOSTED = {"n_estimators": 150, "learning_rate": 0.04, "max_depth": 3, "min_samples_leaf": 8}
DRAWN = {"subsample": 0.6, "max_features": 0.3}


def forest(lesson: Lesson) -> Trees:
    """Extremely random trees: the mean of what they say. Raises `SetupError` without scikit-learn."""
    grown = _ensemble().ExtraTreesRegressor(random_state=lesson.seed, **FOREST)
    grown.fit(lesson.values, lesson.ratings)
    return Trees(0.0, 1 / len(grown.estimators_), tuple(exported(one.tree_) for one in grown.estimators_))


def boosted(lesson: Lesson) -> Trees:
    """Trees of which each corrects the ones before it. Raises `SetupError` without scikit-learn."""
    grown = _ensemble().GradientBoostingRegressor(random_state=lesson.seed, **BOOSTED, **DRAWN)
    grown.fit(lesson.values, lesson.ratings)
    base = float(np.ravel(grown.init_.constant_)[0])
    return Trees(base, BOOSTED["learning_rate"], tuple(exported(one.tree_) for one in grown.estimators_.ravel()))


def exported(tree: Any) -> Tree:
    """A grown tree as lists, in the order of `Tree`."""
    columns: list[int] = []
    at: list[float] = []
    right: list[int] = []
    left, other = tree.children_left.tolist(), tree.children_right.tolist()
    features, thresholds, values = tree.feature.tolist(), tree.threshold.tolist(), tree.value.reshape(-1).tolist()
    waiting: list[tuple[int, int]] = [(0, -1)]  # node, and whose right branch it is
    while waiting:
        node, parent = waiting.pop()
        here = len(columns)
        if parent >= 0:
            right[parent] = here
        leaf = left[node] < 0
        columns.append(LEAF if leaf else features[node])
        at.append(values[node] if leaf else thresholds[node])
        right.append(0)
        if not leaf:
            waiting += [(other[node], here), (left[node], -1)]
    return Tree(tuple(columns), tuple(at), tuple(right))


def _ensemble() -> Any:
    try:
        from sklearn import ensemble  # type: ignore[import-untyped]  # it ships no types
    except ImportError:
        raise SetupError("Forests and boosted trees need scikit-learn: pip install 'beholder[calibrate]'") from None
    return ensemble
