"""What optics, sensors, codecs and upscalers leave in the pixels of one image.

Each function takes the grey values (H×W, uint8) and returns a number, or the reason why there is none, for a sentence
("Not measured: …"). Grey values are Rec. 601 luma, 0–255, here called levels.
"""

from __future__ import annotations

import cv2
import numpy as np

from beholder.instruments.model import Array, Bytes

MIN_SIDE = 24  # px; a smaller image has no block of pixels to look at
GRID = 8  # px: the blocks that JPEG codes
QUANTISED = 0.29  # levels: the standard deviation that rounding to whole levels alone has, and no image less

_TOO_SMALL = f"an image under {MIN_SIDE} pixels on a side is too small"
_BLUR = 11  # px, as Crété et al. and scikit-image have it
_STRIP = 128
_BLOCK = 16
_CALMEST = 0.2  # of the blocks, that show noise rather than texture
_CALM_BIAS = 1.05  # the calmest fifth of equally noisy blocks lies this much too low
_DARKEST, _LIGHTEST = 8, 247  # mean levels of a block beyond which clipping has eaten its noise
_TALLEST_STEP = 24  # levels: a greater difference within a small window is an edge or texture, no smooth area
_WINDOW = 17
_LEAST_SMOOTH = 0.01  # of the image
_EDGE = 40  # levels, within 4 px: a step that is tall enough to have a halo
_EVEN = 0.3  # of the height of an edge: ground that varies less is even
_ROOM = 16  # levels between the ground and black or white that a halo needs
_FEWEST_EDGES, _MOST_EDGES = 40, 1500
_TALLEST_COUNTED = 16  # levels
_LEAST_PERIOD = 4.0  # px: closer lines of the coding grid run into each other


def sharpness(grey: Bytes) -> float | str:
    """0 (blurred) to 1: how much of the change from pixel to pixel a blur over 11 px takes away, along the axis where
    it takes less. 1 − the blur effect of Crété, Dolmiere, Ladret and Nicolas 2007."""
    if min(grey.shape) < MIN_SIDE:
        return _TOO_SMALL
    lost = []
    for lines in _both_ways(grey):
        total, left = 0.0, 0.0
        for top in _strips(lines.shape[0]):
            strip = lines[max(0, top - 1) : top + _STRIP + 1]
            slope = cv2.Sobel(strip, cv2.CV_16S, 1, 0, borderType=cv2.BORDER_REFLECT)[1:-1]
            # The slope of the blurred image is the blurred slope: one filter less.
            blurred = cv2.blur(slope, (_BLUR, 1), borderType=cv2.BORDER_REFLECT)
            before, after = (np.abs(part[:, 2:-1]) for part in (slope, blurred))
            total += cv2.sumElems(before)[0]
            left += cv2.sumElems(np.maximum(before - after, 0))[0]
        if total < 0.1 * grey.size:
            return "the image is flat, without an edge that could be sharp"
        lost.append(left / total)
    return float(min(lost))


