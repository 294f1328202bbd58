"""Output of commands: verdicts, briefs, progress (a bar, lines of JSON, or nothing), the summary of a run, Ctrl-C.

Imports rich: import this module inside the commands only.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from beholder.api.execute import RunHooks
from beholder.api.loop import Work
from beholder.api.run import Run
from beholder.cli import EXIT_INTERRUPTED, EXIT_THRESHOLD, EXIT_UNSCORED
from beholder.errors import UsageError
from beholder.ledger.query import Tally
from beholder.ledger.types import FINISHED, INTERRUPTED, WAITING, Entry
from beholder.reports.progress import ProgressCounter, make_counter
from beholder.reports.text import (
    MAX_REASON_CHARACTERS,
    describe_calibration,
    describe_preferences,
    format_done,
    format_mean,
    printable,
)
from beholder.rubrics.brief import Brief, TextBlock
from beholder.rubrics.rubric import Rubric, to_fraction
from beholder.verdicts.verdict import Outcome, Verdict, format_beside

if TYPE_CHECKING:
    from beholder.runs.batch import BatchRunStatus
    from beholder.runs.execution import SuiteRun


class OutputFormat(StrEnum):
    """Format of a printed verdict."""

    CARD = "card"
    JSON = "json"
    SEED = "seed"

    @classmethod
    def of(cls, name: str) -> OutputFormat:
        try:
            return cls(name)
        except ValueError:
            raise UsageError(f"--format is one of {', '.join(cls)}, not {name!r}.") from None


def show_spinner(text: str) -> AbstractContextManager[object]:
    """Show a spinner on stderr; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True, emoji=False).status(text)


def print_verdicts(judged: Sequence[tuple[Verdict, Rubric]], form: OutputFormat, *, full: bool = False) -> None:
    """Print verdicts, each with its rubric in the style and setting that was used."""
    for verdict, rubric in judged:
        if form is OutputFormat.JSON:
            typer.echo(json.dumps({**verdict.to_dict(), "answer": verdict.answer}, ensure_ascii=False))
        elif form is OutputFormat.SEED:
            print_seed(verdict, rubric)
        else:
            print_card(verdict, full=full)


def print_seed(verdict: Verdict, rubric: Rubric) -> None:
    """Print the published JSON on one line; say on stderr why an unscored or partly abstaining verdict has none."""
    from beholder.verdicts.seed_format import explain_no_seed, to_seed_format

    if not verdict.scored:
        why = printable(verdict.detail)
        print(f"beholder: {verdict.case!r} is {verdict.outcome} and has no seed format: {why}", file=sys.stderr)
    elif why := explain_no_seed(verdict):
        print(f"beholder: {verdict.case!r} {why}; use --json.", file=sys.stderr)
    else:
        typer.echo(json.dumps(to_seed_format(verdict, rubric), ensure_ascii=False))


def print_card(verdict: Verdict, *, full: bool = False) -> None:
    from rich.console import Console

    from beholder.reports.cards import render_verdict

    Console(highlight=False).print(render_verdict(verdict, full=full))


def verdicts_exit_code(
    verdicts: Sequence[Verdict], fail_under: float | None = None, *, strict: bool = False, seed: bool = False
) -> int:
    """Return the exit code: 1 for a missed threshold, else 3 for a missing score, else 0. Say what missed `fail_under`.

    Args:
        verdicts: The verdicts.
        fail_under: Least score × 100.
        strict: A case that did not pass counts as a missed threshold.
        seed: A verdict without a seed format counts as a missing score.
    """
    from beholder.verdicts.seed_format import explain_no_seed

    if fail_under is not None and 0 < fail_under <= 1:
        raise UsageError(f"--fail-under is on a scale to 100; for a score of {fail_under:g} say {fail_under * 100:g}.")
    percents = [to_fraction(verdict.score) * 100 for verdict in verdicts if verdict.score is not None]
    if fail_under is not None and (below := [one for one in percents if one < to_fraction(fail_under)]):
        shown = ", ".join(format_beside(float(one), [fail_under]) for one in below)
        print(f"beholder: score × 100 is {shown}, and {fail_under:g} was asked for", file=sys.stderr)
        return EXIT_THRESHOLD
    if strict and any(verdict.passed is False for verdict in verdicts):
        return EXIT_THRESHOLD
    scored = [verdict.score is not None and not (seed and explain_no_seed(verdict)) for verdict in verdicts]
    return 0 if all(scored) else EXIT_UNSCORED


