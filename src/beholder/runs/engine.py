"""The engine of a run: many cases, one event loop, one writer.

    cases ──► queue ──► workers (a few more than may be asked at once) ──► queue ──► writer ──► ledger
              bounded   each: images, brief, judges, verdict               bounded   in batches

Memory does not grow with the number of cases: both queues are short, and finished verdicts are only in the ledger.
Where the ledger is shared (PostgreSQL), other processes may work on the same run: each leases the cases that it is
about to judge. On a Ray cluster (`runs.ray`) the workers are elsewhere; both ends of the run are the same.
"""

from __future__ import annotations

import asyncio
import logging
import math
from array import array
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from beholder.cases.case import Case
from beholder.errors import BeholderError, LedgerError, LedgerGone, Waiting
from beholder.judges.base import Judge, ReserveCall, capabilities_of
from beholder.ledger.encoding import key_id
from beholder.ledger.ledger import Ledger
from beholder.ledger.rescue import rescue_verdicts
from beholder.ledger.types import Entry, RunRecord, WriteToken
from beholder.rubrics.brief import Composer
from beholder.runs.cache import AnswerCache, AnswerLookup, SharedAnswerCache
from beholder.runs.case import CaseJudge
from beholder.runs.image_pool import ImagePool, ThumbnailSelector
from beholder.runs.ledger_access import LEASE_S, CaseLeases, LedgerThread, join_run
from beholder.runs.limits import RunLimits
from beholder.verdicts.verdict import FINAL_OUTCOMES, Outcome

if TYPE_CHECKING:
    from beholder.verdicts.calibration import Calibration


QUEUE_SIZE = 2  # tasks in the queue: more would read the images of all of them before the first request is sent
LOOKUP_CHUNK = 256  # tasks that are looked up in the ledger together
MIN_LEASE_CHUNK = 8  # tasks that are leased together where there are other processes: about as many as are asked
RECHECK_S = 1.0  # before cases that other processes had leased are looked at again; later checks wait longer
WRITE_BATCH = 64  # verdicts that are written together
WRITE_LINGER_S = 0.25  # how long a batch that is not full waits for more
WRITE_TRIES, WRITE_PAUSE_S = 5, 2.0  # of verdicts that could not be written, at the end of the run
PREPARE_AHEAD = 0.25  # workers beyond the concurrency, as a share of it: they make the next briefs while others wait

_log = logging.getLogger(__name__)

CaseSource = Callable[[], Iterable[Case]]  # in the same order each time

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunSettings:
    """How the cases of a run are judged; the same in every process that works on it.

    Attributes:
        run_id: The run in the ledger.
        composers: Make the briefs, one for each rubric.
        samples: How often each judge is asked.
        concurrency: How many cases are asked at once.
        timeout_s: For each judge and case, over all turns.
        retry: Final outcomes that are tried again.
        use_cache: Use answers that the ledger has.
        thumbnails: Store a thumbnail of each image.
        audit: Measure pairs of images beside what models say of them.
        calibration: With it verdicts also say how people would rate.
        lease_s: How long a process that sends no heartbeat keeps its cases.
        growing: Whether cases are chosen while the run goes on: it gets their positions and its total as it grows.
    """

    run_id: str
    composers: tuple[Composer, ...]
    samples: int = 1
    concurrency: int = 32
    timeout_s: float | None = None
    retry: frozenset[Outcome] = frozenset()
    use_cache: bool = True
    thumbnails: bool = True
    audit: bool = True
    calibration: Calibration | None = None
    lease_s: float = LEASE_S
    growing: bool = False

    @property
    def final(self) -> frozenset[Outcome]:
        """The outcomes after which a case is done."""
        return FINAL_OUTCOMES - self.retry

    def make_case_judge(
        self,
        judges: Sequence[Judge],
        images: ImagePool,
        look_up: AnswerLookup | None,
        slots: asyncio.Semaphore,
        reserve: Mapping[int, ReserveCall],
    ) -> CaseJudge:
        """Return what judges the cases of this run in one process."""
        return CaseJudge(
            judges,
            images,
            self.samples,
            look_up=look_up if self.use_cache else None,
            slots=slots,
            timeout_s=self.timeout_s,
            audit=self.audit,
            calibration=self.calibration,
            reserve=reserve,
            run_id=self.run_id,
        )


