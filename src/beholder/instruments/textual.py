"""The text instruments: a description against expected descriptions, with no image looked at.

A word is *borne out* by the same word, a synonym or a more general or more special word of the expected descriptions
(`lexicon.Company`), and weighs by its rarity (`texts.Rarity`). With several expected descriptions any may bear a word
out, unless an instrument says otherwise. What the expected descriptions do not mention may still be in the image: these
instruments cannot know.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeVar

from beholder.instruments.claims import Contradiction
from beholder.instruments.lexicon import Company, lexicon
from beholder.instruments.model import Better, Instrument, Measurement
from beholder.instruments.questions import fit_to_question
from beholder.instruments.texts import Comparison, Reading, Texts, compare, covered, weighted

Measure = Callable[[Comparison], Measurement]
Found = tuple[float, str] | str
"""What was measured and the sentence that says it; or only why nothing was."""

MEASURES: dict[str, Measure] = {}

_Key = TypeVar("_Key")
_SHOWN = 8
_LEAST_WORDS_FOR_REPETITION = 6


def measured(
    name: str,
    *,
    unit: str = "share",
    better: Better = "higher",
    needs: Literal["nothing", "references", "english"] = "references",
) -> Callable[[Callable[[Comparison], Found]], Measure]:
    """Makes a function an instrument of the family. It is called only where what it needs is there: expected
    descriptions that can be compared, and for "english" also kinds of words that can be told apart."""

    def wrap(function: Callable[[Comparison], Found]) -> Measure:
        def measure(seen: Comparison) -> Measurement:
            lacking = {"nothing": "", "references": seen.unusable, "english": seen.unreadable}[needs]
            found = lacking or function(seen)
            if isinstance(found, str):
                return Measurement(f"description.{name}", None, unit, better, f"Not measured: {found}.")
            return Measurement(f"description.{name}", found[0], unit, better, found[1])

        measure.__doc__ = function.__doc__
        MEASURES[name] = measure
        return measure

    return wrap


@measured("precision")
def precision(seen: Comparison) -> Found:
    """The share of what the output says, by weight, that an expected description bears out. What it says is not there,
    and the expected descriptions do not speak of, is left out."""
    value = weighted((weight, seen.expected.borne_out(lemma)) for lemma, weight in seen.said.items())
    return value, f"{percent(value)} of what is said, by weight, is borne out by the expected description."


@measured("recall")
def recall(seen: Comparison) -> Found:
    """The share of the expected description, by weight, that the output bears out; of several, of the one that it
    covers best."""
    value = covered(seen.closest, seen.output)
    which = "the expected description" if len(seen.references) == 1 else "the best covered expected description"
    return value, f"{percent(value)} of {which}, by weight, is said."


@measured("agreement")
def agreement(seen: Comparison) -> Found:
    """The share of what the output says, by weight, that the expected descriptions come near, averaged over them; a
    sibling (cat, dog) counts 0.4, a word of the same scene (ski, slope) 0.2."""
    each = [
        weighted((weight, reading.company.nearest(lemma)) for lemma, weight in seen.said.items())
        for reading in seen.references
    ]
    value = sum(each) / len(each)
    return value, f"What is said comes {percent(value)} near to the expected description, on average."


@measured("closeness")
def closeness(seen: Comparison) -> Found:
    """The cosine between the weighted words of the output and those of the expected description nearest to it."""
    value = max(cosine(seen.output.weights, reading.weights) for reading in seen.references)
    return value, f"The nearest expected description is {percent(value)} alike, word by word."


@measured("scene", needs="english")
def scene(seen: Comparison) -> Found:
    """The cosine between the scenes that the output and the expected descriptions tell of (snow, street, ball game …:
    the topics of the lexicon, each by the weight of its words)."""
    theirs = _scenes(seen.references)
    if not theirs:
        return "the expected description names no scene that the lexicon knows"
    value = cosine(_scenes([seen.output]), theirs)
    return value, f"The scene agrees to {percent(value)}."


@measured("subject", needs="english")
def subject(seen: Comparison) -> Found:
    """How near the expected descriptions come to the first thing that the output names, on average."""
    mine = seen.output.subject
    if not mine:
        return "the output names no thing"
    value = sum(reading.company.nearest(mine) for reading in seen.references) / len(seen.references)
    return value, f"The subject, “{mine}”, comes {percent(value)} near to what is expected."


@measured("expected_subject", needs="english")
def expected_subject(seen: Comparison) -> Found:
    """How near the output comes to the first thing that each expected description names, on average."""
    subjects = [reading.subject for reading in seen.references if reading.subject]
    if not subjects:
        return "the expected description names no thing"
    value = sum(seen.output.company.nearest(one) for one in subjects) / len(subjects)
    most = Counter(subjects).most_common(1)[0][0]
    return value, f"The output comes {percent(value)} near to the expected subject, “{most}”."


@measured("attribute_recall", needs="english")
def attribute_recall(seen: Comparison) -> Found:
    """The share of the qualities and numbers of the best covered expected description, by weight, that the output has
    too."""
    wanted = {**seen.closest.of_kind["quality"], **seen.closest.of_kind["number"]}
    if not wanted:
        return "the expected description has no quality and no number"
    own = Company((*seen.output.of_kind["quality"], *seen.output.of_kind["number"]))
    value = weighted((seen.rarity.weight(lemma), own.borne_out(lemma)) for lemma in wanted)
    lost = [form for lemma, form in wanted.items() if not own.borne_out(lemma)]
    missed = f"; not said: {listed(lost)}" if lost else ""
    return value, f"{percent(value)} of the expected qualities and numbers are said{missed}."


@measured("unsupported_nouns", better="lower", needs="english")
def unsupported_nouns(seen: Comparison) -> Found:
    """The share of the things named in the output that no expected description bears out. They are not in the expected
    description; whether they are in the image cannot be told from text."""
    nouns = seen.output.of_kind["noun"]
    if not nouns:
        return "the output names no thing"
    stray = unsupported(seen)
    told = f": {listed(stray)}" if stray else ""
    return len(stray) / len(
        nouns
    ), f"{len(stray)} of {len(nouns)} things named are not in the expected description{told}."


@measured("missing_elements", better="lower", needs="english")
def missing_elements(seen: Comparison) -> Found:
    """The share of the things named in the best covered expected description that the output does not bear out."""
    nouns = seen.closest.of_kind["noun"]
    if not nouns:
        return "the expected description names no thing"
    lost = missing(seen)
    told = f": {listed(lost)}" if lost else ""
    return len(lost) / len(nouns), f"{len(lost)} of {len(nouns)} expected things are not named{told}."


@measured("contradicted_colours", unit="", better="lower", needs="english")
def contradicted_colours(seen: Comparison) -> Found:
    """How many things have another colour than in every expected description that gives them one; neighbouring colours
    and one of several do not count."""
    return _contradicted(seen, "colours", "colour")


@measured("contradicted_numbers", unit="", better="lower", needs="english")
def contradicted_numbers(seen: Comparison) -> Found:
    """How many things have another number than in every expected description that counts them; "a" is no number."""
    return _contradicted(seen, "numbers", "number")


@measured("contradicted_negations", unit="", better="lower", needs="english")
def contradicted_negations(seen: Comparison) -> Found:
    """How many things and acts are denied that an expected description affirms, or affirmed where all deny them."""
    return _contradicted(seen, "negations", "presence")


@measured("contradicted_sides", unit="", better="lower", needs="english")
def contradicted_sides(seen: Comparison) -> Found:
    """How many things are on the left where the expected descriptions have them on the right, or the reverse."""
    return _contradicted(seen, "sides", "left or right")


def _contradicted(seen: Comparison, kind: str, what: str) -> Found:
    found = seen.contradictions
    wrong: tuple[Contradiction, ...] = getattr(found, kind)
    checked = found.checked[kind]
    if not checked:
        return f"no claim of {what} in the output can be held against one in the expected description"
    told = ": " + "; ".join(map(str, wrong[:_SHOWN])) if wrong else ""
    return float(len(wrong)), f"{len(wrong)} of {checked} comparable claims of {what} are contradicted{told}."


@measured("length", unit="×", better="")
def length(seen: Comparison) -> Found:
    """The number of words of the output against the mean of the expected descriptions; 1 is as long."""
    said = len(seen.output.spoken)
    ratio = said / (sum(len(reading.spoken) for reading in seen.references) / len(seen.references))
    return ratio, f"{said} words, {ratio:.1f} times the expected description."


@measured("words", unit="words", better="", needs="nothing")
def word_count(seen: Comparison) -> Found:
    """How many words the output has; in scripts without spaces, pairs of neighbouring characters."""
    said = len(seen.output.spoken)
    return float(said), f"The output has {said} words."


@measured("repetition", better="lower", needs="nothing")
def repetition(seen: Comparison) -> Found:
    """The share of the runs of three words that the output had said before."""
    said = len(seen.output.spoken)
    if said < _LEAST_WORDS_FOR_REPETITION:
        return f"{said} words are too few to repeat something"
    value = repeated(seen.output)
    return value, f"{percent(value)} of the runs of three words are repeated."


@measured("question_fit", needs="nothing")
def question_fit(seen: Comparison) -> Found:
    """How far the output answers what was asked: the share of the question's content words that it takes up, and
    whether it has what the kind of question wants (a number, a colour, a place, a person, a yes or no)."""
    return fit_to_question(seen)


def repeated(reading: Reading) -> float:
    """The share of a text's runs of three words that came before in it; 0 where there is none."""
    forms = [word.form for word in reading.spoken]
    runs = list(zip(forms, forms[1:], forms[2:], strict=False))
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


