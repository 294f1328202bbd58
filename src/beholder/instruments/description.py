"""A description against the expected ones, as the rubric `description` asks: measured, not seen. No image is looked at.

The four dimensions are stated formulas on the text instruments, each in the docstring of its function; `human` is a map
to the scale of people's ratings (`rating`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from beholder.instruments.lexicon import listed_words
from beholder.instruments.model import Instrument, Measurement
from beholder.instruments.rating import human
from beholder.instruments.texts import Comparison, Reading, Texts, compare
from beholder.instruments.textual import (
    MEASURES,
    Measure,
    as_instrument,
    listed,
    missing,
    percent,
    repeated,
    unsupported,
)
from beholder.instruments.words import UNSPACED, script

__all__ = ["INSTRUMENTS", "Described", "Dimension", "Texts", "describe"]

# What one contradiction leaves of the accuracy of a short description: with all else right, one is not Excellent in the
# rubric `description` (0.9) and two do not pass (0.7).
_CONTRADICTION = 0.45
_SHORT = 8  # things; among more of them a contradiction weighs less
_LEAST_CONTRADICTION = 0.8
_MOST_REPEATED = 0.5
_VAGUE = 3.0  # one vague word in twenty costs 0.15 of the clarity
_LONG_SENTENCE = 40
_MOST_FINDINGS = 12


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of the rubric: `score` 0–1, or None where the texts cannot tell. `reason` is one sentence with the
    measured numbers, or says why there is no score."""

    key: str
    score: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class Described:
    """All that the texts tell.

    `dimensions` has the keys of the rubric, in its order, every one present: visual_accuracy, completeness, clarity,
    relevance. `findings` has the rubric's keys, every one present: hallucinations (each "not in the expected
    description: …"), missing_elements, strengths, improvements. `human` is the fitted prediction of a person's rating
    on the scale 1–4, None where the map does not apply; `assessment` says all in a few sentences. `measurements` are
    all text measurements by name.
    """

    dimensions: Mapping[str, Dimension]
    findings: Mapping[str, tuple[str, ...]]
    human: float | None
    assessment: str
    measurements: Mapping[str, Measurement] = field(default_factory=dict)


def describe(texts: Texts) -> Described:
    """The four dimensions, the findings and the prediction on the human scale. Never raises, whatever the texts are."""
    seen = compare(texts)
    measurements = {f"description.{name}": measure(seen) for name, measure in _ALL.items()}
    values = {name: measurement.value for name, measurement in measurements.items()}
    dimensions = (
        _accuracy(seen, values),
        _completeness(seen, values),
        _clarity(seen, values),
        _relevance(seen, values, _why_not(measurements["description.question_fit"])),
    )
    by_key = {dimension.key: dimension for dimension in dimensions}
    findings = _findings(seen, measurements)
    return Described(
        dimensions=by_key,
        findings=findings,
        human=values["description.human"],
        assessment=_assessment(dimensions, measurements["description.human"]),
        measurements=measurements,
    )


Values = Mapping[str, float | None]


_SAYS_NOTHING = "The output says nothing: there is no word in it."


def _abstained(key: str, why: str) -> Dimension:
    return Dimension(key, None, f"Not told from the texts: {why}.")


def _why_not(measurement: Measurement) -> str:
    return measurement.sentence.removeprefix("Not measured: ").rstrip(".")


def _value(values: Values, name: str, otherwise: float = 0.0) -> float:
    value = values[f"description.{name}"]
    return otherwise if value is None else value


def _accuracy(seen: Comparison, values: Values) -> Dimension:
    """√(precision · max(precision, recall)), and for every contradiction 0.45 of it; where more than eight things are
    named 0.45 to the power of 8 ÷ things, at most 0.8.

    The larger one takes part so that a long answer that covers all that is expected and says more is not taken for
    wrong: what the expected description leaves out may well be there.
    """
    key = "visual_accuracy"
    if not seen.output.spoken:
        return Dimension(key, 0.0, _SAYS_NOTHING)
    if seen.unusable:
        return _abstained(key, seen.unusable)
    precise, complete = _value(values, "precision"), _value(values, "recall")
    against = seen.contradictions.all if not seen.unreadable else ()
    things = len(seen.output.of_kind["noun"]) if against else 0
    left = min(_LEAST_CONTRADICTION, _CONTRADICTION ** (_SHORT / max(_SHORT, things)))
    score = math.sqrt(precise * max(precise, complete)) * left ** len(against)
    told = f"{percent(precise)} of what is said is in the expected description, {percent(complete)} of which is said"
    wrong = f", {len(against)} contradicted: {'; '.join(map(str, against[:3]))}" if against else ""
    return Dimension(key, score, f"{told}{wrong}{_word_by_word(seen)}.")


