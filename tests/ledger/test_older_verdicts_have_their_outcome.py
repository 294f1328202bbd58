"""Older ledgers had no `unmeasured`: their verdicts get it, so that one coverage rule holds in the whole ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlalchemy import select, update
from support.ledger import entry, verdict

from beholder.ledger import database, schema
from beholder.ledger.ledger import Ledger
from beholder.verdicts.verdict import Coverage, Juror, Jury, Outcome, Verdict


def upgrade(ledger: Ledger) -> None:
    with ledger._writing() as connection:
        database._mark_unmeasured(connection)
        database._add_marks_and_search(connection)


def stored(ledger: Ledger, number: int) -> Verdict:
    [found] = ledger.verdict("r1", verdict(number).case)
    return found


def test_scored_by_too_little_becomes_unmeasured(ledger: Ledger) -> None:
    without = verdict(0, score=None, coverage=Coverage(0, 3, "factors"))
    mean_of_two = verdict(1, passed=True, partial=True, coverage=Coverage(2, 3, "factors"))
    enough = verdict(2, coverage=Coverage(5, 6, "factors"))
    ledger.write("r1", [entry(number, of) for number, of in enumerate((without, mean_of_two, enough, verdict(3)))])
    before = [stored(ledger, number) for number in range(4)]
    upgrade(ledger)
    for number, measured in ((0, 0), (1, 2)):
        found = stored(ledger, number)
        assert (found.outcome, found.score, found.passed, found.partial) == (Outcome.UNMEASURED, None, None, False)
        assert found.detail == f"only {measured} of 3 factors measured, and a score needs 80 %"
        assert (found.criteria, found.answer) == (before[number].criteria, before[number].answer)
    assert [stored(ledger, number) for number in (2, 3)] == before[2:]
    assert ledger.counts("r1").states == Counter(scored=2, unmeasured=2)
    assert ledger.check() == []


def test_a_juror_too_and_a_damaged_row_stays_for_doctor_to_name(ledger: Ledger) -> None:
    jurors = (Juror("a:b", 0, Outcome.SCORED, 0.5), Juror("instruments", 0, Outcome.SCORED))
    combined = verdict(0, jury=Jury(2, 0, {}, None, jurors))
    ledger.write("r1", [entry(0, combined), entry(1)])
    columns = schema.verdicts.c
    with ledger._writing() as connection:
        row = connection.execute(select(columns.number).where(columns.case_id == verdict(1).case)).one()
        connection.execute(update(schema.verdicts).where(columns.number == row.number).values(body=b"damaged"))
    upgrade(ledger)
    found = stored(ledger, 0)
    assert found.jury == replace(
        Jury(1, 0, {}, None, (jurors[0], replace(jurors[1], outcome=Outcome.UNMEASURED))),
    )
    assert (found.outcome, found.score) == (Outcome.SCORED, combined.score)
    assert any(verdict(1).case in problem for problem in ledger.check())
