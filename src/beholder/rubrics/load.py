"""Load rubrics and styles: built-in ones, those of plugins, and those of a user.

A plugin adds a folder by an entry point in the group `beholder.rubrics` (each child a rubric) or `beholder.styles`
(each `*.yaml` a style) whose value is the folder's path. Ours register the same way.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, json, structs

from beholder.errors import Problem, RubricError, UsageError
from beholder.images.image import regular_file
from beholder.plugins import find_entry_points, is_own, list_overrides, may_override
from beholder.rubrics import builtin_folder, styles_folder
from beholder.rubrics.rubric import (
    PREFERENCE_SCALE,
    NotApplicable,
    ProbeQuestion,
    Rubric,
    RubricKind,
    ScoringKind,
    Style,
)
from beholder.rubrics.template import MAX_TEMPLATE_BYTES
from beholder.rubrics.validate import (
    find_idle_assertions,
    find_idle_limits,
    find_idle_threshold,
    find_rubric_problems,
    find_style_problems,
    has_probed_images,
)
from beholder.rubrics.yaml_files import (
    FORBIDDEN_KEY,
    KeyLines,
    add_lines,
    missing_key_message,
    read_yaml,
    read_yaml_lines,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


RUBRIC_FILE = "rubric.yaml"
PROMPT_FILE = "prompt.md.j2"
GENERIC_STYLE = "generic"
MAX_STYLE_NAME = 48
MAX_SHOWN_NAME = 120
ALLOWED_WORDS = {
    "kind": tuple(RubricKind),
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


class BuiltinProbes(Struct, frozen=True, forbid_unknown_fields=True):
    """The probes of the built-in rubrics, by the names of these."""

    probes: dict[str, tuple[ProbeQuestion, ...]]


for _type in (RubricFamily, BuiltinProbes):  # prepared, see rubric.py
    json.Decoder(_type)


@dataclass(frozen=True, slots=True)
class _RubricSource:
    """A rubric with its file, and the lines of the keys there."""

    rubric: Rubric
    path: Path
    lines: KeyLines


def load_rubric(name: str | os.PathLike[str]) -> Rubric:
    """Return the rubric of a name or path; see `Rubric.load`."""
    return _read_single(name).rubric


def load_rubrics(name: str | os.PathLike[str]) -> tuple[Rubric, ...]:
    """Return the rubrics that a name or path stands for: one, or the parts of a family such as `edit`.

    Raises:
        RubricError: With everything that is wrong in a file.
        UsageError: When there is no rubric of that name.
    """
    return tuple(source.rubric for source in _read_rubrics(name))


def _read_rubrics(name: str | os.PathLike[str]) -> tuple[_RubricSource, ...]:
    if not isinstance(name, str | os.PathLike):
        raise UsageError(f"A rubric is named by its name or path, not by {name!r}.")
    path = _find_rubric_file(name)
    if path.name == "family.yaml":
        family = read_yaml(path, RubricFamily, _find_part_problems)
        return tuple(_read_single(part) for part in family.parts)
    return (_read_rubric(path),)


def _read_single(name: str | os.PathLike[str]) -> _RubricSource:
    sources = _read_rubrics(name)
    if len(sources) > 1:
        parts = ", ".join(source.rubric.name for source in sources)
        raise UsageError(f"{str(name)!r} stands for several rubrics ({parts}); load one of them, or use judge_rubrics")
    return sources[0]


def _find_part_problems(family: RubricFamily) -> list[Problem]:
    """Return parts that are no known names: a path would be one of the working folder, wherever the file is."""
    known = ", ".join(sorted(_find_known_rubrics()))
    return [
        Problem(f"{part!r} is not the name of a rubric; there are {known}", f"parts[{at}]")
        for at, part in enumerate(family.parts)
        if not is_known_rubric(part)
    ]


def select_probes(rubrics: Sequence[Rubric], probe: bool) -> tuple[Rubric, ...]:
    """Return the rubrics with their probes, those of built-in ones included, or without any.

    Raises:
        UsageError: A probe is asked for, and none of the rubrics has one.
    """
    if not probe:
        return tuple(one if one.probe is UNSET else structs.replace(one, probe=UNSET) for one in rubrics)
    builtin = read_yaml(builtin_folder / "_shared" / "probes.yaml", BuiltinProbes, lambda _: []).probes
    with_probes = [
        structs.replace(one, probe=builtin[one.name])
        if one.probe is UNSET and one.name in builtin and has_probed_images(one)
        else one
        for one in rubrics
    ]
    if rubrics and not any(one.probe for one in with_probes):
        raise UsageError(
            f"There is no probe for {', '.join(one.name for one in rubrics)}: {' and '.join(builtin)} have one, and a "
            "rubric.yaml may have its own."
        )
    return tuple(with_probes)


def check_rubrics(name: str | os.PathLike[str]) -> tuple[tuple[Rubric, ...], list[Problem]]:
    """Load rubrics like `load_rubrics`, and render each prompt in every setting, with the generic style where the
    rubric takes one.

    Returns:
        The rubrics, and what is allowed in them and may not be meant: assertions that do not count, a threshold that
        every score meets.

    Raises:
        RubricError: As `load_rubrics`; also for a prompt that cannot be rendered, of which loading checks only the
            syntax, and for limits that no score can meet or miss.
    """
    from beholder.rubrics.prompt import render_system_prompt

    sources = _read_rubrics(name)
    warnings: list[Problem] = []
    for source in sources:
        rubric = source.rubric
        if problems := find_idle_limits(rubric):
            raise RubricError(str(source.path), add_lines(problems, source.lines))
        styled = rubric.with_style(find_style("any style")) if rubric.styles else rubric
        for setting in rubric.settings or ("",):
            render_system_prompt(styled.with_setting(setting))
        warnings += add_lines(find_idle_assertions(rubric), source.lines)
        warnings += add_lines(find_idle_threshold(rubric), source.lines)
    return tuple(source.rubric for source in sources), warnings


def list_rubrics() -> dict[str, str]:
    """Return the names of all built-in and plugin rubrics and families, with one line about each."""
    names: dict[str, str] = {}
    for path in sorted(_find_known_rubrics().values()):
        if path.name == "family.yaml":
            family = read_yaml(path, RubricFamily, lambda _: [])
            names[family.family] = family.summary
        else:
            rubric = _read_rubric(path).rubric
            names[rubric.name] = rubric.summary
    return names


def is_known_rubric(name: str) -> bool:
    """Return whether this is the name of a built-in or plugin rubric or family."""
    return name in _find_known_rubrics()


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


def _read_rubric(path: Path) -> _RubricSource:
    try:
        rubric, lines = read_yaml_lines(
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
        _check_link(prompt, path)
        rubric = structs.replace(rubric, prompt=_read_prompt(prompt))
    if rubric.is_preference:
        criteria = tuple(structs.replace(criterion, scale=PREFERENCE_SCALE) for criterion in rubric.criteria)
    else:
        criteria = tuple(criterion.with_assertion_ids() for criterion in rubric.criteria)
    rubric = structs.replace(rubric, criteria=criteria)
    from beholder.rubrics.prompt import find_prompt_problems

    problems = find_prompt_problems(rubric)
    if problems:
        raise RubricError(str(prompt if prompt.is_file() else path), problems)
    return _RubricSource(rubric, path, lines)


def _check_link(prompt: Path, rubric: Path) -> None:
    """Raise `RubricError` if the prompt is a link out of the rubric's folder: what it says is sent to a judge."""
    folders = (os.path.realpath(rubric.parent), os.path.dirname(os.path.realpath(rubric)))
    if not any(Path(os.path.realpath(prompt)).is_relative_to(folder) for folder in folders):
        raise RubricError(
            str(prompt), [Problem("links to a file outside the rubric's folder; put the file itself here")]
        )


