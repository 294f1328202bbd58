"""Krippendorff's α equals the package of that name, ICC the analysis of variance, and every rater is told as he is."""

from __future__ import annotations

from typing import Literal

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from beholder.statistics.data import Floats, Ratings
from beholder.statistics.raters import (
    intraclass_statistics,
    krippendorff_statistics,
    rater_distance_statistics,
    rater_rank_statistics,
    summarize_raters,
)

Level = Literal["ordinal", "interval", "nominal"]
LEVELS: tuple[Level, ...] = ("ordinal", "interval", "nominal")


@st.composite
def rated(draw: st.DrawFn) -> Floats:
    """Cases × raters with gaps."""
    cases, raters = draw(st.integers(2, 10)), draw(st.integers(2, 5))
    rating = st.one_of(st.integers(1, 5).map(float), st.just(float("nan")))
    row = st.lists(rating, min_size=raters, max_size=raters)
    return np.array(draw(st.lists(row, min_size=cases, max_size=cases)), np.float64)


def theirs(values: Floats, level: Level) -> float:
    return float(krippendorff.alpha(reliability_data=values.T, level_of_measurement=level))


def varies(values: Floats) -> bool:
    """Whether ratings of cases with two or more differ at all; else the package raises."""
    usable = values[(~np.isnan(values)).sum(axis=1) > 1]
    return len(np.unique(usable[~np.isnan(usable)])) > 1


@given(rated())
def test_alpha_with_missing_ratings(values: Floats) -> None:
    assume(varies(values))
    found = krippendorff_statistics(values)(np.ones((1, len(values))))
    for level in LEVELS:
        assert found[f"alpha_{level}"][0] == pytest.approx(theirs(values, level), abs=1e-9)


@given(rated(), st.integers(0, 1000))
def test_a_weight_repeats_a_case(values: Floats, seed: int) -> None:
    times = np.random.default_rng(seed).integers(0, 3, len(values))
    again = np.repeat(values, times, axis=0)
    assume(len(again) and varies(again))
    found = krippendorff_statistics(values)(times[None].astype(np.float64))
    for level in LEVELS:
        assert found[f"alpha_{level}"][0] == pytest.approx(theirs(again, level), abs=1e-9)


def test_alpha_on_a_long_scale_is_exact() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(80, 1)) + rng.normal(size=(80, 3))
    values[rng.random(values.shape) < 0.2] = np.nan
    found = krippendorff_statistics(values)(np.ones((1, 80)))
    assert found["alpha_ordinal"][0] == pytest.approx(theirs(values, "ordinal"))
    assert found["alpha_interval"][0] == pytest.approx(theirs(values, "interval"))


def test_alpha_of_a_book() -> None:
    """Krippendorff (2011), Computing Krippendorff's alpha-reliability, section D."""
    table = """
    1 1 . 1
    2 2 3 2
    3 3 3 3
    3 3 3 3
    2 2 2 2
    1 2 3 4
    4 4 4 4
    1 1 2 1
    2 2 2 2
    . 5 5 5
    . . 1 1
    . . 3 ."""
    values = np.array(
        [[np.nan if one == "." else float(one) for one in line.split()] for line in table.strip().splitlines()]
    )
    found = krippendorff_statistics(values)(np.ones((1, 12)))
    assert {name: round(float(value[0]), 3) for name, value in found.items()} == {
        "alpha_ordinal": 0.815,
        "alpha_interval": 0.849,
        "alpha_nominal": 0.743,
    }


