"""`beholder styles`: the styles that `restyle` knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from beholder.reports.terminal import say

app = typer.Typer(help="List and show styles.", invoke_without_command=True)

Folders = Annotated[list[Path] | None, typer.Option("--styles", help="A folder with styles of your own.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Given(NamedTuple):
    """What was said before the subcommand."""

    folders: tuple[Path, ...]
    json: bool


@app.callback()
def list_(context: typer.Context, folders: Folders = None, json_: AsJson = False) -> None:
    """List the styles, or show one: beholder styles show Anime."""
    context.obj = Given(tuple(folders or ()), json_)
    if context.invoked_subcommand:
        return
    from beholder.rubrics.library import styles

    found = styles(folders or ())
    if json_:
        say(json.dumps(list(found)))
        return
    for name, style in found.items():
        say(f"{name:<26}{_first_sentence(style.description)}")


@app.command("show")
def show(context: typer.Context, name: str, folders: Folders = None, json_: AsJson = False) -> None:
    """Show a style with its assertions; any other name shows the generic set."""
    import msgspec

    from beholder.rubrics.library import find_style, load

    given: Given = context.obj
    style = find_style(name, (*(folders or ()), *given.folders))
    if json_ or given.json:
        say(json.dumps(msgspec.to_builtins(style)))
        return
    say(f"{style.style}\n\n{style.description}")
    for title, points in (("Expect", style.expect), ("Acceptable", style.acceptable), ("Goes wrong", style.goes_wrong)):
        say(f"\n{title}")
        for point in points:
            say(f"  - {point}")
    for criterion in load("restyle").with_style(style).criteria:
        say(f"\n{criterion.name}")
        for one in criterion.assertions:
            say(f"  {one.id}. {one.text}{f' [{one.applies}]' if one.applies else ''}")


def _first_sentence(text: str) -> str:
    return text.split(". ")[0].rstrip(".")
