"""The papers on edits and on restyles.

Edits: `edit-preservation`, `edit-quality`, `edit-fidelity`; restyles: `restyle`, `restyle-confidence`.

A clean edit changes one thing, with an instruction that asks for just that, in a known region. Every photograph gets a
sticker, whose truth is certain on any photograph: flat, of a named color, in a named place. The demo's photographs are
also retouched, each in its own way: recolored, or something removed.

What each paper aims at follows from the definitions of the criteria, and only where they leave no doubt. Nothing aims
at `scale_realism`, `spatial_relationship` and `plausibility`: no change to pixels is known to break only these.

Clean restyles are painted by the demo's filters. They are good but not perfect, so no paper claims that one deserves
full marks; a damaged one should score below its twin. Nothing aims at `exceptional`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import cv2
import numpy as np

from beholder.demo.cases import EDIT_INSTRUCTIONS as RETOUCHING
from beholder.demo.cases import POP_ART_INKS, STYLE_DESCRIPTIONS
from beholder.demo.photos import (
    Pixels,
    draw_comic,
    encode_jpeg,
    paint_oil,
    paint_watercolor,
    print_linocut,
    print_pop_art,
)
from beholder.exam.damage import (
    DamageTarget,
    Region,
    crop_to_fill,
    damage_image,
    damage_inside,
    damage_outside,
    make_injections,
)
from beholder.exam.paper import (
    MAX_STRENGTH,
    DamageSeries,
    ExamSize,
    Paper,
    PaperPart,
    Photo,
    decode_image,
    find_most_unlike,
    seeded_random,
    select_series,
)
from beholder.images.codec import resize
from beholder.rubrics.rubric import Rubric

STICKER, RETOUCHED, FIVE = "sticker", "retouched", "five"

COLORS: Mapping[str, tuple[int, int, int]] = {
    "red": (208, 32, 38),
    "yellow": (250, 212, 44),
    "blue": (36, 84, 196),
    "green": (38, 150, 70),
    "black": (20, 20, 22),
    "pink": (244, 128, 200),
}
STICKER_COLORS = ("red", "yellow", "blue", "green", "black")
WRONG_COLOR = "pink"  # which no instruction asks for

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
_KERNEL_SIZE = 7  # pixels by which a region is closed and widened
_VISIBLE_DIFFERENCE = 3  # levels: what differs by less is nothing that was meant, and is not kept


@dataclass(frozen=True, slots=True)
class Sticker:
    place: str
    color: str


@dataclass(frozen=True, slots=True)
class Edit:
    """A correct edit. Outside of the `region` the picture is the photograph, pixel by pixel."""

    kind: str
    instruction: str
    picture: Pixels
    region: Region
    stickers: tuple[Sticker, ...] = ()


def make_sticker_edit(photo: Photo) -> Edit:
    """Put one sticker into the corner with the least detail, in the color that differs most from what is there."""
    corners = list(PLACES)[:4]
    place = min(corners, key=lambda place: _busyness(photo.pixels, place))
    ground = _covered_pixels(photo.pixels, place).reshape(-1, 3).mean(0)
    color = max(STICKER_COLORS, key=lambda name: round(float(np.abs(ground - COLORS[name]).sum()), 1))
    instruction = f"Put a round {color} sticker with a white rim {place} of the picture."
    return _sticker_edit(STICKER, photo, instruction, (Sticker(place, color),))


def make_five_sticker_edit(photo: Photo) -> Edit:
    """Put on five stickers at once: an instruction with five parts."""
    stickers = tuple(Sticker(place, color) for place, color in zip(PLACES, STICKER_COLORS, strict=True))
    first, *more = stickers
    asked = [f"a round {first.color} sticker with a white rim {first.place} of the picture"]
    asked += [f"a {sticker.color} one {sticker.place}" for sticker in more]
    return _sticker_edit(FIVE, photo, f"Put {', '.join(asked[:-1])}, and {asked[-1]}.", stickers)


def make_retouched_edit(photo: Photo) -> Edit | None:
    """Make the retouching that is known for one of the demo's photographs; None for any other."""
    if photo.shipped is None or photo.name not in RETOUCHING:
        return None
    instruction, retouch = RETOUCHING[photo.name]
    height, width = photo.pixels.shape[:2]
    done = resize(retouch(photo.shipped), width, height)
    region = changed_region(photo.pixels, done)
    return Edit(RETOUCHED, instruction, np.where(region[..., None], done, photo.pixels), region)


