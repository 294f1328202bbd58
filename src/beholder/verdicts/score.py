"""A judge's own arithmetic, checked. What it worked out wrongly is kept as a correction; what is right is not noise.

A claimed number is right when it is the exact one rounded to as many decimals as it was given with.

Code scores. Every number here is an exact fraction until it is shown.

A criterion's score stands unless its failed assertions allow only a lower one (`ceiling`); N/A answers leave the
denominator; a criterion in which nothing applies leaves the total, which is rescaled to its full maximum and marked
partial. Grades and thresholds are compared with the unrounded value. What a judge that may abstain left open is dealt
with as `abstaining` says.

From an answer to a verdict: parse, observe, score, in this order; or the outcome that says where it stopped.

What follows from an abstention: a judge that only measures leaves open what it cannot measure.

How much was answered is the verdict's `coverage`. From `LEAST_COVERAGE` up, assertions that were left open leave the
denominator, as N/A ones do. Below it, a criterion with one of them has no score but a range, and the whole has neither
score nor grade but the range of totals that the open answers allow. Factors stand alone: their mean is of those that
were answered, however few.

A range goes from the rubric's guidance (the scale's lower end, where it has none) if every open assertion failed, to
its ceiling if every one passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import isfinite

from beholder.errors import AnswerError
from beholder.rubrics.rubric import Criterion, Number, Rubric, ScoringKind, Style, to_fraction
from beholder.verdicts.observe import (
    DEFAULT_CONTEXT,
    AnswerContext,
    Observations,
    ObservedCriterion,
    explain_nothing_applies,
    observe_answer,
)
from beholder.verdicts.parse import JsonObject, is_refusal, parse_answer, parse_count, parse_number
from beholder.verdicts.verdict import (
    AssertionResult,
    Correction,
    Coverage,
    CriterionResult,
    Flag,
    Outcome,
    Verdict,
    format_count,
    to_plain_number,
)

COMPUTED_FROM_ANSWER = "computed from the answer"


def find_criterion_corrections(tally: CriterionTally, seen: ObservedCriterion) -> list[Correction]:
    """Where a criterion's claimed pass rate, counts or sums differ from what its answers give."""
    if not tally.criterion.assertions:
        return []
    truths: dict[str, object] = {
        "pass_rate": (tally.yes, tally.yes + tally.no),
        "passed": Fraction(tally.yes),
        "total": Fraction(tally.yes + tally.no),
        "avg_confidence": tally.mean_confidence,
        "weighted_score": None if tally.score is None else tally.score * to_fraction(tally.criterion.weight),
    }
    if tally.mean_confidence is not None:
        truths["score"] = tally.score
        claims = {**seen.claims, **({} if seen.score is None else {"score": seen.score})}
    else:
        claims = dict(seen.claims)
    return list(_find_differences(tally.criterion.key, truths, claims))


def find_overall_corrections(
    rubric: Rubric, tallies: list[CriterionTally], overall: OverallScore, claims: Mapping[str, object]
) -> list[Correction]:
    """Where claimed totals, percentages, grades or passes differ from the computed ones."""
    yes = sum(tally.yes for tally in tallies)
    asked = sum(tally.yes + tally.no for tally in tallies)
    truths: dict[str, object] = {
        "score": overall.score if rubric.format == "description" else None,
        "passed": overall.passed,
        "grade": overall.grade,
        "percentage": overall.percentage,
        "weighted_total": overall.total,
        "max_score": overall.max_total,
    }
    if asked:
        truths |= {
            "total_assertions": Fraction(asked),
            "total_passed": Fraction(yes),
            "overall_pass_rate": (yes, asked),
        }
    return list(_find_differences("", truths, claims))


def _find_differences(place: str, truths: Mapping[str, object], claims: Mapping[str, object]) -> Iterator[Correction]:
    for key, truth in truths.items():
        said = claims.get(key)
        if said is None or truth is None or _agrees(said, truth):
            continue
        yield Correction(
            f"{place}.{key}" if place else key, _to_plain_claim(said), _format_truth(truth), COMPUTED_FROM_ANSWER
        )


