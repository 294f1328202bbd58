"""The assertion for promptfoo, in its real command line: images from every place, what has no score, one budget."""

from __future__ import annotations

import base64
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.host_projects import PRICED, project_environment, reply_to
from support.host_scripts import WORDS, write_pair
from support.hosts import node_host

import beholder
from beholder import UsageError, init, list_runs
from beholder.integrations.promptfoo import get_assert
from beholder.testing.server import JudgeServer

# What the tests say in `made` is how the image comes back.
PROVIDER = """
import fs from "node:fs";
export default class {
  id() { return "edit"; }
  async callApi(prompt, context) {
    const data = fs.readFileSync("after.png").toString("base64");
    switch (context.vars.made) {
      case "text": return { output: `Here it is: ![edited](data:image/png;base64,${data})` };
      case "list":
        return { output: "done", images: [{ data: "data:image/png;base64," + data, mimeType: "image/png" }] };
      case "path": return { output: "after.png" };
      default: return { output: "I made nothing." };
    }
  }
}
"""
PRICE = {"input": 10, "output": 10}


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(reply_to, keyless=True) as server:
        yield server


@pytest.fixture(scope="session")
def programs() -> Path:
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    database = f"@libsql/{sys.platform}-{machine}{'-gnu' if sys.platform == 'linux' else ''}"
    return node_host("promptfoo", "promptfoo@0.121.20", f"{database}@0.5.29")  # the last for node 20


