"""The engine: many cases, one event loop, one writer.

    cases ──► queue ──► workers (as many as may be under way) ──► queue ──► writer ──► ledger
              bounded   each: pictures, brief, judges, verdict    bounded   batches, each durable before it counts

Nothing grows with the number of cases: both queues are short, and what is finished is in the ledger and nowhere else.
Where the ledger is shared, other processes may do the same with the same run: each leases what it is about to judge.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Protocol, TypeVar

from beholder.cases import Case
from beholder.errors import ImageError, Waiting
from beholder.judges.protocol import Judge
from beholder.ledger import Ledger
from beholder.ledger.model import AnswerKey, Entry, StoredAnswer
from beholder.ledger.packing import key_id
from beholder.rubrics.composing import Composer
from beholder.runs.clerk import Clerk
from beholder.runs.judging import Judged, judge_case
from beholder.runs.pictures import Pictures
from beholder.runs.sharing import LEASE_S, Claims, Limits, joined
from beholder.verdicts.model import Outcome

if TYPE_CHECKING:
    from beholder.verdicts.calibrating import Calibration

AHEAD = 0.25  # workers beyond the concurrency: they make the next briefs while all that may be asked are asked
HANDED = 2  # cases begun at a time: eighty at once would read all their pictures before the first request goes out
CHUNK = 256  # jobs that are looked up in the ledger together
LEAST_LEASED = 8  # and that are leased together, where there are other processes: about as many as are asked at once
LOOK_AGAIN_S = 1.0  # between two looks at what other processes hold
BATCH = 64  # verdicts that are written together
LINGER_S = 0.25  # how long a batch that is not full waits for more

GATHER_S = 0.002  # how long a question to the ledger waits for others
REMEMBERED = 4096  # images that are known to have a thumbnail without asking the ledger

_BLOOM_BYTES = 2 * 1024 * 1024
_BLOOM_MASK = _BLOOM_BYTES * 8 - 1
_PLACES = Struct("<4I")

FINAL = frozenset({Outcome.SCORED, Outcome.REFUSED, Outcome.FILTERED})

Cases = Callable[[], Iterable[Case]]  # in the same order each time

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
    lease_s: float = LEASE_S

    @property
    def final(self) -> frozenset[Outcome]:
        """The outcomes after which a case is done."""
        return FINAL - self.retry


class Watch(Protocol):
    """Who looks on. `skipped` were done before, or by others; `waiting` have no answer yet; `done` are verdicts that
    are safely in the ledger."""

    def skipped(self, count: int) -> None: ...

    def waiting(self, count: int) -> None: ...

    def done(self, entries: Sequence[Entry]) -> None: ...


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
    jobs: asyncio.Queue[_Job | None] = asyncio.Queue(maxsize=HANDED)
    finished: asyncio.Queue[Entry | None] = asyncio.Queue(maxsize=2 * BATCH)
    known = _Known(clerk) if work.recall else None
    desk = _Desk(work, pictures, clerk, finished, watch, stop, asyncio.Semaphore(work.concurrency), known)
    workers = work.concurrency + math.ceil(work.concurrency * AHEAD)
    try:
        async with joined(clerk, work.run_id, limits or Limits(), work.lease_s) as claims, asyncio.TaskGroup() as house:
            writer = house.create_task(_write(work.run_id, finished, clerk, claims, known, watch))
            try:
                async with asyncio.TaskGroup() as office:
                    office.create_task(_enlist(work, cases, claims, known, watch, jobs, workers, stop))
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
    """One verdict to give. `number` counts them over the whole run."""

    number: int
    position: int
    case: Case
    composer: Composer

    @property
    def key(self) -> tuple[str, str]:
        return self.case.id, self.composer.rubric.name


async def _enlist(
    work: Work,
    cases: Cases,
    claims: Claims,
    known: _Known | None,
    watch: Watch,
    jobs: asyncio.Queue[_Job | None],
    workers: int,
    stop: asyncio.Event,
) -> None:
    """Puts every job that is ours into the queue, then one end mark for each worker. What other processes hold is
    looked at again: they may be gone before it is done."""
    size = min(CHUNK, max(LEAST_LEASED, work.concurrency)) if claims.worker() else CHUNK
    held: array[int] | None = None
    while not stop.is_set() and (held is None or held):
        if held is not None:
            await _pause(stop, LOOK_AGAIN_S)
        held, looked = array("q"), held
        for chunk in chunks(_jobs(cases(), work.composers, looked), size):
            if stop.is_set():
                break
            if known is not None:
                await known.refresh()
            claimed = await claims.claim([job.key for job in chunk], work.final)
            for job in chunk:
                if job.key in claimed.held:
                    held.append(job.number)
                elif job.key not in claimed.mine:
                    watch.skipped(1)
                elif not stop.is_set():
                    await jobs.put(job)
    for _ in range(workers):
        await jobs.put(None)


def _jobs(cases: Iterable[Case], composers: Sequence[Composer], only: Sequence[int] | None) -> Iterator[_Job]:
    """All jobs of a run, or only those with these numbers, which rise."""
    wanted = None if only is None else iter(only)
    following = None if wanted is None else next(wanted, None)
    number = 0
    for position, case in enumerate(cases):
        for composer in composers:
            if wanted is None:
                yield _Job(number, position, case, composer)
            elif number == following:
                yield _Job(number, position, case, composer)
                following = next(wanted, None)
                if following is None:
                    return
            number += 1


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


class _Known:
    """Answers that the ledger has, whoever paid for them. Looking one up costs a quarter of a millisecond of CPU, and
    most cases of most runs are new: a Bloom filter of all that was answered, brought up to date with every batch of our
    own and every chunk of cases, tells which need no look. 2 MB hold a million keys with 2 needless looks in a
    thousand."""

    def __init__(self, clerk: Clerk) -> None:
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
    clerk: Clerk
    finished: asyncio.Queue[Entry | None]
    watch: Watch
    stop: asyncio.Event
    slots: asyncio.Semaphore
    known: _Known | None
    drawn: dict[str, None] = field(default_factory=dict)

    async def work(self, jobs: asyncio.Queue[_Job | None]) -> None:
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
    run_id: str,
    finished: asyncio.Queue[Entry | None],
    clerk: Clerk,
    claims: Claims,
    known: _Known | None,
    watch: Watch,
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
            await clerk.do(clerk.ledger.write, run_id, batch, claims.worker())
            if known is not None:
                known.add(key_id(answer.key) for entry in batch for answer in entry.answers)
            watch.done(batch)


def chunks(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """So many at a time."""
    iterator = iter(things)
    while chunk := list(islice(iterator, size)):
        yield chunk


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = failures.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
