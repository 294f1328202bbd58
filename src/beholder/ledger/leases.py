"""Several processes, on as many machines as there are, at work on one run.

Each is a worker under a name of its own and says every few seconds that it lives (`beat`). It leases what it is about
to judge; leases lapse when their worker has not been heard of for a while, by the database's own clock. What a worker
may spend is set aside for it until nobody is at work on the run any more: one that only slept must not spend it beside
those who came after. All of this happens in transactions that write, of which there is one at a time.

A verdict with a score ends its lease. Any other leaves the lease behind as `done`, so that no worker that was there
then tries the same case again; one that starts later does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal

from sqlalchemy import ColumnElement, Connection, Update, and_, delete, func, insert, or_, select, tuple_, update

from beholder.ledger import schema
from beholder.ledger.batch_jobs import sum_reserved_usd
from beholder.ledger.encoding import storable_text
from beholder.ledger.schema import chunks, database_time_s, insert_for
from beholder.ledger.types import ClaimResult, Entry, HeartbeatReply, VerdictKey, WriteToken

CALLS_PER_GRANT = 16  # calls for which money is set aside at a time

_W, _L, _V, _R = schema.workers.c, schema.leases.c, schema.verdicts.c, schema.runs.c

SCORED = "scored"


def record_heartbeat(connection: Connection, run: int, holder: str, lease_s: float) -> HeartbeatReply:
    """Says that the worker lives, and that this holds for so long."""
    others: list[float] = list(connection.scalars(select(_W.part).where(*_is_alive(run), _W.holder != holder)))
    row = connection.execute(
        select(_W.until < database_time_s()).where(_W.run == run, _W.holder == holder)
    ).one_or_none()
    if not others and row is None:  # whoever was here is gone
        for table in (schema.leases, schema.workers):
            connection.execute(delete(table).where(table.c.run == run))
    part = max(0.0, min(1 / (1 + len(others)), 1 - sum(others)))
    if row is None:
        new = {
            "run": run,
            "holder": holder,
            "since": database_time_s(),
            "until": database_time_s() + lease_s,
            "part": part,
        }
        connection.execute(insert(schema.workers).values(**new, allowance_usd="0", written=""))
    else:
        connection.execute(_update_worker(run, holder).values(until=database_time_s() + lease_s, part=part))
    return HeartbeatReply(part, late=row is None or bool(row[0]), new=row is None)


def claim_leases(
    connection: Connection, run: int, holder: str, wanted: Collection[VerdictKey], final: Collection[str]
) -> ClaimResult:
    """Leases what is wanted, as far as nobody else has it and it has no `final` outcome."""
    asked = {(storable_text(case), rubric): (case, rubric) for case, rubric in wanted}
    since = connection.scalar(select(_W.since).where(_W.run == run, _W.holder == holder)) or 0.0
    mine: set[VerdictKey] = set()
    held: set[VerdictKey] = set()
    for part in chunks(list(asked)):
        settled = _find_final(connection, run, part, final)
        wish = [key for key in part if key not in settled]
        if not wish:
            continue
        these = and_(_L.run == run, tuple_(_L.case_id, _L.rubric).in_(wish))
        lapsed = and_(_L.done.is_(None), _L.holder.not_in(select(_W.holder).where(*_is_alive(run))))
        connection.execute(delete(schema.leases).where(these, or_(lapsed, _L.done < since)))
        rows = [{"run": run, "case_id": case, "rubric": rubric, "holder": holder} for case, rubric in wish]
        connection.execute(insert_for(connection, schema.leases).on_conflict_do_nothing(), rows)
        found = select(_L.case_id, _L.rubric, _L.holder).where(these, _L.done.is_(None))
        for case, rubric, who in connection.execute(found):
            (mine if who == holder else held).add(asked[case, rubric])
    return ClaimResult(frozenset(mine), frozenset(held))


def grant_allowance(connection: Connection, run: int, holder: str, limit: Decimal, least: Decimal) -> Decimal:
    """Sets more money aside for the worker: enough for several calls of which one may cost `least`, or what is left of
    the `limit`; nothing where that is less than `least`."""
    spent = Decimal(connection.scalar(select(_R.spent_usd).where(_R.number == run)) or 0)
    allowances = _read_allowances(connection, run)
    left = limit - spent - sum_reserved_usd(connection, run) - sum(allowances.values(), Decimal(0))
    given = min(left, CALLS_PER_GRANT * least)
    if given < least or holder not in allowances:
        return Decimal(0)
    connection.execute(_update_worker(run, holder).values(allowance_usd=str(allowances[holder] + given)))
    return given


def remove_worker(connection: Connection, run: int, holder: str) -> None:
    """The worker is done: what it still holds is free."""
    connection.execute(delete(schema.leases).where(_L.run == run, _L.holder == holder, _L.done.is_(None)))
    connection.execute(delete(schema.workers).where(_W.run == run, _W.holder == holder))


def count_workers(connection: Connection, run: int) -> int:
    """How many are at work on the run; for one that has left, the others."""
    return connection.scalar(select(func.count()).select_from(schema.workers).where(*_is_alive(run))) or 0


def is_already_written(connection: Connection, run: int, worker: WriteToken) -> bool:
    """Whether the worker's batch is in the ledger already."""
    last = connection.scalar(select(_W.written).where(_W.run == run, _W.holder == worker.holder))
    return last == worker.batch


