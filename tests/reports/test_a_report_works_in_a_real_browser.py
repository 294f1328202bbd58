"""A report from disk in a real browser: slider, blink, heatmap, filter, search, keys, both themes, on paper."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from support.ledger import run_record, verdict
from support.reports import RUN, Opened, in_part, ledger_with, restyle, told, written
from support.web import drawn_images

from beholder.rubrics.load import load_rubric
from beholder.verdicts.verdict import CasePicture, Flag, Juror, Jury, Outcome, Place

if TYPE_CHECKING:
    from playwright.sync_api import Page

SIZES = [(390, 844), (820, 1180), (1440, 900)]


def first_case(page: Page) -> None:
    page.locator(".card a", has_text="photo-00006/anime").click()
    page.wait_for_selector("dialog.case[open] .cv-stage img")


def seen(page: Page) -> list[str]:
    return page.locator(".card .name").all_text_contents()


def split_at(page: Page) -> float:
    return float(page.locator(".cv-handle").get_attribute("aria-valuenow") or "nan")


def test_evidence_is_shown_and_a_card_says_by_which_gate_a_case_failed(
    tmp_path: Path, opened: Opened, violations: Callable[[Page], list[tuple[str, list[str]]]]
) -> None:
    gate = Flag("gate", "improvements", why="it has entries")
    entry = told(4, restyle(4, places=(Place("A1", ((0.1, 0.2, 0.3, 0.5),)),), flags=(gate,), passed=False))
    picture_of = CasePicture("image", entry.verdict.images[0].source_digest)
    unsent = replace(told(6, restyle(6)), verdict=restyle(6, images=(), pictures=(picture_of,)), thumbnails=())
    with ledger_with(tmp_path / "ledger.db", [entry, unsent]) as ledger:
        page = opened(written(ledger, tmp_path / "report.html"), viewport={"width": 390, "height": 844})
    page.locator(".card", has_text="photo-00006/anime").locator("img").wait_for()  # which no judge was sent
    failed = page.locator(".card", has_text="photo-00004/anime")
    assert "failed by improvements" in (failed.text_content() or "")
    failed.locator("a").click()
    page.locator("dialog.case summary", has_text="answered Yes").first.click()
    page.locator(".place-link").first.click()
    assert page.locator(".cv").get_attribute("data-mode") == "evidence"
    assert page.locator(".cv-place.now").count() == 2  # on both images
    page.locator(".cv-place.now").first.click()
    assert page.locator(".verdict .now").get_attribute("data-place") == "A1"
    assert "Difference" in page.locator(".cv-tools").inner_text()
    assert violations(page) == []


def test_what_has_no_score_comes_first_and_then_the_worst(report: Path, opened: Opened) -> None:
    page = opened(report)
    heads = page.locator(".cards-of h3").all_text_contents()
    assert heads[0] == "Without a score 2 refused"
    assert heads[1].startswith("Scored, worst first")
    names = seen(page)
    assert names[:3] == ["photo-00003/model-a", "photo-00007/model-a", "photo-00011/anime"]
    scores = [float(text) for text in page.locator(".card .score > .number").all_text_contents()]
    assert scores == sorted(scores)


def test_a_case_that_was_left_out_shows_its_numbers_and_says_so(tmp_path: Path, opened: Opened) -> None:
    with ledger_with(tmp_path / "ledger.db", [told(number, restyle(number)) for number in range(40)]) as ledger:
        page = opened(written(ledger, tmp_path / "small.html", max_mb=0.3))
    assert len(seen(page)) == 40
    page.locator(".card a", has_text="photo-00015/anime").click()  # flagged, and one of the worst
    page.wait_for_selector("dialog.case[open] .cv-stage img")
    assert "Seen at place 1 of 15" in page.locator("dialog.case").inner_text()
    page.locator("dialog.case button", has_text="Close").click()
    assert "not in this file" in (page.locator(".card a", has_text="photo-00036/anime").text_content() or "")
    page.locator(".card a", has_text="photo-00036/anime").click()
    page.wait_for_selector("dialog.case[open] .notice")
    told_there = page.locator("dialog.case").inner_text()
    assert "not in this file" in told_there
    assert "Accuracy" in told_there
    page.locator("dialog.case button", has_text="Close").click()
    page.locator('[data-key="q"]').fill("place 1 of 15")
    page.locator("[data-count]", has_text="1 of 40").wait_for()


def test_what_was_measured_in_part_says_what_is_known(tmp_path: Path, opened: Opened) -> None:
    entries = [told(0, in_part(0)), told(1, in_part(1, 15.0)), told(2, restyle(2))]
    with ledger_with(tmp_path / "ledger.db", entries) as ledger:
        page = opened(written(ledger, tmp_path / "part.html"))
    assert seen(page) == ["photo-00001/anime", "photo-00000/anime", "photo-00002/anime"]  # by what is possible
    card = page.locator(".card").first.text_content() or ""
    for part in ("make the car red", "3 No, 7 of 23 measured", "0.20–0.60", "1–3", "not measured"):
        assert part in card, part
    widths = page.locator(".card").first.locator(".scale.range .filled")
    assert [one.evaluate("one => one.style.width") for one in widths.all()] == ["40%", "50%"]
    row = page.locator("#answers tbody tr").first.inner_text().split()
    assert row == ["Accuracy", "10", "8", "30"]  # Yes, No, not measured
    page.locator(".card a").first.click()
    case = page.locator("dialog.case[open]")
    case.wait_for()
    assert "The score lies between" in case.inner_text()
    assert "0.20–0.60" in case.inner_text()


def test_the_slider_follows_the_mouse_and_the_keys(report: Path, opened: Opened) -> None:
    page = opened(report)
    first_case(page)
    assert split_at(page) == 50
    box = page.locator(".cv-stage").bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.25, middle, steps=5)
    page.mouse.up()
    assert split_at(page) == pytest.approx(25, abs=1)
    clip = page.evaluate("getComputedStyle(document.querySelector('.cv-last')).clipPath")
    assert float(re.findall(r"([\d.]+)(?:%|px)\)", clip)[0]) > 0
    page.locator(".cv-handle").focus()
    page.keyboard.press("ArrowRight")
    assert split_at(page) == pytest.approx(27, abs=1)
    page.keyboard.press("End")
    assert split_at(page) == 100


def test_blink_changes_between_the_images_and_stands_still_for_those_who_ask(report: Path, opened: Opened) -> None:
    page = opened(report)
    first_case(page)
    page.keyboard.press("b")
    page.wait_for_selector(".cv.cv-second")
    page.wait_for_selector(".cv:not(.cv-second)")
    calm = opened(report, reduced_motion="reduce")
    first_case(calm)
    calm.keyboard.press("b")
    assert "less motion" in calm.locator(".cv-note").inner_text()
    assert calm.locator(".cv.cv-second").count() == 0
    calm.keyboard.press("b")
    assert calm.locator(".cv.cv-second .cv-last").is_visible()


def test_the_heatmap_glows_where_the_images_differ(report: Path, opened: Opened) -> None:
    page = opened(report)
    first_case(page)
    page.keyboard.press("d")
    page.locator(".cv-note", has_text="of the pixels differ visibly").wait_for()
    light = page.evaluate(
        "(() => { const c = document.querySelector('.cv-canvas');"
        " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " let most = 0; for (let i = 0; i < d.length; i += 4) most = Math.max(most, d[i]); return [c.width, most]; })()"
    )
    assert light[0] > 100
    assert light[1] > 150
    page.keyboard.press("n")
    boxes = [page.locator(f".cv-{name}").bounding_box() for name in ("first", "last")]
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]


def test_zoom_is_locked_between_the_images(report: Path, opened: Opened) -> None:
    page = opened(report)
    first_case(page)
    page.keyboard.press("+")
    page.keyboard.press("+")
    moves = page.evaluate(
        "['first', 'last'].map(n => getComputedStyle(document.querySelector(`.cv-${n} img`)).transform)"
    )
    assert moves[0] == moves[1]
    assert "2.25" in moves[0]
    page.keyboard.press("0")
    assert page.locator(".cv-level").inner_text() == "Fit"


def test_filter_search_and_sort(report: Path, opened: Opened) -> None:
    page = opened(report)
    page.select_option("[data-key=outcome]", "refused")
    assert seen(page) == ["photo-00003/model-a", "photo-00007/model-a"]
    page.get_by_role("button", name="Clear").click()
    page.select_option("[data-key=grade]", "F")
    assert seen(page) == [f"photo-{number:05d}/anime" for number in (11, 15, 19, 23)]
    page.select_option("[data-key='group.style']", "Anime")
    assert "No case fits" in page.locator("[data-gallery]").inner_text()
    page.get_by_role("button", name="Clear").click()
    page.select_option("[data-key=flag]", "pixels_disagree")
    assert sorted(seen(page)) == [f"photo-{number:05d}/anime" for number in (0, 5, 10, 15, 20)]
    page.get_by_role("button", name="Clear").click()
    page.select_option("[data-key=criterion]", "accuracy")
    page.fill("[data-key=most]", "2")
    assert len(seen(page)) == 4
    page.get_by_role("button", name="Clear").click()
    page.keyboard.press("/")
    page.keyboard.type("hand of 13")
    page.locator("[data-count]", has_text="1 of 24 cases").wait_for()
    assert seen(page) == ["photo-00013/anime"]
    page.fill("[data-key=q]", "")
    page.locator("[data-count]", has_text=re.compile("^24 cases$")).wait_for()
    page.select_option("[data-key=sort]", "name")
    assert seen(page)[2:] == sorted(seen(page)[2:])


def test_the_search_is_found_from_within_a_case(report: Path, opened: Opened) -> None:
    page = opened(report, "#case=0")
    page.keyboard.press("/")
    page.locator("dialog.case").wait_for(state="hidden")
    page.keyboard.type("hand of 13")
    page.locator("[data-count]", has_text="1 of 24 cases").wait_for()
    assert page.locator("[data-key=q]").input_value() == "hand of 13"
    assert page.locator("dialog.case[open]").count() == 0
    box = page.locator("[data-key=q]").bounding_box()
    assert box is not None
    assert 0 <= box["y"] <= 850


def test_next_previous_back_and_a_link_to_a_case(report: Path, opened: Opened) -> None:
    page = opened(report)
    page.keyboard.press("j")
    title = page.locator("#case-title")
    assert title.inner_text() == "photo-00003/model-a"
    assert "would not look at faces" in page.locator(".case-said").inner_text()
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert title.inner_text() == "photo-00011/anime"
    page.keyboard.press("k")
    assert title.inner_text() == "photo-00007/model-a"
    page.keyboard.press("Escape")
    assert page.locator("dialog.case[open]").count() == 0
    assert page.locator("a:focus .name").text_content() == "photo-00007/model-a"
    page.locator("#corrections a").first.click()
    assert page.locator("dialog.case[open] .corrections li").count() >= 1
    at = page.evaluate("location.hash")
    page.go_back()
    page.wait_for_selector("dialog.case", state="hidden")
    assert opened(report, at).locator("dialog.case[open]").count() == 1


def test_a_case_shows_everything_that_was_said_and_sent(report: Path, opened: Opened) -> None:
    page = opened(report, "#case=5")
    for fold in page.locator("dialog.case summary").all():
        fold.click()
    said = page.locator("dialog.case").inner_text()
    for part in (
        "75.0 %",
        "Does part 1 of the style hold?",
        "Seen at place 1 of 5.",
        "The outlines hold.",
        "The judge said 5.",
        "mend the hand of 5",
        "pixels disagree",
        "Accuracy 5 → 4",
        "36 % of the photo was changed.",
        "1600 × 1200, 358 kB image/jpeg",
        "gpt-5-mini-2025-08-07",
        "2,310 input, 640 output",
        "$0.0019",
        "make the car red",
        "3.2 (2.6 to 3.8) on 1 to 5; the judge's own number is 4",
    ):
        assert part in said, part


def test_flags_and_criteria_have_titles_and_their_keys_as_tooltips(tmp_path: Path, opened: Opened) -> None:
    flags = (Flag("below_guidance", "exceptional.score", 2, "3 was expected"), Flag("of_a_plugin", "A1, A2"))
    record = run_record(RUN, rubrics=(msgspec.to_builtins(load_rubric("restyle")),))
    with ledger_with(tmp_path / "ledger.db", [told(6, restyle(6, flags=flags))], record) as ledger:
        page = opened(written(ledger, tmp_path / "report.html"))
    offered = page.locator("select[data-key=flag] option").all_text_contents()
    assert "score below its guidance (1)" in offered
    assert page.locator("#flags td a").first.get_attribute("title") == "below_guidance"
    first_case(page)
    tags = page.locator(".verdict .flags .tag")
    assert tags.all_text_contents() == ["score below its guidance", "of a plugin"]
    assert [tag.get_attribute("title") for tag in tags.all()] == ["below_guidance", "of_a_plugin"]
    assert page.locator(".verdict .flags .muted").all_text_contents() == ["Exceptional value", "A1, A2"]
    assert page.locator(".criterion h3", has_text="Exceptional value").get_attribute("title") == "exceptional"


def test_the_theme_can_be_chosen(report: Path, opened: Opened) -> None:
    page = opened(report, color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.locator("[data-theme-toggle]").click()
    assert page.evaluate(ground) == light
    page.locator("[data-theme-toggle]").click()
    dark = page.evaluate(ground)
    assert dark != light
    assert opened(report, color_scheme="dark").evaluate(ground) == dark


def test_the_cases_that_changed_have_pictures_and_whole_numbers(tmp_path: Path, opened: Opened) -> None:
    older = [told(number, restyle(number * 4, case=f"photo-{number:05d}/anime")) for number in range(4)]
    newer = [told(number, restyle(3, case=f"photo-{number:05d}/anime")) for number in range(4)]
    ledger_with(tmp_path / "ledger.db", older).close()
    with ledger_with(tmp_path / "ledger.db", newer, run_record("r2", name="tuned", total=4)) as ledger:
        page = opened(written(ledger, tmp_path / "report.html", "r2", other=ledger.run(RUN)))
    page.locator(".movers").scroll_into_view_if_needed()
    assert drawn_images(page, ".mover-shots img") == 8  # what went in, and what came out of both
    for width in (390, 820, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        lines = page.locator(".movers td.number.right, .movers .whole").evaluate_all(
            "found => found.map((one) => { const all = document.createRange(); all.selectNodeContents(one);"
            " return new Set([...all.getClientRects()].map((box) => Math.round(box.top))).size; })"
        )
        assert set(lines) == {1}


def test_on_paper_every_shown_case_is_whole_and_nothing_is_a_control(report: Path, opened: Opened) -> None:
    page = opened(report, "#grade=F", color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".paper").count() == 4
    assert page.locator("button:visible, select:visible, input:visible").count() == 0
    assert drawn_images(page, ".paper img") == page.locator(".paper img:visible").count() == 8
    assert "✗" in page.locator(".paper").first.inner_text()
    assert page.pdf().startswith(b"%PDF")


def test_on_paper_two_cases_fit_on_a_page(report: Path, opened: Opened) -> None:
    page = opened(report, viewport={"width": 703, "height": 1032})  # A4 without its margins
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    tall = page.locator(".paper").evaluate_all("found => found.map((one) => one.offsetHeight)")
    assert len(tall) == 24
    assert max(tall) < 516


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size[0]))
def test_contrast_labels_and_width(
    report: Path,
    opened: Opened,
    violations: Callable[[Page], list[tuple[str, list[str]]]],
    size: tuple[int, int],
    theme: str,
) -> None:
    page = opened(report, viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    for at in ("", "#case=5"):
        page.evaluate(f"location.hash = {at!r}")
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], at
        assert violations(page) == [], at


def test_verdicts_of_several_rubrics_and_of_a_jury(tmp_path: Path, opened: Opened) -> None:
    jurors = tuple(Juror(f"judge-{at}", at, Outcome.SCORED, 0.5 + at / 10, {"accuracy": 3 + at}) for at in range(2))
    jury = Jury(2, 0, {"accuracy": 1, "score": 0.1}, 0.75, jurors)
    verdicts = [restyle(2, jury=jury), verdict(2, case="photo-00002/anime"), restyle(1)]
    with ledger_with(tmp_path / "ledger.db", [told(at, one) for at, one in enumerate(verdicts)]) as ledger:
        page = opened(written(ledger, tmp_path / "report.html"))
    page.select_option("[data-key=rubric]", "edit-preservation")
    assert page.locator("[data-count]").inner_text() == "1 of 3 verdicts"
    page.keyboard.press("j")
    page.locator("dialog.case a", has_text="restyle").click()
    said = page.locator("dialog.case").inner_text()
    assert "Spread (highest less lowest): Accuracy 1." in said
    assert "judge-1 #2 0.60" in said


def test_touch_targets_are_large_enough_on_a_tablet(report: Path, opened: Opened) -> None:
    page = opened(report, "#case=5", viewport={"width": 820, "height": 1180}, has_touch=True, is_mobile=True)
    small = page.evaluate(
        "[...document.querySelectorAll('dialog.case button')].filter(one => one.getBoundingClientRect().height < 44)"
        ".map(one => one.textContent)"
    )
    assert small == []


def test_a_score_is_not_rounded_across_what_it_failed_by(tmp_path: Path, opened: Opened) -> None:
    almost = restyle(0, score=0.69996, percentage=69.996, grade="C", passed=False)
    with ledger_with(tmp_path / "ledger.db", [told(0, almost, pictures=False)]) as ledger:
        page = opened(written(ledger, tmp_path / "report.html"))
    assert page.locator(".card .score > .number").all_text_contents() == ["0.69996"]
    page.locator(".card a").first.click()
    assert page.locator("dialog.case[open] .headline .big").first.text_content() == "69.996 %"
