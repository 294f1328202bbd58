"""The verdicts on one case come from an index: with 100,000 in a run, going through all of them takes 40 ms. So do the
newest of a run: they are not looked for among those of all other runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import event
from support.ledger import entry, run_record

from beholder.ledger.ledger import Ledger

CASE = "photo-00002/model-a"
LOOKS: dict[str, Callable[[Ledger], object]] = {
    "the verdicts on a case": lambda ledger: list(ledger.stored_verdicts("r1", case=CASE)),
    "the verdicts on some cases": lambda ledger: list(ledger.stored_verdicts_on("r1", [CASE, "photo-00003/model-a"])),
    "a case": lambda ledger: ledger.case("r1", CASE),
}


def searches(ledger: Ledger, look: Callable[[Ledger], object]) -> list[str]:
    """How SQLite finds the rows of each statement on cases or verdicts."""
    asked: list[tuple[str, object]] = []
    engine = ledger._engine

    @event.listens_for(engine, "before_cursor_execute")
    def _note(connection: object, cursor: object, statement: str, parameters: object, *rest: object) -> None:
        if statement.startswith("SELECT") and ("FROM cases" in statement or "FROM verdicts" in statement):
            asked.append((statement, parameters))

    assert look(ledger)
    found = []
    with engine.connect() as connection:
        for statement, parameters in asked:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()  # type: ignore[arg-type]
            found.append(next(row[3] for row in plan if row[3].startswith(("SEARCH", "SCAN"))))
    assert found
    return found


@pytest.mark.parametrize("look", LOOKS)
def test_one_case_is_found_by_its_id(tmp_path: Path, look: str) -> None:
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run_record("r1"))
        ledger.write("r1", [entry(number) for number in range(6)])
        for search in searches(ledger, LOOKS[look]):
            assert search.startswith("SEARCH")
            assert "id=?" in search, search


def test_the_newest_verdicts_of_a_run_are_found_in_its_own_index(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        for run in ("r1", "r2"):
            ledger.start(run_record(run))
            ledger.write(run, [entry(number) for number in range(6)])
        [numbers, verdicts] = searches(ledger, lambda ledger: ledger.newest("r2", 3))
    assert "COVERING INDEX" in numbers
    assert "(run=?)" in numbers
    assert "(rowid=?)" in verdicts


def test_the_newest_come_first(ledger: Ledger) -> None:
    ledger.start(run_record("r2"))
    for number in (3, 1, 0, 2):
        for run in ("r1", "r2"):
            ledger.write(run, [entry(number)])
    cases = [stored.verdict.case for stored in ledger.newest("r1", 3)]
    assert cases == [f"photo-{number:05d}/model-a" for number in (2, 0, 1)]
