"""Into columns: verdicts of a run or a file, and plain files of ratings and scores.

Plain files are read like case files (`cases.reading`): CSV, TSV, JSONL or Parquet, one number a row.
"""

from __future__ import annotations

import json
from array import array
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from beholder.cases.reading import Shape, read_rows
from beholder.errors import UsageError
from beholder.statistics.data import SOURCE, Column, Floats, Kind, Ratings, Scores
from beholder.verdicts.model import Verdict

if TYPE_CHECKING:
    from beholder.ledger import Ledger

LISTED = 10
MOST = 1e9  # a score beyond it is a mistake, and its square past all bounds

_PLAIN = Shape(roles=((),))  # no images, no fields: every column is a plain value
_JSON_LINES = {".jsonl", ".ndjson"}


def read_ratings(path: Path) -> dict[str, Ratings]:
    """What people said, by aspect, from rows of `case,rater,aspect,score`.

    Raises `UsageError` that lists the rows that are no ratings; one rater's second rating of the same is such a row.
    """
    told: dict[str, dict[tuple[str, str], float]] = {}
    problems: list[str] = []
    for place, (case, rater, aspect), score in number_rows(path, ("case", "rater", "aspect"), problems.append):
        scores = told.setdefault(aspect, {})
        if (case, rater) in scores:
            problems.append(f"{place}: {rater!r} rates {aspect!r} of {case!r} a second time")
        scores[case, rater] = score
    _complain(path, problems)
    if not told:
        raise UsageError(f"{str(path)!r} holds no rating; it should have rows of case,rater,aspect,score.")
    return {aspect: _ratings(aspect, scores) for aspect, scores in told.items()}


def read_scores(path: Path) -> list[Scores]:
    """What judges said, one `Scores` each: from rows of `case,judge,aspect,score`, or from verdicts, one a line, as
    `beholder score --json` and `beholder export --to jsonl` write them. Raises `UsageError`."""
    if path.suffix.lower() in _JSON_LINES and _holds_verdicts(path):
        return _verdict_scores(path)
    told: dict[str, dict[tuple[str, str], float]] = {}
    problems: list[str] = []
    for place, (case, judge, aspect), score in number_rows(path, ("case", "judge", "aspect"), problems.append):
        scores = told.setdefault(judge, {})
        if (case, aspect) in scores:
            problems.append(f"{place}: {judge!r} scores {aspect!r} of {case!r} a second time")
        scores[case, aspect] = score
    _complain(path, problems)
    if not told:
        raise UsageError(f"{str(path)!r} holds no score; it should have rows of case,judge,aspect,score.")
    found = []
    for judge, scores in told.items():
        gathered = _Gathered()
        for (case, aspect), score in scores.items():
            gathered.add(gathered.row(case), aspect, Kind.CRITERION, score)
        found.append(gathered.scores(judge))
    return found


def read_groups(path: Path) -> dict[str, dict[str, str]]:
    """The plain values that a case file has for each case, by id. Raises `UsageError`."""
    nested = _nested(path) if path.suffix.lower() in _JSON_LINES else ()
    found: dict[str, dict[str, str]] = {}
    problems: list[str] = []
    for row in read_rows(path, replace(_PLAIN, optional=nested)):
        problems += [f"{row.place}: {problem}" for problem in row.problems]
        if row.case is not None:
            found[row.case.id] = dict(row.case.groups)
    _complain(path, problems)
    return found


def with_groups(scores: Scores, groups: Mapping[str, Mapping[str, str]]) -> Scores:
    """The scores with these groups beside their own."""
    names = dict.fromkeys(name for case in scores.cases for name in groups.get(case, ()))
    added = {name: tuple(groups.get(case, {}).get(name, "") for case in scores.cases) for name in names}
    return replace(scores, groups={**scores.groups, **added})


def group_of(scores: Scores, name: str | None) -> tuple[str, ...] | None:
    """What belongs together: the named group, else `source` where there is one. Raises `UsageError` for a name that no
    case has."""
    if name is not None and name not in scores.groups:
        there = ", ".join(scores.groups) or "none"
        raise UsageError(f"No case of {scores.name} is in a group {name!r}; there are: {there}.")
    return scores.groups.get(name or SOURCE)


def scores_of_run(ledger: Ledger, run: str) -> Scores:
    """What a run came to, as columns. `run` as in `Ledger.run`."""
    record = ledger.run(run)
    judged = ((one.verdict, one.groups) for one in ledger.judged(record.id))
    return scores_of_verdicts(f"run {record.id} ({record.name})", judged)


