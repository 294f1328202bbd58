"""People rate the cases of a run, blind until they have rated; then judge and person stand side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Annotated, TypeVar
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from beholder.errors import LedgerError, UsageError
from beholder.ledger import Ledger, RunRecord
from beholder.ledger import reviews as stored
from beholder.reports.html.texts import column_title, plain, titles_of
from beholder.runs import reviewing
from beholder.runs.review_labels import case_of, label_of
from beholder.runs.review_orders import order_from
from beholder.runs.review_queue import Queues, next_case, progress
from beholder.runs.review_sheet import COMMENT
from beholder.runs.reviewing import Rating, Review
from beholder.statistics.beside import beside, pair_of
from beholder.statistics.reviews import ratings_csv
from beholder.web.answering import Book, NotThere, address, page, record_of
from beholder.web.pages.pictures import Larger
from beholder.web.review_form import labels, score_keys, sections
from beholder.web.standings import Stands

router = APIRouter()

T = TypeVar("T")

JSON = "application/json"
MOST_FIELDS = 2000
MOST_ASKED = 1000  # cases whose groups are offered
MOST_SHOWN = 20  # cases in a list of differences
LONGEST_TURN = 40
LINES = 2000  # sent at a time: each time costs about as much as a hundred lines


async def _form(request: Request) -> dict[str, str]:
    """What a form sent, urlencoded; of a name that comes twice the last."""
    body = await request.body()
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise UsageError("What was sent is not a form of this app.") from None


def _queues(request: Request) -> Queues:
    found = request.app.state.queues
    assert isinstance(found, Queues)
    return found


def _review(book: Book, review: str) -> Review:
    """The review that an address names; its run may have been deleted since."""
    found = _found(lambda: reviewing.review_at(book, review))
    record_of(book, found.run)
    return found


Sent = Annotated[dict[str, str], Depends(_form)]
Kept = Annotated[Queues, Depends(_queues)]
Named = Annotated[Review, Depends(_review)]


@router.get("/review")
def choose_run(request: Request, book: Book, stands: Stands) -> HTMLResponse:
    """Which run to rate."""
    records = book.runs()
    standings = stands.of(book, records)
    raters: dict[str, list[Review]] = {}
    for review in (reviewing.review_of(record) for record in reversed(records) if reviewing.is_review(record)):
        if standings[review.id].rated:
            raters.setdefault(review.run, []).append(review)
    return page(
        request,
        "review_runs.html",
        title="Review",
        here="Review",
        runs=[record for record in records if not reviewing.is_review(record)],
        raters=raters,
        standings=standings,
    )


@router.get("/review/run/{run}")
def begin(request: Request, book: Book, run: str) -> HTMLResponse:
    """Who rates, and in which order."""
    return _begin_page(request, book, record_of(book, run))


@router.post("/review/run/{run}")
def start(request: Request, book: Book, queues: Kept, run: str, sent: Sent) -> Response:
    record = record_of(book, run)
    try:
        review = _started(book, queues, record, sent)
    except LedgerError:
        raise
    except UsageError as error:
        return _begin_page(request, book, record, sent, str(error))
    return _go(f"/review/{review.id}/next")


@router.get("/review/run/{run}/ratings.csv")
def export_run(book: Book, run: str) -> Response:
    """The ratings of all raters, as `beholder ratings export` writes them."""
    return _csv(book, record_of(book, run), None)


@router.get("/review/{review}")
def summary(request: Request, book: Book, queues: Kept, review: Named) -> HTMLResponse:
    """How far a review is, and how judge and person agree so far."""
    far = progress(book, review, queues)
    hidden = review.hide and far.rated < far.of
    agreed, apart = ([], []) if hidden else beside(book, review)
    return page(
        request,
        "review_summary.html",
        title=f"Review by {review.rater}",
        here="Review",
        review=review,
        record=record_of(book, review.run),
        far=far,
        agreed=agreed,
        apart=[(one, label_of(book, review, one.case)) for one in apart[:MOST_SHOWN]],
        more=len(apart) - MOST_SHOWN,
        hidden=hidden,
        called=_called(book, review),
    )


@router.get("/review/{review}/ratings.csv")
def export_review(book: Book, review: Named) -> Response:
    """One person's ratings."""
    return _csv(book, record_of(book, review.run), review)


