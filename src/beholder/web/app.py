"""Style sheets and scripts. They are read once, when the app starts; a request only chooses among them by name.

The app for one ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response

from beholder.errors import LedgerError
from beholder.ledger.ledger import Ledger
from beholder.reviews.queue import ReviewQueueCache
from beholder.web.background import BackgroundResults, RunProgressCache
from beholder.web.pages import agreement, case, gallery, review, runs
from beholder.web.pages.case import LargeImageCache, pictures_router
from beholder.web.pages.runs import compare_router, run_router
from beholder.web.responses import NotFound, add_error_handlers, compile_first_templates
from beholder.web.security import LOOPBACK, RequestGuard

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig  # only newer ones have it; older ones take and ignore the settings


assets_router = APIRouter()

_ASSET_PACKAGES = ("beholder.reports.assets", "beholder.web.static")
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class StaticAsset:
    data: bytes
    kind: str
    tag: str


@assets_router.get("/assets/{name}", include_in_schema=False)
def serve_asset(request: Request, name: str) -> Response:
    found = load_assets().get(name)
    if found is None:
        raise NotFound(f"There is no asset {name!r}.")
    headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.data, media_type=found.kind, headers=headers)


@cache
def load_assets() -> dict[str, StaticAsset]:
    found: dict[str, StaticAsset] = {}
    for place in _ASSET_PACKAGES:
        for file in files(place).iterdir():
            kind = _MEDIA_TYPES.get("." + file.name.rpartition(".")[2])
            if kind is not None:
                data = file.read_bytes()
                found[file.name] = StaticAsset(data, kind, f'"{hashlib.sha256(data).hexdigest()[:16]}"')
    return found


ROUTERS = (
    assets_router,
    runs.router,
    run_router,
    gallery.router,
    case.router,
    compare_router,
    agreement.router,
    pictures_router,
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
    app.state.ledger = _open_ledger(ledger)
    app.state.workshop = BackgroundResults()
    app.state.standings = RunProgressCache()
    app.state.pictures = LargeImageCache()
    app.state.queues = ReviewQueueCache()
    load_assets()
    compile_first_templates()
    for router in ROUTERS:
        app.include_router(router)
    add_error_handlers(app)
    app.add_middleware(RequestGuard, hosts=hosts, token=token)
    return app


def _open_ledger(ledger: Path | str | None) -> Ledger:
    try:
        return Ledger.open(ledger, create=False)
    except LedgerError:  # perhaps only to be read; else this says what is wrong
        return Ledger.open(ledger, read_only=True)
