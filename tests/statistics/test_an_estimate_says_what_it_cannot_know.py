"""Too few ratings, all alike, a judge that knows nothing, cases that were not drawn at random: an answer in words."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder.statistics.estimation import AspectEstimate, estimate_human_mean, estimate_pass_rate
from beholder.statistics.sentences import describe_aspect, describe_estimate

rng = np.random.default_rng(1)
PEOPLE = rng.normal(3, 1, 200)
JUDGE = PEOPLE + rng.normal(0, 0.5, 200)
PICKED = np.arange(200) % 5 == 0


def rated(where: np.ndarray) -> np.ndarray:
    return np.where(where, PEOPLE, np.nan)


def test_nobody_rated() -> None:
    found = estimate_human_mean(np.full(200, np.nan), JUDGE, None, judge_rescaled=JUDGE)
    assert found.combined.value is None
    assert found.combined.why == "no case of these is rated"
    assert found.judge.value == pytest.approx(JUDGE.mean())
    assert found.bias.value is None
    assert not found.widths


def test_one_rated_case_has_no_interval() -> None:
    found = estimate_human_mean(rated(np.arange(200) == 7), JUDGE, None, width=0.5)
    assert found.combined.value == PEOPLE[7]
    assert found.combined.low is None
    assert found.needed is not None
    assert found.needed.people is None
    assert any("at least two" in sentence for sentence in describe_estimate(found))


def test_one_group_has_no_interval() -> None:
    groups = ["a"] * 50 + [f"b{row}" for row in range(150)]
    found = estimate_human_mean(rated(np.arange(200) < 20), JUDGE, groups)
    assert found.combined.why == "no interval: all rated cases are of one group"


def test_ratings_that_are_all_alike_have_no_interval_but_a_pass_rate_has_one() -> None:
    human = np.where(PICKED, 0.1 + 0.2, np.nan)
    found = estimate_human_mean(human, JUDGE, None)
    assert found.combined.why == "no interval: all rated cases have the same score"
    assert found.weight is None
    assert not found.widths
    passed = estimate_pass_rate(np.where(PICKED, 1.0, np.nan), (JUDGE > 2).astype(float), None)
    assert passed.combined.value == 1
    assert passed.combined.high == 1
    assert passed.combined.low is not None
    assert 0.85 < passed.combined.low < 0.95  # none of 40 failed: up to about 3 in 40 may
    assert passed.correction is not None
    assert passed.correction.rate.why == "not defined: people pass every rated case"


def test_a_judge_that_was_never_wrong_is_not_taken_as_perfect() -> None:
    found = estimate_human_mean(rated(PICKED), PEOPLE, None)
    assert found.weight is None
    truth = (PEOPLE > 2.5).astype(float)
    passed = estimate_pass_rate(np.where(PICKED, truth, np.nan), truth, None)
    sampling = np.sqrt(truth.mean() * (1 - truth.mean()) / 200)
    assert passed.combined.low is not None
    assert passed.combined.high is not None
    assert passed.combined.high - passed.combined.low > 2 * 1.96 * sampling


def test_a_judge_that_says_the_same_of_all_is_not_used() -> None:
    found = estimate_human_mean(rated(PICKED), np.full(200, 0.1 + 0.2), None)
    assert found.weight is None
    assert found.combined == found.people
    assert any("does not go along" in sentence for sentence in describe_estimate(found))


def test_a_judge_that_runs_against_people_is_used_only_where_it_may() -> None:
    assert estimate_human_mean(rated(PICKED), -JUDGE, None).weight is None
    distance = estimate_human_mean(rated(PICKED), -JUDGE, None, allow_negative=True)
    assert distance.weight is not None
    assert distance.weight < 0
    assert distance.combined.value == pytest.approx(estimate_human_mean(rated(PICKED), JUDGE, None).combined.value)


def test_cases_that_the_judge_refused_stay_in_the_run() -> None:
    # It refuses the worst third: the mean of the others would be far too high.
    refused = np.where(np.argsort(np.argsort(PEOPLE)) < 66, np.nan, JUDGE)
    found = estimate_human_mean(rated(PICKED), refused, None, judge_rescaled=refused)
    assert found.cases == 200
    assert found.judged == 134
    assert found.combined.low is not None
    assert found.combined.high is not None
    assert found.combined.low < PEOPLE.mean() < found.combined.high
    assert found.judge.low is not None
    assert found.judge.low > PEOPLE.mean()
    assert any("66 cases have no score" in sentence for sentence in describe_estimate(found))


def test_no_judge_at_all_leaves_people() -> None:
    found = estimate_human_mean(rated(PICKED), np.full(200, np.nan), None, judge_rescaled=np.full(200, np.nan))
    assert found.combined == found.people
    assert found.judge.value is None
    assert found.bias.value is None


def test_cases_that_were_picked_for_their_score_are_noticed() -> None:
    best = rated(np.argsort(np.argsort(JUDGE)) >= 160)
    found = estimate_human_mean(best, JUDGE, None)
    assert found.sampling_warning is not None
    assert found.sampling_warning.rated > found.sampling_warning.others
    assert any(
        sentence.startswith("Warning: these do not look drawn at random") for sentence in describe_estimate(found)
    )


def test_what_more_ratings_give_is_not_told_of_cases_that_were_picked() -> None:
    best = rated(np.argsort(np.argsort(JUDGE)) >= 160)
    found = estimate_human_mean(best, JUDGE, None, width=0.1)
    assert (found.widths, found.needed) == ((), None)
    assert any(
        "What more ratings would give is therefore not told" in sentence for sentence in describe_estimate(found)
    )


@given(st.integers(0, 10_000), st.floats(0, 4))
def test_widths_fall_as_ratings_are_added(seed: int, noise: float) -> None:
    draws = np.random.default_rng(seed)
    human = np.full(200, np.nan)
    some = draws.choice(200, 60, replace=False)
    human[some] = PEOPLE[some]
    groups = [str(at // 3) for at in range(200)]
    found = estimate_human_mean(human, PEOPLE + draws.normal(0, noise, 200), groups)
    for widths in ([row.people for row in found.widths], [row.with_judge for row in found.widths if row.with_judge]):
        assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(widths))


def test_an_interval_is_cut_at_the_ends_of_a_scale_that_is_known() -> None:
    human = np.full(200, np.nan)
    human[:5] = [0, 0, 0, 0.5, 0.5]
    free = estimate_human_mean(human, JUDGE, None)
    assert free.combined.low is not None
    assert free.combined.low < 0
    assert free.clipped_to is None
    held = estimate_human_mean(human, JUDGE, None, scale=(0, 1))
    assert (held.combined.value, held.combined.low, held.combined.high) == (0.2, 0, free.combined.high)
    assert held.clipped_to == (0, 1)
    assert any(
        "reached beyond the scale, 0 to 1, and was cut there" in sentence for sentence in describe_estimate(held)
    )


def test_and_cases_drawn_at_random_seldom_are() -> None:
    draws = np.random.default_rng(6)
    alarms = 0
    for _ in range(400):
        human = np.full(200, np.nan)
        human[draws.choice(200, 40, replace=False)] = 1.0
        alarms += estimate_human_mean(human, JUDGE, None).sampling_warning is not None
    assert alarms <= 12  # 4 expected


def test_a_correction_that_falls_outside_is_cut_and_says_so() -> None:
    judge = np.array([1.0] * 95 + [0.0] * 5)
    human = np.full(100, np.nan)
    human[:10] = 1
    human[90:100] = [0] * 10
    judge[90:95] = 0
    judge[5:10] = 0  # sees half of what is good, and passes 85 %
    found = estimate_pass_rate(human, judge, None).correction
    assert found is not None
    assert found.rate.value == 1
    assert found.clipped


def test_a_judge_no_better_than_chance_has_no_correction() -> None:
    human = np.where(np.arange(100) < 40, np.arange(100) % 2, np.nan).astype(float)
    found = estimate_pass_rate(human, (np.arange(100) // 2 % 2).astype(float), None).correction
    assert found is not None
    assert found.rate.value is None
    assert found.sensitivity == 0.5


def test_a_width_that_no_number_of_ratings_gives_is_said_to_be_out_of_reach() -> None:
    found = estimate_human_mean(rated(PICKED), JUDGE, None, width=0.01).needed
    assert found is not None
    assert found.with_judge is None
    assert found.people is None


def test_the_ratings_needed_are_the_fewest_that_do() -> None:
    found = estimate_human_mean(rated(PICKED), JUDGE, None, width=0.35)
    assert found.needed is not None
    assert found.needed.with_judge is not None
    assert found.needed.people is not None
    assert 10 <= found.needed.with_judge < found.needed.people < 200


def test_a_difference_over_rated_cases_only_is_said_to_be() -> None:
    few = estimate_human_mean(rated(np.arange(200) < 4), JUDGE + 3, None, judge_rescaled=JUDGE + 3)
    assert (few.bias_rated_only, few.bias_cases) == (True, 4)
    assert few.bias.value == pytest.approx((JUDGE + 3 - PEOPLE)[:4].mean())
    told = " ".join(describe_aspect(AspectEstimate("judge", "realism", "realism", few)))
    assert "more than people on the 4 rated cases: do not report its mean" in told
    assert "“Judge less people” is over the rated cases only" in told
    many = estimate_human_mean(rated(PICKED), JUDGE + 3, None, judge_rescaled=JUDGE + 3)
    assert (many.bias_rated_only, many.bias_cases) == (False, 200)
    assert "rated cases" not in " ".join(describe_aspect(AspectEstimate("judge", "realism", "realism", many)))
    every = estimate_human_mean(PEOPLE, np.full(200, 3.0), None, judge_rescaled=np.full(200, 3.0))
    assert (every.bias_rated_only, every.bias_cases) == (False, 200)