def _word_by_word(seen: Comparison) -> str:
    return "" if seen.english else "; compared word by word, as contradictions are found in English only"


def _completeness(seen: Comparison, values: Values) -> Dimension:
    """The recall; an empty output leaves all out. Where more than half of the wording is repeated, and more than
    of the expected description's, the recall falls with the share that is not, to 0 where nothing else is said: what is
    buried in repetition is not told."""
    key = "completeness"
    if seen.references_given and seen.silent:
        return Dimension(key, 0.0, f"Nothing that is expected is said: {seen.silent}.")
    if seen.unusable:
        return _abstained(key, seen.unusable)
    said, again = _value(values, "recall"), _value(values, "repetition")
    allowed = max(_MOST_REPEATED, repeated(seen.closest))
    lost = missing(seen) if not seen.unreadable else []
    without = f"; not named: {listed(lost, 4)}" if lost else ""
    buried = f", buried in a text of which {percent(again)} is repeated" if again > allowed else ""
    score = said * min(1.0, (1 - again) / (1 - allowed))
    return Dimension(key, score, f"{percent(said)} of the expected description is said{buried}{without}.")


def _clarity(seen: Comparison, values: Values) -> Dimension:
    """1, less the share of repeated runs of words, less three times the share of vague words ("something", "maybe"),
    less up to 0.3 for sentences of more than 40 words on average, less up to 0.2 where it says less of where things
    are than the expected description. In other languages than English repetition and length alone count. Wording
    only: whether it is clear to somebody who sees the image cannot be told."""
    key = "clarity"
    if not seen.output.spoken:
        return Dimension(key, 0.0, _SAYS_NOTHING)
    if seen.unusable:
        return _abstained(key, seen.unusable)
    again = _value(values, "repetition")
    sentence = _words_a_sentence(seen)
    long = min(0.3, max(0.0, sentence / _LONG_SENTENCE - 1) * 0.3)
    told = f"Of the wording only: {percent(again)} of it is repeated, {sentence:.0f} words to a sentence"
    if not seen.english:
        why = "vague words and words of place are known in English only"
        return Dimension(key, max(0.0, 1 - again - long), f"{told}; {why}.")
    vague = sum(word.form in listed_words("vague") for word in seen.output.spoken) / len(seen.output.spoken)
    placed, wanted = _places(seen.output), _places(seen.closest)
    unplaced = 0.2 * max(0.0, 1 - placed / wanted) if wanted else 0.0
    score = max(0.0, 1 - again - _VAGUE * vague - long - unplaced)
    return Dimension(
        key, score, f"{told}, {percent(vague)} of the words are vague, words of place: {placed} (expected: {wanted})."
    )


def _places(reading: Reading) -> int:
    return len({word.form for word in reading.spoken} & listed_words("places"))


def _words_a_sentence(seen: Comparison) -> float:
    """In scripts without spaces, two pairs of characters are taken for a word."""
    ends = sum(seen.texts.output.count(mark) for mark in ".!?\n。！？؟।")
    count = len(seen.output.spoken) / (2 if script(seen.texts.output) in UNSPACED else 1)
    return count / max(1, ends)


def _relevance(seen: Comparison, values: Values, no_fit: str) -> Dimension:
    """The mean of what can be measured: the fit to the question, where something particular was asked; how near what is
    said comes to the expected descriptions (the larger of precision and scene); and brevity, 1 up to twice the expected
    length and falling as 2 ÷ length beyond. An answer of nothing has 0; without an expected description only a
    particular question can be answered. `no_fit` says why there is no fit to the question."""
    key = "relevance"
    fit = values["description.question_fit"]
    parts: list[tuple[str, float]] = []
    if fit is not None:
        parts.append(("fit to the question", fit))
    if not seen.unusable:
        near = max(_value(values, "precision"), _value(values, "scene"))
        parts.append(("nearness to what is expected", near))
        # Brevity is no merit of an answer that is beside the point.
        parts.append(("brevity", near and min(1.0, 2 / max(2.0, _value(values, "length", 1.0)))))
    elif not seen.output.spoken:
        return Dimension(key, 0.0, "Nothing is said.")
    if not parts:
        return _abstained(key, f"{seen.unusable}, and {no_fit}")
    score = sum(part for _, part in parts) / len(parts)
    return Dimension(key, score, f"{', '.join(f'{name} {percent(part)}' for name, part in parts).capitalize()}.")


