"""The engine: many cases, one event loop, one writer.

    cases ──► queue ──► workers (as many as may be under way) ──► queue ──► writer ──► ledger
              bounded   each: pictures, brief, judges, verdict    bounded   batches, each durable before it counts

Nothing grows with the number of cases: both queues are short, and what is finished is in the ledger and nowhere else.
The ledger is spoken to from one thread of its own, so that the loop never waits for the disk.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Protocol, TypeVar

from beholder.cases import Case
from beholder.errors import ImageError
from beholder.judges.protocol import Judge
from beholder.ledger import Ledger
from beholder.ledger.model import AnswerKey, Entry, StoredAnswer
from beholder.ledger.packing import key_id
from beholder.rubrics.composing import Composer
from beholder.runs.judging import Judged, judge_case
from beholder.runs.pictures import Pictures
from beholder.verdicts.model import Outcome

if TYPE_CHECKING:
    from beholder.verdicts.calibrating import Calibration

AHEAD = 0.25  # workers beyond the concurrency: they make the next briefs while all that may be asked are asked
HANDED = 2  # cases begun at a time: eighty at once would read all their pictures before the first request goes out
CHUNK = 256  # cases that are looked up in the ledger together
BATCH = 64  # verdicts that are written together
LINGER_S = 0.25  # how long a batch that is not full waits for more

GATHER_S = 0.002  # how long a question to the ledger waits for others
REMEMBERED = 4096  # images that are known to have a thumbnail without asking the ledger

_BLOOM_BYTES = 2 * 1024 * 1024
_BLOOM_MASK = _BLOOM_BYTES * 8 - 1
_PLACES = Struct("<4I")

FINAL = frozenset({Outcome.SCORED, Outcome.REFUSED, Outcome.FILTERED})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Work:
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


class Watch(Protocol):
    """Who looks on. `skipped` were done before; `done` are verdicts that are safely in the ledger."""

    def skipped(self, count: int) -> None: ...

    def done(self, entries: Sequence[Entry]) -> None: ...


async def execute(
    work: Work, cases: Iterable[Case], ledger: Ledger, pictures: Pictures, watch: Watch, stop: asyncio.Event
) -> None:
    """Judges all cases that have no final outcome in the run yet.

    When `stop` is set, no new case is begun and those under way are finished. A cancelled run loses what was under
    way and nothing else. Raises what makes going on senseless: `SetupError`, `LedgerError`.
    """
    clerk = _Clerk(ledger)
    jobs: asyncio.Queue[_Job | None] = asyncio.Queue(maxsize=HANDED)
    finished: asyncio.Queue[Entry | None] = asyncio.Queue(maxsize=2 * BATCH)
    known = _Known(clerk) if work.recall else None
    desk = _Desk(work, pictures, clerk, finished, stop, asyncio.Semaphore(work.concurrency), known)
    workers = work.concurrency + math.ceil(work.concurrency * AHEAD)
    try:
        async with asyncio.TaskGroup() as house:
            writer = house.create_task(_write(work.run_id, finished, clerk, known, watch))
            try:
                async with asyncio.TaskGroup() as office:
                    office.create_task(_enlist(work, cases, clerk, known, watch, jobs, workers, stop))
                    for _ in range(workers):
                        office.create_task(desk.work(jobs))
            finally:
                # Whatever ended the work: what is finished is written. Only a writer that failed cannot.
                if not writer.done():
                    await finished.put(None)
                    await asyncio.wait([writer])
    except BaseExceptionGroup as failures:
        raise _first(failures) from None
    finally:
        clerk.close()


@dataclass(frozen=True, slots=True)
class _Job:
    position: int
    case: Case
    composer: Composer


class _Clerk:
    """The ledger, asked from one thread."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")

    async def do(self, work: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def close(self) -> None:
        self._thread.shutdown()


async def _enlist(
    work: Work,
    cases: Iterable[Case],
    clerk: _Clerk,
    known: _Known | None,
    watch: Watch,
    jobs: asyncio.Queue[_Job | None],
    workers: int,
    stop: asyncio.Event,
) -> None:
    """Puts every job that is not done yet into the queue, then one end mark for each worker."""
    position = 0
    for chunk in chunks(cases, CHUNK):
        if stop.is_set():
            break
        if known is not None:
            await known.refresh()
        outcomes = await clerk.do(clerk.ledger.outcomes, work.run_id, [case.id for case in chunk])
        for case in chunk:
            for composer in work.composers:
                outcome = outcomes.get((case.id, composer.rubric.name))
                if outcome in FINAL and outcome not in work.retry:
                    watch.skipped(1)
                elif not stop.is_set():
                    await jobs.put(_Job(position, case, composer))
            position += 1
    for _ in range(workers):
        await jobs.put(None)


class _Known:
    """Answers that the ledger has, whoever paid for them. Looking one up costs a quarter of a millisecond of CPU, and
    most cases of most runs are new: a Bloom filter of all that was answered, brought up to date with every batch of our
    own and every chunk of cases, tells which need no look. 2 MB hold a million keys with 2 needless looks in a
    thousand."""

    def __init__(self, clerk: _Clerk) -> None:
        self._clerk = clerk
        self._newest = 0
        self._bits = bytearray(_BLOOM_BYTES)
        self._wanted: list[AnswerKey] = []
        self._asking: asyncio.Task[Mapping[AnswerKey, StoredAnswer]] | None = None

    async def refresh(self) -> None:
        """Learns what others have written."""
        new, self._newest = await self._clerk.do(self._clerk.ledger.answered_since, self._newest)
        self.add(new)

    def add(self, ids: Iterable[bytes]) -> None:
        for id_ in ids:
            for bit in _bits(id_):
                self._bits[bit >> 3] |= 1 << (bit & 7)

    async def recall(self, keys: Sequence[AnswerKey]) -> Mapping[AnswerKey, StoredAnswer]:
        """Those of the answers that there are; asked for together with all that other workers want just now."""
        likely = [key for key in keys if all(self._bits[bit >> 3] >> (bit & 7) & 1 for bit in _bits(key_id(key)))]
        if not likely:
            return {}
        if self._asking is None:
            self._asking = asyncio.create_task(self._look_up())
        self._wanted.extend(likely)
        return await asyncio.shield(self._asking)

    async def _look_up(self) -> Mapping[AnswerKey, StoredAnswer]:
        await asyncio.sleep(GATHER_S)
        keys, self._wanted, self._asking = self._wanted, [], None
        return await self._clerk.do(self._clerk.ledger.cached, keys)


def _bits(id_: bytes) -> tuple[int, ...]:
    """The places of an id in the filter: four parts of it, since it is a hash already."""
    return tuple(place & _BLOOM_MASK for place in _PLACES.unpack(id_))


@dataclass(slots=True)
class _Desk:
    """Where workers sit."""

    work_: Work
    pictures: Pictures
    clerk: _Clerk
    finished: asyncio.Queue[Entry | None]
    stop: asyncio.Event
    slots: asyncio.Semaphore
    known: _Known | None
    drawn: dict[str, None] = field(default_factory=dict)

    async def work(self, jobs: asyncio.Queue[_Job | None]) -> None:
        while (job := await jobs.get()) is not None:
            if self.stop.is_set():
                continue
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
            await self.finished.put(
                Entry(
                    position=job.position,
                    case=job.case,
                    verdict=judged.verdict,
                    answers=judged.answers,
                    thumbnails=await self._thumbnails(job.case, judged),
                    reused=not judged.asked and judged.verdict.scored,
                    spent_usd=judged.spent_usd,
                    used=judged.used,
                )
            )

    async def _thumbnails(self, case: Case, judged: Judged) -> tuple[tuple[str, bytes], ...]:
        """Small pictures of the images that the ledger does not have yet."""
        if not self.work_.thumbnails:
            return ()
        wanted = {image.source_digest: image.role for image in judged.verdict.images}
        new = {digest: role for digest, role in wanted.items() if digest not in self.drawn}
        if not new:
            return ()
        self.drawn |= dict.fromkeys(new)
        while len(self.drawn) > REMEMBERED:  # the oldest; the ledger knows them all
            del self.drawn[next(iter(self.drawn))]
        there = await self.clerk.do(self.clerk.ledger.has_thumbnail, list(new))
        drawn = []
        for digest, role in new.items():
            if digest not in there:
                try:
                    drawn.append((digest, await self.pictures.thumbnail(case.images[role])))
                except ImageError:  # it was readable a moment ago; the verdict stands without its small picture
                    continue
        return tuple(drawn)


async def _write(
    run_id: str, finished: asyncio.Queue[Entry | None], clerk: _Clerk, known: _Known | None, watch: Watch
) -> None:
    """Writes batches until the end mark; a batch counts as done when the ledger has it."""
    open_ = True
    while open_:
        batch: list[Entry] = []
        try:
            async with asyncio.timeout(None) as patience:
                while len(batch) < BATCH:
                    entry = await finished.get()
                    if entry is None:
                        open_ = False
                        break
                    batch.append(entry)
                    if len(batch) == 1:
                        patience.reschedule(asyncio.get_running_loop().time() + LINGER_S)
        except TimeoutError:
            pass
        if batch:
            await clerk.do(clerk.ledger.write, run_id, batch)
            if known is not None:
                known.add(key_id(answer.key) for entry in batch for answer in entry.answers)
            watch.done(batch)


def chunks(cases: Iterable[Case], size: int) -> Iterator[list[Case]]:
    """Cases, so many at a time."""
    iterator = iter(cases)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = failures.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
