"""`beholder init` gives a suite that runs once its pictures are there, and a schema that takes it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from beholder.runs.suite import load_suite
from beholder.runs.suite_file import SuiteFile

Run = Any


def test_the_start_is_a_sound_suite(run: Run, folder: Path) -> None:
    done = run("init")
    assert (done.code, done.err) == (0, "")
    assert "beholder plan suite.yaml" in done.out
    (folder / "photos").mkdir()
    (folder / "out" / "anime").mkdir(parents=True)
    shutil.copy("photo.jpg", "photos/p1.jpg")
    shutil.copy("after.png", "out/anime/p1.png")
    suite = load_suite("suite.yaml")
    assert [(row.id, row.problems) for row in suite.rows()] == [("p1/anime", ())]
    assert suite.judges[0].judge == "openai:gpt-5-mini"


def test_the_start_names_every_key(run: Run, folder: Path) -> None:
    run("init mine.yaml")
    text = Path("mine.yaml").read_text()
    assert "beholder plan mine.yaml" in text
    for name in SuiteFile.__struct_fields__:
        assert f"{name}:" in text, name


def test_what_stands_there_is_not_written_over(run: Run, folder: Path) -> None:
    Path("suite.yaml").write_text("mine")
    done = run("init")
    assert done.code == 2
    assert done.err == "beholder: 'suite.yaml' exists already; name another file, or remove it first.\n"
    assert Path("suite.yaml").read_text() == "mine"
    done = run("init none/suite.yaml")
    assert done.code == 2
    assert "cannot be written: No such file or directory" in done.err


def test_the_schema_takes_the_start(run: Run, folder: Path) -> None:
    run("init")
    done = run("init --schema")
    assert done.code == 0
    jsonschema.Draft202012Validator(json.loads(done.out)).validate(yaml.safe_load(Path("suite.yaml").read_text()))
