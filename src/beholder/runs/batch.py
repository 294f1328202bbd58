"""A run that is asked by batch: requests are queued in a file, submitted as jobs, and fetched later.

Submitting, fetching, repairing and submitting again are all the same pass (`BatchPass`):

    1. fetch the results of submitted jobs that have ended into the ledger;
    2. run the engine over the cases that are not done: those whose answers are all there get their verdicts, as live;
    3. submit what has no answer yet, unless it is in a job already.

All state is in the ledger, so a pass may be stopped or killed at any moment.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import IO

from msgspec.structs import replace as changed

from beholder.errors import LedgerError, SetupError, Unreachable, UsageError
from beholder.judges.base import INSTRUMENTS, CostBound, Judge, ReserveCall, reserve_nothing
from beholder.judges.batch import BatchJudge
from beholder.judges.model import ModelJudge
from beholder.ledger import types
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import FINISHED, INTERRUPTED, RUNNING, WAITING, Entry, RunProgress, WriteToken
from beholder.providers.base import HttpRequest
from beholder.providers.batch import (
    MAX_BATCH_BYTES,
    UNCONFIRMED,
    UNREADABLE_RESULT,
    BatchApi,
    BatchClient,
    BatchHandle,
    BatchNotFoundError,
    BatchResult,
    BatchState,
    BatchStatus,
    IncompleteResultsError,
    UnconfirmedBatch,
)
from beholder.providers.retry import PermanentError, RetryableError
from beholder.runs.concurrency import CallCoalescer
from beholder.runs.engine import FINAL_OUTCOMES, RunObserver
from beholder.runs.execution import SuiteRun, check_suite_cases, compute_fingerprint
from beholder.runs.ledger_access import LedgerThread
from beholder.runs.limits import Budget, CallBudget, RunLimits
from beholder.runs.suite import Suite
from beholder.runs.suite_file import JudgeEntry
from beholder.runs.suite_judges import find_judge_price, make_cost_bound, make_judges
from beholder.verdicts.answer import BatchReply, BatchStage
from beholder.verdicts.verdict import Outcome

Notify = Callable[[str], None]


class LedgerBatchQueue:
    """The requests and replies of one judge; implements `judges.batch.BatchQueue`.

    Requests go into one file, which is submitted as a job whenever it is full, and at the end (`submit`). So the disk
    holds one job at a time, and memory does not grow.

    Attributes:
        closed_reason: Why nothing more is submitted in this pass; further requests are left for the next one.
        one_job_at_a_time: Close the queue after a job.
        used_replies: By brief, the keys of replies that were read for cases without a verdict yet.
    """

    def __init__(
        self,
        judge: ModelJudge,
        api: BatchApi,
        ledger_thread: LedgerThread,
        run: str,
        budget: Budget,
        folder: Path,
        notify: Notify,
    ) -> None:
        self.judge, self.api, self.client = judge, api, BatchClient(judge)
        self.max_requests, self.max_bytes = api.max_requests, MAX_BATCH_BYTES
        self.one_job_at_a_time = False
        self.closed_reason = ""
        self.submitted = 0
        self.used_replies: dict[str, list[bytes]] = {}
        self._thread, self._ledger = ledger_thread, ledger_thread.ledger
        self._run, self._budget, self._notify = run, budget, notify
        self._path = folder / f"{id(self):x}.jsonl"
        self._file: IO[bytes] | None = None
        self._queued: dict[bytes, int] = {}  # requests in the file, with the number of the attempt
        self._submitted: Mapping[bytes, int] = {}  # those of the job that was submitted last
        self._reserved = Decimal(0)
        self._lock = asyncio.Lock()
        self._lookups: CallCoalescer[bytes, BatchReply | None] = CallCoalescer(self._look_up)

    async def find(self, key: bytes) -> BatchReply | None:
        """Return the reply that the ledger has; coalesced with the lookups of other cases."""
        return await self._lookups.call(key)

    async def put(self, key: bytes, tries: int, request: HttpRequest, max_usd: Decimal) -> None:
        if self.closed_reason or key in self._queued or key in self._submitted:
            return
        before, after = self.api.frame(key.hex())
        size = len(before) + len(request.body) + len(after) + len(self.api.separator)
        async with self._lock:
            if self._file is not None and (
                len(self._queued) >= self.max_requests or self._file.tell() + size > self.max_bytes
            ):
                await self._submit()
            if self.closed_reason or key in self._queued or key in self._submitted:
                return
            await self._budget.reserve(max_usd)
            if self._file is None:
                self._file = self._path.open("wb")
            self._file.write(self.api.separator if self._queued else self.api.prefix)
            self._file.write(before)
            self._file.writelines(request.body.chunks())
            self._file.write(after)
            self._queued[key] = tries
            self._reserved += max_usd

    def mark_used(self, brief_digest: str, key: bytes) -> None:
        self.used_replies.setdefault(brief_digest, []).append(key)

    async def submit(self) -> None:
        """Submit the queued requests as a job. Raises `SetupError` where it is refused for good."""
        async with self._lock:
            await self._submit()

    async def aclose(self) -> None:
        """Forget requests that were not submitted: the next pass queues them again."""
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)
        await self.client.aclose()

    async def _submit(self) -> None:
        if self._file is None:
            return
        self._file.write(self.api.suffix)
        self._file.close()
        self._file, requests, self._queued = None, self._queued, {}
        reserved, self._reserved = self._reserved, Decimal(0)
        self._submitted = requests
        job = await self._thread.call(self._ledger.create_batch_job, self._run, self.judge.identity, requests, reserved)
        if job is None:
            self._notify(f"Another process has just submitted some of the same requests for {self.judge.name}.")
            return
        handle = await self._send(job)
        if handle is not None:
            await self._thread.call(self._ledger.mark_batch_submitted, self._run, job, handle, requests)
            self.submitted += job.count
            if self.one_job_at_a_time:
                self.closed_reason = "There is room for one job at a time."

    async def _send(self, job: types.BatchJob) -> BatchHandle | None:
        """Send a job to the provider; `None` where it did not take it, or nobody knows whether it did."""
        try:
            return await self.api.submit(self.client, self._path, job.note)
        except RetryableError as again:
            if not again.rate_limited:
                self.closed_reason = (
                    f"{again} Nobody can tell whether it took a job of {job.count} requests; that is found out the "
                    "next time, before anything is asked again."
                )
                self._notify(self.closed_reason)
                return None
            self.closed_reason = f"{again} It takes no more jobs for now; the rest is submitted the next time."
        except Unreachable as error:
            self.closed_reason = f"{error} The rest is submitted the next time."
        except (PermanentError, SetupError) as error:
            await self._thread.call(self._ledger.delete_batch_job, self._run, job)
            raise SetupError(str(error)) from None
        await self._thread.call(self._ledger.delete_batch_job, self._run, job)
        self._notify(self.closed_reason)
        return None

    async def _look_up(self, keys: Sequence[bytes]) -> list[BatchReply | None]:
        there = await self._thread.call(self._ledger.batch_replies, self._run, list(keys))
        return [there.get(key) for key in keys]


class BatchLedger(Ledger):
    """A ledger that marks replies as used in the transaction that writes the verdicts made from them.

    So no reply is read for a second verdict and counted twice in the costs, whenever the process ends.
    """

    def __init__(self, ledger: Ledger, queues: Iterable[LedgerBatchQueue]) -> None:
        super().__init__(ledger.database)
        self._queues = tuple(queues)

    def write(
        self,
        run: str,
        entries: Sequence[Entry],
        worker: WriteToken | None = None,
        *,
        used_replies: Collection[bytes] = (),
    ) -> None:
        digests = _list_brief_digests(entries)
        used = [key for queue in self._queues for digest in digests for key in queue.used_replies.get(digest, ())]
        super().write(run, entries, worker, used_replies=[*used_replies, *used])
        for queue in self._queues:
            for digest in digests:
                queue.used_replies.pop(digest, None)


def _list_brief_digests(entries: Iterable[Entry]) -> set[str]:
    """Return the digests of all briefs that the verdicts answer."""
    verdicts = [entry.verdict for entry in entries]
    digests = {verdict.brief_digest for verdict in verdicts}
    digests |= {juror.brief_digest for verdict in verdicts if verdict.jury for juror in verdict.jury.jurors}
    return digests - {""}


RESULTS_PER_WRITE = 256  # results that are written together
MAX_INCOMPLETE_FETCHES = 5  # of results of which some are missing; then those are asked again

# Keys in the handle of a job: how often its results were incomplete; the ids of jobs that it turned out not to be; that
# the provider's queue was full.
HANDLE_FETCHES, HANDLE_OTHER_IDS, HANDLE_FULL = "looks", "not", "full"


class BatchFetcher:
    """Fetches the results of pending jobs.

    Attributes:
        requests: How many requests came back, or are in no pending job any more.
        answered: How many requests of pending jobs the provider has answered so far.
    """

    def __init__(self, ledger_thread: LedgerThread, run: str, notify: Notify) -> None:
        self.requests = 0
        self.answered = 0
        self._thread, self._ledger = ledger_thread, ledger_thread.ledger
        self._run, self._notify = run, notify

    async def fetch(self, jobs: Sequence[types.BatchJob], queues: Mapping[str, LedgerBatchQueue]) -> None:
        """Fetch what there is; a job whose provider cannot be reached just now stays pending."""
        for job in jobs:
            queue = queues.get(job.judge)
            if queue is None:
                self._notify(f"A job of {job.count} requests is for a judge at another base URL; it is left alone.")
                continue
            try:
                await self._fetch(queue, job)
            except (RetryableError, PermanentError, Unreachable) as error:
                self._notify(f"{_describe_job(queue, job)} cannot be looked at: {error}")

    async def _fetch(self, queue: LedgerBatchQueue, job: types.BatchJob) -> None:
        is_ours = False
        while not is_ours:
            try:
                found = job if "id" in job.handle else await self._find_submitted(queue, job)
                if found is None:
                    return
                job = found
                is_ours = await self._fetch_results(queue, job)
            except BatchNotFoundError:
                if UNCONFIRMED not in job.handle:
                    await self._thread.call(
                        self._ledger.finish_batch_job,
                        self._run,
                        job,
                        BatchReply(BatchStage.EXPIRED),
                        job.reserved_usd,
                    )
                    self.requests += job.count
                    said = "is forgotten by its provider; what it had not answered before is asked again."
                    return self._notify(f"{_describe_job(queue, job)} {said}")
            if not is_ours:
                others = f"{job.handle.get(HANDLE_OTHER_IDS, '')} {job.handle['id']}".strip()
                job = await self._save_handle(job, {HANDLE_OTHER_IDS: others})
        return None

    async def _find_submitted(self, queue: LedgerBatchQueue, job: types.BatchJob) -> types.BatchJob | None:
        """Look for a job at its provider that was created and may not have been submitted.

        Returns:
            The job with its handle, or `None` if it was never submitted: its requests are asked again.
        """
        # The ids of jobs that this ledger knows by more than their size and time.
        handles = await self._thread.call(self._ledger.batch_handles)
        others = {handle["id"] for handle in handles if "id" in handle and UNCONFIRMED not in handle}
        others |= set(job.handle.get(HANDLE_OTHER_IDS, "").split())
        handle = await queue.api.find(queue.client, UnconfirmedBatch(job.note, job.created, job.count, others))
        if handle is None:
            await self._thread.call(self._ledger.delete_batch_job, self._run, job)
            self.requests += job.count
            self._notify(f"{_describe_job(queue, job)} was begun and never submitted; they are asked again.")
            return None
        self._notify(f"{_describe_job(queue, job)} was found again at its provider.")
        return await self._save_handle(job, {**job.handle, **handle})

    async def _fetch_results(self, queue: LedgerBatchQueue, job: types.BatchJob) -> bool:
        """Fetch the results if the job has ended. Returns False if it turns out to be another job."""
        status = await queue.api.get_status(queue.client, job.handle)
        if status.state is not BatchState.ENDED:
            self.answered += status.answered + status.failed
            return True
        if status.queue_full:
            await self._reject_full(queue, job, status)
            return True
        return await self._store(queue, job, status)

    async def _reject_full(self, queue: LedgerBatchQueue, job: types.BatchJob, status: BatchStatus) -> None:
        """End a job that the provider's queue was too full for: smaller ones follow."""
        queue.closed_reason = f"{_describe_job(queue, job)} was too much for now ({status.reason})"
        refused = BatchReply(BatchStage.ERRORED, 1, 429, _error_body(status.reason))
        handle = {**job.handle, HANDLE_FULL: "yes"}
        await self._thread.call(self._ledger.finish_batch_job, self._run, job, refused, Decimal(0), {}, handle)
        await _clean_up_job(queue, job)
        self._notify(
            f"{queue.closed_reason}; they are submitted again the next time, in smaller jobs and one after the other."
        )

    async def _store(self, queue: LedgerBatchQueue, job: types.BatchJob, status: BatchStatus) -> bool:
        """Store the results of a job that ended; the last of them in one transaction with the state of the job.

        Returns:
            False if none of them is of this job.
        """
        wanted, cost = set(await self._thread.call(self._ledger.batch_job_keys, self._run, job)), Decimal(0)
        came: dict[bytes, BatchReply] = {}
        lines = nameless = new = 0
        try:
            async for result in queue.api.results(queue.client, job.handle):
                lines += 1
                key = _result_key(result)
                nameless += not result.key
                if key not in wanted:
                    continue
                if UNCONFIRMED in job.handle:
                    job = await self._save_handle(
                        job, {name: job.handle[name] for name in job.handle if name != UNCONFIRMED}
                    )
                wanted.discard(key)
                body = queue.judge.remove_api_keys(result.body.decode("utf-8", "replace"))
                came[key] = BatchReply(result.stage, 1, result.status, body)
                cost += _result_cost(queue.judge, result)
                if len(came) == RESULTS_PER_WRITE:
                    new += await self._thread.call(self._ledger.store_batch_replies, self._run, came)
                    came = {}
            if lines < status.answered + status.failed:
                raise IncompleteResultsError(
                    f"{queue.judge.name} has {status.answered + status.failed} results, and sent {lines}."
                )
        except RetryableError as again:
            new += await self._thread.call(self._ledger.store_batch_replies, self._run, came)
            came = {}
            looks = int(job.handle.get(HANDLE_FETCHES, "0")) + (isinstance(again, IncompleteResultsError) and not new)
            kept = f"{job.count - len(wanted)} of {job.count} are kept"
            if looks < MAX_INCOMPLETE_FETCHES:
                self.requests += new
                await self._save_handle(job, {**job.handle, HANDLE_FETCHES: str(looks)})
                self._notify(f"{again} {kept}; the rest is fetched the next time.")
                return True
            self._notify(f"{again} {kept}; the rest has not come {looks} times and is asked again.")
        if UNCONFIRMED in job.handle and not nameless:
            return False
        rest = BatchReply(status.unfinished_stage, 1, 400, _error_body(status.reason))
        if nameless:  # results without a key belong to some of the requests that are left
            rest = BatchReply(BatchStage.ERRORED, 1, 400, UNREADABLE_RESULT.decode())
        elif status.unfinished_stage is BatchStage.ERRORED:
            reason = status.reason or "it does not say why"
            self._notify(f"{queue.judge.name} refused a job of {job.count} requests: {reason}.")
        await self._thread.call(self._ledger.finish_batch_job, self._run, job, rest, cost, came)
        await _clean_up_job(queue, job)
        self.requests += job.count
        return True

    async def _save_handle(self, job: types.BatchJob, handle: Mapping[str, str]) -> types.BatchJob:
        if handle != job.handle:
            await self._thread.call(self._ledger.set_batch_handle, self._run, job, handle)
        return replace(job, handle=handle)


