"""Where the edit is, to judge by the change itself and by what resembles it.

What became of an image outside of its edit.

`edit-preservation` from what differs outside of the edit: three factors, 1–7, or left open.

No mask belongs to a case, so the edit is inferred from the change itself. Where that fills most of the image nothing
tells what was to stay, and everything is left open, unless it is plainly the coding that changed. How measurements
become points stands, with its pedigree, in `weights/preservation.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import cv2
import numpy as np

from beholder.cases.case import FieldValue
from beholder.instruments import geometry, locality, quality
from beholder.instruments.human_ratings import predict_pair_ratings
from beholder.instruments.instrument import Array, Bools, Bytes, Floats, format_factor, format_percent
from beholder.instruments.pair import ImagePair, shrink_to_side
from beholder.instruments.pixel_metrics import compute_ssim
from beholder.instruments.regions import MAX_INFERRED_SHARE, NOTICEABLE_DELTA_E, add_mostly, name_place
from beholder.judges.offline.judge import AnswerDocument, MeasurementEntry, abstain_from_all
from beholder.judges.offline.restyle import load_pair
from beholder.rubrics.brief import Brief
from beholder.verdicts.observe import ABSTAIN

_REGION_SIDE = 256
_DILATION = 0.02  # of the longer side
_MAX_PARTS = 6  # more further changes than these are no parts of one edit but are strewn over the image
_MAX_RING_DIFFERENCE = (
    0.4  # of its own difference, what surrounds a part differs by at most: a cast or a blur has no such bounds
)
_MAX_SHIFT_DISTANCE = 0.4  # of the edit's shift in CIELAB, how far that of a part may lie from it
_MAX_COLOR_DISTANCE = 12.0  # in CIELAB, between what the edit and a part have become


def find_edit_region(pair: ImagePair) -> Bools:
    """`pair.region`, and the smaller changes that resemble it.

    `pair.region` leaves out what has less than a quarter of the main change; but one thing that was recoloured may show
    in two unequal parts, and two things may have been asked for. A further change is part of the edit where it lies by
    itself and has shifted in CIELAB as the edit has, or has become the same colour; together they are no larger than
    the edit.
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
    disc = _disc(_DILATION * max(main.shape))
    sizes = np.bincount(np.asarray(labels).ravel(), minlength=count)[1:]
    largest = [int(one) + 1 for one in np.argsort(-sizes, kind="stable")[:_MAX_PARTS]]
    parts = [np.asarray(labels) == label for label in largest]
    alike = [
        part
        for part in parts
        if _is_isolated(part, difference, main, disc) and _resembles_edit(part, core, before, after)
    ]
    if not alike or sum(int(one.sum()) for one in alike) > core.sum():
        return region
    grown = np.asarray(cv2.dilate(np.any(alike, axis=0).astype(np.uint8), disc), np.uint8)
    return region | np.asarray(cv2.resize(grown, region.shape[::-1], interpolation=cv2.INTER_NEAREST), np.bool_)


def _is_isolated(part: Bools, difference: Floats, main: Bools, disc: Array) -> bool:
    near = np.asarray(cv2.dilate(part.astype(np.uint8), disc), np.uint8)
    ring = (np.asarray(cv2.dilate(near, disc), np.bool_)) & ~near.astype(np.bool_) & ~main
    return not ring.any() or float(difference[ring].mean()) <= _MAX_RING_DIFFERENCE * float(difference[part].mean())


def _resembles_edit(part: Bools, core: Bools, before: Floats, after: Floats) -> bool:
    shift, other = ((after[where] - before[where]).mean(axis=0) for where in (core, part))
    if float(np.linalg.norm(other - shift)) <= _MAX_SHIFT_DISTANCE * float(np.linalg.norm(shift)):
        return True
    return float(np.linalg.norm(after[part].mean(axis=0) - after[core].mean(axis=0))) <= _MAX_COLOR_DISTANCE


def _disc(radius: float) -> Array:
    size = 2 * max(1, round(radius)) + 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size)))


