"""Ratings equal what evalica and choix compute without ties, and what SciPy's optimizer finds with ties, position and
anchors."""

from __future__ import annotations

from collections.abc import Sequence

import choix
import evalica
import numpy as np
import pytest
from scipy.optimize import minimize

from beholder.api.arena import fit_arena
from beholder.arena.davidson import POINTS
from beholder.arena.leaderboard import Leaderboard
from beholder.statistics.data import Floats, Ints

SIZE = 6
NAMES = [f"m{number}" for number in range(SIZE)]


def draw_votes(count: int, seed: int, *, tie: float | None = None, position: float = 0.0) -> tuple[Ints, Ints, Ints]:
    """First and second models and outcomes (0 first, 1 second, 2 tie) of votes that follow the model."""
    rng = np.random.default_rng(seed)
    strengths = rng.normal(0, 1, SIZE)
    first = rng.integers(0, SIZE, count)
    second = (first + rng.integers(1, SIZE, count)) % SIZE
    half = (strengths[first] - strengths[second] + position) / 2
    odds = np.exp(np.stack([half, -half, np.full(count, -np.inf if tie is None else tie)]))
    drawn = rng.random(count) * odds.sum(axis=0)
    return first, second, (drawn[None] > np.cumsum(odds, axis=0)[:2]).sum(axis=0)


def rows(votes: tuple[Ints, Ints, Ints]) -> list[dict[str, object]]:
    words = ("model_a", "model_b", "tie")
    return [
        {"model_a": NAMES[first], "model_b": NAMES[second], "winner": words[outcome]}
        for first, second, outcome in zip(*votes, strict=True)
    ]


def strengths_of(board: Leaderboard, names: Sequence[str] = NAMES) -> Floats:
    values = [board[name].rating.value for name in names]
    return np.array([(value or 0.0) - 1000 for value in values]) / POINTS


@pytest.mark.parametrize("seed", range(5))
def test_without_ties_as_evalica_and_choix(seed: int) -> None:
    votes = draw_votes(400, seed)
    ours = strengths_of(fit_arena(rows(votes), draws=100))
    won = [(int(a), int(b)) if outcome == 0 else (int(b), int(a)) for a, b, outcome in zip(*votes, strict=True)]
    theirs = choix.opt_pairwise(SIZE, won, alpha=0, method="Newton-CG", tol=1e-12)
    assert ours == pytest.approx(theirs - theirs.mean(), abs=1e-6)
    winners = [evalica.Winner.X if outcome == 0 else evalica.Winner.Y for outcome in votes[2]]
    first, second = ([NAMES[model] for model in column] for column in votes[:2])
    scores = evalica.bradley_terry(first, second, winners, tolerance=1e-13, limit=100_000).scores
    logs = np.log([scores[name] for name in NAMES])
    assert ours == pytest.approx(logs - logs.mean(), abs=1e-6)


def negative_likelihood(parameters: Floats, votes: tuple[Ints, Ints, Ints], position: bool) -> float:
    """Davidson's model written down once more, vote by vote."""
    first, second, outcome = votes
    strengths, tie, lead = parameters[:SIZE], parameters[SIZE], parameters[SIZE + 1] if position else 0.0
    one, other = np.exp(strengths[first] + lead), np.exp(strengths[second])
    tied = np.exp(tie) * np.sqrt(one * other)
    chosen = np.choose(outcome, [one, other, tied])
    return float(-np.log(chosen / (one + other + tied)).sum() + strengths.mean() ** 2)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("position", [False, True])
def test_with_ties_as_an_optimizer(seed: int, position: bool) -> None:
    votes = draw_votes(600, seed, tie=-0.3, position=0.5)
    board = fit_arena(rows(votes), position=position, draws=100)
    start = np.zeros(SIZE + 2)
    found = minimize(negative_likelihood, start, (votes, position), method="BFGS", options={"gtol": 1e-5}).x
    assert strengths_of(board) == pytest.approx(found[:SIZE] - found[:SIZE].mean(), abs=1e-5)
    tie = np.exp(found[SIZE])
    assert board.tie_rate == pytest.approx(tie / (2 + tie), abs=1e-5)
    if position:
        assert board.position is not None
        assert board.position.value == pytest.approx(POINTS * found[SIZE + 1], abs=1e-3)
    else:
        assert board.position is None


def test_both_bad_is_a_tie_for_the_rating_and_counted_by_itself() -> None:
    votes = rows(draw_votes(300, 1, tie=0.0))
    bad = [row | {"winner": "both_bad"} if row["winner"] == "tie" and at % 2 else row for at, row in enumerate(votes)]
    one, other = fit_arena(votes, draws=100), fit_arena(bad, draws=100)
    assert strengths_of(one) == pytest.approx(strengths_of(other), abs=1e-9)
    assert one.both_bad_rate == 0
    count = sum(row["winner"] == "both_bad" for row in bad)
    assert other.both_bad_rate == pytest.approx(count / len(bad))
    assert sum(row.both_bad for row in other.ratings) == 2 * count
    of_model = [row for row in bad if "m0" in (row["model_a"], row["model_b"])]
    rate = sum(row["winner"] == "both_bad" for row in of_model) / len(of_model)
    assert other["m0"].both_bad_rate.value == pytest.approx(rate)


def test_models_anchored_at_their_fit_leave_the_others_where_they_were() -> None:
    votes = rows(draw_votes(500, 2, tie=0.0))
    board = fit_arena(votes, draws=100)
    anchors = {name: board[name].rating.value or 0.0 for name in NAMES[:3]}
    again = fit_arena(votes, anchor=anchors, draws=100)
    assert strengths_of(again) == pytest.approx(strengths_of(board), abs=1e-6)
    moved = fit_arena(votes, anchor={name: rating + 250 for name, rating in anchors.items()}, draws=100)
    assert strengths_of(moved) == pytest.approx(strengths_of(board) + 250 / POINTS, abs=1e-6)
    assert [row.model for row in again.ratings if row.anchored] == sorted(anchors, key=lambda name: -anchors[name])
    assert again["m0"].rating.low is None
    assert again["m4"].rating.low is not None


def test_the_probability_is_that_of_the_ratings() -> None:
    board = fit_arena(rows(draw_votes(500, 3, tie=0.0)), draws=200)
    pair, turned = board.compare("m0", "m1"), board.compare("m1", "m0")
    difference = (board["m0"].rating.value or 0) - (board["m1"].rating.value or 0)
    assert pair.difference.value == pytest.approx(difference)
    assert pair.probability.value == pytest.approx(1 / (1 + 10 ** (-difference / 400)))
    assert (pair.probability.value or 0) + (turned.probability.value or 0) == pytest.approx(1)
    assert (pair.wins, pair.losses) == (turned.losses, turned.wins)
    assert pair.difference.low == pytest.approx(-(turned.difference.high or 0))
