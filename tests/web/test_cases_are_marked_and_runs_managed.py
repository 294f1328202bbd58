"""Stars, comments, saved views, files of a run, and what is done to a run in the page: all of it as in Python."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from support.reports import Opened
from support.web import RUN, Started, running

from beholder.api.run import Run
from beholder.errors import LedgerError, UsageError
from beholder.ledger.ledger import Ledger
from beholder.web.background import run_in_process
from beholder.web.pages import manage

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CASE = "photo-00005/anime"
PAGE = f"/runs/{RUN}/case?id={CASE}"


@pytest.fixture
def app(place: Path, started: Started) -> Iterator[httpx.Client]:
    """A client of an app for a ledger of its own, whose requests come from its own pages."""
    site = started(place)
    with httpx.Client(base_url=site, trust_env=False, headers={"Origin": site}, follow_redirects=True) as client:
        yield client


@pytest.mark.parametrize("path", ["star", "comment", "view", "rename", "tag", "delete"])
def test_no_foreign_page_changes_anything(app: httpx.Client, place: Path, path: str) -> None:
    sent = {"case": CASE, "star": "yes", "text": "hi", "name": "x", "tags": "x", "sure": "yes"}
    answer = app.post(f"/runs/{RUN}/{path}", data=sent, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    run = Run.load(RUN, place)
    assert (run.starred, run.comments(), run.views, run.tags, run.name) == ([], [], {}, ("ci",), "nightly")


def test_a_star_and_a_comment_lead_back_to_the_case_and_filter_the_list(app: httpx.Client, place: Path) -> None:
    sent = {"case": CASE, "query": f"id={CASE}&place=3&grade=B"}
    starred = app.post(f"/runs/{RUN}/star", data={**sent, "star": "yes"})
    assert str(starred.url).endswith("place=3&grade=B")
    assert 'aria-pressed="true"' in starred.text
    told = app.post(f"/runs/{RUN}/comment", data={**sent, "text": " <b>the hand</b> ", "author": "Ada"}).text
    assert "&lt;b&gt;the hand&lt;/b&gt;" in told
    run = Run.load(RUN, place)
    [comment] = run.comments(CASE)
    assert (run.starred, comment.text, comment.author) == ([CASE], "<b>the hand</b>", "Ada")
    for marked in ("star", "comment"):
        listed = app.get(f"/runs/{RUN}/cases", params={"marked": marked}).text
        assert re.findall(r'class="name"><bdi>([^<]*)<', listed) == [CASE]
    app.post(f"/runs/{RUN}/comment", data={**sent, "delete": comment.id})
    app.post(f"/runs/{RUN}/star", data={**sent, "star": "no"})
    assert (run.starred, run.comments()) == ([], [])
    assert app.post(f"/runs/{RUN}/star", data={"case": "nobody"}).status_code == 404
    assert "must not be empty" in app.post(f"/runs/{RUN}/comment", data=sent).text


def test_a_saved_view_is_a_link(app: httpx.Client, place: Path) -> None:
    page = app.post(f"/runs/{RUN}/view", data={"name": "failing hands", "query": "grade=F&sort=case"})
    assert str(page.url).endswith("/cases?grade=F&sort=case")
    assert f'href="/runs/{RUN}/cases?grade=F&amp;sort=case" aria-current="true"' in page.text
    run = Run.load(RUN, place)
    assert run.views == {"failing hands": "grade=F&sort=case"}
    run.save_view("failing hands", "grade=F")
    assert "aria-current" not in app.get(f"/runs/{RUN}/cases").text.partition("views-title")[2].partition("</ul>")[0]
    app.post(f"/runs/{RUN}/view", data={"delete": "failing hands"})
    assert run.views == {}


def test_a_run_is_renamed_tagged_and_deleted(app: httpx.Client, place: Path) -> None:
    assert "<bdi>weekly</bdi></h1>" in app.post(f"/runs/{RUN}/rename", data={"name": " weekly "}).text
    app.post(f"/runs/{RUN}/tag", data={"tags": "good, release 2,,good"})
    run = Run.load(RUN, place)
    assert (run.name, run.tags) == ("weekly", ("good", "release 2"))
    assert "is no name for a run" in app.post(f"/runs/{RUN}/rename", data={"name": "latest"}).text
    assert app.post(f"/runs/{RUN}/delete").status_code == 400  # nobody said that this is meant
    with Ledger.open(place) as ledger, ledger.lock_run(RUN, alone=True):
        assert app.post(f"/runs/{RUN}/delete", data={"sure": "yes"}).status_code == 400  # it is under way
    assert "There is no run" in app.post(f"/runs/{RUN}/delete", data={"sure": "yes"}).text
    with pytest.raises(LedgerError):
        Run.load(RUN, place)


def test_a_run_is_taken_along_as_files(client: httpx.Client, made: Path, tmp_path: Path) -> None:
    run = Run.load(RUN, made)
    report = client.get(f"/runs/{RUN}/report.html", timeout=60)
    assert report.headers["content-disposition"] == f'attachment; filename="{RUN}.html"'
    run.report(tmp_path / "run.html")
    assert report.content == (tmp_path / "run.html").read_bytes()
    table = client.get(f"/runs/{RUN}/verdicts.csv")
    run.export(tmp_path / "run.csv")
    assert table.content == (tmp_path / "run.csv").read_bytes()
    assert len(list(csv.DictReader(io.StringIO(table.text)))) == 24


def test_the_report_of_a_large_run_is_the_same(place: Path, started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def in_process(work: Callable[[], object]) -> object:
        calls.append(work)
        return run_in_process(work)

    monkeypatch.setattr(manage, "MANY_VERDICTS", 3)
    monkeypatch.setattr(manage, "run_in_process", in_process)
    Run.load(RUN, place).report(tmp := place.with_name("run.html"), worst=2)
    with httpx.Client(base_url=started(place), trust_env=False) as client:
        report = client.get(f"/runs/{RUN}/report.html", params={"worst": 2}, timeout=60)
    assert report.content == tmp.read_bytes()
    assert len(calls) == 1


def test_what_may_not_be_written_is_one_sentence(place: Path) -> None:
    run = Run.load(RUN, place)
    for wrong in (
        lambda: run.star("nobody"),
        lambda: run.comment("nobody", "hi"),
        lambda: run.comment(CASE, "x" * 10_001),
        lambda: run.delete_comment("nothing"),
        lambda: run.save_view(" ", ""),
    ):
        with pytest.raises(UsageError, match=r"\.$"):
            wrong()


def test_a_form_that_fails_says_why_and_keeps_what_was_written(browser: Browser, place: Path) -> None:
    token = "a token of decent length"
    context = browser.new_context()
    try:
        page = context.new_page()
        with running(place, token=token) as site:
            page.goto(f"{site}{PAGE}&token={token}")
            page.wait_for_selector("html[data-app]", state="attached")
            page.get_by_text("Write a comment").click()
            page.get_by_label("Comment", exact=True).fill("   ")
            page.get_by_role("button", name="Save").click()
            alert = page.locator("#comments [role=alert]")
            alert.filter(has_text="must not be empty").wait_for()
            page.get_by_label("Comment", exact=True).fill("the hand is wrong")
            context.clear_cookies()
            page.get_by_role("button", name="Save").click()
            alert.filter(has_text="asks for its token").wait_for()
        page.get_by_role("button", name="Save").click()
        alert.filter(has_text="does not answer").wait_for()
        assert alert.count() == 1
        assert page.get_by_label("Comment", exact=True).input_value() == "the hand is wrong"
        page.get_by_role("button", name="Star").click()
        page.locator("#take [role=alert]").wait_for()
    finally:
        context.close()
    assert Run.load(RUN, place).comments() == []


def test_in_a_browser(visited: Opened, place: Path, started: Started) -> None:
    page = visited(PAGE, at=started(place))
    page.wait_for_selector("html[data-ready]", state="attached")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Star").click()
    page.locator("#take [aria-pressed=true]").wait_for()
    assert page.evaluate("document.activeElement.name") == "star"  # the keyboard stays where it was
    for name, part in (
        ("id", CASE),
        ("link", PAGE.partition("?")[0]),
        ("command", f"beholder show {RUN} {CASE}"),
        ("JSON", '"verdicts"'),
    ):
        page.get_by_role("button", name=f"Copy {name}", exact=True).click()
        page.get_by_role("button", name="Copied").wait_for()
        assert part in page.evaluate("navigator.clipboard.readText()")
        page.get_by_role("button", name=f"Copy {name}", exact=True).wait_for()
    page.get_by_text("Write a comment").click()
    page.get_by_label("Comment", exact=True).fill("the hand is wrong")
    page.get_by_role("button", name="Save").click()
    page.locator(".comments", has_text="the hand is wrong").wait_for()
    assert [one.text for one in Run.load(RUN, place).comments(CASE)] == ["the hand is wrong"]
    page.goto(page.url.partition("/runs")[0] + f"/runs/{RUN}/cases?grade=F")
    page.get_by_text("Save this view").click()
    page.get_by_label("These filters as").fill("bad")
    page.get_by_role("button", name="Save the view").click()
    page.get_by_role("link", name="bad").wait_for()
