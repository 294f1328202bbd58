"""`beholder arena agree`: the votes of judges against those of people, and of people among themselves.

A judge's vote on a case is compared with the vote that most people gave on the same two outputs, and with each single
vote of theirs. How often two people agree is the ceiling for the latter. Intervals draw groups of cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from beholder.arena.votes import WINNERS, Labels, VoteOutcome, Votes
from beholder.errors import UsageError
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.bootstrap import (
    ClusterBootstrap,
    Interval,
    divide_or_nan,
    to_json_values,
    undefined_estimate,
)
from beholder.statistics.data import SOURCE_GROUP, Bools, Floats, Ints

_CLASSES = len(VoteOutcome)
_FIRST_SCORE = np.array([1.0, 0.0, 0.5, 0.5])  # what a vote is worth for the output that was shown first
_TURNED = np.array([VoteOutcome.SECOND, VoteOutcome.FIRST, VoteOutcome.TIE, VoteOutcome.BOTH_BAD])
_NOT_SHARED = "no two people voted on the same pair"
_NO_ORDER = "the votes do not say what was shown first, as those over both orders"

PairKey = tuple[str, str, str]
"""Case, and the two models in alphabetic order."""


class RaterAgreement(msgspec.Struct, frozen=True):
    """People among themselves, on pairs that two or more voted on.

    Attributes:
        pairs: Pairs of outputs that two or more voted on.
        votes: Their votes on these.
        same: How often two people give the same of the four votes.
        same_decided: The same, where both name a winner.
        alpha: Krippendorff's α of the four votes: 1 if they always agree, 0 if as by chance.
    """

    pairs: int
    votes: int
    same: Interval
    same_decided: Interval
    alpha: Interval


class VoteAgreement(msgspec.Struct, frozen=True):
    """A judge's votes beside those of people.

    Attributes:
        judge: Its name.
        pairs: Votes of the judge on pairs that people voted on.
        unanswered: Rows without a vote of the judge; they count nowhere else.
        without_majority: Pairs on which no vote is the most frequent among people; they count for `one_rater` only.
        accuracy: How often it gives the vote that most people gave, of four.
        accuracy_decided: The same, where both name a winner.
        decided: Number of pairs where both do.
        kappa: Cohen's κ of the four votes: agreement beyond chance.
        one_rater: How often it gives the vote of a single person.
        less_rater: `one_rater` less how often two people agree, on the same pairs; not defined with one vote a pair.
        first_judge: Share of the output shown first in its votes of a known order; ties count half. None without such.
        first_people: The same share in the votes of people, on the same pairs.
        lean: The difference of the two: above zero it leans to the output that it was shown first.
        confusion: Number of pairs by what most people voted and by what the judge voted.
    """

    judge: str
    pairs: int
    unanswered: int
    without_majority: int
    accuracy: Interval
    accuracy_decided: Interval
    decided: int
    kappa: Interval
    one_rater: Interval
    less_rater: Interval
    first_judge: float | None
    first_people: float | None
    lean: Interval
    confusion: Mapping[str, Mapping[str, int]]


class ArenaAgreement(msgspec.Struct, frozen=True):
    """How far judges vote as people do: the result of `agree_arena`.

    Attributes:
        judges: The judges, in the order of their votes.
        people: People among themselves; None where no two voted on the same pair.
        notes: What was left out, in sentences.
        interval_note: A sentence on how intervals were computed.
    """

    judges: tuple[VoteAgreement, ...]
    people: RaterAgreement | None
    notes: tuple[str, ...]
    interval_note: str

    def __repr__(self) -> str:
        texts = [
            f"{one.judge} {'not defined' if one.accuracy.value is None else f'{one.accuracy.value:.2f}'}"
            for one in self.judges
        ]
        if self.people is not None and self.people.same.value is not None:
            texts.append(f"two people {self.people.same.value:.2f}")
        return f"<ArenaAgreement with people: {', '.join(texts)}>"

    def _repr_html_(self) -> str:
        from beholder.reports.arena import arena_agreement_html

        return arena_agreement_html(self)

    def to_dict(self) -> dict[str, object]:
        """Return what `beholder arena agree --json` prints."""
        return to_json_values(self)


@dataclass(frozen=True, slots=True, eq=False)
class _PeopleVotes:
    """What people voted on pairs: pairs × outcomes, the first of the alphabetically ordered models being the first."""

    place: Mapping[PairKey, int]
    counts: Floats
    groups: Sequence[str]


def agree_with_people(
    votes: Votes,
    people: Votes | None = None,
    *,
    group: str = "",
    draw_count: int = DEFAULT_DRAWS,
    seed: int = DEFAULT_SEED,
) -> ArenaAgreement:
    """Compare the votes of judges with those of people.

    Args:
        votes: The votes of judges; of people where there is nothing to compare with.
        people: The votes of people; None for the agreement of the voters among themselves.
        group: The column by which cases were asked to belong together, which one side may have alone.
        draw_count: Number of bootstrap draws.
        seed: Random seed.

    Raises:
        UsageError: Votes do not name their case, no pair has a vote of both sides, or no two people voted on one pair.
    """
    if people is not None:
        votes, people = share_groups(votes, people, group)
    counted = _count_people(votes if people is None else people)
    bootstrap = ClusterBootstrap(counted.groups, len(counted.groups), count=draw_count, seed=seed)
    among = _agree_among(counted, draw_count, seed)
    if people is None:
        if among is None:
            raise UsageError("No two votes are on the same pair, so that nothing can agree; name the votes of people.")
        return ArenaAgreement((), among, votes.notes, bootstrap.describe())
    judges, notes = [], [*votes.notes]
    names = ("",) if votes.judge is None else votes.judge.names
    unmatched = 0
    for number, name in enumerate(names):
        rows = np.arange(len(votes)) if votes.judge is None else np.flatnonzero(votes.judge.codes == number)
        matched = _match(votes, rows, counted)
        unmatched += len(rows) - len(matched.rows)
        judges.append(
            matched.agree(name or "the judge", (votes.unanswered or {}).get(name, 0), draw_count=draw_count, seed=seed)
        )
    silent = [name for name in votes.unanswered or {} if name not in names]
    nothing = _match(votes, np.zeros(0, np.int64), counted)
    judges += [
        nothing.agree(name or "the judge", (votes.unanswered or {})[name], draw_count=draw_count, seed=seed)
        for name in silent
    ]
    if not any(judge.pairs for judge in judges):
        raise UsageError(
            "No pair has a vote of a judge and one of people; they are matched by case and models, such as "
            f"{_show_example(votes)} here and {_show_example(people)} there."
        )
    if unmatched:
        notes.append(
            f"{unmatched:,} votes of judges are on pairs that nobody else voted on, and do not count."
            if unmatched > 1
            else "1 vote of a judge is on a pair that nobody else voted on, and does not count."
        )
    return ArenaAgreement(tuple(judges), among, tuple(notes), bootstrap.describe())


def need_cases(votes: Votes) -> Labels:
    if votes.case is None:
        raise UsageError("Votes are compared case by case, and these have no column case (or id).")
    return votes.case


def pair_key(votes: Votes, case: Labels, row: int) -> tuple[PairKey, bool]:
    """Return the key of a vote's pair, and whether the models were shown in the reverse of alphabetic order."""
    one, other = votes.models[votes.first[row]], votes.models[votes.second[row]]
    name = case.names[case.codes[row]]
    return ((name, other, one), True) if other < one else ((name, one, other), False)


