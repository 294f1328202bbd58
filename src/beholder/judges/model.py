"""A vision-language model as judge: one request per answer, sent again where that can help."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from importlib.metadata import entry_points
from typing import Unpack
from urllib.parse import urlsplit

from beholder.errors import SetupError
from beholder.images.image import DEFAULT_SIZING, Sizing
from beholder.judges.base import INSTRUMENTS, Judge
from beholder.providers.base import (
    DEFAULT_SETTINGS,
    ENTRY_POINT_GROUP,
    ChatRequest,
    HttpRequest,
    JudgeSettings,
    JudgeSettingsKwargs,
    Provider,
    ProviderReply,
    apply_sample_seed,
    ask_with_schema_fallback,
    find_api_key,
    format_identity,
    normalize_base_url,
    resolve_base_urls,
    split_image_params,
)
from beholder.providers.http import HttpClient, HttpResponse
from beholder.providers.load_balancer import LoadBalancer
from beholder.providers.payload import MalformedReplyError, redact, remove_keys, shorten
from beholder.providers.prices import TIER_PARAMETERS, answer_cost
from beholder.providers.retry import CallTarget, RetryableError, classify_error, parse_error_body, parse_retry_after
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import Answer, Turn

SEVERAL_BASE_URLS = "base_urls"  # in the place of a base URL in an identity


class ModelJudge:
    """A model behind a wire. Raises `SetupError` at once for a key, base URL or parameter that cannot work.

    A `key` goes before those of the environment.
    """

    def __init__(
        self, wire: Provider, model: str, settings: JudgeSettings = DEFAULT_SETTINGS, *, key: str | None = None
    ) -> None:
        self.wire, self.model, self._settings = wire, model, settings
        urls = resolve_base_urls(wire, settings)
        self.base_url = urls[0]
        self.params, self._sizing = split_image_params(settings.params, wire.sizing, wire.details, wire.name)
        self._key, source = key, "the program"
        if key is None:
            needed = not (wire.keyless and self.base_url != wire.base_url)
            self._key, source = find_api_key(wire, settings.key_variable, needed=needed)
        self._secrets = (self._key,) if self._key else ()
        native = (wire.names.get(name) or name for name in self.params)
        self._target = CallTarget(self.name, model, self.base_url, source, wire.key_variables, (*self.params, *native))
        timeouts = {"timeout_s": settings.timeout_s, "connect_timeout_s": settings.connect_timeout_s}
        self._spread = LoadBalancer([HttpClient(url, **timeouts) for url in urls], settings.clock)
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
        place = SEVERAL_BASE_URLS if self._settings.base_urls else self.base_url
        return format_identity(self.name, place, self.params, self._sizing.detail)

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

        answer, able = await ask_with_schema_fallback(ask, patience, brief, self._structured)
        self._structured = self._structured and able
        return answer

    async def aclose(self) -> None:
        await self._spread.aclose()

    @property
    def settings(self) -> JudgeSettings:
        return self._settings

    def hidden(self, text: str) -> str:
        """The text without this judge's key."""
        return remove_keys(text, self._secrets)

    def request(
        self,
        brief: Brief,
        structured: bool,
        *,
        sample: int = 0,
        earlier: Sequence[Turn] = (),
        max_tokens: int | None = None,
    ) -> HttpRequest:
        """What `answer` sends."""
        return self.wire.request(replace(self._question(brief, sample, earlier, max_tokens), structured=structured))

    def read(self, body: bytes, latency_s: float = 0.0, *, batch: bool = False, name: str = "") -> Answer:
        """The answer in a reply; what it cost is reckoned as of a `batch` if it came in one. Raises `Again` where there
        is none in it; `name` is for that sentence."""
        try:
            reply = self.wire.read(body)
        except MalformedReplyError as malformed:
            said = shorten(redact(str(malformed), self._secrets))
            raise RetryableError(f"{name or self.name} sent a reply that is not of its form ({said}).") from None
        return Answer(
            text=remove_keys(reply.text, self._secrets),
            finish=reply.finish,
            model=remove_keys(reply.model, self._secrets) if reply.model else None,
            usage=reply.usage,
            cost_usd=self._cost(reply, batch),
            latency_s=latency_s,
            detail=redact(reply.detail, self._secrets),
        )

    def fault(self, response: HttpResponse, structured: bool, target: CallTarget | None = None) -> Exception:
        """The exception that a response without an answer amounts to; `target` is whom to name, if another."""
        target = target or self._target
        if 300 <= response.status < 400:
            place = urlsplit(response.headers.get("location", ""))
            # Only the host: the rest of a redirect may hold what must not be shown.
            where = f"to {place.scheme}://{place.hostname}" if place.hostname else "elsewhere on the same server"
            return SetupError(
                f"{target.url} redirects {where}; redirects are not followed: set the base URL to the right place."
            )
        return classify_error(
            response.status,
            parse_error_body(response.body, self._secrets),
            target,
            structured=structured,
            after=parse_retry_after(response.headers),
        )

    def _question(
        self, brief: Brief, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> ChatRequest:
        params = apply_sample_seed(self.params, sample)
        return ChatRequest(
            brief, self.model, self.base_url, self._key, params, earlier, max_tokens, detail=self._sizing.detail
        )

    async def _once(self, server: HttpClient, question: ChatRequest) -> Answer:
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

    def _cost(self, reply: ProviderReply, batch: bool) -> Decimal | None:
        given = self._settings.price
        if given is None and (self.base_url != self.wire.base_url or TIER_PARAMETERS & self.params.keys()):
            return None
        costs = (
            answer_cost(self.wire.name, model, reply.usage, cache_writes=reply.cache_writes, given=given, batch=batch)
            for model in (reply.model, self.model)
            if model
        )
        return next((amount for amount in costs if amount is not None), None)


def judge_from(spec: str, settings: JudgeSettings | None = None, **given: Unpack[JudgeSettingsKwargs]) -> Judge:
    """The judge that a person names: `openai:gpt-5-mini`, an entry of the group `beholder.judges`, or a provider that
    pydantic-ai knows; `instruments` is the judge that only measures. Settings may be given by keyword:
    `judge_from("openai:qwen", base_url="http://localhost:8000/v1")`.
    """
    settings = replace(settings or DEFAULT_SETTINGS, **given)
    if spec == INSTRUMENTS:
        from beholder.judges.offline.judge import InstrumentsJudge

        return InstrumentsJudge(settings)
    provider, model = split_spec(spec)
    made = load_plugin(provider)
    if made is None:
        from beholder.providers.pydantic_ai import make_pydantic_ai_judge

        return make_pydantic_ai_judge(provider, model, settings)
    return ModelJudge(made, model, settings) if isinstance(made, Provider) else made(model, settings)


def judge_identity(spec: str, base_url: str | None, params: Mapping[str, object], base_urls: Sequence[str] = ()) -> str:
    """The identity that the judge of that name would have; needs no key and asks nobody."""
    if spec == INSTRUMENTS:
        return judge_from(spec, base_url=base_url, params=params).identity
    made = load_plugin(split_spec(spec)[0])
    sizing = judge_sizing(spec, params)
    rest = {name: value for name, value in params.items() if name not in ("detail", "max_side")}
    if base_urls:
        return format_identity(spec, SEVERAL_BASE_URLS, rest, sizing.detail)
    if not isinstance(made, Provider):
        return format_identity(spec, base_url or "", rest, sizing.detail)
    elsewhere = base_url or os.environ.get(made.base_url_variable, "").strip()
    return format_identity(spec, normalize_base_url(elsewhere) if elsewhere else made.base_url, rest, sizing.detail)


def uses_custom_base_url(spec: str, base_url: str | None, base_urls: Sequence[str] = ()) -> bool:
    """Whether the judge of that name would be asked anywhere but at its provider's own address."""
    if spec == INSTRUMENTS:
        return False
    made = load_plugin(split_spec(spec)[0])
    if base_urls or not isinstance(made, Provider):
        return bool(base_urls or base_url)
    elsewhere = base_url or os.environ.get(made.base_url_variable, "").strip()
    return bool(elsewhere) and elsewhere.rstrip("/") != made.base_url


def judge_sizing(spec: str, params: Mapping[str, object]) -> Sizing:
    """How the judge of that name would want its pictures; needs no key and asks nobody."""
    if spec == INSTRUMENTS:
        return judge_from(spec, params=params).sizing
    provider, _ = split_spec(spec)
    made = load_plugin(provider)
    if isinstance(made, Provider):
        return split_image_params(params, made.sizing, made.details, made.name)[1]
    from beholder.providers.pydantic_ai import IMAGE_DETAILS

    return split_image_params(params, DEFAULT_SIZING, IMAGE_DETAILS, provider)[1]


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


def load_plugin(provider: str) -> Provider | Callable[[str, JudgeSettings], Judge] | None:
    """What the entry point of that name loads; `None` where there is none."""
    return next((entry.load() for entry in entry_points(group=ENTRY_POINT_GROUP) if entry.name == provider), None)


def parse_param(text: str) -> tuple[str, object]:
    """`NAME=VALUE` as a parameter; the value is read as JSON where it is JSON (`0.2`, `true`, `[…]`), else as text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise SetupError(f"'{text}' is no parameter; write NAME=VALUE, for example temperature=0.")
    try:
        return name.strip(), json.loads(value, parse_constant=_reject_constant)
    except ValueError:
        return name.strip(), value


def _reject_constant(text: str) -> object:
    raise ValueError(text)
