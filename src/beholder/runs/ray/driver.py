"""The driver of a run on Ray: queues cases, writes verdicts as the local engine does."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import pickle
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import structs

from beholder.errors import OverBudget
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry
from beholder.runs.engine import CaseTask, Engine, RunSettings, find_first_failure, take_batch
from beholder.runs.limits import Budget
from beholder.runs.ray.cluster import (
    Cluster,
    join_cluster,
    read_judge_variables,
    run_in_daemon_thread,
    translate_ray_error,
)
from beholder.runs.ray.coordinator import (
    SHARE_POLL_S,
    WORKER_PREPARE_AHEAD,
    CaseMessage,
    ProcessIdentity,
    WorkerSetup,
    identify_process,
    make_picklable,
    to_pickle,
)
from beholder.runs.suite import Suite

if TYPE_CHECKING:
    from ray.actor import ActorHandle


_log = logging.getLogger(__name__)


CASES_PER_WORKER = 8  # another worker is worth its process for so many cases at once
MIN_CHUNK, MAX_CHUNK = 4, 64  # cases in a chunk
CHUNK_LINGER_S = 0.05  # how long a chunk that is not full waits for more cases
CANCEL_TIMEOUT_S = 20.0  # for workers to cancel what is in progress
COORDINATOR_CALLS = 10_000  # at once; most of them wait for something to change


@dataclass(frozen=True, slots=True)
class WorkerLayout:
    """How the work is divided: so many workers, cases in a chunk, and chunks in a worker at once."""

    workers: int
    chunk_size: int
    chunks_per_worker: int

    @property
    def max_cases(self) -> int:
        """How many cases are in the cluster at all, which bounds the memory of all processes."""
        return (self.workers * (self.chunks_per_worker + 2) + 2) * self.chunk_size

    @property
    def max_failed_starts(self) -> int:
        """After so many workers in a row that judged nothing, something is wrong with all of them."""
        return 8 + 4 * self.workers


def plan_workers(concurrency: int, tasks: int, cluster: Cluster) -> WorkerLayout:
    """Plan as many workers as nodes, and more if many cases are asked at once; never more than processors or chunks."""
    wanted = max(cluster.nodes, math.ceil(concurrency / CASES_PER_WORKER))
    workers = min(wanted, cluster.cpus, concurrency, math.ceil(tasks / MIN_CHUNK))
    share = math.ceil(concurrency / workers)
    chunk = min(MAX_CHUNK, max(MIN_CHUNK, share // 2))
    return WorkerLayout(workers, chunk, 2 + math.ceil(share * (1 + WORKER_PREPARE_AHEAD) / chunk))


class RayEngine(Engine):
    """Executes a run on a Ray cluster: cases are queued and verdicts written here, and judged by workers there."""

    async def run_on_cluster(self, suite: Suite) -> None:
        """Judge all cases that have no final outcome yet on the cluster at the suite's address.

        Without an address Ray is started on this machine. Everything else is as in `Engine.run`.

        Raises:
            UsageError: The cluster does not answer, was lost, or its nodes lack this version of Beholder.
        """
        if self._is_done():  # starting Ray takes seconds
            self.observer.on_skipped(self.ledger.run(self.settings.run_id).total)
            return
        try:
            async with join_cluster(suite.address) as cluster:
                pipeline = await RayPipeline.start(self.settings, suite, self.ledger, cluster)
                limits = replace(self.limits, limiters=[_RateShareRelay(pipeline.coordinator)])
                async with self.write_verdicts(limits):
                    try:
                        await self._move(pipeline)
                    finally:
                        await pipeline.end()
                        if self.can_write:
                            await pipeline.collect_rest(self.finished)
                        await pipeline.settle_rest(self.limits.budget)
        except BaseExceptionGroup as failures:
            raise translate_ray_error(find_first_failure(failures)) from None
        except Exception as failure:
            raise translate_ray_error(failure) from None
        finally:
            self.ledger_thread.close()

    async def _move(self, pipeline: RayPipeline) -> None:
        """Move cases to the workers and verdicts back, until there are no more."""
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(pipeline.stop_on(self.stop)),
                group.create_task(pipeline.serve_fund_requests(self.limits.budget)),
                group.create_task(pipeline.end_silent_workers()),
            ]
            group.create_task(self.queue_cases(workers=1))
            group.create_task(pipeline.send_cases(self.tasks, self.settings))
            group.create_task(pipeline.stream())
            await pipeline.collect(self.finished)
            for helper in helpers:
                helper.cancel()

    def _is_done(self) -> bool:
        """Return whether all verdicts of the run have a final outcome."""
        states = self.ledger.counts(self.settings.run_id).states
        return sum(states[outcome] for outcome in self.settings.final) == self.ledger.run(self.settings.run_id).total


class RayPipeline:
    """Moves cases through the cluster, and verdicts back."""

    def __init__(self, coordinator: ActorHandle[Any], layout: WorkerLayout, stream: Callable[[], None]) -> None:
        self.coordinator = coordinator
        self._layout = layout
        self._stream = stream
        self._streamed: asyncio.Future[None] | None = None
        self._seen = 0

    @classmethod
    async def start(cls, settings: RunSettings, suite: Suite, ledger: Ledger, cluster: Cluster) -> RayPipeline:
        """Start the coordinator on this node and let it open the ledger. Raises `LedgerError`."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from beholder.runs.ray.coordinator import Coordinator, CoordinatorSettings
        from beholder.runs.ray.dataset import stream_chunks

        layout = plan_workers(settings.concurrency, ledger.run(settings.run_id).total, cluster)
        here = NodeAffinitySchedulingStrategy(cluster.here, soft=False)
        kind: Any = ray.remote(Coordinator)
        coordinator = kind.options(
            num_cpus=0, max_restarts=0, max_concurrency=COORDINATOR_CALLS, scheduling_strategy=here
        ).remote()
        address = ledger.address if ledger.path is None else str(ledger.path.absolute())
        await coordinator.open.remote(
            CoordinatorSettings(
                address,
                settings.use_cache,
                settings.concurrency,
                layout.max_cases,
                layout.max_failed_starts,
                settings.lease_s,
                read_judge_variables(suite),
            )
        )
        # The address of a ledger may have a password, and workers do not need it.
        setup = to_pickle(WorkerSetup(settings, structs.replace(suite, ledger=None), os.getcwd()))
        return cls(coordinator, layout, lambda: stream_chunks(coordinator, setup, cluster.here, layout))

    async def send_cases(self, tasks: asyncio.Queue[CaseTask | None], settings: RunSettings) -> None:
        """Send tasks to the coordinator, a chunk at a time, until the end mark."""
        rubrics = {id(composer): position for position, composer in enumerate(settings.composers)}
        is_open, is_wanted = True, True
        while is_open:
            chunk, is_open = await take_batch(tasks, self._layout.chunk_size, CHUNK_LINGER_S)
            if chunk and is_wanted:
                messages = [
                    CaseMessage(task.number, task.position, make_picklable(task.case), rubrics[id(task.composer)])
                    for task in chunk
                ]
                is_wanted = await self.coordinator.add_chunk.remote(messages)
        await self.coordinator.close_input.remote()

    async def stream(self) -> None:
        """Let Ray Data move the chunks through the workers, until there are no more."""
        self._streamed = run_in_daemon_thread(self._stream)
        await asyncio.shield(self._streamed)
        await self.coordinator.finish.remote()

    async def collect(self, finished: asyncio.Queue[Entry | None]) -> None:
        """Fetch verdicts until the end. Raises the error with which a worker ended the run."""
        while (found := await self.coordinator.collect.remote(self._seen)) is not None:
            bodies, failure = found
            for body in bodies:
                await finished.put(pickle.loads(body))
                self._seen += 1
            if failure is not None:
                raise pickle.loads(failure)

    async def end(self) -> None:
        """Cancel what is still in progress; quick where nothing is."""
        with suppress(Exception):  # the coordinator may be gone, and the reason is being raised already
            await self.coordinator.stop.remote(cancel=True)
            if self._streamed is not None:
                await asyncio.wait([self._streamed], timeout=CANCEL_TIMEOUT_S)
            await self.coordinator.finish.remote()

    async def collect_rest(self, finished: asyncio.Queue[Entry | None]) -> None:
        """Fetch what is ready, whatever else is wrong."""
        with suppress(Exception):  # as above
            await self.collect(finished)

    async def settle_rest(self, budget: Budget) -> None:
        """Settle what the last calls did not use: what is not settled at the end counts as spent."""
        with suppress(Exception):  # as above
            budget.settle(await self.coordinator.take_returned.remote(), Decimal(0))

    async def stop_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        await self.coordinator.stop.remote()

    async def end_silent_workers(self) -> None:
        """End workers that have not called for too long: then Ray restarts them and gives them their chunks again."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        end: Any = ray.remote(end_process)
        while True:
            await asyncio.sleep(SHARE_POLL_S)
            for process in await self.coordinator.take_silent_workers.remote():
                _log.warning(
                    "beholder: a worker on the node %s does not answer and is ended; its cases are judged again.",
                    process.node[:8],
                )
                there = NodeAffinitySchedulingStrategy(process.node, soft=False)
                end.options(num_cpus=0, max_retries=0, scheduling_strategy=there).remote(process)

    async def serve_fund_requests(self, budget: Budget) -> None:
        """Reserve money for each call that a worker is about to make.

        What a call does not use comes back with its case. What a worker had reserved when it died is not used again.
        """
        while True:
            requests, returned = await self.coordinator.read_fund_requests.remote()
            budget.settle(returned, Decimal(0))
            refusals = {number: await try_reserve(budget, amount) for number, amount in requests.items()}
            await self.coordinator.answer_fund_requests.remote(refusals)


def end_process(process: ProcessIdentity) -> None:
    """Kill a process of this node, frozen or not, unless it is gone and another one has its id."""
    with suppress(Exception):  # it is gone
        if identify_process(process.pid) == (process.pid, process.created):
            os.kill(process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has one that kills


async def try_reserve(budget: Budget, amount: Decimal) -> str:
    """Reserve an amount. Returns why it is refused; empty where it is not."""
    try:
        await budget.reserve(amount)
    except OverBudget as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True)
class _RateShareRelay:
    """Passes the share of the rate limits that this process has on to the limiters of all workers."""

    coordinator: ActorHandle[Any]

    def set_share(self, share: float) -> None:
        self.coordinator.set_share.remote(share)
