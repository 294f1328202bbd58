"""`beholder runs` (list, rename, tag and delete runs) and `beholder ledger` (copy runs, check a ledger)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli import EXIT_THRESHOLD
from beholder.cli.options import JsonOption, LedgerOption, RunArgument
from beholder.errors import UsageError
from beholder.reports.text import print_text, printable

if TYPE_CHECKING:
    from decimal import Decimal

    from beholder.ledger.copy import CopyResult
    from beholder.ledger.types import RunProgress, RunRecord


app = typer.Typer(help="List, rename, tag and delete runs.", invoke_without_command=True)


@app.callback()
def list_(
    context: typer.Context,
    address: LedgerOption = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag.")] = None,
    reviews: Annotated[bool, typer.Option("--reviews", help="List the reviews by people instead.")] = False,
    json_: JsonOption = False,
) -> None:
    """List the runs, newest first. Reviews are runs by people; --json has both, `review` says which are."""
    if context.invoked_subcommand:
        return
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import RunProgress
    from beholder.verdicts.verdict import format_count

    with Ledger.open(address, read_only=True) as ledger:
        records, progress = ledger.runs(tag=tag), ledger.progress()
        rated = ledger.rated_cases([record.id for record in records if record.is_review])
    rows = [_ListedRun(record, progress.get(record.id, RunProgress()), rated.get(record.id, 0)) for record in records]
    if json_:
        for row in rows:
            if row.record.is_review or not reviews:
                print_text(json.dumps(_as_dict(row)))
        return
    wanted = [row for row in rows if row.record.is_review == reviews]
    if wanted:
        _runs_table(wanted)
    elif reviews:
        print_text("No reviews yet.")
    else:
        print_text("No runs yet.")
    others = len(rows) - len(wanted)
    if others and not reviews:
        print_text(f"{format_count(others, 'review')} by people: beholder runs --reviews")


@app.command("rename")
def rename(run: RunArgument, name: str, address: LedgerOption = None) -> None:
    """Give a run another name."""
    from beholder.ledger.ledger import Ledger

    with Ledger.open(address, create=False) as ledger:
        record = ledger.run(run)
        ledger.rename(record.id, name)
    print_text(f"Run {record.id} is now called {name!r}.")


@app.command("tag")
def tag(
    run: RunArgument,
    tags: Annotated[list[str] | None, typer.Argument(help="Tags to add.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="A tag to take away.")] = None,
    address: LedgerOption = None,
) -> None:
    """Add tags to a run, or take them away."""
    from beholder.ledger.ledger import Ledger

    with Ledger.open(address, create=False) as ledger:
        record = ledger.run(run)
        now = ledger.tag(record.id, *(tags or ()), remove=remove or ())
    print_text(f"Run {record.id} has the tags: {', '.join(now) or 'none'}.")


@app.command("delete")
def delete(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs to delete.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    address: LedgerOption = None,
) -> None:
    """Delete runs with everything that only they used: verdicts, answers, thumbnails. There is no way back."""
    from beholder.ledger.ledger import Ledger

    with Ledger.open(address, create=False) as ledger:
        # Settled first: after the first deletion "latest" would be another run.
        records = list({record.id: record for record in map(ledger.run, runs)}.values())
        progress = ledger.progress()
        for record in records:
            done = progress[record.id].done if record.id in progress else 0
            named = printable(f"run {record.id} ({record.name}) with {done} verdicts")
            if not yes and not _confirm(f"Delete {named}?"):
                print_text(f"Kept {named}.")
                continue
            ledger.delete(record.id)
            print_text(f"Deleted {named}.")


def format_money(known: Decimal | None, unpriced: int) -> str:
    """Return an amount with the number of calls of unknown cost: `$1.2300 + 3 of unknown cost`."""
    if known is None:
        return "unknown"
    return f"${known:.4f}" + (f" + {unpriced} of unknown cost" if unpriced else "")


def _confirm(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:
        raise UsageError("Nobody was there to answer; add --yes to delete without a question.") from None


@dataclass(frozen=True, slots=True)
class _ListedRun:
    """A run in the list; `rated` counts the cases of a review that are rated and saved."""

    record: RunRecord
    far: RunProgress
    rated: int


def _runs_table(rows: list[_ListedRun]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from beholder.reports.formatting import run_state

    table = Table("run", "name", "state", "done", "mean score", "spent", "age", "tags", box=None, pad_edge=False)
    for row in rows:
        record, far = row.record, row.far
        cells = (
            record.id,
            record.name,
            run_state(record),
            _progress_cell(row),
            "–" if far.mean_score is None else f"{far.mean_score:.3f}",
            format_money(record.spent_usd, record.unpriced),
            _format_age(record.created),
            ", ".join(record.tags),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    Console(highlight=False).print(table)


def _progress_cell(row: _ListedRun) -> str:

    record = row.record
    if record.is_review:
        return f"{row.rated} of {_case_count(record)} rated"
    return f"{row.far.done}/{record.total}" + (f" ({record.skipped} skipped)" if record.skipped else "")


def _case_count(record: RunRecord) -> int:
    """Return the number of cases: the total of a run counts a verdict by each rubric."""
    return record.total // max(1, len(record.rubrics))


def _format_age(moment: datetime) -> str:
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return "now"  # also when the clock was set back since


def run_to_dict(record: RunRecord) -> dict[str, object]:
    """Return a run as JSON values, without its suite and rubrics."""
    from beholder.reports.formatting import run_state

    return {
        "run": record.id,
        "name": record.name,
        "state": run_state(record),
        "created": record.created.isoformat(),
        "updated": record.updated.isoformat(),
        "total": record.total,
        "skipped": record.skipped,
        "spent_usd": None if record.spent_usd is None else float(record.spent_usd),
        "unpriced": record.unpriced,
        "tags": list(record.tags),
        "review": record.is_review,
    }


def _as_dict(row: _ListedRun) -> dict[str, object]:
    """Return a listed run as JSON values; `done` of a review counts ratings that were begun, `rated` saved ones."""
    values = run_to_dict(row.record)
    rated = {"rated": row.rated, "cases": _case_count(row.record)} if values["review"] else {}
    return {**values, "done": row.far.done, "scored": row.far.scored, "score": row.far.mean_score, **rated}


ledger_app = typer.Typer(
    help="Copy runs from one ledger into another; check that a ledger is sound.", no_args_is_help=True
)


@ledger_app.command("copy")
def copy_runs(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A file, or postgresql://user@host/database.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Another one; it is made if there is none.")],
    run: Annotated[
        list[str] | None, typer.Option(help="A run to copy, with its reviews; again for more.", show_default=False)
    ] = None,
    json_: JsonOption = False,
) -> None:
    """Copy runs with all that belongs to them. What is there already is not copied again, so run the same
    command again to resume an interrupted copy."""
    from beholder.cli.progress import progress_bar
    from beholder.ledger.copy import copy_run, count_verdicts, select_runs
    from beholder.ledger.ledger import Ledger

    with Ledger.open(source, read_only=True) as old:
        runs = select_runs(old, run or ())
        with Ledger.open(target) as new:
            if new.place == old.place:
                raise UsageError("FROM and TO are the same ledger; name another one to copy into.")
            total = count_verdicts(old, runs)
            with progress_bar("verdicts", total, shown=not json_) as update:
                copied = [copy_run(old, new, record.id, lambda count: update(advance=count)) for record in runs]
            place = new.place
    if json_:
        typer.echo(json.dumps({"to": place, "verdicts": total, "runs": [asdict(copy) for copy in copied]}))
        return
    for copy in copied:
        print_text(f"{copy.run}  {copy.name}: {_copy_sentence(copy)}")
    if not any(copy.written for copy in copied):
        complete = f"{sum(not copy.left for copy in copied)} of {len(copied)} runs"
        print_text(
            f"Nothing was copied: {complete} are in {place} already." if copied else "There are no runs to copy."
        )


@ledger_app.command("check")
def check_ledger(address: LedgerOption = None, json_: JsonOption = False) -> None:
    """Read all of a ledger and check it: digests, links, counts. Exit code 1 when something is wrong."""
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import FINISHED

    with Ledger.open(address, read_only=True) as ledger:
        problems = ledger.check()
        counts = {} if problems else ledger.row_counts()
        runs = [] if problems else ledger.runs()
        progress = {} if problems else ledger.progress()
        place = ledger.place
    done = {run.id: progress[run.id].done if run.id in progress else 0 for run in runs}
    problems += [
        f"The run {run.id} says that it is finished, and has {done[run.id]} of {run.total} verdicts."
        for run in runs
        if run.state == FINISHED and done[run.id] < run.total and not run.is_review
    ]
    if json_:
        typer.echo(json.dumps({"ledger": place, "sound": not problems, "counts": counts, "problems": problems}))
    else:
        for problem in problems:
            print_text(problem)
        rows = ", ".join(f"{count} {name}" for name, count in counts.items())
        print_text(f"{place} is not sound." if problems else f"{place} is sound: {rows}.")
    if problems:
        raise typer.Exit(EXIT_THRESHOLD)


def _copy_sentence(copy: CopyResult) -> str:
    if copy.left:
        return f"left as it is, {copy.left}"
    if not copy.written:
        return "there already"
    shown = [f"{count} {what}" for what, count in copy.written.items() if what not in ("runs", "links")]
    return f"copied {', '.join(shown)}" if shown else "brought up to date"
