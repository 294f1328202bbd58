"""All runs, newest first; reviews apart. `/api/runs` says how far each is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from beholder.ledger import Ledger, RunRecord
from beholder.ledger.model import RUNNING, Progress
from beholder.reports.html.texts import plain, plain_values
from beholder.web.answering import Book, page, record_of

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Row:
    """A run in the list. `rater` and `of` are for a review: who rated, and the run that was rated."""

    record: RunRecord
    far: Progress
    judges: str
    age: str
    rater: str = ""
    of: RunRecord | None = None


@router.get("/")
def runs(request: Request, book: Book) -> HTMLResponse:
    """All runs."""
    rows = listed(book)
    return page(
        request,
        "runs.html",
        title="Runs",
        here="Runs",
        runs=[row for row in rows if not row.rater],
        reviews=[row for row in rows if row.rater],
    )


@router.get("/api/runs")
def runs_json(book: Book) -> list[dict[str, object]]:
    """All runs, newest first, and how far each is."""
    return [_told(row.record, row.far) for row in listed(book)]


@router.get("/api/runs/{run}")
def run_json(book: Book, run: str) -> dict[str, object]:
    """How far a run is."""
    record = record_of(book, run)
    counts = book.counts(record.id)
    far = Progress(counts.verdicts, counts.states["scored"], counts.mean)
    return {**_told(record, far), "states": dict(counts.states), "grades": plain_values(dict(counts.grades))}


def listed(book: Ledger) -> list[Row]:
    records, progress = book.runs(), book.progress()
    by_id = {record.id: record for record in records}
    return [
        Row(
            record,
            progress.get(record.id, Progress()),
            judges_of(record),
            age(record.created),
            str(record.suite.get("rater") or "somebody") if is_review(record) else "",
            by_id.get(str(record.suite.get("review_of"))),
        )
        for record in records
    ]


def is_review(record: RunRecord) -> bool:
    return "review_of" in record.suite


def judges_of(record: RunRecord) -> str:
    """Who judges, as far as the suite says."""
    judges = record.suite.get("judges")
    names = [one.get("judge") if isinstance(one, dict) else one for one in judges] if isinstance(judges, list) else []
    return ", ".join(str(name) for name in names if name)


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
        "state": record.state,
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
