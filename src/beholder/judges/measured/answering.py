"""Which rubrics measurements can answer, and the answer to a brief in our compact form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

from beholder.rubrics.brief import Brief
from beholder.rubrics.model import Criterion, Rubric
from beholder.verdicts.observing import ABSTAIN

Document = dict[str, object]


class Told(TypedDict):
    """A measurement as an answer carries it, and as it is kept in the verdict."""

    value: float | None
    unit: str
    sentence: str


FACTORS = ("unchanged_regions", "global_consistency", "identity_preservation")
DIMENSIONS = ("visual_accuracy", "completeness", "clarity", "relevance")

_NOT_MEASURABLE = (
    "Left open: this asks what the images show, which no measurement of their pixels can tell. A model as judge, such "
    "as openai:gpt-5-mini, would answer it."
)

_TWO_EDITS = (
    "Left open: beside a person's own edit, what differs is not the edit, and what was to stay cannot be told from the "
    "pixels. A model as judge, such as openai:gpt-5-mini, would answer it."
)


def objection(rubric: Rubric) -> str:
    """Why a rubric cannot be answered by measuring at all; empty where it can."""
    tagged = rubric.styles or any(one.measured for one in rubric.assertions())
    scoring = rubric.scoring
    adds_up = scoring.ceiling and scoring.criterion_score == "given" and not any(gate.finding for gate in scoring.gates)
    if _own(rubric.name, rubric.criteria) or (tagged and adds_up and len(rubric.roles) == 2):
        return ""
    return (
        f"The judge instruments cannot answer {rubric.name}: it measures, and answers edit-preservation, restyle, "
        "description, and rubrics of two images with a `ceiling` whose assertions say how they are `measured`. "
        "Name a model as judge, such as openai:gpt-5-mini."
    )


def answer_to(brief: Brief) -> Document:
    """The answer, as JSON values. Raises `ImageError` for a picture that cannot be read."""
    return _method(brief)(brief)


def abstention(criteria: Sequence[Criterion], why: str = _NOT_MEASURABLE) -> Document:
    """An answer that leaves everything open."""
    return {"criteria": {one.key: _open(one, why) for one in criteria}, "assessment": why}


def _open(criterion: Criterion, why: str) -> Document:
    block: Document = {"score": ABSTAIN, "reason": why}
    if criterion.assertions:
        block["assertions"] = {one.id: {"answer": ABSTAIN, "evidence": why} for one in criterion.assertions}
    return block


def _method(brief: Brief) -> Callable[[Brief], Document]:
    """Imported late: the instruments load NumPy and OpenCV."""
    own = _own(brief.rubric, brief.criteria)
    if own == "edit-preservation" and [one.role for one in brief.pictures] != ["input", "edited"]:
        return lambda brief: abstention(brief.criteria, _TWO_EDITS)
    if own == "edit-preservation":
        from beholder.judges.measured.preservation import preservation

        return preservation
    if own == "description":
        from beholder.judges.measured.describing import description

        return description
    if len(brief.pictures) == 2 and any(one.measured for each in brief.criteria for one in each.assertions):
        from beholder.judges.measured.restyling import restyle

        return restyle
    return lambda brief: abstention(brief.criteria)


def _own(name: str, criteria: Sequence[Criterion]) -> str:
    """The built-in rubric that is answered as a whole; empty for any other, also for one of a user that has its name
    but asks something else. In which order it asks is all the same."""
    asked = sorted((one.key, one.scale) for one in criteria)
    if name == "edit-preservation" and asked == sorted((key, (1, 7)) for key in FACTORS):
        return name
    if name == "description" and asked == sorted((key, (0, 1)) for key in DIMENSIONS):
        return name
    return ""
