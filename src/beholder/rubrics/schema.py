"""The form of our compact answer, as JSON Schema in neutral form; wires turn it into each provider's own.

The order of properties is the order in which a model writes: what it observed comes before the score. Nothing that
code computes is asked for, and questions are named by id.
"""

from __future__ import annotations

from beholder.rubrics.model import Assertion, Criterion, NotApplicable, Rubric

Schema = dict[str, object]

YES, NO, NOT_APPLICABLE = "Yes", "No", "N/A"


def answer_schema(rubric: Rubric) -> Schema:
    """The schema of an answer to `rubric`, whose style (if it takes one) has been applied."""
    properties: dict[str, Schema] = {}
    if rubric.echo:
        properties[rubric.echo] = _text("the case's label, as given")
    for finding in rubric.findings:
        properties[finding.key] = {"type": "array", "items": {"type": "string"}, "description": finding.about}
    properties["criteria"] = _object({criterion.key: _criterion(rubric, criterion) for criterion in rubric.criteria})
    if rubric.assessment:
        properties["assessment"] = _text(rubric.assessment)
    return _object(properties)


def answer_tokens(rubric: Rubric) -> int:
    """A generous guess at the tokens of an answer, for providers that want a limit."""
    assertions = sum(1 for _ in rubric.assertions())
    return 1024 + 96 * assertions + 160 * len(rubric.criteria) + 256 * len(rubric.findings)


def offers_not_applicable(rubric: Rubric, assertion: Assertion) -> bool:
    """An assertion with a condition (`applies: people`) has to have an answer where the condition is not met."""
    wanted = rubric.scoring.not_applicable
    return wanted is NotApplicable.OFFER or (wanted is NotApplicable.ACCEPT and bool(assertion.applies))


def _criterion(rubric: Rubric, criterion: Criterion) -> Schema:
    properties: dict[str, Schema] = {}
    reason = {rubric.reason.key: _text(_reason(rubric))}
    score = {} if rubric.scoring.criterion_score == "confidence" else {"score": _score(criterion)}
    if criterion.assertions:
        properties["assertions"] = _object({one.id: _assertion(rubric, one) for one in criterion.assertions})
        properties |= score | reason
    else:
        properties |= reason | score
    return _object(properties)


def _assertion(rubric: Rubric, assertion: Assertion) -> Schema:
    answers = [YES, NO, NOT_APPLICABLE] if offers_not_applicable(rubric, assertion) else [YES, NO]
    properties: dict[str, Schema] = {
        "answer": {"type": "string", "enum": answers},
        "evidence": _text("what is seen, and where"),
    }
    if rubric.scoring.criterion_score == "confidence":
        properties["confidence"] = {"type": "integer", "minimum": 1, "maximum": 5}
    return _object(properties)


def _score(criterion: Criterion) -> Schema:
    low, high = criterion.scale
    return {"type": "integer" if criterion.whole else "number", "minimum": low, "maximum": high}


def _reason(rubric: Rubric) -> str:
    if rubric.reason.words:
        return "{}–{} words of specific visual evidence, with its place".format(*rubric.reason.words)
    return "why this score"


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _object(properties: dict[str, Schema]) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
