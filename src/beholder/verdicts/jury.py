"""A jury: several answers to one rubric become one set of observations, which is scored once.

Each juror's answer was checked alone. An assertion goes by the majority of those who found it applicable, a tie counts
as No and is flagged; it is N/A where most said so. Scores and confidences are medians (between two middle values their
mean). Who abstained takes no part, and what all abstained from stays open. A list of findings stands where most jurors
filled it, and is then everything they named. The words beside a score are those of the juror nearest to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from statistics import median
from typing import Protocol

from beholder.rubrics.rubric import Assertion, Criterion, Number, Rubric, to_fraction
from beholder.verdicts.observe import Observations, ObservedAssertion, ObservedCriterion
from beholder.verdicts.score import VerdictHeader, make_scored_verdict
from beholder.verdicts.verdict import Flag, Juror, Jury, Outcome, Verdict, sum_if_known, to_plain_number


def combine_observations(rubric: Rubric, jurors: Sequence[Observations | None]) -> Observations:
    """The jury's observations. `jurors` are all of its members in order, `None` for one without an answer, so that a
    flag names the juror by its place. A single answer is taken as it is."""
    seated = [(place, one) for place, one in enumerate(jurors, 1) if one is not None]
    answers = [one for _, one in seated]
    own = [replace(flag, at=f"juror {place}: {flag.at}") for place, one in seated for flag in one.flags]
    if len(answers) == 1:
        return answers[0] if len(jurors) == 1 else replace(answers[0], flags=tuple(own))
    flags: list[Flag] = []
    criteria = {
        criterion.key: _combine_criterion(criterion, [one.criteria[criterion.key] for one in answers], flags)
        for criterion in rubric.criteria
    }
    findings = {
        finding.key: _combine_finding([one.findings.get(finding.key, ()) for one in answers])
        for finding in rubric.findings
    }
    assessment = next((one.assessment for one in answers if one.assessment), "")
    measurements = next((one.measurements for one in answers if one.measurements), {})
    return Observations(criteria, findings, assessment, {}, (*own, *flags), measurements)


def compute_spread(rubric: Rubric, verdicts: Sequence[Verdict]) -> dict[str, Number]:
    """Highest minus lowest score of the jurors who scored, by criterion, and of the overall `score`."""
    spreads: dict[str, Number] = {}
    for criterion in rubric.criteria:
        scores = [verdict.criteria[criterion.key].score for verdict in verdicts]
        given = [to_fraction(score) for score in scores if score is not None]
        if given:
            spreads[criterion.key] = to_plain_number(max(given) - min(given))
    overall = [to_fraction(verdict.score) for verdict in verdicts if verdict.score is not None]
    if overall:
        spreads["score"] = to_plain_number(max(overall) - min(overall))
    return spreads


def compute_agreement(answers: Sequence[Observations]) -> float | None:
    """The share of assertions that all answered alike, of those that two or more jurors answered; `None` where there
    are none."""
    votes: dict[str, list[str]] = {}
    for one in answers:
        for criterion in one.criteria.values():
            for id_, assertion in criterion.assertions.items():
                if assertion.answer != "abstained":
                    votes.setdefault(id_, []).append(assertion.answer)
    several = [said for said in votes.values() if len(said) > 1]
    return sum(len(set(said)) == 1 for said in several) / len(several) if several else None


def _combine_criterion(criterion: Criterion, seen: Sequence[ObservedCriterion], flags: list[Flag]) -> ObservedCriterion:
    score = _exact_median([one.score for one in seen])
    speaking = [one for one in seen if not one.abstained] or seen
    nearest = min(speaking, key=lambda one: abs(Decimal(one.score or 0) - Decimal(score or 0)))
    assertions = {
        one.id: _combine_assertion(one, [member.assertions[one.id] for member in seen], flags)
        for one in criterion.assertions
    }
    return ObservedCriterion(score, nearest.reason, assertions, abstained=all(one.abstained for one in seen))


def _combine_assertion(assertion: Assertion, seen: Sequence[ObservedAssertion], flags: list[Flag]) -> ObservedAssertion:
    seen = [one for one in seen if one.answer != "abstained"] or seen
    answers = [one.answer for one in seen]
    if "abstained" in answers:
        return seen[0]
    yes, no, not_applicable = (answers.count(kind) for kind in ("yes", "no", "not_applicable"))
    if not_applicable > yes + no:
        answer = "not_applicable"
    else:
        answer = "yes" if yes > no else "no"
        if yes == no:
            flags.append(Flag("tie", assertion.id, f"{yes} yes, {no} no", "a tie counts as No"))
    agreeing = [one for one in seen if one.answer == answer]
    confidence = _exact_median([one.confidence for one in agreeing])
    return ObservedAssertion(answer, agreeing[0].evidence, confidence, agreeing[0].question)


def _combine_finding(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    filled = [one for one in lists if one]
    if 2 * len(filled) <= len(lists):
        return ()
    return tuple({text.casefold(): text for one in filled for text in one}.values())


def _exact_median(values: Sequence[int | Decimal | None]) -> int | Decimal | None:
    given = [Decimal(value) for value in values if value is not None]
    if not given:
        return None
    middle = median(given)
    return int(middle) if middle == int(middle) else middle


class JuryMember(Protocol):
    """What a jury needs to know of each juror (a `judges.conversation.Conversation`): its verdict, the observations
    behind it where it is scored, those flags that say how its answer came about, and the number of its sample."""

    @property
    def verdict(self) -> Verdict: ...

    @property
    def observed(self) -> Observations | None: ...

    @property
    def flags(self) -> tuple[Flag, ...]: ...

    @property
    def sample(self) -> int: ...


def combine_verdicts(header: VerdictHeader, asked: Sequence[JuryMember]) -> Verdict:
    """Return one verdict from many. A juror without a score is counted, and takes no part in any number."""
    verdicts = [one.verdict for one in asked]
    jurors = [one.observed for one in asked]
    answers = [one for one in jurors if one is not None]
    failed = Counter(verdict.outcome for verdict in verdicts if not verdict.scored)
    said = ", ".join(f"{count} {outcome}" for outcome, count in failed.items())
    if Outcome.OVER_BUDGET in failed:  # not a juror that failed, but one that is yet to be asked
        verdict = header.make_verdict(Outcome.OVER_BUDGET, f"not all jurors could be asked: {said}")
    elif answers:
        flags = _carry_juror_flags(asked)
        if failed:
            flags += (Flag("jurors_failed", said=said, why="they take no part in the scores"),)
        verdict = make_scored_verdict(header, combine_observations(header.rubric, jurors), flags=flags)
    else:
        verdict = header.make_verdict(failed.most_common(1)[0][0], f"no juror has a score: {said}")
    scored = [one for one in verdicts if one.scored]
    models = {one.model for one in scored}
    return replace(
        verdict,
        model=models.pop() if len(models) == 1 else None,
        jury=Jury(
            answered=len(scored),
            failed=len(verdicts) - len(scored),
            spread=compute_spread(header.rubric, scored),
            agreement=compute_agreement(answers),
            jurors=tuple(_make_juror(one.verdict, one.sample) for one in asked),
        ),
        images=next((one.images for one in verdicts if one.images), ()),
        usage={name: sum_if_known([one.usage.get(name) for one in verdicts]) for name in verdicts[0].usage},
        cost_usd=sum_if_known([one.cost_usd for one in verdicts]),
        latency_s=max((one.latency_s for one in verdicts if one.latency_s is not None), default=None),
        attempts=sum(one.attempts for one in verdicts),
        brief_digest=verdicts[0].brief_digest,
    )


def _carry_juror_flags(asked: Sequence[JuryMember]) -> tuple[Flag, ...]:
    """Flags about what jurors were sent and how they were asked; those about what they said come with `combine`."""
    return tuple(
        replace(flag, at=f"juror {place}: {flag.at}")
        for place, one in enumerate(asked, 1)
        for flag in one.verdict.flags
        if flag in one.flags or flag.at in {image.role for image in one.verdict.images}
    )


def _make_juror(verdict: Verdict, sample: int) -> Juror:
    return Juror(
        judge=verdict.judge,
        sample=sample,
        outcome=verdict.outcome,
        score=verdict.score,
        criteria={key: result.score for key, result in verdict.criteria.items()},
        detail=verdict.detail,
        model=verdict.model,
        flags=verdict.flags,
        corrections=verdict.corrections,
        images=verdict.images,
        brief_digest=verdict.brief_digest,
    )
