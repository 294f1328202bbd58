"""A run keeps a small copy of each image, so that its verdicts can be looked at when the files are gone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from beholder.images.prepare import digest
from beholder.ledger.ledger import Ledger


def test_every_image_has_a_thumbnail_and_a_changed_file_is_told(
    cases: Callable[[int], Path],
    command: Callable[..., list[str]],
    beholder: Callable[[list[str]], subprocess.CompletedProcess[str]],
    tmp_path: Path,
) -> None:
    cases(3)
    words = [word for word in command() if word != "--no-thumbnails"]
    done = beholder(words)
    assert done.returncode == 0, done.stderr
    files = [tmp_path / "before.png", *(tmp_path / f"after{number}.png" for number in range(3))]
    with Ledger.open(tmp_path / "ledger.db", read_only=True) as ledger:
        assert ledger.check() == []
        for file in files:
            small = ledger.thumbnail(digest(file.read_bytes()))
            assert small is not None
            there = cv2.imdecode(np.frombuffer(small, np.uint8), cv2.IMREAD_COLOR)
            picture = cv2.imread(str(file))
            assert there is not None
            assert picture is not None
            assert there.shape == picture.shape
            assert np.abs(there.astype(int) - picture).mean() < 12
    show = [*words[:3], "show", "latest", "c1", "--ledger", str(tmp_path / "ledger.db")]
    (tmp_path / "after0.png").write_bytes(b"of another case")
    said = beholder(show).stdout
    assert f"input: {files[0]} (unchanged)" in said
    assert f"edited: {files[2]} (unchanged)" in said
    files[2].write_bytes(files[0].read_bytes())
    said = beholder(show).stdout
    assert f"input: {files[0]} (unchanged)" in said
    assert f"edited: {files[2]} (has changed since)" in said


def test_without_thumbnails_there_are_none(
    cases: Callable[[int], Path], run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    cases(1)
    assert run().returncode == 0
    with Ledger.open(tmp_path / "ledger.db", read_only=True) as ledger:
        assert ledger.thumbnail(digest((tmp_path / "before.png").read_bytes())) is None
