"""What an answer cost, by the price list of genai-prices that is installed; never looked up on the network."""

from __future__ import annotations

from decimal import Decimal

from beholder.judges.protocol import Usage


def cost(provider: str, model: str, usage: Usage, *, cache_writes: int = 0) -> Decimal | None:
    """US dollars, or `None` when the price or the usage is unknown: an unknown cost is never 0.

    `usage.input_tokens` includes cached tokens and `cache_writes`, which are priced as such.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
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
        price = calc_price(counted, model, provider_id=provider).total_price
    except (LookupError, ValueError):
        return None
    # The list also names models whose price it does not know; they add up to nothing.
    return price or None
