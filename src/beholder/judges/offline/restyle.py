"""How a restyled picture looks by itself, where a style asks for it: light and dark, colour, flatness, blank paper.

Every look is taken on the picture at no more than 512 px, in CIELAB, and has two limits: from one on what is asked for
is there, from the other on it is not; between them the question is open. The limits were set on photographs and on
posters, halftones, pencil drawings and line art made of them with OpenCV, so that none of these is called what it is
not.

What can be found out about a photo and its restyle: the checks that an assertion may be `measured` by.

`restyle`, and any rubric of two images whose assertions say how they are measured: Yes, No, or left open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import NamedTuple

import cv2
import numpy as np

from beholder.images.image import PreparedImage
from beholder.instruments import quality, restyle
from beholder.instruments.instrument import Bools, Bytes, Floats, Instrument, Measurement, format_percent
from beholder.instruments.pair import ImagePair, SingleImage, shrink_to_side
from beholder.instruments.pixel_metrics import to_lab
from beholder.instruments.regions import add_mostly, name_place
from beholder.judges.offline.judge import AnswerDocument, MeasurementEntry
from beholder.rubrics.brief import Brief
from beholder.rubrics.prompt import NO, YES
from beholder.rubrics.rubric import Assertion, CheckRule, InstrumentCheck
from beholder.verdicts.observe import ABSTAIN

LOOK_SIDE = 512


class StyleReading(NamedTuple):
    """`holds` is None where neither can be said."""

    name: str
    value: float | None
    holds: bool | None
    evidence: str


class StyleAnalyzer:
    """The looks at one picture, RGB uint8."""

    def __init__(self, pixels: Bytes) -> None:
        self._pixels = np.asarray(shrink_to_side(pixels, LOOK_SIDE), np.uint8)

    @cached_property
    def _lab(self) -> Floats:
        return to_lab(self._pixels)

    @cached_property
    def _light(self) -> Floats:
        return np.ascontiguousarray(self._lab[:, :, 0])

    @cached_property
    def _chroma(self) -> Floats:
        return np.asarray(np.hypot(self._lab[:, :, 1], self._lab[:, :, 2]), np.float32)

    def tonal_range(self) -> StyleReading:
        """From the second to the ninety-eighth percentile of L*."""
        dark, light = (float(np.percentile(self._light, at)) for at in (2, 98))
        says = f"tones reach from L* {dark:.0f} to {light:.0f} of 0 to 100"
        return StyleReading("tonal_range", light - dark, _holds_between(light - dark, 50, 70), says)

    def deep_blacks(self) -> StyleReading:
        """The share of pixels with L* below 10."""
        share = float((self._light < 10).mean())
        return StyleReading(
            "deep_blacks", share, _holds_between(share, 0.01, 0.05), f"{share:.1%} of the pixels are black (L* < 10)"
        )

    def open_shadows(self) -> StyleReading:
        """The share of pixels with L* below 3, where print shows nothing any more."""
        share = float((self._light < 3).mean())
        says = f"{share:.1%} of the pixels are so dark (L* < 3) that print closes them"
        return StyleReading("open_shadows", share, _holds_between(-share, -0.15, -0.05), says)

    def colourless(self) -> StyleReading:
        """How far nine in ten colours lie from the middle one in a* and b*: a tint of the paper is no colour."""
        a, b = self._lab[:, :, 1], self._lab[:, :, 2]
        away = float(np.percentile(np.hypot(a - np.median(a), b - np.median(b)), 90))
        says = f"one pixel in ten is coloured, {away:.0f} or more away from the picture's own tint (a*b* of CIELAB)"
        if away < 10:
            says = f"nine in ten pixels have one tint, within {away:.0f} (a*b* of CIELAB)"
        return StyleReading("colourless", away, _holds_between(-away, -10, -5), says)

    def saturated(self) -> StyleReading:
        """The chroma that a quarter of the pixels have."""
        chroma = float(np.percentile(self._chroma, 75))
        says = f"a quarter of the pixels have a chroma of {chroma:.0f} or more"
        return StyleReading("saturated", chroma, _holds_between(chroma, 15, 35), says)

    def few_colours(self) -> StyleReading:
        """How many colours, told apart by 15 in L*, a* and b*, make up nine tenths of the picture."""
        smooth = cv2.medianBlur(self._pixels, 5)
        cells = np.floor(to_lab(np.asarray(smooth, np.uint8)) / 15).astype(np.int32).reshape(-1, 3)
        _, counts = np.unique(cells @ np.array([1, 100, 10_000]), return_counts=True)
        shares = np.cumsum(np.sort(counts)[::-1]) / counts.sum()
        number = int(np.searchsorted(shares, 0.9)) + 1
        says = f"{number} colours (15 apart in L*a*b*) make up nine tenths of it"
        return StyleReading("few_colours", float(number), _holds_between(-number, -25, -12), says)

    def flat_colour(self) -> StyleReading:
        """Of the areas between edges, the share in which L* changes by less than 0.25 a pixel."""
        smooth = cv2.GaussianBlur(self._light, (0, 0), 1.0)
        slope = np.hypot(cv2.Sobel(smooth, cv2.CV_32F, 1, 0) / 8, cv2.Sobel(smooth, cv2.CV_32F, 0, 1) / 8)
        edges = cv2.dilate(np.asarray(slope > 4, np.uint8), np.ones((7, 7), np.uint8)) > 0
        if edges.mean() > 0.9:
            return StyleReading("flat_colour", None, None, "there are edges everywhere, and nothing between them")
        share = float((slope[~edges] < 0.25).mean())
        return StyleReading(
            "flat_colour", share, _holds_between(share, 0.4, 0.8), f"{share:.0%} of the area between edges is flat"
        )

    def white_paper(self) -> StyleReading:
        """The share of pixels that are almost white."""
        share = float(((self._light > 90) & (self._chroma < 12)).mean())
        return StyleReading(
            "white_paper", share, _holds_between(share, 0.10, 0.30), f"{share:.0%} of it is blank white"
        )

    def plain_ground(self) -> StyleReading:
        """The share of a border of 4 % that is within ΔE 8 (CIE 1976) of its most usual colour."""
        ring = self._lab[_border_mask(self._light.shape)]
        share = float((np.linalg.norm(ring - np.median(ring, axis=0), axis=1) < 8).mean())
        return StyleReading(
            "plain_ground", share, _holds_between(share, 0.75, 0.95), f"{share:.0%} of its border is one plain colour"
        )

    def calm_area(self) -> StyleReading:
        """The largest connected part, in blocks of a 24th of the longer side, whose L* deviates by less than 3."""
        height, width = self._light.shape
        scale = min(1.0, 24 / max(height, width))
        grid = max(1, round(width * scale)), max(1, round(height * scale))
        mean, square = (cv2.resize(one, grid, interpolation=cv2.INTER_AREA) for one in (self._light, self._light**2))
        calm = np.asarray(square - mean * mean < 9, np.uint8)
        _, _, stats, _ = cv2.connectedComponentsWithStats(calm, connectivity=4)
        share = float(stats[1:, cv2.CC_STAT_AREA].max(initial=0) / calm.size)
        return StyleReading(
            "calm_area", share, _holds_between(share, 0.03, 0.12), f"the largest calm area is {share:.0%} of it"
        )

    def upright(self, size: tuple[int, int]) -> StyleReading:
        """Height by width of the file."""
        ratio = size[1] / size[0]
        return StyleReading(
            "upright", ratio, _holds_between(ratio, 1.0, 1.2), f"it is {size[0]}×{size[1]}, {ratio:.2f} as high as wide"
        )


def _holds_between(value: float, fails: float, holds: float) -> bool | None:
    """True from `holds` up, False up to `fails`, else None."""
    return True if value >= holds else False if value <= fails else None


def _border_mask(shape: tuple[int, ...]) -> Bools:
    height, width = shape[:2]
    edge = max(1, round(max(height, width) * 0.04))
    ring = np.ones((height, width), np.bool_)
    ring[edge : height - edge, edge : width - edge] = False
    return ring


FULL_SIDE = 2048  # sharpness and coding marks are looked for at full size, up to this
MAX_OVERSHOOT = 2 * quality.HIGH_HALOS  # overshoot beside edges; ink and pencil have some of it by nature
REDRAWN_BELOW, FILTERED_ABOVE = 0.88, 0.95  # SSIM without luminance: posters have less, and colour filters more
UNTOUCHED_DIFFERENCE = 3.5  # ΔE in the median of what was left untouched: recompressed photo has less, flat paint more
TINY_SIDE, SMALL_SIDE = (
    256,
    320,
)  # pixels of the longer side: a quarter of a phone's width, and the least that shows well
MIN_CHECK_SIDE = 64  # pixels of the shorter side, below which there is no picture to speak of
BLANK_BELOW = 2.0  # deviation of L*, under which there is none either
NOISE_BELOW = (
    0.25  # of that deviation, what is left at an eighth of the size: all noise has an eighth, hatching over a half
)
PAGE_LONG_INCHES = 29.7 / 2.54  # inches
FINE_PRINT, COARSE_PRINT = 150, 100  # pixels an inch on such a page that are enough, and that are too few

_COARSE_FACTOR = 8
_NEARLY_ALL = 0.9
_LIGHT_SIDE = 24  # what is left of an image at this size are its light and dark sides


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a check holds, `None` where it cannot be told; `says` is the evidence, with numbers and place."""

    holds: bool | None
    evidence: str


