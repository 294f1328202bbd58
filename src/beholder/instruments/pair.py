"""Smaller copies to measure on.

What is measured: a picture, or two of them that are compared.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import cv2
import numpy as np

from beholder.errors import ImageError, UsageError
from beholder.images import codec
from beholder.images.image import DEFAULT_IMAGE_LIMITS, ImageLimits, Sizing, printable_name
from beholder.images.prepare import fit_size, upright_size
from beholder.images.source import read_header
from beholder.instruments import pixel_metrics
from beholder.instruments.instrument import Array, Bools, Bytes, Floats
from beholder.instruments.pixel_metrics import compute_color_difference, compute_ssim, to_lab
from beholder.instruments.registration import Alignment, has_same_aspect, register_images, warp_to_frame


def shrink_to_side(image: Array | cv2.typing.MatLike, side: int) -> Array:
    """With at most this longer side, each pixel the mean of what it covers; in the same type."""
    height, width = image.shape[:2]
    if max(height, width) <= side:
        return np.asarray(image)
    scale = side / max(height, width)
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))


DEFAULT_SIDE = 1024
AUDIT_SIDE = 400  # of the cheap instruments in an audit: a quarter of a common photo, which JPEG decodes fastest

_QUANTILE_PIXELS, _SAMPLE_PIXELS = 32_768, 10_000

_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)
ImageSize = tuple[int, int]


class SampledColors(NamedTuple):
    """CIELAB of before and aligned (N×3) at the same pixels, and whether each lies in the region of the edit."""

    before: Floats
    aligned: Floats
    inside: Bools


class SingleImage:
    """One image to measure: RGB uint8 pixels, upright, sRGB, alpha over white; `size` is that of the file."""

    def __init__(self, pixels: Array, *, size: ImageSize | None = None) -> None:
        self.pixels = _as_rgb(pixels, "the picture")
        self.size = size or (self.pixels.shape[1], self.pixels.shape[0])

    @classmethod
    def load(
        cls, data: bytes, *, side: int = DEFAULT_SIDE, name: str = "the image", caps: ImageLimits = DEFAULT_IMAGE_LIMITS
    ) -> SingleImage:
        """From the bytes of a file, the longer side at most `side`. Raises `ImageError`."""
        pixels, size = _load_pixels(data, side, name, caps)
        return cls(pixels, size=size)

    @cached_property
    def luma(self) -> Floats:
        """Luma (Rec. 601 weights on sRGB values), 0–1."""
        return _compute_luma(self.pixels)

    @cached_property
    def lab(self) -> Floats:
        """CIELAB, D65."""
        return to_lab(self.pixels)


class ImagePair:
    """Two images to compare, and all that instruments share of them, computed on first use and kept.

    `before` and `after` are RGB uint8 as given (after may have another size); `sizes` the (width, height) of both
    files; `mask` is True where the edit belongs, in before's frame. Whatever compares pixels takes `aligned` instead
    of after, and only where it is `valid`.
    """

    def __init__(
        self,
        before: Array,
        after: Array,
        *,
        mask: Array | None = None,
        sizes: tuple[ImageSize, ImageSize] | None = None,
    ) -> None:
        self.before = _as_rgb(before, "the image before")
        self.after = _as_rgb(after, "the image after")
        self.sizes = sizes or (self.before.shape[1::-1], self.after.shape[1::-1])
        self.mask = None if mask is None else _fit_mask(mask, self.before.shape[:2])

    @classmethod
    def load(
        cls,
        before: bytes,
        after: bytes,
        *,
        mask: bytes | None = None,
        side: int = DEFAULT_SIDE,
        names: tuple[str, str, str] = ("the image before", "the image after", "the mask"),
        caps: ImageLimits = DEFAULT_IMAGE_LIMITS,
    ) -> ImagePair:
        """From the bytes of files, each scaled so that its longer side is at most `side` (never enlarged).

        In a mask white is where the edit belongs; one with transparency names it by that (as inpainting services take
        it), unless all it shows is white. Raises `ImageError` with the name of the file that cannot be used, and
        `UsageError` for a mask of another shape.
        """
        first, first_size = _load_pixels(before, side, names[0], caps)
        second, second_size = _load_pixels(after, side, names[1], caps)
        place = None if mask is None else _load_mask(mask, side, names[2], caps)
        return cls(first, second, mask=place, sizes=(first_size, second_size))

    @property
    def region_is_inferred(self) -> bool:
        """Whether the intended region is a guess, since no mask was given."""
        return self.mask is None

    @cached_property
    def identical(self) -> bool:
        return self.before.shape == self.after.shape and bool(np.array_equal(self.before, self.after))

    @cached_property
    def alignment(self) -> Alignment:
        return register_images(self.before, self.after)

    @cached_property
    def incomparable_reason(self) -> str:
        """Why pixels cannot be compared, for a sentence ("… since "); empty where they can.

        Images of one shape are always compared, laid over each other by a plain resize where nothing better is found.
        """
        if self.alignment.registered or has_same_aspect(self.before.shape[1::-1], self.after.shape[1::-1]):
            return "" if self.valid.any() else "the images do not overlap"
        (w1, h1), (w2, h2) = self.sizes
        return f"the images have different shapes ({w1}×{h1} and {w2}×{h2}) and could not be laid over each other"

    @cached_property
    def _warped(self) -> tuple[Bytes, Bools]:
        return warp_to_frame(self.after, self.alignment, self.before.shape[:2])

    @property
    def aligned(self) -> Bytes:
        """After in before's frame."""
        return self._warped[0]

    @property
    def valid(self) -> Bools:
        """Where `aligned` has pixels: what a shift moved out of the image has none."""
        return self._warped[1]

    @cached_property
    def fully_valid(self) -> bool:
        """Whether all of before has its pixels in after."""
        return bool(self.valid.all())

    @cached_property
    def luma(self) -> tuple[Floats, Floats]:
        """Luma of before and aligned (Rec. 601 weights on sRGB values), 0–1."""
        return _compute_luma(self.before), _compute_luma(self.aligned)

    @cached_property
    def lab(self) -> tuple[Floats, Floats]:
        """CIELAB (D65) of before and aligned."""
        return to_lab(self.before), to_lab(self.aligned)

    @cached_property
    def sampled_colors(self) -> SampledColors:
        """Colours on an even grid of about 10,000 pixels, where valid: enough for means and palettes."""
        step = max(1, int((self.valid.size / _SAMPLE_PIXELS) ** 0.5))
        grid = slice(step // 2, None, step), slice(step // 2, None, step)
        there = self.valid[grid]
        one, other = (
            to_lab(image[grid][there].reshape(1, -1, 3)).reshape(-1, 3) for image in (self.before, self.aligned)
        )
        return SampledColors(one, other, self.region[grid][there])

    @cached_property
    def difference(self) -> Floats:
        """CIEDE2000 at each pixel, 0 where not valid."""
        if self.identical:
            return np.zeros(self.before.shape[:2], np.float32)
        everywhere = compute_color_difference(self.before, self.aligned)
        return everywhere if self.fully_valid else everywhere * self.valid

    @cached_property
    def similarity(self) -> tuple[Floats, Floats]:
        """SSIM at each pixel, and its part without luminance."""
        return compute_ssim(*self.luma)

    @cached_property
    def difference_quantiles(self) -> tuple[float, float]:
        """Median and 95 % quantile of the difference where valid."""
        middle, high = compute_quantiles(self.difference, self.valid, (0.5, 0.95))
        return middle, high

    @cached_property
    def changed_mask(self) -> Bools:
        """Where a person sees a change at a glance: `regions.changed`."""
        return pixel_metrics.find_changed_pixels(self.difference, self.valid)

    @cached_property
    def region(self) -> Bools:
        """Where the edit belongs: the mask, or else the main change itself (`regions.inferred`)."""
        return self.mask if self.mask is not None else pixel_metrics.infer_edit_region(self.difference)

    @cached_property
    def region_share(self) -> float:
        """The region's share of the image."""
        return float(np.count_nonzero(self.region) / self.region.size)


def compute_quantiles(values: Floats, where: Bools, shares: tuple[float, ...]) -> list[float]:
    """Quantiles (the value of the lower rank) of the values at some places; zeros where there is no place. Of a
    large image an even grid of at least 20,000 pixels is taken: that moves a quantile by less than its noise does."""
    step = max(1, round((values.size / _QUANTILE_PIXELS) ** 0.5))
    chosen = values[::step, ::step][where[::step, ::step]]
    if not len(chosen):
        return [0.0] * len(shares)
    ranks = [int(share * (len(chosen) - 1)) for share in shares]
    ordered = np.partition(chosen, ranks)
    return [float(ordered[rank]) for rank in ranks]


def _as_rgb(pixels: Array, name: str) -> Bytes:
    """H×W×3 of uint8; grey is repeated, alpha laid over white."""
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise UsageError(f"{name} must be an array H×W×3 of uint8, not {pixels.shape} of {pixels.dtype}")
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    if channels == 3:
        return np.ascontiguousarray(pixels)
    if channels == 1:
        return np.ascontiguousarray(np.repeat(pixels.reshape(*pixels.shape[:2], 1), 3, axis=2))
    if channels != 4:
        raise UsageError(f"{name} must have 1, 3 or 4 channels, not {channels}")
    alpha = pixels[:, :, 3:].astype(np.float32) / 255
    return np.rint(pixels[:, :, :3] * alpha + 255 * (1 - alpha)).astype(np.uint8)


def _compute_luma(rgb: Bytes) -> Floats:
    return np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8) * np.float32(1 / 255)


