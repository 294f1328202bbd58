"""Naturalness: whether what was changed still looks as if it belonged to the picture.

What edits do that people take for unreal: detail that comes up where it was calm, or is wiped away where there was
some; parts that stand out against the rest; textures and colours that the input has nowhere; changes at the size of
small shapes, where a careful edit changes fine grain or whole areas. None of these is a fault by itself; together they
are what `aligning` weighs by people's ratings.

All is measured on copies of at most 512 px, on which the weights were fitted too. *Detail* is a band of the Laplacian
pyramid; *places* are the cells of a grid of 16 along the longer side, *blocks* those of a grid of 32. Where the image
after has no pixels (a shift moved them out), it counts as unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import cv2
import numpy as np

from beholder.instruments.ciede import ciede2000, lab
from beholder.instruments.model import Array, Better, Bytes, Floats, Instrument, Reading, pair_instrument
from beholder.instruments.pair import Pair
from beholder.instruments.places import EVERYWHERE, NOWHERE, mostly, place
from beholder.instruments.ssim import similarity
from beholder.instruments.wording import percent, times

SIDE = 512
MIN_SIDE = 64  # px

_PLACES, _BLOCKS = 16, 32
_FAINT = np.float32(0.002)  # half a level of 255: detail below this is none
_FULL = 15.0  # ΔE from which a pixel counts as wholly changed
_LEAST_CHANGE = 0.001  # of the image: the weight with which the rest of it counts as changed too
_LAB_STEP, _SLOPE_GAIN, _DETAIL_GAIN = 15.0, 200.0, 100.0  # units in which a block's colour and texture weigh alike
_DIRECTIONS = 8
_ROWS = 16
_STRANGEST = 5  # of the blocks, about one in two hundred
_AROUND = (7, 7)  # px at half the size
_CALM, _CALM_AFTER, _TEXTURED, _TEXTURED_AFTER = 0.02, 0.03, 0.06, 0.04  # standard deviations of grey, of a range of 1
_LEAST_TEXTURED = 0.002  # of the image, added so that a few pixels do not make a share
_SEEN = 1.0  # ΔE: a smaller change cannot be seen even side by side
_WHITE = np.float32(0.966)  # grey that has L* 97


_NO_DETAIL = "Not measured: neither image has any detail."
_NO_CHANGE = "Not measured: nothing that can be seen has changed."


class _Layers(NamedTuple):
    """Grey values, the same at half the size, and the detail between sizes: 1–2 px, then 2–4 px of 512."""

    grey: Floats
    half: Floats
    fine: Floats
    detail: Floats


class _Seen(NamedTuple):
    """Both images, and the gain of detail at each place in octaves."""

    before: _Layers
    after: _Layers
    gain: Floats


class _Blocks(NamedTuple):
    """ΔE of the mean colours; and how far a block is from the one it replaced, and from the most similar of the image
    before, in units of about a just noticeable difference of texture or ΔE 15."""

    colour: Floats
    replaced: Floats
    nearest: Floats


_seen: WeakKeyDictionary[Pair, _Seen] = WeakKeyDictionary()
_blocks: WeakKeyDictionary[Pair, _Blocks] = WeakKeyDictionary()


def _gained(pair: Pair) -> Reading:
    seen = _look(pair)
    if _flat(seen.before) and _flat(seen.after):
        return Reading(None, _NO_DETAIL)
    gain = seen.gain
    grown = np.maximum(gain, 0)
    value, where = float(2 ** np.quantile(gain, 0.95)), _where(grown)
    says = (
        f"Detail grew to {times(value)} and more in one place of twenty{where}"
        if value > 1.3
        else f"No place gained detail ({times(value)})"
    )
    return Reading(value, f"{says}.", _spread(2**grown, pair), 4.0)


def _lost(pair: Pair) -> Reading:
    seen = _look(pair)
    if _flat(seen.before):
        return Reading(None, "Not measured: the image before has no detail to lose.")
    gain = seen.gain
    left = np.minimum(gain, 0)
    value, where = float(2 ** np.quantile(gain, 0.05)), _where(-left)
    says = (
        f"Detail fell to {times(value)} and less in one place of twenty{where}"
        if value < 0.77
        else f"No place lost detail ({times(value)})"
    )
    return Reading(value, f"{says}.", _spread(2**left, pair), 1.0)


def _uneven(pair: Pair) -> Reading:
    seen = _look(pair)
    if _flat(seen.before) and _flat(seen.after):
        return Reading(None, _NO_DETAIL)
    value = float(seen.gain.std())
    how = "evenly" if value < 0.3 else "unevenly" if value < 0.8 else "very unevenly"
    return Reading(value, f"Detail changed {how} over the image (by {value:.2f} octaves from place to place).")


def _standing_out(pair: Pair) -> Reading:
    if not _anything_changed(pair):
        return Reading(None, _NO_CHANGE)
    seen = _look(pair)
    if _flat(seen.after):
        return Reading(None, "Not measured: the image after has no detail.")
    detail = np.abs(seen.after.detail)
    change = _resized(pair.difference, seen.after.grey.shape[::-1])
    weight = _resized(np.minimum(change / np.float32(_FULL), 1), detail.shape[::-1])
    rest = 1 - weight
    outside = cv2.sumElems(detail * rest)[0] / max(cv2.sumElems(rest)[0], 1e-6)
    prior = _LEAST_CHANGE * weight.size
    inside = (cv2.sumElems(detail * weight)[0] + prior * outside) / (cv2.sumElems(weight)[0] + prior)
    value = float((inside + _FAINT) / (outside + _FAINT))
    if value > 1.25:
        says = f"What changed stands out: {times(value)} the detail of the rest"
    elif value < 0.8:
        says = f"What changed is calmer than the rest ({times(value)} its detail)"
    else:
        says = f"What changed has about as much detail as the rest ({times(value)})"
    return Reading(value, f"{says}.")


def _foreign(pair: Pair) -> Reading:
    nearest = _compared(pair).nearest
    value = float(np.sort(nearest, axis=None)[-_STRANGEST:].mean())
    says = f"The strangest blocks differ by {value:.1f} from everything in the input{_where(nearest)}"
    if value < 1:
        says = f"Every block has its like in the input (distance {value:.1f} at most)"
    return Reading(value, f"{says}.", _spread(nearest, pair), 4.0)


def _redrawn(pair: Pair) -> Reading:
    replaced = _compared(pair).replaced
    value = float(np.quantile(replaced, 0.95))
    says = f"One block in twenty differs by {value:.1f} or more from what was there{_where(replaced)}"
    return Reading(value, f"{says}.")


def _patch(pair: Pair) -> Reading:
    colour = _compared(pair).colour
    value = float(colour.max())
    return Reading(value, f"The block that changed its colour most did so by ΔE {value:.0f}{_where(colour)}.")


def _small_shapes(pair: Pair) -> Reading:
    if not _anything_changed(pair):
        return Reading(None, _NO_CHANGE)
    seen = _look(pair)
    change = seen.after.grey - seen.before.grey
    total = cv2.norm(change, cv2.NORM_L2SQR) + change.size * 1e-5  # a change below one level of 255 is none
    quarter = cv2.pyrDown(cv2.pyrDown(change))
    value = float(np.sqrt(16 * cv2.norm(_band(quarter, cv2.pyrDown(quarter)), cv2.NORM_L2SQR) / total))
    return Reading(value, f"{percent(value)} of the change is at the size of small shapes (about 8 px of 512).")


def _busied(pair: Pair) -> Reading:
    before, after = (_deviation(image) for image in _look(pair)[:2])
    there = (before < _CALM) & (after > _TEXTURED_AFTER)
    value = float(there.mean())
    says = f"{percent(value)} of the image was calm and is not any more{_where(there)}"
    return Reading(value, f"{says if value else 'No calm area was disturbed'}.")


def _wiped(pair: Pair) -> Reading:
    before, after = (_deviation(image) for image in _look(pair)[:2])
    textured = before > _TEXTURED
    there = textured & (after < _CALM_AFTER)
    value = float(there.sum() / (textured.sum() + _LEAST_TEXTURED * there.size))
    says = f"{percent(value)} of the textured area was wiped calm{_where(there)}"
    return Reading(value, f"{says if value else 'No texture was wiped away'}.")


def _whitened(pair: Pair) -> Reading:
    seen = _look(pair)
    before, after = (float((one.grey > _WHITE).mean()) for one in (seen.before, seen.after))
    return Reading(after - before, f"{percent(after)} of the image is nearly white, {percent(before)} was before.")


def _accents(pair: Pair) -> Reading:
    seen = _look(pair)
    for which, one in (("before", seen.before), ("after", seen.after)):
        if _flat(one):
            return Reading(None, f"Not measured: the image {which} has no detail, and so no accents.")
    before, after = (_kurtosis(one.grey) for one in (seen.before, seen.after))
    value = after / before
    says = "sharper accents" if value > 1.25 else "softer accents" if value < 0.8 else "accents as before"
    return Reading(value, f"The image has {says} (kurtosis of the detail {times(value)} the input's).")


def _shapes(pair: Pair) -> Reading:
    seen = _look(pair)
    height, width = (max(11, side // 4) for side in seen.before.half.shape)
    values = similarity(*(_resized(one.half, (width, height)) for one in (seen.before, seen.after)))[0]
    value = float(np.quantile(values, 0.1))
    says = f"Coarse shapes are kept by {value:.2f} in the tenth of the image that kept them least"
    return Reading(value, f"{says}{_where(np.maximum(0.6 - values, 0))}.")


def _look(pair: Pair) -> _Seen:
    if pair not in _seen:
        size = _grid(pair, min(SIDE, max(pair.before.shape[:2])))
        one, other = (_layers(_grey(_resized(image, size))) for image in _images(pair))
        before, after = (_resized(np.abs(image.detail), _grid(pair, _PLACES)) + _FAINT for image in (one, other))
        _seen[pair] = _Seen(one, other, np.log2(after / before))
    return _seen[pair]


def _compared(pair: Pair) -> _Blocks:
    if pair not in _blocks:
        seen, grid = _look(pair), _grid(pair, _BLOCKS)
        colours = [lab(_resized(image, grid)) for image in _images(pair)]
        one, other = (
            np.stack([*cv2.split(colour / np.float32(_LAB_STEP)), *_texture(image, grid)], axis=-1)
            for colour, image in zip(colours, (seen.before, seen.after), strict=True)
        )
        replaced = np.sqrt(((one - other) ** 2).sum(axis=2))
        nearest = _nearest(*(blocks.reshape(-1, blocks.shape[2]) for blocks in (one, other))).reshape(replaced.shape)
        _blocks[pair] = _Blocks(ciede2000(*colours), replaced, np.minimum(nearest, replaced))
    return _blocks[pair]


def _nearest(one: Floats, other: Floats) -> Floats:
    """How far each of the other blocks is from the nearest of the one image's."""
    # |a − b|² = |a|² + (|b|² − 2ab): a single product of matrices, 1 being appended to a and |b|² to −2b.
    longer = np.hstack([-2 * one, (one * one).sum(axis=1, keepdims=True)])
    ones = np.hstack([other, np.ones((len(other), 1), np.float32)])
    # A few rows at a time: for larger products NumPy's library wakes a thread on every core, which costs more.
    least = np.concatenate([(ones[at : at + _ROWS] @ longer.T).min(axis=1) for at in range(0, len(ones), _ROWS)])
    return np.asarray(np.sqrt(np.maximum((other * other).sum(axis=1) + least, 0)), np.float32)


