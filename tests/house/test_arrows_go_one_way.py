"""The architecture: arrows go one way, only the ledger sees a database, every class name is used once."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import beholder

SOURCE = Path(beholder.__file__).parent

# docs/design.md, "Arrows": what each package may import. Late imports and imports for types count.
BELOW_CASES = {"errors", "plugins", "bands", "images"}
BELOW_VERDICTS = BELOW_CASES | {"cases", "rubrics"}
BELOW_JUDGES = BELOW_VERDICTS | {"verdicts", "providers", "instruments"}
BELOW_STATISTICS = BELOW_JUDGES | {"judges", "ledger", "runs"}
BELOW_REPORTS = BELOW_STATISTICS | {"statistics", "demo", "exam", "arena", "reviews"}
ALLOWED = {
    "errors": set(),
    "plugins": set(),
    "bands": set(),
    "images": {"errors"},
    "cases": BELOW_CASES,
    "rubrics": BELOW_CASES | {"cases"},
    "verdicts": BELOW_VERDICTS,
    "providers": BELOW_VERDICTS | {"verdicts"},
    "testing": BELOW_VERDICTS | {"verdicts"},
    "instruments": BELOW_CASES,
    "judges": BELOW_JUDGES,
    "ledger": BELOW_VERDICTS | {"verdicts"},
    "runs": BELOW_JUDGES | {"judges", "ledger"},
    "statistics": BELOW_STATISTICS,
    "demo": BELOW_STATISTICS,
    "exam": BELOW_STATISTICS | {"statistics", "demo"},
    "arena": BELOW_STATISTICS | {"statistics", "demo"},
    "reviews": BELOW_STATISTICS | {"statistics", "demo"},
    "reports": BELOW_REPORTS,
    "api": BELOW_REPORTS | {"reports"},
    "web": BELOW_REPORTS | {"reports", "api"},
    "integrations": BELOW_REPORTS | {"reports", "api"},
    "cli": BELOW_REPORTS | {"reports", "api", "web", "testing", "integrations"},
}
# Imports that the table does not allow, each with its reason.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("verdicts/verdict.py", "reports"): "_repr_html_ and card: a verdict is shown as a card",
    ("arena/leaderboard.py", "reports"): "_repr_html_: a notebook shows a board as a table",
    ("arena/agreement.py", "reports"): "_repr_html_: a notebook shows an agreement as tables",
    ("arena/estimation.py", "reports"): "_repr_html_: a notebook shows an estimate as tables",
    ("runs/plan.py", "reports"): "_repr_html_: a notebook shows a plan as a table",
    (
        "statistics/comparison.py",
        "reports",
    ): "_repr_html_, to_markdown, to_junit: a comparison as reports show it",
}


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def imported_modules(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports() -> Iterator[tuple[str, str, str]]:
    """(package, imported package, file) for every import of one package by another."""
    for path, tree in trees().items():
        package = package_of(path)
        if package in ("__init__", "__main__"):
            continue
        for module in imported_modules(tree):
            parts = module.split(".")
            if parts[0] == "beholder" and len(parts) > 1 and parts[1] != package and parts[1] in ALLOWED:
                yield package, parts[1], str(path.relative_to(SOURCE))


def test_every_package_has_its_place() -> None:
    packages = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert packages - {"__init__", "__main__", "__pycache__", "py.typed"} == set(ALLOWED)


def test_no_package_imports_one_above_it() -> None:
    wrong = {
        f"{path}: {package} → {other}"
        for package, other, path in imports()
        if other not in ALLOWED[package] and (path, other) not in EXCEPTIONS
    }
    assert sorted(wrong) == []


def test_every_exception_is_still_needed() -> None:
    assert set(EXCEPTIONS) <= {(path, other) for _, other, path in imports()}


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    modules = {
        ".".join(("beholder", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in trees()
    }
    graph = {name: _loaded_at_import(trees()[path], set(modules)) - {name} for name, path in modules.items()}
    while free := [name for name, needed in graph.items() if not needed & graph.keys()]:
        for name in free:
            del graph[name]
    assert sorted(graph) == []


def _loaded_at_import(tree: ast.Module, modules: set[str]) -> set[str]:
    """The modules of ours that the top level of a module imports; those for types only, or late, are left out."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in modules else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & modules


def test_only_the_ledger_sees_a_database() -> None:
    wrong = []
    for path, tree in trees().items():
        if package_of(path) == "ledger":
            continue
        name = str(path.relative_to(SOURCE))
        wrong += [
            f"{name} imports {module}"
            for module in imported_modules(tree)
            if module.split(".")[0] in ("sqlalchemy", "sqlite3", "psycopg")
        ]
        wrong += [
            f"{name}:{node.lineno} opens a connection of the ledger"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr in ("reading", "writing", "_reading", "_writing")
        ]
    assert wrong == []


def test_commands_execute_and_copy_runs_by_the_api_alone() -> None:
    """What the command line does with a run, Python does the same way: commands parse, call the API and print."""
    drivers = [
        *("beholder.runs.execution.prepare_run", "beholder.runs.batch.resume_batch_run"),
        *("beholder.api.execute.execute_run", "beholder.api.execute.collect_batch", "beholder.ledger.copy.copy_run"),
    ]
    found = [
        f"{path.name}: {module}"
        for path, tree in trees().items()
        if package_of(path) == "cli"
        for module in imported_modules(tree)
        if module in drivers
    ]
    assert found == []


def test_every_class_name_is_used_once() -> None:
    places = defaultdict(list)
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
