"""`beholder ledger`: runs copied from one ledger into another, and whether a ledger is sound."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli import MISSED
from beholder.cli.runs import AsJson, LedgerAt
from beholder.reports.terminal import say

if TYPE_CHECKING:
    from beholder.ledger.copying import Copied

app = typer.Typer(help="Copy runs from one ledger into another; check that a ledger is sound.", no_args_is_help=True)


@app.command("copy")
def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A file, or postgresql://user@host/database.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Another one; it is made if there is none.")],
    run: Annotated[
        list[str] | None, typer.Option(help="A run to copy, with its reviews; again for more.", show_default=False)
    ] = None,
    json_: AsJson = False,
) -> None:
    """Copy runs with all that belongs to them. What is there already is not copied again, so an interrupted copy goes
    on where it was."""
    from beholder.errors import UsageError
    from beholder.ledger import Ledger
    from beholder.ledger.copying import chosen, copy_run, verdict_count

    with Ledger.open(source, read_only=True) as old:
        runs = chosen(old, run or ())
        with Ledger.open(target) as new:
            if new.place == old.place:
                raise UsageError("FROM and TO are the same ledger; name another one to copy into.")
            total = verdict_count(old, runs)
            with _bar(total, shown=not json_ and sys.stderr.isatty()) as watch:
                copied = [copy_run(old, new, one.id, watch) for one in runs]
            place = new.place
    if json_:
        typer.echo(json.dumps({"to": place, "verdicts": total, "runs": [asdict(one) for one in copied]}))
        return
    for one in copied:
        say(f"{one.run}  {one.name}: {_told(one)}")
    if not any(one.written for one in copied):
        there = f"{sum(not one.left for one in copied)} of {len(copied)} runs"
        say(f"Nothing was copied: {there} are in {place} already." if copied else "There are no runs to copy.")


@app.command("check")
def check(ledger: LedgerAt = None, json_: AsJson = False) -> None:
    """Read all of a ledger and check it: digests, links, counts. Exit code 1 when something is wrong."""
    from beholder.ledger import Ledger
    from beholder.ledger.model import FINISHED, REVIEW

    with Ledger.open(ledger, read_only=True) as book:
        problems = book.check()
        counts = {} if problems else book.holds()
        runs = [] if problems else book.runs()
        far = {} if problems else book.progress()
        place = book.place
    done = {one.id: far[one.id].done if one.id in far else 0 for one in runs}
    problems += [
        f"The run {one.id} says that it is finished, and has {done[one.id]} of {one.total} verdicts."
        for one in runs
        if one.state == FINISHED and done[one.id] < one.total and not one.fingerprint.startswith(REVIEW)
    ]
    if json_:
        typer.echo(json.dumps({"ledger": place, "sound": not problems, "counts": counts, "problems": problems}))
    else:
        for problem in problems:
            say(problem)
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        say(f"{place} is not sound." if problems else f"{place} is sound: {told}.")
    if problems:
        raise typer.Exit(MISSED)


def _told(one: Copied) -> str:
    if one.left:
        return f"left as it is, {one.left}"
    if not one.written:
        return "there already"
    shown = [f"{count} {what}" for what, count in one.written.items() if what not in ("runs", "links")]
    return f"copied {', '.join(shown)}" if shown else "brought up to date"


@contextmanager
def _bar(total: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    if not shown:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("verdicts", total=total)
        yield lambda count: progress.advance(task, count)
