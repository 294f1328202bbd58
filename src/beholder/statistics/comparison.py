"""Comparison of two runs over the same cases (`beholder compare`): changes, significance, power, the CI gate.

Differences are after minus before, by case, so that the difficulty of a case cancels. Intervals and tests treat the
cases of one group (`source`) together. p-values are corrected by Holm within each kind of column: criteria together,
assertions together, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import msgspec
import numpy as np
from msgspec.structs import replace

from beholder.cases.case import format_case_count
from beholder.errors import UsageError
from beholder.statistics import DEFAULT_DRAWS, DEFAULT_SEED
from beholder.statistics.bootstrap import EQUALITY_TOLERANCE, ClusterBootstrap, to_json_values
from beholder.statistics.case_changes import CaseChanges, difference_by_case, measure_case_changes, ranked_columns
from beholder.statistics.data import Bools, ColumnKind, Floats, Scores, parse_choice
from beholder.statistics.gate import ON_SCORE, FailOn, Gate, gate_comparison
from beholder.statistics.pairs import (
    ComparedRun,
    PairedColumn,
    RubricGrades,
    SharedCases,
    UnevenCase,
    describe_run_differences,
    match_grades,
    pair_cases,
)
from beholder.statistics.significance import (
    BeforeAfter,
    ColumnChange,
    analyze_power,
    correct_holm,
    estimate_differences,
)

GRADE = "grade"
DEFAULT_TOP_CASES = 10

_BOUNDED_KINDS = (ColumnKind.OVERALL, ColumnKind.PASSED, ColumnKind.CRITERION)


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """Options of `compare`.

    Attributes:
        group: The group by which cases are clustered; None for `source`.
        margin: How far a mean may fall before it counts, in the unit of each column.
        margins: Margins of single columns by name.
        detect: A difference for which the number of cases needed is computed.
        top: How many of the most changed cases are listed.
        draw_count: Number of bootstrap draws.
        seed: Seed of draws and flips.

    Raises:
        UsageError: A margin is below 0 or not finite, or `detect` is not a number above 0.
    """

    group: str | None = None
    margin: float = 0.0
    margins: Mapping[str, float] = field(default_factory=dict)
    detect: float | None = None
    top: int = DEFAULT_TOP_CASES
    draw_count: int = DEFAULT_DRAWS
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


class CaseChange(msgspec.Struct, frozen=True):
    """A case that changed much.

    Attributes:
        case: Case id.
        group: Its group; empty where there is none.
        by: Change of the overall score (0–1).
        changes: Values before and after, by column that changed.
    """

    case: str
    group: str
    by: float
    changes: Mapping[str, BeforeAfter]


class Comparison(
    msgspec.Struct,
    frozen=True,
    rename={
        "changed_cases": "moved",
        "uneven_cases": "unlike",
        "unscored_cases": "neither",
        "interval_note": "told",
    },
):
    """The differences between two runs, case by case: the result of `beholder.compare`.

    Attributes:
        before: Name of the first run.
        after: Name of the second run.
        cases: Number of shared cases.
        groups: Number of their groups.
        group: Name of the group by which cases were clustered; None where there is none.
        changes: Changes by column.
        changed_cases: The cases that changed most.
        only_before: Cases of the first run only.
        only_after: Cases of the second run only.
        uneven_cases: Cases with a number in one run only.
        unscored_cases: Cases that were scored in neither run.
        warnings: Sentences on what makes the runs hard to compare.
        interval_note: A sentence on how intervals were computed.
        case_changes: What became of every case that both runs have; not part of the JSON, which has those that changed
            most.
        rubrics: Rubrics of both runs as the ledger has them, for the titles of columns; not part of the JSON.
        same_run: Whether a run was compared with itself; not part of the JSON.
    """

    before: str
    after: str
    cases: int
    groups: int
    group: str | None
    changes: tuple[ColumnChange, ...]
    changed_cases: tuple[CaseChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    uneven_cases: tuple[UnevenCase, ...]
    unscored_cases: tuple[UnevenCase, ...]
    warnings: tuple[str, ...]
    interval_note: str
    case_changes: CaseChanges | None = None
    rubrics: tuple[Mapping[str, object], ...] = ()
    same_run: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing has a number in both runs."""
        return not any(change.cases for change in self.changes)

    def select_kinds(self, *kinds: str) -> tuple[ColumnChange, ...]:
        """Return the changes of columns of these kinds."""
        return tuple(change for change in self.changes if change.kind in kinds)

    def gate(self, fail_on: str = FailOn.REGRESSION, on: str | Sequence[str] = ON_SCORE) -> Gate:
        """Decide whether a build with these results may pass.

        Args:
            fail_on: `regression`, or `inconclusive`: then also where a regression cannot be ruled out.
            on: What is looked at: `score` for the overall scores, `any`, or names of columns.

        Returns:
            The decision, whose `status` is `passed`, `failed` or `undecided`.

        Raises:
            UsageError: `fail_on` is neither of the two, `on` names nothing or a column that is not there, or a run is
                compared with itself.
        """
        names = (on,) if isinstance(on, str) else tuple(on) if isinstance(on, Iterable) else ()
        if not names or not all(isinstance(name, str) for name in names):
            raise UsageError(
                f"`on` names at least one column, `score` or `any`, and {on!r} does not: a gate that looks at nothing "
                "could never fail."
            )
        return gate_comparison(self, names, parse_choice(FailOn, fail_on, "fail_on"))

    def to_dict(self) -> dict[str, object]:
        """Return what `beholder compare --json` prints."""
        values = to_json_values(replace(self, case_changes=None))
        values |= {"changes": [change.to_dict() for change in self.changes]}
        del values["case_changes"], values["rubrics"], values["same_run"]
        return values

    def __repr__(self) -> str:
        main = self.select_kinds(ColumnKind.OVERALL) or self.select_kinds(ColumnKind.CRITERION)
        values = ((change.name, change.difference.value) for change in main)
        changes = (
            ", ".join(f"{name} {value:+.3f}" for name, value in values if value is not None) or "no number in both"
        )
        return f"<Comparison {self.before} → {self.after}, {format_case_count(self.cases)}: {changes}>"

    def to_markdown(self, gate: Gate | None = None) -> str:
        """Return the comparison as Markdown, as `beholder compare --markdown` writes it, with the gate's decision."""
        from beholder.reports.ci import comparison_markdown

        return comparison_markdown(self, gate)

    def to_junit(self, gate: Gate) -> str:
        """Return the decision of a gate as JUnit XML, as `beholder compare --junit` writes it."""
        from beholder.reports.ci import comparison_junit

        return comparison_junit(self, gate)

    def _repr_html_(self) -> str:
        from beholder.reports.comparison import comparison_html

        return comparison_html(self)


