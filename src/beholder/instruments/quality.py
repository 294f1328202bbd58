"""Technical quality, of one image and of an output against its input.

Measured is what optics, sensors, codecs and upscalers leave behind.

A `measure_…` function takes gray values (Rec. 601 luma, H×W, uint8; here called levels) and returns a number, or the
reason why there is none, for a sentence ("Not measured: …").

For a comparison both images are scaled to the same longer side (that of the smaller one), since downscaling sharpens
and removes noise; only the coding grid and clipped pixels are measured in the original pixels. The output is measured
as it is, not warped over the input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from beholder.instruments.instrument import (
    Array,
    Better,
    Bytes,
    Instrument,
    InstrumentFamily,
    Measurement,
    PairReading,
    fold_docstring,
    format_factor,
    format_percent,
)
from beholder.instruments.pair import ImagePair, SingleImage, once_per_pair

MIN_SIDE = 24  # px; a smaller image has no block of pixels to look at
JPEG_BLOCK = 8  # px: the blocks that JPEG codes
QUANTIZATION_NOISE = 0.29  # levels: the standard deviation that rounding to whole levels alone has, and no image less

SOFT_SHARPNESS, SHARP_SHARPNESS = 0.25, 0.45  # sharpness of photographs blurred by 3 px and by 1.5 px at 512 px
HIGH_NOISE = 6.0  # levels: grain that is seen at a glance
HIGH_BLOCKINESS = 1.5  # the coding grid of JPEG at quality 30
HIGH_BANDING = 2.0  # levels
HIGH_HALOS = 0.08  # unsharp masking by once the detail
PRINT_PPI = 300
SCREEN_SIZE = (1920, 1080)

_MIN_RATIO_CHANGE, _MIN_DIFFERENCE = 0.1, 0.01  # smaller changes count as no change

_TOO_SMALL = f"an image under {MIN_SIDE} pixels on a side is too small"
_BLUR_LENGTH = 11  # px, as Crété et al. and scikit-image have it
_STRIP_ROWS = 128
_NOISE_BLOCK = 16
_CALM_SHARE = 0.2  # of the blocks, that show noise rather than texture
_CALM_BIAS = 1.05  # the calmest fifth of equally noisy blocks underestimates the noise by this factor
_MIN_BLOCK_LEVEL, _MAX_BLOCK_LEVEL = 8, 247  # mean levels of a block beyond which clipping has eaten its noise
_MAX_SMOOTH_RANGE = 24  # levels: a greater difference within a small window is an edge or texture, no smooth area
_SMOOTH_WINDOW = 17
_MIN_SMOOTH_SHARE = 0.01  # of the image
_MIN_EDGE_HEIGHT = 40  # levels, within 4 px: a step that is tall enough to have a halo
_MAX_GROUND_VARIATION = 0.3  # of the height of an edge: ground that varies less is even
_HALO_HEADROOM = 16  # levels between the ground and black or white that a halo needs
_MIN_EDGES, _MAX_EDGES = 40, 1500
_MAX_GRID_STEP = 16  # levels
_MIN_GRID_PERIOD = 4.0  # px: closer lines of the coding grid run into each other


def measure_sharpness(gray: Bytes) -> float | str:
    """Measure sharpness, 0 (blurred) to 1.

    How much of the change from pixel to pixel is removed by a blur over 11 px, along the axis where it is less: 1 − the
    blur effect of Crété, Dolmiere, Ladret and Nicolas 2007.
    """
    if min(gray.shape) < MIN_SIDE:
        return _TOO_SMALL
    ratios = []
    for lines in _scan_both_axes(gray):
        total, kept = 0.0, 0.0
        for top in _iterate_strips(lines.shape[0]):
            strip = lines[max(0, top - 1) : top + _STRIP_ROWS + 1]
            slope = cv2.Sobel(strip, cv2.CV_16S, 1, 0, borderType=cv2.BORDER_REFLECT)[1:-1]
            # The slope of the blurred image is the blurred slope: one filter less.
            blurred = cv2.blur(slope, (_BLUR_LENGTH, 1), borderType=cv2.BORDER_REFLECT)
            before, after = (np.abs(part[:, 2:-1]) for part in (slope, blurred))
            total += cv2.sumElems(before)[0]
            kept += cv2.sumElems(np.minimum(before, after))[0]
        if total < 0.1 * gray.size:
            return "the image is flat, without an edge that could be sharp"
        ratios.append((total - kept) / total)
    return float(min(ratios))


def measure_noise(gray: Bytes) -> float | str:
    """Measure the standard deviation of the noise in levels, at least that of rounding (0.29).

    Immerkær's operator (1996) in blocks of 16×16 px, of which the calmest fifth is used, so that texture does not
    count.
    """
    if min(gray.shape) < MIN_SIDE:
        return _TOO_SMALL
    height, width = (side // _NOISE_BLOCK for side in gray.shape)
    gray = gray[: height * _NOISE_BLOCK, : width * _NOISE_BLOCK]
    kernel = np.array([1, -2, 1], np.float32)
    response = np.abs(cv2.sepFilter2D(gray, cv2.CV_16S, kernel, kernel))
    deviation = np.sqrt(np.pi / 2) / 6 * _average_blocks(response, (width, height))
    level = _average_blocks(gray, (width, height))
    calm = deviation[(level > _MIN_BLOCK_LEVEL) & (level < _MAX_BLOCK_LEVEL)]
    if calm.size < 4:
        return "the image is black or white nearly everywhere, where noise cannot be seen"
    return max(QUANTIZATION_NOISE, float(np.quantile(calm, _CALM_SHARE)) * _CALM_BIAS)


def measure_blockiness(gray: Bytes, scale: float = 1.0) -> float | str:
    """Measure how much stronger the steps across the lines of an 8×8 coding grid are than those in between: 1 is no
    grid.

    Steps count up to 16 levels, so that edges of the picture do not hide those of the grid. The grid may begin
    anywhere, for pictures that were cropped after coding.

    Args:
        gray: The pixels.
        scale: The size of these pixels against the file's. The grid of a picture shrunk below a half cannot be seen.
    """
    if min(gray.shape) < MIN_SIDE:
        return _TOO_SMALL
    period = JPEG_BLOCK * scale
    if period < _MIN_GRID_PERIOD:
        return f"the image was shrunk to {scale:.0%} of its size to look at it, and a coding grid with it"
    phases = max(1, round(period))
    ratios = []
    for lines in _scan_both_axes(gray):
        steps = cv2.threshold(cv2.absdiff(lines[:, 1:], lines[:, :-1]), _MAX_GRID_STEP, 0, cv2.THRESH_TRUNC)[1]
        along = np.asarray(cv2.reduce(steps, 0, cv2.REDUCE_AVG, dtype=cv2.CV_32F)).ravel()
        at = np.floor((np.arange(along.size) + 1) / period % 1 * phases + 0.5).astype(int) % phases
        *others, strongest = sorted(along[at == phase].mean() for phase in range(phases))
        ratios.append((float(strongest), float(np.median(others))))
    strong, between = (sum(part) for part in zip(*ratios, strict=True))
    if strong < 0.02:
        return "the image is flat, and so is every block of it"
    return float(max(1.0, strong / max(between, 0.02)))


def measure_banding(gray: Bytes) -> float | str:
    """Measure the height, in levels, of the steps in which smooth areas rise: up to 1 is as smooth as eight bits allow,
    8 is a sky in 32 tones.

    A smooth area has at most 24 levels within 17 px. A step of two levels or more with two equal pixels on both sides
    is a contour; the result is the mean height of contours, weighted by height, times their share of all the rise
    there.
    """
    if min(gray.shape) < MIN_SIDE:
        return _TOO_SMALL
    box = np.ones((_SMOOTH_WINDOW, _SMOOTH_WINDOW), np.uint8)
    spread = cv2.subtract(cv2.dilate(gray, box), cv2.erode(gray, box))
    smooth = (spread <= _MAX_SMOOTH_RANGE) & (spread >= 2)
    if np.count_nonzero(smooth) < _MIN_SMOOTH_SHARE * smooth.size:
        return "no area of the image rises smoothly"
    rise, squares = 0.0, 0
    for lines, where in zip(_scan_both_axes(gray), _scan_both_axes(smooth.view(np.uint8)), strict=True):
        thin = _thin_lines(lines)
        lines, where = lines[thin], where[thin]
        step = np.asarray(cv2.absdiff(lines[:, 1:], lines[:, :-1]) * (where[:, 1:] & where[:, :-1]))
        rise += cv2.sumElems(step)[0]
        even = lines[:, 1:] == lines[:, :-1]
        twice = even[:, 1:] & even[:, :-1]
        heights = step[:, 2:-2][(step[:, 2:-2] >= 2) & twice[:, :-3] & twice[:, 3:]].astype(np.int64)
        squares += int((heights * heights).sum())
    return squares / max(rise, 1.0)


def measure_halos(gray: Bytes) -> float | str:
    """Measure how far pixels beside a tall edge overshoot the even ground behind them, as a share of the edge's height.

    The median over edges: 0 is none, 0.1 is seen as a fringe. Measured are vertical and horizontal edges of at least 40
    levels within 4 px whose ground, 6 to 9 px away on both sides, is even.
    """
    if min(gray.shape) < MIN_SIDE:
        return _TOO_SMALL
    shares = np.concatenate([_measure_overshoots(lines[_thin_lines(lines)]) for lines in _scan_both_axes(gray)])
    if shares.size < _MIN_EDGES:
        return "the image has too few clear edges on even ground"
    return max(0.0, float(np.median(shares)))


def measure_clipping(rgb: Bytes) -> tuple[float, float]:
    """Measure the shares of the pixels that are white (all channels ≥ 254) and black (all ≤ 1)."""
    red, green, blue = cv2.split(rgb)
    white = np.count_nonzero(cv2.min(cv2.min(red, green), blue) >= 254)
    black = np.count_nonzero(cv2.max(cv2.max(red, green), blue) <= 1)
    pixels = rgb.shape[0] * rgb.shape[1]
    return white / pixels, black / pixels


def _measure_overshoots(lines: Bytes) -> Array:
    """Return for tall edges across the lines the overshoot of each side as a share of the height."""
    reach = 10
    lines = np.ascontiguousarray(lines)
    steep = np.asarray(cv2.absdiff(lines[:, 2:], lines[:, :-2]), np.uint8)  # of all columns but the first and the last
    inner = steep[:, reach - 1 : 1 - reach]
    top = (
        (inner >= _MIN_EDGE_HEIGHT // 2)
        & (inner >= steep[:, reach - 2 : -reach])
        & (inner > steep[:, reach : steep.shape[1] - reach + 2])
    )
    edges = np.flatnonzero(top)
    if not edges.size:
        return np.empty(0)
    if edges.size > _MAX_EDGES:
        edges = edges[np.linspace(0, edges.size - 1, _MAX_EDGES).astype(int)]
    rows, columns = np.divmod(edges, top.shape[1])
    middle = rows * lines.shape[1] + columns + reach
    profile = lines.ravel()[middle + np.arange(-9, 10)[:, None]].astype(np.float32)  # a column for each edge
    profile = np.where(profile[10] > profile[8], profile, profile[::-1])  # dark on top
    left, right = profile[:4], profile[-4:]
    low, high = left.mean(axis=0), right.mean(axis=0)
    height = high - low
    variation = np.maximum(np.ptp(left, axis=0), np.ptp(right, axis=0))
    even = (variation < _MAX_GROUND_VARIATION * height) & (height >= _MIN_EDGE_HEIGHT)
    dip, peak = low - profile[4:10].min(axis=0), profile[9:15].max(axis=0) - high
    # Ground that is itself black or white has no headroom for a halo and is left out.
    dark_side, light_side = even & (low > _HALO_HEADROOM), even & (high < 255 - _HALO_HEADROOM)
    return np.concatenate([dip[dark_side] / height[dark_side], peak[light_side] / height[light_side]])


def _scan_both_axes(gray: Bytes) -> tuple[Bytes, Bytes]:
    """Return the rows of pixels, and the columns as rows."""
    return gray, np.asarray(cv2.transpose(gray), np.uint8)


def _iterate_strips(lines: int) -> range:
    """Return where strips begin that fit into the CPU cache: all lines of up to 512, else evenly spread strips."""
    return range(0, lines, _STRIP_ROWS * -(-lines // (4 * _STRIP_ROWS)))


def _thin_lines(lines: Bytes) -> slice:
    """Select at most 300 of the lines, evenly spread: neighbors are alike."""
    return slice(None, None, -(-lines.shape[0] // 300))


def _average_blocks(values: Array, grid: tuple[int, int]) -> Array:
    return np.asarray(cv2.resize(values, grid, interpolation=cv2.INTER_AREA), np.float64)


@dataclass(frozen=True, slots=True)
class _QualityInput:
    """The pixels of one image.

    Attributes:
        rgb: As they came.
        resized_gray: Gray levels at the size of the comparison.
        gray: Gray levels as they came.
        scale: The size of these pixels against the file's.
    """

    rgb: Bytes
    resized_gray: Bytes
    gray: Bytes
    scale: float


@dataclass(frozen=True, slots=True)
class _QualityMeasure:
    """A measure of one image, and how it is described.

    Attributes:
        by_difference: Whether two images are compared by the difference of the values, not by their ratio.
        less_more_words: How to call an output with less, and with more, than the input.
    """

    name: str
    about: str
    read: Callable[[_QualityInput], float | str]
    describe: Callable[[float], str]
    less_more_words: tuple[str, str]
    unit: str = ""
    better: Better = "lower"
    by_difference: bool = False
    cheap: bool = True


def _make_input(picture: SingleImage, side: int | None = None) -> _QualityInput:
    compared = gray = picture.gray
    if side is not None and max(gray.shape) > side:
        height, width = (max(1, round(length * side / max(gray.shape))) for length in gray.shape)
        compared = np.asarray(cv2.resize(gray, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    return _QualityInput(picture.pixels, compared, gray, min(1.0, max(gray.shape) / max(picture.size)))


@once_per_pair
def _get_pair_inputs(pair: ImagePair) -> tuple[_QualityInput, _QualityInput]:
    side = min(max(pair.before.shape[:2]), max(pair.after.shape[:2]))  # no finer than either image is
    before, after = pair.images()
    return _make_input(before, side), _make_input(after, side)


def _make_image_instrument(measure: _QualityMeasure) -> Instrument:
    name = f"quality.{measure.name}"

    def read(picture: SingleImage) -> Measurement:
        value = measure.read(_make_input(picture))
        if isinstance(value, str):
            return Measurement(name, None, measure.unit, measure.better, f"Not measured: {value}.")
        return Measurement(name, value, measure.unit, measure.better, f"{measure.describe(value)}.")

    return Instrument(name, measure.about, read, "image", measure.cheap)


def _add_change_instrument(measure: _QualityMeasure) -> None:
    unit = measure.unit if measure.by_difference else "×"

    def read(pair: ImagePair) -> PairReading:
        values = [measure.read(image) for image in _get_pair_inputs(pair)]
        for which, value in zip(("before", "after"), values, strict=True):
            if isinstance(value, str):
                return PairReading(None, f"Not measured: of the image {which}, {value}.")
        before, after = (float(value) for value in values)
        change = after - before if measure.by_difference else after / before
        description = measure.describe(after)
        if after == before:
            return PairReading(change, f"{description}, as in the input.")
        less, more = measure.less_more_words
        small = abs(change) < _MIN_DIFFERENCE if measure.by_difference else abs(change - 1) < _MIN_RATIO_CHANGE
        word = "about as in the input" if small else less if after < before else more
        how = (
            f"{_format_level(before, measure.unit)} in the input"
            if measure.by_difference
            else f"{format_factor(change)} the input's"
        )
        return PairReading(change, f"{description}, {how}: {word}.")

    comparison = "after minus before" if measure.by_difference else "after, as a multiple of before"
    about = f"{measure.about.removesuffix('.')}: {comparison}, both at the size of the smaller image."
    if measure.name in ("blockiness", "clipping"):
        about = f"{measure.about.removesuffix('.')}: {comparison}."
    INSTRUMENTS.pair(
        f"{measure.name}_change", about, unit=unit, better=measure.better, cheap=measure.cheap, needs_registration=False
    )(read)


def _format_level(value: float, unit: str) -> str:
    return format_percent(value) if unit == "share" else f"{value:.1f}"


_MEASURES: list[_QualityMeasure] = []


def _describes(
    name: str, read: Callable[[_QualityInput], float | str], less_more_words: tuple[str, str], **options: Any
) -> Callable[[Callable[[float], str]], Callable[[float], str]]:
    """Return a decorator that adds a measure: the function describes its values, the docstring what it is."""

    def add(describe: Callable[[float], str]) -> Callable[[float], str]:
        _MEASURES.append(_QualityMeasure(name, fold_docstring(describe), read, describe, less_more_words, **options))
        return describe

    return add


@_describes("sharpness", lambda image: measure_sharpness(image.resized_gray), ("softer", "sharper"), better="higher")
def _describe_sharpness(value: float) -> str:
    """Sharpness, 0–1: the share of the change from pixel to pixel that a blur over 11 px takes away (1 − the blur
    effect of Crété et al. 2007); noise counts as sharp.
    """
    word = "soft" if value < SOFT_SHARPNESS else "sharp" if value > SHARP_SHARPNESS else "fairly sharp"
    return f"Sharpness {value:.2f} ({word})"


@_describes("noise", lambda image: measure_noise(image.resized_gray), ("less noise", "more noise"), unit="levels")
def _describe_noise(value: float) -> str:
    """Standard deviation of the noise in levels of 255 (Immerkær's operator in the calmest fifth of 16×16 blocks;
    0.29 is what rounding has).
    """
    word = "strong grain" if value > HIGH_NOISE else "hardly any" if value < 1.5 else "some grain"
    return f"Noise of {value:.1f} levels ({word})"


@_describes(
    "blockiness", lambda image: measure_blockiness(image.gray, image.scale), ("less blocky", "blockier"), unit="×"
)
def _describe_blockiness(value: float) -> str:
    """Mean step across the lines of an 8×8 coding grid, as a multiple of the step between them (1 is no grid)."""
    word = "a coding grid is seen" if value > HIGH_BLOCKINESS else "no grid" if value < 1.1 else "a faint grid"
    return f"Blockiness {value:.2f} ({word})"


@_describes(
    "banding",
    lambda image: measure_banding(image.resized_gray),
    ("smoother", "more banded"),
    unit="levels",
    by_difference=True,
    cheap=False,
)
def _describe_banding(value: float) -> str:
    """Height of the contours in which smooth areas rise, in levels of 255 (up to 1 is as smooth as eight bits
    allow).
    """
    word = "contours are seen" if value > HIGH_BANDING else "smooth" if value <= 1 else "faint contours"
    return f"Smooth areas rise in steps of {value:.1f} levels ({word})"


@_describes(
    "clipping",
    lambda image: sum(measure_clipping(image.rgb)),
    ("less clipped", "more clipped"),
    unit="share",
    by_difference=True,
)
def _describe_clipping(value: float) -> str:
    """Share of the pixels that are pure white (all channels ≥ 254) or black (all ≤ 1)."""
    return f"{format_percent(value)} of the pixels are pure white or black"


@_describes(
    "halos",
    lambda image: measure_halos(image.resized_gray),
    ("less fringed", "more fringed"),
    unit="share",
    by_difference=True,
    cheap=False,
)
def _describe_halos(value: float) -> str:
    """How far pixels beside tall edges overshoot the even ground behind them, as a share of the edge's height, in
    the median edge.
    """
    word = "fringes are seen" if value > HIGH_HALOS else "no fringes" if value < HIGH_HALOS / 3 else "slight fringes"
    return f"Edges overshoot by {format_percent(value)} of their height ({word})"


def _measure_print_size(picture: SingleImage) -> Measurement:
    width, height = (side / PRINT_PPI * 2.54 for side in picture.size)
    pixels = f"{picture.size[0]}×{picture.size[1]} px"
    shown = (
        f"{width:.1f} × {height:.1f} cm" if min(width, height) >= 0.1 else f"{width * 10:.1f} × {height * 10:.1f} mm"
    )
    sentence = f"{pixels} print at {shown} with {PRINT_PPI} pixels an inch."
    return Measurement("quality.print_size", max(width, height), "cm", "higher", sentence)


def _measure_screen_size(picture: SingleImage) -> Measurement:
    wide, high = sorted(picture.size, reverse=True)
    value = max(wide / SCREEN_SIZE[0], high / SCREEN_SIZE[1])
    fills = "fill" if value >= 1 else f"are enlarged {format_factor(1 / value)} to fill"
    sentence = f"{picture.size[0]}×{picture.size[1]} px {fills} a screen of {SCREEN_SIZE[0]}×{SCREEN_SIZE[1]}."
    return Measurement("quality.screen_size", value, "×", "higher", sentence)


INSTRUMENTS = InstrumentFamily("quality")
INSTRUMENTS += (
    *(_make_image_instrument(measure) for measure in _MEASURES),
    Instrument(
        "quality.print_size",
        f"Longer side of a print with {PRINT_PPI} pixels an inch, in cm, from the size of the file.",
        _measure_print_size,
        "image",
    ),
    Instrument(
        "quality.screen_size",
        f"How many times the file's pixels fill a screen of {SCREEN_SIZE[0]}×{SCREEN_SIZE[1]} (or "
        f"{SCREEN_SIZE[1]}×{SCREEN_SIZE[0]}), as large as one side allows.",
        _measure_screen_size,
        "image",
    ),
)
for _measure in _MEASURES:
    _add_change_instrument(_measure)
