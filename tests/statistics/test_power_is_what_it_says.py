"""The least difference that is said to be seen is seen in 80 of 100 comparisons, and more cases see a smaller one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from beholder.statistics.comparison.flipping import flip_p
from beholder.statistics.comparison.power import power
from beholder.statistics.grouped import Sums, sums_of
from beholder.statistics.intervals import Draws

SEEN = 0.8


def seen(groups: int, true: float, spread: float, seed: int, times: int = 2000) -> float:
    """How often the t-test and how often the flips find a difference, over groups of three alike cases."""
    rng = np.random.default_rng(seed)
    sums = 3 * rng.normal(true, spread, (groups, times))
    found = Sums(sums, np.full_like(sums, 3.0))
    beyond = np.abs(found.means / found.standard_errors()) > t.ppf(0.975, groups - 1)
    return float(beyond.mean())


@pytest.mark.parametrize("groups", [8, 20, 100])
def test_the_least_difference_is_found_eight_times_in_ten(groups: int) -> None:
    least = power(0.3 / groups**0.5, groups, 3 * groups).least
    assert least is not None
    assert seen(groups, least, 0.3, seed=groups) == pytest.approx(SEEN, abs=0.04)


def test_the_flips_find_it_as_often() -> None:
    least = power(0.3 / 25**0.5, 25, 25).least
    assert least is not None
    sums = np.random.default_rng(4).normal(least, 0.3, (25, 600))
    assert (flip_p(sums, 0) <= 0.05).mean() == pytest.approx(SEEN, abs=0.06)


def test_as_many_cases_as_it_asks_for_find_what_was_asked() -> None:
    first = power(0.3 / 20**0.5, 20, 60, detect=0.1)
    assert first.groups is not None
    assert (first.cases, first.more) == (3 * first.groups, 3 * first.groups - 60)
    assert seen(first.groups, 0.1, 0.3, seed=1) == pytest.approx(SEEN, abs=0.04)
    assert seen(first.groups - 10, 0.1, 0.3, seed=1) < seen(first.groups + 30, 0.1, 0.3, seed=1)


@given(st.floats(0.001, 1), st.integers(2, 500))
def test_what_is_seen_already_takes_no_more(error: float, groups: int) -> None:
    found = power(error, groups, 2 * groups, detect=power(error, groups, 2 * groups).least)
    assert found.groups is not None
    assert found.groups in (groups, groups + 1)  # rounding may ask for one more
    assert power(error, groups, 2 * groups, detect=2 * found.least).more == 0  # type: ignore[operator]


def test_the_standard_error_is_the_plain_one_without_groups() -> None:
    values = np.random.default_rng(1).normal(size=50)
    error = sums_of(Draws(None, 50), [values]).standard_errors()[0]
    assert error == pytest.approx(values.std(ddof=1) / 50**0.5)


def test_what_cannot_be_known_is_said() -> None:
    assert power(float("nan"), 1, 5).least is None
    assert "every difference is the same" in power(0.0, 9, 9).why
    assert "more than" in power(1.0, 9, 9, detect=1e-9).why
