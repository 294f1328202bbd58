"""Selection of pairs: spread evenly, the same for the same votes, and adaptive with fewer votes for the same width."""

from __future__ import annotations

import numpy as np
import pytest

from beholder.arena.fit import ArenaOptions, fit_votes
from beholder.arena.pairs import OutputNames, PairPool, collect_items
from beholder.arena.selection import (
    ROUND_SIZE,
    AdaptiveSelection,
    RoundDecision,
    choose_evenly,
    find_widest,
    make_pool_votes,
    parse_pairs,
)
from beholder.arena.votes import VoteOutcome
from beholder.cases.case import Case, CaseRow
from beholder.errors import UsageError
from beholder.statistics.data import Floats, Ints

NAMES = OutputNames(("edited",))
STRENGTHS = np.linspace(1.4, -1.4, 8)


def make_pool(models: int = 8, photos: int = 150) -> PairPool:
    cases = [
        Case(f"{photo}/{model}", {"input": f"{photo}", "edited": f"{photo}-{model}"}, {}, {"model": f"m{model}"})
        for photo in range(photos)
        for model in range(models)
    ]
    return PairPool(collect_items([CaseRow("", case, (), case.id) for case in cases], NAMES).items, NAMES)


def simulate_answers(pool: PairPool, seed: int, strengths: Floats = STRENGTHS, by_photo: float = 0.5) -> Ints:
    """What a judge would vote on every pair; photographs favor some models."""
    rng = np.random.default_rng(seed)
    own = strengths + rng.normal(0, by_photo, (len(pool.items), len(strengths)))
    half = (own[pool.item, pool.first] - own[pool.item, pool.second]) / 2
    odds = np.exp(np.stack([half, -half, np.full(len(half), -0.7)]))
    odds /= odds.sum(axis=0)
    drawn = rng.random(len(half))
    return np.where(drawn < odds[0], 0, np.where(drawn < odds[0] + odds[1], 1, 2))


def ask(
    pool: PairPool, answers: Ints, width: float, *, adaptive: bool
) -> tuple[dict[int, VoteOutcome | None], RoundDecision]:
    """Ask round by round until the end, adaptively or spread evenly, by the same rule of when to end."""
    selection = AdaptiveSelection(pool, width, draw_count=200)
    votes: dict[int, VoteOutcome | None] = {}
    while (decision := selection.next_round(votes)).pairs:
        asked = np.isin(np.arange(len(pool)), list(votes))
        chosen = decision.pairs if adaptive else choose_evenly(pool, len(decision.pairs), asked)
        votes |= {int(at): VoteOutcome(int(answers[at])) for at in chosen}
    return votes, decision


def test_adaptive_needs_fewer_votes_than_even_for_the_same_width() -> None:
    pool = make_pool()
    counts = []
    for seed in range(4):
        answers = simulate_answers(pool, seed)
        found = [ask(pool, answers, 130, adaptive=adaptive) for adaptive in (True, False)]
        for _, decision in found:
            assert decision.width is not None
            assert decision.width <= 130
            assert decision.why.startswith("No interval between neighbors is wider than ")
        counts.append([len(votes) for votes, _ in found])
    adaptive, even = np.array(counts).sum(axis=0)
    assert adaptive < 0.9 * even


def test_adaptive_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """15 arenas, 7 neighbors each. With a coverage of 95 %, fewer than 85 % have a chance below 1 in 10,000."""
    pool = make_pool(photos=100)
    held = []
    for seed in range(15):
        # Without strengths by photograph the differences that are fitted are those that were simulated.
        answers = simulate_answers(pool, seed, by_photo=0.0)
        votes, _ = ask(pool, answers, 150, adaptive=True)
        board = fit_votes(
            make_pool_votes(pool, {at: vote for at, vote in votes.items() if vote is not None}),
            ArenaOptions(draw_count=200),
        )
        truth = (STRENGTHS[0] - STRENGTHS[1]) * 400 / np.log(10)
        for model in range(7):
            difference = board.compare(f"m{model}", f"m{model + 1}").difference
            assert difference.low is not None
            assert difference.high is not None
            held.append(difference.low <= truth <= difference.high)
    assert np.mean(held) >= 0.85


