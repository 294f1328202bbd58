"""What the loopback server says, and what it heard.

What the three protocols have in common on the server's side.

What differs between the providers' batch APIs, from the server's side: paths, words, and how a result is written.

OpenAI: https://developers.openai.com/api/docs/guides/batch and …/api-reference/batch
Anthropic: https://platform.claude.com/docs/en/build-with-claude/batch-processing and …/api/messages/batches
Google: https://ai.google.dev/gemini-api/docs/batch-api, https://ai.google.dev/api/batch-api and …/api/files
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
        """An error status with the provider's body for it. `retry_after` is seconds or an HTTP date."""
        extra = dict(headers or {}) | ({} if retry_after is None else {"Retry-After": str(retry_after)})
        return Fault(FaultKind.STATUS, code, message, extra)

    @staticmethod
    def html() -> Fault:
        """A gateway's page with status 200."""
        return Fault(FaultKind.HTML)

    @staticmethod
    def drop() -> Fault:
        """The connection closes before a byte is answered."""
        return Fault(FaultKind.DROP)

    @staticmethod
    def cut() -> Fault:
        """The connection closes in the middle of the body."""
        return Fault(FaultKind.CUT)

    @staticmethod
    def hang() -> Fault:
        """Headers, and then nothing until the server closes."""
        return Fault(FaultKind.HANG)

    @staticmethod
    def empty() -> Fault:
        """A proper reply without any text."""
        return Fault(FaultKind.EMPTY)

    @staticmethod
    def truncated(text: str) -> Fault:
        """An answer that ended at the token limit."""
        return Fault(FaultKind.TRUNCATED, text=text)

    @staticmethod
    def refusal(text: str) -> Fault:
        """The model declines. Google has no refusals of its own; there it is an answer in prose."""
        return Fault(FaultKind.REFUSAL, text=text)

    @staticmethod
    def filtered() -> Fault:
        """A content filter stopped the answer. Anthropic's only filter is its refusal."""
        return Fault(FaultKind.FILTERED)

    @staticmethod
    def no_structured_output() -> Fault:
        """400, as servers and models say it that cannot hold an answer to a schema."""
        return Fault(FaultKind.NO_STRUCTURED_OUTPUT, 400)

    @staticmethod
    def redirect(url: str) -> Fault:
        return Fault(FaultKind.REDIRECT, 307, headers={"Location": url})

    @staticmethod
    def unknown_model() -> Fault:
        """404 for the model that was asked for."""
        return Fault(FaultKind.UNKNOWN_MODEL, 404)

    @staticmethod
    def bad_key() -> Fault:
        """The key is refused; OpenAI echoes part of it."""
        return Fault(FaultKind.BAD_KEY, 401)


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


ReplyContent: TypeAlias = "str | Mapping[str, object] | Fault"
Reply: TypeAlias = "ReplyContent | Callable[[Received], ReplyContent]"


@dataclass(eq=False)
class Rejection(Exception):
    """A request that the provider would not take."""

    status: int
    message: str
    parameter: str | None = None


class ProviderDialect(ABC):
    """A provider's protocol as its server speaks it: checks and reads requests, writes replies and errors."""

    name: str

    @abstractmethod
    def read(self, path: str, headers: Mapping[str, str], body: Mapping[str, object], keyless: bool) -> Received:
        """The request; raises `Rejection` where the provider would."""

    @abstractmethod
    def answer(self, text: str, heard: Received, kind: FaultKind | None = None) -> dict[str, object]:
        """The body of a reply with status 200; `kind` is how it went wrong, if it did."""

    @abstractmethod
    def error(self, status: int, message: str, parameter: str | None = None) -> dict[str, object]:
        """The body of a reply with an error status."""

    @abstractmethod
    def rejection(self, fault: Fault, heard: Received) -> Rejection:
        """How the provider words `no_structured_output`, `unknown_model` and `bad_key`."""

    def reply(self, said: ReplyContent, heard: Received) -> tuple[int, dict[str, object]]:
        """Status and body of what a test wants said, if it is said at all; may raise a `Rejection` of it."""
        if not isinstance(said, Fault):
            text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
            return 200, self.answer(text, heard)
        if said.kind is FaultKind.STATUS:
            return said.code, self.error(said.code, said.text)
        if said.kind in (FaultKind.NO_STRUCTURED_OUTPUT, FaultKind.UNKNOWN_MODEL, FaultKind.BAD_KEY):
            raise self.rejection(said, heard)
        return 200, self.answer(said.text, heard, said.kind)


