"""Code scores. Every number here is an exact fraction until it is shown.

A criterion's score stands unless its failed assertions allow only a lower one (`ceiling`); N/A answers leave the
denominator; a criterion in which nothing applies leaves the total, which is rescaled to its full maximum and marked
partial. Grades and thresholds are compared with the unrounded value. What a judge that may abstain left open is dealt
with as `abstaining` says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from beholder.rubrics.model import Criterion, Number, Rubric, ScoringKind, exact
from beholder.verdicts.abstaining import (
    Range,
    abstention_flag,
    abstentions,
    coverage,
    enough,
    score_range,
    total_range,
)
from beholder.verdicts.claims import criterion_corrections, overall_corrections
from beholder.verdicts.model import (
    AssertionResult,
    Correction,
    CriterionResult,
    Flag,
    Outcome,
    Verdict,
    counted,
    plain_number,
)
from beholder.verdicts.observing import Observations, ObservedCriterion, nothing_applies


@dataclass(frozen=True, slots=True)
class CriterionTally:
    """A criterion as it is counted: `score` exact, or `None` where nothing applied or too much was left open (then
    there is a `range`)."""

    criterion: Criterion
    score: Fraction | None
    yes: int
    no: int
    not_applicable: int
    mean_confidence: Fraction | None = None
    abstained: int = 0
    range: Range | None = None


@dataclass(frozen=True, slots=True)
class Overall:
    """The whole, exact; `total` and `max_total` only where the rubric adds up. Too much left open: no `score`."""

    score: Fraction | None
    total: Fraction | None
    max_total: Fraction | None
    grade: str | None
    passed: bool | None

    @property
    def percentage(self) -> Fraction | None:
        return None if self.total is None or not self.max_total else self.total / self.max_total * 100


def score(verdict: Verdict, rubric: Rubric, observed: Observations) -> Verdict:
    """`verdict`, of which only the head is known, with everything that was observed and what it comes to.

    Never raises: what can be wrong with an answer was found before. What only a jury can come to, that nothing applies
    to most of its members, has no score and is `invalid`.
    """
    if nothing := nothing_applies(rubric, observed):
        return replace(verdict, outcome=Outcome.INVALID, detail=nothing, flags=(*verdict.flags, *observed.flags))
    flags = [*verdict.flags, *observed.flags]
    corrections: list[Correction] = []
    tallies: list[CriterionTally] = []
    covered, left_open = coverage(rubric, observed), abstentions(rubric, observed)
    scorable = enough(rubric, covered)
    for criterion in rubric.criteria:
        seen = observed.criteria[criterion.key]
        tally = _tally(rubric, criterion, seen, corrections, left_open[criterion.key], scorable)
        _guidance(rubric, tally, flags)
        corrections += criterion_corrections(tally, seen)
        tallies.append(tally)
    if covered:
        flags.append(abstention_flag(left_open, covered))
    gone = [tally.criterion.key for tally in tallies if not observed.criteria[tally.criterion.key].applies]
    if gone:
        flags.append(Flag("partial", ", ".join(gone), why="nothing in it applied; the total was rescaled"))
    failed_gates = list(_failed_gates(rubric, tallies, observed))
    flags += failed_gates
    overall = _overall(rubric, tallies, failed=bool(failed_gates), scorable=scorable)
    corrections += overall_corrections(rubric, tallies, overall, observed.claims)
    return replace(
        verdict,
        criteria={tally.criterion.key: _result(tally, observed.criteria[tally.criterion.key]) for tally in tallies},
        total=_float(overall.total),
        max_total=_float(overall.max_total),
        percentage=_float(overall.percentage),
        grade=overall.grade,
        score=_float(overall.score),
        score_derived=rubric.scoring.kind is ScoringKind.FACTORS,
        partial=overall.score is not None and any(tally.score is None for tally in tallies),
        passed=overall.passed,
        findings=observed.findings,
        assessment=observed.assessment,
        reported=observed.claims,
        flags=tuple(flags),
        corrections=tuple(corrections),
        measurements=observed.measurements,
        coverage=covered,
        total_range=_total_range(rubric, tallies) if covered else None,
    )


def _tally(
    rubric: Rubric,
    criterion: Criterion,
    seen: ObservedCriterion,
    corrections: list[Correction],
    abstained: int,
    scorable: bool,
) -> CriterionTally:
    answers = [seen.assertions[one.id].answer for one in criterion.assertions]
    yes, no, not_applicable = (answers.count(kind) for kind in ("yes", "no", "not_applicable"))
    given = None if seen.score is None else exact(seen.score)
    ends = score_range(rubric, criterion, no, abstained) if abstained else None
    tally = CriterionTally(criterion, None, yes, no, not_applicable, abstained=abstained, range=ends)
    if not seen.applies:
        stands = None
        why = "none of its assertions applied"
    elif abstained and (not scorable or not yes + no):
        stands = None
        why = f"{counted(abstained, 'answer')} left open"
    elif rubric.scoring.criterion_score == "confidence":
        sure = [exact(one.confidence or 0) for one in seen.assertions.values() if one.answer in ("yes", "no")]
        confidence = sum(sure, Fraction(0)) / len(sure)
        stands = min(Fraction(yes, yes + no) * confidence, exact(criterion.scale[1]))
        return replace(tally, score=stands, mean_confidence=confidence)
    else:
        stands = given
        why = ""
        ceiling = rubric.scoring.ceiling
        if ceiling and criterion.assertions:
            most = exact(ceiling[min(no, len(ceiling) - 1)])
            if given is None or given > most:  # none was given: whoever abstained has no opinion beyond its answers
                stands = most
                why = f"{no} failed {'assertion allows' if no == 1 else 'assertions allow'} at most {_shown(most)}"
    if given is not None and stands != given:
        corrections.append(Correction(f"{criterion.key}.score", _shown(given), _shown(stands), why))
    return replace(tally, score=stands)


def _guidance(rubric: Rubric, tally: CriterionTally, flags: list[Flag]) -> None:
    lower = rubric.scoring.guidance
    if not lower or not tally.criterion.assertions or tally.score is None:
        return
    least = exact(lower[min(tally.no, len(lower) - 1)])
    if tally.score < least:
        suggest = "suggests" if tally.no == 1 else "suggest"
        why = f"{counted(tally.no, 'failed assertion')} {suggest} at least {_shown(least)}; the score stands"
        flags.append(Flag("below_guidance", f"{tally.criterion.key}.score", _shown(tally.score), why))


def _result(tally: CriterionTally, seen: ObservedCriterion) -> CriterionResult:
    criterion = tally.criterion
    return CriterionResult(
        score=_shown(tally.score),
        reported=None if seen.score is None else _shown(exact(seen.score)),
        scale=criterion.scale,
        weight=criterion.weight,
        reason=seen.reason,
        yes=tally.yes,
        no=tally.no,
        not_applicable=tally.not_applicable,
        assertions=tuple(
            AssertionResult(
                id=one.id,
                question=seen.assertions[one.id].question or one.text,
                answer=seen.assertions[one.id].answer,
                evidence=seen.assertions[one.id].evidence,
                confidence=_confidence(seen.assertions[one.id].confidence),
            )
            for one in criterion.assertions
        ),
        abstained=tally.abstained,
        score_range=None if tally.range is None else (plain_number(tally.range[0]), plain_number(tally.range[1])),
    )


def _total_range(rubric: Rubric, tallies: list[CriterionTally]) -> tuple[float, float] | None:
    ends: list[tuple[Criterion, Range]] = []
    for tally in tallies:
        if tally.range is not None:
            ends.append((tally.criterion, tally.range))
        elif tally.score is not None:
            ends.append((tally.criterion, (tally.score, tally.score)))
    found = total_range(rubric, ends)
    return None if found is None else (float(found[0]), float(found[1]))


def _overall(rubric: Rubric, tallies: list[CriterionTally], *, failed: bool, scorable: bool) -> Overall:
    counted = [(tally.criterion, tally.score) for tally in tallies if tally.score is not None]
    total = max_total = None
    if rubric.scoring.kind is ScoringKind.WEIGHTED_TOTAL:
        max_total = sum((exact(one.weight) * exact(one.scale[1]) for one in rubric.criteria), Fraction(0))
    if not scorable or not any(criterion.weight > 0 for criterion, _ in counted):
        return Overall(None, None, max_total, None, False if failed else None)
    if max_total is not None:
        reachable = sum((exact(one.weight) * exact(one.scale[1]) for one, _ in counted), Fraction(0))
        reached = sum((exact(one.weight) * points for one, points in counted), Fraction(0))
        value = reached / reachable
        total = value * max_total
    else:
        weight = sum((exact(criterion.weight) for criterion, _ in counted), Fraction(0))
        parts = (exact(one.weight) * _position(one, points) for one, points in counted)
        value = sum(parts, Fraction(0)) / weight
    return Overall(value, total, max_total, _grade(rubric, value), _passed(rubric, value, failed))


def _position(criterion: Criterion, points: Fraction) -> Fraction:
    """Where a score lies on its scale, 0–1."""
    low, high = map(exact, criterion.scale)
    return (points - low) / (high - low)


def _grade(rubric: Rubric, value: Fraction) -> str | None:
    measured = value * 100 if rubric.scoring.kind is ScoringKind.WEIGHTED_TOTAL else value
    return next((grade.grade for grade in rubric.scoring.grades if measured >= exact(grade.least)), None)


def _passed(rubric: Rubric, value: Fraction, failed: bool) -> bool | None:
    scoring = rubric.scoring
    if scoring.threshold is None and not scoring.gates:
        return None
    return not failed and (scoring.threshold is None or value >= exact(scoring.threshold))


def _failed_gates(rubric: Rubric, tallies: list[CriterionTally], observed: Observations) -> Iterator[Flag]:
    """A flag for each gate that fails the case, at its finding or criterion. What did not apply fails nothing."""
    scores = {tally.criterion.key: tally.score for tally in tallies}
    for gate in rubric.scoring.gates:
        entries = len(observed.findings.get(gate.finding, ()))
        if entries:
            why = f"a finding that fails the case: {counted(entries, 'entry', 'entries')}"
            yield Flag("gate", gate.finding, why=why)
        reached = scores.get(gate.criterion)
        if gate.least is not None and reached is not None and reached < exact(gate.least):
            why = f"{_shown(reached)} is below the least, {gate.least}"
            yield Flag("gate", gate.criterion, why=why)


def _confidence(value: object) -> Number | None:
    return None if value is None else plain_number(exact(value))  # read as a number before


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _shown(value: Fraction | None) -> Number | None:
    return None if value is None else plain_number(value)
