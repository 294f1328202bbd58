"""MLflow, the real one with a store in a file: what is logged of a run, and the scorer, which has no zero for a missing
score."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.host_scripts import WORDS, answer_or_refuse, doc_example, run_script, write_pair
from support.hosts import python_host

from beholder.testing.server import JudgeServer

Run = Callable[..., Any]

HEAD = """
import json, mlflow, beholder as b
mlflow.set_tracking_uri("sqlite:///mlflow.db")
"""
JUDGED = (
    HEAD
    + """
cases = [{"id": id, "input": "before.png", "edited": image, "instruction": text} for id, image, text in (
    ("good", "after.png", "make it red"), ("refused", "after.png", "REFUSE this"), ("gone", "gone.png", "make it red"),
)]
with b.Session("openai:m", ledger="b.db", name="nightly") as session:
    assert len(list(session.judge_many("edit-preservation", cases))) == 3
    judged = session.run
"""
)
LOGGED = """
def logged(run):
    data, info = mlflow.get_run(run).data, mlflow.get_run(run).info
    table = mlflow.MlflowClient().load_table(info.experiment_id, "verdicts.json", [run])
    files = {one.path for one in mlflow.MlflowClient().list_artifacts(run)}
    return {
        "metrics": data.metrics, "tags": data.tags, "files": sorted(files),
        "table": json.loads(table.to_json(orient="records")),
    }
"""


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(answer_or_refuse, keyless=True) as server:
        yield server


@pytest.fixture(scope="module")
def python() -> Path:
    return python_host("mlflow", "mlflow-skinny", "alembic", "pandas")


@pytest.fixture
def run(python: Path, server: JudgeServer, tmp_path: Path) -> Run:
    write_pair(tmp_path)
    return lambda code, **more: run_script(python, code, tmp_path, server, **more)


def test_a_run_is_logged_from_python_and_by_the_command(run: Run) -> None:
    code = f"""{JUDGED}{LOGGED}
import subprocess, sys
from beholder.integrations.trackers import log_run
with mlflow.start_run() as mine:
    assert log_run(judged, to="mlflow") == mine.info.run_id
command = [sys.executable, "-m", "beholder", "log", "nightly", "--to", "mlflow", "--project", "edits", "--images", "1"]
told = subprocess.run([*command, "--ledger", "b.db"], capture_output=True, text=True)
assert told.returncode == 0, told.stderr
print(json.dumps([logged(mine.info.run_id), logged(told.stdout.split()[-1])]))
"""
    by_python, by_command = run(code, MLFLOW_TRACKING_URI="sqlite:///mlflow.db")
    metrics = by_python["metrics"]
    assert metrics["score"] == pytest.approx(5 / 6)  # of the one that has a score
    assert metrics["edit-preservation/unchanged_regions"] == 6
    assert (metrics["verdicts"], metrics["unscored"]) == (3, 2)
    assert (metrics["outcomes/refused"], metrics["outcomes/unreadable"]) == (1, 1)
    assert "cost_usd" not in metrics  # nobody knows the price of this model
    assert by_python["tags"]["beholder.judges"] == "openai:m"
    assert {"report.html", "verdicts.json"} <= set(by_python["files"])
    rows = {row["case"]: row for row in by_python["table"]}
    assert rows.keys() == {"refused", "good", "gone"}
    assert (rows["refused"]["score"], rows["refused"]["outcome"]) == (None, "refused")
    assert rows["gone"]["edited"] is None
    assert rows["good"]["edited"]["type"] == "image"
    assert rows["good"]["unchanged_regions.score"] == 6
    assert [row["case"] for row in by_command["table"] if row["input"] is not None] == ["refused"]  # the worst one


def test_two_runs_are_logged_into_one(run: Run) -> None:
    code = f"""{JUDGED}{LOGGED}
from beholder.integrations.trackers import log_run
price = {{"price": {{"input": 1, "output": 1}}}}
with b.Session("openai:m", ledger="b.db", name="priced", samples=2, options=price) as session:
    assert session.judge("edit-preservation", **{{key: one for key, one in cases[0].items() if key != "id"}})
    other = session.run
with mlflow.start_run() as mine:
    mlflow.set_tag("judges", "mine")
    for one in (judged, other):
        log_run(one, to="mlflow")
print(json.dumps([logged(mine.info.run_id), judged.id, other.id, float(other.spent_usd)]))
"""
    found, first, second, spent = run(code)
    assert first != second
    assert (found["tags"]["beholder.run"], found["tags"]["beholder.name"]) == (second, "priced")
    assert found["tags"]["judges"] == "mine"
    assert spent > 0
    assert found["metrics"]["cost_usd"] == pytest.approx(spent)
    assert found["metrics"]["verdicts"] == 1
    assert len(found["table"]) == 3 + 1


def test_the_scorer_has_an_error_and_no_value_where_there_is_no_score(run: Run) -> None:
    code = f"""{HEAD}
import beholder.integrations.mlflow as bm
rows = [("after.png", "make it red"), ("after.png", "REFUSE this"), ("gone.png", "make it red")]
rows += [("after.png", f"make it {{n}}") for n in range(6)]  # in parallel
data = [{{"inputs": {{"input": "before.png", "instruction": text}}, "outputs": image}} for image, text in rows]
with b.Session("openai:m") as session:
    result = mlflow.genai.evaluate(data=data, scorers=[
        bm.scorer("edit-preservation", session=session, threshold=0.5),
        bm.scorer("edit-preservation", session=session, criterion="unchanged_regions"),
    ])
