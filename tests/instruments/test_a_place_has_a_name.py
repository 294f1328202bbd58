"""Places are named as people name them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from beholder.instruments.pair import ImagePair
from beholder.instruments.regions import add_mostly, locate, name_place


def box(left: float, top: float, right: float, bottom: float, width: int = 640, height: int = 480) -> np.ndarray:
    weight = np.zeros((height, width), np.bool_)
    weight[round(top * height) : round(bottom * height), round(left * width) : round(right * width)] = True
    return weight


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (box(0.05, 0.05, 0.25, 0.3), "upper left"),
        (box(0.4, 0.05, 0.6, 0.25), "top"),
        (box(0.7, 0.05, 0.95, 0.3), "upper right"),
        (box(0.05, 0.35, 0.3, 0.65), "left"),
        (box(0.3, 0.3, 0.7, 0.7), "centre"),
        (box(0.75, 0.4, 0.95, 0.6), "right"),
        (box(0.05, 0.7, 0.3, 0.95), "lower left"),
        (box(0.4, 0.75, 0.6, 0.95), "bottom"),
        (box(0.7, 0.7, 0.95, 0.95), "lower right"),
        (box(0.92, 0, 1, 1), "along the right edge"),
        (box(0, 0.1, 0.06, 0.9), "along the left edge"),
        (box(0, 0, 1, 0.08), "along the top edge"),
        (box(0, 0.95, 1, 1), "along the bottom edge"),
        (~box(0.06, 0.06, 0.94, 0.94), "around the edges"),
        (box(0, 0, 1, 0.3), "across the top"),
        (box(0, 0.4, 1, 0.6), "across the middle"),
        (box(0, 0.7, 1, 1), "across the bottom"),
        (box(0, 0, 0.3, 1), "down the left side"),
        (box(0.4, 0, 0.6, 1), "down the middle"),
        (box(0.7, 0, 1, 1), "down the right side"),
        (box(0, 0, 1, 1), "everywhere"),
        (box(0, 0, 0.2, 0.2) | box(0.8, 0.8, 1, 1), "in several places"),
        (box(0, 0, 0, 0), "nowhere"),
    ],
)
def test_each_place(where: np.ndarray, name: str) -> None:
    assert name_place(where) == name
    assert name_place(where.astype(np.float32) * 30) == name


def test_the_heavier_part_decides() -> None:
    weight = box(0.05, 0.05, 0.25, 0.3) * np.float32(50) + box(0.7, 0.7, 0.95, 0.95) * np.float32(1)
    assert name_place(weight) == "upper left"


def test_small_and_large_images_have_the_same_places() -> None:
    for width, height in [(1, 1), (2, 1), (7, 5), (48, 48), (95, 96), (97, 1), (1, 300), (2000, 1500)]:
        assert name_place(np.ones((height, width), np.bool_)) == "everywhere"
        assert name_place(np.zeros((height, width), np.bool_)) == "nowhere"
    for width, height in [(9, 9), (30, 20), (333, 517), (2100, 1400)]:
        assert name_place(box(0, 0, 1 / 3, 1 / 3, width, height)) == "upper left"


def test_a_place_ends_a_sentence() -> None:
    assert [add_mostly(one) for one in ("top", "everywhere", "in several places")] == [
        "mostly top",
        "everywhere",
        "in several places",
    ]


@given(arrays(np.float32, st.tuples(st.integers(1, 60), st.integers(1, 60)), elements=st.floats(0, 100, width=32)))
def test_every_weight_has_a_place(weight: np.ndarray) -> None:
    name = name_place(weight)
    assert name
    assert (name == "nowhere") == (float(weight.sum()) <= 0)


@given(st.floats(0, 0.7), st.floats(0, 0.7))
def test_mirrored_places_have_mirrored_names(left: float, top: float) -> None:
    weight = box(left, top, left + 0.25, top + 0.25, 480, 480)
    name, mirrored = name_place(weight), name_place(weight[:, ::-1])
    swapped = name.replace("left", "?").replace("right", "left").replace("?", "right")
    assert swapped == mirrored or abs(left + 0.125 - 1 / 3) < 0.01 or abs(left + 0.125 - 2 / 3) < 0.01


def test_a_place_has_boxes_where_there_is_something_to_point_at() -> None:
    [found] = locate(box(0.1, 0.2, 0.35, 0.6)).boxes
    assert found == pytest.approx((0.1, 0.2, 0.35, 0.6), abs=0.03)
    both = locate(box(0, 0, 0.2, 0.2) | box(0.75, 0.75, 1, 1)).boxes
    assert [one == pytest.approx((0.75, 0.75, 1, 1), abs=0.03) for one in both] == [True, False]  # the larger one first
    for where in (box(0, 0, 1, 1), box(0, 0, 0, 0), box(0, 0, 1, 0.95)):
        assert locate(where).boxes == ()
    noise = np.random.default_rng(1).random((480, 640)) > 0.999
    assert len(locate(noise).boxes) <= 4


@given(arrays(np.bool_, st.tuples(st.integers(1, 80), st.integers(1, 80))))
def test_every_box_lies_in_the_image(where: np.ndarray) -> None:
    for left, top, right, bottom in locate(where).boxes:
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1


def test_a_place_is_told_for_each_image_where_the_picture_was_moved() -> None:
    before = np.random.default_rng(2).integers(0, 255, (60, 80, 3)).repeat(4, 0).repeat(4, 1).astype(np.uint8)
    roles = ("input", "edited")
    boxes = ((0.25, 0.25, 0.5, 0.5),)
    assert ImagePair(before, before.copy()).boxes_by_role(boxes, roles) == {"": boxes}
    moved = ImagePair(before, np.roll(before, 32, axis=1))
    if moved.alignment.moved:
        found = moved.boxes_by_role(boxes, roles)
        assert found["input"] == boxes
        assert found["edited"][0] == pytest.approx((0.35, 0.25, 0.6, 0.5), abs=0.01)
    assert moved.alignment.moved
