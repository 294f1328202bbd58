"""Images that were moved, zoomed or cropped are laid over each other before they are compared; others never are."""

from __future__ import annotations

import itertools
import re
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.instruments import PHOTOS, Image, blurred, flat, jpeg, noisy, pasted, photo, resized, stylised, zoomed

from beholder.instruments.pair import ImagePair
from beholder.instruments.registration import has_same_aspect, register_images
from beholder.instruments.registry import measure_pair


def shifted(image: Image, x: int, y: int, room: int = 40) -> tuple[Image, Image]:
    """Two views of one image, the second moved by (x, y): what was at (10, 10) is at (10 + x, 10 + y)."""
    height, width = image.shape[:2]
    after = image[room - y : height - room - y, room - x : width - room - x]
    return np.ascontiguousarray(image[room:-room, room:-room]), np.ascontiguousarray(after)


def decoded(data: bytes) -> Image:
    pixels = np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), np.uint8)
    return np.ascontiguousarray(pixels[:, :, ::-1])


@pytest.mark.parametrize("name", PHOTOS)
def test_two_pixels_are_found_and_nothing_changed(name: str) -> None:
    pair = ImagePair(*shifted(photo(name), 2, 0))
    said = measure_pair(pair, ["geometry", "colour", "structure", "locality"])
    assert said["geometry.shift"].value == 2
    assert said["geometry.shift"].sentence == "The whole image was shifted by 2 px to the right."
    assert said["colour.noticeable"].value == 0
    assert said["colour.difference_high"].value == 0
    assert said["structure.ssim"].value == pytest.approx(1, abs=1e-5)
    assert said["locality.changed"].value == 0
    assert said["geometry.kept"].value == pytest.approx(1 - 2 / 400)


def test_without_registration_it_would_be_read_as_a_change() -> None:
    before, after = shifted(photo("coffee"), 2, 0)
    ciede = np.abs(before.astype(int) - after).max(axis=2)
    assert (ciede > 25).mean() > 0.1


@given(st.sampled_from(PHOTOS), st.integers(-30, 30), st.integers(-30, 30))
@settings(max_examples=40)
def test_any_shift_by_whole_pixels_is_found_exactly(name: str, x: int, y: int) -> None:
    found = register_images(*shifted(photo(name), x, y))
    assert found.registered
    assert found.shift == (x, y)
    assert found.scale == 1


@pytest.mark.parametrize("name", PHOTOS)
@pytest.mark.parametrize("noise", [0, 6])
def test_one_pixel_of_a_large_image_is_found(name: str, noise: float) -> None:
    before, after = shifted(photo(name, 1104, 848), 0, 1)
    assert register_images(before, noisy(after, noise)).shift == (0, 1)


def test_a_shift_is_told_in_pixels_of_the_file() -> None:
    before, after = shifted(photo("coffee", 1200, 900), 8, -4)
    pair = ImagePair.load(jpeg(before), jpeg(after), side=400)
    said = measure_pair(pair, ["geometry.shift"])["geometry.shift"]
    assert said.value == pytest.approx(np.hypot(8, 4), abs=0.5)
    assert re.search(r"(7\.[5-9]|8|8\.[1-5]) px to the right and (3\.[5-9]|4|4\.[1-5]) px up\.$", said.sentence)


@pytest.mark.parametrize("name", PHOTOS)
@pytest.mark.parametrize("scale", [1.03, 1.08, 0.95])
def test_a_zoom_is_found(name: str, scale: float) -> None:
    image = photo(name)
    found = register_images(image, zoomed(image, scale))
    assert found.scale == pytest.approx(scale, abs=0.002)
    assert np.hypot(*found.shift) < 0.5


@pytest.mark.parametrize("name", PHOTOS)
@pytest.mark.parametrize("enlarged", [False, True])
def test_a_crop_of_a_tenth_is_found(name: str, enlarged: bool) -> None:
    image = photo(name)
    after = np.ascontiguousarray(image[18:-18, 24:-24])
    if enlarged:
        after = resized(after, (480, 360), cv2.INTER_CUBIC)
    pair = ImagePair(image, after)
    assert pair.alignment.scale == pytest.approx(10 / 9, abs=0.004)
    assert pair.valid.mean() == pytest.approx(0.81, abs=0.01)
    kept = measure_pair(pair, ["geometry.kept"])["geometry.kept"]
    assert kept.value == pytest.approx(0.81, abs=0.004)
    assert kept.sentence == "81 % of the image before is still in view; what is missing was cut off on all sides."
    assert pair.difference_quantiles[0] < 3


