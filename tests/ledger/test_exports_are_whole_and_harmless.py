"""Exports hold every verdict, in columns named after the verdict's JSON, and nothing that a spreadsheet would run."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledger import KEYS, case, entry, unscored, verdict

from beholder.errors import SetupError
from beholder.ledger.export import csv_line, csv_lines, escape_formula, json_lines, to_frame, unescape_formula
from beholder.ledger.ledger import Ledger
from beholder.verdicts.verdict import CriterionResult, Flag, Verdict

HOSTILE = '=cmd|" /C calc"!A0'


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    quality = {"image_quality": CriterionResult(5, 5, (1, 7), 1)}
    other = verdict(2, rubric="edit-quality", criteria=quality, flags=(Flag("repaired"), Flag("repaired"), Flag("tie")))
    ledger.write("r1", [entry(1), entry(2, other), entry(3, unscored(3, detail=HOSTILE))])
    named = case(verdict(4), groups={"=evil": "+1+1", "model": "-3.5", "note": 'a,"b"\nc'})
    ledger.write("r1", [entry(4, case=named)])
    return ledger


def rows(ledger: Ledger) -> list[dict[str, str]]:
    text = b"".join(csv_lines(lambda: ledger.stored_verdicts("r1"))).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_has_flat_columns(filled: Ledger) -> None:
    found = rows(filled)
    assert list(found[0])[:4] == ["case", "group.model", "group.source", "group.=evil"]
    assert [row["case"][:11] for row in found] == ["photo-00001", "photo-00002", "photo-00003", "photo-00004"]
    assert [found[0][f"{key}.score"] for key in KEYS] == ["2", "3", "4"]
    assert [row["image_quality.score"] for row in found] == ["", "5", "", ""]
    assert found[0]["score_derived"] == "True"
    assert found[0]["usage.input_tokens"] == "2310"
    assert float(found[0]["cost_usd"]) == 0.00186325
    assert found[1]["flags"] == "repaired tie"
    assert (found[2]["outcome"], found[2]["score"]) == ("refused", "")
    assert found[3]["group.note"] == 'a,"b"\nc'


def test_no_cell_of_csv_is_a_formula(filled: Ledger) -> None:
    found = rows(filled)
    assert found[2]["detail"] == "'" + HOSTILE
    assert found[3]["group.=evil"] == "'+1+1"
    assert found[3]["group.model"] == "-3.5"  # a number is no formula
    for row in found:
        assert not [cell for cell in (*row, *row.values()) if cell[:1] in ("=", "+", "@", "\t", "\r")]


@given(st.text())
def test_any_text_is_a_cell_that_reads_back(text: str) -> None:
    line = csv_line([escape_formula(text), "end"]).decode()
    [[cell, end]] = csv.reader(io.StringIO(line, newline=""))
    assert end == "end"
    assert unescape_formula(cell) == text
    assert cell[:1] not in ("=", "@", "\t", "\r")


def test_json_lines_read_back_as_the_verdicts(filled: Ledger) -> None:
    lines = [json.loads(line) for line in json_lines(filled.stored_verdicts("r1"))]
    assert [Verdict.from_dict(line).to_dict() for line in lines] == [one.to_dict() for one in filled.verdicts("r1")]
    assert lines[0]["groups"] == {"model": "model-a", "source": "photo-00001-model-a"}


def test_half_a_surrogate_pair_spoils_no_export(ledger: Ledger, tmp_path: Path) -> None:
    odd = verdict(1, assessment="half \ud83d")
    ledger.write("r1", [entry(1, odd)])
    assert "\\ud83d" in rows(ledger)[0]["assessment"]
    [line] = json_lines(ledger.stored_verdicts("r1"))
    assert json.loads(line)["assessment"] == "half \ud83d"
    to_frame(ledger.stored_verdicts("r1")).write_parquet(io.BytesIO())


def test_parquet_and_the_frame_have_the_columns_of_csv(filled: Ledger, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = filled.frame("r1")
    with (tmp_path / "x.parquet").open("wb") as file:
        to_frame(filled.stored_verdicts("r1")).write_parquet(file)
    assert polars.read_parquet(tmp_path / "x.parquet").equals(frame)
    assert [name.removeprefix("'") for name in rows(filled)[0]] == frame.columns
    assert frame["image_quality.score"].to_list() == [None, 5.0, None, None]
    assert frame.schema["score"] == polars.Float64
    assert frame["reused"].to_list() == [False] * 4


def test_a_frame_of_many_pages_and_of_nothing(ledger: Ledger) -> None:
    empty = ledger.frame("r1")
    assert empty.height == 0
    assert "score" in empty.columns
    ledger.write("r1", [entry(number) for number in range(1500)])
    late = verdict(1500, criteria={"late": CriterionResult(1, 1, (1, 5), 1)})
    ledger.write("r1", [entry(1500, late)])
    frame = ledger.frame("r1")
    assert frame.height == 1501
    assert frame["late.score"].drop_nulls().to_list() == [1.0]


def test_without_polars_one_sentence_says_what_to_install(filled: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(SetupError, match=r"pip install 'beholder\[tables\]'"):
        filled.frame("r1")
