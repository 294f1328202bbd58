"""Numbers, intervals, tables and run states for people.

Numbers are rounded half up; a missing one is a dash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from beholder.ledger.types import INTERRUPTED, RunRecord
from beholder.reports.text import printable
from beholder.verdicts.verdict import round_half_up

if TYPE_CHECKING:
    from rich.table import Table

    from beholder.statistics.bootstrap import Estimate


def format_number(value: float | None, places: int = 3) -> str:
    """Return a number such as `0.650`; a dash for None."""
    if value is None:
        return "–"
    return f"{round_half_up(float(value), places) + 0.0:.{places}f}"  # + 0.0: no minus before a zero


def format_interval(estimate: Estimate, places: int = 3) -> str:
    """Return `0.650 (0.591 to 0.702)`; only the value where there is no interval, `not defined` where no value."""
    if estimate.value is None:
        return "not defined"
    value = format_number(estimate.value, places)
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} ({format_number(estimate.low, places)} to {format_number(estimate.high, places)})"


def numbers_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table without borders: the first column is text, aligned left; the others are numbers, aligned right."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for at, header in enumerate(headers):
        table.add_column(Text(printable(header)), justify="left" if at == 0 else "right", no_wrap=at > 0)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def print_table(table: Table) -> None:
    """Print a table; on a narrow terminal its lines wrap rather than lose digits."""
    from rich.console import Console

    console = Console(highlight=False, emoji=False)
    wanted = console.measure(table, options=console.options.update(width=1000)).maximum
    console.width = max(console.width, wanted)
    console.print(table)


REVIEW_OPEN = "open"


def run_state(record: RunRecord) -> str:
    """Return the state as the ledger has it, except that an unfinished review is `open`, not `interrupted`."""
    return REVIEW_OPEN if record.state == INTERRUPTED and record.is_review else record.state
