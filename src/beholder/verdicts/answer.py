"""A judge's answer as it came back, and the state of a request in a provider's batch.

Providers, judges and the ledger share these values.
"""

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
    """A judge's answer, unparsed.

    Attributes:
        text: The text of the answer.
        finish: Why it ended.
        model: The exact model that answered, where the provider names it.
        cost_usd: The cost of all requests; `None` where the price is not known.
        latency_s: The time that the request took which was answered; failed tries and waiting are not in it.
        attempts: The number of requests that were made.
        detail: The explanation of a refusal or a content filter.
        flags: Flags for the verdict.
        ignores_schema: Whether the server took the schema of the answer and ignored it, as it does with every answer.
            Asked again, it gets the schema in words.
    """

    text: str
    finish: Finish = Finish.COMPLETE
    model: str | None = None
    usage: Usage = field(default=Usage())
    cost_usd: Decimal | None = None
    latency_s: float = 0.0
    attempts: int = 1
    detail: str = ""
    flags: tuple[str, ...] = ()
    ignores_schema: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier exchange of the same conversation: the judge's answer and our reply to it."""

    answer: str
    reply: str


@dataclass(frozen=True, slots=True)
class TranscriptTurn:
    """One turn of a conversation with a judge.

    Attributes:
        question: What the judge was told about its last answer; empty where it was asked by the brief alone: in the
            first turn, and after an answer that was empty or cut off.
        answer: Its answer, as it came.
        finish: Why the answer ended, see `Finish`; empty if no answer came.
    """

    question: str
    answer: str
    finish: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """All turns of the conversation with one judge about one case.

    Attributes:
        judge: The name of the judge; empty where it is not known which of the jurors it was.
        sample: The number of the sample, from 0.
        turns: At least one.
        part: Which of several briefs about the case it is about, such as the order of two candidates; mostly empty.
    """

    judge: str
    sample: int
    turns: tuple[TranscriptTurn, ...]
    part: str = ""


class BatchStage(StrEnum):
    """The state of a request in a provider's batch."""

    PENDING = "pending"  # submitted, or about to be
    ANSWERED = "answered"  # the provider's reply has arrived
    ERRORED = "errored"  # the provider's error has arrived
    EXPIRED = "expired"  # it was not run, and may be submitted again
    CANCELED = "canceled"  # the job was canceled before it was run
    USED = "used"  # a verdict was made from the reply, which is deleted


@dataclass(frozen=True, slots=True)
class BatchReply:
    """A request of a batch as the ledger stores it.

    Attributes:
        stage: Its state.
        tries: How often it was submitted.
        status: The HTTP status of the provider's reply.
        body: The body of the provider's reply, as text.
    """

    stage: BatchStage
    tries: int = 1
    status: int = 0
    body: str = ""
