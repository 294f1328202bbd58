"""The top of a report: who judged what and when, outcomes, means with intervals, what fails, what code corrected."""

from __future__ import annotations

import io
import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from support.ledger import run_record
from support.reports import RUN, ledger_with, restyle, told, usual_run, written

from beholder.errors import UsageError
from beholder.reports.ci import run_junit, run_markdown
from beholder.reports.html_report import write_report
from beholder.reports.summary import prompt_digests
from beholder.verdicts.verdict import Coverage, mark_unmeasured


def words(page: Path) -> str:
    """What a reader sees of the page before the cases."""
    text = page.read_text("utf-8")
    text = text[text.index("<body>") : text.index('id="cases"')]
    return re.sub(r"\s+", " ", unescape(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", text, flags=re.DOTALL)))


def test_it_says_who_judged_what_when_and_how_it_ended(report: Path, tmp_path: Path) -> None:
    said = words(report)
    for part in (
        "24 verdicts on 24 cases",
        "Judged by openai:gpt-5-mini",
        "Model, as returned gpt-5-mini-2025-08-07",
        "2026-03-14 15:09 UTC",
        "22 scored",
        "2 refused",
        "The judge would not look at faces.",
        f"Prompt digest {next(iter(prompt_digests(run_record()).values()))[:12]}",
        "Cost $0.0",
        "input",
    ):
        assert part in said, part


def test_means_have_intervals_by_the_photograph_that_cases_share(report: Path) -> None:
    said = words(report)
    assert re.search(r"Score 0\.\d{3} 0\.\d{3} to 0\.\d{3}", said)
    assert re.search(r"Accuracy \d\.\d\d \d\.\d\d to \d\.\d\d", said)
    assert "draws of 6 groups" in said
    assert "Style" in said
    assert "model-a" in said


def test_it_shows_what_fails_what_the_pixels_say_and_what_code_corrected(report: Path) -> None:
    said = words(report)
    # Of the 22 with a score, an even number is Anime; a case fails as many parts as its number is more than fours.
    assert "A1 Does part 1 of the style hold? Pop Art 10 of 10 Seen at place 1 of 1. photo-00001/anime" in said
    assert "A1 Does part 1 of the style hold? Anime 6 of 12 Seen at place 1 of 2. photo-00002/anime" in said
    assert "pixels disagree audit" in said
    assert "Corrected by code" in said
    assert "failed assertions allow at most" in said
    assert "clear lines × 22" in said


def test_every_chart_has_its_numbers_in_words(report: Path) -> None:
    text = report.read_text("utf-8")
    charts = re.findall(r'<svg class="chart[^>]*>', text)
    assert len(charts) > 8
    assert all('aria-hidden="true"' in chart for chart in charts)
    assert len(re.findall(r'<details class="numbers">.*?<table>', text, re.DOTALL)) == 2


def test_a_group_that_nobody_is_in_is_refused(tmp_path: Path) -> None:
    with usual_run(tmp_path / "ledger.db", 4) as ledger, pytest.raises(UsageError, match="in a group 'colour'"):
        write_report(ledger, ledger.run(RUN), io.BytesIO(), group="colour")


def test_a_run_without_verdicts_has_a_report(tmp_path: Path) -> None:
    with ledger_with(tmp_path / "ledger.db", []) as ledger:
        assert "0 verdicts on 0 cases" in words(written(ledger, tmp_path / "report.html"))
        assert "0 verdicts on 0 cases" in run_markdown(ledger, ledger.run(RUN))


def test_against_an_older_run_it_says_what_changed(tmp_path: Path) -> None:
    older = [told(number, restyle(number), pictures=False) for number in range(40)]
    better = [restyle(number * 4, case=f"photo-{number:05d}/anime") for number in range(40)]
    newer = [told(number, one, pictures=False) for number, one in enumerate(better)]
    ledger_with(tmp_path / "ledger.db", older).close()
    with ledger_with(tmp_path / "ledger.db", newer, run_record("r2", name="tuned")) as ledger:
        said = words(written(ledger, tmp_path / "report.html", "r2", other=ledger.run(RUN)))
        markdown = run_markdown(ledger, ledger.run("r2"), other=ledger.run(RUN))
    assert "Against nightly" in said
    assert "▲ better" in said
    assert "Cases that changed most" in said
    heading = re.search("### <code>(.*)</code> against <code>(.*)</code>", markdown)
    assert heading is not None
    assert ("tuned" in heading[1], "nightly" in heading[2]) == (True, True)
    assert re.search(r"<code>Score</code> \|.*\| \+0\.\d", markdown[heading.end() :])


def test_a_comparison_is_in_words_and_shows_the_cases_that_changed(tmp_path: Path) -> None:
    rubric = {"rubric": "restyle", "criteria": [{"key": "exceptional", "title": "Exceptional value"}]}
    older = [told(number, restyle(number * 4, case=f"photo-{number:05d}/anime")) for number in range(4)]
    newer = [told(number + 8, restyle(3, case=f"photo-{number:05d}/anime")) for number in range(4)]
    first = run_record(RUN, total=4, rubrics=(rubric,), suite={"judges": [{"judge": "openai:a"}], "samples": 3})
    judge = {"judge": "openai:b", "params": {"temperature": 0.2}}
    ledger_with(tmp_path / "ledger.db", older, first).close()
    second = run_record("r2", name="tuned", total=4, rubrics=(rubric,), suite={"judges": [judge]})
    with ledger_with(tmp_path / "ledger.db", newer, second) as ledger:
        page = written(ledger, tmp_path / "report.html", "r2", other=ledger.run(RUN))
        markdown = run_markdown(ledger, ledger.run("r2"), other=ledger.run(RUN))
    said = words(page)
    assert "The judges differ: openai:a before, openai:b (params temperature 0.2) now." in said
    assert "The number of samples differs: 3 before, none now." in said
    assert "Exceptional value 5 → 2" in said
    assert "−0.750" in said
    for text in (said, markdown):
        assert "Exceptional value" in text
        assert not re.search(r"\[\{|exceptional", text[text.index("gainst") :])
    text = page.read_text("utf-8")
    section = text[text.index('id="against"') : text.index('id="groups"')]
    assert len(re.findall(r'<img [^>]*data-picture="\d+"', section)) == 12  # what went in, what came out before and now
    assert "Before" in said
    assert re.search(r"\| case \| source \| by \| what \|\n\|---\|---\|--:\|---\|", markdown)


def test_an_assertion_is_told_with_its_style(tmp_path: Path) -> None:
    with usual_run(tmp_path / "ledger.db") as ledger:
        markdown = run_markdown(ledger, ledger.run(RUN))
    assert re.search(r"\| <code>A1</code> \| [^|]* \| <code>Pop Art</code> \| \d+ of \d+ \|", markdown)


def test_markdown_tells_the_same(tmp_path: Path) -> None:
    with usual_run(tmp_path / "ledger.db") as ledger:
        text = run_markdown(ledger, ledger.run(RUN))
    assert text.startswith("### <code>nightly</code>")
    assert "24 verdicts on 24 cases" in text
    assert "22 scored, 2 refused." in text
    assert re.search(r"\| <code>Accuracy</code> \| 22 \| 1–5 \| \d\.\d\d \(\d\.\d\d to \d\.\d\d\) \|", text)


def test_junit_has_a_test_for_every_verdict(tmp_path: Path) -> None:
    with usual_run(tmp_path / "ledger.db") as ledger:
        [suite] = Xml.fromstring(run_junit(ledger, ledger.run(RUN)))
    failed = [number for number in range(24) if number not in (3, 7) and number % 4 == 3]
    assert suite.attrib | {"tests": "24", "errors": "2", "failures": str(len(failed))} == suite.attrib
    assert {error.get("type") for error in suite.iter("error")} == {"refused"}
    assert [test.get("name") for test in suite if test.find("failure") is not None] == [
        f"photo-{number:05d}/anime" for number in failed
    ]


def test_junit_says_what_each_case_came_to_and_fails_below_what_is_asked(tmp_path: Path) -> None:
    """A rubric without a threshold lets everything through: then `fail_under` says what fails."""
    verdicts = [restyle(number, passed=None) for number in range(4)]
    coverage = Coverage(3, 6, "assertions")
    unmeasured = mark_unmeasured(restyle(4, passed=None, score=None, grade=None, coverage=coverage))
    entries = [told(number, one, pictures=False) for number, one in enumerate([*verdicts, unmeasured])]
    with ledger_with(tmp_path / "ledger.db", entries) as ledger:
        [plain] = Xml.fromstring(run_junit(ledger, ledger.run(RUN)))
        [strict] = Xml.fromstring(run_junit(ledger, ledger.run(RUN), {"score": 60, "exceptional": 4}))
    assert plain.attrib | {"tests": "5", "failures": "0", "errors": "0", "skipped": "1"} == plain.attrib
    assert [one.text for one in plain.iter("system-out")][3] == "score 0.250, grade F\naccuracy 2, exceptional 2"
    [skipped] = plain.iter("skipped")
    assert skipped.get("message") == f"unmeasured, {coverage.sentence}"
    failures = list(strict.iter("failure"))
    assert [one.get("type") for one in failures] == ["fail-under"] * 2
    assert failures[1].get("message") == (
        "score 0.250, grade F; score is 25 of 100, and 60 was asked for; exceptional is 2, and 4 was asked for"
    )
