"""Predictions of held-out cases: how they are made, put into one order, finished, and surrounded by intervals.

Each case is predicted by a map that saw neither its photograph nor, where makers are divided too, its maker. Maps of
different folds are different maps. Without a fold of high ratings the others' mean is lower, so that predictions pooled
over folds are correlated negatively with people even of a judge that knows nothing (ρ −.11 to −.29). Therefore ρ is of
`HeldOutPredictions.positions`: where each prediction stands among what the very same map says of all cases.

A map is finished by what held-out predictions say of it (`MapFinish`): how far it leans towards the judge's own number,
and from where on it predicts an end of the human scale.

The interval of a calibrated score is conformal: the errors of unseen cases stand for the error of the next case, which
itself takes a place among them. Plain quantiles leave out that place, and cover 71 % instead of 80 % with ten cases.
Cases of one group have similar errors, and the next case is of a new group, so that it is groups that have places, each
shared by its cases (Lee, Barber and Willett 2023). It is computed for each third of the predictions by itself, since
errors are larger where edits succeed: one interval for all would cover half of the ratings there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beholder.bands import IntervalBand
from beholder.statistics.calibration_recipes import CalibrationRecipe, cross_folds, pool_adjacent_violators
from beholder.statistics.calibration_task import CalibrationTask, fit_map
from beholder.statistics.data import Bools, Floats, Ints
from beholder.verdicts.calibration_maps import BlendMap, CalibrationMap, SnapToEndsMap

MAX_REFERENCE_CASES = 1000  # among which a prediction has its position; more change nothing
DECIMALS = 10  # of predictions that are compared: the same case may differ in the last bit from one batch to the next
END_SHARE = 0.75  # share of similar cases that must have been rated with an end of the scale to predict it
INTERVAL_COVERAGE = 0.8  # of the cases: the share whose mean rating lies within the interval of a calibrated score
BAND_COUNT = 3
# Simulated (150 times each, six cases per group, errors alike in all bands, or up to two or four times as large at the
# upper end): from 10 groups on, intervals by bands are nearer to 80 % than one for all, also where errors are alike. A
# band of 9 groups covers 95 %, of 12 89 %, of 15 87 %, of 25 84 %, of 50 82 %. Of 12 groups, nine or more are mostly
# left without one of ten folds, so that the coverage can be measured.
MIN_BAND_GROUPS = 12
_SHARE_TOLERANCE = 1e-9  # what may be lacking where shares are added up


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutPredictions:
    """What maps say of cases that they have not seen.

    Attributes:
        values: The prediction of each case; nan where there is none.
        cell: Which map it is by; −1 where there is none.
        reference: What each map says of the reference cases: maps × cases.
    """

    values: Floats
    cell: Ints
    reference: Floats

    def positions(self, scale: tuple[float, float]) -> Floats:
        """Return where each prediction stands among what the same map says of the reference cases, 0 to 1.

        All are 0.5 where a map says the same of all cases. A map that keeps the judge's order gives the judge's order.
        What is predicted to be exactly an end of the scale is tied, whichever map says so.
        """
        found = np.full(len(self.values), np.nan)
        for number, row in enumerate(np.sort(np.round(self.reference, DECIMALS), axis=1)):
            here = self.cell == number
            said = np.round(self.values[here], DECIMALS)
            found[here] = (np.searchsorted(row, said) + np.searchsorted(row, said, "right")) / (2 * len(row))
        return np.where(self.values == scale[0], 0.0, np.where(self.values == scale[1], 1.0, found))


def predict_out_of_fold(
    task: CalibrationTask, recipe: CalibrationRecipe, *folds: Ints, rows: Bools | None = None
) -> HeldOutPredictions:
    """Predict each case by a map that was fitted without its fold.

    Args:
        task: The task.
        recipe: How maps are fitted.
        folds: One or more divisions of the cases (by photograph, by maker); a map sees none of any fold of the case.
        rows: Use only these cases.

    Returns:
        Predictions, which may lie beyond the human scale; none for cases not in `rows`, and where nothing is left to
        learn from.
    """
    count = len(task.cases)
    within = np.ones(count, np.bool_) if rows is None else rows
    known = np.flatnonzero(within)
    asked = task.features.select(
        known[np.linspace(0, len(known) - 1, min(len(known), MAX_REFERENCE_CASES)).astype(int)]
    )
    values, cell = np.full(count, np.nan), np.full(count, -1, np.int64)
    reference: list[Floats] = []
    cells = cross_folds(*folds)
    for number in np.unique(cells[within]):
        out = within & (cells == number)
        first = int(out.argmax())
        seen = within & np.logical_and.reduce([fold != fold[first] for fold in folds])
        if seen.any():
            fitted = fit_map(task, recipe, seen)
            values[out], cell[out] = fitted.predict(task.features.select(out)), len(reference)
            reference.append(fitted.predict(asked))
    return HeldOutPredictions(values, cell, np.array(reference).reshape(len(reference), len(asked.values)))


@dataclass(frozen=True, slots=True)
class MapFinish:
    """What is done to a fitted map.

    Attributes:
        weight: Its weight in the mean with the line through the judge's own number; 1 for the map alone.
        snaps: Whether it predicts an end of the human scale where most similar cases were rated exactly that by
            everybody, so that it keeps the ties that people have there.
    """

    weight: float = 1.0
    snaps: bool = False

    def predictions(
        self, task: CalibrationTask, map_: HeldOutPredictions, line: HeldOutPredictions, fold: Ints
    ) -> HeldOutPredictions:
        """Finish held-out predictions; for each fold the ends are found on the others."""
        mixed = self._mix(map_, line)
        if not self.snaps or not np.isin(task.mean, task.scale).any():
            return mixed
        values, reference = mixed.values.copy(), mixed.reference.copy()
        for number in np.unique(fold):
            here = (fold == number) & (mixed.cell >= 0)
            others = (fold != number) & (mixed.cell >= 0)
            ends = find_ends(mixed.values[others], task.mean[others], task.scale)
            cells = np.unique(mixed.cell[here])
            values[here], reference[cells] = snap(values[here], ends, task), snap(reference[cells], ends, task)
        return HeldOutPredictions(values, mixed.cell, reference)

    def apply(
        self,
        task: CalibrationTask,
        maps: tuple[CalibrationMap, CalibrationMap],
        held_out: tuple[HeldOutPredictions, HeldOutPredictions],
    ) -> CalibrationMap:
        """Return the finished map.

        Args:
            task: The task.
            maps: The map of all cases and the line of all cases.
            held_out: What such maps said of cases that they had not seen.
        """
        map_, line = maps
        if self.weight < 1:
            parts = map_.maps if isinstance(map_, BlendMap) else (map_,)
            shares = map_.weights if isinstance(map_, BlendMap) else (1.0,)
            mapped = tuple(self.weight * share / sum(shares) for share in shares)
            assert not any(isinstance(part, BlendMap | SnapToEndsMap) for part in (*parts, line))
            map_ = BlendMap((*parts, line), (*mapped, 1 - self.weight))  # type: ignore[arg-type]  # as asserted
        if not self.snaps:
            return map_
        mixed = self._mix(*held_out).values
        known = ~np.isnan(mixed)
        ends = find_ends(mixed[known], task.mean[known], task.scale)
        assert not isinstance(map_, SnapToEndsMap)
        return map_ if ends == (None, None) else SnapToEndsMap(*ends, *task.scale, map_)

    def _mix(self, map_: HeldOutPredictions, line: HeldOutPredictions) -> HeldOutPredictions:
        if self.weight == 1:
            return map_
        w = self.weight
        return HeldOutPredictions(
            w * map_.values + (1 - w) * line.values, map_.cell, w * map_.reference + (1 - w) * line.reference
        )


def snap(values: Floats, ends: tuple[float | None, float | None], task: CalibrationTask) -> Floats:
    """Return predictions, at the ends of the human scale beyond the thresholds `ends`."""
    (under, over), (low, high) = ends, task.scale
    lowest, highest = values <= (-np.inf if under is None else under), values >= (np.inf if over is None else over)
    return np.where(lowest, low, np.where(highest, high, values))


def find_ends(
    predicted: Floats, ratings: Floats, scale: tuple[float, float], min_share: float = END_SHARE
) -> tuple[float | None, float | None]:
    """Return the prediction up to which, and the one from which on, an end of the scale is predicted.

    Beyond it, at least the share `min_share` of the cases got that rating from everybody; None where there is none.
    """
    under = _find_end_threshold(predicted, ratings == scale[0], min_share)
    over = _find_end_threshold(-predicted, ratings == scale[1], min_share)
    return under, None if over is None else -over


def _find_end_threshold(predicted: Floats, at_end: Bools, min_share: float) -> float | None:
    """Return the largest prediction at which the share of cases at the low end, which falls with it, is still
    `min_share`.
    """
    if not len(predicted) or not at_end.any():
        return None
    order = np.argsort(-predicted, kind="stable")
    share = pool_adjacent_violators(at_end[order].astype(np.float64), np.ones(len(predicted)))
    candidates = predicted[order][share >= min_share]
    return float(candidates.max()) if len(candidates) else None


def conformal_bounds(away: Floats, groups: Ints) -> tuple[float, float] | None:
    """Return what to add to a prediction for the two ends of its interval.

    Errors are left out from both sides alike, those with the most others on one side of them first. With n groups, an
    interval that leaves out k of them misses the next one with a probability of (k + 2) / (n + 1), since beyond each of
    its two ends there is one more place: k + 2 may be a fifth of n + 1. Where many errors are equal (the lowest rating
    was predicted, and people gave it) nothing can be left out on their side, and more is on the other. The interval may
    then be a single point, which covers as many as lie there: none that contains the prediction is narrower.

    Args:
        away: People's mean minus the out-of-fold prediction of each case; nan where there is none.
        groups: Group of each case.

    Returns:
        None where there are too few groups (fewer than 9).
    """
    known = ~np.isnan(away)
    _, place, sizes = np.unique(groups[known], return_inverse=True, return_counts=True)
    count = len(sizes)
    left_out = (1 - INTERVAL_COVERAGE) * (count + 1) - 2  # k
    if left_out < -_SHARE_TOLERANCE:
        return None
    errors, where = np.unique(away[known], return_inverse=True)
    share = np.bincount(where, 1 / sizes[place] / count)
    up_to = np.cumsum(share)
    beyond = np.maximum(up_to - share, up_to[-1] - up_to).round(DECIMALS)  # share of the errors on one side
    order = np.argsort(beyond, kind="stable")
    enough = np.cumsum(share[order]) >= 1 - left_out / count - _SHARE_TOLERANCE
    inside = errors[beyond <= beyond[order][enough.argmax()]]
    return float(inside[0]), float(inside[-1])


def find_bands(predicted: Floats, groups: Ints) -> Floats:
    """Return the largest prediction of each band but the last.

    Bands have about the same number of cases. Predictions of one value are in one band, the others being divided anew,
    and a band of fewer than `MIN_BAND_GROUPS` groups is merged with the next, so that there may be fewer than three.
    """
    cuts: list[float] = []
    rest = predicted
    for count in range(BAND_COUNT, 1, -1):
        cut = float(np.quantile(rest, 1 / count)) if len(rest) else np.inf
        rest = rest[rest > cut]
        if len(rest):
            cuts.append(cut)
    return _merge_small_bands(np.array(cuts), predicted, groups)


def conformal_bands(predicted: Floats, ratings: Floats, groups: Ints, fold: Ints) -> tuple[IntervalBand, ...]:
    """Return the intervals by thirds of the prediction, each with its coverage of folds that it was not computed on.

    There may be fewer than three (`find_bands`). Empty where there would be only one.
    """
    known = ~np.isnan(predicted)
    predicted, ratings = predicted[known], ratings[known]
    groups, fold = groups[known], fold[known]
    away, cuts = ratings - predicted, find_bands(predicted, groups)
    band = np.searchsorted(cuts, predicted)
    bands = []
    for number, up_to in enumerate((*cuts.tolist(), None) if len(cuts) else ()):
        here = band == number
        covered = np.full(int(here.sum()), np.nan)
        for out in (fold[here] == one for one in np.unique(fold[here])):
            # With too few groups left, the interval is the whole scale.
            low, high = conformal_bounds(away[here][~out], groups[here][~out]) or (-np.inf, np.inf)
            covered[out] = (away[here][out] >= low - _SHARE_TOLERANCE) & (away[here][out] <= high + _SHARE_TOLERANCE)
        bounds = conformal_bounds(away[here], groups[here])
        assert bounds is not None  # MIN_BAND_GROUPS is enough
        bands.append(IntervalBand(up_to, *bounds, float(covered.mean()), int(here.sum())))
    return tuple(bands)


def interval_ends(bands: Sequence[IntervalBand], predicted: Floats) -> tuple[Floats, Floats]:
    """Return the lower and the upper ends of the intervals of predictions, not clipped to the scale."""
    number = np.searchsorted([band.up_to for band in bands[:-1] if band.up_to is not None], predicted)
    low, high = (np.array(ends)[number] for ends in zip(*((band.low, band.high) for band in bands), strict=True))
    return predicted + low, predicted + high


def _merge_small_bands(cuts: Floats, predicted: Floats, groups: Ints) -> Floats:
    """Return the cuts between bands without those beside a band of too few groups."""
    band = np.searchsorted(cuts, predicted)
    for number in range(len(cuts) + 1 if len(cuts) else 0):
        if len(np.unique(groups[band == number])) < MIN_BAND_GROUPS:
            return _merge_small_bands(np.delete(cuts, min(number, len(cuts) - 1)), predicted, groups)
    return cuts
