"""People rate the cases of a run, blind until they have rated; then judge and person stand side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from beholder.errors import LedgerError, UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord
from beholder.reports.text import column_title, criterion_titles, escape_hidden
from beholder.reviews.queue import ReviewQueueCache, case_from_label, case_label, find_next_case, read_review_progress
from beholder.reviews.ratings import compare_with_judge, format_ratings_csv, pair_verdicts
from beholder.reviews.review import (
    Review,
    delete_review,
    find_or_start_review,
    list_reviews,
    load_review,
    parse_order,
    parse_rater_name,
    review_from_record,
)
from beholder.reviews.sheet import COMMENT_NAME, Rating, load_rating, record_draft, record_rating
from beholder.web.background import ProgressCacheDep
from beholder.web.pages.case import LargeImageCache
from beholder.web.responses import LedgerDep, NotFound, find_run, make_url, render_page
from beholder.web.review_form import image_labels, make_form, score_keys

router = APIRouter()

T = TypeVar("T")

JSON = "application/json"
MAX_FIELDS = 2000
MAX_GROUP_CASES = 1000  # cases whose groups are offered
MAX_PAIRS_SHOWN = 20  # cases in a list of differences
MAX_TURN_LENGTH = 40
CSV_CHUNK_LINES = 2000  # sent at a time: each time costs about as much as a hundred lines


async def _read_form(request: Request) -> dict[str, str]:
    """What a form sent, urlencoded; of a name that comes twice the last."""
    body = await request.body()
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise UsageError("What was sent is not a form of this app.") from None


def _get_queues(request: Request) -> ReviewQueueCache:
    found = request.app.state.queues
    assert isinstance(found, ReviewQueueCache)
    return found


def _get_review(book: LedgerDep, review: str) -> Review:
    """The review that an address names; its run may have been deleted since."""
    found = _find_or_404(lambda: load_review(book, review))
    find_run(book, found.run)
    return found


FormDep = Annotated[dict[str, str], Depends(_read_form)]
QueuesDep = Annotated[ReviewQueueCache, Depends(_get_queues)]
ReviewDep = Annotated[Review, Depends(_get_review)]


@router.get("/review")
def choose_run_view(request: Request, book: LedgerDep, stands: ProgressCacheDep) -> HTMLResponse:
    """Which run to rate."""
    records = book.runs()
    standings = stands.of(book, records)
    raters: dict[str, list[Review]] = {}
    for review in (review_from_record(record) for record in reversed(records) if record.is_review):
        if standings[review.id].rated:
            raters.setdefault(review.run, []).append(review)
    return render_page(
        request,
        "review_runs.html",
        title="Review",
        here="Review",
        runs=[record for record in records if not record.is_review],
        raters=raters,
        standings=standings,
    )


@router.get("/review/run/{run}")
def start_view(request: Request, book: LedgerDep, run: str) -> HTMLResponse:
    """Who rates, and in which order."""
    return _start_page(request, book, find_run(book, run))


@router.post("/review/run/{run}")
def start_review(request: Request, book: LedgerDep, queues: QueuesDep, run: str, sent: FormDep) -> Response:
    record = find_run(book, run)
    try:
        review = _start_or_resume(book, queues, record, sent)
    except LedgerError:
        raise
    except UsageError as error:
        return _start_page(request, book, record, sent, str(error))
    return _redirect(f"/review/{review.id}/next")


@router.get("/review/run/{run}/ratings.csv")
def export_run_ratings(book: LedgerDep, run: str) -> Response:
    """The ratings of all raters, as `beholder ratings export` writes them."""
    return _csv_response(book, find_run(book, run), None)


@router.get("/review/{review}")
def summary_view(request: Request, book: LedgerDep, queues: QueuesDep, review: ReviewDep) -> HTMLResponse:
    """How far a review is, and how judge and person agree so far."""
    far = read_review_progress(book, review, queues)
    hidden = review.hide and far.rated < far.of
    agreed, apart = ([], []) if hidden else compare_with_judge(book, review)
    return render_page(
        request,
        "review_summary.html",
        title=f"Review by {review.rater}",
        here="Review",
        review=review,
        record=find_run(book, review.run),
        far=far,
        agreed=agreed,
        apart=[(one, case_label(book, review, one.case)) for one in apart[:MAX_PAIRS_SHOWN]],
        more=len(apart) - MAX_PAIRS_SHOWN,
        hidden=hidden,
        called=_aspect_title(book, review),
    )


@router.get("/review/{review}/ratings.csv")
def export_review_ratings(book: LedgerDep, review: ReviewDep) -> Response:
    """One person's ratings."""
    return _csv_response(book, find_run(book, review.run), review)


