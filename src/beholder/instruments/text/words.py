"""Words of a text: tokens, base forms (lemmas), kinds, and how similar words are.

The kinds are noun, verb, quality, number and function word.

There is no model and no dictionary of the language: suffix rules, a table of exceptions and the hand-written
`lexicon.txt` and `grammar.txt`. Good enough to compare descriptions, where the same mistake on both sides cancels out;
not a parser. English; other languages in an alphabet are split into words and compared as they are written, and scripts
without spaces are compared by pairs of characters. Everything is linear in the length of the text.

The trees in `lexicon.txt` give every word one or more nodes. The similarity of two words is a number 0–1 by fixed steps
(`WORD_SIMILARITY`) and directed: a general word is supported by a special one ("animal" by "dog") better than the other
way round. `grammar.txt` holds plain lists of words.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

WordSense = Literal["noun", "verb", "quality"]

# Fixed by judgement before anything was fitted.
WORD_SIMILARITY = {"same": 1.0, "synonym": 0.9, "kind_of": 0.8, "special_of": 0.6, "sibling": 0.4, "topic": 0.2}

_SENSE_BY_SECTION: dict[str, WordSense] = {
    "things": "noun", "acts": "verb", "qualities": "quality", "verbs": "verb", "plain": "quality", "not_things": "noun",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The contents of `lexicon.txt`.

    Attributes:
        compounds: First words of compounds ("hot" of "hot_dog").
        senses: What each word can be.
        nodes: The tree nodes of each word.
        parents: The node above each node.
        topics: The scenes that each word belongs to.
        colors: The group of each color word ("scarlet" → "red").
        not_things: Nouns that name no thing in the image.
    """

    words: frozenset[str]
    compounds: frozenset[str]
    senses: Mapping[str, frozenset[WordSense]]
    nodes: Mapping[str, tuple[int, ...]]
    parents: Mapping[int, int]
    topics: Mapping[str, frozenset[int]]
    colors: Mapping[str, str]
    not_things: frozenset[str]

    def kinds(self, word: str) -> frozenset[WordSense]:
        """Return what the word can be; empty where it is not known."""
        return self.senses.get(word, frozenset())


_COLOR_GROUPS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white", "gray")


@cache
def read_sections(file: str) -> Mapping[str, tuple[str, ...]]:
    """Return the lines under each [heading] of one of our word files, without comments and empty lines."""
    sections: dict[str, list[str]] = {}
    for line in Path(__file__).with_name(file).read_text("utf-8").splitlines():
        if line.startswith("["):
            sections[line.strip("[]")] = heading = []
        elif line.strip() and not line.startswith("#"):
            heading.append(line)
    return {name: tuple(lines) for name, lines in sections.items()}


@cache
def load_word_list(name: str) -> frozenset[str]:
    """Return a list of `grammar.txt`."""
    return frozenset(" ".join(read_sections("grammar.txt")[name]).split())


@cache
def load_lexicon() -> Lexicon:
    """Load the lexicon; cached."""
    parts = read_sections("lexicon.txt")
    senses: dict[str, set[WordSense]] = defaultdict(set)
    for section, sense in _SENSE_BY_SECTION.items():
        for word in " ".join(parts[section]).split():
            senses[word].add(sense)
    nodes: dict[str, list[int]] = defaultdict(list)
    parents: dict[int, int] = {}
    for line, node in _number_nodes(parts["things"] + parts["acts"] + parts["qualities"], parents):
        for word in line.split():
            nodes[word].append(node)
    topics: dict[str, set[int]] = defaultdict(set)
    for topic, line in enumerate(parts["topics"]):
        for word in line.split()[1:]:
            topics[word].add(topic)
    return Lexicon(
        not_things=frozenset(" ".join(parts["not_things"]).split()),
        words=frozenset(senses) | frozenset(topics),
        compounds=frozenset(word.split("_")[0] for word in senses if "_" in word),
        senses={word: frozenset(kinds) for word, kinds in senses.items()},
        nodes={word: tuple(found) for word, found in nodes.items()},
        parents=parents,
        topics={word: frozenset(found) for word, found in topics.items()},
        colors={
            word: group.split()[0]
            for group in parts["qualities"]
            for word in group.split()
            if group.split()[0] in _COLOR_GROUPS
        },
    )


