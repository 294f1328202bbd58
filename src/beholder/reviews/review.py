"""A review: a person judges the cases of a run by the same rubric, without seeing what its judge said.

A review is a run of its own with the judge `person:NAME`, one for each rater and run. Its verdicts pass the same checks
and scoring as a judge's, so that everything that reads runs reads reviews. A draft, a rating that is not saved yet, is
a verdict with the outcome `interrupted` and the answers so far, so that nothing is lost by closing the page.

The queue of a review gives cases blind labels, an order, and progress. A label such as `case-0a1b2c3d4e5f6071`
tells a rater nothing about the case, differs between raters, and is not stored.
It is a digest of review and case, followed by the position of the case in the run, masked by a digest of the two: the
position finds the case, and the digest confirms it.

Every order begins with the same shuffle, seeded by run and rater, so that a page that is reloaded shows the same case
and no two raters go through the cases alike. Orders that depend on verdicts look only at the first `SAMPLE_SIZE` cases
of the shuffle: far more than anybody rates, and quick however large the run is. The rest follows at random.
"""

from __future__ import annotations

import hashlib
import json
import platform
import random
import re
import secrets
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from beholder.errors import UsageError
from beholder.judges.audit import DISAGREE
from beholder.ledger.encoding import redact_values, storable_text
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import INTERRUPTED, REVIEW_PREFIX, RunRecord
from beholder.verdicts.verdict import ANSWERED_OUTCOMES, Outcome, Verdict


class ReviewOrderKind(StrEnum):
    """In which order cases are rated.

    `random` is what estimates need. `uncertain` begins where jurors differ, much was not answered or there is no score,
    `audit` where instruments contradict the judge. `quota` takes as many cases of each value of a group.
    """

    RANDOM = "random"
    UNCERTAIN = "uncertain"
    AUDIT = "audit"
    QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class ReviewOrder:
    """The order of a review. For a quota, `group` names the group, and `each` how many cases of each value are
    enough (0: all)."""

    kind: ReviewOrderKind = ReviewOrderKind.RANDOM
    group: str = ""
    each: int = 0

    @property
    def is_random(self) -> bool:
        return self.kind is ReviewOrderKind.RANDOM

    def __str__(self) -> str:
        return {
            ReviewOrderKind.RANDOM: "random",
            ReviewOrderKind.UNCERTAIN: "most uncertain first",
            ReviewOrderKind.AUDIT: "contradicted by instruments first",
            ReviewOrderKind.QUOTA: f"a quota by {self.group}",
        }[self.kind]


RANDOM_ORDER = ReviewOrder()


def parse_order(kind: str = "", group: str = "", each: int = 0) -> ReviewOrder:
    """Return the order that a form or a stored suite describes. Raises `UsageError` if there is none such."""
    if kind and kind not in tuple(ReviewOrderKind):
        raise UsageError(f"Cases come in one of the orders {', '.join(ReviewOrderKind)}, not {kind!r}.")
    chosen = ReviewOrderKind(kind) if kind else ReviewOrderKind.RANDOM
    if chosen is ReviewOrderKind.QUOTA and not group:
        raise UsageError("A quota is for a group of the cases; choose which.")
    if each < 0:
        raise UsageError(f"The number of cases per group value must be 0 (all) or more, not {each}.")
    return ReviewOrder(chosen, group, each) if chosen is ReviewOrderKind.QUOTA else ReviewOrder(chosen)


REVIEW_TAG = "review"
PERSON_PREFIX = "person:"
MAX_NAME_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Review:
    """Who rates which run, and how.

    Attributes:
        id: The id of the review's own run.
        run: The id of the run that is rated.
        rater: The person's name.
        order: The order of the cases.
        hide_judge: Whether the judge's verdicts stay hidden until all cases are rated.
    """

    id: str
    run: str
    rater: str
    order: ReviewOrder = RANDOM_ORDER
    hide_judge: bool = False

    @property
    def judge(self) -> str:
        return PERSON_PREFIX + self.rater


