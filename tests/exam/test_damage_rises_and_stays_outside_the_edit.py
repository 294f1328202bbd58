"""Each step of a ladder is further from its twin than the step before; where it should not reach, no pixel moves."""

from __future__ import annotations

import itertools
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.images import read_bgr

from beholder.demo.photos import load_photos
from beholder.exam.damage import DAMAGES, DamageTarget, crop_to_fill, damage_image, damage_inside, damage_outside
from beholder.exam.image_papers import (
    PLACES,
    blend_partly,
    changed_region,
    make_five_sticker_edit,
    make_retouched_edit,
    make_sticker_edit,
)
from beholder.exam.paper import STRENGTHS, Photo, load_photographs


@pytest.fixture(scope="module")
def shots() -> list[Photo]:
    return load_photographs((), 9, 0)


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Mean absolute difference, in levels; a smaller picture is enlarged first."""
    if one.shape != other.shape:
        one = cv2.resize(one, other.shape[1::-1], interpolation=cv2.INTER_LINEAR)
    return float(np.abs(one.astype(int) - other.astype(int)).mean())


def ground(photo: Photo, other: Photo, seed: int = 0) -> DamageTarget:
    edit = make_sticker_edit(photo)
    return DamageTarget(edit.picture, edit.region, other.pixels, seed, photo.name)


@pytest.mark.parametrize("kind", DAMAGES)
def test_every_step_is_further_from_the_clean_picture(shots: list[Photo], kind: str) -> None:
    for photo, other in itertools.pairwise(shots[::2]):
        base = ground(photo, other)
        steps = [distance(damage_outside(base, kind, strength), base.picture) for strength in STRENGTHS]
        assert steps[0] > 0
        assert all(low < high for low, high in itertools.pairwise(steps)), (photo.name, steps)


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_keeps_to_its_side_of_the_edit(shots: list[Photo], kind: str) -> None:
    for photo, other in itertools.pairwise(shots[::2]):
        base = ground(photo, other)
        within = base.region
        assert np.array_equal(damage_outside(base, kind, 5)[within], base.picture[within])
        assert np.array_equal(damage_inside(base, kind, 5)[~within], base.picture[~within])


@given(
    seed=st.integers(0, 2**32),
    height=st.integers(96, 260),
    width=st.integers(96, 260),
    kind=st.sampled_from(sorted(DAMAGES)),
)
@settings(max_examples=25)
def test_any_shape_of_picture_can_be_damaged_and_seen_to_be(seed: int, height: int, width: int, kind: str) -> None:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    photo = Photo("noise", cv2.GaussianBlur(pixels, (0, 0), 2).astype(np.uint8))
    other = Photo("grey", np.full((120, 200, 3), 128, np.uint8))
    base = ground(photo, other, seed)
    weak, gross = (damage_outside(base, kind, strength) for strength in (1, 5))
    assert weak.shape == gross.shape == base.picture.shape
    assert 0 < distance(weak, base.picture) < distance(gross, base.picture)


def test_chance_decides_the_same_on_every_step(shots: list[Photo]) -> None:
    base = ground(shots[0], shots[1])
    patches = [(damage_image(base, "patch", strength) != base.picture).any(2) for strength in STRENGTHS]
    for smaller, larger in itertools.pairwise(patches):
        rows, columns = np.nonzero(smaller)
        box = larger[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert box.mean() > 0.9  # all but the pixels that happen to be alike


def test_a_patch_covers_the_share_that_is_stated(shots: list[Photo]) -> None:
    base = ground(shots[0], shots[1])
    grey = DamageTarget(np.zeros_like(base.picture), base.region, np.full_like(base.picture, 255), 0, "grey")
    for strength, percent in enumerate(DAMAGES["patch"].steps, start=1):
        covered = 100 * (damage_image(grey, "patch", strength) > 0).any(2).mean()
        assert covered == pytest.approx(percent, rel=0.25)


def test_a_colour_cast_is_as_far_as_it_says() -> None:
    middle = DamageTarget(
        np.full((128, 128, 3), 119, np.uint8), np.zeros((128, 128), bool), np.zeros((9, 9, 3), np.uint8), 0, "grey"
    )
    for strength, step in enumerate(DAMAGES["colour_cast"].steps, start=1):
        lab = [
            cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)[0, 0]
            for picture in (middle.picture, damage_image(middle, "colour_cast", strength))
        ]
        assert np.linalg.norm(lab[1] - lab[0]) == pytest.approx(step, rel=0.1, abs=0.6)  # levels are whole numbers


def test_a_clean_edit_touches_its_region_alone_and_leaves_most_of_the_picture(shots: list[Photo]) -> None:
    assert {photo.name for photo in shots} == set(load_photos())
    for photo in shots:
        retouching = make_retouched_edit(photo)
        assert retouching is not None
        for edit in (make_sticker_edit(photo), make_five_sticker_edit(photo), retouching):
            assert np.array_equal(edit.picture[~edit.region], photo.pixels[~edit.region])
            assert 0.003 < edit.region.mean() < 0.4, (photo.name, edit.kind)
            assert np.abs(edit.picture.astype(int) - photo.pixels).max() > 40
            assert edit.instruction.endswith(".")


def test_a_sticker_is_where_the_instruction_says_in_the_colour_that_it_names(shots: list[Photo]) -> None:
    for photo in shots:
        for edit in (make_sticker_edit(photo), make_five_sticker_edit(photo)):
            middle = {"left": 0.0, "middle": 0.5, "right": 1.0}
            for sticker in edit.stickers:
                assert sticker.place in edit.instruction
                assert sticker.color in edit.instruction
                aside = next(at for word, at in middle.items() if word in sticker.place)
                assert PLACES[sticker.place] == (0.0 if "upper" in sticker.place else 1.0, aside)
            assert cv2.connectedComponents(edit.region.astype(np.uint8))[0] - 1 == len(edit.stickers)


def test_a_users_photo_is_never_taken_for_one_of_the_demos(shots: list[Photo]) -> None:
    assert make_retouched_edit(Photo("astronaut", shots[0].pixels)) is None


@pytest.mark.parametrize("side", range(4))
@pytest.mark.parametrize("percent", [10, 50, 75])
def test_so_much_of_a_restyle_is_still_the_photograph(side: int, percent: int) -> None:
    photo, painted = np.zeros((200, 100, 3), np.uint8), np.full((200, 100, 3), 255, np.uint8)
    done = blend_partly(photo, painted, percent, side)
    assert done.shape == photo.shape
    assert 100 * (done == 0).mean() == pytest.approx(percent, abs=1)
    edges = (done[:, -1], done[0], done[:, 0], done[-1])
    assert not edges[side].any()


def test_what_covers_a_size_has_just_that_size() -> None:
    for height, width in itertools.product((1, 97, 333), repeat=2):
        assert crop_to_fill(np.zeros((120, 77, 3), np.uint8), height, width).shape == (height, width, 3)


def test_the_written_papers_rise_as_well(quick_exams: dict[str, Any]) -> None:
    """As files, with the twins that they name: what a judge gets to see."""
    graded = 0
    for name in ("edit-preservation", "edit-quality", "edit-fidelity", "restyle"):
        exam = quick_exams[name]
        role = exam.rubric.roles[-1]
        picture = {case.id: read_bgr(case.images[role]) for case in exam.cases}
        series: dict[tuple[str, ...], list[tuple[int, float]]] = {}
        for case in exam.cases:
            groups = case.groups
            if groups["part"] in ("damage", "patchy", "omission", "wrong"):
                far = distance(picture[case.id], picture[groups["twin"]])
                series.setdefault((groups["source"], groups["kind"]), []).append((int(groups["strength"]), far))
        for key, steps in series.items():
            assert [strength for strength, _ in steps] == [1, 3, 5], key
            assert 0 < steps[0][1] < steps[1][1] < steps[2][1], (name, key, steps)
            graded += 1
    assert graded == 24


def test_inside_the_edit_the_papers_on_preservation_are_their_twins(quick_exams: dict[str, Any]) -> None:
    exam = quick_exams["edit-preservation"]
    cases = {case.id: case for case in exam.cases}
    compared = 0
    for case in exam.cases:
        if case.groups["part"] == "damage":
            before, clean, damaged = (
                read_bgr(path)
                for path in (
                    case.images["input"],
                    cases[case.groups["twin"]].images["edited"],
                    case.images["edited"],
                )
            )
            within = changed_region(before, clean)
            assert np.array_equal(damaged[within], clean[within]), case.id
            compared += 1
    assert compared == 18
