"""Prices: what an answer costs, by the user's own price or the installed list of genai-prices; no network."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from beholder.verdicts.answer import Usage

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation, TieredPrices


# Parameters that choose a service tier: other tiers have other prices.
TIER_PARAMETERS = frozenset({"service_tier", "serviceTier", "speed"})
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens.

    `cached` is for input that is read from a prompt cache, `written` for input that is written to one; `None` means the
    price of other input. 0 is a price, too: a model of your own may be free.
    """

    input: Decimal
    output: Decimal
    cached: Decimal | None = None
    written: Decimal | None = None

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached", "written"):
            amount = getattr(self, name)
            if amount is not None and not (amount.is_finite() and amount >= 0):
                raise ValueError(f"a price is a number of dollars per million tokens from 0 on; {name} is {amount}")

    def in_batch(self) -> Price:
        """Return the price in a batch: half for input and output, as all three providers say.

        Some halve the price of cached input and some do not, so it stays, up to the price of other input.
        """
        half, written = self.input / 2, None if self.written is None else self.written / 2
        return Price(half, self.output / 2, None if self.cached is None else min(self.cached, half), written)

    def cost(self, usage: Usage) -> Decimal | None:
        """Return the exact cost in US dollars; `None` where the usage is unknown."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached, written = usage.cached_tokens or 0, usage.cache_write_tokens
        fresh = max(0, usage.input_tokens - cached - written)
        amount = (
            fresh * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + written * (self.input if self.written is None else self.written)
            + usage.output_tokens * self.output
        )
        return amount / MILLION


def find_price(
    provider: str,
    model: str,
    base_url_is_own: bool = False,
    given: Price | None = None,
    *,
    input_tokens: int | None = None,
    batch: bool = False,
) -> Price | None:
    """Return the price of a model, or `None` where it is unknown: an unknown price is never 0.

    Args:
        provider: as in `openai:gpt-5-mini`.
        model: as in `openai:gpt-5-mini`.
        base_url_is_own: the user named a server of their own, whose prices are in no list.
        given: the user's own price, which takes precedence over the list.
        input_tokens: some models cost more for long inputs: the price is the highest for a request of up to so many
            input tokens; without it the highest there is, so that it is an upper bound.
        batch: for batches; a given price is halved, a listed one is the list's price for batches if it has one.
    """
    if given is not None or base_url_is_own:
        return given.in_batch() if given is not None and batch else given
    listed = _list_price(provider, model, Usage(1, 1), batch=batch)
    if listed is None:
        return None
    prices = listed.model_price
    input_price, output_price, cached, written = (
        _highest_tier_price(value, input_tokens)
        for value in (prices.input_mtok, prices.output_mtok, prices.cache_read_mtok, prices.cache_write_mtok)
    )
    # The list also has models whose price it does not know: nothing, or nothing but zeros.
    if input_price is None or output_price is None or not (input_price or output_price):
        return None
    return Price(input_price, output_price, cached, written)


def answer_cost(
    provider: str,
    model: str,
    usage: Usage,
    *,
    given: Price | None = None,
    batch: bool = False,
) -> Decimal | None:
    """Return the cost in US dollars, or `None` where price or usage are unknown: an unknown cost is never 0.

    The arguments are those of `find_price`, and the usage of the answer.
    """
    if given is not None:
        return (given.in_batch() if batch else given).cost(usage)
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    listed = _list_price(provider, model, usage, batch=batch)
    # The list also has models whose price it does not know; they add up to 0.
    return (listed.total_price or None) if listed else None


def _list_price(provider: str, model: str, usage: Usage, *, batch: bool) -> PriceCalculation | None:
    try:
        from genai_prices import Usage as ListUsage
        from genai_prices import calc_price
    except ImportError:
        return None
    list_usage = ListUsage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens or 0,
        cache_write_tokens=usage.cache_write_tokens,
    )
    try:
        context = {"processing": "batch"} if batch else None
        return calc_price(list_usage, model, provider_id=provider, price_context=context)
    except (LookupError, ValueError):
        return None


def _highest_tier_price(value: Decimal | TieredPrices | None, input_tokens: int | None) -> Decimal | None:
    """Return the highest price up to so many input tokens; a tier holds for all tokens of requests above its start."""
    if value is None or isinstance(value, Decimal):
        return value
    reached = (tier.price for tier in value.tiers if input_tokens is None or input_tokens > tier.start)
    return max((value.base, *reached))
