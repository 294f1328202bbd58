"""Errors that Python code can get do not tell it to use a flag alone: they name the argument too, or only that."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "beholder"
FOR_PEOPLE_AT_A_TERMINAL = {"cli", "web", "demo", "integrations"}  # the last: at that of their host


def test_an_error_outside_the_command_line_names_no_flag_alone() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in FOR_PEOPLE_AT_A_TERMINAL:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                parts = [one.value for one in ast.walk(node.exc) if isinstance(one, ast.Constant)]
                message = "".join(part for part in parts if isinstance(part, str))
                bare = re.sub(r"`beholder [^`]*`", "", message)  # a whole command serves both
                if re.search(r"(?<![\w-])--[a-z][\w-]*(?! or \w+(=|\())(?![\w-])", bare):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}: {message}")
    assert found == []
