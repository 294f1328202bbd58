"""`rubrics check` names what can be loaded and decides nothing: limits out of reach, assertions that do not count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from beholder.api.rubrics import check_rubric
from beholder.cli.app import app
from beholder.errors import RubricError
from beholder.rubrics import yaml_files
from beholder.rubrics.load import check_rubrics, load_rubric

START = """\
rubric: mine
images: [{role: photo, label: Photo}]
criteria:
- {key: sharp, scale: [0, 10]}
- {key: kept, scale: [1, 5], assertions: [Is it there?, Is it whole?]}
scoring:
"""
CEILING = "  ceiling: [5, 4, 2]\n"


def written(tmp_path: Path, scoring: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(START + scoring, "utf-8")
    load_rubric(path)  # a doubt does not keep anybody from using it
    return path


@pytest.mark.parametrize(
    ("scoring", "key", "said"),
    [
        ("  gates: [{criterion: sharp, least: 40}]\n", "scoring.gates[0].least", "no score can meet 40: 'sharp' is 10"),
        ("  gates: [{criterion: sharp, least: 0}]\n", "scoring.gates[0].least", "every score meets 0: 'sharp' is 0"),
        ("  gates: [{criterion: kept, least: 5}]\n", "scoring.gates[0].least", "no score can meet 5: 'kept' is 4"),
        ("  threshold: 0.9\n", "scoring.threshold", "no score can meet 0.9: the highest is 0.875"),
    ],
)
def test_a_limit_out_of_reach(tmp_path: Path, scoring: str, key: str, said: str) -> None:
    ceiling = "  ceiling: [4, 3, 2]\n" if "sharp" not in scoring else CEILING
    with pytest.raises(RubricError) as caught:
        check_rubrics(written(tmp_path, ceiling + scoring))
    [problem] = caught.value.problems
    assert (problem.key, problem.line) == (key, 8)
    assert problem.message.startswith(said)


@pytest.mark.parametrize(
    ("scoring", "why"),
    [("  kind: weighted_mean\n", "there is no `ceiling`"), ("  ceiling: [5, 5]\n", "the ceiling never lowers a score")],
)
def test_assertions_that_no_ceiling_uses(tmp_path: Path, scoring: str, why: str) -> None:
    path = written(tmp_path, scoring)
    [warning] = check_rubrics(path)[1]
    assert (warning.key, warning.line) == ("criteria[1].assertions", 5)
    assert warning.message.startswith(f"no assertion counts in 'kept': {why}")
    done = CliRunner().invoke(app, ["rubrics", "check", str(path)])
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (0, [f"  warning: {warning}"])


@pytest.mark.parametrize(
    ("scoring", "lowest"), [("  threshold: 0\n", "0"), ("  kind: weighted_total\n  threshold: 0.05\n", "0.0667")]
)
def test_a_threshold_that_every_case_meets(tmp_path: Path, scoring: str, lowest: str) -> None:
    path = written(tmp_path, CEILING + scoring)
    [warning] = check_rubrics(path)[1]
    assert (warning.key, warning.line) == ("scoring.threshold", 7 + scoring.count("\n"))
    assert warning.message.startswith("every score meets 0")
    assert f"the lowest is {lowest}, so that no case fails" in warning.message
    done = CliRunner().invoke(app, ["rubrics", "check", str(path)])
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (0, [f"  warning: {warning}"])


def test_rules_that_can_decide_are_sound(tmp_path: Path) -> None:
    scoring = CEILING + "  threshold: 1\n  gates: [{criterion: sharp, least: 10}, {criterion: kept, least: 5}]\n"
    path = written(tmp_path, scoring)
    [rubric], warnings = check_rubrics(path)
    assert rubric.name == "mine"
    assert warnings == []


def test_a_check_parses_a_rubric_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = yaml_files._parse_yaml

    def parse_and_note(text: str) -> Any:
        parsed.append(text)
        return parse(text)

    path = written(tmp_path, "  kind: weighted_mean\n")
    monkeypatch.setattr(yaml_files, "_parse_yaml", parse_and_note)
    assert check_rubric(path).warnings
    assert len(parsed) == 1
