"""Wires: how a brief becomes one HTTP request in a provider's form, and the reply an answer.

`openai`, `anthropic` and `google` are pure functions; only `transport` touches the network.

Plugins: an entry point of the group `beholder.judges` is named after the prefix that users write (`openai` in
`openai:gpt-5-mini`) and loads either

- a `Wire`: `ModelJudge` does the rest (keys, retries, timeouts, prices); our own three are such entries; or
- a callable `(model: str, settings: beholder.judges.model.Settings) -> Judge` for anything else.

Batch APIs: many requests handed in as one job, answered within a day, at half the price.

Each module here knows one provider's calls. What a job holds is what the live wire would send (`ModelJudge.request`),
byte for byte, and a reply is read as the live one is (`ModelJudge.read`): the same brief, the same key of the cache,
the same checks.

Why not pydantic-ai's `Model.batch_*` (2.66)? For OpenAI they speak only the Responses API, they encode from its own
message model (so that body and cache key of a batch would not be those of a live request), they hold a whole job and
all its results in memory (`b"\n".join(…)`, `list[BatchResult]`: 200 MB of pictures several times over), and they leave
nothing at the provider by which a job can be found again after a crash between handing it in and writing it down.
"""

from __future__ import annotations

import asyncio
import json
import os
import random as randomness
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypedDict
from urllib.parse import urlsplit

from beholder.errors import SetupError
from beholder.images.image import Sizing
from beholder.providers.payload import RequestBody
from beholder.providers.prices import Price
from beholder.providers.retry import (
    FilteredRequestError,
    NoStructuredOutputError,
    RequestLimiter,
    Retrier,
    RetryableError,
)
from beholder.rubrics.brief import Brief, TextBlock
from beholder.verdicts.answer import Answer, BatchStage, Finish, Turn, Usage


@dataclass(frozen=True, slots=True)
class ChatRequest:
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
class HttpRequest:
    """What to POST. Headers hold the key, so neither they nor the pictures show in a repr."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: RequestBody = field(repr=False)


@dataclass(frozen=True, slots=True)
class ProviderReply:
    """A provider's reply, read. `cache_writes` are input tokens billed as written to a prompt cache."""

    text: str
    finish: Finish = Finish.COMPLETE
    model: str | None = None
    usage: Usage = field(default=Usage())
    detail: str = ""
    cache_writes: int = 0


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider's protocol. `names` are the common parameters that it names differently, `details` the picture
    details it knows; `keyless` says whether another base URL may go without a key, as local servers do;
    `base_url_variable` names the variable by which the provider's own SDK is sent to another base URL."""

    name: str
    key_variables: tuple[str, ...]
    base_url: str
    sizing: Sizing
    request: Callable[[ChatRequest], HttpRequest]
    read: Callable[[bytes], ProviderReply]
    names: Mapping[str, str | None] = field(default_factory=dict)
    details: tuple[str, ...] = ()
    keyless: bool = False
    base_url_variable: str = ""


def system_message(brief: Brief, structured: bool) -> str:
    """The system message; where the provider cannot hold an answer to the schema, with the schema in words."""
    if brief.schema is None or structured:
        return brief.system
    schema = json.dumps(brief.schema, ensure_ascii=False, default=dict)
    words = f"Answer with one JSON object of this JSON Schema, and nothing else:\n{schema}"
    return f"{brief.system}\n\n{words}" if brief.system.strip() else words


def turn_texts(earlier: Sequence[Turn]) -> list[tuple[str, str]]:
    """Earlier turns as (assistant, user) texts. Anthropic refuses a message without text, so an empty one is named."""
    return [(turn.answer if turn.answer.strip() else "(empty answer)", turn.reply) for turn in earlier]


# A job of ours is never larger, whatever a provider allows: it lies on the disk until it is handed in.
MAX_BATCH_BYTES = 200_000_000

UNCONFIRMED = "unsure"  # in the handle of a job that was found again by nothing but its size and its time

BatchHandle = Mapping[str, str]
"""By which a provider finds a job again; can be kept as JSON."""


