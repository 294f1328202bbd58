"""Which cases are this process's to judge: all that are not done, or those that it leased among other processes."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

from beholder.errors import LedgerError, LedgerGone
from beholder.ledger.sharing import Claimed, Key, Worker, beat, claim, grant, leave
from beholder.runs.budget import Budget
from beholder.runs.clerk import Clerk
from beholder.runs.gate import Gate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LEASE_S = 60.0  # how long a worker that is not heard of keeps what it leased
BEATS = 4  # in that time


@dataclass(slots=True)
class Limits:
    """What all processes at work on a run keep together: its money, and how fast each judge may be asked. With `whole`
    the money is this process's alone, as for an exam, whose budget is for several runs."""

    budget: Budget = field(default_factory=Budget)
    gates: list[Gate] = field(default_factory=list)
    whole: bool = False


class Claims(Protocol):
    """Who says which cases are ours. `worker` names a batch that is about to be written."""

    async def claim(self, wanted: Sequence[Key], final: Collection[str]) -> Claimed: ...

    def worker(self) -> Worker | None: ...


@dataclass(frozen=True, slots=True)
class Alone:
    """The only process on a run: what is not done is ours."""

    clerk: Clerk
    run: str

    async def claim(self, wanted: Sequence[Key], final: Collection[str]) -> Claimed:
        there = await self.clerk.do(self.clerk.ledger.outcomes, self.run, list({case: None for case, _ in wanted}))
        return Claimed(frozenset(key for key in wanted if there.get(key) not in final), frozenset())

    def worker(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Among:
    """One of several processes on a run."""

    clerk: Clerk
    run: str
    holder: str

    async def claim(self, wanted: Sequence[Key], final: Collection[str]) -> Claimed:
        return await self.clerk.write(claim, self.run, self.holder, wanted, final)

    def worker(self) -> Worker:
        return Worker(self.holder, secrets.token_hex(8))

    async def more(self, limit: Decimal, least: Decimal) -> Decimal:
        return await self.clerk.write(grant, self.run, self.holder, limit, least)


@asynccontextmanager
async def joined(clerk: Clerk, run: str, limits: Limits, lease_s: float) -> AsyncIterator[Claims]:
    """This process at work on a run, until the end of the context: alone, or one of several where the ledger is shared.
    Then it takes its part of the run's limits, and says that it lives."""
    if not clerk.ledger.shared:
        yield Alone(clerk, run)
        return
    among = Among(clerk, run, f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}")
    limit = limits.budget.limit
    if limit is not None and not limits.whole:
        limits.budget.share(lambda least: among.more(limit, least))

    async def live() -> None:
        part = await clerk.write(beat, run, among.holder, lease_s)
        for gate in limits.gates:
            gate.share(part)

    async def keep_alive() -> None:
        while True:
            await asyncio.sleep(lease_s / BEATS)
            with suppress(LedgerGone):  # whoever writes next hears of it
                await live()

    await live()
    heart = asyncio.create_task(keep_alive())
    try:
        yield among
    finally:
        heart.cancel()
        await asyncio.wait([heart])
        clerk.patience_s = 0.0
        with suppress(LedgerError):  # what nobody gives back lapses
            await clerk.write(leave, run, among.holder)
