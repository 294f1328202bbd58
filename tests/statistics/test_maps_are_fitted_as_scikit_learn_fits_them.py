"""Maps that are fitted here equal scikit-learn's; trees that it grew say the same without it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import Ridge

from beholder.statistics.calibration_held_out import MapFinish, predict_out_of_fold
from beholder.statistics.calibration_recipes import (
    FOREST_TREES,
    MAX_TREE_CASES,
    RECIPES,
    TREE_SETTINGS,
    TrainingData,
    assign_folds,
    export_tree,
    fit_curved,
    fit_forest,
    fit_isotonic,
    fit_linear,
    pool_adjacent_violators,
    solve_ridge,
)
from beholder.statistics.calibration_task import TaskOptions, build_task, fit_map
from beholder.statistics.data import Column, ColumnKind, Ratings, Scores
from beholder.verdicts.calibration_maps import SnapToEndsMap, TreeEnsembleMap

NUMBERS = st.floats(-100, 100, width=32)
FEW_TREES = 20


def lesson(values: np.ndarray, ratings: np.ndarray, groups: np.ndarray | None = None) -> TrainingData:
    names = tuple(f"f{place}" for place in range(values.shape[1]))
    apart = np.arange(len(ratings)) if groups is None else groups
    return TrainingData(names, values, ratings, apart, 0, (0.0, 10.0), (0.0, 1.0))


@given(arrays.arrays(np.float64, st.integers(1, 30), elements=NUMBERS), st.randoms(use_true_random=False))
def test_pooling_is_the_nearest_sequence_that_never_falls(values: np.ndarray, random: object) -> None:
    weights = np.array([random.choice([1.0, 2.0, 5.0]) for _ in values])  # type: ignore[attr-defined]
    places = np.arange(len(values))
    expected = IsotonicRegression().fit(places, values, sample_weight=weights).predict(places)
    assert pool_adjacent_violators(values, weights) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 10), st.sampled_from([0.0, 0.25, 0.5, 1.0])), min_size=1, max_size=40))
def test_isotonic_keeps_ties_and_says_what_scikit_learn_says(points: list[tuple[int, float]]) -> None:
    raw, ratings = (np.array(side, float) for side in zip(*points, strict=True))
    fitted = fit_isotonic(lesson(raw[:, None], ratings))
    asked = np.linspace(-1, 11, 49)[:, None]
    expected = IsotonicRegression(out_of_bounds="clip").fit(raw, ratings)
    assert fitted.predict(asked) == pytest.approx(expected.predict(asked[:, 0]), abs=1e-9)
    assert not fitted.find_fault(1)
    assert len(set(fitted.predict(np.full((3, 1), raw[0])))) == 1


@given(st.integers(0, 10**6), st.integers(3, 30), st.integers(1, 8), st.sampled_from([0.5, 3.0, 100.0]))
def test_ridge_is_ridge(seed: int, cases: int, width: int, penalty: float) -> None:
    rng = np.random.default_rng(seed)
    design, ratings = rng.normal(2, 3, (cases, width)), rng.normal(0, 1, cases)
    expected = Ridge(alpha=penalty).fit(design, ratings)
    assert solve_ridge(design, ratings, (penalty,))[0] == pytest.approx(expected.coef_, abs=1e-8)
    fitted = fit_linear(lesson(design, ratings), penalties=(penalty,))
    standard = (design - design.mean(axis=0)) / design.std(axis=0)
    said = Ridge(alpha=penalty).fit(standard, ratings).predict(standard)
    assert fitted.predict(design) == pytest.approx(said, abs=1e-8)


@settings(max_examples=5)
@given(st.integers(0, 10**6), st.integers(12, 80), st.integers(1, 6))
def test_trees_say_without_scikit_learn_what_they_say_with_it(seed: int, cases: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    values, ratings = np.round(rng.normal(0, 1, (cases, width)), 1), rng.uniform(0, 1, cases)
    asked = np.vstack([values, rng.normal(0, 3, (50, width)), np.full((1, width), 1e300)])
    with np.errstate(over="ignore"):
        near = asked.astype(np.float32)[:-1]  # scikit-learn takes no number beyond single precision
    grown = ExtraTreesRegressor(FOREST_TREES, random_state=0, **TREE_SETTINGS).fit(values, ratings)
    assert fit_forest(lesson(values, ratings)).predict(asked)[:-1] == pytest.approx(grown.predict(near), abs=1e-12)
    stepped = GradientBoostingRegressor(n_estimators=30, learning_rate=0.04, random_state=0).fit(values, ratings)
    base = float(np.ravel(stepped.init_.constant_)[0])
    boosted = TreeEnsembleMap(base, 0.04, tuple(export_tree(one.tree_) for one in stepped.estimators_.ravel()))
    assert boosted.predict(asked)[:-1] == pytest.approx(stepped.predict(near), abs=1e-12)
    one = export_tree(grown.estimators_[0].tree_)
    assert TreeEnsembleMap(0.0, 1.0, (one,)).predict(asked[:-1]) == pytest.approx(
        grown.estimators_[0].predict(near), abs=0
    )
    assert not one.find_fault(width)


def test_a_forest_is_the_same_each_time() -> None:
    rng = np.random.default_rng(0)
    taught = lesson(rng.normal(0, 1, (40, 3)), rng.uniform(0, 1, 40))
    assert fit_forest(taught) == fit_forest(taught)


def test_a_forest_of_many_cases_stays_small_and_still_learns() -> None:
    """Each tree gets a sample of its own of them."""
    rng = np.random.default_rng(3)
    values = rng.uniform(0, 1, (4 * MAX_TREE_CASES, 3))
    ratings = np.where(values[:, 0] > 0.5, values[:, 1], values[:, 2])
    fitted = fit_forest(lesson(values, ratings + rng.normal(0, 0.1, len(ratings))), trees=FEW_TREES)
    assert len(fitted.trees) == FEW_TREES
    assert max(len(tree.column) for tree in fitted.trees) <= 2 * MAX_TREE_CASES / TREE_SETTINGS["min_samples_leaf"]
    assert np.abs(fitted.predict(values[:2000]) - ratings[:2000]).mean() < 0.1  # of a constant: 0.25
    assert len({tree.column for tree in fitted.trees}) == FEW_TREES
    sampled = ExtraTreesRegressor(
        FEW_TREES, random_state=0, bootstrap=True, max_samples=MAX_TREE_CASES, **TREE_SETTINGS
    ).fit(values, ratings)
    assert fit_forest(lesson(values, ratings), FEW_TREES).predict(values[:200]) == pytest.approx(
        sampled.predict(values[:200]), abs=1e-12
    )


def test_curves_bend_and_numbers_out_of_the_ordinary_do_no_harm() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0, 1, (300, 2))
    ratings = np.clip(1 - values[:, 0] ** 2 / 6, 0, 1)  # best in the middle
    fitted = fit_curved(lesson(values, ratings))
    middle, sides = fitted.predict(np.array([[0.0, 0.0]]))[0], fitted.predict(np.array([[2.0, 0.0], [-2.0, 0.0]]))
    assert (sides < middle - 0.3).all()
    far = fitted.predict(np.array([[1e9, 1e9]]))[0]
    assert 0 <= far <= 1.2


def test_ends_keep_the_ties_that_people_have_at_the_end_of_their_scale() -> None:
    rng = np.random.default_rng(2)
    raw = rng.uniform(0, 10, (400, 1))
    ratings = np.where(raw[:, 0] < 5, 0.0, raw[:, 0] / 10) * (rng.uniform(size=400) > 0.05)
    rated = Ratings("quality", tuple(map(str, range(400))), ("ada",), ratings[:, None])
    judged = Scores("a judge", rated.cases, {"raw": Column("raw", ColumnKind.CRITERION, raw[:, 0], (0.0, 10.0))})
    made = build_task(judged, rated, judged.columns["raw"], TaskOptions(scale=(0.0, 1.0)))
    recipe, fold = RECIPES["linear"], assign_folds(made.group_index, 5)
    held_out = predict_out_of_fold(made, recipe, fold)
    fitted = MapFinish(snaps=True).apply(made, (fit_map(made, recipe).map,) * 2, (held_out, held_out))
    assert isinstance(fitted, SnapToEndsMap)
    said = fitted.predict(np.array([[0.5], [1.0], [9.0]]))
    assert fitted.under is not None
    assert fitted.over is None  # nobody gave the highest rating
    assert said[0] == said[1] == 0
    assert said[2] > 0.5
    # Ties are ties whichever fold's map says so.
    tied = MapFinish(snaps=True).predictions(made, held_out, held_out, fold)
    assert (tied.positions(made.scale)[tied.values == 0] == 0).all()
    assert (tied.values == 0).sum() > 100


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.integers(1, 12), st.integers(0, 99))
def test_folds_never_divide_a_group(groups: list[int], count: int, seed: int) -> None:
    fold = assign_folds(np.array(groups), count, seed)
    assert all(len(set(fold[np.array(groups) == one])) == 1 for one in set(groups))
    assert set(fold) == set(range(min(count, len(set(groups)))))
    assert (fold == assign_folds(np.array(groups), count, seed)).all()
