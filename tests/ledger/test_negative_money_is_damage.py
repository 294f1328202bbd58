"""An amount below nothing, or fewer requests than none, is damage: the check names the row, and no budget gets larger
by it."""

from __future__ import annotations

from decimal import Decimal

import pytest
from sqlalchemy import Table, select, update
from support.ledger import entry, verdict

from beholder.ledger import schema
from beholder.ledger.ledger import Ledger
from beholder.ledger.types import AnswerKey
from beholder.verdicts.verdict import Verdict

LIMIT, EACH = Decimal(10), Decimal(1)
NEGATIVE: list[tuple[Table, str, object]] = [
    (schema.runs, "spent_usd", "-1000"),
    (schema.runs, "total", -5),
    (schema.runs, "skipped", -5),
    (schema.runs, "unpriced", -5),
    (schema.answers, "cost_usd", "-3.5"),
    (schema.answers, "attempts", -2),
    (schema.workers, "allowance_usd", "-1000"),
    (schema.jobs, "reserved_usd", "-1000"),
]


def change(ledger: Ledger, table: Table, column: str, value: object) -> None:
    with ledger._writing() as connection:
        connection.execute(update(table).values({column: value}))


@pytest.fixture
def full(ledger: Ledger) -> Ledger:
    """A ledger that has a row of each kind: $4 are spent, a job may cost $2, a worker has $1 in reserve."""
    ledger.write("r1", [entry(0, spent_usd=Decimal(4))])
    assert ledger.create_batch_job("r1", "judge", {b"k" * 16: 1}, Decimal(2)) is not None
    assert ledger.grant("r1", "other", LIMIT, EACH, 1) == 1
    assert ledger.check() == []
    return ledger


@pytest.mark.parametrize(("table", "column", "value"), NEGATIVE, ids=[f"{table}.{name}" for table, name, _ in NEGATIVE])
def test_the_check_names_the_row(full: Ledger, table: Table, column: str, value: object) -> None:
    change(full, table, column, value)
    problems = full.check()
    assert any("The ledger is damaged" in one and f"of {table.name}" in one for one in problems), problems


@pytest.mark.parametrize("change_of", [{"cost_usd": Decimal("-0.5")}, {"attempts": -1}])
def test_the_check_names_a_verdict(ledger: Ledger, change_of: dict[str, object]) -> None:
    damaged: Verdict = verdict(0, **change_of)
    ledger.write("r1", [entry(0, damaged, spent_usd=Decimal(0), answers=())])
    [problem] = ledger.check()
    assert "has a negative cost or a negative number of requests" in problem
    assert "of verdicts" in problem


@pytest.mark.parametrize(
    ("table", "column", "counted"),
    [(schema.runs, "spent_usd", 4), (schema.workers, "allowance_usd", 1), (schema.jobs, "reserved_usd", 2)],
)
def test_it_counts_as_nothing_for_the_budget(full: Ledger, table: Table, column: str, counted: int) -> None:
    assert full.grant("r1", "next", LIMIT, Decimal(4), 1) == 0  # 3 are left
    change(full, table, column, "-1000")
    left = 3 + counted
    assert full.grant("r1", "next", LIMIT, left + EACH, 1) == 0
    assert full.grant("r1", "next", LIMIT, Decimal(left), 1) == left
    assert full.grant("r1", "next", LIMIT, Decimal("0.01"), 1) == 0


def test_what_is_spent_since_is_added_to_nothing(full: Ledger) -> None:
    change(full, schema.runs, "spent_usd", "-1000")
    assert full.run("r1").spent_usd == 0
    full.write("r1", [entry(1, spent_usd=Decimal(3))])
    with full._reading() as connection:
        assert connection.scalar(select(schema.runs.c.spent_usd)) == "3"


def test_an_answer_of_negative_cost_is_not_used(full: Ledger) -> None:
    key = AnswerKey(verdict(0).brief_digest, "0123456789abcdef", 0)
    assert key in full.cached_answers([key])
    change(full, schema.answers, "cost_usd", "-3.5")
    assert full.cached_answers([key]) == {}


def test_of_a_small_budget_money_is_granted_for_one_call_at_a_time(ledger: Ledger) -> None:
    """What a process that is killed had reserved counts as spent: of a small budget that must not be all."""
    assert ledger.grant("r1", "a", Decimal(64), EACH, 8, 64) == 8
    assert ledger.grant("r1", "a", Decimal(64), EACH, 8, 64) == 1
    assert ledger.grant("r1", "b", Decimal("9.5"), EACH, 8, 64) == 0
    assert ledger.grant("r1", "b", Decimal("9.5"), Decimal("0.5"), 8, 64) == Decimal("0.5")
