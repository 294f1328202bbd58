"""What the filters of a list can be set to: everything that a run has, told by the database without unpacking it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Connection, select

from beholder.ledger import Ledger, RunRecord, tables
from beholder.ledger.browsing import Counts
from beholder.ledger.dialects import text_at
from beholder.ledger.facets import FLAGS, NO, STYLE
from beholder.ledger.packing import plain_text
from beholder.reports.html.summary import grade_names, states
from beholder.web.computing import Workshop
from beholder.web.overview import counts_of

MOST = 200  # values of a group that can be chosen among

_V, _C = tables.verdicts.c, tables.cases.c


@dataclass(frozen=True, slots=True)
class Choices:
    """`assertions` are those that failed; `groups` have those values each that cases belong to, two at least."""

    states: tuple[str, ...]
    grades: tuple[str, ...]
    passed: bool
    rubrics: tuple[str, ...]
    criteria: tuple[str, ...]
    assertions: tuple[str, ...]
    flags: tuple[str, ...]
    styles: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]


def choices_of(book: Ledger, shop: Workshop, record: RunRecord) -> Choices:
    """What there is to choose among in a run, looked up once as long as the run does not change."""
    return shop.now(
        ("choices", record.id), record.updated, lambda: choices(book, record, counts_of(book, shop, record))
    )


def choices(book: Ledger, record: RunRecord, counts: Counts) -> Choices:
    """What there is to choose among in a run; of 100,000 verdicts in a fraction of a second."""
    with book.reading() as connection:
        number = book.number(connection, record.id)
        rubrics = _rubrics(connection, number, record)
        facets = _facets(connection, number)
        groups = _groups(connection, number, book.groups(record.id))
    return Choices(
        tuple(state for state, many in states(counts.states) if many),
        tuple(name for name in grade_names(record.rubrics, counts.grades) if counts.grades[name]),
        bool(counts.passed or counts.failed),
        rubrics,
        tuple(dict.fromkeys(key for rubric in rubrics for key in _criteria(book, record, rubric))),
        facets[NO],
        facets[FLAGS],
        facets[STYLE],
        groups,
    )


def _rubrics(connection: Connection, run: int, record: RunRecord) -> tuple[str, ...]:
    """By which there are verdicts, in the order of the suite."""
    there = set(connection.scalars(select(_V.rubric).where(_V.run == run).distinct()))
    listed = [str(one.get("rubric", "")) for one in record.rubrics]
    return (*(name for name in listed if name in there), *sorted(there - set(listed)))


def _facets(connection: Connection, run: int) -> dict[str, tuple[str, ...]]:
    """Every assertion that failed, flag and style; combinations of them are few, however many verdicts there are."""
    columns = (text_at(_V.facets, NO), text_at(_V.facets, FLAGS), text_at(_V.facets, STYLE))
    found: dict[str, set[str]] = {NO: set(), FLAGS: set(), STYLE: set()}
    for failed, flags, style in connection.execute(select(*columns).where(_V.run == run).distinct()):
        found[NO].update(json.loads(failed or "[]"))
        found[FLAGS].update(json.loads(flags or "[]"))
        found[STYLE].update([style] if style else [])
    return {name: tuple(sorted(values, key=_by_number)) for name, values in found.items()}


def _groups(connection: Connection, run: int, named: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """The values of these groups over all cases; a group with too many cannot be chosen by."""
    found = {}
    for name in named:
        kept = text_at(_C.groups, plain_text(name))
        values = connection.scalars(select(kept).where(_C.run == run, kept != "").distinct().limit(MOST + 1)).all()
        if 1 < len(values) <= MOST:
            found[name] = tuple(sorted(values, key=_by_number))
    return found


def _criteria(book: Ledger, record: RunRecord, rubric: str) -> Iterator[str]:
    """As a verdict by the rubric has them."""
    for one in islice(book.judged(record.id, outcome="scored", rubric=rubric), 1):
        yield from one.verdict.criteria


def _by_number(text: str) -> tuple[str, int, str]:
    """A2 comes before A10."""
    letters = text.rstrip("0123456789")
    digits = text[len(letters) :]
    return letters, int(digits or 0) if digits.isascii() and len(digits) < 10 else 0, text
