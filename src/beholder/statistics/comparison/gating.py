"""Whether a comparison lets a build through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from beholder.statistics.comparison.comparing import Change, Comparison, most_lost
from beholder.statistics.comparison.flipping import RARE, holm, least_groups, least_p
from beholder.statistics.data import Floats, Kind
from beholder.statistics.grouped import SAME

SCORE, ANY = "score", "any"


class FailOn(StrEnum):
    """What fails: a regression that is shown; or also that none can be ruled out."""

    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Gate:
    """`on` are the columns that were looked at, `regressed` those with a regression, `open` those in which one cannot
    be ruled out. `failed` has those for which the build is held back, each with a sentence that says why. `doubted` are
    those that look like a regression and are none, since the test does not agree with the interval; a sentence each.
    `undecided` has those that there is nothing to decide by, with a sentence each: such a gate is neither open nor
    shut, whatever `failed` says. `unweighed` says of a gate that is open how many cases lost their number and were not
    looked at; empty where none did.
    """

    on: tuple[str, ...]
    regressed: tuple[str, ...]
    open: tuple[str, ...]
    failed: Mapping[str, str]
    doubted: Mapping[str, str] = field(default_factory=dict)
    undecided: Mapping[str, str] = field(default_factory=dict)
    unweighed: str = ""

    def said(self) -> tuple[str, ...]:
        """Why the build is held back, and what looks as if it should be and is not: each sentence once."""
        rest = {name: said for name, said in self.doubted.items() if name not in self.undecided}
        told = (*self.failed.values(), *self.undecided.values(), *rest.values(), self.unweighed)
        return tuple(dict.fromkeys(sentence for sentence in told if sentence))

    def to_dict(self) -> dict[str, object]:
        return {
            "on": list(self.on),
            "regressed": list(self.regressed),
            "open": list(self.open),
            "failed": dict(self.failed),
            "doubted": dict(self.doubted),
            "undecided": dict(self.undecided),
            "unweighed": self.unweighed,
        }


def gate(comparison: Comparison, on: Sequence[str] = (SCORE,), fail_on: FailOn = FailOn.REGRESSION) -> Gate:
    """Looks for a regression: the interval of the difference lies wholly below the margin, and the permutation test of
    a drop by that margin agrees (p at most 5 %, after Holm's correction where several columns are looked at). Neither
    is enough alone: intervals of few groups are narrow, and among many one is below by chance.

    `on` names columns; `score` is every overall score, `any` those with all pass rates and criteria. Undecided is what
    there is nothing to decide by: no such column, no number in both runs, or a drop in so few groups that no test of so
    many columns could tell it from chance.
    """
    looked, undecided = _looked_at(comparison, on)
    p = np.array([np.nan if one.p_beyond is None else one.p_beyond for one in looked])
    regressed: dict[str, str] = {}
    unsure: dict[str, str] = {}
    doubted: dict[str, str] = {}
    for change, chance in zip(looked, holm(p), strict=True):
        if change.difference.value is None:
            unsure[change.name] = f"{change.name}: no case has a number in both runs."
        elif _below(change) and chance <= RARE:
            regressed[change.name] = f"{change.name} is worse by {_fall(change)}; the margin is {change.margin:g}."
        elif _below(change):
            unsure[change.name] = doubted[change.name] = _doubt(change, chance, len(looked))
        elif _may_be_below(change):
            unsure[change.name] = _unsure(change)
    failed = regressed | (unsure if fail_on is FailOn.INCONCLUSIVE else {})
    undecided |= {} if failed else _undecided(looked, p)
    unweighed = "" if failed or undecided else _unweighed(looked, comparison.cases)
    names = tuple(one.name for one in looked)
    return Gate(names, tuple(regressed), tuple(unsure), failed, doubted, undecided, unweighed)


def _looked_at(comparison: Comparison, on: Sequence[str]) -> tuple[list[Change], dict[str, str]]:
    """The columns that are meant, and a sentence for each name that means none."""
    by_name = {one.name: one for one in comparison.changes}
    found: dict[str, Change] = {}
    unknown: dict[str, str] = {}
    for name in on:
        kinds = {SCORE: (Kind.OVERALL,), ANY: (Kind.OVERALL, Kind.PASSED, Kind.CRITERION)}.get(name, ())
        chosen = [by_name[name]] if name in by_name else list(comparison.of(*kinds))
        if not chosen:
            unknown[name] = (
                f"There is no {name!r} in both runs to decide by; there are: {', '.join(by_name)}, or any."
                if by_name
                else f"Nothing has a score in both runs, so that there is nothing to decide {name!r} by."
            )
        found |= {one.name: one for one in chosen}
    return list(found.values()), unknown


def _undecided(looked: Sequence[Change], p: Floats) -> dict[str, str]:
    """A gate that could not have closed must not look open."""
    if all(one.difference.value is None for one in looked):
        return {
            one.name: f"Nothing has a score in both runs, so that there is nothing to decide {one.name!r} by."
            for one in looked
        }
    tests = int((~np.isnan(p)).sum())
    found = {}
    for at, one in enumerate(looked):
        value = one.difference.value
        if value is not None and value < -one.margin - SAME and _blind(at, p, one.groups):
            few = "1 group" if one.groups == 1 else f"{one.groups} groups"
            among = f" among {tests} columns" if tests > 1 else ""
            fewer = " (--on names fewer columns)" if tests > 1 else ""
            found[one.name] = (
                f"{one.name} fell by {-value:.3g}, and {few} of cases cannot tell that from chance{among}: "
                f"it takes {least_groups(tests)} at least, and more for small changes{fewer}."
            )
    return found


def _unweighed(looked: Sequence[Change], cases: int) -> str:
    """What an open gate did not look at, and what would have."""
    one = most_lost(looked)
    if one is None:
        return ""
    lost = f"{one.lost:,} of {cases:,} cases" if cases > 1 else "The case"
    which = "that they could turn" if one.lost > 1 else "that it could turn"
    return (
        f"{lost} lost {'their' if one.lost > 1 else 'its'} {one.name}, which the gate does not look at: --fail-on "
        f"inconclusive holds a build {which}, and beholder run --max-unscored one that has too many without a score."
    )


def _blind(at: int, p: Floats, groups: int) -> bool:
    """Whether the least p that so many groups can have would be no proof among the p of the other columns."""
    best = p.copy()
    best[at] = least_p(groups)
    return bool(holm(best)[at] > RARE)


def _below(change: Change) -> bool:
    return change.difference.high is not None and change.difference.high < -change.margin - SAME


def _doubt(change: Change, chance: float, looked: int) -> str:
    after = " after Holm" if looked > 1 else ""
    return (
        f"{change.name} is lower by {_fall(change)}, wholly beyond the margin of {change.margin:g}, but the "
        f"permutation test does not agree (p = {chance:.3f}{after}), so that no regression is shown."
    )


def _may_be_below(change: Change) -> bool:
    """Whether a drop beyond the margin cannot be ruled out, by chance or by the cases without a score."""
    ends = [change.difference.low if change.difference.low is not None else change.difference.value]
    if change.worst is not None:
        ends.append(change.worst.low if change.worst.low is not None else change.worst.value)
    return any(end is not None and end < -change.margin - SAME for end in ends)


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
