"""Batch jobs at providers: the requests that were submitted in them, and the replies that came back.

Everything here runs in the transaction of the connection that it gets. A job is stored before it is submitted
(`create_job`), so that after a crash in between it can be looked for at its provider. The table `replies` has the
`BatchStage` of each request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select, update

from beholder.errors import LedgerError
from beholder.ledger import schema
from beholder.ledger.connection import LedgerConnection
from beholder.ledger.damage import describe_row, read_amount
from beholder.ledger.encoding import (
    DAMAGED_MESSAGE,
    pack,
    parse_amount,
    parse_time,
    split_ids,
    to_json_text,
    unpack,
)
from beholder.ledger.schema import AnyRow, chunks
from beholder.ledger.types import JOB_BEGUN, JOB_CLOSED, JOB_FETCHED, JOB_OPEN, RUNNING, BatchJob
from beholder.ledger.write import RowValues, insert_or_replace, insert_rows
from beholder.verdicts.answer import BatchReply, BatchStage

_J, _R = schema.jobs.c, schema.replies.c
_HANDLE_DECODER = msgspec.json.Decoder(dict[str, str])


def create_job(
    connection: Connection, run: int, judge: str, requests: Mapping[bytes, int], reserved_usd: Decimal
) -> BatchJob | None:
    """Store a job that is about to be submitted; see `Ledger.create_batch_job`."""
    known = find_replies(connection, run, list(requests))
    if any(reply.stage == BatchStage.PENDING for reply in known.values()):
        return None
    job = BatchJob(judge, JOB_BEGUN, {}, reserved_usd, datetime.now(UTC), next(iter(requests)), len(requests))
    _insert_job(connection, run, job, requests)
    _write_replies(connection, run, {key: BatchReply(BatchStage.PENDING, tries) for key, tries in requests.items()})
    return job


def mark_submitted(
    connection: Connection, run: int, job: BatchJob, handle: Mapping[str, str], requests: Mapping[bytes, int]
) -> None:
    """Store the handle of a job that the provider has accepted; `requests` are those of `create_job`."""
    if set_handle(connection, run, job, handle):
        return
    # Another process has deleted the job because it seemed never to have been submitted. That can happen only if the
    # lock of the run was lost with its connection. The job is paid for, so it is stored again and will be fetched.
    known = find_replies(connection, run, list(requests))
    _insert_job(connection, run, job, requests)
    missing = requests.keys() - known.keys()
    _write_replies(connection, run, {key: BatchReply(BatchStage.PENDING, requests[key]) for key in missing})
    set_handle(connection, run, job, handle)


def set_handle(connection: Connection, run: int, job: BatchJob, handle: Mapping[str, str]) -> bool:
    """Store the provider's handle of a job. Returns whether there is such a job."""
    change = update(schema.jobs).where(_matches(run, job)).values(state=JOB_OPEN, handle=to_json_text(dict(handle)))
    return connection.execute(change).rowcount > 0


def delete_job(connection: Connection, run: int, job: BatchJob) -> None:
    """Delete a job that the provider never got, with its requests."""
    for part in chunks(read_request_keys(connection, run, job)):
        connection.execute(delete(schema.replies).where(_R.run == run, _R.key.in_(part)))
    connection.execute(delete(schema.jobs).where(_matches(run, job)))


def store_replies(connection: Connection, run: int, replies: Mapping[bytes, BatchReply]) -> int:
    """Store replies to pending requests, and return how many of them are new.

    A reply can come twice when fetching broke off before; only the first counts, so that there is one verdict by it.
    The stored number of `tries` stays.
    """
    known = find_replies(connection, run, list(replies))
    pending = {key: reply for key, reply in known.items() if reply.stage == BatchStage.PENDING}
    _write_replies(connection, run, {key: replace(replies[key], tries=old.tries) for key, old in pending.items()})
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
    unanswered = 0
    for part in chunks(read_request_keys(connection, run, job)):  # all replies of a job may be a hundred megabytes
        known = find_replies(connection, run, part)
        pending = [key for key, reply in known.items() if reply.stage == BatchStage.PENDING]
        unanswered += store_replies(connection, run, dict.fromkeys(pending, rest))
    values = {"state": JOB_FETCHED, "reserved_usd": str(cost_usd)}
    connection.execute(update(schema.jobs).where(_matches(run, job)).values(values))
    return unanswered


