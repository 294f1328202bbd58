"""A batch of verdicts becomes rows, in the one transaction that the caller has open."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal

from sqlalchemy import Connection, Table, select

from beholder.cases import Case, ImageSource
from beholder.images.sources import is_remote
from beholder.ledger import tables
from beholder.ledger.dialects import Insert, insert_for, parts
from beholder.ledger.facets import facets
from beholder.ledger.model import AnswerKey, Entry, StoredAnswer
from beholder.ledger.packing import (
    answer_id,
    digest_bytes,
    dump,
    key_id,
    pack,
    pack_flags,
    pack_text,
    pack_verdict,
    plain_json,
    plain_text,
)
from beholder.verdicts.model import Verdict

Row = dict[str, object]

_LARGEST = 2**63 - 1  # of an integer column


def write_entries(
    connection: Connection, run: int, entries: Sequence[Entry], late: Collection[tuple[str, str]] = ()
) -> None:
    """Writes verdicts with their cases, answers and thumbnails; a verdict that is there already is replaced, unless it
    is on one of the `late` cases and rubrics."""
    ids = _answer_ids(connection, entries)
    cases = {entry.case.id: entry.case for entry in entries}
    thumbnails = {digest_bytes(digest): webp for entry in entries for digest, webp in entry.thumbnails}
    images = {digest_bytes(image.source_digest) for entry in entries for image in entry.verdict.images}
    links = sorted({id_ for own in ids for id_ in own})
    answers = [_answer(answer) for entry in entries for answer in entry.answers]
    put(connection, replacing(connection, tables.cases, "run", "id"), [_case(run, case) for case in cases.values()])
    put(connection, keeping(connection, tables.answers), answers)
    put(connection, keeping(connection, tables.thumbnails), [_thumbnail(*one) for one in thumbnails.items()])
    put(
        connection,
        replacing(connection, tables.verdicts, "run", "case_id", "rubric"),
        [
            _verdict(run, entry, own)
            for entry, own in zip(entries, ids, strict=True)
            if (plain_text(entry.case.id), plain_text(entry.verdict.rubric)) not in late
        ],
    )
    put(connection, keeping(connection, tables.run_answers), [{"answer": id_, "run": run} for id_ in links])
    put(
        connection,
        keeping(connection, tables.run_thumbnails),
        [{"digest": digest, "run": run} for digest in sorted(images | thumbnails.keys())],
    )


def put(connection: Connection, statement: Insert, rows: Sequence[Row]) -> None:
    """Writes rows, if there are any."""
    if rows:
        connection.execute(statement, rows)


def keeping(connection: Connection, table: Table) -> Insert:
    """Inserts rows; one that is there already stays as it is."""
    return insert_for(connection, table).on_conflict_do_nothing()


def replacing(connection: Connection, table: Table, *key: str) -> Insert:
    """Inserts rows; one with the same `key` is overwritten, and keeps its number."""
    new = insert_for(connection, table)
    other = [column.name for column in table.c if column.name not in (*key, "number")]
    return new.on_conflict_do_update(index_elements=list(key), set_={name: new.excluded[name] for name in other})


def spent(entries: Iterable[Entry]) -> tuple[Decimal, int]:
    """What the entries cost this run as far as it is known, and how many cost an unknown amount."""
    known, unknown = Decimal(0), 0
    for entry in entries:
        if entry.spent_usd is not None:
            known += entry.spent_usd
        elif not entry.reused:
            unknown += 1
    return known, unknown


def source_text(source: ImageSource) -> str:
    """Where an image came from, as far as it is kept: an absolute path, a web address without what may be secret in
    it, or only the kind of what was handed in."""
    if isinstance(source, bytes):
        return "bytes:"
    text = os.fspath(source)
    if isinstance(source, str) and text[:5].lower() == "data:":
        return re.split("[;,]", text[:100], maxsplit=1)[0]
    if isinstance(source, str) and is_remote(text):
        return re.sub(r"(?<=://)[^/?#]*@", "", re.split("[?#]", text, maxsplit=1)[0])
    return os.path.abspath(text)


def _answer_ids(connection: Connection, entries: Sequence[Entry]) -> list[list[bytes]]:
    """By entry, the answers that its verdict was made from and that stand (or will) in the table of answers."""
    recalled = _recalled(connection, [key for entry in entries for key in entry.used])
    ids = [
        [answer_id(answer.key.brief_digest, answer.text) for answer in entry.answers]
        + [recalled[key] for key in entry.used if key in recalled]
        for entry in entries
    ]
    guesses = {
        place: answer_id(entry.verdict.brief_digest, entry.verdict.answer)
        for place, entry in enumerate(entries)
        if entry.reused and entry.verdict.answer and not ids[place]
    }
    there = _there(connection, list(guesses.values()))
    for place, guess in guesses.items():
        if guess in there:  # else another process deleted it in the meantime, and the verdict keeps its own copy
            ids[place].append(guess)
    return [list(dict.fromkeys(one)) for one in ids]


def _recalled(connection: Connection, keys: Sequence[AnswerKey]) -> dict[AnswerKey, bytes]:
    by_id = {key_id(key): key for key in keys}
    columns = tables.answers.c
    found: dict[AnswerKey, bytes] = {}
    for part in parts(list(by_id)):
        query = select(columns.key, columns.id).where(columns.key.in_(part)).order_by(columns.number)
        found |= {by_id[key]: id_ for key, id_ in connection.execute(query)}
    return found


def _there(connection: Connection, ids: Sequence[bytes]) -> set[bytes]:
    column = tables.answers.c.id
    return {id_ for part in parts(ids) for id_ in connection.scalars(select(column).where(column.in_(part)))}


def _verdict(run: int, entry: Entry, ids: Sequence[bytes]) -> Row:
    verdict = entry.verdict
    return {
        "run": run,
        "position": entry.position,
        "case_id": plain_text(verdict.case),
        "rubric": plain_text(verdict.rubric),
        "outcome": str(verdict.outcome),
        "score": verdict.score,
        "reused": entry.reused,
        "answers": b"".join(ids),
        "body": pack_verdict(verdict, answer=not _stands_elsewhere(verdict, ids)),
        "grade": None if verdict.grade is None else plain_text(verdict.grade),
        "passed": verdict.passed,
        "facets": facets(verdict),
    }


def _stands_elsewhere(verdict: Verdict, ids: Sequence[bytes]) -> bool:
    """Whether the raw answer is the one in the table of answers, where other runs find it; any other stays with its
    verdict."""
    return len(ids) == 1 and verdict.jury is None and ids[0] == answer_id(verdict.brief_digest, verdict.answer)


def _case(run: int, case: Case) -> Row:
    images = {role: source_text(source) for role, source in case.images.items()}
    body = {"id": case.id, "images": images, "fields": dict(case.fields)}
    given = dump(dict(case.groups))
    groups = plain_json(given)
    if groups != given:
        body["groups"] = dict(case.groups)
    return {"run": run, "id": plain_text(case.id), "groups": groups, "body": pack(body)}


def _thumbnail(digest: bytes, webp: bytes) -> Row:
    return {"digest": digest, "webp": webp}


def _answer(answer: StoredAnswer) -> Row:
    return {
        "key": key_id(answer.key),
        "id": answer_id(answer.key.brief_digest, answer.text),
        "brief_digest": digest_bytes(answer.key.brief_digest),
        "judge": plain_text(answer.key.judge),
        "sample": answer.key.sample,
        "model": None if answer.model is None else plain_text(answer.model),
        "usage": dump({name: _count(count) for name, count in answer.usage.items()}),
        "cost_usd": None if answer.cost_usd is None else str(answer.cost_usd),
        "latency_s": answer.latency_s,
        "attempts": answer.attempts,
        "flags": pack_flags(answer.flags),
        "body": pack_text(answer.text),
    }


def _count(value: int | None) -> int | None:
    return value if value is not None and value <= _LARGEST else None
