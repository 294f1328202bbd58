"""Several processes at work on one run: workers, heartbeats, leases and allowances.

Each process is a worker with a name of its own and sends a heartbeat every few seconds. It leases the cases that it is
about to judge. A lease expires when its worker has sent no heartbeat in time, by the database's own clock. A worker's
allowance, its share of the budget, stays reserved until nobody works on the run any more: a worker that only slept must
not spend it beside those that came after. All of this happens in write transactions, of which there is one at a time.

A verdict with a score deletes its lease. Any other marks the lease as `done`, so that no worker that was active then
retries the case; one that starts later does.
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

CALLS_PER_GRANT = 16  # calls for which money is reserved at a time

_W, _L, _V, _R = schema.workers.c, schema.leases.c, schema.verdicts.c, schema.runs.c

SCORED = "scored"


def record_heartbeat(connection: Connection, run: int, holder: str, lease_s: float) -> HeartbeatReply:
    """Register a worker, or renew its leases, for `lease_s` seconds; see `Ledger.heartbeat`."""
    other_parts: list[float] = list(connection.scalars(select(_W.part).where(*_is_alive(run), _W.holder != holder)))
    row = connection.execute(
        select(_W.until < database_time_s()).where(_W.run == run, _W.holder == holder)
    ).one_or_none()
    if not other_parts and row is None:  # the first worker: what earlier ones left behind counts no more
        for table in (schema.leases, schema.workers):
            connection.execute(delete(table).where(table.c.run == run))
    # An equal share, but no more than the others have released: all parts together never exceed 1.
    part = max(0.0, min(1 / (1 + len(other_parts)), 1 - sum(other_parts)))
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
    """Lease cases for a worker, as far as no other worker has them and they have no `final` outcome."""
    asked = {(storable_text(case), rubric): (case, rubric) for case, rubric in wanted}
    since = connection.scalar(select(_W.since).where(_W.run == run, _W.holder == holder)) or 0.0
    mine: set[VerdictKey] = set()
    held: set[VerdictKey] = set()
    for part in chunks(list(asked)):
        done = _find_final(connection, run, part, final)
        open_keys = [key for key in part if key not in done]
        if not open_keys:
            continue
        these = and_(_L.run == run, tuple_(_L.case_id, _L.rubric).in_(open_keys))
        expired = and_(_L.done.is_(None), _L.holder.not_in(select(_W.holder).where(*_is_alive(run))))
        connection.execute(delete(schema.leases).where(these, or_(expired, _L.done < since)))
        rows = [{"run": run, "case_id": case, "rubric": rubric, "holder": holder} for case, rubric in open_keys]
        connection.execute(insert_for(connection, schema.leases).on_conflict_do_nothing(), rows)
        leased = select(_L.case_id, _L.rubric, _L.holder).where(these, _L.done.is_(None))
        for case, rubric, owner in connection.execute(leased):
            (mine if owner == holder else held).add(asked[case, rubric])
    return ClaimResult(frozenset(mine), frozenset(held))


def grant_allowance(connection: Connection, run: int, holder: str, limit: Decimal, least: Decimal) -> Decimal:
    """Reserve more of the budget for a worker; see `Ledger.grant`."""
    spent = Decimal(connection.scalar(select(_R.spent_usd).where(_R.number == run)) or 0)
    allowances = _read_allowances(connection, run)
    left = limit - spent - sum_reserved_usd(connection, run) - sum(allowances.values(), Decimal(0))
    granted = min(left, CALLS_PER_GRANT * least)
    if granted < least or holder not in allowances:
        return Decimal(0)
    connection.execute(_update_worker(run, holder).values(allowance_usd=str(allowances[holder] + granted)))
    return granted


def remove_worker(connection: Connection, run: int, holder: str) -> None:
    """Remove a worker and its leases."""
    connection.execute(delete(schema.leases).where(_L.run == run, _L.holder == holder, _L.done.is_(None)))
    connection.execute(delete(schema.workers).where(_W.run == run, _W.holder == holder))


def count_workers(connection: Connection, run: int) -> int:
    """Return how many workers have sent a heartbeat in time."""
    return connection.scalar(select(func.count()).select_from(schema.workers).where(*_is_alive(run))) or 0


def is_already_written(connection: Connection, run: int, worker: WriteToken) -> bool:
    """Return whether this batch is the last one that the worker has written."""
    last = connection.scalar(select(_W.written).where(_W.run == run, _W.holder == worker.holder))
    return last == worker.batch


def find_superseded(connection: Connection, run: int, worker: WriteToken, entries: Sequence[Entry]) -> set[VerdictKey]:
    """Return the verdicts whose leases the worker has lost, and for which another one has stored a score."""
    keys = {_verdict_key(entry) for entry in entries}
    superseded: set[VerdictKey] = set()
    for part in chunks(list(keys)):
        query = select(_L.case_id, _L.rubric).where(_L.run == run, _L.holder == worker.holder, _L.done.is_(None))
        leased = connection.execute(query.where(tuple_(_L.case_id, _L.rubric).in_(part)))
        own_keys = {(case, rubric) for case, rubric in leased}
        lost = [key for key in part if key not in own_keys]
        superseded |= _find_final(connection, run, lost, (SCORED,)) if lost else set()
    return superseded


def settle_leases(
    connection: Connection, run: int, worker: WriteToken, entries: Sequence[Entry], spent: Decimal
) -> None:
    """End the leases of verdicts that are written in the same transaction, and subtract their cost from the worker's
    allowance."""
    scored = [_verdict_key(entry) for entry in entries if entry.verdict.scored]
    failed = [_verdict_key(entry) for entry in entries if not entry.verdict.scored]
    own_leases = and_(_L.run == run, _L.holder == worker.holder)
    key = tuple_(_L.case_id, _L.rubric)
    for part in chunks(scored):
        connection.execute(delete(schema.leases).where(own_leases, key.in_(part)))
    for part in chunks(failed):
        connection.execute(update(schema.leases).where(own_leases, key.in_(part)).values(done=database_time_s()))
    left = max(Decimal(0), _read_allowances(connection, run).get(worker.holder, Decimal(0)) - spent)
    connection.execute(_update_worker(run, worker.holder).values(written=worker.batch, allowance_usd=str(left)))


def _verdict_key(entry: Entry) -> VerdictKey:
    return storable_text(entry.case.id), storable_text(entry.verdict.rubric)


def _is_alive(run: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return _W.run == run, _W.until >= database_time_s()


def _find_final(
    connection: Connection, run: int, keys: Sequence[VerdictKey], final: Collection[str]
) -> set[VerdictKey]:
    """Return the verdicts on the cases of `keys`, by any rubric, that have a final outcome."""
    query = select(_V.case_id, _V.rubric, _V.outcome).where(_V.run == run, _V.case_id.in_({case for case, _ in keys}))
    return {(case, rubric) for case, rubric, outcome in connection.execute(query) if outcome in final}


def _read_allowances(connection: Connection, run: int) -> dict[str, Decimal]:
    query = select(_W.holder, _W.allowance_usd).where(_W.run == run)
    return {holder: Decimal(text) for holder, text in connection.execute(query)}


def _update_worker(run: int, holder: str) -> Update:
    return update(schema.workers).where(_W.run == run, _W.holder == holder)
