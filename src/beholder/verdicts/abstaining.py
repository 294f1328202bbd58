"""What follows from an abstention: a judge that only measures leaves open what it cannot measure.

How much was answered is the verdict's `coverage`. From `LEAST_COVERAGE` up, assertions that were left open leave the
denominator, as N/A ones do. Below it, a criterion with one of them has no score but a range, and the whole has neither
score nor grade but the range of totals that the open answers allow. Factors stand alone: their mean is of those that
were answered, however few.

A range goes from the rubric's guidance (the scale's lower end, where it has none) if every open assertion failed, to
its ceiling if every one passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from beholder.rubrics.model import Criterion, Rubric, ScoringKind, exact
from beholder.verdicts.model import Coverage, Flag
from beholder.verdicts.observing import Observations

LEAST_COVERAGE = Fraction(8, 10)

Range = tuple[Fraction, Fraction]


def coverage(rubric: Rubric, observed: Observations) -> Coverage | None:
    """How much of what applies was answered; `None` where nothing was left open."""
    answers = [answer for criterion in rubric.criteria for answer in _answers(rubric, criterion, observed)]
    measured = sum(answer != "abstained" for answer in answers)
    if measured == len(answers):
        return None
    if any(criterion.assertions for criterion in rubric.criteria):
        what = "assertions"
    else:
        what = "factors" if rubric.scoring.kind is ScoringKind.FACTORS else "criteria"
    return Coverage(measured, len(answers), what)


def enough(rubric: Rubric, covered: Coverage | None) -> bool:
    """Whether there is enough to score the whole by what was answered."""
    if covered is None or rubric.scoring.kind is ScoringKind.FACTORS:
        return True
    return Fraction(covered.measured, covered.of) >= LEAST_COVERAGE


def abstentions(rubric: Rubric, observed: Observations) -> dict[str, int]:
    """How much was left open, by criterion."""
    return {one.key: _answers(rubric, one, observed).count("abstained") for one in rubric.criteria}


def score_range(rubric: Rubric, criterion: Criterion, no: int, abstained: int) -> Range:
    """Where the score of a criterion lies of which `no` assertions failed and others were left open."""
    low, high = map(exact, criterion.scale)
    ceiling, guidance = rubric.scoring.ceiling, rubric.scoring.guidance
    if criterion.assertions and rubric.scoring.criterion_score == "given":
        if ceiling:
            high = exact(ceiling[min(no, len(ceiling) - 1)])
        if guidance:
            low = max(low, exact(guidance[min(no + abstained, len(guidance) - 1)]))
    return min(low, high), high


def total_range(rubric: Rubric, ranges: Iterable[tuple[Criterion, Range]]) -> Range | None:
    """Where the total lies, given where each score that applies does; `None` where the rubric does not add up."""
    if rubric.scoring.kind is not ScoringKind.WEIGHTED_TOTAL:
        return None
    listed = list(ranges)
    most = sum((exact(one.weight) * exact(one.scale[1]) for one in rubric.criteria), Fraction(0))
    reachable = sum((exact(one.weight) * exact(one.scale[1]) for one, _ in listed), Fraction(0))
    if not reachable:
        return None
    low, high = (sum((exact(one.weight) * ends[at] for one, ends in listed), Fraction(0)) for at in (0, 1))
    return low / reachable * most, high / reachable * most


def abstention_flag(left_open: dict[str, int], covered: Coverage) -> Flag:
    keys = ", ".join(key for key, count in left_open.items() if count)
    were = "was" if covered.open == 1 else "were"
    return Flag("abstained", keys, why=f"{covered.open} of {covered.of} {covered.what} {were} left open")


def _answers(rubric: Rubric, criterion: Criterion, observed: Observations) -> list[str]:
    """What was answered in a criterion, N/A aside: its assertions, and its score where they do not give one."""
    seen = observed.criteria[criterion.key]
    answers = [one.answer for one in seen.assertions.values() if one.answer != "not_applicable"]
    if not criterion.assertions:
        answers.append("abstained" if seen.abstained else "scored")
    elif answers and seen.abstained and not rubric.scoring.ceiling and rubric.scoring.criterion_score == "given":
        answers.append("abstained")
    return answers
