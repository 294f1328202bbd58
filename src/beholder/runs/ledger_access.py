"""The ledger as the event loop speaks to it: from one thread of its own, so that the loop never waits for the disk, and
with patience for a server that is away for a while.

Many small questions, asked together.

One run, one process: two at once would pay for the same cases. Where the ledger is shared they lease their cases,
and only one that hands a run in as a batch needs it alone.

Which cases are this process's to judge: all that are not done, or those that it leased among other processes.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from beholder.errors import LedgerError, LedgerGone, UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import ClaimResult, VerdictKey, WriteToken
from beholder.runs.limits import RunLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


RETRY_FOR_S = 120.0  # how long a server that does not answer is tried again
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0

_log = logging.getLogger("beholder")  # on stderr, unless a program says otherwise

T = TypeVar("T")


class LedgerThread:
    """Asks the ledger, one thing at a time."""

    def __init__(self, ledger: Ledger, *, patience_s: float = RETRY_FOR_S) -> None:
        self.ledger = ledger
        self.patience_s = patience_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")

    async def do(self, work: Callable[..., T], *arguments: object) -> T:
        """What `work` returns. Raises `LedgerError`; for a server that is away only after some time, in which `work` is
        done again: it must bear that."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self.patience_s, FIRST_PAUSE_S
        while True:
            try:
                return await loop.run_in_executor(self._thread, work, *arguments)
            except LedgerGone as error:
                if loop.time() + pause > deadline:
                    raise
                if pause == FIRST_PAUSE_S:
                    _log.warning("beholder: %s Tried again for %g s.", error, self.patience_s)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def close(self) -> None:
        self._thread.shutdown()


async def wait_or_stop(stop: asyncio.Event, seconds: float) -> None:
    """Waits so long, or until it is time to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


COALESCE_S = 0.002  # how long a question waits for others

A = TypeVar("A")
R = TypeVar("R")


class CallCoalescer(Generic[A, R]):
    """Questions of many tasks, sent as one: to another process or a ledger, one costs about as much as fifty. `send`
    returns as many answers, in the order of the questions."""

    def __init__(self, send: Callable[[Sequence[A]], Awaitable[Sequence[R]]]) -> None:
        self._send = send
        self._wanted: list[A] = []
        self._asking: asyncio.Task[Sequence[R]] | None = None

    async def ask(self, one: A) -> R:
        if self._asking is None:
            self._asking = asyncio.create_task(self._soon())
        place = len(self._wanted)
        self._wanted.append(one)
        return (await asyncio.shield(self._asking))[place]

    async def _soon(self) -> Sequence[R]:
        await asyncio.sleep(COALESCE_S)
        wanted, self._wanted, self._asking = self._wanted, [], None
        return await self._send(wanted)


@contextmanager
def lock_run(ledger: Ledger, run_id: str, *, alone: bool = False) -> Iterator[None]:
    """Holds a run for this process; on a shared ledger with others, unless it must be `alone`. However the process
    ends, nothing stays behind. Raises `UsageError` when another process has it.
    """
    if ledger.path is not None:
        with _lock_file(ledger.path, run_id):
            yield
    else:
        with ledger.lock_run(run_id, alone=alone) as mine:
            if not mine:
                raise UsageError(_RUN_IS_LOCKED.format(run_id))
            yield


_RUN_IS_LOCKED = "The run {} is under way in another process; wait for it, or stop it."


@contextmanager
def _lock_file(ledger: Path, run_id: str) -> Iterator[None]:
    """By a lock on a file beside the ledger. Where there is no `flock` (Windows), nobody is kept out."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    path = ledger.with_name(f"{ledger.name}.{run_id}.lock")
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(_RUN_IS_LOCKED.format(run_id)) from None
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


LEASE_S = 60.0  # how long a worker that is not heard of keeps what it leased
HEARTBEATS_PER_LEASE = 4  # in that time


class CaseLeases(Protocol):
    """Who says which cases are ours. What was claimed is ours as long as `epoch` is the same; `shared` is whether there
    may be others. `worker` names a batch that is about to be written."""

    @property
    def shared(self) -> bool: ...

    @property
    def epoch(self) -> int: ...

    async def claim(self, wanted: Sequence[VerdictKey], final: Collection[str]) -> ClaimResult: ...

    def worker(self) -> WriteToken | None: ...


@dataclass(frozen=True, slots=True)
class UnsharedLeases:
    """The only process on a run: what is not done is ours."""

    clerk: LedgerThread
    run: str
    shared: bool = False
    epoch: int = 0

    async def claim(self, wanted: Sequence[VerdictKey], final: Collection[str]) -> ClaimResult:
        there = await self.clerk.do(self.clerk.ledger.outcomes, self.run, list({case: None for case, _ in wanted}))
        return ClaimResult(frozenset(key for key in wanted if there.get(key) not in final), frozenset())

    def worker(self) -> None:
        return None


class SharedLeases:
    """One of several processes on a run. It says that it lives, and keeps to its part of what all may use."""

    shared = True

    def __init__(self, clerk: LedgerThread, run: str, limits: RunLimits, lease_s: float) -> None:
        self.epoch = 0
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._clerk, self._run, self._limits, self._lease_s = clerk, run, limits, lease_s
        self._heard = -math.inf
        limit = limits.budget.limit
        if limit is not None and not limits.whole:
            limits.budget.share(lambda least: self._more(limit, least), self._fresh)

    async def claim(self, wanted: Sequence[VerdictKey], final: Collection[str]) -> ClaimResult:
        await self._fresh()
        return await self._clerk.do(self._clerk.ledger.claim, self._run, self.holder, wanted, final)

    def worker(self) -> WriteToken:
        return WriteToken(self.holder, secrets.token_hex(8))

    async def live(self) -> None:
        """Says that it lives, and learns what has become of it meanwhile."""
        now = _now_s()
        pulse = await self._clerk.do(self._clerk.ledger.heartbeat, self._run, self.holder, self._lease_s)
        self._heard = now
        if pulse.late:
            self.epoch += 1
        if pulse.new:
            self._limits.budget.give_up()
        for gate in self._limits.gates:
            gate.share(pulse.part)

    async def keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / HEARTBEATS_PER_LEASE)
            with suppress(LedgerError):  # whoever writes next hears of it
                await self.live()

    async def leave(self) -> None:
        self._clerk.patience_s = 0.0
        with suppress(LedgerError):  # what nobody gives back lapses
            await self._clerk.do(self._clerk.ledger.leave, self._run, self.holder)

    async def _more(self, limit: Decimal, least: Decimal) -> Decimal:
        return await self._clerk.do(self._clerk.ledger.grant, self._run, self.holder, limit, least)

    async def _fresh(self) -> None:
        """After a time in which others may have taken this process for dead (it was stopped, the machine slept) nothing
        is spent or claimed before it has said that it lives."""
        if _now_s() - self._heard > self._lease_s:
            await self.live()


@asynccontextmanager
async def join_run(clerk: LedgerThread, run: str, limits: RunLimits, lease_s: float) -> AsyncIterator[CaseLeases]:
    """This process at work on a run, until the end of the context: alone, or one of several where the ledger is shared.
    Then it takes its part of the run's limits, and says that it lives."""
    if not clerk.ledger.shared:
        yield UnsharedLeases(clerk, run)
        return
    among = SharedLeases(clerk, run, limits, lease_s)
    await among.live()
    heart = asyncio.create_task(among.keep_alive())
    try:
        yield among
    finally:
        heart.cancel()
        await asyncio.wait([heart])
        await among.leave()


def _now_s() -> float:
    """Time that also passes while the machine sleeps, where the system can tell."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
