"""Writing to the ledger: cases, verdicts, answers and thumbnails as rows.

Everything here runs in the write transaction of the connection that it gets. A run is given by its number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

from sqlalchemy import Connection, Table, func, select

from beholder.cases.case import Case
from beholder.images.image import ImageSource
from beholder.images.source import is_remote
from beholder.ledger import encoding, schema
from beholder.ledger.read import count_rated_cases_in, read_case_verdicts
from beholder.ledger.runs import update_run
from beholder.ledger.schema import Insert, chunks, insert_for
from beholder.ledger.search import forget_texts
from beholder.ledger.types import FINISHED, AnswerKey, Entry, StoredAnswer, VerdictKey
from beholder.verdicts.verdict import Verdict

RowValues = dict[str, object]

_MAX_INTEGER = 2**63 - 1  # of an integer column


# Verdicts


def assign_positions(connection: Connection, run: int, entries: Sequence[Entry]) -> tuple[list[Entry], int]:
    """Return the entries with the positions of their cases, and how many verdicts are new.

    A case that has a verdict keeps its position; new cases get the next ones.
    """
    columns = schema.verdicts.c
    positions: dict[str, int] = {}
    known: set[VerdictKey] = set()
    for part in chunks(list({encoding.storable_text(entry.case.id) for entry in entries})):
        query = select(columns.case_id, columns.rubric, columns.position)
        for case, rubric, position in connection.execute(query.where(columns.run == run, columns.case_id.in_(part))):
            positions[case] = position
            known.add((case, rubric))
    following = connection.scalar(select(func.max(columns.position)).where(columns.run == run))
    following = 0 if following is None else following + 1
    placed, keys = [], set()
    for entry in entries:
        case = encoding.storable_text(entry.case.id)
        if case not in positions:
            positions[case] = following
            following += 1
        placed.append(replace(entry, position=positions[case]))
        keys.add((case, encoding.storable_text(entry.verdict.rubric)))
    return placed, len(keys - known)


def write_entries(
    connection: Connection, run: int, entries: Sequence[Entry], superseded: Collection[VerdictKey] = ()
) -> None:
    """Write verdicts with their cases, answers and thumbnails, replacing those that there are.

    Args:
        connection: A write transaction.
        run: The number of the run.
        entries: What to write.
        superseded: Case ids and rubrics whose stored verdicts stay; only the answers to them are written.
    """
    ids = _resolve_answer_ids(connection, entries)
    cases = {entry.case.id: entry.case for entry in entries}
    thumbnails = {encoding.digest_bytes(digest): webp for entry in entries for digest, webp in entry.thumbnails}
    images = {encoding.digest_bytes(image.source_digest) for entry in entries for image in entry.verdict.shown_images}
    links = sorted({id_ for answer_ids in ids for id_ in answer_ids})
    answers = [_answer_row(answer) for entry in entries for answer in entry.answers]
    insert_rows(
        connection,
        insert_or_replace(connection, schema.cases, "run", "id"),
        [_case_row(run, case) for case in cases.values()],
    )
    forget_texts(connection, run, list(cases))
    insert_rows(connection, insert_or_keep(connection, schema.answers), answers)
    insert_rows(
        connection,
        insert_or_keep(connection, schema.thumbnails),
        [{"digest": digest, "webp": webp} for digest, webp in thumbnails.items()],
    )
    insert_rows(
        connection,
        insert_or_replace(connection, schema.verdicts, "run", "case_id", "rubric"),
        [
            _verdict_row(run, entry, answer_ids)
            for entry, answer_ids in zip(entries, ids, strict=True)
            if (encoding.storable_text(entry.case.id), encoding.storable_text(entry.verdict.rubric)) not in superseded
        ],
    )
    insert_rows(
        connection, insert_or_keep(connection, schema.run_answers), [{"answer": id_, "run": run} for id_ in links]
    )
    insert_rows(
        connection,
        insert_or_keep(connection, schema.run_thumbnails),
        [{"digest": digest, "run": run} for digest in sorted(images | thumbnails.keys())],
    )


def write_rating(
    connection: Connection,
    run: int,
    case_id: str,
    decide: Callable[[Sequence[Verdict]], Sequence[Entry]],
    total_cases: int | None,
) -> None:
    """Write what `decide` returns for the verdicts that there are; see `Ledger.write_rating`."""
    before = read_case_verdicts(connection, run, case_id)
    entries = decide(before)
    if not entries:
        return
    finished = (
        total_cases is not None
        and not any(verdict.answered for verdict in before)
        and count_rated_cases_in(connection, run) + 1 >= total_cases
    )
    write_entries(connection, run, entries)
    update_run(connection, run, **({"state": FINISHED} if finished else {}))


def sum_costs(entries: Iterable[Entry]) -> tuple[Decimal, int]:
    """Return what the entries cost this run as far as it is known, and how many cost an unknown amount."""
    known_usd, unpriced = Decimal(0), 0
    for entry in entries:
        if entry.spent_usd is not None:
            known_usd += entry.spent_usd
        elif not entry.reused:
            unpriced += 1
    return known_usd, unpriced


def storable_source(source: ImageSource) -> str:
    """Return what is stored of an image's source: an absolute path, a URL without query and user, or only the kind of
    bytes and data URLs."""
    if isinstance(source, bytes):
        return "bytes:"
    text = os.fspath(source)
    if isinstance(source, str) and text[:5].lower() == "data:":
        return re.split("[;,]", text[:100], maxsplit=1)[0]
    if isinstance(source, str) and is_remote(text):
        return re.sub(r"(?<=://)[^/?#]*@", "", re.split("[?#]", text, maxsplit=1)[0])
    return os.path.abspath(text)


def _resolve_answer_ids(connection: Connection, entries: Sequence[Entry]) -> list[list[bytes]]:
    """Return, for each entry, the ids of the answers behind its verdict that are in the answers table, or will be."""
    recalled = _find_answer_ids(connection, [key for entry in entries for key in entry.used])
    ids = [
        [encoding.answer_id(answer.key.brief_digest, answer.text) for answer in entry.answers]
        + [recalled[key] for key in entry.used if key in recalled]
        for entry in entries
    ]
    guesses = {
        index: encoding.answer_id(entry.verdict.brief_digest, entry.verdict.answer)
        for index, entry in enumerate(entries)
        if entry.reused and entry.verdict.answer and not ids[index]
    }
    existing = _existing_answer_ids(connection, list(guesses.values()))
    for index, guess in guesses.items():
        if guess in existing:  # else another process deleted it in the meantime, and the verdict keeps its own copy
            ids[index].append(guess)
    return [list(dict.fromkeys(answer_ids)) for answer_ids in ids]


def _find_answer_ids(connection: Connection, keys: Sequence[AnswerKey]) -> dict[AnswerKey, bytes]:
    by_id = {encoding.key_id(key): key for key in keys}
    columns = schema.answers.c
    answer_ids: dict[AnswerKey, bytes] = {}
    for part in chunks(list(by_id)):
        query = select(columns.key, columns.id).where(columns.key.in_(part)).order_by(columns.number)
        answer_ids |= {by_id[key]: id_ for key, id_ in connection.execute(query)}
    return answer_ids


def _existing_answer_ids(connection: Connection, ids: Sequence[bytes]) -> set[bytes]:
    column = schema.answers.c.id
    return {id_ for part in chunks(ids) for id_ in connection.scalars(select(column).where(column.in_(part)))}


# Rows


def insert_rows(connection: Connection, statement: Insert, rows: Sequence[RowValues]) -> None:
    """Insert rows, if there are any."""
    if rows:
        connection.execute(statement, rows)


def insert_or_keep(connection: Connection, table: Table) -> Insert:
    """Return an insert that leaves existing rows as they are."""
    return insert_for(connection, table).on_conflict_do_nothing()


def insert_or_replace(connection: Connection, table: Table, *key: str) -> Insert:
    """Return an insert that overwrites rows with the same `key`; they keep their number."""
    statement = insert_for(connection, table)
    other = [column.name for column in table.c if column.name not in (*key, "number")]
    if not other:
        return statement.on_conflict_do_nothing()
    return statement.on_conflict_do_update(
        index_elements=list(key), set_={name: statement.excluded[name] for name in other}
    )


def _verdict_row(run: int, entry: Entry, ids: Sequence[bytes]) -> RowValues:
    verdict = entry.verdict
    # The raw answer is stored with the verdict, unless it is the one in the answers table, where other runs find it.
    stored_separately = (
        len(ids) == 1 and verdict.jury is None and ids[0] == encoding.answer_id(verdict.brief_digest, verdict.answer)
    )
    return {
        "run": run,
        "position": entry.position,
        "case_id": encoding.storable_text(verdict.case),
        "rubric": encoding.storable_text(verdict.rubric),
        "outcome": str(verdict.outcome),
        "score": verdict.score,
        "reused": entry.reused,
        "answers": b"".join(ids),
        "body": encoding.pack_verdict(verdict, answer=not stored_separately),
        "grade": None if verdict.grade is None else encoding.storable_text(verdict.grade),
        "passed": verdict.passed,
        "facets": encoding.encode_facets(verdict),
        "transcripts": encoding.pack_transcripts(entry.transcripts, verdict.answer),
    }


def _case_row(run: int, case: Case) -> RowValues:
    images = {role: [storable_source(source) for source in case.sources(role)] for role in case.images}
    # One image is stored as a text, as it was before a role could have several.
    body_images = {role: sources[0] if len(sources) == 1 else sources for role, sources in images.items()}
    body = {"id": case.id, "images": body_images, "fields": dict(case.fields)}
    exact = encoding.to_json_text(dict(case.groups))
    groups = encoding.storable_json(exact)
    if groups != exact:  # the column holds what every database takes, the body the groups as they are
        body["groups"] = dict(case.groups)
    return {"run": run, "id": encoding.storable_text(case.id), "groups": groups, "body": encoding.pack(body)}


def _answer_row(answer: StoredAnswer) -> RowValues:
    usage = {name: None if (count or 0) > _MAX_INTEGER else count for name, count in answer.usage.items()}
    return {
        "key": encoding.key_id(answer.key),
        "id": encoding.answer_id(answer.key.brief_digest, answer.text),
        "brief_digest": encoding.digest_bytes(answer.key.brief_digest),
        "judge": encoding.storable_text(answer.key.judge),
        "sample": answer.key.sample,
        "model": None if answer.model is None else encoding.storable_text(answer.model),
        "usage": encoding.to_json_text(usage),
        "cost_usd": None if answer.cost_usd is None else str(answer.cost_usd),
        "latency_s": answer.latency_s,
        "attempts": answer.attempts,
        "flags": encoding.pack_flags(answer.flags),
        "body": encoding.pack_text(answer.text),
    }
