"""What the loopback server says, and what it heard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias


class Kind(Enum):
    """What goes wrong."""

    STATUS = auto()
    HTML = auto()
    DROP = auto()
    CUT = auto()
    HANG = auto()
    EMPTY = auto()
    TRUNCATED = auto()
    REFUSAL = auto()
    FILTERED = auto()
    NO_STRUCTURED_OUTPUT = auto()
    REDIRECT = auto()
    UNKNOWN_MODEL = auto()
    BAD_KEY = auto()


@dataclass(frozen=True, slots=True)
class Fault:
    """A reply that goes wrong, worded as each provider words it. Made by the functions below."""

    kind: Kind
    code: int = 0
    text: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def status(
        code: int,
        message: str = "",
        *,
        retry_after: float | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Fault:
        """An error status with the provider's body for it. `retry_after` is seconds or an HTTP date."""
        extra = dict(headers or {}) | ({} if retry_after is None else {"Retry-After": str(retry_after)})
        return Fault(Kind.STATUS, code, message, extra)

    @staticmethod
    def html() -> Fault:
        """A gateway's page with status 200."""
        return Fault(Kind.HTML)

    @staticmethod
    def drop() -> Fault:
        """The connection closes before a byte is answered."""
        return Fault(Kind.DROP)

    @staticmethod
    def cut() -> Fault:
        """The connection closes in the middle of the body."""
        return Fault(Kind.CUT)

    @staticmethod
    def hang() -> Fault:
        """Headers, and then nothing until the server closes."""
        return Fault(Kind.HANG)

    @staticmethod
    def empty() -> Fault:
        """A proper reply without any text."""
        return Fault(Kind.EMPTY)

    @staticmethod
    def truncated(text: str) -> Fault:
        """An answer that ended at the token limit."""
        return Fault(Kind.TRUNCATED, text=text)

    @staticmethod
    def refusal(text: str) -> Fault:
        """The model declines. Google has no refusals of its own; there it is an answer in prose."""
        return Fault(Kind.REFUSAL, text=text)

    @staticmethod
    def filtered() -> Fault:
        """A content filter stopped the answer. Anthropic's only filter is its refusal."""
        return Fault(Kind.FILTERED)

    @staticmethod
    def no_structured_output() -> Fault:
        """400, as servers and models say it that cannot hold an answer to a schema."""
        return Fault(Kind.NO_STRUCTURED_OUTPUT, 400)

    @staticmethod
    def redirect(url: str) -> Fault:
        return Fault(Kind.REDIRECT, 307, headers={"Location": url})

    @staticmethod
    def unknown_model() -> Fault:
        """404 for the model that was asked for."""
        return Fault(Kind.UNKNOWN_MODEL, 404)

    @staticmethod
    def bad_key() -> Fault:
        """The key is refused; OpenAI echoes part of it."""
        return Fault(Kind.BAD_KEY, 401)


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the server understood it. `texts` and `images` are those of the conversation, in order; header
    names are in lower case; `schema` is the answer's in the provider's dialect."""

    protocol: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, object] = field(repr=False)
    system: str
    texts: tuple[str, ...]
    images: tuple[bytes, ...] = field(repr=False)
    schema: Mapping[str, object] | None
    model: str


Answerable: TypeAlias = "str | Mapping[str, object] | Fault"
Reply: TypeAlias = "Answerable | Callable[[Received], Answerable]"