def _read_prompt(path: Path) -> str:
    try:
        with regular_file(path).open(encoding="utf-8-sig") as file:
            return file.read(MAX_TEMPLATE_BYTES + 1)
    except OSError as error:
        raise RubricError(str(path), [Problem(f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError:
        raise RubricError(str(path), [Problem("is not UTF-8 text")]) from None


@cache
def _find_known_rubrics() -> dict[str, Path]:
    known: dict[str, Path] = {}
    for point, folder in _find_plugin_folders("beholder.rubrics"):
        for child in folder.iterdir():
            file = next((file for file in (child / RUBRIC_FILE, child / "family.yaml") if file.is_file()), None)
            if file is not None and (not _is_built_in(child.name) or is_own(point) or may_override(point, child.name)):
                known[child.name] = file
    return known


def check_overrides(names: Iterable[str]) -> None:
    """Raise `UsageError` for a name that is not built in, so that no plug-in could replace anything under it."""
    groups = (group for group in entry_points().groups if group.startswith("beholder."))
    known = {point.name for group in groups for point in find_entry_points(group) if is_own(point)} - {"builtin"}
    known |= {folder.name for folder in builtin_folder.iterdir() if _is_built_in(folder.name)}
    known |= {file.stem for file in styles_folder.glob("*.yaml")}
    normalized = {_normalize_name(name): name for name in sorted(known) if not name.startswith("_")}
    for name in (part.strip() for given in names for part in given.split(",")):
        if name and _normalize_name(name) not in normalized:
            close = difflib.get_close_matches(_normalize_name(name), normalized, n=1)
            hint = (
                f"did you mean {normalized[close[0]]!r}?" if close else f"there are {', '.join(normalized.values())}."
            )
            raise UsageError(f"Nothing is built in under the name {name!r} that a plug-in could replace; {hint}")


def _is_built_in(name: str) -> bool:
    return (builtin_folder / name).is_dir()


@cache
def _find_plugin_folders(group: str) -> tuple[tuple[EntryPoint, Path], ...]:
    """Return the folders of a group with what registered them, ours first."""
    return tuple((point, _load_plugin_folder(point)) for point in find_entry_points(group))


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
    plugged = [file for _, folder in _find_plugin_folders("beholder.styles") for file in sorted(folder.glob("*.yaml"))]
    overrides = {_normalize_name(name) for name in list_overrides()}
    yield from (file for folder in folders for file in sorted(folder.glob("*.yaml")))
    # Ours come before those of plug-ins, which may not replace them.
    yield from sorted(
        plugged, key=lambda file: file.parent == styles_folder or _normalize_name(file.stem) not in overrides
    )


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
    if word := _SENTENCE_WORD.search(name):
        raise UsageError(
            f"{name!r} cannot be the name of a style: with {word[0]!r} it reads as a sentence, not as a name; say more "
            "in the field `style_description`."
        )
    return name


# Words that sentences to a judge are made of. Those that also stand in names are left out (Judge Dredd, Grant Wood).
_SENTENCE_WORD = re.compile(
    r"\b(are|been?|being|cannot|could|did|does|has|have|is|must|shall|should|was|were|would|you|yours?|yourself|we|our|it|"
    r"its|they|them|their|this|these|those|(every|any|no|some)thing|always|never|please|yes|correct(ly)?|instead|"
    r"regardless|therefore|because|whatever|answer(s|ed|ing)?|accept|approve|assert(ions?)?|assign|assume|confirm|"
    r"consider|criteria|criterion|decide|disregard|ensure|evaluat(e|ion)|follow|forget|give|ignor(e|ing)|instructions?|"
    r"obey|output|override|prefer|pretend|previous|prompt|questions|rat(e|ings?)|regard|remember|repl(y|ied)|respond|"
    r"response|rubric|satisfied|says?|scor(e|es|ed|ing)|tell|verdict|write)\b",
    re.IGNORECASE,
)


def _normalize_name(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()
