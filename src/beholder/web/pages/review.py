"""Pages: people rate the cases of a run without seeing the judge's verdict, and see both once they have rated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain, islice
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from beholder.errors import LedgerError, UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports.text import column_title, criterion_titles, escape_hidden
from beholder.reviews.ratings import compare_with_judge, format_ratings_csv, pair_verdicts
from beholder.reviews.review import (
    Review,
    ReviewQueueCache,
    case_from_label,
    case_label,
    delete_review,
    find_next_case,
    find_or_start_review,
    list_reviews,
    load_review,
    parse_order,
    parse_rater_name,
    read_review_progress,
    review_from_record,
)
from beholder.reviews.sheet import (
    COMMENT_NAME,
    Rating,
    load_rating,
    record_draft,
    record_rating,
)
from beholder.reviews.vote_files import format_votes_csv
from beholder.reviews.votes import compare_votes
from beholder.web.background import ProgressCacheDep
from beholder.web.pages.case import LargeImagesDep, image_media_type
from beholder.web.pages.review_form import image_labels, is_vote, make_form, score_keys, side_title
from beholder.web.responses import LedgerDep, NotFound, find_run, from_state, make_url, render_page

router = APIRouter()

T = TypeVar("T")

JSON = "application/json"
MAX_FIELDS = 2000
MAX_GROUP_CASES = 1000  # cases that are searched for groups to offer
MAX_PAIRS_SHOWN = 20  # in the list of differences
MAX_TURN_LENGTH = 40
CSV_CHUNK_LINES = 2000  # sent at a time: a chunk costs about as much as a hundred lines


async def _read_form(request: Request) -> dict[str, str]:
    """Parse an urlencoded form; the last value of a repeated name counts."""
    body = await request.body()
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise UsageError("What was sent is not a form of this app.") from None


def _get_review(ledger: LedgerDep, review: str) -> Review:
    """Return the review that a URL names. Raises `NotFound` if it or its run is gone."""
    loaded = _find_or_404(lambda: load_review(ledger, review))
    find_run(ledger, loaded.run)
    return loaded


FormDep = Annotated[dict[str, str], Depends(_read_form)]
QueuesDep = Annotated[ReviewQueueCache, from_state("queues")]
ReviewDep = Annotated[Review, Depends(_get_review)]


@router.get("/review")
def choose_run_view(ledger: LedgerDep, progress_cache: ProgressCacheDep) -> HTMLResponse:
    """Which run to rate."""
    records = ledger.runs()
    progress = progress_cache.load(ledger, records)
    raters: dict[str, list[Review]] = {}
    for review in (review_from_record(record) for record in reversed(records) if record.is_review):
        if progress[review.id].rated:
            raters.setdefault(review.run, []).append(review)
    return render_page(
        "review_runs.html",
        title="Review",
        active_tab="Review",
        runs=[record for record in records if not record.is_review],
        raters=raters,
        progress=progress,
    )


@router.get("/review/run/{run}")
def start_view(ledger: LedgerDep, run: str) -> HTMLResponse:
    """Who rates, and in which order."""
    return _start_page(ledger, find_run(ledger, run))


@router.post("/review/run/{run}")
def start_review(ledger: LedgerDep, queues: QueuesDep, run: str, sent: FormDep) -> Response:
    record = find_run(ledger, run)
    try:
        review = _start_or_resume(ledger, queues, record, sent)
    except LedgerError:
        raise
    except UsageError as error:
        return _start_page(ledger, record, sent, str(error))
    return _redirect(f"/review/{review.id}/next")


@router.get("/review/run/{run}/ratings.csv")
def export_run_ratings(ledger: LedgerDep, run: str) -> Response:
    """The ratings of all raters, as `beholder ratings export` writes them."""
    return _csv_response(ledger, find_run(ledger, run), None)


@router.get("/review/{review}")
def summary_view(ledger: LedgerDep, queues: QueuesDep, review: ReviewDep) -> HTMLResponse:
    """Progress of a review, and agreement of judge and person so far."""
    progress = read_review_progress(ledger, review, queues)
    record = find_run(ledger, review.run)
    hidden = review.hide_judge and progress.rated < progress.total
    votes = record.is_preference
    agreed, differences = ([], []) if hidden else _compare(ledger, review, votes=votes)
    return render_page(
        "review_summary.html",
        title=f"Review by {review.rater}",
        active_tab="Review",
        review=review,
        record=record,
        progress=progress,
        votes=votes,
        names=criterion_titles(record.rubrics),
        side=side_title,
        agreed=agreed,
        differing_cases=[
            (difference, case_label(ledger, review, difference.case)) for difference in differences[:MAX_PAIRS_SHOWN]
        ],
        more=len(differences) - MAX_PAIRS_SHOWN,
        hidden=hidden,
        aspect_title=_aspect_title(ledger, review),
    )


@router.get("/review/{review}/ratings.csv")
def export_review_ratings(ledger: LedgerDep, review: ReviewDep) -> Response:
    """One person's ratings."""
    return _csv_response(ledger, find_run(ledger, review.run), review)


