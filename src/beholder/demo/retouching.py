"""Edits made by hand: one thing recoloured or taken away, and the ways in which editors spoil the rest.

Images are RGB; a mask is 0 to 1 for each pixel, soft at its edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from beholder.demo.model import Pixels

Mask = NDArray[np.float32]
Points = Sequence[tuple[int, int]]


def inside(photo: Pixels, outline: Points) -> Mask:
    """Everything within a polygon."""
    mask = np.zeros(photo.shape[:2], np.float32)
    cv2.fillPoly(mask, [np.array(outline, np.int32)], 1)
    return mask


def around(photo: Pixels, middle: tuple[int, int], radii: tuple[int, int], turn: float = 0) -> Mask:
    """Everything within an ellipse."""
    mask = np.zeros(photo.shape[:2], np.float32)
    cv2.ellipse(mask, middle, radii, turn, 0, 360, 1, -1)
    return mask


def coloured(photo: Pixels, hues: tuple[float, float], least: float, softness: float = 1.2) -> Mask:
    """What has a hue in this range (degrees in CIELAB: red 30, orange 60, green 140) and at least this chroma."""
    lab = _lab(photo)
    hue = np.degrees(np.arctan2(lab[..., 2], lab[..., 1]))
    chroma = np.hypot(lab[..., 1], lab[..., 2])
    middle, reach = sum(hues) / 2, abs(hues[1] - hues[0]) / 2
    fits = np.clip((reach - np.abs(hue - middle)) / 5 + 0.5, 0, 1) * np.clip((chroma - least) / 8 + 0.5, 0, 1)
    return softened(np.asarray(fits, np.float32), softness)


def softened(mask: Mask, sigma: float) -> Mask:
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), sigma), np.float32)


def filled(mask: Mask, size: int) -> Mask:
    """The mask without holes and gaps narrower than `size`."""
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))
    return np.asarray(cv2.morphologyEx(mask, cv2.MORPH_CLOSE, kernel), np.float32)


def recoloured(photo: Pixels, mask: Mask, hue: float, chroma: float = 1.0, lighter: float = 0.0) -> Pixels:
    """Another hue (degrees in CIELAB) where the mask is; light and shade stay as they are."""
    lab = _lab(photo)
    strength = np.hypot(lab[..., 1], lab[..., 2]) * chroma
    painted = np.stack(
        [lab[..., 0] + lighter, strength * np.cos(np.radians(hue)), strength * np.sin(np.radians(hue))], axis=2
    )
    mixed = lab + (painted - lab) * mask[..., None]
    mixed[..., 0] = np.clip(mixed[..., 0], 0, 100)
    return _pixels(cv2.cvtColor(mixed.astype(np.float32), cv2.COLOR_LAB2RGB))


def taken_away(photo: Pixels, mask: Mask) -> Pixels:
    """The masked thing gone, the gap filled from its surroundings, with their grain."""
    gap = (mask > 0.5).astype(np.uint8)
    rough = np.asarray(cv2.inpaint(photo, gap, 5, cv2.INPAINT_TELEA), np.uint8)
    smooth = np.asarray(cv2.GaussianBlur(rough, (0, 0), 5), np.float32)
    grain = np.random.default_rng(4).normal(0, 1.5, photo.shape[:2])
    filling = smooth + np.asarray(grain, np.float32)[..., None]
    share = softened(gap.astype(np.float32), 2)[..., None]
    return _pixels((photo * (1 - share) + filling * share) / 255)


def face_swapped(photo: Pixels, other: Pixels, at: tuple[int, int], size: tuple[int, int], cut: Points) -> Pixels:
    """Another photo's face in place of the one at `at`: `cut` is its outline there, scaled into `size` and blended."""
    corner = np.array(cut).min(0)
    far = np.array(cut).max(0)
    piece = other[corner[1] : far[1], corner[0] : far[0]]
    outline = ((np.array(cut) - corner) * np.array(size) / (far - corner)).astype(np.int32)
    piece = np.asarray(cv2.resize(piece, size, interpolation=cv2.INTER_AREA), np.uint8)
    shape = np.zeros((size[1], size[0]), np.uint8)
    cv2.fillPoly(shape, [outline], 255)
    return np.asarray(cv2.seamlessClone(piece, photo, shape, at, cv2.NORMAL_CLONE), np.uint8)


def cast(photo: Pixels, gains: tuple[float, float, float]) -> Pixels:
    """A tint over everything."""
    return _pixels(photo / 255.0 * np.array(gains))


def saturated(photo: Pixels, factor: float, brighter: float = 0.0) -> Pixels:
    """Colours pushed away from grey, and light up to the point where it clips."""
    grey = cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY).astype(np.float32)[..., None]
    return _pixels((grey + (photo - grey) * factor) / 255 + brighter)


def shifted(photo: Pixels, right: int, down: int) -> Pixels:
    """Moved by whole pixels; what comes in is the border, drawn out."""
    matrix = np.array([[1, 0, right], [0, 1, down]], np.float32)
    height, width = photo.shape[:2]
    return np.asarray(cv2.warpAffine(photo, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE), np.uint8)


def zoomed(photo: Pixels, factor: float) -> Pixels:
    """Enlarged about the middle; what does not fit is cut off."""
    height, width = photo.shape[:2]
    matrix = np.asarray(cv2.getRotationMatrix2D((width / 2, height / 2), 0, factor))
    return np.asarray(cv2.warpAffine(photo, matrix, (width, height), flags=cv2.INTER_CUBIC), np.uint8)


def mirrored(photo: Pixels) -> Pixels:
    return np.ascontiguousarray(photo[:, ::-1])


def blurred(photo: Pixels, sigma: float) -> Pixels:
    return np.asarray(cv2.GaussianBlur(photo, (0, 0), sigma), np.uint8)


def shrunk(photo: Pixels, width: int) -> Pixels:
    """The whole picture with so few pixels."""
    height = round(photo.shape[0] * width / photo.shape[1])
    return np.asarray(cv2.resize(photo, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def half_and_half(left: Pixels, right: Pixels, share: float = 0.5) -> Pixels:
    """One picture on the left, another on the right."""
    mixed = left.copy()
    start = round(left.shape[1] * share)
    mixed[:, start:] = right[:, start:]
    return mixed


def _lab(photo: Pixels) -> NDArray[np.float32]:
    return np.asarray(cv2.cvtColor(photo.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), np.float32)


def _pixels(colour: NDArray[Any]) -> Pixels:
    return np.asarray(np.clip(colour, 0, 1) * 255 + 0.5, np.uint8)
