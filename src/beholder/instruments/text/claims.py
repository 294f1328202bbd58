"""What a text claims of its things: their colours, how many, on which side, and what is said not to be there.

Two texts contradict each other where both claim something of the same thing (the same word or a synonym) and nothing
that the expected descriptions claim of it fits. Conventions: "a dog" is no claim of a number; neighbouring colours
("tan", "golden") do not contradict each other, nor does one of several ("black and white dog" and "black dog"); a side
is contradicted by the opposite side only; "no red cup" is contradicted by a red cup only; what the expected
descriptions do not speak of is never a contradiction. An answer that names no thing ("Blue.", "Three.") is said of the
thing that was asked for.
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
    """Each a map from a thing to what is claimed of it; `denied` and `affirmed` are the things and acts themselves.

    `implied` are the sides that follow for the other thing: "a car left of a house" has the house on the right.
    `qualities` are all that is said of a thing, and `lacking` what a thing is said not to be: "no red cup", "the cup is
    not red". A thing is named by its place in the lexicon, so that synonyms meet; `names` gives back the word of the
    text. What is claimed without a thing has the name "".
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

    def denial(self, name: str) -> str:
        return f"{'not' if name in self.acts else 'no'} {self.names[name]}"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """`said` stands against what the expected descriptions have, `expected`: "red car", "blue car"."""

    said: str
    expected: str

    def __str__(self) -> str:
        return f"“{self.said}” where “{self.expected_words}” is expected"


def get_concept(lemma: str) -> str:
    """The name under which synonyms meet."""
    nodes = load_lexicon().nodes.get(lemma, ())
    return f"#{nodes[0]}" if nodes else lemma


def find_negated(found: Sequence[Word]) -> frozenset[int]:
    """The places of the content words that a negation denies: up to the next noun, at most five words on; the things
    after an "or" go on. "is not wearing a hat" denies the hat, and the wearing only where no thing follows."""
    places: set[int] = set()
    for at, word in enumerate(found):
        following = found[at + 1].form if at + 1 < len(found) else ""
        if word.form in NEGATIONS and following != "only":  # "not only a dog but also a cat"
            places |= _find_denied_after(found, at)
    return frozenset(places)


def _find_denied_after(found: Sequence[Word], at: int) -> set[int]:
    nouns: set[int] = set()
    others: set[int] = set()
    last = min(len(found), at + 1 + _MAX_DENIAL_WORDS)
    for i in range(at + 1, last):
        word = found[i]
        if word is CLAUSE_BREAK or word.form in _CLAUSE_ENDS:
            break
        if word.kind == "noun":
            nouns.add(i)
            following = found[i + 1] if i + 1 < len(found) else CLAUSE_BREAK
            if following.kind != "noun" and following.form not in ("or", "nor"):
                break
        elif word.kind == "quality" or (word.kind == "verb" and not nouns):
            others.add(i)
    qualities = {i for i in others if found[i].kind == "quality"}
    return (nouns | qualities) if nouns else others


def extract_claims(found: Sequence[Word], denied: frozenset[int]) -> TextClaims:
    """Read in one pass; `denied` are the places that `negated` gave."""
    colours: dict[str, set[str]] = defaultdict(set)
    numbers: dict[str, set[str]] = defaultdict(set)
    sides: dict[str, set[str]] = defaultdict(set)
    names: dict[str, str] = {}
    affirmed: set[str] = set()
    no: set[str] = set()
    acts: set[str] = set()
    pending_colours: list[str] = []
    pending_number: int | None = None
    subject = ""  # the thing that a following "is red" is said of
    for at, word in enumerate(found):
        following = found[at + 1] if at + 1 < len(found) else CLAUSE_BREAK
        colour = load_lexicon().colors.get(word.lemma) if word.kind == "quality" else None
        if colour and at not in denied:
            pending_colours.append(colour)
            if subject and following.kind == "function" and _is_predicate(found, at):
                colours[subject].add(colour)
        elif (count := parse_number(word)) is not None and word.kind == "number":
            pending_number = count
        elif word.kind == "noun":
            name = get_concept(word.lemma)
            names.setdefault(name, word.form)
            bare = at == 0 or not _is_restrictive(found[at - 1])
            if at not in denied:
                affirmed.add(name)
            elif bare:
                no.add(name)
            if following.kind != "noun":  # the head of "blue tennis shirt" is the shirt
                colours[name].update(pending_colours)
                if pending_number is not None:
                    numbers[name].add(str(pending_number))
                pending_colours, pending_number, subject = [], None, name
        elif word.kind == "verb":
            name = get_concept(word.lemma)
            names.setdefault(name, word.form)
            acts.add(name)
            (no if at in denied else affirmed).add(name)
            pending_colours, pending_number = [], None
        elif word is CLAUSE_BREAK or (word.kind == "function" and word.form not in ("and", "or", "very")):
            if word is not CLAUSE_BREAK or not pending_colours:
                pending_colours, pending_number = [], None
            if word is CLAUSE_BREAK and following.form not in load_lexicon().colors:
                subject = ""
    implied: dict[str, set[str]] = defaultdict(set)
    for name, side, is_said in _iterate_sides(found):
        (sides if is_said else implied)[name].add(side)
    if not any(word.kind == "noun" and _is_thing(word) for word in found):
        colours[""], numbers[""], sides[""] = _claim_without_thing(found, denied)
    qualities: dict[str, set[str]] = defaultdict(set)
    lacking: dict[str, set[str]] = defaultdict(set)
    for name, quality, is_denied in _iterate_qualities(found, denied):
        key = load_lexicon().colors.get(quality) or get_concept(quality)
        names.setdefault(key, quality)
        (lacking if is_denied else qualities)[name].add(key)
    return TextClaims(
        colors=_freeze(colours),
        numbers=_freeze(numbers),
        sides=_freeze(sides),
        implied=_freeze(implied),
        qualities=_freeze(qualities),
        denied_qualities=_freeze(lacking),
        denied=frozenset(no),
        affirmed=frozenset(affirmed),
        acts=frozenset(acts),
        names=names,
    )