def compare(
    before: Scores,
    after: Scores,
    options: ComparisonOptions | None = None,
    *,
    graded: Sequence[RubricGrades] = (),
    warnings: Sequence[str] = (),
) -> Comparison:
    """Compare two sets of scores case by case.

    Args:
        before: Scores of the first run.
        after: Scores of the second run.
        options: How to compare.
        graded: Grades of both runs.
        warnings: Sentences on what makes the runs unlike.

    Raises:
        UsageError: The two have no case in common, or a margin names no column.
    """
    options = options or ComparisonOptions()
    pairs = pair_cases(before, after, options.group)
    columns = (*pairs.columns, *(_grade_steps(grades, pairs.cases) for grades in graded))
    allowed = _resolve_margins(columns, options)
    bootstrap = ClusterBootstrap(pairs.groups, len(pairs.cases), count=options.draw_count, seed=options.seed)
    changes = _measure_changes(columns, bootstrap, allowed, options.detect)
    counts = {grades.name: _count_grades(grades, pairs.cases) for grades in graded}
    return Comparison(
        before=before.name,
        after=after.name,
        cases=len(pairs.cases),
        groups=bootstrap.group_count,
        group=pairs.group if pairs.groups is not None else None,
        changes=tuple(
            replace(change, grades=counts[change.name]) if change.kind == GRADE else change for change in changes
        ),
        changed_cases=_find_changed_cases(pairs, options.top),
        only_before=pairs.only_before,
        only_after=pairs.only_after,
        uneven_cases=pairs.uneven,
        unscored_cases=pairs.unscored,
        warnings=(*warnings, *pairs.warnings),
        interval_note=bootstrap.describe(),
        case_changes=measure_case_changes(pairs, after),
    )


def compare_runs(before: ComparedRun, after: ComparedRun, options: ComparisonOptions | None = None) -> Comparison:
    """Compare two runs of a ledger as `compare` does, with their grades and what makes them unlike.

    Raises:
        UsageError: As `compare`.
    """
    comparison = compare(
        before.scores,
        after.scores,
        options,
        graded=match_grades(before, after),
        warnings=describe_run_differences(before, after),
    )
    return replace(
        comparison,
        rubrics=(*before.record.rubrics, *after.record.rubrics),
        same_run=before.record.id == after.record.id,
    )


def _resolve_margins(columns: Sequence[PairedColumn], options: ComparisonOptions) -> list[float]:
    unknown = options.margins.keys() - {column.name for column in columns}
    if unknown and columns:
        names = ", ".join(column.name for column in columns)
        raise UsageError(f"There is no {sorted(unknown)[0]!r} to have a margin; there are: {names}.")
    return [options.margins.get(column.name, options.margin) for column in columns]


