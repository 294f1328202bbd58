"""Color difference and structural similarity at each pixel: CIELAB, CIEDE2000, SSIM.

CIELAB is that of sRGB under D65 (2° observer). CIEDE2000 follows Sharma, Wu and Dalal (2005) with kL = kC = kH = 1:
about 1 can just be seen side by side, 10 is seen at a glance, black against white is 100. OpenCV's own CIELAB is not
used: it interpolates in a table and is off by up to 0.45.

SSIM is that of Wang, Bovik, Sheikh and Simoncelli (2004) on gray values of 0–1: a Gaussian window of 1.5 px cut off
after 3.5 standard deviations (11×11), population covariance, constants 0.01² and 0.03²; at the border of the image the
window sees its reflection, as in scikit-image.

Both process an image in blocks of rows that stay in the processor's cache: for a pair of a megapixel CIEDE2000 takes 33
ms of CPU and SSIM 9 ms, where scikit-image takes 700 ms and 120 ms.
"""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np

from beholder.instruments.instrument import Array, Bytes, Floats

_PIECE_PIXELS = 1 << 15  # pixels at a time
_25_TO_THE_7 = np.float32(25.0**7)
_SIGN_BIT = np.uint32(1 << 31)
_ONE_HALF, _TINY, _OPPOSITE = np.float32(0.5), np.float32(1e-9), np.float32(1e-5)

_HUE_STEPS = 1 << 16
_T_TERMS = ((1, 0, 0), (-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))


def _make_hue_tables() -> tuple[Floats, Floats]:
    """Return T and 2 sin 2Δθ by the mean hue from −180 to 180°, in steps of 0.0055°: no difference is off by as much as
    0.01."""
    hues = (np.arange(_HUE_STEPS + 1) + 0.5) / _HUE_STEPS * 360 - 180
    t = np.zeros_like(hues)
    for weight, factor, shift in _T_TERMS:  # one by one: each worker process would keep the memory of all at once
        t += weight * np.cos(np.radians(factor * hues + shift))
    rotation = 2 * np.sin(np.radians(60 * np.exp(-(((hues % 360 - 275) / 25) ** 2))))
    return t.astype(np.float32), rotation.astype(np.float32)


_T_BY_HUE, _ROTATION_BY_HUE = _make_hue_tables()

_SRGB_VALUES = np.arange(256) / 255
_SRGB_TO_LINEAR = np.where(
    _SRGB_VALUES <= 0.04045, _SRGB_VALUES / 12.92, ((_SRGB_VALUES + 0.055) / 1.055) ** 2.4
).astype(np.float32)
# IEC 61966-2-1 and D65, in the rounding that scikit-image has: greys have a* and b* under 0.02.
_D65_WHITE = np.array([0.95047, 1.0, 1.08883])
_TO_XYZ = np.array([[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]])
_TO_XYZ = (_TO_XYZ / _D65_WHITE[:, None]).astype(np.float32)
_LAB_KNEE, _LAB_SLOPE = (6 / 29) ** 3, (29 / 6) ** 2 / 3
# Under the knee the cube root goes on as its tangent: ∛max(t, knee) + slope · (min(t, knee) − knee). Here its constant.
_TO_LAB = np.array([[0, 116, 0, -16 - 116 * _LAB_SLOPE * _LAB_KNEE], [500, -500, 0, 0], [0, 200, -200, 0]], np.float32)


def to_lab(rgb: Bytes) -> Floats:
    """Convert sRGB pixels (H×W×3) to CIELAB: L* 0–100, a* and b* about ±110."""
    height, width = rgb.shape[:2]
    result = np.empty((height, width, 3), np.float32)
    for rows in _split_rows(height, width):
        result[rows] = _convert_to_lab(rgb[rows])
    return result


def ciede2000(one: Floats, other: Floats) -> Floats:
    """Return CIEDE2000 at each pixel of two CIELAB images of one shape, H×W×3.

    The formula is discontinuous where two hues are opposite: within some thousandths of a degree, single precision may
    land on the other side.
    """
    height, width = one.shape[:2]
    result = np.empty((height, width), np.float32)
    for rows in _split_rows(height, width):
        result[rows] = _compute_ciede2000(*cv2.split(one[rows]), *cv2.split(other[rows]))
    return result


def compute_color_difference(one: Bytes, other: Bytes) -> Floats:
    """Return CIEDE2000 at each pixel of two sRGB images of one shape.

    The same as `ciede2000` of both images in CIELAB, without ever holding these as a whole.
    """
    height, width = one.shape[:2]
    result = np.empty((height, width), np.float32)
    for rows in _split_rows(height, width):
        result[rows] = _compute_ciede2000(
            *cv2.split(_convert_to_lab(one[rows])), *cv2.split(_convert_to_lab(other[rows]))
        )
    return result


