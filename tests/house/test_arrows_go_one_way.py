"""Nothing below imports what is above it, and rooms on one level import each other in one direction only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import beholder

SOURCE = Path(beholder.__file__).parent

LEVELS = {
    "errors": 0,
    "cases": 0,
    "images": 0,
    "instruments": 0,
    "rubrics": 0,
    "verdicts": 0,
    "judges": 1,
    "ledger": 1,
    "runs": 2,
    "demo": 3,
    "qualify": 3,
    "reports": 3,
    "statistics": 3,
    "testing": 3,
    "cli": 4,
    "web": 4,
}


def imports() -> Iterator[tuple[str, str, str]]:
    """(room, imported room, file) for every import of one room by another."""
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room in ("__init__", "__main__"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            modules: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = [node.module]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            for module in modules:
                parts = module.split(".")
                if parts[0] == "beholder" and len(parts) > 1 and parts[1] != room:
                    yield room, parts[1], str(path.relative_to(SOURCE))


def test_every_room_has_a_level() -> None:
    rooms = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert rooms - {"__init__", "__main__", "__pycache__", "py.typed"} == set(LEVELS)


def test_no_room_imports_one_above_it() -> None:
    wrong = [f"{path}: {room} → {other}" for room, other, path in imports() if LEVELS[other] > LEVELS[room]]
    assert wrong == []


def test_neighbours_import_each_other_in_one_direction() -> None:
    pairs = {(room, other) for room, other, _ in imports()}
    assert [pair for pair in pairs if pair[::-1] in pairs] == []
