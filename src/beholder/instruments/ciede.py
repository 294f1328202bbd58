"""CIELAB and the colour difference CIEDE2000, fast enough to be had for every pixel.

CIELAB is that of sRGB under D65 (2° observer). CIEDE2000 follows Sharma, Wu and Dalal (2005) with kL = kC = kH = 1:
about 1 can just be seen side by side, 10 is seen at a glance, black against white is 100.

Both go through the image in pieces that stay in the cache: a pair of a megapixel takes 33 ms of CPU, where scikit-image
takes 700. OpenCV's own CIELAB is not used: it interpolates in a table and is off by up to 0.45.
"""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np

from beholder.instruments.model import Array, Bytes, Floats

_PIECE = 1 << 15  # pixels at a time
_25_TO_THE_7 = np.float32(25.0**7)
_HALF, _TINY, _OPPOSITE = np.float32(0.5), np.float32(1e-9), np.float32(1e-5)

# T and 2 sin 2Δθ by the mean hue from −180 to 180°, in steps of 0.0055°: no difference is off by as much as 0.01.
_STEPS = 1 << 16
_HUES = (np.arange(_STEPS + 1) + 0.5) / _STEPS * 360 - 180
_TERMS = np.array([(1, 0, 0), (-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63)])
_T = (_TERMS[:, :1] * np.cos(np.radians(_TERMS[:, 1:2] * _HUES + _TERMS[:, 2:]))).sum(axis=0).astype(np.float32)
_ROTATION = (2 * np.sin(np.radians(60 * np.exp(-(((_HUES % 360 - 275) / 25) ** 2))))).astype(np.float32)

_VALUES = np.arange(256) / 255
_LINEAR = np.where(_VALUES <= 0.04045, _VALUES / 12.92, ((_VALUES + 0.055) / 1.055) ** 2.4).astype(np.float32)
# IEC 61966-2-1 and D65, in the rounding that scikit-image has: greys have a* and b* under 0.02.
_WHITE = np.array([0.95047, 1.0, 1.08883])
_TO_XYZ = np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
_TO_XYZ = (_TO_XYZ / _WHITE[:, None]).astype(np.float32)
_KNEE, _SLOPE = (6 / 29) ** 3, (29 / 6) ** 2 / 3
# Under the knee the cube root goes on as its tangent: ∛max(t, knee) + slope · (min(t, knee) − knee). Here its constant.
_TO_LAB = np.array([[0, 116, 0, -16 - 116 * _SLOPE * _KNEE], [500, -500, 0, 0], [0, 200, -200, 0]], np.float32)


def lab(rgb: Bytes) -> Floats:
    """CIELAB of sRGB pixels, H×W×3: L* 0–100, a* and b* about ±110."""
    height, width = rgb.shape[:2]
    result = np.empty((height, width, 3), np.float32)
    for rows in _pieces(height, width):
        result[rows] = _lab(rgb[rows])
    return result


def ciede2000(one: Floats, other: Floats) -> Floats:
    """The difference at each pixel of two CIELAB images of one shape, H×W×3.

    The formula jumps where two hues are opposite: there, within some thousandths of a degree, single precision may land
    on the other side.
    """
    height, width = one.shape[:2]
    result = np.empty((height, width), np.float32)
    for rows in _pieces(height, width):
        result[rows] = _difference(*_planes(one[rows]), *_planes(other[rows]))
    return result


def difference(one: Bytes, other: Bytes) -> Floats:
    """CIEDE2000 at each pixel of two sRGB images of one shape: as `ciede2000` of both `lab`s, which never exist as a
    whole."""
    height, width = one.shape[:2]
    result = np.empty((height, width), np.float32)
    for rows in _pieces(height, width):
        result[rows] = _difference(*_planes(_lab(one[rows])), *_planes(_lab(other[rows])))
    return result


def _pieces(height: int, width: int) -> Iterator[slice]:
    rows = max(1, _PIECE // width)
    return (slice(at, at + rows) for at in range(0, height, rows))


def _planes(image: Floats) -> list[Floats]:
    return [np.ascontiguousarray(image[:, :, channel]) for channel in range(3)]


def _lab(rgb: Bytes) -> Floats:
    xyz: Array = np.asarray(cv2.transform(cv2.LUT(rgb, _LINEAR), _TO_XYZ), np.float32)
    low: Array = np.asarray(cv2.threshold(xyz, _KNEE, 0, cv2.THRESH_TRUNC)[1], np.float32)
    root = np.cbrt(xyz - low + np.float32(_KNEE)) + low * np.float32(_SLOPE)
    return np.asarray(cv2.transform(root, _TO_LAB), np.float32)


def _difference(l1: Array, a1: Array, b1: Array, l2: Array, a2: Array, b2: Array) -> Array:
    """Of colours plane by plane. The mean hue on the shorter arc is the direction of the sum of both unit vectors, what
    depends on it alone is looked up, and ΔH'² is Δa'² + Δb² − ΔC'²."""
    b1b1, b2b2 = b1 * b1, b2 * b2
    stretch = np.float32(1.5) - _HALF * _seventh((np.sqrt(a1 * a1 + b1b1) + np.sqrt(a2 * a2 + b2b2)) * _HALF)
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = np.sqrt(a1 * a1 + b1b1), np.sqrt(a2 * a2 + b2b2)
    chroma, lightness = (c1 + c2) * _HALF, (l1 + l2) * _HALF - np.float32(50)
    lightness *= lightness
    hue = _mean_hue(a1, b1, c1, a2, b2, c2)
    da, db, dc = a2 - a1, b2 - b1, c2 - c1
    d_l = (l2 - l1) / (1 + np.float32(0.015) * lightness / np.sqrt(20 + lightness))
    d_c = dc / (1 + np.float32(0.045) * chroma)
    d_h = np.sqrt(np.abs(da * da + db * db - dc * dc)) / (1 + np.float32(0.015) * chroma * _T[hue])
    d_h = np.copysign(d_h, a1 * b2 - a2 * b1)
    total = d_l * d_l + d_c * d_c + d_h * (d_h - _ROTATION[hue] * _seventh(chroma) * d_c)
    return np.asarray(np.sqrt(np.abs(total)))


def _mean_hue(a1: Array, b1: Array, c1: Array, a2: Array, b2: Array, c2: Array) -> Array:
    """The mean hue as a place in the tables."""
    inverse1, inverse2 = 1 / (c1 + _TINY), 1 / (c2 + _TINY)
    x, y = a1 * inverse1 + a2 * inverse2, b1 * inverse1 + b2 * inverse2
    if (opposite := np.abs(x) + np.abs(y) < _OPPOSITE).any():
        # No shorter arc: the mean of the two angles, a quarter turn on from the one between 0 and 180°.
        opposite &= (c1 > 0) & (c2 > 0)
        upper = (b1 > 0) | ((b1 == 0) & (a1 > 0))
        x = np.where(opposite, -np.abs(b1), x)
        y = np.where(opposite, np.where(upper, a1, -a1), y)
    return np.asarray((np.arctan2(y, x) * np.float32(_STEPS / 2 / np.pi) + np.float32(_STEPS / 2)).astype(np.intp))


def _seventh(chroma: Array) -> Array:
    """√(C⁷ / (C⁷ + 25⁷))."""
    square = chroma * chroma
    power = square * square * square * chroma
    return np.asarray(np.sqrt(power / (power + _25_TO_THE_7)))