def _measure_changes(
    columns: Sequence[PairedColumn], bootstrap: ClusterBootstrap, margins: Sequence[float], detect: float | None
) -> list[ColumnChange]:
    differences = [column.difference for column in columns]
    bounds = {at: ends for at, column in enumerate(columns) if (ends := _bound_differences(column)) is not None}
    estimated = estimate_differences(
        bootstrap, differences, margins, [values for ends in bounds.values() for values in ends]
    )
    bounded = {at: estimated.untested_means[2 * place :][:2] for place, at in enumerate(bounds)}
    corrected, tests = _correct_by_kind(columns, estimated.p)
    changes = []
    for at, column in enumerate(columns):
        values = differences[at]
        defined: Bools = ~np.isnan(values)
        cases, groups = int(estimated.cases[at]), int(estimated.groups[at])
        worst, best = bounded.get(at, (None, None))
        changes.append(
            ColumnChange(
                name=column.name,
                kind=column.kind,
                cases=cases,
                groups=groups,
                before=_mean_or_none(column.before[defined]),
                after=_mean_or_none(column.after[defined]),
                difference=estimated.means[at],
                p=_number_or_none(estimated.p[at]),
                p_holm=_number_or_none(corrected[at]),
                better=int((values[defined] > EQUALITY_TOLERANCE).sum()),
                same=int((np.abs(values[defined]) <= EQUALITY_TOLERANCE).sum()),
                worse=int((values[defined] < -EQUALITY_TOLERANCE).sum()),
                margin=margins[at],
                p_beyond=_number_or_none(estimated.p_beyond[at]),
                lost=int((~np.isnan(column.before) & np.isnan(column.after)).sum()),
                worst=worst,
                best=best,
                power=analyze_power(float(estimated.errors[at]), groups, cases, detect, tests[at]),
                question=column.question,
                scale=column.scale,
            )
        )
    return changes


def _correct_by_kind(columns: Sequence[PairedColumn], p: Floats) -> tuple[Floats, list[int]]:
    """Return p-values corrected by Holm within each kind, and the number of tests in each column's family."""
    corrected, tests = np.full(len(columns), np.nan), [1] * len(columns)
    for kind in dict.fromkeys(column.kind for column in columns):
        family = [at for at, column in enumerate(columns) if column.kind == kind]
        corrected[family] = correct_holm(p[family])
        for at in family:
            tests[at] = int((~np.isnan(p[family])).sum())
    return corrected, tests


def _bound_differences(column: PairedColumn) -> tuple[Floats, Floats] | None:
    """Return the differences if lost numbers were the lowest of the scale, and the highest."""
    lost = ~np.isnan(column.before) & np.isnan(column.after)
    if column.scale is None or column.kind not in _BOUNDED_KINDS or not lost.any():
        return None
    low, high = (np.where(lost, end, column.after) - column.before for end in column.scale)
    return low, high


def _grade_steps(one: RubricGrades, cases: Sequence[str]) -> PairedColumn:
    """Return grades as steps from the worst, which is 0."""
    step = {grade: float(at) for at, grade in enumerate(reversed(one.order))}
    before, after = (
        np.array([step.get(grades.get(case, ""), np.nan) for case in cases]) for grades in (one.before, one.after)
    )
    return PairedColumn(one.name, GRADE, before, after, (0.0, max(1.0, len(one.order) - 1.0)))


def _count_grades(grades: RubricGrades, cases: Sequence[str]) -> dict[str, BeforeAfter]:
    """Count grades before and after, of the cases that have one in both runs."""
    known = [
        (grades.before[case], grades.after[case]) for case in cases if case in grades.before and case in grades.after
    ]
    names = dict.fromkeys((*grades.order, *(grade for both in known for grade in both)))
    olds, news = [old for old, _ in known], [new for _, new in known]
    return {name: BeforeAfter(olds.count(name), news.count(name)) for name in names}


def _find_changed_cases(pairs: SharedCases, top: int) -> tuple[CaseChange, ...]:
    """Return the cases that changed most: by their mean overall score, or by their criteria as shares of the scale."""
    ranked = ranked_columns(pairs)
    shown = [column for column in pairs.columns if column.kind != ColumnKind.ASSERTION]
    if not ranked or not top:
        return ()
    by = np.nan_to_num(difference_by_case(ranked))
    case_changes = []
    for row in np.argsort(-np.abs(by), kind="stable")[:top]:
        if abs(by[row]) <= EQUALITY_TOLERANCE:
            break
        changes = {
            column.name: BeforeAfter(float(column.before[row]), float(column.after[row]))
            for column in shown
            if abs(column.difference[row]) > EQUALITY_TOLERANCE
        }
        group = pairs.groups[row] if pairs.groups is not None else ""
        case_changes.append(CaseChange(pairs.cases[row], group, float(by[row]), changes))
    return tuple(case_changes)


def _mean_or_none(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _number_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
