"""Progress of long work: counters of a run's verdicts, and progress bars on stderr."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from beholder.ledger.query import Tally
from beholder.ledger.types import Entry, StoredVerdict

if TYPE_CHECKING:
    from rich.progress import Progress


MAX_FAILURES = 5  # shown at the end


class ProgressCounter:
    """Counts the results of a run and shows nothing."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.reused = 0
        self.spent = Decimal(0)
        self.unpriced = 0
        self.restart()

    def restart(self) -> None:
        """Count anew, for another pass over a batch run, which goes through all cases; what was spent stays."""
        self.done_before = 0
        self.done_now = 0
        self.waiting = 0  # submitted, without an answer yet
        self.outcomes: Counter[str] = Counter()
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
        """Called when the run, or a pass over it, is over."""

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


def make_counter(total: int, *, shown: bool | None = None) -> ProgressCounter:
    """Return a counter of a run's verdicts; with a bar if `shown`, by default on a terminal outside of CI."""
    if shown is None:
        shown = sys.stderr.isatty() and not os.environ.get("CI")
    return ProgressBar(total) if shown else ProgressCounter(total)


class ProgressBar(ProgressCounter):
    """Shows a bar with rate, cost, time left and outcomes."""

    def restart(self) -> None:
        super().restart()
        self._progress = _rich_progress()
        self._task = self._progress.add_task("judging", total=self.total, money="", outcomes="", rate="")
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
        self._progress.update(self._task, total=self.total, completed=done, money=money, outcomes=outcomes, rate=rate)


@contextmanager
def progress_bar(label: str, total: int | None, *, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Show a bar on stderr, which disappears at the end; nothing where stderr is no terminal or not `shown`.

    Yields:
        A function to call with `completed`, `advance`, `total` or `description`, as `rich.progress.Progress.update`.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda **update: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    console = Console(stderr=True, highlight=False, force_jupyter=False)
    with Progress(*columns, console=console, transient=True) as progress:
        yield partial(progress.update, progress.add_task(label, total=total))


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
        console=Console(stderr=True, highlight=False, force_jupyter=False),
    )
