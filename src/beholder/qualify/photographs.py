"""The photographs of an exam: a user's, from files and folders, or the demo's."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from beholder.demo.model import Pixels
from beholder.errors import ImageError, UsageError
from beholder.images.encoding import resize
from beholder.images.looking import look
from beholder.images.model import Sizing
from beholder.images.names import shown
from beholder.images.preparing import fitted, prepare
from beholder.images.sources import read
from beholder.qualify.files import decoded
from beholder.qualify.paper import Photo, chance

SIDE = 640  # of the longer side, at most
LEAST = 96  # of the shorter side, at that size
PLAIN = 8  # levels of standard deviation: with less there is nothing that damage could spoil
# Levels: what is nearer is the same picture or one of a burst. The demo's photographs are 41 to 104 apart, and 6 to 22
# from themselves when moved by 3 % of their width.
UNLIKE = 15
LONGEST_NAME = 40
LISTED = 5  # of the files that cannot be used

_SIZING = Sizing(max_side=SIDE, max_bytes=None, formats=frozenset({"png"}))


def photographs(given: Sequence[Path], most: int, seed: int) -> list[Photo]:
    """At most so many of the photographs, chosen by the seed, in the order of their names; the demo's where none is
    given.

    Upright, sRGB, without metadata. A folder stands for the files in it (hidden ones and folders are passed over). The
    same picture under two names, or one of a burst, counts once. Raises `UsageError` with the files that are no
    pictures, cannot be read, are too small or show nothing; `SetupError` where the demo's photographs are missing.
    """
    if not given:
        return _of_the_demo(most, seed)
    paths = sorted({os.path.abspath(path): path for path in _files(given)}.values(), key=_order)
    if not paths:
        raise UsageError(f"There is no picture in {', '.join(repr(str(path)) for path in given)}; name another folder.")
    if problems := [problem for path in paths if (problem := _problem(path))]:
        raise _refusal(problems)
    names = dict(zip(paths, plain_names([path.stem for path in paths]), strict=True))
    found: list[Photo] = []
    for number in chance(seed, "photographs").permutation(len(paths)):
        if len(found) == most:
            break
        photo = Photo(names[paths[number]], _pixels(paths[number]))
        if all(unlikeness(photo, other) >= UNLIKE for other in found):
            found.append(photo)
    return sorted(found, key=lambda photo: photo.name)


def unlikeness(one: Photo, other: Photo) -> float:
    """How far two photographs are from being one and the same, seen from afar: mean difference in levels of 255."""
    return float(np.abs(_from_afar(one.pixels) - _from_afar(other.pixels)).mean())


def most_unlike(photos: Sequence[Photo], number: int) -> Photo | None:
    """The photograph that is least like the one at this position; `None` where there is no other.

    Neighbours in a folder often show the same thing, and what is swapped in should be something else."""
    others = [photo for position, photo in enumerate(photos) if position != number]
    return max(others, key=lambda other: round(unlikeness(photos[number], other), 2), default=None)


def plain_names(names: Iterable[str]) -> list[str]:
    """Names made of a–z, 0–9 and hyphens, each different from the others, whatever the files are called."""
    plain: list[str] = []
    taken: set[str] = set()
    for name in names:
        ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        stem = re.sub("[^a-z0-9]+", "-", ascii_only)[:LONGEST_NAME].strip("-") or "photo"
        unique, number = stem, 2
        while unique in taken:
            unique, number = f"{stem}-{number}", number + 1
        taken.add(unique)
        plain.append(unique)
    return plain


def _of_the_demo(most: int, seed: int) -> list[Photo]:
    from beholder.demo.photos import photos

    shots = photos()
    names = sorted(shots)
    chosen = sorted(names[number] for number in chance(seed, "photographs").permutation(len(names))[:most])
    return [Photo(name, _fitted(shots[name]), shots[name]) for name in chosen]


def _fitted(photo: Pixels) -> Pixels:
    height, width = photo.shape[:2]
    return np.ascontiguousarray(resize(photo, *fitted(width, height, _SIZING)))


def _files(given: Sequence[Path]) -> Iterator[Path]:
    for path in given:
        try:
            if path.is_dir():
                yield from (child for child in path.iterdir() if child.name[:1] != "." and not child.is_dir())
            else:
                yield path
        except OSError as error:
            raise UsageError(f"{shown(str(path))} cannot be read: {error.strerror or error}.") from None


def _order(path: Path) -> tuple[str, str]:
    return path.name, os.path.abspath(path)


def _problem(path: Path) -> str:
    """Why a file cannot be used, as a look from outside tells; empty where it can."""
    try:
        seen = look(path)
    except ImageError as error:
        return str(error)
    if min(fitted(seen.width, seen.height, _SIZING)) < LEAST:
        return f"{shown(str(path))} is too small ({seen.width} × {seen.height})"
    return ""


def _refusal(found: Sequence[str]) -> UsageError:
    more = f"; and {len(found) - LISTED} more" if len(found) > LISTED else ""
    return UsageError(
        f"Not every file is a photograph that an exam can be made from: {'; '.join(found[:LISTED])}{more}. A "
        f"picture's shorter side needs {LEAST} pixels when the longer one has at most {SIDE}; take the others out."
    )


def _pixels(path: Path) -> Pixels:
    try:
        pixels = decoded(prepare(read(path), _SIZING, name=str(path)).data)
    except ImageError as error:
        raise _refusal([str(error)]) from None
    if pixels.std() < PLAIN:
        raise _refusal([f"{shown(str(path))} is nearly of one colour"])
    return pixels


def _from_afar(pixels: Pixels) -> NDArray[np.float32]:
    return cv2.resize(pixels, (16, 16), interpolation=cv2.INTER_AREA).astype(np.float32)
