"""How a run is watched: a bar for people, lines of JSON for logs, or nothing."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

from beholder.ledger.model import Entry
from beholder.ledger.reading import Judged
from beholder.ledger.tallying import Tally

if TYPE_CHECKING:
    from rich.progress import Progress

FAILURES = 5  # shown at the end
EVERY_S = 2.0  # seconds between two lines of JSON


class Counts:
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

    def skipped(self, count: int) -> None:
        self.before += count

    def waiting(self, count: int) -> None:
        self.later += count

    def done(self, entries: Sequence[Entry]) -> None:
        self.now += len(entries)
        for entry in entries:
            self.outcomes[str(entry.verdict.outcome)] += 1
            self.tally.add(Judged(entry.position, entry.verdict, entry.case.groups, entry.reused))
            self.reused += entry.reused
            if lack := entry.verdict.lack:
                self.lacking += 1
                if len(self.failures) < FAILURES:
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


class Lines(Counts):
    """A line of JSON every few seconds, and one at the end."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self._next = time.monotonic() + EVERY_S

    def done(self, entries: Sequence[Entry]) -> None:
        super().done(entries)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_S
            typer.echo(json.dumps({"event": "progress", **self.to_dict()}))


class Bar(Counts):
    """A bar with rate, cost, time left and outcomes."""

    def __init__(self, total: int) -> None:
        super().__init__(total)
        self._progress = _bar()
        self._task = self._progress.add_task("judging", total=total, money="", outcomes="", rate="")
        self._started = time.monotonic()
        self._progress.start()

    def skipped(self, count: int) -> None:
        super().skipped(count)
        self._show()

    def done(self, entries: Sequence[Entry]) -> None:
        super().done(entries)
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


def _bar() -> Progress:
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
