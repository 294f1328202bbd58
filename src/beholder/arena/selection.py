"""Which pairs to ask: all, a number of them spread evenly, or in rounds those that narrow the ranking most.

Adaptive selection looks at the neighbors on the board. The models' strengths have, by the votes so far, a covariance Σ
(the inverse of the Fisher information of Bradley–Terry with ties, plus a weak prior). A further vote on models i and j
adds information w in the direction d = e_i − e_j, where w is large between models that are near each other; by
Sherman and Morrison it lowers the variance of the difference c between two neighbors by

    w (cᵀΣd)² / (1 + w dᵀΣd)

Each pair of a round is chosen where this is largest for the neighbors whose interval is then the widest, and Σ is
updated before the next is chosen. Of the items left to the two models one is taken whose photograph was asked least.
The choice depends on the votes and on hashes of the names alone, so that a run that is resumed goes on from its votes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import numpy as np

from beholder.arena.davidson import LOSS, POINTS, PRIOR_POINTS, TIE, WIN, PairDesign, fit_davidson
from beholder.arena.fit import ArenaOptions, fit_votes
from beholder.arena.leaderboard import Leaderboard
from beholder.arena.pairs import PairPool
from beholder.arena.votes import Labels, VoteOutcome, Votes
from beholder.errors import UsageError
from beholder.statistics import DEFAULT_SEED
from beholder.statistics.data import Bools, Floats, Ints

ALL, ADAPTIVE = "all", "adaptive"
DEFAULT_WIDTH = 30.0  # rating points of the widest interval between neighbors
ROUND_SIZE = 32
ROUND_SHARE = 8  # a round is a part of so many of what was asked: later votes change the board less
VOTES_PER_MODEL = 12  # before the first fit; fewer do not say which models are neighbors
ROUND_DRAWS = 500  # of the board after each round, which decides whether to go on


def parse_pairs(pairs: str | int) -> str | int:
    """Return `all`, `adaptive` or a number of pairs.

    Raises:
        UsageError: It is none of these.
    """
    text = str(pairs).strip().lower()
    if text in (ALL, ADAPTIVE):
        return text
    if text.isdecimal() and int(text) > 0 and not isinstance(pairs, bool):
        return int(text)
    raise UsageError(f"--pairs or pairs= is all, adaptive or a number of pairs such as 500, not {pairs!r}.")


class _Spread:
    """Takes pairs of a matchup so that photographs are asked evenly often."""

    def __init__(self, pool: PairPool, asked: Bools) -> None:
        self._pool = pool
        self._left = ~asked
        order = np.argsort(pool.matchup, kind="stable")
        bounds = np.searchsorted(pool.matchup[order], np.arange(len(pool.matchups) + 1))
        self._rows = [order[start:end] for start, end in pairwise(bounds)]
        self.left = np.bincount(pool.matchup[self._left], minlength=len(pool.matchups))
        self.taken = np.bincount(pool.matchup[asked], minlength=len(pool.matchups))
        self._by_source = np.bincount(pool.source[asked], minlength=len(pool.sources))
        self._by_item = np.bincount(pool.item[asked], minlength=len(pool.items))

    def take(self, matchup: int) -> int:
        """Return a pair of a matchup that has some left."""
        pool, rows = self._pool, self._rows[matchup]
        rows = rows[self._left[rows]]
        at = int(
            rows[np.lexsort((pool.rank[rows], self._by_item[pool.item[rows]], self._by_source[pool.source[rows]]))[0]]
        )
        self._left[at] = False
        self.left[matchup] -= 1
        self.taken[matchup] += 1
        self._by_source[pool.source[at]] += 1
        self._by_item[pool.item[at]] += 1
        return at


def choose_evenly(pool: PairPool, count: int, asked: Bools | None = None) -> Ints:
    """Return further pairs, spread evenly over matchups and photographs.

    Args:
        pool: All pairs.
        count: How many; fewer are returned where fewer are left.
        asked: Pairs that were asked before.
    """
    spread = _Spread(pool, np.zeros(len(pool), np.bool_) if asked is None else asked)
    order = _shuffle_matchups(pool)
    chosen: list[int] = []
    while len(chosen) < count and spread.left.any():
        open_ = np.flatnonzero(spread.left > 0)
        least = open_[np.lexsort((order[open_], spread.taken[open_]))[0]]
        chosen.append(spread.take(int(least)))
    return np.array(chosen, np.int64)


def _shuffle_matchups(pool: PairPool) -> Ints:
    """Return a random order of the matchups: that of their first pairs by hash."""
    lowest = np.full(len(pool.matchups), len(pool), np.int64)
    np.minimum.at(lowest, pool.matchup, pool.rank)
    return lowest


class RoundDecision(msgspec.Struct, frozen=True):
    """The next round of an adaptive arena.

    Attributes:
        pairs: The pairs to ask, as numbers in the pool; none where it has ended.
        width: The widest interval between neighbors, in rating points; None where there is none yet.
        between: These neighbors.
        why: Why it has ended, in a sentence; empty while it goes on.
    """

    pairs: Sequence[int]
    width: float | None = None
    between: tuple[str, str] = ("", "")
    why: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class AdaptiveSelection:
    """Chooses pairs in rounds, until the board is known well enough.

    Attributes:
        pool: All pairs.
        until_width: Rating points: the end is reached when no interval of the difference between two neighbors on the
            board is wider.
        draw_count: Bootstrap draws of the board after each round.
        seed: Random seed of these.
    """

    pool: PairPool
    until_width: float = DEFAULT_WIDTH
    draw_count: int = ROUND_DRAWS
    seed: int = DEFAULT_SEED
    _options: ArenaOptions = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_options", ArenaOptions(draw_count=self.draw_count, seed=self.seed))

    def next_round(self, votes: Mapping[int, VoteOutcome | None], blocked: Collection[int] = ()) -> RoundDecision:
        """Return the pairs to ask next.

        Args:
            votes: What was voted on the pairs asked so far, by their number in the pool; None where a call failed.
            blocked: Pairs that cannot be asked.
        """
        pool = self.pool
        asked = np.zeros(len(pool), np.bool_)
        asked[[*votes, *blocked]] = True
        warm_up = max(ROUND_SIZE, VOTES_PER_MODEL * len(pool.models) // 2)
        answered = {at: vote for at, vote in votes.items() if vote is not None}
        if len(votes) < warm_up and not asked.all():
            return RoundDecision([int(at) for at in choose_evenly(pool, warm_up - len(votes), asked)])
        if not answered:
            return RoundDecision((), why=f"None of {len(votes):,} pairs got a vote.")
        made = make_pool_votes(pool, answered)
        board = fit_votes(made, self._options) if len(made.models) > 1 else None
        width, between = (None, ("", "")) if board is None else find_widest(board)
        if width is not None and len(made.models) == len(pool.models) and width <= self.until_width:
            return RoundDecision((), width, between, f"No interval between neighbors is wider than {width:.0f} points.")
        if asked.all():
            return RoundDecision((), width, between, "All pairs have been asked.")
        size = max(ROUND_SIZE, len(votes) // ROUND_SHARE)
        chosen = self._choose(answered, asked, board, size)
        return RoundDecision([int(at) for at in chosen], width, between)

    def _choose(
        self, votes: Mapping[int, VoteOutcome], asked: Bools, board: Leaderboard | None, count: int
    ) -> Sequence[int]:
        pool = self.pool
        strengths, covariance, information = _fit_information(pool, votes)
        low, high = np.array(pool.matchups, np.int64).reshape(-1, 2).T
        ranking = np.argsort(-strengths, kind="stable")
        above, below = ranking[:-1], ranking[1:]
        factor = _compare_widths(pool, board, covariance, above, below)
        spread, order = _Spread(pool, asked), _shuffle_matchups(pool)
        chosen: list[int] = []
        while len(chosen) < count and spread.left.any():
            open_ = np.flatnonzero(spread.left > 0)
            spans = covariance[:, low[open_]] - covariance[:, high[open_]]  # Σd for each matchup
            own = spans[low[open_], np.arange(len(open_))] - spans[high[open_], np.arange(len(open_))]  # dᵀΣd
            variance = covariance[above, above] + covariance[below, below] - 2 * covariance[above, below]
            shrink = information[open_] / (1 + information[open_] * own)
            best = -1
            for target in np.argsort(-(factor * variance), kind="stable"):
                gain = shrink * (spans[above[target]] - spans[below[target]]) ** 2
                if gain.max() > 1e-9 * variance[target]:
                    near = np.flatnonzero(gain >= gain.max() * (1 - 1e-9))
                    best = int(near[np.lexsort((order[open_[near]], spread.taken[open_[near]]))[0]])
                    break
            if best < 0:  # nothing that is left says more of any two neighbors
                best = int(np.lexsort((order[open_], spread.taken[open_]))[0])
            chosen.append(spread.take(int(open_[best])))
            covariance = covariance - shrink[best] * np.outer(spans[:, best], spans[:, best])
        return chosen


def make_pool_votes(pool: PairPool, votes: Mapping[int, VoteOutcome]) -> Votes:
    """Return votes on pairs of a pool as a table, grouped by source; models without a vote are not in it."""
    rows = np.array(sorted(votes), np.int64)
    present, codes = np.unique(np.concatenate([pool.first[rows], pool.second[rows]]), return_inverse=True)
    first, second = codes[: len(rows)], codes[len(rows) :]
    return Votes(
        tuple(pool.models[at] for at in present),
        first.astype(np.int32),
        second.astype(np.int32),
        np.array([votes[int(at)] for at in rows], np.int8),
        group=Labels(pool.source[rows].astype(np.int32), pool.sources),
        group_name="source",
    )


def find_widest(board: Leaderboard) -> tuple[float | None, tuple[str, str]]:
    """Return the widest interval of the difference between two neighbors on a board, and these two.

    Returns:
        The width in rating points; None where two neighbors have no interval, or there is one model.
    """
    widest: float | None = -1.0
    between = "", ""
    for above, below in zip(board.ratings[:-1], board.ratings[1:], strict=True):
        difference = board.compare(above.model, below.model).difference
        if difference.low is None or difference.high is None:
            return None, (above.model, below.model)
        if widest is None or difference.high - difference.low > widest:
            widest, between = difference.high - difference.low, (above.model, below.model)
    return (None if widest == -1.0 else widest), between


def _fit_information(pool: PairPool, votes: Mapping[int, VoteOutcome]) -> tuple[Floats, Floats, Floats]:
    """Return the strengths of all models by the votes, their covariance, and the information of a vote by matchup."""
    size, matchups = len(pool.models), np.array(pool.matchups, np.int64).reshape(-1, 2)
    counts = np.zeros((1, len(matchups), 3))
    for at, vote in votes.items():
        matchup = pool.matchup[at]
        turned = pool.first[at] != matchups[matchup, 0]
        column = TIE if vote >= VoteOutcome.TIE else (LOSS if (vote == VoteOutcome.SECOND) != turned else WIN)
        counts[0, matchup, column] += 1
    ties = bool(counts[0, :, TIE].any())
    fitted = fit_davidson(PairDesign(matchups[:, 0], matchups[:, 1], size, ties=ties), counts, prior=True)
    strengths = fitted.strengths[0]
    half = (strengths[matchups[:, 0]] - strengths[matchups[:, 1]]) / 2
    win, loss, tie = np.exp(half), np.exp(-half), np.exp(fitted.tie[0])
    total = win + loss + tie
    information: Floats = (win + loss) / total / 4 - ((win - loss) / total / 2) ** 2
    precision = np.eye(size) / (PRIOR_POINTS / POINTS) ** 2
    weights = counts[0].sum(axis=1) * information
    for (one, other), weight in zip(matchups, weights, strict=True):
        precision[one, one] += weight
        precision[other, other] += weight
        precision[one, other] -= weight
        precision[other, one] -= weight
    covariance: Floats = np.asarray(np.linalg.inv(precision), np.float64)
    return strengths, covariance, information


def _compare_widths(pool: PairPool, board: Leaderboard | None, covariance: Floats, above: Ints, below: Ints) -> Floats:
    """Return by how much the bootstrap's variance of each difference between neighbors exceeds the model's.

    Votes on one photograph are not independent, which the model's covariance does not know. 1 where the board has no
    interval for a difference.
    """
    factor = np.ones(len(above))
    on_board = set() if board is None else {row.model for row in board.ratings}
    for at, (one, other) in enumerate(zip(above, below, strict=True)):
        names = pool.models[one], pool.models[other]
        if board is None or not on_board.issuperset(names):
            continue
        difference = board.compare(*names).difference
        if difference.low is not None and difference.high is not None:
            deviation = (difference.high - difference.low) / 3.92 / POINTS
            model = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
            factor[at] = min(10.0, max(0.1, deviation**2 / model))
    return factor
