"""Score an answer: parse it, read what the judge observed, and compute every number in code.

All numbers are exact fractions until they are stored.

- A criterion's score stands unless its failed assertions allow only a lower one (`ceiling`). N/A answers leave the
  denominator. A criterion in which nothing applies leaves the total, which is rescaled to its full maximum and marked
  `partial`. Grades and thresholds are compared with the unrounded value.
- A judge's own arithmetic is checked: what it computed wrongly becomes a correction. A claimed number is right when it
  is the exact one rounded to as many decimals as it was given with.
- A judge may abstain where it only measures. How much was answered is the verdict's `coverage`. From `MIN_COVERAGE` up,
  abstentions leave the denominator like N/A answers. Below it the verdict is `unmeasured`: a criterion with an
  abstention has a range instead of a score, and the whole has neither score nor grade but the range of totals that the
  missing answers allow. A criterion that was answered in full keeps its score. The rule is the same for factors, whose
  mean is the score. A range goes from the rubric's guidance (without guidance, the lower end of the scale) if every
  missing assertion failed, to its ceiling if every one passed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import isfinite

from beholder.errors import AnswerError
from beholder.rubrics.brief import GIVEN
from beholder.rubrics.rubric import Criterion, Number, Rubric, ScoringKind, Style, to_fraction
from beholder.verdicts.answer_fields import OVERALL_CLAIMS
from beholder.verdicts.observe import (
    DEFAULT_CONTEXT,
    AnswerContext,
    Observations,
    ObservedCriterion,
    observe_answer,
)
from beholder.verdicts.parse import JsonObject, is_refusal, parse_answer, parse_count, parse_number
from beholder.verdicts.preference import make_preference_verdict, observe_preference, parse_preference
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

ScoreRange = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class VerdictHeader:
    """What a verdict says before any answer is read: the case, the rubric and the judge.

    `part` is that of the brief that is answered (`Brief.part`), for a rubric that asks several about a case.
    """

    case: str
    rubric: Rubric
    judge: str
    part: str = ""

    def make_verdict(self, outcome: Outcome, detail: str = "") -> Verdict:
        """Return a verdict without numbers."""
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


def _make_style_flags(style: Style | None) -> tuple[Flag, ...]:
    if style is None or not style.generic:
        return ()
    hint = f" Did you mean {style.near}?" if style.near else ""
    why = f"no style has this name; the generic assertions were asked.{hint}"
    return (Flag("generic_style", "style", style.style, why),)


def read_answer(rubric: Rubric, answer: str | JsonObject, context: AnswerContext = DEFAULT_CONTEXT) -> Observations:
    """Parse an answer and check it against the form of its rubric.

    Args:
        rubric: The rubric that was asked, with its style applied.
        answer: The answer's text, or its JSON object.
        context: What else is known about the answer.

    Raises:
        AnswerError: With everything that is wrong in the answer.
    """
    parse, observe = (parse_preference, observe_preference) if rubric.is_preference else (parse_answer, observe_answer)
    document, flags = parse(answer) if isinstance(answer, str) else (answer, ())
    observed = observe(document, rubric, context)
    return replace(observed, flags=(*flags, *observed.flags))


def score_answer(header: VerdictHeader, answer: str | JsonObject, context: AnswerContext = DEFAULT_CONTEXT) -> Verdict:
    """Return the verdict on an answer: `scored`, `unmeasured`, `refused`, or `invalid` (`detail` says why).

    Never raises, whatever is in the answer. For the arguments see `read_answer`.
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
    """Return the verdict on the observations of a valid answer: `scored`, or `unmeasured`.

    Args:
        header: The case, the rubric and the judge.
        observed: What `read_answer` returned, so that something in it applies.
        flags: Flags to add to those of the observations.
    """
    rubric = header.rubric
    verdict = header.make_verdict(Outcome.SCORED)
    if rubric.is_preference:
        verdict = make_preference_verdict(verdict, rubric, observed, header.part or GIVEN)
        return replace(verdict, flags=(*verdict.flags, *flags))
    all_flags = [*verdict.flags, *observed.flags]
    corrections: list[Correction] = []
    tallies: list[CriterionTally] = []
    coverage, abstentions = _measure_coverage(rubric, observed)
    scorable = coverage is None or coverage.is_enough
    for criterion in rubric.criteria:
        tally, score_corrections = _tally_criterion(
            rubric, criterion, observed.criteria[criterion.key], abstentions[criterion.key], scorable
        )
        tallies.append(tally)
        all_flags += _flag_below_guidance(rubric, tally)
        corrections += [*score_corrections, *_check_criterion_claims(tally)]
    if coverage:
        all_flags.append(_make_abstention_flag(abstentions, coverage))
    not_applying = [tally.criterion.key for tally in tallies if not tally.observed.applies]
    if not_applying:
        all_flags.append(Flag("partial", ", ".join(not_applying), why="nothing in it applied; the total was rescaled"))
    failed_gates = list(_find_failed_gates(rubric, tallies, observed))
    overall = _compute_overall(rubric, tallies, gate_failed=bool(failed_gates), scorable=scorable)
    corrections += _check_overall_claims(rubric, tallies, overall, observed.claims)
    if overall.score is None and coverage:
        verdict = replace(verdict, outcome=Outcome.UNMEASURED, detail=coverage.sentence)
    return replace(
        verdict,
        criteria={tally.criterion.key: _make_criterion_result(tally) for tally in tallies},
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
        flags=(*all_flags, *failed_gates, *flags),
        corrections=tuple(corrections),
        measurements=observed.measurements,
        coverage=coverage,
        total_range=_compute_total_range(rubric, tallies) if coverage else None,
        places=observed.places or None,
    )


