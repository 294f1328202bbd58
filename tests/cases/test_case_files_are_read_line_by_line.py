"""A case file becomes rows; whatever is wrong with a line is a problem with its line number, and the rest is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cases import EDIT, RESTYLE

from beholder.cases.case import CaseRow, CaseSchema
from beholder.cases.files import MAX_LINE, read_rows
from beholder.errors import CaseError

Read = Callable[..., list[CaseRow]]

GOOD = '{"id": "p1", "original": "a.jpg", "restyled": "b.png", "style": "Anime"}'


def lines(rows: list[CaseRow]) -> list[tuple[int, bool]]:
    return [(int(row.location.rpartition(" ")[2]), not row.problems) for row in rows]


def one(rows: list[CaseRow]) -> str:
    (row,) = rows
    assert row.case is None
    assert len(row.problems) == 1, row.problems
    return row.problems[0]


def test_roles_are_images_fields_are_texts_and_the_rest_are_groups(read: Read, tmp_path: Path) -> None:
    record = {
        "id": 12,
        "original": "photos/a.jpg",
        "restyled": "/far/b.png",
        "style": "Anime",
        "model": "v3",
        "steps": 20,
        "hires": True,
        "seedless": None,
        "note": "",
        "groups": {"source": "p12"},
    }
    (row,) = read("cases.jsonl", json.dumps(record))
    assert row.case is not None
    assert row.case.id == row.id == "12"
    assert row.case.images == {"original": str(tmp_path / "photos/a.jpg"), "restyled": "/far/b.png"}
    assert row.case.fields == {"style": "Anime"}
    assert row.case.groups == {"model": "v3", "steps": "20", "hires": "true", "source": "p12"}


def test_addresses_are_left_as_they_are(read: Read) -> None:
    (row,) = read("c.jsonl", GOOD.replace("a.jpg", "https://x.test/a.jpg").replace("b.png", "data:image/png;base64,AA"))
    assert row.case is not None
    assert row.case.images == {"original": "https://x.test/a.jpg", "restyled": "data:image/png;base64,AA"}


def test_the_first_setting_whose_images_are_all_there_is_taken(read: Read, tmp_path: Path) -> None:
    both = {"id": "e", "input": "i.png", "target": "t.png", "edited": "e.png", "instruction": "x"}
    (row,) = read("c.jsonl", json.dumps(both), EDIT)
    assert row.case is not None
    assert list(row.case.images) == ["input", "edited"]
    assert row.case.groups == {}
    (row,) = read("c.jsonl", json.dumps({**both, "input": None}), EDIT)
    assert row.case is not None
    assert list(row.case.images) == ["target", "edited"]


def test_an_image_of_another_setting_is_no_group(read: Read) -> None:
    shape = CaseSchema((("input", "edited"),), ("instruction",), ignored_roles=("target",))
    record = {"id": "e", "input": "i.png", "target": "t.png", "edited": "e.png", "instruction": "x"}
    (row,) = read("c.jsonl", json.dumps(record), shape)
    assert row.case is not None
    assert row.case.groups == {}
    assert list(row.case.images) == ["input", "edited"]


def test_a_list_of_texts_is_several_texts(read: Read) -> None:
    shape = CaseSchema((("image",),), ("output",), ("expected_output",))
    (row,) = read("c.jsonl", '{"id": 1, "image": "a", "output": "", "expected_output": ["x", "y"]}', shape)
    assert row.case is not None
    assert row.case.fields == {"output": "", "expected_output": ("x", "y")}  # nothing said is something to judge
    (row,) = read("c.csv", 'id,image,output,expected_output\n1,a,[sic],"[""x"", ""y""]"\n', shape)
    assert row.case is not None
    assert row.case.fields == {"output": "[sic]", "expected_output": ("x", "y")}


def test_marks_line_ends_and_empty_lines_do_not_matter(read: Read) -> None:
    rows = read("c.jsonl", b"\xef\xbb\xbf" + f"{GOOD}\r\n\r\n  \n{GOOD}\r\n".encode())
    assert lines(rows) == [(1, True), (4, True)]
    rows = read("c.csv", b"\xef\xbb\xbfid,original,restyled,style\r\n\r\np1,a,b,Anime\r\n")
    assert lines(rows) == [(3, True)]


def test_a_half_line_at_the_end_is_a_problem_with_its_number(read: Read) -> None:
    rows = read("c.jsonl", f"{GOOD}\n{GOOD[:30]}")
    assert lines(rows) == [(1, True), (2, False)]
    assert "cut off" in rows[1].problems[0]
    rows = read("c.csv", "id,original,restyled,style\np1,a,b,Anime\np2,a")
    assert lines(rows) == [(2, True), (3, False)]
    assert rows[1].problems == ("has 2 cells, and the header names 4 columns",)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "should be an object"),
        ("nonsense", "is not JSON"),
        ('{"id": "p1", "id": "p2"}', "names 'id' twice"),
        (GOOD.replace('"Anime"', "NaN"), "NaN"),
        (GOOD.replace('"Anime"', "9" * 5000), "too large"),
        (GOOD.replace('"Anime"', "[" * 100_000), "JSON"),
        (GOOD.replace("Anime", "\\ud800"), "half a character"),
        (GOOD.replace("Anime", "a\\u0000b"), "NUL"),
        (GOOD.replace('"p1"', '""'), "id is empty"),
        (GOOD.replace('"p1"', '"  "'), "id is empty"),
        (GOOD.replace('"p1"', "true"), "id should be a text"),
        (GOOD.replace('"p1"', "null"), "has no 'id' (or 'case')"),
        (GOOD.replace('"p1"', '["p1"]'), "id should be a text"),
        (GOOD.replace("p1", "p" * 201), "201 characters"),
        (GOOD.replace("p1", "p\\u001b[2J"), "cannot be printed"),
        (GOOD.replace('"a.jpg"', "null"), "lacks the image 'original'"),
        (GOOD.replace('"a.jpg"', '""'), "lacks the image 'original'"),
        (GOOD.replace('"a.jpg"', "12"), "'original' should be the path"),
        (GOOD.replace('"Anime"', "null"), "lacks the field 'style'"),
        (GOOD.replace('"Anime"', '{"a": 1}'), "'style' should be a text"),
        (GOOD.replace("}", ', "extra": {"a": 1}}'), "'extra' holds a nested value"),
        (GOOD.replace("}", ', "groups": {"a": [1]}}'), "'groups' holds a nested value"),
    ],
)
def test_what_is_wrong_with_a_line_is_one_sentence(read: Read, line: str, said: str) -> None:
    rows = read("c.jsonl", f"{GOOD}\n{line}\n{GOOD}\n")
    assert lines(rows) == [(1, True), (2, False), (3, True)]
    assert said in one(rows[1:2])


def test_everything_that_a_row_lacks_is_told_at_once(read: Read) -> None:
    (row,) = read("c.jsonl", '{"model": "v3"}')
    assert row.problems == (
        "has no 'id' (or 'case')",
        "lacks the image 'original'",
        "lacks the image 'restyled'",
        "lacks the field 'style'",
    )


def test_bytes_that_are_no_text_are_told_by_line(read: Read) -> None:
    bad = GOOD.replace("Anime", "Caf\xe9").encode("latin-1")
    rows = read("c.jsonl", b"\n".join([GOOD.encode(), bad, GOOD.encode()]))
    assert lines(rows) == [(1, True), (2, False), (3, True)]
    assert "UTF-8" in rows[1].problems[0]
    rows = read("c.csv", b"id,original,restyled,style\np1,a,b,Caf\xe9\np2,a,b,Anime\n")
    assert lines(rows) == [(2, False), (3, True)]
    assert "UTF-8" in one(read("c.jsonl", GOOD.encode("utf-16")))


def test_a_line_that_is_too_long_is_passed_over(read: Read) -> None:
    long = GOOD.replace("Anime", "x" * MAX_LINE)
    rows = read("c.jsonl", f"{GOOD}\n{long}\n{GOOD}")
    assert lines(rows) == [(1, True), (2, False), (3, True)]
    assert "4 MB" in rows[1].problems[0]
    rows = read("c.csv", f"id,original,restyled,style\np1,a,b,{'x' * MAX_LINE}\np2,a,b,Anime\n")
    assert lines(rows) == [(2, False), (3, True)]


def test_line_numbers_count_the_breaks_inside_cells(read: Read) -> None:
    rows = read("c.csv", 'id,original,restyled,style\np1,a,b,"An\nime, ""quoted"""\np2,a,b\np3,a,b,X\n')
    assert lines(rows) == [(2, True), (4, False), (5, True)]
    assert rows[0].case is not None
    assert rows[0].case.fields["style"] == 'An\nime, "quoted"'


