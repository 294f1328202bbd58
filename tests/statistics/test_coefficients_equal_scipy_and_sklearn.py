"""Coefficients equal those of SciPy and scikit-learn, and a whole weight counts a case that many times."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from beholder.statistics.coefficients import (
    combine_sums,
    decision_statistics,
    distance_statistics,
    exact_agreement_statistics,
    find_scale_step,
    pair_scores,
    quadratic_kappa_statistics,
    rank_statistics,
)
from beholder.statistics.data import Floats

Points = tuple[Floats, Floats, Floats]


@st.composite
def points(draw: st.DrawFn, levels: int = 7, least: int = 2) -> Points:
    """Judge, people, and how often each case was drawn."""
    size = draw(st.integers(least, 30))
    sides = [draw(st.lists(st.integers(1, levels), min_size=size, max_size=size)) for _ in range(2)]
    weights = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size).filter(lambda one: sum(one) > 1))
    x, y, times = (np.array(one, np.float64) for one in (*sides, weights))
    return x, y, times


def repeated(given_: Points) -> tuple[Floats, Floats]:
    x, y, times = given_
    return np.repeat(x, times.astype(int)), np.repeat(y, times.astype(int))


def same(ours: float, theirs: float) -> bool:
    return (np.isnan(ours) and np.isnan(theirs)) or ours == pytest.approx(theirs, abs=1e-9)


def quiet(theirs: Callable[[], float]) -> float:
    """SciPy and scikit-learn warn where they answer nan."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(theirs())


def spearman(x: Floats, y: Floats) -> float:
    return float(stats.spearmanr(x, y).statistic)


def kendall(x: Floats, y: Floats, variant: str) -> float:
    return float(stats.kendalltau(x, y, variant=variant).statistic)


@given(points())
def test_ranks(given_: Points) -> None:
    x, y, times = given_
    ours = rank_statistics(pair_scores(x, y))(np.stack([np.ones_like(x), times]))
    for at, (one, other) in enumerate([(x, y), repeated(given_)]):
        assert same(ours["spearman"][at], quiet(partial(spearman, one, other)))
        for variant in "bc":
            assert same(ours[f"tau_{variant}"][at], quiet(partial(kendall, one, other, variant)))


@given(points())
def test_distances(given_: Points) -> None:
    x, y, times = given_
    ours = distance_statistics(pair_scores(x, y))(times[None])
    one, other = repeated(given_)
    assert same(ours["pearson"][0], quiet(lambda: stats.pearsonr(one, other).statistic))
    assert same(ours["mae"][0], metrics.mean_absolute_error(other, one))
    assert same(ours["bias"][0], float((one - other).mean()))


@given(points())
def test_quadratic_kappa(given_: Points) -> None:
    x, y, times = given_
    one, other = repeated(given_)
    ours = quadratic_kappa_statistics(pair_scores(x, y))(times[None])["quadratic_kappa"][0]
    labels = list(range(1, 8))
    assert same(ours, quiet(lambda: metrics.cohen_kappa_score(one, other, labels=labels, weights="quadratic")))


@given(points(levels=2))
def test_decisions(given_: Points) -> None:
    x, y, times = given_[0] - 1, given_[1] - 1, given_[2]
    one, other = repeated((x, y, times))
    ours = decision_statistics(pair_scores(x, y))(times[None])
    assert same(ours["kappa"][0], quiet(lambda: metrics.cohen_kappa_score(one, other)))
    scored = {"pos_label": 0, "zero_division": np.nan}
    assert same(ours["precision"][0], quiet(lambda: metrics.precision_score(other, one, **scored)))
    assert same(ours["recall"][0], quiet(lambda: metrics.recall_score(other, one, **scored)))


@given(points())
def test_exact_and_within_one(given_: Points) -> None:
    x, y, times = given_
    one, other = repeated(given_)
    ours = exact_agreement_statistics(pair_scores(x, y), 1, 1)(times[None])
    assert same(ours["exact"][0], metrics.accuracy_score(other, one))
    assert same(ours["within_one"][0], float((np.abs(one - other) <= 1).mean()))


def test_the_judge_is_rounded_to_a_step_of_the_peoples_scale() -> None:
    judge, people = np.array([0.2, 0.3, 0.9, 0.0]), np.array([0.0, 0.5, 0.5, 1.0])
    ours = exact_agreement_statistics(pair_scores(judge, people), 0, 0.5)(np.ones((1, 4)))
    assert (ours["exact"][0], ours["within_one"][0]) == (0.5, 0.75)


@pytest.mark.parametrize(
    ("ratings", "step"),
    [
        ([0, 0.5, 1], 0.5),
        ([1, 2, 4, 7], 1),
        ([1, 4, 7], 3),
        ([3, 3], None),
        ([0, 1, 2.5], None),
        (range(100), None),
    ],
)
def test_the_step_of_a_scale_follows_from_its_ratings(ratings: Sequence[float], step: float | None) -> None:
    assert find_scale_step(np.array(ratings, np.float64)) == step


