"""The command line, run in this process through its real entry point."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pytest

from beholder.testing.server import JudgeServer


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Run = Callable[..., Done]
CarriedOut = Callable[[Sequence[str]], tuple[int, str, str]]


@pytest.fixture
def run(carried_out: CarriedOut, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run("judge restyle a.jpg b.png")`, or the arguments one by one."""
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> Done:
        words = shlex.split(arguments[0]) if len(arguments) == 1 else list(arguments)
        return Done(*carried_out(words))

    return run


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(keyless=True) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with before.png, after.png and photo.jpg."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(7)
    before = cv2.GaussianBlur(random.integers(0, 255, (90, 120, 3), np.uint8), (7, 7), 3)
    after = before.copy()
    after[20:50, 30:70] = (40, 40, 200)
    for name, image in (("before.png", before), ("after.png", after), ("photo.jpg", before)):
        cv2.imwrite(str(tmp_path / name), image)
    return tmp_path


def factors(**scores: object) -> dict[str, object]:
    """An answer to edit-preservation."""
    words = "the brick wall behind the parked car shows exactly the same mortar lines and shading as it did before"
    keys = ("unchanged_regions", "global_consistency", "identity_preservation")
    return {"criteria": {key: {"justification": words, "score": scores.get(key, 6)} for key in keys}}


@pytest.fixture
def answer() -> Callable[..., dict[str, object]]:
    return factors
