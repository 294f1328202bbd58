"""Significance of paired differences: sign-flip permutation test, Holm's correction, and power analysis.

If nothing changed between two runs, it does not matter which of them is called the first: the difference of a case is
as likely to be positive as negative. Flipping the sign of whole groups at random shows how large a mean difference
chance alone would give. Cases of one group are flipped together, since they are not independent of each other.

Power: with the clustered standard error `SE` of the mean difference over G groups, a two-sided test at level a finds a
true difference of

    (t₁₋ₐ⁄₂ + t₀.₈₀) · SE          t with G − 1 degrees of freedom

in 80 of 100 such comparisons. The level is 5 %, divided among the tests of one family (Holm), rounded down to a p-value
that G groups can have. `SE` falls with the square root of the number of groups, as long as new groups are like the
present ones and hold as many cases each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log2, sqrt
from statistics import NormalDist

import msgspec
import numpy as np
from msgspec import structs

from beholder.statistics.bootstrap import (
    EQUALITY_TOLERANCE,
    ClusterBootstrap,
    GroupSums,
    Interval,
    estimate_means,
    sum_by_group,
    t_quantile,
    to_json_values,
    zero_rounding_errors,
)
from beholder.statistics.data import Bools, ColumnKind, Floats, Ints

MAX_EXACT_GROUPS = 12  # up to 2^12 flips are enumerated
RANDOM_FLIPS = 10_000
SIGNIFICANCE_LEVEL = 0.05

_SIGNS_PER_BLOCK = 1 << 19  # number of signs that are generated at a time: as many as a CPU cache holds
_TIE_TOLERANCE = 1e-9  # relative to the largest possible sum: closer sums are ties


def sign_flip_test(sums: Floats, seed: int) -> Floats:
    """Return the two-sided p-value of each column.

    p is the share of flips whose sum is at least as far from 0 as the observed one. It is exact, over all flips, where
    at most `MAX_EXACT_GROUPS` groups differ from 0; otherwise it is over `RANDOM_FLIPS` seeded flips, counted as (b +
    1) / (m + 1) so that it is never 0. A column in which nothing changed has p = 1.

    Args:
        sums: Sums of differences, groups × columns.
        seed: Seed of the random flips.
    """
    p_values = np.ones(sums.shape[1])
    moving = np.count_nonzero(sums, axis=0)
    few = moving <= MAX_EXACT_GROUPS
    for at in np.flatnonzero(few & (moving > 0)):
        column = sums[sums[:, at] != 0, at]
        p_values[at] = float(
            _at_least_as_extreme(_all_sign_flips(len(column)) @ column[:, None], column[:, None]).mean()
        )
    many = sums[:, ~few]
    if many.shape[1]:
        many = many[np.any(many != 0, axis=1)]
        reached = np.zeros(many.shape[1])
        for flips in _random_sign_flips(len(many), seed):
            reached += np.count_nonzero(_at_least_as_extreme(flips @ many, many), axis=0)
        p_values[~few] = (reached + 1) / (RANDOM_FLIPS + 1)
    return p_values


def correct_holm(p: Floats) -> Floats:
    """Return p-values after Holm's step-down correction (family-wise error rate); nan is not a test and stays nan."""
    corrected = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def smallest_p(groups: int) -> float:
    """Return the smallest p-value that so many groups can have."""
    return 2.0 ** (1 - groups) if groups <= MAX_EXACT_GROUPS else 1 / (RANDOM_FLIPS + 1)


def effective_level(groups: int, tests: int = 1) -> float:
    """Return the largest p-value of so many groups that is significant as the smallest of so many tests (Holm).

    0 where there is none: the test cannot show any change.
    """
    step = smallest_p(groups)
    return floor(SIGNIFICANCE_LEVEL / max(1, tests) / step * (1 + _TIE_TOLERANCE)) * step


def min_groups_to_decide(tests: int = 1) -> int:
    """Return the number of groups from which the smallest of so many tests can be significant; 6 for one test."""
    return min(ceil(log2(2 * max(1, tests) / SIGNIFICANCE_LEVEL)), MAX_EXACT_GROUPS + 1)


def _at_least_as_extreme(flipped: Floats, sums: Floats) -> Bools:
    """Return, flips × columns, whether a flip's sum is as far from 0 as that of `sums`.

    Args:
        flipped: For each flip, the sum of the groups that it flips.
        sums: Sums of differences, groups × columns.
    """
    total = sums.sum(axis=0)
    extreme: Bools = np.abs(total - 2 * flipped) >= np.abs(total) - _TIE_TOLERANCE * np.abs(sums).sum(axis=0)
    return extreme


def _all_sign_flips(groups: int) -> Floats:
    """Return all flips × groups: 1 where a group is flipped."""
    bits = np.arange(1 << groups)[:, None] >> np.arange(groups)
    return (bits & 1).astype(np.float64)


