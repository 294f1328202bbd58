"""A worker: an actor of Ray Data that judges chunks of cases in one event loop. Runs on the nodes of the cluster."""

from __future__ import annotations

import asyncio
import math
import os
import pickle
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from beholder.judges.protocol import Judge
from beholder.ledger.model import AnswerKey, Entry, StoredAnswer
from beholder.runs.gate import Gate
from beholder.runs.judging import judge_case, names_of
from beholder.runs.pictures import Pictures
from beholder.runs.ray.attempts import MOST
from beholder.runs.ray.parcels import BODY, Chunk, Leave, Parcel, Recipe, Share, packed, packed_error
from beholder.runs.ray.purse import Purse
from beholder.runs.ray.rooms import AHEAD, Room, Slots
from beholder.runs.running import seated
from beholder.runs.sharing import Limits
from beholder.runs.thumbnails import Thumbnails
from beholder.runs.together import Together
from beholder.runs.work import entry_of
from beholder.verdicts.judging import Head
from beholder.verdicts.model import Outcome

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]  # it has no types
    from ray.actor import ActorHandle


class Worker:
    """What Ray Data makes once in each actor and calls with one chunk at a time, several at once, all of them in the
    one event loop that it keeps for it."""

    def __init__(self, office: ActorHandle[Any], recipe: bytes) -> None:
        self._office = office
        self._recipe = recipe
        self._bench: asyncio.Task[Bench] | None = None

    async def __call__(self, batch: pyarrow.Table) -> dict[str, list[int]]:
        chunk: Chunk = pickle.loads(batch.column(BODY)[0].as_py())
        try:
            if self._bench is None:  # not in __init__: the loop runs only from now on
                self._bench = asyncio.create_task(Bench.set_up(self._office, pickle.loads(self._recipe)))
            bench = await asyncio.shield(self._bench)
            await bench.judge(chunk)
        except Exception as error:
            await self._office.fail.remote(packed_error(error))
        return {"number": [chunk.number]}


class Bench:
    """A worker at work: its judges, its pictures, and its share of what all workers may use."""

    def __init__(self, name: str, office: ActorHandle[Any], recipe: Recipe) -> None:
        self._name = name
        self._office = office
        self._work = recipe.work
        self.pictures = Pictures(allow_remote=recipe.suite.allow_remote, workers=1)
        self._drawn = Thumbnails(self.pictures, lambda digests: office.has_thumbnail.remote(digests))
        purse = Purse(recipe.suite.budget_usd(), lambda amounts, back: office.more.remote(amounts, back))
        limits = Limits(purse)
        self.judges: list[Judge] = seated(recipe.suite, limits)
        self._gates = [gate for gate in limits.gates if isinstance(gate, Gate)]
        self._slots, self._ahead = Slots(0), Slots(0)
        self._room = Room()
        self._begins: Together[tuple[int, bool], Leave] = Together(lambda jobs: office.begin.remote(name, jobs))
        self._ends: Together[tuple[int, bytes], None] = Together(
            lambda done: office.end.remote(done, purse.given_back())
        )
        self._recalls: Together[Sequence[AnswerKey], Mapping[AnswerKey, StoredAnswer]] = Together(self._recall_all)
        self._share = Share(-1, 0, 0.0)
        self._under_way: set[asyncio.Task[None]] = set()
        self._living: asyncio.Task[None] | None = None

    @classmethod
    async def set_up(cls, office: ActorHandle[Any], recipe: Recipe) -> Bench:
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

    async def judge(self, chunk: Chunk) -> None:
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
            await self._office.fail.remote(packed_error(error))

    async def _keep_to_share(self) -> None:
        while True:
            share = await self._office.share.remote(self._name, self._slots.inside, self._share.version)
            self._share = share
            self._slots.resize(share.slots)
            self._ahead.resize(math.ceil(share.slots * (1 + AHEAD)))
            for gate in self._gates:
                gate.share(share.part)
                gate.resize(share.slots)
            if share.cancelled:
                for task in self._under_way:
                    task.cancel()

    async def _one(self, job: Parcel) -> None:
        async with self._ahead:
            if self._share.halted:
                return
            async with self._room.together():
                leave = await self._begins.ask((job.number, False))
                if leave is Leave.GO:
                    await self._do(job)
            if leave is Leave.ALONE:
                async with self._room.alone():
                    leave = await self._begins.ask((job.number, True))
                    if leave is Leave.GO:
                        await self._do(job)
            if leave is Leave.LOST:
                await self._ends.ask((job.number, packed(self._given_up(job))))

    async def _do(self, job: Parcel) -> None:
        work = self._work
        judged = await judge_case(
            work.composers[job.rubric],
            job.case,
            self.judges,
            work.samples,
            self.pictures,
            recall=self._recalls.ask if work.recall else None,
            slots=self._slots,
            timeout_s=work.timeout_s,
            audit=work.audit,
            calibration=work.calibration,
        )
        drawn = await self._drawn.of(job.case, judged.verdict.images) if work.thumbnails else ()
        entry = entry_of(job.position, job.case, judged, drawn)
        await self._ends.ask((job.number, packed(entry)))

    def _given_up(self, job: Parcel) -> Entry:
        rubric = self._work.composers[job.rubric].rubric_for(job.case)
        judge = names_of(self.judges, self._work.samples)
        detail = f"the worker that judged it died, {MOST} times in a row; it may not fit into memory"
        return Entry(job.position, job.case, Head(job.case.id, rubric, judge).verdict(Outcome.INTERRUPTED, detail))

    async def _recall_all(self, wanted: Sequence[Sequence[AnswerKey]]) -> Sequence[Mapping[AnswerKey, StoredAnswer]]:
        found = await self._office.recall.remote([key for keys in wanted for key in keys])
        return [found] * len(wanted)
