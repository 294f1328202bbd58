"""Retry policy: what an error response means, how often a call is retried, and how long to wait in between.

`classify_error` turns an error status and its body into one of the exceptions below; `Retrier` repeats a call while it
raises `RetryableError`, with exponential backoff and jitter, or the wait that the server asks for. How often:
`JudgeSettings.retries` (`providers/base.py`). Empty and cut-off answers have limits of their own, in
`judges/conversation.py`; connections that could not be opened, in `providers/http.py`.

Only `judges` and `runs.batch` see these exceptions. Of a live call `RetryableError` and `PermanentError` become
`Unreachable`, `FilteredRequestError` an answer, `NoStructuredOutputError` a second request without structured output.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import ParamSpec, Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from beholder.errors import SetupError, Unreachable
from beholder.providers.payload import (
    MAX_MESSAGE_CHARACTERS,
    as_mapping,
    as_objects,
    as_text,
    redact,
    remove_api_keys,
    shorten,
)

# Statuses of a server that is up and has too much to do: retried, as every 5xx is, and `rate_limited`.
BUSY_STATUSES = frozenset({408, 409, 425, 429, 529})
# llama-cpp-python refuses with 500 what others refuse with 400. A 5xx of a gateway says nothing about the model.
REFUSAL_STATUSES = frozenset({400, 404, 415, 422, 500, 501})

# Before retry n (from 1) the wait is FIRST_BACKOFF_S * 2**(n - 1) seconds times a random factor from 0 to 1. With the
# default of 5 retries these are 1, 2, 4, 8 and 16 s, so the cap matters only where more retries are allowed.
FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 30.0
# The longest wait that a server may ask for (`Retry-After`). The backoff's cap does not apply to it. If a server asks
# for more, the call fails as `Unreachable` without another attempt, and the run continues with other cases.
MAX_RETRY_AFTER_S = 120.0
MAX_KNOWN_WAIT_S = 365 * 86_400.0  # a longer wait, or one without end, counts as a year

_SCHEMA_WORDS = re.compile(
    r"response_?format|json_?schema|output_config(?!\.effort)|output[_ ]?format|response_?schema|response_?mime_?type|"
    r"structured[ _-]?outputs?|guided[ _]?(json|decoding)|grammar|json mode|schema",
    re.IGNORECASE,
)
_UNKNOWN_PARAMETER = re.compile(
    r"unknown (parameter|name|field)|unrecognized (request argument|field)|unsupported (parameter|value)|"
    r"unsupported_(parameter|value)|unknown_parameter|extra inputs are not permitted|extra_forbidden|"
    r"does not support (the )?parameter",
    re.IGNORECASE,
)
# A model that takes no images. In order: llama.cpp, OpenAI, Google, Mistral; Anthropic, LM Studio, Amazon; OpenRouter;
# vLLM; Ollama; DeepSeek; Groq. "does not support images larger than 5 MB" is about one image.
_NO_IMAGES = re.compile(
    r"image(s|_url| inputs?| contents?)( modality)? (is|are) (not|only) (supported|enabled|available)"
    r"(?!.{0,40}\b(formats?|types?|sizes?|image/\w+)\b)|"
    r"(not|n't|cannot) (support|accept|process) (the |any )?(image|vision|multimodal)"
    r"(?!s? (larger|bigger|smaller|over|above|of|in|formats?|types?|files?|sizes?)\b)|"
    r"endpoints found that support image|at most 0 image|not a (multimodal|vision) model|"
    r"data required for image input|unknown variant `image_url`|content'? must be a string",
    re.IGNORECASE,
)
# A model that is not there, in words that may also be about something else, so that its name must be among them. In
# order: LiteLLM, Mistral; OpenRouter, transformers; LocalAI; llama-swap.
_UNKNOWN_NAMED_MODEL = re.compile(
    r"(invalid|unknown|no such) model\b|not a valid model\b|\bmodel\b.{0,200}? not (found|exist)|"
    r"could not find .{0,20}model",
    re.IGNORECASE | re.DOTALL,
)
# The same in words that can mean nothing else. In order: DeepSeek; Amazon; LM Studio; OpenAI.
_UNKNOWN_MODEL = re.compile(
    r"^\W*(the )?model (does )?not (found|exist)|model identifier is invalid|no models? loaded|model_not_found",
    re.IGNORECASE,
)
# llama.cpp: the model has answered, in a form that the server cannot read. Each further try is a whole answer, too.
_UNREADABLE_OUTPUT = re.compile(r"produced output that does not match the expected", re.IGNORECASE)
# The last: LiteLLM without a database, of any key but its own.
_BAD_KEY = re.compile(
    r"API_KEY_INVALID|no_db_connection|no connected db|api[ _-]?key (not valid|expired)|invalid (x-)?api[ _-]?key",
    re.IGNORECASE,
)
_FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


# A script or style element without its end tag was cut off by the length limit.
_MARKUP = re.compile(r"<(script|style)\b.*?(?:</\1>|\Z)|<[^<>]*>", re.DOTALL | re.IGNORECASE)


class RetryableError(Exception):
    """A call that may succeed when it is repeated.

    Attributes:
        retry_after: seconds that the server asks to wait; `None` where it does not say.
        retries: most retries after this error; `None` for as many as the settings allow.
        rate_limited: the server is up and has too much to do (429 and similar).
        other_server_free: another server can take the request now, so that there is nothing to wait for.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        retries: int | None = None,
        rate_limited: bool = False,
        other_server_free: bool = False,
    ) -> None:
        self.retry_after, self.retries = retry_after, retries
        self.rate_limited, self.other_server_free = rate_limited, other_server_free
        super().__init__(message)


