"""A review: a person judges the cases of a run by the same rubric, without seeing what its judge said.

A review is a run of its own with the judge `person:NAME`, one for each rater and run. Its verdicts pass the same checks
and scoring as a judge's, so that everything that reads runs reads reviews. A draft, a rating that is not saved yet, is
a verdict with the outcome `interrupted` and the answers so far, so that nothing is lost by closing the page.
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