def share_groups(votes: Votes, people: Votes, wanted: str = "") -> tuple[Votes, Votes]:
    """Return both tables with the groups of that which says more about them, matched by case.

    Intervals of what is computed from both draw the same groups, which one file may name alone. The most is said by the
    column `wanted`, or any other than the known ones; then by `source`, `prompt`, the case alone.
    """
    one, other = (_group_rank(table, wanted) for table in (votes, people))
    if one == other:
        return votes, people
    return (votes, _take_groups(people, votes)) if one < other else (_take_groups(votes, people), people)


def _group_rank(votes: Votes, wanted: str) -> int:
    """Return how much groups say, 0 the most."""
    known = {SOURCE_GROUP: 1, "prompt": 2, "case": 3, "id": 3, "": 3}
    return 0 if wanted and votes.group_name == wanted else known.get(votes.group_name, 0)


def _take_groups(votes: Votes, other: Votes) -> Votes:
    """Return votes with the groups that another table has of their cases.

    A case that it does not have goes with the others of its own group, and is of that group where it has none of these.
    """
    case, other_case = need_cases(votes), need_cases(other)
    known = {other_case.names[other_case.codes[row]]: _group_name(other, row) for row in range(len(other))}
    cases = [case.names[code] for code in case.codes]
    own = [f"\0\0{name if votes.group is None else _group_name(votes, row)}" for row, name in enumerate(cases)]
    joined = {group: known[name] for group, name in zip(own, cases, strict=True) if name in known}
    names = [known.get(name, joined.get(group, group)) for name, group in zip(cases, own, strict=True)]
    number_of = {name: number for number, name in enumerate(dict.fromkeys(names))}
    codes = np.array([number_of[name] for name in names], np.int32)
    return replace(votes, group=Labels(codes, tuple(number_of)), group_name=other.group_name)