def scores_of_verdicts(name: str, judged: Iterable[tuple[Verdict, Mapping[str, str]]]) -> Scores:
    """Verdicts, each with the groups of its case, as columns; see `Kind` for which.

    Criteria stand under their keys (`RUBRIC.KEY` where several rubrics have one of that key), assertions under their
    ids (`Anime/A1` where there are several styles), what a verdict measured as `measured.NAME`, the spread of a jury as
    `spread.NAME`. A rubric's overall is `score`, and whether it passed `passed`; of several rubrics `RUBRIC.score` and
    `RUBRIC.passed`. Raises `UsageError` for two verdicts on one case by one rubric, and for two columns of one name.
    """
    gathered = _Gathered()
    styles: set[str] = set()
    rubrics: set[str] = set()
    seen: set[tuple[str, str]] = set()
    for verdict, groups in judged:
        if (verdict.case, verdict.rubric) in seen:
            raise UsageError(f"There are two verdicts on {verdict.case!r} by {verdict.rubric!r} in {name}.")
        seen.add((verdict.case, verdict.rubric))
        rubrics.add(verdict.rubric)
        styles.add(verdict.style or "")
        _add(gathered, gathered.row(verdict.case, groups), verdict)
    return gathered.scores(name, Names(gathered.keys(), len(rubrics) > 1, len(styles) > 1))


def _add(gathered: _Gathered, row: int, verdict: Verdict) -> None:
    if verdict.lack:
        gathered.lack(row, verdict.lack)
    for key, result in verdict.criteria.items():
        if result.score is not None:
            gathered.add(row, (Kind.CRITERION, verdict.rubric, key), Kind.CRITERION, result.score, result.scale)
        for one in result.assertions:
            if one.answer in _ANSWERS:
                name = (Kind.ASSERTION, verdict.style or "", one.id)
                gathered.add(row, name, Kind.ASSERTION, _ANSWERS[one.answer], (0, 1), one.question)
    if verdict.score is not None:
        gathered.add(row, (Kind.OVERALL, verdict.rubric, "score"), Kind.OVERALL, verdict.score, (0, 1))
    if verdict.passed is not None:
        gathered.add(row, (Kind.PASSED, verdict.rubric, "passed"), Kind.PASSED, verdict.passed, (0, 1))
    if verdict.jury is not None:
        for key, spread in verdict.jury.spread.items():
            gathered.add(row, f"spread.{key}", Kind.SPREAD, spread)
    for key, value in verdict.measurements.items():
        if isinstance(value, Mapping):
            value = value.get("value")
        if isinstance(value, int | float):
            gathered.add(row, f"measured.{key}", Kind.MEASUREMENT, value)


_ANSWERS = {"yes": 1.0, "no": 0.0}
_OVERALL = ("score", "passed")


Key = str | tuple[Kind, str, str]
"""A column before it has its name: a name; or a kind, a rubric or style, and what it is of that."""


class Names:
    """What columns are called, shortly where that is enough."""

    def __init__(self, keys: Iterable[Key], several_rubrics: bool, several_styles: bool) -> None:
        self._several_rubrics, self._several_styles = several_rubrics, several_styles
        criteria = [key[2] for key in keys if key[0] is Kind.CRITERION]
        self._shared = {name for name, count in Counter(criteria).items() if count > 1}

    def __call__(self, key: Key) -> str:
        if isinstance(key, str):
            return key
        kind, of, name = key
        if kind is Kind.ASSERTION:
            return f"{of}/{name}" if self._several_styles and of else name
        if kind is Kind.CRITERION:
            name = f"{name}.score" if name in _OVERALL else name  # as exports call it
            return f"{of}.{name}" if name in self._shared else name
        return f"{of}.{name}" if self._several_rubrics else name


