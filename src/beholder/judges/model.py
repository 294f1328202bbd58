"""A vision-language model as judge: one request per answer, sent again where that can help."""

from __future__ import annotations

import asyncio
import json
import os
import random as randomness
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib.metadata import entry_points
from typing import TypedDict, Unpack
from urllib.parse import urlsplit

from beholder.errors import SetupError
from beholder.images.model import STANDARD_SIZING, Sizing
from beholder.judges.prices import Price, cost
from beholder.judges.protocol import INSTRUMENTS, Answer, Finish, Gate, Judge, Turn
from beholder.judges.wires import Malformed, Question, Reply, Request, Wire
from beholder.judges.wires.faults import (
    Again,
    Blocked,
    NoStructure,
    Target,
    complaint_in,
    hide,
    meaning,
    redact,
    shorten,
)
from beholder.judges.wires.patience import Patience, retry_after
from beholder.judges.wires.spreading import Spread
from beholder.judges.wires.transport import Response, Transport
from beholder.rubrics.brief import Brief, Text

GROUP = "beholder.judges"
STRUCTURED_OUTPUT_UNAVAILABLE = "structured_output_unavailable"
# Other tiers have other prices.
TIERS = frozenset({"service_tier", "serviceTier", "speed"})
ANY_OF_SEVERAL = "base_urls"  # in the place of a base URL in an identity


@dataclass(frozen=True, slots=True)
class Settings:
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
    gate: Gate | None = None
    price: Price | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = randomness.random
    clock: Callable[[], float] = time.monotonic

    def patience(self, brief: Brief) -> Patience:
        """For one call with `brief`."""
        return Patience(self.retries, self.sleep, self.random, self.gate, expected_tokens(brief))


class Given(TypedDict, total=False):
    """`Settings` as keywords."""

    base_url: str | None
    base_urls: Sequence[str]
    params: Mapping[str, object]
    key_variable: str | None
    timeout_s: float
    connect_timeout_s: float
    retries: int
    gate: Gate | None
    price: Price | None
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    clock: Callable[[], float]


STANDARD_SETTINGS = Settings()


