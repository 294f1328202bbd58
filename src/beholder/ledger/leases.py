"""Several processes at work on one run: workers, heartbeats, leases and allowances.

Each process is a worker with a name of its own and sends a heartbeat every few seconds. It leases the cases that it is
about to judge. A lease expires when its worker has sent no heartbeat in time, by the database's own clock; the time
during which the server was away does not count. All of this happens in write transactions, of which there is one at a
time, except that a worker may renew its leases beside them.

A worker's allowance is what it may still spend of the budget: reserved before its calls are made, and settled when
their verdicts are written. It never expires. A worker that only slept settles it later; what a worker that was killed
had reserved counts as spent from then on, since nobody knows what its last calls have cost. Where one process works on
a run alone (SQLite), it is a worker with an allowance and no leases.

A verdict with a score deletes its lease. Any other marks the lease as `done`, so that no worker that was active then
retries the case; one that starts later does.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal

from sqlalchemy import ColumnElement, Connection, Update, and_, delete, insert, not_, or_, select, tuple_, update
from sqlalchemy import case as case_when

from beholder.ledger import schema
from beholder.ledger.batch_jobs import sum_reserved_usd
from beholder.ledger.connection import LedgerConnection
from beholder.ledger.damage import describe_row, read_amount
from beholder.ledger.encoding import storable_text
from beholder.ledger.runs import read_spent_usd
from beholder.ledger.schema import chunks, database_time_s, insert_for
from beholder.ledger.types import ClaimResult, Entry, HeartbeatReply, VerdictKey, WriteToken
from beholder.verdicts.verdict import ANSWERED_OUTCOMES

HEARTBEATS_PER_LEASE = 4
MISSED_PART = 2  # a worker that has not reached the server for this part of its lease has missed heartbeats
OUTAGE_PATIENCE_S = 120.0  # how long a worker tries to reach a server that does not answer, before it gives up
RETURN_S = 20.0  # how soon after an outage a worker is back: it tries every 5 s
CALLS_PER_GRANT = 8  # calls for which money is reserved at a time: more is lost when a process is killed
SINGLE_CALLS_BELOW = 64  # if less than this many calls are left in a budget, money is reserved for each by itself

_W, _L, _V, _R = schema.workers.c, schema.leases.c, schema.verdicts.c, schema.runs.c

_NOTHING = "0"  # an allowance of nothing, as it is stored
_LONG_AGO = 0.0  # when a worker that is not waited for sent its last heartbeat


def record_heartbeat(connection: Connection, run: int, holder: str, lease_s: float) -> HeartbeatReply:
    """Register a worker, or renew its leases, for `lease_s` seconds; see `Ledger.heartbeat`."""
    _renew_all_after_outage(connection, run, holder, lease_s)
    other_parts: list[float] = list(connection.scalars(select(_W.part).where(*_is_alive(run), _W.holder != holder)))
    row = connection.execute(
        select(_W.until < database_time_s()).where(_W.run == run, _W.holder == holder)
    ).one_or_none()
    if not other_parts and row is None:  # the first worker: what earlier ones leased counts no more
        may_return = _W.until >= database_time_s() - OUTAGE_PATIENCE_S
        waited_for = select(_W.holder).where(_W.run == run, may_return)
        connection.execute(delete(schema.leases).where(_L.run == run, _L.holder.not_in(waited_for)))
        connection.execute(delete(schema.workers).where(_W.run == run, _W.allowance_usd == _NOTHING, not_(may_return)))
    # An equal share, but no more than the others have released: all parts together never exceed 1.
    part = max(0.0, min(1 / (1 + len(other_parts)), 1 - sum(other_parts)))
    until = database_time_s() + lease_s
    if row is None:
        _insert_worker(connection, run, holder, until=until, part=part)
    else:
        connection.execute(_update_worker(run, holder).values(until=until, part=part))
    return HeartbeatReply(part, late=row is None or bool(row[0]), new=row is None)


def renew_leases(connection: Connection, run: int, holder: str, lease_s: float) -> bool:
    """Renew the leases of a worker in one statement, unless it has missed heartbeats; see `Ledger.renew`."""
    now = database_time_s()
    in_time = _W.until > now + lease_s - lease_s / MISSED_PART
    return connection.execute(_update_worker(run, holder).where(in_time).values(until=now + lease_s)).rowcount > 0


def _renew_all_after_outage(connection: Connection, run: int, holder: str, lease_s: float) -> None:
    """Renew the leases of all workers that were alive when this one last reached the server, if that is too long ago.

    The server may have been away, so that nobody could send a heartbeat: who comes back first must not take over the
    cases of all others. They get the time that was lost and no more, so that a worker whose heartbeats are always late
    does not keep the leases of a dead one. If only this worker had stopped, the cases of one that died meanwhile wait
    at most one lease longer.
    """
    last = connection.scalar(select(_W.until - lease_s).where(_W.run == run, _W.holder == holder))
    now = connection.scalar(select(database_time_s())) or 0.0
    if last is not None and now - last > lease_s / MISSED_PART:
        alive_then = and_(_W.run == run, _W.holder != holder, _W.until >= last, _W.until < now + lease_s)
        later = _W.until + (now - last - lease_s / HEARTBEATS_PER_LEASE)
        until = case_when((later < now + lease_s, later), else_=now + lease_s)
        connection.execute(update(schema.workers).where(alive_then).values(until=until))


def claim_leases(
    connection: Connection,
    run: int,
    holder: str,
    wanted: Collection[VerdictKey],
    final: Collection[str],
    lease_s: float,
) -> ClaimResult:
    """Lease cases for a worker, as far as no other worker has them and they have no `final` outcome.

    Leases of others count as expired only if they had when this worker last sent its heartbeat, with `lease_s`: later
    the server may have been away, for all of them. It may also have been away before this worker joined: whose lease
    expired just before that has `RETURN_S` (or one lease, if that is less) to come back.
    """
    asked = {(storable_text(case), rubric): (case, rubric) for case, rubric in wanted}
    own = select(_W.since, _W.until - lease_s, database_time_s()).where(_W.run == run, _W.holder == holder)
    since, seen, now = connection.execute(own).one_or_none() or (0.0, 0.0, 0.0)
    in_time = _W.until >= seen
    if now < since + min(lease_s, RETURN_S):
        in_time = or_(in_time, _W.until.between(since - OUTAGE_PATIENCE_S, since))
    alive = select(_W.holder).where(_W.run == run, in_time)
    mine: set[VerdictKey] = set()
    held: set[VerdictKey] = set()
    for part in chunks(list(asked)):
        done = _find_final(connection, run, part, final)
        open_keys = [key for key in part if key not in done]
        if not open_keys:
            continue
        these = and_(_L.run == run, tuple_(_L.case_id, _L.rubric).in_(open_keys))
        expired = and_(_L.done.is_(None), _L.holder.not_in(alive))
        connection.execute(delete(schema.leases).where(these, or_(expired, _L.done < since)))
        rows = [{"run": run, "case_id": case, "rubric": rubric, "holder": holder} for case, rubric in open_keys]
        connection.execute(insert_for(connection, schema.leases).on_conflict_do_nothing(), rows)
        leased = select(_L.case_id, _L.rubric, _L.holder).where(these, _L.done.is_(None))
        for case, rubric, owner in connection.execute(leased):
            (mine if owner == holder else held).add(asked[case, rubric])
    return ClaimResult(frozenset(mine), frozenset(held))


def grant_allowance(
    connection: Connection,
    run: int,
    holder: str,
    limit: Decimal,
    least: Decimal,
    calls: int = CALLS_PER_GRANT,
    singly_below: int = 0,
) -> Decimal:
    """Reserve more of the budget for a worker; see `Ledger.grant`."""
    spent = read_spent_usd(connection.execute(select(_R.number, _R.spent_usd).where(_R.number == run)).one())
    allowances = _read_allowances(connection, run)
    left = limit - spent - sum_reserved_usd(connection, run) - sum(allowances.values(), Decimal(0))
    granted = min(left, calls * least) if left >= singly_below * least else min(left, least)
    if granted < least:
        return Decimal(0)
    if holder not in allowances:  # a process that works alone sends no heartbeats
        _insert_worker(connection, run, holder, until=_LONG_AGO, part=0.0)
    _set_allowance(connection, run, holder, allowances.get(holder, Decimal(0)) + granted)
    return granted


def sum_allowances(connection: Connection, run: int, *, of_dead: bool = False) -> Decimal:
    """Return what workers have reserved in US dollars: all, or those that have sent no heartbeat in time."""
    query = select(_W.allowance_usd, _W.holder).where(_W.run == run)
    rows = connection.execute(query.where(_W.until < database_time_s()) if of_dead else query)
    return sum((parse_allowance(text, run, holder) for text, holder in rows), Decimal(0))


def remove_worker(connection: Connection, run: int, holder: str, released: Decimal = Decimal(0)) -> None:
    """Remove a worker and its leases. What it does not release of its allowance stays reserved."""
    connection.execute(delete(schema.leases).where(_L.run == run, _L.holder == holder, _L.done.is_(None)))
    left = _read_allowances(connection, run).get(holder, Decimal(0)) - released
    if left > 0:
        connection.execute(_update_worker(run, holder).values(until=_LONG_AGO, allowance_usd=str(left)))
    else:
        connection.execute(delete(schema.workers).where(_W.run == run, _W.holder == holder))


def read_workers(connection: Connection, run: int) -> list[str]:
    """Return the names of the workers that have sent a heartbeat in time."""
    return list(connection.scalars(select(_W.holder).where(*_is_alive(run))))


def is_already_written(connection: Connection, run: int, worker: WriteToken) -> bool:
    """Return whether this batch is the last one that the worker has written."""
    last = connection.scalar(select(_W.written).where(_W.run == run, _W.holder == worker.holder))
    return last == worker.batch


def find_superseded(connection: Connection, run: int, worker: WriteToken, entries: Sequence[Entry]) -> set[VerdictKey]:
    """Return the verdicts whose leases the worker has lost, and for which another one has stored an answer."""
    keys = {_verdict_key(entry) for entry in entries}
    superseded: set[VerdictKey] = set()
    for part in chunks(list(keys)):
        query = select(_L.case_id, _L.rubric).where(_L.run == run, _L.holder == worker.holder, _L.done.is_(None))
        leased = connection.execute(query.where(tuple_(_L.case_id, _L.rubric).in_(part)))
        own_keys = {(case, rubric) for case, rubric in leased}
        lost = [key for key in part if key not in own_keys]
        superseded |= _find_final(connection, run, lost, ANSWERED_OUTCOMES) if lost else set()
    return superseded


def settle_leases(connection: Connection, run: int, worker: WriteToken, entries: Sequence[Entry]) -> None:
    """End the leases of verdicts that are written in the same transaction, if the worker has any."""
    if not worker.leased:
        return
    answered = [_verdict_key(entry) for entry in entries if entry.verdict.answered]
    failed = [_verdict_key(entry) for entry in entries if not entry.verdict.answered]
    own_leases = and_(_L.run == run, _L.holder == worker.holder)
    key = tuple_(_L.case_id, _L.rubric)
    for part in chunks(answered):
        connection.execute(delete(schema.leases).where(own_leases, key.in_(part)))
    for part in chunks(failed):
        connection.execute(update(schema.leases).where(own_leases, key.in_(part)).values(done=database_time_s()))


def settle_allowance(connection: Connection, run: int, worker: WriteToken, spent: Decimal) -> None:
    """Subtract what verdicts cost that are written in the same transaction, and what the worker gives back, from its
    allowance, and remember the batch."""
    allowance = _read_allowances(connection, run).get(worker.holder, Decimal(0))
    _set_allowance(connection, run, worker.holder, allowance - spent - worker.released_usd, written=worker.batch)


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
    return {holder: parse_allowance(text, run, holder) for holder, text in connection.execute(query)}


def parse_allowance(text: str, run: int, holder: str) -> Decimal:
    """Return the allowance of a worker; see `read_amount`."""
    return read_amount(text, f"an allowance ({describe_row('workers', run, holder)})")


def _set_allowance(connection: Connection, run: int, holder: str, amount: Decimal, **more: str) -> None:
    text = str(amount) if amount > 0 else _NOTHING
    connection.execute(_update_worker(run, holder).values(allowance_usd=text, **more))


def _insert_worker(
    connection: Connection, run: int, holder: str, *, until: float | ColumnElement[float], part: float
) -> None:
    values = {"run": run, "holder": holder, "since": database_time_s(), "until": until, "part": part}
    connection.execute(insert(schema.workers).values(**values, allowance_usd=_NOTHING, written=""))


def _update_worker(run: int, holder: str) -> Update:
    return update(schema.workers).where(_W.run == run, _W.holder == holder)


class WorkerStore(LedgerConnection):
    """The part of a `Ledger` by which several processes work on one run."""

    def claim(
        self, run: str, holder: str, wanted: Collection[VerdictKey], final: Collection[str], lease_s: float
    ) -> ClaimResult:
        """Lease cases for a worker, as far as no other worker has them and they have no `final` outcome.

        `lease_s` is that of the worker's heartbeats.
        """
        return self._write(claim_leases, run, holder, wanted, final, lease_s)

    def heartbeat(self, run: str, holder: str, lease_s: float) -> HeartbeatReply:
        """Register a worker or renew its leases, for `lease_s` seconds from now on."""
        return self._write(record_heartbeat, run, holder, lease_s)

    def renew(self, run: str, holder: str, lease_s: float) -> bool:
        """Renew the leases of a worker without waiting for other writers (in PostgreSQL): one may have stalled.

        Returns:
            False if the worker has missed heartbeats: then only `heartbeat` renews its
        """
        engine = self._backend.unlocked_writer_engine(self._engine)
        with self._backend.translate_errors(self.place), engine.begin() as connection:
            return renew_leases(connection, self._run_number(connection, run), holder, lease_s)

    def leave(self, run: str, holder: str, released_usd: Decimal = Decimal(0)) -> None:
        """Remove a worker and end its leases; what it does not release of its allowance stays reserved."""
        self._write(remove_worker, run, holder, released_usd)

    def grant(
        self,
        run: str,
        holder: str,
        limit: Decimal,
        least: Decimal,
        calls: int = CALLS_PER_GRANT,
        singly_below: int = 0,
    ) -> Decimal:
        """Reserve more of a run's budget for a worker, until `write` settles it or `leave` releases it.

        Args:
            run: The run.
            holder: The worker.
            limit: The budget of the run in US dollars.
            least: What one call may cost; nothing is granted where less than that is left.
            calls: For how many calls money is granted at a time.
            singly_below: If less is left than so many calls may cost, money is granted for one call: what a process
                that is killed had reserved is lost, which is much of a small budget.

        Returns:
            The granted amount in US dollars: enough for `calls` calls or for one, or what is left, or 0.
        """
        return self._write(grant_allowance, run, holder, limit, least, calls, singly_below)

    def unsettled_usd(self, run: str) -> Decimal:
        """Return what workers that were killed, or do not answer, had reserved for their last calls, in US dollars."""
        return self._read(sum_allowances, run, of_dead=True)

    def active_workers(self, run: str) -> list[str]:
        """Return the names of the workers that have sent a heartbeat in time."""
        return self._read(read_workers, run)