async def _clean_up_job(queue: LedgerBatchQueue, job: types.BatchJob) -> None:
    with suppress(RetryableError, PermanentError, BatchNotFoundError, Unreachable):
        await queue.api.delete_files(queue.client, job.handle)


def _describe_job(queue: LedgerBatchQueue, job: types.BatchJob) -> str:
    return f"A job of {job.count} requests for {queue.judge.name}"


def _error_body(why: str) -> str:
    return json.dumps({"error": {"message": why}})


def _result_key(result: BatchResult) -> bytes:
    try:
        return bytes.fromhex(result.key)
    except ValueError:
        return b""


def _result_cost(judge: ModelJudge, result: BatchResult) -> Decimal:
    if result.stage is not BatchStage.ANSWERED:
        return Decimal(0)
    try:
        return judge.parse_answer(result.body, batch=True).cost_usd or Decimal(0)
    except RetryableError:
        return Decimal(0)


HANDLE_CANCELED = "cancelled"  # key in the handle of a job that was canceled by `collect --cancel`


@dataclass(frozen=True, slots=True)
class BatchRunStatus:
    """The state of a run by batch after a pass. `beholder collect --json` prints it: the names are data.

    Attributes:
        state: That of the run.
        jobs: How many jobs are pending.
        requests: How many requests they have.
        answered: How many of these the provider says it has answered.
        fetched: How many requests this pass has fetched.
        handed_in: How many it has submitted.
    """

    state: str
    jobs: int = 0
    requests: int = 0
    answered: int = 0
    fetched: int = 0
    handed_in: int = 0


