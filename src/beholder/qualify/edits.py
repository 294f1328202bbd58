"""Clean edits: one thing really changed, an instruction that asks for just that, and the region that it touches.

Every photograph gets a sticker, whose truth is sure on any photograph: flat, of a named colour, in a named place. The
demo's photographs are retouched as well, each in a way of its own: recoloured, or something taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import cv2
import numpy as np

from beholder.demo.edits import RETOUCHED as RETOUCHING
from beholder.demo.model import Pixels
from beholder.images.encoding import resize
from beholder.qualify.damage import Region
from beholder.qualify.paper import Photo

STICKER, RETOUCHED, FIVE = "sticker", "retouched", "five"

COLOURS: Mapping[str, tuple[int, int, int]] = {
    "red": (208, 32, 38),
    "yellow": (250, 212, 44),
    "blue": (36, 84, 196),
    "green": (38, 150, 70),
    "black": (20, 20, 22),
    "pink": (244, 128, 200),
}
ASKED = ("red", "yellow", "blue", "green", "black")
WRONG_COLOUR = "pink"  # which no instruction asks for

# Where the middle of a sticker lies: shares of the way from one inner edge to the other.
PLACES: Mapping[str, tuple[float, float]] = {
    "in the upper left corner": (0, 0),
    "in the upper right corner": (0, 1),
    "in the lower left corner": (1, 0),
    "in the lower right corner": (1, 1),
    "at the middle of the upper edge": (0, 0.5),
}

_RADIUS = 0.09  # of the shorter side
_MARGIN = 0.03
_RIM = 0.16  # of the radius, white
_REACH = 7  # pixels by which a region is closed and widened
_SEEN = 3  # levels: what differs by less is nothing that was meant, and is not kept


@dataclass(frozen=True, slots=True)
class Sticker:
    place: str
    colour: str


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit that is right. Outside of the `region` the picture is the photograph, pixel by pixel. `stickers` are
    what was put on, if anything."""

    kind: str
    instruction: str
    picture: Pixels
    region: Region
    stickers: tuple[Sticker, ...] = ()


def stickered(photo: Photo) -> Edit:
    """One sticker, in the corner with the least to see, in the colour that differs most from what is there."""
    corners = list(PLACES)[:4]
    place = min(corners, key=lambda place: _busy(photo.pixels, place))
    ground = _ground(photo.pixels, place).reshape(-1, 3).mean(0)
    colour = max(ASKED, key=lambda name: round(float(np.abs(ground - COLOURS[name]).sum()), 1))
    instruction = f"Put a round {colour} sticker with a white rim {place} of the picture."
    return _with_stickers(STICKER, photo, instruction, (Sticker(place, colour),))


def five_stickers(photo: Photo) -> Edit:
    """Five stickers at once: an instruction with five parts."""
    stickers = tuple(Sticker(place, colour) for place, colour in zip(PLACES, ASKED, strict=True))
    first, *more = stickers
    asked = [f"a round {first.colour} sticker with a white rim {first.place} of the picture"]
    asked += [f"a {one.colour} one {one.place}" for one in more]
    return _with_stickers(FIVE, photo, f"Put {', '.join(asked[:-1])}, and {asked[-1]}.", stickers)


def retouched(photo: Photo) -> Edit | None:
    """The retouching that is known for one of the demo's photographs; `None` for any other."""
    if photo.shipped is None or photo.name not in RETOUCHING:
        return None
    instruction, retouch = RETOUCHING[photo.name]
    height, width = photo.pixels.shape[:2]
    done = resize(retouch(photo.shipped), width, height)
    region = changed(photo.pixels, done)
    return Edit(RETOUCHED, instruction, np.where(region[..., None], done, photo.pixels), region)


def stuck(photo: Pixels, stickers: Iterable[Sticker]) -> Pixels:
    """The photograph with these stickers on it, their edges smooth."""
    height, width = photo.shape[:2]
    radius = _RADIUS * min(height, width)
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    picture = photo.astype(np.float32)
    for sticker in stickers:
        row, column = _middle(photo, sticker.place)
        distance = np.hypot(rows - row, columns - column)
        for reach, ink in ((radius, (250, 250, 248)), (radius * (1 - _RIM), COLOURS[sticker.colour])):
            cover = np.clip(reach - distance + 0.5, 0, 1)[..., None]
            picture = picture * (1 - cover) + np.array(ink, np.float32) * cover
    return np.asarray(picture + 0.5, np.uint8)


def changed(before: Pixels, after: Pixels) -> Region:
    """Where two pictures differ so that it may be seen, closed and widened by a few pixels."""
    differs = np.asarray((cv2.absdiff(before, after) >= _SEEN).any(2), np.uint8)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (_REACH, _REACH))
    return np.asarray(cv2.dilate(cv2.morphologyEx(differs, cv2.MORPH_CLOSE, kernel), kernel), np.bool_)


def _with_stickers(kind: str, photo: Photo, instruction: str, stickers: tuple[Sticker, ...]) -> Edit:
    picture = stuck(photo.pixels, stickers)
    region = changed(photo.pixels, picture)
    return Edit(kind, instruction, np.where(region[..., None], picture, photo.pixels), region, stickers)


def _middle(photo: Pixels, place: str) -> tuple[float, float]:
    height, width = photo.shape[:2]
    edge = (_RADIUS + _MARGIN) * min(height, width)
    down, right = PLACES[place]
    return edge + down * (height - 1 - 2 * edge), edge + right * (width - 1 - 2 * edge)


def _ground(photo: Pixels, place: str) -> Pixels:
    """What a sticker would cover."""
    row, column = _middle(photo, place)
    reach = _RADIUS * min(photo.shape[:2])
    return photo[int(row - reach) : int(row + reach) + 1, int(column - reach) : int(column + reach) + 1]


def _busy(photo: Pixels, place: str) -> float:
    ground = cv2.cvtColor(_ground(photo, place), cv2.COLOR_RGB2GRAY)
    return round(float(np.abs(cv2.Laplacian(ground, cv2.CV_32F)).mean()), 3)