@router.get("/review/{review}/next")
def next_view(ledger: LedgerDep, queues: QueuesDep, review: ReviewDep, after: str = "") -> Response:
    """The case to rate next; the summary when there is none."""
    passed = _find_or_404(lambda: case_from_label(ledger, review, after)) if after else None
    case = find_next_case(ledger, review, queues, after=passed)
    if case is None:
        return _redirect(f"/review/{review.id}")
    return _redirect(f"/review/{review.id}/case/{case_label(ledger, review, case)}")


def _get_rating(ledger: LedgerDep, review: ReviewDep, label: str) -> Rating:
    return load_rating(ledger, review, _find_or_404(lambda: case_from_label(ledger, review, label)))


RatingDep = Annotated[Rating, Depends(_get_rating)]


@router.get("/review/{review}/case/{label}")
def rate_view(
    ledger: LedgerDep, queues: QueuesDep, review: ReviewDep, rating: RatingDep, change: bool = False
) -> HTMLResponse:
    """The form; once the case is rated, what the judge said beside it."""
    if rating.saved and not change:
        return _reveal_page(ledger, queues, review, rating)
    return _form_page(ledger, queues, review, rating, rating.answers)


@router.post("/review/{review}/case/{label}")
def save_rating(
    request: Request, ledger: LedgerDep, queues: QueuesDep, review: ReviewDep, rating: RatingDep, sent: FormDep
) -> Response:
    """Save a rating and redirect to the next page. The script of the form asks for JSON instead."""
    script = request.headers.get("accept", "") == JSON
    try:
        record_rating(ledger, review, rating.case.id, sent)
    except LedgerError:
        raise
    except UsageError as error:
        if script:
            return JSONResponse({"why": escape_hidden(str(error))}, 400)
        return _form_page(ledger, queues, review, rating, sent, str(error))
    path = f"/review/{review.id}/next" if review.hide_judge else f"/review/{review.id}/case/{rating.sheet.label}"
    return JSONResponse({"next": make_url(path)}) if script else _redirect(path)


@router.post("/review/{review}/draft/{label}")
def save_draft(ledger: LedgerDep, review: ReviewDep, label: str, sent: FormDep, turn: str = "") -> Response:
    """Save a draft of answers, which the script of the form sends as they are given.

    `turn` orders drafts that arrive out of order. Invalid answers are rejected, and nothing is saved.
    """
    case = _find_or_404(lambda: case_from_label(ledger, review, label))
    try:
        return JSONResponse({"kept": record_draft(ledger, review, case, sent, turn[:MAX_TURN_LENGTH])})
    except LedgerError:
        raise
    except UsageError as error:
        return JSONResponse({"kept": False, "why": escape_hidden(str(error))}, 400)


