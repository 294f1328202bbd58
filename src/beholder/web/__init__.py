"""The local web app: `beholder view`.

security    checks of host, origin and token, and security headers
server      create_app: the FastAPI app for one ledger; socket, uvicorn, browser, cache warming
responses   what every page uses: the ledger, templates, errors as sentences
background  results that are computed in the background and cached, progress of runs
pages/      routes: runs, gallery, case and images, comparison, matrix, history, arena, agreement and calibration,
            review (form and pages)
"""

from __future__ import annotations

import os
from urllib.parse import quote

from beholder.errors import SetupError


def view(
    ledger: str | os.PathLike[str] | None = None,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    token: str | None = None,
    browser: bool = True,
) -> None:
    """Show a ledger in the browser: runs, cases, comparisons and reviews. Returns when it is interrupted (Ctrl-C).

    Args:
        ledger: The ledger; else `BEHOLDER_LEDGER`, else `beholder.db`.
        port: The port; 0 is any that is free.
        host: The address to listen on. Others than loopback need a token.
        token: What a visitor must know, at least 16 characters.
        browser: Whether to open the browser.

    Raises:
        SetupError: The extra `web` is not installed.
        UsageError: The address cannot be listened on, or needs a token.
        LedgerError: There is no such ledger.
    """
    try:
        from beholder.web.server import allowed_hosts, create_app, open_browser, open_socket, serve, socket_url
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette"):
            raise
        raise SetupError("The web app needs FastAPI and uvicorn: pip install 'beholder[web]'") from None

    app = create_app(None if ledger is None else os.fspath(ledger), hosts=allowed_hosts(host, token), token=token)
    with open_socket(host, port) as listening:
        url = socket_url(listening, host) + (f"?token={quote(token, safe='')}" if token else "")

        def announce() -> None:
            print(f"Beholder is at {url} (stop it with Ctrl+C).", flush=True)
            if browser:
                open_browser(url)

        serve(app, listening, announce)
