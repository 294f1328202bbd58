"""Locality: where the change is, and how much of it lies outside the region of the edit.

The region of the edit is the mask that was given, or else inferred from the main change (`regions.infer_edit_region`).
"""

from __future__ import annotations

import cv2
import numpy as np

from beholder.instruments.instrument import (
    Bools,
    InstrumentFamily,
    PairReading,
    format_percent,
    join_phrases,
)
from beholder.instruments.pair import ImagePair, compute_quantiles
from beholder.instruments.regions import (
    MAX_INFERRED_SHARE,
    MIN_SHOWN_SHARE,
    NOTICEABLE_DELTA_E,
    add_mostly,
    find_changed_regions,
    locate,
)

_BLOCKS_PER_SIDE = 32  # concentration is measured over so many by so many blocks
_MIN_SHARE = 0.005  # of the image: less than this outside (or inside) the region is too little to measure
_MIN_MEAN_CHANGE = 0.5  # mean ΔE under which there is no change to speak of


INSTRUMENTS = InstrumentFamily("locality")


@INSTRUMENTS.pair("changed", unit="share")
def _read_changed(pair: ImagePair) -> PairReading:
    """Share of the image that changed by more than ΔE 10 after a blur of 0.5 % of the longer side against noise."""
    share = float(np.count_nonzero(pair.changed_mask) / np.count_nonzero(pair.valid))
    if share == 0:
        return PairReading(0.0, "Nothing that can be seen has changed.")
    place = pair.changed_place
    sentence = f"{format_percent(share)} of the image changed, {add_mostly(place.name)}."
    return PairReading(share, sentence, boxes=place.boxes if share >= MIN_SHOWN_SHARE else ())


@INSTRUMENTS.pair("regions", cheap=False)
def _read_regions(pair: ImagePair) -> PairReading:
    """Number of connected changes of at least 0.1 % of the image, gaps up to 2 % of the longer side closed; 20 at
    most.
    """
    regions = find_changed_regions(pair.difference, pair.changed_mask)
    if not regions:
        return PairReading(0.0, "There is no region of change.")
    largest = join_phrases(
        [
            f"{region.place} ({format_percent(region.share)} of the image, ΔE {region.difference:.0f})"
            for region in regions[:3]
        ]
    )
    count = f"{len(regions)} regions of change" if len(regions) > 1 else "One region of change"
    sentence = f"{count}{', the largest' if len(regions) > 3 else ':'} {largest}."
    return PairReading(float(len(regions)), sentence, boxes=tuple(region.box for region in regions[:3]))


@INSTRUMENTS.pair("region", unit="share")
def _read_region(pair: ImagePair) -> PairReading:
    """Share of the image that the region of the edit covers: the given mask, or the main connected change, above ΔE 10
    and 0.6 of Otsu's threshold, grown by 2 % of the longer side.
    """
    share, place = pair.region_share, locate(pair.region)
    if not pair.region_is_inferred:
        where = f", {place.name}" if share else ""
        sentence = f"The given mask covers {format_percent(share)} of the image{where}."
        return PairReading(share, sentence, boxes=place.boxes)
    if share == 0:
        return PairReading(0.0, "No region of an edit can be inferred: nothing that can be seen has changed.")
    filled = "; that is most of it, so nothing tells what was intended" if share > MAX_INFERRED_SHARE else ""
    sentence = f"The change fills {format_percent(share)} of the image, {place.name}{filled}."
    return PairReading(share, sentence, boxes=place.boxes)


