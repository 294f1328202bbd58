"""What an exam is made of: photographs, papers with their truth, and sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

import numpy as np

from beholder.cases import FieldValue
from beholder.demo.model import Pixels

EXAM = "1"
"""The version of the exam: another one when any paper changes, so that cards of two versions are not compared."""

STRENGTHS = (1, 2, 3, 4, 5)
WORST = 5


class Part(StrEnum):
    """What was done to a paper; the group `part`."""

    CLEAN = "clean"
    DAMAGE = "damage"
    SWAP = "swap"
    PATCHY = "patchy"
    UNEDITED = "unedited"
    IDENTICAL = "identical"
    HALLUCINATION = "hallucination"
    OMISSION = "omission"
    WRONG = "wrong"
    PADDING = "padding"
    INJECTION = "injection"


@dataclass(frozen=True, slots=True)
class Photo:
    """A photograph under a plain name, at most 640 pixels a side. `shipped` is one of the demo's as it came, on whose
    pixels the places of its retouching are given; `None` for a user's."""

    name: str
    pixels: Pixels
    shipped: Pixels | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """How much of an exam is set.

    `photos`: at most so many. `ladders`: how many a photograph climbs, in rotation, more where there are too few
    photographs for every ladder to be climbed; `strengths`: their rungs. `injections`: how many in all.
    """

    photos: int
    ladders: int
    strengths: Sequence[int]
    injections: int


SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "quick": Size(2, 3, (1, 3, 5), 3),
        "usual": Size(7, 3, STRENGTHS, 9),
        "full": Size(24, 99, STRENGTHS, 24 * 9),
    }
)


@dataclass(frozen=True, slots=True)
class Ladder:
    """A series of papers, each a known step worse than the one before.

    `aims` are the criteria that should fall. `spares` are those that should stay, each with the last strength up to
    which that is sure. A criterion in neither may move or not: nobody knows, and it is not marked.
    """

    part: Part
    kind: str
    aims: tuple[str, ...] = ()
    spares: Mapping[str, int] = field(default_factory=dict)

    def spared(self, strength: int) -> tuple[str, ...]:
        return tuple(key for key, last in self.spares.items() if strength <= last)


@dataclass(frozen=True, slots=True)
class Paper:
    """One question of the exam with its truth.

    `picture` is the output: pixels (written as PNG), the bytes of a JPEG, or `None` for the photograph's own file.
    `twin` is the id of the paper that it should be compared with; `wording` numbers the text of an injection.
    """

    source: str
    part: Part
    kind: str
    strength: int
    picture: Pixels | bytes | None
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    twin: str = ""
    aims: tuple[str, ...] = ()
    spares: tuple[str, ...] = ()
    wording: int = 0

    @property
    def name(self) -> str:
        """Unique for its photograph, and fit for a file."""
        number = self.wording or self.strength
        return f"{self.part}-{self.kind}-{number}" if number else f"{self.part}-{self.kind}"

    @property
    def id(self) -> str:
        return f"{self.source}/{self.name}"

    @property
    def groups(self) -> dict[str, str]:
        """The truth, as texts. What is empty is left out, as in a case file that is read."""
        groups = {
            "exam": EXAM,
            "part": str(self.part),
            "kind": self.kind,
            "strength": str(self.strength),
            "source": self.source,
            "twin": self.twin,
            "aims": ",".join(self.aims),
            "spares": ",".join(self.spares),
            "wording": str(self.wording or ""),
        }
        return {name: value for name, value in groups.items() if value}


def climbed(ladders: Sequence[Ladder], size: Size, photo: int, photos: int) -> list[Ladder]:
    """The ladders that the photograph at this position climbs: every ladder is climbed by some photograph."""
    each = min(len(ladders), max(size.ladders, -(-len(ladders) // photos)))
    return [ladders[(photo * each + step) % len(ladders)] for step in range(each)]


def chance(seed: int, *words: str) -> np.random.Generator:
    """The random numbers that belong to these words: the same whatever else is in the exam, and in any order."""
    digest = hashlib.sha256("/".join([str(seed), *words]).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, "<u4"))
