"""Providers: how a brief becomes one HTTP request in a provider's form, and the reply an answer.

`openai`, `anthropic` and `google` each hold one provider: request, reply, schema dialect, token rules and batch calls,
as pure functions that are put together in a `Provider`. Only `http` touches the network.

Plug-ins: an entry point of the group `beholder.judges` is named after the prefix that users write (`openai` in
`openai:gpt-5-mini`) and loads either

- a `Provider`: `ModelJudge` does the rest (keys, retries, timeouts, prices); our own three are such entries; or
- a callable `(model: str, settings: JudgeSettings) -> Judge` for anything else.
"""

from __future__ import annotations

import asyncio
import json
import os
import random as randomness
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypedDict
from urllib.parse import urlsplit

from beholder.errors import SetupError
from beholder.images.image import Sizing
from beholder.providers.payload import RequestBody
from beholder.providers.prices import Price
from beholder.providers.retry import RequestLimiter, Retrier
from beholder.rubrics.brief import Brief, TextBlock
from beholder.verdicts.answer import Answer, Turn

if TYPE_CHECKING:
    from beholder.providers.batch import BatchApi


ENTRY_POINT_GROUP = "beholder.judges"
STRUCTURED_OUTPUT_UNAVAILABLE = "structured_output_unavailable"
# Extra output tokens for models that think without being asked: thoughts count towards the limit of an answer.
THINKING_TOKENS = 8192
NEWEST_VERSION = (99, 0)  # of a model whose name has no version
EMPTY_BRIEF = Brief("", "", None, "", (), None, "", "")  # to build a request for its headers and checks only


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to one model, before it takes a provider's form.

    Attributes:
        brief: the prompt, the images and the schema of the answer.
        model: the model's name.
        base_url: without a slash at its end.
        key: API key; `None` for none.
        params: model parameters that the user set.
        earlier: earlier turns of the conversation.
        max_tokens: limit for the answer; takes precedence over one in `params`.
        structured: ask for the provider's structured output; otherwise the schema goes into the system message.
        detail: image detail that the user set.
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
    """What to POST. Headers hold the key, so neither they nor the images show in a repr."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: RequestBody = field(repr=False)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response of any status; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


ImageTokenCounter = Callable[[int, int], int]
"""Returns the tokens of an image of this width and height in pixels."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """How the models of one maker count tokens. All functions take the model's name in lower case.

    Attributes:
        model_names: finds the maker's models by name, whichever provider serves them.
        image_rule: returns, for a model and an image detail, the name of the rule and the counter.
        characters_per_10_tokens: English characters that make up ten tokens of a model.
        thinks: whether a model may think without being asked; `True` for an unknown model.
        adds_thinking_tokens: whether our requests add `THINKING_TOKENS` to a limit that is given.
    """

    model_names: re.Pattern[str]
    image_rule: Callable[[str, str | None], tuple[str, ImageTokenCounter]]
    characters_per_10_tokens: Callable[[str], int]
    thinks: Callable[[str], bool]
    adds_thinking_tokens: bool = False


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider's protocol.

    Attributes:
        name: the prefix of its judges, `openai` in `openai:gpt-5-mini`.
        key_variables: environment variables in which a key may be, the first one first.
        base_url: the provider's own.
        sizing: how large images may be.
        build_request: returns the HTTP request for a question.
        parse_reply: returns the answer in a reply with status 2xx; raises `MalformedReplyError`.
        parameter_names: common parameters that it names differently, or does not have (`None`).
        image_details: image details that it knows.
        key_optional: another base URL may go without a key, as local servers do.
        base_url_variable: environment variable by which the provider's own SDK is sent to another base URL.
        token_rules: how its models count tokens; `None` where nobody knows.
        batch: its batch API; `None` where there is none.
    """

    name: str
    key_variables: tuple[str, ...]
    base_url: str
    sizing: Sizing
    build_request: Callable[[ChatRequest], HttpRequest]
    parse_reply: Callable[[bytes], Answer]
    parameter_names: Mapping[str, str | None] = field(default_factory=dict)
    image_details: tuple[str, ...] = ()
    key_optional: bool = False
    base_url_variable: str = ""
    token_rules: TokenRules | None = None
    batch: BatchApi | None = None


