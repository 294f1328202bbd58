"""A review in a real browser: by keyboard alone, without script, on a phone; closed in the middle and gone on with."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
from support.reports import Opened
from support.reviews import RUN, SECRETS, edits, restyles
from support.scripts import PATIENCE_S
from support.web import Started

from beholder.ledger.ledger import Ledger
from beholder.reviews.review import list_reviews

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

SIZES = [(390, 844), (820, 1180), (1440, 900)]
START = f"/review/run/{RUN}"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    edits(path).close()
    return path


@pytest.fixture
def site(place: Path, started: Started) -> str:
    return started(place)


def ready(page: Page) -> None:
    page.wait_for_selector("html[data-ready]", state="attached")


def begin(page: Page, name: str = "Ana") -> None:
    page.locator("[name=rater]").focus()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-rate]")
    ready(page)


def go_on(page: Page) -> None:
    """From the reveal to the next case."""
    page.wait_for_selector(".revealed")
    ready(page)
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-rate]")
    ready(page)


def chosen(page: Page) -> list[str]:
    values: list[str] = page.locator(".pick input:checked").evaluate_all("found => found.map((one) => one.value)")
    return values


def label(page: Page) -> str:
    return page.url.split("/case/")[1].split("?")[0]


def test_ten_cases_by_keyboard_closed_in_the_middle_gone_on_with_and_exported(
    visited: Opened, site: str, place: Path, tmp_path: Path
) -> None:
    page = visited(START)
    begin(page)
    seen = []
    for number in range(10):
        seen.append(label(page))
        for secret in SECRETS:
            assert secret not in page.content()
        page.keyboard.press(str(1 + number % 7))
        if number == 4:  # the page is closed with one of three answered
            page.wait_for_selector("[data-said]:has-text('Kept')")
            context = page.context
            page.close()
            page = context.new_page()
            page.goto(f"{site}{START}")
            page.get_by_role("link", name="Ana", exact=True).click()
            ready(page)
            assert label(page) == seen[4]
            assert chosen(page) == ["5"]
        page.keyboard.press("6")
        page.keyboard.press("x")
        page.keyboard.press("Enter")
        if number < 9:
            go_on(page)
    page.wait_for_selector(".revealed")
    assert len(set(seen)) == 10
    page.get_by_role("link", name="Summary").click()
    page.wait_for_selector("text=10 of 12 rated")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    download.value.save_as(tmp_path / "ratings.csv")
    rows = list(csv.DictReader((tmp_path / "ratings.csv").read_text("utf-8").splitlines()))
    first = [int(row["score"]) for row in rows if row["aspect"] == "unchanged_regions"]
    assert sorted(first) == sorted(1 + number % 7 for number in range(10))
    assert {row["score"] for row in rows if row["aspect"] == "global_consistency"} == {"6"}
    assert not [row for row in rows if row["aspect"] == "identity_preservation"]
    with Ledger.open(place, read_only=True) as ledger:
        [review] = list_reviews(ledger, RUN)
        assert sum(1 for _ in ledger.verdicts(review.id)) == 10


def test_arrows_go_between_questions_and_what_is_open_is_asked_for_once(visited: Opened) -> None:
    page = visited(START)
    begin(page)

    def now() -> str:
        return page.locator(".ask.now input").first.get_attribute("name") or ""

    assert now() == "edit-preservation:unchanged_regions"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert now() == "edit-preservation:identity_preservation"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("3")
    assert chosen(page) == ["3"]
    page.keyboard.press("Enter")
    assert "2 unanswered" in page.locator("[data-said]").inner_text()
    assert page.locator(".ask.left-open").count() == 2
    assert now() == "edit-preservation:unchanged_regions"
    page.keyboard.press("Enter")
    page.wait_for_selector(".revealed")


def test_what_is_left_open_is_still_told_when_a_draft_is_kept_late(visited: Opened) -> None:
    page = visited(START)
    begin(page)
    held: list[Route] = []
    page.route("**/draft/**", lambda route: held.append(route))
    page.keyboard.press("3")
    page.wait_for_function("() => document.activeElement.name.endsWith('global_consistency')")
    page.keyboard.press("Enter")
    with page.expect_response("**/draft/**") as kept:
        while not held:
            page.wait_for_function("() => true")
        held[0].continue_()
    kept.value.finished()
    page.evaluate("() => new Promise((done) => setTimeout(done))")
    assert "2 unanswered" in page.locator("[data-said]").inner_text()


def test_words_and_views_have_their_keys(visited: Opened) -> None:
    page = visited(START)
    begin(page)
    page.keyboard.press("c")
    page.keyboard.type("no 5 y n")  # keys are letters here
    assert page.locator("[data-comment]").input_value() == "no 5 y n"
    assert chosen(page) == []
    page.keyboard.press("Escape")
    for key, mode in (("s", "slider"), ("d", "difference"), ("b", "blink")):
        page.keyboard.press(key)
        assert page.locator(".cv").get_attribute("data-mode") == mode
    page.keyboard.press("i")
    assert page.locator(".rate-part details[open]").count() == 1
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    before = label(page)
    page.keyboard.press("p")
    page.wait_for_url(lambda url: "/case/" in url and before not in url)


def test_a_word_that_was_just_typed_is_not_lost_with_the_page(visited: Opened) -> None:
    page = visited(START)
    begin(page)
    where = page.url
    page.keyboard.press("c")
    page.keyboard.type("the last thing that I wrote")
    page.goto(urljoin(where, "/review"))  # to another page of the app: the browser tells this one before it goes
    until = time.monotonic() + PATIENCE_S
    while True:  # what was sent while the page went may still be on its way
        page.goto(where)
        ready(page)
        if page.locator("[data-comment]").input_value() or time.monotonic() > until:
            break
    assert page.locator("[data-comment]").input_value() == "the last thing that I wrote"


def test_what_the_page_says_it_has_kept_is_not_lost_with_the_tab(visited: Opened) -> None:
    """A busy browser gives a tab that is closed no time to send the rest: what came after that cannot be promised."""
    page = visited(START)
    begin(page)
    where = page.url
    page.locator("[data-comment]").fill("the last thing that I wrote")
    page.wait_for_selector("[data-said]:has-text('Kept')")
    context = page.context
    page.close(run_before_unload=False)
    again = context.new_page()
    again.goto(where)
    ready(again)
    assert again.locator("[data-comment]").input_value() == "the last thing that I wrote"


def another_window(page: Page, where: str, answer: Callable[[Route], object] | None = None) -> Page:
    """A page in which things may go wrong; `answer` stands between its drafts and the app."""
    other = page.context.new_page()
    if answer is not None:
        other.route("**/draft/**", answer)
    other.goto(where)
    ready(other)
    return other


def asks_before_it_closes(page: Page) -> bool:
    with page.expect_event("dialog") as asked:
        page.close(run_before_unload=True)
    asked.value.dismiss()
    return asked.value.type == "beforeunload"


def test_a_long_comment_is_kept_as_it_is_written(visited: Opened) -> None:
    page = visited(START)
    begin(page)
    page.locator("[data-comment]").fill("ж" * 12_000)  # more bytes than a browser sends while a page closes
    page.wait_for_selector("[data-said]:has-text('Kept')")
    page.reload()
    assert page.locator("[data-comment]").input_value() == "ж" * 12_000


def test_what_the_app_did_not_answer_is_sent_again(visited: Opened) -> None:
    page = visited(START)
    begin(page)
    tried: list[str] = []

    def first_fails(route: Route) -> None:
        tried.append(route.request.url)
        route.abort() if len(tried) == 1 else route.continue_()

    other = another_window(page, page.url, first_fails)
    other.keyboard.press("5")
    other.wait_for_selector("[data-said]:has-text('Not kept')")
    other.wait_for_selector("[data-said]:has-text('Kept.')")
    assert len(tried) == 2
    page.reload()
    assert chosen(page) == ["5"]


def test_a_page_that_the_app_has_not_all_of_asks_before_it_closes(visited: Opened) -> None:
    page = visited(START)
    begin(page)
    other = another_window(page, page.url, lambda route: route.abort())
    other.keyboard.press("5")
    other.wait_for_selector("[data-said]:has-text('Not kept')")
    assert asks_before_it_closes(other)


def test_a_changed_rating_asks_before_it_is_lost_with_the_tab(visited: Opened) -> None:
    page = visited(START)
    begin(page)
    for key in ("3", "3", "3", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector(".revealed")
    rated = page.url
    other = another_window(page, f"{rated}?change=1")
    other.keyboard.press("6")
    assert asks_before_it_closes(other)
    # On this page any dialog is a complaint: whoever leaves it as it is, or saves, is not asked.
    page.get_by_role("link", name="Change").click()
    page.wait_for_selector("[data-rate]")
    ready(page)
    page.keyboard.press("6")
    page.get_by_role("link", name="Discard changes").click()
    page.wait_for_selector(".revealed")
    page.get_by_role("link", name="Change").click()
    page.wait_for_selector("[data-rate]")
    ready(page)
    assert chosen(page) == ["3", "3", "3"]
    page.keyboard.press("6")
    page.keyboard.press("Enter")
    page.wait_for_selector(".revealed")


def test_what_could_not_be_saved_stays_on_the_page_and_is_saved_when_the_app_is_back(
    visited: Opened, place: Path
) -> None:
    page = visited(START)
    begin(page)
    gone = True
    other = page.context.new_page()
    other.route(
        "**/review/**", lambda route: route.abort() if gone and route.request.method == "POST" else route.continue_()
    )
    other.goto(page.url)
    ready(other)
    where = other.url
    for key in ("3", "4", "5", "Enter"):
        other.keyboard.press(key)
    other.wait_for_selector("[data-said]:has-text('Not saved: the app does not answer')")
    assert (other.url, chosen(other)) == (where, ["3", "4", "5"])
    gone = False
    other.wait_for_selector(".revealed")
    with Ledger.open(place, read_only=True) as ledger:
        [review] = list_reviews(ledger, RUN)
        [saved] = [one for one in ledger.verdicts(review.id) if one.scored]
    assert [one.score for one in saved.criteria.values()] == [3, 4, 5]


def test_what_the_app_refuses_to_save_is_told_on_the_page(visited: Opened) -> None:
    page = visited(START)
    begin(page)
    other = page.context.new_page()
    other.goto(page.url)
    ready(other)
    other.evaluate("document.querySelector('.pick input').value = '9'")
    for key in ("1", "4", "5", "Enter"):
        other.keyboard.press(key)
    other.wait_for_selector("[data-wrong]:has-text('1 to 7')")
    assert chosen(other) == ["9", "4", "5"]


def test_the_comment_is_in_sight_while_one_types(visited: Opened) -> None:
    page = visited(START)
    begin(page)
    page.keyboard.press("c")
    page.keyboard.type("one\ntwo\nthree\nfour")
    box, bar = (page.locator(one).bounding_box() for one in ("[data-comment]", ".rate-foot"))
    assert box is not None
    assert bar is not None
    assert box["y"] + box["height"] <= bar["y"]


def test_on_a_phone_the_button_and_the_zoom_are_there_from_the_start(visited: Opened) -> None:
    page = visited(START, viewport={"width": 390, "height": 844}, has_touch=True)
    page.fill("[name=rater]", "Ana")
    page.get_by_role("button", name="Rate cases").click()
    page.wait_for_selector("[data-rate]")
    ready(page)
    for name in ("Save and continue", "Zoom in"):
        box = page.get_by_role("button", name=name).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 844
        assert box["height"] >= 44
    page.get_by_role("button", name="Zoom in").click()
    assert page.locator(".cv-zoomed").count() == 1


def test_the_name_is_asked_for_at_once(visited: Opened) -> None:
    page = visited(START)
    page.keyboard.type("Ana")
    assert page.locator("[name=rater]").input_value() == "Ana"


def test_each_draft_says_its_turn_and_the_last_one_too(visited: Opened) -> None:
    page = visited(START)
    begin(page)
    sent: list[str] = []
    page.on("request", lambda asked: sent.append(asked.url) if "/draft/" in asked.url else None)
    page.keyboard.press("5")
    page.wait_for_selector("[data-said]:has-text('Kept')")
    # What is sent while the page goes is not told as a request; where it goes is written down instead.
    page.evaluate("navigator.sendBeacon = (url) => Boolean((sessionStorage.last = location.origin + url))")
    page.keyboard.press("c")
    page.keyboard.type("and")
    page.goto(page.url.split("/case/")[0])
    sent.append(page.evaluate("sessionStorage.last"))
    names, turns = zip(*(parse_qs(urlsplit(url).query)["turn"][0].split(".") for url in sent), strict=True)
    assert len(set(names)) == 1
    assert [int(turn) for turn in turns] == list(range(1, len(turns) + 1))
    assert len(turns) >= 2


def test_without_script_the_form_can_be_sent(visited: Opened) -> None:
    page = visited(START, java_script_enabled=False)
    page.fill("[name=rater]", "Ana")
    page.get_by_role("button", name="Rate cases").click()
    for key in ("unchanged_regions", "global_consistency"):
        page.locator(f'[name="edit-preservation:{key}"][value="4"]').check()
    assert page.locator(".looks img").count() == 2
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector("text=So far")
    page.get_by_role("link", name="Next case").click()
    assert page.locator("[data-rate]").count() == 1


def test_assertions_are_answered_by_y_n_x_and_the_ceiling_is_told(
    tmp_path: Path, started: Started, visited: Opened
) -> None:
    restyles(tmp_path / "styles.db", "Anime").close()
    page = visited(START, at=started(tmp_path / "styles.db"))
    begin(page)
    asks = page.locator(".rate-part").first.locator("[data-ask=assertion]").count()
    page.keyboard.press("n")
    for _ in range(asks - 1):
        page.keyboard.press("y")
    page.keyboard.press("5")
    assert page.locator("[data-ceiling-note]").first.inner_text() == "1 answered No: at most 4 counts."
    assert chosen(page) == ["no", *["yes"] * (asks - 1), "5"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_page_is_legible_and_named(
    visited: Opened,
    violations: Callable[[Page], list[tuple[str, list[str]]]],
    size: tuple[int, int],
    theme: str,
) -> None:
    page = visited("/review", viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    found = {"runs": violations(page)}
    page.locator("a.review-run").first.click()
    page.wait_for_selector("[name=rater]")
    found["start"] = violations(page)
    begin(page)
    page.keyboard.press("3")
    found["case"] = violations(page)
    for name in ("case", "start"):
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    page.keyboard.press("3")
    page.keyboard.press("3")
    page.keyboard.press("Enter")
    page.wait_for_selector(".revealed")
    found["reveal"] = violations(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name="Summary").click()
    page.wait_for_selector("text=Agreement with the judge")
    found["summary"] = violations(page)
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
