"""The page of a run says what its report says; the filters offer everything that the run has, however large it is."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from support.ledger import case, entry, run_record
from support.reports import RUN, ledger_with, restyle, told, usual_run, written
from support.web import Started, worked_out

from beholder.verdicts.verdict import AssertionResult, Verdict
from beholder.web import background


def plain(page: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", page, flags=re.DOTALL)))


def answered(number: int, *answers: str, **changes: object) -> Verdict:
    """A verdict of which one assertion after the other is answered so."""
    one = restyle(number, style=None, **changes)
    asked = tuple(
        AssertionResult(f"A{at}", f"Does part {at} hold?", answer, f"Seen in case {number}.")
        for at, answer in enumerate(answers, start=1)
    )
    result = replace(one.criteria["accuracy"], assertions=asked, no=answers.count("no"))
    return replace(one, criteria={**one.criteria, "accuracy": result})


def options(page: str, name: str) -> list[str]:
    selects = re.findall(rf'<select name="{name}"[^>]*>(.*?)</select>', page, re.DOTALL)
    return [html.unescape(value) for value in re.findall(r'<option value="([^"]+)"', "".join(selects))]


def test_it_has_findings_corrections_and_evidence_as_the_report_has(tmp_path: Path, started: Started) -> None:
    place = tmp_path / "ledger.db"
    with usual_run(place) as ledger:
        report = plain(written(ledger, tmp_path / "report.html").read_text().split('id="cases"')[0])
    with httpx.Client(base_url=started(place), trust_env=False) as client:
        page = worked_out(client, f"/runs/{RUN}")
        text = plain(page)
        for part in (
            "A1 Does part 1 of the style hold? Pop Art 10 of 10 Seen at place 1 of 1.",
            "clear lines × 22",
            "mend the hand of 0",
            "Corrected by code 16",
            "accuracy.score 5 4 1 failed assertions allow at most 4 6",
            "pixels disagree audit 5 5 of 5, but nothing was changed",
            "Refused, for example: The judge would not look at faces.",
            "gpt-5-mini-2025-08-07",
        ):
            assert part in text, part
            assert part in report, part
        [example] = re.findall(r"<q>.*?</q><br><a class=\"example\" href=\"([^\"]*)\"", page)[:1]
        assert "photo-00001/anime" in client.get(html.unescape(example)).raise_for_status().text


def test_no_is_counted_among_those_who_said_yes_or_no(tmp_path: Path, started: Started) -> None:
    given = (("no", "yes"), ("yes", "no"), ("n/a", "yes"), ("abstained", "yes"))
    entries = [told(number, answered(number, *one), pictures=False) for number, one in enumerate(given)]
    ledger_with(tmp_path / "ledger.db", entries).close()
    with httpx.Client(base_url=started(tmp_path / "ledger.db"), trust_env=False) as client:
        text = plain(worked_out(client, f"/runs/{RUN}"))
    assert "A1 Does part 1 hold? 1 of 2" in text
    assert "A2 Does part 2 hold? 1 of 4" in text


@pytest.fixture
def two_rubrics(tmp_path: Path) -> Path:
    """Eight cases, each judged by two rubrics that have a criterion of the same key, on other scales."""
    entries = []
    for number in range(8):
        one = answered(
            number, "no" if number < 2 else "yes", case=f"photo {number}", rubric="strict", passed=number > 1
        )
        loose = {"accuracy": replace(one.criteria["accuracy"], score=9, scale=(0, 10), assertions=(), no=0)}
        other = replace(one, rubric="loose", criteria=loose, score=0.9, grade="good", passed=True, corrections=())
        groups = {"model": f"model {number % 2}"}
        entries += [entry(number, of, case=case(one, groups=groups)) for of in (one, other)]
    record = run_record(
        RUN,
        total=16,
        rubrics=tuple({"rubric": name, "criteria": [{"key": "accuracy"}]} for name in ("strict", "loose")),
    )
    ledger_with(tmp_path / "ledger.db", entries, record).close()
    return tmp_path / "ledger.db"


def test_rubrics_are_told_apart(two_rubrics: Path, started: Started) -> None:
    with httpx.Client(base_url=started(two_rubrics), trust_env=False) as client:
        page = worked_out(client, f"/runs/{RUN}")
        text = plain(page)
        failed = [html.unescape(link) for link in re.findall(r'href="([^"]*passed=no[^"]*)"', page)]
        assert [client.get(link).text.count('class="card"') for link in failed] == [2, 0]
    assert "Score, strict" in text
    assert "Score, loose 0.900" in text
    assert re.search(r"Accuracy, strict , 1 to 5", text)
    assert re.search(r"Accuracy, loose , 0 to 10: mean 9\.00", text)
    assert "Passed, strict 75.0 %" in text
    assert "Passed, loose 100.0 %" in text
    assert "2 did not" in text
    assert "Grades, strict 8 graded" in text
    assert "Grades, loose 8 graded" in text
    assert "model 0 4 of 4" in text  # cases, not verdicts
    assert "A1 Does part 1 hold? 2 of 8" in text


def test_filters_offer_everything_before_the_numbers_are_worked_out(
    tmp_path: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "ledger.db"
    entries = [
        told(number, answered(number, *["no" if at == number else "yes" for at in range(20)]), pictures=False)
        for number in range(20)
    ]
    last = entries[-1]
    entries[-1] = replace(last, case=replace(last.case, groups={**last.case.groups, "model": "model-z"}))
    ledger_with(place, entries).close()
    monkeypatch.setattr(background, "collect_run_data", lambda *_: pytest.fail("the run is gone through"))
    monkeypatch.setattr("beholder.ledger.query._SAMPLE", 5)
    with httpx.Client(base_url=started(place), trust_env=False) as client:
        page = client.get(f"/runs/{RUN}/cases").text
    assert options(page, "assertion") == [f"A{at}" for at in range(1, 21)]
    assert options(page, "flag") == ["pixels_disagree"]
    assert options(page, "criterion") == ["accuracy", "exceptional"]
    assert options(page, "group")[:3] == ["source=photo 0", "source=photo 1", "source=photo 2"]
    assert options(page, "group")[-3:] == ["model=model-a", "model=model-b", "model=model-z"]
    assert options(page, "grade") == ["A", "B", "C", "F"]


def test_styles_can_be_chosen(client: httpx.Client) -> None:
    page = client.get(f"/runs/{RUN}/cases").text
    assert options(page, "style") == ["Anime", "Pop Art"]
    link = html.unescape(re.findall(r'href="([^"]*style=Anime[^"]*)"', client.get(f"/runs/{RUN}").text)[0])
    assert client.get(link).status_code == 200
