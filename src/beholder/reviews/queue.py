"""What a case is called to a rater: it tells nothing of the case, another rater has another, and nothing is kept of it.

A label is a digest of review and case, and where the case stands in the run under a mask that follows from the two.
Who holds the label finds the case by its place; the digest says whether it is the one.

Which cases of a review are rated, and which comes next.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from beholder.errors import UsageError
from beholder.judges.audit import DISAGREE
from beholder.ledger.encoding import storable_text
from beholder.ledger.ledger import Ledger
from beholder.reviews.review import Review, ReviewOrder, ReviewOrderKind
from beholder.verdicts.verdict import Outcome, Verdict

_LABEL_BYTES = 4  # each of the digest and the place
_LABEL_PATTERN = re.compile(rf"case-([0-9a-f]{{{2 * _LABEL_BYTES}}})([0-9a-f]{{{2 * _LABEL_BYTES}}})")


def case_label(ledger: Ledger, review: Review, case: str) -> str:
    """The label of a case. Raises `UsageError` where the run has no such case."""
    place = ledger.case_position(review.run, case)
    if place is None:
        raise UsageError(f"There is no case {case!r} in this review.")
    digest = _label_digest(review.id, case)
    return f"case-{digest}{place ^ _position_mask(review.id, digest):0{2 * _LABEL_BYTES}x}"


def case_from_label(ledger: Ledger, review: Review, label: str) -> str:
    """The id of the case with this label. Raises `UsageError`."""
    if (found := _LABEL_PATTERN.fullmatch(label)) is not None:
        digest, place = found[1], int(found[2], 16) ^ _position_mask(review.id, found[1])
        for case in ledger.cases_at(review.run, place):
            if _label_digest(review.id, case) == digest:
                return case
    raise UsageError(f"There is no case {label!r} in this review.")


def _label_digest(review: str, case: str) -> str:
    return _hash_parts(review, storable_text(case)).hex()


def _position_mask(review: str, digest: str) -> int:
    return int.from_bytes(_hash_parts(digest, review), "big")


def _hash_parts(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=_LABEL_BYTES).digest()


MAX_CACHED = 8


@dataclass(frozen=True, slots=True)
class ReviewProgress:
    """How far a review is, in cases; where its order has an end, as far as that goes. `begun` is the case of a rating
    that was begun and not saved, if there is one."""

    rated: int
    of: int
    begun: str | None = None


class ReviewQueueCache:
    """The cases of reviews in their orders; the last ones asked for are kept as long as their runs do not change."""

    def __init__(self, kept: int = MAX_CACHED) -> None:
        self._most = kept
        self._kept: OrderedDict[tuple[object, ...], tuple[str, ...]] = OrderedDict()

    def of(self, ledger: Ledger, review: Review) -> Sequence[str]:
        """Raises `UsageError` for an order that the run cannot be put into."""
        record = ledger.run(review.run)
        key = (ledger.place, record.id, record.updated, review.rater.casefold(), review.order)
        found = self._kept.get(key)
        if found is None:
            seed = json.dumps([record.id, review.rater.casefold()])
            found = self._kept[key] = tuple(order_cases(ledger, record.id, seed, review.order))
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return found


def read_review_progress(ledger: Ledger, review: Review, queues: ReviewQueueCache | None = None) -> ReviewProgress:
    cases = (queues or ReviewQueueCache()).of(ledger, review)
    outcomes = _case_outcomes(ledger, review)
    if review.order.each:  # an order with an end: what was rated in another one is beside it
        there = set(cases)
        outcomes = {case: one for case, one in outcomes.items() if case in there}
    rated = sum(one is Outcome.SCORED for one in outcomes.values())
    return ReviewProgress(rated, len(cases), _first_draft(cases, outcomes))


def find_next_case(
    ledger: Ledger, review: Review, queues: ReviewQueueCache | None = None, *, after: str | None = None
) -> str | None:
    """The case to rate next: one that was begun, else the first in order that is not rated; `after` this case and then
    from the beginning, for who passes one over. `None` when all are rated."""
    cases = (queues or ReviewQueueCache()).of(ledger, review)
    outcomes = _case_outcomes(ledger, review)
    if after is not None and after in cases:
        start = cases.index(after)
        cases = [*cases[start + 1 :], *cases[:start]]
    elif (begun := _first_draft(cases, outcomes)) is not None:
        return begun
    return next((case for case in cases if outcomes.get(case) != Outcome.SCORED), None)


def _first_draft(cases: Sequence[str], outcomes: dict[str, Outcome]) -> str | None:
    begun = {case for case, outcome in outcomes.items() if outcome is Outcome.INTERRUPTED}
    return next((case for case in cases if case in begun), None) if begun else None


def _case_outcomes(ledger: Ledger, review: Review) -> dict[str, Outcome]:
    """By case, where there is anything. A case with several rubrics is rated once it is by all."""
    found: dict[str, Outcome] = {}
    for (case, _), outcome in ledger.outcomes(review.id).items():
        if found.get(case) != Outcome.INTERRUPTED:
            found[case] = Outcome(outcome)
    return found


SAMPLE_SIZE = 1000


def order_cases(ledger: Ledger, run: str, seed: str, order: ReviewOrder) -> list[str]:
    """The ids of all cases of a run that have a verdict, in this order; of a quota with an end, only those in it."""
    shuffle = random.Random(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()).shuffle
    if order.kind is ReviewOrderKind.QUOTA:
        values = ledger.group_values(run, order.group)
        ids = list(values)
        shuffle(ids)
        return list(_take_turns(ids, values, order))
    ids = ledger.case_ids(run)
    shuffle(ids)
    if order.kind is ReviewOrderKind.RANDOM:
        return ids
    measure = measure_uncertainty if order.kind is ReviewOrderKind.UNCERTAIN else _count_contradictions
    return _highest_first(ledger, run, ids, measure)


def measure_uncertainty(verdict: Verdict) -> float:
    """How little a verdict is to be relied on by what it says of itself, 0 to 1: the jurors' spread or disagreement,
    the share that was left open, the width of the calibrated interval; 1 where there is no score."""
    if verdict.score is None:
        return 1.0
    found = [0.0]
    if verdict.jury is not None:
        found.append(float(verdict.jury.spread.get("score", 0)))
        found += [
            float(verdict.jury.spread.get(key, 0)) / (one.scale[1] - one.scale[0])
            for key, one in verdict.criteria.items()
        ]
        if verdict.jury.agreement is not None:
            found.append(1 - verdict.jury.agreement)
    if verdict.coverage is not None:
        found.append(verdict.coverage.open / verdict.coverage.of)
    for one in verdict.calibrated.values():
        if one.low is not None and one.high is not None and one.scale[0] < one.scale[1]:
            found.append((one.high - one.low) / (one.scale[1] - one.scale[0]))
    return min(1.0, max(found))


def _count_contradictions(verdict: Verdict) -> float:
    return float(sum(flag.flag == DISAGREE for flag in verdict.flags))


def _highest_first(ledger: Ledger, run: str, ids: Sequence[str], measure: Callable[[Verdict], float]) -> list[str]:
    """The ids with the highest measure first; the order of the shuffle among equals."""
    looked = ids[:SAMPLE_SIZE]
    found: dict[str, float] = dict.fromkeys(looked, 0.0)
    for one in ledger.stored_verdicts_on(run, looked):
        id_ = storable_text(one.verdict.case)
        found[id_] = max(found.get(id_, 0.0), measure(one.verdict))
    return [*sorted(looked, key=lambda id_: -found[id_]), *ids[SAMPLE_SIZE:]]


def _take_turns(ids: Sequence[str], values: Mapping[str, str], order: ReviewOrder) -> Iterator[str]:
    """One case of each value of the group after the other."""
    by_value: defaultdict[str, list[str]] = defaultdict(list)
    for id_ in ids:
        by_value[values[id_]].append(id_)
    if set(by_value) <= {""}:
        raise UsageError(f"No case of this run is in a group {order.group!r}.")
    listed = list(by_value.values())
    longest = max(map(len, listed))
    for turn in range(min(longest, order.each) if order.each else longest):
        yield from (one[turn] for one in listed if turn < len(one))
