"""A run's verdicts filtered, sorted and paged by the database, so that a hundred thousand of them are as quick to look
through as a hundred. Filters are answered from indexes; only the page itself is unpacked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, null, select

from beholder.ledger import tables
from beholder.ledger.dialects import contains, has_item, number_at, parts, text_at, unindexed, value_contains
from beholder.ledger.facets import FLAGS, NO, SCORES, STYLE
from beholder.ledger.model import Progress
from beholder.ledger.packing import plain_text
from beholder.ledger.reading import Judged, judged_row, texts_of

LEFT_OPEN = "left_open"  # scored, but too little of it was answered for a score
SORTS = ("worst", "best", "order", "case")
_SAMPLE = 2000  # cases from which the groups of a large run are told

_V, _C = tables.verdicts.c, tables.cases.c
_ROWS = select(_V.position, _V.number, _V.case_id, _V.reused, _V.answers, _V.body, _C.groups).join_from(
    tables.verdicts, tables.cases, (_C.run == _V.run) & (_C.id == _V.case_id), isouter=True
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which verdicts of a run, and in which order. What is empty or `None` does not matter.

    `outcome` may be `left_open`; `scored` then means those with a score. `least` and `most` bound the score of
    `criterion` on its own scale, or the verdict's own (0–1) where no criterion is named. The case has each of `groups`
    with this value, or any where it is empty. `text` is in the case's id, or in a value of its groups.
    """

    outcome: str = ""
    grade: str = ""
    passed: bool | None = None
    rubric: str = ""
    criterion: str = ""
    least: float | None = None
    most: float | None = None
    assertion: str = ""
    flag: str = ""
    style: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    sort: str = "worst"


@dataclass(frozen=True, slots=True)
class Found:
    """A page of verdicts, and how many there are in all."""

    total: int
    judged: tuple[Judged, ...]


@dataclass(slots=True)
class Counts:
    """How many verdicts of a run came to what. `states` are outcomes, with `left_open` apart from `scored`."""

    verdicts: int = 0
    states: Counter[str] = field(default_factory=Counter)
    grades: Counter[str] = field(default_factory=Counter)
    passed: int = 0
    failed: int = 0
    mean: float | None = None


def browse(
    connection: Connection, run: int, wanted: Wanted, offset: int, limit: int, *, answers: bool = False
) -> Found:
    """The verdicts from `offset` on, at most `limit`. A verdict without a score comes first when the worst do, and last
    when the best do."""
    total, numbers = _chosen(connection, run, wanted, offset, limit)
    query = _ROWS.where(_V.number.in_(numbers))
    rows = {row.number: row for row in connection.execute(query)} if numbers else {}
    texts = texts_of(connection, list(rows.values())) if answers else {}
    return Found(total, tuple(judged_row(rows[number], texts) for number in numbers if number in rows))


def _chosen(connection: Connection, run: int, wanted: Wanted, offset: int, limit: int) -> tuple[int, Sequence[int]]:
    """How many verdicts there are, and the numbers of those from `offset` on."""
    conditions = _conditions(run, wanted)
    key = _sort_key(wanted)
    chosen = select(_V.number, _V.position, key.label("key")).where(_V.run == run, *conditions)
    if not conditions:  # an index counts them at once
        total = connection.scalar(select(func.count()).select_from(tables.verdicts).where(_V.run == run)) or 0
        query = select(_V.number).where(_V.run == run).order_by(*_order(wanted, key, _V.position, _V.number))
        return total, connection.scalars(query.offset(offset).limit(limit)).all() if offset < total else ()
    found = chosen.cte("found")  # gone through once, for both
    count = select(func.count()).select_from(found)
    order = _order(wanted, found.c.key, found.c.position, found.c.number)
    query = select(found.c.number, count.scalar_subquery()).order_by(*order).offset(offset).limit(limit)
    rows = connection.execute(query).all()
    if not rows and offset:  # past the end
        return connection.scalar(count) or 0, []
    return (rows[0][1] if rows else 0), [row[0] for row in rows]


def counts(connection: Connection, run: int) -> Counts:
    """What a run came to, as far as an index tells."""
    found = Counts()
    scored = _V.score.is_not(None)
    query = select(
        _V.outcome,
        scored.label("scored"),
        _V.grade,
        _V.passed,
        func.count().label("many"),
        func.sum(_V.score).label("sum"),
    ).where(_V.run == run)
    total, of = 0.0, 0
    for row in connection.execute(query.group_by(_V.outcome, scored, _V.grade, _V.passed)):
        found.verdicts += row.many
        found.states[LEFT_OPEN if row.outcome == "scored" and not row.scored else row.outcome] += row.many
        if row.grade is not None:
            found.grades[row.grade] += row.many
        if row.passed is not None:
            found.passed += row.many if row.passed else 0
            found.failed += 0 if row.passed else row.many
        if row.scored:
            total, of = total + row.sum, of + row.many
    found.mean = total / of if of else None
    return found


