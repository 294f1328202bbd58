"""The app in a real browser: slider, blink, heatmap, filter and back, keys, both themes, three widths, no script."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.ledger import run_record
from support.reports import Opened, ledger_with, refused, restyle, told
from support.web import RUN, Started, drawn_images

from beholder.ledger.ledger import Ledger
from beholder.rubrics.load import load_rubric
from beholder.verdicts.verdict import Flag

if TYPE_CHECKING:
    from playwright.sync_api import Page

CASE = f"/runs/{RUN}/case?id=photo-00006/anime&place=8"


def split_at(page: Page) -> float:
    return float(page.locator(".cv-handle").get_attribute("aria-valuenow") or "nan")


def arrived(page: Page, at: str) -> None:
    """Is there, and its keys and forms answer: a choice made before that would be nobody's."""
    page.wait_for_url(at)
    page.wait_for_selector("html[data-app]", state="attached")


def drawn(page: Page) -> Page:
    page.wait_for_selector("html[data-ready]", state="attached")
    return page


def test_from_the_runs_to_a_case_and_all_the_way_back(visited: Opened) -> None:
    page = visited("/")
    page.get_by_role("link", name="nightly").click()
    arrived(page, f"**/runs/{RUN}")
    page.keyboard.press("c")
    arrived(page, "**/cases")
    page.locator("select[name=grade]").select_option("F")
    page.get_by_role("button", name="Apply", exact=True).click()
    arrived(page, "**/cases?grade=F")  # what was left alone does not stand in the address
    assert page.locator(".card").count() == 4
    page.keyboard.press("/")
    page.keyboard.type("00015")
    page.keyboard.press("Enter")
    arrived(page, "**/cases?q=00015&grade=F")
    page.locator(".card a").click()
    drawn(page)
    assert page.locator("h1").inner_text() == "photo-00015/anime"
    page.go_back()
    assert page.locator(".card").count() == 1
    page.go_back()
    assert page.locator(".card").count() == 4
    assert page.locator("select[name=grade]").input_value() == "F"
    page.locator(".card a").first.click()
    drawn(page).keyboard.press("j")
    page.wait_for_function("() => document.querySelector('h1').textContent.includes('00015')")
    page.keyboard.press("u")
    arrived(page, "**/cases?grade=F")


def test_two_groups_are_chosen_at_once_and_let_go_again(visited: Opened) -> None:
    page = visited(f"/runs/{RUN}/cases?sort=case")
    assert page.get_by_role("searchbox", name="Search").get_attribute("placeholder") == "id, group, words"
    page.get_by_label("Model").select_option("model-b")
    page.get_by_label("Source").select_option("photo 2")
    page.get_by_role("button", name="Filter", exact=True).click()
    arrived(page, "**/cases?sort=case&group=source%3Dphoto+2&group=model%3Dmodel-b")
    assert page.locator(".card .name").all_text_contents() == ["photo-00009/anime", "photo-00011/anime"]
    assert page.locator(".field.set").count() == 3  # the order too
    page.get_by_label("Source").select_option("")
    page.get_by_role("button", name="Filter", exact=True).click()
    arrived(page, "**/cases?sort=case&group=model%3Dmodel-b")
    assert page.locator(".card").count() == 12


def test_flags_and_criteria_have_titles_and_their_keys_as_tooltips(
    visited: Opened, tmp_path: Path, started: Started
) -> None:
    flags = (Flag("below_guidance", "exceptional.score", 2, "3 was expected"), Flag("of_a_plugin", "A1, A2"))
    one = restyle(1, flags=flags)
    record = run_record(RUN, rubrics=(msgspec.to_builtins(load_rubric("restyle")),))
    ledger_with(tmp_path / "ledger.db", [told(1, one)], record).close()
    page = drawn(visited(f"/runs/{RUN}/case?id={one.case}", at=started(tmp_path / "ledger.db")))
    tags = page.locator(".verdict .flags .tag")
    assert tags.all_text_contents() == ["score below its guidance", "of a plugin"]
    assert [tag.get_attribute("title") for tag in tags.all()] == ["below_guidance", "of_a_plugin"]
    places = page.locator(".verdict .flags .muted")
    assert places.all_text_contents() == ["Exceptional value", "A1, A2"]
    assert places.first.get_attribute("title") == "exceptional.score"
    assert page.locator(".criterion h3", has_text="Exceptional value").get_attribute("title") == "exceptional"
    assert page.locator(".corrections .muted").first.inner_text() == "Accuracy"


