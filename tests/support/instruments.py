"""Images whose answer is known: photographs that scikit-image brings along, and what was done to them."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt
from skimage import data

from beholder.instruments.instrument import Measurement

Image = npt.NDArray[np.uint8]

PHOTOS = ("astronaut", "chelsea", "coffee", "rocket")


def photo(name: str = "astronaut", width: int = 480, height: int = 360) -> Image:
    pixels = np.ascontiguousarray(getattr(data, name)()[:, :, :3])
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def noisy(image: Image, strength: float = 2.0, seed: int = 0) -> Image:
    noise = np.random.default_rng(seed).normal(0, strength, image.shape)
    return np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)


def blurred(image: Image, sigma: float) -> Image:
    return np.asarray(cv2.GaussianBlur(image, (0, 0), sigma), np.uint8)


def resized(image: Image, size: tuple[int, int], interpolation: int = cv2.INTER_AREA) -> Image:
    return np.asarray(cv2.resize(image, size, interpolation=interpolation), np.uint8)


def stylised(image: Image) -> Image:
    return np.asarray(cv2.stylization(image), np.uint8)


def value_of(measurement: Measurement) -> float:
    assert measurement.value is not None, measurement.sentence
    return measurement.value


def flat(colour: tuple[int, int, int], width: int = 120, height: int = 90) -> Image:
    return np.full((height, width, 3), colour, np.uint8)


def pasted(image: Image, left: float, top: float, right: float, bottom: float, colour: tuple[int, int, int]) -> Image:
    """With a rectangle of one colour, its sides in shares of width and height."""
    height, width = image.shape[:2]
    result = image.copy()
    result[round(top * height) : round(bottom * height), round(left * width) : round(right * width)] = colour
    return result


def zoomed(image: Image, scale: float) -> Image:
    """Enlarged about the middle; the size of the image stays."""
    height, width = image.shape[:2]
    turn = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), 0, scale)
    return np.asarray(cv2.warpAffine(image, turn, (width, height), flags=cv2.INTER_CUBIC), np.uint8)


def png(image: npt.NDArray[np.uint8]) -> bytes:
    """RGB, RGBA or grey as a PNG file."""
    pixels = image if image.ndim == 2 else image[..., [2, 1, 0, 3][: image.shape[2]]]
    return cv2.imencode(".png", np.ascontiguousarray(pixels))[1].tobytes()


def jpeg(image: Image, quality: int = 92) -> bytes:
    return cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
