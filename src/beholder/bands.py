"""Intervals of predicted ratings by the size of the prediction, as calibrations and shipped maps have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IntervalBand:
    """The interval of predictions in one band.

    Attributes:
        up_to: The largest prediction of the band; `None` for the last band, which has no end.
        low: What is added to a prediction for the lower end of its interval; `high` for the upper end.
        covered: The share of ratings that such intervals covered, of cases they were not computed on.
        cases: The number of cases in the band.
    """

    up_to: float | None
    low: float
    high: float
    covered: float
    cases: int


def rating_interval(
    prediction: float, scale: tuple[float, float], errors: tuple[float, float], bands: Sequence[IntervalBand]
) -> tuple[float, float, float]:
    """Return the predicted rating and the ends of its interval, all within the scale.

    The interval is that around the rating, not around a prediction beyond the scale.

    Args:
        prediction: The rating, which may lie beyond the scale.
        scale: The lowest and the highest rating.
        errors: What is added for the two ends where there are no bands.
        bands: Intervals by the size of the prediction, in its order.
    """
    lowest, highest = scale
    value = min(max(prediction, lowest), highest)
    band = next((band for band in bands if band.up_to is None or value <= band.up_to), None)
    low, high = errors if band is None else (band.low, band.high)
    return value, min(max(value + low, lowest), value), max(min(value + high, highest), value)