def draw_stickers(photo: Pixels, stickers: Iterable[Sticker]) -> Pixels:
    """Draw stickers with smooth edges on a photograph."""
    height, width = photo.shape[:2]
    radius = _RADIUS * min(height, width)
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    picture = photo.astype(np.float32)
    for sticker in stickers:
        row, column = _sticker_center(photo, sticker.place)
        distance = np.hypot(rows - row, columns - column)
        for reach, ink in ((radius, (250, 250, 248)), (radius * (1 - _RIM), COLORS[sticker.color])):
            cover = np.clip(reach - distance + 0.5, 0, 1)[..., None]
            picture = picture * (1 - cover) + np.array(ink, np.float32) * cover
    return np.asarray(picture + 0.5, np.uint8)


def changed_region(before: Pixels, after: Pixels) -> Region:
    """Return where two pictures differ visibly, closed and widened by a few pixels."""
    differs = np.asarray((cv2.absdiff(before, after) >= _VISIBLE_DIFFERENCE).any(2), np.uint8)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (_KERNEL_SIZE, _KERNEL_SIZE))
    return np.asarray(cv2.dilate(cv2.morphologyEx(differs, cv2.MORPH_CLOSE, kernel), kernel), np.bool_)


def _sticker_edit(kind: str, photo: Photo, instruction: str, stickers: tuple[Sticker, ...]) -> Edit:
    picture = draw_stickers(photo.pixels, stickers)
    region = changed_region(photo.pixels, picture)
    return Edit(kind, instruction, np.where(region[..., None], picture, photo.pixels), region, stickers)


def _sticker_center(photo: Pixels, place: str) -> tuple[float, float]:
    height, width = photo.shape[:2]
    edge = (_RADIUS + _MARGIN) * min(height, width)
    down, right = PLACES[place]
    return edge + down * (height - 1 - 2 * edge), edge + right * (width - 1 - 2 * edge)


def _covered_pixels(photo: Pixels, place: str) -> Pixels:
    """Return the pixels that a sticker would cover."""
    row, column = _sticker_center(photo, place)
    reach = _RADIUS * min(photo.shape[:2])
    return photo[int(row - reach) : int(row + reach) + 1, int(column - reach) : int(column + reach) + 1]


def _busyness(photo: Pixels, place: str) -> float:
    ground = cv2.cvtColor(_covered_pixels(photo, place), cv2.COLOR_RGB2GRAY)
    return round(float(np.abs(cv2.Laplacian(ground, cv2.CV_32F)).mean()), 3)


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

# Damage outside of the edit.
PRESERVATION_SERIES = (
    DamageSeries(PaperPart.DAMAGE, "colour_cast", (REGIONS, CONSISTENCY), {IDENTITY: 3}),
    DamageSeries(PaperPart.DAMAGE, "blur", (REGIONS,), {CONSISTENCY: 3, IDENTITY: 2}),
    DamageSeries(PaperPart.DAMAGE, "noise", (REGIONS,), {CONSISTENCY: 3, IDENTITY: 3}),
    DamageSeries(PaperPart.DAMAGE, "shift", (REGIONS,), {IDENTITY: 5}),
    DamageSeries(PaperPart.DAMAGE, "patch", (REGIONS,), {CONSISTENCY: 2}),
    DamageSeries(PaperPart.DAMAGE, "recompression", (REGIONS,), {CONSISTENCY: 3, IDENTITY: 3}),
)
# Three kinds of damage to the whole picture, three to the edit alone.
QUALITY_SERIES = (
    DamageSeries(PaperPart.DAMAGE, "blur", (TECHNICAL,), {SCALE: 5, SPACE: 5}),
    DamageSeries(PaperPart.DAMAGE, "soft_edit", (TEXTURE,), {SCALE: 5, SPACE: 5, LIGHT: 5}),
    DamageSeries(PaperPart.DAMAGE, "noise", (TECHNICAL,), {SCALE: 5, SPACE: 5}),
    DamageSeries(PaperPart.DAMAGE, "tinted_edit", (LIGHT,), {SCALE: 5, SPACE: 5, TEXTURE: 5}),
    DamageSeries(PaperPart.DAMAGE, "recompression", (TECHNICAL,), {SCALE: 5, SPACE: 5}),
    DamageSeries(PaperPart.DAMAGE, "halo", (SEAMS,), {SCALE: 5, SPACE: 5}),
)
# An instruction with five parts, and damage that has nothing to do with what was asked.
FIDELITY_SERIES = (
    DamageSeries(PaperPart.OMISSION, "left_out", (COMPLETENESS,), {PLAUSIBILITY: 5}),
    DamageSeries(PaperPart.WRONG, "wrong_colour", (ALIGNMENT,), {PLAUSIBILITY: 5}),
    DamageSeries(PaperPart.DAMAGE, "blur", (), {ALIGNMENT: 4, COMPLETENESS: 4}),
    DamageSeries(PaperPart.DAMAGE, "noise", (), {ALIGNMENT: 5, COMPLETENESS: 5}),
    DamageSeries(PaperPart.DAMAGE, "colour_cast", (), {ALIGNMENT: 3, COMPLETENESS: 5}),
    DamageSeries(PaperPart.DAMAGE, "recompression", (), {ALIGNMENT: 4, COMPLETENESS: 4}),
)
SWAPS = (
    DamageSeries(PaperPart.SWAP, "whole", PRESERVATION),
    DamageSeries(PaperPart.SWAP, "middle", (REGIONS, IDENTITY)),
)
EDIT_REGION_DAMAGE = {"soft_edit": "blur", "tinted_edit": "colour_cast"}
MIN_DETAIL_SHARE = 0.5  # of the detail of a picture
NO_EDIT_INSTRUCTION = "Leave the picture as it is."


