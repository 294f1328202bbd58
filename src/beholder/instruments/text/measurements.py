"""The text instruments: a description against expected descriptions, without looking at the image.

A word is *supported* by the same word, a synonym, or a more general or more special word of the expected descriptions
(`words.WordSet`), and weighs by its rarity (`comparison.WordRarity`). With several expected descriptions any of them
may support a word, unless an instrument says otherwise. What the expected descriptions do not mention may still be in
the image: these instruments cannot know.

`description.human` maps measurements to the rating that a person would give, from 1 (unrelated) to 4 (no error). Its
numbers are in `weights/description.json`, with the score they had; `benchmarks/alignment/descriptions.py` fits them on
experts' ratings of one-sentence descriptions of photographs.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar

from beholder.instruments.instrument import Better, Instrument, Measurement, fold_docstring
from beholder.instruments.text import words
from beholder.instruments.text.claims import Contradiction
from beholder.instruments.text.comparison import (
    FRAMING_WORDS,
    AnalyzedText,
    TextComparison,
    TextInput,
    compare_texts,
    compute_coverage,
    weighted_mean,
)

_QUESTION_WORDS = words.load_word_list("asking")
# The kinds of words that may answer a question with "what": one that the question does not have is enough. "What is the
# weather like?" is answered by "sunny" and "What is the man doing?" by "yoga".
_ANSWER_KINDS = {"a thing": ("noun", "quality", "number"), "an act": ("verb", "noun")}
_ANSWER_KIND_WEIGHT = 0.7  # "Three." answers "How many dogs are there?" without naming the dogs


def _find_wanted_kind(question: Sequence[words.Word]) -> str:
    """Return what kind of answer the question asks for, "" where any would do."""
    forms = [word.form for word in question]
    pairs = set(pairwise(forms))
    if ("how", "many") in pairs:
        return "a number"
    if any(word.lemma == "color" for word in question) and {"what", "which"} & set(forms):
        return "a colour"
    first = forms[0] if forms else ""
    if first == "where" or ("which", "side") in pairs:
        return "a place"
    if first in ("who", "whose"):
        return "a person"
    if first in ("what", "which"):
        return "an act" if any(word.form == "doing" or word.lemma == "happen" for word in question) else "a thing"
    return "a yes or no" if first in words.load_word_list("yes_no") else ""


def _has_kind(wanted: str, answer: AnalyzedText, question: AnalyzedText) -> bool:
    forms = {word.form for word in answer.tokens}
    known = words.load_lexicon()
    match wanted:
        case "a number":
            return bool(forms & words.load_word_list("counted")) or any(
                words.parse_number(word) is not None for word in answer.tokens
            )
        case "a colour":
            return any(word.lemma in known.colors for word in answer.tokens)
        case "a place":
            return bool(forms & (words.load_word_list("places") | words.SIDES.keys()))
        case "a person":
            return any(words.WordSet([lemma]).support("person") for lemma in answer.lemmas_by_kind["noun"])
        case "a thing" | "an act":
            return any(answer.lemmas_by_kind[kind].keys() - question.weights.keys() for kind in _ANSWER_KINDS[wanted])
        case _:
            # a statement that takes up the question answers it too; how far is measured by its words
            return bool(forms & (words.NEGATIONS | {"yes", "true", "correct", "there", "is", "are"}))


TextMeasure = Callable[[TextComparison], Measurement]
TextResult = tuple[float, str] | str
"""What was measured and the sentence that says it; or only why nothing was."""

# Filled by `text_measure`, in the order of this file.
TEXT_MEASURES: dict[str, TextMeasure] = {}
TEXT_INSTRUMENTS: list[Instrument] = []

_Key = TypeVar("_Key")
_MAX_SHOWN = 8
_MIN_REPETITION_WORDS = 6


def text_measure(
    name: str,
    *,
    unit: str = "share",
    better: Better = "higher",
    needs: Literal["nothing", "references", "english"] = "references",
) -> Callable[[Callable[[TextComparison], TextResult]], TextMeasure]:
    """Make a function an instrument of the family `description`; its docstring says what it measures.

    Args:
        name: The name within the family.
        unit: See `Measurement`.
        better: See `Measurement`.
        needs: When the function is called: always, only with expected descriptions that can be compared, or only where
            kinds of words can be told apart as well.
    """

    def wrap(function: Callable[[TextComparison], TextResult]) -> TextMeasure:
        def measure(comparison: TextComparison) -> Measurement:
            missing = {
                "nothing": "",
                "references": comparison.incomparable_reason,
                "english": comparison.no_grammar_reason,
            }[needs]
            result = missing or function(comparison)
            if isinstance(result, str):
                return Measurement(f"description.{name}", None, unit, better, f"Not measured: {result}.")
            return Measurement(f"description.{name}", result[0], unit, better, result[1])

        def measure_texts(texts: TextInput) -> Measurement:
            return measure(compare_texts(texts))

        TEXT_MEASURES[name] = measure
        TEXT_INSTRUMENTS.append(Instrument(f"description.{name}", fold_docstring(function), measure_texts, kind="text"))
        return measure

    return wrap


@text_measure("precision")
def measure_precision(comparison: TextComparison) -> TextResult:
    """The share of what the output says, by weight, that an expected description bears out. What it says is not there,
    and the expected descriptions do not speak of, is left out.
    """
    value = weighted_mean(
        (weight, comparison.expected_words.support(lemma)) for lemma, weight in comparison.checkable_weights.items()
    )
    return value, f"{format_whole_percent(value)} of what is said, by weight, is borne out by the expected description."


@text_measure("recall")
def measure_recall(comparison: TextComparison) -> TextResult:
    """The share of the expected description, by weight, that the output bears out; of several, of the one that it
    covers best.
    """
    value = compute_coverage(comparison.best_covered, comparison.output)
    which = "the expected description" if len(comparison.references) == 1 else "the best covered expected description"
    return value, f"{format_whole_percent(value)} of {which}, by weight, is said."


@text_measure("agreement")
def measure_agreement(comparison: TextComparison) -> TextResult:
    """The share of what the output says, by weight, that the expected descriptions come near, averaged over them; a
    sibling (cat, dog) counts 0.4, a word of the same scene (ski, slope) 0.2.
    """
    each = [
        weighted_mean(
            (weight, reading.word_set.similarity(lemma)) for lemma, weight in comparison.checkable_weights.items()
        )
        for reading in comparison.references
    ]
    value = sum(each) / len(each)
    return value, f"What is said comes {format_whole_percent(value)} near to the expected description, on average."


@text_measure("closeness")
def measure_closeness(comparison: TextComparison) -> TextResult:
    """The cosine between the weighted words of the output and those of the expected description nearest to it."""
    value = max(compute_cosine(comparison.output.weights, reading.weights) for reading in comparison.references)
    return value, f"The nearest expected description is {format_whole_percent(value)} alike, word by word."


@text_measure("scene", needs="english")
def measure_scene(comparison: TextComparison) -> TextResult:
    """The cosine between the scenes that the output and the expected descriptions tell of (snow, street, ball game …:
    the topics of the lexicon, each by the weight of its words).
    """
    theirs = _weigh_topics(comparison.references)
    if not theirs:
        return "the expected description names no scene that the lexicon knows"
    value = compute_cosine(_weigh_topics([comparison.output]), theirs)
    return value, f"The scene agrees to {format_whole_percent(value)}."


@text_measure("subject", needs="english")
def measure_subject(comparison: TextComparison) -> TextResult:
    """How near the expected descriptions come to the first thing that the output names, on average."""
    mine = comparison.output.subject
    if not mine:
        return "the output names no thing"
    value = sum(reading.word_set.similarity(mine) for reading in comparison.references) / len(comparison.references)
    return value, f"The subject, “{mine}”, comes {format_whole_percent(value)} near to what is expected."


@text_measure("expected_subject", needs="english")
def measure_expected_subject(comparison: TextComparison) -> TextResult:
    """How near the output comes to the first thing that each expected description names, on average."""
    subjects = [reading.subject for reading in comparison.references if reading.subject]
    if not subjects:
        return "the expected description names no thing"
    value = sum(comparison.output.word_set.similarity(subject) for subject in subjects) / len(subjects)
    most = Counter(subjects).most_common(1)[0][0]
    return value, f"The output comes {format_whole_percent(value)} near to the expected subject, “{most}”."


@text_measure("attribute_recall", needs="english")
def measure_attribute_recall(comparison: TextComparison) -> TextResult:
    """The share of the qualities and numbers of the best covered expected description, by weight, that the output has
    too.
    """
    wanted = {**comparison.best_covered.lemmas_by_kind["quality"], **comparison.best_covered.lemmas_by_kind["number"]}
    if not wanted:
        return "the expected description has no quality and no number"
    attributes = words.WordSet(
        (*comparison.output.lemmas_by_kind["quality"], *comparison.output.lemmas_by_kind["number"])
    )
    value = weighted_mean((comparison.rarity.weight(lemma), attributes.support(lemma)) for lemma in wanted)
    missing = [form for lemma, form in wanted.items() if not attributes.support(lemma)]
    note = f"; not said: {join_names(missing)}" if missing else ""
    return value, f"{format_whole_percent(value)} of the expected qualities and numbers are said{note}."


@text_measure("unsupported_nouns", better="lower", needs="english")
def measure_unsupported_nouns(comparison: TextComparison) -> TextResult:
    """The share of the things named in the output that no expected description bears out. They are not in the expected
    description; whether they are in the image cannot be told from text.
    """
    nouns = comparison.output.lemmas_by_kind["noun"]
    if not nouns:
        return "the output names no thing"
    unsupported = find_unsupported(comparison)
    names = f": {join_names(unsupported)}" if unsupported else ""
    return len(unsupported) / len(
        nouns
    ), f"{len(unsupported)} of {len(nouns)} things named are not in the expected description{names}."


@text_measure("missing_elements", better="lower", needs="english")
def measure_missing_elements(comparison: TextComparison) -> TextResult:
    """The share of the things named in the best covered expected description that the output does not bear out."""
    nouns = comparison.best_covered.lemmas_by_kind["noun"]
    if not nouns:
        return "the expected description names no thing"
    missing = find_missing(comparison)
    names = f": {join_names(missing)}" if missing else ""
    return len(missing) / len(nouns), f"{len(missing)} of {len(nouns)} expected things are not named{names}."


@text_measure("contradicted_colours", unit="", better="lower", needs="english")
def measure_contradicted_colors(comparison: TextComparison) -> TextResult:
    """How many things have another colour than in every expected description that gives them one; neighbouring colours
    and one of several do not count.
    """
    return _count_contradictions(comparison, "colors", "colour")


@text_measure("contradicted_numbers", unit="", better="lower", needs="english")
def measure_contradicted_numbers(comparison: TextComparison) -> TextResult:
    """How many things have another number than in every expected description that counts them; "a" is no number."""
    return _count_contradictions(comparison, "numbers", "number")


@text_measure("contradicted_negations", unit="", better="lower", needs="english")
def measure_contradicted_negations(comparison: TextComparison) -> TextResult:
    """How many things and acts are denied that an expected description affirms, or affirmed where all deny them."""
    return _count_contradictions(comparison, "negations", "presence")


@text_measure("contradicted_sides", unit="", better="lower", needs="english")
def measure_contradicted_sides(comparison: TextComparison) -> TextResult:
    """How many things are on the left where the expected descriptions have them on the right, or the reverse."""
    return _count_contradictions(comparison, "sides", "left or right")


def _count_contradictions(comparison: TextComparison, kind: str, what: str) -> TextResult:
    contradictions = comparison.contradictions
    found_contradictions: tuple[Contradiction, ...] = getattr(contradictions, kind)
    checked = contradictions.checked[kind]
    if not checked:
        return f"no claim of {what} in the output can be held against one in the expected description"
    examples = ": " + "; ".join(map(str, found_contradictions[:_MAX_SHOWN])) if found_contradictions else ""
    return float(
        len(found_contradictions)
    ), f"{len(found_contradictions)} of {checked} comparable claims of {what} are contradicted{examples}."


@text_measure("length", unit="×", better="")
def measure_length(comparison: TextComparison) -> TextResult:
    """The number of words of the output against the mean of the expected descriptions; 1 is as long."""
    count = len(comparison.output.tokens)
    ratio = count / (sum(len(reading.tokens) for reading in comparison.references) / len(comparison.references))
    return ratio, f"{count} words, {ratio:.1f} times the expected description."


@text_measure("words", unit="words", better="", needs="nothing")
def measure_word_count(comparison: TextComparison) -> TextResult:
    """How many words the output has; in scripts without spaces, pairs of neighbouring characters."""
    count = len(comparison.output.tokens)
    return float(count), f"The output has {count} words."


@text_measure("repetition", better="lower", needs="nothing")
def measure_repetition(comparison: TextComparison) -> TextResult:
    """The share of the runs of three words that the output had said before."""
    count = len(comparison.output.tokens)
    if count < _MIN_REPETITION_WORDS:
        return f"{count} words are too few to repeat something"
    value = compute_repetition(comparison.output)
    return value, f"{format_whole_percent(value)} of the runs of three words are repeated."


@text_measure("question_fit", needs="nothing")
def measure_question_fit(comparison: TextComparison) -> TextResult:
    """How far the output answers what was asked: the share of the question's content words that it takes up, and
    whether it has what the kind of question wants (a number, a colour, a place, a person, a yes or no).
    """
    # An empty answer fits no question, and any answer fits one that asks for nothing in particular ("Describe this
    # image."): 0, and no value.
    question = AnalyzedText(comparison.texts.question, comparison.rarity, True)
    if not comparison.texts.question.strip():
        return "no question was given"
    if not comparison.output.tokens:
        return 0.0, "The question is not answered: the output is empty."
    if (
        not comparison.english
        or words.detect_script(comparison.texts.question) != "LATIN"
        or words.is_english(question.words) is False
    ):
        return "questions are understood in English only"
    wanted = _find_wanted_kind(question.words)
    asked = {
        lemma: weight
        for lemma, weight in question.weights.items()
        if lemma not in FRAMING_WORDS and lemma not in _QUESTION_WORDS and not lemma.isdigit()
    }
    if not asked and wanted in ("", *_ANSWER_KINDS):  # any description answers "What is shown?"
        return "nothing particular was asked"
    parts: list[tuple[float, float]] = []
    phrases: list[str] = []
    if wanted:
        is_there = _has_kind(wanted, comparison.output, question)
        parts.append((_ANSWER_KIND_WEIGHT, float(is_there)))
        phrases.append(f"{wanted} was asked for and {'is there' if is_there else 'is not there'}")
    if asked:
        # "there is no cat" answers a question about a cat
        answer = words.WordSet(lemma.removeprefix("not ") for lemma in comparison.output.weights)
        share = weighted_mean((weight, answer.support(lemma)) for lemma, weight in asked.items())
        parts.append((1 - _ANSWER_KIND_WEIGHT, share))
        phrases.append(f"{100 * share:.0f} % of the words of the question are taken up")
    return weighted_mean(parts), f"{'; '.join(phrases).capitalize()}."


def compute_repetition(reading: AnalyzedText) -> float:
    """Return the share of a text's runs of three words that came before in it; 0 where there is none."""
    forms = [word.form for word in reading.tokens]
    runs = list(zip(forms, forms[1:], forms[2:], strict=False))
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