def _texture(image: _Layers, grid: tuple[int, int]) -> list[Floats]:
    """Of each block, how much slope there is in each of eight directions (modulo 180°), and how much detail."""
    dx, dy = cv2.Sobel(image.half, cv2.CV_32F, 1, 0, scale=1 / 8), cv2.Sobel(image.half, cv2.CV_32F, 0, 1, scale=1 / 8)
    slope, angle = cv2.cartToPolar(dx, dy)
    which = (angle * np.float32(_DIRECTIONS / np.pi)).astype(np.uint8) % _DIRECTIONS
    parts = [np.log1p(_SLOPE_GAIN * _resized(slope * (which == one), grid)) for one in range(_DIRECTIONS)]
    return parts + [np.log1p(_DETAIL_GAIN * _resized(np.abs(band), grid)) for band in (image.fine, image.detail)]


def _layers(grey: Floats) -> _Layers:
    half = np.asarray(cv2.pyrDown(grey), np.float32)
    return _Layers(grey, half, _band(grey, half), _band(half, cv2.pyrDown(half)))


def _band(grey: Array, coarser: Array) -> Floats:
    return np.asarray(grey - cv2.pyrUp(coarser, dstsize=grey.shape[::-1]), np.float32)


def _deviation(image: _Layers) -> Floats:
    """The standard deviation of the grey values around each pixel, at half the size."""
    mean = cv2.blur(image.half, _AROUND)
    return np.sqrt(np.maximum(cv2.blur(image.half * image.half, _AROUND) - mean * mean, 0))


