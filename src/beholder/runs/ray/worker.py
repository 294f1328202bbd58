"""A worker of a run on Ray: an actor of Ray Data on a node of the cluster that judges chunks in one event loop.

Beside it: how a worker keeps to its share of the cases at once (`ResizableSemaphore`), judges a case while nothing else
is in progress (`SharedExclusiveLock`), and gets money from the driver (`RemoteBudget`).
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
from beholder.runs.image_pool import ImagePool, ThumbnailSelector
from beholder.runs.ledger_access import CallCoalescer
from beholder.runs.limits import AdaptiveLimiter, Budget, RunLimits
from beholder.runs.ray.coordinator import (
    CHUNK_COLUMN,
    MAX_ATTEMPTS,
    WORKER_PREPARE_AHEAD,
    CaseMessage,
    ProcessIdentity,
    StartDecision,
    TaskChunk,
    WorkerSetup,
    WorkerShare,
    identify_process,
    pickle_error,
    to_pickle,
)
from beholder.runs.suite_judges import make_judges
from beholder.verdicts.score import VerdictHeader
from beholder.verdicts.verdict import Outcome

if TYPE_CHECKING:
    import pyarrow
    from ray.actor import ActorHandle


class ResizableSemaphore(asyncio.Semaphore):
    """A semaphore whose size may change. Made smaller, it lets those that have acquired it finish."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size
        self.acquired = 0
        self._excess = 0  # acquired beyond the size, after it was made smaller

    def resize(self, size: int) -> None:
        change, self.size = size - self.size, size
        covered = min(max(change, 0), self._excess)
        self._excess -= covered
        for _ in range(max(change, 0) - covered):
            super().release()
        for _ in range(max(-change, 0)):
            if self._value > 0:
                self._value -= 1
            else:
                self._excess += 1

    async def acquire(self) -> Literal[True]:
        await super().acquire()
        self.acquired += 1
        return True

    def release(self) -> None:
        self.acquired -= 1
        if self._excess:
            self._excess -= 1
        else:
            super().release()


class SharedExclusiveLock:
    """A lock that many tasks share, or one has alone. A task that waits for it alone goes before later ones."""

    def __init__(self) -> None:
        self._change = asyncio.Condition()
        self._shared_count = 0
        self._waiting = 0
        self._exclusive = False

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        async with self._change:
            await self._change.wait_for(lambda: not self._exclusive and not self._waiting)
            self._shared_count += 1
        try:
            yield
        finally:
            async with self._change:
                self._shared_count -= 1
                self._change.notify_all()

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        async with self._change:
            self._waiting += 1
            try:
                await self._change.wait_for(lambda: not self._exclusive and not self._shared_count)
                self._exclusive = True
            finally:
                self._waiting -= 1
                self._change.notify_all()
        try:
            yield
        finally:
            async with self._change:
                self._exclusive = False
                self._change.notify_all()


ReserveRemotely = Callable[[Sequence[Decimal], Decimal], Awaitable[Sequence[str]]]


class RemoteBudget(Budget):
    """A budget without money of its own: requests from the driver what each call may cost, and returns what it did not
    use.

    `request` takes the amounts of all calls of the moment and what is returned; for each amount it returns why it is
    refused, empty where it is granted.
    """

    def __init__(self, limit: Decimal | None, request: ReserveRemotely) -> None:
        super().__init__(limit)
        self._unused = Decimal(0)
        self._requests: CallCoalescer[Decimal, str] = CallCoalescer(
            lambda amounts: request(amounts, self.take_unused())
        )

    async def reserve(self, amount: Decimal) -> None:
        if refusal := await self._requests.call(amount):
            raise OverBudget(refusal)
        self.reserved += amount

    def settle(self, amount: Decimal, cost: Decimal | None) -> None:
        super().settle(amount, cost)
        self._unused += Decimal(0) if cost is None else amount - cost

    def take_unused(self) -> Decimal:
        """Return what calls did not use since the last call of this method; the caller gives it back to the driver."""
        unused, self._unused = self._unused, Decimal(0)
        return unused


class RayWorker:
    """The callable of Ray Data: made once in each actor, called with one chunk at a time, several calls at once in one
    event loop."""

    def __init__(self, coordinator: ActorHandle[Any], setup: bytes) -> None:
        self._coordinator = coordinator
        self._setup = setup
        self._runtime: asyncio.Task[WorkerRuntime] | None = None

    async def __call__(self, batch: pyarrow.Table) -> dict[str, list[int]]:
        chunk: TaskChunk = pickle.loads(batch.column(CHUNK_COLUMN)[0].as_py())
        try:
            if self._runtime is None:  # not in __init__: the loop runs only from now on
                self._runtime = asyncio.create_task(WorkerRuntime.start(self._coordinator, pickle.loads(self._setup)))
            runtime = await asyncio.shield(self._runtime)
            await runtime.judge(chunk)
        except Exception as error:
            await self._coordinator.fail.remote(pickle_error(error))
        return {"number": [chunk.number]}


