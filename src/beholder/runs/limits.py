"""How many requests may be under way at one judge, and how fast they may follow each other.

The limit on how many are under way adapts: a server that does not answer (429, 5xx, a timeout, a dropped connection)
or slows down gets fewer, one that answers gets more again, up to what the user allowed. Paces are per minute and even:
sixty a minute is one a second. Every wait is by the loop's own clock, so a wall clock that jumps changes nothing.

A hard budget: what a call may cost at most is reserved before it is made, and settled after it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from beholder.errors import OverBudget, UsageError
from beholder.images.image import Sizing
from beholder.judges.base import INSTRUMENTS, CostBound, Judge
from beholder.judges.model import judge_from, uses_custom_base_url
from beholder.providers.prices import MILLION, TIER_PARAMETERS, Price, find_price
from beholder.rubrics.brief import Brief
from beholder.runs.suite import Suite
from beholder.runs.suite_file import JudgeEntry
from beholder.runs.tokens import estimate_cost, estimate_text_tokens, estimate_tokens
from beholder.verdicts.answer import Answer, Turn

BACKOFF_FACTOR = 0.6  # of the limit, after a request that was not answered
SLOWDOWN_FACTOR = 3.0  # recent latency against the usual one at which a server counts as slowed down
MIN_SLOW_LATENCY_S = 2.0  # and never below this: quick answers wait for our own processor, not for the server
RECENT_WEIGHT, USUAL_WEIGHT = 0.2, 0.02  # weights of a new latency in the recent and in the usual average


class LeakyBucket:
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


class AdaptiveLimiter:
    """Lets requests to one judge through. `acquire` waits for a turn; `release` says how it went."""

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
        self._requests = LeakyBucket(requests_per_minute, sleep)
        self._tokens = LeakyBucket(tokens_per_minute, sleep)
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

    async def acquire(self, tokens: int) -> None:
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

    def release(self, latency_s: float | None) -> None:
        """One request is over. `latency_s` is `None` where it was not answered: too many, an error, a dropped line."""
        if self._cautious_for:
            self._cautious_for -= 1
        elif latency_s is None or self._slowed(latency_s):
            self.limit = max(1.0, self.limit * BACKOFF_FACTOR)
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
        self._recent += RECENT_WEIGHT * (latency_s - self._recent)
        self._usual += USUAL_WEIGHT * (latency_s - self._usual)
        return self._recent > max(MIN_SLOW_LATENCY_S, SLOWDOWN_FACTOR * self._usual)


GrantFunds = Callable[[Decimal], Awaitable[Decimal]]


class Budget:
    """Money, in US dollars. `limit` is `None` where everything may be spent; then only `spent` is kept.

    A budget that several processes share hands itself out in parts: `share` makes `limit` what this process was given
    so far, and `more` fetches at least so much more, or nothing; `fresh` is waited for before each reservation.
    """

    def __init__(self, limit: Decimal | None = None, spent: Decimal = Decimal(0)) -> None:
        self.limit = limit
        self.spent = spent
        self.reserved = Decimal(0)
        self._more: GrantFunds | None = None
        self._fresh: Callable[[], Awaitable[None]] | None = None
        self._fetching = asyncio.Lock()
        self._calls = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def share(self, more: GrantFunds, fresh: Callable[[], Awaitable[None]] | None = None) -> None:
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

    def __init__(self, judge: Judge, budget: Budget, most: CostBound) -> None:
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
        """What a judge may have besides (`capabilities`) is that of the judge itself."""
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


class SharedRate(Protocol):
    """Something that keeps to a part of a pace: a `Gate`, or whoever hands it on."""

    def share(self, part: float) -> None: ...


@dataclass(slots=True)
class RunLimits:
    """What all processes at work on a run keep together: its money, and how fast each judge may be asked. With `whole`
    the money is this process's alone, as for an exam, whose budget is for several runs."""

    budget: Budget = field(default_factory=Budget)
    gates: list[SharedRate] = field(default_factory=list)
    whole: bool = False


TEXT_MARGIN_DIVISOR = 4  # a tokenizer may count a quarter more than our rule of thumb


def make_judges(suite: Suite, limits: RunLimits) -> list[Judge]:
    """The judges of a suite, each behind its gate (which `limits` then has), and behind the budget if there is one.
    Raises `SetupError`."""
    return [_make_limited_judge(entry, suite, limits) for entry in suite.judges]


def require_prices(suite: Suite) -> None:
    """Raises `UsageError` where a budget is set and nobody knows what a judge costs."""
    for entry in suite.judges:
        if suite.budget is not None and find_judge_price(entry) is None:
            raise UsageError(
                f"Nobody knows what {entry.judge} costs, so a budget cannot be kept: give its price in the suite, "
                "price: {input: 1.25, output: 10}, in US dollars per million tokens."
            )


def find_judge_price(entry: JudgeEntry, *, batch: bool = False) -> Price | None:
    """What a judge costs, live or in a batch: by the suite, else by the price list; `None` where nobody knows."""
    if entry.judge == INSTRUMENTS:
        return Price(Decimal(0), Decimal(0))
    provider, _, model = entry.judge.partition(":")
    if TIER_PARAMETERS & entry.params.keys():  # another tier has another price
        return find_price(provider, model, base_url_is_own=True, given=entry.given_price(), batch=batch)
    elsewhere = uses_custom_base_url(entry.judge, entry.base_url, entry.base_urls)
    return find_price(provider, model, base_url_is_own=elsewhere, given=entry.given_price(), batch=batch)


def _make_limited_judge(entry: JudgeEntry, suite: Suite, limits: RunLimits) -> Judge:
    gate = AdaptiveLimiter(
        suite.concurrency,
        requests_per_minute=suite.limits.requests_per_minute,
        tokens_per_minute=suite.limits.tokens_per_minute,
    )
    judge = judge_from(
        entry.judge,
        base_url=entry.base_url,
        base_urls=entry.base_urls,
        key_variable=entry.key_variable,
        params={**suite.image_params(), **entry.params},
        timeout_s=suite.limits.timeout_s,
        limiter=gate,
        price=entry.given_price(),
    )
    limits.gates.append(gate)
    price = find_judge_price(entry)
    if limits.budget.limit is None or price is None or entry.judge == INSTRUMENTS:
        return judge
    return BudgetedJudge(judge, limits.budget, make_cost_bound(entry, price, judge.sizing.detail))


def make_cost_bound(entry: JudgeEntry, price: Price, detail: str | None) -> CostBound:
    """What one call may cost at most, with the limit of tokens that makes it true. Text is estimated with a margin."""
    provider, _, model = entry.judge.partition(":")

    def most(brief: Brief, earlier: Sequence[Turn], max_tokens: int | None) -> tuple[Decimal, int | None]:
        limit = max_tokens or entry.max_tokens()
        if limit is None and provider != "anthropic":  # whose wire sends the brief's own limit
            limit = estimate_tokens(provider, model, brief, detail).output_high
        expected = estimate_tokens(provider, model, brief, detail, max_tokens=limit)
        said = sum(estimate_text_tokens(provider, model, turn.answer + turn.reply) for turn in earlier)
        unsure = expected.text_tokens // TEXT_MARGIN_DIVISOR + said
        thoughts = entry.params.get("thinking.budget_tokens")
        more = price.input * unsure + price.output * (thoughts if isinstance(thoughts, int) else 0)
        return estimate_cost(expected, price)[1] + more / MILLION, limit

    return most
