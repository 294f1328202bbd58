"""Only a missed threshold ends with 1: a crash has its own code and says how to report it; so has a closed pipe."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
from support.scripts import PATIENCE_S

import beholder

CarryOut = Callable[[Sequence[str]], tuple[int, str, str]]


def install_judge(folder: Path, error: str) -> None:
    """Install a plug-in whose judge has a programming error: what our own would look like."""
    code = f"def make_judge(model, settings):\n    raise {error}\n"
    (folder / "beholder_broken.py").write_text(code, "utf-8")
    info = folder / "beholder_broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: beholder-broken\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[beholder.judges]\nbroken = beholder_broken:make_judge\n", "utf-8")


@pytest.mark.parametrize(
    ("error", "name"), [("KeyError('\\x1b[31mscore')", "KeyError"), ("EOFError('ended')", "EOFError")]
)
def test_a_crash_ends_with_70_and_says_how_to_report_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carried_out: CarryOut, error: str, name: str
) -> None:
    install_judge(tmp_path, error)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "beholder_broken", raising=False)
    cv2.imwrite(str(tmp_path / "photo.png"), np.zeros((8, 8, 3), np.uint8))
    asked = "judge description photo.png --set input=a --set output=b --set expected_output=c --judge broken:x"
    code, out, said = carried_out(asked.split())
    assert (code, out) == (70, "")
    assert "Traceback (most recent call last)" in said
    assert name in said
    assert "\x1b" not in said
    *_, last = said.splitlines()
    assert last.startswith(
        f"beholder: this is an error in Beholder {beholder.__version__}, and not yours; please report"
    )


def test_output_that_nobody_reads_is_no_missed_threshold() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "beholder", "rubrics"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_sentence_that_nobody_reads_keeps_its_code(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "beholder", "run", "none.yaml"]
    done = subprocess.run(words, cwd=tmp_path, stdout=writer, stderr=writer, timeout=PATIENCE_S)
    os.close(writer)
    assert done.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without /dev/full")
def test_a_full_disk_is_a_sentence_and_no_crash() -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "beholder", "rubrics", "--json"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (
        2,
        "beholder: the disk is full: not everything could be written.\n",
    )
