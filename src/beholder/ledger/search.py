"""Searching the texts of cases: an index of words for each run, which is filled when the run is first searched.

A run that nobody searches costs nothing. `case_texts` has the words of each case, folded in the same way for both
databases; SQLite's FTS5 and PostgreSQL's text search index them (`schema.CASE_WORDS_SQL`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from sqlalchemy import Connection, Select, delete, exists, func, insert, select, text

from beholder.cases.case import Case
from beholder.ledger import schema
from beholder.ledger.connection import LedgerConnection
from beholder.ledger.encoding import storable_text
from beholder.ledger.read import to_case
from beholder.ledger.schema import chunks, words_begin

MAX_CHARACTERS = 100_000  # of a case that are searched; an entry of PostgreSQL takes a million
INDEX_BATCH = 2000  # cases that are indexed in one transaction, so that others can write in between

_C, _T = schema.cases.c, schema.case_texts.c
# Chinese, Japanese and Korean are written without spaces: there each character counts as a word.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


def fold_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents."""
    if not text.isascii():
        text = "".join(one for one in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(one))
        text = unicodedata.normalize("NFC", text)  # the letters of a Korean syllable are one character again
    return _WORDS.findall(text.lower())


def count_unindexed(connection: Connection, run: int) -> int:
    """Return how many cases of a run are not in the index yet."""
    cases, texts = (
        connection.scalar(select(func.count()).select_from(table).where(table.c.run == run)) or 0
        for table in (schema.cases, schema.case_texts)
    )
    return max(0, cases - texts)


def index_batch(connection: Connection, run: int) -> int:
    """Put up to `INDEX_BATCH` cases that are missing into the index; return how many."""
    known = exists().where(_T.run == run, _T.case_id == _C.id)
    query = select(_C.id, _C.groups, _C.body).where(_C.run == run, ~known).limit(INDEX_BATCH)
    rows = [
        {"run": run, "case_id": row.id, "text": _searched_text(to_case(row))} for row in connection.execute(query).all()
    ]
    if rows:
        connection.execute(insert(schema.case_texts), rows)
    return len(rows)


def forget_texts(connection: Connection, run: int, case_ids: Sequence[str] | None = None) -> None:
    """Take cases (all for `None`) of a run out of the index, if it has any: they were changed or deleted."""
    if connection.scalar(select(_T.number).where(_T.run == run).limit(1)) is None:
        return
    gone = delete(schema.case_texts).where(_T.run == run)
    if case_ids is not None:
        for part in chunks([storable_text(id_) for id_ in case_ids]):
            connection.execute(gone.where(_T.case_id.in_(part)))
        return
    connection.execute(gone)
    if connection.dialect.name == "sqlite":  # or the words stay readable in the file
        connection.execute(text("INSERT INTO case_words(case_words) VALUES ('optimize')"))


def matching_cases(run: int, text: str) -> Select[tuple[str]] | None:
    """Return a query for the ids of the cases that have all the words of a text; `None` if it has no word."""
    words = fold_words(text)
    if not words:
        return None
    return select(_T.case_id).where(_T.run == run, words_begin(_T.number, words))


def _searched_text(case: Case) -> str:
    values = [case.id, *case.groups.values()]
    for value in case.fields.values():
        values += [value] if isinstance(value, str) else value
    return " ".join(fold_words(" ".join(values)[:MAX_CHARACTERS]))


class SearchStore(LedgerConnection):
    """The part of a `Ledger` that searches the texts of cases."""

    def index_texts(self, run: str, progress: Callable[[int], object] = lambda count: None) -> int:
        """Put the texts of the cases of a run into the index of words, as far as they are not; return how many were.

        100,000 cases take some seconds, once. Others may write in between.

        Args:
            run: The run.
            progress: Called with the number of cases after each batch.
        """
        number, indexed = self._find_number(run), 0
        count = INDEX_BATCH if self.count_unindexed(run) else 0
        while count == INDEX_BATCH:
            with self._writing() as connection:
                count = index_batch(connection, number)
            indexed += count
            progress(count)
        return indexed

    def count_unindexed(self, run: str) -> int:
        """Return how many cases of a run a search does not find by their texts yet."""
        return self._read(count_unindexed, run)