@router.get("/review/{review}/next")
def go_on(book: Book, queues: Kept, review: Named, after: str = "") -> Response:
    """The case to rate next; the summary when there is none."""
    passed = _found(lambda: case_of(book, review, after)) if after else None
    case = next_case(book, review, queues, after=passed)
    if case is None:
        return _go(f"/review/{review.id}")
    return _go(f"/review/{review.id}/case/{label_of(book, review, case)}")


def _rating(book: Book, review: Named, label: str) -> Rating:
    return reviewing.rating(book, review, _found(lambda: case_of(book, review, label)))


Rated = Annotated[Rating, Depends(_rating)]


@router.get("/review/{review}/case/{label}")
def case(
    request: Request, book: Book, queues: Kept, review: Named, rating: Rated, change: bool = False
) -> HTMLResponse:
    """The form; once the case is rated, what the judge said beside it."""
    if rating.saved and not change:
        return _reveal_page(request, book, queues, review, rating)
    return _form_page(request, book, queues, review, rating, rating.answers)


@router.post("/review/{review}/case/{label}")
def save(request: Request, book: Book, queues: Kept, review: Named, rating: Rated, sent: Sent) -> Response:
    """Saves a rating, and leads on. The script of the form asks for JSON: where to, or why not."""
    script = request.headers.get("accept", "") == JSON
    try:
        reviewing.rate(book, review, rating.case.id, sent)
    except LedgerError:
        raise
    except UsageError as error:
        if script:
            return JSONResponse({"why": plain(str(error))}, 400)
        return _form_page(request, book, queues, review, rating, sent, str(error))
    path = f"/review/{review.id}/next" if review.hide else f"/review/{review.id}/case/{rating.sheet.label}"
    return JSONResponse({"next": address(path)}) if script else _go(path)


@router.post("/review/{review}/draft/{label}")
def keep(book: Book, review: Named, label: str, sent: Sent, turn: str = "") -> Response:
    """Keeps answers that are not saved yet; for the script of the form, which sends each as it is given. `turn` tells
    an older one from a newer one, in whichever order they come. What is no answer is refused, and nothing kept."""
    case = _found(lambda: case_of(book, review, label))
    try:
        return JSONResponse({"kept": reviewing.keep_draft(book, review, case, sent, turn[:LONGEST_TURN])})
    except LedgerError:
        raise
    except UsageError as error:
        return JSONResponse({"kept": False, "why": plain(str(error))}, 400)


@router.post("/review/{review}/remove")
def remove(book: Book, review: Named) -> Response:
    """Forgets a name under which nothing was saved."""
    reviewing.remove(book, review)
    return _go(f"/review/run/{review.run}")


@router.get("/review/{review}/case/{label}/{at}.webp", response_class=Response)
def picture(
    request: Request, book: Book, review: Named, rating: Rated, at: Annotated[int, Path(ge=0, le=99)]
) -> Response:
    """An image of a case by its place: as large as there is one, under an address that names nothing."""
    if at >= len(rating.sheet.roles):
        raise NotThere("This case has fewer images.")
    role = rating.sheet.roles[at]
    larger: Larger = request.app.state.pictures
    sent = (image for verdict in rating.judged for image in verdict.images if image.role == role)
    digest = next((image.source_digest for image in sent), None)
    if digest is not None:
        data = larger.get(book, record_of(book, review.run), rating.case.id, digest) or book.thumbnail(digest)
    else:  # the judge needed no look at it, a person does
        data = larger.of_file(rating.case, role)
    if data is None:
        raise NotThere("The image is not where it was, and the ledger keeps no copy of it.")
    return Response(data, media_type="image/webp", headers={"Cache-Control": "private, max-age=3600"})


def _go(path: str) -> RedirectResponse:
    return RedirectResponse(address(path), 303)


def _csv(book: Ledger, record: RunRecord, review: Review | None) -> Response:
    lines = ratings_csv(book, record.id, None if review is None else [review])
    parts = iter(lambda: b"".join(islice(lines, LINES)), b"")
    name = quote((record if review is None else review).id, safe="")
    headers = {"Content-Disposition": f'attachment; filename="ratings-{name}.csv"'}
    return StreamingResponse(parts, media_type="text/csv; charset=utf-8", headers=headers)


