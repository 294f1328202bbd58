"""Scores of a judge and ratings of people as NumPy columns, and reading them from runs and files.

A missing value is nan everywhere: a case without a score, an assertion that did not apply, a person who did not rate.
Plain files are read like case files (`cases.files`): CSV, TSV, JSONL or Parquet, one number per row.
"""

from __future__ import annotations

import json
import os
from array import array
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from beholder.cases.case import CaseSchema
from beholder.cases.files import read_rows
from beholder.cases.sources import CaseSource, is_case_source, iter_cases
from beholder.errors import UsageError
from beholder.images.image import regular_file
from beholder.verdicts.calibration import collect_juror_numbers
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from beholder.ledger.encoding import VerdictExtract
    from beholder.ledger.ledger import Ledger


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SOURCE_GROUP = "source"  # the group that cases share when they show the same thing: the photograph


_Choice = TypeVar("_Choice", bound=StrEnum)


def parse_choice(kind: type[_Choice], text: str, option: str) -> _Choice:
    """Return the member of an enumeration; raise `UsageError`, naming the `option`, for another text."""
    if text not in tuple(kind):
        raise UsageError(f"{option} is one of {', '.join(kind)}, not {text!r}.")
    return kind(text)


class ColumnKind(StrEnum):
    """What a column holds: a criterion's score on its own scale, a rubric's overall score (0–1), whether it passed,
    whether an assertion holds, the spread of a jury (highest minus lowest score), or a measurement.
    """

    CRITERION = "criterion"
    OVERALL = "overall"
    PASSED = "passed"
    ASSERTION = "assertion"
    SPREAD = "spread"
    MEASUREMENT = "measurement"