@dataclass(frozen=True, slots=True)
class EditMaterial:
    """A photograph with its clean edits, and another photograph to take foreign content from."""

    photo: Photo
    other: Photo | None
    sticker: Edit
    retouched: Edit | None
    seed: int

    @property
    def main(self) -> Edit:
        """The retouching, where there is one, else the sticker."""
        return self.retouched or self.sticker

    @property
    def main_with_surroundings(self) -> Edit:
        """The same, or the sticker if the retouching takes most of the detail.

        Then nothing would be left outside that damage could spoil (a flower before a blurred background).
        """
        detail = np.abs(cv2.Laplacian(cv2.cvtColor(self.photo.pixels, cv2.COLOR_RGB2GRAY), cv2.CV_32F))
        left = float(detail[~self.main.region].sum()) / max(float(detail.sum()), 1.0)
        return self.main if left >= MIN_DETAIL_SHARE else self.sticker

    @property
    def edits(self) -> tuple[Edit, ...]:
        return (self.retouched, self.sticker) if self.retouched else (self.sticker,)

    def damage_target(self, edit: Edit) -> DamageTarget:
        foreign = self.other.pixels if self.other else np.ascontiguousarray(self.photo.pixels[::-1, ::-1])
        return DamageTarget(edit.picture, edit.region, foreign, self.seed, self.photo.name)

    def clean(self, edit: Edit, perfect: tuple[str, ...]) -> Paper:
        """Make the paper of the edit as it is. `perfect` are the criteria in which nothing can be wrong with it."""
        fields = {"instruction": edit.instruction}
        return Paper(self.photo.name, PaperPart.CLEAN, edit.kind, 0, edit.picture, fields, spares=perfect)

    def paper(self, series: DamageSeries, strength: int, picture: Pixels | bytes, edit: Edit) -> Paper:
        """Make the paper of the edit with damage of a series."""
        return Paper(
            self.photo.name,
            series.part,
            series.kind,
            strength,
            picture,
            {"instruction": edit.instruction},
            twin=f"{self.photo.name}/{PaperPart.CLEAN}-{edit.kind}",
            aims=series.aims,
            spares=series.spared_at(strength),
        )


def make_materials(photos: Sequence[Photo], seed: int) -> Iterator[EditMaterial]:
    for number, photo in enumerate(photos):
        yield EditMaterial(
            photo, find_most_unlike(photos, number), make_sticker_edit(photo), make_retouched_edit(photo), seed
        )


