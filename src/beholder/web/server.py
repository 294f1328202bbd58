"""The FastAPI app for one ledger, and serving it: the socket, uvicorn, the browser, and warming of caches.

Once the app answers, `warm_caches` does in the background what the first visitor would wait for: it counts the runs,
compiles the templates, and loads the filters of the newest run, which brings the indexes of the ledger into memory.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import socket
import threading
import webbrowser
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response

from beholder.errors import LedgerError, UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RUNNING, RunRecord
from beholder.reviews.review import ReviewQueueCache
from beholder.web.background import BackgroundResults, RunPaceMeter, RunProgressCache, cached_choices
from beholder.web.pages import agreement, arena, case, compare, gallery, history, manage, matrix, review, runs
from beholder.web.pages.case import LargeImageCache, pictures_router
from beholder.web.pages.runs import run_router
from beholder.web.responses import NotFound, add_error_handlers, compile_first_templates, template_environment
from beholder.web.security import LOOPBACK, MIN_TOKEN_LENGTH, RequestGuard

if TYPE_CHECKING:
    from fastapi.telemetry import TelemetryConfig  # only in newer versions; older ones ignore the settings


def warm_in_background(app: FastAPI) -> threading.Thread:
    """Start a thread that warms the caches."""
    thread = threading.Thread(target=warm_caches, args=(app,), name="beholder-warming", daemon=True)
    thread.start()
    return thread


def warm_caches(app: FastAPI) -> None:
    """Fill the caches that the first pages need."""
    ledger: Ledger = app.state.ledger
    background: BackgroundResults = app.state.background
    progress_cache: RunProgressCache = app.state.progress_cache
    with suppress(LedgerError):  # a page reports the error
        records = ledger.runs()
        progress_cache.load(ledger, records)
        _compile_templates()
        if newest := _newest_finished(records):
            cached_choices(ledger, background, newest)


def _compile_templates() -> None:
    for name in template_environment().list_templates():
        template_environment().get_template(name)


def _newest_finished(records: list[RunRecord]) -> RunRecord | None:
    """Return the newest run that is not running (its cached data would be outdated at once); only one, so that early
    visitors do not wait."""
    return next((record for record in records if not record.is_review and record.state != RUNNING), None)


def allowed_hosts(host: str, token: str | None) -> frozenset[str]:
    """Return the host names that requests to an app on this address may name.

    Raises:
        UsageError: The token is too short, or others can reach the address and there is no token.
    """
    if token is not None and len(token) < MIN_TOKEN_LENGTH:
        raise UsageError(f"The token has {len(token)} characters; it must have at least {MIN_TOKEN_LENGTH}.")
    if _is_loopback(host):
        return LOOPBACK | {host.lower()}
    if token is None:
        raise UsageError(
            f"{host!r} can be reached by others; say what they must know with --token (or BEHOLDER_TOKEN), "
            "or leave out --host to serve this machine only."
        )
    return LOOPBACK | {host.lower(), socket.gethostname().lower()}


def open_socket(host: str, port: int) -> socket.socket:
    """Bind a socket; port 0 is any free one. Raises `UsageError` if that fails."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.socket(
            family, socket.SOCK_STREAM, socket.IPPROTO_TCP
        )  # with the protocol named, asyncio sets TCP_NODELAY
        if os.name != "nt":  # where it means that others may take the port as well
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, port))
        except BaseException:
            made.close()
            raise
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"There is no listening on {host!r}, port {port}: {reason}.") from None
    return made


def socket_url(listening: socket.socket, host: str) -> str:
    """Return the URL to open in a browser; for an address such as 0.0.0.0 it has the name of the machine."""
    shown = _machine_name() if host in ("0.0.0.0", "::", "") else host
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}/"


def serve(app: FastAPI, listening: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until interrupted; `ready` is called once requests are answered."""
    _WebServer(app, ready).run(sockets=[listening])


@contextmanager
def serve_in_thread(app: FastAPI, host: str = "127.0.0.1") -> Iterator[str]:
    """Serve the app on a free port in a thread, for tests; yield its URL."""
    listening = open_socket(host, 0)
    started = threading.Event()
    server = _WebServer(app, started.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        if not started.wait(30):
            raise RuntimeError("the server did not start within 30 seconds")
        yield socket_url(listening, host).rstrip("/")
    finally:
        server.should_exit = True
        thread.join(10)
        if server.warming is not None:
            server.warming.join(10)
        listening.close()


def open_browser(address: str) -> None:
    """Open the browser, if there is one, without waiting for it."""
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


class _WebServer(uvicorn.Server):
    def __init__(self, app: FastAPI, ready: Callable[[], None]) -> None:
        super().__init__(_server_config(app))
        self._app, self._ready = app, ready
        self.warming: threading.Thread | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()
        self.warming = warm_in_background(self._app)


def _server_config(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=2,
    )


def _machine_name() -> str:
    """Return the host name of this machine; 127.0.0.1 if it does not resolve."""
    name = socket.gethostname().lower()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "127.0.0.1"
    return name


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
    compare.router,
    matrix.router,
    history.router,
    agreement.router,
    arena.router,
    pictures_router,
    manage.router,
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
    app.state.pace_meter = RunPaceMeter()
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
        return Ledger.open(ledger)
    except LedgerError:  # it may be read-only; if not, opening it again raises the error
        return Ledger.open(ledger, read_only=True)
