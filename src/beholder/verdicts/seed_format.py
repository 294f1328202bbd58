"""`--format seed`: write a scored verdict in the JSON form of the published prompt ("seed") of its rubric.

Computed values replace the judge's own. Numbers have at most two decimals, or as many as it takes not to contradict the
verdict. Reading the text back gives the same verdict where scores have at most two decimals, else the same grade.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from beholder.errors import UsageError
from beholder.rubrics.rubric import Number, Rubric, ScoringKind, to_fraction
from beholder.verdicts.verdict import AssertionResult, CriterionResult, Verdict, round_beside

Json = dict[str, Any]

_ANSWER_WORDS = {"yes": "Yes", "no": "No", "not_applicable": "N/A"}


def to_seed_format(verdict: Verdict, rubric: Rubric) -> Json:
    """Return a verdict in the published form of its rubric. Raises `UsageError` where it has none."""
    if why := explain_no_seed(verdict):
        raise UsageError(f"{verdict.case!r} {why}.")
    write = _WRITERS.get(rubric.format)
    if write is None:
        raise UsageError(f"The rubric {rubric.name!r} has no seed format; use JSON (--json or to_dict()).")
    return write(verdict, rubric)


def explain_no_seed(verdict: Verdict) -> str:
    """Return why a verdict has no seed format, whatever its rubric; empty where it may have one."""
    if not verdict.scored:
        return f"is {verdict.outcome}, and only a scored verdict has a seed format"
    if coverage := verdict.coverage:
        missing = f"{coverage.open} of {coverage.of} {coverage.what}"
        return f"has {missing} without an answer, for which the seed format has no word"
    return ""


def _write_acrue(verdict: Verdict, rubric: Rubric) -> Json:
    scores = _write_scores(verdict, rubric)
    return {
        "style": verdict.style,
        "assertions": {
            key: {
                "results": [_write_assertion(assertion) for assertion in result.assertions],
                "pass_rate": f"{result.yes}/{result.yes + result.no}",
                "score": scores[key],
                "reason": result.reason,
            }
            for key, result in verdict.criteria.items()
        },
        "summary": _write_summary(verdict, rubric),
        "overall_assessment": verdict.assessment,
    }


def _write_acrue_confidence(verdict: Verdict, rubric: Rubric) -> Json:
    scores = _write_scores(verdict, rubric)
    return {
        "style": verdict.style,
        "dimensions": {
            key: {
                "weight": result.weight,
                "passed": result.yes,
                "total": result.yes + result.no,
                "pass_rate": f"{result.yes}/{result.yes + result.no}",
                "dimension_score": scores[key],
                "reason": result.reason,
                "assertions": [
                    {**_write_assertion(assertion), "confidence": assertion.confidence}
                    for assertion in result.assertions
                ],
            }
            for key, result in verdict.criteria.items()
        },
        "summary": _write_summary(verdict, rubric),
        "overall_assessment": verdict.assessment,
    }


def _write_description(verdict: Verdict, rubric: Rubric) -> Json:
    return {
        "score": _round(verdict.score, [*_list_grade_limits(rubric, 1), *_list_given(rubric.scoring.threshold)]),
        "passed": verdict.passed,
        "details": _write_scores(verdict, rubric),
        "reasoning": verdict.assessment,
        **{finding.key: list(verdict.findings.get(finding.key, ())) for finding in rubric.findings},
    }


def _write_factors(verdict: Verdict, rubric: Rubric) -> Json:
    scores = _write_scores(verdict, rubric)
    return {
        "image_id": verdict.case,
        rubric.results_key: {
            key: {"score": scores[key], "justification": result.reason} for key, result in verdict.criteria.items()
        },
    }


_WRITERS: dict[str, Callable[[Verdict, Rubric], Json]] = {
    "acrue": _write_acrue,
    "acrue_confidence": _write_acrue_confidence,
    "description": _write_description,
    "factors": _write_factors,
}


def _write_summary(verdict: Verdict, rubric: Rubric) -> Json:
    yes = sum(result.yes for result in verdict.criteria.values())
    asked = yes + sum(result.no for result in verdict.criteria.values())
    return {
        "total_assertions": asked,
        "total_passed": yes,
        "overall_pass_rate": f"{yes}/{asked}",
        "weighted_total": _round(verdict.total, _list_grade_limits(rubric, (verdict.max_total or 0) / 100)),
        "max_score": verdict.max_total,
        "percentage": _round(verdict.percentage, _list_grade_limits(rubric, 1)),
        "grade": verdict.grade,
    }


def _write_assertion(result: AssertionResult) -> Json:
    answer = _ANSWER_WORDS[result.answer]
    return {"id": result.id, "question": result.question, "answer": answer, "evidence": result.evidence}


def _write_scores(verdict: Verdict, rubric: Rubric) -> dict[str, Number | str | None]:
    """Return the scores of the criteria, with as many decimals as their total needs to be on its side of every limit:
    0.695 four times is not 0.7 beside a verdict that did not pass by 0.7."""
    unit = Fraction(1, 100) if rubric.scoring.kind is ScoringKind.WEIGHTED_TOTAL else Fraction(1)
    limits = [to_fraction(grade.least) * unit for grade in rubric.scoring.grades]
    limits += [to_fraction(limit) for limit in _list_given(rubric.scoring.threshold)]
    for places in range(2, 17):
        shown = {key: _round_score(rubric, key, result, places) for key, result in verdict.criteria.items()}
        if verdict.score is None:
            break
        score = to_fraction(verdict.score)
        error = _find_rounding_error(verdict, rubric, shown)
        if all((score >= limit) == (score + error >= limit) for limit in limits):
            break
    return {key: "N/A" if score is None else score for key, score in shown.items()}


def _round_score(rubric: Rubric, key: str, result: CriterionResult, places: int) -> Number | None:
    limits = [gate.least for gate in rubric.scoring.gates if gate.criterion == key and gate.least is not None]
    return None if result.score is None else round_beside(result.score, limits, places)


def _find_rounding_error(verdict: Verdict, rubric: Rubric, shown: Mapping[str, Number | None]) -> Fraction:
    """Return by how much the score (0–1) that follows from rounded scores of the criteria lies above the exact one."""
    error = whole = Fraction(0)
    for key, rounded in shown.items():
        result = verdict.criteria[key]
        if rounded is None or result.score is None:
            continue
        low, high = map(to_fraction, result.scale)
        weight = to_fraction(result.weight)
        # Of a total the scale begins at 0, of a mean at its own lowest score.
        span = high if rubric.scoring.kind is ScoringKind.WEIGHTED_TOTAL else high - low
        mean_weight = weight if rubric.scoring.kind is ScoringKind.WEIGHTED_TOTAL else weight / span
        error += mean_weight * (to_fraction(rounded) - to_fraction(result.score))
        whole += mean_weight * span
    return error / whole if whole else error


def _list_grade_limits(rubric: Rubric, unit: Number) -> list[Number]:
    return [grade.least * unit for grade in rubric.scoring.grades]


def _list_given(limit: Number | None) -> list[Number]:
    return [] if limit is None else [limit]


def _round(number: Number | None, limits: Sequence[Number]) -> Number | None:
    """Return a rounded number that contradicts none of the limits by which something was decided."""
    return None if number is None else round_beside(number, limits)
