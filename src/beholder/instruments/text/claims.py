"""What a text claims about things (colors, how many, on which side, what is denied), and contradictions.

Two texts contradict each other where both claim something of the same thing (the same word or a synonym) and nothing
that the expected descriptions claim of it fits. Conventions:

- "a dog" is no claim of a number
- neighboring colors ("tan", "golden") do not contradict each other, nor does one of several ("black and white dog" and
  "black dog")
- a side is contradicted by the opposite side only
- "no red cup" is contradicted by a red cup only
- what the expected descriptions do not mention is never a contradiction
- an answer that names no thing ("Blue.", "Three.") is said of the thing that was asked for
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from beholder.instruments.text.words import (
    CLAUSE_BREAK,
    NEGATIONS,
    SIDES,
    Word,
    load_lexicon,
    load_word_list,
    parse_number,
)

# Colours that people name differently for the same thing.
_NEIGHBORING_COLORS = {
    "brown": {"yellow", "orange", "red"},
    "gray": {"white", "black"},
    "pink": {"red", "purple"},
    "purple": {"blue"},
    "orange": {"red", "yellow"},
}
_CLAUSE_ENDS = load_word_list("clause_ends")
_SIDE_BEFORE = load_word_list("side_before")
_SIDE_AFTER = load_word_list("side_after")
_SIDE_WORDS = load_word_list("side_words")
_MAX_DENIAL_WORDS = 5
_OPPOSITE = {"left": "right", "right": "left"}
_FRAMING_WORDS = load_word_list("framing")
_NON_THINGS = _FRAMING_WORDS | load_lexicon().not_things | {"color", "number"}
_COPULAS = frozenset({"is", "are", "was", "were", "looks"})

ClaimMap = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class TextClaims:
    """The claims of one text.

    A thing is identified by its concept (`get_concept`), so that synonyms are the same thing. What is claimed without a
    thing has the concept "".

    Attributes:
        colors: By thing.
        numbers: By thing.
        sides: By thing, "left" or "right".
        implied: Sides that follow for the other thing: "a car left of a house" has the house on the right.
        qualities: By thing, all that is said of it.
        denied_qualities: By thing, what it is said not to be: "no red cup", "the cup is not red".
        denied: Things and acts that are said not to be there.
        affirmed: Things and acts that are said to be there.
        acts: Those of them that are acts.
        names: The word of the text, by concept.
    """

    colors: ClaimMap
    numbers: ClaimMap
    sides: ClaimMap
    implied: ClaimMap
    qualities: ClaimMap
    denied_qualities: ClaimMap
    denied: frozenset[str]
    affirmed: frozenset[str]
    acts: frozenset[str]
    names: Mapping[str, str]

    def format_denial(self, name: str) -> str:
        return f"{'not' if name in self.acts else 'no'} {self.names[name]}"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What was said ("red car"), against what the expected descriptions say ("blue car")."""

    said: str
    expected: str

    def __str__(self) -> str:
        return f"“{self.said}” where “{self.expected}” is expected"


def get_concept(lemma: str) -> str:
    """Return the identifier that synonyms share."""
    nodes = load_lexicon().nodes.get(lemma, ())
    return f"#{nodes[0]}" if nodes else lemma


def find_negated(words: Sequence[Word]) -> frozenset[int]:
    """Return the positions of the content words that a negation denies.

    It reaches to the next noun, at most five words; things after an "or" are included. "is not wearing a hat" denies
    the hat, and the wearing only where no thing follows.
    """
    places: set[int] = set()
    for at, word in enumerate(words):
        following = words[at + 1].form if at + 1 < len(words) else ""
        if word.form in NEGATIONS and following != "only":  # "not only a dog but also a cat"
            places |= _find_denied_after(words, at)
    return frozenset(places)


def _find_denied_after(words: Sequence[Word], at: int) -> set[int]:
    nouns: set[int] = set()
    others: set[int] = set()
    last = min(len(words), at + 1 + _MAX_DENIAL_WORDS)
    for i in range(at + 1, last):
        word = words[i]
        if word is CLAUSE_BREAK or word.form in _CLAUSE_ENDS:
            break
        if word.kind == "noun":
            nouns.add(i)
            following = words[i + 1] if i + 1 < len(words) else CLAUSE_BREAK
            if following.kind != "noun" and following.form not in ("or", "nor"):
                break
        elif word.kind == "quality" or (word.kind == "verb" and not nouns):
            others.add(i)
    qualities = {i for i in others if words[i].kind == "quality"}
    return (nouns | qualities) if nouns else others


