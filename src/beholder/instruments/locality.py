"""Locality: where the change is, and how much of it lies where it does not belong.

The region of the edit is the mask that was given, or else `regions.inferred`: the main change itself.
"""

from __future__ import annotations

import cv2
import numpy as np

from beholder.instruments.model import Bools, Instrument, Reading, pair_instrument
from beholder.instruments.pair import Pair, quantiles
from beholder.instruments.places import mostly, place
from beholder.instruments.regions import MOST, NOTICEABLE, parts
from beholder.instruments.wording import joined, percent

_BLOCKS = 32  # concentration is measured over so many by so many blocks
_ENOUGH = 0.005  # of the image: less than this outside (or inside) the region is too little to measure
_NOTHING = 0.5  # mean ΔE under which there is no change to speak of


def _changed(pair: Pair) -> Reading:
    share = float(np.count_nonzero(pair.changed) / np.count_nonzero(pair.valid))
    if share == 0:
        return Reading(0.0, "Nothing that can be seen has changed.")
    return Reading(share, f"{percent(share)} of the image changed, {mostly(place(pair.changed))}.")


def _regions(pair: Pair) -> Reading:
    found = parts(pair.difference, pair.changed)
    if not found:
        return Reading(0.0, "There is no region of change.")
    said = joined([f"{one.place} ({percent(one.share)} of the image, ΔE {one.difference:.0f})" for one in found[:3]])
    count = f"{len(found)} regions of change" if len(found) > 1 else "One region of change"
    return Reading(float(len(found)), f"{count}{', the largest' if len(found) > 3 else ':'} {said}.")


def _region(pair: Pair) -> Reading:
    share = pair.region_share
    if not pair.inferred:
        where = f", {place(pair.region)}" if share else ""
        return Reading(share, f"The given mask covers {percent(share)} of the image{where}.")
    if share == 0:
        return Reading(0.0, "No region of an edit can be inferred: nothing that can be seen has changed.")
    filled = "; that is most of it, so nothing tells what was intended" if share > MOST else ""
    return Reading(share, f"The change fills {percent(share)} of the image, {place(pair.region)}{filled}.")


