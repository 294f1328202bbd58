"""A run: what it came to."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from beholder.ledger import RunRecord
from beholder.ledger.facets import STYLE
from beholder.ledger.model import RUNNING
from beholder.reports.html.gathering import Example, Gathered
from beholder.reports.html.summary import Summary, facts, states
from beholder.reports.run_states import state_of
from beholder.runs.reviewing import is_review
from beholder.verdicts.model import Outcome
from beholder.web.answering import Book, address, page, record_of
from beholder.web.computing import MANY, Result, Shop
from beholder.web.overview import counts_of, overview_of
from beholder.web.pages.runs import EVERY_S

router = APIRouter()

EVERY_S_OF_MANY = 15  # as runs.EVERY_S, where what is to be told takes a process of its own


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
        state=state_of(record),
        done=counts.verdicts - (counts.states[str(Outcome.INTERRUPTED)] if is_review(record) else 0),
        counts=counts,
        outcomes=told.value.outcomes
        if told.value and told.fresh
        else [(*one, list[Example]()) for one in states(counts.states)],
        facts=[*_facts(record, told), ("Run", [record.id])],
        summary=told.value,
        fresh=told.fresh,
        live_s=0 if record.state != RUNNING else EVERY_S if record.total <= MANY else EVERY_S_OF_MANY,
        case_link=case_link,
        list_link=lambda **asked: _list_link(record, **asked),
    )
    if not told.fresh and told.value is None:
        answer.headers["Refresh"] = "1"
    return answer


def _facts(record: RunRecord, told: Result[Summary]) -> list[tuple[str, list[str]]]:
    """What was worked out of the run; what it costs as it is by now."""
    now = facts(Gathered(record))
    if told.value is None:
        return now
    cost = dict(now).get("Cost", []) if not told.fresh else []
    return [(name, cost if cost and name == "Cost" else values) for name, values in told.value.facts]


def _list_link(record: RunRecord, **asked: str) -> str:
    """The cases that these filters leave. The style of a verdict counts as a group, and is a filter of its own."""
    name, _, value = asked.get("group", "").partition("=")
    if name == STYLE:
        asked = {**asked, "group": "", "style": value}
    return address(f"/runs/{record.id}/cases", **asked)
