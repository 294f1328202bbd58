"""A run: what it came to."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from beholder.ledger import RunRecord
from beholder.ledger.facets import STYLE
from beholder.ledger.model import RUNNING
from beholder.reports.html.gathering import Example, Gathered
from beholder.reports.html.summary import facts, states
from beholder.runs.reviewing import is_review
from beholder.web.answering import Book, address, page, record_of
from beholder.web.computing import Shop
from beholder.web.overview import counts_of, overview_of

router = APIRouter()


@router.get("/runs/{run}")
def run(request: Request, book: Book, shop: Shop, run: str) -> HTMLResponse:
    """What a run came to, as its report says it: outcomes, how scores are spread, means with intervals, what failed."""
    record = record_of(book, run)
    counts = counts_of(book, shop, record)
    told = overview_of(book, shop, record)

    def case_link(one: Example) -> str:
        return address(f"/runs/{record.id}/case", id=one.case, by=one.rubric if len(record.rubrics) > 1 else "")

    answer = page(
        request,
        "run.html",
        title=record.name,
        here="Runs",
        run=record,
        review=is_review(record),
        counts=counts,
        outcomes=told.value.outcomes
        if told.value and told.fresh
        else [(*one, list[Example]()) for one in states(counts.states)],
        facts=[*(told.value.facts if told.value else facts(Gathered(record))), ("Run", [record.id])],
        summary=told.value,
        fresh=told.fresh,
        live=record.state == RUNNING,
        case_link=case_link,
        list_link=lambda **asked: _list_link(record, **asked),
    )
    if not told.fresh and told.value is None:
        answer.headers["Refresh"] = "1"
    return answer


def _list_link(record: RunRecord, **asked: str) -> str:
    """The cases that these filters leave. The style of a verdict counts as a group, and is a filter of its own."""
    name, _, value = asked.get("group", "").partition("=")
    if name == STYLE:
        asked = {**asked, "group": "", "style": value}
    return address(f"/runs/{record.id}/cases", **asked)
