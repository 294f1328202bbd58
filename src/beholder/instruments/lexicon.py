"""Which words mean the same, a kind of the same, or belong to one scene: `lexicon.txt`, read once.

The trees in the file give every word one or more nodes. How near two words are is a number 0–1 by fixed steps
(`NEARNESS`), directed: a general word is borne out by a special one ("animal" by "dog") better than the other way
round. `grammar.txt` holds plain lists of words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Sense = Literal["noun", "verb", "quality"]

# Fixed by judgement before anything was fitted.
NEARNESS = {"same": 1.0, "synonym": 0.9, "kind_of": 0.8, "special_of": 0.6, "sibling": 0.4, "topic": 0.2}

_SENSES: dict[str, Sense] = {
    "things": "noun", "acts": "verb", "qualities": "quality", "verbs": "verb", "plain": "quality", "not_things": "noun",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lexicon:
    """`nodes`: the tree nodes of a word; `parents`: the node above a node; `topics`: the scenes a word belongs to."""

    words: frozenset[str]
    compounds: frozenset[str]
    senses: Mapping[str, frozenset[Sense]]
    nodes: Mapping[str, tuple[int, ...]]
    parents: Mapping[int, int]
    topics: Mapping[str, frozenset[int]]
    colours: Mapping[str, str]
    not_things: frozenset[str]

    def kinds(self, word: str) -> frozenset[Sense]:
        """What the word can be; empty where it is not known."""
        return self.senses.get(word, frozenset())


_COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "black", "white", "gray")


@cache
def sections(file: str) -> Mapping[str, tuple[str, ...]]:
    """The lines under each [heading] of one of our word files; comments and empty lines are left out."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name(file).read_text("utf-8").splitlines():
        if line.startswith("["):
            found[line.strip("[]")] = heading = []
        elif line.strip() and not line.startswith("#"):
            heading.append(line)
    return {name: tuple(lines) for name, lines in found.items()}


@cache
def listed_words(name: str) -> frozenset[str]:
    """A list of `grammar.txt`."""
    return frozenset(" ".join(sections("grammar.txt")[name]).split())


@cache
def lexicon() -> Lexicon:
    parts = sections("lexicon.txt")
    senses: dict[str, set[Sense]] = defaultdict(set)
    for section, sense in _SENSES.items():
        for word in " ".join(parts[section]).split():
            senses[word].add(sense)
    nodes: dict[str, list[int]] = defaultdict(list)
    parents: dict[int, int] = {}
    for line, node in _numbered(parts["things"] + parts["acts"] + parts["qualities"], parents):
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
        colours={
            word: group.split()[0]
            for group in parts["qualities"]
            for word in group.split()
            if group.split()[0] in _COLOURS
        },
    )


def _numbered(lines: Iterable[str], parents: dict[int, int]) -> Iterator[tuple[str, int]]:
    """Each line with its number as a node of the tree that the indents make; `parents` is filled on the way."""
    above: list[tuple[int, int]] = []
    for node, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        while above and above[-1][0] >= depth:
            above.pop()
        if above:
            parents[node] = above[-1][1]
        above.append((depth, node))
        yield line, node


class Company:
    """A set of words that others are held against: `nearest` tells how near any word comes to it, in constant time."""

    def __init__(self, lemmas: Iterable[str]) -> None:
        known = lexicon()
        self.lemmas = frozenset(lemmas)
        self.nodes: set[int] = set()
        self.over: set[int] = set()  # nodes above those of the words
        self.next_over: set[int] = set()  # only the nodes directly above
        self.topics: set[int] = set()
        for word in self.lemmas:
            for node in known.nodes.get(word, ()):
                self.nodes.add(node)
                if node in known.parents:
                    self.next_over.add(known.parents[node])
                while node in known.parents:
                    node = known.parents[node]
                    self.over.add(node)
            self.topics |= known.topics.get(word, frozenset())

    def nearest(self, word: str) -> float:
        """0–1 by the steps of `NEARNESS`: how far a word here bears `word` out."""
        if word in self.lemmas:
            return NEARNESS["same"]
        known = lexicon()
        best = NEARNESS["topic"] if known.topics.get(word, frozenset()) & self.topics else 0.0
        for node in known.nodes.get(word, ()):
            best = max(best, self._by_node(node, known.parents))
        return best

    def borne_out(self, word: str) -> float:
        """As `nearest`, but a word is borne out by what says the same, or a kind of it: not by a sibling or a scene."""
        near = self.nearest(word)
        return near if near >= NEARNESS["special_of"] else 0.0

    def _by_node(self, node: int, parents: Mapping[int, int]) -> float:
        if node in self.nodes:
            return NEARNESS["synonym"]
        if node in self.over:
            return NEARNESS["kind_of"]
        up = parents.get(node)
        sibling = NEARNESS["sibling"] if up is not None and up in self.next_over else 0.0
        while up is not None:
            if up in self.nodes:
                return NEARNESS["special_of"]
            up = parents.get(up)
        return sibling