def test_a_quote_that_is_never_closed_is_told_where_it_opens(read: Read) -> None:
    rows = read("c.csv", 'id,original,restyled,style\np1,a,b,X\np2,a,b,"X\np3,a,b,X\n')
    assert lines(rows) == [(2, True), (3, False)]
    assert "never closed" in rows[1].problems[0]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("id;original;restyled;style", ["seems to be separated by semicolons, and a file of this name by commas"]),
        ("id,original,style", ["the header has no column 'restyled', the image"]),
        ("original,restyled", ["the header has no column 'id' (or 'case')", "the header has no column 'style'"]),
        ("id,id,original,restyled,style", ["the header names the column 'id' twice"]),
    ],
)
def test_a_wrong_header_is_told_once(read: Read, header: str, said: list[str]) -> None:
    (row,) = read("c.csv", f"{header}\n" + "a,b,c,d,e\n" * 100)
    assert row.location.endswith("line 1")
    assert len(row.problems) == len(said)
    for problem, words in zip(row.problems, said, strict=True):
        assert words in problem


def test_a_column_without_a_name_may_only_be_empty(read: Read) -> None:
    rows = read("c.csv", "id,original,restyled,style,\np1,a,b,X,\np2,a,b,X,more\n")
    assert lines(rows) == [(2, True), (3, False)]


