"""Report cards of judges, for a terminal: one in full, or several side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from beholder.qualify.card import PASS_MARKS, Detail, Examined, Mark, Standing
from beholder.reports.numbers import numbers_table, shown, with_interval
from beholder.reports.terminal import printable

if TYPE_CHECKING:
    from beholder.qualify.card import Card

WIDE = 120  # where nobody's terminal says how wide it is

_SIGNS = {Standing.PASSED: "✓", Standing.FAILED: "✗", Standing.NOT_EXAMINED: "–", Standing.NO_PASS_MARK: "·"}
_TONES = {Standing.PASSED: "green", Standing.FAILED: "bold red", Standing.NOT_EXAMINED: "yellow"}


def show_card(card: Card, *, details: bool = False) -> None:
    """Every criterion with its marks, each in a sentence; with `details` also each kind and strength of damage."""
    console = _console()
    judge = card.judge if card.model in (None, card.judge) else f"{card.judge} ({card.model})"
    console.print(Text.assemble("\n", (printable(f"{judge}: exam in {card.rubric}"), "bold")))
    told = (
        f"{card.papers} papers ({card.paper_set}) from {card.photographs} photographs, exam {card.exam}, run {card.run}"
    )
    console.print(Text(printable(told), "dim"))
    for criterion in card.criteria:
        marks = list(card.of(criterion).values())
        console.print(Text.assemble("\n", (criterion, "bold"), f"  {card.qualified(criterion)}"))
        console.print(_marks_table(marks))
        if details:
            _print_details(console, marks)
    console.print()
    for note in card.notes:
        console.print(Text(note, "dim"))
    console.print(Text(printable(card.told()), "bold"))


def show_beside(cards: Sequence[Card]) -> None:
    """The marks of several sittings in columns, one table for each rubric. Sittings of other papers are named."""
    console = _console()
    for rubric in dict.fromkeys(card.rubric for card in cards):
        beside = [card for card in cards if card.rubric == rubric]
        console.print(Text.assemble("\n", (printable(f"exam in {rubric}"), "bold")))
        rows = []
        for criterion in dict.fromkeys(one for card in beside for one in card.criteria):
            for examined in Examined:
                marks = [card.of(criterion).get(examined) for card in beside]
                if any(mark and mark.standing is not Standing.NOT_EXAMINED for mark in marks):
                    rows.append((f"{criterion}  {examined}", PASS_MARKS[examined].told(), *map(_cell, marks)))
        console.print(numbers_table(("criterion", "pass mark", *(f"{card.judge} {card.run}" for card in beside)), rows))
        if len({card.paper_set for card in beside}) > 1:
            told = ", ".join(f"{card.run} {card.papers} papers ({card.paper_set})" for card in beside)
            console.print(Text(f"These sittings had different papers, so their marks differ for that too: {told}."))
        for card in beside:
            console.print(Text(printable(card.told()), "bold"))


def _cell(mark: Mark | None) -> str:
    if mark is None or mark.estimate.value is None:
        return "–"
    return f"{with_interval(mark.estimate)} {_SIGNS[mark.standing]}"


def _marks_table(marks: Sequence[Mark]) -> Table:
    """A line for each mark; those without a number come last, together by their reason."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    for name in ("", "examined", "mark"):
        table.add_column(name, no_wrap=True)
    table.add_column("sentence", ratio=1)
    reasons: dict[str, list[str]] = {}
    for mark in marks:
        if mark.estimate.value is None:
            reasons.setdefault(mark.estimate.why, []).append(mark.examined)
            continue
        sign = Text(f" {_SIGNS[mark.standing]}", _TONES.get(mark.standing, ""))
        missed = f" The pass mark is {PASS_MARKS[mark.examined].told()}." if mark.standing is Standing.FAILED else ""
        sentence = Text(printable(mark.sentence + missed), "dim")
        table.add_row(sign, Text(mark.examined), Text(with_interval(mark.estimate)), sentence)
    for why, examined in reasons.items():
        told = Text(printable(f"{', '.join(examined)}: {why}."), "dim")
        table.add_row(Text(f" {_SIGNS[Standing.NOT_EXAMINED]}", "yellow"), Text("not examined"), Text(), told)
    return table


def _print_details(console: Console, marks: Sequence[Mark]) -> None:
    """Detection by kind and strength with the response to dose; and what moved a criterion that should have stayed."""
    by = {mark.examined: mark.details for mark in marks}
    found = by.get(Examined.DETECTION, ())
    if found:
        strengths = sorted({one.strength for one in found if one.strength is not None})
        doses = {one.kind: one for one in by.get(Examined.DOSE, ())}
        rows = []
        for kind in dict.fromkeys(one.kind for one in found):
            at = {one.strength: shown(one.estimate.value, 2) for one in found if one.kind == kind}
            dose = doses.get(kind)
            noticed = "–" if dose is None or dose.first is None else str(dose.first)
            rows.append((kind, *(at.get(one, "") for one in strengths), _dose(dose), noticed))
        heads = ("detection at strength", *map(str, strengths), "dose", "first noticed")
        console.print(Padding(numbers_table(heads, rows), (1, 0, 0, 3), expand=False))
    for examined in (Examined.INDEPENDENCE, Examined.INJECTION, Examined.PADDING):
        if by.get(examined):
            kinds = [(one.kind, str(one.papers), with_interval(one.estimate, 2)) for one in by[examined]]
            table = numbers_table((str(examined), "papers", "mark"), kinds)
            console.print(Padding(table, (1, 0, 0, 3), expand=False))


def _dose(detail: Detail | None) -> str:
    return "–" if detail is None else with_interval(detail.estimate, 2)


def _console() -> Console:
    return Console(highlight=False, emoji=False, width=None if sys.stdout.isatty() else WIDE)
