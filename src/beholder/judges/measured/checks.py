"""What can be found out about a photo and its restyle: the checks that an assertion may be `measured` by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

import cv2
import numpy as np

from beholder.instruments import quality, restyle
from beholder.instruments.ciede import lab
from beholder.instruments.model import Bools, Instrument, Measurement
from beholder.instruments.pair import Pair, Picture
from beholder.instruments.places import mostly, place
from beholder.instruments.wording import percent
from beholder.judges.measured.answering import Told
from beholder.judges.measured.looks import Look, Looks
from beholder.rubrics.model import Check

FULL_SIDE = 2048  # sharpness and coding marks are looked for at full size, up to this
DOUBLED = 2 * quality.FRINGED  # overshoot beside edges; ink and pencil have some of it by nature
REDRAWN, FILTERED = 0.88, 0.95  # SSIM without luminance: posters have less, and colour filters more
SAME_PIXELS = 3.5  # ΔE in the median of what was left untouched: recompressed photo has less, flat paint more
TINY, SMALL = 256, 320  # pixels of the longer side: a quarter of a phone's width, and the least that shows well
LEAST_SIDE = 64  # pixels of the shorter side, below which there is no picture to speak of
BLANK = 2.0  # deviation of L*, under which there is none either
NOISE = 0.25  # of that deviation, what is left at an eighth of the size: all noise has an eighth, hatching over a half
PAGE_LONG = 29.7 / 2.54  # inches
FINE_PRINT, COARSE_PRINT = 150, 100  # pixels an inch on such a page that are enough, and that are too few

_FORMS = 8
_NEARLY_ALL = 0.9
_LIGHT_SIDE = 24  # what is left of an image at this size are its light and dark sides


@dataclass(frozen=True, slots=True)
class Found:
    """Whether a check holds, `None` where it cannot be told; `says` is the evidence, with numbers and place."""

    holds: bool | None
    says: str


@dataclass
class Findings:
    """Everything found out about one pair, each thing once: `restyled` are the bytes of what became of the photo, and
    `measurements` those that were needed, by name."""

    pair: Pair
    restyled: bytes
    measurements: dict[str, Told] = field(default_factory=dict)
    _found: dict[Check, Found] = field(default_factory=dict)
    _looks: Looks | None = None
    _picture: Picture | None = None

    def check(self, *checks: Check) -> Found:
        """What a check, or several together, come to."""
        for one in checks:
            if one not in self._found:
                self._found[one] = self._doubted(one, CHECKS[one](self))
        found = [self._found[one] for one in checks]
        against = [one for one in found if one.holds is False]
        told = all(one.holds for one in found)
        says = dict.fromkeys(one.says for one in against or found)
        return Found(False if against else True if told else None, " ".join(says))

    def _doubted(self, check: Check, found: Found) -> Found:
        """A Yes needs a picture that it could be true of, and often one of this photo: noise is sharp, black is flat,
        and another photo has all of its surface changed. A No stands."""
        if not found.holds or check in _OF_THE_FILE:
            return found
        if why := self.emptiness:
            return Found(None, f"Not measured: {why}.")
        if check in _OF_THE_PHOTO and self.strayed:
            return Found(None, f"Not measured, since it is not this photo any more. {self.strayed}")
        return found

    @cached_property
    def emptiness(self) -> str:
        """Why there is no picture to speak of; empty where there is one."""
        height, width = self.pair.after.shape[:2]
        if min(height, width) < LEAST_SIDE:
            return f"the picture has only {width}×{height} pixels"
        light = np.ascontiguousarray(lab(self.pair.after)[:, :, 0])
        spread = float(light.std())
        if spread < BLANK:
            return f"the picture is blank (L* deviates by {spread:.1f})"
        coarse = cv2.resize(light, (width // _FORMS, height // _FORMS), interpolation=cv2.INTER_AREA)
        forms = float(np.std(coarse)) / spread
        return f"the picture is mere noise ({forms:.0%} of its light and dark has form)" if forms < NOISE else ""

    @cached_property
    def strayed(self) -> str:
        """Why the picture cannot be taken for one of this photo; empty where it can."""
        if self.pair.obstacle:
            return f"{self.pair.obstacle[0].upper()}{self.pair.obstacle[1:]}."
        kept = self.measure("restyle.structure_kept")
        return kept.sentence if kept.value is None or kept.value < restyle.COMPOSITION_LOST else ""

    def measure(self, name: str) -> Measurement:
        one = instruments()[name]
        found = one.measure(self.picture if one.kind == "image" else self.pair)
        self.measurements[name] = Told(value=found.value, unit=found.unit, sentence=found.sentence)
        return found

    @property
    def picture(self) -> Picture:
        """The restyled picture by itself, larger than it is compared with the photo."""
        if self._picture is None:
            self._picture = Picture.load(self.restyled, side=FULL_SIDE)
            self._picture.size = self.pair.sizes[1]
        return self._picture

    def look(self, take: Callable[[Looks], Look]) -> Found:
        """A look at the restyled picture by itself."""
        self._looks = self._looks or Looks(self.pair.after)
        name, value, holds, says = take(self._looks)
        return self.found(f"look.{name}", value, holds, f"{says[0].upper()}{says[1:]}.")

    def found(self, name: str, value: float | None, holds: bool | None, says: str) -> Found:
        """What was measured here and is no instrument of its own."""
        self.measurements[name] = Told(value=value, unit="", sentence=says)
        return Found(holds, says)


@cache
def instruments() -> Mapping[str, Instrument]:
    """Those of our own families, whatever plugins bring."""
    return {one.name: one for one in (*restyle.INSTRUMENTS, *quality.INSTRUMENTS)}


def _composition_kept(found: Findings) -> Found:
    kept = found.measure("restyle.structure_kept")
    if kept.value is None:
        return Found(None, kept.sentence)
    holds = True if kept.value >= restyle.COMPOSITION_KEPT else False if kept.value < restyle.COMPOSITION_LOST else None
    return Found(holds, kept.sentence)


def _redrawn(found: Findings) -> Found:
    """Whether the photo's own detail is gone: a filter gives it another colour and leaves it where it was."""
    pair = found.pair
    if pair.obstacle:
        return Found(None, f"Not measured: {pair.obstacle}.")
    same = float(np.clip(pair.similarity[1][pair.valid], 0, 1).mean())
    says = f"{same:.0%} of the photo's own detail is still there, whatever its colour."
    holds = True if same < REDRAWN else False if same > FILTERED else None
    return found.found("look.photo_detail", same, holds, says)


