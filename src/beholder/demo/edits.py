"""The edits: one thing changed in each photograph, and in half of them more than that. Places are in pixels of the
photographs as they are shipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from beholder.demo.files import jpeg
from beholder.demo.model import Pixels, Sample
from beholder.demo.retouching import (
    Mask,
    around,
    blurred,
    cast,
    coloured,
    face_swapped,
    filled,
    inside,
    mirrored,
    recoloured,
    shifted,
    softened,
    taken_away,
    zoomed,
)

# Hues, degrees in CIELAB.
PINK, GREEN, SKY, BLUE = -8, 150, 262, 280

BODYWORK = [
    *[(85, 190), (150, 170), (235, 235), (265, 255), (345, 190), (385, 165), (420, 145), (470, 150), (490, 185)],
    *[(470, 245), (345, 255), (280, 290), (250, 262), (200, 225), (150, 225), (105, 255), (85, 225)],
]
MUDGUARD = [
    *[(500, 340), (500, 290), (535, 262), (560, 255), (600, 255)],
    *[(655, 305), (630, 325), (575, 300), (530, 300), (518, 335)],
]
SECOND_FLOWER = [
    *[(278, 427), (280, 395), (318, 385), (330, 368), (372, 368), (395, 372)],
    *[(430, 372), (450, 395), (448, 412), (478, 414), (484, 427)],
]
SUIT = [
    *[(112, 205), (150, 255), (200, 290), (300, 270), (300, 225), (345, 250), (375, 350), (330, 360), (280, 420)],
    *[(270, 511), (0, 511), (15, 380), (42, 330), (35, 290), (50, 250)],
]
CAT_FACE = [
    *[(75, 20), (200, 2), (330, 20), (352, 110), (345, 200)],
    *[(300, 262), (250, 285), (190, 262), (110, 200), (70, 110)],
]
SPOON = [
    *[(402, 64), (428, 66), (420, 120), (412, 132), (407, 150), (400, 180), (393, 205), (390, 225), (408, 255)],
    *[(410, 285), (397, 320), (360, 330), (326, 307), (324, 275), (314, 258), (316, 244), (335, 235), (352, 240)],
    *[(372, 230), (380, 213), (388, 195), (397, 172), (405, 140), (409, 112), (402, 95)],
]
SAUCER_EDGE = [(76, 215), (82, 175), (98, 138), (122, 106), (150, 84), (172, 73), (195, 68), (200, 120), (120, 220)]
ROOFS = [
    *[(90, 60), (230, 40), (330, 120), (355, 270), (375, 340), (300, 400), (200, 395)],
    *[(195, 360), (60, 290), (60, 230), (80, 150)],
]


def edits(photos: Mapping[str, Pixels]) -> Iterator[Sample]:
    """The good ones first."""
    done = {name: retouch(photos[name]) for name, (_, retouch) in RETOUCHED.items()}
    asked = {name: instruction for name, (instruction, _) in RETOUCHED.items()}
    blue_bike, pink_flower, blue_eyes = done["motorcycle"], done["flower"], done["chelsea"]
    green_suit, green_cup = done["astronaut"], done["coffee"]
    bike, flower, eyes, suit, cup = (asked[name] for name in ("motorcycle", "flower", "chelsea", "astronaut", "coffee"))
    yield _sample("motorcycle", "blue", bike, jpeg(blue_bike))
    yield _sample("flower", "pink", flower, jpeg(pink_flower))
    yield _sample("chelsea", "blue-eyes", eyes, jpeg(blue_eyes))
    yield _sample("astronaut", "green-suit", suit, jpeg(green_suit))
    alone = taken_away(photos["flower"], inside(photos["flower"], SECOND_FLOWER))
    yield _sample("flower", "alone", "Take away the second flower at the bottom.", jpeg(alone))
    # Nobody sees that everything lies two pixels further right; a naive comparison sees nothing else.
    yield _sample("coffee", "green-two-pixels-right", cup, jpeg(shifted(green_cup, 2, 0)))

    tinted = cast(blue_bike, (0.80, 0.93, 1.16))
    yield _sample("motorcycle", "blue-cast", bike, jpeg(tinted), "the whole garage has turned bluish")
    cut = zoomed(pink_flower, 1.15)
    yield _sample("flower", "pink-zoomed", flower, jpeg(cut), "zoomed in, and cut off all around")
    yield _sample("chelsea", "blue-eyes-blocky", eyes, jpeg(blue_eyes, quality=10), "compressed until the fur is gone")
    swapped = face_swapped(green_suit, photos["chelsea"], (222, 126), (118, 150), CAT_FACE)
    yield _sample("astronaut", "green-suit-cat", suit, jpeg(swapped), "her face was swapped for a cat's")
    spoonless = taken_away(green_cup, inside(green_cup, SPOON))
    yield _sample("coffee", "green-no-spoon", cup, jpeg(spoonless), "the spoon is gone too, a smear in its place")
    soft = blurred(done["china"], 2.2)
    yield _sample("china", "blue-roofs-blurred", asked["china"], jpeg(soft), "everything is blurred")
    flipped = "left and right are swapped"
    yield _sample("rocket", "lamp-mirrored", asked["rocket"], jpeg(mirrored(done["rocket"])), flipped)


def _sample(photo: str, name: str, instruction: str, picture: bytes, flaw: str = "") -> Sample:
    return Sample(photo, name, {"instruction": instruction}, flaw, picture)


def _blue_bike(photo: Pixels) -> Pixels:
    red = coloured(photo, (10, 52), 30) * np.maximum(inside(photo, BODYWORK), inside(photo, MUDGUARD))
    return recoloured(photo, filled(red, 3), BLUE, 0.85)


def _pink_flower(photo: Pixels) -> Pixels:
    petals = coloured(photo, (10, 105), 14) * around(photo, (309, 222), (145, 148))
    return recoloured(photo, filled(petals, 9), PINK, 1.05)


def _blue_eyes(photo: Pixels) -> Pixels:
    both = np.maximum(around(photo, (172, 115), (34, 29), 12), around(photo, (319, 136), (20, 26), 10))
    return recoloured(photo, softened(both, 2) * coloured(photo, (60, 120), 12, 1), SKY, 1.0, lighter=4)


def _green_suit(photo: Pixels) -> Pixels:
    orange = coloured(photo, (28, 75), 30) * inside(photo, SUIT)
    return recoloured(photo, filled(orange, 3), GREEN, 0.75)


def _green_cup(photo: Pixels) -> Pixels:
    outside = np.maximum(around(photo, (278, 226), (204, 166)), inside(photo, SAUCER_EDGE))
    not_coffee: Mask = 1 - softened(around(photo, (291, 107), (106, 88)), 1.2)
    return recoloured(photo, filled(coloured(photo, (5, 52), 10) * outside * not_coffee, 5), GREEN, 0.55)


def _blue_roofs(photo: Pixels) -> Pixels:
    return recoloured(photo, coloured(photo, (35, 85), 25) * inside(photo, ROOFS), 275, 0.8)


def _lamp_gone(photo: Pixels) -> Pixels:
    return taken_away(photo, around(photo, (82, 350), (17, 17)))


# For each photograph, what is asked for and who does it well.
RETOUCHED: Mapping[str, tuple[str, Callable[[Pixels], Pixels]]] = {
    "astronaut": ("Make the space suit green.", _green_suit),
    "chelsea": ("Give the cat blue eyes.", _blue_eyes),
    "china": ("Make the roof tiles blue.", _blue_roofs),
    "coffee": ("Make the cup and the saucer green.", _green_cup),
    "flower": ("Make the large flower pink.", _pink_flower),
    "motorcycle": ("Paint the red motorcycle blue.", _blue_bike),
    "rocket": ("Take away the lamp furthest left.", _lamp_gone),
}
