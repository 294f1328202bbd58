"""A judge beside people, from the reviews in the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from beholder.ledger import Ledger, RunRecord
from beholder.runs.reviewing import is_review, review_of
from beholder.web.answering import Book, RunName, page, record_of
from beholder.web.computing import Shop, Workshop
from beholder.web.people import agreed, curves

router = APIRouter()

T = TypeVar("T")


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
    reviews: dict[str, list[RunRecord]] = {}
    for one in records:
        if is_review(one):
            reviews.setdefault(review_of(one).run, []).append(one)
    runs = [record for record in records if record.id in reviews]
    record = record_of(book, run) if run else runs[0] if runs else None
    found, waiting = None, False
    if record is not None and record.id in reviews:
        chosen = record
        stamp = (record.updated, *(one.updated for one in reviews[record.id]))
        told = shop.get((name, record.id), stamp, lambda: work(book, chosen))
        found, waiting = told.value, told.value is None and not told.fresh
    answer = page(
        request,
        f"{name.lower()}.html",
        title=name,
        here=name,
        runs=runs,
        run=record,
        raters=len(reviews.get(record.id, ())) if record else 0,
        found=found,
        waiting=waiting,
    )
    if waiting:
        answer.headers["Refresh"] = "1"
    return answer
