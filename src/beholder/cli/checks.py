"""`beholder qualify`, `measure` and `doctor`: examine a judge, two images, and the installation."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli import EXIT_INTERRUPTED
from beholder.cli.options import JsonOption, LedgerOption, with_flags
from beholder.errors import UsageError
from beholder.exam import DEFAULT_FOLDER, DEFAULT_RUBRICS
from beholder.reports.text import print_text, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from beholder.api.checks import Measurements
    from beholder.api.exam import ExamReport, ExamSitting
    from beholder.runs.execution import SuiteRun


@with_flags(
    *("base_url", "key_variable", "allow_http_key", "param", "price_input", "price_output", "structured_output"),
    *("max_side", "detail", "concurrency"),
    *("requests_per_minute", "tokens_per_minute", "timeout", "total_timeout", "budget", "tag", "ledger"),
)
def qualify(
    flags: dict[str, Any],
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN...]", help="Exam runs to show again; several side by side.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="Who takes the exam: PROVIDER:MODEL, or instruments.")] = None,
    rubric: Annotated[
        list[str] | None,
        typer.Option(help=f"A rubric to be examined in; else {', '.join(DEFAULT_RUBRICS)}.", show_default=False),
    ] = None,
    photos: Annotated[
        list[Path] | None, typer.Option(help="Photographs, or a folder of them; else those of the demo.")
    ] = None,
    size: Annotated[str, typer.Option(help="How many papers: quick, usual or full.")] = "usual",
    seed: Annotated[int, typer.Option(help="Which papers: the same seed sets the same exam, to the byte.")] = 0,
    folder: Annotated[Path, typer.Option(help="Where the papers are put.")] = DEFAULT_FOLDER,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Take it again, and ask even what is answered already.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether it may cost money.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Show each kind and strength of damage.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 if a pass mark was missed.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let a judge take an exam whose truth is known, and show its report card. No person is needed.

    Papers are made from photographs: known damage at graded strength, swaps, omissions, inventions, texts that demand
    full marks. What it would cost is shown first. If it was stopped, run the same
    command again to resume.

    Exit codes: 0; 1 with --strict, a pass mark was missed; 2 wrong use; 3 some papers have no answer.
    """
    from beholder.api.exam import ExamReport, ExamSitting
    from beholder.cli.output import RunOutput, show_spinner
    from beholder.judges.base import INSTRUMENTS

    if runs:
        if judge is not None:
            raise UsageError("RUN shows earlier exam runs, and --judge starts one; give one of them.")
        report = ExamReport.load(*runs, ledger=flags.get("ledger"))
        _print_cards(report, beside=len(report.cards) > 1, details=details, as_json=json_)
        raise typer.Exit(report.exit_code(strict=strict))
    with show_spinner("setting the papers"):
        sitting = ExamSitting.prepare(
            judge or INSTRUMENTS, flags, rubric or (), photos=photos or [], seed=seed, size=size, folder=folder
        )
    if not json_:
        for note in sitting.notes:
            print_text(note, error=True)
    if judge not in (None, INSTRUMENTS) and not (yes and (quiet or json_)):
        _confirm_cost(sitting, fresh=fresh, agreed=yes or flags.get("budget") is not None, quiet=quiet or json_)

    def announce(suite_run: SuiteRun) -> None:
        if not (quiet or json_):
            record, resumed = suite_run.record, "" if suite_run.is_new else ", resumed"
            print_text(f"{record.name}: {record.total} papers, run {record.id}{resumed}", error=True)

    try:
        report = sitting.take(RunOutput(quiet=quiet or json_, announce=announce), fresh=fresh)
    except KeyboardInterrupt:
        print_text("interrupted; run the same command again (without --fresh) to resume", error=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    _print_cards(report, beside=False, details=details, as_json=json_)
    if report.unanswered:
        have = "1 question has" if report.unanswered == 1 else f"{report.unanswered} questions have"
        print_text(f"beholder: {have} no answer; the same command asks again", error=True)
    raise typer.Exit(report.exit_code(strict=strict))


def _confirm_cost(sitting: ExamSitting, *, fresh: bool, agreed: bool, quiet: bool) -> None:
    """Show what the exam would ask and cost, and ask for consent, unless it is free or a budget was given."""
    from rich.console import Console

    from beholder.cli.output import show_spinner
    from beholder.cli.run import print_judge_plans

    with show_spinner("making every brief"):
        whole = sitting.plan(fresh=fresh)
    if not quiet:
        print_judge_plans(Console(highlight=False, emoji=False, stderr=True), [whole])
    if agreed or not whole.calls or whole.money_high == 0:
        return
    unknown = whole.money_high is None
    money = "at an unknown price" if unknown else f"for ${whole.money_low:.2f} to ${whole.money_high:.2f}"
    what = f"{whole.calls:,} questions {money}"
    try:
        agreed = typer.confirm(f"Ask {whole.judge} {what}?", err=True)
    except typer.Abort:
        raise UsageError(
            f"{whole.judge} would be asked {what}, and nobody was there to agree: add --yes, or --budget with the US "
            "dollars that it may cost."
        ) from None
    if not agreed:
        raise typer.Exit


def _print_cards(report: ExamReport, *, beside: bool, details: bool, as_json: bool) -> None:
    from beholder.reports.cards import print_report_card, print_report_cards

    if as_json:
        typer.echo(json.dumps(report.to_dict(), ensure_ascii=False))
    elif beside:
        print_report_cards(report.cards)
    else:
        for card in report.cards:
            print_report_card(card, details=details)


ARROWS = {"higher": "↑", "lower": "↓", "": ""}


def measure(
    before: Annotated[str, typer.Argument(help="The image as it was.", show_default=False)],
    after: Annotated[
        str | None, typer.Argument(help="What was made of it; without it, the one image.", show_default=False)
    ] = None,
    mask: Annotated[
        str | None, typer.Option(help="An image that is white where the edit belongs; without one that is inferred.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A family or an instrument, such as colour; again for another.")
    ] = None,
    maps: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a picture of where it is, for each that has a map.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON object, without the maps.")] = False,
) -> None:
    """Measure what changed between two images, and how good the second one is; or how good one image is."""
    from beholder.api.checks import measure as measure_images

    result = measure_images(before, after, mask=mask, only=only or (), maps=maps)
    if json_:
        print_text(json.dumps(result.to_dict(), ensure_ascii=False))
        return
    _print_measurements(result)
    if maps is not None:
        print_text(_maps_sentence(result.maps, maps))


def _print_measurements(result: Measurements) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from beholder.api.checks import family_of
    from beholder.instruments.heatmap import format_value

    sizes = [f"{result.sources[role]} ({width}×{height})" for role, (width, height) in result.sizes.items()]
    mask = result.sources.get("mask")
    place = f"; the edit belongs where {mask} is white" if mask else "; where the edit belongs is inferred"
    print_text(printable(" → ".join(sizes) + (place if len(sizes) > 1 else "")))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("measured", no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("what it says")
    for family, members in groupby(result.values.values(), key=lambda one: family_of(one.name)):
        table.add_section()
        table.add_row(Text(printable(family).capitalize(), "bold"))
        for member in members:
            value = (
                Text("—", "dim") if member.value is None else Text(printable(format_value(member.value, member.unit)))
            )
            sentence = Text(printable(member.sentence), "dim" if member.value is None else "")
            name = Text(f"  {printable(member.name.partition('.')[2])}")
            table.add_row(name, value, ARROWS[member.better], sentence)
    console = Console(highlight=False, emoji=False)
    console.print(table)
    console.print(Text("↑ higher is better   ↓ lower is better   — no meaning here", "dim"))


def _maps_sentence(written: Mapping[str, Path], folder: Path) -> str:
    if not written:
        return "None of these measurements has a map here; no picture was written."
    names = ", ".join(path.name for path in written.values())
    return printable(f"Wrote {len(written)} {'map' if len(written) == 1 else 'maps'} to {folder}: {names}")


_MARKS = {"ok": "✓", "note": "·", "problem": "✗"}


def doctor(
    judge: Annotated[str | None, typer.Option(help="Also ask this judge one question about a small image.")] = None,
    base_url: Annotated[list[str] | None, typer.Option(help="Also ask whether a server answers here.")] = None,
    address: LedgerOption = None,
    timeout_s: Annotated[float, typer.Option("--timeout", help="Seconds to wait for the server.")] = 10.0,
    json_: JsonOption = False,
) -> None:
    """Check keys, decoders, the ledger and, when one is named, the judge's server. Exit code 2 when something is wrong.

    Keys are never shown. With --judge one small image is sent to the judge, with its key, and what works is said:
    images, structured output, token counts. That may cost a fraction of a cent.
    """
    from beholder.api.checks import run_checks
    from beholder.cli import EXIT_USAGE

    wrong = False
    for check in run_checks(judge, base_url or [], address, timeout_s):
        wrong = wrong or check.state == "problem"
        mark = _MARKS[check.state]
        print_text(json.dumps(check.to_dict()) if json_ else printable(f"{mark} {check.about}: {check.said}"))
    raise typer.Exit(EXIT_USAGE if wrong else 0)
