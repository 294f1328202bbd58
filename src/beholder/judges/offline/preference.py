"""`edit-preference` from measurements: which of two edits looks more natural and kept more, where that can be measured.

Each candidate is measured against the input by itself, so that the order cannot matter. `natural` goes by the realism
that people would rate (`people.realism`), `preserved` by how many of the input's distinct details and large shapes
are where they were: both candidates had the same edit to make, so that it costs both alike. What lies closer together
than a margin is left open. So is whether the instruction was followed, always; and the whole, unless both others name
the same candidate. An image that came back as it was has no realism of an edit, so that it never wins.

On the pairs of ImagenHub's text-guided edits that people rated differently, with these margins: `natural` decides 45 %
and is right in 91 % of them (realism was fitted on these edits), `preserved` decides 53 % and is right in 73 % (by what
people said of instruction and rest together), the whole decides 15 % and is right in 62 %: doing less looks better to
measurements than to people (18 November 2026).
"""

from __future__ import annotations

from dataclasses import dataclass

from beholder.cases.case import CANDIDATES
from beholder.errors import ImageError
from beholder.instruments.human_ratings import predict_pair_ratings
from beholder.instruments.instrument import format_percent
from beholder.instruments.pair import ImagePair
from beholder.judges.offline.judge import AnswerDocument, MeasurementEntry, abstain_from_choices, to_entry
from beholder.judges.offline.preservation import MIN_SIDE, measure_outside
from beholder.rubrics.brief import Brief
from beholder.verdicts.observe import ABSTAIN

_REALISM, _DETAILS, _SHAPES = "people.realism", "whole.details", "whole.shapes"
_NATURAL_STEPS = (0.15, 0.3, 0.45)  # differences of realism, 0 to 1, from which the strength is 1, 2 and 3
_PRESERVED_STEPS = (0.2, 0.4, 0.6)  # differences of the share of details that are kept
_MIN_SHAPES_DIFFERENCE = 0.05  # in the same direction: details may be lost to noise alone

_FOLLOWED = (
    "Left open: this asks what the instruction wants and what the images show, which no measurement of their pixels "
    "can tell. A model as judge, such as openai:gpt-5-mini, would answer it."
)


@dataclass(frozen=True, slots=True)
class CandidateMeasurements:
    """What was measured of one edit; `None` where it has no meaning.

    Attributes:
        realism: How real people would find it, 0 to 1.
        details: Share of the distinct details of the input that are as they were.
        shapes: How far large shapes are kept, 0 to 1.
        entries: All of these as they are in an answer, by name.
    """

    realism: float | None
    details: float | None
    shapes: float | None
    entries: dict[str, MeasurementEntry]


def answer_edit_preference(brief: Brief) -> AnswerDocument:
    """Answer `edit-preference`; raise `ImageError` for an image that cannot be read."""
    images = {block.role: block.image.data for block in brief.images}
    if set(images) != {"input", *CANDIDATES}:
        return abstain_from_choices(brief.criteria, _FOLLOWED)
    first, second = (_measure_candidate(images["input"], role, images[role]) for role in CANDIDATES)
    natural = _compare_natural(first, second)
    preserved = _compare_preserved(first, second)
    blocks = {"followed": _leave_open(_FOLLOWED), "natural": natural, "preserved": preserved}
    return {
        "criteria": {criterion.key: blocks[criterion.key] for criterion in brief.criteria},
        "overall": _decide_whole(natural, preserved),
        "measurements": {
            f"{role}.{name}": entry
            for role, candidate in zip(CANDIDATES, (first, second), strict=True)
            for name, entry in candidate.entries.items()
        },
    }


def _measure_candidate(before: bytes, role: str, after: bytes) -> CandidateMeasurements:
    try:
        pair = ImagePair.load(before, after)
    except ImageError as error:
        raise ImageError(f"{role}: {error}") from None
    realism = predict_pair_ratings(pair)[_REALISM]
    entries = {_REALISM: to_entry(realism)}
    height, width = min((pair.before.shape[:2], pair.after.shape[:2]), key=min)
    if pair.incomparable_reason or min(height, width) < MIN_SIDE:
        return CandidateMeasurements(realism.value, None, None, entries)
    whole = measure_outside(pair, pair.valid)
    if whole.details is not None:
        sentence = f"{format_percent(whole.details)} of {whole.count} distinct details are as they were."
        entries[_DETAILS] = MeasurementEntry(value=whole.details, unit="share", sentence=sentence)
    entries[_SHAPES] = MeasurementEntry(
        value=whole.shapes, unit="", sentence=f"Large shapes are kept by {whole.shapes:.2f}."
    )
    return CandidateMeasurements(realism.value, whole.details, whole.shapes, entries)


def _compare_natural(a: CandidateMeasurements, b: CandidateMeasurements) -> AnswerDocument:
    if a.realism is None or b.realism is None:
        return _leave_open("Left open: of one of them no realism can be predicted from measurements.")
    told = f"People would rate the realism of A about {a.realism:.2f} and that of B about {b.realism:.2f} of 1"
    return _choose(a.realism - b.realism, _NATURAL_STEPS, told)


def _compare_preserved(a: CandidateMeasurements, b: CandidateMeasurements) -> AnswerDocument:
    if a.details is None or b.details is None or a.shapes is None or b.shapes is None:
        return _leave_open("Left open: one of them cannot be laid over the input, or the input has too few details.")
    told = (
        f"Of the input's distinct details A keeps {format_percent(a.details)} and B {format_percent(b.details)}, of "
        f"its large shapes {a.shapes:.2f} and {b.shapes:.2f}"
    )
    details, shapes = a.details - b.details, a.shapes - b.shapes
    if abs(shapes) < _MIN_SHAPES_DIFFERENCE or details * shapes <= 0:
        return _leave_open(f"{told}: too close to tell.")
    return _choose(details, _PRESERVED_STEPS, told)


def _choose(difference: float, steps: tuple[float, float, float], told: str) -> AnswerDocument:
    """Return the choice by a difference (positive for A), with a strength by how many steps it takes."""
    strength = sum(abs(difference) >= step for step in steps)
    if not strength:
        return _leave_open(f"{told}: too close to tell.")
    return {"reason": f"{told}.", "choice": "A" if difference > 0 else "B", "strength": strength}


def _decide_whole(natural: AnswerDocument, preserved: AnswerDocument) -> AnswerDocument:
    choices = natural["choice"], preserved["choice"]
    if choices[0] != choices[1] or ABSTAIN in choices:
        return _leave_open("Left open: the measurements do not both name the same candidate.")
    strengths = [strength for one in (natural, preserved) if isinstance(strength := one["strength"], int)]
    reason = "It looks more natural and keeps more, by measurements; whether the instruction was followed is left open."
    return {"reason": reason, "choice": choices[0], "strength": min(strengths)}


def _leave_open(why: str) -> AnswerDocument:
    return {"reason": why, "choice": ABSTAIN, "strength": 0}
