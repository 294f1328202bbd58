"""The ledger as the event loop speaks to it: from one thread of its own, so that the loop never waits for the disk, and
with patience for a server that is away for a while."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from beholder.errors import LedgerGone
from beholder.ledger import Ledger

PATIENCE_S = 120.0  # how long a server that does not answer is tried again
PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0

_log = logging.getLogger("beholder")  # on stderr, unless a program says otherwise

P = ParamSpec("P")
T = TypeVar("T")


class Clerk:
    """Asks the ledger, one thing at a time."""

    def __init__(self, ledger: Ledger, *, patience_s: float = PATIENCE_S) -> None:
        self.ledger = ledger
        self.patience_s = patience_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")

    async def do(self, work: Callable[..., T], *arguments: object) -> T:
        """What `work` returns. Raises `LedgerError`; for a server that is away only after some time, in which `work` is
        done again: it must bear that."""
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + self.patience_s, PAUSE_S
        while True:
            try:
                return await loop.run_in_executor(self._thread, work, *arguments)
            except LedgerGone as error:
                if loop.time() + pause > deadline:
                    raise
                if pause == PAUSE_S:
                    _log.warning("beholder: %s Tried again for %g s.", error, self.patience_s)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def write(
        self, work: Callable[Concatenate[Connection, int, P], T], run: str, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """`work` in a transaction that writes, with the number of the run."""

        def transaction() -> T:
            with self.ledger.writing() as connection:
                return work(connection, self.ledger.number(connection, run), *args, **kwargs)

        return await self.do(transaction)

    def close(self) -> None:
        self._thread.shutdown()


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Waits so long, or until it is time to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