@dataclass(frozen=True, slots=True)
class BatchPassOptions:
    """How a pass is made.

    Attributes:
        retry_answered: Try again what has no score although a job had an answer to it, as `run` does.
        repair_live: Ask for repairs at once and at the live price.
        even_if_nothing_new: Go over the cases even if nothing was fetched and everything was submitted before.
        retry: Final outcomes to try again.
    """

    retry_answered: bool = False
    repair_live: bool = False
    even_if_nothing_new: bool = True
    retry: frozenset[Outcome] = frozenset()


def check_batch_judges(suite: Suite, judges: Sequence[Judge]) -> None:
    """Raise `UsageError` or `SetupError` where the judges of a suite cannot be asked by batch."""
    if suite.engine != "local":
        raise UsageError("A batch is submitted by one process, without Ray; leave the engine at local.")
    for judge in judges:
        if judge.name != INSTRUMENTS and not (isinstance(judge, ModelJudge) and judge.provider.batch):
            raise SetupError(f"{judge.name} has no batch API that Beholder speaks; leave --batch out.")
        if isinstance(judge, ModelJudge) and judge.settings.base_urls:
            raise SetupError(f"{judge.name} has several base URLs, and a batch is submitted at one; give one.")
    if all(judge.name == INSTRUMENTS for judge in judges):
        raise UsageError("The instruments measure here and now; leave --batch out, or name a model with --judge.")


