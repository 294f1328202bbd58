"""Decode an image to upright 8-bit sRGB pixels, resize it, and encode it for a judge.

Decoding: JPEG goes through simplejpeg, which can decode straight to a half, a quarter or an eighth of the size;
everything else, and JPEG in CMYK, goes through Pillow (HEIC through pillow-heif, where that is installed). Decoders get
the file without its metadata where possible, so that their metadata parsers see nothing. Whatever a decoder raises on a
damaged file becomes an `ImageError`. Color profiles are converted by LittleCMS.

Encoding: judges look for artifacts, so we must not add visible ones. What was lossless stays lossless (PNG) while it
fits; everything else becomes JPEG at quality 92 without chroma subsampling (4:4:4), which is a third larger than the
usual 4:2:0 but does not smear red edges. Only where the limit on bytes demands it, the quality goes down to 85 and 78,
and then the image shrinks in steps of 0.75. The same pixels always give the same bytes.

Import this module late: it loads NumPy and Pillow, and OpenCV where pixels are resized or encoded as PNG.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, UnidentifiedImageError, features

from beholder.errors import ImageError
from beholder.images import headers
from beholder.images.avif import check_avif_size, check_heic_size
from beholder.images.headers import ImageHeader
from beholder.images.image import printable_name
from beholder.images.memory import (
    REDUCED_FROM_PIXELS,
    decoding_budget,
    estimate_decoding_bytes,
    reduction_factor,
)

PROFILE_IGNORED = "colour_profile_ignored"
CONVERTED_TO_SRGB = "converted_to_srgb"

_PILLOW_MODES = {b"RGB ": "RGB", b"GRAY": "L", b"CMYK": "CMYK"}  # by the color space of a profile


def convert_to_srgb(image: Image.Image, profile: bytes) -> tuple[Image.Image, tuple[str, ...]]:
    """Convert an image of mode L, RGB or CMYK from its ICC profile to sRGB.

    Returns:
        The image and a note about what was done. A profile that is broken, or made for another kind of pixels, is
        ignored with a note, as viewers do.
    """
    mode = _PILLOW_MODES.get(profile[16:20])
    if mode == "RGB" and image.mode == "L":
        image = image.convert("RGB")
    if mode != image.mode:
        return image, (PROFILE_IGNORED,)
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        converted = ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return image, (PROFILE_IGNORED,)
    return (image, (PROFILE_IGNORED,)) if converted is None else (converted, (CONVERTED_TO_SRGB,))


_HEIC_MISSING = "is a HEIC image; to read those: pip install 'beholder[heic]'"


def _read_heic_header(data: bytes) -> ImageHeader:
    """Return the header without decoding. The size is the upright one: libheif turns the image itself."""
    try:
        import pillow_heif
    except ImportError:
        raise ImageError(_HEIC_MISSING) from None
    file = pillow_heif.open_heif(data)
    check_heic_size(data, file.size)
    return ImageHeader(
        format="heic",
        width=file.size[0],
        height=file.size[1],
        bits=16 if file.info["bit_depth"] > 8 else 8,  # gray of 10 or 12 bits arrives scaled to 16
        animated=len(file) > 1,
        profile=file.info.get("icc_profile") or None,
    )


def _decode_heic(data: bytes) -> Image.Image:
    import pillow_heif

    return pillow_heif.open_heif(data).to_pillow()


Pixels: TypeAlias = NDArray[np.uint8]

_BITS_PER_SAMPLE, _ORIENTATION_TAG = 258, 274  # tags of TIFF

# Some cameras pad the end of the scan by a few bytes, which does no harm; more bytes left over mean a damaged image.
_PADDING = re.compile(r"\b\d extraneous bytes before marker 0xd9")

_ROTATIONS: dict[int, Callable[[Pixels], Pixels]] = {
    2: np.fliplr,
    3: lambda pixels: np.rot90(pixels, 2),
    4: np.flipud,
    5: lambda pixels: pixels.swapaxes(0, 1),
    6: lambda pixels: np.rot90(pixels, -1),
    7: lambda pixels: np.rot90(pixels, 2).swapaxes(0, 1),
    8: np.rot90,
}


@dataclass(frozen=True, slots=True)
class Raster:
    """Decoded pixels, upright and sRGB.

    Attributes:
        pixels: `height × width` (gray) or `height × width × 3` (RGB).
        opaque: Whether no transparency was in use, so that nothing was mixed with the background.
        notes: What was done to the image, as flags for the verdict.
    """

    pixels: Pixels
    opaque: bool
    notes: tuple[str, ...]


def read_header_with_library(data: bytes, file_format: str) -> ImageHeader:
    """Return the header of a GIF, BMP, TIFF, AVIF or HEIC file, as Pillow or pillow-heif reads it.

    Their `open` decodes no pixel, and none of these formats is on the hot path, so we need no parsers of our own.
    """
    with _damage_as_image_error():
        if file_format == "heic":
            return _read_heic_header(data)
        with _open_with_pillow(data, file_format) as image:
            orientation, bits, notes = 1, 8, []
            if file_format == "avif":
                check_avif_size(data, image.size)
                orientation = headers.read_orientation(image.info.get("exif") or b"")
            if file_format == "tiff":
                tags = getattr(image, "tag_v2", {})
                bits = max(tags.get(_BITS_PER_SAMPLE, (8,)))
                if tags.get(_ORIENTATION_TAG, 1) != 1:  # Pillow turns a TIFF itself and reports its upright size
                    notes.append("rotated_upright")
            return ImageHeader(
                format=file_format,
                width=image.width,
                height=image.height,
                orientation=orientation,
                bits=bits,
                lossless=file_format != "avif",
                animated=bool(getattr(image, "is_animated", False)),
                profile=image.info.get("icc_profile") or None,
                notes=tuple(notes),
            )


def decode(data: bytes, header: ImageHeader, at_least: tuple[int, int], background: tuple[int, int, int]) -> Raster:
    """Decode an image to upright sRGB pixels.

    Args:
        data: The whole file.
        header: What `read_header` returned for it.
        at_least: Upright width and height. Where the codec can do so cheaply, it decodes to a smaller size that is at
            least this; otherwise to the full size.
        background: The sRGB color that replaces transparency.

    Raises:
        ImageError: When the file cannot be decoded.
    """
    stripped = headers.join_stripped(data, header) or data
    with decoding_budget().reserve(estimate_decoding_bytes(header, at_least)), _damage_as_image_error():
        if header.format == "jpeg" and header.channels != 4:
            raster = _decode_jpeg(stripped, header, at_least)
        else:
            is_heic = header.format == "heic"
            with _decode_heic(stripped) if is_heic else _open_with_pillow(stripped, header.format) as image:
                if image.size != (header.width, header.height):
                    raise ImageError("is damaged: its header and its picture differ in size")
                factor = reduction_factor(header, at_least)
                large = header.width * header.height >= REDUCED_FROM_PIXELS
                raster = _make_raster(image, header, background, factor if large else 1)
    rotate = _ROTATIONS.get(header.orientation)
    if rotate is None:
        return raster
    return Raster(np.ascontiguousarray(rotate(raster.pixels)), raster.opaque, (*raster.notes, "rotated_upright"))


def _decode_jpeg(data: bytes, header: ImageHeader, at_least: tuple[int, int]) -> Raster:
    import simplejpeg

    width, height = at_least if header.orientation < 5 else at_least[::-1]
    # min_factor 2: the fractions between a half and one are slower than a full decode (9.2 ms against 5.6).
    smaller = {"min_width": width, "min_height": height, "min_factor": 2}
    space = "GRAY" if header.channels == 1 else "RGB"
    try:
        pixels = simplejpeg.decode_jpeg(data, space, strict=True, **smaller)
    except ValueError as error:
        if not _PADDING.search(str(error)):
            raise
        pixels = simplejpeg.decode_jpeg(data, space, strict=False, **smaller)
    if header.channels == 1:
        pixels = pixels[:, :, 0]
    if header.profile is None:
        return Raster(pixels, opaque=True, notes=())
    image, notes = convert_to_srgb(Image.fromarray(pixels), header.profile)
    return Raster(np.asarray(image), opaque=True, notes=notes)


def _make_raster(image: Image.Image, header: ImageHeader, background: tuple[int, int, int], factor: int) -> Raster:
    image.load()
    image, alpha, notes = _convert_colors(image, header.bits, header.profile, factor)
    if alpha is not None:
        # Mixed in sRGB values, as browsers do; after the color conversion, since the background is declared in sRGB.
        image = Image.composite(image.convert("RGB"), Image.new("RGB", image.size, background), alpha)
        notes.append("alpha_over_background")
    return Raster(np.asarray(image), opaque=alpha is None, notes=tuple(notes))


def _convert_colors(
    image: Image.Image, bits: int, profile: bytes | None, factor: int = 1
) -> tuple[Image.Image, Image.Image | None, list[str]]:
    """Return an image as 8-bit sRGB (mode L or RGB), its alpha channel where any of it is in use, and notes; with sides
    divided by `factor`."""
    notes = ["reduced_to_8_bit"] if bits > 8 else []
    image = _reduce_to_8_bits(image, bits)
    if factor > 1:  # before anything is converted, which takes several times the memory
        if image.mode not in ("L", "LA", "RGB", "RGBA", "CMYK"):
            image = image.convert("RGBA" if image.has_transparency_data else "RGB")
        image = image.reduce(factor)
    alpha: Image.Image | None = None
    if image.has_transparency_data:
        image = image.convert("RGBA")
        alpha = image.getchannel("A")
        if np.asarray(alpha).min() == 255:
            alpha = None
    if image.mode == "1":
        image = image.convert("L")
    elif image.mode not in ("L", "RGB", "CMYK"):
        image = image.convert("RGB")
    if image.mode == "CMYK":
        notes.append("converted_from_cmyk")
    if profile is not None:
        image, profile_notes = convert_to_srgb(image, profile)
        notes.extend(profile_notes)
    if image.mode == "CMYK":
        image = image.convert("RGB")
    return image, alpha, notes


def read_pillow_pixels(image: Image.Image) -> Pixels:
    """Return the pixels of a `PIL.Image`: upright by its EXIF orientation, converted to sRGB from its ICC profile, 8
    bits a channel, and with a fourth channel only where transparency is in use.

    Raises:
        ImageError: When Pillow cannot decode the image, or the range of its values is not known.
    """
    with _damage_as_image_error():
        image.load()
        orientation = image.getexif().get(_ORIENTATION_TAG, 1)
        profile = image.info.get("icc_profile")
        if not isinstance(profile, bytes) or headers.is_srgb(profile):
            profile = None
        bits = 16 if image.mode.startswith("I;16") else 8
        color, alpha, _ = _convert_colors(image, bits, profile)
        pixels = np.asarray(color if alpha is None else Image.merge("RGBA", (*color.convert("RGB").split(), alpha)))
    rotate = _ROTATIONS.get(orientation)
    return pixels if rotate is None else rotate(pixels)


def _reduce_to_8_bits(image: Image.Image, bits: int) -> Image.Image:
    """Scale 16-bit gray to 8 bits by its high byte, as Pillow itself does for 16-bit color."""
    if image.mode in ("F", "I"):
        raise ImageError(
            "has pixels whose range nothing states (32 bits or signed); save it with 8 or 16 bits a channel"
        )
    if not image.mode.startswith("I;16"):
        return image
    values = np.asarray(image)
    gray = Image.fromarray((values >> (max(bits, 9) - 8)).astype(np.uint8))
    transparent = image.info.get("transparency")
    if not isinstance(transparent, int):
        return gray
    return Image.merge("LA", (gray, Image.fromarray(np.where(values == transparent, 0, 255).astype(np.uint8))))


def _open_with_pillow(data: bytes, file_format: str) -> Image.Image:
    """Open an image without decoding it. Only the plugin of the detected format is tried."""
    if file_format == "avif" and not features.check("avif"):
        raise ImageError("is an AVIF image, and this Pillow was built without AVIF; install a Pillow wheel from PyPI")
    # Pillow warns of odd metadata, and of more than 89 megapixels; our own limits have been checked already.
    warnings.filterwarnings("ignore", module=r"PIL\b")
    return Image.open(io.BytesIO(data), formats=[file_format.upper()])


@contextmanager
def _damage_as_image_error() -> Iterator[None]:
    """Turn whatever a decoder raises into an `ImageError` of one sentence."""
    try:
        yield
    except ImageError:
        raise
    except UnidentifiedImageError:
        raise ImageError("is damaged: its header cannot be read") from None
    except Image.DecompressionBombError:
        raise ImageError("has more pixels than Pillow decodes; scale it down first") from None
    except MemoryError:
        raise ImageError("needs more memory to decode than there is; scale it down first") from None
    except Exception as error:
        reason = printable_name(str(error).strip().rstrip(".")) or type(error).__name__
        raise ImageError(f"is cut off or damaged: it cannot be decoded ({reason})") from None


QUALITIES = (92, 85, 78)
_SHRINK = 0.75
_SMALLEST_SIDE = 16
_LINEAR_FROM = 0.6


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An encoded image with its size in pixels, which may be smaller than asked for to fit into a limit on bytes."""

    data: bytes
    media_type: str
    width: int
    height: int
    notes: tuple[str, ...] = ()


