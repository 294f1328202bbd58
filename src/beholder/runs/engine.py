"""What a run does, and who looks on.

The two ends of a run: cases into the queue of jobs, verdicts out of the queue of what is finished. Between them are
the workers of one process (`engine`) or of a cluster (`ray`).

The engine: many cases, one event loop, one writer.

    cases ──► queue ──► workers (as many as may be under way) ──► queue ──► writer ──► ledger
              bounded   each: pictures, brief, judges, verdict    bounded   batches, each durable before it counts

Nothing grows with the number of cases: both queues are short, and what is finished is in the ledger and nowhere else.
Where the ledger is shared, other processes may do the same with the same run: each leases what it is about to judge.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from beholder.cases.case import Case
from beholder.errors import Waiting
from beholder.judges.base import Judge
from beholder.ledger.encoding import key_id
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry
from beholder.rubrics.brief import Composer
from beholder.runs.cache import AnswerCache
from beholder.runs.case import judge_case, make_entry
from beholder.runs.image_pool import ImagePool, ThumbnailMaker
from beholder.runs.ledger_access import LEASE_S, CaseLeases, LedgerThread, join_run, wait_or_stop
from beholder.runs.limits import RunLimits
from beholder.verdicts.verdict import Outcome

if TYPE_CHECKING:
    from beholder.verdicts.calibration import Calibration


FINAL_OUTCOMES = frozenset({Outcome.SCORED, Outcome.REFUSED, Outcome.FILTERED})

CaseSource = Callable[[], Iterable[Case]]  # in the same order each time


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run does. `retry` are final outcomes that are tried again; `recall` allows answers from the ledger."""

    run_id: str
    composers: tuple[Composer, ...]
    judges: tuple[Judge, ...]
    samples: int = 1
    concurrency: int = 32
    timeout_s: float | None = None
    retry: frozenset[Outcome] = frozenset()
    recall: bool = True
    thumbnails: bool = True
    audit: bool = True
    calibration: Calibration | None = None
    lease_s: float = LEASE_S

    @property
    def final(self) -> frozenset[Outcome]:
        """The outcomes after which a case is done."""
        return FINAL_OUTCOMES - self.retry


class RunObserver(Protocol):
    """Who looks on. `skipped` were done before, or by others; `waiting` have no answer yet; `done` are verdicts that
    are safely in the ledger."""

    def skipped(self, count: int) -> None: ...

    def waiting(self, count: int) -> None: ...

    def done(self, entries: Sequence[Entry]) -> None: ...


QUEUE_SIZE = 2  # cases begun at a time: eighty at once would read all their pictures before the first request goes out
LOOKUP_CHUNK = 256  # jobs that are looked up in the ledger together
MIN_LEASE_CHUNK = 8  # and that are leased together, where there are other processes: about as many as are asked at once
RECHECK_S = 1.0  # before the second look at what other processes hold; later ones wait longer
WRITE_BATCH = 64  # verdicts that are written together
WRITE_LINGER_S = 0.25  # how long a batch that is not full waits for more

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CaseTask:
    """One verdict to give. `number` counts them over the whole run."""

    number: int
    position: int
    case: Case
    composer: Composer

    @property
    def key(self) -> tuple[str, str]:
        return self.case.id, self.composer.rubric.name


async def queue_cases(
    work: RunSettings,
    cases: CaseSource,
    claims: CaseLeases,
    known: AnswerCache | None,
    watch: RunObserver,
    jobs: asyncio.Queue[CaseTask | None],
    workers: int,
    stop: asyncio.Event,
) -> None:
    """Puts every job that is ours into the queue, then one end mark for each worker. What other processes hold is
    looked at again: they may be gone before it is done."""
    size = min(LOOKUP_CHUNK, max(MIN_LEASE_CHUNK, work.concurrency)) if claims.shared else LOOKUP_CHUNK
    held: array[int] | None = None
    patience = RECHECK_S
    while not stop.is_set() and (held is None or held):
        if held is not None:  # all rows are read again, which takes its time where there are many
            await wait_or_stop(stop, patience)
            patience = min(2 * patience, max(RECHECK_S, work.lease_s / 4))
        held, looked = array("q"), held
        for chunk in split_chunks(_iterate_tasks(cases(), work.composers, looked), size):
            if stop.is_set():
                break
            if known is not None:
                await known.refresh()
            claimed = await claims.claim([job.key for job in chunk], work.final)
            epoch = claims.epoch
            for job in chunk:
                if job.key in claimed.held or (job.key in claimed.mine and claims.epoch != epoch):
                    held.append(job.number)
                elif job.key not in claimed.mine:
                    watch.skipped(1)
                elif not stop.is_set():
                    await jobs.put(job)
    for _ in range(workers):
        await jobs.put(None)


