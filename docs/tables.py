"""Generate what the docs list: instruments, the tree of modules, which tests cover which module, the Python API.

`python docs/tables.py` rewrites them in place, between their marks; tests check that they are up to date.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path

import beholder
from beholder.instruments.instrument import InstrumentKind
from beholder.instruments.registry import list_instruments

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "beholder"
TESTS = DOCS.parent / "tests"
TITLES: dict[InstrumentKind, str] = {"pair": "Of two images", "image": "Of one image", "text": "Of a text"}
# Packages whose tests are in a folder of another name.
TEST_FOLDERS = {"providers": "judges", "__init__": "house", "__main__": "house", "errors": "house"}
MADE_BY_FUNCTIONS = {"Ledger", "Run", "ScoreResult"}  # by `Ledger.open`, `run` and `score`
# A ledger has many methods that only Beholder itself calls; users need these.
METHODS_OF_LEDGER = {
    *("open", "run", "runs", "verdicts", "verdict", "raw_answers", "cases", "case", "counts", "frame", "tag", "delete"),
    *("check", "find_incomplete_runs", "size", "close"),
}


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
        lines.append(f"{'  ' * depth}{name:<{30 - 2 * depth}}{_first_sentence(path)}".rstrip() + "\n")
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


def api_reference() -> str:
    """Every public name: its signature, and its docstring with arguments, results and exceptions."""
    groups: dict[str, list[str]] = {"Functions": [], "Classes": [], "Exceptions": []}
    for name in sorted(beholder.__all__, key=str.casefold):
        thing = getattr(beholder, name)
        if not inspect.isclass(thing):
            groups["Functions"].append(_describe_callable(name, thing))
        elif issubclass(thing, Exception):
            groups["Exceptions"].append(_describe_class(name, thing))
        else:
            groups["Classes"].append(_describe_class(name, thing))
    return "\n" + "".join(f"## {title}\n\n{''.join(parts)}" for title, parts in groups.items())


def _describe_callable(name: str, thing: Callable[..., object]) -> str:
    prefix = "async " if inspect.iscoroutinefunction(thing) else ""
    return f"### {name}\n\n```py\n{prefix}{name}{_signature(thing)}\n```\n\n{_docstring(thing)}\n"


def _describe_class(name: str, thing: type) -> str:
    text = f"### {name}\n\n"
    # A protocol or an enum is not made by calling it, and most exceptions take a message.
    made_by_users = name not in MADE_BY_FUNCTIONS and not getattr(thing, "_is_protocol", False)
    if made_by_users and "__init__" in vars(thing):
        text += f"```py\n{name}{_signature(thing)}\n```\n\n"
    base = thing.__mro__[1].__name__
    if issubclass(thing, Exception) and base != "Exception":
        text += f"A kind of `{base}`. "
    text += _docstring(thing)
    if issubclass(thing, Enum):
        text += "\n" + ", ".join(f"`{member.value}`" for member in thing) + "\n"
    if members := [*_members(thing)]:
        text += "\n| | |\n|---|---|\n" + "".join(f"| `{call}` | {about} |\n" for call, about in members)
    return text + "\n"


def _members(thing: type) -> Iterator[tuple[str, str]]:
    """Public methods and properties that the class defines, with their signature and first sentence."""
    for name, member in vars(thing).items():
        function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if not function.__doc__ and not isinstance(member, property):
            continue
        if thing is beholder.Ledger and name not in METHODS_OF_LEDGER:
            continue
        prefix = "async " if inspect.iscoroutinefunction(function) else ""
        call = f"{prefix}.{name}{_signature(function, one_line=True)}"
        if isinstance(member, property):
            call = f".{name}: {_annotation(inspect.signature(function).return_annotation)}"
        yield call.replace("|", "\\|"), _first_paragraph(inspect.getdoc(function) or "").replace("|", "\\|")


def _signature(thing: Callable[..., object], *, one_line: bool = False) -> str:
    signature = inspect.signature(thing)
    parts, kind = [], None
    for parameter in signature.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if kind is inspect.Parameter.POSITIONAL_ONLY and parameter.kind is not kind:
            parts.append("/")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and kind not in (
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
        ):
            parts.append("*")
        kind = parameter.kind
        parts.append(_parameter(parameter))
    if kind is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    returned = signature.return_annotation
    end = "" if inspect.isclass(thing) or returned is inspect.Signature.empty else f" -> {_annotation(returned)}"
    short = f"({', '.join(parts)}){end}"
    if one_line or len(short) < 90:
        return short
    return "(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def _parameter(parameter: inspect.Parameter) -> str:
    text = str(parameter).partition(":")[0].partition("=")[0].strip()  # with its stars
    if parameter.annotation is not inspect.Parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is not inspect.Parameter.empty:
        text += f" = {_default(parameter.default)}"
    return text


def _default(value: object) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    if isinstance(value, Mapping) and not value:
        return "{}"
    shown = repr(value)
    # The repr of a factory or a sentinel says nothing, and that of a whole value is longer than the signature.
    return "…" if shown.startswith("<") or len(shown) > 40 else shown


def _annotation(annotation: object) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:beholder|typing|collections)(?:\.[a-z_]+)*\.(?=[A-Z])", "", text)


def _docstring(thing: object) -> str:
    """A docstring as Markdown: its sections of arguments, attributes, results and exceptions as lists."""
    lines = []
    section = ""
    for line in (inspect.getdoc(thing) or "").splitlines():
        if re.fullmatch(r"(Args|Attributes|Returns|Raises|Yields|Example|Examples):", line):
            section = line.removesuffix(":")
            lines += [f"**{section}**", ""]
        elif section in ("Args", "Attributes", "Raises") and (entry := re.match(r" {4}([\w.*]+): (.*)", line)):
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        elif section and line.startswith("    "):
            lines.append("  " + line.strip() if section not in ("Returns", "Yields") else line.strip())
        else:
            section = "" if line and not line.startswith(" ") else section
            lines.append(line)
    return "\n".join(lines).strip() + "\n"


def _first_paragraph(docstring: str) -> str:
    return " ".join(docstring.split("\n\n")[0].split())


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "instruments": ("instruments.md", instrument_tables),
    "modules": ("design.md", module_tree),
    "tests": ("promises.md", test_table),
    "reference": ("reference.md", api_reference),
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
