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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from beholder.cases import Case
from beholder.errors import UsageError
from beholder.ledger import Entry, Ledger, RunRecord
from beholder.ledger import reviews as stored
from beholder.ledger.model import INTERRUPTED, REVIEW
from beholder.ledger.redacting import redacted
from beholder.runs.review_labels import label_of
from beholder.runs.review_orders import AT_RANDOM, Order, order_from
from beholder.runs.review_sheet import Answers, Sheet, answers_of, kept, questions, rubrics_of, sheet_for, verdict_of
from beholder.verdicts.judging import Head
from beholder.verdicts.model import Flag, Outcome, Verdict

TAG = "review"
PERSON = "person:"
LONGEST_NAME = 64

_DRAFT = "a rating that was begun and not saved"
_CHANGED = Flag("rating_changed", why="it was saved before; whoever changed it could have seen the judge's verdict")
_TURN = "turn"  # beside the answers of a draft; no question is called so


@dataclass(frozen=True, slots=True)
class Review:
    """Who rates which run, in which order, and whether the judge stays hidden until all is rated. `id` is that of the
    review's own run."""

    id: str
    run: str
    rater: str
    order: Order = AT_RANDOM
    hide: bool = False

    @property
    def judge(self) -> str:
        return PERSON + self.rater


def rater_name(text: str) -> str:
    """The name in one line. Raises `UsageError` for what cannot be one."""
    name = re.sub(r"\s+", " ", text).strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(f"A rater's name is one line of 1 to {LONGEST_NAME} characters that can be seen.")
    if redacted({"rater": name}) != {"rater": name}:
        raise UsageError("That looks like a key, not like a name, and no key is kept; choose another.")
    return name


def find_or_start(
    ledger: Ledger, run: str, rater: str, order: Order | None = None, *, hide: bool | None = None
) -> Review:
    """The review of a run by a person, whose name is the same in any case of letters.

    `order` and `hide` change those of a review that is there; without them it goes on as it was begun, which is at
    random and with the judge shown unless something else was said. Raises `UsageError`.
    """
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
            **_way(order or AT_RANDOM, bool(hide)),
        },
        rubrics=record.rubrics,
        versions={"beholder": record.versions.get("beholder", ""), "python": platform.python_version()},
        tags=(TAG,),
    )
    found, _ = ledger.find_or_start(wanted, fresh=False)
    review = review_of(found)
    changed = replace(review, order=order or review.order, hide=review.hide if hide is None else hide)
    if changed != review:
        with ledger.writing() as connection:
            number = ledger.number(connection, review.id)
            stored.change_suite(connection, number, **_way(changed.order, changed.hide))
    return changed


def is_review(record: RunRecord) -> bool:
    return record.fingerprint.startswith(REVIEW)


def review_of(record: RunRecord) -> Review:
    """The review that a run is."""
    suite = record.suite
    each = suite.get("each")
    order = order_from(str(suite.get("order", "")), str(suite.get("group", "")), each if isinstance(each, int) else 0)
    return Review(
        record.id, str(suite.get("review_of", "")), str(suite.get("rater", "")), order, suite.get("hide") is True
    )


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


