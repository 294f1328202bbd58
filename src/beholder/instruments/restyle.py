"""Restyle: whether a photo redrawn in a style is still that photo, and whether the style reached all of it.

Two things are compared, each once for a pair:

- The *composition*: the directions of edges, place by place, at three coarse sizes. A direction is taken modulo 180°
  (as a double angle), so that color, inverted light, flat paint and drawn lines do not change it; edges that were
  redrawn a few pixels aside are smoothed over.
- The *surface*: blocks of a 32nd of the longer side, on images of at most 512 px, so that results hardly depend on the
  resolution. Compared are the mean color and the fine detail of each block. A block without detail in the photo (sky, a
  white wall) cannot show whether it was left as it was: where that is asked, only textured blocks count.

The limits were set on forty photographs in twelve restyles made with OpenCV (stylised, pencil, poster, halftone, pop
art, line art, neon …), against other photographs and against mere recompression; they lie between the two. Restyles
made by a model, which also redraw shapes, were not available.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import NamedTuple

import cv2
import numpy as np

from beholder.instruments.instrument import (
    Array,
    Bools,
    Bytes,
    Floats,
    InstrumentFamily,
    PairReader,
    PairReading,
    format_factor,
    format_percent,
    scale_to_side,
)
from beholder.instruments.pair import ImagePair, once_per_pair, require_min_side
from beholder.instruments.pixel_metrics import ciede2000, to_lab
from beholder.instruments.regions import Box, LocatedWeight, add_mostly, locate, name_place

MIN_COMPOSITION_KEPT = 0.40  # structure_kept: 95 % of the harshest restyles (pencil hatching) have 0.46 and more
MAX_COMPOSITION_LOST = 0.20  # of 780 pairs of unrelated photographs 97.7 % have less; the highest has 0.396

MIN_STRENGTH = 0.10  # strength: JPEG of quality 60 has 0.02, light grain 0.03, 10 levels more light 0.05
MAX_STRENGTH = 0.95  # hardly a block has anything of its colour or detail left

MIN_EVENNESS = 0.90  # evenness: from here on the style has reached the whole image
MIN_UNTOUCHED_SEEN = 0.01  # untouched: from here on a person finds the patch

MIN_SIDE = 32  # pixels; below there is neither composition nor surface to speak of

_SURFACE_SIDE = 512  # longer side of the images whose surface is looked at
_BLOCKS_PER_SIDE, _MIN_BLOCK_SIDE = 32, 8  # blocks along it, unless they had fewer than this many pixels a side
_MAX_GRAIN = 0.01  # standard deviation of detail, of a range of 1, up to which it is no texture but noise
_MIN_TEXTURE = 0.002  # half a level of 255: what is fainter is none
_NOISE_POWER = np.float32(_MAX_GRAIN**2)
_MAX_SAME_DELTA_E, _MIN_SAME_DETAIL = 3.0, 0.8  # ΔE below which, and detail kept above which, a block is untouched
_MIN_QUARTERS = 0.7  # of a block's four quarters: three
_FULL_COLOR_CHANGE = 30.0  # ΔE at which nothing of a colour is left: about what unrelated photographs differ by
_MIN_REACHED = 0.25  # of the strength that the most changed tenth of the blocks has

_COMPOSITION_SIDES = (256, 128, 64)  # longer sides at which the composition is looked at
_LOSS_MAP_SIDE = 32  # longer side of the map of what was lost
_MIN_EDGE_POWER = 1e-3  # mean power of a direction field


class _Composition(NamedTuple):
    """How much of the composition is kept.

    Attributes:
        kept: The correlation of the edges, −1 to 1; None where before has none.
        lost: A small map of how much of before's edges is gone, 0–1.
    """

    kept: float | None
    lost: Floats


class _Surface(NamedTuple):
    """What became of each block.

    Attributes:
        color: ΔE between the mean colors.
        detail: How much of the detail is kept, 0–1.
        fine: The standard deviation of fine detail, before and after.
        coarse: The standard deviation of coarser detail, before and after.
        valid: Whether the block lies in both images.
        textured: Whether before has texture there.
        untouched: Whether that texture was left as it was.
    """

    color: Floats
    detail: Floats
    fine: tuple[Floats, Floats]
    coarse: tuple[Floats, Floats]
    valid: Bools
    textured: Bools
    untouched: Bools

    @property
    def strength(self) -> Floats:
        """Half for the color that is gone, half for the detail that is gone."""
        gone = np.minimum(self.color / np.float32(_FULL_COLOR_CHANGE), 1) + (1 - self.detail)
        return np.asarray(gone / 2, np.float32)


_TOO_SMALL = f"The image {{which}} is too small ({{width}}×{{height}}): restyles have {MIN_SIDE} px a side."


INSTRUMENTS = InstrumentFamily("restyle", partial(require_min_side, min_side=MIN_SIDE, sentence=_TOO_SMALL))


def _require_surface(*, textured: bool) -> Callable[[PairReader], PairReader]:
    """Guard a reading: it needs a block that lies in both images and, if `textured`, texture in the photo."""

    def guard(read: PairReader) -> PairReader:
        @wraps(read)
        def reading(pair: ImagePair) -> PairReading:
            surface = _compare_surfaces(pair)
            if not surface.valid.any():
                return PairReading(None, "Not measured: no whole block lies in both images.")
            if textured and not surface.textured.any():
                return PairReading(None, "The image before has no texture by which untouched photo could be told.")
            return read(pair)

        return reading

    return guard


@INSTRUMENTS.pair("structure_kept", unit="share", better="higher")
def _read_structure_kept(pair: ImagePair) -> PairReading:
    """How far the composition survived the restyle: the correlation of edge directions at three coarse sizes, whatever
    became of colour and texture; about 0 for another photo, 1 for the same drawing.
    """
    kept, lost = _compare_compositions(pair)
    if kept is None:
        return PairReading(None, "The image before has no edges whose place could be kept.")
    kept, boxes = max(0.0, kept), tuple[Box, ...]()
    agrees = f"the layout of the edges agrees to {format_percent(kept)}"
    if kept < MAX_COMPOSITION_LOST:
        sentence = f"The composition is lost: {agrees}, as in unrelated photos."
    else:
        place, boxes = locate(lost) if kept < 0.9 else LocatedWeight("")
        where = f"; what is lost is {add_mostly(place)}" if place else ""
        how_much = "The" if kept >= MIN_COMPOSITION_KEPT else "Only a part of the"
        sentence = f"{how_much} composition is kept: {agrees}{where}."
    return PairReading(kept, sentence, pair.upscale_map(1 - lost), 1.0, boxes)


@INSTRUMENTS.pair(
    "strength",
    "How much of the photo's surface was changed, half by colour and half by detail: 0 is identical, 1 has no "
    f"colour and no detail left where it was; under {MIN_STRENGTH} is too little, over {MAX_STRENGTH} too much.",
    unit="share",
)
@_require_surface(textured=False)
def _read_strength(pair: ImagePair) -> PairReading:
    surface = _compare_surfaces(pair)
    value = float(surface.strength[surface.valid].mean())
    color = float(np.median(surface.color[surface.valid]))
    sentence = f"{format_percent(value)} of the photo's surface was changed: colours by ΔE {color:.1f} in the median"
    if surface.textured.any():
        sentence += f", and {format_percent(float(surface.detail[surface.textured].mean()))} of the detail is left"
    if pair.identical:
        sentence = "Nothing was changed: the images are identical"
    elif value < MIN_STRENGTH:
        sentence += f"; under {format_percent(MIN_STRENGTH)} that is too little to be seen as a restyle"
    elif value > MAX_STRENGTH:
        sentence += f"; over {format_percent(MAX_STRENGTH)} that is too much for the photo to be known by its surface"
    return PairReading(value, f"{sentence}.", pair.upscale_map(surface.strength), 1.0)


@INSTRUMENTS.pair("evenness", unit="share", better="higher")
@_require_surface(textured=True)
def _read_evenness(pair: ImagePair) -> PairReading:
    """The share of the photo's textured blocks that the style reached: changed at least a quarter as much as the most
    changed tenth.
    """
    surface = _compare_surfaces(pair)
    blocks = surface.strength
    most = float(np.quantile(blocks[surface.textured], 0.9))
    if most < MIN_STRENGTH:
        return PairReading(
            None,
            f"Too little was changed (strength {format_percent(most)} at most) "
            "to say whether a style reached all of it.",
        )
    reached = surface.textured & (blocks >= _MIN_REACHED * most)
    value = float(reached.sum() / surface.textured.sum())
    if value < 0.5:
        sentence = (
            f"The style reached only {format_percent(value)} of the textured blocks, {add_mostly(name_place(reached))}."
        )
    elif value < 1:
        rest = add_mostly(name_place(surface.textured & ~reached))
        sentence = f"The style reached {format_percent(value)} of the textured blocks; the rest is {rest}."
    else:
        sentence = "The style reached every textured block."
    return PairReading(value, sentence)


@INSTRUMENTS.pair(
    "untouched",
    "The share of the photo's textured blocks that were left as they were: mean colour within "
    f"ΔE {_MAX_SAME_DELTA_E:g} and {format_percent(_MIN_SAME_DETAIL)} of the detail in place.",
    unit="share",
    better="lower",
)
@_require_surface(textured=True)
def _read_untouched(pair: ImagePair) -> PairReading:
    surface = _compare_surfaces(pair)
    left = surface.untouched
    value = float(left.sum() / surface.textured.sum())
    boxes: tuple[Box, ...] = ()
    if value == 0:
        sentence = "No patch of the photo was left as it was."
    elif value < MIN_UNTOUCHED_SEEN:
        sentence = f"Hardly anything of the photo was left as it was: {format_percent(value)} of the textured blocks."
    else:
        place, boxes = locate(left)
        where = add_mostly(place)
        sentence = f"{format_percent(value)} of the textured blocks are photo that the style did not touch, {where}."
    return PairReading(value, sentence, pair.upscale_map(left, cv2.INTER_NEAREST), 1.0, boxes)


@INSTRUMENTS.pair("texture_change", unit="share")
@_require_surface(textured=False)
def _read_texture_change(pair: ImagePair) -> PairReading:
    """How much the amount of fine and coarser texture differs, block by block: 0 where it is the same, 1 where only one
    image has any.
    """
    surface = _compare_surfaces(pair)
    bands = [np.abs(after - before) / (before + after + _MAX_GRAIN) for before, after in (surface.fine, surface.coarse)]
    blocks = np.asarray((bands[0] + bands[1]) / 2 * surface.valid, np.float32)
    value = float(blocks[surface.valid].mean())
    if max(float(band.max()) for band in (*surface.fine, *surface.coarse)) < _MIN_TEXTURE:
        return PairReading(None, "Neither image has any texture.")
    if value < 0.05:
        sentence = f"There is as much texture as the photo had, block by block (difference {format_percent(value)})."
    else:
        where = add_mostly(name_place(blocks))
        sentence = f"The amount of texture differs by {format_percent(value)} in the mean block, {where}."
    return PairReading(value, sentence, pair.upscale_map(blocks), 1.0)


@INSTRUMENTS.pair("texture_ratio", unit="×")
@_require_surface(textured=True)
def _read_texture_ratio(pair: ImagePair) -> PairReading:
    """How strong fine texture is against the photo's, in the median textured block; below 1 is flatter."""
    surface = _compare_surfaces(pair)
    before, after = surface.fine
    value = float(np.median(after[surface.textured] / before[surface.textured]))
    word = "flatter than" if value < 0.8 else "busier than" if value > 1.25 else "about as busy as"
    return PairReading(
        value, f"Fine texture is {format_factor(value)} the photo's in the median textured block: {word} the photo."
    )


