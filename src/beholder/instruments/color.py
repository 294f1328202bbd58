"""Color: how far it moved, pixel by pixel and over the whole image."""

from __future__ import annotations

from functools import wraps

import numpy as np

from beholder.instruments.instrument import (
    Floats,
    InstrumentFamily,
    PairReader,
    PairReading,
    format_factor,
    format_percent,
)
from beholder.instruments.pair import ImagePair
from beholder.instruments.regions import MAX_INFERRED_SHARE, NOTICEABLE_DELTA_E, add_mostly, locate

_MIN_PIXELS = 64  # outside the edit, to measure a color cast


INSTRUMENTS = InstrumentFamily("colour")


def _without_registration(read: PairReader) -> PairReader:
    """Let a reading of the colors as a whole, which needs no registration, fail only where nothing overlaps."""

    @wraps(read)
    def reading(pair: ImagePair) -> PairReading:
        return read(pair) if pair.valid.any() else PairReading(None, f"Not measured: {pair.incomparable_reason}.")

    return reading


@INSTRUMENTS.pair("difference_median", unit="ΔE", better="lower")
def _read_difference_median(pair: ImagePair) -> PairReading:
    """Median CIEDE2000 over the pixels that both images have: about 1 can just be seen side by side, 10 at a
    glance.
    """
    value = pair.difference_quantiles[0]
    sentence = f"Half of the pixels differ by {_describe_visibility(value)}."
    if value < 1:
        # The map shows the others: say where they are.
        rest = f"; what changed is {add_mostly(pair.changed_place.name)}" if pair.changed_mask.any() else ""
        sentence = f"Half of the pixels or more look the same (median ΔE {value:.1f}){rest}."
    return PairReading(value, sentence, pair.difference, _compute_legend_top(pair))


@INSTRUMENTS.pair("difference_high", unit="ΔE", better="lower")
def _read_difference_high(pair: ImagePair) -> PairReading:
    """95 % quantile of CIEDE2000 over the pixels that both images have: about 1 can just be seen side by side, 10 at a
    glance.
    """
    value = pair.difference_quantiles[1]
    if value < 1:
        return PairReading(value, f"Nineteen pixels in twenty look the same (95 % quantile ΔE {value:.1f}).")
    return PairReading(value, f"One pixel in twenty differs by {_describe_visibility(value)}.")


@INSTRUMENTS.pair("noticeable", unit="share", better="lower")
def _read_noticeable(pair: ImagePair) -> PairReading:
    """Share of the pixels that differ by more than 10 in CIEDE2000, which is seen at a glance."""
    over = pair.difference > NOTICEABLE_DELTA_E
    share = float(np.count_nonzero(over) / np.count_nonzero(pair.valid))
    if share == 0:
        return PairReading(0.0, f"No pixel differs by more than ΔE {NOTICEABLE_DELTA_E:.0f}.")
    place = locate(over)
    by = f"by more than ΔE {NOTICEABLE_DELTA_E:.0f}"
    sentence = f"{format_percent(share)} of the pixels differ {by}, {add_mostly(place.name)}."
    return PairReading(share, sentence, boxes=place.boxes)


@INSTRUMENTS.pair("palette", unit="ΔE", better="lower", cheap=False, needs_registration=False)
@_without_registration
def _read_palette(pair: ImagePair) -> PairReading:
    """How far colours would have to move to make the one image's into the other's, wherever they are: twice the sliced
    Wasserstein distance in CIELAB over 24 directions, so that a shift of all colours by 10 gives 10.
    """
    first, second = (np.sort(_DIRECTIONS @ colors[::4].T, axis=1) for colors in pair.sampled_colors[:2])
    distance = float(2 * np.abs(first - second).mean())
    strength = "the same" if distance < 1 else "close" if distance < 5 else "different" if distance < 15 else "another"
    return PairReading(distance, f"The palette is {strength}: colours would have to move by {distance:.1f} on average.")


