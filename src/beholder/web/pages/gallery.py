"""Page: the verdicts of a run as cards, filtered (in the URL), sorted and paged by the database."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse
from pydantic import Field

from beholder.cases.case import CANDIDATES, Case, number_repeats
from beholder.errors import LedgerError, UsageError
from beholder.images.image import ImageSource
from beholder.images.source import is_remote
from beholder.judges.audit import DISAGREE
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import SORT_ORDERS, RunRecord, StoredVerdict, VerdictFilter
from beholder.reports.text import criterion_titles, humanize, winner_title
from beholder.verdicts.verdict import CasePicture, SentImage, Verdict
from beholder.web.background import BackgroundDep, cached_choices
from beholder.web.responses import LedgerDep, find_run, format_short, make_url, render_page, score_tone, to_json_values

router = APIRouter()

PAGE_SIZE = 48
SORT_NAMES = {"worst": "worst first", "best": "best first", "order": "as in the suite", "case": "by name"}

QueryText = Annotated[str, Query(max_length=500)]
QueryNumber = Annotated[str, Query(max_length=40)]
QueryGroups = Annotated[Sequence[Annotated[str, Field(max_length=500)]], Query(max_length=200)]
QueryValues: TypeAlias = "dict[str, str | tuple[str, ...]]"  # query parameters of a URL, by name


@dataclass(frozen=True, slots=True)
class GalleryFilters:
    """The filters of a URL: its query parameters as they are, and the parsed filter."""

    asked: QueryValues
    wanted: VerdictFilter

    @property
    def any(self) -> bool:
        return any(value for name, value in self.asked.items() if name != "sort")


@dataclass(frozen=True, slots=True)
class GalleryQuery:
    """The query parameters of a list; a `group` is NAME or NAME=VALUE, one for each name."""

    q: QueryText = ""
    outcome: QueryText = ""
    grade: QueryText = ""
    passed: QueryText = ""
    rubric: QueryText = ""
    criterion: QueryText = ""
    least: QueryNumber = ""
    most: QueryNumber = ""
    assertion: QueryText = ""
    flag: QueryText = ""
    style: QueryText = ""
    winner: QueryText = ""
    group: QueryGroups = ()
    sort: QueryText = ""


def _parse_filters(asked: Annotated[GalleryQuery, Depends()]) -> GalleryFilters:
    """Parse the filters of a URL; a form sends empty texts for filters that are not set."""
    sort, groups = asked.sort, tuple(item for item in asked.group if item)
    if sort and sort not in SORT_ORDERS:
        raise UsageError(f"Cases are sorted by {', '.join(SORT_ORDERS)}, not by {sort!r}.")
    if asked.passed not in ("", "yes", "no"):
        raise UsageError(f"passed is yes or no, not {asked.passed!r}.")
    wanted = VerdictFilter(
        **{
            name: getattr(asked, name)
            for name in ("outcome", "grade", "rubric", "criterion", "assertion", "flag", "style", "winner")
        },
        passed={"yes": True, "no": False}.get(asked.passed),
        least=_parse_number(asked.least),
        most=_parse_number(asked.most),
        groups=_group_filters(groups),
        text=asked.q,
        sort=sort or "worst",
    )
    return GalleryFilters(asdict(asked) | {"group": groups, "sort": "" if sort == "worst" else sort}, wanted)


FiltersDep = Annotated[GalleryFilters, Depends(_parse_filters)]
PageNumber = Annotated[int, Query(ge=1, le=10_000_000)]


@dataclass(frozen=True, slots=True)
class CardBar:
    """A criterion on a card: its label with its score, and the place on its scale in percent."""

    label: str
    percent: float | None
    tone: str


@dataclass(frozen=True, slots=True)
class GalleryCard:
    """A verdict in the gallery; `audited` if the audit contradicts the judge, `pictures` are role and URL, `gates` the
    titles of what failed it whatever its score."""

    case: str
    link: str
    rubric: str
    state: str
    score: float | None
    grade: str | None
    passed: bool | None
    flags: int
    audited: bool
    pictures: tuple[tuple[str, str], ...]
    bars: tuple[CardBar, ...]
    winner: str = ""
    gates: tuple[str, ...] = ()


@router.get("/runs/{run}/cases")
def gallery_view(
    ledger: LedgerDep, background: BackgroundDep, run: str, filters: FiltersDep, at: PageNumber = 1
) -> HTMLResponse:
    """The verdicts of a run as cards."""
    record = find_run(ledger, run)
    page = ledger.browse(record.id, filters.wanted, offset=(at - 1) * PAGE_SIZE, limit=PAGE_SIZE)
    pages = max(1, math.ceil(page.total / PAGE_SIZE))
    if at > pages:  # the list is shorter than when the URL was made
        at = pages
        page = ledger.browse(record.id, filters.wanted, offset=(at - 1) * PAGE_SIZE, limit=PAGE_SIZE)
    here = f"/runs/{record.id}/cases"
    offered = cached_choices(ledger, background, record)
    turns = {
        name: make_url(here, **filters.asked, at=number if number > 1 else None) if 1 <= number <= pages else ""
        for name, number in (("before", at - 1), ("after", at + 1))
    }
    return render_page(
        "gallery.html",
        title=f"Cases of {record.name}",
        active_tab="Runs",
        run=record,
        total=page.total,
        cards=_make_cards(ledger, record, page.verdicts, filters, (at - 1) * PAGE_SIZE),
        first=(at - 1) * PAGE_SIZE + 1,
        at=at,
        pages=pages,
        turns=turns,
        asked=filters.asked,
        filtered=filters.any,
        choices=offered,
        groups={**offered.groups, **{name: () for name in filters.wanted.groups if name not in offered.groups}},
        asked_groups=filters.wanted.groups,
        sorts=SORT_NAMES,
        titles=criterion_titles(record.rubrics),
    )


@router.get("/api/runs/{run}/verdicts")
def gallery_json(
    ledger: LedgerDep,
    run: str,
    filters: FiltersDep,
    at: PageNumber = 1,
    size: Annotated[int, Query(ge=1, le=200)] = PAGE_SIZE,
) -> dict[str, object]:
    """The same verdicts as JSON: page `at` of those that the filters leave, `size` to a page."""
    record = find_run(ledger, run)
    page = ledger.browse(record.id, filters.wanted, offset=(at - 1) * size, limit=size)
    verdicts = [
        to_json_values({**stored.verdict.to_dict(), "groups": dict(stored.groups), "reused": stored.reused})
        for stored in page.verdicts
    ]
    return {"total": page.total, "at": at, "size": size, "verdicts": verdicts}


def case_link(record: RunRecord, case: str, asked: QueryValues | None = None, place: int | None = None) -> str:
    """Return the URL of a case; with the filters of its list and its place there, the page links to its neighbors."""
    return make_url(f"/runs/{record.id}/case", id=case, **(asked or {}), place=place)


def large_image_url(record: RunRecord, case_id: str, digest: str, size: str = "large") -> str:
    return make_url(f"/pictures/{digest}/{size}.webp", run=record.id, case=case_id)


def list_unjudged_images(record: RunRecord, case: Case, verdict: Verdict, size: str) -> list[tuple[str, str]]:
    """Return role and URL of the files of a case in roles of which the verdict knows no image: it is of an older
    Beholder, or the run kept no thumbnails. There is no digest to say whether a file is still what it was."""
    known = {image.role for image in verdict.shown_images}
    names = number_repeats(role for role, _ in case.list_images())
    return [
        (name, make_url(f"/case-pictures/{size}.webp", run=record.id, case=case.id, at=at))
        for at, (name, (role, source)) in enumerate(zip(names, case.list_images(), strict=True))
        if role not in known and _is_file(source)
    ]


def _is_file(source: ImageSource) -> bool:
    return isinstance(source, str) and not is_remote(source) and os.path.isfile(source)


def _make_cards(
    ledger: Ledger, record: RunRecord, judged: Sequence[StoredVerdict], filters: GalleryFilters, first: int
) -> list[GalleryCard]:
    digests = {image.source_digest for stored in judged for image in _card_images(stored.verdict)}
    kept, titles = ledger.has_thumbnail(list(digests)), criterion_titles(record.rubrics)
    return [
        _make_card(record, stored, filters, first + place, _card_pictures(ledger, record, stored.verdict, kept), titles)
        for place, stored in enumerate(judged)
    ]


def _card_pictures(
    ledger: Ledger, record: RunRecord, verdict: Verdict, kept: Collection[str]
) -> tuple[tuple[str, str], ...]:
    """Return role and URL of the pictures of a card: thumbnails of the ledger, else files of the case."""
    images = _card_images(verdict)
    if pictured := [image for image in images if image.source_digest in kept]:
        return tuple((image.role, f"/pictures/{image.source_digest}.webp") for image in pictured)
    try:
        case = ledger.case(record.id, verdict.case)
    except LedgerError:  # a review of a run that was deleted
        return ()
    if images:
        return tuple(
            (image.role, large_image_url(record, verdict.case, image.source_digest, "small"))
            for image in images
            if any(map(_is_file, case.sources(image.role)))
        )
    files = list_unjudged_images(record, case, verdict, "small")
    return tuple(files if len(files) <= 2 else (files[0], files[-1]))


def _make_card(
    record: RunRecord,
    stored: StoredVerdict,
    filters: GalleryFilters,
    place: int,
    pictures: tuple[tuple[str, str], ...],
    titles: Mapping[str, str],
) -> GalleryCard:
    verdict = stored.verdict
    return GalleryCard(
        verdict.case,
        case_link(
            record, verdict.case, {**filters.asked, "by": verdict.rubric if len(record.rubrics) > 1 else ""}, place
        ),
        verdict.rubric if len(record.rubrics) > 1 else "",
        str(stored.verdict.outcome),
        verdict.score,
        verdict.grade,
        verdict.passed,
        len({flag.flag for flag in verdict.flags}),
        any(flag.flag == DISAGREE for flag in verdict.flags),
        pictures,
        tuple(_make_bars(verdict, titles)),
        winner_title(verdict.preference.winner) if verdict.preference and verdict.preference.winner else "",
        tuple(titles.get(key) or humanize(key) for key in verdict.failed_gates),
    )


def _card_images(verdict: Verdict) -> Sequence[SentImage | CasePicture]:
    """Return the two images of a card; of more than two these are the ones that the case page compares first, or the
    candidates of a preference."""
    candidates = [image for image in verdict.images if verdict.preference is not None and image.role in CANDIDATES]
    if len(candidates) == 2:
        return candidates
    shown = verdict.shown_images
    return shown if len(shown) <= 2 else (shown[0], shown[-1])


def _make_bars(verdict: Verdict, titles: Mapping[str, str]) -> list[CardBar]:
    bars = []
    for key, result in verdict.criteria.items():
        low, high = result.scale
        share = None if result.score is None else (result.score - low) / ((high - low) or 1)
        score = "no score" if result.score is None else format_short(result.score, decisive=verdict.is_decisive)
        percent = None if share is None else max(3.0, 100 * share)  # a low score stays visible
        bars.append(CardBar(f"{titles.get(key) or humanize(key)}: {score}", percent, score_tone(share)))
    return bars


def _group_filters(asked: Sequence[str]) -> dict[str, str]:
    groups: dict[str, str] = {}
    for name, _, value in (pair.partition("=") for pair in asked if pair):
        if name in groups:
            raise UsageError(f"Of the group {name!r} one value can be asked for, not {groups[name]!r} and {value!r}.")
        groups[name] = value
    return groups


def _parse_number(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise UsageError(f"least and most are numbers, not {text!r}.")
    return number
