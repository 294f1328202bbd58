"""`beholder view`: the ledger as a web app on this machine."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from beholder.cli.runs import LedgerAt
from beholder.errors import SetupError
from beholder.reports.terminal import say


def view(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is any that is free.")] = 0,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Others than loopback need --token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            help="What a visitor must know, at least 16 characters.", envvar="BEHOLDER_TOKEN", show_default=False
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    ledger: LedgerAt = None,
) -> None:
    """Look at runs, compare them and rate cases, in the browser. Only this machine is served, unless by --host."""
    try:
        from beholder.web.app import create_app
        from beholder.web.serving import address_of, bound, hosts_for, open_browser, serve
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette"):
            raise
        raise SetupError("The web app needs FastAPI and uvicorn: pip install 'beholder[web]'") from None

    hosts = hosts_for(host, token)
    app = create_app(ledger, hosts=hosts, token=token)
    with bound(host, port) as listening:
        address = address_of(listening, host) + (f"?token={quote(token, safe='')}" if token else "")

        def ready() -> None:
            say(f"Beholder is at {address} (stop it with Ctrl+C).")
            if browser:
                open_browser(address)

        serve(app, listening, ready)
