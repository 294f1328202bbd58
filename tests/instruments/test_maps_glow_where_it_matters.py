"""A map on a sheet glows where the measurement is most remarkable, and its legend says how much that is."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beholder.instruments import heatmap
from beholder.instruments.heatmap import find_legend_top, format_value, render_overlay, render_png, render_sheet
from beholder.instruments.instrument import Better, Measurement
from beholder.instruments.pair import ImagePair


def light(rgb: np.ndarray) -> np.ndarray:
    """L* of each pixel."""
    return cv2.cvtColor(rgb.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)[:, :, 0]


def measurement(values: np.ndarray, top: float | None = 1.0, better: Better = "lower", unit: str = "share") -> Any:
    return Measurement("test.glow", 0.5, unit, better, "Half of it, mostly right.", values.astype(np.float32), top)


@pytest.fixture
def pair() -> ImagePair:
    image = np.random.default_rng(1).integers(90, 110, (200, 300, 3), np.uint8)
    return ImagePair(image, image)


def test_lightness_rises_evenly_with_the_value() -> None:
    ramp = np.tile(np.linspace(0, 1, 101, dtype=np.float32), (2, 1))
    shown = light(render_overlay(np.full((2, 101, 3), 128, np.uint8), ramp, 1.0))[0]
    steps = np.diff(shown[::10])
    assert steps.min() > 2
    assert steps.max() < 3 * steps.min()


def test_where_higher_is_better_the_low_values_glow() -> None:
    values = np.array([[0.0, 1.0]], np.float32)
    image = np.full((1, 2, 3), 128, np.uint8)
    plain, turned = (light(render_overlay(image, values, 1.0, invert=turned)) for turned in (False, True))
    assert plain[0, 0] < plain[0, 1] - 30
    assert turned[0, 0] > turned[0, 1] + 30


def test_the_image_shows_beneath_dimmed() -> None:
    image = np.zeros((10, 20, 3), np.uint8)
    image[:, 10:] = 255
    shown = light(render_overlay(image, np.zeros((10, 20), np.float32), 1.0))
    assert shown[:, 10:].mean() - shown[:, :10].mean() > 15
    assert shown.max() < 50


def test_beyond_the_top_is_shown_as_the_top() -> None:
    image = np.full((1, 2, 3), 128, np.uint8)
    shown = render_overlay(image, np.array([[5.0, 500.0]], np.float32), 5.0)
    assert (shown[0, 0] == shown[0, 1]).all()


def test_the_legend_says_that_values_lie_beyond_its_ends(pair: ImagePair) -> None:
    within = render_sheet(measurement(np.full((200, 300), 0.0)), pair)
    over, under = (np.zeros((200, 300)) for _ in range(2))
    over[0, 0], under[0, 0] = 9.0, -9.0
    for values in (over, under):
        changed = (render_sheet(measurement(values), pair) != within).any(axis=2)
        assert changed[:, -228:].any()  # the column of the legend


def test_the_sheet_holds_the_map_in_its_place(pair: ImagePair) -> None:
    values = np.zeros((200, 300), np.float32)
    values[100:, 150:] = 1
    picture = render_sheet(measurement(values), pair)
    whole = render_sheet(measurement(np.zeros((200, 300))), pair)
    assert picture.shape == whole.shape
    rows, columns = np.nonzero((picture != whole).any(axis=2))
    assert (columns.max() - columns.min()) / (rows.max() - rows.min()) == pytest.approx(150 / 100, abs=0.03)
    ground = render_sheet(measurement(np.ones((200, 300))), pair)
    all_rows, all_columns = np.nonzero((ground != whole).any(axis=2))
    assert rows.max() == all_rows.max()
    assert columns.max() == all_columns.max()
    assert rows.min() == pytest.approx(all_rows.mean(), abs=10)  # the border is smoothed


def test_title_sentence_unit_and_direction_are_written(pair: ImagePair) -> None:
    values = np.full((200, 300), 0.3)
    base = render_sheet(measurement(values), pair)
    others = [
        Measurement("test.other", 0.5, "share", "lower", "Half of it, mostly right.", values.astype(np.float32), 1.0),
        Measurement("test.glow", 0.5, "share", "lower", "Half of it, mostly left.", values.astype(np.float32), 1.0),
        measurement(values, unit="ΔE"),
        measurement(values, better=""),
    ]
    assert all((render_sheet(one, pair) != base).any() for one in others)
    assert render_sheet(measurement(values), pair, about="What it is.").shape[0] > base.shape[0]


def test_a_png_that_any_viewer_reads(pair: ImagePair) -> None:
    data = np.frombuffer(render_png(measurement(np.zeros((200, 300))), pair), np.uint8)
    shown = cv2.imdecode(data, cv2.IMREAD_COLOR)
    assert shown is not None
    assert (shown[:, :, ::-1] == render_sheet(measurement(np.zeros((200, 300))), pair)).all()


@given(st.integers(1, 700), st.integers(1, 700), st.sampled_from(["", "a", "word " * 60, "x" * 400]))
@settings(max_examples=15)
def test_any_shape_and_any_sentence_have_a_sheet(width: int, height: int, sentence: str) -> None:
    image = np.full((height, width, 3), 60, np.uint8)
    one = Measurement("test.any", 1.0, "", "", sentence, np.ones((height, width), np.float32), None)
    picture = render_sheet(one, ImagePair(image, image))
    assert picture.dtype == np.uint8
    assert max(picture.shape) < 2000


@pytest.mark.parametrize(
    ("values", "given", "top"),
    [([[0.0, 4.0]], None, 4.0), ([[0.0, 4.0]], 20.0, 20.0), ([[0.0]], None, 1.0), ([[np.nan, 2.0]], None, 2.0)],
)
def test_the_legend_ends_at_the_measurements_own_top_or_at_the_highest(
    values: list[list[float]], given: float | None, top: float
) -> None:
    assert find_legend_top(measurement(np.array(values), given)) == top


def test_a_measurement_without_a_map_has_no_sheet(pair: ImagePair) -> None:
    with pytest.raises(ValueError, match="has no map"):
        render_sheet(Measurement("test.none", 1.0), pair)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        *((0.25, "share", "25 %"), (0.0864, "share", "8.64 %"), (1.0, "share", "100 %"), (4.2, "ΔE", "4.2 ΔE")),
        *((1.0, "×", "1 ×"), (0.12345, "", "0.123"), (12345.6, "px", "12,346 px"), (-3.0, "dB", "-3 dB")),
    ],
)
def test_numbers_are_written_as_people_write_them(value: float, unit: str, shown: str) -> None:
    assert format_value(value, unit) == shown


@pytest.fixture(params=["typeface", "strokes"])
def letters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """OpenCV 5 has a typeface; OpenCV 4, which we also take, has not."""
    heatmap._load_font_face.cache_clear()
    if request.param == "strokes":
        monkeypatch.delattr(cv2, "FontFace", raising=False)
    yield heatmap
    heatmap._load_font_face.cache_clear()


def test_lines_are_as_wide_as_they_say(letters: Any) -> None:
    paper = np.full((60, 900, 3), 255, np.uint8)
    letters.draw_text(paper, "ΔE 31.2, mostly upper left", (10, 40), 24, (0, 0, 0))
    columns = np.nonzero((paper < 128).any(axis=(0, 2)))[0]
    width = letters.measure_text_width("ΔE 31.2, mostly upper left", 24)
    assert columns.min() >= 8
    assert columns.max() - columns.min() == pytest.approx(width, rel=0.1)


def test_text_is_broken_between_words(letters: Any) -> None:
    text = "31 % of the pixels outside the inferred edit differ by more than ΔE 10, mostly top"
    lines = letters.wrap_text(text, 19, 300)
    assert " ".join(lines) == text
    assert len(lines) > 1
    assert all(letters.measure_text_width(line, 19) <= 300 for line in lines)


def test_signs_become_ascii_where_there_are_only_strokes() -> None:
    assert heatmap.to_ascii("ΔE ≥ 3 × 2 日") == "dE >= 3 x 2 ?"