def extract_claims(words: Sequence[Word], denied: frozenset[int]) -> TextClaims:
    """Extract what a text claims.

    Args:
        words: The words of the text.
        denied: The positions that `find_negated` returned.
    """
    return _ClaimReader(words, denied).read()


class _ClaimReader:
    """Reads the words of a text in order and collects its claims."""

    def __init__(self, words: Sequence[Word], denied: frozenset[int]) -> None:
        self.words, self.denied_positions = words, denied
        self.colors: dict[str, set[str]] = defaultdict(set)
        self.numbers: dict[str, set[str]] = defaultdict(set)
        self.names: dict[str, str] = {}
        self.affirmed: set[str] = set()
        self.denied: set[str] = set()
        self.acts: set[str] = set()
        # Colors and a number wait for the thing that they are said of, which follows them.
        self.pending_colors: list[str] = []
        self.pending_number: int | None = None
        self.subject = ""  # the thing that a following "is red" is said of

    def read(self) -> TextClaims:
        for at, word in enumerate(self.words):
            self._read_word(at, word)
        sides: dict[str, set[str]] = defaultdict(set)
        implied: dict[str, set[str]] = defaultdict(set)
        for name, side, is_said in _iterate_sides(self.words):
            (sides if is_said else implied)[name].add(side)
        if not any(word.kind == "noun" and _is_thing(word) for word in self.words):
            self.colors[""], self.numbers[""], sides[""] = _claim_without_thing(self.words, self.denied_positions)
        qualities: dict[str, set[str]] = defaultdict(set)
        denied_qualities: dict[str, set[str]] = defaultdict(set)
        for name, quality, is_denied in _iterate_qualities(self.words, self.denied_positions):
            key = load_lexicon().colors.get(quality) or get_concept(quality)
            self.names.setdefault(key, quality)
            (denied_qualities if is_denied else qualities)[name].add(key)
        return TextClaims(
            colors=_freeze(self.colors),
            numbers=_freeze(self.numbers),
            sides=_freeze(sides),
            implied=_freeze(implied),
            qualities=_freeze(qualities),
            denied_qualities=_freeze(denied_qualities),
            denied=frozenset(self.denied),
            affirmed=frozenset(self.affirmed),
            acts=frozenset(self.acts),
            names=self.names,
        )

    def _read_word(self, at: int, word: Word) -> None:
        following = self.words[at + 1] if at + 1 < len(self.words) else CLAUSE_BREAK
        color = load_lexicon().colors.get(word.lemma) if word.kind == "quality" else None
        if color and at not in self.denied_positions:
            self.pending_colors.append(color)
            if self.subject and following.kind == "function" and _is_predicate(self.words, at):
                self.colors[self.subject].add(color)
        elif (count := parse_number(word)) is not None and word.kind == "number":
            self.pending_number = count
        elif word.kind == "noun":
            self._read_noun(at, word, following)
        elif word.kind == "verb":
            name = self._name(word)
            self.acts.add(name)
            (self.denied if at in self.denied_positions else self.affirmed).add(name)
            self.pending_colors, self.pending_number = [], None
        elif word is CLAUSE_BREAK or (word.kind == "function" and word.form not in ("and", "or", "very")):
            if word is not CLAUSE_BREAK or not self.pending_colors:
                self.pending_colors, self.pending_number = [], None
            if word is CLAUSE_BREAK and following.form not in load_lexicon().colors:
                self.subject = ""

    def _read_noun(self, at: int, word: Word, following: Word) -> None:
        name = self._name(word)
        if at not in self.denied_positions:
            self.affirmed.add(name)
        elif at == 0 or not _is_restrictive(self.words[at - 1]):
            self.denied.add(name)
        if following.kind != "noun":  # the head of "blue tennis shirt" is the shirt
            self.colors[name].update(self.pending_colors)
            if self.pending_number is not None:
                self.numbers[name].add(str(self.pending_number))
            self.pending_colors, self.pending_number, self.subject = [], None, name

    def _name(self, word: Word) -> str:
        name = get_concept(word.lemma)
        self.names.setdefault(name, word.form)
        return name


def _freeze(claims: Mapping[str, set[str]]) -> ClaimMap:
    return {name: frozenset(values) for name, values in claims.items() if values}


def _is_restrictive(word: Word) -> bool:
    """Return whether a quality limits what "no … cup" denies: "no red cup", but not "no visible cup"."""
    return word.kind == "quality" and word.lemma not in _FRAMING_WORDS


