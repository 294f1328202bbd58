"""Runs, a run, its cases filtered and paged by their address, a case with everything that was said of it."""

from __future__ import annotations

import html
import re
import threading
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest
from support.ledger import case, entry, run_record, verdict
from support.reports import in_part, ledger_with, restyle, told
from support.reviews import answers, edits
from support.web import RUN, Started, worked_out

from beholder.cases.case import Case
from beholder.images.image import PreparedImage
from beholder.ledger.ledger import Ledger
from beholder.reviews import sheet
from beholder.reviews.review import find_or_start_review
from beholder.rubrics.brief import Composer
from beholder.rubrics.load import load_rubric
from beholder.rubrics.rubric import Rubric
from beholder.verdicts.verdict import Flag, Verdict
from beholder.web.pages import gallery
from beholder.web.server import create_app, serve_in_thread

CASES = f"/runs/{RUN}/cases"


def names(client: httpx.Client, **asked: object) -> list[str]:
    params = {key: value if isinstance(value, list) else str(value) for key, value in asked.items()}
    text = client.get(CASES, params=params).text
    return [html.unescape(found) for found in re.findall(r'class="name"><bdi>([^<]*)</bdi>', text)]


def numbered(*numbers: int) -> list[str]:
    return [f"photo-{number:05d}/anime" for number in numbers]


def test_runs_are_listed_with_what_they_came_to(client: httpx.Client) -> None:
    text = client.get("/").text
    assert f'href="/runs/{RUN}"' in text
    assert "nightly" in text
    assert "2 without a score" in text


def test_new_cases_of_a_large_run_are_searched_at_once(tmp_path: Path) -> None:
    """A first search may wait for the index; what comes in later is too little for that, whatever else is computed."""
    place, held, free = tmp_path / "ledger.db", threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        free.wait()

    ledger_with(place, [told(1, restyle(1), pictures=False)], run_record(RUN, total=100_000)).close()
    app = create_app(place)
    app.state.background.poll("other", 0, hold, patient=False)
    held.wait()
    try:
        with serve_in_thread(app) as site, httpx.Client(base_url=site, trust_env=False) as client:
            for number in (1, 2):
                page = client.get(CASES, params={"q": "red"}).text
                assert "being indexed" not in page
                assert page.count('<li class="card">') == number
                app.state.ledger.write(RUN, [told(2, restyle(2), pictures=False)])
    finally:
        free.set()
        app.state.background.close()
        app.state.ledger.close()


def test_many_cases_are_indexed_in_the_background(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gallery, "INDEX_BATCH", 1)
    entries = [told(number, restyle(number), pictures=False) for number in range(3)]
    ledger_with(tmp_path / "ledger.db", entries, run_record(RUN, total=3)).close()
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        while "being indexed" in (page := client.get(CASES, params={"q": "red"}).text):
            pass
    assert page.count('<li class="card">') == 3


def test_a_run_says_what_it_came_to(client: httpx.Client) -> None:
    text = client.get(f"/runs/{RUN}").text
    for part in (
        "2</span> refused",
        "Grades",
        "Passed",
        "Does part 1 of the style hold?",
        "pixels disagree",
        "Pop Art",
    ):
        assert part in text, part
    assert client.get(f"/runs/{RUN}").text == client.get("/runs/latest").text


