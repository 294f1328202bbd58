"""What is known of a request that is asked by batch, in the words that provider, ledger and judge share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    PENDING = "pending"  # in a job that is open, or may be
    ANSWERED = "answered"  # the provider's reply is there
    ERRORED = "errored"  # its error is
    EXPIRED = "expired"  # it was not run, and may be handed in again
    CANCELED = "canceled"  # neither, because the job was cancelled
    USED = "used"  # there is a verdict by it; the reply itself is gone


@dataclass(frozen=True, slots=True)
class Kept:
    """A request as the ledger has it. `tries` counts how often it was handed in; `body` is the provider's, as text."""

    stage: Stage
    tries: int = 1
    status: int = 0
    body: str = ""
