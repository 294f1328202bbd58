"""Requests that a provider answers in its own time: the jobs they were handed in with, and what came back.

Everything here happens within the transaction that the caller has open. A job is written down before it is handed in
(`begin`), so that a crash in between leaves one that can be looked for. Of a request the table `replies` then says:

    pending     in a job that is open, or may be
    answered    the provider's reply is there
    errored     its error is
    expired     it was not run, and may be handed in again
    canceled    neither, because the job was cancelled
    used        there is a verdict by it; the reply itself is gone
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import Connection, delete, insert, select, update

from beholder.ledger import tables
from beholder.ledger.dialects import parts
from beholder.ledger.packing import dump, pack, split_ids, unpack
from beholder.ledger.tables import AnyRow
from beholder.ledger.writing import put, replacing

PENDING, USED = "pending", "used"
# Of a job: written down and perhaps handed in; handed in; all its results are here, and in no verdict yet; done with.
BEGUN, OPEN, FETCHED, CLOSED = "begun", "open", "fetched", "closed"

_J, _R = tables.jobs.c, tables.replies.c


@dataclass(frozen=True, slots=True)
class Kept:
    """A request as the ledger has it. `tries` counts how often it was handed in; `body` is the provider's, as text."""

    stage: str
    tries: int = 1
    status: int = 0
    body: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A job. `judge` is the identity of the judge it is for; `keys` are those of its requests, 16 bytes each;
    `reserved_usd` is what it may cost at most, and once it is fetched what it did cost."""

    number: int
    judge: str
    state: str
    handle: Mapping[str, str]
    reserved_usd: Decimal
    created: datetime
    keys: tuple[bytes, ...]

    @property
    def note(self) -> str:
        """By which the provider's list of jobs tells it from others: of its first request, which no other job has at
        the same time, and of when it was begun."""
        return f"beholder-{self.keys[0].hex()}-{self.created:%y%m%d%H%M%S%f}"


def begin(
    connection: Connection, run: int, judge: str, requests: Mapping[bytes, int], reserved_usd: Decimal
) -> Job | None:
    """Writes a job down that is about to be handed in; `requests` are keys with the number of the try.

    `None` where another process has begun one with some of the same requests: then this one must not be.
    """
    there = find(connection, run, list(requests))
    if any(kept.stage == PENDING for kept in there.values()):
        return None
    now = datetime.now(UTC)
    values = {
        "run": run,
        "judge": judge,
        "state": BEGUN,
        "handle": "",
        "reserved_usd": str(reserved_usd),
        "created": now.isoformat(),
        "body": b"".join(requests),
    }
    number = connection.execute(insert(tables.jobs).values(values).returning(_J.number)).scalar_one()
    _put(connection, run, {key: Kept(PENDING, tries) for key, tries in requests.items()})
    return Job(number, judge, BEGUN, {}, reserved_usd, now, tuple(requests))


def handed_in(connection: Connection, run: int, job: Job, handle: Mapping[str, str]) -> None:
    """The provider has the job, under this handle."""
    connection.execute(update(tables.jobs).where(_J.number == job.number).values(state=OPEN, handle=dump(dict(handle))))


def drop(connection: Connection, run: int, job: Job) -> None:
    """The provider has never had the job: its requests are as if they had not been asked."""
    for part in parts(job.keys):
        connection.execute(delete(tables.replies).where(_R.run == run, _R.key.in_(part)))
    connection.execute(delete(tables.jobs).where(_J.number == job.number))


def keep(connection: Connection, run: int, came: Mapping[bytes, Kept]) -> None:
    """Replies that came, for requests that are pending: one may come again when results had broken off before, and a
    verdict by it is not to be given twice. `tries` stays what it was."""
    there = find(connection, run, list(came))
    pending = {key: kept for key, kept in there.items() if kept.stage == PENDING}
    _put(connection, run, {key: replace(came[key], tries=kept.tries) for key, kept in pending.items()})


def fetched(connection: Connection, run: int, job: Job, rest: Kept, cost_usd: Decimal) -> int:
    """All results of a job are here; its requests that have none become `rest`. How many those are."""
    left = 0
    for part in parts(job.keys):  # bodies of a whole job would be a hundred megabytes
        pending = [key for key, kept in find(connection, run, part).items() if kept.stage == PENDING]
        keep(connection, run, dict.fromkeys(pending, rest))
        left += len(pending)
    values = {"state": FETCHED, "reserved_usd": str(cost_usd)}
    connection.execute(update(tables.jobs).where(_J.number == job.number).values(values))
    return left


def close(connection: Connection, run: int) -> None:
    """What was fetched is in verdicts, and counted there."""
    connection.execute(update(tables.jobs).where(_J.run == run, _J.state == FETCHED).values(state=CLOSED))


def use_up(connection: Connection, run: int, keys: Iterable[bytes]) -> None:
    """There are verdicts by these replies."""
    _put(connection, run, dict.fromkeys(keys, Kept(USED)))


def find(connection: Connection, run: int, keys: Sequence[bytes]) -> dict[bytes, Kept]:
    """Those of the requests that there are."""
    found: dict[bytes, Kept] = {}
    for part in parts(keys):
        query = select(_R.key, _R.body).where(_R.run == run, _R.key.in_(part))
        found |= {bytes(key): _kept(body) for key, body in connection.execute(query)}
    return found


def under_way(connection: Connection, run: int) -> list[Job]:
    """The jobs whose results are not here yet, in the order in which they were begun."""
    query = select(tables.jobs).where(_J.run == run, _J.state.in_((BEGUN, OPEN))).order_by(_J.number)
    return [_job(row) for row in connection.execute(query)]


def handles(connection: Connection) -> set[str]:
    """The provider's ids of all jobs that this ledger knows, of whichever run."""
    return {json.loads(handle).get("id", "") for handle in connection.scalars(select(_J.handle)) if handle}


def set_aside(connection: Connection, run: int) -> Decimal:
    """US dollars that jobs may still cost, or have cost without a verdict by them."""
    query = select(_J.reserved_usd).where(_J.run == run, _J.state != CLOSED)
    return sum((Decimal(amount) for amount in connection.scalars(query)), Decimal(0))


def _put(connection: Connection, run: int, kept: Mapping[bytes, Kept]) -> None:
    statement = replacing(connection, tables.replies, "run", "key")
    for part in parts(list(kept)):
        packed = ((key, kept[key]) for key in part)
        rows: list[dict[str, object]] = [
            {"run": run, "key": key, "body": pack([one.stage, one.tries, one.status, one.body])} for key, one in packed
        ]
        put(connection, statement, rows)


def _kept(body: bytes) -> Kept:
    values = unpack(bytes(body), "a reply")
    assert isinstance(values, list)
    return Kept(*values)


def _job(row: AnyRow) -> Job:
    return Job(
        row.number,
        row.judge,
        row.state,
        json.loads(row.handle) if row.handle else {},
        Decimal(row.reserved_usd),
        datetime.fromisoformat(row.created),
        tuple(split_ids(bytes(row.body))),
    )