@router.get("/review/{review}/next")
def next_view(book: LedgerDep, queues: QueuesDep, review: ReviewDep, after: str = "") -> Response:
    """The case to rate next; the summary when there is none."""
    passed = _find_or_404(lambda: case_from_label(book, review, after)) if after else None
    case = find_next_case(book, review, queues, after=passed)
    if case is None:
        return _redirect(f"/review/{review.id}")
    return _redirect(f"/review/{review.id}/case/{case_label(book, review, case)}")


def _get_rating(book: LedgerDep, review: ReviewDep, label: str) -> Rating:
    return load_rating(book, review, _find_or_404(lambda: case_from_label(book, review, label)))


RatingDep = Annotated[Rating, Depends(_get_rating)]


@router.get("/review/{review}/case/{label}")
def rate_view(
    request: Request, book: LedgerDep, queues: QueuesDep, review: ReviewDep, rating: RatingDep, change: bool = False
) -> HTMLResponse:
    """The form; once the case is rated, what the judge said beside it."""
    if rating.saved and not change:
        return _reveal_page(request, book, queues, review, rating)
    return _form_page(request, book, queues, review, rating, rating.answers)


@router.post("/review/{review}/case/{label}")
def save_rating(
    request: Request, book: LedgerDep, queues: QueuesDep, review: ReviewDep, rating: RatingDep, sent: FormDep
) -> Response:
    """Saves a rating, and leads on. The script of the form asks for JSON: where to, or why not."""
    script = request.headers.get("accept", "") == JSON
    try:
        record_rating(book, review, rating.case.id, sent)
    except LedgerError:
        raise
    except UsageError as error:
        if script:
            return JSONResponse({"why": escape_hidden(str(error))}, 400)
        return _form_page(request, book, queues, review, rating, sent, str(error))
    path = f"/review/{review.id}/next" if review.hide else f"/review/{review.id}/case/{rating.sheet.label}"
    return JSONResponse({"next": make_url(path)}) if script else _redirect(path)


@router.post("/review/{review}/draft/{label}")
def save_draft(book: LedgerDep, review: ReviewDep, label: str, sent: FormDep, turn: str = "") -> Response:
    """Keeps answers that are not saved yet; for the script of the form, which sends each as it is given. `turn` tells
    an older one from a newer one, in whichever order they come. What is no answer is refused, and nothing kept."""
    case = _find_or_404(lambda: case_from_label(book, review, label))
    try:
        return JSONResponse({"kept": record_draft(book, review, case, sent, turn[:MAX_TURN_LENGTH])})
    except LedgerError:
        raise
    except UsageError as error:
        return JSONResponse({"kept": False, "why": escape_hidden(str(error))}, 400)


@router.post("/review/{review}/remove")
def remove_review(book: LedgerDep, review: ReviewDep) -> Response:
    """Forgets a name under which nothing was saved."""
    delete_review(book, review)
    return _redirect(f"/review/run/{review.run}")


@router.get("/review/{review}/case/{label}/{at}.webp", response_class=Response)
def review_image(
    request: Request, book: LedgerDep, review: ReviewDep, rating: RatingDep, at: Annotated[int, Path(ge=0, le=99)]
) -> Response:
    """An image of a case by its place: as large as there is one, under an address that names nothing."""
    if at >= len(rating.sheet.roles):
        raise NotFound("This case has fewer images.")
    role = rating.sheet.roles[at]
    larger: LargeImageCache = request.app.state.pictures
    sent = (image for verdict in rating.judged for image in verdict.images if image.role == role)
    digest = next((image.source_digest for image in sent), None)
    if digest is not None:
        data = larger.get(book, find_run(book, review.run), rating.case.id, digest) or book.thumbnail(digest)
    else:  # the judge needed no look at it, a person does
        data = larger.of_file(rating.case, role)
    if data is None:
        raise NotFound("The image is not where it was, and the ledger keeps no copy of it.")
    return Response(data, media_type="image/webp", headers={"Cache-Control": "private, max-age=3600"})


def _redirect(path: str) -> RedirectResponse:
    return RedirectResponse(make_url(path), 303)


def _csv_response(book: Ledger, record: RunRecord, review: Review | None) -> Response:
    lines = format_ratings_csv(book, record.id, None if review is None else [review])
    parts = iter(lambda: b"".join(islice(lines, CSV_CHUNK_LINES)), b"")
    name = quote((record if review is None else review).id, safe="")
    headers = {"Content-Disposition": f'attachment; filename="ratings-{name}.csv"'}
    return StreamingResponse(parts, media_type="text/csv; charset=utf-8", headers=headers)


