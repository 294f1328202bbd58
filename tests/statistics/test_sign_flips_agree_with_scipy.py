"""The permutation test is SciPy's where SciPy can do it, and Holm's correction is statsmodels'."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import permutation_test
from statsmodels.stats.multitest import multipletests

from beholder.statistics.significance import RANDOM_FLIPS, correct_holm, sign_flip_test

steps = st.integers(-5, 5).map(lambda number: number / 4)


@given(st.lists(steps, min_size=2, max_size=8))
def test_all_flips_are_gone_through_where_there_are_few(differences: list[float]) -> None:
    values = np.array(differences)
    expected = permutation_test(
        (values, np.zeros_like(values)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
        vectorized=True,
    )
    assert sign_flip_test(values[:, None], 0)[0] == pytest.approx(min(1.0, expected.pvalue))


def test_many_groups_are_flipped_at_random_and_come_near() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(0.3, 1, 40)
    expected = permutation_test(
        (values, np.zeros_like(values)),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=20_000,
        vectorized=True,
        rng=np.random.default_rng(1),
    )
    assert sign_flip_test(values[:, None], 0)[0] == pytest.approx(expected.pvalue, abs=0.015)


def test_a_p_is_never_nothing() -> None:
    assert sign_flip_test(np.ones((50, 1)), 0)[0] == pytest.approx(1 / (RANDOM_FLIPS + 1))


def test_each_column_has_the_p_that_it_has_alone() -> None:
    rng = np.random.default_rng(5)
    few, many = np.zeros((30, 2)), rng.normal(0.2, 1, (30, 2))
    few[:6] = rng.normal(0.5, 1, (6, 2))
    together = sign_flip_test(np.hstack([few, many]), 7)
    assert list(together[:2]) == [sign_flip_test(few[:, [at]], 7)[0] for at in (0, 1)]
    assert together[2:] == pytest.approx([sign_flip_test(many[:, [at]], 7)[0] for at in (0, 1)])


def test_false_alarms_are_as_rare_as_promised() -> None:
    rng = np.random.default_rng(9)
    p = sign_flip_test(rng.normal(size=(10, 2000)), 0)
    assert (p <= 0.05).mean() == pytest.approx(0.05, abs=0.015)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
@settings(max_examples=15)  # statsmodels takes its time
def test_holm_is_statsmodels(p: list[float]) -> None:
    assert correct_holm(np.array(p)) == pytest.approx(multipletests(p, method="holm")[1])


def test_what_was_not_tested_does_not_count_for_holm() -> None:
    corrected = correct_holm(np.array([0.01, np.nan, 0.04]))
    assert list(corrected[[0, 2]]) == pytest.approx([0.02, 0.04])
    assert np.isnan(corrected[1])
