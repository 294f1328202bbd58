"""From bytes to upright sRGB pixels of 8 bits, for pictures that cannot be sent as they lie.

JPEG goes through simplejpeg, which decodes straight to a half, a quarter or an eighth when the picture shrinks;
everything else, and JPEG in CMYK, through Pillow. Both get the file's essence where there is one, so that no
metadata parser of theirs sees anything. A decoder may raise whatever it likes on a damaged file: here it becomes an
`ImageError`. Imported late: loads NumPy and Pillow.
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
from PIL import Image, UnidentifiedImageError, features

from beholder.errors import ImageError
from beholder.images import exif, heic
from beholder.images.colour import to_srgb
from beholder.images.headers import Header
from beholder.images.names import shown

Pixels: TypeAlias = NDArray[np.uint8]

_BITS_PER_SAMPLE, _TURNED = 258, 274  # tags of TIFF

# Some cameras pad the end of the scan by a few bytes, which costs nothing; many bytes left over are lost picture.
_PADDING = re.compile(r"\b\d extraneous bytes before marker 0xd9")

_UPRIGHT: dict[int, Callable[[Pixels], Pixels]] = {
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
    """Pixels as `height × width` (grey) or `height × width × 3` (RGB), upright and sRGB. `opaque` says that no alpha
    was in use, so that nothing was mixed with the background."""

    pixels: Pixels
    opaque: bool
    notes: tuple[str, ...]


def header(data: bytes, file_format: str) -> Header:
    """The header of a GIF, BMP, TIFF, AVIF or HEIC file. The libraries' `open` decodes no pixel for any of them, and
    none of them is on the hot path, so nothing of it is written again here."""
    with _damage_told():
        if file_format == "heic":
            return heic.header(data)
        with _opened(data, file_format) as image:
            turned, bits, notes = 1, 8, []
            if file_format == "avif":
                turned = exif.orientation(image.info.get("exif") or b"")
            if file_format == "tiff":
                tags = getattr(image, "tag_v2", {})
                bits = max(tags.get(_BITS_PER_SAMPLE, (8,)))
                if tags.get(_TURNED, 1) != 1:  # Pillow turns a TIFF itself, and states its upright size
                    notes.append("rotated_upright")
            return Header(
                format=file_format,
                width=image.width,
                height=image.height,
                orientation=turned,
                bits=bits,
                lossless=file_format != "avif",
                animated=bool(getattr(image, "is_animated", False)),
                profile=image.info.get("icc_profile") or None,
                notes=tuple(notes),
            )


def decode(data: bytes, header: Header, at_least: tuple[int, int], background: tuple[int, int, int]) -> Raster:
    """The picture at its full size or, where the codec can do it cheaply, a smaller one of at least this upright
    width and height."""
    lean = b"".join(header.essence) or data
    with _damage_told():
        if header.format == "jpeg" and header.channels != 4:
            raster = _jpeg(lean, header, at_least)
        else:
            with heic.image(lean) if header.format == "heic" else _opened(lean, header.format) as image:
                if image.size != (header.width, header.height):
                    raise ImageError("is damaged: its header and its picture differ in size")
                raster = _raster(image, header, background)
    turn = _UPRIGHT.get(header.orientation)
    if turn is None:
        return raster
    return Raster(np.ascontiguousarray(turn(raster.pixels)), raster.opaque, (*raster.notes, "rotated_upright"))


def _jpeg(data: bytes, header: Header, at_least: tuple[int, int]) -> Raster:
    import simplejpeg  # type: ignore[import-untyped]  # it ships a stub but no py.typed

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
    image, notes = to_srgb(Image.fromarray(pixels), header.profile)
    return Raster(np.asarray(image), opaque=True, notes=notes)


def _raster(image: Image.Image, header: Header, background: tuple[int, int, int]) -> Raster:
    image.load()
    notes = ["reduced_to_8_bit"] if header.bits > 8 else []
    image = _of_8_bits(image, header.bits)
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
    if header.profile is not None:
        image, said = to_srgb(image, header.profile)
        notes.extend(said)
    if image.mode == "CMYK":
        image = image.convert("RGB")
    if alpha is not None:
        # Mixed as browsers do, in sRGB values; after the colours, since the background is declared in sRGB.
        image = Image.composite(image.convert("RGB"), Image.new("RGB", image.size, background), alpha)
        notes.append("alpha_over_background")
    return Raster(np.asarray(image), opaque=alpha is None, notes=tuple(notes))


def _of_8_bits(image: Image.Image, bits: int) -> Image.Image:
    """Pillow itself takes the high byte of 16-bit colour; its 16-bit grey is scaled here in the same way."""
    if image.mode in ("F", "I"):
        raise ImageError(
            "has pixels whose range nothing states (32 bits or signed); save it with 8 or 16 bits a channel"
        )
    if not image.mode.startswith("I;16"):
        return image
    values = np.asarray(image)
    grey = Image.fromarray((values >> (max(bits, 9) - 8)).astype(np.uint8))
    clear = image.info.get("transparency")
    if not isinstance(clear, int):
        return grey
    return Image.merge("LA", (grey, Image.fromarray(np.where(values == clear, 0, 255).astype(np.uint8))))


def _opened(data: bytes, file_format: str) -> Image.Image:
    """Pillow's lazy picture. Only the plugin of the sniffed format is tried."""
    if file_format == "avif" and not features.check("avif"):
        raise ImageError("is an AVIF image, and this Pillow was built without AVIF; install a Pillow wheel from PyPI")
    # Pillow warns of odd metadata, and of more than 89 megapixels: the caps are ours, and checked.
    warnings.filterwarnings("ignore", module=r"PIL\b")
    return Image.open(io.BytesIO(data), formats=[file_format.upper()])


@contextmanager
def _damage_told() -> Iterator[None]:
    """Whatever a decoder raises, as one sentence."""
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
        reason = shown(str(error).strip().rstrip(".")) or type(error).__name__
        raise ImageError(f"is cut off or damaged: it cannot be decoded ({reason})") from None
