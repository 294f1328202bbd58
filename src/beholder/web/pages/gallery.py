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
from beholder.ledger import Ledger, RunRecord
from beholder.ledger.browsing import SORTS, Wanted
from beholder.ledger.reading import Judged
from beholder.reports.html.details import state_of
from beholder.reports.html.texts import name_of, titles_of
from beholder.verdicts.model import Verdict
from beholder.web.answering import Book, address, json_values, page, record_of, short, tone
from beholder.web.choices import choices_of
from beholder.web.computing import Shop

router = APIRouter()

PAGE = 48
SORT_NAMES = {"worst": "worst first", "best": "best first", "order": "as in the suite", "case": "by name"}

Text = Annotated[str, Query(max_length=500)]
Number = Annotated[str, Query(max_length=40)]
Groups = Annotated[Sequence[Annotated[str, Field(max_length=500)]], Query(max_length=200)]
Asked: TypeAlias = "dict[str, str | tuple[str, ...]]"  # what an address asks for, by name


@dataclass(frozen=True, slots=True)
class Filters:
    """What an address asks for, as it stands there; `wanted` is what that means."""

    asked: Asked
    wanted: Wanted

    @property
    def any(self) -> bool:
        return any(value for name, value in self.asked.items() if name != "sort")


def _filters(
    q: Text = "",
    outcome: Text = "",
    grade: Text = "",
    passed: Text = "",
    rubric: Text = "",
    criterion: Text = "",
    least: Number = "",
    most: Number = "",
    assertion: Text = "",
    flag: Text = "",
    style: Text = "",
    group: Groups = (),
    sort: Text = "",
) -> Filters:
    """A `group` is NAME or NAME=VALUE, of each name one. A form sends empty texts for what was left alone."""
    if sort and sort not in SORTS:
        raise UsageError(f"Cases are sorted by {', '.join(SORTS)}, not by {sort!r}.")
    if passed not in ("", "yes", "no"):
        raise UsageError(f"passed is yes or no, not {passed!r}.")
    groups = _groups(group)
    wanted = Wanted(
        outcome=outcome,
        grade=grade,
        passed={"yes": True, "no": False}.get(passed),
        rubric=rubric,
        criterion=criterion,
        least=_number(least),
        most=_number(most),
        assertion=assertion,
        flag=flag,
        style=style,
        groups=groups,
        text=q,
        sort=sort or "worst",
    )
    asked: Asked = {
        "q": q,
        "outcome": outcome,
        "grade": grade,
        "passed": passed,
        "rubric": rubric,
        "criterion": criterion,
    }
    asked |= {"least": least, "most": most, "assertion": assertion, "flag": flag, "style": style}
    asked |= {"group": tuple(one for one in group if one), "sort": "" if sort == "worst" else sort}
    return Filters(asked, wanted)


Filtered = Annotated[Filters, Depends(_filters)]
Page = Annotated[int, Query(ge=1, le=10_000_000)]


@dataclass(frozen=True, slots=True)
class Bar:
    """A criterion on a card: its name with its score, and where on its scale that lies, in percent."""

    told: str
    percent: float | None
    tone: str


@dataclass(frozen=True, slots=True)
class Card:
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
    bars: tuple[Bar, ...]


@router.get("/runs/{run}/cases")
def gallery(request: Request, book: Book, shop: Shop, run: str, filters: Filtered, at: Page = 1) -> HTMLResponse:
    """The verdicts of a run as cards."""
    record = record_of(book, run)
    found = book.browse(record.id, filters.wanted, offset=(at - 1) * PAGE, limit=PAGE)
    pages = max(1, math.ceil(found.total / PAGE))
    if at > pages:  # the list has become shorter since the address was written down
        at = pages
        found = book.browse(record.id, filters.wanted, offset=(at - 1) * PAGE, limit=PAGE)
    here = f"/runs/{record.id}/cases"
    offered = choices_of(book, shop, record)
    turns = {
        name: address(here, **filters.asked, at=number if number > 1 else None) if 1 <= number <= pages else ""
        for name, number in (("before", at - 1), ("after", at + 1))
    }
    return page(
        request,
        "gallery.html",
        title=f"Cases of {record.name}",
        here="Runs",
        run=record,
        total=found.total,
        cards=_cards(book, record, found.judged, filters, (at - 1) * PAGE),
        first=(at - 1) * PAGE + 1,
        at=at,
        pages=pages,
        turns=turns,
        asked=filters.asked,
        filtered=filters.any,
        choices=offered,
        groups={**offered.groups, **{name: () for name in filters.wanted.groups if name not in offered.groups}},
        asked_groups=filters.wanted.groups,
        sorts=SORT_NAMES,
        titles=titles_of(record.rubrics),
    )


@router.get("/api/runs/{run}/verdicts")
def gallery_json(
    book: Book, run: str, filters: Filtered, at: Page = 1, size: Annotated[int, Query(ge=1, le=200)] = PAGE
) -> dict[str, object]:
    """The same verdicts as JSON: page `at` of those that the filters leave, `size` to a page."""
    record = record_of(book, run)
    found = book.browse(record.id, filters.wanted, offset=(at - 1) * size, limit=size)
    verdicts = [
        json_values({**one.verdict.to_dict(), "groups": dict(one.groups), "reused": one.reused}) for one in found.judged
    ]
    return {"total": found.total, "at": at, "size": size, "verdicts": verdicts}


def case_link(record: RunRecord, case: str, asked: Asked | None = None, place: int | None = None) -> str:
    """To a case; with the filters of the list it came from and its place there, so that next and previous are known."""
    return address(f"/runs/{record.id}/case", id=case, **(asked or {}), place=place)


def _cards(book: Ledger, record: RunRecord, judged: Sequence[Judged], filters: Filters, first: int) -> list[Card]:
    shots = {image.source_digest for one in judged for image in one.verdict.images[:2]}
    kept, titles = book.has_thumbnail(list(shots)), titles_of(record.rubrics)
    return [_card(record, one, filters, first + place, kept, titles) for place, one in enumerate(judged)]


def _card(
    record: RunRecord, one: Judged, filters: Filters, place: int, kept: Collection[str], titles: Mapping[str, str]
) -> Card:
    verdict = one.verdict
    return Card(
        verdict.case,
        case_link(
            record, verdict.case, {**filters.asked, "by": verdict.rubric if len(record.rubrics) > 1 else ""}, place
        ),
        verdict.rubric if len(record.rubrics) > 1 else "",
        state_of(one),
        verdict.score,
        verdict.grade,
        verdict.passed,
        len({flag.flag for flag in verdict.flags}),
        any(flag.flag == DISAGREE for flag in verdict.flags),
        tuple((image.role, image.source_digest) for image in verdict.images[:2] if image.source_digest in kept),
        tuple(_bars(verdict, titles)),
    )


def _bars(verdict: Verdict, titles: Mapping[str, str]) -> list[Bar]:
    found = []
    for key, result in verdict.criteria.items():
        low, high = result.scale
        share = None if result.score is None else (result.score - low) / ((high - low) or 1)
        told = f"{titles.get(key) or name_of(key)}: {'no score' if result.score is None else short(result.score)}"
        found.append(Bar(told, None if share is None else max(3.0, 100 * share), tone(share)))
    return found


def _groups(asked: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, _, value in (one.partition("=") for one in asked if one):
        if name in found:
            raise UsageError(f"Of the group {name!r} one value can be asked for, not {found[name]!r} and {value!r}.")
        found[name] = value
    return found


def _number(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if math.isnan(found):
        raise UsageError(f"least and most are numbers, not {text!r}.")
    return found