@dataclass
class Findings:
    """Everything found out about one pair, each thing once: `restyled` are the bytes of what became of the photo, and
    `measurements` those that were needed, by name."""

    pair: ImagePair
    restyled: bytes
    measurements: dict[str, MeasurementEntry] = field(default_factory=dict)
    _results: dict[InstrumentCheck, CheckResult] = field(default_factory=dict)
    _analyzer: StyleAnalyzer | None = None
    _picture: SingleImage | None = None

    def check(self, *checks: InstrumentCheck) -> CheckResult:
        """What a check, or several together, come to."""
        for one in checks:
            if one not in self._results:
                self._results[one] = self._confirm(one, CHECKS[one](self))
        found = [self._results[one] for one in checks]
        against = [one for one in found if one.holds is False]
        told = all(one.holds for one in found)
        says = dict.fromkeys(one.evidence for one in against or found)
        return CheckResult(False if against else True if told else None, " ".join(says))

    def _confirm(self, check: InstrumentCheck, found: CheckResult) -> CheckResult:
        """A Yes needs a picture that it could be true of, and often one of this photo: noise is sharp, black is flat,
        and another photo has all of its surface changed. A No stands."""
        if not found.holds or check in _FILE_CHECKS:
            return found
        if why := self.why_empty:
            return CheckResult(None, f"Not measured: {why}.")
        if check in _PHOTO_CHECKS and self.why_unrelated:
            return CheckResult(None, f"Not measured, since it is not this photo any more. {self.why_unrelated}")
        return found

    @cached_property
    def why_empty(self) -> str:
        """Why there is no picture to speak of; empty where there is one."""
        height, width = self.pair.after.shape[:2]
        if min(height, width) < MIN_CHECK_SIDE:
            return f"the picture has only {width}×{height} pixels"
        light = np.ascontiguousarray(to_lab(self.pair.after)[:, :, 0])
        spread = float(light.std())
        if spread < BLANK_BELOW:
            return f"the picture is blank (L* deviates by {spread:.1f})"
        coarse = cv2.resize(light, (width // _COARSE_FACTOR, height // _COARSE_FACTOR), interpolation=cv2.INTER_AREA)
        forms = float(np.std(coarse)) / spread
        return f"the picture is mere noise ({forms:.0%} of its light and dark has form)" if forms < NOISE_BELOW else ""

    @cached_property
    def why_unrelated(self) -> str:
        """Why the picture cannot be taken for one of this photo; empty where it can."""
        if self.pair.incomparable_reason:
            return f"{self.pair.incomparable_reason[0].upper()}{self.pair.incomparable_reason[1:]}."
        kept = self.measure("restyle.structure_kept")
        return kept.sentence if kept.value is None or kept.value < restyle.MAX_COMPOSITION_LOST else ""

    def measure(self, name: str) -> Measurement:
        one = pair_instruments()[name]
        found = one.measure(self.picture if one.kind == "image" else self.pair)
        self.measurements[name] = MeasurementEntry(value=found.value, unit=found.unit, sentence=found.sentence)
        return found

    @property
    def picture(self) -> SingleImage:
        """The restyled picture by itself, larger than it is compared with the photo."""
        if self._picture is None:
            self._picture = SingleImage.load(self.restyled, side=FULL_SIDE)
            self._picture.size = self.pair.sizes[1]
        return self._picture

    def analyze(self, take: Callable[[StyleAnalyzer], StyleReading]) -> CheckResult:
        """A look at the restyled picture by itself."""
        self._analyzer = self._analyzer or StyleAnalyzer(self.pair.after)
        name, value, holds, says = take(self._analyzer)
        return self.record(f"look.{name}", value, holds, f"{says[0].upper()}{says[1:]}.")

    def record(self, name: str, value: float | None, holds: bool | None, says: str) -> CheckResult:
        """What was measured here and is no instrument of its own."""
        self.measurements[name] = MeasurementEntry(value=value, unit="", sentence=says)
        return CheckResult(holds, says)


@cache
def pair_instruments() -> Mapping[str, Instrument]:
    """Those of our own families, whatever plugins bring."""
    return {one.name: one for one in (*restyle.INSTRUMENTS, *quality.INSTRUMENTS)}


def _check_composition_kept(found: Findings) -> CheckResult:
    kept = found.measure("restyle.structure_kept")
    if kept.value is None:
        return CheckResult(None, kept.sentence)
    holds = (
        True
        if kept.value >= restyle.MIN_COMPOSITION_KEPT
        else False
        if kept.value < restyle.MAX_COMPOSITION_LOST
        else None
    )
    return CheckResult(holds, kept.sentence)


def _check_redrawn(found: Findings) -> CheckResult:
    """Whether the photo's own detail is gone: a filter gives it another colour and leaves it where it was."""
    pair = found.pair
    if pair.incomparable_reason:
        return CheckResult(None, f"Not measured: {pair.incomparable_reason}.")
    same = float(np.clip(pair.similarity[1][pair.valid], 0, 1).mean())
    says = f"{same:.0%} of the photo's own detail is still there, whatever its colour."
    holds = True if same < REDRAWN_BELOW else False if same > FILTERED_ABOVE else None
    return found.record("look.photo_detail", same, holds, says)


def _check_style_everywhere(found: Findings) -> CheckResult:
    untouched, even = found.measure("restyle.untouched"), found.measure("restyle.evenness")
    if untouched.value is None or untouched.map is None:
        return CheckResult(None, untouched.sentence)
    redrawn = found.check(InstrumentCheck.REDRAWN)
    if redrawn.holds is False:
        return redrawn
    if untouched.value >= restyle.MIN_UNTOUCHED_SEEN:
        # Flat paint may keep the mean colour and the edges of a block; photo keeps its pixels.
        left = untouched.map > 0.5
        near = float(np.median(found.pair.difference[left])) < UNTOUCHED_DIFFERENCE
        says = f"Still photograph: {format_percent(untouched.value)} of the textured parts, {_describe_side(left)}."
        # Shrinking takes the marks of a style away, so of a small picture it cannot be told.
        return CheckResult(False if near and max(found.pair.sizes[1]) >= SMALL_SIDE else None, says)
    even_enough = even.value is not None and even.value >= restyle.MIN_EVENNESS
    return CheckResult(
        redrawn.holds if even_enough else None, f"{untouched.sentence} {even.sentence} {redrawn.evidence}"
    )


def _describe_side(where: Bools) -> str:
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
    return f"in the {sides[0]} half" if len(sides) == 1 else add_mostly(name_place(where))


def _check_strong(found: Findings) -> CheckResult:
    """From three times on what is too little, and with other detail than the photo's."""
    strength, redrawn = found.measure("restyle.strength"), found.check(InstrumentCheck.REDRAWN)
    if strength.value is None:
        return CheckResult(None, strength.sentence)
    if strength.value < restyle.MIN_STRENGTH:
        return CheckResult(False, strength.sentence)
    if redrawn.holds is False:
        return redrawn
    return CheckResult(redrawn.holds if strength.value >= 3 * restyle.MIN_STRENGTH else None, strength.sentence)


def _check_strength(found: Findings) -> CheckResult:
    strength, redrawn = found.measure("restyle.strength"), found.check(InstrumentCheck.REDRAWN)
    if strength.value is None:
        return CheckResult(None, strength.sentence)
    if not restyle.MIN_STRENGTH <= strength.value <= restyle.MAX_STRENGTH:
        return CheckResult(False, strength.sentence)
    kept = found.check(InstrumentCheck.COMPOSITION_KEPT)
    if kept.holds is False:
        return kept
    if redrawn.holds is not True:
        return redrawn
    return CheckResult(kept.holds, f"{strength.sentence} {kept.evidence}")


def _check_light_kept(found: Findings) -> CheckResult:
    """By the correlation of L* at 24 px: true from 0.6, not from 0.2 down."""
    if found.pair.incomparable_reason:
        return CheckResult(None, f"Not measured: {found.pair.incomparable_reason}.")
    height, width = found.pair.valid.shape
    scale = _LIGHT_SIDE / max(height, width)
    size = max(2, round(width * scale)), max(2, round(height * scale))
    one, other = (np.asarray(cv2.resize(gray, size, interpolation=cv2.INTER_AREA)).ravel() for gray in found.pair.luma)
    if min(float(one.std()), float(other.std())) < 0.01:
        return CheckResult(None, "Not measured: one of the images is equally light everywhere.")
    agree = float(np.corrcoef(one, other)[0, 1])
    holds = True if agree >= 0.6 else False if agree <= 0.2 else None
    says = f"Light and dark lie as in the photo by a correlation of {agree:.2f}."
    return found.record("look.light_kept", agree, holds, says)


def _check_sharp(found: Findings) -> CheckResult:
    sharpness, blocks = found.measure("quality.sharpness"), found.measure("quality.blockiness")
    says = f"{sharpness.sentence} {blocks.sentence}"
    width, height = found.pair.sizes[1]
    small = f"It has only {width}×{height} pixels, too few for detail; {SMALL_SIDE} on the longer side are the least."
    if max(width, height) < TINY_SIDE:
        return CheckResult(False, small)
    if max(width, height) < SMALL_SIDE:
        return CheckResult(None, small)
    if blocks.value is not None and blocks.value > quality.HIGH_BLOCKINESS:
        return CheckResult(False, blocks.sentence)
    if sharpness.value is None:
        return CheckResult(None, says)
    holds = (
        True
        if sharpness.value >= quality.SHARP_SHARPNESS
        else False
        if sharpness.value <= quality.SOFT_SHARPNESS
        else None
    )
    return CheckResult(holds, says)


def _check_clean(found: Findings) -> CheckResult:
    """Blocks and doubled edges only: grain, bands and clipped tones are often a style's own."""
    blocks, halos = found.measure("quality.blockiness"), found.measure("quality.halos")
    flaws = [
        one.sentence
        for one, most in ((blocks, quality.HIGH_BLOCKINESS), (halos, MAX_OVERSHOOT))
        if one.value is not None and one.value > most
    ]
    if flaws:
        return CheckResult(False, " ".join(flaws))
    known = blocks.value is not None
    return CheckResult(True if known else None, f"{blocks.sentence} {halos.sentence}")


def _check_print_size(found: Findings) -> CheckResult:
    said = found.measure("quality.print_size").sentence
    density = max(found.pair.sizes[1]) / PAGE_LONG_INCHES
    holds = True if density >= FINE_PRINT else False if density < COARSE_PRINT else None
    return CheckResult(holds, f"{said} On a page of A4 that is {density:.0f} an inch.")


_FILE_CHECKS = {InstrumentCheck.PRINT_SIZE, InstrumentCheck.UPRIGHT}
_PHOTO_CHECKS = {
    InstrumentCheck.COMPOSITION_KEPT,
    InstrumentCheck.LIGHT_KEPT,
    InstrumentCheck.REDRAWN,
    InstrumentCheck.STYLE_EVERYWHERE,
    InstrumentCheck.STRONG,
    InstrumentCheck.STRENGTH,
    InstrumentCheck.FLAT_COLOUR,
}

CHECKS: Mapping[InstrumentCheck, Callable[[Findings], CheckResult]] = {
    InstrumentCheck.COMPOSITION_KEPT: _check_composition_kept,
    InstrumentCheck.LIGHT_KEPT: _check_light_kept,
    InstrumentCheck.REDRAWN: _check_redrawn,
    InstrumentCheck.STYLE_EVERYWHERE: _check_style_everywhere,
    InstrumentCheck.STRONG: _check_strong,
    InstrumentCheck.STRENGTH: _check_strength,
    InstrumentCheck.SHARP: _check_sharp,
    InstrumentCheck.CLEAN: _check_clean,
    InstrumentCheck.PRINT_SIZE: _check_print_size,
    InstrumentCheck.TONAL_RANGE: lambda found: found.analyze(StyleAnalyzer.tonal_range),
    InstrumentCheck.DEEP_BLACKS: lambda found: found.analyze(StyleAnalyzer.deep_blacks),
    InstrumentCheck.OPEN_SHADOWS: lambda found: found.analyze(StyleAnalyzer.open_shadows),
    InstrumentCheck.COLOURLESS: lambda found: found.analyze(StyleAnalyzer.colourless),
    InstrumentCheck.SATURATED: lambda found: found.analyze(StyleAnalyzer.saturated),
    InstrumentCheck.FEW_COLOURS: lambda found: found.analyze(StyleAnalyzer.few_colours),
    InstrumentCheck.FLAT_COLOUR: lambda found: found.analyze(StyleAnalyzer.flat_colour),
    InstrumentCheck.WHITE_PAPER: lambda found: found.analyze(StyleAnalyzer.white_paper),
    InstrumentCheck.PLAIN_GROUND: lambda found: found.analyze(StyleAnalyzer.plain_ground),
    InstrumentCheck.CALM_AREA: lambda found: found.analyze(StyleAnalyzer.calm_area),
    InstrumentCheck.UPRIGHT: lambda found: found.analyze(lambda looks: looks.upright(found.pair.sizes[1])),
}


_NOT_MEASURED = "Left open: no measurement of the pixels answers this."


def answer_restyle(brief: Brief) -> AnswerDocument:
    """The answers; what a criterion scores is left to them. Raises `ImageError`.

    The first image is taken for the photo, the second for what became of it.
    """
    findings = Findings(load_pair(brief), brief.images[1].image.data)
    counts: Counter[str] = Counter()
    criteria: AnswerDocument = {}
    for criterion in brief.criteria:
        answers = {one.id: _answer_assertion(one, findings) for one in criterion.assertions}
        said = Counter(answer for answer, _ in answers.values())
        counts += said
        criteria[criterion.key] = {
            "assertions": {id_: {"answer": answer, "evidence": why} for id_, (answer, why) in answers.items()},
            "score": ABSTAIN,
            "reason": f"Measured, not seen: {said[YES]} Yes, {said[NO]} No, {said[ABSTAIN]} left open.",
        }
    assessment = f"{counts[YES] + counts[NO]} of {counts.total()} assertions measured, the others left open."
    return {"criteria": criteria, "assessment": assessment, "measurements": findings.measurements}


def load_pair(brief: Brief) -> ImagePair:
    """The two images of a brief. Raises `ImageError` with the role of the one that cannot be read."""
    before, after = brief.images
    pair = ImagePair.load(before.image.data, after.image.data, names=(before.role, after.role, ""))
    pair.sizes = _file_size(before.image), _file_size(after.image)
    return pair


def _file_size(image: PreparedImage) -> tuple[int, int]:
    """Width and height of the file, upright; a judge may have got a smaller picture."""
    width, height = image.source_width, image.source_height
    turned = (width > height) != (image.width > image.height) and width != height
    return (height, width) if turned else (width, height)


def _answer_assertion(assertion: Assertion, findings: Findings) -> tuple[str, str]:
    """Yes, No or abstain, and the evidence."""
    how = CheckRule.parse(assertion.measured)
    if how is None:
        return ABSTAIN, _NOT_MEASURED
    if assertion.applies:
        return ABSTAIN, f"Left open: whether there is something to ask about ({assertion.applies}) cannot be measured."
    found = findings.check(*how.checks)
    if found.holds and how.yes:
        return YES, found.evidence
    if found.holds is False and how.no:
        return NO, found.evidence
    if found.holds:
        return ABSTAIN, f"Left open: nothing measured speaks against it. {found.evidence}"
    if found.holds is False:
        return ABSTAIN, f"Left open: nothing measured speaks for it. {found.evidence}"
    return ABSTAIN, f"Left open. {found.evidence}"
