"""Pairing two runs by case: shared cases and columns, what only one run has, grades, and how the runs were made."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from beholder.errors import UsageError
from beholder.statistics.data import SOURCE_GROUP, Column, ColumnKind, Floats, Ints, Scores, tabulate_verdicts
from beholder.verdicts.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from beholder.ledger.encoding import StoredExtract, VerdictExtract
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import RunRecord


COMPARED_KINDS = (ColumnKind.OVERALL, ColumnKind.PASSED, ColumnKind.CRITERION, ColumnKind.ASSERTION)
"""Kinds of columns that have a better and a worse end, in the order in which they are shown."""
SCORED = "scored"
MAX_LISTED_CASES = 10  # in a sentence
_MAX_NAME_LENGTH = 200


class UnevenCase(msgspec.Struct, frozen=True):
    """A case of both runs that has fewer numbers in one of them.

    Attributes:
        case: Case id.
        before: What became of it in the first run: `scored`, or why not.
        after: The same in the second run.
        lost: Columns with a number in the first run only.
        gained: Columns with a number in the second run only.
    """

    case: str
    before: str
    after: str
    lost: tuple[str, ...] = ()
    gained: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class PairedColumn:
    """One column in both runs, with a value for each shared case."""

    name: str
    kind: str
    before: Floats
    after: Floats
    scale: tuple[float, float] | None
    question: str = ""

    @property
    def difference(self) -> Floats:
        """After minus before; nan where one of them is missing."""
        return self.after - self.before


@dataclass(frozen=True, slots=True, eq=False)
class SharedCases:
    """The cases that both runs have, in the order of the first.

    Attributes:
        cases: Ids of the shared cases.
        columns: Columns that both runs have on one scale.
        groups: Group of each case; None where there are no groups.
        group: Name of the group.
        only_before: Cases of the first run only.
        only_after: Cases of the second run only.
        uneven: Cases with a number in one run only.
        unscored: Cases that were scored in neither run.
        warnings: Sentences on what cannot be compared.
    """

    cases: tuple[str, ...]
    columns: tuple[PairedColumn, ...]
    groups: tuple[str, ...] | None
    group: str
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    uneven: tuple[UnevenCase, ...]
    unscored: tuple[UnevenCase, ...]
    warnings: tuple[str, ...]


def join_names(names: Sequence[str], most: int = MAX_LISTED_CASES) -> str:
    """Join names for a sentence, `a, b and 3 more`; long names are cut."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(name[:_MAX_NAME_LENGTH] for name in names[:most]) + more


def pair_cases(before: Scores, after: Scores, group: str | None = None) -> SharedCases:
    """Pair two sets of scores by case id.

    Args:
        before: Scores of the first run.
        after: Scores of the second run.
        group: The group by which cases are clustered; None for `source`.

    Raises:
        UsageError: The two have no case in common, or no case has the named group.
    """
    after_rows = {case: row for row, case in enumerate(after.cases)}
    rows = [row for row, case in enumerate(before.cases) if case in after_rows]
    if not rows:
        raise UsageError(
            f"{before.name} and {after.name} have no case in common; cases are paired by their ids, such as "
            f"{_example_case(before)} here and {_example_case(after)} there."
        )
    old = np.array(rows, np.int64)
    new = np.array([after_rows[before.cases[row]] for row in rows], np.int64)
    cases = tuple(before.cases[row] for row in rows)
    known = set(cases)
    columns, warnings = _pair_columns(before, after, old, new)
    groups, sentences = _pair_groups(before, after, old, new, group)
    uneven = tuple(_find_uneven_cases(before, after, cases, columns))
    uneven_ids = {uneven_case.case for uneven_case in uneven}
    return SharedCases(
        cases=cases,
        columns=columns,
        groups=groups,
        group=group or SOURCE_GROUP,
        only_before=tuple(case for case in before.cases if case not in known),
        only_after=tuple(case for case in after.cases if case not in known),
        uneven=uneven,
        unscored=tuple(
            UnevenCase(case, before.missing_reasons[case], after.missing_reasons[case])
            for case in cases
            if case in before.missing_reasons and case in after.missing_reasons and case not in uneven_ids
        ),
        warnings=(*warnings, *sentences),
    )


