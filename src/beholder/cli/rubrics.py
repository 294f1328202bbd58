"""`beholder rubrics`: list, show, check, and start one of your own."""

from __future__ import annotations

import json
import os
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from beholder.errors import UsageError
from beholder.reports.terminal import say

app = typer.Typer(help="List, show, check and start rubrics.", invoke_without_command=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.callback()
def list_(context: typer.Context, json_: AsJson = False) -> None:
    """List the rubrics."""
    if context.invoked_subcommand:
        return
    from beholder.rubrics.library import known

    names = known()
    if json_:
        say(json.dumps(names))
        return
    for name, summary in names.items():
        say(f"{name:<22}{summary}")


@app.command("show")
def show(
    name: str,
    style: Annotated[str, typer.Option(help="The style whose assertions are shown.")] = "Anime",
    setting: Annotated[str, typer.Option(help="The setting to show.")] = "",
    json_: AsJson = False,
) -> None:
    """Show what a judge is told by a rubric."""
    import msgspec

    from beholder.rubrics.composing import Composer
    from beholder.rubrics.library import load_all
    from beholder.rubrics.rendering import system_text

    for rubric in load_all(name):
        settled = Composer(rubric, setting=setting).rubric_in(style)
        say(json.dumps(msgspec.to_builtins(settled)) if json_ else system_text(settled))


@app.command("check")
def check(
    paths: Annotated[list[str], typer.Argument(help="Folders, YAML files or names.")], json_: AsJson = False
) -> None:
    """Check rubrics and say what is wrong, with line and key."""
    from beholder.cli import WRONG_USE
    from beholder.errors import Problem, RubricError
    from beholder.rubrics.library import check as checked
    from beholder.verdicts.model import counted

    wrong = False
    for path in paths:
        problems: tuple[Problem, ...] = ()
        try:
            rubrics = checked(path)
            said = ", ".join(
                f"{one.name} {one.version}, {counted(len(one.criteria), 'criterion', 'criteria')}" for one in rubrics
            )
            report = f"{path}: sound ({said})"
        except UsageError as error:
            wrong = True
            report = str(error)
            problems = error.problems if isinstance(error, RubricError) else (Problem(report),)
        listed = [{"line": one.line, "key": one.key, "message": one.message} for one in problems]
        say(json.dumps({"path": path, "problems": listed}) if json_ else report)
    raise typer.Exit(WRONG_USE if wrong else 0)


@app.command("new")
def new(name: Annotated[str, typer.Argument(help="The folder to make; its last part is the rubric's name.")]) -> None:
    """Write a commented start for a rubric of your own."""
    from beholder.rubrics.checking import is_name
    from beholder.rubrics.library import known

    folder = Path(name)
    if os.path.lexists(folder):
        raise UsageError(f"{name!r} exists already; choose another name.")
    if not is_name(folder.name):
        allowed = "lower-case letters, digits and hyphens, such as my-rubric"
        raise UsageError(f"{folder.name!r} cannot be the name of a rubric: it is {allowed}.")
    if folder.name in known():
        raise UsageError(
            f"{folder.name!r} is the name of a rubric that is known; choose another, such as my-{folder.name}."
        )
    start = files("beholder.rubrics").joinpath("builtin/_shared/start.yaml").read_text("utf-8")
    text = start.replace("rubric: my-rubric", f'rubric: "{folder.name}"')  # in quotes: 7 and null are names too
    try:
        folder.mkdir(parents=True)
        (folder / "rubric.yaml").write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"{name!r} cannot be written: {error.strerror or error}.") from None
    path = folder if folder.is_absolute() or folder.parts[0] == ".." else f"./{folder}"  # a path, never a name
    say(f"Wrote {folder / 'rubric.yaml'}. Edit it, then: beholder rubrics check {shlex.quote(str(path))}")
