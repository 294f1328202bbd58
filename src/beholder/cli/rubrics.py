"""`beholder rubrics`: list, show, check, and start one of your own."""

from __future__ import annotations

import json
import os
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

    from beholder.cases import Case
    from beholder.rubrics.composing import Composer
    from beholder.rubrics.library import load_all
    from beholder.rubrics.rendering import system_text

    for rubric in load_all(name):
        fields = {field.name: "" for field in rubric.fields if field.required}
        if rubric.styles:
            fields["style"] = style
        settled = Composer(rubric, setting=setting).rubric_for(Case("shown", fields=fields))
        say(json.dumps(msgspec.to_builtins(settled)) if json_ else system_text(settled))


@app.command("check")
def check(
    paths: Annotated[list[str], typer.Argument(help="Folders, YAML files or names.")], json_: AsJson = False
) -> None:
    """Check rubrics and say what is wrong, with line and key."""
    from beholder.cli import WRONG_USE
    from beholder.errors import RubricError
    from beholder.rubrics.library import check as checked

    wrong = False
    for path in paths:
        problems: list[dict[str, object]] = []
        try:
            rubrics = checked(path)
            said = ", ".join(f"{one.name} {one.version}, {len(one.criteria)} criteria" for one in rubrics)
            report = f"{path}: sound ({said})"
        except RubricError as error:
            wrong = True
            report = str(error)
            problems = [{"line": one.line, "key": one.key, "message": one.message} for one in error.problems]
        say(json.dumps({"path": path, "problems": problems}) if json_ else report)
    raise typer.Exit(WRONG_USE if wrong else 0)


@app.command("new")
def new(name: Annotated[str, typer.Argument(help="The folder to make; its last part is the rubric's name.")]) -> None:
    """Write a commented start for a rubric of your own."""
    from beholder.rubrics.checking import is_name

    folder = Path(name)
    if os.path.lexists(folder):
        raise UsageError(f"{name!r} exists already; choose another name.")
    if not is_name(folder.name):
        allowed = "lower-case letters, digits and hyphens, such as my-rubric"
        raise UsageError(f"{folder.name!r} cannot be the name of a rubric: it is {allowed}.")
    start = files("beholder.rubrics").joinpath("builtin/_shared/start.yaml").read_text("utf-8")
    text = start.replace("rubric: my-rubric", f'rubric: "{folder.name}"')  # in quotes: 7 and null are names too
    try:
        folder.mkdir(parents=True)
        (folder / "rubric.yaml").write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"{name!r} cannot be written: {error.strerror or error}.") from None
    say(f"Wrote {folder / 'rubric.yaml'}. Edit it, then: beholder rubrics check {name}")
