"""Requests that a provider answers in its own time: the jobs they were handed in with, and what came back.

Everything here happens within the transaction that the caller has open. A job is written down before it is handed in
(`begin`), so that a crash in between leaves one that can be looked for. The table `replies` then says at which `Stage`
each of its requests is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from beholder.ledger import schema
from beholder.ledger.encoding import pack, split_ids, to_json_text, unpack
from beholder.ledger.schema import chunks
from beholder.ledger.types import JOB_BEGUN, JOB_CLOSED, JOB_FETCHED, JOB_OPEN, RUNNING, BatchJob
from beholder.ledger.write import insert_or_replace, insert_rows
from beholder.verdicts.answer import BatchReply, BatchStage

_J, _R = schema.jobs.c, schema.replies.c


def create_job(
    connection: Connection, run: int, judge: str, requests: Mapping[bytes, int], reserved_usd: Decimal
) -> BatchJob | None:
    """Writes a job down that is about to be handed in; `requests` are keys with the number of the try.

    `None` where another process has begun one with some of the same requests: then this one must not be.
    """
    there = find_replies(connection, run, list(requests))
    if any(kept.stage == BatchStage.PENDING for kept in there.values()):
        return None
    job = BatchJob(judge, JOB_BEGUN, {}, reserved_usd, datetime.now(UTC), next(iter(requests)), len(requests))
    _insert_job(connection, run, job, requests)
    _write_replies(connection, run, {key: BatchReply(BatchStage.PENDING, tries) for key, tries in requests.items()})
    return job


def mark_submitted(
    connection: Connection, run: int, job: BatchJob, handle: Mapping[str, str], requests: Mapping[bytes, int]
) -> None:
    """The provider has the job, under this handle; the requests are those of `begin`.

    A job that is not there any more is written again: another process took it for one that was never handed in, which
    can happen only where the lock of the run was lost with its connection. It is paid for, and will be fetched.
    """
    if not set_handle(connection, run, job, handle):
        there = find_replies(connection, run, list(requests))
        _insert_job(connection, run, job, requests)
        _write_replies(
            connection,
            run,
            {key: BatchReply(BatchStage.PENDING, requests[key]) for key in requests.keys() - there.keys()},
        )
        set_handle(connection, run, job, handle)


def set_handle(connection: Connection, run: int, job: BatchJob, handle: Mapping[str, str]) -> bool:
    """Under this handle the provider finds the job; whether there is such a job here."""
    change = update(schema.jobs).where(_matches(run, job)).values(state=JOB_OPEN, handle=to_json_text(dict(handle)))
    return connection.execute(change).rowcount > 0


def delete_job(connection: Connection, run: int, job: BatchJob) -> None:
    """The provider has never had the job: its requests are as if they had not been asked."""
    for part in chunks(read_request_keys(connection, run, job)):
        connection.execute(delete(schema.replies).where(_R.run == run, _R.key.in_(part)))
    connection.execute(delete(schema.jobs).where(_matches(run, job)))


def store_replies(connection: Connection, run: int, came: Mapping[bytes, BatchReply]) -> int:
    """Replies that came, for requests that are pending: one may come again when results had broken off before, and a
    verdict by it is not to be given twice. `tries` stays what it was. How many are new."""
    there = find_replies(connection, run, list(came))
    pending = {key: kept for key, kept in there.items() if kept.stage == BatchStage.PENDING}
    _write_replies(connection, run, {key: replace(came[key], tries=kept.tries) for key, kept in pending.items()})
    return len(pending)


def finish_job(
    connection: Connection,
    run: int,
    job: BatchJob,
    rest: BatchReply,
    cost_usd: Decimal,
    replies: Mapping[bytes, BatchReply] | None = None,
    handle: Mapping[str, str] | None = None,
) -> int:
    """Store that all results of a job have been fetched; see `Ledger.finish_batch_job`."""
    if handle is not None:
        set_handle(connection, run, job, handle)
    store_replies(connection, run, replies or {})
    left = 0
    for part in chunks(read_request_keys(connection, run, job)):  # bodies of a whole job would be a hundred megabytes
        pending = [key for key, kept in find_replies(connection, run, part).items() if kept.stage == BatchStage.PENDING]
        left += store_replies(connection, run, dict.fromkeys(pending, rest))
    values = {"state": JOB_FETCHED, "reserved_usd": str(cost_usd)}
    connection.execute(update(schema.jobs).where(_matches(run, job)).values(values))
    return left


def close_fetched_jobs(connection: Connection, run: int) -> None:
    """What was fetched is in verdicts, and counted there."""
    connection.execute(update(schema.jobs).where(_J.run == run, _J.state == JOB_FETCHED).values(state=JOB_CLOSED))


def use_up(connection: Connection, run: int, keys: Iterable[bytes]) -> None:
    """There are verdicts by these replies."""
    _write_replies(connection, run, dict.fromkeys(keys, BatchReply(BatchStage.USED)))


def find_replies(connection: Connection, run: int, keys: Sequence[bytes]) -> dict[bytes, BatchReply]:
    """Those of the requests that there are."""
    found: dict[bytes, BatchReply] = {}
    for part in chunks(keys):
        query = select(_R.key, _R.body).where(_R.run == run, _R.key.in_(part))
        found |= {bytes(key): _unpack_reply(body) for key, body in connection.execute(query)}
    return found


def read_pending_jobs(connection: Connection, run: int) -> list[BatchJob]:
    """Return the jobs whose results are not stored yet, in the order in which they were created."""
    return [job for job in read_jobs(connection, run) if job.pending]


def has_uncollected_jobs(connection: Connection, run: int) -> bool:
    """Whether there are jobs by whose results there are no verdicts yet: under way, or fetched by a process that was
    killed before it had them, and left the run `running`."""
    killed = select(schema.runs.c.state).where(schema.runs.c.number == run).scalar_subquery() == RUNNING
    open_ = or_(_J.state.in_((JOB_BEGUN, JOB_OPEN)), and_(_J.state == JOB_FETCHED, killed))
    return connection.scalar(select(_J.number).where(_J.run == run, open_).limit(1)) is not None


def read_request_keys(connection: Connection, run: int, job: BatchJob) -> list[bytes]:
    """Those of the requests of a job, in their order."""
    return split_ids(bytes(connection.scalar(select(_J.body).where(_matches(run, job))) or b""))


def read_handles(connection: Connection) -> list[Mapping[str, str]]:
    """Of all jobs that this ledger knows, of whichever run."""
    return [json.loads(handle) for handle in connection.scalars(select(_J.handle)) if handle]


def sum_reserved_usd(connection: Connection, run: int) -> Decimal:
    """US dollars that jobs may still cost, or have cost without a verdict by them."""
    query = select(_J.reserved_usd).where(_J.run == run, _J.state != JOB_CLOSED)
    return sum((Decimal(amount) for amount in connection.scalars(query)), Decimal(0))


def _matches(run: int, job: BatchJob) -> ColumnElement[bool]:
    """Not by its number: SQLite gives that of a job that was dropped to the next."""
    return and_(_J.run == run, _J.judge == job.judge, _J.created == job.created.isoformat())


def _insert_job(connection: Connection, run: int, job: BatchJob, requests: Iterable[bytes]) -> None:
    values = {
        "run": run,
        "judge": job.judge,
        "state": JOB_BEGUN,
        "handle": "",
        "reserved_usd": str(job.reserved_usd),
        "created": job.created.isoformat(),
        "body": b"".join(requests),
    }
    connection.execute(insert(schema.jobs).values(values))


def _write_replies(connection: Connection, run: int, kept: Mapping[bytes, BatchReply]) -> None:
    statement = insert_or_replace(connection, schema.replies, "run", "key")
    for part in chunks(list(kept)):
        packed = ((key, kept[key]) for key in part)
        rows: list[dict[str, object]] = [
            {"run": run, "key": key, "body": pack([one.stage, one.tries, one.status, one.body])} for key, one in packed
        ]
        insert_rows(connection, statement, rows)


def _unpack_reply(body: bytes) -> BatchReply:
    values = unpack(bytes(body), "a reply")
    assert isinstance(values, list)
    stage, *rest = values
    return BatchReply(BatchStage(stage), *rest)


def read_jobs(connection: Connection, run: int) -> list[BatchJob]:
    """Without the keys of their requests, of which there may be millions."""
    columns = _J.judge, _J.state, _J.handle, _J.reserved_usd, _J.created
    body = func.substr(_J.body, 1, 16).label("first"), func.length(_J.body).label("size")
    query = select(*columns, *body).where(_J.run == run).order_by(_J.number)
    return [
        BatchJob(
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
