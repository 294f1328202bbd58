"""How the processes of a run use the ledger: calls from the event loop, the run's lock, leases and heartbeats.

`LedgerThread` runs ledger calls on one thread, so that the event loop never waits for the disk, and retries while the
server is down. `CallCoalescer` sends the calls of many tasks together. `lock_run` keeps two processes from paying for
the same cases. Where the ledger is shared (PostgreSQL), several processes may work on one run: each leases the cases
that it judges and sends heartbeats (`join_run`).
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
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from beholder.errors import LedgerError, LedgerGone, UsageError
from beholder.ledger.leases import CALLS_PER_GRANT, HEARTBEATS_PER_LEASE, OUTAGE_PATIENCE_S, SINGLE_CALLS_BELOW
from beholder.ledger.ledger import Ledger, describe_use
from beholder.ledger.types import INTERRUPTED, RUNNING, ClaimResult, RunRecord, VerdictKey, WriteToken
from beholder.runs.limits import RunLimits
from beholder.runs.worker_processes import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


RETRY_FOR_S = OUTAGE_PATIENCE_S  # how long a server that does not answer is tried again
FIRST_PAUSE_S, MAX_PAUSE_S = 0.25, 5.0

_log = logging.getLogger(__name__)

T = TypeVar("T")


class LedgerThread:
    """Runs calls of a ledger on a thread of its own, one at a time, and retries them while its server is down."""

    def __init__(self, ledger: Ledger, *, retry_for_s: float = RETRY_FOR_S) -> None:
        self.ledger = ledger
        self.retry_for_s = retry_for_s
        self._thread = DaemonThreadPool(1, "ledger")

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
            pause = min(2 * pause, MAX_PAUSE_S)

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
    with ledger.lock_run(run_id, alone=alone) as mine:
        if not mine:
            raise UsageError(_describe_active_run(run_id))
        yield


def _describe_active_run(run_id: str) -> str:
    return f"The run {run_id} is under way in another process; wait for it, or stop it."


def refuse_active_run(ledger: Ledger, run_id: str) -> None:
    """Raise `UsageError` if a process has the lock of a run or uses its session; the lock stays as it is."""
    if ledger.is_run_locked(run_id):
        raise UsageError(_describe_active_run(run_id))
    if active := [holder for holder in ledger.active_workers(run_id) if not has_ended(holder)]:
        raise UsageError(describe_use(run_id, active))


def delete_run(ledger: Ledger, run_id: str) -> None:
    """Delete a run that nobody is working on. Raises `UsageError` if a process has its lock or uses its session."""
    with lock_run(ledger, run_id, alone=True):
        ledger.delete(run_id, has_ended)


def correct_state(ledger: Ledger, record: RunRecord) -> RunRecord:
    """Return a run as it is: `interrupted` if it says that it is running, and nobody works on it after a kill."""
    if record.state != RUNNING or ledger.is_run_locked(record.id):
        return record
    if any(not has_ended(holder) for holder in ledger.active_workers(record.id)):  # of a session, or elsewhere
        return record
    return replace(record, state=INTERRUPTED)


LEASE_S = 60.0  # how long a process that sends no heartbeat keeps the cases that it leased


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


class WorkerFunds:
    """The money of one worker on a run. It is reserved in the ledger before it is spent, so that the budget also holds
    after a kill.

    Args:
        ledger_thread: Calls the ledger.
        run: The run.
        limits: The limits of the run.
        calls_per_grant: For how many calls money is reserved at a time, at most.
    """

    def __init__(self, ledger_thread: LedgerThread, run: str, limits: RunLimits, calls_per_grant: int) -> None:
        self.holder = make_worker_name()
        self.is_limited = limits.budget.limit is not None
        self._thread, self._run, self._budget = ledger_thread, run, limits.budget
        self._calls_per_grant = calls_per_grant
        self._refused_usd: Decimal | None = None  # the least that was asked for in vain, where that is final

    async def share_budget(self, renew_lease: Callable[[], Awaitable[None]] | None = None) -> None:
        """From now on spend only what the ledger grants, in every engine of a run that has several, one by one.

        Args:
            renew_lease: Awaited before anything is spent, where there are other processes. They may give money back;
                without them what was refused is not asked for again.
        """
        if (limit := self._budget.run_limit) is None:
            return
        if unsettled := await self._thread.call(self._thread.ledger.unsettled_usd, self._run):
            _log.warning(
                "beholder: $%.4f of the budget stay reserved for calls of processes that were killed or do not "
                "answer, or whose cost is unknown; your provider may have billed them. The run goes on with the rest "
                "of the budget; a larger one makes up for it.",
                unsettled,
            )
        self._budget.share_between_processes(
            lambda least: self._request(limit, least, final=renew_lease is None), renew_lease
        )

    async def _request(self, limit: Decimal, least: Decimal, *, final: bool) -> Decimal:
        if self._refused_usd is not None and least >= self._refused_usd:
            return Decimal(0)
        grant = self._thread.ledger.grant
        how = (self._calls_per_grant, SINGLE_CALLS_BELOW)
        granted = await self._thread.call(grant, self._run, self.holder, limit, least, *how)
        if not granted and final:
            self._refused_usd = least
        return granted

    async def leave(self) -> None:
        """Stop working on the run, and return what is reserved and not spent, also for calls that were canceled.

        What answers cost that are in no written verdict stays reserved, and so do answers whose cost is unknown.
        """
        self._thread.retry_for_s = 0.0
        released = self._budget.return_unused()
        with suppress(LedgerError):  # leases that are not ended expire; what is not released counts as spent
            await self._thread.call(self._thread.ledger.leave, self._run, self.holder, released)


class UnsharedLeases:
    """The leases of the only process on a run: every case that is not done is its own.

    Args:
        ledger_thread: Calls the ledger.
        run: The run.
        funds: What it may spend.
    """

    shared = False
    epoch = 0

    def __init__(self, ledger_thread: LedgerThread, run: str, funds: WorkerFunds) -> None:
        self._thread, self._run, self._funds = ledger_thread, run, funds

    async def claim(self, wanted: Sequence[VerdictKey], final: Collection[str]) -> ClaimResult:
        cases = list({case: None for case, _ in wanted})
        outcomes = await self._thread.call(self._thread.ledger.outcomes, self._run, cases)
        return ClaimResult(frozenset(key for key in wanted if outcomes.get(key) not in final), frozenset())

    def make_write_token(self) -> WriteToken | None:
        return WriteToken(self._funds.holder, secrets.token_hex(8), leased=False) if self._funds.is_limited else None


class SharedLeases:
    """The leases of one of several processes on a run: sends heartbeats and keeps to its share of the run's limits.

    Args:
        ledger_thread: Calls the ledger.
        run: The run.
        limits: The limits that all processes share.
        holder: The name of this worker.
        lease_s: How long the leases last without a heartbeat.
        returns_unused: Give back what is not spent with each write.
    """

    shared = True

    def __init__(
        self,
        ledger_thread: LedgerThread,
        run: str,
        limits: RunLimits,
        holder: str,
        lease_s: float,
        *,
        returns_unused: bool,
    ) -> None:
        self.epoch = 0
        self._thread, self._run, self._limits = ledger_thread, run, limits
        self._holder, self._lease_s, self._returns_unused = holder, lease_s, returns_unused
        self._last_heartbeat = -math.inf

    async def claim(self, wanted: Sequence[VerdictKey], final: Collection[str]) -> ClaimResult:
        await self.renew_if_stale()
        claim = self._thread.ledger.claim
        return await self._thread.call(claim, self._run, self._holder, wanted, final, self._lease_s)

    def make_write_token(self) -> WriteToken:
        released = self._limits.budget.return_unused() if self._returns_unused else Decimal(0)
        return WriteToken(self._holder, secrets.token_hex(8), released)

    async def send_heartbeat(self) -> None:
        """Renew the leases and refresh the limits."""
        now = _now_s()
        reply = await self._thread.call(self._thread.ledger.heartbeat, self._run, self._holder, self._lease_s)
        self._last_heartbeat = now
        if reply.late:  # other processes may have taken over our cases
            self.epoch += 1
        if reply.new:  # nothing is reserved for us: what we had was settled
            self._limits.budget.return_unused()
        for limiter in self._limits.limiters:
            limiter.set_share(reply.part)

    async def run_heartbeat(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / HEARTBEATS_PER_LEASE)
            with suppress(LedgerError):  # the next write raises it
                await self.send_heartbeat()

    async def run_renewal(self) -> None:
        """Renew the leases on a thread of its own: heartbeats wait for other writers, of which one may have stalled."""
        thread = LedgerThread(self._thread.ledger, retry_for_s=0.0)
        try:
            while True:
                await asyncio.sleep(self._lease_s / HEARTBEATS_PER_LEASE)
                now = _now_s()
                with suppress(LedgerError):  # a heartbeat is tried, too
                    if await thread.call(thread.ledger.renew, self._run, self._holder, self._lease_s):
                        self._last_heartbeat = now
        finally:
            thread.close()

    async def renew_if_stale(self) -> None:
        """Send a heartbeat if others may have taken this process for dead: it was stopped, or the machine slept.

        Called before anything is claimed or spent.
        """
        if _now_s() - self._last_heartbeat > self._lease_s:
            await self.send_heartbeat()


@asynccontextmanager
async def join_run(
    ledger_thread: LedgerThread, run: str, limits: RunLimits, lease_s: float, *, shared: bool = False
) -> AsyncIterator[CaseLeases]:
    """Register this process as working on a run until the end of the context.

    On a shared ledger it sends heartbeats and takes its share of the run's limits; otherwise it is the only process.

    Args:
        ledger_thread: Calls the ledger.
        run: The run.
        limits: The limits that all processes share.
        lease_s: After so many seconds without a heartbeat other processes take over its cases.
        shared: Other processes may work on the run, whatever the ledger is (for sessions). A session that waits for its
            next case must not keep money from them, so it is granted for one call at a time, and what a call left over
            is given back with its verdict.
    """
    funds = WorkerFunds(ledger_thread, run, limits, 1 if shared else CALLS_PER_GRANT)
    if not shared and not ledger_thread.ledger.shared:
        await funds.share_budget()
        try:
            yield UnsharedLeases(ledger_thread, run, funds)
        finally:
            if funds.is_limited:
                await funds.leave()
        return
    leases = SharedLeases(ledger_thread, run, limits, funds.holder, lease_s, returns_unused=shared)
    await leases.send_heartbeat()
    # Not before: who could not join tries again, with the same limits.
    await funds.share_budget(leases.renew_if_stale)
    heartbeats = [asyncio.create_task(leases.run_heartbeat())]
    if ledger_thread.ledger.shared:
        heartbeats.append(asyncio.create_task(leases.run_renewal()))
    try:
        yield leases
    finally:
        for heartbeat in heartbeats:
            heartbeat.cancel()
        await asyncio.wait(heartbeats)
        await funds.leave()


def make_worker_name() -> str:
    """Return a new name for a worker of this process; `has_ended` reads it."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def has_ended(holder: str) -> bool:
    """Return whether a worker is known to have ended without saying so: it was a process of this machine."""
    host, _, process = holder.rpartition(":")[0].rpartition(":")
    if host != socket.gethostname() or os.name != "posix":  # on Windows, asking would end the process
        return False
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return True
    except (OSError, OverflowError):  # another user's; a name that is damaged
        return False
    return False