def _is_thing(word: Word) -> bool:
    """Return whether a noun names a thing; "Orange." alone is a color."""
    return word.lemma not in _NON_THINGS and word.lemma not in load_lexicon().colors


def _claim_without_thing(words: Sequence[Word], denied: frozenset[int]) -> tuple[set[str], set[str], set[str]]:
    """Return the colors, numbers and sides of a text that names no thing."""
    known = load_lexicon().colors
    affirmed = [word for at, word in enumerate(words) if at not in denied]
    colors = {known[word.lemma] for word in affirmed if word.lemma in known}
    numbers = {str(parse_number(word)) for word in affirmed if word.kind == "number" and parse_number(word) is not None}
    before = (CLAUSE_BREAK, *words)
    sides = {
        SIDES[word.form]
        for at, word in enumerate(words)
        if word.form in SIDES and (before[at] is CLAUSE_BREAK or before[at].form in _SIDE_BEFORE)
    }
    return colors, numbers, sides


def _iterate_qualities(words: Sequence[Word], denied: frozenset[int]) -> Iterator[tuple[str, str, bool]]:
    """Yield (thing, quality, whether it is denied) for every quality before a thing or said of the thing before."""
    pending: list[str] = []
    subject = ""
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else CLAUSE_BREAK
        if _is_restrictive(word):
            pending.append(word.lemma)
            if subject and _is_predicate(words, at):
                yield subject, word.lemma, at in denied
        elif word.kind == "noun":
            if following.kind != "noun":
                subject = get_concept(word.lemma)
                yield from ((subject, quality, at in denied) for quality in pending)
                pending = []
        elif word is CLAUSE_BREAK:
            pending, subject = [], ""
        elif word.kind != "quality" and word.form not in ("and", "or", "very"):
            pending = []


def _is_predicate(words: Sequence[Word], at: int) -> bool:
    """Return whether the quality at `at` is said of the thing before: "is red", "are all red", "is black and white"."""
    for i in range(at - 1, max(-1, at - 5), -1):
        word = words[i]
        if word.form in _COPULAS:
            return True
        if not (word.kind == "quality" or word.form in ("and", "all", "both", "very", "mostly", "or", "not")):
            return False
    return False


def _iterate_sides(words: Sequence[Word]) -> Iterator[tuple[str, str, bool]]:
    """Yield (thing, "left" or "right", whether it is said or implied) for every side that is named.

    "X on the left", "on the left is X", "his left hand", "X left of Y".
    """
    for at, word in enumerate(words):
        side = SIDES.get(word.form)
        before = words[at - 1] if at else CLAUSE_BREAK
        after = words[at + 1] if at + 1 < len(words) else CLAUSE_BREAK
        if side is None or not (before.form in _SIDE_BEFORE or after.form in _SIDE_AFTER):
            continue
        if after.kind == "noun" and after.form not in _SIDE_WORDS:
            yield get_concept(after.lemma), side, True
            continue
        earlier, later = _find_noun(words, at, -1), _find_noun(words, at, 1)
        if earlier:
            yield get_concept(earlier), side, True
            if after.form == "of" and later:
                yield get_concept(later), _OPPOSITE[side], False
        elif later and after.form != "of":
            yield get_concept(later), side, True


def _find_noun(words: Sequence[Word], at: int, step: int) -> str:
    """Return the next noun in the same clause in the direction of `step`, at most eight words away; "" where there is
    none.
    """
    i = at + step
    while 0 <= i < len(words) and abs(i - at) <= 8 and words[i] is not CLAUSE_BREAK:
        if words[i].kind == "noun" and words[i].form not in _SIDE_WORDS:
            return words[i].lemma
        i += step
    return ""


@dataclass(frozen=True, slots=True)
class Contradictions:
    """The claims of the output that contradict the expected descriptions, and how many claims could be checked."""

    colors: tuple[Contradiction, ...]
    numbers: tuple[Contradiction, ...]
    negations: tuple[Contradiction, ...]
    sides: tuple[Contradiction, ...]
    checked: Mapping[str, int]

    @property
    def all(self) -> tuple[Contradiction, ...]:
        return self.colors + self.numbers + self.negations + self.sides