def test_slider_blink_heatmap_and_zoom(visited: Opened) -> None:
    page = drawn(visited(CASE))
    box = page.locator(".cv-stage").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.25, middle, steps=5)
    page.mouse.up()
    assert split_at(page) == pytest.approx(25, abs=1)
    page.keyboard.press("b")
    page.wait_for_selector(".cv.cv-second")
    page.wait_for_selector(".cv:not(.cv-second)")
    page.keyboard.press("d")
    page.locator(".cv-note", has_text="of the pixels differ visibly").wait_for()
    assert "Measured on pictures of 512 × 384 pixels." in page.locator(".cv-note").inner_text()
    page.keyboard.press("n")
    page.keyboard.press("+")
    moves = page.evaluate(
        "['first', 'last'].map(n => getComputedStyle(document.querySelector(`.cv-${n} img`)).transform)"
    )
    assert moves[0] == moves[1]
    assert "1.5" in moves[0]
    page.keyboard.press("j")  # the way of looking goes along to the next case
    page.wait_for_function("() => !location.search.includes('place=8')")
    assert drawn(page).locator(".cv").get_attribute("data-mode") == "side"


def test_a_case_shows_what_was_said(visited: Opened) -> None:
    page = drawn(visited(f"/runs/{RUN}/case?id=photo-00005/anime"))
    for fold in page.locator("main summary").all():
        if fold.locator("..").get_attribute("open") is None:
            fold.click()
    said = page.locator("main").inner_text()
    for part in (
        "75.0 %",
        "Does part 1 of the style hold?",
        "Seen at place 1 of 5.",
        "Accuracy 5 → 4",
        "36 % of the photo was changed.",
        "make the car red",
        "3.2 (2.6 to 3.8) on 1 to 5",
        '"unchanged_regions"',
    ):
        assert part in said, part


def test_a_run_that_is_running_is_followed(visited: Opened, place: Path, started: Started) -> None:
    with Ledger.open(place, create=True) as ledger, ledger.lock_run("r2", alone=True):
        ledger.start(run_record("r2", total=3))
        site = started(place)
        page, all_runs = visited("/runs/r2", at=site), visited("/", at=site)
        assert "running, 0 of 3" in page.locator(".facts").inner_text()
        ledger.write("r2", [told(1, restyle(1)), told(3, refused(3))])
        page.locator(".legend", has_text="1 refused").wait_for()
        page.locator(".facts", has_text="$0.0037").wait_for()  # what both cost
        page.locator(".figure", has_text="0.750").first.wait_for()
        assert "running, 2 of 3" in page.locator(".facts").inner_text()
        row = all_runs.locator("tr", has=all_runs.locator("a[href='/runs/r2']"))
        row.filter(has_text="1 without a score").filter(has_text="0.750").wait_for()
        page.locator("details").first.locator("summary").click()
        ledger.write("r2", [told(2, restyle(2))])
        page.locator(".legend", has_text="2 scored").wait_for()
        assert page.locator("details").first.get_attribute("open") is not None  # what is folded out stays so
        ledger.update("r2", state="finished")
        page.wait_for_function("() => !document.querySelector('[data-live]')")
        page.locator(".figure", has_text="0.625").first.wait_for()
        for one in (page, all_runs):  # or they ask a server that is gone
            one.close()


def test_without_script_lists_and_filters_work(visited: Opened) -> None:
    page = visited(f"/runs/{RUN}/cases", java_script_enabled=False)
    page.locator("select[name=grade]").select_option("F")
    page.get_by_role("button", name="Apply").click()
    assert page.locator(".card").count() == 4
    page.locator(".card a").first.click()
    assert page.locator(".shots img").count() == 2
    said = page.locator("main").inner_text()
    for part in ("0.25", "make the car red", "The outlines hold.", "Does part 1 of the style hold?", "clear lines"):
        assert part in said, part


def test_the_theme_is_kept_from_page_to_page(visited: Opened) -> None:
    page = visited("/", color_scheme="light")
    page.keyboard.press("t")
    page.keyboard.press("t")
    page.get_by_role("link", name="nightly").click()
    page.wait_for_selector("html[data-theme=dark]")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(390, 844), (820, 1180), (1440, 900)], ids=lambda size: str(size[0]))
def test_contrast_labels_and_width(
    visited: Opened, violations: Callable[[Page], list[tuple[str, list[str]]]], size: tuple[int, int], theme: str
) -> None:
    page = visited("/", viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    site = page.url.rstrip("/")
    for path in ("/", f"/runs/{RUN}", f"/runs/{RUN}/cases", CASE, "/compare", "/agreement"):
        page.goto(site + path)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], path
        assert violations(page) == [], path


@pytest.mark.parametrize("width", [390, 820])
def test_nothing_is_cut_and_every_link_can_be_hit(visited: Opened, width: int) -> None:
    page = visited("/", viewport={"width": width, "height": 900})
    site = page.url.rstrip("/")
    for path in ("/", f"/runs/{RUN}", f"/runs/{RUN}/cases", CASE):
        page.goto(site + path)
        right = page.evaluate(
            "Math.max(...[...document.querySelectorAll('.sections a')].map(e => e.getBoundingClientRect().right))"
        )
        assert right <= width, path
        low = page.evaluate(
            "[...document.querySelectorAll('main a')].filter(e => e.checkVisibility() && !e.closest('.notice'))"
            ".filter(e => e.getBoundingClientRect().height < 24).map(e => e.outerHTML)"
        )
        assert low == [], path
    page.goto(site)
    for when in page.locator("time").all():
        box = when.bounding_box()
        assert box is not None
        assert box["height"] < 30  # in one line