def noise(grey: Bytes) -> float | str:
    """The standard deviation of the noise in levels: Immerkær's operator (1996) in blocks of 16×16 px, the calmest
    fifth of them, so that texture does not count. At least what rounding has (0.29)."""
    if min(grey.shape) < MIN_SIDE:
        return _TOO_SMALL
    height, width = (side // _BLOCK for side in grey.shape)
    grey = grey[: height * _BLOCK, : width * _BLOCK]
    kernel = np.array([1, -2, 1], np.float32)
    response = np.abs(cv2.sepFilter2D(grey, cv2.CV_16S, kernel, kernel))
    deviation = np.sqrt(np.pi / 2) / 6 * _block_means(response, (width, height))
    level = _block_means(grey, (width, height))
    calm = deviation[(level > _DARKEST) & (level < _LIGHTEST)]
    if calm.size < 4:
        return "the image is black or white nearly everywhere, where noise cannot be seen"
    return max(QUANTISED, float(np.quantile(calm, _CALMEST)) * _CALM_BIAS)


def blockiness(grey: Bytes, scale: float = 1.0) -> float | str:
    """How much stronger the steps across the lines of an 8×8 coding grid are than those between: 1 is no grid.

    Steps count up to 16 levels, so that edges of the picture do not hide the grid's. The grid may begin anywhere (a
    picture that was cropped after coding). `scale` is the size of these pixels against the file's: a grid of a picture
    shrunk below a half cannot be seen.
    """
    if min(grey.shape) < MIN_SIDE:
        return _TOO_SMALL
    period = GRID * scale
    if period < _LEAST_PERIOD:
        return f"the image was shrunk to {scale:.0%} of its size to look at it, and a coding grid with it"
    phases = max(1, round(period))
    ratios = []
    for lines in _both_ways(grey):
        steps = np.minimum(cv2.absdiff(lines[:, 1:], lines[:, :-1]), np.uint8(_TALLEST_COUNTED))
        along = np.asarray(cv2.reduce(steps, 0, cv2.REDUCE_AVG, dtype=cv2.CV_32F)).ravel()
        at = np.floor((np.arange(along.size) + 1) / period % 1 * phases + 0.5).astype(int) % phases
        means = np.array([along[at == phase].mean() for phase in range(phases)])
        strongest = int(means.argmax())
        ratios.append((float(means[strongest]), float(np.median(np.delete(means, strongest)))))
    strong, between = (sum(part) for part in zip(*ratios, strict=True))
    if strong < 0.02:
        return "the image is flat, and so is every block of it"
    return float(max(1.0, strong / max(between, 0.02)))


def banding(grey: Bytes) -> float | str:
    """How tall the steps are in which smooth areas rise, in levels: 1 or less is as smooth as eight bits allow, 8 is a
    sky in 32 tones.

    A smooth area has at most 24 levels within 17 px. A step of two levels or more with two even pixels on both sides is
    a contour; the number is the mean height of contours, weighted by height, times their share in all the rise there.
    """
    if min(grey.shape) < MIN_SIDE:
        return _TOO_SMALL
    box = np.ones((_WINDOW, _WINDOW), np.uint8)
    spread = cv2.subtract(cv2.dilate(grey, box), cv2.erode(grey, box))
    smooth = (spread <= _TALLEST_STEP) & (spread >= 2)
    if np.count_nonzero(smooth) < _LEAST_SMOOTH * smooth.size:
        return "no area of the image rises smoothly"
    rise, squares = 0.0, 0
    for lines, where in zip(_both_ways(grey), (smooth, smooth.T), strict=True):
        thin = _thin(lines)
        lines, where = lines[thin], where[thin]
        step = np.asarray(cv2.absdiff(lines[:, 1:], lines[:, :-1]) * (where[:, 1:] & where[:, :-1]))
        rise += cv2.sumElems(step)[0]
        even = lines[:, 1:] == lines[:, :-1]
        twice = even[:, 1:] & even[:, :-1]
        heights = step[:, 2:-2][(step[:, 2:-2] >= 2) & twice[:, :-3] & twice[:, 3:]].astype(np.int64)
        squares += int((heights * heights).sum())
    return squares / max(rise, 1.0)


def halos(grey: Bytes) -> float | str:
    """How far the pixels beside a tall edge overshoot the even ground behind them, as a share of the edge's height, in
    the median edge: 0 is none, 0.1 is seen as a fringe.

    Looked at are upright and level edges of at least 40 levels within 4 px whose ground, 6 to 9 px away on both sides,
    is even.
    """
    if min(grey.shape) < MIN_SIDE:
        return _TOO_SMALL
    found = [_overshoots(lines[_thin(lines)]) for lines in _both_ways(grey)]
    shares = np.concatenate(found)
    if shares.size < _FEWEST_EDGES:
        return "the image has too few clear edges on even ground"
    return max(0.0, float(np.median(shares)))


def clipped(rgb: Bytes) -> tuple[float, float]:
    """The shares of the pixels that are white (all channels ≥ 254) and black (all ≤ 1)."""
    white = np.count_nonzero(cv2.inRange(rgb, (254, 254, 254), (255, 255, 255)))
    black = np.count_nonzero(cv2.inRange(rgb, (0, 0, 0), (1, 1, 1)))
    pixels = rgb.shape[0] * rgb.shape[1]
    return white / pixels, black / pixels


def _overshoots(lines: Bytes) -> Array:
    """Of tall edges across the lines, mean overshoot of both sides as a share of the height."""
    reach = 10
    slope = np.asarray(cv2.Sobel(lines, cv2.CV_16S, 1, 0, ksize=1))
    steep = np.abs(slope)
    inner = steep[:, reach:-reach]
    top = (
        (inner >= _EDGE // 2)
        & (inner >= steep[:, reach - 1 : -reach - 1])
        & (inner > steep[:, reach + 1 : steep.shape[1] - reach + 1])
    )
    rows, columns = np.nonzero(top)
    if not rows.size:
        return np.empty(0)
    if rows.size > _MOST_EDGES:
        chosen = np.linspace(0, rows.size - 1, _MOST_EDGES).astype(int)
        rows, columns = rows[chosen], columns[chosen]
    profile = lines[rows[:, None], columns[:, None] + reach + np.arange(-9, 10)].astype(np.float32)
    rising = slope[rows, columns + reach] > 0
    profile[~rising] = profile[~rising, ::-1]  # dark on the left
    left, right = profile[:, :4], profile[:, -4:]
    low, high = left.mean(axis=1), right.mean(axis=1)
    height = high - low
    even = (np.maximum(np.ptp(left, axis=1), np.ptp(right, axis=1)) < _EVEN * height) & (height >= _EDGE)
    dip, peak = low - profile[:, 4:10].min(axis=1), profile[:, 9:15].max(axis=1) - high
    # Ground that is itself black or white has no room for a halo and says nothing.
    sides = [dip[even & (low > _ROOM)] / height[even & (low > _ROOM)]]
    sides.append(peak[even & (high < 255 - _ROOM)] / height[even & (high < 255 - _ROOM)])
    return np.concatenate(sides)


def _both_ways(grey: Bytes) -> tuple[Bytes, Bytes]:
    """The lines of pixels across, and those down."""
    return grey, np.asarray(cv2.transpose(grey), np.uint8)


def _strips(lines: int) -> range:
    """Where strips begin that fit into the processor's cache: all lines of an image of up to 512, of a larger one
    strips that are evenly spread."""
    return range(0, lines, _STRIP * -(-lines // (4 * _STRIP)))


def _thin(lines: Bytes) -> slice:
    """At most 300 of the lines, evenly spread: neighbours say the same."""
    return slice(None, None, -(-lines.shape[0] // 300))


def _block_means(values: Array, grid: tuple[int, int]) -> Array:
    return np.asarray(cv2.resize(values, grid, interpolation=cv2.INTER_AREA), np.float64)
