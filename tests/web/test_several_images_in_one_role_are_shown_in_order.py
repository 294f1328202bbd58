"""A run whose cases have several images in one role, or images in memory, is stored, resumed, shown and reported."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np
import pytest
from PIL import Image
from support.several import ANSWER, plain_png, write_rubric
from support.web import Started

import beholder
from beholder import Case, Ledger
from beholder.reports.html_report import write_report
from beholder.testing.server import JudgeServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LEVELS = (10, 60, 120, 200)


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(ANSWER, keyless=True) as running:
        yield running


def make_case() -> Case:
    """Return a case of three references (a file, an array and a PIL image) and a portrait."""
    second = np.full((24, 32, 3), LEVELS[1], np.uint8)
    third = Image.fromarray(np.full((24, 32, 3), LEVELS[2], np.uint8))
    return Case("c", {"reference": ["first.png", second, third], "portrait": "portrait.png"}, {"wish": "older"})


@pytest.fixture
def judged(tmp_path: Path, server: JudgeServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger with a run of one such case."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.png").write_bytes(plain_png(LEVELS[0]))
    (tmp_path / "portrait.png").write_bytes(plain_png(LEVELS[3]))
    write_rubric(tmp_path)
    for _ in range(2):  # the second call resumes the first
        run = beholder.run(
            rubric="likeness.yaml",
            cases=iter([make_case()]),
            judge=[{"judge": "openai:m", "base_url": server.openai_url}],
            ledger="ledger.db",
        )
    assert len(server.received) == 1
    assert [verdict.score for verdict in run.verdicts()] == [0.75]
    return tmp_path / "ledger.db"


def gray_of(webp: bytes) -> int:
    """Return the level of an image to the nearest ten, since WebP is not lossless."""
    return int(np.asarray(Image.open(io.BytesIO(webp)).convert("L")).mean().round(-1))


def test_the_verdict_and_the_ledger_have_them_in_order(judged: Path, tmp_path: Path) -> None:
    with Ledger.open(judged) as ledger:
        (record,) = ledger.runs()
        case = ledger.case(record.id, "c")
        assert case.images == {
            "reference": (str(tmp_path / "first.png"), "bytes:", "bytes:"),
            "portrait": str(tmp_path / "portrait.png"),
        }
        (verdict,) = ledger.verdict(record.id, "c")
        assert [image.role for image in verdict.images] == ["reference"] * 3 + ["portrait"]
        thumbnails = [ledger.thumbnail(image.source_digest) for image in verdict.images]
        assert [gray_of(webp) for webp in thumbnails if webp is not None] == list(LEVELS)
        assert ledger.check() == []


def test_the_app_shows_them_in_order_and_tells_the_prompt(judged: Path, started: Started) -> None:
    with Ledger.open(judged) as ledger:
        run = ledger.runs()[0].id
    with httpx.Client(base_url=started(judged), trust_env=False) as client:
        page = client.get(f"/runs/{run}/case", params={"id": "c"}).text
        (found,) = re.findall(r'<script type="application/json" id="images">(.*?)</script>', page, re.S)
        images = json.loads(found)
        assert [image["role"] for image in images] == ["reference 1", "reference 2", "reference 3", "portrait"]
        assert [gray_of(client.get(image["src"], follow_redirects=True).content) for image in images] == list(LEVELS)
        assert "This is the text that was sent, as its digest says." in page
        assert "[Reference Image 2 of 3]" in page
        cards = client.get(f"/runs/{run}/cases").text
        assert re.findall(r'alt="(Reference|Portrait)"', cards) == ["Reference", "Portrait"]


def test_people_rate_all_of_them(judged: Path, started: Started) -> None:
    with Ledger.open(judged) as ledger:
        run = ledger.runs()[0].id
    site = started(judged)
    headers = {"Origin": site}
    with httpx.Client(base_url=site, trust_env=False, follow_redirects=True, headers=headers) as client:
        page = client.post(f"/review/run/{run}", data={"rater": "Ada"})
        shown = re.findall(r'<img src="([^"]+)" alt="([^"]+)"', page.text)
        assert [label for _, label in shown] == [
            "Reference Image 1",
            "Reference Image 2",
            "Reference Image 3",
            "Portrait",
        ]
        assert [gray_of(client.get(source).content) for source, _ in shown] == list(LEVELS)
        assert client.post(page.url, data={"likeness:likeness": "3"}).status_code == 200
    with Ledger.open(judged) as ledger:  # what is stored of images in memory stays that
        (review,) = (record for record in ledger.runs() if record.is_review)
        assert ledger.case(review.id, "c").images == ledger.case(run, "c").images


def test_the_command_line_takes_and_shows_them(judged: Path, server: JudgeServer) -> None:
    images = ["--image", "reference=first.png", "--image", "reference=portrait.png", "--image", "portrait=portrait.png"]
    asked = ["judge", "likeness.yaml", *images, "--judge", "openai:m", "--base-url", server.openai_url]
    commands = [asked, ["show", "likeness", "c", "--ledger", str(judged)]]
    cards = [subprocess.run([sys.executable, "-m", "beholder", *words], capture_output=True) for words in commands]
    assert [card.returncode for card in cards] == [0, 0], cards
    assert len(server.received[-1].images) == 3
    for name in ("reference 1 ", "reference 2 ", "portrait "):
        assert all(name in card.stdout.decode() for card in cards)


def test_the_report_has_them_all(judged: Path, tmp_path: Path, browser: Browser) -> None:
    with Ledger.open(judged) as ledger, (tmp_path / "report.html").open("wb") as out:
        write_report(ledger, ledger.runs()[0], out)
    page = browser.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    page.click(".card a")
    names = ["Reference 1", "Reference 2", "Reference 3", "Portrait"]
    assert [one.inner_text() for one in page.locator("dialog select").first.locator("option").all()] == names
    assert [one.text_content() for one in page.locator("dialog dl.sent dt").all()][2:6] == names
    page.close()
