"""The coordinator of a run on Ray (one actor beside the driver, the only one that workers talk to), and its messages.

`AttemptTracker` knows which cases were started how often: a case may kill the process that judges it.
`ShareAllocator` divides the limits of the run among its workers: an equal part each, and never more than the whole.

The coordinator holds only what is in progress. It dies with the driver, and the run with it; the ledger stays.
"""

from __future__ import annotations

import asyncio
import pickle
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from importlib import import_module
from itertools import islice
from typing import Any

from beholder.cases.case import Case
from beholder.errors import BeholderError, UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import AnswerKey, StoredAnswer
from beholder.runs.cache import AnswerCache
from beholder.runs.engine import RunSettings
from beholder.runs.ledger_access import LedgerThread
from beholder.runs.suite import Suite

CHUNK_COLUMN = "chunk"  # the column of Ray Data that has the chunks
MAX_ATTEMPTS = 3  # how often a case is started: after that it has killed its worker often enough
# Cases in progress beyond those that are asked, as a share of them: more than in a local engine, since the coordinator
# is called before and after each.
WORKER_PREPARE_AHEAD = 0.5

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CaseMessage:
    """A `CaseTask` as it is sent: `rubric` is the position of its composer in the settings."""

    number: int
    position: int
    case: Case
    rubric: int


@dataclass(frozen=True, slots=True)
class TaskChunk:
    """Tasks that one worker gets together."""

    number: int
    tasks: tuple[CaseMessage, ...]


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """Everything that a worker needs to judge as the driver would. No secrets. Relative paths start at `folder`."""

    settings: RunSettings
    suite: Suite
    folder: str


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """What a worker may use from now on: so many cases at once (`slots`), and a part (0 to 1) of the rate limits.

    `stopped` means that no new case is started, `canceled` that those in progress are canceled as well. `version`
    changes with anything in it.
    """

    version: int
    slots: int
    part: float
    stopped: bool = False
    canceled: bool = False


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The process of a worker: its node, its id, and when it was started, since ids are used again."""

    node: str
    pid: int
    created: float


class StartDecision(Enum):
    """The coordinator's answer to a worker that is about to start a case."""

    GO = "go"
    ALONE = "alone"  # it was in progress when its worker died: ask again when nothing else is in progress there
    DONE = "done"  # its verdict is there already
    GIVEN_UP = "given up"  # it was started `MAX_ATTEMPTS` times and never ended
    STOPPED = "stopped"  # no new case is started


def identify_process(pid: int) -> tuple[int, float]:
    """Return the id of a process of this node and when it was started; raises an error if there is none."""
    psutil: Any = import_module("psutil")  # which Ray brings along
    return pid, float(psutil.Process(pid).create_time())


def to_pickle(thing: object) -> bytes:
    return pickle.dumps(thing, protocol=5)


def make_picklable(case: Case) -> Case:
    """Return the case with mappings that can be pickled."""
    return replace(case, images=dict(case.images), fields=dict(case.fields), groups=dict(case.groups))


def pickle_error(error: BaseException) -> bytes:
    """Pickle an error for another process: itself where that is possible, else one with the same message."""
    try:
        body = to_pickle(error)
        pickle.loads(body)
    except Exception:
        kind = UsageError if isinstance(error, BeholderError) else RuntimeError
        body = to_pickle(kind(str(error) if isinstance(error, BeholderError) else f"{type(error).__name__}: {error}"))
    return body


@dataclass(slots=True)
class _CaseAttempt:
    worker: str = ""
    times: int = 0
    suspect: bool = False


