"""Page: the comparison of two runs: what changed, charts of it, and every case that changed, with its pictures.

The numbers of a comparison are computed once and cached, with a light table of all cases; a page of the list reads only
the verdicts that it shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from beholder.cases.case import FieldValue
from beholder.errors import LedgerError, UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports.comparison import (
    PAIR_LABELS,
    ComparisonSection,
    choose_pictures,
    compute_comparison,
    find_thumbnails,
    verdicts_by_case,
)
from beholder.reports.plots import (
    PlotBar,
    PlotPoint,
    describe_range,
    difference_bars,
    format_range,
    gather_points,
    scatter_plot,
)
from beholder.reports.text import criterion_titles, format_number, humanize, humanize_state, use_minus_sign
from beholder.statistics.bootstrap import EQUALITY_TOLERANCE
from beholder.statistics.case_changes import CaseChanges, ChangeKind, GroupChange, NumberRange, differs_by
from beholder.verdicts.verdict import Verdict, format_count
from beholder.web.background import (
    MANY_VERDICTS,
    BackgroundDep,
    BackgroundResults,
    CachedResult,
    ProgressCacheDep,
    run_in_process,
)
from beholder.web.pages.gallery import PageNumber, QueryGroups, QueryNumber, QueryText, QueryValues, parse_groups
from beholder.web.responses import (
    LedgerDep,
    Pages,
    RunName,
    find_run,
    format_short,
    make_url,
    paginate,
    parse_range,
    render_page,
)

router = APIRouter()

CASES_PER_PAGE = 24
BARS = 10  # on each side of no difference
REACHES = (0.05, 0.1, 0.25, 0.5, 1.0)  # ends of the axis of differences
MAX_GROUPS, MAX_GROUP_ROWS = 6, 24  # groups that are split by, and rows of each

LinkTo = Callable[..., str]  # the URL of a list of cases, by its query parameters

KIND_TITLES = {
    ChangeKind.WORSE: "Worse",
    ChangeKind.BETTER: "Better",
    ChangeKind.LOST: "Lost its score",
    ChangeKind.GAINED: "Has one now",
    ChangeKind.SAME: "Same",
}


@dataclass(frozen=True, slots=True)
class CaseQuery:
    """Which cases of a comparison a URL asks for, as its query parameters have them.

    Attributes:
        show: A `ChangeKind`, `all`, or empty for the first kind that there is.
        old: `LOW..HIGH`, where the score of the first run lies.
        new: The same for the second run.
        by: The same for the difference.
        group: NAME=VALUE, one for each name.
    """

    show: QueryText = ""
    old: QueryNumber = ""
    new: QueryNumber = ""
    by: QueryNumber = ""
    group: QueryGroups = ()

    @property
    def asked(self) -> QueryValues:
        groups = tuple(pair for pair in self.group if pair)
        return {"show": self.show, "old": self.old, "new": self.new, "by": self.by, "group": groups}

    def kind(self, counts: Mapping[ChangeKind, int]) -> ChangeKind | None:
        """Return the kind that is shown; None for all."""
        if self.show == "all" or (not self.show and (self.old or self.new or self.by)):
            return None
        if not self.show:
            return next((kind for kind in KIND_TITLES if counts[kind]), None)
        if self.show not in tuple(ChangeKind):
            raise UsageError(f"show is one of {', '.join(ChangeKind)}, all, not {self.show!r}.")
        return ChangeKind(self.show)


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A case in the list.

    Attributes:
        case: Its id.
        link: Its page in the newer run.
        old_link: Its page in the older run.
        before: Its score, or why it has none.
        after: The same in the newer run.
        by: The difference, with its sign; empty where there is none.
        what: Criteria that changed: title, before and after.
        fields: Texts of the case.
        given: Label and digest of the pictures that are not such a pair.
        pair: Digests of the pictures before and after, where they differ.
    """

    case: str
    link: str
    old_link: str
    before: str
    after: str
    by: str
    what: tuple[tuple[str, str, str], ...]
    fields: tuple[tuple[str, FieldValue], ...]
    given: tuple[tuple[str, str], ...] = ()
    pair: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class ChangeCharts:
    """The charts of a comparison. `cells` says that points are cells of a grid, `same` is a sentence on cases without a
    difference, which are not drawn."""

    scatter: Markup
    bars: Markup
    cells: bool
    same: str


@dataclass(frozen=True, slots=True)
class ChangeList:
    """The list of cases of a comparison: the tabs with their counts, the filters, and one page."""

    tabs: tuple[tuple[str, str, int, bool], ...]
    kind: str
    total: int
    pages: Pages
    cases: tuple[ShownChange, ...]
    groups: Mapping[str, tuple[str, ...]]
    asked_groups: Mapping[str, str]
    notes: tuple[str, ...]
    clear: str
    asked: QueryValues = field(default_factory=dict)