class RunObserver(Protocol):
    """Gets notified of the progress of a run, for progress bars and logs."""

    def on_skipped(self, count: int) -> None:
        """`count` verdicts already existed, or another process is producing them."""

    def on_waiting(self, count: int) -> None:
        """`count` cases have no answer yet; it will come with a batch."""

    def on_written(self, entries: Sequence[Entry]) -> None:
        """These verdicts are stored in the ledger."""


@dataclass(frozen=True, slots=True)
class CaseTask:
    """One verdict to give. `number` counts them over the whole run, `position` counts cases."""

    number: int
    position: int
    case: Case
    composer: Composer

    @property
    def key(self) -> tuple[str, str]:
        return self.case.id, self.composer.rubric.name


class _RunSlots(asyncio.Semaphore):
    """Limits how many cases of a run are asked at once; none any more once it is `closed`."""

    closed = False

    async def __aenter__(self) -> None:
        await self.acquire()
        if self.closed:
            self.release()
            raise Waiting("the run was stopped first")


class Engine:
    """Executes a run in this process.

    Args:
        settings: How cases are judged.
        cases: Iterates over all cases of the run; called again where other processes had leased some of them.
        ledger: Where verdicts go.
        limits: Those of the judges, which all processes share.
        observer: Gets notified of the progress.
        stop: When it is set, no new case is begun, and those in progress are finished.
    """

    def __init__(
        self,
        settings: RunSettings,
        cases: CaseSource,
        ledger: Ledger,
        limits: RunLimits,
        observer: RunObserver,
        stop: asyncio.Event,
    ) -> None:
        self.settings, self.limits, self.observer, self.stop = settings, limits, observer, stop
        self.ledger = ledger
        self.ledger_thread = LedgerThread(ledger)
        self.tasks: asyncio.Queue[CaseTask | None] = asyncio.Queue(maxsize=QUEUE_SIZE)
        self.finished: asyncio.Queue[Entry | None] = asyncio.Queue(maxsize=2 * WRITE_BATCH)
        self.cache: AnswerCache | None = None
        self._cases = cases
        self._slots = _RunSlots(settings.concurrency)
        self._file_problem = ""  # of the ledger, which ends the run early
        self._failure: Exception | None = None  # of a judge, the ledger, the cases or the observer: the first
        self._unwritten: deque[tuple[WriteToken | None, list[Entry]]] = deque()
        self._write_failed = False  # a batch could not be written
        self._rescued = ""  # where verdicts are that could not be written, in a sentence
        self._can_rescue = True
        # These are set by `write_verdicts`, in whose context cases are queued and written.
        self._record: RunRecord
        self._leases: CaseLeases
        self._writer: asyncio.Task[None]

    async def run(self, judges: Sequence[Judge], images: ImagePool) -> None:
        """Judge all cases that have no final outcome in the run yet.

        Whatever else ends the run early, what is in progress is finished and stored first: it is paid for. A run that
        is canceled loses what was in progress and nothing else.

        Raises:
            SetupError: A judge can never answer.
            LedgerError: The ledger failed, or its file was moved or deleted.
        """
        settings = self.settings
        cache = self.cache = (
            SharedAnswerCache(self.ledger_thread, self.stop, settings.lease_s, settings.timeout_s)
            if settings.use_cache
            else None
        )
        by_batch = any(capabilities_of(judge).answers_later for judge in judges)  # whose answers come in days
        self._can_rescue = not by_batch  # their replies are in the ledger already
        case_judge = settings.make_case_judge(
            judges,
            images,
            None if cache is None else cache.look_up if by_batch else cache.look_up_or_lock,
            self._slots,
            self.limits.reserve,
        )
        case_judge = replace(
            case_judge,
            release=None if cache is None else cache.release,
            on_failure=self._end_early,
            thumbnails=ThumbnailSelector(self._find_thumbnails) if settings.thumbnails else None,
        )
        workers = settings.concurrency + math.ceil(settings.concurrency * PREPARE_AHEAD)
        try:
            async with self.write_verdicts(self.limits), asyncio.TaskGroup() as group:
                group.create_task(self.queue_cases(workers))
                for _ in range(workers):
                    group.create_task(self._work(case_judge))
        except BaseExceptionGroup as failures:
            raise find_first_failure(failures) from None
        finally:
            self.ledger_thread.close()
            if cache is not None:
                cache.close()

    async def _work(self, case_judge: CaseJudge) -> None:
        """Judge tasks until the end of the queue."""
        while (task := await self.tasks.get()) is not None:
            if self.stop.is_set():
                continue
            try:
                entry = await case_judge.judge(task.composer, task.case)
            except Waiting:  # for a batch; or for somebody else's answer when the run was stopped
                if not self.stop.is_set():
                    self._notify(lambda: self.observer.on_waiting(1))
                continue
            except Exception as error:  # before anything was answered
                self._end_early(error)
                continue
            if entry.failure is not None:
                self._end_early(entry.failure)
            await self.finished.put(replace(entry, position=task.position))

    async def _find_thumbnails(self, digests: list[str]) -> set[str]:
        return await self.ledger_thread.call(self.ledger.has_thumbnail, digests)

    async def queue_cases(self, workers: int) -> None:
        """Put every task that is this process's into the queue, then one end mark for each worker."""
        try:
            await self._queue_tasks()
        except Exception as error:  # of the ledger, or of the file that has the cases
            self._end_early(error)
        for _ in range(workers):
            await self.tasks.put(None)

    async def _queue_tasks(self) -> None:
        """Put every task that is this process's into the queue.

        Cases that other processes have leased are looked at again later: those processes may die before they are done.
        """
        settings, leases = self.settings, self._leases
        size = min(LOOKUP_CHUNK, max(MIN_LEASE_CHUNK, settings.concurrency)) if leases.shared else LOOKUP_CHUNK
        leased_elsewhere: array[int] | None = None
        pause_s = RECHECK_S
        while not self.stop.is_set() and (leased_elsewhere is None or leased_elsewhere):
            if leased_elsewhere is not None:  # all rows are read again, which takes time where there are many
                await wait_or_stop(self.stop, pause_s)
                pause_s = min(2 * pause_s, max(RECHECK_S, settings.lease_s / 4))
            leased_elsewhere, previous = array("q"), leased_elsewhere
            for chunk in split_chunks(_iterate_tasks(self._cases(), settings.composers, previous), size):
                if self.stop.is_set():
                    break
                if self.cache is not None:
                    await self.cache.refresh()
                claimed = await leases.claim([task.key for task in chunk], settings.final)
                epoch = leases.epoch
                for task in chunk:
                    if task.key in claimed.held or (task.key in claimed.mine and leases.epoch != epoch):
                        leased_elsewhere.append(task.number)
                    elif task.key not in claimed.mine:
                        self._notify(lambda: self.observer.on_skipped(1))
                    elif not self.stop.is_set() and self._can_go_on():
                        await self.tasks.put(task)

    @asynccontextmanager
    async def write_verdicts(self, limits: RunLimits) -> AsyncIterator[None]:
        """Join the run and write what is finished; at the end of the context, whatever ended it, write the rest.

        Sets `_leases` and `_writer`, so everything else of the engine runs within this context.
        """
        async with (
            join_run(self.ledger_thread, self.settings.run_id, limits, self.settings.lease_s) as leases,
            asyncio.TaskGroup() as group,
        ):
            self._leases = leases
            self._record = await self.ledger_thread.call(self.ledger.run, self.settings.run_id)
            self._writer = group.create_task(self._write_batches())
            try:
                yield
            except BaseException:
                await self._end_writing()
                self._log_rescue()
                raise
            await self._end_writing()
            if isinstance(self._failure, LedgerError):
                raise type(self._failure)(f"{self._failure}{self._rescued}")
            if self._failure is not None:
                self._log_rescue()
                raise self._failure
            if self._file_problem:
                raise LedgerError(self._file_problem + await self.ledger_thread.call(self.ledger.save_displaced))

    async def _end_writing(self) -> None:
        if self.can_write:
            await self.finished.put(None)
            await asyncio.wait([self._writer])

    def _log_rescue(self) -> None:
        """Log where verdicts are that could not be written, where something else ends the run."""
        if self._rescued:
            _log.warning("beholder: A write to the ledger failed.%s", self._rescued)

    @property
    def can_write(self) -> bool:
        """False once the writer has failed: then nobody takes verdicts out of the queue any more."""
        return not self._writer.done()

    def _can_go_on(self) -> bool:
        """Return whether more may be asked. If the ledger's file is gone or its disk full, the run is stopped, and what
        is in progress is finished and written: it is paid for."""
        if not self._file_problem and (problem := self.ledger.find_file_problem()):
            self._file_problem = problem
            self._stop_asking()
        return not self._file_problem

    def _end_early(self, failure: Exception) -> None:
        """Let the run end with this error, unless it does with another one, once what is in progress is written."""
        if self._failure is None:
            self._failure = failure
            # Said at once: it may take a while until the run ends and raises it.
            sentence = failure if isinstance(failure, BeholderError) else f"{type(failure).__name__}: {failure}."
            _log.warning("beholder: %s Nothing more is asked; what is in progress is finished.", sentence)
        if isinstance(failure, LedgerGone):
            self.ledger_thread.retry_for_s = 0.0  # it was waited for
        self._stop_asking()

    def _notify(self, notify: Callable[[], None]) -> None:
        """Notify the observer. If that fails the run ends early: calls in progress are paid for, and never canceled."""
        try:
            notify()
        except Exception as error:
            self._end_early(error)

    def _stop_asking(self) -> None:
        """Begin no new case, and let none out that was only prepared."""
        self.stop.set()
        self._slots.closed = True

    async def _write_batches(self) -> None:
        """Write batches until the end mark; verdicts count as done when the ledger has them.

        When a write fails nothing more is asked. What is in progress is finished, since it is paid for. At the end it
        is written if that is possible by then; otherwise it is rescued into another file.
        """
        is_open = True
        while is_open:
            batch, is_open = await take_batch(self.finished, WRITE_BATCH, WRITE_LINGER_S)
            if batch:
                self._unwritten.append((self._leases.make_write_token(), batch))
            if not self._write_failed:
                await self._write_unwritten()
        for _ in range(WRITE_TRIES if self._unwritten else 0):
            await asyncio.sleep(WRITE_PAUSE_S)
            await self._write_unwritten()
            if not self._unwritten:
                self._rescued = " Later it could be, and all that was paid for is stored; start again."
                return
        if self._unwritten and self._can_rescue:
            batches = [batch for _, batch in self._unwritten]
            token = self._unwritten[0][0]
            self._rescued = await asyncio.to_thread(rescue_verdicts, self.ledger, self._record, batches, token)

    async def _write_unwritten(self) -> None:
        """Write the batches that are not yet written, one after the other, until one cannot be."""
        while self._unwritten:
            token, batch = self._unwritten[0]
            try:
                write = partial(self.ledger.write, self.settings.run_id, batch, token, growing=self.settings.growing)
                await self.ledger_thread.call(write)
            except Exception as error:
                self._write_failed = True
                self._end_early(error)
                return
            self._unwritten.popleft()
            if self.cache is not None:
                self.cache.add(key_id(answer.key) for entry in batch for answer in entry.answers)
            self._notify(partial(self.observer.on_written, batch))
            self._can_go_on()


