"""`edit-preservation` from what differs outside of the edit: three factors, 1–7, or left open.

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

import numpy as np

from beholder.cases import FieldValue
from beholder.instruments import geometry, locality, quality
from beholder.instruments.model import Bools
from beholder.instruments.pair import Pair
from beholder.instruments.people import predictions
from beholder.instruments.places import mostly, place
from beholder.instruments.regions import MOST
from beholder.instruments.wording import percent, times
from beholder.judges.measured.answering import Document, Told, abstention
from beholder.judges.measured.editing import edited
from beholder.judges.measured.outside import Outside, measured_outside
from beholder.judges.measured.restyling import loaded
from beholder.rubrics.brief import Brief
from beholder.verdicts.observing import ABSTAIN

Curve = list[tuple[float, float]]

SMALLEST = 16  # pixels a side; below there is no structure to be kept

_FLAWLESS = 6.5  # points, from which on a factor has a 7
_CODED, _SAME_SHAPES, _SAME_LIGHT = 1.5, 0.8, 8.0  # blockiness against the input; shapes kept; ΔE of all colours

_CENTRE = 0.25  # of each side; what is in the middle half of a photo is its subject, as far as pixels can tell
_ON_SUBJECT = 0.15  # of the middle, from which on an edit is one of the subject

_COLOURS = (
    "red|orange|yellow|green|blue|purple|violet|pink|brown|black|white|gr[ae]y|gold|golden|silver|beige|turquoise"
)
_RECOLOURS = re.compile(rf"\b(re)?colou?r(s|ed|ing)?\b|\b(make|paint|dye|turn|change)\b.* ({_COLOURS})\W*$", re.I)
_SURROUNDINGS = re.compile(r"\b(background|backdrop|sky|weather|season|scenery|surroundings)\b", re.I)
_ADDS = re.compile(r"\b(add|put|place|insert|include|draw|give|wear\w*|there should be)\b", re.I)
_REPLACES = re.compile(r"\b(replac|remov|delet|eras|swap|instead|in place of|into)\w*", re.I)


@dataclass(frozen=True, slots=True)
class Shown:
    """The edit, what was measured outside of it, and `where` that is, for a sentence."""

    region: Bools
    where: str
    found: Outside


def preservation(brief: Brief) -> Document:
    """The three factors. Raises `ImageError`."""
    pair = loaded(brief)
    predicted = _predicted(pair)
    shown = _shown(pair)
    if isinstance(shown, str):
        return {**abstention(brief.criteria, shown), "measurements": _of_pair(pair) | predicted}
    measurements = _of_pair(pair) | _share_told(shown) | shown.found.told()
    values = {name: one["value"] for name, one in measurements.items()}
    instruction = _text(brief.fields.get("instruction", ""))
    asked_for_much = {"outside.edit": None} if _SURROUNDINGS.search(instruction) else {}
    document = {
        "unchanged_regions": _block("unchanged_regions", shown, values | asked_for_much),
        "global_consistency": _block("global_consistency", shown, values),
        "identity_preservation": _identity(pair, shown, values, instruction),
    }
    return {"criteria": document, "measurements": measurements | predicted}


def points(factor: str, values: Mapping[str, float | None]) -> int | None:
    """What a factor scores: the lowest of its curves at the values that there are, as a whole number."""
    reached = _heights(factor, values)
    return int(min(reached.values()) + 0.5) if reached else None


def _heights(factor: str, values: Mapping[str, float | None]) -> dict[str, float]:
    """How high each curve of a factor is at the value of its measurement."""
    return {
        name: float(np.interp(value, [at for at, _ in curve], [height for _, height in curve]))
        for name, curve in curves()[factor].items()
        if (value := values.get(name)) is not None
    }


@cache
def curves() -> Mapping[str, Mapping[str, Curve]]:
    stored = (files("beholder.instruments") / "weights" / "preservation.json").read_text("utf-8")
    factors: Mapping[str, Mapping[str, Curve]] = json.loads(stored)["factors"]
    return factors


def _shown(pair: Pair) -> Shown | str:
    """The edit and what was measured outside of it; or why nothing can be said of this pair, in 15 to 30 words."""
    height, width = min((pair.before.shape[:2], pair.after.shape[:2]), key=min)
    if min(height, width) < SMALLEST:
        return (
            f"Left open: the image is only {width}×{height} pixels, and below {SMALLEST} a side there is no structure "
            "of which anything could be kept or lost."
        )
    if pair.obstacle:
        (w1, h1), (w2, h2) = pair.sizes
        return (
            f"Left open: {w1}×{h1} and {w2}×{h2} have different shapes and share too little to be laid over each "
            "other, so no place can be compared."
        )
    region = edited(pair)
    share = float(region.mean())
    if share > MOST and _only_coded(pair):
        where = f"In the whole image, {percent(share)} changed by coding,"
        return Shown(np.zeros_like(region), where, measured_outside(pair, pair.valid))
    if share > MOST:
        return (
            f"Left open: the change fills {percent(share)} of the image, {place(region)}, so that nothing tells "
            "what was intended and what was to stay."
        )
    if not (~region & pair.valid).any():
        return (
            "Left open: where the images overlap, the edit leaves nothing outside of itself, so that nothing tells "
            "what was to stay."
        )
    where = f"Outside the inferred edit ({place(region)}, {percent(share)})"
    if not region.any():
        where = "In the whole image, of which no part visibly changed,"
    return Shown(region, where, measured_outside(pair, ~region & pair.valid))


def _only_coded(pair: Pair) -> bool:
    """Whether a change of most of the image is one of its coding: a grid that the input has not, over forms and light
    that stayed."""
    blocks = _of_pair(pair)["quality.blockiness_change"]["value"]
    if blocks is None or blocks < _CODED:
        return False
    found = measured_outside(pair, pair.valid)
    return found.shapes >= _SAME_SHAPES and found.drift <= _SAME_LIGHT


def _of_pair(pair: Pair) -> dict[str, Told]:
    """What instruments say of the pair; `locality.region` is the main change alone."""
    wanted = ("locality.region", "geometry.kept", "geometry.turn", "quality.blockiness_change")
    instruments = (one for family in (locality, geometry, quality) for one in family.INSTRUMENTS if one.name in wanted)
    read = (one.measure(pair) for one in instruments)
    return {one.name: Told(value=one.value, unit=one.unit, sentence=one.sentence) for one in read}


def _share_told(shown: Shown) -> dict[str, Told]:
    share = float(shown.region.mean())
    says = f"The inferred edit takes up {percent(share)} of the image."
    return {"outside.edit": Told(value=share, unit="share", sentence=says)}


def _predicted(pair: Pair) -> dict[str, Told]:
    """What people would make of the edit as a whole, by the map that was fitted on their ratings. It is told beside the
    factors and is no part of them: it was fitted on edits by models, and does not tell the factors apart."""
    return {
        name: Told(value=one.value, unit=one.unit, sentence=one.sentence) for name, one in predictions(pair).items()
    }


def _block(factor: str, shown: Shown, values: Mapping[str, float | None]) -> Document:
    """The score, and a sentence that names what it comes from: the lowest of the curves."""
    heights = _heights(factor, values)
    if not heights:
        return {"justification": f"{shown.where} nothing could be measured.", "score": ABSTAIN}
    lowest = min(heights, key=lambda name: heights[name])
    beside = _beside(factor, shown.found, lowest)
    if heights[lowest] < _FLAWLESS:
        says = f"{shown.where} weakest is {_weak(lowest, shown.found, values[lowest] or 0.0)}; {beside}."
    else:
        says = f"{shown.where} nothing measured is amiss: {beside}, structure kept {shown.found.structure:.2f}."
    return {"justification": says, "score": int(heights[lowest] + 0.5)}


def _weak(name: str, found: Outside, value: float) -> str:
    """What a low curve stands for, after "weakest is"."""
    return {
        "outside.edit": f"the size of the edit, {percent(value)} of the image",
        "outside.differing": f"the pixels that differ, {mostly(found.differing_place)}",
        "outside.mean": f"mean difference, ΔE {value:.1f}, {mostly(found.differing_place)}",
        "outside.patch": f"a patch, ΔE {value:.1f}, {mostly(found.patch_place)}",
        "outside.structure": f"fine structure, kept {value:.2f}",
        "outside.shapes": f"large shapes, kept {value:.2f}",
        "outside.sharpness": f"blur, fine detail {times(value)} as strong",
        "quality.blockiness_change": f"coding blocks, {times(value)} those of the input",
        "outside.drift": f"a shift of all colours by ΔE {value:.1f}",
        "outside.contrast": f"the contrast, {times(value)} what it was",
        "outside.details": f"distinct details, {percent(value)} of {found.count} kept, lost {mostly(found.lost)}",
        "geometry.kept": f"the frame, of which {percent(value)} stays",
        "geometry.turn": f"a turn by {abs(value):.1f}°",
    }[name]


def _beside(factor: str, found: Outside, lowest: str) -> str:
    """What else a reader of this factor wants to know."""
    if factor == "unchanged_regions":
        where = f", {mostly(found.differing_place)}" if found.differing and lowest == "outside.structure" else ""
        return f"{percent(found.differing)} of pixels exceed ΔE 10{where}"
    if factor == "global_consistency" and lowest in ("outside.drift", "outside.contrast"):
        return f"large shapes agree to {found.shapes:.2f}"
    if factor == "global_consistency":
        return f"colours shift by ΔE {found.drift:.1f}, contrast is {times(found.contrast)}"
    if lowest == "outside.details":
        return f"structure kept {found.structure:.2f}"
    if found.details is None:
        return f"only {found.count} distinct details are there to know things by"
    return f"{percent(found.details)} of {found.count} details are as they were"


def _identity(pair: Pair, shown: Shown, values: Mapping[str, float | None], instruction: str) -> Document:
    """Left open where the subject itself was to change: whether what came is still itself, pixels do not know. A change
    of colour keeps the shape of things, which is then measured everywhere."""
    on_subject = _on_subject(shown.region)
    if on_subject >= _ON_SUBJECT and subject_changes(instruction):
        says = (
            f"Left open: the edit covers {percent(on_subject)} of the middle, where the subject is, which was to "
            "change; no pixel tells whether it is still itself."
        )
        return {"justification": says, "score": ABSTAIN}
    if _RECOLOURS.search(instruction) and shown.region.any():
        found = measured_outside(pair, pair.valid)
        values = {**values, "outside.structure": found.structure, "outside.details": found.details}
        shown = Shown(shown.region, "Everywhere, the recoloured part included,", found)
    if shown.found.bare:
        says = (
            f"Left open: {shown.where[0].lower()}{shown.where[1:]} there is no light and dark, and 0 distinct "
            "details to know anything by."
        )
        return {"justification": says, "score": ABSTAIN}
    return _block("identity_preservation", shown, values)


def subject_changes(instruction: str) -> bool:
    """Whether an instruction asks for another subject or for a change of it, to judge by its words: True also where
    they are not understood. Adding something, a new colour or another background leaves the subject what it is."""
    if _RECOLOURS.search(instruction) or _SURROUNDINGS.search(instruction):
        return False
    return not _ADDS.search(instruction) or bool(_REPLACES.search(instruction))


def _on_subject(region: Bools) -> float:
    """The share of the middle of the image that the edit covers."""
    height, width = region.shape
    top, left = round(height * _CENTRE), round(width * _CENTRE)
    return float(region[top : height - top, left : width - left].mean())


def _text(value: FieldValue) -> str:
    return value if isinstance(value, str) else " ".join(value)
