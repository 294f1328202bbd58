"""The board that people would make, from a judge's votes on all pairs and people's on some (`beholder arena estimate`).

People's votes alone make a board, with wide intervals. The judge's votes on all pairs make another, which is biased as
the judge is. Its votes on the pairs that people voted on make a third, biased in the same way. The difference of these
two is chance alone, and the same chance that is in people's board, as far as the judge votes as they do:

    rating = people, some pairs − weight · (judge, some pairs − judge, all pairs)

This is prediction-powered inference (Angelopoulos et al. 2023) in its form for the bootstrap (Zrnic 2024). Whatever the
judge's bias, the estimate is of people's board; a judge that votes much as they do makes its intervals narrower. The
weight, from 0 to 1, is the one with which the ratings of the draws vary least; photographs that people voted on are
drawn by themselves, and so are the others. It rests on people's pairs being drawn at random from those of the judge:
where the judge votes otherwise on them than chance explains, a note says so.

The weight is 0, and the estimate people's own board, where people voted on too few groups to tell it, and where one of
the three boards has finite ratings by its prior alone: the prior pulls boards of few votes more than those of many, so
that the difference of the judge's two would no longer be chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import numpy as np

from beholder.arena.agreement import ArenaAgreement, agree_with_people, need_cases, pair_key, share_groups
from beholder.arena.davidson import POINTS, DavidsonFit
from beholder.arena.fit import ArenaOptions, BoardBuilder, BoardFits
from beholder.arena.leaderboard import Leaderboard
from beholder.arena.votes import Labels, Votes
from beholder.errors import UsageError
from beholder.statistics.bootstrap import Interval, t_quantile, to_json_values
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
        unanswered: Pairs on which the judge was asked and gave no vote, as calls failed. They count nowhere.
        agreement: How the judge's votes compare with people's on these pairs; of a run also each answer behind them.
        notes: What was left out or is doubtful, in sentences.
    """

    board: Leaderboard
    people: Leaderboard
    judge: Leaderboard
    bias: Mapping[str, Interval]
    weight: float
    pairs: int
    shared: int
    unanswered: int
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


def estimate_board(
    votes: Votes,
    people: Votes,
    options: ArenaOptions,
    *,
    group: str = "",
    answers: Votes | None = None,
    orders: Mapping[str, str] = MappingProxyType({}),
) -> ArenaEstimate:
    """Estimate the board that people would make of the pairs that a judge voted on.

    Args:
        votes: The judge's votes.
        people: The votes of people, on some of these pairs.
        options: How votes are fitted; without position and anchors.
        group: The column by which cases were asked to belong together, which one side may have alone.
        answers: The judge's votes and each answer behind them, to compare with people's in place of `votes`.
        orders: By person, the order in which they were given the pairs, of those who did not have them at random.

    Raises:
        UsageError: Votes are of several judges or do not name their cases; no pair has votes of both; or people voted
            on one model only, or on one that the judge has no vote on there.
    """
    names = () if votes.judge is None else votes.judge.names
    if len(names) > 1:
        raise UsageError(f"One judge is set beside people, and these votes are of {len(names)}: {join_names(names)}.")
    agreement = agree_with_people(
        answers or votes, people, group=group, draw_count=options.draw_count, seed=options.seed
    )
    own_groups = votes.group_name
    votes, people = share_groups(votes, people, group)
    boards = _make_boards(votes, people, options)
    fits = boards.people.fit(), boards.shared.fit(), boards.judge.fit()
    shared, pairs = len(boards.shared.votes), len(boards.judge.votes)
    more = shared < pairs
    why = _explain_no_weight(boards) if more else ""
    weight = _choose_weight(*fits) if more and not why else 0.0
    corrected = _correct(*fits, weight)
    board = boards.people.make_board(corrected)
    notes = [*_describe_weight(weight, why), *_describe(votes, people, boards.people)]
    if more:
        notes += [
            f"The pairs that {person} voted on were not drawn at random (the order of the review: {order}), and the "
            "estimate takes them as drawn so: it may be off by any amount."
            for person, order in orders.items()
        ]
        notes += _describe_sample(boards, fits)
    if more and votes.group_name != own_groups:
        grouped = own_groups if votes.group is not None and own_groups not in ("", "case", "id") else ""
        notes.append(
            f"The judge's votes do not say the {votes.group_name}: those on cases that people did not vote on are "
            f"{f'grouped by their {grouped}' if grouped else 'taken as independent'}."
        )
    return ArenaEstimate(
        board=board,
        people=boards.people.make_board(fits[0]),
        judge=boards.judge.make_board(fits[2]),
        bias={row.model: _estimate_bias(row.model, boards, fits[2], corrected) for row in board.ratings},
        weight=weight,
        pairs=pairs,
        shared=shared,
        unanswered=sum((votes.unanswered or {}).values()),
        agreement=agreement,
        notes=tuple(notes),
    )