def progress(connection: Connection, runs: Sequence[str]) -> dict[str, Progress]:
    """How far these runs are, by their ids; one without verdicts is left out."""
    id_, scored = tables.runs.c.id, _V.score.is_not(None)
    query = (
        select(id_, func.count(), func.count().filter(scored), func.avg(_V.score).filter(scored))
        .join_from(tables.verdicts, tables.runs, _V.run == tables.runs.c.number)
        .group_by(id_)
    )
    rows = [row for part in parts(runs) for row in connection.execute(query.where(id_.in_(part)))]
    return {id_: Progress(done, scored, mean) for id_, done, scored, mean in rows}


def groups(connection: Connection, run: int, most: int = 200) -> dict[str, list[str]]:
    """The groups that cases of a run belong to, each with its values, as the first cases tell; a group with more than
    `most` values has none."""
    found: dict[str, dict[str, None]] = {}
    for text in connection.scalars(select(_C.groups).where(_C.run == run).limit(_SAMPLE)):
        values: Mapping[str, str] = json.loads(text)
        for name, value in values.items():
            found.setdefault(name, {})[value] = None
    return {name: sorted(values) if len(values) <= most else [] for name, values in found.items()}


def on_case(connection: Connection, case_id: str, most: int) -> list[tuple[str, Judged]]:
    """The verdicts on a case in all runs, with the ids of the runs, newest first."""
    runs = tables.runs.c
    # From the runs, so that each is looked up in the index of runs and cases.
    numbers = connection.execute(
        select(runs.id, _V.number)
        .select_from(tables.runs)
        .join(tables.verdicts, (_V.run == runs.number) & (_V.case_id == plain_text(case_id)))
        .order_by(runs.number.desc(), _V.rubric)
        .limit(most)
    ).all()
    rows = {row.number: row for row in connection.execute(_ROWS.where(_V.number.in_([one.number for one in numbers])))}
    return [(one.id, judged_row(rows[one.number], {})) for one in numbers]


def _conditions(run: int, wanted: Wanted) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.outcome == LEFT_OPEN:
        found += [unindexed(_V.outcome) == "scored", _V.score.is_(None)]
    elif wanted.outcome:
        found.append(unindexed(_V.outcome) == plain_text(wanted.outcome))
        if wanted.outcome == "scored":
            found.append(_V.score.is_not(None))
    if wanted.grade:
        found.append(_V.grade == plain_text(wanted.grade))
    if wanted.passed is not None:
        found.append(_V.passed.is_(wanted.passed))
    value = _value(wanted)
    if wanted.least is not None:
        found.append(value >= wanted.least)
    if wanted.most is not None:
        found.append(value <= wanted.most)
    if wanted.assertion:
        found.append(has_item(_V.facets, NO, plain_text(wanted.assertion)))
    if wanted.style:
        found.append(text_at(_V.facets, STYLE) == plain_text(wanted.style))
    if wanted.flag:
        found.append(has_item(_V.facets, FLAGS, plain_text(wanted.flag)))
    # Names and texts are in the index of cases and rubrics, which gives numbers.
    other = tables.verdicts.alias("named").c
    named = [other.rubric == plain_text(wanted.rubric)] if wanted.rubric else []
    if wanted.groups:
        named.append(other.case_id.in_(_cases(run, *(_belongs(*pair) for pair in wanted.groups.items()))))
    if wanted.text:
        text = plain_text(wanted.text)
        named.append(contains(other.case_id, text) | other.case_id.in_(_cases(run, value_contains(_C.groups, text))))
    if named:
        found.append(_V.number.in_(select(other.number).where(other.run == run, *named)))
    return found


def _cases(run: int, *conditions: ColumnElement[bool]) -> Select[tuple[str]]:
    return select(_C.id).where(_C.run == run, *conditions)


def _belongs(group: str, value: str) -> ColumnElement[bool]:
    kept = text_at(_C.groups, plain_text(group))
    return kept == plain_text(value) if value else kept.is_not(None)


def _sort_key(wanted: Wanted) -> ColumnElement[Any]:
    if wanted.sort == "order":
        return null()
    if wanted.sort == "case":
        return _V.case_id
    return _value(wanted)


def _value(wanted: Wanted) -> ColumnElement[Any]:
    """What is bounded, and sorted by."""
    return number_at(_V.facets, SCORES, plain_text(wanted.criterion)) if wanted.criterion else _V.score


def _order(
    wanted: Wanted, key: ColumnElement[Any], position: ColumnElement[int], number: ColumnElement[int]
) -> Sequence[ColumnElement[Any]]:
    last = (position, number)
    if wanted.sort == "order":
        return last
    if wanted.sort == "case":
        return (key, *last)
    return (key.desc().nulls_last() if wanted.sort == "best" else key.nulls_first(), *last)