def _show_example(votes: Votes) -> str:
    return ", ".join(map(repr, pair_key(votes, need_cases(votes), 0)[0]))


def _group_name(votes: Votes, row: int) -> str:
    if votes.group is None:
        return ""
    code = votes.group.codes[row]
    return votes.group.names[code] or f"\0{code}"


def _count_people(votes: Votes) -> _PeopleVotes:
    case = need_cases(votes)
    place: dict[PairKey, int] = {}
    groups: list[str] = []
    at, outcome = np.zeros(len(votes), np.int64), votes.outcome.astype(np.int64)
    for row in range(len(votes)):
        key, turned = pair_key(votes, case, row)
        if key not in place:
            place[key] = len(place)
            groups.append(_group_name(votes, row))
        at[row] = place[key]
        if turned:
            outcome[row] = _TURNED[outcome[row]]
    counts = np.bincount(at * _CLASSES + outcome, minlength=len(place) * _CLASSES).astype(np.float64)
    return _PeopleVotes(place, counts.reshape(-1, _CLASSES), groups)


def _same_pairs(counts: Floats) -> tuple[Floats, Floats]:
    """Return, for each row, the pairs of votes that are the same, and all pairs of votes."""
    total = counts.sum(axis=1)
    return (counts * (counts - 1)).sum(axis=1) / 2, total * (total - 1) / 2


def _agree_among(people: _PeopleVotes, draw_count: int, seed: int) -> RaterAgreement | None:
    shared = people.counts.sum(axis=1) > 1
    if not shared.any():
        return None
    counts = people.counts[shared]
    groups = [name for name, kept in zip(people.groups, shared, strict=True) if kept]
    same, pairs = _same_pairs(counts)
    decided_same, decided_pairs = _same_pairs(counts[:, : VoteOutcome.TIE])
    total = counts.sum(axis=1)
    differing = (total**2 - (counts**2).sum(axis=1)) / (total - 1)

    def statistics(weights: Floats) -> Mapping[str, Floats]:
        by_class = weights @ counts
        votes = by_class.sum(axis=1)
        expected = divide_or_nan(votes**2 - (by_class**2).sum(axis=1), votes - 1)
        return {
            "same": divide_or_nan(weights @ same, weights @ pairs),
            "same_decided": divide_or_nan(weights @ decided_same, weights @ decided_pairs),
            "alpha": 1 - divide_or_nan(weights @ differing, expected),
        }

    bootstrap = ClusterBootstrap(groups, len(groups), count=draw_count, seed=seed)
    return RaterAgreement(len(counts), int(total.sum()), **bootstrap.estimates(statistics))