@router.get("/compare")
def compare_view(
    ledger: LedgerDep,
    background: BackgroundDep,
    progress_cache: ProgressCacheDep,
    wanted: Annotated[CaseQuery, Depends()],
    before: RunName = "",
    after: RunName = "",
    at: PageNumber = 1,
) -> HTMLResponse:
    """What changed from one run to another; without both, a form to choose them."""
    old, new = (find_run(ledger, name) if name else None for name in (before, after))
    every = ledger.runs()
    records = [record for record in every if not record.is_review]
    if new is not None and old is None:
        old = _previous_run(records, new)
    compared: CachedResult[ComparisonSection] | None = None
    why = ""
    if old is not None and new is not None and old.id != new.id:
        try:
            compared = cached_comparison(ledger, background, old, new)
        except LedgerError:
            raise
        except UsageError as error:  # they have no case in common: a sentence, and the choosers stay
            why = str(error)
    section = compared.value if compared else None
    values: dict[str, Any] = {"charts_of": None, "by_group": {}, "listed": None}
    if section is not None and section.changes is not None and old is not None and new is not None:
        values = _describe_cases(ledger, old, new, section.changes, wanted, at)
    answer = render_page(
        "compare.html",
        title="Compare",
        active_tab="Compare",
        runs=records,
        progress=progress_cache.load(ledger, every),
        old=old,
        new=new,
        why=why,
        asked=compared is not None,
        against=section,
        fresh=compared is None or compared.fresh,
        **values,
    )
    if compared is not None and not compared.fresh:
        answer.headers["Refresh"] = "1" if compared.value is None else "5"
    return answer


def cached_comparison(
    ledger: Ledger, background: BackgroundResults, old: RunRecord, new: RunRecord
) -> CachedResult[ComparisonSection]:
    """Return the comparison of two runs, if it is computed by now."""
    work = partial(compute_comparison, ledger.address, new.id, old.id)
    if new.total + old.total > MANY_VERDICTS:
        work = partial(run_in_process, work)
    return background.poll(("compare", old.id, new.id), (old.updated, new.updated), work)


def _previous_run(records: list[RunRecord], new: RunRecord) -> RunRecord | None:
    """Return the last earlier run of the same name."""
    ids = [record.id for record in records]
    older = records[ids.index(new.id) + 1 :] if new.id in ids else []
    return next((record for record in older if record.name == new.name), None)


def _describe_cases(
    ledger: Ledger, old: RunRecord, new: RunRecord, changes: CaseChanges, wanted: CaseQuery, at: int
) -> dict[str, Any]:
    """Return what the page shows of cases: charts, changes by group, and a page of the list."""
    base = {"before": old.id, "after": new.id}
    groups = parse_groups(wanted.group)
    counts = changes.counts(groups)
    kind = wanted.kind(counts)
    ranges = {name: parse_range(name, getattr(wanted, name)) for name in ("old", "new", "by")}
    rows = changes.select(kind, groups=groups, before=ranges["old"], after=ranges["new"], by=ranges["by"])
    asked = {**wanted.asked, "show": str(kind or "all")}

    def here(**other: object) -> str:
        return make_url("/compare", **base, **{**asked, "at": None, **other}) + "#cases"

    pages = paginate(len(rows), at, CASES_PER_PAGE, lambda at: here(at=at))
    tabs = [
        (title, here(show=str(one), old="", new="", by=""), counts[one], one is kind)
        for one, title in KIND_TITLES.items()
        if counts[one] or one is kind
    ]
    listed = ChangeList(
        tabs=tuple(tabs),
        kind=str(kind or "all"),
        total=len(rows),
        pages=pages,
        cases=tuple(_show_changes(ledger, old, new, changes, rows[pages.shown].tolist())),
        groups={name: known.values for name, known in changes.groups.items() if _can_choose(known.values)},
        asked_groups=groups,
        notes=tuple(_describe_ranges(ranges)),
        clear=make_url("/compare", **base) + "#cases",
        asked={**base, **asked},
    )
    return {
        "charts_of": _draw_charts(changes, lambda **other: make_url("/compare", **base, **other) + "#cases"),
        "by_group": _changes_by_group(changes, base),
        "listed": listed,
    }


def _can_choose(values: Sequence[str]) -> bool:
    return 1 < len(values) <= 200


def _describe_ranges(ranges: Mapping[str, NumberRange | None]) -> Iterable[str]:
    titles = {"old": "before", "new": "now", "by": "difference"}
    for name, ends in ranges.items():
        if ends is not None:
            yield use_minus_sign(f"{titles[name]} {describe_range(ends)}")


