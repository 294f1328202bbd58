"""Compare, matrix, history and agreement in a real browser: marks of charts by keyboard, the slider between before and
now, contrast and labels in both themes, and no page wider than its screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from support.changes import AFTER, BEFORE, changed_runs
from support.reports import Opened
from support.web import running, worked_out

from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry
from beholder.reviews.review import find_or_start_review

if TYPE_CHECKING:
    from playwright.sync_api import Page

COMPARE = f"/compare?before={BEFORE}&after={AFTER}"
MATRIX = f"/matrix?run={BEFORE}&run={AFTER}&only=differ"
PAGES = (COMPARE, MATRIX, "/history?name=nightly", f"/agreement?run={BEFORE}", f"/calibration?run={BEFORE}")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    place: Path = changed_runs(tmp_path_factory.mktemp("charts") / "ledger.db")
    with Ledger.open(place) as ledger:
        for rater, lower in (("Ada", 0.0), ("Bo", 0.25)):
            review = find_or_start_review(ledger, BEFORE, rater)
            ratings = []
            for stored in list(ledger.stored_verdicts(BEFORE))[:12]:
                criteria = {
                    key: replace(result, score=max(1, (result.score or 1) - stored.position % 2 * 4 * lower))
                    for key, result in stored.verdict.criteria.items()
                }
                rated = replace(stored.verdict, judge=review.judge, criteria=criteria, flags=())
                ratings.append(Entry(stored.position, ledger.case(BEFORE, rated.case), rated))
            ledger.write(review.id, ratings)
    with running(place) as site:
        with httpx.Client(base_url=site, trust_env=False) as client:
            for path in PAGES:
                worked_out(client, path)
        yield site


def test_a_chart_is_one_stop_and_its_marks_are_reached_by_arrows(visited: Opened, runs: str) -> None:
    page = visited(COMPARE, at=runs)
    page.wait_for_selector("html[data-app]", state="attached")
    chart = page.locator("svg.bars")
    assert chart.locator("a[tabindex='0']").count() == 1
    first = chart.locator("a").first
    page.locator("a[href='#numbers']").focus()
    page.keyboard.press("Tab")  # the scatter plot before it is one stop, too
    assert page.evaluate("document.activeElement.matches('svg.plot a')")
    page.keyboard.press("Tab")
    assert first.evaluate("mark => mark === document.activeElement")
    assert "worse by" in (first.get_attribute("aria-label") or "")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    named = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert named == "10 cases better by 0.2 to 0.3"
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?**by=**")
    page.locator("#cases .changed").first.wait_for()
    assert page.locator("#cases [role=status]").inner_text().startswith("10 cases")
    assert page.locator(".changed").count() == 10


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_has_no_score_is_seen_in_the_history(visited: Opened, runs: str, theme: str) -> None:
    page = visited("/history?name=nightly", at=runs, color_scheme=theme)
    fills = page.evaluate("[...document.querySelectorAll('.trend .slice')].map(one => getComputedStyle(one).fill)")
    assert fills
    assert "rgb(0, 0, 0)" not in fills  # what an svg without a color has


def test_before_and_now_meet_where_the_slider_is(visited: Opened, runs: str) -> None:
    page = visited(COMPARE, at=runs)
    pair = page.locator(".before-now.slides").first
    slider = pair.get_by_role("slider")
    assert slider.get_attribute("aria-label") == "Where before and now meet, photo-00001/model-a"
    slider.focus()
    page.keyboard.press("End")
    assert "100%" in page.evaluate("getComputedStyle(document.querySelector('.slides figure + figure')).clipPath")
    page.keyboard.press("Home")
    assert "100%" not in page.evaluate("getComputedStyle(document.querySelector('.slides figure + figure')).clipPath")
    assert slider.get_attribute("aria-valuetext") == "0 % before, the rest now"


def test_without_script_before_and_now_are_side_by_side_and_marks_are_links(visited: Opened, runs: str) -> None:
    page = visited(COMPARE, at=runs, java_script_enabled=False)
    boxes = [figure.bounding_box() for figure in page.locator(".before-now").first.locator("figure").all()]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    page.locator("svg.plot a").first.click()
    page.wait_for_url("**/compare?**old=**")
    page.locator("#cases .changed").first.wait_for()


@pytest.mark.parametrize(("size", "theme"), [((390, 844), "dark"), ((1366, 768), "light"), ((1366, 768), "dark")])
def test_pages_fit_their_screen_and_can_be_read_by_all(
    visited: Opened,
    runs: str,
    violations: Callable[[Page], list[tuple[str, list[str]]]],
    size: tuple[int, int],
    theme: str,
) -> None:
    page = visited("/", at=runs, viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    for path in PAGES:
        page.goto(runs + path)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], path
        assert violations(page) == [], path
        assert page.evaluate(SMALL_TEXTS) == [], path


SMALL_TEXTS = """[...document.querySelectorAll('svg.chart text')].filter(one => one.checkVisibility()).filter(one => {
  const chart = one.ownerSVGElement, drawn = chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
  return parseFloat(getComputedStyle(one).fontSize) * drawn < 11;
}).map(one => one.outerHTML)"""
