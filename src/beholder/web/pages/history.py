"""Page: a suite over its runs: score, share without a score, cost and latency, each leading to what it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from beholder.api.statistics import History, history, select_runs
from beholder.errors import LedgerError, UsageError
from beholder.ledger.types import RunRecord
from beholder.reports.comparison import format_p_value
from beholder.reports.plots import ShareBar, SharePart, TrendPoint, share_bars, trend_plot
from beholder.reports.text import column_title, criterion_titles, format_interval, humanize_state
from beholder.statistics.bootstrap import Interval
from beholder.statistics.history import HistoryLine, RunUsage
from beholder.web.background import (
    MANY_VERDICTS,
    BackgroundDep,
    cached_choices,
    run_in_process,
)
from beholder.web.pages.gallery import QueryText
from beholder.web.responses import LedgerDep, make_url, render_page

router = APIRouter()

DEFAULT_RUNS = 20  # the newest ones; the page takes as long as reading all their verdicts
MAX_RUNS = 100

RunCount = Annotated[int, Query(ge=1, le=MAX_RUNS)]


@dataclass(frozen=True, slots=True)
class TrendChart:
    """A chart over the runs: what it shows, a sentence on it, and the chart."""

    title: str
    note: str
    chart: Markup


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A run in the table: what it took, the mean of the first column that is followed, and its change, with the
    comparison that shows it."""

    record: RunRecord
    usage: RunUsage
    mean: Interval
    change: Interval | None
    p: str
    compare: str


@router.get("/history")
def history_view(
    ledger: LedgerDep,
    background: BackgroundDep,
    name: QueryText = "",
    tag: QueryText = "",
    on: QueryText = "",
    last: RunCount = DEFAULT_RUNS,
) -> HTMLResponse:
    """A suite over its runs."""
    records = [record for record in ledger.runs() if not record.is_review]
    names = list(dict.fromkeys(record.name for record in records))
    tags = sorted({tag for record in records for tag in record.tags})
    chosen = name or ("" if tag or not names else names[0])
    found, why, fresh = None, "", True
    picked: list[RunRecord] = []
    if records:
        try:
            picked = select_runs(ledger, chosen or None, tag or None)[-last:]
            work = partial(
                history, chosen or None, tag=tag or None, on=(on,) if on else (), last=last, ledger=ledger.address
            )
            if sum(record.total for record in picked) > MANY_VERDICTS:
                work = partial(run_in_process, work)
            stamp = tuple((record.id, record.updated) for record in picked)
            result = background.poll(("history", chosen, tag, on, last), stamp, work)
            found, fresh = result.value, result.fresh
        except LedgerError:
            raise
        except UsageError as error:  # there is nothing to follow: a sentence, and the choosers stay
            why = str(error)
    answer = render_page(
        "history.html",
        title="History",
        active_tab="History",
        runs=records,
        names=names,
        tags=tags,
        criteria=cached_choices(ledger, background, picked[-1]).criteria if picked else (),
        titles=criterion_titles([rubric for record in picked[-1:] for rubric in record.rubrics]),
        name=chosen,
        tag=tag,
        on=on,
        last=last,
        why=why,
        waiting=not why and found is None and bool(records),
        fresh=fresh,
        found=found,
        charts_of=_draw_charts(found) if found else (),
        rows=_list_runs(found) if found else (),
    )
    if not fresh:
        answer.headers["Refresh"] = "1" if found is None else "5"
    return answer


def _draw_charts(found: History) -> list[TrendChart]:
    titles = criterion_titles([rubric for record in found.runs for rubric in record.rubrics])
    charts = [_draw_line(found.runs, line, column_title(line.name, titles)) for line in found.lines]
    charts.append(_draw_unscored(found))
    for title, note, pick, tick, places in (
        ("Cost of a verdict", "US dollars, of answers that the run paid for", "cost_usd", "${:.2g}", 4),
        ("Latency of a verdict", "mean seconds, of answers that the run asked for", "latency_s", "{:.3g} s", 1),
    ):
        estimates: list[Interval] = [getattr(usage, pick) for usage in found.usage]
        if any(estimate.value is not None for estimate in estimates):
            highest = max(_top(estimate) for estimate in estimates) or 1.0
            chart = _draw_trend(found.runs, estimates, (0.0, highest), title, tick, places)
            charts.append(TrendChart(title, note, chart))
    return charts


def _draw_line(runs: Sequence[RunRecord], line: HistoryLine, title: str) -> TrendChart:
    estimates = [point.mean for point in line.points]
    ends = [end for one in estimates for end in (one.value, one.low, one.high) if end is not None]
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    room = (high - low) * 0.1 or 0.05
    return TrendChart(title, "mean of each run", _draw_trend(runs, estimates, (low - room, high + room), title))


def _draw_trend(
    runs: Sequence[RunRecord],
    estimates: Sequence[Interval],
    scale: tuple[float, float],
    title: str,
    tick: str = "{:.2f}",
    places: int = 3,
) -> Markup:
    points = [
        TrendPoint(
            estimate,
            make_url(f"/runs/{run.id}"),
            f"{title}, {run.name}, {_day(run)} ({run.id}): {format_interval(estimate, places)}",
            _day(run),
        )
        for run, estimate in zip(runs, estimates, strict=True)
    ]
    return trend_plot(points, scale, title=f"{title} over the runs", tick=tick)


def _draw_unscored(found: History) -> TrendChart:
    bars = []
    for run, usage in zip(found.runs, found.usage, strict=True):
        parts = []
        for outcome, count in usage.outcomes.items():
            said = f"{count:,} of {usage.verdicts:,} {humanize_state(outcome)}, {run.name}, {_day(run)} ({run.id})"
            link = make_url(f"/runs/{run.id}/cases", outcome=outcome)
            parts.append(SharePart(outcome, count / usage.verdicts, link, said))
        bars.append(ShareBar(tuple(parts), usage.unscored, _day(run)))
    chart = share_bars(bars, title="Verdicts without a score over the runs")
    totals = sum((Counter(usage.outcomes) for usage in found.usage), Counter[str]())
    named = ", ".join(f"{count:,} {humanize_state(outcome)}" for outcome, count in totals.most_common())
    note = f"share of the verdicts that were asked for; in all {named or 'none'}; a part opens its cases"
    return TrendChart("Without a score", note, chart)


def _list_runs(found: History) -> list[HistoryRow]:
    points = found.lines[0].points
    rows = []
    for at, (run, usage, point) in enumerate(zip(found.runs, found.usage, points, strict=True)):
        rows.append(
            HistoryRow(
                run,
                usage,
                point.mean,
                point.change,
                format_p_value(point.p),
                make_url("/compare", before=found.runs[at - 1].id, after=run.id) if at else "",
            )
        )
    return rows[::-1]


def _top(estimate: Interval) -> float:
    return max(end or 0.0 for end in (estimate.value, estimate.high))


def _day(run: RunRecord) -> str:
    return f"{run.created.day} {run.created:%b}"
