"""The cases of the demo: restyles, edits and descriptions of seven photographs, half of them with a known flaw.

Coordinates are in pixels of the photographs as they are shipped. The descriptions, what an assistant might say of the
photographs, are our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files

import cv2
import msgspec
import numpy as np

from beholder.demo import photos

GOOD, BAD = "good", "bad"


@dataclass(frozen=True, slots=True)
class DemoSample:
    """A case with its known answer.

    Attributes:
        photo_name: The photograph.
        name: Unique for its photograph.
        fields: The text fields of the case.
        flaw: What is wrong with it, in plain words; empty where nothing is.
        picture_jpeg: The restyle or the edit; empty for a description.
    """

    photo_name: str
    name: str
    fields: Mapping[str, str | list[str]] = field(default_factory=dict)
    flaw: str = ""
    picture_jpeg: bytes = b""

    @property
    def id(self) -> str:
        return f"{self.photo_name}/{self.name}"

    @property
    def expected(self) -> str:
        return BAD if self.flaw else GOOD


@dataclass(frozen=True, slots=True)
class DemoSuite:
    """Samples that one rubric judges.

    Attributes:
        roles: The rubric's names for the photograph and, where there is one, the picture.
        settings: Further lines of the suite file.
    """

    name: str
    rubric: str
    roles: tuple[str, ...]
    samples: tuple[DemoSample, ...]
    settings: str = ""


RESTYLE_SIDE = 768  # px of the longer side: restyles are larger than their photographs, as those of image models

POP_ART_INKS = ((0.16, 0.10, 0.45), (0.93, 0.16, 0.35), (1.0, 0.80, 0.10), (0.55, 0.90, 0.95))  # dark to light

STYLE_DESCRIPTIONS = {
    "Comic Book": "A comic panel: flat, strong colours in few steps, drawn round with black ink.",
    "Linocut": "A block print: one dark ink on cream paper, cut in strong lines and slanting grooves.",
    "Oil Painting": "A painting in oil: soft strokes of a brush that follow the forms, warm and rich colours.",
    "Watercolour": "Light washes with darker rims on grained paper that stays bare along the border.",
}


def make_restyles(originals: Mapping[str, photos.Pixels]) -> Iterator[DemoSample]:
    """Yield the restyles, the good ones first."""
    large = {name: enlarge(photo) for name, photo in originals.items()}
    yield make_restyle_sample("astronaut", "pencil", "Pencil Portrait", photos.draw_pencil(large["astronaut"]))
    yield make_restyle_sample("chelsea", "oil", "Oil Painting", photos.paint_oil(large["chelsea"]))
    yield make_restyle_sample("china", "watercolour", "Watercolour", photos.paint_watercolor(large["china"]))
    yield make_restyle_sample("flower", "pop-art", "Pop Art", photos.print_pop_art(large["flower"], POP_ART_INKS))
    yield make_restyle_sample("motorcycle", "comic", "Comic Book", photos.draw_comic(large["motorcycle"]))
    yield make_restyle_sample("rocket", "linocut", "Linocut", photos.print_linocut(large["rocket"]))

    cat = large["chelsea"]
    half = photos.join_halves(photos.draw_pencil(cat), cat)
    yield make_restyle_sample("chelsea", "pencil", "Pencil Portrait", half, "the right half is still the photograph")
    faint = photos.saturate(large["coffee"], 1.15)
    yield make_restyle_sample("coffee", "watercolour", "Watercolour", faint, "hardly any style, only stronger colours")
    small = photos.shrink_to_width(photos.paint_oil(large["flower"]), 160)
    yield make_restyle_sample("flower", "oil", "Oil Painting", small, "tiny, 160 pixels wide")
    swallowed = photos.print_pop_art(photos.blur(large["china"], 16), POP_ART_INKS, pitch=34)
    yield make_restyle_sample("china", "pop-art", "Pop Art", swallowed, "the style has swallowed the tower")
    other = photos.draw_neon(large["coffee"])
    yield make_restyle_sample(
        "motorcycle", "neon", "Neon Cyberpunk", other, "made from the wrong photograph, the coffee cup"
    )
    poor = photos.draw_comic(large["astronaut"])
    yield make_restyle_sample("astronaut", "comic", "Comic Book", poor, "saved so small that it falls into blocks", 7)
    soft = photos.blur(photos.paint_watercolor(large["rocket"]), 5)
    yield make_restyle_sample("rocket", "watercolour", "Watercolour", soft, "blurred all over")


def make_restyle_sample(
    photo: str, name: str, style: str, picture: photos.Pixels, flaw: str = "", quality: int = photos.JPEG_QUALITY
) -> DemoSample:
    """Return a case of `restyle` with the picture, of which `flaw` says what is wrong with it."""
    fields: dict[str, str | list[str]] = {"style": style}
    if style in STYLE_DESCRIPTIONS:
        fields["style_description"] = STYLE_DESCRIPTIONS[style]
    return DemoSample(photo, name, fields, flaw, photos.encode_jpeg(picture, quality))


def enlarge(photo: photos.Pixels) -> photos.Pixels:
    """Enlarge to the size of the restyles."""
    factor = RESTYLE_SIDE / max(photo.shape[:2])
    return np.asarray(cv2.resize(photo, None, fx=factor, fy=factor, interpolation=cv2.INTER_CUBIC), np.uint8)


# Hues, degrees in CIELAB.
HUE_PINK, HUE_GREEN, HUE_SKY, HUE_BLUE = -8, 150, 262, 280

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


def make_edits(originals: Mapping[str, photos.Pixels]) -> Iterator[DemoSample]:
    """Yield the edits, the good ones first."""
    done = {name: retouch(originals[name]) for name, (_, retouch) in EDIT_INSTRUCTIONS.items()}
    asked = {name: instruction for name, (instruction, _) in EDIT_INSTRUCTIONS.items()}
    blue_bike, pink_flower, blue_eyes = done["motorcycle"], done["flower"], done["chelsea"]
    green_suit, green_cup = done["astronaut"], done["coffee"]
    bike, flower, eyes, suit, cup = (asked[name] for name in ("motorcycle", "flower", "chelsea", "astronaut", "coffee"))
    yield make_edit_sample("motorcycle", "blue", bike, blue_bike)
    yield make_edit_sample("flower", "pink", flower, pink_flower)
    yield make_edit_sample("chelsea", "blue-eyes", eyes, blue_eyes)
    yield make_edit_sample("astronaut", "green-suit", suit, green_suit)
    alone = photos.remove_object(originals["flower"], photos.mask_polygon(originals["flower"], SECOND_FLOWER))
    yield make_edit_sample("flower", "alone", "Take away the second flower at the bottom.", alone)
    # Nobody sees that everything lies two pixels further right; a naive comparison sees nothing else.
    yield make_edit_sample("coffee", "green-two-pixels-right", cup, photos.shift(green_cup, 2, 0))

    tinted = photos.tint(blue_bike, (0.80, 0.93, 1.16))
    yield make_edit_sample("motorcycle", "blue-cast", bike, tinted, "the whole garage has turned bluish")
    cut = photos.zoom(pink_flower, 1.15)
    yield make_edit_sample("flower", "pink-zoomed", flower, cut, "zoomed in, and cut off all around")
    yield make_edit_sample("chelsea", "blue-eyes-blocky", eyes, blue_eyes, "compressed until the fur is gone", 10)
    swapped = photos.swap_face(green_suit, originals["chelsea"], (222, 126), (118, 150), CAT_FACE)
    yield make_edit_sample("astronaut", "green-suit-cat", suit, swapped, "her face was swapped for a cat's")
    spoonless = photos.remove_object(green_cup, photos.mask_polygon(green_cup, SPOON))
    yield make_edit_sample("coffee", "green-no-spoon", cup, spoonless, "the spoon is gone too, a smear in its place")
    soft = photos.blur(done["china"], 2.2)
    yield make_edit_sample("china", "blue-roofs-blurred", asked["china"], soft, "everything is blurred")
    flipped = "left and right are swapped"
    yield make_edit_sample("rocket", "lamp-mirrored", asked["rocket"], photos.mirror(done["rocket"]), flipped)


def make_edit_sample(
    photo: str, name: str, instruction: str, picture: photos.Pixels, flaw: str = "", quality: int = photos.JPEG_QUALITY
) -> DemoSample:
    """Return a case of `edit-preservation` with the picture, of which `flaw` says what is wrong with it."""
    return DemoSample(photo, name, {"instruction": instruction}, flaw, photos.encode_jpeg(picture, quality))


def _paint_bike_blue(photo: photos.Pixels) -> photos.Pixels:
    red = photos.mask_hue(photo, (10, 52), 30) * np.maximum(
        photos.mask_polygon(photo, BODYWORK), photos.mask_polygon(photo, MUDGUARD)
    )
    return photos.recolor(photo, photos.close_mask(red, 3), HUE_BLUE, 0.85)


def _paint_flower_pink(photo: photos.Pixels) -> photos.Pixels:
    petals = photos.mask_hue(photo, (10, 105), 14) * photos.mask_ellipse(photo, (309, 222), (145, 148))
    return photos.recolor(photo, photos.close_mask(petals, 9), HUE_PINK, 1.05)


def _paint_eyes_blue(photo: photos.Pixels) -> photos.Pixels:
    both = np.maximum(
        photos.mask_ellipse(photo, (172, 115), (34, 29), 12), photos.mask_ellipse(photo, (319, 136), (20, 26), 10)
    )
    return photos.recolor(
        photo, photos.soften_mask(both, 2) * photos.mask_hue(photo, (60, 120), 12, 1), HUE_SKY, 1.0, lighter=4
    )


def _paint_suit_green(photo: photos.Pixels) -> photos.Pixels:
    orange = photos.mask_hue(photo, (28, 75), 30) * photos.mask_polygon(photo, SUIT)
    return photos.recolor(photo, photos.close_mask(orange, 3), HUE_GREEN, 0.75)


def _paint_cup_green(photo: photos.Pixels) -> photos.Pixels:
    outside = np.maximum(photos.mask_ellipse(photo, (278, 226), (204, 166)), photos.mask_polygon(photo, SAUCER_EDGE))
    not_coffee: photos.Mask = 1 - photos.soften_mask(photos.mask_ellipse(photo, (291, 107), (106, 88)), 1.2)
    return photos.recolor(
        photo, photos.close_mask(photos.mask_hue(photo, (5, 52), 10) * outside * not_coffee, 5), HUE_GREEN, 0.55
    )


def _paint_roofs_blue(photo: photos.Pixels) -> photos.Pixels:
    return photos.recolor(photo, photos.mask_hue(photo, (35, 85), 25) * photos.mask_polygon(photo, ROOFS), 275, 0.8)


def _remove_lamp(photo: photos.Pixels) -> photos.Pixels:
    return photos.remove_object(photo, photos.mask_ellipse(photo, (82, 350), (17, 17)))


# For each photograph an instruction, and the function that carries it out well.
EDIT_INSTRUCTIONS: Mapping[str, tuple[str, Callable[[photos.Pixels], photos.Pixels]]] = {
    "astronaut": ("Make the space suit green.", _paint_suit_green),
    "chelsea": ("Give the cat blue eyes.", _paint_eyes_blue),
    "china": ("Make the roof tiles blue.", _paint_roofs_blue),
    "coffee": ("Make the cup and the saucer green.", _paint_cup_green),
    "flower": ("Make the large flower pink.", _paint_flower_pink),
    "motorcycle": ("Paint the red motorcycle blue.", _paint_bike_blue),
    "rocket": ("Take away the lamp furthest left.", _remove_lamp),
}


class _Description(msgspec.Struct):
    photo: str
    name: str
    said: str
    flaw: str = ""


class _DescriptionTexts(msgspec.Struct):
    questions: dict[str, str]
    expected: dict[str, list[str]]
    descriptions: list[_Description]


def make_descriptions(file: str = "descriptions.yaml") -> Iterator[DemoSample]:
    """Yield the descriptions of a file of the demo, the right ones first."""
    texts = msgspec.yaml.decode((files("beholder.demo") / file).read_bytes(), type=_DescriptionTexts)
    for one in texts.descriptions:
        fields: dict[str, str | list[str]] = {"input": texts.questions[one.photo], "output": one.said}
        yield DemoSample(one.photo, one.name, {**fields, "expected_output": texts.expected[one.photo]}, one.flaw)
