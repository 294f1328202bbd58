"""Names of places in an image: "upper left", "along the right edge", "everywhere".

The image is divided into thirds; a narrower band along the border is its edge. Names are made for sentences: "31 % of
the pixels differ, mostly upper left".
"""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from beholder.instruments.model import Array

NOWHERE, EVERYWHERE, SCATTERED = "nowhere", "everywhere", "in several places"

_CELLS = (
    ("upper left", "top", "upper right"),
    ("left", "centre", "right"),
    ("lower left", "bottom", "lower right"),
)
_GRID = 48  # the weights are summed in a grid of so many by so many cells
_EDGE = 6  # cells: an eighth of the side
_COMPACT = 0.2  # standard deviation in shares of the side; weight that is all over the image has 0.29
_EVEN = 0.4  # of the mean, what each ninth of the image must have at least where the weight is "everywhere"


def place(weight: Array) -> str:
    """Where in the image the weight lies (H×W, bool or not negative).

    Every ninth of the image with at least 40 % of the mean: "everywhere". Nearly all in a border of an eighth of the
    side: "along the right edge", "around the edges". Else by its middle, in thirds: "upper left" … "centre" … "lower
    right"; what is long lies "across the top" or "down the middle"; what has no one place is "in several places". No
    weight at all is "nowhere".
    """
    cells = _summed(weight)
    total = cells.sum()
    if total <= 0:
        return NOWHERE
    cells /= total
    ninths = cells.reshape(3, _GRID // 3, 3, _GRID // 3).sum(axis=(1, 3))
    if ninths.min() * 9 >= _EVEN:
        return EVERYWHERE
    along_x, along_y = cells.sum(axis=0), cells.sum(axis=1)
    return _edge(cells, along_x, along_y) or _middle(along_x, along_y, ninths)


def mostly(where: str) -> str:
    """The place as the end of a sentence: "mostly upper left", but "everywhere"."""
    return where if where in (NOWHERE, EVERYWHERE, SCATTERED) else f"mostly {where}"


def _summed(weight: Array) -> npt.NDArray[np.float64]:
    values = weight.astype(np.float32)
    if min(values.shape) < _GRID:
        size = max(_GRID, values.shape[1]), max(_GRID, values.shape[0])
        values = np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_NEAREST), np.float32)
    # By a whole number first, ten times as fast; the last rows and columns that this leaves out are under one cell.
    times = min(values.shape) // (2 * _GRID)
    if times > 1:
        height, width = (side // times for side in values.shape)
        values = values[: height * times, : width * times]
        values = np.asarray(cv2.resize(values, (width, height), interpolation=cv2.INTER_AREA), np.float32)
    return np.asarray(cv2.resize(values, (_GRID, _GRID), interpolation=cv2.INTER_AREA), np.float64)


def _edge(cells: Array, along_x: Array, along_y: Array) -> str:
    bands = {
        "left": (along_x[:_EDGE].sum(), cells[:, :_EDGE].sum(axis=1)),
        "right": (along_x[-_EDGE:].sum(), cells[:, -_EDGE:].sum(axis=1)),
        "top": (along_y[:_EDGE].sum(), cells[:_EDGE].sum(axis=0)),
        "bottom": (along_y[-_EDGE:].sum(), cells[-_EDGE:].sum(axis=0)),
    }
    name, (share, along) = max(bands.items(), key=lambda band: float(band[1][0]))
    if share >= 0.75 and _spread(along) > _COMPACT:
        return f"along the {name} edge"
    inner = cells[_EDGE:-_EDGE, _EDGE:-_EDGE].sum()
    around = all(share > 0.1 and _spread(along) > _COMPACT for share, along in bands.values())
    return "around the edges" if inner < 0.2 and around else ""


def _middle(along_x: Array, along_y: Array, ninths: Array) -> str:
    at = (np.arange(_GRID) + 0.5) / _GRID
    column, row = (min(2, int(3 * float((along * at).sum()))) for along in (along_x, along_y))
    wide, high = _spread(along_x) > _COMPACT, _spread(along_y) > _COMPACT
    if not wide and not high:
        return _CELLS[row][column]
    if wide and not high:
        return ("across the top", "across the middle", "across the bottom")[row]
    if high and not wide:
        return ("down the left side", "down the middle", "down the right side")[column]
    best = int(ninths.argmax())
    return _CELLS[best // 3][best % 3] if ninths.max() >= 0.6 else SCATTERED


def _spread(along: Array) -> float:
    at = (np.arange(_GRID) + 0.5) / _GRID
    total = max(float(along.sum()), 1e-12)
    middle = float((along * at).sum()) / total
    return float(np.sqrt(max(float((along * (at - middle) ** 2).sum()) / total, 0)))
