"""A case: its images, what was said of it and why, and what others said of it in other runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from beholder.cases import Case
from beholder.errors import LedgerError
from beholder.ledger import Ledger, RunRecord
from beholder.ledger.reading import Judged
from beholder.reports.flag_titles import flag_title
from beholder.reports.html.details import Numbered, detail, state_of
from beholder.reports.html.texts import plain, titles_of
from beholder.runs.reviewing import PERSON
from beholder.verdicts.model import Verdict
from beholder.web.answering import Book, NotThere, address, json_values, page, record_of
from beholder.web.briefs import told_to_the_judge
from beholder.web.pages.gallery import PAGE, Filtered, Filters, case_link
from beholder.web.pages.pictures import available, larger_link

router = APIRouter()

CaseId = Annotated[str, Query(max_length=4000)]
Place = Annotated[int | None, Query(ge=0, le=1_000_000_000)]


@dataclass(frozen=True, slots=True)
class Other:
    """A verdict on the same case: in which run, by whom, on the same images or on others."""

    run: RunRecord
    link: str
    here: bool
    judge: str
    state: str
    verdict: Verdict
    same_images: bool


@router.get("/runs/{run}/case")
def case(
    request: Request,
    book: Book,
    run: str,
    filters: Filtered,
    id: CaseId = "",
    rubric_: Annotated[str, Query(alias="by", max_length=500)] = "",
    place: Place = None,
) -> HTMLResponse:
    """A case of a run. With the filters of a list and the place in it, the next and the previous are known."""
    record = record_of(book, run)
    judged, asked = _judged(book, record, id)
    chosen = next((one for one in judged if one.verdict.rubric == rubric_), judged[0])
    others = _others(book, record, chosen)
    back = address(
        f"/runs/{record.id}/cases", **filters.asked, at=place // PAGE + 1 if place and place >= PAGE else None
    )
    return page(
        request,
        "case.html",
        title=chosen.verdict.case,
        here="Runs",
        run=record,
        case=chosen.verdict.case,
        judged=judged,
        chosen=chosen,
        rubrics=[
            (
                one.verdict.rubric,
                address(
                    f"/runs/{record.id}/case", id=one.verdict.case, **filters.asked, by=one.verdict.rubric, place=place
                ),
            )
            for one in judged
        ],
        state=state_of(chosen),
        fields=asked.fields,
        groups=[
            (name, value, address(f"/runs/{record.id}/cases", group=f"{name}={value}"))
            for name, value in chosen.groups.items()
        ],
        titles=titles_of(record.rubrics),
        flag_titles={plain(flag.flag): flag_title(plain(flag.flag)) for flag in chosen.verdict.flags},
        verdict={name: value for name, value in told(chosen, asked).items() if name != "groups"},  # at the top already
        brief=told_to_the_judge(record, asked, chosen.verdict),
        images=_images(book, record, chosen, asked),
        raw=book.raw(record.id, id).get(chosen.verdict.rubric, []),
        others=others,
        columns=list(dict.fromkeys(key for one in others for key in one.verdict.criteria)),
        back=back,
        turns=_turns(book, record, filters, place),
        place=place,
    )


@router.get("/api/runs/{run}/case")
def case_json(book: Book, run: str, id: CaseId = "") -> dict[str, object]:
    """The verdicts on a case with its groups and fields."""
    record = record_of(book, run)
    judged, asked = _judged(book, record, id)
    return {"run": record.id, "case": json_values(asked.id), "verdicts": [told(one, asked) for one in judged]}


def told(one: Judged, asked: Case) -> dict[str, object]:
    """A verdict as the page draws it: the names of `Verdict.to_dict`, without what is empty, with groups and fields."""
    questions = Numbered()
    found = detail(one, asked.fields, questions, {})
    criteria = found.get("criteria")
    for result in criteria.values() if isinstance(criteria, dict) else ():
        for assertion in result.get("assertions", ()):
            if "question" in assertion:
                assertion["question"] = questions.texts[assertion["question"]]
    values = json_values(found)
    assert isinstance(values, dict)
    return values


def _judged(book: Ledger, record: RunRecord, case_id: str) -> tuple[list[Judged], Case]:
    judged = list(book.judged(record.id, case=case_id))
    if not judged:
        raise NotThere(f"There is no case {case_id!r} in the run {record.name!r}.")
    try:
        return judged, book.case(record.id, case_id)
    except LedgerError:
        return judged, Case(case_id, {}, {}, dict(judged[0].groups))


def _images(book: Ledger, record: RunRecord, one: Judged, asked: Case) -> list[dict[str, object]]:
    """The images that can be shown: a small copy is kept, or the file is still there."""
    kept = book.has_thumbnail([image.source_digest for image in one.verdict.images])
    return [
        {"role": image.role, "src": larger_link(record, one.verdict.case, image.source_digest)}
        for image in one.verdict.images
        if image.source_digest in kept or available(asked, image.role, image.source_digest)
    ]


def _turns(book: Ledger, record: RunRecord, filters: Filters, place: int | None) -> dict[str, str]:
    """Links to the neighbours in the list that the case was opened from; empty where there is none."""
    links = {"before": "", "after": ""}
    if place is None:
        return links
    first = max(0, place - 1)
    found = book.browse(record.id, filters.wanted, offset=first, limit=3).judged
    for name, wanted in (("before", place - 1), ("after", place + 1)):
        if 0 <= wanted - first < len(found) and wanted >= 0:
            one = found[wanted - first].verdict
            links[name] = case_link(record, one.case, {**filters.asked, "by": one.rubric}, wanted)
    return links


def _others(book: Ledger, record: RunRecord, chosen: Judged) -> list[Other]:
    records = {one.id: one for one in book.runs()}
    images = {image.source_digest for image in chosen.verdict.images}
    found = []
    for run_id, one in book.on_case(chosen.verdict.case):
        verdict = one.verdict
        if verdict.rubric != chosen.verdict.rubric or run_id not in records:
            continue
        other = records[run_id]
        found.append(
            Other(
                other,
                address(f"/runs/{run_id}/case", id=verdict.case, by=verdict.rubric),
                run_id == record.id,
                f"{verdict.judge.removeprefix(PERSON)}, a person"
                if verdict.judge.startswith(PERSON)
                else verdict.model or verdict.judge,
                state_of(one),
                verdict,
                {image.source_digest for image in verdict.images} == images,
            )
        )
    return sorted(found, key=lambda one: not one.here)
