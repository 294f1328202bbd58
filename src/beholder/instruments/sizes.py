"""Smaller copies to measure on."""

from __future__ import annotations

import cv2
import numpy as np

from beholder.instruments.model import Array


def shrunk(image: Array | cv2.typing.MatLike, side: int) -> Array:
    """With at most this longer side, each pixel the mean of what it covers; in the same type."""
    height, width = image.shape[:2]
    if max(height, width) <= side:
        return np.asarray(image)
    scale = side / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
