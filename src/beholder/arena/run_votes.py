"""The votes of a run of pairs for its board, and what happened: flips, failed calls, the lean to the first position.

A pair on which the answer of a judge followed the order is counted as a flip; one that has no verdict with a winner is
no vote, and is counted by outcome. `ArenaRounds` chooses the pairs of an adaptive run by these votes. The votes of
people on the pairs of a run are read from its reviews in the same way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from beholder.arena.selection import ADAPTIVE, AdaptiveSelection, RoundDecision
from beholder.arena.verdict_votes import OUTCOMES, PairRow, find_winner, make_votes
from beholder.arena.votes import VoteOutcome, Votes
from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import INTERRUPTED, RUNNING, WAITING, StoredVerdict
from beholder.statistics.bootstrap import (
    CONFIDENCE_LEVEL,
    ClusterBootstrap,
    Interval,
    divide_or_nan,
    undefined_estimate,
)
from beholder.statistics.data import SOURCE_GROUP, Floats
from beholder.statistics.significance import min_groups_to_decide
from beholder.verdicts.verdict import Outcome

ARENA_KEY = "arena"  # in the suite that is stored with a run: how its pairs were chosen
POOL_SIZE, LEFT_OUT = "of", "left_out"  # there: how many pairs there were to ask, and how many could not be
UNPLACED = "unplaced"  # there: how many cases are in no pair, as nobody knows which pairs they would make
OUTPUTS, MISSING = "outputs", "missing"  # there: how many outputs there would be, and which are missing, by model
_MAX_ITEMS, _MAX_MODELS = 10, 20  # that are named in the sentence on missing outputs

_UNFINISHED = {
    INTERRUPTED: "The run was interrupted",
    RUNNING: "The run is in progress",
    WAITING: "The run waits for a batch",
}


class ModelCounts(msgspec.Struct, frozen=True):
    """What a board does not say of a model.

    Attributes:
        flips: Pairs with it in which a judge's answer followed the order.
        failed: Pairs with it that have no vote.
    """

    flips: int
    failed: int


class MissingOutputs(msgspec.Struct, frozen=True):
    """Outputs that a model does not have, for photographs or prompts for which others have one.

    Attributes:
        count: How many.
        items: The names of the first of them.
    """

    count: int
    items: tuple[str, ...]

    def __str__(self) -> str:
        more = self.count - len(self.items)
        return ", ".join(self.items) + (f" and {more:,} more" if more else "")


class ArenaStatistics(msgspec.Struct, frozen=True):
    """What happened when the pairs of a run were asked.

    Attributes:
        pairs: Pairs with a verdict.
        votes: Those with a vote.
        of: Pairs that there were to ask, of which `pairs` may be a sample; None where the run does not say.
        left_out: Pairs that could not be asked, such as with a missing image (`skip_bad`).
        unplaced: Cases that could not be read or name no model, so that it is not known which pairs they would make.
        outputs: Outputs that there would be if every model had one for each photograph or prompt; 0 where the run does
            not say.
        missing: Those that are not there, by model; each model is ranked by the others.
        state: The state of the run; empty for votes of people.
        total: Pairs that the run was to ask, of an adaptive one those that were chosen so far.
        failed: Those without one, by outcome.
        calls: Answers that were given, in all orders and by all judges, of which it is known what was shown first.
        with_order: Pairs with a vote and such an answer.
        both_orders: Pairs that at least one judge answered in both orders.
        flips: Those in which one named a candidate in one order and the other in the other.
        other_changes: Those in which an answer changed with the order without a flip, as from a candidate to a tie.
        flip_rate: The share of these.
        lean: Share of answers for the output that was shown first, less one half; a tie counts half.
        models: What a board does not say of each model.
        chosen: How the pairs were chosen, as the run has it; of adaptive pairs also why no more were. Empty for a run
            that was not made as an arena.
    """

    pairs: int
    votes: int
    of: int | None
    left_out: int
    unplaced: int
    outputs: int
    missing: Mapping[str, MissingOutputs]
    state: str
    total: int
    failed: Mapping[str, int]
    calls: int
    with_order: int
    both_orders: int
    flips: int
    other_changes: int
    flip_rate: Interval
    lean: Interval
    models: Mapping[str, ModelCounts]
    chosen: Mapping[str, object]

    def sentences(self) -> list[str]:
        """Return the statistics as sentences."""
        found = []
        adaptive = self.chosen.get("pairs") == ADAPTIVE and self.of is not None
        sample, most = self.pairs, (self.of if adaptive and self.of else self.total)
        if self.state in _UNFINISHED and self.pairs < most:
            sample = most
            count = f"{self.pairs:,} of {'at most ' if adaptive else ''}{most:,} pairs have a verdict"
            found.append(f"{_UNFINISHED[self.state]}: {count}. The same command goes on.")
        if self.of is not None and sample < self.of:
            found.append(f"This board is of a sample: {sample:,} of {self.of:,} pairs.")
        if self.missing:
            found.append(f"{describe_missing(self.missing, self.outputs)}.")
        if self.left_out:
            pairs, had = ("1 pair", "was") if self.left_out == 1 else (f"{self.left_out:,} pairs", "were")
            found.append(f"{pairs} could not be compared and {had} left out.")
        if self.unplaced:
            found.append(f"{describe_unplaced(self.unplaced)}.")
        if self.failed:
            listed = ", ".join(f"{count:,} {outcome}" for outcome, count in self.failed.items())
            found.append(
                f"{sum(self.failed.values()):,} of {self.pairs:,} pairs have no vote ({listed}); they are no ties."
            )
        if self.both_orders:
            rate = _show(self.flip_rate, 100, "%")
            others = "1 other" if self.other_changes == 1 else f"{self.other_changes:,} others"
            also = f" In {others} it changed without a flip, as from a winner to a tie." if self.other_changes else ""
            pairs = f"{self.flips:,} of {self.both_orders:,} pairs asked in both orders"
            found.append(f"In {pairs} the answer flipped: {rate}.{also}")
        if self.lean.value is not None:
            few = (
                f" That rests on {self.with_order:,} of {self.votes:,} votes; of the others the order is not known."
                if self.with_order < self.votes
                else ""
            )
            lean = _show(self.lean, 100, "%", signed=True)
            found.append(f"Answers for what was shown first, less one half: {lean}.{few}")
        if self.chosen.get("why"):
            found.append(f"Pairs were chosen adaptively. {self.chosen['why']}")
        return found


def list_missing(missing: Mapping[str, Sequence[str]]) -> dict[str, MissingOutputs]:
    """Return missing outputs as they are stored with a run, from the names of all items by model."""
    return {model: MissingOutputs(len(items), tuple(items[:_MAX_ITEMS])) for model, items in missing.items()}


def describe_missing(missing: Mapping[str, MissingOutputs], outputs: int) -> str:
    """Return which outputs are missing, by model, without a period."""
    count = sum(gone.count for gone in missing.values())
    listed = [f"{model} {gone}" for model, gone in sorted(missing.items(), key=lambda entry: -entry[1].count)]
    more = f"; and of {len(listed) - _MAX_MODELS:,} more models" if len(listed) > _MAX_MODELS else ""
    are = "is" if count == 1 else "are"
    return (
        f"{count:,} of {outputs:,} outputs {are} missing, and each model is ranked by those that it has: "
        f"{'; '.join(listed[:_MAX_MODELS])}{more}"
    )


def describe_unplaced(count: int) -> str:
    """Return how many cases are in no pair, without a period."""
    cases, does = ("1 case", "names") if count == 1 else (f"{count:,} cases", "name")
    return f"{cases} could not be read or {does} no model, and {'is' if count == 1 else 'are'} in no pair"


def _show(interval: Interval, factor: float, unit: str, *, signed: bool = False) -> str:
    form = "+.1f" if signed else ".1f"
    value = format((interval.value or 0.0) * factor, form).replace("-", "−")
    if interval.low is None or interval.high is None:
        return f"{value} {unit}"
    low, high = (format(end * factor, form).replace("-", "−") for end in (interval.low, interval.high))
    return f"{value} {unit} ({low} to {high})"


def _estimate_share(above: Floats, below: Floats, groups: Sequence[str], draw_count: int, seed: int) -> Interval:
    """Return a share over the pairs that count in it; its interval is a bootstrap over their groups.

    Where it is 0 or 1 in all of them, no draw can differ: then each group is one trial that came out so, and the
    interval is the exact one of Clopper and Pearson.
    """
    kept = np.flatnonzero(below)
    bootstrap = ClusterBootstrap([groups[int(at)] for at in kept], len(kept), count=draw_count, seed=seed)
    found = bootstrap.estimate(lambda weights: divide_or_nan(weights @ above[kept], weights @ below[kept]))
    count, needed = bootstrap.group_count, min_groups_to_decide()
    if 1 < count < needed:
        return Interval(found.value, why=f"no interval: {count} groups cannot tell; it takes {needed}")
    if found.low is None or found.low != found.high:
        return found
    end = ((1 - CONFIDENCE_LEVEL) / 2) ** (1 / count)
    if found.value == 0:
        return Interval(0.0, 0.0, 1 - end)
    if found.value == 1:
        return Interval(1.0, end, 1.0)
    return Interval(found.value, why="no interval: it is the same in all groups")


class RunVotes:
    """The verdicts of a run of pairs, read once: `votes` and `statistics`.

    Attributes:
        record: The run.
        pairs: What came of each pair, in the order of the run.
    """

    def __init__(self, ledger: Ledger, run: str, reviews: Sequence[str] | None = None) -> None:
        """Read the verdicts, of which there may be none yet.

        Args:
            ledger: The ledger.
            run: The run.
            reviews: Ids of its reviews, to read the votes of these people in place of those of the judge.

        Raises:
            UsageError: The run is not one of pairs, or its cases do not say which models made the candidates; or
                nobody has voted in its reviews.
        """
        from beholder.runs.ledger_access import correct_state  # late: loads what runs need

        self.record = correct_state(ledger, ledger.run(run))
        self._of_people = reviews is not None
        self._rows: list[PairRow] = []
        nameless = ""
        read = (self.record.id,) if reviews is None else reviews
        for stored in (one for id_ in read for one in ledger.stored_verdicts(id_)):
            if reviews is not None and not stored.verdict.answered:  # begun, and not saved
                continue
            row = PairRow.of(stored)
            if all(row.models):
                self._rows.append(row)
            else:
                nameless = nameless or stored.verdict.case
        self.pairs: Sequence[PairRow] = self._rows
        if nameless and not self._rows:
            raise UsageError(
                f"The run {self.record.id} ({self.record.name}) is no arena: its case {nameless!r} does not say which "
                "models made its candidates (the groups model_first and model_second); `beholder arena run` makes such "
                "cases, and `beholder arena fit --runs` compares runs of scores."
            )
        if reviews is not None and not self._rows:
            raise UsageError(
                f"Nobody has voted on the pairs of the run {self.record.id} ({self.record.name}) yet; `beholder view` "
                "has a page for it."
            )

    def votes(self, group: str | None = None, *, each_answer: bool = False) -> Votes:
        """Return the votes.

        Args:
            group: The group of cases that belong together; else `source`, if they have it, else each pair.
            each_answer: Return each answer as a vote, which has a position, in place of the verdicts, which have none
                where pairs were asked in both orders.

        Raises:
            UsageError: There is no vote, or no case has the group.
        """
        rows = [row for row in self._rows if row.winner is not None]
        if not rows:
            outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in self._count_failed().items())
            none = f"no vote: {outcomes}" if outcomes else "no verdict yet"
            raise UsageError(f"The run {self.record.id} ({self.record.name}) has {none}.")
        name = group or SOURCE_GROUP
        if group is not None and not any(row.groups.get(group) for row in rows):
            known = ", ".join(sorted({key for row in rows for key in row.groups})) or "none"
            raise UsageError(f"No case of the run {self.record.id} has the group {group!r}; there are: {known}.")
        known = name if any(row.groups.get(name) for row in rows) else ""
        if not each_answer:
            return make_votes(self._rows, known)
        # The answers of a pair without a vote do not count, as it has no place on the board without the position.
        answers = [vote for row in self._rows for vote in (row.split() if row.winner is not None else [row])]
        votes = make_votes(answers, known)
        if len(votes) == len(rows):
            return votes
        note = (
            f"Each of {len(votes):,} answers is a vote here, in place of {len(rows):,} verdicts over both orders or "
            "several jurors: ratings lie on a scale of their own, and cannot be compared with those of a board without "
            "the position."
        )
        return replace(votes, notes=(note,))

    def _count_failed(self) -> dict[str, int]:
        return dict(Counter(str(row.outcome) for row in self._rows if row.winner is None).most_common())

    def statistics(self, *, draw_count: int, seed: int) -> ArenaStatistics:
        """Return what happened when the pairs were asked; intervals are a bootstrap over sources."""
        rows = self._rows
        groups = [row.groups.get(SOURCE_GROUP) or row.case for row in rows]
        shown = np.array([row.shown_first for row in rows], np.float64)
        calls = np.array([row.calls for row in rows], np.float64)
        both = np.array([row.both_orders for row in rows], np.float64)
        flips = np.array([row.flipped for row in rows], np.float64)
        flip_rate = undefined_estimate("no pair was asked in both orders")
        lean = undefined_estimate("there is no answer")
        if both.any():
            flip_rate = _estimate_share(flips, both, groups, draw_count, seed)
        if calls.any():
            first = _estimate_share(shown, calls, groups, draw_count, seed)
            value, low, high = (None if end is None else end - 0.5 for end in (first.value, first.low, first.high))
            lean = Interval(value, low, high, first.why)
        models = sorted({model for row in rows for model in row.models})
        counts = {
            model: ModelCounts(
                sum(row.flipped for row in rows if model in row.models),
                sum(row.winner is None for row in rows if model in row.models),
            )
            for model in models
        }
        stored = self.record.suite.get(ARENA_KEY)
        chosen: Mapping[str, object] = stored if isinstance(stored, Mapping) else {}
        of, left_out, unplaced, outputs = (chosen.get(key) for key in (POOL_SIZE, LEFT_OUT, UNPLACED, OUTPUTS))
        return ArenaStatistics(
            pairs=len({row.case for row in rows}),
            votes=sum(row.winner is not None for row in rows),
            of=of if isinstance(of, int) else None,
            left_out=left_out if isinstance(left_out, int) else 0,
            unplaced=unplaced if isinstance(unplaced, int) else 0,
            outputs=outputs if isinstance(outputs, int) else 0,
            missing=msgspec.convert(chosen.get(MISSING, {}), dict[str, MissingOutputs]),
            state="" if self._of_people else self.record.state,
            total=self.record.total,
            failed=self._count_failed(),
            calls=int(calls.sum()),
            with_order=sum(row.winner is not None and row.calls > 0 for row in rows),
            both_orders=int(both.sum()),
            flips=int(flips.sum()),
            other_changes=sum(row.leaned for row in rows),
            flip_rate=flip_rate,
            lean=lean,
            models=counts,
            chosen=chosen,
        )


class ArenaRounds:
    """Chooses the pairs of an adaptive run, for `runs.suite.SuiteObjects.rounds`.

    It reads the votes from the ledger, so that a run that was stopped goes on from what it has.
    """

    name = ADAPTIVE

    def __init__(
        self,
        selection: AdaptiveSelection,
        on_round: Callable[[RoundDecision, int], None] = lambda decision, asked: None,
        stored: Mapping[str, object] | None = None,
    ) -> None:
        """Make the rounds of one start of a run.

        Args:
            selection: Chooses pairs by votes.
            on_round: Called with each decision, and how many pairs were asked before it.
            stored: What the run has of its pairs already, which is kept.
        """
        self.selection, self._on_round, self._stored = selection, on_round, stored or {}
        self._votes: dict[int, VoteOutcome | None] | None = None
        self._last: Sequence[int] = ()
        self._over_budget = False

    def choose_cases(self, ledger: Ledger, run: str, ids: Collection[str]) -> Collection[str]:
        """Return the pairs to ask next; none where the board is known well enough, or no vote came of the last ones."""
        pool = self.selection.pool
        if self._votes is None:
            self._votes = {}
            stored: Iterator[StoredVerdict] = ledger.stored_verdicts(run)
        else:
            stored = ledger.stored_verdicts_on(run, [pool.case_id(at) for at in self._last])
        for one in stored:
            winner = find_winner(one.verdict)
            place = pool.places.get(one.verdict.case)
            self._over_budget |= one.verdict.outcome is Outcome.OVER_BUDGET
            if place is not None:
                self._votes[place] = None if winner is None else OUTCOMES[winner]
        decision = self._decide(frozenset(pool.places[id_] for id_ in pool.places.keys() - set(ids)))
        self._on_round(decision, len(self._votes))
        self._last = decision.pairs
        if not decision.pairs:
            told = {"pairs": ADAPTIVE, "until_width": self.selection.until_width, "width": decision.width}
            ledger.update_suite(run, **{ARENA_KEY: {**self._stored, **told, "why": decision.why}})
        return [pool.case_id(at) for at in decision.pairs]

    def _decide(self, blocked: frozenset[int]) -> RoundDecision:
        assert self._votes is not None
        decision = self.selection.next_round(self._votes, blocked)
        if not decision.pairs:
            return decision
        if self._over_budget:
            return msgspec.structs.replace(decision, pairs=(), why="The budget is spent.")
        if self._last and all(self._votes.get(at) is None for at in self._last):
            why = f"None of the last {len(self._last):,} pairs got a vote."
            return msgspec.structs.replace(decision, pairs=(), why=why)
        return decision
