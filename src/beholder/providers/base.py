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
import logging
import random as randomness
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypedDict, get_args

from beholder.errors import SetupError
from beholder.images.image import Sizing
from beholder.providers.payload import RequestBody
from beholder.providers.prices import Price
from beholder.providers.retry import RequestLimiter, Retrier
from beholder.rubrics.brief import Brief, TextBlock
from beholder.verdicts.answer import Answer, Turn, Usage

if TYPE_CHECKING:
    from beholder.cases.case import Case
    from beholder.providers.batch import BatchApi
    from beholder.verdicts.verdict import Verdict


_log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "beholder.judges"
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


@dataclass(frozen=True, slots=True, eq=False)
class JudgeCall:
    """One call of a judge: a question about one case, with its retries. The start and the end have the same object.

    Attributes:
        judge: name of the judge.
        case: id of the case.
        rubric: name of the rubric.
        sample: number of the sample, from 0.
        turn: how many calls the same conversation has made before; from the second on they repair or repeat.
        brief_digest: identifies the question.
    """

    judge: str
    case: str
    rubric: str
    sample: int
    turn: int
    brief_digest: str


class CallObserver(Protocol):
    """Listens to everything that is judged in this process: for progress bars, traces and metrics.

    It is called on the threads of the event loops, and so must be quick and safe with threads. What it raises is
    logged, and changes nothing else. The call runs in the context (`contextvars`) in which it was started.
    """

    def on_call_start(self, call: JudgeCall) -> None:
        """A judge is about to be asked; its budget is reserved."""

    def on_call_end(self, call: JudgeCall, answer: Answer | None, error: BaseException | None) -> None:
        """It answered, or the call failed, was canceled, or (`Waiting`) will be answered by batch."""

    def on_verdict(self, verdict: Verdict) -> None:
        """A case has its verdict, from new answers or stored ones; it is not in the ledger yet."""


@dataclass(frozen=True, slots=True)
class CaseContext:
    """What is being judged where an observer is called; `run` is the run's id, empty where there is no ledger."""

    case: Case
    run: str


_case_context: ContextVar[CaseContext | None] = ContextVar("beholder_case", default=None)


def current_case() -> CaseContext | None:
    """Return the case that is being judged in this context, for observers; `None` elsewhere."""
    return _case_context.get()


@contextmanager
def in_case_context(case: Case, run: str) -> Iterator[None]:
    """Let observers find the case that is judged by the body."""
    token = _case_context.set(CaseContext(case, run))
    try:
        yield
    finally:
        _case_context.reset(token)


_observers: tuple[CallObserver, ...] = ()


def add_observer(observer: CallObserver) -> None:
    """Let an observer listen, until `remove_observer`."""
    global _observers
    _observers = (*_observers, observer)


def remove_observer(observer: CallObserver) -> None:
    global _observers
    _observers = tuple(other for other in _observers if other is not observer)


def notify_observers(notify: Callable[[CallObserver], None]) -> None:
    """Call `notify` with every observer."""
    for observer in _observers:
        try:
            notify(observer)
        except Exception:
            _log.exception("beholder: the observer %r failed.", observer)


def log_request(
    judge: str, brief: Brief, status: int, latency_s: float, request_id: str, answer: Answer | None = None
) -> None:
    """Log a request that got a response: nothing of the prompt, the images or the answer.

    Args:
        judge: name of the judge.
        brief: what was asked; its digest is logged.
        status: HTTP status of the response.
        latency_s: how long it took.
        request_id: the provider's, without keys; may be empty.
        answer: the answer in the response; `None` for an error.
    """
    if _log.isEnabledFor(logging.DEBUG):
        model, used = (answer.model, answer.usage) if answer else (None, Usage())
        tokens = f"{used.input_tokens} in, {used.output_tokens} out"
        words = "%s: status %d in %.3f s, request %s, model %s, tokens %s, brief %s"
        _log.debug(words, judge, status, latency_s, request_id or None, model, tokens, brief.digest[:12])


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


StructuredOutput: TypeAlias = Literal["auto", "off"]
"""Whether a server is asked to enforce the schema of an answer: as long as it does, or never."""


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
        send_provider_key: whether the key in the provider's own variable is sent; otherwise, unless `key_variable` is
            named, a placeholder. `runs.trust` says when.
        allow_http_key: send a key over plain http also beyond this machine and private networks.
        price: takes precedence over the price list.
        structured_output: `off` for a server whose structured output does not work; the schema then goes into the
            system message.
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
    send_provider_key: bool = True
    allow_http_key: bool = False
    price: Price | None = None
    structured_output: StructuredOutput = "auto"
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = randomness.random
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if self.structured_output not in get_args(StructuredOutput):
            raise SetupError(f"structured_output: there is 'auto' and 'off'; {self.structured_output!r} is neither.")

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
    send_provider_key: bool
    allow_http_key: bool
    price: Price | None
    structured_output: StructuredOutput
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    clock: Callable[[], float]


DEFAULT_SETTINGS = JudgeSettings()


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
            f"A parameter for {provider} cannot be sent as JSON: only texts, finite numbers,"
            " booleans, lists and mappings can."
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


def parse_model_version(pattern: str, name: str) -> tuple[int, int]:
    """Return major and minor version by the two groups of `pattern`; `NEWEST_VERSION` where it is not found."""
    found = re.search(pattern, name)
    return (int(found[1]), int(found[2] or 0)) if found else NEWEST_VERSION


def ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)