def test_bars_and_numbers_of_a_run_lead_to_the_cases_that_they_count(client: httpx.Client) -> None:
    page = worked_out(client, f"/runs/{RUN}")
    bars = re.findall(r'<a href="([^"]*)" tabindex="-1"><rect class="bar"[^>]*><title>[^:]*: (\d+) verdict', page)
    cells = re.findall(r'<td class="number"><a href="([^"]*)">(\d+)</a></td>', page)
    assert sorted(bars) == sorted(cells)  # the table has what only the mouse reaches in the chart
    assert {"grade=F", "criterion=accuracy"} <= {
        html.unescape(link).partition("?")[2].split("&")[0] for link, _ in bars
    }
    for link, count in bars:
        assert f" of {count} verdict" in client.get(html.unescape(link)).text, link


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"outcome": "refused"}, ["photo-00003/model-a", "photo-00007/model-a"]),
        ({"grade": "F"}, numbered(11, 15, 19, 23)),
        ({"flag": "pixels_disagree", "sort": "order"}, numbered(0, 5, 10, 15, 20)),
        ({"criterion": "accuracy", "most": "2"}, numbered(11, 15, 19, 23)),
        ({"least": "0.99", "q": "0001"}, numbered(12, 16)),
        ({"assertion": "A3"}, numbered(11, 15, 19, 23)),
        ({"group": "source=photo 2", "sort": "case"}, numbered(8, 9, 10, 11)),
        ({"group": ["source=photo 2", "model=model-a"], "sort": "case"}, numbered(8, 10)),
        ({"group": ["source", "", "model=model-b"], "grade": "F"}, numbered(11, 15, 19, 23)),
        ({"group": ["source=photo 2", "nobody=else"]}, []),
        ({"q": "PHOTO 2", "sort": "case"}, numbered(8, 9, 10, 11)),
        ({"style": "Anime", "grade": "C"}, numbered(2, 6, 10, 14, 18, 22)),
        ({"passed": "no", "q": "2"}, numbered(11, 23)),
        ({"q": "nothing like it"}, []),
    ],
)
def test_the_address_says_which_cases(client: httpx.Client, asked: dict[str, str], expected: list[str]) -> None:
    assert names(client, **asked) == expected


def test_a_card_says_what_is_known_of_a_case_that_was_measured_in_part(tmp_path: Path, started: Started) -> None:
    failed = restyle(3, flags=(Flag("gate", "improvements"),))
    entries = [told(0, in_part(0)), told(1, in_part(1, 15.0)), told(2, restyle(2)), told(3, failed)]
    ledger_with(tmp_path / "ledger.db", entries).close()
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        assert names(client) == numbered(1, 0, 3, 2)  # by the highest score that is possible, then by the score
        assert names(client, sort="no") == numbered(0, 1, 3, 2)  # as many of each of three
        assert names(client, sort="bound") == numbered(3, 2, 1, 0)
        [card] = [one for one in client.get(CASES).text.split('<li class="card">') if "photo-00000/anime</bdi>" in one]
        for part in ("3 No, 7 of 23 measured", ">0.20–0.90<", ">1–3<", ">not measured<", 'x="20" width="70"'):
            assert part in card, part
        assert "✗ failed by improvements" in client.get(CASES, params={"q": "00003"}).text
        page = worked_out(client, f"/runs/{RUN}")
        assert page.count('class="slice a-open"') == 2
        assert "Answers by criterion" in page


@pytest.mark.parametrize("asked", [{"sort": "size"}, {"least": "much"}, {"most": "nan"}, {"passed": "maybe"}])
def test_what_cannot_be_asked_is_told_in_a_sentence(client: httpx.Client, asked: dict[str, str]) -> None:
    answer = client.get(CASES, params=asked)
    assert answer.status_code == 400
    assert str(*asked.values()) in answer.text