def evaluate(folder: Path, programs: Path, server: JudgeServer) -> dict[str, dict[str, Any]]:
    """Run the evaluation in a folder, and return its results by the description of the test."""
    environment = project_environment(
        server,
        PATH=f"{programs}{os.pathsep}{os.environ['PATH']}",
        HOME=str(folder),
        PROMPTFOO_CONFIG_DIR=str(folder / "promptfoo"),
        PROMPTFOO_PYTHON=sys.executable,
        PROMPTFOO_DISABLE_TELEMETRY="1",
        PROMPTFOO_DISABLE_UPDATE="1",
        PROMPTFOO_DISABLE_REMOTE_GENERATION="true",
    )
    done = subprocess.run(
        ["promptfoo", "eval", "--no-cache", "--no-table", "--no-progress-bar", "-j", "4", "-o", "out.json"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert (folder / "out.json").exists(), done.stdout + done.stderr
    results = json.loads((folder / "out.json").read_text("utf-8"))["results"]["results"]
    return {one["testCase"]["description"]: one for one in results}


def write_tests(folder: Path, tests: Mapping[str, Mapping[str, Any]]) -> None:
    """Begin with what `beholder init --promptfoo` writes, and put tests in: its variables, and changes of the
    assertion."""
    config = yaml.safe_load(init(folder / "promptfooconfig.yaml", promptfoo=True).read_text("utf-8"))
    [assertion] = config.pop("defaultTest")["assert"]
    assertion["config"] |= {"judge": "openai:m"}
    config["providers"] = ["file://edit.mjs"]
    config["tests"] = []
    for name, test in tests.items():
        changed = {key: value for key, value in test.items() if key in ("type", "threshold")}
        mine = {**assertion, **changed, "config": {**assertion["config"], **test.get("config", {})}}
        given = {"photo": "file://before.png", "made": test.get("made", "path"), "instruction": test["instruction"]}
        config["tests"].append({"description": name, "vars": given, "assert": [mine]})
    (folder / "promptfooconfig.yaml").write_text(yaml.safe_dump(config), "utf-8")
    (folder / "edit.mjs").write_text(PROVIDER)
    write_pair(folder)


def graded_by(result: Mapping[str, Any]) -> dict[str, Any]:
    """What the assertion said."""
    [graded] = result["gradingResult"]["componentResults"]
    return dict(graded)


@pytest.mark.slow
def test_an_evaluation_is_judged(tmp_path: Path, server: JudgeServer, programs: Path) -> None:
    one = {"budget": 0.003, "name": "edits-1", "options": PRICED}  # for whichever process is the first
    paid = {f"paid {number}": {"instruction": f"make it 6 for money {number}", "config": one} for number in range(4)}
    write_tests(
        tmp_path,
        {
            "in the text": {"made": "text", "instruction": "make it 6"},
            "in a list": {"made": "list", "instruction": "make it 6 again"},
            "too low": {"instruction": "make it 4"},
            "refused": {"instruction": "make it refused"},
            "refused, turned round": {"instruction": "make it refused", "type": "not-python"},
            "no image": {"made": "", "instruction": "make it 6"},
            **paid,
            "wrong": {"instruction": "make it 6", "config": {"jugde": "openai:m"}},
        },
    )
    results = evaluate(tmp_path, programs, server)

    for name in ("in the text", "in a list"):
        assert results[name]["success"], results[name]["gradingResult"]
        assert results[name]["score"] == pytest.approx(5 / 6)
        assert results[name]["namedScores"]["unchanged_regions"] == pytest.approx(5 / 6)
    assert list((tmp_path / "promptfoo" / "blobs").rglob("*"))  # where promptfoo put them before they were judged
    low = results["too low"]
    assert (low["success"], low["score"]) == (False, 0.5)
    assert "unchanged_regions 4 of 7: the wall behind the car" in low["gradingResult"]["reason"]

    for name, why in {
        "refused": "no score: refused",
        "no image": "no score: The image 'edited' should be output, and there are 0 in the output.",
        "wrong": "'jugde', which is no key of it; did you mean 'judge'?",
    }.items():
        assert not results[name]["success"]
        graded = graded_by(results[name])
        assert why in graded["reason"]
        assert graded["metadata"]["graderError"]
        assert not results[name]["namedScores"]
    [first] = [name for name in paid if results[name]["success"]]
    for name in paid.keys() - {first}:
        assert "no score: over_budget" in graded_by(results[name])["reason"]
    assert sum("for money" in " ".join(one.texts) for one in server.received) == 1
    turned = results["refused, turned round"]
    assert not turned["success"]
    assert "no score: refused" in turned["gradingResult"]["reason"]
    asked = {" ".join(one.texts).rpartition("make it ")[2].split()[0] for one in server.received}
    assert asked == {"6", "4", "refused"}
    names = {record.name for record in list_runs(tmp_path / "beholder.db")}
    assert len(names) == 2  # one for each setup, whatever processes asked


def context(assertion: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """What promptfoo hands over; `assertion` is what the assertion of ours says beside its configuration."""
    config: dict[str, Any] = {"rubric": "edit-preservation", "judge": "openai:m", "images": {"edited": "output"}}
    config["ledger"] = None
    config["options"] = {"audit": False, "thumbnails": False}  # which take most of the time
    if assertion is not None:
        more["test"] = {"assert": [{"type": "python", "config": config, **assertion}]}
    return {"vars": {"input": "before.png", "instruction": "make it red"}, "prompt": "x", "config": config, **more}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: JudgeServer) -> Path:
    write_pair(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_a_threshold_nothing_could_fail(folder: Path) -> None:
    result = get_assert("after.png", context())
    assert not result["pass"]
    assert "has no threshold, so nothing can fail" in result["reason"]
    assert result["metadata"]["graderError"]
    for other in ({"type": "latency", "threshold": 5000}, {"type": "assert-set", "threshold": 1, "assert": []}):
        beside = context({})
        beside["test"]["assert"].append(other)
        assert "has no threshold" in get_assert("after.png", beside)["reason"]
    of_set = context({})
    of_set["test"] = {"assert": [{"type": "assert-set", "threshold": 0.5, "assert": of_set["test"]["assert"]}]}
    assert get_assert("after.png", of_set)["pass"]
    own = context()
    own["config"]["threshold"] = 0.99
    failed = get_assert("after.png", own)
    assert not failed["pass"]
    assert "graderError" not in failed["metadata"]


@pytest.mark.parametrize("place", ["config", "assertion", "set"])
def test_each_criterion_passes_by_the_threshold_of_the_whole(folder: Path, place: str, server: JudgeServer) -> None:
    scores = {"unchanged_regions": 2, "global_consistency": 6, "identity_preservation": 6}
    criteria = {key: {"justification": WORDS, "score": score} for key, score in scores.items()}
    server.default = {"criteria": criteria}
    given = context({"threshold": 0.8} if place == "assertion" else {})
    if place == "config":
        given["config"]["threshold"] = 0.8
    if place == "set":
        given["test"] = {"assert": [{"type": "assert-set", "threshold": 0.8, "assert": given["test"]["assert"]}]}
    parts = get_assert("after.png", given)["componentResults"]
    assert [one["pass"] for one in parts] == [False, True, True]
    assert parts[0]["reason"].startswith("unchanged_regions 2 of 7")


def test_a_gate_that_failed_is_a_part_that_did_not_pass(folder: Path, server: JudgeServer) -> None:
    images = [{"role": "edited", "label": "The photograph"}]
    criteria = [{"key": key, "question": "Is it good?", "scale": [1, 7]} for key in ("light", "color")]
    own: dict[str, Any] = {"rubric": "own", "images": images, "criteria": criteria}
    own["scoring"] = {"gates": [{"criterion": "light", "least": 5}]}
    (folder / "own.yaml").write_text(json.dumps(own))
    server.default = {"criteria": {key: {"reason": WORDS, "score": 4} for key in ("light", "color")}}
    given = context()
    given["config"]["rubric"] = "own.yaml"
    result = get_assert("after.png", given)
    gate, *others = result["componentResults"]
    assert gate == {"pass": False, "score": 0, "reason": "gate light: 4 is below the least, 5"}
    assert [one["pass"] for one in others] == [True, True]
    assert not result["pass"]
    assert gate["reason"] in result["reason"]


def test_the_name_of_an_image_that_is_not_there_is_said(folder: Path) -> None:
    result = get_assert("nothere.png", context({"threshold": 0.5}))
    assert result["reason"].startswith("no score: ")
    assert result["reason"].endswith("nothere.png does not exist.")
    assert result["metadata"] == {"graderError": True}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"options": "x"}, "`options` of config of the assertion is a mapping by name, and 'x' is not."),
        ({"roots": 5}, "`roots` of config of the assertion is a folder or a list of folders, and 5 is not."),
        ({"roots": [5]}, "`roots` of config of the assertion is a folder or a list of folders, and [5] is not."),
        ({"ledger": 5}, "`ledger` of config of the assertion is a text, and 5 is not."),
        ({"name": 5}, "name is a text, and int is not."),
        ({"threshold": "high"}, "threshold: should be a number"),
        ({"budget": 1, "ledger": "b.db"}, "needs a ledger and a `name`"),
        ({"budget": 1, "name": "edits-1"}, "needs a ledger and a `name`"),  # there is none
    ],
)
def test_wrong_use_is_a_sentence(folder: Path, wrong: dict[str, Any], why: str) -> None:
    given = context()
    given["config"] |= wrong
    result = get_assert("after.png", given)
    assert why in result["reason"]
    assert result["metadata"]["graderError"]