def _agrees(said: object, truth: object) -> bool:
    if isinstance(truth, tuple):
        return parse_count(said) == truth
    if isinstance(truth, bool | str):
        return said == truth
    claimed = parse_number(said)
    if claimed is None or not isinstance(truth, Fraction) or not -(10**6) <= claimed <= 10**6:
        return False
    decimals = min(12, max(0, -int(Decimal(claimed).as_tuple().exponent)))  # further out is a double's noise
    return abs(Fraction(claimed) - truth) <= Fraction(1, 2 * 10**decimals)


def _format_truth(truth: object) -> object:
    if isinstance(truth, tuple):
        return f"{truth[0]}/{truth[1]}"
    return to_plain_number(truth) if isinstance(truth, Fraction) else truth


def _to_plain_claim(said: object) -> object:
    return float(said) if isinstance(said, Decimal) and isfinite(said) else said


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
    range: ScoreRange | None = None


@dataclass(frozen=True, slots=True)
class OverallScore:
    """The whole, exact; `total` and `max_total` only where the rubric adds up. Too much left open: no `score`."""

    score: Fraction | None
    total: Fraction | None
    max_total: Fraction | None
    grade: str | None
    passed: bool | None

    @property
    def percentage(self) -> Fraction | None:
        return None if self.total is None or not self.max_total else self.total / self.max_total * 100


def score_observations(verdict: Verdict, rubric: Rubric, observed: Observations) -> Verdict:
    """`verdict`, of which only the head is known, with everything that was observed and what it comes to.

    Never raises: what can be wrong with an answer was found before. What only a jury can come to, that nothing applies
    to most of its members, has no score and is `invalid`.
    """
    if nothing := explain_nothing_applies(rubric, observed):
        return replace(verdict, outcome=Outcome.INVALID, detail=nothing, flags=(*verdict.flags, *observed.flags))
    flags = [*verdict.flags, *observed.flags]
    corrections: list[Correction] = []
    tallies: list[CriterionTally] = []
    covered, left_open = measure_coverage(rubric, observed), count_abstentions(rubric, observed)
    scorable = has_enough_coverage(rubric, covered)
    for criterion in rubric.criteria:
        seen = observed.criteria[criterion.key]
        tally = _tally_criterion(rubric, criterion, seen, corrections, left_open[criterion.key], scorable)
        _flag_below_guidance(rubric, tally, flags)
        corrections += find_criterion_corrections(tally, seen)
        tallies.append(tally)
    if covered:
        flags.append(make_abstention_flag(left_open, covered))
    gone = [tally.criterion.key for tally in tallies if not observed.criteria[tally.criterion.key].applies]
    if gone:
        flags.append(Flag("partial", ", ".join(gone), why="nothing in it applied; the total was rescaled"))
    failed_gates = list(_find_failed_gates(rubric, tallies, observed))
    flags += failed_gates
    overall = _compute_overall(rubric, tallies, failed=bool(failed_gates), scorable=scorable)
    corrections += find_overall_corrections(rubric, tallies, overall, observed.claims)
    return replace(
        verdict,
        criteria={
            tally.criterion.key: _make_criterion_result(tally, observed.criteria[tally.criterion.key])
            for tally in tallies
        },
        total=_float_or_none(overall.total),
        max_total=_float_or_none(overall.max_total),
        percentage=_float_or_none(overall.percentage),
        grade=overall.grade,
        score=_float_or_none(overall.score),
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
        total_range=_compute_total_range(rubric, tallies) if covered else None,
    )


