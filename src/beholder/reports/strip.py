"""A picture strip: the images of a case side by side, small and labelled, as one JPEG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

LABEL_HEIGHT = 20
GAP = 8
MAX_WIDTH = 1000  # pixels; clients count pictures as tokens, by their size
MAX_BYTES = 200_000
MAX_IMAGES = 6
_MARGIN = 3
_PAPER, _INK, _EMPTY = (255, 255, 255), (20, 20, 20), (225, 225, 225)


@dataclass(frozen=True, slots=True)
class LabelledPicture:
    """A picture of a strip. Without `data`, a grey area says `missing` in its place."""

    label: str
    data: bytes | None = None
    missing: str = ""


def draw_strip(pictures: Sequence[LabelledPicture]) -> bytes:
    """Return the pictures side by side as one JPEG of at most 1000 pixels a side and 200 kB.

    Args:
        pictures: At most six are shown.
    """
    from PIL import Image, ImageDraw

    shown = pictures[:MAX_IMAGES]
    side = (MAX_WIDTH - GAP * (len(shown) - 1)) // len(shown)
    images = [_open_picture(one, side) for one in shown]
    width = sum(image.width for image in images) + GAP * (len(images) - 1)
    strip = Image.new("RGB", (width, LABEL_HEIGHT + max(image.height for image in images)), _PAPER)
    draw = ImageDraw.Draw(strip)
    left = 0
    for one, image in zip(shown, images, strict=True):
        draw.text((left + _MARGIN, _MARGIN), _fit(draw, one.label, image.width - _MARGIN), fill=_INK)
        strip.paste(image, (left, LABEL_HEIGHT))
        left += image.width + GAP
    return _encode(strip)


def _open_picture(picture: LabelledPicture, side: int) -> Image.Image:
    """Return a picture that fits into a square, never enlarged."""
    from PIL import Image, ImageDraw

    if picture.data is not None:
        with Image.open(io.BytesIO(picture.data), formats=["JPEG", "WEBP"]) as opened:
            image = opened.convert("RGB")
        image.thumbnail((side, min(side, MAX_WIDTH - LABEL_HEIGHT)), Image.Resampling.LANCZOS)
        if image.width >= min(side, 64):  # room for its label
            return image
        wider = Image.new("RGB", (min(side, 64), image.height), _PAPER)
        wider.paste(image)
        return wider
    empty = Image.new("RGB", (min(side, 240), 160), _EMPTY)
    draw = ImageDraw.Draw(empty)
    draw.text((_MARGIN, 70), _fit(draw, picture.missing, empty.width - _MARGIN), fill=_INK)
    return empty


def _fit(draw: ImageDraw.ImageDraw, text: str, width: int) -> str:
    """Return as much of a text as fits. The font has Latin letters only."""
    text = "".join(letter if letter.isprintable() and ord(letter) < 256 else "?" for letter in text[:200])
    while text and draw.textlength(text) > width:
        text = text[:-1]
    return text


def _encode(strip: Image.Image) -> bytes:
    for quality in (80, 65, 50, 35, 20):
        out = io.BytesIO()
        strip.save(out, "JPEG", quality=quality)
        if out.tell() <= MAX_BYTES:
            break
    return out.getvalue()
