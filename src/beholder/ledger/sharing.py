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
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import ColumnElement, Connection, Update, and_, delete, func, insert, or_, select, tuple_, update

from beholder.ledger import tables
from beholder.ledger.dialects import insert_for, now_s, parts
from beholder.ledger.jobs import set_aside
from beholder.ledger.model import Entry
from beholder.ledger.packing import plain_text

GRANTED = 16  # calls for which money is set aside at a time

_W, _L, _V, _R = tables.workers.c, tables.leases.c, tables.verdicts.c, tables.runs.c

SCORED = "scored"

Key = tuple[str, str]  # the id of a case, the name of a rubric


@dataclass(frozen=True, slots=True)
class Worker:
    """Who writes, and the name of the batch: one that is written twice, because nobody could say whether the first
    time had succeeded, counts once."""

    holder: str
    batch: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """What became of a wish to judge some cases: `mine` from now on, `held` by another worker, and the rest is done."""

    mine: frozenset[Key]
    held: frozenset[Key]


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a worker hears when it says that it lives. `part` (0 to 1) of the run's limits per minute is its to use from
    now on: an equal share, as far as the others have made room for it already. If it was `late`, others may have taken
    over what it leased; if it is `new`, nothing is leased by it or set aside for it, whatever it thought."""

    part: float
    late: bool
    new: bool


def beat(connection: Connection, run: int, holder: str, lease_s: float) -> Pulse:
    """Says that the worker lives, and that this holds for so long."""
    others: list[float] = list(connection.scalars(select(_W.part).where(*_alive(run), _W.holder != holder)))
    row = connection.execute(select(_W.until < now_s()).where(_W.run == run, _W.holder == holder)).one_or_none()
    if not others and row is None:  # whoever was here is gone
        for table in (tables.leases, tables.workers):
            connection.execute(delete(table).where(table.c.run == run))
    part = max(0.0, min(1 / (1 + len(others)), 1 - sum(others)))
    if row is None:
        new = {"run": run, "holder": holder, "since": now_s(), "until": now_s() + lease_s, "part": part}
        connection.execute(insert(tables.workers).values(**new, allowance_usd="0", written=""))
    else:
        connection.execute(_mine(run, holder).values(until=now_s() + lease_s, part=part))
    return Pulse(part, late=row is None or bool(row[0]), new=row is None)


def claim(connection: Connection, run: int, holder: str, wanted: Collection[Key], final: Collection[str]) -> Claimed:
    """Leases what is wanted, as far as nobody else has it and it has no `final` outcome."""
    asked = {(plain_text(case), rubric): (case, rubric) for case, rubric in wanted}
    since = connection.scalar(select(_W.since).where(_W.run == run, _W.holder == holder)) or 0.0
    mine: set[Key] = set()
    held: set[Key] = set()
    for part in parts(list(asked)):
        settled = _settled(connection, run, part, final)
        wish = [key for key in part if key not in settled]
        if not wish:
            continue
        these = and_(_L.run == run, tuple_(_L.case_id, _L.rubric).in_(wish))
        lapsed = and_(_L.done.is_(None), _L.holder.not_in(select(_W.holder).where(*_alive(run))))
        connection.execute(delete(tables.leases).where(these, or_(lapsed, _L.done < since)))
        rows = [{"run": run, "case_id": case, "rubric": rubric, "holder": holder} for case, rubric in wish]
        connection.execute(insert_for(connection, tables.leases).on_conflict_do_nothing(), rows)
        found = select(_L.case_id, _L.rubric, _L.holder).where(these, _L.done.is_(None))
        for case, rubric, who in connection.execute(found):
            (mine if who == holder else held).add(asked[case, rubric])
    return Claimed(frozenset(mine), frozenset(held))


def grant(connection: Connection, run: int, holder: str, limit: Decimal, least: Decimal) -> Decimal:
    """Sets more money aside for the worker: enough for several calls of which one may cost `least`, or what is left of
    the `limit`; nothing where that is less than `least`."""
    spent = Decimal(connection.scalar(select(_R.spent_usd).where(_R.number == run)) or 0)
    allowances = _allowances(connection, run)
    left = limit - spent - set_aside(connection, run) - sum(allowances.values(), Decimal(0))
    given = min(left, GRANTED * least)
    if given < least or holder not in allowances:
        return Decimal(0)
    connection.execute(_mine(run, holder).values(allowance_usd=str(allowances[holder] + given)))
    return given


def leave(connection: Connection, run: int, holder: str) -> None:
    """The worker is done: what it still holds is free."""
    connection.execute(delete(tables.leases).where(_L.run == run, _L.holder == holder, _L.done.is_(None)))
    connection.execute(delete(tables.workers).where(_W.run == run, _W.holder == holder))


def others(connection: Connection, run: int) -> int:
    """How many are at work on the run; for one that has left, the others."""
    return connection.scalar(select(func.count()).select_from(tables.workers).where(*_alive(run))) or 0


def written_before(connection: Connection, run: int, worker: Worker) -> bool:
    """Whether the worker's batch is in the ledger already."""
    last = connection.scalar(select(_W.written).where(_W.run == run, _W.holder == worker.holder))
    return last == worker.batch


