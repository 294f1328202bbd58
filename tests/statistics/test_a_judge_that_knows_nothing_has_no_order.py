"""A judge that knows nothing has a ρ of 0 in the mean, whatever is learned from it.

Pooled over folds it has not: without a fold of high ratings the others' mean is lower."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata, spearmanr
from support.calibration import PLAIN, ratings, scores, task

from beholder.statistics.calibration_held_out import predict_out_of_fold
from beholder.statistics.calibration_recipes import assign_folds

SIMULATIONS = 150


@pytest.mark.parametrize(("recipe", "most"), [("linear", 0.03), ("line", 0.06), ("isotonic", 0.06)])
def test_rho_of_held_out_cases_is_zero_in_the_mean(recipe: str, most: float) -> None:
    """The covariance of positions and ratings is 0 in the mean. ρ divides it by the spread of the positions, which is
    small where the maps of many folds are flat; maps that cannot fall are so just where the sample says that they
    should. In 600 simulations ρ is −.004 (`linear`), −.034 (`line`) and −.026 (`isotonic`), each ± .008 at most."""
    in_order, pooled, together = [], [], []
    for seed in range(SIMULATIONS):
        random = np.random.default_rng(seed)
        photo = np.repeat(np.arange(20), 3)
        worth = np.clip(random.uniform(0, 1, 20)[photo] + random.normal(0, 0.1, 60), 0, 1)
        columns = {name: random.uniform(0, 10, 60) for name in ("quality", "other", "more")}
        made = task(scores(columns, {"source": [f"photo {one}" for one in photo]}), ratings(worth, random))
        held_out = predict_out_of_fold(made, PLAIN[recipe], assign_folds(made.group_index, 10, seed))
        order = held_out.positions(made.scale)
        together.append(12 * np.cov(order, rankdata(made.mean) / 60)[0, 1])
        in_order.append(0.0 if np.ptp(order) == 0 else spearmanr(order, made.mean).statistic)
        pooled.append(spearmanr(held_out.values, made.mean).statistic)
    assert np.mean(pooled) < -0.1
    assert abs(np.mean(together)) < 3 * np.std(together) / np.sqrt(SIMULATIONS)
    assert abs(np.mean(together)) < 0.03
    assert abs(np.mean(in_order)) < most


def test_a_map_of_the_judges_number_alone_keeps_its_order_over_all_folds() -> None:
    random = np.random.default_rng(0)
    worth = random.uniform(0, 1, 120)
    made = task(scores({"quality": worth * 10 + random.normal(0, 2, 120)}), ratings(worth, random))
    held_out = predict_out_of_fold(made, PLAIN["line"], assign_folds(made.group_index, 10))
    assert spearmanr(held_out.positions(made.scale), made.mean) == spearmanr(made.judge, made.mean)
    assert spearmanr(held_out.values, made.mean).statistic < spearmanr(made.judge, made.mean).statistic
