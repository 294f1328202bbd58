"""The papers on descriptions: sentences of known truth, omitted, altered, invented or padded.

They are about the demo's photographs, whose facts we wrote down, each also in a wrong version; nothing is known about a
user's photographs. A sentence can be understood by itself, so any but the first can be omitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from beholder.cases.case import FieldValue
from beholder.demo.photos import Pixels
from beholder.exam.damage import Region, make_injections
from beholder.exam.paper import (
    MAX_STRENGTH,
    DamageSeries,
    ExamSize,
    Paper,
    PaperPart,
    Photo,
    seeded_random,
    select_series,
)
from beholder.rubrics.rubric import Rubric

QUESTION = "Describe the picture in detail."


@dataclass(frozen=True, slots=True)
class PhotoFacts:
    """What a photograph shows.

    Attributes:
        facts: Pairs, true and wrong; the first names the subject and has no wrong version.
        invented: Five things that are not there.
        expected: The facts in other words.
        reworded: The facts in other words again.
    """

    facts: tuple[tuple[str, str], ...]
    invented: tuple[str, str, str, str, str]
    expected: str
    reworded: str


PHOTO_FACTS: Mapping[str, PhotoFacts] = {
    "astronaut": PhotoFacts(
        facts=(
            ("The picture shows a smiling woman in an orange space suit.", ""),
            ("Her hair is short and brown.", "Her hair is long and black."),
            ("An American flag hangs on the left.", "An American flag hangs on the right."),
            (
                "A model of a space shuttle stands behind her on the right.",
                "A model of a sailing ship stands behind her on the right.",
            ),
            ("A helmet with a black visor lies in front of her.", "A helmet with a green visor lies in front of her."),
            ("A round blue patch is on the chest of the suit.", "A square yellow patch is on the chest of the suit."),
        ),
        invented=(
            "A small dog sits beside her.",
            "She holds a microphone in her hand.",
            "A clock hangs on the wall behind her.",
            "A tall plant stands in the corner.",
            "She wears sunglasses.",
        ),
        expected="A smiling woman with short brown hair wears an orange space suit with a round blue patch on its "
        "chest. A helmet with a black visor lies in front of her, a model of a space shuttle stands behind her on the "
        "right, and an American flag hangs on the left.",
        reworded="We see an astronaut who smiles: a woman with short brown hair, dressed in an orange space suit. "
        "There is a round blue patch on her chest. In front of her is a helmet with a black visor. On the left is the "
        "flag of the United States, and a model of the space shuttle is on the right behind her.",
    ),
    "chelsea": PhotoFacts(
        facts=(
            ("The picture is a close-up of the face of a brown tabby cat.", ""),
            ("The cat has green eyes.", "The cat has blue eyes."),
            ("The nose of the cat is reddish.", "The nose of the cat is black."),
            ("Its whiskers are long and white.", "Its whiskers are short and black."),
            ("The fur on its forehead has dark stripes.", "The fur on its forehead has white spots."),
            ("The background is blurred.", "The background is sharp."),
        ),
        invented=(
            "The cat wears a red collar with a bell.",
            "A second cat lies behind it.",
            "A ball of wool lies in front of it.",
            "A hand strokes the cat from the left.",
            "A bowl of milk stands beside it.",
        ),
        expected="A close-up of the face of one brown tabby cat with green eyes, a reddish nose and long white "
        "whiskers. The fur on its forehead has dark stripes. The background is blurred.",
        reworded="This is the face of a tabby cat seen from close by. Its fur is brown, with dark stripes on the "
        "forehead. The eyes are green, the nose is reddish, and the white whiskers are long. Behind the cat, the "
        "background is blurred.",
    ),
    "china": PhotoFacts(
        facts=(
            ("The picture shows a Chinese tower with several roofs.", ""),
            ("The roofs have orange and green tiles.", "The roofs have blue and white tiles."),
            ("The columns of the tower are dark red.", "The columns of the tower are white."),
            ("Trees grow around the foot of the tower.", "Rocks lie around the foot of the tower."),
            ("A wide lake lies behind the tower.", "A dry desert lies behind the tower."),
            ("Small boats float on the water.", "One large ship floats on the water."),
            ("The sky is pale blue.", "The sky is dark and cloudy."),
        ),
        invented=(
            "A stone bridge leads to the tower.",
            "A crowd of people stands in front of it.",
            "A flock of birds flies across the sky.",
            "A yellow bus is parked below the trees.",
            "Snow lies on the roofs.",
        ),
        expected="A Chinese tower with several roofs of orange and green tiles and dark red columns rises above trees "
        "that grow around its foot. Behind it lies a wide lake with small boats under a pale blue sky.",
        reworded="Among trees stands a tower in the Chinese style. It has several roofs, tiled in orange and green, "
        "and its columns are dark red. A wide lake with small boats on the water lies behind the tower, and the sky is "
        "pale blue.",
    ),
    "coffee": PhotoFacts(
        facts=(
            ("The picture shows a red cup of espresso.", ""),
            ("The cup is white inside.", "The cup is blue inside."),
            ("The cup stands on a red saucer.", "The cup stands on a green saucer."),
            (
                "A metal spoon lies on the saucer to the right of the cup.",
                "A wooden spoon lies on the saucer to the left of the cup.",
            ),
            ("The table is made of brown wood.", "The table is made of white marble."),
            ("Light brown foam covers the coffee.", "White whipped cream covers the coffee."),
        ),
        invented=(
            "A croissant lies on a plate beside the cup.",
            "A folded newspaper lies on the table.",
            "A glass of water stands behind the saucer.",
            "Two sugar cubes lie on the saucer.",
            "A vase with flowers stands on the table.",
        ),
        expected="A red cup of espresso with light brown foam, white inside, stands on a red saucer on a table of "
        "brown wood. A metal spoon lies on the saucer to the right of the cup.",
        reworded="On a brown wooden table there is a red saucer with a red cup on it. The cup holds espresso under "
        "light brown foam, and its inside is white. To the right of the cup, a spoon of metal lies on the saucer.",
    ),
    "flower": PhotoFacts(
        facts=(
            ("The picture shows a large orange dahlia in full bloom.", ""),
            ("The flower is round and has many petals.", "The flower is star-shaped and has five petals."),
            ("The petals in the middle are red.", "The petals in the middle are white."),
            ("The leaves behind the flower are dark green.", "The leaves behind the flower are yellow."),
            ("The background is blurred.", "The background is sharp."),
            (
                "The top of a second orange flower shows at the bottom.",
                "The top of a second purple flower shows on the left.",
            ),
        ),
        invented=(
            "A bee sits on the petals.",
            "A butterfly rests on a leaf.",
            "A glass vase holds the flower.",
            "A hand holds the stem.",
            "A wooden fence stands in the background.",
        ),
        expected="One large orange dahlia in full bloom, round, with many petals that are red in the middle, in front "
        "of dark green leaves in a blurred background. The top of a second orange flower shows at the bottom.",
        reworded="A big orange dahlia blooms in front of a blurred background with dark green leaves. It is a round "
        "flower with many petals, and those in the middle are red. At the bottom, one sees the top of a second flower, "
        "also orange.",
    ),
    "motorcycle": PhotoFacts(
        facts=(
            ("The picture shows a red motorcycle in a garage.", ""),
            ("The seat of the motorcycle is black.", "The seat of the motorcycle is white."),
            ("A wooden bench stands on the left.", "A leather sofa stands on the left."),
            ("Metal shelves with boxes stand on the right.", "Metal shelves with bottles stand on the left."),
            ("The floor is grey concrete.", "The floor is covered with a green carpet."),
            ("The front wheel points to the right.", "The front wheel points to the left."),
        ),
        invented=(
            "A man with a helmet sits on the motorcycle.",
            "A white car is parked beside it.",
            "A dog sleeps on the floor.",
            "A large clock hangs above the bench.",
            "A washing machine stands next to the shelves.",
        ),
        expected="A red motorcycle with a black seat stands in a garage on a floor of grey concrete, its front wheel "
        "to the right. A wooden bench is on the left, and metal shelves with boxes are on the right.",
        reworded="In a garage with a grey concrete floor stands a motorcycle. It is red, its seat is black, and its "
        "front wheel is to the right. There is a bench of wood on the left and there are metal shelves with boxes on "
        "the right.",
    ),
    "rocket": PhotoFacts(
        facts=(
            ("The picture shows a white rocket that stands upright on its launch pad.", ""),
            ("It is evening.", "It is noon."),
            ("Four tall lattice towers stand around the rocket.", "Two round brick towers stand around the rocket."),
            ("Bright lamps shine on the ground.", "All lamps on the ground are dark."),
            ("The sky is dark blue.", "The sky is bright orange."),
            (
                "The rocket stands in the middle of the picture.",
                "The rocket stands at the left edge of the picture.",
            ),
        ),
        invented=(
            "A group of people stands in front of the rocket.",
            "Smoke and fire come out of its engines.",
            "A full moon hangs above the rocket.",
            "A truck drives towards the pad.",
            "A helicopter flies over the towers.",
        ),
        expected="A white rocket stands upright on its launch pad in the evening, in the middle of the picture, "
        "between four tall lattice towers. Bright lamps shine on the ground under a dark blue sky.",
        reworded="It is evening, and the sky is dark blue. In the middle of the picture, a rocket stands upright on a "
        "launch pad; it is white. Around the rocket there are four tall lattice towers, and bright lamps shine on the "
        "ground.",
    ),
}

# True of any picture, and worth nothing.
FILLER = (
    "This is an image.",
    "There are various things to see in it.",
    "One can look at it for a while.",
    "It has a left side and a right side.",
    "Some parts of it are lighter and other parts are darker.",
    "It was taken at a certain moment from a certain place.",
    "Whoever looks at it may notice one thing before another.",
    "All of this together makes up the picture as it is.",
)


ACCURACY, COMPLETENESS, CLARITY, RELEVANCE = CRITERIA = ("visual_accuracy", "completeness", "clarity", "relevance")

OMISSION = DamageSeries(PaperPart.OMISSION, "left_out", (COMPLETENESS,), {ACCURACY: 5, RELEVANCE: 5})
DESCRIPTION_SERIES = (
    DamageSeries(PaperPart.HALLUCINATION, "invented", (ACCURACY,), {COMPLETENESS: 5, CLARITY: 5}),
    DamageSeries(PaperPart.WRONG, "altered", (ACCURACY,), {CLARITY: 5, RELEVANCE: 5}),
    DamageSeries(PaperPart.PADDING, "filler", (RELEVANCE,), {ACCURACY: 5, COMPLETENESS: 5}),
)
OTHER_PHOTO = DamageSeries(PaperPart.WRONG, "other_photo", (ACCURACY, COMPLETENESS))
REWORDED = DamageSeries(PaperPart.CLEAN, "reworded", (), dict.fromkeys(CRITERIA, MAX_STRENGTH))
THIN_FILLER = DamageSeries(PaperPart.PADDING, "filler_thin")
THIN_FILLER_TWIN = 3  # the strength of the omission that it pads
CLEAN_KIND = "told"  # part of the ids of papers, so it stays

FILLER_SENTENCES = (1, 2, 3, 5, 8)  # by strength


def description_papers(rubric: Rubric, photos: Sequence[Photo], size: ExamSize, seed: int) -> Iterator[Paper]:
    """Yield papers with facts omitted, altered, invented or padded, another photo's description, and a rewording."""
    rest = replace(size, series_per_photo=size.series_per_photo - 1)  # omissions are always there
    bad = []
    for number, photo in enumerate(photos):
        facts = PHOTO_FACTS[photo.name]
        clean = _description_paper(
            photo,
            DamageSeries(PaperPart.CLEAN, CLEAN_KIND, (), dict.fromkeys(CRITERIA, MAX_STRENGTH)),
            0,
            _description_text(facts.facts),
            "",
        )
        yield clean
        yield _description_paper(photo, REWORDED, 0, facts.reworded, clean.id)
        for series in (OMISSION, *select_series(DESCRIPTION_SERIES, rest, number, len(photos))):
            for strength in size.strengths:
                yield _description_paper(
                    photo, series, strength, _altered_sentences(facts, photo, series.kind, strength, seed), clean.id
                )
        thin = f"{photo.name}/{PaperPart.OMISSION}-{OMISSION.kind}-{THIN_FILLER_TWIN}"
        strength = (1, 3, 5)[number % 3]
        sentences = _altered_sentences(facts, photo, OMISSION.kind, THIN_FILLER_TWIN, seed)
        yield _description_paper(photo, THIN_FILLER, strength, f"{sentences} {_filler(strength)}", thin)
        if len(photos) > 1:
            other = PHOTO_FACTS[photos[(number + 1) % len(photos)].name]
            bad.append(_description_paper(photo, OTHER_PHOTO, MAX_STRENGTH, _description_text(other.facts), clean.id))
            yield bad[-1]
    pixels = {photo.name: photo.pixels for photo in photos}

    def get_picture(paper: Paper) -> tuple[Pixels, Region | None]:
        return pixels[paper.source], None

    yield from make_injections(bad, rubric, size.injections, "output", get_picture, judged=True)


