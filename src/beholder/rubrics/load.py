"""Load rubrics and styles: built-in ones, those of plugins, and those of a user.

A plugin adds a folder by an entry point in the group `beholder.rubrics` (each child a rubric) or `beholder.styles`
(each `*.yaml` a style) whose value is the folder's path. Ours register the same way.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from beholder.errors import Problem, RubricError, UsageError
from beholder.rubrics.rubric import NotApplicable, Rubric, ScoringKind, Style
from beholder.rubrics.validate import find_rubric_problems, find_style_problems
from beholder.rubrics.yaml_files import FORBIDDEN_KEY, missing_key_message, read_yaml

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


RUBRIC_FILE = "rubric.yaml"
PROMPT_FILE = "prompt.md.j2"
GENERIC_STYLE = "generic"
MAX_STYLE_NAME = 48
MAX_SHOWN_NAME = 120
ALLOWED_WORDS = {
    "scoring.kind": tuple(ScoringKind),
    "scoring.criterion_score": ("given", "confidence"),
    "scoring.not_applicable": tuple(NotApplicable),
    "format": ("acrue", "acrue_confidence", "description", "factors"),
}
# While a key has no value of the right type, these other keys cannot be checked.
DEPENDENT_KEYS = {
    "images": ("settings",),
    "criteria": ("scoring",),
    "findings": ("gates",),
    "styles": ("scoring",),
    "scale": ("anchors", "ceiling"),
    "whole": ("scale",),
    "kind": ("grades",),
}


class RubricFamily(Struct, frozen=True, forbid_unknown_fields=True):
    """Several rubrics under one name, each of which makes a brief of its own."""

    family: str
    summary: str
    parts: tuple[str, ...]


def load_rubric(name: str | os.PathLike[str]) -> Rubric:
    """Return the rubric of a name or path; see `Rubric.load`."""
    rubrics = load_rubrics(name)
    if len(rubrics) > 1:
        parts = ", ".join(rubric.name for rubric in rubrics)
        raise UsageError(f"{str(name)!r} stands for several rubrics ({parts}); load one of them, or use judge_all")
    return rubrics[0]


def load_rubrics(name: str | os.PathLike[str]) -> tuple[Rubric, ...]:
    """Return the rubrics that a name or path stands for: one, or the parts of a family such as `edit`.

    Raises:
        RubricError: With everything that is wrong in a file.
        UsageError: When there is no rubric of that name.
    """
    path = _find_rubric_file(name)
    if path.name == "family.yaml":
        family = read_yaml(path, RubricFamily, lambda _: [])
        return tuple(load_rubric(part) for part in family.parts)
    return (_read_rubric(path),)


def check_rubrics(name: str | os.PathLike[str]) -> tuple[Rubric, ...]:
    """Load rubrics like `load_rubrics`, and render each prompt in every setting, with the generic style where the
    rubric takes one.

    Raises `RubricError` also for a prompt that cannot be rendered; loading alone checks only its syntax.
    """
    from beholder.rubrics.prompt import render_system_prompt

    rubrics = load_rubrics(name)
    for rubric in rubrics:
        styled = rubric.with_style(find_style("any style")) if rubric.styles else rubric
        for setting in rubric.settings or ("",):
            render_system_prompt(styled.with_setting(setting))
    return rubrics


def list_rubrics() -> dict[str, str]:
    """Return the names of all built-in and plugin rubrics and families, with one line about each."""
    names: dict[str, str] = {}
    for path in sorted(_find_known_rubrics().values()):
        if path.name == "family.yaml":
            family = read_yaml(path, RubricFamily, lambda _: [])
            names[family.family] = family.summary
        else:
            rubric = _read_rubric(path)
            names[rubric.name] = rubric.summary
    return names


def load_styles(folders: Sequence[Path] = ()) -> dict[str, Style]:
    """Return every style by its name; a user's folders come first and may replace built-in styles."""
    styles: dict[str, Style] = {}
    for style in _iter_styles(folders):
        styles.setdefault(_normalize_name(style.style), style)
    return {style.style: style for style in sorted(styles.values(), key=lambda style: style.style.casefold())}


def find_style(name: str, folders: Sequence[Path] = ()) -> Style:
    """Return the style of a name or alias; where there is none, the generic style with the name filled in.

    Args:
        name: Letter case and hyphens do not matter.
        folders: Folders with a user's own styles, which come before the built-in ones.

    Raises:
        UsageError: When the name cannot be that of a style.
    """
    normalized = _normalize_name(name)
    for style in _iter_styles(folders):
        if normalized in map(_normalize_name, (style.style, *style.aliases)):
            return style
    return _make_generic_style(_check_style_name(name), folders)


