"""What a run came to, as a table."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from beholder.ledger.tallying import Tally


def show_summary(summary: dict[str, Any], tally: Tally) -> None:
    """Means by criterion, outcomes, money, and what to do next."""
    console = Console(highlight=False)
    table = Table("rubric", "criterion", "scored", "mean", box=None, pad_edge=False)
    for name, one in tally.rubrics.items():
        for key, mean in {**one.criteria, "score": one.score}.items():
            table.add_row(name, key, str(mean.count), "–" if mean.value is None else f"{mean.value:.3f}")
    console.print(table)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in tally.outcomes.most_common())
    spent = summary["spent_usd"]
    console.print(f"outcomes: {outcomes or 'none'}")
    money = "cost unknown" if spent is None else f"${spent:.4f} spent now"
    console.print(f"{summary['done']} of {summary['total']} done, {summary['reused']} answers from the ledger, {money}")
    console.print(f"see: beholder show {summary['run']}", markup=False)
