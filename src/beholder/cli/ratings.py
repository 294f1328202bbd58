"""`beholder ratings`: what people said, out of the ledger and into it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.files import replacing, spare
from beholder.cli.runs import LedgerAt, Which
from beholder.cli.statistics_options import Mapped
from beholder.errors import UsageError
from beholder.reports.terminal import printable, say

if TYPE_CHECKING:
    from collections.abc import Iterable

app = typer.Typer(help="Export and import what people said of a run.", no_args_is_help=True)


@app.command("export")
def export(
    run: Which = "latest",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; else it is printed.")] = None,
    rater: Annotated[
        list[str] | None, typer.Option(help="Only this rater; more than once: these.", show_default=False)
    ] = None,
    ledger: LedgerAt = None,
) -> None:
    """Write the ratings of a run as CSV: case, rater, aspect, score.

    An aspect is a criterion by its key, `score` for the overall (0 to 1, computed), or an assertion by its id (1 yes,
    0 no), as the columns of the run are named. What was left open has no row. A text that a spreadsheet would take for
    a formula gets an apostrophe in front.
    """
    from beholder.ledger import Ledger
    from beholder.runs.reviewing import is_review, review_at, reviews_of
    from beholder.statistics.reviews import ratings_csv

    with Ledger.open(ledger, read_only=True) as book:
        record = book.run(run)
        reviews = reviews_of(book, record.id)
        if is_review(record):  # one person's ratings, named by their own run
            reviews = [review_at(book, record.id)]
            record = book.run(reviews[0].run)
        if rater:
            wanted = {name.casefold() for name in rater}
            there = ", ".join(review.rater for review in reviews) or "nobody"
            reviews = [review for review in reviews if review.rater.casefold() in wanted]
            if len(reviews) < len(wanted):
                raise UsageError(f"Not all of these rated the run {record.id}; who did: {there}.")
        if not reviews:
            raise UsageError(
                f"Nobody reviewed the run {record.id} ({record.name}); `beholder view` lets people rate it, and "
                "`beholder ratings import` takes ratings from a file."
            )
        lines: Iterable[bytes] = ratings_csv(book, record.id, reviews)
        if output is None:
            out = typer.get_binary_stream("stdout")
            out.writelines(lines)
            out.flush()
            return
        spare(book, output)
        with replacing(output) as file:
            file.writelines(lines)


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="CSV or JSONL with case, rater, aspect, score.")],
    run: Annotated[str, typer.Option(help="The run that was rated: its id, the start of it, its name, or `latest`.")],
    map_: Mapped = None,
    ledger: LedgerAt = None,
) -> None:
    """Take ratings from a file as reviews of a run, one for each rater.

    An aspect is a criterion of the run's rubric or one of its assertions (1 yes, 0 no); others are named with --map
    ASPECT=CRITERION. `score` is computed and not taken. What a rater did not rate is left open. Where a rating
    is there already, what the file says takes its place and the rest stays.
    """
    from beholder.ledger import Ledger
    from beholder.statistics.review_import import import_ratings

    with Ledger.open(ledger, create=False) as book:
        done = import_ratings(book, run, file, map_ or ())
    for name, cases in done.raters.items():
        say(printable(f"{name}: {cases} {'case' if cases == 1 else 'cases'} rated."))
    for note in done.notes:
        say(printable(note))
