"""Copying runs from one ledger into another, of the same kind or not.

A run keeps its id, its name and its order among the runs that are copied with it; its reviews are copied too. Rows that
the target has already are not written again, so that copying twice changes nothing and an interrupted copy can be
repeated: a run counts as copied once its own row has the same `updated`, which is written last.

Verdicts that were rescued (`rescue`) are added to their run instead, with what they cost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from itertools import islice
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Table, func, insert, select, tuple_, update

from beholder.errors import LedgerError, UsageError
from beholder.ledger import leases, schema
from beholder.ledger.damage import describe_row, log_damage
from beholder.ledger.encoding import storable_json, storable_text, unpack_verdict
from beholder.ledger.ledger import Ledger, LedgerLike, open_ledger
from beholder.ledger.rescue import RESCUED_KEY, RESTORED_KEY, Rescue, RescuedBatch, read_rescue
from beholder.ledger.runs import find_run, read_spent_usd, to_run_record, update_run, update_suite
from beholder.ledger.schema import AnyRow, AnySelect, chunks
from beholder.ledger.search import forget_texts
from beholder.ledger.types import (
    INTERRUPTED,
    JOB_CLOSED,
    RUNNING,
    RunRecord,
    WriteToken,
)
from beholder.ledger.write import RowValues, insert_or_keep, insert_or_replace, insert_rows
from beholder.verdicts.verdict import ANSWERED_OUTCOMES, FINAL_OUTCOMES

COPY_PAGE_SIZE = 256

_R, _V, _C, _A, _T = schema.runs.c, schema.verdicts.c, schema.cases.c, schema.answers.c, schema.thumbnails.c
_JSON_COLUMNS = ("facets", "groups")

OnProgress = Callable[[int], None]  # called with the number of verdicts that were compared


@dataclass(slots=True)
class CopyResult:
    """The result of copying a run: the number of rows written by table, or in `left` why it was not copied."""

    run: str
    name: str
    written: dict[str, int] = field(default_factory=dict)
    left: str = ""

    def add(self, what: str, count: int) -> None:
        if count:
            self.written[what] = self.written.get(what, 0) + count


def select_runs(source: Ledger, names: Sequence[str]) -> list[RunRecord]:
    """Return the runs of these names with their reviews, or all runs, in the order in which they were started.

    Raises:
        LedgerError: There is no run of a name.
    """
    runs = list(reversed(source.runs()))
    if not names:
        return runs
    wanted = {source.run(name).id for name in names}
    return [run for run in runs if run.id in wanted or (run.is_review and run.suite.get("review_of") in wanted)]


def count_verdicts(source: Ledger, runs: Iterable[RunRecord]) -> int:
    progress = source.progress()
    return sum(progress[run.id].done for run in runs if run.id in progress)


def copy_run(source: Ledger, target: Ledger, run: str, watch: OnProgress = lambda count: None) -> CopyResult:
    """Copy a run. A run that was changed in the target since is not copied, and neither is one that waits for a batch:
    its answers would be fetched twice.

    Args:
        source: The ledger to read.
        target: The ledger to write.
        run: The id of the run.
        watch: Called with the number of verdicts after each page.

    Raises:
        LedgerError: The target has another run of that id.
    """
    with source._reading() as connection:
        original = find_run(connection, run, source.place)
        problem = _find_copy_problem(connection, original)
    result = CopyResult(original.id, original.name or "", left=problem)
    if problem:
        return result
    existing = _read_run(target, run)
    if existing is not None and existing.fingerprint != original.fingerprint:
        raise LedgerError(
            f"The ledger {target.place!r} has another run {run!r}; delete that, or copy into another one."
        )
    if (rescue := read_rescue(to_run_record(original))) is not None:
        _restore_rescued(source, target, original, rescue, existing, result, watch)
        return result
    if existing is not None and existing.updated > original.updated:
        result.left = "it was changed there since"
        return result
    if existing is None:
        with target._writing() as connection:
            first = {**_portable_values(original), "state": INTERRUPTED, "updated": original.created}
            connection.execute(insert(schema.runs).values(first))
        existing = _read_run(target, run)
        assert existing is not None
        result.written["runs"] = 1
    _copy_rows(source, target, original.number, existing.number, result, watch)
    if _portable_values(existing) != _portable_values(original):
        with target._writing() as connection:
            connection.execute(update(schema.runs).where(_R.id == run).values(_portable_values(original)))
        result.written["runs"] = 1
    return result


def _restore_rescued(
    source: Ledger,
    target: Ledger,
    original: AnyRow,
    rescue: Rescue,
    existing: AnyRow | None,
    result: CopyResult,
    watch: OnProgress,
) -> None:
    """Add rescued verdicts to their run, once: not those that it has a better verdict in place of, nor batches that it
    took after all, since what those cost is counted there."""
    record = to_run_record(original)
    suite = {key: value for key, value in record.suite.items() if key != RESCUED_KEY}
    if existing is None:
        target.start(replace(record, suite=suite, spent_usd=Decimal(0), unpriced=0))
        existing = _read_run(target, record.id)
        assert existing is not None
    before = to_run_record(existing).suite.get(RESTORED_KEY)
    restored = before if isinstance(before, list) else []
    if rescue.name in restored:
        watch(count_verdicts(source, [record]))
        return
    _copy_parts(source, target, original.number, existing.number, result)
    with source._reading() as connection:  # all of them, since they were in memory before
        query = select(schema.verdicts).where(_V.run == original.number)
        verdicts = connection.execute(query.order_by(_V.number)).all()
    whole = RescuedBatch(len(verdicts), str(record.spent_usd or 0), record.unpriced)
    with target._writing() as connection:
        run = connection.execute(select(schema.runs).where(_R.number == existing.number)).one()
        columns = (_V.case_id, _V.rubric, _V.outcome, _V.position)
        own = connection.execute(select(*columns).where(_V.run == run.number))
        known = {(row.case_id, row.rubric): row for row in own}
        following = iter(verdicts)
        batches = [(batch, list(islice(following, batch.verdicts))) for batch in rescue.batches or (whole,)]
        new = [(batch, rows) for batch, rows in batches if not _was_stored(connection, run.number, rows)]
        # Its cases are in the order in which they were stored.
        grows = bool(suite.get("session") or suite.get("rounds"))
        first = 1 + max((row.position for row in known.values()), default=-1) if grows else 0
        values = [
            {**_portable_values(row), "run": run.number, "position": first + row.position}
            for row in _sound_rows(schema.verdicts, [row for _, rows in new for row in rows])
            if _is_better(row, known.get((row.case_id, row.rubric)))
        ]
        insert_rows(connection, insert_or_replace(connection, schema.verdicts, "run", "case_id", "rubric"), values)
        cost = sum((batch.cost_usd for batch, _ in new), Decimal(0))
        leases.settle_allowance(connection, run.number, WriteToken(rescue.worker, rescue.name), cost)
        total = connection.scalar(select(func.count()).where(_V.run == run.number)) if grows else run.total
        spent = str(read_spent_usd(run) + cost)
        unpriced = run.unpriced + sum(batch.unpriced for batch, _ in new)
        update_run(connection, run.number, spent_usd=spent, unpriced=unpriced, total=total)
        update_suite(connection, run.number, **{RESTORED_KEY: [*restored, rescue.name]})
    result.written["runs"] = 1
    result.add("verdicts", len(values))
    watch(len(verdicts))


def _was_stored(connection: Connection, run: int, batch: Sequence[AnyRow]) -> bool:
    """Return whether the ledger took a batch although its write seemed to fail.

    A batch is written as a whole or not at all. Those of its verdicts that were paid for and answered stay as they are;
    the same answer asked for again would at least have taken another time.
    """
    paid = [row for row in batch if row.outcome in ANSWERED_OUTCOMES and not row.reused] or batch
    stored: dict[tuple[str, str], AnyRow] = {}
    for part in chunks([row.case_id for row in paid]):
        query = select(_V.case_id, _V.rubric, _V.body).where(_V.run == run, _V.case_id.in_(part))
        stored |= {(row.case_id, row.rubric): row for row in connection.execute(query)}
    return bool(paid) and all(
        (row.case_id, row.rubric) in stored and _same_verdict(row, stored[row.case_id, row.rubric]) for row in paid
    )


def _same_verdict(one: AnyRow, other: AnyRow) -> bool:
    """Return whether two rows have the same verdict; where the raw answer is stored may differ."""
    try:
        first, second = (unpack_verdict(row.body, "a verdict") for row in (one, other))
    except LedgerError:
        return False
    return replace(first, answer="") == replace(second, answer="")


def _is_better(rescued: AnyRow, known: AnyRow | None) -> bool:
    """Return whether a rescued verdict takes the place of the one that the run has: an answer before a refusal, which
    is final, and both before any other outcome. Of two that are alike the later one is not known, and neither is
    final, or the one that the run has stays."""
    if known is None:
        return True
    ranks = [(row.outcome in ANSWERED_OUTCOMES) + (row.outcome in FINAL_OUTCOMES) for row in (rescued, known)]
    return ranks[0] > ranks[1] or ranks == [0, 0]


def _find_copy_problem(connection: Connection, run: AnyRow) -> str:
    """Return why a run cannot be copied: it is damaged, or waits for a batch. Empty if it can."""
    try:
        to_run_record(run)
    except LedgerError as error:
        return str(error)
    if not _sound_rows(schema.runs, [run]):
        return f"it is damaged ({describe_row('runs', run.number)})"
    open_jobs = select(func.count()).where(schema.jobs.c.run == run.number, schema.jobs.c.state != JOB_CLOSED)
    return "it waits for a batch; collect that first" if connection.scalar(open_jobs) else ""


def _copy_rows(source: Ledger, target: Ledger, old: int, new: int, result: CopyResult, watch: OnProgress) -> None:
    """Copy the rows of a run. Verdicts come last, so that what they refer to always exists."""
    _copy_parts(source, target, old, new, result)
    for rows in _read_table(source, schema.verdicts, old, _V.number):
        result.add("verdicts", _write_changed(target, schema.verdicts, new, rows, "case_id", "rubric"))
        watch(len(rows))
    for table, key in ((schema.stars, "case_id"), (schema.comments, "id"), (schema.views, "name")):
        for rows in _read_table(source, table, old, table.c[key]):
            result.add(table.name, _write_changed(target, table, new, rows, key))


def _copy_parts(source: Ledger, target: Ledger, old: int, new: int, result: CopyResult) -> None:
    """Copy what the verdicts of a run refer to."""
    for rows in _read_table(source, schema.cases, old, _C.id):
        result.add("cases", _write_changed(target, schema.cases, new, rows, "id"))
    _copy_answers(source, target, old, new, result)
    _copy_thumbnails(source, target, old, new, result)


def _write_changed(target: Ledger, table: Table, run: int, rows: Sequence[AnyRow], *key: str) -> int:
    """Write those rows of a run that are missing or different in the target, and return how many."""
    sound = map(_portable_values, _sound_rows(table, rows))
    wanted = {tuple(row[name] for name in key): {**row, "run": run} for row in sound}
    if not wanted:
        return 0
    columns = [table.c[name] for name in next(iter(wanted.values()))]
    with target._reading() as connection:
        named = table.c[key[0]].in_({key_values[0] for key_values in wanted})
        existing_rows = connection.execute(select(*columns).where(table.c.run == run, named)).all()
    existing = {tuple(getattr(row, name) for name in key): dict(row._mapping) for row in existing_rows}
    changed = [row for at, row in wanted.items() if existing.get(at) != row]
    if changed:
        with target._writing() as connection:
            insert_rows(connection, insert_or_replace(connection, table, "run", *key), changed)
            if table is schema.cases:
                forget_texts(connection, run, [str(row["id"]) for row in changed])
    return len(changed)


def _copy_answers(source: Ledger, target: Ledger, old: int, new: int, result: CopyResult) -> None:
    """Copy the answers of a run in the order of their numbers: of several to one key the newest counts."""
    links = schema.run_answers
    query = select(_A.number, _A.key, _A.id).join_from(schema.answers, links, links.c.answer == _A.id)
    for rows in _read_pages(source, query.where(links.c.run == old), _A.number):
        with target._reading() as connection:
            existing = _find_existing(connection, (_A.key, _A.id), [(row.key, row.id) for row in rows])
            linked = _find_existing(connection, (links.c.answer,), [(row.id,) for row in rows], links.c.run == new)
        missing = [row.number for row in rows if (row.key, row.id) not in existing]
        unlinked = list(dict.fromkeys(row.id for row in rows if (row.id,) not in linked))
        if not missing and not unlinked:
            continue
        with source._reading() as connection:
            whole = connection.execute(select(schema.answers).where(_A.number.in_(missing)).order_by(_A.number)).all()
        _write_shared(target, schema.answers, whole, links, [{"answer": id_, "run": new} for id_ in unlinked])
        result.add("answers", len(missing))
        result.add("links", len(unlinked))


def _copy_thumbnails(source: Ledger, target: Ledger, old: int, new: int, result: CopyResult) -> None:
    links = schema.run_thumbnails
    for rows in _read_pages(source, select(links.c.digest).where(links.c.run == old), links.c.digest):
        with target._reading() as connection:
            existing = _find_existing(connection, (_T.digest,), [(row.digest,) for row in rows])
            linked = _find_existing(connection, (links.c.digest,), [(row.digest,) for row in rows], links.c.run == new)
        missing = [row.digest for row in rows if (row.digest,) not in existing]
        unlinked = [row.digest for row in rows if (row.digest,) not in linked]
        with source._reading() as connection:  # not every image has a thumbnail
            whole = connection.execute(select(schema.thumbnails).where(_T.digest.in_(missing))).all()
        if not whole and not unlinked:
            continue
        _write_shared(target, schema.thumbnails, whole, links, [{"digest": digest, "run": new} for digest in unlinked])
        result.add("thumbnails", len(whole))
        result.add("links", len(unlinked))


def _write_shared(
    target: Ledger, table: Table, rows: Sequence[AnyRow], links: Table, linked: Sequence[RowValues]
) -> None:
    """Write rows that several runs may share, and the links of a run to them."""
    with target._writing() as connection:
        sound = [_portable_values(row) for row in _sound_rows(table, rows)]
        insert_rows(connection, insert_or_keep(connection, table), sound)
        insert_rows(connection, insert_or_keep(connection, links), linked)


def _read_table(source: Ledger, table: Table, run: int, order: Column[Any]) -> Iterator[Sequence[AnyRow]]:
    return _read_pages(source, select(table).where(table.c.run == run), order)


def _read_pages(source: Ledger, query: AnySelect, order: Column[Any]) -> Iterator[Sequence[AnyRow]]:
    """Stream pages of a query, each in a short transaction that starts after the last row of the page before."""
    page = query.order_by(order).limit(COPY_PAGE_SIZE)
    name = order.name
    last: object = None
    while True:
        with source._reading() as connection:
            rows = connection.execute(page if last is None else page.where(order > last)).all()
        if rows:
            yield rows
        if len(rows) < COPY_PAGE_SIZE:
            return
        last = getattr(rows[-1], name)


def _find_existing(
    connection: Connection,
    columns: Sequence[ColumnElement[object]],
    wanted: Sequence[tuple[object, ...]],
    *conditions: ColumnElement[bool],
) -> set[tuple[object, ...]]:
    """Return those of the wanted values that a table has."""
    existing: set[tuple[object, ...]] = set()
    for part in chunks(list(wanted)):
        named = tuple_(*columns).in_(part) if len(columns) > 1 else columns[0].in_([values[0] for values in part])
        existing |= {tuple(row) for row in connection.execute(select(*columns).where(named, *conditions))}
    return existing


def _read_run(ledger: Ledger, run: str) -> AnyRow | None:
    with ledger._reading() as connection:
        return connection.execute(select(schema.runs).where(_R.id == run)).one_or_none()


def _sound_rows(table: Table, rows: Sequence[AnyRow]) -> list[AnyRow]:
    """Return the rows that lack no value. The others are logged: no ledger takes them."""
    required = [column.name for column in table.columns if not column.nullable]
    sound = []
    for row in rows:
        missing = [name for name in required if getattr(row, name) is None]
        if missing:
            where = describe_row(table.name, *(getattr(row, column.name) for column in table.primary_key))
            log_damage(f"The ledger is damaged: {where} has no value as its {missing[0]!r}; it is not copied.")
        else:
            sound.append(row)
    return sound


def _portable_values(row: AnyRow) -> RowValues:
    """Return the columns of a row as every database takes them, without its number, which each ledger assigns."""
    values = {name: _portable_value(name, value) for name, value in row._mapping.items() if name != "number"}
    # No process is running it in the ledger that it is copied to.
    return values | ({"state": INTERRUPTED} if values.get("state") == RUNNING else {})


def _portable_value(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    return storable_json(value) if name in _JSON_COLUMNS else storable_text(value)


@dataclass(frozen=True, slots=True)
class CopiedRuns:
    """What `copy_runs` did: into which ledger, how many verdicts the runs have, and what was written of each."""

    to: str
    verdicts: int
    runs: tuple[CopyResult, ...]

    def to_dict(self) -> dict[str, object]:
        """Return JSON values, as `beholder ledger copy --json` prints them."""
        return {"to": self.to, "verdicts": self.verdicts, "runs": [asdict(run) for run in self.runs]}


def copy_runs(
    source: LedgerLike,
    target: str | os.PathLike[str],
    runs: Sequence[str] = (),
    progress: Callable[[str, int, int], object] = lambda what, done, of: None,
) -> CopiedRuns:
    """Copy runs with their reviews into another ledger, which is created if there is none.

    Args:
        source: The ledger that has the runs.
        target: The other ledger.
        runs: Names or ids; by default all runs.
        progress: Called with what is copied, how many are, and of how many.

    Raises:
        UsageError: It is the same ledger.
    """
    done = 0

    def count_copied(count: int) -> None:
        nonlocal done
        done += count
        progress("verdicts", done, total)

    with open_ledger(source) as old:
        records = select_runs(old, runs)
        with Ledger.open(target, create=True) as new:
            if new.place == old.place or (new.path and old.path and new.path.samefile(old.path)):
                raise UsageError("Both are the same ledger; name another ledger to copy into.")
            total = count_verdicts(old, records)
            copied = [copy_run(old, new, record.id, count_copied) for record in records]
            return CopiedRuns(new.place, total, tuple(copied))
