"""A run against an older one, for its page: what `beholder compare` says, with the cases to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from beholder.ledger import Ledger, RunRecord
from beholder.reports import changes
from beholder.reports.html import charts
from beholder.reports.html.gathering import Gathered
from beholder.reports.html.texts import plain
from beholder.reports.numbers import shown
from beholder.statistics.comparison.comparing import GRADE, Asked, Change, Comparison, compare
from beholder.statistics.comparison.pedigree import differences, graded, read_run
from beholder.statistics.data import Kind

_ASSERTIONS = 12


@dataclass(frozen=True, slots=True)
class Row:
    """One column of the comparison: cells under `changes.HEADERS`, the difference drawn, and which way it went."""

    cells: tuple[str, ...]
    chart: Markup
    way: str


@dataclass(frozen=True, slots=True)
class Mover:
    """A case that changed much; `number` is its place on the page, if it has one."""

    case: str
    number: int | None
    by: str
    what: str


@dataclass(frozen=True, slots=True)
class Against:
    name: str
    verdict: str
    rows: tuple[Row, ...]
    movers: tuple[Mover, ...]
    notes: tuple[str, ...]
    told: str
    headers: tuple[str, ...] = changes.HEADERS


def comparison_of(ledger: Ledger, record: RunRecord, other: RunRecord, group: str | None = None) -> Comparison:
    """`record` as the newer run, `other` as the older. Raises `UsageError` where they have no case in common."""
    before, after = read_run(ledger, other.id), read_run(ledger, record.id)
    return compare(
        before.scores,
        after.scores,
        Asked(group=group),
        graded=graded(before, after),
        warnings=differences(before, after),
    )


def against(comparison: Comparison, other: RunRecord, gathered: Gathered) -> Against:
    """What the page shows of a comparison: all overall numbers and criteria, and assertions that surely changed."""
    main = comparison.of(Kind.OVERALL, Kind.PASSED, GRADE, Kind.CRITERION)
    turned = [one for one in comparison.of(Kind.ASSERTION) if one.shown][:_ASSERTIONS]
    place = {case: number for number, case in reversed(list(enumerate(gathered.index.case)))}
    movers = [
        Mover(
            one.case,
            place.get(plain(one.case)),
            f"{one.by:+.3f}",
            ", ".join(f"{plain(name)} {shown(old)} → {shown(new)}" for name, (old, new) in one.changes.items()),
        )
        for one in comparison.moved
    ]
    return Against(
        plain(other.name),
        plain(changes.verdict(comparison)),
        tuple(_rows([*main, *turned])),
        tuple(movers),
        tuple(plain(note) for note in changes.notes(comparison)),
        f"{comparison.told} {changes.TOLD}",
    )


def _rows(columns: Sequence[Change]) -> list[Row]:
    """Differences of one kind are drawn on one scale, with 0 in the middle."""
    widest: dict[str, float] = {}
    for one in columns:
        ends = (one.difference.value, one.difference.low, one.difference.high)
        widest[one.kind] = max([widest.get(one.kind, 0.0), *(abs(end) for end in ends if end is not None)])
    rows = []
    for one, cells in zip(columns, changes.rows(columns), strict=True):
        wide = widest[one.kind] or 1.0
        way = "worse" if one.down else "better" if one.up else ""
        chart = charts.strip(one.difference, (-wide * 1.1, wide * 1.1), middle=0.0)
        rows.append(Row(tuple(plain(cell) for cell in cells), chart, way))
    return rows
