"""What a comparison could have shown: the smallest difference it would have noticed, and the cases for a smaller one.

With the clustered standard error `SE` of the mean difference over G groups, a two-sided test at 5 % finds a true
difference of

    (t₀.₉₇₅ + t₀.₈₀) · SE          t with G − 1 degrees of freedom

in 80 of 100 such comparisons. `SE` falls with the square root of the number of groups, as long as new groups are like
those that were seen and hold as many cases each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite, sqrt

from beholder.statistics.student import quantile

POWER = 0.80
LEVEL = 0.05
MOST_GROUPS = 10_000_000


@dataclass(frozen=True, slots=True)
class Power:
    """`least` is the smallest difference that would have been found in 80 of 100 comparisons like this one; None where
    it is not known, and `why` says why. `detect` is the difference that was asked about, `cases` and `groups` how many
    it takes in all, `more` how many cases that is beyond those that are there (0 where they are enough)."""

    least: float | None
    why: str = ""
    detect: float | None = None
    groups: int | None = None
    cases: int | None = None
    more: int | None = None

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"minimum_detectable_difference": self.least, "at_power": POWER, "at_level": LEVEL}
        if self.why:
            found["why"] = self.why
        if self.detect is not None:
            found |= {"detect": self.detect, "groups": self.groups, "cases": self.cases, "more_cases": self.more}
        return found


def power(standard_error: float, groups: int, cases: int, detect: float | None = None) -> Power:
    """What `cases` in `groups` groups could show, given the standard error that was seen; see `Power`."""
    if not isfinite(standard_error) or groups < 2:
        return Power(None, "one group of cases tells nothing of how groups differ", detect)
    if standard_error <= 0:
        return Power(None, "every difference is the same, so that there is nothing to reckon from", detect)
    least = _reach(groups) * standard_error
    if detect is None:
        return Power(least)
    needed = _groups_needed(standard_error * sqrt(groups), detect)
    if needed is None:
        return Power(least, f"a difference of {detect:g} takes more than {MOST_GROUPS:,} groups", detect)
    in_all = ceil(needed * cases / groups)
    return Power(least, "", detect, needed, in_all, max(0, in_all - cases))


def _groups_needed(spread: float, detect: float) -> int | None:
    """The fewest groups whose reach is `detect`; `spread` is the standard error times the root of its groups. The
    reach falls with every group more, so that it is found by halving."""

    def enough(groups: int) -> bool:
        return _reach(groups) * spread <= detect * sqrt(groups)

    low, high = 2, 4
    while not enough(high):
        low, high = high, high * 2
        if high > MOST_GROUPS:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def _reach(groups: int) -> float:
    """In standard errors."""
    return quantile(1 - LEVEL / 2, groups - 1) + quantile(POWER, groups - 1)
