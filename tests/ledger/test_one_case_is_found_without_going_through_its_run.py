"""The verdicts on one case come from an index: with 100,000 in a run, going through all of them takes 40 ms."""

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


@pytest.mark.parametrize("look", LOOKS)
def test_one_case_is_found_by_its_id(tmp_path: Path, look: str) -> None:
    asked: list[tuple[str, object]] = []
    with Ledger.open(tmp_path / "ledger.db", create=True) as ledger:
        ledger.start(run_record("r1"))
        ledger.write("r1", [entry(number) for number in range(6)])
        engine = ledger._engine

        @event.listens_for(engine, "before_cursor_execute")
        def _note(connection: object, cursor: object, statement: str, parameters: object, *rest: object) -> None:
            asked.append((statement, parameters))

        assert LOOKS[look](ledger)
        wanted = [one for one in asked if "case_id" in one[0] or "FROM cases" in one[0]]
        assert wanted
        with engine.connect() as connection:
            for statement, parameters in wanted:
                plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()  # type: ignore[arg-type]
                searched = [row[3] for row in plan if row[3].startswith(("SEARCH", "SCAN"))]
                assert searched[0].startswith("SEARCH")
                assert "id=?" in searched[0], searched