def find_superseded(connection: Connection, run: int, worker: WriteToken, entries: Sequence[Entry]) -> set[VerdictKey]:
    """Those of the verdicts that came too late: the worker was taken for dead, and another one has a score."""
    keys = {_verdict_key(entry) for entry in entries}
    found: set[VerdictKey] = set()
    for part in chunks(list(keys)):
        query = select(_L.case_id, _L.rubric).where(_L.run == run, _L.holder == worker.holder, _L.done.is_(None))
        own = {
            (case, rubric) for case, rubric in connection.execute(query.where(tuple_(_L.case_id, _L.rubric).in_(part)))
        }
        lost = [key for key in part if key not in own]
        found |= _find_final(connection, run, lost, (SCORED,)) if lost else set()
    return found


def settle_leases(
    connection: Connection, run: int, worker: WriteToken, entries: Sequence[Entry], spent: Decimal
) -> None:
    """Ends the worker's leases of verdicts that are written in the same transaction, and takes what they cost out of
    what was set aside."""
    scored = [_verdict_key(entry) for entry in entries if entry.verdict.scored]
    failed = [_verdict_key(entry) for entry in entries if not entry.verdict.scored]
    own = and_(_L.run == run, _L.holder == worker.holder)
    key = tuple_(_L.case_id, _L.rubric)
    for part in chunks(scored):
        connection.execute(delete(schema.leases).where(own, key.in_(part)))
    for part in chunks(failed):
        connection.execute(update(schema.leases).where(own, key.in_(part)).values(done=database_time_s()))
    left = max(Decimal(0), _read_allowances(connection, run).get(worker.holder, Decimal(0)) - spent)
    connection.execute(_update_worker(run, worker.holder).values(written=worker.batch, allowance_usd=str(left)))


def _verdict_key(entry: Entry) -> VerdictKey:
    return storable_text(entry.case.id), storable_text(entry.verdict.rubric)


def _is_alive(run: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return _W.run == run, _W.until >= database_time_s()


def _find_final(
    connection: Connection, run: int, keys: Sequence[VerdictKey], final: Collection[str]
) -> set[VerdictKey]:
    query = select(_V.case_id, _V.rubric, _V.outcome).where(_V.run == run, _V.case_id.in_({case for case, _ in keys}))
    return {(case, rubric) for case, rubric, outcome in connection.execute(query) if outcome in final}


def _read_allowances(connection: Connection, run: int) -> dict[str, Decimal]:
    query = select(_W.holder, _W.allowance_usd).where(_W.run == run)
    return {holder: Decimal(text) for holder, text in connection.execute(query)}


def _update_worker(run: int, holder: str) -> Update:
    return update(schema.workers).where(_W.run == run, _W.holder == holder)