def _kurtosis(grey: Floats) -> float:
    squares = cv2.Laplacian(grey, cv2.CV_32F) ** 2
    mean = float(squares.mean())
    return (float((squares * squares).mean()) + 1e-9) / (mean * mean + 1e-9)


def _flat(image: _Layers) -> bool:
    return float(np.abs(image.detail).max()) < float(_FAINT)


def _anything_changed(pair: Pair) -> bool:
    return float(pair.difference.max()) >= _SEEN


def _images(pair: Pair) -> tuple[Bytes, Bytes]:
    if pair.whole:
        return pair.before, pair.aligned
    after = pair.before.copy()
    cv2.copyTo(pair.aligned, pair.valid.view(np.uint8), after)
    return pair.before, after


def _grey(rgb: Bytes) -> Floats:
    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.float32) / np.float32(255)


def _grid(pair: Pair, side: int) -> tuple[int, int]:
    """(width, height) of the image before with this longer side."""
    height, width = pair.before.shape[:2]
    scale = side / max(height, width)
    return max(1, round(width * scale)), max(1, round(height * scale))


def _resized(values: Array, size: tuple[int, int]) -> Array:
    return values if values.shape[1::-1] == size else np.asarray(cv2.resize(values, size, interpolation=cv2.INTER_AREA))


