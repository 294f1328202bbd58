"""Page: the matrix: a row for each photograph with its instruction, a column for each run or model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import HTMLResponse
from pydantic import Field

from beholder.cases.case import Case, FieldValue
from beholder.errors import UsageError
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RunRecord, StoredVerdict
from beholder.reports.comparison import find_thumbnails
from beholder.reports.matrix import (
    MAX_COLUMNS,
    ScoreMatrix,
    candidate_role,
    compute_group_matrix,
    compute_pair_matrix,
    compute_run_matrix,
    find_output,
)
from beholder.reports.text import criterion_titles, format_number, humanize, humanize_state
from beholder.web.background import (
    MANY_VERDICTS,
    BackgroundDep,
    BackgroundResults,
    CachedResult,
    ProgressCacheDep,
    cached_choices,
    run_in_process,
)
from beholder.web.pages.gallery import PageNumber, QueryText, QueryValues
from beholder.web.responses import LedgerDep, find_run, format_short, make_url, paginate, render_page, score_tone

router = APIRouter()

ROWS_PER_PAGE = 12
MODEL_GROUP = "model"  # the columns, where nothing else is asked for
SORTS = {"spread": "largest spread first", "worst": "lowest mean first", "order": "as in the run"}
ONLY = {"": "all", "differ": "only where they differ", "lacking": "a score is missing"}

CellKey = tuple[str, str]  # run and case

RunNames = Annotated[Sequence[Annotated[str, Field(max_length=500)]], Query(max_length=50)]


@dataclass(frozen=True, slots=True)
class MatrixQuery:
    """The query parameters: the runs, the group whose values are columns, the criterion, which rows, in which order."""

    run: RunNames = ()
    by: QueryText = ""
    on: QueryText = ""
    only: QueryText = ""
    sort: QueryText = ""

    def check(self) -> None:
        """Raise `UsageError` for an order or a choice of rows that there is not."""
        if (self.sort or "spread") not in SORTS:
            raise UsageError(f"Rows are sorted by {', '.join(SORTS)}, not by {self.sort!r}.")
        if self.only not in ONLY:
            raise UsageError(f"only is {' or '.join(filter(None, ONLY))}, not {self.only!r}.")


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """A column: its title, where it leads, the run that it is, and its scores in the rows of the matrix."""

    title: str
    link: str
    run: RunRecord | None
    scored: int
    cases: int
    mean: str


@dataclass(frozen=True, slots=True)
class JudgedCell:
    """A verdict in the matrix: its score or why there is none, whether it is the highest, and what was judged."""

    link: str
    score: str
    tone: str
    best: bool
    picture: str
    text: FieldValue
    case: str


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """A row: its name, the picture and texts that its cells have in common, the spread, and a cell for each column."""

    label: str
    picture: str
    fields: tuple[tuple[str, FieldValue], ...]
    spread: str
    cells: tuple[JudgedCell | None, ...]


@router.get("/matrix")
def matrix_view(
    ledger: LedgerDep,
    background: BackgroundDep,
    progress_cache: ProgressCacheDep,
    asked: Annotated[MatrixQuery, Depends()],
    at: PageNumber = 1,
) -> HTMLResponse:
    """Runs, or the models of a run, side by side."""
    asked.check()
    every = ledger.runs()
    records = [record for record in every if not record.is_review]
    progress = progress_cache.load(ledger, every)
    chosen = [find_run(ledger, name) for name in dict.fromkeys(filter(None, asked.run))]
    if not chosen and records:
        chosen = [find_run(ledger, records[0].id)]
    if len(chosen) > MAX_COLUMNS:
        raise UsageError(f"A matrix has at most {MAX_COLUMNS} columns, not {len(chosen)}.")
    by, groups, criteria = _find_columns(ledger, background, chosen, asked.by)
    result: CachedResult[ScoreMatrix] | None = None
    if len(chosen) > 1 or by:
        result = _cached_matrix(ledger, background, chosen, by, asked.on)
    matrix = result.value if result else None
    values: dict[str, Any] = {"heads": (), "rows": (), "total": 0}
    if matrix:
        values = _describe_rows(ledger, chosen, by, matrix, asked, at)
    answer = render_page(
        "matrix.html",
        title="Matrix",
        active_tab="Matrix",
        runs=records,
        progress=progress,
        chosen=chosen,
        by=by,
        groups=groups,
        criteria=criteria,
        titles=criterion_titles([rubric for record in chosen for rubric in record.rubrics]),
        asked=asked,
        pairs=len(chosen) == 1 and chosen[0].is_preference,
        sorts=SORTS,
        onlys=ONLY,
        most=MAX_COLUMNS,
        waiting=result is not None and result.value is None,
        fresh=result is None or result.fresh,
        matrix=matrix,
        all_rows=make_url("/matrix", run=tuple(record.id for record in chosen), by=asked.by, on=asked.on),
        **values,
    )
    if result is not None and not result.fresh:
        answer.headers["Refresh"] = "1" if result.value is None else "5"
    return answer


def _find_columns(
    ledger: Ledger, background: BackgroundResults, chosen: Sequence[RunRecord], by: str
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Return the group whose values are the columns, empty for runs; all groups; and the criteria."""
    if not chosen:
        return "", (), ()
    choices = [cached_choices(ledger, background, record) for record in chosen]
    criteria = tuple(dict.fromkeys(key for one in choices for key in one.criteria))
    if len(chosen) > 1:
        return "", (), criteria
    if chosen[0].is_preference:
        return MODEL_GROUP, (), ()
    groups = tuple(choices[0].groups)
    default = MODEL_GROUP if MODEL_GROUP in groups else ""
    return by if by in groups else default, groups, criteria  # the group may be that of a run that was chosen before


