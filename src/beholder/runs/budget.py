"""A hard budget: what a call may cost at most is reserved before it is made, and settled after it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal

from beholder.errors import OverBudget
from beholder.images.model import Sizing
from beholder.judges.protocol import Answer, Judge, Most, Turn
from beholder.rubrics.brief import Brief

More = Callable[[Decimal], Awaitable[Decimal]]


class Budget:
    """Money, in US dollars. `limit` is `None` where everything may be spent; then only `spent` is kept.

    A budget that several processes share hands itself out in parts: `share` makes `limit` what this process was given
    so far, and `more` fetches at least so much more, or nothing; `fresh` is waited for before each reservation.
    """

    def __init__(self, limit: Decimal | None = None, spent: Decimal = Decimal(0)) -> None:
        self.limit = limit
        self.spent = spent
        self.reserved = Decimal(0)
        self._more: More | None = None
        self._fresh: Callable[[], Awaitable[None]] | None = None
        self._fetching = asyncio.Lock()
        self._calls = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def share(self, more: More, fresh: Callable[[], Awaitable[None]] | None = None) -> None:
        """From now on only what `more` gives may be spent, as long as there is a limit at all."""
        if self.limit is not None:
            self.limit, self.spent, self._more, self._fresh = Decimal(0), Decimal(0), more, fresh

    def give_up(self) -> None:
        """What this process was given and has not reserved is no longer its own."""
        if self._more is not None:
            self.limit = self.spent + self.reserved

    async def reserve(self, amount: Decimal) -> None:
        """Sets `amount` aside. Raises `OverBudget` when that would be more than is left."""
        if self._fresh is not None:
            await self._fresh()
        if self._more is not None and self.limit is not None and self._missing(amount) > 0:
            async with self._fetching:
                # Again and again: what was fetched may be taken by somebody else before we come to it.
                while (missing := self._missing(amount)) > 0 and (given := await self._more(missing)):
                    self.limit += given
        if self.limit is not None and (missing := self._missing(amount)) > 0:
            left = max(Decimal(0), amount - missing)
            of = "what all processes may spend" if self._more else f"the budget ${self.limit}"
            raise OverBudget(f"a call may cost up to ${amount:.4f}, and ${left:.4f} of {of} is left")
        self.reserved += amount

    async def begin_call(self, amount: Decimal) -> None:
        """As `reserve`, for a call that is over soon: while others are under way, what they do not come to may be
        enough, and is waited for."""
        while True:
            try:
                await self.reserve(amount)
            except OverBudget:
                if not self._calls:
                    raise
            else:
                self._calls += 1
                return
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    def end_call(self, amount: Decimal, cost: Decimal | None) -> None:
        """As `settle`, for a call that was begun. One who waits may try again, or all where nobody else could free
        anything."""
        self._calls -= 1
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
        """A reservation is over; `cost` is what it really came to, `None` where nobody knows: then all of it."""
        self.reserved -= amount
        self.spent += amount if cost is None else cost


class BudgetedJudge:
    """A judge that asks the budget first.

    `most` says what one call (a brief, earlier turns, a limit of tokens) may cost at most, and the limit under which
    that is true. The limit is then sent: an answer without one has no highest price.
    """

    def __init__(self, judge: Judge, budget: Budget, most: Most) -> None:
        self._judge = judge
        self._budget = budget
        self._most = most

    @property
    def name(self) -> str:
        return self._judge.name

    @property
    def identity(self) -> str:
        return self._judge.identity

    @property
    def sizing(self) -> Sizing:
        return self._judge.sizing

    def __getattr__(self, name: str) -> object:
        """What a judge may have besides (`abstains`, `objection`, `needs_images`) is that of the judge itself."""
        return getattr(self._judge, name)

    async def answer(
        self, brief: Brief, *, sample: int = 0, earlier: Sequence[Turn] = (), max_tokens: int | None = None
    ) -> Answer:
        """Asks, if the budget allows it. A call that got no answer at all is counted as free."""
        amount, max_tokens = self._most(brief, earlier, max_tokens)
        await self._budget.begin_call(amount)
        cost: Decimal | None = Decimal(0)
        try:
            answer = await self._judge.answer(brief, sample=sample, earlier=earlier, max_tokens=max_tokens)
            cost = answer.cost_usd
            return answer
        finally:
            self._budget.end_call(amount, cost)

    async def aclose(self) -> None:
        await self._judge.aclose()
