"""The demo, made once for all tests, and its command run in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from beholder.demo import building
from beholder.demo.model import Chapter
from beholder.demo.photos import photos


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture(scope="session")
def made() -> tuple[Chapter, ...]:
    """All samples."""
    return building.made_of(photos())


@pytest.fixture
def quick(made: tuple[Chapter, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are not painted anew, which takes seconds."""
    monkeypatch.setattr(building, "made_of", lambda _: made)


@pytest.fixture
def folder(tmp_path: Path, quick: None) -> Path:
    """A folder with the demo in it."""
    building.build(tmp_path / "demo")
    return tmp_path / "demo"


@pytest.fixture
def run(
    carried_out: Callable[[Sequence[str]], tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, quick: None
) -> Run:
    """`run("demo", "folder")`, the command line in this process."""
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "BEHOLDER_LEDGER"):
        monkeypatch.delenv(variable, raising=False)

    def run(*arguments: object) -> Done:
        return Done(*carried_out([*map(str, arguments)]))

    return run