def _findings(seen: Comparison, measurements: Mapping[str, Measurement]) -> dict[str, tuple[str, ...]]:
    if seen.references_given and seen.silent:
        return _nothing_said(seen)
    if seen.unreadable:
        return {"hallucinations": (), "missing_elements": (), "strengths": (), "improvements": ()}
    stray, lost = unsupported(seen), missing(seen)
    against = seen.contradictions
    hallucinations = [f"not in the expected description: {phrase}" for phrase in stray]
    hallucinations += [f"against the expected description: {one}" for one in against.all]
    return {
        "hallucinations": _most(hallucinations),
        "missing_elements": _most(lost),
        "strengths": tuple(_strengths(seen, measurements, stray, lost)),
        "improvements": tuple(_improvements(seen, measurements, stray, lost)),
    }


def _nothing_said(seen: Comparison) -> dict[str, tuple[str, ...]]:
    """All that the longest expected description names is missing."""
    nouns = (
        list(max(seen.references, key=lambda one: len(one.weights)).of_kind["noun"].values()) if seen.english else []
    )
    lost = nouns or ["all that is expected"]
    return {
        "hallucinations": (),
        "missing_elements": _most(lost),
        "strengths": (),
        "improvements": (f"name {listed(lost)}",),
    }


def _most(found: Sequence[str]) -> tuple[str, ...]:
    rest = len(found) - _MOST_FINDINGS
    return (*found[:_MOST_FINDINGS], *((f"… and {rest} more",) if rest > 0 else ()))


def _strengths(
    seen: Comparison, measurements: Mapping[str, Measurement], stray: list[str], lost: list[str]
) -> list[str]:
    found: list[str] = []
    nouns = seen.output.of_kind["noun"]
    right = [phrase for lemma, phrase in nouns.items() if seen.expected.borne_out(lemma)]
    if seen.contradictions.all:  # "names what is expected: three dogs" is no praise where there are two
        right = [phrase.split()[-1] for phrase in right]
    if right:
        found.append(f"names what is expected: {listed(right)}")
    if nouns and not stray:
        found.append("names nothing that the expected description does not bear out")
    if not lost and seen.closest.of_kind["noun"]:
        found.append("leaves out no thing of an expected description")
    attributes = measurements["description.attribute_recall"].value
    if attributes is not None and attributes >= 0.8:
        found.append(f"gives {percent(attributes)} of the expected qualities and numbers")
    checked = sum(seen.contradictions.checked.values())
    if checked and not seen.contradictions.all:
        found.append(f"contradicts none of the {checked} claims that could be compared")
    return found


def _improvements(
    seen: Comparison, measurements: Mapping[str, Measurement], stray: list[str], lost: list[str]
) -> list[str]:
    found: list[str] = []
    if lost:
        found.append(f"name {listed(lost)}")
    others = _often_expected(seen)
    if others:
        found.append(f"most expected descriptions also speak of: {listed(others)}")
    found += [f"check {one}" for one in seen.contradictions.all[:_MOST_FINDINGS]]
    if stray:
        found.append(f"check whether the image really shows {listed(stray)}")
    again = measurements["description.repetition"].value
    if again is not None and again > 0.1:
        found.append(f"say things once: {percent(again)} of the wording is repeated")
    fit = measurements["description.question_fit"]
    if fit.value is not None and fit.value < 0.5:
        found.append(f"answer the question: {fit.sentence[0].lower()}{fit.sentence[1:].rstrip('.')}")
    return found


def _often_expected(seen: Comparison) -> list[str]:
    """Things that at least half of several expected descriptions name, beyond the best covered one, and the output does
    not."""
    least = max(2, len(seen.references) / 2)
    own = seen.closest.of_kind["noun"]
    return [
        lemma.replace("_", " ")
        for lemma, count in seen.mentions.items()
        if count >= least
        and lemma not in own
        and any(lemma in reading.of_kind["noun"] for reading in seen.references)
        and not seen.output.company.borne_out(lemma)
    ]


def _assessment(dimensions: Sequence[Dimension], human: Measurement) -> str:
    told = [f"{dimension.key.replace('_', ' ').capitalize()}: {dimension.reason}" for dimension in dimensions]
    rating = "" if human.value is None else f" {human.sentence}"
    return f"Measured on the texts, no image was looked at. {' '.join(told)}{rating}"


_ALL: Mapping[str, Measure] = {**MEASURES, "human": human}  # the map last: it rests on the others
INSTRUMENTS: tuple[Instrument, ...] = tuple(as_instrument(name, measure) for name, measure in _ALL.items())