def lowercase_headers(request: web.Request) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def drop_connection(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()


def decode_image(data: object, media_type: str, complaint: str) -> bytes:
    """The picture's bytes; rejected when the base64 is broken or the media type is not what the bytes are."""
    try:
        decoded = base64.b64decode(str(data), validate=True)
    except binascii.Error:
        raise Rejection(400, complaint) from None
    if _sniff_media_type(decoded) != media_type:
        raise Rejection(400, complaint)
    return decoded


def iter_schemas(schema: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """A schema and every schema inside it."""
    yield schema
    properties = schema.get("properties")
    inner = list(properties.values()) if isinstance(properties, Mapping) else []
    for part in [*inner, schema.get("items")]:
        if isinstance(part, Mapping):
            yield from iter_schemas(part)


def check_strict_object(schema: Mapping[str, object]) -> str | None:
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


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
SubmittedBatch = tuple[
    list[tuple[str, Mapping[str, object]]], str, str
]  # requests by key, their note, the file they were in
FileReader = Callable[[object], bytes]  # by their ids; raises `Rejection`


@dataclass(frozen=True, slots=True)
class Course:
    """How a job goes. It is in progress for so many `looks`; then its last `expired` requests have not been run, the
    others were answered by what `say` queued (a `Fault.status` is a request that failed).

    `backwards`: results come in another order than requests. `cut`: so many times the results break off in the middle,
    by a dropped connection, or with `short` by a file that is too short, with `even` at the end of a line. `fails`: the
    job as a whole is refused after it was taken, for this reason (`full`: too much is waiting). `forgotten`: nobody
    knows the job any more. `unheard`: the job is taken, and the connection drops before the answer.
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


@dataclass
class FakeBatchJob:
    """A job as the server keeps it. `lines` are the results of those requests that were run."""

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
    created: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def ended(self) -> bool:
        return self.canceled or self.looked > self.course.looks

    @property
    def state(self) -> str:
        """In OpenAI's words."""
        unrun = "cancelled" if self.canceled else "expired" if len(self.lines) < len(self.keys) else "completed"
        return "in_progress" if not self.ended else "failed" if self.course.fails else unrun


class BatchDialect(ABC):
    """A provider's batch API. `routes` are its calls, each under the method of `BatchCounter` that answers it; `after`
    is the parameter by which a list goes on; `key` and `needed` are headers of every call; a request by itself would
    be sent to `live`; `listing` stands in every list, and `canceling` in a job that was just cancelled, if it is shown
    at all. The results of a job have a name that ends with its id, after `of-` if anything is before it."""

    name: str
    prefix: str
    most_requests: int
    after: str
    key: str
    needed: str = ""
    live: str
    routes: Sequence[tuple[str, str]]
    listing: Sequence[tuple[str, str]] = ()
    canceling: Sequence[tuple[str, str]] = ()

    @abstractmethod
    def order(self, wanted: Mapping[str, Any], files: FileReader) -> SubmittedBatch:
        """What the body that makes a job asks for."""

    @abstractmethod
    def line(self, key: str, status: int, body: Mapping[str, object]) -> JsonLine:
        """A result: what the live API says to the request of that key."""

    @abstractmethod
    def failed(self, line: JsonLine) -> bool: ...

    @abstractmethod
    def about(self, job: FakeBatchJob) -> JsonLine:
        """A job as it is shown."""

    def listed(self, page: Sequence[FakeBatchJob], more: bool) -> JsonLine:
        return {**dict(self.listing), "data": [self.about(job) for job in page], "has_more": more}

    def cancelled(self, job: FakeBatchJob) -> JsonLine:
        return {**self.about(job), **dict(self.canceling)} if self.canceling else {}

    def results(self, job: FakeBatchJob, name: str) -> list[JsonLine]:
        return job.lines

    async def uploaded(self, request: web.Request, number: str) -> tuple[str, bytes, JsonLine]:
        """The id of a file, its bytes, and what is said to it."""
        raise Rejection(404, "No files are taken here: the requests stand in the body that makes a job.")
