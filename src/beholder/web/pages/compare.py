"""Two runs, case by case: what changed, and whether that could be chance."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from beholder.ledger import Ledger, RunRecord
from beholder.reports.html.against import Against, against, comparison_of
from beholder.reports.html.gathering import Gathered
from beholder.web.answering import Book, page, record_of
from beholder.web.computing import MANY, Result, Shop, apart
from beholder.web.pages.runs import is_review

router = APIRouter()

RunName = Annotated[str, Query(max_length=500)]


@router.get("/compare")
def compare(request: Request, book: Book, shop: Shop, before: RunName = "", after: RunName = "") -> HTMLResponse:
    """What changed from one run to another; without both, a form to choose them."""
    old, new = (record_of(book, name) if name else None for name in (before, after))
    records = [record for record in book.runs() if not is_review(record)]
    if new is not None and old is None:
        old = _earlier(records, new)
    told: Result[Against] | None = None
    if old is not None and new is not None and old.id != new.id:
        work = partial(_against, book.path, new.id, old.id)
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
    )
    if told is not None and told.value is None:
        answer.headers["Refresh"] = "1"
    return answer


def _earlier(records: list[RunRecord], new: RunRecord) -> RunRecord | None:
    """The run before, of the same name if there is one."""
    ids = [record.id for record in records]
    older = records[ids.index(new.id) + 1 :] if new.id in ids else []
    return next((record for record in older if record.name == new.name), None)


def _against(place: Path, new: str, old: str) -> Against:
    with Ledger.open(place, read_only=True) as book:
        later, earlier = book.run(new), book.run(old)
        return against(comparison_of(book, later, earlier), earlier, Gathered(later))
