"""`beholder rubrics` and `styles` (list, show, check, create), and `beholder demo`: a small suite with known faults."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from beholder.cli import EXIT_UNSCORED
from beholder.cli.options import JsonOption, complete_rubrics, complete_styles
from beholder.errors import Problem, RubricError, UsageError
from beholder.reports.text import print_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beholder.api.rubrics import RubricCheck
    from beholder.demo.cases import DemoSuite
    from beholder.demo.suite import DemoResult
    from beholder.ledger.types import StoredVerdict


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
    width = max(map(len, names), default=0) + 2
    for name, summary in names.items():
        print_text(f"{name:<{width}}{summary}")


@app.command("show")
def show_rubric(
    name: Annotated[str, typer.Argument(autocompletion=complete_rubrics)],
    style: Annotated[str, typer.Option(help="The style whose assertions are shown.")] = "Anime",
    setting: Annotated[str, typer.Option(help="The setting to show.")] = "",
    json_: JsonOption = False,
) -> None:
    """Show what a judge is told by a rubric."""
    if not json_:
        from beholder.api.rubrics import show_rubric as render

        print_text(render(name, style=style, setting=setting))
        return
    import msgspec

    from beholder.rubrics.brief import Composer
    from beholder.rubrics.load import load_rubrics

    for rubric in load_rubrics(name):
        settled = Composer(rubric, setting=setting).rubric_for_style(style)
        print_text(json.dumps(msgspec.to_builtins(settled)))


@app.command("check")
def check_rubrics(
    paths: Annotated[list[str], typer.Argument(help="Folders, YAML files or names.")], json_: JsonOption = False
) -> None:
    """Check rubrics and say what is wrong, with line and key."""
    from beholder.api.rubrics import RubricCheck, check_rubric
    from beholder.cli import EXIT_USAGE

    any_problem = False
    for path in paths:
        try:
            result = check_rubric(path)
            report = _describe_check(result)
        except UsageError as error:  # there is no such rubric
            report = str(error)
            result = RubricCheck(path, "", (), (Problem(report),), ())
        any_problem |= not result.sound
        print_text(json.dumps(result.to_dict()) if json_ else report)
    raise typer.Exit(EXIT_USAGE if any_problem else 0)


def _describe_check(result: RubricCheck) -> str:
    from beholder.verdicts.verdict import format_count

    if not result.sound:
        return str(RubricError(result.source, result.problems))
    names = ", ".join(
        f"{rubric.name} {rubric.version}, {format_count(len(rubric.criteria), 'criterion', 'criteria')}"
        for rubric in result.rubrics
    )
    return "\n".join((f"{result.path}: sound ({names})", *(f"  warning: {warning}" for warning in result.warnings)))


@app.command("new")
def new_rubric(
    name: Annotated[str, typer.Argument(help="The folder to make; its last part is the rubric's name.")],
    kind: Annotated[str, typer.Option(help="scores, or preference: which of two is better.")] = "scores",
) -> None:
    """Write a commented start for a rubric of your own."""
    from beholder.api.rubrics import new_rubric as write_rubric

    folder = write_rubric(name, kind=kind).parent
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
def show_style(
    context: typer.Context,
    name: Annotated[str, typer.Argument(autocompletion=complete_styles)],
    folders: StyleFolders = None,
    json_: JsonOption = False,
) -> None:
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


MAX_WIDTH = 120  # where the output is no terminal

_TONES = {"caught": "green", "fine": "green", "missed": "bold red", "false alarm": "bold red", "no opinion": "yellow"}


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to put the suite into.")] = Path(
        "beholder-demo"
    ),
    judge: Annotated[
        list[str] | None, typer.Option(help="Who judges: PROVIDER:MODEL; without one the offline judge.")
    ] = None,
    base_url: Annotated[
        list[str] | None, typer.Option(help="Where a compatible server answers; several share the requests.")
    ] = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Only build the suite.")] = False,
) -> None:
    """Build a small suite of restyles, edits and descriptions, judge it, and show what was caught and what was missed.

    Half of it is bad in a known way. Without --judge it needs no key and no network; with the extra `demo` it is about
    photographs in place of drawings.
    """
    from beholder.demo.suite import build_demo

    chapters = build_demo(folder)
    counts = ", ".join(f"{len(chapter.samples)} {chapter.name}" for chapter in chapters)
    typer.echo(f"{folder}: {counts}; README.txt says what is what.")
    if no_run:
        _print_next_steps(folder, judged=False)
        return
    judged = [(chapter, _judge_chapter(folder, chapter, judge or [], base_url)) for chapter in chapters]
    _print_chapter(judged)
    edits = next(chapter.samples for chapter in chapters if chapter.name == "edits")
    _print_next_steps(folder, judged=True, case=next(sample.id for sample in edits if sample.flaw))
    answered = all(stored.verdict.answered for _, verdicts in judged for stored in verdicts)
    raise typer.Exit(0 if answered else EXIT_UNSCORED)


def _judge_chapter(
    folder: Path, chapter: DemoSuite, judge: Sequence[str], base_url: Sequence[str] | None
) -> list[StoredVerdict]:
    """Run a suite of the demo, and return its verdicts from the ledger."""
    from beholder.api.execute import run
    from beholder.demo.suite import get_suite_path

    print(f"judging {len(chapter.samples)} {chapter.name} …", file=sys.stderr)
    place = {"base_url": base_url[0]} if base_url and len(base_url) == 1 else {"base_urls": base_url or None}
    judged = run(get_suite_path(folder, chapter), judge=list(judge) or None, progress=False, **place)
    with judged.open() as ledger:
        return list(ledger.stored_verdicts(judged.id))


def _print_chapter(chapters: Sequence[tuple[DemoSuite, Sequence[StoredVerdict]]]) -> None:
    """Print for each case, faulty ones first, its fault, the verdict and the reason."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from beholder.demo.suite import FAULT_RULES, count_results, summarize_verdict
    from beholder.reports.text import printable

    console = Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else MAX_WIDTH)
    everything: list[DemoResult] = []
    for chapter, verdicts in chapters:
        rows = sorted((summarize_verdict(stored) for stored in verdicts), key=lambda one: not one.flaw)
        everything += rows
        judges = ", ".join(dict.fromkeys(stored.verdict.judge for stored in verdicts))
        console.print(Text.assemble((f"\n{chapter.name.capitalize()}", "bold"), f", judged by {printable(judges)}"))
        console.print(Text(FAULT_RULES[chapter.rubric], "dim"))
        across = max(len(row.case) for row in rows)
        for row in rows:
            mark = (f"  {row.outcome:<11}  ", _TONES[row.outcome])
            console.print(
                Text.assemble(mark, f"{row.case:<{across}}  ", row.flaw or "good", (f"  → {row.numbers}", "dim"))
            )
            if row.reason:
                console.print(Padding(Text(printable(row.reason), "dim"), (0, 0, 0, 15), expand=False))
        console.print(Text(f"  {count_results(rows)}", "bold"))
    console.print(Text(f"\nIn all: {count_results(everything)}", "bold"))


