"""Maps to people's ratings: read from plain JSON, exact by hand, silent where a measurement is missing."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.instruments import Image, blurred, jpeg, photo

from beholder.bands import IntervalBand
from beholder.errors import UsageError
from beholder.instruments import human_ratings
from beholder.instruments.instrument import Measurement
from beholder.instruments.pair import ImagePair
from beholder.instruments.registry import list_instruments, measure_pair

BY_HAND = """{
  "name": "realism", "intercept": 0.5, "interval": {"holds": 0.8, "low": -0.2, "high": 0.1},
  "features": [
    {"name": "a.one", "unit": "×", "linear": 0.1, "curved": 0.0, "knots": [[0, -1], [10, 1]]},
    {"name": "a.two", "unit": "", "linear": -0.2, "curved": 0.04, "knots": [[1, -2], [2, 0], [4, 2]]}
  ]
}"""


def taken(values: dict[str, float | None]) -> dict[str, Measurement]:
    return {name: Measurement(name, value, sentence="Not measured: no light.") for name, value in values.items()}


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (5, 2, 0.5 - 0.02),  # z 0 and 0
        (10, 2, 0.6 - 0.02),
        (99, 2, 0.6 - 0.02),  # beyond the last knot nothing is added
        (5, 4, 0.5 - 0.4 + 0.06),  # z 2: (4 - 1) / 2 * 0.04
        (5, 3, 0.5 - 0.2),  # half way between knots, z 1
        (0, 1, 0.5 - 0.1 + 0.4 + 0.06),
    ],
)
def test_a_rating_is_what_one_adds_up_by_hand(one: float, two: float, expected: float) -> None:
    assert human_ratings.parse_rating_map(BY_HAND).rating({"a.one": one, "a.two": two}) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rating", "expected"),
    [
        (0.3, (0.3, 0.1, 0.7)),
        (0.5, (0.5, 0.3, 0.9)),  # the last of its band
        (0.51, (0.51, 0.01, 0.61)),
        (-0.2, (0.0, 0.0, 0.4)),  # around the rating that is shown, not around one beyond the scale
        (1.3, (1.0, 0.5, 1.0)),
    ],
)
def test_the_interval_is_that_of_its_band_within_the_scale(rating: float, expected: tuple[float, float, float]) -> None:
    plain = human_ratings.parse_rating_map(BY_HAND)
    bands = (
        IntervalBand(0.5, -0.2, 0.4, covered=0.8, cases=9),
        IntervalBand(None, -0.5, 0.1, covered=0.8, cases=9),
    )
    assert replace(plain, bands=bands).interval(rating) == pytest.approx(expected)
    assert plain.interval(0.5) == pytest.approx((0.5, 0.3, 0.6))


@pytest.mark.parametrize("name", human_ratings.RATING_MAPS)
def test_the_committed_maps_are_of_instruments_that_there_are(name: str) -> None:
    known = {one.name for one in list_instruments("pair")}
    fitted = human_ratings.load_rating_map(name)
    assert fitted.name == name
    assert {one.name for one in fitted.features} <= known
    assert len(fitted.features) <= 25
    assert fitted.low < 0 < fitted.high
    first, second, last = (one.up_to for one in fitted.bands)
    assert last is None
    assert first is not None
    assert second is not None
    assert 0 < first < second < 1
    for band in fitted.bands:
        assert band.low < 0 < band.high
        assert 0.75 <= band.covered <= 0.9  # wider rather than narrower: thirds of `kept` have 30 photographs
    for one in fitted.features:
        values, scores = zip(*one.knots, strict=True)
        assert list(values) == sorted(set(values))
        assert list(scores) == sorted(scores)


@pytest.mark.parametrize("name", human_ratings.RATING_MAPS)
def test_the_committed_maps_say_how_good_they_are_and_where_they_come_from(name: str) -> None:
    told = json.loads((files("beholder.instruments") / "weights" / f"{name}.json").read_text("utf-8"))
    assert {"on", "cases", "photographs", "date", "by"} <= set(told["fitted"])
    assert told["side"] == human_ratings.RATING_SIDE
    scores = told["score"]["scores"]
    for row in ("the map", "SSIM", "GPT-4o", "one rater against the others", "leave one model out"):
        low, high = scores[row]["interval"]
        assert low < scores[row]["rho"] < high
    assert "combinations" in told["tried"]


@given(st.dictionaries(st.sampled_from([one.name for one in list_instruments("pair")]), st.floats(-1e6, 1e6)))
def test_a_prediction_is_a_rating_with_its_interval_or_none(values: dict[str, float]) -> None:
    for name in human_ratings.RATING_MAPS:
        found = human_ratings.predict_rating(name, taken(dict(values)))
        needed = {one.name for one in human_ratings.load_rating_map(name).features}
        if needed <= set(values):
            assert found.value is not None
            assert found.low is not None
            assert found.high is not None
            assert 0 <= found.low <= found.value <= found.high <= 1
        else:
            assert (found.value, found.low, found.high) == (None, None, None)
            assert found.sentence.startswith("Not predicted: ")


def test_a_measurement_without_meaning_is_no_mean_value() -> None:
    needed = [one.name for one in human_ratings.load_rating_map("realism").features]
    full: dict[str, float | None] = dict.fromkeys(needed, 1.0)
    assert human_ratings.predict_rating("realism", taken(full)).value is not None
    found = human_ratings.predict_rating("realism", taken(full | {needed[3]: None}))
    assert found.value is None
    assert found.sentence == f"Not predicted: {needed[3]} has no value: Not measured: no light."


def test_an_unknown_map_is_said_to_be() -> None:
    with pytest.raises(UsageError, match="'beauty'; there are realism, kept"):
        human_ratings.predict_rating("beauty", {})


def predicted(name: str, before: Image, after: Image) -> float:
    pair = ImagePair.load(jpeg(before), jpeg(after), side=human_ratings.RATING_SIDE)
    value = human_ratings.predict_rating(name, measure_pair(pair)).value
    assert value is not None
    return value


def patched(image: Image, count: int) -> Image:
    """Pieces of another photo put in, hard-edged, here and there."""
    result, other = image.copy(), photo("rocket", 512, 512)[::-1]
    random = np.random.default_rng(3)
    for _ in range(count):
        y, x = random.integers(0, 430, 2)
        result[y : y + 70, x : x + 70] = 255 - other[y : y + 70, x : x + 70]
    return result


@pytest.mark.parametrize("which", ["astronaut", "coffee", "chelsea"])
def test_a_photo_patched_with_strange_pieces_looks_less_real_than_one_that_was_touched_lightly(which: str) -> None:
    image = photo(which, 512, 512)
    light = np.clip(image.astype(np.int16) + 12, 0, 255).astype(np.uint8)
    few, many = (predicted("realism", image, patched(image, count)) for count in (4, 16))
    assert predicted("realism", image, light) > few > many


@pytest.mark.parametrize("which", ["astronaut", "coffee", "chelsea", "rocket"])
def test_an_edit_that_costs_the_rest_its_texture_has_kept_less_and_another_photo_nothing(which: str) -> None:
    image = photo(which, 512, 512)
    edit = image.copy()
    edit[180:330, 180:330] = np.clip(edit[180:330, 180:330] * np.array([1.4, 0.5, 0.5]), 0, 255)
    kept = [predicted("kept", image, edit)]
    kept += [predicted("kept", image, blurred(edit, sigma)) for sigma in (1, 2, 4, 8)]
    kept.append(predicted("kept", image, photo("coffee" if which == "rocket" else "rocket", 512, 512)))
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > 0.75
    assert kept[-1] < 0.1


def test_where_nothing_was_done_nothing_is_said_about_what_was_kept() -> None:
    image = photo("coffee", 512, 512)
    pair = ImagePair(image, image.copy())
    assert human_ratings.predict_rating("kept", measure_pair(pair)).value is None
