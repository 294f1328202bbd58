"""The papers on edits: `edit-preservation` and its sisters `edit-quality` and `edit-fidelity`.

What each paper aims at follows from the definitions of the factors, and only where they leave no doubt. Nothing aims at
`scale_realism`, `spatial_relationship` and `plausibility`: no change to pixels is known to break these and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import cv2
import numpy as np

from beholder.demo.files import jpeg
from beholder.demo.model import Pixels
from beholder.qualify.damage import Ground, Region, covering, damaged, damaged_inside, damaged_outside
from beholder.qualify.edits import WRONG_COLOUR, Edit, five_stickers, retouched, stickered, stuck
from beholder.qualify.files import decoded
from beholder.qualify.injections import injected
from beholder.qualify.paper import WORST, Ladder, Paper, Part, Photo, Size, chance, climbed
from beholder.qualify.photographs import most_unlike
from beholder.rubrics.model import Rubric

REGIONS, CONSISTENCY, IDENTITY = PRESERVATION = ("unchanged_regions", "global_consistency", "identity_preservation")
SCALE, SPACE, TEXTURE, TECHNICAL, LIGHT, SEAMS = QUALITY = (
    "scale_realism",
    "spatial_relationship",
    "texture_and_detail",
    "image_quality",
    "color_and_lighting",
    "seamlessness",
)
ALIGNMENT, COMPLETENESS, PLAUSIBILITY = FIDELITY = ("alignment", "completeness", "plausibility")

# Outside of the edit.
PRESERVATION_LADDERS = (
    Ladder(Part.DAMAGE, "colour_cast", (REGIONS, CONSISTENCY), {IDENTITY: 3}),
    Ladder(Part.DAMAGE, "blur", (REGIONS,), {CONSISTENCY: 3, IDENTITY: 2}),
    Ladder(Part.DAMAGE, "noise", (REGIONS,), {CONSISTENCY: 3, IDENTITY: 3}),
    Ladder(Part.DAMAGE, "shift", (REGIONS,), {IDENTITY: 5}),
    Ladder(Part.DAMAGE, "patch", (REGIONS,), {CONSISTENCY: 2}),
    Ladder(Part.DAMAGE, "recompression", (REGIONS,), {CONSISTENCY: 3, IDENTITY: 3}),
)
# Three over the whole picture, three at the edit alone.
QUALITY_LADDERS = (
    Ladder(Part.DAMAGE, "blur", (TECHNICAL,), {SCALE: 5, SPACE: 5}),
    Ladder(Part.DAMAGE, "soft_edit", (TEXTURE,), {SCALE: 5, SPACE: 5, LIGHT: 5}),
    Ladder(Part.DAMAGE, "noise", (TECHNICAL,), {SCALE: 5, SPACE: 5}),
    Ladder(Part.DAMAGE, "tinted_edit", (LIGHT,), {SCALE: 5, SPACE: 5, TEXTURE: 5}),
    Ladder(Part.DAMAGE, "recompression", (TECHNICAL,), {SCALE: 5, SPACE: 5}),
    Ladder(Part.DAMAGE, "halo", (SEAMS,), {SCALE: 5, SPACE: 5}),
)
# An instruction with five parts, and damage that has nothing to do with what was asked.
FIDELITY_LADDERS = (
    Ladder(Part.OMISSION, "left_out", (COMPLETENESS,), {PLAUSIBILITY: 5}),
    Ladder(Part.WRONG, "wrong_colour", (ALIGNMENT,), {PLAUSIBILITY: 5}),
    Ladder(Part.DAMAGE, "blur", (), {ALIGNMENT: 4, COMPLETENESS: 4}),
    Ladder(Part.DAMAGE, "noise", (), {ALIGNMENT: 5, COMPLETENESS: 5}),
    Ladder(Part.DAMAGE, "colour_cast", (), {ALIGNMENT: 3, COMPLETENESS: 5}),
    Ladder(Part.DAMAGE, "recompression", (), {ALIGNMENT: 4, COMPLETENESS: 4}),
)
SWAPS = (Ladder(Part.SWAP, "whole", PRESERVATION), Ladder(Part.SWAP, "middle", (REGIONS, IDENTITY)))
AT_THE_EDIT = {"soft_edit": "blur", "tinted_edit": "colour_cast"}
ROOM = 0.5  # of the detail of a picture
LEAVE_IT = "Leave the picture as it is."


@dataclass(frozen=True, slots=True)
class Material:
    """A photograph with its clean edits, and a photograph to take foreign things from."""

    photo: Photo
    other: Photo | None
    sticker: Edit
    retouched: Edit | None
    seed: int

    @property
    def main(self) -> Edit:
        """The retouching, where there is one."""
        return self.retouched or self.sticker

    @property
    def roomy(self) -> Edit:
        """The same, unless it takes most of what there is to see: then nothing is left outside that damage could
        spoil (a flower before a blurred background)."""
        detail = np.abs(cv2.Laplacian(cv2.cvtColor(self.photo.pixels, cv2.COLOR_RGB2GRAY), cv2.CV_32F))
        left = float(detail[~self.main.region].sum()) / max(float(detail.sum()), 1.0)
        return self.main if left >= ROOM else self.sticker

    @property
    def edits(self) -> tuple[Edit, ...]:
        return (self.retouched, self.sticker) if self.retouched else (self.sticker,)

    def ground(self, edit: Edit) -> Ground:
        foreign = self.other.pixels if self.other else np.ascontiguousarray(self.photo.pixels[::-1, ::-1])
        return Ground(edit.picture, edit.region, foreign, self.seed, self.photo.name)

    def clean(self, edit: Edit, perfect: tuple[str, ...]) -> Paper:
        """The edit as it is. `perfect` are the criteria in which nothing can be wrong with it."""
        fields = {"instruction": edit.instruction}
        return Paper(self.photo.name, Part.CLEAN, edit.kind, 0, edit.picture, fields, spares=perfect)

    def paper(self, ladder: Ladder, strength: int, picture: Pixels | bytes, edit: Edit) -> Paper:
        """The edit with something wrong, as the ladder says."""
        return Paper(
            self.photo.name,
            ladder.part,
            ladder.kind,
            strength,
            picture,
            {"instruction": edit.instruction},
            twin=f"{self.photo.name}/{Part.CLEAN}-{edit.kind}",
            aims=ladder.aims,
            spares=ladder.spared(strength),
        )


def materials(photos: Sequence[Photo], seed: int) -> Iterator[Material]:
    for number, photo in enumerate(photos):
        yield Material(photo, most_unlike(photos, number), stickered(photo), retouched(photo), seed)


def preservation(rubric: Rubric, photos: Sequence[Photo], size: Size, seed: int) -> Iterator[Paper]:
    """`edit-preservation`: damage outside the edit, another picture, no edit at all."""
    bad: list[tuple[Paper, Region]] = []
    for number, material in enumerate(materials(photos, seed)):
        yield from (material.clean(edit, PRESERVATION) for edit in material.edits)
        for ladder in climbed(PRESERVATION_LADDERS, size, number, len(photos)):
            slid = ladder.kind == "shift"
            edit = material.sticker if slid else material.roomy
            make = partial(_slid, material) if slid else partial(damaged_outside, material.ground(edit), ladder.kind)
            papers = list(_rungs(ladder, size, material, edit, make))
            yield from papers
        swaps = _swaps(material)
        chosen = swaps if size.ladders > len(PRESERVATION_LADDERS) else swaps[number % 2 :][:1]
        yield from chosen
        # A swap is bad in most criteria, so that a text has something to raise in each of them.
        bad.append((chosen[0], material.sticker.region) if chosen else (papers[-1], edit.region))
        yield _unedited(material, (), PRESERVATION)
        yield from _identical(material, number, PRESERVATION)
    yield from _injected(bad, rubric, size)


def quality(rubric: Rubric, photos: Sequence[Photo], size: Size, seed: int) -> Iterator[Paper]:
    """`edit-quality`: a picture that is technically poor, and an edit that does not sit well."""
    bad = []
    for number, material in enumerate(materials(photos, seed)):
        yield material.clean(material.main, (SCALE, SPACE, TECHNICAL) if material.retouched else (TECHNICAL,))
        ground = material.ground(material.main)
        for ladder in climbed(QUALITY_LADDERS, size, number, len(photos)):
            inside = AT_THE_EDIT.get(ladder.kind)
            make = partial(damaged_inside, ground, inside) if inside else partial(damaged, ground, ladder.kind)
            papers = list(_rungs(ladder, size, material, material.main, make))
            yield from papers
            if TECHNICAL in ladder.aims:
                worst = papers[-1]
        bad.append((worst, material.main.region))
        yield _unedited(material, (), (TECHNICAL,))
        yield from _identical(material, number, (TECHNICAL,))
    yield from _injected(bad, rubric, size)


def fidelity(rubric: Rubric, photos: Sequence[Photo], size: Size, seed: int) -> Iterator[Paper]:
    """`edit-fidelity`: parts of an instruction left out or done wrongly, and damage that it does not speak of."""
    bad = []
    for number, material in enumerate(materials(photos, seed)):
        five, done = five_stickers(material.photo), material.roomy
        yield from (material.clean(edit, (ALIGNMENT, COMPLETENESS)) for edit in (*material.edits, five))
        for ladder in climbed(FIDELITY_LADDERS, size, number, len(photos)):
            if ladder.part is Part.DAMAGE:
                yield from _rungs(
                    ladder, size, material, done, partial(damaged_outside, material.ground(done), ladder.kind)
                )
            else:
                yield from _rungs(
                    ladder, size, material, five, partial(_not_all, material, five, ladder.part is Part.WRONG)
                )
        unedited = _unedited(material, (ALIGNMENT, COMPLETENESS), (PLAUSIBILITY,))
        yield unedited
        bad.append((unedited, material.main.region))
        yield from _identical(material, number, FIDELITY)
    yield from _injected(bad, rubric, size)


def _rungs(
    ladder: Ladder, size: Size, material: Material, edit: Edit, make: Callable[[int], Pixels]
) -> Iterator[Paper]:
    for strength in size.strengths:
        yield material.paper(ladder, strength, make(strength), edit)


def _swaps(material: Material) -> list[Paper]:
    """The right sticker on another photograph, and on one whose middle is another's; none where there is no other."""
    if material.other is None:
        return []
    edit = material.sticker
    height, width = edit.picture.shape[:2]
    foreign = covering(material.other.pixels, height, width)
    middle, radii = (width // 2, height // 2), (round(0.28 * width), round(0.32 * height))
    oval = np.zeros((height, width), np.uint8)
    cv2.ellipse(oval, middle, radii, 0, 0, 360, 255, -1)
    cloned = np.asarray(cv2.seamlessClone(foreign, edit.picture, oval, middle, cv2.NORMAL_CLONE), np.uint8)
    pictures = (stuck(foreign, edit.stickers), cloned)
    return [material.paper(ladder, WORST, picture, edit) for ladder, picture in zip(SWAPS, pictures, strict=True)]


def _slid(material: Material, strength: int) -> Pixels:
    """The photograph moved under its sticker, which stays where it is and leaves no double."""
    ground = replace(material.ground(material.sticker), picture=material.photo.pixels)
    return np.where(material.sticker.region[..., None], material.sticker.picture, damaged(ground, "shift", strength))


def _unedited(material: Material, aims: tuple[str, ...], spares: tuple[str, ...]) -> Paper:
    """The photograph as it was, encoded anew. `spares` are perfect."""
    ladder = Ladder(Part.UNEDITED, "reencoded", aims, dict.fromkeys(spares, WORST))
    return material.paper(ladder, WORST, jpeg(material.photo.pixels), material.main)


def _identical(material: Material, number: int, spares: tuple[str, ...]) -> Iterator[Paper]:
    """The same file twice where nothing was asked for; with every other photograph."""
    if number % 2 == 0:
        fields = {"instruction": LEAVE_IT}
        yield Paper(material.photo.name, Part.IDENTICAL, "same_file", 0, None, fields, spares=spares)


def _not_all(material: Material, five: Edit, wrong: bool, strength: int) -> Pixels:
    """The five stickers, and as many as the strength left out, or in a colour that nobody asked for."""
    order = chance(material.seed, material.photo.name, five.kind).permutation(len(five.stickers))
    spoilt = set(order[:strength].tolist())
    return stuck(
        material.photo.pixels,
        [
            replace(one, colour=WRONG_COLOUR) if position in spoilt else one
            for position, one in enumerate(five.stickers)
            if wrong or position not in spoilt
        ],
    )


def _injected(bad: Sequence[tuple[Paper, Region]], rubric: Rubric, size: Size) -> Iterator[Paper]:
    regions = {paper.id: region for paper, region in bad}

    def shown(paper: Paper) -> tuple[Pixels, Region | None]:
        picture = decoded(paper.picture) if isinstance(paper.picture, bytes) else paper.picture
        assert picture is not None
        return picture, regions[paper.twin]

    yield from injected([paper for paper, _ in bad], rubric, size.injections, "instruction", shown, judged=False)
