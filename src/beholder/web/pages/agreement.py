"""Pages: agreement of a judge with the people who reviewed a run, and its calibration (reliability curves)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
from fastapi import APIRouter, Depends
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from beholder.errors import LedgerError, UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports.charts import ScaleRange, bias_chart
from beholder.reports.plots import (
    PlotPoint,
    describe_range,
    format_range,
    gather_points,
    reliability_plot,
    scatter_plot,
)
from beholder.reports.summary import mean_estimates_of
from beholder.reports.text import column_title, criterion_titles, format_interval, use_minus_sign
from beholder.reviews.ratings import read_review_ratings
from beholder.reviews.review import review_from_record
from beholder.statistics.agreement import AgreementOptions, CriterionAgreement, JudgeAgreement, agree
from beholder.statistics.bootstrap import ClusterBootstrap, Interval
from beholder.statistics.case_changes import NumberRange, lies_in
from beholder.statistics.data import ColumnKind, Floats, Ratings, Scores, select_group, tabulate_verdicts
from beholder.statistics.sentences import describe_criterion, describe_overall
from beholder.verdicts.verdict import format_count
from beholder.web.background import BackgroundDep, BackgroundResults, ProgressCacheDep, RunProgressCache
from beholder.web.pages.gallery import PageNumber, QueryNumber, QueryText
from beholder.web.responses import (
    LedgerDep,
    RunName,
    find_run,
    format_short,
    make_url,
    paginate,
    parse_range,
    render_page,
)

MAX_BINS = 8  # of a scale with more values
MIN_BIN_CASES = 2  # a bin with fewer is not shown
CASES_PER_PAGE = 6
AXES = ("judge", "people")


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Cases to which the judge gives about the same score: its mean score, the mean human rating, their number, and the
    range of its scores."""

    judge: float
    people: Interval
    cases: int
    range: NumberRange


@dataclass(frozen=True, slots=True, eq=False)
class RatedCases:
    """The cases of an aspect that have a score and a rating: their ids, the judge's score, the mean rating, the scale
    of both, and all ratings."""

    cases: tuple[str, ...]
    judge: Floats
    people: Floats
    scale: ScaleRange
    ratings: Ratings

    def select(self, judge: NumberRange | None, people: NumberRange | None) -> list[int]:
        """Return rows whose score and rating lie in these ranges, the largest disagreement first."""
        kept = np.ones(len(self.cases), np.bool_)
        for values, wanted in ((self.judge, judge), (self.people, people)):
            if wanted is not None:
                kept &= lies_in(values, wanted, self.scale[1])
        rows = np.flatnonzero(kept)
        chosen: list[int] = rows[np.argsort(-np.abs(self.judge - self.people)[rows], kind="stable")].tolist()
        return chosen


@dataclass(frozen=True, slots=True)
class AspectAgreement:
    """Agreement on one aspect. `said` are the conclusions in sentences, `leans` charts of the bias of each rater,
    `gridded` whether a dot is a cell of a grid."""

    title: str
    criterion: CriterionAgreement
    said: tuple[str, ...]
    chart: Markup
    leans: tuple[Markup, ...]
    rated: RatedCases
    gridded: bool


@dataclass(frozen=True, slots=True)
class ShownDisagreement:
    """A case in the list: what judge and people say, the difference, each rater's number, and its pictures."""

    case: str
    link: str
    judge: str
    people: str
    by: str
    raters: tuple[tuple[str, str], ...]
    pictures: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RatedQuery:
    """Which rated cases a URL asks for: the aspect, and ranges `LOW..HIGH` of the judge's score and of the mean of
    people."""

    aspect: QueryText = ""
    judge: QueryNumber = ""
    people: QueryNumber = ""


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
        _describe_aspect(record, criterion, scores, ratings[criterion.aspect], column_title(criterion.aspect, titles))
        for criterion in agreement.criteria
    ]
    return RunAgreement(agreement, tuple(aspects), describe_overall(agreement))