def _now_s() -> float:
    """Return a time that also passes while the machine sleeps, where the system has such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))  # Linux; macOS; none on Windows
    if clock is None or not hasattr(time, "clock_gettime"):
        return time.monotonic()
    return float(time.clock_gettime(clock))


COALESCE_S = 0.002  # how long a call waits for others

A = TypeVar("A")
R = TypeVar("R")


class CallCoalescer(Generic[A, R]):
    """Sends the calls of many tasks together: to another process or a ledger, fifty cost about as much as one.

    `send` takes the arguments of all calls and returns their results in the same order.
    """

    def __init__(self, send: Callable[[Sequence[A]], Awaitable[Sequence[R]]]) -> None:
        self._send = send
        self._arguments: list[A] = []
        self._sending: asyncio.Task[Sequence[R]] | None = None

    async def call(self, argument: A) -> R:
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_soon())
            # All that wait for it may be canceled: then nobody is interested in its error either.
            self._sending.add_done_callback(lambda sent: sent.cancelled() or sent.exception())
        place = len(self._arguments)
        self._arguments.append(argument)
        # Shielded: a task that is canceled must not cancel the call of all others.
        return (await asyncio.shield(self._sending))[place]

    async def _send_soon(self) -> Sequence[R]:
        await asyncio.sleep(COALESCE_S)
        arguments, self._arguments, self._sending = self._arguments, [], None
        return await self._send(arguments)
