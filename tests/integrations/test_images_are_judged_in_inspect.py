"""Scorers and the task for inspect_ai, in the real package: columns, what has no score, finished logs, trio."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.host_projects import project_environment, reply_to
from support.host_scripts import KEYS, WORDS, write_pair
from support.hosts import python_host

from beholder import Rubric, Run, list_rubrics, list_runs
from beholder.testing.base import Received
from beholder.testing.server import JudgeServer

pytestmark = pytest.mark.slow

Result = subprocess.CompletedProcess[str]
RunPython = Callable[..., Result]

# Edits an image, as far as the evaluation can tell: what the model says is what the sample asks for.
EVALUATION = """
import base64, json
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageAssistant, ChatMessageUser, ChatCompletionChoice, ContentImage, ContentText, ModelOutput, ModelUsage,
    get_model,
)
from beholder.integrations.inspect import judge

def edit(input, tools, choice, config):
    asked = input[-1].text
    made = [] if "nothing" in asked else [ContentImage(image="../private.png" if "outside" in asked else AFTER)]
    message = ChatMessageAssistant(content=[ContentText(text="here"), *made])
    usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return ModelOutput(model="mock", choices=[ChatCompletionChoice(message=message)], usage=usage)

AFTER = "data:image/png;base64," + base64.b64encode(open("after.png", "rb").read()).decode()

def sample(what):
    content = [ContentText(text=f"make it {what}"), ContentImage(image="before.png")]
    return Sample(input=[ChatMessageUser(content=content)], id=what, target="x", metadata={"photo": "../private.png"})

def run(whats, log_images=True, model="mockllm/model", **arguments):
    arguments = {"judge": "openai:m", **arguments}
    images = arguments.pop("images", {"input": "user[0]", "edited": "output[0]"})
    scorer = judge("edit-preservation", images=images, **arguments)
    model = get_model(model, custom_outputs=edit, memoize=False)
    task = Task(dataset=[sample(one) for one in whats], scorer=scorer)
    [log] = eval(task, model=model, display="none", log_images=log_images, log_dir="logs", log_format="json")
    assert log.status == "success", log.error
    print("LOG", log.location)
"""


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(reply_to, keyless=True) as server:
        yield server


@pytest.fixture(scope="session")
def python() -> Path:
    return python_host("inspect", "inspect-ai==0.3.285")


@pytest.fixture
def run_python(tmp_path: Path, server: JudgeServer, python: Path) -> RunPython:
    """Runs the interpreter that has inspect_ai, in a folder with photographs."""
    write_pair(tmp_path)

    def run(*arguments: str, cwd: str = ".", **environment: str) -> Result:
        return subprocess.run(
            [python, *arguments],
            cwd=tmp_path / cwd,
            env=project_environment(server, HOME=str(tmp_path), XDG_DATA_HOME=str(tmp_path), **environment),
            capture_output=True,
            text=True,
            timeout=300,
        )

    return run


def read_log(path: str | Path) -> dict[str, Any]:
    """Return of a log its columns, how many samples have a score and how many have none, and the scores by sample."""
    log = json.loads(Path(path).read_text("utf-8"))
    assert log["status"] == "success", log
    results = log["results"]["scores"]
    return {
        "mean": {one["name"]: one["metrics"]["mean"]["value"] for one in results},
        "counts": {(one["scored_samples"], one["unscored_samples"]) for one in results},
        "scores": {one["id"]: next(iter(one["scores"].values())) for one in log["samples"]},
    }


def evaluate(run_python: RunPython, *calls: str, **environment: str) -> list[str]:
    """Return the places of the logs of calls of `run`."""
    body = "\n".join(f"run({call})" for call in calls)
    result = run_python("-c", f"{EVALUATION}\n{body}", **environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return [line.removeprefix("LOG ") for line in result.stdout.splitlines() if line.startswith("LOG ")]


class TestALiveTask:
    @pytest.mark.parametrize("backend", ["asyncio", "trio"])
    def test_has_a_column_for_each_criterion_and_leaves_out_what_has_no_score(
        self, run_python: RunPython, server: JudgeServer, tmp_path: Path, backend: str
    ) -> None:
        [log] = evaluate(run_python, "['6', '4', 'refused', 'nothing'], ledger='l.db'", INSPECT_ASYNC_BACKEND=backend)
        said = read_log(log)
        assert set(said["mean"]) == {"score", *KEYS}
        assert said["mean"]["score"] == pytest.approx((5 / 6 + 3 / 6) / 2)
        assert said["mean"]["unchanged_regions"] == 5
        assert said["counts"] == {(2, 2)}
        assert len(server.received) == 3

        scores = said["scores"]
        assert scores["refused"]["reason"] == "grader_failed"
        assert scores["refused"]["explanation"].startswith("**No score**: refused")
        assert scores["nothing"]["reason"] == "scoring_failed"
        assert "The image 'edited' should be output[0], and there are 0 in" in scores["nothing"]["explanation"]
        assert "| unchanged regions | 4 of 7 | the wall behind the car" in scores["4"]["explanation"]
        assert "base64" not in json.dumps(scores)

        [record] = list_runs(tmp_path / "l.db")
        kept = scores["6"]["metadata"]["beholder"]
        assert (kept["run"], kept["judge"]) == (record.id, "openai:m")
        assert [one["role"] for one in kept["images"]] == ["input", "edited"]
        run = Run.load(record.id, tmp_path / "l.db")
        assert sorted(one.case for one in run.verdicts()) == [f"mockllm/model/{name}" for name in ("4", "6", "refused")]

    def test_keeps_its_budget(self, run_python: RunPython, server: JudgeServer) -> None:
        call = "['1', '2', '3'], budget=0.02, options={'price': {'input': 10, 'output': 10}}"
        [log] = evaluate(run_python, call)
        said = read_log(log)
        assert said["counts"] == {(0, 3)}
        for one in said["scores"].values():
            assert one["reason"] == "scoring_failed"
            assert "over\\_budget" in one["explanation"]
        assert not server.received

    def test_names_no_file_from_elsewhere(self, run_python: RunPython, server: JudgeServer, tmp_path: Path) -> None:
        (tmp_path / "project").mkdir()
        (tmp_path / "private.png").write_bytes((tmp_path / "after.png").read_bytes())
        for name in ("before.png", "after.png"):
            (tmp_path / name).rename(tmp_path / "project" / name)
        places = ("'input': 'user[0]', 'edited': 'output[0]'", "'input': 'user[0]', 'edited': 'metadata.photo'")
        closed = [f"['outside'], images={{{one}}}" for one in places]
        logs = evaluate(run_python, *closed, *(f"{one}, roots='..'" for one in closed), cwd="project")
        assert len(logs) == 4
        for log in logs[:2]:
            [score] = read_log(log)["scores"].values()
            assert score["reason"] == "scoring_failed"
            assert (
                "not below the folders that are open to images of an output (roots of the scorer)"
                in (score["explanation"])
            )
        for log in logs[2:]:
            assert read_log(log)["mean"]["score"] == pytest.approx(5 / 6)

    def test_wrong_use_is_said_before_anything_is_asked_and_a_criterion_called_score_hides_no_number(
        self, run_python: RunPython, server: JudgeServer, tmp_path: Path
    ) -> None:
        keys = ("score", "passed", "light")
        criteria = [{"key": key, "question": "Is it good?", "scale": [1, 7]} for key in keys]
        own = {"rubric": "own", "images": [{"role": "photo", "label": "P"}], "criteria": criteria}
        (tmp_path / "own.yaml").write_text(json.dumps({**own, "scoring": {"threshold": 0.9}}))
        of_own = f"""
