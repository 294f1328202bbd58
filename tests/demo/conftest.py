"""The demo, made once for all tests, and its command run in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from beholder.demo import suite
from beholder.demo.cases import DemoSuite
from beholder.demo.photos import load_photos


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture(scope="session")
def made() -> tuple[DemoSuite, ...]:
    """All samples."""
    return suite.make_suites(load_photos())


@pytest.fixture
def quick(made: tuple[DemoSuite, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are not painted anew, which takes seconds."""
    monkeypatch.setattr(suite, "make_suites", lambda _: made)


@pytest.fixture
def folder(tmp_path: Path, quick: None) -> Path:
    """A folder with the demo in it."""
    suite.build_demo(tmp_path / "demo")
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