def _print_next_steps(folder: Path, *, judged: bool, case: str = "") -> None:
    from beholder.demo.suite import LEDGER_NAME

    place = shlex.quote(str(folder))
    # uvx leaves no command on the PATH, and its environment goes with it.
    uvx = any(part.startswith("archive-v") for part in Path(sys.prefix).parts)
    beholder, web = ("uvx beholder", "uvx --from 'beholder[web]' beholder") if uvx else ("beholder", "beholder")
    needs = "" if uvx or find_spec("fastapi") is not None else ": pip install 'beholder[web]'"
    lines = [
        f"{beholder} demo {place} --judge openai:gpt-5-mini    # by a model, whose key is read from the environment",
        f"{beholder} init    # a suite of your own",
    ]
    if judged:
        ledger = shlex.quote(str(folder / LEDGER_NAME))
        lines[:0] = [
            f"{web} view --ledger {ledger}    # look at all of it in the browser{needs}",
            f"{beholder} report demo-restyles --ledger {ledger}    # one HTML file to send to a colleague",
            f"{beholder} show demo-edits {case} --ledger {ledger}    # one verdict in full",
        ]
    else:
        lines.insert(0, f"{beholder} demo {place}    # judge it offline")
    typer.echo("\nNext:\n" + "\n".join(f"  {line}" for line in lines))
