"""A suite, run: checked, found again in the ledger or begun, executed, summed up.

Whether a run is good enough: the exit code of `beholder run`.

1  a threshold was missed: a mean below `fail_under`, or more without a score than `max_unscored` allows
3  some cases have no score, and no `max_unscored` said how many may
0  otherwise
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import platform
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

import msgspec

from beholder.cases.validation import CaseCheck, check_cases, iter_valid_cases
from beholder.errors import CaseError, LedgerError, LedgerGone, UsageError
from beholder.judges.base import Judge
from beholder.ledger.encoding import redact_values
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import FINISHED, INTERRUPTED, RUNNING, RunProgress, RunRecord
from beholder.rubrics.rubric import to_fraction
from beholder.runs.engine import RunObserver, RunSettings, execute_locally
from beholder.runs.image_pool import ImagePool
from beholder.runs.ledger_access import RETRY_FOR_S, LedgerThread
from beholder.runs.limits import RunLimits
from beholder.runs.suite import Suite
from beholder.verdicts.verdict import Outcome


def check_suite_cases(suite: Suite, *, skip_bad: bool = False) -> CaseCheck:
    """A look at all cases. Raises `CaseError` that lists what is wrong, unless bad ones may be left out."""
    checked = _reuse_earlier_check(suite) or check_cases(suite.rows(), allow_remote=suite.allow_remote)
    if checked.problem_count and not skip_bad:
        more = checked.problem_count - len(checked.problems)
        listed = "\n".join(checked.problems) + (f"\n… and {more} more" if more else "")
        things = "1 thing is" if checked.problem_count == 1 else f"{checked.problem_count} things are"
        raise CaseError(f"{things} wrong with the cases (--skip-bad goes on without them):\n{listed}")
    if not checked.count:
        raise CaseError("There is no case to judge.")
    return checked


def _reuse_earlier_check(suite: Suite) -> CaseCheck | None:
    """The cases of a run that was begun and has not ended, if they are still the same, which their images' names, sizes
    and times of change tell: then all was well with them, and a hundred thousand files need not be opened again."""
    try:
        with Ledger.open(suite.ledger_place(), read_only=True) as ledger:
            runs = [run for run in ledger.runs() if not run.is_review]
    except LedgerGone:
        raise
    except LedgerError:  # there is none yet, or whoever opens it next says what is wrong
        return None
    open_ = [run for run in runs if run.state != FINISHED and not run.skipped]
    known = {
        run.fingerprint
        for run in open_
        if not _list_differences(suite, run, "cases", "pairs", "limit", "only", "shuffle")
    }
    checked = check_cases(suite.rows(), allow_remote=suite.allow_remote, open_files=False) if known else None
    return checked if checked and not checked.problem_count and compute_fingerprint(suite, checked) in known else None


def find_or_create_run(suite: Suite, ledger: Ledger, checked: CaseCheck, *, fresh: bool) -> tuple[RunRecord, bool]:
    """The run to go on with, and whether it is new.

    Two runs are the same when suite and cases are: rubric, judges, prompt, ids, texts, and image files by path, size
    and time of change. What only says how fast or how far to go (concurrency, limits, budget, thresholds) may differ.
    A `fresh` run is gone on with as such until it is finished.
    """
    now = datetime.now(UTC)
    run = RunRecord(
        id=f"{now:%y%m%d}-{secrets.token_hex(3)}",
        name=suite.name,
        fingerprint=compute_fingerprint(suite, checked),
        state=RUNNING,
        created=now,
        updated=now,
        total=checked.count * len(suite.rubrics()),
        suite=suite.public_dict() | ({"fresh": True} if fresh else {}),
        rubrics=tuple(msgspec.to_builtins(rubric) for rubric in suite.rubrics()),
        prompt=suite.prompt_text(),
        versions={"beholder": _read_version(), "python": platform.python_version(), "platform": platform.platform()},
        tags=tuple(suite.tags),
        skipped=len(checked.bad_positions),
    )
    return ledger.find_or_start(run, fresh=fresh)


def find_named_run(suite: Suite, ledger: Ledger, checked: CaseCheck, run: str) -> RunRecord:
    """A run to go on with although its files lie elsewhere or were touched since, as on another machine: what it asked
    whom must be the same. Raises `UsageError` where it is not."""
    record = ledger.run(run)
    wrong = _list_differences(suite, record)
    if record.total != checked.count * len(suite.rubrics()):
        wrong.append("number of cases")
    if wrong:
        raise UsageError(f"The run {record.id} is another one: its {', '.join(wrong)} differ; leave --run out.")
    return record


def _list_differences(suite: Suite, record: RunRecord, *more: str) -> list[str]:
    """In what a run asked something else, or somebody else, than the suite does."""
    mine = redact_values(suite.public_dict())
    assert isinstance(mine, dict)
    keys = ("judges", "samples", "setting", "prompt", *more)
    rubrics = [redact_values(msgspec.to_builtins(rubric)) for rubric in suite.rubrics()]
    return [key for key in keys if record.suite.get(key) != mine.get(key)] + (
        ["rubric"] if [*record.rubrics] != rubrics else []
    )


async def execute_run(
    suite: Suite,
    ledger: Ledger,
    run: RunRecord,
    checked: CaseCheck,
    judges: Sequence[Judge],
    limits: RunLimits,
    retry: frozenset[Outcome],
    watch: RunObserver,
    stop: asyncio.Event,
) -> str:
    """Executes the run and returns its state: `finished`, or `interrupted` when `stop` was set or it was cancelled.

    `limits` are those that the judges were seated with. A run that other processes go on with stays `running`.
    """
    pictures = ImagePool(allow_remote=suite.allow_remote)
    work = RunSettings(
        run_id=run.id,
        composers=suite.composers(),
        judges=tuple(judges),
        samples=suite.samples,
        concurrency=suite.concurrency,
        timeout_s=suite.limits.total_timeout_s,
        retry=retry,
        recall=not run.suite.get("fresh"),
        thumbnails=suite.thumbnails,
        audit=suite.audit,
        calibration=suite.calibration_map(),
        lease_s=suite.limits.lease_s,
    )
    state = INTERRUPTED
    ledger.update(run.id, state=RUNNING)
    try:
        if suite.engine == "ray":
            from beholder.runs.ray.driver import execute_on_ray

            await execute_on_ray(work, suite, checked, ledger, watch, stop, limits, address=suite.address)
        else:
            await execute_locally(
                work, lambda: iter_valid_cases(suite.rows(), checked), ledger, pictures, watch, stop, limits
            )
        if not stop.is_set() or ledger.progress([run.id]).get(run.id, RunProgress()).done == run.total:
            state = FINISHED
        return state
    finally:
        pictures.close()
        for judge in judges:
            await judge.aclose()
        await _record_final_state(ledger, run.id, state)


async def _record_final_state(ledger: Ledger, run: str, state: str) -> None:
    """Writes down how a run ended, unless other processes go on with it. Whatever kept it from being finished matters
    more than a ledger that cannot say so."""
    finished = state == FINISHED
    clerk = LedgerThread(ledger, patience_s=RETRY_FOR_S if finished else 0)
    try:
        if finished or not await clerk.do(ledger.active_workers, run):
            await clerk.do(lambda: ledger.update(run, state=state))
    except LedgerError:
        if finished:
            raise
    finally:
        clerk.close()


def compute_fingerprint(suite: Suite, checked: CaseCheck) -> str:
    """What makes two runs the same; see `record_for`."""
    parts = [
        checked.fingerprint,
        suite.settings_that_matter(),
        [msgspec.to_builtins(rubric) for rubric in suite.rubrics()],
        suite.prompt_text(),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _read_version() -> str:
    from beholder import __version__

    return __version__


@dataclass(frozen=True, slots=True)
class RunMeans:
    """What a run came to. `means` has the mean of each criterion's scores on its own scale, and of `score`, 0 to 1."""

    total: int
    scored: int
    means: Mapping[str, float | Fraction]