def find_contradictions(
    claims: TextClaims, expected: Sequence[TextClaims], asked: frozenset[str] = frozenset()
) -> Contradictions:
    """Find the claims of a text that contradict those of one or several expected ones.

    Args:
        claims: Of the text.
        expected: Of each expected description.
        asked: The things that the question names. What the text says of no thing is said of them, or, where nothing
            is expected of them, of any thing.
    """
    names = {name: word for reference in reversed(expected) for name, word in reference.names.items()}
    sides = [*(reference.sides for reference in expected), *(reference.implied for reference in expected)]
    checked: dict[str, int] = {}
    conflicts: dict[str, tuple[Contradiction, ...]] = {}
    for kind, mine, theirs in (
        ("colors", claims.colors, _merge_claims([reference.colors for reference in expected])),
        ("numbers", claims.numbers, _merge_claims([reference.numbers for reference in expected])),
        ("sides", claims.sides, _merge_claims(sides)),
    ):
        if "" in mine and "" not in theirs:
            things = sorted(asked & theirs.keys() or theirs)
            if things:
                theirs[""] = frozenset().union(*(theirs[name] for name in things))
                names[""] = names[things[0]] if len(things) == 1 else ""
        elif "" in theirs and (asked & mine.keys() or len(mine) == 1):
            theirs.update(dict.fromkeys((asked & mine.keys() or mine.keys()) - theirs.keys(), theirs[""]))
        both = [name for name in mine if name in theirs]
        checked[kind] = len(both)
        conflicts[kind] = tuple(
            Contradiction(
                _format_claim(kind, mine[name], claims.names.get(name, "")),
                _format_claim(kind, theirs[name], names.get(name, "")),
            )
            for name in both
            if not _is_compatible(kind, mine[name], theirs[name])
        )
    checked["negations"], negations = _find_negation_conflicts(claims, expected, names)
    return Contradictions(conflicts["colors"], conflicts["numbers"], negations, conflicts["sides"], checked)


def _find_negation_conflicts(
    claims: TextClaims, expected: Sequence[TextClaims], names: Mapping[str, str]
) -> tuple[int, tuple[Contradiction, ...]]:
    """Return how many denials could be compared with something expected, and those that are contradicted."""
    denied = frozenset().union(*(reference.denied for reference in expected))
    affirmed = frozenset().union(*(reference.affirmed for reference in expected))
    acts = frozenset().union(*(reference.acts for reference in expected))
    conflicts = [
        (name, claims.format_denial(name), names[name])
        for name in claims.denied & (affirmed - denied) - claims.affirmed
    ]
    conflicts += [
        (name, claims.names[name], f"{'not' if name in acts else 'no'} {names[name]}")
        for name in claims.affirmed & (denied - affirmed)
    ]
    checked = len(claims.denied & (affirmed | denied)) + len((claims.affirmed - claims.denied) & denied)
    # "no red cup" is wrong where the cup is red, and is not checked for a cup of which no color is given.
    theirs = _merge_claims([reference.qualities for reference in expected])
    lacking = _merge_claims([reference.denied_qualities for reference in expected])
    for name in claims.denied_qualities.keys() & theirs.keys():
        checked += 1
        if claims.denied_qualities[name] <= theirs[name] - lacking.get(name, frozenset()):
            mine, other = (
                _join_qualities(claims.denied_qualities[name], name, forms) for forms in (claims.names, names)
            )
            conflicts.append((name, f"no {mine}", other))
    for name in lacking.keys() & claims.qualities.keys() - claims.denied_qualities.keys():
        checked += 1
        if lacking[name] <= claims.qualities[name] - theirs.get(name, frozenset()):
            mine, other = (_join_qualities(lacking[name], name, forms) for forms in (claims.names, names))
            conflicts.append((name, mine, f"no {other}"))
    return checked, tuple(Contradiction(mine, other) for _, mine, other in sorted(conflicts))


def _join_qualities(qualities: frozenset[str], name: str, forms: Mapping[str, str]) -> str:
    """Format as "small red cup"."""
    return " ".join((*sorted(forms.get(quality, quality) for quality in qualities), forms[name]))


def _merge_claims(maps: Sequence[ClaimMap]) -> dict[str, frozenset[str]]:
    joined: dict[str, frozenset[str]] = defaultdict(frozenset)
    for mapping in maps:
        for name, values in mapping.items():
            joined[name] |= values
    return dict(joined)


def _is_compatible(kind: str, mine: frozenset[str], theirs: frozenset[str]) -> bool:
    if mine & theirs:
        return True
    return kind == "colors" and any(
        b in _NEIGHBORING_COLORS.get(a, ()) or a in _NEIGHBORING_COLORS.get(b, ()) for a in mine for b in theirs
    )


def _format_claim(kind: str, values: frozenset[str], name: str) -> str:
    joined = " or ".join(sorted(values)) if kind != "colors" else " and ".join(sorted(values))
    return (f"{name} on the {joined}" if kind == "sides" else f"{joined} {name}").strip()