class PermanentError(Exception):
    """A call that will fail however often it is repeated; with `server_wide`, every other call to this server too."""

    def __init__(self, message: str, *, server_wide: bool = False) -> None:
        self.server_wide = server_wide
        super().__init__(message)


class FilteredRequestError(Exception):
    """A content filter rejected the request itself."""


class NoStructuredOutputError(Exception):
    """The server or the model does not support structured output, or not with this schema."""


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The parts of an error body, without API keys, each text at most `MAX_MESSAGE_CHARACTERS` long.

    `retry_after` is the wait in seconds that Google puts into the body.
    """

    message: str = ""
    code: str = ""
    parameter: str = ""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class CallTarget:
    """The model and server of a call, for error messages.

    Attributes:
        name: the judge, as `openai:gpt-5-mini`.
        model: the model's name.
        url: the base URL.
        key_source: environment variable that held the key; empty where no key was sent.
        key_variables: environment variables in which a key may be; empty where none of them is for this server.
        parameters: names of the parameters that were set, ours and the provider's.
    """

    name: str
    model: str
    url: str
    key_source: str
    key_variables: tuple[str, ...]
    parameters: tuple[str, ...] = ()


def parse_error_body(payload: bytes, keys: tuple[str, ...] = ()) -> ErrorBody:
    """Parse an error body; of one that is no JSON, such as a gateway's HTML page, take the text."""
    try:
        return read_error_body(msgspec.json.decode(payload), keys)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        page = remove_api_keys(payload.decode("utf-8", "replace"), keys)[:MAX_MESSAGE_CHARACTERS]
        return ErrorBody(_MARKUP.sub(" ", page))


def read_error_body(body: object, keys: tuple[str, ...] = ()) -> ErrorBody:
    """Read a decoded error body.

    Known forms are `{"error": {…}}` (OpenAI, Anthropic, Google), `{"error": "…"}` (LM Studio), `{"message": …}` (vLLM),
    `{"detail": …}` (FastAPI), and Google's list of one.

    Args:
        body: the body as JSON values.
        keys: API keys to remove from all texts.
    """
    if isinstance(body, list):
        body = body[0] if body else None
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return ErrorBody(_error_text(error, keys))
    details = as_objects(error.get("details"))
    reasons = [as_text(detail.get("reason")) for detail in details]
    delays = [_parse_seconds(as_text(detail.get("retryDelay"))) for detail in details]
    codes = (error.get("code"), error.get("type"), error.get("status"), as_mapping(error.get("innererror")).get("code"))
    return ErrorBody(
        message=_error_text(error.get("message") or error.get("detail"), keys),
        code=_error_text(" ".join([*(code for code in codes if isinstance(code, str)), *filter(None, reasons)]), keys),
        parameter=_error_text(as_text(error.get("param")), keys),
        retry_after=next((delay for delay in delays if delay is not None), None),
    )


