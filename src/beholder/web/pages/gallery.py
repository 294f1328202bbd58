"""Page: the verdicts of a run as cards, filtered (in the URL), sorted and paged by the database."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, TypeAlias
from urllib.parse import parse_qsl

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse
from pydantic import Field

from beholder.cases.case import CANDIDATES, Case, number_repeats
from beholder.errors import UsageError
from beholder.images.image import ImageSource
from beholder.images.source import is_remote
from beholder.judges.audit import DISAGREE
from beholder.ledger.ledger import Ledger
from beholder.ledger.search import INDEX_BATCH
from beholder.ledger.types import RUNNING, SORT_ORDERS, RunRecord, StoredVerdict, VerdictFilter
from beholder.reports.text import case_caption, criterion_titles, describe_measured, humanize, winner_title
from beholder.verdicts.verdict import CasePicture, SentImage, Verdict
from beholder.web.background import BackgroundDep, BackgroundResults, cached_choices
from beholder.web.responses import (
    LedgerDep,
    find_run,
    format_short,
    make_url,
    paginate,
    render_page,
    score_tone,
    to_json_values,
)

router = APIRouter()

PAGE_SIZE = 48
GALLERY_REFRESH_S = 4  # of a run under way
SORT_NAMES = {
    "worst": "worst first",
    "best": "best first",
    "no": "most No first",
    "bound": "lowest possible score first",
    "order": "as in the suite",
    "case": "by name",
}

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
    marked: QueryText = ""
    group: QueryGroups = ()
    sort: QueryText = ""


def _parse_filters(asked: Annotated[GalleryQuery, Depends()]) -> GalleryFilters:
    """Parse the filters of a URL; a form sends empty texts for filters that are not set."""
    sort, groups = asked.sort, tuple(item for item in asked.group if item)
    if sort and sort not in SORT_ORDERS:
        raise UsageError(f"Cases are sorted by {', '.join(SORT_ORDERS)}, not by {sort!r}.")
    if asked.passed not in ("", "yes", "no"):
        raise UsageError(f"passed is yes or no, not {asked.passed!r}.")
    if asked.marked not in ("", "star", "comment"):
        raise UsageError(f"marked is star or comment, not {asked.marked!r}.")
    wanted = VerdictFilter(
        **{
            name: getattr(asked, name)
            for name in ("outcome", "grade", "rubric", "criterion", "assertion", "flag", "style", "winner")
        },
        starred=asked.marked == "star",
        commented=asked.marked == "comment",
        passed={"yes": True, "no": False}.get(asked.passed),
        least=_parse_number(asked.least),
        most=_parse_number(asked.most),
        groups=parse_groups(groups),
        text=asked.q,
        sort=sort or "worst",
    )
    return GalleryFilters(asdict(asked) | {"group": groups, "sort": "" if sort == "worst" else sort}, wanted)


FiltersDep = Annotated[GalleryFilters, Depends(_parse_filters)]
PageNumber = Annotated[int, Query(ge=1, le=10_000_000)]


@dataclass(frozen=True, slots=True)
class CardBar:
    """A criterion on a card: its title, its score as text, the bar from `start` to `end` in percent of its scale (none
    without a score); one that was measured in part has a bar where the score lies."""

    title: str
    score: str
    start: float
    end: float | None
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
    measured: str
    caption: str
    starred: bool
    comments: int
    winner: str = ""
    gates: tuple[str, ...] = ()


@router.get("/runs/{run}/cases")
def gallery_view(
    ledger: LedgerDep, background: BackgroundDep, run: str, filters: FiltersDep, at: PageNumber = 1
) -> HTMLResponse:
    """The verdicts of a run as cards."""
    record = find_run(ledger, run)
    indexing = bool(filters.wanted.text) and not _index_texts(ledger, background, record)
    page = ledger.browse(record.id, filters.wanted, offset=(at - 1) * PAGE_SIZE, limit=PAGE_SIZE)
    here = f"/runs/{record.id}/cases"
    pages = paginate(page.total, at, PAGE_SIZE, lambda at: make_url(here, **filters.asked, at=at))
    if at > pages.at:  # the list is shorter than when the URL was made
        page = ledger.browse(record.id, filters.wanted, offset=pages.first, limit=PAGE_SIZE)
    here_query = make_url(here, **filters.asked).partition("?")[2]
    offered = cached_choices(ledger, background, record)
    return render_page(
        "gallery.html",
        title=f"Cases of {record.name}",
        active_tab="Runs",
        run=record,
        total=page.total,
        cards=_make_cards(ledger, record, page.verdicts, filters, pages.first),
        pages=pages,
        asked=filters.asked,
        views=_list_views(ledger, record, filters),
        query=here_query,
        indexing=indexing,
        refresh_s=0 if record.state != RUNNING else GALLERY_REFRESH_S,
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
    background: BackgroundDep,
    run: str,
    filters: FiltersDep,
    at: PageNumber = 1,
    size: Annotated[int, Query(ge=1, le=200)] = PAGE_SIZE,
) -> dict[str, object]:
    """The same verdicts as JSON: page `at` of those that the filters leave, `size` to a page."""
    record = find_run(ledger, run)
    if filters.wanted.text:
        _index_texts(ledger, background, record)
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


def _index_texts(ledger: Ledger, background: BackgroundResults, record: RunRecord) -> bool:
    """Put the texts of a run into the index of words, as far as they are not; return whether all of them are there.

    Many are indexed in the background, once; the few that are added while the run is judged are at once."""
    if ledger.read_only:
        return True
    unindexed = ledger.count_unindexed(record.id)
    if unindexed > INDEX_BATCH:
        return background.poll(("texts", record.id), record.updated, partial(ledger.index_texts, record.id)).fresh
    if unindexed:
        ledger.index_texts(record.id)
    return True


def _list_views(ledger: Ledger, record: RunRecord, filters: GalleryFilters) -> list[tuple[str, str, bool]]:
    """Return the saved views of a run: name, URL, and whether it is the one that is shown."""
    here, shown = f"/runs/{record.id}/cases", sorted(parse_qsl(make_url("", **filters.asked).partition("?")[2]))
    return [
        (name, f"{make_url(here)}?{query}" if query else make_url(here), sorted(parse_qsl(query)) == shown)
        for name, query in ledger.views(record.id).items()
    ]


def _is_file(source: ImageSource) -> bool:
    return isinstance(source, str) and not is_remote(source) and os.path.isfile(source)


def _make_cards(
    ledger: Ledger, record: RunRecord, judged: Sequence[StoredVerdict], filters: GalleryFilters, first: int | None
) -> list[GalleryCard]:
    """Return cards of verdicts, the first of which is at a place of the filtered list, if they are of one."""
    digests = {image.source_digest for stored in judged for image in _card_images(stored.verdict)}
    kept, titles = ledger.has_thumbnail(list(digests)), criterion_titles(record.rubrics)
    ids = [stored.verdict.case for stored in judged]
    cases = ledger.cases_on(record.id, ids)
    marks = _Marks(ledger.starred(record.id, ids), Counter(one.case for one in ledger.comments(record.id, ids)))
    return [
        _make_card(
            record,
            stored,
            filters,
            None if first is None else first + place,
            _card_pictures(record, cases.get(stored.verdict.case), stored.verdict, kept),
            titles,
            _caption(cases, stored.verdict.case),
            marks,
        )
        for place, stored in enumerate(judged)
    ]


def _card_pictures(
    record: RunRecord, case: Case | None, verdict: Verdict, kept: Collection[str]
) -> tuple[tuple[str, str], ...]:
    """Return role and URL of the pictures of a card: thumbnails of the ledger, else files of the case."""
    images = _card_images(verdict)
    if pictured := [image for image in images if image.source_digest in kept]:
        return tuple((image.role, f"/pictures/{image.source_digest}.webp") for image in pictured)
    if case is None:  # of a review of a run that was deleted
        return ()
    if images:
        return tuple(
            (image.role, large_image_url(record, verdict.case, image.source_digest, "small"))
            for image in images
            if any(map(_is_file, case.sources(image.role)))
        )
    files = list_unjudged_images(record, case, verdict, "small")
    return tuple(files if len(files) <= 2 else (files[0], files[-1]))


NEWEST = 6  # verdicts that the page of a running run shows


def newest_cards(ledger: Ledger, record: RunRecord) -> list[GalleryCard]:
    """Return the last verdicts of a run as cards, the newest first."""
    return _make_cards(ledger, record, ledger.newest(record.id, NEWEST), GalleryFilters({}, VerdictFilter()), None)


@dataclass(frozen=True, slots=True)
class _Marks:
    """Which cases have a star, and how many comments each has."""

    starred: Collection[str]
    comments: Counter[str]


def _caption(cases: Mapping[str, Case], case_id: str) -> str:
    return case_caption(cases[case_id].fields) if case_id in cases else ""


def _make_card(
    record: RunRecord,
    stored: StoredVerdict,
    filters: GalleryFilters,
    place: int | None,
    pictures: tuple[tuple[str, str], ...],
    titles: Mapping[str, str],
    caption: str,
    marks: _Marks,
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
        describe_measured(verdict),
        caption,
        verdict.case in marks.starred,
        marks.comments[verdict.case],
        winner_title(verdict.preference.winner) if verdict.preference and verdict.preference.winner else "",
        tuple(titles.get(key) or humanize(key) for key in verdict.failed_gates),
    )


def _card_images(verdict: Verdict) -> Sequence[SentImage | CasePicture]:
    """Return the two images of a card; of more than two these are the ones that the case page compares first, or the
    candidates of a preference."""
    candidates = [image for image in verdict.shown_images if verdict.preference and image.role in CANDIDATES]
    if len(candidates) == 2:
        return candidates
    shown = verdict.shown_images
    return shown if len(shown) <= 2 else (shown[0], shown[-1])


def _make_bars(verdict: Verdict, titles: Mapping[str, str]) -> list[CardBar]:
    bars = []
    ends = verdict.score_range
    if verdict.score is None and ends is not None and ends != (0, 1):
        bars.append(_range_bar("Score", ends, (0, 1), f"{ends[0]:.2f}–{ends[1]:.2f}"))
    for key, result in verdict.criteria.items():
        title, (low, high) = titles.get(key) or humanize(key), result.scale
        if result.score is not None:
            share = (result.score - low) / ((high - low) or 1)
            score = format_short(result.score, decisive=verdict.is_decisive)
            bars.append(CardBar(title, score, 0, max(3.0, 100 * share), score_tone(share)))  # a low score stays visible
        elif result.score_range is not None and tuple(result.score_range) != tuple(result.scale):
            ends_text = "–".join(dict.fromkeys(map(format_short, result.score_range)))
            bars.append(_range_bar(title, result.score_range, result.scale, ends_text))
        else:
            bars.append(CardBar(title, "not measured" if result.abstained else "no score", 0, None, "none"))
    return bars


def _range_bar(title: str, ends: tuple[float, float], scale: tuple[float, float], score: str) -> CardBar:
    low, high = (100 * (end - scale[0]) / ((scale[1] - scale[0]) or 1) for end in ends)
    return CardBar(title, score, low, max(high, low + 3), "range")


def parse_groups(asked: Sequence[str]) -> dict[str, str]:
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