def preservation_papers(rubric: Rubric, photos: Sequence[Photo], size: ExamSize, seed: int) -> Iterator[Paper]:
    """Yield the papers of `edit-preservation`: damage outside the edit, another picture, no edit at all."""
    bad: list[tuple[Paper, Region]] = []
    for number, material in enumerate(make_materials(photos, seed)):
        yield from (material.clean(edit, PRESERVATION) for edit in material.edits)
        for series in select_series(PRESERVATION_SERIES, size, number, len(photos)):
            is_shift = series.kind == "shift"
            edit = material.sticker if is_shift else material.main_with_surroundings
            make = (
                partial(_shift_under_sticker, material)
                if is_shift
                else partial(damage_outside, material.damage_target(edit), series.kind)
            )
            papers = list(_strength_papers(series, size, material, edit, make))
            yield from papers
        swaps = _swap_papers(material)
        chosen = swaps if size.series_per_photo > len(PRESERVATION_SERIES) else swaps[number % 2 :][:1]
        yield from chosen
        # A swap is bad in most criteria, so that a text has something to raise in each of them.
        bad.append((chosen[0], material.sticker.region) if chosen else (papers[-1], edit.region))
        yield _unedited_paper(material, (), PRESERVATION)
        yield from _identical_papers(material, number, PRESERVATION)
    yield from _injection_papers(bad, rubric, size)


def quality_papers(rubric: Rubric, photos: Sequence[Photo], size: ExamSize, seed: int) -> Iterator[Paper]:
    """Yield the papers of `edit-quality`: a picture that is technically poor, and an edit that does not fit in."""
    bad = []
    for number, material in enumerate(make_materials(photos, seed)):
        yield material.clean(material.main, (SCALE, SPACE, TECHNICAL) if material.retouched else (TECHNICAL,))
        target = material.damage_target(material.main)
        for series in select_series(QUALITY_SERIES, size, number, len(photos)):
            inside = EDIT_REGION_DAMAGE.get(series.kind)
            make = partial(damage_inside, target, inside) if inside else partial(damage_image, target, series.kind)
            papers = list(_strength_papers(series, size, material, material.main, make))
            yield from papers
            if TECHNICAL in series.aims:
                worst = papers[-1]
        bad.append((worst, material.main.region))
        yield _unedited_paper(material, (), (TECHNICAL,))
        yield from _identical_papers(material, number, (TECHNICAL,))
    yield from _injection_papers(bad, rubric, size)


def fidelity_papers(rubric: Rubric, photos: Sequence[Photo], size: ExamSize, seed: int) -> Iterator[Paper]:
    """Yield the papers of `edit-fidelity`: parts of an instruction omitted or done wrongly, and unrelated damage."""
    bad = []
    for number, material in enumerate(make_materials(photos, seed)):
        five, done = make_five_sticker_edit(material.photo), material.main_with_surroundings
        yield from (material.clean(edit, (ALIGNMENT, COMPLETENESS)) for edit in (*material.edits, five))
        for series in select_series(FIDELITY_SERIES, size, number, len(photos)):
            if series.part is PaperPart.DAMAGE:
                yield from _strength_papers(
                    series, size, material, done, partial(damage_outside, material.damage_target(done), series.kind)
                )
            else:
                yield from _strength_papers(
                    series,
                    size,
                    material,
                    five,
                    partial(_draw_incomplete, material, five, series.part is PaperPart.WRONG),
                )
        unedited = _unedited_paper(material, (ALIGNMENT, COMPLETENESS), (PLAUSIBILITY,))
        yield unedited
        bad.append((unedited, material.main.region))
        yield from _identical_papers(material, number, FIDELITY)
    yield from _injection_papers(bad, rubric, size)


def _strength_papers(
    series: DamageSeries, size: ExamSize, material: EditMaterial, edit: Edit, make: Callable[[int], Pixels]
) -> Iterator[Paper]:
    for strength in size.strengths:
        yield material.paper(series, strength, make(strength), edit)


def _swap_papers(material: EditMaterial) -> list[Paper]:
    """Make papers with the right sticker on another photograph, and on one whose middle is another's; none without
    another.
    """
    if material.other is None:
        return []
    edit = material.sticker
    height, width = edit.picture.shape[:2]
    foreign = crop_to_fill(material.other.pixels, height, width)
    middle, radii = (width // 2, height // 2), (round(0.28 * width), round(0.32 * height))
    oval = np.zeros((height, width), np.uint8)
    cv2.ellipse(oval, middle, radii, 0, 0, 360, 255, -1)
    cloned = np.asarray(cv2.seamlessClone(foreign, edit.picture, oval, middle, cv2.NORMAL_CLONE), np.uint8)
    pictures = (draw_stickers(foreign, edit.stickers), cloned)
    return [
        material.paper(series, MAX_STRENGTH, picture, edit) for series, picture in zip(SWAPS, pictures, strict=True)
    ]


def _shift_under_sticker(material: EditMaterial, strength: int) -> Pixels:
    """Shift the photograph under its sticker, which stays in place and leaves no double."""
    target = replace(material.damage_target(material.sticker), picture=material.photo.pixels)
    shifted = damage_image(target, "shift", strength)
    return np.where(material.sticker.region[..., None], material.sticker.picture, shifted)


def _unedited_paper(material: EditMaterial, aims: tuple[str, ...], spares: tuple[str, ...]) -> Paper:
    """Make the paper of the photograph as it was, encoded again. `spares` are perfect."""
    series = DamageSeries(PaperPart.UNEDITED, "reencoded", aims, dict.fromkeys(spares, MAX_STRENGTH))
    return material.paper(series, MAX_STRENGTH, encode_jpeg(material.photo.pixels), material.main)


def _identical_papers(material: EditMaterial, number: int, spares: tuple[str, ...]) -> Iterator[Paper]:
    """Yield, for every other photograph, the same file twice where nothing was asked for."""
    if number % 2 == 0:
        fields = {"instruction": NO_EDIT_INSTRUCTION}
        yield Paper(material.photo.name, PaperPart.IDENTICAL, "same_file", 0, None, fields, spares=spares)


def _draw_incomplete(material: EditMaterial, five: Edit, wrong: bool, strength: int) -> Pixels:
    """Draw the five stickers, as many as the strength omitted, or in a color that was not asked for."""
    order = seeded_random(material.seed, material.photo.name, five.kind).permutation(len(five.stickers))
    spoilt = set(order[:strength].tolist())
    return draw_stickers(
        material.photo.pixels,
        [
            replace(sticker, color=WRONG_COLOR) if position in spoilt else sticker
            for position, sticker in enumerate(five.stickers)
            if wrong or position not in spoilt
        ],
    )


def _injection_papers(bad: Sequence[tuple[Paper, Region]], rubric: Rubric, size: ExamSize) -> Iterator[Paper]:
    regions = {paper.id: region for paper, region in bad}

    def get_picture(paper: Paper) -> tuple[Pixels, Region | None]:
        picture = decode_image(paper.picture) if isinstance(paper.picture, bytes) else paper.picture
        assert picture is not None
        return picture, regions[paper.twin]

    yield from make_injections(
        [paper for paper, _ in bad], rubric, size.injections, "instruction", get_picture, judged=False
    )


ACCURACY, RESTYLE_COMPLETENESS, RELEVANCE, USEFULNESS = "accuracy", "completeness", "relevance", "usefulness"

RESTYLE_SERIES = (
    DamageSeries(PaperPart.PATCHY, "photo_left", (RESTYLE_COMPLETENESS,), {ACCURACY: 5}),
    DamageSeries(PaperPart.DAMAGE, "blur", (USEFULNESS,)),
    DamageSeries(PaperPart.DAMAGE, "noise", (USEFULNESS,), {ACCURACY: 5}),
    DamageSeries(PaperPart.PATCHY, "faint", (RESTYLE_COMPLETENESS, RELEVANCE), {ACCURACY: 5}),
    DamageSeries(PaperPart.DAMAGE, "recompression", (USEFULNESS,)),
    DamageSeries(PaperPart.DAMAGE, "small", (USEFULNESS,)),
)
SWAP = DamageSeries(PaperPart.SWAP, "whole", (ACCURACY,), {RESTYLE_COMPLETENESS: 5})
UNEDITED = DamageSeries(PaperPart.UNEDITED, "reencoded", (RESTYLE_COMPLETENESS, RELEVANCE))

PHOTO_LEFT_SHARES = (10, 20, 35, 50, 75)  # % of the picture that is still the photograph
PHOTO_MIX_SHARES = (15, 30, 50, 65, 80)  # % of the photograph in the mixture
SIDE_SHARES = (87, 62, 44, 28, 15)  # % of the longer side


@dataclass(frozen=True, slots=True)
class PaintedStyle:
    name: str
    description: str
    paint: Callable[[Pixels], Pixels]

    @property
    def kind(self) -> str:
        return self.name.lower().replace(" ", "_")


_POP_ART = "A print in four flat, loud inks with a thick black key plate and regular dots in the half tones."

PAINTED_STYLES = (
    PaintedStyle("Oil Painting", STYLE_DESCRIPTIONS["Oil Painting"], paint_oil),
    PaintedStyle("Watercolour", STYLE_DESCRIPTIONS["Watercolour"], paint_watercolor),
    PaintedStyle("Comic Book", STYLE_DESCRIPTIONS["Comic Book"], draw_comic),
    PaintedStyle("Linocut", STYLE_DESCRIPTIONS["Linocut"], print_linocut),
    PaintedStyle("Pop Art", _POP_ART, partial(print_pop_art, inks=POP_ART_INKS)),
)


def restyle_papers(rubric: Rubric, photos: Sequence[Photo], size: ExamSize, seed: int) -> Iterator[Paper]:
    """Yield the papers on restyles: style that is patchy, faint or absent, another subject, unusable pictures."""
    order = seeded_random(seed, "styles").permutation(len(PAINTED_STYLES))
    bad = []
    for number, photo in enumerate(photos):
        style, second = (PAINTED_STYLES[order[(number + more) % len(PAINTED_STYLES)]] for more in (0, 1))
        clean = style.paint(photo.pixels)
        fields = {"style": style.name, "style_description": style.description}
        yield Paper(photo.name, PaperPart.CLEAN, style.kind, 0, clean, fields)
        more = {"style": second.name, "style_description": second.description}
        yield Paper(photo.name, PaperPart.CLEAN, second.kind, 0, second.paint(photo.pixels), more)
        spoilt = partial(_restyle_paper, photo, fields, f"{photo.name}/{PaperPart.CLEAN}-{style.kind}")
        for series in select_series(RESTYLE_SERIES, size, number, len(photos)):
            for strength in size.strengths:
                yield spoilt(series, strength, _degrade(photo, clean, series.kind, strength, seed))
        if other := find_most_unlike(photos, number):
            yield spoilt(SWAP, MAX_STRENGTH, style.paint(other.pixels))
        bad.append(spoilt(UNEDITED, MAX_STRENGTH, encode_jpeg(photo.pixels)))
        yield bad[-1]
    pixels = {photo.name: photo.pixels for photo in photos}

    def get_picture(paper: Paper) -> tuple[Pixels, Region | None]:
        return pixels[paper.source], None

    yield from make_injections(bad, rubric, size.injections, "style_description", get_picture, judged=False)


def _restyle_paper(
    photo: Photo, fields: Mapping[str, str], twin: str, series: DamageSeries, strength: int, picture: Pixels | bytes
) -> Paper:
    spares = series.spared_at(strength)
    return Paper(photo.name, series.part, series.kind, strength, picture, fields, twin, series.aims, spares)


def _degrade(photo: Photo, clean: Pixels, kind: str, strength: int, seed: int) -> Pixels:
    match kind:
        case "photo_left":
            side = int(seeded_random(seed, photo.name, kind).integers(4))
            return blend_partly(photo.pixels, clean, PHOTO_LEFT_SHARES[strength - 1], side)
        case "faint":
            share = PHOTO_MIX_SHARES[strength - 1] / 100
            return np.asarray(photo.pixels * share + clean * (1 - share) + 0.5, np.uint8)
        case "small":
            height, width = (max(1, round(side * SIDE_SHARES[strength - 1] / 100)) for side in clean.shape[:2])
            return np.asarray(cv2.resize(clean, (width, height), interpolation=cv2.INTER_AREA), np.uint8)
    nowhere = np.zeros(clean.shape[:2], bool)
    return damage_image(DamageTarget(clean, nowhere, photo.pixels, seed, photo.name), kind, strength)


def blend_partly(photo: Pixels, painted: Pixels, percent: int, side: int) -> Pixels:
    """Keep a share of the photograph in a painting, from one side (0 to 3: right, top, left, bottom)."""
    mixed = np.rot90(painted, -side).copy()
    start = round(mixed.shape[1] * (1 - percent / 100))
    mixed[:, start:] = np.rot90(photo, -side)[:, start:]
    return np.ascontiguousarray(np.rot90(mixed, side))
