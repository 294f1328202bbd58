"""Generate the tables in the docs: instruments, the tree of modules, and which tests cover which module.

`python docs/tables.py` rewrites them in place, between their marks; tests check that they are up to date.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from beholder.instruments.instrument import InstrumentKind
from beholder.instruments.registry import list_instruments

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "beholder"
TESTS = DOCS.parent / "tests"
TITLES: dict[InstrumentKind, str] = {"pair": "Of two images", "image": "Of one image", "text": "Of a text"}
# Packages whose tests are in a folder of another name.
TEST_FOLDERS = {"providers": "judges", "api": "cli", "__init__": "house", "__main__": "house", "errors": "house"}


def instrument_tables() -> str:
    """One table for each kind of instrument: its name, and what it measures."""
    parts = []
    for kind, title in TITLES.items():
        if known := list_instruments(kind):
            rows = [f"| `{instrument.name}` | {instrument.about} |\n" for instrument in known]
            parts.append(f"\n{title}:\n\n| instrument | what it measures |\n|---|---|\n{''.join(rows)}")
    return "".join(parts) + "\n"


def module_tree() -> str:
    """Every module with the first sentence of its docstring."""
    lines = ["\n```text\nsrc/beholder/\n"]
    for path in sorted(SOURCE.rglob("*.py"), key=_tree_order):
        place = path.relative_to(SOURCE)
        package = path.name == "__init__.py"
        depth = len(place.parts) - package
        if depth == 0:
            continue
        name = f"{place.parent.name}/" if package else place.name
        lines.append(f"{'  ' * depth}{name:<{26 - 2 * depth}}{_first_sentence(path)}".rstrip() + "\n")
    return "".join(lines) + "```\n\n"


def test_table() -> str:
    """For every module the test files that import it; where none does, the test folder of its package."""
    tests = defaultdict(set)
    for path in TESTS.rglob("test_*.py"):
        for module in _imported_modules(path):
            tests[module].add(path.relative_to(TESTS).as_posix())
    rows = []
    for path in sorted(SOURCE.rglob("*.py"), key=_tree_order):
        if path.name == "__init__.py":
            continue
        place = path.relative_to(SOURCE)
        module = ".".join(("beholder", *place.with_suffix("").parts))
        package = place.parts[0].removesuffix(".py")
        found = sorted(tests[module]) or [f"{TEST_FOLDERS.get(package, package)}/"]
        rows.append(f"| `{place.as_posix()}` | {', '.join(f'`{name}`' for name in found)} |\n")
    return "\n| module | tests (in `tests/`) |\n|---|---|\n" + "".join(rows) + "\n"


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "instruments": ("instruments.md", instrument_tables),
    "modules": ("design.md", module_tree),
    "tests": ("promises.md", test_table),
}


def renew(name: str) -> tuple[str, str]:
    """Return a page as it is, and as it would be with its table generated again."""
    file, make = TABLES[name]
    page = (DOCS / file).read_text("utf-8")
    place = re.compile(rf"(?<=<!-- {name}: python docs/tables.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
    return page, place.sub(lambda _: make(), page)


def _tree_order(path: Path) -> tuple[tuple[bool, str], ...]:
    """A package right before its modules, modules before sub-packages."""
    *folders, name = path.relative_to(SOURCE).parts
    key = [(True, folder) for folder in folders]
    return (*key,) if name == "__init__.py" else (*key, (False, name))


def _first_sentence(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.:])\s+(?=[A-Z`])|:$", paragraph)[0].rstrip(".:")


def _imported_modules(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


if __name__ == "__main__":
    for name, (file, _) in TABLES.items():
        (DOCS / file).write_text(renew(name)[1], "utf-8")