def system_message(brief: Brief, structured: bool) -> str:
    """Return the system message; without structured output it ends with the schema and how to answer by it."""
    if brief.schema is None or structured:
        return brief.system
    schema = json.dumps(brief.schema, ensure_ascii=False, default=dict)
    words = f"Answer with one JSON object of this JSON Schema, and nothing else:\n{schema}"
    return f"{brief.system}\n\n{words}" if brief.system.strip() else words


def turn_texts(earlier: Sequence[Turn]) -> list[tuple[str, str]]:
    """Return earlier turns as (assistant, user) texts; Anthropic rejects empty texts, so those are replaced."""
    return [(turn.answer if turn.answer.strip() else "(empty answer)", turn.reply) for turn in earlier]


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """What a user may set about a judge.

    Attributes:
        base_url: where the model is served; `None` for the provider's own.
        base_urls: in place of `base_url`, several servers of your own that all serve this model; requests are spread
            over them.
        params: model parameters; `detail` and `max_side` are for images.
        key_variable: environment variable that holds the key.
        timeout_s: for one request.
        connect_timeout_s: for its connection.
        retries: most requests after the first.
        limiter: rate limiter for all requests of the judge.
        price: takes precedence over the price list.
        sleep: replaces `asyncio.sleep` in tests; so do `random` and `clock` for randomness and time.
    """

    base_url: str | None = None
    base_urls: Sequence[str] = ()
    params: Mapping[str, object] = field(default_factory=dict)
    key_variable: str | None = None
    timeout_s: float = 120.0
    connect_timeout_s: float = 10.0
    retries: int = 5
    limiter: RequestLimiter | None = None
    price: Price | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = randomness.random
    clock: Callable[[], float] = time.monotonic

    def retrier(self, brief: Brief) -> Retrier:
        """Return the retries of one call with `brief`."""
        return Retrier(self.retries, self.sleep, self.random, self.limiter, estimate_request_tokens(brief))


class JudgeSettingsKwargs(TypedDict, total=False):
    """`JudgeSettings` as keywords; a test checks that both agree."""

    base_url: str | None
    base_urls: Sequence[str]
    params: Mapping[str, object]
    key_variable: str | None
    timeout_s: float
    connect_timeout_s: float
    retries: int
    limiter: RequestLimiter | None
    price: Price | None
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    clock: Callable[[], float]


DEFAULT_SETTINGS = JudgeSettings()


def finish_answer(answer: Answer, attempts: int, brief: Brief, structured_output: bool) -> Answer:
    """Return the answer with its number of requests, and flagged where the schema could not be enforced."""
    unavailable = brief.schema is not None and not structured_output
    return replace(answer, attempts=attempts, flags=(STRUCTURED_OUTPUT_UNAVAILABLE,) if unavailable else ())


def format_identity(name: str, base_url: str, params: Mapping[str, object], detail: str | None) -> str:
    """Return as one text what a model's answer depends on besides the brief.

    A server of your own is identified by its base URL, since two may serve different weights under one name. With
    `base_urls`, even a single one, it is not: they all serve the same model, so that servers can be added and removed
    without losing the judge's answers. Then only the model's name tells what is served; other weights, another
    quantization or another chat template need a name of their own (vLLM's `--served-model-name`).
    """
    return json.dumps([name, base_url, dict(sorted(params.items())), detail], ensure_ascii=False, default=str)


def estimate_request_tokens(brief: Brief) -> int:
    """Estimate the tokens of a request for a rate limit: four characters per token, 750 pixels per token."""
    texts = len(brief.system) + sum(len(part.text) for part in brief.content if isinstance(part, TextBlock))
    pixels = sum(block.image.width * block.image.height for block in brief.images)
    return texts // 4 + pixels // 750 + brief.answer_tokens