def test_a_crop_of_one_side_is_found_though_the_shape_changed() -> None:
    image = photo("coffee")
    pair = ImagePair(image, np.ascontiguousarray(image[:, 60:]))
    assert pair.incomparable_reason == ""
    assert pair.valid.mean() == pytest.approx(7 / 8, abs=0.01)
    assert pair.difference_quantiles[1] < 4
    kept = measure_pair(pair, ["geometry.kept"])["geometry.kept"]
    assert kept.sentence.endswith("cut off at the left.")


STRETCHES = [(640, 384), (640, 440), (512, 512), (1024, 1024), (427, 640)]


@pytest.mark.parametrize("size", STRETCHES)
@pytest.mark.parametrize("name", PHOTOS)
def test_a_stretch_is_another_shape_and_nothing_else(name: str, size: tuple[int, int]) -> None:
    image = photo(name, 640, 427)
    pair = ImagePair(image, cv2.resize(image, size, interpolation=cv2.INTER_AREA))
    assert pair.alignment.method == "stretched"
    said = measure_pair(pair, ["geometry", "structure.ssim"])
    found = {key.removeprefix("geometry."): one for key, one in said.items()}
    assert [found[key].value for key in ("shift", "scale", "turn", "kept")] == [0, 1, 0, 1]
    assert found["shift"].sentence == "The image was not shifted."
    assert found["scale"].sentence == "What is shown was stretched with the image, not zoomed."
    assert found["kept"].sentence == "Nothing was cropped away."
    assert found["aspect"].sentence.endswith("; what it shows was stretched with it.")
    assert (found["structure.ssim"].value or 0) > 0.85


@pytest.mark.parametrize("size", STRETCHES)
def test_a_stretch_is_known_under_an_edit_and_a_restyle(size: tuple[int, int]) -> None:
    image = photo("coffee", 640, 427)
    for after in (pasted(image, 0.2, 0.2, 0.6, 0.6, (200, 30, 30)), stylised(image)):
        assert register_images(image, resized(after, size)).method == "stretched"


@pytest.mark.parametrize("name", PHOTOS)
def test_a_stretch_may_be_moved_as_well(name: str) -> None:
    image = photo(name, 648, 436)
    found = register_images(image[4:-4, 4:-4], resized(image[:-8, 8:], (512, 512)))
    assert (found.moved, found.stretched) == (True, True)
    assert found.shift == pytest.approx((-4, 4), abs=0.3)
    assert found.scale == pytest.approx(1, abs=0.002)
    assert found.rotation == pytest.approx(0, abs=0.1)


CROPS: dict[str, Any] = {
    "left": np.s_[:, 16:],
    "right": np.s_[:, :-20],
    "top": np.s_[16:],
    "bottom": np.s_[:214],
    "left and right": np.s_[:, 107:-107],
    "top and bottom": np.s_[24:-24],
}


@pytest.mark.parametrize("sides", CROPS)
@pytest.mark.parametrize("name", PHOTOS)
def test_a_crop_is_neither_a_stretch_nor_a_shift_nor_a_zoom(name: str, sides: str) -> None:
    image = photo(name, 640, 427)
    after = np.ascontiguousarray(image[CROPS[sides]])
    said = measure_pair(ImagePair(image, after), ["geometry"])
    assert said["geometry.shift"].value == 0
    assert said["geometry.shift"].sentence == "The image was cropped, not shifted."
    assert said["geometry.scale"].value == 1
    assert said["geometry.scale"].sentence == "The image was cropped, not zoomed."
    assert said["geometry.kept"].value == pytest.approx(after.size / image.size, abs=0.01)
    assert said["geometry.kept"].sentence.endswith(f"cut off at the {sides}.")
    assert said["geometry.aspect"].sentence.endswith(", cropped to it.")


def test_a_crop_of_the_same_shape_is_a_zoom_only_where_it_was_enlarged() -> None:
    image = photo("coffee")
    crop = np.ascontiguousarray(image[18:-18, 24:-24])
    enlarged = cv2.resize(crop, image.shape[1::-1], interpolation=cv2.INTER_CUBIC)
    said = [measure_pair(ImagePair(image, after), ["geometry.scale"])["geometry.scale"] for after in (crop, enlarged)]
    assert said[0].sentence == "The image was cropped, not zoomed."
    assert said[1].sentence == "What is shown is 11 % larger: zoomed in."


def test_an_image_with_more_around_it_was_extended() -> None:
    image = photo("coffee")
    pair = ImagePair(image, cv2.copyMakeBorder(image, 0, 0, 90, 90, cv2.BORDER_REFLECT))
    said = measure_pair(pair, ["geometry"])
    assert said["geometry.scale"].sentence == "The image was extended, not zoomed."
    assert said["geometry.shift"].value == 0
    assert said["geometry.kept"].value == pytest.approx(1, abs=0.002)


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(PHOTOS, 2)))
def test_unrelated_images_of_another_shape_are_not_registered(one: str, other: str) -> None:
    for size in ((480, 480), (300, 480), (700, 360)):
        assert not register_images(photo(one), photo(other, *size)).registered