def _number_nodes(lines: Iterable[str], parents: dict[int, int]) -> Iterator[tuple[str, int]]:
    """Yield each line with its number as a node of the tree that the indents make; fills `parents`."""
    above: list[tuple[int, int]] = []
    for node, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        if above:
            parents[node] = above[-1][1]
        above.append((depth, node))
        yield line, node


class WordSet:
    """A set of words that other words are compared with, in constant time for each."""

    def __init__(self, lemmas: Iterable[str]) -> None:
        known = load_lexicon()
        self.lemmas = frozenset(lemmas)
        self.nodes: set[int] = set()
        self.ancestors: set[int] = set()  # nodes above those of the words
        self.parents: set[int] = set()  # only the nodes directly above
        self.topics: set[int] = set()
        for word in self.lemmas:
            for node in known.nodes.get(word, ()):
                self.nodes.add(node)
                if node in known.parents:
                    self.parents.add(known.parents[node])
                while node in known.parents:
                    node = known.parents[node]
                    self.ancestors.add(node)
            self.topics |= known.topics.get(word, frozenset())

    def similarity(self, word: str) -> float:
        """Return how similar `word` is to the nearest word of the set, 0–1 by the steps of `WORD_SIMILARITY`."""
        if word in self.lemmas:
            return WORD_SIMILARITY["same"]
        known = load_lexicon()
        best = WORD_SIMILARITY["topic"] if known.topics.get(word, frozenset()) & self.topics else 0.0
        for node in known.nodes.get(word, ()):
            best = max(best, self._node_similarity(node, known.parents))
        return best

    def support(self, word: str) -> float:
        """Return the similarity where a word of the set says the same or a kind of it, else 0: a sibling or a word of
        the same scene is no support.
        """
        near = self.similarity(word)
        return near if near >= WORD_SIMILARITY["special_of"] else 0.0

    def _node_similarity(self, node: int, parents: Mapping[int, int]) -> float:
        if node in self.nodes:
            return WORD_SIMILARITY["synonym"]
        if node in self.ancestors:
            return WORD_SIMILARITY["kind_of"]
        up = parents.get(node)
        sibling = WORD_SIMILARITY["sibling"] if up is not None and up in self.parents else 0.0
        while up is not None:
            if up in self.nodes:
                return WORD_SIMILARITY["special_of"]
            up = parents.get(up)
        return sibling


WordKind = Literal["noun", "verb", "quality", "number", "function"]

_MAX_SHORT_TEXT = 1000
_MIN_WORDS = 8
_MIN_FAMILIAR = 0.25
_MIN_WORDS_FAMILIAR = 3  # so few words are enough where nearly all of them are familiar
_MIN_FAMILIAR_SHORT = 0.75
_TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*|[.,;:!?\n]")
UNSPACED_SCRIPTS = frozenset({"CJK", "THAI", "LAO", "KHMER", "MYANMAR"})
"""Scripts that write no spaces between words."""
_UNSPACED_RUN = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
_NUMBERS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16,
    "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
    "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
_NUMBER_WORDS = {str(count): form for form, count in _NUMBERS.items()}

_DETERMINERS = load_word_list("determiners")
_PRONOUNS = load_word_list("pronouns")
_AUXILIARIES = load_word_list("auxiliaries")
FUNCTION_WORDS = _DETERMINERS | _PRONOUNS | _AUXILIARIES | load_word_list("prepositions") | load_word_list("particles")
NEGATIONS = load_word_list("negations")
FOREIGN_FUNCTION_WORDS = load_word_list("elsewhere") - FUNCTION_WORDS - load_lexicon().words
"""Function words of other languages in Latin letters that are no words of English descriptions."""
SIDES = {"left": "left", "right": "right", "leftmost": "left", "rightmost": "right"}

