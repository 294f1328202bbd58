"""What text instruments measure: one text and the expected ones beside it, analyzed once for all instruments.

Words weigh by how rare they are in descriptions of everyday photographs: "skijoring" says more than "man". The weight
is log((photos + 1) / (photos that mention it + ½)), from `weights/words.json`; a word that is not in that table counts
as mentioned once. Words that only present the picture ("the image shows") weigh least.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from pathlib import Path

from beholder.instruments.text.claims import (
    Contradictions,
    TextClaims,
    extract_claims,
    find_contradictions,
    find_negated,
)
from beholder.instruments.text.words import (
    CLAUSE_BREAK,
    FOREIGN_FUNCTION_WORDS,
    UNSPACED_SCRIPTS,
    Word,
    WordSet,
    detect_script,
    is_english,
    load_lexicon,
    load_word_list,
    split_words,
)

MIN_WORD_WEIGHT = 0.5

FRAMING_WORDS = load_word_list("framing")
_COLLECTIVE_WORDS = FRAMING_WORDS | load_word_list("collective")
_NON_NAMES = FRAMING_WORDS | load_lexicon().not_things
_ANSWER_WORDS = load_word_list("answers")
_MAX_PHRASE_WORDS = 4


@dataclass(frozen=True, slots=True)
class TextInput:
    """What a text instrument measures: the text that is judged, the expected descriptions, and the question that was
    asked.
    """

    output: str
    references: tuple[str, ...] = ()
    question: str = ""


@dataclass(frozen=True, slots=True)
class WordRarity:
    """In how many of `photos` photographs the descriptions mention each word."""

    photos: int
    mentions: Mapping[str, int]

    def weight(self, lemma: str) -> float:
        """Return the weight of a word, at least `MIN_WORD_WEIGHT`; "not dog" weighs what "dog" does."""
        lemma = lemma.removeprefix("not ")
        if lemma in FRAMING_WORDS:
            return MIN_WORD_WEIGHT
        return max(MIN_WORD_WEIGHT, math.log((self.photos + 1) / (max(1, self.mentions.get(lemma, 1)) + 0.5)))

    @classmethod
    def from_descriptions(cls, photos: Iterable[Sequence[str]]) -> WordRarity:
        """Count words in the descriptions of photographs; each photograph has several descriptions."""
        mentions: Counter[str] = Counter()
        count = 0
        for descriptions in photos:
            count += 1
            mentions.update({word.lemma for text in descriptions for word in split_words(text) if word.content})
        return cls(count, mentions)


@cache
def load_word_rarity() -> WordRarity:
    """Load the committed table."""
    table = json.loads((Path(str(files("beholder.instruments"))) / "weights" / "words.json").read_text("utf-8"))
    return WordRarity(table["photos"], table["mentions"])


@dataclass(frozen=True)
class AnalyzedText:
    """One text with its words, weights and claims."""

    text: str
    rarity: WordRarity
    english: bool

    @cached_property
    def words(self) -> tuple[Word, ...]:
        return split_words(self.text)

    @cached_property
    def tokens(self) -> list[Word]:
        """The words without the breaks between clauses."""
        return [word for word in self.words if word is not CLAUSE_BREAK]

    @cached_property
    def negated(self) -> frozenset[int]:
        """The positions in `words` of what is denied."""
        return find_negated(self.words) if self.english else frozenset()

    @cached_property
    def weights(self) -> dict[str, float]:
        """Every content word once, with its weight, in the order of the text; "not hat" for what is denied.

        In a language other than English few function words are known: they and all words up to three letters weigh
        nothing, and all others the same. A text without a content word, such as "No." or "On the left.", has the words
        that answer (`answer_weights`).
        """
        if not self.english:
            unspaced = detect_script(self.text) in UNSPACED_SCRIPTS
            return {
                word.form: 1.0
                for word in self.tokens
                if unspaced or (len(word.form) > 3 and word.form not in FOREIGN_FUNCTION_WORDS) or word.form.isdecimal()
            }
        weights: dict[str, float] = {}
        for at, word in enumerate(self.words):
            if word.content:
                name = f"not {word.lemma}" if at in self.negated else word.lemma
                weights.setdefault(name, self.rarity.weight(name))
        return weights or self.answer_weights

    @cached_property
    def answer_weights(self) -> dict[str, float]:
        """The function words that can be a whole answer, with their weight."""
        return {word.form: MIN_WORD_WEIGHT for word in self.tokens if self.english and word.form in _ANSWER_WORDS}

    @cached_property
    def word_set(self) -> WordSet:
        return WordSet((*self.weights, *self.answer_weights))

    @cached_property
    def lemmas_by_kind(self) -> dict[str, dict[str, str]]:
        """For each kind of word the lemmas that are affirmed, each with its phrase ("red umbrella")."""
        lemmas: dict[str, dict[str, str]] = {"noun": {}, "verb": {}, "quality": {}, "number": {}}
        for at, word in enumerate(self.words):
            if word.content and at not in self.negated and word.lemma not in _NON_NAMES:
                lemmas[word.kind].setdefault(word.lemma, self._phrase(at) if word.kind == "noun" else word.form)
        return lemmas

    def _phrase(self, at: int) -> str:
        first = at
        while first > max(0, at - _MAX_PHRASE_WORDS + 1) and self.words[first - 1].kind in ("quality", "number"):
            first -= 1
        return " ".join(word.form.replace("_", " ") for word in self.words[first : at + 1])

    @cached_property
    def subject(self) -> str:
        """The first noun that neither presents the picture nor is a collective ("group"), else the first noun; ""
        without a noun.
        """
        nouns = list(self.lemmas_by_kind["noun"])
        return next((noun for noun in nouns if noun not in _COLLECTIVE_WORDS), nouns[0] if nouns else "")

    @cached_property
    def claims(self) -> TextClaims:
        return extract_claims(self.words, self.negated)


@dataclass(frozen=True)
class TextComparison:
    """A text beside the expected ones."""

    texts: TextInput
    rarity: WordRarity

    @cached_property
    def output(self) -> AnalyzedText:
        return AnalyzedText(self.texts.output, self.rarity, self.english)

    @cached_property
    def references(self) -> tuple[AnalyzedText, ...]:
        return tuple(AnalyzedText(text, self.rarity, self.english) for text in self._comparable)

    @property
    def references_given(self) -> bool:
        return bool(self._given)

    @cached_property
    def _given(self) -> list[str]:
        return [text for text in self.texts.references if text.strip()]

    @cached_property
    def _comparable(self) -> list[str]:
        """The expected descriptions in the script of the output; digits are in every script."""
        script = detect_script(self.texts.output)
        return [text for text in self._given if not script or detect_script(text) in (script, "")]

    @cached_property
    def _languages(self) -> tuple[bool | None, bool | None]:
        """Whether the output and the expected descriptions are in English; None where they are too short to tell."""
        english = tuple(
            is_english(split_words(text)) if detect_script(text) in ("LATIN", "") else False
            for text in (self.texts.output, "\n".join(self._comparable))
        )
        return english[0], english[1]

    @cached_property
    def english(self) -> bool:
        """Whether the output is English; a short output is in the language of the expected descriptions."""
        mine, theirs = self._languages
        return mine if mine is not None else theirs is not False

    @cached_property
    def incomparable_reason(self) -> str:
        """Why the texts cannot be compared, for a sentence; "" where they can."""
        if not self._given:
            return "there is no expected description to compare with"
        if silent := self.silence_reason:
            return silent
        if not self._comparable:
            written, expected = (_name_script(text) for text in (self.texts.output, self._given[0]))
            return f"the output is written in {written}, the expected description in {expected}"
        if not any(reading.weights for reading in self.references):
            return "the expected description has no content word"
        if None not in self._languages and len(set(self._languages)) > 1:
            return "the output and the expected description seem to be in different languages"
        return ""

    @cached_property
    def silence_reason(self) -> str:
        """Why the output says nothing; "" where it says something."""
        if not self.texts.output.strip():
            return "the output is empty"
        return "" if self.output.weights else "the output has no content word"

    @cached_property
    def no_grammar_reason(self) -> str:
        """Why kinds of words cannot be compared: `incomparable_reason`, or the language is not English."""
        return self.incomparable_reason or (
            "" if self.english else "nouns, colours and negations are told apart in English only"
        )

    @cached_property
    def expected_words(self) -> WordSet:
        """The words of all expected descriptions together: any of them may support a word."""
        return WordSet(lemma for reading in self.references for lemma in reading.word_set.lemmas)

    @cached_property
    def checkable_weights(self) -> dict[str, float]:
        """The output's words with their weights, without denials that the expected descriptions do not mention.

        "There are no people" is neither right nor wrong where people are not mentioned.
        """
        mentioned = {lemma.removeprefix("not ") for lemma in self.expected_words.lemmas}
        weights = self.output.weights.items()
        checkable = {word: weight for word, weight in weights if not word.startswith("not ") or word[4:] in mentioned}
        return checkable or self.output.weights

    @cached_property
    def contradictions(self) -> Contradictions:
        asked = AnalyzedText(self.texts.question, self.rarity, self.english).claims.affirmed
        return find_contradictions(self.output.claims, [reading.claims for reading in self.references], asked)

    @cached_property
    def mentions(self) -> Mapping[str, int]:
        """How many expected descriptions have each of their words."""
        return Counter(lemma for reading in self.references for lemma in reading.weights)

    @cached_property
    def best_covered(self) -> AnalyzedText:
        """The expected description whose words the output covers best; of equals the longest."""
        return max(self.references, key=lambda reading: (compute_coverage(reading, self.output), len(reading.weights)))


def _name_script(text: str) -> str:
    name = detect_script(text)
    return {"": "no letters", "CJK": "Chinese or Japanese characters"}.get(name, f"{name.title()} letters")


def compute_coverage(reading: AnalyzedText, by: AnalyzedText) -> float:
    """Return the share of a text's content, by weight, that another text supports, 0–1."""
    return weighted_mean((weight, by.word_set.support(lemma)) for lemma, weight in reading.weights.items())


def weighted_mean(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the mean of the second numbers, weighted by the first; 0 where nothing weighs."""
    total = above = 0.0
    for weight, value in pairs:
        total += weight
        above += weight * value
    return min(1.0, above / total) if total else 0.0


@lru_cache(maxsize=2)
def compare_texts(texts: TextInput) -> TextComparison:
    """Compare texts; cached, for the instruments that measure the same texts one after the other."""
    return TextComparison(texts, load_word_rarity())
