"""The limits of a run: concurrency and rate of requests to each judge, and the budget.

Concurrency adapts: a server that does not answer (429, 5xx, a timeout, a dropped connection) or slows down gets fewer
requests at once, one that answers gets more again, up to what the user allowed. Rate limits are per minute and spread
evenly: sixty a minute is one a second. All waiting is by the loop's own clock, so a wall clock that jumps changes
nothing.

The budget is hard: what a call may cost at most is reserved before it is made, and settled after it. A run with a
ledger reserves in the ledger (`runs.ledger_access`), so that the budget also holds for several processes, and after a
kill.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from beholder.errors import OverBudget
from beholder.judges.base import CostBound, ReserveCall, ReservedCall
from beholder.rubrics.brief import Brief
from beholder.verdicts.answer import Turn

BACKOFF_FACTOR = 0.6  # by which the limit is multiplied after a request that was not answered
SLOWDOWN_FACTOR = 3.0  # a server has slowed down when its recent latency is so many times the usual one
MIN_SLOW_LATENCY_S = 2.0  # and not below this: quick answers wait for our own processor, not for the server
RECENT_WEIGHT, USUAL_WEIGHT = 0.2, 0.02  # weights of a new latency in the recent and in the usual average


class LeakyBucket:
    """A rate limit: so many units a minute, evenly spread; `None` is no limit.

    A task that is canceled while it waits has used nothing.
    """

    def __init__(self, per_minute: float | None, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._interval = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._share = 1.0
        self._open = asyncio.Event()
        self._open.set()

    def set_share(self, share: float) -> None:
        """Set the part of the rate that this process may use, 0 to 1; at 0 all requests wait until it is more."""
        self._share = share
        if share > 0:
            self._open.set()
        else:
            self._open.clear()

    async def acquire(self, units: float) -> None:
        """Wait until so many units may be used."""
        if not self._interval:
            return
        clock = asyncio.get_running_loop().time
        async with self._turn:
            await self._open.wait()
            if (delay := self._next - clock()) > 0:
                await self._sleep(delay)
                await self._open.wait()
            self._next = max(clock(), self._next) + units * self._interval / self._share


class AdaptiveLimiter:
    """Lets requests to one judge through. `acquire` waits for a turn; `release` says how it went."""

    def __init__(
        self,
        max_requests: int,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.max_requests = max_requests
        self.limit = float(max_requests)
        self.in_flight = 0
        self._requests = LeakyBucket(requests_per_minute, sleep)
        self._tokens = LeakyBucket(tokens_per_minute, sleep)
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._ignored_after_backoff = 0  # requests that were in flight when the limit was last lowered
        self._recent = self._usual = 0.0

    def set_share(self, share: float) -> None:
        """Set the part of the rate limits that this process may use, 0 to 1, where several ask the same judge."""
        self._requests.set_share(share)
        self._tokens.set_share(share)

    def resize(self, max_requests: int) -> None:
        """Set how many requests may be in flight at most; a limit that was lowered by the server stays low."""
        lowered = self.limit < self.max_requests
        self.max_requests = max(1, max_requests)
        self.limit = min(self.limit, float(self.max_requests)) if lowered else float(self.max_requests)

    async def acquire(self, tokens: int) -> None:
        """Wait until one more request may go out; `tokens` is what it is expected to use."""
        if self.in_flight >= int(self.limit):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn  # whoever ends the wait has counted us in
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._leave()
                raise
        else:
            self.in_flight += 1
        try:
            await self._requests.acquire(1)
            await self._tokens.acquire(tokens)
        except asyncio.CancelledError:
            self._leave()
            raise

    def release(self, latency_s: float | None) -> None:
        """One request is over. `latency_s` is `None` where it was not answered: too many, an error, a dropped line."""
        if self._ignored_after_backoff:
            self._ignored_after_backoff -= 1
        elif latency_s is None or self._slowed(latency_s):
            self.limit = max(1.0, self.limit * BACKOFF_FACTOR)
            self._ignored_after_backoff = self.in_flight
            self._recent = self._usual
        else:
            self.limit = min(float(self.max_requests), self.limit + 1 / self.limit)
        self._leave()

    def _leave(self) -> None:
        self.in_flight -= 1
        while self._waiting and self.in_flight < int(self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)

    def _slowed(self, latency_s: float) -> bool:
        if not self._usual:
            self._recent = self._usual = latency_s
            return False
        self._recent += RECENT_WEIGHT * (latency_s - self._recent)
        self._usual += USUAL_WEIGHT * (latency_s - self._usual)
        return self._recent > max(MIN_SLOW_LATENCY_S, SLOWDOWN_FACTOR * self._usual)


GrantFunds = Callable[[Decimal], Awaitable[Decimal]]


class Budget:
    """A budget in US dollars. Without a `limit` it only counts what is `spent`.

    Where the budget is kept in a ledger, `limit` is what this process was granted so far
    (`share_between_processes`), and `run_limit` what it was before: that of the whole run.
    """

    def __init__(self, limit: Decimal | None = None, spent: Decimal = Decimal(0)) -> None:
        self.limit = self.run_limit = limit
        self.spent = spent
        self.reserved = Decimal(0)
        self._request_funds: GrantFunds | None = None
        self._renew_lease: Callable[[], Awaitable[None]] | None = None
        self._requesting = asyncio.Lock()
        self._calls = 0
        self._times_freed = 0  # how often a call ended, or something was given back
        self._waiting: deque[asyncio.Future[None]] = deque()

    def share_between_processes(
        self, request_funds: GrantFunds, renew_lease: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """From now on spend only what is granted, as long as there is a limit at all.

        Args:
            request_funds: Gets what is missing at least, and returns what is granted: at least that, or 0.
            renew_lease: Awaited before each reservation.
        """
        if self.limit is not None:
            self.limit, self.spent = Decimal(0), Decimal(0)
            self._request_funds, self._renew_lease = request_funds, renew_lease

    def return_unused(self) -> Decimal:
        """Give back what this process was granted and has neither spent nor reserved. Returns how much that is."""
        if self._request_funds is None or self.limit is None:
            return Decimal(0)
        unused, self.limit = self.limit - self.spent - self.reserved, self.spent + self.reserved
        self._times_freed += unused > 0
        return max(Decimal(0), unused)

    async def reserve(self, amount: Decimal) -> None:
        """Reserve an amount. Raises `OverBudget` when that is more than is left."""
        if self._renew_lease is not None:
            await self._renew_lease()
        if self._request_funds is not None and self.limit is not None and self._missing(amount) > 0:
            async with self._requesting:
                # A loop, since another task may have reserved what was granted before we come to it.
                while (missing := self._missing(amount)) > 0 and (granted := await self._request_funds(missing)):
                    self.limit += granted
        if self.limit is not None and (missing := self._missing(amount)) > 0:
            left = f"${max(Decimal(0), amount - missing):.4f} of the budget is left"
            if self._request_funds is not None:  # which says only whether there is enough
                left = "less of the budget is left (what other or killed processes have reserved counts as spent)"
            raise OverBudget(f"a call may cost up to ${amount:.4f}, and {left}")
        self.reserved += amount

    async def begin_call(self, amount: Decimal) -> None:
        """Reserve an amount for a call that ends soon.

        While other calls are in progress they may turn out cheaper than reserved, and leave enough: wait for them
        before giving up.

        Raises:
            OverBudget: The amount is more than is left.
        """
        while True:
            before = self._times_freed
            try:
                await self.reserve(amount)
            except OverBudget:
                if self._times_freed != before:  # while more was asked for: there may be enough now
                    continue
                if not self._calls:
                    raise
            else:
                self._calls += 1
                return
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    def end_call(self, amount: Decimal, cost: Decimal | None) -> None:
        """Settle the reservation of a call, and wake a task that waits for money; all of them after the last call."""
        self._calls -= 1
        self._times_freed += 1
        self.settle(amount, cost)
        woken = 0
        while self._waiting and not (woken and self._calls):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                woken += 1

    def _missing(self, amount: Decimal) -> Decimal:
        return Decimal(0) if self.limit is None else self.spent + self.reserved + amount - self.limit

    def settle(self, amount: Decimal, cost: Decimal | None) -> None:
        """End a reservation. `cost` is what it really cost; `None`, unknown, counts as all of it."""
        self.reserved -= amount
        self.spent += amount if cost is None else cost


@dataclass(frozen=True, slots=True)
class CallBudget:
    """Reserves the cost of calls to one judge in the budget of a run."""

    budget: Budget
    cost_bound: CostBound

    @asynccontextmanager
    async def reserve(
        self, brief: Brief, earlier: Sequence[Turn], max_tokens: int | None
    ) -> AsyncIterator[ReservedCall]:
        """Implements `judges.base.ReserveCall`. Raises `OverBudget`."""
        amount, limit = self.cost_bound(brief, earlier, max_tokens)
        try:
            await self.budget.begin_call(amount)
        except OverBudget as error:
            how = "--param max_tokens=N, or params: {max_tokens: N} in options or a suite"
            cheaper = f"; fewer than {limit:,} tokens of answer cost less: {how}" if limit else ""
            raise OverBudget(f"{error}{cheaper}") from None
        call = ReservedCall(limit)
        try:
            yield call
        finally:
            self.budget.end_call(amount, call.cost_usd)


class SharedRate(Protocol):
    """A rate limit of which this process may use a share: an `AdaptiveLimiter`, or what passes the share on."""

    def set_share(self, share: float) -> None: ...


@dataclass(slots=True)
class RunLimits:
    """The limits that all processes on a run share.

    Attributes:
        budget: Money.
        limiters: Concurrency and rate limits, one for each judge.
        reserve: By `id` of a judge, what reserves the cost of a call in the budget. Not by its identity: a plug-in
            may not keep that stable, and would be asked without a reservation.
    """

    budget: Budget = field(default_factory=Budget)
    limiters: list[SharedRate] = field(default_factory=list)
    reserve: dict[int, ReserveCall] = field(default_factory=dict)
