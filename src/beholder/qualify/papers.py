"""Setting an exam: papers with known truth, written into a folder as an ordinary case file.

The same photographs, rubric, seed and size give the same bytes, with the same versions of NumPy and OpenCV. The truth
travels in the groups of the cases (`paper.Paper.groups`), which no judge sees.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from beholder.cases import Case
from beholder.demo.files import write
from beholder.errors import UsageError
from beholder.qualify.descriptions import descriptions
from beholder.qualify.edit_papers import fidelity, preservation, quality
from beholder.qualify.files import png
from beholder.qualify.paper import EXAM, SIZES, Paper, Photo, Size
from beholder.qualify.photographs import photographs
from beholder.qualify.restyles import restyles
from beholder.rubrics.model import Rubric

__all__ = ["EXAM", "SIZES", "exam_notes", "exam_rubrics", "set_exam"]

CASES = "cases.jsonl"
RECORD = ".beholder-exam.json"
"""Tells a folder of ours from any other."""

Setter = Callable[[Rubric, Sequence[Photo], Size, int], Iterator[Paper]]

_EXAMS: Mapping[str, Setter] = {
    "edit-preservation": preservation,
    "edit-quality": quality,
    "edit-fidelity": fidelity,
    "restyle": restyles,
    "restyle-confidence": restyles,
    "description": descriptions,
}
_DESCRIBED = "description"


def exam_rubrics() -> tuple[str, ...]:
    """The rubrics that there are papers for."""
    return tuple(_EXAMS)


def exam_notes(rubric: Rubric, photos: Sequence[Path] = ()) -> tuple[str, ...]:
    """What a person who sets this exam with these photographs should know beforehand, as sentences."""
    if rubric.name == _DESCRIBED and photos:
        return (
            "The description papers are about the demo's photographs: they need photographs whose facts are known, and "
            "nothing is known about yours.",
        )
    return ()


def set_exam(
    rubric: Rubric, folder: Path, *, photos: Sequence[Path] = (), seed: int = 0, size: str = "usual"
) -> list[Case]:
    """Writes pictures and `cases.jsonl` into a folder, which is made if need be, and returns the cases.

    `photos` are files and folders; without any, the demo's photographs are taken (always for `description`). A file
    that is as it should be is not touched, so a run on it goes on. Raises `UsageError` for a rubric without papers, an
    unknown size, photographs that cannot be used, and a folder that holds anything but an exam; `SetupError` where the
    demo's photographs are missing.
    """
    if rubric.name not in _EXAMS:
        raise UsageError(f"There is no exam for the rubric {rubric.name!r}; there is one for {', '.join(_EXAMS)}.")
    if size not in SIZES:
        raise UsageError(f"The size of an exam cannot be {size!r}; it is {', '.join(SIZES)}.")
    _check(folder)
    chosen = photographs(() if rubric.name == _DESCRIBED else photos, SIZES[size].photos, seed)
    try:
        cases = _written(rubric, folder, chosen, SIZES[size], seed)
        record = {"exam": EXAM, "rubric": rubric.name, "seed": seed, "size": size, "papers": len(cases)}
        write(folder / RECORD, (json.dumps(record, indent=1) + "\n").encode())
    except OSError as error:
        where = str(error.filename or folder)
        raise UsageError(f"The exam cannot be written: {where!r}: {error.strerror or error}.") from None
    return cases


def _check(folder: Path) -> None:
    """Raises `UsageError` where something is in the way that is not an exam."""
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{str(folder)!r} is a file; name a folder, new or empty, to put the exam into.")
        if folder.exists() and any(folder.iterdir()) and not (folder / RECORD).is_file():
            raise UsageError(f"{str(folder)!r} is not empty and holds no exam; name a folder that is new or empty.")
    except OSError as error:
        raise UsageError(f"{str(folder)!r} cannot be read: {error.strerror or error}.") from None


def _written(rubric: Rubric, folder: Path, photos: Sequence[Photo], size: Size, seed: int) -> list[Case]:
    """The papers, written one after the other: only one picture is held at a time."""
    # First of all, so that a folder that was left half-way is known as ours.
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / RECORD).exists():
        write(folder / RECORD, b"{}\n")
    for photo in photos:
        write(folder / _photo(photo.name), png(photo.pixels))
    cases, rows = [], []
    for paper in _EXAMS[rubric.name](rubric, photos, size, seed):
        places = _places(rubric, folder, paper)
        rows.append(json.dumps({"id": paper.id, **places, **paper.fields, "groups": paper.groups}, ensure_ascii=False))
        images = {role: os.path.join(folder, place) for role, place in places.items()}
        cases.append(Case(paper.id, images, dict(paper.fields), paper.groups))
    write(folder / CASES, "".join(f"{row}\n" for row in rows).encode())
    return cases


def _places(rubric: Rubric, folder: Path, paper: Paper) -> dict[str, str]:
    """The images of a paper by role, relative to the folder; its picture is written."""
    *before, last = rubric.roles
    place = _photo(paper.source)
    places = dict.fromkeys(before, place)
    if paper.picture is not None:
        ending, data = (".jpg", paper.picture) if isinstance(paper.picture, bytes) else (".png", png(paper.picture))
        place = f"papers/{paper.source}-{paper.name}{ending}"
        write(folder / place, data)
    return {**places, last: place}


def _photo(name: str) -> str:
    return f"photos/{name}.png"
