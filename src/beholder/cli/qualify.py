"""`beholder qualify`: an exam for judges, and their report cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli import MISSED, UNSCORED
from beholder.cli.suite_flags import takes_flags
from beholder.errors import SetupError, UsageError
from beholder.reports.terminal import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beholder.judges.protocol import Judge
    from beholder.ledger import Ledger
    from beholder.qualify.card import Card
    from beholder.qualify.sitting import Exam, Sheet
    from beholder.rubrics.model import Rubric
    from beholder.runs.budget import Budget

USUAL = ("edit-preservation", "restyle", "description")
FOLDER = Path("exam")


@takes_flags(
    *("base_url", "key_variable", "param", "price_input", "price_output", "max_side", "detail", "concurrency"),
    *("requests_per_minute", "tokens_per_minute", "timeout", "total_timeout", "budget", "tag", "ledger"),
)
def qualify(
    flags: dict[str, Any],
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN...]", help="Sittings to show again; several side by side.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="Who sits the exam: PROVIDER:MODEL, or instruments.")] = None,
    rubric: Annotated[
        list[str] | None,
        typer.Option(help=f"A rubric to be examined in; else {', '.join(USUAL)}.", show_default=False),
    ] = None,
    photos: Annotated[
        list[Path] | None, typer.Option(help="Photographs, or a folder of them; else those of the demo.")
    ] = None,
    size: Annotated[str, typer.Option(help="How many papers: quick, usual or full.")] = "usual",
    seed: Annotated[int, typer.Option(help="Which papers: the same seed sets the same exam, to the byte.")] = 0,
    folder: Annotated[Path, typer.Option(help="Where the papers are put.")] = FOLDER,
    fresh: Annotated[bool, typer.Option("--fresh", help="Sit it anew, and ask even what is answered already.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether it may cost money.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Show each kind and strength of damage.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 if a pass mark was missed.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let a judge sit an exam whose truth is known, and show its report card. No person is needed.

    Papers are made from photographs: known damage at graded strength, swaps, omissions, inventions, texts that demand
    full marks. What it would cost is shown first. Stopped or killed, the same command goes on where it was.

    Exit codes: 0; 1 with --strict, a pass mark was missed; 2 wrong use; 3 some papers have no answer.
    """
    from decimal import Decimal

    from beholder.judges.protocol import INSTRUMENTS
    from beholder.ledger import Ledger
    from beholder.qualify.planning import spent
    from beholder.qualify.sitting import sheets
    from beholder.runs.budget import Budget
    from beholder.runs.running import require_prices

    if runs:
        if judge is not None:
            raise UsageError("RUN shows earlier sittings, and --judge sits a new one; give one of them.")
        with Ledger.open(flags.get("ledger"), read_only=True) as ledger:
            cards = [_card(ledger, run) for run in runs]
        _show(cards, beside=len(cards) > 1, details=details, as_json=json_)
        unfinished = any(card.missing for card in cards)
        raise typer.Exit(MISSED if strict and any(card.failed for card in cards) else UNSCORED if unfinished else 0)
    judge = judge or INSTRUMENTS
    flags["judges"] = (judge,)
    chosen = _rubrics(rubric, judge)
    if not json_:
        _notes(chosen, photos or [])
    exams = [_exam(name, one, folder, photos or [], seed, size) for name, one in chosen]
    sittings = [sheets(exam, flags) for exam in exams]
    every = [sheet for sitting in sittings for sheet in sitting]
    require_prices(every[0].suite)
    _agreed(every, flags, fresh=fresh, yes=yes, quiet=quiet or json_)
    with Ledger.open(flags.get("ledger")) as ledger:
        budget = Budget(every[0].suite.budget_usd(), Decimal(0) if fresh else spent(every, ledger))
        sat = [_sit(sitting, ledger, budget, fresh=fresh, quiet=quiet or json_) for sitting in sittings]
        cards = [_card(ledger, first) for first, _ in sat]
    lacking = sum(unanswered for _, unanswered in sat)
    _show(cards, beside=False, details=details, as_json=json_)
    if lacking:
        have = "1 question has" if lacking == 1 else f"{lacking} questions have"
        say(f"beholder: {have} no answer; the same command asks again", error=True)
    missed = strict and any(card.failed for card in cards)
    raise typer.Exit(MISSED if missed else UNSCORED if lacking else 0)


