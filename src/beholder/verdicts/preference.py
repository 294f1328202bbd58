"""Preferences: read which of two candidates is better, and combine answers in both orders and those of a jury.

A judge sees the candidates as A and B. What it chose is turned back into `first` and `second` by the order in which it
was asked, so that verdicts never speak of letters.

- Two orders: the same choice stands. `first` and `second` is a tie, flagged `order_flip`: the judge followed the
  position. A candidate and a tie, or a candidate and two bad ones, is a tie, flagged `order_lean`. A tie and two bad
  ones is a tie. The strength is the mean of the answers that named the winner.
- A jury: the choice that most jurors made stands. Where several were made equally often it is a tie, flagged
  `jury_split` where a candidate was among them. The strength is the mean over the jurors who came to the winner.
- A criterion also has a number, from -3 to 3: the mean strength over all answers, positive for the first candidate. So
  it keeps how far the answers leaned where they did not agree on a choice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from beholder.errors import AnswerError
from beholder.rubrics.brief import SWAPPED
from beholder.rubrics.prompt import CHOICES
from beholder.rubrics.rubric import PREFERENCE_SCALE, Criterion, Number, Rubric
from beholder.verdicts.answer_fields import REASONS, Block, first_text, list_given, normalize_key
from beholder.verdicts.observe import (
    ABSTAIN,
    DEFAULT_CONTEXT,
    AnswerContext,
    AnswerReader,
    Observations,
    ObservedCriterion,
    read_measurement,
)
from beholder.verdicts.parse import JsonObject, parse_answer, parse_number, strip_thinking
from beholder.verdicts.verdict import (
    BOTH_BAD,
    FIRST,
    SECOND,
    TIE,
    CriterionResult,
    Flag,
    Outcome,
    Preference,
    PreferenceAnswer,
    Verdict,
    format_count,
    quote_value,
    to_plain_number,
)

ORDER_FLIP, ORDER_LEAN, CRITERION_FLIP, JURY_SPLIT = "order_flip", "order_lean", "criterion_flip", "jury_split"
SCORES = {FIRST: 1.0, SECOND: 0.0, TIE: 0.5, BOTH_BAD: 0.5}

_CHOICE_KEYS = ("choice", "winner", "preference", "preferred", "better", "verdict", "vote", "answer")
_STRENGTH_KEYS = ("strength", "margin")
_MARK = re.compile(r"\[\[([^\[\]]{1,40})\]\]")
_PUNCTUATION = re.compile(r"[\s_\-.()\[\]*'\"`]+")
_NAMES = ("", "candidate", "image", "response", "output", "option", "model", "assistant", "answer")
# Choices in the spellings of others, without blanks and punctuation.
_WORDS = {
    **{f"{name}a": "A" for name in _NAMES},
    **{f"{name}b": "B" for name in _NAMES},
    **{f"{name}1": "A" for name in _NAMES[1:]},
    **{f"{name}2": "B" for name in _NAMES[1:]},
    **dict.fromkeys(("first", "a>b", "b<a", "a>>b", "b<<a"), "A"),
    **dict.fromkeys(("second", "b>a", "a<b", "b>>a", "a<<b"), "B"),
    **dict.fromkeys(("tie", "tied", "draw", "equal", "same", "a=b", "b=a", "a=b=good", "bothgood"), "tie"),
    **dict.fromkeys(("bothbad", "tiebothbad", "a=b=bad", "neither"), "both_bad"),
}
_FAR_BETTER = ("a>>b", "b<<a", "b>>a", "a<<b")
_TIE_MARKS = {"c": "tie"}  # a letter of its own, in double brackets only


def read_choice_word(value: object) -> str | None:
    """Return a choice in any common spelling (`[[A>B]]`, `Candidate A`, `A=B=Bad`) as one of `CHOICES`; else `None`."""
    return _WORDS.get(_PUNCTUATION.sub("", value).casefold()) if isinstance(value, str) else None


def parse_preference(text: str) -> tuple[JsonObject, tuple[Flag, ...]]:
    """Return the JSON object of an answer; for one without JSON, that of its mark in double brackets, `[[A>B]]`.

    Marks that stand beside the object are added to it, so that they are compared with what it says.

    Raises:
        AnswerError: There is neither an object nor a mark, or marks differ.
    """
    said = strip_thinking(text)
    start, end = said.find("{"), said.rfind("}")
    marks = _find_marks(said if start < 0 else f"{said[:start]} {said[end + 1 :]}")
    if start >= 0 or not marks:
        document, flags = parse_answer(text)
        return (document | {"mark": marks[0]} if marks else document), flags
    return {"mark": marks[0]}, ()


def _find_marks(text: str) -> list[str]:
    """Return the marks of a text that are choices. Raises `AnswerError` where they differ."""
    marks = [mark for mark in _MARK.findall(text) if _read_mark(mark) is not None]
    if len({_read_mark(mark) for mark in marks}) > 1:
        listed = ", ".join(dict.fromkeys(f"[[{mark}]]" for mark in marks))
        raise AnswerError([f"the answer contradicts itself: it says {listed}"])
    return marks


def _read_mark(mark: str) -> str | None:
    return read_choice_word(mark) or _TIE_MARKS.get(mark.strip().casefold())


def observe_preference(
    document: Mapping[str, object], rubric: Rubric, context: AnswerContext = DEFAULT_CONTEXT
) -> Observations:
    """Read the answer to a preference and check it.

    Args:
        document: The JSON object of the answer.
        rubric: The rubric that was asked.
        context: What else is known about the answer.

    Raises:
        AnswerError: With everything that is wrong in the answer.
    """
    reader = _PreferenceReader(rubric, context)
    observed = reader.read(document)
    reader.raise_complaints()
    return observed


class _PreferenceReader(AnswerReader):
    """Reads one answer to a preference."""

    def read(self, document: Mapping[str, object]) -> Observations:
        document = self.normalize_keys("", document)
        keys = [criterion.key for criterion in self.rubric.criteria]
        listed = document.get("criteria")
        if listed is not None and not isinstance(listed, Mapping):
            self.complaints.append(f"criteria should be an object and is {quote_value(listed)}")
        nested = self.normalize_keys("criteria.", listed) if isinstance(listed, Mapping) else {}
        self.complaints += [f"the criterion {quote_value(name)} is unknown" for name in nested if name not in keys]
        places = {
            key: [
                (prefix + key, block[key]) for prefix, block in (("criteria.", nested), ("", document)) if key in block
            ]
            for key in keys
        }
        missing = [key for key in keys if not places[key]]
        if missing and not (self.context.any_form and len(missing) == len(keys)):
            self.complaints += [f"the criterion {key!r} is missing" for key in missing]
        criteria = {key: self._choice(key, places[key]) for key in keys if places[key]}
        whole = [(name, document[name]) for name in ("overall", *_CHOICE_KEYS) if document.get(name) is not None]
        # At the top level a strength stands beside the choice; inside `overall` it is read with it.
        beside = {name: document[name] for name in (*_STRENGTH_KEYS, *self._reason_keys()) if name in document}
        if "mark" in document:
            whole.append(("the mark", f"[[{document['mark']}]]"))
        if not whole:
            self.complaints.append("overall is missing: it should say A, B, tie or both_bad")
        overall = self._choice("overall", whole, beside) if whole else ObservedCriterion(None)
        self.check_echo(document)
        measured = document.get("measurements") if self.context.may_abstain else None
        measurements = measured if isinstance(measured, Mapping) else {}
        return Observations(
            criteria=criteria,
            flags=tuple(self.flags),
            measurements={name: read_measurement(value) for name, value in measurements.items()},
            overall=overall,
        )

    def _reason_keys(self) -> tuple[str, ...]:
        return (normalize_key(self.rubric.reason.key), *REASONS, "explanation")

    def _choice(
        self, key: str, places: Sequence[tuple[str, object]], beside: Mapping[str, object] | None = None
    ) -> ObservedCriterion:
        """Read what all places say of a criterion or of the whole; complain where they differ."""
        blocks: list[Block] = [
            (f"{place}.", self.normalize_keys(f"{place}.", value))
            for place, value in places
            if isinstance(value, Mapping)
        ]
        words = [*list_given(blocks, *_CHOICE_KEYS), *((place, one) for place, one in places if isinstance(one, str))]
        odd = [(place, value) for place, value in places if not isinstance(value, Mapping | str)]
        given = [(place, word) for place, word in [*words, *odd] if word is not None]
        said = first_text([*blocks, ("", beside or {})], *self._reason_keys())
        reason = self.check_reason(said, key, "choice", may_be_empty=not blocks and self.context.any_form)
        if not given:
            self.complaints.append(f"{key}.choice is missing: it should be {', '.join(CHOICES[:-1])} or {CHOICES[-1]}")
            return ObservedCriterion(None)
        if self.context.may_abstain and all(word == ABSTAIN for _, word in given):
            return ObservedCriterion(None, reason, abstained=True)
        choices = [(place, word, _read_word(word)) for place, word in given]
        wrong = [
            f"{place} should be A, B, tie or both_bad and is {quote_value(word)}"
            for place, word, one in choices
            if not one
        ]
        self.complaints += wrong
        if wrong:
            return ObservedCriterion(None, reason)
        place, word, choice = choices[0]
        for other, said, one in choices[1:]:
            if one != choice:
                both = f"{place} ({quote_value(word)}) and {other} ({quote_value(said)})"
                self.complaints.append(f"{both} disagree, and should say the same")
        assert choice is not None
        far = any(
            isinstance(said, str) and _PUNCTUATION.sub("", said).casefold() in _FAR_BETTER for _, said, _ in choices
        )
        strength = self._strength(key, choice, [*blocks, ("", beside or {})], 3 if far else None)
        return ObservedCriterion(None, reason, choice=choice, strength=strength)

    def _strength(self, key: str, choice: str, blocks: Sequence[Block], default: int | None) -> int | None:
        given = [(place, value) for place, value in list_given(blocks, *_STRENGTH_KEYS) if value is not None]
        highest = int(PREFERENCE_SCALE[1])
        if choice not in ("A", "B"):
            odd = [value for _, value in given if parse_number(value) != 0]
            if odd:
                why = "neither candidate is better, so that there is no strength"
                self.flags.append(Flag("strength_ignored", f"{key}.strength", odd[0], why))
            return None
        if not given:
            if self.context.needs_texts:
                self.complaints.append(f"{key}.strength is missing: it should be 1, 2 or {highest}")
            elif default is None and not self.context.any_form:
                self.flags.append(Flag("strength_missing", f"{key}.strength", why="the choice counts without it"))
            return default
        numbers = [parse_number(value) for _, value in given]
        for (place, value), number in zip(given, numbers, strict=True):
            if number is None or number != int(number) or not 1 <= number <= highest:
                self.complaints.append(
                    f"{place} should be 1, 2 or {highest} with the choice {choice} and is {quote_value(value)}"
                )
        if len({number for number in numbers if number is not None}) > 1:
            self.complaints.append(f"{key}.strength is given twice, differently")
        return None if numbers[0] is None else int(numbers[0])


def _read_word(value: object) -> str | None:
    mark = _MARK.fullmatch(value.strip()) if isinstance(value, str) else None
    return _read_mark(mark[1]) if mark else read_choice_word(value)


def make_preference_verdict(verdict: Verdict, rubric: Rubric, observed: Observations, order: str) -> Verdict:
    """Return the verdict on one answer: `scored`, or `unmeasured` where a judge that measures left the whole open.

    Args:
        verdict: A verdict without numbers on the case.
        rubric: The rubric that was asked.
        observed: What `observe_preference` returned.
        order: In which order the candidates were shown.
    """
    assert observed.overall is not None
    criteria = {
        criterion.key: _make_result(criterion, observed.criteria.get(criterion.key), order)
        for criterion in rubric.criteria
    }
    choice = _from_letter(observed.overall.choice, order)
    outcome = Outcome.SCORED if choice else Outcome.UNMEASURED
    answer = PreferenceAnswer(order, outcome, choice, observed.overall.strength, observed.overall.reason)
    open_ = [key for key, result in criteria.items() if result.abstained]
    flags = [*verdict.flags, *observed.flags]
    if open_:
        why = f"{len(open_)} of {format_count(len(criteria), 'criterion', 'criteria')} left open"
        flags.append(Flag("abstained", ", ".join(open_), why=why))
    # Those of a candidate are named after it: `first.people.realism`.
    measurements = {
        _exchange_candidates(name) if order == SWAPPED else name: value for name, value in observed.measurements.items()
    }
    verdict = replace(
        verdict, criteria=criteria, flags=tuple(flags), measurements=measurements, assessment=answer.reason
    )
    return _decide(verdict, choice, answer.strength, (answer,))


def _make_result(criterion: Criterion, observed: ObservedCriterion | None, order: str) -> CriterionResult:
    choice = _from_letter(observed.choice, order) if observed else None
    return CriterionResult(
        score=_signed(choice, observed.strength) if observed and choice else None,
        reported=None,
        scale=PREFERENCE_SCALE,
        weight=criterion.weight,
        reason=observed.reason if observed else "",
        abstained=int(observed is not None and observed.abstained),
        choice=choice,
    )


def _exchange_candidates(name: str) -> str:
    role, dot, rest = name.partition(".")
    return {FIRST: SECOND, SECOND: FIRST}.get(role, role) + dot + rest


def _from_letter(choice: str, order: str) -> str | None:
    """Return a choice by the letters of a brief as one by the case; `None` for none."""
    letters = {"A": FIRST, "B": SECOND} if order != SWAPPED else {"A": SECOND, "B": FIRST}
    return letters.get(choice, choice) or None


def _signed(choice: str, strength: int | None) -> int:
    """Return a choice as a number; a candidate without a strength is better by the least that there is."""
    return {FIRST: 1, SECOND: -1}.get(choice, 0) * (strength or 1)


def _decide(
    verdict: Verdict,
    winner: str | None,
    strength: float | None,
    answers: tuple[PreferenceAnswer, ...],
    *,
    flipped: bool = False,
) -> Verdict:
    """Return the verdict with its winner and the score of that; `unmeasured` without a winner."""
    return replace(
        verdict,
        outcome=Outcome.SCORED if winner else Outcome.UNMEASURED,
        detail="" if winner else "the measurements do not decide which of the two is better",
        score=SCORES[winner] if winner else None,
        score_derived=True,
        preference=Preference(winner, strength, flipped, answers),
    )


def list_answers(verdict: Verdict, order: str, sample: int) -> tuple[PreferenceAnswer, ...]:
    """Return what the verdict of one call says in a preference that is combined from several."""
    said = verdict.preference.answers[0] if verdict.preference else PreferenceAnswer(order, verdict.outcome)
    return (
        replace(
            said,
            order=order,
            outcome=verdict.outcome,
            detail=verdict.detail,
            brief_digest=verdict.brief_digest,
            judge=verdict.judge,
            sample=sample,
        ),
    )


def combine_orders(verdict: Verdict, parts: Sequence[Verdict], answers: tuple[PreferenceAnswer, ...]) -> Verdict:
    """Return the verdict of one judge from its answers in several orders, by the rules of this module.

    Args:
        verdict: A verdict without numbers on the case.
        parts: The verdicts on the answers; all are `scored` or `unmeasured`.
        answers: What they say, in the same order.
    """
    choices = [answer.choice for answer in answers if answer.choice is not None]
    criteria, flags = _combine_criteria(parts)
    verdict = replace(
        verdict,
        criteria=criteria,
        flags=(*verdict.flags, *flags),
        measurements=next((part.measurements for part in parts if part.measurements), {}),
        assessment=parts[0].assessment,
    )
    if len(choices) < len(parts):
        return _decide(verdict, None, None, answers)
    winner, flag = combine_order_choices(choices)
    if flag:
        said = " and ".join(choices)
        why = {
            ORDER_FLIP: "the answer followed the position of the candidates, and counts as a tie",
            ORDER_LEAN: "a candidate was named in one order only, which counts as a tie",
        }[flag]
        verdict = replace(verdict, flags=(*verdict.flags, Flag(flag, "overall", said, why)))
    return _decide(verdict, winner, _mean_strength(winner, answers), answers, flipped=flag == ORDER_FLIP)


def combine_order_choices(choices: Sequence[str]) -> tuple[str, str]:
    """Return the choice that answers in several orders come to, and the flag for it if they do not agree."""
    named = set(choices)
    if len(named) == 1:
        return choices[0], ""
    if {FIRST, SECOND} <= named:
        return TIE, ORDER_FLIP
    return TIE, ORDER_LEAN if named & {FIRST, SECOND} else ""


def _combine_criteria(parts: Sequence[Verdict]) -> tuple[dict[str, CriterionResult], list[Flag]]:
    """Return the criteria of all parts as one, and a flag for each in which the answers followed the position."""
    combined: dict[str, CriterionResult] = {}
    flags: list[Flag] = []
    for key, result in parts[0].criteria.items():
        results = [part.criteria[key] for part in parts]
        choices = [one.choice for one in results if one.choice is not None]
        choice, flag = combine_order_choices(choices) if len(choices) == len(parts) else (None, "")
        if flag == ORDER_FLIP:
            flags.append(Flag(CRITERION_FLIP, key, " and ".join(choices), "the answer followed the position"))
        scores = [one.score for one in results if one.score is not None]
        combined[key] = replace(
            result,
            choice=choice,
            score=_mean(scores) if choice else None,
            abstained=max(one.abstained for one in results),
        )
    return combined, flags


def _mean(numbers: Sequence[Number]) -> Number:
    return to_plain_number(sum(map(Fraction, numbers), Fraction(0)) / len(numbers))


def _mean_strength(winner: str, answers: Iterable[PreferenceAnswer]) -> float | None:
    """Return the mean strength of the answers that named the winner, if it is a candidate."""
    agreeing = [answer.strength for answer in answers if answer.choice == winner and answer.strength is not None]
    return sum(agreeing) / len(agreeing) if agreeing and winner in (FIRST, SECOND) else None


def combine_jurors(verdict: Verdict, jurors: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a jury, by the rules of this module.

    Args:
        verdict: A verdict without numbers on the case.
        jurors: The verdicts of all jurors. Those without an answer take no part, but are among the `answers`.
    """
    preferences = [juror.preference for juror in jurors if juror.preference is not None]
    answers = tuple(answer for preference in preferences for answer in preference.answers)
    answered = [juror for juror in jurors if juror.answered]
    winners = [juror.preference.winner for juror in answered if juror.preference and juror.preference.winner]
    criteria: dict[str, CriterionResult] = {}
    for key, result in answered[0].criteria.items():
        results = [juror.criteria[key] for juror in answered]
        choices = [one.choice for one in results if one.choice is not None]
        choice = combine_juror_choices(choices)[0] if choices else None
        scores = [one.score for one in results if one.score is not None]
        reason = next((one.reason for one in results if one.choice == choice), result.reason)
        criteria[key] = replace(
            result,
            choice=choice,
            score=_mean(scores) if scores else None,
            reason=reason,
            abstained=min(one.abstained for one in results),
        )
    verdict = replace(
        verdict,
        criteria=criteria,
        measurements=next((juror.measurements for juror in answered if juror.measurements), {}),
    )
    if not winners:
        return _decide(verdict, None, None, answers)
    winner, is_split = combine_juror_choices(winners)
    if is_split:
        counts = ", ".join(f"{count} {name}" for name, count in Counter(winners).most_common())
        why = "no choice was made by more jurors than any other, which counts as a tie"
        verdict = replace(verdict, flags=(*verdict.flags, Flag(JURY_SPLIT, "overall", counts, why)))
    assessment = next((one.assessment for one in answered if one.preference and one.preference.winner == winner), "")
    strengths = [one.strength for one in preferences if one.winner == winner and one.strength is not None]
    return _decide(
        replace(verdict, assessment=assessment),
        winner,
        sum(strengths) / len(strengths) if strengths and winner in (FIRST, SECOND) else None,
        answers,
        flipped=any(preference.flipped for preference in preferences),
    )


def combine_juror_choices(choices: Sequence[str]) -> tuple[str, bool]:
    """Return the choice that most jurors made, and whether there is none with a candidate among the most frequent."""
    counts = Counter(choices)
    most = max(counts.values())
    leading = {choice for choice, count in counts.items() if count == most}
    if len(leading) == 1:
        return leading.pop(), False
    return TIE, bool(leading & {FIRST, SECOND})


def compute_choice_agreement(jurors: Sequence[Verdict]) -> float | None:
    """Return the share of choices, by criterion and overall, that all made alike, of those that two or more made."""
    votes: dict[str, list[str]] = {}
    for juror in jurors:
        if juror.preference is not None and juror.preference.winner is not None:
            votes.setdefault("overall", []).append(juror.preference.winner)
        for key, result in juror.criteria.items():
            if result.choice is not None:
                votes.setdefault(f"criteria.{key}", []).append(result.choice)
    shared = [choices for choices in votes.values() if len(choices) > 1]
    return sum(len(set(choices)) == 1 for choices in shared) / len(shared) if shared else None
