"""What the statistics commands have in common: where the numbers come from, and how intervals are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.errors import LedgerError, UsageError

if TYPE_CHECKING:
    from beholder.ledger import Ledger
    from beholder.statistics.data import Ratings, Scores

DRAWS, SEED = 2000, 0  # as in `statistics.intervals`, which is too heavy to import for a help text

MaybeRun = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="A run's id, the start of it, its name, or `latest`.", show_default=False),
]
RatingsAt = Annotated[
    Path,
    typer.Option(
        "--ratings", help="What people said: CSV or JSONL with case, rater, aspect, score.", show_default=False
    ),
]
RatingsOrReviews = Annotated[
    Path | None,
    typer.Option(
        "--ratings",
        help="What people said: CSV or JSONL with case, rater, aspect, score; without it the run's reviews count.",
        show_default=False,
    ),
]
ScoresAt = Annotated[
    list[Path] | None,
    typer.Option(
        "--scores",
        help="In place of a run: CSV with case, judge, aspect, score, or verdicts as JSONL. More than once: several.",
        show_default=False,
    ),
]
CasesAt = Annotated[
    Path | None,
    typer.Option("--cases", help="The case file, for the groups of cases in plain files.", show_default=False),
]
GroupBy = Annotated[
    str | None,
    typer.Option("--group", help="What belongs together: else `source`, if the cases have it.", show_default=False),
]
Mapped = Annotated[
    list[str] | None,
    typer.Option("--map", help="ASPECT=CRITERION, or =min(a,b), =mean(a,b); without it by name.", show_default=False),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Where the draws begin.")]
DrawCount = Annotated[int, typer.Option("--draws", min=100, max=100_000, help="How often the bootstrap draws.")]


def reviewed_by_people(run: str | None, ledger: str | None, *, assertions: bool = True) -> dict[str, Ratings]:
    """What people said of a run (the latest if none is named) in reviews; empty where nobody did."""
    from beholder.statistics.reviews import ratings_of_reviews

    with _opened(run, ledger) as book:
        return ratings_of_reviews(book, run or "latest", assertions=assertions)


def _opened(run: str | None, ledger: str | None) -> Ledger:
    """The ledger to read; who named neither a run nor a ledger, and has none, is told what else there is."""
    from beholder.ledger import Ledger

    try:
        return Ledger.open(ledger, read_only=True)
    except LedgerError as error:
        if run is not None or ledger is not None:
            raise
        raise UsageError(
            f"Name a RUN of a ledger (--ledger), or give what a judge said in a file, --scores FILE. {error}"
        ) from None


def gathered(
    run: str | None, scores: Sequence[Path] | None, cases: Path | None = None, ledger: str | None = None
) -> list[Scores]:
    """What the judges said: of a run (the latest if nothing is named), or of plain files, a `Scores` for each judge.

    Groups of a case file are added to those that the cases have. Raises `UsageError` for a run and files at once.
    """
    from beholder.statistics.reading import read_groups, read_scores, scores_of_run, with_groups

    if run is not None and scores:
        raise UsageError(f"Give a run ({run!r}) or --scores, not both.")
    if scores:
        found = [one for path in scores for one in read_scores(path)]
    else:
        with _opened(run, ledger) as book:
            found = [scores_of_run(book, book.run(run or "latest").id)]
    if cases is None:
        return found
    groups = read_groups(cases)
    return [with_groups(one, groups) for one in found]
