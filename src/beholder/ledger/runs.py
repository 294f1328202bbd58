"""The table of runs: find a run by its id, name or tag, read it, create it, change it and delete it.

Everything here runs in the transaction of the connection that it gets. A run is given by its number (`runs.number`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeVar

import msgspec
from sqlalchemy import Connection, delete, exists, func, insert, select, update

from beholder.errors import LedgerError
from beholder.ledger import encoding, schema
from beholder.ledger.damage import describe_row, log_damage, read_amount
from beholder.ledger.schema import AnyRow
from beholder.ledger.types import (
    INTERRUPTED,
    REVIEW_PREFIX,
    STATES,
    RunRecord,
)

T = TypeVar("T")

LATEST, PREVIOUS, TAG_PREFIX = "latest", "previous", "tag:"
_EARLIER = re.compile(r"(.+)~(\d{1,9})")
_MAX_SUGGESTED = 500  # runs whose names are searched for one that was meant

_R = schema.runs.c
_TAGS_DECODER = msgspec.json.Decoder(tuple[str, ...])
_UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)


def find_run(connection: Connection, name: str, place: str) -> AnyRow:
    """Return the row of a run, by one of the names that `Ledger` lists.

    Args:
        connection: A transaction.
        name: The id, the name or another way to name a run.
        place: The ledger, for the message.

    Raises:
        LedgerError: There is no such run, or several ids start so.
    """
    text = encoding.storable_text(name)
    row = _find_by_id_or_name(connection, text)  # first: older ledgers may have a run that is called `previous`
    if row is not None:
        return row
    earlier = _EARLIER.fullmatch(text)
    base, back = (earlier[1], int(earlier[2])) if earlier else (text, 0)
    if base == PREVIOUS:
        base, back = LATEST, back + 1
    numbers = _find_successive_runs(connection, base)
    if back < len(numbers):
        return connection.execute(select(schema.runs).where(_R.number == numbers[back])).one()
    if base == LATEST and not numbers:
        raise LedgerError(f"There is no run in the ledger {place!r} yet.")
    if numbers:
        there = "is 1 such run" if len(numbers) == 1 else f"are {len(numbers)} such runs"
        raise LedgerError(
            f"There is no run {name!r} in the ledger {place!r}: counted from {base!r} back, there {there}."
        )
    raise LedgerError(f"There is no run {name!r} in the ledger {place!r}; {_suggest_run(connection, base)}")


def is_reserved_name(name: str) -> bool:
    """Return whether a name stands for a run by its place or its tag, so that no run may have it."""
    return name in (LATEST, PREVIOUS) or name.startswith(TAG_PREFIX) or _EARLIER.fullmatch(name) is not None


def _find_by_id_or_name(connection: Connection, text: str) -> AnyRow | None:
    newest = select(schema.runs).order_by(_R.number.desc()).limit(2)
    starts_so = func.substr(_R.id, 1, len(text)) == text
    for condition, several_are_fine in ((_R.id == text, True), (_R.name == text, True), (starts_so, False)):
        rows = connection.execute(newest.where(condition)).all() if text else []
        if len(rows) > 1 and not several_are_fine:
            raise LedgerError(f"Several runs start with {text!r}; write more of the id.")
        if rows:
            return rows[0]
    return None


def _find_successive_runs(connection: Connection, base: str) -> list[int]:
    """Return the numbers of the runs that `base~0`, `base~1` … stand for, newest first; empty where there is none."""
    numbers = select(_R.number).order_by(_R.number.desc())
    if base == LATEST:  # never a review: that is about a run, which is the one that is meant
        return list(connection.scalars(numbers.where(~_R.fingerprint.startswith(REVIEW_PREFIX))))
    if base.startswith(TAG_PREFIX):
        tagged = connection.execute(numbers.add_columns(_R.tags))
        return [row.number for row in tagged if base.removeprefix(TAG_PREFIX) in _read_tags(row)]
    row = _find_by_id_or_name(connection, base)
    if row is None:
        return []
    return list(connection.scalars(numbers.where(_R.name == row.name, _R.number <= row.number)))


def _suggest_run(connection: Connection, base: str) -> str:
    columns = (_R.number, _R.name, _R.id, _R.tags)
    known = connection.execute(select(*columns).order_by(_R.number.desc()).limit(_MAX_SUGGESTED)).all()
    names = {name for row in known for name in (row.name, row.id) if name}
    names |= {f"{TAG_PREFIX}{tag}" for row in known for tag in _read_tags(row)} | {LATEST, PREVIOUS}
    close = difflib.get_close_matches(base, sorted(names), n=1)
    return f"did you mean {close[0]!r}?" if close else "`beholder runs` lists them."


def find_newest_run(connection: Connection, fingerprint: str, name: str | None = None) -> RunRecord | None:
    query = select(schema.runs).where(_R.fingerprint == fingerprint)
    if name is not None:
        query = query.where(_R.name == name)
    row = connection.execute(query.order_by(_R.number.desc()).limit(1)).one_or_none()
    return None if row is None else to_run_record(row)


def find_other_run(connection: Connection, run: RunRecord, prefix: str) -> str | None:
    """Return the id of a run with the name of `run` and another fingerprint that begins with `prefix`."""
    query = select(_R.id).where(
        _R.name == encoding.storable_text(run.name),
        _R.fingerprint.startswith(prefix, autoescape=True),
        _R.fingerprint != run.fingerprint,
    )
    return connection.scalar(query.order_by(_R.number.desc()).limit(1))


def read_runs(connection: Connection) -> list[RunRecord]:
    """Return all runs, newest first. Of a damaged one suite and rubrics are missing, and a sentence is logged."""
    records = []
    for row in connection.execute(select(schema.runs).order_by(_R.number.desc())):
        try:
            records.append(to_run_record(row))
        except LedgerError as error:
            log_damage(error)
            records.append(_make_record(row, _RunBody()))
    return records


class _RunBody(msgspec.Struct, frozen=True):
    """What the column `body` of a run holds."""

    suite: dict[str, object] = {}
    rubrics: tuple[dict[str, object], ...] = ()
    prompt: str | None = None
    versions: dict[str, str] = {}


def to_run_record(row: AnyRow) -> RunRecord:
    """Return the run of a row of `runs`. Other damaged values than its suite and rubrics are replaced and logged.

    Raises:
        LedgerError: Suite and rubrics cannot be read: without them nobody knows the thresholds of the run.
    """
    what = f"the run {row.id!r} ({describe_row('runs', row.number)})"
    try:
        return _make_record(row, msgspec.convert(encoding.unpack(row.body, what), _RunBody))
    except msgspec.ValidationError:
        raise LedgerError(encoding.DAMAGED_MESSAGE.format(what)) from None


def _make_record(row: AnyRow, body: _RunBody) -> RunRecord:
    known_usd = _read_value(row, "spent_usd", encoding.parse_amount, Decimal(0))
    return RunRecord(
        id=row.id or "",
        name=row.name or "",
        fingerprint=row.fingerprint or "",
        state=_read_value(row, "state", _parse_state, INTERRUPTED),
        created=_read_value(row, "created", encoding.parse_time, _UNKNOWN_TIME),
        updated=_read_value(row, "updated", encoding.parse_time, _UNKNOWN_TIME),
        total=row.total or 0,
        suite=body.suite,
        rubrics=body.rubrics,
        prompt=body.prompt,
        versions=body.versions,
        tags=_read_tags(row),
        spent_usd=None if row.unpriced and not known_usd else known_usd,
        skipped=row.skipped or 0,
        unpriced=row.unpriced or 0,
    )


def read_spent_usd(row: AnyRow) -> Decimal:
    """Return what a run has cost so far, as budgets count it; see `read_amount`."""
    return read_amount(row.spent_usd, f"the cost so far ({describe_row('runs', row.number)})")


def _read_value(row: AnyRow, name: str, parse: Callable[[str], T], instead: T) -> T:
    """Return a column of a run; `instead`, with a sentence in the log, where it is damaged."""
    value = getattr(row, name)
    try:
        return parse(value)
    except (ValueError, TypeError, ArithmeticError, AttributeError):
        where = describe_row("runs", row.number)
        log_damage(f"The ledger is damaged: {where} has {value!r:.60} as its {name!r}, which cannot be read.")
        return instead


def _parse_state(state: str) -> str:
    if state not in STATES:
        raise ValueError("an unknown state")
    return state


def _read_tags(row: AnyRow) -> tuple[str, ...]:
    return _read_value(row, "tags", _TAGS_DECODER.decode, ())


def insert_run(connection: Connection, run: RunRecord) -> None:
    if connection.scalar(select(_R.number).where(_R.id == run.id)) is not None:
        raise LedgerError(f"There is a run {run.id!r} in the ledger already.")
    body = encoding.redact_values(
        {"suite": run.suite, "rubrics": run.rubrics, "prompt": run.prompt, "versions": run.versions}
    )
    row = {
        "id": run.id,
        "name": encoding.storable_text(run.name),
        "fingerprint": run.fingerprint,
        "state": check_state(run.state),
        "created": _utc_text(run.created),
        "updated": _utc_text(run.updated),
        "total": run.total,
        "skipped": run.skipped,
        "spent_usd": str(run.spent_usd or Decimal(0)),
        "unpriced": run.unpriced,
        "tags": encoding.to_json_text([encoding.storable_text(tag) for tag in run.tags]),
        "body": encoding.pack(body),
    }
    connection.execute(insert(schema.runs).values(row))


def update_run(connection: Connection, run: int, /, **values: object) -> None:
    """Change columns of a run, and the time of its last change."""
    now = _utc_text(datetime.now(UTC))
    connection.execute(update(schema.runs).where(_R.number == run).values(**values, updated=now))


def update_suite(connection: Connection, run: int, /, **changes: object) -> None:
    """Change entries of the suite that is stored with a run."""
    body = encoding.unpack(connection.execute(select(_R.body).where(_R.number == run)).scalar_one(), "a review")
    if not isinstance(body, dict):
        raise LedgerError(encoding.DAMAGED_MESSAGE.format("a review"))
    update_run(
        connection, run, body=encoding.pack(encoding.redact_values({**body, "suite": {**body["suite"], **changes}}))
    )


def add_rubric(connection: Connection, run: int, rubric: Mapping[str, object]) -> None:
    """Add a rubric to those that are stored with a run; see `Ledger.add_rubric`."""
    body = encoding.unpack(connection.execute(select(_R.body).where(_R.number == run)).scalar_one(), "a run")
    if not isinstance(body, dict):
        raise LedgerError(encoding.DAMAGED_MESSAGE.format("a run"))
    new = encoding.redact_values(rubric)
    existing = next((one for one in body["rubrics"] if one["rubric"] == rubric["rubric"]), None)
    if existing is None:
        update_run(connection, run, body=encoding.pack({**body, "rubrics": [*body["rubrics"], new]}))
    elif existing != new:
        raise LedgerError(
            f"The run has another rubric {rubric['rubric']!r} already; give this one another name, or the session."
        )


def delete_run(connection: Connection, run: int) -> None:
    """Delete a run with its rows, and the answers and thumbnails that no other run refers to."""
    answers, thumbnails = schema.run_answers, schema.run_thumbnails
    for links, link, table, column in (
        (answers, answers.c.answer, schema.answers, schema.answers.c.id),
        (thumbnails, thumbnails.c.digest, schema.thumbnails, schema.thumbnails.c.digest),
    ):
        linked = select(link).where(links.c.run == run)
        others = exists().where(link == column, links.c.run != run)
        connection.execute(delete(table).where(column.in_(linked), ~others))
        connection.execute(delete(links).where(links.c.run == run))
    marks = (schema.stars, schema.comments, schema.views)
    for table in (schema.verdicts, schema.cases, schema.workers, schema.leases, schema.jobs, schema.replies, *marks):
        connection.execute(delete(table).where(table.c.run == run))
    connection.execute(delete(schema.runs).where(_R.number == run))


def check_state(state: str) -> str:
    if state not in STATES:
        raise ValueError(f"a run is {', '.join(STATES)}, not {state!r}")
    return state


def _utc_text(moment: datetime) -> str:
    """Return a time in ISO 8601; naive times are taken as UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def check_name(name: str) -> None:
    """Raise `LedgerError` for a name that a run cannot be found by."""
    if is_reserved_name(name):
        raise LedgerError(
            f"{name!r} is no name for a run: `latest`, `previous`, `tag:TAG` and `NAME~1` stand for runs by their "
            "place or tag; choose another."
        )
