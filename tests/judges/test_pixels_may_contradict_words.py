"""The audit: what a model says against what can be measured is flagged, and nothing else is."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beholder import Rubric, Verdict
from beholder.images.prepare import prepare_image, prepared_header
from beholder.instruments import pair
from beholder.instruments.instrument import Floats
from beholder.instruments.pair import ImagePair
from beholder.instruments.pixel_metrics import compute_ssim
from beholder.instruments.registry import measure_pair
from beholder.judges.audit import (
    DISAGREE,
    NOT_AUDITED,
    PAIR_MEASUREMENTS,
    RULES,
    AuditEvidence,
    AuditReading,
    ImageToExamine,
    apply_audit,
    examine_images,
    measure_evidence,
    plan_audit,
)
from beholder.rubrics.brief import Composer
from beholder.verdicts.score import VerdictHeader, score_answer

RUBRICS = [Rubric.load(name) for name in ("edit-preservation", "edit-quality")]
Pixels = npt.NDArray[np.uint8]
WORDS = "the wall behind the car shows the same mortar lines and the same shading as it did before"


@pytest.fixture
def photo() -> Pixels:
    """Texture everywhere, in several colours."""
    noise = np.random.default_rng(7).integers(0, 256, (48, 64, 3), dtype=np.uint8)
    return np.asarray(cv2.GaussianBlur(cv2.resize(noise, (640, 480), interpolation=cv2.INTER_CUBIC), (0, 0), 2))


def png(pixels: Pixels) -> bytes:
    return bytes(cv2.imencode(".png", pixels[:, :, ::-1])[1])


def factors(rubric: Rubric, score: int) -> dict[str, Any]:
    return {"criteria": {one.key: {"justification": WORDS, "score": score} for one in rubric.criteria}}


def flags(name: str, before: Pixels, after: Pixels, score: int = 7) -> dict[str, str]:
    """Where words and pixels disagree, and why, when a model gives all criteria the same score."""
    rubric = Rubric.load(name)
    order = plan_audit(rubric)
    assert order is not None
    verdict = score_answer(VerdictHeader("case", rubric, "model"), factors(rubric, score))
    assert verdict.scored
    return disagreements(apply_audit(verdict, measure_evidence(order, png(before), png(after))))


def disagreements(verdict: Verdict) -> dict[str, str]:
    return {flag.at: flag.why for flag in verdict.flags if flag.flag == DISAGREE}


def cast(photo: Pixels) -> Pixels:
    """One thing edited, and everything else tinted by the way."""
    tinted = np.asarray(np.clip(photo + np.array([30, 0, -30]), 0, 255), np.uint8)
    tinted[100:200, 100:240] = (20, 40, 250)
    return tinted


def test_unchanged_regions_that_changed_are_flagged_with_numbers(photo: Pixels) -> None:
    found = flags("edit-preservation", photo, cast(photo))
    assert "7 of 7, but" in found["unchanged_regions.score"]
    assert "%" in found["unchanged_regions.score"]
    assert "global_consistency.score" in found


def test_the_place_of_a_contradiction_is_told(photo: Pixels) -> None:
    """Half of the picture was blurred: there the detail is gone, and the flag about it says so."""
    blurred = photo.copy()
    blurred[:, 320:] = cv2.GaussianBlur(photo, (0, 0), 6)[:, 320:]
    rubric = Rubric.load("edit-preservation")
    order = plan_audit(rubric)
    assert order is not None
    plain = score_answer(VerdictHeader("case", rubric, "model"), factors(rubric, 7))
    made = apply_audit(plain, measure_evidence(order, png(photo), png(blurred)))
    assert made.places is not None
    found = {place.at: place for place in made.places if place.role == ""}
    assert {"naturalness.detail_lost", "unchanged_regions.score"} <= set(found)
    assert {place.at for place in made.places} <= {*made.measurements, *(flag.at for flag in made.flags)}
    for left, _, right, _ in found["naturalness.detail_lost"].boxes:
        assert left >= 0.4
        assert right <= 1
    assert Verdict.from_dict(made.to_dict()).places == made.places
    assert apply_audit(plain, measure_evidence(order, png(photo), png(photo))).places is None


def test_another_picture_contradicts_every_word_of_keeping(photo: Pixels) -> None:
    other = np.random.default_rng(8).integers(0, 256, (30, 50, 3), dtype=np.uint8)
    stranger = np.asarray(cv2.resize(other, (500, 300), interpolation=cv2.INTER_CUBIC), np.uint8)
    found = flags("edit-preservation", photo, stranger)
    assert {"unchanged_regions.score", "identity_preservation.score"} <= set(found)


def test_a_blur_over_everything_is_flagged(photo: Pixels) -> None:
    found = flags("edit-preservation", photo, np.asarray(cv2.GaussianBlur(photo, (0, 0), 5)))
    assert "unchanged_regions.score" in found


def test_identical_images_kept_everything(photo: Pixels) -> None:
    assert set(flags("edit-preservation", photo, photo, score=1)) == {
        "unchanged_regions.score",
        "global_consistency.score",
        "identity_preservation.score",
    }
    assert flags("edit-preservation", photo, photo, score=7) == {}


def test_a_model_that_saw_it_too_is_not_flagged(photo: Pixels) -> None:
    assert flags("edit-preservation", photo, cast(photo), score=3) == {}


def test_an_edit_that_stays_where_it_belongs_is_not_flagged(photo: Pixels) -> None:
    edited = photo.copy()
    edited[100:200, 100:240] = photo[100:200, 100:240, ::-1]
    assert flags("edit-preservation", photo, edited) == {}


def test_a_shift_of_two_pixels_is_not_flagged(photo: Pixels) -> None:
    assert flags("edit-preservation", photo[:, 2:], photo[:, :-2]) == {}


@pytest.mark.parametrize(("score", "at"), [(7, {"alignment.score", "completeness.score"}), (1, set())])
def test_identical_images_are_no_edit(photo: Pixels, score: int, at: set[str]) -> None:
    found = flags("edit-fidelity", photo, photo, score)
    assert set(found) == at
    assert all("identical" in why for why in found.values())


def test_coding_marks_contradict_image_quality(photo: Pixels) -> None:
    small = np.ascontiguousarray(photo[:256, :320])
    coded = cv2.imdecode(cv2.imencode(".jpg", small[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 4])[1], cv2.IMREAD_COLOR)
    found = flags("edit-quality", small, np.asarray(coded, np.uint8)[:, :, ::-1])
    assert "image_quality.score" in found
    assert flags("edit-quality", small, small) == {}


def restyle_verdict(answer: str) -> tuple[Verdict, Rubric]:
    rubric = Composer(Rubric.load("restyle")).rubric_for_style("Anime")
    blocks = {
        one.key: {
            "assertions": {each.id: {"answer": answer, "evidence": "seen"} for each in one.assertions},
            "reason": "so it is",
            "score": 5 if answer == "Yes" else 1,
        }
        for one in rubric.criteria
    }
    return score_answer(VerdictHeader("case", rubric, "model"), {"criteria": blocks, "assessment": "done"}), rubric


def test_an_untouched_photo_is_no_restyle(photo: Pixels) -> None:
    verdict, rubric = restyle_verdict("Yes")
    order = plan_audit(rubric)
    assert order is not None
    found = disagreements(apply_audit(verdict, measure_evidence(order, png(photo), png(photo))))
    assert "relevance.score" in found
    assert any(at[1:].isdigit() for at in found), found  # an assertion that the style is there


def test_assertions_that_were_answered_as_measured_are_not_flagged(photo: Pixels) -> None:
    verdict, rubric = restyle_verdict("No")
    order = plan_audit(rubric)
    assert order is not None
    evidence = measure_evidence(order, png(photo), png(photo))
    no = {id_ for id_, (holds, _) in evidence.answers.items() if not holds}
    assert no
    assert no.isdisjoint(disagreements(apply_audit(verdict, evidence)))


def test_a_verdict_carries_what_was_measured_and_keeps_its_scores(photo: Pixels) -> None:
    rubric = Rubric.load("edit-preservation")
    order = plan_audit(rubric)
    assert order is not None
    verdict = score_answer(VerdictHeader("case", rubric, "model"), factors(rubric, 7))
    after = apply_audit(verdict, measure_evidence(order, png(photo), png(cast(photo))))
    assert (after.score, after.criteria) == (verdict.score, verdict.criteria)
    leakage = after.measurements["locality.leakage"]
    assert isinstance(leakage, dict)
    assert leakage["value"] > 0.5
    assert leakage["sentence"]
    assert Verdict.from_dict(after.to_dict()).measurements == after.measurements


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n broken", b"GIF89a"])
def test_a_picture_that_cannot_be_read_is_said_and_harms_nothing(photo: Pixels, data: bytes) -> None:
    rubric = Rubric.load("edit-preservation")
    order = plan_audit(rubric)
    assert order is not None
    verdict = score_answer(VerdictHeader("case", rubric, "model"), factors(rubric, 7))
    after = apply_audit(verdict, measure_evidence(order, png(photo), data))
    assert after.score == verdict.score
    assert [flag.flag for flag in after.flags if flag not in verdict.flags] == [NOT_AUDITED]


def test_a_large_picture_is_looked_at_for_coding_marks_too(photo: Pixels) -> None:
    large = np.asarray(cv2.resize(photo, (1200, 900), interpolation=cv2.INTER_CUBIC), np.uint8)
    coded = cv2.imdecode(cv2.imencode(".jpg", large[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 2])[1], cv2.IMREAD_COLOR)
    found = flags("edit-quality", large, np.asarray(coded, np.uint8)[:, :, ::-1])
    assert "grid" in found["image_quality.score"]


PLACES_AND_COLORS = ("locality.changed", "locality.leakage", "colour.difference_median")


def test_color_differences_at_half_the_size_say_the_same_of_an_edit(photo: Pixels) -> None:
    plan = plan_audit(Rubric.load("edit-preservation"))
    assert plan is not None
    after = cast(photo)
    small = measure_evidence(plan, png(photo), png(after)).readings
    shrunk = [np.asarray(cv2.resize(one, (400, 300), interpolation=cv2.INTER_AREA)) for one in (photo, after)]
    whole = measure_pair(ImagePair(*shrunk), PLACES_AND_COLORS)
    for name in PLACES_AND_COLORS:
        assert small[name].value == pytest.approx(whole[name].value, rel=0.15, abs=0.01)
        assert small[name].value != whole[name].value  # it was measured at another size


@pytest.mark.parametrize("style", ["Anime", "Crochet Art"])
def test_assertions_of_restyles_are_decided_on_maps_of_full_size(
    photo: Pixels, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = []

    def record(one: Floats, other: Floats) -> tuple[Floats, Floats]:
        shapes.append(one.shape)
        return compute_ssim(one, other)

    monkeypatch.setattr(pair, "compute_ssim", record)
    plan = plan_audit(Composer(Rubric.load("restyle")).rubric_for_style(style))
    assert plan is not None
    assert plan.assertions
    measure_evidence(plan, png(photo), png(cast(photo)))
    assert shapes == [(300, 400)]


@pytest.mark.parametrize("gray", [False, True])
def test_an_image_whose_header_is_known_is_measured_alike(photo: Pixels, gray: bool) -> None:
    plan = plan_audit(Rubric.load("edit-preservation"))
    pixels = [cv2.cvtColor(one, cv2.COLOR_RGB2GRAY if gray else cv2.COLOR_RGB2BGR) for one in (photo, cast(photo))]
    images = [prepare_image(cv2.imencode(".jpg", one)[1].tobytes()) for one in pixels]
    headers = [prepared_header(image) for image in images]
    assert all(header and (header.width, header.height) == (640, 480) for header in headers)
    told = [ImageToExamine(image.data, header) for image, header in zip(images, headers, strict=True)]
    assert examine_images(plan, told) == examine_images(plan, [ImageToExamine(image.data) for image in images])


@pytest.mark.parametrize("name", ["edit-fidelity", "edit-preservation"])
def test_beside_a_persons_own_edit_nothing_is_contradicted(photo: Pixels, name: str) -> None:
    rubric = Rubric.load(name).with_setting("offline")
    order = plan_audit(rubric)
    assert order is not None
    verdict = score_answer(VerdictHeader("case", rubric, "model"), factors(rubric, 7))
    for after in (photo, cast(photo)):
        told = apply_audit(verdict, measure_evidence(order, png(photo), png(after)))
        assert disagreements(told) == {}
        assert set(PAIR_MEASUREMENTS) <= set(told.measurements)


def test_one_image_is_no_pair() -> None:
    assert plan_audit(Rubric.load("description")) is None


@given(value=st.floats(0, 100), score=st.integers(1, 7), rule=st.sampled_from(RULES))
def test_a_flag_needs_a_high_score_and_a_high_measurement(value: float, score: int, rule: Any) -> None:
    rubric = next(one for one in RUBRICS if rule.criterion in {each.key for each in one.criteria})
    verdict = score_answer(VerdictHeader("case", rubric, "model"), factors(rubric, score))
    evidence = AuditEvidence({rule.measurement: AuditReading(value, "", "Much was found.")}, {})
    found = disagreements(apply_audit(verdict, evidence))
    beyond = value < rule.limit if rule.below else value > rule.limit
    assert (f"{rule.criterion}.score" in found) == (score >= 6 and beyond)


def test_in_a_jury_the_words_of_those_who_look_are_audited(photo: Pixels) -> None:
    rubric = RUBRICS[0]
    order = plan_audit(rubric)
    assert order is not None
    high, low = (score_answer(VerdictHeader("case", rubric, "model"), factors(rubric, score)) for score in (7, 2))
    evidence = measure_evidence(order, png(photo), png(cast(photo)))
    found = disagreements(apply_audit(low, evidence, [("juror 1: ", high), ("juror 2: ", low)]))
    assert found
    assert all(at.startswith("juror 1: ") for at in found)
