"""--limit, --only and --shuffle choose the same cases each time."""

from __future__ import annotations

import pytest

from beholder.cases.case import Case, CaseRow
from beholder.cases.validation import select_rows

ROWS = [
    CaseRow(f"line {n}", Case(f"p{n}/{style}"), (), f"p{n}/{style}") for n in range(20) for style in ("anime", "pop")
]
BROKEN = CaseRow("line 99", None, ("is not JSON",))


def ids(rows: object) -> list[str]:
    return [row.id for row in rows]  # type: ignore[attr-defined]


def test_nothing_said_is_everything() -> None:
    assert list(select_rows(ROWS)) == ROWS


def test_only_is_a_pattern_on_ids() -> None:
    assert ids(select_rows(ROWS, only="p1/*")) == ["p1/anime", "p1/pop"]
    assert len(ids(select_rows(ROWS, only="*/pop"))) == 20


def test_a_row_without_an_id_is_always_told() -> None:
    assert list(select_rows([BROKEN, *ROWS], only="p3/pop")) == [BROKEN, ROWS[7]]


def test_limit_counts_good_rows_and_reads_no_further() -> None:
    rows = iter([BROKEN, *ROWS])
    assert list(select_rows(rows, limit=2)) == [BROKEN, *ROWS[:2]]
    assert next(rows) == ROWS[2]


def test_a_shuffle_depends_on_seed_and_ids_alone() -> None:
    first = ids(select_rows(ROWS, shuffle=1))
    assert first != ids(ROWS)
    assert sorted(first) == sorted(ids(ROWS))
    assert first == ids(select_rows(reversed(ROWS), shuffle=1))
    assert first != ids(select_rows(ROWS, shuffle=2))


def test_a_limited_shuffle_is_the_start_of_the_whole() -> None:
    assert ids(select_rows(ROWS, limit=5, shuffle=1)) == ids(select_rows(ROWS, shuffle=1))[:5]


def test_a_shuffle_that_outgrows_memory_waits_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    held = list(select_rows(ROWS, shuffle=1))
    monkeypatch.setattr("beholder.cases.sources.KEPT_BYTES", 100)
    assert list(select_rows(ROWS, shuffle=1)) == held