def close_fetched_jobs(connection: Connection, run: int) -> None:
    """Close the fetched jobs of a run: their cost is in the verdicts now, and no longer reserved."""
    connection.execute(update(schema.jobs).where(_J.run == run, _J.state == JOB_FETCHED).values(state=JOB_CLOSED))


def use_up(connection: Connection, run: int, keys: Iterable[bytes]) -> None:
    """Mark replies as used: there are verdicts by them."""
    _write_replies(connection, run, dict.fromkeys(keys, BatchReply(BatchStage.USED)))


def find_replies(connection: Connection, run: int, keys: Sequence[bytes]) -> dict[bytes, BatchReply]:
    """Return what is known of requests, by key; unknown keys are left out."""
    replies: dict[bytes, BatchReply] = {}
    for part in chunks(keys):
        query = select(_R.key, _R.body).where(_R.run == run, _R.key.in_(part))
        replies |= {bytes(key): unpack_reply(body, run, key) for key, body in connection.execute(query)}
    return replies


def read_jobs(connection: Connection, run: int) -> list[BatchJob]:
    """Return all jobs of a run in the order in which they were created, without the keys of their requests, of which
    there may be millions."""
    columns = _J.number, _J.judge, _J.state, _J.handle, _J.reserved_usd, _J.created
    body = func.substr(_J.body, 1, 16).label("first"), func.length(_J.body).label("size")
    query = select(*columns, *body).where(_J.run == run).order_by(_J.number)
    return [to_batch_job(row, row.first, row.size // 16) for row in connection.execute(query)]


def to_batch_job(row: AnyRow, first: bytes, count: int) -> BatchJob:
    """Return the job of a row of `jobs`. Raises `LedgerError` if it is damaged: nothing may be submitted twice."""
    try:
        return BatchJob(
            row.judge,
            row.state,
            _HANDLE_DECODER.decode(row.handle) if row.handle else {},
            parse_amount(row.reserved_usd),
            parse_time(row.created),
            bytes(first)[:16],
            count,
        )
    except (ValueError, TypeError, ArithmeticError):
        raise LedgerError(DAMAGED_MESSAGE.format(f"a batch job ({describe_row('jobs', row.number)})")) from None


def read_pending_jobs(connection: Connection, run: int) -> list[BatchJob]:
    """Return the jobs whose results are not stored yet, in the order in which they were created."""
    return [job for job in read_jobs(connection, run) if job.pending]


def has_uncollected_jobs(connection: Connection, run: int) -> bool:
    """Return whether there are jobs by whose results there are no verdicts yet: pending ones, or fetched ones of a
    process that was killed before it wrote the verdicts (it left the run `running`)."""
    killed = select(schema.runs.c.state).where(schema.runs.c.number == run).scalar_subquery() == RUNNING
    uncollected = or_(_J.state.in_((JOB_BEGUN, JOB_OPEN)), and_(_J.state == JOB_FETCHED, killed))
    return connection.scalar(select(_J.number).where(_J.run == run, uncollected).limit(1)) is not None


def read_request_keys(connection: Connection, run: int, job: BatchJob) -> list[bytes]:
    """Return the keys of the requests of a job, in order."""
    return split_ids(bytes(connection.scalar(select(_J.body).where(_matches(run, job))) or b""))


def read_handles(connection: Connection) -> list[Mapping[str, str]]:
    """Return the handles of all jobs of all runs."""
    handles: list[Mapping[str, str]] = []
    for number, handle in connection.execute(select(_J.number, _J.handle)):
        try:
            handles += [_HANDLE_DECODER.decode(handle)] if handle else []
        except ValueError:
            raise LedgerError(DAMAGED_MESSAGE.format(f"a batch job ({describe_row('jobs', number)})")) from None
    return handles


def sum_reserved_usd(connection: Connection, run: int) -> Decimal:
    """Return what jobs may still cost, or have cost without a verdict by them, in US dollars."""
    query = select(_J.number, _J.reserved_usd).where(_J.run == run, _J.state != JOB_CLOSED)
    amounts = (
        read_amount(amount, f"what a batch job may cost ({describe_row('jobs', number)})")
        for number, amount in connection.execute(query)
    )
    return sum(amounts, Decimal(0))


def _matches(run: int, job: BatchJob) -> ColumnElement[bool]:
    # Not by its number, which SQLite gives to the next job once this one is deleted.
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


def _write_replies(connection: Connection, run: int, replies: Mapping[bytes, BatchReply]) -> None:
    statement = insert_or_replace(connection, schema.replies, "run", "key")
    for part in chunks(list(replies.items())):
        rows: list[RowValues] = [
            {"run": run, "key": key, "body": pack([reply.stage, reply.tries, reply.status, reply.body])}
            for key, reply in part
        ]
        insert_rows(connection, statement, rows)


def unpack_reply(body: bytes, run: int, key: bytes) -> BatchReply:
    """Return a reply. Raises `LedgerError` if it is damaged."""
    what = f"a reply ({describe_row('replies', run, key)})"
    values = unpack(body, what)
    try:
        return BatchReply(*msgspec.convert(values, tuple[BatchStage, int, int, str]))
    except msgspec.ValidationError:
        raise LedgerError(DAMAGED_MESSAGE.format(what)) from None


class BatchJobStore(LedgerConnection):
    """The part of a `Ledger` that stores batch jobs."""

    def create_batch_job(
        self, run: str, judge: str, requests: Mapping[bytes, int], reserved_usd: Decimal
    ) -> BatchJob | None:
        """Store a job before it is submitted, so that one that a crash left in doubt can be looked for.

        Args:
            run: The run.
            judge: The identity of the judge.
            requests: Keys of the requests, with the number of the attempt.
            reserved_usd: What the job may cost at most.

        Returns:
            The job, or `None` if another process has a pending job with some of these requests: then do not submit it.
        """
        return self._write(create_job, run, judge, requests, reserved_usd)

    def mark_batch_submitted(
        self, run: str, job: BatchJob, handle: Mapping[str, str], requests: Mapping[bytes, int]
    ) -> None:
        """Store the provider's handle of a job that was submitted; `requests` are those of `create_batch_job`."""
        self._write(mark_submitted, run, job, handle, requests)

    def set_batch_handle(self, run: str, job: BatchJob, handle: Mapping[str, str]) -> bool:
        """Replace the handle of a job. Returns whether there is such a job."""
        return self._write(set_handle, run, job, handle)

    def store_batch_replies(self, run: str, replies: Mapping[bytes, BatchReply]) -> int:
        """Store replies to pending requests. Returns how many of them are new."""
        return self._write(store_replies, run, replies)

    def finish_batch_job(
        self,
        run: str,
        job: BatchJob,
        rest: BatchReply,
        cost_usd: Decimal,
        replies: Mapping[bytes, BatchReply] | None = None,
        handle: Mapping[str, str] | None = None,
    ) -> int:
        """Store that all results of a job have been fetched, in one transaction with the last of them.

        Args:
            run: The run.
            job: The job.
            rest: The reply to those of its requests that have got none.
            cost_usd: What the job cost.
            replies: The last replies.
            handle: A new handle, as in `set_batch_handle`.

        Returns:
            How many requests got `rest`.
        """
        return self._write(finish_job, run, job, rest, cost_usd, replies, handle)

    def delete_batch_job(self, run: str, job: BatchJob) -> None:
        """Delete a job that the provider never got; its requests can be asked again."""
        self._write(delete_job, run, job)

    def close_batch_jobs(self, run: str) -> None:
        """Close the fetched jobs of a run, once there are verdicts by all their replies."""
        self._write(close_fetched_jobs, run)

    def batch_replies(self, run: str, keys: Sequence[bytes]) -> dict[bytes, BatchReply]:
        """Return what is known of requests, by key; keys that were never submitted are left out."""
        return self._read(find_replies, run, keys)

    def batch_jobs(self, run: str) -> list[BatchJob]:
        """Return all jobs of a run, in the order in which they were created."""
        return self._read(read_jobs, run)

    def pending_batch_jobs(self, run: str) -> list[BatchJob]:
        """Return the jobs of a run whose results have not been fetched yet."""
        return self._read(read_pending_jobs, run)

    def has_uncollected_batches(self, run: str) -> bool:
        """Return whether a run has batch jobs by whose results there are no verdicts yet."""
        return self._read(has_uncollected_jobs, run)

    def batch_job_keys(self, run: str, job: BatchJob) -> list[bytes]:
        """Return the keys of the requests of a job, in order."""
        return self._read(read_request_keys, run, job)

    def batch_handles(self) -> list[Mapping[str, str]]:
        """Return the handles of all jobs of all runs."""
        with self._reading() as connection:
            return read_handles(connection)
