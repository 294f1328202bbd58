"""Several processes, on as many machines as there are, at work on one run.

Each is a worker under a name of its own and says every few seconds that it lives (`beat`). It leases what it is about
to judge; leases, and the money that is set aside for a worker, lapse when it has not been heard of for a while, by the
database's own clock. All of this happens in transactions that write, of which there is one at a time.

A verdict with a score ends its lease. Any other leaves the lease behind, held by nobody (`DONE`), so that no other
worker tries the same case again; these go when the next worker finds itself alone, that is, when the run is started
again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import ColumnElement, Connection, Update, and_, delete, func, or_, select, tuple_, update

from beholder.ledger import tables
from beholder.ledger.dialects import insert_for, now_s, parts
from beholder.ledger.jobs import set_aside
from beholder.ledger.model import Entry
from beholder.ledger.packing import plain_text

DONE = ""
GRANTED = 16  # calls for which money is set aside at a time

_W, _L, _V, _R = tables.workers.c, tables.leases.c, tables.verdicts.c, tables.runs.c

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


def beat(connection: Connection, run: int, holder: str, lease_s: float) -> float:
    """Says that the worker lives, and for how long that holds. Returns the part (0 to 1) of the run's limits per minute
    that it may use from now on: an equal share, as far as the others have made room for it already."""
    connection.execute(delete(tables.workers).where(_W.run == run, _W.holder != holder, _W.until < now_s()))
    others: list[float] = list(connection.scalars(select(_W.part).where(_W.run == run, _W.holder != holder)))
    known = connection.scalar(select(_W.holder).where(_W.run == run, _W.holder == holder))
    if not others and known is None:
        connection.execute(delete(tables.leases).where(_L.run == run))
    part = max(0.0, min(1 / (1 + len(others)), 1 - sum(others)))
    new = {"run": run, "holder": holder, "until": now_s() + lease_s, "part": part}
    change = insert_for(connection, tables.workers).values(**new, allowance_usd="0", written="")
    connection.execute(
        change.on_conflict_do_update(index_elements=["run", "holder"], set_={"until": now_s() + lease_s, "part": part})
    )
    return part


def claim(connection: Connection, run: int, holder: str, wanted: Collection[Key], final: Collection[str]) -> Claimed:
    """Leases what is wanted, as far as nobody else has it and it has no `final` outcome."""
    asked = {(plain_text(case), rubric): (case, rubric) for case, rubric in wanted}
    mine: set[Key] = set()
    held: set[Key] = set()
    for part in parts(list(asked)):
        settled = _settled(connection, run, part, final)
        wish = [key for key in part if key not in settled]
        if not wish:
            continue
        alive = select(_W.holder).where(_W.run == run)
        these = and_(_L.run == run, tuple_(_L.case_id, _L.rubric).in_(wish))
        connection.execute(delete(tables.leases).where(these, _L.holder != DONE, _L.holder.not_in(alive)))
        rows = [{"run": run, "case_id": case, "rubric": rubric, "holder": holder} for case, rubric in wish]
        connection.execute(insert_for(connection, tables.leases).on_conflict_do_nothing(), rows)
        for case, rubric, who in connection.execute(select(_L.case_id, _L.rubric, _L.holder).where(these)):
            if who != DONE:
                (mine if who == holder else held).add(asked[case, rubric])
    return Claimed(frozenset(mine), frozenset(held))


def grant(connection: Connection, run: int, holder: str, limit: Decimal, least: Decimal) -> Decimal:
    """Sets more money aside for the worker: enough for several calls of which one may cost `least`, or what is left of
    the `limit`; nothing where that is less than `least`."""
    spent = Decimal(connection.scalar(select(_R.spent_usd).where(_R.number == run)) or 0)
    live = or_(_W.until >= now_s(), _W.holder == holder)
    allowances = _allowances(connection, run, live)
    left = limit - spent - set_aside(connection, run) - sum(allowances.values(), Decimal(0))
    given = min(left, GRANTED * least)
    if given < least:
        return Decimal(0)
    mine = allowances.get(holder, Decimal(0)) + given
    connection.execute(_mine(run, holder).values(allowance_usd=str(mine)))
    return given


def leave(connection: Connection, run: int, holder: str) -> None:
    """The worker is done: what it still holds is free."""
    connection.execute(delete(tables.leases).where(_L.run == run, _L.holder == holder))
    connection.execute(delete(tables.workers).where(_W.run == run, _W.holder == holder))


def others(connection: Connection, run: int) -> int:
    """How many are at work on the run; for one that has left, the others."""
    return connection.scalar(select(func.count()).where(_W.run == run, _W.until >= now_s())) or 0


def written_before(connection: Connection, run: int, worker: Worker) -> bool:
    """Whether the worker's batch is in the ledger already."""
    last = connection.scalar(select(_W.written).where(_W.run == run, _W.holder == worker.holder))
    return last == worker.batch


def settle(connection: Connection, run: int, worker: Worker, entries: Sequence[Entry], spent: Decimal) -> None:
    """Ends the leases of verdicts that are written in the same transaction, and takes what they cost out of what was
    set aside."""
    done: dict[bool, list[Key]] = {True: [], False: []}
    for entry in entries:
        done[entry.verdict.scored].append((plain_text(entry.case.id), plain_text(entry.verdict.rubric)))
    key = tuple_(_L.case_id, _L.rubric)
    for part in parts(done[True]):
        connection.execute(delete(tables.leases).where(_L.run == run, key.in_(part)))
    for part in parts(done[False]):
        connection.execute(update(tables.leases).where(_L.run == run, key.in_(part)).values(holder=DONE))
    had = _allowances(connection, run, _W.holder == worker.holder).get(worker.holder, Decimal(0))
    left = max(Decimal(0), had - spent)
    connection.execute(_mine(run, worker.holder).values(written=worker.batch, allowance_usd=str(left)))


def _settled(connection: Connection, run: int, keys: Sequence[Key], final: Collection[str]) -> set[Key]:
    query = select(_V.case_id, _V.rubric, _V.outcome).where(_V.run == run, _V.case_id.in_({case for case, _ in keys}))
    return {(case, rubric) for case, rubric, outcome in connection.execute(query) if outcome in final}


def _allowances(connection: Connection, run: int, which: ColumnElement[bool]) -> dict[str, Decimal]:
    query = select(_W.holder, _W.allowance_usd).where(_W.run == run, which)
    return {holder: Decimal(text) for holder, text in connection.execute(query)}


def _mine(run: int, holder: str) -> Update:
    return update(tables.workers).where(_W.run == run, _W.holder == holder)
