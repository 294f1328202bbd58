"""Two runs, case by case: what changed, and whether that could be chance."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from beholder.ledger import Ledger, RunRecord
from beholder.reports.html.against import Against, Mover, against, comparison_of
from beholder.reports.html.gathering import Gathered
from beholder.runs.reviewing import is_review
from beholder.web.answering import Book, RunName, address, page, record_of
from beholder.web.computing import MANY, Result, Shop, apart

router = APIRouter()


@router.get("/compare")
def compare(request: Request, book: Book, shop: Shop, before: RunName = "", after: RunName = "") -> HTMLResponse:
    """What changed from one run to another; without both, a form to choose them."""
    old, new = (record_of(book, name) if name else None for name in (before, after))
    records = [record for record in book.runs() if not is_review(record)]
    if new is not None and old is None:
        old = _earlier(records, new)
    told: Result[Against] | None = None
    if old is not None and new is not None and old.id != new.id:
        work = partial(_against, book.address, new.id, old.id)
        if new.total + old.total > MANY:
            work = partial(apart, work)
        told = shop.get(("compare", old.id, new.id), (old.updated, new.updated), work)
    answer = page(
        request,
        "compare.html",
        title="Compare",
        here="Compare",
        runs=records,
        old=old,
        new=new,
        asked=told is not None,
        against=told.value if told else None,
        fresh=told is None or told.fresh,
        case_link=partial(_case_link, new),
    )
    if told is not None and not told.fresh:
        answer.headers["Refresh"] = "1" if told.value is None else "5"
    return answer


def _earlier(records: list[RunRecord], new: RunRecord) -> RunRecord | None:
    """The last run before it that has the same name."""
    ids = [record.id for record in records]
    older = records[ids.index(new.id) + 1 :] if new.id in ids else []
    return next((record for record in older if record.name == new.name), None)


def _case_link(new: RunRecord | None, one: Mover) -> str:
    return "" if new is None else address(f"/runs/{new.id}/case", id=one.case)


def _against(address: str, new: str, old: str) -> Against:
    with Ledger.open(address, read_only=True) as book:
        later, earlier = book.run(new), book.run(old)
        return against(comparison_of(book, later, earlier), earlier, Gathered(later))
