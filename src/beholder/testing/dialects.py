"""What the three protocols have in common on the server's side."""

from __future__ import annotations

import base64
import binascii
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from aiohttp import web

from beholder.testing.replies import Answerable, Fault, Kind, Received


@dataclass(eq=False)
class Rejection(Exception):
    """A request that the provider would not take."""

    status: int
    message: str
    parameter: str | None = None


class Dialect(ABC):
    """A provider's protocol as its server speaks it: checks and reads requests, writes replies and errors."""

    name: str

    @abstractmethod
    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, object], keyless: bool) -> Received:
        """The request; raises `Rejection` where the provider would."""

    @abstractmethod
    def answer(self, text: str, heard: Received, kind: Kind | None = None) -> dict[str, object]:
        """The body of a reply with status 200; `kind` is how it went wrong, if it did."""

    @abstractmethod
    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, object]:
        """The body of a reply with an error status."""

    @abstractmethod
    def rejection(self, fault: Fault, heard: Received) -> Rejection:
        """How the provider words `no_structured_output`, `unknown_model` and `bad_key`."""

    def reply(self, said: Answerable, heard: Received) -> tuple[int, dict[str, object]]:
        """Status and body of what a test wants said, if it is said at all; may raise a `Rejection` of it."""
        if not isinstance(said, Fault):
            text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
            return 200, self.answer(text, heard)
        if said.kind is Kind.STATUS:
            return said.code, self.error(said.code, said.text)
        if said.kind in (Kind.NO_STRUCTURED_OUTPUT, Kind.UNKNOWN_MODEL, Kind.BAD_KEY):
            raise self.rejection(said, heard)
        return 200, self.answer(said.text, heard, said.kind)


def headers_of(request: web.Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()


def picture(data: object, media_type: str, complaint: str) -> bytes:
    """The picture's bytes; rejected when the base64 is broken or the media type is not what the bytes are."""
    try:
        decoded = base64.b64decode(str(data), validate=True)
    except binascii.Error:
        raise Rejection(400, complaint) from None
    if _media_type(decoded) != media_type:
        raise Rejection(400, complaint)
    return decoded


def schemas(schema: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """A schema and every schema inside it."""
    yield schema
    properties = schema.get("properties")
    inner = list(properties.values()) if isinstance(properties, Mapping) else []
    for part in [*inner, schema.get("items")]:
        if isinstance(part, Mapping):
            yield from schemas(part)


def strict_object(schema: Mapping[str, object]) -> str | None:
    """What is wrong with an object schema by OpenAI's and Anthropic's rules; `None` when nothing is."""
    if schema.get("type") != "object":
        return None
    if schema.get("additionalProperties") is not False:
        return "'additionalProperties' is required to be supplied and to be false."
    properties, required = schema.get("properties"), schema.get("required")
    names = set(properties) if isinstance(properties, Mapping) else set()
    if names != (set(required) if isinstance(required, list) else set()):
        return "'required' is required to be supplied and to be an array including every key in properties."
    return None


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def objects(value: object) -> list[Mapping[str, object]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _media_type(data: bytes) -> str | None:
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return "image/gif" if data.startswith((b"GIF87a", b"GIF89a")) else None
