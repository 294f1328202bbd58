"""The variables of the environment that the judges of a suite read.

The driver of a run on Ray: enlists cases and writes verdicts as the local engine does; between the two is Ray.
"""

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
from beholder.judges.model import load_plugin, split_spec
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry, RunProgress
from beholder.providers.base import Provider
from beholder.runs.engine import CaseTask, Engine, RunSettings, find_first_failure, take_batch
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
    """Those that are set here, with their values: keys, and addresses of servers. Of a provider that pydantic-ai speaks
    to they are the ones that begin with its name."""
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


CASES_PER_WORKER = 8  # cases at once for which another worker is worth its process
MIN_CHUNK, MAX_CHUNK = 4, 64  # cases in a chunk
CHUNK_LINGER_S = 0.05  # how long a chunk that is not full waits for more cases
CANCEL_TIMEOUT_S = 20.0  # with workers that are to give up what they do
COORDINATOR_CALLS = 10_000  # at once; most of them wait for something to change


@dataclass(frozen=True, slots=True)
class WorkerLayout:
    """How the work is shared out: so many workers, so many cases in a chunk, so many chunks in a worker at once, and so
    many cases (`most`) that are on their way at all, which bounds the memory of everyone who takes part."""

    workers: int
    chunk: int
    calls: int

    @property
    def most(self) -> int:
        return (self.workers * (self.calls + 2) + 2) * self.chunk

    @property
    def deaths(self) -> int:
        """Of workers that judged nothing, in a row: after that something is wrong with all of them."""
        return 8 + 4 * self.workers


def plan_workers(concurrency: int, jobs: int, cluster: Cluster) -> WorkerLayout:
    """As many workers as nodes, and more where there is enough to do at once; never more than processors or chunks."""
    wanted = max(cluster.nodes, math.ceil(concurrency / CASES_PER_WORKER))
    workers = min(wanted, cluster.cpus, concurrency, math.ceil(jobs / MIN_CHUNK))
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
    """Cases on their way through the cluster, and verdicts on their way back."""

    def __init__(self, coordinator: ActorHandle[Any], plan: WorkerLayout, stream: Callable[[], None]) -> None:
        self.coordinator = coordinator
        self._plan = plan
        self._stream = stream
        self._streamed: asyncio.Future[None] | None = None
        self._seen = 0

    @classmethod
    async def start(cls, work: RunSettings, suite: Suite, ledger: Ledger, cluster: Cluster) -> RayPipeline:
        """With an office on this node, which has opened the ledger. Raises `LedgerError`."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from beholder.runs.ray.coordinator import Coordinator, CoordinatorSettings
        from beholder.runs.ray.dataset import stream_chunks

        plan = plan_workers(work.concurrency, ledger.run(work.run_id).total, cluster)
        here = NodeAffinitySchedulingStrategy(cluster.here, soft=False)
        kind: Any = ray.remote(Coordinator)
        coordinator = kind.options(
            num_cpus=0, max_restarts=0, max_concurrency=COORDINATOR_CALLS, scheduling_strategy=here
        ).remote()
        address = ledger.address if ledger.path is None else str(ledger.path.absolute())
        terms = CoordinatorSettings(
            address, work.use_cache, work.concurrency, plan.most, plan.deaths, read_judge_variables(suite)
        )
        await coordinator.open.remote(terms)
        # The address of a ledger may hold a password, and workers have no use for it.
        recipe = WorkerSetup(work, structs.replace(suite, ledger=None), os.getcwd())
        body = to_pickle(recipe)
        return cls(
            coordinator,
            plan,
            lambda: stream_chunks(coordinator, body, cluster.here, plan.workers, plan.calls, plan.deaths),
        )

    async def send_cases(self, jobs: asyncio.Queue[CaseTask | None], work: RunSettings) -> None:
        """Brings jobs to the office, a chunk at a time, until the end mark."""
        places = {id(composer): place for place, composer in enumerate(work.composers)}
        open_, wanted = True, True
        while open_:
            chunk, open_ = await take_batch(jobs, self._plan.chunk, CHUNK_LINGER_S)
            if chunk and wanted:
                parcels = [
                    CaseMessage(job.number, job.position, make_picklable(job.case), places[id(job.composer)])
                    for job in chunk
                ]
                wanted = await self.coordinator.put.remote(parcels)
        await self.coordinator.close.remote()

    async def stream(self) -> None:
        """Lets Ray Data move what the office has, until there is nothing more."""
        self._streamed = run_in_daemon_thread(self._stream)
        await asyncio.shield(self._streamed)
        await self.coordinator.finish.remote()

    async def collect(self, finished: asyncio.Queue[Entry | None]) -> None:
        """Fetches verdicts until the end. Raises what a worker could not go on with."""
        while (found := await self.coordinator.collect.remote(self._seen)) is not None:
            bodies, failure = found
            for body in bodies:
                await finished.put(pickle.loads(body))
                self._seen += 1
            if failure is not None:
                raise pickle.loads(failure)

    async def end(self) -> None:
        """Ends what is still under way; quick where nothing is."""
        with suppress(Exception):  # the office may be gone, and why is being told already
            await self.coordinator.halt.remote(cancel=True)
            if self._streamed is not None:
                await asyncio.wait([self._streamed], timeout=CANCEL_TIMEOUT_S)
            await self.coordinator.finish.remote()

    async def collect_rest(self, finished: asyncio.Queue[Entry | None]) -> None:
        """Fetches what is ready, whatever else is wrong."""
        with suppress(Exception):  # as above
            await self.collect(finished)

    async def stop_on(self, stop: asyncio.Event) -> None:
        await stop.wait()
        await self.coordinator.halt.remote()

    async def serve_fund_requests(self, budget: Budget) -> None:
        """Sets money aside for each call that a worker is about to make. What the call did not come to is given back
        with its case, so that it stays with the worker only for as long; what one that dies had is not used again."""
        while True:
            wishes, back = await self.coordinator.wishes.remote()
            budget.settle(back, Decimal(0))
            refusals = {number: await try_reserve(budget, amount) for number, amount in wishes.items()}
            await self.coordinator.grant.remote(refusals)


async def try_reserve(budget: Budget, amount: Decimal) -> str:
    try:
        await budget.reserve(amount)
    except OverBudget as error:
        return str(error)
    return ""


@dataclass(frozen=True, slots=True)
class _RateShareRelay:
    """Stands for the gates of all workers, where the process has only a part of the limits per minute."""

    coordinator: ActorHandle[Any]

    def set_share(self, share: float) -> None:
        self.coordinator.share_out.remote(share)


def _translate_ray_error(failure: BaseException) -> BaseException:
    """What Ray itself raises, as a sentence; everything else as it is."""
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
