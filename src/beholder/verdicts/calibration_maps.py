"""The maps of a calibration: from the numbers of a verdict to the rating that people would give.

A map takes a matrix, cases × numbers, without missing values, and returns a rating for each case on the human scale,
which may lie beyond its ends. `statistics.calibration` fits maps; here they are parsed, checked and applied, with NumPy
alone. A combination such as `min(a, b)` makes one number of several, since what people were asked is often answered by
two criteria together.

Import this module late: it loads NumPy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from beholder.errors import UsageError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

COMBINERS: dict[str, Callable[..., Floats]] = {"min": np.min, "max": np.max, "mean": np.mean}

_COMBINATION_FORM = re.compile(r"\s*(?P<how>[a-z]+)\s*\((?P<parts>[^()]*)\)\s*")


@dataclass(frozen=True, slots=True)
class Combination:
    """Several numbers combined into one. `how` should be a key of `COMBINERS`; `parts` are names of numbers."""

    how: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.how}({', '.join(self.parts)})"

    def combine(self, numbers: Sequence[float] | Sequence[Floats]) -> Floats:
        """Combine a number, or a column of numbers, for each part; NaN where one of them is NaN."""
        return np.asarray(COMBINERS[self.how](np.array(numbers), axis=0))


def parse_combination(name: str) -> Combination | None:
    """Return the combination that a name such as `min(a, b)` stands for; `None` for a plain name."""
    match = _COMBINATION_FORM.fullmatch(name)
    if match is None:
        return None
    return Combination(match["how"], tuple(part.strip() for part in match["parts"].split(",")))


MAX_TREES = 5_000
LEAF_COLUMN = -1  # the column of a leaf of a tree

_BLOCK_SIZE = 1 << 15  # cases × trees at a time, so that they stay in the processor's cache


class _MapStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind"):
    """The base of all maps. In a file a map is an object with its `kind` and its fields, in their order here."""

    def predict(self, values: Floats) -> Floats:
        """Return a rating for each row of a matrix, cases × numbers."""
        raise NotImplementedError

    def find_fault(self, width: int) -> str:
        """Return what is wrong with the map for cases of `width` numbers; empty where nothing is."""
        raise NotImplementedError


class ConstantMap(_MapStruct, frozen=True, tag="constant"):
    """The same rating for every case."""

    value: float

    def predict(self, values: Floats) -> Floats:
        return np.full(len(values), self.value)

    def find_fault(self, width: int) -> str:
        return ""


class OffsetMap(_MapStruct, frozen=True, tag="offset"):
    """One number, shifted: `shift + slope · number`. The slope only brings it onto the human scale."""

    column: int
    slope: float
    shift: float

    def predict(self, values: Floats) -> Floats:
        return self.shift + self.slope * values[:, self.column]

    def find_fault(self, width: int) -> str:
        return _column_fault(self.column, width)


class IsotonicMap(_MapStruct, frozen=True, tag="isotonic"):
    """Isotonic regression of one number: straight lines between the knots `at` → `ratings`, flat beyond them. Cases
    that are tied in the number stay tied."""

    column: int
    at: tuple[float, ...]
    ratings: tuple[float, ...]

    def predict(self, values: Floats) -> Floats:
        return np.interp(values[:, self.column], self.at, self.ratings)

    def find_fault(self, width: int) -> str:
        if not self.at or len(self.at) != len(self.ratings):
            return "it needs as many ratings as knots, and at least one"
        if np.any(np.diff(self.at) <= 0) or np.any(np.diff(self.ratings) < 0):
            return "its knots should rise, and its ratings never fall"
        return _column_fault(self.column, width)


class LinearMap(_MapStruct, frozen=True, tag="linear"):
    """`intercept + Σ weight · (number − mean) / scale`."""

    intercept: float
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]

    def predict(self, values: Floats) -> Floats:
        standard = (values - np.array(self.means)) / np.array(self.scales)
        ratings: Floats = self.intercept + standard @ np.array(self.weights)
        return ratings

    def find_fault(self, width: int) -> str:
        if {len(self.means), len(self.scales), len(self.weights)} != {width}:
            return f"it needs {width} means, scales and weights"
        return "" if all(scale > 0 for scale in self.scales) else "its scales should be above 0"


class CurvedMap(_MapStruct, frozen=True, tag="curved"):
    """Each number as a normal score z, by straight lines between its knots (number, z) and flat beyond them; then
    `intercept + Σ linear · z + curved · (z² − 1) / 2`. Outliers do no harm here."""

    intercept: float
    knots: tuple[tuple[tuple[float, float], ...], ...]
    linear: tuple[float, ...]
    curved: tuple[float, ...]

    def predict(self, values: Floats) -> Floats:
        total = np.full(len(values), self.intercept)
        for column, knots, straight, bend in zip(values.T, self.knots, self.linear, self.curved, strict=True):
            at = np.array(knots)
            score = np.interp(column, at[:, 0], at[:, 1])
            total += straight * score + bend * (score * score - 1) / 2
        return total

    def find_fault(self, width: int) -> str:
        if {len(self.knots), len(self.linear), len(self.curved)} != {width}:
            return f"it needs {width} lists of knots, and as many weights and bends"
        for knots in self.knots:
            if not knots or np.any(np.diff([value for value, _ in knots]) <= 0):
                return "the knots of a number should rise, and there should be one at least"
        return ""


class DecisionTree(msgspec.Struct, frozen=True):
    """A tree in the order of its nodes, depth first: the left branch of node i is node i + 1, its right one `right[i]`.
    Left is where the number `column[i]` is at most `at[i]`; at a leaf (`column[i]` is −1) `at[i]` is the rating."""

    column: tuple[int, ...]
    at: tuple[float, ...]
    right: tuple[int, ...]

    def find_fault(self, width: int) -> str:
        count = len(self.column)
        if not count or len(self.at) != count or len(self.right) != count:
            return "the lists of a tree should be of one length, and not empty"
        column, right, here = np.array(self.column), np.array(self.right), np.arange(count)
        inner = column != LEAF_COLUMN
        if np.any((column < LEAF_COLUMN) | (column >= width)):
            return "a tree asks for a number that is not there"
        if np.any(inner & ((right <= here + 1) | (right >= count))):
            return "the branches of a tree should lead on in it"
        return ""


class TreeEnsembleMap(_MapStruct, frozen=True, dict=True, tag="trees"):  # dict: for the cached property
    """`base + scale · Σ` of what the trees predict: a forest (base 0, scale 1/n) or boosted trees.

    Numbers are compared in single precision, as scikit-learn compares them.
    """

    base: float
    scale: float
    trees: tuple[DecisionTree, ...]

    def predict(self, values: Floats) -> Floats:
        step = max(1, _BLOCK_SIZE // max(1, len(self.trees)))
        blocks = [self._sums(values[start : start + step]) for start in range(0, len(values), step)]
        return self.base + self.scale * (np.concatenate(blocks) if blocks else np.zeros(0))

    def _sums(self, values: Floats) -> Floats:
        columns, at, right, starts = self._nodes
        with np.errstate(over="ignore"):  # a number beyond single precision becomes infinite, which compares rightly
            numbers = values.astype(np.float32).astype(np.float64).ravel()
        leaves = np.tile(starts, len(values))
        way = np.flatnonzero(columns[leaves] != LEAF_COLUMN)  # the pairs of case and tree that are not at a leaf yet
        row = way // len(starts) * values.shape[1]
        node = leaves[way]
        while len(way):
            left = numbers.take(row + columns.take(node)) <= at.take(node)
            node = np.where(left, node + 1, right.take(node))
            inner = columns.take(node) != LEAF_COLUMN
            leaves[way[~inner]] = node[~inner]
            way, row, node = way[inner], row[inner], node[inner]
        sums: Floats = at[leaves].reshape(len(values), -1).sum(axis=1)
        return sums

    @cached_property
    def _nodes(self) -> tuple[Ints, Floats, Ints, Ints]:
        """All trees concatenated: columns, thresholds or ratings, right branches, and where each tree begins."""
        starts = np.cumsum([0, *(len(tree.column) for tree in self.trees[:-1])])
        columns = np.concatenate([np.array(tree.column, np.int64) for tree in self.trees])
        at = np.concatenate([np.array(tree.at, np.float64) for tree in self.trees])
        right = np.concatenate(
            [np.array(tree.right, np.int64) + start for tree, start in zip(self.trees, starts, strict=True)]
        )
        return columns, at, right, starts

    def find_fault(self, width: int) -> str:
        if not 0 < len(self.trees) <= MAX_TREES:
            return f"it needs 1 to {MAX_TREES:,} trees"
        return next((fault for tree in self.trees if (fault := tree.find_fault(width))), "")


SimpleMap = ConstantMap | OffsetMap | IsotonicMap | LinearMap | CurvedMap | TreeEnsembleMap


class BlendMap(_MapStruct, frozen=True, tag="blend"):
    """The weighted mean of what several maps predict."""

    maps: tuple[SimpleMap, ...]
    weights: tuple[float, ...]

    def predict(self, values: Floats) -> Floats:
        ratings = np.column_stack([part.predict(values) for part in self.maps])
        weights = np.array(self.weights)
        mean: Floats = ratings @ (weights / weights.sum())
        return mean

    def find_fault(self, width: int) -> str:
        if not self.maps or len(self.maps) != len(self.weights) or not all(weight > 0 for weight in self.weights):
            return "it needs a weight above 0 for each of its maps, and a map at least"
        return next((fault for part in self.maps if (fault := part.find_fault(width))), "")


class SnapToEndsMap(_MapStruct, frozen=True, tag="ends"):
    """A map whose predictions snap to the ends of the human scale: at most `under` becomes `low`, at least `over`
    becomes `high` (None: nothing does). Where nearly everybody gives the lowest rating, cases are tied, and a map that
    puts them into an order of its own would only be further from people."""

    under: float | None
    over: float | None
    low: float
    high: float
    map: SimpleMap | BlendMap

    def predict(self, values: Floats) -> Floats:
        ratings = self.map.predict(values)
        lowest = ratings <= (-np.inf if self.under is None else self.under)
        highest = ratings >= (np.inf if self.over is None else self.over)
        snapped: Floats = np.where(lowest, self.low, np.where(highest, self.high, ratings))
        return snapped

    def find_fault(self, width: int) -> str:
        return self.map.find_fault(width) if self.low < self.high else "its low end should be below its high end"


CalibrationMap = SimpleMap | BlendMap | SnapToEndsMap
msgspec.json.Decoder(CalibrationMap)  # prepared, see rubrics/rubric.py


def map_to_dict(map_: CalibrationMap) -> dict[str, Any]:
    """Return a map as JSON values; `parse_map` gives the same map back."""
    values: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(map_))  # to_builtins would keep tuples
    return values


def parse_map(values: object, width: int) -> CalibrationMap:
    """Return the map that JSON values describe.

    Args:
        values: What `map_to_dict` returned; may come from an untrusted file.
        width: The number of numbers that the map gets for each case.

    Raises:
        UsageError: When the values describe no map, or one that cannot be applied.
    """
    try:
        map_: CalibrationMap = msgspec.convert(values, CalibrationMap)
    except msgspec.ValidationError as error:
        kinds = "constant, offset, isotonic, linear, curved, trees, blend, ends"
        raise UsageError(
            f"This is no map: {str(error)[:200]}. A map is one of {kinds} (a blend is of the others)."
        ) from None
    fault = map_.find_fault(width)
    try:
        json.dumps(msgspec.to_builtins(map_), allow_nan=False)
    except ValueError:
        fault = "it holds a number that is not finite"
    if fault:
        raise UsageError(f"The {map_.__struct_config__.tag} map is wrong: {fault}.")
    return map_


def _column_fault(column: int, width: int) -> str:
    return "" if 0 <= column < width else "it asks for a number that is not there"