@dataclass(frozen=True, slots=True)
class CriterionTally:
    """The exact numbers of a criterion.

    Attributes:
        score: `None` where nothing applied or too much was not answered.
        range: Where the score lies, if there are abstentions.
    """

    criterion: Criterion
    observed: ObservedCriterion
    score: Fraction | None
    yes: int
    no: int
    not_applicable: int
    mean_confidence: Fraction | None = None
    abstained: int = 0
    range: ScoreRange | None = None


@dataclass(frozen=True, slots=True)
class OverallScore:
    """The exact numbers of the whole. `total` and `max_total` are there only for `weighted_total`; `score` is `None`
    where too much was not answered."""

    score: Fraction | None
    total: Fraction | None
    max_total: Fraction | None
    grade: str | None
    passed: bool | None

    @property
    def percentage(self) -> Fraction | None:
        return None if self.total is None or not self.max_total else self.total / self.max_total * 100


def _tally_criterion(
    rubric: Rubric, criterion: Criterion, observed: ObservedCriterion, abstained: int, scorable: bool
) -> tuple[CriterionTally, list[Correction]]:
    """Return the numbers of a criterion, and the correction of its score where code overrules the judge."""
    answers = [observed.assertions[assertion.id].answer for assertion in criterion.assertions]
    yes, no, not_applicable = (answers.count(kind) for kind in ("yes", "no", "not_applicable"))
    given = None if observed.score is None else to_fraction(observed.score)
    range_ = _possible_score_range(rubric, criterion, no, abstained) if abstained else None
    tally = CriterionTally(criterion, observed, None, yes, no, not_applicable, abstained=abstained, range=range_)
    score, why = given, ""
    if not observed.applies:
        score, why = None, "none of its assertions applied"
    elif abstained and (not scorable or not yes + no):
        score, why = None, f"{format_count(abstained, 'answer')} left open"
    elif rubric.scoring.criterion_score == "confidence":
        answered = (assertion for assertion in observed.assertions.values() if assertion.answer in ("yes", "no"))
        confidence = sum((to_fraction(assertion.confidence or 0) for assertion in answered), Fraction(0)) / (yes + no)
        score = min(Fraction(yes, yes + no) * confidence, to_fraction(criterion.scale[1]))
        # What the judge claims as its score is compared with the other claims.
        return replace(tally, score=score, mean_confidence=confidence), []
    elif rubric.scoring.ceiling and criterion.assertions:
        ceiling = _step_for(rubric.scoring.ceiling, no)
        if given is None or given > ceiling:  # without a score of its own, a judge that abstained gets the ceiling
            allow = "assertion allows" if no == 1 else "assertions allow"
            score, why = ceiling, f"{no} failed {allow} at most {to_plain_number(ceiling)}"
    corrections = []
    if given is not None and score != given:
        corrections = [Correction(f"{criterion.key}.score", to_plain_number(given), _plain_or_none(score), why)]
    return replace(tally, score=score), corrections


