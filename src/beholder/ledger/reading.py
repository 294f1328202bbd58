"""Out of the ledger: verdicts and cases in their order, a few hundred at a time.

Each part is a short transaction of its own that starts after the last row of the one before: nothing is held open
while the caller works, however long that takes, and memory stays flat.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

import msgspec
from sqlalchemy import Connection, select, tuple_

from beholder.cases import Case
from beholder.errors import LedgerError
from beholder.ledger import tables
from beholder.ledger.dialects import parts
from beholder.ledger.model import AnswerKey, StoredAnswer
from beholder.ledger.packing import (
    DAMAGED,
    Gist,
    key_id,
    plain_text,
    split_ids,
    unpack,
    unpack_flags,
    unpack_gist,
    unpack_text,
    unpack_verdict,
)
from beholder.ledger.tables import AnyRow, AnySelect
from beholder.verdicts.model import Verdict

Reading = Callable[[], AbstractContextManager[Connection]]  # a transaction that reads, as `Ledger.reading`

PAGE = 256

_V, _C, _A = tables.verdicts.c, tables.cases.c, tables.answers.c
# The position as no index has it: else, to spare sorting the verdicts on one case, SQLite goes through all of a run.
_FEW = _V.position + 0
_GROUPS = msgspec.json.Decoder(dict[str, str])


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict as the ledger has it, with the groups of its case. `reused`: nobody was asked for it in this run."""

    position: int
    verdict: Verdict
    groups: Mapping[str, str]
    reused: bool


class Counted(NamedTuple):
    """What is counted of a verdict; `reused` as in `Judged`."""

    verdict: Gist | Verdict
    reused: bool


def judged(
    reading: Reading,
    run: int,
    *,
    case: str | None = None,
    outcome: str | None = None,
    rubric: str | None = None,
    answers: bool = False,
) -> Iterator[Judged]:
    """The verdicts of a run in the order of its cases; with the raw answers only when asked."""
    query = (
        select(_V.position, _V.number, _V.case_id, _V.reused, _V.answers, _V.body, _C.groups)
        .join_from(tables.verdicts, tables.cases, (_C.run == _V.run) & (_C.id == _V.case_id), isouter=True)
        .where(_V.run == run)
        .order_by(_V.position if case is None else _FEW, _V.number)
    )
    for column, wanted in ((_V.case_id, case), (_V.outcome, outcome), (_V.rubric, rubric)):
        if wanted is not None:
            query = query.where(column == plain_text(wanted))
    for rows, texts in _pages(reading, query, answers=answers):
        yield from (judged_row(row, texts) for row in rows)


def counted(reading: Reading, run: int) -> Iterator[Counted]:
    """What is counted of each verdict of a run, in the order of its cases."""
    query = (
        select(_V.position, _V.number, _V.case_id, _V.reused, _V.body)
        .where(_V.run == run)
        .order_by(_V.position, _V.number)
    )
    for rows, _ in _pages(reading, query):
        yield from (Counted(unpack_gist(row.body, f"the verdict on {row.case_id!r}"), row.reused) for row in rows)


def cases(reading: Reading, run: int, *, case: str | None = None) -> Iterator[Case]:
    """The cases of a run, in the order of their ids. An image is its path, or what `source_text` kept of it."""
    query = select(_C.id, _C.groups, _C.body).where(_C.run == run).order_by(_C.id).limit(PAGE)
    if case is not None:
        query = query.where(_C.id == case)
    last: str | None = None
    while True:
        with reading() as connection:
            rows = connection.execute(query if last is None else query.where(_C.id > last)).all()
        yield from (_case(row) for row in rows)
        if len(rows) < PAGE:
            return
        last = rows[-1].id


def judged_on(reading: Reading, run: int, case_ids: Sequence[str]) -> Iterator[Judged]:
    """The verdicts on these cases, in the order of the run within each few hundred of them, without raw answers."""
    query = (
        select(_V.position, _V.case_id, _V.reused, _V.answers, _V.body, _C.groups)
        .join_from(tables.verdicts, tables.cases, (_C.run == _V.run) & (_C.id == _V.case_id), isouter=True)
        .where(_V.run == run)
        .order_by(_FEW, _V.number)
    )
    for part in parts(list(case_ids)):
        with reading() as connection:
            rows = connection.execute(query.where(_V.case_id.in_(part))).all()
        yield from (judged_row(row, {}) for row in rows)