def _where(weight: Array) -> str:
    found = place(weight)
    return "" if found in (EVERYWHERE, NOWHERE) else f", {mostly(found)}"


def _spread(values: Array, pair: Pair) -> Floats:
    """A small map at the size of the image before."""
    height, width = pair.before.shape[:2]
    return np.asarray(cv2.resize(np.asarray(values, np.float32), (width, height), interpolation=cv2.INTER_LINEAR))


def _sized(read: Callable[[Pair], Reading]) -> Callable[[Pair], Reading]:
    def reading(pair: Pair) -> Reading:
        for which, image in (("before", pair.before), ("after", pair.after)):
            height, width = image.shape[:2]
            if min(height, width) < MIN_SIDE:
                return Reading(None, f"Not measured: the image {which} is too small ({width}×{height} px).")
        return read(pair)

    return reading


def _instrument(
    name: str, about: str, read: Callable[[Pair], Reading], unit: str = "", *, better: Better = "", cheap: bool = False
) -> Instrument:
    return pair_instrument(f"naturalness.{name}", about, _sized(read), unit=unit, better=better, cheap=cheap)


INSTRUMENTS: tuple[Instrument, ...] = (
    _instrument(
        "detail_gained",
        "How much stronger detail of 2–4 px (of 512) became at the place in twenty where it grew most (95 % quantile "
        "over places).",
        _gained,
        "×",
    ),
    _instrument(
        "detail_lost",
        "What is left of detail of 2–4 px (of 512) at the place in twenty where it fell most (5 % quantile over "
        "places).",
        _lost,
        "×",
        better="higher",
        cheap=True,
    ),
    _instrument(
        "detail_uneven",
        "Standard deviation over places of the change of detail, in octaves (1 is a factor of two).",
        _uneven,
        "octaves",
    ),
    _instrument(
        "standing_out",
        "Detail of the image after where it changed, as a multiple of that where it did not (each pixel weighs by its "
        "ΔE, up to 15).",
        _standing_out,
        "×",
    ),
    _instrument(
        "foreign",
        "How far the five strangest blocks are from the most similar block anywhere in the input, by colour (ΔE 15 is "
        "1) and logarithmic strength of texture in eight directions.",
        _foreign,
    ),
    _instrument(
        "redrawn",
        "How far blocks are from what was in their place, by the same measure as `foreign`: 95 % quantile.",
        _redrawn,
    ),
    _instrument("colour_patch", "The largest ΔE between the mean colours of a block before and after.", _patch, "ΔE"),
    _instrument(
        "small_shapes",
        "Share of the change (root of its energy in grey) that lies in the octave of about 8 px of 512.",
        _small_shapes,
        "share",
    ),
    _instrument(
        "busied",
        "Share of the image that was calm (standard deviation of grey within 14 px of 512 below 0.02 of the range) and "
        "has texture (above 0.04).",
        _busied,
        "share",
    ),
    _instrument(
        "wiped",
        "Share of the textured area (standard deviation above 0.06) that has become calm (below 0.03).",
        _wiped,
        "share",
    ),
    _instrument("whitened", "Growth of the share of nearly white pixels (L* above 97).", _whitened, "share"),
    _instrument(
        "accents",
        "Kurtosis of the Laplacian after, as a multiple of that before: above 1 detail is rarer and harder.",
        _accents,
        "×",
    ),
    _instrument(
        "coarse_shapes",
        "SSIM at an eighth of the size in the tenth of the image that kept it least (10 % quantile).",
        _shapes,
    ),
)