def parse_rater_name(text: str) -> str:
    """Return a rater's name with its white space normalized. Raises `UsageError` if it cannot be a name."""
    name = re.sub(r"\s+", " ", text).strip()
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise UsageError(f"A rater's name is one line of 1 to {MAX_NAME_LENGTH} characters that can be seen.")
    if redact_values({"rater": name}) != {"rater": name}:
        raise UsageError("That looks like a key, not like a name, and no key is kept; choose another.")
    return name


def find_or_start_review(
    ledger: Ledger, run: str, rater: str, order: ReviewOrder | None = None, *, hide: bool | None = None
) -> Review:
    """Return the review of a run by a person, and start it if there is none.

    Args:
        ledger: The ledger.
        run: The run to rate.
        rater: The person's name; upper and lower case are the same.
        order: The order of the cases; by default the one the review has, or a random one.
        hide: Whether to hide the judge until all is rated; by default as the review has it, or not.

    Raises:
        UsageError: The name cannot be one, or the run cannot be rated.
    """
    name, record = parse_rater_name(rater), ledger.run(run)
    if record.is_review:
        raise UsageError(f"The run {record.id} is a review itself; rate the run that it is about.")
    record.load_rubrics()
    now = datetime.now(UTC)
    digest = hashlib.sha256(json.dumps([record.id, name.casefold()]).encode()).hexdigest()
    new = RunRecord(
        id=f"{now:%y%m%d}-{secrets.token_hex(3)}",
        name=f"{record.name}, rated by {name}",
        fingerprint=f"{REVIEW_PREFIX}{digest}",
        state=INTERRUPTED,
        created=now,
        updated=now,
        total=record.total,
        suite={
            "review_of": record.id,
            "rater": name,
            "rubric": record.suite.get("rubric", ""),
            "judges": [{"judge": PERSON_PREFIX + name}],
            **_order_settings(order or RANDOM_ORDER, bool(hide)),
        },
        rubrics=record.rubrics,
        versions={"beholder": record.versions.get("beholder", ""), "python": platform.python_version()},
        tags=(REVIEW_TAG,),
    )
    found, _ = ledger.find_or_create(new, fresh=False)
    review = review_from_record(found)
    changed = replace(review, order=order or review.order, hide_judge=review.hide_judge if hide is None else hide)
    if changed != review:
        ledger.update_suite(review.id, **_order_settings(changed.order, changed.hide_judge))
    return changed


def review_from_record(record: RunRecord) -> Review:
    """Return the review of which this is the run."""
    suite = record.suite
    each = suite.get("each")
    order = parse_order(str(suite.get("order", "")), str(suite.get("group", "")), each if isinstance(each, int) else 0)
    return Review(
        record.id, str(suite.get("review_of", "")), str(suite.get("rater", "")), order, suite.get("hide") is True
    )


def load_review(ledger: Ledger, review: str) -> Review:
    """Return the review with this id. Raises `LedgerError` if there is no run, `UsageError` if it is no review."""
    record = ledger.run(review)
    if not record.is_review:
        raise UsageError(f"The run {record.id} is no review.")
    return review_from_record(record)


def list_reviews(ledger: Ledger, run: str) -> list[Review]:
    """Return the reviews of a run, in the order in which they were started."""
    reviews = [review_from_record(record) for record in reversed(ledger.runs()) if record.is_review]
    return [review for review in reviews if review.run == run]


def delete_review(ledger: Ledger, review: Review) -> None:
    """Delete a review without saved ratings. Raises `UsageError` if it has any."""
    if ledger.rated_cases([review.id]):
        raise UsageError(
            f"{review.rater} has saved ratings, which are not removed here; `beholder runs delete {review.id}` does."
        )
    ledger.delete(review.id)


def _order_settings(order: ReviewOrder, hide: bool) -> dict[str, object]:
    """Return the order as it is stored in the suite of a review."""
    return {"order": str(order.kind), "group": order.group, "each": order.each, "hide": hide}


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
    rated = sum(outcome in ANSWERED_OUTCOMES for outcome in outcomes.values())
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
    return next((case for case in cases if outcomes.get(case) not in ANSWERED_OUTCOMES), None)


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
