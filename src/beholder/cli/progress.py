"""Progress of commands (a bar for people, lines of JSON for logs, or nothing), Ctrl-C, and the summary of a run.

Imports rich: import this module inside the commands only.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from beholder.ledger.query import Tally
from beholder.ledger.types import Entry, StoredVerdict
from beholder.reports.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress


MAX_FAILURES = 5  # shown at the end
JSON_INTERVAL_S = 2.0  # seconds between two lines of JSON


class ProgressCounter:
    """Counts the results of a run and shows nothing."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done_before = 0
        self.done_now = 0
        self.waiting = 0  # submitted, without an answer yet
        self.reused = 0
        self.outcomes: Counter[str] = Counter()
        self.spent = Decimal(0)
        self.unpriced = 0
        self.failures: list[str] = []  # the first of the `unscored` ones
        self.unscored = 0
        self.tally = Tally()

    def on_skipped(self, count: int) -> None:
        self.done_before += count

    def on_waiting(self, count: int) -> None:
        self.waiting += count

    def on_written(self, entries: Sequence[Entry]) -> None:
        self.done_now += len(entries)
        for entry in entries:
            self.outcomes[str(entry.verdict.outcome)] += 1
            self.tally.add(StoredVerdict(entry.position, entry.verdict, entry.case.groups, entry.reused))
            self.reused += entry.reused
            if lack := entry.verdict.missing_score_reason:
                self.unscored += 1
                if len(self.failures) < MAX_FAILURES:
                    self.failures.append(f"{entry.case.id} ({entry.verdict.rubric}): {lack}")
            if entry.spent_usd is None:
                self.unpriced += 1
            else:
                self.spent += entry.spent_usd

    def close(self) -> None:
        """Called when the run is over."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "done": self.done_before + self.done_now,
            "total": self.total,
            "before": self.done_before,
            "waiting": self.waiting,
            "reused": self.reused,
            "outcomes": dict(self.outcomes.most_common()),
            "spent_usd": None if self.unpriced and not self.spent else float(self.spent),
        }


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


class ProgressBar(ProgressCounter):
    """Shows a bar with rate, cost, time left and outcomes."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self._progress = _rich_progress()
        self._task = self._progress.add_task("judging", total=total, money="", outcomes="", rate="")
        self._started = time.monotonic()
        self._progress.start()

    def on_skipped(self, count: int) -> None:
        super().on_skipped(count)
        self._show()

    def on_written(self, entries: Sequence[Entry]) -> None:
        super().on_written(entries)
        self._show()

    def close(self) -> None:
        self._show()
        self._progress.stop()

    def _show(self) -> None:
        seconds = time.monotonic() - self._started
        money = "cost unknown" if self.unpriced and not self.spent else f"${self.spent:.4f}"
        outcomes = " ".join(f"{count} {outcome}" for outcome, count in self.outcomes.most_common())
        rate = f"{self.done_now / seconds:.1f}/s" if seconds > 0.5 else ""
        done = self.done_before + self.done_now
        self._progress.update(self._task, completed=done, money=money, outcomes=outcomes, rate=rate)


@contextmanager
def progress_bar(label: str, total: int, *, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Show a bar on stderr, which disappears at the end; nothing where stderr is no terminal or not `shown`.

    Yields:
        A function to call with `completed`, `advance`, `total` or `description`, as `rich.progress.Progress.update`.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda **update: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        yield partial(progress.update, progress.add_task(label, total=total))


def _rich_progress() -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[money]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        TextColumn("{task.fields[outcomes]}", style="dim"),
        console=Console(stderr=True, highlight=False),
    )


_WorkResult = TypeVar("_WorkResult")


async def run_interruptible(work: Callable[[asyncio.Event], Awaitable[_WorkResult]]) -> _WorkResult:
    """Run `work` and handle Ctrl-C and SIGTERM.

    Args:
        work: Gets an event that the first signal sets; it should then finish what is in progress.

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
            print("\nstopping: what is in progress is finished; Ctrl-C again stops at once", file=sys.stderr)

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, interrupted)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def print_summary(summary: dict[str, Any], tally: Tally) -> None:
    """Print means by criterion, outcomes, cost, and the next command."""
    console = Console(highlight=False, emoji=False)
    console.print(means_table(tally))
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in tally.outcomes.most_common())
    spent = summary["spent_usd"]
    console.print(f"outcomes: {outcomes or 'none'}")
    money = "cost unknown" if spent is None else f"${spent:.4f} spent now"
    console.print(f"{summary['done']} of {summary['total']} done, {summary['reused']} answers from the ledger, {money}")
    console.print(f"see: beholder show {summary['run']}", markup=False)


def means_table(tally: Tally) -> Table:
    """Return a table with the mean of each criterion, of the score, and of calibrated scores."""
    table = Table("rubric", "criterion", "scored", "mean", box=None, pad_edge=False)
    for name, rubric in tally.rubrics.items():
        for key, mean in {**rubric.criteria, "score": rubric.score}.items():
            cells = (name, key, str(mean.count), "–" if mean.value is None else f"{mean.value:.3f}")
            table.add_row(*(Text(printable(cell)) for cell in cells))
        for key, mean in rubric.calibrated.items():
            cells = (name, f"{key}, calibrated", str(mean.count), "–" if mean.value is None else f"{mean.value:.3f}")
            table.add_row(*(Text(printable(cell)) for cell in cells))
    return table