def test_alpha_is_one_when_all_agree_and_not_defined_when_all_is_one_rating() -> None:
    agreed = krippendorff_statistics(np.array([[1.0, 1.0], [2.0, 2.0], [5.0, 5.0]]))(np.ones((1, 3)))
    assert all(value[0] == pytest.approx(1) for value in agreed.values())
    for nothing in (np.full((3, 2), 4.0), np.array([[1.0, np.nan], [np.nan, 2.0]])):
        found = krippendorff_statistics(nothing)(np.ones((1, len(nothing))))
        assert all(np.isnan(value[0]) for value in found.values())


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(3, 12))
def test_intraclass_correlation_is_the_analysis_of_variance(seed: int, raters: int, cases: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(5, 1, (cases, 1)) + rng.normal(0, 1, (cases, raters))
    frame = pd.DataFrame({"case": np.repeat(np.arange(cases), raters), "score": values.ravel()})
    table = anova_lm(ols("score ~ C(case)", frame).fit())
    among, within = table["mean_sq"]["C(case)"], table["mean_sq"]["Residual"]
    found = intraclass_statistics(values)(np.ones((1, cases)))
    assert found["icc_1"][0] == pytest.approx((among - within) / (among + (raters - 1) * within))
    assert found["icc_k"][0] == pytest.approx((among - within) / among)


def test_unequal_numbers_of_raters_count_as_in_the_analysis_of_variance() -> None:
    values = np.array([[1, 2, 2], [4, 5, np.nan], [6, 7, 7], [3, np.nan, np.nan]], np.float64)
    used = pd.DataFrame([(case, one) for case, row in enumerate(values[:3]) for one in row if not np.isnan(one)])
    table = anova_lm(ols("score ~ C(case)", used.set_axis(["case", "score"], axis=1)).fit())
    among, within = table["mean_sq"]["C(case)"], table["mean_sq"]["Residual"]
    k = (8 - (9 + 4 + 9) / 8) / 2
    found = intraclass_statistics(values)(np.ones((1, 4)))
    assert found["icc_1"][0] == pytest.approx((among - within) / (among + (k - 1) * within))


def test_intraclass_correlation_has_its_ends() -> None:
    one = np.ones((1, 3))
    assert intraclass_statistics(np.array([[1.0, 1], [2, 2], [3, 3]]))(one)["icc_1"][0] == pytest.approx(1)
    assert np.isnan(intraclass_statistics(np.full((3, 2), 0.1))(one)["icc_1"][0])
    assert np.isnan(intraclass_statistics(np.array([[1.0, np.nan], [2, np.nan], [3, np.nan]]))(one)["icc_k"][0])


def test_one_rater_against_the_others_is_averaged_over_raters() -> None:
    rng = np.random.default_rng(3)
    values = np.clip(np.rint(rng.normal(4, 1, (40, 1)) + rng.normal(0, 1, (40, 4))), 1, 7)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[:, 3] = np.nan
    values[:3, 3] = (1, 2, 7)  # too few to rank
    each = []
    for at in range(3):
        others = np.delete(values, at, axis=1)
        both = ~np.isnan(values[:, at]) & ~np.isnan(others).all(axis=1)
        each.append(stats.spearmanr(values[both, at], np.nanmean(others[both], axis=1)).statistic)
    statistic = rater_rank_statistics(values)
    assert statistic(np.ones((1, 40)))["rater_spearman"][0] == pytest.approx(np.mean(each))


def test_one_rater_against_each_rating_of_the_others() -> None:
    values = np.array([[1, 2, 3], [2, 2, 5], [4, 5, 4], [7, 6, np.nan], [6, 7, 7], [3, 1, 2]], np.float64)
    each = []
    for at in range(3):
        points = [
            (row[at], other)
            for row in values
            for place, other in enumerate(row)
            if place != at and not np.isnan(row[at]) and not np.isnan(other)
        ]
        each.append(stats.spearmanr(*zip(*points, strict=True)).statistic)
    statistic = rater_rank_statistics(values, each=True)
    assert statistic(np.ones((1, 6)))["rater_spearman"][0] == pytest.approx(np.mean(each))


def test_who_cannot_be_compared_is_left_out() -> None:
    alone = np.array([[float(one), np.nan] for one in range(10)])
    statistic = rater_rank_statistics(alone)
    assert np.isnan(statistic(np.ones((2, 10)))["rater_spearman"]).all()
    assert np.isnan(rater_distance_statistics(alone)(np.ones((1, 10)))["rater_mae"][0])


def test_the_distance_of_one_rating_to_the_others() -> None:
    values = np.array([[1.0, 3, 5], [2, 2, np.nan]])
    assert rater_distance_statistics(values)(np.ones((1, 2)))["rater_mae"][0] == pytest.approx((3 + 0 + 3 + 0 + 0) / 5)


def test_every_rater_is_told() -> None:
    values = np.array([[1, 4, np.nan], [2, 4, np.nan], [3, 4, np.nan], [4, 4, 1], [5, 4, np.nan], [6, 4, np.nan]])
    ratings = Ratings("realism", tuple("abcdef"), ("ann", "bob", "cy"), values.astype(np.float64))
    ann, bob, cy = summarize_raters(ratings)
    assert (ann.rated, ann.mean, ann.is_straightlining) == (6, 3.5, False)
    assert ann.deviation == pytest.approx(np.std(range(6), ddof=1))
    assert ann.bias == pytest.approx(((1 + 2 + 3 + 5 + 6) - 5 * 4 + 4 - 2.5) / 6)
    assert (bob.most_frequent, bob.most_frequent_share, bob.is_straightlining) == (4, 1, True)
    assert (cy.rated, cy.deviation, cy.is_straightlining) == (1, None, False)  # one rating is no straight line
