"""The engine: many cases, one event loop, one writer.

    cases ──► queue ──► workers (as many as may be under way) ──► queue ──► writer ──► ledger
              bounded   each: pictures, brief, judges, verdict    bounded   batches, each durable before it counts

Nothing grows with the number of cases: both queues are short, and what is finished is in the ledger and nowhere else.
Where the ledger is shared, other processes may do the same with the same run: each leases what it is about to judge.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from beholder.errors import Waiting
from beholder.ledger import Ledger
from beholder.ledger.model import Entry
from beholder.runs.clerk import Clerk
from beholder.runs.judging import judge_case
from beholder.runs.known import Known
from beholder.runs.pictures import Pictures
from beholder.runs.queues import BATCH, HANDED, Job, enlist, first_of, write_out
from beholder.runs.sharing import Limits, joined
from beholder.runs.thumbnails import Thumbnails
from beholder.runs.work import Cases, Watch, Work, entry_of

AHEAD = 0.25  # workers beyond the concurrency: they make the next briefs while all that may be asked are asked


async def execute(
    work: Work,
    cases: Cases,
    ledger: Ledger,
    pictures: Pictures,
    watch: Watch,
    stop: asyncio.Event,
    limits: Limits | None = None,
) -> None:
    """Judges all cases that have no final outcome in the run yet; they are gone through again where other processes
    hold some of them. `limits` are those of the judges, which all processes keep together.

    When `stop` is set, no new case is begun and those under way are finished. A cancelled run loses what was under
    way and nothing else. Raises what makes going on senseless: `SetupError`, `LedgerError`.
    """
    clerk = Clerk(ledger)
    jobs: asyncio.Queue[Job | None] = asyncio.Queue(maxsize=HANDED)
    finished: asyncio.Queue[Entry | None] = asyncio.Queue(maxsize=2 * BATCH)
    known = Known(clerk) if work.recall else None
    drawn = Thumbnails(pictures, lambda digests: clerk.do(ledger.has_thumbnail, digests))
    desk = _Desk(work, pictures, drawn, finished, watch, stop, asyncio.Semaphore(work.concurrency), known)
    workers = work.concurrency + math.ceil(work.concurrency * AHEAD)
    try:
        async with joined(clerk, work.run_id, limits or Limits(), work.lease_s) as claims, asyncio.TaskGroup() as house:
            writer = house.create_task(write_out(work.run_id, finished, clerk, claims, known, watch))
            try:
                async with asyncio.TaskGroup() as office:
                    office.create_task(enlist(work, cases, claims, known, watch, jobs, workers, stop))
                    for _ in range(workers):
                        office.create_task(desk.work(jobs))
            finally:
                # Whatever ended the work: what is finished is written. Only a writer that failed cannot.
                if not writer.done():
                    await finished.put(None)
                    await asyncio.wait([writer])
    except BaseExceptionGroup as failures:
        raise first_of(failures) from None
    finally:
        clerk.close()


@dataclass(frozen=True, slots=True)
class _Desk:
    """Where workers sit."""

    work_: Work
    pictures: Pictures
    drawn: Thumbnails
    finished: asyncio.Queue[Entry | None]
    watch: Watch
    stop: asyncio.Event
    slots: asyncio.Semaphore
    known: Known | None

    async def work(self, jobs: asyncio.Queue[Job | None]) -> None:
        while (job := await jobs.get()) is not None:
            if self.stop.is_set():
                continue
            try:
                judged = await judge_case(
                    job.composer,
                    job.case,
                    self.work_.judges,
                    self.work_.samples,
                    self.pictures,
                    recall=self.known.recall if self.known is not None else None,
                    slots=self.slots,
                    timeout_s=self.work_.timeout_s,
                    audit=self.work_.audit,
                    calibration=self.work_.calibration,
                )
            except Waiting:
                self.watch.waiting(1)
                continue
            drawn = await self.drawn.of(job.case, judged.verdict.images) if self.work_.thumbnails else ()
            await self.finished.put(entry_of(job.position, job.case, judged, drawn))
