"""A ledger that lost something says how much of what, and names the first few."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, select
from support.ledger import entry, run_record

from beholder.ledger import schema
from beholder.ledger.ledger import Ledger


@pytest.fixture
def lossy(ledger: Ledger) -> Ledger:
    """Two runs of six verdicts each; the second has the answers of the first."""
    ledger.write("r1", [entry(number) for number in range(6)])
    ledger.start(run_record("r2"))
    ledger.write("r2", [entry(number) for number in range(6)])
    assert ledger.check() == []
    return ledger


def name(number: int) -> str:
    return f"'photo-{number:05d}/model-a'"


def test_missing_answers_are_counted_once_each_and_the_first_verdicts_named(lossy: Ledger) -> None:
    answers = schema.answers.c
    with lossy._writing() as connection:
        first = select(answers.id).order_by(answers.number).limit(5)
        ids = connection.scalars(first).all()
        connection.execute(delete(schema.answers).where(answers.id.in_(ids)))
    [said] = lossy.check()
    assert said == f"5 answers are missing: behind the verdicts on {name(0)}, {name(1)}, {name(2)} and 2 more."


def test_one_of_each_kind_is_told_as_one(lossy: Ledger) -> None:
    cases, links, answers = schema.cases.c, schema.run_answers.c, schema.answers.c
    with lossy._writing() as connection:
        [gone, unused] = connection.scalars(select(answers.id).order_by(answers.number).limit(2)).all()
        run = lossy._run_number(connection, "r1")
        connection.execute(delete(schema.cases).where(cases.run == run, cases.id == "photo-00003/model-a"))
        connection.execute(delete(schema.answers).where(answers.id == gone))
        connection.execute(delete(schema.run_answers).where(links.run == run, links.answer == unused))
    assert lossy.check() == [
        f"1 case is missing: behind the verdict on {name(3)}.",
        f"1 answer is missing: behind the verdict on {name(0)}.",
        f"1 answer is not noted as used by its run: behind the verdict on {name(1)}.",
    ]
