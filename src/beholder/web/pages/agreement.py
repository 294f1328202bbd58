"""Pages: agreement of a judge with the people who reviewed a run, and its calibration (reliability curves)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from beholder.errors import LedgerError, UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports.charts import ReliabilityBin, ScaleRange, bias_chart, reliability_chart, scatter_chart
from beholder.reports.summary import mean_estimates_of
from beholder.reports.text import column_title, criterion_titles
from beholder.reviews.ratings import read_review_ratings
from beholder.reviews.review import review_from_record
from beholder.statistics.agreement import AgreementOptions, CriterionAgreement, JudgeAgreement, agree
from beholder.statistics.bootstrap import ClusterBootstrap
from beholder.statistics.data import Column, ColumnKind, Floats, Ratings, Scores, select_group, tabulate_verdicts
from beholder.statistics.sentences import describe_criterion, describe_overall
from beholder.web.background import BackgroundDep, BackgroundResults, ProgressCacheDep, RunProgressCache
from beholder.web.responses import LedgerDep, RunName, find_run, make_url, render_page

MAX_BINS = 8  # of a scale with more values
MIN_BIN_CASES = 2  # a bin with fewer is not shown


@dataclass(frozen=True, slots=True)
class AspectAgreement:
    """Agreement on one aspect. `said` are the conclusions in sentences, `leans` charts of the bias of each rater."""

    title: str
    criterion: CriterionAgreement
    said: tuple[str, ...]
    chart: Markup
    leans: tuple[Markup, ...]


@dataclass(frozen=True, slots=True)
class RunAgreement:
    agreement: JudgeAgreement
    aspects: tuple[AspectAgreement, ...]
    overall: str


@dataclass(frozen=True, slots=True)
class ReliabilityCurve:
    """The mean human rating over the judge's score, for one aspect.

    Attributes:
        cases: Number of all cases; `left_out` of them are in bins that are too small.
        drawn: How intervals were computed.
    """

    title: str
    steps: tuple[ReliabilityBin, ...]
    cases: int
    left_out: int
    chart: Markup
    drawn: str


def compute_agreement(ledger: Ledger, record: RunRecord) -> RunAgreement | None:
    """Compute the agreement of a run with its reviews; None if no case has both a score and a rating."""
    ratings = read_review_ratings(ledger, record.id, assertions=False)
    if not ratings:
        return None
    scores = _rated_scores(ledger, record, ratings)
    scales = {name: column.scale for name, column in scores.columns.items() if column.scale is not None}
    try:
        agreement = agree(
            scores,
            ratings,
            AgreementOptions(rating_scales={name: scale for name, scale in scales.items() if name in ratings}),
        )
    except LedgerError:
        raise
    except UsageError:  # its message is about files and options; the page has a sentence of its own
        return None
    titles = criterion_titles(record.rubrics)
    aspects = [
        AspectAgreement(
            column_title(criterion.aspect, titles),
            criterion,
            tuple(describe_criterion(criterion)),
            scatter_chart(
                _score_pairs(scores, scores.columns[criterion.criterion], ratings[criterion.aspect]),
                criterion.rated_on,
                criterion.constant.value,
                criterion.people["rater_mae"].value if "rater_mae" in criterion.people else None,
            ),
            _rater_biases(criterion),
        )
        for criterion in agreement.criteria
    ]
    return RunAgreement(agreement, tuple(aspects), describe_overall(agreement))


def compute_reliability(ledger: Ledger, record: RunRecord) -> tuple[ReliabilityCurve, ...] | None:
    """Compute reliability curves of a run by aspect; None if nobody rated it."""
    ratings = read_review_ratings(ledger, record.id, assertions=False)
    if not ratings:
        return None
    scores, titles = _rated_scores(ledger, record, ratings), criterion_titles(record.rubrics)
    curves = []
    for aspect, people in ratings.items():
        column = scores.columns.get(aspect)
        if column is None or column.scale is None or column.kind not in (ColumnKind.CRITERION, ColumnKind.OVERALL):
            continue
        mean_ratings = people.for_cases(scores.cases).mean()
        rows = np.flatnonzero(~np.isnan(column.values) & ~np.isnan(mean_ratings))
        if not len(rows):
            continue
        together = select_group(scores, None)
        bootstrap = ClusterBootstrap(None if together is None else [together[row] for row in rows], len(rows))
        steps = _reliability_bins(column.values[rows], mean_ratings[rows], column.scale, bootstrap)
        left_out = len(rows) - sum(step.cases for step in steps)
        chart = reliability_chart(steps, column.scale)
        title = column_title(aspect, titles)
        curves.append(ReliabilityCurve(title, tuple(steps), len(rows), left_out, chart, bootstrap.describe()))
    return tuple(curves)


def _rated_scores(ledger: Ledger, record: RunRecord, ratings: dict[str, Ratings]) -> Scores:
    """Return the scores of the judge for the cases that people rated."""
    cases = list(dict.fromkeys(case for people in ratings.values() for case in people.cases))
    return tabulate_verdicts(
        record.name, ((stored.verdict, stored.groups) for stored in ledger.stored_verdicts_on(record.id, cases))
    )


def _rater_biases(criterion: CriterionAgreement) -> tuple[Markup, ...]:
    known = [abs(rater.bias) for rater in criterion.each_rater if rater.bias is not None]
    reach = max([*known, (criterion.rated_on[1] - criterion.rated_on[0]) / 4])  # so that a small bias looks small
    return tuple(bias_chart(rater.bias, reach) for rater in criterion.each_rater)


def _score_pairs(scores: Scores, column: Column, people: Ratings) -> list[tuple[float, float]]:
    mean_ratings = people.for_cases(scores.cases).mean()
    both = ~np.isnan(column.values) & ~np.isnan(mean_ratings)
    return [(float(x), float(y)) for x, y in zip(column.values[both], mean_ratings[both], strict=True)]


def _reliability_bins(
    judge: Floats, people: Floats, scale: ScaleRange, bootstrap: ClusterBootstrap
) -> list[ReliabilityBin]:
    """Bin cases by the judge's score: one bin per value if there are few, else equal parts of the scale."""
    levels = np.unique(judge)
    if len(levels) <= MAX_BINS + 3:
        places = np.searchsorted(levels, judge)
    else:
        width = (scale[1] - scale[0]) / MAX_BINS or 1.0
        places = np.clip(((judge - scale[0]) / width).astype(np.int64), 0, MAX_BINS - 1)
    parts = [place for place in np.unique(places) if np.count_nonzero(places == place) >= MIN_BIN_CASES]
    means = mean_estimates_of(bootstrap, {str(place): np.where(places == place, people, np.nan) for place in parts})
    return [
        ReliabilityBin(float(judge[places == place].mean()), means[str(place)], int(np.count_nonzero(places == place)))
        for place in parts
    ]