class BatchState(StrEnum):
    IN_PROGRESS = "in_progress"
    CANCELING = "canceling"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How far a job is. Of so many requests as are `answered` or `failed` an ended job has a result; `rest` became of
    the others; `why` says why, where the provider did, and `full` that it had no room for the job: handing it in again
    later will help."""

    state: BatchState
    answered: int = 0
    failed: int = 0
    rest: BatchStage = BatchStage.EXPIRED
    why: str = ""
    full: bool = False


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of the request of that key; `body` is the provider's reply or error, as it would have come live. A
    result that nobody can read is an error, and has no key where even that cannot be read."""

    key: str
    ending: BatchStage
    status: int = 200
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class UnconfirmedBatch:
    """What is known of a job that may or may not have been handed in: the note it would carry, when it was begun, how
    many requests it has, and the ids of jobs that it surely is not."""

    note: str
    since: datetime
    count: int
    others: Collection[str] = ()


class IncompleteResultsError(RetryableError):
    """Results came to an end, and some are missing."""


class BatchNotFoundError(Exception):
    """The provider does not know the job, or has its results no more. Never leaves `judges` and `runs`."""


def handle_from_reply(made: Mapping[str, object], key: str) -> BatchHandle:
    """The handle of a job that was made just now."""
    id_ = made.get(key)
    if not isinstance(id_, str) or not id_:
        raise RetryableError("A job was taken, and its reply says not under which name.")
    return {"id": id_}


ENTRY_POINT_GROUP = "beholder.judges"
STRUCTURED_OUTPUT_UNAVAILABLE = "structured_output_unavailable"


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """What a person may set about a judge. `params` are model parameters, and `detail` and `max_side` for pictures.

    `base_urls`, in place of `base_url`, are servers of your own that all serve this model: requests are spread over
    them. `retries` counts requests after the first. `price` goes before the price list. `sleep`, `random` and `clock`
    are there so that tests need not wait.
    """

    base_url: str | None = None
    base_urls: Sequence[str] = ()
    params: Mapping[str, object] = field(default_factory=dict)
    key_variable: str | None = None
    timeout_s: float = 120.0
    connect_timeout_s: float = 10.0
    retries: int = 5
    gate: RequestLimiter | None = None
    price: Price | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = randomness.random
    clock: Callable[[], float] = time.monotonic

    def patience(self, brief: Brief) -> Retrier:
        """For one call with `brief`."""
        return Retrier(self.retries, self.sleep, self.random, self.gate, estimate_request_tokens(brief))


class JudgeSettingsKwargs(TypedDict, total=False):
    """`Settings` as keywords."""

    base_url: str | None
    base_urls: Sequence[str]
    params: Mapping[str, object]
    key_variable: str | None
    timeout_s: float
    connect_timeout_s: float
    retries: int
    gate: RequestLimiter | None
    price: Price | None
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    clock: Callable[[], float]


DEFAULT_SETTINGS = JudgeSettings()


async def ask_with_schema_fallback(
    ask: Callable[[bool], Awaitable[Answer]], patience: Retrier, brief: Brief, able: bool
) -> tuple[Answer, bool]:
    """Asks with structured output as long as the judge is able to, then without; also whether it still is."""
    try:
        try:
            answer = await ask(able and brief.schema is not None)
        except NoStructuredOutputError:
            able = False
            answer = await ask(False)
    except FilteredRequestError as blocked:
        answer = Answer("", finish=Finish.FILTERED, detail=str(blocked))
    flags = (STRUCTURED_OUTPUT_UNAVAILABLE,) if brief.schema is not None and not able else ()
    return replace(answer, attempts=patience.attempts, flags=flags), able


def format_identity(name: str, base_url: str, params: Mapping[str, object], detail: str | None) -> str:
    """What an answer of a model depends on besides the brief, as one text.

    A server of your own is told from others by its base URL, since two may serve different weights under one name.
    Where `base_urls` are given, even one, that is not so: they all serve the same model, and whoever adds a fourth
    server or loses one has the same judge and all of its answers. There the model's name alone says what is served;
    other weights, another quantisation or another chat template need a name of their own (vLLM's
    `--served-model-name`).
    """
    return json.dumps([name, base_url, dict(sorted(params.items())), detail], ensure_ascii=False, default=str)


