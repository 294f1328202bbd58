"""`beholder runs`: list, rename, tag and delete runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.errors import UsageError
from beholder.reports.terminal import printable, say

if TYPE_CHECKING:
    from decimal import Decimal

    from beholder.ledger.model import Progress, RunRecord

app = typer.Typer(help="List, rename, tag and delete runs.", invoke_without_command=True)

LedgerAt = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        help="The ledger: a file, or postgresql://user@host/database; else BEHOLDER_LEDGER, else beholder.db.",
        show_default=False,
    ),
]
Which = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, the start of it, its name, or `latest`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def list_(
    context: typer.Context,
    ledger: LedgerAt = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag.")] = None,
    reviews: Annotated[bool, typer.Option("--reviews", help="List the reviews by people instead.")] = False,
    json_: AsJson = False,
) -> None:
    """List the runs, newest first. Reviews are runs by people; --json has both, `review` says which are."""
    if context.invoked_subcommand:
        return
    from beholder.ledger import Ledger
    from beholder.ledger import reviews as stored
    from beholder.ledger.model import Progress
    from beholder.runs.reviewing import is_review
    from beholder.verdicts.model import counted

    with Ledger.open(ledger, read_only=True) as book:
        records, progress = book.runs(tag=tag), book.progress()
        with book.reading() as connection:
            rated = stored.rated(connection, [record.id for record in records if is_review(record)])
    rows = [_Row(record, progress.get(record.id, Progress()), rated.get(record.id, 0)) for record in records]
    if json_:
        for row in rows:
            if is_review(row.record) or not reviews:
                say(json.dumps(_as_dict(row)))
        return
    wanted = [row for row in rows if is_review(row.record) == reviews]
    if wanted:
        _table(wanted)
    elif reviews:
        say("No reviews yet.")
    else:
        say("No runs yet.")
    others = len(rows) - len(wanted)
    if others and not reviews:
        say(f"{counted(others, 'review')} by people: beholder runs --reviews")


@app.command("rename")
def rename(run: Which, name: str, ledger: LedgerAt = None) -> None:
    """Give a run another name."""
    from beholder.ledger import Ledger

    with Ledger.open(ledger, create=False) as book:
        record = book.run(run)
        book.rename(record.id, name)
    say(f"Run {record.id} is now called {name!r}.")


@app.command("tag")
def tag(
    run: Which,
    tags: Annotated[list[str] | None, typer.Argument(help="Tags to add.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="A tag to take away.")] = None,
    ledger: LedgerAt = None,
) -> None:
    """Add tags to a run, or take them away."""
    from beholder.ledger import Ledger

    with Ledger.open(ledger, create=False) as book:
        record = book.run(run)
        now = book.tag(record.id, *(tags or ()), remove=remove or ())
    say(f"Run {record.id} has the tags: {', '.join(now) or 'none'}.")


@app.command("delete")
def delete(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs to delete.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    ledger: LedgerAt = None,
) -> None:
    """Delete runs with everything that only they used: verdicts, answers, thumbnails. There is no way back."""
    from beholder.ledger import Ledger

    with Ledger.open(ledger, create=False) as book:
        # Settled first: after the first deletion "latest" would be another run.
        records = list({record.id: record for record in map(book.run, runs)}.values())
        far = book.progress()
        for record in records:
            done = far[record.id].done if record.id in far else 0
            named = printable(f"run {record.id} ({record.name}) with {done} verdicts")
            if not yes and not _agreed(f"Delete {named}?"):
                say(f"Kept {named}.")
                continue
            book.delete(record.id)
            say(f"Deleted {named}.")


def money(known: Decimal | None, unpriced: int) -> str:
    """An amount, and how much is unknown: `$1.2300 + 3 of unknown cost`."""
    if known is None:
        return "unknown"
    return f"${known:.4f}" + (f" + {unpriced} of unknown cost" if unpriced else "")


def _agreed(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:
        raise UsageError("Nobody was there to answer; add --yes to delete without a question.") from None


@dataclass(frozen=True, slots=True)
class _Row:
    """A run in the list; `rated` counts the cases of a review that are rated and saved."""

    record: RunRecord
    far: Progress
    rated: int


def _table(rows: list[_Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from beholder.reports.run_states import state_of

    table = Table("run", "name", "state", "done", "mean score", "spent", "age", "tags", box=None, pad_edge=False)
    for row in rows:
        record, far = row.record, row.far
        cells = (
            record.id,
            record.name,
            state_of(record),
            _done(row),
            "–" if far.mean_score is None else f"{far.mean_score:.3f}",
            money(record.spent_usd, record.unpriced),
            _age(record.created),
            ", ".join(record.tags),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    Console(highlight=False).print(table)


def _done(row: _Row) -> str:
    from beholder.runs.reviewing import is_review

    record = row.record
    if is_review(record):
        return f"{row.rated} of {_cases(record)} rated"
    return f"{row.far.done}/{record.total}" + (f" ({record.skipped} skipped)" if record.skipped else "")


def _cases(record: RunRecord) -> int:
    """A run counts verdicts, of which a case has one by each rubric."""
    return record.total // max(1, len(record.rubrics))


def _age(moment: datetime) -> str:
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return "now"  # also when the clock was set back since


def record_dict(record: RunRecord) -> dict[str, object]:
    """A run as JSON values, without its suite and rubrics."""
    from beholder.reports.run_states import state_of
    from beholder.runs.reviewing import is_review

    return {
        "run": record.id,
        "name": record.name,
        "state": state_of(record),
        "created": record.created.isoformat(),
        "updated": record.updated.isoformat(),
        "total": record.total,
        "skipped": record.skipped,
        "spent_usd": None if record.spent_usd is None else float(record.spent_usd),
        "unpriced": record.unpriced,
        "tags": list(record.tags),
        "review": is_review(record),
    }


def _as_dict(row: _Row) -> dict[str, object]:
    """Of a review also how many of the cases are rated; `done` counts verdicts, those that were begun too."""
    told = record_dict(row.record)
    rated = {"rated": row.rated, "cases": _cases(row.record)} if told["review"] else {}
    return {**told, "done": row.far.done, "scored": row.far.scored, "score": row.far.mean_score, **rated}