def _iterate_tasks(
    cases: Iterable[Case], composers: Sequence[Composer], only: Sequence[int] | None
) -> Iterator[CaseTask]:
    """Return all tasks of a run, or only those with these numbers, which are ascending."""
    pairs = ((position, case, composer) for position, case in enumerate(cases) for composer in composers)
    tasks = (CaseTask(number, *pair) for number, pair in enumerate(pairs))
    return tasks if only is None else pick_positions(tasks, only)


def pick_positions(values: Iterable[T], positions: Sequence[int]) -> Iterator[T]:
    """Return the values at these positions, which are ascending."""
    wanted = iter(positions)
    following = next(wanted, None)
    for position, value in enumerate(values):
        if position == following:
            yield value
            following = next(wanted, None)
        if following is None:
            return


def split_chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Return the items as lists of at most `size`."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


async def take_batch(queue: asyncio.Queue[T | None], size: int, linger_s: float) -> tuple[list[T], bool]:
    """Take items from a queue: at most `size`, waiting `linger_s` for more after the first.

    Returns:
        The items, and whether there may be more: `None` in the queue is its end.
    """
    items: list[T] = []
    try:
        async with asyncio.timeout(None) as timeout:
            while len(items) < size:
                item = await queue.get()
                if item is None:
                    return items, False
                items.append(item)
                if len(items) == 1:
                    timeout.reschedule(asyncio.get_running_loop().time() + linger_s)
    except TimeoutError:
        pass
    return items, True


async def wait_or_stop(stop: asyncio.Event, seconds: float) -> None:
    """Wait for so many seconds, or until `stop` is set."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


def find_first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the exception that came first; the others may be its consequences."""
    inner = failures.exceptions[0]
    return find_first_failure(inner) if isinstance(inner, BaseExceptionGroup) else inner