@dataclass(frozen=True, slots=True)
class Rating:
    """A case in a review: the questions, the answers so far, and the person's verdicts once it is saved.

    `case` and `judged` (what the run's judge said) are for after the rating, not for whoever has yet to rate.
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
    label = label_of(ledger, review, case)
    sheet = sheet_for(record, found, [one.verdict for one in judged], label)
    own = {one.verdict.rubric: one.verdict for one in ledger.judged(review.id, case=case, answers=True)}
    answers: dict[str, str] = {}
    for rubric in sheet.rubrics:
        if (verdict := own.get(rubric.name)) is not None:
            answers |= answers_of(rubric, verdict) if verdict.scored else kept(sheet, _draft(verdict))
    saved = tuple(one for one in own.values() if one.scored)
    return Rating(sheet, answers, saved, found, tuple(one.verdict for one in judged), judged[0].position)


def rate(ledger: Ledger, review: Review, case: str, answers: Answers) -> tuple[Verdict, ...]:
    """Saves a rating, the first or a changed one: a verdict for each rubric of the run. Raises `UsageError` with what
    is wrong in the answers; then nothing is written."""
    there = rating(ledger, review, case)
    said = kept(there.sheet, answers)
    if not said:
        raise UsageError("Nothing is answered yet. Answer something, or say N/A where it cannot be said.")
    verdicts = _verdicts(there, review, said)
    all_cases = ledger.run(review.run).total // len(verdicts)
    with ledger.writing() as connection:
        number = ledger.number(connection, review.id)
        if any(one.scored for one in stored.own(connection, number, case)):
            verdicts = [replace(verdict, flags=(*verdict.flags, _CHANGED)) for verdict in verdicts]
            stored.write(connection, number, _entries(there, verdicts))
        else:
            finished = stored.rated_in(connection, number) + 1 >= all_cases
            stored.write(connection, number, _entries(there, verdicts), finished=finished)
    return tuple(verdicts)


def keep_draft(ledger: Ledger, review: Review, case: str, answers: Answers, turn: str = "") -> bool:
    """Keeps answers that are not saved yet, as far as they go. A rating that was saved stays as it is: `False`. Raises
    `UsageError` for what is no question of the case, or no answer to one; then nothing is written.

    `turn` is a name for the page that sends them, a full stop, and a number that it counts up: what comes after
    something newer of the same page is passed over.
    """
    there = rating(ledger, review, case)
    said = kept(there.sheet, answers)
    if strangers := sorted(answers.keys() - questions(there.sheet)):
        raise UsageError(f"Nothing of this case is called {strangers[0][:60]!r}.")
    _verdicts(there, review, said)
    heads = [Head(there.case.id, rubric, review.judge) for rubric in there.sheet.rubrics]
    text = json.dumps({**said, _TURN: turn})
    drafts = [replace(head.verdict(Outcome.INTERRUPTED, _DRAFT), answer=text) for head in heads]
    with ledger.writing() as connection:
        number = ledger.number(connection, review.id)
        own = stored.own(connection, number, case)
        if any(one.scored for one in own):
            return False
        if not any(_newer(_draft(one).get(_TURN, ""), turn) for one in own):
            stored.write(connection, number, _entries(there, drafts))
    return True


def remove(ledger: Ledger, review: Review) -> None:
    """Forgets a review that was begun and of which nothing was saved. Raises `UsageError` for any other."""
    with ledger.reading() as connection:
        saved = stored.rated_in(connection, ledger.number(connection, review.id))
    if saved:
        raise UsageError(
            f"{review.rater} has saved ratings, which are not removed here; `beholder runs delete {review.id}` does."
        )
    ledger.delete(review.id)


def _verdicts(there: Rating, review: Review, said: Answers) -> list[Verdict]:
    """What the answers come to, by rubric. Raises `UsageError` with what is wrong in them."""
    verdicts = [verdict_of(rubric, there.case.id, review.judge, said) for rubric in there.sheet.rubrics]
    wrong = [verdict.detail for verdict in verdicts if not verdict.scored]
    if wrong:
        raise UsageError(f"The answers cannot be scored: {'; '.join(wrong)}.")
    return verdicts


def _entries(there: Rating, verdicts: Sequence[Verdict]) -> list[Entry]:
    # Bytes that were handed in are not kept; the ledger writes that down by their kind.
    images = {role: b"" if source == "bytes:" else source for role, source in there.case.images.items()}
    case = replace(there.case, images=images)
    judged = {one.rubric: one for one in there.judged}
    return [
        Entry(
            there.position,
            case,
            replace(one, images=judged[one.rubric].images, brief_digest=judged[one.rubric].brief_digest),
            spent_usd=Decimal(0),
        )
        for one in verdicts
    ]


def _draft(verdict: Verdict) -> dict[str, str]:
    try:
        found = json.loads(verdict.answer or "{}")
    except ValueError:
        return {}
    return {str(name): str(text) for name, text in found.items()} if isinstance(found, dict) else {}


def _newer(there: str, turn: str) -> bool:
    """Whether the turn that is there is a later one of the same page."""
    (page, _, last), (own, _, now) = there.rpartition("."), turn.rpartition(".")
    return bool(page) and page == own and last.isdecimal() and now.isdecimal() and int(last) > int(now)


def _way(order: Order, hide: bool) -> dict[str, object]:
    """How a review goes, as its suite keeps it."""
    return {"order": str(order.kind), "group": order.group, "each": order.each, "hide": hide}
