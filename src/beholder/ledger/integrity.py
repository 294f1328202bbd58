"""Whether a ledger is sound: its pages, and whether everything in it is what its digest says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from sqlalchemy import Connection, Table, func, select

from beholder.errors import LedgerError
from beholder.ledger import schema
from beholder.ledger.encoding import (
    answer_id,
    split_ids,
    storable_text,
    unpack,
    unpack_flags,
    unpack_text,
    unpack_verdict,
)
from beholder.ledger.schema import AnyRow, chunks

CHECK_PAGE_SIZE = 256
MAX_PROBLEMS = 20  # sentences; a file that is damaged throughout needs no more
MAX_NAMED = 3  # of things that are missing


def check_rows(connection: Connection, problems: list[str]) -> list[str]:
    """What is wrong, as sentences; empty when everything can be read and is what it should be. `problems` is what the
    database itself has found."""
    if problems:  # rows of damaged pages say nothing reliable
        return problems[:MAX_PROBLEMS]
    for table, look in _CHECKS:
        with connection.execute(select(table).execution_options(yield_per=CHECK_PAGE_SIZE)) as rows:
            for row in rows:
                problems += look(row)
                if len(problems) >= MAX_PROBLEMS:
                    return [*problems[:MAX_PROBLEMS], "and perhaps more."]
    problems += _check_references(connection)
    return problems


def count_rows(connection: Connection) -> dict[str, int]:
    """How much there is of what."""
    return {table.name: connection.scalar(select(func.count()).select_from(table)) or 0 for table, _ in _CHECKS}


def _check_run(row: AnyRow) -> Iterator[str]:
    yield from _error_of(lambda: unpack(row.body, f"the run {row.id!r}"))


def _check_case(row: AnyRow) -> Iterator[str]:
    yield from _error_of(lambda: unpack(row.body, f"the case {row.id!r}"))


def _check_verdict(row: AnyRow) -> Iterator[str]:
    what = f"the verdict on {row.case_id!r}"
    try:
        verdict = unpack_verdict(row.body, what)
        said = (verdict.case, verdict.rubric, str(verdict.outcome), verdict.grade or "")
        told = (*map(storable_text, said), verdict.score, verdict.passed)
        if told != (row.case_id, row.rubric, row.outcome, row.grade or "", row.score, row.passed):
            yield f"The ledger is damaged: {what} stands in lists as something else than it is."
    except LedgerError as error:
        yield str(error)
    if len(row.answers) % 16:
        yield f"The ledger is damaged: the answers behind {what} are not named as they should be."


def _check_answer(row: AnyRow) -> Iterator[str]:
    what = f"answer {row.number}"
    yield from _error_of(lambda: unpack_text(row.body, what))
    yield from _error_of(lambda: unpack_flags(row.flags, f"the flags of {what}"))
    try:
        brief = row.brief_digest.hex() if len(row.brief_digest) == 32 else row.brief_digest.decode("utf-8", "replace")
        if answer_id(brief, unpack_text(row.body, what)) != row.id:
            yield f"The ledger is damaged: {what} is not the text that was stored under its digest."
    except LedgerError:
        return


def _check_thumbnail(row: AnyRow) -> Iterator[str]:
    if row.webp[:4] != b"RIFF" or row.webp[8:12] != b"WEBP":
        yield f"The ledger is damaged: the thumbnail of {row.digest.hex()[:12]} is no WebP image."


_CHECKS: tuple[tuple[Table, Callable[[AnyRow], Iterator[str]]], ...] = (
    (schema.runs, _check_run),
    (schema.cases, _check_case),
    (schema.verdicts, _check_verdict),
    (schema.answers, _check_answer),
    (schema.thumbnails, _check_thumbnail),
)


@dataclass(slots=True)
class _MissingRows:
    """Things that verdicts name and that are not there, and the cases of those verdicts."""

    one: str
    several: str
    things: set[object] = field(default_factory=set)
    cases: dict[str, None] = field(default_factory=dict)

    def add(self, things: Iterable[object], case: str) -> None:
        before = len(self.things)
        self.things.update(things)
        if len(self.things) > before:
            self.cases[case] = None

    def told(self) -> Iterator[str]:
        if not self.things:
            return
        count, verdicts = len(self.things), "verdict" if len(self.cases) == 1 else "verdicts"
        named = ", ".join(map(repr, islice(self.cases, MAX_NAMED)))
        more = f" and {len(self.cases) - MAX_NAMED:,} more" if len(self.cases) > MAX_NAMED else ""
        yield f"{count:,} {self.one if count == 1 else self.several}: behind the {verdicts} on {named}{more}."


def _check_references(connection: Connection) -> Iterator[str]:
    """What verdicts name and what is not there: their cases, their answers, and that their runs use them."""
    lost = _MissingRows("case is missing", "cases are missing")
    gone = _MissingRows("answer is missing", "answers are missing")
    unused = _MissingRows("answer is not noted as used by its run", "answers are not noted as used by their runs")
    verdicts, cases = schema.verdicts.c, schema.cases.c
    beside = (cases.run == verdicts.run) & (cases.id == verdicts.case_id)
    query = select(verdicts.run, verdicts.case_id, verdicts.answers, cases.id).join_from(
        schema.verdicts, schema.cases, beside, isouter=True
    )
    with connection.execute(query.execution_options(yield_per=CHECK_PAGE_SIZE)) as found:
        for rows in found.partitions():
            known, used = _find_answers(connection, rows)
            for row in rows:
                own = set(split_ids(row.answers))
                lost.add([(row.run, row.case_id)] if row.id is None else [], row.case_id)
                gone.add(own - known, row.case_id)
                unused.add({(row.run, id_) for id_ in own & known} - used, row.case_id)
    for missing in (lost, gone, unused):
        yield from missing.told()


def _find_answers(connection: Connection, rows: Iterable[AnyRow]) -> tuple[set[bytes], set[tuple[int, bytes]]]:
    """Of the answers behind some verdicts those that are there, and those that runs are noted to use."""
    ids, links = schema.answers.c.id, schema.run_answers.c
    known: set[bytes] = set()
    used: set[tuple[int, bytes]] = set()
    for part in chunks(list({id_ for row in rows for id_ in split_ids(row.answers)})):
        known.update(connection.scalars(select(ids).where(ids.in_(part))))
        uses = connection.execute(select(links.run, links.answer).where(links.answer.in_(part)))
        used.update((run, answer) for run, answer in uses)
    return known, used


def _error_of(work: Callable[[], object]) -> Iterator[str]:
    try:
        work()
    except LedgerError as error:
        yield str(error)
