"""From measurements to the rating that people would give: maps fitted on human ratings, kept as readable JSON.

A map takes each of its measurements to a normal score (where it lies among the cases that the map was fitted on, −2.3
to 2.3, by straight lines between knots), and adds up: intercept + Σ linear · z + curved · (z² − 1) / 2. The sum is the
mean human rating, 0–1. `weights/NAME.json` has the numbers, the score they had, and what was tried;
`make alignment` fits and tests them.

The maps were fitted on edits of photographs of 512 px, measured at that size: measure with `Pair.load(side=SIDE)`.

What people would say of an edit: the fitted maps (`aligning`), as measurements of a pair.

They are no instruments: they measure nothing by themselves, and take a second look at the pair in the size that the
maps were fitted on.

What the pair instruments say of two images as plain numbers: features for a calibration.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import cv2
import numpy as np

from beholder.errors import ImageError, UsageError
from beholder.images.image import ImageSource
from beholder.images.source import read_image
from beholder.instruments.instrument import Bytes, Measurement
from beholder.instruments.pair import ImagePair, shrink_to_side
from beholder.instruments.registry import measure_pair

RATING_SIDE = 512
RATING_MAPS = {
    "realism": "How real and free of artefacts people find an edited photograph.",
    "kept": "How far people find that an edit did what was asked and kept the rest, given that something was done.",
}


@dataclass(frozen=True, slots=True)
class RatingFeature:
    """A measurement's part in a map. `knots` are (value, z), rising in value; beyond them z stays what it is."""

    name: str
    unit: str
    knots: tuple[tuple[float, float], ...]
    linear: float
    curved: float

    def normal_score(self, value: float) -> float:
        at, scores = zip(*self.knots, strict=True)
        return float(np.interp(value, at, scores))

    def contribution(self, value: float) -> float:
        """What this value adds to the rating."""
        z = self.normal_score(value)
        return self.linear * z + self.curved * (z * z - 1) / 2


@dataclass(frozen=True, slots=True)
class RatingMap:
    """Features and how they add up. `low` and `high` are what is added to a prediction for the interval that holds
    80 % of the ratings: quantiles of the errors on sources that the map had not seen."""

    name: str
    intercept: float
    features: tuple[RatingFeature, ...]
    low: float
    high: float

    def rating(self, values: Mapping[str, float]) -> float:
        """The unclipped sum."""
        return self.intercept + sum(one.contribution(values[one.name]) for one in self.features)


@dataclass(frozen=True, slots=True)
class RatingPrediction:
    """The mean rating (0–1) that people would give, with an 80 % interval. `value` and interval are None where a
    measurement is missing, and `sentence` says which and why."""

    name: str
    value: float | None
    low: float | None
    high: float | None
    sentence: str


def predict_rating(name: str, measurements: Mapping[str, Measurement]) -> RatingPrediction:
    """What people would say, from measurements by name (more than needed is fine, fewer is not).

    Raises `UsageError` for a map that there is none of.
    """
    fitted = load_rating_map(name)
    values: dict[str, float] = {}
    for one in fitted.features:
        found = measurements.get(one.name)
        if found is None or found.value is None:
            why = "was not taken" if found is None else f"has no value: {found.sentence}"
            return RatingPrediction(name, None, None, None, f"Not predicted: {one.name} {why.rstrip('.')}.")
        values[one.name] = found.value
    rating = fitted.rating(values)
    value, low, high = (min(1.0, max(0.0, rating + off)) for off in (0.0, fitted.low, fitted.high))
    says = f"People would rate it about {value:.2f} of 1 ({low:.2f} to {high:.2f}): predicted from measurements."
    return RatingPrediction(name, value, low, high, says)


@cache
def load_rating_map(name: str) -> RatingMap:
    """The fitted map. Raises `UsageError` for a name that none has."""
    if name not in RATING_MAPS:
        raise UsageError(f"There is no map named {name!r}; there are {', '.join(RATING_MAPS)}.")
    return parse_rating_map((files("beholder.instruments") / "weights" / f"{name}.json").read_text("utf-8"))


def parse_rating_map(text: str) -> RatingMap:
    """A map from its JSON; what is there beside the numbers (scores, pedigree) is for people."""
    found = json.loads(text)
    features = tuple(
        RatingFeature(one["name"], one["unit"], tuple((v, z) for v, z in one["knots"]), one["linear"], one["curved"])
        for one in found["features"]
    )
    return RatingMap(found["name"], found["intercept"], features, found["interval"]["low"], found["interval"]["high"])


_MIN_SIDE, _MIN_DETAIL = 64, 0.01  # px; share of the image
_MASK_REFUSED = "Not predicted: the map was fitted on edits without a mask, and does not hold for others."


def predict_pair_ratings(pair: ImagePair) -> dict[str, Measurement]:
    """`people.realism` and `people.kept`: the mean rating, 0–1, that people would give."""
    if why := _explain_no_rating(pair):
        return {name: Measurement(name, None, "", "higher", why) for name in map("people.{}".format, RATING_MAPS)}
    small = ImagePair(*(shrink_to_side(one, RATING_SIDE) for one in (pair.before, pair.after)), sizes=pair.sizes)
    names = {one.name for name in RATING_MAPS for one in load_rating_map(name).features}
    measured = measure_pair(small, names)
    found: dict[str, Measurement] = {}
    for name in RATING_MAPS:
        said = predict_rating(name, measured)
        found[f"people.{name}"] = Measurement(f"people.{name}", said.value, "", "higher", said.sentence)
    return found


def _explain_no_rating(pair: ImagePair) -> str:
    """Why the maps do not hold for a pair: they know photographs and edits of them, and take black for calm."""
    if pair.mask is not None:
        return _MASK_REFUSED
    for which, image in (("before", pair.before), ("after", pair.after)):
        height, width = image.shape[:2]
        if min(height, width) < _MIN_SIDE:
            return f"Not predicted: the image {which} is too small ({width}×{height} px)."
        if _measure_detail(image) < _MIN_DETAIL:
            return f"Not predicted: the image {which} has no detail that people could find real."
    if pair.identical:
        return "Not predicted: the images are identical, and there is no edit that people could rate."
    if pair.incomparable_reason:
        return f"Not predicted: {pair.incomparable_reason}."
    if not pair.alignment.registered:
        return f"Not predicted: the images could not be registered ({pair.alignment.reason})."
    return ""


def _measure_detail(image: Bytes) -> float:
    """The share of the image that is not flat: windows of 11 px at ≤ 256 px that span more than 8 levels."""
    grey = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    scale = min(1.0, 256 / max(grey.shape))
    small = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    box = np.ones((11, 11), np.uint8)
    return float((cv2.subtract(cv2.dilate(small, box), cv2.erode(small, box)) > 8).mean())


FEATURE_PREFIX = "pixels."


def measure_pixel_features(
    pair: tuple[ImageSource, ImageSource], names: Collection[str] | None = None
) -> tuple[dict[str, float], str]:
    """By `pixels.NAME` what can be measured of an image before and after (paths or bytes), at 512 px, and nothing; or
    nothing, and why. `names` are instruments or families; all of them unless given. What has no meaning for a pair is
    left out. Raises `UsageError` for a name that no pair instrument has."""
    try:
        before, after = map(read_image, pair)
        found = measure_pair(ImagePair.load(before, after, side=RATING_SIDE), names)
    except ImageError as error:
        return {}, str(error)
    return {f"{FEATURE_PREFIX}{name}": one.value for name, one in found.items() if one.value is not None}, ""