def _start_or_resume(book: Ledger, queues: ReviewQueueCache, record: RunRecord, sent: Mapping[str, str]) -> Review:
    """The review that the form asks for. Without an order a review goes on as it was begun. Raises `UsageError`."""
    rater, chosen, hide = parse_rater_name(sent.get("rater", "")), sent.get("order", ""), bool(sent.get("hide"))
    if not chosen:
        return find_or_start_review(book, record.id, rater, hide=hide or None)
    each = sent.get("each", "").strip() or "0"
    if not each.isdecimal() or len(each) > 6:
        raise UsageError(f"So many cases of each value are rated as you say: a whole number, not {each[:20]!r}.")
    order = parse_order(chosen, sent.get("group", ""), int(each))
    queues.of(book, Review("", record.id, rater, order))  # says what is wrong before anything is written
    return find_or_start_review(book, record.id, rater, order, hide=hide)


def _start_page(
    request: Request, book: Ledger, record: RunRecord, sent: Mapping[str, str] | None = None, wrong: str = ""
) -> HTMLResponse:
    if record.is_review:
        raise NotFound(f"The run {record.id} is a review itself; rate the run that it is about.")
    reviews = list_reviews(book, record.id)
    rated = book.rated_cases([one.id for one in reviews])
    return render_page(
        request,
        "review_start.html",
        400 if wrong else 200,
        title=f"Review {record.name}",
        here="Review",
        record=record,
        cases=book.case_count(record.id),
        reviews=[(one, rated.get(one.id, 0)) for one in reviews],
        groups=sorted({name for one in book.case_groups(record.id, MAX_GROUP_CASES).values() for name in one}),
        sent=sent or {},
        wrong=wrong,
    )


def _form_page(
    request: Request,
    book: Ledger,
    queues: ReviewQueueCache,
    review: Review,
    rating: Rating,
    answers: Mapping[str, str],
    wrong: str = "",
) -> HTMLResponse:
    """Only what is on the sheet goes to this page: neither the case's id nor its groups, nor any verdict."""
    sheet = rating.sheet
    far = read_review_progress(book, review, queues)
    asked = make_form(sheet, answers)
    return render_page(
        request,
        "review_case.html",
        400 if wrong else 200,
        title="Change a rating" if rating.saved else f"Case {min(far.rated + 1, far.of)} of {far.of}",
        here="Review",
        review=review,
        label=sheet.label,
        fields=sheet.fields,
        images=[image_labels(sheet).get(role, role) for role in sheet.roles],
        sections=asked,
        score_keys=score_keys(asked),
        assertions=any(ask.id for one in asked for part in one.parts for ask in part.asks),
        comment=answers.get(COMMENT_NAME, ""),
        far=far,
        again=rating.saved,
        wrong=wrong,
    )


def _reveal_page(
    request: Request, book: Ledger, queues: ReviewQueueCache, review: Review, rating: Rating
) -> HTMLResponse:
    far = read_review_progress(book, review, queues)
    hidden = review.hide and far.rated < far.of
    agreed, apart = ([], []) if hidden else compare_with_judge(book, review)
    own = {verdict.rubric: verdict for verdict in rating.verdicts}
    sheet = rating.sheet
    return render_page(
        request,
        "review_reveal.html",
        title=f"Rated {far.rated} of {far.of}",
        here="Review",
        review=review,
        label=sheet.label,
        case=None if hidden else rating.case,
        fields=sheet.fields,
        images=[image_labels(sheet).get(role, role) for role in sheet.roles],
        pairs=[pair_verdicts(own[one.rubric], None if hidden else one) for one in rating.judged if one.rubric in own],
        names={criterion.key: criterion.name for rubric in sheet.rubrics for criterion in rubric.criteria},
        several=len(rating.judged) > 1,
        agreed=agreed,
        apart=[(one, case_label(book, review, one.case)) for one in apart[:5] if one.share > 0],
        far=far,
        hidden=hidden,
        called=_aspect_title(book, review),
    )


def _aspect_title(book: Ledger, review: Review) -> Callable[[str], str]:
    """What people call an aspect."""
    titles = criterion_titles(find_run(book, review.run).rubrics)
    return lambda aspect: column_title(aspect, titles)


def _find_or_404(find: Callable[[], T]) -> T:
    """What an address names; what is not there is told as that."""
    try:
        return find()
    except UsageError as error:
        raise NotFound(str(error)) from None