@dataclass(slots=True)
class AttemptTracker:
    """Counts how often cases were started, by number, until they end. `live_nodes` returns the nodes that are alive.

    When a worker dies, all its cases are suspects: each is started again only where nothing else is in progress, so
    that the next death tells which it was, and costs no other case anything. If its whole node died, they are hardly to
    blame, the first time.
    """

    live_nodes: Callable[[], Collection[str]]
    _attempts: dict[int, _CaseAttempt] = field(default_factory=dict)
    _nodes: dict[str, str] = field(default_factory=dict)

    def register_worker(self, worker: str, node: str) -> None:
        self._nodes[worker] = node

    def find_dead_worker(self, worker: str, number: int) -> str:
        """Return the worker that had the case before this one, empty where there is none.

        It is dead: Ray gives a case to another worker only then.
        """
        attempt = self._attempts.get(number)
        return attempt.worker if attempt is not None and attempt.worker not in ("", worker) else ""

    def start(self, worker: str, number: int, alone: bool) -> StartDecision:
        """Decide whether the worker may start a case; `alone` if nothing else is in progress there."""
        attempt = self._attempts.setdefault(number, _CaseAttempt())
        if dead := self.find_dead_worker(worker, number):
            node_died = self._nodes.get(dead) not in self.live_nodes()
            attempt.suspect = attempt.suspect or attempt.times > 1 or not node_died
        attempt.worker = ""
        if attempt.times >= MAX_ATTEMPTS:
            return StartDecision.GIVEN_UP
        if attempt.suspect and not alone:
            return StartDecision.ALONE
        attempt.worker = worker
        attempt.times += 1
        return StartDecision.GO

    def finish(self, number: int) -> None:
        self._attempts.pop(number, None)


WORKER_TIMEOUT_S = 15.0  # after which a worker's share goes to the others


@dataclass(slots=True)
class _Allotment:
    """What a worker may use, and when it last called."""

    last_call: float
    slots: int = 0
    part: float = 0.0


@dataclass(slots=True)
class ShareAllocator:
    """Divides limits among workers. `slots` is how many cases may be asked at once, `part` how much of the rate limits
    may be used (0 to 1), by all workers together. Times are those of any clock that does not jump."""

    slots: int
    part: float = 1.0
    _workers: dict[str, _Allotment] = field(default_factory=dict)

    def touch(self, worker: str, now: float) -> None:
        """Register a worker, or note that it has called."""
        self._workers.setdefault(worker, _Allotment(now)).last_call = now

    def remove(self, worker: str) -> bool:
        """Remove a worker. Returns whether it was there."""
        return self._workers.pop(worker, None) is not None

    def list_dead(self, now: float) -> list[str]:
        """Return the workers that have not called for so long that they must be dead."""
        return [name for name, worker in self._workers.items() if now - worker.last_call > WORKER_TIMEOUT_S]

    def allocate(self, worker: str, in_progress: int) -> tuple[int, float, bool]:
        """Return the slots and the part that a worker has from now on, and whether that is its whole share.

        It gets no more than the others have given back already, and keeps the cases that it has in progress.
        """
        names = sorted(self._workers)
        others = [other for name, other in self._workers.items() if name != worker]
        fair = self.slots // len(names) + (names.index(worker) < self.slots % len(names))
        slots = max(0, min(fair, self.slots - sum(other.slots for other in others)))
        part = max(0.0, min(self.part / len(names), self.part - sum(other.part for other in others)))
        allotment = self._workers[worker]
        allotment.slots, allotment.part = max(slots, in_progress), part
        return slots, part, slots == fair >= in_progress and part >= self.part / len(names) - 1e-9


COLLECT_BATCH = 64  # verdicts that the driver gets together
COLLECT_LINGER_S = 0.1  # how long it waits for more of them
SHARE_POLL_S = 2.0  # how often a worker calls, at least
SHARE_RECHECK_S = 0.1  # and while it waits for others to give back slots


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """What the coordinator is opened with.

    `ledger` may have a password, and `variables` may have keys: both are only ever sent in a call to an actor, which
    Ray puts into no store and into no log.

    Attributes:
        ledger: The address of the ledger.
        use_cache: Use answers that the ledger has.
        slots: How many cases may be asked at once.
        max_cases: How many cases may be held at all: queued, in progress, or waiting for the driver.
        max_failed_starts: After so many workers in a row that judged nothing the run is given up.
        lease_s: A worker that has not called for so many seconds (and `WORKER_TIMEOUT_S`) is ended, and its cases go to
            others.
        variables: Environment variables that the judges need.
    """

    ledger: str = field(repr=False)
    use_cache: bool
    slots: int
    max_cases: int
    max_failed_starts: int
    lease_s: float
    variables: Environment = field(repr=False)


