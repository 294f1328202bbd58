"""How far each run is. The list of runs says so of all of them, and most have long been finished: such a run is counted
once, and again only when it has changed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Depends, Request

from beholder.ledger import Ledger, RunRecord, browsing
from beholder.ledger import reviews as stored
from beholder.ledger.model import FINISHED, Progress
from beholder.runs.reviewing import is_review


@dataclass(frozen=True, slots=True)
class Standing:
    """`rated` counts the cases of a review that are rated and saved."""

    far: Progress
    rated: int


class Standings:
    """What is known of finished runs, by their ids. Whoever writes to a run changes the time of its last change."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[datetime, Standing]] = {}
        self._lock = threading.Lock()

    def of(self, book: Ledger, records: Sequence[RunRecord]) -> dict[str, Standing]:
        """The standings of all runs of the ledger, as `Ledger.runs` lists them, by their ids."""
        with self._lock:  # who comes while they are counted waits for that
            kept = self._kept
            found = {one.id: kept[one.id][1] for one in records if one.id in kept and kept[one.id][0] == one.updated}
            found |= _counted(book, [one for one in records if one.id not in found])
            self._kept = {one.id: (one.updated, found[one.id]) for one in records if one.state == FINISHED}
            return found


def _counted(book: Ledger, records: Sequence[RunRecord]) -> dict[str, Standing]:
    reviews = [one.id for one in records if is_review(one)]
    with book.reading() as connection:
        far = browsing.progress(connection, [one.id for one in records])
        rated = stored.rated(connection, reviews)
    return {one.id: Standing(far.get(one.id, Progress()), rated.get(one.id, 0)) for one in records}


def _standings(request: Request) -> Standings:
    found = request.app.state.standings
    assert isinstance(found, Standings)
    return found


Stands = Annotated[Standings, Depends(_standings)]
