"""A judge on a loopback server, and pairs of small images, for sessions."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from support.scripts import NOTICE_CTRL_C, PATIENCE_S

from beholder import Case
from beholder.testing.server import JudgeServer

KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"
ANSWER = {"criteria": {key: {"justification": WORDS, "score": 6} for key in KEYS}}


@pytest.fixture(autouse=True)
def _no_foreign_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(ANSWER, keyless=True) as server:
        yield server


@pytest.fixture
def held(server: JudgeServer) -> tuple[threading.Event, threading.Event]:
    """Holds answers back: the first event is set when a request has come, the second lets answers go.

    Answers after the first are slow: a program that was told to stop does so before it has asked for everything.
    """
    asked, go = threading.Event(), threading.Event()
    answer = server.default

    def hold(_: object) -> Any:
        if go.is_set():
            time.sleep(1)
        asked.set()
        go.wait(PATIENCE_S)
        return answer

    server.default = hold
    return asked, go


@pytest.fixture
def make_case(tmp_path: Path) -> Callable[[int], Case]:
    """Writes a pair of images that no other number has, and returns the case."""
    before = tmp_path / "before.png"
    cv2.imwrite(str(before), np.full((24, 32, 3), 128, np.uint8))

    def make(number: int) -> Case:
        image = np.full((24, 32, 3), 128, np.uint8)
        image[number % 24, :, :] = number % 251
        image[:, number % 32, 0] = number // 251
        after = tmp_path / f"after{number}.png"
        cv2.imwrite(str(after), image)
        return Case(f"c{number}", {"input": before, "edited": after}, {"instruction": "make it red"})

    return make


@pytest.fixture
def options(server: JudgeServer) -> dict[str, Any]:
    """Options of a judge on the server that measures nothing beside. A call costs about a dollar, at most two."""
    price, params = {"input": 1000, "output": 1000}, {"max_tokens": 200}
    return {"base_url": server.openai_url, "audit": False, "thumbnails": False, "price": price, "params": params}


@pytest.fixture
def run_script(tmp_path: Path, server: JudgeServer) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a script as a user would: a file without a guard, in the test's folder. `URL` is the server's address.

    One that is left over is killed, so that a test that failed breaks no other.
    """
    started: list[subprocess.Popen[str]] = []

    def run(text: str) -> subprocess.Popen[str]:
        script = tmp_path / "script.py"
        script.write_text(NOTICE_CTRL_C + text)
        process = subprocess.Popen(
            [sys.executable, str(script)],
            cwd=tmp_path,
            env={**os.environ, "URL": server.openai_url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()
