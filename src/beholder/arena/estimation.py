"""The board that people would make, from a judge's votes on all pairs and people's on some (`beholder arena estimate`).

People's votes alone make a board, with wide intervals. The judge's votes on all pairs make another, which is biased as
the judge is. Its votes on the pairs that people voted on make a third, biased in the same way. The difference of these
two is chance alone, and the same chance that is in people's board, as far as the judge votes as they do:

    rating = people, some pairs − weight · (judge, some pairs − judge, all pairs)

This is prediction-powered inference (Angelopoulos et al. 2023) in its form for the bootstrap (Zrnic 2024). Whatever the
judge's bias, the estimate is of people's board; a judge that votes much as they do makes its intervals narrower. The
weight, from 0 to 1, is the one with which the ratings of the draws vary least. It rests on people's pairs being drawn
at random from those of the judge: where the judge's two boards differ by more than chance explains, a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist

import msgspec
import numpy as np

from beholder.arena.agreement import ArenaAgreement, agree_with_people, need_cases, pair_key, share_groups
from beholder.arena.davidson import POINTS
from beholder.arena.fit import ArenaOptions, BoardBuilder, BoardFits
from beholder.arena.leaderboard import Leaderboard
from beholder.arena.votes import Labels, Votes
from beholder.errors import UsageError
from beholder.statistics.bootstrap import Interval, to_json_values
from beholder.statistics.data import Ints
from beholder.statistics.estimation import SAMPLING_ALARM
from beholder.statistics.gate import Gate
from beholder.statistics.pairs import join_names


class ArenaEstimate(msgspec.Struct, frozen=True):
    """The board that people would make of all pairs of a judge: the result of `estimate_arena`.

    Attributes:
        board: The models, ranked by the estimate. Its counts of votes are those of people.
        people: The board of people's votes alone.
        judge: The board of the judge's votes on all pairs.
        bias: By model, the judge's rating less the estimate: whom it favors.
        weight: How far the judge is used, from 0 (people alone) to 1.
        pairs: Votes of the judge.
        shared: Those on pairs that people voted on.
        agreement: How the judge's votes compare with people's on these pairs.
        notes: What was left out or is doubtful, in sentences.
    """

    board: Leaderboard
    people: Leaderboard
    judge: Leaderboard
    bias: Mapping[str, Interval]
    weight: float
    pairs: int
    shared: int
    agreement: ArenaAgreement
    notes: tuple[str, ...]

    def gate(self, *fail_unless: str) -> Gate:
        """Decide by the estimate whether models are better than others; see `Leaderboard.gate`."""
        return self.board.gate(*fail_unless)

    def to_dict(self) -> dict[str, object]:
        """Return what `beholder arena estimate --json` prints."""
        return to_json_values(self)

    def __repr__(self) -> str:
        best = ", ".join(f"{row.model} {row.rating.value or 0:.0f}" for row in self.board.ratings[:3])
        return f"<ArenaEstimate of {self.pairs:,} pairs, {self.shared:,} with votes of people: {best}>"

    def _repr_html_(self) -> str:
        from beholder.reports.arena import arena_estimate_html

        return arena_estimate_html(self)


def estimate_board(votes: Votes, people: Votes, options: ArenaOptions) -> ArenaEstimate:
    """Estimate the board that people would make of the pairs that a judge voted on.

    Args:
        votes: The judge's votes.
        people: The votes of people, on some of these pairs.
        options: How votes are fitted; without position and anchors.

    Raises:
        UsageError: Votes are of several judges or do not name their cases; no pair has votes of both; or people voted
            on one model only, or on one that the judge has no vote on there.
    """
    names = () if votes.judge is None else votes.judge.names
    if len(names) > 1:
        raise UsageError(f"One judge is set beside people, and these votes are of {len(names)}: {join_names(names)}.")
    own_groups = votes.group_name
    votes, people = share_groups(votes, people)
    case, people_case = need_cases(votes), need_cases(people)
    keys = [pair_key(votes, case, row)[0] for row in range(len(votes))]
    people_keys = [pair_key(people, people_case, row)[0] for row in range(len(people))]
    agreement = agree_with_people(votes, people, draw_count=options.draw_count, seed=options.seed)
    codes = np.arange(len(votes)) if votes.group is None else votes.group.codes.astype(np.int64)
    found, group = np.unique(codes, return_inverse=True)
    group_of = dict(zip(keys, group.tolist(), strict=True))
    kept = np.array([row for row, key in enumerate(people_keys) if key in group_of], np.int64)
    voted = {people_keys[row] for row in kept}
    models = sorted({model for key in voted for model in key[1:]})
    inside = np.array([row for row, key in enumerate(keys) if set(key[1:]) <= set(models)], np.int64)
    shared = np.array([row for row in inside if keys[row] in voted], np.int64)
    given = np.array([group_of[people_keys[row]] for row in kept], np.int64)
    boards = [
        BoardBuilder(_take(table, rows, groups, models, votes.group_name), options, len(found))
        for table, rows, groups in (
            (people, kept, given),
            (votes, shared, group[shared]),
            (votes, inside, group[inside]),
        )
    ]
    fits = [board.fit() for board in boards]
    weight, corrected = _correct(*fits)
    lean = POINTS * (fits[2].full.strengths - corrected.full.strengths)[0]
    drawn_lean = POINTS * (fits[2].drawn.strengths - corrected.drawn.strengths)
    bias = {
        name: boards[0].estimate(float(lean[at]), drawn_lean[:, at], int(boards[0].groups_of[at]))
        for at, name in enumerate(models)
    }
    board = boards[0].make_board(corrected)
    notes = _describe(votes, people, len(kept), models, fits, weight)
    if votes.group_name != own_groups and len(shared) < len(inside):
        notes.append(
            f"The judge's votes do not say the {votes.group_name}: those on cases that people did not vote on are "
            "taken as independent."
        )
    return ArenaEstimate(
        board=board,
        people=boards[0].make_board(fits[0]),
        judge=boards[2].make_board(fits[2]),
        bias={row.model: bias[row.model] for row in board.ratings},
        weight=weight,
        pairs=len(inside),
        shared=len(shared),
        agreement=agreement,
        notes=tuple(notes),
    )


def _take(votes: Votes, rows: Ints, groups: Ints, models: list[str], group_name: str) -> Votes:
    """Return some rows, with models and groups by their numbers."""
    place = np.array([models.index(name) if name in models else -1 for name in votes.models], np.int32)
    return Votes(
        tuple(models),
        place[votes.first[rows]],
        place[votes.second[rows]],
        votes.outcome[rows],
        group=Labels(groups.astype(np.int32), ()),
        group_name=group_name,
        derived=votes.derived,
    )


def _correct(people: BoardFits, shared: BoardFits, every: BoardFits) -> tuple[float, BoardFits]:
    """Return the weight of the judge, and people's fits corrected by it."""
    chance = shared.full.strengths - every.full.strengths
    drawn = shared.drawn.strengths - every.drawn.strengths
    centered, own = (values - values.mean(axis=0) for values in (drawn, people.drawn.strengths))
    variance = float((centered**2).sum())
    weight = min(1.0, max(0.0, float((centered * own).sum()) / variance)) if variance > 1e-12 else 0.0
    return weight, replace(
        people,
        full=replace(people.full, strengths=people.full.strengths - weight * chance),
        drawn=replace(people.drawn, strengths=people.drawn.strengths - weight * drawn),
    )