def test_a_refusal_of_any_length_is_no_image(folder: Path) -> None:
    """One line of more than 255 bytes is no name that a file can have."""
    result = get_assert("I'm sorry, but I cannot edit this photograph because it shows a person. " * 6, context())
    assert "there are 0 in the output" in result["reason"]
    assert result["metadata"]["graderError"]


def test_every_form_of_an_output_is_one_image(folder: Path) -> None:
    data = base64.b64encode((folder / "after.png").read_bytes()).decode()
    said = context({"threshold": 0.1})
    bare = {**said, "providerResponse": {"images": [{"data": data, "mimeType": "image/png"}]}}
    outputs = [
        ("after.png", said),
        (f"file://{folder / 'after.png'}", said),
        (f"data:image/png;base64,{data}", said),
        ("look: ![it](after.png)", said),
        ("done", bare),
    ]
    images = [get_assert(output, given)["metadata"]["beholder"]["images"] for output, given in outputs]
    assert [one["role"] for one in images[0]] == ["input", "edited"]
    assert all(one == images[0] for one in images)


def test_the_text_of_an_output_names_no_file_from_elsewhere(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, server: JudgeServer
) -> None:
    elsewhere = tmp_path_factory.mktemp("private")
    write_pair(elsewhere)
    (folder / "link.png").symlink_to(elsewhere / "after.png")
    outside = str(elsewhere / "after.png")
    for output in (outside, f"file://{outside}", f"![it]({outside})", "link.png", f"../{elsewhere.name}/after.png"):
        refused = get_assert(output, context())
        assert "is not below the folders that are open to images of an output (`roots` of" in refused["reason"]
        assert refused["metadata"]["graderError"]
    assert not server.received
    opened = context({"threshold": 0.1})
    opened["config"]["roots"] = [str(elsewhere)]
    assert "graderError" not in get_assert(outside, opened)["metadata"]


def test_a_budget_is_not_given_twice_under_one_name(folder: Path, server: JudgeServer) -> None:
    first = context({"threshold": 0.1})
    first["config"] |= {"name": "edits-1", "budget": 1, "ledger": "b.db"}
    first["config"]["options"] |= {"price": PRICE}
    assert get_assert("after.png", first)["pass"]
    asked = len(server.received)
    stricter = {**first, "config": {**first["config"], "threshold": 0.9}}
    result = get_assert("after.png", stricter)
    assert "has a run 'edits-1' of another judge, number of samples or options" in result["reason"]
    assert "a budget is for one run: give this one another name" in result["reason"]
    assert result["metadata"]["graderError"]
    assert len(server.received) == asked
    assert len(list_runs("b.db")) == 1
    assert get_assert("after.png", first)["pass"]
    unlimited = {**stricter, "config": {key: one for key, one in stricter["config"].items() if key != "budget"}}
    assert "graderError" not in get_assert("after.png", unlimited)["metadata"]


def test_the_files_are_written_once(folder: Path) -> None:
    assert init(promptfoo=True) == Path("promptfooconfig.yaml")
    docs = Path(beholder.__file__).parents[2] / "docs" / "promptfoo.md"
    assert Path("promptfooconfig.yaml").read_text() in docs.read_text("utf-8")
    assert Path("beholder_assert.py").read_text() in docs.read_text("utf-8")
    assert Path("beholder_assert.py").read_text().count("\n") == 1
    Path("promptfooconfig.yaml").unlink()
    with pytest.raises(UsageError, match=r"'beholder_assert.py' exists already"):
        init(promptfoo=True)
    assert not Path("promptfooconfig.yaml").exists()