def _example_case(scores: Scores) -> str:
    return repr(scores.cases[0]) if scores.cases else "none at all"


def _pair_columns(before: Scores, after: Scores, old: Ints, new: Ints) -> tuple[tuple[PairedColumn, ...], list[str]]:
    """Return the columns that both have on one scale, and sentences on the others.

    A column counts as present in both runs, too, where one of them has no number for it because none of its cases was
    scored.
    """
    paired, sentences = [], []
    first, second = _comparable_columns(before), _comparable_columns(after)
    first, second = first | _empty_columns(second, after, before), second | _empty_columns(first, before, after)
    for name, column in first.items():
        other = second.get(name)
        if other is None:
            continue
        if column.scale is not None and other.scale is not None and column.scale != other.scale:
            (low, high), (bottom, top) = column.scale, other.scale
            scales = f"{low:g} to {high:g} in {before.name}, {bottom:g} to {top:g} in {after.name}"
            sentences.append(f"{name} has two scales ({scales}) and is not compared.")
            continue
        scale = column.scale or other.scale
        pair = PairedColumn(
            name, column.kind, column.values[old], other.values[new], scale, column.question or other.question
        )
        paired.append(pair)
        if column.kind is ColumnKind.ASSERTION and column.question != other.question:
            sentences.append(f"{name} asks another question in each run: {column.question!r}, then {other.question!r}.")
    for scores, mine, others in ((before, first, second), (after, second, first)):
        only = [name for name in mine if name not in others]
        if only:
            sentences.append(f"Only {scores.name} has {join_names(only)}, which cannot be compared.")
    paired.sort(key=lambda one: [str(kind) for kind in COMPARED_KINDS].index(one.kind))
    return tuple(paired), sentences


def _comparable_columns(scores: Scores) -> dict[str, Column]:
    return {name: column for name, column in scores.columns.items() if column.kind in COMPARED_KINDS}


def _empty_columns(columns: Mapping[str, Column], scores: Scores, other: Scores) -> dict[str, Column]:
    """Return columns of `scores` that `other` lacks only because the cases in question were not scored there.

    They are returned as columns of `other`, with all values missing.
    """
    nothing = not _comparable_columns(other)
    shared = set(other.cases)
    empty = {}
    for name, column in columns.items():
        if name in other.columns:
            continue
        cases = {scores.cases[row] for row in np.flatnonzero(~np.isnan(column.values))} & shared
        if nothing or (cases and cases <= other.missing_reasons.keys()):
            empty[name] = replace(column, values=np.full(len(other), np.nan))
    return empty


def _pair_groups(
    before: Scores, after: Scores, old: Ints, new: Ints, name: str | None
) -> tuple[tuple[str, ...] | None, list[str]]:
    """Return the group of each case, and a warning where the runs disagree; the first run's group is taken then."""
    wanted = name or SOURCE_GROUP
    first, second = before.groups.get(wanted), after.groups.get(wanted)
    if first is None and second is None:
        if name is None:
            return None, []
        names = ", ".join(dict.fromkeys((*before.groups, *after.groups))) or "none"
        raise UsageError(f"No case is in a group {name!r}; there are: {names}.")
    mine = [first[row] if first else "" for row in old]
    others = [second[row] if second else "" for row in new]
    differ = sum(bool(own and other and own != other) for own, other in zip(mine, others, strict=True))
    sentences = [f"{differ:,} cases are of another {wanted} in each run; {before.name} is followed."] if differ else []
    return tuple(own or other for own, other in zip(mine, others, strict=True)), sentences