def _step_for(steps: Sequence[Number], failed: int) -> Fraction:
    """Return the ceiling or guidance for a number of failed assertions; the last step counts also for more.

    The review form shows the same rule while a person answers: `noteCeiling` in `web/static/review.js`.
    """
    return to_fraction(steps[min(failed, len(steps) - 1)])


def _flag_below_guidance(rubric: Rubric, tally: CriterionTally) -> list[Flag]:
    if not rubric.scoring.guidance or not tally.criterion.assertions or tally.score is None:
        return []
    lowest = _step_for(rubric.scoring.guidance, tally.no)
    if tally.score >= lowest:
        return []
    suggest = "suggests" if tally.no == 1 else "suggest"
    why = f"{format_count(tally.no, 'failed assertion')} {suggest} at least {to_plain_number(lowest)}; the score stands"
    return [Flag("below_guidance", f"{tally.criterion.key}.score", to_plain_number(tally.score), why)]


def _make_criterion_result(tally: CriterionTally) -> CriterionResult:
    criterion, observed = tally.criterion, tally.observed
    return CriterionResult(
        score=_plain_or_none(tally.score),
        reported=_plain_number(observed.score),
        scale=criterion.scale,
        weight=criterion.weight,
        reason=observed.reason,
        yes=tally.yes,
        no=tally.no,
        not_applicable=tally.not_applicable,
        assertions=tuple(
            AssertionResult(
                id=assertion.id,
                question=observed.assertions[assertion.id].question or assertion.text,
                answer=observed.assertions[assertion.id].answer,
                evidence=observed.assertions[assertion.id].evidence,
                confidence=_plain_number(observed.assertions[assertion.id].confidence),
            )
            for assertion in criterion.assertions
        ),
        abstained=tally.abstained,
        score_range=None if tally.range is None else (to_plain_number(tally.range[0]), to_plain_number(tally.range[1])),
    )


def _compute_overall(
    rubric: Rubric, tallies: list[CriterionTally], *, gate_failed: bool, scorable: bool
) -> OverallScore:
    scored = [(tally.criterion, tally.score) for tally in tallies if tally.score is not None]
    max_total = _max_points(rubric.criteria) if rubric.scoring.kind is ScoringKind.WEIGHTED_TOTAL else None
    if not scorable or not any(criterion.weight > 0 for criterion, _ in scored):
        return OverallScore(None, None, max_total, None, False if gate_failed else None)
    total = None
    if max_total is not None:
        value = _weigh(scored) / _max_points(criterion for criterion, _ in scored)
        total = value * max_total
    else:
        positions = ((criterion, _position_on_scale(criterion, score)) for criterion, score in scored)
        value = _weigh(positions) / _weigh((criterion, Fraction(1)) for criterion, _ in scored)
    return OverallScore(value, total, max_total, _find_grade(rubric, value), _is_passed(rubric, value, gate_failed))


def _compute_total_range(rubric: Rubric, tallies: list[CriterionTally]) -> tuple[float, float] | None:
    """Return where the total lies, whatever the missing answers are; `None` where the rubric has no total."""
    if rubric.scoring.kind is not ScoringKind.WEIGHTED_TOTAL:
        return None
    ranges: list[tuple[Criterion, ScoreRange]] = []
    for tally in tallies:
        if tally.range is not None:
            ranges.append((tally.criterion, tally.range))
        elif tally.score is not None:
            ranges.append((tally.criterion, (tally.score, tally.score)))
    reachable = _max_points(criterion for criterion, _ in ranges)
    if not reachable:
        return None
    factor = _max_points(rubric.criteria) / reachable
    low, high = (_weigh((criterion, ends[end]) for criterion, ends in ranges) * factor for end in (0, 1))
    return float(low), float(high)


def _weigh(values: Iterable[tuple[Criterion, Fraction]]) -> Fraction:
    """Return the sum of weight × value."""
    return sum((to_fraction(criterion.weight) * value for criterion, value in values), Fraction(0))