def _style_everywhere(found: Findings) -> Found:
    untouched, even = found.measure("restyle.untouched"), found.measure("restyle.evenness")
    if untouched.value is None or untouched.map is None:
        return Found(None, untouched.sentence)
    redrawn = found.check(Check.REDRAWN)
    if redrawn.holds is False:
        return redrawn
    if untouched.value >= restyle.SPOTTED:
        # Flat paint may keep the mean colour and the edges of a block; photo keeps its pixels.
        left = untouched.map > 0.5
        near = float(np.median(found.pair.difference[left])) < SAME_PIXELS
        says = f"Still photograph: {percent(untouched.value)} of the textured parts, {_side(left)}."
        # Shrinking takes the marks of a style away, so of a small picture it cannot be told.
        return Found(False if near and max(found.pair.sizes[1]) >= SMALL else None, says)
    even_enough = even.value is not None and even.value >= restyle.EVEN
    return Found(redrawn.holds if even_enough else None, f"{untouched.sentence} {even.sentence} {redrawn.says}")


def _side(where: Bools) -> str:
    """The half of the image in which nearly all of something lies, or else its place."""
    height, width = where.shape
    halves = {
        "left": where[:, : width // 2],
        "right": where[:, width // 2 :],
        "upper": where[: height // 2],
        "lower": where[height // 2 :],
    }
    total = np.count_nonzero(where)
    sides = [name for name, half in halves.items() if np.count_nonzero(half) >= _NEARLY_ALL * total]
    return f"in the {sides[0]} half" if len(sides) == 1 else mostly(place(where))


def _strong(found: Findings) -> Found:
    """From three times on what is too little, and with other detail than the photo's."""
    strength, redrawn = found.measure("restyle.strength"), found.check(Check.REDRAWN)
    if strength.value is None:
        return Found(None, strength.sentence)
    if strength.value < restyle.TOO_LITTLE:
        return Found(False, strength.sentence)
    if redrawn.holds is False:
        return redrawn
    return Found(redrawn.holds if strength.value >= 3 * restyle.TOO_LITTLE else None, strength.sentence)


def _strength(found: Findings) -> Found:
    strength, redrawn = found.measure("restyle.strength"), found.check(Check.REDRAWN)
    if strength.value is None:
        return Found(None, strength.sentence)
    if not restyle.TOO_LITTLE <= strength.value <= restyle.TOO_MUCH:
        return Found(False, strength.sentence)
    kept = found.check(Check.COMPOSITION_KEPT)
    if kept.holds is False:
        return kept
    if redrawn.holds is not True:
        return redrawn
    return Found(kept.holds, f"{strength.sentence} {kept.says}")


def _light_kept(found: Findings) -> Found:
    """By the correlation of L* at 24 px: true from 0.6, not from 0.2 down."""
    if found.pair.obstacle:
        return Found(None, f"Not measured: {found.pair.obstacle}.")
    height, width = found.pair.valid.shape
    scale = _LIGHT_SIDE / max(height, width)
    size = max(2, round(width * scale)), max(2, round(height * scale))
    one, other = (np.asarray(cv2.resize(grey, size, interpolation=cv2.INTER_AREA)).ravel() for grey in found.pair.grey)
    if min(float(one.std()), float(other.std())) < 0.01:
        return Found(None, "Not measured: one of the images is equally light everywhere.")
    agree = float(np.corrcoef(one, other)[0, 1])
    holds = True if agree >= 0.6 else False if agree <= 0.2 else None
    says = f"Light and dark lie as in the photo by a correlation of {agree:.2f}."
    return found.found("look.light_kept", agree, holds, says)


def _sharp(found: Findings) -> Found:
    sharpness, blocks = found.measure("quality.sharpness"), found.measure("quality.blockiness")
    says = f"{sharpness.sentence} {blocks.sentence}"
    width, height = found.pair.sizes[1]
    small = f"It has only {width}×{height} pixels, too few for detail; {SMALL} on the longer side are the least."
    if max(width, height) < TINY:
        return Found(False, small)
    if max(width, height) < SMALL:
        return Found(None, small)
    if blocks.value is not None and blocks.value > quality.BLOCKY:
        return Found(False, blocks.sentence)
    if sharpness.value is None:
        return Found(None, says)
    holds = True if sharpness.value >= quality.SHARP else False if sharpness.value <= quality.SOFT else None
    return Found(holds, says)


def _clean(found: Findings) -> Found:
    """Blocks and doubled edges only: grain, bands and clipped tones are often a style's own."""
    blocks, halos = found.measure("quality.blockiness"), found.measure("quality.halos")
    flaws = [
        one.sentence
        for one, most in ((blocks, quality.BLOCKY), (halos, DOUBLED))
        if one.value is not None and one.value > most
    ]
    if flaws:
        return Found(False, " ".join(flaws))
    known = blocks.value is not None
    return Found(True if known else None, f"{blocks.sentence} {halos.sentence}")


def _print_size(found: Findings) -> Found:
    said = found.measure("quality.print_size").sentence
    density = max(found.pair.sizes[1]) / PAGE_LONG
    holds = True if density >= FINE_PRINT else False if density < COARSE_PRINT else None
    return Found(holds, f"{said} On a page of A4 that is {density:.0f} an inch.")


_OF_THE_FILE = {Check.PRINT_SIZE, Check.UPRIGHT}
_OF_THE_PHOTO = {
    Check.COMPOSITION_KEPT,
    Check.LIGHT_KEPT,
    Check.REDRAWN,
    Check.STYLE_EVERYWHERE,
    Check.STRONG,
    Check.STRENGTH,
    Check.FLAT_COLOUR,
}

CHECKS: Mapping[Check, Callable[[Findings], Found]] = {
    Check.COMPOSITION_KEPT: _composition_kept,
    Check.LIGHT_KEPT: _light_kept,
    Check.REDRAWN: _redrawn,
    Check.STYLE_EVERYWHERE: _style_everywhere,
    Check.STRONG: _strong,
    Check.STRENGTH: _strength,
    Check.SHARP: _sharp,
    Check.CLEAN: _clean,
    Check.PRINT_SIZE: _print_size,
    Check.TONAL_RANGE: lambda found: found.look(Looks.tonal_range),
    Check.DEEP_BLACKS: lambda found: found.look(Looks.deep_blacks),
    Check.OPEN_SHADOWS: lambda found: found.look(Looks.open_shadows),
    Check.COLOURLESS: lambda found: found.look(Looks.colourless),
    Check.SATURATED: lambda found: found.look(Looks.saturated),
    Check.FEW_COLOURS: lambda found: found.look(Looks.few_colours),
    Check.FLAT_COLOUR: lambda found: found.look(Looks.flat_colour),
    Check.WHITE_PAPER: lambda found: found.look(Looks.white_paper),
    Check.PLAIN_GROUND: lambda found: found.look(Looks.plain_ground),
    Check.CALM_AREA: lambda found: found.look(Looks.calm_area),
    Check.UPRIGHT: lambda found: found.look(lambda looks: looks.upright(found.pair.sizes[1])),
}