def _find_uneven_cases(
    before: Scores, after: Scores, cases: tuple[str, ...], columns: tuple[PairedColumn, ...]
) -> Iterator[UnevenCase]:
    """Yield cases that were scored, or whose overall score or criteria have a number, in one run only."""
    numbers = [column for column in columns if column.kind in (ColumnKind.OVERALL, ColumnKind.CRITERION)]
    shape = (len(cases), len(numbers))
    old = np.array([~np.isnan(number.before) for number in numbers], np.bool_).T.reshape(shape)
    new = np.array([~np.isnan(number.after) for number in numbers], np.bool_).T.reshape(shape)
    odd = (old != new).any(axis=1)
    for row, case in enumerate(cases):
        if odd[row] or (case in before.missing_reasons) != (case in after.missing_reasons):
            lost = tuple(number.name for number, gone in zip(numbers, old[row] & ~new[row], strict=True) if gone)
            gained = tuple(number.name for number, came in zip(numbers, new[row] & ~old[row], strict=True) if came)
            yield UnevenCase(
                case, before.missing_reasons.get(case, SCORED), after.missing_reasons.get(case, SCORED), lost, gained
            )


_SUITE_SETTINGS = {
    "judges": "The judges differ",
    "setting": "The setting differs",
    "samples": "The number of samples differs",
    "threshold": "The threshold differs",
    "gates": "The gates differ",
    "not_applicable": "What is not applicable differs",
    "max_side": "The largest side of images differs",
    "detail": "The detail of images differs",
    "styles": "The styles differ",
    "fields": "The texts for all cases differ",
}
"""Settings of a suite that change how cases are judged, besides rubric and prompt."""


_MAX_VALUE_LENGTH = 120  # characters of a value in a sentence


@dataclass(frozen=True, slots=True, eq=False)
class ComparedRun:
    """A run to compare, read once.

    Attributes:
        record: The run's record in the ledger.
        scores: Its scores.
        verdicts: Number of verdicts.
        grades: Grades by rubric and case.
        models: Number of verdicts by the name of the model as the provider gave it.
        calls: What each verdict cost and how long it took.
    """

    record: RunRecord
    scores: Scores
    verdicts: int
    grades: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    models: Mapping[str, int] = field(default_factory=dict)
    calls: RunCalls = field(default_factory=lambda: RunCalls())


@dataclass(slots=True, eq=False)
class RunCalls:
    """What became of each verdict of a run, what it cost and how long it took, one value for each verdict.

    Attributes:
        row: The row of its case in the scores of the run.
        unscored: 1 without a score, 0 with one; nan where nobody was asked.
        cost_usd: nan where it is not known, and of verdicts by answers of an earlier run.
        latency_s: The same, in seconds.
        outcomes: How many verdicts without a score have which outcome, of those that were asked for.
    """

    row: array[int] = field(default_factory=lambda: array("q"))
    unscored: array[float] = field(default_factory=lambda: array("d"))
    cost_usd: array[float] = field(default_factory=lambda: array("d"))
    latency_s: array[float] = field(default_factory=lambda: array("d"))
    outcomes: Counter[str] = field(default_factory=Counter)
    _rows: dict[str, int] = field(default_factory=dict)

    def add(self, stored: StoredExtract) -> None:
        verdict = stored.verdict
        self.row.append(self._rows.setdefault(verdict.case, len(self._rows)))
        asked, lacks = verdict.outcome != Outcome.OVER_BUDGET, verdict.score is None
        self.unscored.append(float(lacks) if asked else nan)
        self.cost_usd.append(nan if stored.reused or verdict.cost_usd is None else float(verdict.cost_usd))
        self.latency_s.append(nan if stored.reused or verdict.latency_s is None else verdict.latency_s)
        if asked and lacks:
            self.outcomes[str(verdict.outcome)] += 1


def load_compared_run(ledger: Ledger, run: str) -> ComparedRun:
    """Load a run in one pass over its verdicts; `run` is a name or id as in `Ledger.run`."""
    from beholder.runs.ledger_access import correct_state  # late: loads what runs need

    record = correct_state(ledger, ledger.run(run))
    grades: dict[str, dict[str, str]] = {}
    models: Counter[str] = Counter()
    calls = RunCalls()
    count = 0

    def seen(judged: Iterable[StoredExtract]) -> Iterator[tuple[Verdict | VerdictExtract, Mapping[str, str]]]:
        nonlocal count
        for stored in judged:
            verdict = stored.verdict
            count += 1
            calls.add(stored)
            if verdict.grade is not None:
                grades.setdefault(verdict.rubric, {})[verdict.case] = verdict.grade
            if verdict.model:
                models[verdict.model] += 1
            yield verdict, stored.groups

    scores = tabulate_verdicts(f"{record.name} ({record.id})", seen(ledger.stored_extracts(record.id)))
    return ComparedRun(record, scores, count, grades, models, calls)