def _iterate_tasks(
    cases: Iterable[Case], composers: Sequence[Composer], only: Sequence[int] | None
) -> Iterator[CaseTask]:
    """All jobs of a run, or only those with these numbers, which rise."""
    wanted = None if only is None else iter(only)
    following = None if wanted is None else next(wanted, None)
    number = 0
    for position, case in enumerate(cases):
        for composer in composers:
            if wanted is None:
                yield CaseTask(number, position, case, composer)
            elif number == following:
                yield CaseTask(number, position, case, composer)
                following = next(wanted, None)
                if following is None:
                    return
            number += 1


async def write_verdicts(
    run_id: str,
    finished: asyncio.Queue[Entry | None],
    clerk: LedgerThread,
    claims: CaseLeases,
    known: AnswerCache | None,
    watch: RunObserver,
) -> None:
    """Writes batches until the end mark; a batch counts as done when the ledger has it."""
    open_ = True
    while open_:
        batch, open_ = await take_batch(finished, WRITE_BATCH, WRITE_LINGER_S)
        if batch:
            await clerk.do(clerk.ledger.write, run_id, batch, claims.worker())
            if known is not None:
                known.add(key_id(answer.key) for entry in batch for answer in entry.answers)
            watch.done(batch)


async def take_batch(queue: asyncio.Queue[T | None], most: int, linger_s: float) -> tuple[list[T], bool]:
    """What is in a queue, at most so many, and what comes soon after the first; also whether there may be more: `None`
    in the queue is its end."""
    found: list[T] = []
    try:
        async with asyncio.timeout(None) as patience:
            while len(found) < most:
                one = await queue.get()
                if one is None:
                    return found, False
                found.append(one)
                if len(found) == 1:
                    patience.reschedule(asyncio.get_running_loop().time() + linger_s)
    except TimeoutError:
        pass
    return found, True


def split_chunks(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """So many at a time."""
    iterator = iter(things)
    while chunk := list(islice(iterator, size)):
        yield chunk


def find_first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that came first, whatever it brought down with it."""
    inner = failures.exceptions[0]
    return find_first_failure(inner) if isinstance(inner, BaseExceptionGroup) else inner


PREPARE_AHEAD = 0.25  # workers beyond the concurrency: they make the next briefs while all that may be asked are asked


async def execute_locally(
    work: RunSettings,
    cases: CaseSource,
    ledger: Ledger,
    pictures: ImagePool,
    watch: RunObserver,
    stop: asyncio.Event,
    limits: RunLimits | None = None,
) -> None:
    """Judges all cases that have no final outcome in the run yet; they are gone through again where other processes
    hold some of them. `limits` are those of the judges, which all processes keep together.

    When `stop` is set, no new case is begun and those under way are finished. A cancelled run loses what was under
    way and nothing else. Raises what makes going on senseless: `SetupError`, `LedgerError`.
    """
    clerk = LedgerThread(ledger)
    jobs: asyncio.Queue[CaseTask | None] = asyncio.Queue(maxsize=QUEUE_SIZE)
    finished: asyncio.Queue[Entry | None] = asyncio.Queue(maxsize=2 * WRITE_BATCH)
    known = AnswerCache(clerk) if work.recall else None
    drawn = ThumbnailMaker(pictures, lambda digests: clerk.do(ledger.has_thumbnail, digests))
    desk = _CaseWorker(work, pictures, drawn, finished, watch, stop, asyncio.Semaphore(work.concurrency), known)
    workers = work.concurrency + math.ceil(work.concurrency * PREPARE_AHEAD)
    try:
        async with (
            join_run(clerk, work.run_id, limits or RunLimits(), work.lease_s) as claims,
            asyncio.TaskGroup() as house,
        ):
            writer = house.create_task(write_verdicts(work.run_id, finished, clerk, claims, known, watch))
            try:
                async with asyncio.TaskGroup() as office:
                    office.create_task(queue_cases(work, cases, claims, known, watch, jobs, workers, stop))
                    for _ in range(workers):
                        office.create_task(desk.work(jobs))
            finally:
                # Whatever ended the work: what is finished is written. Only a writer that failed cannot.
                if not writer.done():
                    await finished.put(None)
                    await asyncio.wait([writer])
    except BaseExceptionGroup as failures:
        raise find_first_failure(failures) from None
    finally:
        clerk.close()


@dataclass(frozen=True, slots=True)
class _CaseWorker:
    """Where workers sit."""

    work_: RunSettings
    pictures: ImagePool
    drawn: ThumbnailMaker
    finished: asyncio.Queue[Entry | None]
    watch: RunObserver
    stop: asyncio.Event
    slots: asyncio.Semaphore
    known: AnswerCache | None

    async def work(self, jobs: asyncio.Queue[CaseTask | None]) -> None:
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
            await self.finished.put(make_entry(job.position, job.case, judged, drawn))