def _tally_criterion(
    rubric: Rubric,
    criterion: Criterion,
    seen: ObservedCriterion,
    corrections: list[Correction],
    abstained: int,
    scorable: bool,
) -> CriterionTally:
    answers = [seen.assertions[one.id].answer for one in criterion.assertions]
    yes, no, not_applicable = (answers.count(kind) for kind in ("yes", "no", "not_applicable"))
    given = None if seen.score is None else to_fraction(seen.score)
    ends = possible_score_range(rubric, criterion, no, abstained) if abstained else None
    tally = CriterionTally(criterion, None, yes, no, not_applicable, abstained=abstained, range=ends)
    if not seen.applies:
        stands = None
        why = "none of its assertions applied"
    elif abstained and (not scorable or not yes + no):
        stands = None
        why = f"{format_count(abstained, 'answer')} left open"
    elif rubric.scoring.criterion_score == "confidence":
        sure = [to_fraction(one.confidence or 0) for one in seen.assertions.values() if one.answer in ("yes", "no")]
        confidence = sum(sure, Fraction(0)) / len(sure)
        stands = min(Fraction(yes, yes + no) * confidence, to_fraction(criterion.scale[1]))
        return replace(tally, score=stands, mean_confidence=confidence)
    else:
        stands = given
        why = ""
        ceiling = rubric.scoring.ceiling
        if ceiling and criterion.assertions:
            most = to_fraction(ceiling[min(no, len(ceiling) - 1)])
            if given is None or given > most:  # none was given: whoever abstained has no opinion beyond its answers
                stands = most
                why = f"{no} failed {'assertion allows' if no == 1 else 'assertions allow'} at most {_plain_or_none(most)}"
    if given is not None and stands != given:
        corrections.append(Correction(f"{criterion.key}.score", _plain_or_none(given), _plain_or_none(stands), why))
    return replace(tally, score=stands)


def _flag_below_guidance(rubric: Rubric, tally: CriterionTally, flags: list[Flag]) -> None:
    lower = rubric.scoring.guidance
    if not lower or not tally.criterion.assertions or tally.score is None:
        return
    least = to_fraction(lower[min(tally.no, len(lower) - 1)])
    if tally.score < least:
        suggest = "suggests" if tally.no == 1 else "suggest"
        why = (
            f"{format_count(tally.no, 'failed assertion')} {suggest} at least {_plain_or_none(least)}; the score stands"
        )
        flags.append(Flag("below_guidance", f"{tally.criterion.key}.score", _plain_or_none(tally.score), why))


def _make_criterion_result(tally: CriterionTally, seen: ObservedCriterion) -> CriterionResult:
    criterion = tally.criterion
    return CriterionResult(
        score=_plain_or_none(tally.score),
        reported=None if seen.score is None else _plain_or_none(to_fraction(seen.score)),
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
                confidence=_plain_confidence(seen.assertions[one.id].confidence),
            )
            for one in criterion.assertions
        ),
        abstained=tally.abstained,
        score_range=None if tally.range is None else (to_plain_number(tally.range[0]), to_plain_number(tally.range[1])),
    )


def _compute_total_range(rubric: Rubric, tallies: list[CriterionTally]) -> tuple[float, float] | None:
    ends: list[tuple[Criterion, ScoreRange]] = []
    for tally in tallies:
        if tally.range is not None:
            ends.append((tally.criterion, tally.range))
        elif tally.score is not None:
            ends.append((tally.criterion, (tally.score, tally.score)))
    found = possible_total_range(rubric, ends)
    return None if found is None else (float(found[0]), float(found[1]))


def _compute_overall(rubric: Rubric, tallies: list[CriterionTally], *, failed: bool, scorable: bool) -> OverallScore:
    counted = [(tally.criterion, tally.score) for tally in tallies if tally.score is not None]
    total = max_total = None
    if rubric.scoring.kind is ScoringKind.WEIGHTED_TOTAL:
        max_total = sum((to_fraction(one.weight) * to_fraction(one.scale[1]) for one in rubric.criteria), Fraction(0))
    if not scorable or not any(criterion.weight > 0 for criterion, _ in counted):
        return OverallScore(None, None, max_total, None, False if failed else None)
    if max_total is not None:
        reachable = sum((to_fraction(one.weight) * to_fraction(one.scale[1]) for one, _ in counted), Fraction(0))
        reached = sum((to_fraction(one.weight) * points for one, points in counted), Fraction(0))
        value = reached / reachable
        total = value * max_total
    else:
        weight = sum((to_fraction(criterion.weight) for criterion, _ in counted), Fraction(0))
        parts = (to_fraction(one.weight) * _position_on_scale(one, points) for one, points in counted)
        value = sum(parts, Fraction(0)) / weight
    return OverallScore(value, total, max_total, _find_grade(rubric, value), _is_passed(rubric, value, failed))


