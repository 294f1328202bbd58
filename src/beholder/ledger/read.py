"""Reading the ledger: runs, verdicts, cases, answers and thumbnails.

`stream_*` functions read a page of rows at a time, each in a short transaction of its own that starts after the last
row of the page before: no transaction stays open while the caller works, and memory use stays flat. The other functions
run in the transaction of the connection that they get. A run is given by its number (`runs.number`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

import msgspec
from sqlalchemy import Connection, func, select, tuple_

from beholder.cases.case import Case
from beholder.errors import LedgerError
from beholder.ledger import schema
from beholder.ledger.encoding import (
    DAMAGED_MESSAGE,
    FACET_STYLE,
    TallyInput,
    digest_bytes,
    key_id,
    split_ids,
    storable_text,
    unpack,
    unpack_extract,
    unpack_flags,
    unpack_text,
    unpack_verdict,
)
from beholder.ledger.schema import AnyRow, AnySelect, chunks, json_text
from beholder.ledger.types import REVIEW_PREFIX, AnswerKey, RunRecord, StoredAnswer, StoredVerdict, VerdictKey
from beholder.verdicts.verdict import Outcome, Verdict

OpenTransaction = Callable[[], AbstractContextManager[Connection]]  # `Ledger._reading`

PAGE_SIZE = 256

_R, _C, _V, _A, _T = schema.runs.c, schema.cases.c, schema.verdicts.c, schema.answers.c, schema.thumbnails.c

# The columns that `to_stored_verdict` needs.
VERDICT_ROWS = select(_V.position, _V.number, _V.case_id, _V.reused, _V.answers, _V.body, _C.groups).join_from(
    schema.verdicts, schema.cases, (_C.run == _V.run) & (_C.id == _V.case_id), isouter=True
)
_KEY_PAGE = select(_A.key).distinct().order_by(_A.key).limit(20_000)
# An expression that no index has: otherwise SQLite would scan a whole run in order, to save sorting a few verdicts.
_POSITION_UNINDEXED = _V.position + 0
_GROUPS_DECODER = msgspec.json.Decoder(dict[str, str])


# Runs


def find_run(connection: Connection, name: str, place: str) -> AnyRow:
    """Return the row of a run, by its id, its name, the start of its id, or "latest".

    Args:
        connection: A transaction.
        name: The id or name.
        place: The ledger, for the message.

    Raises:
        LedgerError: There is no such run, or several ids start so.
    """
    newest = select(schema.runs).order_by(_R.number.desc()).limit(2)
    text = storable_text(name)
    starts_so = func.substr(_R.id, 1, len(text)) == text
    for condition, several_are_fine in ((_R.id == text, True), (_R.name == text, True), (starts_so, False)):
        rows = connection.execute(newest.where(condition)).all() if text else []
        if len(rows) > 1 and not several_are_fine:
            raise LedgerError(f"Several runs start with {name!r}; write more of the id.")
        if rows:
            return rows[0]
    if text == "latest":  # never a review: that is about a run, which is the one that is meant
        rows = connection.execute(newest.where(~_R.fingerprint.startswith(REVIEW_PREFIX))).all()
        if rows:
            return rows[0]
        raise LedgerError(f"There is no run in the ledger {place!r} yet.")
    raise LedgerError(f"There is no run {name!r} in the ledger {place!r}; `beholder runs` lists them.")


def find_newest_run(connection: Connection, fingerprint: str) -> RunRecord | None:
    query = select(schema.runs).where(_R.fingerprint == fingerprint).order_by(_R.number.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else to_run_record(row)


def read_runs(connection: Connection) -> list[RunRecord]:
    """Return all runs, newest first."""
    return [to_run_record(row) for row in connection.execute(select(schema.runs).order_by(_R.number.desc()))]


def to_run_record(row: AnyRow) -> RunRecord:
    body = unpack(row.body, f"the run {row.id!r}")
    assert isinstance(body, dict)
    known_usd = Decimal(row.spent_usd)
    return RunRecord(
        id=row.id,
        name=row.name,
        fingerprint=row.fingerprint,
        state=row.state,
        created=datetime.fromisoformat(row.created),
        updated=datetime.fromisoformat(row.updated),
        total=row.total,
        suite=body["suite"],
        rubrics=tuple(body["rubrics"]),
        prompt=body["prompt"],
        versions=body["versions"],
        tags=tuple(json.loads(row.tags)),
        spent_usd=None if row.unpriced and not known_usd else known_usd,
        skipped=row.skipped,
        unpriced=row.unpriced,
    )


# Verdicts


def stream_verdicts(
    reading: OpenTransaction,
    run: int,
    *,
    case: str | None = None,
    outcome: str | None = None,
    rubric: str | None = None,
    answers: bool = False,
) -> Iterator[StoredVerdict]:
    """Stream the verdicts of a run in the order of its cases; with raw answers if `answers` is true."""
    order = _V.position if case is None else _POSITION_UNINDEXED
    query = VERDICT_ROWS.where(_V.run == run).order_by(order, _V.number)
    for column, value in ((_V.case_id, case), (_V.outcome, outcome), (_V.rubric, rubric)):
        if value is not None:
            query = query.where(column == storable_text(value))
    for rows, texts in _stream_pages(reading, query, answers=answers):
        yield from (to_stored_verdict(row, texts) for row in rows)


def stream_verdicts_on(reading: OpenTransaction, run: int, case_ids: Sequence[str]) -> Iterator[StoredVerdict]:
    """Stream the verdicts on some cases, without raw answers; in the order of the run within each chunk of cases."""
    query = VERDICT_ROWS.where(_V.run == run).order_by(_POSITION_UNINDEXED, _V.number)
    for part in chunks([storable_text(id_) for id_ in case_ids]):
        with reading() as connection:
            rows = connection.execute(query.where(_V.case_id.in_(part))).all()
        yield from (to_stored_verdict(row, {}) for row in rows)


def stream_extracts(reading: OpenTransaction, run: int) -> Iterator[TallyInput]:
    """Stream those parts of the verdicts of a run that a tally counts."""
    query = (
        select(_V.position, _V.number, _V.case_id, _V.reused, _V.body)
        .where(_V.run == run)
        .order_by(_V.position, _V.number)
    )
    for rows, _ in _stream_pages(reading, query):
        yield from (TallyInput(unpack_extract(row.body, f"the verdict on {row.case_id!r}"), row.reused) for row in rows)


def _stream_pages(
    reading: OpenTransaction, query: AnySelect, *, answers: bool = False
) -> Iterator[tuple[Sequence[AnyRow], Mapping[bytes, str]]]:
    """Stream pages of a query over verdicts that is ordered by position and number, with the texts of raw answers."""
    query = query.limit(PAGE_SIZE)
    rows: Sequence[AnyRow] = ()
    while not rows or len(rows) == PAGE_SIZE:
        page = query.where(tuple_(_V.position, _V.number) > (rows[-1].position, rows[-1].number)) if rows else query
        with reading() as connection:
            rows = connection.execute(page).all()
            texts = read_single_answers(connection, rows) if answers else {}
        if not rows:
            return
        yield rows, texts


def to_stored_verdict(row: AnyRow, texts: Mapping[bytes, str]) -> StoredVerdict:
    """Return the verdict of a row of `VERDICT_ROWS`, with its raw answer if that is among `texts`."""
    verdict = unpack_verdict(row.body, f"the verdict on {row.case_id!r}")
    text = texts.get(row.answers)
    if text is not None and verdict.jury is None and not verdict.answer:
        verdict = replace(verdict, answer=text)
    return StoredVerdict(row.position, verdict, json.loads(row.groups or "{}"), row.reused)


def read_case_verdicts(connection: Connection, run: int, case_id: str) -> list[Verdict]:
    """Return the verdicts of a run on a case, with raw answers."""
    stored = stream_verdicts(lambda: nullcontext(connection), run, case=case_id, answers=True)
    return [row.verdict for row in stored]


def read_outcomes(connection: Connection, run: int, case_ids: Sequence[str] | None) -> dict[VerdictKey, str]:
    """Return outcomes by case id and rubric name, of these cases or of all."""
    query = select(_V.case_id, _V.rubric, _V.outcome).where(_V.run == run)
    if case_ids is None:
        return {(case, rubric): outcome for case, rubric, outcome in connection.execute(query)}
    asked = {storable_text(id_): id_ for id_ in case_ids}
    return {
        (asked[case], rubric): outcome
        for part in chunks(list(asked))
        for case, rubric, outcome in connection.execute(query.where(_V.case_id.in_(part)))
    }


def has_several_styles(connection: Connection, run: int) -> bool:
    """Return whether the verdicts of a run are by more than one style; no style counts as one."""
    style = json_text(_V.facets, FACET_STYLE)
    return len(connection.execute(select(style).where(_V.run == run).distinct().limit(2)).all()) > 1


# Answers


def find_cached_answers(connection: Connection, keys: Sequence[AnswerKey]) -> dict[AnswerKey, StoredAnswer]:
    """Return the newest answer to each key that has one."""
    by_id = {key_id(key): key for key in keys}
    columns = (_A.key, _A.body, _A.model, _A.usage, _A.cost_usd, _A.latency_s, _A.attempts, _A.flags)
    answers: dict[AnswerKey, StoredAnswer] = {}
    for part in chunks(list(by_id)):
        for row in connection.execute(select(*columns).where(_A.key.in_(part)).order_by(_A.number)):
            key = by_id[row.key]
            answers[key] = StoredAnswer(
                key,
                text=unpack_text(row.body, "an answer"),
                model=row.model,
                usage=json.loads(row.usage),
                cost_usd=None if row.cost_usd is None else Decimal(row.cost_usd),
                latency_s=row.latency_s,
                attempts=row.attempts,
                flags=unpack_flags(row.flags, "an answer"),
            )
    return answers


def read_answered_keys(connection: Connection, number: int) -> tuple[bytes, int]:
    """Return the ids of the keys answered after answer `number`, joined, and the number of the newest answer."""
    newest: int = connection.scalar(select(func.max(_A.number))) or 0
    if newest == number:
        return b"", newest
    if number:
        return b"".join(connection.scalars(select(_A.key).where(_A.number > number))), newest
    # All keys are read from their index, without the answers themselves, a page at a time.
    pages, last = [], b""
    while page := connection.scalars(_KEY_PAGE.where(_A.key > last)).all():
        pages.append(b"".join(page))
        last = page[-1]
    return b"".join(pages), newest


def read_single_answers(connection: Connection, rows: Sequence[AnyRow]) -> dict[bytes, str]:
    """Return the raw answers, by id, of verdicts that were made from exactly one; a jury's verdict has several."""
    return _read_answer_texts(connection, list({row.answers for row in rows if len(row.answers) == 16}))


