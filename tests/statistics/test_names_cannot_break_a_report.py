"""Whatever cases, criteria and runs are called, Markdown stays a table and JUnit stays XML."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.reports.ci import comparison_junit, comparison_markdown, format_code, format_prose
from beholder.statistics.comparison import Comparison, ComparisonOptions, compare
from beholder.statistics.data import Column, ColumnKind, Scores
from beholder.statistics.gate import gate_comparison

HOSTILE = (
    "a|b`c`\\|<img src=x onerror=alert(1)>\x00\x1b[2J\ufffe\ud800]]>&amp;@everyone #1 https://evil.example **b**\n| x"
)
names = st.one_of(st.text(max_size=40), st.just(HOSTILE), st.text("|`\\<>&@#*_[]()!\n\r\t\x00\x0b\x85 ", max_size=20))


def hostile(case: str, criterion: str, run: str) -> Comparison:
    cases = tuple(f"{case}{row}" for row in range(8))

    def scores(values: list[float], which: str) -> Scores:
        column = Column(criterion, ColumnKind.CRITERION, np.array(values), (0.0, 1.0), HOSTILE)
        overall = Column("score", ColumnKind.OVERALL, np.array(values), (0.0, 1.0))
        lacks = {cases[7]: f"refused, {case}"} if np.isnan(values[7]) else {}
        return Scores(f"{run}{which}", cases, {"score": overall, criterion: column}, {"source": cases}, lacks)

    old, new = scores([0.9] * 8, "A"), scores([0.1 + 0.01 * row for row in range(7)] + [float("nan")], "B")
    return compare(old, new, ComparisonOptions(draw_count=100), warnings=[case])


@given(names, names.filter(lambda name: name != "score"), names)
@settings(max_examples=60)
def test_junit_is_xml_with_a_failure_for_each_regression(case: str, criterion: str, run: str) -> None:
    found = hostile(case, criterion, run)
    decided = gate_comparison(found, ["any"])
    suite = Xml.fromstring(comparison_junit(found, decided).encode("utf-8")).find("testsuite")
    assert suite is not None
    tests = suite.findall("testcase")
    failures = suite.findall("testcase/failure")
    assert (suite.get("tests"), suite.get("failures")) == (str(len(tests)), str(len(failures))) == ("2", "2")
    assert {one.get("type") for one in failures} == {"regression"}
    assert all("Cases that fell most" in str(one.text) for one in failures)


@given(names, names.filter(lambda name: name != "score"), names)
@settings(max_examples=60)
def test_markdown_keeps_its_cells_and_says_nothing_on_its_own(case: str, criterion: str, run: str) -> None:
    found = hostile(case, criterion, run)
    text = comparison_markdown(found, gate_comparison(found, ["any"]))
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.count("|") in (9, 5)
    assert set(re.findall(r"</?([^ >]*)", text)) <= {"code", "sub", "details", "summary"}
    assert not re.search(r"[@`\\*\[\]](?!\*Re|\*\* on|Re)", text.replace("**Regression**", ""))
    assert "https:" not in text


def test_a_name_reads_as_it_is() -> None:
    assert format_code("p12/anime-2") == "<code>p12/anime-2</code>"
    assert format_code("a|b") == "<code>a&#124;b</code>"
    assert format_prose("It is 0.5 (at most). Ask @me or see #3.") == (
        "It is 0.5 (at most). Ask <code>&#64;</code>me or see <code>&#35;</code>3."
    )
    assert format_prose("see www.evil.example") == "see www&#46;evil&#46;example"
