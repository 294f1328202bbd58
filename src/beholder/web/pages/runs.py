"""All runs, newest first; reviews apart. `/api/runs` says how far each is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from beholder.ledger import Ledger, RunRecord
from beholder.ledger.model import RUNNING, Progress
from beholder.reports.html.summary import judges_of
from beholder.reports.html.texts import plain, plain_values
from beholder.reports.run_states import state_of
from beholder.runs.reviewing import is_review, review_of
from beholder.web.answering import Book, page, record_of
from beholder.web.standings import Standings, Stands

router = APIRouter()

EVERY_S = 2  # that a page of a run that is running is drawn anew


@dataclass(frozen=True, slots=True)
class Row:
    """A run in the list. `rater`, `of` and `rated` are for a review: who rated, the run, how many cases of it."""

    record: RunRecord
    far: Progress
    judges: str
    age: str
    rater: str = ""
    of: RunRecord | None = None
    rated: int = 0


@router.get("/")
def runs(request: Request, book: Book, stands: Stands) -> HTMLResponse:
    """All runs."""
    rows = listed(book, stands)
    return page(
        request,
        "runs.html",
        title="Runs",
        here="Runs",
        runs=[row for row in rows if not row.rater],
        reviews=[row for row in rows if row.rater],
        live_s=EVERY_S if any(row.record.state == RUNNING for row in rows) else 0,
    )


@router.get("/api/runs")
def runs_json(book: Book, stands: Stands) -> list[dict[str, object]]:
    """All runs, newest first, and how far each is."""
    return [_told(row.record, row.far) for row in listed(book, stands)]


@router.get("/api/runs/{run}")
def run_json(book: Book, run: str) -> dict[str, object]:
    """How far a run is."""
    record = record_of(book, run)
    counts = book.counts(record.id)
    far = Progress(counts.verdicts, counts.states["scored"], counts.mean)
    return {**_told(record, far), "states": dict(counts.states), "grades": plain_values(dict(counts.grades))}


def listed(book: Ledger, stands: Standings) -> list[Row]:
    records = book.runs()
    standings = stands.of(book, records)
    by_id = {record.id: record for record in records}
    rows = []
    for record in records:
        standing = standings[record.id]
        row = Row(record, standing.far, ", ".join(judges_of(record)), age(record.created))
        if is_review(record):
            review = review_of(record)
            of = by_id.get(review.run)
            row = replace(row, rater=review.rater or "somebody", of=of, rated=standing.rated)
        rows.append(row)
    return rows


def age(moment: datetime) -> str:
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"  # also when the clock was set back since


def _told(record: RunRecord, far: Progress) -> dict[str, object]:
    return {
        "run": record.id,
        "name": plain(record.name),
        "state": state_of(record),
        "running": record.state == RUNNING,
        "created": record.created.isoformat(),
        "updated": record.updated.isoformat(),
        "total": record.total,
        "skipped": record.skipped,
        "done": far.done,
        "scored": far.scored,
        "score": far.mean_score,
        "spent_usd": None if record.spent_usd is None else float(record.spent_usd),
        "unpriced": record.unpriced,
        "tags": plain_values(list(record.tags)),
    }
