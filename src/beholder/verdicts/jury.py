"""Combine answers into one verdict: those to the parts of a case's question first, then those of a jury.

A part is one of several briefs about a case, such as one order of two candidates (`Composer.list_parts`). The verdict
of a judge needs all of them: where one has no answer, its outcome is that of the whole, and the answers that there are
stay in the cache, so that a resume asks only for the others.

Of a jury the observations of all jurors are combined, and the result is scored once. An assertion goes by the majority
of those who found it applicable; a tie counts as No and is flagged; it is N/A where most said so. Scores and
confidences are medians (between two middle values their mean). A juror who abstained takes no part; what all abstained
from stays an abstention. A list of findings counts where most jurors filled it, and is then everything they named. The
reason beside a score is that of the juror nearest to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import median
from typing import Any, Protocol

from beholder.cases.case import number_repeats
from beholder.rubrics.rubric import Assertion, Criterion, Number, Rubric, to_fraction
from beholder.verdicts.observe import Observations, ObservedAssertion, ObservedCriterion, explain_nothing_applies
from beholder.verdicts.preference import combine_jurors, combine_orders, compute_choice_agreement, list_answers
from beholder.verdicts.score import VerdictHeader, make_scored_verdict
from beholder.verdicts.verdict import (
    Flag,
    Juror,
    Jury,
    Outcome,
    Preference,
    Verdict,
    sum_if_known,
    to_plain_number,
)


class JuryMember(Protocol):
    """What a jury needs to know of each juror (a `judges.conversation.Conversation`)."""

    @property
    def verdict(self) -> Verdict:
        """Its verdict."""

    @property
    def observed(self) -> Observations | None:
        """The observations behind an answered verdict."""

    @property
    def flags(self) -> tuple[Flag, ...]:
        """The flags of the verdict that say how the answer came about (a repair, a retry)."""

    @property
    def sample(self) -> int:
        """The number of its sample."""

    @property
    def part(self) -> str:
        """The part of the question that it answered."""


@dataclass(frozen=True, slots=True)
class CombinedParts:
    """One juror whose verdict comes from several briefs about a case: a `JuryMember`.

    It is combined with others by its verdict alone, which has all flags; so there are no observations.
    """

    verdict: Verdict
    sample: int
    observed: None = None
    flags: tuple[Flag, ...] = ()
    part: str = ""


# Of several outcomes of its parts a verdict has the first of these: no other answer could change the first two, and
# what was not asked for lack of money is asked later.
_FAILURES_FIRST = (Outcome.REFUSED, Outcome.FILTERED, Outcome.OVER_BUDGET)


def combine_parts(header: VerdictHeader, members: Sequence[JuryMember]) -> CombinedParts:
    """Return the verdict of one judge on a preference from its answers to all parts, in the same sample.

    Args:
        header: The case, the rubric and the judge.
        members: The conversations about the parts, in order.
    """
    verdicts = [member.verdict for member in members]
    answers = tuple(answer for member in members for answer in list_answers(member.verdict, member.part, member.sample))
    flags = _merge_part_flags(members)
    failed = [member for member in members if not member.verdict.answered]
    if failed:
        first = min(failed, key=lambda one: _rank_failure(one.verdict.outcome))
        where = f"{first.part} order: " if len(members) > 1 else ""
        verdict = header.make_verdict(first.verdict.outcome, where + first.verdict.detail)
        verdict = replace(
            verdict, preference=Preference(None, answers=answers), finish=first.verdict.finish, flags=flags
        )
    else:
        base = header.make_verdict(Outcome.SCORED)
        verdict = combine_orders(replace(base, flags=flags), verdicts, answers)
        verdict = replace(verdict, finish=verdicts[0].finish)
    models = {one.model for one in verdicts if one.model is not None}
    verdict = replace(
        verdict,
        model=models.pop() if len(models) == 1 else None,
        answer=verdicts[0].answer if len(members) == 1 else "",
        **sum_calls(verdicts),
    )
    return CombinedParts(verdict, members[0].sample)


def _rank_failure(outcome: Outcome) -> int:
    return _FAILURES_FIRST.index(outcome) if outcome in _FAILURES_FIRST else len(_FAILURES_FIRST)


def _merge_part_flags(members: Sequence[JuryMember]) -> tuple[Flag, ...]:
    """Return the flags of all parts: those that all have once, the others with their part in `at`."""
    flags: list[Flag] = []
    for member in members:
        for flag in member.verdict.flags:
            is_shared = all(flag in other.verdict.flags for other in members)
            place = f"{member.part}: {flag.at}" if flag.at else member.part
            named = flag if is_shared else replace(flag, at=place)
            if named not in flags:
                flags.append(named)
    return tuple(flags)


def sum_calls(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return what all calls together used, by the names of `Verdict`."""
    return {
        "images": next((verdict.images for verdict in verdicts if verdict.images), ()),
        "usage": {name: sum_if_known([one.usage.get(name) for one in verdicts]) for name in verdicts[0].usage},
        "cost_usd": sum_if_known([verdict.cost_usd for verdict in verdicts]),
        "latency_s": max((one.latency_s for one in verdicts if one.latency_s is not None), default=None),
        "attempts": sum(verdict.attempts for verdict in verdicts),
        "brief_digest": verdicts[0].brief_digest,
    }


