"""All runs, newest first; reviews apart. `/api/runs` says how far each is.

A run: what it came to.

Two runs, case by case: what changed, and whether that could be chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from beholder.ledger.encoding import FACET_STYLE
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RUNNING, RunProgress, RunRecord
from beholder.reports.comparison import ChangedCase, ComparisonSection, compare_runs, comparison_section
from beholder.reports.formatting import run_state
from beholder.reports.run_data import ExampleVerdict, RunData
from beholder.reports.summary import ReportSummary, count_states, run_facts, run_judges
from beholder.reports.text import escape_hidden, escape_hidden_values
from beholder.reviews.review import review_from_record
from beholder.verdicts.verdict import Outcome
from beholder.web.background import (
    MANY_VERDICTS,
    BackgroundDep,
    CachedResult,
    ProgressCacheDep,
    RunProgressCache,
    cached_counts,
    cached_overview,
    run_in_process,
)
from beholder.web.responses import LedgerDep, RunName, find_run, make_url, render_page

router = APIRouter()

REFRESH_S = 2  # that a page of a run that is running is drawn anew


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list. `rater`, `of` and `rated` are for a review: who rated, the run, how many cases of it."""

    record: RunRecord
    far: RunProgress
    judges: str
    age: str
    rater: str = ""
    of: RunRecord | None = None
    rated: int = 0


@router.get("/")
def runs_view(request: Request, book: LedgerDep, stands: ProgressCacheDep) -> HTMLResponse:
    """All runs."""
    rows = list_rows(book, stands)
    return render_page(
        request,
        "runs.html",
        title="Runs",
        here="Runs",
        runs=[row for row in rows if not row.rater],
        reviews=[row for row in rows if row.rater],
        live_s=REFRESH_S if any(row.record.state == RUNNING for row in rows) else 0,
    )


@router.get("/api/runs")
def runs_json(book: LedgerDep, stands: ProgressCacheDep) -> list[dict[str, object]]:
    """All runs, newest first, and how far each is."""
    return [_run_json(row.record, row.far) for row in list_rows(book, stands)]


@router.get("/api/runs/{run}")
def run_json(book: LedgerDep, run: str) -> dict[str, object]:
    """How far a run is."""
    record = find_run(book, run)
    counts = book.counts(record.id)
    far = RunProgress(counts.verdicts, counts.states["scored"], counts.mean)
    return {
        **_run_json(record, far),
        "states": dict(counts.states),
        "grades": escape_hidden_values(dict(counts.grades)),
    }


def list_rows(book: Ledger, stands: RunProgressCache) -> list[RunRow]:
    records = book.runs()
    standings = stands.of(book, records)
    by_id = {record.id: record for record in records}
    rows = []
    for record in records:
        standing = standings[record.id]
        row = RunRow(record, standing.far, ", ".join(run_judges(record)), format_age(record.created))
        if record.is_review:
            review = review_from_record(record)
            of = by_id.get(review.run)
            row = replace(row, rater=review.rater or "somebody", of=of, rated=standing.rated)
        rows.append(row)
    return rows


def format_age(moment: datetime) -> str:
    seconds = (datetime.now(UTC) - moment).total_seconds()
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"  # also when the clock was set back since


def _run_json(record: RunRecord, far: RunProgress) -> dict[str, object]:
    return {
        "run": record.id,
        "name": escape_hidden(record.name),
        "state": run_state(record),
        "running": record.state == RUNNING,
        "created": record.created.isoformat(),
        "updated": record.updated.isoformat(),
        "total": record.total,
        "skipped": record.skipped,
        "done": far.done,
        "scored": far.scored,
        "score": far.mean_score,
        "spent_usd": None if record.spent_usd is None else float(record.spent_usd),
        "unpriced": record.unpriced,
        "tags": escape_hidden_values(list(record.tags)),
    }


run_router = APIRouter()

LARGE_RUN_REFRESH_S = 15  # as runs.EVERY_S, where what is to be told takes a process of its own


