"""Fetching the results of batch jobs from a provider into the ledger.

A job that a crash left in doubt is looked for at its provider first. Results are written as they come, so that fetching
may break off at any moment; the last of them are written in one transaction with the end of the job.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal

from beholder.errors import Unreachable
from beholder.judges.model import ModelJudge
from beholder.ledger import types
from beholder.providers.batch import (
    UNCONFIRMED,
    UNREADABLE_RESULT,
    BatchNotFoundError,
    BatchResult,
    BatchState,
    BatchStatus,
    IncompleteResultsError,
    UnconfirmedBatch,
)
from beholder.providers.retry import PermanentError, RetryableError
from beholder.runs.batch_queue import LedgerBatchQueue, Notify
from beholder.runs.ledger_access import LedgerThread
from beholder.verdicts.answer import BatchReply, BatchStage

SPARE_LINES = 1000  # of results that belong to no request


RESULTS_PER_WRITE = 256  # results that are written together


MAX_INCOMPLETE_FETCHES = 5  # of results of which some are missing; then those are asked again


# State that Beholder keeps in the handle of a job, beside the keys of its provider such as `id`. The words are stored
# in ledgers.
HANDLE_FETCHES = "looks"  # how often its results were incomplete


HANDLE_OTHER_IDS = "not"  # ids of jobs at the provider that it turned out not to be, separated by spaces


HANDLE_FULL = "full"  # the provider's queue was too full for it


HANDLE_CANCELED = "cancelled"  # `collect --cancel` has canceled it


@dataclass(slots=True)
class _ReceivedResults:
    """What was received of the results of a job so far.

    Attributes:
        job: The job; if it was unconfirmed, without that mark once a result shows that it is ours.
        missing: Keys of requests whose results have not come.
        unwritten: Replies by key that the ledger does not have yet.
        lines: How many results came, whether of this job or not.
        unnamed: How many of them had no key.
        new: How many replies were written that the ledger did not have before.
        cost_usd: What the answers cost as far as it is known.
    """

    job: types.BatchJob
    missing: set[bytes]
    unwritten: dict[bytes, BatchReply] = field(default_factory=dict)
    lines: int = 0
    unnamed: int = 0
    new: int = 0
    cost_usd: Decimal = Decimal(0)


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
        keys = await self._thread.call(self._ledger.batch_job_keys, self._run, job)
        received = _ReceivedResults(job, missing=set(keys))
        try:
            await self._receive(queue, received)
            expected = status.answered + status.failed
            if received.missing and received.lines < expected:
                raise IncompleteResultsError(f"{queue.judge.name} has {expected} results, and sent {received.lines}.")
        except RetryableError as error:
            if await self._fetch_rest_later(received, error):
                return True
        if UNCONFIRMED in received.job.handle and not received.unnamed:
            return False
        await self._finish(queue, received, status)
        return True

    async def _receive(self, queue: LedgerBatchQueue, received: _ReceivedResults) -> None:
        """Receive the results of a job and write them, but for the last ones, which stay in `received.unwritten`.

        Raises:
            RetryableError: Some have not come; `received` has those that have.
        """
        # A job has one result for each request; a stream with many more of them may have no end.
        most_lines = SPARE_LINES + 2 * received.job.count
        async with aclosing(queue.api.results(queue.client, received.job.handle)) as results:
            async for result in results:
                received.lines += 1
                received.unnamed += not result.key
                if (key := _result_key(result)) in received.missing:
                    await self._take(queue.judge, received, key, result)
                if not received.missing or received.lines > most_lines:
                    break

    async def _take(self, judge: ModelJudge, received: _ReceivedResults, key: bytes, result: BatchResult) -> None:
        if UNCONFIRMED in received.job.handle:
            confirmed = {name: value for name, value in received.job.handle.items() if name != UNCONFIRMED}
            received.job = await self._save_handle(received.job, confirmed)
        received.missing.discard(key)
        body = judge.remove_api_keys(result.body.decode("utf-8", "replace"))
        received.unwritten[key] = BatchReply(result.stage, 1, result.status, body)
        received.cost_usd += _result_cost(judge, result)
        if len(received.unwritten) == RESULTS_PER_WRITE:
            await self._write(received)

    async def _write(self, received: _ReceivedResults) -> None:
        received.new += await self._thread.call(self._ledger.store_batch_replies, self._run, received.unwritten)
        received.unwritten = {}

    async def _fetch_rest_later(self, received: _ReceivedResults, error: RetryableError) -> bool:
        """Write what has come of results that are not complete.

        Returns:
            Whether the rest is fetched the next time; False if it has failed to come too often, and is asked again.
        """
        await self._write(received)
        job = received.job
        # A fetch that brought something new does not count: the next one may bring the rest.
        brought_nothing = isinstance(error, IncompleteResultsError) and not received.new
        fetches = int(job.handle.get(HANDLE_FETCHES, "0")) + brought_nothing
        kept = f"{job.count - len(received.missing)} of {job.count} are kept"
        if fetches >= MAX_INCOMPLETE_FETCHES:
            self._notify(f"{error} {kept}; the rest has not come {fetches} times and is asked again.")
            return False
        self.requests += received.new
        await self._save_handle(job, {**job.handle, HANDLE_FETCHES: str(fetches)})
        self._notify(f"{error} {kept}; the rest is fetched the next time.")
        return True

    async def _finish(self, queue: LedgerBatchQueue, received: _ReceivedResults, status: BatchStatus) -> None:
        """End a job: write its last results, and why those that are missing have none."""
        job = received.job
        rest = BatchReply(status.unfinished_stage, 1, 400, _error_body(status.reason))
        if received.unnamed:  # results without a key belong to some of the requests that are left
            rest = BatchReply(BatchStage.ERRORED, 1, 400, UNREADABLE_RESULT.decode())
        elif status.unfinished_stage is BatchStage.ERRORED:
            reason = status.reason or "it does not say why"
            self._notify(f"{queue.judge.name} refused a job of {job.count} requests: {reason}.")
        await self._thread.call(
            self._ledger.finish_batch_job, self._run, job, rest, received.cost_usd, received.unwritten
        )
        await _clean_up_job(queue, job)
        self.requests += job.count

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
