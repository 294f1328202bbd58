"""The interval of a calibrated score holds four of five ratings of new cases, also where few were learned from."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.calibration import ratings, scores, task

from beholder.statistics.calibration import INTERVAL_COVERAGE, calibrate, conformal_bounds
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