@pytest.mark.parametrize("name", PHOTOS)
def test_a_turn_is_found(name: str) -> None:
    image = photo(name)
    height, width = image.shape[:2]
    turn = cv2.getRotationMatrix2D((width / 2, height / 2), -2, 1)  # OpenCV counts counterclockwise
    turned = np.asarray(cv2.warpAffine(image, turn, (width, height)), np.uint8)
    found = register_images(image, turned)
    assert found.rotation == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("name", PHOTOS)
@pytest.mark.parametrize("shift", [0, 2])
def test_an_edit_of_a_third_does_not_disturb_it(name: str, shift: int) -> None:
    before, after = shifted(photo(name), shift, 0)
    height, width = after.shape[:2]
    other = photo("coffee" if name != "coffee" else "rocket")
    part = (slice(int(0.2 * height), int(0.77 * height)), slice(int(0.2 * width), int(0.77 * width)))
    after[part] = cv2.resize(other, (part[1].stop - part[1].start, part[0].stop - part[0].start))
    found = register_images(before, after)
    assert found.registered
    assert found.shift == (shift, 0)
    assert found.moved == bool(shift)
    assert found.confidence == pytest.approx(2 / 3, abs=0.17)


@pytest.mark.parametrize("name", PHOTOS)
def test_what_did_not_move_is_left_where_it_is(name: str) -> None:
    image = photo(name)
    changed = {
        "noise": noisy(image, 8),
        "darker": (image * 0.5).astype(np.uint8),
        "inverted": 255 - image,
        "blurred": blurred(image, 2),
        "recompressed": decoded(jpeg(image, 10)),
        "recoloured": np.ascontiguousarray(image[:, :, [2, 0, 1]]),
        "stylised": stylised(image),
        "one object": pasted(image, 0.1, 0.1, 0.4, 0.4, (200, 30, 30)),
    }
    for what, after in changed.items():
        found = register_images(image, after)
        assert (what, found.method) == (what, "identity")


def test_identical_images_are_registered_as_they_are() -> None:
    image = photo()
    found = register_images(image, image.copy())
    assert (found.method, found.confidence, found.scale, found.shift) == ("identity", 1, 1, (0, 0))


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(PHOTOS, 2)))
def test_unrelated_images_are_not_registered(one: str, other: str) -> None:
    pair = ImagePair(photo(one), photo(other))
    assert not pair.alignment.registered
    assert pair.alignment.confidence < 0.15
    assert pair.alignment.method == "none"
    said = measure_pair(pair, ["geometry"])
    assert "could not be registered" in said["geometry.confidence"].sentence
    assert [said[f"geometry.{name}"].value for name in ("shift", "scale", "turn", "kept")] == [None] * 4
    # Images of one shape are compared as they lie.
    assert pair.incomparable_reason == ""
    assert np.array_equal(pair.aligned, pair.after)


def test_mirroring_is_no_move() -> None:
    image = photo("coffee")
    assert not register_images(image, np.ascontiguousarray(image[:, ::-1])).registered


def test_unrelated_images_of_another_shape_are_not_compared() -> None:
    pair = ImagePair(photo("coffee"), photo("astronaut", 200, 360))
    assert "different shapes (480×360 and 200×360)" in pair.incomparable_reason


def test_images_without_detail_say_so() -> None:
    found = register_images(flat((10, 10, 10)), flat((200, 10, 10)))
    assert not found.registered
    assert "too little detail" in found.reason
    found = register_images(photo()[:20, :20], photo()[:20, :20] // 2)
    assert "too few" in found.reason


def test_the_same_images_give_the_same_alignment() -> None:
    image = photo("coffee")
    after = zoomed(pasted(image, 0.1, 0.1, 0.5, 0.5, (9, 200, 9)), 1.05)
    first, second = register_images(image, after), register_images(image, after)
    assert np.array_equal(first.matrix, second.matrix)
    assert first.confidence == second.confidence


@given(st.integers(1, 4000), st.integers(1, 4000), st.floats(0.2, 3))
def test_a_scaled_size_has_the_same_aspect(width: int, height: int, scale: float) -> None:
    scaled = max(1, round(width * scale)), max(1, round(height * scale))
    if min(width, height, *scaled) >= 25:
        assert has_same_aspect((width, height), scaled)
    assert has_same_aspect((width, height), (width, height))
    assert not has_same_aspect((width * 2, height), (width, height * 2))
