"""Runs that are asked by batch: requests are queued in a file, submitted as jobs, and fetched later.

Submitting, fetching, repairing and submitting again are all the same pass (`BatchPass`):

    1. fetch the results of submitted jobs that have ended into the ledger (`BatchFetcher`);
    2. run the engine over the cases that are not done: those whose answers are all there get their verdicts, as live;
    3. submit what has no answer yet, unless it is in a job already.

All state is in the ledger, so a pass may be stopped or killed at any moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal

from msgspec.structs import replace as changed

from beholder.errors import LedgerError, SetupError, UsageError
from beholder.judges.base import INSTRUMENTS, CostBound, Judge, ReserveCall, ReservedCall, reserve_nothing
from beholder.judges.model import BatchJudge, ModelJudge
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import FINISHED, INTERRUPTED, RUNNING, WAITING, RunProgress
from beholder.providers.batch import (
    UNCONFIRMED,
    BatchClient,
    BatchNotFoundError,
)
from beholder.providers.retry import PermanentError, RetryableError
from beholder.rubrics.brief import Brief
from beholder.runs.batch_queue import BatchLedger, LedgerBatchQueue, Notify, open_request_folder
from beholder.runs.batch_results import HANDLE_CANCELED, HANDLE_FULL, BatchFetcher
from beholder.runs.engine import RunObserver, wait_or_stop
from beholder.runs.execution import SuiteRun, check_suite_cases, compute_fingerprint
from beholder.runs.ledger_access import LedgerThread, make_worker_name
from beholder.runs.limits import Budget, CallBudget, RunLimits
from beholder.runs.suite import Suite
from beholder.runs.suite_file import JudgeEntry
from beholder.runs.suite_judges import find_judge_price, make_cost_bound, make_judges
from beholder.verdicts.answer import Turn
from beholder.verdicts.verdict import ANSWERED_OUTCOMES, FINAL_OUTCOMES, Outcome


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
        retry_answered: Try again what failed although a job had an answer to it, as `run` does.
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
            raise SetupError(
                f"{judge.name} has no batch API that Beholder speaks; run it without (--batch or batch=True)."
            )
        if isinstance(judge, ModelJudge) and judge.settings.base_urls:
            raise SetupError(f"{judge.name} has several base URLs, and a batch is submitted at one; give one.")
    if all(judge.name == INSTRUMENTS for judge in judges):
        raise UsageError(
            "The instruments measure here and now; run them without a batch (--batch or batch=True), or name a model."
        )


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
    with Ledger.open(suite.ledger_place()) as ledger:
        checked = check_suite_cases(suite, ledger, skip_bad=skip_bad)
        record = ledger.run(run) if run else ledger.find(compute_fingerprint(suite, checked))
        if record is None:
            raise UsageError(
                "There is no run of this suite in the ledger; submit one (--batch or batch=True of `run`). If a "
                "case or image has changed since, name the run (--run or resume=)."
            )
        if record.state != WAITING and not ledger.has_uncollected_batches(record.id):
            raise UsageError(
                f"Nothing of the run {record.id} is under way; submit what is open (--batch or batch=True of `run`)."
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
        self._worker = make_worker_name()
        self._queues: dict[str, LedgerBatchQueue] = {}  # by identity of the judge

    async def run(self) -> BatchRunStatus:
        """Fetch what was answered, judge the cases whose answers are there, submit what has not been asked yet.

        Raises:
            SetupError: A judge cannot be asked at all.
            LedgerError: The ledger cannot be written.
        """
        with open_request_folder() as folder:
            self._queues = {
                judge.identity: LedgerBatchQueue(
                    judge, api, self._ledger_thread, self._run_id, self._budget, folder, self._notify
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
        suite, options = self._suite_run.suite, self._options
        ledger = BatchLedger(self._ledger, self._queues.values())
        judges = [
            self._make_batch_judge(judge, entry, retry_setup_errors, ledger.live_usd)
            for judge, entry in zip(self._suite_run.judges, suite.judges, strict=True)
        ]
        run = replace(
            self._suite_run,
            # Submitting a job takes as long as it takes: no case may time out meanwhile.
            suite=changed(suite, limits=changed(suite.limits, total_timeout_s=None)),
            ledger=ledger,
            judges=judges,
            limits=RunLimits(),
        )
        # Cases that are done and were asked again stay as they are unless there is a new answer.
        retry = options.retry if options.retry_answered else FINAL_OUTCOMES - ANSWERED_OUTCOMES
        try:
            state = await run.execute(self._observer, self._stop, retry)
            if self._budget.limit is not None:  # what live repairs had reserved: their verdicts are written
                await self._ledger_thread.call(self._ledger.leave, self._run_id, self._worker, Decimal("Infinity"))
            if not self._stop.is_set():
                # As long as requests are queued, there are cases without a verdict.
                await self._ledger_thread.call(lambda: self._ledger.update(self._run_id, state=RUNNING))
                for queue in self._queues.values():
                    await queue.submit()
        except BaseException:
            with suppress(LedgerError):
                self._ledger.update(self._run_id, state=INTERRUPTED)
                if ledger.written_usd:
                    self._ledger.leave(self._run_id, self._worker, ledger.written_usd)
            raise
        if state == FINISHED and not any(queue.used_replies for queue in self._queues.values()):
            await self._ledger_thread.call(self._ledger.close_batch_jobs, self._run_id)
        return state

    def _make_batch_judge(
        self, judge: Judge, entry: JudgeEntry, retry_setup_errors: bool, live_usd: dict[str, Decimal]
    ) -> Judge:
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
                calls = CallBudget(self._budget, live_bound)
                reserve = LiveRepairBudget(calls, self._ledger_thread, self._run_id, self._worker, live_usd).reserve
        return BatchJudge(
            judge,
            queue,
            cost_bound=cost_bound,
            ask_again=self._options.retry_answered,
            retry_setup_errors=retry_setup_errors,
            repair_live=self._options.repair_live,
            reserve=reserve,
        )


@dataclass(frozen=True, slots=True)
class LiveRepairBudget:
    """Reserves the cost of repairs that are asked live: in the budget of the pass, and in the ledger, so that it is not
    forgotten when the process is killed. There it stays reserved until the pass ends, and if that failed, what is in no
    written verdict stays reserved. `reserved` has it by the digest of the brief."""

    calls: CallBudget
    ledger_thread: LedgerThread
    run: str
    worker: str
    reserved: dict[str, Decimal]

    @asynccontextmanager
    async def reserve(
        self, brief: Brief, earlier: Sequence[Turn], max_tokens: int | None
    ) -> AsyncIterator[ReservedCall]:
        """Implements `judges.base.ReserveCall`. Raises `OverBudget`."""
        ledger, amount = self.ledger_thread.ledger, self.calls.cost_bound(brief, earlier, max_tokens)[0]
        async with self.calls.reserve(brief, earlier, max_tokens) as call:
            # The budget of the pass has decided: it also knows the requests that are queued.
            await self.ledger_thread.call(ledger.grant, self.run, self.worker, Decimal("Infinity"), amount, 1)
            try:
                yield call
            finally:
                kept = amount if call.cost_usd is None else call.cost_usd
                self.reserved[brief.digest] = self.reserved.get(brief.digest, Decimal(0)) + kept
                if kept != amount:
                    await self.ledger_thread.call(ledger.leave, self.run, self.worker, amount - kept)


MAX_POLL_S = 600.0


async def collect_results(
    make_pass: Callable[[], BatchPass],
    stop: asyncio.Event,
    *,
    pause_s: float | None = None,
    on_pass: Callable[[BatchRunStatus], None] | None = None,
) -> BatchRunStatus:
    """Make one pass over a batch run; with `pause_s`, repeat it until nothing is pending.

    Args:
        make_pass: Makes a pass.
        stop: When it is set, no other pass is begun.
        pause_s: Seconds to the second pass. Later ones wait longer as long as nothing new is answered.
        on_pass: Called after each pass.
    """
    next_pause_s = pause_s
    while True:
        status = await make_pass().run()
        if on_pass is not None:
            on_pass(status)
        if pause_s is None or next_pause_s is None or status.state != WAITING or stop.is_set():
            return status
        next_pause_s = pause_s if status.fetched else min(2 * next_pause_s, MAX_POLL_S)
        await wait_or_stop(stop, next_pause_s)


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
                notify(f"A job of {job.count} requests is not surely this run's; it was not canceled.")
                continue
            client = BatchClient(judge)
            try:
                await api.cancel(client, job.handle)
                handle = {**job.handle, HANDLE_CANCELED: "yes"}
                await ledger_thread.call(ledger.set_batch_handle, suite_run.id, job, handle)
                canceled += 1
            except (BatchNotFoundError, PermanentError, RetryableError) as error:  # it may have ended just now
                notify(f"A job of {job.count} requests was not canceled: {error}")
            finally:
                await client.aclose()
    finally:
        ledger_thread.close()
    return canceled
