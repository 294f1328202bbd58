"""A vision-language model as judge: asked live (`ModelJudge`), or by batch from the answers of submitted jobs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from beholder.errors import SetupError, Unreachable, Waiting
from beholder.images.image import Sizing
from beholder.judges.base import Capabilities, CostBound, ReserveCall, reserve_nothing
from beholder.providers import retry
from beholder.providers.base import (
    DEFAULT_SETTINGS,
    EMPTY_BRIEF,
    ChatRequest,
    HttpRequest,
    HttpResponse,
    JudgeSettings,
    Provider,
    apply_sample_seed,
    format_identity,
    log_request,
    split_image_params,
)
from beholder.providers.endpoint import check_key_transport, choose_api_key, resolve_base_urls
from beholder.providers.http import HttpClient, find_request_id
from beholder.providers.load_balancer import LoadBalancer
from beholder.providers.payload import MIN_KEY_CHARACTERS, MalformedReplyError, redact, remove_api_keys, shorten
from beholder.providers.prices import TIER_PARAMETERS, answer_cost
from beholder.providers.schema_support import SchemaSupport, finish_answer
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import Answer, BatchReply, BatchStage, Finish, Turn

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
            self._key, key_source = choose_api_key(provider, settings, self.base_url)
        self._secrets = (self._key,) if self._key else ()
        for url in urls if len(self._key or "") >= MIN_KEY_CHARACTERS else ():
            check_key_transport(self.name, url, settings)
        native = (provider.parameter_names.get(name) or name for name in self.params)
        self._target = retry.CallTarget(
            self.name,
            model,
            self.base_url,
            key_source,
            provider.key_variables if settings.send_provider_key else (),
            (*self.params, *native),
        )
        timeouts = {"timeout_s": settings.timeout_s, "connect_timeout_s": settings.connect_timeout_s}
        self._servers = LoadBalancer([HttpClient(url, **timeouts) for url in urls], settings.clock)
        self.schema_support = SchemaSupport(settings.structured_output == "auto")
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
        send = partial(self._send_once, request, set[str]())
        return await self.schema_support.ask(send, brief, self.settings.retrier(brief))

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
            raise retry.RetryableError(
                f"{name or self.name} sent a reply that is not of its form ({reason})."
            ) from None
        return replace(
            answer,
            text=remove_api_keys(answer.text, self._secrets),
            model=remove_api_keys(answer.model, self._secrets) if answer.model else None,
            cost_usd=self._cost(answer, batch),
            latency_s=latency_s,
            detail=redact(answer.detail, self._secrets),
        )

    def error_for(self, response: HttpResponse, structured: bool, target: retry.CallTarget | None = None) -> Exception:
        """Return the exception for a response without an answer.

        Args:
            response: a redirect or an error.
            structured: whether structured output was asked for.
            target: the server to name in the message, if it is not the judge's only one.
        """
        target = target or self._target
        if 300 <= response.status < 400:
            return SetupError(
                f"{target.url} redirects {_describe_location(response.headers.get('location', ''))}; redirects are not "
                "followed: set the base URL to the right place."
            )
        return retry.classify_error(
            response.status,
            retry.parse_error_body(response.body, self._secrets),
            target,
            structured=structured,
            retry_after=retry.parse_retry_after(response.headers),
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

    async def _send_once(self, request: ChatRequest, tried: set[str], structured: bool) -> Answer:
        """Send one request to one server; `tried` are the base URLs that it was sent to before."""
        async with self._servers.pick(tried) as server:
            http_request = self.provider.build_request(
                replace(request, base_url=server.base_url, structured=structured)
            )
            started = time.perf_counter()
            response = await server.post(http_request)
            latency_s = time.perf_counter() - started
            target = self._target
            if self.settings.base_urls:
                target = replace(target, name=f"{self.name} at {server.base_url}", url=server.base_url)
            request_id = redact(find_request_id(response.headers), self._secrets)
            if not 200 <= response.status < 300:
                log_request(target.name, request.brief, response.status, latency_s, request_id)
                raise self.error_for(response, structured, target)
            answer = self.parse_answer(response.body, latency_s, name=target.name)
            log_request(target.name, request.brief, response.status, latency_s, request_id, answer)
            return answer

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


def _describe_location(location: str) -> str:
    """Return where a redirect goes. Only the host: the rest may hold secrets."""
    try:
        parts = urlsplit(location)
        host = parts.hostname
    except ValueError:
        return "to an address that is none"
    return f"to {parts.scheme}://{host}" if host else "elsewhere on the same server"


class BatchQueue(Protocol):
    """Requests of one judge until they are submitted, and their replies until there is a verdict."""

    async def find(self, key: bytes) -> BatchReply | None:
        """Return the stage and reply of the request with that key; `None` where it was never queued."""

    async def put(self, key: bytes, tries: int, request: HttpRequest, max_usd: Decimal) -> None:
        """Queue a request for the next job.

        Args:
            key: identifies it.
            tries: how often it will have been submitted.
            request: what to send.
            max_usd: what it may cost at most.

        Raises:
            OverBudget: that is more than is left.
        """

    def mark_used(self, brief_digest: str, key: bytes) -> None:
        """Record that an answer to this brief comes from the reply of that key."""


@dataclass(frozen=True, slots=True)
class _Question:
    """One question of a conversation. `repeat` counts how often the conversation has asked the same before."""

    brief: Brief
    sample: int
    earlier: Sequence[Turn]
    max_tokens: int | None
    digest: bytes
    repeat: int

    @property
    def is_first(self) -> bool:
        return not (self.repeat or self.earlier or self.max_tokens is not None)

    def key(self, structured: bool) -> bytes:
        return hashlib.sha256(self.digest + bytes((structured,)) + self.repeat.to_bytes(4)).digest()[:16]


class BatchJudge:
    """A model judge that is asked by batch. `answer` raises `Waiting` where the answer is not there yet.

    A request that failed with an error that is retried live is submitted again, up to the same number of retries.

    Args:
        judge: the model.
        queue: its requests and replies.
        cost_bound: what a request may cost at most, and the limit of tokens for which that is true. The limit is sent
            and is not part of the key, so that a budget may change while requests are in progress.
        ask_again: ask again what has had a verdict or was canceled; without it such a case stays `Waiting`.
        retry_setup_errors: ask again what failed for a reason that a user may have corrected.
        repair_live: ask all questions of a conversation but the first (repair, longer answer, empty answer) live.
        reserve: reserves the cost of these live calls.
    """

    capabilities = Capabilities(answers_later=True)

    def __init__(
        self,
        judge: ModelJudge,
        queue: BatchQueue,
        *,
        cost_bound: CostBound | None = None,
        ask_again: bool = False,
        retry_setup_errors: bool = False,
        repair_live: bool = False,
        reserve: ReserveCall = reserve_nothing,
    ) -> None:
        self.judge = judge
        self._queue = queue
        self._begins_structured = judge.settings.structured_output == "auto"
        self._cost_bound = cost_bound
        self._ask_again, self._retry_setup_errors = ask_again, retry_setup_errors
        self._repair_live, self._reserve = repair_live, reserve
        # Each conversation is a task of its own (`runs.case`). It asks the same again where an answer was empty: that
        # is another request.
        self._asked: WeakKeyDictionary[asyncio.Task[object], Counter[bytes]] = WeakKeyDictionary()

    @property
    def name(self) -> str:
        return self.judge.name

    @property
    def identity(self) -> str:
        return self.judge.identity

    @property
    def sizing(self) -> Sizing:
        return self.judge.sizing

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """Return the answer to a request that has its reply.

        Raises:
            Waiting: there is none yet; the request was queued, or is in a job.
            Unreachable: it failed for good, or too often.
            SetupError: it was refused for a reason that a user has to correct.
            OverBudget: it cannot be queued.
        """
        digest = digest_question(self.identity, brief, sample, earlier, max_tokens)
        question = _Question(brief, sample, earlier, max_tokens, digest, self._count_question(digest))
        if self._repair_live and not question.is_first:
            async with self._reserve(brief, earlier, max_tokens) as call:
                answer = await self.judge.answer(brief, sample=sample, earlier=earlier, max_tokens=call.max_tokens)
                call.cost_usd = answer.cost_usd
            return answer
        structured = brief.schema is not None and self._begins_structured
        reply = await self._find_reply(question, structured)
        attempts = reply.tries
        try:
            answer = await self._parse_reply(question, reply, structured, attempts)
        except retry.NoStructuredOutputError:
            structured = False
            reply = await self._find_reply(question, structured)
            attempts += reply.tries
            answer = await self._parse_reply(question, reply, structured, attempts)
        return finish_answer(answer, attempts, brief, structured or brief.schema is None)

    async def aclose(self) -> None:
        await self.judge.aclose()

    async def _find_reply(self, question: _Question, structured: bool) -> BatchReply:
        """Return the reply to a request, which is used from now on; queue a new request; raise `Waiting`."""
        key = question.key(structured)
        found = await self._queue.find(key)
        # A conversation comes to a second question, or a second form of it, only after a new answer to the first.
        is_fallback = self._begins_structured and not structured and question.brief.schema is not None
        again = self._ask_again or not question.is_first or is_fallback
        if found is None or (found.stage in (BatchStage.USED, BatchStage.CANCELED) and again):
            raise await self._enqueue(question, structured, 1)
        if found.stage in (BatchStage.PENDING, BatchStage.USED, BatchStage.CANCELED):
            raise Waiting(f"the answer of {self.name} is awaited")
        self._queue.mark_used(question.brief.digest, key)
        return found

    async def _parse_reply(self, question: _Question, reply: BatchReply, structured: bool, attempts: int) -> Answer:
        """Return the answer in a reply; queue the request again where that can help."""
        try:
            if reply.stage is BatchStage.ANSWERED:
                return self.judge.parse_answer(reply.body.encode(), batch=True)
            if reply.stage is BatchStage.ERRORED:
                raise self.judge.error_for(HttpResponse(reply.status, {}, reply.body.encode()), structured)
            raise retry.RetryableError(f"{self.name} did not come to the request in time.")
        except retry.FilteredRequestError as error:
            return Answer("", finish=Finish.FILTERED, detail=str(error))
        except SetupError:
            if not self._retry_setup_errors:
                raise
            raise await self._enqueue(question, structured, 1) from None
        except retry.PermanentError as error:
            raise Unreachable(str(error), attempts) from None
        except retry.RetryableError as error:
            if reply.tries > self.judge.settings.retries:
                raise Unreachable(f"{error} Submitted {reply.tries} times.", attempts) from None
            raise await self._enqueue(question, structured, reply.tries + 1) from None

    async def _enqueue(self, question: _Question, structured: bool, tries: int) -> Waiting:
        """Queue a request for the next job, and return what to raise."""
        max_usd, limit = Decimal(0), question.max_tokens
        if self._cost_bound:
            max_usd, limit = self._cost_bound(question.brief, question.earlier, question.max_tokens)
        request = self.judge.build_request(
            question.brief, structured, sample=question.sample, earlier=question.earlier, max_tokens=limit
        )
        await self._queue.put(question.key(structured), tries, request, max_usd)
        return Waiting(f"{self.name} is asked in the next batch")

    def _count_question(self, digest: bytes) -> int:
        """Return how often this conversation has asked this question before."""
        task = asyncio.current_task()
        assert task is not None
        asked = self._asked.setdefault(task, Counter())
        asked[digest] += 1
        return asked[digest] - 1


def digest_question(identity: str, brief: Brief, sample: int, earlier: Sequence[Turn], max_tokens: int | None) -> bytes:
    """Return a digest that identifies a question."""
    turns = [(turn.answer, turn.reply) for turn in earlier]
    parts = json.dumps([brief.digest, identity, sample, turns, max_tokens])
    return hashlib.sha256(parts.encode()).digest()
