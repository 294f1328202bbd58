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

from beholder.instruments.lexicon import lexicon, listed_words
from beholder.instruments.words import BREAK, NEGATIONS, SIDES, Word, number

# Colours that people name differently for the same thing.
_NEIGHBOURS = {
    "brown": {"yellow", "orange", "red"},
    "gray": {"white", "black"},
    "pink": {"red", "purple"},
    "purple": {"blue"},
    "orange": {"red", "yellow"},
}
_CLAUSE_ENDS = listed_words("clause_ends")
_SIDE_BEFORE = listed_words("side_before")
_SIDE_AFTER = listed_words("side_after")
_SIDE_WORDS = listed_words("side_words")
_LONGEST_DENIAL = 5
_OPPOSITE = {"left": "right", "right": "left"}
_FRAMING = listed_words("framing")
_NAMES_NO_THING = _FRAMING | lexicon().not_things | {"color", "number"}
_COPULAS = frozenset({"is", "are", "was", "were", "looks"})

Found = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Claims:
    """Each a map from a thing to what is claimed of it; `denied` and `affirmed` are the things and acts themselves.

    `implied` are the sides that follow for the other thing: "a car left of a house" has the house on the right.
    `qualities` are all that is said of a thing, and `lacking` what a thing is said not to be: "no red cup", "the cup is
    not red". A thing is named by its place in the lexicon, so that synonyms meet; `names` gives back the word of the
    text. What is claimed without a thing has the name "".
    """

    colours: Found
    numbers: Found
    sides: Found
    implied: Found
    qualities: Found
    lacking: Found
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
        return f"“{self.said}” where “{self.expected}” is expected"


def thing(lemma: str) -> str:
    """The name under which synonyms meet."""
    nodes = lexicon().nodes.get(lemma, ())
    return f"#{nodes[0]}" if nodes else lemma


def negated(found: Sequence[Word]) -> frozenset[int]:
    """The places of the content words that a negation denies: up to the next noun, at most five words on; the things
    after an "or" go on. "is not wearing a hat" denies the hat, and the wearing only where no thing follows."""
    places: set[int] = set()
    for at, word in enumerate(found):
        following = found[at + 1].form if at + 1 < len(found) else ""
        if word.form in NEGATIONS and following != "only":  # "not only a dog but also a cat"
            places |= _denied_after(found, at)
    return frozenset(places)


def _denied_after(found: Sequence[Word], at: int) -> set[int]:
    nouns: set[int] = set()
    others: set[int] = set()
    last = min(len(found), at + 1 + _LONGEST_DENIAL)
    for i in range(at + 1, last):
        word = found[i]
        if word is BREAK or word.form in _CLAUSE_ENDS:
            break
        if word.kind == "noun":
            nouns.add(i)
            following = found[i + 1] if i + 1 < len(found) else BREAK
            if following.kind != "noun" and following.form not in ("or", "nor"):
                break
        elif word.kind == "quality" or (word.kind == "verb" and not nouns):
            others.add(i)
    qualities = {i for i in others if found[i].kind == "quality"}
    return (nouns | qualities) if nouns else others


def claims(found: Sequence[Word], denied: frozenset[int]) -> Claims:
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
        following = found[at + 1] if at + 1 < len(found) else BREAK
        colour = lexicon().colours.get(word.lemma) if word.kind == "quality" else None
        if colour and at not in denied:
            pending_colours.append(colour)
            if subject and following.kind == "function" and _predicates(found, at):
                colours[subject].add(colour)
        elif (count := number(word)) is not None and word.kind == "number":
            pending_number = count
        elif word.kind == "noun":
            name = thing(word.lemma)
            names.setdefault(name, word.form)
            bare = at == 0 or not _restricts(found[at - 1])
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
            name = thing(word.lemma)
            names.setdefault(name, word.form)
            acts.add(name)
            (no if at in denied else affirmed).add(name)
            pending_colours, pending_number = [], None
        elif word is BREAK or (word.kind == "function" and word.form not in ("and", "or", "very")):
            if word is not BREAK or not pending_colours:
                pending_colours, pending_number = [], None
            if word is BREAK and following.form not in lexicon().colours:
                subject = ""
    implied: dict[str, set[str]] = defaultdict(set)
    for name, side, is_said in _sides(found):
        (sides if is_said else implied)[name].add(side)
    if not any(word.kind == "noun" and _is_thing(word) for word in found):
        colours[""], numbers[""], sides[""] = _of_no_thing(found, denied)
    qualities: dict[str, set[str]] = defaultdict(set)
    lacking: dict[str, set[str]] = defaultdict(set)
    for name, quality, is_denied in _qualified(found, denied):
        key = lexicon().colours.get(quality) or thing(quality)
        names.setdefault(key, quality)
        (lacking if is_denied else qualities)[name].add(key)
    return Claims(
        colours=_frozen(colours),
        numbers=_frozen(numbers),
        sides=_frozen(sides),
        implied=_frozen(implied),
        qualities=_frozen(qualities),
        lacking=_frozen(lacking),
        denied=frozenset(no),
        affirmed=frozenset(affirmed),
        acts=frozenset(acts),
        names=names,
    )


