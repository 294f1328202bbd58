"""What a provider's refusal means, in one place for every judge: ask again, never, or tell the person.

The exceptions here never leave `judges`: `Again` and `Never` become `Unreachable`, `Blocked` an answer, `NoStructure`
a second request.

How often a judge is asked again, and how long it waits in between.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

import msgspec

from beholder.errors import SetupError, Unreachable
from beholder.providers.payload import (
    MAX_MESSAGE_CHARACTERS,
    as_mapping,
    as_objects,
    as_text,
    redact,
    remove_keys,
    shorten,
)

RETRY_STATUSES = frozenset({408, 409, 425, 429, 529})
NO_SCHEMA_STATUSES = frozenset({400, 422, 501})

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
_BAD_KEY = re.compile(r"API_KEY_INVALID|api[ _-]?key (not valid|expired)|invalid (x-)?api[ _-]?key", re.IGNORECASE)
_FILTER_CODES = frozenset({"content_filter", "content_policy_violation", "moderation_blocked"})
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached"})


# A script or a style that has no end here goes on behind the cut.
_MARKUP = re.compile(r"<(script|style)\b.*?(?:</\1>|\Z)|<[^<>]*>", re.DOTALL | re.IGNORECASE)


class RetryableError(Exception):
    """Worth another try. `after` is how long the provider asked to wait; `retries` caps how often to try; `busy` says
    that the server is there and has no time; `at_once` that another server is free, so that nothing need be waited for.
    """

    def __init__(
        self,
        sentence: str,
        *,
        after: float | None = None,
        retries: int | None = None,
        busy: bool = False,
        at_once: bool = False,
    ) -> None:
        self.after, self.retries, self.busy, self.at_once = after, retries, busy, at_once
        super().__init__(sentence)


class PermanentError(Exception):
    """This request will not be answered, however often it is sent. `of_server`: nor will any other, by this server."""

    def __init__(self, sentence: str, *, of_server: bool = False) -> None:
        self.of_server = of_server
        super().__init__(sentence)


class FilteredRequestError(Exception):
    """A content filter refused the request itself."""


class NoStructuredOutputError(Exception):
    """The server or the model cannot hold an answer to a schema, or not to this one."""


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """An error body, read whoever wrote it: without keys, each text at most `LOOKED_AT` characters long.
    `retry_after` is the wait that Google names in the body."""

    message: str = ""
    code: str = ""
    parameter: str = ""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class CallTarget:
    """Who was asked, for sentences. `key_source` is the variable that held the key; empty when none was sent."""

    name: str
    model: str
    url: str
    key_source: str
    key_variables: tuple[str, ...]
    parameters: tuple[str, ...] = ()


def parse_error_body(payload: bytes, keys: tuple[str, ...] = ()) -> ErrorBody:
    """The complaint in an error body; of a body that is no JSON, such as a gateway's page, its text."""
    try:
        return read_error_body(msgspec.json.decode(payload), keys)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        page = remove_keys(payload.decode("utf-8", "replace"), keys)[:MAX_MESSAGE_CHARACTERS]
        return ErrorBody(_MARKUP.sub(" ", page))


def read_error_body(body: object, keys: tuple[str, ...] = ()) -> ErrorBody:
    """Reads `{"error": {…}}` (OpenAI, Anthropic, Google), `{"error": "…"}` (LM Studio), `{"message": …}` (vLLM),
    `{"detail": …}` (FastAPI), and Google's list of one."""
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
    """A text, or the JSON of anything else."""
    if value is None:
        return ""
    said = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return remove_keys(said, keys)[:MAX_MESSAGE_CHARACTERS]


def classify_error(
    status: int, complaint: ErrorBody, target: CallTarget, *, structured: bool, after: float | None
) -> Exception:
    """The exception that an error status amounts to."""
    said = shorten(redact(complaint.message))
    everything = f"{complaint.message} {complaint.code} {complaint.parameter}"
    sentence = f"{target.name} answered {status}" + (f": {said}." if said else ".")
    if structured and status in NO_SCHEMA_STATUSES and _SCHEMA_WORDS.search(everything):
        return NoStructuredOutputError(sentence)
    if complaint.code and _FILTER_CODES & set(complaint.code.split()):
        return FilteredRequestError(said)
    if status in (401, 403) or (status == 400 and _BAD_KEY.search(everything)):
        return SetupError(f"{sentence} {_key_advice(target)}")
    if status in (404, 405):
        return SetupError(
            f"{sentence} There is no model '{target.model}' at {target.url}; check the model's name and the base URL."
        )
    if status in (400, 422) and _blames_a_parameter(complaint, everything, target.parameters):
        return SetupError(f"{sentence} Leave that parameter out, or give a value that '{target.model}' takes.")
    if set(complaint.code.split()) & _QUOTA_CODES:
        return PermanentError(sentence)
    if status in RETRY_STATUSES or status >= 500:
        after = after if after is not None else complaint.retry_after
        return RetryableError(sentence, after=after, busy=status in RETRY_STATUSES)
    return PermanentError(sentence)


