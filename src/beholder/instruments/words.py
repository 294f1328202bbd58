"""Words of a text: split, brought to their base form, and told apart (noun, verb, quality, number, function word).

No model and no dictionary of the language: suffix rules, a table of exceptions and the hand-written `lexicon`. Good
enough to hold one description against another, where the same mistake on both sides cancels out; not a parser. English;
other languages in an alphabet are split into words and compared as they are written, and scripts without spaces are
compared by pairs of characters. Everything is linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from beholder.instruments.lexicon import lexicon, listed_words, sections

Kind = Literal["noun", "verb", "quality", "number", "function"]

_SHORT = 1000
_TELLING = 8
_FAMILIAR = 0.25
_TELLING_AT_ONCE = 3  # so few words are enough where nearly all of them are familiar
_FAMILIAR_AT_ONCE = 0.75
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[.,;:!?\n]")
UNSPACED = frozenset({"CJK", "THAI", "LAO", "KHMER", "MYANMAR"})
"""Scripts that write no spaces between words."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_NUMBERS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
    "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
_IN_WORDS = {str(count): form for form, count in _NUMBERS.items()}

_DETERMINERS = listed_words("determiners")
_PRONOUNS = listed_words("pronouns")
_AUXILIARIES = listed_words("auxiliaries")
FUNCTION_WORDS = _DETERMINERS | _PRONOUNS | _AUXILIARIES | listed_words("prepositions") | listed_words("particles")
NEGATIONS = listed_words("negations")
ELSEWHERE = listed_words("elsewhere") - FUNCTION_WORDS - lexicon().words
"""Function words of other languages in Latin letters that are no words of English descriptions."""
SIDES = {"left": "left", "right": "right", "leftmost": "left", "rightmost": "right"}

_IRREGULAR = {form: line.split()[0] for line in sections("grammar.txt")["irregular"] for form in line.split()[1:]}
_UNCHANGED = listed_words("unchanged")
_DOUBLED = re.compile(r"([bdgmnprt])\1$")
_SHORT_VOWEL_END = re.compile(r"^[^aeiouy]*[aeiou][^aeiouywx]$")
_WANTS_E = re.compile(r"(?:[^aeiou](?:l|u)|[aeiou][cvz]|[^aeiou][cvz]|[dr]g|at|iz|ur|uid|as|os)$")


@dataclass(frozen=True, slots=True)
class Word:
    """One word: as it stands in the text, in its base form, and what it is taken for."""

    form: str
    lemma: str
    kind: Kind

    @property
    def content(self) -> bool:
        return self.kind != "function"


_word = lru_cache(maxsize=16384)(Word)
BREAK = Word(".", "", "function")
"""Stands where a clause ends."""


@lru_cache(maxsize=65536)
def lemma(form: str) -> str:
    """The base form of one English word in lower case: dogs → dog, riding → ride. Unknown words go by their suffix."""
    if form in _IRREGULAR:
        return _IRREGULAR[form]
    known = lexicon().words
    if form in _UNCHANGED or form in known or len(form) < 4 or form.isdigit():
        return form
    if form.endswith("s") and not form.endswith(("ss", "us", "is")):
        return _IRREGULAR.get(form, _singular(form, known))
    for suffix in ("ing", "ed"):
        if form.endswith(suffix) and re.search("[aeiouy]", form[: -len(suffix)]):
            return _unsuffixed(form[: -len(suffix)], known)
    return form


def _singular(form: str, known: frozenset[str]) -> str:
    if form.endswith("ies") and len(form) > 4:
        return form[:-1] if form[:-1] in known else form[:-3] + "y"
    sibilant = form.endswith(("sses", "xes", "ches", "shes", "zzes", "oes"))
    if form.endswith("es") and form[:-1] not in known and (sibilant or form[:-2] in known):
        return form[:-2]
    return form[:-1]


def _unsuffixed(stem: str, known: frozenset[str]) -> str:
    for candidate in (stem, stem + "e", stem[:-1] if _DOUBLED.search(stem) else stem):
        if candidate in known:
            return candidate
    if stem.endswith("i"):
        return stem[:-1] + "y"
    if _DOUBLED.search(stem):
        return stem[:-1]
    if _SHORT_VOWEL_END.search(stem) or _WANTS_E.search(stem):
        return stem + "e"
    return stem


def words(text: str) -> tuple[Word, ...]:
    """The words of `text` in order, `BREAK` where a clause ends. Compounds of the lexicon are one word (hot_dog)."""
    return (_words_of_short if len(text) < _SHORT else _words_of_long)(text)


def _words(text: str) -> tuple[Word, ...]:
    forms: list[str] = []
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if token in ".,;:!?\n":
            forms.append(".")
        elif _UNSPACED.search(token):
            forms += _pairs(token)
        else:
            forms += _parts(token)
    return tuple(_tagged(_joined(forms)))


# The expected descriptions of a case come again with every model under test; long texts are not worth much room.
_words_of_short = lru_cache(maxsize=8192)(_words)
_words_of_long = lru_cache(maxsize=2)(_words)


def _parts(token: str) -> list[str]:
    """don't → do not, dog's → dog."""
    head, _, tail = token.replace("’", "'").partition("'")
    if tail == "t" and head.endswith("n") and len(head) > 2:
        return [{"can": "can", "won": "will", "shan": "shall"}.get(head, head[:-1]), "not"]
    return [head] if tail in ("s", "re", "ve", "ll", "d", "m", "") else [head, tail]