def _describe_aspect(
    record: RunRecord, criterion: CriterionAgreement, scores: Scores, ratings: Ratings, title: str
) -> AspectAgreement:
    judge, people = scores.columns[criterion.criterion].values, ratings.for_cases(scores.cases).mean()
    rows = np.flatnonzero(~np.isnan(judge) & ~np.isnan(people))
    cases = tuple(scores.cases[row] for row in rows)
    rated = RatedCases(cases, judge[rows], people[rows], criterion.rated_on, ratings)
    cells, gridded = gather_points(rated.judge, rated.people, rated.scale)
    points = [
        PlotPoint(
            cell.x,
            cell.y,
            cell.count,
            make_url(f"/runs/{record.id}/case", id=cases[cell.row])
            if cell.count == 1
            else _cases_link(record, criterion.aspect, cell.x_range, cell.y_range),
            f"{format_count(cell.count, 'case')}: {describe_range(cell.x_range)} by the judge, "
            f"{describe_range(cell.y_range)} by people",
        )
        for cell in cells
    ]
    chart = scatter_plot(
        points,
        rated.scale,
        title=f"{title}: judge and people",
        names=AXES,
        constant=criterion.constant.value,
        band=criterion.people["rater_mae"].value if "rater_mae" in criterion.people else None,
    )
    said = tuple(describe_criterion(criterion))
    return AspectAgreement(title, criterion, said, chart, _rater_biases(criterion), rated, gridded)


def _cases_link(record: RunRecord, aspect: str, judge: NumberRange, people: NumberRange | None = None) -> str:
    """Return the URL of the list of cases with these scores and ratings."""
    asked = {"judge": format_range(judge), "people": format_range(people) if people else None}
    return make_url("/agreement", run=record.id, aspect=aspect, **asked) + "#cases"


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
        title = column_title(aspect, titles)
        points = [
            PlotPoint(
                step.judge,
                step.people.value,
                step.cases,
                _cases_link(record, aspect, step.range),
                f"{format_count(step.cases, 'case')}: {describe_range(step.range)} by the judge, "
                f"{format_interval(step.people, 2)} by people",
                step.people,
            )
            for step in steps
            if step.people.value is not None
        ]
        chart = reliability_plot(points, column.scale, title=f"{title}: people over the judge's score", names=AXES)
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


def _reliability_bins(
    judge: Floats, people: Floats, scale: ScaleRange, bootstrap: ClusterBootstrap
) -> list[ReliabilityBin]:
    """Bin cases by the judge's score: one bin per value if there are few, else equal parts of the scale."""
    levels = np.unique(judge)
    ranges: list[NumberRange]
    if len(levels) <= MAX_BINS + 3:
        places = np.searchsorted(levels, judge)
        ranges = [(level, level) for level in levels.tolist()]
    else:
        width = (scale[1] - scale[0]) / MAX_BINS or 1.0
        places = np.clip(((judge - scale[0]) / width).astype(np.int64), 0, MAX_BINS - 1)
        ranges = [(scale[0] + width * number, scale[0] + width * (number + 1)) for number in range(MAX_BINS)]
    parts = [place for place in np.unique(places) if np.count_nonzero(places == place) >= MIN_BIN_CASES]
    means = mean_estimates_of(bootstrap, {str(place): np.where(places == place, people, np.nan) for place in parts})
    return [
        ReliabilityBin(
            float(judge[places == place].mean()),
            means[str(place)],
            int(np.count_nonzero(places == place)),
            ranges[int(place)],
        )
        for place in parts
    ]


router = APIRouter()

T = TypeVar("T")

AGREEMENT_REFRESH_S = 5  # between two checks for new ratings


