"""The page of the arena: boards, win rates that lead to their pairs, the pairs, people beside the judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from support.reports import Opened, usual_run
from support.votes import PHOTOS, RUN, pairs, text_pairs, vote_all
from support.web import Started, worked_out

from beholder.ledger.ledger import Ledger

if TYPE_CHECKING:
    from playwright.sync_api import Page

ARENA = f"/runs/{RUN}/arena"
SIZES = [(390, 844), (1366, 768)]
PAIRS = 3 * PHOTOS


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with pairs(tmp_path / "ledger.db") as ledger:
        vote_all(ledger, "Ana")
        vote_all(ledger, "Bo", wrong=3)
    return tmp_path / "ledger.db"


@pytest.fixture
def site(place: Path, started: Started) -> str:
    return started(place)


@pytest.fixture
def client(site: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site, trust_env=False, follow_redirects=True) as found:
        yield found


def arena(visited: Opened, path: str = ARENA, **options: object) -> Page:
    page = visited(path, **options)
    page.wait_for_selector("#people .board")
    return page


def test_the_run_page_leads_to_boards_of_judge_and_people(visited: Opened) -> None:
    page = visited(f"/runs/{RUN}")
    page.get_by_role("link", name="Arena", exact=True).click()
    page.wait_for_selector("#people .board")
    boards = page.locator(".board")
    for board in (boards.nth(0), boards.nth(1)):
        assert board.locator("tbody th").all_inner_texts() == ["aurora", "basalt", "cobalt"]
        assert board.locator("tbody .chart .dot").count() == 3
        assert board.locator(".axis-row .tick").count() == 3
    assert "1 of 18 pairs have no vote (1 truncated)" in page.content()
    assert "two people" in page.locator("#people").inner_text()
    assert "Judge and people on the same pairs, 2 raters" in page.locator("#people").inner_text()


def test_a_cell_opens_the_pairs_of_its_two_models(visited: Opened) -> None:
    page = arena(visited)
    page.locator(".matrix").first.get_by_role("link", name="cobalt against aurora").click()
    page.wait_for_url("**/arena?model=cobalt&other=aurora#pairs")
    assert page.locator("#pairs-title + p").inner_text() == f"{PHOTOS} pairs"
    assert page.locator(".duel").count() == PHOTOS
    for duel in page.locator(".duel").all():
        captions = duel.locator(".candidate figcaption bdi").all_inner_texts()
        assert set(captions) == {"aurora", "cobalt"}
        assert duel.locator("figure").count() == 3
    first = page.locator(".duel").first
    assert first.locator(".won figcaption bdi").inner_text() == "aurora"
    assert "strength 2 of 3" in first.inner_text()
    first.locator("summary").click()
    told = first.locator("details").inner_text()
    assert "aurora, strength 2 of 3 (shown as A: aurora)" in told
    assert "aurora, strength 2 of 3 (shown as A: cobalt)" in told
    first.locator(".duel-head a").click()
    page.wait_for_url("**/case?id=**")


@pytest.mark.parametrize(
    ("kind", "count", "words"),
    [
        ("flipped", 1, "answer follows the order"),
        ("both_bad", 1, "both bad"),
        ("tie", 2, "tie"),  # a flip is a tie
        ("failed", 1, "truncated"),
    ],
)
def test_pairs_are_chosen_by_what_came_of_them(client: httpx.Client, kind: str, count: int, words: str) -> None:
    page = worked_out(client, ARENA, only=kind)
    assert page.count('<li class="duel">') == count
    shown = page.split('<ol class="duels">')[1]
    assert words in shown


def test_pairs_on_which_people_and_judge_differ_are_found(client: httpx.Client) -> None:
    page = worked_out(client, ARENA, only="split")
    # Bo's three, and the flip, the tie and the two bad ones of the judge, where people named a candidate.
    assert page.count('<li class="duel">') == 6
    assert "people: <bdi>1 × " in page


def test_pages_of_pairs_and_what_is_not_there(client: httpx.Client) -> None:
    assert worked_out(client, ARENA).count('<li class="duel">') == 12
    assert client.get(ARENA, params={"at": 2}).text.count('<li class="duel">') == PAIRS - 12
    assert client.get(ARENA, params={"at": 99}).text.count('<li class="duel">') == PAIRS - 12
    assert "No pair fits." in client.get(ARENA, params={"model": "aurora", "other": "cobalt", "only": "failed"}).text
    for asked, why in (({"only": "odd"}, "not by"), ({"model": "zinc"}, "There is no model")):
        refused = client.get(ARENA, params=asked)
        assert refused.status_code == 400
        assert why in refused.text


def test_the_numbers_of_pairs_are_those_of_the_chosen_models(client: httpx.Client) -> None:
    page = worked_out(client, ARENA, model="aurora", other="cobalt")
    assert f"{PHOTOS} pairs</p>" in page
    assert f"all pairs ({PHOTOS})" in page
    assert '<th scope="col">κ</th>' in page
    alone = client.get(ARENA, params={"model": "aurora", "other": "aurora"}).text
    assert "is not compared with itself" in alone
    assert '<li class="duel">' not in alone


def test_new_votes_change_the_board(client: httpx.Client, place: Path) -> None:
    before = worked_out(client, ARENA)
    assert "36 votes on 3 models" in before
    with Ledger.open(place) as ledger:
        vote_all(ledger, "Cy")
    while "54 votes on 3 models" not in client.get(ARENA).text:
        pass


def test_agreement_of_a_run_of_pairs_is_that_of_votes(client: httpx.Client) -> None:
    for path in ("/agreement", "/calibration"):
        answered = client.get(path, params={"run": RUN})
        assert answered.url.path == ARENA


def test_a_run_of_scores_has_no_arena(tmp_path: Path, started: Started) -> None:
    usual_run(tmp_path / "scores.db").close()
    with httpx.Client(base_url=started(tmp_path / "scores.db"), trust_env=False) as client:
        refused = client.get(ARENA)
        assert refused.status_code == 404
        assert "compares no candidates" in refused.text
        assert "arena" not in client.get(f"/runs/{RUN}").text.lower()


def test_pairs_without_models_say_so_and_nobody_who_voted_is_asked_to(tmp_path: Path, started: Started) -> None:
    text_pairs(tmp_path / "texts.db").close()
    with httpx.Client(base_url=started(tmp_path / "texts.db"), trust_env=False) as client:
        assert "do not say which models made their candidates" in worked_out(client, ARENA)
    pairs(tmp_path / "alone.db").close()
    with httpx.Client(base_url=started(tmp_path / "alone.db"), trust_env=False) as client:
        assert "Nobody has voted on these pairs yet." in worked_out(client, ARENA)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_arena_is_legible_and_named(
    visited: Opened, violations: Callable[[Page], list[tuple[str, list[str]]]], size: tuple[int, int], theme: str
) -> None:
    page = arena(visited, viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    page.locator("#people summary").first.click()
    page.locator(".duel summary").first.click()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
