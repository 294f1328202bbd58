"""What the commands `rubrics`, `styles`, `init` and `demo` do, in Python: list and check rubrics, begin own files.

`Rubric.load` loads a rubric; `view` (`web/__init__.py`) shows a ledger in the browser.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from beholder.errors import Problem, RubricError, UsageError
from beholder.rubrics import load
from beholder.rubrics.brief import Composer
from beholder.rubrics.load import list_rubrics as list_rubrics
from beholder.rubrics.prompt import render_system_prompt
from beholder.rubrics.rubric import Rubric, RubricKind
from beholder.rubrics.validate import is_rubric_name

DEFAULT_STYLE = "Anime"  # shown where a rubric takes a style and none is named


@dataclass(frozen=True, slots=True)
class RubricCheck:
    """What checking a rubric found: the result of `check_rubric`.

    Attributes:
        path: What was checked: a name, folder or file.
        source: The file that has the problems; empty where there are none.
        rubrics: The rubrics, none where there are problems.
        problems: What is wrong, each with line and key.
        warnings: What is allowed and may not be meant.
    """

    path: str
    source: str
    rubrics: tuple[Rubric, ...]
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]

    @property
    def sound(self) -> bool:
        """Whether the rubric can be used."""
        return not self.problems

    def to_dict(self) -> dict[str, object]:
        """Return what `beholder rubrics check --json` prints."""
        described: dict[str, object] = {"path": self.path, "problems": [_problem_values(one) for one in self.problems]}
        return described | ({"warnings": [_problem_values(one) for one in self.warnings]} if self.warnings else {})

    def __repr__(self) -> str:
        state = "sound" if self.sound else f"{len(self.problems)} problems"
        return f"<RubricCheck of {self.path}: {state}, {len(self.warnings)} warnings>"


def _problem_values(problem: Problem) -> dict[str, object]:
    return {"line": problem.line, "key": problem.key, "message": problem.message}


def check_rubric(rubric: str | os.PathLike[str]) -> RubricCheck:
    """Check a rubric, by its name, folder or YAML file: every problem with its line and key.

    Raises:
        UsageError: There is no rubric of that name.
    """
    path = os.fspath(rubric)
    try:
        found, warnings = load.check_rubrics(path)
    except RubricError as error:
        return RubricCheck(path, error.source, (), tuple(error.problems), ())
    return RubricCheck(path, "", found, (), tuple(warnings))


def show_rubric(rubric: str | os.PathLike[str], *, style: str = DEFAULT_STYLE, setting: str = "") -> str:
    """Return what a judge is told by a rubric (for a family, by each of its rubrics).

    Args:
        rubric: Its name, folder or YAML file.
        style: The style whose assertions are shown, where it takes one.
        setting: One of its settings.

    Raises:
        UsageError: There is no such rubric or setting.
        RubricError: Something is wrong in the file.
    """
    prompts = (
        render_system_prompt(Composer(one, setting=setting).rubric_for_style(style))
        for one in load.load_rubrics(rubric)
    )
    return "\n".join(prompts)


def list_styles(folders: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = ()) -> dict[str, str]:
    """Return the styles by name, each with its description; `folders` have styles of your own."""
    places = [folders] if isinstance(folders, str | os.PathLike) else folders
    return {name: style.description for name, style in load.load_styles([Path(place) for place in places]).items()}


_START_FILES = {RubricKind.SCORES: "start.yaml", RubricKind.PREFERENCE: "start_preference.yaml"}


def new_rubric(folder: str | os.PathLike[str], *, kind: str = RubricKind.SCORES) -> Path:
    """Write a commented start for a rubric of your own, and return the path of the file.

    Args:
        folder: The folder to make; its last part is the rubric's name.
        kind: `scores`, or `preference` for a rubric that asks which of two is better.

    Raises:
        UsageError: The folder exists, its name cannot be that of a rubric, or it cannot be written.
    """
    place = Path(folder)
    if kind not in tuple(RubricKind):
        raise UsageError(f"The kind of a rubric is {' or '.join(RubricKind)}, and {kind!r} is neither.")
    if os.path.lexists(place):
        raise UsageError(f"{str(folder)!r} exists already; choose another name.")
    if not is_rubric_name(place.name):
        allowed = "lower-case letters, digits and hyphens, such as my-rubric"
        raise UsageError(f"{place.name!r} cannot be the name of a rubric: it is {allowed}.")
    if place.name in load.list_rubrics():
        raise UsageError(
            f"{place.name!r} is the name of a rubric that is known; choose another, such as my-{place.name}."
        )
    file = f"builtin/_shared/{_START_FILES[RubricKind(kind)]}"
    start = files("beholder.rubrics").joinpath(file).read_text("utf-8")
    text = start.replace("rubric: my-rubric", f'rubric: "{place.name}"')  # in quotes: 7 and null are names too
    try:
        place.mkdir(parents=True)
        (place / "rubric.yaml").write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"{str(folder)!r} cannot be written: {error.strerror or error}.") from None
    return place / "rubric.yaml"


PROMPTFOO_ASSERTION = "from beholder.integrations.promptfoo import get_assert as get_assert\n"


def init(file: str | os.PathLike[str] | None = None, *, promptfoo: bool = False) -> Path:
    """Write a commented suite to start from, and return its path.

    Args:
        file: The file to write; by default `suite.yaml`.
        promptfoo: Write an evaluation for promptfoo instead, by default `promptfooconfig.yaml`, and beside it
            `beholder_assert.py`, the assertion that it names.

    Raises:
        UsageError: A file exists already, or cannot be written.
    """
    path = Path(file if file is not None else "promptfooconfig.yaml" if promptfoo else "suite.yaml")
    start = files("beholder.runs").joinpath("start_promptfoo.yaml" if promptfoo else "start_suite.yaml")
    texts = {path: start.read_text("utf-8").replace("THIS-FILE", str(path))}
    if promptfoo:
        texts[path.parent / "beholder_assert.py"] = PROMPTFOO_ASSERTION
    for place in texts:
        if os.path.lexists(place):
            raise UsageError(f"{str(place)!r} exists already; name another file, or remove it first.")
    for place, text in texts.items():
        try:
            with place.open("x", encoding="utf-8") as new:
                new.write(text)
        except OSError as error:
            raise UsageError(f"{str(place)!r} cannot be written: {error.strerror or error}.") from None
    return path
