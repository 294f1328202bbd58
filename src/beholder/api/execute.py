"""`run`, `plan` and `collect`: judge the cases of a suite, say what that would cost, fetch what a batch has answered.

`run` and `collect` work on an event loop in a background thread, so they can be called from a script, in a notebook,
where an event loop runs already, and from any thread.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TypeVar

from beholder.api.arguments import JudgeArgument, SuiteLike, check_stop, make_suite, parse_outcomes
from beholder.api.loop import (
    Work,
    run_in_background,
    stop_early,
)
from beholder.api.options import OptionsLike
from beholder.api.run import Run
from beholder.errors import UsageError
from beholder.ledger.ledger import LedgerLike
from beholder.ledger.types import INTERRUPTED
from beholder.reports.progress import ProgressCounter, make_counter
from beholder.rubrics.rubric import Rubric
from beholder.runs import FIRST_POLL_S
from beholder.runs.batch import (
    BatchPass,
    BatchPassOptions,
    BatchRunStatus,
    cancel_jobs,
    collect_results,
    resume_batch_run,
)
from beholder.runs.engine import RunObserver
from beholder.runs.execution import SuiteRun, check_suite_cases, open_existing_ledger, prepare_run
from beholder.runs.plan import SAMPLE_SIZE, Plan, plan_run
from beholder.verdicts.verdict import Outcome

_log = logging.getLogger(__name__)

T = TypeVar("T")


def run(
    suite: SuiteLike | None = None,
    /,
    *,
    rubric: Rubric | str | os.PathLike[str] | None = None,
    cases: object = None,
    judge: JudgeArgument | Sequence[JudgeArgument] | None = None,
    ledger: LedgerLike = None,
    budget: float | None = None,
    fresh: bool = False,
    resume: str | Run = "",
    retry: str | Iterable[str] = (),
    skip_bad: bool = False,
    batch: bool = False,
    progress: bool | RunObserver | RunHooks | None = None,
    stop: threading.Event | None = None,
    options: OptionsLike = None,
    **settings: object,
) -> Run:
    """Judge all cases of a suite. If it was stopped, the same call resumes it; what is answered is not asked again.

    Ctrl-C finishes and stores the calls under way, and then raises `KeyboardInterrupt`; a second one stops at once.

    Args:
        suite: A `suite.yaml`, or a mapping with its keys; without it the keywords say it all, else they take
            precedence.
        rubric: A rubric, or its name, folder or YAML file.
        cases: A case file; or an iterable of `Case` objects or mappings, a `datasets.Dataset`, a frame of pandas or
            Polars.
        judge: A name such as `"openai:gpt-5-mini"`, a mapping as in `suite.yaml`, a `Judge` (its owner closes it), or
            several of them, which form a jury. By default the instruments, which measure offline.
        ledger: Where the run is stored: a path, a `postgresql://` URL or an open `Ledger`; by default BEHOLDER_LEDGER,
            else `beholder.db`. It is created if there is none.
        budget: US dollars that are never passed.
        fresh: Begin anew, and ask even what is answered already.
        resume: Resume this run, although its files were moved or touched.
        retry: Final outcomes to try again, such as "refused".
        skip_bad: Skip invalid cases.
        batch: Ask by the provider's batch API: at half the price, within a day. The run is then `waiting`, and
            `collect` fetches what is answered.
        progress: Whether to show a progress bar, by default on a terminal; or an object with the methods of
            `RunObserver`, which is notified from another thread. The command line has `RunHooks` of its own.
        stop: Once it is set, by another thread say, no new case is begun; those under way are finished and stored, and
            the run that is returned is `interrupted`.
        options: `Options` as for a `Session`, or a mapping with the same keys: the same as to give each by itself.
        **settings: Any other key of `suite.yaml` (`samples`, `threshold`, `fail_under`, `tags` …); the keys of `limits`
            and of a judge (`base_url`, `key_variable`, `params`, `price`, `structured_output`) also by themselves.

    Returns:
        The run; `passed` and `missed` say what the thresholds came to. A case that could not be judged is an outcome.

    Raises:
        UsageError: Something is wrong with suite, cases, judges or settings; found before the first call.
    """
    named = {"rubric": rubric, "cases": cases, "judge": judge, "ledger": ledger, "budget": budget}
    loaded, opened = make_suite(suite, {**settings, **named}, options)
    hooks = as_hooks(progress, stop)
    if resume and fresh:
        resumes, starts = hooks.name_argument("resume"), hooks.name_argument("fresh")
        raise UsageError(f"{resumes} resumes a run, and {starts} starts one; give one of them.")
    again = parse_outcomes(retry, hooks.name_argument("retry"))
    with prepare_run(loaded, opened, fresh=fresh, run=_run_id(resume), skip_bad=skip_bad, batch=batch) as suite_run:
        hooks.begin(suite_run)
        try:
            return execute_run(suite_run, hooks, again, batch=batch)
        except KeyboardInterrupt:  # what was in progress is lost, and the rest is stored
            if batch or not hooks.returns_interrupted:
                raise
            return make_run(suite_run, INTERRUPTED, hooks.observer)


def plan(
    suite: SuiteLike | None = None,
    /,
    *,
    skip_bad: bool = False,
    exact: bool = False,
    options: OptionsLike = None,
    **settings: object,
) -> Plan:
    """Return what a run would ask and cost: cases, calls, tokens, money, and the brief of one case.

    It asks nobody, needs no key, and creates no ledger.

    If more than 2,000 cases are pending, totals are extrapolated from a random sample of 2,000, with a margin of error.

    Args:
        suite: See `run`.
        skip_bad: Skip invalid cases.
        exact: Go through all cases, however many there are.
        options: See `run`.
        **settings: As for `run`: `rubric`, `cases`, `judge`, `ledger` and so on.

    Raises:
        UsageError: Something is wrong with suite, cases, judges or settings.
    """
    loaded, opened = make_suite(suite, settings, options)
    with ExitStack() as stack:
        if opened is None and (existing := open_existing_ledger(loaded, read_only=True)) is not None:
            opened = stack.enter_context(existing)
        checked = check_suite_cases(loaded, opened, skip_bad=skip_bad)
        size = None if exact else SAMPLE_SIZE
        return run_in_background(lambda stop: stop_early(stop, plan_run(loaded, checked, opened, sample_size=size)))


def collect(
    suite: SuiteLike | None = None,
    /,
    *,
    resume: str | Run = "",
    wait: bool = False,
    pause_s: float = FIRST_POLL_S,
    repair: str = "batch",
    cancel: bool = False,
    skip_bad: bool = False,
    progress: bool | RunObserver | RunHooks | None = None,
    stop: threading.Event | None = None,
    options: OptionsLike = None,
    **settings: object,
) -> Run:
    """Fetch what is answered of a run that was submitted with `run(…, batch=True)`; check and score it as always.

    Give the same suite and settings as to `run`. What expired is submitted again; so are repairs of invalid answers.

    Args:
        suite: See `run`.
        resume: The run, if cases or images have changed since.
        wait: Poll until everything is answered.
        pause_s: Seconds to the second poll; later ones take longer.
        repair: Ask for repairs in a following batch, or live: "batch" or "live".
        cancel: Cancel what is in progress at the provider instead; what it has answered before can still be fetched.
        skip_bad: Skip invalid cases.
        progress: See `run`.
        stop: Once it is set, the provider is not polled again.
        options: See `run`.
        **settings: As for `run`: `rubric`, `cases`, `judge`, `ledger` and so on.

    Returns:
        The run; its state is `waiting` while something is in progress at the provider.

    Raises:
        UsageError: Nothing of such a run is in progress; or as `run`.
    """
    hooks = as_hooks(progress, None if cancel else stop)
    if repair not in ("batch", "live"):
        raise UsageError(f"{hooks.name_argument('repair')} takes batch or live, and not {repair!r}.")
    loaded, _ = make_suite(suite, settings, options)
    pass_options = BatchPassOptions(repair_live=repair == "live", even_if_nothing_new=False)
    with resume_batch_run(loaded, run=_run_id(resume), skip_bad=skip_bad) as suite_run:
        if cancel:
            with suite_run.lock(alone=True):
                count = hooks.run_loop(lambda stop: stop_early(stop, cancel_jobs(suite_run, hooks.notify)))
            hooks.on_canceled(suite_run, count)
            return Run(suite_run.record, suite_run.ledger, loaded)
        hooks.begin(suite_run)
        return collect_batch(suite_run, hooks, pass_options, pause_s=pause_s if wait else None)


def _run_id(run: str | Run) -> str:
    return run.id if isinstance(run, Run) else run


def _is_observer(progress: object) -> bool:
    return all(callable(getattr(progress, name, None)) for name in ("on_skipped", "on_waiting", "on_written"))


class RunHooks:
    """How a run is driven, and who is told what. The command line derives its own, which prints.

    Attributes:
        observer: Gets notified of the progress. Set by `begin`.
        returns_interrupted: Whether a run that Ctrl-C has cut short is returned, instead of `KeyboardInterrupt` raised.
        stop: The argument of `run`.
    """

    observer: RunObserver
    returns_interrupted = False
    stop: threading.Event | None = None

    def __init__(self, progress: bool | RunObserver | None = None) -> None:
        if not isinstance(progress, bool | None) and not _is_observer(progress):
            raise UsageError(
                "progress is True, False, None or an object with the methods on_skipped, on_waiting and on_written, "
                f"and {type(progress).__name__} lacks one."
            )
        self._progress = progress

    def name_argument(self, name: str) -> str:
        """Return what messages call an argument of `run` or `collect`."""
        return name

    def begin(self, suite_run: SuiteRun) -> None:
        """Get ready for a run; called before it is executed."""
        progress = self._progress
        if progress is None or isinstance(progress, bool):
            self.observer = make_counter(suite_run.record.total, shown=progress)
        else:
            self.observer = progress

    def run_loop(self, work: Work[T]) -> T:
        """Run asynchronous work to its end, and tell it by its event to stop early."""
        return run_in_background(work, self.stop)

    def notify(self, sentence: str) -> None:
        """Show a sentence that a person should see."""
        _log.warning("%s", sentence)

    def on_pass(self, status: BatchRunStatus) -> None:
        """Called after each pass over a batch run."""
        _log.debug("%s", status)

    def on_canceled(self, suite_run: SuiteRun, jobs: int) -> None:
        """Called when jobs of a batch run were canceled."""
        _log.info("run %s: %d jobs canceled", suite_run.id, jobs)

    def close(self) -> None:
        """End the progress bar, if there is one."""
        if isinstance(self.observer, ProgressCounter):
            self.observer.close()


def as_hooks(progress: bool | RunObserver | RunHooks | None, stop: threading.Event | None) -> RunHooks:
    """Return how a run is driven, by the arguments `progress` and `stop` of `run`. Raises `UsageError`."""
    check_stop(stop)
    hooks = progress if isinstance(progress, RunHooks) else RunHooks(progress)
    hooks.stop = stop
    return hooks


def execute_run(
    suite_run: SuiteRun, hooks: RunHooks, retry: frozenset[Outcome] = frozenset(), *, batch: bool = False
) -> Run:
    """Execute a run: live, or as a batch where that is asked for or some of it is in one already.

    Raises:
        UsageError: Another process is working on the run.
    """
    ledger = suite_run.ledger
    # Requests that are in a provider's batch are not asked live as well.
    if batch or ledger.has_uncollected_batches(suite_run.id):
        return collect_batch(suite_run, hooks, BatchPassOptions(retry_answered=batch, retry=retry))
    suite_run.apply_name_and_tags()
    try:
        with suite_run.lock():
            if ledger.has_uncollected_batches(suite_run.id):
                raise UsageError(
                    f"The run {suite_run.id} was submitted as a batch just now; `beholder collect` fetches it."
                )
            state = hooks.run_loop(lambda stop: suite_run.execute(hooks.observer, stop, retry))
    finally:
        hooks.close()
    return make_run(suite_run, state, hooks.observer)


def collect_batch(
    suite_run: SuiteRun, hooks: RunHooks, options: BatchPassOptions, *, pause_s: float | None = None
) -> Run:
    """Make one pass over a batch run; with `pause_s`, repeat it until nothing is pending.

    Args:
        suite_run: The run.
        hooks: How it is driven.
        options: How a pass is made.
        pause_s: Seconds to the second pass; later ones wait longer.
    """
    observer, passes = hooks.observer, 0

    def make_pass(stop: asyncio.Event) -> BatchPass:
        nonlocal passes
        if passes and isinstance(observer, ProgressCounter):
            observer.restart()
        passes += 1
        return BatchPass(suite_run, options, observer, stop, hooks.notify)

    def end_pass(status: BatchRunStatus) -> None:
        hooks.close()
        hooks.on_pass(status)

    suite_run.apply_name_and_tags()
    try:
        with suite_run.lock(alone=True):
            status = hooks.run_loop(
                lambda stop: collect_results(partial(make_pass, stop), stop, pause_s=pause_s, on_pass=end_pass)
            )
    finally:
        hooks.close()
    return make_run(suite_run, status.state, observer)


def make_run(suite_run: SuiteRun, state: str, observer: RunObserver) -> Run:
    """Return a run that was executed just now and ended in `state`.

    Its summary was counted on the way, unless there were verdicts before, or other processes work on the run: reading
    it from the ledger costs a third of a millisecond a case.
    """
    ledger, summary = suite_run.ledger, None
    if isinstance(observer, ProgressCounter) and suite_run.is_new and not (observer.done_before or ledger.shared):
        summary = observer.tally
    return Run(replace(ledger.run(suite_run.id), state=state), ledger, suite_run.suite, summary)
