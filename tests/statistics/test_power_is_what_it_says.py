"""The least difference that is said to be seen is seen in 80 of 100 comparisons, and more cases see a smaller one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.statistics.bootstrap import ClusterBootstrap, sum_by_group
from beholder.statistics.significance import (
    SIGNIFICANCE_LEVEL,
    analyze_power,
    correct_holm,
    effective_level,
    min_groups_to_decide,
    sign_flip_test,
    smallest_p,
)

SEEN = 0.8


def seen(groups: int, true: float, spread: float, seed: int, tests: int = 1, times: int = 800) -> float:
    """How often the flips find a difference, as the first of so many tests, over groups of three alike cases."""
    sums = 3 * np.random.default_rng(seed).normal(true, spread, (groups, times))
    return float((sign_flip_test(sums, 0) * tests <= SIGNIFICANCE_LEVEL).mean())


@pytest.mark.parametrize(
    ("groups", "tests"), [(6, 1), (7, 1), (8, 1), (20, 1), (100, 1), (8, 6), (9, 8), (11, 8), (25, 8), (60, 12)]
)
def test_the_least_difference_is_found_eight_times_in_ten(groups: int, tests: int) -> None:
    least = analyze_power(0.3 / groups**0.5, groups, 3 * groups, tests=tests).minimum_detectable
    assert least is not None
    assert seen(groups, least, 0.3, groups, tests) == pytest.approx(SEEN, abs=0.07)


def test_what_is_one_of_many_tests_must_be_larger_to_be_seen() -> None:
    found = [analyze_power(0.1, 30, 30, tests=tests) for tests in (1, 2, 8, 40)]
    least = [one.minimum_detectable for one in found if one.minimum_detectable is not None]
    assert len(least) == 4
    assert least == sorted(set(least))
    assert found[2].to_dict()["at_level"] == pytest.approx(SIGNIFICANCE_LEVEL / 8, abs=1e-4)


@given(st.integers(1, 300), st.integers(1, 40))
def test_a_level_is_one_that_groups_can_reach_and_holm_accepts(tests: int, groups: int) -> None:
    level = effective_level(groups, tests)
    best = correct_holm(np.array([smallest_p(groups), *[1.0] * (tests - 1)]))[0]
    assert (level > 0) == (best <= SIGNIFICANCE_LEVEL) == (groups >= min_groups_to_decide(tests))
    assert level * tests <= SIGNIFICANCE_LEVEL
    if level:
        assert (level + smallest_p(groups)) * tests > SIGNIFICANCE_LEVEL


def test_the_least_p_is_that_of_groups_which_all_agree() -> None:
    for groups in (1, 5, 6, 12, 13):
        assert sign_flip_test(np.ones((groups, 1)), 0)[0] >= smallest_p(groups)
    for groups in (1, 5, 6, 12):
        assert sign_flip_test(np.ones((groups, 1)), 0)[0] == pytest.approx(smallest_p(groups))
    assert [min_groups_to_decide(tests) for tests in (1, 2, 8)] == [6, 7, 9]


def test_groups_that_can_show_nothing_have_no_least_difference() -> None:
    found = analyze_power(0.1, 7, 28, detect=0.5, tests=8)
    assert (found.minimum_detectable, found.detects_nothing) == (None, True)
    assert found.why == "7 groups of cases cannot tell any change in one of 8 columns from chance: it takes 9 at least"
    assert found.groups is not None
    assert found.groups >= 9
    assert analyze_power(0.1, 5, 5).detects_nothing
    assert not analyze_power(0.1, 6, 6).detects_nothing


def test_as_many_cases_as_it_asks_for_find_what_was_asked() -> None:
    first = analyze_power(0.3 / 20**0.5, 20, 60, detect=0.1)
    assert first.groups is not None
    assert (first.cases, first.more_cases) == (3 * first.groups, 3 * first.groups - 60)
    assert seen(first.groups, 0.1, 0.3, seed=1) == pytest.approx(SEEN, abs=0.07)
    assert seen(first.groups - 10, 0.1, 0.3, seed=1) < seen(first.groups + 30, 0.1, 0.3, seed=1)


@given(st.floats(0.001, 1), st.integers(6, 500))
def test_what_is_seen_already_takes_no_more(error: float, groups: int) -> None:
    found = analyze_power(error, groups, 2 * groups, detect=analyze_power(error, groups, 2 * groups).minimum_detectable)
    assert found.groups is not None
    assert found.groups in (groups, groups + 1)  # rounding may ask for one more
    assert analyze_power(error, groups, 2 * groups, detect=2 * found.minimum_detectable).more_cases == 0  # type: ignore[operator]


def test_the_standard_error_is_the_plain_one_without_groups() -> None:
    values = np.random.default_rng(1).normal(size=50)
    error = sum_by_group(ClusterBootstrap(None, 50), [values]).standard_errors()[0]
    assert error == pytest.approx(values.std(ddof=1) / 50**0.5)


def test_what_cannot_be_known_is_said() -> None:
    assert analyze_power(float("nan"), 1, 5).minimum_detectable is None
    assert "every difference is the same" in analyze_power(0.0, 9, 9).why
    assert "more than" in analyze_power(1.0, 9, 9, detect=1e-9).why
