"""What a comparison could have shown: the smallest difference it would have noticed, and the cases for a smaller one.

With the clustered standard error `SE` of the mean difference over G groups, a two-sided test at the level a finds a
true difference of

    (t₁₋ₐ⁄₂ + t₀.₈₀) · SE          t with G − 1 degrees of freedom

in 80 of 100 such comparisons. The level is the one that decides: 5 %, shared among the tests of one family (Holm), and
of the p-values that G groups can have. `SE` falls with the square root of the number of groups, as long as new groups
are like those that were seen and hold as many cases each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite, sqrt
from statistics import NormalDist

from beholder.statistics.comparison.flipping import EXACT_GROUPS, deciding_level, least_groups, least_p
from beholder.statistics.student import quantile

POWER = 0.80
MOST_GROUPS = 10_000_000


@dataclass(frozen=True, slots=True)
class Power:
    """`least` is the smallest difference that would have been found in 80 of 100 comparisons like this one; None where
    it is not known, and `why` says why. `level` is the largest p that counts, 0 where no p of so few groups does.
    `detect` is the difference that was asked about, `cases` and `groups` how many it takes in all, `more` how many
    cases that is beyond those that are there (0 where they are enough)."""

    least: float | None
    why: str = ""
    detect: float | None = None
    groups: int | None = None
    cases: int | None = None
    more: int | None = None
    level: float = 0.0

    @property
    def blind(self) -> bool:
        """Whether no difference could have been shown, however large."""
        return self.level <= 0

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {
            "minimum_detectable_difference": self.least,
            "at_power": POWER,
            "at_level": self.level,
        }
        if self.why:
            found["why"] = self.why
        if self.detect is not None:
            found |= {"detect": self.detect, "groups": self.groups, "cases": self.cases, "more_cases": self.more}
        return found


def power(standard_error: float, groups: int, cases: int, detect: float | None = None, tests: int = 1) -> Power:
    """What `cases` in `groups` groups could show, given the standard error that was seen, as one of so many tests; see
    `Power`."""
    level = deciding_level(groups, tests)
    if not isfinite(standard_error) or groups < 2:
        return Power(None, "one group of cases tells nothing of how groups differ", detect, level=level)
    if standard_error <= 0 and level > 0:
        why = "every difference is the same, so that there is nothing to reckon from"
        return Power(None, why, detect, level=level)
    least, why = (_reach(groups, tests) * standard_error, "") if level > 0 else (None, too_few(groups, tests))
    if detect is None or standard_error <= 0:
        return Power(least, why, detect, level=level)
    needed = _groups_needed(standard_error * sqrt(groups), detect, tests)
    if needed is None:
        why = f"a difference of {detect:g} takes more than {MOST_GROUPS:,} groups"
        return Power(least, why, detect, level=level)
    in_all = ceil(needed * cases / groups)
    return Power(least, why, detect, needed, in_all, max(0, in_all - cases), level)


def too_few(groups: int, tests: int) -> str:
    """Why no difference can be shown, in words."""
    held = "1 group of cases" if groups == 1 else f"{groups} groups of cases"
    among = f" in one of {tests} columns" if tests > 1 else ""
    return f"{held} cannot tell any change{among} from chance: it takes {least_groups(tests)} at least"


def _groups_needed(spread: float, detect: float, tests: int) -> int | None:
    """The fewest groups whose reach is `detect`; `spread` is the standard error times the root of its groups. The
    reach falls with every group more, so that it is found by halving."""

    def enough(groups: int) -> bool:
        return _reach(groups, tests) * spread <= detect * sqrt(groups)

    low = high = least_groups(tests)
    while not enough(high):
        low, high = high, high * 2
        if high > MOST_GROUPS:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def _reach(groups: int, tests: int) -> float:
    """In standard errors. Where a single way to flip is rare enough, all groups must go the same way: a rarer thing
    than t says."""
    level = deciding_level(groups, tests)
    if level <= 0:
        return float("inf")
    reach = quantile(1 - level / 2, groups - 1) + quantile(POWER, groups - 1)
    if groups <= EXACT_GROUPS and level <= least_p(groups):
        reach = max(reach, sqrt(groups) * NormalDist().inv_cdf(POWER ** (1 / groups)))
    return reach
