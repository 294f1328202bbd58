"""`beholder score`: answers that exist already, scored again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.calibration_options import Anyway, CalibrationAt, FeaturesAt
from beholder.errors import UsageError
from beholder.reports.terminal import printable, say

if TYPE_CHECKING:
    from beholder.verdicts.model import Verdict

LISTED = 10
TABLE = "table"


def score(
    answers: Annotated[
        Path,
        typer.Argument(
            help='One JSON object a line: {"case", "answer", "fields", "judge"}, or an answer itself; - for stdin.'
        ),
    ],
    rubric: Annotated[str, typer.Option(help="The rubric that was asked.")],
    setting: Annotated[str, typer.Option(help="online or offline; without it each answer says so itself.")] = "",
    styles: Annotated[list[Path] | None, typer.Option(help="A folder with styles of your own.")] = None,
    threshold: Annotated[float | None, typer.Option(help="The score (0 to 1) from which a case passes.")] = None,
    gate: Annotated[list[str] | None, typer.Option(help="A finding that fails a case: hallucinations.")] = None,
    not_applicable: Annotated[str | None, typer.Option(help="N/A answers: accept, offer or refuse.")] = None,
    calibration: CalibrationAt = None,
    features: FeaturesAt = None,
    anyway: Anyway = False,
    full: Annotated[bool, typer.Option("--full", help="Show passed assertions on the cards too.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print verdicts as JSON, one a line.")] = False,
    format_: Annotated[str, typer.Option("--format", help="table, card, json or seed.")] = TABLE,
) -> None:
    """Score recorded answers again and show what was corrected and flagged."""
    from beholder.cli import UNSCORED, WRONG_USE
    from beholder.cli.options import rescored
    from beholder.cli.output import Format, show
    from beholder.judges.recorded import Rescorer, read_recorded
    from beholder.rubrics.library import load_all

    if format_ not in (TABLE, *Format):
        raise UsageError(f"--format is one of {', '.join((TABLE, *Format))}, not {format_!r}.")
    form = Format.JSON if json_ else None if format_ == TABLE else Format(format_)
    rubrics = [rescored(one, threshold, gate or (), not_applicable) for one in load_all(rubric)]
    family = len(rubrics) > 1
    rescorers = [Rescorer(one, setting=setting, style_folders=styles or [], family=family) for one in rubrics]
    summary, malformed = Summary(), Malformed()
    apply = _calibrating(calibration, features, anyway)
    for recorded in read_recorded(answers, malformed.add):
        judged = [rescorer.verdict(recorded) for rescorer in rescorers]
        for verdict, (_, settled) in zip(apply([one for one, _ in judged]), judged, strict=True):
            summary.add(verdict)
            if form is not None:
                show([(verdict, settled)], form, full=full)
    if not summary.outcomes and not malformed.count:
        raise UsageError(f"{str(answers)!r} holds no answer; it should have one JSON object a line.")
    if form is None and summary.outcomes:
        summary.show()
    malformed.show()
    raise typer.Exit(WRONG_USE if malformed.count else UNSCORED if summary.unscored else 0)


def _calibrating(
    calibration: Path | None, features: Path | None, anyway: bool
) -> Callable[[list[Verdict]], list[Verdict]]:
    """What a calibration makes of the verdicts on one answer; nothing without one. No images are at hand here: what has
    to be measured on them is missing, and the verdict says so."""
    if calibration is None:
        if features is not None:
            raise UsageError("--features is for a calibration, and none is named: --calibration FILE.")
        return lambda verdicts: verdicts
    from beholder.cli.calibration_options import Applying
    from beholder.verdicts.calibrating import load_calibration

    loaded = load_calibration(calibration)
    if features is None:
        return Applying(loaded, {}, anyway).to_case
    from beholder.statistics.calibration import read_features

    return Applying(loaded, read_features(features), anyway).to_case


class Malformed:
    """Lines that are no recorded answers: how many, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, sentence: str) -> None:
        self.count += 1
        if len(self.first) < LISTED:
            self.first.append(sentence)

    def show(self) -> None:
        if not self.count:
            return
        lines = (
            "1 line is no recorded answer and was"
            if self.count == 1
            else f"{self.count:,} lines are no recorded answers and were"
        )
        say(f"beholder: {lines} left out:", error=True)
        for sentence in self.first:
            say(f"  {printable(sentence)}", error=True)
        if self.count > len(self.first):
            say(f"  and {self.count - len(self.first):,} more", error=True)


class Summary:
    """What the answers came to, kept small however many there are."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.flags: Counter[str] = Counter()
        self.corrected: Counter[str] = Counter()
        self.sums: dict[tuple[str, str], tuple[float, int]] = {}
        self.first_unscored: list[str] = []
        self.unscored = 0
        self.uncalibrated: Counter[str] = Counter()

    def add(self, verdict: Verdict) -> None:
        self.outcomes[verdict.rubric, str(verdict.outcome)] += 1
        self.flags.update({flag.flag for flag in verdict.flags})
        self.corrected.update({one.at.rpartition(".")[2] for one in verdict.corrections})
        if verdict.lack:
            self.unscored += 1
            if len(self.first_unscored) < LISTED:
                self.first_unscored.append(f"{verdict.case} ({verdict.rubric}): {verdict.lack[:300]}")
        values = {key: result.score for key, result in verdict.criteria.items()} | {"score": verdict.score}
        self.uncalibrated.update(one.why for one in verdict.calibrated.values() if one.value is None)
        values |= {f"{key}, calibrated": people.value for key, people in verdict.calibrated.items()}
        for key, value in values.items():
            if value is not None:
                total, count = self.sums.get((verdict.rubric, key), (0.0, 0))
                self.sums[verdict.rubric, key] = (total + value, count + 1)

    def show(self) -> None:
        from rich.console import Console
        from rich.table import Table

        console = Console(highlight=False, emoji=False)
        if self.sums:
            table = Table("rubric", "criterion", "scored", "mean", box=None, pad_edge=False)
            for (rubric, key), (total, count) in self.sums.items():
                table.add_row(rubric, key, str(count), f"{total / count:.3f}")
            console.print(table)
        say(_line("outcomes", {f"{rubric} {outcome}": n for (rubric, outcome), n in self.outcomes.items()}))
        say(_line("verdicts with a flag", self.flags))
        say(_line("verdicts with a correction", self.corrected))
        for why, count in self.uncalibrated.most_common(LISTED):
            console.print(printable(f"not calibrated, {count}: {why}"), style="yellow", markup=False)
        for line in self.first_unscored:
            console.print(f"  {printable(line)}", style="yellow", markup=False)


def _line(title: str, counts: dict[str, int] | Counter[str]) -> str:
    listed = ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda pair: -pair[1]))
    return f"{title}: {listed or 'none'}"
