"""Pages: the list of runs with their progress, and one run with its summary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from beholder.ledger.encoding import FACET_STYLE
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RUNNING, RunProgress, RunRecord
from beholder.reports.run_data import ExampleVerdict, RunData
from beholder.reports.summary import ReportSummary, count_states, run_facts, run_judges
from beholder.reports.text import escape_hidden, escape_hidden_values, run_state
from beholder.reviews.review import review_from_record
from beholder.runs.ledger_access import correct_state
from beholder.verdicts.verdict import Outcome
from beholder.web.background import (
    MANY_VERDICTS,
    REFRESH_S,
    BackgroundDep,
    CachedResult,
    PaceMeterDep,
    ProgressCacheDep,
    RunPace,
    RunProgressCache,
    cached_counts,
    cached_overview,
)
from beholder.web.pages.gallery import newest_cards
from beholder.web.responses import LedgerDep, find_run, make_url, render_page

router = APIRouter()


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list. `rater`, `of` and `rated` are for a review: who rates, which run, how many cases so far."""

    record: RunRecord
    progress: RunProgress
    judges: str
    age: str
    rater: str = ""
    of: RunRecord | None = None
    rated: int = 0
    pace: RunPace | None = None

    @property
    def state(self) -> str:
        return run_state(self.record, self.progress.not_asked)

    @property
    def unscored(self) -> int:
        """How many were asked about and have no score."""
        return self.progress.done - self.progress.scored - self.progress.not_asked


@router.get("/")
def runs_view(ledger: LedgerDep, progress_cache: ProgressCacheDep, meter: PaceMeterDep) -> HTMLResponse:
    """All runs."""
    rows = [
        replace(row, pace=meter.measure(row.record, row.progress.done)) for row in list_rows(ledger, progress_cache)
    ]
    return render_page(
        "runs.html",
        title="Runs",
        active_tab="Runs",
        runs=[row for row in rows if not row.rater],
        reviews=[row for row in rows if row.rater],
        live_s=REFRESH_S if any(row.record.state == RUNNING for row in rows) else 0,
    )


@router.get("/api/runs")
def runs_json(ledger: LedgerDep, progress_cache: ProgressCacheDep) -> list[dict[str, object]]:
    """All runs, newest first, and their progress."""
    return [_run_json(row.record, row.progress) for row in list_rows(ledger, progress_cache)]


@router.get("/api/runs/{run}")
def run_json(ledger: LedgerDep, meter: PaceMeterDep, run: str) -> dict[str, object]:
    """Progress of a run; its `pace` once that is known, while it is under way and asked for again."""
    record = find_run(ledger, run)
    counts = ledger.counts(record.id)
    not_asked = counts.states[str(Outcome.OVER_BUDGET)]
    progress = RunProgress(counts.verdicts, counts.states["scored"], counts.mean, not_asked)
    return {
        **_run_json(record, progress),
        "pace": pace.to_dict() if (pace := meter.measure(record, counts.verdicts)) else None,
        "states": dict(counts.states),
        "grades": escape_hidden_values(dict(counts.grades)),
    }


def list_rows(ledger: Ledger, progress_cache: RunProgressCache) -> list[RunRow]:
    records = [correct_state(ledger, record) for record in ledger.runs()]
    progress = progress_cache.load(ledger, records)
    by_id = {record.id: record for record in records}
    rows = []
    for record in records:
        known = progress[record.id]
        row = RunRow(record, known.progress, ", ".join(run_judges(record)), format_age(record.created))
        if record.is_review:
            review = review_from_record(record)
            of = by_id.get(review.run)
            row = replace(row, rater=review.rater or "somebody", of=of, rated=known.rated)
        rows.append(row)
    return rows


def format_age(moment: datetime) -> str:
    """Return the time since `moment` in words: `3 hours ago`."""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"  # also when the clock was set back since


def _run_json(record: RunRecord, progress: RunProgress) -> dict[str, object]:
    return {
        "run": record.id,
        "name": escape_hidden(record.name),
        "state": run_state(record, progress.not_asked),
        "running": record.state == RUNNING,
        "created": record.created.isoformat(),
        "updated": record.updated.isoformat(),
        "total": record.total,
        "skipped": record.skipped,
        "done": progress.done,
        "scored": progress.scored,
        "not_asked": progress.not_asked,
        "score": progress.mean_score,
        "spent_usd": None if record.spent_usd is None else float(record.spent_usd),
        "unpriced": record.unpriced,
        "tags": escape_hidden_values(list(record.tags)),
    }


run_router = APIRouter()

LARGE_RUN_REFRESH_S = 15  # of a run whose summary is computed in a process of its own


@run_router.get("/runs/{run}")
def run_view(ledger: LedgerDep, background: BackgroundDep, meter: PaceMeterDep, run: str) -> HTMLResponse:
    """The summary of a run, as in its report: outcomes, histograms, means with intervals, what failed."""
    record = find_run(ledger, run)
    counts = cached_counts(ledger, background, record)
    overview = cached_overview(ledger, background, record)

    def case_link(example: ExampleVerdict) -> str:
        return make_url(
            f"/runs/{record.id}/case", id=example.case, by=example.rubric if len(record.rubrics) > 1 else ""
        )

    answer = render_page(
        "run.html",
        title=record.name,
        active_tab="Runs",
        run=record,
        review=record.is_review,
        state=run_state(record, counts.states[str(Outcome.OVER_BUDGET)]),
        not_asked=counts.states[str(Outcome.OVER_BUDGET)],
        done=counts.verdicts - (counts.states[str(Outcome.INTERRUPTED)] if record.is_review else 0),
        counts=counts,
        outcomes=overview.value.outcomes
        if overview.value and overview.fresh
        else [(*state, list[ExampleVerdict]()) for state in count_states(counts.states)],
        facts=[*_run_facts(record, overview), ("Run", [record.id])],
        summary=overview.value,
        fresh=overview.fresh,
        live_s=0 if record.state != RUNNING else REFRESH_S if record.total <= MANY_VERDICTS else LARGE_RUN_REFRESH_S,
        pace=meter.measure(record, counts.verdicts),
        newest=newest_cards(ledger, record) if record.state == RUNNING else [],
        case_link=case_link,
        list_link=lambda **asked: _gallery_link(record, **asked),
    )
    if not overview.fresh and overview.value is None:
        answer.headers["Refresh"] = "1"
    return answer


def _run_facts(record: RunRecord, overview: CachedResult[ReportSummary]) -> list[tuple[str, list[str]]]:
    """Return the facts of the summary, with the present cost if the summary is outdated."""
    now = run_facts(RunData(record))
    if overview.value is None:
        return now
    cost = dict(now).get("Cost", []) if not overview.fresh else []
    return [(name, cost if cost and name == "Cost" else values) for name, values in overview.value.facts]


def _gallery_link(record: RunRecord, **asked: str) -> str:
    """Return the URL of the filtered gallery. The style is a group in the summary, and a filter of its own there."""
    name, _, value = asked.get("group", "").partition("=")
    if name == FACET_STYLE:
        asked = {**asked, "group": "", "style": value}
    return make_url(f"/runs/{record.id}/cases", **asked)
