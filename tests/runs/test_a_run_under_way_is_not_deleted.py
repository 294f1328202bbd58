"""A run that a process is working on is not deleted, from the command line or from Python; one that ended is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beholder import Ledger, Run, ScriptedJudge, Session, UsageError

PATIENCE_S = 120


@pytest.fixture
def delete(
    beholder: Callable[[list[str]], subprocess.CompletedProcess[str]], place: str
) -> Callable[[], subprocess.CompletedProcess[str]]:
    return lambda: beholder(["python", "-m", "beholder", "runs", "delete", "latest", "--yes", "--ledger", place])


def test_a_suite_that_is_run_by_another_process(
    cases: Callable[[int], Path],
    command: Callable[..., list[str]],
    delete: Callable[[], subprocess.CompletedProcess[str]],
    spawn: Any,
    held: Any,
    place: str,
) -> None:
    cases(4)
    process = spawn(command("--ledger", place))
    held.wait_until_asked(process)
    refused = delete()
    assert refused.returncode == 2
    assert "is under way in another process; wait for it, or stop it." in refused.stderr
    with pytest.raises(UsageError, match="is under way"):
        Run.load("latest", place).delete()
    held.go.set()
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said
    assert Run.load("latest", place).summary.outcomes == {"scored": 4}
    assert delete().returncode == 0


def answer() -> dict[str, Any]:
    keys = ("unchanged_regions", "global_consistency", "identity_preservation")
    return {"criteria": {key: {"justification": "as it was before", "score": 6} for key in keys}}


def test_a_session_that_is_in_use(
    cases: Callable[[int], Path], tmp_path: Path, delete: Callable[[], subprocess.CompletedProcess[str]], place: str
) -> None:
    cases(1)
    images = {"input": tmp_path / "before.png", "edited": tmp_path / "after0.png"}
    with Session(ScriptedJudge(say=lambda brief: answer()), ledger=place, options={"audit": False}) as session:
        session.judge("edit-preservation", **images, instruction="make it red")
        refused = delete()
        assert refused.returncode == 2
        assert f":{os.getpid()}, machine and process" in refused.stderr
        with pytest.raises(UsageError, match="is in use"):
            session.run.delete()
    assert delete().returncode == 0


USE_SESSION = """
import signal, sys
from beholder import ScriptedJudge, Session

KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
ANSWER = {"criteria": {key: {"justification": "as it was before", "score": 6} for key in KEYS}}
session = Session(ScriptedJudge(say=lambda brief: ANSWER), ledger=sys.argv[1], options={"audit": False})
session.judge("edit-preservation", input="before.png", edited="after0.png", instruction="make it red")
print("judged", flush=True)
signal.pause()
"""


def test_a_session_whose_process_was_killed_is_in_use_no_more(
    cases: Callable[[int], Path], tmp_path: Path, delete: Callable[[], subprocess.CompletedProcess[str]], place: str
) -> None:
    cases(1)
    line = [sys.executable, "-c", USE_SESSION, place]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "judged\n"
            assert delete().returncode == 2
        finally:
            process.kill()
    assert delete().returncode == 0
    with Ledger.open(place) as ledger:
        assert ledger.runs() == []
