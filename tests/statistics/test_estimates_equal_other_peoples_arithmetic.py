"""What `estimate` computes is what the textbook, SciPy and statsmodels compute."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from beholder.statistics.bootstrap import t_cdf, t_quantile
from beholder.statistics.estimation import estimate_human_mean, estimate_pass_rate
from beholder.statistics.regression import RegressionFit, correct_pass_rate, fit_regression, wilson_estimate

HUMAN = np.array([3.0, 4, 2, 5, 4, 1, 3, 4, 5, 2, 4, 3] + [np.nan] * 18)
JUDGE = np.array([6.0, 7, 5, 9, 8, 4, 5, 9, 9, 3, 7, 7, 8, 6, 5, 9, 4, 7, 8, 6, 7, 9, 3, 5, 8, 8, 7, 6, 9, 9])
SOLE = np.arange(30)
PAIRS = SOLE // 2


@given(st.floats(1e-4, 1 - 1e-4), st.integers(1, 5000))
def test_students_t_is_scipys(share: float, freedom: int) -> None:
    assert t_quantile(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=1e-6, abs=1e-6)


@given(st.floats(-50, 50), st.integers(1, 5000))
def test_and_so_is_the_probability_below(value: float, freedom: int) -> None:
    assert t_cdf(value, freedom) == pytest.approx(stats.t.cdf(value, freedom), abs=1e-7)


def test_people_alone_are_the_usual_mean_and_t_interval() -> None:
    known = HUMAN[:12]
    found = estimate_human_mean(HUMAN, JUDGE, None).people
    low, high = stats.t.interval(0.95, 11, known.mean(), stats.sem(known))
    assert (found.value, found.low, found.high) == pytest.approx((known.mean(), low, high))


def test_people_alone_in_groups_are_statsmodels_clustered_mean() -> None:
    import statsmodels.api as sm  # a second, in every process that collects tests

    fit = fit_regression(HUMAN, PAIRS)
    theirs = sm.OLS(HUMAN[:12], np.ones(12)).fit(cov_type="cluster", cov_kwds={"groups": PAIRS[:12]})
    assert fit is not None
    assert fit.value == pytest.approx(theirs.params[0])
    assert fit.variance == pytest.approx(theirs.cov_params()[0, 0])


@pytest.mark.parametrize("group", [SOLE, PAIRS], ids=["each alone", "pairs"])
def test_with_the_judge_it_is_statsmodels_prediction_at_the_judges_mean(group: np.ndarray) -> None:
    import statsmodels.api as sm

    fit = fit_regression(HUMAN, group, JUDGE)
    design = sm.add_constant(JUDGE[:12])
    theirs = sm.OLS(HUMAN[:12], design).fit(cov_type="cluster", cov_kwds={"groups": group[:12]})
    at = np.array([1, JUDGE.mean()])
    assert fit is not None
    assert fit.weight == pytest.approx(theirs.params[1])
    assert fit.value == pytest.approx(at @ theirs.params)
    assert fit.rating_variance == pytest.approx(at @ theirs.cov_params() @ at)


def test_and_the_prediction_powered_estimate_by_hand() -> None:
    people, rated = HUMAN[:12], JUDGE[:12]
    weight = np.cov(people, rated)[0, 1] / np.var(rated, ddof=1)
    found = estimate_human_mean(HUMAN, JUDGE, None)
    assert found.weight == pytest.approx(weight)
    assert found.combined.value == pytest.approx(people.mean() + weight * (JUDGE.mean() - rated.mean()))
    # The same with rated and other cases apart, as PPI++ is written: the weight is then less by 1 + n/N.
    apart = weight / (1 + 12 / 18)
    assert found.combined.value == pytest.approx(people.mean() + apart * (JUDGE[12:].mean() - rated.mean()))


def test_where_the_judge_means_are_alike_the_variance_is_cochrans_for_double_sampling() -> None:
    rng = np.random.default_rng(4)
    people = rng.choice([-1.0, 1.0], 4000)
    judge = np.where(rng.random(4000) < 0.8, people, -people)
    human = np.where(np.arange(4000) < 500, people, np.nan)
    fit = fit_regression(human, np.arange(4000), judge)
    assert fit is not None
    left = stats.linregress(judge[:500], human[:500])
    residual = np.var(human[:500] - left.slope * judge[:500], ddof=1) * 499 / 498
    assert fit.rating_variance == pytest.approx(residual / 500, rel=0.02)
    assert fit.case_variance == pytest.approx(left.slope**2 * np.var(judge, ddof=1) / 4000, rel=0.02)


def test_where_every_case_is_rated_the_judge_changes_nothing() -> None:
    people = np.tile(HUMAN[:12], 3)[:30]
    found = estimate_human_mean(people, JUDGE, None)
    assert found.combined.value == pytest.approx(people.mean())
    alone, both = fit_regression(people, SOLE), fit_regression(people, SOLE, JUDGE)
    assert alone is not None
    assert both is not None
    assert both.variance == pytest.approx(alone.variance, rel=0.05)


@given(move=st.floats(-100, 100), stretch=st.floats(0.01, 100))
def test_the_judges_scale_does_not_matter(move: float, stretch: float) -> None:
    usual, other = estimate_human_mean(HUMAN, JUDGE, None), estimate_human_mean(HUMAN, move + stretch * JUDGE, None)
    ours = (usual.combined.value, usual.combined.low, usual.combined.high)
    assert (other.combined.value, other.combined.low, other.combined.high) == pytest.approx(ours)


@given(st.integers(0, 2**32 - 1))
def test_the_bias_is_the_judge_less_the_estimate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    people = rng.normal(size=80)
    judge = people + rng.normal(size=80) + 1
    human = np.where(np.arange(80) < 30, people, np.nan)
    found = estimate_human_mean(human, judge, None, judge_rescaled=judge)
    if found.weight is not None:
        assert found.bias.value == pytest.approx(judge.mean() - found.combined.value)


def test_with_a_judge_that_says_yes_or_no_it_is_the_mean_of_the_strata() -> None:
    judge = np.array([1.0] * 60 + [0.0] * 40)
    human = np.full(100, np.nan)
    human[:20] = [1] * 18 + [0] * 2
    human[60:70] = [1] * 3 + [0] * 7
    found = estimate_pass_rate(human, judge, None)
    assert found.combined.value == pytest.approx(0.6 * 0.9 + 0.4 * 0.3)


def test_the_correction_is_rogan_and_gladens() -> None:
    judge = np.array([1.0] * 60 + [0.0] * 40)
    human = np.full(100, np.nan)
    human[:20] = [1] * 18 + [0] * 2
    human[60:70] = [1] * 3 + [0] * 7
    found = correct_pass_rate(human, judge, np.arange(100))
    sensitivity, specificity = 18 / 21, 7 / 9
    assert (found.sensitivity, found.specificity) == pytest.approx((sensitivity, specificity))
    assert found.rate.value == pytest.approx((0.6 + specificity - 1) / (sensitivity + specificity - 1))


def test_a_rate_of_independent_cases_has_wilsons_interval() -> None:
    fit = RegressionFit(0.7, 0.0, 0.7 * 0.3 / 5000, 0.0, 4999, 0.0)
    theirs = stats.binomtest(3500, 5000).proportion_ci(method="wilson")
    ours = wilson_estimate(fit, 5000)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=2e-4)