def _position_on_scale(criterion: Criterion, points: Fraction) -> Fraction:
    """Where a score lies on its scale, 0–1."""
    low, high = map(to_fraction, criterion.scale)
    return (points - low) / (high - low)


def _find_grade(rubric: Rubric, value: Fraction) -> str | None:
    measured = value * 100 if rubric.scoring.kind is ScoringKind.WEIGHTED_TOTAL else value
    return next((grade.grade for grade in rubric.scoring.grades if measured >= to_fraction(grade.least)), None)


def _is_passed(rubric: Rubric, value: Fraction, failed: bool) -> bool | None:
    scoring = rubric.scoring
    if scoring.threshold is None and not scoring.gates:
        return None
    return not failed and (scoring.threshold is None or value >= to_fraction(scoring.threshold))


def _find_failed_gates(rubric: Rubric, tallies: list[CriterionTally], observed: Observations) -> Iterator[Flag]:
    """A flag for each gate that fails the case, at its finding or criterion. What did not apply fails nothing."""
    scores = {tally.criterion.key: tally.score for tally in tallies}
    for gate in rubric.scoring.gates:
        entries = len(observed.findings.get(gate.finding, ()))
        if entries:
            why = f"a finding that fails the case: {format_count(entries, 'entry', 'entries')}"
            yield Flag("gate", gate.finding, why=why)
        reached = scores.get(gate.criterion)
        if gate.least is not None and reached is not None and reached < to_fraction(gate.least):
            why = f"{_plain_or_none(reached)} is below the least, {gate.least}"
            yield Flag("gate", gate.criterion, why=why)


def _plain_confidence(value: object) -> Number | None:
    return None if value is None else to_plain_number(to_fraction(value))  # read as a number before