spent = bm.scorer("edit-preservation", judge="openai:m", budget=1e-9, options={{"price": {{"input": 1, "output": 1}}}})
[feedback] = [spent.run(inputs={{**data[0]["inputs"]}}, outputs={{"edited": "after.png"}})]
[asked] = result.result_df.loc[result.result_df["edit-preservation/value"] > 0, "assessments"].head(1)
print(json.dumps({{
    "metrics": {{name: float(value) for name, value in result.metrics.items()}},
    "values": json.loads(result.result_df["edit-preservation/value"].to_json(orient="values")),
    "errors": json.loads(result.result_df["edit-preservation/error_message"].to_json(orient="values")),
    "spent": [feedback.value, feedback.error.error_code, feedback.source.source_id],
    "assessment": next(one for one in asked if one["assessment_name"] == "edit-preservation"),
}}, default=str))
"""
    found = run(code)
    assert found["metrics"]["edit-preservation/mean"] == pytest.approx(5 / 6)
    assert found["metrics"]["edit-preservation.unchanged_regions/mean"] == 6
    assert sorted(value is None for value in found["values"]) == [False] * 7 + [True] * 2
    errors = [error for error in found["errors"] if error]
    assert len(errors) == 2
    assert any(error.startswith("refused") for error in errors)
    assert any("gone.png" in error for error in errors)
    assert found["spent"] == [None, "over_budget", "openai:m"]
    assert found["assessment"]["source"]["source_type"] == "LLM_JUDGE"
    assert WORDS in found["assessment"]["rationale"]


def test_wrong_use_is_a_sentence(run: Run) -> None:
    code = f"""{HEAD}
import beholder.integrations.mlflow as bm
from beholder.integrations.trackers import log_run
def said(make):
    try: make()
    except b.UsageError as error: return str(error)
session = b.Session()
print(json.dumps([
    said(lambda: bm.scorer("edit-preservation", criterion="beauty")),
    said(lambda: bm.scorer("edit")),
    said(lambda: bm.scorer("edit-preservation", session=session, samples=3)),
    said(lambda: bm.scorer("edit-preservation", session=session).run(inputs={{}}, outputs="after.png")),
    said(lambda: log_run(None, to="tensorboard")),
    said(lambda: bm.scorer("edit-preservation", session=session).run(
        inputs={{"input": "before.png", "instruction": "x"}}, outputs="/etc/hostname")),
    *(said(lambda: bm.scorer("edit-preservation", session=session).run(
        inputs={{"input": "before.png", "instruction": "x"}}, outputs=outputs)) for outputs in (
        {{"edited": {{"path": "/etc/hostname"}}}}, {{"edited": [{{"path": "/etc/hostname"}}]}},
        [{{"path": "/etc/hostname"}}])),
    said(lambda: bm.scorer("edit-preservation", session=session).run(
        inputs={{"input": "before.png", "instruction": "x"}}, outputs={{"edited": {{"file": "after.png"}}}})),
    said(lambda: log_run(judged, to="mlflow")),
    said(lambda: bm.scorer("edit-preservation", session=session, threshold=8)),
    said(lambda: bm.scorer("edit-preservation", criterion="unchanged_regions", threshold=6)),
    said(lambda: bm.scorer("description", threshold=0.5, options={{"gates": ["hallucinations"]}})),
    said(lambda: bm.scorer("description", options={{"gates": ["hallucinations"]}})),
]))
"""
    code = code.replace(
        "def said(", JUDGED.removeprefix(HEAD) + 'mlflow.set_tracking_uri("http://127.0.0.1:9")\ndef said('
    )
    criterion, family, both, unclear, tracker, *outside, unknown, gone, threshold, stars, gated, open_ = run(
        code, MLFLOW_HTTP_REQUEST_MAX_RETRIES="0"
    )
    assert "no criterion 'beauty'; it has unchanged_regions" in criterion
    assert "edit-quality" in family
    assert "either it or them" in both
    assert "output=" in unclear
    assert "mlflow or wandb, not to 'tensorboard'" in tracker
    assert len(outside) == 4
    for one in outside:
        assert "not below the folders that are open to images of an output (`roots` of the scorer)" in one
    assert unknown.startswith("The image 'edited' is a dict with 'file'; ")
    assert gone.startswith("MLflow did not take the run: ")
    assert "127.0.0.1" in gone
    assert threshold == "threshold: the value goes from 0 to 1, and 8 is not in it."
    assert stars is None
    assert "compares nothing but the score, and description has gates" in gated
    assert "(hallucinations)" in gated
    assert open_ is None


@pytest.mark.parametrize(("containing", "printed"), [("log_run", "[1]"), ("genai.evaluate", "[0.833]")])
def test_the_examples_of_the_docs_work(run: Run, containing: str, printed: str) -> None:
    example = doc_example("mlflow.md", containing)
    # For the example the loopback server is OpenAI's own: the price list knows its models.
    own = "import os, beholder.providers.openai as o"
    own += "; object.__setattr__(o.PROVIDER, 'base_url', os.environ['OPENAI_BASE_URL'])"
    shown = {
        "log_run": "print([int(mlflow.get_run(mlflow.last_active_run().info.run_id).data.metrics['verdicts'])])",
        "genai.evaluate": "print([round(float(value), 3) for value in result.metrics.values()])",
    }[containing]
    assert run(f"{HEAD}\n{own}\n{example}\n{shown}", OPENAI_API_KEY="k") == json.loads(printed)
