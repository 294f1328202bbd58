"""Draws the demo's pictures: a street scene, an edit of it that went a little wrong, and a poster-like restyle.

python examples/demo/draw.py examples/demo
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np

WIDTH, HEIGHT = 640, 420


def scene(car: tuple[int, int, int], sky: tuple[int, int, int], window: bool) -> np.ndarray:
    """The street; colours are blue, green, red."""
    image = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    for row in range(HEIGHT):
        fade = row / HEIGHT
        image[row] = [int(channel + (250 - channel) * fade) for channel in sky]
    cv2.circle(image, (530, 80), 42, (90, 215, 250), -1, cv2.LINE_AA)
    cv2.ellipse(image, (150, 330), (320, 110), 0, 180, 360, (95, 165, 110), -1, cv2.LINE_AA)
    cv2.rectangle(image, (0, 310), (WIDTH, HEIGHT), (105, 100, 98), -1)
    for start in range(10, WIDTH, 90):
        cv2.rectangle(image, (start, 362), (start + 45, 368), (225, 225, 225), -1)
    cv2.rectangle(image, (90, 180), (250, 310), (150, 190, 225), -1)
    cv2.fillPoly(image, [np.array([[75, 182], [170, 105], [265, 182]])], (70, 75, 160), cv2.LINE_AA)
    cv2.rectangle(image, (155, 240), (190, 310), (60, 80, 110), -1)
    if window:
        cv2.rectangle(image, (205, 205), (237, 240), (235, 220, 160), -1)
        cv2.rectangle(image, (205, 205), (237, 240), (80, 80, 80), 2)
    cv2.rectangle(image, (330, 265), (540, 320), car, -1)
    cv2.fillPoly(image, [np.array([[365, 266], [395, 225], [480, 225], [512, 266]])], car, cv2.LINE_AA)
    cv2.fillPoly(image, [np.array([[380, 262], [402, 234], [432, 234], [432, 262]])], (240, 230, 205), cv2.LINE_AA)
    cv2.fillPoly(image, [np.array([[441, 262], [441, 234], [474, 234], [495, 262]])], (240, 230, 205), cv2.LINE_AA)
    for centre in (375, 495):
        cv2.circle(image, (centre, 322), 25, (35, 35, 35), -1, cv2.LINE_AA)
        cv2.circle(image, (centre, 322), 11, (190, 190, 190), -1, cv2.LINE_AA)
    return image


def poster(image: np.ndarray) -> np.ndarray:
    """Few flat colours and dark outlines."""
    smooth = cv2.bilateralFilter(image, 9, 60, 9)
    flat = (smooth // 64) * 64 + 32
    edges = cv2.dilate(cv2.Canny(smooth, 60, 140), np.ones((2, 2), np.uint8))
    flat[edges > 0] = (40, 25, 25)
    return flat


def main(folder: Path) -> None:
    before = scene(car=(190, 120, 60), sky=(235, 190, 130), window=True)
    after = scene(car=(60, 60, 205), sky=(215, 185, 175), window=False)
    for name, image in (("before", before), ("after", after), ("poster", poster(before))):
        cv2.imwrite(str(folder / f"{name}.png"), image, [cv2.IMWRITE_PNG_COMPRESSION, 9])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