def test_the_same_votes_choose_the_same_pairs_and_none_twice() -> None:
    pool = make_pool(models=5, photos=40)
    answers = simulate_answers(pool, 3, STRENGTHS[:5])
    one, other = AdaptiveSelection(pool, 1.0, draw_count=100), AdaptiveSelection(make_pool(5, 40), 1.0, draw_count=100)
    votes: dict[int, VoteOutcome | None] = {}
    while (decision := one.next_round(votes)).pairs:
        assert other.next_round(dict(reversed(votes.items()))).pairs == decision.pairs
        assert not votes.keys() & set(decision.pairs)
        assert len(set(decision.pairs)) == len(decision.pairs)
        votes |= {at: VoteOutcome(int(answers[at])) for at in decision.pairs}
    assert len(votes) == len(pool)
    assert decision.why == "All pairs have been asked."


def test_pairs_of_models_that_are_far_apart_are_asked_less() -> None:
    pool = make_pool()
    votes, _ = ask(pool, simulate_answers(pool, 0), 120, adaptive=True)
    distance = np.abs(pool.first - pool.second)[list(votes)]
    assert (distance == 1).sum() / 7 > 2 * (distance >= 5).sum() / 6


def test_even_pairs_are_spread_over_matchups_photographs_and_positions() -> None:
    pool = make_pool(models=6, photos=30)
    chosen = choose_evenly(pool, 90)
    assert len(set(chosen.tolist())) == 90
    assert set(np.bincount(pool.matchup[chosen], minlength=15)) == {6}
    assert set(np.bincount(pool.source[chosen], minlength=30)) <= {2, 3, 4}
    assert np.array_equal(choose_evenly(pool, 40), chosen[:40])  # more pairs go on from fewer
    assert len(choose_evenly(pool, 10_000)) == len(pool)


def test_adaptive_rounds_spread_over_photographs() -> None:
    pool = make_pool()
    votes, _ = ask(pool, simulate_answers(pool, 1), 130, adaptive=True)
    by_photo = np.bincount(pool.source[list(votes)], minlength=len(pool.sources))
    assert by_photo.max() - by_photo.min() <= 3


def test_failed_calls_are_not_asked_again_and_are_no_votes() -> None:
    pool = make_pool(models=3, photos=40)
    selection = AdaptiveSelection(pool, 10.0, draw_count=100)
    failed: dict[int, VoteOutcome | None] = dict.fromkeys(selection.next_round({}).pairs)
    assert len(failed) >= ROUND_SIZE
    decision = selection.next_round(failed)
    assert decision.pairs == ()
    assert decision.why == f"None of {len(failed)} pairs got a vote."
    half: dict[int, VoteOutcome | None] = {
        at: VoteOutcome.FIRST if number % 2 else None for number, at in enumerate(failed)
    }
    assert not half.keys() & set(selection.next_round(half).pairs)


def test_a_model_that_never_lost_does_not_end_the_arena() -> None:
    """It has no interval, so that nothing says that its place is known."""
    pool = make_pool(models=3, photos=20)
    strengths = np.array([30.0, 0.0, 0.0])
    votes, decision = ask(pool, simulate_answers(pool, 0, strengths), 400, adaptive=True)
    assert len(votes) == len(pool)
    assert decision.width is None
    assert decision.between[0] == "m0"


def test_the_widest_interval_is_that_between_neighbors() -> None:
    pool = make_pool(models=4, photos=60)
    answers = simulate_answers(pool, 5, STRENGTHS[::2])
    board = fit_votes(
        make_pool_votes(pool, {at: VoteOutcome(int(vote)) for at, vote in enumerate(answers)}),
        ArenaOptions(draw_count=200),
    )
    width, between = find_widest(board)
    widths = []
    for above, below in zip(board.ratings[:-1], board.ratings[1:], strict=True):
        difference = board.compare(above.model, below.model).difference
        widths.append((difference.high or 0) - (difference.low or 0))
    assert width == pytest.approx(max(widths))
    assert between == (board.ratings[int(np.argmax(widths))].model, board.ratings[int(np.argmax(widths)) + 1].model)


@pytest.mark.parametrize("given", ["some", "0", "-3", "1.5", "", True])
def test_other_words_for_pairs_are_refused(given: str) -> None:
    with pytest.raises(UsageError, match="is all, adaptive or a number of pairs such as 500, not"):
        parse_pairs(given)


def test_words_for_pairs() -> None:
    assert [parse_pairs(given) for given in ("all", "Adaptive", "500", 500)] == ["all", "adaptive", 500, 500]
