"""`beholder runs` (list, rename, tag and delete runs) and `beholder ledger` (copy runs, check a ledger)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli import EXIT_THRESHOLD
from beholder.cli.options import JsonOption, LedgerOption, RunArgument, complete_runs
from beholder.errors import UsageError
from beholder.reports.text import format_done, format_scored_mean, humanize_state, print_text, printable

if TYPE_CHECKING:
    from decimal import Decimal

    from beholder.api.run import Run
    from beholder.ledger.copy import CopyResult


app = typer.Typer(
    help="List, rename, tag and delete runs; stars and comments on their cases.", invoke_without_command=True
)


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
    from beholder.api.run import list_runs
    from beholder.verdicts.verdict import format_count

    listed = list_runs(address, tag=tag, reviews=None)
    if json_:
        for run in listed:
            if run.record.is_review or not reviews:
                print_text(json.dumps(run.list_entry()))
        return
    wanted = [run for run in listed if run.record.is_review == reviews]
    if wanted:
        _runs_table(wanted)
    elif reviews:
        print_text("No reviews yet.")
    else:
        print_text("No runs yet.")
    others = len(listed) - len(wanted)
    if others and not reviews:
        print_text(f"{format_count(others, 'review')} by people: beholder runs --reviews")


@app.command("rename")
def rename(run: RunArgument, name: str, address: LedgerOption = None) -> None:
    """Give a run another name."""
    from beholder.api.run import Run

    loaded = Run.load(run, address)
    loaded.rename(name)
    print_text(f"Run {loaded.id} is now called {name!r}.")


@app.command("tag")
def tag(
    run: RunArgument,
    tags: Annotated[list[str] | None, typer.Argument(help="Tags to add.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="A tag to take away.")] = None,
    address: LedgerOption = None,
) -> None:
    """Add tags to a run, or take them away."""
    from beholder.api.run import Run

    loaded = Run.load(run, address)
    now = loaded.tag(*(tags or ()), remove=remove or ())
    print_text(f"Run {loaded.id} has the tags: {', '.join(now) or 'none'}.")


@app.command("star")
def star(
    run: RunArgument,
    cases: Annotated[list[str], typer.Argument(metavar="CASE...", help="Ids of cases.")],
    remove: Annotated[bool, typer.Option("--remove", help="Take the stars away.")] = False,
    address: LedgerOption = None,
) -> None:
    """Give cases a star, or take it away: `beholder view` finds them again."""
    from beholder.api.run import Run

    loaded = Run.load(run, address)
    (loaded.unstar if remove else loaded.star)(*cases)
    print_text(f"Run {loaded.id} has stars on: {', '.join(loaded.starred) or 'no case'}.")


@app.command("comment")
def comment(
    run: RunArgument,
    case: Annotated[str | None, typer.Argument(help="The case; without one all comments are listed.")] = None,
    text: Annotated[str | None, typer.Argument(help="A comment to write; without one they are listed.")] = None,
    author: Annotated[str, typer.Option(help="Who writes it.", show_default=False)] = "",
    remove: Annotated[str | None, typer.Option(metavar="ID", help="A comment to delete.", show_default=False)] = None,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Write a comment on a case, delete one, or list them."""
    from beholder.api.run import Run

    loaded = Run.load(run, address)
    if remove:
        loaded.delete_comment(remove)
    if case is not None and text is not None:
        loaded.comment(case, text, author)
    for one in loaded.comments(case):
        if json_:
            values = {"id": one.id, "case": one.case, "author": one.author, "text": one.text}
            print_text(json.dumps({**values, "created": one.created.isoformat()}))
        else:
            who = f"{one.author}, " if one.author else ""
            print_text(printable(f"{one.id}  {one.case}: {one.text} ({who}{one.created:%Y-%m-%d %H:%M} UTC)"))