def _max_points(criteria: Iterable[Criterion]) -> Fraction:
    """Return the highest weighted sum that these criteria can reach."""
    return _weigh((criterion, to_fraction(criterion.scale[1])) for criterion in criteria)


def _position_on_scale(criterion: Criterion, score: Fraction) -> Fraction:
    """Return where a score lies on its scale, 0–1."""
    low, high = map(to_fraction, criterion.scale)
    return (score - low) / (high - low)


def _find_grade(rubric: Rubric, value: Fraction) -> str | None:
    measured = value * 100 if rubric.scoring.kind is ScoringKind.WEIGHTED_TOTAL else value
    return next((grade.grade for grade in rubric.scoring.grades if measured >= to_fraction(grade.least)), None)


def _is_passed(rubric: Rubric, value: Fraction, gate_failed: bool) -> bool | None:
    scoring = rubric.scoring
    if scoring.threshold is None and not scoring.gates:
        return None
    return not gate_failed and (scoring.threshold is None or value >= to_fraction(scoring.threshold))


def _find_failed_gates(rubric: Rubric, tallies: list[CriterionTally], observed: Observations) -> Iterator[Flag]:
    """Return a flag for each gate that fails the case, at its finding or criterion. N/A fails nothing."""
    scores = {tally.criterion.key: tally.score for tally in tallies}
    for gate in rubric.scoring.gates:
        entries = len(observed.findings.get(gate.finding, ()))
        if entries:
            why = f"a finding that fails the case: {format_count(entries, 'entry', 'entries')}"
            yield Flag("gate", gate.finding, why=why)
        score = scores.get(gate.criterion)
        if gate.least is not None and score is not None and score < to_fraction(gate.least):
            yield Flag("gate", gate.criterion, why=f"{to_plain_number(score)} is below the least, {gate.least}")


def _check_criterion_claims(tally: CriterionTally) -> Iterator[Correction]:
    """Return where a criterion's claimed pass rate, counts or sums differ from what its answers give."""
    if not tally.criterion.assertions:
        return
    truths: dict[str, object] = {
        "pass_rate": (tally.yes, tally.yes + tally.no),
        "passed": Fraction(tally.yes),
        "total": Fraction(tally.yes + tally.no),
        "avg_confidence": tally.mean_confidence,
        "weighted_score": None if tally.score is None else tally.score * to_fraction(tally.criterion.weight),
    }
    claims = tally.observed.claims
    if tally.mean_confidence is not None:
        truths["score"] = tally.score
        if tally.observed.score is not None:
            claims = {**claims, "score": tally.observed.score}
    yield from _find_differences(f"{tally.criterion.key}.", truths, claims)


def _check_overall_claims(
    rubric: Rubric, tallies: list[CriterionTally], overall: OverallScore, claims: Mapping[str, object]
) -> Iterator[Correction]:
    """Return where claimed totals, percentages, grades or passes differ from the computed ones."""
    yes = sum(tally.yes for tally in tallies)
    answered = sum(tally.yes + tally.no for tally in tallies)
    truths: dict[str, object] = {
        "score": overall.score if rubric.format == "description" else None,
        "passed": overall.passed,
        "grade": overall.grade,
        "percentage": overall.percentage,
        "weighted_total": overall.total,
        "max_score": overall.max_total,
    }
    if answered:
        truths |= {
            "total_assertions": Fraction(answered),
            "total_passed": Fraction(yes),
            "overall_pass_rate": (yes, answered),
        }
    for name in OVERALL_CLAIMS:
        truths[name] = _find_overall_truth(rubric, overall, claims.get(name, claims.get(f"summary.{name}")))
    return _find_differences("", truths, claims)


def _find_overall_truth(rubric: Rubric, overall: OverallScore, claim: object) -> Fraction | None:
    """Return the number that a claimed overall score should be: in whichever unit it is right, else in the rubric's.

    `None` where there is no score, and for factors: no overall score of theirs is defined that a judge could compute.
    """
    if overall.score is None or rubric.scoring.kind is ScoringKind.FACTORS:
        return None
    units = [overall.score if overall.total is None else overall.total, overall.score, overall.score * 100]
    scales = {criterion.scale for criterion in rubric.criteria}
    if overall.total is None and len(scales) == 1:
        low, high = map(to_fraction, scales.pop())
        units.append(low + overall.score * (high - low))
    return next((unit for unit in units if _agrees(claim, unit)), units[0])


