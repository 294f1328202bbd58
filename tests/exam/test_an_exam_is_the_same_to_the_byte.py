"""The same photographs, rubric, seed and size give the same files, in another process and in any order."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from beholder.demo.photos import load_photos
from beholder.exam.exam import write_exam
from beholder.exam.paper import encode_png
from beholder.rubrics.rubric import Rubric

ELSEWHERE = """
import sys
from pathlib import Path
from beholder.exam.exam import write_exam
from beholder.rubrics.rubric import Rubric
for name in sys.argv[2:]:
    write_exam(Rubric.load(name), Path(sys.argv[1]) / name, size="quick")
"""


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_another_process_makes_the_same_bytes(quick_exams: dict[str, Any], tmp_path: Path) -> None:
    # Sets and hashes of texts come in another order there.
    surroundings = {**os.environ, "PYTHONHASHSEED": "4711"}
    names = ("restyle", "description", "edit-fidelity", "edit-preservation")
    subprocess.run([sys.executable, "-c", ELSEWHERE, str(tmp_path), *names], env=surroundings, check=True)
    for name in names:
        made = digests(quick_exams[name].folder)
        assert {"cases.jsonl", ".beholder-exam.json"} < made.keys()
        assert digests(tmp_path / name) == made, name


def test_another_seed_makes_another_exam(quick_exams: dict[str, Any], tmp_path: Path) -> None:
    exam = quick_exams["description"]
    write_exam(exam.rubric, tmp_path / "other", size="quick", seed=1)
    assert digests(tmp_path / "other")["cases.jsonl"] != digests(exam.folder)["cases.jsonl"]


def test_the_order_in_which_photos_are_named_does_not_matter(tmp_path: Path) -> None:
    rubric = Rubric.load("edit-fidelity")
    paths = []
    for name in ("chelsea", "coffee", "rocket"):
        paths.append(tmp_path / f"{name}.png")
        paths[-1].write_bytes(encode_png(np.ascontiguousarray(load_photos()[name][:200, :240])))
    write_exam(rubric, tmp_path / "a", photos=paths, size="quick")
    write_exam(rubric, tmp_path / "b", photos=paths[::-1], size="quick")
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_what_is_there_already_is_not_touched_and_what_was_spoilt_is_mended(quick_exams: dict[str, Any]) -> None:
    exam = quick_exams["description"]
    before = {path: path.stat().st_mtime_ns for path in exam.folder.rglob("*") if path.is_file()}
    spoilt = next(path for path in before if path.suffix == ".png")
    spoilt.write_bytes(b"half a pic")
    again = write_exam(exam.rubric, exam.folder, size="quick")
    assert again == exam.cases
    after = {path: path.stat().st_mtime_ns for path in exam.folder.rglob("*") if path.is_file()}
    assert {path for path in before if before[path] != after[path]} == {spoilt}
    assert after.keys() == before.keys()
    assert spoilt.read_bytes()[:4] == b"\x89PNG"
