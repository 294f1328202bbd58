"""The blind A/B form in a real browser: votes by keyboard, sides that are random and recorded, nothing told before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from support.reports import Opened
from support.votes import MODELS, RUBRIC, RUN, SECRETS, pairs, text_pairs, vote_all
from support.web import Started

from beholder.ledger.ledger import Ledger
from beholder.reviews.review import case_from_label, case_label, find_or_start_review, list_reviews
from beholder.reviews.sheet import load_rating
from beholder.reviews.votes import recorded_order

if TYPE_CHECKING:
    from playwright.sync_api import Page

START = f"/review/run/{RUN}"
SIZES = [(390, 844), (1366, 768)]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    pairs(path).close()
    return path


@pytest.fixture
def site(place: Path, started: Started) -> str:
    return started(place)


def ready(page: Page) -> None:
    page.wait_for_selector("html[data-ready]", state="attached")


def begin(page: Page, name: str = "Ana") -> None:
    page.locator("[name=rater]").fill(name)
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-rate]")
    ready(page)


def go_on(page: Page) -> None:
    page.wait_for_selector(".revealed")
    ready(page)
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-rate]")
    ready(page)


def label(page: Page) -> str:
    return page.url.split("/case/")[1].split("?")[0]


def chosen(page: Page) -> list[str]:
    values: list[str] = page.locator(".pick input:checked").evaluate_all("found => found.map((one) => one.value)")
    return values


def redness(page: Page, side: int) -> int:
    """How red the picture on a side is, as the person sees it."""
    red: int = page.evaluate(
        """async (side) => {
            const image = document.querySelectorAll(".cv-pane img")[side];
            await image.decode();
            const drawn = new OffscreenCanvas(1, 1).getContext("2d");
            drawn.drawImage(image, 0, 0, 1, 1, 0, 0, 1, 1);
            return drawn.getImageData(0, 0, 1, 1).data[0];
        }""",
        side,
    )
    return red


def test_votes_by_keyboard_are_mapped_back_from_the_sides(visited: Opened, site: str, place: Path) -> None:
    """A person who votes for the redder picture, wherever it is shown, ranks the models by their redness."""
    page = visited(START)
    begin(page)
    keys = []
    for number in range(8):
        for secret in SECRETS:
            assert secret not in page.content(), secret
        key = "1" if redness(page, 0) > redness(page, 1) else "2"
        keys.append(key)
        page.keyboard.press(key)
        page.keyboard.press("Enter")
        page.wait_for_selector(".revealed")
        assert any(model in page.content() for model in MODELS)
        if number < 7:
            go_on(page)
    assert set(keys) == {"1", "2"}
    with Ledger.open(place, read_only=True) as ledger:
        [review] = list_reviews(ledger, RUN)
        voted = list(ledger.stored_verdicts(review.id))
        assert len(voted) == 8
        assert {recorded_order(one.verdict) for one in voted} == {"given", "swapped"}
        for one in voted:
            assert one.verdict.preference is not None
            winner, loser = ("first", "second") if one.verdict.preference.winner == "first" else ("second", "first")
            assert MODELS[one.groups[f"model_{winner}"]] > MODELS[one.groups[f"model_{loser}"]]


@pytest.mark.parametrize(("key", "winner"), [("0", "tie"), ("9", "both_bad")])
def test_a_tie_and_two_bad_ones_have_their_keys(visited: Opened, place: Path, key: str, winner: str) -> None:
    page = visited(START)
    begin(page)
    page.keyboard.press(key)
    page.keyboard.press("Enter")
    page.wait_for_selector(".revealed")
    with Ledger.open(place, read_only=True) as ledger:
        [voted] = [one for review in list_reviews(ledger, RUN) for one in ledger.verdicts(review.id)]
    assert voted.preference is not None
    assert voted.preference.winner == winner


def test_the_keys_are_told_on_the_page(visited: Opened) -> None:
    page = visited(START)
    begin(page)
    assert page.locator("[data-ask=vote]").first.inner_text().split() == [
        *("All", "in", "all", "Left", "1", "Right", "2", "Tie", "0", "Both", "bad", "9")
    ]
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    told = page.locator("dialog[open]").inner_text()
    assert "left is better, right is better" in told
    assert "both bad: neither is good enough" in told


def test_a_vote_and_what_is_said_of_criteria_survive_a_reload(visited: Opened, place: Path) -> None:
    page = visited(START)
    begin(page)
    left = page.locator(".cv-pane img").first.get_attribute("src")
    seen = redness(page, 0), redness(page, 1)
    for key in ("2", "x", "0"):
        with page.expect_response("**/draft/**"):
            page.keyboard.press(key)
    page.reload()
    ready(page)
    assert page.locator(".cv-pane img").first.get_attribute("src") == left
    assert (redness(page, 0), redness(page, 1)) == seen
    assert chosen(page) == ["right", "n/a", "tie"]
    page.keyboard.press("Enter")
    page.wait_for_selector(".revealed")
    page.get_by_role("link", name="Change").click()
    page.wait_for_selector("[data-rate]")
    ready(page)
    assert chosen(page) == ["right", "tie"]
    assert (redness(page, 0), redness(page, 1)) == seen


def test_only_the_whole_is_asked_for(visited: Opened) -> None:
    first = visited(START)
    begin(first)
    page = first.context.new_page()  # what the app refuses is a complaint of the browser, too
    page.goto(first.url)
    ready(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    assert "1 unanswered" in page.locator("[data-said]").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-wrong]:has-text('which is better all in all')")


def test_no_page_and_no_address_tells_what_is_compared_before_the_vote(site: str, place: Path) -> None:
    with Ledger.open(place) as ledger:
        review = find_or_start_review(ledger, RUN, "Bo")
        labels = [case_label(ledger, review, case) for case in ledger.case_ids(RUN)]
        orders = {
            name: load_rating(ledger, review, case_from_label(ledger, review, name)).sheet.order for name in labels
        }
    with httpx.Client(base_url=site, trust_env=False) as client:
        for name in labels:
            page = client.get(f"/review/{review.id}/case/{name}")
            for secret in (*SECRETS, orders[name], "second", "flip"):
                assert secret not in page.text, secret
            for at in range(3):
                shown = client.get(f"/review/{review.id}/case/{name}/{at}.webp")
                assert shown.status_code == 200
                assert not any(secret in str(shown.headers) for secret in SECRETS[:3])


def test_without_script_a_vote_can_be_sent(visited: Opened) -> None:
    page = visited(START, java_script_enabled=False)
    page.fill("[name=rater]", "Ana")
    page.get_by_role("button", name="Rate cases").click()
    assert page.locator(".looks img").count() == 3
    assert page.locator(".looks .candidate figcaption").all_inner_texts() == ["Left", "Right"]
    page.locator(f'[name="{RUBRIC}:overall"][value="tie"]').check()
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector("text=So far")


def test_texts_are_voted_on_too(tmp_path: Path, started: Started, visited: Opened) -> None:
    text_pairs(tmp_path / "texts.db").close()
    page = visited(START, at=started(tmp_path / "texts.db"))
    begin(page)
    texts = page.locator(".rate-fields .candidate dt").all_inner_texts()
    assert texts == ["Left", "Right"]
    left = page.locator(".rate-fields .candidate dd").first.inner_text()
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_selector(".revealed")
    with Ledger.open(tmp_path / "texts.db", read_only=True) as ledger:
        [review] = list_reviews(ledger, RUN)
        [voted] = ledger.verdicts(review.id)
        assert voted.preference is not None
        assert ledger.case(RUN, voted.case).fields[voted.preference.winner or ""] == left


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_page_of_a_vote_is_legible_and_named(
    visited: Opened,
    site: str,
    place: Path,
    violations: Callable[[Page], list[tuple[str, list[str]]]],
    size: tuple[int, int],
    theme: str,
) -> None:
    with Ledger.open(place) as ledger:
        vote_all(ledger, "Bo", wrong=2)
    page = visited(START, viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    begin(page)
    left, right = page.locator(".cv-first, .cv-last").evaluate_all(
        "panes => panes.map((pane) => pane.getBoundingClientRect().toJSON())"
    )
    assert left["top"] == right["top"]  # side by side on a phone too
    assert left["right"] <= right["left"]
    found = {"case": violations(page)}
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_selector(".revealed")
    found["reveal"] = violations(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name="Summary").click()
    page.wait_for_selector("text=Agreement with the judge")
    found["summary"] = violations(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