def _find_differences(prefix: str, truths: Mapping[str, object], claims: Mapping[str, object]) -> Iterator[Correction]:
    for name, truth in truths.items():
        for key in (name, f"summary.{name}"):
            claim = claims.get(key)
            if claim is not None and truth is not None and not _agrees(claim, truth):
                plain = float(claim) if isinstance(claim, Decimal) and isfinite(claim) else claim
                yield Correction(f"{prefix}{key}", plain, _format_truth(truth), "computed from the answer")


def _agrees(claim: object, truth: object) -> bool:
    if isinstance(truth, tuple):
        return parse_count(claim) == truth
    if isinstance(truth, bool | str):
        return claim == truth
    number = parse_number(claim)
    if number is None or not isinstance(truth, Fraction) or not -(10**6) <= number <= 10**6:
        return False
    decimals = min(12, max(0, -int(Decimal(number).as_tuple().exponent)))  # more decimals are a double's noise
    return abs(Fraction(number) - truth) <= Fraction(1, 2 * 10**decimals)


def _format_truth(truth: object) -> object:
    if isinstance(truth, tuple):
        return f"{truth[0]}/{truth[1]}"
    return to_plain_number(truth) if isinstance(truth, Fraction) else truth


def _measure_coverage(rubric: Rubric, observed: Observations) -> tuple[Coverage | None, dict[str, int]]:
    """Return how much of what applies was answered (`None` for all of it), and the abstentions by criterion."""
    answers = {criterion.key: _list_answers(rubric, criterion, observed) for criterion in rubric.criteria}
    abstentions = {key: given.count("abstained") for key, given in answers.items()}
    total, abstained = sum(map(len, answers.values())), sum(abstentions.values())
    if not abstained:
        return None, abstentions
    if any(criterion.assertions for criterion in rubric.criteria):
        what = "assertions"
    else:
        what = "factors" if rubric.scoring.kind is ScoringKind.FACTORS else "criteria"
    return Coverage(total - abstained, total, what), abstentions


def _list_answers(rubric: Rubric, criterion: Criterion, observed: Observations) -> list[str]:
    """Return the answers in a criterion without N/A: its assertions, and its score where they do not give one."""
    observed_criterion = observed.criteria[criterion.key]
    answers = [
        assertion.answer for assertion in observed_criterion.assertions.values() if assertion.answer != "not_applicable"
    ]
    if not criterion.assertions:
        answers.append("abstained" if observed_criterion.abstained else "scored")
    elif (
        answers
        and observed_criterion.abstained
        and not rubric.scoring.ceiling
        and rubric.scoring.criterion_score == "given"
    ):
        answers.append("abstained")
    return answers


def _possible_score_range(rubric: Rubric, criterion: Criterion, no: int, abstained: int) -> ScoreRange:
    """Return where the score of a criterion lies of which `no` assertions failed and `abstained` were not answered."""
    low, high = map(to_fraction, criterion.scale)
    scoring = rubric.scoring
    if criterion.assertions and scoring.criterion_score == "given":
        if scoring.ceiling:
            high = _step_for(scoring.ceiling, no)
        if scoring.guidance:
            low = max(low, _step_for(scoring.guidance, no + abstained))
    return min(low, high), high


def _make_abstention_flag(abstentions: Mapping[str, int], coverage: Coverage) -> Flag:
    keys = ", ".join(key for key, count in abstentions.items() if count)
    were = "was" if coverage.open == 1 else "were"
    return Flag("abstained", keys, why=f"{coverage.open} of {coverage.of} {coverage.what} {were} left open")


def _plain_number(value: int | Decimal | None) -> Number | None:
    return None if value is None else to_plain_number(to_fraction(value))


def _plain_or_none(value: Fraction | None) -> Number | None:
    return None if value is None else to_plain_number(value)


def _float_or_none(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
