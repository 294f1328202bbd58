"""Runs as rows, in the transaction that the caller has open."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy import Connection, insert, select, update

from beholder.errors import LedgerError
from beholder.ledger import tables
from beholder.ledger.model import STATES, RunRecord
from beholder.ledger.packing import dump, pack, plain_text, unpack
from beholder.ledger.redacting import redacted
from beholder.ledger.tables import AnyRow

_RUNS = tables.runs.c


def start(connection: Connection, run: RunRecord) -> None:
    if connection.scalar(select(_RUNS.number).where(_RUNS.id == run.id)) is not None:
        raise LedgerError(f"There is a run {run.id!r} in the ledger already.")
    body = redacted({"suite": run.suite, "rubrics": run.rubrics, "prompt": run.prompt, "versions": run.versions})
    row = {
        "id": run.id,
        "name": plain_text(run.name),
        "fingerprint": run.fingerprint,
        "state": checked_state(run.state),
        "created": _time(run.created),
        "updated": _time(run.updated),
        "total": run.total,
        "skipped": run.skipped,
        "spent_usd": str(run.spent_usd or Decimal(0)),
        "unpriced": run.unpriced,
        "tags": dump([plain_text(tag) for tag in run.tags]),
        "body": pack(body),
    }
    connection.execute(insert(tables.runs).values(row))


def newest(connection: Connection, fingerprint: str) -> RunRecord | None:
    query = select(tables.runs).where(_RUNS.fingerprint == fingerprint).order_by(_RUNS.number.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else record(row)


def change(connection: Connection, number: int, **values: object) -> None:
    """Changes columns of a run, and the time of its last change."""
    now = _time(datetime.now(UTC))
    connection.execute(update(tables.runs).where(_RUNS.number == number).values(**values, updated=now))


def record(row: AnyRow) -> RunRecord:
    body = unpack(row.body, f"the run {row.id!r}")
    assert isinstance(body, dict)
    known = Decimal(row.spent_usd)
    return RunRecord(
        id=row.id,
        name=row.name,
        fingerprint=row.fingerprint,
        state=row.state,
        created=datetime.fromisoformat(row.created),
        updated=datetime.fromisoformat(row.updated),
        total=row.total,
        suite=body["suite"],
        rubrics=tuple(body["rubrics"]),
        prompt=body["prompt"],
        versions=body["versions"],
        tags=tuple(json.loads(row.tags)),
        spent_usd=None if row.unpriced and not known else known,
        skipped=row.skipped,
        unpriced=row.unpriced,
    )


def checked_state(state: str) -> str:
    if state not in STATES:
        raise ValueError(f"a run is {', '.join(STATES)}, not {state!r}")
    return state


def _time(moment: datetime) -> str:
    """Naive times are taken as UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
