"""The money of a worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal

from beholder.errors import OverBudget
from beholder.runs.budget import Budget
from beholder.runs.together import Together

Ask = Callable[[Sequence[Decimal], Decimal], Awaitable[Sequence[str]]]


class Purse(Budget):
    """A budget that owns nothing: for each call it asks the driver for what that may cost at most, together with all
    other calls of the moment, and what the call did not come to is given back.

    `ask` takes such amounts and what is given back; for each amount it returns why it is refused, empty where it is
    not.
    """

    def __init__(self, limit: Decimal | None, ask: Ask) -> None:
        super().__init__(limit)
        self._back = Decimal(0)
        self._wishes: Together[Decimal, str] = Together(lambda amounts: ask(amounts, self.given_back()))

    async def reserve(self, amount: Decimal) -> None:
        if refusal := await self._wishes.ask(amount):
            raise OverBudget(refusal)
        self.reserved += amount

    def settle(self, amount: Decimal, cost: Decimal | None) -> None:
        super().settle(amount, cost)
        self._back += Decimal(0) if cost is None else amount - cost

    def given_back(self) -> Decimal:
        """What calls did not come to since this was last asked; whoever asks brings it back."""
        back, self._back = self._back, Decimal(0)
        return back
