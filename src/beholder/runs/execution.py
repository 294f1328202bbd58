"""A run of a suite: check the cases, find or create the run, execute it, compare it with the thresholds.

The exit code of `beholder run` follows from the thresholds:

1  a threshold was missed: a mean below `fail_under`, or more cases without a score than `max_unscored` allows
3  some cases have no score, and `max_unscored` was not given
4  there are thresholds, and the run still waits for a batch (`api.run`)
0  otherwise
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import platform
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from itertools import islice

import msgspec

from beholder.cases.case import Case
from beholder.cases.validation import CaseCheck, check_cases, iter_valid_cases
from beholder.errors import CaseError, LedgerError, LedgerGone, UsageError
from beholder.judges.base import Judge, check_judges
from beholder.ledger.database import ledger_exists
from beholder.ledger.encoding import redact_values
from beholder.ledger.ledger import Ledger
from beholder.ledger.query import Tally
from beholder.ledger.types import FINISHED, INTERRUPTED, RUNNING, RunProgress, RunRecord
from beholder.rubrics.rubric import to_fraction
from beholder.runs.engine import Engine, RunObserver, RunSettings
from beholder.runs.image_pool import ImagePool
from beholder.runs.ledger_access import RETRY_FOR_S, LedgerThread, lock_run
from beholder.runs.limits import Budget, RunLimits
from beholder.runs.suite import Suite
from beholder.runs.suite_judges import make_judges, require_prices
from beholder.verdicts.verdict import Outcome, format_beside

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SuiteRun:
    """One run of a suite in this process, ready to be executed. Made by `prepare_run`.

    Attributes:
        suite: What is run.
        ledger: Where the run is stored.
        checked: The result of checking the cases.
        record: The run in the ledger.
        judges: Those of the suite.
        limits: The limits of these judges.
        is_new: Whether the run was created just now; otherwise it is resumed.
    """

    suite: Suite
    ledger: Ledger
    checked: CaseCheck
    record: RunRecord
    judges: Sequence[Judge]
    limits: RunLimits = field(default_factory=RunLimits)
    is_new: bool = False

    @property
    def id(self) -> str:
        return self.record.id

    def lock(self, *, alone: bool = False) -> AbstractContextManager[None]:
        """Lock the run for this process: see `lock_run`."""
        return lock_run(self.ledger, self.id, alone=alone)

    def apply_name_and_tags(self) -> None:
        """Give a run that is resumed the name and tags that were set by flag."""
        if self.is_new:
            return
        if "name" in self.suite.flag_keys:
            self.ledger.rename(self.id, self.suite.name)
        if "tags" in self.suite.flag_keys:
            self.ledger.tag(self.id, *self.suite.tags)

    async def execute(self, observer: RunObserver, stop: asyncio.Event, retry: frozenset[Outcome] = frozenset()) -> str:
        """Judge all cases that have no final outcome yet, and close the judges.

        Args:
            observer: Gets notified of the progress.
            stop: When it is set, no new case is begun.
            retry: Final outcomes to try again.

        Returns:
            The state of the run: `finished`, or `interrupted` if `stop` was set before the end. A run that other
            processes are still working on stays `running` in the ledger.
        """
        state = INTERRUPTED
        self.ledger.update(self.id, state=RUNNING)
        _log.info("run %s %s: %s", self.id, "begun" if self.is_new else "resumed", self.record.name or "no name")
        try:
            await self._execute(observer, stop, retry)
            if not stop.is_set() or (self.suite.objects.rounds is None and self._count_done() == self.record.total):
                state = FINISHED
            return state
        finally:
            for judge in self.judges:
                if not self.suite.is_handed_in(judge):
                    await judge.aclose()
            await _record_final_state(self.ledger, self.id, state)
            _log.info("run %s %s", self.id, state)

    def _count_done(self) -> int:
        return self.ledger.progress([self.id]).get(self.id, RunProgress()).done

    async def _execute(self, observer: RunObserver, stop: asyncio.Event, retry: frozenset[Outcome]) -> None:
        suite, rounds = self.suite, self.suite.objects.rounds
        settings = RunSettings(
            run_id=self.id,
            composers=suite.composers(),
            samples=suite.samples,
            concurrency=suite.concurrency,
            timeout_s=suite.limits.total_timeout_s,
            retry=retry,
            use_cache=not self.record.suite.get("fresh"),
            thumbnails=suite.thumbnails,
            audit=suite.audit,
            calibration=suite.loaded_calibration(),
            lease_s=suite.limits.lease_s,
            growing=rounds is not None,
        )

        def cases() -> Iterator[Case]:
            return iter_valid_cases(suite.rows(open_files=False), self.checked)  # read on the event loop

        if rounds is None:
            await self._judge_cases(settings, cases, observer, stop)
            return

        def only(ids: frozenset[str]) -> Iterator[Case]:
            return (case for case in cases() if case.id in ids)

        every = frozenset(case.id for case in cases())
        if begun := frozenset(self.ledger.case_ids(self.id)):  # what an earlier start left without a final outcome
            await self._judge_cases(settings, partial(only, begun), observer, stop)
        while not stop.is_set() and (chosen := frozenset(rounds.choose_cases(self.ledger, self.id, every))):
            await self._judge_cases(settings, partial(only, chosen), observer, stop)

    async def _judge_cases(
        self,
        settings: RunSettings,
        cases: Callable[[], Iterator[Case]],
        observer: RunObserver,
        stop: asyncio.Event,
    ) -> None:
        suite = self.suite
        if suite.engine == "ray":
            from beholder.runs.ray.driver import RayEngine

            await RayEngine(settings, cases, self.ledger, self.limits, observer, stop).run_on_cluster(suite)
            return
        images = ImagePool(allow_remote=suite.allow_remote)
        try:
            await Engine(settings, cases, self.ledger, self.limits, observer, stop).run(self.judges, images)
        finally:
            images.close()


async def _record_final_state(ledger: Ledger, run: str, state: str) -> None:
    """Store how a run ended, unless other processes are still working on it.

    If it was not finished, a ledger that cannot be written is no error: what kept the run from finishing matters more.
    """
    finished = state == FINISHED
    ledger_thread = LedgerThread(ledger, retry_for_s=RETRY_FOR_S if finished else 0)
    try:
        if finished or not await ledger_thread.call(ledger.active_workers, run):
            await ledger_thread.call(lambda: ledger.update(run, state=state))
    except LedgerError:
        if finished:
            raise
    finally:
        ledger_thread.close()


@contextmanager
def prepare_run(
    suite: Suite,
    ledger: Ledger | None = None,
    *,
    fresh: bool = False,
    run: str = "",
    skip_bad: bool = False,
    batch: bool = False,
    limits: RunLimits | None = None,
) -> Iterator[SuiteRun]:
    """Check everything that can be wrong, and find or create the run of a suite in the ledger.

    Args:
        suite: What is run.
        ledger: An open ledger; without it that of the suite is opened until the end of the context. It is created only
            if judges and cases are in order.
        fresh: Start a new run that uses no stored answers.
        run: Resume this run, although its files were moved or touched.
        skip_bad: Leave out cases that are wrong.
        batch: Whether the judges are going to be asked by batch.
        limits: With another budget than that of the suite, as for several runs together.

    Raises:
        UsageError: The suite and the options do not fit together, or a price that its budget needs is unknown.
        SetupError: A judge cannot be asked.
        CaseError: Cases are wrong.
    """
    require_prices(suite)
    own_limits = limits or RunLimits(Budget(suite.budget_usd()))
    judges = make_judges(suite, own_limits)
    check_judges(judges, suite.rubrics())
    if batch:
        from beholder.runs.batch import check_batch_judges

        check_batch_judges(suite, judges)
    with ExitStack() as stack:
        if ledger is None and (ledger := _open_sound_ledger(suite)) is not None:
            stack.enter_context(ledger)
        checked = check_suite_cases(suite, ledger, skip_bad=skip_bad)
        if ledger is None:
            ledger = stack.enter_context(Ledger.open(suite.ledger_place(), create=True))
        if run:
            record, is_new = find_named_run(suite, ledger, checked, run), False
        else:
            record, is_new = find_or_create_run(suite, ledger, checked, fresh=fresh)
        yield SuiteRun(suite, ledger, checked, record, judges, own_limits, is_new)


def _open_sound_ledger(suite: Suite) -> Ledger | None:
    """Open the ledger of a suite if there is one. A broken one counts as none: creating it says what is wrong with it,
    after the cases were checked."""
    try:
        return open_existing_ledger(suite)
    except LedgerGone:
        raise
    except LedgerError:
        return None


def open_existing_ledger(suite: Suite, *, read_only: bool = False) -> Ledger | None:
    """Open the ledger of a suite; `None` if there is none yet. Raises `LedgerError` if it cannot be opened."""
    place = suite.ledger_place()
    return Ledger.open(place, read_only=read_only) if ledger_exists(place) else None


def check_suite_cases(suite: Suite, ledger: Ledger | None = None, *, skip_bad: bool = False) -> CaseCheck:
    """Check all cases of a suite.

    Args:
        suite: The suite.
        ledger: Its ledger if there is one: the images of a run that is not finished are not opened again.
        skip_bad: Leave out cases that are wrong.

    Raises:
        CaseError: Cases are wrong, all listed, or there is none.
    """
    checked = _reuse_earlier_check(suite, ledger) if ledger else None
    checked = checked or check_cases(suite.rows(), allow_remote=suite.allow_remote)
    if checked.problem_count and not skip_bad:
        more = checked.problem_count - len(checked.problems)
        listed = "\n".join(checked.problems) + (f"\n… and {more} more" if more else "")
        things = "1 thing is" if checked.problem_count == 1 else f"{checked.problem_count} things are"
        raise CaseError(f"{things} wrong with the cases (--skip-bad or skip_bad=True goes on without them):\n{listed}")
    if not checked.count:
        raise CaseError(f"There is no case to judge: {_explain_no_case(suite, checked)}")
    for composer in suite.composers():
        for style, near in composer.misspelled_styles().items():
            _log.warning(
                "beholder: No style is called %r, and its cases are asked the generic assertions. Did you mean %s?",
                style,
                near,
            )
    return checked


def _explain_no_case(suite: Suite, checked: CaseCheck) -> str:
    """Return why no case is left: all are invalid, the filter matches none, or there were none."""
    if checked.problem_count:
        return f"all {len(checked.bad_positions)} are invalid; the first: {checked.problems[0]}"
    if suite.only and (ids := list(islice((row.id for row in suite.rows(selected=False)), 3))):
        return f"--only (only=) {suite.only!r} matches none of the ids, such as {', '.join(map(repr, ids))}."
    if suite.objects.cases is None and suite.pairs:
        return "no files match the patterns."
    return "the cases that were given are empty." if suite.objects.cases is not None else f"{suite.cases!r} is empty."


def _reuse_earlier_check(suite: Suite, ledger: Ledger) -> CaseCheck | None:
    """Return the result of checking the cases without opening their images, if a run that is not finished has the same.

    Paths, sizes and modification times of the images tell whether they are the same. Then they were in order when the
    run was created, and a hundred thousand files need not be opened again.
    """
    known = {
        run.fingerprint
        for run in ledger.runs()
        if not run.is_review
        and run.state != FINISHED
        and not run.skipped
        and not _list_differences(suite, run, "cases", "pairs", "limit", "only", "shuffle")
    }
    checked = check_cases(suite.rows(), allow_remote=suite.allow_remote, open_files=False) if known else None
    return checked if checked and not checked.problem_count and compute_fingerprint(suite, checked) in known else None


def find_or_create_run(suite: Suite, ledger: Ledger, checked: CaseCheck, *, fresh: bool) -> tuple[RunRecord, bool]:
    """Return the run to resume, or a new one, and whether it is new.

    Two runs are the same when suite and cases are: rubric, judges, prompt, ids, texts, and image files by path, size
    and modification time. What only says how fast or how far to go (concurrency, limits, budget, thresholds) may
    differ. A `fresh` run is resumed as such until it is finished. A finished run is not resumed under another name that
    was set by flag: it may be somebody's baseline; the new run has the same answers, which cost nothing.
    """
    from beholder import __version__

    now = datetime.now(UTC)
    rounds = suite.objects.rounds
    run = RunRecord(
        id=f"{now:%y%m%d}-{secrets.token_hex(3)}",
        name=suite.name,
        fingerprint=compute_fingerprint(suite, checked),
        state=RUNNING,
        created=now,
        updated=now,
        total=0 if rounds is not None else checked.count * len(suite.rubrics()),
        suite=suite.public_dict()
        | ({"fresh": True} if fresh else {})
        | ({"rounds": rounds.name} if rounds is not None else {})
        | dict(suite.objects.facts),
        rubrics=tuple(msgspec.to_builtins(rubric) for rubric in suite.rubrics()),
        prompt=suite.prompt_text(),
        versions={"beholder": __version__, "python": platform.python_version(), "platform": platform.platform()},
        tags=tuple(suite.tags),
        skipped=len(checked.bad_positions),
    )
    return ledger.find_or_create(run, fresh=fresh, keep_finished_name="name" in suite.flag_keys)


def find_named_run(suite: Suite, ledger: Ledger, checked: CaseCheck, run: str) -> RunRecord:
    """Return a run to resume although its files are elsewhere or were touched since, as on another machine.

    Raises:
        UsageError: The run had other judges, another rubric or prompt, or another number of cases.
    """
    record = ledger.run(run)
    wrong = _list_differences(suite, record)
    rounds = suite.objects.rounds
    if record.suite.get("rounds") != (None if rounds is None else rounds.name):
        wrong.append("selection of cases")
    elif rounds is None and record.total != checked.count * len(suite.rubrics()):
        wrong.append("number of cases")
    if wrong:
        raise UsageError(
            f"The run {record.id} is another one: its {', '.join(wrong)} differ; leave it out (--run or resume=)."
        )
    return record


def _list_differences(suite: Suite, record: RunRecord, *more: str) -> list[str]:
    """Return the keys by which questions or judges of a run differ from those of the suite; `more` are further keys."""
    public = redact_values(suite.public_dict())
    assert isinstance(public, dict)
    keys = ("judges", "samples", "orders", "probe", "setting", "prompt", *more)
    differing = [key for key in keys if record.suite.get(key) != public.get(key)]
    rubrics = [redact_values(msgspec.to_builtins(rubric)) for rubric in suite.rubrics()]
    return differing + (["rubric"] if [*record.rubrics] != rubrics else [])


def compute_fingerprint(suite: Suite, checked: CaseCheck) -> str:
    """Return what makes two runs the same; see `find_or_create_run`."""
    parts = [
        checked.fingerprint,
        suite.fingerprint_settings(),
        [msgspec.to_builtins(rubric) for rubric in suite.rubrics()],
        suite.prompt_text(),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class RunMeans:
    """The result of a run as far as thresholds need it. `means` has the mean of each criterion on its own scale, and of
    `score`, 0 to 1."""

    total: int
    scored: int
    means: Mapping[str, float | Fraction]

    @classmethod
    def of(cls, tally: Tally, total: int) -> RunMeans:
        """Return the means of a run that has so many verdicts to give."""
        criteria = {key: mean.exact for one in tally.rubrics.values() for key, mean in one.criteria.items()}
        means = {**criteria, "score": tally.score.exact}
        return cls(total, tally.score.count, {key: value for key, value in means.items() if value is not None})


def find_missed_thresholds(
    means: RunMeans, fail_under: Mapping[str, float], max_unscored: str | float | None
) -> list[str]:
    """Return a sentence for each threshold that was missed.

    Args:
        means: The result of the run.
        fail_under: Lowest means: that of `score` on a scale to 100, others by criterion on its own scale.
        max_unscored: How many verdicts may have no score: a number, or a share such as `2%`.
    """
    missed = []
    for name, minimum in fail_under.items():
        mean = means.means.get(name)
        if mean is None:
            missed.append(f"{name}: no case has a score, and {minimum:g} was asked for")
            continue
        reached = to_fraction(str(mean)) * (100 if name == "score" else 1)
        if reached < to_fraction(minimum):
            mean_shown = format_beside(float(reached), [minimum])
            missed.append(f"{name}: the mean is {mean_shown}, and {minimum:g} was asked for")
    unscored = means.total - means.scored
    if max_unscored is not None and unscored > count_allowed_unscored(max_unscored, means.total):
        missed.append(f"{unscored} of {means.total} have no score, and {max_unscored} may")
    return missed


def choose_exit_code(means: RunMeans, fail_under: Mapping[str, float], max_unscored: str | float | None) -> int:
    """Return the exit code of a run: 0, 1 or 3, as in the module's docstring."""
    if find_missed_thresholds(means, fail_under, max_unscored):
        return 1
    return 3 if max_unscored is None and means.scored < means.total else 0


def count_allowed_unscored(max_unscored: str | float, total: int) -> Fraction:
    """Return how many verdicts may have no score. `max_unscored` is a number, or a share of all such as `2%`."""
    text = str(max_unscored).strip()
    try:
        share = text.endswith("%")
        number = to_fraction(text.rstrip("% "))
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"max_unscored is a number or a percentage such as 2%, and {text!r} is neither.") from None
    if number < 0:
        raise UsageError(f"max_unscored is 0 or more, and {text!r} is not.")
    return number * total / 100 if share else number