@pytest.mark.parametrize("path", ["/runs/none", "/runs/none/cases", f"/runs/{RUN}/case?id=none", "/nowhere"])
def test_what_is_not_there_is_told_in_a_sentence(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "There is no" in answer.text


def test_where_the_ledger_lies_is_not_told(made: Path, client: httpx.Client) -> None:
    for path in ("/runs/none", "/api/runs/none", "/review/none", "/agreement?run=none"):
        answer = client.get(path)
        assert answer.status_code in (404, 503), path
        assert made.name not in answer.text, path


def test_of_a_group_one_value_can_be_asked_for(client: httpx.Client) -> None:
    answer = client.get(CASES, params={"group": ["model=model-a", "model=model-b"]})
    assert answer.status_code == 400
    assert "not &#39;model-a&#39; and &#39;model-b&#39;" in answer.text


def test_several_groups_go_along_to_the_case_and_back(client: httpx.Client) -> None:
    asked = {"group": ["source=photo 2", "model=model-b"], "sort": "case"}
    text = client.get(CASES, params=asked).text
    assert [html.unescape(one) for one in re.findall(r'<option value="([^"]*)" selected>', text)][-2:] == asked["group"]
    [first, _] = [html.unescape(link) for link in re.findall(r'class="card"><a href="([^"]*)"', text)]
    page = client.get(first).text
    [after] = re.findall(r'rel="next" href="([^"]*)"', page)
    assert "photo-00011/anime</bdi></h1>" in client.get(html.unescape(after)).text
    [back] = re.findall(r'href="([^"]*)" data-key="u"', page)
    assert client.get(html.unescape(back)).text == text


def test_a_review_under_way_is_open_and_counts_what_is_rated(place: Path, started: Started) -> None:
    with edits(place.with_name("reviewed.db")) as ledger:
        review = find_or_start_review(ledger, RUN, "Ada")
        first, second, *_ = ledger.case_ids(RUN)
        sheet.record_rating(ledger, review, first, answers())
        sheet.record_draft(ledger, review, second, answers())
    with httpx.Client(base_url=started(place.with_name("reviewed.db")), trust_env=False) as client:
        page = client.get(f"/runs/{review.id}").text
        assert re.search(r"<dd>open, <span class=\"number\">1</span> of 12", page)
        assert client.get(f"/api/runs/{review.id}").json()["state"] == "open"


def test_past_the_end_of_a_list_is_its_last_page(client: httpx.Client) -> None:
    assert names(client, at=99, grade="F") == names(client, grade="F") != []


def test_a_case_leads_to_its_neighbours_in_the_list_it_was_opened_from(client: httpx.Client) -> None:
    asked = {"grade": "F"}
    text = client.get(CASES, params=asked).text
    links = [html.unescape(link) for link in re.findall(r'class="card"><a href="([^"]*)"', text)]
    page = client.get(links[1]).text
    for way, link in (("prev", links[0]), ("next", links[2])):
        found = re.search(rf'rel="{way}" href="([^"]*)"', page)
        assert found is not None
        other = client.get(html.unescape(found[1])).text
        assert re.findall("<h1.*?</h1>", other) == re.findall("<h1.*?</h1>", client.get(link).text)
    assert 'rel="prev"' not in client.get(links[0]).text
    assert 'rel="next"' not in client.get(links[-1]).text


def test_a_case_tells_its_history_and_the_answer_as_it_came(place: Path, started: Started) -> None:
    with Ledger.open(place, create=True) as ledger:
        later = replace(restyle(5), judge="anthropic:claude", model="claude", answer="<b>raw</b>")
        ledger_with(place, [told(5, later)], run_record("r2", name="weekly")).close()
        assert len(ledger.case_history(later.case)) == 2
    with httpx.Client(base_url=started(place), trust_env=False) as client:
        text = client.get("/runs/r2/case", params={"id": later.case}).text
        assert "Every verdict on this case" in text
        assert f'href="/runs/{RUN}/case?id=' in text
        assert "&lt;b&gt;raw&lt;/b&gt;" in text
        assert later.brief_digest in text
        assert "on other images" not in text


def plain(page: str) -> str:
    return re.sub(
        r"\s+", " ", html.unescape(re.sub(r"<svg.*?</svg>|<script.*?</script>|<[^>]+>", " ", page, flags=re.DOTALL))
    )


def test_the_judges_of_a_case_stand_side_by_side_with_their_reasons(place: Path, started: Started) -> None:
    one = restyle(6)
    strict = {**one.criteria, "accuracy": replace(one.criteria["accuracy"], score=2, reason="The hand melts.")}
    later = replace(one, judge="anthropic:claude", model="claude", criteria=strict)
    rubric = {"rubric": "restyle", "criteria": [{"key": "exceptional", "title": "Exceptional value"}]}
    ledger_with(place, [told(6, later)], run_record("r2", name="weekly", rubrics=(rubric,))).close()
    with httpx.Client(base_url=started(place), trust_env=False) as client:
        text = plain(client.get("/runs/r2/case", params={"id": later.case}).text)
    head, beside = text.split("Every verdict on this case")
    assert "Source photo 1 Model model-a" in head  # before anything that was said
    assert "The hand melts. ✗ A1 Does part 1 of the style hold? Seen at place 1 of 6." in beside
    assert "The outlines hold. ✗ A1 Does part 1 of the style hold? Seen at place 1 of 6." in beside
    assert "Exceptional value 3 / 5" in beside
    assert "Exceptional 3" not in text


def sent(case_: Case, of: Verdict, rubric: Rubric) -> Verdict:
    """The verdict with the digest of the brief that a run would send."""
    images = {image.role: PreparedImage(b"", "", 1, 1, image.digest, "", 1, 1, "") for image in of.images}
    brief = Composer(rubric).compose(case_, images)
    return replace(of, brief_digest=brief.digest, setting=brief.setting)


def test_a_case_shows_what_its_judge_was_told(tmp_path: Path, started: Started) -> None:
    rubric = load_rubric("edit-preservation")
    known, unlike, person, measured = (verdict(number) for number in range(4))
    cases = [case(one) for one in (known, unlike, person, measured)]
    verdicts = [
        sent(cases[0], known, rubric),
        unlike,
        replace(person, judge="person:Ada"),
        replace(measured, judge="instruments"),
    ]
    record = run_record(RUN, rubrics=(msgspec.to_builtins(rubric),))
    entries = [entry(at, one, case=cases[at]) for at, one in enumerate(verdicts)]
    ledger_with(tmp_path / "ledger.db", entries, record).close()
    ledger_with(tmp_path / "ledger.db", entries[:1], run_record("r2")).close()  # keeps no more than the rubric's name
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:

        def told_of(at: int, run: str = RUN) -> str:
            page = client.get(f"/runs/{run}/case", params={"id": verdicts[at].case}).text
            return plain(page).split("Prompt sent to the judge")[1].split("The answer as it came")[0]

        assert "This is the text that was sent" in told_of(0)
        assert "make the car red" in told_of(0)
        assert "case-" + verdicts[0].brief_digest[:8] in told_of(0) or not rubric.echo
        assert "It is not quite the text that was sent" in told_of(1)
        assert "make the car red" in told_of(1)
        assert "A person rated" in told_of(2)
        assert "The instruments measured" in told_of(3)
        assert "cannot be put together again" in told_of(0, "r2")


def test_how_far_a_run_is_can_be_asked(place: Path, started: Started) -> None:
    with Ledger.open(place, create=True) as ledger:
        ledger.start(run_record("r2", total=10))
    with httpx.Client(base_url=started(place), trust_env=False) as client, Ledger.open(place, create=True) as ledger:
        assert client.get("/api/runs/r2").json()["done"] == 0
        ledger.write("r2", [told(1, restyle(1))])
        assert client.get("/api/runs/r2").json()["done"] == 1
        with ledger.lock_run("r2", alone=True):
            assert client.get("/api/runs").json()[0]["running"] is True
        ledger.update("r2", state="finished")
        assert client.get("/api/runs/r2").json()["running"] is False


def test_two_runs_are_compared(place: Path, started: Started) -> None:
    worse = [told(number, replace(restyle(number), score=0.1), pictures=False) for number in range(24)]
    ledger_with(place, worse, run_record("r2", name="weekly")).close()
    with httpx.Client(base_url=started(place), trust_env=False) as client:
        text = worked_out(client, "/compare", before=RUN, after="r2")
        assert "▼ worse" in text
        assert "weekly" in text
        assert "one and the same" in client.get("/compare", params={"before": RUN, "after": RUN}).text


@pytest.mark.parametrize("path", ["/agreement", "/calibration"])
def test_where_nobody_reviewed_pages_about_people_say_so(client: httpx.Client, path: str) -> None:
    assert "Nobody has reviewed" in client.get(path).text


def test_an_empty_ledger_has_a_page(tmp_path: Path, started: Started) -> None:
    Ledger.open(tmp_path / "ledger.db", create=True).close()
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        assert "There is no run in this ledger yet" in client.get("/").text
        assert client.get("/compare").status_code == 200
