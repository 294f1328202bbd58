"""Naturalness: whether what was changed still looks as if it belonged to the picture.

Measured is what people take for unreal: detail that appears where the image was calm, or is wiped away where there was
some; parts that stand out against the rest; textures and colors that the input has nowhere; changes at the size of
small shapes, where a careful edit changes fine grain or whole areas. None of these is a fault by itself;
`human_ratings` weighs them by people's ratings.

All is measured on copies of at most 512 px, on which the weights were fitted too. *Detail* is a band of the Laplacian
pyramid; *places* are the cells of a grid of 16 along the longer side, *blocks* those of a grid of 32. Where the image
after has no pixels (a shift moved them out), it counts as unchanged.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import cv2
import numpy as np

from beholder.instruments.instrument import (
    Array,
    Bools,
    Bytes,
    Floats,
    InstrumentFamily,
    PairReading,
    format_factor,
    format_percent,
    scale_to_side,
)
from beholder.instruments.pair import ImagePair, once_per_pair, require_min_side
from beholder.instruments.pixel_metrics import ciede2000, compute_ssim, to_lab
from beholder.instruments.regions import EVERYWHERE, NOWHERE, Box, add_mostly, locate

SIDE = 512
MIN_SIDE = 64  # px

_PLACES_PER_SIDE, _BLOCKS_PER_SIDE = 16, 32
_MIN_DETAIL = np.float32(0.002)  # half a level of 255: detail below this is none
_FULL_CHANGE = 15.0  # ΔE from which a pixel counts as wholly changed
_MIN_CHANGE_WEIGHT = 0.001  # of the image: the weight with which the rest of it counts as changed too
_LAB_STEP, _SLOPE_GAIN, _DETAIL_GAIN = 15.0, 200.0, 100.0  # units in which a block's colour and texture weigh alike
_DIRECTION_BINS = 8  # a power of two
_ROWS_PER_PRODUCT = 16
_STRANGEST_BLOCKS = 5  # of the blocks, about one in two hundred
_DEVIATION_WINDOW = (7, 7)  # px at half the size
# Standard deviations of gray, of a range of 1.
_MAX_CALM, _MAX_CALM_AFTER, _MIN_TEXTURED, _MIN_TEXTURED_AFTER = 0.02, 0.03, 0.06, 0.04
_TEXTURED_PRIOR = 0.002  # of the image, added so that a few pixels do not make a share
_VISIBLE_DELTA_E = 1.0  # ΔE: a smaller change cannot be seen even side by side
_NEAR_WHITE = np.float32(0.966)  # grey that has L* 97


_NO_DETAIL = "Not measured: neither image has any detail."
_NO_CHANGE = "Not measured: nothing that can be seen has changed."
_TOO_SMALL = "Not measured: the image {which} is too small ({width}×{height} px)."


class _PyramidLayers(NamedTuple):
    """Gray values, the same at half the size, and the detail between sizes: 1–2 px, then 2–4 px of 512."""

    gray: Floats
    half: Floats
    fine: Floats
    detail: Floats


class _PairLayers(NamedTuple):
    """The layers of both images, and the gain of detail at each place in octaves."""

    before: _PyramidLayers
    after: _PyramidLayers
    gain: Floats


class _BlockDistances(NamedTuple):
    """How blocks differ.

    Attributes:
        color: ΔE of the mean colors.
        replaced: The distance to the block that was there before, in units of about a just noticeable difference of
            texture or ΔE 15.
        nearest: The distance to the most similar block of the image before, in the same unit.
    """

    color: Floats
    replaced: Floats
    nearest: Floats


INSTRUMENTS = InstrumentFamily("naturalness", partial(require_min_side, min_side=MIN_SIDE, sentence=_TOO_SMALL))
_instrument = partial(INSTRUMENTS.pair, cheap=False)


@_instrument("detail_gained", unit="×")
def _read_detail_gained(pair: ImagePair) -> PairReading:
    """How much stronger detail of 2–4 px (of 512) became at the place in twenty where it grew most (95 % quantile over
    places).
    """
    layers = _get_layers(pair)
    if _is_flat(layers.before) and _is_flat(layers.after):
        return PairReading(None, _NO_DETAIL)
    gain = layers.gain
    grown = np.maximum(gain, 0)
    value, (where, boxes) = float(2 ** np.quantile(gain, 0.95)), _describe_place(grown)
    has_grown = value > 1.3
    sentence = (
        f"Detail grew to {format_factor(value)} and more in one place of twenty{where}"
        if has_grown
        else f"No place gained detail ({format_factor(value)})"
    )
    return PairReading(value, f"{sentence}.", pair.upscale_map(2**grown), 4.0, boxes if has_grown else ())


@_instrument("detail_lost", unit="×", better="higher", cheap=True)
def _read_detail_lost(pair: ImagePair) -> PairReading:
    """What is left of detail of 2–4 px (of 512) at the place in twenty where it fell most (5 % quantile over
    places).
    """
    layers = _get_layers(pair)
    if _is_flat(layers.before):
        return PairReading(None, "Not measured: the image before has no detail to lose.")
    gain = layers.gain
    left = np.minimum(gain, 0)
    value, (where, boxes) = float(2 ** np.quantile(gain, 0.05)), _describe_place(-left)
    has_fallen = value < 0.77
    sentence = (
        f"Detail fell to {format_factor(value)} and less in one place of twenty{where}"
        if has_fallen
        else f"No place lost detail ({format_factor(value)})"
    )
    return PairReading(value, f"{sentence}.", pair.upscale_map(2**left), 1.0, boxes if has_fallen else ())


@_instrument("detail_uneven", unit="octaves")
def _read_detail_uneven(pair: ImagePair) -> PairReading:
    """Standard deviation over places of the change of detail, in octaves (1 is a factor of two)."""
    layers = _get_layers(pair)
    if _is_flat(layers.before) and _is_flat(layers.after):
        return PairReading(None, _NO_DETAIL)
    value = float(layers.gain.std())
    how = "evenly" if value < 0.3 else "unevenly" if value < 0.8 else "very unevenly"
    return PairReading(value, f"Detail changed {how} over the image (by {value:.2f} octaves from place to place).")


@_instrument("standing_out", unit="×")
def _read_standing_out(pair: ImagePair) -> PairReading:
    """Detail of the image after where it changed, as a multiple of that where it did not (each pixel weighs by its ΔE,
    up to 15).
    """
    if not _has_visible_change(pair):
        return PairReading(None, _NO_CHANGE)
    layers = _get_layers(pair)
    if _is_flat(layers.after):
        return PairReading(None, "Not measured: the image after has no detail.")
    detail = np.abs(layers.after.detail)
    change = _resize_area(pair.difference, layers.after.gray.shape[::-1])
    weight = _resize_area(np.minimum(change / np.float32(_FULL_CHANGE), 1), detail.shape[::-1])
    rest = 1 - weight
    outside = cv2.sumElems(detail * rest)[0] / max(cv2.sumElems(rest)[0], 1e-6)
    prior = _MIN_CHANGE_WEIGHT * weight.size
    inside = (cv2.sumElems(detail * weight)[0] + prior * outside) / (cv2.sumElems(weight)[0] + prior)
    value = float((inside + _MIN_DETAIL) / (outside + _MIN_DETAIL))
    if value > 1.25:
        sentence = f"What changed stands out: {format_factor(value)} the detail of the rest"
    elif value < 0.8:
        sentence = f"What changed is calmer than the rest ({format_factor(value)} its detail)"
    else:
        sentence = f"What changed has about as much detail as the rest ({format_factor(value)})"
    return PairReading(value, f"{sentence}.")


@_instrument("foreign")
def _read_foreign(pair: ImagePair) -> PairReading:
    """How far the five strangest blocks are from the most similar block anywhere in the input, by colour (ΔE 15 is 1)
    and logarithmic strength of texture in eight directions.
    """
    nearest = _get_block_distances(pair).nearest
    value = float(np.sort(nearest, axis=None)[-_STRANGEST_BLOCKS:].mean())
    where, boxes = _describe_place(nearest)
    sentence = f"The strangest blocks differ by {value:.1f} from everything in the input{where}"
    if value < 1:
        sentence, boxes = f"Every block has its like in the input (distance {value:.1f} at most)", ()
    return PairReading(value, f"{sentence}.", pair.upscale_map(nearest), 4.0, boxes)


@_instrument("redrawn")
def _read_redrawn(pair: ImagePair) -> PairReading:
    """How far blocks are from what was in their place, by the same measure as `foreign`: 95 % quantile."""
    replaced = _get_block_distances(pair).replaced
    value = float(np.quantile(replaced, 0.95))
    where, boxes = _describe_place(replaced)
    sentence = f"One block in twenty differs by {value:.1f} or more from what was there{where}."
    return PairReading(value, sentence, boxes=boxes)


@_instrument("colour_patch", unit="ΔE")
def _read_color_patch(pair: ImagePair) -> PairReading:
    """The largest ΔE between the mean colours of a block before and after."""
    color = _get_block_distances(pair).color
    value = float(color.max())
    where, boxes = _describe_place(color)
    sentence = f"The block that changed its colour most did so by ΔE {value:.0f}{where}."
    return PairReading(value, sentence, boxes=boxes)


@_instrument("small_shapes", unit="share")
def _read_small_shapes(pair: ImagePair) -> PairReading:
    """Share of the change (root of its energy in grey) that lies in the octave of about 8 px of 512."""
    if not _has_visible_change(pair):
        return PairReading(None, _NO_CHANGE)
    layers = _get_layers(pair)
    change = layers.after.gray - layers.before.gray
    total = cv2.norm(change, cv2.NORM_L2SQR) + change.size * 1e-5  # a change below one level of 255 is none
    quarter = cv2.pyrDown(cv2.pyrDown(change))
    value = float(np.sqrt(16 * cv2.norm(_compute_band(quarter, cv2.pyrDown(quarter)), cv2.NORM_L2SQR) / total))
    return PairReading(
        value, f"{format_percent(value)} of the change is at the size of small shapes (about 8 px of 512)."
    )


@_instrument("busied", unit="share")
def _read_busied(pair: ImagePair) -> PairReading:
    """Share of the image that was calm (standard deviation of grey within 14 px of 512 below 0.02 of the range) and has
    texture (above 0.04).
    """
    before, after = _get_deviations(pair)
    disturbed = (before < _MAX_CALM) & (after > _MIN_TEXTURED_AFTER)
    value = _compute_share(disturbed)
    where, boxes = _describe_place(disturbed)
    sentence = f"{format_percent(value)} of the image was calm and is not any more{where}"
    return PairReading(value, f"{sentence if value else 'No calm area was disturbed'}.", boxes=boxes)


@_instrument("wiped", unit="share")
def _read_wiped(pair: ImagePair) -> PairReading:
    """Share of the textured area (standard deviation above 0.06) that has become calm (below 0.03)."""
    before, after = _get_deviations(pair)
    textured = before > _MIN_TEXTURED
    wiped = textured & (after < _MAX_CALM_AFTER)
    value = np.count_nonzero(wiped) / (np.count_nonzero(textured) + _TEXTURED_PRIOR * wiped.size)
    where, boxes = _describe_place(wiped)
    sentence = f"{format_percent(value)} of the textured area was wiped calm{where}"
    return PairReading(value, f"{sentence if value else 'No texture was wiped away'}.", boxes=boxes)


@_instrument("whitened", unit="share")
def _read_whitened(pair: ImagePair) -> PairReading:
    """Growth of the share of nearly white pixels (L* above 97)."""
    layers = _get_layers(pair)
    before, after = (_compute_share(layer.gray > _NEAR_WHITE) for layer in (layers.before, layers.after))
    return PairReading(
        after - before, f"{format_percent(after)} of the image is nearly white, {format_percent(before)} was before."
    )


@_instrument("accents", unit="×")
def _read_accents(pair: ImagePair) -> PairReading:
    """Kurtosis of the Laplacian after, as a multiple of that before: above 1 detail is rarer and harder."""
    layers = _get_layers(pair)
    for which, layer in (("before", layers.before), ("after", layers.after)):
        if _is_flat(layer):
            return PairReading(None, f"Not measured: the image {which} has no detail, and so no accents.")
    before, after = (_compute_kurtosis(layer.gray) for layer in (layers.before, layers.after))
    value = after / before
    sentence = "sharper accents" if value > 1.25 else "softer accents" if value < 0.8 else "accents as before"
    return PairReading(value, f"The image has {sentence} (kurtosis of the detail {format_factor(value)} the input's).")


@_instrument("coarse_shapes")
def _read_coarse_shapes(pair: ImagePair) -> PairReading:
    """SSIM at an eighth of the size in the tenth of the image that kept it least (10 % quantile)."""
    layers = _get_layers(pair)
    height, width = (max(11, side // 4) for side in layers.before.half.shape)
    values = compute_ssim(*(_resize_area(layer.half, (width, height)) for layer in (layers.before, layers.after)))[0]
    value = float(np.quantile(values, 0.1))
    sentence = f"Coarse shapes are kept by {value:.2f} in the tenth of the image that kept them least"
    where, boxes = _describe_place(np.maximum(0.6 - values, 0))
    return PairReading(value, f"{sentence}{where}.", boxes=boxes)


@once_per_pair
def _get_layers(pair: ImagePair) -> _PairLayers:
    size = scale_to_side(pair.before.shape, min(SIDE, max(pair.before.shape[:2])))
    grid = scale_to_side(pair.before.shape, _PLACES_PER_SIDE)
    one, other = (_build_layers(_to_gray(_resize_area(image, size))) for image in _get_images(pair))
    before, after = (_resize_area(np.abs(layers.detail), grid) + _MIN_DETAIL for layers in (one, other))
    return _PairLayers(one, other, np.log2(after / before))


@once_per_pair
def _get_block_distances(pair: ImagePair) -> _BlockDistances:
    layers, grid = _get_layers(pair), scale_to_side(pair.before.shape, _BLOCKS_PER_SIDE)
    colors = [to_lab(_resize_area(image, grid)) for image in _get_images(pair)]
    one, other = (
        np.stack([*cv2.split(color / np.float32(_LAB_STEP)), *_compute_texture(image, grid)], axis=-1)
        for color, image in zip(colors, (layers.before, layers.after), strict=True)
    )
    replaced = np.sqrt(((one - other) ** 2).sum(axis=2))
    nearest = _find_nearest(*(blocks.reshape(-1, blocks.shape[2]) for blocks in (one, other))).reshape(replaced.shape)
    return _BlockDistances(ciede2000(*colors), replaced, np.minimum(nearest, replaced))


def _find_nearest(one: Floats, other: Floats) -> Floats:
    """Return how far each block of `other` is from the nearest block of `one`."""
    # |a − b|² = |a|² + (|b|² − 2ab): a single product of matrices, 1 being appended to a and |b|² to −2b.
    longer = np.vstack([-2 * one.T, (one * one).sum(axis=1)])
    ones = np.hstack([other, np.ones((len(other), 1), np.float32)])
    # A few rows at a time: for larger products NumPy's library wakes a thread on every core, which costs more.
    least = np.concatenate(
        [(ones[at : at + _ROWS_PER_PRODUCT] @ longer).min(axis=1) for at in range(0, len(ones), _ROWS_PER_PRODUCT)]
    )
    return np.asarray(np.sqrt(np.maximum((other * other).sum(axis=1) + least, 0)), np.float32)


def _compute_texture(image: _PyramidLayers, grid: tuple[int, int]) -> list[Floats]:
    """Return for each block how much slope there is in each of eight directions (modulo 180°), and how much detail."""
    dx, dy = cv2.Sobel(image.half, cv2.CV_32F, 1, 0, scale=1 / 8), cv2.Sobel(image.half, cv2.CV_32F, 0, 1, scale=1 / 8)
    slope, angle = cv2.cartToPolar(dx, dy)
    which = (angle * np.float32(_DIRECTION_BINS / np.pi)).astype(np.uint8) & (_DIRECTION_BINS - 1)
    parts = [
        np.log1p(_SLOPE_GAIN * _resize_area(slope * (which == direction), grid)) for direction in range(_DIRECTION_BINS)
    ]
    return parts + [np.log1p(_DETAIL_GAIN * _resize_area(np.abs(band), grid)) for band in (image.fine, image.detail)]


def _build_layers(gray: Floats) -> _PyramidLayers:
    half = np.asarray(cv2.pyrDown(gray), np.float32)
    return _PyramidLayers(gray, half, _compute_band(gray, half), _compute_band(half, cv2.pyrDown(half)))


def _compute_band(gray: Array, coarser: Array) -> Floats:
    return np.asarray(gray - cv2.pyrUp(coarser, dstsize=gray.shape[::-1]), np.float32)


@once_per_pair
def _get_deviations(pair: ImagePair) -> tuple[Floats, Floats]:
    """Return the standard deviation of the gray values around each pixel, before and after, at half the size."""
    layers = _get_layers(pair)
    return _compute_deviation(layers.before.half), _compute_deviation(layers.after.half)


def _compute_deviation(gray: Floats) -> Floats:
    mean = cv2.blur(gray, _DEVIATION_WINDOW)
    return np.sqrt(np.maximum(cv2.blur(gray * gray, _DEVIATION_WINDOW) - mean * mean, 0))


def _compute_kurtosis(gray: Floats) -> float:
    squares = cv2.Laplacian(gray, cv2.CV_32F) ** 2
    mean = float(squares.mean())
    return (float((squares * squares).mean()) + 1e-9) / (mean * mean + 1e-9)


def _compute_share(where: Bools) -> float:
    return np.count_nonzero(where) / where.size


def _is_flat(image: _PyramidLayers) -> bool:
    return float(np.abs(image.detail).max()) < float(_MIN_DETAIL)


def _has_visible_change(pair: ImagePair) -> bool:
    return float(pair.difference.max()) >= _VISIBLE_DELTA_E


def _get_images(pair: ImagePair) -> tuple[Bytes, Bytes]:
    """Return before and aligned, which has before's pixels where it has none of its own."""
    if pair.fully_valid:
        return pair.before, pair.aligned
    after = pair.before.copy()
    cv2.copyTo(pair.aligned, pair.valid.view(np.uint8), after)
    return pair.before, after


def _to_gray(rgb: Bytes) -> Floats:
    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.float32) / np.float32(255)


def _resize_area(values: Array, size: tuple[int, int]) -> Array:
    return values if values.shape[1::-1] == size else np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_AREA))


def _describe_place(weight: Array) -> tuple[str, tuple[Box, ...]]:
    """Return the place of a weight as the end of a sentence, and the boxes around it."""
    name, boxes = locate(weight)
    return "" if name in (EVERYWHERE, NOWHERE) else f", {add_mostly(name)}", boxes
