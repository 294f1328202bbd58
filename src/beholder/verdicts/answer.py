"""What is known of a request that is asked by batch, in the words that provider, ledger and judge share."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum


class Finish(StrEnum):
    """Why an answer ended."""

    COMPLETE = "complete"
    LENGTH = "length"
    REFUSED = "refused"
    FILTERED = "filtered"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; `None` where it did not say.

    `input_tokens` includes those that were read from the prompt cache (`cached_tokens`) and those that were written to
    it (`cache_write_tokens`). The latter only serve to compute the cost: they are not stored.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, kept raw. `detail` explains a refusal or a filter; `attempts` counts requests made."""

    text: str
    finish: Finish = Finish.COMPLETE
    model: str | None = None
    usage: Usage = field(default=Usage())
    cost_usd: Decimal | None = None
    latency_s: float = 0.0
    attempts: int = 1
    detail: str = ""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier exchange of the same conversation: what the judge said and what we replied."""

    answer: str
    reply: str


class BatchStage(StrEnum):
    PENDING = "pending"  # in a job that is open, or may be
    ANSWERED = "answered"  # the provider's reply is there
    ERRORED = "errored"  # its error is
    EXPIRED = "expired"  # it was not run, and may be handed in again
    CANCELED = "canceled"  # neither, because the job was cancelled
    USED = "used"  # there is a verdict by it; the reply itself is gone


@dataclass(frozen=True, slots=True)
class BatchReply:
    """A request as the ledger has it. `tries` counts how often it was handed in; `body` is the provider's, as text."""

    stage: BatchStage
    tries: int = 1
    status: int = 0
    body: str = ""
