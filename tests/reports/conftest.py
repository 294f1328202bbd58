"""Reports, and pages of a real browser to open them in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.reports import Opened, usual_run, written

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a usual run, with pictures."""
    folder = tmp_path_factory.mktemp("report")
    with usual_run(folder / "ledger.db") as ledger:
        return written(ledger, folder / "report.html")


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """`opened(path)`: a page from disk. At the end: no error in its console, no request to anywhere else."""
    complaints: list[str] = []
    contexts = []

    def dismissed(dialog: Dialog) -> None:
        complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def open_(path: Path, at: str = "", **options: object) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", dismissed)
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
