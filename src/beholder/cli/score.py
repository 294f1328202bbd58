"""`beholder score`: answers that exist already, scored again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from beholder.rubrics.model import Rubric
    from beholder.verdicts.model import Verdict


def score(
    answers: Annotated[Path, typer.Argument(help='One JSON object a line: {"case", "answer", "fields", "judge"}.')],
    rubric: Annotated[str, typer.Option(help="The rubric that was asked.")],
    setting: Annotated[str, typer.Option(help="online or offline; without it each answer says so itself.")] = "",
    styles: Annotated[list[Path] | None, typer.Option(help="A folder with styles of your own.")] = None,
    threshold: Annotated[float | None, typer.Option(help="The score (0 to 1) from which a case passes.")] = None,
    gate: Annotated[list[str] | None, typer.Option(help="A finding that fails a case: hallucinations.")] = None,
    not_applicable: Annotated[str | None, typer.Option(help="N/A answers: accept, offer or refuse.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Show passed assertions on the cards too.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print verdicts as JSON, one a line.")] = False,
    format_: Annotated[str, typer.Option("--format", help="table, card, json or seed.")] = "table",
) -> None:
    """Score recorded answers again and show what was corrected and flagged."""
    from beholder.cli import UNSCORED
    from beholder.cli.options import rescored
    from beholder.cli.output import Format, show
    from beholder.judges.recorded import read_recorded
    from beholder.rubrics.library import load_all

    form = Format.JSON if json_ else None if format_ == "table" else Format.of(format_)
    rubrics = [rescored(one, threshold, gate or (), not_applicable) for one in load_all(rubric)]
    for _ in read_recorded(answers):  # a broken line is found before anything is printed
        pass
    tally = Tally()
    for verdict, settled in _verdicts(answers, rubrics, setting, styles or []):
        tally.add(verdict)
        if form is not None:
            show([verdict], [settled], form, full=full)
    if form is None:
        tally.show()
    raise typer.Exit(UNSCORED if tally.unscored else 0)


def _verdicts(
    answers: Path, rubrics: Sequence[Rubric], setting: str, styles: Sequence[Path]
) -> Iterator[tuple[Verdict, Rubric]]:
    from beholder.judges.recorded import Rescorer, read_recorded

    rescorers = [Rescorer(rubric, setting=setting, style_folders=styles) for rubric in rubrics]
    for recorded in read_recorded(answers):
        for rescorer in rescorers:
            yield rescorer.verdict(recorded)


class Tally:
    """What the answers came to, kept small however many there are."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.flags: Counter[str] = Counter()
        self.corrected: Counter[str] = Counter()
        self.sums: dict[tuple[str, str], tuple[float, int]] = {}
        self.invalid: list[str] = []
        self.unscored = 0

    def add(self, verdict: Verdict) -> None:
        self.outcomes[verdict.rubric, str(verdict.outcome)] += 1
        self.flags.update({flag.flag for flag in verdict.flags})
        self.corrected.update({one.at.rpartition(".")[2] for one in verdict.corrections})
        if not verdict.scored:
            self.unscored += 1
            if len(self.invalid) < 10:
                self.invalid.append(f"{verdict.case} ({verdict.rubric}): {verdict.outcome}, {verdict.detail}")
        values = {key: result.score for key, result in verdict.criteria.items()} | {"score": verdict.score}
        for key, value in values.items():
            if value is not None:
                total, count = self.sums.get((verdict.rubric, key), (0.0, 0))
                self.sums[verdict.rubric, key] = (total + value, count + 1)

    def show(self) -> None:
        from rich.console import Console
        from rich.table import Table

        from beholder.reports.terminal import printable

        console = Console(highlight=False)
        table = Table("rubric", "criterion", "scored", "mean", box=None, pad_edge=False)
        for (rubric, key), (total, count) in self.sums.items():
            table.add_row(rubric, key, str(count), f"{total / count:.3f}")
        console.print(table)
        console.print(_line("outcomes", {f"{rubric} {outcome}": n for (rubric, outcome), n in self.outcomes.items()}))
        console.print(_line("verdicts with a flag", self.flags))
        console.print(_line("verdicts with a correction", self.corrected))
        for line in self.invalid:
            console.print(f"  {printable(line)[:300]}", style="yellow", markup=False)


def _line(title: str, counts: dict[str, int] | Counter[str]) -> str:
    listed = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))
    return f"{title}: {listed or 'none'}"