def _cached_matrix(
    ledger: Ledger, background: BackgroundResults, chosen: Sequence[RunRecord], by: str, on: str
) -> CachedResult[ScoreMatrix]:
    runs = tuple(record.id for record in chosen)
    if not by:
        work = partial(compute_run_matrix, ledger.address, runs, on)
    elif chosen[0].is_preference:
        work = partial(compute_pair_matrix, ledger.address, runs[0])
    else:
        work = partial(compute_group_matrix, ledger.address, runs[0], by, on)
    if sum(record.total for record in chosen) > MANY_VERDICTS:
        work = partial(run_in_process, work)
    return background.poll(("matrix", runs, by, on), tuple(record.updated for record in chosen), work)


def _describe_rows(
    ledger: Ledger,
    chosen: Sequence[RunRecord],
    by: str,
    matrix: ScoreMatrix,
    asked: MatrixQuery,
    at: int,
) -> dict[str, Any]:
    rows = matrix.select(asked.only, asked.sort or "spread")
    base: QueryValues = {
        "run": tuple(record.id for record in chosen),
        "by": asked.by,
        "on": asked.on,
        "only": asked.only,
        "sort": asked.sort,
    }
    pages = paginate(len(rows), at, ROWS_PER_PAGE, lambda at: make_url("/matrix", **base, at=at))
    return {
        "heads": tuple(_describe_columns(chosen, by, matrix)),
        "rows": tuple(_show_rows(ledger, chosen, by, asked.on, matrix, rows[pages.shown].tolist())),
        "total": len(rows),
        "pages": pages,
    }


def _describe_columns(chosen: Sequence[RunRecord], by: str, matrix: ScoreMatrix) -> Iterable[ColumnHead]:
    for number, column in enumerate(matrix.columns):
        record = None if by else chosen[number]
        if record is not None:
            title, link = record.name, make_url(f"/runs/{record.id}")
        elif chosen[0].is_preference:
            title, link = column.name, make_url(f"/runs/{chosen[0].id}/arena", model=column.name)
        else:
            title, link = column.name, make_url(f"/runs/{chosen[0].id}/cases", group=f"{by}={column.name}")
        yield ColumnHead(title, link, record, column.scored, column.cases, format_number(column.mean))