@dataclass(slots=True)
class _OpenChunk:
    """A chunk that is not done: as it is sent, and the numbers of the tasks that have not ended."""

    body: bytes
    left: set[int]


class Coordinator:
    """The actor. `open` takes its settings, and not the constructor, since Ray keeps the arguments of constructors."""

    def __init__(self, live_nodes: Callable[[], Collection[str]] | None = None) -> None:
        self._change = asyncio.Condition()
        self._attempts = AttemptTracker(live_nodes or _list_live_nodes)
        self._actors: dict[str, str] = {}
        self._processes: dict[str, ProcessIdentity] = {}
        self._last_calls: dict[str, float] = {}
        self._chunks: dict[int, _OpenChunk] = {}
        self._in_chunk: dict[int, int] = {}
        self._finished: deque[bytes] = deque()
        self._fund_requests: dict[int, tuple[Decimal, asyncio.Future[str]]] = {}
        self._returned_usd = Decimal(0)
        self._chunk_count = self._collected = self._request_count = self._version = 0
        self._workers_without_result = 0  # workers that started since the last verdict
        self._failure: bytes | None = None
        self._input_closed = self._stopped = self._canceled = self._finished_all = False

    async def open(self, settings: CoordinatorSettings) -> None:
        """Open the ledger. Raises `LedgerError`."""
        self._settings = settings
        self._shares = ShareAllocator(settings.slots)
        self._ledger_thread = LedgerThread(await asyncio.to_thread(Ledger.open, settings.ledger, read_only=True))
        self._cache = AnswerCache(self._ledger_thread) if settings.use_cache else None

    # For the driver

    async def add_chunk(self, tasks: Sequence[CaseMessage]) -> bool:
        """Take a chunk of tasks as soon as fewer than `max_cases` are held. Returns False once the run is stopped."""
        if self._cache is not None:
            await self._cache.refresh()
        async with self._change:
            await self._change.wait_for(lambda: self._stopped or self._count_held() < self._settings.max_cases)
            if self._stopped:
                return False
            chunk = TaskChunk(self._chunk_count, tuple(tasks))
            self._chunks[chunk.number] = _OpenChunk(to_pickle(chunk), {task.number for task in tasks})
            self._in_chunk |= {task.number: chunk.number for task in tasks}
            self._chunk_count += 1
            self._change.notify_all()
            return True

    async def close_input(self) -> None:
        """Note that there are no more tasks."""
        self._input_closed = True
        await self._changed()

    async def stop(self, *, cancel: bool = False) -> None:
        """Start no new case; with `cancel`, also cancel those in progress."""
        self._stopped = True
        self._canceled = self._canceled or cancel
        await self._changed()

    async def finish(self) -> None:
        """Note that all chunks are through: what is collected now is the rest."""
        self._finished_all = True
        await self._changed()

    async def set_share(self, part: float) -> None:
        """Set the part of the rate limits that all workers together may use."""
        self._shares.part = part
        await self._changed()

    async def is_more(self, first: int) -> bool:
        """Return whether there is a chunk of that number, as soon as that is known."""
        async with self._change:
            await self._change.wait_for(lambda: self._chunk_count > first or self._input_closed or self._stopped)
            return self._chunk_count > first and not self._stopped

    async def collect(self, seen: int) -> tuple[list[bytes], bytes | None] | None:
        """Return verdicts that are ready, as soon as there are some.

        Args:
            seen: How many the driver has got already; these are forgotten now.

        Returns:
            The verdicts; if there are none, the failure that ends the run. `None` at the end.
        """
        async with self._change:
            while self._collected < seen:
                self._finished.popleft()
                self._collected += 1
            self._change.notify_all()
            await self._change.wait_for(lambda: self._finished or self._failure or self._finished_all)
            with suppress(TimeoutError):
                async with asyncio.timeout(COLLECT_LINGER_S):
                    await self._change.wait_for(
                        lambda: len(self._finished) >= COLLECT_BATCH or self._failure or self._finished_all
                    )
            ready = list(islice(self._finished, COLLECT_BATCH))
            if ready:
                return ready, None
            return ([], self._failure) if self._failure else None

    async def read_fund_requests(self) -> tuple[dict[int, Decimal], Decimal]:
        """Return what workers request of the budget, by number, and what they returned; waits for the first request."""
        async with self._change:
            await self._change.wait_for(lambda: bool(self._fund_requests))
            requests = {number: amount for number, (amount, _) in self._fund_requests.items()}
            return requests, await self.take_returned()

    async def take_returned(self) -> Decimal:
        """Return what workers returned of the budget since it was last asked for."""
        returned, self._returned_usd = self._returned_usd, Decimal(0)
        return returned

    async def answer_fund_requests(self, refusals: Mapping[int, str]) -> None:
        """Answer requests, each with why it is refused; empty where it is granted."""
        for number, refusal in refusals.items():
            _, answer = self._fund_requests.pop(number)
            if not answer.done():
                answer.set_result(refusal)

    async def take_silent_workers(self) -> list[ProcessIdentity]:
        """Return the processes of workers that have not called for too long, each once: they are to be ended.

        They may be frozen: Ray gives their cases to others only once they are dead. One that only starts slowly, on a
        busy machine, is given `WORKER_TIMEOUT_S` at least; in a run that was stopped it is not given more.
        """
        patience_s = WORKER_TIMEOUT_S if self._stopped else max(self._settings.lease_s, WORKER_TIMEOUT_S)
        now = _loop_time()
        silent = [name for name in self._processes if now - self._last_calls[name] > patience_s]
        return [self._processes.pop(name) for name in silent]

    # For the task that reads

    async def chunk(self, number: int) -> bytes | None:
        """Return the chunk of that number, as soon as it is there; `None` after the last.

        A chunk that is done is empty: a read task that was restarted asks for all of them again.
        """
        async with self._change:
            await self._change.wait_for(lambda: number < self._chunk_count or self._input_closed or self._stopped)
            if number in self._chunks:
                return self._chunks[number].body
            return to_pickle(TaskChunk(number, ())) if number < self._chunk_count and not self._stopped else None

    # For workers

    async def register_worker(self, worker: str, actor: str, process: ProcessIdentity) -> Environment:
        """Register a worker, and return the environment variables that its judges need.

        An actor keeps its id when it is restarted: the worker that it ran before is dead.
        """
        before = self._actors.get(actor, "")
        self._shares.remove(before)
        self._processes.pop(before, None)
        self._actors[actor] = worker
        self._processes[worker] = process
        self._touch(worker)
        self._attempts.register_worker(worker, process.node)
        self._workers_without_result += 1
        if self._workers_without_result > self._settings.max_failed_starts:
            died = f"{self._workers_without_result - 1} workers died in a row, and no case was judged"
            await self.fail(
                to_pickle(UsageError(f"{died}; the logs of Ray (/tmp/ray/session_latest/logs) may say why."))
            )
        await self._changed()
        return self._settings.variables

    async def share(self, worker: str, in_progress: int, version: int) -> WorkerShare:
        """Return what the worker may use, as soon as that differs from what it knows, or after `SHARE_POLL_S`.

        Args:
            worker: The worker.
            in_progress: How many of its cases are in progress.
            version: That of the share that it knows; below 0 if it has not got its whole share yet.
        """
        self._touch(worker)
        for name in self._shares.list_dead(_loop_time()):
            self._shares.remove(name)
            self._version += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(SHARE_POLL_S if version >= 0 else SHARE_RECHECK_S), self._change:
                await self._change.wait_for(lambda: 0 <= version != self._version)
        self._touch(worker)
        slots, part, is_whole = self._shares.allocate(worker, in_progress)
        return WorkerShare(self._version if is_whole else -1, slots, part, self._stopped, self._canceled)

    async def start_cases(self, worker: str, tasks: Sequence[tuple[int, bool]]) -> list[StartDecision]:
        """Decide for each task whether it may be started; from then on it counts as started, until `finish_cases`.

        Args:
            worker: The worker.
            tasks: The number of each task, and whether nothing else is in progress in the worker's process.
        """
        return [self._decide_start(worker, number, alone) for number, alone in tasks]

    async def finish_cases(self, done: Sequence[tuple[int, bytes]], returned_usd: Decimal = Decimal(0)) -> list[None]:
        """Take finished verdicts, and money that their calls did not use. A verdict that comes twice counts once."""
        async with self._change:
            self._returned_usd += returned_usd
            self._workers_without_result = 0
            for number, body in done:
                self._attempts.finish(number)
                chunk = self._in_chunk.pop(number, None)
                if chunk is None:
                    continue
                self._finished.append(body)
                self._chunks[chunk].left.discard(number)
                if not self._chunks[chunk].left:
                    del self._chunks[chunk]
            self._change.notify_all()
        return [None for _ in done]

    async def fail(self, error: bytes) -> None:
        """End the run with a pickled error."""
        self._failure = self._failure or error
        await self.stop(cancel=True)

    async def look_up_answers(self, keys: Sequence[AnswerKey]) -> Mapping[AnswerKey, StoredAnswer]:
        """Return the stored answers to these keys."""
        return await self._cache.look_up(keys) if self._cache is not None else {}

    async def has_thumbnail(self, digests: Sequence[str]) -> set[str]:
        """Return those of these image files that the ledger has a thumbnail of."""
        return await self._ledger_thread.call(self._ledger_thread.ledger.has_thumbnail, digests)

    async def request_funds(self, amounts: Sequence[Decimal], returned_usd: Decimal = Decimal(0)) -> list[str]:
        """Request money for calls, and return what earlier calls did not use.

        Returns:
            For each amount why it is refused; empty where it is granted.
        """
        answers: list[asyncio.Future[str]] = []
        async with self._change:
            self._returned_usd += returned_usd
            for amount in amounts:
                answers.append(asyncio.get_running_loop().create_future())
                self._request_count += 1
                self._fund_requests[self._request_count] = (amount, answers[-1])
            self._change.notify_all()
        return [await answer for answer in answers]

    # Inside

    def _touch(self, worker: str) -> None:
        self._last_calls[worker] = _loop_time()
        self._shares.touch(worker, _loop_time())

    def _count_held(self) -> int:
        """Return how many verdicts are still to be made, or wait for the driver."""
        return len(self._in_chunk) + len(self._finished)

    async def _changed(self) -> None:
        async with self._change:
            self._version += 1
            self._change.notify_all()

    def _decide_start(self, worker: str, number: int, alone: bool) -> StartDecision:
        if number not in self._in_chunk:
            return StartDecision.DONE
        if self._stopped:
            return StartDecision.STOPPED
        if self._shares.remove(self._attempts.find_dead_worker(worker, number)):
            self._version += 1
        return self._attempts.start(worker, number, alone)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _list_live_nodes() -> Collection[str]:
    import ray

    nodes: Callable[[], list[dict[str, Any]]] = ray.nodes
    return {node["NodeID"] for node in nodes() if node["Alive"]}
