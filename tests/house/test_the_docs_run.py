"""Every example in the README and the docs is executed: Python as it stands, commands against a loopback server."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.schemas import schema_of

from beholder.cli import main
from beholder.testing.server import JudgeServer

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(python|console|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def examples(kind: str) -> list[Any]:
    return [
        pytest.param(text, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (language, text) in enumerate(BLOCK.findall(page.read_text("utf-8")), start=1)
        if language == kind
    ]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the examples speak of."""
    demo = ROOT / "examples" / "demo"
    for name, source in (
        ("before.png", "before"),
        ("after.png", "after"),
        ("out.png", "poster"),
        ("photo.jpg", "before"),
    ):
        shutil.copy(demo / f"{source}.png", tmp_path / name)
    twelve = {key: {"score": 6, "justification": " ".join(["seen"] * 20)} for key in factors()}
    line = {"case": "c1", "answer": {"online_factor_results": twelve}}
    (tmp_path / "answers.jsonl").write_text(json.dumps(line) + "\n", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path


def factors() -> list[str]:
    from beholder.rubrics.load import load_rubrics

    return [criterion.key for rubric in load_rubrics("edit") for criterion in rubric.criteria]


@pytest.mark.parametrize("text", examples("python"))
def test_python(text: str, desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    exec(compile(text, "docs", "exec"), {"__name__": "docs"})
    printed = capsys.readouterr().out.splitlines()
    promised = re.findall(r"print\(.*\)  # (.+)$", text, re.MULTILINE)
    assert promised
    assert printed[0] == promised[0]


def filled(schema: Mapping[str, Any]) -> Any:
    """An answer that fits a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = str(schema.get("type")).lower()
    if kind == "object":
        return {key: filled(inner) for key, inner in schema["properties"].items()}
    return {"array": [], "integer": 4, "number": 0.8, "string": " ".join(["seen"] * 16)}[kind]


@pytest.mark.parametrize("text", examples("console"))
def test_commands(text: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with JudgeServer(lambda asked: filled(schema_of(asked))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.anthropic_url)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.google_url)
        for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
            monkeypatch.setenv(variable, "test-key")
        commands = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
        assert commands
        for command in commands:
            monkeypatch.setattr(sys, "argv", shlex.split(command))
            with pytest.raises(SystemExit) as stop:
                main()
            assert not stop.value.code, command + "\n" + capsys.readouterr().err


@pytest.mark.parametrize("text", examples("yaml"))
def test_styles(text: str, tmp_path: Path) -> None:
    from beholder.rubrics.load import find_style

    (tmp_path / "mine.yaml").write_text(text, "utf-8")
    assert find_style("church-window", [tmp_path]).style == "Stained Glass"


def test_every_promise_names_a_test_that_is_there() -> None:
    rows = re.findall(
        r"^\| .+ \| `(tests/[^`]+)` \|$", (ROOT / "docs" / "promises.md").read_text("utf-8"), re.MULTILINE
    )
    assert len(rows) > 15
    assert [row for row in rows if not (ROOT / row).is_file()] == []
