"""A number beside a threshold, a grade or a failed verdict has the digits that it takes to agree with it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console, RenderableType
from support.ledger import verdict as any_verdict
from support.reports import RUN, ledger_with, restyle, told

from beholder.cli.output import means_table
from beholder.reports.cards import render_verdict, verdict_html
from beholder.reports.ci import run_junit, run_markdown
from beholder.reports.text import format_mean
from beholder.rubrics.rubric import GateRule, Rubric, to_fraction
from beholder.runs.execution import RunMeans, find_missed_thresholds
from beholder.verdicts.seed_format import to_seed_format
from beholder.verdicts.verdict import Verdict, format_share, round_beside
from beholder.web.responses import format_short

SCORES = st.floats(0, 1)


@given(SCORES, SCORES | st.integers(0, 100).map(lambda percent: percent / 100), st.integers(0, 4))
def test_a_number_stays_on_its_side_of_a_limit(number: float, limit: float, places: int) -> None:
    shown = to_fraction(round_beside(number, [limit], places))
    exact, bound = to_fraction(number), to_fraction(limit)
    assert ((shown > bound) - (shown < bound)) == ((exact > bound) - (exact < bound))
    assert abs(shown - exact) <= to_fraction(10**-places)


@given(SCORES, st.integers(0, 100))
def test_a_decisive_score_does_not_seem_to_reach_a_whole_percent_that_it_does_not(score: float, percent: int) -> None:
    shown = to_fraction(format_share(score, decisive=True))
    assert (shown >= to_fraction(percent) / 100) == (to_fraction(score) >= to_fraction(percent) / 100)


def test_digits_are_only_added_where_they_are_needed() -> None:
    assert format_share(0.695, decisive=False) == "0.70"
    assert [format_share(score, decisive=True) for score in (0.695, 0.7, 0.704, 0.69999)] == [
        "0.695", "0.70", "0.70", "0.69999",
    ]  # fmt: skip


@pytest.fixture
def near(verdict: Callable[..., Verdict], description: Callable[..., Any]) -> Verdict:
    """0.695 by a threshold of 0.7."""
    answer = description((0.7, 0.7, 0.7, 0.65))
    made = verdict("description", answer)
    assert (made.score, made.passed) == (0.695, False)
    return made


def test_the_published_form(near: Verdict, rubrics: dict[str, Rubric]) -> None:
    written = to_seed_format(near, rubrics["description"])
    assert (written["score"], written["passed"]) == (0.695, False)
    gate = rubrics["description"].with_scoring(gates=(GateRule(criterion="clarity", least=0.7),))
    almost = replace(near, criteria={**near.criteria, "clarity": replace(near.criteria["clarity"], score=0.6999)})
    assert to_seed_format(almost, gate)["details"]["clarity"] == 0.6999


def test_the_criteria_of_the_published_form(
    verdict: Callable[..., Verdict], description: Callable[..., Any], rubrics: dict[str, Rubric]
) -> None:
    made = verdict("description", description((0.695, 0.695, 0.695, 0.695)))
    written = to_seed_format(made, rubrics["description"])
    assert (written["score"], written["passed"]) == (0.695, False)
    assert [*written["details"].values()] == [0.695] * 4
    far = verdict("description", description((0.795, 0.795, 0.795, 0.795)))
    assert [*to_seed_format(far, rubrics["description"])["details"].values()] == [0.8] * 4  # nothing is decided here


@given(st.lists(st.integers(6850, 7150).map(lambda whole: whole / 10_000), min_size=4, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whoever_computes_with_published_criteria_comes_to_the_same_verdict(
    verdict: Callable[..., Verdict], description: Callable[..., Any], rubrics: dict[str, Rubric], scores: list[float]
) -> None:
    made = verdict("description", description(tuple(scores)))
    written = to_seed_format(made, rubrics["description"])["details"]
    again = verdict("description", description(tuple(written.values())))
    assert (again.passed, again.grade) == (made.passed, made.grade)


def shown(made: Verdict) -> str:
    return drawn(render_verdict(made))


def drawn(made: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(made)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_card(near: Verdict) -> None:
    assert "0.695  of 1   failed" in shown(near)
    graded = replace(near, percentage=89.96, total=22.49, max_total=25.0, grade="A", score=0.8996, passed=None)
    assert "89.96 %   22.49 of 25" in shown(graded)


def test_what_continuous_integration_reads(tmp_path: Path) -> None:
    almost = restyle(0, score=0.69996, grade="C", passed=False)
    with ledger_with(tmp_path / "ledger.db", [told(0, almost, pictures=False)]) as ledger:
        [suite] = Xml.fromstring(run_junit(ledger, ledger.run(RUN), {"score": 70}))
        text = run_markdown(ledger, ledger.run(RUN))
    [failure] = suite.iter("failure")
    assert failure.get("message") == "score 0.69996, grade C; score is 69.996 of 100, and 70 was asked for"
    assert "| 0.69996 | C |" in text


def test_the_thresholds_of_a_run() -> None:
    means = RunMeans(2, 2, {"score": 0.69996, "accuracy": 3.999})
    assert find_missed_thresholds(means, {"score": 70, "accuracy": 4}, None) == [
        "score: the mean is 69.996, and 70 was asked for",
        "accuracy: the mean is 3.999, and 4 was asked for",
    ]


def test_the_means_above_a_missed_threshold(tmp_path: Path) -> None:
    assert format_mean("score", 0.69996, {"score": 70}) == "0.69996"
    assert format_mean("score", 0.7, {"score": 70}) == format_mean("score", 0.69996, {}) == "0.700"
    assert format_mean("accuracy", 3.9999, {"score": 70, "accuracy": 4}) == "3.9999"
    with ledger_with(tmp_path / "ledger.db", [told(0, restyle(0, score=0.69996), pictures=False)]) as ledger:
        tally = ledger.tally(RUN)
    assert "0.69996" in drawn(means_table(tally, {"score": 70}))
    assert "0.700" in drawn(means_table(tally, {}))


def test_the_criteria_on_the_card_of_a_case_that_failed(near: Verdict) -> None:
    """Four times `0.7 / 1` stood below a score of 0.69996 that had failed by a threshold of 0.7."""
    criteria = {key: replace(one, score=0.69996) for key, one in near.criteria.items()}
    failed = replace(near, criteria=criteria, score=0.69996)
    assert shown(failed).count("0.69996 / 1") == str(verdict_html(failed)).count("0.69996 / 1") == 4
    assert format_short(0.69996, decisive=True) == "0.69996"
    assert [format_short(score, decisive=True) for score in (4, 3.5, 0.7, None)] == ["4", "3.5", "0.7", "–"]
    undecided = replace(failed, passed=None, grade=None)
    assert shown(undecided).count("0.7 / 1") == 4


def test_a_verdict_that_decided_nothing_is_rounded_as_before() -> None:
    made = replace(any_verdict(0), score=0.696, score_derived=False)
    assert (made.grade, made.passed) == (None, None)
    assert "0.70  of 1" in shown(made)