@INSTRUMENTS.pair("exposure", unit="L*", needs_registration=False)
@_without_registration
def _read_exposure(pair: ImagePair) -> PairReading:
    """Change of the mean lightness L* (0–100); more is lighter."""
    first, second = (float(colors[:, 0].mean()) for colors in pair.sampled_colors[:2])
    change = second - first
    how = "as light as it was" if abs(change) < 1 else f"{abs(change):.1f} {'lighter' if change > 0 else 'darker'}"
    return PairReading(change, f"The image is {how} (mean L* {round(first)} to {round(second)}).")


@INSTRUMENTS.pair("contrast", unit="×", needs_registration=False)
@_without_registration
def _read_contrast(pair: ImagePair) -> PairReading:
    """Standard deviation of L* after, as a multiple of that before."""
    first, second = (float(colors[:, 0].std()) for colors in pair.sampled_colors[:2])
    if first < 0.5:
        return PairReading(None, "Not measured: the image before has no contrast to compare with.")
    ratio = second / first
    how = "The contrast is kept" if abs(ratio - 1) < 0.03 else f"The contrast is {format_factor(ratio)} what it was"
    return PairReading(ratio, f"{how} (deviation of L* {first:.0f} to {second:.0f}).")


@INSTRUMENTS.pair("saturation", unit="C*", needs_registration=False)
@_without_registration
def _read_saturation(pair: ImagePair) -> PairReading:
    """Change of the mean chroma C*; more is more colourful."""
    first, second = (float(np.hypot(colors[:, 1], colors[:, 2]).mean()) for colors in pair.sampled_colors[:2])
    change = second - first
    how = "as colourful as it was" if abs(change) < 1 else f"{'more' if change > 0 else 'less'} colourful"
    return PairReading(change, f"The image is {how} (mean chroma {first:.0f} to {second:.0f}).")


@INSTRUMENTS.pair("cast", unit="ΔE", better="lower")
def _read_cast(pair: ImagePair) -> PairReading:
    """Length of the mean shift in (a*, b*) outside the region of the edit: a tint over what was to stay."""
    if pair.region_is_inferred and pair.region_share > MAX_INFERRED_SHARE:
        return PairReading(
            None, "Not measured: the change fills most of the image, so no part tells the light from the edit."
        )
    first, second, inside = pair.sampled_colors
    moved = (second - first)[~inside]
    if len(moved) < _MIN_PIXELS:
        return PairReading(None, "Not measured: nothing lies outside the region of the edit.")
    green_red, blue_yellow = (float(number) for number in moved.mean(axis=0)[1:])
    length = float(np.hypot(green_red, blue_yellow))
    if length < 1:
        return PairReading(length, "Outside the edit the colours lean neither way.")
    names = [(green_red, "red", "green"), (blue_yellow, "yellow", "blue")]
    towards = [more if by > 0 else less for by, more, less in names if abs(by) > 0.4 * length]
    return PairReading(length, f"Outside the edit all colours lean by {length:.1f} towards {' and '.join(towards)}.")


def _describe_visibility(value: float) -> str:
    words = ((2.5, "hardly seen"), (NOTICEABLE_DELTA_E, "seen side by side"))
    return f"ΔE {value:.1f} or more, {next((word for top, word in words if value < top), 'seen at a glance')}"


def _compute_legend_top(pair: ImagePair) -> float:
    """Return the top of the map's legend: 20, or more where a twentieth of the image is above it; at most 100."""
    return float(np.clip(np.ceil(pair.difference_quantiles[1] / 10) * 10, 20, 100))


def _spread_directions(count: int) -> Floats:
    """Return directions evenly spread over half the sphere (a Fibonacci lattice), N×3."""
    z = (np.arange(count) + 0.5) / count
    angle = np.pi * (1 + 5**0.5) * np.arange(count)
    flat = np.sqrt(1 - z * z)
    return np.stack([flat * np.cos(angle), flat * np.sin(angle), z], axis=1).astype(np.float32)


_DIRECTIONS = _spread_directions(24)
