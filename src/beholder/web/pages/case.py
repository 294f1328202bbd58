"""Page: a case with its images, verdicts, prompt, and verdicts of other runs; and the routes of images.

Images are addressed by the digest of their file, or by their place in a case where no judge was sent them, and always
re-encoded: a request can read no file but the images of the cases of a run.
"""

from __future__ import annotations

import shlex
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from beholder.cases.case import Case, FieldValue, number_repeats
from beholder.errors import BeholderError, ImageError, LedgerError
from beholder.images.headers import detect_format
from beholder.images.image import ImageSource, PreparedImage
from beholder.images.prepare import THUMBNAIL_SIDE, make_thumbnail
from beholder.images.prepare import digest as digest_of
from beholder.images.source import read_image
from beholder.judges.base import INSTRUMENTS
from beholder.ledger.database import DEFAULT_FILE
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord, StoredVerdict
from beholder.reports.run_data import StringTable, verdict_detail
from beholder.reports.text import criterion_titles, escape_hidden, flag_title, split_instruction
from beholder.reviews.review import PERSON_PREFIX
from beholder.rubrics.brief import WHOLE, Composer, TextBlock
from beholder.verdicts.verdict import Verdict
from beholder.web.pages.gallery import (
    PAGE_SIZE,
    FiltersDep,
    GalleryFilters,
    case_link,
    large_image_url,
    list_unjudged_images,
)
from beholder.web.responses import LedgerDep, NotFound, find_run, from_state, make_url, render_page, to_json_values


@dataclass(frozen=True, slots=True)
class SentBrief:
    """The prompt: `system` and `message` with labels in brackets for images, or empty with the reason in `note`."""

    system: str = ""
    message: str = ""
    note: str = ""


def recompose_brief(record: RunRecord, case: Case, verdict: Verdict) -> SentBrief:
    """Compose the brief of a verdict again; the ledger keeps only its digest, which tells if it is the one sent."""
    if verdict.judge.startswith(PERSON_PREFIX):
        return SentBrief(note="A person rated: by the questions of the rubric, without this text.")
    if verdict.judge == INSTRUMENTS:
        return SentBrief(note="The instruments measured: they read no text.")
    if not verdict.brief_digest:
        return SentBrief(note="No judge was asked.")
    try:
        rubric = record.load_rubrics().get(verdict.rubric)
        if rubric is None:
            return SentBrief(note="The run does not keep its rubric, so that the text cannot be put together again.")
        composer = Composer(rubric, prompt=record.prompt, setting=verdict.setting or "")
        images: dict[str, list[PreparedImage]] = {}
        for image in verdict.images:
            images.setdefault(image.role, []).append(_image_placeholder(image.digest))
        answers = verdict.preference.answers if verdict.preference else ()
        brief = composer.compose(case, images or None, answers[0].order if answers else WHOLE)
    except BeholderError as error:
        return SentBrief(note=f"The text cannot be put together again: {error}")
    message = "\n\n".join(part.text if isinstance(part, TextBlock) else f"[{part.label}]" for part in brief.content)
    same = brief.digest == verdict.brief_digest
    return SentBrief(
        brief.system,
        message,
        "This is the text that was sent, as its digest says."
        if same
        else "Put together again from what the run keeps. It is not quite the text that was sent, for its digest is "
        "another: the style is not one of ours, or another version of Beholder was at work.",
    )


def _image_placeholder(digest: str) -> PreparedImage:
    """Return an image of which only the digest matters."""
    return PreparedImage(b"", "", 0, 0, digest, "", 0, 0, "")


router = APIRouter()

CaseId = Annotated[str, Query(max_length=4000)]
ListPosition = Annotated[int | None, Query(ge=0, le=1_000_000_000)]


@dataclass(frozen=True, slots=True)
class OtherVerdict:
    """A verdict on the same case in some run; `here` if it is this run."""

    run: RunRecord
    link: str
    here: bool
    judge: str
    state: str
    verdict: Verdict
    same_images: bool


