"""Alignments: where the pixels of one image are found in another, and bringing it there.

A matrix (2×3) takes a point of before to its point in after; the centres of pixels are at whole numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from beholder.instruments.model import Bools, Bytes

_ASPECT_TOLERANCE = 0.02

Matrix = npt.NDArray[np.float64]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Alignment:
    """Where the pixels of before are found in after.

    `matrix` (2×3) takes a point of before to its point in after, both in pixels as given, centres of pixels at whole
    numbers. The rest is against the plain resize of after to before's size: details are `scale` times as large,
    turned by `turn` degrees (clockwise), and what was in the middle moved by `shift` pixels of before (to the right,
    downwards). `registered` says that the two were found to show the same; `confidence` is the share of before's detail
    that is found where the alignment says (0–1). `method` is "identity", "stretched" (the plain resize to another
    shape), "moved", or "none" (then it is the plain resize, and `why` has the reason).
    """

    matrix: Matrix
    scale: float = 1.0
    turn: float = 0.0
    shift: tuple[float, float] = (0.0, 0.0)
    registered: bool = False
    confidence: float = 0.0
    method: str = "none"
    why: str = ""

    @property
    def moved(self) -> bool:
        return self.method == "moved"

    @property
    def stretched(self) -> bool:
        """Whether what is shown became wider or higher in shape."""
        return self.registered and stretching(self.matrix)


def same_aspect(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two (width, height) have one shape, within 2 % or the rounding to whole pixels."""
    (w1, h1), (w2, h2) = one, other
    slack = _ASPECT_TOLERANCE
    for short in (min(w1, h1), min(w2, h2)):
        slack += 0.5 / short if 1 < short < 50 else 0
    return abs(math.log((w1 * h2) / (w2 * h1))) <= slack


def resizing(before: tuple[int, ...], after: tuple[int, ...]) -> Matrix:
    """The plain resize, whole area upon whole area, from before's to after's pixels (shapes H×W×…)."""
    sx, sy = after[1] / before[1], after[0] / before[0]
    return np.array([[sx, 0, (sx - 1) / 2], [0, sy, (sy - 1) / 2]])


def laid_over(after: Bytes, alignment: Alignment, shape: tuple[int, int]) -> tuple[Bytes, Bools]:
    """After brought into before's frame of `shape` (H, W), and where it has pixels there."""
    height, width = shape
    if not alignment.moved:
        valid = np.ones(shape, np.bool_)
        if after.shape[:2] == shape:
            return after, valid
        how = cv2.INTER_AREA if after.shape[0] * after.shape[1] > height * width else cv2.INTER_LINEAR
        return np.asarray(cv2.resize(after, (width, height), interpolation=how), np.uint8), valid
    matrix, shrunk = alignment.matrix, math.sqrt(abs(np.linalg.det(alignment.matrix[:, :2])))
    if shrunk > 1.25:  # linear interpolation would skip pixels: by area first, then the rest
        size = max(1, round(after.shape[1] / shrunk)), max(1, round(after.shape[0] / shrunk))
        small = np.asarray(cv2.resize(after, size, interpolation=cv2.INTER_AREA), np.uint8)
        matrix = composed(resizing(after.shape, small.shape), matrix)
        after = small
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    aligned = cv2.warpAffine(after, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(aligned, np.uint8), inside(matrix, shape, after.shape)


def composed(second: Matrix, first: Matrix) -> Matrix:
    """First the one, then the other."""
    return np.asarray((np.vstack([second, [0, 0, 1]]) @ np.vstack([first, [0, 0, 1]]))[:2])


def inside(matrix: Matrix, shape: tuple[int, ...], other: tuple[int, ...]) -> Bools:
    """The pixels of before that have their place inside after."""
    x, y = np.arange(shape[1]), np.arange(shape[0])[:, None]
    (a, b, c), (d, e, f) = matrix
    u, v = a * x + b * y + c, d * x + e * y + f
    slack = 1e-3
    return np.asarray(
        (u >= -slack) & (u <= other[1] - 1 + slack) & (v >= -slack) & (v <= other[0] - 1 + slack), np.bool_
    )


def scale_and_turn(matrix: Matrix, plain: Matrix) -> tuple[float, float]:
    """Of a similarity, with or without the plain resize to another shape before it: its scale against the plain
    resize, and its turn in degrees, clockwise."""
    if stretching(matrix):
        matrix, plain = np.linalg.inv(plain[:, :2]) @ matrix[:, :2], np.eye(2)
    scale = math.sqrt(abs(np.linalg.det(matrix[:, :2])) / abs(np.linalg.det(plain[:, :2])))
    return scale, math.degrees(math.atan2(matrix[1, 0], matrix[0, 0]))


def stretching(matrix: Matrix) -> bool:
    """Whether a matrix scales width and height differently, by more than rounding to whole pixels would."""
    across, down = abs(matrix[0, 0]), abs(matrix[1, 1])
    return bool(abs(across - down) > 0.75 * _ASPECT_TOLERANCE * max(across, down))


def described(full: Matrix, shapes: tuple[tuple[int, ...], tuple[int, ...]], confidence: float) -> Alignment:
    """A move that was found, with its parts told against the plain resize."""
    plain = resizing(*shapes)
    scale, turn = scale_and_turn(full, plain)
    middle = np.array([(shapes[0][1] - 1) / 2, (shapes[0][0] - 1) / 2])
    reach = float(np.hypot(*middle))
    to, still = (matrix[:, :2] @ middle + matrix[:, 2] for matrix in (full, plain))
    shift = (to - still) / np.array([plain[0, 0], plain[1, 1]])
    # A shift by whole pixels is one: interpolating a quarter of a pixel would only blur what can be compared exactly.
    if abs(scale - 1) * reach < 0.5 and abs(math.radians(turn)) * reach < 0.5 and shapes[0] == shapes[1]:
        whole = np.rint(shift)
        if not whole.any():
            return Alignment(plain, registered=True, confidence=confidence, method="identity")
        if np.abs(shift - whole).max() < 0.25:
            shift, scale, turn = whole + 0.0, 1.0, 0.0  # no −0
            full = np.hstack([np.eye(2), whole[:, None]])
    return Alignment(full, scale, turn, (float(shift[0]), float(shift[1])), True, confidence, "moved")
