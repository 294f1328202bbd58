"""Papers, the questions of an exam with their truth; and the photographs they are made from.

Photographs are a user's, from files and folders, or the demo's. Picture files have the same bytes every time.
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
from beholder.demo.photos import Pixels, load_photos
from beholder.errors import ImageError, UsageError
from beholder.images.codec import resize
from beholder.images.image import Sizing, printable_name
from beholder.images.prepare import fit_size, prepare_image
from beholder.images.source import inspect_image, read_image

EXAM_VERSION = "1"  # changes when any paper changes, so that report cards of two versions are not compared

STRENGTHS = (1, 2, 3, 4, 5)
MAX_STRENGTH = 5

MAX_SIDE = 640  # px of the longer side, at most
MIN_SIDE = 96  # px of the shorter side, at that size
MIN_CONTRAST = 8  # standard deviation in levels of 255: with less there is nothing to damage
# Mean difference in levels of 255: what is nearer is the same picture or one of a burst. The demo's photographs are
# 41 to 104 apart, and 6 to 22 from themselves when moved by 3 % of their width.
MIN_DISTANCE = 15
MAX_NAME_LENGTH = 40
MAX_LISTED = 5  # unusable files listed in an error

_SIZING = Sizing(max_side=MAX_SIDE, max_bytes=None, formats=frozenset({"png"}))
# As small as level 6 finds it (a photograph of 640 pixels: 465 KB), in a sixth of the time (15 ms).
_PNG = [cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_RLE]


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
    """A photograph, at most 640 pixels a side.

    Attributes:
        name: A plain name.
        pixels: RGB.
        shipped: For one of the demo's photographs the original, to whose pixels the coordinates of its retouching
            refer; None for a user's.
    """

    name: str
    pixels: Pixels
    shipped: Pixels | None = None


@dataclass(frozen=True, slots=True)
class ExamSize:
    """How many papers an exam has.

    Attributes:
        photos: At most so many photographs.
        series_per_photo: How many series of damage each photograph gets, in rotation; more where there are too few
            photographs to use every series.
        strengths: The strengths of damage in a series.
        injections: How many prompt injections in all.
    """

    photos: int
    series_per_photo: int
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
    """A series of papers of rising damage.

    Attributes:
        part: What is done.
        kind: The kind of damage.
        aims: The criteria that should fall.
        spares: The criteria that should not move, each with the last strength up to which that is certain. A criterion
            in neither may move or not, and is not graded.
    """

    part: PaperPart
    kind: str
    aims: tuple[str, ...] = ()
    spares: Mapping[str, int] = field(default_factory=dict)

    def spared_at(self, strength: int) -> tuple[str, ...]:
        """Return the criteria that should not move at this strength."""
        return tuple(key for key, last in self.spares.items() if strength <= last)


@dataclass(frozen=True, slots=True)
class Paper:
    """One question of the exam with its truth.

    Attributes:
        picture: The output: pixels (written as PNG), the bytes of a JPEG, or None for the photograph's own file.
        twin: The id of the paper that it is compared with.
        aims: The criteria that should be lower than on the twin.
        spares: The criteria that should be as on the twin.
        wording: The number of the text of an injection.
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
        """Unique for its photograph, and fit for a file name."""
        number = self.wording or self.strength
        return f"{self.part}-{self.kind}-{number}" if number else f"{self.part}-{self.kind}"

    @property
    def id(self) -> str:
        return f"{self.source}/{self.name}"

    @property
    def groups(self) -> dict[str, str]:
        """The truth, as text. Empty values are left out, as in a case file that is read."""
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


