"""How the processes of a run use the ledger: calls from the event loop, the run's lock, leases and heartbeats.

`LedgerThread` runs ledger calls on one thread, so that the event loop never waits for the disk, and retries while the
server is down. `lock_run` keeps two processes from paying for the same cases. Where the ledger is shared (PostgreSQL),
several processes may work on one run: each leases the cases that it judges and sends heartbeats (`join_run`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

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
    """Runs calls of a ledger on a thread of its own, one at a time, and retries them while its server is down."""

    def __init__(self, ledger: Ledger, *, retry_for_s: float = RETRY_FOR_S) -> None:
        self.ledger = ledger
        self.retry_for_s = retry_for_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")

    async def call(self, work: Callable[..., T], *arguments: object) -> T:
        """Call `work` on the thread and return its result.

        Args:
            work: A function or method of the ledger. It is called again while the server is down, so it must be
                idempotent.
            arguments: Its arguments.

        Raises:
            LedgerError: It failed; if the server is down, only after `retry_for_s` seconds.
        """
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self.retry_for_s, FIRST_PAUSE_S
        while True:
            try:
                return await loop.run_in_executor(self._thread, work, *arguments)
            except LedgerGone as error:
                if loop.time() + pause > deadline:
                    raise
                if pause == FIRST_PAUSE_S:
                    _log.warning("beholder: %s Tried again for %g s.", error, self.retry_for_s)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def close(self) -> None:
        self._thread.shutdown()


@contextmanager
def lock_run(ledger: Ledger, run_id: str, *, alone: bool = False) -> Iterator[None]:
    """Lock a run for this process until the end of the context. The lock also ends with the process.

    Args:
        ledger: Where the run is. On a shared one several processes may have the lock.
        run_id: The run.
        alone: No other process may have the lock, on a shared ledger either.

    Raises:
        UsageError: Another process has it.
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
    """Lock a file beside the ledger. Where there is no `flock` (Windows), nobody is kept out."""
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


LEASE_S = 60.0  # how long a process that sends no heartbeat keeps the cases that it leased
HEARTBEATS_PER_LEASE = 4


class CaseLeases(Protocol):
    """Which cases are this process's to judge.

    `shared` is whether other processes may work on the run. What was claimed is ours as long as `epoch` is the same.
    `make_write_token` identifies a batch of verdicts that is about to be written.
    """

    @property
    def shared(self) -> bool: ...

    @property
    def epoch(self) -> int: ...

    async def claim(self, wanted: Sequence[VerdictKey], final: Collection[str]) -> ClaimResult: ...

    def make_write_token(self) -> WriteToken | None: ...


@dataclass(frozen=True, slots=True)
class UnsharedLeases:
    """The leases of the only process on a run: every case that is not done is its own."""

    ledger_thread: LedgerThread
    run: str
    shared: bool = False
    epoch: int = 0

    async def claim(self, wanted: Sequence[VerdictKey], final: Collection[str]) -> ClaimResult:
        cases = list({case: None for case, _ in wanted})
        outcomes = await self.ledger_thread.call(self.ledger_thread.ledger.outcomes, self.run, cases)
        return ClaimResult(frozenset(key for key in wanted if outcomes.get(key) not in final), frozenset())

    def make_write_token(self) -> None:
        return None


class SharedLeases:
    """The leases of one of several processes on a run: sends heartbeats and keeps to its share of the run's limits."""

    shared = True

    def __init__(self, ledger_thread: LedgerThread, run: str, limits: RunLimits, lease_s: float) -> None:
        self.epoch = 0
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._thread, self._run, self._limits, self._lease_s = ledger_thread, run, limits, lease_s
        self._last_heartbeat = -math.inf
        limit = limits.budget.limit
        if limit is not None and not limits.not_shared:
            limits.budget.share_between_processes(lambda least: self._request_funds(limit, least), self._renew_if_stale)

    async def claim(self, wanted: Sequence[VerdictKey], final: Collection[str]) -> ClaimResult:
        await self._renew_if_stale()
        return await self._thread.call(self._thread.ledger.claim, self._run, self.holder, wanted, final)

    def make_write_token(self) -> WriteToken:
        return WriteToken(self.holder, secrets.token_hex(8))

    async def send_heartbeat(self) -> None:
        """Renew the leases and refresh the limits."""
        now = _now_s()
        reply = await self._thread.call(self._thread.ledger.heartbeat, self._run, self.holder, self._lease_s)
        self._last_heartbeat = now
        if reply.late:  # other processes may have taken over our cases
            self.epoch += 1
        if reply.new:
            self._limits.budget.return_unused()
        for limiter in self._limits.limiters:
            limiter.set_share(reply.part)

    async def run_heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / HEARTBEATS_PER_LEASE)
            with suppress(LedgerError):  # the next write raises it
                await self.send_heartbeat()

    async def leave(self) -> None:
        self._thread.retry_for_s = 0.0
        with suppress(LedgerError):  # leases that are not ended expire
            await self._thread.call(self._thread.ledger.leave, self._run, self.holder)

    async def _request_funds(self, limit: Decimal, least: Decimal) -> Decimal:
        return await self._thread.call(self._thread.ledger.grant, self._run, self.holder, limit, least)

    async def _renew_if_stale(self) -> None:
        """Send a heartbeat if others may have taken this process for dead: it was stopped, or the machine slept.

        Called before anything is claimed or spent.
        """
        if _now_s() - self._last_heartbeat > self._lease_s:
            await self.send_heartbeat()


@asynccontextmanager
async def join_run(
    ledger_thread: LedgerThread, run: str, limits: RunLimits, lease_s: float
) -> AsyncIterator[CaseLeases]:
    """Register this process as working on a run until the end of the context.

    On a shared ledger it sends heartbeats and takes its share of the run's limits; otherwise it is the only process.

    Args:
        ledger_thread: Calls the ledger.
        run: The run.
        limits: The limits that all processes share.
        lease_s: After so many seconds without a heartbeat other processes take over its cases.
    """
    if not ledger_thread.ledger.shared:
        yield UnsharedLeases(ledger_thread, run)
        return
    leases = SharedLeases(ledger_thread, run, limits, lease_s)
    await leases.send_heartbeat()
    heartbeat = asyncio.create_task(leases.run_heartbeat())
    try:
        yield leases
    finally:
        heartbeat.cancel()
        await asyncio.wait([heartbeat])
        await leases.leave()


def _now_s() -> float:
    """Return a time that also passes while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