def _key_advice(target: CallTarget) -> str:
    if target.key_source:
        return f"The key came from {target.key_source}; set it to one that {urlsplit(target.url).hostname} accepts."
    return f"No key was sent; set {' or '.join(target.key_variables)}, or name another variable."


def _blames_a_parameter(complaint: ErrorBody, everything: str, parameters: tuple[str, ...]) -> bool:
    """Whether it says that a parameter is unknown, or quotes one that was set: `'top_p'`, `top_p: …`, `'a.top_p'`."""
    if _UNKNOWN_PARAMETER.search(everything):
        return True
    names = {form for name in parameters for part in (name, name.rsplit(".")[-1]) for form in (part, _snake_case(part))}
    quoted = (rf"(?:^|[`'\".]){re.escape(name)}(?=[`'\":])" for name in names)
    return complaint.parameter in names or any(re.search(pattern, complaint.message) for pattern in quoted)


def _snake_case(name: str) -> str:
    """Google complains in snake_case about what is sent in camelCase."""
    return re.sub(r"(?<=[a-z])([A-Z])", lambda match: "_" + match[1].lower(), name)


def _parse_seconds(duration: str) -> float | None:
    """Google's `"36s"` or `"36.5s"`."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", duration)
    return float(match[1]) if match else None


FIRST_BACKOFF_S = 0.5
MAX_BACKOFF_S = 30.0
# A provider that asks for more than this is not waited for: the run goes on with other cases.
MAX_RETRY_AFTER_S = 120.0

_log = logging.getLogger("beholder.judges")
T = TypeVar("T")


@dataclass
class Retrier:
    """One call's retries, each through the gate (if there is one) as a request of about `tokens`. `attempts` counts
    the requests that were made, over every `persist` of the call."""

    retries: int
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    gate: RequestLimiter | None = None
    tokens: int = 0
    attempts: int = 0

    async def persist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks until there is an answer. Raises `Unreachable` after the last try, or at once where none can help."""
        failures = 0
        while True:
            self.attempts += 1
            try:
                return await self._through(ask)
            except PermanentError as never:
                raise Unreachable(str(never), self.attempts) from None
            except RetryableError as again:
                failures += 1
                allowed = self.retries if again.retries is None else min(self.retries, again.retries)
                if failures > allowed:
                    tries = f" Tried {self.attempts} times." if self.attempts > 1 else ""
                    raise Unreachable(f"{again}{tries}", self.attempts) from None
                if again.at_once:
                    _log.info("%s Try %d of %d at another.", again, failures + 1, allowed + 1)
                    continue
                if again.after is not None and again.after > MAX_RETRY_AFTER_S:
                    wait = f"It asks to wait {again.after:.0f} s, longer than the {MAX_RETRY_AFTER_S:.0f} s allowed."
                    raise Unreachable(f"{again} {wait}", self.attempts) from None
                delay = self._delay(failures, again.after)
                _log.info("%s Try %d of %d in %.1f s.", again, failures + 1, allowed + 1, delay)
                await self.sleep(delay)

    async def _through(self, ask: Callable[[], Awaitable[T]]) -> T:
        """One request, at its turn."""
        if self.gate is None:
            return await ask()
        await self.gate.enter(self.tokens)
        started = time.perf_counter()
        latency_s: float | None = None
        try:
            answer = await ask()
            latency_s = time.perf_counter() - started
            return answer
        finally:
            self.gate.leave(latency_s)

    def _delay(self, failures: int, after: float | None) -> float:
        if after:
            # A little later than asked, and not all at the same moment.
            return after * (1 + self.random() / 4)
        return self.random() * min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2.0**failures)


def parse_retry_after(
    headers: Mapping[str, str], now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> float | None:
    """Seconds to wait by `retry-after-ms` or `Retry-After` (seconds or a date); `None` when neither says so."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) / unit
        except ValueError:
            continue
        if seconds >= 0:
            return seconds
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now()).total_seconds())


class RequestLimiter(Protocol):
    """What lets requests through to a judge's server: how many at once, how fast."""

    async def enter(self, tokens: int) -> None:
        """Waits until one more request may go out; `tokens` is what it is expected to use."""

    def leave(self, latency_s: float | None) -> None:
        """One request is over; `latency_s` is `None` where it was not answered."""
