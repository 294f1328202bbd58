"""What the benchmarks judge: 500 cases of two 1600 × 1200 JPEGs, about 360 KB each, made once and kept.

    python benchmarks/material.py [FOLDER]

The pictures are crops of one noise texture with the spectrum of a photo, so that they compress like one; the same seed
gives the same bytes with the same OpenCV. There are two kinds of pairs: two unrelated crops, the worst case of an audit
(it searches for the one in the other in vain), and edits, as users have them: the same picture with another patch in
an ellipse of a tenth to a quarter of its area, encoded again. 540 MB, in `build/bench` unless told otherwise.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

WIDTH, HEIGHT = 1600, 1200
CASES, MANY = 500, 10_000
QUALITY = 88
VERSION = "2"
ROLES = ("input", "edited")
EDIT = "edit"  # in the name of a file in place of the second role: an edit of the first picture
FOLDER = Path(__file__).parents[1] / "build" / "bench"


@dataclass(frozen=True, slots=True)
class Material:
    """The folder, and its case files by how many cases they hold."""

    folder: Path

    def cases(self, count: int, *, edits: bool = False) -> Path:
        """A file of the first `count` cases, unrelated crops or edits; above 500 the pictures come round again."""
        path = self.folder / f"{'edits' if edits else 'cases'}-{count}.jsonl"
        if not path.exists():
            lines = (json.dumps(record(number, edits=edits)) + "\n" for number in range(count))
            _replace(path, "".join(lines).encode())
        return path

    def records(self, count: int) -> list[dict[str, str]]:
        return [record(number) for number in range(count)]


def record(number: int, *, edits: bool = False) -> dict[str, str]:
    files = (ROLES[0], EDIT if edits else ROLES[1])
    pictures = {role: f"images/{number % CASES:03}-{file}.jpg" for role, file in zip(ROLES, files, strict=True)}
    return {"id": f"case-{number}", **pictures, "instruction": f"make the car in lane {number} red"}


def material(folder: Path = FOLDER) -> Material:
    """The material, made where it is not there yet."""
    stamp = folder / "made"
    if not stamp.exists() or stamp.read_text() != VERSION:
        (folder / "images").mkdir(parents=True, exist_ok=True)
        _draw(folder / "images")
        _replace(stamp, VERSION.encode())
    return Material(folder)


def _draw(folder: Path) -> None:
    import cv2
    import numpy as np

    texture = _texture(np.random.default_rng(3))
    room = texture.shape[0] - HEIGHT, texture.shape[1] - WIDTH
    places = np.random.default_rng(5).integers((0, 0), room, (CASES * len(ROLES), 2))

    def draw(index: int) -> None:
        top, left = places[index]
        picture = texture[top : top + HEIGHT, left : left + WIDTH].copy()
        # Two crops may fall on the same place; the numbered patch makes every file its own.
        cv2.putText(picture, str(index), (40, 160), cv2.FONT_HERSHEY_DUPLEX, 5, (20, 20, 230), 9)
        _, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        number, role = divmod(index, len(ROLES))
        _replace(folder / f"{number:03}-{ROLES[role]}.jpg", data.tobytes())

    def edit(number: int) -> None:
        """As an editor does it: from the decoded file, with a soft border around what is new."""
        stored = (folder / f"{number:03}-{ROLES[0]}.jpg").read_bytes()
        picture = np.asarray(cv2.imdecode(np.frombuffer(stored, np.uint8), cv2.IMREAD_COLOR), np.float32)
        top, left = places[2 * number + 1]
        chance = np.random.default_rng(number)
        axes = chance.integers((280, 220), (440, 330))  # 10 to 24 % of the area
        center = chance.integers(axes, (WIDTH - axes[0], HEIGHT - axes[1]))
        where = np.zeros((HEIGHT, WIDTH), np.float32)
        cv2.ellipse(where, [int(value) for value in center], [int(value) for value in axes], 0, 0, 360, 1.0, -1)
        share = cv2.blur(where, (25, 25))[:, :, None]
        edited = picture + share * (texture[top : top + HEIGHT, left : left + WIDTH] - picture)
        _, data = cv2.imencode(".jpg", np.rint(edited).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
        _replace(folder / f"{number:03}-{EDIT}.jpg", data.tobytes())

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(draw, range(CASES * len(ROLES))))
        list(pool.map(edit, range(CASES)))


def _texture(rng: object) -> object:
    """Octaves of noise from coarse to fine, each weaker than the one before, as in photos."""
    import cv2
    import numpy as np

    assert isinstance(rng, np.random.Generator)
    height, width = 2400, 3200
    canvas = np.full((height, width, 3), 118, np.float32)
    for step, strength in ((400, 46), (120, 34), (36, 22), (11, 13), (4, 8), (1, 4.05)):
        coarse = rng.normal(0, strength, (height // step + 2, width // step + 2, 3)).astype(np.float32)
        coarse = 0.7 * coarse[:, :, :1] + 0.3 * coarse  # mostly light, less colour
        canvas += cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.clip(canvas, 0, 255).astype(np.uint8)


def _replace(path: Path, data: bytes) -> None:
    """Whole or not at all, so that a run that was stopped leaves no half file."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    part.replace(path)


if __name__ == "__main__":
    made = material(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
    sizes = [path.stat().st_size for path in (made.folder / "images").iterdir()]
    print(f"{made.folder}: {len(sizes)} pictures of {min(sizes):,} to {max(sizes):,} bytes")
    print(made.cases(CASES), made.cases(CASES, edits=True), made.cases(MANY), sep="\n")
