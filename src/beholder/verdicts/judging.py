"""From an answer to a verdict: parse, observe, score, in this order; or the outcome that says where it stopped."""

from __future__ import annotations

from dataclasses import dataclass, replace

from beholder.errors import AnswerError
from beholder.rubrics.model import Rubric
from beholder.verdicts.model import Flag, Outcome, Verdict
from beholder.verdicts.observing import Observations, observe
from beholder.verdicts.parsing import Document, parse
from beholder.verdicts.scoring import score


@dataclass(frozen=True, slots=True)
class Head:
    """What a verdict says before any answer is read: whose, of what, by whom."""

    case: str
    rubric: Rubric
    judge: str

    def verdict(self, outcome: Outcome, detail: str = "") -> Verdict:
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
        )


def read_answer(rubric: Rubric, answer: str | Document, *, label: str = "") -> Observations:
    """What an answer (text, or JSON already parsed) observed. Raises `AnswerError` that names all that is wrong."""
    document, flags = parse(answer) if isinstance(answer, str) else (answer, ())
    observed = observe(document, rubric, label=label)
    return replace(observed, flags=(*flags, *observed.flags))


def judge_answer(head: Head, answer: str | Document, *, label: str = "") -> Verdict:
    """The verdict on an answer: `scored`, or `invalid` with everything that is wrong in `detail`. Never raises."""
    try:
        observed = read_answer(head.rubric, answer, label=label)
    except AnswerError as error:
        return replace(head.verdict(Outcome.INVALID, str(error)), answer=answer if isinstance(answer, str) else "")
    return scored_verdict(head, observed, answer=answer if isinstance(answer, str) else "")


def scored_verdict(head: Head, observed: Observations, *, answer: str = "", flags: tuple[Flag, ...] = ()) -> Verdict:
    """The verdict on observations that have been read."""
    scored = score(head.rubric, observed)
    return replace(
        head.verdict(Outcome.SCORED),
        criteria=scored.criteria,
        total=scored.total,
        max_total=scored.max_total,
        percentage=scored.percentage,
        grade=scored.grade,
        score=scored.score,
        score_derived=scored.score_derived,
        partial=scored.partial,
        passed=scored.passed,
        findings=observed.findings,
        assessment=observed.assessment,
        reported=observed.claims,
        flags=(*observed.flags, *scored.flags, *flags),
        corrections=scored.corrections,
        answer=answer,
    )
