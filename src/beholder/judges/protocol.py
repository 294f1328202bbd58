"""The one door to whoever answers a brief."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Protocol, runtime_checkable

from beholder.images.model import Sizing
from beholder.rubrics.brief import Brief


class Finish(StrEnum):
    """Why an answer ended."""

    COMPLETE = "complete"
    LENGTH = "length"
    REFUSED = "refused"
    FILTERED = "filtered"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counted them; `None` where it did not say. `input_tokens` includes cached ones."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


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


class Gate(Protocol):
    """What lets requests through to a judge's server: how many at once, how fast."""

    async def enter(self, tokens: int) -> None:
        """Waits until one more request may go out; `tokens` is what it is expected to use."""

    def leave(self, latency_s: float | None) -> None:
        """One request is over; `latency_s` is `None` where it was not answered."""


@runtime_checkable
class Judge(Protocol):
    """Answers briefs. Raises `SetupError` when it can never answer, `Unreachable` when it could not this time."""

    @property
    def name(self) -> str:
        """As the user named it: `openai:gpt-5-mini`."""

    @property
    def identity(self) -> str:
        """What an answer depends on besides the brief: name, base URL, parameters. Never a key."""

    @property
    def sizing(self) -> Sizing:
        """How it wants its pictures."""

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """One request. `earlier` turns follow the brief; `max_tokens` overrides the judge's own limit."""

    async def aclose(self) -> None:
        """Lets go of connections; a judge that is asked again afterwards makes new ones."""
