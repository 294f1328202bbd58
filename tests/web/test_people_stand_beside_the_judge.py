"""Agreement and calibration, drawn from real reviews: two people who rated a run of edits, each in their own way."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from support.reports import Opened
from support.reviews import EDIT, RUN, answers, edits
from support.web import Started, worked_out

from beholder.ledger.ledger import Ledger
from beholder.ledger.types import Entry, RunRecord
from beholder.reviews import sheet
from beholder.reviews.review import find_or_start_review
from beholder.reviews.sheet import score_name
from beholder.rubrics.load import load_rubric
from beholder.verdicts.verdict import CasePicture
from beholder.web.pages import agreement
from beholder.web.pages.agreement import RunAgreement, compute_agreement

if TYPE_CHECKING:
    from playwright.sync_api import Page

CASES = 12
REFUSED = 3  # the number of the case that has no score


def said(ledger: Ledger, number: int, shift: int) -> dict[str, str]:
    """Answers of a person who sees a case as the judge does, so much lower or higher."""
    [judged] = ledger.verdict(RUN, f"photo-{number:05d}/model-a")
    rubric = load_rubric(EDIT)
    given = {one.key: int(judged.criteria[one.key].score or 0) for one in rubric.criteria}
    return {score_name(rubric, one): str(min(7, max(1, given[one.key] + shift))) for one in rubric.criteria}


def rate(ledger: Ledger, rater: str, numbers: list[int], shift: int) -> None:
    review = find_or_start_review(ledger, RUN, rater)
    for number in numbers:
        sheet.record_rating(ledger, review, f"photo-{number:05d}/model-a", said(ledger, number, shift))


@pytest.fixture
def reviewed(tmp_path: Path) -> Path:
    """A run that two people rated: Ada sees what the judge sees, Bo a point less."""
    path = tmp_path / "reviewed.db"
    scored = [number for number in range(CASES) if number != REFUSED]
    with edits(path, CASES) as ledger:
        rate(ledger, "Ada", scored, 0)
        rate(ledger, "Bo", scored[:8], -1)
    return path


def plain(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", page, flags=re.DOTALL)))


def test_agreement_has_a_dot_for_each_pair_and_every_rater_beside_the_others(reviewed: Path, started: Started) -> None:
    with httpx.Client(base_url=started(reviewed), trust_env=False) as client:
        page = worked_out(client, "/agreement", run=RUN)
    text = plain(page)
    assert "11 cases, 2 raters" in text
    assert "Unchanged regions 11 cases" in text
    assert page.count('class="same"') == page.count('class="constant"') == 4  # three criteria and the score
    [chart] = re.findall(r'<svg class="chart plot".*?</svg>', page, re.DOTALL)[:1]
    radii = [float(one) for one in re.findall(r'class="point"[^>]* r="([\d.]+)"', chart)]
    assert len(radii) > 5
    assert max(radii) == 14.0  # what most cases share
    rater = re.search(r"Ada 11 ([\d.]+) ([\d.]+) \d", text)
    assert rater is not None
    assert float(rater[2]) > 0  # above the others, of whom there is one, who sees less
    assert re.search(r"Bo 8 [\d.]+ [-−][\d.]+", text)


def test_who_has_rated_nothing_is_no_rater(reviewed: Path, started: Started) -> None:
    with Ledger.open(reviewed, create=True) as ledger:
        review = find_or_start_review(ledger, RUN, "Cy")
        sheet.record_draft(ledger, review, "photo-00001/model-a", answers())
    with httpx.Client(base_url=started(reviewed), trust_env=False) as client:
        assert "11 cases, 2 raters" in plain(worked_out(client, "/agreement", run=RUN))


def test_ceiling_and_constant_are_named_in_the_chart_and_each_bias_is_drawn(reviewed: Path, started: Started) -> None:
    with httpx.Client(base_url=started(reviewed), trust_env=False) as client:
        page = worked_out(client, "/agreement", run=RUN)
    for chart in re.findall(r'<svg class="chart plot".*?</svg>', page, re.DOTALL):
        assert re.search(r">constant [\d.]+<", chart)
        assert re.search(r">band: one person, ±[\d.]+<", chart)
        assert 'class="ceiling"' in chart
    drawn = re.findall(r'<svg class="chart lean".*?</svg>', page, re.DOTALL)
    places = [float(re.findall(r'class="dot" cx="([\d.]+)"', one)[0]) for one in drawn]
    assert len(places) == 8  # two people, three criteria and the score
    assert all(ada > 80 > bo for ada, bo in zip(places[::2], places[1::2], strict=True))  # right and left of the middle


def test_ratings_that_came_since_are_told_and_then_counted(
    reviewed: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()
    go.set()

    def slowly(book: Ledger, record: RunRecord) -> RunAgreement | None:
        assert go.wait(30)
        return compute_agreement(book, record)

    monkeypatch.setattr(agreement, "compute_agreement", slowly)
    with httpx.Client(base_url=started(reviewed), trust_env=False) as client:
        assert "Somebody rated since" not in worked_out(client, "/agreement", run=RUN)
        go.clear()
        with Ledger.open(reviewed, create=True) as ledger:
            rate(ledger, "Bo", [9, 10], -1)
        answer = client.get("/agreement", params={"run": RUN})
        assert "Somebody rated since" in answer.text
        assert "refresh" in answer.headers  # by itself, also without script
        assert "Bo 8 " in plain(answer.text)
        go.set()
        while "Somebody rated since" in (text := client.get("/agreement", params={"run": RUN}).text):
            pass
        assert "Bo 10 " in plain(text)


def test_a_page_that_is_open_counts_new_ratings_by_itself(reviewed: Path, started: Started, visited: Opened) -> None:
    site = started(reviewed)
    with httpx.Client(base_url=site, trust_env=False) as client:
        worked_out(client, "/agreement", run=RUN)
    page = visited(f"/agreement?run={RUN}", at=site)
    with Ledger.open(reviewed, create=True) as ledger:
        rate(ledger, "Cy", list(range(3)), 0)
    page.locator("h2", has_text="3 raters").wait_for()
    page.close()  # or it asks a server that is gone


def test_calibration_says_once_how_intervals_were_drawn_and_whole_scores_as_such(
    reviewed: Path, started: Started
) -> None:
    with httpx.Client(base_url=started(reviewed), trust_env=False) as client:
        page = worked_out(client, "/calibration", run=RUN)
    assert page.count("Intervals are 95%") == 1
    assert re.search(r'<td class="number right">5</td>', page)


def test_calibration_says_what_people_say_where_the_judge_says_so_much(reviewed: Path, started: Started) -> None:
    with httpx.Client(base_url=started(reviewed), trust_env=False) as client:
        page = worked_out(client, "/calibration", run=RUN)
    text = plain(page)
    assert "Unchanged regions 11 cases" in text
    # The judge says 1 to 7 in turn; 4 (one of the two has no score), 6 and 7 of one case each.
    assert "3 cases of 11 are not in the curve" in text
    assert page.count('class="dot"') > 10
    assert "beholder calibrate r1" in text


def test_dots_open_their_cases_and_the_largest_disagreement_comes_first(reviewed: Path, started: Started) -> None:
    with httpx.Client(base_url=started(reviewed), trust_env=False) as client:
        page = worked_out(client, "/agreement", run=RUN)
        charts = re.findall(r'<svg class="chart plot".*?</svg>', page, re.DOTALL)
        marks = re.findall(r'<a href="([^"]*)" aria-label="(\d+) case', charts[0])
        assert sum(int(count) for _, count in marks) == 11
        for link, count in marks:
            there = client.get(html.unescape(link)).text
            name = "case?id=" in link
            assert name == (count == "1")
            assert name or re.search(rf'role="status">{count} cases,', there)
        listed = client.get("/agreement", params={"run": RUN, "aspect": "unchanged_regions"}).text
        shown = re.findall(r">judge ([\d.]+), people ([\d.]+)<", listed)
        apart = [abs(float(judge) - float(people)) for judge, people in shown]
        assert apart == sorted(apart, reverse=True)
        assert len(apart) == 6
        assert "page 1 of 2" in listed
        assert '<figure><img src="/pictures/' in listed
        curve = worked_out(client, "/calibration", run=RUN)
        [link, count] = re.findall(r'<a href="([^"]*)" aria-label="(\d+) case', curve)[0]
        assert re.search(rf'role="status">{count} cases, judge', client.get(html.unescape(link)).text)
        assert client.get("/agreement", params={"run": RUN, "aspect": "beauty"}).status_code == 400


def test_a_case_of_which_no_judge_was_sent_an_image_is_shown(reviewed: Path, started: Started) -> None:
    with Ledger.open(reviewed) as ledger:
        entries = []
        for stored in ledger.stored_verdicts(RUN):
            one = stored.verdict
            pictures = tuple(CasePicture(image.role, image.source_digest) for image in one.images)
            unsent = replace(one, images=(), pictures=pictures)
            entries.append(Entry(stored.position, ledger.case(RUN, one.case), unsent, reused=True))
        ledger.write(RUN, entries)
    with httpx.Client(base_url=started(reviewed), trust_env=False) as client:
        assert worked_out(client, "/agreement", run=RUN).count('<figure><img src="/pictures/') == 12


def test_who_only_rated_what_the_judge_did_not_is_told_so(tmp_path: Path, started: Started) -> None:
    path = tmp_path / "ledger.db"
    with edits(path, CASES) as ledger:
        review = find_or_start_review(ledger, RUN, "Ada")
        sheet.record_rating(ledger, review, f"photo-{REFUSED:05d}/model-a", answers())
    with httpx.Client(base_url=started(path), trust_env=False) as client:
        for path_ in ("/agreement", "/calibration"):
            assert "No case has both a score of the judge and a rating so far." in worked_out(client, path_)


def test_a_run_that_nobody_reviewed_leads_to_where_it_can_be(tmp_path: Path, started: Started) -> None:
    edits(tmp_path / "ledger.db").close()
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        for path in ("/agreement", "/calibration", f"/runs/{RUN}"):
            text = worked_out(client, path, run=RUN)
            [link] = re.findall(r'href="(/review/[^"]*)"', text)
            assert "nightly" in client.get(link).raise_for_status().text, path


def test_a_review_is_listed_with_the_cases_that_are_rated(reviewed: Path, started: Started) -> None:
    with Ledger.open(reviewed, create=True) as ledger:
        review = find_or_start_review(ledger, RUN, "Bo")
        sheet.record_draft(ledger, review, "photo-00010/model-a", answers())
    with httpx.Client(base_url=started(reviewed), trust_env=False) as client:
        text = plain(client.get("/").text)
        assert re.search(r"Ada nightly r1 11 ", text)
        assert re.search(r"Bo nightly r1 8 ", text)
        assert ">Review</a>" not in worked_out(client, f"/runs/{review.id}").split('class="actions"')[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(390, 844), (820, 1180), (1440, 900)], ids=lambda size: str(size[0]))
def test_contrast_labels_and_width(
    reviewed: Path,
    started: Started,
    visited: Opened,
    violations: Callable[[Page], list[tuple[str, list[str]]]],
    size: tuple[int, int],
    theme: str,
) -> None:
    site = started(reviewed)
    with httpx.Client(base_url=site, trust_env=False) as client:
        for path in ("/agreement", "/calibration"):
            worked_out(client, path)
    page = visited("/", at=site, viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
    for path in ("/", "/agreement", "/calibration"):
        page.goto(site + path)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.locator("svg.plot").count() == (0 if path == "/" else 4)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], path
        assert violations(page) == [], path