def _freeze(found: Mapping[str, set[str]]) -> ClaimMap:
    return {name: frozenset(said) for name, said in found.items() if said}


def _is_restrictive(word: Word) -> bool:
    """Whether "no … cup" denies some cups only: "no red cup", not "no visible cup"."""
    return word.kind == "quality" and word.lemma not in _FRAMING_WORDS


def _is_thing(word: Word) -> bool:
    """ "Orange." alone is a colour."""
    return word.lemma not in _NON_THINGS and word.lemma not in load_lexicon().colors


def _claim_without_thing(found: Sequence[Word], denied: frozenset[int]) -> tuple[set[str], set[str], set[str]]:
    """The colours, numbers and sides of a text that names no thing."""
    known = load_lexicon().colors
    affirmed = [word for at, word in enumerate(found) if at not in denied]
    colours = {known[word.lemma] for word in affirmed if word.lemma in known}
    numbers = {str(parse_number(word)) for word in affirmed if word.kind == "number" and parse_number(word) is not None}
    before = (CLAUSE_BREAK, *found)
    sides = {
        SIDES[word.form]
        for at, word in enumerate(found)
        if word.form in SIDES and (before[at] is CLAUSE_BREAK or before[at].form in _SIDE_BEFORE)
    }
    return colours, numbers, sides


def _iterate_qualities(found: Sequence[Word], denied: frozenset[int]) -> Iterator[tuple[str, str, bool]]:
    """(thing, quality, whether it is denied) for every quality before a thing or said of the thing before."""
    pending: list[str] = []
    subject = ""
    for at, word in enumerate(found):
        following = found[at + 1] if at + 1 < len(found) else CLAUSE_BREAK
        if _is_restrictive(word):
            pending.append(word.lemma)
            if subject and _is_predicate(found, at):
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


def _is_predicate(found: Sequence[Word], at: int) -> bool:
    """Whether the quality at `at` is said of the thing before: "is red", "are all red", "is black and white"."""
    for i in range(at - 1, max(-1, at - 5), -1):
        word = found[i]
        if word.form in _COPULAS:
            return True
        if not (word.kind == "quality" or word.form in ("and", "all", "both", "very", "mostly", "or", "not")):
            return False
    return False


def _iterate_sides(found: Sequence[Word]) -> Iterator[tuple[str, str, bool]]:
    """(thing, "left" or "right", said or implied) for every side that is named: "X on the left", "on the left is X",
    "his left hand", "X left of Y"."""
    for at, word in enumerate(found):
        side = SIDES.get(word.form)
        before = found[at - 1] if at else CLAUSE_BREAK
        after = found[at + 1] if at + 1 < len(found) else CLAUSE_BREAK
        if side is None or not (before.form in _SIDE_BEFORE or after.form in _SIDE_AFTER):
            continue
        if after.kind == "noun" and after.form not in _SIDE_WORDS:
            yield get_concept(after.lemma), side, True
            continue
        earlier, later = _find_noun(found, at, -1), _find_noun(found, at, 1)
        if earlier:
            yield get_concept(earlier), side, True
            if after.form == "of" and later:
                yield get_concept(later), _OPPOSITE[side], False
        elif later and after.form != "of":
            yield get_concept(later), side, True


