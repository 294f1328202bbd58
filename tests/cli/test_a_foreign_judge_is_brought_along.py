"""`examples/foreign-judge`: its commands run as they stand, and what a judge left out never becomes a number."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beholder.cli import EXIT_UNSCORED

EXAMPLE = Path(__file__).parents[2] / "examples" / "foreign-judge"
SHORT = "meadow/beta"
SCORE = "score answers.jsonl --rubric . --json"

Run = Callable[..., Any]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "foreign-judge"
    shutil.copytree(EXAMPLE, folder)
    monkeypatch.chdir(folder)
    return folder


def converted(desk: Path, *rows: dict[str, object]) -> list[dict[str, Any]]:
    """Verdicts on recorded rows, by way of the example's converter."""
    (desk / "recorded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    said = subprocess.run(
        [sys.executable, "answers.py", "recorded.jsonl"], capture_output=True, check=True, encoding="utf-8"
    )
    (desk / "answers.jsonl").write_text(said.stdout, "utf-8")
    return [json.loads(line) for line in said.stdout.splitlines()]


def row(aspect: str, scores: object, case: str = "c1") -> dict[str, object]:
    return {"case": case, "judge": "j", "aspect": aspect, "scores": scores}


def test_the_commands_of_the_readme_run(desk: Path, run: Run) -> None:
    block = re.search(r"```console\n(.*?)```", (desk / "README.md").read_text("utf-8"), re.DOTALL)
    assert block is not None
    printed: dict[str, str] = {}
    for line in block[1].splitlines():
        command, _, target = line.removeprefix("$ ").partition(" > ")
        words = shlex.split(command)
        if words[0] == "python":
            done = subprocess.run([sys.executable, *words[1:]], capture_output=True, check=True, encoding="utf-8")
            told = done.stdout
        else:
            shown = run(*words[1:])
            told = shown.out
            assert shown.code == (EXIT_UNSCORED if words[1] == "score" else 0), shown.err
        printed[words[1]] = told
        if target:
            (desk / target).write_text(told, "utf-8")
    assert f"1 case, {SHORT} (invalid" in " ".join(printed["agree"].split())
    saved = json.loads((desk / "people.json").read_text("utf-8"))
    assert set(saved["aspects"]) == {"PQ"}
    assert "PQ, calibrated" in printed["score"]


@pytest.mark.parametrize(
    "scores", [[7], 7, [], [7, None], [7, 11], [7, -1], [7, 8, 9], [True, 7], ["high", 7], [float("nan"), 7]]
)
def test_a_broken_row_is_invalid(scores: object, desk: Path, run: Run) -> None:
    converted(desk, row("SC", scores), row("PQ", [5, 6]))
    shown = run(SCORE)
    assert shown.code == EXIT_UNSCORED
    verdict = json.loads(shown.out)
    assert verdict["outcome"] == "invalid"
    assert verdict["score"] is None
    assert not verdict["criteria"]


def test_a_whole_row_is_scored_as_it_was_recorded(desk: Path, run: Run) -> None:
    converted(desk, row("SC", [8.5, 9]), row("PQ", [0, 10]))
    shown = run(SCORE)
    assert shown.code == 0
    criteria = json.loads(shown.out)["criteria"]
    found = {key: one["score"] for key, one in criteria.items()}
    assert found == {"edit_success": 8.5, "over_editing": 9, "naturalness": 0, "artefacts": 10}


def test_judges_and_cases_are_kept_apart(desk: Path) -> None:
    other = row("SC", [1, 2]) | {"judge": "k"}
    answers = converted(desk, row("SC", [8, 9]), other, row("SC", [3, 4], "c2"), row("PQ", [5, 6]))
    assert [(one["case"], one["judge"]) for one in answers] == [("c1", "j"), ("c1", "k"), ("c2", "j")]
    assert [len(one["answer"]["criteria"]) for one in answers] == [4, 2, 2]


def test_a_short_answer_keeps_what_it_has_for_calibrations_only(desk: Path, run: Run) -> None:
    """`meadow/beta` lacks `artefacts`, which `PQ` needs and `SC` does not."""
    rows = [json.loads(line) for line in (desk / "recorded.jsonl").read_text("utf-8").splitlines()]
    converted(desk, *rows)
    verdicts = run(SCORE).out
    (desk / "verdicts.jsonl").write_text(verdicts, "utf-8")
    [short] = [one for one in map(json.loads, verdicts.splitlines()) if one["outcome"] == "invalid"]
    assert (short["case"], short["criteria"], short["score"]) == (SHORT, {}, None)
    assert set(short["valid_criteria"]) == {"edit_success", "over_editing", "naturalness"}
    assert all("valid_criteria" not in one for one in map(json.loads, verdicts.splitlines()) if one["criteria"])
    given = "--scores verdicts.jsonl --ratings ratings.csv --cases cases.csv"
    given += " --map SC=min(edit_success,over_editing) --map PQ=min(naturalness,artefacts) --draws 200"
    learned = json.loads(run(f"calibrate {given} --try offset --anyway --json").out)["aspects"]
    assert {one["aspect"]: one["cases"] for one in learned} == {"SC": 40, "PQ": 39}
    agreed = json.loads(run(f"agree {given} --json").out)["agreements"][0]["criteria"]
    assert [one["cases"] for one in agreed] == [39, 39]