def _decode_scaled(
    data: bytes, side: int, name: str, caps: ImageLimits, background: tuple[int, int, int] = _WHITE
) -> tuple[Bytes, bool, ImageSize]:
    """Pixels with the longer side at most `side`, whether they are opaque, and the file's upright size."""
    try:
        header = read_header(data, caps)
        size = upright_size(header)
        target = fit_size(*size, Sizing(max_side=side))
        raster = codec.decode(data, header, target, background)
    except ImageError as error:
        raise ImageError(f"{printable_name(name)} {error}") from None
    return codec.resize(raster.pixels, *target), raster.opaque, size


def _load_pixels(data: bytes, side: int, name: str, caps: ImageLimits) -> tuple[Bytes, ImageSize]:
    pixels, _, size = _decode_scaled(data, side, name, caps)
    return pixels, size


def _load_mask(data: bytes, side: int, name: str, caps: ImageLimits) -> Bools:
    on_white, opaque, _ = _decode_scaled(data, side, name, caps)
    light = _as_rgb(on_white, name).min(axis=2)
    painted = np.asarray(light > 127, np.bool_)
    if opaque:
        return painted
    dark = _as_rgb(_decode_scaled(data, side, name, caps, _BLACK)[0], name).min(axis=2)
    clear = np.asarray(light.astype(np.int16) - dark > 127, np.bool_)
    only_white = not clear.all() and bool(painted[~clear].all())
    return painted & ~clear if only_white else clear


def _fit_mask(mask: Array, shape: tuple[int, int]) -> Bools:
    if mask.ndim == 3:
        mask = mask[:, :, 0]
    if mask.ndim != 2 or 0 in mask.shape:
        raise UsageError(f"the mask must be an array H×W, not {mask.shape}")
    place: Bools = np.ascontiguousarray(mask > (127 if mask.dtype == np.uint8 else 0), np.bool_)
    if place.shape == shape:
        return place
    if not has_same_aspect(place.shape[::-1], shape[::-1]):
        raise UsageError(
            f"the mask has another shape ({place.shape[1]}×{place.shape[0]}) than the image before "
            f"({shape[1]}×{shape[0]}); give one that lies over it"
        )
    resized = cv2.resize(place.astype(np.uint8), shape[::-1], interpolation=cv2.INTER_NEAREST)
    return np.asarray(resized, np.bool_)