def read_raw_answers(connection: Connection, run: int, case_id: str) -> dict[str, list[str]]:
    """Return the raw answers behind the verdicts on a case, by rubric; of a jury one for each juror."""
    query = select(_V.rubric, _V.answers).where(_V.run == run, _V.case_id == storable_text(case_id))
    answers = {}
    for row in connection.execute(query).all():
        ids = split_ids(row.answers)
        texts = _read_answer_texts(connection, ids)
        answers[row.rubric] = [texts[id_] for id_ in ids if id_ in texts]
    for verdict in read_case_verdicts(connection, run, case_id):
        if verdict.answer and not answers.get(verdict.rubric):
            answers[verdict.rubric] = [verdict.answer]
    return answers


def _read_answer_texts(connection: Connection, ids: Sequence[bytes]) -> dict[bytes, str]:
    return {
        row.id: unpack_text(row.body, "an answer")
        for part in chunks(ids)
        for row in connection.execute(select(_A.id, _A.body).where(_A.id.in_(part)))
    }


# Cases


def stream_cases(reading: OpenTransaction, run: int, *, case: str | None = None) -> Iterator[Case]:
    """Stream the cases of a run by id. An image is what `write.storable_source` kept of its source."""
    query = select(_C.id, _C.groups, _C.body).where(_C.run == run).order_by(_C.id).limit(PAGE_SIZE)
    if case is not None:
        query = query.where(_C.id == storable_text(case))
    last: str | None = None
    while True:
        with reading() as connection:
            rows = connection.execute(query if last is None else query.where(_C.id > last)).all()
        yield from (_to_case(row) for row in rows)
        if len(rows) < PAGE_SIZE:
            return
        last = rows[-1].id


