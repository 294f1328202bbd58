"""How often a judge is asked again, and how long it waits in between."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from beholder.errors import Unreachable
from beholder.judges.protocol import Gate
from beholder.judges.wires.faults import Again, Never

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
# A provider that asks for more than this is not waited for: the run goes on with other cases.
LONGEST_RETRY_AFTER_S = 120.0

_log = logging.getLogger("beholder.judges")
T = TypeVar("T")


@dataclass
class Patience:
    """One call's retries, each through the gate (if there is one) as a request of about `tokens`. `attempts` counts
    the requests that were made, over every `persist` of the call."""

    retries: int
    sleep: Callable[[float], Awaitable[None]]
    random: Callable[[], float]
    gate: Gate | None = None
    tokens: int = 0
    attempts: int = 0

    async def persist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks until there is an answer. Raises `Unreachable` after the last try, or at once where none can help."""
        failures = 0
        while True:
            self.attempts += 1
            try:
                return await self._through(ask)
            except Never as never:
                raise Unreachable(str(never), self.attempts) from None
            except Again as again:
                failures += 1
                allowed = self.retries if again.retries is None else min(self.retries, again.retries)
                if failures > allowed:
                    tries = f" Tried {self.attempts} times." if self.attempts > 1 else ""
                    raise Unreachable(f"{again}{tries}", self.attempts) from None
                if again.at_once:
                    _log.info("%s Try %d of %d at another.", again, failures + 1, allowed + 1)
                    continue
                if again.after is not None and again.after > LONGEST_RETRY_AFTER_S:
                    wait = (
                        f"It asks to wait {again.after:.0f} s, longer than the {LONGEST_RETRY_AFTER_S:.0f} s allowed."
                    )
                    raise Unreachable(f"{again} {wait}", self.attempts) from None
                delay = self._delay(failures, again.after)
                _log.info("%s Try %d of %d in %.1f s.", again, failures + 1, allowed + 1, delay)
                await self.sleep(delay)

    async def _through(self, ask: Callable[[], Awaitable[T]]) -> T:
        """One request, at its turn."""
        if self.gate is None:
            return await ask()
        await self.gate.enter(self.tokens)
        started = time.perf_counter()
        latency_s: float | None = None
        try:
            answer = await ask()
            latency_s = time.perf_counter() - started
            return answer
        finally:
            self.gate.leave(latency_s)

    def _delay(self, failures: int, after: float | None) -> float:
        if after:
            # A little later than asked, and not all at the same moment.
            return after * (1 + self.random() / 4)
        return self.random() * min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**failures)


def retry_after(headers: Mapping[str, str], now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> float | None:
    """Seconds to wait by `retry-after-ms` or `Retry-After` (seconds or a date); `None` when neither says so."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) / unit
        except ValueError:
            continue
        if seconds >= 0:
            return seconds
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now()).total_seconds())