@router.get("/agreement")
def agreement_view(
    ledger: LedgerDep,
    background: BackgroundDep,
    progress_cache: ProgressCacheDep,
    wanted: Annotated[RatedQuery, Depends()],
    run: RunName = "",
    at: PageNumber = 1,
) -> Response:
    """How far the judge of a run agrees with the people who reviewed it, beside how far they agree with each other."""

    def list_cases(record: RunRecord, found: RunAgreement) -> dict[str, Any]:
        return _list_disagreements(ledger, record, found, wanted, at)

    return _agreement_page(ledger, background, progress_cache, run, "Agreement", compute_agreement, list_cases)


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
    describe: Callable[[RunRecord, T], dict[str, Any]] = lambda record, found: {},
) -> Response:
    records = ledger.runs()
    progress = progress_cache.load(ledger, records)
    rated = {id_: one.rated for id_, one in progress.items()}
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
        progress=progress,
        run=record,
        raters=len(reviews.get(record.id, ())) if record else 0,
        found=computed,
        waiting=waiting,
        fresh=fresh,
        live_s=AGREEMENT_REFRESH_S if fresh else 1,
        **(describe(record, computed) if record is not None and computed is not None else {}),
    )
    if not fresh:  # for a browser without script
        answer.headers["Refresh"] = "1"
    return answer


def _list_disagreements(
    ledger: Ledger, record: RunRecord, found: RunAgreement, wanted: RatedQuery, at: int
) -> dict[str, Any]:
    """Return a page of the cases of one aspect, those first on which judge and people differ most."""
    by_name = {one.criterion.aspect: one for one in found.aspects}
    if wanted.aspect and wanted.aspect not in by_name:
        raise UsageError(f"Nobody rated the aspect {wanted.aspect!r}; rated are {', '.join(by_name)}.")
    aspect = by_name[wanted.aspect] if wanted.aspect else found.aspects[-1]
    ranges = {name: parse_range(name, getattr(wanted, name)) for name in AXES}
    rows = aspect.rated.select(ranges["judge"], ranges["people"])
    base = {"run": record.id, "aspect": aspect.criterion.aspect, "judge": wanted.judge, "people": wanted.people}
    pages = paginate(len(rows), at, CASES_PER_PAGE, lambda at: make_url("/agreement", **base, at=at) + "#cases")
    return {
        "chosen": aspect,
        "listed": tuple(_show_disagreements(ledger, record, aspect.rated, rows[pages.shown])),
        "total": len(rows),
        "pages": pages,
        "notes": [f"{name} {describe_range(ends)}" for name, ends in ranges.items() if ends is not None],
        "clear": make_url("/agreement", run=record.id, aspect=aspect.criterion.aspect) + "#cases",
    }


def _show_disagreements(
    ledger: Ledger, record: RunRecord, rated: RatedCases, rows: Sequence[int]
) -> Iterable[ShownDisagreement]:
    ids = [rated.cases[row] for row in rows]
    pictures = _read_pictures(ledger, record, ids)
    given = rated.ratings.for_cases(ids)
    for place, (row, case) in enumerate(zip(rows, ids, strict=True)):
        judge, people = float(rated.judge[row]), float(rated.people[row])
        single = zip(given.raters, given.values[place].tolist(), strict=True)
        yield ShownDisagreement(
            case,
            make_url(f"/runs/{record.id}/case", id=case),
            format_short(judge),
            format_short(people),
            use_minus_sign(f"{judge - people:+.2f}"),
            tuple((name, format_short(value)) for name, value in single if not math.isnan(value)),
            pictures.get(case, ()),
        )


def _read_pictures(
    ledger: Ledger, record: RunRecord, cases: Sequence[str]
) -> Mapping[str, tuple[tuple[str, str], ...]]:
    """Return role and digest of the first and the last picture of each case, as far as there are thumbnails."""
    images = {
        stored.verdict.case: stored.verdict.shown_images
        for stored in ledger.stored_verdicts_on(record.id, cases)
        if stored.verdict.shown_images
    }
    ends = {case: (found if len(found) <= 2 else (found[0], found[-1])) for case, found in images.items()}
    kept = ledger.has_thumbnail([image.source_digest for found in ends.values() for image in found])
    return {
        case: tuple((image.role, image.source_digest) for image in found if image.source_digest in kept)
        for case, found in ends.items()
    }
