"""Reading the ledger: verdicts, cases, answers and thumbnails.

`stream_*` functions read a page of rows at a time, each in a short transaction of its own that starts after the last
row of the page before: no transaction stays open while the caller works, and memory use stays flat. The other functions
run in the transaction of the connection that they get. A run is given by its number (`runs.number`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace

import msgspec
from sqlalchemy import Connection, func, select, tuple_

from beholder.cases.case import Case
from beholder.errors import LedgerError
from beholder.ledger import encoding, schema
from beholder.ledger.damage import describe_row, log_damage
from beholder.ledger.schema import AnyRow, AnySelect, chunks, json_text
from beholder.ledger.types import (
    AnswerKey,
    StoredAnswer,
    StoredVerdict,
    VerdictKey,
)
from beholder.verdicts.answer import Finish, Transcript, TranscriptTurn
from beholder.verdicts.verdict import ANSWERED_OUTCOMES, Outcome, Verdict

OpenTransaction = Callable[[], AbstractContextManager[Connection]]  # `Ledger._reading`

PAGE_SIZE = 256
_RUNS_TO_LEARN_FROM = 20  # the newest ones, searched for answers of a judge to a rubric

_R, _C, _V, _A, _T = schema.runs.c, schema.cases.c, schema.verdicts.c, schema.answers.c, schema.thumbnails.c

# The columns that `to_stored_verdict` needs.
VERDICT_ROWS = select(
    _V.position, _V.number, _V.case_id, _V.rubric, _V.reused, _V.answers, _V.body, _C.groups
).join_from(schema.verdicts, schema.cases, (_C.run == _V.run) & (_C.id == _V.case_id), isouter=True)
_KEY_PAGE = select(_A.key).distinct().order_by(_A.key).limit(20_000)
# An expression that no index has: otherwise SQLite would scan a whole run in order, to save sorting a few verdicts.
_POSITION_UNINDEXED = _V.position + 0
_GROUPS_DECODER = msgspec.json.Decoder(dict[str, str])
_USAGE_DECODER = msgspec.json.Decoder(dict[str, int | None])


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
            query = query.where(column == encoding.storable_text(value))
    for rows, texts in _stream_pages(reading, query, answers=answers):
        yield from (to_stored_verdict(row, texts) for row in rows)


def stream_verdicts_on(reading: OpenTransaction, run: int, case_ids: Sequence[str]) -> Iterator[StoredVerdict]:
    """Stream the verdicts on some cases, without raw answers; in the order of the run within each chunk of cases."""
    query = VERDICT_ROWS.where(_V.run == run).order_by(_POSITION_UNINDEXED, _V.number)
    for part in chunks([encoding.storable_text(id_) for id_ in case_ids]):
        with reading() as connection:
            rows = connection.execute(query.where(_V.case_id.in_(part))).all()
        yield from (to_stored_verdict(row, {}) for row in rows)


def stream_extracts(reading: OpenTransaction, run: int) -> Iterator[encoding.StoredExtract]:
    """Stream those parts of the verdicts of a run that are counted and compared, in the order of its cases."""
    query = VERDICT_ROWS.where(_V.run == run).order_by(_V.position, _V.number)
    for rows, _ in _stream_pages(reading, query):
        yield from map(_to_stored_extract, rows)


def _to_stored_extract(row: AnyRow) -> encoding.StoredExtract:
    extract = encoding.unpack_extract(row.body) or to_stored_verdict(row, {}).verdict
    return encoding.StoredExtract(extract, read_groups(row.groups, row.case_id), bool(row.reused))


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
    """Return the verdict of a row of `VERDICT_ROWS`, with its raw answer if that is among `texts`.

    One that is damaged has the outcome `unreadable` and a sentence: it is missed wherever scores are counted.
    """
    try:
        verdict = encoding.unpack_verdict(row.body, _describe_verdict(row))
    except LedgerError as error:
        verdict = _unreadable_verdict(row, str(error))
    text = texts.get(row.answers)
    if text is not None and verdict.jury is None and not verdict.answer:
        verdict = replace(verdict, answer=text)
    return StoredVerdict(row.position or 0, verdict, read_groups(row.groups, row.case_id), bool(row.reused))


def _describe_verdict(row: AnyRow) -> str:
    return f"the verdict on {row.case_id!r} ({describe_row('verdicts', row.number)})"


def _unreadable_verdict(row: AnyRow, sentence: str) -> Verdict:
    log_damage(sentence)
    return Verdict(row.case_id or "", row.rubric or "", "", "unknown", Outcome.UNREADABLE, detail=sentence)


def read_newest(connection: Connection, run: int, most: int) -> list[StoredVerdict]:
    """Return the last verdicts of a run, newest first: verdicts are numbered as they come."""
    # Not by the order of the table, which would be searched to its beginning where a run has few verdicts yet.
    query = select(_V.number).where(_V.run == run).order_by((_V.number + 0).desc()).limit(most)
    rows = connection.execute(VERDICT_ROWS.where(_V.number.in_(connection.scalars(query).all()))).all()
    return [to_stored_verdict(row, {}) for row in sorted(rows, key=lambda row: -row.number)]


def read_case_verdicts(connection: Connection, run: int, case_id: str) -> list[Verdict]:
    """Return the verdicts of a run on a case, with raw answers."""
    stored = stream_verdicts(lambda: nullcontext(connection), run, case=case_id, answers=True)
    return [row.verdict for row in stored]


def read_outcomes(connection: Connection, run: int, case_ids: Sequence[str] | None) -> dict[VerdictKey, str]:
    """Return outcomes by case id and rubric name, of these cases or of all."""
    query = select(_V.case_id, _V.rubric, _V.outcome).where(_V.run == run)
    if case_ids is None:
        return {(case, rubric): outcome for case, rubric, outcome in connection.execute(query)}
    asked = {encoding.storable_text(id_): id_ for id_ in case_ids}
    return {
        (asked[case], rubric): outcome
        for part in chunks(list(asked))
        for case, rubric, outcome in connection.execute(query.where(_V.case_id.in_(part)))
    }


def has_several_styles(connection: Connection, run: int) -> bool:
    """Return whether the verdicts of a run are by more than one style; no style counts as one."""
    style = json_text(_V.facets, encoding.FACET_STYLE)
    return len(connection.execute(select(style).where(_V.run == run).distinct().limit(2)).all()) > 1


# Answers


def find_cached_answers(connection: Connection, keys: Sequence[AnswerKey]) -> dict[AnswerKey, StoredAnswer]:
    """Return the newest answer to each key that has one."""
    by_id = {encoding.key_id(key): key for key in keys}
    columns = (_A.number, _A.key, _A.body, _A.model, _A.usage, _A.cost_usd, _A.latency_s, _A.attempts, _A.flags)
    answers: dict[AnswerKey, StoredAnswer] = {}
    for part in chunks(list(by_id)):
        for row in connection.execute(select(*columns).where(_A.key.in_(part)).order_by(_A.number)):
            key = by_id[row.key]
            try:
                answers[key] = to_stored_answer(key, row)
            except LedgerError as error:  # the judge is asked again
                log_damage(error)
    return answers


def read_answer_usage(connection: Connection, judge: str, rubric: str, most: int) -> list[Mapping[str, int | None]]:
    """Return the token counts of up to `most` answers of a judge to a rubric, from the newest runs that used it."""
    counts: list[Mapping[str, int | None]] = []
    newest = select(_R.number).order_by(_R.number.desc()).limit(_RUNS_TO_LEARN_FROM)
    for run in connection.scalars(newest).all():
        of_run = select(_V.answers).where(_V.run == run, _V.rubric == rubric, _V.answers != b"").limit(most)
        ids = [
            joined[start : start + 16] for joined in connection.scalars(of_run) for start in range(0, len(joined), 16)
        ]
        for part in chunks(ids):
            for usage in connection.scalars(select(_A.usage).where(_A.id.in_(part), _A.judge == judge)):
                with suppress(ValueError, TypeError):  # a damaged value tells nothing
                    counts.append(_USAGE_DECODER.decode(usage))
        if len(counts) >= most:
            break
    return counts[:most]


def to_stored_answer(key: AnswerKey, row: AnyRow) -> StoredAnswer:
    what = f"answer {row.number} ({describe_row('answers', row.number)})"
    try:
        if (row.attempts or 0) < 0:
            raise ValueError("fewer requests than none")
        return StoredAnswer(
            key,
            text=encoding.unpack_text(row.body, what),
            model=row.model,
            usage=_USAGE_DECODER.decode(row.usage),
            cost_usd=None if row.cost_usd is None else encoding.parse_amount(row.cost_usd),
            latency_s=row.latency_s,
            attempts=row.attempts or 0,
            flags=encoding.unpack_flags(row.flags, f"the flags of {what}"),
        )
    except (ValueError, TypeError, ArithmeticError):
        raise LedgerError(encoding.DAMAGED_MESSAGE.format(what)) from None


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
    return _read_answer_texts(connection, list({row.answers for row in rows if len(row.answers or b"") == 16}))


def read_raw_answers(connection: Connection, run: int, case_id: str) -> dict[str, list[str]]:
    """Return the raw answers behind the verdicts on a case, by rubric; of a jury one for each juror."""
    query = select(_V.rubric, _V.answers).where(_V.run == run, _V.case_id == encoding.storable_text(case_id))
    answers = {}
    for row in connection.execute(query).all():
        ids = encoding.split_ids(row.answers or b"")
        texts = _read_answer_texts(connection, ids)
        answers[row.rubric] = [texts[id_] for id_ in ids if id_ in texts]
    for verdict in read_case_verdicts(connection, run, case_id):
        if verdict.answer and not answers.get(verdict.rubric):
            answers[verdict.rubric] = [verdict.answer]
    return answers


def read_transcripts(connection: Connection, run: int, case_id: str) -> dict[str, tuple[Transcript, ...]]:
    """Return the conversations behind the verdicts on a case, by rubric; answers alone where no turns are stored."""
    query = select(_V.rubric, _V.transcripts).where(_V.run == run, _V.case_id == encoding.storable_text(case_id))
    packed = {row.rubric: row.transcripts for row in connection.execute(query).all()}
    answers = read_raw_answers(connection, run, case_id)
    transcripts = {}
    for verdict in read_case_verdicts(connection, run, case_id):
        stored = _unpack_transcripts(packed.get(encoding.storable_text(verdict.rubric)), verdict)
        told = {turn.answer for transcript in stored for turn in transcript.turns}
        judge, finish = ("", Finish.COMPLETE) if verdict.jury else (verdict.judge, verdict.finish or Finish.COMPLETE)
        others = [text for text in answers.get(verdict.rubric, ()) if text not in told]
        alone = [Transcript(judge, 0, (TranscriptTurn("", text, str(finish)),)) for text in others]
        transcripts[verdict.rubric] = (*stored, *alone)
    return transcripts


def _unpack_transcripts(data: bytes | None, verdict: Verdict) -> tuple[Transcript, ...]:
    what = f"the transcript behind the verdict on {verdict.case!r} by {verdict.rubric!r} (a row of verdicts)"
    try:
        return encoding.unpack_transcripts(data, verdict.answer, what)
    except LedgerError as error:
        log_damage(error)
        return ()


def _read_answer_texts(connection: Connection, ids: Sequence[bytes]) -> dict[bytes, str]:
    """Return the texts of answers by id; a damaged one is left out and logged."""
    texts = {}
    for part in chunks(ids):
        for row in connection.execute(select(_A.number, _A.id, _A.body).where(_A.id.in_(part))):
            what = f"answer {row.number} ({describe_row('answers', row.number)})"
            try:
                texts[row.id] = encoding.unpack_text(row.body, what)
            except LedgerError as error:
                log_damage(error)
    return texts


# Cases


def stream_cases(reading: OpenTransaction, run: int, *, case: str | None = None) -> Iterator[Case]:
    """Stream the cases of a run by id. An image is what `write.storable_source` kept of its source."""
    query = select(_C.id, _C.groups, _C.body).where(_C.run == run).order_by(_C.id).limit(PAGE_SIZE)
    if case is not None:
        query = query.where(_C.id == encoding.storable_text(case))
    last: str | None = None
    while True:
        with reading() as connection:
            rows = connection.execute(query if last is None else query.where(_C.id > last)).all()
        yield from (to_case(row) for row in rows)
        if len(rows) < PAGE_SIZE:
            return
        last = rows[-1].id


def read_cases(connection: Connection, run: int, case_ids: Sequence[str]) -> dict[str, Case]:
    """Return some cases of a run by id."""
    query = select(_C.id, _C.groups, _C.body).where(_C.run == run)
    parts = chunks([encoding.storable_text(id_) for id_ in case_ids])
    cases = [to_case(row) for part in parts for row in connection.execute(query.where(_C.id.in_(part)))]
    return {case.id: case for case in cases}


class _CaseBody(msgspec.Struct, frozen=True):
    """What the column `body` of a case holds; groups only where their own column cannot hold them as they are."""

    id: str
    images: dict[str, str | list[str]] = {}
    fields: dict[str, str | list[str]] = {}
    groups: dict[str, str] = {}


def to_case(row: AnyRow) -> Case:
    """Return a case; one that is damaged has no images and texts, and a sentence is logged."""
    what = f"the case {row.id!r} (a row of cases)"
    try:
        body = msgspec.convert(encoding.unpack(row.body, what), _CaseBody)
    except (LedgerError, msgspec.ValidationError):
        log_damage(encoding.DAMAGED_MESSAGE.format(what))
        body = _CaseBody(row.id)
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in body.fields.items()}
    return Case(body.id, body.images, fields, body.groups or read_groups(row.groups, row.id))


def read_groups(text: str | None, case_id: str) -> dict[str, str]:
    """Return the groups of a case from their column; none, with a sentence in the log, where it is damaged."""
    try:
        return _GROUPS_DECODER.decode(text or "{}")
    except (ValueError, RecursionError):
        log_damage(encoding.DAMAGED_MESSAGE.format(f"the groups of the case {case_id!r} (a row of cases)"))
        return {}


def read_case_ids(connection: Connection, run: int) -> list[str]:
    return list(connection.scalars(select(_C.id).where(_C.run == run).order_by(_C.id)))


def read_case_groups(connection: Connection, run: int, limit: int | None = None) -> dict[str, dict[str, str]]:
    """Return the groups of cases by id, of the first `limit` cases or of all, without unpacking the cases."""
    query = select(_C.id, _C.groups).where(_C.run == run).order_by(_C.id).limit(limit)
    return {id_: read_groups(groups, id_) for id_, groups in connection.execute(query)}


def read_group_values(connection: Connection, run: int, group: str) -> dict[str, str]:
    """Return the value of one group by case id, in the order of the ids; empty for cases without it."""
    query = select(_C.id, json_text(_C.groups, encoding.storable_text(group))).where(_C.run == run).order_by(_C.id)
    return {id_: value if isinstance(value, str) else "" for id_, value in connection.execute(query)}


def count_cases(connection: Connection, run: int) -> int:
    """Return how many cases of a run have a verdict."""
    return connection.scalar(select(func.count(_V.case_id.distinct())).where(_V.run == run)) or 0


def count_rated_cases(connection: Connection, reviews: Sequence[str]) -> dict[str, int]:
    """Return how many cases are rated and saved in these reviews, by id; reviews without any are left out."""
    query = (
        select(_R.id, func.count(_V.case_id.distinct()))
        .join_from(schema.verdicts, schema.runs, _V.run == _R.number)
        .where(_V.outcome.in_(ANSWERED_OUTCOMES))
        .group_by(_R.id)
    )
    rows = (row for part in chunks(reviews) for row in connection.execute(query.where(_R.id.in_(part))))
    return {row[0]: row[1] for row in rows}


def count_rated_cases_in(connection: Connection, run: int) -> int:
    """Return how many cases of one review are rated and saved."""
    query = select(func.count(_V.case_id.distinct())).where(_V.run == run, _V.outcome.in_(ANSWERED_OUTCOMES))
    return connection.scalar(query) or 0


def find_position(connection: Connection, run: int, case_id: str) -> int | None:
    """Return the position of a case in its run."""
    return connection.scalar(
        select(_V.position).where(_V.run == run, _V.case_id == encoding.storable_text(case_id)).limit(1)
    )


def find_cases_at(connection: Connection, run: int, position: int) -> list[str]:
    """Return the ids of the cases at a position: one as a rule, or none."""
    query = select(_V.case_id).where(_V.run == run, _V.position == position).distinct()
    return list(connection.scalars(query))


# Thumbnails


def find_thumbnails(connection: Connection, digests: Sequence[str]) -> set[str]:
    """Return those of the image files (by digest) that have a thumbnail."""
    asked = {encoding.digest_bytes(digest): digest for digest in digests}
    return {
        asked[digest]
        for part in chunks(list(asked))
        for digest in connection.scalars(select(_T.digest).where(_T.digest.in_(part)))
    }


def read_thumbnail(connection: Connection, digest: str) -> bytes | None:
    webp = connection.scalar(select(_T.webp).where(_T.digest == encoding.digest_bytes(digest)))
    return None if webp is None else bytes(webp)
