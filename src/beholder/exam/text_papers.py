"""The papers on descriptions: sentences of known truth, omitted, altered, invented or padded.

They are about the demo's photographs, whose facts we wrote down, each also in a wrong version; nothing is known about a
user's photographs. A sentence can be understood by itself, so any but the first can be omitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

import msgspec

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


PHOTO_FACTS: Mapping[str, PhotoFacts] = msgspec.yaml.decode(
    (files("beholder.exam") / "photo_facts.yaml").read_bytes(), type=dict[str, PhotoFacts]
)

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
