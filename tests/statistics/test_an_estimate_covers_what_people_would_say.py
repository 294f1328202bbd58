"""The interval of `estimate` holds the true mean as often as it says, whatever the judge is worth, and a judge that
goes along with people makes it narrower. By seeded simulation: the truth is known there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from beholder.statistics.bootstrap import Interval
from beholder.statistics.estimation import estimate_human_mean, estimate_pass_rate
from beholder.statistics.regression import MIN_RATED_GROUPS

RUNS = 400
BAND = (0.92, 0.98)  # 95 % of 400, give or take two and a half standard errors


@dataclass(frozen=True)
class World:
    """Cases of which people's true mean is 0; `goes_along` is the judge's correlation with people."""

    goes_along: float
    cases: int = 400
    rated: int = 60
    alike: int = 1  # cases to a group, which share 40 % of their variance

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, list[str]]:
        group = np.arange(self.cases) // self.alike
        own = rng.normal(size=self.cases)
        shared = rng.normal(size=group.max() + 1)[group]
        people = own if self.alike == 1 else np.sqrt(0.6) * own + np.sqrt(0.4) * shared
        noise = np.sqrt(1 - self.goes_along**2) * rng.normal(size=self.cases)
        judge = 7.5 + 2 * (self.goes_along * people + noise)  # another scale, and far off
        human = np.full(self.cases, np.nan)
        picked = rng.choice(self.cases, self.rated, replace=False)
        human[picked] = people[picked]
        return human, judge, [f"photo {number}" for number in group]


def holds(estimate: Interval, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def wide(estimate: Interval) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


@pytest.mark.parametrize(
    "world",
    [
        World(0.9),
        World(0.5),
        World(0.0),
        World(0.8, alike=5),
        World(0.8, rated=15),
        World(0.0, rated=20, alike=5),
    ],
    ids=str,
)
def test_the_mean_is_covered_however_far_off_the_judge_is(world: World) -> None:
    rng = np.random.default_rng(11)
    covered, narrower = 0, []
    for _ in range(RUNS):
        human, judge, groups = world.draw(rng)
        found = estimate_human_mean(human, judge, groups)
        covered += holds(found.combined, 0.0)
        narrower.append(wide(found.combined) / wide(found.people))
    assert BAND[0] <= covered / RUNS <= BAND[1]
    # √(1 − ρ²(1 − n/N)) of people's width if cases are independent, and a little for having tuned the weight.
    ideal = np.sqrt(1 - world.goes_along**2 * (1 - world.rated / world.cases))
    assert np.mean(narrower) == pytest.approx(ideal, rel=0.12 if world.alike == 1 else 0.2)
    assert np.mean(narrower) < (0.9 if world.goes_along else 1.02)


def test_cases_taken_as_independent_that_are_not_would_be_covered_too_seldom() -> None:
    world = World(0.5, rated=200, alike=20)
    rng = np.random.default_rng(5)
    draws = [world.draw(rng) for _ in range(RUNS)]
    together = (
        sum(holds(estimate_human_mean(human, judge, groups).combined, 0.0) for human, judge, groups in draws) / RUNS
    )
    alone = sum(holds(estimate_human_mean(human, judge, None).combined, 0.0) for human, judge, _ in draws) / RUNS
    assert alone < 0.8
    assert 0.9 <= together <= 0.98  # twenty groups only


@pytest.mark.parametrize(("rate", "right"), [(0.5, 0.85), (0.8, 0.97), (0.95, 0.9)])
def test_a_pass_rate_is_covered_and_stays_within_0_and_1(rate: float, right: float) -> None:
    rng = np.random.default_rng(3)
    covered, corrected, defined = 0, 0, 0
    for _ in range(RUNS):
        truth = (rng.random(400) < rate).astype(float)
        judge = np.where(rng.random(400) < right, truth, 1 - truth)
        human = np.where(np.arange(400) < 60, truth, np.nan)
        found = estimate_pass_rate(human, judge, None)
        covered += holds(found.combined, rate)
        assert found.combined.low is not None
        assert found.combined.high is not None
        assert 0 <= found.combined.low <= found.combined.high <= 1
        assert found.correction is not None
        if found.correction.rate.low is not None:
            defined += 1
            corrected += holds(found.correction.rate, rate)
    assert BAND[0] <= covered / RUNS <= BAND[1]
    assert corrected / defined >= BAND[0]


def test_a_useless_judge_gets_no_weight_half_of_the_time_and_little_else() -> None:
    rng = np.random.default_rng(2)
    weights = [estimate_human_mean(*World(0.0, rated=200).draw(rng)).weight for _ in range(100)]
    used = [weight for weight in weights if weight is not None]
    assert 30 <= len(used) <= 70
    assert max(used) < 0.15  # half a point of people for a point of this judge is all that there is to have


def test_the_expected_width_is_what_comes_out() -> None:
    rng = np.random.default_rng(8)
    world = World(0.8, alike=4, rated=50)
    told = []
    seen = []
    for _ in range(100):
        rows = estimate_human_mean(*world.draw(rng)).widths
        told += [row.with_judge for row in rows if row.ratings == 200 and row.with_judge is not None]
        seen.append(wide(estimate_human_mean(*World(0.8, alike=4, rated=200).draw(rng)).combined))
    assert len(told) == len(seen)
    assert np.median(told) == pytest.approx(np.median(seen), rel=0.1)


def test_too_few_for_a_weight_leave_people_alone() -> None:
    human, judge, groups = World(0.9, rated=MIN_RATED_GROUPS - 1).draw(np.random.default_rng(0))
    found = estimate_human_mean(human, judge, groups)
    assert found.weight is None
    assert found.combined == found.people