@run_router.get("/runs/{run}")
def run_view(request: Request, book: LedgerDep, shop: BackgroundDep, run: str) -> HTMLResponse:
    """What a run came to, as its report says it: outcomes, how scores are spread, means with intervals, what failed."""
    record = find_run(book, run)
    counts = cached_counts(book, shop, record)
    told = cached_overview(book, shop, record)

    def case_link(one: ExampleVerdict) -> str:
        return make_url(f"/runs/{record.id}/case", id=one.case, by=one.rubric if len(record.rubrics) > 1 else "")

    answer = render_page(
        request,
        "run.html",
        title=record.name,
        here="Runs",
        run=record,
        review=record.is_review,
        state=run_state(record),
        done=counts.verdicts - (counts.states[str(Outcome.INTERRUPTED)] if record.is_review else 0),
        counts=counts,
        outcomes=told.value.outcomes
        if told.value and told.fresh
        else [(*one, list[ExampleVerdict]()) for one in count_states(counts.states)],
        facts=[*_run_facts(record, told), ("Run", [record.id])],
        summary=told.value,
        fresh=told.fresh,
        live_s=0 if record.state != RUNNING else REFRESH_S if record.total <= MANY_VERDICTS else LARGE_RUN_REFRESH_S,
        case_link=case_link,
        list_link=lambda **asked: _gallery_link(record, **asked),
    )
    if not told.fresh and told.value is None:
        answer.headers["Refresh"] = "1"
    return answer


def _run_facts(record: RunRecord, told: CachedResult[ReportSummary]) -> list[tuple[str, list[str]]]:
    """What was worked out of the run; what it costs as it is by now."""
    now = run_facts(RunData(record))
    if told.value is None:
        return now
    cost = dict(now).get("Cost", []) if not told.fresh else []
    return [(name, cost if cost and name == "Cost" else values) for name, values in told.value.facts]


def _gallery_link(record: RunRecord, **asked: str) -> str:
    """The cases that these filters leave. The style of a verdict counts as a group, and is a filter of its own."""
    name, _, value = asked.get("group", "").partition("=")
    if name == FACET_STYLE:
        asked = {**asked, "group": "", "style": value}
    return make_url(f"/runs/{record.id}/cases", **asked)


compare_router = APIRouter()


@compare_router.get("/compare")
def compare_view(
    request: Request, book: LedgerDep, shop: BackgroundDep, before: RunName = "", after: RunName = ""
) -> HTMLResponse:
    """What changed from one run to another; without both, a form to choose them."""
    old, new = (find_run(book, name) if name else None for name in (before, after))
    records = [record for record in book.runs() if not record.is_review]
    if new is not None and old is None:
        old = _previous_run(records, new)
    told: CachedResult[ComparisonSection] | None = None
    if old is not None and new is not None and old.id != new.id:
        work = partial(_comparison_data, book.address, new.id, old.id)
        if new.total + old.total > MANY_VERDICTS:
            work = partial(run_in_process, work)
        told = shop.get(("compare", old.id, new.id), (old.updated, new.updated), work)
    answer = render_page(
        request,
        "compare.html",
        title="Compare",
        here="Compare",
        runs=records,
        old=old,
        new=new,
        asked=told is not None,
        against=told.value if told else None,
        fresh=told is None or told.fresh,
        case_link=partial(_changed_case_link, new),
    )
    if told is not None and not told.fresh:
        answer.headers["Refresh"] = "1" if told.value is None else "5"
    return answer


def _previous_run(records: list[RunRecord], new: RunRecord) -> RunRecord | None:
    """The last run before it that has the same name."""
    ids = [record.id for record in records]
    older = records[ids.index(new.id) + 1 :] if new.id in ids else []
    return next((record for record in older if record.name == new.name), None)


def _changed_case_link(new: RunRecord | None, one: ChangedCase) -> str:
    return "" if new is None else make_url(f"/runs/{new.id}/case", id=one.case)


def _comparison_data(address: str, new: str, old: str) -> ComparisonSection:
    with Ledger.open(address, read_only=True) as book:
        later, earlier = book.run(new), book.run(old)
        return comparison_section(compare_runs(book, later, earlier), earlier, RunData(later))