def test_charts_fill_their_column(visited: Opened) -> None:
    for width in (390, 1440):
        page = visited(f"/runs/{RUN}", viewport={"width": width, "height": 900})
        shares = page.evaluate(
            "[...document.querySelectorAll('.figure .spread')]"
            ".map(e => e.getBoundingClientRect().width / e.parentElement.clientWidth)"
        )
        assert shares
        assert min(shares) > 0.95


def test_touch_targets_are_large_enough_on_a_tablet(visited: Opened) -> None:
    page = drawn(visited(CASE, viewport={"width": 820, "height": 1180}, has_touch=True, is_mobile=True))
    small = page.evaluate(
        "[...document.querySelectorAll('button, .button')].filter(one => one.checkVisibility())"
        ".filter(one => one.getBoundingClientRect().height < 43.9).map(one => one.textContent)"
    )
    assert small == []


def test_a_choice_alone_changes_nothing_and_the_keyboard_stays_where_it_was(visited: Opened) -> None:
    """WCAG 3.2.2, and 2.4.3."""
    page = visited(f"/runs/{RUN}/cases")
    model = page.get_by_label("Model")
    model.focus()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    assert model.input_value() == "model=model-b"
    assert page.url.endswith("/cases")
    assert page.evaluate("document.activeElement.dataset.group") == "model"
    page.evaluate("document.activeElement.form.requestSubmit()")
    arrived(page, "**/cases?group=model%3Dmodel-b")
    assert page.evaluate("document.activeElement.dataset.group") == "model"


@pytest.mark.parametrize("width", [390, 820, 1366])
def test_no_text_of_a_chart_is_under_11_pixels(visited: Opened, width: int) -> None:
    page = visited(f"/runs/{RUN}", viewport={"width": width, "height": 768})
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg text')].map(one => parseFloat(getComputedStyle(one).fontSize)"
        " * one.ownerSVGElement.getBoundingClientRect().width / one.ownerSVGElement.viewBox.baseVal.width)"
    )
    assert sizes
    assert min(sizes) >= 11
    assert max(sizes) < 16


def test_legends_keep_their_colours_where_all_others_are_the_readers(visited: Opened) -> None:
    page = visited(f"/runs/{RUN}", forced_colors="active")
    assert page.evaluate("matchMedia('(forced-colors: active)').matches")
    keys = page.evaluate("[...document.querySelectorAll('.key')].map(one => getComputedStyle(one).backgroundColor)")
    slices = page.evaluate("[...document.querySelectorAll('.slice')].map(one => getComputedStyle(one).fill)")
    assert len(set(keys)) == 3  # good, bad, and not measured
    assert set(slices) <= set(keys)


def test_bars_say_what_they_count(visited: Opened) -> None:
    page = visited(f"/runs/{RUN}/cases?q=00015")
    assert page.locator(".card .bars dt").all_text_contents() == ["Accuracy", "Exceptional"]
    assert page.locator(".card .bars dd .number").all_text_contents() == ["2", "2"]
    assert page.locator(".card .card-caption").inner_text() == "make the car red"
    page = visited(f"/runs/{RUN}")
    assert "F: 4 verdicts" in page.locator(".figure .bar title").all_text_contents()


def test_the_cases_of_a_running_run_come_in_by_themselves(visited: Opened, place: Path, started: Started) -> None:
    with Ledger.open(place, create=True) as ledger, ledger.lock_run("r2", alone=True):
        ledger.start(run_record("r2", total=9))
        ledger.write("r2", [told(1, restyle(1))])
        site = started(place)
        page, run = visited("/runs/r2/cases", at=site), visited("/runs/r2", at=site)
        page.locator(".card a").focus()
        first = page.locator(".card img").first.element_handle()
        page.get_by_label("Search").fill("not sent yet")
        page.locator(".card a").focus()
        ledger.write("r2", [told(2, restyle(2))])
        page.locator(".card").nth(1).wait_for()
        assert page.get_by_label("Search").input_value() == "not sent yet"
        assert first is not None
        assert first.evaluate("one => one.isConnected")  # the picture was not drawn anew
        assert "00001" in page.evaluate("document.activeElement.href")
        run.locator(".newest .card").nth(1).wait_for()
        assert "00002" in run.locator(".newest .card").first.inner_text()
        assert drawn_images(run, ".newest img") == 4
        run.locator(".facts", has_text="a minute").wait_for()
        for one in (page, run):
            one.close()