class WorkerRuntime:
    """The parts of a running worker: its judges, its images, and its share of the run's limits."""

    def __init__(self, name: str, coordinator: ActorHandle[Any], setup: WorkerSetup) -> None:
        self._name = name
        self._coordinator = coordinator
        self._settings = setup.settings
        self.images = ImagePool(allow_remote=setup.suite.allow_remote, workers=1)
        budget = RemoteBudget(
            setup.suite.budget_usd(), lambda amounts, unused: coordinator.request_funds.remote(amounts, unused)
        )
        limits = RunLimits(budget)
        self.judges: list[Judge] = make_judges(setup.suite, limits)
        self._limiters = [limiter for limiter in limits.limiters if isinstance(limiter, AdaptiveLimiter)]
        self._slots, self._ahead = ResizableSemaphore(0), ResizableSemaphore(0)
        self._lock = SharedExclusiveLock()
        self._starts: CallCoalescer[tuple[int, bool], StartDecision] = CallCoalescer(
            lambda tasks: coordinator.start_cases.remote(name, tasks)
        )
        self._finishes: CallCoalescer[tuple[int, bytes], None] = CallCoalescer(
            lambda done: coordinator.finish_cases.remote(done, budget.take_unused())
        )
        self._lookups: CallCoalescer[Sequence[AnswerKey], Mapping[AnswerKey, StoredAnswer]] = CallCoalescer(
            self._look_up_all
        )
        self._case_judge = self._settings.make_case_judge(
            self.judges, self.images, self._lookups.call, self._slots, limits.reserve
        )
        if self._settings.thumbnails:
            selector = ThumbnailSelector(lambda digests: coordinator.has_thumbnail.remote(digests))
            self._case_judge = replace(self._case_judge, thumbnails=selector)
        self._share = WorkerShare(-1, 0, 0.0)
        self._in_progress: set[asyncio.Task[None]] = set()
        self._has_failed = False  # which ends the run: no other case is begun here
        self._share_task: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, coordinator: ActorHandle[Any], setup: WorkerSetup) -> WorkerRuntime:
        """Register at the coordinator and make the judges. Raises `SetupError` for a judge that cannot be made here."""
        import ray

        with suppress(OSError):  # relative paths are relative to the driver's folder
            os.chdir(setup.folder)
        here = ray.get_runtime_context()
        # The driver's keys and addresses, since they decide which answers are the same. They go into the environment,
        # where judges look for them; only the process that decodes images inherits it.
        name = secrets.token_hex(8)
        process = ProcessIdentity(here.get_node_id(), *identify_process(os.getpid()))
        os.environ.update(await coordinator.register_worker.remote(name, here.get_actor_id(), process))
        runtime = cls(name, coordinator, setup)
        runtime._share_task = asyncio.create_task(runtime.follow_share())
        return runtime

    async def judge(self, chunk: TaskChunk) -> None:
        """Judge all cases of a chunk. Raises the first failure once all that were begun have ended."""
        tasks = [asyncio.create_task(self._judge_task(task)) for task in chunk.tasks]
        self._in_progress.update(tasks)
        try:
            for failure in filter(None, await asyncio.gather(*tasks, return_exceptions=True)):
                raise failure
        except asyncio.CancelledError:
            if not self._share.canceled:
                raise
        finally:
            for task in tasks:
                task.cancel()
            self._in_progress.difference_update(tasks)

    async def follow_share(self) -> None:
        """Keep to the share of the limits that the coordinator allots. An error ends the run."""
        try:
            await self._follow_share()
        except Exception as error:
            await self._coordinator.fail.remote(pickle_error(error))

    async def _follow_share(self) -> None:
        while True:
            share = await self._coordinator.share.remote(self._name, self._slots.acquired, self._share.version)
            self._share = share
            self._slots.resize(share.slots)
            self._ahead.resize(math.ceil(share.slots * (1 + WORKER_PREPARE_AHEAD)))
            for limiter in self._limiters:
                limiter.set_share(share.part)
                limiter.resize(share.slots)
            if share.canceled:
                for task in self._in_progress:
                    task.cancel()

    async def _judge_task(self, task: CaseMessage) -> None:
        async with self._ahead:
            if self._share.stopped or self._has_failed:
                return
            async with self._lock.shared():
                decision = await self._starts.call((task.number, False))
                if decision is StartDecision.GO:
                    await self._judge(task)
            if decision is StartDecision.ALONE:
                async with self._lock.exclusive():
                    decision = await self._starts.call((task.number, True))
                    if decision is StartDecision.GO:
                        await self._judge(task)
            if decision is StartDecision.GIVEN_UP:
                await self._finishes.call((task.number, to_pickle(self._give_up(task))))

    async def _judge(self, task: CaseMessage) -> None:
        try:
            entry = await self._case_judge.judge(self._settings.composers[task.rubric], task.case)
        except Exception:
            self._has_failed = True
            raise
        self._has_failed |= entry.failure is not None
        await self._finishes.call((task.number, to_pickle(replace(entry, position=task.position, failure=None))))
        if entry.failure is not None:
            raise entry.failure

    def _give_up(self, task: CaseMessage) -> Entry:
        rubric = self._settings.composers[task.rubric].rubric_for(task.case)
        judge = describe_judges(self.judges, self._settings.samples)
        detail = f"the worker that judged it died, {MAX_ATTEMPTS} times in a row; it may not fit into memory"
        return Entry(
            task.position,
            task.case,
            VerdictHeader(task.case.id, rubric, judge).make_verdict(Outcome.INTERRUPTED, detail),
        )

    async def _look_up_all(self, wanted: Sequence[Sequence[AnswerKey]]) -> Sequence[Mapping[AnswerKey, StoredAnswer]]:
        found = await self._coordinator.look_up_answers.remote([key for keys in wanted for key in keys])
        return [found] * len(wanted)