def test_tabs_separate_in_tsv(read: Read) -> None:
    (row,) = read("c.tsv", "case\toriginal\trestyled\tstyle\np1\ta\tb\tPop, Art\n")
    assert row.case is not None
    assert (row.case.id, row.case.fields) == ("p1", {"style": "Pop, Art"})


@pytest.mark.parametrize("name", ["c.jsonl", "c.csv", "c.tsv"])
def test_an_empty_file_has_no_rows(read: Read, name: str) -> None:
    assert read(name, b"") == []
    assert read(name, b"\n\n") == []


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    for name, said in [
        ("none.jsonl", "No such file"),
        ("folder.csv", "is not a file"),
        ("c.json", "one object a line"),
        ("c.xlsx", ".jsonl, .csv, .tsv or .parquet"),
    ]:
        with pytest.raises(CaseError, match=said):
            list(read_rows(tmp_path / name, RESTYLE))


def test_parquet_is_read_with_its_types(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    shape = CaseSchema((("image",),), ("output",), ("expected_output",))
    path = tmp_path / "cases[1].parquet"
    polars.DataFrame(
        {
            "id": [1, 2, None],
            "image": ["a.png", "b.png", "c.png"],
            "output": ["x", "y", None],
            "expected_output": [["p", "q"], None, ["r"]],
            "groups": [{"model": "v1"}, {"model": None}, {"model": "v1"}],
            "share": [0.5, None, 1.0],
        }
    ).write_parquet(path)
    rows = list(read_rows(path, shape))
    assert [row.location for row in rows] == [f"{path}, row {n}" for n in (1, 2, 3)]
    assert rows[0].case is not None
    assert rows[1].case is not None
    assert rows[0].case.fields == {"output": "x", "expected_output": ("p", "q")}
    assert rows[0].case.groups == {"model": "v1", "share": "0.5"}
    assert rows[1].case.fields == {"output": "y"}
    assert rows[1].case.groups == {}
    assert rows[2].problems == ("has no 'id' (or 'case')", "lacks the field 'output'")


def test_nested_parquet_columns_are_problems(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    path = tmp_path / "c.parquet"
    polars.DataFrame({"id": ["p"], "image": [{"width": 1, "path": "a"}], "boxes": [[[1, 2]]]}).write_parquet(path)
    (row,) = read_rows(path, CaseSchema((("image",),)))
    assert [problem.partition(" is")[0].partition(" holds")[0] for problem in row.problems] == [
        "the column 'image'",
        "the column 'boxes'",
    ]


def test_parquet_in_slices_is_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    monkeypatch.setattr("beholder.cases.files.SLICE", 7)
    path = tmp_path / "c.parquet"
    polars.DataFrame({"id": range(20), "image": ["a"] * 20}).write_parquet(path)
    assert [row.id for row in read_rows(path, CaseSchema((("image",),)))] == [str(n) for n in range(20)]


def test_what_is_no_parquet_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    (tmp_path / "c.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(CaseError, match="not a Parquet file"):
        list(read_rows(tmp_path / "c.parquet", RESTYLE))


def test_without_polars_parquet_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(CaseError, match=r"pip install 'beholder\[tables\]'"):
        list(read_rows(tmp_path / "c.parquet", RESTYLE))
