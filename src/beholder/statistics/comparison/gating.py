"""Whether a comparison lets a build through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.comparison.comparing import Change, Comparison
from beholder.statistics.comparison.flipping import LEAST_GROUPS, LEVEL, holm
from beholder.statistics.data import Kind
from beholder.statistics.intervals import Estimate

SCORE, ANY = "score", "any"


class FailOn(StrEnum):
    """What fails: a regression that is shown; or also that none can be ruled out."""

    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Gate:
    """`on` are the columns that were looked at, `regressed` those with a regression, `open` those in which one cannot
    be ruled out. `failed` has those for which the build is held back, each with a sentence that says why."""

    on: tuple[str, ...]
    regressed: tuple[str, ...]
    open: tuple[str, ...]
    failed: Mapping[str, str]

    def to_dict(self) -> dict[str, object]:
        return {
            "on": list(self.on),
            "regressed": list(self.regressed),
            "open": list(self.open),
            "failed": dict(self.failed),
        }


def gate(comparison: Comparison, on: Sequence[str] = (SCORE,), fail_on: FailOn = FailOn.REGRESSION) -> Gate:
    """Looks for a regression: the interval of the difference lies wholly below the margin. Where several columns are
    looked at, the permutation test of a drop by that margin must agree too (p at most 5 % after Holm's correction):
    among many intervals one is below by chance.

    `on` names columns; `score` is every overall score, `any` those with all pass rates and criteria. Raises
    `UsageError` where there is nothing to decide by: no such column, no number in both runs, or a drop in so few groups
    that no test could tell it from chance.
    """
    looked = _looked_at(comparison, on)
    p = holm(np.array([np.nan if one.p_beyond is None else one.p_beyond for one in looked]))
    regressed: dict[str, str] = {}
    unsure: dict[str, str] = {}
    for change, chance in zip(looked, p, strict=True):
        if change.difference.value is None:
            unsure[change.name] = f"{change.name}: no case has a number in both runs."
        elif _below(change.difference, change.margin) and _beyond_chance(change, chance, len(looked)):
            regressed[change.name] = f"{change.name} is worse by {_fall(change)}; the margin is {change.margin:g}."
        elif _may_be_below(change):
            unsure[change.name] = _unsure(change)
    failed = regressed | (unsure if fail_on is FailOn.INCONCLUSIVE else {})
    if not failed:
        _decidable(looked)
    return Gate(tuple(one.name for one in looked), tuple(regressed), tuple(unsure), failed)


def _beyond_chance(change: Change, chance: float, looked: int) -> bool:
    return change.groups >= LEAST_GROUPS and (looked == 1 or chance <= LEVEL)


def _looked_at(comparison: Comparison, on: Sequence[str]) -> list[Change]:
    by_name = {one.name: one for one in comparison.changes}
    found: dict[str, Change] = {}
    for name in on:
        kinds = {SCORE: (Kind.OVERALL,), ANY: (Kind.OVERALL, Kind.PASSED, Kind.CRITERION)}.get(name, ())
        chosen = [by_name[name]] if name in by_name else list(comparison.of(*kinds))
        if not chosen:
            there = ", ".join(by_name) or "none"
            raise UsageError(f"There is no {name!r} in both runs to decide by; there are: {there}, or any.")
        found |= {one.name: one for one in chosen}
    return list(found.values())


def _decidable(looked: Sequence[Change]) -> None:
    """A gate that could not have closed must not look open."""
    if all(one.difference.value is None for one in looked):
        raise UsageError(f"Nothing has a score in both runs, so that there is nothing to decide {looked[0].name!r} by.")
    for one in looked:
        value = one.difference.value
        if value is not None and value < -one.margin and one.groups < LEAST_GROUPS:
            few = "1 group" if one.groups == 1 else f"{one.groups} groups"
            raise UsageError(
                f"{one.name} fell by {-value:.3g}, and {few} of cases cannot tell that from chance: "
                f"it takes {LEAST_GROUPS} at least, and more for small changes."
            )


def _below(difference: Estimate, margin: float) -> bool:
    return difference.high is not None and difference.high < -margin


def _may_be_below(change: Change) -> bool:
    """Whether a drop beyond the margin cannot be ruled out, by chance or by the cases without a score."""
    ends = [change.difference.low if change.difference.low is not None else change.difference.value]
    if change.worst is not None:
        ends.append(change.worst.low if change.worst.low is not None else change.worst.value)
    return any(end is not None and end < -change.margin for end in ends)


def _unsure(change: Change) -> str:
    low = change.difference.low
    if low is not None and low >= -change.margin and change.worst is not None:
        lost = "1 case has" if change.lost == 1 else f"{change.lost:,} cases have"
        return f"{change.name}: {lost} no number any more; at the lowest, a drop beyond {change.margin:g} is possible."
    return f"{change.name}: a drop by more than {change.margin:g} is not ruled out."


def _fall(change: Change) -> str:
    value, low, high = change.difference.value, change.difference.low, change.difference.high
    assert value is not None
    assert low is not None
    assert high is not None
    return f"{-value:.3f} ({-high:.3f} to {-low:.3f})"
