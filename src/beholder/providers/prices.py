"""What an answer costs: the price a person gave, or the installed price list of genai-prices; never the network."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from beholder.verdicts.answer import Usage

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation, TieredPrices


# Other tiers have other prices.
TIER_PARAMETERS = frozenset({"service_tier", "serviceTier", "speed"})


MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens.

    `cached` is for input read from a prompt cache, `written` for input that goes into one; `None` means that such
    tokens cost what other input costs. A price of 0 is a price: a model of one's own may be free.
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
        """What tokens cost in a batch: input and output half, as all three providers say. Of what comes from a cache
        some halve the price and some do not, so it stays, up to the price of other input."""
        half, written = self.input / 2, None if self.written is None else self.written / 2
        return Price(half, self.output / 2, None if self.cached is None else min(self.cached, half), written)

    def cost(self, usage: Usage, *, cache_writes: int = 0) -> Decimal | None:
        """US dollars, exactly; `None` when the usage is unknown. `usage.input_tokens` includes cached tokens and
        `cache_writes`."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached = usage.cached_tokens or 0
        fresh = max(0, usage.input_tokens - cached - cache_writes)
        amount = (
            fresh * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + cache_writes * (self.input if self.written is None else self.written)
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
    """The price of a model, or `None` when nobody knows it: an unknown price is never 0.

    `given` goes before the list. `base_url_is_own` says that the user named a server of their own, whose prices no
    list has. Some models cost more for long inputs: the price is the highest that a request of up to `input_tokens`
    can meet, without it the highest there is, so that it may serve as an upper bound. In a `batch` a price that was
    given is halved, and a listed one is what the list has for batches; where it has nothing the usual one stays.
    """
    if given is not None or base_url_is_own:
        return given.in_batch() if given is not None and batch else given
    listed = _list_price(provider, model, Usage(1, 1), batch=batch)
    if listed is None:
        return None
    prices = listed.model_price
    known = [
        _highest_tier_price(value, input_tokens)
        for value in (prices.input_mtok, prices.output_mtok, prices.cache_read_mtok, prices.cache_write_mtok)
    ]
    taken, said, cached, written = known
    # The list also names models whose price it does not know: nothing, or nothing but zeros.
    if taken is None or said is None or not (taken or said):
        return None
    return Price(taken, said, cached, written)


def answer_cost(
    provider: str,
    model: str,
    usage: Usage,
    *,
    cache_writes: int = 0,
    given: Price | None = None,
    batch: bool = False,
) -> Decimal | None:
    """US dollars, or `None` when the price or the usage is unknown: an unknown cost is never 0.

    `usage.input_tokens` includes cached tokens and `cache_writes`, which are priced as such. `given` goes before the
    price list. For a `batch` see `price_of`.
    """
    if given is not None:
        return (given.in_batch() if batch else given).cost(usage, cache_writes=cache_writes)
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    listed = _list_price(provider, model, usage, cache_writes, batch=batch)
    # The list also names models whose price it does not know; they add up to nothing.
    return (listed.total_price or None) if listed else None


def _list_price(
    provider: str, model: str, usage: Usage, cache_writes: int = 0, *, batch: bool = False
) -> PriceCalculation | None:
    try:
        from genai_prices import Usage as Counted
        from genai_prices import calc_price
    except ImportError:
        return None
    counted = Counted(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens or 0,
        cache_write_tokens=cache_writes,
    )
    try:
        return calc_price(
            counted, model, provider_id=provider, price_context={"processing": "batch"} if batch else None
        )
    except (LookupError, ValueError):
        return None


def _highest_tier_price(value: Decimal | TieredPrices | None, input_tokens: int | None) -> Decimal | None:
    """A tier's price holds for all tokens of a request with more than `start` input tokens."""
    if value is None or isinstance(value, Decimal):
        return value
    reached = (tier.price for tier in value.tiers if input_tokens is None or input_tokens > tier.start)
    return max((value.base, *reached))
