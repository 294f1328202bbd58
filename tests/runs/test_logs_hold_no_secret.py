"""Logging: silent by default, runs at info, every request at debug; never a key, an image or what was asked."""

from __future__ import annotations

import base64
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from beholder import Case, ScriptedJudge, Session
from beholder.cli.app import configure_logging
from beholder.testing.base import Fault
from beholder.testing.server import JudgeServer

KEY = "sk-proj-Zq7PxT4mW9vRb2NcLk8sYd3H"
BASE64 = re.compile(r"[A-Za-z0-9+/=]{100,}")


@pytest.fixture(autouse=True)
def _silent_again() -> Iterator[None]:
    yield
    configure_logging(0)


@pytest.fixture
def log(
    tmp_path: Path,
    server: JudgeServer,
    cases: Callable[[int], Path],
    command: Callable[..., list[str]],
    beholder: Callable[[list[str]], subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., str]:
    """What a run of two cases says on stderr; the first request fails, and the second answer has to be repaired."""
    cases(2)
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setattr("beholder.providers.retry.FIRST_BACKOFF_S", 0.0)

    def run(*options: str) -> str:
        failed = Fault.status(500, f"no such key: {KEY}", headers={"x-request-id": f"req_{KEY}"})
        server.say(failed, {"criteria": {}, "echo": KEY})
        line = command("--key-variable", "MY_KEY", "--concurrency", "1", "--quiet")
        done = beholder([*line[:3], *options, *line[3:]])
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


def test_a_command_says_nothing_of_it_by_default(log: Any) -> None:
    assert log() == ""


def test_v_says_when_a_run_begins_and_ends(log: Any) -> None:
    begun, finished = log("-v").splitlines()
    assert re.fullmatch(r".* INFO beholder\.runs\.execution: run (\S+) begun: .*", begun)
    assert re.fullmatch(r".* INFO beholder\.runs\.execution: run (\S+) finished", finished)
    assert "resumed" in log("-v")


def test_vv_says_every_request_and_retry_and_no_secret(log: Any, tmp_path: Path, server: JudgeServer) -> None:
    told = log("-vv")
    requests = re.findall(
        r"openai:test: status (\d+) in [\d.]+ s, request (\S+), model (\S+), tokens (.*?), brief", told
    )
    assert [status for status, *_ in requests] == ["500", "200", "200", "200"]
    assert {model for _, _, model, _ in requests[1:]} == {"test-2025-08-07"}  # as the server names it
    assert requests[1][1] == "req_2"
    assert re.match(r"\d+ in, \d+ out", requests[1][3])
    assert re.search(r"no such key: \[key\].* Try 2 of 6 in", told)
    assert "case c0 by openai:test: scored" in told
    assert KEY[:12] not in told
    assert KEY[-8:] not in told
    assert not BASE64.search(told)
    for image in tmp_path.glob("*.png"):
        assert base64.b64encode(image.read_bytes())[:32].decode() not in told
    assert "make it red" not in told  # the instruction of the cases
    assert "mortar lines" not in told  # the answer


def test_v_goes_before_the_command(carried_out: Any) -> None:
    code, _, said = carried_out(["run", "-v"])
    assert code == 2
    assert "No such option" in said


@pytest.mark.parametrize(
    "module", ["providers.retry", "judges.model", "runs.ledger_access", "runs.case", "api.session"]
)
def test_a_library_is_silent_until_it_is_asked(module: str) -> None:
    code = f"import beholder.{module}, logging; logging.getLogger('beholder.{module}').error('no handler')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_program_that_configures_logging_gets_the_records(caplog: pytest.LogCaptureFixture, log: Any) -> None:
    caplog.set_level(logging.INFO)
    assert log() == ""
    assert [record.message for record in caplog.records if "begun" in record.message]


def test_the_run_of_a_session_is_logged_too(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.INFO)
    assert cv2.imwrite(str(tmp_path / "a.png"), np.full((8, 8, 3), 90, np.uint8))
    texts = {"input": "What?", "output": "A house.", "expected_output": "A house."}
    case = Case("c", images={"image": tmp_path / "a.png"}, fields=texts)
    for _ in range(2):
        with Session(ScriptedJudge("no JSON"), ledger=tmp_path / "ledger.db", name="s") as session:
            session.judge("description", case)
    told = [record.message.split(maxsplit=2)[2] for record in caplog.records if record.name.startswith("beholder")]
    assert told == ["begun: s", "finished", "resumed: s", "finished"]
