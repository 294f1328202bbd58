"""Whether an answer fits its question, as far as words tell."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from beholder.instruments.lexicon import Company, lexicon, listed_words
from beholder.instruments.texts import FRAMING, Comparison, Reading, weighted
from beholder.instruments.words import NEGATIONS, SIDES, Word, is_english, number, script

_ASKING = listed_words("asking")
# The kinds of words that may answer a question with "what": one that the question does not have is enough. "What is the
# weather like?" is answered by "sunny" and "What is the man doing?" by "yoga".
_ANYTHING = {"a thing": ("noun", "quality", "number"), "an act": ("verb", "noun")}
_WEIGHT_OF_KIND = 0.7  # "Three." answers "How many dogs are there?" without naming the dogs


def fit_to_question(seen: Comparison) -> tuple[float, str] | str:
    """0–1 and the sentence; only why there is no value where nothing particular was asked ("Describe this image.").

    An empty answer fits no question: 0.
    """
    question = Reading(seen.texts.question, seen.rarity, True)
    if not seen.texts.question.strip():
        return "no question was given"
    if not seen.output.spoken:
        return 0.0, "The question is not answered: the output is empty."
    if not seen.english or script(seen.texts.question) != "LATIN" or is_english(question.words) is False:
        return "questions are understood in English only"
    wanted = _wanted(question.words)
    asked = {
        lemma: weight
        for lemma, weight in question.weights.items()
        if lemma not in FRAMING and lemma not in _ASKING and not lemma.isdigit()
    }
    if not asked and wanted in ("", *_ANYTHING):  # any description answers "What is shown?"
        return "nothing particular was asked"
    parts: list[tuple[float, float]] = []
    told: list[str] = []
    if wanted:
        there = _has(wanted, seen.output, question)
        parts.append((_WEIGHT_OF_KIND, float(there)))
        told.append(f"{wanted} was asked for and {'is there' if there else 'is not there'}")
    if asked:
        # "there is no cat" answers a question about a cat
        said = Company(lemma.removeprefix("not ") for lemma in seen.output.weights)
        share = weighted((weight, said.borne_out(lemma)) for lemma, weight in asked.items())
        parts.append((1 - _WEIGHT_OF_KIND, share))
        told.append(f"{100 * share:.0f} % of the words of the question are taken up")
    return weighted(parts), f"{'; '.join(told).capitalize()}."


def _wanted(question: Sequence[Word]) -> str:
    """What kind of answer the question asks for, "" where any would do."""
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
    return "a yes or no" if first in listed_words("yes_no") else ""


def _has(wanted: str, answer: Reading, question: Reading) -> bool:
    forms = {word.form for word in answer.spoken}
    known = lexicon()
    match wanted:
        case "a number":
            return bool(forms & listed_words("counted")) or any(number(word) is not None for word in answer.spoken)
        case "a colour":
            return any(word.lemma in known.colours for word in answer.spoken)
        case "a place":
            return bool(forms & (listed_words("places") | SIDES.keys()))
        case "a person":
            return any(Company([lemma]).borne_out("person") for lemma in answer.of_kind["noun"])
        case "a thing" | "an act":
            return any(answer.of_kind[kind].keys() - question.weights.keys() for kind in _ANYTHING[wanted])
        case _:
            # a statement that takes up the question answers it too; how far is measured by its words
            return bool(forms & (NEGATIONS | {"yes", "true", "correct", "there", "is", "are"}))
