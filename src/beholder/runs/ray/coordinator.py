"""Which cases may be begun, and which were begun too often: a case may kill the process that judges it.

How the limits of a run are shared out among its workers: an equal part each, and never more than the whole.

The office of a run: one actor beside the driver, the only one that workers speak to.

It holds no more than what is under way, and it dies with the driver, and with it the run: what is in the ledger stays.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any

from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import AnswerKey, StoredAnswer
from beholder.runs.cache import AnswerCache
from beholder.runs.ledger_access import LedgerThread
from beholder.runs.ray.messages import (
    MAX_ATTEMPTS,
    CaseMessage,
    Environment,
    StartDecision,
    TaskChunk,
    WorkerShare,
    to_pickle,
)


@dataclass(slots=True)
class _CaseAttempt:
    worker: str = ""
    times: int = 0
    suspect: bool = False


@dataclass(slots=True)
class AttemptTracker:
    """Cases by their number, from when they are begun to when they end. `alive` names the nodes that live.

    When a worker dies, all its cases are suspects: each is begun again only where nothing else is under way, so that
    the next death tells which it was, and costs no other case anything. If its whole node died, they are hardly to
    blame, the first time.
    """

    alive: Callable[[], Collection[str]]
    _attempts: dict[int, _CaseAttempt] = field(default_factory=dict)
    _nodes: dict[str, str] = field(default_factory=dict)

    def enter(self, worker: str, node: str) -> None:
        self._nodes[worker] = node

    def dead(self, worker: str, number: int) -> str:
        """The worker that had the case before this one, and is therefore dead (Ray gives a case to another one only
        then); empty where there is none."""
        attempt = self._attempts.get(number)
        return attempt.worker if attempt is not None and attempt.worker not in ("", worker) else ""

    def begin(self, worker: str, number: int, alone: bool) -> StartDecision:
        """Whether the worker may begin a case; `alone` where it does nothing else meanwhile."""
        attempt = self._attempts.setdefault(number, _CaseAttempt())
        if dead := self.dead(worker, number):
            node_died = self._nodes.get(dead) not in self.alive()
            attempt.suspect = attempt.suspect or attempt.times > 1 or not node_died
        attempt.worker = ""
        if attempt.times >= MAX_ATTEMPTS:
            return StartDecision.LOST
        if attempt.suspect and not alone:
            return StartDecision.ALONE
        attempt.worker = worker
        attempt.times += 1
        return StartDecision.GO

    def end(self, number: int) -> None:
        self._attempts.pop(number, None)


WORKER_TIMEOUT_S = 15.0  # after which a worker's share goes to the others


@dataclass(slots=True)
class _Allotment:
    """A worker: when it was heard of, and what it was told that it may use."""

    heard: float
    slots: int = 0
    part: float = 0.0


@dataclass(slots=True)
class ShareAllocator:
    """`slots` is how many cases may be asked at once, `part` how much of the limits per minute may be used (0 to 1), by
    all workers together. Times are those of any clock that does not jump."""

    slots: int
    part: float = 1.0
    _seats: dict[str, _Allotment] = field(default_factory=dict)

    def enter(self, worker: str, now: float) -> None:
        self._seats.setdefault(worker, _Allotment(now)).heard = now

    def leave(self, worker: str) -> bool:
        """Whether it was there."""
        return self._seats.pop(worker, None) is not None

    def silent(self, now: float) -> list[str]:
        """Workers that were not heard of for so long that they must be dead."""
        return [name for name, seat in self._seats.items() if now - seat.heard > WORKER_TIMEOUT_S]

    def share(self, worker: str, inside: int) -> tuple[int, float, bool]:
        """The slots and the part that a worker has from now on, as far as the others have made room for it already; and
        whether that is all that it should have. It holds on to the cases that it has `inside`."""
        names = sorted(self._seats)
        others = [seat for name, seat in self._seats.items() if name != worker]
        fair = self.slots // len(names) + (names.index(worker) < self.slots % len(names))
        slots = max(0, min(fair, self.slots - sum(one.slots for one in others)))
        part = max(0.0, min(self.part / len(names), self.part - sum(one.part for one in others)))
        seat = self._seats[worker]
        seat.slots, seat.part = max(slots, inside), part
        return slots, part, slots == fair >= inside and part >= self.part / len(names) - 1e-9


COLLECT_BATCH = 64  # verdicts that the driver gets together
COLLECT_LINGER_S = 0.1  # how long it waits for more of them
SHARE_POLL_S = 2.0  # how often a worker is heard of, at least
SHARE_RECHECK_S = 0.1  # and while it waits for others to make room


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """What the office opens with: how many cases may be asked at once (`slots`), how many may be on their way at all
    (`most`), and after how many workers in a row that judged nothing the run is given up (`deaths`).

    `ledger` is its address, which may hold a password, and `variables` may hold keys: both only ever travel in a call
    to an actor, which Ray puts into no store and into no log.
    """

    ledger: str = field(repr=False)
    recall: bool
    slots: int
    most: int
    deaths: int
    variables: Environment = field(repr=False)


@dataclass(slots=True)
class _OpenChunk:
    """A chunk that is not done: as it travels, and the numbers of the jobs that have not ended."""

    body: bytes
    left: set[int]


class Coordinator:
    """See the module. Made without arguments, since those of an actor's constructor are kept by Ray; then `open`."""

    def __init__(self, alive: Callable[[], Collection[str]] | None = None) -> None:
        self._change = asyncio.Condition()
        self._attempts = AttemptTracker(alive or _list_live_nodes)
        self._actors: dict[str, str] = {}
        self._chunks: dict[int, _OpenChunk] = {}
        self._in_chunk: dict[int, int] = {}
        self._finished: deque[bytes] = deque()
        self._wishes: dict[int, tuple[Decimal, asyncio.Future[str]]] = {}
        self._back = Decimal(0)
        self._put = self._taken = self._wished = self._version = self._fruitless = 0
        self._failure: bytes | None = None
        self._closed = self._halted = self._cancelled = self._over = False

    async def open(self, terms: CoordinatorSettings) -> None:
        """Raises `LedgerError`."""
        self._terms = terms
        self._shares = ShareAllocator(terms.slots)
        self._clerk = LedgerThread(await asyncio.to_thread(Ledger.open, terms.ledger, read_only=True))
        self._known = AnswerCache(self._clerk) if terms.recall else None

    # For the driver

    async def put(self, jobs: Sequence[CaseMessage]) -> bool:
        """Takes a chunk of jobs, as soon as there is room for it; `False` where none is wanted any more."""
        if self._known is not None:
            await self._known.refresh()
        async with self._change:
            await self._change.wait_for(lambda: self._halted or self._held() < self._terms.most)
            if self._halted:
                return False
            chunk = TaskChunk(self._put, tuple(jobs))
            self._chunks[chunk.number] = _OpenChunk(to_pickle(chunk), {job.number for job in jobs})
            self._in_chunk |= {job.number: chunk.number for job in jobs}
            self._put += 1
            self._change.notify_all()
            return True

    async def close(self) -> None:
        """There are no more jobs."""
        self._closed = True
        await self._changed()

    async def halt(self, *, cancel: bool = False) -> None:
        """No new case is begun; with `cancel`, those under way are given up."""
        self._halted = True
        self._cancelled = self._cancelled or cancel
        await self._changed()

    async def finish(self) -> None:
        """All chunks are through: what is collected now is the rest."""
        self._over = True
        await self._changed()

    async def share_out(self, part: float) -> None:
        """The part of the limits per minute that all workers together may use."""
        self._shares.part = part
        await self._changed()

    async def is_more(self, first: int) -> bool:
        """Whether there is a chunk of that number, as soon as that is known."""
        async with self._change:
            await self._change.wait_for(lambda: self._put > first or self._closed or self._halted)
            return self._put > first and not self._halted

    async def collect(self, seen: int) -> tuple[list[bytes], bytes | None] | None:
        """Verdicts that are ready after the first `seen`, which are forgotten; and the failure that ends the run, where
        there is one and nothing before it. `None` at the end."""
        async with self._change:
            while self._taken < seen:
                self._finished.popleft()
                self._taken += 1
            self._change.notify_all()
            await self._change.wait_for(lambda: self._finished or self._failure or self._over)
            with suppress(TimeoutError):
                async with asyncio.timeout(COLLECT_LINGER_S):
                    await self._change.wait_for(
                        lambda: len(self._finished) >= COLLECT_BATCH or self._failure or self._over
                    )
            ready = list(islice(self._finished, COLLECT_BATCH))
            if ready:
                return ready, None
            return ([], self._failure) if self._failure else None

    async def wishes(self) -> tuple[dict[int, Decimal], Decimal]:
        """What workers want of the budget, by number, and what they gave back since; waits for the first wish."""
        async with self._change:
            await self._change.wait_for(lambda: bool(self._wishes))
            back, self._back = self._back, Decimal(0)
            return {number: amount for number, (amount, _) in self._wishes.items()}, back

    async def grant(self, refusals: Mapping[int, str]) -> None:
        """Answers wishes, each with why it is refused; empty where it is not."""
        for number, refusal in refusals.items():
            _, answer = self._wishes.pop(number)
            if not answer.done():
                answer.set_result(refusal)

    # For the task that reads

    async def chunk(self, number: int) -> bytes | None:
        """The chunk of that number, as soon as it is there; `None` after the last. A chunk that is done is empty: a
        task that was started again asks for all of them once more."""
        async with self._change:
            await self._change.wait_for(lambda: number < self._put or self._closed or self._halted)
            if number in self._chunks:
                return self._chunks[number].body
            return to_pickle(TaskChunk(number, ())) if number < self._put and not self._halted else None

    # For workers

    async def enter(self, worker: str, node: str, actor: str) -> Environment:
        """A worker begins, in an actor that keeps its name when it is started again: the one before is dead. Returns
        the variables that its judges need."""
        self._shares.leave(self._actors.get(actor, ""))
        self._actors[actor] = worker
        self._shares.enter(worker, _loop_time())
        self._attempts.enter(worker, node)
        self._fruitless += 1
        if self._fruitless > self._terms.deaths:
            died = f"{self._fruitless - 1} workers died in a row, and no case was judged"
            await self.fail(
                to_pickle(UsageError(f"{died}; the logs of Ray (/tmp/ray/session_latest/logs) may say why."))
            )
        await self._changed()
        return self._terms.variables

    async def share(self, worker: str, inside: int, version: int) -> WorkerShare:
        """What the worker may use, as soon as that is not what it knows (`version`), or after `BEAT_S`. `inside` is how
        many of its cases are under way. A version below 0 is one for which there is more to come."""
        self._shares.enter(worker, _loop_time())
        for name in self._shares.silent(_loop_time()):
            self._shares.leave(name)
            self._version += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(SHARE_POLL_S if version >= 0 else SHARE_RECHECK_S), self._change:
                await self._change.wait_for(lambda: 0 <= version != self._version)
        self._shares.enter(worker, _loop_time())
        slots, part, settled = self._shares.share(worker, inside)
        return WorkerShare(self._version if settled else -1, slots, part, self._halted, self._cancelled)

    async def begin(self, worker: str, jobs: Sequence[tuple[int, bool]]) -> list[StartDecision]:
        """For each job (its number, and whether nothing else is under way in the worker's process) whether it may be
        begun. From then on it counts as begun, until `end`."""
        return [self._leave(worker, number, alone) for number, alone in jobs]

    async def end(self, done: Sequence[tuple[int, bytes]], back: Decimal = Decimal(0)) -> list[None]:
        """Verdicts that are ready, and money that their calls did not come to. A verdict that comes twice counts
        once."""
        async with self._change:
            self._back += back
            self._fruitless = 0
            for number, body in done:
                self._attempts.end(number)
                place = self._in_chunk.pop(number, None)
                if place is None:
                    continue
                self._finished.append(body)
                self._chunks[place].left.discard(number)
                if not self._chunks[place].left:
                    del self._chunks[place]
            self._change.notify_all()
        return [None for _ in done]

    async def fail(self, error: bytes) -> None:
        """Something makes going on senseless."""
        self._failure = self._failure or error
        await self.halt(cancel=True)

    async def recall(self, keys: Sequence[AnswerKey]) -> Mapping[AnswerKey, StoredAnswer]:
        """Answers that were paid for already."""
        return await self._known.look_up(keys) if self._known is not None else {}

    async def has_thumbnail(self, digests: Sequence[str]) -> set[str]:
        """Those of these image files that the ledger has a thumbnail of."""
        return await self._clerk.call(self._clerk.ledger.has_thumbnail, digests)

    async def more(self, amounts: Sequence[Decimal], back: Decimal = Decimal(0)) -> list[str]:
        """Money for calls, and what others did not come to; for each amount why it is refused, empty where it is
        not."""
        answers: list[asyncio.Future[str]] = []
        async with self._change:
            self._back += back
            for amount in amounts:
                answers.append(asyncio.get_running_loop().create_future())
                self._wished += 1
                self._wishes[self._wished] = (amount, answers[-1])
            self._change.notify_all()
        return [await answer for answer in answers]

    # Inside

    def _held(self) -> int:
        """Verdicts to give, and such that wait for the driver."""
        return len(self._in_chunk) + len(self._finished)

    async def _changed(self) -> None:
        async with self._change:
            self._version += 1
            self._change.notify_all()

    def _leave(self, worker: str, number: int, alone: bool) -> StartDecision:
        if number not in self._in_chunk:
            return StartDecision.OVER
        if self._halted:
            return StartDecision.HALT
        if self._shares.leave(self._attempts.dead(worker, number)):
            self._version += 1
        return self._attempts.begin(worker, number, alone)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _list_live_nodes() -> Collection[str]:
    import ray

    nodes: Callable[[], list[dict[str, Any]]] = ray.nodes
    return {node["NodeID"] for node in nodes() if node["Alive"]}
