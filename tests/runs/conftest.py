"""Small runs against a real server, in this process and in others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from support.postgres import Server

from beholder.testing.base import Received
from beholder.testing.server import JudgeServer

PATIENCE_S = 240
KEYS = ("unchanged_regions", "global_consistency", "identity_preservation")
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"


def answer(score: int = 6) -> dict[str, Any]:
    return {"criteria": {key: {"justification": WORDS, "score": score} for key in KEYS}}


@pytest.fixture
def good_answer() -> Callable[..., dict[str, Any]]:
    return answer


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(answer(), keyless=True) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A ledger that is not there yet, in a file and in PostgreSQL."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    server: Server = request.getfixturevalue("postgres")
    return server.database()


Spawn = Callable[[Sequence[str]], subprocess.Popen[str]]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Starts a process by its command line; one that is left over at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(line: Sequence[str]) -> subprocess.Popen[str]:
        started.append(subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


class HeldAnswers:
    """What the server was asked, and the event until which it holds its answers back."""

    def __init__(self) -> None:
        self.asked: list[Received] = []
        self.go = threading.Event()

    def wait_until_asked(self, process: subprocess.Popen[str]) -> None:
        """Wait until somebody asks, as long as this process lives."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.asked:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def held(server: JudgeServer) -> Iterator[HeldAnswers]:
    """Holds all answers back until `go` is set, at the latest at the end of the test."""
    held = HeldAnswers()

    def hold(request: Received) -> dict[str, Any]:
        held.asked.append(request)
        held.go.wait(PATIENCE_S)
        return answer()

    server.default = hold
    yield held
    held.go.set()


@pytest.fixture
def cases(tmp_path: Path) -> Callable[[int], Path]:
    """Writes a case file with so many cases, each with an edited image of its own."""

    def make(count: int) -> Path:
        base = np.full((24, 32, 3), 128, np.uint8)
        cv2.imwrite(str(tmp_path / "before.png"), base)
        lines = []
        for number in range(count):
            image = base.copy()
            image[number % 24, :, :] = number % 251
            image[:, number % 32, 0] = number // 251
            cv2.imwrite(str(tmp_path / f"after{number}.png"), image)
            lines.append(
                {
                    "id": f"c{number}",
                    "input": "before.png",
                    "edited": f"after{number}.png",
                    "instruction": "make it red",
                    "model": "ab"[number % 2],
                }
            )
        path = tmp_path / "cases.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        return path

    return make


@pytest.fixture
def command(tmp_path: Path, server: JudgeServer) -> Callable[..., list[str]]:
    """The command line of a run on the case file."""

    def make(*more: str) -> list[str]:
        return [
            *(sys.executable, "-m", "beholder", "run", "--rubric", "edit-preservation"),
            *("--cases", str(tmp_path / "cases.jsonl"), "--judge", "openai:test", "--base-url", server.openai_url),
            *("--ledger", str(tmp_path / "ledger.db"), "--no-thumbnails", "--no-audit", "--concurrency", "8", *more),
        ]

    return make


@pytest.fixture
def beholder(
    carried_out: Callable[[Sequence[str]], tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[str]], subprocess.CompletedProcess[str]]:
    """Carries out a command line of Beholder's in this process: for what is done and said, not for what kills it."""
    for variable in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(variable)

    def beholder(line: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(line, *carried_out(line[3:]))  # without `python -m beholder`

    return beholder


@pytest.fixture
def run(
    command: Callable[..., list[str]], beholder: Callable[[list[str]], subprocess.CompletedProcess[str]]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """That run, in this process."""
    return lambda *more: beholder(command(*more))
