"""The interval of a calibrated score holds four of five ratings of new cases, also where few were learned from."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.calibration import ratings, scores, task

from beholder.statistics.calibration import calibrate
from beholder.statistics.calibration_held_out import (
    INTERVAL_COVERAGE,
    MIN_BAND_GROUPS,
    conformal_bands,
    conformal_bounds,
    find_bands,
    interval_ends,
)
from beholder.statistics.calibration_recipes import RECIPES

FEW = {name: RECIPES[name] for name in ("constant", "offset")}
REST = (1 - INTERVAL_COVERAGE) / 2


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=60, unique=True))
def test_cases_that_stand_alone_have_conformal_ranks(away: list[float]) -> None:
    rank = ceil(round((len(away) + 1) * (1 - REST), 9))
    found = conformal_bounds(np.array(away), np.arange(len(away)))
    if rank > len(away):
        assert found is None
        assert len(away) < 9
    else:
        assert found == (sorted(away)[len(away) - rank], sorted(away)[rank - 1])


@given(st.lists(st.integers(-3, 3), min_size=9, max_size=60))
def test_where_errors_are_equal_it_is_no_wider_and_leaves_out_no_more_than_a_fifth(away: list[int]) -> None:
    rank = ceil(round((len(away) + 1) * (1 - REST), 9))
    found = conformal_bounds(np.array(away, float), np.arange(len(away)))
    assert found is not None
    low, high = found
    assert sorted(away)[len(away) - rank] <= low <= high <= sorted(away)[rank - 1]
    left_out = sum(not low <= one <= high for one in away)
    assert (left_out + 2) / (len(away) + 1) <= 1 - INTERVAL_COVERAGE + 1e-9
    # Nor could more be left out: one step narrower on the emptier side, it would be.
    below, above = (sum(one == end for one in away) for end in (low, high))
    if low < high:
        assert (left_out + min(below, above) + 2) / (len(away) + 1) > 1 - INTERVAL_COVERAGE or below == above


def test_an_interval_is_a_single_point_where_four_of_five_are_at_it() -> None:
    """A judge's zeros that people call zero too: wider would say less than is known, narrower there is none."""
    groups = np.repeat(np.arange(40), 5)
    for at_end, expected in ((0.92, (0.0, 0.0)), (0.7, (0.0, 1.0))):
        away = (np.random.default_rng(0).permutation(200) >= 200 * at_end).astype(float)
        assert conformal_bounds(away, groups) == expected


@pytest.mark.parametrize("cases", [10, 20, 40])
def test_new_cases_are_held_however_few_were_learned_from(cases: int) -> None:
    held = []
    for seed in range(400):
        random = np.random.default_rng(seed)
        away = random.normal(0, 1, cases + 50)
        low, high = conformal_bounds(away[:cases], np.arange(cases)) or (-np.inf, np.inf)
        held.append(np.mean((away[cases:] >= low) & (away[cases:] <= high)))
    # Plain quantiles hold 67, 74 and 77 %.
    assert INTERVAL_COVERAGE - 0.015 < np.mean(held) < INTERVAL_COVERAGE + 0.1


@pytest.mark.parametrize("groups", [10, 20])
def test_new_groups_are_held_where_cases_of_a_group_err_alike(groups: int) -> None:
    held = []
    for seed in range(300):
        random = np.random.default_rng(seed)
        away = random.normal(0, 1, groups + 20)[:, None] + random.normal(0, 0.1, (groups + 20, 8))
        low, high = conformal_bounds(away[:groups].ravel(), np.repeat(np.arange(groups), 8)) or (-np.inf, np.inf)
        held.append(np.mean((away[groups:] >= low) & (away[groups:] <= high)))
    assert INTERVAL_COVERAGE - 0.015 < np.mean(held) < INTERVAL_COVERAGE + 0.1


def test_a_saved_interval_holds_new_cases() -> None:
    held = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        truth = random.uniform(0.2, 0.7, 120)
        said = (truth + 0.2) * 10
        rated = ratings(truth, random, raters=1, noise=0.15)
        known, fresh = np.arange(120) < 20, np.arange(120) >= 20
        judged = scores({"quality": said})
        first = task(judged.select(np.flatnonzero(known)), rated)
        found = calibrate(first, recipes=FEW, draw_count=50)
        low, high = found.error_bounds["quality"]
        shift = (first.mean - first.judge).mean()  # what the offset learns
        away = rated.mean()[fresh] - np.clip(said[fresh] / 10 + shift, 0, 1)
        held.append(np.mean((away >= low) & (away <= high)))
    assert np.mean(held) > INTERVAL_COVERAGE - 0.02