class _Gathered:
    """Columns that grow row by row, compact however many there are."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._groups: dict[str, dict[int, str]] = {}
        self._lacks: dict[str, str] = {}
        self._cases: list[str] = []
        self._columns: dict[Key, tuple[Kind, array[int], array[float]]] = {}
        self._about: dict[Key, tuple[tuple[float, float] | None, str]] = {}

    def row(self, case: str, groups: Mapping[str, str] | None = None) -> int:
        row = self._rows.setdefault(case, len(self._rows))
        if row == len(self._cases):
            self._cases.append(case)
            for name, value in (groups or {}).items():
                self._groups.setdefault(name, {})[row] = value
        return row

    def keys(self) -> tuple[Key, ...]:
        return tuple(self._columns)

    def lack(self, row: int, why: str) -> None:
        case = self._cases[row]
        self._lacks[case] = f"{self._lacks[case]}; {why}" if case in self._lacks else why

    def add(
        self,
        row: int,
        key: Key,
        kind: Kind,
        value: float,
        scale: tuple[float, float] | None = None,
        about: str = "",
    ) -> None:
        if key not in self._columns:
            self._columns[key] = kind, array("q"), array("d")
            self._about[key] = (None if scale is None else (float(scale[0]), float(scale[1]))), about
        _, rows, values = self._columns[key]
        rows.append(row)
        values.append(value)

    def scores(self, name: str, named: Callable[[Key], str] = str) -> Scores:
        columns: dict[str, Column] = {}
        for key, (kind, rows, values) in self._columns.items():
            if named(key) in columns:
                raise UsageError(f"Two columns of {name} are called {named(key)!r}; one of them needs another name.")
            column: Floats = np.full(len(self._cases), np.nan)
            column[np.frombuffer(rows, np.int64)] = np.frombuffer(values, np.float64)
            columns[named(key)] = Column(named(key), kind, column, *self._about[key])
        groups = {
            group: tuple(values.get(row, "") for row in range(len(self._cases)))
            for group, values in self._groups.items()
        }
        return Scores(name, tuple(self._cases), columns, groups, self._lacks)


def _verdict_scores(path: Path) -> list[Scores]:
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
            by_judge.setdefault(verdict.judge, []).append((verdict, plain))
    _complain(path, problems)
    alone = len(by_judge) == 1
    return [
        scores_of_verdicts(f"{judge} ({path.name})" if alone else judge, found) for judge, found in by_judge.items()
    ]


def number_rows(
    path: Path, names: tuple[str, ...], complain: Callable[[str], None]
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Rows with a text under each of `names` (the first is the case) and a finite number under `score`. A row with an
    empty score is nobody's: it is passed over, as a person passes over a question."""
    for row in read_rows(path, _PLAIN):
        if row.case is None:
            for problem in row.problems:
                complain(f"{row.place}: {problem}")
            continue
        values = row.case.groups
        missing = [name for name in names[1:] if not values.get(name, "").strip()]
        if missing:
            complain(f"{row.place}: there is no {' and no '.join(missing)}")
            continue
        text = values.get("score", "").strip()
        if not text:
            continue
        try:
            score = float(text)
        except ValueError:
            complain(f"{row.place}: the score {text[:40]!r} is no number")
            continue
        if not abs(score) <= MOST:
            complain(f"{row.place}: the score {text[:40]!r} is no score; at most {MOST:g} is")
            continue
        yield row.place, (row.case.id, *(values[name].strip() for name in names[1:])), score


def _ratings(aspect: str, scores: Mapping[tuple[str, str], float]) -> Ratings:
    cases = list(dict.fromkeys(case for case, _ in scores))
    raters = sorted({rater for _, rater in scores})
    row, column = ({name: at for at, name in enumerate(names)} for names in (cases, raters))
    values = np.full((len(cases), len(raters)), np.nan)
    for (case, rater), score in scores.items():
        values[row[case], column[rater]] = score
    return Ratings(aspect, tuple(cases), tuple(raters), values)


def _complain(path: Path, problems: list[str]) -> None:
    if not problems:
        return
    more = [f"… and {len(problems) - LISTED:,} more"] if len(problems) > LISTED else []
    things = "1 row of" if len(problems) == 1 else f"{len(problems):,} rows of"
    raise UsageError("\n".join([f"{things} {str(path)!r} cannot be used:", *problems[:LISTED], *more]))


def _first_object(path: Path) -> dict[str, object]:
    """The first line that holds anything, as far as it is an object."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            found = json.loads(next((line for line in lines if line.strip()), "{}"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _holds_verdicts(path: Path) -> bool:
    return {"outcome", "criteria"} <= _first_object(path).keys()


def _nested(path: Path) -> tuple[str, ...]:
    """Names whose values are lists or objects: no groups."""
    return tuple(name for name, value in _first_object(path).items() if isinstance(value, list | dict))