def split_image_params(
    params: Mapping[str, object], sizing: Sizing, details: tuple[str, ...], provider: str
) -> tuple[dict[str, object], Sizing]:
    """Split `detail` and `max_side`, which are for images, from the model's parameters.

    Args:
        params: the parameters that a user set.
        sizing: the provider's sizing.
        details: image details that the provider knows.
        provider: name of the provider, for messages.

    Returns:
        The model's parameters, and the sizing with `detail` and `max_side`.

    Raises:
        SetupError: a parameter has no JSON form, or one of the two is invalid.
    """
    rest = dict(params)
    try:
        json.dumps(rest, allow_nan=False)
    except (TypeError, ValueError):
        raise SetupError(
            f"A parameter for {provider} is infinite, a date or some other thing, and JSON has no word for that."
        ) from None
    detail, max_side = rest.pop("detail", None), rest.pop("max_side", None)
    if detail is not None:
        if detail not in details:
            known = f"it knows {', '.join(details)}" if details else "set max_side instead"
            raise SetupError(f"{provider} knows no picture detail '{detail}'; {known}.")
        sizing = replace(sizing, detail=str(detail))
    if max_side is not None:
        if not isinstance(max_side, int) or isinstance(max_side, bool) or max_side < 1:
            raise SetupError(f"max_side is '{max_side}'; it must be a whole number of pixels, for example 1024.")
        sizing = replace(sizing, max_side=max_side)
    return rest, sizing


def apply_sample_seed(params: Mapping[str, object], sample: int) -> Mapping[str, object]:
    """Return the parameters for one sample: one seed for all would give every sample the same answer."""
    seed = params.get("seed")
    return {**params, "seed": seed + sample} if sample and isinstance(seed, int) else params


def find_api_key(provider: Provider, variable: str | None, *, needed: bool) -> tuple[str | None, str]:
    """Return the key and the environment variable that held it, or `(None, "")`.

    Args:
        provider: names the variables to look at.
        variable: the one to look at instead, if the user named one.
        needed: whether a missing key is an error.

    Raises:
        SetupError: the key is missing or malformed.
    """
    names = (variable,) if variable else provider.key_variables
    for name in names:
        key = os.environ.get(name, "").strip()
        if not key:
            continue
        if not (key.isascii() and key.isprintable()) or " " in key:
            raise SetupError(f"{name} holds characters that no key has; copy the key again, without spaces or breaks.")
        return key, name
    if needed or variable:
        wanted = " or ".join(names)
        raise SetupError(f"{provider.name} needs a key and {wanted} is not set; set it: export {names[0]}=YOUR_KEY")
    return None, ""


def resolve_base_urls(provider: Provider, settings: JudgeSettings) -> tuple[str, ...]:
    """Return the base URLs at which a model is asked; raise `SetupError` for an invalid one."""
    if not settings.base_urls:
        url = settings.base_url or os.environ.get(provider.base_url_variable, "").strip()
        return (normalize_base_url(url) if url else provider.base_url,)
    if settings.base_url:
        raise SetupError("base_url and base_urls are both given; keep one.")
    urls = tuple(normalize_base_url(url) for url in settings.base_urls)
    if provider.base_url in urls:
        raise SetupError(
            f"{provider.base_url} is {provider.name}'s own address; base_urls are servers of your own that all serve "
            "one model."
        )
    return urls


def normalize_base_url(url: str) -> str:
    """Return the base URL without a slash at its end; raise `SetupError` for what is none."""
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


def parse_model_version(pattern: str, name: str) -> tuple[int, int]:
    """Return major and minor version by the two groups of `pattern`; `NEWEST_VERSION` where it is not found."""
    found = re.search(pattern, name)
    return (int(found[1]), int(found[2] or 0)) if found else NEWEST_VERSION


def ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)
