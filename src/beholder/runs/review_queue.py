"""Which cases of a review are rated, and which comes next."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from beholder.ledger import Ledger
from beholder.runs.review_orders import ordered
from beholder.runs.reviewing import Review
from beholder.verdicts.model import Outcome

KEPT = 8


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a review is, in cases; where its order has an end, as far as that goes. `begun` is the case of a rating
    that was begun and not saved, if there is one."""

    rated: int
    of: int
    begun: str | None = None


class Queues:
    """The cases of reviews in their orders; the last ones asked for are kept as long as their runs do not change."""

    def __init__(self, kept: int = KEPT) -> None:
        self._most = kept
        self._kept: OrderedDict[tuple[object, ...], tuple[str, ...]] = OrderedDict()

    def of(self, ledger: Ledger, review: Review) -> Sequence[str]:
        """Raises `UsageError` for an order that the run cannot be put into."""
        record = ledger.run(review.run)
        key = (ledger.place, record.id, record.updated, review.rater.casefold(), review.order)
        found = self._kept.get(key)
        if found is None:
            seed = json.dumps([record.id, review.rater.casefold()])
            found = self._kept[key] = tuple(ordered(ledger, record.id, seed, review.order))
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return found


def progress(ledger: Ledger, review: Review, queues: Queues | None = None) -> Progress:
    cases = (queues or Queues()).of(ledger, review)
    outcomes = _outcomes(ledger, review)
    if review.order.each:  # an order with an end: what was rated in another one is beside it
        there = set(cases)
        outcomes = {case: one for case, one in outcomes.items() if case in there}
    rated = sum(one is Outcome.SCORED for one in outcomes.values())
    return Progress(rated, len(cases), _begun(cases, outcomes))


def next_case(ledger: Ledger, review: Review, queues: Queues | None = None, *, after: str | None = None) -> str | None:
    """The case to rate next: one that was begun, else the first in order that is not rated; `after` this case and then
    from the beginning, for who passes one over. `None` when all are rated."""
    cases = (queues or Queues()).of(ledger, review)
    outcomes = _outcomes(ledger, review)
    if after is not None and after in cases:
        start = cases.index(after)
        cases = [*cases[start + 1 :], *cases[:start]]
    elif (begun := _begun(cases, outcomes)) is not None:
        return begun
    return next((case for case in cases if outcomes.get(case) != Outcome.SCORED), None)


def _begun(cases: Sequence[str], outcomes: dict[str, Outcome]) -> str | None:
    begun = {case for case, outcome in outcomes.items() if outcome is Outcome.INTERRUPTED}
    return next((case for case in cases if case in begun), None) if begun else None


def _outcomes(ledger: Ledger, review: Review) -> dict[str, Outcome]:
    """By case, where there is anything. A case with several rubrics is rated once it is by all."""
    found: dict[str, Outcome] = {}
    for (case, _), outcome in ledger.outcomes_of(review.id).items():
        if found.get(case) != Outcome.INTERRUPTED:
            found[case] = Outcome(outcome)
    return found
