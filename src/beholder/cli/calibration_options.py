"""What commands that calibrate, or apply a calibration, have in common: the options, and measuring with a bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.reports.terminal import printable, say

if TYPE_CHECKING:
    from beholder.cases import Case
    from beholder.ledger import Ledger, RunRecord
    from beholder.ledger.reading import Judged
    from beholder.verdicts.calibrating import Calibration
    from beholder.verdicts.model import Verdict

CalibrationAt = Annotated[
    Path | None,
    typer.Option("--calibration", help="Say what people would, too: a file of `calibrate`.", show_default=False),
]
FeaturesAt = Annotated[
    Path | None,
    typer.Option("--features", help="Further numbers: CSV or JSONL with case, NAME, …", show_default=False),
]
Anyway = Annotated[
    bool,
    typer.Option(
        "--anyway", help="Apply the calibration also to another rubric, style or judge than it was fitted for."
    ),
]

Values = dict[str, dict[str, float]]
LISTED = 3


@contextmanager
def bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr while a person looks, which is told how many are done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


def measured(cases: Iterable[Case], names: Collection[str] | None = None) -> Values:
    """What the instruments (these, or all) say of the images of cases, by case; what could not be measured is said."""
    from beholder.instruments.pixels import pair_of
    from beholder.statistics.calibration import measured_pixels

    pairs, failed = {}, {}
    for case in cases:
        roles = pair_of(list(case.images))
        if roles is None:
            failed[case.id] = "it has no two images to compare"
        else:
            pairs[case.id] = case.images[roles[0]], case.images[roles[1]]
    with bar("measuring", len(pairs)) as done:
        found, unread = measured_pixels(pairs, names, done=done)
    failed |= unread
    if failed:
        say(f"beholder: {len(failed)} of {len(failed) + len(found)} cases could not be measured:", error=True)
        for case_id, why in list(failed.items())[:LISTED]:
            say(printable(f"  {case_id}: {why}")[:300], error=True)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Applying:
    """A calibration over the verdicts of a run, with what it needs beyond them."""

    calibration: Calibration
    extra: Mapping[str, Mapping[str, float]]
    anyway: bool

    def __call__(self, verdicts: Iterable[Judged]) -> Iterator[Judged]:
        """The same, calibrated; verdicts on one case follow each other, and are taken together."""
        for _, judged in groupby(verdicts, key=lambda one: one.verdict.case):
            of_case = list(judged)
            for one, verdict in zip(of_case, self.to_case([one.verdict for one in of_case]), strict=True):
                yield replace(one, verdict=verdict)

    def to_case(self, verdicts: list[Verdict]) -> list[Verdict]:
        """The verdicts on one case, calibrated."""
        from beholder.verdicts.calibrating import calibrated

        known = self.extra.get(verdicts[0].case, {}) if verdicts else {}
        return calibrated(self.calibration, verdicts, known, anyway=self.anyway)


def applying(
    book: Ledger,
    record: RunRecord,
    calibration: Path | None,
    features: Path | None = None,
    *,
    anyway: bool = False,
    case: str | None = None,
) -> Applying | None:
    """The calibration in a file, ready for the verdicts of a run (or of one case of it): what it needs to know of the
    pixels is measured now. None without a file. Raises `UsageError`."""
    from beholder.errors import UsageError
    from beholder.verdicts.calibrating import load_calibration

    if calibration is None:
        if features is not None:
            raise UsageError("--features is for a calibration, and none is named: --calibration FILE.")
        return None
    loaded = load_calibration(calibration)
    extra: Values = {}
    if features is not None:
        from beholder.statistics.calibration import read_features

        extra = read_features(features)
    if loaded.pixels:
        cases = book.cases(record.id) if case is None else [book.case(record.id, case)]
        for case_id, values in measured(cases, loaded.pixels).items():
            extra[case_id] = {**extra.get(case_id, {}), **values}
    return Applying(loaded, extra, anyway)