def _split_rows(height: int, width: int) -> Iterator[slice]:
    rows = max(1, _PIECE_PIXELS // width)
    return (slice(at, at + rows) for at in range(0, height, rows))


def _convert_to_lab(rgb: Bytes) -> Floats:
    xyz: Array = np.asarray(cv2.transform(cv2.LUT(rgb, _SRGB_TO_LINEAR), _TO_XYZ), np.float32)
    low: Array = np.asarray(cv2.threshold(xyz, _LAB_KNEE, 0, cv2.THRESH_TRUNC)[1], np.float32)
    xyz -= low
    xyz += np.float32(_LAB_KNEE)
    np.cbrt(xyz, out=xyz)
    low *= np.float32(_LAB_SLOPE)
    xyz += low
    return np.asarray(cv2.transform(xyz, _TO_LAB), np.float32)


def _compute_ciede2000(l1: Array, a1: Array, b1: Array, l2: Array, a2: Array, b2: Array) -> Array:
    """Compute CIEDE2000 from separate channels.

    The mean hue on the shorter arc is the direction of the sum of both unit vectors; what depends on it alone is looked
    up in tables; and ΔH'² is Δa'² + Δb² − ΔC'².
    """
    b1b1, b2b2 = b1 * b1, b2 * b2
    stretch = np.float32(1.5) - _ONE_HALF * _compute_chroma_weight(
        (_sqrt(a1 * a1 + b1b1) + _sqrt(a2 * a2 + b2b2)) * _ONE_HALF
    )
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = _sqrt(a1 * a1 + b1b1), _sqrt(a2 * a2 + b2b2)
    chroma, lightness = (c1 + c2) * _ONE_HALF, (l1 + l2) * _ONE_HALF - np.float32(50)
    lightness *= lightness
    hue = _look_up_mean_hue(a1, b1, c1, a2, b2, c2)
    da, db, dc = a2 - a1, b2 - b1, c2 - c1
    d_l = (l2 - l1) / (1 + np.float32(0.015) * lightness / _sqrt(20 + lightness))
    d_c = dc / (1 + np.float32(0.045) * chroma)
    d_h = _sqrt(np.abs(da * da + db * db - dc * dc)) / (1 + np.float32(0.015) * chroma * _T_BY_HUE.take(hue))
    # The sign of the one on the other, as bits: in a third of the time of np.copysign.
    d_h.view(np.uint32)[...] |= (a1 * b2 - a2 * b1).view(np.uint32) & _SIGN_BIT
    total = d_l * d_l + d_c * d_c + d_h * (d_h - _ROTATION_BY_HUE.take(hue) * _compute_chroma_weight(chroma) * d_c)
    return _sqrt(np.abs(total))


def _look_up_mean_hue(a1: Array, b1: Array, c1: Array, a2: Array, b2: Array, c2: Array) -> Array:
    """Return the mean hue as an index into the tables."""
    inverse1, inverse2 = 1 / (c1 + _TINY), 1 / (c2 + _TINY)
    x, y = a1 * inverse1 + a2 * inverse2, b1 * inverse1 + b2 * inverse2
    if (opposite := np.abs(x) + np.abs(y) < _OPPOSITE).any():
        # No shorter arc: the mean of the two angles, a quarter turn on from the one between 0 and 180°.
        opposite &= (c1 > 0) & (c2 > 0)
        upper = (b1 > 0) | ((b1 == 0) & (a1 > 0))
        x = np.where(opposite, -np.abs(b1), x)
        y = np.where(opposite, np.where(upper, a1, -a1), y)
    return np.asarray(
        (np.arctan2(y, x) * np.float32(_HUE_STEPS / 2 / np.pi) + np.float32(_HUE_STEPS / 2)).astype(np.intp)
    )


def _compute_chroma_weight(chroma: Array) -> Array:
    """Return √(C⁷ / (C⁷ + 25⁷))."""
    square = chroma * chroma
    power = square * square * square * chroma
    return _sqrt(power / (power + _25_TO_THE_7))


def _sqrt(values: Array) -> Array:
    return np.asarray(cv2.sqrt(values))  # the same as NumPy's, in half the time


SSIM_RADIUS = 5
_SSIM_KERNEL = np.asarray(cv2.getGaussianKernel(2 * SSIM_RADIUS + 1, 1.5, cv2.CV_32F), np.float32)
_SSIM_C1, _SSIM_C2 = np.float32(0.01**2), np.float32(0.03**2)
_BAND_ROWS = 96


def compute_ssim(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return SSIM at each pixel of two gray images of 0–1, and SSIM without its luminance term (contrast and
    structure).
    """
    whole, contrast = np.empty(one.shape, np.float32), np.empty(one.shape, np.float32)
    for rows, padded, inner in _iterate_bands(one.shape[0]):
        x, y = one[padded], other[padded]
        mean_x, mean_y, squares, product = (_apply_window(values)[inner] for values in (x, y, x * x + y * y, x * y))
        both, each = mean_x * mean_y, mean_x * mean_x + mean_y * mean_y
        part = (2 * (product - both) + _SSIM_C2) / (squares - each + _SSIM_C2)
        contrast[rows] = part
        whole[rows] = part * ((2 * both + _SSIM_C1) / (each + _SSIM_C1))
    return whole, contrast


def _iterate_bands(height: int) -> Iterator[tuple[slice, slice, slice]]:
    """Yield the rows to fill, the rows to read for them (with the margin of the window), and the former within the
    latter.
    """
    for top in range(0, height, _BAND_ROWS):
        end = min(height, top + _BAND_ROWS)
        first, last = max(0, top - SSIM_RADIUS), min(height, end + SSIM_RADIUS)
        yield slice(top, end), slice(first, last), slice(top - first, end - first)


def _apply_window(values: Array) -> Floats:
    return np.asarray(
        cv2.sepFilter2D(values, cv2.CV_32F, _SSIM_KERNEL, _SSIM_KERNEL, borderType=cv2.BORDER_REFLECT), np.float32
    )