def _to_case(row: AnyRow) -> Case:
    what = f"the case {row.id!r}"
    body = unpack(row.body, what)
    if not isinstance(body, dict):
        raise LedgerError(DAMAGED_MESSAGE.format(what))
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in body["fields"].items()}
    return Case(body["id"], body["images"], fields, body.get("groups") or json.loads(row.groups))


def read_case_ids(connection: Connection, run: int) -> list[str]:
    return list(connection.scalars(select(_C.id).where(_C.run == run).order_by(_C.id)))


def read_case_groups(connection: Connection, run: int, limit: int | None = None) -> dict[str, dict[str, str]]:
    """Return the groups of cases by id, of the first `limit` cases or of all, without unpacking the cases."""
    query = select(_C.id, _C.groups).where(_C.run == run).order_by(_C.id).limit(limit)
    return {id_: _GROUPS_DECODER.decode(groups) for id_, groups in connection.execute(query)}


def read_group_values(connection: Connection, run: int, group: str) -> dict[str, str]:
    """Return the value of one group by case id, in the order of the ids; empty for cases without it."""
    query = select(_C.id, json_text(_C.groups, storable_text(group))).where(_C.run == run).order_by(_C.id)
    return {id_: value or "" for id_, value in connection.execute(query)}


def count_cases(connection: Connection, run: int) -> int:
    """Return how many cases of a run have a verdict."""
    return connection.scalar(select(func.count(_V.case_id.distinct())).where(_V.run == run)) or 0