@dataclass(frozen=True, slots=True, eq=False)
class _MatchedVotes:
    """Votes of one judge and what people voted on the same pairs (`people`, in the order the judge was shown them).

    `ordered` says for which of them it is known what was shown first.
    """

    rows: Ints
    outcome: Ints
    ordered: Bools
    people: Floats
    groups: Sequence[str]

    def agree(self, judge: str, unanswered: int, *, draw_count: int, seed: int) -> VoteAgreement:
        size = len(self.rows)
        majority, known = _find_majority(self.people)
        both = known & (self.outcome < VoteOutcome.TIE) & (majority < VoteOutcome.TIE)
        people_share = divide_or_nan(self.people @ _FIRST_SCORE, self.people.sum(axis=1))
        judge_share = _FIRST_SCORE[self.outcome]
        estimates = self._estimate(majority, known, judge_share - people_share, draw_count, seed) if size else {}
        ordered = self.ordered.any()
        none = undefined_estimate("it gave no vote on a pair that people voted on")
        confusion = np.zeros((_CLASSES, _CLASSES), np.int64)
        np.add.at(confusion, (majority[known], self.outcome[known]), 1)
        return VoteAgreement(
            judge,
            pairs=size,
            unanswered=unanswered,
            without_majority=int(size - known.sum()),
            accuracy=estimates.get("accuracy", none),
            accuracy_decided=estimates.get("accuracy_decided", none),
            decided=int(both.sum()),
            kappa=estimates.get("kappa", none),
            one_rater=estimates.get("one_rater", none),
            less_rater=estimates.get("less_rater", none)
            if (self.people.sum(axis=1) > 1).any() or not size
            else undefined_estimate(_NOT_SHARED),
            first_judge=float(judge_share[self.ordered].mean()) if ordered else None,
            first_people=float(people_share[self.ordered].mean()) if ordered else None,
            lean=estimates.get("lean", none) if ordered or not size else undefined_estimate(_NO_ORDER),
            confusion={
                people: {vote: int(count) for vote, count in zip(_VOTE_NAMES, row, strict=True)}
                for people, row in zip(_VOTE_NAMES, confusion, strict=True)
            },
        )

    def _estimate(
        self, majority: Ints, known: Bools, lean: Floats, draw_count: int, seed: int
    ) -> Mapping[str, Interval]:
        each = np.eye(_CLASSES)
        judged, voted = each[self.outcome] * known[:, None], each[majority] * known[:, None]
        equal = (judged * voted).sum(axis=1)
        both = judged[:, : VoteOutcome.TIE].sum(axis=1) * voted[:, : VoteOutcome.TIE].sum(axis=1)
        total = self.people.sum(axis=1)
        single = self.people[np.arange(len(total)), self.outcome]
        same, pairs = _same_pairs(self.people)
        # Against the ceiling on the pairs that several people voted on; there, each pair counts by its pairs of votes.
        shared = np.where(total > 1, (total - 1) / 2, 0.0)
        ordered = self.ordered.astype(np.float64)

        def statistics(weights: Floats) -> Mapping[str, Floats]:
            cases = weights @ known.astype(np.float64)
            by_judge, by_people = weights @ judged, weights @ voted
            observed = divide_or_nan(weights @ equal, cases)
            chance = divide_or_nan((by_judge * by_people).sum(axis=1), cases**2)
            constant = (by_judge.max(axis=1) == cases) | (by_people.max(axis=1) == cases)
            ceiling = divide_or_nan(weights @ same, weights @ pairs)
            on_shared = divide_or_nan(weights @ (single * shared), weights @ (total * shared))
            return {
                "accuracy": observed,
                "accuracy_decided": divide_or_nan(weights @ (equal * both), weights @ both),
                "kappa": np.where(constant, np.nan, divide_or_nan(observed - chance, 1 - chance)),
                "one_rater": divide_or_nan(weights @ single, weights @ total),
                "less_rater": on_shared - ceiling,
                "lean": divide_or_nan(weights @ (lean * ordered), weights @ ordered),
            }

        return ClusterBootstrap(self.groups, len(total), count=draw_count, seed=seed).estimates(statistics)


_VOTE_NAMES = ("first", "second", *WINNERS[VoteOutcome.TIE :])


def _match(votes: Votes, rows: Ints, people: _PeopleVotes) -> _MatchedVotes:
    case = need_cases(votes)
    kept, found = [], []
    for row in rows:
        key, turned = pair_key(votes, case, int(row))
        at = people.place.get(key)
        if at is not None:
            kept.append(int(row))
            found.append(people.counts[at][_TURNED] if turned else people.counts[at])
    return _MatchedVotes(
        np.array(kept, np.int64),
        votes.outcome[kept].astype(np.int64) if kept else np.zeros(0, np.int64),
        votes.has_order[kept] if kept else np.zeros(0, np.bool_),
        np.array(found).reshape(-1, _CLASSES),
        [_group_name(votes, row) for row in kept],
    )


def _find_majority(people: Floats) -> tuple[Ints, Bools]:
    """Return the most frequent vote of each pair, and whether there is one that is more frequent than all others."""
    if not len(people):
        return np.zeros(0, np.int64), np.zeros(0, np.bool_)
    most = people.max(axis=1)
    return people.argmax(axis=1), (people == most[:, None]).sum(axis=1) == 1