@given(points())
def test_several_at_once_are_the_same(given_: Points) -> None:
    x, y, times = given_
    pairs = pair_scores(x, y)
    parts = [distance_statistics(pairs), quadratic_kappa_statistics(pairs), exact_agreement_statistics(pairs, 1, 1)]
    at_once = combine_sums(parts)(times[None])
    for part in parts:
        for name, value in part(times[None]).items():
            assert same(at_once[name][0], value[0])


@given(st.integers(0, 10_000), st.floats(-1, 1))
def test_many_distinct_values_are_exact_for_all_cases(seed: int, pull: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=300)
    y = np.round(pull * x + rng.normal(size=300), 2)  # some ties
    ours = rank_statistics(pair_scores(x, y))(np.ones((1, 300)))
    assert ours["spearman"][0] == pytest.approx(stats.spearmanr(x, y).statistic)
    assert ours["tau_b"][0] == pytest.approx(stats.kendalltau(x, y).statistic)
    assert ours["tau_c"][0] == pytest.approx(stats.kendalltau(x, y, variant="c").statistic)


@given(st.integers(0, 10_000))
def test_draws_over_classes_are_near_the_exact_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=400)
    y = x + rng.normal(size=400)
    weights = rng.multinomial(400, np.full(400, 1 / 400), 5)
    ours = rank_statistics(pair_scores(x, y))(weights.astype(np.float64))
    for at, times in enumerate(weights):
        one, other = np.repeat(x, times), np.repeat(y, times)
        assert ours["spearman"][at] == pytest.approx(stats.spearmanr(one, other).statistic, abs=0.005)
        assert ours["tau_b"][at] == pytest.approx(stats.kendalltau(one, other).statistic, abs=0.01)


@given(points())
def test_cases_that_are_alike_may_be_counted_together(given_: Points) -> None:
    x, y, times = given_
    known = times > 0
    pairs = pair_scores(x[known], y[known], times[known].astype(np.int64))
    ours = rank_statistics(pairs)(times[None, known])
    one, other = repeated(given_)
    assert same(ours["spearman"][0], quiet(lambda: stats.spearmanr(one, other).statistic))


def test_a_long_scale_counted_together_is_exact() -> None:
    rng = np.random.default_rng(0)
    x, y, times = rng.normal(size=200), rng.normal(size=200), rng.integers(1, 4, 200)
    ours = rank_statistics(pair_scores(x, y, times))(times[None].astype(np.float64))
    one, other = np.repeat(x, times), np.repeat(y, times)
    assert ours["tau_b"][0] == pytest.approx(stats.kendalltau(one, other).statistic)


def test_tables_are_filled_some_draws_at_a_time() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 60, (2, 300)).astype(np.float64)
    weights = rng.integers(0, 3, (1500, 300)).astype(np.float64)  # 60 × 60 × 1500 is more than one block
    statistic = rank_statistics(pair_scores(x, y))
    whole = statistic(weights)
    for at in (0, 700, 1499):
        alone = statistic(weights[at : at + 1])
        assert all(same(whole[name][at], alone[name][0]) for name in whole)


def test_missing_scores_are_no_points_and_each_rating_is_one() -> None:
    people = np.array([[1, 2], [np.nan, 3], [1, 1]], np.float64)
    pairs = pair_scores(np.array([5, 6, np.nan]), people)
    assert pairs.x.tolist() == [5, 5, 6]
    assert pairs.y.tolist() == [1, 2, 3]
    assert pairs.case.tolist() == [0, 0, 1]
    weights = np.array([[2.0, 1.0, 9.0]])
    assert distance_statistics(pairs)(weights)["mae"][0] == pytest.approx((2 * 4 + 2 * 3 + 3) / 5)


@pytest.mark.parametrize(
    "statistic", [rank_statistics, distance_statistics, quadratic_kappa_statistics, decision_statistics]
)
def test_without_points_nothing_is_defined(statistic: Callable[..., Callable[[Floats], dict[str, Floats]]]) -> None:
    nothing = np.full(3, np.nan)
    found = statistic(pair_scores(nothing, nothing))(np.ones((2, 3)))
    assert all(np.isnan(values).all() for values in found.values())


def test_a_constant_has_a_distance_and_no_correlation() -> None:
    x, y = np.full(9, 0.1), np.arange(9) / 9
    pairs, weights = pair_scores(x, y), np.ones((1, 9))
    assert np.isnan(distance_statistics(pairs)(weights)["pearson"][0])
    assert all(np.isnan(value[0]) for value in rank_statistics(pairs)(weights).values())
    assert distance_statistics(pairs)(weights)["mae"][0] == pytest.approx(np.abs(x - y).mean())
    assert quadratic_kappa_statistics(pairs)(weights)["quadratic_kappa"][0] == pytest.approx(0)