@once_per_pair
def _compare_compositions(pair: ImagePair) -> _Composition:
    """Correlate the direction fields: the mean over three sizes, each made from the next larger one.

    The means of the fields are subtracted first: most photographs have more vertical and horizontal edges than slanting
    ones, and would agree by that alone.
    """
    kept, losses = [], []
    one, other = pair.luma
    valid = None if pair.fully_valid else pair.valid.astype(np.float32)
    grid = scale_to_side(pair.before.shape, _LOSS_MAP_SIDE)
    for size in _COMPOSITION_SIDES:
        one, other = _shrink(one, size), _shrink(other, size)
        fields = [_compute_directions(gray) for gray in (one, other)]
        weight: Bools | None = None
        if valid is not None:
            valid = _shrink(valid, size)
            weight = _downscale_mean(valid, fields[0][0].shape[::-1]) > 0.99
        (x1, y1), (x2, y2) = ([_center_field(part, weight) for part in field] for field in fields)
        power, other_power, common = x1 * x1 + y1 * y1, x2 * x2 + y2 * y2, x1 * x2 + y1 * y2
        had_in_all, has_in_all = float(power.sum()), float(other_power.sum())
        if had_in_all < _MIN_EDGE_POWER * power.size:
            continue
        blank = has_in_all < _MIN_EDGE_POWER * power.size
        kept.append(0.0 if blank else float(common.sum()) / float(np.sqrt(had_in_all * has_in_all)))
        had, has, same = (
            cv2.GaussianBlur(_downscale_mean(map_, grid), (3, 3), 1.0) for map_ in (power, other_power, common)
        )
        agreement = np.clip(same / (np.sqrt(had * has) + 1e-6), 0, 1)
        losses.append((1 - agreement) * np.minimum(had * power.size / had_in_all, 1))  # no edge was, none is lost
    if not kept:
        return _Composition(None, np.zeros(grid[::-1], np.float32))
    return _Composition(float(np.mean(kept)), np.asarray(np.mean(losses, axis=0), np.float32))


