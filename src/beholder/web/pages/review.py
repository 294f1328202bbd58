"""People rate the cases of a run, blind until they have rated; then judge and person stand side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from beholder.cases import Case
from beholder.errors import ImageError, LedgerError, UsageError
from beholder.images import read
from beholder.images.thumbnails import thumbnail
from beholder.ledger import Ledger, RunRecord
from beholder.runs import reviewing
from beholder.runs.review_orders import Kind, Order, order_from
from beholder.runs.review_sheet import COMMENT
from beholder.runs.reviewing import Rating, Review
from beholder.statistics.reviews import beside, ratings_csv
from beholder.verdicts.model import Verdict
from beholder.web.answering import Book, NotThere, address, page, record_of
from beholder.web.pages.pictures import QUALITY, SIDE, Larger
from beholder.web.review_form import labels, sections

router = APIRouter()

MOST_FIELDS = 2000
MOST_ASKED = 1000  # cases whose groups are offered
MOST_SHOWN = 20  # cases in a list of differences


@dataclass(frozen=True, slots=True)
class Way:
    """How somebody goes through a review, as the address says: in which order, and whether the judge stays hidden until
    the end."""

    order: Order
    hide: bool

    @property
    def asked(self) -> dict[str, object]:
        """For addresses that go on in the same way."""
        order = self.order
        return {
            "order": "" if order.kind is Kind.RANDOM else order.kind,
            "group": order.group,
            "each": order.each or "",
            "hide": 1 if self.hide else "",
        }


def _way(
    order: str = "", group: str = "", each: Annotated[int, Query(ge=0, le=1_000_000)] = 0, hide: bool = False
) -> Way:
    return Way(order_from(order, group, each), hide)


async def _form(request: Request) -> dict[str, str]:
    """What a form sent, urlencoded; of a name that comes twice the last."""
    body = await request.body()
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise UsageError("What was sent is not a form of this app.") from None


Going = Annotated[Way, Depends(_way)]
Sent = Annotated[dict[str, str], Depends(_form)]


@router.get("/review")
def choose_run(request: Request, book: Book) -> HTMLResponse:
    """Which run to rate."""
    records = book.runs()
    runs = [record for record in records if not reviewing.is_review(record)]
    return page(
        request, "review_runs.html", title="Review", here="Review", runs=runs, raters=_raters(records), done=_done(book)
    )


@router.get("/review/run/{run}")
def begin(request: Request, book: Book, run: str) -> HTMLResponse:
    """Who rates, and in which order."""
    return _begin_page(request, book, record_of(book, run))


@router.post("/review/run/{run}")
def start(request: Request, book: Book, run: str, sent: Sent) -> Response:
    record = record_of(book, run)
    try:
        each = sent.get("each", "").strip() or "0"
        if not each.isdecimal() or len(each) > 6:
            raise UsageError(f"So many cases of each value are rated as you say: a whole number, not {each[:20]!r}.")
        order = order_from(sent.get("order", ""), sent.get("group", ""), int(each))
        review = reviewing.find_or_start(book, record.id, sent.get("rater", ""))
    except LedgerError:
        raise
    except UsageError as error:
        return _begin_page(request, book, record, sent, str(error))
    return _go(f"/review/{review.id}/next", **Way(order, bool(sent.get("hide"))).asked)


@router.get("/review/run/{run}/ratings.csv")
def export_run(book: Book, run: str) -> Response:
    """The ratings of all raters, as `beholder ratings export` writes them."""
    return _csv(book, record_of(book, run), None)


@router.get("/review/{review}")
def summary(request: Request, book: Book, review: str, way: Going) -> HTMLResponse:
    """How far a review is, and how judge and person agree so far."""
    found = _review(book, review)
    far = reviewing.progress(book, found, way.order)
    hidden = way.hide and far.rated < far.of
    agreed, apart = ([], []) if hidden else beside(book, found)
    cases = [(one, reviewing.label_of(found, one.case)) for one in apart[:MOST_SHOWN]]
    return page(
        request,
        "review_summary.html",
        title=f"Review by {found.rater}",
        here="Review",
        review=found,
        record=record_of(book, found.run),
        far=far,
        agreed=agreed,
        apart=cases,
        more=len(apart) - len(cases),
        hidden=hidden,
        asked=way.asked,
    )


@router.get("/review/{review}/ratings.csv")
def export_review(book: Book, review: str) -> Response:
    """One person's ratings."""
    found = _review(book, review)
    return _csv(book, record_of(book, found.run), found)


