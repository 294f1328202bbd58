"""The papers on restyles: `restyle` and `restyle-confidence`.

The clean ones are painted by the demo's filters. They are good of their kind but not perfect, so no paper claims that
one deserves full marks; a spoilt one should come out below its twin. Nothing aims at `exceptional`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np

from beholder.demo.files import jpeg
from beholder.demo.model import Pixels
from beholder.demo.painting import comic, linocut, oil, pop_art, watercolour
from beholder.demo.restyles import INKS, STYLES
from beholder.qualify.damage import Ground, Region, damaged
from beholder.qualify.injections import injected
from beholder.qualify.paper import WORST, Ladder, Paper, Part, Photo, Size, chance, climbed
from beholder.qualify.photographs import most_unlike
from beholder.rubrics.model import Rubric

ACCURACY, COMPLETENESS, RELEVANCE, USEFULNESS = "accuracy", "completeness", "relevance", "usefulness"

LADDERS = (
    Ladder(Part.PATCHY, "photo_left", (COMPLETENESS,), {ACCURACY: 5}),
    Ladder(Part.DAMAGE, "blur", (USEFULNESS,)),
    Ladder(Part.DAMAGE, "noise", (USEFULNESS,), {ACCURACY: 5}),
    Ladder(Part.PATCHY, "faint", (COMPLETENESS, RELEVANCE), {ACCURACY: 5}),
    Ladder(Part.DAMAGE, "recompression", (USEFULNESS,)),
    Ladder(Part.DAMAGE, "small", (USEFULNESS,)),
)
SWAP = Ladder(Part.SWAP, "whole", (ACCURACY,), {COMPLETENESS: 5})
UNEDITED = Ladder(Part.UNEDITED, "reencoded", (COMPLETENESS, RELEVANCE))

LEFT = (10, 20, 35, 50, 75)  # % of the picture that is still the photograph
MIXED_IN = (15, 30, 50, 65, 80)  # % of the photograph in the mixture
SMALL = (87, 62, 44, 28, 15)  # % of the longer side


@dataclass(frozen=True, slots=True)
class Style:
    name: str
    description: str
    paint: Callable[[Pixels], Pixels]

    @property
    def kind(self) -> str:
        return self.name.lower().replace(" ", "_")


_POP_ART = "A print in four flat, loud inks with a thick black key plate and regular dots in the half tones."

PAINTED = (
    Style("Oil Painting", STYLES["Oil Painting"], oil),
    Style("Watercolour", STYLES["Watercolour"], watercolour),
    Style("Comic Book", STYLES["Comic Book"], comic),
    Style("Linocut", STYLES["Linocut"], linocut),
    Style("Pop Art", _POP_ART, partial(pop_art, inks=INKS)),
)


def restyles(rubric: Rubric, photos: Sequence[Photo], size: Size, seed: int) -> Iterator[Paper]:
    """Style that is patchy, faint or absent, another subject, and pictures that cannot be used."""
    order = chance(seed, "styles").permutation(len(PAINTED))
    bad = []
    for number, photo in enumerate(photos):
        style, second = (PAINTED[order[(number + more) % len(PAINTED)]] for more in (0, 1))
        clean = style.paint(photo.pixels)
        fields = {"style": style.name, "style_description": style.description}
        yield Paper(photo.name, Part.CLEAN, style.kind, 0, clean, fields)
        more = {"style": second.name, "style_description": second.description}
        yield Paper(photo.name, Part.CLEAN, second.kind, 0, second.paint(photo.pixels), more)
        spoilt = partial(_paper, photo, fields, f"{photo.name}/{Part.CLEAN}-{style.kind}")
        for ladder in climbed(LADDERS, size, number, len(photos)):
            for strength in size.strengths:
                yield spoilt(ladder, strength, _spoilt(photo, clean, ladder.kind, strength, seed))
        if other := most_unlike(photos, number):
            yield spoilt(SWAP, WORST, style.paint(other.pixels))
        bad.append(spoilt(UNEDITED, WORST, jpeg(photo.pixels)))
        yield bad[-1]
    pixels = {photo.name: photo.pixels for photo in photos}

    def shown(paper: Paper) -> tuple[Pixels, Region | None]:
        return pixels[paper.source], None

    yield from injected(bad, rubric, size.injections, "style_description", shown, judged=False)


def _paper(
    photo: Photo, fields: Mapping[str, str], twin: str, ladder: Ladder, strength: int, picture: Pixels | bytes
) -> Paper:
    spares = ladder.spared(strength)
    return Paper(photo.name, ladder.part, ladder.kind, strength, picture, fields, twin, ladder.aims, spares)


def _spoilt(photo: Photo, clean: Pixels, kind: str, strength: int, seed: int) -> Pixels:
    match kind:
        case "photo_left":
            side = int(chance(seed, photo.name, kind).integers(4))
            return half_done(photo.pixels, clean, LEFT[strength - 1], side)
        case "faint":
            share = MIXED_IN[strength - 1] / 100
            return np.asarray(photo.pixels * share + clean * (1 - share) + 0.5, np.uint8)
        case "small":
            height, width = (max(1, round(side * SMALL[strength - 1] / 100)) for side in clean.shape[:2])
            return np.asarray(cv2.resize(clean, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    nowhere = np.zeros(clean.shape[:2], bool)
    return damaged(Ground(clean, nowhere, photo.pixels, seed, photo.name), kind, strength)


def half_done(photo: Pixels, painted: Pixels, percent: int, side: int) -> Pixels:
    """The painting, of which so much is still the photograph, from one side on (0 to 3: right, top, left, bottom)."""
    mixed = np.rot90(painted, -side).copy()
    start = round(mixed.shape[1] * (1 - percent / 100))
    mixed[:, start:] = np.rot90(photo, -side)[:, start:]
    return np.ascontiguousarray(np.rot90(mixed, side))
