"""From measurements to the rating that people would give: maps fitted on human ratings, kept as readable JSON.

A map takes each of its measurements to a normal score (where it lies among the cases that the map was fitted on, −2.3
to 2.3, by straight lines between knots), and adds up: intercept + Σ linear · z + curved · (z² − 1) / 2. The sum is the
mean human rating, 0–1. `weights/NAME.json` has the numbers, the score they had, and what was tried;
`make alignment` fits and tests them.

The maps were fitted on edits of photographs of 512 px, measured at that size: measure with `Pair.load(side=SIDE)`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from beholder.errors import UsageError
from beholder.instruments.model import Measurement

SIDE = 512
MAPS = {
    "realism": "How real and free of artefacts people find an edited photograph.",
    "kept": "How far people find that an edit did what was asked and kept the rest, given that something was done.",
}


@dataclass(frozen=True, slots=True)
class Feature:
    """A measurement's part in a map. `knots` are (value, z), rising in value; beyond them z stays what it is."""

    name: str
    unit: str
    knots: tuple[tuple[float, float], ...]
    linear: float
    curved: float

    def z(self, value: float) -> float:
        at, scores = zip(*self.knots, strict=True)
        return float(np.interp(value, at, scores))

    def part(self, value: float) -> float:
        """What this value adds to the rating."""
        z = self.z(value)
        return self.linear * z + self.curved * (z * z - 1) / 2


@dataclass(frozen=True, slots=True)
class Map:
    """Features and how they add up. `low` and `high` are what is added to a prediction for the interval that holds
    80 % of the ratings: quantiles of the errors on sources that the map had not seen."""

    name: str
    intercept: float
    features: tuple[Feature, ...]
    low: float
    high: float

    def rating(self, values: Mapping[str, float]) -> float:
        """The unclipped sum."""
        return self.intercept + sum(one.part(values[one.name]) for one in self.features)


@dataclass(frozen=True, slots=True)
class Prediction:
    """The mean rating (0–1) that people would give, with an 80 % interval. `value` and interval are None where a
    measurement is missing, and `sentence` says which and why."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    sentence: str


def predict(name: str, measurements: Mapping[str, Measurement]) -> Prediction:
    """What people would say, from measurements by name (more than needed is fine, fewer is not).

    Raises `UsageError` for a map that there is none of.
    """
    fitted = load(name)
    values: dict[str, float] = {}
    for one in fitted.features:
        found = measurements.get(one.name)
        if found is None or found.value is None:
            why = "was not taken" if found is None else f"has no value: {found.sentence}"
            return Prediction(name, None, None, None, f"Not predicted: {one.name} {why.rstrip('.')}.")
        values[one.name] = found.value
    rating = fitted.rating(values)
    value, low, high = (min(1.0, max(0.0, rating + off)) for off in (0.0, fitted.low, fitted.high))
    says = f"People would rate it about {value:.2f} of 1 ({low:.2f} to {high:.2f}): predicted from measurements."
    return Prediction(name, value, low, high, says)


@cache
def load(name: str) -> Map:
    """The fitted map. Raises `UsageError` for a name that none has."""
    if name not in MAPS:
        raise UsageError(f"There is no map named {name!r}; there are {', '.join(MAPS)}.")
    return read((files("beholder.instruments") / "weights" / f"{name}.json").read_text("utf-8"))


def read(text: str) -> Map:
    """A map from its JSON; what is there beside the numbers (scores, pedigree) is for people."""
    found = json.loads(text)
    features = tuple(
        Feature(one["name"], one["unit"], tuple((v, z) for v, z in one["knots"]), one["linear"], one["curved"])
        for one in found["features"]
    )
    return Map(found["name"], found["intercept"], features, found["interval"]["low"], found["interval"]["high"])
