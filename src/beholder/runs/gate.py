"""How many requests may be under way at one judge, and how fast they may follow each other.

The limit on how many are under way adapts: a server that does not answer (429, 5xx, a timeout, a dropped connection)
or slows down gets fewer, one that answers gets more again, up to what the user allowed. Paces are per minute and even:
sixty a minute is one a second. Every wait is by the loop's own clock, so a wall clock that jumps changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

FEWER = 0.6  # of the limit, after a request that was not answered
SLOWER = 3.0  # recent latency against the usual one at which a server counts as slowed down
SLOW_S = 2.0  # and never below this: quick answers wait for our own processor, not for the server
SHORT, LONG = 0.2, 0.02  # weights of a new latency in the recent and in the usual average


class Pace:
    """So many units a minute, evenly spread; `None` is no limit. Who gives up waiting has booked nothing."""

    def __init__(self, per_minute: float | None, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._part = 1.0
        self._open = asyncio.Event()
        self._open.set()

    def share(self, part: float) -> None:
        """How much of the pace this process may use, 0 to 1; with 0 everyone waits until it is more."""
        self._part = part
        if part > 0:
            self._open.set()
        else:
            self._open.clear()

    async def wait(self, units: float) -> None:
        """Waits until `units` more may be used."""
        if not self._interval:
            return
        clock = asyncio.get_running_loop().time
        async with self._turn:
            await self._open.wait()
            if (delay := self._next - clock()) > 0:
                await self._sleep(delay)
                await self._open.wait()
            self._next = max(clock(), self._next) + units * self._interval / self._part


class Gate:
    """Lets requests to one judge through. `enter` waits for a turn; `leave` says how it went."""

    def __init__(
        self,
        most: int,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.most = most
        self.limit = float(most)
        self.under_way = 0
        self._requests = Pace(requests_per_minute, sleep)
        self._tokens = Pace(tokens_per_minute, sleep)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._cautious_for = 0  # answers to requests that were sent before the limit was last lowered
        self._recent = self._usual = 0.0

    def share(self, part: float) -> None:
        """The part of the paces that this process may use, where several ask the same judge."""
        self._requests.share(part)
        self._tokens.share(part)

    def resize(self, most: int) -> None:
        """Lets so many requests through at most; a gate that was not lowered by its server goes up with it."""
        lowered = self.limit < self.most
        self.most = max(1, most)
        self.limit = min(self.limit, float(self.most)) if lowered else float(self.most)

    async def enter(self, tokens: int) -> None:
        """Waits until one more request may go out; `tokens` is what it is expected to use."""
        if self.under_way >= int(self.limit):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn  # whoever ends the wait has counted us in
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._leave()
                raise
        else:
            self.under_way += 1
        try:
            await self._requests.wait(1)
            await self._tokens.wait(tokens)
        except asyncio.CancelledError:
            self._leave()
            raise

    def leave(self, latency_s: float | None) -> None:
        """One request is over. `latency_s` is `None` where it was not answered: too many, an error, a dropped line."""
        if self._cautious_for:
            self._cautious_for -= 1
        elif latency_s is None or self._slowed(latency_s):
            self.limit = max(1.0, self.limit * FEWER)
            self._cautious_for = self.under_way
            self._recent = self._usual
        else:
            self.limit = min(float(self.most), self.limit + 1 / self.limit)
        self._leave()

    def _leave(self) -> None:
        self.under_way -= 1
        while self._waiting and self.under_way < int(self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self.under_way += 1
                turn.set_result(None)

    def _slowed(self, latency_s: float) -> bool:
        if not self._usual:
            self._recent = self._usual = latency_s
            return False
        self._recent += SHORT * (latency_s - self._recent)
        self._usual += LONG * (latency_s - self._usual)
        return self._recent > max(SLOW_S, SLOWER * self._usual)