def _description_paper(photo: Photo, series: DamageSeries, strength: int, said: str, twin: str) -> Paper:
    fields: dict[str, FieldValue] = {
        "input": QUESTION,
        "output": said,
        "expected_output": PHOTO_FACTS[photo.name].expected,
    }
    spares = series.spared_at(strength)
    return Paper(photo.name, series.part, series.kind, strength, None, fields, twin, series.aims, spares)


def _altered_sentences(about: PhotoFacts, photo: Photo, kind: str, strength: int, seed: int) -> str:
    """Return the description at a strength. What is changed at one strength is changed at the next; the first fact
    stays.
    """
    random = seeded_random(seed, photo.name, kind)
    touched = {int(position) + 1 for position in random.permutation(len(about.facts) - 1)[:strength]}
    match kind:
        case "left_out":
            return _description_text([fact for position, fact in enumerate(about.facts) if position not in touched])
        case "altered":
            return " ".join(
                wrong if position in touched else true for position, (true, wrong) in enumerate(about.facts)
            )
        case "invented":
            sentences = [true for true, _ in about.facts]
            for position in random.permutation(len(about.invented))[:strength]:
                sentences.insert(1 + int(position), about.invented[int(position)])
            return " ".join(sentences)
        case _:
            return f"{_description_text(about.facts)} {_filler(strength)}"


def _description_text(facts: Sequence[tuple[str, str]]) -> str:
    return " ".join(true for true, _ in facts)


def _filler(strength: int) -> str:
    return " ".join(FILLER[: FILLER_SENTENCES[strength - 1]])
