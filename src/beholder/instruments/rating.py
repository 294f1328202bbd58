"""From text measurements to the rating that a person would give, on the scale 1 (unrelated) to 4 (no error).

The numbers are in `weights/description.json`, with the score they had; `benchmarks/alignment/descriptions.py` fits them
on experts' ratings of one-sentence descriptions of photographs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from beholder.instruments.texts import Comparison
from beholder.instruments.textual import MEASURES, Found, measured

FEATURES = ("agreement", "closeness", "scene", "subject", "expected_subject")
LONGEST_FITTED = 60
"""In words: the map was fitted on single sentences, and a longer text is outside of what it knows."""


@dataclass(frozen=True, slots=True)
class Feature:
    """A measurement's part in the map; `mean` and `deviation` are those of the cases it was fitted on."""

    name: str
    weight: float
    mean: float
    deviation: float


@dataclass(frozen=True, slots=True)
class HumanMap:
    """1 + 3 ÷ (1 + e^−s), with s the intercept and, for every feature, its weight times its distance from the mean in
    standard deviations."""

    intercept: float
    features: tuple[Feature, ...]

    def rating(self, values: Mapping[str, float | None]) -> float:
        """1–4. A feature without a value counts as its mean."""
        score = self.intercept
        for feature in self.features:
            value = values[feature.name]
            if value is not None:
                score += feature.weight * (value - feature.mean) / feature.deviation
        return 1 + 3 / (1 + math.exp(-score))


@cache
def fitted() -> HumanMap:
    """The committed map."""
    found = json.loads((Path(__file__).parent / "weights" / "description.json").read_text("utf-8"))
    return HumanMap(found["intercept"], tuple(Feature(**feature) for feature in found["features"]))


@measured("human", unit="1–4", needs="english")
def human(seen: Comparison) -> Found:
    """The rating that a person would give on the scale 1 (unrelated) to 4 (no error), predicted by a map fitted on
    experts' ratings of one-sentence descriptions of photographs; nothing for longer texts."""
    longest = max(len(seen.output.spoken), *(len(reading.spoken) for reading in seen.references))
    if longest > LONGEST_FITTED:
        return f"the map to people's ratings was fitted on single sentences, and here are {longest} words"
    rating = fitted().rating({name: MEASURES[name](seen).value for name in FEATURES})
    return rating, f"People would rate it about {rating:.1f} on the scale 1–4."
