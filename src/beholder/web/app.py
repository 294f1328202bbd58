"""The FastAPI app for one ledger, with its style sheets and scripts."""

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
    from fastapi.telemetry import TelemetryConfig  # only in newer versions; older ones ignore the settings


assets_router = APIRouter()

_ASSET_FOLDERS = (("beholder.reports", "assets"), ("beholder.web", "static"))
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class StaticAsset:
    """A style sheet, script or image with its media type and ETag."""

    data: bytes
    media_type: str
    etag: str


@assets_router.get("/assets/{name}", include_in_schema=False)
def serve_asset(request: Request, name: str) -> Response:
    asset = load_assets().get(name)
    if asset is None:
        raise NotFound(f"There is no asset {name!r}.")
    headers = {"ETag": asset.etag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    return Response(asset.data, media_type=asset.media_type, headers=headers)


@cache
def load_assets() -> dict[str, StaticAsset]:
    """Read all assets into memory, by name: a request can only choose among them, and no path reaches the disk."""
    assets: dict[str, StaticAsset] = {}
    for package, folder in _ASSET_FOLDERS:
        for file in (files(package) / folder).iterdir():
            media_type = _MEDIA_TYPES.get("." + file.name.rpartition(".")[2])
            if media_type is not None:
                data = file.read_bytes()
                assets[file.name] = StaticAsset(data, media_type, f'"{hashlib.sha256(data).hexdigest()[:16]}"')
    return assets


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
    "auto_configure": False,  # else an environment variable could make it send data somewhere
}


def create_app(ledger: Path | str | None, *, hosts: Collection[str] = LOOPBACK, token: str | None = None) -> FastAPI:
    """Create the app for a ledger.

    The ledger is upgraded if it is of an older version, and stays open as long as the app lives. A read-only one can be
    viewed, not reviewed.

    Args:
        ledger: Its address; None for the default.
        hosts: Host names that requests may name.
        token: Secret that requests must present, if any.
    """
    app = FastAPI(title="Beholder", docs_url=None, redoc_url=None, telemetry=_NO_TELEMETRY)
    app.state.ledger = _open_ledger(ledger)
    app.state.background = BackgroundResults()
    app.state.progress_cache = RunProgressCache()
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
    except LedgerError:  # it may be read-only; if not, opening it again raises the error
        return Ledger.open(ledger, read_only=True)