def match_grades(before: ComparedRun, after: ComparedRun) -> list[RubricGrades]:
    """Return the grades of each rubric that graded in both runs, from the best to the worst grade.

    Rubrics that were not stored, or whose grades differ between the runs, are left out.
    """
    rubrics = [name for name in before.grades if name in after.grades]
    matched = []
    for name in rubrics:
        order = _grade_order(before.record, name)
        if order and order == _grade_order(after.record, name):
            title = "grade" if len(rubrics) == 1 else f"{name}.grade"
            matched.append(RubricGrades(title, order, before.grades[name], after.grades[name]))
    return matched


def describe_run_differences(before: ComparedRun, after: ComparedRun) -> list[str]:
    """Describe what differs between two runs besides the build under test, in sentences.

    Covers rubrics, judges, prompts, settings, versions, models, and incomplete runs.
    """
    sentences = []
    old, new = before.record, after.record
    for name, first, second in _pair_rubrics(old, new):
        if first is None or second is None:
            sentences.append(f"Only {(old if second is None else new).name} was judged by the rubric {name}.")
        elif first.get("version") != second.get("version"):
            sentences.append(f"The rubric {name} is version {first.get('version')}, then {second.get('version')}.")
        elif first != second:
            sentences.append(f"The rubric {name} is not the same in both runs, though its version is.")
    for key, differs in _SUITE_SETTINGS.items():
        if _format_value(old.suite.get(key)) != _format_value(new.suite.get(key)):
            sentences.append(
                f"{differs}: {_shorten_value(old.suite.get(key))} before, {_shorten_value(new.suite.get(key))} now."
            )
    if old.prompt != new.prompt:
        sentences.append("The prompts differ.")
    if set(before.models) != set(after.models):
        sentences.append(
            f"Other models answered: {_shorten_value(sorted(before.models))} before, "
            f"{_shorten_value(sorted(after.models))} now."
        )
    first_version, second_version = old.versions.get("beholder"), new.versions.get("beholder")
    if first_version != second_version:
        sentences.append(f"Beholder was version {first_version}, then {second_version}.")
    sentences += [
        f"{run.scores.name} is {run.record.state}: it has {run.verdicts:,} of {run.record.total:,} verdicts."
        for run in (before, after)
        if run.verdicts < run.record.total
    ]
    return sentences


def _pair_rubrics(
    old: RunRecord, new: RunRecord
) -> Iterator[tuple[str, Mapping[str, object] | None, Mapping[str, object] | None]]:
    first, second = ({str(stored.get("rubric")): stored for stored in record.rubrics} for record in (old, new))
    for name in dict.fromkeys((*first, *second)):
        yield name, first.get(name), second.get(name)


def _grade_order(record: RunRecord, rubric: str) -> tuple[str, ...]:
    """Return a rubric's grades in the order in which it lists them, the best first."""
    for stored in record.rubrics:
        scoring = stored.get("scoring")
        if stored.get("rubric") == rubric and isinstance(scoring, Mapping):
            return tuple(str(grade["grade"]) for grade in scoring.get("grades", ()))
    return ()


def _shorten_value(value: object) -> str:
    text = _format_value(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"


def _format_value(value: object) -> str:
    """Format a value of a suite for people: a judge by its name, with its settings in brackets."""
    if value is None or value in ([], {}, ()):
        return "none"
    if isinstance(value, Mapping):
        rest = [
            f"{str(key).replace('_', ' ')} {_format_value(inner)}" for key, inner in value.items() if key != "judge"
        ]
        if "judge" not in value:
            return ", ".join(rest)
        return f"{value['judge']} ({', '.join(rest)})" if rest else str(value["judge"])
    if isinstance(value, list | tuple):
        return ", ".join(_format_value(item) for item in value)
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class RubricGrades:
    """The grades that one rubric gave in both runs, by case; `order` lists them from the best to the worst."""

    name: str
    order: tuple[str, ...]
    before: Mapping[str, str]
    after: Mapping[str, str]