def _rubrics(names: Sequence[str] | None, judge: str) -> list[tuple[str, Rubric]]:
    """The rubrics to be examined in, each with the name that a suite finds it by. Of those that one name stands for,
    the ones that the judge cannot answer are left out. Raises `SetupError` for a name of which it can answer none."""
    from beholder.judges.model import judge_from
    from beholder.judges.protocol import INSTRUMENTS, check_able
    from beholder.rubrics.library import load_all

    chosen: dict[str, Rubric] = {}
    for name in names or USUAL:
        rubrics = load_all(name)
        if judge == INSTRUMENTS:
            offline = judge_from(INSTRUMENTS)
            check_able([offline], rubrics)
            rubrics = tuple(one for one in rubrics if _can(offline, one))
        chosen |= {one.name if name != one.name and len(load_all(name)) > 1 else name: one for one in rubrics}
    return list(chosen.items())


def _can(judge: Judge, rubric: Rubric) -> bool:
    from beholder.judges.protocol import check_able

    try:
        check_able([judge], [rubric])
    except SetupError:
        return False
    return True


def _notes(chosen: Sequence[tuple[str, Rubric]], photos: Sequence[Path]) -> None:
    from beholder.qualify.papers import exam_notes

    for note in dict.fromkeys(note for _, one in chosen for note in exam_notes(one, photos)):
        say(note, error=True)


def _exam(name: str, rubric: Rubric, folder: Path, photos: Sequence[Path], seed: int, size: str) -> Exam:
    from beholder.cli.output import waiting
    from beholder.qualify.sitting import exam_in

    with waiting(f"setting the papers of {rubric.name}"):
        return exam_in(name, rubric, folder / rubric.name, photos=photos, seed=seed, size=size)


def _agreed(sheets: Sequence[Sheet], flags: dict[str, Any], *, fresh: bool, yes: bool, quiet: bool) -> None:
    """Shows what the exam would ask and cost, and asks whether it may. A judge that measures costs nothing, and with a
    budget the question is answered."""
    import asyncio

    from rich.console import Console

    from beholder.cli.output import waiting
    from beholder.cli.plan import ledger_of, show_judges
    from beholder.judges.protocol import INSTRUMENTS
    from beholder.qualify.planning import planned

    if flags["judges"] == (INSTRUMENTS,) or (yes and quiet):
        return
    ledger = ledger_of(sheets[0].suite)
    try:
        with waiting("making every brief"):
            whole = asyncio.run(planned(sheets, None if fresh else ledger, fresh=fresh))
    finally:
        if ledger:
            ledger.close()
    if not quiet:
        show_judges(Console(highlight=False, emoji=False, stderr=True), [whole])
    free = not whole.calls or whole.money_high == 0
    if yes or free or flags.get("budget") is not None:
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


def _sit(sheets: Sequence[Sheet], ledger: Ledger, budget: Budget, *, fresh: bool, quiet: bool) -> tuple[str, int]:
    """Lets the judge answer all sheets. The id of the first run, and how many questions have no answer."""
    from beholder.cli.run import carry_out
    from beholder.ledger.model import FINISHED
    from beholder.qualify.reading import sitting_tag
    from beholder.runs.running import checked_cases, record_for, seated
    from beholder.runs.sharing import Limits
    from beholder.verdicts.model import Outcome

    first, lacking = "", 0
    for sheet in sheets:
        limits = Limits(budget, whole=True)  # it is for all sheets
        judges = seated(sheet.suite, limits)
        checked = checked_cases(sheet.suite)
        record, new = record_for(sheet.suite, ledger, checked, fresh=fresh)
        first = first or record.id
        if record.id != first:
            ledger.tag(record.id, sitting_tag(first))
        if not quiet:
            going_on = "" if new else ", going on"
            say(f"{record.name}: {record.total} papers, run {record.id}{going_on}", error=True)
        state, _ = carry_out(sheet.suite, ledger, record, checked, judges, limits, new=new, quiet=quiet, as_json=False)
        if state != FINISHED:
            say("interrupted; the same command (without --fresh) goes on where it was", error=True)
            raise typer.Exit(UNSCORED)
        outcomes = ledger.tally(record.id).outcomes
        lacking += sum(outcomes.values()) - outcomes[Outcome.SCORED]
    return first, lacking


def _card(ledger: Ledger, run: str) -> Card:
    from beholder.qualify.marking import card_of
    from beholder.qualify.reading import sitting

    return card_of(sitting(ledger, run))


def _show(cards: Sequence[Card], *, beside: bool, details: bool, as_json: bool) -> None:
    from beholder.reports.exam_card import show_beside, show_card

    if as_json:
        typer.echo(json.dumps({"cards": [card.to_dict() for card in cards]}, ensure_ascii=False))
    elif beside:
        show_beside(cards)
    else:
        for card in cards:
            show_card(card, details=details)