def _frozen(found: Mapping[str, set[str]]) -> Found:
    return {name: frozenset(said) for name, said in found.items() if said}


def _restricts(word: Word) -> bool:
    """Whether "no … cup" denies some cups only: "no red cup", not "no visible cup"."""
    return word.kind == "quality" and word.lemma not in _FRAMING


def _is_thing(word: Word) -> bool:
    """ "Orange." alone is a colour."""
    return word.lemma not in _NAMES_NO_THING and word.lemma not in lexicon().colours


def _of_no_thing(found: Sequence[Word], denied: frozenset[int]) -> tuple[set[str], set[str], set[str]]:
    """The colours, numbers and sides of a text that names no thing."""
    known = lexicon().colours
    affirmed = [word for at, word in enumerate(found) if at not in denied]
    colours = {known[word.lemma] for word in affirmed if word.lemma in known}
    numbers = {str(number(word)) for word in affirmed if word.kind == "number" and number(word) is not None}
    before = (BREAK, *found)
    sides = {
        SIDES[word.form]
        for at, word in enumerate(found)
        if word.form in SIDES and (before[at] is BREAK or before[at].form in _SIDE_BEFORE)
    }
    return colours, numbers, sides


def _qualified(found: Sequence[Word], denied: frozenset[int]) -> Iterator[tuple[str, str, bool]]:
    """(thing, quality, whether it is denied) for every quality before a thing or said of the thing before."""
    pending: list[str] = []
    subject = ""
    for at, word in enumerate(found):
        following = found[at + 1] if at + 1 < len(found) else BREAK
        if _restricts(word):
            pending.append(word.lemma)
            if subject and _predicates(found, at):
                yield subject, word.lemma, at in denied
        elif word.kind == "noun":
            if following.kind != "noun":
                subject = thing(word.lemma)
                yield from ((subject, quality, at in denied) for quality in pending)
                pending = []
        elif word is BREAK:
            pending, subject = [], ""
        elif word.kind != "quality" and word.form not in ("and", "or", "very"):
            pending = []


def _predicates(found: Sequence[Word], at: int) -> bool:
    """Whether the quality at `at` is said of the thing before: "is red", "are all red", "is black and white"."""
    for i in range(at - 1, max(-1, at - 5), -1):
        word = found[i]
        if word.form in _COPULAS:
            return True
        if not (word.kind == "quality" or word.form in ("and", "all", "both", "very", "mostly", "or", "not")):
            return False
    return False


def _sides(found: Sequence[Word]) -> Iterator[tuple[str, str, bool]]:
    """(thing, "left" or "right", said or implied) for every side that is named: "X on the left", "on the left is X",
    "his left hand", "X left of Y"."""
    for at, word in enumerate(found):
        side = SIDES.get(word.form)
        before = found[at - 1] if at else BREAK
        after = found[at + 1] if at + 1 < len(found) else BREAK
        if side is None or not (before.form in _SIDE_BEFORE or after.form in _SIDE_AFTER):
            continue
        if after.kind == "noun" and after.form not in _SIDE_WORDS:
            yield thing(after.lemma), side, True
            continue
        earlier, later = _noun(found, at, -1), _noun(found, at, 1)
        if earlier:
            yield thing(earlier), side, True
            if after.form == "of" and later:
                yield thing(later), _OPPOSITE[side], False
        elif later and after.form != "of":
            yield thing(later), side, True


