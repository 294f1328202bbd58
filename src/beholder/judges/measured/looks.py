"""How a restyled picture looks by itself, where a style asks for it: light and dark, colour, flatness, blank paper.

Every look is taken on the picture at no more than 512 px, in CIELAB, and has two limits: from one on what is asked for
is there, from the other on it is not; between them the question is open. The limits were set on photographs and on
posters, halftones, pencil drawings and line art made of them with OpenCV, so that none of these is called what it is
not.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import cv2
import numpy as np

from beholder.instruments.ciede import lab
from beholder.instruments.model import Bools, Bytes, Floats
from beholder.instruments.sizes import shrunk

SIDE = 512


class Look(NamedTuple):
    """`holds` is None where neither can be said."""

    name: str
    value: float | None
    holds: bool | None
    says: str


class Looks:
    """The looks at one picture, RGB uint8."""

    def __init__(self, pixels: Bytes) -> None:
        self._pixels = np.asarray(shrunk(pixels, SIDE), np.uint8)

    @cached_property
    def _lab(self) -> Floats:
        return lab(self._pixels)

    @cached_property
    def _light(self) -> Floats:
        return np.ascontiguousarray(self._lab[:, :, 0])

    @cached_property
    def _chroma(self) -> Floats:
        return np.asarray(np.hypot(self._lab[:, :, 1], self._lab[:, :, 2]), np.float32)

    def tonal_range(self) -> Look:
        """From the second to the ninety-eighth percentile of L*."""
        dark, light = (float(np.percentile(self._light, at)) for at in (2, 98))
        says = f"tones reach from L* {dark:.0f} to {light:.0f} of 0 to 100"
        return Look("tonal_range", light - dark, _between(light - dark, 50, 70), says)

    def deep_blacks(self) -> Look:
        """The share of pixels with L* below 10."""
        share = float((self._light < 10).mean())
        return Look("deep_blacks", share, _between(share, 0.01, 0.05), f"{share:.1%} of the pixels are black (L* < 10)")

    def open_shadows(self) -> Look:
        """The share of pixels with L* below 3, where print shows nothing any more."""
        share = float((self._light < 3).mean())
        says = f"{share:.1%} of the pixels are so dark (L* < 3) that print closes them"
        return Look("open_shadows", share, _between(-share, -0.15, -0.05), says)

    def colourless(self) -> Look:
        """How far nine in ten colours lie from the middle one in a* and b*: a tint of the paper is no colour."""
        a, b = self._lab[:, :, 1], self._lab[:, :, 2]
        away = float(np.percentile(np.hypot(a - np.median(a), b - np.median(b)), 90))
        says = f"one pixel in ten is coloured, {away:.0f} or more away from the picture's own tint (a*b* of CIELAB)"
        if away < 10:
            says = f"nine in ten pixels have one tint, within {away:.0f} (a*b* of CIELAB)"
        return Look("colourless", away, _between(-away, -10, -5), says)

    def saturated(self) -> Look:
        """The chroma that a quarter of the pixels have."""
        chroma = float(np.percentile(self._chroma, 75))
        says = f"a quarter of the pixels have a chroma of {chroma:.0f} or more"
        return Look("saturated", chroma, _between(chroma, 15, 35), says)

    def few_colours(self) -> Look:
        """How many colours, told apart by 15 in L*, a* and b*, make up nine tenths of the picture."""
        smooth = cv2.medianBlur(self._pixels, 5)
        cells = np.floor(lab(np.asarray(smooth, np.uint8)) / 15).astype(np.int32).reshape(-1, 3)
        _, counts = np.unique(cells @ np.array([1, 100, 10_000]), return_counts=True)
        shares = np.cumsum(np.sort(counts)[::-1]) / counts.sum()
        number = int(np.searchsorted(shares, 0.9)) + 1
        says = f"{number} colours (15 apart in L*a*b*) make up nine tenths of it"
        return Look("few_colours", float(number), _between(-number, -25, -12), says)

    def flat_colour(self) -> Look:
        """Of the areas between edges, the share in which L* changes by less than 0.25 a pixel."""
        smooth = cv2.GaussianBlur(self._light, (0, 0), 1.0)
        slope = np.hypot(cv2.Sobel(smooth, cv2.CV_32F, 1, 0) / 8, cv2.Sobel(smooth, cv2.CV_32F, 0, 1) / 8)
        edges = cv2.dilate(np.asarray(slope > 4, np.uint8), np.ones((7, 7), np.uint8)) > 0
        if edges.mean() > 0.9:
            return Look("flat_colour", None, None, "there are edges everywhere, and nothing between them")
        share = float((slope[~edges] < 0.25).mean())
        return Look("flat_colour", share, _between(share, 0.4, 0.8), f"{share:.0%} of the area between edges is flat")

    def white_paper(self) -> Look:
        """The share of pixels that are almost white."""
        share = float(((self._light > 90) & (self._chroma < 12)).mean())
        return Look("white_paper", share, _between(share, 0.10, 0.30), f"{share:.0%} of it is blank white")

    def plain_ground(self) -> Look:
        """The share of a border of 4 % that is within ΔE 8 (CIE 1976) of its most usual colour."""
        ring = self._lab[_border(self._light.shape)]
        share = float((np.linalg.norm(ring - np.median(ring, axis=0), axis=1) < 8).mean())
        return Look(
            "plain_ground", share, _between(share, 0.75, 0.95), f"{share:.0%} of its border is one plain colour"
        )

    def calm_area(self) -> Look:
        """The largest connected part, in blocks of a 24th of the longer side, whose L* deviates by less than 3."""
        height, width = self._light.shape
        scale = min(1.0, 24 / max(height, width))
        grid = max(1, round(width * scale)), max(1, round(height * scale))
        mean, square = (cv2.resize(one, grid, interpolation=cv2.INTER_AREA) for one in (self._light, self._light**2))
        calm = np.asarray(square - mean * mean < 9, np.uint8)
        _, _, stats, _ = cv2.connectedComponentsWithStats(calm, connectivity=4)
        share = float(stats[1:, cv2.CC_STAT_AREA].max(initial=0) / calm.size)
        return Look("calm_area", share, _between(share, 0.03, 0.12), f"the largest calm area is {share:.0%} of it")

    def upright(self, size: tuple[int, int]) -> Look:
        """Height by width of the file."""
        ratio = size[1] / size[0]
        return Look(
            "upright", ratio, _between(ratio, 1.0, 1.2), f"it is {size[0]}×{size[1]}, {ratio:.2f} as high as wide"
        )


def _between(value: float, fails: float, holds: float) -> bool | None:
    """True from `holds` up, False up to `fails`, else None."""
    return True if value >= holds else False if value <= fails else None


def _border(shape: tuple[int, ...]) -> Bools:
    height, width = shape[:2]
    edge = max(1, round(max(height, width) * 0.04))
    ring = np.ones((height, width), np.bool_)
    ring[edge : height - edge, edge : width - edge] = False
    return ring
