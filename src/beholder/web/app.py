"""The app for one ledger."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI

from beholder.errors import LedgerError
from beholder.ledger import Ledger
from beholder.runs.review_queue import Queues
from beholder.web import assets
from beholder.web.answering import tell_errors
from beholder.web.computing import Workshop
from beholder.web.pages import agreement, case, compare, gallery, pictures, review, run, runs
from beholder.web.security import LOOPBACK, Guard
from beholder.web.standings import Standings
from beholder.web.warming import compile_first

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig  # only newer ones have it; older ones take and ignore the settings

ROUTERS = (
    assets.router,
    runs.router,
    run.router,
    gallery.router,
    case.router,
    compare.router,
    agreement.router,
    pictures.router,
    review.router,
)

_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,  # a variable in the environment would else send to wherever it says
}


def create_app(ledger: Path | str | None, *, hosts: Collection[str] = LOOPBACK, token: str | None = None) -> FastAPI:
    """The app for the ledger at a path. It is opened here, and upgraded if it is of an older version; it stays open
    as long as the app lives. One that may only be read can be looked at, and not reviewed. `hosts` are the names the
    app goes by; `token`, where there is one, must be shown."""
    app = FastAPI(title="Beholder", docs_url=None, redoc_url=None, telemetry=_NO_TELEMETRY)
    app.state.ledger = _opened(ledger)
    app.state.workshop = Workshop()
    app.state.standings = Standings()
    app.state.pictures = pictures.Larger()
    app.state.queues = Queues()
    assets.assets()
    compile_first()
    for router in ROUTERS:
        app.include_router(router)
    tell_errors(app)
    app.add_middleware(Guard, hosts=hosts, token=token)
    return app


def _opened(ledger: Path | str | None) -> Ledger:
    try:
        return Ledger.open(ledger, create=False)
    except LedgerError:  # perhaps only to be read; else this says what is wrong
        return Ledger.open(ledger, read_only=True)
