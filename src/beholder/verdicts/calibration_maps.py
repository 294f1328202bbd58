"""Several numbers as one: the least, greatest or mean of them, as it is written in a name, `min(a, b)`.

What people were asked is often answered by two criteria together. The name is kept in a calibration, and the same
number follows from it for a whole column as for one verdict.

From numbers to the rating that people would give: the maps that a calibration may hold, kept as plain JSON.

A map takes a matrix, cases × numbers, without gaps, and gives a rating for each case on the human scale, which may lie
beyond its ends. What fits them is `statistics.calibration`; here they are read, checked and applied, with NumPy alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import ClassVar, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from beholder.errors import UsageError

_ColumnFloats = npt.NDArray[np.float64]

COMBINERS: dict[str, Callable[..., _ColumnFloats]] = {"min": np.min, "max": np.max, "mean": np.mean}

_COMBINATION_FORM = re.compile(r"\s*(?P<how>[a-z]+)\s*\((?P<parts>[^()]*)\)\s*")


@dataclass(frozen=True, slots=True)
class Combination:
    """`how` is a key of `WAYS`, if it is one that is known; `parts` are names."""

    how: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.how}({', '.join(self.parts)})"

    def of(self, numbers: Sequence[float] | Sequence[_ColumnFloats]) -> _ColumnFloats:
        """Of a number, or a column, for each part; nan where one of them is."""
        return np.asarray(COMBINERS[self.how](np.array(numbers), axis=0))


def parse_combination(name: str) -> Combination | None:
    """What a name says of several numbers; None where it is a plain name."""
    found = _COMBINATION_FORM.fullmatch(name)
    if found is None:
        return None
    return Combination(found["how"], tuple(part.strip() for part in found["parts"].split(",")))


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
T = TypeVar("T")

MAX_TREES = 5_000
LEAF_COLUMN = -1  # in place of a number's place, at the end of a tree

_BLOCK_SIZE = 1 << 20  # cases × trees at a time


@dataclass(frozen=True)
class ConstantMap:
    """The same rating for every case."""

    kind: ClassVar[str] = "constant"
    value: float

    def predict(self, values: Floats) -> Floats:
        return np.full(len(values), self.value)

    def fault(self, width: int) -> str:
        """What is wrong with the map for cases of so many numbers; empty where nothing is."""
        return ""


@dataclass(frozen=True)
class OffsetMap:
    """One number, moved: `shift + slope · number`. The slope only brings it onto the human scale."""

    kind: ClassVar[str] = "offset"
    column: int
    slope: float
    shift: float

    def predict(self, values: Floats) -> Floats:
        return self.shift + self.slope * values[:, self.column]

    def fault(self, width: int) -> str:
        return _column_fault(self.column, width)


@dataclass(frozen=True)
class IsotonicMap:
    """One number by steps that never fall: straight lines between knots `at` → `ratings`, flat beyond them. Cases that
    are tied in the number stay tied."""

    kind: ClassVar[str] = "isotonic"
    column: int
    at: tuple[float, ...]
    ratings: tuple[float, ...]

    def predict(self, values: Floats) -> Floats:
        return np.interp(values[:, self.column], self.at, self.ratings)

    def fault(self, width: int) -> str:
        if not self.at or len(self.at) != len(self.ratings):
            return "it needs as many ratings as knots, and at least one"
        if np.any(np.diff(self.at) <= 0) or np.any(np.diff(self.ratings) < 0):
            return "its knots should rise, and its ratings never fall"
        return _column_fault(self.column, width)


@dataclass(frozen=True)
class LinearMap:
    """`intercept + Σ weight · (number − mean) / scale`."""

    kind: ClassVar[str] = "linear"
    intercept: float
    means: tuple[float, ...]
    scales: tuple[float, ...]
    weights: tuple[float, ...]

    def predict(self, values: Floats) -> Floats:
        standard = (values - np.array(self.means)) / np.array(self.scales)
        said: Floats = self.intercept + standard @ np.array(self.weights)
        return said

    def fault(self, width: int) -> str:
        if {len(self.means), len(self.scales), len(self.weights)} != {width}:
            return f"it needs {width} means, scales and weights"
        return "" if all(one > 0 for one in self.scales) else "its scales should be above 0"


@dataclass(frozen=True)
class CurvedMap:
    """Each number as a normal score z, by straight lines between its knots (number, z) and flat beyond them; then
    `intercept + Σ linear · z + curved · (z² − 1) / 2`. Numbers far out of the ordinary do no harm here."""

    kind: ClassVar[str] = "curved"
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

    def fault(self, width: int) -> str:
        if {len(self.knots), len(self.linear), len(self.curved)} != {width}:
            return f"it needs {width} lists of knots, and as many weights and bends"
        for knots in self.knots:
            if not knots or np.any(np.diff([value for value, _ in knots]) <= 0):
                return "the knots of a number should rise, and there should be one at least"
        return ""


@dataclass(frozen=True)
class DecisionTree:
    """A tree in the order of its nodes, depth first: the left branch of node i is node i + 1, its right one `right[i]`.
    Left is where the number `column[i]` is at most `at[i]`; at a leaf (`column[i]` is −1) `at[i]` is the rating."""

    column: tuple[int, ...]
    at: tuple[float, ...]
    right: tuple[int, ...]

    def fault(self, width: int) -> str:
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


@dataclass(frozen=True)
class TreeEnsembleMap:
    """`base + scale · Σ` of what the trees say: a forest (base 0, scale 1/n) or boosted trees.

    Numbers are compared in single precision, as scikit-learn compares them.
    """

    kind: ClassVar[str] = "trees"
    base: float
    scale: float
    trees: tuple[DecisionTree, ...]

    def predict(self, values: Floats) -> Floats:
        step = max(1, _BLOCK_SIZE // max(1, len(self.trees)))
        blocks = [self._sums(values[start : start + step]) for start in range(0, len(values), step)]
        return self.base + self.scale * (np.concatenate(blocks) if blocks else np.zeros(0))

    def _sums(self, values: Floats) -> Floats:
        columns, at, right, starts = self._nodes
        with np.errstate(over="ignore"):  # a number beyond single precision is as far out as it gets
            numbers = values.astype(np.float32).astype(np.float64)
        here = np.tile(starts, (len(values), 1))
        rows = np.arange(len(values))[:, None]
        while True:
            asked = columns[here]
            inner = asked != LEAF_COLUMN
            if not inner.any():
                said: Floats = at[here].sum(axis=1)
                return said
            left = numbers[rows, np.maximum(asked, 0)] <= at[here]
            here = np.where(inner, np.where(left, here + 1, right[here]), here)

    @cached_property
    def _nodes(self) -> tuple[Ints, Floats, Ints, Ints]:
        """All trees in a row: columns, thresholds or ratings, right branches, and where each tree begins."""
        starts = np.cumsum([0, *(len(one.column) for one in self.trees[:-1])])
        columns = np.concatenate([np.array(one.column, np.int64) for one in self.trees])
        at = np.concatenate([np.array(one.at, np.float64) for one in self.trees])
        right = np.concatenate(
            [np.array(one.right, np.int64) + start for one, start in zip(self.trees, starts, strict=True)]
        )
        return columns, at, right, starts

    def fault(self, width: int) -> str:
        if not 0 < len(self.trees) <= MAX_TREES:
            return f"it needs 1 to {MAX_TREES:,} trees"
        return next((fault for one in self.trees if (fault := one.fault(width))), "")


@dataclass(frozen=True)
class BlendMap:
    """The weighted mean of what several maps say."""

    kind: ClassVar[str] = "blend"
    maps: tuple[SimpleMap, ...]
    weights: tuple[float, ...]

    def predict(self, values: Floats) -> Floats:
        said = np.column_stack([one.predict(values) for one in self.maps])
        weights = np.array(self.weights)
        mean: Floats = said @ (weights / weights.sum())
        return mean

    def fault(self, width: int) -> str:
        if not self.maps or len(self.maps) != len(self.weights) or not all(one > 0 for one in self.weights):
            return "it needs a weight above 0 for each of its maps, and a map at least"
        return next((fault for one in self.maps if (fault := one.fault(width))), "")


@dataclass(frozen=True)
class SnapToEndsMap:
    """A map whose predictions stick to the ends of the human scale: at most `under` becomes `low`, at least `over`
    becomes `high` (None: nothing does). Where nearly everybody gives the lowest rating, cases are tied, and a map that
    puts them into an order of its own would only be further from people."""

    kind: ClassVar[str] = "ends"
    map: SimpleMap | BlendMap
    under: float | None
    over: float | None
    low: float
    high: float

    def predict(self, values: Floats) -> Floats:
        said = self.map.predict(values)
        lowest = said <= (-np.inf if self.under is None else self.under)
        highest = said >= (np.inf if self.over is None else self.over)
        found: Floats = np.where(lowest, self.low, np.where(highest, self.high, said))
        return found

    def fault(self, width: int) -> str:
        return self.map.fault(width) if self.low < self.high else "its low end should be below its high end"


SimpleMap = ConstantMap | OffsetMap | IsotonicMap | LinearMap | CurvedMap | TreeEnsembleMap
CalibrationMap = SimpleMap | BlendMap | SnapToEndsMap
_SIMPLE_MAPS: tuple[type[SimpleMap], ...] = (ConstantMap, OffsetMap, IsotonicMap, LinearMap, CurvedMap, TreeEnsembleMap)


def map_to_dict(one: CalibrationMap) -> dict[str, object]:
    """A map as JSON values; `map_from` gives the very same map back."""
    if isinstance(one, BlendMap):
        return {"kind": one.kind, "maps": [map_to_dict(part) for part in one.maps], "weights": list(one.weights)}
    if isinstance(one, SnapToEndsMap):
        rest = {"under": one.under, "over": one.over, "low": one.low, "high": one.high}
        return {"kind": one.kind, **rest, "map": map_to_dict(one.map)}
    values = _tuples_to_lists(asdict(one))
    assert isinstance(values, dict)
    return {"kind": one.kind, **values}


def _tuples_to_lists(value: object) -> object:
    if isinstance(value, tuple):
        return [_tuples_to_lists(inner) for inner in value]
    return {key: _tuples_to_lists(inner) for key, inner in value.items()} if isinstance(value, dict) else value


def parse_map(values: object, width: int) -> CalibrationMap:
    """The map that JSON values describe, for cases of `width` numbers. Raises `UsageError` where it is none."""
    found = _parse_any_map(values)
    if not all(math.isfinite(number) for number in _iter_numbers(found)):
        raise UsageError(f"The {found.kind} map is wrong: it holds a number that is not finite.")
    if fault := found.fault(width):
        raise UsageError(f"The {found.kind} map is wrong: {fault}.")
    return found


def _parse_any_map(values: object) -> CalibrationMap:
    if isinstance(values, Mapping) and values.get("kind") == SnapToEndsMap.kind:
        rest = _convert({key: one for key, one in values.items() if key not in ("kind", "map")}, _SnapToEndsRecord)
        return SnapToEndsMap(_parse_blend_or_simple(values.get("map")), rest.under, rest.over, rest.low, rest.high)
    return _parse_blend_or_simple(values)


class _SnapToEndsRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    under: float | None
    over: float | None
    low: float
    high: float


def _parse_blend_or_simple(values: object) -> SimpleMap | BlendMap:
    if isinstance(values, Mapping) and values.get("kind") == BlendMap.kind:
        parts = values.get("maps")
        if not isinstance(parts, list):
            raise UsageError("A blend should have a list of `maps`.")
        return BlendMap(
            tuple(_parse_simple_map(one) for one in parts), _convert(values.get("weights"), tuple[float, ...])
        )
    return _parse_simple_map(values)


def _parse_simple_map(values: object) -> SimpleMap:
    if not isinstance(values, Mapping):
        raise UsageError("A map should be an object with a `kind`.")
    kind, rest = values.get("kind"), {key: value for key, value in values.items() if key != "kind"}
    known = {one.kind: one for one in _SIMPLE_MAPS}
    if not isinstance(kind, str) or kind not in known:
        kinds = ", ".join([*known, BlendMap.kind, SnapToEndsMap.kind])
        raise UsageError(f"A map is one of {kinds} (a blend is of the others), not {str(kind)[:40]!r}.")
    names = [one.name for one in fields(known[kind])]
    if strange := sorted(set(map(str, rest)) - set(names)):
        raise UsageError(f"The {kind} map has a key {strange[0][:40]!r} that is not known; it has {', '.join(names)}.")
    return _convert(rest, known[kind])


def _convert(values: object, kind: type[T]) -> T:
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"This is no map: {error}.") from None


def _iter_numbers(value: object) -> Iterator[float]:
    """Every number of a map, however deep."""
    if value is None:
        return
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, tuple):
        for inner in value:
            yield from _iter_numbers(inner)
    else:
        for one in fields(value):  # type: ignore[arg-type]  # what is neither is one of the dataclasses above
            yield from _iter_numbers(getattr(value, one.name))


def _column_fault(column: int, width: int) -> str:
    return "" if 0 <= column < width else "it asks for a number that is not there"
