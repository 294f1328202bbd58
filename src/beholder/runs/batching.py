"""A run that is asked by batch. Handing in, fetching, repairing and handing in again are all the same pass:

    1. jobs that were handed in are looked at, and the results of those that ended go into the ledger;
    2. the engine goes over the cases that are not done: those whose answers are all there get their verdicts, as live;
    3. what has no answer yet is handed in, unless it is under way.

Nothing but the ledger remembers anything in between, so a pass may be stopped, or killed, at any moment.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace as changed

from beholder.cases.checking import Checked
from beholder.errors import LedgerError, SetupError, UsageError
from beholder.judges.batched import BatchedJudge
from beholder.judges.batches import UNSURE, Forgotten, batches_of
from beholder.judges.batches.desk import Desk
from beholder.judges.model import ModelJudge
from beholder.judges.protocol import INSTRUMENTS, Judge
from beholder.judges.wires.faults import Again, Never
from beholder.ledger import Ledger, jobs
from beholder.ledger.model import FINISHED, INTERRUPTED, RUNNING, WAITING, Progress, RunRecord
from beholder.runs.budget import Budget, BudgetedJudge
from beholder.runs.clerk import Clerk
from beholder.runs.fetching import FULL, Fetching
from beholder.runs.running import most_for, price_for, run_suite, seated
from beholder.runs.sharing import Limits
from beholder.runs.suite import JudgeEntry, Suite
from beholder.runs.trays import LedgerTray, SettlingLedger, Tell
from beholder.runs.work import FINAL, Watch
from beholder.verdicts.model import Outcome

CANCELLED = "cancelled"  # in the handle of a job that was cancelled here


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run by batch stands after a pass: its jobs that are open with their requests, how many of those have been
    answered already as far as the provider says, and what this pass fetched and handed in."""

    state: str
    jobs: int = 0
    requests: int = 0
    answered: int = 0
    fetched: int = 0
    handed_in: int = 0


@dataclass(frozen=True, slots=True)
class How:
    """How a pass is made. `anew` tries again what has no score, as `run` does, where a job had an answer to it;
    `repair_live` asks for repairs at once and at the live price; `idle` goes over the cases even if nothing is new, and
    all was handed in before."""

    anew: bool = False
    repair_live: bool = False
    idle: bool = True
    retry: frozenset[Outcome] = frozenset()


def under_way(ledger: Ledger, run: str) -> list[jobs.Job]:
    """The jobs of a run whose results are not in the ledger yet."""
    with ledger.reading() as connection:
        return jobs.under_way(connection, ledger.number(connection, run))


def check_batch(suite: Suite) -> list[Judge]:
    """The judges of a suite that can be asked by batch; raises `UsageError` for one that cannot."""
    judges = seated(suite, Limits())
    if suite.engine != "local":
        raise UsageError("A batch is handed in by one process, without Ray; leave the engine at local.")
    for judge in judges:
        if judge.name != INSTRUMENTS and not (isinstance(judge, ModelJudge) and batches_of(judge.wire.name)):
            raise SetupError(f"{judge.name} has no batch API that Beholder speaks; leave --batch out.")
        if isinstance(judge, ModelJudge) and judge.settings.base_urls:
            raise SetupError(f"{judge.name} has several base URLs, and a batch is handed in at one; give one.")
    if all(judge.name == INSTRUMENTS for judge in judges):
        raise UsageError("The instruments measure here and now; leave --batch out, or name a model with --judge.")
    return judges


async def one_pass(
    suite: Suite,
    ledger: Ledger,
    run: RunRecord,
    checked: Checked,
    watch: Watch,
    stop: asyncio.Event,
    tell: Tell,
    how: How,
) -> Standing:
    """One pass over a run. The caller holds it, alone. `tell` gets sentences that a person should see.

    Raises `SetupError` where a judge cannot be asked at all, and `LedgerError`.
    """
    judges = check_batch(suite)
    clerk = Clerk(ledger)
    budget = Budget(suite.budget_usd())
    with tempfile.TemporaryDirectory(prefix="beholder-") as folder:
        trays = {
            judge.identity: LedgerTray(judge, api, clerk, run.id, budget, Path(folder), tell)
            for judge in judges
            if isinstance(judge, ModelJudge) and (api := batches_of(judge.wire.name))
        }
        try:
            found = await _under_way(clerk, run.id)
            cancelled = not how.anew and any(CANCELLED in job.handle for job in found)
            for tray in trays.values():
                tray.closed = "cancelled" if cancelled else ""
            fetched = Fetching(clerk, run.id, tell)
            await fetched.fetch(found, trays)
            await _keep_to_room(clerk, run.id, trays)
            state = ledger.run(run.id).state
            if fetched.requests or not found or how.idle or state != WAITING:
                budget.spent = (ledger.run(run.id).spent_usd or Decimal(0)) + await _set_aside(clerk, run.id)
                # An error that stopped the run is from before, and who starts it again may have mended the cause.
                mended = how.anew and not fetched.requests
                seats = [
                    _seat(judge, entry, trays, budget, how, mended)
                    for judge, entry in zip(judges, suite.judges, strict=True)
                ]
                state = await _go_over(suite, ledger, run, checked, seats, trays, watch, stop, how, clerk)
            left = await _under_way(clerk, run.id)
            if state == FINISHED and not cancelled and (left or any(tray.closed for tray in trays.values())):
                state = WAITING
            elif state == FINISHED:
                state = await clerk.do(_end_of, ledger, run, left)
            await clerk.do(lambda: ledger.update(run.id, state=state))
            return Standing(
                state,
                jobs=len(left),
                requests=sum(job.count for job in left),
                answered=fetched.answered,
                fetched=fetched.requests,
                handed_in=sum(tray.handed_in for tray in trays.values()),
            )
        finally:
            for tray in trays.values():
                await tray.aclose()
            clerk.close()


