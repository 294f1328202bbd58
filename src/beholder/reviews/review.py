"""Which case a person is shown next.

Every order begins from the same shuffle, seeded by run and rater, so that closing the page changes nothing and no two
people go through the cases alike. What needs a look at verdicts looks at `SAMPLE_SIZE` cases, the first of the shuffle:
far more than anybody rates, and quick however large the run is. The rest follows at random.

A review: a person judges the cases of a run by the same rubric, without knowing what its judge said.

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
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from beholder.errors import UsageError
from beholder.ledger.encoding import redact_values
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import INTERRUPTED, REVIEW_PREFIX, RunRecord


class ReviewOrderKind(StrEnum):
    """`random`: what estimates need. `uncertain`: where jurors differ, much was left open or there is no score.
    `audit`: what the pixels contradict. `quota`: as many cases of each value of a group."""

    RANDOM = "random"
    UNCERTAIN = "uncertain"
    AUDIT = "audit"
    QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class ReviewOrder:
    """`group` is for a quota; `each`, where it is above 0, how many cases of each value are enough."""

    kind: ReviewOrderKind = ReviewOrderKind.RANDOM
    group: str = ""
    each: int = 0


RANDOM_ORDER = ReviewOrder()


def parse_order(kind: str = "", group: str = "", each: int = 0) -> ReviewOrder:
    """The order that a form or an address asks for. Raises `UsageError`."""
    if kind and kind not in tuple(ReviewOrderKind):
        raise UsageError(f"Cases come in one of the orders {', '.join(ReviewOrderKind)}, not {kind!r}.")
    chosen = ReviewOrderKind(kind) if kind else ReviewOrderKind.RANDOM
    if chosen is ReviewOrderKind.QUOTA and not group:
        raise UsageError("A quota is for a group of the cases; choose which.")
    if each < 0:
        raise UsageError(f"So many cases of each value are rated as you say: 0 (all) or more, not {each}.")
    return ReviewOrder(chosen, group, each) if chosen is ReviewOrderKind.QUOTA else ReviewOrder(chosen)


REVIEW_TAG = "review"
PERSON_PREFIX = "person:"
MAX_NAME_LENGTH = 64


@dataclass(frozen=True, slots=True)
class Review:
    """Who rates which run, in which order, and whether the judge stays hidden until all is rated. `id` is that of the
    review's own run."""

    id: str
    run: str
    rater: str
    order: ReviewOrder = RANDOM_ORDER
    hide: bool = False

    @property
    def judge(self) -> str:
        return PERSON_PREFIX + self.rater


def parse_rater_name(text: str) -> str:
    """The name in one line. Raises `UsageError` for what cannot be one."""
    name = re.sub(r"\s+", " ", text).strip()
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise UsageError(f"A rater's name is one line of 1 to {MAX_NAME_LENGTH} characters that can be seen.")
    if redact_values({"rater": name}) != {"rater": name}:
        raise UsageError("That looks like a key, not like a name, and no key is kept; choose another.")
    return name


def find_or_start_review(
    ledger: Ledger, run: str, rater: str, order: ReviewOrder | None = None, *, hide: bool | None = None
) -> Review:
    """The review of a run by a person, whose name is the same in any case of letters.

    `order` and `hide` change those of a review that is there; without them it goes on as it was begun, which is at
    random and with the judge shown unless something else was said. Raises `UsageError`.
    """
    name, record = parse_rater_name(rater), ledger.run(run)
    if record.is_review:
        raise UsageError(f"The run {record.id} is a review itself; rate the run that it is about.")
    record.load_rubrics()
    now = datetime.now(UTC)
    mark = hashlib.sha256(json.dumps([record.id, name.casefold()]).encode()).hexdigest()
    wanted = RunRecord(
        id=f"{now:%y%m%d}-{secrets.token_hex(3)}",
        name=f"{record.name}, rated by {name}",
        fingerprint=f"{REVIEW_PREFIX}{mark}",
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
    found, _ = ledger.find_or_start(wanted, fresh=False)
    review = review_from_record(found)
    changed = replace(review, order=order or review.order, hide=review.hide if hide is None else hide)
    if changed != review:
        ledger.update_suite(review.id, **_order_settings(changed.order, changed.hide))
    return changed


def review_from_record(record: RunRecord) -> Review:
    """The review that a run is."""
    suite = record.suite
    each = suite.get("each")
    order = parse_order(str(suite.get("order", "")), str(suite.get("group", "")), each if isinstance(each, int) else 0)
    return Review(
        record.id, str(suite.get("review_of", "")), str(suite.get("rater", "")), order, suite.get("hide") is True
    )


def load_review(ledger: Ledger, review: str) -> Review:
    """The review with this id. Raises `LedgerError` for none, `UsageError` for a run that is no review."""
    record = ledger.run(review)
    if not record.is_review:
        raise UsageError(f"The run {record.id} is no review.")
    return review_from_record(record)


def list_reviews(ledger: Ledger, run: str) -> list[Review]:
    """The reviews of a run, in the order in which they were begun."""
    found = [review_from_record(record) for record in reversed(ledger.runs()) if record.is_review]
    return [review for review in found if review.run == run]


def delete_review(ledger: Ledger, review: Review) -> None:
    """Forgets a review that was begun and of which nothing was saved. Raises `UsageError` for any other."""
    if ledger.rated_cases([review.id]):
        raise UsageError(
            f"{review.rater} has saved ratings, which are not removed here; `beholder runs delete {review.id}` does."
        )
    ledger.delete(review.id)


def _order_settings(order: ReviewOrder, hide: bool) -> dict[str, object]:
    """How a review goes, as its suite keeps it."""
    return {"order": str(order.kind), "group": order.group, "each": order.each, "hide": hide}
