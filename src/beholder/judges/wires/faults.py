"""What a provider's refusal means, in one place for every judge: ask again, never, or tell the person.

The exceptions here never leave `judges`: `Again` and `Never` become `Unreachable`, `Blocked` an answer, `NoStructure`
a second request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from beholder.errors import SetupError
from beholder.judges.wires.reading import items, mapping, text

SHORT = 300
# How much of what a server says is looked at: an error may echo the whole request, megabytes of base64.
LOOKED_AT = 4096
# What is shorter than this is a placeholder (`EMPTY`, `none`), and may well be a word of an answer.
SHORTEST_KEY = 8
AGAIN = frozenset({408, 409, 425, 429, 529})
MAY_LACK_STRUCTURE = frozenset({400, 422, 501})

_STRUCTURE = re.compile(
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
_NO_MONEY = frozenset({"insufficient_quota", "billing_hard_limit_reached"})
# Shapes of keys, whole or half masked as OpenAI echoes them: sk-…, AIza…, AQ.…, Bearer …, anything with ***. The last
# one begins where a word begins, or every character of a long word would be a new attempt.
_KEY_SHAPES = re.compile(
    r"\bsk-[\w*.-]{6,}|\bAIza[\w*-]{10,}|\bAQ\.[\w*-]{10,}|(?<=Bearer )[\w*.~+/=-]{12,}|"
    r"(?<![\w.~+/=-])[\w.~+/=-]*+\*{3,}[\w*.~+/=-]*"
)
# A script or a style that has no end here goes on behind the cut.
_MARKUP = re.compile(r"<(script|style)\b.*?(?:</\1>|\Z)|<[^<>]*>", re.DOTALL | re.IGNORECASE)


class Again(Exception):
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


class Never(Exception):
    """This request will not be answered, however often it is sent. `of_server`: nor will any other, by this server."""

    def __init__(self, sentence: str, *, of_server: bool = False) -> None:
        self.of_server = of_server
        super().__init__(sentence)


class Blocked(Exception):
    """A content filter refused the request itself."""


class NoStructure(Exception):
    """The server or the model cannot hold an answer to a schema, or not to this one."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error body, read whoever wrote it: without keys, each text at most `LOOKED_AT` characters long.
    `retry_after` is the wait that Google names in the body."""

    message: str = ""
    code: str = ""
    parameter: str = ""
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Who was asked, for sentences. `key_source` is the variable that held the key; empty when none was sent."""

    name: str
    model: str
    url: str
    key_source: str
    key_variables: tuple[str, ...]
    parameters: tuple[str, ...] = ()


def hide(message: str, keys: tuple[str, ...]) -> str:
    """The message without these keys."""
    for key in keys:
        if len(key) >= SHORTEST_KEY:
            message = message.replace(key, "[key]")
    return message


def redact(message: str, keys: tuple[str, ...] = ()) -> str:
    """The beginning of the message, without these keys and without anything shaped like one."""
    return _KEY_SHAPES.sub("[key]", hide(message, keys)[:LOOKED_AT])


def shorten(message: str) -> str:
    """On one line, at most `SHORT` characters, without a full stop at its end."""
    line = " ".join(message.split())
    return (line if len(line) <= SHORT else line[: SHORT - 1] + "…").rstrip(". ")


def complaint_in(payload: bytes, keys: tuple[str, ...] = ()) -> Complaint:
    """The complaint in an error body; of a body that is no JSON, such as a gateway's page, its text."""
    try:
        return complaint_of(msgspec.json.decode(payload), keys)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        page = hide(payload.decode("utf-8", "replace"), keys)[:LOOKED_AT]
        return Complaint(_MARKUP.sub(" ", page))


def complaint_of(body: object, keys: tuple[str, ...] = ()) -> Complaint:
    """Reads `{"error": {…}}` (OpenAI, Anthropic, Google), `{"error": "…"}` (LM Studio), `{"message": …}` (vLLM),
    `{"detail": …}` (FastAPI), and Google's list of one."""
    if isinstance(body, list):
        body = body[0] if body else None
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return Complaint(_said(error, keys))
    details = items(error.get("details"))
    reasons = [text(detail.get("reason")) for detail in details]
    delays = [_seconds(text(detail.get("retryDelay"))) for detail in details]
    codes = (error.get("code"), error.get("type"), error.get("status"), mapping(error.get("innererror")).get("code"))
    return Complaint(
        message=_said(error.get("message") or error.get("detail"), keys),
        code=_said(" ".join([*(code for code in codes if isinstance(code, str)), *filter(None, reasons)]), keys),
        parameter=_said(text(error.get("param")), keys),
        retry_after=next((delay for delay in delays if delay is not None), None),
    )


def _said(value: object, keys: tuple[str, ...]) -> str:
    """A text, or the JSON of anything else."""
    if value is None:
        return ""
    said = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return hide(said, keys)[:LOOKED_AT]


def meaning(status: int, complaint: Complaint, target: Target, *, structured: bool, after: float | None) -> Exception:
    """The exception that an error status amounts to."""
    said = shorten(redact(complaint.message))
    everything = f"{complaint.message} {complaint.code} {complaint.parameter}"
    sentence = f"{target.name} answered {status}" + (f": {said}." if said else ".")
    if structured and status in MAY_LACK_STRUCTURE and _STRUCTURE.search(everything):
        return NoStructure(sentence)
    if complaint.code and _FILTER_CODES & set(complaint.code.split()):
        return Blocked(said)
    if status in (401, 403) or (status == 400 and _BAD_KEY.search(everything)):
        return SetupError(f"{sentence} {_about_the_key(target)}")
    if status in (404, 405):
        return SetupError(
            f"{sentence} There is no model '{target.model}' at {target.url}; check the model's name and the base URL."
        )
    if status in (400, 422) and _blames_a_parameter(complaint, everything, target.parameters):
        return SetupError(f"{sentence} Leave that parameter out, or give a value that '{target.model}' takes.")
    if set(complaint.code.split()) & _NO_MONEY:
        return Never(sentence)
    if status in AGAIN or status >= 500:
        after = after if after is not None else complaint.retry_after
        return Again(sentence, after=after, busy=status in AGAIN)
    return Never(sentence)


def _about_the_key(target: Target) -> str:
    if target.key_source:
        return f"The key came from {target.key_source}; set it to one that {urlsplit(target.url).hostname} accepts."
    return f"No key was sent; set {' or '.join(target.key_variables)}, or name another variable."


def _blames_a_parameter(complaint: Complaint, everything: str, parameters: tuple[str, ...]) -> bool:
    """Whether it says that a parameter is unknown, or quotes one that was set: `'top_p'`, `top_p: …`, `'a.top_p'`."""
    if _UNKNOWN_PARAMETER.search(everything):
        return True
    names = {form for name in parameters for part in (name, name.rsplit(".")[-1]) for form in (part, _snake(part))}
    quoted = (rf"(?:^|[`'\".]){re.escape(name)}(?=[`'\":])" for name in names)
    return complaint.parameter in names or any(re.search(pattern, complaint.message) for pattern in quoted)


def _snake(name: str) -> str:
    """Google complains in snake_case about what is sent in camelCase."""
    return re.sub(r"(?<=[a-z])([A-Z])", lambda match: "_" + match[1].lower(), name)


def _seconds(duration: str) -> float | None:
    """Google's `"36s"` or `"36.5s"`."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s", duration)
    return float(match[1]) if match else None