def _concentration(pair: Pair) -> Reading:
    """The Gini coefficient over blocks."""
    weight = pair.valid.astype(np.float32)
    size = tuple(min(_BLOCKS, side) for side in pair.valid.shape[::-1])
    sums, areas = (cv2.resize(one, size, interpolation=cv2.INTER_AREA) for one in (pair.difference, weight))
    blocks = np.sort((np.asarray(sums) / np.maximum(areas, 1e-6))[np.asarray(areas) > 0.5], axis=None)
    if len(blocks) < 16:
        return Reading(None, "Not measured: the image is too small to have places.")
    if blocks.mean() < _NOTHING:
        return Reading(None, "Not measured: there is no change to speak of.")
    rank = np.arange(1, len(blocks) + 1)
    gini = float((2 * (rank * blocks).sum() / blocks.sum() - len(blocks) - 1) / (len(blocks) - 1))
    how = "evenly spread" if gini < 0.3 else "uneven" if gini < 0.6 else "concentrated"
    top = blocks[-max(1, len(blocks) // 10) :].sum() / blocks.sum()
    return Reading(gini, f"The change is {how}: the most changed tenth of the image has {percent(float(top))} of it.")


def _inside(pair: Pair) -> Reading:
    total = cv2.sumElems(pair.difference)[0]
    if total < _NOTHING * pair.difference.size:
        return Reading(None, "Not measured: there is no change to speak of.")
    if not pair.region.any():
        return Reading(None, _NO_REGION[pair.inferred])
    if pair.inferred and pair.region_share > MOST:
        return Reading(None, _filled(pair))
    share = min(1.0, cv2.sumElems(pair.difference * pair.region)[0] / total)
    return Reading(share, f"{percent(share)} of all change lies inside {_called(pair)}.")


def _edit(pair: Pair) -> Reading:
    where = pair.region & pair.valid
    if not where.any():
        return Reading(None, _NO_REGION[pair.inferred])
    mean = _mean(pair, where)
    return Reading(mean, f"Inside {_called(pair)} the colours differ by ΔE {mean:.1f} on average.")


def _leakage(pair: Pair) -> Reading:
    outside = _outside(pair)
    if isinstance(outside, str):
        return Reading(None, outside)
    there = (pair.difference > NOTICEABLE) & outside
    share = float(np.count_nonzero(there) / np.count_nonzero(outside))
    if share == 0:
        return Reading(0.0, f"No pixel {_beyond(pair)} differs by more than ΔE {NOTICEABLE:.0f}.")
    where = mostly(place(there))
    sentence = f"{percent(share)} of the pixels {_beyond(pair)} differ by more than ΔE {NOTICEABLE:.0f}, {where}."
    return Reading(share, sentence)


def _leakage_mean(pair: Pair) -> Reading:
    outside = _outside(pair)
    if isinstance(outside, str):
        return Reading(None, outside)
    mean = _mean(pair, outside)
    sentence = f"The pixels {_beyond(pair)} differ by ΔE {mean:.1f} on average."
    return Reading(mean, sentence, pair.difference * outside, 2 * NOTICEABLE)


def _leakage_high(pair: Pair) -> Reading:
    outside = _outside(pair)
    if isinstance(outside, str):
        return Reading(None, outside)
    (high,) = quantiles(pair.difference, outside, (0.95,))
    return Reading(high, f"One in twenty of the pixels {_beyond(pair)} differs by ΔE {high:.1f} or more.")


def _mean(pair: Pair, where: Bools) -> float:
    return float(cv2.mean(pair.difference, where.view(np.uint8))[0])


def _outside(pair: Pair) -> Bools | str:
    """What was to stay as it was, or why there is no telling."""
    if pair.inferred and pair.region_share > MOST:
        return _filled(pair)
    outside = ~pair.region & pair.valid
    if np.count_nonzero(outside) < max(1, _ENOUGH * outside.size):
        return f"Not measured: {_called(pair)} leaves nothing outside."
    return outside


def _filled(pair: Pair) -> str:
    share = percent(pair.region_share)
    return f"Not measured: the change fills {share} of the image, so nothing tells what was to stay; a mask would."


def _beyond(pair: Pair) -> str:
    return (
        f"outside {_called(pair)}" if pair.region.any() or not pair.inferred else "of the whole image (no edit is seen)"
    )


def _called(pair: Pair) -> str:
    return "the inferred edit" if pair.inferred else "the mask"


_NO_REGION = {
    True: "Not measured: nothing that can be seen has changed, so no edit can be inferred.",
    False: "Not measured: the mask is empty.",
}

INSTRUMENTS: tuple[Instrument, ...] = (
    pair_instrument(
        "locality.changed",
        "Share of the image that changed by more than ΔE 10 after a blur of 0.5 % of the longer side against noise.",
        _changed,
        unit="share",
    ),
    pair_instrument(
        "locality.regions",
        "Number of connected changes of at least 0.1 % of the image, gaps up to 2 % of the longer side closed; 20 at "
        "most.",
        _regions,
        cheap=False,
    ),
    pair_instrument(
        "locality.region",
        "Share of the image that the region of the edit covers: the given mask, or the main connected change, above "
        "ΔE 10 and 0.6 of Otsu's threshold, grown by 2 % of the longer side.",
        _region,
        unit="share",
    ),
    pair_instrument(
        "locality.concentration",
        "Gini coefficient of ΔE over 32×32 blocks: 0 is the same everywhere, 1 all in one spot.",
        _concentration,
        cheap=False,
    ),
    pair_instrument(
        "locality.inside", "Share of the sum of all ΔE that lies inside the region of the edit.", _inside, unit="share"
    ),
    pair_instrument("locality.edit", "Mean ΔE inside the region of the edit.", _edit, unit="ΔE"),
    pair_instrument(
        "locality.leakage",
        "Share of the pixels outside the region of the edit that differ by more than ΔE 10; not measured where an "
        "inferred region fills over 60 % of the image.",
        _leakage,
        unit="share",
        better="lower",
    ),
    pair_instrument(
        "locality.leakage_mean", "Mean ΔE outside the region of the edit.", _leakage_mean, unit="ΔE", better="lower"
    ),
    pair_instrument(
        "locality.leakage_high",
        "95 % quantile of ΔE outside the region of the edit.",
        _leakage_high,
        unit="ΔE",
        better="lower",
    ),
)
