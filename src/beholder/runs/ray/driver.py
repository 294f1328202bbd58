"""The driver of a run on Ray: queues cases and writes verdicts as the local engine does; Ray is between the two."""

from __future__ import annotations

import asyncio
import math
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from msgspec import structs

from beholder.errors import BeholderError, OverBudget, UsageError
from beholder.judges.factory import load_plugin, split_spec
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry, RunProgress
from beholder.providers.base import Provider
from beholder.runs.concurrency import find_first_failure, take_batch
from beholder.runs.engine import CaseTask, Engine, RunSettings
from beholder.runs.limits import Budget
from beholder.runs.ray.cluster import Cluster, join_cluster, run_in_daemon_thread
from beholder.runs.ray.messages import (
    WORKER_PREPARE_AHEAD,
    CaseMessage,
    Environment,
    WorkerSetup,
    make_picklable,
    to_pickle,
)
from beholder.runs.suite import Suite
from beholder.verdicts.verdict import Outcome

if TYPE_CHECKING:
    from ray.actor import ActorHandle


_VARIABLE_PREFIXES = {"bedrock": "AWS", "google-vertex": "GOOGLE", "azure": "AZURE"}


def read_judge_variables(suite: Suite) -> Environment:
    """Return the environment variables that the judges of a suite read: keys, and addresses of servers.

    For a provider of pydantic-ai they are those that start with its name.
    """
    names: set[str] = set()
    for entry in suite.judges:
        provider, _ = split_spec(entry.judge)
        made = load_plugin(provider)
        if isinstance(made, Provider):
            names |= {*made.key_variables, made.base_url_variable}
        else:
            start = _VARIABLE_PREFIXES.get(provider, provider.split("-")[0].upper()) + "_"
            names |= {name for name in os.environ if name.startswith(start)}
        if entry.key_variable:
            names.add(entry.key_variable)
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}


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
        if self._is_all_scored():  # starting Ray takes seconds
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
        except BaseExceptionGroup as failures:
            raise _translate_ray_error(find_first_failure(failures)) from None
        except Exception as failure:
            raise _translate_ray_error(failure) from None
        finally:
            self.ledger_thread.close()

    async def _move(self, pipeline: RayPipeline) -> None:
        """Move cases to the workers and verdicts back, until there are no more."""
        async with asyncio.TaskGroup() as group:
            helpers = [
                group.create_task(pipeline.stop_on(self.stop)),
                group.create_task(pipeline.serve_fund_requests(self.limits.budget)),
            ]
            group.create_task(self.queue_cases(workers=1))
            group.create_task(pipeline.send_cases(self.tasks, self.settings))
            group.create_task(pipeline.stream())
            await pipeline.collect(self.finished)
            for helper in helpers:
                helper.cancel()

    def _is_all_scored(self) -> bool:
        run = self.settings.run_id
        scored = self.ledger.progress([run]).get(run, RunProgress()).scored
        return Outcome.SCORED in self.settings.final and scored == self.ledger.run(run).total


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

    async def stop_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        await self.coordinator.stop.remote()

    async def serve_fund_requests(self, budget: Budget) -> None:
        """Reserve money for each call that a worker is about to make.

        What a call does not use comes back with its case. What a worker had reserved when it died is not used again.
        """
        while True:
            requests, returned = await self.coordinator.read_fund_requests.remote()
            budget.settle(returned, Decimal(0))
            refusals = {number: await try_reserve(budget, amount) for number, amount in requests.items()}
            await self.coordinator.answer_fund_requests.remote(refusals)


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


def _translate_ray_error(failure: BaseException) -> BaseException:
    """Return what Ray itself raises as a sentence, everything else as it is."""
    try:
        from ray.exceptions import RayError
    except ImportError:
        return failure
    if not isinstance(failure, RayError):
        return failure
    cause = getattr(failure, "cause", None)
    if isinstance(cause, BeholderError):
        return cause
    said = " ".join(str(failure).split())[:300]
    return UsageError(f"The Ray cluster was lost ({said}); the same command goes on where the run was.")
