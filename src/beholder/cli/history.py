"""`beholder history`: all runs of a suite, and where it is going."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli.runs import AsJson, LedgerAt
from beholder.cli.statistics_options import DRAWS, SEED, DrawCount, GroupBy, Seed
from beholder.errors import UsageError
from beholder.reports.terminal import printable, say

if TYPE_CHECKING:
    from beholder.ledger import Ledger, RunRecord
    from beholder.statistics.comparison.history import Line

BARS = "▁▂▃▄▅▆▇█"


def history(
    suite: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The name of the runs; else that of the latest.", show_default=False),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Only runs with this tag; without NAME, all of them.")] = None,
    on: Annotated[list[str] | None, typer.Option(help="What to follow: score (default), or a criterion.")] = None,
    last: Annotated[int | None, typer.Option(min=1, help="Only so many runs, the newest.")] = None,
    group: GroupBy = None,
    seed: Seed = SEED,
    draws: DrawCount = DRAWS,
    ledger: LedgerAt = None,
    json_: AsJson = False,
) -> None:
    """Follow a suite over its runs: the mean of each, what changed from one to the next, and the trend."""
    from beholder.ledger import Ledger
    from beholder.statistics.comparison.history import history as followed
    from beholder.statistics.comparison.pedigree import differences, read_run
    from beholder.statistics.data import SOURCE
    from beholder.statistics.intervals import LEVEL

    with Ledger.open(ledger, read_only=True) as book:
        records = _chosen(book, suite, tag)[-(last or 0) :]
        told = [read_run(book, record.id) for record in records]
    lines = followed([one.scores for one in told], on or (), group=group, draws=draws, seed=seed)
    warnings = [
        f"{old.record.id} to {new.record.id}: {sentence}"
        for old, new in pairwise(told)
        for sentence in differences(old, new)
    ]
    if json_:
        runs = [{"run": one.id, "name": one.name, "created": one.created.isoformat()} for one in records]
        say(json.dumps({"runs": runs, "lines": [line.to_dict() for line in lines], "warnings": warnings}))
        return
    for line in lines:
        _show(line, records)
    for sentence in dict.fromkeys(warnings):
        say(printable(f"Not like with like: {sentence}"))
    kept = group or SOURCE
    grouped = any(kept in one.scores.groups for one in told)
    together = f"cases of one {kept} together" if grouped else "each case independent of the others"
    say(
        f"Intervals are {LEVEL:.0%} bootstrap, {draws:,} draws (seed {seed}), {together}. A change is to the run "
        "before, over the cases of both; p is the chance of one as large if nothing had changed."
    )


def sparkline(values: list[float | None]) -> str:
    """A bar for each, from the lowest to the highest; a blank where there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, width = min(known), max(known) - min(known)
    return "".join(
        " " if value is None else BARS[round((value - low) / width * (len(BARS) - 1)) if width > 0 else 3]
        for value in values
    )


def _chosen(book: Ledger, suite: str | None, tag: str | None) -> list[RunRecord]:
    """The runs, the oldest first."""
    records = book.runs(tag=tag)
    if suite is None and tag is None and records:
        suite = records[0].name
    found = [one for one in records if suite is None or suite in (one.name, one.suite.get("name"))]
    if not found:
        names = ", ".join(sorted({one.name for one in book.runs()})[:10]) or "none"
        wanted = " and ".join(f"{what} {name!r}" for what, name in (("the name", suite), ("the tag", tag)) if name)
        raise UsageError(f"No run has {wanted or 'a name'}; the names are: {names}.")
    return found[::-1]


def _show(line: Line, records: list[RunRecord]) -> None:
    from beholder.reports.changes import chance
    from beholder.reports.numbers import numbers_table, show_table, shown, with_interval

    rows = [
        (
            record.id,
            record.name,
            f"{record.created:%Y-%m-%d %H:%M}",
            f"{point.cases:,}",
            f"{point.without:,}",
            with_interval(point.mean),
            "–" if point.change is None else with_interval(point.change),
            chance(point.p),
        )
        for record, point in zip(records, line.points, strict=True)
    ]
    headers = ("run", "name", "started", "cases", "without", f"mean {line.name}", "change", "p")
    show_table(numbers_table(headers, rows))
    means = [point.mean.value for point in line.points]
    known = [value for value in means if value is not None]
    span = f"  {shown(min(known))} to {shown(max(known))}" if known else ""
    say(printable(f"{line.name}  {sparkline(means)}{span}"))
    say(_trend(line))
    say("")


def _trend(line: Line) -> str:
    from beholder.reports.numbers import with_interval

    if line.slope.value is None:
        return f"trend: not defined; {line.slope.why}."
    if line.slope.excludes_zero:
        sure = f"it goes {'down' if line.slope.value < 0 else 'up'}"
    elif line.slope.value == line.slope.low == line.slope.high == 0:
        sure = "it stays where it is"
    else:
        sure = "no trend that these cases could show"
    return f"trend: {with_interval(line.slope, 4)} a run over the {line.common:,} cases that all runs have; {sure}."
