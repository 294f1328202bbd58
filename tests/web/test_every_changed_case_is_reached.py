"""A comparison lists every case that changed, a page at a time; its dots and bars lead to the cases that they count."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.changes import AFTER, BEFORE, BETTER, CASES, GAINED, LOST, WORSE, changed_runs
from support.ledger import run_record
from support.reports import ledger_with, restyle, told
from support.web import running, worked_out

COMPARE = {"before": BEFORE, "after": AFTER}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    place: Path = changed_runs(tmp_path_factory.mktemp("changes") / "ledger.db")
    ledger_with(place, [told(0, restyle(0), pictures=False)], run_record("other", total=1)).close()
    with running(place) as site, httpx.Client(base_url=site, trust_env=False) as client:
        worked_out(client, "/compare", **COMPARE)
        yield client


def listed(page: str) -> list[str]:
    return [html.unescape(name) for name in re.findall(r'class="changed-head"><a [^>]*><bdi>([^<]*)<', page)]


def test_every_case_is_on_one_of_the_pages(pair: httpx.Client) -> None:
    for show, expected in (("worse", WORSE), ("better", BETTER), ("lost", LOST), ("gained", GAINED)):
        found: list[str] = []
        for at in range(1, 9):
            page = pair.get("/compare", params={**COMPARE, "show": show, "at": at}).text
            if f"page {at} of" not in page and at > 1:
                break
            found += listed(page)
        assert sorted(found) == [f"photo-{number:05d}/model-a" for number in expected], show
    first = pair.get("/compare", params=COMPARE).text  # the worse ones, without being asked
    assert listed(first) == listed(pair.get("/compare", params={**COMPARE, "show": "worse"}).text)
    assert "0.750 → refused" in pair.get("/compare", params={**COMPARE, "show": "lost"}).text


def test_each_mark_of_a_chart_leads_to_as_many_cases_as_it_says(pair: httpx.Client) -> None:
    page = pair.get("/compare", params=COMPARE).text
    for kind, expected in (("plot", CASES - len(LOST) - len(GAINED)), ("bars", len(WORSE) + len(BETTER))):
        [chart] = re.findall(rf'<svg class="chart {kind}".*?</svg>', page, re.DOTALL)
        marks = re.findall(r'<a href="([^"]*)" aria-label="(\d+) case', chart)
        assert sum(int(count) for _, count in marks) == expected
        for link, count in marks:
            assert re.search(rf'role="status">{count} cases?,', pair.get(html.unescape(link)).text), link


def test_groups_split_the_cases_and_filter_them(pair: httpx.Client) -> None:
    page = pair.get("/compare", params={**COMPARE, "show": "better", "group": "model=model-b"}).text
    assert listed(page) == [f"photo-{number:05d}/model-a" for number in BETTER if number % 2]
    row = re.search(r'<th scope="row"><bdi>model-b</bdi>.*?</tr>', page, re.DOTALL)
    assert row is not None
    assert re.findall(r">(\d+)<span", row[0]) == ["20", "5", "2", "1"]
    tabs = re.findall(r'(Worse|Better) <span class="number">(\d+)<', page)
    assert tabs == [("Worse", "20"), ("Better", "5")]  # of the group that is chosen


def test_all_differences_share_one_axis_with_numbers(pair: httpx.Client) -> None:
    page = pair.get("/compare", params=COMPARE).text
    [axis] = re.findall(r'<tr class="axis-row">.*?</tr>', page, re.DOTALL)
    assert re.findall(r">([−\d]+)</text>", axis) == ["−50", "50", "0"]
    assert "% of the scale" in axis


def test_runs_are_told_apart_where_they_are_chosen(pair: httpx.Client) -> None:
    page = pair.get("/compare", params=COMPARE).text
    options = [" ".join(html.unescape(one).split()) for one in re.findall(r"<option[^>]*>([^<]*)</option>", page)]
    assert "nightly · 14 Mar 2026, 15:09 · ci · 0.485, 65 of 70 scored (r2)" in options


def test_runs_without_a_case_in_common_are_told_so_beside_the_choosers(pair: httpx.Client) -> None:
    page = worked_out(pair, "/compare", before="other", after=AFTER)
    assert "have no case in common" in page
    assert '<select name="before">' in page


@pytest.mark.parametrize("asked", [{"show": "odd"}, {"old": "much"}, {"new": "1..0"}, {"by": "nan"}])
def test_what_cannot_be_asked_is_told_in_a_sentence(pair: httpx.Client, asked: dict[str, str]) -> None:
    answer = pair.get("/compare", params={**COMPARE, **asked})
    assert answer.status_code == 400
    assert str(*asked.values()) in answer.text