def find_missed_thresholds(
    means: RunMeans, fail_under: Mapping[str, float], max_unscored: str | float | None
) -> list[str]:
    """What was missed, each as a sentence. `fail_under["score"]` is on a scale to 100; other names are criteria."""
    said = []
    for name, least in fail_under.items():
        mean = means.means.get(name)
        if mean is None:
            said.append(f"{name}: no case has a score, and {least:g} was asked for")
            continue
        reached = to_fraction(str(mean)) * (100 if name == "score" else 1)
        if reached < to_fraction(least):
            said.append(f"{name}: the mean is {float(reached):.2f}, and {least:g} was asked for")
    unscored = means.total - means.scored
    if max_unscored is not None and unscored > count_allowed_unscored(max_unscored, means.total):
        said.append(f"{unscored} of {means.total} have no score, and {max_unscored} may")
    return said


def choose_exit_code(means: RunMeans, fail_under: Mapping[str, float], max_unscored: str | float | None) -> int:
    """See the module's docstring."""
    if find_missed_thresholds(means, fail_under, max_unscored):
        return 1
    return 3 if max_unscored is None and means.scored < means.total else 0


def count_allowed_unscored(max_unscored: str | float, total: int) -> Fraction:
    """How many may be without a score: a number, or a share of all such as `2%`."""
    text = str(max_unscored).strip()
    try:
        share = text.endswith("%")
        number = to_fraction(text.rstrip("% "))
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"max_unscored is a number or a percentage such as 2%, and {text!r} is neither.") from None
    if number < 0:
        raise UsageError(f"max_unscored is 0 or more, and {text!r} is not.")
    return number * total / 100 if share else number