def _show_rows(
    ledger: Ledger, chosen: Sequence[RunRecord], by: str, on: str, matrix: ScoreMatrix, rows: Sequence[int]
) -> Iterable[MatrixRow]:
    records = [chosen[0]] * len(matrix.columns) if by else list(chosen)
    verdicts, asked = _read_cells(ledger, records, [matrix.cases[row] for row in rows])
    kept = find_thumbnails(ledger, ([stored.verdict for stored in one] for one in verdicts.values()))
    for row in rows:
        ids, scores = matrix.cases[row], matrix.scores[row]
        known = [score for score in scores.tolist() if not math.isnan(score)]
        spread = float(matrix.spread[row])
        best = max(known, default=math.nan) if spread > 0 else math.nan
        cells: list[JudgedCell | None] = []
        shared: tuple[str, tuple[tuple[str, FieldValue], ...]] | None = None
        for at, (record, case) in enumerate(zip(records, ids, strict=True)):
            stored = verdicts.get((record.id, case), [])
            if not case or not stored:
                cells.append(None)
                continue
            picture, text, common = _split_case(
                record, asked.get((record.id, case)), stored, matrix.columns[at].name if by else "", by, kept
            )
            shared = shared or common
            score = float(scores[at])
            cells.append(
                JudgedCell(
                    make_url(f"/runs/{record.id}/case", id=case),
                    format_short(score) if not math.isnan(score) else _say_state(stored),
                    score_tone(_share_of_scale(score, stored, on)),
                    score == best,
                    picture,
                    text,
                    case,
                )
            )
        first = shared or ("", ())
        yield MatrixRow(
            matrix.labels[row], first[0], first[1], "" if math.isnan(spread) else format_short(spread), tuple(cells)
        )


def _read_cells(
    ledger: Ledger, records: Sequence[RunRecord], rows: Sequence[Sequence[str]]
) -> tuple[dict[CellKey, list[StoredVerdict]], dict[CellKey, Case]]:
    """Return the verdicts and the cases of the cells, by run and case."""
    wanted: dict[str, dict[str, None]] = {}
    for row in rows:
        for record, case in zip(records, row, strict=True):
            if case:
                wanted.setdefault(record.id, {})[case] = None
    verdicts: dict[CellKey, list[StoredVerdict]] = {}
    asked: dict[CellKey, Case] = {}
    for run, cases in wanted.items():
        for stored in ledger.stored_verdicts_on(run, list(cases)):
            verdicts.setdefault((run, stored.verdict.case), []).append(stored)
        asked |= {(run, id_): case for id_, case in ledger.cases_on(run, list(cases)).items()}
    return verdicts, asked


def _share_of_scale(score: float, stored: Sequence[StoredVerdict], on: str) -> float | None:
    """Return a score, overall or of the criterion `on`, as a share of its scale; None where it has not one alone."""
    results = [one.verdict.criteria[on] for one in stored if on in one.verdict.criteria]
    scales = {tuple(result.scale) for result in results} if on else {(0, 1)}
    if math.isnan(score) or len(scales) != 1:
        return None
    [(low, high)] = scales
    return (score - low) / ((high - low) or 1)


def _split_case(
    record: RunRecord, case: Case | None, stored: Sequence[StoredVerdict], model: str, by: str, kept: set[str]
) -> tuple[str, FieldValue, tuple[str, tuple[tuple[str, FieldValue], ...]]]:
    """Return the picture and the text of a cell, and what its row has in common: a picture and the other texts."""
    images = next((one.verdict.shown_images for one in stored if one.verdict.shown_images), ())
    if case is None:  # it was removed since
        return "", "", ("", ())
    if record.is_preference:
        role = name = candidate_role(stored[0].groups, model)
        own: set[str] = {"first", "second"}
    else:
        role, name = find_output(case)
        own = {role, name, by}
    by_role = {image.role: image.source_digest for image in images if image.source_digest in kept}
    common = next((digest for at, digest in by_role.items() if at not in own), "")
    fields = tuple((at, text) for at, text in case.fields.items() if at not in own)
    return by_role.get(role, ""), case.fields.get(name, ""), (common, fields)


def _say_state(stored: Sequence[StoredVerdict]) -> str:
    """Return why a cell has no number."""
    if any(one.verdict.preference for one in stored):
        return "no vote"
    states = dict.fromkeys(humanize_state(str(one.verdict.outcome)) for one in stored if one.verdict.score is None)
    return ", ".join(states) or humanize("no_score")
