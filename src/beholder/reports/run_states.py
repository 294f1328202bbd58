"""What people call the state of a run."""

from __future__ import annotations

from beholder.ledger.model import INTERRUPTED, REVIEW, RunRecord

OPEN = "open"


def state_of(record: RunRecord) -> str:
    """As it is kept; but a review that is under way was not interrupted, it is open."""
    return OPEN if record.state == INTERRUPTED and record.fingerprint.startswith(REVIEW) else record.state
