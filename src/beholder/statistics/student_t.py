"""Student's t distribution: quantiles and probabilities, without SciPy."""

from __future__ import annotations

from functools import cache
from math import atan2, cos, pi, sin, sqrt
from statistics import NormalDist

# Degrees of freedom beyond which four terms of an expansion are exact to nine digits, and faster.
_EXPANSION_FREEDOM = 200
_NORMAL_FREEDOM = 2000  # beyond which a normal approximation of the probability is exact to seven digits

_EXPANSION_TERMS: tuple[tuple[dict[int, int], int], ...] = (
    ({3: 1, 1: 1}, 4),
    ({5: 5, 3: 16, 1: 3}, 96),
    ({7: 3, 5: 19, 3: 17, 1: -15}, 384),
    ({9: 79, 7: 776, 5: 1482, 3: -1920, 1: -945}, 92160),
)


@cache
def t_quantile(share: float, freedom: int) -> float:
    """Return the value below which a t-distributed variable lies with probability `share`.

    Args:
        share: A probability strictly between 0 and 1.
        freedom: Degrees of freedom, 1 or more.

    Raises:
        ValueError: An argument is out of range.
    """
    if not 0 < share < 1 or freedom < 1:
        raise ValueError(f"no t quantile at {share} with {freedom} degrees of freedom")
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
    normal = NormalDist().inv_cdf(share)
    if freedom > _EXPANSION_FREEDOM:  # Abramowitz and Stegun, 26.7.5
        terms = (sum(by * normal**power for power, by in powers.items()) / under for powers, under in _EXPANSION_TERMS)
        return normal + sum(term / float(freedom) ** at for at, term in enumerate(terms, start=1))
    low, high = 0.0, max(1.0, normal)
    while t_cdf(high, freedom) < share:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def t_cdf(value: float, freedom: int) -> float:
    """Return the probability that a t variable is below `value` (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    if freedom > _NORMAL_FREEDOM:
        return NormalDist().cdf(value * (1 - 1 / (4 * freedom)) / sqrt(1 + value**2 / (2 * freedom)))
    angle = atan2(value, sqrt(freedom))
    turn = cos(angle)
    odd = freedom % 2
    term, total = (turn, turn if freedom > 1 else 0.0) if odd else (1.0, 1.0)
    for step in range(2 + odd, freedom - 1, 2):
        term *= turn**2 * (step - 1) / step
        total += term
    within = (angle + sin(angle) * total) * 2 / pi if odd else sin(angle) * total
    return (1 + within) / 2
