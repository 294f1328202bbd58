"""The judge `instruments` on edits: what was kept is measured, and where pixels cannot tell it says so."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.offline import (
    Damage,
    blurred,
    cropped,
    darkened,
    noisy,
    on_edit,
    photo,
    png,
    recompressed,
    resized,
    scores,
    tinted,
    warped,
    with_ball,
)

from beholder import Case, judge_async
from beholder.judges.offline.preservation import factor_points, load_curves, subject_changes
from beholder.verdicts.verdict import Outcome, Verdict

FACTORS = ("unchanged_regions", "global_consistency", "identity_preservation")


def reasons_fit(verdict: Verdict) -> None:
    for result in verdict.criteria.values():
        assert 15 <= len(result.reason.split()) <= 30, result.reason
        assert any(letter.isdigit() for letter in result.reason), result.reason
    assert "reason_length" not in {flag.flag for flag in verdict.flags}


@pytest.mark.parametrize("name", ["coffee", "astronaut", "chelsea"])
def test_an_edit_that_stays_in_its_place_keeps_all(name: str) -> None:
    made = on_edit(photo(name), with_ball(photo(name)))
    assert scores(made) == [7, 7, 7]
    assert made.score == 1
    assert made.coverage is None
    assert "upper left" in made.criteria["unchanged_regions"].reason
    reasons_fit(made)


def test_identical_images_have_kept_everything() -> None:
    made = on_edit(photo(), photo(), "replace the cup with a teapot")
    assert scores(made) == [7, 7, 7]
    reasons_fit(made)


# By kind of damage: its steps, and the factor that it must lower, to at most this.
GRADED: dict[str, tuple[Damage, tuple[float, ...], str, int]] = {
    "blur": (blurred, (0, 1, 2, 4, 8), "unchanged_regions", 5),
    "noise": (noisy, (0, 4, 9, 16), "unchanged_regions", 4),
    "compression": (recompressed, (0, 50, 80, 95), "unchanged_regions", 5),
    "a tint": (tinted, (0, 5, 10, 20), "global_consistency", 4),
    "darkness": (darkened, (0, 0.05, 0.12, 0.2), "global_consistency", 5),
    "a crop": (cropped, (0, 0.02, 0.06, 0.12), "global_consistency", 4),
    "a warp": (warped, (0, 1, 2.5, 5), "identity_preservation", 5),
}


@pytest.mark.parametrize("kind", GRADED)
@pytest.mark.parametrize("name", ["coffee", "astronaut", "chelsea"])
def test_more_damage_never_scores_higher(kind: str, name: str) -> None:
    damage, steps, factor, at_most = GRADED[kind]
    made = [on_edit(photo(name), damage(with_ball(photo(name)), step)) for step in steps]
    for key in FACTORS:
        reached = [one.criteria[key].score for one in made]
        told = [score for score in reached if score is not None]
        assert told == sorted(told, reverse=True), (key, reached)
        assert told == reached[: len(told)], (key, reached)  # from what is open there is no way back
    last = made[-1].criteria[factor].score
    assert made[0].criteria[factor].score == 7
    assert last is None or last <= at_most
    for one in made:
        reasons_fit(one)


def test_damage_far_from_the_edit_is_named_with_its_place() -> None:
    after = with_ball(photo())
    after[-90:, -140:] = np.clip(after[-90:, -140:].astype(int) + 22, 0, 255)
    made = on_edit(photo(), after)
    changed = made.criteria["unchanged_regions"]
    assert changed.score is not None
    assert changed.score <= 5
    assert "lower right" in changed.reason
    places = {place.at: place for place in made.places or ()}
    height, width = after.shape[:2]
    [(left, top, right, bottom)] = places["unchanged_regions"].boxes
    assert (left, top) == pytest.approx((1 - 140 / width, 1 - 90 / height), abs=0.05)
    assert (right, bottom) == pytest.approx((1, 1), abs=0.05)
    assert places["outside.edit"].boxes[0][2] < left  # the edit itself is upper left
    assert "global_consistency" not in places  # in which nothing is amiss, or not at a place


@pytest.mark.parametrize("other", ["astronaut", "chelsea"])
def test_another_image_is_left_open(other: str) -> None:
    height, width = photo().shape[:2]
    after = resized(photo(other), (width, height))
    made = on_edit(photo(), after)
    assert made.outcome is Outcome.UNMEASURED
    assert scores(made) == [None, None, None]
    assert made.score is None
    assert made.coverage is not None
    assert (made.coverage.measured, made.coverage.of) == (0, 3)
    assert "fills" in made.criteria["unchanged_regions"].reason
    reasons_fit(made)


def test_identity_is_left_open_where_the_subject_was_to_change() -> None:
    after = photo("chelsea").copy()
    height, width = after.shape[:2]
    cv2.circle(after, (width // 2, height // 2), height // 3, (40, 90, 60), -1)
    made = on_edit(photo("chelsea"), after, "turn the cat into a fox")
    assert made.criteria["identity_preservation"].score is None
    assert made.criteria["unchanged_regions"].score == 7
    assert (made.outcome, made.score) == (Outcome.UNMEASURED, None)  # two of three factors are too few
    assert {"abstained", "measured_not_seen"} <= {flag.flag for flag in made.flags}
    reasons_fit(made)


def test_a_recoloured_thing_is_still_the_same_thing() -> None:
    after = photo("chelsea").copy()
    after[60:200, 90:290] = after[60:200, 90:290, ::-1]
    made = on_edit(photo("chelsea"), after, "change the colour of the cat to blue")
    identity = made.criteria["identity_preservation"]
    assert identity.score is not None
    assert identity.score >= 6
    assert "recoloured" in identity.reason
    reasons_fit(made)


@pytest.mark.parametrize(
    ("instruction", "changes"),
    [
        ("replace the dog with a cat", True),
        ("turn the basin into a plastic pool", True),
        ("remove bananas and add grapes", True),
        ("make the people angry", True),
        ("let it be a bullet train", True),
        ("犬を猫に変える", True),  # what is not understood may be anything
        ("", True),
        ("add a hat to the dog", False),
        ("put strawberries on the plate", False),
        ("change the background to a beach", False),
        ("make the motorcycles and cars pink", False),
        ("change the color of the car", False),
    ],
)
def test_an_instruction_tells_whether_the_subject_was_to_change(instruction: str, changes: bool) -> None:
    assert subject_changes(instruction) is changes


RED, GREEN, BLUE = (220, 30, 40), (20, 140, 50), (20, 20, 220)


def squared(*squares: tuple[int, int, int, tuple[int, int, int]]) -> np.ndarray:
    """The coffee with squares on it: left, top, side, colour."""
    after = photo(side=600).copy()
    for left, top, side, colour in squares:
        after[top : top + side, left : left + side] = colour
    return after


@pytest.mark.parametrize("side", [60, 45, 30, 20, 12])
def test_an_edit_may_have_parts_of_unequal_size(side: int) -> None:
    made = on_edit(photo(side=600), squared((60, 60, 60, RED), (480, 300, side, RED)), "add red squares")
    assert scores(made) == [7, 7, 7]


@pytest.mark.parametrize("side", [8, 16, 22])
def test_a_spot_weighs_by_its_area(side: int) -> None:
    """Under 0.5 % of the pixels that changed in another way cost a point or two."""
    made = on_edit(photo(side=600), squared((60, 60, 120, RED), (480, 300, side, GREEN)))
    assert made.criteria["unchanged_regions"].score in (5, 6, 7)


def test_another_change_elsewhere_is_no_part_of_the_edit() -> None:
    made = on_edit(photo(side=600), squared((60, 60, 130, BLUE), (480, 300, 45, GREEN)))
    changed = made.criteria["unchanged_regions"]
    assert changed.score is not None
    assert changed.score <= 4
    assert "a patch" in changed.reason
    assert "lower right" in changed.reason


@pytest.mark.parametrize("name", ["coffee", "astronaut", "chelsea"])
@pytest.mark.parametrize(("damage", "by"), [(blurred, 3), (recompressed, 90)], ids=["blur", "JPEG at quality 10"])
def test_what_coarsens_the_whole_image_lowers_all(name: str, damage: Damage, by: float) -> None:
    for before in (photo(name), photo(name, side=600)):
        for after in (before, with_ball(before)):
            assert all(score is not None and score <= 5 for score in scores(on_edit(before, damage(after, by))))


def test_coding_that_changed_most_of_the_image_is_told() -> None:
    """Fine print all over, so that JPEG at quality 5 changes nearly everything."""
    random = np.random.default_rng(1)
    fine = cv2.GaussianBlur(random.integers(0, 256, (400, 600, 3), np.uint8), (0, 0), 1.2)
    before = np.clip(photo(side=600) * 0.5 + (fine.astype(float) - 128) * 1.2 + 64, 0, 255).astype(np.uint8)
    made = on_edit(before, recompressed(before, 95))
    assert all(score is not None and score <= 5 for score in scores(made)), [
        one.reason for one in made.criteria.values()
    ]
    assert "changed by coding" in made.criteria["global_consistency"].reason
    reasons_fit(made)


@pytest.mark.parametrize(
    ("damage", "by", "factor", "named"),
    [
        (blurred, 3, "global_consistency", "weakest is blur"),
        (recompressed, 88, "global_consistency", "weakest is coding blocks"),
        (tinted, 20, "global_consistency", "weakest is a shift of all colours by"),
        (cropped, 0.1, "global_consistency", "weakest is the frame"),
        (warped, 4, "identity_preservation", "weakest is"),
    ],
)
def test_a_reason_names_what_the_score_comes_from(damage: Damage, by: float, factor: str, named: str) -> None:
    made = on_edit(photo(), damage(with_ball(photo()), by))
    assert named in made.criteria[factor].reason
    values = {name: one["value"] for name, one in made.measurements.items()}  # type: ignore[index]
    assert made.criteria[factor].score == factor_points(factor, values)
    reasons_fit(made)


def test_nothing_is_known_by_no_details() -> None:
    black = np.zeros((300, 400, 3), np.uint8)
    made = on_edit(black, black)
    assert scores(made) == [7, 7, None]
    assert "0 distinct details" in made.criteria["identity_preservation"].reason
    reasons_fit(made)


def test_all_that_a_factor_depends_on_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs" / "judges.md").read_text("utf-8")
    names = {name for factor in load_curves().values() for name in factor}
    assert not {name for name in names if f"`{name}`" not in page}
    made = on_edit(photo(), with_ball(photo()))
    assert names <= set(made.measurements)


SHAPES = st.sampled_from([(1, 1), (1, 40), (20, 20), (48, 64), (64, 48), (90, 30)])
FILLS = st.sampled_from(["black", "white", "grey", "noise", "ramp", "photo", "alpha"])

Fill = tuple[tuple[int, int], str, int]


def filled(shape: tuple[int, int], fill: str, seed: int) -> bytes:
    height, width = shape
    random = np.random.default_rng(seed)
    if fill == "alpha":
        return cv2.imencode(".png", random.integers(0, 256, (height, width, 4), np.uint8))[1].tobytes()
    if fill == "noise":
        return png(random.integers(0, 256, (height, width, 3), np.uint8))
    if fill == "ramp":
        return png(np.tile(np.linspace(0, 255, width).astype(np.uint8)[None, :, None], (height, 1, 3)))
    if fill == "photo":
        return png(resized(photo("astronaut"), (width, height)))
    level = {"black": 0, "white": 255, "grey": 127}[fill]
    return png(np.full((height, width), level, np.uint8))


@settings(max_examples=60)
@given(one=st.tuples(SHAPES, FILLS, st.integers(0, 3)), other=st.tuples(SHAPES, FILLS, st.integers(0, 3)))
def test_any_two_images_end_in_a_verdict(one: Fill, other: Fill) -> None:
    made = on_edit(filled(*one), filled(*other), "make it better")
    assert made.outcome is (Outcome.UNMEASURED if None in scores(made) else Outcome.SCORED)
    reasons_fit(made)
    json.dumps(made.to_dict(), allow_nan=False)
    small = min(*one[0], *other[0]) < 16
    assert not small or scores(made) == [None, None, None]


def test_an_image_that_cannot_be_decoded_is_unreadable() -> None:
    broken = bytearray(png(photo()))
    broken[len(broken) // 2 : len(broken) // 2 + 200] = b"\0" * 200
    made = on_edit(photo(), bytes(broken))
    assert made.outcome is Outcome.UNREADABLE
    assert made.detail.startswith("edited")


def test_the_curves_are_a_stated_proxy() -> None:
    """Readable JSON with a pedigree; every curve goes over its measurement without a gap and ends on the scale."""
    stored = json.loads((files("beholder.instruments") / "weights" / "preservation.json").read_text("utf-8"))
    assert "proxy" in stored["pedigree"]
    assert tuple(load_curves()) == FACTORS
    for curve in (curve for factor in load_curves().values() for curve in factor.values()):
        assert [at for at, _ in curve] == sorted({at for at, _ in curve})
        assert all(1 <= height <= 7 for _, height in curve)


@given(values=st.dictionaries(st.sampled_from(sorted({name for one in load_curves().values() for name in one})),
                              st.none() | st.floats(-1000, 1000)))  # fmt: skip
def test_any_measurements_have_points_on_the_scale(values: dict[str, float | None]) -> None:
    for factor in FACTORS:
        reached = factor_points(factor, values)
        assert reached is None or 1 <= reached <= 7


async def test_beside_a_persons_own_edit_everything_is_left_open(tmp_path: Path) -> None:
    for name, level in (("target", 90), ("edited", 120)):
        cv2.imwrite(str(tmp_path / f"{name}.png"), np.full((64, 64, 3), level, np.uint8))
    case = Case(
        "c",
        images={"target": tmp_path / "target.png", "edited": tmp_path / "edited.png"},
        fields={"instruction": "make it lighter"},
    )
    verdict = await judge_async("edit-preservation", case)
    assert (verdict.setting, verdict.score, verdict.coverage and verdict.coverage.measured) == ("offline", None, 0)
