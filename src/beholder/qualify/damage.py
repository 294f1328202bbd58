"""Graded damage to pixels: five steps from what most people would not notice to what nobody could overlook.

| kind | what | 1 | 2 | 3 | 4 | 5 |
|---|---|---|---|---|---|---|
| `colour_cast` | distance in CIELAB (ΔE, just noticeable about 2.3), one direction | 1.5 | 3 | 6 | 12 | 24 |
| `blur` | sigma of a Gaussian, pixels | 0.5 | 1 | 2 | 4 | 8 |
| `noise` | standard deviation, in levels of 255 | 2 | 5 | 10 | 20 | 40 |
| `shift` | pixels, sideways or up and down | 1 | 2 | 5 | 12 | 30 |
| `patch` | a square of another photograph, % of the area | 0.05 | 0.3 | 1.5 | 5 | 15 |
| `recompression` | JPEG quality, chroma at half size | 85 | 60 | 35 | 18 | 6 |
| `halo` | a bright rim of 4 pixels, levels of 255 | 6 | 14 | 30 | 60 | 110 |

Pictures are at most 640 pixels a side. What chance decides (a direction, a place, the grain) is the same on all five
steps, so that a step differs from the one before in its strength alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import cv2
import numpy as np
from numpy.typing import NDArray

from beholder.demo.files import jpeg
from beholder.demo.model import Pixels
from beholder.demo.retouching import blurred, shifted
from beholder.qualify.files import decoded
from beholder.qualify.paper import chance

Region = NDArray[np.bool_]

HALO_WIDTH = 4
_WAYS = ((1, 0), (-1, 0), (0, 1), (0, -1))
_FAR = 0.6  # of the largest distance from the region: far enough for a patch


@dataclass(frozen=True, slots=True)
class Ground:
    """What is damaged: a picture, the region of it that is spoken of, and another photograph for what is foreign to
    it. `seed` and `name` decide what chance does."""

    picture: Pixels
    region: Region
    other: Pixels
    seed: int
    name: str


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind: its five steps, their unit, and how it is done to a whole picture."""

    steps: tuple[float, float, float, float, float]
    unit: str
    make: Callable[[Ground, float, np.random.Generator], Pixels]


def damaged(ground: Ground, kind: str, strength: int) -> Pixels:
    """The whole picture with damage of strength 1 to 5."""
    damage = DAMAGES[kind]
    return damage.make(ground, damage.steps[strength - 1], chance(ground.seed, ground.name, kind))


def damaged_outside(ground: Ground, kind: str, strength: int) -> Pixels:
    """The damage everywhere but in the region, whose pixels stay as they are."""
    return np.where(ground.region[..., None], ground.picture, damaged(ground, kind, strength))


def damaged_inside(ground: Ground, kind: str, strength: int) -> Pixels:
    """The damage in the region alone."""
    return np.where(ground.region[..., None], damaged(ground, kind, strength), ground.picture)


def covering(photo: Pixels, height: int, width: int) -> Pixels:
    """The middle of a photograph, scaled so that it fills this size."""
    factor = max(height / photo.shape[0], width / photo.shape[1])
    size = max(width, round(photo.shape[1] * factor)), max(height, round(photo.shape[0] * factor))
    scaled = cv2.resize(photo, size, interpolation=cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR)
    top, left = (scaled.shape[0] - height) // 2, (scaled.shape[1] - width) // 2
    return np.ascontiguousarray(scaled[top : top + height, left : left + width], np.uint8)


def _colour_cast(ground: Ground, step: float, random: np.random.Generator) -> Pixels:
    angle = random.uniform(0, 2 * np.pi)
    lab = cv2.cvtColor(ground.picture.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    moved = lab + np.array([0, step * np.cos(angle), step * np.sin(angle)], np.float32)
    colour = cv2.cvtColor(moved.astype(np.float32), cv2.COLOR_LAB2RGB)
    return np.asarray(np.clip(colour, 0, 1) * 255 + 0.5, np.uint8)


def _blur(ground: Ground, step: float, random: np.random.Generator) -> Pixels:
    return blurred(ground.picture, step)


def _noise(ground: Ground, step: float, random: np.random.Generator) -> Pixels:
    grain = random.normal(0, 1, ground.picture.shape)
    return np.asarray(np.clip(np.rint(ground.picture + step * grain), 0, 255), np.uint8)


def _shift(ground: Ground, step: float, random: np.random.Generator) -> Pixels:
    right, down = _WAYS[random.integers(len(_WAYS))]
    return shifted(ground.picture, right * int(step), down * int(step))


def _patch(ground: Ground, step: float, random: np.random.Generator) -> Pixels:
    height, width = ground.picture.shape[:2]
    row, column = _place(ground.region, _half(height, width, DAMAGES["patch"].steps[-1]), random)
    half = _half(height, width, step)
    rows = slice(max(0, row - half), row + half)
    columns = slice(max(0, column - half), column + half)
    patched = ground.picture.copy()
    # The other photograph's middle, which tends to be its subject, comes to lie on the middle of the patch.
    foreign = np.roll(covering(ground.other, height, width), (row - height // 2, column - width // 2), (0, 1))
    patched[rows, columns] = foreign[rows, columns]
    return patched


def _half(height: int, width: int, percent: float) -> int:
    """Half the side of a square with this share of the area."""
    return max(1, round(math.sqrt(height * width * percent / 100) / 2))


def _place(region: Region, half: int, random: np.random.Generator) -> tuple[int, int]:
    """Where a patch may lie: well away from the region, and so that the largest one fits into the picture if it can."""
    free = cv2.distanceTransform((~region).astype(np.uint8), cv2.DIST_L2, 3)
    height, width = region.shape
    fits = np.zeros(region.shape, bool)
    fits[min(half, height // 2) : max(height - half, height // 2 + 1)] = True
    fits[:, : min(half, width // 2)] = False
    fits[:, max(width - half, width // 2 + 1) :] = False
    inner = np.where(fits, free, 0)
    rows, columns = np.nonzero(inner >= _FAR * inner.max())
    pick = random.integers(len(rows))
    return int(rows[pick]), int(columns[pick])


def _recompression(ground: Ground, step: float, random: np.random.Generator) -> Pixels:
    return decoded(jpeg(ground.picture, int(step)))


def _halo(ground: Ground, step: float, random: np.random.Generator) -> Pixels:
    region = ground.region.astype(np.uint8)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * HALO_WIDTH + 1, 2 * HALO_WIDTH + 1))
    rim = cv2.dilate(region, kernel) - region
    return np.asarray(np.minimum(ground.picture + np.float32(step) * rim[..., None], 255), np.uint8)


DAMAGES: Mapping[str, Damage] = MappingProxyType(
    {
        "colour_cast": Damage((1.5, 3, 6, 12, 24), "ΔE", _colour_cast),
        "blur": Damage((0.5, 1, 2, 4, 8), "px sigma", _blur),
        "noise": Damage((2, 5, 10, 20, 40), "levels", _noise),
        "shift": Damage((1, 2, 5, 12, 30), "px", _shift),
        "patch": Damage((0.05, 0.3, 1.5, 5, 15), "% of the area", _patch),
        "recompression": Damage((85, 60, 35, 18, 6), "JPEG quality", _recompression),
        "halo": Damage((6, 14, 30, 60, 110), "levels", _halo),
    }
)