def join_names(names: Iterable[str], most: int = _MAX_SHOWN) -> str:
    """Format as "dog, cat and 3 more"."""
    listed = list(names)
    rest = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + rest


def format_whole_percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def compute_cosine(one: Mapping[_Key, float], other: Mapping[_Key, float]) -> float:
    """Return the cosine similarity, 0–1; 0 where one of them is empty."""
    size = math.sqrt(sum(x * x for x in one.values()) * sum(x * x for x in other.values()))
    return min(1.0, sum(x * other.get(key, 0.0) for key, x in one.items()) / size) if size else 0.0


def _weigh_topics(readings: Iterable[AnalyzedText]) -> Mapping[int, float]:
    topics = words.load_lexicon().topics
    weights: dict[int, float] = defaultdict(float)
    for reading in readings:
        for lemma, weight in reading.weights.items():
            for topic in topics.get(lemma, ()):
                weights[topic] += weight
    return weights


def find_unsupported(comparison: TextComparison) -> list[str]:
    """Return the phrases of the output's things that nothing expected supports, the rarest first."""
    nouns = comparison.output.lemmas_by_kind["noun"]
    unsupported = [lemma for lemma in nouns if not comparison.expected_words.support(lemma)]
    return [nouns[lemma] for lemma in sorted(unsupported, key=lambda one: -comparison.rarity.weight(one))]