@router.get("/review/{review}/next")
def go_on(book: Book, review: str, way: Going, after: str = "") -> Response:
    """The case to rate next; the summary when there is none."""
    found = _review(book, review)
    passed = reviewing.case_of(book, found, after) if after else None
    case = reviewing.next_case(book, found, way.order, after=passed)
    if case is None:
        return _go(f"/review/{found.id}", **way.asked)
    return _go(f"/review/{found.id}/case/{reviewing.label_of(found, case)}", **way.asked)


@router.get("/review/{review}/case/{label}")
def case(request: Request, book: Book, review: str, label: str, way: Going, change: bool = False) -> HTMLResponse:
    """The form; once the case is rated, what the judge said beside it."""
    found, rating = _rating(book, review, label)
    if rating.saved and not change:
        return _reveal_page(request, book, found, rating, way)
    return _form_page(request, book, found, rating, way, rating.answers)


@router.post("/review/{review}/case/{label}")
def save(request: Request, book: Book, review: str, label: str, way: Going, sent: Sent) -> Response:
    found, rating = _rating(book, review, label)
    try:
        reviewing.rate(book, found, rating.case.id, sent)
    except LedgerError:
        raise
    except UsageError as error:
        return _form_page(request, book, found, rating, way, sent, str(error))
    where = f"/review/{found.id}/next" if way.hide else f"/review/{found.id}/case/{label}"
    return _go(where, **way.asked)


@router.post("/review/{review}/draft/{label}")
def keep(book: Book, review: str, label: str, sent: Sent) -> Response:
    """Keeps answers that are not saved yet; for the script of the form, which sends each as it is given."""
    found = _review(book, review)
    return JSONResponse({"kept": reviewing.keep_draft(book, found, _case(book, found, label), sent)})


@router.get("/review/{review}/case/{label}/{at}.webp", response_class=Response)
def picture(request: Request, book: Book, review: str, label: str, at: Annotated[int, Path(ge=0, le=99)]) -> Response:
    """An image of a case by its place: as large as there is one, under an address that names nothing."""
    found, rating = _rating(book, review, label)
    if at >= len(rating.sheet.roles):
        raise NotThere("This case has fewer images.")
    role = rating.sheet.roles[at]
    larger: Larger = request.app.state.pictures
    sent = (image for verdict in rating.judged for image in verdict.images if image.role == role)
    digest = next((image.source_digest for image in sent), None)
    if digest is not None:
        data = larger.get(book, record_of(book, found.run), rating.case.id, digest) or book.thumbnail(digest)
    else:  # the judge needed no look at it, a person does
        data = _from_file(rating.case, role)
    if data is None:
        raise NotThere("The image is not where it was, and the ledger keeps no copy of it.")
    return Response(data, media_type="image/webp", headers={"Cache-Control": "private, max-age=3600"})


def _from_file(case: Case, role: str) -> bytes | None:
    try:
        return thumbnail(read(case.images[role]), side=SIDE, quality=QUALITY)
    except ImageError:
        return None


def _review(book: Ledger, review: str) -> Review:
    record = record_of(book, review)
    if not reviewing.is_review(record):
        raise NotThere(f"The run {record.id} is no review.")
    found = reviewing.review_of(record)
    record_of(book, found.run)  # which may have been deleted since
    return found


def _case(book: Ledger, review: Review, label: str) -> str:
    try:
        return reviewing.case_of(book, review, label)
    except UsageError as error:
        raise NotThere(str(error)) from None


def _rating(book: Ledger, review: str, label: str) -> tuple[Review, Rating]:
    found = _review(book, review)
    return found, reviewing.rating(book, found, _case(book, found, label))


def _go(path: str, **asked: object) -> RedirectResponse:
    return RedirectResponse(address(path, **asked), 303)


