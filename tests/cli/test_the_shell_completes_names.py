"""The shell completes commands, flags, and names of runs, rubrics and styles; it installs where shells look for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from support.reviews import edits

from beholder.cli import main
from beholder.ledger.ledger import Ledger

PROGRAM = Path(sys.executable).parent / "beholder"


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BEHOLDER_")}
    path = os.pathsep.join((str(PROGRAM.parent), kept["PATH"]))
    return {**kept, "HOME": str(folder), "PATH": path, **more}


def complete(shell: str, line: str, folder: Path) -> str:
    """What Beholder answers to the completion script of a shell."""
    words = {"_TYPER_COMPLETE_ARGS": line, "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    words |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_BEHOLDER_COMPLETE": f"complete_{shell}"}
    done = subprocess.run(
        [PROGRAM], cwd=folder, env=environment(folder, **words), capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_names_are_completed(shell: str, tmp_path: Path) -> None:
    assert "edit-preservation" in complete(shell, "beholder judge edit-", tmp_path)
    assert "latest" not in complete(shell, "beholder show ", tmp_path), "there is no ledger"
    edits(tmp_path / "beholder.db").close()
    found = complete(shell, "beholder show ", tmp_path)
    assert "latest" in found
    assert "r1" in found
    assert "r1" in complete(shell, "beholder compare latest ", tmp_path)


def test_styles_and_commands_are_completed(tmp_path: Path) -> None:
    assert complete("bash", "beholder styles show Ani", tmp_path).split() == ["Anime"]
    assert "report" in complete("bash", "beholder re", tmp_path).split()
    edits(tmp_path / "own.db").close()
    for command in ("log", "show"):
        assert "r1" in complete("bash", f"beholder {command} --ledger own.db ", tmp_path)
    assert "edit" in complete("bash", "beholder run --rubric edi", tmp_path)
    assert complete("bash", "beholder styles show Mov", tmp_path).strip() == "Movie\\ Poster"
    assert complete("fish", "beholder styles show Mov", tmp_path).strip() == "Movie Poster"


def test_runs_cases_and_words_are_completed_wherever_they_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edits(tmp_path / "beholder.db").close()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BEHOLDER_LEDGER", raising=False)

    monkeypatch.setattr("sys.argv", ["beholder"])
    monkeypatch.setenv("_BEHOLDER_COMPLETE", "complete_bash")

    def found(*words: str) -> list[str]:
        """As in `complete`, without a process."""
        monkeypatch.setenv("COMP_WORDS", " ".join(("beholder", *words, "")))
        monkeypatch.setenv("COMP_CWORD", str(1 + len(words)))
        with suppress(SystemExit):
            main()
        return capsys.readouterr().out.splitlines()

    for words in (
        *(("agree",), ("estimate",), ("calibrate",), ("runs", "delete"), ("arena", "show")),
        *(("collect", "--run"), ("run", "--run"), ("ratings", "import", "--run"), ("report", "--against")),
    ):
        assert "r1" in found(*words), words
    assert found("history") == ["nightly"]
    with Ledger.open(tmp_path / "beholder.db") as ledger:
        run = ledger.runs()[0]
        assert found("show", run.name) == list(ledger.case_ids(run.id))
    assert found("export", "--to") == ["csv", "jsonl", "parquet"]
    assert found("log", "--to") == ["mlflow", "wandb"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_itself_completes(tmp_path: Path) -> None:
    subprocess.run(["bash", "-c", "beholder --install-completion; true"], env=environment(tmp_path), check=True)
    [script] = (tmp_path / ".bash_completions").iterdir()
    assert str(script) in (tmp_path / ".bashrc").read_text()
    words = f"""
        source {script}
        COMP_WORDS=(beholder judge restyle-c) COMP_CWORD=2
        _beholder_completion beholder
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", words], env=environment(tmp_path), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["restyle-confidence"]
