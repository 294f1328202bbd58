"""`beholder demo DIR` writes over what the demo wrote, and over nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from beholder.demo.suite import RECORD_NAME, build_demo
from beholder.errors import UsageError

Run = Any


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_users_files_beside_it_stay(quick: None, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.jpg").write_bytes(b"mine too")
    build_demo(tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "photos" / "me.jpg").read_bytes() == b"mine too"
    assert (tmp_path / "suite-edits.yaml").is_file()


def test_a_users_file_in_its_place_stops_it_before_anything_is_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("mine")
    (tmp_path / "edits").write_text("no folder")
    before = contents(tmp_path)
    done = run("demo", tmp_path)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "README.txt" in done.err
    assert "Name another folder, or remove them first." in done.err
    assert contents(tmp_path) == before


def test_a_suite_that_a_user_changed_is_theirs(run: Run, folder: Path) -> None:
    suite = folder / "suite-edits.yaml"
    suite.write_text(suite.read_text() + "judges: [openai:gpt-5-mini]\n")
    before = contents(folder)
    done = run("demo", folder, "--no-run")
    assert done.code == 2
    assert "changed since: suite-edits.yaml." in done.err
    assert contents(folder) == before


def test_what_an_older_demo_wrote_is_written_anew(folder: Path) -> None:
    new = contents(folder)
    record = json.loads((folder / RECORD_NAME).read_text())
    (folder / "README.txt").write_text("as an older version had it")
    record["README.txt"] = hashlib.sha256(b"as an older version had it").hexdigest()
    (folder / RECORD_NAME).write_text(json.dumps(record))
    (folder / "photos" / "china.jpg").unlink()
    build_demo(folder)
    assert contents(folder) == new


@pytest.mark.parametrize("record", [b"", b"[]", b"{", b"\xff\xfe", b'{"README.txt": 7}'])
def test_a_record_that_cannot_be_read_allows_nothing(folder: Path, record: bytes) -> None:
    (folder / RECORD_NAME).write_bytes(record)
    (folder / "README.txt").write_text("whose?")
    with pytest.raises(UsageError, match=r"README\.txt"):
        build_demo(folder)
    assert (folder / "README.txt").read_text() == "whose?"


def test_a_file_is_no_folder(run: Run, tmp_path: Path) -> None:
    (tmp_path / "demo").write_text("mine")
    done = run("demo", tmp_path / "demo")
    assert (done.code, (tmp_path / "demo").read_text()) == (2, "mine")
    assert "is a file; name a folder" in done.err
    done = run("demo", tmp_path / "demo" / "below")
    assert done.code == 2
    assert "cannot be written" in done.err
    assert done.err.count("\n") == 1