def test_with_too_few_groups_to_say_it_is_the_whole_scale() -> None:
    random = np.random.default_rng(0)
    truth = random.uniform(0.2, 0.7, 40)
    for photographs, told in ((8, False), (9, True)):
        groups = {"source": [f"photo {row % photographs}" for row in range(40)]}
        made = task(scores({"quality": (truth + 0.2) * 10}, groups), ratings(truth, random))
        found = calibrate(made, recipes=FEW, draw_count=50)
        assert (found.error_bounds["quality"] != (-1.0, 1.0)) is told
        assert found.has_intervals is told


def test_new_groups_are_held_in_each_third_where_errors_grow_with_the_prediction() -> None:
    """One interval for all would hold nearly everything in the lowest third, and half in the highest."""
    held: list[list[float]] = [[], [], []]
    stated = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        groups = np.repeat(np.arange(100), 6)
        predicted = random.uniform(0, 1, len(groups))
        ratings = predicted * (1 + random.normal(0, 0.3, 100)[groups] + random.normal(0, 0.4, len(groups)))
        known = groups < 40
        bands = conformal_bands(predicted[known], ratings[known], groups[known], groups[known] % 10)
        assert [band.up_to is None for band in bands] == [False, False, True]
        stated += [band.covered for band in bands]
        fresh, away = predicted[~known], (ratings - predicted)[~known]
        place = np.searchsorted([band.up_to for band in bands[:-1] if band.up_to is not None], fresh)
        for number, band in enumerate(bands):
            here = place == number
            held[number].append(float(np.mean((away[here] >= band.low) & (away[here] <= band.high))))
    for third in held:
        assert INTERVAL_COVERAGE - 0.03 < np.mean(third) < INTERVAL_COVERAGE + 0.05
    assert INTERVAL_COVERAGE - 0.03 < np.mean(stated) < INTERVAL_COVERAGE + 0.05


def test_ties_are_in_one_band_and_too_few_groups_in_none() -> None:
    random = np.random.default_rng(1)
    groups = np.repeat(np.arange(30), 4)
    predicted = np.where(random.uniform(size=120) < 0.6, 0.0, random.uniform(0.1, 1, 120))
    bands = conformal_bands(predicted, np.clip(predicted, 0, 1), groups, groups % 5)
    assert (bands[0].up_to, bands[0].cases) == (0.0, int((predicted == 0).sum()))
    assert sum(band.cases for band in bands) == 120
    assert conformal_bands(predicted[:32], predicted[:32], groups[:32], groups[:32]) == ()


@pytest.mark.parametrize("grows", [0.0, 3.0])
def test_as_few_groups_as_a_band_may_have_are_better_than_one_interval_for_all(grows: float) -> None:
    """Nearer to 80 % in each third, also where errors are alike, and too wide rather than too narrow."""
    groups = MIN_BAND_GROUPS + 1
    away_from: dict[str, list[float]] = {"bands": [], "all": []}
    shares = []
    for seed in range(100):
        random = np.random.default_rng(seed)
        photo = np.repeat(np.arange(groups + 60), 12)
        predicted = random.uniform(0, 1, len(photo))
        away = 0.6 * random.normal(size=groups + 60)[photo] + 0.8 * random.normal(size=len(photo))
        ratings = predicted + (1 + grows * predicted) * away
        known = photo < groups
        cuts = find_bands(predicted[known], photo[known])
        if len(cuts) < 2:  # a group that is not in one of the thirds
            continue
        bands = conformal_bands(predicted[known], ratings[known], photo[known], photo[known] % 10)
        low, high = conformal_bounds((ratings - predicted)[known], photo[known]) or (-np.inf, np.inf)
        ends = {"bands": interval_ends(bands, predicted), "all": (predicted + low, predicted + high)}
        for name, (lowest, highest) in ends.items():
            for third in range(3):
                here = ~known & (np.searchsorted(cuts, predicted) == third)
                share = np.mean((ratings >= lowest)[here] & (ratings <= highest)[here])
                away_from[name].append(abs(share - INTERVAL_COVERAGE))
                shares += [share] if name == "bands" else []
    assert len(shares) > 200
    assert np.mean(away_from["bands"]) < np.mean(away_from["all"])
    assert INTERVAL_COVERAGE < np.mean(shares) < INTERVAL_COVERAGE + 0.12


def test_what_ties_leave_over_is_divided_alike() -> None:
    random = np.random.default_rng(2)
    predicted = np.concatenate([np.zeros(180), random.uniform(0.1, 1, 120)])
    cuts = find_bands(predicted, np.arange(300))
    assert cuts[0] == 0
    assert np.bincount(np.searchsorted(cuts, predicted)).tolist() == [180, 60, 60]
    assert find_bands(np.zeros(90), np.arange(90)).tolist() == []
    assert find_bands(np.zeros(0), np.zeros(0, np.int64)).tolist() == []
