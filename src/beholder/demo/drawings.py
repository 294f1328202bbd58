"""Pictures for the demo that are drawn here, in place of its photographs where the extra `demo` is not installed.

Four scenes with light, shade, texture and grain, the same on every machine. What an edit is to change is an argument:
a picture that is drawn again with another color is an edit that leaves everything else alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from beholder.demo.photos import Mask, Pixels, Plane, Polygon

Color = tuple[float, float, float]  # RGB, 0 to 1
Canvas = NDArray[np.float32]

WIDTH, HEIGHT = 640, 448
DRAWING_SEED = 20_261_118

RED, GREEN, BLUE, YELLOW = (0.78, 0.12, 0.12), (0.16, 0.52, 0.22), (0.13, 0.28, 0.72), (0.92, 0.76, 0.15)
WHITE, BLACK, VIOLET, BROWN = (0.94, 0.93, 0.90), (0.08, 0.08, 0.09), (0.45, 0.20, 0.62), (0.42, 0.26, 0.14)

DRAWING_CREDITS = "harbor, cottage, table and balloon were drawn by Beholder; Apache-2.0\n"


def load_drawings() -> dict[str, Pixels]:
    """Return the pictures by name, RGB."""
    return {name: draw() for name, draw in DRAWINGS.items()}


def draw_harbor(*, hull: Color = RED, buoy: bool = True) -> Pixels:
    """Draw a sailing boat on the sea, a lighthouse on the right and a yellow buoy on the left."""
    canvas = _make_sky((0.36, 0.58, 0.86), (0.86, 0.90, 0.92), clouds=0.75)
    hills = _soft_polygon(
        [(0, 214), (70, 196), (150, 204), (240, 190), (360, 207), (470, 198), (639, 212), (639, 240), (0, 240)]
    )
    _lay(canvas, (0.42, 0.52, 0.58), hills, 0.9 + 0.2 * _noise(1, 3))
    rows, _ = _grid()
    depth = np.clip((rows - 226) / (HEIGHT - 226), 0, 1)
    waves = _noise(2, 1.2, stretch=9) * (0.35 + depth) + _noise(3, 4, stretch=5) * 0.5
    sea = np.clip((rows - 226) + 0.5, 0, 1)
    _lay(canvas, (0.14, 0.36, 0.48), sea, 0.72 + 0.42 * waves + 0.30 * (1 - depth))
    island = _soft_polygon([(500, 250), (520, 226), (560, 214), (610, 218), (639, 228), (639, 262), (510, 262)])
    _lay(canvas, (0.36, 0.34, 0.28), island, 0.7 + 0.6 * _noise(4, 1.5))
    tower = _soft_polygon([(560, 220), (566, 96), (588, 96), (594, 220)])
    _lay(canvas, WHITE, tower, _round_shade(558, 596))
    for top in (112, 160):
        band = _soft_polygon([(560, top), (594, top), (594, top + 24), (560, top + 24)]) * tower
        _lay(canvas, RED, band, _round_shade(558, 596))
    _lay(canvas, BLACK, _soft_polygon([(568, 96), (568, 78), (577, 66), (586, 78), (586, 96)]), 1)
    _lay(canvas, BLACK, _soft_polygon([(299, 90), (303, 90), (303, 300), (299, 300)]), 1.6)
    _lay(
        canvas,
        WHITE,
        _soft_polygon([(306, 96), (306, 280), (412, 280), (360, 190)]),
        0.80 + 0.25 * _round_shade(290, 440),
    )
    _lay(
        canvas,
        (0.90, 0.86, 0.76),
        _soft_polygon([(296, 112), (296, 280), (222, 280), (262, 200)]),
        0.9 + 0.1 * _noise(5, 6),
    )
    _lay(canvas, hull, _soft_polygon([(196, 292), (436, 292), (398, 338), (236, 338)]), _down_shade(288, 342))
    _lay(canvas, WHITE, _soft_polygon([(196, 288), (438, 288), (435, 295), (199, 295)]), 1)
    _lay(
        canvas,
        (0.08, 0.20, 0.27),
        _soft_polygon([(236, 338), (398, 338), (380, 362), (258, 362)]) * 0.6,
        0.8 + 0.4 * waves,
    )
    if buoy:
        _lay(canvas, YELLOW, _soft_ellipse((96, 330), (20, 20)), _ball_shade((96, 330), 20))
        _lay(canvas, YELLOW, _soft_polygon([(93, 292), (99, 292), (99, 316), (93, 316)]), 0.8)
    return _finish(canvas)


def draw_cottage(*, roof: Color = RED, door: Color = GREEN) -> Pixels:
    """Draw a white house with a roof, a door and two windows on a meadow, with a tree on the left."""
    canvas = _make_sky((0.45, 0.66, 0.90), (0.88, 0.92, 0.94), clouds=0.6)
    rows, _ = _grid()
    forest = np.clip(rows - (218 - 30 * _noise(11, 14)) + 0.5, 0, 1)
    _lay(canvas, (0.15, 0.29, 0.17), forest, 0.6 + 0.8 * _noise(12, 2))
    meadow = np.clip(rows - 268 + 0.5, 0, 1)
    blades = _noise(13, 0.9, tall=5)
    _lay(canvas, (0.33, 0.50, 0.17), meadow, 0.62 + 0.5 * blades + 0.3 * _noise(14, 30))
    _lay(canvas, (0.10, 0.18, 0.06), _soft_ellipse((400, 372), (190, 22), 9) * 0.6, 1)
    wall = _soft_polygon([(240, 206), (540, 206), (540, 366), (240, 366)])
    plaster = 0.86 + 0.12 * _noise(15, 1.0) + 0.06 * _noise(16, 20)
    _lay(canvas, WHITE, wall, plaster * _side_shade(240, 540))
    tiles = 0.78 + 0.22 * np.abs(np.sin(rows * np.pi / 11)) + 0.25 * (_noise(17, 1.6) - 0.5)
    _lay(canvas, roof, _soft_polygon([(210, 214), (280, 108), (500, 108), (570, 214)]), tiles)
    _lay(
        canvas,
        (0.50, 0.30, 0.24),
        _soft_polygon([(450, 78), (482, 78), (482, 132), (450, 132)]),
        0.8 + 0.4 * _noise(18, 1),
    )
    _lay(
        canvas,
        door,
        _soft_polygon([(362, 268), (418, 268), (418, 366), (362, 366)]),
        0.85 + 0.25 * _noise(19, 1, tall=9),
    )
    _lay(canvas, YELLOW, _soft_ellipse((408, 320), (4, 4)), 1)
    for left in (274, 452):
        _lay(canvas, BROWN, _soft_polygon([(left, 246), (left + 60, 246), (left + 60, 312), (left, 312)]), 0.9)
        glass = _soft_polygon([(left + 6, 252), (left + 54, 252), (left + 54, 306), (left + 6, 306)])
        _lay(canvas, (0.34, 0.46, 0.56), glass, 0.7 + 0.7 * _noise(20, 12))
        _lay(
            canvas, BROWN, _soft_polygon([(left + 28, 250), (left + 32, 250), (left + 32, 308), (left + 28, 308)]), 0.9
        )
    _lay(canvas, BROWN, _soft_polygon([(92, 230), (118, 230), (126, 372), (82, 372)]), _round_shade(80, 128))
    crown = np.zeros((HEIGHT, WIDTH), np.float32)
    for middle, radius in (((104, 150), 74), ((60, 190), 52), ((152, 188), 54), ((104, 214), 58)):
        crown = np.maximum(crown, _soft_ellipse(middle, (radius, radius), 3))
    _lay(canvas, (0.20, 0.42, 0.14), np.clip(crown * 1.5 - 0.55 * _noise(21, 3), 0, 1), 0.45 + 1.0 * _noise(22, 2.2))
    return _finish(canvas)


def draw_table(*, mug: Color = RED, lemon: bool = True) -> Pixels:
    """Draw a mug, a green apple to its right and a lemon to its left on a wooden table before a plain wall."""
    canvas = np.ones((HEIGHT, WIDTH, 3), np.float32) * np.array((0.76, 0.72, 0.64), np.float32)
    rows, columns = _grid()
    canvas *= (0.72 + 0.32 * np.exp(-(((columns - 180) / 330) ** 2) - ((rows - 60) / 260) ** 2) + 0.05 * _noise(31, 1))[
        ..., None
    ]
    wood = (
        0.70
        + 0.22 * np.sin(rows / 7 + 5 * _noise(32, 14, stretch=8)) * _noise(33, 7, stretch=9)
        + 0.30 * _noise(34, 0.8, stretch=20)
    )
    _lay(canvas, (0.56, 0.36, 0.20), np.clip(rows - 250 + 0.5, 0, 1), wood)
    for middle, radii in (((340, 372), (118, 18)), ((508, 376), (66, 13)), ((148, 378), (72, 12))):
        if lemon or middle[0] != 148:
            _lay(canvas, (0.12, 0.07, 0.04), _soft_ellipse(middle, radii, 6) * 0.75, 1)
    handle = _soft_ellipse((408, 268), (54, 58)) * (1 - _soft_ellipse((408, 268), (34, 38)))
    _lay(canvas, mug, handle, 0.62 + 0.4 * _noise(35, 6))
    body = np.maximum(
        _soft_polygon([(246, 190), (406, 190), (396, 360), (256, 360)]), _soft_ellipse((326, 358), (70, 16))
    )
    _lay(canvas, mug, body, _round_shade(240, 412) + 0.03 * _noise(36, 1))
    _lay(canvas, mug, _soft_ellipse((326, 190), (80, 22)), 1.15)
    _lay(canvas, (0.20, 0.10, 0.05), _soft_ellipse((326, 193), (70, 16)), 0.9 + 0.5 * _noise(37, 8))
    _lay(canvas, WHITE, _soft_ellipse((284, 262), (6, 46), 4) * 0.45, 1)
    _lay(
        canvas,
        (0.46, 0.66, 0.20),
        _soft_ellipse((508, 324), (56, 52)),
        _ball_shade((508, 324), 56) + 0.10 * (_noise(38, 1.5) - 0.5),
    )
    _lay(canvas, BROWN, _soft_polygon([(506, 262), (511, 262), (512, 284), (507, 284)]), 0.8)
    if lemon:
        _lay(
            canvas,
            YELLOW,
            _soft_ellipse((148, 338), (64, 42)),
            _ball_shade((148, 338), 62) + 0.16 * (_noise(39, 1.1) - 0.5),
        )
        _lay(canvas, YELLOW, _soft_ellipse((214, 342), (12, 9)), 0.75)
    return _finish(canvas)


def draw_balloon(*, stripes: Color = YELLOW, moon: bool = True) -> Pixels:
    """Draw a striped hot-air balloon over mountains in the evening, with a moon on the left."""
    canvas = _make_sky((0.16, 0.20, 0.42), (0.93, 0.62, 0.42), clouds=0.35)
    if moon:
        _lay(canvas, (0.96, 0.95, 0.88), _soft_ellipse((104, 84), (27, 27)), 0.82 + 0.3 * _noise(41, 5))
    rows, columns = _grid()
    for seed, level, color in (
        (42, 290, (0.38, 0.33, 0.48)),
        (43, 332, (0.24, 0.24, 0.36)),
        (44, 388, (0.10, 0.16, 0.14)),
    ):
        ridge = level - 90 * (_noise(seed, 34)[200:201] - 0.5) - 12 * (_noise(seed + 5, 6)[200:201] - 0.5)
        _lay(canvas, color, np.clip(rows - ridge + 0.5, 0, 1), 0.7 + 0.6 * _noise(seed + 10, 2.5))
    middle, radius = (380, 152), 108
    envelope = np.maximum(
        _soft_ellipse(middle, (radius, radius)), _soft_polygon([(292, 214), (468, 214), (402, 300), (358, 300)])
    )
    _lay(canvas, (0.80, 0.16, 0.20), envelope, _ball_shade(middle, radius))
    around = np.arcsin(np.clip((columns - middle[0]) / (radius * 1.02), -1, 1))
    striped = np.clip(np.sin(around * 8) * 9 + 0.5, 0, 1) * envelope
    _lay(canvas, stripes, striped, _ball_shade(middle, radius))
    for left, right in ((362, 370), (398, 390)):
        cv2.line(canvas, (left, 300), (right, 330), (0.15, 0.12, 0.10), 1, cv2.LINE_AA)
    _lay(canvas, BROWN, _soft_polygon([(366, 328), (394, 328), (391, 352), (369, 352)]), 0.7 + 0.5 * _noise(60, 1))
    return _finish(canvas)


DRAWINGS: Mapping[str, Callable[[], Pixels]] = {
    "balloon": draw_balloon,
    "cottage": draw_cottage,
    "harbor": draw_harbor,
    "table": draw_table,
}


def _grid() -> tuple[Plane, Plane]:
    rows, columns = np.mgrid[:HEIGHT, :WIDTH].astype(np.float32)
    return rows, columns


def _noise(number: int, sigma: float, *, stretch: float = 1, tall: float = 1) -> Plane:
    """Return smooth noise, 0 to 1: of its own for each number, drawn out sideways or upwards."""
    random = np.random.default_rng([DRAWING_SEED, number]).random((HEIGHT, WIDTH), np.float32)
    smooth = np.asarray(cv2.GaussianBlur(random, (0, 0), sigmaX=sigma * stretch, sigmaY=sigma * tall), np.float32)
    low, high = np.quantile(smooth, [0.01, 0.99])
    return np.asarray(np.clip((smooth - low) / (high - low), 0, 1), np.float32)


def _make_sky(top: Color, bottom: Color, clouds: float) -> Canvas:
    rows, _ = _grid()
    share = np.clip(rows / 300, 0, 1)[..., None]
    canvas = np.asarray(np.array(top, np.float32) * (1 - share) + np.array(bottom, np.float32) * share, np.float32)
    billows = np.clip(
        0.6 * _noise(70, 26, stretch=2) + 0.3 * _noise(71, 9, stretch=2) + 0.1 * _noise(72, 3) - 0.52, 0, 1
    )
    _lay(
        canvas,
        (0.96, 0.95, 0.95),
        np.asarray(np.clip(billows * 4, 0, 1) * clouds, np.float32),
        0.92 + 0.1 * _noise(73, 12),
    )
    return canvas


def _soft_polygon(outline: Polygon) -> Mask:
    mask = np.zeros((HEIGHT, WIDTH), np.float32)
    cv2.fillPoly(mask, [np.array(outline, np.int32)], 1)
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), 0.8), np.float32)


def _soft_ellipse(middle: tuple[int, int], radii: tuple[int, int], softness: float = 0.8) -> Mask:
    mask = np.zeros((HEIGHT, WIDTH), np.float32)
    cv2.ellipse(mask, middle, radii, 0, 0, 360, 1, -1)
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), softness), np.float32)


def _lay(canvas: Canvas, color: Color, mask: NDArray[Any], shade: NDArray[Any] | float) -> None:
    """Lay a color over the canvas where the mask is, lighter or darker by `shade`."""
    lit = np.asarray(shade, np.float32)
    paint = np.array(color, np.float32) * (lit[..., None] if lit.ndim else lit)
    canvas += (paint - canvas) * np.asarray(mask, np.float32)[..., None]


def _ball_shade(middle: tuple[int, int], radius: int) -> Plane:
    """Return the light on a ball, which comes from the upper left, with a gloss."""
    rows, columns = _grid()
    aside, down = (columns - middle[0]) / radius, (rows - middle[1]) / radius
    gloss = np.exp(-((aside + 0.4) ** 2 + (down + 0.45) ** 2) * 22)
    return np.asarray(np.clip(0.86 - 0.32 * aside - 0.30 * down, 0.3, 1.3) + 0.5 * gloss, np.float32)


def _round_shade(left: int, right: int) -> Plane:
    """Return the light on an upright cylinder between two columns."""
    _, columns = _grid()
    across = np.clip((columns - left) / (right - left), 0, 1)
    return np.asarray(0.62 + 0.50 * np.sin(np.pi * np.clip(across * 1.1 + 0.12, 0, 1)) - 0.15 * across, np.float32)


def _side_shade(left: int, right: int) -> Plane:
    _, columns = _grid()
    return np.asarray(1.04 - 0.16 * np.clip((columns - left) / (right - left), 0, 1), np.float32)


def _down_shade(top: int, bottom: int) -> Plane:
    rows, _ = _grid()
    return np.asarray(
        1.08 - 0.45 * np.clip((rows - top) / (bottom - top), 0, 1) + 0.06 * (_noise(74, 1.2, stretch=6) - 0.5),
        np.float32,
    )


def _finish(canvas: Canvas) -> Pixels:
    """Soften as a lens does, darken the corners a little, and add the grain of a sensor."""
    rows, columns = _grid()
    away = ((rows - HEIGHT / 2) / HEIGHT) ** 2 + ((columns - WIDTH / 2) / WIDTH) ** 2
    light = np.asarray(cv2.GaussianBlur(canvas, (0, 0), 0.6), np.float32) * (1.04 - 0.28 * away)[..., None]
    grain = np.random.default_rng([DRAWING_SEED, 0]).normal(0, 0.012, (HEIGHT, WIDTH, 3)).astype(np.float32)
    return np.asarray(np.clip(light + grain, 0, 1) * 255 + 0.5, np.uint8)
