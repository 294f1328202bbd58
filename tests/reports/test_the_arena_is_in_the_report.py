"""A report of a run of pairs has its boards, and win rates that lead to the pairs of two models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.reports import Opened, usual_run, written
from support.votes import PHOTOS, pairs, vote_all

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def report(tmp_path: Path) -> Path:
    with pairs(tmp_path / "ledger.db") as ledger:
        vote_all(ledger, "Ana")
        vote_all(ledger, "Bo", wrong=3)
        return written(ledger, tmp_path / "report.html")


def test_boards_of_judge_and_people_are_in_it(report: Path) -> None:
    text = report.read_text("utf-8")
    section = text.split('<section id="arena"')[1].split("</section>")[0]
    assert section.count('class="rows board"') == 2
    assert "By people, 2 raters" in section
    assert "two people" in section


def test_a_report_of_scores_has_none(tmp_path: Path) -> None:
    with usual_run(tmp_path / "ledger.db") as ledger:
        text = written(ledger, tmp_path / "report.html").read_text("utf-8")
    assert 'id="arena"' not in text


def test_a_cell_shows_the_pairs_of_its_two_models(report: Path, opened: Opened) -> None:
    page = opened(report)
    page.locator(".matrix").get_by_role("link", name="cobalt against aurora").click()
    page.wait_for_selector(f"[data-count]:has-text('{PHOTOS} of')")
    names = page.locator(".card .name").all_text_contents()
    assert len(names) == PHOTOS
    assert all({"aurora", "cobalt"} == set(name.strip().split("/")[1].split("-")) for name in names)


def test_flips_and_two_bad_ones_are_one_click_away(report: Path, opened: Opened) -> None:
    page = opened(report)
    for words in ("1 flips", "1 both bad"):
        page.locator("#arena").get_by_role("link", name=words, exact=True).click()
        page.wait_for_selector("[data-count]:has-text('1 of')")
        assert page.locator(".card").count() == 1


def test_the_two_candidates_are_compared_first(report: Path, opened: Opened) -> None:
    page = opened(report, "#q=photo-00001/aurora-cobalt")
    page.wait_for_selector("[data-count]:has-text('1 of')")
    page.locator(".card a").first.click()
    page.wait_for_selector("dialog.case[open] .cv")
    assert page.locator(".cv-tag").all_inner_texts()[:1] == ["First: aurora"]
    shown = page.locator(".cv-pickers select").evaluate_all("found => found.map((one) => one.selectedOptions[0].text)")
    assert shown == ["First: aurora", "Second: cobalt"]
    assert page.locator(".sides figcaption").all_inner_texts() == ["Input", "aurora ✓ better", "cobalt"]


def test_a_card_has_the_input_and_both_candidates_and_says_who_won(report: Path, opened: Opened) -> None:
    page = opened(report, "#q=photo-00001/aurora-cobalt")
    page.wait_for_selector("[data-count]:has-text('1 of')")
    card = page.locator(".card")
    assert card.locator("figcaption").all_text_contents() == ["Input", "aurora ✓", "cobalt"]
    assert card.locator(".score").text_content() == "aurora is better"
    assert len(set(card.locator("img").evaluate_all("found => found.map((one) => one.dataset.picture)"))) == 3
    assert page.locator('[data-key="sort"]').input_value() == "run"  # no end of the list is the worse one
    page.goto(f"{report.as_uri()}#group.winner=both_bad")
    page.wait_for_selector("[data-count]:has-text('1 of')")
    assert card.locator(".score").text_content() == "both bad"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(390, 844), (1366, 768)])
def test_it_is_legible(
    report: Path,
    opened: Opened,
    violations: Callable[[Page], list[tuple[str, list[str]]]],
    size: tuple[int, int],
    theme: str,
) -> None:
    page = opened(report, viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    assert violations(page) == []
    page.evaluate(  # as with ten models: what only a reader hears must not lie beyond the edge
        "document.querySelectorAll('.matrix tr').forEach((row) => {"
        " for (const _ of Array(8)) row.append(row.lastElementChild.previousElementSibling.cloneNode(true)); })"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
