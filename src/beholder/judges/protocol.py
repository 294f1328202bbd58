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


@runtime_checkable
class Judge(Protocol):
    """Answers briefs. Raises `SetupError` when it can never answer, `Unreachable` when it could not this time."""

    @property
    def name(self) -> str:
        """As the user named it: `openai:gpt-5-mini`."""

    @property
    def sizing(self) -> Sizing:
        """How it wants its pictures."""

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """One request. `earlier` turns follow the brief; `max_tokens` overrides the judge's own limit."""

    async def aclose(self) -> None:
        """Lets go of connections; a judge that is asked again afterwards makes new ones."""