def _error_text(value: object, keys: tuple[str, ...]) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return remove_api_keys(text, keys)[:MAX_MESSAGE_CHARACTERS]


def classify_error(
    status: int, body: ErrorBody, target: CallTarget, *, structured: bool, retry_after: float | None
) -> Exception:
    """Return the exception that an error status amounts to.

    Args:
        status: HTTP status, 400 or more.
        body: the parsed error body.
        target: the model and server, for the message.
        structured: whether structured output was asked for.
        retry_after: seconds to wait by the response's headers; `None` where they do not say.

    Returns:
        One of the exceptions of this module, or `SetupError` for what a person has to set right (key, model name, base
        URL, parameter).
    """
    message = shorten(redact(body.message))
    everything = f"{body.message} {body.code} {body.parameter}"
    codes = set(body.code.split())
    sentence = f"{target.name} answered {status}" + (f": {message}." if message else ".")
    if structured and status in REFUSAL_STATUSES and _SCHEMA_WORDS.search(everything):
        return NoStructuredOutputError(sentence)
    if codes & _FILTER_CODES:
        return FilteredRequestError(message)
    if status in REFUSAL_STATUSES and _NO_IMAGES.search(body.message):
        advice = "name a model that does, or start its server with its image part (llama.cpp: --mmproj)"
        return SetupError(f"{sentence} '{target.model}' at {target.url} takes no images; {advice}.")
    if status in (401, 403) or (status == 400 and _BAD_KEY.search(everything)):
        return SetupError(f"{sentence} {_key_advice(target)}")
    if status in (404, 405) or _names_unknown_model(status, everything, target.model):
        return SetupError(
            f"{sentence} There is no model '{target.model}' at {target.url}; check the model's name and the base URL."
        )
    if status in (400, 422) and _blames_a_parameter(body, everything, target.parameters):
        return SetupError(f"{sentence} Leave that parameter out, or give a value that '{target.model}' takes.")
    # An exhausted quota comes with the status of a rate limit, and no wait helps.
    if codes & _QUOTA_CODES:
        return PermanentError(sentence)
    if _is_retryable(status):
        wait = _limit_wait(retry_after if retry_after is not None else body.retry_after)
        retries = 1 if _UNREADABLE_OUTPUT.search(body.message) else None
        return RetryableError(sentence, retry_after=wait, retries=retries, rate_limited=status in BUSY_STATUSES)
    return PermanentError(sentence)


def _names_unknown_model(status: int, everything: str, model: str) -> bool:
    """Whether the model is called unknown. A 500 may be a passing fault, so it must also name the model."""
    if status not in REFUSAL_STATUSES:
        return False
    if model in everything and _UNKNOWN_NAMED_MODEL.search(everything):
        return True
    return (status < 500 or model in everything) and bool(_UNKNOWN_MODEL.search(everything))


def _is_retryable(status: int) -> bool:
    return status in BUSY_STATUSES or status >= 500


def _key_advice(target: CallTarget) -> str:
    if target.key_source:
        return f"The key came from {target.key_source}; set it to one that {urlsplit(target.url).hostname} accepts."
    if not target.key_variables:
        return (
            f"No key was sent, since {target.url} stands in a suite file; name the variable of the key for it "
            "(--key-variable or key_variable=), or trust the file (--trust-suite or trust_suite=True)."
        )
    return f"No key was sent; set {' or '.join(target.key_variables)}, or name another variable."


def _blames_a_parameter(body: ErrorBody, everything: str, parameters: tuple[str, ...]) -> bool:
    """Whether a parameter is called unknown, or one that was set is quoted: `'top_p'`, `top_p: …`, `'a.top_p'`."""
    if _UNKNOWN_PARAMETER.search(everything):
        return True
    names = {form for name in parameters for part in (name, name.rsplit(".")[-1]) for form in (part, _snake_case(part))}
    quoted = (rf"(?:^|[`'\".]){re.escape(name)}(?=[`'\":])" for name in names)
    return body.parameter in names or any(re.search(pattern, body.message) for pattern in quoted)


