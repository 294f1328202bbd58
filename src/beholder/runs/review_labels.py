"""What a case is called to a rater: it tells nothing of the case, another rater has another, and nothing is kept of it.

A label is a digest of review and case, and where the case stands in the run under a mask that follows from the two.
Who holds the label finds the case by its place; the digest says whether it is the one.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from beholder.errors import UsageError
from beholder.ledger import Ledger, reviews
from beholder.ledger.packing import plain_text

if TYPE_CHECKING:
    from beholder.runs.reviewing import Review

_BYTES = 4  # each of the digest and the place
_LABEL = re.compile(rf"case-([0-9a-f]{{{2 * _BYTES}}})([0-9a-f]{{{2 * _BYTES}}})")


def label_of(ledger: Ledger, review: Review, case: str) -> str:
    """The label of a case. Raises `UsageError` where the run has no such case."""
    with ledger.reading() as connection:
        place = reviews.position_of(connection, ledger.number(connection, review.run), case)
    if place is None:
        raise UsageError(f"There is no case {case!r} in this review.")
    digest = _digest(review.id, case)
    return f"case-{digest}{place ^ _mask(review.id, digest):0{2 * _BYTES}x}"


def case_of(ledger: Ledger, review: Review, label: str) -> str:
    """The id of the case with this label. Raises `UsageError`."""
    if (found := _LABEL.fullmatch(label)) is not None:
        digest, place = found[1], int(found[2], 16) ^ _mask(review.id, found[1])
        with ledger.reading() as connection:
            there = reviews.cases_at(connection, ledger.number(connection, review.run), place)
        for case in there:
            if _digest(review.id, case) == digest:
                return case
    raise UsageError(f"There is no case {label!r} in this review.")


def _digest(review: str, case: str) -> str:
    return _hashed(review, plain_text(case)).hex()


def _mask(review: str, digest: str) -> int:
    return int.from_bytes(_hashed(digest, review), "big")


def _hashed(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=_BYTES).digest()
