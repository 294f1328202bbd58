"""The descriptions, all written by ourselves: what an assistant might say of the photographs, rightly and wrongly."""

from __future__ import annotations

from collections.abc import Iterator

from beholder.demo.model import Sample

QUESTIONS = {
    "astronaut": "Describe the picture.",
    "chelsea": "Describe the animal.",
    "china": "Describe the building and what surrounds it.",
    "coffee": "What is on the table?",
    "flower": "Describe the flower.",
    "motorcycle": "What colour is the motorcycle, and where does it stand?",
    "rocket": "What stands between the towers?",
}

EXPECTED = {
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
SAID = (
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


def descriptions() -> Iterator[Sample]:
    """The right ones first."""
    for photo, name, said, flaw in SAID:
        fields: dict[str, str | list[str]] = {"input": QUESTIONS[photo], "output": said}
        yield Sample(photo, name, {**fields, "expected_output": EXPECTED[photo]}, flaw)
