"""How a run is watched: a bar for people, lines of JSON for logs, or nothing.

Ctrl-C, for commands that should finish what is under way.

What a run came to, as a table.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
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
    """What a run has come to so far. Nobody is shown anything."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.before = 0
        self.now = 0
        self.later = 0  # have no answer yet
        self.reused = 0
        self.outcomes: Counter[str] = Counter()
        self.spent = Decimal(0)
        self.unpriced = 0
        self.failures: list[str] = []  # the first of those without a score, of which there are `lacking`
        self.lacking = 0
        self.tally = Tally()

    def on_skipped(self, count: int) -> None:
        self.before += count

    def on_waiting(self, count: int) -> None:
        self.later += count

    def on_written(self, entries: Sequence[Entry]) -> None:
        self.now += len(entries)
        for entry in entries:
            self.outcomes[str(entry.verdict.outcome)] += 1
            self.tally.add(StoredVerdict(entry.position, entry.verdict, entry.case.groups, entry.reused))
            self.reused += entry.reused
            if lack := entry.verdict.missing_score_reason:
                self.lacking += 1
                if len(self.failures) < MAX_FAILURES:
                    self.failures.append(f"{entry.case.id} ({entry.verdict.rubric}): {lack}")
            if entry.spent_usd is None:
                self.unpriced += 1
            else:
                self.spent += entry.spent_usd

    def close(self) -> None:
        """The run is over."""

    def to_dict(self) -> dict[str, Any]:
        return {
            "done": self.before + self.now,
            "total": self.total,
            "before": self.before,
            "waiting": self.later,
            "reused": self.reused,
            "outcomes": dict(self.outcomes.most_common()),
            "spent_usd": None if self.unpriced and not self.spent else float(self.spent),
        }


class JsonProgress(ProgressCounter):
    """A line of JSON every few seconds, and one at the end."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self._next = time.monotonic() + JSON_INTERVAL_S

    def on_written(self, entries: Sequence[Entry]) -> None:
        super().on_written(entries)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + JSON_INTERVAL_S
            typer.echo(json.dumps({"event": "progress", **self.to_dict()}))


class ProgressBar(ProgressCounter):
    """A bar with rate, cost, time left and outcomes."""

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
        rate = f"{self.now / seconds:.1f}/s" if seconds > 0.5 else ""
        done = self.before + self.now
        self._progress.update(self._task, completed=done, money=money, outcomes=outcomes, rate=rate)


def _rich_progress() -> Progress:
    from rich.console import Console
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
    """Works, and listens: the first Ctrl-C (or SIGTERM) sets the event that `work` was given, the second cancels it.
    Raises `KeyboardInterrupt` then."""
    stop = asyncio.Event()
    task = asyncio.ensure_future(work(stop))

    def interrupted() -> None:
        if stop.is_set():
            task.cancel()
        else:
            stop.set()
            print("\nstopping: what is under way is finished; Ctrl-C again stops at once", file=sys.stderr)

    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, interrupted)
    try:
        return await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def print_summary(summary: dict[str, Any], tally: Tally) -> None:
    """Means by criterion, outcomes, money, and what to do next."""
    console = Console(highlight=False, emoji=False)
    console.print(means_table(tally))
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in tally.outcomes.most_common())
    spent = summary["spent_usd"]
    console.print(f"outcomes: {outcomes or 'none'}")
    money = "cost unknown" if spent is None else f"${spent:.4f} spent now"
    console.print(f"{summary['done']} of {summary['total']} done, {summary['reused']} answers from the ledger, {money}")
    console.print(f"see: beholder show {summary['run']}", markup=False)


def means_table(tally: Tally) -> Table:
    """The mean of each criterion, and of the score; and of what people would say, where there is a calibration."""
    table = Table("rubric", "criterion", "scored", "mean", box=None, pad_edge=False)
    for name, rubric in tally.rubrics.items():
        for key, mean in {**rubric.criteria, "score": rubric.score}.items():
            cells = (name, key, str(mean.count), "–" if mean.value is None else f"{mean.value:.3f}")
            table.add_row(*(Text(printable(cell)) for cell in cells))
        for key, mean in rubric.calibrated.items():
            cells = (name, f"{key}, calibrated", str(mean.count), "–" if mean.value is None else f"{mean.value:.3f}")
            table.add_row(*(Text(printable(cell)) for cell in cells))
    return table
