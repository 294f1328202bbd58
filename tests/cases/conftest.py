"""Case files and pictures, made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.cases import RESTYLE, picture

from beholder.cases.case import CaseRow, CaseSchema
from beholder.cases.files import read_rows

Read = Callable[..., list[CaseRow]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """`read("cases.jsonl", text or bytes)`: the rows of a file with this content."""

    def read(name: str, content: str | bytes, shape: CaseSchema = RESTYLE) -> list[CaseRow]:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return list(read_rows(path, shape))

    return read


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    """`tree("photos/p1.jpg", …)`: a folder with these pictures in it."""

    def tree(*names: str) -> Path:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(picture("JPEG" if name.endswith("jpg") else "PNG"))
        return tmp_path

    return tree
