"""Evidence in a real browser: places on the images, words in the texts; and a stage for images of any shape."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image
from support.ledger import case, run_record
from support.reports import RUN, Opened, ledger_with, restyle, told
from support.web import Started

from beholder.images.prepare import digest
from beholder.ledger.types import Entry
from beholder.verdicts.verdict import CasePicture, Place

if TYPE_CHECKING:
    from playwright.sync_api import Page

SIZES = [(390, 844), (1366, 768)]
PLACES = (
    Place("restyle.change", ((0.1, 0.2, 0.3, 0.5),)),
    Place("A1", ((0.5, 0.5, 0.9, 0.9),), "edited"),
    Place("accuracy.score", ((0.1, 0.2, 0.3, 0.5),)),
)
SMALL = Place("A1", ((0.5, 0.5, 0.51, 0.52),), "edited")
SAID = "A red cup stands beside a croissant, on two blue plates."


def strip(size: tuple[int, int]) -> bytes:
    out = io.BytesIO()
    Image.linear_gradient("L").resize(size).convert("RGB").save(out, "PNG")
    return out.getvalue()


def pictured(entry: Entry, size: tuple[int, int]) -> Entry:
    """An entry with a picture of that size for each of its images."""
    return replace(entry, thumbnails=tuple((image.source_digest, strip(size)) for image in entry.verdict.images))


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An edit with places, a description with findings of an image of 20 to 1, and a wide pair."""
    folder = tmp_path_factory.mktemp("evidence")
    (folder / "strip.png").write_bytes(data := strip((2400, 120)))
    edit = pictured(told(5, restyle(5, places=PLACES)), (512, 384))
    texts = {"input": "What is on the table?", "output": SAID, "expected_output": "A red cup and a spoon."}
    found = (
        "not in the expected description: croissant",
        "against the expected description: “two blue plates” where “one plate” is expected",
    )
    described = restyle(6, findings={"hallucinations": found, "missing_elements": ("spoon",)}, images=(), places=None)
    described = replace(described, pictures=(CasePicture("image", digest(data)),))
    of_text = replace(
        told(6, restyle(6)),
        verdict=described,
        case=case(described, fields=texts, images={"image": str(folder / "strip.png")}),
        thumbnails=((digest(data), data),),
    )
    wide = pictured(told(9, restyle(9, places=(SMALL,))), (900, 300))
    ledger_with(folder / "ledger.db", [edit, of_text, wide], run_record(RUN)).close()
    return folder / "ledger.db"


@pytest.fixture
def opened(visited: Opened, ledger: Path, started: Started) -> Callable[..., Page]:
    """`opened(5)`: the page of a case."""
    site = started(ledger)

    def open_case(number: int, **options: object) -> Page:
        page = visited(f"/runs/{RUN}/case?id={restyle(number).case}", at=site, **options)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    return open_case


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size[0]))
def test_a_sentence_shows_its_place_and_a_place_its_sentence(
    opened: Callable[..., Page],
    violations: Callable[[Page], list[tuple[str, list[str]]]],
    size: tuple[int, int],
    theme: str,
) -> None:
    page = opened(5, viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    assert page.locator(".cv-place").first.is_hidden()  # only in its mode
    page.locator(".evidence[data-place='A1'] .place-link").click()
    assert page.locator(".cv").get_attribute("data-mode") == "evidence"
    assert page.locator(".cv-first .cv-place").count() == 1  # one box for two places; A1 is on the other image alone
    assert page.locator(".cv-last .cv-place").count() == 2
    assert page.locator(".cv-last .cv-place.now").count() == page.locator(".cv-place.now").count() == 1
    assert "Seen at place 1 of 5." in page.locator(".cv-note").inner_text()
    box = page.locator(".cv-first .cv-place").bounding_box()
    image = page.locator(".cv-first img").bounding_box()
    assert box is not None
    assert image is not None
    assert (box["x"] - image["x"]) / image["width"] == pytest.approx(0.1, abs=0.02)
    assert (box["y"] - image["y"]) / image["height"] == pytest.approx(0.2, abs=0.02)
    page.locator(".cv-first .cv-place").click()
    assert page.locator(".verdict .now").get_attribute("data-place") == "restyle.change"
    assert page.locator("details[open] .now").is_visible()  # what was folded in is opened
    page.locator(".cv-first .cv-place").click()
    assert page.locator(".verdict .now").get_attribute("data-place") == "accuracy.score"
    page.locator(".cv-opacity input").fill("0")
    assert page.locator(".cv-marks").first.evaluate("element => getComputedStyle(element).opacity") == "0"
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert violations(page) == []


def test_a_small_place_is_drawn_where_it_is_and_is_hit_beside_it(opened: Callable[..., Page]) -> None:
    page = opened(9, viewport={"width": 1366, "height": 768})
    page.keyboard.press("e")
    box, image = (page.locator(f".cv-last {what}").bounding_box() for what in (".cv-place", "img"))
    assert box is not None
    assert image is not None
    drawn = [
        (box["x"] - image["x"]) / image["width"],
        (box["y"] - image["y"]) / image["height"],
        (box["x"] + box["width"] - image["x"]) / image["width"],
        (box["y"] + box["height"] - image["y"]) / image["height"],
    ]
    assert drawn == pytest.approx(SMALL.boxes[0], abs=0.006)
    page.mouse.click(box["x"] + box["width"] / 2 + 10, box["y"] + box["height"] / 2)
    assert page.locator(".cv-place.now").count() == 1


@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1366)])
def test_words_are_marked_in_the_text_and_lead_to_their_finding(
    opened: Callable[..., Page],
    violations: Callable[[Page], list[tuple[str, list[str]]]],
    theme: str,
    width: int,
) -> None:
    from playwright.sync_api import expect

    page = opened(6, viewport={"width": width, "height": 800}, color_scheme=theme)
    assert page.locator(".said-unsupported").first.inner_text() == "croissant"
    assert page.locator(".said-contradicted").first.inner_text() == "two blue plates"
    assert page.locator(".said-missing").inner_text() == "spoon"
    assert page.locator(".missing").inner_text() == "Not said: spoon"
    assert page.locator(".fields dd").first.inner_text() == SAID
    page.locator(".said-contradicted").first.click()
    assert "against the expected" in page.locator("li.now").inner_text()
    expect(page.locator("li.now")).to_be_in_viewport(ratio=0.9)  # scrolled to
    page.locator(".said-missing").focus()
    page.keyboard.press("Enter")
    assert "spoon" in page.locator("li.now").inner_text()
    expect(page.locator("li.now")).to_be_in_viewport(ratio=0.9)
    assert page.locator(".instruction").inner_text() == "Input What is on the table?"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == []


def test_the_tools_are_seen_and_a_strip_can_be_looked_at(opened: Callable[..., Page]) -> None:
    page = opened(6, viewport={"width": 1366, "height": 720})
    tools, stage = page.locator(".cv-tools").bounding_box(), page.locator(".cv-stage").bounding_box()
    assert tools is not None
    assert stage is not None
    assert tools["y"] + tools["height"] <= stage["y"] < 400
    assert stage["height"] >= 200  # not the twentieth part of its width
    page.keyboard.press("1")  # in the pixels of its file, which are more than those that are shown at first
    page.wait_for_function("() => document.querySelector('.cv-first img').naturalWidth === 2400")
    page.locator("[aria-label^='1:1'][aria-pressed=true]").wait_for()
    page.keyboard.press("0")
    page.set_viewport_size({"width": 2560, "height": 1440})
    wide = page.locator(".cv-stage").bounding_box()
    assert wide is not None
    assert wide["width"] > 1600


def test_the_way_of_looking_is_remembered_and_wide_pairs_are_stacked(opened: Callable[..., Page]) -> None:
    page = opened(5, viewport={"width": 1366, "height": 768})
    page.keyboard.press("n")
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert page.locator(".cv").get_attribute("data-mode") == "side"
    assert page.evaluate("localStorage.getItem('beholder-mode')") == "side"
    side = [page.locator(f".cv-{which}").bounding_box() for which in ("first", "last")]
    assert side[0] is not None
    assert side[1] is not None
    assert side[0]["y"] == side[1]["y"]
    page = opened(9, viewport={"width": 1366, "height": 768})
    page.keyboard.press("n")
    stacked = [page.locator(f".cv-{which}").bounding_box() for which in ("first", "last")]
    assert stacked[0] is not None
    assert stacked[1] is not None
    assert stacked[0]["y"] + stacked[0]["height"] <= stacked[1]["y"]


def test_a_difference_is_ciede2000(opened: Callable[..., Page]) -> None:
    """Pairs of Sharma, Wu and Dalal (2005), which the instruments are tested with, too."""
    pairs = [
        ([50, 2.6772, -79.7751], [50, 0, -82.7485], 2.0425),
        ([50, -1, 2], [50, 0, 0], 2.3669),
        ([50, 2.49, -0.001], [50, -2.49, 0.0011], 7.2195),
        ([50, 2.5, 0], [61, -5, 29], 22.8977),
        ([60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644),
        ([2.0776, 0.0795, -1.135], [0.9033, -0.0636, -0.5514], 0.9082),
    ]
    page = opened(5)
    for one, other, expected in pairs:
        script = "([one, other]) => import('/assets/compare-view.js').then(module => module.deltaE(one, other))"
        assert page.evaluate(script, [one, other]) == pytest.approx(expected, abs=5e-5)
