"""Draws keep groups together, are the same for the same seed, and their intervals cover as often as they say."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import t as scipy_t

from beholder.statistics.bootstrap import ClusterBootstrap, Interval, IntervalMethod, estimate_from_draws, weighted_mean

GROUPS = st.lists(st.sampled_from(["a", "b", "c", "d", ""]), min_size=1, max_size=30)


@given(GROUPS, st.integers(0, 5))
def test_cases_of_a_group_are_drawn_together(groups: list[str], seed: int) -> None:
    draws = ClusterBootstrap(groups, len(groups), count=7, seed=seed)
    weights = np.concatenate(list(draws.case_weights()))
    assert weights.shape == (7, len(groups))
    for one, name in enumerate(groups):
        for other in range(one):
            if name and groups[other] == name:
                assert np.array_equal(weights[:, one], weights[:, other])
    own = [groups.index(name) if name else row for row, name in enumerate(groups)]
    assert np.array_equal(weights[:, sorted(set(own))].sum(axis=1), np.full(7, len(set(own))))


def test_a_case_in_no_group_stands_alone() -> None:
    assert ClusterBootstrap(["", "", "a", "a"], 4).group_count == 3
    assert ClusterBootstrap(None, 4).group_count == 4


@pytest.mark.parametrize("size", [5, 3000])
def test_the_same_seed_draws_the_same_however_it_is_cut_into_blocks(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.concatenate(list(ClusterBootstrap(None, size, count=50, seed=3).group_weights()))
    monkeypatch.setattr("beholder.statistics.bootstrap._WEIGHTS_PER_BLOCK", size * 7)
    assert np.array_equal(whole, np.concatenate(list(ClusterBootstrap(None, size, count=50, seed=3).group_weights())))
    assert not np.array_equal(
        whole, np.concatenate(list(ClusterBootstrap(None, size, count=50, seed=4).group_weights()))
    )


def test_bca_is_close_to_scipys_for_many_groups() -> None:
    values = np.random.default_rng(1).exponential(size=1000)
    ours = ClusterBootstrap(None, 1000, count=10_000).estimate(weighted_mean(values))
    theirs = scipy_bootstrap((values,), np.mean, n_resamples=10_000, method="BCa", rng=2).confidence_interval
    assert ours.value == pytest.approx(values.mean())
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_few_groups_reach_further_as_students_t_does() -> None:
    values = np.random.default_rng(1).normal(size=12)
    ours = ClusterBootstrap(None, 12, count=20_000, method=IntervalMethod.PERCENTILE).estimate(weighted_mean(values))
    low, high = scipy_t.interval(0.95, 11, values.mean(), values.std(ddof=1) / 12**0.5)
    assert ours.low is not None
    assert ours.high is not None
    assert ours.high - ours.low == pytest.approx(high - low, rel=0.05)


@pytest.mark.parametrize("size", [10, 40])
def test_intervals_cover_the_truth_as_often_as_they_say(size: int) -> None:
    rng = np.random.default_rng(5)
    held, alone = 0, 0
    for seed in range(200):
        photographs = np.repeat(rng.normal(size=size), 4)  # four edits of each share its difficulty
        values = photographs + rng.normal(size=4 * size)
        groups = [str(row // 4) for row in range(4 * size)]
        for kept in (groups, None):
            found = ClusterBootstrap(kept, 4 * size, count=400, seed=seed).estimate(weighted_mean(values))
            assert found.low is not None
            assert found.high is not None
            inside = found.low <= 0 <= found.high
            held, alone = (held + inside, alone) if kept else (held, alone + inside)
    assert 0.91 <= held / 200 <= 0.99
    assert alone / 200 < 0.85  # what ignoring the groups would have cost


def test_one_group_has_a_value_and_no_interval() -> None:
    found = ClusterBootstrap(["a"] * 3, 3).estimate(weighted_mean(np.array([1.0, 2.0, 3.0])))
    assert (found.value, found.low, found.high) == (2.0, None, None)
    assert "one group" in found.why


def test_what_is_mostly_undefined_has_no_interval() -> None:
    drawn = np.where(np.arange(100) < 20, np.nan, 1.0)
    assert estimate_from_draws(1.0, drawn).low is None
    assert estimate_from_draws(float("nan"), drawn, why="nobody rated") == Interval(None, why="nobody rated")


def test_no_case_is_no_estimate_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ClusterBootstrap(None, 0).estimates(lambda weights: {"mean": weights.sum(axis=1)}) == {}


def test_it_says_how_it_was_drawn() -> None:
    assert "BCa bootstrap, 2,000 draws of 2 groups (seed 0)" in ClusterBootstrap(["a", "a", "b"], 3).describe()
    assert "too narrow" in ClusterBootstrap(["a", "a", "b"], 3).describe()
    many = ClusterBootstrap(None, 5000)
    assert "too narrow" not in many.describe()
    assert many.method is IntervalMethod.PERCENTILE
    assert "each taken as independent" in many.describe()
