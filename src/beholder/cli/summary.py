"""What a run came to, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from beholder.reports.terminal import printable

if TYPE_CHECKING:
    from beholder.ledger.tallying import Tally


def show_summary(summary: dict[str, Any], tally: Tally) -> None:
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
