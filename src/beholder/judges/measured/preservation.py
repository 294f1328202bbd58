"""`edit-preservation` from what differs outside of the edit: three factors, 1–7, or left open.

No mask belongs to a case, so the edit is inferred from the change itself. Where that fills most of the image nothing
tells what was to stay, and everything is left open. How measurements become points stands, with its pedigree, in
`weights/preservation.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import numpy as np

from beholder.cases import FieldValue
from beholder.instruments import geometry, locality
from beholder.instruments.model import Bools
from beholder.instruments.pair import Pair
from beholder.instruments.people import predictions
from beholder.instruments.places import mostly, place
from beholder.instruments.regions import MOST
from beholder.instruments.wording import percent, times
from beholder.judges.measured.answering import Document, Told, abstention
from beholder.judges.measured.outside import Outside, measured_outside
from beholder.judges.measured.restyling import loaded
from beholder.rubrics.brief import Brief
from beholder.verdicts.observing import ABSTAIN

Curve = list[tuple[float, float]]

SMALLEST = 16  # pixels a side; below there is no structure to be kept

_CENTRE = 0.25  # of each side; what is in the middle half of a photo is its subject, as far as pixels can tell
_ON_SUBJECT = 0.15  # of the middle, from which on an edit is one of the subject

_COLOURS = (
    "red|orange|yellow|green|blue|purple|violet|pink|brown|black|white|gr[ae]y|gold|golden|silver|beige|turquoise"
)
_RECOLOURS = re.compile(rf"\b(re)?colou?r(s|ed|ing)?\b|\b(make|paint|dye|turn|change)\b.* ({_COLOURS})\W*$", re.I)
_SURROUNDINGS = re.compile(r"\b(background|backdrop|sky|weather|season|scenery|surroundings)\b", re.I)
_ADDS = re.compile(r"\b(add|put|place|insert|include|draw|give|wear\w*|there should be)\b", re.I)
_REPLACES = re.compile(r"\b(replac|remov|delet|eras|swap|instead|in place of|into)\w*", re.I)


def preservation(brief: Brief) -> Document:
    """The three factors. Raises `ImageError`."""
    pair = loaded(brief)
    if why := _untold(pair):
        return {**abstention(brief.criteria, why), "measurements": _measurements(pair, None)}
    found = measured_outside(pair, ~pair.region & pair.valid)
    measurements = _measurements(pair, found)
    values = {name: one["value"] for name, one in measurements.items()}
    instruction = _text(brief.fields.get("instruction", ""))
    asked_for_much = {"locality.region": None} if _SURROUNDINGS.search(instruction) else {}
    document = {
        "unchanged_regions": _block("unchanged_regions", values | asked_for_much, _unchanged(pair, found, values)),
        "global_consistency": _block("global_consistency", values, _consistent(pair, found, values)),
        "identity_preservation": _identity(pair, found, values, instruction),
    }
    return {"criteria": document, "measurements": measurements}


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


def _untold(pair: Pair) -> str:
    """Why nothing can be said of this pair, in 15 to 30 words; empty where something can."""
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
    share = _region_share(pair)
    if share > MOST:
        return (
            f"Left open: the change fills {percent(share)} of the image, {place(pair.region)}, so that nothing tells "
            "what was intended and what was to stay."
        )
    if not (~pair.region & pair.valid).any():
        return (
            "Left open: where the images overlap, the edit leaves nothing outside of itself, so that nothing tells "
            "what was to stay."
        )
    return ""


def _region_share(pair: Pair) -> float:
    return float(pair.region.mean())


def _measurements(pair: Pair, found: Outside | None) -> dict[str, Told]:
    """Everything that a factor may depend on, and the size of the edit."""
    wanted = ("locality.region", "locality.leakage", "locality.leakage_mean", "geometry.kept", "geometry.turn")
    instruments = (one for family in (locality, geometry) for one in family.INSTRUMENTS if one.name in wanted)
    read = (one.measure(pair) for one in instruments)
    measured = {one.name: Told(value=one.value, unit=one.unit, sentence=one.sentence) for one in read}
    return measured | (found.told() if found else {}) | _predicted(pair)


def _predicted(pair: Pair) -> dict[str, Told]:
    """What people would make of the edit as a whole, by the map that was fitted on their ratings. It is told beside the
    factors and is no part of them: it was fitted on edits by models, and does not tell the factors apart."""
    return {
        name: Told(value=one.value, unit=one.unit, sentence=one.sentence) for name, one in predictions(pair).items()
    }


def _block(factor: str, values: Mapping[str, float | None], says: str) -> Document:
    score = points(factor, values)
    return {"justification": says, "score": ABSTAIN if score is None else score}


def _edit(pair: Pair) -> str:
    """What is left aside, for a sentence."""
    if not pair.region.any():
        return "In the whole image, of which no part visibly changed,"
    return f"Outside the inferred edit ({place(pair.region)}, {percent(_region_share(pair))})"


def _unchanged(pair: Pair, found: Outside, values: Mapping[str, float | None]) -> str:
    """Ends in what was lost most: structure, or the likeness of a place."""
    leakage = percent(values["locality.leakage"] or 0.0)
    heights = _heights("unchanged_regions", values)
    if min(heights, key=lambda name: heights[name]) in ("outside.structure", "outside.shapes"):
        most = f"structure kept {found.structure:.2f}, in large shapes {found.shapes:.2f}"
    else:
        most = f"strongest patch: ΔE {found.patch:.1f}, {found.patch_place}"
    return f"{_edit(pair)} {leakage} of pixels differ by over ΔE 10; {most}."


def _consistent(pair: Pair, found: Outside, values: Mapping[str, float | None]) -> str:
    kept = values["geometry.kept"]
    frame = "the frame could not be registered" if kept is None else f"{percent(kept)} of the frame stays"
    return (
        f"{_edit(pair)} colours shift by ΔE {found.drift:.1f}, contrast is {times(found.contrast)}, shapes agree to "
        f"{found.shapes:.2f}, {frame}."
    )


def _identity(pair: Pair, found: Outside, values: Mapping[str, float | None], instruction: str) -> Document:
    """Left open where the subject itself was to change: whether what came is still itself, pixels do not know. A change
    of colour keeps the shape of things, which is then measured everywhere."""
    on_subject = _on_subject(pair.region)
    if on_subject >= _ON_SUBJECT and subject_changes(instruction):
        says = (
            f"Left open: the edit covers {percent(on_subject)} of the middle, where the subject is, which was to "
            "change; no pixel tells whether it is still itself."
        )
        return {"justification": says, "score": ABSTAIN}
    where = _edit(pair)
    if _RECOLOURS.search(instruction) and pair.region.any():
        found = measured_outside(pair, pair.valid)
        values = {**values, "outside.structure": found.structure, "outside.details": found.details}
        where = "Everywhere, the recoloured part included,"
    if found.details is None:
        says = (
            f"{where} there are only {found.count} distinct details to know things by; fine structure is kept by "
            f"{found.structure:.2f} of 1."
        )
    else:
        gone = f", lost ones {mostly(found.lost)}" if found.lost else ""
        says = (
            f"{where} {percent(found.details)} of {found.count} details are as they were{gone}; structure kept "
            f"{found.structure:.2f}."
        )
    return _block("identity_preservation", values, says)


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
