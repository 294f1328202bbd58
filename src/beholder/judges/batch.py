"""A model judge that is asked by batch: answers come from submitted jobs, new questions go into the next one."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol
from weakref import WeakKeyDictionary

from beholder.errors import SetupError, Unreachable, Waiting
from beholder.images.image import Sizing
from beholder.judges.base import Capabilities, CostBound, ReserveCall, reserve_nothing
from beholder.judges.model import ModelJudge
from beholder.providers.base import HttpRequest, HttpResponse, finish_answer
from beholder.providers.retry import FilteredRequestError, NoStructuredOutputError, PermanentError, RetryableError
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import Answer, BatchReply, BatchStage, Finish, Turn


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
        structured = brief.schema is not None
        reply = await self._find_reply(question, structured)
        attempts = reply.tries
        try:
            answer = await self._parse_reply(question, reply, structured, attempts)
        except NoStructuredOutputError:
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
        again = self._ask_again or not question.is_first or (not structured and question.brief.schema is not None)
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
            raise RetryableError(f"{self.name} did not come to the request in time.")
        except FilteredRequestError as error:
            return Answer("", finish=Finish.FILTERED, detail=str(error))
        except SetupError:
            if not self._retry_setup_errors:
                raise
            raise await self._enqueue(question, structured, 1) from None
        except PermanentError as error:
            raise Unreachable(str(error), attempts) from None
        except RetryableError as error:
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