import beholder
from beholder.integrations.inspect import _to_score
answer = {{"criteria": {{key: {{"reason": {WORDS!r}, "score": 4}} for key in {keys}}}}}
rubric = beholder.Rubric.load("own.yaml")
verdict = beholder.judge(rubric, photo="before.png", judge=beholder.ScriptedJudge(answer))
print(json.dumps(_to_score(verdict, rubric, None).value))
"""
        calls = ("images={'inptu': 'user[0]'}", "images={'input': 'first'}", "judge='anthropic:m'", "budget='much'")
        tries = [f"run(['6'], {call})" for call in calls] + ["judge('edit')", "judge()"]
        caught = "except Exception as error:\n    print(type(error).__name__, error)"
        body = "\n".join(f"try:\n    {one}\n{caught}" for one in tries)
        names = "from beholder.integrations.inspect import RUBRICS\nprint(json.dumps(RUBRICS))"
        result = run_python("-c", f"{EVALUATION}\n{body}\n{names}\n{of_own}", ANTHROPIC_API_KEY="")
        *lines, listed, value = result.stdout.splitlines()
        assert [line.partition(" ")[0] for line in lines] == ["PrerequisiteError"] * 6, result.stdout + result.stderr
        for line, part in zip(
            lines,
            (
                "'inptu', which this rubric does not take; did you mean 'input'?",
                "images says that input is 'first'; say user[0]",
                "ANTHROPIC_API_KEY",
                "budget is a number of US dollars",
                "'edit' stands for several rubrics",
                "Say by which rubric: -S rubric=NAME",
            ),
            strict=True,
        ):
            assert part in line
        assert not server.received
        assert sorted(json.loads(listed)) == sorted(set(list_rubrics()) - {"edit"})  # all but the family
        assert json.loads(value) == {"score": 0.5, "passed": 0, "score.score": 4, "passed.score": 4, "light": 4}


class TestAFinishedLog:
    SCORE = ("-m", "inspect_ai", "score", "--action", "overwrite", "--overwrite", "--display", "plain")

    def test_is_scored_by_name_if_it_has_its_images(self, run_python: RunPython, server: JudgeServer) -> None:
        offline = "judge=None"  # the instruments
        whole, bare = evaluate(run_python, f"['6', '4'], {offline}", f"['6'], {offline}, log_images=False")
        assert not server.received
        by_name = ("--scorer", "beholder/edit-preservation", "-S", "judge=openai:m")
        done = run_python(*self.SCORE, whole, *by_name, "-S", "images=input=user[0],edited=output[0]")
        assert done.returncode == 0, done.stdout + done.stderr
        said = read_log(whole)
        assert said["mean"]["unchanged_regions"] == 5
        assert said["counts"] == {(2, 0)}
        assert len(server.received) == 2

        by_rubric = ("--scorer", "beholder/judge", "-S", "rubric=edit-preservation", "-S", "judge=openai:m")
        places = 'images={"input": "user[0]", "edited": "output[0]"}'
        done = run_python(*self.SCORE, bare, *by_rubric, "-S", places)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "run the evaluation with --log-images" in read_log(bare)["scores"]["6"]["explanation"]
        assert len(server.received) == 2


class TestASuite:
    def test_is_a_task(self, run_python: RunPython, server: JudgeServer, tmp_path: Path) -> None:
        (tmp_path / "suite.yaml").write_text(
            "rubric: edit-preservation\ncases: cases.jsonl\njudges: [openai:m]\nthreshold: 0.8\n"
            "limits: {timeout_s: 30}\n"
        )
        rows = [{"input": "before.png", "edited": "after.png", "instruction": f"make it {n}", "id": n} for n in "64"]
        (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        command = ("-m", "inspect_ai", "eval", "beholder/suite", "-T", "suite=suite.yaml", "--model", "none")
        done = run_python(*command, "--display", "plain", "--log-dir", "logs", "--log-format", "json")
        assert done.returncode == 0, done.stdout + done.stderr
        [log] = (tmp_path / "logs").glob("*.json")
        said = read_log(log)
        assert said["mean"]["score"] == pytest.approx((5 / 6 + 3 / 6) / 2)
        assert said["mean"]["passed"] == 0.5
        assert {one["metadata"]["beholder"]["case"] for one in said["scores"].values()} == {
            "none/none/6",
            "none/none/4",
        }
        assert len(server.received) == 2

        gone = {**rows[0], "id": "gone", "edited": "gone.png"}
        (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows, gone]))
        again = run_python(*command, "--display", "plain", "--log-dir", "again", "--log-format", "json")
        assert again.returncode == 0, again.stdout + again.stderr
        said = read_log(next((tmp_path / "again").glob("*.json")))
        assert said["counts"] == {(2, 1)}
        assert "gone.png" in said["scores"]["gone"]["explanation"]

        (tmp_path / "after.png").unlink()
        broken = run_python(*command, "--display", "plain")
        assert broken.returncode != 0
        assert "after.png" in broken.stdout + broken.stderr
        assert "Traceback" not in broken.stdout + broken.stderr

    def test_has_sessions_of_its_own_beside_another_one(
        self, run_python: RunPython, server: JudgeServer, tmp_path: Path
    ) -> None:
        """Several rubrics and a budget; the tasks with a ledger go on with one run, and disturb nobody."""
        rubrics = [Rubric.load(f"edit-{name}") for name in ("preservation", "quality", "fidelity")]
        known = [[one.key for one in rubric.criteria] for rubric in rubrics]

        def answer(received: Received) -> dict[str, object]:
            [asked] = [keys for keys in known if all(key in (received.system or "") for key in keys)]
            return {"criteria": {key: {"justification": WORDS, "score": 6} for key in asked}}

        server.default = answer
        price = {"input": 1, "output": 1}
        suite = {"rubric": "edit", "cases": "cases.jsonl", "budget": 1}
        (tmp_path / "suite.yaml").write_text(json.dumps({**suite, "judges": [{"judge": "openai:m", "price": price}]}))
        rows = [{"input": "before.png", "edited": "after.png", "instruction": f"make it {n}", "id": n} for n in "64"]
        (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        body = """
from inspect_ai import eval
from beholder.integrations.inspect import suite
kept = {"ledger": "l.db", "name": "both"}
tasks = [suite("suite.yaml"), *(suite("suite.yaml", **kept) for _ in range(2))]
for log in eval(tasks, model="none", max_tasks=3, display="none", log_dir="logs", log_format="json"):
    print("LOG", log.location)
"""
        done = run_python("-c", body)
        assert done.returncode == 0, done.stdout + done.stderr
        logs = [line.removeprefix("LOG ") for line in done.stdout.splitlines() if line.startswith("LOG ")]
        assert len(logs) == 3
        for log in logs:
            scores = [
                one for sample in json.loads(Path(log).read_text())["samples"] for one in sample["scores"].values()
            ]
            assert [one["value"]["score"] for one in scores] == [pytest.approx(5 / 6)] * 6, scores
        [run] = list_runs(tmp_path / "l.db")
        assert run.name == "both"
        assert len(list(run.verdicts())) == 6
        assert len(server.received) == 12  # by the tasks with a ledger each case once