def combine_verdicts(header: VerdictHeader, jurors: Sequence[JuryMember]) -> Verdict:
    """Return the verdict of a jury. A juror without an answer is counted, and takes no part in any number. One that is
    `unmeasured` takes part with what it answered, and has no score of its own.

    Args:
        header: The case, the rubric, and the name of the jury as its judge.
        jurors: All jurors, in order.
    """
    verdicts = [juror.verdict for juror in jurors]
    observations = [juror.observed for juror in jurors]
    failed = Counter(verdict.outcome for verdict in verdicts if not verdict.answered)
    failures = ", ".join(f"{count} {outcome}" for outcome, count in failed.items())
    if Outcome.OVER_BUDGET in failed:  # not a juror that failed, but one that is yet to be asked
        verdict = header.make_verdict(Outcome.OVER_BUDGET, f"not all jurors could be asked: {failures}")
    elif any(verdict.answered for verdict in verdicts):
        missing = (Flag("jurors_failed", said=failures, why="they take no part in the scores"),) if failed else ()
        if header.rubric.is_preference:  # combined from verdicts, and not from observations
            base = header.make_verdict(Outcome.SCORED)
            said = _name_jurors((position, verdict.flags) for position, verdict in enumerate(verdicts, 1))
            verdict = combine_jurors(replace(base, flags=(*base.flags, *said, *missing)), verdicts)
        else:
            verdict = score_jury(header, observations, (*_carry_juror_flags(jurors), *missing))
    else:
        verdict = header.make_verdict(failed.most_common(1)[0][0], f"no juror has a score: {failures}")
    if header.rubric.is_preference and verdict.preference is None:
        kept = tuple(answer for one in verdicts if one.preference for answer in one.preference.answers)
        verdict = replace(verdict, preference=Preference(None, answers=kept))
    answered = [verdict for verdict in verdicts if verdict.answered]
    models = {verdict.model for verdict in answered}
    return replace(
        verdict,
        model=models.pop() if len(models) == 1 else None,
        jury=Jury(
            answered=sum(verdict.scored for verdict in verdicts),
            failed=failed.total(),
            spread=compute_spread(header.rubric, answered),
            agreement=compute_choice_agreement(answered)
            if header.rubric.is_preference
            else compute_agreement([observation for observation in observations if observation is not None]),
            jurors=tuple(_make_juror(juror.verdict, juror.sample) for juror in jurors),
        ),
        **sum_calls(verdicts),
    )


def score_jury(header: VerdictHeader, jurors: Sequence[Observations | None], flags: tuple[Flag, ...] = ()) -> Verdict:
    """Combine the observations of all jurors and score them; for `jurors` see `combine_observations`.

    Something applies in each answer, but perhaps not in the combination, which is then `invalid`.
    """
    observed = combine_observations(header.rubric, jurors)
    if nothing := explain_nothing_applies(header.rubric, observed):
        verdict = header.make_verdict(Outcome.INVALID, nothing)
        return replace(verdict, flags=(*verdict.flags, *observed.flags, *flags))
    return make_scored_verdict(header, observed, flags=flags)


def combine_observations(rubric: Rubric, jurors: Sequence[Observations | None]) -> Observations:
    """Return the jury's observations.

    Args:
        rubric: The rubric that all were asked.
        jurors: The observations of all jurors in order, `None` for one without an answer, so that a flag can name the
            juror by its position. A single answer is taken as it is.
    """
    answers = [juror for juror in jurors if juror is not None]
    juror_flags = _name_jurors((position, juror.flags) for position, juror in enumerate(jurors, 1) if juror is not None)
    if len(answers) == 1:
        return answers[0] if len(jurors) == 1 else replace(answers[0], flags=juror_flags)
    criteria: dict[str, ObservedCriterion] = {}
    ties: list[Flag] = []
    for criterion in rubric.criteria:
        criteria[criterion.key], flags = _combine_criterion(
            criterion, [answer.criteria[criterion.key] for answer in answers]
        )
        ties += flags
    findings = {
        finding.key: _combine_finding([answer.findings.get(finding.key, ()) for answer in answers])
        for finding in rubric.findings
    }
    assessment = next((answer.assessment for answer in answers if answer.assessment), "")
    measurements = next((answer.measurements for answer in answers if answer.measurements), {})
    # The lists of findings are put together anew, so that the numbers in them say nothing any more.
    places = tuple(
        place for answer in answers for place in answer.places if place.at.rpartition(".")[0] not in findings
    )
    return Observations(
        criteria, findings, assessment, {}, (*juror_flags, *ties), measurements, places=tuple(dict.fromkeys(places))
    )


