"""`description`, from the expected descriptions: what they support, and what they have that the response leaves out."""

from __future__ import annotations

from beholder.cases import FieldValue
from beholder.instruments.description import Texts, describe
from beholder.judges.measured.answering import Document, Told
from beholder.rubrics.brief import Brief
from beholder.verdicts.observing import ABSTAIN


def description(brief: Brief) -> Document:
    """The four dimensions and the findings; no image is looked at. A dimension that the texts cannot tell (without an
    expected description, what is accurate and complete) is left open."""
    found = describe(
        Texts(
            output=_text(brief.fields.get("output", "")),
            references=_texts(brief.fields.get("expected_output", ())),
            question=_text(brief.fields.get("input", "")),
        )
    )
    criteria = {
        key: {"reason": one.reason, "score": ABSTAIN if one.score is None else round(one.score, 3)}
        for key, one in found.dimensions.items()
    }
    return {
        **{key: list(entries) for key, entries in found.findings.items()},
        "criteria": criteria,
        "assessment": found.assessment,
        "measurements": {
            name: Told(value=one.value, unit=one.unit, sentence=one.sentence)
            for name, one in found.measurements.items()
        },
    }


def _texts(value: FieldValue) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _text(value: FieldValue) -> str:
    return "\n".join(_texts(value))
