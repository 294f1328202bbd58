"""The judge `instruments` on restyles: what pixels can tell is answered with numbers and place, the rest left open."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from support.offline import (
    Image,
    answers,
    blurred,
    evidence,
    on_restyle,
    photo,
    posterised,
    recompressed,
    resized,
    sepia,
    stylised,
)

from beholder import Case, Rubric, judge
from beholder.judges.offline.judge import find_objection
from beholder.rubrics.load import load_styles
from beholder.verdicts.verdict import Coverage, Outcome

PHOTOS = ("coffee", "astronaut", "chelsea")


def half_done(name: str) -> np.ndarray:
    """Restyled but for its left third."""
    after = stylised(photo(name))
    third = after.shape[1] // 3
    after[:, :third] = photo(name)[:, :third]
    return after


@pytest.mark.parametrize("name", PHOTOS)
def test_a_restyle_is_known_as_one(name: str) -> None:
    made = on_restyle(photo(name), stylised(photo(name)))
    said = answers(made)
    assert {id_: said[id_] for id_ in ("A5", "C1", "C2", "U2")} == dict.fromkeys(("A5", "C1", "C2", "U2"), "yes")
    assert "no" not in said.values()
    assert (made.score, made.grade) == (None, None)
    assert made.total_range is not None
    assert made.total_range[1] == 25
    assert made.criteria["exceptional"].score_range == (1, 5)


def test_how_much_was_measured_is_said() -> None:
    made = on_restyle(photo(), stylised(photo()))
    assert made.coverage == Coverage(6, 23, "assertions")
    assert made.assessment == "6 of 23 assertions measured, the others left open."
    [flag] = [flag for flag in made.flags if flag.flag == "abstained"]
    assert flag.why == "17 of 23 assertions were left open"
    assert made.measurements["restyle.untouched"]["value"] == 0  # type: ignore[index]
    assert evidence(made, "A1") == "Left open: no measurement of the pixels answers this."
    assert evidence(made, "U3").startswith("Left open: nothing measured speaks against it. ")


@pytest.mark.parametrize("name", PHOTOS)
def test_a_part_that_the_style_missed_is_found_in_its_place(name: str) -> None:
    made = on_restyle(photo(name), half_done(name))
    assert answers(made)["C1"] == answers(made)["C2"] == "no"
    assert "left" in evidence(made, "C1")
    assert "%" in evidence(made, "C1")
    assert made.criteria["completeness"].score_range is not None
    assert made.criteria["completeness"].score_range[1] == 3


@pytest.mark.parametrize("name", PHOTOS)
@pytest.mark.parametrize("filtered", [lambda one: one, sepia], ids=["the photo itself", "sepia"])
def test_a_filter_is_no_restyle(name: str, filtered: object) -> None:
    said = answers(on_restyle(photo(name), filtered(photo(name)), "Anime"))  # type: ignore[operator]
    assert {id_ for id_, answer in said.items() if answer == "no"} == {"C1", "C5", "R1", "R3"}
    assert said["A5"] == "yes"


@pytest.mark.parametrize("name", PHOTOS)
def test_flat_paint_is_not_taken_for_untouched_photo(name: str) -> None:
    said = answers(on_restyle(photo(name), posterised(photo(name)), "Pop Art"))
    assert said["C5"] != "no"
    assert said["C1"] != "no"


def test_another_picture_has_lost_the_composition() -> None:
    height, width = photo().shape[:2]
    other = resized(stylised(photo("astronaut")), (width, height))
    said = answers(on_restyle(photo(), other))
    assert said["A5"] == "no"
    assert said["C5"] == "no"  # so much that nothing is left of the motif


def test_a_soft_and_a_blocky_picture_are_not_sharp() -> None:
    soft = blurred(stylised(photo()), 4)
    assert answers(on_restyle(photo(), soft))["U2"] == "no"
    blocky = on_restyle(photo(), recompressed(stylised(photo()), 92))
    assert {answers(blocky)[id_] for id_ in ("U1", "U2", "U3")} == {"no"}
    assert "grid" in evidence(blocky, "U2")


def test_a_half_that_is_still_the_photo_is_said_so() -> None:
    grey = cv2.cvtColor(photo("chelsea"), cv2.COLOR_RGB2GRAY)
    drawn, _ = cv2.pencilSketch(photo("chelsea"), sigma_s=60, sigma_r=0.07, shade_factor=0.05)
    after = np.repeat(np.asarray(drawn, np.uint8)[..., None], 3, axis=2)
    half = grey.shape[1] // 2
    after[:, half:] = photo("chelsea")[:, half:]
    made = on_restyle(photo("chelsea"), after, "Pencil Portrait")
    assert answers(made)["C1"] == "no"
    assert evidence(made, "C1").startswith("Still photograph: ")
    assert "in the right half" in evidence(made, "C1")


@pytest.mark.parametrize("style", ["Watercolour", "Oil Painting (Renaissance)", "Pop Art", "Anime"])
def test_a_picture_of_too_few_pixels_is_caught_for_that(style: str) -> None:
    painted = stylised(photo("astronaut", side=600))
    made = on_restyle(photo("astronaut", side=600), resized(painted, (160, 160)), style)
    against = [evidence(made, id_) for id_, answer in answers(made).items() if answer == "no"]
    assert any("only 160×160 pixels" in one for one in against)
    assert not any("Still photograph" in one for one in against)  # shrinking took the marks of the style away


def nothing(kind: str) -> Image:
    height, width = photo(side=192).shape[:2]
    if kind == "noise":
        return np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)
    if kind == "one pixel":
        return np.full((1, 1, 3), (255, 0, 0), np.uint8)
    return np.full((height, width, 3), 0 if kind == "black" else 255, np.uint8)


@pytest.mark.parametrize("kind", ["black", "white", "noise", "one pixel"])
@pytest.mark.parametrize("style", [*sorted(load_styles()), "Watercolour"])
def test_no_picture_at_all_gets_no_yes(style: str, kind: str) -> None:
    made = on_restyle(photo(side=192), nothing(kind), style)
    assert [id_ for id_, answer in answers(made).items() if answer == "yes"] == []


@pytest.mark.parametrize("shape", [(1, 1), (24, 24), (384, 60)])
def test_an_image_that_cannot_be_compared_leaves_the_comparison_open(shape: tuple[int, int]) -> None:
    after = resized(photo("chelsea"), (shape[1], shape[0]))
    made = on_restyle(photo(), after)
    assert made.outcome is Outcome.UNMEASURED
    assert {answers(made)[id_] for id_ in ("A4", "C1", "C2")} == {"abstained"}
    json.dumps(made.to_dict(), allow_nan=False)


@pytest.mark.parametrize("style", sorted(load_styles()))
def test_every_style_is_answered(style: str) -> None:
    made = on_restyle(photo(side=192), stylised(photo(side=192)), style)
    assert made.outcome is Outcome.UNMEASURED
    assert made.coverage is not None
    assert made.coverage.of == 23
    assert "generic_style" not in {flag.flag for flag in made.flags}
    for result in made.criteria.values():
        assert all(one.evidence for one in result.assertions)


def test_what_may_not_apply_is_never_answered(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(OWN.replace("measured: composition_kept", "measured: composition_kept, applies: people"), "utf-8")
    images = {"photo": photo_bytes(), "drawing": photo_bytes()}
    made = judge(Rubric.load(path), Case("c", images))
    assert answers(made)["likeness_1"] == "abstained"
    assert "people" in evidence(made, "likeness_1")


def photo_bytes() -> bytes:
    return cv2.imencode(".png", photo()[..., ::-1])[1].tobytes()


OWN = """
rubric: mine
images: [{role: photo, label: Photo}, {role: drawing, label: Drawing}]
criteria:
- key: likeness
  assertions:
  - {text: "Is the arrangement kept?", measured: composition_kept}
  - {text: "Is it sharp?", measured: sharp and clean}
- key: charm
  weight: 3
  assertions:
  - Is it charming?
  - {text: "Is it drawn?", measured: no unless redrawn}
scoring: {kind: weighted_total, ceiling: [5, 3, 1]}
"""


def test_a_rubric_of_ones_own_is_answered_by_its_tags(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(OWN, "utf-8")
    rubric = Rubric.load(path)
    assert find_objection(rubric) == ""
    images = {"photo": photo_bytes(), "drawing": cv2.imencode(".png", sepia(photo())[..., ::-1])[1].tobytes()}
    made = judge(rubric, Case("c", images))
    assert answers(made) == {
        "likeness_1": "yes", "likeness_2": "yes", "charm_1": "abstained", "charm_2": "no",
    }  # fmt: skip
    assert made.criteria["likeness"].score == 5
    assert made.criteria["charm"].score_range == (1, 3)
    assert made.total_range == (5 + 3, 5 + 9)
