"""The cases of the demo: restyles, edits and descriptions of seven photographs, half of them with a known flaw.

Coordinates are in pixels of the photographs as they are shipped. The descriptions, what an assistant might say of the
photographs, are our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import cv2
import numpy as np

from beholder.demo.photos import (
    Mask,
    Pixels,
    blur,
    close_mask,
    draw_comic,
    draw_neon,
    draw_pencil,
    encode_jpeg,
    join_halves,
    mask_ellipse,
    mask_hue,
    mask_polygon,
    mirror,
    paint_oil,
    paint_watercolor,
    print_linocut,
    print_pop_art,
    recolor,
    remove_object,
    saturate,
    shift,
    shrink_to_width,
    soften_mask,
    swap_face,
    tint,
    zoom,
)

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


def make_restyles(photos: Mapping[str, Pixels]) -> Iterator[DemoSample]:
    """Yield the restyles, the good ones first."""
    large = {name: _enlarge(photo) for name, photo in photos.items()}
    yield _make_restyle_sample("astronaut", "pencil", "Pencil Portrait", encode_jpeg(draw_pencil(large["astronaut"])))
    yield _make_restyle_sample("chelsea", "oil", "Oil Painting", encode_jpeg(paint_oil(large["chelsea"])))
    yield _make_restyle_sample("china", "watercolour", "Watercolour", encode_jpeg(paint_watercolor(large["china"])))
    yield _make_restyle_sample(
        "flower", "pop-art", "Pop Art", encode_jpeg(print_pop_art(large["flower"], POP_ART_INKS))
    )
    yield _make_restyle_sample("motorcycle", "comic", "Comic Book", encode_jpeg(draw_comic(large["motorcycle"])))
    yield _make_restyle_sample("rocket", "linocut", "Linocut", encode_jpeg(print_linocut(large["rocket"])))

    cat = large["chelsea"]
    half = join_halves(draw_pencil(cat), cat)
    yield _make_restyle_sample(
        "chelsea", "pencil", "Pencil Portrait", encode_jpeg(half), "the right half is still the photograph"
    )
    faint = saturate(large["coffee"], 1.15)
    yield _make_restyle_sample(
        "coffee", "watercolour", "Watercolour", encode_jpeg(faint), "hardly any style, only stronger colours"
    )
    small = shrink_to_width(paint_oil(large["flower"]), 160)
    yield _make_restyle_sample("flower", "oil", "Oil Painting", encode_jpeg(small), "tiny, 160 pixels wide")
    swallowed = print_pop_art(blur(large["china"], 16), POP_ART_INKS, pitch=34)
    yield _make_restyle_sample(
        "china", "pop-art", "Pop Art", encode_jpeg(swallowed), "the style has swallowed the tower"
    )
    other = draw_neon(large["coffee"])
    yield _make_restyle_sample(
        "motorcycle", "neon", "Neon Cyberpunk", encode_jpeg(other), "made from the wrong photograph, the coffee cup"
    )
    poor = encode_jpeg(draw_comic(large["astronaut"]), quality=7)
    yield _make_restyle_sample("astronaut", "comic", "Comic Book", poor, "saved so small that it falls into blocks")
    soft = blur(paint_watercolor(large["rocket"]), 5)
    yield _make_restyle_sample("rocket", "watercolour", "Watercolour", encode_jpeg(soft), "blurred all over")


def _make_restyle_sample(photo: str, name: str, style: str, picture: bytes, flaw: str = "") -> DemoSample:
    fields: dict[str, str | list[str]] = {"style": style}
    if style in STYLE_DESCRIPTIONS:
        fields["style_description"] = STYLE_DESCRIPTIONS[style]
    return DemoSample(photo, name, fields, flaw, picture)


def _enlarge(photo: Pixels) -> Pixels:
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


def make_edits(photos: Mapping[str, Pixels]) -> Iterator[DemoSample]:
    """Yield the edits, the good ones first."""
    done = {name: retouch(photos[name]) for name, (_, retouch) in EDIT_INSTRUCTIONS.items()}
    asked = {name: instruction for name, (instruction, _) in EDIT_INSTRUCTIONS.items()}
    blue_bike, pink_flower, blue_eyes = done["motorcycle"], done["flower"], done["chelsea"]
    green_suit, green_cup = done["astronaut"], done["coffee"]
    bike, flower, eyes, suit, cup = (asked[name] for name in ("motorcycle", "flower", "chelsea", "astronaut", "coffee"))
    yield _make_edit_sample("motorcycle", "blue", bike, encode_jpeg(blue_bike))
    yield _make_edit_sample("flower", "pink", flower, encode_jpeg(pink_flower))
    yield _make_edit_sample("chelsea", "blue-eyes", eyes, encode_jpeg(blue_eyes))
    yield _make_edit_sample("astronaut", "green-suit", suit, encode_jpeg(green_suit))
    alone = remove_object(photos["flower"], mask_polygon(photos["flower"], SECOND_FLOWER))
    yield _make_edit_sample("flower", "alone", "Take away the second flower at the bottom.", encode_jpeg(alone))
    # Nobody sees that everything lies two pixels further right; a naive comparison sees nothing else.
    yield _make_edit_sample("coffee", "green-two-pixels-right", cup, encode_jpeg(shift(green_cup, 2, 0)))

    tinted = tint(blue_bike, (0.80, 0.93, 1.16))
    yield _make_edit_sample("motorcycle", "blue-cast", bike, encode_jpeg(tinted), "the whole garage has turned bluish")
    cut = zoom(pink_flower, 1.15)
    yield _make_edit_sample("flower", "pink-zoomed", flower, encode_jpeg(cut), "zoomed in, and cut off all around")
    yield _make_edit_sample(
        "chelsea", "blue-eyes-blocky", eyes, encode_jpeg(blue_eyes, quality=10), "compressed until the fur is gone"
    )
    swapped = swap_face(green_suit, photos["chelsea"], (222, 126), (118, 150), CAT_FACE)
    yield _make_edit_sample(
        "astronaut", "green-suit-cat", suit, encode_jpeg(swapped), "her face was swapped for a cat's"
    )
    spoonless = remove_object(green_cup, mask_polygon(green_cup, SPOON))
    yield _make_edit_sample(
        "coffee", "green-no-spoon", cup, encode_jpeg(spoonless), "the spoon is gone too, a smear in its place"
    )
    soft = blur(done["china"], 2.2)
    yield _make_edit_sample("china", "blue-roofs-blurred", asked["china"], encode_jpeg(soft), "everything is blurred")
    flipped = "left and right are swapped"
    yield _make_edit_sample("rocket", "lamp-mirrored", asked["rocket"], encode_jpeg(mirror(done["rocket"])), flipped)


def _make_edit_sample(photo: str, name: str, instruction: str, picture: bytes, flaw: str = "") -> DemoSample:
    return DemoSample(photo, name, {"instruction": instruction}, flaw, picture)


def _paint_bike_blue(photo: Pixels) -> Pixels:
    red = mask_hue(photo, (10, 52), 30) * np.maximum(mask_polygon(photo, BODYWORK), mask_polygon(photo, MUDGUARD))
    return recolor(photo, close_mask(red, 3), HUE_BLUE, 0.85)


def _paint_flower_pink(photo: Pixels) -> Pixels:
    petals = mask_hue(photo, (10, 105), 14) * mask_ellipse(photo, (309, 222), (145, 148))
    return recolor(photo, close_mask(petals, 9), HUE_PINK, 1.05)


def _paint_eyes_blue(photo: Pixels) -> Pixels:
    both = np.maximum(mask_ellipse(photo, (172, 115), (34, 29), 12), mask_ellipse(photo, (319, 136), (20, 26), 10))
    return recolor(photo, soften_mask(both, 2) * mask_hue(photo, (60, 120), 12, 1), HUE_SKY, 1.0, lighter=4)


def _paint_suit_green(photo: Pixels) -> Pixels:
    orange = mask_hue(photo, (28, 75), 30) * mask_polygon(photo, SUIT)
    return recolor(photo, close_mask(orange, 3), HUE_GREEN, 0.75)


def _paint_cup_green(photo: Pixels) -> Pixels:
    outside = np.maximum(mask_ellipse(photo, (278, 226), (204, 166)), mask_polygon(photo, SAUCER_EDGE))
    not_coffee: Mask = 1 - soften_mask(mask_ellipse(photo, (291, 107), (106, 88)), 1.2)
    return recolor(photo, close_mask(mask_hue(photo, (5, 52), 10) * outside * not_coffee, 5), HUE_GREEN, 0.55)


def _paint_roofs_blue(photo: Pixels) -> Pixels:
    return recolor(photo, mask_hue(photo, (35, 85), 25) * mask_polygon(photo, ROOFS), 275, 0.8)


def _remove_lamp(photo: Pixels) -> Pixels:
    return remove_object(photo, mask_ellipse(photo, (82, 350), (17, 17)))


# For each photograph an instruction, and the function that carries it out well.
EDIT_INSTRUCTIONS: Mapping[str, tuple[str, Callable[[Pixels], Pixels]]] = {
    "astronaut": ("Make the space suit green.", _paint_suit_green),
    "chelsea": ("Give the cat blue eyes.", _paint_eyes_blue),
    "china": ("Make the roof tiles blue.", _paint_roofs_blue),
    "coffee": ("Make the cup and the saucer green.", _paint_cup_green),
    "flower": ("Make the large flower pink.", _paint_flower_pink),
    "motorcycle": ("Paint the red motorcycle blue.", _paint_bike_blue),
    "rocket": ("Take away the lamp furthest left.", _remove_lamp),
}


DESCRIPTION_QUESTIONS = {
    "astronaut": "Describe the picture.",
    "chelsea": "Describe the animal.",
    "china": "Describe the building and what surrounds it.",
    "coffee": "What is on the table?",
    "flower": "Describe the flower.",
    "motorcycle": "What colour is the motorcycle, and where does it stand?",
    "rocket": "What stands between the towers?",
}

EXPECTED_DESCRIPTIONS = {
    "astronaut": [
        "A smiling woman with short brown hair wears an orange space suit. A black helmet lies in front of her on "
        "the right, a model of a space shuttle stands behind her on the right, and an American flag hangs on the "
        "left.",
        "An astronaut in an orange suit smiles at the camera. The flag of the United States is on the left; a "
        "white shuttle model and a black helmet are on the right.",
    ],
    "chelsea": [
        "A close-up of the face of one brown tabby cat with green eyes, a reddish nose and long white whiskers. "
        "The background is blurred.",
        "The face of a single striped cat, brown and beige, with large green eyes; behind it everything is out of "
        "focus.",
    ],
    "china": [
        "A Chinese tower with several roofs of orange and green tiles and dark red columns rises above trees. "
        "Behind it lies a lake with small boats and an island under a pale blue sky.",
        "A pagoda with red pillars and tiled roofs stands among trees above a wide lake dotted with boats.",
    ],
    "coffee": [
        "A red cup of espresso, white inside, stands on a red saucer on a wooden table. A metal spoon lies on the "
        "saucer to the right of the cup.",
        "A small red cup with coffee on a matching saucer, a silver spoon beside it, on a table of brown wood.",
    ],
    "flower": [
        "One large orange dahlia in full bloom in front of dark green, blurred leaves. The top of a second orange "
        "flower shows at the bottom.",
        "A round orange flower with many petals, sharp against a dark, blurred background.",
    ],
    "motorcycle": [
        "The motorcycle is red with a black seat. It stands in a garage, in front of a wooden bench on the left "
        "and metal shelves with boxes on the right.",
        "It is a red motorcycle, parked on the concrete floor of a garage with shelves and a wooden bench.",
    ],
    "rocket": [
        "A white rocket stands upright on its launch pad at dusk, between four tall lattice towers. Bright lamps "
        "shine on the ground.",
        "A tall white rocket on a launch pad under a dark blue evening sky.",
    ],
}

# photo, name, what the assistant said, and what is wrong with it.
DESCRIPTIONS = (
    (
        "coffee",
        "right",
        "A red cup of espresso stands on a red saucer. The cup is white inside, and a metal spoon lies on the "
        "saucer to the right of it. The table is made of brown wood.",
        "",
    ),
    (
        "chelsea",
        "right",
        "This is a close-up of a brown tabby cat. It has green eyes, a reddish nose and long white whiskers, and "
        "the background is blurred.",
        "",
    ),
    (
        "astronaut",
        "right",
        "A smiling astronaut with short brown hair in an orange space suit. An American flag hangs on the left, a "
        "model of a space shuttle stands on the right, and a black helmet lies in front of her.",
        "",
    ),
    ("motorcycle", "right", "It is red, with a black seat, and it stands in a garage in front of shelves.", ""),
    (
        "china",
        "right",
        "A Chinese pagoda with red columns and roofs of orange and green tiles stands among trees. A lake with "
        "small boats lies behind it.",
        "",
    ),
    (
        "flower",
        "wrong-colour",
        "One large blue dahlia in full bloom in front of dark green, blurred leaves. The top of a second flower "
        "shows at the bottom.",
        "the flower is orange, not blue",
    ),
    (
        "chelsea",
        "wrong-number",
        "A close-up of two brown tabby cats with green eyes, reddish noses and long white whiskers. The background "
        "is blurred.",
        "two cats where there is one",
    ),
    (
        "astronaut",
        "left-and-right",
        "A smiling woman with short brown hair wears an orange space suit. An American flag hangs on the right, "
        "and a model of a space shuttle stands on the left.",
        "flag and shuttle have changed sides",
    ),
    (
        "coffee",
        "invented",
        "A red cup of espresso stands on a red saucer with a metal spoon, next to a croissant on a white plate and "
        "a folded newspaper, on a wooden table.",
        "there is no croissant, no plate and no newspaper",
    ),
    (
        "china",
        "denied",
        "A Chinese tower with several roofs of orange and green tiles and dark red columns rises above trees. "
        "There is no lake and there are no boats.",
        "denies the lake and the boats",
    ),
    ("astronaut", "left-out", "A woman.", "leaves out nearly everything"),
    (
        "motorcycle",
        "off-the-question",
        "Motorcycles are a popular means of transport. Many people enjoy riding them at weekends, and they use "
        "less fuel than cars do.",
        "does not answer the question",
    ),
    ("rocket", "empty", "", "says nothing at all"),
)


def make_descriptions() -> Iterator[DemoSample]:
    """Yield the descriptions, the right ones first."""
    for photo, name, said, flaw in DESCRIPTIONS:
        fields: dict[str, str | list[str]] = {"input": DESCRIPTION_QUESTIONS[photo], "output": said}
        yield DemoSample(photo, name, {**fields, "expected_output": EXPECTED_DESCRIPTIONS[photo]}, flaw)
