"""What the rest of the house knows of a picture: how one is wanted, and how one was prepared.

How a picture is called in a sentence: a hostile name must not move the cursor of the person who reads it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

# A path, a `data:` URI, an http(s) URL, or the bytes themselves.
ImageSource = str | os.PathLike[str] | bytes


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """What may be opened at all; checked from the header, before a pixel is decoded."""

    max_bytes: int = 64 * 1024 * 1024
    max_pixels: int = 100_000_000
    max_side: int = 16_384


@dataclass(frozen=True, slots=True)
class Sizing:
    """How a judge wants its pictures. `None` means no limit of that kind.

    A picture within every limit, in one of `formats`, upright, sRGB and without alpha passes through as it is
    (metadata cut out); any other is decoded, scaled down to fit and encoded again. Nothing is ever scaled up.
    `detail` is the word for the provider; "low" also bounds the longer side at 512, which is all that such a
    request lets a model see. `background` is where alpha goes, in sRGB.
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

    `digest` is the SHA-256 of `data`; `source_digest` that of the file as it came. `notes` are flags of the
    verdict, such as `first_frame_of_gif`, `rotated_upright`, `converted_to_srgb`, `alpha_over_background`,
    `reduced_to_8_bit`, `converted_from_cmyk`, `colour_profile_ignored`, `jpeg_quality_85` (only when below 92).
    `source_width` and `source_height` are those of the file, before it was turned upright.
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
        """Whether the judge saw fewer pixels than the file has."""
        return {self.width, self.height} != {self.source_width, self.source_height}


_MAX_NAME_LENGTH = 160


def printable_name(name: str) -> str:
    """The name with everything unprintable escaped (newlines, escape codes, bidi overrides) and the middle of a
    very long one left out."""
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)
    if len(safe) <= _MAX_NAME_LENGTH:
        return safe
    return f"{safe[: _MAX_NAME_LENGTH // 2]}…{safe[-_MAX_NAME_LENGTH // 2 :]}"