class _Boards(NamedTuple):
    """The boards of people's votes, of the judge's on the same pairs, and of the judge's on all."""

    people: BoardBuilder
    shared: BoardBuilder
    judge: BoardBuilder


def _make_boards(votes: Votes, people: Votes, options: ArenaOptions) -> _Boards:
    """Return boards of the models that people voted on where the judge did, with the same draws."""
    case, people_case = need_cases(votes), need_cases(people)
    keys = [pair_key(votes, case, row)[0] for row in range(len(votes))]
    people_keys = [pair_key(people, people_case, row)[0] for row in range(len(people))]
    codes = np.arange(len(votes)) if votes.group is None else votes.group.codes.astype(np.int64)
    code_of = dict(zip(keys, codes.tolist(), strict=True))
    kept = np.array([row for row, key in enumerate(people_keys) if key in code_of], np.int64)
    voted = {people_keys[row] for row in kept}
    models = sorted({model for key in voted for model in key[1:]})
    inside = np.array([row for row, key in enumerate(keys) if set(key[1:]) <= set(models)], np.int64)
    shared = np.array([row for row in inside if keys[row] in voted], np.int64)
    # Groups are numbered anew, those with votes of people first.
    number = {code: at for at, code in enumerate(dict.fromkeys([*codes[shared].tolist(), *codes[inside].tolist()]))}
    voted_groups = len(set(codes[shared].tolist()))
    strata = voted_groups, len(number) - voted_groups
    group_of = np.array([number.get(code, -1) for code in codes.tolist()], np.int64)
    given = np.array([number[code_of[people_keys[row]]] for row in kept], np.int64)
    return _Boards(
        BoardBuilder(_take(people, kept, given, models, votes.group_name), options, strata),
        BoardBuilder(_take(votes, shared, group_of[shared], models, votes.group_name), options, strata),
        BoardBuilder(_take(votes, inside, group_of[inside], models, votes.group_name), options, strata),
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


def _explain_no_weight(boards: _Boards) -> str:
    """Say why the judge cannot correct people's board; empty where it can."""
    if boards.people.group_count < boards.people.needed_groups:
        groups = "1 group" if boards.people.group_count == 1 else f"{boards.people.group_count} groups"
        return f"people voted on {groups}, and it takes {boards.people.needed_groups} to tell how the judge helps"
    voters = "people", "the judge on the same pairs", "the judge on all pairs"
    for board, whose in zip(boards, voters, strict=True):
        if not board.has_winner:
            return f"no vote of {whose} has a winner"
    unbounded = [
        f"{board.names[model]} ({whose}: {why})"
        for board, whose in zip(boards, voters, strict=True)
        for model in range(board.size)
        if (why := board.explain_separation(model))
    ]
    if not any(board.needs_prior for board in boards):
        return ""
    which = "; ".join(unbounded) or "models that the votes of one side do not connect"
    return f"a prior alone keeps ratings finite, of {which}"


def _choose_weight(people: BoardFits, shared: BoardFits, every: BoardFits) -> float:
    """Return the weight of the judge with which the draws of people's corrected ratings vary least."""
    drawn = shared.drawn.strengths - every.drawn.strengths
    centered, own = (values - values.mean(axis=0) for values in (drawn, people.drawn.strengths))
    variance = float((centered**2).sum())
    return min(1.0, max(0.0, float((centered * own).sum()) / variance)) if variance > 1e-12 else 0.0


def _correct(people: BoardFits, shared: BoardFits, every: BoardFits, weight: float) -> BoardFits:
    """Return people's fits corrected by the judge."""

    def move(own: DavidsonFit, few: DavidsonFit, all_: DavidsonFit) -> DavidsonFit:
        return replace(own, strengths=own.strengths - weight * (few.strengths - all_.strengths))

    full, drawn = move(people.full, shared.full, every.full), move(people.drawn, shared.drawn, every.drawn)
    return replace(people, full=full, drawn=drawn)


def _estimate_bias(model: str, boards: _Boards, judge: BoardFits, corrected: BoardFits) -> Interval:
    """Return the judge's rating of a model less the estimate; without an interval where either rating has none."""
    at = boards.judge.names.index(model)
    value = POINTS * float(judge.full.strengths[0, at] - corrected.full.strengths[0, at])
    for board, whose in ((boards.people, "people's"), (boards.judge, "the judge's")):
        if why := board.explain_separation(at):
            return Interval(value, why=f"no interval: by {whose} votes {why}")
    drawn = POINTS * (judge.drawn.strengths[:, at] - corrected.drawn.strengths[:, at])
    return boards.people.estimate(value, drawn, int(boards.people.groups_of[at]))


def _describe_weight(weight: float, why: str) -> list[str]:
    if why:
        return [f"Ratings are people's own, without the judge: {why}."]
    return [
        f"Ratings are those that people would give: their votes, corrected by those of the judge with a weight of "
        f"{weight:.2f}. That holds if the pairs that people voted on were drawn at random."
    ]


def _describe(votes: Votes, people: Votes, board: BoardBuilder) -> list[str]:
    notes = [
        f"Votes of {whose}: {note}"
        for whose, table in (("the judge", votes), ("people", people))
        for note in table.notes
    ]
    if lone := len(people) - len(board.votes):
        notes.append(
            f"{lone:,} votes of people are on pairs that the judge has no vote on, and do not count."
            if lone > 1
            else "1 vote of people is on a pair that the judge has no vote on, and does not count."
        )
    unknown = [name for name in votes.models if name not in board.names]
    if unknown:
        notes.append(f"People have no vote on {join_names(unknown)}: not on this board.")
    return notes


def _describe_sample(boards: _Boards, fits: Sequence[BoardFits]) -> list[str]:
    """Name the models that do better or worse on the pairs that people voted on than on the others, by the judge.

    Shares of votes are compared, which need no prior. Where the draws tell too little, as of a model that always won on
    these pairs, a share varies at least as that of as many single votes.
    """
    groups = boards.people.group_count
    if groups < 2:
        return []
    shared, every = (board.tally(board.counts) for board in boards[1:])
    drawn = [board.tally(fit.drawn_counts).win_rates for board, fit in zip(boards[1:], fits[1:], strict=True)]
    rate = every.win_rates[0]
    alone = np.sqrt(rate * (1 - rate) * (1 / shared.votes[0] - 1 / every.votes[0]))
    spread = np.maximum(alone, np.nanstd(drawn[0] - drawn[1], axis=0))
    limit = t_quantile(1 - SAMPLING_ALARM / 2 / len(rate), groups - 1) * math.sqrt(groups / (groups - 1))
    beyond = np.abs(shared.win_rates[0] - rate) > limit * spread
    unlike = [name for name, far in zip(boards.judge.names, beyond, strict=True) if far]
    if not unlike:
        return []
    return [
        f"The pairs that people voted on are not like the others: by the judge's votes {join_names(unlike)} does "
        "better or worse there than chance explains. The estimate takes them as drawn at random."
    ]
