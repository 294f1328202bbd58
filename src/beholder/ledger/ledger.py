"""`Ledger`: the one class through which the rest of Beholder reads and writes a ledger.

Every method opens its own transaction, finds the run by its id or name, and calls a function of `read`, `write`,
`query`, `leases`, `batch_jobs` or `integrity`, where the SQL is. Nothing outside this package sees a connection.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypedDict, TypeVar, Unpack

from sqlalchemy import Connection, func, select

from beholder.cases.case import Case
from beholder.errors import LedgerError
from beholder.ledger import batch_jobs, integrity, leases, migrations, query, read, write
from beholder.ledger.database import Database, open_database, resolve_address
from beholder.ledger.encoding import storable_text, to_json_text
from beholder.ledger.types import (
    FINISHED,
    AnswerKey,
    BatchJob,
    ClaimResult,
    Entry,
    FilterValues,
    HeartbeatReply,
    RunCounts,
    RunProgress,
    RunRecord,
    StoredAnswer,
    StoredVerdict,
    VerdictFilter,
    VerdictKey,
    VerdictPage,
    WriteToken,
)
from beholder.verdicts.answer import BatchReply
from beholder.verdicts.verdict import Verdict

if TYPE_CHECKING:
    from types import TracebackType

    import polars


TIMEOUT_S = 30.0

_RUN_LOCK = 0x6265  # first number of PostgreSQL's advisory locks on runs, to tell them from those of other programs

P = ParamSpec("P")
T = TypeVar("T")


class RunChanges(TypedDict, total=False):
    """The fields of a run that may change after it was started."""

    name: str
    state: str
    total: int
    skipped: int
    tags: Sequence[str]


class Ledger:
    """An open ledger. It may be used from any thread, and by several processes at the same time.

    Every problem with the file or the server is a `LedgerError` of one sentence. Parameters called `run` take the id
    of a run, the start of its id if no other run starts so, its name (the newest run of that name), or "latest".
    """

    place: str
    """Where the ledger is, without a password: for messages."""
    path: Path | None
    """The file, or `None` for PostgreSQL."""
    shared: bool
    """Whether several processes may work on one run at the same time (PostgreSQL)."""

    address: str
    """Where the ledger is, as `open` takes it: with the password, so never show it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.place, self.path, self.address = database.place, database.path, database.address
        self.shared = database.path is None
        self._backend = database.backend
        self._engine = database.engine
        self._writer = database.backend.writer_engine(database.engine)

    @classmethod
    def open(
        cls,
        where: str | os.PathLike[str] | None = None,
        *,
        create: bool = True,
        read_only: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> Ledger:
        """Open a ledger, and upgrade its tables if they are of an older version.

        Args:
            where: A path, `sqlite:///path` or `postgresql://user@host/database`. By default the value of
                `BEHOLDER_LEDGER`, else `beholder.db`.
            create: Whether to create the ledger if there is none.
            read_only: Never create the ledger, and never write to it except to upgrade its tables.
            timeout_s: How long a write waits for another process; twice that where it had to terminate a process that
                had stalled.

        Raises:
            LedgerError: The ledger does not exist, cannot be opened, or was written by a newer Beholder.
        """
        create = create and not read_only
        ledger = cls(open_database(resolve_address(where), create=create, read_only=read_only, timeout_s=timeout_s))
        try:
            outdated = ledger._upgrade(create, read_only)
        except BaseException:
            ledger.close()
            raise
        if outdated:
            ledger.close()
            cls.open(ledger.address, create=False, timeout_s=timeout_s).close()
            return cls.open(ledger.address, read_only=True, timeout_s=timeout_s)
        return ledger

    def close(self) -> None:
        self._engine.dispose()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        """A read transaction."""
        with self._backend.translate_errors(self.place), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A write transaction, one at a time over all processes. It is rolled back when the block raises."""
        with self._backend.translate_errors(self.place), self._writer.begin() as connection:
            yield connection

    def _run_number(self, connection: Connection, run: str) -> int:
        """Return `runs.number` of a run, the key of its rows in the other tables."""
        return int(read.find_run(connection, run, self.place).number)

    def _find_number(self, run: str) -> int:
        with self._reading() as connection:
            return self._run_number(connection, run)

    def _read(
        self, work: Callable[Concatenate[Connection, int, P], T], run: str, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call `work` with a connection and the number of a run, in a read transaction."""
        with self._reading() as connection:
            return work(connection, self._run_number(connection, run), *args, **kwargs)

    def _write(
        self, work: Callable[Concatenate[Connection, int, P], T], run: str, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call `work` with a connection and the number of a run, in a write transaction."""
        with self._writing() as connection:
            return work(connection, self._run_number(connection, run), *args, **kwargs)

    @contextmanager
    def lock_run(self, run: str, *, alone: bool) -> Iterator[bool]:
        """Try to lock a run for this process until the end of the context, and yield whether that succeeded.

        Only for PostgreSQL, where the lock also ends with the process; a run in a file is locked by a file beside the
        ledger (`runs.ledger_access.lock_run`).

        Args:
            run: The run.
            alone: An exclusive lock; otherwise one that is shared with other processes that did not ask for it alone.
        """
        with self._backend.translate_errors(self.place), self._engine.connect() as connection:
            number = self._run_number(connection, run)
            lock = func.pg_try_advisory_lock if alone else func.pg_try_advisory_lock_shared
            locked = connection.scalar(select(lock(_RUN_LOCK, number)))
            connection.commit()
            try:
                yield bool(locked)
            finally:
                connection.invalidate()  # closes the connection, which releases the lock

    # Runs

    def start(self, run: RunRecord) -> None:
        """Store a new run. Anything in it that looks like a secret key is redacted."""
        with self._writing() as connection:
            write.insert_run(connection, run)

    def find_or_create(self, run: RunRecord, *, fresh: bool) -> tuple[RunRecord, bool]:
        """Return the newest run with the fingerprint of `run`, or store `run` if there is none.

        Of several processes that call this at the same time exactly one starts the run.

        Args:
            run: The run to start if there is none to resume.
            fresh: Resume only a run that was itself started with `fresh` (its suite says so) and is not finished.

        Returns:
            The run, and whether it was started by this call.
        """
        with self._writing() as connection:
            existing = read.find_newest_run(connection, run.fingerprint)
            if existing is not None and (
                not fresh or (existing.suite.get("fresh") is True and existing.state != FINISHED)
            ):
                return existing, False
            write.insert_run(connection, run)
        return run, True

    def run(self, name: str = "latest") -> RunRecord:
        """Return one run. Raises `LedgerError` if there is none of that name, or several ids start so."""
        with self._reading() as connection:
            return read.to_run_record(read.find_run(connection, name, self.place))

    def runs(self, *, tag: str | None = None) -> list[RunRecord]:
        """Return all runs, newest first: in the order in which they were started, whatever the clock said."""
        with self._reading() as connection:
            records = read.read_runs(connection)
        return records if tag is None else [record for record in records if tag in record.tags]

    def find(self, fingerprint: str) -> RunRecord | None:
        """Return the newest run with that fingerprint."""
        with self._reading() as connection:
            return read.find_newest_run(connection, fingerprint)

    def progress(self, runs: Sequence[str] | None = None) -> dict[str, RunProgress]:
        """Return how far runs are, by id; runs without verdicts are left out.

        Args:
            runs: Ids of runs; by default all runs.
        """
        with self._reading() as connection:
            return query.read_progress(connection, runs)

    def update(self, run: str, **changes: Unpack[RunChanges]) -> None:
        """Change fields of a run, and the time of its last change."""
        unknown = changes.keys() - RunChanges.__annotations__.keys()
        if unknown:
            raise TypeError(f"a run has no {', '.join(sorted(unknown))} to change")
        values: dict[str, object] = dict(changes)
        if "state" in changes:
            values["state"] = write.check_state(changes["state"])
        if "name" in changes:
            values["name"] = storable_text(changes["name"])
        if "tags" in changes:
            values["tags"] = to_json_text([storable_text(tag) for tag in changes["tags"]])
        self._write(write.update_run, run, **values)

    def update_suite(self, run: str, **changes: object) -> None:
        """Change entries of the suite that is stored with a run (a review's order)."""
        self._write(write.update_suite, run, **changes)

    def rename(self, run: str, name: str) -> None:
        if not name.strip():
            raise LedgerError("A run's name must not be empty.")
        self.update(run, name=name)

    def tag(self, run: str, *tags: str, remove: Sequence[str] = ()) -> tuple[str, ...]:
        """Add tags to a run and remove others. Returns the tags that it then has."""
        if any(not tag.strip() for tag in tags):
            raise LedgerError("A tag must not be empty.")
        with self._writing() as connection:
            row = read.find_run(connection, run, self.place)
            before = json.loads(row.tags)
            after = [tag for tag in dict.fromkeys((*before, *map(storable_text, tags))) if tag not in remove]
            write.update_run(connection, row.number, tags=to_json_text(after))
        return tuple(after)

    def delete(self, run: str) -> None:
        """Delete a run with its cases and verdicts, and the answers and thumbnails that no other run refers to.

        A file becomes smaller, and nothing of the run stays readable in it; PostgreSQL does that when it next vacuums.
        """
        self._write(write.delete_run, run)
        with self._backend.translate_errors(self.place):
            self._backend.shrink(self._engine)

    # Writing verdicts, and what a running process asks

    def write(
        self,
        run: str,
        entries: Sequence[Entry],
        worker: WriteToken | None = None,
        *,
        used_replies: Collection[bytes] = (),
    ) -> None:
        """Write verdicts in one transaction: when this returns all of them are stored, when it raises none is.

        A verdict on the same case by the same rubric is replaced, and what was spent is added to the run. If another
        worker has stored a score for the same case meanwhile, only the answers and their cost are stored.

        Args:
            run: The run.
            entries: The verdicts.
            worker: Makes the call idempotent: a batch is written once, however often this is called with the same
                token. It also ends the worker's leases.
            used_replies: Keys of replies from batch jobs that these verdicts were made from; they are marked as used
                in the same transaction, so that no reply is counted twice, whenever the process ends.
        """
        if not entries:
            return
        known_usd, unpriced = write.sum_costs(entries)
        with self._writing() as connection:
            row = read.find_run(connection, run, self.place)
            superseded: set[VerdictKey] = set()
            if worker is not None:
                if leases.is_already_written(connection, row.number, worker):
                    return
                superseded = leases.find_superseded(connection, row.number, worker, entries)
                leases.settle_leases(connection, row.number, worker, entries, known_usd)
            write.write_entries(connection, row.number, entries, superseded)
            write.update_run(
                connection,
                row.number,
                spent_usd=str(Decimal(row.spent_usd) + known_usd),
                unpriced=row.unpriced + unpriced,
            )
            if used_replies:
                batch_jobs.use_up(connection, row.number, used_replies)

    def write_rating(
        self,
        review: str,
        case_id: str,
        decide: Callable[[Sequence[Verdict]], Sequence[Entry]],
        *,
        total_cases: int | None = None,
    ) -> None:
        """Write a person's verdicts on a case of a review, which cost nothing.

        Args:
            review: The run of the review.
            case_id: The case.
            decide: Gets the verdicts that the review already has on the case, and returns those to write. It is called
                inside the transaction, so that nothing changes in between.
            total_cases: How many cases there are to rate: the run is finished when the last of them gets its first
                rating. `None` leaves the state of the run as it is.
        """
        self._write(write.write_rating, review, case_id, decide, total_cases)

    def outcomes(self, run: str, case_ids: Sequence[str] | None = None) -> dict[VerdictKey, str]:
        """Return the outcomes of verdicts by case id and rubric name: on these cases, or on all."""
        return self._read(read.read_outcomes, run, case_ids)

    def cached_answers(self, keys: Sequence[AnswerKey]) -> dict[AnswerKey, StoredAnswer]:
        """Return the newest stored answer to each key, whichever run paid for it; keys without one are left out."""
        with self._reading() as connection:
            return read.find_cached_answers(connection, keys)

    def answered_since(self, number: int) -> tuple[bytes, int]:
        """Return the ids of the keys that were answered after answer `number`, and the number of the newest answer.

        Args:
            number: What the last call returned; 0 for all answers.

        Returns:
            The ids (`encoding.key_id`, 16 bytes each) one after the other, and the number for the next call.
        """
        with self._reading() as connection:
            return read.read_answered_keys(connection, number)

    def has_thumbnail(self, digests: Sequence[str]) -> set[str]:
        """Return those of these image files (by the digest of the file) that have a thumbnail."""
        with self._reading() as connection:
            return read.find_thumbnails(connection, digests)

    # Several processes on one run

    def claim(self, run: str, holder: str, wanted: Collection[VerdictKey], final: Collection[str]) -> ClaimResult:
        """Lease cases for a worker, as far as no other worker has them and they have no `final` outcome."""
        return self._write(leases.claim_leases, run, holder, wanted, final)

    def heartbeat(self, run: str, holder: str, lease_s: float) -> HeartbeatReply:
        """Register a worker or renew its leases, for `lease_s` seconds from now on."""
        return self._write(leases.record_heartbeat, run, holder, lease_s)

    def leave(self, run: str, holder: str) -> None:
        """Remove a worker and end its leases."""
        self._write(leases.remove_worker, run, holder)

    def grant(self, run: str, holder: str, limit: Decimal, least: Decimal) -> Decimal:
        """Reserve more of a run's budget for a worker.

        Args:
            run: The run.
            holder: The worker.
            limit: The budget of the run in US dollars.
            least: What one call may cost; nothing is granted where less than that is left.

        Returns:
            The granted amount in US dollars: enough for several calls, or what is left, or 0.
        """
        return self._write(leases.grant_allowance, run, holder, limit, least)

    def active_workers(self, run: str) -> int:
        """Return how many workers have sent a heartbeat in time."""
        return self._read(leases.count_workers, run)

    # Batch jobs at providers

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
        return self._write(batch_jobs.create_job, run, judge, requests, reserved_usd)

    def mark_batch_submitted(
        self, run: str, job: BatchJob, handle: Mapping[str, str], requests: Mapping[bytes, int]
    ) -> None:
        """Store the provider's handle of a job that was submitted; `requests` are those of `create_batch_job`."""
        self._write(batch_jobs.mark_submitted, run, job, handle, requests)

    def set_batch_handle(self, run: str, job: BatchJob, handle: Mapping[str, str]) -> bool:
        """Replace the handle of a job. Returns whether there is such a job."""
        return self._write(batch_jobs.set_handle, run, job, handle)

    def store_batch_replies(self, run: str, replies: Mapping[bytes, BatchReply]) -> int:
        """Store replies to pending requests. Returns how many of them are new."""
        return self._write(batch_jobs.store_replies, run, replies)

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
        return self._write(batch_jobs.finish_job, run, job, rest, cost_usd, replies, handle)

    def delete_batch_job(self, run: str, job: BatchJob) -> None:
        """Delete a job that the provider never got; its requests can be asked again."""
        self._write(batch_jobs.delete_job, run, job)

    def close_batch_jobs(self, run: str) -> None:
        """Close the fetched jobs of a run, once there are verdicts by all their replies."""
        self._write(batch_jobs.close_fetched_jobs, run)

    def batch_replies(self, run: str, keys: Sequence[bytes]) -> dict[bytes, BatchReply]:
        """Return what is known of requests, by key; keys that were never submitted are left out."""
        return self._read(batch_jobs.find_replies, run, keys)

    def batch_jobs(self, run: str) -> list[BatchJob]:
        """Return all jobs of a run, in the order in which they were created."""
        return self._read(batch_jobs.read_jobs, run)

    def pending_batch_jobs(self, run: str) -> list[BatchJob]:
        """Return the jobs of a run whose results have not been fetched yet."""
        return self._read(batch_jobs.read_pending_jobs, run)

    def has_uncollected_batches(self, run: str) -> bool:
        """Return whether a run has batch jobs by whose results there are no verdicts yet."""
        return self._read(batch_jobs.has_uncollected_jobs, run)

    def batch_job_keys(self, run: str, job: BatchJob) -> list[bytes]:
        """Return the keys of the requests of a job, in order."""
        return self._read(batch_jobs.read_request_keys, run, job)

    def batch_handles(self) -> list[Mapping[str, str]]:
        """Return the handles of all jobs of all runs."""
        with self._reading() as connection:
            return batch_jobs.read_handles(connection)

    def reserved_usd(self, run: str) -> Decimal:
        """Return what jobs may still cost, or have cost without a verdict by them, in US dollars."""
        return self._read(batch_jobs.sum_reserved_usd, run)

    # Reading verdicts

    def stored_verdicts(
        self,
        run: str,
        *,
        case: str | None = None,
        outcome: str | None = None,
        rubric: str | None = None,
        answers: bool = False,
    ) -> Iterator[StoredVerdict]:
        """Stream the verdicts of a run with the groups of their cases, in the order of the cases.

        Args:
            run: The run.
            case: Only those on this case.
            outcome: Only those with this outcome.
            rubric: Only those by this rubric.
            answers: Whether to load the raw answers.
        """
        yield from read.stream_verdicts(
            self._reading, self._find_number(run), case=case, outcome=outcome, rubric=rubric, answers=answers
        )

    def stored_verdicts_on(self, run: str, case_ids: Sequence[str]) -> Iterator[StoredVerdict]:
        """Stream the verdicts on some cases, without raw answers, in no order that can be relied on."""
        yield from read.stream_verdicts_on(self._reading, self._find_number(run), case_ids)

    def verdicts(
        self, run: str, *, outcome: str | None = None, rubric: str | None = None, answers: bool = False
    ) -> Iterator[Verdict]:
        """Stream the verdicts of a run in the order of the cases; `answers` also loads the raw answers."""
        return (stored.verdict for stored in self.stored_verdicts(run, outcome=outcome, rubric=rubric, answers=answers))

    def verdict(self, run: str, case_id: str) -> list[Verdict]:
        """Return the verdicts on one case, one for each rubric, with raw answers. Raises `LedgerError` for none."""
        verdicts = self._read(read.read_case_verdicts, run, case_id)
        if not verdicts:
            raise LedgerError(f"There is no case {case_id!r} in the run {run!r}.")
        return verdicts

    def raw_answers(self, run: str, case_id: str) -> dict[str, list[str]]:
        """Return the raw answers behind the verdicts on a case, by rubric; of a jury one for each juror."""
        answers = self._read(read.read_raw_answers, run, case_id)
        if not answers:
            raise LedgerError(f"There is no case {case_id!r} in the run {run!r}.")
        return answers

    def browse(
        self, run: str, wanted: VerdictFilter, *, offset: int = 0, limit: int = 50, answers: bool = False
    ) -> VerdictPage:
        """Return a page of the verdicts of a run, filtered and sorted by the database."""
        return self._read(query.find_verdicts, run, wanted, offset, limit, answers=answers)

    def case_history(self, case_id: str, *, most: int = 60) -> list[tuple[str, StoredVerdict]]:
        """Return the verdicts on a case in all runs, with the ids of the runs, newest first."""
        with self._reading() as connection:
            return query.find_case_verdicts(connection, case_id, most)

    def counts(self, run: str) -> RunCounts:
        """Return how many verdicts of a run have which outcome and grade; answered from an index."""
        return self._read(query.count_outcomes, run)

    def tally(self, run: str) -> query.Tally:
        """Return the totals and means of a run. Reads every verdict; `counts` is quicker and tells less."""
        return query.tally_verdicts(read.stream_extracts(self._reading, self._find_number(run)))

    def filter_values(self, run: str) -> FilterValues:
        """Return the values by which the verdicts of a run can be filtered."""
        return self._read(query.read_filter_values, run)

    def has_several_styles(self, run: str) -> bool:
        """Return whether the verdicts of a run are by more than one style; no style counts as one."""
        return self._read(read.has_several_styles, run)

    def frame(self, run: str = "latest") -> polars.DataFrame:
        """Return the verdicts of a run as a Polars frame, with the columns of `beholder export --to parquet`."""
        from beholder.ledger.export import to_frame

        return to_frame(self.stored_verdicts(run))

    # Reading cases

    def cases(self, run: str) -> Iterator[Case]:
        """Stream the cases of a run that have a verdict, by id.

        Their images are absolute paths; web addresses are stored without their query, and of bytes and data URLs only
        the kind is stored.
        """
        yield from read.stream_cases(self._reading, self._find_number(run))

    def case(self, run: str, case_id: str) -> Case:
        """Return one case of a run. Raises `LedgerError` if there is none."""
        for case in read.stream_cases(self._reading, self._find_number(run), case=case_id):
            return case
        raise LedgerError(f"There is no case {case_id!r} in the run {run!r}.")

    def case_ids(self, run: str) -> list[str]:
        """Return the ids of the cases of a run that have a verdict, in the order of the ids."""
        return self._read(read.read_case_ids, run)

    def case_count(self, run: str) -> int:
        """Return how many cases of a run have a verdict."""
        return self._read(read.count_cases, run)

    def case_position(self, run: str, case_id: str) -> int | None:
        """Return the position of a case in its run, or `None` if it has no verdict."""
        return self._read(read.find_position, run, case_id)

    def cases_at(self, run: str, position: int) -> list[str]:
        """Return the ids of the cases at a position of a run: one as a rule, or none."""
        return self._read(read.find_cases_at, run, position)

    def case_groups(self, run: str, limit: int | None = None) -> dict[str, dict[str, str]]:
        """Return the groups of the cases of a run by case id: of the first `limit` cases, or of all."""
        return self._read(read.read_case_groups, run, limit)

    def group_values(self, run: str, group: str) -> dict[str, str]:
        """Return the value of one group by case id, in the order of `case_ids`; empty for cases without it."""
        return self._read(read.read_group_values, run, group)

    def rated_cases(self, reviews: Sequence[str]) -> dict[str, int]:
        """Return how many cases are rated and saved in these reviews, by id; reviews without any are left out."""
        with self._reading() as connection:
            return read.count_rated_cases(connection, reviews)

    def thumbnail(self, digest: str) -> bytes | None:
        """Return the WebP thumbnail of an image file, by the digest of the file."""
        with self._reading() as connection:
            return read.read_thumbnail(connection, digest)

    # The ledger itself

    def check(self) -> list[str]:
        """Check every row of the ledger. Returns the problems as sentences, none if it is sound."""
        try:
            with self._reading() as connection:
                return integrity.check_rows(connection, self._backend.check_pages(connection))
        except LedgerError as error:
            return [str(error)]

    def row_counts(self) -> dict[str, int]:
        """Return how many runs, cases, verdicts, answers and thumbnails there are."""
        with self._reading() as connection:
            return integrity.count_rows(connection)

    def size(self) -> int:
        """Return the size in bytes, as the database counts it."""
        with self._reading() as connection:
            return self._backend.size(connection)

    def _upgrade(self, create: bool, read_only: bool) -> bool:
        """Create or upgrade the tables; with `read_only`, return whether they are of an older version instead."""
        try:
            with self._reading() as connection:
                version = migrations.read_version(connection)
                migrations.check_version(version)
            if not version and not create and self.path is None:
                raise LedgerError(f"There is no ledger at {self.place!r}; name one with --ledger.")
            if read_only:
                return version < migrations.newest_version()
            # Also when there is nothing to upgrade: missing write access must show before anything is paid for.
            with self._writing() as connection:
                migrations.migrate(connection)
                self._backend.check_write_access(connection)
            return False
        except LedgerError as error:
            sentence = str(error)
            if sentence.startswith(("The ledger", "There is no ledger")):
                raise
            raise LedgerError(f"The ledger {self.place!r} {sentence}") from None
