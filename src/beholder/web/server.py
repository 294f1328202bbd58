"""What the first visitor would else wait for, done in the background once the app answers: runs are counted, pages are
compiled, and what the filters of the newest run offer is looked up, which brings the ledger's indexes from the disk.
Whoever comes meanwhile is answered, only not yet as quickly.

A port, the server on it, and the browser.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import uvicorn
from fastapi import FastAPI

from beholder.errors import LedgerError, UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RUNNING, RunRecord
from beholder.web.background import BackgroundResults, RunProgressCache, cached_choices
from beholder.web.responses import template_environment
from beholder.web.security import LOOPBACK, MIN_TOKEN_LENGTH


def warm_in_background(app: FastAPI) -> threading.Thread:
    thread = threading.Thread(target=warm_caches, args=(app,), name="beholder-warming", daemon=True)
    thread.start()
    return thread


def warm_caches(app: FastAPI) -> None:
    book: Ledger = app.state.ledger
    shop: BackgroundResults = app.state.workshop
    stands: RunProgressCache = app.state.standings
    with suppress(LedgerError):  # who asks for a page is told what is wrong
        records = book.runs()
        stands.of(book, records)
        _compile_templates()
        if newest := _newest_finished(records):
            cached_choices(book, shop, newest)


def _compile_templates() -> None:
    for name in template_environment().list_templates():
        template_environment().get_template(name)


def _newest_finished(records: list[RunRecord]) -> RunRecord | None:
    """Not one that is running: what is looked up of it is old at once. Nor more than one: who comes at once would
    wait."""
    return next((one for one in records if not one.is_review and one.state != RUNNING), None)


def allowed_hosts(host: str, token: str | None) -> frozenset[str]:
    """The names that an app on this address goes by. Raises `UsageError` for an address that others can reach without
    a token that deserves the name."""
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
    """A socket that listens; port 0 is any that is free. Raises `UsageError` where that cannot be."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio turns delays off only for TCP
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
    """What to open in a browser, here or elsewhere: of an address that stands for all of them, the machine's name."""
    shown = _machine_name() if host in ("0.0.0.0", "::", "") else host
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{listening.getsockname()[1]}/"


def serve(app: FastAPI, listening: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serves until it is interrupted; `ready` is called once requests are answered."""
    _WebServer(app, ready).run(sockets=[listening])


@contextmanager
def serve_in_thread(app: FastAPI, host: str = "127.0.0.1") -> Iterator[str]:
    """The app on a free port of this machine, in a thread, for tests; the value is its address."""
    listening = open_socket(host, 0)
    up = threading.Event()
    server = _WebServer(app, up.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        if not up.wait(30):
            raise RuntimeError("the server did not start within 30 seconds")
        yield socket_url(listening, host).rstrip("/")
    finally:
        server.should_exit = True
        thread.join(10)
        if server.warming is not None:
            server.warming.join(10)
        listening.close()


def open_browser(address: str) -> None:
    """Where there is one; who works without a screen opens the address by hand."""
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
    """What others call this machine; loopback where that name leads nowhere even from here."""
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
