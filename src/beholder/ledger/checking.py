"""Whether a ledger is sound: its pages, and whether everything in it is what its digest says."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlalchemy import Connection, Table, func, select

from beholder.errors import LedgerError
from beholder.ledger import tables
from beholder.ledger.dialects import parts
from beholder.ledger.packing import answer_id, plain_text, split_ids, unpack, unpack_flags, unpack_text, unpack_verdict
from beholder.ledger.tables import AnyRow

PART = 256
MOST = 20  # sentences; a file that is damaged throughout needs no more


def check(connection: Connection, problems: list[str]) -> list[str]:
    """What is wrong, as sentences; empty when everything can be read and is what it should be. `problems` is what the
    database itself has found."""
    if problems:  # rows of damaged pages say nothing reliable
        return problems[:MOST]
    for table, look in _LOOKS:
        with connection.execute(select(table).execution_options(yield_per=PART)) as rows:
            for row in rows:
                problems += look(row)
                if len(problems) >= MOST:
                    return [*problems[:MOST], "and perhaps more."]
    problems += _lost(connection)
    return problems


def counts(connection: Connection) -> dict[str, int]:
    """How much there is of what."""
    return {table.name: connection.scalar(select(func.count()).select_from(table)) or 0 for table, _ in _LOOKS}


def _run(row: AnyRow) -> Iterator[str]:
    yield from _tried(lambda: unpack(row.body, f"the run {row.id!r}"))


def _case(row: AnyRow) -> Iterator[str]:
    yield from _tried(lambda: unpack(row.body, f"the case {row.id!r}"))


def _verdict(row: AnyRow) -> Iterator[str]:
    what = f"the verdict on {row.case_id!r}"
    try:
        verdict = unpack_verdict(row.body, what)
        said = (verdict.case, verdict.rubric, str(verdict.outcome), verdict.grade or "")
        told = (*map(plain_text, said), verdict.score, verdict.passed)
        if told != (row.case_id, row.rubric, row.outcome, row.grade or "", row.score, row.passed):
            yield f"The ledger is damaged: {what} stands in lists as something else than it is."
    except LedgerError as error:
        yield str(error)
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


def _lost(connection: Connection) -> list[str]:
    """The first that a verdict names and that is not there: its case, its answers, and that its run uses them."""
    verdicts, links, cases = tables.verdicts.c, tables.run_answers.c, tables.cases.c
    beside = (cases.run == verdicts.run) & (cases.id == verdicts.case_id)
    query = select(verdicts.run, verdicts.case_id, verdicts.answers, cases.id).join_from(
        tables.verdicts, tables.cases, beside, isouter=True
    )
    with connection.execute(query.execution_options(yield_per=PART)) as found:
        for rows in found.partitions():
            known: set[bytes] = set()
            used: set[tuple[int, bytes]] = set()
            for ids in parts(list({id_ for row in rows for id_ in split_ids(row.answers)})):
                known |= set(connection.scalars(select(tables.answers.c.id).where(tables.answers.c.id.in_(ids))))
                uses = select(links.run, links.answer).where(links.answer.in_(ids))
                used |= {(run, answer) for run, answer in connection.execute(uses)}
            for row in rows:
                what, own = f"the verdict on {row.case_id!r}", split_ids(row.answers)
                if row.id is None:
                    return [f"The case of {what} is missing."]
                if not known.issuperset(own):
                    return [f"An answer behind {what} is missing."]
                if any((row.run, id_) not in used for id_ in own):
                    return [f"An answer behind {what} is not noted as used by its run."]
    return []


def _tried(work: Callable[[], object]) -> Iterator[str]:
    try:
        work()
    except LedgerError as error:
        yield str(error)
