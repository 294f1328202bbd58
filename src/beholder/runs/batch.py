"""A run that is asked by batch: requests are queued in a file, submitted as jobs, and fetched later.

Submitting, fetching, repairing and submitting again are all the same pass (`BatchPass`):

    1. fetch the results of submitted jobs that have ended into the ledger;
    2. run the engine over the cases that are not done: those whose answers are all there get their verdicts, as live;
    3. submit what has no answer yet, unless it is in a job already.

All state is in the ledger, so a pass may be stopped or killed at any moment.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace as changed

from beholder.errors import LedgerError, SetupError, UsageError
from beholder.judges.base import INSTRUMENTS, CostBound, Judge, ReserveCall, reserve_nothing
from beholder.judges.batch import BatchJudge
from beholder.judges.model import ModelJudge
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import FINISHED, INTERRUPTED, RUNNING, WAITING, RunProgress
from beholder.providers.batch import UNCONFIRMED, BatchClient, BatchNotFoundError
from beholder.providers.retry import PermanentError, RetryableError
from beholder.runs.batch_fetcher import HANDLE_CANCELED, HANDLE_FULL, BatchFetcher
from beholder.runs.batch_queue import BatchLedger, LedgerBatchQueue, Notify
from beholder.runs.engine import FINAL_OUTCOMES, RunObserver
from beholder.runs.execution import SuiteRun, check_suite_cases, compute_fingerprint
from beholder.runs.ledger_access import LedgerThread
from beholder.runs.limits import Budget, CallBudget, RunLimits
from beholder.runs.suite import Suite
from beholder.runs.suite_file import JudgeEntry
from beholder.runs.suite_judges import find_judge_price, make_cost_bound, make_judges
from beholder.verdicts.verdict import Outcome


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
