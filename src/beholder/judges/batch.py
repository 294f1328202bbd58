"""A judge that answers from what came back with its batches, and hands in what has not been asked yet."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol
from weakref import WeakKeyDictionary

from beholder.errors import SetupError, Unreachable, Waiting
from beholder.images.image import Sizing
from beholder.judges.base import CostBound, Judge
from beholder.judges.model import ModelJudge
from beholder.providers.base import HttpRequest, ask_with_schema_fallback
from beholder.providers.http import HttpResponse
from beholder.providers.retry import PermanentError, Retrier, RetryableError
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import Answer, BatchReply, BatchStage, Turn


class BatchQueue(Protocol):
    """Where requests of one judge lie until they are handed in, and their replies until there is a verdict."""

    async def find(self, key: bytes) -> BatchReply | None: ...

    async def put(self, key: bytes, tries: int, request: HttpRequest, most_usd: Decimal) -> None:
        """For the next job. Raises `OverBudget`."""

    def used(self, brief_digest: str, key: bytes) -> None:
        """An answer to this brief comes from this reply."""


class BatchJudge:
    """A model judge, asked by batch. Raises `Waiting` where the answer is not there yet.

    What failed in a way that a live request would be sent again for is handed in again, as often as that would be.
    `anew` asks again what there has been a verdict by, or what was cancelled: without it such a case stays as it is,
    which is `Waiting`, too. `mended` also asks again what was refused for a reason that a person may have mended.
    `live`, if given, answers what is not the first question of a talk: repairs, more room, an empty answer. `most` says
    what a request may cost and the limit of tokens under which that is true; the limit is sent, and is no part of the
    key, so that a budget may change while requests are under way.
    """

    answers_later = True

    def __init__(
        self,
        judge: ModelJudge,
        tray: BatchQueue,
        *,
        most: CostBound | None = None,
        anew: bool = False,
        mended: bool = False,
        live: Judge | None = None,
    ) -> None:
        self.judge = judge
        self._tray = tray
        self._most = most
        self._anew, self._mended = anew, mended
        self._live = live
        # Each talk is a task of its own (`runs.judging`), and asks the same again where an answer was empty: that is
        # another request.
        self._talks: WeakKeyDictionary[asyncio.Task[object], Counter[bytes]] = WeakKeyDictionary()

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
        question = request_key(self.identity, brief, sample, earlier, max_tokens)
        before = self._asked_before(question)
        later = bool(before or earlier or max_tokens is not None)
        if self._live is not None and later:
            return await self._live.answer(brief, sample=sample, earlier=earlier, max_tokens=max_tokens)
        settings = self.judge.settings
        patience = Retrier(settings.retries, settings.sleep, settings.random)  # counts what was sent

        async def ask(structured: bool) -> Answer:
            key = hashlib.sha256(question + bytes((structured,)) + before.to_bytes(4)).digest()[:16]

            async def hand_in(tries: int) -> Waiting:
                most, limit = self._most(brief, earlier, max_tokens) if self._most else (Decimal(0), max_tokens)
                request = self.judge.request(brief, structured, sample=sample, earlier=earlier, max_tokens=limit)
                await self._tray.put(key, tries, request, most)
                return Waiting(f"{self.name} is asked in the next batch")

            kept = await self._tray.find(key)
            # Whoever comes to a second question had a new answer to the first.
            anew = self._anew or later or (not structured and brief.schema is not None)
            if kept is None or (kept.stage in (BatchStage.USED, BatchStage.CANCELED) and anew):
                raise await hand_in(1)
            if kept.stage in (BatchStage.PENDING, BatchStage.USED, BatchStage.CANCELED):
                raise Waiting(f"the answer of {self.name} is awaited")
            patience.attempts += kept.tries
            self._tray.used(brief.digest, key)
            try:
                return self._heard(kept, structured)
            except SetupError:
                if not self._mended:
                    raise
                raise await hand_in(1) from None
            except PermanentError as never:
                raise Unreachable(str(never), patience.attempts) from None
            except RetryableError as again:
                if kept.tries > settings.retries:
                    raise Unreachable(f"{again} Handed in {kept.tries} times.", patience.attempts) from None
                raise await hand_in(kept.tries + 1) from None

        return (await ask_with_schema_fallback(ask, patience, brief, True))[0]

    async def aclose(self) -> None:
        await self.judge.aclose()

    def _heard(self, kept: BatchReply, structured: bool) -> Answer:
        """The answer, or the exception that the end of the request amounts to."""
        if kept.stage is BatchStage.ANSWERED:
            return self.judge.read(kept.body.encode(), batch=True)
        if kept.stage is BatchStage.ERRORED:
            raise self.judge.fault(HttpResponse(kept.status, {}, kept.body.encode()), structured)
        raise RetryableError(f"{self.name} did not come to the request in time.")

    def _asked_before(self, question: bytes) -> int:
        """How often this talk has asked this already."""
        task = asyncio.current_task()
        assert task is not None
        asked = self._talks.setdefault(task, Counter())
        asked[question] += 1
        return asked[question] - 1


def request_key(identity: str, brief: Brief, sample: int, earlier: Sequence[Turn], max_tokens: int | None) -> bytes:
    """What tells a question from every other."""
    turns = [(turn.answer, turn.reply) for turn in earlier]
    parts = json.dumps([brief.digest, identity, sample, turns, max_tokens])
    return hashlib.sha256(parts.encode()).digest()