def _compute_directions(gray: Floats) -> tuple[Floats, Floats]:
    """Return the double-angle vectors of the edges (x, y), at half the size.

    Each is as long as the fourth root of the energy around it, so that a faint contour counts beside a strong one.
    """
    smooth = cv2.GaussianBlur(gray, (5, 5), 1.0)
    dx, dy = cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1)
    xx, yy, xy = dx * dx, dy * dy, dx * dy
    half = max(1, gray.shape[1] // 2), max(1, gray.shape[0] // 2)
    x, y, energy = (cv2.GaussianBlur(_downscale_mean(part, half), (5, 5), 1.0) for part in (xx - yy, xy + xy, xx + yy))
    root = np.sqrt(energy)
    length = root * np.sqrt(root) + np.float32(1e-4)  # energy to the power of 3/4; what is fainter is no edge
    return x / length, y / length


def _center_field(part: Floats, weight: Bools | None) -> Floats:
    """Subtract the mean where the weight is; `None` is everywhere."""
    if weight is None:
        return np.asarray(part - part.mean(), np.float32)
    return (part - part[weight].mean()) * weight if weight.any() else np.zeros_like(part)


@once_per_pair
def _compare_surfaces(pair: ImagePair) -> _Surface:
    side = min(_SURFACE_SIDE, max(pair.before.shape[:2]), max(pair.after.shape[:2]))  # no finer than either image is
    grid = scale_to_side(pair.before.shape, min(_BLOCKS_PER_SIDE, max(1, side // _MIN_BLOCK_SIDE)))
    grays = [np.asarray(cv2.GaussianBlur(_shrink(gray, side), (5, 5), 0.7), np.float32) for gray in pair.luma]
    halves = [_shrink(gray, max(1, side // 2)) for gray in grays]
    (fine1, fine2), (coarse1, coarse2) = ([_compute_detail(image) for image in images] for images in (grays, halves))
    # By quarters of blocks first: texture, unlike a contour that any style keeps, is in most of them.
    quarters = [
        _downscale_mean(product, (2 * grid[0], 2 * grid[1]))
        for product in (fine1 * fine1, fine2 * fine2, fine1 * fine2)
    ]
    textured = quarters[0] > _NOISE_POWER
    intact = textured & (_compute_kept(*quarters) > _MIN_SAME_DETAIL)
    power1, power2, common = (_downscale_mean(quarter, grid) for quarter in quarters)
    valid = _downscale_mean(pair.valid.astype(np.float32), grid) > 0.99
    color = _compute_color_difference(pair.before, pair.aligned, grid)
    return _Surface(
        color=color,
        detail=_compute_kept(power1, power2, common),
        fine=(np.sqrt(power1), np.sqrt(power2)),
        coarse=(
            np.sqrt(_downscale_mean(coarse1 * coarse1, grid)),
            np.sqrt(_downscale_mean(coarse2 * coarse2, grid)),
        ),
        valid=valid,
        textured=valid & (_downscale_mean(textured.astype(np.float32), grid) > _MIN_QUARTERS),
        untouched=valid
        & (_downscale_mean(intact.astype(np.float32), grid) > _MIN_QUARTERS)
        & (color < _MAX_SAME_DELTA_E),
    )


def _compute_detail(gray: Floats) -> Floats:
    return np.asarray(gray - cv2.GaussianBlur(gray, (9, 9), 2.0), np.float32)


def _compute_kept(power1: Floats, power2: Floats, common: Floats) -> Floats:
    """Return how much of the detail is in place and as strong as it was, 0–1; 1 where neither image has any."""
    return np.clip((2 * common + _NOISE_POWER) / (power1 + power2 + _NOISE_POWER), 0, 1)


def _compute_color_difference(before: Bytes, after: Bytes, grid: tuple[int, int]) -> Floats:
    one, other = (
        np.asarray(cv2.resize(_halve_to(image, grid), grid, interpolation=cv2.INTER_AREA)) for image in (before, after)
    )
    alike = (one == other).all(axis=2)  # where only rounding would make a difference
    return np.where(alike, np.float32(0), ciede2000(to_lab(one.astype(np.uint8)), to_lab(other.astype(np.uint8))))


def _downscale_mean(values: Floats, size: tuple[int, int]) -> Floats:
    """Scale down to a (width, height) by area averaging."""
    return np.asarray(cv2.resize(_halve_to(values, size), size, interpolation=cv2.INTER_AREA), np.float32)


def _halve_to(image: Array, size: tuple[int, int]) -> Array:
    """Halve an image as often as it stays at least this size: OpenCV halves four times as fast as it scales by area."""
    while all(side % 2 == 0 and side >= 2 * least for side, least in zip(image.shape[1::-1], size, strict=True)):
        half = image.shape[1] // 2, image.shape[0] // 2
        image = np.asarray(cv2.resize(image, half, interpolation=cv2.INTER_AREA))
    return image


def _shrink(image: Floats, side: int) -> Floats:
    """Scale down so that the longer side is at most `side`."""
    return image if max(image.shape[:2]) <= side else _downscale_mean(image, scale_to_side(image.shape, side))