_IRREGULAR = {form: line.split()[0] for line in read_sections("grammar.txt")["irregular"] for form in line.split()[1:]}
_UNINFLECTED = load_word_list("unchanged")
_DOUBLED_CONSONANT = re.compile(r"([bdgmnprt])\1$")
_SHORT_VOWEL_END = re.compile(r"^[^aeiouy]*[aeiou][^aeiouywx]$")
_TAKES_FINAL_E = re.compile(r"(?:[^aeiou](?:l|u)|[aeiou][cvz]|[^aeiou][cvz]|[dr]g|at|iz|ur|uid|as|os)$")


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text: as written, in its base form, and its kind."""

    form: str
    lemma: str
    kind: WordKind

    @property
    def content(self) -> bool:
        return self.kind != "function"


_intern_word = lru_cache(maxsize=16384)(Word)
CLAUSE_BREAK = Word(".", "", "function")
"""Stands where a clause ends."""


@lru_cache(maxsize=65536)
def lemmatize(form: str) -> str:
    """Return the base form of an English word in lower case: dogs → dog, riding → ride. Unknown words go by their
    suffix.
    """
    if form in _IRREGULAR:
        return _IRREGULAR[form]
    known = load_lexicon().words
    if form in _UNINFLECTED or form in known or len(form) < 4 or form.isdigit():
        return form
    if form.endswith("s") and not form.endswith(("ss", "us", "is")):
        return _IRREGULAR.get(form, _singularize(form, known))
    for suffix in ("ing", "ed"):
        if form.endswith(suffix) and re.search("[aeiouy]", form[: -len(suffix)]):
            return _strip_suffix(form[: -len(suffix)], known)
    return form


def _singularize(form: str, known: frozenset[str]) -> str:
    if form.endswith("ies") and len(form) > 4:
        return form[:-1] if form[:-1] in known else form[:-3] + "y"
    sibilant = form.endswith(("sses", "xes", "ches", "shes", "zzes", "oes"))
    if form.endswith("es") and form[:-1] not in known and (sibilant or form[:-2] in known):
        return form[:-2]
    return form[:-1]


def _strip_suffix(stem: str, known: frozenset[str]) -> str:
    for candidate in (stem, stem + "e", stem[:-1] if _DOUBLED_CONSONANT.search(stem) else stem):
        if candidate in known:
            return candidate
    if stem.endswith("i"):
        return stem[:-1] + "y"
    if _DOUBLED_CONSONANT.search(stem):
        return stem[:-1]
    if _SHORT_VOWEL_END.search(stem) or _TAKES_FINAL_E.search(stem):
        return stem + "e"
    return stem


def split_words(text: str) -> tuple[Word, ...]:
    """Split a text into its words, with `CLAUSE_BREAK` where a clause ends; compounds of the lexicon are one word
    (hot_dog).
    """
    return (_split_short if len(text) < _MAX_SHORT_TEXT else _split_long)(text)


def _split_words_uncached(text: str) -> tuple[Word, ...]:
    forms: list[str] = []
    for token in _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if token in ".,;:!?\n":
            forms.append(".")
        elif _UNSPACED_RUN.search(token):
            forms += _split_bigrams(token)
        else:
            forms += _split_contraction(token)
    return tuple(_tag_words(_join_compounds(forms)))


# The expected descriptions of a case come again with every model under test; long texts are not worth much room.
_split_short = lru_cache(maxsize=8192)(_split_words_uncached)
_split_long = lru_cache(maxsize=2)(_split_words_uncached)


def _split_contraction(token: str) -> list[str]:
    """Split a contraction: don't → do not, dog's → dog."""
    head, _, tail = token.replace("’", "'").partition("'")
    if tail == "t" and head.endswith("n") and len(head) > 2:
        return [{"can": "can", "won": "will", "shan": "shall"}.get(head, head[:-1]), "not"]
    return [head] if tail in ("s", "re", "ve", "ll", "d", "m", "") else [head, tail]


def _split_bigrams(run: str) -> list[str]:
    """Split a text without spaces into pairs of neighboring characters, which stand for words."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def _join_compounds(forms: list[str]) -> list[str]:
    compounds = load_lexicon().compounds
    joined: list[str] = []
    i = 0
    while i < len(forms):
        second = forms[i + 1] if i + 1 < len(forms) else ""
        if forms[i] in compounds and (together := f"{forms[i]}_{lemmatize(second)}") in load_lexicon().words:
            joined.append(together)
            i += 2
        elif _NUMBERS.get(forms[i], 0) >= 20 and 0 < _NUMBERS.get(second, 0) < 10:
            joined.append(str(_NUMBERS[forms[i]] + _NUMBERS[second]))  # "twenty-five"
            i += 2
        elif forms[i] == "dozen":
            joined.append(_count_dozens(joined))
            i += 1
        else:
            joined.append(forms[i])
            i += 1
    return joined


