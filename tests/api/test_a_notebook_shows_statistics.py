"""A comparison and an agreement in a notebook: tables and charts, harmless whatever names say; and one line as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from support.statistics import SCORES, write_build, write_builds, write_rated_run

import beholder
from beholder.images.image import PreparedImage
from beholder.ledger.ledger import Ledger
from beholder.rubrics.brief import Composer
from beholder.runs.plan import JudgePlan, Plan

HOSTILE = "<script>alert(1)</script>\u202e\"'&"


def parsed(html: str) -> Xml.Element:
    """The page as it would be read: well formed, and nothing of it comes from elsewhere."""
    root = Xml.fromstring(html)
    for element in root.iter():
        assert element.tag not in ("script", "img", "link", "iframe", "object"), element.tag
        assert not {"src", "href", "style"} & set(element.attrib)
        assert not [name for name in element.attrib if name.startswith("on")]
    assert "url(" not in html
    assert "@import" not in html
    return root


def texts(root: Xml.Element) -> str:
    return "\n".join(root.itertext())


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    path = tmp_path / "hostile.db"
    with Ledger.open(path, create=True) as ledger:
        cases = [f"{HOSTILE}{at}" for at in range(12)]
        write_build(ledger, "old", SCORES, cases=cases)
        write_build(ledger, "new", [*(score - 0.2 for score in SCORES[:-1]), None], cases=cases)
    return path


def test_a_comparison_is_a_table_with_charts(tmp_path: Path) -> None:
    builds = write_builds(tmp_path / "beholder.db")
    comparison = beholder.compare("whole", "lower", ledger=builds)
    root = parsed(comparison._repr_html_())
    rows = root.findall("table/tbody/tr")
    assert len(rows) == 4
    assert [len(row.findall("td/svg")) for row in rows] == [1] * 4
    assert "lower (lower) is worse on score by 0.200" in texts(root)
    assert repr(comparison) == "<Comparison whole (whole) → lower (lower), 12 cases: score -0.200>"


def test_a_hostile_case_name_is_shown_and_does_nothing(hostile: Path) -> None:
    html = beholder.compare("old", "new", ledger=hostile)._repr_html_()
    assert "<script" not in html
    assert "\u202e" not in html
    assert "<script>alert(1)</script>\\u202e\"'&11 (before: scored; now: refused" in texts(parsed(html))


def test_an_agreement_is_tables_with_charts(tmp_path: Path) -> None:
    ledger = write_rated_run(tmp_path / "kind.db")
    agreement = beholder.agree("kind", ratings="ratings.csv", ledger=ledger, draws=200)
    root = parsed(agreement._repr_html_())
    assert len(root.findall("table/tbody/tr/td/svg")) == 1
    assert "People among themselves" in texts(root)
    assert "Unchanged regions: The judge ranks cases" in texts(root)
    assert repr(agreement).startswith("<Agreement of run kind (kind) with people: Unchanged regions ρ 0.89>")


def test_a_hostile_aspect_and_rater_do_nothing(tmp_path: Path) -> None:
    rows = [f'c{at},"{HOSTILE.replace(chr(34), "")}","{HOSTILE.replace(chr(34), "")}",{at % 5}' for at in range(9)]
    for name, column in (("ratings.csv", "rater"), ("scores.csv", "judge")):
        (tmp_path / name).write_text("\n".join([f"case,{column},aspect,score", *rows]), "utf-8")
    html = beholder.agree(scores="scores.csv", ratings="ratings.csv", draws=100)._repr_html_()
    assert "<script" not in html
    assert "<script>alert(1)</script>\\u202e'& against people, 9 cases" in texts(parsed(html))


@pytest.mark.parametrize("kind", ["calibration", "estimate", "history", "plan", "case", "doctor"])
def test_other_results_are_tables(kind: str, tmp_path: Path) -> None:
    ledger = write_rated_run(tmp_path / "kind.db")
    results: dict[str, Callable[[], Any]] = {
        "calibration": lambda: beholder.calibrate(
            "kind", ratings="ratings.csv", try_="offset", draws=100, ledger=ledger
        ),
        "estimate": lambda: beholder.estimate("kind", ratings="ratings.csv", ledger=ledger),
        "history": lambda: beholder.history("kind", ledger=ledger, draws=100),
        "plan": lambda: Plan(2, 2, judges=[JudgePlan(HOSTILE, calls=2)]),
        "case": lambda: first_case(beholder.Run.load("kind", ledger)),
        "doctor": lambda: beholder.doctor(ledger=ledger),
    }
    result = results[kind]()
    root = parsed(result._repr_html_())
    assert root.findall("table/tbody/tr"), "there is a table with rows"
    assert "<script" not in result._repr_html_()
    if kind == "history":
        assert "kind" in texts(root)
        assert f"{result.lines[0].points[0].mean.value:.3f}" in texts(root)
    if kind == "case":
        assert result.verdicts[0].rubric in texts(root)


def first_case(run: beholder.Run) -> beholder.JudgedCase:
    return run.case(next(run.cases()).id)


def test_values_are_short_lines_and_json(tmp_path: Path) -> None:
    ledger = write_rated_run(tmp_path / "kind.db")
    with Ledger.open(ledger) as opened:
        values: list[object] = [opened, beholder.Rubric.load("restyle")]
    case = beholder.Case("c", {"input": b"", "edited": b""}, {"instruction": "make it red"})
    image = PreparedImage(b"x" * 5000, "image/jpeg", 8, 8, "d1", "d0", 16, 16, "jpeg")
    composer = Composer(beholder.Rubric.load("edit-preservation"))
    values.append(composer.compose(case, {"input": [image], "edited": [image]}))
    for value in values:
        assert repr(value).startswith(f"<{type(value).__name__} ")
        assert "\n" not in repr(value)
        assert len(repr(value)) < 300
    run = beholder.Run.load("kind", ledger)
    written = run.report(tmp_path / "a.md").to_dict()
    assert json.loads(json.dumps(written)) == {**written, "path": str(tmp_path / "a.md")}
    assert beholder.RatingsImport({"Ada": 2}, ["a note"]).to_dict() == {"raters": {"Ada": 2}, "notes": ["a note"]}
    assert "transcripts" in first_case(run).to_dict(transcripts=True)
    assert "transcripts" not in first_case(run).to_dict()


def test_every_result_is_one_line(tmp_path: Path) -> None:
    ledger = write_rated_run(tmp_path / "kind.db")
    results = [
        beholder.calibrate("kind", ratings="ratings.csv", try_="offset", draws=100, ledger=ledger),
        beholder.estimate("kind", ratings="ratings.csv", ledger=ledger),
        beholder.history("kind", ledger=ledger, draws=100),
    ]
    assert [repr(result).split(" ")[0] for result in results] == ["<CalibrationResult", "<Estimate", "<History"]
    for result in results:
        assert "\n" not in repr(result)
        assert len(repr(result)) < 200
