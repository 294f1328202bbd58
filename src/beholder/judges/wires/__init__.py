"""Wires: how a brief becomes one HTTP request in a provider's form, and the reply an answer.

`openai`, `anthropic` and `google` are pure functions; only `transport` touches the network.

Plugins: an entry point of the group `beholder.judges` is named after the prefix that users write (`openai` in
`openai:gpt-5-mini`) and loads either

- a `Wire`: `ModelJudge` does the rest (keys, retries, timeouts, prices); our own three are such entries; or
- a callable `(model: str, settings: beholder.judges.model.Settings) -> Judge` for anything else.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import msgspec
import pybase64

from beholder.errors import SetupError
from beholder.images.model import Sizing
from beholder.judges.protocol import Finish, Turn, Usage
from beholder.rubrics.brief import Brief

SLICE_BYTES = 192 * 1024  # a multiple of 3, so that the base64 of the slices is that of the whole


@dataclass(frozen=True, slots=True)
class Question:
    """A brief as one model is asked it.

    `base_url` has no slash at its end. `structured` asks for the provider's own constrained output; without it the
    schema is told in words. `max_tokens` is room for the answer and goes before a limit in `params`.
    """

    brief: Brief
    model: str
    base_url: str
    key: str | None = field(repr=False)
    params: Mapping[str, object] = field(default_factory=dict)
    earlier: Sequence[Turn] = ()
    max_tokens: int | None = None
    structured: bool = True
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """JSON whose pictures become base64 only while it is sent, a slice at a time, as often as it is sent.

    A picture stands between each two of `texts`. Measured with 64 requests under way, two 360 KB pictures each: 1 MB
    and about 0.7 ms of CPU a request, against 61 MB and 0.8 ms for bodies joined beforehand.
    """

    texts: tuple[bytes, ...]
    pictures: tuple[bytes, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.texts)) + sum((len(data) + 2) // 3 * 4 for data in self.pictures)

    def pieces(self) -> Iterator[bytes]:
        """What to send, in order."""
        for text, data in zip_longest(self.texts, self.pictures, fillvalue=b""):
            yield text
            view = memoryview(data)
            for start in range(0, len(view), SLICE_BYTES):
                yield pybase64.b64encode(view[start : start + SLICE_BYTES])


@dataclass(frozen=True, slots=True)
class Request:
    """What to POST. Headers hold the key, so neither they nor the pictures show in a repr."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: Body = field(repr=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """A provider's reply, read. `cache_writes` are input tokens billed as written to a prompt cache."""

    text: str
    finish: Finish = Finish.COMPLETE
    model: str | None = None
    usage: Usage = field(default=Usage())
    detail: str = ""
    cache_writes: int = 0


class Malformed(Exception):
    """A body that is not the provider's form, such as a gateway's HTML with status 200. Never leaves `judges`."""


@dataclass(frozen=True, slots=True)
class Wire:
    """A provider's protocol. `names` are the common parameters that it names differently, `details` the picture
    details it knows; `keyless` says whether another base URL may go without a key, as local servers do;
    `base_url_variable` names the variable by which the provider's own SDK is sent to another base URL."""

    name: str
    key_variables: tuple[str, ...]
    base_url: str
    sizing: Sizing
    request: Callable[[Question], Request]
    read: Callable[[bytes], Reply]
    names: Mapping[str, str | None] = field(default_factory=dict)
    details: tuple[str, ...] = ()
    keyless: bool = False
    base_url_variable: str = ""


class Splicer:
    """Stands in for pictures while a body is dumped as JSON, then puts them in their places.

    Their base64 never becomes a Python string and is never escaped: that is where the SDKs' milliseconds go.
    """

    def __init__(self) -> None:
        self._mark = secrets.token_hex(16)
        self._pictures: list[bytes] = []

    def stand_in(self, data: bytes) -> str:
        self._pictures.append(data)
        return self._mark

    def dump(self, body: Mapping[str, object]) -> Body:
        try:
            text = msgspec.json.encode(body)
        except UnicodeEncodeError:
            # Half a surrogate pair, which no provider reads: it becomes a question mark.
            text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        return Body(tuple(text.split(self._mark.encode())), tuple(self._pictures))


def system_text(brief: Brief, structured: bool) -> str:
    """The system message; where the provider cannot hold an answer to the schema, with the schema in words."""
    if brief.schema is None or structured:
        return brief.system
    schema = json.dumps(brief.schema, ensure_ascii=False, default=dict)
    words = f"Answer with one JSON object of this JSON Schema, and nothing else:\n{schema}"
    return f"{brief.system}\n\n{words}" if brief.system.strip() else words


def conversation(earlier: Sequence[Turn]) -> list[tuple[str, str]]:
    """Earlier turns as (assistant, user) texts. Anthropic refuses a message without text, so an empty one is named."""
    return [(turn.answer if turn.answer.strip() else "(empty answer)", turn.reply) for turn in earlier]


def place(
    params: Mapping[str, object], names: Mapping[str, str | None], *, wire: str, reserved: frozenset[str]
) -> dict[str, object]:
    """The parameters as the provider nests them: common names translated by `names`, dotted names nested.

    A name that `names` maps to `None` does not exist at this provider; a reserved one is Beholder's own to set.
    """
    fields: dict[str, object] = {}
    for given, value in params.items():
        native = names.get(given, given)
        if native is None:
            raise SetupError(f"{wire} has no parameter '{given}'; leave it out.")
        *path, last = native.split(".")
        if (path or [last])[0] in reserved:
            raise SetupError(f"The parameter '{given}' is set by Beholder itself; leave it out.")
        node = fields
        for step in path:
            child = node.setdefault(step, {})
            if not isinstance(child, dict):
                raise SetupError(f"The parameter '{given}' lies inside '{step}', which another parameter set already.")
            node = child
        node[last] = value
    return fields
