"""What `calibrate` and `estimate` have in common: which aspects, on which scales, and what people said of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.statistics_options import reviewed_by_people
from beholder.errors import UsageError

if TYPE_CHECKING:
    from beholder.statistics.data import Ratings

Aspects = Annotated[
    list[str] | None, typer.Option("--aspect", help="Only this aspect; more than once: these.", show_default=False)
]
JudgeScale = Annotated[
    list[str] | None,
    typer.Option(
        "--scale", help="The judge's scale, where it is not known: 0..10, or ASPECT=0..10.", show_default=False
    ),
]
PeopleScale = Annotated[
    list[str] | None,
    typer.Option("--rating-scale", help="People's scale: 1..7, or ASPECT=1..7.", show_default=False),
]


def said_by_people(
    ratings: Path | None,
    run: str | None,
    scores: Sequence[Path] | None,
    ledger: str | None,
    aspects: Iterable[str] | None,
) -> Mapping[str, Ratings]:
    """All that people said, in a file or in reviews, by aspect; there is a rating for each of `aspects`. Assertions are
    told of reviews only where aspects are chosen, which may be among them."""
    from beholder.statistics.reading import read_ratings

    if ratings is not None:
        people = read_ratings(ratings)
    else:
        people = {} if scores else reviewed_by_people(run, ledger, assertions=bool(aspects))
    if not people:
        raise UsageError(
            "Say what people said: --ratings FILE with case, rater, aspect, score; or let people review the run in "
            "`beholder view`."
        )
    for name in aspects or ():
        if name not in people:
            raise UsageError(f"Nobody rated the aspect {name!r}; rated are {', '.join(people)}.")
    return people
