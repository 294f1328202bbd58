"""`examples/tour.ipynb` runs from top to bottom, offline, in an empty folder; what it shows on GitHub is small."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

TOUR = Path(__file__).parents[2] / "examples" / "tour.ipynb"


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: Any) -> str:
    """What a cell shows, as text."""
    return "".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)


def test_it_runs_and_shows_what_it_is_committed_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "BEHOLDER_LEDGER"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    folder = tmp_path / "folder"
    folder.mkdir()
    committed = nbformat.read(TOUR, as_version=4)
    notebook = nbformat.read(TOUR, as_version=4)
    for cell in code_cells(notebook):
        cell.outputs = []
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    assert [steady(shown(cell)) for cell in code_cells(notebook)] == [
        steady(shown(cell)) for cell in code_cells(committed)
    ]
    assert {path.name for path in folder.iterdir()} >= {"demo", "tour.db"}


def steady(text: str) -> str:
    """A text without what differs from run to run: ids, times and object addresses."""
    return re.sub(r"\b\d{6}-[0-9a-f]{6}\b|\b[0-9a-f]{8,}\b|\d{4}-\d\d-\d\d[T ][\d:.+]+|\d+(\.\d+)? (ms|s)\b", "…", text)


def test_it_is_small_and_names_no_place_of_a_machine() -> None:
    text = TOUR.read_text("utf-8")
    assert len(text) < 200_000
    assert not re.search(r"/tmp/|/home/|/Users/", text)
    assert all(shown(cell) or cell.outputs for cell in code_cells(nbformat.reads(text, as_version=4)))
