"""What the loopback server replies and receives, and what the providers have in common on the server's side.

`ProviderDialect` is a provider's live API, `BatchDialect` its batch API: paths, names, and how a result is written.
"""

from __future__ import annotations

import base64
import binascii
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum, auto
from typing import Any, TypeAlias

from aiohttp import web


class FaultKind(Enum):
    """Kinds of faults."""

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
    """A faulty reply, in each provider's own form. Made by the functions below."""

    kind: FaultKind
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
        """Return an error status with the provider's body for it.

        Args:
            code: HTTP status.
            message: In the body; by default a typical one.
            retry_after: For the header, seconds or an HTTP date.
            headers: Further headers.
        """
        extra = dict(headers or {}) | ({} if retry_after is None else {"Retry-After": str(retry_after)})
        return Fault(FaultKind.STATUS, code, message, extra)

    @staticmethod
    def html() -> Fault:
        """Return a gateway's HTML page with status 200."""
        return Fault(FaultKind.HTML)

    @staticmethod
    def drop() -> Fault:
        """Close the connection before the first byte of a reply."""
        return Fault(FaultKind.DROP)

    @staticmethod
    def cut() -> Fault:
        """Close the connection in the middle of the body."""
        return Fault(FaultKind.CUT)

    @staticmethod
    def hang() -> Fault:
        """Send headers, and then nothing until the server closes."""
        return Fault(FaultKind.HANG)

    @staticmethod
    def empty() -> Fault:
        """Return a proper reply without any text."""
        return Fault(FaultKind.EMPTY)

    @staticmethod
    def truncated(text: str) -> Fault:
        """Return an answer that ended at the token limit."""
        return Fault(FaultKind.TRUNCATED, text=text)

    @staticmethod
    def refusal(text: str) -> Fault:
        """Return a refusal by the model; Google has none of its own, there it is an answer in prose."""
        return Fault(FaultKind.REFUSAL, text=text)

    @staticmethod
    def filtered() -> Fault:
        """Return an answer that a content filter stopped; Anthropic's only filter is its refusal."""
        return Fault(FaultKind.FILTERED)

    @staticmethod
    def no_structured_output() -> Fault:
        """Return 400, as servers and models without structured output do."""
        return Fault(FaultKind.NO_STRUCTURED_OUTPUT, 400)

    @staticmethod
    def redirect(url: str) -> Fault:
        return Fault(FaultKind.REDIRECT, 307, headers={"Location": url})

    @staticmethod
    def unknown_model() -> Fault:
        """Return 404 for the model that was asked for."""
        return Fault(FaultKind.UNKNOWN_MODEL, 404)

    @staticmethod
    def bad_key() -> Fault:
        """Reject the key; OpenAI echoes part of it."""
        return Fault(FaultKind.BAD_KEY, 401)


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the server understood it.

    Attributes:
        protocol: `openai`, `anthropic` or `google`.
        path: Of the request.
        headers: With names in lower case.
        body: Decoded JSON.
        system: The system message.
        texts: Of the conversation, in order.
        images: Of the conversation, in order, decoded.
        schema: Of the answer, in the provider's dialect; `None` without structured output.
        model: That was asked for.
    """

    protocol: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: Mapping[str, Any] = field(repr=False)
    system: str
    texts: tuple[str, ...]
    images: tuple[bytes, ...] = field(repr=False)
    schema: Mapping[str, Any] | None
    model: str


ReplyContent: TypeAlias = "str | Mapping[str, object] | Fault"
Reply: TypeAlias = "ReplyContent | Callable[[Received], ReplyContent]"


@dataclass(eq=False)
class Rejection(Exception):
    """The provider would reject the request."""

    status: int
    message: str
    parameter: str | None = None


class ProviderDialect(ABC):
    """A provider's live API from the server's side: checks and parses requests, writes replies and errors."""

    name: str

    @abstractmethod
    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, object], keyless: bool) -> Received:
        """Parse a request; raise `Rejection` where the provider would reject it."""

    @abstractmethod
    def answer(self, text: str, received: Received, kind: FaultKind | None = None) -> dict[str, object]:
        """Return the body of a reply with status 200; `kind` is the fault it has, if any."""

    @abstractmethod
    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, object]:
        """Return the body of a reply with an error status."""

    @abstractmethod
    def rejection(self, fault: Fault, received: Received) -> Rejection:
        """Return how the provider rejects `no_structured_output`, `unknown_model` and `bad_key`."""

    @abstractmethod
    def events(self, reply: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
        """Iterate over a reply as the provider streams it: the event's name, empty for none, and its data."""

    @abstractmethod
    def list_models(self, names: Sequence[str]) -> dict[str, object]:
        """Return the body of a list of models."""

    def wants_stream(self, received: Received) -> bool:
        return received.body.get("stream") is True

    def reply(self, content: ReplyContent, received: Received) -> tuple[int, dict[str, object]]:
        """Return status and body of the reply that a test wants; raise `Rejection` where it wants one."""
        if not isinstance(content, Fault):
            text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
            return 200, self.answer(text, received)
        if content.kind is FaultKind.STATUS:
            return content.code, self.error(content.code, content.text)
        if content.kind in (FaultKind.NO_STRUCTURED_OUTPUT, FaultKind.UNKNOWN_MODEL, FaultKind.BAD_KEY):
            raise self.rejection(content, received)
        return 200, self.answer(content.text, received, content.kind)


