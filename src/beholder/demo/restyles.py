"""The restyles: seven photographs in eight styles, half of them well done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import cv2
import numpy as np

from beholder.demo.files import jpeg
from beholder.demo.model import Pixels, Sample
from beholder.demo.painting import comic, linocut, neon, oil, pencil, pop_art, watercolour
from beholder.demo.retouching import blurred, half_and_half, saturated, shrunk

SIDE = 768  # of the longer side: a picture is painted larger than its photograph, as image models do

PINK, VIOLET, YELLOW, AQUA = (0.93, 0.16, 0.35), (0.16, 0.10, 0.45), (1.0, 0.80, 0.10), (0.55, 0.90, 0.95)
INKS = (VIOLET, PINK, YELLOW, AQUA)

STYLES = {
    "Comic Book": "A comic panel: flat, strong colours in few steps, drawn round with black ink.",
    "Linocut": "A block print: one dark ink on cream paper, cut in strong lines and slanting grooves.",
    "Oil Painting": "A painting in oil: soft strokes of a brush that follow the forms, warm and rich colours.",
    "Watercolour": "Light washes with darker rims on grained paper that stays bare along the border.",
}


def restyles(photos: Mapping[str, Pixels]) -> Iterator[Sample]:
    """The good ones first."""
    large = {name: _enlarged(photo) for name, photo in photos.items()}
    yield _sample("astronaut", "pencil", "Pencil Portrait", jpeg(pencil(large["astronaut"])))
    yield _sample("chelsea", "oil", "Oil Painting", jpeg(oil(large["chelsea"])))
    yield _sample("china", "watercolour", "Watercolour", jpeg(watercolour(large["china"])))
    yield _sample("flower", "pop-art", "Pop Art", jpeg(pop_art(large["flower"], INKS)))
    yield _sample("motorcycle", "comic", "Comic Book", jpeg(comic(large["motorcycle"])))
    yield _sample("rocket", "linocut", "Linocut", jpeg(linocut(large["rocket"])))

    cat = large["chelsea"]
    half = half_and_half(pencil(cat), cat)
    yield _sample("chelsea", "pencil", "Pencil Portrait", jpeg(half), "the right half is still the photograph")
    faint = saturated(large["coffee"], 1.15)
    yield _sample("coffee", "watercolour", "Watercolour", jpeg(faint), "hardly any style, only stronger colours")
    small = shrunk(oil(large["flower"]), 160)
    yield _sample("flower", "oil", "Oil Painting", jpeg(small), "tiny, 160 pixels wide")
    swallowed = pop_art(blurred(large["china"], 16), INKS, pitch=34)
    yield _sample("china", "pop-art", "Pop Art", jpeg(swallowed), "the style has swallowed the tower")
    other = neon(large["coffee"])
    yield _sample("motorcycle", "neon", "Neon Cyberpunk", jpeg(other), "made from the wrong photograph, the coffee cup")
    poor = jpeg(comic(large["astronaut"]), quality=7)
    yield _sample("astronaut", "comic", "Comic Book", poor, "saved so small that it falls into blocks")
    soft = blurred(watercolour(large["rocket"]), 5)
    yield _sample("rocket", "watercolour", "Watercolour", jpeg(soft), "blurred all over")


def _sample(photo: str, name: str, style: str, picture: bytes, flaw: str = "") -> Sample:
    fields: dict[str, str | list[str]] = {"style": style}
    if style in STYLES:
        fields["style_description"] = STYLES[style]
    return Sample(photo, name, fields, flaw, picture)


def _enlarged(photo: Pixels) -> Pixels:
    factor = SIDE / max(photo.shape[:2])
    return np.asarray(cv2.resize(photo, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC), np.uint8)