router = APIRouter()

T = TypeVar("T")

AGREEMENT_REFRESH_S = 5  # between two checks for new ratings


@router.get("/agreement")
def agreement_view(
    ledger: LedgerDep, background: BackgroundDep, progress_cache: ProgressCacheDep, run: RunName = ""
) -> Response:
    """How far the judge of a run agrees with the people who reviewed it, beside how far they agree with each other."""
    return _agreement_page(ledger, background, progress_cache, run, "Agreement", compute_agreement)


@router.get("/calibration")
def calibration_view(
    ledger: LedgerDep, background: BackgroundDep, progress_cache: ProgressCacheDep, run: RunName = ""
) -> Response:
    """The mean human rating over the judge's score."""
    return _agreement_page(ledger, background, progress_cache, run, "Calibration", compute_reliability)


def _agreement_page(
    ledger: Ledger,
    background: BackgroundResults,
    progress_cache: RunProgressCache,
    run: str,
    name: str,
    work: Callable[[Ledger, RunRecord], T | None],
) -> Response:
    records = ledger.runs()
    rated = {id_: progress.rated for id_, progress in progress_cache.load(ledger, records).items()}
    reviews: dict[str, list[RunRecord]] = {}
    for candidate in records:
        if candidate.is_review and rated.get(candidate.id):  # a review without a saved rating does not count
            reviews.setdefault(review_from_record(candidate).run, []).append(candidate)
    runs = sorted((one for one in records if one.id in reviews), key=lambda one: one.is_preference)
    record = find_run(ledger, run) if run else runs[0] if runs else None
    if (
        record is not None and record.is_preference
    ):  # votes have no mean to compare: the arena counts which are the same
        return RedirectResponse(make_url(f"/runs/{record.id}/arena") + "#people", 303)
    computed, waiting, fresh = None, False, True
    if record is not None and record.id in reviews:
        chosen = record
        stamp = (record.updated, *((review.id, review.updated, rated[review.id]) for review in reviews[record.id]))
        result = background.poll((name, record.id), stamp, lambda: work(ledger, chosen))
        computed, waiting, fresh = result.value, result.value is None and not result.fresh, result.fresh
    answer = render_page(
        f"{name.lower()}.html",
        title=name,
        active_tab=name,
        runs=runs,
        run=record,
        raters=len(reviews.get(record.id, ())) if record else 0,
        found=computed,
        waiting=waiting,
        fresh=fresh,
        live_s=AGREEMENT_REFRESH_S if fresh else 1,
    )
    if not fresh:  # for a browser without script
        answer.headers["Refresh"] = "1"
    return answer
