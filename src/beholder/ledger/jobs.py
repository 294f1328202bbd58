"""Requests that a provider answers in its own time: the jobs they were handed in with, and what came back.

Everything here happens within the transaction that the caller has open. A job is written down before it is handed in
(`begin`), so that a crash in between leaves one that can be looked for. The table `replies` then says at which `Stage`
each of its requests is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from beholder.judges.stages import Kept, Stage
from beholder.ledger import tables
from beholder.ledger.dialects import parts
from beholder.ledger.model import RUNNING
from beholder.ledger.packing import dump, pack, split_ids, unpack
from beholder.ledger.writing import put, replacing

# Of a job: written down and perhaps handed in; handed in; all its results are here, and in no verdict yet; done with.
BEGUN, OPEN, FETCHED, CLOSED = "begun", "open", "fetched", "closed"

_J, _R = tables.jobs.c, tables.replies.c


@dataclass(frozen=True, slots=True)
class Job:
    """A job of `count` requests. `judge` is the identity of the judge it is for; `first` is the key of its first
    request (`keys` has them all); `reserved_usd` is what it may cost at most, and once it is fetched what it did cost.
    """

    judge: str
    state: str
    handle: Mapping[str, str]
    reserved_usd: Decimal
    created: datetime
    first: bytes
    count: int

    @property
    def note(self) -> str:
        """By which the provider's list of jobs tells it from others: of its first request, which no other job has at
        the same time, and of when it was begun."""
        return f"beholder-{self.first.hex()}-{self.created:%y%m%d%H%M%S%f}"


def begin(
    connection: Connection, run: int, judge: str, requests: Mapping[bytes, int], reserved_usd: Decimal
) -> Job | None:
    """Writes a job down that is about to be handed in; `requests` are keys with the number of the try.

    `None` where another process has begun one with some of the same requests: then this one must not be.
    """
    there = find(connection, run, list(requests))
    if any(kept.stage == Stage.PENDING for kept in there.values()):
        return None
    job = Job(judge, BEGUN, {}, reserved_usd, datetime.now(UTC), next(iter(requests)), len(requests))
    _insert(connection, run, job, requests)
    _put(connection, run, {key: Kept(Stage.PENDING, tries) for key, tries in requests.items()})
    return job


def handed_in(
    connection: Connection, run: int, job: Job, handle: Mapping[str, str], requests: Mapping[bytes, int]
) -> None:
    """The provider has the job, under this handle; the requests are those of `begin`.

    A job that is not there any more is written again: another process took it for one that was never handed in, which
    can happen only where the lock of the run was lost with its connection. It is paid for, and will be fetched.
    """
    if not set_handle(connection, run, job, handle):
        there = find(connection, run, list(requests))
        _insert(connection, run, job, requests)
        _put(connection, run, {key: Kept(Stage.PENDING, requests[key]) for key in requests.keys() - there.keys()})
        set_handle(connection, run, job, handle)


def set_handle(connection: Connection, run: int, job: Job, handle: Mapping[str, str]) -> bool:
    """Under this handle the provider finds the job; whether there is such a job here."""
    change = update(tables.jobs).where(_is(run, job)).values(state=OPEN, handle=dump(dict(handle)))
    return connection.execute(change).rowcount > 0


def drop(connection: Connection, run: int, job: Job) -> None:
    """The provider has never had the job: its requests are as if they had not been asked."""
    for part in parts(keys(connection, run, job)):
        connection.execute(delete(tables.replies).where(_R.run == run, _R.key.in_(part)))
    connection.execute(delete(tables.jobs).where(_is(run, job)))


def keep(connection: Connection, run: int, came: Mapping[bytes, Kept]) -> int:
    """Replies that came, for requests that are pending: one may come again when results had broken off before, and a
    verdict by it is not to be given twice. `tries` stays what it was. How many are new."""
    there = find(connection, run, list(came))
    pending = {key: kept for key, kept in there.items() if kept.stage == Stage.PENDING}
    _put(connection, run, {key: replace(came[key], tries=kept.tries) for key, kept in pending.items()})
    return len(pending)


def fetched(connection: Connection, run: int, job: Job, rest: Kept, cost_usd: Decimal) -> int:
    """All results of a job are here; its requests that have none become `rest`. How many those are."""
    left = 0
    for part in parts(keys(connection, run, job)):  # bodies of a whole job would be a hundred megabytes
        pending = [key for key, kept in find(connection, run, part).items() if kept.stage == Stage.PENDING]
        left += keep(connection, run, dict.fromkeys(pending, rest))
    values = {"state": FETCHED, "reserved_usd": str(cost_usd)}
    connection.execute(update(tables.jobs).where(_is(run, job)).values(values))
    return left


def close(connection: Connection, run: int) -> None:
    """What was fetched is in verdicts, and counted there."""
    connection.execute(update(tables.jobs).where(_J.run == run, _J.state == FETCHED).values(state=CLOSED))


def use_up(connection: Connection, run: int, keys: Iterable[bytes]) -> None:
    """There are verdicts by these replies."""
    _put(connection, run, dict.fromkeys(keys, Kept(Stage.USED)))


def find(connection: Connection, run: int, keys: Sequence[bytes]) -> dict[bytes, Kept]:
    """Those of the requests that there are."""
    found: dict[bytes, Kept] = {}
    for part in parts(keys):
        query = select(_R.key, _R.body).where(_R.run == run, _R.key.in_(part))
        found |= {bytes(key): _kept(body) for key, body in connection.execute(query)}
    return found


def under_way(connection: Connection, run: int) -> list[Job]:
    """The jobs whose results are not here yet, in the order in which they were begun."""
    return _jobs(connection, run, (BEGUN, OPEN))


def to_collect(connection: Connection, run: int) -> bool:
    """Whether there are jobs by whose results there are no verdicts yet: under way, or fetched by a process that was
    killed before it had them, and left the run `running`."""
    killed = select(tables.runs.c.state).where(tables.runs.c.number == run).scalar_subquery() == RUNNING
    open_ = or_(_J.state.in_((BEGUN, OPEN)), and_(_J.state == FETCHED, killed))
    return connection.scalar(select(_J.number).where(_J.run == run, open_).limit(1)) is not None


def ended(connection: Connection, run: int) -> list[Job]:
    """The jobs whose results are here."""
    return _jobs(connection, run, (FETCHED, CLOSED))


def keys(connection: Connection, run: int, job: Job) -> list[bytes]:
    """Those of the requests of a job, in their order."""
    return split_ids(bytes(connection.scalar(select(_J.body).where(_is(run, job))) or b""))


def handles(connection: Connection) -> list[Mapping[str, str]]:
    """Of all jobs that this ledger knows, of whichever run."""
    return [json.loads(handle) for handle in connection.scalars(select(_J.handle)) if handle]


def set_aside(connection: Connection, run: int) -> Decimal:
    """US dollars that jobs may still cost, or have cost without a verdict by them."""
    query = select(_J.reserved_usd).where(_J.run == run, _J.state != CLOSED)
    return sum((Decimal(amount) for amount in connection.scalars(query)), Decimal(0))


def _is(run: int, job: Job) -> ColumnElement[bool]:
    """Not by its number: SQLite gives that of a job that was dropped to the next."""
    return and_(_J.run == run, _J.judge == job.judge, _J.created == job.created.isoformat())


def _insert(connection: Connection, run: int, job: Job, requests: Iterable[bytes]) -> None:
    values = {
        "run": run,
        "judge": job.judge,
        "state": BEGUN,
        "handle": "",
        "reserved_usd": str(job.reserved_usd),
        "created": job.created.isoformat(),
        "body": b"".join(requests),
    }
    connection.execute(insert(tables.jobs).values(values))


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
    stage, *rest = values
    return Kept(Stage(stage), *rest)


def _jobs(connection: Connection, run: int, states: Sequence[str]) -> list[Job]:
    """Without the keys of their requests, of which there may be millions."""
    columns = _J.judge, _J.state, _J.handle, _J.reserved_usd, _J.created
    body = func.substr(_J.body, 1, 16).label("first"), func.length(_J.body).label("size")
    query = select(*columns, *body).where(_J.run == run, _J.state.in_(states)).order_by(_J.number)
    return [
        Job(
            row.judge,
            row.state,
            json.loads(row.handle) if row.handle else {},
            Decimal(row.reserved_usd),
            datetime.fromisoformat(row.created),
            bytes(row.first),
            row.size // 16,
        )
        for row in connection.execute(query)
    ]
