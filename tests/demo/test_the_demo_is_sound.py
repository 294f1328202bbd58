"""Every case of the demo can be judged, says what is wrong with it, and tells no judge."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from beholder.cases.validation import check_cases
from beholder.demo.cases import DemoSuite
from beholder.demo.photos import CREDITS, load_photos
from beholder.demo.suite import build_demo, get_suite_path, make_suites
from beholder.runs.suite import load_suite

NAMES = ("restyles", "edits", "descriptions")


def decoded(data: bytes) -> np.ndarray:
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    return picture


def test_the_suites_run_as_they_are_and_name_no_judge(folder: Path, made: tuple[DemoSuite, ...]) -> None:
    assert [(chapter.name, chapter.rubric) for chapter in made] == [
        ("restyles", "restyle"),
        ("edits", "edit-preservation"),
        ("descriptions", "description"),
    ]
    for chapter in made:
        suite = load_suite(get_suite_path(folder, chapter))
        assert [entry.judge for entry in suite.judges if entry.judge != "instruments"] == []
        assert suite.ledger_place() == str(folder / "beholder.db")
        rows = list(suite.rows())
        assert [(row.id, row.problems) for row in rows] == [(sample.id, ()) for sample in chapter.samples]
        assert check_cases(suite.rows()).problem_count == 0
        for row, sample in zip(rows, chapter.samples, strict=True):
            assert row.case is not None
            assert row.case.groups["source"] == sample.photo_name
            assert row.case.groups["expected"] == ("bad" if sample.flaw else "good")
            assert row.case.groups["flaw"] == (sample.flaw or "none")


@pytest.mark.parametrize("name", NAMES)
def test_there_are_good_ones_and_bad_ones(made: tuple[DemoSuite, ...], name: str) -> None:
    samples = next(chapter.samples for chapter in made if chapter.name == name)
    assert len({sample.id for sample in samples}) == len(samples) >= 10
    assert sum(not sample.flaw for sample in samples) >= 5
    flaws = [sample.flaw for sample in samples if sample.flaw]
    assert len(set(flaws)) == len(flaws) >= 5


def test_pictures_are_small_and_are_not_their_photograph(folder: Path, made: tuple[DemoSuite, ...]) -> None:
    for chapter in made:
        for sample in chapter.samples:
            photo = decoded((folder / "photos" / f"{sample.photo_name}.jpg").read_bytes())
            assert max(photo.shape[:2]) <= 768
            if not sample.picture_jpeg:
                assert chapter.name == "descriptions"
                continue
            picture = decoded(sample.picture_jpeg)
            assert max(picture.shape[:2]) <= 768
            if picture.shape == photo.shape:
                assert np.abs(picture.astype(int) - photo).max() > 40, sample.id


def test_a_good_edit_leaves_the_rest_alone(made: tuple[DemoSuite, ...], folder: Path) -> None:
    edits = next(chapter.samples for chapter in made if chapter.name == "edits")
    still = {}
    for sample in edits:
        photo = decoded((folder / "photos" / f"{sample.photo_name}.jpg").read_bytes()).astype(int)
        still[sample.id] = float((np.abs(decoded(sample.picture_jpeg) - photo).max(2) <= 16).mean())
    for sample in edits:
        if not sample.flaw and "two-pixels" not in sample.id:
            assert still[sample.id] > 0.7, sample.id
    # The bad ones do what was asked as well, and more than that.
    assert still["motorcycle/blue-cast"] < 0.5 < 0.9 < still["motorcycle/blue"]
    assert still["flower/pink-zoomed"] < still["flower/pink"] - 0.1
    assert still["chelsea/blue-eyes-blocky"] < 0.85 < 0.95 < still["chelsea/blue-eyes"]


def test_it_is_the_same_every_time(made: tuple[DemoSuite, ...]) -> None:
    assert make_suites(load_photos()) == made


def test_every_photograph_has_its_credit(folder: Path) -> None:
    names = [path.stem for path in (folder / "photos").iterdir()]
    assert sorted(line.split()[0] for line in CREDITS.splitlines()) == sorted(names) == sorted(load_photos())
    assert CREDITS in (folder / "README.txt").read_text("utf-8")


def test_a_second_time_nothing_is_touched(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.*") if path.name != ".beholder-demo.json"}
    assert len(before) > 30
    build_demo(folder)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert not list(folder.rglob("*.part"))
