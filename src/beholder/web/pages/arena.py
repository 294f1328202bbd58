"""Page: the arena of a run of pairs: boards of judge and people, win rates, and the pairs themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from msgspec import structs

from beholder.arena.verdict_votes import PairRow
from beholder.cases.case import CANDIDATES, FieldValue
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import RUNNING, RunRecord
from beholder.reports.arena_section import PAIR_FILTERS, ArenaSection, compute_arena, describe_winner
from beholder.reviews.review import list_reviews
from beholder.rubrics.brief import SWAPPED
from beholder.verdicts.verdict import PreferenceAnswer, Verdict
from beholder.web.background import MANY_VERDICTS, BackgroundDep, BackgroundResults, CachedResult, run_in_process
from beholder.web.pages.gallery import PageNumber, QueryText
from beholder.web.responses import LedgerDep, NotFound, find_run, make_url, paginate, render_page

router = APIRouter()

PAIRS_PER_PAGE = 12
ARENA_REFRESH_S = 5  # between two checks for new votes


@dataclass(frozen=True, slots=True)
class ShownCandidate:
    """A candidate on the page: its model, its picture (a digest) or text, and whether it won."""

    model: str
    won: bool
    picture: str = ""
    text: FieldValue = ""


@dataclass(frozen=True, slots=True)
class ShownPair:
    """A pair on the page.

    Attributes:
        row: What came of it.
        winner: The winner by the name of its model.
        link: The page of its case.
        others: Roles and digests of the other images, such as the input.
        fields: The other texts.
        candidates: The two candidates.
        answers: What each call said, by the names of the models: the title, and the words.
        people: What people voted, with how many did.
    """

    row: PairRow
    winner: str
    strength: float | None
    link: str
    others: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, FieldValue], ...]
    candidates: tuple[ShownCandidate, ...]
    answers: tuple[tuple[str, str], ...]
    people: str


@router.get("/runs/{run}/arena")
def arena_view(
    ledger: LedgerDep,
    background: BackgroundDep,
    run: str,
    model: QueryText = "",
    other: QueryText = "",
    only: QueryText = "",
    at: PageNumber = 1,
) -> HTMLResponse:
    """The board of a run of pairs, win rates, and the pairs; `model`, `other` and `only` choose among the pairs."""
    record = find_run(ledger, run)
    if not record.is_preference or record.is_review:
        raise NotFound(f"The run {record.id} compares no candidates, and has no arena.")
    result = cached_arena(ledger, background, record)
    arena = result.value
    pairs = arena.select(only, model, other) if arena else []
    here = f"/runs/{record.id}/arena"
    asked = {"model": model, "other": other, "only": only}
    pages = paginate(len(pairs), at, PAIRS_PER_PAGE, lambda at: make_url(here, **asked, at=at) + "#pairs")
    answer = render_page(
        "arena.html",
        title=f"Arena of {record.name}",
        active_tab="Runs",
        run=record,
        arena=arena,
        waiting=arena is None and not result.fresh,
        fresh=result.fresh,
        asked=asked,
        filters=[(kind, title, arena.count(kind, model, other)) for kind, title in PAIR_FILTERS.items()]
        if arena
        else [],
        total=len(pairs),
        pages=pages,
        pairs=_show_pairs(ledger, record, arena, pairs[pages.shown]) if arena else [],
        pair_link=lambda one, two: make_url(here, model=one, other=two) + "#pairs",
        live_s=1 if not result.fresh else ARENA_REFRESH_S if record.state == RUNNING else 0,
    )
    if not result.fresh:  # for a browser without script
        answer.headers["Refresh"] = "1"
    return answer


def cached_arena(ledger: Ledger, background: BackgroundResults, record: RunRecord) -> CachedResult[ArenaSection | None]:
    """Return the arena of a run, if it is computed by now for these verdicts and votes."""
    reviews = [ledger.run(review.id) for review in list_reviews(ledger, record.id)]
    rated = ledger.rated_cases([review.id for review in reviews])
    stamp = (record.updated, *((review.id, review.updated, rated.get(review.id, 0)) for review in reviews))
    work = partial(compute_arena, ledger.address, record.id)
    many = record.total * (1 + len(reviews)) > MANY_VERDICTS
    return background.poll(
        ("arena", record.id), stamp, partial(run_in_process, work) if many else work, patient=not many
    )


def _show_pairs(ledger: Ledger, record: RunRecord, arena: ArenaSection, rows: list[PairRow]) -> list[ShownPair]:
    stored = {one.verdict.case: one.verdict for one in ledger.stored_verdicts_on(record.id, [row.case for row in rows])}
    digests = {image.source_digest for verdict in stored.values() for image in verdict.shown_images}
    kept = ledger.has_thumbnail(list(digests))
    return [
        _show_pair(ledger, record, arena, row, stored[row.case], kept)
        for row in rows
        if row.case in stored  # else it was removed since
    ]


def _show_pair(
    ledger: Ledger, record: RunRecord, arena: ArenaSection, row: PairRow, verdict: Verdict, kept: Collection[str]
) -> ShownPair:
    fields = ledger.case(record.id, row.case).fields
    pictures = [(image.role, image.source_digest) for image in verdict.shown_images if image.source_digest in kept]
    by_role = dict(pictures)
    candidates = tuple(
        ShownCandidate(model, row.winner == role, by_role.get(role, ""), fields.get(role, ""))
        for role, model in zip(CANDIDATES, row.models, strict=True)
    )
    preference = verdict.preference
    votes = Counter(describe_winner(structs.replace(row, winner=vote.winner)) for vote in arena.votes.get(row.case, ()))
    return ShownPair(
        row=row,
        winner=describe_winner(row),
        strength=preference.strength if preference else None,
        link=make_url(f"/runs/{record.id}/case", id=row.case),
        others=tuple((role, digest) for role, digest in pictures if role not in CANDIDATES),
        fields=tuple((name, value) for name, value in fields.items() if name not in CANDIDATES),
        candidates=candidates,
        answers=tuple(_describe_answer(row, answer) for answer in (preference.answers if preference else ())),
        people=", ".join(f"{count} × {winner}" for winner, count in votes.most_common()),
    )


def _describe_answer(row: PairRow, answer: PreferenceAnswer) -> tuple[str, str]:
    """Return what a call said: `aurora, strength 2 of 3 (shown as A: cobalt)`, and its reason."""
    said = describe_winner(structs.replace(row, winner=answer.choice)) if answer.choice else str(answer.outcome)
    strength = f", strength {answer.strength} of 3" if answer.strength else ""
    shown_first = row.models[answer.order == SWAPPED]
    return f"{said}{strength} (shown as A: {shown_first})", answer.reason or answer.detail