@router.post("/review/{review}/remove")
def remove_review(ledger: LedgerDep, review: ReviewDep) -> Response:
    """Delete a review without saved ratings."""
    delete_review(ledger, review)
    return _redirect(f"/review/run/{review.run}")


@router.get("/review/{review}/case/{label}/{at}.webp", response_class=Response)
def review_image(
    ledger: LedgerDep,
    larger: LargeImagesDep,
    review: ReviewDep,
    rating: RatingDep,
    at: Annotated[int, Path(ge=0, le=99)],
) -> Response:
    """An image of a case by its place: as large as there is one, under an address that names nothing."""
    if at >= len(rating.sheet.roles):
        raise NotFound("This case has fewer images.")
    role = rating.sheet.roles[at]
    number = rating.sheet.roles[:at].count(role)
    sent = (
        [image.source_digest for image in verdict.shown_images if image.role == role]
        for verdict in rating.judge_verdicts
    )
    digest = next((digests[number] for digests in sent if number < len(digests)), None)
    if digest is not None:
        data = larger.get(ledger, find_run(ledger, review.run), rating.case.id, digest) or ledger.thumbnail(digest)
    else:  # of an older Beholder, which kept no image that the judge did not need
        data = larger.of_file(rating.case.sources(role)[number])
    if data is None:
        raise NotFound("The image is not where it was, and the ledger keeps no copy of it.")
    return Response(data, media_type=image_media_type(data), headers={"Cache-Control": "private, max-age=3600"})


def _redirect(path: str) -> RedirectResponse:
    return RedirectResponse(make_url(path), 303)


def _csv_response(ledger: Ledger, record: RunRecord, review: Review | None) -> Response:
    format_csv = format_votes_csv if record.is_preference else format_ratings_csv
    lines = format_csv(ledger, record.id, None if review is None else [review])
    first = b"".join(islice(lines, CSV_CHUNK_LINES))  # what cannot be read is found before the response has begun
    parts = chain([first], iter(lambda: b"".join(islice(lines, CSV_CHUNK_LINES)), b""))
    name = quote((record if review is None else review).id, safe="")
    headers = {"Content-Disposition": f'attachment; filename="ratings-{name}.csv"'}
    return StreamingResponse(parts, media_type="text/csv; charset=utf-8", headers=headers)


def _start_or_resume(ledger: Ledger, queues: ReviewQueueCache, record: RunRecord, sent: Mapping[str, str]) -> Review:
    """Start the review that the form asks for, or resume it; without an order it keeps the one that it has."""
    rater, chosen, hide = parse_rater_name(sent.get("rater", "")), sent.get("order", ""), bool(sent.get("hide"))
    if not chosen:
        return find_or_start_review(ledger, record.id, rater, hide=hide or None)
    each = sent.get("each", "").strip() or "0"
    if not each.isdecimal() or len(each) > 6:
        raise UsageError(f"The number of cases per group value must be a whole number, not {each[:20]!r}.")
    order = parse_order(chosen, sent.get("group", ""), int(each))
    queues.cases(ledger, Review("", record.id, rater, order))  # raises for a wrong order before anything is written
    return find_or_start_review(ledger, record.id, rater, order, hide=hide)


def _start_page(
    ledger: Ledger, record: RunRecord, sent: Mapping[str, str] | None = None, wrong: str = ""
) -> HTMLResponse:
    if record.is_review:
        raise NotFound(f"The run {record.id} is a review itself; rate the run that it is about.")
    reviews = list_reviews(ledger, record.id)
    rated = ledger.rated_cases([review.id for review in reviews])
    return render_page(
        "review_start.html",
        400 if wrong else 200,
        title=f"Review {record.name}",
        active_tab="Review",
        record=record,
        cases=ledger.case_count(record.id),
        reviews=[(review, rated.get(review.id, 0)) for review in reviews],
        groups=sorted({name for group in ledger.case_groups(record.id, MAX_GROUP_CASES).values() for name in group}),
        sent=sent or {},
        wrong=wrong,
    )


