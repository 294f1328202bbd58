"""What the first visitor would else wait for, done in the background once the app answers: runs are counted, pages are
compiled, and what the filters of the newest run offer is looked up, which brings the ledger's indexes from the disk.
Whoever comes meanwhile is answered, only not yet as quickly."""

from __future__ import annotations

import threading
from contextlib import suppress

from fastapi import FastAPI

from beholder.errors import LedgerError
from beholder.ledger import Ledger, RunRecord
from beholder.ledger.model import RUNNING
from beholder.runs.reviewing import is_review
from beholder.web.answering import environment
from beholder.web.choices import choices_of
from beholder.web.computing import Workshop
from beholder.web.standings import Standings

FIRST = ("base.html", "runs.html")  # what the first page is drawn with


def warm_in_background(app: FastAPI) -> threading.Thread:
    thread = threading.Thread(target=warm, args=(app,), name="beholder-warming", daemon=True)
    thread.start()
    return thread


def compile_first() -> None:
    """The least that is done before the app says that it is there: 20 ms."""
    for name in FIRST:
        environment().get_template(name)


def warm(app: FastAPI) -> None:
    book: Ledger = app.state.ledger
    shop: Workshop = app.state.workshop
    stands: Standings = app.state.standings
    with suppress(LedgerError):  # who asks for a page is told what is wrong
        records = book.runs()
        stands.of(book, records)
        _compile()
        if newest := _newest(records):
            choices_of(book, shop, newest)


def _compile() -> None:
    for name in environment().list_templates():
        environment().get_template(name)


def _newest(records: list[RunRecord]) -> RunRecord | None:
    """Not one that is running: what is looked up of it is old at once. Nor more than one: who comes at once would
    wait."""
    return next((one for one in records if not is_review(one) and one.state != RUNNING), None)
