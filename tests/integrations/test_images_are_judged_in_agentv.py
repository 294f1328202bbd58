"""The grader for AgentV, in its real command line and by itself: both contracts, images, what has no score."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.host_projects import PRICED, project_environment, reply_to
from support.host_scripts import KEYS, WORDS, write_pair
from support.hosts import node_host

import beholder
from beholder import JudgeUnavailable, UsageError, list_runs
from beholder.integrations.agentv import grade
from beholder.testing.server import JudgeServer

COMMAND = [sys.executable, "-m", "beholder", "grade", "agentv"]
BY = {"rubric": "edit-preservation", "judge": "openai:m"}


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(reply_to, keyless=True) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: JudgeServer) -> Path:
    write_pair(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
    return tmp_path


def case(instruction: str, config: object = None, **more: Any) -> dict[str, Any]:
    parts = [{"type": "text", "value": instruction}, {"type": "image", "media_type": "image/png", "path": "before.png"}]
    made = [{"type": "text", "text": "here"}, {"type": "image", "media_type": "image/png", "path": "after.png"}]
    return {
        "criteria": "x",
        "input": [{"role": "user", "content": parts}],
        "messages": [{"role": "assistant", "content": made}],
        "output": "here",
        "metadata": None,
        "config": {**BY, "ledger": None} if config is None else config,
        **more,
    }


@pytest.mark.slow
def test_an_evaluation_is_graded(folder: Path, server: JudgeServer) -> None:
    programs = node_host("agentv", "agentv@4.42.4")
    one = {"budget": 0.003, "config": {"name": "edits-1"}, "options": PRICED}  # for whichever process is the first
    paid = [f"paid-{number}" for number in range(4)]
    tests: dict[str, tuple[str, dict[str, Any]]] = {
        "good": ("make it 6", {}),
        "low": ("make it 4", {}),
        "refused": ("make it refused", {}),
        "missing": ("make it 6", {"images": {"edited": "output[1]"}}),
        "negated": ("make it refused", {"negate": True}),
        **{id_: (f"make it 6 for money {id_}", one) for id_ in paid},
    }
    target: dict[str, object] = {
        "name": "edit",
        "provider": "cli",
        "command": "bash -c 'echo after.png > {OUTPUT_FILE}'",
    }
    (folder / ".agentv").mkdir()
    (folder / ".agentv" / "targets.yaml").write_text(yaml.safe_dump({"targets": [{**target, "workers": 3}]}))
    content: list[dict[str, str]] = [{"type": "image", "value": "before.png"}]
    page = (Path(beholder.__file__).parents[2] / "docs" / "agentv.md").read_text("utf-8")
    evaluation = yaml.safe_load(page.partition("```yml\n")[2].partition("```")[0])
    [example] = evaluation["tests"]
    [assertion] = example["assertions"]
    assert assertion["command"] == ["beholder", "grade", "agentv"]
    evaluation["tests"] = [
        {
            **example,
            "id": id_,
            "input": [{"role": "user", "content": [{"type": "text", "value": said}, *content]}],
            "assertions": [{**assertion, "command": COMMAND, "judge": "openai:m", **more}],
        }
        for id_, (said, more) in tests.items()
    ]
    (folder / "edits.eval.yaml").write_text(yaml.safe_dump(evaluation))
    done = subprocess.run(
        ["agentv", "eval", "edits.eval.yaml", "--workers", "3"],
        cwd=folder,
        env=project_environment(server, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}", HOME=str(folder)),
        capture_output=True,
        text=True,
        timeout=500,
    )
    [index] = (folder / ".agentv" / "results").rglob("index.jsonl")
    rows = {row["test_id"]: row for row in map(json.loads, index.read_text("utf-8").splitlines())}
    assert set(rows) == set(tests), done.stdout + done.stderr

    def graded(id_: str) -> str:
        return json.dumps(rows[id_])

    assert rows["good"]["score"] == pytest.approx(5 / 6), graded("good")
    assert rows["low"]["score"] == pytest.approx(0.5), graded("low")
    assert "unchanged_regions 4 of 7" in graded("low")
    for id_, why in {
        "refused": "no score: refused",
        "missing": "The image 'edited' should be output[1], and there is 1 in the output.",
    }.items():
        assert rows[id_]["score"] == 0
        assert why in graded(id_)
    [first] = [id_ for id_ in paid if rows[id_]["score"]]
    for id_ in {*paid} - {first}:
        assert "no score: over_budget" in graded(id_)
    assert sum("for money" in " ".join(one.texts) for one in server.received) == 1
    # AgentV makes a pass of what could not be judged, and our program never learns of the key: so says docs/agentv.md.
    assert rows["negated"]["score"] == 1
    assert "no score: refused" in graded("negated")
    names = {record.name for record in list_runs(folder / "beholder.db")}
    assert len(names) == 2  # one for each setup, whatever processes asked
    assert "edits-1" in names


def test_an_answer_is_for_both_contracts(folder: Path) -> None:
    answer = grade(case("make it 6"))
    assert answer["score"] == pytest.approx(5 / 6)
    assert answer["pass"] is True
    assert [one["passed"] for one in answer["assertions"]] == [True, True, True]
    assert [one["id"] for one in answer["checks"]] == list(KEYS)
    assert answer["assertions"][0]["text"] == "unchanged_regions 6 of 7"
    assert "mortar" in answer["assertions"][0]["evidence"]
    low = grade(case("make it 4"))
    assert low["pass"] is False
    assert grade(case("make it 4", {**BY, "ledger": None, "threshold": 0.5}))["pass"] is True


def test_a_failed_gate_fails_the_case_though_agentv_looks_at_the_score_alone(folder: Path, server: JudgeServer) -> None:
    images = [{"role": "edited", "label": "The photograph"}]
    criteria = [{"key": key, "question": "Is it good?", "scale": [1, 7]} for key in ("light", "color")]
    gates = [{"criterion": "light", "least": 5}]
    own = {"rubric": "own", "images": images, "criteria": criteria, "scoring": {"gates": gates}}
    (folder / "own.yaml").write_text(json.dumps(own))
    config = {"rubric": "own.yaml", "judge": "openai:m", "ledger": None}

    def answer(light: int) -> dict[str, Any]:
        server.default = {"criteria": {"light": {"reason": WORDS, "score": light}, "color": {"reason": "", "score": 7}}}
        return grade(case("make it light", config))

    dark, light = answer(4), answer(5)
    assert (dark["score"], dark["pass"]) == (0, False)
    assert dark["details"]["beholder"]["score"] == pytest.approx(0.75)
    assert dark["reason"].endswith("0.75 by openai:m, gate light")
    [gate] = [one for one in dark["assertions"] if one["text"] == "gate light"]
    assert gate == {"text": "gate light", "passed": False, "evidence": "4 is below the least, 5"}
    assert light["score"] == pytest.approx(5 / 6)
    assert light["pass"] is True
    assert [one["id"] for one in light["checks"]] == ["light", "color"]


def test_the_threshold_is_that_of_the_rubric(folder: Path) -> None:
    rubric = beholder.Rubric.load("edit-preservation")
    assert rubric.scoring.threshold is None
    for threshold, passed in ((0.9, False), (0.4, True), (0, True)):
        answer = grade(case("make it 4", {**BY, "ledger": None, "options": {"threshold": threshold}}))
        assert answer["pass"] is passed
        assert [one["pass"] for one in answer["checks"]] == [passed] * 3
    lowest = grade(case("make it 4", {**BY, "ledger": None, "threshold": 0}))
    assert [one["pass"] for one in lowest["checks"]] == [True] * 3


def test_images_are_found_where_the_assertion_says(folder: Path, server: JudgeServer) -> None:
    own = {**BY, "ledger": None, "images": {"input": "metadata.photo", "edited": "workspace/after.png"}}
    more = {"metadata": {"photo": "before.png"}, "workspace_path": str(folder), "messages": [], "input": "make it 6"}
    answer = grade(case("", {**own, "fields": {"instruction": "criteria"}}, **more))
    usual = grade(case("make it 6"))
    assert answer["details"]["beholder"]["images"] == usual["details"]["beholder"]["images"]
    long: dict[str, Any] = {"messages": [], "output": None, "output_path": str(folder / "output.json")}
    (folder / "output.json").write_text(json.dumps("Here: ![edited](after.png)"))
    assert grade(case("make it 6", **long))["details"]["beholder"]["images"] == usual["details"]["beholder"]["images"]


def test_an_agent_names_no_file_from_elsewhere(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("private")
    write_pair(elsewhere)
    named: dict[str, Any] = {"messages": [], "output": str(elsewhere / "after.png")}
    with pytest.raises(UsageError, match=r"is not below the folders that are open to images of an output"):
        grade(case("make it 6", **named))
    (folder / "workspace").mkdir()
    (folder / "workspace" / "after.png").symlink_to(elsewhere / "after.png")
    of_workspace = {**BY, "ledger": None, "images": {"edited": "workspace/after.png"}}
    with pytest.raises(UsageError, match=r"is not below the folders that are open to images of an output"):
        grade(case("make it 6", of_workspace, workspace_path=str(folder / "workspace")))
    assert grade(case("make it 6", **named, workspace_path=str(elsewhere)))["score"]
    assert grade(case("make it 6", {**BY, "ledger": None, "roots": str(elsewhere)}, **named))["score"]


def test_cases_of_one_name_share_a_budget_whatever_starts_their_processes(
    folder: Path, server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**BY, "budget": 0.003, "options": PRICED}
    with pytest.raises(UsageError, match="`budget` of the assertion needs a ledger and a `name`"):
        grade(case("make it 6", config))
    config["name"] = "edits-1"
    assert grade(case("make it 6", config))["score"]
    monkeypatch.setattr(os, "getppid", lambda: 1)  # as behind `uv run`
    with pytest.raises(JudgeUnavailable, match="no score: over_budget"):
        grade(case("make it 6 again", config))
    assert [record.name for record in list_runs(folder / "beholder.db")] == ["edits-1"]


def test_what_has_no_score_is_an_error(folder: Path) -> None:
    with pytest.raises(JudgeUnavailable, match="no score: refused"):
        grade(case("make it refused"))
    for wrong, why in (
        (case("make it 6", {"judge": "openai:m"}), "the assertion needs a rubric"),
        (case("make it 6", {**BY, "jugde": 1}), "'jugde', which is no key of it; did you mean 'judge'"),
        (case("make it 6", messages=[], output=""), r"'edited' should be output\[0\], and there are 0 in the output"),
        (case("make it 6", {**BY, "images": {"edited": "here"}}), "each is input"),
        (case("make it 6", {**BY, "images": {"edited": "workspace/after.png"}}), "the case has none"),
    ):
        with pytest.raises(UsageError, match=why):
            grade(wrong)


@pytest.mark.parametrize("text", ["", "[]", '{"config": {}}', json.dumps(case("make it refused"))])
def test_a_failure_is_exit_1_with_a_sentence(folder: Path, server: JudgeServer, text: str) -> None:
    done = subprocess.run(COMMAND, input=text, env=project_environment(server), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("beholder: ")
    assert len(done.stderr.splitlines()) == 1