def late(connection: Connection, run: int, worker: Worker, entries: Sequence[Entry]) -> set[Key]:
    """Those of the verdicts that came too late: the worker was taken for dead, and another one has a score."""
    keys = {_key(entry) for entry in entries}
    found: set[Key] = set()
    for part in parts(list(keys)):
        query = select(_L.case_id, _L.rubric).where(_L.run == run, _L.holder == worker.holder, _L.done.is_(None))
        own = {
            (case, rubric) for case, rubric in connection.execute(query.where(tuple_(_L.case_id, _L.rubric).in_(part)))
        }
        lost = [key for key in part if key not in own]
        found |= _settled(connection, run, lost, (SCORED,)) if lost else set()
    return found


def settle(connection: Connection, run: int, worker: Worker, entries: Sequence[Entry], spent: Decimal) -> None:
    """Ends the worker's leases of verdicts that are written in the same transaction, and takes what they cost out of
    what was set aside."""
    scored = [_key(entry) for entry in entries if entry.verdict.scored]
    failed = [_key(entry) for entry in entries if not entry.verdict.scored]
    own = and_(_L.run == run, _L.holder == worker.holder)
    key = tuple_(_L.case_id, _L.rubric)
    for part in parts(scored):
        connection.execute(delete(tables.leases).where(own, key.in_(part)))
    for part in parts(failed):
        connection.execute(update(tables.leases).where(own, key.in_(part)).values(done=now_s()))
    left = max(Decimal(0), _allowances(connection, run).get(worker.holder, Decimal(0)) - spent)
    connection.execute(_mine(run, worker.holder).values(written=worker.batch, allowance_usd=str(left)))


def _key(entry: Entry) -> Key:
    return plain_text(entry.case.id), plain_text(entry.verdict.rubric)


def _alive(run: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return _W.run == run, _W.until >= now_s()


def _settled(connection: Connection, run: int, keys: Sequence[Key], final: Collection[str]) -> set[Key]:
    query = select(_V.case_id, _V.rubric, _V.outcome).where(_V.run == run, _V.case_id.in_({case for case, _ in keys}))
    return {(case, rubric) for case, rubric, outcome in connection.execute(query) if outcome in final}


def _allowances(connection: Connection, run: int) -> dict[str, Decimal]:
    query = select(_W.holder, _W.allowance_usd).where(_W.run == run)
    return {holder: Decimal(text) for holder, text in connection.execute(query)}


def _mine(run: int, holder: str) -> Update:
    return update(tables.workers).where(_W.run == run, _W.holder == holder)
