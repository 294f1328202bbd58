"""Runs from one ledger into another, of the same kind or not.

A run keeps its id, its name and its order among the runs that are copied with it; its reviews come along. What is there
already is not written again, so that copying twice changes nothing, and a copy that was interrupted goes on: a run
counts as copied once its own row says when it was changed last, which is written at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, func, insert, select, tuple_, update

from beholder.errors import LedgerError
from beholder.ledger import jobs, tables
from beholder.ledger.dialects import parts
from beholder.ledger.ledger import Ledger
from beholder.ledger.model import INTERRUPTED, REVIEW, RUNNING, RunRecord
from beholder.ledger.packing import plain_json, plain_text
from beholder.ledger.tables import AnyRow, AnySelect
from beholder.ledger.writing import Row, keeping, put, replacing

PAGE = 256

_RUNS, _V, _C, _A, _T = tables.runs.c, tables.verdicts.c, tables.cases.c, tables.answers.c, tables.thumbnails.c
_JSON = ("facets", "groups")

Watch = Callable[[int], None]  # is told of verdicts that were looked at


@dataclass(slots=True)
class Copied:
    """What became of a run: how many rows of what were written (nothing, where it was there), or why it was left."""

    run: str
    name: str
    written: dict[str, int] = field(default_factory=dict)
    left: str = ""

    def add(self, what: str, count: int) -> None:
        if count:
            self.written[what] = self.written.get(what, 0) + count


def chosen(source: Ledger, names: Sequence[str]) -> list[RunRecord]:
    """The runs of these names with their reviews, or all, in the order in which they were started. Raises `LedgerError`
    for a name that no run has."""
    runs = list(reversed(source.runs()))
    if not names:
        return runs
    wanted = {source.run(name).id for name in names}
    return [one for one in runs if one.id in wanted or (_is_review(one) and one.suite.get("review_of") in wanted)]


def verdict_count(source: Ledger, runs: Iterable[RunRecord]) -> int:
    far = source.progress()
    return sum(far[one.id].done for one in runs if one.id in far)


def copy_run(source: Ledger, target: Ledger, run: str, watch: Watch = lambda count: None) -> Copied:
    """Copies a run, given by its id. One that was changed in the target after it was in the source is left as it is
    there, and so is one that waits for a batch: its answers would be fetched twice. Raises `LedgerError` where the
    target has another run of that id."""
    with source.reading() as connection:
        given = connection.execute(select(tables.runs).where(_RUNS.id == run)).one()
        waits = connection.scalar(
            select(func.count()).where(tables.jobs.c.run == given.number, tables.jobs.c.state != jobs.CLOSED)
        )
    copied = Copied(given.id, given.name)
    if waits:
        copied.left = "it waits for a batch; collect that first"
        return copied
    there = _row(target, run)
    if there is not None and there.fingerprint != given.fingerprint:
        raise LedgerError(
            f"The ledger {target.place!r} has another run {run!r}; delete that, or copy into another one."
        )
    if there is not None and there.updated > given.updated:
        copied.left = "it was changed there since"
        return copied
    if there is None:
        with target.writing() as connection:
            first = {**_values(given), "state": INTERRUPTED, "updated": given.created}
            connection.execute(insert(tables.runs).values(first))
        there = _row(target, run)
        assert there is not None
        copied.written["runs"] = 1
    _copy(source, target, given.number, there.number, copied, watch)
    if _values(there) != _values(given):
        with target.writing() as connection:
            connection.execute(update(tables.runs).where(_RUNS.id == run).values(_values(given)))
        copied.written["runs"] = 1
    return copied


def _copy(source: Ledger, target: Ledger, old: int, new: int, copied: Copied, watch: Watch) -> None:
    """What verdicts refer to goes before them, so that none ever refers to what is not there."""
    for rows in _pages(source, tables.cases, old, _C.id):
        copied.add("cases", _bring(target, tables.cases, new, rows, "id"))
    _answers(source, target, old, new, copied)
    _thumbnails(source, target, old, new, copied)
    for rows in _pages(source, tables.verdicts, old, _V.number):
        copied.add("verdicts", _bring(target, tables.verdicts, new, rows, "case_id", "rubric"))
        watch(len(rows))


def _bring(target: Ledger, table: Table, run: int, rows: Sequence[AnyRow], *key: str) -> int:
    """Writes those rows of a run that are not there, or not the same; how many that were."""
    wanted = {tuple(row[name] for name in key): {**row, "run": run} for row in map(_values, rows)}
    columns = [table.c[name] for name in next(iter(wanted.values()))]
    with target.reading() as connection:
        named = table.c[key[0]].in_({one[0] for one in wanted})
        found = connection.execute(select(*columns).where(table.c.run == run, named)).all()
    there = {tuple(getattr(row, name) for name in key): dict(row._mapping) for row in found}
    changed = [row for at, row in wanted.items() if there.get(at) != row]
    if changed:
        with target.writing() as connection:
            put(connection, replacing(connection, table, "run", *key), changed)
    return len(changed)


def _answers(source: Ledger, target: Ledger, old: int, new: int, copied: Copied) -> None:
    """The answers of a run in the order in which they were given: of several to one key the newest counts."""
    links = tables.run_answers
    query = select(_A.number, _A.key, _A.id).join_from(tables.answers, links, links.c.answer == _A.id)
    for rows in _rows(source, query.where(links.c.run == old), _A.number):
        with target.reading() as connection:
            there = _found(connection, (_A.key, _A.id), [(row.key, row.id) for row in rows])
            linked = _found(connection, (links.c.answer,), [(row.id,) for row in rows], links.c.run == new)
        missing = [row.number for row in rows if (row.key, row.id) not in there]
        unlinked = list(dict.fromkeys(row.id for row in rows if (row.id,) not in linked))
        if not missing and not unlinked:
            continue
        with source.reading() as connection:
            whole = connection.execute(select(tables.answers).where(_A.number.in_(missing)).order_by(_A.number)).all()
        with target.writing() as connection:
            put(connection, keeping(connection, tables.answers), [_values(row) for row in whole])
            put(connection, keeping(connection, links), [{"answer": id_, "run": new} for id_ in unlinked])
        copied.add("answers", len(missing))
        copied.add("links", len(unlinked))


def _thumbnails(source: Ledger, target: Ledger, old: int, new: int, copied: Copied) -> None:
    links = tables.run_thumbnails
    for rows in _rows(source, select(links.c.digest).where(links.c.run == old), links.c.digest):
        with target.reading() as connection:
            there = _found(connection, (_T.digest,), [(row.digest,) for row in rows])
            linked = _found(connection, (links.c.digest,), [(row.digest,) for row in rows], links.c.run == new)
        missing = [row.digest for row in rows if (row.digest,) not in there]
        unlinked = [row.digest for row in rows if (row.digest,) not in linked]
        with source.reading() as connection:  # not every image has one
            whole = connection.execute(select(tables.thumbnails).where(_T.digest.in_(missing))).all()
        if not whole and not unlinked:
            continue
        with target.writing() as connection:
            put(connection, keeping(connection, tables.thumbnails), [_values(row) for row in whole])
            put(connection, keeping(connection, links), [{"digest": digest, "run": new} for digest in unlinked])
        copied.add("thumbnails", len(whole))
        copied.add("links", len(unlinked))


def _pages(source: Ledger, table: Table, run: int, order: Column[Any]) -> Iterator[Sequence[AnyRow]]:
    return _rows(source, select(table).where(table.c.run == run), order)


def _rows(source: Ledger, query: AnySelect, order: Column[Any]) -> Iterator[Sequence[AnyRow]]:
    """Some at a time, each in a short transaction of its own that starts after the last row of the one before."""
    page = query.order_by(order).limit(PAGE)
    name = order.name
    last: object = None
    while True:
        with source.reading() as connection:
            rows = connection.execute(page if last is None else page.where(order > last)).all()
        if rows:
            yield rows
        if len(rows) < PAGE:
            return
        last = getattr(rows[-1], name)


def _found(
    connection: Connection,
    columns: Sequence[ColumnElement[object]],
    wanted: Sequence[tuple[object, ...]],
    *conditions: ColumnElement[bool],
) -> set[tuple[object, ...]]:
    """Those of the wanted values that a table has."""
    found: set[tuple[object, ...]] = set()
    for part in parts(list(wanted)):
        named = tuple_(*columns).in_(part) if len(columns) > 1 else columns[0].in_([one[0] for one in part])
        found |= {tuple(row) for row in connection.execute(select(*columns).where(named, *conditions))}
    return found


def _row(ledger: Ledger, run: str) -> AnyRow | None:
    with ledger.reading() as connection:
        return connection.execute(select(tables.runs).where(_RUNS.id == run)).one_or_none()


def _values(row: AnyRow) -> Row:
    """The columns of a row as every database takes them, without its number, which each ledger gives itself."""
    values = {name: _plain(name, value) for name, value in _mapping(row).items() if name != "number"}
    # Nobody goes on with a run in the ledger that it is copied to.
    return values | ({"state": INTERRUPTED} if values.get("state") == RUNNING else {})


def _mapping(row: AnyRow) -> Mapping[str, object]:
    return row._mapping  # type: ignore[return-value]


def _plain(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    return plain_json(value) if name in _JSON else plain_text(value)


def _is_review(record: RunRecord) -> bool:
    return record.fingerprint.startswith(REVIEW)
