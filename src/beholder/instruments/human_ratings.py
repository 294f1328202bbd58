"""Predicted human ratings: maps from measurements to the rating that people would give, fitted on human ratings.

A map converts each of its measurements to a normal score (where it lies among the cases that the map was fitted on,
−2.3 to 2.3, by linear interpolation between knots) and adds up: intercept + Σ linear · z + curved · (z² − 1) / 2. The
sum is the mean human rating, 0–1. `weights/NAME.json` has the numbers, the score they had, and what was tried; `make
alignment` fits and tests them.

The maps were fitted on edits of photographs of 512 px, measured at that size: measure with
`ImagePair.load(side=RATING_SIDE)`. They are no instruments, because they measure nothing by themselves;
`predict_pair_ratings` measures a larger pair a second time at that size. `measure_pixel_features` gives the same
measurements as features for a calibration.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import cv2
import numpy as np

from beholder.bands import IntervalBand, rating_interval
from beholder.errors import ImageError, UsageError
from beholder.images.image import ImageSource
from beholder.images.source import read_image
from beholder.instruments.instrument import Bytes, Measurement
from beholder.instruments.pair import ImagePair, shrink_to_side
from beholder.instruments.registry import measure_pair

RATING_SIDE = 512  # px of the longer side
# Apart from the weights, whose digest is part of the identity of the judge `instruments`: its scores have no interval.
INTERVALS_FILE = "rating_intervals.json"
FEATURE_PREFIX = "pixels."
RATING_MAPS = {
    "realism": "How real and free of artefacts people find an edited photograph.",
    "kept": "How far people find that an edit did what was asked and kept the rest, given that something was done.",
}

_MIN_SIDE, _MIN_DETAIL = 64, 0.01  # px; share of the image
_MASK_REFUSED = "Not predicted: the map was fitted on edits without a mask, and does not hold for others."


@dataclass(frozen=True, slots=True)
class RatingFeature:
    """A measurement's part in a map.

    Attributes:
        knots: (value, normal score), rising in value; beyond them the score stays constant.
        linear: The weight of the normal score.
        curved: The weight of its square.
    """

    name: str
    unit: str
    knots: tuple[tuple[float, float], ...]
    linear: float
    curved: float

    def normal_score(self, value: float) -> float:
        knot_values, scores = zip(*self.knots, strict=True)
        return float(np.interp(value, knot_values, scores))

    def contribution(self, value: float) -> float:
        """Return what this value adds to the rating."""
        z = self.normal_score(value)
        return self.linear * z + self.curved * (z * z - 1) / 2


@dataclass(frozen=True, slots=True)
class RatingMap:
    """A fitted map: features and how they add up.

    Attributes:
        low: What is added to a prediction for the lower end of the interval that holds 80 % of the ratings: a conformal
            quantile of errors where neither the photograph nor the model that edited it had been seen.
        high: The same for the upper end.
        bands: The same by the size of the prediction, in its order; without any, `low` and `high` hold for all.
    """

    name: str
    intercept: float
    features: tuple[RatingFeature, ...]
    low: float
    high: float
    bands: tuple[IntervalBand, ...] = ()

    def rating(self, values: Mapping[str, float]) -> float:
        """Return the rating, not clipped to 0–1."""
        return self.intercept + sum(feature.contribution(values[feature.name]) for feature in self.features)

    def interval(self, rating: float) -> tuple[float, float, float]:
        """Return a rating and the ends of its interval, all within 0–1."""
        return rating_interval(rating, (0.0, 1.0), (self.low, self.high), self.bands)


@dataclass(frozen=True, slots=True)
class RatingPrediction:
    """The mean rating (0–1) that people would give, with an 80 % interval.

    All three numbers are None where a measurement is missing; `sentence` then says which, and why.
    """

    name: str
    value: float | None
    low: float | None
    high: float | None
    sentence: str


def predict_rating(name: str, measurements: Mapping[str, Measurement]) -> RatingPrediction:
    """Predict a rating from measurements.

    Args:
        name: A key of `RATING_MAPS`.
        measurements: By name; at least those that the map needs.

    Raises:
        UsageError: There is no map of that name.
    """
    fitted = load_rating_map(name)
    values: dict[str, float] = {}
    for feature in fitted.features:
        measured = measurements.get(feature.name)
        if measured is None or measured.value is None:
            why = "was not taken" if measured is None else f"has no value: {measured.sentence}"
            return RatingPrediction(name, None, None, None, f"Not predicted: {feature.name} {why.rstrip('.')}.")
        values[feature.name] = measured.value
    value, low, high = fitted.interval(fitted.rating(values))
    sentence = f"People would rate it about {value:.2f} of 1 ({low:.2f} to {high:.2f}): predicted from measurements."
    return RatingPrediction(name, value, low, high, sentence)


@cache
def load_rating_map(name: str) -> RatingMap:
    """Load a fitted map.

    Raises:
        UsageError: There is no map of that name.
    """
    if name not in RATING_MAPS:
        raise UsageError(f"There is no map named {name!r}; there are {', '.join(RATING_MAPS)}.")
    folder = files("beholder.instruments")
    fitted = parse_rating_map((folder / "weights" / f"{name}.json").read_text("utf-8"))
    interval = json.loads((folder / INTERVALS_FILE).read_text("utf-8"))[name]
    bands = tuple(IntervalBand(**band) for band in interval["bands"])
    return replace(fitted, low=interval["low"], high=interval["high"], bands=bands)


def parse_rating_map(text: str) -> RatingMap:
    """Parse a map from its JSON, without bands; whatever else the file has (scores, provenance) is ignored."""
    stored = json.loads(text)
    features = tuple(
        RatingFeature(
            feature["name"],
            feature["unit"],
            tuple((v, z) for v, z in feature["knots"]),
            feature["linear"],
            feature["curved"],
        )
        for feature in stored["features"]
    )
    interval = stored["interval"]
    return RatingMap(stored["name"], stored["intercept"], features, interval["low"], interval["high"])


def predict_pair_ratings(pair: ImagePair) -> dict[str, Measurement]:
    """Predict `people.realism` and `people.kept` for a pair: the mean rating, 0–1, that people would give."""
    if reason := _explain_no_rating(pair):
        return {name: Measurement(name, None, "", "higher", reason) for name in map("people.{}".format, RATING_MAPS)}
    small = pair
    if max(*pair.before.shape[:2], *pair.after.shape[:2]) > RATING_SIDE:
        before, after = (shrink_to_side(image, RATING_SIDE) for image in (pair.before, pair.after))
        small = ImagePair(before, after, sizes=pair.sizes)
    names = {feature.name for name in RATING_MAPS for feature in load_rating_map(name).features}
    measured = measure_pair(small, names)
    predictions = {f"people.{name}": predict_rating(name, measured) for name in RATING_MAPS}
    return {
        name: Measurement(name, prediction.value, "", "higher", prediction.sentence)
        for name, prediction in predictions.items()
    }


def _explain_no_rating(pair: ImagePair) -> str:
    """Return why the maps do not apply to a pair, or "": they were fitted on photographs and edits of them."""
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
    """Return the share of the image that is not flat: windows of 11 px at ≤ 256 px that span more than 8 levels."""
    gray = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    scale = min(1.0, 256 / max(gray.shape))
    small = cv2.resize(gray, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    box = np.ones((11, 11), np.uint8)
    return float((cv2.subtract(cv2.dilate(small, box), cv2.erode(small, box)) > 8).mean())


def measure_pixel_features(
    pair: tuple[ImageSource, ImageSource], names: Collection[str] | None = None
) -> tuple[dict[str, float], str]:
    """Measure a pair of image files at 512 px as features for a calibration.

    Args:
        pair: The image before and the image after.
        names: Instruments or families; all unless given.

    Returns:
        The values by `pixels.NAME`, without those that have no meaning for this pair, and ""; or nothing, and why the
            images cannot be measured.

    Raises:
        UsageError: No pair instrument has one of the names.
    """
    try:
        before, after = map(read_image, pair)
        measured = measure_pair(ImagePair.load(before, after, side=RATING_SIDE), names)
    except ImageError as error:
        return {}, str(error)
    return {
        f"{FEATURE_PREFIX}{name}": measurement.value
        for name, measurement in measured.items()
        if measurement.value is not None
    }, ""