def lowercase_headers(request: web.Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def drop_connection(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()


def decode_image(data: object, media_type: str, complaint: str) -> bytes:
    """Decode an image; reject broken base64, and a media type that is not that of the bytes."""
    try:
        decoded = base64.b64decode(str(data), validate=True)
    except binascii.Error:
        raise Rejection(400, complaint) from None
    if _sniff_media_type(decoded) != media_type:
        raise Rejection(400, complaint)
    return decoded


def iter_schemas(schema: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Iterate over a schema and every schema inside it."""
    yield schema
    properties = schema.get("properties")
    inner = list(properties.values()) if isinstance(properties, Mapping) else []
    for part in [*inner, schema.get("items")]:
        if isinstance(part, Mapping):
            yield from iter_schemas(part)


def check_strict_object(schema: Mapping[str, object]) -> str | None:
    """Return what is wrong with an object schema by OpenAI's and Anthropic's rules; `None` where nothing is."""
    if schema.get("type") != "object":
        return None
    if schema.get("additionalProperties") is not False:
        return "'additionalProperties' is required to be supplied and to be false."
    properties, required = schema.get("properties"), schema.get("required")
    names = set(properties) if isinstance(properties, Mapping) else set()
    if names != (set(required) if isinstance(required, list) else set()):
        return "'required' is required to be supplied and to be an array including every key in properties."
    return None


def split_text(text: str, size: int = 20) -> Iterator[str]:
    """Iterate over the pieces in which a text is streamed."""
    yield from (text[start : start + size] for start in range(0, len(text), size))


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


# `as_objects` and `as_mapping` are also in `providers.payload`, on purpose: a double must not share code with what it
# tests, or both would have the same mistake.
def as_objects(value: object) -> list[Mapping[str, object]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def as_mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _sniff_media_type(data: bytes) -> str | None:
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return "image/gif" if data.startswith((b"GIF87a", b"GIF89a")) else None


JsonLine = dict[str, Any]
# Requests by key, their note, and the file that they were in.
SubmittedBatch = tuple[list[tuple[str, Mapping[str, object]]], str, str]
FileReader = Callable[[object], bytes]  # returns an uploaded file by its id; raises `Rejection`


@dataclass(frozen=True, slots=True)
class Course:
    """What happens to a batch job. Its requests are answered by what `say` queued; a `Fault.status` is one that failed.

    Attributes:
        looks: The job is in progress for so many status requests.
        expired: So many of its last requests are not run.
        backwards: Results come in the reverse order.
        cut: So many times the results break off in the middle, by a dropped connection.
        short: They break off by a file that is too short instead.
        even: They break off at the end of a line.
        fails: The whole job fails after it was accepted, for this reason.
        full: It fails because too much is queued.
        forgotten: The job is not known any more.
        unheard: The job is accepted, and the connection drops before the reply.
        endless: Text that follows the results, again and again.
    """

    looks: int = 0
    expired: int = 0
    backwards: bool = False
    cut: int = 0
    short: bool = False
    even: bool = False
    fails: str = ""
    full: bool = False
    forgotten: bool = False
    unheard: bool = False
    endless: str = ""


@dataclass
class FakeBatchJob:
    """A job at the server; `lines` are the results of those requests that were run."""

    id: str
    protocol: str
    note: str
    keys: list[str]
    course: Course
    file: str = ""
    lines: list[JsonLine] = field(default_factory=list)
    looked: int = 0
    cuts: int = 0
    canceled: bool = False
    server_url: str = ""
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def ended(self) -> bool:
        return self.canceled or self.looked > self.course.looks

    @property
    def state(self) -> str:
        """State by OpenAI's names."""
        end = "cancelled" if self.canceled else "expired" if len(self.lines) < len(self.keys) else "completed"
        return "in_progress" if not self.ended else "failed" if self.course.fails else end


class BatchDialect(ABC):
    """A provider's batch API from the server's side.

    The results of a job have a name that ends with its id, after `of-` if anything is before it.

    Attributes:
        name: Of the provider.
        prefix: Of the ids of its jobs.
        max_requests: Most requests in a job.
        page_parameter: Query parameter of the next page of a list.
        key_headers: Headers that may hold the key.
        required_header: Another header that every call needs; empty for none.
        live_path: Where a single request would be sent.
        routes: Method of `BatchServer` that handles a call, and a pattern of the call's method and path.
        list_fields: Fields of every list.
        cancel_fields: Fields of a job that was just canceled; where there are none, it is not shown.
    """

    name: str
    prefix: str
    max_requests: int
    page_parameter: str
    key_headers: tuple[str, ...]
    required_header: str = ""
    live_path: str
    routes: Sequence[tuple[str, str]]
    list_fields: Sequence[tuple[str, str]] = ()
    cancel_fields: Sequence[tuple[str, str]] = ()

    @abstractmethod
    def parse_order(self, body: Mapping[str, Any], read_file: FileReader) -> SubmittedBatch:
        """Parse the body that creates a job."""

    @abstractmethod
    def line(self, key: str, status: int, body: Mapping[str, object]) -> JsonLine:
        """Return the result of a request: what the live API replies to it."""

    @abstractmethod
    def failed(self, line: JsonLine) -> bool: ...

    @abstractmethod
    def describe(self, job: FakeBatchJob) -> JsonLine:
        """Return the job as the provider shows it."""

    def list_page(self, page: Sequence[FakeBatchJob], has_more: bool) -> JsonLine:
        return {**dict(self.list_fields), "data": [self.describe(job) for job in page], "has_more": has_more}

    def describe_canceled(self, job: FakeBatchJob) -> JsonLine:
        return {**self.describe(job), **dict(self.cancel_fields)} if self.cancel_fields else {}

    def results(self, job: FakeBatchJob, name: str) -> list[JsonLine]:
        return job.lines

    async def receive_file(self, request: web.Request, number: str) -> tuple[str, bytes, JsonLine]:
        """Return the id of an uploaded file, its bytes, and the reply."""
        raise Rejection(404, "No files are taken here: the requests stand in the body that makes a job.")
