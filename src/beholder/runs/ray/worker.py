"""How a worker keeps its share of the cases under way, and lets a case be alone.

The money of a worker.

A worker: an actor of Ray Data that judges chunks of cases in one event loop. Runs on the nodes of the cluster.
"""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from beholder.errors import OverBudget
from beholder.judges.base import Judge
from beholder.ledger.types import AnswerKey, Entry, StoredAnswer
from beholder.runs.case import describe_judges
from beholder.runs.image_pool import ImagePool, ThumbnailMaker
from beholder.runs.ledger_access import CallCoalescer
from beholder.runs.limits import AdaptiveLimiter, Budget, RunLimits, make_judges
from beholder.runs.ray.messages import (
    CHUNK_COLUMN,
    MAX_ATTEMPTS,
    WORKER_PREPARE_AHEAD,
    CaseMessage,
    StartDecision,
    TaskChunk,
    WorkerSetup,
    WorkerShare,
    pickle_error,
    to_pickle,
)
from beholder.verdicts.score import VerdictHeader
from beholder.verdicts.verdict import Outcome

if TYPE_CHECKING:
    import pyarrow
    from ray.actor import ActorHandle


class ResizableSemaphore(asyncio.Semaphore):
    """A semaphore whose size may change. Made smaller, it lets those who are inside finish."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size
        self.inside = 0
        self._owed = 0

    def resize(self, size: int) -> None:
        change, self.size = size - self.size, size
        forgiven = min(max(change, 0), self._owed)
        self._owed -= forgiven
        for _ in range(max(change, 0) - forgiven):
            super().release()
        for _ in range(max(-change, 0)):
            if self._value > 0:
                self._value -= 1
            else:
                self._owed += 1

    async def acquire(self) -> Literal[True]:
        await super().acquire()
        self.inside += 1
        return True

    def release(self) -> None:
        self.inside -= 1
        if self._owed:
            self._owed -= 1
        else:
            super().release()


class SharedExclusiveLock:
    """Many may be in it together, or one alone. Who waits to be alone goes before those who come later."""

    def __init__(self) -> None:
        self._change = asyncio.Condition()
        self._together = 0
        self._waiting = 0
        self._taken = False

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        async with self._change:
            await self._change.wait_for(lambda: not self._taken and not self._waiting)
            self._together += 1
        try:
            yield
        finally:
            async with self._change:
                self._together -= 1
                self._change.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        async with self._change:
            self._waiting += 1
            try:
                await self._change.wait_for(lambda: not self._taken and not self._together)
                self._taken = True
            finally:
                self._waiting -= 1
                self._change.notify_all()
        try:
            yield
        finally:
            async with self._change:
                self._taken = False
                self._change.notify_all()


ReserveRemotely = Callable[[Sequence[Decimal], Decimal], Awaitable[Sequence[str]]]


class RemoteBudget(Budget):
    """A budget that owns nothing: for each call it asks the driver for what that may cost at most, together with all
    other calls of the moment, and what the call did not come to is given back.

    `ask` takes such amounts and what is given back; for each amount it returns why it is refused, empty where it is
    not.
    """

    def __init__(self, limit: Decimal | None, ask: ReserveRemotely) -> None:
        super().__init__(limit)
        self._back = Decimal(0)
        self._wishes: CallCoalescer[Decimal, str] = CallCoalescer(lambda amounts: ask(amounts, self.given_back()))

    async def reserve(self, amount: Decimal) -> None:
        if refusal := await self._wishes.call(amount):
            raise OverBudget(refusal)
        self.reserved += amount

    def settle(self, amount: Decimal, cost: Decimal | None) -> None:
        super().settle(amount, cost)
        self._back += Decimal(0) if cost is None else amount - cost

    def given_back(self) -> Decimal:
        """What calls did not come to since this was last asked; whoever asks brings it back."""
        back, self._back = self._back, Decimal(0)
        return back


class RayWorker:
    """What Ray Data makes once in each actor and calls with one chunk at a time, several at once, all of them in the
    one event loop that it keeps for it."""

    def __init__(self, office: ActorHandle[Any], recipe: bytes) -> None:
        self._office = office
        self._recipe = recipe
        self._bench: asyncio.Task[WorkerRuntime] | None = None

    async def __call__(self, batch: pyarrow.Table) -> dict[str, list[int]]:
        chunk: TaskChunk = pickle.loads(batch.column(CHUNK_COLUMN)[0].as_py())
        try:
            if self._bench is None:  # not in __init__: the loop runs only from now on
                self._bench = asyncio.create_task(WorkerRuntime.set_up(self._office, pickle.loads(self._recipe)))
            bench = await asyncio.shield(self._bench)
            await bench.judge(chunk)
        except Exception as error:
            await self._office.fail.remote(pickle_error(error))
        return {"number": [chunk.number]}


class WorkerRuntime:
    """A worker at work: its judges, its pictures, and its share of what all workers may use."""

    def __init__(self, name: str, office: ActorHandle[Any], recipe: WorkerSetup) -> None:
        self._name = name
        self._office = office
        self._work = recipe.work
        self.pictures = ImagePool(allow_remote=recipe.suite.allow_remote, workers=1)
        self._drawn = ThumbnailMaker(self.pictures, lambda digests: office.has_thumbnail.remote(digests))
        purse = RemoteBudget(recipe.suite.budget_usd(), lambda amounts, back: office.more.remote(amounts, back))
        limits = RunLimits(purse)
        self.judges: list[Judge] = make_judges(recipe.suite, limits)
        self._limiters = [limiter for limiter in limits.limiters if isinstance(limiter, AdaptiveLimiter)]
        self._slots, self._ahead = ResizableSemaphore(0), ResizableSemaphore(0)
        self._room = SharedExclusiveLock()
        self._begins: CallCoalescer[tuple[int, bool], StartDecision] = CallCoalescer(
            lambda jobs: office.begin.remote(name, jobs)
        )
        self._ends: CallCoalescer[tuple[int, bytes], None] = CallCoalescer(
            lambda done: office.end.remote(done, purse.given_back())
        )
        self._recalls: CallCoalescer[Sequence[AnswerKey], Mapping[AnswerKey, StoredAnswer]] = CallCoalescer(
            self._recall_all
        )
        self._case_judge = self._work.make_case_judge(
            self.judges, self.pictures, self._recalls.call, self._slots, limits.reserve
        )
        self._share = WorkerShare(-1, 0, 0.0)
        self._under_way: set[asyncio.Task[None]] = set()
        self._living: asyncio.Task[None] | None = None

    @classmethod
    async def set_up(cls, office: ActorHandle[Any], recipe: WorkerSetup) -> WorkerRuntime:
        """Raises what a judge that cannot be made here raises."""
        import ray

        with suppress(OSError):  # paths that are relative are so to where the driver is
            os.chdir(recipe.folder)
        here = ray.get_runtime_context()
        # The driver's keys and addresses, since they decide which answers are the same. They go into the environment,
        # where judges look for them; the process that decodes pictures inherits it, and nobody else.
        name = secrets.token_hex(8)
        os.environ.update(await office.enter.remote(name, here.get_node_id(), here.get_actor_id()))
        bench = cls(name, office, recipe)
        bench._living = asyncio.create_task(bench.live())
        return bench

    async def judge(self, chunk: TaskChunk) -> None:
        tasks = [asyncio.create_task(self._one(job)) for job in chunk.jobs]
        self._under_way.update(tasks)
        try:
            await asyncio.gather(*tasks)
        except asyncio.CancelledError:
            if not self._share.cancelled:
                raise
        finally:
            for task in tasks:
                task.cancel()
            self._under_way.difference_update(tasks)

    async def live(self) -> None:
        """Keeps to the share that the office allows. What it cannot go on with ends the run."""
        try:
            await self._keep_to_share()
        except Exception as error:
            await self._office.fail.remote(pickle_error(error))

    async def _keep_to_share(self) -> None:
        while True:
            share = await self._office.share.remote(self._name, self._slots.inside, self._share.version)
            self._share = share
            self._slots.resize(share.slots)
            self._ahead.resize(math.ceil(share.slots * (1 + WORKER_PREPARE_AHEAD)))
            for limiter in self._limiters:
                limiter.set_share(share.part)
                limiter.resize(share.slots)
            if share.cancelled:
                for task in self._under_way:
                    task.cancel()

    async def _one(self, job: CaseMessage) -> None:
        async with self._ahead:
            if self._share.halted:
                return
            async with self._room.together():
                leave = await self._begins.call((job.number, False))
                if leave is StartDecision.GO:
                    await self._do(job)
            if leave is StartDecision.ALONE:
                async with self._room.alone():
                    leave = await self._begins.call((job.number, True))
                    if leave is StartDecision.GO:
                        await self._do(job)
            if leave is StartDecision.LOST:
                await self._ends.call((job.number, to_pickle(self._given_up(job))))

    async def _do(self, job: CaseMessage) -> None:
        work = self._work
        entry = await self._case_judge.judge(work.composers[job.rubric], job.case)
        drawn = await self._drawn.make(job.case, entry.verdict.images) if work.thumbnails else ()
        entry = replace(entry, position=job.position, thumbnails=drawn)
        await self._ends.call((job.number, to_pickle(entry)))

    def _given_up(self, job: CaseMessage) -> Entry:
        rubric = self._work.composers[job.rubric].rubric_for(job.case)
        judge = describe_judges(self.judges, self._work.samples)
        detail = f"the worker that judged it died, {MAX_ATTEMPTS} times in a row; it may not fit into memory"
        return Entry(
            job.position, job.case, VerdictHeader(job.case.id, rubric, judge).make_verdict(Outcome.INTERRUPTED, detail)
        )

    async def _recall_all(self, wanted: Sequence[Sequence[AnswerKey]]) -> Sequence[Mapping[AnswerKey, StoredAnswer]]:
        found = await self._office.recall.remote([key for keys in wanted for key in keys])
        return [found] * len(wanted)