def print_brief(brief: Brief) -> None:
    """Print a brief as a judge would get it."""
    typer.echo(f"── brief {brief.digest[:12]} · {brief.rubric} {brief.rubric_version} ── system\n")
    typer.echo(printable(brief.system, lines=True))
    typer.echo("── user\n")
    for part in brief.content:
        if isinstance(part, TextBlock):
            typer.echo(printable(part.text, lines=True))
        else:
            image = part.image
            notes = "".join(f", {note}" for note in image.notes)
            size = f"{image.media_type}, {image.width}×{image.height}, {len(image.data):,} bytes{notes}"
            typer.echo(f"{printable(part.label)}\n[{part.role}: {size}, sha256 {image.digest[:12]}]\n")
    typer.echo("\n── schema of the answer\n")
    typer.echo(json.dumps(brief.schema, indent=1) if brief.schema else "none: the prompt says itself what it wants")


JSON_INTERVAL_S = 2.0  # seconds between two lines of JSON


class JsonProgress(ProgressCounter):
    """Prints a line of JSON every few seconds."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self._next = time.monotonic() + JSON_INTERVAL_S

    def on_written(self, entries: Sequence[Entry]) -> None:
        super().on_written(entries)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + JSON_INTERVAL_S
            typer.echo(json.dumps({"event": "progress", **self.to_dict()}))


_WorkResult = TypeVar("_WorkResult")


async def run_interruptible(
    work: Callable[[asyncio.Event], Awaitable[_WorkResult]], on_interrupt: Callable[[], None]
) -> _WorkResult:
    """Run `work` and handle Ctrl-C and SIGTERM.

    Args:
        work: Gets an event that the first signal sets; it should then finish what is in progress.
        on_interrupt: Called at the first signal.

    Raises:
        KeyboardInterrupt: A second signal came, and `work` was canceled.
    """
    stop = asyncio.Event()
    task = asyncio.ensure_future(work(stop))

    def interrupted() -> None:
        if stop.is_set():
            task.cancel()
        else:
            stop.set()
            on_interrupt()
            print("\nstopping: what is in progress is finished; Ctrl-C again stops at once", file=sys.stderr)

    loop = asyncio.get_running_loop()
    # Not `loop.add_signal_handler`, which Windows has not.
    previous = {
        number: signal.signal(number, lambda *_: loop.call_soon_threadsafe(interrupted))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


class RunOutput(RunHooks):
    """How a command shows the run that it executes: for people, nothing (`quiet`), or as lines of JSON."""

    returns_interrupted = True
    observer: ProgressCounter

    def __init__(
        self,
        *,
        quiet: bool = False,
        as_json: bool = False,
        announce: Callable[[SuiteRun], None] = lambda suite_run: None,
    ) -> None:
        """Keep how a run is shown; `announce` is called with it before its first call."""
        super().__init__()
        self.quiet, self.as_json, self.announce = quiet, as_json, announce
        self._run_id = ""
        self._was_interrupted = False

    def _note_interrupt(self) -> None:
        self._was_interrupted = True

    def name_argument(self, name: str) -> str:
        return "--run" if name == "resume" else f"--{name.replace('_', '-')}"

    def begin(self, suite_run: SuiteRun) -> None:
        self._run_id, total = suite_run.id, suite_run.record.total
        self.announce(suite_run)
        shown = not self.quiet and sys.stderr.isatty()
        self.observer = JsonProgress(total) if self.as_json else make_counter(total, shown=shown)

    def run_loop(self, work: Work[_WorkResult]) -> _WorkResult:
        """Run asynchronous work in this thread; Ctrl-C and SIGTERM finish what is in progress."""
        gc.freeze()  # what is loaded stays; looking at it again and again costs a quarter of a millisecond a case
        gc.set_threshold(20_000, 20, 20)
        return asyncio.run(run_interruptible(work, self._note_interrupt))

    def notify(self, sentence: str) -> None:
        print(f"beholder: {printable(sentence)}", file=sys.stderr)

    def on_pass(self, status: BatchRunStatus) -> None:
        if status.state != WAITING or self.quiet:
            return
        if self.as_json:
            said = {"event": "batch", "run": self._run_id, **self.observer.to_dict(), **asdict(status)}
            typer.echo(json.dumps(said))
            return
        jobs = "1 job" if status.jobs == 1 else f"{status.jobs} jobs"
        new = f"{status.fetched} fetched, {status.handed_in} submitted; "
        typer.echo(f"{new}{status.requests} requests are in progress in {jobs}, {status.answered} of them answered")
        typer.echo("see: beholder collect with the same suite; most jobs end within hours, all within a day or so")

    def on_canceled(self, suite_run: SuiteRun, jobs: int) -> None:
        if self.as_json:
            typer.echo(json.dumps({"event": "cancelled", "run": suite_run.id, "jobs": jobs}))
        self.notify(f"{jobs} jobs are canceled; `beholder collect` fetches what they had answered before.")

    def report(self, result: Run) -> int:
        """Print what a run came to, and return the exit code."""
        was_cut_short = self._was_interrupted and result.record.state != FINISHED
        code = EXIT_INTERRUPTED if was_cut_short else result.exit_code
        if result.state == WAITING:
            if result.exit_code:
                self.notify("the thresholds are not decided until the batch has ended; see `beholder collect`")
            return code
        counts, missed = self.observer, result.missed
        summary: dict[str, Any] = {"event": "summary", "run": result.id, "name": result.name, "state": result.state}
        summary |= {"exit_code": code, "missed": missed, **counts.to_dict(), "tally": result.summary.to_dict()}
        if self.as_json:
            typer.echo(json.dumps(summary, ensure_ascii=False))
        elif not self.quiet:
            print_summary(summary, result.summary, result.fail_under)
        if result.state == INTERRUPTED and not self.as_json:
            print("interrupted; run the same command again to resume", file=sys.stderr)
        if not self.quiet and not self.as_json:
            for failure in counts.failures:
                print(f"  {printable(failure)[:MAX_REASON_CHARACTERS]}", file=sys.stderr)
            if more := counts.unscored - len(counts.failures):
                print(f"  … and {more} more without a score", file=sys.stderr)
        elif code == EXIT_UNSCORED and not self.as_json and result.summary.score.count < result.total:
            self.notify(_explain_unscored(result))
        if code == EXIT_UNSCORED and result.why_uncalibrated and not self.as_json:
            self.notify(f"the calibration gave no verdict a rating: {result.why_uncalibrated}")
        if self.quiet and not self.as_json and (not_asked := result.summary.not_asked):
            why = next((verdict.detail for verdict in result.verdicts(outcome=Outcome.OVER_BUDGET)), "")
            self.notify(f"{not_asked} of {result.total} {'was' if not_asked == 1 else 'were'} not asked: {why}")
        for sentence in missed:
            print(f"beholder: {sentence}", file=sys.stderr)
        return code


def _explain_unscored(result: Run) -> str:
    tally = result.summary
    without = {str(outcome): count for outcome, count in tally.outcomes.most_common() if outcome != Outcome.SCORED}
    missing = result.total - tally.score.count
    listed = ", ".join(f"{count} {outcome}" for outcome, count in without.items())
    have = f"{missing} of {result.total} {'has' if missing == 1 else 'have'} no score"
    return f"{have}{f' ({listed})' if listed else ''}; see `beholder show {result.id}`, or allow some by --max-unscored"


def print_summary(summary: dict[str, Any], tally: Tally, fail_under: Mapping[str, float]) -> None:
    """Print means by criterion, outcomes, cost, and the next command."""
    console = Console(highlight=False, emoji=False)
    console.print(means_table(tally, fail_under))
    for name, rubric in tally.rubrics.items():
        if preferences := describe_preferences(rubric.count_preferences()):
            console.print(f"{name}: {preferences}", markup=False)
        for line in describe_calibration(rubric.filled, rubric.uncalibrated):
            console.print(printable(f"{name}: {line}"), style="yellow", markup=False)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in tally.outcomes.most_common())
    spent = summary["spent_usd"]
    console.print(f"outcomes: {outcomes or 'none'}")
    money = "cost unknown" if spent is None else f"${spent:.4f} spent now"
    not_asked = tally.outcomes[Outcome.OVER_BUDGET]
    done, _, left = format_done(summary["done"], summary["total"], not_asked).partition(", ")
    reused = "1 verdict" if summary["reused"] == 1 else f"{summary['reused']} verdicts"
    console.print(f"{done} done{left and f', {left}'}, {reused} from the ledger, {money}")
    console.print(f"see: beholder show {summary['run']}", markup=False)


def means_table(tally: Tally, fail_under: Mapping[str, float]) -> Table:
    """Return a table with the mean of each criterion, of the score, and of calibrated scores.

    Args:
        tally: The totals of a run.
        fail_under: Its thresholds, which no rounded mean seems to meet or miss and does not.
    """
    table = Table("rubric", "criterion", "scored", "mean", box=None, pad_edge=False)
    for name, rubric in tally.rubrics.items():
        for key, mean in rubric.means().items():
            cells = (name, key, str(mean.count), format_mean(key, mean.value, fail_under))
            table.add_row(*(Text(printable(cell)) for cell in cells))
    return table