class ModelJudge:
    """A model behind a wire. Raises `SetupError` at once for a key, base URL or parameter that cannot work.

    A `key` goes before those of the environment.
    """

    def __init__(
        self, wire: Wire, model: str, settings: Settings = STANDARD_SETTINGS, *, key: str | None = None
    ) -> None:
        self.wire, self.model, self._settings = wire, model, settings
        urls = _base_urls(wire, settings)
        self.base_url = urls[0]
        self.params, self._sizing = split_params(settings.params, wire.sizing, wire.details, wire.name)
        self._key, source = key, "the program"
        if key is None:
            needed = not (wire.keyless and self.base_url != wire.base_url)
            self._key, source = find_key(wire, settings.key_variable, needed=needed)
        self._secrets = (self._key,) if self._key else ()
        native = (wire.names.get(name) or name for name in self.params)
        self._target = Target(self.name, model, self.base_url, source, wire.key_variables, (*self.params, *native))
        timeouts = {"timeout_s": settings.timeout_s, "connect_timeout_s": settings.connect_timeout_s}
        self._spread = Spread([Transport(url, **timeouts) for url in urls], settings.clock)
        self._structured = True
        # Parameters that cannot be sent are told now, not when the first case is asked.
        wire.request(self._question(Brief("", "", None, "", (), None, "", "")))

    def __repr__(self) -> str:
        return f"ModelJudge({self.name!r}, base_url={self.base_url!r})"

    @property
    def name(self) -> str:
        return f"{self.wire.name}:{self.model}"

    @property
    def identity(self) -> str:
        place = ANY_OF_SEVERAL if self._settings.base_urls else self.base_url
        return identity(self.name, place, self.params, self._sizing.detail)

    @property
    def sizing(self) -> Sizing:
        return self._sizing

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """Asks once, and again as long as that can help. `latency_s` is that of the request that was answered.

        A server that cannot hold answers to a schema is told the schema in words from then on, and its answers carry
        the flag `structured_output_unavailable`. A `seed` among the parameters counts up with the sample.
        """
        patience = self._settings.patience(brief)
        question = self._question(brief, sample, earlier, max_tokens)
        tried: set[str] = set()

        async def ask(structured: bool) -> Answer:
            asked = replace(question, structured=structured)
            return await patience.persist(lambda: self._spread.ask(lambda server: self._once(server, asked), tried))

        answer, able = await answered(ask, patience, brief, self._structured)
        self._structured = self._structured and able
        return answer

    async def aclose(self) -> None:
        await self._spread.aclose()

    @property
    def settings(self) -> Settings:
        return self._settings

    def hidden(self, text: str) -> str:
        """The text without this judge's key."""
        return hide(text, self._secrets)

    def request(
        self,
        brief: Brief,
        structured: bool,
        *,
        sample: int = 0,
        earlier: Sequence[Turn] = (),
        max_tokens: int | None = None,
    ) -> Request:
        """What `answer` sends."""
        return self.wire.request(replace(self._question(brief, sample, earlier, max_tokens), structured=structured))

    def read(self, body: bytes, latency_s: float = 0.0, *, batch: bool = False, name: str = "") -> Answer:
        """The answer in a reply; what it cost is reckoned as of a `batch` if it came in one. Raises `Again` where there
        is none in it; `name` is for that sentence."""
        try:
            reply = self.wire.read(body)
        except Malformed as malformed:
            said = shorten(redact(str(malformed), self._secrets))
            raise Again(f"{name or self.name} sent a reply that is not of its form ({said}).") from None
        return Answer(
            text=hide(reply.text, self._secrets),
            finish=reply.finish,
            model=hide(reply.model, self._secrets) if reply.model else None,
            usage=reply.usage,
            cost_usd=self._cost(reply, batch),
            latency_s=latency_s,
            detail=redact(reply.detail, self._secrets),
        )

    def fault(self, response: Response, structured: bool, target: Target | None = None) -> Exception:
        """The exception that a response without an answer amounts to; `target` is whom to name, if another."""
        target = target or self._target
        if 300 <= response.status < 400:
            place = urlsplit(response.headers.get("location", ""))
            # Only the host: the rest of a redirect may hold what must not be shown.
            where = f"to {place.scheme}://{place.hostname}" if place.hostname else "elsewhere on the same server"
            return SetupError(
                f"{target.url} redirects {where}; redirects are not followed: set the base URL to the right place."
            )
        return meaning(
            response.status,
            complaint_in(response.body, self._secrets),
            target,
            structured=structured,
            after=retry_after(response.headers),
        )

    def _question(
        self, brief: Brief, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Question:
        params = seeded(self.params, sample)
        return Question(
            brief, self.model, self.base_url, self._key, params, earlier, max_tokens, detail=self._sizing.detail
        )

    async def _once(self, server: Transport, question: Question) -> Answer:
        request = self.wire.request(replace(question, base_url=server.base_url))
        started = time.perf_counter()
        response = await server.post(request)
        latency_s = time.perf_counter() - started
        target = self._target
        if self._settings.base_urls:
            target = replace(target, name=f"{self.name} at {server.base_url}", url=server.base_url)
        if not 200 <= response.status < 300:
            raise self.fault(response, question.structured, target)
        return self.read(response.body, latency_s, name=target.name)

    def _cost(self, reply: Reply, batch: bool) -> Decimal | None:
        given = self._settings.price
        if given is None and (self.base_url != self.wire.base_url or TIERS & self.params.keys()):
            return None
        costs = (
            cost(self.wire.name, model, reply.usage, cache_writes=reply.cache_writes, given=given, batch=batch)
            for model in (reply.model, self.model)
            if model
        )
        return next((amount for amount in costs if amount is not None), None)


async def answered(
    ask: Callable[[bool], Awaitable[Answer]], patience: Patience, brief: Brief, able: bool
) -> tuple[Answer, bool]:
    """Asks with structured output as long as the judge is able to, then without; also whether it still is."""
    try:
        try:
            answer = await ask(able and brief.schema is not None)
        except NoStructure:
            able = False
            answer = await ask(False)
    except Blocked as blocked:
        answer = Answer("", finish=Finish.FILTERED, detail=str(blocked))
    flags = (STRUCTURED_OUTPUT_UNAVAILABLE,) if brief.schema is not None and not able else ()
    return replace(answer, attempts=patience.attempts, flags=flags), able


def judge_from(spec: str, settings: Settings | None = None, **given: Unpack[Given]) -> Judge:
    """The judge that a person names: `openai:gpt-5-mini`, an entry of the group `beholder.judges`, or a provider that
    pydantic-ai knows; `instruments` is the judge that only measures. Settings may be given by keyword:
    `judge_from("openai:qwen", base_url="http://localhost:8000/v1")`.
    """
    settings = replace(settings or STANDARD_SETTINGS, **given)
    if spec == INSTRUMENTS:
        from beholder.judges.instruments import InstrumentsJudge

        return InstrumentsJudge(settings)
    provider, model = split_spec(spec)
    made = plugin(provider)
    if made is None:
        from beholder.judges.others import other_judge

        return other_judge(provider, model, settings)
    return ModelJudge(made, model, settings) if isinstance(made, Wire) else made(model, settings)


def identity(name: str, base_url: str, params: Mapping[str, object], detail: str | None) -> str:
    """What an answer of a model depends on besides the brief, as one text.

    A server of your own is told from others by its base URL, since two may serve different weights under one name.
    Where `base_urls` are given, even one, that is not so: they all serve the same model, and whoever adds a fourth
    server or loses one has the same judge and all of its answers. There the model's name alone says what is served;
    other weights, another quantisation or another chat template need a name of their own (vLLM's
    `--served-model-name`).
    """
    return json.dumps([name, base_url, dict(sorted(params.items())), detail], ensure_ascii=False, default=str)


def identity_of(spec: str, base_url: str | None, params: Mapping[str, object], base_urls: Sequence[str] = ()) -> str:
    """The identity that the judge of that name would have; needs no key and asks nobody."""
    if spec == INSTRUMENTS:
        return judge_from(spec, base_url=base_url, params=params).identity
    made = plugin(split_spec(spec)[0])
    sizing = sizing_of(spec, params)
    rest = {name: value for name, value in params.items() if name not in ("detail", "max_side")}
    if base_urls:
        return identity(spec, ANY_OF_SEVERAL, rest, sizing.detail)
    if not isinstance(made, Wire):
        return identity(spec, base_url or "", rest, sizing.detail)
    elsewhere = base_url or os.environ.get(made.base_url_variable, "").strip()
    return identity(spec, checked_url(elsewhere) if elsewhere else made.base_url, rest, sizing.detail)


def is_elsewhere(spec: str, base_url: str | None, base_urls: Sequence[str] = ()) -> bool:
    """Whether the judge of that name would be asked anywhere but at its provider's own address."""
    if spec == INSTRUMENTS:
        return False
    made = plugin(split_spec(spec)[0])
    if base_urls or not isinstance(made, Wire):
        return bool(base_urls or base_url)
    elsewhere = base_url or os.environ.get(made.base_url_variable, "").strip()
    return bool(elsewhere) and elsewhere.rstrip("/") != made.base_url


def expected_tokens(brief: Brief) -> int:
    """About what one request uses, for a limit of tokens a minute: four characters a token, 750 pixels a token."""
    texts = len(brief.system) + sum(len(part.text) for part in brief.content if isinstance(part, Text))
    pixels = sum(picture.image.width * picture.image.height for picture in brief.pictures)
    return texts // 4 + pixels // 750 + brief.answer_tokens


def sizing_of(spec: str, params: Mapping[str, object]) -> Sizing:
    """How the judge of that name would want its pictures; needs no key and asks nobody."""
    if spec == INSTRUMENTS:
        return judge_from(spec, params=params).sizing
    provider, _ = split_spec(spec)
    made = plugin(provider)
    if isinstance(made, Wire):
        return split_params(params, made.sizing, made.details, made.name)[1]
    from beholder.judges.others import DETAILS

    return split_params(params, STANDARD_SIZING, DETAILS, provider)[1]


def split_spec(spec: str) -> tuple[str, str]:
    """`openai:gpt-5-mini` as its provider and its model; `instruments` has none."""
    if spec == INSTRUMENTS:
        return spec, ""
    provider, colon, model = spec.partition(":")
    if not colon or not provider.strip():
        raise SetupError(f"'{spec}' names no judge; write PROVIDER:MODEL, for example openai:gpt-5-mini.")
    if not model.strip():
        raise SetupError(f"'{spec}' names no model; write one after the colon, for example {provider}:NAME.")
    return provider, model


def plugin(provider: str) -> Wire | Callable[[str, Settings], Judge] | None:
    """What the entry point of that name loads; `None` where there is none."""
    return next((entry.load() for entry in entry_points(group=GROUP) if entry.name == provider), None)


def parse_param(text: str) -> tuple[str, object]:
    """`NAME=VALUE` as a parameter; the value is read as JSON where it is JSON (`0.2`, `true`, `[…]`), else as text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SetupError(f"'{text}' is no parameter; write NAME=VALUE, for example temperature=0.")
    try:
        return name.strip(), json.loads(value, parse_constant=_no_number)
    except ValueError:
        return name.strip(), value


def split_params(
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


def seeded(params: Mapping[str, object], sample: int) -> Mapping[str, object]:
    """The parameters for one sample. One seed for all would make every sample the same answer."""
    seed = params.get("seed")
    return {**params, "seed": seed + sample} if sample and isinstance(seed, int) else params


def find_key(wire: Wire, variable: str | None, *, needed: bool) -> tuple[str | None, str]:
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


def _base_urls(wire: Wire, settings: Settings) -> tuple[str, ...]:
    """Where a model is asked."""
    if not settings.base_urls:
        one = settings.base_url or os.environ.get(wire.base_url_variable, "").strip()
        return (checked_url(one) if one else wire.base_url,)
    if settings.base_url:
        raise SetupError("base_url and base_urls are both given; keep one.")
    urls = tuple(checked_url(url) for url in settings.base_urls)
    if wire.base_url in urls:
        raise SetupError(
            f"{wire.base_url} is {wire.name}'s own address; base_urls are servers of your own that all serve one model."
        )
    return urls


def checked_url(url: str) -> str:
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


def _no_number(text: str) -> object:
    raise ValueError(text)
