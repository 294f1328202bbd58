"""One judge at several base URLs: who is asked next, and who is left alone for a while.

    answers                  gets the next request where the fewest are under way
    429, 529 and their like  is slow, not dead: rests for as long as it says, and gets no request while others are free
    5xx, timeout, no answer  is set aside, longer each time; afterwards it is asked whether it is there (`GET …/models`,
                             without a key), and gets one request at a time until one is answered

What failed at one server goes to another at once, within the retries that a request has anyway. Where none is free, a
request goes to the one that is due first, after the usual wait: only asking can show that somebody is back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from beholder.errors import SetupError
from beholder.providers.http import HttpClient
from beholder.providers.retry import PermanentError, RetryableError

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0

_log = logging.getLogger("beholder")

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _ServerState:
    """What is known of one base URL. Requests are numbered: one that was sent before the last failure (`told`) says
    nothing new, neither when it fails as well nor when it is still answered."""

    transport: HttpClient
    under_way: int = 0
    asked: int = 0
    failures: int = 0
    told: int = 0
    away_until: float = 0.0

    def free(self, now: float) -> bool:
        """Whether it may have a request; on trial after a failure, one at a time."""
        return now >= self.away_until and not (self.failures and self.under_way)


class LoadBalancer:
    """The servers of one judge. Raises `SetupError` where a base URL stands there twice.

    One server alone is asked as if nothing of this were here. Belongs to one event loop, as its transports do.
    """

    def __init__(self, transports: Sequence[HttpClient], clock: Callable[[], float] = time.monotonic) -> None:
        urls = [one.base_url for one in transports]
        if twice := next((url for url in urls if urls.count(url) > 1), None):
            raise SetupError(f"The base URL {twice} stands there twice; give each server once.")
        self._servers = [_ServerState(one) for one in transports]
        self._clock = clock
        self._sent = 0

    async def ask(self, ask: Callable[[HttpClient], Awaitable[T]], tried: set[str]) -> T:
        """One request to the server that is best off; its base URL is added to `tried`, those that this request has
        been sent to. Raises what `ask` does; `Again` says how many servers were tried, and whether another is free."""
        if len(self._servers) == 1:
            return await ask(self._servers[0].transport)
        while True:
            server = self._next(tried)
            back = server.failures and self._clock() >= server.away_until
            self._sent += 1
            number = server.asked = self._sent
            server.under_way += 1
            try:
                if back and not await server.transport.is_up():
                    self._failed(server, number)
                    continue
                tried.add(server.transport.base_url)
                return await self._asked(server, number, ask, tried)
            finally:
                server.under_way -= 1

    async def aclose(self) -> None:
        for server in self._servers:
            await server.transport.aclose()

    def _next(self, tried: set[str]) -> _ServerState:
        now = self._clock()
        free = [one for one in self._servers if one.free(now)]
        if not free:
            return min(self._servers, key=lambda one: (one.away_until, one.asked))
        return min(free, key=lambda one: (one.transport.base_url in tried, one.under_way, one.asked))

    async def _asked(
        self, server: _ServerState, number: int, ask: Callable[[HttpClient], Awaitable[T]], tried: set[str]
    ) -> T:
        try:
            answer = await ask(server.transport)
        except RetryableError as again:
            if again.busy:
                rest = again.after if again.after is not None else FIRST_PAUSE_S
                server.away_until = max(server.away_until, self._clock() + rest)
            else:
                self._failed(server, number)
            raise self._onward(str(again), again.after, server, tried) from None
        except PermanentError as never:
            if not never.of_server:
                raise
            self._failed(server, number)
            raise self._onward(str(never), None, server, tried) from None
        if number > server.told and server.failures:
            server.failures, server.away_until = 0, self._clock()
        return answer

    def _failed(self, server: _ServerState, number: int) -> None:
        if number > server.told:
            server.failures += 1
            if server.failures == 1 and len(self._servers) > 1:
                _log.warning("beholder: %s is set aside; others take its requests.", server.transport.base_url)
            server.told = self._sent
            pause = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(server.failures - 1, 16))  # a float has an end
            server.away_until = max(server.away_until, self._clock() + pause)

    def _onward(self, sentence: str, after: float | None, server: _ServerState, tried: set[str]) -> RetryableError:
        now = self._clock()
        elsewhere = any(one.free(now) for one in self._servers if one is not server)
        return RetryableError(
            f"{sentence} Base URLs tried: {len(tried)} of {len(self._servers)}.", after=after, at_once=elsewhere
        )