def compute_spread(rubric: Rubric, verdicts: Sequence[Verdict]) -> dict[str, Number]:
    """Return the highest minus the lowest score of the jurors who scored, by criterion, and of the overall `score`."""
    columns: list[tuple[str, list[Number | None]]] = [
        (criterion.key, [verdict.criteria[criterion.key].score for verdict in verdicts])
        for criterion in rubric.criteria
    ]
    spreads: dict[str, Number] = {}
    for key, scores in [*columns, ("score", [verdict.score for verdict in verdicts])]:
        given = [to_fraction(score) for score in scores if score is not None]
        if given:
            spreads[key] = to_plain_number(max(given) - min(given))
    return spreads


def compute_agreement(answers: Sequence[Observations]) -> float | None:
    """Return the share of assertions that all answered alike, of those that two or more jurors answered; `None` where
    there are none."""
    votes: dict[str, list[str]] = {}
    for observed in answers:
        for criterion in observed.criteria.values():
            for id_, assertion in criterion.assertions.items():
                if assertion.answer != "abstained":
                    votes.setdefault(id_, []).append(assertion.answer)
    shared = [answers_ for answers_ in votes.values() if len(answers_) > 1]
    return sum(len(set(answers_)) == 1 for answers_ in shared) / len(shared) if shared else None


def _combine_criterion(
    criterion: Criterion, observed: Sequence[ObservedCriterion]
) -> tuple[ObservedCriterion, list[Flag]]:
    score = _exact_median([juror.score for juror in observed])
    answering = [juror for juror in observed if not juror.abstained] or observed
    nearest = min(answering, key=lambda one: abs(Decimal(one.score or 0) - Decimal(score or 0)))
    assertions: dict[str, ObservedAssertion] = {}
    ties: list[Flag] = []
    for assertion in criterion.assertions:
        votes = [juror.assertions[assertion.id] for juror in observed]
        assertions[assertion.id], flags = _combine_assertion(assertion, votes)
        ties += flags
    abstained = all(juror.abstained for juror in observed)
    return ObservedCriterion(score, nearest.reason, assertions, abstained=abstained), ties


def _combine_assertion(
    assertion: Assertion, votes: Sequence[ObservedAssertion]
) -> tuple[ObservedAssertion, list[Flag]]:
    """Return the answer of the majority, and a flag where there is a tie."""
    given = [vote for vote in votes if vote.answer != "abstained"]
    if not given:
        return votes[0], []
    counts = Counter(vote.answer for vote in given)
    yes, no, not_applicable = counts["yes"], counts["no"], counts["not_applicable"]
    ties: list[Flag] = []
    if not_applicable > yes + no:
        answer = "not_applicable"
    else:
        answer = "yes" if yes > no else "no"
        if yes == no:
            ties = [Flag("tie", assertion.id, f"{yes} yes, {no} no", "a tie counts as No")]
    agreeing = [vote for vote in given if vote.answer == answer]
    confidence = _exact_median([vote.confidence for vote in agreeing])
    return ObservedAssertion(answer, agreeing[0].evidence, confidence, agreeing[0].question), ties


def _combine_finding(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    filled = [texts for texts in lists if texts]
    if 2 * len(filled) <= len(lists):
        return ()
    return tuple({text.casefold(): text for texts in filled for text in texts}.values())


def _exact_median(values: Sequence[int | Decimal | None]) -> int | Decimal | None:
    given = [Decimal(value) for value in values if value is not None]
    if not given:
        return None
    middle = median(given)
    return int(middle) if middle == int(middle) else middle


def _carry_juror_flags(jurors: Sequence[JuryMember]) -> tuple[Flag, ...]:
    """Return the flags about what jurors were sent and how they were asked; those about what they answered come with
    their observations."""
    return _name_jurors(
        (
            position,
            [
                flag
                for flag in juror.verdict.flags
                if flag in juror.flags or flag.at in number_repeats(image.role for image in juror.verdict.images)
            ],
        )
        for position, juror in enumerate(jurors, 1)
    )


def _name_jurors(flags: Iterable[tuple[int, Sequence[Flag]]]) -> tuple[Flag, ...]:
    """Return the flags of jurors, each with the position of its juror in `at`."""
    return tuple(
        replace(flag, at=f"juror {position}: {flag.at}") for position, juror_flags in flags for flag in juror_flags
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