@INSTRUMENTS.pair("concentration", cheap=False)
def _read_concentration(pair: ImagePair) -> PairReading:
    """Gini coefficient of ΔE over 32×32 blocks: 0 is the same everywhere, 1 all in one spot."""
    weight = pair.valid.astype(np.float32)
    size = tuple(min(_BLOCKS_PER_SIDE, side) for side in pair.valid.shape[::-1])
    sums, areas = (cv2.resize(values, size, interpolation=cv2.INTER_AREA) for values in (pair.difference, weight))
    blocks = np.sort((np.asarray(sums) / np.maximum(areas, 1e-6))[np.asarray(areas) > 0.5], axis=None)
    if len(blocks) < 16:
        return PairReading(None, "Not measured: the image is too small to have places.")
    if blocks.mean() < _MIN_MEAN_CHANGE:
        return PairReading(None, "Not measured: there is no change to speak of.")
    rank = np.arange(1, len(blocks) + 1)
    gini = float((2 * (rank * blocks).sum() / blocks.sum() - len(blocks) - 1) / (len(blocks) - 1))
    how = "evenly spread" if gini < 0.3 else "uneven" if gini < 0.6 else "concentrated"
    top = blocks[-max(1, len(blocks) // 10) :].sum() / blocks.sum()
    return PairReading(
        gini, f"The change is {how}: the most changed tenth of the image has {format_percent(float(top))} of it."
    )


@INSTRUMENTS.pair("inside", unit="share")
def _read_inside(pair: ImagePair) -> PairReading:
    """Share of the sum of all ΔE that lies inside the region of the edit."""
    total = cv2.sumElems(pair.difference)[0]
    if total < _MIN_MEAN_CHANGE * pair.difference.size:
        return PairReading(None, "Not measured: there is no change to speak of.")
    if not pair.region.any():
        return PairReading(None, _NO_REGION_REASONS[pair.region_is_inferred])
    if pair.region_is_inferred and pair.region_share > MAX_INFERRED_SHARE:
        return PairReading(None, _explain_filled(pair))
    share = min(1.0, cv2.sumElems(pair.difference * pair.region)[0] / total)
    return PairReading(share, f"{format_percent(share)} of all change lies inside {_name_region(pair)}.")


@INSTRUMENTS.pair("edit", unit="ΔE")
def _read_edit(pair: ImagePair) -> PairReading:
    """Mean ΔE inside the region of the edit."""
    where = pair.region & pair.valid
    if not where.any():
        return PairReading(None, _NO_REGION_REASONS[pair.region_is_inferred])
    mean = _average_difference(pair, where)
    return PairReading(mean, f"Inside {_name_region(pair)} the colours differ by ΔE {mean:.1f} on average.")


@INSTRUMENTS.pair("leakage", unit="share", better="lower")
def _read_leakage(pair: ImagePair) -> PairReading:
    """Share of the pixels outside the region of the edit that differ by more than ΔE 10; not measured where an inferred
    region fills over 60 % of the image.
    """
    outside = _find_outside(pair)
    if isinstance(outside, str):
        return PairReading(None, outside)
    changed = (pair.difference > NOTICEABLE_DELTA_E) & outside
    share = float(np.count_nonzero(changed) / np.count_nonzero(outside))
    by = f"by more than ΔE {NOTICEABLE_DELTA_E:.0f}"
    if share == 0:
        return PairReading(0.0, f"No pixel {_name_outside(pair)} differs {by}.")
    place = locate(changed)
    sentence = f"{format_percent(share)} of the pixels {_name_outside(pair)} differ {by}, {add_mostly(place.name)}."
    return PairReading(share, sentence, boxes=place.boxes if share >= MIN_SHOWN_SHARE else ())


@INSTRUMENTS.pair("leakage_mean", unit="ΔE", better="lower")
def _read_leakage_mean(pair: ImagePair) -> PairReading:
    """Mean ΔE outside the region of the edit."""
    outside = _find_outside(pair)
    if isinstance(outside, str):
        return PairReading(None, outside)
    mean = _average_difference(pair, outside)
    sentence = f"The pixels {_name_outside(pair)} differ by ΔE {mean:.1f} on average."
    return PairReading(mean, sentence, pair.difference * outside, 2 * NOTICEABLE_DELTA_E)


@INSTRUMENTS.pair("leakage_high", unit="ΔE", better="lower")
def _read_leakage_high(pair: ImagePair) -> PairReading:
    """95 % quantile of ΔE outside the region of the edit."""
    outside = _find_outside(pair)
    if isinstance(outside, str):
        return PairReading(None, outside)
    (high,) = compute_quantiles(pair.difference, outside, (0.95,))
    return PairReading(high, f"One in twenty of the pixels {_name_outside(pair)} differs by ΔE {high:.1f} or more.")


def _average_difference(pair: ImagePair, where: Bools) -> float:
    return float(cv2.mean(pair.difference, where.view(np.uint8))[0])


def _find_outside(pair: ImagePair) -> Bools | str:
    """Return the pixels that should not have changed, or the sentence why they are not known."""
    if pair.region_is_inferred and pair.region_share > MAX_INFERRED_SHARE:
        return _explain_filled(pair)
    outside = ~pair.region & pair.valid
    if np.count_nonzero(outside) < max(1, _MIN_SHARE * outside.size):
        return f"Not measured: {_name_region(pair)} leaves nothing outside."
    return outside


def _explain_filled(pair: ImagePair) -> str:
    share = format_percent(pair.region_share)
    return f"Not measured: the change fills {share} of the image, so nothing tells what was to stay; a mask would."


def _name_outside(pair: ImagePair) -> str:
    return (
        f"outside {_name_region(pair)}"
        if pair.region.any() or not pair.region_is_inferred
        else "of the whole image (no edit is seen)"
    )


def _name_region(pair: ImagePair) -> str:
    return "the inferred edit" if pair.region_is_inferred else "the mask"


_NO_REGION_REASONS = {
    True: "Not measured: nothing that can be seen has changed, so no edit can be inferred.",
    False: "Not measured: the mask is empty.",
}
