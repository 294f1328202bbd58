"""The interval of a calibrated score holds four of five ratings of new cases, also where few were learned from."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.calibration import ratings, scores, task

from beholder.statistics.calibration import calibrate
from beholder.statistics.calibration_held_out import INTERVAL_COVERAGE, conformal_bands, conformal_bounds
from beholder.statistics.calibration_recipes import RECIPES

FEW = {name: RECIPES[name] for name in ("constant", "offset")}
REST = (1 - INTERVAL_COVERAGE) / 2


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=60))
def test_cases_that_stand_alone_have_conformal_ranks(away: list[float]) -> None:
    rank = ceil(round((len(away) + 1) * (1 - REST), 9))
    found = conformal_bounds(np.array(away), np.arange(len(away)))
    if rank > len(away):
        assert found is None
        assert len(away) < 9
    else:
        assert found == (sorted(away)[len(away) - rank], sorted(away)[rank - 1])


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
