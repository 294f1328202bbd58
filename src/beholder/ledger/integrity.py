"""Checking a ledger: that every row can be read, matches its digest, and refers to rows that exist."""

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
MAX_PROBLEMS = 20  # a file that is damaged throughout needs no longer list
MAX_NAMED = 3  # cases named in a sentence


def check_rows(connection: Connection, problems: list[str]) -> list[str]:
    """Check every row, and return the problems as sentences; none if the ledger is sound.

    Args:
        connection: A read transaction.
        problems: What the database itself has found wrong with its pages.
    """
    if problems:  # rows of damaged pages would only repeat that
        return problems[:MAX_PROBLEMS]
    for table, check in _CHECKS:
        with connection.execute(select(table).execution_options(yield_per=CHECK_PAGE_SIZE)) as rows:
            for row in rows:
                problems += check(row)
                if len(problems) >= MAX_PROBLEMS:
                    return [*problems[:MAX_PROBLEMS], "and perhaps more."]
    problems += _check_references(connection)
    return problems


def count_rows(connection: Connection) -> dict[str, int]:
    """Return the number of rows by table."""
    return {table.name: connection.scalar(select(func.count()).select_from(table)) or 0 for table, _ in _CHECKS}


def _check_run(row: AnyRow) -> Iterator[str]:
    yield from _error_of(lambda: unpack(row.body, f"the run {row.id!r}"))


def _check_case(row: AnyRow) -> Iterator[str]:
    yield from _error_of(lambda: unpack(row.body, f"the case {row.id!r}"))


def _check_verdict(row: AnyRow) -> Iterator[str]:
    what = f"the verdict on {row.case_id!r}"
    try:
        verdict = unpack_verdict(row.body, what)
        texts = (verdict.case, verdict.rubric, str(verdict.outcome), verdict.grade or "")
        expected = (*map(storable_text, texts), verdict.score, verdict.passed)
        if expected != (row.case_id, row.rubric, row.outcome, row.grade or "", row.score, row.passed):
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
    """Rows that verdicts refer to and that do not exist, and the cases of those verdicts."""

    singular: str
    plural: str
    keys: set[object] = field(default_factory=set)
    cases: dict[str, None] = field(default_factory=dict)

    def add(self, keys: Iterable[object], case: str) -> None:
        before = len(self.keys)
        self.keys.update(keys)
        if len(self.keys) > before:
            self.cases[case] = None

    def sentences(self) -> Iterator[str]:
        if not self.keys:
            return
        count, verdicts = len(self.keys), "verdict" if len(self.cases) == 1 else "verdicts"
        named = ", ".join(map(repr, islice(self.cases, MAX_NAMED)))
        more = f" and {len(self.cases) - MAX_NAMED:,} more" if len(self.cases) > MAX_NAMED else ""
        yield f"{count:,} {self.singular if count == 1 else self.plural}: behind the {verdicts} on {named}{more}."


def _check_references(connection: Connection) -> Iterator[str]:
    """Check that the cases and answers of verdicts exist, and that runs are linked to the answers they use."""
    cases_missing = _MissingRows("case is missing", "cases are missing")
    answers_missing = _MissingRows("answer is missing", "answers are missing")
    links_missing = _MissingRows(
        "answer is not noted as used by its run", "answers are not noted as used by their runs"
    )
    verdicts, cases = schema.verdicts.c, schema.cases.c
    same_case = (cases.run == verdicts.run) & (cases.id == verdicts.case_id)
    query = select(verdicts.run, verdicts.case_id, verdicts.answers, cases.id).join_from(
        schema.verdicts, schema.cases, same_case, isouter=True
    )
    with connection.execute(query.execution_options(yield_per=CHECK_PAGE_SIZE)) as found:
        for rows in found.partitions():
            known, used = _find_answers(connection, rows)
            for row in rows:
                answer_ids = set(split_ids(row.answers))
                cases_missing.add([(row.run, row.case_id)] if row.id is None else [], row.case_id)
                answers_missing.add(answer_ids - known, row.case_id)
                links_missing.add({(row.run, id_) for id_ in answer_ids & known} - used, row.case_id)
    for missing in (cases_missing, answers_missing, links_missing):
        yield from missing.sentences()


def _find_answers(connection: Connection, rows: Iterable[AnyRow]) -> tuple[set[bytes], set[tuple[int, bytes]]]:
    """Return which answers of some verdicts exist, and which are linked to which runs."""
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
