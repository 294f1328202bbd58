"""Several numbers as one: the least, greatest or mean of them, as it is written in a name, `min(a, b)`.

What people were asked is often answered by two criteria together. The name is kept in a calibration, and the same
number follows from it for a whole column as for one verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

WAYS: dict[str, Callable[..., Floats]] = {"min": np.min, "max": np.max, "mean": np.mean}

_WRITTEN = re.compile(r"\s*(?P<how>[a-z]+)\s*\((?P<parts>[^()]*)\)\s*")


@dataclass(frozen=True, slots=True)
class Combination:
    """`how` is a key of `WAYS`, if it is one that is known; `parts` are names."""

    how: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.how}({', '.join(self.parts)})"

    def of(self, numbers: Sequence[float] | Sequence[Floats]) -> Floats:
        """Of a number, or a column, for each part; nan where one of them is."""
        return np.asarray(WAYS[self.how](np.array(numbers), axis=0))


def combination(name: str) -> Combination | None:
    """What a name says of several numbers; None where it is a plain name."""
    found = _WRITTEN.fullmatch(name)
    if found is None:
        return None
    return Combination(found["how"], tuple(part.strip() for part in found["parts"].split(",")))