async def cancel_all(suite: Suite, ledger: Ledger, run: RunRecord, tell: Tell) -> int:
    """Cancels all jobs of a run at their providers; how many. What they had answered can still be fetched; what not is
    asked again only by a new `run`."""
    judges = {judge.identity: judge for judge in seated(suite, Limits()) if isinstance(judge, ModelJudge)}
    clerk = Clerk(ledger)
    cancelled = 0
    try:
        for job in await _under_way(clerk, run.id):
            judge = judges.get(job.judge)
            api = batches_of(judge.wire.name) if judge else None
            if judge is None or api is None or "id" not in job.handle or UNSURE in job.handle:
                tell(f"A job of {job.count} requests is not surely this run's; it was not cancelled.")
                continue
            desk = Desk(judge)
            try:
                await api.cancel(desk, job.handle)
                await clerk.write(jobs.set_handle, run.id, job, {**job.handle, CANCELLED: "yes"})
                cancelled += 1
            except (Forgotten, Never, Again) as error:  # it may have ended just now
                tell(f"A job of {job.count} requests was not cancelled: {error}")
            finally:
                await desk.aclose()
    finally:
        clerk.close()
    return cancelled


def _seat(
    judge: Judge, entry: JudgeEntry, trays: Mapping[str, LedgerTray], budget: Budget, how: How, mended: bool
) -> Judge:
    tray = trays.get(judge.identity)
    if tray is None or not isinstance(judge, ModelJudge):
        return judge
    batch, live = price_for(entry, batch=True), price_for(entry)
    bounded = budget.limit is not None
    repairs: Judge | None = None
    if how.repair_live:
        repairs = (
            BudgetedJudge(judge, budget, most_for(entry, live, judge.sizing.detail)) if bounded and live else judge
        )
    most = most_for(entry, batch, judge.sizing.detail) if bounded and batch else None
    return BatchedJudge(judge, tray, most=most, anew=how.anew, mended=mended, live=repairs)


async def _go_over(
    suite: Suite,
    ledger: Ledger,
    run: RunRecord,
    checked: Checked,
    seats: Sequence[Judge],
    trays: Mapping[str, LedgerTray],
    watch: Watch,
    stop: asyncio.Event,
    how: How,
    clerk: Clerk,
) -> str:
    # Handing in a job takes as long as it takes; a case must not be given up meanwhile.
    patient = changed(suite, limits=changed(suite.limits, total_timeout_s=None))
    settling = SettlingLedger(ledger, trays.values())
    limits = Limits(whole=True)
    # Also those that are done, and were asked again: they stay as they are unless there is a new answer.
    retry = how.retry if how.anew else FINAL - {Outcome.SCORED}
    try:
        state = await run_suite(patient, settling, run, checked, seats, limits, retry, watch, stop)
        if not stop.is_set():
            # There are cases without a verdict, as long as anything lies in a tray.
            await clerk.do(lambda: ledger.update(run.id, state=RUNNING))
            for tray in trays.values():
                await tray.hand_in()
    except BaseException:
        with suppress(LedgerError):
            ledger.update(run.id, state=INTERRUPTED)
        raise
    if state == FINISHED and not any(tray.answers for tray in trays.values()):
        await clerk.write(jobs.close, run.id)
    return state


async def _under_way(clerk: Clerk, run: str) -> list[jobs.Job]:
    return await clerk.do(under_way, clerk.ledger, run)


def _end_of(ledger: Ledger, run: RunRecord, left: Sequence[jobs.Job]) -> str:
    """The state of a run of which nothing more is awaited. The next `run` asks cases that have no verdict: they were
    cancelled, or have the brief of another case whose answer had no score."""
    done = ledger.progress(run.id).get(run.id, Progress()).done == run.total
    return FINISHED if done and not left else INTERRUPTED


async def _keep_to_room(clerk: Clerk, run: str, trays: Mapping[str, LedgerTray]) -> None:
    """Where a provider had no room for a job, it gets smaller ones, one after the other."""

    def read() -> tuple[list[jobs.Job], list[jobs.Job]]:
        with clerk.ledger.reading() as connection:
            number = clerk.ledger.number(connection, run)
            return jobs.ended(connection, number), jobs.under_way(connection, number)

    ended, left = await clerk.do(read)
    for job in ended:
        if FULL in job.handle and (tray := trays.get(job.judge)):
            tray.most_requests = min(tray.most_requests, max(1, job.count // 2))
            tray.only_one = True
            if any(other.judge == job.judge for other in left):
                tray.closed = tray.closed or "There is room for one job at a time."


async def _set_aside(clerk: Clerk, run: str) -> Decimal:
    def read() -> Decimal:
        with clerk.ledger.reading() as connection:
            return jobs.set_aside(connection, clerk.ledger.number(connection, run))

    return await clerk.do(read)
