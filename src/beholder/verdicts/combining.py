"""A jury: several answers to one rubric become one set of observations, which is scored once.

Each juror's answer was checked alone. An assertion goes by the majority of those who found it applicable, a tie counts
as No and is flagged; it is N/A where most said so. Scores and confidences are medians (between two middle values their
mean). Who abstained takes no part, and what all abstained from stays open. A list of findings stands where most jurors
filled it, and is then everything they named. The words beside a score are those of the juror nearest to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from statistics import median

from beholder.rubrics.model import Assertion, Criterion, Number, Rubric, exact
from beholder.verdicts.model import Flag, Verdict, plain_number
from beholder.verdicts.observing import Observations, ObservedAssertion, ObservedCriterion


def combine(rubric: Rubric, jurors: Sequence[Observations | None]) -> Observations:
    """The jury's observations. `jurors` are all of its members in order, `None` for one without an answer, so that a
    flag names the juror by its place. A single answer is taken as it is."""
    seated = [(place, one) for place, one in enumerate(jurors, 1) if one is not None]
    answers = [one for _, one in seated]
    own = [replace(flag, at=f"juror {place}: {flag.at}") for place, one in seated for flag in one.flags]
    if len(answers) == 1:
        return answers[0] if len(jurors) == 1 else replace(answers[0], flags=tuple(own))
    flags: list[Flag] = []
    criteria = {
        criterion.key: _criterion(criterion, [one.criteria[criterion.key] for one in answers], flags)
        for criterion in rubric.criteria
    }
    findings = {
        finding.key: _finding([one.findings.get(finding.key, ()) for one in answers]) for finding in rubric.findings
    }
    assessment = next((one.assessment for one in answers if one.assessment), "")
    measurements = next((one.measurements for one in answers if one.measurements), {})
    return Observations(criteria, findings, assessment, {}, (*own, *flags), measurements)


def spread(rubric: Rubric, verdicts: Sequence[Verdict]) -> dict[str, Number]:
    """Highest minus lowest score of the jurors who scored, by criterion, and of the overall `score`."""
    spreads: dict[str, Number] = {}
    for criterion in rubric.criteria:
        scores = [verdict.criteria[criterion.key].score for verdict in verdicts]
        given = [exact(score) for score in scores if score is not None]
        if given:
            spreads[criterion.key] = plain_number(max(given) - min(given))
    overall = [exact(verdict.score) for verdict in verdicts if verdict.score is not None]
    if overall:
        spreads["score"] = plain_number(max(overall) - min(overall))
    return spreads


def agreement(answers: Sequence[Observations]) -> float | None:
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


def _criterion(criterion: Criterion, seen: Sequence[ObservedCriterion], flags: list[Flag]) -> ObservedCriterion:
    score = _median([one.score for one in seen])
    speaking = [one for one in seen if not one.abstained] or seen
    nearest = min(speaking, key=lambda one: abs(Decimal(one.score or 0) - Decimal(score or 0)))
    assertions = {
        one.id: _assertion(one, [member.assertions[one.id] for member in seen], flags) for one in criterion.assertions
    }
    return ObservedCriterion(score, nearest.reason, assertions, abstained=all(one.abstained for one in seen))


def _assertion(assertion: Assertion, seen: Sequence[ObservedAssertion], flags: list[Flag]) -> ObservedAssertion:
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
    confidence = _median([one.confidence for one in agreeing])
    return ObservedAssertion(answer, agreeing[0].evidence, confidence, agreeing[0].question)


def _finding(lists: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    filled = [one for one in lists if one]
    if 2 * len(filled) <= len(lists):
        return ()
    return tuple({text.casefold(): text for one in filled for text in one}.values())


def _median(values: Sequence[int | Decimal | None]) -> int | Decimal | None:
    given = [Decimal(value) for value in values if value is not None]
    if not given:
        return None
    middle = median(given)
    return int(middle) if middle == int(middle) else middle
