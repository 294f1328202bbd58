"""The queue of a review: blind labels of cases, their order, the next case, and progress.

A label such as `case-0a1b2c3d4e5f6071` tells a rater nothing about the case, differs between raters, and is not stored.
It is a digest of review and case, followed by the position of the case in the run, masked by a digest of the two: the
position finds the case, and the digest confirms it.

Every order begins with the same shuffle, seeded by run and rater, so that a page that is reloaded shows the same case
and no two raters go through the cases alike. Orders that depend on verdicts look only at the first `SAMPLE_SIZE` cases
of the shuffle: far more than anybody rates, and quick however large the run is. The rest follows at random.
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

_LABEL_BYTES = 4  # of the digest, and of the masked position
_LABEL_PATTERN = re.compile(rf"case-([0-9a-f]{{{2 * _LABEL_BYTES}}})([0-9a-f]{{{2 * _LABEL_BYTES}}})")


def case_label(ledger: Ledger, review: Review, case: str) -> str:
    """Return the label of a case in a review. Raises `UsageError` if the run has no such case."""
    position = ledger.case_position(review.run, case)
    if position is None:
        raise UsageError(f"There is no case {case!r} in this review.")
    digest = _label_digest(review.id, case)
    return f"case-{digest}{position ^ _position_mask(review.id, digest):0{2 * _LABEL_BYTES}x}"


def case_from_label(ledger: Ledger, review: Review, label: str) -> str:
    """Return the id of the case with this label. Raises `UsageError` if there is none."""
    if (match := _LABEL_PATTERN.fullmatch(label)) is not None:
        digest, position = match[1], int(match[2], 16) ^ _position_mask(review.id, match[1])
        for case in ledger.cases_at(review.run, position):
            if _label_digest(review.id, case) == digest:
                return case
    raise UsageError(f"There is no case {label!r} in this review.")


def _label_digest(review: str, case: str) -> str:
    return _hash_parts(review, storable_text(case)).hex()


def _position_mask(review: str, digest: str) -> int:
    return int.from_bytes(_hash_parts(digest, review), "big")


def _hash_parts(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=_LABEL_BYTES).digest()


MAX_CACHED = 8  # queues
SAMPLE_SIZE = 1000  # cases whose verdicts an order looks at


@dataclass(frozen=True, slots=True)
class ReviewProgress:
    """How far a review is.

    Attributes:
        rated: How many cases of its queue are rated and saved.
        total: How many cases its queue has.
        draft: The first case with a rating that was begun and not saved, if there is one.
    """

    rated: int
    total: int
    draft: str | None = None


class ReviewQueueCache:
    """Cache of the queues of reviews, each valid as long as its run does not change."""

    def __init__(self, size: int = MAX_CACHED) -> None:
        self._size = size
        self._queues: OrderedDict[tuple[object, ...], tuple[str, ...]] = OrderedDict()

    def cases(self, ledger: Ledger, review: Review) -> Sequence[str]:
        """Return the ids of the cases in the order of the review.

        Raises:
            UsageError: The run cannot be put into this order.
        """
        record = ledger.run(review.run)
        key = (ledger.place, record.id, record.updated, review.rater.casefold(), review.order)
        queue = self._queues.get(key)
        if queue is None:
            seed = json.dumps([record.id, review.rater.casefold()])
            queue = self._queues[key] = tuple(order_cases(ledger, record.id, seed, review.order))
            while len(self._queues) > self._size:
                self._queues.popitem(last=False)
        return queue


def read_review_progress(ledger: Ledger, review: Review, queues: ReviewQueueCache | None = None) -> ReviewProgress:
    """Return how far a review is in its queue."""
    cases = (queues or ReviewQueueCache()).cases(ledger, review)
    outcomes = _case_outcomes(ledger, review)
    if review.order.each:  # the queue has only some of the cases; others may have been rated in an earlier order
        queued = set(cases)
        outcomes = {case: outcome for case, outcome in outcomes.items() if case in queued}
    rated = sum(outcome is Outcome.SCORED for outcome in outcomes.values())
    return ReviewProgress(rated, len(cases), _first_draft(cases, outcomes))


def find_next_case(
    ledger: Ledger, review: Review, queues: ReviewQueueCache | None = None, *, after: str | None = None
) -> str | None:
    """Return the case to rate next: a draft, else the first of the queue that is not rated.

    Args:
        ledger: The ledger.
        review: The review.
        queues: A cache for the queue.
        after: Skip this case: the next one after it, then from the beginning.

    Returns:
        The id of the case, or `None` when all are rated.
    """
    cases = (queues or ReviewQueueCache()).cases(ledger, review)
    outcomes = _case_outcomes(ledger, review)
    if after is not None and after in cases:
        start = cases.index(after)
        cases = [*cases[start + 1 :], *cases[:start]]
    elif (draft := _first_draft(cases, outcomes)) is not None:
        return draft
    return next((case for case in cases if outcomes.get(case) != Outcome.SCORED), None)


def _first_draft(cases: Sequence[str], outcomes: dict[str, Outcome]) -> str | None:
    drafts = {case for case, outcome in outcomes.items() if outcome is Outcome.INTERRUPTED}
    return next((case for case in cases if case in drafts), None) if drafts else None


def _case_outcomes(ledger: Ledger, review: Review) -> dict[str, Outcome]:
    """Return the outcomes of a review by case. A case with several rubrics is a draft as long as one of them is."""
    outcomes: dict[str, Outcome] = {}
    for (case, _), outcome in ledger.outcomes(review.id).items():
        if outcomes.get(case) != Outcome.INTERRUPTED:
            outcomes[case] = Outcome(outcome)
    return outcomes


def order_cases(ledger: Ledger, run: str, seed: str, order: ReviewOrder) -> list[str]:
    """Return the ids of the cases of a run that have a verdict, in this order.

    Args:
        ledger: The ledger.
        run: The run.
        seed: Of the shuffle.
        order: The order. A quota with `each` has only so many cases of each value.

    Raises:
        UsageError: No case has the group of a quota.
    """
    shuffle = random.Random(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()).shuffle
    if order.kind is ReviewOrderKind.QUOTA:
        values = ledger.group_values(run, order.group)
        ids = list(values)
        shuffle(ids)
        return list(_round_robin(ids, values, order))
    ids = ledger.case_ids(run)
    shuffle(ids)
    if order.kind is ReviewOrderKind.RANDOM:
        return ids
    measure = measure_uncertainty if order.kind is ReviewOrderKind.UNCERTAIN else _count_contradictions
    return _highest_first(ledger, run, ids, measure)


def measure_uncertainty(verdict: Verdict) -> float:
    """Return how uncertain a verdict is by its own account, from 0 to 1.

    The largest of the jurors' spread and disagreement, the share of questions without an answer, and the width of the
    calibrated interval; 1 without a score.
    """
    if verdict.score is None:
        return 1.0
    measures = [0.0]
    if verdict.jury is not None:
        measures.append(float(verdict.jury.spread.get("score", 0)))
        measures += [
            float(verdict.jury.spread.get(key, 0)) / (result.scale[1] - result.scale[0])
            for key, result in verdict.criteria.items()
        ]
        if verdict.jury.agreement is not None:
            measures.append(1 - verdict.jury.agreement)
    if verdict.coverage is not None:
        measures.append(verdict.coverage.open / verdict.coverage.of)
    for rating in verdict.calibrated.values():
        if rating.low is not None and rating.high is not None and rating.scale[0] < rating.scale[1]:
            measures.append((rating.high - rating.low) / (rating.scale[1] - rating.scale[0]))
    return min(1.0, max(measures))


def _count_contradictions(verdict: Verdict) -> float:
    return float(sum(flag.flag == DISAGREE for flag in verdict.flags))


def _highest_first(ledger: Ledger, run: str, ids: Sequence[str], measure: Callable[[Verdict], float]) -> list[str]:
    """Return the ids with the highest measure first; those with the same measure stay in the order of the shuffle."""
    sample = ids[:SAMPLE_SIZE]
    measures: dict[str, float] = dict.fromkeys(sample, 0.0)
    for stored in ledger.stored_verdicts_on(run, sample):
        id_ = storable_text(stored.verdict.case)
        measures[id_] = max(measures.get(id_, 0.0), measure(stored.verdict))
    return [*sorted(sample, key=lambda id_: -measures[id_]), *ids[SAMPLE_SIZE:]]


def _round_robin(ids: Sequence[str], values: Mapping[str, str], order: ReviewOrder) -> Iterator[str]:
    """Yield one case of each value of the group in turn."""
    by_value: defaultdict[str, list[str]] = defaultdict(list)
    for id_ in ids:
        by_value[values[id_]].append(id_)
    if set(by_value) <= {""}:
        raise UsageError(f"No case of this run is in a group {order.group!r}.")
    longest = max(map(len, by_value.values()))
    for turn in range(min(longest, order.each) if order.each else longest):
        yield from (cases[turn] for cases in by_value.values() if turn < len(cases))
