"""Without the extra the demo is drawn: every case can be judged, good edits leave the rest alone, and it is the
same every time."""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from beholder.cases.validation import check_cases
from beholder.demo.cases import DemoSuite
from beholder.demo.drawings import DRAWING_CREDITS, DRAWINGS, load_drawings
from beholder.demo.photos import Pixels
from beholder.demo.suite import build_demo, get_suite_path, make_suites
from beholder.runs.suite import load_suite


@pytest.fixture(scope="module")
def drawings() -> dict[str, Pixels]:
    return load_drawings()


@pytest.fixture(scope="module")
def drawn(drawings: dict[str, Pixels]) -> tuple[DemoSuite, ...]:
    return make_suites(drawings)


def test_a_drawing_is_the_same_every_time_and_has_the_texture_of_a_photograph(drawings: dict[str, Pixels]) -> None:
    assert drawings.keys() == DRAWINGS.keys()
    for name, picture in drawings.items():
        assert np.array_equal(DRAWINGS[name](), picture)
        assert picture.shape == (448, 640, 3)
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20_000, f"{name} is no flat drawing"


def test_half_of_the_cases_is_good(drawn: tuple[DemoSuite, ...]) -> None:
    assert [suite.name for suite in drawn] == ["restyles", "edits", "descriptions"]
    for suite in drawn:
        assert len({sample.id for sample in suite.samples}) == len(suite.samples) >= 10
        assert sum(not sample.flaw for sample in suite.samples) >= 5
        flaws = [sample.flaw for sample in suite.samples if sample.flaw]
        assert len(set(flaws)) == len(flaws) >= 5
        assert {sample.photo_name for sample in suite.samples} <= DRAWINGS.keys()


def test_a_good_edit_leaves_the_rest_alone(drawn: tuple[DemoSuite, ...], drawings: dict[str, Pixels]) -> None:
    for sample in drawn[1].samples:
        data = np.frombuffer(sample.picture_jpeg, np.uint8)
        picture = cv2.cvtColor(np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR)), cv2.COLOR_BGR2RGB).astype(int)
        still = float((np.abs(picture - drawings[sample.photo_name]).max(2) <= 16).mean())
        assert sample.flaw or 0.8 < still < 0.999, sample.id


def test_without_the_extra_it_is_drawn(
    tmp_path: Path, drawn: tuple[DemoSuite, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beholder.demo.suite.make_suites", lambda _: drawn)
    for missing in ("skimage", "sklearn.datasets"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, missing, None)
            build_demo(tmp_path / "demo")
    assert sorted(path.stem for path in (tmp_path / "demo" / "photos").iterdir()) == sorted(DRAWINGS)
    readme = (tmp_path / "demo" / "README.txt").read_text("utf-8")
    assert DRAWING_CREDITS in readme
    assert "scikit" not in readme
    for suite in drawn:
        loaded = load_suite(get_suite_path(tmp_path / "demo", suite))
        assert check_cases(loaded.rows()).problem_count == 0
