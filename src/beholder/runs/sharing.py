"""Which cases are this process's to judge: all that are not done, or those that it leased among other processes."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import socket
import time
from collections.abc import Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from beholder.errors import LedgerError
from beholder.ledger.sharing import Claimed, Key, Worker, beat, claim, grant, leave
from beholder.runs.budget import Budget
from beholder.runs.clerk import Clerk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LEASE_S = 60.0  # how long a worker that is not heard of keeps what it leased
BEATS = 4  # in that time


class Paced(Protocol):
    """Something that keeps to a part of a pace: a `Gate`, or whoever hands it on."""

    def share(self, part: float) -> None: ...


@dataclass(slots=True)
class Limits:
    """What all processes at work on a run keep together: its money, and how fast each judge may be asked. With `whole`
    the money is this process's alone, as for an exam, whose budget is for several runs."""

    budget: Budget = field(default_factory=Budget)
    gates: list[Paced] = field(default_factory=list)
    whole: bool = False


class Claims(Protocol):
    """Who says which cases are ours. What was claimed is ours as long as `epoch` is the same; `shared` is whether there
    may be others. `worker` names a batch that is about to be written."""

    @property
    def shared(self) -> bool: ...

    @property
    def epoch(self) -> int: ...

    async def claim(self, wanted: Sequence[Key], final: Collection[str]) -> Claimed: ...

    def worker(self) -> Worker | None: ...


@dataclass(frozen=True, slots=True)
class Alone:
    """The only process on a run: what is not done is ours."""

    clerk: Clerk
    run: str
    shared: bool = False
    epoch: int = 0

    async def claim(self, wanted: Sequence[Key], final: Collection[str]) -> Claimed:
        there = await self.clerk.do(self.clerk.ledger.outcomes, self.run, list({case: None for case, _ in wanted}))
        return Claimed(frozenset(key for key in wanted if there.get(key) not in final), frozenset())

    def worker(self) -> None:
        return None


class Among:
    """One of several processes on a run. It says that it lives, and keeps to its part of what all may use."""

    shared = True

    def __init__(self, clerk: Clerk, run: str, limits: Limits, lease_s: float) -> None:
        self.epoch = 0
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._clerk, self._run, self._limits, self._lease_s = clerk, run, limits, lease_s
        self._heard = -math.inf
        limit = limits.budget.limit
        if limit is not None and not limits.whole:
            limits.budget.share(lambda least: self._more(limit, least), self._fresh)

    async def claim(self, wanted: Sequence[Key], final: Collection[str]) -> Claimed:
        await self._fresh()
        return await self._clerk.write(claim, self._run, self.holder, wanted, final)

    def worker(self) -> Worker:
        return Worker(self.holder, secrets.token_hex(8))

    async def live(self) -> None:
        """Says that it lives, and learns what has become of it meanwhile."""
        now = _now_s()
        pulse = await self._clerk.write(beat, self._run, self.holder, self._lease_s)
        self._heard = now
        if pulse.late:
            self.epoch += 1
        if pulse.new:
            self._limits.budget.give_up()
        for gate in self._limits.gates:
            gate.share(pulse.part)

    async def keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._lease_s / BEATS)
            with suppress(LedgerError):  # whoever writes next hears of it
                await self.live()

    async def leave(self) -> None:
        self._clerk.patience_s = 0.0
        with suppress(LedgerError):  # what nobody gives back lapses
            await self._clerk.write(leave, self._run, self.holder)

    async def _more(self, limit: Decimal, least: Decimal) -> Decimal:
        return await self._clerk.write(grant, self._run, self.holder, limit, least)

    async def _fresh(self) -> None:
        """After a time in which others may have taken this process for dead (it was stopped, the machine slept) nothing
        is spent or claimed before it has said that it lives."""
        if _now_s() - self._heard > self._lease_s:
            await self.live()


@asynccontextmanager
async def joined(clerk: Clerk, run: str, limits: Limits, lease_s: float) -> AsyncIterator[Claims]:
    """This process at work on a run, until the end of the context: alone, or one of several where the ledger is shared.
    Then it takes its part of the run's limits, and says that it lives."""
    if not clerk.ledger.shared:
        yield Alone(clerk, run)
        return
    among = Among(clerk, run, limits, lease_s)
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
