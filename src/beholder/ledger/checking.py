"""Whether a ledger is sound: its pages, and whether everything in it is what its digest says."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlalchemy import Connection, Table, select

from beholder.errors import LedgerError
from beholder.ledger import tables
from beholder.ledger.packing import answer_id, split_ids, unpack, unpack_flags, unpack_text, unpack_verdict
from beholder.ledger.sqlite import check_pages
from beholder.ledger.tables import AnyRow

MOST = 20  # sentences; a file that is damaged throughout needs no more


def check(connection: Connection) -> list[str]:
    """What is wrong, as sentences; empty when everything can be read and is what it should be."""
    problems = check_pages(connection)
    if problems:  # rows of damaged pages say nothing reliable
        return problems[:MOST]
    for table, look in _LOOKS:
        for row in connection.execute(select(table).execution_options(yield_per=256)):
            problems += look(row)
            if len(problems) >= MOST:
                return [*problems[:MOST], "and perhaps more."]
    problems += _lost(connection)
    return problems


def _run(row: AnyRow) -> Iterator[str]:
    yield from _tried(lambda: unpack(row.body, f"the run {row.id!r}"))


def _case(row: AnyRow) -> Iterator[str]:
    yield from _tried(lambda: unpack(row.body, f"the case {row.id!r}"))


def _verdict(row: AnyRow) -> Iterator[str]:
    what = f"the verdict on {row.case_id!r}"
    yield from _tried(lambda: unpack_verdict(row.body, what))
    if len(row.answers) % 16:
        yield f"The ledger is damaged: the answers behind {what} are not named as they should be."


def _answer(row: AnyRow) -> Iterator[str]:
    what = f"answer {row.number}"
    yield from _tried(lambda: unpack_text(row.body, what))
    yield from _tried(lambda: unpack_flags(row.flags, f"the flags of {what}"))
    try:
        brief = row.brief_digest.hex() if len(row.brief_digest) == 32 else row.brief_digest.decode("utf-8", "replace")
        if answer_id(brief, unpack_text(row.body, what)) != row.id:
            yield f"The ledger is damaged: {what} is not the text that was stored under its digest."
    except LedgerError:
        return


def _thumbnail(row: AnyRow) -> Iterator[str]:
    if row.webp[:4] != b"RIFF" or row.webp[8:12] != b"WEBP":
        yield f"The ledger is damaged: the thumbnail of {row.digest.hex()[:12]} is no WebP image."


_LOOKS: tuple[tuple[Table, Callable[[AnyRow], Iterator[str]]], ...] = (
    (tables.runs, _run),
    (tables.cases, _case),
    (tables.verdicts, _verdict),
    (tables.answers, _answer),
    (tables.thumbnails, _thumbnail),
)


def _lost(connection: Connection) -> Iterator[str]:
    """Answers that a verdict names and that are not there."""
    known = tables.answers.c.id
    verdicts = tables.verdicts.c
    for row in connection.execute(select(verdicts.case_id, verdicts.answers).execution_options(yield_per=256)):
        for id_ in split_ids(row.answers):
            if connection.scalar(select(known).where(known == id_).limit(1)) is None:
                yield f"An answer behind the verdict on {row.case_id!r} is missing."
                return


def _tried(work: Callable[[], object]) -> Iterator[str]:
    try:
        work()
    except LedgerError as error:
        yield str(error)