def _random_sign_flips(groups: int, seed: int) -> Iterator[Floats]:
    rng = np.random.default_rng(seed)
    size = max(1, _SIGNS_PER_BLOCK // max(1, groups))
    for start in range(0, RANDOM_FLIPS, size):
        packed = rng.integers(0, 256, (min(size, RANDOM_FLIPS - start), -(-groups // 8)), np.uint8)
        yield np.unpackbits(packed, axis=1, count=groups).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class PairedDifferences:
    """Mean differences of several columns, with tests.

    Attributes:
        means: Mean difference of each column.
        errors: Clustered standard errors.
        groups: Groups with a value.
        cases: Cases with a value.
        p: P-value of no difference; nan where no case has a value.
        p_beyond: P-value of a drop by the margin; nan where no case has a value.
        untested_means: Means of the columns that were not tested.
    """

    means: tuple[Interval, ...]
    errors: Floats
    groups: Ints
    cases: Ints
    p: Floats
    p_beyond: Floats
    untested_means: tuple[Interval, ...] = ()


def estimate_differences(
    bootstrap: ClusterBootstrap,
    columns: Sequence[Floats],
    margins: Sequence[float] | None = None,
    untested: Sequence[Floats] = (),
) -> PairedDifferences:
    """Estimate and test the mean of columns of differences (one value per case, nan where missing).

    Args:
        bootstrap: The bootstrap; all intervals are over the same draws.
        columns: Columns to test.
        margins: How far each mean may fall, 0 or more; 0 by default.
        untested: Columns whose mean is estimated and not tested.
    """
    sums = sum_by_group(bootstrap, [*columns, *untested])
    means = estimate_means(bootstrap, sums)
    count = len(columns)
    real = GroupSums(sums.sums[:, :count], sums.counts[:, :count])
    p, beyond = _test_differences(
        real, np.zeros(count) if margins is None else np.array(margins, np.float64), bootstrap.seed
    )
    return PairedDifferences(
        tuple(means[:count]),
        real.standard_errors(),
        real.groups_with_values,
        real.counts.sum(axis=0).astype(np.int64),
        p,
        beyond,
        tuple(means[count:]),
    )


def _test_differences(sums: GroupSums, margins: Floats, seed: int) -> tuple[Floats, Floats]:
    """Return the p-values of no difference, and of a drop by the margin."""
    empty = sums.groups_with_values == 0
    wide = margins > 0
    both = sign_flip_test(
        np.hstack([sums.sums, zero_rounding_errors(sums.sums + margins * sums.counts)[:, wide]]), seed
    )
    plain = np.where(empty, np.nan, both[: len(margins)])
    beyond = plain.copy()
    beyond[wide] = np.where(empty[wide], np.nan, both[len(margins) :])
    return plain, beyond


TARGET_POWER = 0.80
MAX_GROUPS = 10_000_000


class PowerAnalysis(msgspec.Struct, frozen=True):
    """What a comparison could have shown.

    Attributes:
        minimum_detectable: The smallest difference that is found in 80 of 100 such comparisons; None where not known.
        why: Why a number is missing.
        detect: The difference that was asked about.
        groups: Groups needed to detect it.
        cases: Cases needed to detect it.
        more_cases: Cases needed beyond the present ones; 0 where these are enough.
        level: The largest p-value that is significant; 0 where so few groups have none.
    """

    minimum_detectable: float | None
    why: str = ""
    detect: float | None = None
    groups: int | None = None
    cases: int | None = None
    more_cases: int | None = None
    level: float = 0.0

    @property
    def detects_nothing(self) -> bool:
        """Whether no difference could have been shown, however large."""
        return self.level <= 0

    def to_dict(self) -> dict[str, object]:
        document: dict[str, object] = {
            "minimum_detectable_difference": self.minimum_detectable,
            "at_power": TARGET_POWER,
            "at_level": self.level,
        }
        if self.why:
            document["why"] = self.why
        if self.detect is not None:
            document |= {name: getattr(self, name) for name in ("detect", "groups", "cases", "more_cases")}
        return document


class BeforeAfter(msgspec.Struct, frozen=True):
    """A number in both runs."""

    before: float
    after: float

    def __iter__(self) -> Iterator[float]:
        yield self.before
        yield self.after


class ColumnChange(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={"worst": "if_lost_were_lowest", "best": "if_lost_were_highest", "question": "about"},
):
    """The change of one column over the cases that have a number for it in both runs.

    Pass rates and assertions are shares of yes, grades are steps from the worst.

    Attributes:
        name: The column.
        kind: Its `ColumnKind`, or `grade`.
        cases: Cases with a number in both runs.
        groups: Their groups.
        before: Mean of the first run.
        after: Mean of the second run.
        difference: After minus before.
        p: P-value of the sign-flip test.
        p_holm: P corrected for the other columns of this kind.
        better: Number of cases that rose.
        same: Number of cases that did not change.
        worse: Number of cases that fell.
        margin: How far the mean may fall.
        p_beyond: P-value of a drop by `margin`.
        lost: Cases with a number before and none after.
        worst: The difference if all lost cases had the lowest value of the scale; None where nothing was lost or the
            scale is not known.
        best: The same with the highest value.
        power: What the comparison could have shown.
        question: The text of an assertion.
        grades: Counts by grade.
        scale: Lowest and highest possible value; None where that is not known. Not part of the JSON.
    """

    name: str
    kind: str
    cases: int
    groups: int
    before: float | None
    after: float | None
    difference: Interval
    p: float | None
    p_holm: float | None
    better: int
    same: int
    worse: int
    margin: float
    p_beyond: float | None
    lost: int
    worst: Interval | None
    best: Interval | None
    power: PowerAnalysis
    question: str = ""
    grades: Mapping[str, BeforeAfter] = msgspec.field(default_factory=dict)
    scale: tuple[float, float] | None = None

    @property
    def is_significant(self) -> bool:
        """Whether both the interval and the corrected test exclude no change."""
        return self.difference.excludes_zero and self.p_holm is not None and self.p_holm <= SIGNIFICANCE_LEVEL

    @property
    def is_uncertain(self) -> bool:
        """Whether the interval excludes 0, but the test does not agree, or cannot with so few groups."""
        return self.difference.excludes_zero and not self.is_significant

    @property
    def is_worse(self) -> bool:
        return self.is_significant and self.difference.value is not None and self.difference.value < 0

    @property
    def is_better(self) -> bool:
        return self.is_significant and not self.is_worse

    @property
    def may_have_fallen(self) -> bool:
        """Whether the difference would be wholly below the margin if all lost cases had the lowest value."""
        if self.worst is None:
            return False
        end = self.worst.value if self.worst.high is None else self.worst.high
        return end is not None and end < -self.margin - EQUALITY_TOLERANCE

    def to_dict(self) -> dict[str, object]:
        return to_json_values(structs.replace(self, scale=None)) | {"power": self.power.to_dict()}


def find_most_lost(changes: Sequence[ColumnChange]) -> ColumnChange | None:
    """Return the column that lost the most cases, preferably an overall score; None where none was lost."""
    lost = [change for change in changes if change.lost]
    overall = [change for change in lost if change.kind == ColumnKind.OVERALL]
    return max(overall or lost, key=lambda one: one.lost, default=None)


def analyze_power(
    standard_error: float, groups: int, cases: int, detect: float | None = None, tests: int = 1
) -> PowerAnalysis:
    """Return the smallest detectable difference, and the cases needed for a given one.

    Args:
        standard_error: Clustered standard error of the mean difference.
        groups: Number of groups.
        cases: Number of cases.
        detect: The difference to detect; None for no sample size.
        tests: Number of tests in the family.
    """
    level = effective_level(groups, tests)
    if not isfinite(standard_error) or groups < 2:
        return PowerAnalysis(None, "one group of cases tells nothing of how groups differ", detect, level=level)
    if standard_error <= 0 and level > 0:
        why = "every difference is the same, so that there is nothing to reckon from"
        return PowerAnalysis(None, why, detect, level=level)
    least, why = (
        (_detectable_standard_errors(groups, tests) * standard_error, "")
        if level > 0
        else (None, explain_too_few_groups(groups, tests))
    )
    if detect is None or standard_error <= 0:
        return PowerAnalysis(least, why, detect, level=level)
    needed = _find_groups_needed(standard_error * sqrt(groups), detect, tests)
    if needed is None:
        why = f"a difference of {detect:g} takes more than {MAX_GROUPS:,} groups"
        return PowerAnalysis(least, why, detect, level=level)
    in_all = ceil(needed * cases / groups)
    return PowerAnalysis(least, why, detect, needed, in_all, max(0, in_all - cases), level)


def explain_too_few_groups(groups: int, tests: int) -> str:
    """Explain why no difference can be shown with so few groups."""
    held = "1 group of cases" if groups == 1 else f"{groups} groups of cases"
    among = f" in one of {tests} columns" if tests > 1 else ""
    return f"{held} cannot tell any change{among} from chance: it takes {min_groups_to_decide(tests)} at least"


def _find_groups_needed(spread: float, detect: float, tests: int) -> int | None:
    """Return the fewest groups whose smallest detectable difference is `detect`, by bisection; None beyond
    `MAX_GROUPS`.

    `spread` is the standard error times the square root of its number of groups.
    """

    def enough(groups: int) -> bool:
        return _detectable_standard_errors(groups, tests) * spread <= detect * sqrt(groups)

    low = high = min_groups_to_decide(tests)
    while not enough(high):
        low, high = high, high * 2
        if high > MAX_GROUPS:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def _detectable_standard_errors(groups: int, tests: int) -> float:
    """Return the smallest detectable difference in standard errors.

    Where only a single flip is significant, all groups must change in the same direction, which is rarer than t says.
    """
    level = effective_level(groups, tests)
    if level <= 0:
        return float("inf")
    reach = t_quantile(1 - level / 2, groups - 1) + t_quantile(TARGET_POWER, groups - 1)
    if groups <= MAX_EXACT_GROUPS and level <= smallest_p(groups):
        reach = max(reach, sqrt(groups) * NormalDist().inv_cdf(TARGET_POWER ** (1 / groups)))
    return reach