def _started(book: Ledger, queues: Queues, record: RunRecord, sent: Mapping[str, str]) -> Review:
    """The review that the form asks for. Without an order a review goes on as it was begun. Raises `UsageError`."""
    rater, chosen, hide = reviewing.rater_name(sent.get("rater", "")), sent.get("order", ""), bool(sent.get("hide"))
    if not chosen:
        return reviewing.find_or_start(book, record.id, rater, hide=hide or None)
    each = sent.get("each", "").strip() or "0"
    if not each.isdecimal() or len(each) > 6:
        raise UsageError(f"So many cases of each value are rated as you say: a whole number, not {each[:20]!r}.")
    order = order_from(chosen, sent.get("group", ""), int(each))
    queues.of(book, Review("", record.id, rater, order))  # says what is wrong before anything is written
    return reviewing.find_or_start(book, record.id, rater, order, hide=hide)


def _begin_page(
    request: Request, book: Ledger, record: RunRecord, sent: Mapping[str, str] | None = None, wrong: str = ""
) -> HTMLResponse:
    if reviewing.is_review(record):
        raise NotThere(f"The run {record.id} is a review itself; rate the run that it is about.")
    reviews = reviewing.reviews_of(book, record.id)
    with book.reading() as connection:
        cases = stored.case_count(connection, book.number(connection, record.id))
        rated = stored.rated(connection, [one.id for one in reviews])
    return page(
        request,
        "review_start.html",
        400 if wrong else 200,
        title=f"Review {record.name}",
        here="Review",
        record=record,
        cases=cases,
        reviews=[(one, rated.get(one.id, 0)) for one in reviews],
        groups=sorted({name for one in book.case_groups(record.id, MOST_ASKED).values() for name in one}),
        sent=sent or {},
        wrong=wrong,
    )


def _form_page(
    request: Request,
    book: Ledger,
    queues: Queues,
    review: Review,
    rating: Rating,
    answers: Mapping[str, str],
    wrong: str = "",
) -> HTMLResponse:
    """Only what is on the sheet goes to this page: neither the case's id nor its groups, nor any verdict."""
    sheet = rating.sheet
    far = progress(book, review, queues)
    asked = sections(sheet, answers)
    return page(
        request,
        "review_case.html",
        400 if wrong else 200,
        title="Change a rating" if rating.saved else f"Case {min(far.rated + 1, far.of)} of {far.of}",
        here="Review",
        review=review,
        label=sheet.label,
        fields=sheet.fields,
        images=[labels(sheet).get(role, role) for role in sheet.roles],
        sections=asked,
        score_keys=score_keys(asked),
        assertions=any(ask.id for one in asked for part in one.parts for ask in part.asks),
        comment=answers.get(COMMENT, ""),
        far=far,
        again=rating.saved,
        wrong=wrong,
    )


def _reveal_page(request: Request, book: Ledger, queues: Queues, review: Review, rating: Rating) -> HTMLResponse:
    far = progress(book, review, queues)
    hidden = review.hide and far.rated < far.of
    agreed, apart = ([], []) if hidden else beside(book, review)
    own = {verdict.rubric: verdict for verdict in rating.verdicts}
    sheet = rating.sheet
    return page(
        request,
        "review_reveal.html",
        title=f"Rated {far.rated} of {far.of}",
        here="Review",
        review=review,
        label=sheet.label,
        case=None if hidden else rating.case,
        fields=sheet.fields,
        images=[labels(sheet).get(role, role) for role in sheet.roles],
        pairs=[pair_of(own[one.rubric], None if hidden else one) for one in rating.judged if one.rubric in own],
        names={criterion.key: criterion.name for rubric in sheet.rubrics for criterion in rubric.criteria},
        several=len(rating.judged) > 1,
        agreed=agreed,
        apart=[(one, label_of(book, review, one.case)) for one in apart[:5] if one.share > 0],
        far=far,
        hidden=hidden,
        called=_called(book, review),
    )


def _called(book: Ledger, review: Review) -> Callable[[str], str]:
    """What people call an aspect."""
    titles = titles_of(record_of(book, review.run).rubrics)
    return lambda aspect: column_title(aspect, titles)


def _found(find: Callable[[], T]) -> T:
    """What an address names; what is not there is told as that."""
    try:
        return find()
    except UsageError as error:
        raise NotThere(str(error)) from None