_SHAPES_SIDE = 96  # what is left of an image at this size are its large shapes
_PATCHES_SIDE = 48
_PATCH_FRACTION = 50  # the most changed one in so many
_BLANK_DEVIATION = 2.0  # deviation of L*, under which an image is blank
_SHARPNESS_BLOCKS = 32  # of fine detail along the longer side
_MIN_TEXTURE = 1e-4  # mean square of fine detail, of a range of 1, up to which it is noise
_KEYPOINTS_SIDE, _MAX_KEYPOINTS, _MIN_KEYPOINTS = 512, 300, 20
_MAX_DIFFERENT_BITS = 64  # of the 256 bits that describe a detail, how many may differ where it is the same


@dataclass(frozen=True, slots=True)
class OutsideMeasurements:
    """Measured where the edit is not.

    `structure` and `shapes` are SSIM without luminance, 0–1, at the size given and at 96 px: detail, and layout.
    `differing` is the share of the pixels with a difference above ΔE 10, `differing_place` where they are, `mean` the
    mean ΔE. `patch` is how far the most changed fiftieth moved on average in CIELAB at 48 px, where noise is averaged
    away, so that a spot weighs by its area; `patch_place` is where it is. `sharpness` is how strong fine detail is as a
    multiple of what it was, in the median textured block; `None` where there is no texture. `drift` is the length of
    the mean shift in CIELAB; `contrast` the ratio of the deviations of L*. `details` is the share of ORB keypoints
    whose description is the same, `None` where there are fewer than 20; `count` how many there are, and `lost` where
    most of those were that are gone. `bare` is whether there is neither a detail nor light and dark.
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

    def to_entries(self) -> dict[str, MeasurementEntry]:
        """As measurements."""
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
            name: MeasurementEntry(value=value, unit=unit, sentence=f"Outside the edit: {says[0].lower()}{says[1:]}")
            for name, (value, unit, says) in sentences.items()
        }


def measure_outside(pair: ImagePair, where: Bools) -> OutsideMeasurements:
    """`where` is what lies outside of the edit, at least one pixel, in the frame of the image before."""
    one, other = (image[where] for image in pair.lab)
    deviations = [float(colors[:, 0].std()) for colors in (one, other)]
    small = [shrink_to_side(gray, _SHAPES_SIDE) for gray in pair.luma]
    there = shrink_to_side(where.astype(np.float32), _SHAPES_SIDE) > 0.9
    structure = float(np.clip(pair.similarity[1][where], 0, 1).mean())
    shapes = float(np.clip(compute_ssim(*small)[1][there], 0, 1).mean()) if there.any() else structure
    details, count, lost = _keypoints_kept(pair, where)
    patch, patch_place = _most_changed_patch(pair, where)
    differing = (pair.difference > NOTICEABLE_DELTA_E) & where
    return OutsideMeasurements(
        differing=float(differing.sum() / where.sum()),
        differing_place=name_place(differing) if differing.any() else "nowhere",
        mean=float(pair.difference[where].mean()),
        structure=structure,
        shapes=shapes,
        patch=patch,
        patch_place=patch_place,
        sharpness=_sharpness_ratio(pair, where),
        drift=float(np.linalg.norm((other - one).mean(axis=0))),
        contrast=(deviations[1] + 0.5) / (deviations[0] + 0.5),
        details=details,
        count=count,
        lost=lost,
        bare=not count and deviations[0] < _BLANK_DEVIATION,
    )


def _most_changed_patch(pair: ImagePair, where: Bools) -> tuple[float, str]:
    one, other = (shrink_to_side(image, _PATCHES_SIDE) for image in pair.lab)
    there = shrink_to_side(where.astype(np.float32), _PATCHES_SIDE) > 0.99
    moved = np.linalg.norm(other - one, axis=2) * there
    most = np.sort(moved[there])[-max(1, int(there.sum()) // _PATCH_FRACTION) :]
    strength = float(most.mean()) if len(most) else 0.0
    return strength, name_place(moved >= max(float(most.max()) / 2, 1e-6)) if strength else "nowhere"


def _sharpness_ratio(pair: ImagePair, where: Bools) -> float | None:
    """By the detail that is finer than a blur of 2 px; grain finer than one of 0.7 px does not count."""
    smooth = [cv2.GaussianBlur(gray, (0, 0), 0.7) for gray in pair.luma]
    fine = [np.square(gray - cv2.GaussianBlur(gray, (0, 0), 2.0)) for gray in smooth]
    before, after = (shrink_to_side(np.asarray(one, np.float32), _SHARPNESS_BLOCKS) for one in fine)
    textured = (shrink_to_side(where.astype(np.float32), _SHARPNESS_BLOCKS) > 0.9) & (before > _MIN_TEXTURE)
    return float(np.median(np.sqrt(after[textured] / before[textured]))) if textured.any() else None


def _keypoints_kept(pair: ImagePair, where: Bools) -> tuple[float | None, int, str]:
    """Both images are described at the same places and with the same direction, so no match has to be looked for."""
    one, other = (_gray(image) for image in (pair.before, pair.aligned))
    mask = cv2.resize(where.astype(np.uint8), one.shape[::-1], interpolation=cv2.INTER_NEAREST)
    finder = cv2.ORB.create(nfeatures=_MAX_KEYPOINTS, fastThreshold=12)
    found, words = finder.compute(one, finder.detect(one, np.asarray(mask, np.uint8)))
    still, others = finder.compute(other, found)
    if words is None or others is None or len(found) != len(still) or len(found) < _MIN_KEYPOINTS:
        return None, len(found), ""
    same = np.unpackbits(np.bitwise_xor(words, others), axis=1).sum(axis=1) <= _MAX_DIFFERENT_BITS
    gone = np.zeros(one.shape, np.float32)
    for x, y in np.array([point.pt for point in found])[~same].astype(int):
        gone[y, x] = 1
    return float(same.mean()), len(found), name_place(gone) if not same.all() else ""


def _gray(rgb: Bytes) -> Bytes:
    return np.asarray(shrink_to_side(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), _KEYPOINTS_SIDE), np.uint8)


ScoreCurve = list[tuple[float, float]]

MIN_SIDE = 16  # pixels a side; below there is no structure to be kept

_TOP_SCORE_FROM = 6.5  # points, from which on a factor has a 7
_MIN_BLOCKINESS, _MIN_SHAPES_KEPT, _MAX_COLOR_DRIFT = (
    1.5,
    0.8,
    8.0,
)  # blockiness against the input; shapes kept; ΔE of all colours

_CENTER_MARGIN = 0.25  # of each side; what is in the middle half of a photo is its subject, as far as pixels can tell
_MIN_SUBJECT_COVERAGE = 0.15  # of the middle, from which on an edit is one of the subject

_COLOR_WORDS = (
    "red|orange|yellow|green|blue|purple|violet|pink|brown|black|white|gr[ae]y|gold|golden|silver|beige|turquoise"
)
_RECOLORS = re.compile(rf"\b(re)?colou?r(s|ed|ing)?\b|\b(make|paint|dye|turn|change)\b.* ({_COLOR_WORDS})\W*$", re.I)
_SURROUNDINGS = re.compile(r"\b(background|backdrop|sky|weather|season|scenery|surroundings)\b", re.I)
_ADDS = re.compile(r"\b(add|put|place|insert|include|draw|give|wear\w*|there should be)\b", re.I)
_REPLACES = re.compile(r"\b(replac|remov|delet|eras|swap|instead|in place of|into)\w*", re.I)


@dataclass(frozen=True, slots=True)
class EditEvidence:
    """The edit, what was measured outside of it, and `where` that is, for a sentence."""

    region: Bools
    where: str
    found: OutsideMeasurements


def answer_preservation(brief: Brief) -> AnswerDocument:
    """The three factors. Raises `ImageError`."""
    pair = load_pair(brief)
    predicted = _predicted_ratings(pair)
    shown = _find_evidence(pair)
    if isinstance(shown, str):
        return {**abstain_from_all(brief.criteria, shown), "measurements": _pair_measurements(pair) | predicted}
    measurements = _pair_measurements(pair) | _edit_share(shown) | shown.found.to_entries()
    values = {name: one["value"] for name, one in measurements.items()}
    instruction = _join_text(brief.fields.get("instruction", ""))
    asked_for_much = {"outside.edit": None} if _SURROUNDINGS.search(instruction) else {}
    document = {
        "unchanged_regions": _factor_answer("unchanged_regions", shown, values | asked_for_much),
        "global_consistency": _factor_answer("global_consistency", shown, values),
        "identity_preservation": _identity_answer(pair, shown, values, instruction),
    }
    return {"criteria": document, "measurements": measurements | predicted}


def factor_points(factor: str, values: Mapping[str, float | None]) -> int | None:
    """What a factor scores: the lowest of its curves at the values that there are, as a whole number."""
    reached = _curve_heights(factor, values)
    return int(min(reached.values()) + 0.5) if reached else None


def _curve_heights(factor: str, values: Mapping[str, float | None]) -> dict[str, float]:
    """How high each curve of a factor is at the value of its measurement."""
    return {
        name: float(np.interp(value, [at for at, _ in curve], [height for _, height in curve]))
        for name, curve in load_curves()[factor].items()
        if (value := values.get(name)) is not None
    }


@cache
def load_curves() -> Mapping[str, Mapping[str, ScoreCurve]]:
    stored = (files("beholder.instruments") / "weights" / "preservation.json").read_text("utf-8")
    factors: Mapping[str, Mapping[str, ScoreCurve]] = json.loads(stored)["factors"]
    return factors


def _find_evidence(pair: ImagePair) -> EditEvidence | str:
    """The edit and what was measured outside of it; or why nothing can be said of this pair, in 15 to 30 words."""
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
    """Whether a change of most of the image is one of its coding: a grid that the input has not, over forms and light
    that stayed."""
    blocks = _pair_measurements(pair)["quality.blockiness_change"]["value"]
    if blocks is None or blocks < _MIN_BLOCKINESS:
        return False
    found = measure_outside(pair, pair.valid)
    return found.shapes >= _MIN_SHAPES_KEPT and found.drift <= _MAX_COLOR_DRIFT


def _pair_measurements(pair: ImagePair) -> dict[str, MeasurementEntry]:
    """What instruments say of the pair; `locality.region` is the main change alone."""
    wanted = ("locality.region", "geometry.kept", "geometry.turn", "quality.blockiness_change")
    instruments = (one for family in (locality, geometry, quality) for one in family.INSTRUMENTS if one.name in wanted)
    read = (one.measure(pair) for one in instruments)
    return {one.name: MeasurementEntry(value=one.value, unit=one.unit, sentence=one.sentence) for one in read}


def _edit_share(shown: EditEvidence) -> dict[str, MeasurementEntry]:
    share = float(shown.region.mean())
    says = f"The inferred edit takes up {format_percent(share)} of the image."
    return {"outside.edit": MeasurementEntry(value=share, unit="share", sentence=says)}


def _predicted_ratings(pair: ImagePair) -> dict[str, MeasurementEntry]:
    """What people would make of the edit as a whole, by the map that was fitted on their ratings. It is told beside the
    factors and is no part of them: it was fitted on edits by models, and does not tell the factors apart."""
    return {
        name: MeasurementEntry(value=one.value, unit=one.unit, sentence=one.sentence)
        for name, one in predict_pair_ratings(pair).items()
    }


def _factor_answer(factor: str, shown: EditEvidence, values: Mapping[str, float | None]) -> AnswerDocument:
    """The score, and a sentence that names what it comes from: the lowest of the curves."""
    heights = _curve_heights(factor, values)
    if not heights:
        return {"justification": f"{shown.where} nothing could be measured.", "score": ABSTAIN}
    lowest = min(heights, key=lambda name: heights[name])
    beside = _describe_context(factor, shown.found, lowest)
    if heights[lowest] < _TOP_SCORE_FROM:
        says = f"{shown.where} weakest is {_describe_weakest(lowest, shown.found, values[lowest] or 0.0)}; {beside}."
    else:
        says = f"{shown.where} nothing measured is amiss: {beside}, structure kept {shown.found.structure:.2f}."
    return {"justification": says, "score": int(heights[lowest] + 0.5)}


def _describe_weakest(name: str, found: OutsideMeasurements, value: float) -> str:
    """What a low curve stands for, after "weakest is"."""
    return {
        "outside.edit": f"the size of the edit, {format_percent(value)} of the image",
        "outside.differing": f"the pixels that differ, {add_mostly(found.differing_place)}",
        "outside.mean": f"mean difference, ΔE {value:.1f}, {add_mostly(found.differing_place)}",
        "outside.patch": f"a patch, ΔE {value:.1f}, {add_mostly(found.patch_place)}",
        "outside.structure": f"fine structure, kept {value:.2f}",
        "outside.shapes": f"large shapes, kept {value:.2f}",
        "outside.sharpness": f"blur, fine detail {format_factor(value)} as strong",
        "quality.blockiness_change": f"coding blocks, {format_factor(value)} those of the input",
        "outside.drift": f"a shift of all colours by ΔE {value:.1f}",
        "outside.contrast": f"the contrast, {format_factor(value)} what it was",
        "outside.details": f"distinct details, {format_percent(value)} of {found.count} kept, "
        f"lost {add_mostly(found.lost)}",
        "geometry.kept": f"the frame, of which {format_percent(value)} stays",
        "geometry.turn": f"a turn by {abs(value):.1f}°",
    }[name]


def _describe_context(factor: str, found: OutsideMeasurements, lowest: str) -> str:
    """What else a reader of this factor wants to know."""
    if factor == "unchanged_regions":
        where = f", {add_mostly(found.differing_place)}" if found.differing and lowest == "outside.structure" else ""
        return f"{format_percent(found.differing)} of pixels exceed ΔE 10{where}"
    if factor == "global_consistency" and lowest in ("outside.drift", "outside.contrast"):
        return f"large shapes agree to {found.shapes:.2f}"
    if factor == "global_consistency":
        return f"colours shift by ΔE {found.drift:.1f}, contrast is {format_factor(found.contrast)}"
    if lowest == "outside.details":
        return f"structure kept {found.structure:.2f}"
    if found.details is None:
        return f"only {found.count} distinct details are there to know things by"
    return f"{format_percent(found.details)} of {found.count} details are as they were"


def _identity_answer(
    pair: ImagePair, shown: EditEvidence, values: Mapping[str, float | None], instruction: str
) -> AnswerDocument:
    """Left open where the subject itself was to change: whether what came is still itself, pixels do not know. A change
    of colour keeps the shape of things, which is then measured everywhere."""
    on_subject = _subject_coverage(shown.region)
    if on_subject >= _MIN_SUBJECT_COVERAGE and subject_changes(instruction):
        says = (
            f"Left open: the edit covers {format_percent(on_subject)} of the middle, where the subject is, which was "
            "to change; no pixel tells whether it is still itself."
        )
        return {"justification": says, "score": ABSTAIN}
    if _RECOLORS.search(instruction) and shown.region.any():
        found = measure_outside(pair, pair.valid)
        values = {**values, "outside.structure": found.structure, "outside.details": found.details}
        shown = EditEvidence(shown.region, "Everywhere, the recoloured part included,", found)
    if shown.found.bare:
        says = (
            f"Left open: {shown.where[0].lower()}{shown.where[1:]} there is no light and dark, and 0 distinct "
            "details to know anything by."
        )
        return {"justification": says, "score": ABSTAIN}
    return _factor_answer("identity_preservation", shown, values)


def subject_changes(instruction: str) -> bool:
    """Whether an instruction asks for another subject or for a change of it, to judge by its words: True also where
    they are not understood. Adding something, a new colour or another background leaves the subject what it is."""
    if _RECOLORS.search(instruction) or _SURROUNDINGS.search(instruction):
        return False
    return not _ADDS.search(instruction) or bool(_REPLACES.search(instruction))


def _subject_coverage(region: Bools) -> float:
    """The share of the middle of the image that the edit covers."""
    height, width = region.shape
    top, left = round(height * _CENTER_MARGIN), round(width * _CENTER_MARGIN)
    return float(region[top : height - top, left : width - left].mean())


def _join_text(value: FieldValue) -> str:
    return value if isinstance(value, str) else " ".join(value)
