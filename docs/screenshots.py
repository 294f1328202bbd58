"""Takes the pictures of the report and the app in the README and the docs, of the demo suite: `make pictures`.

Needs Chromium on the path, and the extras `demo`, `web` and `test`.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import beholder
from beholder import Ledger
from beholder.web.server import create_app, serve_in_thread

DOCS = Path(__file__).parent
WIDTH, HEIGHT = 1280, 800
RUN, CASE = "demo-edits", "astronaut/green-suit-cat"
NEXT = "demo-edits-next"
# Name of the picture, run, case, theme, and the element that is clicked first.
CASES = (
    ("view", RUN, CASE, "dark", ""),
    ("evidence", RUN, CASE, "light", ".place-link"),
    ("words", "demo-descriptions", "coffee/invented", "light", ".said-unsupported"),
)


def main() -> None:
    place = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if place is None:
        sys.exit("There is no Chromium on the path.")
    with tempfile.TemporaryDirectory() as folder:
        ledger, page = Path(folder) / "demo" / "beholder.db", Path(folder) / "report.html"
        _beholder("demo", str(ledger.parent))
        _beholder("report", RUN, "--ledger", str(ledger), "-o", str(page))
        _judge_next_build(ledger)
        with Ledger.open(ledger, read_only=True) as book:
            runs = {run.name: run.id for run in book.runs()}
        app = create_app(ledger)
        with sync_playwright() as playwright, serve_in_thread(app) as address:
            browser = playwright.chromium.launch(executable_path=place, args=["--no-sandbox"])
            _taken(browser, page.as_uri(), "light", DOCS / "report.webp")
            compared = f"{address}/compare?before={runs[RUN]}&after={runs[NEXT]}"
            _taken(browser, compared, "light", DOCS / "compare.webp", at="#cases")
            beside = f"{address}/matrix?run={runs[RUN]}&run={runs[NEXT]}"
            _taken(browser, beside, "dark", DOCS / "matrix.webp", at="#rows-title")
            for name, run, case, shade, click in CASES:
                _taken(browser, f"{address}/runs/{runs[run]}/case?id={case}", shade, DOCS / f"{name}.webp", click)
            browser.close()
        app.state.background.close()
        app.state.ledger.close()


def _judge_next_build(ledger: Path) -> None:
    """Judge the edits once more, as of a next build whose outputs for each photograph have changed places."""
    cases = [
        beholder.Run.load(RUN, ledger).case(verdict.case).case for verdict in beholder.Run.load(RUN, ledger).verdicts()
    ]
    turned = []
    for photo in {case.groups["source"]: None for case in cases}:
        of_photo = [case for case in cases if case.groups["source"] == photo]
        outputs = [case.images["edited"] for case in of_photo]
        for case, output in zip(of_photo, outputs[1:] + outputs[:1], strict=True):
            turned.append(replace(case, images={**case.images, "edited": output}))
    beholder.run(rubric="edit-preservation", cases=turned, ledger=ledger, name=NEXT)


def _beholder(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "beholder", *words], check=True, stdout=subprocess.DEVNULL)


def _taken(browser: Browser, address: str, theme: str, to: Path, click: str = "", at: str = "") -> None:
    """Save the picture of a page, after a click on `click`, scrolled to `at`."""
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=theme)  # type: ignore[arg-type]
    page.goto(address)
    page.wait_for_selector(at or "html[data-ready]", state="attached")
    page.wait_for_load_state("networkidle")
    if click:
        page.locator(click).first.click()
    if at:
        page.locator(at).first.evaluate("one => one.scrollIntoView({ behavior: 'instant' })")
        page.wait_for_load_state("networkidle")
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").save(to, "WEBP", quality=80, method=6)
    page.close()


if __name__ == "__main__":
    main()