def _snake_case(name: str) -> str:
    """Google writes in snake_case, in its error messages, what is sent in camelCase."""
    return re.sub(r"(?<=[a-z])([A-Z])", lambda match: "_" + match[1].lower(), name)


def _parse_seconds(duration: str) -> float | None:
    """Parse Google's `"36s"` or `"36.5s"`."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", duration)
    return float(match[1]) if match else None


_log = logging.getLogger(__name__)
T = TypeVar("T")
P = ParamSpec("P")


@dataclass
class Retrier:
    """Retries of one call: exponential backoff with full jitter, each attempt through the rate limiter.

    Attributes:
        retries: most attempts after the first.
        sleep: waits for so many seconds.
        random: returns a number from 0 to 1.
        limiter: rate limiter of the server; `None` for none.
        tokens: what one attempt is expected to use, for the limiter.
        attempts: attempts made so far, over every `call`.
        on_failure: called after each attempt that may be repeated.
    """

    retries: int
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    limiter: RequestLimiter | None = None
    tokens: int = 0
    attempts: int = 0
    on_failure: Callable[[], None] | None = None

    async def call(self, send: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Await `send(*args, **kwargs)`, again while it raises `RetryableError`.

        Raises:
            Unreachable: after the last attempt, or when the server asks to wait for too long.
        """
        failures = 0
        while True:
            self.attempts += 1
            if self.limiter is not None:
                await self.limiter.acquire(self.tokens)
            started = time.perf_counter()
            latency_s: float | None = None
            try:
                result = await send(*args, **kwargs)
                latency_s = time.perf_counter() - started
                return result
            except RetryableError as error:
                failures += 1
                if self.on_failure is not None:
                    self.on_failure()
                delay = self._delay_before_retry(error, failures)
            finally:
                # Before the wait, so that other requests may go out meanwhile.
                if self.limiter is not None:
                    self.limiter.release(latency_s)
            if delay is not None:
                await self.sleep(delay)

    def _delay_before_retry(self, error: RetryableError, failures: int) -> float | None:
        """Return the seconds to wait, `None` for none; raise `Unreachable` where there is no further attempt."""
        allowed = self.retries if error.retries is None else min(self.retries, error.retries)
        if failures > allowed:
            tries = f" Tried {self.attempts} times." if self.attempts > 1 else ""
            raise Unreachable(f"{error}{tries}", self.attempts) from None
        if error.other_server_free:
            _log.debug("%s Try %d of %d at another.", error, failures + 1, allowed + 1)
            return None
        if error.retry_after is not None and error.retry_after > MAX_RETRY_AFTER_S:
            wait = f"It asks to wait {error.retry_after:.0f} s, longer than the {MAX_RETRY_AFTER_S:.0f} s allowed."
            raise Unreachable(f"{error} {wait}", self.attempts) from None
        if error.retry_after:
            # A little later than asked for, so that not all requests come at the same moment.
            delay = error.retry_after * (1 + self.random() / 4)
        else:
            delay = self.random() * min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (failures - 1))
        _log.debug("%s Try %d of %d in %.1f s.", error, failures + 1, allowed + 1, delay)
        return delay


def parse_retry_after(
    headers: Mapping[str, str], now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> float | None:
    """Return the seconds to wait by `retry-after-ms` or `Retry-After` (seconds or a date); `None` where unknown."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) / unit
        except ValueError:
            continue
        if (wait := _limit_wait(seconds)) is not None:
            return wait
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return _limit_wait(max(0.0, (moment - now()).total_seconds()))
    except (ValueError, TypeError, IndexError, OverflowError):  # no date, or one that Python's calendar does not have
        return None


def _limit_wait(seconds: float | None) -> float | None:
    """Return a wait of at most a year; `None` for a negative one and for NaN."""
    return min(seconds, MAX_KNOWN_WAIT_S) if seconds is not None and seconds >= 0 else None


class RequestLimiter(Protocol):
    """Limits how many requests are in flight at a judge's server, and their rate."""

    async def acquire(self, tokens: int) -> None:
        """Wait until one more request may go out; `tokens` is what it is expected to use."""

    def release(self, latency_s: float | None) -> None:
        """End a request; `latency_s` is `None` where it was not answered."""