@app.command("delete")
def delete(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs to delete.", autocompletion=complete_runs)],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    address: LedgerOption = None,
) -> None:
    """Delete runs with everything that only they used: verdicts, answers, thumbnails. There is no way back."""
    from beholder.api.run import Run

    # Settled first: after the first deletion "latest" would be another run.
    for run in dict.fromkeys([Run.load(name, address) for name in runs]):
        run.check_idle()  # before anybody is asked
        named = printable(f"run {run.id} ({run.name}) with {run.progress.done} verdicts")
        if not yes and not _confirm(f"Delete {named}?"):
            print_text(f"Kept {named}.")
            continue
        run.delete()
        print_text(f"Deleted {named}.")


def format_money(known: Decimal | None, unpriced: int) -> str:
    """Return an amount with the number of calls of unknown cost: `$1.2300 + 3 of unknown cost`."""
    if known is None:
        return "unknown"
    return f"${known:.4f}" + (f" + {unpriced} of unknown cost" if unpriced else "")


def format_spent(run: Run) -> str:
    """Return what a run has spent, and what is reserved for calls that may have cost it: `$2.0700 + $1.9100 reserved`.
    Only a run with a budget reserves."""
    reserved = run.reserved_usd if run.record.suite.get("budget") is not None else 0
    return format_money(run.spent_usd, run.record.unpriced) + (f" + ${reserved:.4f} reserved" if reserved else "")


def _confirm(question: str) -> bool:
    try:
        return typer.confirm(question)
    except typer.Abort:
        raise UsageError("Nobody was there to answer; add --yes to delete without a question.") from None


def _runs_table(listed: list[Run]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("run", "name", "state", "done", "mean score", "spent", "age", "tags"):
        # What others are called by, or computed with, is never cut off.
        table.add_column(title, min_width=max(len(run.id) for run in listed) if title == "run" else None)
    for run in listed:
        progress = run.progress
        cells = (
            run.id,
            run.name,
            humanize_state(run.state),
            _progress_cell(run),
            format_scored_mean(progress.mean_score, progress.scored, progress.asked),
            format_spent(run),
            _format_age(run.created),
            ", ".join(run.tags),
        )
        table.add_row(*(Text(printable(cell)) for cell in cells))
    Console(highlight=False).print(table)


def _progress_cell(run: Run) -> str:
    if run.record.is_review:
        return f"{run.rated_count} of {run.case_count} rated"
    if not_asked := run.progress.not_asked:
        done = format_done(run.progress.done, run.total, not_asked)
        return done.removesuffix(" (over budget)")  # which the state says
    return f"{run.progress.done}/{run.total}" + (f" ({run.record.skipped} skipped)" if run.record.skipped else "")


def _format_age(moment: datetime) -> str:
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return "now"  # also when the clock was set back since


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
    from beholder.ledger.copy import copy_runs
    from beholder.reports.progress import progress_bar

    with progress_bar("verdicts", None, shown=not json_) as update:
        result = copy_runs(source, target, run or (), lambda what, done, of: update(completed=done, total=of))
    if json_:
        typer.echo(json.dumps(result.to_dict()))
        return
    for copy in result.runs:
        print_text(f"{copy.run}  {copy.name}: {_copy_sentence(copy)}")
    if not any(copy.written for copy in result.runs):
        complete = f"{sum(not copy.left for copy in result.runs)} of {len(result.runs)} runs"
        print_text(
            f"Nothing was copied: {complete} are in {result.to} already."
            if result.runs
            else "There are no runs to copy."
        )


@ledger_app.command("check")
def check_ledger(
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="The same as --ledger.")] = None,
    address: LedgerOption = None,
    json_: JsonOption = False,
) -> None:
    """Read all of a ledger and check it: digests, links, counts. Exit code 1 when something is wrong."""
    from beholder.ledger.ledger import Ledger

    if file and address and file != address:
        raise UsageError(f"Which ledger is to be checked: {file!r}, or --ledger {address!r}?")
    address = file or address
    with Ledger.open(address, read_only=True) as ledger:
        problems = ledger.check()
        counts = {} if problems else ledger.row_counts()
        problems = problems or ledger.find_incomplete_runs()
        place = ledger.place
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
