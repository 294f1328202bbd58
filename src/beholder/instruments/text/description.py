"""The assessment that the rubric `description` asks for, measured on texts alone: four dimensions and findings.

The dimensions are fixed formulas on the text instruments, each in the docstring of its function; `human_rating` is a
prediction on the scale of people's ratings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from beholder.instruments.instrument import Instrument, Measurement
from beholder.instruments.text.comparison import AnalyzedText, TextComparison, TextInput, compare_texts
from beholder.instruments.text.measurements import (
    TEXT_INSTRUMENTS,
    TEXT_MEASURES,
    compute_repetition,
    find_missing,
    find_unsupported,
    format_whole_percent,
    join_names,
)
from beholder.instruments.text.words import UNSPACED_SCRIPTS, detect_script, load_word_list

# What one contradiction leaves of the accuracy of a short description: with all else right, one is not Excellent in the
# rubric `description` (0.9) and two do not pass (0.7).
_CONTRADICTION_FACTOR = 0.45
_SHORT_DESCRIPTION_THINGS = 8  # things; among more of them a contradiction weighs less
_MAX_CONTRADICTION_FACTOR = 0.8
_MAX_REPEATED = 0.5
_VAGUE_PENALTY = 3.0  # one vague word in twenty costs 0.15 of the clarity
_LONG_SENTENCE_WORDS = 40
_MAX_FINDINGS = 12


@dataclass(frozen=True, slots=True)
class DimensionScore:
    """One dimension of the rubric.

    Attributes:
        key: Its key in the rubric.
        score: 0–1, or None where the texts cannot tell.
        reason: One sentence with the measured numbers, or why there is no score.
    """

    key: str
    score: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class DescriptionAssessment:
    """Everything that the texts tell.

    Attributes:
        dimensions: By the keys of the rubric, in its order, every one present: visual_accuracy, completeness, clarity,
            relevance.
        findings: By the rubric's keys, every one present: hallucinations (each "not in the expected description: …"),
            missing_elements, strengths, improvements.
        human_rating: The predicted rating of a person on the scale 1–4; None where the map does not apply.
        assessment: All of it in a few sentences.
        measurements: All text measurements by name.
    """

    dimensions: Mapping[str, DimensionScore]
    findings: Mapping[str, tuple[str, ...]]
    human_rating: float | None
    assessment: str
    measurements: Mapping[str, Measurement] = field(default_factory=dict)


def assess_description(texts: TextInput) -> DescriptionAssessment:
    """Assess a description against the expected ones. Never raises, whatever the texts are."""
    comparison = compare_texts(texts)
    measurements = {f"description.{name}": measure(comparison) for name, measure in TEXT_MEASURES.items()}
    values = {name: measurement.value for name, measurement in measurements.items()}
    dimensions = (
        _score_accuracy(comparison, values),
        _score_completeness(comparison, values),
        _score_clarity(comparison, values),
        _score_relevance(comparison, values, _get_refusal(measurements["description.question_fit"])),
    )
    by_key = {dimension.key: dimension for dimension in dimensions}
    findings = _collect_findings(comparison, measurements)
    return DescriptionAssessment(
        dimensions=by_key,
        findings=findings,
        human_rating=values["description.human"],
        assessment=_write_assessment(dimensions, measurements["description.human"]),
        measurements=measurements,
    )


MeasuredValues = Mapping[str, float | None]


_SAYS_NOTHING = "The output says nothing: there is no word in it."


def _abstain(key: str, why: str) -> DimensionScore:
    return DimensionScore(key, None, f"Not told from the texts: {why}.")


def _get_refusal(measurement: Measurement) -> str:
    return measurement.sentence.removeprefix("Not measured: ").rstrip(".")


def _get_value(values: MeasuredValues, name: str, otherwise: float = 0.0) -> float:
    value = values[f"description.{name}"]
    return otherwise if value is None else value


def _score_accuracy(comparison: TextComparison, values: MeasuredValues) -> DimensionScore:
    """Score √(precision · max(precision, recall)), times 0.45 for every contradiction.

    Where more than eight things are named, a contradiction costs 0.45 to the power of 8 ÷ things, at most 0.8. The
    maximum is there so that a long answer that covers everything expected and says more does not count as wrong: what
    the expected description leaves out may well be in the image.
    """
    key = "visual_accuracy"
    if not comparison.output.tokens:
        return DimensionScore(key, 0.0, _SAYS_NOTHING)
    if comparison.incomparable_reason:
        return _abstain(key, comparison.incomparable_reason)
    precise, complete = _get_value(values, "precision"), _get_value(values, "recall")
    against = comparison.contradictions.all if not comparison.no_grammar_reason else ()
    things = len(comparison.output.lemmas_by_kind["noun"]) if against else 0
    left = min(
        _MAX_CONTRADICTION_FACTOR,
        _CONTRADICTION_FACTOR ** (_SHORT_DESCRIPTION_THINGS / max(_SHORT_DESCRIPTION_THINGS, things)),
    )
    score = math.sqrt(precise * max(precise, complete)) * left ** len(against)
    support = f"{format_whole_percent(precise)} of what is said is in the expected description"
    covered = f"{format_whole_percent(complete)} of which is said"
    contradicted = f", {len(against)} contradicted: {'; '.join(map(str, against[:3]))}" if against else ""
    return DimensionScore(key, score, f"{support}, {covered}{contradicted}{_note_language(comparison)}.")


def _note_language(comparison: TextComparison) -> str:
    return "" if comparison.english else "; compared word by word, as contradictions are found in English only"


def _score_completeness(comparison: TextComparison, values: MeasuredValues) -> DimensionScore:
    """Score the recall; an empty output has 0.

    Where more than half of the wording is repeated, and more than in the expected description, the recall falls with
    the share that is not repeated, to 0 where nothing else is said.
    """
    key = "completeness"
    if comparison.references_given and comparison.silence_reason:
        return DimensionScore(key, 0.0, f"Nothing that is expected is said: {comparison.silence_reason}.")
    if comparison.incomparable_reason:
        return _abstain(key, comparison.incomparable_reason)
    recall, repetition = _get_value(values, "recall"), _get_value(values, "repetition")
    allowed = max(_MAX_REPEATED, compute_repetition(comparison.best_covered))
    missing = find_missing(comparison) if not comparison.no_grammar_reason else []
    without = f"; not named: {join_names(missing, 4)}" if missing else ""
    buried = (
        f", buried in a text of which {format_whole_percent(repetition)} is repeated" if repetition > allowed else ""
    )
    score = recall * min(1.0, (1 - repetition) / (1 - allowed))
    return DimensionScore(
        key, score, f"{format_whole_percent(recall)} of the expected description is said{buried}{without}."
    )


def _score_clarity(comparison: TextComparison, values: MeasuredValues) -> DimensionScore:
    """Score 1, less the share of repeated runs of words, less three times the share of vague words ("something",
    "maybe"), less up to 0.3 for sentences of more than 40 words on average, less up to 0.2 for fewer words of place
    than in the expected description.

    In other languages than English only repetition and length count. The score is about wording only: whether a text is
    clear to somebody who sees the image cannot be told.
    """
    key = "clarity"
    if not comparison.output.tokens:
        return DimensionScore(key, 0.0, _SAYS_NOTHING)
    if comparison.incomparable_reason:
        return _abstain(key, comparison.incomparable_reason)
    repetition = _get_value(values, "repetition")
    sentence = _count_words_per_sentence(comparison)
    long = min(0.3, max(0.0, sentence / _LONG_SENTENCE_WORDS - 1) * 0.3)
    wording = (
        f"Of the wording only: {format_whole_percent(repetition)} of it is repeated, {sentence:.0f} words to a sentence"
    )
    if not comparison.english:
        why = "vague words and words of place are known in English only"
        return DimensionScore(key, max(0.0, 1 - repetition - long), f"{wording}; {why}.")
    vague = sum(word.form in load_word_list("vague") for word in comparison.output.tokens) / len(
        comparison.output.tokens
    )
    placed, wanted = _count_place_words(comparison.output), _count_place_words(comparison.best_covered)
    unplaced = 0.2 * max(0.0, 1 - placed / wanted) if wanted else 0.0
    score = max(0.0, 1 - repetition - _VAGUE_PENALTY * vague - long - unplaced)
    return DimensionScore(
        key,
        score,
        f"{wording}, {format_whole_percent(vague)} of the words are vague, "
        f"words of place: {placed} (expected: {wanted}).",
    )


def _count_place_words(reading: AnalyzedText) -> int:
    return len({word.form for word in reading.tokens} & load_word_list("places"))


def _count_words_per_sentence(comparison: TextComparison) -> float:
    """Count words per sentence; in scripts without spaces two pairs of characters count as a word."""
    ends = sum(comparison.texts.output.count(mark) for mark in ".!?\n。！？؟।")
    count = len(comparison.output.tokens) / (2 if detect_script(comparison.texts.output) in UNSPACED_SCRIPTS else 1)
    return count / max(1, ends)


def _score_relevance(comparison: TextComparison, values: MeasuredValues, no_fit: str) -> DimensionScore:
    """Score the mean of what can be measured.

    That is the fit to the question, where something particular was asked; how near the text comes to the expected
    descriptions (the larger of precision and scene); and brevity, 1 up to twice the expected length and falling as 2 ÷
    length beyond. An empty answer has 0; without an expected description only a particular question can be answered.
    `no_fit` says why there is no fit to the question.
    """
    key = "relevance"
    fit = values["description.question_fit"]
    parts: list[tuple[str, float]] = []
    if fit is not None:
        parts.append(("fit to the question", fit))
    if not comparison.incomparable_reason:
        near = max(_get_value(values, "precision"), _get_value(values, "scene"))
        parts.append(("nearness to what is expected", near))
        # Brevity is no merit of an answer that is beside the point.
        parts.append(("brevity", near and min(1.0, 2 / max(2.0, _get_value(values, "length", 1.0)))))
    elif not comparison.output.tokens:
        return DimensionScore(key, 0.0, "Nothing is said.")
    if not parts:
        return _abstain(key, f"{comparison.incomparable_reason}, and {no_fit}")
    score = sum(part for _, part in parts) / len(parts)
    return DimensionScore(
        key, score, f"{', '.join(f'{name} {format_whole_percent(part)}' for name, part in parts).capitalize()}."
    )


def _collect_findings(
    comparison: TextComparison, measurements: Mapping[str, Measurement]
) -> dict[str, tuple[str, ...]]:
    if comparison.references_given and comparison.silence_reason:
        return _collect_findings_of_silence(comparison)
    if comparison.no_grammar_reason:
        return {"hallucinations": (), "missing_elements": (), "strengths": (), "improvements": ()}
    unsupported, missing = find_unsupported(comparison), find_missing(comparison)
    contradictions = comparison.contradictions
    hallucinations = [f"not in the expected description: {phrase}" for phrase in unsupported]
    hallucinations += [f"against the expected description: {contradiction}" for contradiction in contradictions.all]
    return {
        "hallucinations": _limit_findings(hallucinations),
        "missing_elements": _limit_findings(missing),
        "strengths": tuple(_list_strengths(comparison, measurements, unsupported, missing)),
        "improvements": tuple(_list_improvements(comparison, measurements, unsupported, missing)),
    }


def _collect_findings_of_silence(comparison: TextComparison) -> dict[str, tuple[str, ...]]:
    """Return the findings about an empty output: everything that the longest expected description names is missing."""
    nouns = (
        list(max(comparison.references, key=lambda one: len(one.weights)).lemmas_by_kind["noun"].values())
        if comparison.english
        else []
    )
    missing = nouns or ["all that is expected"]
    return {
        "hallucinations": (),
        "missing_elements": _limit_findings(missing),
        "strengths": (),
        "improvements": (f"name {join_names(missing)}",),
    }


def _limit_findings(findings: Sequence[str]) -> tuple[str, ...]:
    rest = len(findings) - _MAX_FINDINGS
    return (*findings[:_MAX_FINDINGS], *((f"… and {rest} more",) if rest > 0 else ()))


def _list_strengths(
    comparison: TextComparison, measurements: Mapping[str, Measurement], unsupported: list[str], missing: list[str]
) -> list[str]:
    strengths: list[str] = []
    nouns = comparison.output.lemmas_by_kind["noun"]
    right = [phrase for lemma, phrase in nouns.items() if comparison.expected_words.support(lemma)]
    if comparison.contradictions.all:  # "names what is expected: three dogs" is no praise where there are two
        right = [phrase.split()[-1] for phrase in right]
    if right:
        strengths.append(f"names what is expected: {join_names(right)}")
    if nouns and not unsupported:
        strengths.append("names nothing that the expected description does not bear out")
    if not missing and comparison.best_covered.lemmas_by_kind["noun"]:
        strengths.append("leaves out no thing of an expected description")
    attributes = measurements["description.attribute_recall"].value
    if attributes is not None and attributes >= 0.8:
        strengths.append(f"gives {format_whole_percent(attributes)} of the expected qualities and numbers")
    checked = sum(comparison.contradictions.checked.values())
    if checked and not comparison.contradictions.all:
        strengths.append(f"contradicts none of the {checked} claims that could be compared")
    return strengths


def _list_improvements(
    comparison: TextComparison, measurements: Mapping[str, Measurement], unsupported: list[str], missing: list[str]
) -> list[str]:
    improvements: list[str] = []
    if missing:
        improvements.append(f"name {join_names(missing)}")
    others = _find_often_expected(comparison)
    if others:
        improvements.append(f"most expected descriptions also speak of: {join_names(others)}")
    improvements += [f"check {contradiction}" for contradiction in comparison.contradictions.all[:_MAX_FINDINGS]]
    if unsupported:
        improvements.append(f"check whether the image really shows {join_names(unsupported)}")
    repetition = measurements["description.repetition"].value
    if repetition is not None and repetition > 0.1:
        improvements.append(f"say things once: {format_whole_percent(repetition)} of the wording is repeated")
    fit = measurements["description.question_fit"]
    if fit.value is not None and fit.value < 0.5:
        improvements.append(f"answer the question: {fit.sentence[0].lower()}{fit.sentence[1:].rstrip('.')}")
    return improvements


def _find_often_expected(comparison: TextComparison) -> list[str]:
    """Return things that at least half of several expected descriptions name, beyond the best covered one, and the
    output does not.
    """
    least = max(2, len(comparison.references) / 2)
    covered = comparison.best_covered.lemmas_by_kind["noun"]
    return [
        lemma.replace("_", " ")
        for lemma, count in comparison.mentions.items()
        if count >= least
        and lemma not in covered
        and any(lemma in reading.lemmas_by_kind["noun"] for reading in comparison.references)
        and not comparison.output.word_set.support(lemma)
    ]


def _write_assessment(dimensions: Sequence[DimensionScore], human: Measurement) -> str:
    sentences = [f"{dimension.key.replace('_', ' ').capitalize()}: {dimension.reason}" for dimension in dimensions]
    rating = "" if human.value is None else f" {human.sentence}"
    return f"Measured on the texts, no image was looked at. {' '.join(sentences)}{rating}"


INSTRUMENTS: tuple[Instrument, ...] = tuple(TEXT_INSTRUMENTS)