def count_rated_cases(connection: Connection, reviews: Sequence[str]) -> dict[str, int]:
    """Return how many cases are rated and saved in these reviews, by id; reviews without any are left out."""
    query = (
        select(_R.id, func.count(_V.case_id.distinct()))
        .join_from(schema.verdicts, schema.runs, _V.run == _R.number)
        .where(_V.outcome == str(Outcome.SCORED))
        .group_by(_R.id)
    )
    rows = (row for part in chunks(reviews) for row in connection.execute(query.where(_R.id.in_(part))))
    return {row[0]: row[1] for row in rows}


def count_rated_cases_in(connection: Connection, run: int) -> int:
    """Return how many cases of one review are rated and saved."""
    query = select(func.count(_V.case_id.distinct())).where(_V.run == run, _V.outcome == str(Outcome.SCORED))
    return connection.scalar(query) or 0


def find_position(connection: Connection, run: int, case_id: str) -> int | None:
    """Return the position of a case in its run."""
    return connection.scalar(select(_V.position).where(_V.run == run, _V.case_id == storable_text(case_id)).limit(1))


def find_cases_at(connection: Connection, run: int, position: int) -> list[str]:
    """Return the ids of the cases at a position: one as a rule, or none."""
    query = select(_V.case_id).where(_V.run == run, _V.position == position).distinct()
    return list(connection.scalars(query))


# Thumbnails


def find_thumbnails(connection: Connection, digests: Sequence[str]) -> set[str]:
    """Return those of the image files (by digest) that have a thumbnail."""
    asked = {digest_bytes(digest): digest for digest in digests}
    return {
        asked[digest]
        for part in chunks(list(asked))
        for digest in connection.scalars(select(_T.digest).where(_T.digest.in_(part)))
    }


def read_thumbnail(connection: Connection, digest: str) -> bytes | None:
    webp = connection.scalar(select(_T.webp).where(_T.digest == digest_bytes(digest)))
    return None if webp is None else bytes(webp)
