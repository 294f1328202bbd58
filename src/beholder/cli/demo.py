"""`beholder demo`: build a small suite with known faults, judge it, and show what was found."""

from __future__ import annotations

import io
import json
import shlex
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli import EXIT_UNSCORED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beholder.demo.cases import DemoSuite
    from beholder.demo.suite import DemoResult
    from beholder.ledger.types import StoredVerdict


MAX_WIDTH = 120  # where the output is no terminal

_TONES = {"caught": "green", "fine": "green", "missed": "bold red", "false alarm": "bold red", "no opinion": "yellow"}


def demo(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to put the suite into.")],
    judge: Annotated[
        list[str] | None, typer.Option(help="Who judges: PROVIDER:MODEL; without one the offline judge.")
    ] = None,
    base_url: Annotated[
        list[str] | None, typer.Option(help="Where a compatible server answers; several share the requests.")
    ] = None,
    no_run: Annotated[bool, typer.Option("--no-run", help="Only build the suite.")] = False,
) -> None:
    """Build a small suite of restyles, edits and descriptions, judge it, and show what was caught and what was missed.

    Half of it is bad in a known way. Needs the extra `demo`; without --judge no key and no network.
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
    _print_next_steps(folder, judged=True)
    scored = all(stored.verdict.scored for _, verdicts in judged for stored in verdicts)
    raise typer.Exit(0 if scored else EXIT_UNSCORED)


def _judge_chapter(
    folder: Path, chapter: DemoSuite, judge: Sequence[str], base_url: list[str] | None
) -> list[StoredVerdict]:
    """Run a suite of the demo as `beholder run --json` does, and return its verdicts from the ledger."""
    from beholder.cli.run import run
    from beholder.demo.suite import LEDGER_NAME, get_suite_path
    from beholder.ledger.ledger import Ledger
    from beholder.ledger.types import FINISHED

    print(f"judging {len(chapter.samples)} {chapter.name} …", file=sys.stderr)
    lines = io.StringIO()
    with redirect_stdout(lines), suppress(typer.Exit):  # thresholds do not matter here; missing scores are shown below
        run(
            suite=get_suite_path(folder, chapter),
            judge=list(judge) or None,
            base_url=base_url,
            retry="",
            fresh=False,
            skip_bad=False,
            batch=False,
            quiet=True,
            json_=True,
        )
    summary = json.loads(lines.getvalue().splitlines()[-1])
    if summary["state"] != FINISHED:
        raise KeyboardInterrupt
    with Ledger.open(folder / LEDGER_NAME, read_only=True) as ledger:
        return list(ledger.stored_verdicts(summary["run"]))


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


def _print_next_steps(folder: Path, *, judged: bool) -> None:
    from beholder.demo.suite import LEDGER_NAME

    place = shlex.quote(str(folder))
    lines = [
        f"beholder demo {place} --judge openai:gpt-5-mini    # by a model, whose key is read from the environment",
        "beholder init    # a suite of your own",
    ]
    if judged:
        ledger = shlex.quote(str(folder / LEDGER_NAME))
        lines[:0] = [
            f"beholder view --ledger {ledger}    # look at all of it in the browser",
            f"beholder report demo-restyles --ledger {ledger}    # one HTML file to send to a colleague",
            f"beholder show demo-edits motorcycle/blue-cast --ledger {ledger}    # one verdict in full",
        ]
    else:
        lines.insert(0, f"beholder demo {place}    # judge it offline")
    typer.echo("\nNext:\n" + "\n".join(f"  {line}" for line in lines))