def _float_or_none(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _plain_or_none(value: Fraction | None) -> Number | None:
    return None if value is None else to_plain_number(value)


@dataclass(frozen=True, slots=True)
class VerdictHeader:
    """What a verdict says before any answer is read: whose, of what, by whom."""

    case: str
    rubric: Rubric
    judge: str

    def make_verdict(self, outcome: Outcome, detail: str = "") -> Verdict:
        """A verdict without numbers."""
        return Verdict(
            case=self.case,
            rubric=self.rubric.name,
            rubric_version=self.rubric.version,
            judge=self.judge,
            outcome=outcome,
            setting=self.rubric.setting or None,
            style=self.rubric.style.style if self.rubric.style else None,
            detail=detail,
            flags=_make_style_flags(self.rubric.style),
        )


def read_answer(rubric: Rubric, answer: str | JsonObject, context: AnswerContext = DEFAULT_CONTEXT) -> Observations:
    """Parse an answer and check it against the form of its rubric.

    Args:
        rubric: The rubric that was asked, with its style applied.
        answer: The answer's text, or its JSON object.
        context: What else is known about the answer.

    Raises:
        AnswerError: With everything that is wrong in the answer.
    """
    document, flags = parse_answer(answer) if isinstance(answer, str) else (answer, ())
    observed = observe_answer(document, rubric, context)
    return replace(observed, flags=(*flags, *observed.flags))


def score_answer(header: VerdictHeader, answer: str | JsonObject, context: AnswerContext = DEFAULT_CONTEXT) -> Verdict:
    """Return the verdict on an answer: `scored`, `refused`, or `invalid` with everything that is wrong in `detail`.

    Never raises for an answer, whatever is in it. The arguments are those of `read_answer`.
    """
    text = answer if isinstance(answer, str) else ""
    if is_refusal(text):
        return replace(header.make_verdict(Outcome.REFUSED, text), answer=text)
    try:
        observed = read_answer(header.rubric, answer, context)
    except AnswerError as error:
        return replace(header.make_verdict(Outcome.INVALID, str(error)), answer=text)
    return replace(make_scored_verdict(header, observed), answer=text)


def make_scored_verdict(header: VerdictHeader, observed: Observations, *, flags: tuple[Flag, ...] = ()) -> Verdict:
    """The verdict on observations that have been read; `flags` are added to theirs."""
    verdict = score_observations(header.make_verdict(Outcome.SCORED), header.rubric, observed)
    return replace(verdict, flags=(*verdict.flags, *flags)) if flags else verdict


def _make_style_flags(style: Style | None) -> tuple[Flag, ...]:
    if style is None or not style.generic:
        return ()
    hint = f" Did you mean {style.near}?" if style.near else ""
    why = f"no style has this name; the generic assertions were asked.{hint}"
    return (Flag("generic_style", "style", style.style, why),)


MIN_COVERAGE = Fraction(8, 10)

ScoreRange = tuple[Fraction, Fraction]


def measure_coverage(rubric: Rubric, observed: Observations) -> Coverage | None:
    """How much of what applies was answered; `None` where nothing was left open."""
    answers = [answer for criterion in rubric.criteria for answer in _list_answers(rubric, criterion, observed)]
    measured = sum(answer != "abstained" for answer in answers)
    if measured == len(answers):
        return None
    if any(criterion.assertions for criterion in rubric.criteria):
        what = "assertions"
    else:
        what = "factors" if rubric.scoring.kind is ScoringKind.FACTORS else "criteria"
    return Coverage(measured, len(answers), what)


def has_enough_coverage(rubric: Rubric, covered: Coverage | None) -> bool:
    """Whether there is enough to score the whole by what was answered."""
    if covered is None or rubric.scoring.kind is ScoringKind.FACTORS:
        return True
    return Fraction(covered.measured, covered.of) >= MIN_COVERAGE


def count_abstentions(rubric: Rubric, observed: Observations) -> dict[str, int]:
    """How much was left open, by criterion."""
    return {one.key: _list_answers(rubric, one, observed).count("abstained") for one in rubric.criteria}


def possible_score_range(rubric: Rubric, criterion: Criterion, no: int, abstained: int) -> ScoreRange:
    """Where the score of a criterion lies of which `no` assertions failed and others were left open."""
    low, high = map(to_fraction, criterion.scale)
    ceiling, guidance = rubric.scoring.ceiling, rubric.scoring.guidance
    if criterion.assertions and rubric.scoring.criterion_score == "given":
        if ceiling:
            high = to_fraction(ceiling[min(no, len(ceiling) - 1)])
        if guidance:
            low = max(low, to_fraction(guidance[min(no + abstained, len(guidance) - 1)]))
    return min(low, high), high


def possible_total_range(rubric: Rubric, ranges: Iterable[tuple[Criterion, ScoreRange]]) -> ScoreRange | None:
    """Where the total lies, given where each score that applies does; `None` where the rubric does not add up."""
    if rubric.scoring.kind is not ScoringKind.WEIGHTED_TOTAL:
        return None
    listed = list(ranges)
    most = sum((to_fraction(one.weight) * to_fraction(one.scale[1]) for one in rubric.criteria), Fraction(0))
    reachable = sum((to_fraction(one.weight) * to_fraction(one.scale[1]) for one, _ in listed), Fraction(0))
    if not reachable:
        return None
    low, high = (sum((to_fraction(one.weight) * ends[at] for one, ends in listed), Fraction(0)) for at in (0, 1))
    return low / reachable * most, high / reachable * most


def make_abstention_flag(left_open: dict[str, int], covered: Coverage) -> Flag:
    keys = ", ".join(key for key, count in left_open.items() if count)
    were = "was" if covered.open == 1 else "were"
    return Flag("abstained", keys, why=f"{covered.open} of {covered.of} {covered.what} {were} left open")


def _list_answers(rubric: Rubric, criterion: Criterion, observed: Observations) -> list[str]:
    """What was answered in a criterion, N/A aside: its assertions, and its score where they do not give one."""
    seen = observed.criteria[criterion.key]
    answers = [one.answer for one in seen.assertions.values() if one.answer != "not_applicable"]
    if not criterion.assertions:
        answers.append("abstained" if seen.abstained else "scored")
    elif answers and seen.abstained and not rubric.scoring.ceiling and rubric.scoring.criterion_score == "given":
        answers.append("abstained")
    return answers
