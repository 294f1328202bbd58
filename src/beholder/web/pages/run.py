"""A run: what it came to."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from beholder.ledger import Ledger, RunRecord
from beholder.ledger.browsing import Counts
from beholder.ledger.model import RUNNING
from beholder.reports.html.summary import prompt_digests
from beholder.reports.html.texts import plain
from beholder.web.answering import Book, page, record_of
from beholder.web.computing import MANY, Result, Shop, Workshop, apart
from beholder.web.overview import Overview, grades_of, overview_at, states_of
from beholder.web.pages.runs import age, judges_of

router = APIRouter()


@router.get("/runs/{run}")
def run(request: Request, book: Book, shop: Shop, run: str) -> HTMLResponse:
    """What a run came to: outcomes, grades, how scores are spread, means with intervals, what failed."""
    record = record_of(book, run)
    counts = counts_of(book, shop, record)
    told = overview_of(book, shop, record)
    answer = page(
        request,
        "run.html",
        title=record.name,
        here="Runs",
        run=record,
        counts=counts,
        states=states_of(counts.states),
        grades=grades_of(record, counts.grades),
        facts=_facts(record),
        told=told.value,
        fresh=told.fresh,
        live=record.state == RUNNING,
    )
    if not told.fresh and told.value is None:
        answer.headers["Refresh"] = "1"
    return answer


def overview_of(book: Ledger, shop: Workshop, record: RunRecord, *, patient: bool = True) -> Result[Overview]:
    """The numbers of a run, if they are there by now."""
    work = partial(overview_at, book.path, record.id)
    if record.total > MANY:
        work, patient = partial(apart, work), False
    return shop.get(("overview", record.id), record.updated, work, patient=patient)


def counts_of(book: Ledger, shop: Workshop, record: RunRecord) -> Counts:
    return shop.now(("counts", record.id), record.updated, lambda: book.counts(record.id))


def _facts(record: RunRecord) -> list[tuple[str, str]]:
    rubrics = [f"{one.get('rubric', '')} {one.get('version', '')}".strip() for one in record.rubrics]
    spent = record.spent_usd
    cost = "unknown" if spent is None else f"${spent:.4f}" if spent else "nothing"
    if spent is not None and record.unpriced:
        cost += f" and {record.unpriced:,} of unknown cost"
    found = [
        ("Judged by", judges_of(record)),
        ("Rubric", ", ".join(rubrics)),
        ("Prompt digest", ", ".join(digest[:12] for digest in prompt_digests(record).values())),
        ("Started", f"{record.created:%Y-%m-%d %H:%M} UTC, {age(record.created)}"),
        ("Cost", cost),
        ("Run", record.id),
        ("Tags", ", ".join(record.tags)),
    ]
    return [(name, plain(value)) for name, value in found if value]
