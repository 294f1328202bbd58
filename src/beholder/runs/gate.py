"""How many requests may be under way at one judge, and how fast they may follow each other.

The limit on how many are under way adapts: a server that pushes back (429, 503, 529) or slows down gets fewer, one that
answers gets more again, up to what the user allowed. Paces are per minute and even: sixty a minute is one a second.
Every wait is by the loop's own clock, so a wall clock that jumps changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

FEWER = 0.6  # of the limit, after a push-back
SLOWER = 3.0  # recent latency against the usual one at which a server counts as slowed down
SHORT, LONG = 0.2, 0.02  # weights of a new latency in the recent and in the usual average


class Pace:
    """So many units a minute, evenly spread. `None` is no limit."""

    def __init__(self, per_minute: float | None, clock: Callable[[], float] | None = None) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._clock = clock or asyncio.get_running_loop().time

    def delay(self, units: float) -> float:
        """Books `units` and returns how long to wait before they may be used."""
        if not self._interval:
            return 0.0
        now = self._clock()
        start = max(now, self._next)
        self._next = start + units * self._interval
        return start - now


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
        self._requests = Pace(requests_per_minute)
        self._tokens = Pace(tokens_per_minute)
        self._sleep = sleep
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._cautious_for = 0  # answers to requests that were sent before the limit was last lowered
        self._recent = self._usual = 0.0

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
        delay = max(self._requests.delay(1), self._tokens.delay(tokens))
        if delay:
            try:
                await self._sleep(delay)
            except asyncio.CancelledError:
                self._leave()
                raise

    def leave(self, *, pushed_back: bool, latency_s: float | None) -> None:
        """One request is over. `latency_s` is `None` where it was not answered."""
        if self._cautious_for:
            self._cautious_for -= 1
        elif pushed_back or self._slowed(latency_s):
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

    def _slowed(self, latency_s: float | None) -> bool:
        if latency_s is None:
            return False
        if not self._usual:
            self._recent = self._usual = latency_s
            return False
        self._recent += SHORT * (latency_s - self._recent)
        self._usual += LONG * (latency_s - self._usual)
        return self._recent > SLOWER * self._usual
