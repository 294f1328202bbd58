"""Two runs over the same cases: what changed, how sure that is, and what could have changed unseen.

Differences are the second less the first, by case, so that what makes a case hard is in neither. Intervals and tests
take the cases of one group (`source`) together. p-values are corrected by Holm within each kind of column: criteria
together, assertions together, and so on.

Whether a comparison lets a build through.

Two runs, case by case: what changed, what the data could have shown, and whether a build may pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

import numpy as np

from beholder.errors import UsageError
from beholder.statistics.bootstrap import (
    DEFAULT_DRAWS,
    DEFAULT_SEED,
    EQUALITY_TOLERANCE,
    ClusterBootstrap,
    Estimate,
    divide_or_nan,
)
from beholder.statistics.data import Bools, ColumnKind, Floats, Scores
from beholder.statistics.pairs import PairedColumn, RubricGrades, SharedCases, UnevenCase, pair_cases
from beholder.statistics.significance import (
    SIGNIFICANCE_LEVEL,
    PowerAnalysis,
    analyze_power,
    correct_holm,
    estimate_differences,
    min_groups_to_decide,
    smallest_p,
)

GRADE = "grade"
DEFAULT_TOP_CASES = 10

_BOUNDED_KINDS = (ColumnKind.OVERALL, ColumnKind.PASSED, ColumnKind.CRITERION)


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """How to compare. `group` is what belongs together; `margin` how far a mean may fall before it counts, in the unit
    of each column, `margins` the same for columns by name; `detect` the difference for which the cases that it takes
    are wanted; `top` how many of the cases that changed most are told. Raises `UsageError` for a margin that is below 0
    or not finite, and for a `detect` that is not a number above 0."""

    group: str | None = None
    margin: float = 0.0
    margins: Mapping[str, float] = field(default_factory=dict)
    detect: float | None = None
    top: int = DEFAULT_TOP_CASES
    draws: int = DEFAULT_DRAWS
    seed: int = DEFAULT_SEED

    def __post_init__(self) -> None:
        for name, value in (("", self.margin), *self.margins.items()):
            if not 0 <= value < inf:
                of = f" of {name}" if name else ""
                raise UsageError(
                    f"The margin{of} is how far a mean may fall: a number, 0 or more, and {value:g} is not."
                )
        if self.detect is not None and not 0 < self.detect < inf:
            raise UsageError(f"The difference to detect is a number above 0, and {self.detect:g} is not.")


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """What became of one column over the cases that have a number for it in both runs.

    `before` and `after` are means, `difference` is after less before; pass rates and assertions are shares of yes,
    grades are steps. `better`, `same` and `worse` count cases. `p` is the sign-flip test's, `p_holm` corrected for the
    other columns of this kind, `p_beyond` the test against a drop by `margin`. `lost` counts the cases that have a
    number before and none after; `worst` and `best` are the difference if all of those had the lowest or the highest
    value of the scale, None where nothing was lost or the scale is not known. `grades` counts (before, after) by grade.
    """

    name: str
    kind: str
    cases: int
    groups: int
    before: float | None
    after: float | None
    difference: Estimate
    p: float | None
    p_holm: float | None
    better: int
    same: int
    worse: int
    power: PowerAnalysis
    margin: float = 0.0
    p_beyond: float | None = None
    lost: int = 0
    worst: Estimate | None = None
    best: Estimate | None = None
    about: str = ""
    grades: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def shown(self) -> bool:
        """Whether a change is shown at all: the interval leaves 0 out, and so does the test after correction."""
        return self.difference.excludes_zero and self.p_holm is not None and self.p_holm <= SIGNIFICANCE_LEVEL

    @property
    def hinted(self) -> bool:
        """Whether the interval leaves 0 out, and the test does not agree or cannot, with so few groups."""
        return self.difference.excludes_zero and not self.shown

    @property
    def down(self) -> bool:
        return self.shown and self.difference.value is not None and self.difference.value < 0

    @property
    def up(self) -> bool:
        return self.shown and not self.down

    @property
    def may_have_fallen(self) -> bool:
        """Whether the difference lies wholly below the margin if all cases that lost their number had the lowest."""
        if self.worst is None:
            return False
        end = self.worst.value if self.worst.high is None else self.worst.high
        return end is not None and end < -self.margin - EQUALITY_TOLERANCE

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "cases": self.cases,
            "groups": self.groups,
            "before": self.before,
            "after": self.after,
            "difference": self.difference.to_dict(),
            "p": self.p,
            "p_holm": self.p_holm,
            "better": self.better,
            "same": self.same,
            "worse": self.worse,
            "margin": self.margin,
            "p_beyond": self.p_beyond,
            "lost": self.lost,
            "if_lost_were_lowest": None if self.worst is None else self.worst.to_dict(),
            "if_lost_were_highest": None if self.best is None else self.best.to_dict(),
            "power": self.power.to_dict(),
        }
        if self.about:
            found["about"] = self.about
        if self.grades:
            found["grades"] = {name: {"before": old, "after": new} for name, (old, new) in self.grades.items()}
        return found


@dataclass(frozen=True, slots=True)
class CaseChange:
    """A case that changed much: by how much (overall, 0–1), its group, and each number that changed, before and
    after."""

    case: str
    group: str
    by: float
    changes: Mapping[str, tuple[float, float]]

    def to_dict(self) -> dict[str, object]:
        changes = {name: {"before": old, "after": new} for name, (old, new) in self.changes.items()}
        return {"case": self.case, "group": self.group, "by": self.by, "changes": changes}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`cases` counts those that both runs have, `groups` their groups by `group`. `unlike` are those that have a number
    in one run only, `neither` those that were scored in neither; `warnings` say what makes the runs unlike."""

    before: str
    after: str
    cases: int
    groups: int
    group: str | None
    changes: tuple[ColumnChange, ...]
    moved: tuple[CaseChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    unlike: tuple[UnevenCase, ...]
    neither: tuple[UnevenCase, ...]
    warnings: tuple[str, ...]
    told: str

    @property
    def empty(self) -> bool:
        """Whether nothing has a number in both runs."""
        return not any(one.cases for one in self.changes)

    def of(self, *kinds: str) -> tuple[ColumnChange, ...]:
        return tuple(one for one in self.changes if one.kind in kinds)

    def to_dict(self) -> dict[str, object]:
        return {
            "before": self.before,
            "after": self.after,
            "cases": self.cases,
            "groups": self.groups,
            "group": self.group,
            "changes": [one.to_dict() for one in self.changes],
            "moved": [one.to_dict() for one in self.moved],
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "unlike": [one.to_dict() for one in self.unlike],
            "neither": [one.to_dict() for one in self.neither],
            "warnings": list(self.warnings),
            "told": self.told,
        }


def find_most_lost(changes: Sequence[ColumnChange]) -> ColumnChange | None:
    """The column of which most cases lost their number: an overall score, if any did; None where no case did."""
    lost = [one for one in changes if one.lost]
    overall = [one for one in lost if one.kind == ColumnKind.OVERALL]
    return max(overall or lost, key=lambda one: one.lost, default=None)


def compare(
    before: Scores,
    after: Scores,
    asked: ComparisonOptions | None = None,
    *,
    graded: Sequence[RubricGrades] = (),
    warnings: Sequence[str] = (),
) -> Comparison:
    """Compares two sets of scores case by case. `graded` are grades, `warnings` what makes the runs unlike. Raises
    `UsageError` where the two have no case in common, or a margin has no column."""
    asked = asked or ComparisonOptions()
    pairs = pair_cases(before, after, asked.group)
    columns = (*pairs.columns, *(_grade_steps(one, pairs.cases) for one in graded))
    allowed = _resolve_margins(columns, asked)
    drawn = ClusterBootstrap(pairs.groups, len(pairs.cases), count=asked.draws, seed=asked.seed)
    changes = _measure_changes(columns, drawn, allowed, asked.detect)
    counts = {one.name: _count_grades(one, pairs.cases) for one in graded}
    return Comparison(
        before=before.name,
        after=after.name,
        cases=len(pairs.cases),
        groups=drawn.groups,
        group=pairs.group if pairs.groups is not None else None,
        changes=tuple(replace(one, grades=counts[one.name]) if one.kind == GRADE else one for one in changes),
        moved=_find_changed_cases(pairs, asked.top),
        only_before=pairs.only_before,
        only_after=pairs.only_after,
        unlike=pairs.unlike,
        neither=pairs.neither,
        warnings=(*warnings, *pairs.warnings),
        told=drawn.told(),
    )


def _resolve_margins(columns: Sequence[PairedColumn], asked: ComparisonOptions) -> list[float]:
    unknown = asked.margins.keys() - {one.name for one in columns}
    if unknown and columns:
        there = ", ".join(one.name for one in columns)
        raise UsageError(f"There is no {sorted(unknown)[0]!r} to have a margin; there are: {there}.")
    return [asked.margins.get(one.name, asked.margin) for one in columns]


def _measure_changes(
    columns: Sequence[PairedColumn], draws: ClusterBootstrap, margins: Sequence[float], detect: float | None
) -> list[ColumnChange]:
    differences = [one.difference for one in columns]
    bounds = {at: ends for at, one in enumerate(columns) if (ends := _bound_differences(one)) is not None}
    found = estimate_differences(draws, differences, margins, [values for ends in bounds.values() for values in ends])
    bounded = {at: found.beside[2 * place :][:2] for place, at in enumerate(bounds)}
    corrected, tests = _correct_by_kind(columns, found.p)
    changes = []
    for at, column in enumerate(columns):
        values = differences[at]
        there: Bools = ~np.isnan(values)
        cases, groups = int(found.cases[at]), int(found.groups[at])
        worst, best = bounded.get(at, (None, None))
        changes.append(
            ColumnChange(
                name=column.name,
                kind=column.kind,
                cases=cases,
                groups=groups,
                before=_mean_or_none(column.before[there]),
                after=_mean_or_none(column.after[there]),
                difference=found.means[at],
                p=_number_or_none(found.p[at]),
                p_holm=_number_or_none(corrected[at]),
                better=int((values[there] > EQUALITY_TOLERANCE).sum()),
                same=int((np.abs(values[there]) <= EQUALITY_TOLERANCE).sum()),
                worse=int((values[there] < -EQUALITY_TOLERANCE).sum()),
                power=analyze_power(float(found.errors[at]), groups, cases, detect, tests[at]),
                margin=margins[at],
                p_beyond=_number_or_none(found.p_beyond[at]),
                lost=int((~np.isnan(column.before) & np.isnan(column.after)).sum()),
                worst=worst,
                best=best,
                about=column.about,
            )
        )
    return changes


def _correct_by_kind(columns: Sequence[PairedColumn], p: Floats) -> tuple[Floats, list[int]]:
    """Holm within each kind, and how many tests that is for each column."""
    corrected, tests = np.full(len(columns), np.nan), [1] * len(columns)
    for kind in dict.fromkeys(one.kind for one in columns):
        family = [at for at, one in enumerate(columns) if one.kind == kind]
        corrected[family] = correct_holm(p[family])
        for at in family:
            tests[at] = int((~np.isnan(p[family])).sum())
    return corrected, tests


def _bound_differences(column: PairedColumn) -> tuple[Floats, Floats] | None:
    """The differences if what has no number any more had the lowest of the scale, and the highest."""
    lost = ~np.isnan(column.before) & np.isnan(column.after)
    if column.scale is None or column.kind not in _BOUNDED_KINDS or not lost.any():
        return None
    low, high = (np.where(lost, end, column.after) - column.before for end in column.scale)
    return low, high


def _grade_steps(one: RubricGrades, cases: Sequence[str]) -> PairedColumn:
    """Grades as steps from the worst, which is 0."""
    step = {grade: float(at) for at, grade in enumerate(reversed(one.order))}
    before, after = (
        np.array([step.get(grades.get(case, ""), np.nan) for case in cases]) for grades in (one.before, one.after)
    )
    return PairedColumn(one.name, GRADE, before, after, (0.0, max(1.0, len(one.order) - 1.0)))


def _count_grades(one: RubricGrades, cases: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Of the cases that have a grade in both runs."""
    known = [(one.before[case], one.after[case]) for case in cases if case in one.before and case in one.after]
    names = dict.fromkeys((*one.order, *(grade for both in known for grade in both)))
    olds, news = [old for old, _ in known], [new for _, new in known]
    return {name: (olds.count(name), news.count(name)) for name in names}


def _find_changed_cases(pairs: SharedCases, top: int) -> tuple[CaseChange, ...]:
    """The cases that changed most: by the mean of their overall scores, else of their criteria as shares of a scale."""
    overall = [one for one in pairs.columns if one.kind == ColumnKind.OVERALL]
    ranked = overall or [one for one in pairs.columns if one.kind == ColumnKind.CRITERION]
    told = [one for one in pairs.columns if one.kind != ColumnKind.ASSERTION]
    if not ranked or not top:
        return ()
    shares = np.array([one.difference / _scale_width(one) for one in ranked])
    known = ~np.isnan(shares)
    by = np.nan_to_num(divide_or_nan(np.where(known, shares, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64)))
    found = []
    for row in np.argsort(-np.abs(by), kind="stable")[:top]:
        if abs(by[row]) <= EQUALITY_TOLERANCE:
            break
        changes = {
            one.name: (float(one.before[row]), float(one.after[row]))
            for one in told
            if abs(one.difference[row]) > EQUALITY_TOLERANCE
        }
        group = pairs.groups[row] if pairs.groups is not None else ""
        found.append(CaseChange(pairs.cases[row], group, float(by[row]), changes))
    return tuple(found)


def _scale_width(column: PairedColumn) -> float:
    """Of the scale; where it is not known, of the values that were seen."""
    if column.scale is not None:
        return column.scale[1] - column.scale[0] or 1.0
    values = np.concatenate([column.before, column.after])
    values = values[~np.isnan(values)]
    return float(np.ptp(values)) or 1.0 if len(values) else 1.0


def _mean_or_none(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _number_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


ON_SCORE, ON_ANY = "score", "any"


class FailOn(StrEnum):
    """What fails: a regression that is shown; or also that none can be ruled out."""

    REGRESSION = "regression"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class ComparisonGate:
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


def gate_comparison(
    comparison: Comparison, on: Sequence[str] = (ON_SCORE,), fail_on: FailOn = FailOn.REGRESSION
) -> ComparisonGate:
    """Looks for a regression: the interval of the difference lies wholly below the margin, and the permutation test of
    a drop by that margin agrees (p at most 5 %, after Holm's correction where several columns are looked at). Neither
    is enough alone: intervals of few groups are narrow, and among many one is below by chance.

    `on` names columns; `score` is every overall score, `any` those with all pass rates and criteria. Undecided is what
    there is nothing to decide by: no such column, no number in both runs, or a drop in so few groups that no test of so
    many columns could tell it from chance.
    """
    looked, undecided = _select_changes(comparison, on)
    p = np.array([np.nan if one.p_beyond is None else one.p_beyond for one in looked])
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
    names = tuple(one.name for one in looked)
    return ComparisonGate(names, tuple(regressed), tuple(unsure), failed, doubted, undecided, unweighed)


def _select_changes(comparison: Comparison, on: Sequence[str]) -> tuple[list[ColumnChange], dict[str, str]]:
    """The columns that are meant, and a sentence for each name that means none."""
    by_name = {one.name: one for one in comparison.changes}
    found: dict[str, ColumnChange] = {}
    unknown: dict[str, str] = {}
    for name in on:
        kinds = {
            ON_SCORE: (ColumnKind.OVERALL,),
            ON_ANY: (ColumnKind.OVERALL, ColumnKind.PASSED, ColumnKind.CRITERION),
        }.get(name, ())
        chosen = [by_name[name]] if name in by_name else list(comparison.of(*kinds))
        if not chosen:
            unknown[name] = (
                f"There is no {name!r} in both runs to decide by; there are: {', '.join(by_name)}, or any."
                if by_name
                else f"Nothing has a score in both runs, so that there is nothing to decide {name!r} by."
            )
        found |= {one.name: one for one in chosen}
    return list(found.values()), unknown


def _explain_undecided(looked: Sequence[ColumnChange], p: Floats) -> dict[str, str]:
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
        if (
            value is not None
            and value < -one.margin - EQUALITY_TOLERANCE
            and _cannot_reach_significance(at, p, one.groups)
        ):
            few = "1 group" if one.groups == 1 else f"{one.groups} groups"
            among = f" among {tests} columns" if tests > 1 else ""
            fewer = " (--on names fewer columns)" if tests > 1 else ""
            found[one.name] = (
                f"{one.name} fell by {-value:.3g}, and {few} of cases cannot tell that from chance{among}: "
                f"it takes {min_groups_to_decide(tests)} at least, and more for small changes{fewer}."
            )
    return found


def _describe_lost_cases(looked: Sequence[ColumnChange], cases: int) -> str:
    """What an open gate did not look at, and what would have."""
    one = find_most_lost(looked)
    if one is None:
        return ""
    lost = f"{one.lost:,} of {cases:,} cases" if cases > 1 else "The case"
    which = "that they could turn" if one.lost > 1 else "that it could turn"
    return (
        f"{lost} lost {'their' if one.lost > 1 else 'its'} {one.name}, which the gate does not look at: --fail-on "
        f"inconclusive holds a build {which}, and beholder run --max-unscored one that has too many without a score."
    )


def _cannot_reach_significance(at: int, p: Floats, groups: int) -> bool:
    """Whether the least p that so many groups can have would be no proof among the p of the other columns."""
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
    """Whether a drop beyond the margin cannot be ruled out, by chance or by the cases without a score."""
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
