"""A review: a person judges the cases of a run by the same rubric, without knowing what its judge said.

A review is a run of its own, with the judge `person:NAME`: one for each rater and run. Its verdicts come from the same
checks and the same scoring as any judge's, so that whatever reads runs reads reviews. A rating that is begun but not
saved is a verdict too, with the outcome `interrupted` and the answers so far: nothing is lost by closing the page.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from beholder.cases import Case
from beholder.errors import UsageError
from beholder.ledger import Entry, Ledger, RunRecord
from beholder.ledger.model import FINISHED, INTERRUPTED, REVIEW
from beholder.ledger.redacting import redacted
from beholder.runs.review_orders import Order, ordered
from beholder.runs.review_sheet import Answers, Sheet, answers_of, kept, rubrics_of, sheet_for, verdict_of
from beholder.verdicts.judging import Head
from beholder.verdicts.model import Flag, Outcome, Verdict

TAG = "review"
PERSON = "person:"
LONGEST_NAME = 64

_DRAFT = "a rating that was begun and not saved"
_CHANGED = Flag("rating_changed", why="it was saved before; whoever changed it could have seen the judge's verdict")
_KEPT_ORDERS = 8
_KEPT_LABELS = 20_000


@dataclass(frozen=True, slots=True)
class Review:
    """Who rates which run. `id` is that of the review's own run."""

    id: str
    run: str
    rater: str

    @property
    def judge(self) -> str:
        return PERSON + self.rater


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a review is, in cases. `begun` is the case of a rating that was begun and not saved, if there is one."""

    rated: int
    of: int
    begun: str | None = None


def rater_name(text: str) -> str:
    """The name in one line. Raises `UsageError` for what cannot be one."""
    name = re.sub(r"\s+", " ", text).strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(f"A rater's name is one line of 1 to {LONGEST_NAME} characters that can be seen.")
    if redacted({"rater": name}) != {"rater": name}:
        raise UsageError("That looks like a key, not like a name, and no key is kept; choose another.")
    return name


def find_or_start(ledger: Ledger, run: str, rater: str) -> Review:
    """The review of a run by a person, whose name is the same in any case of letters. Raises `UsageError`."""
    name, record = rater_name(rater), ledger.run(run)
    if is_review(record):
        raise UsageError(f"The run {record.id} is a review itself; rate the run that it is about.")
    rubrics_of(record)
    now = datetime.now(UTC)
    mark = hashlib.sha256(json.dumps([record.id, name.casefold()]).encode()).hexdigest()
    wanted = RunRecord(
        id=f"{now:%y%m%d}-{secrets.token_hex(3)}",
        name=f"{record.name}, rated by {name}",
        fingerprint=f"{REVIEW}{mark}",
        state=INTERRUPTED,
        created=now,
        updated=now,
        total=record.total,
        suite={
            "review_of": record.id,
            "rater": name,
            "rubric": record.suite.get("rubric", ""),
            "judges": [{"judge": PERSON + name}],
        },
        rubrics=record.rubrics,
        versions={"beholder": record.versions.get("beholder", ""), "python": platform.python_version()},
        tags=(TAG,),
    )
    found, _ = ledger.find_or_start(wanted, fresh=False)
    return review_of(found)


def is_review(record: RunRecord) -> bool:
    return record.fingerprint.startswith(REVIEW)


def review_at(ledger: Ledger, review: str) -> Review:
    """The review with this id. Raises `LedgerError` for none, `UsageError` for a run that is no review."""
    record = ledger.run(review)
    if not is_review(record):
        raise UsageError(f"The run {record.id} is no review.")
    return review_of(record)


def reviews_of(ledger: Ledger, run: str) -> list[Review]:
    """The reviews of a run, in the order in which they were begun."""
    found = [review_of(record) for record in reversed(ledger.runs()) if is_review(record)]
    return [review for review in found if review.run == run]


def label_of(review: Review, case: str) -> str:
    """What a case is called to this rater: it tells nothing of the case, and another rater has another."""
    label = _label(review, case)
    _issued[review.id, label] = case
    while len(_issued) > _KEPT_LABELS:
        _issued.popitem(last=False)
    return label


def case_of(ledger: Ledger, review: Review, label: str) -> str:
    """The id of the case with this label. Raises `UsageError`."""
    if (known := _issued.get((review.id, label))) is not None:
        return known
    for case in ledger.case_ids(review.run):  # from before this process
        if _label(review, case) == label:
            label_of(review, case)
            return case
    raise UsageError(f"There is no case {label!r} in this review.")


def progress(ledger: Ledger, review: Review, order: Order | None = None) -> Progress:
    """How far a review is; in an order with an end, as far as that goes."""
    queue = _queue(ledger, review, order or Order())
    outcomes = {case: one for case, one in _outcomes(ledger, review).items() if case in queue.places}
    begun = [case for case, one in outcomes.items() if one is Outcome.INTERRUPTED]
    rated = sum(one is Outcome.SCORED for one in outcomes.values())
    return Progress(rated, len(queue.cases), min(begun, key=lambda case: queue.places[case], default=None))


def next_case(ledger: Ledger, review: Review, order: Order, *, after: str | None = None) -> str | None:
    """The case to rate next: one that was begun, else the first in order that is not rated; `after` this case and then
    from the beginning, for who passes one over. `None` when all are rated."""
    outcomes = _outcomes(ledger, review)
    queue = _queue(ledger, review, order)
    cases: Sequence[str] = queue.cases
    if after is not None and after in queue.places:
        start = queue.places[after] + 1
        cases = [*cases[start:], *cases[: start - 1]]
    else:
        begun = [case for case, outcome in outcomes.items() if outcome is Outcome.INTERRUPTED and case in queue.places]
        if begun:
            return min(begun, key=lambda case: queue.places[case])
    return next((case for case in cases if outcomes.get(case) != Outcome.SCORED), None)


@dataclass(frozen=True, slots=True)
class Rating:
    """A case in a review: the questions, the answers so far, and the person's verdicts once it is saved.

    `case`, `judged` (what the run's judge said) and `groups` are for after the rating, not for whoever has yet to rate.
    """

    sheet: Sheet
    answers: Mapping[str, str]
    verdicts: tuple[Verdict, ...]
    case: Case
    judged: tuple[Verdict, ...]
    position: int

    @property
    def saved(self) -> bool:
        return bool(self.verdicts)


def rating(ledger: Ledger, review: Review, case: str) -> Rating:
    """A case of the run as its rater finds it. Raises `LedgerError` for no such case."""
    record = ledger.run(review.run)
    found = ledger.case(review.run, case)
    judged = list(ledger.judged(review.run, case=case))
    if not judged:
        raise UsageError("This case has no verdict yet; rate it when the run has got there.")
    sheet = sheet_for(record, found, [one.verdict for one in judged], label_of(review, case))
    own = {one.verdict.rubric: one.verdict for one in ledger.judged(review.id, case=case, answers=True)}
    answers: dict[str, str] = {}
    for rubric in sheet.rubrics:
        if (verdict := own.get(rubric.name)) is not None:
            answers |= _draft(verdict) if not verdict.scored else answers_of(rubric, verdict)
    saved = tuple(one for one in own.values() if one.scored)
    return Rating(sheet, answers, saved, found, tuple(one.verdict for one in judged), judged[0].position)


def rate(ledger: Ledger, review: Review, case: str, answers: Answers) -> tuple[Verdict, ...]:
    """Saves a rating, the first or a changed one: a verdict for each rubric of the run. Raises `UsageError` with what
    is wrong in the answers; then nothing is written."""
    there = rating(ledger, review, case)
    said = kept(there.sheet, answers)
    if not said:
        raise UsageError("Nothing is answered yet. Answer something, or say N/A where it cannot be said.")
    verdicts = [verdict_of(rubric, there.case.id, review.judge, said) for rubric in there.sheet.rubrics]
    wrong = [verdict.detail for verdict in verdicts if not verdict.scored]
    if wrong:
        raise UsageError(f"The answers cannot be scored: {'; '.join(wrong)}.")
    if there.saved:
        verdicts = [replace(verdict, flags=(*verdict.flags, _CHANGED)) for verdict in verdicts]
    _write(ledger, review, there, verdicts)
    if progress(ledger, review).rated == ledger.run(review.run).total // len(there.sheet.rubrics):
        ledger.update(review.id, state=FINISHED)
    return tuple(verdicts)


def keep_draft(ledger: Ledger, review: Review, case: str, answers: Answers) -> bool:
    """Keeps answers that are not saved yet, as far as they go. A rating that was saved stays as it is: `False`."""
    with _writing:
        there = rating(ledger, review, case)
        if there.saved:
            return False
        heads = [Head(there.case.id, rubric, review.judge) for rubric in there.sheet.rubrics]
        text = json.dumps(kept(there.sheet, answers))
        drafts = [replace(head.verdict(Outcome.INTERRUPTED, _DRAFT), answer=text) for head in heads]
        _write(ledger, review, there, drafts)
    return True


# Ratings are saved one after the other: a draft that comes late must not take the place of what was saved.
_writing = threading.RLock()


def _write(ledger: Ledger, review: Review, there: Rating, verdicts: Sequence[Verdict]) -> None:
    # Bytes that were handed in are not kept; the ledger writes that down by their kind.
    images = {role: b"" if source == "bytes:" else source for role, source in there.case.images.items()}
    case = replace(there.case, images=images)
    judged = {one.rubric: one for one in there.judged}
    entries = [
        Entry(
            there.position,
            case,
            replace(one, images=judged[one.rubric].images, brief_digest=judged[one.rubric].brief_digest),
            spent_usd=Decimal(0),
        )
        for one in verdicts
    ]
    with _writing:
        ledger.write(review.id, entries)


def _draft(verdict: Verdict) -> dict[str, str]:
    try:
        found = json.loads(verdict.answer or "{}")
    except ValueError:
        return {}
    return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}


def review_of(record: RunRecord) -> Review:
    return Review(record.id, str(record.suite.get("review_of", "")), str(record.suite.get("rater", "")))


def _outcomes(ledger: Ledger, review: Review) -> dict[str, Outcome]:
    """By case, where there is anything. A case with several rubrics is rated once it is by all."""
    found: dict[str, Outcome] = {}
    for (case, _), outcome in ledger.outcomes_of(review.id).items():
        if found.get(case) != Outcome.INTERRUPTED:
            found[case] = Outcome(outcome)
    return found


# Labels that were given out, so that a page need not go through all cases to find its own again.
_issued: OrderedDict[tuple[str, str], str] = OrderedDict()


def _label(review: Review, case: str) -> str:
    told = f"{review.id}\0{case}".encode("utf-8", "surrogatepass")
    return f"case-{hashlib.blake2b(told, digest_size=6).hexdigest()}"


@dataclass(frozen=True, slots=True)
class _Queue:
    cases: tuple[str, ...]
    places: Mapping[str, int]


_queues: OrderedDict[tuple[object, ...], _Queue] = OrderedDict()


def _queue(ledger: Ledger, review: Review, order: Order) -> _Queue:
    """The cases of a review in order; kept for as long as the run does not change."""
    record = ledger.run(review.run)
    key = (ledger.path, review.id, record.updated, order)
    found = _queues.get(key)
    if found is None:
        seed = json.dumps([record.id, review.rater.casefold()])
        cases = tuple(ordered(ledger, record.id, seed, order))
        found = _queues[key] = _Queue(cases, {case: at for at, case in enumerate(cases)})
        while len(_queues) > _KEPT_ORDERS:
            _queues.popitem(last=False)
    return found