def _draw_charts(changes: CaseChanges, link: LinkTo) -> ChangeCharts:
    both = np.flatnonzero(~np.isnan(changes.by))
    points, cells = _scatter_points(changes, link)
    reach = next(
        (end for end in REACHES if not len(both) or np.abs(changes.by[both]).max() <= end + EQUALITY_TOLERANCE), 1.0
    )
    same = changes.counts()[ChangeKind.SAME]
    return ChangeCharts(
        scatter_plot(points, (0, 1), title="Scores before and now", names=("before", "now")),
        difference_bars(_difference_bars(changes, reach, link), reach, title="How many cases changed by how much"),
        cells,
        f"{format_count(same, 'case')} with the same score {'is' if same == 1 else 'are'} not among the bars."
        if same
        else "",
    )


def _scatter_points(changes: CaseChanges, link: LinkTo) -> tuple[list[PlotPoint], bool]:
    """Return the points of all cases with both scores, and whether they are cells of a grid."""
    scored = np.where(np.isnan(changes.by), np.nan, changes.before)
    cells, gridded = gather_points(scored, changes.after, (0, 1))
    points = []
    for cell in cells:
        places = f"{describe_range(cell.x_range)} before, {describe_range(cell.y_range)} now"
        where = link(show="all", old=format_range(cell.x_range), new=format_range(cell.y_range))
        points.append(PlotPoint(cell.x, cell.y, cell.count, where, f"{format_count(cell.count, 'case')}: {places}"))
    return points, gridded


def _difference_bars(changes: CaseChanges, reach: float, link: LinkTo) -> list[PlotBar]:
    bars = []
    for number in range(-BARS, BARS):
        low, high = reach * number / BARS, reach * (number + 1) / BARS
        count = int(np.count_nonzero(differs_by(changes.by, (low, high))))
        word = "worse" if number < 0 else "better"
        least, most = sorted((abs(low), abs(high)))
        said = f"{format_count(count, 'case')} {word} by {least:g} to {most:g}"
        tone = "bad" if number < 0 else "good"
        bars.append(PlotBar(low, high, count, link(show="all", by=format_range((low, high))), said, tone))
    return bars


def _changes_by_group(
    changes: CaseChanges, base: Mapping[str, str]
) -> dict[str, list[tuple[GroupChange, dict[ChangeKind, str]]]]:
    """Return the changes of each value of the groups that have few, with links to the lists of its cases."""
    tables: dict[str, list[tuple[GroupChange, dict[ChangeKind, str]]]] = {}
    for name, known in changes.groups.items():
        if not 1 < len(known.values) <= MAX_GROUP_ROWS or len(tables) == MAX_GROUPS:
            continue
        tables[name] = [
            (
                change,
                {
                    kind: make_url("/compare", **base, show=str(kind), group=f"{name}={change.value}") + "#cases"
                    for kind in KIND_TITLES
                    if change.counts[kind]
                },
            )
            for change in changes.by_group(name)
        ]
    return tables


def _show_changes(
    ledger: Ledger, old: RunRecord, new: RunRecord, changes: CaseChanges, rows: Sequence[int]
) -> Iterable[ShownChange]:
    ids = [changes.cases[row] for row in rows]
    earlier, later = (verdicts_by_case(ledger, record, ids) for record in (old, new))
    kept = find_thumbnails(ledger, (*earlier.values(), *later.values()))
    asked = ledger.cases_on(new.id, ids)
    titles = criterion_titles((*old.rubrics, *new.rubrics))
    for row, case in zip(rows, ids, strict=True):
        first, second = earlier.get(case, []), later.get(case, [])
        given, pair = choose_pictures(first, second)
        if pair and not kept.issuperset(pair):
            given, pair = (*given, *zip(PAIR_LABELS, pair, strict=True)), None
        by = float(changes.by[row])
        yield ShownChange(
            case,
            make_url(f"/runs/{new.id}/case", id=case),
            make_url(f"/runs/{old.id}/case", id=case),
            _describe_score(float(changes.before[row]), first),
            _describe_score(float(changes.after[row]), second),
            "" if math.isnan(by) else use_minus_sign(f"{by:+.3f}"),
            tuple(_changed_criteria(first, second, titles)),
            tuple(asked[case].fields.items()) if case in asked else (),
            tuple((label, digest) for label, digest in given if digest in kept),
            pair,
        )


def _describe_score(score: float, verdicts: Sequence[Verdict]) -> str:
    if not math.isnan(score):
        return format_number(score)
    states = dict.fromkeys(humanize_state(str(verdict.outcome)) for verdict in verdicts if verdict.score is None)
    return ", ".join(states) or "no score"


def _changed_criteria(
    first: Sequence[Verdict], second: Sequence[Verdict], titles: Mapping[str, str]
) -> Iterable[tuple[str, str, str]]:
    before = {(verdict.rubric, key): result for verdict in first for key, result in verdict.criteria.items()}
    for verdict in second:
        for key, result in verdict.criteria.items():
            old = before.get((verdict.rubric, key))
            if old is None or old.score == result.score:
                continue
            yield titles.get(key) or humanize(key), format_short(old.score), format_short(result.score)