def _find_noun(found: Sequence[Word], at: int, step: int) -> str:
    """The next noun in the same clause, before or after, at most eight words away; "" where there is none."""
    i = at + step
    while 0 <= i < len(found) and abs(i - at) <= 8 and found[i] is not CLAUSE_BREAK:
        if found[i].kind == "noun" and found[i].form not in _SIDE_WORDS:
            return found[i].lemma
        i += step
    return ""


@dataclass(frozen=True, slots=True)
class Contradictions:
    """What the output claims against the expected descriptions, and how many of its claims could be checked."""

    colors: tuple[Contradiction, ...]
    numbers: tuple[Contradiction, ...]
    negations: tuple[Contradiction, ...]
    sides: tuple[Contradiction, ...]
    checked: Mapping[str, int]

    @property
    def all(self) -> tuple[Contradiction, ...]:
        return self.colors + self.numbers + self.negations + self.sides


def find_contradictions(
    said: TextClaims, expected: Sequence[TextClaims], asked: frozenset[str] = frozenset()
) -> Contradictions:
    """The claims of one text against those of one or several expected ones. `asked` are the things that the question
    names: of them is said what the text says of no thing, or where nothing is expected of them, of any."""
    names = {name: word for one in reversed(expected) for name, word in one.names.items()}
    checked: dict[str, int] = {}
    found: dict[str, tuple[Contradiction, ...]] = {}
    for kind in ("colors", "numbers", "sides"):
        against = _merge_claims([getattr(one, kind) for one in expected])
        if kind == "sides":
            against = _merge_claims([against, *(one.implied for one in expected)])
        mine: ClaimMap = getattr(said, kind)
        if "" in mine and "" not in against:
            of = sorted(asked & against.keys() or against)
            if of:
                against[""] = frozenset().union(*(against[name] for name in of))
                names[""] = names[of[0]] if len(of) == 1 else ""
        elif "" in against and (asked & mine.keys() or len(mine) == 1):
            against.update(dict.fromkeys((asked & mine.keys() or mine.keys()) - against.keys(), against[""]))
        both = [name for name in mine if name in against]
        checked[kind] = len(both)
        found[kind] = tuple(
            Contradiction(
                _format_claim(kind, mine[name], said.names.get(name, "")),
                _format_claim(kind, against[name], names.get(name, "")),
            )
            for name in both
            if not _is_compatible(kind, mine[name], against[name])
        )
    checked["negations"], negations = _find_negation_conflicts(said, expected, names)
    return Contradictions(found["colors"], found["numbers"], negations, found["sides"], checked)


def _find_negation_conflicts(
    said: TextClaims, expected: Sequence[TextClaims], names: Mapping[str, str]
) -> tuple[int, tuple[Contradiction, ...]]:
    """How many denials could be held against something, and those that are contradicted."""
    denied = frozenset().union(*(one.denied for one in expected))
    affirmed = frozenset().union(*(one.affirmed for one in expected))
    acts = frozenset().union(*(one.acts for one in expected))
    wrong = [(name, said.denial(name), names[name]) for name in said.denied & (affirmed - denied) - said.affirmed]
    wrong += [
        (name, said.names[name], f"{'not' if name in acts else 'no'} {names[name]}")
        for name in said.affirmed & (denied - affirmed)
    ]
    checked = len(said.denied & (affirmed | denied)) + len((said.affirmed - said.denied) & denied)
    # "no red cup" is wrong where the cup is red, and says nothing of a cup of which no colour is given.
    theirs, lacking = (
        _merge_claims([getattr(one, what) for one in expected]) for what in ("qualities", "denied_qualities")
    )
    for name in said.denied_qualities.keys() & theirs.keys():
        checked += 1
        if said.denied_qualities[name] <= theirs[name] - lacking.get(name, frozenset()):
            mine, other = (_join_qualities(said.denied_qualities[name], name, words) for words in (said.names, names))
            wrong.append((name, f"no {mine}", other))
    for name in lacking.keys() & said.qualities.keys() - said.denied_qualities.keys():
        checked += 1
        if lacking[name] <= said.qualities[name] - theirs.get(name, frozenset()):
            mine, other = (_join_qualities(lacking[name], name, words) for words in (said.names, names))
            wrong.append((name, mine, f"no {other}"))
    return checked, tuple(Contradiction(mine, other) for _, mine, other in sorted(wrong))


def _join_qualities(qualities: frozenset[str], name: str, words: Mapping[str, str]) -> str:
    """ "small red cup"."""
    return " ".join((*sorted(words.get(quality, quality) for quality in qualities), words[name]))


def _merge_claims(maps: Sequence[ClaimMap]) -> dict[str, frozenset[str]]:
    joined: dict[str, frozenset[str]] = defaultdict(frozenset)
    for one in maps:
        for name, values in one.items():
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
