"""Numbers as people read them."""

from __future__ import annotations


def percent(share: float) -> str:
    """A share (0–1) as "31 %"; nothing that is there becomes "0 %", and nothing that is missing "100 %"."""
    points = 100 * share
    if 0 < points < 0.1:
        return "under 0.1 %"
    if points < 2 or 98 < points < 100:
        return f"{min(points, 99.9) if points < 100 else points:.1f}".removesuffix(".0") + " %"
    return f"{points:.0f} %"


def times(factor: float) -> str:
    """A factor as "0.85×"."""
    return f"{factor:.2f}×" if factor < 10 else f"{factor:.0f}×"


def joined(parts: list[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