COMPARABLE_KINDS = (ColumnKind.CRITERION, ColumnKind.OVERALL, ColumnKind.PASSED)
"""What a person names: not single assertions, measurements or a jury's spread."""


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One number per case.

    Attributes:
        name: The column's name, as `tabulate_verdicts` gives it.
        kind: What the numbers are.
        values: One value per case. Passed and assertions are 1 (yes) and 0 (no).
        scale: Lowest and highest possible value; None where that is not known.
        question: The text of an assertion; empty for other kinds.
    """

    name: str
    kind: ColumnKind
    values: Floats
    scale: tuple[float, float] | None = None
    question: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """The scores of one judge, one row per case, in the order of the run or file.

    Attributes:
        name: The judge or run, as it is shown to people.
        cases: Case ids.
        columns: Columns by name.
        groups: Group values by group name, one per case; empty where a case is in no such group.
        missing_reasons: By case, why it has no score or lacks some: the outcome in words.
        judge: The judge's own name, of scores that were read from a file; `name` may tell two of one name apart.
        file: The file that they were read from.
    """

    name: str
    cases: tuple[str, ...]
    columns: Mapping[str, Column]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing_reasons: Mapping[str, str] = field(default_factory=dict)
    judge: str = ""
    file: Path | None = None

    def __len__(self) -> int:
        return len(self.cases)

    def select(self, rows: Sequence[int] | Ints) -> Scores:
        """Return these rows, in this order."""
        places = np.asarray(rows, np.int64)
        cases = tuple(self.cases[row] for row in places)
        columns = {
            name: Column(column.name, column.kind, column.values[places], column.scale, column.question)
            for name, column in self.columns.items()
        }
        groups = {name: tuple(values[row] for row in places) for name, values in self.groups.items()}
        kept = set(cases)
        reasons = {k: v for k, v in self.missing_reasons.items() if k in kept}
        return replace(self, cases=cases, columns=columns, groups=groups, missing_reasons=reasons)


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """Human ratings of one aspect: cases × raters, nan where somebody did not rate."""

    aspect: str
    cases: tuple[str, ...]
    raters: tuple[str, ...]
    values: Floats

    def mean(self) -> Floats:
        """Return the mean rating of each case; nan where nobody rated."""
        return mean_ratings(self.values)

    def for_cases(self, cases: Sequence[str]) -> Ratings:
        """Return the ratings of these cases, in this order; a row of nan for a case that nobody rated."""
        place = {case: row for row, case in enumerate(self.cases)}
        rows = np.array([place.get(case, -1) for case in cases], np.int64)
        padded = np.vstack([self.values, np.full((1, len(self.raters)), np.nan)])
        return Ratings(self.aspect, tuple(cases), self.raters, padded[rows])


def mean_ratings(values: Floats) -> Floats:
    """Return the mean of each row of ratings (cases × raters); nan where nobody rated.

    Means are rounded to 12 digits, so that the same ratings have the same mean in whatever order they are summed:
    rank statistics would take rounding errors for differences.
    """
    defined = ~np.isnan(values)
    sums = np.where(defined, values, 0.0).sum(axis=1)
    counts = defined.sum(axis=1)
    means = np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0)
    rounded: Floats = np.where(counts == 1, sums, np.round(means, 12))
    return rounded


MAX_LISTED_PROBLEMS = 10
MAX_SCORE = 1e9  # a larger score is a mistake, and its square could overflow sums

_PLAIN_SHAPE = CaseSchema(roles=((),))  # no images, no fields: every column is a plain value
_JSON_LINES = {".jsonl", ".ndjson"}


def read_ratings(source: CaseSource) -> dict[str, Ratings]:
    """Read human ratings from rows of `case,rater,aspect,score`.

    Args:
        source: A CSV, TSV, JSONL or Parquet file; a frame, a dataset, or an iterable of mappings.

    Returns:
        Ratings by aspect, in the order of the rows.

    Raises:
        UsageError: Lists the invalid rows; a second rating of the same thing by the same rater is one.
    """
    if not isinstance(source, str | os.PathLike) and not is_case_source(source):
        raise UsageError(
            "Ratings are given as the path of a file, a frame, a dataset or an iterable of mappings with case, rater, "
            f"aspect and score; this is of type {type(source).__name__}."
        )
    by_aspect: dict[str, dict[tuple[str, str], float]] = {}
    for (case, rater, aspect), score in _read_table(source, "rater", "rates").items():
        by_aspect.setdefault(aspect, {})[case, rater] = score
    return {aspect: _build_ratings(aspect, scores) for aspect, scores in by_aspect.items()}


def read_scores(path: Path, *, valid_parts: bool = False) -> list[Scores]:
    """Read the scores of judges from rows of `case,judge,aspect,score`, or from a JSONL file of verdicts.

    Args:
        path: A table, or verdicts as `beholder score --json` and `beholder export --to jsonl` write them.
        valid_parts: Of invalid answers, include the criteria that are valid by themselves: for calibrations only.

    Returns:
        One `Scores` per judge.

    Raises:
        UsageError: Lists the invalid rows.
    """
    if path.suffix.lower() in _JSON_LINES and contains_verdicts(path):
        return _read_verdict_scores(path, valid_parts)
    builders: dict[str, _ColumnBuilder] = {}
    for (case, judge, aspect), score in _read_table(path, "judge", "scores").items():
        builder = builders.setdefault(judge, _ColumnBuilder())
        builder.add(builder.add_case(case), aspect, ColumnKind.CRITERION, score)
    return [replace(builder.scores(judge), judge=judge, file=path) for judge, builder in builders.items()]


def _read_table(source: CaseSource, who: str, does: str) -> dict[tuple[str, str, str], float]:
    """Read rows of `case,WHO,aspect,score` by all three; invalid rows, and a second score for the same, are listed."""
    scores: dict[tuple[str, str, str], float] = {}
    problems: list[str] = []
    for place, (case, name, aspect), score in read_number_rows(source, ("case", who, "aspect"), problems.append):
        if (case, name, aspect) in scores:
            problems.append(f"{place}: {name!r} {does} {aspect!r} of {case!r} a second time")
        scores[case, name, aspect] = score
    _raise_problems(source, problems)
    if not scores:
        what = "rating" if who == "rater" else "score"
        name = _name_source(source)
        raise UsageError(
            f"{name[0].upper()}{name[1:]} holds no {what}; it should have rows of case,{who},aspect,score."
        )
    return scores


def read_groups(path: Path) -> dict[str, dict[str, str]]:
    """Read the plain values of a case file, by case id and column name.

    Raises:
        UsageError: Lists the invalid rows.
    """
    nested = _find_nested_names(path) if path.suffix.lower() in _JSON_LINES else ()
    groups: dict[str, dict[str, str]] = {}
    problems: list[str] = []
    for row in read_rows(path, replace(_PLAIN_SHAPE, optional=nested)):
        problems += [f"{row.location}: {problem}" for problem in row.problems]
        if row.case is not None:
            groups[row.case.id] = dict(row.case.groups)
    _raise_problems(path, problems)
    return groups


def add_groups(scores: Scores, groups: Mapping[str, Mapping[str, str]]) -> Scores:
    """Return the scores with these groups (by case id and group name) added to their own."""
    names = dict.fromkeys(name for case in scores.cases for name in groups.get(case, ()))
    added = {name: tuple(groups.get(case, {}).get(name, "") for case in scores.cases) for name in names}
    return replace(scores, groups={**scores.groups, **added})


def select_group(scores: Scores, name: str | None) -> tuple[str, ...] | None:
    """Return the group of each case by which cases are clustered.

    Args:
        scores: The scores whose groups are searched.
        name: A group name; None for `source`, where the scores have it.

    Returns:
        One group value per case; None where `name` is None and there is no `source`.

    Raises:
        UsageError: No case has a group of that name.
    """
    if name is not None and name not in scores.groups:
        names = ", ".join(scores.groups) or "none"
        raise UsageError(f"No case of {scores.name} is in a group {name!r}; there are: {names}.")
    return scores.groups.get(name or SOURCE_GROUP)


def load_run_scores(ledger: Ledger, run: str) -> Scores:
    """Return the scores of a run in the ledger; `run` is a name or id as in `Ledger.run`."""
    record = ledger.run(run)
    judged = ((stored.verdict, stored.groups) for stored in ledger.stored_verdicts(record.id))
    return tabulate_verdicts(f"run {record.id} ({record.name})", judged)


def tabulate_verdicts(name: str, judged: Iterable[tuple[Verdict | VerdictExtract, Mapping[str, str]]]) -> Scores:
    """Turn verdicts into columns.

    Criteria are named by their keys (`RUBRIC.KEY` where several rubrics share one), assertions by their ids (`Anime/A1`
    where there are several styles), measurements `measured.NAME`, a jury's spread `spread.NAME`. A rubric's overall
    score is `score`, and whether it passed `passed`; with several rubrics they are `RUBRIC.score` and `RUBRIC.passed`.

    Args:
        name: The judge or run, as it is shown to people.
        judged: Verdicts, each with the groups of its case; an extract has no measurements and no spread of a jury.

    Raises:
        UsageError: One case has two verdicts by one rubric, or two columns have the same name.
    """
    builder = _ColumnBuilder()
    styles: set[str] = set()
    rubrics: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for verdict, groups in judged:
        if (verdict.case, verdict.rubric) in seen:
            raise UsageError(f"There are two verdicts on {verdict.case!r} by {verdict.rubric!r} in {name}.")
        seen.add((verdict.case, verdict.rubric))
        rubrics.add(verdict.rubric)
        styles.add(verdict.style or "")
        row = builder.add_case(verdict.case, groups)
        _add_verdict(builder, row, verdict)
        if isinstance(verdict, Verdict):
            _add_measurements(builder, row, verdict)
    return builder.scores(name, ColumnNames(builder.keys(), len(rubrics) > 1, len(styles) > 1))


def _add_verdict(builder: _ColumnBuilder, row: int, verdict: Verdict | VerdictExtract) -> None:
    if verdict.missing_score_reason:
        builder.add_missing_reason(row, verdict.missing_score_reason)
    style = verdict.style or ""
    for key, result in verdict.criteria.items():
        if result.score is not None:
            builder.add(
                row, (ColumnKind.CRITERION, verdict.rubric, key), ColumnKind.CRITERION, result.score, result.scale
            )
        for assertion in result.assertions:
            answer = _ANSWER_VALUES.get(assertion.answer)
            if answer is not None:
                name = (ColumnKind.ASSERTION, style, assertion.id)
                builder.add(row, name, ColumnKind.ASSERTION, answer, (0, 1), assertion.question)
    if verdict.score is not None:
        builder.add(row, (ColumnKind.OVERALL, verdict.rubric, "score"), ColumnKind.OVERALL, verdict.score, (0, 1))
    if verdict.passed is not None:
        builder.add(row, (ColumnKind.PASSED, verdict.rubric, "passed"), ColumnKind.PASSED, verdict.passed, (0, 1))


def _add_measurements(builder: _ColumnBuilder, row: int, verdict: Verdict) -> None:
    if verdict.jury is not None:
        for key, spread in verdict.jury.spread.items():
            builder.add(row, f"spread.{key}", ColumnKind.SPREAD, spread)
        for name, number in collect_juror_numbers(verdict.jury).items():
            builder.add(row, name, ColumnKind.MEASUREMENT, number)
    for key, value in verdict.measurements.items():
        if isinstance(value, Mapping):
            value = value.get("value")
        if isinstance(value, int | float):
            builder.add(row, f"measured.{key}", ColumnKind.MEASUREMENT, value)


_ANSWER_VALUES = {"yes": 1.0, "no": 0.0}
_RESERVED_NAMES = ("score", "passed")


def criterion_column(key: str) -> str:
    """Return what a criterion is called beside the `score` of the verdict and `passed`: one of such a key `KEY.score`,
    as in exports."""
    return f"{key}.score" if key in _RESERVED_NAMES else key


ColumnKey = str | tuple[ColumnKind, str, str]
"""Key of a column before names are assigned: a name; or a kind, a rubric or style, and the name within it."""


class ColumnNames:
    """Names of columns: short ones, qualified by rubric or style only where that is needed."""

    def __init__(self, keys: Iterable[ColumnKey], several_rubrics: bool, several_styles: bool) -> None:
        self._several_rubrics, self._several_styles = several_rubrics, several_styles
        criteria = [key[2] for key in keys if key[0] is ColumnKind.CRITERION]
        self._shared = {name for name, count in Counter(criteria).items() if count > 1}

    def __call__(self, key: ColumnKey) -> str:
        if isinstance(key, str):
            return key
        kind, of, name = key
        if kind is ColumnKind.ASSERTION:
            return f"{of}/{name}" if self._several_styles and of else name
        if kind is ColumnKind.CRITERION:
            name = criterion_column(name)
            return f"{of}.{name}" if name in self._shared else name
        return f"{of}.{name}" if self._several_rubrics else name


class _ColumnBuilder:
    """Collects columns row by row in compact arrays."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._groups: dict[str, dict[int, str]] = {}
        self._missing_reasons: dict[str, str] = {}
        self._cases: list[str] = []
        self._columns: dict[ColumnKey, tuple[ColumnKind, array[int], array[float]]] = {}
        self._scale_and_question: dict[ColumnKey, tuple[tuple[float, float] | None, str]] = {}

    def add_case(self, case: str, groups: Mapping[str, str] | None = None) -> int:
        row = self._rows.setdefault(case, len(self._rows))
        if row == len(self._cases):
            self._cases.append(case)
            for name, value in (groups or {}).items():
                self._groups.setdefault(name, {})[row] = value
        return row

    def keys(self) -> tuple[ColumnKey, ...]:
        return tuple(self._columns)

    def add_missing_reason(self, row: int, why: str) -> None:
        case = self._cases[row]
        self._missing_reasons[case] = f"{self._missing_reasons[case]}; {why}" if case in self._missing_reasons else why

    def add(
        self,
        row: int,
        key: ColumnKey,
        kind: ColumnKind,
        value: float,
        scale: tuple[float, float] | None = None,
        about: str = "",
    ) -> None:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = kind, array("q"), array("d")
            self._scale_and_question[key] = (None if scale is None else (float(scale[0]), float(scale[1]))), about
        column[1].append(row)
        column[2].append(value)

    def scores(self, name: str, named: Callable[[ColumnKey], str] = str) -> Scores:
        columns: dict[str, Column] = {}
        for key, (kind, rows, values) in self._columns.items():
            if named(key) in columns:
                raise UsageError(f"Two columns of {name} are called {named(key)!r}; one of them needs another name.")
            column: Floats = np.full(len(self._cases), np.nan)
            column[np.frombuffer(rows, np.int64)] = np.frombuffer(values, np.float64)
            columns[named(key)] = Column(named(key), kind, column, *self._scale_and_question[key])
        groups = {
            group: tuple(values.get(row, "") for row in range(len(self._cases)))
            for group, values in self._groups.items()
        }
        return Scores(name, tuple(self._cases), columns, groups, self._missing_reasons)


