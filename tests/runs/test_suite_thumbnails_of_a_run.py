"""A run keeps a small copy of each image, so that its verdicts can be looked at when the files are gone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

import beholder
from beholder.images.prepare import digest
from beholder.ledger.ledger import Ledger
from beholder.verdicts.verdict import CasePicture


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


def test_images_that_no_judge_was_sent_are_kept_too(tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    cv2.imwrite(str(photo), np.full((60, 80, 3), 90, np.uint8))
    texts = {"input": "What is it?", "output": "A gray card.", "expected_output": "A gray card."}
    cases = [
        {"id": "one", "image": str(photo), **texts},
        {"id": "lost", "image": str(tmp_path / "lost.png"), **texts},
        {"id": "remote", "image": "https://example.com/photo.png", **texts},  # nothing is fetched to be shown
    ]
    place = tmp_path / "ledger.db"
    with beholder.Session("instruments", ledger=place, name="texts") as session:
        found = {one.case: one for one in session.judge_many("description", cases)}
    sent = digest(photo.read_bytes())
    assert found["one"].pictures == (CasePicture("image", sent),)
    assert [found[name].pictures for name in ("lost", "remote")] == [None, None]
    assert all(one.scored and one.images == () for one in found.values())
    with Ledger.open(place, read_only=True) as ledger:
        assert ledger.thumbnail(sent) is not None
