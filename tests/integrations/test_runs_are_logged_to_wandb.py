"""Weights & Biases, the real one in offline mode: metrics, a table with images and empty cells, the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.host_scripts import answer_or_refuse, doc_example, run_script, write_pair
from support.hosts import python_host

from beholder.testing.server import JudgeServer

Run = Callable[..., Any]

JUDGED = """
import json, pathlib
import wandb, beholder as b
from beholder.integrations.trackers import log_run
cases = [{"id": id, "input": "before.png", "edited": image, "instruction": text} for id, image, text in (
    ("good", "after.png", "make it red"), ("refused", "after.png", "REFUSE this"), ("gone", "gone.png", "make it red"),
)]
with b.Session("openai:m", ledger="b.db", name="nightly") as session:
    assert len(list(session.judge_many("edit-preservation", cases))) == 3
    judged = session.run
def staged():
    # What waits to be uploaded: the table, and its images.
    files = [path.read_bytes() for path in pathlib.Path("data").rglob("staging/*")]
    table, *_ = [json.loads(one) for one in files if one.startswith(b'{"_type": "table"')]
    return [dict(zip(table["columns"], row)) for row in table["data"]], {one for one in files if one[1:4] == b"PNG"}
"""


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(answer_or_refuse, keyless=True) as server:
        yield server


@pytest.fixture(scope="module")
def python() -> Path:
    return python_host("wandb", "wandb")


@pytest.fixture
def run(python: Path, server: JudgeServer, tmp_path: Path) -> Run:
    write_pair(tmp_path)
    return lambda code, **more: run_script(
        python, code, tmp_path, server, WANDB_DATA_DIR=str(tmp_path / "data"), **more
    )


def test_a_run_is_logged_offline_beside_what_the_program_logs(run: Run) -> None:
    code = f"""{JUDGED}
with wandb.init(project="edits") as mine:
    assert log_run(judged, to="wandb") == mine.id
    summary = dict(mine.summary)
    config = dict(mine.config)
rows, pictures = staged()
print(json.dumps({{
    "metrics": {{name: value for name, value in summary.items() if isinstance(value, int | float)}},
    "judges": config["judges"],
    "rows": rows,
    "pictures": len(pictures),
}}))
"""
    found = run(code)
    metrics = found["metrics"]
    assert metrics["beholder/score"] == pytest.approx(5 / 6)  # of the one that has a score
    assert metrics["beholder/edit-preservation/unchanged_regions"] == 6
    assert (metrics["beholder/verdicts"], metrics["beholder/unscored"]) == (3, 2)
    assert "beholder/cost_usd" not in metrics  # nobody knows the price of this model
    assert found["judges"] == "openai:m"
    rows = {row["case"]: row for row in found["rows"]}
    assert list(rows)[2] == "good"  # worst first
    assert (rows["refused"]["score"], rows["refused"]["outcome"]) == (None, "refused")
    assert rows["gone"]["edited"] is None
    assert rows["good"]["edited"]["_type"] == "image-file"
    assert rows["good"]["unchanged_regions.score"] == 6
    assert found["pictures"] == 2


def test_the_command_makes_a_run_of_its_own(run: Run) -> None:
    code = f"""{JUDGED}
import subprocess, sys
told = subprocess.run([sys.executable, "-m", "beholder", "log", "nightly", "--to", "wandb", "--project", "edits",
    "--images", "1", "--ledger", "b.db"], capture_output=True, text=True)
assert told.returncode == 0, told.stderr
rows, _ = staged()
print(json.dumps([told.stdout, [row["input"] is None for row in rows]]))
"""
    said, without_images = run(code)
    assert said.startswith("logged to wandb: run ")
    assert sorted(without_images) == [False, True, True]


def test_the_example_of_the_docs_works(run: Run) -> None:
    example = doc_example("wandb.md", "log_run").replace("openai:gpt-5-mini", "openai:m")
    shown = 'import json, pathlib; print(len(list(pathlib.Path("wandb").glob("offline-run-*/*.wandb"))))'
    assert run(f"{example}\n{shown}") == 1
