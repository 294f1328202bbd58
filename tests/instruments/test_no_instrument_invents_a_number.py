"""Whatever the images, every pair instrument gives a finite number in its range or says why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support.instruments import Image, flat, noisy, pasted, photo

from beholder.instruments.instrument import Instrument, Measurement
from beholder.instruments.pair import ImagePair
from beholder.instruments.registry import list_instruments, measure_pair

FAMILIES = ("geometry", "colour", "structure", "locality")
COFFEE = photo("coffee", 240, 180)
PIXEL = flat((9, 90, 200), 1, 1)
EMPTY, FULL = np.zeros((180, 240), np.bool_), np.ones((180, 240), np.bool_)

ODD: dict[str, Callable[[], ImagePair]] = {
    "identical": lambda: ImagePair(COFFEE, COFFEE.copy()),
    "unrelated": lambda: ImagePair(COFFEE, photo("astronaut", 240, 180)),
    "unrelated, another shape": lambda: ImagePair(COFFEE, photo("astronaut", 100, 180)),
    "smaller": lambda: ImagePair(COFFEE, cv2.resize(COFFEE, (120, 90))),
    "larger": lambda: ImagePair(COFFEE, cv2.resize(COFFEE, (600, 450))),
    "one pixel": lambda: ImagePair(PIXEL, PIXEL.copy()),
    "one pixel to another": lambda: ImagePair(PIXEL, flat((200, 9, 9), 1, 1)),
    "one pixel to a photo": lambda: ImagePair(PIXEL, COFFEE),
    "a photo to one pixel": lambda: ImagePair(COFFEE, PIXEL),
    "a line": lambda: ImagePair(COFFEE[:1], noisy(COFFEE)[:1]),
    "a column": lambda: ImagePair(COFFEE[:, :1], noisy(COFFEE)[:, :1]),
    "ten by ten": lambda: ImagePair(COFFEE[:10, :10], noisy(COFFEE, 9)[:10, :10]),
    "black": lambda: ImagePair(flat((0, 0, 0)), flat((0, 0, 0))),
    "a photo to black": lambda: ImagePair(COFFEE, flat((0, 0, 0), 240, 180)),
    "black to a photo": lambda: ImagePair(flat((0, 0, 0), 240, 180), COFFEE),
    "black to white": lambda: ImagePair(flat((0, 0, 0)), flat((255, 255, 255))),
    "grey": lambda: ImagePair(COFFEE[:, :, 1], noisy(COFFEE)[:, :, 1]),
    "with alpha": lambda: ImagePair(np.dstack([COFFEE, COFFEE[:, :, 0]]), np.dstack([COFFEE, COFFEE[:, :, 1]])),
    "empty mask": lambda: ImagePair(COFFEE, pasted(COFFEE, 0.1, 0.1, 0.3, 0.3, (9, 255, 9)), mask=EMPTY),
    "full mask": lambda: ImagePair(COFFEE, pasted(COFFEE, 0.1, 0.1, 0.3, 0.3, (9, 255, 9)), mask=FULL),
    "mask of another size": lambda: ImagePair(COFFEE, noisy(COFFEE), mask=cv2.resize(COFFEE[:, :, 0], (480, 360))),
    "moved nearly out": lambda: ImagePair(
        COFFEE, cv2.warpAffine(COFFEE, np.array([[1, 0, 150], [0, 1, 9]], np.float32), (240, 180))
    ),
}

RANGES = {"share": (0, 1), "ΔE": (0, 150), "px": (0, math.inf), "×": (0, math.inf), "°": (-10, 10)}


def check(measurement: Measurement, instrument: Instrument, pair: ImagePair) -> None:
    assert measurement.name == instrument.name
    assert measurement.sentence.endswith(".")
    if measurement.value is None:
        assert measurement.sentence.startswith("Not measured: ") or not measurement.name.startswith(FAMILIES)
        assert measurement.map is None
        return
    assert math.isfinite(measurement.value)
    if measurement.name.startswith(FAMILIES):  # of others a share may be a change, which may be negative
        low, high = RANGES.get(measurement.unit, (-math.inf, math.inf))
        assert low <= measurement.value <= high, measurement
    if measurement.map is not None:
        assert measurement.map.shape == pair.before.shape[:2]
        assert measurement.map.dtype == np.float32
        assert np.isfinite(measurement.map).all()
        assert (measurement.map_top or 0) > 0


@pytest.mark.parametrize("what", ODD)
def test_odd_images(what: str) -> None:
    pair = ODD[what]()
    for instrument in list_instruments("pair"):
        check(instrument.measure(pair), instrument, pair)


@given(
    arrays(np.uint8, st.tuples(st.integers(1, 70), st.integers(1, 70), st.just(3))),
    arrays(np.uint8, st.tuples(st.integers(1, 70), st.integers(1, 70), st.just(3))),
)
@settings(max_examples=40)
def test_any_images(before: Image, after: Image) -> None:
    pair = ImagePair(before, after)
    for instrument in list_instruments("pair"):
        if instrument.name.startswith(FAMILIES):
            check(instrument.measure(pair), instrument, pair)


def test_what_cannot_be_compared_says_why() -> None:
    said = measure_pair(ODD["unrelated, another shape"](), FAMILIES)
    wherever = {f"colour.{name}" for name in ("palette", "exposure", "contrast", "saturation")}
    compared = [one for name, one in said.items() if not name.startswith("geometry") and name not in wherever]
    assert all(said[name].value is not None for name in wherever)
    assert {one.value for one in compared} == {None}
    assert {one.sentence for one in compared} == {
        "Not measured: the images have different shapes (240×180 and 100×180) and could not be laid over each other."
    }


def test_colours_as_a_whole_need_no_registration() -> None:
    turned = np.ascontiguousarray(np.rot90(COFFEE))
    pair = ImagePair(COFFEE, turned)
    assert pair.incomparable_reason
    same = measure_pair(pair, ["colour.palette", "colour.exposure", "colour.contrast", "colour.saturation"])
    assert same["colour.palette"].value == pytest.approx(0, abs=1)
    assert same["colour.exposure"].value == pytest.approx(0, abs=1)
    assert same["colour.contrast"].value == pytest.approx(1, abs=0.03)
    assert same["colour.saturation"].value == pytest.approx(0, abs=1)
    darker = measure_pair(ImagePair(COFFEE, turned // 2), ["colour.exposure"])["colour.exposure"]
    assert (darker.value or 0) < -10


def test_noise_has_no_edges_that_could_be_found_again() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (512, 512, 3)).astype(np.uint8)
    said = measure_pair(ImagePair(photo("coffee", 512, 512), noise), ["structure.edges"])["structure.edges"]
    assert said.value is None
    assert "any would be found again" in said.sentence


def test_one_pixel_has_no_structure_texture_or_detail() -> None:
    pair = ImagePair(photo("coffee", 200, 200), PIXEL)  # of one shape, so that they are compared
    said = measure_pair(pair, ["structure", "naturalness", "restyle"])
    assert {name: one.value for name, one in said.items() if one.value is not None} == {}
    assert said["naturalness.detail_lost"].sentence == "Not measured: the image after is too small (1×1 px)."
    size = measure_pair(pair, ["geometry.size"])["geometry.size"].sentence
    assert size == "200×200 became 1×1: under 0.1 % of the pixels."


@pytest.mark.parametrize("what", ["black", "black to white"])
def test_flat_images_have_no_detail_accents_or_texture(what: str) -> None:
    names = ("detail_gained", "detail_lost", "detail_uneven", "standing_out", "accents")
    wanted = [*(f"naturalness.{name}" for name in names), "restyle.texture_change"]
    assert {one.value for one in measure_pair(ODD[what](), wanted).values()} == {None}


def test_flat_images_have_no_structure() -> None:
    said = measure_pair(ODD["black to white"](), ["structure"])
    assert {one.value for one in said.values()} == {None}


def test_a_measurement_cannot_be_made_of_nonsense() -> None:
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="has the value None"):
            Measurement("colour.x", value)
    with pytest.raises(ValueError, match="must say why"):
        Measurement("colour.x", None)


def test_every_instrument_states_its_convention() -> None:
    for one in list_instruments("pair"):
        assert one.about.endswith(".")
        assert len(one.about) > 30
        family, _, name = one.name.partition(".")
        assert family.isidentifier()
        assert name.isidentifier()