@router.get("/runs/{run}/case")
def case_view(
    request: Request,
    ledger: LedgerDep,
    run: str,
    filters: FiltersDep,
    id: CaseId = "",
    rubric_: Annotated[str, Query(alias="by", max_length=500)] = "",
    place: ListPosition = None,
) -> HTMLResponse:
    """A case of a run. With the filters of a list and the place in it, it links to the next and the previous."""
    record = find_run(ledger, run)
    judged, asked = _case_verdicts(ledger, record, id)
    chosen = next((stored for stored in judged if stored.verdict.rubric == rubric_), judged[0])
    others = _other_verdicts(ledger, record, chosen)
    instruction, rest = split_instruction(asked.fields)
    back = make_url(
        f"/runs/{record.id}/cases", **filters.asked, at=place // PAGE_SIZE + 1 if place and place >= PAGE_SIZE else None
    )
    return render_page(
        "case.html",
        title=chosen.verdict.case,
        active_tab="Runs",
        run=record,
        case=chosen.verdict.case,
        judged=judged,
        chosen=chosen,
        rubrics=[
            (name, case_link(record, chosen.verdict.case, {**filters.asked, "by": name}, place))
            for name in (stored.verdict.rubric for stored in judged)
        ],
        state=str(chosen.verdict.outcome),
        fields=rest,
        instruction=instruction,
        groups=[
            (name, value, make_url(f"/runs/{record.id}/cases", group=f"{name}={value}"))
            for name, value in chosen.groups.items()
        ],
        titles=criterion_titles(record.rubrics),
        flag_titles={escape_hidden(flag.flag): flag_title(escape_hidden(flag.flag)) for flag in chosen.verdict.flags},
        # Groups are at the top of the page already.
        verdict={name: value for name, value in verdict_json(chosen, asked, rest).items() if name != "groups"},
        brief=recompose_brief(record, asked, chosen.verdict),
        images=_case_images(ledger, record, chosen, asked),
        raw=ledger.raw_answers(record.id, id).get(chosen.verdict.rubric, []),
        others=others,
        columns=list(dict.fromkeys(key for other in others for key in other.verdict.criteria)),
        back=back,
        starred=bool(ledger.starred(record.id, [id])),
        comments=ledger.comments(record.id, [id]),
        query=request.url.query,
        by=chosen.verdict.rubric if len(judged) > 1 else "",
        command=_show_command(ledger, record, chosen.verdict.case),
        turns=_neighbor_links(ledger, record, filters, place),
        place=place,
    )


def _show_command(ledger: Ledger, record: RunRecord, case_id: str) -> str:
    """Return the command that shows a case. It names the file of the ledger, unless it is the usual one."""
    words = ["beholder", "show", record.id, case_id]
    if ledger.path is not None and str(ledger.path) != DEFAULT_FILE:  # the URL of a server may hold a password
        words += ["--ledger", str(ledger.path)]
    return shlex.join(words)


@router.get("/api/runs/{run}/case")
def case_json(ledger: LedgerDep, run: str, id: CaseId = "") -> dict[str, object]:
    """The verdicts on a case with its groups and fields."""
    record = find_run(ledger, run)
    judged, asked = _case_verdicts(ledger, record, id)
    return {
        "run": record.id,
        "case": to_json_values(asked.id),
        "verdicts": [verdict_json(stored, asked) for stored in judged],
    }


def verdict_json(
    stored: StoredVerdict, asked: Case, fields: Mapping[str, FieldValue] | None = None
) -> dict[str, object]:
    """Return a verdict as the page shows it: as `verdict_detail`, with the texts of the questions. `fields` are those
    that are shown with it, unless all of the case are."""
    questions = StringTable()
    detail = verdict_detail(stored, asked.fields if fields is None else fields, questions, {})
    criteria = detail.get("criteria")
    for result in criteria.values() if isinstance(criteria, dict) else ():
        for assertion in result.get("assertions", ()):
            if "question" in assertion:
                assertion["question"] = questions.texts[assertion["question"]]
    values = to_json_values(detail)
    assert isinstance(values, dict)
    return values


def _case_verdicts(ledger: Ledger, record: RunRecord, case_id: str) -> tuple[list[StoredVerdict], Case]:
    judged = list(ledger.stored_verdicts(record.id, case=case_id))
    if not judged:
        raise NotFound(f"There is no case {case_id!r} in the run {record.name!r}.")
    try:
        return judged, ledger.case(record.id, case_id)
    except LedgerError:
        return judged, Case(case_id, {}, {}, dict(judged[0].groups))