def resize(pixels: Pixels, width: int, height: int) -> Pixels:
    """Scale pixels down: by area, which neither rings nor aliases, or linearly where the scale is 0.6 or more.

    From 0.6 on, where every pixel still takes part, linear is as near to Lanczos as area is (sixty photos at 0.64: 42.7
    against 41.8 dB on average, 33.7 against 34.9 at worst) and takes 1.6 ms where area takes 12.8 (1600 to 1024 px).
    """
    if pixels.shape[:2] == (height, width):
        return pixels
    import cv2  # here, so that reading a header through this module does not load it

    linear = min(width / pixels.shape[1], height / pixels.shape[0]) >= _LINEAR_FROM
    filter_ = cv2.INTER_LINEAR if linear else cv2.INTER_AREA
    return cv2.resize(pixels, (width, height), interpolation=filter_).astype(np.uint8, copy=False)


def encode(pixels: Pixels, *, lossless: bool, formats: frozenset[str], max_bytes: int | None) -> EncodedImage:
    """Encode pixels in the best of `formats` that fits into `max_bytes`; see the top of this module.

    Args:
        pixels: Gray or RGB pixels, as in `Raster`.
        lossless: Whether the source was lossless, so that PNG is preferred.
        formats: Any of `jpeg`, `png`, `webp`.
        max_bytes: The largest size, `None` for no limit.

    Raises:
        ImageError: When nothing fits.
    """
    while True:
        for data, media_type, notes in _encodings(np.ascontiguousarray(pixels), lossless, formats):
            if max_bytes is None or len(data) <= max_bytes:
                return EncodedImage(data, media_type, pixels.shape[1], pixels.shape[0], notes)
        height, width = (max(1, int(side * _SHRINK)) for side in pixels.shape[:2])
        if max(width, height) < _SMALLEST_SIDE:
            raise ImageError(f"cannot be made to fit into {max_bytes} bytes; allow more")
        pixels = resize(pixels, width, height)
        lossless = False


def _encodings(pixels: Pixels, lossless: bool, formats: frozenset[str]) -> Iterator[tuple[bytes, str, tuple[str, ...]]]:
    lossy = next((name for name in ("jpeg", "webp") if name in formats), None)
    if "png" in formats and (lossless or lossy is None):
        yield encode_png(pixels), "image/png", ()
    elif lossy is None:
        raise ValueError(f"formats must name jpeg, png or webp, not {sorted(formats)}")
    if lossy is not None:
        for quality in QUALITIES:
            data = encode_jpeg(pixels, quality) if lossy == "jpeg" else _encode_webp(pixels, quality)
            yield data, f"image/{lossy}", () if quality == QUALITIES[0] else (f"{lossy}_quality_{quality}",)


def encode_png(pixels: Pixels) -> bytes:
    """Encode gray, RGB or RGBA pixels as PNG. The same pixels always give the same bytes."""
    import cv2

    # Level 6 with the filtered strategy: as small as Pillow's default for photos (4.0 MB of 1600×1200 noise) and for
    # drawings (0.26 MB), in 0.2 s and 0.06 s; run-length coding is twice as fast but four times as large for drawings.
    options = (cv2.IMWRITE_PNG_COMPRESSION, 6, cv2.IMWRITE_PNG_STRATEGY, cv2.IMWRITE_PNG_STRATEGY_FILTERED)
    if pixels.ndim == 3:  # OpenCV has blue first
        pixels = pixels[:, :, ::-1] if pixels.shape[2] == 3 else pixels[:, :, (2, 1, 0, 3)]
    success, encoded = cv2.imencode(".png", pixels, options)
    if not success:
        raise ImageError("cannot be encoded as PNG")
    return encoded.tobytes()


def encode_jpeg(pixels: Pixels, quality: int, subsampling: str = "444") -> bytes:
    """Encode gray or RGB pixels as JPEG. `subsampling` is that of the chroma of RGB."""
    import simplejpeg

    pixels = np.ascontiguousarray(pixels)
    if pixels.ndim == 2:
        return bytes(simplejpeg.encode_jpeg(pixels[:, :, None], quality, "GRAY", "Gray", False))
    return bytes(simplejpeg.encode_jpeg(pixels, quality, "RGB", subsampling, False))


def _encode_webp(pixels: Pixels, quality: int) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "WEBP", quality=quality, method=4)
    return out.getvalue()