def _noun(found: Sequence[Word], at: int, step: int) -> str:
    """The next noun in the same clause, before or after, at most eight words away; "" where there is none."""
    i = at + step
    while 0 <= i < len(found) and abs(i - at) <= 8 and found[i] is not BREAK:
        if found[i].kind == "noun" and found[i].form not in _SIDE_WORDS:
            return found[i].lemma
        i += step
    return ""


@dataclass(frozen=True, slots=True)
class Contradictions:
    """What the output claims against the expected descriptions, and how many of its claims could be checked."""

    colours: tuple[Contradiction, ...]
    numbers: tuple[Contradiction, ...]
    negations: tuple[Contradiction, ...]
    sides: tuple[Contradiction, ...]
    checked: Mapping[str, int]

    @property
    def all(self) -> tuple[Contradiction, ...]:
        return self.colours + self.numbers + self.negations + self.sides


def contradictions(said: Claims, expected: Sequence[Claims], asked: frozenset[str] = frozenset()) -> Contradictions:
    """The claims of one text against those of one or several expected ones. `asked` are the things that the question
    names: of them is said what the text says of no thing, or where nothing is expected of them, of any."""
    names = {name: word for one in reversed(expected) for name, word in one.names.items()}
    checked: dict[str, int] = {}
    found: dict[str, tuple[Contradiction, ...]] = {}
    for kind in ("colours", "numbers", "sides"):
        against = _together([getattr(one, kind) for one in expected])
        if kind == "sides":
            against = _together([against, *(one.implied for one in expected)])
        mine: Found = getattr(said, kind)
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
                _phrase(kind, mine[name], said.names.get(name, "")),
                _phrase(kind, against[name], names.get(name, "")),
            )
            for name in both
            if not _fits(kind, mine[name], against[name])
        )
    checked["negations"], negations = _negations(said, expected, names)
    return Contradictions(found["colours"], found["numbers"], negations, found["sides"], checked)


def _negations(
    said: Claims, expected: Sequence[Claims], names: Mapping[str, str]
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
    theirs, lacking = (_together([getattr(one, what) for one in expected]) for what in ("qualities", "lacking"))
    for name in said.lacking.keys() & theirs.keys():
        checked += 1
        if said.lacking[name] <= theirs[name] - lacking.get(name, frozenset()):
            mine, other = (_qualities(said.lacking[name], name, words) for words in (said.names, names))
            wrong.append((name, f"no {mine}", other))
    for name in lacking.keys() & said.qualities.keys() - said.lacking.keys():
        checked += 1
        if lacking[name] <= said.qualities[name] - theirs.get(name, frozenset()):
            mine, other = (_qualities(lacking[name], name, words) for words in (said.names, names))
            wrong.append((name, mine, f"no {other}"))
    return checked, tuple(Contradiction(mine, other) for _, mine, other in sorted(wrong))


def _qualities(qualities: frozenset[str], name: str, words: Mapping[str, str]) -> str:
    """ "small red cup"."""
    return " ".join((*sorted(words.get(quality, quality) for quality in qualities), words[name]))


def _together(maps: Sequence[Found]) -> dict[str, frozenset[str]]:
    joined: dict[str, frozenset[str]] = defaultdict(frozenset)
    for one in maps:
        for name, values in one.items():
            joined[name] |= values
    return dict(joined)


def _fits(kind: str, mine: frozenset[str], theirs: frozenset[str]) -> bool:
    if mine & theirs:
        return True
    return kind == "colours" and any(
        b in _NEIGHBOURS.get(a, ()) or a in _NEIGHBOURS.get(b, ()) for a in mine for b in theirs
    )


def _phrase(kind: str, values: frozenset[str], name: str) -> str:
    joined = " or ".join(sorted(values)) if kind != "colours" else " and ".join(sorted(values))
    return (f"{name} on the {joined}" if kind == "sides" else f"{joined} {name}").strip()