def _case_images(ledger: Ledger, record: RunRecord, stored: StoredVerdict, asked: Case) -> list[dict[str, str]]:
    """Return the images that can be shown: the ledger has a thumbnail, or the file is unchanged."""
    shown = stored.verdict.shown_images
    kept = ledger.has_thumbnail([image.source_digest for image in shown])
    names = number_repeats(image.role for image in shown)
    images = [
        {"role": name, "src": large_image_url(record, stored.verdict.case, image.source_digest)}
        | ({"full": large_image_url(record, stored.verdict.case, image.source_digest, "full")} if there else {})
        for name, image in zip(names, shown, strict=True)
        if (there := is_available(asked, image.role, image.source_digest)) or image.source_digest in kept
    ]
    large, full = (list_unjudged_images(record, asked, stored.verdict, size) for size in ("large", "full"))
    return images + [{"role": role, "src": src, "full": of} for (role, src), (_, of) in zip(large, full, strict=True)]


def _neighbor_links(ledger: Ledger, record: RunRecord, filters: GalleryFilters, place: int | None) -> dict[str, str]:
    """Return links to the neighbors in the list that the case was opened from; empty where there is none."""
    links = {"before": "", "after": ""}
    if place is None:
        return links
    first = max(0, place - 1)
    neighbors = ledger.browse(record.id, filters.wanted, offset=first, limit=3).verdicts
    for name, wanted in (("before", place - 1), ("after", place + 1)):
        if 0 <= wanted - first < len(neighbors) and wanted >= 0:
            verdict = neighbors[wanted - first].verdict
            links[name] = case_link(record, verdict.case, {**filters.asked, "by": verdict.rubric}, wanted)
    return links


def _other_verdicts(ledger: Ledger, record: RunRecord, chosen: StoredVerdict) -> list[OtherVerdict]:
    records = {run.id: run for run in ledger.runs()}
    images = {image.source_digest for image in chosen.verdict.shown_images}
    others = []
    for run_id, stored in ledger.case_history(chosen.verdict.case):
        verdict = stored.verdict
        if verdict.rubric != chosen.verdict.rubric or run_id not in records:
            continue
        other = records[run_id]
        others.append(
            OtherVerdict(
                other,
                make_url(f"/runs/{run_id}/case", id=verdict.case, by=verdict.rubric),
                run_id == record.id,
                f"{verdict.judge.removeprefix(PERSON_PREFIX)}, a person"
                if verdict.judge.startswith(PERSON_PREFIX)
                else verdict.model or verdict.judge,
                str(stored.verdict.outcome),
                verdict,
                {image.source_digest for image in verdict.shown_images} == images,
            )
        )
    return sorted(others, key=lambda one: not one.here)


pictures_router = APIRouter()

LARGE_SIDE = 1600
FULL_SIDE = 8192  # for a look at single pixels
QUALITY = 82
SIDES = {"small": THUMBNAIL_SIDE, "large": LARGE_SIDE, "full": FULL_SIDE}
MAX_CACHE_BYTES = 64 * 1024 * 1024

Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="of the image file, SHA-256 in hex")]
# The content of a digest never changes.
_CACHE_HEADERS = {"Cache-Control": "private, max-age=31536000, immutable"}


