"""`edit-preservation` from measurements: three factors (1–7) from what differs outside the edit, or abstention.

A case has no mask, so the region of the edit is inferred from the change itself (`find_edit_region`); then the rest of
the image is measured (`measure_outside`), and curves turn the values into points (`weights/preservation.json`, with how
they were fitted). Where the change fills most of the image, nothing tells what was to stay: the answer abstains, unless
only the coding changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import cv2
import numpy as np

from beholder.cases.case import FieldValue
from beholder.instruments import geometry, locality, quality
from beholder.instruments.human_ratings import predict_pair_ratings
from beholder.instruments.instrument import Array, Bools, Bytes, Floats, format_factor, format_percent
from beholder.instruments.pair import ImagePair, shrink_to_side
from beholder.instruments.pixel_metrics import compute_ssim
from beholder.instruments.regions import (
    MAX_INFERRED_SHARE,
    MIN_SHOWN_SHARE,
    NOTICEABLE_DELTA_E,
    NOWHERE,
    Box,
    LocatedWeight,
    add_mostly,
    locate,
    make_disc,
    name_place,
)
from beholder.judges.offline.judge import (
    AnswerDocument,
    MeasurementEntry,
    abstain_from_all,
    list_places,
    to_entry,
)
from beholder.judges.offline.restyle import load_pair
from beholder.rubrics.brief import Brief
from beholder.verdicts.observe import ABSTAIN

_REGION_SIDE = 256
_DILATION = 0.02  # of the longer side
_MAX_PARTS = 6  # more further changes than these are scattered over the image, not parts of one edit
# Most difference around a part, as a share of its own difference: a color cast or a blur has no such edge.
_MAX_RING_DIFFERENCE = 0.4
_MAX_SHIFT_DISTANCE = 0.4  # between the color shifts of the edit and of a part, as a share of the edit's
_MAX_COLOR_DISTANCE = 12.0  # in CIELAB, between the colors after the edit


def find_edit_region(pair: ImagePair) -> Bools:
    """Return `pair.region` together with smaller changes that resemble it.

    `pair.region` excludes changes of less than a quarter of the main one; but one thing that was recolored may show in
    two unequal parts, and two things may have been asked for. A further change is part of the edit where it is isolated
    and has shifted in CIELAB as the edit has, or has become the same color; all of them are no larger than the edit.
    """
    region = pair.region
    if not region.any() or region.mean() > MAX_INFERRED_SHARE or pair.mask is not None:
        return region
    before, after = (shrink_to_side(image, _REGION_SIDE) for image in pair.lab)
    difference = shrink_to_side(pair.difference, _REGION_SIDE)
    main = shrink_to_side(region.astype(np.float32), _REGION_SIDE) > 0.5
    changed = np.asarray(cv2.blur(difference, (3, 3)) > NOTICEABLE_DELTA_E)
    core = main & changed
    if not core.any():
        return region
    count, labels = cv2.connectedComponents(np.asarray(changed & ~main, np.uint8), connectivity=8)
    disc = make_disc(_DILATION * max(main.shape))
    sizes = np.bincount(np.asarray(labels).ravel(), minlength=count)[1:]
    largest = [int(index) + 1 for index in np.argsort(-sizes, kind="stable")[:_MAX_PARTS]]
    parts = [np.asarray(labels) == label for label in largest]
    alike = [
        part
        for part in parts
        if _is_isolated(part, difference, main, disc) and _resembles_edit(part, core, before, after)
    ]
    if not alike or sum(int(part.sum()) for part in alike) > core.sum():
        return region
    grown = np.asarray(cv2.dilate(np.any(alike, axis=0).astype(np.uint8), disc), np.uint8)
    return region | np.asarray(cv2.resize(grown, region.shape[::-1], interpolation=cv2.INTER_NEAREST), np.bool_)


def _is_isolated(part: Bools, difference: Floats, main: Bools, disc: Array) -> bool:
    """Return whether the surroundings of a part differ much less than the part does."""
    near = np.asarray(cv2.dilate(part.astype(np.uint8), disc), np.uint8)
    ring = (np.asarray(cv2.dilate(near, disc), np.bool_)) & ~near.astype(np.bool_) & ~main
    return not ring.any() or float(difference[ring].mean()) <= _MAX_RING_DIFFERENCE * float(difference[part].mean())


def _resembles_edit(part: Bools, core: Bools, before: Floats, after: Floats) -> bool:
    shift, other = ((after[where] - before[where]).mean(axis=0) for where in (core, part))
    if float(np.linalg.norm(other - shift)) <= _MAX_SHIFT_DISTANCE * float(np.linalg.norm(shift)):
        return True
    return float(np.linalg.norm(after[part].mean(axis=0) - after[core].mean(axis=0))) <= _MAX_COLOR_DISTANCE


_SHAPES_SIDE = 96  # pixels; at this size only the large shapes of an image are left
_PATCHES_SIDE = 48
_PATCH_FRACTION = 50  # one in so many: the most changed fiftieth
_MIN_SHOWN_PATCH = 5.0  # ΔE: a patch that moved by less is not pointed at
_BLANK_DEVIATION = 2.0  # standard deviation of L* below which an image is blank
_SHARPNESS_BLOCKS = 32  # along the longer side
_MIN_TEXTURE = 1e-4  # mean square of fine detail (of a range of 1) up to which it is noise
_KEYPOINTS_SIDE, _MAX_KEYPOINTS, _MIN_KEYPOINTS = 512, 300, 20
_MAX_DIFFERENT_BITS = 64  # of the 256 bits of two descriptors of the same detail


@dataclass(frozen=True, slots=True)
class OutsideMeasurements:
    """Measurements of the image outside of the edit.

    Attributes:
        differing: share of the pixels that differ by more than ΔE 10.
        differing_place: where they are.
        mean: mean ΔE.
        structure: SSIM without luminance, 0–1, at the given size: fine detail.
        shapes: the same at 96 px: layout.
        patch: how far the most changed fiftieth moved on average in CIELAB at 48 px, where noise is averaged out and a
            spot counts by its area.
        patch_place: where it is.
        boxes: around what differs (`outside.differing`), the patch (`outside.patch`) and the keypoints that are gone
            (`outside.details`), by the name of the measurement.
        sharpness: strength of fine detail as a multiple of what it was, in the median textured block; `None` where
            there is no texture.
        drift: length of the mean shift in CIELAB.
        contrast: ratio of the standard deviations of L*.
        details: share of ORB keypoints with the same descriptor; `None` where there are fewer than 20.
        count: number of keypoints.
        lost: where most of the keypoints were that are gone.
        bare: there are neither keypoints nor light and dark.
    """

    differing: float
    differing_place: str
    mean: float
    structure: float
    shapes: float
    patch: float
    patch_place: str
    sharpness: float | None
    drift: float
    contrast: float
    details: float | None
    count: int
    lost: str
    bare: bool
    boxes: Mapping[str, tuple[Box, ...]] = field(default_factory=dict)

    def to_entries(self) -> dict[str, MeasurementEntry]:
        """Return the measurements by name, as they are in an answer."""
        details = f"{format_percent(self.details)} of" if self.details is not None else "Too few to be counted, only"
        sharp = (
            "There is no texture to tell sharpness by."
            if self.sharpness is None
            else f"Fine detail is {format_factor(self.sharpness)} as strong as it was."
        )
        sentences = {
            "outside.differing": (
                self.differing,
                "share",
                f"{format_percent(self.differing)} of the pixels differ by more than ΔE {NOTICEABLE_DELTA_E:.0f}.",
            ),
            "outside.mean": (self.mean, "ΔE", f"The pixels differ by ΔE {self.mean:.1f} on average."),
            "outside.sharpness": (self.sharpness, "×", sharp),
            "outside.structure": (self.structure, "", f"Fine structure is kept by {self.structure:.2f}."),
            "outside.shapes": (self.shapes, "", f"Large shapes are kept by {self.shapes:.2f}."),
            "outside.patch": (
                self.patch,
                "ΔE",
                f"The most changed fiftieth moved by ΔE {self.patch:.1f}, {self.patch_place}.",
            ),
            "outside.drift": (self.drift, "ΔE", f"All colours together moved by {self.drift:.1f}."),
            "outside.contrast": (self.contrast, "×", f"The contrast is {format_factor(self.contrast)} what it was."),
            "outside.details": (self.details, "share", f"{details} {self.count} distinct details are as they were."),
        }
        return {
            name: MeasurementEntry(
                value=value, unit=unit, sentence=f"Outside the edit: {sentence[0].lower()}{sentence[1:]}"
            )
            for name, (value, unit, sentence) in sentences.items()
        }


def measure_outside(pair: ImagePair, where: Bools) -> OutsideMeasurements:
    """Measure the part of a pair outside of the edit.

    Args:
        pair: the images before and after.
        where: mask of that part in the frame of the image before; at least one pixel.
    """
    before, after = (image[where] for image in pair.lab)
    deviations = [float(colors[:, 0].std()) for colors in (before, after)]
    small = [shrink_to_side(gray, _SHAPES_SIDE) for gray in pair.luma]
    there = shrink_to_side(where.astype(np.float32), _SHAPES_SIDE) > 0.9
    structure = float(np.clip(pair.similarity[1][where], 0, 1).mean())
    shapes = float(np.clip(compute_ssim(*small)[1][there], 0, 1).mean()) if there.any() else structure
    details, count, lost = _keypoints_kept(pair, where)
    patch, patch_place = _most_changed_patch(pair, where)
    differing = (pair.difference > NOTICEABLE_DELTA_E) & where
    differing_place, share = locate(differing), float(differing.sum() / where.sum())
    differing_boxes = differing_place.boxes if share >= MIN_SHOWN_SHARE else ()
    return OutsideMeasurements(
        differing=share,
        differing_place=differing_place.name,
        mean=float(pair.difference[where].mean()),
        structure=structure,
        shapes=shapes,
        patch=patch,
        patch_place=patch_place.name,
        sharpness=_sharpness_ratio(pair, where),
        drift=float(np.linalg.norm((after - before).mean(axis=0))),
        contrast=(deviations[1] + 0.5) / (deviations[0] + 0.5),
        details=details,
        count=count,
        lost=lost.name,
        bare=not count and deviations[0] < _BLANK_DEVIATION,
        boxes={
            "outside.differing": differing_boxes,
            "outside.mean": differing_boxes,
            "outside.patch": patch_place.boxes if patch >= _MIN_SHOWN_PATCH else (),
            "outside.details": lost.boxes,
        },
    )


def _most_changed_patch(pair: ImagePair, where: Bools) -> tuple[float, LocatedWeight]:
    before, after = (shrink_to_side(image, _PATCHES_SIDE) for image in pair.lab)
    there = shrink_to_side(where.astype(np.float32), _PATCHES_SIDE) > 0.99
    moved = np.linalg.norm(after - before, axis=2) * there
    most = np.sort(moved[there])[-max(1, int(there.sum()) // _PATCH_FRACTION) :]
    strength = float(most.mean()) if len(most) else 0.0
    return strength, locate(moved >= max(float(most.max()) / 2, 1e-6)) if strength else LocatedWeight(NOWHERE)


def _sharpness_ratio(pair: ImagePair, where: Bools) -> float | None:
    """Compare detail that is finer than a blur of 2 px; grain that is finer than one of 0.7 px does not count."""
    smooth = [cv2.GaussianBlur(gray, (0, 0), 0.7) for gray in pair.luma]
    fine = [np.square(gray - cv2.GaussianBlur(gray, (0, 0), 2.0)) for gray in smooth]
    before, after = (shrink_to_side(np.asarray(detail, np.float32), _SHARPNESS_BLOCKS) for detail in fine)
    textured = (shrink_to_side(where.astype(np.float32), _SHARPNESS_BLOCKS) > 0.9) & (before > _MIN_TEXTURE)
    return float(np.median(np.sqrt(after[textured] / before[textured]))) if textured.any() else None


def _keypoints_kept(pair: ImagePair, where: Bools) -> tuple[float | None, int, LocatedWeight]:
    """Return the share of kept keypoints (`None` for too few), their number, and where most of the lost ones were.

    Descriptors are computed at the same places and angles in both images, so that no matching is needed.
    """
    before, after = (_gray(image) for image in (pair.before, pair.aligned))
    mask = cv2.resize(where.astype(np.uint8), before.shape[::-1], interpolation=cv2.INTER_NEAREST)
    orb = cv2.ORB.create(nfeatures=_MAX_KEYPOINTS, fastThreshold=12)
    points, descriptors = orb.compute(before, orb.detect(before, np.asarray(mask, np.uint8)))
    still, others = orb.compute(after, points)
    if descriptors is None or others is None or len(points) != len(still) or len(points) < _MIN_KEYPOINTS:
        return None, len(points), LocatedWeight("")
    same = np.unpackbits(np.bitwise_xor(descriptors, others), axis=1).sum(axis=1) <= _MAX_DIFFERENT_BITS
    gone = np.zeros(before.shape, np.float32)
    for x, y in np.array([point.pt for point in points])[~same].astype(int):
        gone[y, x] = 1
    return float(same.mean()), len(points), locate(gone) if not same.all() else LocatedWeight("")


def _gray(rgb: Bytes) -> Bytes:
    return np.asarray(shrink_to_side(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), _KEYPOINTS_SIDE), np.uint8)


ScoreCurve = list[tuple[float, float]]

MIN_SIDE = 16  # pixels a side; a smaller image has no structure to be kept

_TOP_SCORE_FROM = 6.5  # points that are rounded to a 7
# Of a change of coding only: blockiness as a multiple of the input's, shapes that are kept, ΔE of all colors together.
_MIN_BLOCKINESS, _MIN_SHAPES_KEPT, _MAX_COLOR_DRIFT = 1.5, 0.8, 8.0

_CENTER_MARGIN = 0.25  # of each side; the middle half of a photo is taken for its subject
_MIN_SUBJECT_COVERAGE = 0.15  # share of the middle from which on an edit is one of the subject

_COLOR_WORDS = (
    "red|orange|yellow|green|blue|purple|violet|pink|brown|black|white|gr[ae]y|gold|golden|silver|beige|turquoise"
)
_RECOLORS = re.compile(rf"\b(re)?colou?r(s|ed|ing)?\b|\b(make|paint|dye|turn|change)\b.* ({_COLOR_WORDS})\W*$", re.I)
_SURROUNDINGS = re.compile(r"\b(background|backdrop|sky|weather|season|scenery|surroundings)\b", re.I)
_ADDS = re.compile(r"\b(add|put|place|insert|include|draw|give|wear\w*|there should be)\b", re.I)
_REPLACES = re.compile(r"\b(replac|remov|delet|eras|swap|instead|in place of|into)\w*", re.I)


@dataclass(frozen=True, slots=True)
class EditEvidence:
    """The region of the edit, what was measured outside of it, and where that is, as the beginning of a sentence."""

    region: Bools
    where: str
    outside: OutsideMeasurements

    @property
    def boxes(self) -> dict[str, tuple[Box, ...]]:
        """Where something lies that was measured, by the name of the measurement."""
        return {"outside.edit": locate(self.region).boxes, **self.outside.boxes}


class FactorAnswer(NamedTuple):
    """The answer to a factor, and where that is which it speaks of."""

    document: AnswerDocument
    boxes: tuple[Box, ...] = ()


def answer_preservation(brief: Brief) -> AnswerDocument:
    """Answer `edit-preservation`; raise `ImageError` for an image that cannot be read."""
    pair = load_pair(brief)
    # What people would say of the edit as a whole, by a map that was fitted on ratings of edits by models. It is given
    # beside the factors and has no part in them: it does not tell them apart.
    predicted = {name: to_entry(rating) for name, rating in predict_pair_ratings(pair).items()}
    evidence = _find_evidence(pair)
    if isinstance(evidence, str):
        return {**abstain_from_all(brief.criteria, evidence), "measurements": _pair_measurements(pair) | predicted}
    share = float(evidence.region.mean())
    sentence = f"The inferred edit takes up {format_percent(share)} of the image."
    edit_share = {"outside.edit": MeasurementEntry(value=share, unit="share", sentence=sentence)}
    measurements = _pair_measurements(pair) | edit_share | evidence.outside.to_entries()
    values = {name: entry["value"] for name, entry in measurements.items()}
    instruction = _join_text(brief.fields.get("instruction", ""))
    # A new background is a large edit that was asked for.
    asked_for_much = {"outside.edit": None} if _SURROUNDINGS.search(instruction) else {}
    answers = {
        "unchanged_regions": _factor_answer("unchanged_regions", evidence, values | asked_for_much),
        "global_consistency": _factor_answer("global_consistency", evidence, values),
        "identity_preservation": _identity_answer(pair, evidence, values, instruction),
    }
    boxes = {**evidence.boxes, **{factor: answer.boxes for factor, answer in answers.items()}}
    return {
        "criteria": {factor: answer.document for factor, answer in answers.items()},
        "measurements": measurements | predicted,
        "places": list_places(pair, boxes, [block.role for block in brief.images]),
    }


def factor_points(factor: str, values: Mapping[str, float | None]) -> int | None:
    """Return the score of a factor, 1–7: the lowest of its curves at the known values; `None` without any."""
    heights = _curve_heights(factor, values)
    return int(min(heights.values()) + 0.5) if heights else None


def _curve_heights(factor: str, values: Mapping[str, float | None]) -> dict[str, float]:
    """Return the points of each curve of a factor at the value of its measurement."""
    return {
        name: float(np.interp(value, [at for at, _ in curve], [height for _, height in curve]))
        for name, curve in load_curves()[factor].items()
        if (value := values.get(name)) is not None
    }


@cache
def load_curves() -> Mapping[str, Mapping[str, ScoreCurve]]:
    """Load the curves from values to points, by factor and by measurement."""
    stored = (files("beholder.instruments") / "weights" / "preservation.json").read_text("utf-8")
    factors: Mapping[str, Mapping[str, ScoreCurve]] = json.loads(stored)["factors"]
    return factors


def _find_evidence(pair: ImagePair) -> EditEvidence | str:
    """Return the edit and what was measured outside of it; or why that is impossible, in 15 to 30 words."""
    height, width = min((pair.before.shape[:2], pair.after.shape[:2]), key=min)
    if min(height, width) < MIN_SIDE:
        return (
            f"Left open: the image is only {width}×{height} pixels, and below {MIN_SIDE} a side there is no structure "
            "of which anything could be kept or lost."
        )
    if pair.incomparable_reason:
        (w1, h1), (w2, h2) = pair.sizes
        return (
            f"Left open: {w1}×{h1} and {w2}×{h2} have different shapes and share too little to be laid over each "
            "other, so no place can be compared."
        )
    region = find_edit_region(pair)
    share = float(region.mean())
    if share > MAX_INFERRED_SHARE and _only_coded(pair):
        where = f"In the whole image, {format_percent(share)} changed by coding,"
        return EditEvidence(np.zeros_like(region), where, measure_outside(pair, pair.valid))
    if share > MAX_INFERRED_SHARE:
        return (
            f"Left open: the change fills {format_percent(share)} of the image, {name_place(region)}, so that nothing "
            "tells what was intended and what was to stay."
        )
    if not (~region & pair.valid).any():
        return (
            "Left open: where the images overlap, the edit leaves nothing outside of itself, so that nothing tells "
            "what was to stay."
        )
    where = f"Outside the inferred edit ({name_place(region)}, {format_percent(share)})"
    if not region.any():
        where = "In the whole image, of which no part visibly changed,"
    return EditEvidence(region, where, measure_outside(pair, ~region & pair.valid))


def _only_coded(pair: ImagePair) -> bool:
    """Return whether most of the image changed by its coding only: new block edges over the same shapes and colors."""
    blocks = _pair_measurements(pair)["quality.blockiness_change"]["value"]
    if blocks is None or blocks < _MIN_BLOCKINESS:
        return False
    whole = measure_outside(pair, pair.valid)
    return whole.shapes >= _MIN_SHAPES_KEPT and whole.drift <= _MAX_COLOR_DRIFT


def _pair_measurements(pair: ImagePair) -> dict[str, MeasurementEntry]:
    """Return the measurements of the pair by instruments; `locality.region` is the main change alone."""
    names = ("locality.region", "geometry.kept", "geometry.turn", "quality.blockiness_change")
    instruments = (*locality.INSTRUMENTS, *geometry.INSTRUMENTS, *quality.INSTRUMENTS)
    return {one.name: to_entry(one.measure(pair)) for one in instruments if one.name in names}


def _factor_answer(factor: str, evidence: EditEvidence, values: Mapping[str, float | None]) -> FactorAnswer:
    """Return the score, a sentence that names the measurement that it comes from (the lowest of the curves), and where
    that is."""
    heights = _curve_heights(factor, values)
    if not heights:
        return FactorAnswer({"justification": f"{evidence.where} nothing could be measured.", "score": ABSTAIN})
    lowest = min(heights, key=lambda name: heights[name])
    context = _describe_context(factor, evidence.outside, lowest)
    boxes: tuple[Box, ...] = ()
    if heights[lowest] < _TOP_SCORE_FROM:
        boxes = evidence.boxes.get(lowest, ())
        weakest = _describe_weakest(lowest, evidence.outside, values[lowest] or 0.0)
        justification = f"{evidence.where} weakest is {weakest}; {context}."
    else:
        justification = (
            f"{evidence.where} nothing measured is amiss: {context}, structure kept {evidence.outside.structure:.2f}."
        )
    return FactorAnswer({"justification": justification, "score": int(heights[lowest] + 0.5)}, boxes)


def _describe_weakest(name: str, outside: OutsideMeasurements, value: float) -> str:
    """Describe a measurement with few points, after "weakest is"."""
    return {
        "outside.edit": f"the size of the edit, {format_percent(value)} of the image",
        "outside.differing": f"the pixels that differ, {add_mostly(outside.differing_place)}",
        "outside.mean": f"mean difference, ΔE {value:.1f}, {add_mostly(outside.differing_place)}",
        "outside.patch": f"a patch, ΔE {value:.1f}, {add_mostly(outside.patch_place)}",
        "outside.structure": f"fine structure, kept {value:.2f}",
        "outside.shapes": f"large shapes, kept {value:.2f}",
        "outside.sharpness": f"blur, fine detail {format_factor(value)} as strong",
        "quality.blockiness_change": f"coding blocks, {format_factor(value)} those of the input",
        "outside.drift": f"a shift of all colours by ΔE {value:.1f}",
        "outside.contrast": f"the contrast, {format_factor(value)} what it was",
        "outside.details": f"distinct details, {format_percent(value)} of {outside.count} kept, "
        f"lost {add_mostly(outside.lost)}",
        "geometry.kept": f"the frame, of which {format_percent(value)} stays",
        "geometry.turn": f"a turn by {abs(value):.1f}°",
    }[name]


def _describe_context(factor: str, outside: OutsideMeasurements, lowest: str) -> str:
    """Describe what else a reader of this factor wants to know."""
    if factor == "unchanged_regions":
        where = (
            f", {add_mostly(outside.differing_place)}" if outside.differing and lowest == "outside.structure" else ""
        )
        return f"{format_percent(outside.differing)} of pixels exceed ΔE 10{where}"
    if factor == "global_consistency" and lowest in ("outside.drift", "outside.contrast"):
        return f"large shapes agree to {outside.shapes:.2f}"
    if factor == "global_consistency":
        return f"colours shift by ΔE {outside.drift:.1f}, contrast is {format_factor(outside.contrast)}"
    if lowest == "outside.details":
        return f"structure kept {outside.structure:.2f}"
    if outside.details is None:
        return f"only {outside.count} distinct details are there to know things by"
    return f"{format_percent(outside.details)} of {outside.count} details are as they were"


def _identity_answer(
    pair: ImagePair, evidence: EditEvidence, values: Mapping[str, float | None], instruction: str
) -> FactorAnswer:
    """Return the factor of identity, or an abstention where the subject itself was to change.

    Pixels do not tell whether a changed subject is still itself. A change of color keeps the shape of things, which is
    then measured everywhere.
    """
    on_subject = _subject_coverage(evidence.region)
    if on_subject >= _MIN_SUBJECT_COVERAGE and subject_changes(instruction):
        justification = (
            f"Left open: the edit covers {format_percent(on_subject)} of the middle, where the subject is, which was "
            "to change; no pixel tells whether it is still itself."
        )
        return FactorAnswer({"justification": justification, "score": ABSTAIN})
    if _RECOLORS.search(instruction) and evidence.region.any():
        outside = measure_outside(pair, pair.valid)
        values = {**values, "outside.structure": outside.structure, "outside.details": outside.details}
        evidence = EditEvidence(evidence.region, "Everywhere, the recoloured part included,", outside)
    if evidence.outside.bare:
        justification = (
            f"Left open: {evidence.where[0].lower()}{evidence.where[1:]} there is no light and dark, and 0 distinct "
            "details to know anything by."
        )
        return FactorAnswer({"justification": justification, "score": ABSTAIN})
    return _factor_answer("identity_preservation", evidence, values)


def subject_changes(instruction: str) -> bool:
    """Return whether an instruction asks for another subject or a change of it, by its words; `True` where unclear.

    Adding something, a new color or another background does not change the subject.
    """
    if _RECOLORS.search(instruction) or _SURROUNDINGS.search(instruction):
        return False
    return not _ADDS.search(instruction) or bool(_REPLACES.search(instruction))


def _subject_coverage(region: Bools) -> float:
    """Return the share of the middle of the image that the edit covers."""
    height, width = region.shape
    top, left = round(height * _CENTER_MARGIN), round(width * _CENTER_MARGIN)
    return float(region[top : height - top, left : width - left].mean())


def _join_text(value: FieldValue) -> str:
    return value if isinstance(value, str) else " ".join(value)
