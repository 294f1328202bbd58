"""The tree of modules and the table of their tests in the docs are up to date, and every module says what it holds."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "src" / "beholder").rglob("*.py"))


@pytest.mark.parametrize("table", ["modules", "tests", "reference"])
def test_a_table_is_as_it_would_be_generated_today(table: str) -> None:
    page, renewed = runpy.run_path(str(ROOT / "docs" / "tables.py"))["renew"](table)
    assert "<!-- end -->" in page
    assert renewed == page, "the table is old; generate it again: python docs/tables.py"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_a_module_says_in_its_first_line_what_it_holds(path: Path) -> None:
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
    assert docstring, f"{path} has no docstring"
    assert docstring.splitlines()[0].rstrip().endswith((".", ":")), "the first line is one sentence"
