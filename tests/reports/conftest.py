"""Reports, and a real browser to open them in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from report_making import Opened, usual_run, written

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a usual run, with pictures."""
    folder = tmp_path_factory.mktemp("report")
    with usual_run(folder / "ledger.db") as ledger:
        return written(ledger, folder / "report.html")


@pytest.fixture(scope="module")  # no wider: while it is open an event loop runs in this thread, and no other may
def browser() -> Iterator[Browser]:
    """Chromium. On a build server it must be there; elsewhere its tests are left out, with the reason."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _lacking("the Python package playwright is not installed")
    place = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if place is None:
        _lacking("there is no Chromium on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def violations() -> Callable[[Page], list[tuple[str, list[str]]]]:
    """What axe-core finds wrong with a page: the rule, and some of the elements that break it."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        _lacking("the Python package axe-playwright-python is not installed")
    axe = Axe()

    def violations(page: Page) -> list[tuple[str, list[str]]]:
        found = axe.run(page).response["violations"]
        return [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in found]

    return violations


def _lacking(why: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(f"no browser to test in: {why}")
    pytest.skip(f"no browser to test in: {why}")


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """`opened(path)`: a page from disk. At the end: no error in its console, no request to anywhere else."""
    complaints: list[str] = []
    contexts = []

    def open_(path: Path, at: str = "", **options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda asked: None if _local(asked.url) else complaints.append(f"asked for {asked.url}"))
        page.goto(f"{path.as_uri()}{at}")
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def _local(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:"))
