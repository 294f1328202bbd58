"""Photographs, what can be done to them, and the instruments' verdicts on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import cv2
import numpy as np
import numpy.typing as npt
import skimage.data

from beholder import Case, judge
from beholder.verdicts.verdict import Verdict

Image = npt.NDArray[np.uint8]


@cache
def photo(name: str = "coffee", side: int = 384) -> Image:
    pixels = np.asarray(getattr(skimage.data, name)())[..., :3]
    scale = side / max(pixels.shape[:2])
    return np.asarray(cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.uint8)


def png(pixels: Image) -> bytes:
    return cv2.imencode(".png", pixels[..., ::-1] if pixels.ndim == 3 else pixels)[1].tobytes()


def resized(pixels: Image, size: tuple[int, int], interpolation: int = cv2.INTER_AREA) -> Image:
    """To `size`, width first."""
    return np.asarray(cv2.resize(pixels, size, interpolation=interpolation), np.uint8)


def with_ball(pixels: Image) -> Image:
    """A small edit, upper left: a red ball was added."""
    edited = pixels.copy()
    height, width = pixels.shape[:2]
    cv2.circle(edited, (width // 6, height // 5), min(height, width) // 10, (220, 30, 40), -1)
    return edited


def on_edit(before: Image | bytes, after: Image | bytes, instruction: str = "add a red ball") -> Verdict:
    images = {role: one if isinstance(one, bytes) else png(one) for role, one in (("input", before), ("edited", after))}
    return judge("edit-preservation", Case("c", images, {"instruction": instruction}))


def on_restyle(before: Image, after: Image, style: str = "Watercolour") -> Verdict:
    return judge("restyle", Case("c", {"original": png(before), "restyled": png(after)}, {"style": style}))


def scores(verdict: Verdict) -> list[float | None]:
    return [one.score for one in verdict.criteria.values()]


def answers(verdict: Verdict) -> dict[str, str]:
    return {one.id: one.answer for result in verdict.criteria.values() for one in result.assertions}


def evidence(verdict: Verdict, id_: str) -> str:
    return next(one.evidence for result in verdict.criteria.values() for one in result.assertions if one.id == id_)


def stylised(pixels: Image) -> Image:
    return np.ascontiguousarray(
        cv2.stylization(np.ascontiguousarray(pixels[..., ::-1]), sigma_s=60, sigma_r=0.45)[..., ::-1]
    )


def posterised(pixels: Image) -> Image:
    for _ in range(3):
        pixels = np.asarray(cv2.bilateralFilter(pixels, 9, 60, 9), np.uint8)
    return np.asarray(pixels // 64 * 64 + 32, np.uint8)


def sepia(pixels: Image) -> Image:
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)[..., None]
    return np.asarray(np.clip(grey * np.array([1.07, 0.95, 0.75]), 0, 255), np.uint8)


def blurred(pixels: Image, by: float) -> Image:
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), by), np.uint8) if by else pixels


def noisy(pixels: Image, by: float) -> Image:
    noise = np.random.default_rng(5).normal(0, by, pixels.shape)
    return np.asarray(np.clip(pixels + noise, 0, 255), np.uint8)


def tinted(pixels: Image, by: float) -> Image:
    return np.asarray(np.clip(pixels + np.array([by, 0, -by]), 0, 255), np.uint8)


def darkened(pixels: Image, by: float) -> Image:
    return (pixels * (1 - by)).astype(np.uint8)


def warped(pixels: Image, by: float) -> Image:
    y, x = np.mgrid[: pixels.shape[0], : pixels.shape[1]].astype(np.float32)
    moved = cv2.remap(
        pixels,
        x + np.float32(by) * np.sin(y / 17),
        y + np.float32(by) * np.cos(x / 17),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REFLECT,
    )
    return np.asarray(moved, np.uint8)


def cropped(pixels: Image, by: float) -> Image:
    height, width = pixels.shape[:2]
    top, left = round(height * by), round(width * by)
    return np.ascontiguousarray(pixels[top : height - top, left : width - left])


def recompressed(pixels: Image, by: float) -> Image:
    """Worse with `by`, from 0 to 100."""
    if not by:
        return pixels
    coded = cv2.imencode(".jpg", pixels[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, int(100 - by)])[1]
    decoded = np.asarray(cv2.imdecode(coded, cv2.IMREAD_COLOR), np.uint8)
    return np.ascontiguousarray(decoded[..., ::-1])


Damage = Callable[[Image, float], Image]
