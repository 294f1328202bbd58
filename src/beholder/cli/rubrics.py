"""`beholder rubrics` (list, show, check, create) and `beholder styles` (list and show the styles of `restyle`)."""

from __future__ import annotations

import json
import os
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from beholder.cli.options import JsonOption
from beholder.errors import UsageError
from beholder.reports.text import print_text

app = typer.Typer(help="List, show, check and start rubrics.", invoke_without_command=True)


@app.callback()
def list_rubrics(context: typer.Context, json_: JsonOption = False) -> None:
    """List the rubrics."""
    if context.invoked_subcommand:
        return
    from beholder.rubrics.load import list_rubrics

    names = list_rubrics()
    if json_:
        print_text(json.dumps(names))
        return
    for name, summary in names.items():
        print_text(f"{name:<22}{summary}")


@app.command("show")
def show_rubric(
    name: str,
    style: Annotated[str, typer.Option(help="The style whose assertions are shown.")] = "Anime",
    setting: Annotated[str, typer.Option(help="The setting to show.")] = "",
    json_: JsonOption = False,
) -> None:
    """Show what a judge is told by a rubric."""
    import msgspec

    from beholder.rubrics.brief import Composer
    from beholder.rubrics.load import load_rubrics
    from beholder.rubrics.prompt import render_system_prompt

    for rubric in load_rubrics(name):
        settled = Composer(rubric, setting=setting).rubric_for_style(style)
        print_text(json.dumps(msgspec.to_builtins(settled)) if json_ else render_system_prompt(settled))


@app.command("check")
def check_rubrics(
    paths: Annotated[list[str], typer.Argument(help="Folders, YAML files or names.")], json_: JsonOption = False
) -> None:
    """Check rubrics and say what is wrong, with line and key."""
    from beholder.cli import EXIT_USAGE
    from beholder.errors import Problem, RubricError
    from beholder.rubrics.load import check_rubrics as checked
    from beholder.verdicts.verdict import format_count

    any_problem = False
    for path in paths:
        problems: tuple[Problem, ...] = ()
        try:
            rubrics = checked(path)
            names = ", ".join(
                f"{rubric.name} {rubric.version}, {format_count(len(rubric.criteria), 'criterion', 'criteria')}"
                for rubric in rubrics
            )
            report = f"{path}: sound ({names})"
        except UsageError as error:
            any_problem = True
            report = str(error)
            problems = error.problems if isinstance(error, RubricError) else (Problem(report),)
        listed = [{"line": problem.line, "key": problem.key, "message": problem.message} for problem in problems]
        print_text(json.dumps({"path": path, "problems": listed}) if json_ else report)
    raise typer.Exit(EXIT_USAGE if any_problem else 0)


@app.command("new")
def new_rubric(
    name: Annotated[str, typer.Argument(help="The folder to make; its last part is the rubric's name.")],
) -> None:
    """Write a commented start for a rubric of your own."""
    from beholder.rubrics.load import list_rubrics
    from beholder.rubrics.validate import is_rubric_name

    folder = Path(name)
    if os.path.lexists(folder):
        raise UsageError(f"{name!r} exists already; choose another name.")
    if not is_rubric_name(folder.name):
        allowed = "lower-case letters, digits and hyphens, such as my-rubric"
        raise UsageError(f"{folder.name!r} cannot be the name of a rubric: it is {allowed}.")
    if folder.name in list_rubrics():
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
    print_text(f"Wrote {folder / 'rubric.yaml'}. Edit it, then: beholder rubrics check {shlex.quote(str(path))}")


styles_app = typer.Typer(help="List and show styles.", invoke_without_command=True)

StyleFolders = Annotated[list[Path] | None, typer.Option("--styles", help="A folder with styles of your own.")]


class StylesOptions(NamedTuple):
    """Options given before the subcommand: `beholder styles --json show Anime`."""

    folders: tuple[Path, ...]
    json: bool


@styles_app.callback()
def list_styles(context: typer.Context, folders: StyleFolders = None, json_: JsonOption = False) -> None:
    """List the styles, or show one: beholder styles show Anime."""
    context.obj = StylesOptions(tuple(folders or ()), json_)
    if context.invoked_subcommand:
        return
    from beholder.rubrics.load import load_styles

    styles = load_styles(folders or ())
    if json_:
        print_text(json.dumps(list(styles)))
        return
    for name, style in styles.items():
        print_text(f"{name:<26}{_first_sentence(style.description)}")


@styles_app.command("show")
def show_style(context: typer.Context, name: str, folders: StyleFolders = None, json_: JsonOption = False) -> None:
    """Show a style with its assertions; any other name shows the generic set."""
    import msgspec

    from beholder.rubrics.load import find_style, load_rubric

    given: StylesOptions = context.obj
    style = find_style(name, (*(folders or ()), *given.folders))
    if json_ or given.json:
        print_text(json.dumps(msgspec.to_builtins(style)))
        return
    print_text(f"{style.style}\n\n{style.description}")
    for title, points in (("Expect", style.expect), ("Acceptable", style.acceptable), ("Goes wrong", style.goes_wrong)):
        print_text(f"\n{title}")
        for point in points:
            print_text(f"  - {point}")
    for criterion in load_rubric("restyle").with_style(style).criteria:
        print_text(f"\n{criterion.name}")
        for assertion in criterion.assertions:
            print_text(f"  {assertion.id}. {assertion.text}{f' [{assertion.applies}]' if assertion.applies else ''}")


def _first_sentence(text: str) -> str:
    return text.split(". ")[0].rstrip(".")
