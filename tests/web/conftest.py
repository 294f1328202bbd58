"""The app for a usual run on a real port, and pages of a real browser to open it in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from support.reports import Opened, usual_run
from support.web import RUN, Started, running, worked_out

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a usual run, for all tests: nobody writes to it."""
    path = tmp_path_factory.mktemp("web") / "ledger.db"
    usual_run(path).close()
    return path


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A ledger with a usual run."""
    return Path(shutil.copy(made, tmp_path / "ledger.db"))


@pytest.fixture
def started() -> Iterator[Started]:
    """`started(ledger, …)`: the address of an app for it, as `create_app` makes it; all of them end with the test."""
    with ExitStack() as stack:
        yield lambda ledger, **options: stack.enter_context(running(ledger, **options))


@pytest.fixture(scope="module")
def site(made: Path) -> Iterator[str]:
    """The address of an app for the usual run, for tests that only read."""
    with running(made) as address:
        with httpx.Client(base_url=address, trust_env=False) as client:
            worked_out(client, f"/runs/{RUN}")
        yield address


@pytest.fixture
def client(site: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site, trust_env=False) as found:
        yield found


def _told(said: ConsoleMessage) -> str:
    return f"{said.text} ({said.location['url']})"


@pytest.fixture
def visited(browser: Browser, site: str) -> Iterator[Opened]:
    """`visited(path)`: a page of the app. At the end: no error in any console, no request to anywhere else."""
    complaints: list[str] = []
    contexts = []

    def dismissed(dialog: Dialog) -> None:
        complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def visit(path: str = "/", at: str = site, **options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(_told(said)) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", dismissed)
        page.on("request", lambda asked: None if asked.url.startswith(at) else complaints.append(asked.url))
        page.goto(f"{at}{path}")
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []
