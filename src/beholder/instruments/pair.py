"""What instruments measure: one image (`SingleImage`), or two that are compared (`ImagePair`).

A pair computes what several instruments share (alignment, color difference, SSIM, the region of the edit) on first use
and keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from itertools import chain
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import cv2
import numpy as np

from beholder.errors import ImageError, UsageError
from beholder.images import codec
from beholder.images.image import DEFAULT_IMAGE_LIMITS, ImageLimits, Sizing, printable_name
from beholder.images.prepare import fit_size, upright_size
from beholder.images.source import read_header
from beholder.instruments.instrument import Array, Bools, Bytes, Floats, PairReader, PairReading, scale_to_side
from beholder.instruments.pixel_metrics import compute_color_difference, compute_ssim, to_lab
from beholder.instruments.regions import Box, LocatedWeight, find_changed_pixels, infer_edit_region, locate, round_box
from beholder.instruments.registration import Alignment, has_same_aspect, register_images, to_gray, warp_to_frame

DEFAULT_SIDE = 1024
AUDIT_SIDE = 400  # for the cheap instruments in an audit: a quarter of a common photo, which JPEG decodes fastest
AUDIT_MAP_SIDE = 200  # for its color difference and SSIM, which cost more than everything else there

_SAME_PLACE = 0.01  # of the side: images that were moved by less lie over each other
_QUANTILE_PIXELS, _SAMPLE_PIXELS = 32_768, 10_000

_LEVEL = np.float32(1 / 255)
_WHITE, _BLACK = (255, 255, 255), (0, 0, 0)
# glibc gives the memory of a pair back to the system when the pair is freed, and for the next pair the kernel has to
# clear every page again: a fifth of the time of all instruments at 512 px. Once a block of 32 MB was freed, it keeps up
# to 64 MB for the next one, in any process that has ever freed so large an array. The peak stays the same.
np.empty((32 << 20) - 8192, np.uint8)

ImageSize = tuple[int, int]  # width, height
_Result = TypeVar("_Result")


class SampledColors(NamedTuple):
    """CIELAB of before and aligned (N×3) at the same pixels, and whether each lies in the region of the edit."""

    before: Floats
    aligned: Floats
    inside: Bools


class SingleImage:
    """One image to measure.

    Attributes:
        pixels: RGB uint8, upright, sRGB, alpha composited over white.
        size: (width, height) of the file, which may be larger than `pixels`.
    """

    def __init__(self, pixels: Array, *, size: ImageSize | None = None) -> None:
        self.pixels = _as_rgb(pixels, "the picture")  # upright, sRGB
        self.size = size or (self.pixels.shape[1], self.pixels.shape[0])

    @classmethod
    def load(
        cls, data: bytes, *, side: int = DEFAULT_SIDE, name: str = "the image", caps: ImageLimits = DEFAULT_IMAGE_LIMITS
    ) -> SingleImage:
        """Decode the bytes of a file, scaled down so that the longer side is at most `side`.

        Raises:
            ImageError: The file cannot be used; the message begins with `name`.
        """
        pixels, _, size = _decode_scaled(data, side, name, caps)
        return cls(pixels, size=size)

    @cached_property
    def gray(self) -> Bytes:
        """Luma (Rec. 601 weights on sRGB values) in levels, 0–255."""
        return to_gray(self.pixels)

    @cached_property
    def luma(self) -> Floats:
        """Luma (Rec. 601 weights on sRGB values), 0–1."""
        return self.gray * _LEVEL

    @cached_property
    def lab(self) -> Floats:
        """CIELAB, D65."""
        return to_lab(self.pixels)


class ImagePair:
    """Two images to compare, and what instruments share about them, computed on first use and kept.

    Code that compares pixels uses `aligned` instead of `after`, and only where it is `valid`.

    Attributes:
        before: RGB uint8 as given.
        after: RGB uint8 as given; may have another size than `before`.
        mask: True where the edit belongs, in before's frame; None if no mask was given.
        sizes: (width, height) of both files.
        map_side: The longer side in pixels at which color difference and SSIM are computed; None for that of `before`.
    """

    def __init__(
        self,
        before: Array,
        after: Array,
        *,
        mask: Array | None = None,
        sizes: tuple[ImageSize, ImageSize] | None = None,
        map_side: int | None = None,
    ) -> None:
        self.before = _as_rgb(before, "the image before")
        self.after = _as_rgb(after, "the image after")
        self.sizes = sizes or (self.before.shape[1::-1], self.after.shape[1::-1])
        self.mask = None if mask is None else _fit_mask(mask, self.before.shape[:2])
        self.map_side = map_side or max(self.before.shape)

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
        """Decode the bytes of files, each scaled down so that its longer side is at most `side`.

        Args:
            before: The image as it was.
            after: What was made of it.
            mask: White where the edit belongs. In a mask with transparency the transparent part is where it belongs (as
                inpainting services expect it), unless everything that is opaque is white.
            side: Longer side in pixels; smaller images are not enlarged.
            names: What to call the three files in errors.
            caps: Limits on what is decoded.

        Raises:
            ImageError: A file cannot be used; the message begins with its name.
            UsageError: The mask has another shape than the image before.
        """
        first, _, first_size = _decode_scaled(before, side, names[0], caps)
        second, _, second_size = _decode_scaled(after, side, names[1], caps)
        region = None if mask is None else _load_mask(mask, side, names[2], caps)
        return cls(first, second, mask=region, sizes=(first_size, second_size))

    def images(self) -> tuple[SingleImage, SingleImage]:
        """Return both images for image instruments, each with the size of its file."""
        return self._images

    @cached_property
    def _images(self) -> tuple[SingleImage, SingleImage]:
        return SingleImage(self.before, size=self.sizes[0]), SingleImage(self.after, size=self.sizes[1])

    def upscale_map(self, values: Array, interpolation: int = cv2.INTER_LINEAR) -> Floats:
        """Scale a small map (a value for each block or place) to the size of the image before."""
        size = self.before.shape[1::-1]
        return np.asarray(cv2.resize(np.asarray(values, np.float32), size, interpolation=interpolation), np.float32)

    def _fit_map(self, values: Floats) -> Floats:
        return values if values.shape == self.before.shape[:2] else self.upscale_map(values)

    @property
    def region_is_inferred(self) -> bool:
        """Whether the region of the edit is a guess, because no mask was given."""
        return self.mask is None

    @cached_property
    def identical(self) -> bool:
        return self.before.shape == self.after.shape and bool(np.array_equal(self.before, self.after))

    @cached_property
    def alignment(self) -> Alignment:
        return register_images(self.before, self.after, (self._images[0].gray, self._images[1].gray))

    @cached_property
    def incomparable_reason(self) -> str:
        """Why pixels cannot be compared, for a sentence ("Not measured: …"); empty where they can.

        Images of the same shape are always compared, by a plain resize where no better alignment is found.
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
        """The image after, warped into before's frame."""
        return self._warped[0]

    @property
    def valid(self) -> Bools:
        """Where `aligned` has pixels: False for what a shift moved out of the image."""
        return self._warped[1]

    @cached_property
    def fully_valid(self) -> bool:
        """Whether every pixel of before has its counterpart in after."""
        return bool(self.valid.all())

    @cached_property
    def gray(self) -> tuple[Bytes, Bytes]:
        """Luma of before and aligned (Rec. 601 weights on sRGB values) in levels, 0–255."""
        before, after = self._images
        return before.gray, after.gray if self.aligned is self.after else to_gray(self.aligned)

    @cached_property
    def luma(self) -> tuple[Floats, Floats]:
        """Luma of before and aligned (Rec. 601 weights on sRGB values), 0–1."""
        return self.gray[0] * _LEVEL, self.gray[1] * _LEVEL

    @cached_property
    def lab(self) -> tuple[Floats, Floats]:
        """CIELAB (D65) of before and aligned."""
        return to_lab(self.before), to_lab(self.aligned)

    @cached_property
    def sampled_colors(self) -> SampledColors:
        """Colors on an even grid of about 10,000 pixels, where valid: enough for means and palettes."""
        step = max(1, int((self.valid.size / _SAMPLE_PIXELS) ** 0.5))
        grid = slice(step // 2, None, step), slice(step // 2, None, step)
        valid = self.valid[grid]
        before, aligned = (
            to_lab((image[grid] if self.fully_valid else image[grid][valid]).reshape(1, -1, 3)).reshape(-1, 3)
            for image in (self.before, self.aligned)
        )
        return SampledColors(before, aligned, self.region[grid][valid])

    @cached_property
    def difference(self) -> Floats:
        """CIEDE2000 at each pixel, 0 where not valid."""
        if self.identical:
            return np.zeros(self.before.shape[:2], np.float32)
        small = compute_color_difference(
            *(shrink_to_side(image, self.map_side) for image in (self.before, self.aligned))
        )
        difference = self._fit_map(small)
        return difference if self.fully_valid else difference * self.valid

    @cached_property
    def similarity(self) -> tuple[Floats, Floats]:
        """SSIM at each pixel, and SSIM without its luminance term."""
        whole, contrast = compute_ssim(*(shrink_to_side(luma, self.map_side) for luma in self.luma))
        return self._fit_map(whole), self._fit_map(contrast)

    @cached_property
    def difference_quantiles(self) -> tuple[float, float]:
        """Median and 95 % quantile of the difference where valid."""
        median, high = compute_quantiles(self.difference, self.valid, (0.5, 0.95))
        return median, high

    @cached_property
    def changed_mask(self) -> Bools:
        """Where a person sees a change at a glance (`regions.find_changed_pixels`)."""
        return find_changed_pixels(self.difference, self.valid)

    @cached_property
    def changed_place(self) -> LocatedWeight:
        """Where most of `changed_mask` lies."""
        return locate(self.changed_mask)

    @cached_property
    def region(self) -> Bools:
        """Where the edit belongs: the mask, or else the main change itself (`regions.infer_edit_region`)."""
        return self.mask if self.mask is not None else infer_edit_region(self.difference)

    @cached_property
    def region_share(self) -> float:
        """The share of the image that the region covers."""
        return float(np.count_nonzero(self.region) / self.region.size)

    def map_box(self, box: Box) -> Box:
        """Return where a box of the image before lies in the image after: the upright box around its four corners."""
        (height, width), (height_after, width_after) = self.before.shape[:2], self.after.shape[:2]
        corners = np.array([(x * width - 0.5, y * height - 0.5, 1.0) for x in box[::2] for y in box[1::2]])
        points = (corners @ self.alignment.matrix.T + 0.5) / (width_after, height_after)
        (left, top), (right, bottom) = points.min(axis=0).clip(0, 1), points.max(axis=0).clip(0, 1)
        return float(left), float(top), float(right), float(bottom)

    def boxes_by_role(self, boxes: Sequence[Box], roles: Sequence[str]) -> dict[str, tuple[Box, ...]]:
        """Return boxes of the image before by the role of the image that they are for: `""` for both where these lie
        over each other as they are, else also where they are in the image after.

        Args:
            boxes: In the frame of the image before.
            roles: Of both images; two that differ.
        """
        if not boxes:
            return {}
        mapped = [self.map_box(box) for box in boxes]
        ends = zip(chain.from_iterable(boxes), chain.from_iterable(mapped), strict=True)
        if len(set(roles)) < 2 or all(abs(one - other) <= _SAME_PLACE for one, other in ends):
            return {"": tuple(boxes)}
        seen = tuple(round_box(box) for box in mapped if box[0] < box[2] and box[1] < box[3])
        return {roles[0]: tuple(boxes)} | ({roles[1]: seen} if seen else {})  # else it was moved out of the image


def once_per_pair(compute: Callable[[ImagePair], _Result]) -> Callable[[ImagePair], _Result]:
    """Cache the result of a function of a pair for as long as the pair exists."""
    results: WeakKeyDictionary[ImagePair, _Result] = WeakKeyDictionary()

    @wraps(compute)
    def cached(pair: ImagePair) -> _Result:
        if pair not in results:
            results[pair] = compute(pair)
        return results[pair]

    return cached


def require_min_side(read: PairReader, min_side: int, sentence: str) -> PairReader:
    """Guard a reading: a pair with an image whose shorter side is under `min_side` gets no value but the sentence.

    Args:
        read: The reading.
        min_side: Pixels.
        sentence: Why there is no value, with the placeholders `{which}`, `{width}` and `{height}`.
    """

    def reading(pair: ImagePair) -> PairReading:
        for which, image in (("before", pair.before), ("after", pair.after)):
            height, width = image.shape[:2]
            if min(height, width) < min_side:
                return PairReading(None, sentence.format(which=which, width=width, height=height))
        return read(pair)

    return reading


def shrink_to_side(image: Array | cv2.typing.MatLike, side: int) -> Array:
    """Scale an image down so that its longer side is at most `side`, by area averaging; the type stays."""
    if max(image.shape[:2]) <= side:
        return np.asarray(image)
    return np.asarray(cv2.resize(image, scale_to_side(image.shape, side), interpolation=cv2.INTER_AREA))


def compute_quantiles(values: Floats, where: Bools, shares: tuple[float, ...]) -> list[float]:
    """Return quantiles (the value of the lower rank) of the values at some pixels; zeros where there is no pixel.

    Of a large image an even grid of at least 20,000 pixels is used: that moves a quantile by less than its noise does.
    """
    step = max(1, round((values.size / _QUANTILE_PIXELS) ** 0.5))
    chosen = values[::step, ::step][where[::step, ::step]]
    if not len(chosen):
        return [0.0] * len(shares)
    ranks = [int(share * (len(chosen) - 1)) for share in shares]
    ordered = np.sort(chosen)  # which takes a quarter of the time of np.partition with several ranks
    return [float(ordered[rank]) for rank in ranks]


def _as_rgb(pixels: Array, name: str) -> Bytes:
    """Return H×W×3 uint8: gray is repeated, alpha composited over white."""
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


def _decode_scaled(
    data: bytes, side: int, name: str, caps: ImageLimits, background: tuple[int, int, int] = _WHITE
) -> tuple[Bytes, bool, ImageSize]:
    """Return the pixels, whether they are opaque, and the (width, height) of the upright file."""
    try:
        header = read_header(data, caps)
        size = upright_size(header)
        target = fit_size(*size, Sizing(max_side=side))
        raster = codec.decode(data, header, target, background)
    except ImageError as error:
        raise ImageError(f"{printable_name(name)} {error}") from None
    return codec.resize(raster.pixels, *target), raster.opaque, size


def _load_mask(data: bytes, side: int, name: str, caps: ImageLimits) -> Bools:
    on_white, opaque, _ = _decode_scaled(data, side, name, caps)
    light = _as_rgb(on_white, name).min(axis=2)
    white = np.asarray(light > 127, np.bool_)
    if opaque:
        return white
    # A pixel that is light over white and dark over black is transparent.
    dark = _as_rgb(_decode_scaled(data, side, name, caps, _BLACK)[0], name).min(axis=2)
    transparent = np.asarray(light.astype(np.int16) - dark > 127, np.bool_)
    only_white = not transparent.all() and bool(white[~transparent].all())
    return white & ~transparent if only_white else transparent


def _fit_mask(mask: Array, shape: tuple[int, int]) -> Bools:
    if mask.ndim == 3:
        mask = mask[:, :, 0]
    if mask.ndim != 2 or 0 in mask.shape:
        raise UsageError(f"the mask must be an array H×W, not {mask.shape}")
    region: Bools = np.ascontiguousarray(mask > (127 if mask.dtype == np.uint8 else 0), np.bool_)
    if region.shape == shape:
        return region
    if not has_same_aspect(region.shape[::-1], shape[::-1]):
        raise UsageError(
            f"the mask has another shape ({region.shape[1]}×{region.shape[0]}) than the image before "
            f"({shape[1]}×{shape[0]}); give one that lies over it"
        )
    resized = cv2.resize(region.astype(np.uint8), shape[::-1], interpolation=cv2.INTER_NEAREST)
    return np.asarray(resized, np.bool_)