def _pairs(run: str) -> list[str]:
    """A script without spaces: its pairs of neighbouring characters stand for words."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def _joined(forms: list[str]) -> list[str]:
    compounds = lexicon().compounds
    joined: list[str] = []
    i = 0
    while i < len(forms):
        second = forms[i + 1] if i + 1 < len(forms) else ""
        if forms[i] in compounds and (together := f"{forms[i]}_{lemma(second)}") in lexicon().words:
            joined.append(together)
            i += 2
        elif _NUMBERS.get(forms[i], 0) >= 20 and 0 < _NUMBERS.get(second, 0) < 10:
            joined.append(str(_NUMBERS[forms[i]] + _NUMBERS[second]))  # "twenty-five"
            i += 2
        elif forms[i] == "dozen":
            joined.append(_dozen(joined))
            i += 1
        else:
            joined.append(forms[i])
            i += 1
    return joined


def _dozen(before: list[str]) -> str:
    """The number that a dozen comes to ("a dozen", "half a dozen", "two dozen"); the words of it that stand before are
    taken away."""
    if before[-2:] == ["half", "a"]:
        del before[-2:]
        return "six"
    many = before[-1] if before else ""
    count = 1 if many == "a" else _NUMBERS.get(many, int(many) if many.isdecimal() and len(many) < 4 else 0)
    if count:
        del before[-1]
    return "twelve" if count < 2 else str(12 * count)


def _tagged(forms: list[str]) -> list[Word]:
    found: list[Word] = []
    for i, form in enumerate(forms):
        if form == ".":
            found.append(BREAK)
            continue
        base = _IN_WORDS.get(form) or lemma(form)  # "2 dogs" are two dogs
        kind = _kind(form, base, found[-1] if found else BREAK, forms[i + 1] if i + 1 < len(forms) else ".")
        found.append(_word(form, base, kind))
    return found


def _kind(form: str, base: str, before: Word, following: str) -> Kind:
    if form in _NUMBERS or form.isdigit():
        # "the one on the left", "the red one": a pronoun, not a number
        stands_for = before.form in _DETERMINERS or before.form in SIDES or before.kind == "quality"
        return "function" if form == "one" and stands_for else "number"
    if form in FUNCTION_WORDS or form in NEGATIONS:
        return "function"
    if form in SIDES:
        return "function"
    can = lexicon().kinds(base)
    if not can and (form.endswith("ly") or _is_quality(following)):
        return "quality"  # "lush green trees"
    opened = before.form in _DETERMINERS or before.kind in ("quality", "number")
    if "quality" in can and ("noun" not in can or _opens_noun(following)):
        return "quality"
    if "verb" in can:
        if "noun" not in can:
            return "verb"
        inflected = form != base and form.endswith(("ing", "ed"))
        acts = before.form in ("to",) or before.form in _AUXILIARIES or before.form in _PRONOUNS
        after_noun = before.kind == "noun" and (inflected or form.endswith("s") or before.form.endswith("s"))
        return "verb" if not opened and (acts or inflected or after_noun) else "noun"
    if not can and not opened and form.endswith(("ing", "ed")) and form not in _UNCHANGED:
        return "verb"
    return "noun"


def _is_quality(form: str) -> bool:
    return lexicon().kinds(lemma(form)) == {"quality"}


def _opens_noun(following: str) -> bool:
    """Whether the next word can be what a quality is said of: "orange shirt", not "an orange on a plate" nor "a light
    falling down"."""
    if following in FUNCTION_WORDS or following == ".":
        return False
    return not following.endswith(("ing", "ed")) or lemma(following) == following


def number(word: Word) -> int | None:
    """The number that a word says, None for any other word."""
    if word.form in _NUMBERS:
        return _NUMBERS[word.form]
    return int(word.form) if word.kind == "number" and word.form.isdecimal() and len(word.form) < 10 else None


@cache
def _script_of(character: str) -> str:
    name = unicodedata.name(character, "").split(" ")[0]
    return "CJK" if name in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "CJK", "IDEOGRAPHIC", "BOPOMOFO") else name


def script(text: str) -> str:
    """The script in which most letters are written ("LATIN", "CYRILLIC", "CJK" …); "" where there is no letter."""
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            counts[_script_of(character)] += count
    return counts.most_common(1)[0][0] if counts else ""


def is_english(found: Sequence[Word]) -> bool | None:
    """Whether the words are English, by the share of function words and words of the lexicon, and by the function words
    of other languages; None where they are too few to tell."""
    spoken = [word for word in found if word is not BREAK]
    known = lexicon().words
    familiar = sum(word.form in FUNCTION_WORDS or word.lemma in known for word in spoken)
    foreign = sum(word.form in ELSEWHERE for word in spoken)
    if foreign > 1 and foreign >= familiar:  # one alone may be part of a name: "Los Angeles"
        return False
    if len(spoken) < _TELLING:
        at_once = len(spoken) >= _TELLING_AT_ONCE and not foreign and familiar >= _FAMILIAR_AT_ONCE * len(spoken)
        return True if at_once else None
    return familiar >= _FAMILIAR * len(spoken)
