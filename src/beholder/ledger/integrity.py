"""Checking a ledger: that every row can be read, matches its digest, and refers to rows that exist."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from sqlalchemy import Connection, Table, func, select

from beholder.errors import LedgerError
from beholder.images.headers import detect_format
from beholder.ledger import batch_jobs, encoding, leases, read, runs, schema
from beholder.ledger.damage import collect_damage, describe_row, find_wrong_values
from beholder.ledger.schema import AnyRow, chunks
from beholder.ledger.types import JOB_STATES, AnswerKey

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
    columns = (column for table in schema.metadata.sorted_tables for column in table.columns)
    problems += find_wrong_values(connection, columns)
    for table, check in _CHECKS:
        if len(problems) >= MAX_PROBLEMS:
            return [*problems[:MAX_PROBLEMS], "and perhaps more."]
        with connection.execute(select(table).execution_options(yield_per=CHECK_PAGE_SIZE)) as rows:
            for row in rows:
                problems += check(row)
                if len(problems) >= MAX_PROBLEMS:
                    return [*problems[:MAX_PROBLEMS], "and perhaps more."]
    problems += _check_references(connection)
    return problems


def count_rows(connection: Connection) -> dict[str, int]:
    """Return the number of rows by table."""
    return {table.name: connection.scalar(select(func.count()).select_from(table)) or 0 for table in _COUNTED}


def _check_run(row: AnyRow) -> Iterator[str]:
    with collect_damage() as found:
        yield from _error_of(lambda: runs.to_run_record(row))
    yield from found
    for name in ("total", "skipped", "unpriced"):
        if (getattr(row, name) or 0) < 0:
            yield f"The ledger is damaged: {describe_row('runs', row.number)} has a negative number as its {name!r}."


def _check_case(row: AnyRow) -> Iterator[str]:
    with collect_damage() as found:
        read.to_case(row)
        read.read_groups(row.groups, row.id)
    yield from found


def _check_verdict(row: AnyRow) -> Iterator[str]:
    what = f"the verdict on {row.case_id!r} ({describe_row('verdicts', row.number)})"
    try:
        verdict = encoding.unpack_verdict(row.body, what)
        texts = (verdict.case, verdict.rubric, str(verdict.outcome), verdict.grade or "")
        expected = (*map(encoding.storable_text, texts), verdict.score, verdict.passed)
        if expected != (row.case_id, row.rubric, row.outcome, row.grade or "", row.score, row.passed) or (
            json.loads(encoding.encode_facets(verdict) or "{}") != _parse_json(row.facets or "{}")
        ):
            yield f"The ledger is damaged: {what} stands in lists as something else than it is."
        if (verdict.cost_usd or 0) < 0 or verdict.attempts < 0:
            yield f"The ledger is damaged: {what} has a negative cost or a negative number of requests."
    except LedgerError as error:
        yield str(error)
    yield from _error_of(lambda: encoding.unpack_transcripts(row.transcripts, "", f"the transcript behind {what}"))
    if len(row.answers or b"") % 16:
        yield f"The ledger is damaged: the answers behind {what} are not named as they should be."


def _check_answer(row: AnyRow) -> Iterator[str]:
    what = f"answer {row.number} ({describe_row('answers', row.number)})"
    yield from _error_of(lambda: read.to_stored_answer(AnswerKey("", row.judge, row.sample), row))
    digest = row.brief_digest or b""
    try:
        brief = digest.hex() if len(digest) == 32 else digest.decode("utf-8", "replace")
        if encoding.answer_id(brief, encoding.unpack_text(row.body, what)) != row.id:
            yield f"The ledger is damaged: {what} is not the text that was stored under its digest."
    except LedgerError:
        return


def _check_thumbnail(row: AnyRow) -> Iterator[str]:
    if detect_format(row.webp or b"") not in ("jpeg", "webp"):
        where = describe_row("thumbnails", row.digest)
        yield f"The ledger is damaged: the thumbnail of {row.digest.hex()[:12]} ({where}) is neither JPEG nor WebP."


def _check_job(row: AnyRow) -> Iterator[str]:
    what = f"a batch job ({describe_row('jobs', row.number)})"
    yield from _error_of(lambda: batch_jobs.to_batch_job(row, row.body or b"", len(row.body or b"") // 16))
    if row.state not in JOB_STATES:
        yield f"The ledger is damaged: {what} has an unknown state, {row.state!r:.60}."


def _check_reply(row: AnyRow) -> Iterator[str]:
    yield from _error_of(lambda: batch_jobs.unpack_reply(row.body, row.run, row.key))


def _check_worker(row: AnyRow) -> Iterator[str]:
    with collect_damage() as found:
        yield from _error_of(lambda: leases.parse_allowance(row.allowance_usd, row.run, row.holder))
    yield from found


_COUNTED = (schema.runs, schema.cases, schema.verdicts, schema.answers, schema.thumbnails)
_CHECKS: tuple[tuple[Table, Callable[[AnyRow], Iterator[str]]], ...] = (
    (schema.runs, _check_run),
    (schema.cases, _check_case),
    (schema.verdicts, _check_verdict),
    (schema.answers, _check_answer),
    (schema.thumbnails, _check_thumbnail),
    (schema.jobs, _check_job),
    (schema.replies, _check_reply),
    (schema.workers, _check_worker),
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
                answer_ids = set(encoding.split_ids(row.answers or b""))
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
    for part in chunks(list({id_ for row in rows for id_ in encoding.split_ids(row.answers or b"")})):
        known.update(connection.scalars(select(ids).where(ids.in_(part))))
        uses = connection.execute(select(links.run, links.answer).where(links.answer.in_(part)))
        used.update((run, answer) for run, answer in uses)
    return known, used


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _error_of(work: Callable[[], object]) -> Iterator[str]:
    try:
        work()
    except LedgerError as error:
        yield str(error)
