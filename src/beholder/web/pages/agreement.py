"""A judge beside people, from the reviews in the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from beholder.ledger import Ledger, RunRecord
from beholder.web.answering import Book, page, record_of
from beholder.web.computing import Shop, Workshop
from beholder.web.pages.runs import is_review
from beholder.web.people import agreed, curves, reviews

router = APIRouter()

T = TypeVar("T")
RunName = Annotated[str, Query(max_length=500)]


@router.get("/agreement")
def agreement(request: Request, book: Book, shop: Shop, run: RunName = "") -> HTMLResponse:
    """How far the judge of a run agrees with the people who reviewed it, beside how far they agree with each other."""
    return _beside(request, book, shop, run, "Agreement", agreed)


@router.get("/calibration")
def calibration(request: Request, book: Book, shop: Shop, run: RunName = "") -> HTMLResponse:
    """What people say where the judge says so much."""
    return _beside(request, book, shop, run, "Calibration", curves)


def _beside(
    request: Request, book: Ledger, shop: Workshop, run: str, name: str, work: Callable[[Ledger, RunRecord], T | None]
) -> HTMLResponse:
    records = book.runs()
    reviewed = {str(record.suite.get("review_of")) for record in records if is_review(record)}
    runs = [record for record in records if record.id in reviewed]
    record = record_of(book, run) if run else runs[0] if runs else None
    found, waiting = None, False
    if record is not None and record.id in reviewed:
        chosen = record
        stamp = (record.updated, *(one.updated for one in reviews(records, record.id)))
        told = shop.get((name, record.id), stamp, lambda: work(book, chosen))
        found, waiting = told.value, told.value is None and not told.fresh
    answer = page(
        request,
        f"{name.lower()}.html",
        title=name,
        here=name,
        runs=runs,
        run=record,
        raters=len(reviews(records, record.id)) if record else 0,
        found=found,
        waiting=waiting,
    )
    if waiting:
        answer.headers["Refresh"] = "1"
    return answer
