"""A vision-language model as judge."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from urllib.parse import urlsplit

from beholder.errors import SetupError, Unreachable
from beholder.providers.base import (
    DEFAULT_SETTINGS,
    EMPTY_BRIEF,
    ChatRequest,
    HttpRequest,
    HttpResponse,
    JudgeSettings,
    Provider,
    apply_sample_seed,
    find_api_key,
    finish_answer,
    format_identity,
    resolve_base_urls,
    split_image_params,
)
from beholder.providers.http import HttpClient
from beholder.providers.load_balancer import LoadBalancer
from beholder.providers.payload import MalformedReplyError, redact, remove_api_keys, shorten
from beholder.providers.prices import TIER_PARAMETERS, answer_cost
from beholder.providers.retry import (
    CallTarget,
    FilteredRequestError,
    NoStructuredOutputError,
    PermanentError,
    RetryableError,
    classify_error,
    parse_error_body,
    parse_retry_after,
)
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import Answer, Finish, Turn

SEVERAL_BASE_URLS = "base_urls"  # in place of the base URL in the identity of a judge with several


class ModelJudge:
    """A model at a provider.

    Args:
        provider: the protocol.
        model: the model's name.
        settings: what the user set.
        key: API key; takes precedence over the environment.

    Raises:
        SetupError: a key, base URL or parameter cannot work.
    """

    def __init__(
        self, provider: Provider, model: str, settings: JudgeSettings = DEFAULT_SETTINGS, *, key: str | None = None
    ) -> None:
        self.provider, self.model, self.settings = provider, model, settings
        urls = resolve_base_urls(provider, settings)
        self.base_url = urls[0]
        self.params, self.sizing = split_image_params(
            settings.params, provider.sizing, provider.image_details, provider.name
        )
        self._key, key_source = key, "the program"
        if key is None:
            needed = not (provider.key_optional and self.base_url != provider.base_url)
            self._key, key_source = find_api_key(provider, settings.key_variable, needed=needed)
        self._secrets = (self._key,) if self._key else ()
        native = (provider.parameter_names.get(name) or name for name in self.params)
        self._target = CallTarget(
            self.name, model, self.base_url, key_source, provider.key_variables, (*self.params, *native)
        )
        timeouts = {"timeout_s": settings.timeout_s, "connect_timeout_s": settings.connect_timeout_s}
        self._servers = LoadBalancer([HttpClient(url, **timeouts) for url in urls], settings.clock)
        self._structured_output = True  # until the server says that it has none
        # Parameters that cannot be sent are reported now, not at the first case.
        self.build_request(EMPTY_BRIEF, True)

    def __repr__(self) -> str:
        return f"ModelJudge({self.name!r}, base_url={self.base_url!r})"

    @property
    def name(self) -> str:
        return f"{self.provider.name}:{self.model}"

    @property
    def identity(self) -> str:
        place = SEVERAL_BASE_URLS if self.settings.base_urls else self.base_url
        return format_identity(self.name, place, self.params, self.sizing.detail)

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """Ask the model, with retries. `latency_s` is that of the request that was answered.

        A server without structured output gets the schema in the system message from then on, and its answers have the
        flag `structured_output_unavailable`. A `seed` among the parameters is increased by the sample.

        Raises:
            SetupError: the model can never answer: wrong key, model, base URL or parameter.
            Unreachable: it could not answer this time.
        """
        request = self._chat_request(brief, sample, earlier, max_tokens)
        retrier = self.settings.retrier(brief)
        structured_output = self._structured_output
        tried: set[str] = set()
        while True:
            request = replace(request, structured=structured_output and brief.schema is not None)
            try:
                answer = await retrier.call(self._send_once, request, tried)
                break
            except NoStructuredOutputError:
                structured_output = False
            except FilteredRequestError as error:
                answer = Answer("", finish=Finish.FILTERED, detail=str(error))
                break
            except PermanentError as error:
                raise Unreachable(str(error), retrier.attempts) from None
        self._structured_output = self._structured_output and structured_output
        return finish_answer(answer, retrier.attempts, brief, structured_output)

    async def aclose(self) -> None:
        await self._servers.aclose()

    def remove_api_keys(self, text: str) -> str:
        """Return a text without this judge's key."""
        return remove_api_keys(text, self._secrets)

    def build_request(
        self,
        brief: Brief,
        structured: bool,
        *,
        sample: int = 0,
        earlier: Sequence[Turn] = (),
        max_tokens: int | None = None,
    ) -> HttpRequest:
        """Return the request that `answer` sends, with structured output or without."""
        request = self._chat_request(brief, sample, earlier, max_tokens)
        return self.provider.build_request(replace(request, structured=structured))

    def parse_answer(self, body: bytes, latency_s: float = 0.0, *, batch: bool = False, name: str = "") -> Answer:
        """Return the answer in a reply, without keys, with its cost and latency.

        Args:
            body: the reply.
            latency_s: how long it took.
            batch: whether it came in a batch, where prices differ.
            name: of the server, for the error message; the judge's by default.

        Raises:
            RetryableError: there is no answer in it.
        """
        try:
            answer = self.provider.parse_reply(body)
        except MalformedReplyError as error:
            reason = shorten(redact(str(error), self._secrets))
            raise RetryableError(f"{name or self.name} sent a reply that is not of its form ({reason}).") from None
        return replace(
            answer,
            text=remove_api_keys(answer.text, self._secrets),
            model=remove_api_keys(answer.model, self._secrets) if answer.model else None,
            cost_usd=self._cost(answer, batch),
            latency_s=latency_s,
            detail=redact(answer.detail, self._secrets),
        )

    def error_for(self, response: HttpResponse, structured: bool, target: CallTarget | None = None) -> Exception:
        """Return the exception for a response without an answer.

        Args:
            response: a redirect or an error.
            structured: whether structured output was asked for.
            target: the server to name in the message, if it is not the judge's only one.
        """
        target = target or self._target
        if 300 <= response.status < 400:
            location = urlsplit(response.headers.get("location", ""))
            # Only the host: the rest of the location may hold secrets.
            where = (
                f"to {location.scheme}://{location.hostname}" if location.hostname else "elsewhere on the same server"
            )
            return SetupError(
                f"{target.url} redirects {where}; redirects are not followed: set the base URL to the right place."
            )
        return classify_error(
            response.status,
            parse_error_body(response.body, self._secrets),
            target,
            structured=structured,
            retry_after=parse_retry_after(response.headers),
        )

    def _chat_request(self, brief: Brief, sample: int, earlier: Sequence[Turn], max_tokens: int | None) -> ChatRequest:
        return ChatRequest(
            brief,
            self.model,
            self.base_url,
            self._key,
            apply_sample_seed(self.params, sample),
            earlier,
            max_tokens,
            detail=self.sizing.detail,
        )

    async def _send_once(self, request: ChatRequest, tried: set[str]) -> Answer:
        """Send one request to one server; `tried` are the base URLs that it was sent to before."""
        async with self._servers.pick(tried) as server:
            http_request = self.provider.build_request(replace(request, base_url=server.base_url))
            started = time.perf_counter()
            response = await server.post(http_request)
            latency_s = time.perf_counter() - started
            target = self._target
            if self.settings.base_urls:
                target = replace(target, name=f"{self.name} at {server.base_url}", url=server.base_url)
            if not 200 <= response.status < 300:
                raise self.error_for(response, request.structured, target)
            return self.parse_answer(response.body, latency_s, name=target.name)

    def _cost(self, answer: Answer, batch: bool) -> Decimal | None:
        given = self.settings.price
        if given is None and (self.base_url != self.provider.base_url or TIER_PARAMETERS & self.params.keys()):
            return None
        # The model that answered may be a dated version that the price list does not have.
        costs = (
            answer_cost(self.provider.name, model, answer.usage, given=given, batch=batch)
            for model in (answer.model, self.model)
            if model
        )
        return next((cost for cost in costs if cost is not None), None)
