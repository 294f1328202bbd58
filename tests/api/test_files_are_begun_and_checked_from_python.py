"""What `rubrics`, `styles`, `init`, `view`, `--format` and `compare --markdown` do, Python does too."""

from __future__ import annotations

import json
import re
import shlex
import threading
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.scripts import PATIENCE_S
from support.statistics import write_builds

import beholder
from beholder import Rubric, ScriptedJudge, UsageError

CarriedOut = Callable[[Sequence[str]], tuple[int, str, str]]
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"
ANSWER = {
    "criteria": {
        key: {"justification": WORDS, "score": 6}
        for key in ("unchanged_regions", "global_consistency", "identity_preservation")
    }
}


def printed(carried_out: CarriedOut, command: str) -> str:
    code, out, err = carried_out(shlex.split(command))
    assert (code, err) == (0, "")
    return out


def test_rubrics_and_styles_are_listed_and_shown(carried_out: CarriedOut) -> None:
    assert beholder.list_rubrics() == json.loads(printed(carried_out, "rubrics --json"))
    assert list(beholder.list_styles()) == json.loads(printed(carried_out, "styles --json"))
    assert beholder.show_rubric("edit").rstrip() == printed(carried_out, "rubrics show edit").rstrip()


def test_a_rubric_is_begun_and_checked(tmp_path: Path, carried_out: CarriedOut) -> None:
    path = beholder.new_rubric(tmp_path / "my-own")
    check = beholder.check_rubric(path)
    assert check.sound
    assert [rubric.name for rubric in check.rubrics] == ["my-own"]
    path.write_text(path.read_text("utf-8").replace("version:", "versoin:"), "utf-8")
    broken = beholder.check_rubric(path)
    assert not broken.sound
    code, out, _ = carried_out(["rubrics", "check", str(path), "--json"])
    assert (code, json.loads(out)) == (2, broken.to_dict())
    with pytest.raises(UsageError, match="exists already"):
        beholder.new_rubric(tmp_path / "my-own")
    with pytest.raises(UsageError, match="There is no rubric"):
        beholder.check_rubric("nothing-like-it")


def test_a_suite_is_begun(tmp_path: Path) -> None:
    path = beholder.init(tmp_path / "suite.yaml")
    assert "rubric:" in path.read_text("utf-8")
    with pytest.raises(UsageError, match="exists already"):
        beholder.init(path)


def test_a_verdict_as_card_and_in_the_seeds_format(pair: dict[str, Any]) -> None:
    verdict = beholder.judge("edit-preservation", judge=ScriptedJudge(ANSWER), **pair)
    assert "unchanged regions" in verdict.card().lower()
    assert "\x1b" not in verdict.card(full=True)
    rubric = Rubric.load("edit-preservation")
    assert list(verdict.to_seed(rubric)) == ["image_id", "online_factor_results"]
    measured = beholder.judge("edit-preservation", **pair)
    with pytest.raises(UsageError, match="seed format"):
        measured.to_seed(rubric)


@pytest.fixture
def pair(tmp_path: Path) -> dict[str, Any]:
    import cv2
    import numpy as np

    for name, value in (("before.png", 40), ("after.png", 200)):
        cv2.imwrite(str(tmp_path / name), np.full((80, 80, 3), value, np.uint8))
    return {
        "input": str(tmp_path / "before.png"),
        "edited": str(tmp_path / "after.png"),
        "instruction": "make it light",
    }


def test_a_comparison_as_markdown_and_junit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carried_out: CarriedOut
) -> None:
    monkeypatch.chdir(tmp_path)
    write_builds(tmp_path / "beholder.db")
    comparison = beholder.compare("whole", "lower")
    gate = comparison.gate()
    code, out, _ = carried_out(shlex.split("compare whole lower --fail-on regression --markdown - --junit gate.xml"))
    assert code == {"passed": 0, "failed": 1, "undecided": 4}[gate.status]
    assert out == comparison.to_markdown(gate)
    assert (tmp_path / "gate.xml").read_text("utf-8") == comparison.to_junit(gate)


def test_view_serves_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from beholder.web import server

    write_builds(tmp_path / "beholder.db")
    seen: list[str] = []

    def serve_once(app: object, listening: object, ready: Callable[[], None]) -> None:
        def visit() -> None:
            ready()
            url = re.search(r"http://\S+", capsys.readouterr().out)
            assert url

            def get() -> None:
                seen.append(urllib.request.urlopen(url[0], timeout=PATIENCE_S).read().decode())
                running.should_exit = True

            threading.Thread(target=get, daemon=True).start()

        running = server._WebServer(app, visit)  # type: ignore[arg-type]  # as `serve` does
        running.run(sockets=[listening])  # type: ignore[list-item]

    monkeypatch.setattr(server, "serve", serve_once)
    beholder.view(tmp_path / "beholder.db", browser=False)
    assert "whole" in seen[0]
