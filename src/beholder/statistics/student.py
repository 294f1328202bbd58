"""Student's t distribution for whole degrees of freedom: what small samples have in place of the normal one."""

from __future__ import annotations

from functools import cache
from math import atan2, cos, pi, sin, sqrt
from statistics import NormalDist

_MANY = 200  # degrees of freedom beyond which four terms of an expansion are exact to nine digits, and cheaper
_NORMAL = 2000  # and beyond which an approximation of the probability is exact to seven

_TERMS: tuple[tuple[dict[int, int], int], ...] = (
    ({3: 1, 1: 1}, 4),
    ({5: 5, 3: 16, 1: 3}, 96),
    ({7: 3, 5: 19, 3: 17, 1: -15}, 384),
    ({9: 79, 7: 776, 5: 1482, 3: -1920, 1: -945}, 92160),
)


@cache
def quantile(share: float, freedom: int) -> float:
    """The value that a t variable stays below with probability `share`, strictly between 0 and 1."""
    if not 0 < share < 1 or freedom < 1:
        raise ValueError(f"no t quantile at {share} with {freedom} degrees of freedom")
    if share < 0.5:
        return -quantile(1 - share, freedom)
    normal = NormalDist().inv_cdf(share)
    if freedom > _MANY:  # Abramowitz and Stegun, 26.7.5
        terms = (sum(by * normal**power for power, by in one.items()) / under for one, under in _TERMS)
        return normal + sum(term / float(freedom) ** at for at, term in enumerate(terms, start=1))
    low, high = 0.0, max(1.0, normal)
    while below(high, freedom) < share:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if below(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def below(value: float, freedom: int) -> float:
    """The probability that a t variable is below `value`: the finite sums of Abramowitz and Stegun, 26.7.3 and 4."""
    if freedom > _NORMAL:
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
