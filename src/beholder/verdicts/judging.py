"""From an answer to a verdict: parse, observe, score, in this order; or the outcome that says where it stopped."""

from __future__ import annotations

from dataclasses import dataclass, replace

from beholder.errors import AnswerError
from beholder.rubrics.model import Rubric, Style
from beholder.verdicts.model import Flag, Outcome, Verdict
from beholder.verdicts.observing import Observations, observe
from beholder.verdicts.parsing import Document, parse
from beholder.verdicts.refusing import declines
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
            flags=_style_flags(self.rubric.style),
        )


def read_answer(
    rubric: Rubric, answer: str | Document, *, label: str = "", family: bool = False, may_abstain: bool = False
) -> Observations:
    """What an answer (text, or JSON already parsed) observed. Raises `AnswerError` that names all that is wrong.

    For `family` and `may_abstain` see `observe`.
    """
    document, flags = parse(answer) if isinstance(answer, str) else (answer, ())
    observed = observe(document, rubric, label=label, family=family, may_abstain=may_abstain)
    return replace(observed, flags=(*flags, *observed.flags))


def judge_answer(
    head: Head, answer: str | Document, *, label: str = "", family: bool = False, may_abstain: bool = False
) -> Verdict:
    """The verdict on an answer: `scored`, `refused`, or `invalid` with all that is wrong in `detail`. Never raises.

    For `family` and `may_abstain` see `observe`.
    """
    text = answer if isinstance(answer, str) else ""
    if declines(text):
        return replace(head.verdict(Outcome.REFUSED, text), answer=text)
    try:
        observed = read_answer(head.rubric, answer, label=label, family=family, may_abstain=may_abstain)
    except AnswerError as error:
        return replace(head.verdict(Outcome.INVALID, str(error)), answer=text)
    return replace(scored_verdict(head, observed), answer=text)


def scored_verdict(head: Head, observed: Observations, *, flags: tuple[Flag, ...] = ()) -> Verdict:
    """The verdict on observations that have been read; `flags` are added to theirs."""
    verdict = score(head.verdict(Outcome.SCORED), head.rubric, observed)
    return replace(verdict, flags=(*verdict.flags, *flags)) if flags else verdict


def _style_flags(style: Style | None) -> tuple[Flag, ...]:
    if style is None or not style.generic:
        return ()
    hint = f" Did you mean {style.near}?" if style.near else ""
    why = f"no style has this name; the generic assertions were asked.{hint}"
    return (Flag("generic_style", "style", style.style, why),)