def _find_rubric_file(name: str | os.PathLike[str]) -> Path:
    text = os.fspath(name)
    known_paths = _find_known_rubrics()
    if isinstance(name, str) and text in known_paths:
        return known_paths[text]
    path = Path(text)
    for candidate in (path / RUBRIC_FILE, path):
        if os.path.isfile(candidate):  # Path.is_file would raise for an impossible file name
            return candidate
    text = text if len(text) <= MAX_SHOWN_NAME else text[:MAX_SHOWN_NAME] + "…"
    close = difflib.get_close_matches(text, known_paths, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise UsageError(
        f"There is no rubric {text!r}: it is neither a known name ({', '.join(sorted(known_paths))}) "
        f"nor a folder with {RUBRIC_FILE} nor a YAML file.{hint}"
    )


def _read_rubric(path: Path) -> Rubric:
    try:
        rubric = read_yaml(
            path,
            Rubric,
            find_rubric_problems,
            forbidden=("style", "setting"),
            choices=ALLOWED_WORDS,
            dependencies=DEPENDENT_KEYS,
        )
    except RubricError as error:
        found = {(problem.key, problem.message) for problem in error.problems}
        if {("style", FORBIDDEN_KEY), ("", missing_key_message("rubric"))} <= found:
            hint = (
                "this looks like a style, not a rubric; `beholder styles --styles FOLDER` checks the styles of a folder"
            )
            raise RubricError(str(path), [Problem(hint)]) from None
        raise
    prompt = path.with_name(PROMPT_FILE)
    if path.name == RUBRIC_FILE and prompt.is_file():
        if rubric.prompt:
            raise RubricError(str(path), [Problem(f"the prompt stands here and in {PROMPT_FILE}; keep one", "prompt")])
        rubric = structs.replace(rubric, prompt=_read_prompt(prompt))
    rubric = structs.replace(rubric, criteria=tuple(criterion.with_assertion_ids() for criterion in rubric.criteria))
    from beholder.rubrics.prompt import find_prompt_problems

    problems = find_prompt_problems(rubric)
    if problems:
        raise RubricError(str(prompt if prompt.is_file() else path), problems)
    return rubric


def _read_prompt(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise RubricError(str(path), [Problem(f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError:
        raise RubricError(str(path), [Problem("is not UTF-8 text")]) from None


@cache
def _find_known_rubrics() -> dict[str, Path]:
    return {
        child.name: next(file for file in (child / RUBRIC_FILE, child / "family.yaml") if file.is_file())
        for folder in _find_plugin_folders("beholder.rubrics")
        for child in folder.iterdir()
        if (child / RUBRIC_FILE).is_file() or (child / "family.yaml").is_file()
    }


@cache
def _find_plugin_folders(group: str) -> tuple[Path, ...]:
    from importlib.metadata import entry_points

    return tuple(_load_plugin_folder(point) for point in entry_points(group=group))


def _load_plugin_folder(point: EntryPoint) -> Path:
    name = f"The plugin {point.name!r} of {point.group} ({point.value})"
    try:
        folder = Path(str(point.load()))
    except Exception as error:  # whatever the plugin's module raises
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"{name} cannot be loaded: {why}. Mend or uninstall the package that brings it.") from None
    if not os.path.isdir(folder):
        raise UsageError(f"{name} names the folder {str(folder)!r}, which is not there.")
    return folder


def _list_style_files(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if not os.path.isdir(folder):
            raise UsageError(f"There is no folder of styles at {str(folder)!r}.")
    for folder in (*folders, *_find_plugin_folders("beholder.styles")):
        yield from sorted(folder.glob("*.yaml"))


def _iter_styles(folders: Sequence[Path]) -> Iterator[Style]:
    """Return all styles but the generic one, those of a user's folders first."""
    for path in _list_style_files(folders):
        if path.stem != GENERIC_STYLE:
            yield _read_style(path)


def _read_style(path: Path) -> Style:
    # Not cached: all built-in styles take 11 ms, once for each style of a Composer.
    return read_yaml(path, Style, find_style_problems, forbidden=("generic", "near"))


def _make_generic_style(name: str, folders: Sequence[Path]) -> Style:
    path = next(file for file in _list_style_files(folders) if file.stem == GENERIC_STYLE)
    names = {_normalize_name(style.style): style.style for style in _iter_styles(folders)}
    close = difflib.get_close_matches(_normalize_name(name), names, n=1, cutoff=0.75)
    return structs.replace(
        _fill_style_name(_read_style(path), name), generic=True, near=names[close[0]] if close else ""
    )


def _fill_style_name(style: Style, name: str) -> Style:
    """Return the generic style with a name in place of `{style}`."""

    def fill(text: str) -> str:
        return text.replace("{style}", name)

    return Style(
        style=name,
        description=fill(style.description),
        expect=tuple(map(fill, style.expect)),
        acceptable=tuple(map(fill, style.acceptable)),
        goes_wrong=tuple(map(fill, style.goes_wrong)),
        assertions={
            key: tuple(structs.replace(assertion, text=fill(assertion.text)) for assertion in assertions)
            for key, assertions in style.assertions.items()
        },
    )


def _check_style_name(name: str) -> str:
    """Return a style's name without blanks around it. Raises `UsageError` for more than a name: it becomes part of the
    rubric's own text, where a case must not be able to write instructions."""
    name = name.strip()
    if not name or len(name) > MAX_STYLE_NAME or not re.fullmatch(r"[\w \-'’&+()]+", name):
        raise UsageError(
            f"{name[:60]!r} cannot be the name of a style: it is one line of 1 to {MAX_STYLE_NAME} letters, digits "
            "and -'&+(); say more in the field `style_description`."
        )
    return name


def _normalize_name(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()
