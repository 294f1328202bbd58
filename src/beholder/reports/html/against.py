"""A run against an older one, for its page: what `beholder compare` says, with the cases to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from beholder.ledger import Ledger, RunRecord
from beholder.reports import changes
from beholder.reports.html import charts
from beholder.reports.html.gathering import Gathered
from beholder.reports.html.texts import column_title, minus, name_of, plain, titles_of
from beholder.statistics.comparison.comparing import GRADE, Asked, Change, Comparison, compare
from beholder.statistics.comparison.pedigree import differences, graded, read_run
from beholder.statistics.data import Kind

_ASSERTIONS = 12


@dataclass(frozen=True, slots=True)
class Row:
    """One column of the comparison: cells under `changes.HEADERS`, the difference drawn, which way it went, and of an
    assertion what it asks."""

    cells: tuple[str, ...]
    chart: Markup
    way: str
    about: str


@dataclass(frozen=True, slots=True)
class Mover:
    """A case that changed much; `number` is its place on the page, if it has one, `what` each number that changed,
    `shots` its pictures: what each is, and its digest."""

    case: str
    number: int | None
    by: str
    what: tuple[str, ...]
    shots: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of two runs of a ledger, its columns called as people call them. `shots` are the pictures of the
    cases that changed most, as in `Mover`."""

    comparison: Comparison
    shots: Mapping[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Against:
    name: str
    verdict: str
    rows: tuple[Row, ...]
    movers: tuple[Mover, ...]
    notes: tuple[str, ...]
    told: str
    headers: tuple[str, ...] = changes.HEADERS


def comparison_of(ledger: Ledger, record: RunRecord, other: RunRecord, group: str | None = None) -> Compared:
    """`record` as the newer run, `other` as the older. Raises `UsageError` where they have no case in common."""
    before, after = read_run(ledger, other.id), read_run(ledger, record.id)
    found = compare(
        before.scores,
        after.scores,
        Asked(group=group),
        graded=graded(before, after),
        warnings=differences(before, after),
    )
    titles = titles_of((*other.rubrics, *record.rubrics))
    cases = [one.case for one in found.moved]
    return Compared(
        changes.labelled(found, lambda name: column_title(name, titles)), _shots(ledger, record, other, cases)
    )


def _shots(
    ledger: Ledger, record: RunRecord, other: RunRecord, cases: Sequence[str]
) -> dict[str, tuple[tuple[str, str], ...]]:
    """By case what went in, and what came out before and now; as far as the ledger keeps it."""
    old, new = (
        {one.verdict.case: one.verdict.images for one in ledger.judged_on(run.id, cases) if one.verdict.images}
        for run in (other, record)
    )
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for case, images in new.items():
        shots = [(name_of(images[0].role), images[0].source_digest)] if len(images) > 1 else []
        last, now = (old[case][-1] if case in old else None), images[-1]
        if last is None or last.source_digest == now.source_digest:
            shots.append(("Both runs" if last else "Now", now.source_digest))
        else:
            shots += [("Before", last.source_digest), ("Now", now.source_digest)]
        kept = ledger.has_thumbnail([digest for _, digest in shots])
        found[case] = tuple((what, digest) for what, digest in shots if digest in kept)
    return found


def against(compared: Compared, other: RunRecord, gathered: Gathered) -> Against:
    """What the page shows of a comparison: all overall numbers and criteria, and assertions that surely changed. The
    pictures of its cases are among those of the page."""
    comparison = compared.comparison
    for shots in compared.shots.values():
        for _, digest in shots:
            gathered.pictures.setdefault(digest, len(gathered.pictures))
    main = comparison.of(Kind.OVERALL, Kind.PASSED, GRADE, Kind.CRITERION)
    turned = [one for one in comparison.of(Kind.ASSERTION) if one.shown][:_ASSERTIONS]
    place = {case: number for number, case in reversed(list(enumerate(gathered.index.case)))}
    movers = [
        Mover(
            one.case,
            place.get(plain(one.case)),
            minus(f"{one.by:+.3f}"),
            tuple(f"{plain(name)} {_number(old)} → {_number(new)}" for name, (old, new) in one.changes.items()),
            compared.shots.get(one.case, ()),
        )
        for one in comparison.moved
    ]
    return Against(
        plain(other.name),
        minus(plain(changes.verdict(comparison))),
        tuple(_rows([*main, *turned])),
        tuple(movers),
        tuple(minus(plain(note)) for note in changes.notes(comparison)),
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
        rows.append(Row((plain(cells[0]), *(minus(cell) for cell in cells[1:])), chart, way, plain(one.about)))
    return rows


def _number(value: float) -> str:
    return minus(f"{round(value, 3) + 0.0:g}")