def _csv(book: Ledger, record: RunRecord, review: Review | None) -> Response:
    name = f"ratings-{record.id if review is None else review.id}.csv"  # ids are ours: digits, letters, a hyphen
    lines = ratings_csv(book, record.id, None if review is None else [review])
    safe = "".join(letter for letter in name if letter.isascii() and (letter.isalnum() or letter in "-."))
    headers = {"Content-Disposition": f'attachment; filename="{safe}"'}
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


def _raters(records: list[RunRecord]) -> Mapping[str, list[tuple[str, str]]]:
    """By run, who rates it: the review's id and the name."""
    found: dict[str, list[tuple[str, str]]] = {}
    for record in reversed(records):
        if reviewing.is_review(record):
            one = reviewing.review_of(record)
            found.setdefault(one.run, []).append((one.id, one.rater))
    return found


def _done(book: Ledger) -> dict[str, int]:
    return {id_: one.done for id_, one in book.progress().items()}


def _begin_page(
    request: Request, book: Ledger, record: RunRecord, sent: Mapping[str, str] | None = None, wrong: str = ""
) -> HTMLResponse:
    if reviewing.is_review(record):
        raise NotThere(f"The run {record.id} is a review itself; rate the run that it is about.")
    groups = {name for one in book.case_groups(record.id, MOST_ASKED).values() for name in one}
    reviews = [(one, reviewing.progress(book, one)) for one in reviewing.reviews_of(book, record.id)]
    return page(
        request,
        "review_start.html",
        400 if wrong else 200,
        title=f"Review {record.name}",
        here="Review",
        record=record,
        reviews=reviews,
        groups=sorted(groups),
        sent=sent or {},
        wrong=wrong,
    )


def _form_page(
    request: Request,
    book: Ledger,
    review: Review,
    rating: Rating,
    way: Way,
    answers: Mapping[str, str],
    wrong: str = "",
) -> HTMLResponse:
    """Only what is on the sheet goes to this page: neither the case's id nor its groups, nor any verdict."""
    sheet = rating.sheet
    far = reviewing.progress(book, review, way.order)
    return page(
        request,
        "review_case.html",
        400 if wrong else 200,
        title=f"Case {min(far.rated + 1, far.of)} of {far.of}",
        here="Review",
        review=review,
        label=sheet.label,
        fields=sheet.fields,
        images=[labels(sheet).get(role, role) for role in sheet.roles],
        sections=sections(sheet, answers),
        comment=answers.get(COMMENT, ""),
        far=far,
        again=rating.saved,
        asked=way.asked,
        wrong=wrong,
    )


def _reveal_page(request: Request, book: Ledger, review: Review, rating: Rating, way: Way) -> HTMLResponse:
    far = reviewing.progress(book, review, way.order)
    hidden = way.hide and far.rated < far.of
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
        pairs=[_pair(own[one.rubric], None if hidden else one) for one in rating.judged if one.rubric in own],
        names={criterion.key: criterion.name for rubric in sheet.rubrics for criterion in rubric.criteria},
        several=len(rating.judged) > 1,
        agreed=agreed,
        apart=[(one, reviewing.label_of(review, one.case)) for one in apart[:5] if one.share > 0],
        far=far,
        hidden=hidden,
        asked=way.asked,
    )


@dataclass(frozen=True, slots=True)
class Pair:
    """A person's verdict, and the judge's unless it is hidden; `rows` by criterion: key, scale, person, judge, share of
    the scale between them; `split` the assertions that the two answered differently."""

    person: Verdict
    judge: Verdict | None
    rows: list[tuple[str, tuple[float, float], float | None, float | None, float | None]]
    split: list[tuple[str, str, str, str, str]]


def _pair(person: Verdict, judge: Verdict | None) -> Pair:
    rows, split = [], []
    for key, own in person.criteria.items():
        other = judge.criteria.get(key) if judge is not None else None
        theirs = None if other is None else other.score
        apart = None if own.score is None or theirs is None else (theirs - own.score) / (own.scale[1] - own.scale[0])
        rows.append((key, own.scale, own.score, theirs, apart))
        said = {one.id: one for one in other.assertions} if other is not None else {}
        split += [
            (one.id, one.question, one.answer, said[one.id].answer, said[one.id].evidence)
            for one in own.assertions
            if one.id in said and {one.answer, said[one.id].answer} == {"yes", "no"}
        ]
    return Pair(person, judge, rows, split)
