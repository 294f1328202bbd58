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
from beholder.providers.endpoint import find_api_key, find_secrets
from beholder.providers.openai import PROVIDER

CarryOut = Callable[[Sequence[str]], tuple[int, str, str]]


ASKED = "judge description photo.png --set input=a --set output=b --set expected_output=c --judge broken:x"


@pytest.fixture
def crashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carried_out: CarryOut) -> Callable[..., str]:
    """What a judge with a programming error leads to, with exit code 70: that of a plug-in, or what ours would be like,
    in a module of nobody's."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    cv2.imwrite(str(tmp_path / "photo.png"), np.zeros((8, 8, 3), np.uint8))

    def crash(error: str, module: str = "beholder_broken") -> str:
        code = f"import json, os\n\ndef make_judge(model, settings):\n    raise {error}\n"
        (tmp_path / "beholder_broken.py").write_text(f"from {module} import make_judge\n", "utf-8")
        (tmp_path / f"{module}.py").write_text(code, "utf-8")
        info = tmp_path / "beholder_broken-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: beholder-broken\nVersion: 1.0\n", "utf-8")
        (info / "entry_points.txt").write_text("[beholder.judges]\nbroken = beholder_broken:make_judge\n", "utf-8")
        for name in ("beholder_broken", module):
            monkeypatch.delitem(sys.modules, name, raising=False)
        done, out, said = carried_out(ASKED.split())
        assert (done, out) == (70, "")
        assert "Traceback (most recent call last)" in said
        return said

    return crash


@pytest.mark.parametrize(
    ("error", "name"), [("KeyError('\\x1b[31mscore')", "KeyError"), ("EOFError('ended')", "EOFError")]
)
def test_a_crash_ends_with_70_and_says_how_to_report_it(crashed: Callable[..., str], error: str, name: str) -> None:
    said = crashed(error, "of_nobody")
    assert name in said
    assert "\x1b" not in said
    *_, last = said.splitlines()
    assert last.startswith(
        f"beholder: this is an error in Beholder {beholder.__version__}, and not yours; please report"
    )


@pytest.mark.parametrize("error", ["KeyError('score')", "EOFError('ended')", "ValueError(json.loads('{'))"])
def test_a_crash_of_a_plugin_is_called_one(crashed: Callable[..., str], error: str) -> None:
    *_, last = crashed(error).splitlines()
    assert last.startswith("beholder: this is an error in the plug-in beholder-broken 1.0, not in Beholder ")
    assert "report it to its authors" in last


def test_a_traceback_to_be_reported_has_no_keys(crashed: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"COHERE_API_KEY": "grapefruit-one", "OPENAI_API_KEY": "grapefruit-two"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    told = "'{COHERE_API_KEY} {OPENAI_API_KEY} sk-1234567890ab postgresql://me:melon@host/db'.format(**os.environ)"
    said = crashed(f"KeyError({told} + ' word' * 2000)")
    assert "word word" in said
    assert said.splitlines()[-1].startswith("beholder: this is")  # a long one is not cut off
    assert not [part for part in ("grapefruit", "sk-1234567890ab", "melon@host") if part in said]


def test_the_variable_that_a_judge_has_its_key_from_is_known_by_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_PAPERS", "grapefruit-three")
    assert "grapefruit-three" not in find_secrets()
    find_api_key(PROVIDER, "JUDGE_PAPERS", needed=True)
    assert "grapefruit-three" in find_secrets()


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
