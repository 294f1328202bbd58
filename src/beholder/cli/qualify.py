"""`beholder qualify`: let a judge take an exam with known answers, and show its report card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli import EXIT_THRESHOLD, EXIT_UNSCORED
from beholder.cli.options import with_flags
from beholder.errors import SetupError, UsageError
from beholder.reports.text import print_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beholder.exam.exam import Exam, ExamSheet
    from beholder.exam.report_card import ReportCard
    from beholder.judges.base import Judge
    from beholder.ledger.ledger import Ledger
    from beholder.rubrics.rubric import Rubric
    from beholder.runs.limits import Budget


DEFAULT_RUBRICS = ("edit-preservation", "restyle", "description")
DEFAULT_FOLDER = Path("exam")


@with_flags(
    *("base_url", "key_variable", "param", "price_input", "price_output", "max_side", "detail", "concurrency"),
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
    from decimal import Decimal

    from beholder.exam.exam import make_sheets, sum_spent
    from beholder.judges.base import INSTRUMENTS
    from beholder.ledger.ledger import Ledger
    from beholder.runs.limits import Budget
    from beholder.runs.suite_judges import require_prices

    if runs:
        if judge is not None:
            raise UsageError("RUN shows earlier exam runs, and --judge starts one; give one of them.")
        with Ledger.open(flags.get("ledger"), read_only=True) as ledger:
            cards = [_load_card(ledger, run) for run in runs]
        _print_cards(cards, beside=len(cards) > 1, details=details, as_json=json_)
        unfinished = any(card.missing for card in cards)
        raise typer.Exit(
            EXIT_THRESHOLD if strict and any(card.failed for card in cards) else EXIT_UNSCORED if unfinished else 0
        )
    judge = judge or INSTRUMENTS
    flags["judges"] = (judge,)
    chosen = _select_rubrics(rubric, judge)
    if not json_:
        _print_notes(chosen, photos or [])
    exams = [_prepare_exam(name, asked, folder, photos or [], seed, size) for name, asked in chosen]
    sheets_by_exam = [make_sheets(exam, flags) for exam in exams]
    every = [sheet for sheets in sheets_by_exam for sheet in sheets]
    require_prices(every[0].suite)
    _confirm_cost(every, flags, fresh=fresh, yes=yes, quiet=quiet or json_)
    with Ledger.open(flags.get("ledger")) as ledger:
        budget = Budget(every[0].suite.budget_usd(), Decimal(0) if fresh else sum_spent(every, ledger))
        taken = [_run_exam(sheets, ledger, budget, fresh=fresh, quiet=quiet or json_) for sheets in sheets_by_exam]
        cards = [_load_card(ledger, first) for first, _ in taken]
    lacking = sum(unanswered for _, unanswered in taken)
    _print_cards(cards, beside=False, details=details, as_json=json_)
    if lacking:
        have = "1 question has" if lacking == 1 else f"{lacking} questions have"
        print_text(f"beholder: {have} no answer; the same command asks again", error=True)
    missed = strict and any(card.failed for card in cards)
    raise typer.Exit(EXIT_THRESHOLD if missed else EXIT_UNSCORED if lacking else 0)


def _select_rubrics(names: Sequence[str] | None, judge: str) -> list[tuple[str, Rubric]]:
    """Return the rubrics of the exam, each with the name that a suite finds it by.

    If a name stands for several rubrics, those that the judge cannot answer are skipped.

    Raises:
        SetupError: The judge can answer none of the rubrics of a name.
    """
    from beholder.judges.base import INSTRUMENTS, check_judges
    from beholder.judges.factory import judge_from
    from beholder.rubrics.load import load_rubrics

    chosen: dict[str, Rubric] = {}
    for name in names or DEFAULT_RUBRICS:
        rubrics = load_rubrics(name)
        if judge == INSTRUMENTS:
            offline = judge_from(INSTRUMENTS)
            check_judges([offline], rubrics)
            rubrics = tuple(rubric for rubric in rubrics if _is_able(offline, rubric))
        chosen |= {
            rubric.name if name != rubric.name and len(load_rubrics(name)) > 1 else name: rubric for rubric in rubrics
        }
    return list(chosen.items())


def _is_able(judge: Judge, rubric: Rubric) -> bool:
    from beholder.judges.base import check_judges

    try:
        check_judges([judge], [rubric])
    except SetupError:
        return False
    return True


def _print_notes(chosen: Sequence[tuple[str, Rubric]], photos: Sequence[Path]) -> None:
    from beholder.exam.exam import exam_notes

    for note in dict.fromkeys(note for _, rubric in chosen for note in exam_notes(rubric, photos)):
        print_text(note, error=True)


def _prepare_exam(name: str, rubric: Rubric, folder: Path, photos: Sequence[Path], seed: int, size: str) -> Exam:
    from beholder.cli.output import show_spinner
    from beholder.exam.exam import prepare_exam

    with show_spinner(f"setting the papers of {rubric.name}"):
        return prepare_exam(name, rubric, folder / rubric.name, photos=photos, seed=seed, size=size)


def _confirm_cost(sheets: Sequence[ExamSheet], flags: dict[str, Any], *, fresh: bool, yes: bool, quiet: bool) -> None:
    """Show what the exam would ask and cost, and ask for consent.

    The instruments cost nothing, and a budget is consent enough.
    """
    import asyncio

    from rich.console import Console

    from beholder.cli.output import show_spinner
    from beholder.cli.run import print_judge_plans
    from beholder.exam.exam import plan_sheets
    from beholder.judges.base import INSTRUMENTS
    from beholder.runs.execution import open_existing_ledger

    if flags["judges"] == (INSTRUMENTS,) or (yes and quiet):
        return
    ledger = open_existing_ledger(sheets[0].suite, read_only=True)
    try:
        with show_spinner("making every brief"):
            whole = asyncio.run(plan_sheets(sheets, None if fresh else ledger, fresh=fresh))
    finally:
        if ledger:
            ledger.close()
    if not quiet:
        print_judge_plans(Console(highlight=False, emoji=False, stderr=True), [whole])
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


def _run_exam(
    sheets: Sequence[ExamSheet], ledger: Ledger, budget: Budget, *, fresh: bool, quiet: bool
) -> tuple[str, int]:
    """Let the judge answer all sheets; return the id of the first run, and how many questions have no answer."""
    from beholder.cli.run import Output, execute_run
    from beholder.exam.results import sitting_tag
    from beholder.ledger.types import FINISHED
    from beholder.runs.execution import prepare_run
    from beholder.runs.limits import RunLimits
    from beholder.verdicts.verdict import Outcome

    first, lacking = "", 0
    for sheet in sheets:
        limits = RunLimits(budget, not_shared=True)  # the budget is for all sheets together
        with prepare_run(sheet.suite, ledger, fresh=fresh, limits=limits) as suite_run:
            record = suite_run.record
            first = first or record.id
            if record.id != first:
                ledger.tag(record.id, sitting_tag(first))
            if not quiet:
                resumed = "" if suite_run.is_new else ", resumed"
                print_text(f"{record.name}: {record.total} papers, run {record.id}{resumed}", error=True)
            state, _ = execute_run(suite_run, Output(quiet=quiet))
        if state != FINISHED:
            print_text("interrupted; run the same command again (without --fresh) to resume", error=True)
            raise typer.Exit(EXIT_UNSCORED)
        outcomes = ledger.tally(record.id).outcomes
        lacking += sum(outcomes.values()) - outcomes[Outcome.SCORED]
    return first, lacking


def _load_card(ledger: Ledger, run: str) -> ReportCard:
    from beholder.exam.grading import make_report_card
    from beholder.exam.results import load_results

    return make_report_card(load_results(ledger, run))


def _print_cards(cards: Sequence[ReportCard], *, beside: bool, details: bool, as_json: bool) -> None:
    from beholder.reports.cards import print_report_card, print_report_cards

    if as_json:
        typer.echo(json.dumps({"cards": [card.to_dict() for card in cards]}, ensure_ascii=False))
    elif beside:
        print_report_cards(cards)
    else:
        for card in cards:
            print_report_card(card, details=details)