def case_ids(connection: Connection, run: int) -> list[str]:
    return list(connection.scalars(select(_C.id).where(_C.run == run).order_by(_C.id)))


def case_groups(connection: Connection, run: int, limit: int | None = None) -> dict[str, dict[str, str]]:
    """The groups of cases by id, of the first so many: what can be told without unpacking anything."""
    query = select(_C.id, _C.groups).where(_C.run == run).order_by(_C.id).limit(limit)
    return {id_: _GROUPS.decode(groups) for id_, groups in connection.execute(query)}


def cached(connection: Connection, keys: Sequence[AnswerKey]) -> dict[AnswerKey, StoredAnswer]:
    """The newest answer to each key that there is one for."""
    by_id = {key_id(key): key for key in keys}
    columns = (_A.key, _A.body, _A.model, _A.usage, _A.cost_usd, _A.latency_s, _A.attempts, _A.flags)
    found: dict[AnswerKey, StoredAnswer] = {}
    for part in parts(list(by_id)):
        for row in connection.execute(select(*columns).where(_A.key.in_(part)).order_by(_A.number)):
            key = by_id[row.key]
            found[key] = StoredAnswer(
                key,
                text=unpack_text(row.body, "an answer"),
                model=row.model,
                usage=json.loads(row.usage),
                cost_usd=None if row.cost_usd is None else Decimal(row.cost_usd),
                latency_s=row.latency_s,
                attempts=row.attempts,
                flags=unpack_flags(row.flags, "an answer"),
            )
    return found


def _pages(
    reading: Reading, query: AnySelect, *, answers: bool = False
) -> Iterator[tuple[Sequence[AnyRow], Mapping[bytes, str]]]:
    """What a query over verdicts finds, which is in the order of the run; with the raw answers only when asked."""
    query = query.limit(PAGE)
    rows: Sequence[AnyRow] = ()
    while not rows or len(rows) == PAGE:
        more = query.where(tuple_(_V.position, _V.number) > (rows[-1].position, rows[-1].number)) if rows else query
        with reading() as connection:
            rows = connection.execute(more).all()
            texts = texts_of(connection, rows) if answers else {}
        if not rows:
            return
        yield rows, texts


def texts_of(connection: Connection, rows: Sequence[AnyRow]) -> dict[bytes, str]:
    """The raw answers of verdicts that were made from exactly one; a jury's verdict has none of its own."""
    ids = list({row.answers for row in rows if len(row.answers) == 16})
    texts: dict[bytes, str] = {}
    for part in parts(ids):
        for row in connection.execute(select(_A.id, _A.body).where(_A.id.in_(part))):
            texts[row.id] = unpack_text(row.body, "an answer")
    return texts


def judged_row(row: AnyRow, texts: Mapping[bytes, str]) -> Judged:
    verdict = unpack_verdict(row.body, f"the verdict on {row.case_id!r}")
    text = texts.get(row.answers)
    if text is not None and verdict.jury is None and not verdict.answer:
        verdict = replace(verdict, answer=text)
    return Judged(row.position, verdict, json.loads(row.groups or "{}"), row.reused)


def _case(row: AnyRow) -> Case:
    what = f"the case {row.id!r}"
    body = unpack(row.body, what)
    if not isinstance(body, dict):
        raise LedgerError(DAMAGED.format(what))
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in body["fields"].items()}
    return Case(body["id"], body["images"], fields, body.get("groups") or json.loads(row.groups))


def answer_texts(connection: Connection, ids: bytes) -> list[str]:
    """The raw answers behind a verdict, a jury's too, in the order of its jurors."""
    wanted = split_ids(ids)
    found = {
        row.id: unpack_text(row.body, "an answer")
        for part in parts(wanted)
        for row in connection.execute(select(_A.id, _A.body).where(_A.id.in_(part)))
    }
    return [found[id_] for id_ in wanted if id_ in found]