@contextmanager
def resume_batch_run(suite: Suite, *, run: str = "", skip_bad: bool = False) -> Iterator[SuiteRun]:
    """Find the run of a suite that was submitted as a batch.

    Args:
        suite: What was submitted.
        run: The run, if cases or images have changed since.
        skip_bad: Leave out cases that are wrong.

    Raises:
        UsageError: There is no such run, or nothing of it is awaited.
    """
    with Ledger.open(suite.ledger_place(), create=False) as ledger:
        checked = check_suite_cases(suite, ledger, skip_bad=skip_bad)
        record = ledger.run(run) if run else ledger.find(compute_fingerprint(suite, checked))
        if record is None:
            raise UsageError(
                "There is no run of this suite in the ledger: `beholder run --batch` submits one. If a case or image "
                "has changed since, name the run with --run."
            )
        if record.state != WAITING and not ledger.has_uncollected_batches(record.id):
            raise UsageError(
                f"Nothing of the run {record.id} is under way; `beholder run --batch` submits what is open."
            )
        yield SuiteRun(suite, ledger, checked, record, make_judges(suite, RunLimits()))


class BatchPass:
    """One pass over a run that is asked by batch. The caller has locked the run for itself alone.

    Args:
        suite_run: The run.
        options: How the pass is made.
        observer: Gets notified of the progress.
        stop: When it is set, no new case is begun and nothing more is submitted.
        notify: Gets sentences that a person should see.
    """

    def __init__(
        self,
        suite_run: SuiteRun,
        options: BatchPassOptions,
        observer: RunObserver,
        stop: asyncio.Event,
        notify: Notify,
    ) -> None:
        check_batch_judges(suite_run.suite, suite_run.judges)
        self._suite_run, self._options = suite_run, options
        self._observer, self._stop, self._notify = observer, stop, notify
        self._ledger, self._run_id = suite_run.ledger, suite_run.id
        self._ledger_thread = LedgerThread(suite_run.ledger)
        self._budget = Budget(suite_run.suite.budget_usd())
        self._queues: dict[str, LedgerBatchQueue] = {}  # by identity of the judge

    async def run(self) -> BatchRunStatus:
        """Fetch what was answered, judge the cases whose answers are there, submit what has not been asked yet.

        Raises:
            SetupError: A judge cannot be asked at all.
            LedgerError: The ledger cannot be written.
        """
        with tempfile.TemporaryDirectory(prefix="beholder-") as folder:
            self._queues = {
                judge.identity: LedgerBatchQueue(
                    judge, api, self._ledger_thread, self._run_id, self._budget, Path(folder), self._notify
                )
                for judge in self._suite_run.judges
                if isinstance(judge, ModelJudge) and (api := judge.provider.batch)
            }
            try:
                return await self._run()
            finally:
                for queue in self._queues.values():
                    await queue.aclose()
                self._ledger_thread.close()

    async def _run(self) -> BatchRunStatus:
        ledger, run_id, options = self._ledger, self._run_id, self._options
        pending = await self._ledger_thread.call(ledger.pending_batch_jobs, run_id)
        canceled = not options.retry_answered and any(HANDLE_CANCELED in job.handle for job in pending)
        for queue in self._queues.values():
            queue.closed_reason = "cancelled" if canceled else ""
        fetcher = BatchFetcher(self._ledger_thread, run_id, self._notify)
        await fetcher.fetch(pending, self._queues)
        await self._respect_provider_capacity()
        record = ledger.run(run_id)
        state = record.state
        if fetcher.requests or not pending or options.even_if_nothing_new or state != WAITING:
            reserved = await self._ledger_thread.call(ledger.reserved_usd, run_id)
            self._budget.spent = (record.spent_usd or Decimal(0)) + reserved
            # An error that stopped the run is from before, and the user may have corrected its cause since.
            state = await self._judge_open_cases(retry_setup_errors=options.retry_answered and not fetcher.requests)
        pending = await self._ledger_thread.call(ledger.pending_batch_jobs, run_id)
        if (
            state == FINISHED
            and not canceled
            and (pending or any(queue.closed_reason for queue in self._queues.values()))
        ):
            state = WAITING
        elif state == FINISHED:
            # Cases without a verdict were canceled, or have the brief of another case whose answer had no score: the
            # next `run` asks them.
            progress = await self._ledger_thread.call(ledger.progress, [run_id])
            done = progress.get(run_id, RunProgress()).done == self._suite_run.record.total
            state = FINISHED if done and not pending else INTERRUPTED
        await self._ledger_thread.call(lambda: ledger.update(run_id, state=state))
        return BatchRunStatus(
            state,
            jobs=len(pending),
            requests=sum(job.count for job in pending),
            answered=fetcher.answered,
            fetched=fetcher.requests,
            handed_in=sum(queue.submitted for queue in self._queues.values()),
        )

    async def _respect_provider_capacity(self) -> None:
        """Where a provider's queue was too full for a job, submit smaller ones, one after the other."""
        jobs = await self._ledger_thread.call(self._ledger.batch_jobs, self._run_id)
        for job in jobs:
            if not job.pending and HANDLE_FULL in job.handle and (queue := self._queues.get(job.judge)):
                queue.max_requests = min(queue.max_requests, max(1, job.count // 2))
                queue.one_job_at_a_time = True
                if any(other.pending and other.judge == job.judge for other in jobs):
                    queue.closed_reason = queue.closed_reason or "There is room for one job at a time."

    async def _judge_open_cases(self, *, retry_setup_errors: bool) -> str:
        suite, ledger, options = self._suite_run.suite, self._ledger, self._options
        judges = [
            self._make_batch_judge(judge, entry, retry_setup_errors)
            for judge, entry in zip(self._suite_run.judges, suite.judges, strict=True)
        ]
        run = replace(
            self._suite_run,
            # Submitting a job takes as long as it takes: no case may time out meanwhile.
            suite=changed(suite, limits=changed(suite.limits, total_timeout_s=None)),
            ledger=BatchLedger(ledger, self._queues.values()),
            judges=judges,
            limits=RunLimits(not_shared=True),
        )
        # Cases that are done and were asked again stay as they are unless there is a new answer.
        retry = options.retry if options.retry_answered else FINAL_OUTCOMES - {Outcome.SCORED}
        try:
            state = await run.execute(self._observer, self._stop, retry)
            if not self._stop.is_set():
                # As long as requests are queued, there are cases without a verdict.
                await self._ledger_thread.call(lambda: ledger.update(self._run_id, state=RUNNING))
                for queue in self._queues.values():
                    await queue.submit()
        except BaseException:
            with suppress(LedgerError):
                ledger.update(self._run_id, state=INTERRUPTED)
            raise
        if state == FINISHED and not any(queue.used_replies for queue in self._queues.values()):
            await self._ledger_thread.call(ledger.close_batch_jobs, self._run_id)
        return state

    def _make_batch_judge(self, judge: Judge, entry: JudgeEntry, retry_setup_errors: bool) -> Judge:
        queue = self._queues.get(judge.identity)
        if queue is None or not isinstance(judge, ModelJudge):
            return judge
        cost_bound: CostBound | None = None
        reserve: ReserveCall = reserve_nothing
        if self._budget.limit is not None:
            batch_price, live_price = find_judge_price(entry, batch=True), find_judge_price(entry)
            if batch_price:
                cost_bound = make_cost_bound(entry, batch_price, judge.sizing.detail)
            if live_price:
                live_bound = make_cost_bound(entry, live_price, judge.sizing.detail)
                reserve = CallBudget(self._budget, live_bound).reserve
        return BatchJudge(
            judge,
            queue,
            cost_bound=cost_bound,
            ask_again=self._options.retry_answered,
            retry_setup_errors=retry_setup_errors,
            repair_live=self._options.repair_live,
            reserve=reserve,
        )


async def cancel_jobs(suite_run: SuiteRun, notify: Notify) -> int:
    """Cancel all jobs of a run at their providers.

    What they had answered can still be fetched; the rest is asked again only by a new `run`.

    Returns:
        How many were canceled.
    """
    judges = {judge.identity: judge for judge in suite_run.judges if isinstance(judge, ModelJudge)}
    ledger_thread, ledger = LedgerThread(suite_run.ledger), suite_run.ledger
    canceled = 0
    try:
        for job in await ledger_thread.call(ledger.pending_batch_jobs, suite_run.id):
            judge = judges.get(job.judge)
            api = judge.provider.batch if judge else None
            if judge is None or api is None or "id" not in job.handle or UNCONFIRMED in job.handle:
                notify(f"A job of {job.count} requests is not surely this run's; it was not cancelled.")
                continue
            client = BatchClient(judge)
            try:
                await api.cancel(client, job.handle)
                handle = {**job.handle, HANDLE_CANCELED: "yes"}
                await ledger_thread.call(ledger.set_batch_handle, suite_run.id, job, handle)
                canceled += 1
            except (BatchNotFoundError, PermanentError, RetryableError) as error:  # it may have ended just now
                notify(f"A job of {job.count} requests was not cancelled: {error}")
            finally:
                await client.aclose()
    finally:
        ledger_thread.close()
    return canceled