def listed(names: Iterable[str], most: int = _SHOWN) -> str:
    """ "dog, cat and 3 more"."""
    found = list(names)
    rest = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + rest


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def cosine(one: Mapping[_Key, float], other: Mapping[_Key, float]) -> float:
    """0–1; 0 where one of them is empty."""
    size = math.sqrt(sum(x * x for x in one.values()) * sum(x * x for x in other.values()))
    return min(1.0, sum(x * other.get(key, 0.0) for key, x in one.items()) / size) if size else 0.0


def _scenes(readings: Iterable[Reading]) -> Mapping[int, float]:
    topics = lexicon().topics
    found: dict[int, float] = defaultdict(float)
    for reading in readings:
        for lemma, weight in reading.weights.items():
            for topic in topics.get(lemma, ()):
                found[topic] += weight
    return found


def unsupported(seen: Comparison) -> list[str]:
    """The phrases of the output's things that nothing expected bears out, the most telling first."""
    nouns = seen.output.of_kind["noun"]
    stray = [lemma for lemma in nouns if not seen.expected.borne_out(lemma)]
    return [nouns[lemma] for lemma in sorted(stray, key=lambda one: -seen.rarity.weight(one))]


def missing(seen: Comparison) -> list[str]:
    """The phrases of the best covered expected description's things that the output does not bear out, in its order."""
    nouns = seen.closest.of_kind["noun"]
    return [phrase for lemma, phrase in nouns.items() if not seen.output.company.borne_out(lemma)]


def as_instrument(name: str, measure: Measure) -> Instrument:
    def on(texts: Texts) -> Measurement:
        return measure(compare(texts))

    return Instrument(f"description.{name}", " ".join((measure.__doc__ or "").split()), on, kind="text")