def _read_verdict_scores(path: Path, valid_parts: bool) -> list[Scores]:
    by_judge: dict[str, list[tuple[Verdict, Mapping[str, str]]]] = {}
    problems: list[str] = []
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                values = json.loads(line.removeprefix(BOM_UTF8))
                verdict = Verdict.from_dict(values)
            except (ValueError, RecursionError, UsageError) as error:
                problems.append(f"{path}, line {number}: {error}")
                continue
            groups = values.get("groups")
            plain = {str(key): str(value) for key, value in groups.items()} if isinstance(groups, dict) else {}
            if valid_parts and verdict.valid_criteria:
                verdict = replace(verdict, criteria=verdict.valid_criteria)
            by_judge.setdefault(verdict.judge, []).append((verdict, plain))
    _raise_problems(path, problems)
    alone = len(by_judge) == 1
    return [
        replace(tabulate_verdicts(f"{judge} ({path.name})" if alone else judge, found), judge=judge, file=path)
        for judge, found in by_judge.items()
    ]


def read_number_rows(
    source: CaseSource, names: tuple[str, ...], on_problem: Callable[[str], None]
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield the rows of a table that have a score.

    Args:
        source: A file, frame or iterable of mappings with each of `names` and `score`.
        names: Names of text columns; the first is the case.
        on_problem: Called with a message for each invalid row, which is then skipped.

    Yields:
        The row's place in the file, its texts in the order of `names`, and its score. Rows with an empty score are
        skipped: the question was not answered.
    """
    wanted = ", ".join((*names, "score"))
    for row in iter_cases(source, _PLAIN_SHAPE):
        if row.case is None:
            for problem in row.problems:
                on_problem(f"{row.location}: {problem}")
            continue
        values = row.case.groups
        missing = [name for name in names[1:] if not values.get(name, "").strip()]
        if missing:
            on_problem(f"{row.location}: there is no {' and no '.join(missing)}; a row has {wanted}")
            continue
        text = values.get("score", "").strip()
        if not text:
            continue
        try:
            score = float(text)
        except ValueError:
            on_problem(f"{row.location}: the score {text[:40]!r} is no number")
            continue
        if not abs(score) <= MAX_SCORE:
            on_problem(f"{row.location}: the score {text[:40]!r} is no score; at most {MAX_SCORE:g} is")
            continue
        yield row.location, (row.case.id, *(values[name].strip() for name in names[1:])), score


def read_plain_rows(
    source: CaseSource, on_problem: Callable[[str], None]
) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yield the rows of a table: the row's place in the file, its case, and its other columns as texts.

    Args:
        source: A file, frame or iterable of mappings with `case` or `id`.
        on_problem: Called with a message for each invalid row, which is then skipped.
    """
    for row in iter_cases(source, _PLAIN_SHAPE):
        if row.case is None:
            for problem in row.problems:
                on_problem(f"{row.location}: {problem}")
        else:
            yield row.location, row.case.id, row.case.groups


def _build_ratings(aspect: str, scores: Mapping[tuple[str, str], float]) -> Ratings:
    cases = list(dict.fromkeys(case for case, _ in scores))
    raters = sorted({rater for _, rater in scores})
    row, column = ({name: at for at, name in enumerate(names)} for names in (cases, raters))
    values = np.full((len(cases), len(raters)), np.nan)
    for (case, rater), score in scores.items():
        values[row[case], column[rater]] = score
    return Ratings(aspect, tuple(cases), tuple(raters), values)


def _name_source(source: CaseSource) -> str:
    return repr(str(source)) if isinstance(source, str | os.PathLike) else "the table"


def _raise_problems(source: CaseSource, problems: list[str]) -> None:
    if not problems:
        return
    more = [f"… and {len(problems) - MAX_LISTED_PROBLEMS:,} more"] if len(problems) > MAX_LISTED_PROBLEMS else []
    things = "1 row of" if len(problems) == 1 else f"{len(problems):,} rows of"
    raise UsageError(
        "\n".join([f"{things} {_name_source(source)} cannot be used:", *problems[:MAX_LISTED_PROBLEMS], *more])
    )


def _read_first_object(path: Path) -> dict[str, object]:
    """Return the first non-empty line of a JSONL file if it is an object, else an empty dict."""
    try:
        with regular_file(path).open(encoding="utf-8-sig") as lines:
            first_object = json.loads(next((line for line in lines if line.strip()), "{}"))
    except (OSError, ValueError, RecursionError):
        return {}
    return first_object if isinstance(first_object, dict) else {}


def contains_verdicts(path: Path) -> bool:
    """Return whether a JSONL file holds verdicts."""
    return {"outcome", "criteria"} <= _read_first_object(path).keys()


def _find_nested_names(path: Path) -> tuple[str, ...]:
    """Names whose values are lists or objects, which cannot be groups."""
    return tuple(name for name, value in _read_first_object(path).items() if isinstance(value, list | dict))
