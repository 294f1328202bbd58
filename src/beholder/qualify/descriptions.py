"""The papers on descriptions: sentences of known truth, left out, altered, invented or padded.

They are about the demo's photographs, whose facts stand in `facts`; of a user's photographs no facts are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from beholder.cases import FieldValue
from beholder.demo.model import Pixels
from beholder.qualify.damage import Region
from beholder.qualify.facts import ABOUT, FILLER, QUESTION, About
from beholder.qualify.injections import injected
from beholder.qualify.paper import WORST, Ladder, Paper, Part, Photo, Size, chance, climbed
from beholder.rubrics.model import Rubric

ACCURACY, COMPLETENESS, CLARITY, RELEVANCE = ALL = ("visual_accuracy", "completeness", "clarity", "relevance")

OMITTED = Ladder(Part.OMISSION, "left_out", (COMPLETENESS,), {ACCURACY: 5, RELEVANCE: 5})
LADDERS = (
    Ladder(Part.HALLUCINATION, "invented", (ACCURACY,), {COMPLETENESS: 5, CLARITY: 5}),
    Ladder(Part.WRONG, "altered", (ACCURACY,), {CLARITY: 5, RELEVANCE: 5}),
    Ladder(Part.PADDING, "filler", (RELEVANCE,), {ACCURACY: 5, COMPLETENESS: 5}),
)
OTHER_PHOTO = Ladder(Part.WRONG, "other_photo", (ACCURACY, COMPLETENESS))
REWORDED = Ladder(Part.CLEAN, "reworded", (), dict.fromkeys(ALL, WORST))
THIN = Ladder(Part.PADDING, "filler_thin")
THIN_TWIN = 3  # the strength of the omission that it pads
CLEAN = "told"

SENTENCES = (1, 2, 3, 5, 8)  # of padding


def descriptions(rubric: Rubric, photos: Sequence[Photo], size: Size, seed: int) -> Iterator[Paper]:
    """Facts left out, altered, invented and padded; another photograph's description; the same in other words."""
    two = Size(size.photos, size.ladders - 1, size.strengths, size.injections)  # omissions are always there
    bad = []
    for number, photo in enumerate(photos):
        about = ABOUT[photo.name]
        clean = _paper(photo, Ladder(Part.CLEAN, CLEAN, (), dict.fromkeys(ALL, WORST)), 0, _told(about.facts), "")
        yield clean
        yield _paper(photo, REWORDED, 0, about.reworded, clean.id)
        for ladder in (OMITTED, *climbed(LADDERS, two, number, len(photos))):
            for strength in size.strengths:
                yield _paper(photo, ladder, strength, _spoilt(about, photo, ladder.kind, strength, seed), clean.id)
        thin = f"{photo.name}/{Part.OMISSION}-{OMITTED.kind}-{THIN_TWIN}"
        strength = (1, 3, 5)[number % 3]
        said = _spoilt(about, photo, OMITTED.kind, THIN_TWIN, seed)
        yield _paper(photo, THIN, strength, f"{said} {_filler(strength)}", thin)
        if len(photos) > 1:
            other = ABOUT[photos[(number + 1) % len(photos)].name]
            bad.append(_paper(photo, OTHER_PHOTO, WORST, _told(other.facts), clean.id))
            yield bad[-1]
    pixels = {photo.name: photo.pixels for photo in photos}

    def shown(paper: Paper) -> tuple[Pixels, Region | None]:
        return pixels[paper.source], None

    yield from injected(bad, rubric, size.injections, "output", shown, judged=True)


def _paper(photo: Photo, ladder: Ladder, strength: int, said: str, twin: str) -> Paper:
    fields: dict[str, FieldValue] = {"input": QUESTION, "output": said, "expected_output": ABOUT[photo.name].expected}
    spares = ladder.spared(strength)
    return Paper(photo.name, ladder.part, ladder.kind, strength, None, fields, twin, ladder.aims, spares)


def _spoilt(about: About, photo: Photo, kind: str, strength: int, seed: int) -> str:
    """What is left out, altered or invented at one strength is also at the next. The first fact always stays."""
    random = chance(seed, photo.name, kind)
    touched = {int(position) + 1 for position in random.permutation(len(about.facts) - 1)[:strength]}
    match kind:
        case "left_out":
            return _told([fact for position, fact in enumerate(about.facts) if position not in touched])
        case "altered":
            return " ".join(
                wrong if position in touched else true for position, (true, wrong) in enumerate(about.facts)
            )
        case "invented":
            told = [true for true, _ in about.facts]
            for position in random.permutation(len(about.invented))[:strength]:
                told.insert(1 + int(position), about.invented[int(position)])
            return " ".join(told)
        case _:
            return f"{_told(about.facts)} {_filler(strength)}"


def _told(facts: Sequence[tuple[str, str]]) -> str:
    return " ".join(true for true, _ in facts)


def _filler(strength: int) -> str:
    return " ".join(FILLER[: SENTENCES[strength - 1]])