def estimate_request_tokens(brief: Brief) -> int:
    """About what one request uses, for a limit of tokens a minute: four characters a token, 750 pixels a token."""
    texts = len(brief.system) + sum(len(part.text) for part in brief.content if isinstance(part, TextBlock))
    pixels = sum(picture.image.width * picture.image.height for picture in brief.images)
    return texts // 4 + pixels // 750 + brief.answer_tokens


def split_image_params(
    params: Mapping[str, object], sizing: Sizing, details: tuple[str, ...], wire: str
) -> tuple[dict[str, object], Sizing]:
    """The model's parameters, and the sizing with `detail` and `max_side`, which belong to the pictures."""
    rest = dict(params)
    try:
        json.dumps(rest, allow_nan=False)
    except (TypeError, ValueError):
        raise SetupError(
            f"A parameter for {wire} is infinite, a date or some other thing, and JSON has no word for that."
        ) from None
    detail, max_side = rest.pop("detail", None), rest.pop("max_side", None)
    if detail is not None:
        if detail not in details:
            known = f"it knows {', '.join(details)}" if details else "set max_side instead"
            raise SetupError(f"{wire} knows no picture detail '{detail}'; {known}.")
        sizing = replace(sizing, detail=str(detail))
    if max_side is not None:
        if not isinstance(max_side, int) or isinstance(max_side, bool) or max_side < 1:
            raise SetupError(f"max_side is '{max_side}'; it must be a whole number of pixels, for example 1024.")
        sizing = replace(sizing, max_side=max_side)
    return rest, sizing


def apply_sample_seed(params: Mapping[str, object], sample: int) -> Mapping[str, object]:
    """The parameters for one sample. One seed for all would make every sample the same answer."""
    seed = params.get("seed")
    return {**params, "seed": seed + sample} if sample and isinstance(seed, int) else params


def find_api_key(wire: Provider, variable: str | None, *, needed: bool) -> tuple[str | None, str]:
    """The key and the variable that held it; no key where none is set and none is needed."""
    names = (variable,) if variable else wire.key_variables
    for name in names:
        key = os.environ.get(name, "").strip()
        if not key:
            continue
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise SetupError(f"{name} holds characters that no key has; copy the key again, without spaces or breaks.")
        return key, name
    if needed or variable:
        wanted = " or ".join(names)
        raise SetupError(f"{wire.name} needs a key and {wanted} is not set; set it: export {names[0]}=YOUR_KEY")
    return None, ""


def resolve_base_urls(wire: Provider, settings: JudgeSettings) -> tuple[str, ...]:
    """Where a model is asked."""
    if not settings.base_urls:
        one = settings.base_url or os.environ.get(wire.base_url_variable, "").strip()
        return (normalize_base_url(one) if one else wire.base_url,)
    if settings.base_url:
        raise SetupError("base_url and base_urls are both given; keep one.")
    urls = tuple(normalize_base_url(url) for url in settings.base_urls)
    if wire.base_url in urls:
        raise SetupError(
            f"{wire.base_url} is {wire.name}'s own address; base_urls are servers of your own that all serve one model."
        )
    return urls


def normalize_base_url(url: str) -> str:
    """The base URL without a slash at its end."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        (parts.hostname or "").encode("idna")  # as the resolver will: no empty part, none of more than 63 characters
    except ValueError:
        valid = False
    if not valid or not url.isprintable() or " " in url or "\\" in url:
        raise SetupError(f"{url!r} is no base URL; write one such as http://localhost:8000/v1.")
    if "@" in parts.netloc:
        raise SetupError(f"The base URL for {parts.hostname} holds a password; put the key into a variable instead.")
    if parts.query or parts.fragment:
        raise SetupError(f"The base URL for {parts.hostname} has a '?' or '#' in it; leave that part out.")
    return url.rstrip("/")


ImageTokenCounter = Callable[[int, int], int]


NEWEST_VERSION = (99, 0)


def parse_model_version(pattern: str, name: str) -> tuple[int, int]:
    found = re.search(pattern, name)
    return (int(found[1]), int(found[2] or 0)) if found else NEWEST_VERSION


def ceil_div(number: int, of: int) -> int:
    return -(-number // of)
