"""The verdicts of a run: filtered, sorted and paged by the database. The filters are the address."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse
from pydantic import Field

from beholder.errors import UsageError
from beholder.judges.audit import DISAGREE
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import SORT_ORDERS, RunRecord, StoredVerdict, VerdictFilter
from beholder.reports.run_data import verdict_state
from beholder.reports.text import criterion_titles, humanize
from beholder.verdicts.verdict import Verdict
from beholder.web.background import BackgroundDep, cached_choices
from beholder.web.responses import LedgerDep, find_run, format_short, make_url, render_page, score_tone, to_json_values

router = APIRouter()

PAGE_SIZE = 48
SORT_NAMES = {"worst": "worst first", "best": "best first", "order": "as in the suite", "case": "by name"}

QueryText = Annotated[str, Query(max_length=500)]
QueryNumber = Annotated[str, Query(max_length=40)]
QueryGroups = Annotated[Sequence[Annotated[str, Field(max_length=500)]], Query(max_length=200)]
QueryValues: TypeAlias = "dict[str, str | tuple[str, ...]]"  # what an address asks for, by name


@dataclass(frozen=True, slots=True)
class GalleryFilters:
    """What an address asks for, as it stands there; `wanted` is what that means."""

    asked: QueryValues
    wanted: VerdictFilter

    @property
    def any(self) -> bool:
        return any(value for name, value in self.asked.items() if name != "sort")


def _parse_filters(
    q: QueryText = "",
    outcome: QueryText = "",
    grade: QueryText = "",
    passed: QueryText = "",
    rubric: QueryText = "",
    criterion: QueryText = "",
    least: QueryNumber = "",
    most: QueryNumber = "",
    assertion: QueryText = "",
    flag: QueryText = "",
    style: QueryText = "",
    group: QueryGroups = (),
    sort: QueryText = "",
) -> GalleryFilters:
    """A `group` is NAME or NAME=VALUE, of each name one. A form sends empty texts for what was left alone."""
    if sort and sort not in SORT_ORDERS:
        raise UsageError(f"Cases are sorted by {', '.join(SORT_ORDERS)}, not by {sort!r}.")
    if passed not in ("", "yes", "no"):
        raise UsageError(f"passed is yes or no, not {passed!r}.")
    groups = _group_filters(group)
    wanted = VerdictFilter(
        outcome=outcome,
        grade=grade,
        passed={"yes": True, "no": False}.get(passed),
        rubric=rubric,
        criterion=criterion,
        least=_parse_number(least),
        most=_parse_number(most),
        assertion=assertion,
        flag=flag,
        style=style,
        groups=groups,
        text=q,
        sort=sort or "worst",
    )
    asked: QueryValues = {
        "q": q,
        "outcome": outcome,
        "grade": grade,
        "passed": passed,
        "rubric": rubric,
        "criterion": criterion,
    }
    asked |= {"least": least, "most": most, "assertion": assertion, "flag": flag, "style": style}
    asked |= {"group": tuple(one for one in group if one), "sort": "" if sort == "worst" else sort}
    return GalleryFilters(asked, wanted)


FiltersDep = Annotated[GalleryFilters, Depends(_parse_filters)]
PageNumber = Annotated[int, Query(ge=1, le=10_000_000)]


@dataclass(frozen=True, slots=True)
class CardBar:
    """A criterion on a card: its name with its score, and where on its scale that lies, in percent."""

    told: str
    percent: float | None
    tone: str


@dataclass(frozen=True, slots=True)
class GalleryCard:
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


@router.get("/runs/{run}/cases")
def gallery_view(
    request: Request, book: LedgerDep, shop: BackgroundDep, run: str, filters: FiltersDep, at: PageNumber = 1
) -> HTMLResponse:
    """The verdicts of a run as cards."""
    record = find_run(book, run)
    found = book.browse(record.id, filters.wanted, offset=(at - 1) * PAGE_SIZE, limit=PAGE_SIZE)
    pages = max(1, math.ceil(found.total / PAGE_SIZE))
    if at > pages:  # the list has become shorter since the address was written down
        at = pages
        found = book.browse(record.id, filters.wanted, offset=(at - 1) * PAGE_SIZE, limit=PAGE_SIZE)
    here = f"/runs/{record.id}/cases"
    offered = cached_choices(book, shop, record)
    turns = {
        name: make_url(here, **filters.asked, at=number if number > 1 else None) if 1 <= number <= pages else ""
        for name, number in (("before", at - 1), ("after", at + 1))
    }
    return render_page(
        request,
        "gallery.html",
        title=f"Cases of {record.name}",
        here="Runs",
        run=record,
        total=found.total,
        cards=_make_cards(book, record, found.verdicts, filters, (at - 1) * PAGE_SIZE),
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
    book: LedgerDep,
    run: str,
    filters: FiltersDep,
    at: PageNumber = 1,
    size: Annotated[int, Query(ge=1, le=200)] = PAGE_SIZE,
) -> dict[str, object]:
    """The same verdicts as JSON: page `at` of those that the filters leave, `size` to a page."""
    record = find_run(book, run)
    found = book.browse(record.id, filters.wanted, offset=(at - 1) * size, limit=size)
    verdicts = [
        to_json_values({**one.verdict.to_dict(), "groups": dict(one.groups), "reused": one.reused})
        for one in found.verdicts
    ]
    return {"total": found.total, "at": at, "size": size, "verdicts": verdicts}


def case_link(record: RunRecord, case: str, asked: QueryValues | None = None, place: int | None = None) -> str:
    """To a case; with the filters of the list it came from and its place there, so that next and previous are known."""
    return make_url(f"/runs/{record.id}/case", id=case, **(asked or {}), place=place)


def _make_cards(
    book: Ledger, record: RunRecord, judged: Sequence[StoredVerdict], filters: GalleryFilters, first: int
) -> list[GalleryCard]:
    shots = {image.source_digest for one in judged for image in one.verdict.images[:2]}
    kept, titles = book.has_thumbnail(list(shots)), criterion_titles(record.rubrics)
    return [_make_card(record, one, filters, first + place, kept, titles) for place, one in enumerate(judged)]


def _make_card(
    record: RunRecord,
    one: StoredVerdict,
    filters: GalleryFilters,
    place: int,
    kept: Collection[str],
    titles: Mapping[str, str],
) -> GalleryCard:
    verdict = one.verdict
    return GalleryCard(
        verdict.case,
        case_link(
            record, verdict.case, {**filters.asked, "by": verdict.rubric if len(record.rubrics) > 1 else ""}, place
        ),
        verdict.rubric if len(record.rubrics) > 1 else "",
        verdict_state(one),
        verdict.score,
        verdict.grade,
        verdict.passed,
        len({flag.flag for flag in verdict.flags}),
        any(flag.flag == DISAGREE for flag in verdict.flags),
        tuple((image.role, image.source_digest) for image in verdict.images[:2] if image.source_digest in kept),
        tuple(_make_bars(verdict, titles)),
    )


def _make_bars(verdict: Verdict, titles: Mapping[str, str]) -> list[CardBar]:
    found = []
    for key, result in verdict.criteria.items():
        low, high = result.scale
        share = None if result.score is None else (result.score - low) / ((high - low) or 1)
        told = (
            f"{titles.get(key) or humanize(key)}: {'no score' if result.score is None else format_short(result.score)}"
        )
        found.append(CardBar(told, None if share is None else max(3.0, 100 * share), score_tone(share)))
    return found


def _group_filters(asked: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, _, value in (one.partition("=") for one in asked if one):
        if name in found:
            raise UsageError(f"Of the group {name!r} one value can be asked for, not {found[name]!r} and {value!r}.")
        found[name] = value
    return found


def _parse_number(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise UsageError(f"least and most are numbers, not {text!r}.")
    return found
