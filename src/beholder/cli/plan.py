"""`beholder plan`: what a run would do and cost, without a call."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beholder.cli.suite_flags import takes_a_suite

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from beholder.ledger import Ledger
    from beholder.runs.plan import JudgePlan, Plan
    from beholder.runs.suite import Suite


@takes_a_suite
def plan(
    suite: Suite,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Go on without cases that are wrong.")] = False,
    brief: Annotated[bool, typer.Option("--brief/--no-brief", help="Show the brief of one case.")] = True,
    exact: Annotated[bool, typer.Option("--exact", help="Make every brief, however many cases there are.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a run would ask and cost: cases, calls, tokens, money, and the brief of one case. Asks nobody.

    Every case is looked at. Of more than 2000 that are yet to be judged, 2000 drawn at random tell what all come to,
    and how far off that may be is said; --exact goes through all of them.
    """
    import asyncio

    from beholder.cli.output import brief_dict, show_brief, waiting
    from beholder.runs.plan import SAMPLE
    from beholder.runs.plan import plan as planned
    from beholder.runs.running import checked_cases

    checked = checked_cases(suite, skip_bad=skip_bad)
    ledger = ledger_of(suite)
    try:
        with waiting("making briefs"):
            result = asyncio.run(planned(suite, checked, ledger, most=None if exact else SAMPLE))
    finally:
        if ledger:
            ledger.close()
    if json_:
        shown = _dict(result)
        shown["left_out"] = len(checked.bad)
        shown["brief"] = brief_dict(result.example) if brief and result.example else None
        typer.echo(json.dumps(shown, ensure_ascii=False, default=str))
        return
    _show(result, suite, len(checked.bad))
    if brief and result.example:
        typer.echo("")
        show_brief(result.example)


def ledger_of(suite: Suite) -> Ledger | None:
    """The ledger if there is one; planning makes none."""
    from beholder.ledger import Ledger
    from beholder.ledger.places import exists_at

    place = suite.ledger_place()
    return Ledger.open(place, read_only=True) if exists_at(place) else None


def _dict(result: Plan) -> dict[str, Any]:
    from beholder.runs.plan import total

    money = total(result.judges)
    judges = [{**asdict(one), **{name: _float(getattr(one, name)) for name in _MONEY}} for one in result.judges]
    return {
        "cases": result.cases,
        "verdicts": result.verdicts,
        "done": result.done,
        "unreadable": result.unreadable,
        "run": result.run,
        "sampled": {"cases": result.made, "of": result.pending} if result.made < result.pending else None,
        "calls": sum(one.calls for one in result.judges),
        "answered": sum(one.answered for one in result.judges),
        "money_low": _float(money[0]) if money else None,
        "money_high": _float(money[1]) if money else None,
        "judges": judges,
    }


_MONEY = ("money_low", "money_high", "batch_low", "batch_high")


def _float(amount: object) -> float | None:
    return None if amount is None else float(str(amount))


def _show(result: Plan, suite: Suite, left_out: int) -> None:
    from rich.console import Console

    from beholder.runs.plan import total

    console = Console(highlight=False, emoji=False)
    rubrics = ", ".join(one.name for one in suite.rubrics())
    bad = f" ({left_out} left out: they are wrong)" if left_out else ""
    console.print(f"{result.cases} cases{bad}, {result.verdicts} verdicts by {rubrics}")
    if result.run:
        console.print(f"goes on with run {result.run}: {result.done} are done", markup=False)
    if not result.judges:
        console.print("no judge is named")
        return
    show_judges(console, result.judges)
    if result.made < result.pending:
        margin = 100 * max(one.margin for one in result.judges)
        console.print(
            f"Extrapolated from {result.made:,} of {result.pending:,} cases, drawn at random: what the calls come to "
            f"is within {margin:.2g} % of this, 95 times in 100. --exact makes every brief."
        )
    money_all = total(result.judges)
    if money_all is None:
        console.print("A model without a known price needs `price:` in the suite before a budget is accepted.")
    elif suite.budget is not None and money_all[1] > suite.budget:
        console.print(
            f"The budget of ${suite.budget:g} may stop it: it could cost ${money_all[1]:.4f}.", style="yellow"
        )


def show_judges(console: Console, judges: Sequence[JudgePlan]) -> None:
    """Calls, tokens and money, a line for each judge."""
    from rich.table import Table

    from beholder.runs.plan import NOTHING_SENT

    table = Table("judge", "calls", "in the ledger", "text tokens", "image tokens", "answer tokens", "USD", box=None)
    for one in judges:
        money = "unknown" if one.money_low is None else f"{one.money_low:.4f} – {one.money_high:.4f}"
        table.add_row(
            one.judge,
            f"{one.calls:,}",
            f"{one.answered:,}",
            f"~{one.text_tokens:,}",
            f"{one.image_tokens:,}",
            f"{one.output_low:,} – {one.output_high:,}",
            money,
        )
    console.print(table)
    for one in judges:
        rule = one.rule if one.rule == NOTHING_SENT else f"images by {one.rule}; text is an estimate"
        if one.rule:
            console.print(f"  {one.judge}: {rule}", style="dim", markup=False)
        if one.calls and one.batch_high is not None:
            console.print(f"  {one.judge}: USD {one.batch_low:.4f} – {one.batch_high:.4f} with --batch", markup=False)
