"""What people made of the cases of a run: stars and comments; and saved views, the filters of lists under a name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

from sqlalchemy import Connection, delete, exists, insert, select

from beholder.errors import LedgerError, UsageError
from beholder.ledger import schema
from beholder.ledger.connection import LedgerConnection
from beholder.ledger.encoding import parse_time, storable_text
from beholder.ledger.schema import AnyRow, chunks
from beholder.ledger.types import Comment
from beholder.ledger.write import insert_or_keep, insert_or_replace, insert_rows

MAX_COMMENT = 10_000  # characters
MAX_NAME = 200  # of an author or a view

_S, _N, _W = schema.stars.c, schema.comments.c, schema.views.c


class MarkStore(LedgerConnection):
    """The part of a `Ledger` that stores stars, comments and saved views. They leave the run's `updated` as it is."""

    def star(self, run: str, case_id: str) -> None:
        """Give a case a star. Raises `LedgerError` if the run has no such case."""
        self._write(_add_star, run, case_id)

    def unstar(self, run: str, case_id: str) -> None:
        """Take the star of a case away, if it has one."""
        self._write(_remove_star, run, case_id)

    def starred(self, run: str, case_ids: Sequence[str] | None = None) -> set[str]:
        """Return the ids of the cases with a star: of these, or of all."""
        return self._read(_read_stars, run, case_ids)

    def comment(self, run: str, case_id: str, text: str, author: str = "") -> Comment:
        """Write a comment on a case.

        Raises:
            LedgerError: The run has no such case.
            UsageError: The text is empty or too long.
        """
        text, author = storable_text(text).strip(), storable_text(author).strip()
        if not text:
            raise UsageError("A comment must not be empty.")
        if len(text) > MAX_COMMENT or len(author) > MAX_NAME:
            raise UsageError(
                f"A comment has at most {MAX_COMMENT:,} characters, and the name of its author {MAX_NAME}."
            )
        made = Comment(uuid4().hex[:12], case_id, author, text, datetime.now(UTC))
        self._write(_add_comment, run, made)
        return made

    def comments(self, run: str, case_ids: Sequence[str] | None = None) -> list[Comment]:
        """Return the comments on cases, oldest first: on these cases, or on all."""
        return self._read(_read_comments, run, case_ids)

    def delete_comment(self, run: str, comment_id: str) -> None:
        """Delete a comment. Raises `LedgerError` if the run has no such comment."""
        if not self._write(_remove_comment, run, comment_id):
            raise LedgerError(f"There is no comment {comment_id!r} in the run {run!r}.")

    def save_view(self, run: str, name: str, query: str) -> None:
        """Keep the filters of a list, as the query of its address, under a name; another view of that name is replaced.

        Raises:
            UsageError: The name is empty or too long.
        """
        name = storable_text(name).strip()
        if not name or len(name) > MAX_NAME:
            raise UsageError(f"A view has a name of 1 to {MAX_NAME} characters.")
        self._write(_write_view, run, name, storable_text(query))

    def views(self, run: str) -> dict[str, str]:
        """Return the saved views of a run by name: the query of the address of each."""
        return self._read(_read_views, run)

    def delete_view(self, run: str, name: str) -> None:
        """Delete a saved view, if there is one of that name."""
        self._write(_remove_view, run, name)


def _check_case(connection: Connection, run: int, case_id: str) -> str:
    id_ = storable_text(case_id)
    cases = schema.cases.c
    if not connection.scalar(select(exists().where(cases.run == run, cases.id == id_))):
        raise LedgerError(f"There is no case {case_id!r} in this run.")
    return id_


def _add_star(connection: Connection, run: int, case_id: str) -> None:
    row = {"run": run, "case_id": _check_case(connection, run, case_id)}
    insert_rows(connection, insert_or_keep(connection, schema.stars), [row])


def _remove_star(connection: Connection, run: int, case_id: str) -> None:
    connection.execute(delete(schema.stars).where(_S.run == run, _S.case_id == storable_text(case_id)))


def _read_stars(connection: Connection, run: int, case_ids: Sequence[str] | None) -> set[str]:
    query = select(_S.case_id).where(_S.run == run)
    if case_ids is None:
        return set(connection.scalars(query))
    asked = {storable_text(id_): id_ for id_ in case_ids}
    parts = chunks(list(asked))
    return {asked[id_] for part in parts for id_ in connection.scalars(query.where(_S.case_id.in_(part)))}


def _add_comment(connection: Connection, run: int, made: Comment) -> None:
    case_id = _check_case(connection, run, made.case)
    values = {"author": made.author, "text": made.text, "created": made.created.isoformat()}
    connection.execute(insert(schema.comments).values(run=run, id=made.id, case_id=case_id, **values))


def _read_comments(connection: Connection, run: int, case_ids: Sequence[str] | None) -> list[Comment]:
    query = select(schema.comments).where(_N.run == run).order_by(_N.created, _N.id)
    if case_ids is None:
        return [_to_comment(row) for row in connection.execute(query)]
    parts = chunks([storable_text(id_) for id_ in case_ids])
    return [_to_comment(row) for part in parts for row in connection.execute(query.where(_N.case_id.in_(part)))]


def _to_comment(row: AnyRow) -> Comment:
    try:
        created = parse_time(row.created)
    except (ValueError, TypeError):  # damaged; the text can still be read
        created = datetime.fromtimestamp(0, UTC)
    return Comment(row.id or "", row.case_id or "", row.author or "", row.text or "", created)


def _remove_comment(connection: Connection, run: int, comment_id: str) -> bool:
    gone = delete(schema.comments).where(_N.run == run, _N.id == storable_text(comment_id))
    return connection.execute(gone).rowcount > 0


def _write_view(connection: Connection, run: int, name: str, query: str) -> None:
    row = {"run": run, "name": name, "query": query}
    insert_rows(connection, insert_or_replace(connection, schema.views, "run", "name"), [row])


def _read_views(connection: Connection, run: int) -> dict[str, str]:
    query = select(_W.name, _W.query).where(_W.run == run).order_by(_W.name)
    return {row.name: row.query for row in connection.execute(query)}


def _remove_view(connection: Connection, run: int, name: str) -> None:
    connection.execute(delete(schema.views).where(_W.run == run, _W.name == storable_text(name)))
