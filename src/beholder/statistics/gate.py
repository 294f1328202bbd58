"""The gate of a comparison (`beholder compare --fail-on`): whether a regression fails the build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from beholder.statistics.bootstrap import EQUALITY_TOLERANCE
from beholder.statistics.comparison import ColumnChange, Comparison, find_most_lost
from beholder.statistics.data import ColumnKind, Floats
from beholder.statistics.significance import SIGNIFICANCE_LEVEL, correct_holm, min_groups_to_decide, smallest_p

ON_SCORE, ON_ANY = "score", "any"


class FailOn(StrEnum):
    """What fails a gate: a significant regression; or also one that cannot be ruled out."""

    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class ComparisonGate:
    """The decision whether a comparison lets a build pass.

    Attributes:
        on: Columns that were checked.
        regressed: Columns with a regression.
        inconclusive: Columns in which a regression cannot be ruled out.
        failed: Columns for which the build fails, each with a sentence.
        doubted: Columns whose interval shows a drop while the test does not agree, each with a sentence.
        undecided: Columns that cannot be decided, each with a sentence. Such a gate neither passes nor fails, whatever
            `failed` holds.
        unweighed: For a gate that passes, a sentence on the cases that lost their number and were not considered; empty
            where there are none.
    """

    on: tuple[str, ...]
    regressed: tuple[str, ...]
    inconclusive: tuple[str, ...]
    failed: Mapping[str, str]
    doubted: Mapping[str, str] = field(default_factory=dict)
    undecided: Mapping[str, str] = field(default_factory=dict)
    unweighed: str = ""

    def sentences(self) -> tuple[str, ...]:
        """Return all sentences to print, each once."""
        rest = {name: said for name, said in self.doubted.items() if name not in self.undecided}
        texts = (*self.failed.values(), *self.undecided.values(), *rest.values(), self.unweighed)
        return tuple(dict.fromkeys(sentence for sentence in texts if sentence))

    def to_dict(self) -> dict[str, object]:
        return {
            "on": list(self.on),
            "regressed": list(self.regressed),
            "open": list(self.inconclusive),
            "failed": dict(self.failed),
            "doubted": dict(self.doubted),
            "undecided": dict(self.undecided),
            "unweighed": self.unweighed,
        }


def gate_comparison(
    comparison: Comparison, on: Sequence[str] = (ON_SCORE,), fail_on: FailOn = FailOn.REGRESSION
) -> ComparisonGate:
    """Look for regressions in a comparison.

    A regression is a difference whose interval is wholly below the margin, and for which the permutation test of a drop
    by that margin agrees (p at most 5 %, after Holm's correction where several columns are checked). Neither is enough
    alone: intervals of few groups are narrow, and among many columns one is below by chance.

    A column is undecided where it does not exist, has no number in both runs, or fell in so few groups that no test of
    so many columns could tell it from chance.

    Args:
        comparison: The comparison.
        on: Column names; `score` for every overall score, `any` for those with all pass rates and criteria.
        fail_on: What fails the gate.
    """
    looked, undecided = _select_changes(comparison, on)
    p = np.array([np.nan if change.p_beyond is None else change.p_beyond for change in looked])
    regressed: dict[str, str] = {}
    unsure: dict[str, str] = {}
    doubted: dict[str, str] = {}
    for change, chance in zip(looked, correct_holm(p), strict=True):
        if change.difference.value is None:
            unsure[change.name] = f"{change.name}: no case has a number in both runs."
        elif _is_below_margin(change) and chance <= SIGNIFICANCE_LEVEL:
            regressed[change.name] = (
                f"{change.name} is worse by {_format_drop(change)}; the margin is {change.margin:g}."
            )
        elif _is_below_margin(change):
            unsure[change.name] = doubted[change.name] = _explain_doubt(change, chance, len(looked))
        elif _may_be_below_margin(change):
            unsure[change.name] = _explain_uncertainty(change)
    failed = regressed | (unsure if fail_on is FailOn.INCONCLUSIVE else {})
    undecided |= {} if failed else _explain_undecided(looked, p)
    unweighed = "" if failed or undecided else _describe_lost_cases(looked, comparison.cases)
    names = tuple(change.name for change in looked)
    return ComparisonGate(names, tuple(regressed), tuple(unsure), failed, doubted, undecided, unweighed)


def _select_changes(comparison: Comparison, on: Sequence[str]) -> tuple[list[ColumnChange], dict[str, str]]:
    """Return the columns that `on` names, and a sentence for each name that matches none."""
    by_name = {change.name: change for change in comparison.changes}
    selected: dict[str, ColumnChange] = {}
    unknown: dict[str, str] = {}
    for name in on:
        kinds = {
            ON_SCORE: (ColumnKind.OVERALL,),
            ON_ANY: (ColumnKind.OVERALL, ColumnKind.PASSED, ColumnKind.CRITERION),
        }.get(name, ())
        chosen = [by_name[name]] if name in by_name else list(comparison.select_kinds(*kinds))
        if not chosen:
            unknown[name] = (
                f"There is no {name!r} in both runs to decide by; there are: {', '.join(by_name)}, or any."
                if by_name
                else f"Nothing has a score in both runs, so that there is nothing to decide {name!r} by."
            )
        selected |= {change.name: change for change in chosen}
    return list(selected.values()), unknown


def _explain_undecided(looked: Sequence[ColumnChange], p: Floats) -> dict[str, str]:
    """Return sentences on columns for which the gate could not have failed, whatever the data."""
    if all(change.difference.value is None for change in looked):
        return {
            change.name: f"Nothing has a score in both runs, so that there is nothing to decide {change.name!r} by."
            for change in looked
        }
    tests = int((~np.isnan(p)).sum())
    explanations = {}
    for at, change in enumerate(looked):
        value = change.difference.value
        if (
            value is not None
            and value < -change.margin - EQUALITY_TOLERANCE
            and _cannot_reach_significance(at, p, change.groups)
        ):
            few = "1 group" if change.groups == 1 else f"{change.groups} groups"
            among = f" among {tests} columns" if tests > 1 else ""
            fewer = " (--on names fewer columns)" if tests > 1 else ""
            explanations[change.name] = (
                f"{change.name} fell by {-value:.3g}, and {few} of cases cannot tell that from chance{among}: "
                f"it takes {min_groups_to_decide(tests)} at least, and more for small changes{fewer}."
            )
    return explanations


def _describe_lost_cases(looked: Sequence[ColumnChange], cases: int) -> str:
    """Return a sentence on lost cases that a passing gate did not consider; empty where there are none."""
    change = find_most_lost(looked)
    if change is None:
        return ""
    lost = f"{change.lost:,} of {cases:,} cases" if cases > 1 else "The case"
    which = "that they could turn" if change.lost > 1 else "that it could turn"
    return (
        f"{lost} lost {'their' if change.lost > 1 else 'its'} {change.name}, which the gate does not look at: "
        f"--fail-on inconclusive holds a build {which}, and beholder run --max-unscored one that has too many without "
        "a score."
    )


def _cannot_reach_significance(at: int, p: Floats, groups: int) -> bool:
    """Return whether even the smallest possible p-value would not be significant among those of other columns."""
    best = p.copy()
    best[at] = smallest_p(groups)
    return bool(correct_holm(best)[at] > SIGNIFICANCE_LEVEL)


def _is_below_margin(change: ColumnChange) -> bool:
    return change.difference.high is not None and change.difference.high < -change.margin - EQUALITY_TOLERANCE


def _explain_doubt(change: ColumnChange, chance: float, looked: int) -> str:
    after = " after Holm" if looked > 1 else ""
    return (
        f"{change.name} is lower by {_format_drop(change)}, wholly beyond the margin of {change.margin:g}, but the "
        f"permutation test does not agree (p = {chance:.3f}{after}), so that no regression is shown."
    )


def _may_be_below_margin(change: ColumnChange) -> bool:
    """Return whether a drop beyond the margin cannot be ruled out, because of chance or of cases without a score."""
    ends = [change.difference.low if change.difference.low is not None else change.difference.value]
    if change.worst is not None:
        ends.append(change.worst.low if change.worst.low is not None else change.worst.value)
    return any(end is not None and end < -change.margin - EQUALITY_TOLERANCE for end in ends)


def _explain_uncertainty(change: ColumnChange) -> str:
    low = change.difference.low
    if low is not None and low >= -change.margin and change.worst is not None:
        lost = "1 case has" if change.lost == 1 else f"{change.lost:,} cases have"
        return f"{change.name}: {lost} no number any more; at the lowest, a drop beyond {change.margin:g} is possible."
    return f"{change.name}: a drop by more than {change.margin:g} is not ruled out."


def _format_drop(change: ColumnChange) -> str:
    value, low, high = change.difference.value, change.difference.low, change.difference.high
    assert value is not None
    assert low is not None
    assert high is not None
    return f"{-value:.3f} ({-high:.3f} to {-low:.3f})"