def select_series(every: Sequence[DamageSeries], size: ExamSize, position: int, photos: int) -> list[DamageSeries]:
    """Return the series for the photograph at this position, in rotation, so that some photograph uses every series."""
    count = min(len(every), max(size.series_per_photo, -(-len(every) // photos)))
    return [every[(position * count + step) % len(every)] for step in range(count)]


def seeded_random(seed: int, *words: str) -> np.random.Generator:
    """Return a random generator seeded by these words: independent of everything else in the exam and of the order."""
    digest = hashlib.sha256("/".join([str(seed), *words]).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest, "<u4"))


def encode_png(pixels: Pixels) -> bytes:
    done, data = cv2.imencode(".png", pixels[:, :, ::-1], _PNG)
    assert done
    return data.tobytes()


def decode_image(data: bytes) -> Pixels:
    """Decode a JPEG or PNG file that we made ourselves to RGB."""
    picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    assert picture is not None
    return np.ascontiguousarray(picture[:, :, ::-1], np.uint8)


def load_photographs(paths: Sequence[Path], limit: int, seed: int) -> list[Photo]:
    """Load the photographs of an exam, upright, sRGB, without metadata, in the order of their names.

    The same picture under two names, or several of a burst, count once.

    Args:
        paths: Files, and folders whose files are used (without hidden ones and subfolders); the demo's photographs if
            empty.
        limit: At most so many, chosen by the seed.
        seed: Of the choice.

    Raises:
        UsageError: Some files are no pictures, cannot be read, are too small or show nothing; the message lists them.
        SetupError: The demo's photographs are needed and not installed.
    """
    if not paths:
        return _demo_photographs(limit, seed)
    files = sorted({os.path.abspath(path): path for path in _list_files(paths)}.values(), key=_sort_key)
    if not files:
        raise UsageError(f"There is no picture in {', '.join(repr(str(path)) for path in paths)}; name another folder.")
    if problems := [problem for path in files if (problem := _find_problem(path))]:
        raise _bad_photographs_error(problems)
    names = dict(zip(files, make_plain_names([path.stem for path in files]), strict=True))
    chosen: list[Photo] = []
    for number in seeded_random(seed, "photographs").permutation(len(files)):
        if len(chosen) == limit:
            break
        photo = Photo(names[files[number]], _read_pixels(files[number]))
        if all(image_distance(photo, other) >= MIN_DISTANCE for other in chosen):
            chosen.append(photo)
    return sorted(chosen, key=lambda photo: photo.name)


def image_distance(one: Photo, other: Photo) -> float:
    """Return the mean difference of tiny copies of two photographs, in levels of 255."""
    return float(np.abs(_tiny_copy(one.pixels) - _tiny_copy(other.pixels)).mean())


def find_most_unlike(photos: Sequence[Photo], number: int) -> Photo | None:
    """Return the photograph that differs most from the one at this position; None where there is no other.

    Neighbors in a folder often show the same thing, and what is swapped in should be something else.
    """
    others = [photo for position, photo in enumerate(photos) if position != number]
    return max(others, key=lambda other: round(image_distance(photos[number], other), 2), default=None)


def make_plain_names(names: Iterable[str]) -> list[str]:
    """Return distinct names of a–z, 0–9 and hyphens, whatever the files are called."""
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


def _demo_photographs(limit: int, seed: int) -> list[Photo]:
    photos = load_photos()
    names = sorted(photos)
    chosen = sorted(names[number] for number in seeded_random(seed, "photographs").permutation(len(names))[:limit])
    return [Photo(name, _fit_to_size(photos[name]), photos[name]) for name in chosen]


def _fit_to_size(photo: Pixels) -> Pixels:
    height, width = photo.shape[:2]
    return np.ascontiguousarray(resize(photo, *fit_size(width, height, _SIZING)))


def _list_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
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
    """Return why a file cannot be used, as far as its header tells; empty where it can."""
    try:
        info = inspect_image(path)
    except ImageError as error:
        return str(error)
    if min(fit_size(info.width, info.height, _SIZING)) < MIN_SIDE:
        return f"{printable_name(str(path))} is too small ({info.width} × {info.height})"
    return ""


def _bad_photographs_error(problems: Sequence[str]) -> UsageError:
    more = f"; and {len(problems) - MAX_LISTED} more" if len(problems) > MAX_LISTED else ""
    return UsageError(
        f"Not every file is a photograph that an exam can be made from: {'; '.join(problems[:MAX_LISTED])}{more}. A "
        f"picture's shorter side needs {MIN_SIDE} pixels when the longer one has at most {MAX_SIDE}; "
        "take the others out."
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