def _count_dozens(before: list[str]) -> str:
    """Return the number of a dozen ("a dozen", "half a dozen", "two dozen"), and remove its words from the end of
    `before`.
    """
    if before[-2:] == ["half", "a"]:
        del before[-2:]
        return "six"
    many = before[-1] if before else ""
    count = 1 if many == "a" else _NUMBERS.get(many, int(many) if many.isdecimal() and len(many) < 4 else 0)
    if count:
        del before[-1]
    return "twelve" if count < 2 else str(12 * count)


def _tag_words(forms: list[str]) -> list[Word]:
    words: list[Word] = []
    for i, form in enumerate(forms):
        if form == ".":
            words.append(CLAUSE_BREAK)
            continue
        base = _NUMBER_WORDS.get(form) or lemmatize(form)  # "2 dogs" are two dogs
        kind = _guess_kind(
            form, base, words[-1] if words else CLAUSE_BREAK, forms[i + 1] if i + 1 < len(forms) else "."
        )
        words.append(_intern_word(form, base, kind))
    return words


def _guess_kind(form: str, base: str, before: Word, following: str) -> WordKind:
    if form in _NUMBERS or form.isdigit():
        # "the one on the left", "the red one": a pronoun, not a number
        stands_for = before.form in _DETERMINERS or before.form in SIDES or before.kind == "quality"
        return "function" if form == "one" and stands_for else "number"
    if form in FUNCTION_WORDS or form in NEGATIONS:
        return "function"
    if form in SIDES:
        return "function"
    can = load_lexicon().kinds(base)
    if not can and (form.endswith("ly") or _is_quality(following)):
        return "quality"  # "lush green trees"
    opened = before.form in _DETERMINERS or before.kind in ("quality", "number")
    if "quality" in can and ("noun" not in can or _can_precede_noun(following)):
        return "quality"
    if "verb" in can:
        if "noun" not in can:
            return "verb"
        inflected = form != base and form.endswith(("ing", "ed"))
        acts = before.form in ("to",) or before.form in _AUXILIARIES or before.form in _PRONOUNS
        after_noun = before.kind == "noun" and (inflected or form.endswith("s") or before.form.endswith("s"))
        return "verb" if not opened and (acts or inflected or after_noun) else "noun"
    if not can and not opened and form.endswith(("ing", "ed")) and form not in _UNINFLECTED:
        return "verb"
    return "noun"


def _is_quality(form: str) -> bool:
    return load_lexicon().kinds(lemmatize(form)) == {"quality"}


def _can_precede_noun(following: str) -> bool:
    """Return whether the next word can be what a quality is said of.

    "orange shirt", not "an orange on a plate" nor "a light falling down".
    """
    if following in FUNCTION_WORDS or following == ".":
        return False
    return not following.endswith(("ing", "ed")) or lemmatize(following) == following


def parse_number(word: Word) -> int | None:
    """Return the number that a word says, None for any other word."""
    if word.form in _NUMBERS:
        return _NUMBERS[word.form]
    return int(word.form) if word.kind == "number" and word.form.isdecimal() and len(word.form) < 10 else None


@cache
def _find_script(character: str) -> str:
    name = unicodedata.name(character, "").split(" ")[0]
    return "CJK" if name in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "CJK", "IDEOGRAPHIC", "BOPOMOFO") else name


def detect_script(text: str) -> str:
    """Return the script of most letters ("LATIN", "CYRILLIC", "CJK" …); "" where there is no letter."""
    counts: Counter[str] = Counter()
    for character, count in Counter(text).items():
        if character.isalpha():
            counts[_find_script(character)] += count
    return counts.most_common(1)[0][0] if counts else ""


def is_english(words: Sequence[Word]) -> bool | None:
    """Return whether words are English; None where they are too few to tell.

    Decided by the share of function words and words of the lexicon, and by the function words of other languages.
    """
    tokens = [word for word in words if word is not CLAUSE_BREAK]
    known = load_lexicon().words
    familiar = sum(word.form in FUNCTION_WORDS or word.lemma in known for word in tokens)
    foreign = sum(word.form in FOREIGN_FUNCTION_WORDS for word in tokens)
    if foreign > 1 and foreign >= familiar:  # one alone may be part of a name: "Los Angeles"
        return False
    if len(tokens) < _MIN_WORDS:
        clearly = len(tokens) >= _MIN_WORDS_FAMILIAR and not foreign and familiar >= _MIN_FAMILIAR_SHORT * len(tokens)
        return True if clearly else None
    return familiar >= _MIN_FAMILIAR * len(tokens)