def _form_page(
    ledger: Ledger,
    queues: ReviewQueueCache,
    review: Review,
    rating: Rating,
    answers: Mapping[str, str],
    wrong: str = "",
) -> HTMLResponse:
    """Render the form. It gets only what is on the sheet: neither the case's id nor its groups, nor any verdict."""
    sheet = rating.sheet
    progress = read_review_progress(ledger, review, queues)
    asked = make_form(sheet, answers)
    return render_page(
        "review_case.html",
        400 if wrong else 200,
        title="Change a rating"
        if rating.saved
        else f"Case {min(progress.rated + 1, progress.total)} of {progress.total}",
        active_tab="Review",
        review=review,
        label=sheet.label,
        fields=sheet.fields,
        images=image_labels(sheet),
        sections=asked,
        score_keys=score_keys(asked),
        assertions=any(one.id for section in asked for part in section.parts for one in part.questions),
        votes=is_vote(sheet),
        comment=answers.get(COMMENT_NAME, ""),
        progress=progress,
        again=rating.saved,
        wrong=wrong,
    )


def _reveal_page(ledger: Ledger, queues: ReviewQueueCache, review: Review, rating: Rating) -> HTMLResponse:
    progress = read_review_progress(ledger, review, queues)
    hidden = review.hide_judge and progress.rated < progress.total
    sheet = rating.sheet
    votes = is_vote(sheet)
    agreed, differences = ([], []) if hidden else _compare(ledger, review, votes=votes)
    rater_verdicts = {verdict.rubric: verdict for verdict in rating.verdicts}
    return render_page(
        "review_reveal.html",
        title=f"Rated {progress.rated} of {progress.total}",
        active_tab="Review",
        review=review,
        label=sheet.label,
        case=None if hidden else rating.case,
        votes=votes,
        side=lambda winner, order=sheet.order: side_title(winner, order),
        candidate=partial(_candidate_title, rating, hidden=hidden),
        fields=sheet.fields,
        images=image_labels(sheet),
        pairs=[
            pair_verdicts(rater_verdicts[verdict.rubric], None if hidden else verdict)
            for verdict in rating.judge_verdicts
            if verdict.rubric in rater_verdicts
        ],
        names={criterion.key: criterion.name for rubric in sheet.rubrics for criterion in rubric.criteria},
        several=len(rating.judge_verdicts) > 1,
        agreed=agreed,
        differing_cases=[
            (difference, case_label(ledger, review, difference.case))
            for difference in differences[:5]
            if votes or difference.share > 0
        ],
        progress=progress,
        hidden=hidden,
        aspect_title=_aspect_title(ledger, review),
    )


def _compare(ledger: Ledger, review: Review, *, votes: bool) -> tuple[list[Any], list[Any]]:
    """Return the agreement with the judge by aspect and the cases that differ most, of scores or of votes."""
    return compare_votes(ledger, review) if votes else compare_with_judge(ledger, review)


def _candidate_title(rating: Rating, winner: str, *, hidden: bool) -> str:
    """Return a winner as the side on which it was shown, with its model once that may be seen: `left: aurora`."""
    side = side_title(winner, rating.sheet.order)
    model = "" if hidden else rating.case.groups.get(f"model_{winner}", "")
    return f"{side}: {model}" if model else side


def _aspect_title(ledger: Ledger, review: Review) -> Callable[[str], str]:
    """Return a function that gives the title of an aspect."""
    titles = criterion_titles(find_run(ledger, review.run).rubrics)
    return lambda aspect: column_title(aspect, titles)


def _find_or_404(find: Callable[[], T]) -> T:
    """Call `find`; a `UsageError` becomes `NotFound`."""
    try:
        return find()
    except UsageError as error:
        raise NotFound(str(error)) from None