def _describe(
    votes: Votes, people: Votes, kept: int, models: list[str], fits: list[BoardFits], weight: float
) -> list[str]:
    notes = [
        f"Ratings are those that people would give: their votes, corrected by those of the judge with a weight of "
        f"{weight:.2f}. That holds if the pairs that people voted on were drawn at random."
    ]
    if kept < len(people):
        lone = len(people) - kept
        notes.append(
            f"{lone:,} votes of people are on pairs that the judge has no vote on, and do not count."
            if lone > 1
            else "1 vote of people is on a pair that the judge has no vote on, and does not count."
        )
    unknown = [name for name in votes.models if name not in models]
    if unknown:
        notes.append(f"People have no vote on {join_names(unknown)}: not on this board.")
    chance = fits[1].full.strengths[0] - fits[2].full.strengths[0]
    spread = (fits[1].drawn.strengths - fits[2].drawn.strengths).std(axis=0)
    limit = NormalDist().inv_cdf(1 - SAMPLING_ALARM / 2 / len(models))
    unlike = [name for name, one, by in zip(models, chance, spread, strict=True) if abs(one) > limit * by > 0]
    if unlike:
        notes.append(
            f"The pairs that people voted on are not like the others: by the judge's votes {join_names(unlike)} does "
            "better or worse there than chance explains. The estimate takes them as drawn at random."
        )
    return notes
