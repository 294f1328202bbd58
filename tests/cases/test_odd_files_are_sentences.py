"""A file that is odd in any way (YAML tags, thousands of unknown keys, damaged Parquet, a pipe, a device) is one error
of a few sentences, and nothing waits for ever."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import polars
import pytest
from support.cases import RESTYLE

from beholder.api.options import Options
from beholder.cases.files import read_rows
from beholder.cli.options import read_text_file
from beholder.errors import BeholderError, CaseError, RubricError
from beholder.judges.recorded import read_recorded
from beholder.rubrics.load import load_rubric, load_styles
from beholder.rubrics.yaml_files import MAX_PROBLEMS
from beholder.runs.suite import load_suite
from beholder.statistics.data import read_scores
from beholder.verdicts.calibration import load_calibration

LOADERS: tuple[Callable[[Path], object], ...] = (lambda path: load_rubric(str(path)), load_suite)

TAGGED = {
    "bool": "rubric: !!bool foo\n",
    "timestamp": "rubric: !!timestamp foo\n",
    "int": "rubric: !!int foo\n",
    "float": "rubric: !!float x\n",
    "binary": "rubric: !!binary é\n",
    "a call": 'rubric: !!python/object/apply:os.system ["ls"]\n',
    "an own tag": "rubric: !secret /etc/passwd\n",
    "a date that is none": "rubric: 2026-99-99\n",
    "aliases of aliases": "a: &a [x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(10)),
    "a list in itself": "rubric: &a [*a]\n",
}


@pytest.mark.parametrize("kind", TAGGED)
@pytest.mark.parametrize("load", LOADERS, ids=["rubric", "suite"])
def test_a_tag_is_no_traceback(tmp_path: Path, kind: str, load: Callable[[Path], object]) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(TAGGED[kind], "utf-8")
    with pytest.raises(RubricError) as caught:
        load(path)
    assert "file.yaml" in str(caught.value)


def test_a_tag_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text("version: 1\nrubric: !!bool foo\n", "utf-8")
    with pytest.raises(RubricError, match=r"line 2, rubric: 'foo' cannot be read as a value of the type 'bool'"):
        load_rubric(str(path))


MANY = {
    "unknown keys": "".join(f"k{number}: 1\n" for number in range(40_000)),
    "the same key": "rubric: a\n" * 40_000,
    "wrong criteria": "criteria:\n" + "- 7\n" * 40_000,
    "wrong thresholds": "rubric: edit-preservation\nfail_under:\n" + "".join(f"  k{n}: x\n" for n in range(20_000)),
    "judges": "rubric: edit-preservation\njudges:\n" + "".join(f"- openai:m{number}\n" for number in range(20_000)),
}


@pytest.mark.parametrize("kind", MANY)
@pytest.mark.parametrize("load", LOADERS, ids=["rubric", "suite"])
def test_thousands_of_problems_are_counted_and_the_first_listed(
    tmp_path: Path, kind: str, load: Callable[[Path], object]
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(MANY[kind], "utf-8")
    with pytest.raises(RubricError) as caught:
        load(path)
    assert 1 <= len(caught.value.problems) <= MAX_PROBLEMS + 1


def test_the_rest_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(MANY["unknown keys"], "utf-8")
    with pytest.raises(RubricError, match=r"and 39,9\d\d more problems"):
        load_rubric(str(path))


def test_damaged_parquet_is_a_sentence_wherever_the_damage_is(tmp_path: Path) -> None:
    path = tmp_path / "cases.parquet"
    frame = {"id": [f"p{number}" for number in range(50)], "original": ["a"] * 50, "restyled": ["b"] * 50}
    polars.DataFrame({**frame, "style": ["Anime"] * 50}).write_parquet(path)
    whole = path.read_bytes()
    refused = 0
    for at in range(4, len(whole), 7):
        path.write_bytes(whole[:at] + bytes(255 - byte for byte in whole[at : at + 3]) + whole[at + 3 :])
        try:
            list(read_rows(path, RESTYLE))
        except CaseError:
            refused += 1
    assert refused > 10


def pipe(folder: Path, name: str) -> Path:
    os.mkfifo(folder / name)
    return folder / name


def device(folder: Path, name: str) -> Path:
    (folder / name).symlink_to("/dev/zero")
    return folder / name


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "suite": ("file.yaml", load_suite),
    "rubric": ("file.yaml", lambda path: load_rubric(str(path))),
    "case file": ("file.jsonl", lambda path: list(read_rows(path, RESTYLE))),
    "case table": ("file.csv", lambda path: list(read_rows(path, RESTYLE))),
    "Parquet": ("file.parquet", lambda path: list(read_rows(path, RESTYLE))),
    "ratings": ("file.csv", read_scores),
    "verdicts": ("file.jsonl", read_scores),
    "prompt": ("prompt.md", lambda path: Options(prompt=path).read_prompt()),
    "calibration": ("file.json", load_calibration),
    "answers": ("file.jsonl", lambda path: list(read_recorded(path))),
    "text of a case": ("file.txt", lambda path: read_text_file(path, "The file")),
    "style": ("style.yaml", lambda path: load_styles([path.parent])),
}


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("make", [pipe, device])
def test_nothing_waits_on_a_pipe_or_a_device(tmp_path: Path, kind: str, make: Callable[[Path, str], Path]) -> None:
    name, read = READERS[kind]
    with pytest.raises(BeholderError) as caught:
        read(make(tmp_path, name))
    assert "\n" not in str(caught.value)
