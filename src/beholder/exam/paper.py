"""What an exam is made of: photographs, papers with their truth, and sizes.

Pictures from and to files; what is written is the same bytes every time.

The photographs of an exam: a user's, from files and folders, or the demo's.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

import cv2
import numpy as np
from numpy.typing import NDArray

from beholder.cases.case import FieldValue
from beholder.demo.photos import Pixels
from beholder.errors import ImageError, UsageError
from beholder.images.codec import resize
from beholder.images.image import Sizing, printable_name
from beholder.images.prepare import fit_size, prepare_image
from beholder.images.source import inspect_image, read_image

EXAM_VERSION = "1"
"""The version of the exam: another one when any paper changes, so that cards of two versions are not compared."""

STRENGTHS = (1, 2, 3, 4, 5)
MAX_STRENGTH = 5


class PaperPart(StrEnum):
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
class ExamSize:
    """How much of an exam is set.

    `photos`: at most so many. `ladders`: how many a photograph climbs, in rotation, more where there are too few
    photographs for every ladder to be climbed; `strengths`: their rungs. `injections`: how many in all.
    """

    photos: int
    ladders: int
    strengths: Sequence[int]
    injections: int


SIZES: Mapping[str, ExamSize] = MappingProxyType(
    {
        "quick": ExamSize(2, 3, (1, 3, 5), 3),
        "usual": ExamSize(7, 3, STRENGTHS, 9),
        "full": ExamSize(24, 99, STRENGTHS, 24 * 9),
    }
)


@dataclass(frozen=True, slots=True)
class DamageSeries:
    """A series of papers, each a known step worse than the one before.

    `aims` are the criteria that should fall. `spares` are those that should stay, each with the last strength up to
    which that is sure. A criterion in neither may move or not: nobody knows, and it is not marked.
    """

    part: PaperPart
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
    part: PaperPart
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
            "exam": EXAM_VERSION,
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


def select_series(ladders: Sequence[DamageSeries], size: ExamSize, photo: int, photos: int) -> list[DamageSeries]:
    """The ladders that the photograph at this position climbs: every ladder is climbed by some photograph."""
    each = min(len(ladders), max(size.ladders, -(-len(ladders) // photos)))
    return [ladders[(photo * each + step) % len(ladders)] for step in range(each)]


def seeded_random(seed: int, *words: str) -> np.random.Generator:
    """The random numbers that belong to these words: the same whatever else is in the exam, and in any order."""
    digest = hashlib.sha256("/".join([str(seed), *words]).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, "<u4"))


# As small as level 6 finds it (a photograph of 640 pixels: 465 KB), in a sixth of the time (15 ms).
_PNG = [cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE]


def encode_png(pixels: Pixels) -> bytes:
    done, data = cv2.imencode(".png", pixels[:, :, ::-1], _PNG)
    assert done
    return data.tobytes()


def decode_image(data: bytes) -> Pixels:
    """The pixels of a JPEG or PNG file that we made ourselves."""
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    return np.ascontiguousarray(picture[:, :, ::-1], np.uint8)


MAX_SIDE = 640  # of the longer side, at most
MIN_SIDE = 96  # of the shorter side, at that size
MIN_CONTRAST = 8  # levels of standard deviation: with less there is nothing that damage could spoil
# Levels: what is nearer is the same picture or one of a burst. The demo's photographs are 41 to 104 apart, and 6 to 22
# from themselves when moved by 3 % of their width.
MIN_DISTANCE = 15
MAX_NAME_LENGTH = 40
LISTED = 5  # of the files that cannot be used

_SIZING = Sizing(max_side=MAX_SIDE, max_bytes=None, formats=frozenset({"png"}))


def load_photographs(given: Sequence[Path], most: int, seed: int) -> list[Photo]:
    """At most so many of the photographs, chosen by the seed, in the order of their names; the demo's where none is
    given.

    Upright, sRGB, without metadata. A folder stands for the files in it (hidden ones and folders are passed over). The
    same picture under two names, or one of a burst, counts once. Raises `UsageError` with the files that are no
    pictures, cannot be read, are too small or show nothing; `SetupError` where the demo's photographs are missing.
    """
    if not given:
        return _demo_photographs(most, seed)
    paths = sorted({os.path.abspath(path): path for path in _list_files(given)}.values(), key=_sort_key)
    if not paths:
        raise UsageError(f"There is no picture in {', '.join(repr(str(path)) for path in given)}; name another folder.")
    if problems := [problem for path in paths if (problem := _find_problem(path))]:
        raise _bad_photographs_error(problems)
    names = dict(zip(paths, make_plain_names([path.stem for path in paths]), strict=True))
    found: list[Photo] = []
    for number in seeded_random(seed, "photographs").permutation(len(paths)):
        if len(found) == most:
            break
        photo = Photo(names[paths[number]], _read_pixels(paths[number]))
        if all(image_distance(photo, other) >= MIN_DISTANCE for other in found):
            found.append(photo)
    return sorted(found, key=lambda photo: photo.name)


def image_distance(one: Photo, other: Photo) -> float:
    """How far two photographs are from being one and the same, seen from afar: mean difference in levels of 255."""
    return float(np.abs(_tiny_copy(one.pixels) - _tiny_copy(other.pixels)).mean())


def find_most_unlike(photos: Sequence[Photo], number: int) -> Photo | None:
    """The photograph that is least like the one at this position; `None` where there is no other.

    Neighbours in a folder often show the same thing, and what is swapped in should be something else."""
    others = [photo for position, photo in enumerate(photos) if position != number]
    return max(others, key=lambda other: round(image_distance(photos[number], other), 2), default=None)


def make_plain_names(names: Iterable[str]) -> list[str]:
    """Names made of a–z, 0–9 and hyphens, each different from the others, whatever the files are called."""
    plain: list[str] = []
    taken: set[str] = set()
    for name in names:
        ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        stem = re.sub("[^a-z0-9]+", "-", ascii_only)[:MAX_NAME_LENGTH].strip("-") or "photo"
        unique, number = stem, 2
        while unique in taken:
            unique, number = f"{stem}-{number}", number + 1
        taken.add(unique)
        plain.append(unique)
    return plain


def _demo_photographs(most: int, seed: int) -> list[Photo]:
    from beholder.demo.photos import load_photos

    shots = load_photos()
    names = sorted(shots)
    chosen = sorted(names[number] for number in seeded_random(seed, "photographs").permutation(len(names))[:most])
    return [Photo(name, _fit_to_size(shots[name]), shots[name]) for name in chosen]


def _fit_to_size(photo: Pixels) -> Pixels:
    height, width = photo.shape[:2]
    return np.ascontiguousarray(resize(photo, *fit_size(width, height, _SIZING)))


def _list_files(given: Sequence[Path]) -> Iterator[Path]:
    for path in given:
        try:
            if path.is_dir():
                yield from (child for child in path.iterdir() if child.name[:1] != "." and not child.is_dir())
            else:
                yield path
        except OSError as error:
            raise UsageError(f"{printable_name(str(path))} cannot be read: {error.strerror or error}.") from None


def _sort_key(path: Path) -> tuple[str, str]:
    return path.name, os.path.abspath(path)


def _find_problem(path: Path) -> str:
    """Why a file cannot be used, as a look from outside tells; empty where it can."""
    try:
        seen = inspect_image(path)
    except ImageError as error:
        return str(error)
    if min(fit_size(seen.width, seen.height, _SIZING)) < MIN_SIDE:
        return f"{printable_name(str(path))} is too small ({seen.width} × {seen.height})"
    return ""


def _bad_photographs_error(found: Sequence[str]) -> UsageError:
    more = f"; and {len(found) - LISTED} more" if len(found) > LISTED else ""
    return UsageError(
        f"Not every file is a photograph that an exam can be made from: {'; '.join(found[:LISTED])}{more}. A "
        f"picture's shorter side needs {MIN_SIDE} pixels when the longer one has at most {MAX_SIDE}; take the others out."
    )


def _read_pixels(path: Path) -> Pixels:
    try:
        pixels = decode_image(prepare_image(read_image(path), _SIZING, name=str(path)).data)
    except ImageError as error:
        raise _bad_photographs_error([str(error)]) from None
    if pixels.std() < MIN_CONTRAST:
        raise _bad_photographs_error([f"{printable_name(str(path))} is nearly of one colour"])
    return pixels


def _tiny_copy(pixels: Pixels) -> NDArray[np.float32]:
    return cv2.resize(pixels, (16, 16), interpolation=cv2.INTER_AREA).astype(np.float32)