def find_missing(comparison: TextComparison) -> list[str]:
    """Return the phrases of the best covered expected description's things that the output does not support, in its
    order.
    """
    nouns = comparison.best_covered.lemmas_by_kind["noun"]
    return [phrase for lemma, phrase in nouns.items() if not comparison.output.word_set.support(lemma)]


HUMAN_FEATURES = ("agreement", "closeness", "scene", "subject", "expected_subject")
MAX_FITTED_WORDS = 60
"""In words: the map was fitted on single sentences, and a longer text is outside of what it knows."""


@dataclass(frozen=True, slots=True)
class TextRatingFeature:
    """A measurement's part in the map; `mean` and `deviation` are those of the cases it was fitted on."""

    name: str
    weight: float
    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class TextRatingMap:
    """A fitted map: 1 + 3 ÷ (1 + e^−s), where s is the intercept plus, for every feature, its weight times its distance
    from the mean in standard deviations.
    """

    intercept: float
    features: tuple[TextRatingFeature, ...]

    def rating(self, values: Mapping[str, float | None]) -> float:
        """Return the rating, 1–4. A feature without a value counts as its mean."""
        score = self.intercept
        for feature in self.features:
            value = values[feature.name]
            if value is not None:
                score += feature.weight * (value - feature.mean) / feature.deviation
        return 1 + 3 / (1 + math.exp(-score))


@cache
def load_text_rating_map() -> TextRatingMap:
    """Load the committed map."""
    stored = json.loads((Path(str(files("beholder.instruments"))) / "weights" / "description.json").read_text("utf-8"))
    return TextRatingMap(stored["intercept"], tuple(TextRatingFeature(**feature) for feature in stored["features"]))


@text_measure("human", unit="1–4", needs="english")
def measure_human_rating(comparison: TextComparison) -> TextResult:
    """The rating that a person would give on the scale 1 (unrelated) to 4 (no error), predicted by a map fitted on
    experts' ratings of one-sentence descriptions of photographs; nothing for longer texts.
    """
    longest = max(len(comparison.output.tokens), *(len(reading.tokens) for reading in comparison.references))
    if longest > MAX_FITTED_WORDS:
        return f"the map to people's ratings was fitted on single sentences, and here are {longest} words"
    rating = load_text_rating_map().rating({name: TEXT_MEASURES[name](comparison).value for name in HUMAN_FEATURES})
    return rating, f"People would rate it about {rating:.1f} on the scale 1–4."