class LargeImageCache:
    """LRU cache of re-encoded images, up to `max_bytes`."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._images: OrderedDict[tuple[str, int], bytes] = OrderedDict()  # by digest and longer side
        self._size = 0
        self._lock = threading.Lock()
        self._decoding = threading.Semaphore(2)  # decoding takes memory

    def get(self, ledger: Ledger, record: RunRecord, case_id: str, digest: str, side: int = LARGE_SIDE) -> bytes | None:
        """Return an image of a case, or None if its file is gone or was changed since it was judged."""
        return self._get_or_make((digest, side), lambda: _make_large(ledger, record, case_id, digest, side))

    def of_file(self, source: ImageSource, side: int = LARGE_SIDE) -> bytes | None:
        """Return an image of a case that was not sent to the judge, so that there is no digest to check."""
        data = _image_data(source)
        if data is None:
            return None
        return self._get_or_make((digest_of(data), side), lambda: _scale_image(data, side))

    def _get_or_make(self, digest: tuple[str, int], make: Callable[[], bytes | None]) -> bytes | None:
        with self._lock:
            if digest in self._images:
                self._images.move_to_end(digest)
                return self._images[digest]
        with self._decoding:
            made = make()
        if made is not None:
            with self._lock:
                if digest not in self._images:
                    self._size += len(made)
                self._images[digest] = made
                while self._size > self._max_bytes:
                    self._size -= len(self._images.popitem(last=False)[1])
        return made


LargeImagesDep = Annotated[LargeImageCache, from_state("pictures")]


@pictures_router.get("/pictures/{digest}.webp", response_class=Response)
def thumbnail_image(ledger: LedgerDep, digest: Digest) -> Response:
    """The thumbnail of an image in the ledger."""
    thumbnail = ledger.thumbnail(digest)
    if thumbnail is None:
        raise NotFound("The ledger keeps no such picture.")
    return Response(thumbnail, media_type=image_media_type(thumbnail), headers=_CACHE_HEADERS)


@pictures_router.get("/pictures/{digest}/{size}.webp", response_class=Response)
def large_image(
    ledger: LedgerDep,
    larger: LargeImagesDep,
    digest: Digest,
    size: Literal["small", "large", "full"],
    run: Annotated[str, Query(max_length=500)] = "",
    case: Annotated[str, Query(max_length=4000)] = "",
) -> Response:
    """An image of a case, up to 1,600 pixels wide and high (`full`: 8,192, `small`: as a thumbnail); the ledger's
    thumbnail if the file is gone or was changed."""
    record = find_run(ledger, run)
    if _image_role(ledger, record, case, digest) is None:
        raise NotFound("No case of this run has such an image.")
    image = larger.get(ledger, record, case, digest, SIDES[size])
    if image is None:
        return RedirectResponse(f"/pictures/{digest}.webp", 307)
    return Response(image, media_type=image_media_type(image), headers=_CACHE_HEADERS)


@pictures_router.get("/case-pictures/{size}.webp", response_class=Response)
def case_image(
    ledger: LedgerDep,
    larger: LargeImagesDep,
    size: Literal["small", "large", "full"],
    run: Annotated[str, Query(max_length=500)] = "",
    case: Annotated[str, Query(max_length=4000)] = "",
    at: Annotated[int, Query(ge=0, le=9999)] = 0,
) -> Response:
    """An image of a case by its place among them, whether or not a judge saw it: as its file is now."""
    record = find_run(ledger, run)
    try:
        images = list(ledger.case(record.id, case).list_images())
    except LedgerError:
        raise NotFound("There is no such case in this run.") from None
    image = larger.of_file(images[at][1], SIDES[size]) if at < len(images) else None
    if image is None:
        raise NotFound("The image is not where it was, and the ledger keeps no copy of it.")
    return Response(image, media_type=image_media_type(image), headers={"Cache-Control": "private, max-age=3600"})


def image_media_type(data: bytes) -> str:
    """Return the media type of an image, whatever its address: JPEG, or WebP for thumbnails of older ledgers."""
    return f"image/{detect_format(data)}"


def _image_role(ledger: Ledger, record: RunRecord, case_id: str, digest: str) -> str | None:
    """Return the role of an image in the case; None if it has no such image."""
    for stored in ledger.stored_verdicts(record.id, case=case_id):
        for image in stored.verdict.shown_images:
            if image.source_digest == digest:
                return image.role
    return None


def is_available(case: Case, role: str, digest: str) -> bool:
    """Return whether the file that was judged is still where the case says."""
    return _image_file(case, role, digest) is not None


def _image_file(case: Case, role: str, digest: str) -> bytes | None:
    found = (_image_data(source) for source in case.sources(role))
    return next((data for data in found if data is not None and digest_of(data) == digest), None)


def _image_data(source: ImageSource) -> bytes | None:
    if not isinstance(source, str):
        return None
    try:
        return read_image(source)  # refuses anything but a plain file, and remote images
    except ImageError:
        return None


def _make_large(ledger: Ledger, record: RunRecord, case_id: str, digest: str, side: int) -> bytes | None:
    try:
        data = _image_file(ledger.case(record.id, case_id), _image_role(ledger, record, case_id, digest) or "", digest)
    except LedgerError:
        return None
    return None if data is None else _scale_image(data, side)


def _scale_image(data: bytes, side: int = LARGE_SIDE) -> bytes | None:
    try:
        return make_thumbnail(data, side=side, quality=QUALITY)
    except ImageError:
        return None
