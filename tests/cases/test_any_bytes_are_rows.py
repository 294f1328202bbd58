"""Any bytes in a case file end in rows, each good or with a problem; and reading holds one line at a time."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.cases import RESTYLE

from beholder.cases.case import CaseRow
from beholder.cases.files import read_rows
from beholder.cases.validation import check_cases, select_rows
from beholder.errors import CaseError

GOOD = b'{"id": "p1", "original": "a.jpg", "restyled": "b.png", "style": "Anime", "model": "v3"}\n'
HEADER = b"id,original,restyled,style,model\n"
CELLS = b'p1,a.jpg,b.png,"Anime",v3\n'

QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
records = st.dictionaries(
    st.sampled_from(["id", "case", "original", "restyled", "style", "style_description", "groups", "model"]),
    json_values | st.sampled_from(["p1", "a.jpg", "Anime"]),
)


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """Good lines with bytes put in, changed and cut off."""
    content = bytearray(good * draw(st.integers(1, 4)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(content)))
        content[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(content[: draw(st.integers(0, len(content)))])


def rows_of(folder: Path, name: str, content: bytes) -> list[CaseRow]:
    path = folder / name
    path.write_bytes(content)
    return list(read_rows(path, RESTYLE))


def assert_sound(rows: list[CaseRow]) -> None:
    for row in rows:
        assert (row.case is None) == bool(row.problems)
        assert all(problem.strip() for problem in row.problems)
        if row.case is not None:
            assert row.case.id == row.id
            assert set(row.case.images) == {"original", "restyled"}
            assert "style" in row.case.fields
            texts = [row.id, *row.case.groups.values(), *row.case.images.values()]
            assert all(isinstance(text, str) and text.encode() for text in texts)
    checked = check_cases(rows)
    assert checked.count + len(checked.bad_positions) == len(rows)


@settings(max_examples=200, deadline=None, suppress_health_check=QUIET)
@given(content=st.binary(max_size=300) | damaged(GOOD))
def test_any_bytes_as_jsonl(tmp_path: Path, content: bytes) -> None:
    assert_sound(rows_of(tmp_path, "c.jsonl", content))


@settings(max_examples=200, deadline=None, suppress_health_check=QUIET)
@given(content=st.binary(max_size=300) | damaged(HEADER + CELLS) | damaged(CELLS).map(lambda cells: HEADER + cells))
def test_any_bytes_as_csv(tmp_path: Path, content: bytes) -> None:
    assert_sound(rows_of(tmp_path, "c.csv", content))


@settings(max_examples=200, deadline=None, suppress_health_check=QUIET)
@given(record=records)
def test_any_json_object_is_one_row(tmp_path: Path, record: dict[str, object]) -> None:
    rows = rows_of(tmp_path, "c.jsonl", json.dumps(record).encode())
    assert len(rows) == 1
    assert_sound(rows)


@settings(max_examples=60, deadline=None, suppress_health_check=QUIET)
@given(content=st.binary(max_size=200) | st.binary(max_size=200).map(lambda inner: b"PAR1" + inner + b"PAR1"))
def test_any_bytes_as_parquet(tmp_path: Path, content: bytes) -> None:
    pytest.importorskip("polars")
    with pytest.raises(CaseError):
        rows_of(tmp_path, "c.parquet", content)


def peak(rows: object) -> int:
    """The most bytes held at once while going through."""
    tracemalloc.start()
    for _ in rows:  # type: ignore[attr-defined]
        pass
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("name", ["c.jsonl", "c.csv"])
def test_fifty_thousand_lines_take_no_more_memory_than_five_hundred(tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    def most(count: int) -> int:
        with path.open("wb") as file:
            file.write(b"" if name == "c.jsonl" else HEADER)
            for number in range(count):
                file.write((GOOD if name == "c.jsonl" else CELLS).replace(b"p1", b"p%d" % number))
        return peak(select_rows(read_rows(path, RESTYLE), only="p*"))

    few = most(500)
    assert most(50_000) < few + 64 * 1024
