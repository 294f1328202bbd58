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
from beholder.web.standings import Standings, Stands

router = APIRouter()

T = TypeVar("T")

EVERY_S = 5  # that the page looks whether somebody rated meanwhile


@router.get("/agreement")
def agreement(request: Request, book: Book, shop: Shop, stands: Stands, run: RunName = "") -> HTMLResponse:
    """How far the judge of a run agrees with the people who reviewed it, beside how far they agree with each other."""
    return _beside(request, book, shop, stands, run, "Agreement", agreed)


@router.get("/calibration")
def calibration(request: Request, book: Book, shop: Shop, stands: Stands, run: RunName = "") -> HTMLResponse:
    """What people say where the judge says so much."""
    return _beside(request, book, shop, stands, run, "Calibration", curves)


def _beside(
    request: Request,
    book: Ledger,
    shop: Workshop,
    stands: Standings,
    run: str,
    name: str,
    work: Callable[[Ledger, RunRecord], T | None],
) -> HTMLResponse:
    records = book.runs()
    rated = {id_: one.rated for id_, one in stands.of(book, records).items()}
    reviews: dict[str, list[RunRecord]] = {}
    for one in records:
        if is_review(one) and rated.get(one.id):  # who has only begun has not said anything
            reviews.setdefault(review_of(one).run, []).append(one)
    runs = [record for record in records if record.id in reviews]
    record = record_of(book, run) if run else runs[0] if runs else None
    found, waiting, fresh = None, False, True
    if record is not None and record.id in reviews:
        chosen = record
        stamp = (record.updated, *((one.id, one.updated, rated[one.id]) for one in reviews[record.id]))
        told = shop.get((name, record.id), stamp, lambda: work(book, chosen))
        found, waiting, fresh = told.value, told.value is None and not told.fresh, told.fresh
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
        fresh=fresh,
        live_s=EVERY_S if fresh else 1,
    )
    if not fresh:  # for a browser without script
        answer.headers["Refresh"] = "1"
    return answer
