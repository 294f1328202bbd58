"""Fitting a map from measurements to a mean rating: normal scores by knots, and ridge on them in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from beholder.bands import IntervalBand
from beholder.instruments.human_ratings import RatingFeature, RatingMap
from beholder.statistics.calibration_held_out import conformal_bands, conformal_bounds

# Where the knots of a measurement lie among the cases: closer at the ends, where the scores move fastest.
SHARES = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99)

Floats = npt.NDArray[np.float64]
Strings = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is fitted: measurements to the mean rating of an aspect. `curved` maps have a bend for each measurement."""

    name: str
    aspect: str
    features: tuple[str, ...]
    penalty: float
    curved: bool


def fit(recipe: Recipe, values: Floats, ratings: Floats, units: dict[str, str] | None = None) -> RatingMap:
    """The map of all these cases, without an interval."""
    knots = [_knots(column) for column in values.T]
    scores = np.column_stack([_scores(column, at) for column, at in zip(values.T, knots, strict=True)])
    design = _design(scores, recipe.curved)
    middle = design.mean(axis=0)
    centred = design - middle
    gram = centred.T @ centred + recipe.penalty * np.eye(design.shape[1])
    weights = np.linalg.solve(gram, centred.T @ (ratings - ratings.mean()))
    intercept = float(ratings.mean() - middle @ weights)
    count = len(recipe.features)
    curved = weights[count:] if recipe.curved else np.zeros(count)
    features = tuple(
        RatingFeature(name, (units or {}).get(name, ""), tuple(map(tuple, at.tolist())), float(straight), float(bend))
        for name, at, straight, bend in zip(recipe.features, knots, weights[:count], curved, strict=True)
    )
    return RatingMap(recipe.name, intercept, features, 0.0, 0.0)


def apply(fitted: RatingMap, values: Floats) -> Floats:
    """The ratings that the map predicts, unclipped: `Map.rating` for many cases at once."""
    total = np.full(len(values), fitted.intercept)
    for feature, column in zip(fitted.features, values.T, strict=True):
        score = _scores(column, np.array(feature.knots))
        total += feature.linear * score + feature.curved * (score * score - 1) / 2
    return total


def without_source(recipe: Recipe, values: Floats, ratings: Floats, sources: Strings) -> Floats:
    """Each photograph's edits by a map of all the others': cross-validation by source."""
    found = np.empty(len(ratings))
    for source in np.unique(sources):
        out = sources == source
        found[out] = apply(fit(recipe, values[~out], ratings[~out]), values[out])
    return found


def without_model(recipe: Recipe, values: Floats, ratings: Floats, models: Strings) -> Floats:
    """Each model's edits by a map of all the others'; the photographs are the same."""
    return without_source(recipe, values, ratings, models)


def without_both(recipe: Recipe, values: Floats, ratings: Floats, sources: Strings, models: Strings) -> Floats:
    """Each edit by a map that saw neither its photograph nor its model."""
    found = np.empty(len(ratings))
    for source in np.unique(sources):
        for model in np.unique(models[sources == source]):
            out = (sources == source) & (models == model)
            seen = (sources != source) & (models != model)
            found[out] = apply(fit(recipe, values[seen], ratings[seen]), values[out])
    return found


Intervals = tuple[tuple[float, float], tuple[IntervalBand, ...]]


def intervals(unseen: Floats, ratings: Floats, sources: Strings) -> Intervals:
    """What to add to a prediction for the interval that holds 80 % of the ratings, and the same by thirds of the
    prediction, as `beholder calibrate` computes them. `unseen` are predictions of edits of which neither photograph nor
    model was seen: the measurements were chosen on these cases, so that errors on photographs alone are too small."""
    predictions = np.clip(unseen, 0, 1)
    photographs = np.unique(sources, return_inverse=True)[1]
    ends = conformal_bounds(ratings - predictions, photographs) or (-1.0, 1.0)
    return ends, conformal_bands(predictions, ratings, photographs, photographs)


def _knots(column: Floats) -> Floats:
    """Rows of (value, normal score). Shares that fall on one value (many cases have none of something) are one knot,
    with their mean score."""
    at = np.quantile(column, SHARES)
    scores = np.array([NormalDist().inv_cdf(share) for share in SHARES])
    values, place = np.unique(at, return_inverse=True)
    return np.column_stack([values, np.bincount(place, scores) / np.bincount(place)])


def _scores(column: Floats, knots: Floats) -> Floats:
    return np.interp(column, knots[:, 0], knots[:, 1])


def _design(scores: Floats, curved: bool) -> Floats:
    return np.hstack([scores, (scores * scores - 1) / 2]) if curved else scores
