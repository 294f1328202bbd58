"""Names that tests of the app share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from beholder.web.server import create_app, serve_in_thread

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUN = "r1"

Started = Callable[..., str]


def worked_out(client: httpx.Client, path: str, **asked: str) -> str:
    """A page about numbers, once they are there."""
    while "being worked out" in (text := client.get(path, params=asked or None).raise_for_status().text):
        pass
    return text


def drawn_images(page: Page, which: str) -> int:
    """How many images a page has, once all of them are drawn: one that there is not would be waited for in vain."""
    page.wait_for_function(
        "(which) => [...document.querySelectorAll(which)].every((one) => one.complete && one.naturalWidth)", arg=which
    )
    return page.locator(which).count()


@contextmanager
def running(ledger: Path, **options: object) -> Iterator[str]:
    """The address of an app for a ledger, until the end of the context."""
    app = create_app(ledger, **options)  # type: ignore[arg-type]
    try:
        with serve_in_thread(app) as address:
            yield address
    finally:
        app.state.background.close()
        app.state.ledger.close()
