"""Restyles made by hand: what an image model would be asked for, from filters whose result is the same every time.

Every function takes an RGB photograph and returns an RGB picture of the same size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from beholder.demo.model import Pixels

Plane = NDArray[np.float32]

SEED = 20_261_115  # of paper grain and scattered points: the same picture every time


def pencil(photo: Pixels) -> Pixels:
    """A graphite drawing: tone by dodging, strokes in the darks that run one way, paper tooth over all."""
    grey = _grey(photo)
    drawn = np.clip(grey / np.maximum(_blurred(grey, 9), 0.02), 0, 1) ** 1.5
    lines = 1 - 0.9 * np.clip((_blurred(grey, 2.2) - _blurred(grey, 0.8)) * 9, 0, 1)
    tone = np.clip(0.12 + 1.05 * cv2.bilateralFilter(grey, 7, 0.12, 6), 0, 1)
    hatched = 1 - np.clip(0.95 - tone, 0, 1) * (0.35 + 0.75 * _strokes(grey.shape, 55))
    drawn = np.clip(drawn * lines * np.clip(hatched, 0, 1), 0, 1)
    strokes, tooth = _strokes(grey.shape, 55), _noise(grey.shape, 0.7)
    graphite = 0.10 + 0.16 * strokes + 0.06 * tooth  # it is never black, and shows the strokes it was laid in
    drawn = graphite + (0.93 + 0.07 * tooth - graphite) * drawn
    return _pixels(drawn[..., None] * np.array([0.98, 0.975, 0.955], np.float32))


def oil(photo: Pixels, radius: int = 8) -> Pixels:
    """An oil sketch: each stroke takes the calmest of the eight neighbourhoods around it (Kuwahara's filter); edges
    waver as a hand does, the brush leaves ridges, and an amber varnish lies on top."""
    colour = _wavering(photo, 2.2).astype(np.float32) / 255
    means, spreads = [], []
    for kernel in _sectors(radius):
        mean = cv2.filter2D(colour, -1, kernel, borderType=cv2.BORDER_REFLECT)
        square = cv2.filter2D(colour * colour, -1, kernel, borderType=cv2.BORDER_REFLECT)
        means.append(mean)
        spreads.append((square - mean * mean).sum(2))
    weights = 1 / (1e-4 + np.clip(np.array(spreads), 0, None)) ** 4
    weights /= weights.sum(0)
    painted = (np.array(means) * weights[..., None]).sum(0)
    ridge = _strokes(painted.shape[:2], 35, length=13, width=0.9) - 0.5
    follow = np.clip(1 - 12 * np.abs(cv2.Laplacian(_blurred(painted.mean(2), 1.5), cv2.CV_32F)), 0, 1)
    painted = _saturated(painted, 1.25) * np.array([1.06, 0.97, 0.80], np.float32)
    painted = painted + (0.20 * ridge * (0.4 + 0.6 * follow) * (0.3 + painted.mean(2)))[..., None]
    return _pixels(painted)


def watercolour(photo: Pixels) -> Pixels:
    """Light washes with darker rims that settle into the grain of the paper, and bare paper along the border."""
    washed = np.asarray(cv2.edgePreservingFilter(photo, flags=cv2.RECURS_FILTER, sigma_s=40, sigma_r=0.45), np.uint8)
    styled = cv2.stylization(washed, sigma_s=60, sigma_r=0.6)
    mixed = np.asarray(0.5 * (washed.astype(np.float32) + styled) / 255, np.float32)
    shape = photo.shape[:2]
    colour = _saturated(mixed**0.78, 1.35)  # pigment is thin, the paper shines through
    pooled = 0.72 + 0.42 * _noise(shape, 22) + 0.10 * _noise(shape, 1.2)
    grey = _blurred(np.asarray(colour.mean(2), np.float32), 1.2)
    rims = np.clip((_blurred(grey, 3) - grey) * 2.2, 0, 0.35)
    colour = np.asarray(1 - (1 - colour) * (pooled * (1 + rims))[..., None], np.float32)
    height, width = shape
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    border = np.minimum(np.minimum(rows, height - 1 - rows), np.minimum(columns, width - 1 - columns))
    sheet = np.clip((border - 6 - 8 * (_noise(shape, 6) - 0.5) - 3 * _noise(shape, 1.2)) / 3, 0, 1)[..., None]
    return _pixels(colour * sheet + np.array([0.975, 0.965, 0.94], np.float32) * (1 - sheet))


def linocut(photo: Pixels, ink: Sequence[float] = (0.10, 0.13, 0.24)) -> Pixels:
    """A block print in one ink: differences of Gaussians, thresholded hard."""
    grey = np.asarray(cv2.createCLAHE(2.5, (4, 4)).apply(_pixels(_grey(photo))) / 255, np.float32)
    near, far = _blurred(grey, 1.1), _blurred(grey, 1.1 * 1.6)
    sharp = near + 22 * (near - far)
    tone = _blurred(grey, 1.6)
    gouged = 0.5 + 0.5 * np.sin(_along(grey.shape, 28) * 2 * np.pi / 5.5 + 5 * tone)
    level = 0.24 + 0.30 * gouged
    printed = np.clip((sharp - level) * 9 + 0.5, 0, 1)
    worn = np.clip(1.25 - 0.5 * _noise(grey.shape, 0.8), 0, 1)
    paper = np.array([0.95, 0.92, 0.85], np.float32)
    cover = ((1 - printed) * worn)[..., None]
    return _pixels(paper * (1 - cover) + np.array(ink, np.float32) * cover)


def pop_art(photo: Pixels, inks: Sequence[tuple[float, float, float]], pitch: float = 9) -> Pixels:
    """Four flat inks from dark to light, dots where the second gives way to the third, and a thick black key plate."""
    grey = _grey(photo)
    low, high = np.quantile(grey, [0.02, 0.98])
    tone = np.clip((cv2.bilateralFilter(_blurred(grey, 1), 11, 0.15, 9) - low) / max(high - low, 1e-3), 0, 1)
    plates = np.array(inks, np.float32)
    edges = np.quantile(tone, [0.22, 0.5, 0.8])
    picture = plates[np.digitize(tone, edges)]
    across, down = (_along(grey.shape, angle) / pitch for angle in (45, 135))
    dots = np.hypot(across - np.round(across), down - np.round(down))
    radius = 0.5 * np.sqrt(np.clip((edges[2] - tone) / max(edges[2] - edges[1], 1e-3), 0, 1)) * 0.9
    dotted = np.clip((radius - dots) * pitch, 0, 1) * ((tone >= edges[1]) & (tone < edges[2]))
    picture = picture * (1 - dotted[..., None]) + plates[1] * dotted[..., None]
    return _pixels(picture * (1 - _contours(grey, 2.2, 0.9)[..., None]))


def comic(photo: Pixels) -> Pixels:
    """A panel of a comic: flat areas in strong colours, dots in the shadows, all drawn round in black."""
    flat = _wavering(photo, 1.2)
    for _ in range(3):
        flat = np.asarray(cv2.bilateralFilter(flat, 9, 45, 9), np.uint8)
    lab = cv2.cvtColor(flat, cv2.COLOR_RGB2LAB).astype(np.float32)
    step = 256 / 6
    steps = lab[..., 0] / step
    lab[..., 0] = (np.floor(steps) + 0.5 + 0.5 * np.tanh((steps - np.floor(steps) - 0.5) * 9) / np.tanh(4.5)) * step
    stepped = np.asarray(cv2.cvtColor(_pixels(lab / 255), cv2.COLOR_LAB2RGB) / 255, np.float32)
    stepped = _saturated(stepped, 1.5) * np.array([1.06, 1.03, 0.86], np.float32)  # on yellowed paper
    tone = cv2.bilateralFilter(_grey(photo), 9, 0.12, 9)
    across, down = (_along(tone.shape, angle) / 6 for angle in (30, 120))
    dots = np.hypot(across - np.round(across), down - np.round(down))
    shadow = np.clip((0.42 * np.sqrt(np.clip(0.62 - tone, 0, 1)) - dots * 0.72) * 7, 0, 1)
    inked = np.clip(shadow + _contours(_grey(_wavering(photo, 1.2)), 1.5, 1.3), 0, 1)
    return _pixels(stepped * (1 - inked[..., None]))


def neon(photo: Pixels) -> Pixels:
    """A night of tubes: edges that glow in cyan and magenta over a dark violet copy."""
    grey = _grey(photo)
    lines = _contours(grey, 1.2, 1.0)
    rows = np.linspace(0, 1, grey.shape[0], dtype=np.float32)[:, None, None]
    tube = np.array([0.15, 0.95, 1], np.float32) * (1 - rows) + np.array([1, 0.15, 0.85], np.float32) * rows
    glow = sum(_blurred(lines, sigma) * gain for sigma, gain in ((1, 0.9), (5, 0.9), (16, 0.8)))
    dark = (grey[..., None] * np.array([0.30, 0.16, 0.52], np.float32)) + np.array([0.02, 0.01, 0.06], np.float32)
    return _pixels(dark + np.asarray(glow)[..., None] * tube + (lines**2)[..., None] * 0.35)


def _wavering(photo: Pixels, reach: float) -> Pixels:
    """The photograph with its edges a little out of true, by `reach` pixels at most."""
    rows, columns = np.mgrid[: photo.shape[0], : photo.shape[1]].astype(np.float32)
    aside, down = (_noise(photo.shape, sigma) * 2 - 1 for sigma in (5.0, 5.5))
    moved = cv2.remap(photo, columns + reach * aside, rows + reach * down, cv2.INTER_LINEAR, None, cv2.BORDER_REFLECT)
    return np.asarray(moved, np.uint8)


def _contours(grey: Plane, sigma: float, strength: float) -> Plane:
    """Lines where it is darker than its surroundings; 1 is ink."""
    near, far = _blurred(grey, sigma), _blurred(grey, sigma * 1.6)
    return np.asarray(np.clip(((far - near) * 34 - 0.22) * strength, 0, 1), np.float32)


def _sectors(radius: int) -> list[Plane]:
    """Eight overlapping wedges around a point, each a kernel with the sum 1."""
    rows, columns = np.mgrid[-radius : radius + 1, -radius : radius + 1].astype(np.float32)
    inside = np.exp(-(rows**2 + columns**2) / (0.6 * radius**2)) * (np.hypot(rows, columns) <= radius + 0.5)
    kernels = []
    for wedge in range(8):
        angle = np.abs(np.angle(np.exp(1j * (np.arctan2(rows, columns) - wedge * np.pi / 4))))
        kernel = (inside * (angle <= np.pi / 8 + 0.05)).astype(np.float32)
        kernel[radius, radius] = inside[radius, radius]
        kernels.append(kernel / kernel.sum())
    return kernels


def _strokes(shape: tuple[int, ...], degrees: float, length: int = 23, width: float = 0.6) -> Plane:
    """Noise drawn out along one direction, 0 to 1."""
    noise = _noise(shape, width)
    kernel = np.zeros((length, length), np.float32)
    reach = length // 2
    way = np.array([np.cos(np.radians(degrees)), -np.sin(np.radians(degrees))]) * reach
    ends = [(round(reach + sign * way[0]), round(reach + sign * way[1])) for sign in (-1, 1)]
    cv2.line(kernel, ends[0], ends[1], 1, 1, cv2.LINE_AA)
    drawn = cv2.filter2D(noise, -1, kernel / kernel.sum(), borderType=cv2.BORDER_REFLECT)
    return _stretched(np.asarray(drawn, np.float32))


def _noise(shape: tuple[int, ...], sigma: float) -> Plane:
    """Smooth noise, 0 to 1, the same for the same shape and grain."""
    random = np.random.default_rng([SEED, round(sigma * 10)])
    return _stretched(_blurred(random.random(shape[:2], np.float32), sigma))


def _along(shape: tuple[int, ...], degrees: float) -> Plane:
    """How far each pixel lies along a direction, in pixels."""
    rows, columns = np.mgrid[: shape[0], : shape[1]].astype(np.float32)
    return np.asarray(columns * np.cos(np.radians(degrees)) + rows * np.sin(np.radians(degrees)), np.float32)


def _stretched(plane: Plane) -> Plane:
    low, high = np.quantile(plane, [0.01, 0.99])
    return np.asarray(np.clip((plane - low) / (high - low), 0, 1), np.float32)


def _saturated(colour: NDArray[np.float32], factor: float) -> NDArray[np.float32]:
    grey = colour @ np.array([0.299, 0.587, 0.114], np.float32)
    return np.asarray(np.clip(grey[..., None] + (colour - grey[..., None]) * factor, 0, 1), np.float32)


def _grey(photo: Pixels) -> Plane:
    return np.asarray(cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY) / 255, np.float32)


def _blurred(plane: Plane, sigma: float) -> Plane:
    return np.asarray(cv2.GaussianBlur(plane, (0, 0), sigma), np.float32)


def _pixels(colour: NDArray[Any]) -> Pixels:
    return np.asarray(np.clip(colour, 0, 1) * 255 + 0.5, np.uint8)
