"""What only reviews ask of the ledger, in the transaction that the caller has open."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from sqlalchemy import Connection, func, select

from beholder.errors import LedgerError
from beholder.ledger import reading, records, tables, writing
from beholder.ledger.dialects import parts, text_at
from beholder.ledger.facets import STYLE
from beholder.ledger.model import FINISHED, Entry
from beholder.ledger.packing import DAMAGED, pack, plain_text, unpack
from beholder.ledger.redacting import redacted
from beholder.verdicts.model import Outcome, Verdict

_RUNS, _V, _C = tables.runs.c, tables.verdicts.c, tables.cases.c


def own(connection: Connection, run: int, case_id: str) -> list[Verdict]:
    """The verdicts of a run on a case, with their answers: nobody changes them while the caller is writing."""
    found = reading.judged(lambda: nullcontext(connection), run, case=plain_text(case_id), answers=True)
    return [one.verdict for one in found]


def write(connection: Connection, run: int, entries: Sequence[Entry], *, finished: bool = False) -> None:
    """Writes verdicts that cost nothing."""
    writing.write_entries(connection, run, entries)
    records.change(connection, run, **({"state": FINISHED} if finished else {}))


def change_suite(connection: Connection, run: int, **changes: object) -> None:
    """Changes what the suite of a run says."""
    body = unpack(connection.execute(select(_RUNS.body).where(_RUNS.number == run)).scalar_one(), "a review")
    if not isinstance(body, dict):
        raise LedgerError(DAMAGED.format("a review"))
    records.change(connection, run, body=pack(redacted({**body, "suite": {**body["suite"], **changes}})))


def rated(connection: Connection, reviews: Sequence[str]) -> dict[str, int]:
    """How many cases are rated and saved in these reviews, by their ids; one without any is left out."""
    query = (
        select(_RUNS.id, func.count(_V.case_id.distinct()))
        .join_from(tables.verdicts, tables.runs, _V.run == _RUNS.number)
        .where(_V.outcome == str(Outcome.SCORED))
        .group_by(_RUNS.id)
    )
    return {row[0]: row[1] for part in parts(reviews) for row in connection.execute(query.where(_RUNS.id.in_(part)))}


def rated_in(connection: Connection, run: int) -> int:
    """How many cases of one review are rated and saved."""
    query = select(func.count(_V.case_id.distinct())).where(_V.run == run, _V.outcome == str(Outcome.SCORED))
    return connection.scalar(query) or 0


def case_count(connection: Connection, run: int) -> int:
    """How many cases of a run have a verdict."""
    return connection.scalar(select(func.count(_V.case_id.distinct())).where(_V.run == run)) or 0


def group_values(connection: Connection, run: int, group: str) -> dict[str, str]:
    """By case, in the order of `Ledger.case_ids`, its value of a group; empty where it is not in that group."""
    query = select(_C.id, text_at(_C.groups, plain_text(group))).where(_C.run == run).order_by(_C.id)
    return {id_: value or "" for id_, value in connection.execute(query)}


def position_of(connection: Connection, run: int, case_id: str) -> int | None:
    """Where a case stands in its run."""
    query = select(_V.position).where(_V.run == run, _V.case_id == plain_text(case_id)).limit(1)
    return connection.scalar(query)


def cases_at(connection: Connection, run: int, position: int) -> list[str]:
    """The ids of the cases that stand there in their run: one, as a rule, or none."""
    return list(connection.scalars(select(_V.case_id).where(_V.run == run, _V.position == position).distinct()))


def several_styles(connection: Connection, run: int) -> bool:
    """Whether the verdicts of a run are by more than one style; without one counts as one."""
    style = text_at(_V.facets, STYLE)
    return len(connection.execute(select(style).where(_V.run == run).distinct().limit(2)).all()) > 1
