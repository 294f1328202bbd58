"""The gate of a comparison (`beholder compare --fail-on`): whether a regression fails the build."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NoReturn

import msgspec
import numpy as np

from beholder.errors import UsageError
from beholder.statistics.bootstrap import EQUALITY_TOLERANCE, to_json_values
from beholder.statistics.data import ColumnKind, Floats
from beholder.statistics.significance import (
    SIGNIFICANCE_LEVEL,
    ColumnChange,
    correct_holm,
    find_most_lost,
    min_groups_to_decide,
    smallest_p,
)
from beholder.verdicts.verdict import format_beside

if TYPE_CHECKING:
    from beholder.statistics.comparison import Comparison


ON_SCORE, ON_ANY = "score", "any"


class FailOn(StrEnum):
    """What fails a gate: a significant regression; or also one that cannot be ruled out."""

    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


class Gate(msgspec.Struct, frozen=True, rename={"inconclusive": "open"}):
    """The decision whether a comparison lets a build pass: see `status`.

    Attributes:
        on: Columns that were checked.
        regressed: Columns with a regression.
        inconclusive: Columns in which a regression cannot be ruled out.
        failed: Columns for which the build fails, each with a sentence.
        doubted: Columns whose interval shows a drop while the test does not agree, each with a sentence. They are also
            in `failed` or in `undecided`.
        undecided: Columns that cannot be decided, each with a sentence.
        unweighed: For a gate that passes, a sentence on the cases that lost their number and were not considered; empty
            where there are none.
    """

    on: tuple[str, ...]
    regressed: tuple[str, ...]
    inconclusive: tuple[str, ...]
    failed: Mapping[str, str]
    doubted: Mapping[str, str] = msgspec.field(default_factory=dict)
    undecided: Mapping[str, str] = msgspec.field(default_factory=dict)
    unweighed: str = ""

    @property
    def status(self) -> Literal["passed", "failed", "undecided"]:
        """What became of the build; `undecided` where the data cannot tell, which is no pass."""
        return "failed" if self.failed else "undecided" if self.undecided else "passed"

    def __bool__(self) -> NoReturn:
        raise UsageError(
            "A gate has three results, so that it is neither true nor false; "
            "ask for its status: passed, failed or undecided."
        )

    def __repr__(self) -> str:
        return " ".join((f"<Gate {self.status} on {', '.join(self.on or self.undecided)}>", *self.sentences()))

    def sentences(self) -> tuple[str, ...]:
        """Return all sentences to print, each once."""
        texts = (*self.failed.values(), *self.undecided.values(), *self.doubted.values(), self.unweighed)
        return tuple(dict.fromkeys(sentence for sentence in texts if sentence))

    def to_dict(self) -> dict[str, object]:
        """Return what `beholder compare --json` prints under `gate`."""
        return {"status": self.status, **to_json_values(self)}


def gate_comparison(
    comparison: Comparison, on: Sequence[str] = (ON_SCORE,), fail_on: FailOn = FailOn.REGRESSION
) -> Gate:
    """Look for regressions in a comparison.

    A regression is a difference whose interval is wholly below the margin, and for which the permutation test of a drop
    by that margin agrees (p at most 5 %, after Holm's correction where several columns are checked). Neither is enough
    alone: intervals of few groups are narrow, and among many columns one is below by chance.

    A column is undecided where it has no number in both runs, where its interval shows a drop and the test does not
    agree, or where so few groups of cases are left that no test of so many columns could show a regression, and it fell
    in them or cases of the first run are missing.

    Args:
        comparison: The comparison.
        on: Column names; `score` for every overall score, `any` for those with all pass rates and criteria.
        fail_on: What fails the gate.

    Raises:
        UsageError: A run is compared with itself, which no gate could hold; or `on` names no column.
    """
    if comparison.same_run:
        raise UsageError(
            f"A gate compares two runs, and both of these are {comparison.before}, so that it could never fail; name "
            "an older run first, such as `previous`, `NAME~1` or `tag:baseline`."
        )
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
    missing = len(comparison.only_before)
    undecided |= {} if failed else doubted | _explain_undecided(looked, p, missing)
    unweighed = "" if failed or undecided else _describe_lost_cases(looked, comparison.cases)
    names = tuple(change.name for change in looked)
    return Gate(names, tuple(regressed), tuple(unsure), failed, doubted, undecided, unweighed)


def _select_changes(comparison: Comparison, on: Sequence[str]) -> tuple[list[ColumnChange], dict[str, str]]:
    """Return the columns that `on` names, and a sentence for `score` or `any` where the runs have none such."""
    by_name = {change.name: change for change in comparison.changes}
    inner = (ColumnKind.ASSERTION, ColumnKind.SPREAD, ColumnKind.MEASUREMENT)
    listed = ", ".join(name for name, change in by_name.items() if change.kind not in inner)
    selected: dict[str, ColumnChange] = {}
    unknown: dict[str, str] = {}
    for name in on:
        kinds = {
            ON_SCORE: (ColumnKind.OVERALL,),
            ON_ANY: (ColumnKind.OVERALL, ColumnKind.PASSED, ColumnKind.CRITERION),
        }.get(name, ())
        chosen = [by_name[name]] if name in by_name else list(comparison.select_kinds(*kinds))
        if not chosen and not kinds and by_name:
            close = difflib.get_close_matches(name, (*by_name, ON_SCORE, ON_ANY), n=1)
            hint = f"did you mean {close[0]!r}? There are" if close else "there are"
            raise UsageError(f"There is no {name!r} in both runs to decide by; {hint}: {listed}, or any.")
        if not chosen:
            unknown[name] = (
                f"There is no {name!r} in both runs to decide by; there are: {listed}, or any."
                if by_name
                else f"Nothing has a score in both runs, so that there is nothing to decide {name!r} by."
            )
        selected |= {change.name: change for change in chosen}
    return list(selected.values()), unknown


def _explain_undecided(looked: Sequence[ColumnChange], p: Floats, missing: int) -> dict[str, str]:
    """Return sentences on columns for which the gate could not have failed, whatever the data.

    Args:
        looked: The columns that the gate looks at.
        p: Their p-values.
        missing: How many cases of the first run the second one does not have.
    """
    if all(change.difference.value is None for change in looked):
        return {
            change.name: f"Nothing has a score in both runs, so that there is nothing to decide {change.name!r} by."
            for change in looked
        }
    tests = int((~np.isnan(p)).sum())
    explanations = {}
    for at, change in enumerate(looked):
        value = change.difference.value
        if value is None or not _cannot_reach_significance(at, p, change.groups):
            continue
        few = "1 group" if change.groups == 1 else f"{change.groups} groups"
        gone = missing + change.lost
        if value < -change.margin - EQUALITY_TOLERANCE:
            among = f" among {tests} columns" if tests > 1 else ""
            fewer = " (--on or on= names fewer columns)" if tests > 1 else ""
            explanations[change.name] = (
                f"{change.name} fell by {-value:.3g}, and {few} of cases cannot tell that from chance{among}: "
                f"it takes {min_groups_to_decide(tests)} at least, and more for small changes{fewer}."
            )
        elif gone:
            explanations[change.name] = (
                f"{change.name}: {few} of cases cannot show a regression, since {gone:,} of the cases before are "
                f"missing or have no score now: it takes {min_groups_to_decide(tests)} groups at least."
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
        f"to fail on `inconclusive` (--fail-on or fail_on=) holds a build {which}, and `max_unscored` of a run one "
        "that has too many without a score."
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
        f"permutation test does not agree (p = {chance:.3f}{after}): neither a regression nor an all-clear."
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
    drop, least, most = (format_beside(-end, [change.margin], 3) for end in (value, high, low))
    return f"{drop} ({least} to {most})"
