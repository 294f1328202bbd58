"""Load balancer: one judge at several base URLs.

    answers                  gets the next request where the fewest are in flight
    429, 529 and the like    is busy, not down: pauses for as long as it says, and gets no request while others are free
    5xx, timeout, no answer  is set aside, longer each time; then its health is checked (`GET …/models`, without a key),
                             and it gets one request at a time until one is answered

A request that failed at one server goes to another at once, within the retries that it has anyway. Where none is
available, it goes to the one that is due first, after the usual backoff: only a request shows that a server is back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from beholder.errors import SetupError
from beholder.providers.http import HttpClient
from beholder.providers.retry import PermanentError, RetryableError

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _ServerState:
    """State of one server. Requests of all servers are numbered in the order in which they are sent.

    Attributes:
        client: its HTTP client.
        in_flight: requests that are not answered yet.
        last_request: number of the last request to it.
        failures: failures in a row.
        last_failure: number of the last request of any server when it last failed; the results of requests up to that
            number say nothing new about it, whether they fail as well or are still answered.
        unavailable_until: by the balancer's clock.
    """

    client: HttpClient
    in_flight: int = 0
    last_request: int = 0
    failures: int = 0
    last_failure: int = 0
    unavailable_until: float = 0.0

    def is_available(self, now: float) -> bool:
        """Return whether it may have a request: after a failure one at a time."""
        return now >= self.unavailable_until and not (self.failures and self.in_flight)


class LoadBalancer:
    """Chooses a server for each request of one judge, by health and load. May be used from several event loops.

    Args:
        clients: one for each server. A single server is used as if there were no load balancer.
        clock: returns seconds.

    Raises:
        SetupError: a base URL occurs twice.
    """

    def __init__(self, clients: Sequence[HttpClient], clock: Callable[[], float] = time.monotonic) -> None:
        urls = [client.base_url for client in clients]
        if twice := next((url for url in urls if urls.count(url) > 1), None):
            raise SetupError(f"The base URL {twice} stands there twice; give each server once.")
        self._servers = [_ServerState(client) for client in clients]
        self._clock = clock
        self._sent = 0
        self._lock = threading.Lock()  # around every change of a server's state; never held while waiting

    @asynccontextmanager
    async def pick(self, tried: set[str]) -> AsyncIterator[HttpClient]:
        """Pick the best server for one request, which is to be sent inside of the context.

        Args:
            tried: base URLs that this request was sent to before; the one that is picked is added.

        Raises:
            RetryableError: in place of a server's failure inside of the context; says how many servers were tried, and
                whether another one is free.
        """
        if len(self._servers) == 1:
            yield self._servers[0].client
            return
        server, number = await self._pick_healthy(tried)
        try:
            tried.add(server.client.base_url)
            yield server.client
        except RetryableError as error:
            if error.rate_limited:
                pause = error.retry_after if error.retry_after is not None else FIRST_PAUSE_S
                with self._lock:
                    server.unavailable_until = max(server.unavailable_until, self._clock() + pause)
            else:
                self._mark_failed(server, number)
            raise self._failover_error(str(error), error.retry_after, server, tried) from None
        except PermanentError as error:
            if not error.server_wide:
                raise
            self._mark_failed(server, number)
            raise self._failover_error(str(error), None, server, tried) from None
        else:
            with self._lock:
                if number > server.last_failure and server.failures:
                    server.failures, server.unavailable_until = 0, self._clock()
        finally:
            with self._lock:
                server.in_flight -= 1

    async def aclose(self) -> None:
        """Close the connections of all servers."""
        for server in self._servers:
            await server.client.aclose()

    async def _pick_healthy(self, tried: set[str]) -> tuple[_ServerState, int]:
        """Return a server, with one more request in flight, and the number of that request."""
        while True:
            now = self._clock()
            with self._lock:
                available = [server for server in self._servers if server.is_available(now)]
                server = (
                    min(available, key=lambda one: (one.client.base_url in tried, one.in_flight, one.last_request))
                    if available
                    else min(self._servers, key=lambda one: (one.unavailable_until, one.last_request))
                )
                is_due = server.failures and self._clock() >= server.unavailable_until
                self._sent += 1
                number = server.last_request = self._sent
                server.in_flight += 1
            healthy = False
            try:
                healthy = not is_due or await server.client.check_health()
            finally:
                if not healthy:
                    with self._lock:
                        server.in_flight -= 1
            if healthy:
                return server, number
            self._mark_failed(server, number)

    def _mark_failed(self, server: _ServerState, number: int) -> None:
        with self._lock:
            if number <= server.last_failure:
                return
            server.failures += 1
            if server.failures == 1:
                _log.warning("beholder: %s is set aside; others take its requests.", server.client.base_url)
            server.last_failure = self._sent
            pause = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(server.failures - 1, 16))  # a float would overflow
            server.unavailable_until = max(server.unavailable_until, self._clock() + pause)

    def _failover_error(
        self, message: str, retry_after: float | None, server: _ServerState, tried: set[str]
    ) -> RetryableError:
        now = self._clock()
        return RetryableError(
            f"{message} Base URLs tried: {len(tried)} of {len(self._servers)}.",
            retry_after=retry_after,
            other_server_free=any(one.is_available(now) for one in self._servers if one is not server),
        )
