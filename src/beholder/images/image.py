"""The values that other packages use for images: sources, limits, the size a judge wants, the prepared image."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

# A path, a `data:` URI, an http(s) or object-store URL, or the bytes of an image file: what a case holds.
ImageSource = str | os.PathLike[str] | bytes


class ReadableFile(Protocol):
    """A file object that was opened for reading bytes."""

    def read(self, size: int, /) -> bytes: ...


class PillowImage(Protocol):
    """A `PIL.Image.Image`."""

    @property
    def mode(self) -> str: ...
    @property
    def size(self) -> tuple[int, int]: ...
    def tobytes(self) -> bytes: ...


class PixelArray(Protocol):
    """A NumPy array, a torch tensor, or anything else that NumPy reads as an array."""

    def __array__(self, *args: Any, **options: Any) -> Any: ...


# What may be given as an image; `images.in_memory.normalize_image` makes an `ImageSource` of it. The mapping is that of
# Hugging Face `datasets`: `{"bytes": …, "path": …}`.
ImageInput = ImageSource | bytearray | memoryview | ReadableFile | PillowImage | PixelArray | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """The largest image that is opened at all; checked from the header, before a pixel is decoded."""

    max_bytes: int = 64 * 1024 * 1024
    max_pixels: int = 100_000_000
    max_side: int = 16_384


@dataclass(frozen=True, slots=True)
class Sizing:
    """How a judge wants its images. `None` means no limit of that kind.

    An image within every limit, in one of `formats`, upright, sRGB and without alpha is sent unchanged but for its
    metadata. Any other image is decoded, scaled down to fit and encoded again. Nothing is ever scaled up.

    Attributes:
        max_side: The longer side, in pixels.
        max_bytes: The size of the encoded image.
        formats: The formats that may be sent: `jpeg`, `png`, `webp`.
        background: The sRGB color that replaces transparency.
        detail: The provider's word for its detail setting. "low" also limits the longer side to 512 pixels, which is
            all that such a request lets a model see.
    """

    max_side: int | None = 2048
    max_bytes: int | None = 5 * 1024 * 1024
    formats: frozenset[str] = frozenset({"jpeg", "png", "webp"})
    background: tuple[int, int, int] = (255, 255, 255)
    detail: str | None = None


DEFAULT_IMAGE_LIMITS = ImageLimits()
DEFAULT_SIZING = Sizing()


@dataclass(frozen=True, slots=True)
class PreparedImage:
    """The bytes that a judge gets, and what was done to make them.

    Attributes:
        digest: The SHA-256 of `data`, in hex; `source_digest` is that of the file as it was read.
        source_width: The width in the file, before the image was turned upright; `source_height` likewise.
        notes: Flags for the verdict, such as `first_frame_of_gif`, `rotated_upright`, `converted_to_srgb`,
            `alpha_over_background`, `reduced_to_8_bit`, `converted_from_cmyk`, `colour_profile_ignored` or
            `jpeg_quality_85` (only when below 92).
    """

    data: bytes
    media_type: str
    width: int
    height: int
    digest: str
    source_digest: str
    source_width: int
    source_height: int
    source_format: str
    notes: tuple[str, ...] = ()

    @property
    def scaled(self) -> bool:
        """Whether the judge gets fewer pixels than the file has."""
        return {self.width, self.height} != {self.source_width, self.source_height}


_FILE_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def regular_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that is about to be read. Does not open it: on a pipe that may wait for ever.

    Raises:
        OSError: There is no such file, or it is a directory, a pipe, a socket or a device.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _FILE_KINDS if is_kind(mode)), "something else")
        raise OSError(errno.EINVAL, f"it is {kind} and no file", os.fspath(path))
    return Path(path)


_MAX_NAME_LENGTH = 160


def printable_name(name: str) -> str:
    """Return a name that is safe to print in a message.

    Unprintable characters (newlines, escape codes, bidi overrides) are escaped, since a hostile file name must not
    control the terminal of the person who reads the message. The middle of a very long name is left out.
    """
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)
    if len(safe) <= _MAX_NAME_LENGTH:
        return safe
    return f"{safe[: _MAX_NAME_LENGTH // 2]}…{safe[-_MAX_NAME_LENGTH // 2 :]}"
