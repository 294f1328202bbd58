"""Every example in the README and the docs is executed: Python as it stands (and type-checked), commands against a
loopback server."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.schemas import schema_of

from beholder.cli import main
from beholder.testing.server import JudgeServer

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(python|console|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


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
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def factors() -> list[str]:
    from beholder.rubrics.load import load_rubrics

    return [criterion.key for rubric in load_rubrics("edit") for criterion in rubric.criteria]


def python_pages() -> list[Any]:
    """The pages with Python in them, each as one script, at the lines where it stands on the page."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        script = ""
        for block in PYTHON.finditer(text):
            script += "\n" * (text.count("\n", 0, block.start(1)) - script.count("\n")) + block[1]
        if script:
            found.append(pytest.param(page, script, id=page.stem))
    return found


@pytest.mark.parametrize(("page", "script"), python_pages())
def test_python(
    page: Path, script: str, desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The examples of a page are one script, since later ones may use what earlier ones made. What a `print` is said to
    print, in the comment behind it, it prints."""
    # As a reader has it who has set no key. `desk` takes away those of our own.
    monkeypatch.setenv("ACME_API_KEY", "")  # an example sets it, which is to end with the test
    promised = re.findall(r"^\s*print\(.*\)  # (.+)$", script, re.MULTILINE)
    assert len(promised) == script.count("print(") > 0, "every print has its output in a comment behind it"
    exec(compile(script, str(page), "exec"), {"__name__": "docs"})
    assert capsys.readouterr().out.splitlines() == promised


def test_python_is_typed(tmp_path: Path) -> None:
    for number, parameters in enumerate(python_pages()):
        page, script = parameters.values
        (tmp_path / f"page_{number}_{page.stem.lower()}.py").write_text(script, "utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


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
