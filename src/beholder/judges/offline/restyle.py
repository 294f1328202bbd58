"""`restyle` from measurements, and any rubric of two images whose assertions say how they are `measured`.

`StyleAnalyzer` measures how a restyled image looks by itself, `Findings` runs the checks on a photo and its restyle,
and `answer_restyle` turns them into Yes, No or an abstention.

Every analysis of the style is made at no more than 512 px, in CIELAB, and has two limits: from one on it holds, up to
the other it does not; between them it is undecided. The limits were set on photographs and on posters, halftones,
pencil drawings and line art made of them with OpenCV, so that none of these gets a wrong answer.
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
from beholder.instruments.pair import DEFAULT_SIDE, ImagePair, SingleImage, shrink_to_side
from beholder.instruments.pixel_metrics import to_lab
from beholder.instruments.regions import Box, add_mostly, name_place
from beholder.judges.offline.judge import AnswerDocument, MeasurementEntry, list_places, to_entry
from beholder.rubrics.brief import Brief
from beholder.rubrics.prompt import NO, YES
from beholder.rubrics.rubric import Assertion, CheckRule, InstrumentCheck
from beholder.verdicts.observe import ABSTAIN

ANALYSIS_SIDE = 512


class StyleReading(NamedTuple):
    """Result of one analysis; `holds` is `None` where undecided, `evidence` a sentence without a capital letter."""

    value: float | None
    holds: bool | None
    evidence: str


class StyleAnalyzer:
    """Analyses of the style of one image, RGB uint8."""

    def __init__(self, pixels: Bytes) -> None:
        self._pixels = np.asarray(shrink_to_side(pixels, ANALYSIS_SIDE), np.uint8)

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
        """Distance of the second and the ninety-eighth percentile of L*."""
        dark, light = (float(np.percentile(self._light, at)) for at in (2, 98))
        evidence = f"tones reach from L* {dark:.0f} to {light:.0f} of 0 to 100"
        return StyleReading(light - dark, _holds_between(light - dark, 50, 70), evidence)

    def deep_blacks(self) -> StyleReading:
        """Share of pixels with L* below 10."""
        share = float((self._light < 10).mean())
        return StyleReading(share, _holds_between(share, 0.01, 0.05), f"{share:.1%} of the pixels are black (L* < 10)")

    def open_shadows(self) -> StyleReading:
        """Share of pixels with L* below 3, where print shows no difference any more."""
        share = float((self._light < 3).mean())
        evidence = f"{share:.1%} of the pixels are so dark (L* < 3) that print closes them"
        return StyleReading(share, _holds_between(-share, -0.15, -0.05), evidence)

    def colourless(self) -> StyleReading:
        """Distance in a* and b* from the median color that nine in ten pixels keep: a tint of the paper is no color."""
        a, b = self._lab[:, :, 1], self._lab[:, :, 2]
        away = float(np.percentile(np.hypot(a - np.median(a), b - np.median(b)), 90))
        evidence = f"one pixel in ten is coloured, {away:.0f} or more away from the picture's own tint (a*b* of CIELAB)"
        if away < 10:
            evidence = f"nine in ten pixels have one tint, within {away:.0f} (a*b* of CIELAB)"
        return StyleReading(away, _holds_between(-away, -10, -5), evidence)

    def saturated(self) -> StyleReading:
        """Chroma that a quarter of the pixels exceed."""
        chroma = float(np.percentile(self._chroma, 75))
        evidence = f"a quarter of the pixels have a chroma of {chroma:.0f} or more"
        return StyleReading(chroma, _holds_between(chroma, 15, 35), evidence)

    def few_colours(self) -> StyleReading:
        """Number of colors, 15 apart in L*, a* and b*, that make up nine tenths of the image."""
        smooth = cv2.medianBlur(self._pixels, 5)
        cells = np.floor(to_lab(np.asarray(smooth, np.uint8)) / 15).astype(np.int32).reshape(-1, 3)
        _, counts = np.unique(cells @ np.array([1, 100, 10_000]), return_counts=True)
        shares = np.cumsum(np.sort(counts)[::-1]) / counts.sum()
        number = int(np.searchsorted(shares, 0.9)) + 1
        evidence = f"{number} colours (15 apart in L*a*b*) make up nine tenths of it"
        return StyleReading(float(number), _holds_between(-number, -25, -12), evidence)

    def flat_colour(self) -> StyleReading:
        """Share of the areas between edges in which L* changes by less than 0.25 a pixel."""
        smooth = cv2.GaussianBlur(self._light, (0, 0), 1.0)
        slope = np.hypot(cv2.Sobel(smooth, cv2.CV_32F, 1, 0) / 8, cv2.Sobel(smooth, cv2.CV_32F, 0, 1) / 8)
        edges = cv2.dilate(np.asarray(slope > 4, np.uint8), np.ones((7, 7), np.uint8)) > 0
        if edges.mean() > 0.9:
            return StyleReading(None, None, "there are edges everywhere, and nothing between them")
        share = float((slope[~edges] < 0.25).mean())
        return StyleReading(share, _holds_between(share, 0.4, 0.8), f"{share:.0%} of the area between edges is flat")

    def white_paper(self) -> StyleReading:
        """Share of pixels that are almost white."""
        share = float(((self._light > 90) & (self._chroma < 12)).mean())
        return StyleReading(share, _holds_between(share, 0.10, 0.30), f"{share:.0%} of it is blank white")

    def plain_ground(self) -> StyleReading:
        """Share of a border of 4 % that is within ΔE 8 (CIE 1976) of its median color."""
        ring = self._lab[_border_mask(self._light.shape)]
        share = float((np.linalg.norm(ring - np.median(ring, axis=0), axis=1) < 8).mean())
        return StyleReading(share, _holds_between(share, 0.75, 0.95), f"{share:.0%} of its border is one plain colour")

    def calm_area(self) -> StyleReading:
        """Share of the largest connected area of blocks (a 24th of the longer side) with a deviation of L* below 3."""
        height, width = self._light.shape
        scale = min(1.0, 24 / max(height, width))
        grid = max(1, round(width * scale)), max(1, round(height * scale))
        mean, square = (
            cv2.resize(values, grid, interpolation=cv2.INTER_AREA) for values in (self._light, self._light**2)
        )
        calm = np.asarray(square - mean * mean < 9, np.uint8)
        _, _, stats, _ = cv2.connectedComponentsWithStats(calm, connectivity=4)
        share = float(stats[1:, cv2.CC_STAT_AREA].max(initial=0) / calm.size)
        return StyleReading(share, _holds_between(share, 0.03, 0.12), f"the largest calm area is {share:.0%} of it")

    def upright(self, size: tuple[int, int]) -> StyleReading:
        """Height divided by width of the file, of which `size` is width and height."""
        ratio = size[1] / size[0]
        return StyleReading(
            ratio, _holds_between(ratio, 1.0, 1.2), f"it is {size[0]}×{size[1]}, {ratio:.2f} as high as wide"
        )


def _holds_between(value: float, fails: float, holds: float) -> bool | None:
    """Return `True` from `holds` up, `False` up to `fails`, else `None`."""
    return True if value >= holds else False if value <= fails else None


def _border_mask(shape: tuple[int, ...]) -> Bools:
    height, width = shape[:2]
    edge = max(1, round(max(height, width) * 0.04))
    ring = np.ones((height, width), np.bool_)
    ring[edge : height - edge, edge : width - edge] = False
    return ring


FULL_SIDE = 2048  # sharpness and coding artifacts are measured at full size, up to this
MAX_OVERSHOOT = 2 * quality.HIGH_HALOS  # beside edges; ink and pencil have some of it by nature
REDRAWN_BELOW, FILTERED_ABOVE = 0.88, 0.95  # SSIM without luminance: posters have less, color filters more
UNTOUCHED_DIFFERENCE = 3.5  # median ΔE of untouched parts: a recompressed photo has less, flat paint more
# Pixels of the longer side: a quarter of a phone's width, and the least that shows well.
TINY_SIDE, SMALL_SIDE = 256, 320
MIN_CHECK_SIDE = 64  # pixels of the shorter side, below which nothing can be recognized
BLANK_BELOW = 2.0  # standard deviation of L* below which an image is blank
# Share of that deviation that is left at an eighth of the size: noise has an eighth, hatching over a half.
NOISE_BELOW = 0.25
PAGE_LONG_INCHES = 29.7 / 2.54  # longer side of A4
FINE_PRINT, COARSE_PRINT = 150, 100  # pixels per inch on such a page that are enough, and that are too few

_COARSE_FACTOR = 8
_NEARLY_ALL = 0.9
_LIGHT_SIDE = 24  # pixels; at this size only the light and dark sides of an image are left


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Whether a check holds, `None` where it is undecided, and the evidence, with numbers and places."""

    holds: bool | None
    evidence: str


@dataclass
class Findings:
    """Checks of a photo and its restyle, or of one image by itself; each is done once.

    Attributes:
        pair: both images; the one image twice where there is one.
        restyled: the encoded restyle.
        is_single: whether there is only one image.
        measurements: what was measured for the checks so far, by name.
        boxes: where that lies, as far as it is known.
    """

    pair: ImagePair
    restyled: bytes
    is_single: bool = False
    measurements: dict[str, MeasurementEntry] = field(default_factory=dict)
    boxes: dict[str, tuple[Box, ...]] = field(default_factory=dict)
    _results: dict[InstrumentCheck, CheckResult] = field(default_factory=dict)

    def check(self, *checks: InstrumentCheck) -> CheckResult:
        """Return the result of a check, or of several together: all must hold, and one that fails decides."""
        for check in checks:
            if check not in self._results:
                self._results[check] = self._decide(check)
        results = [self._results[check] for check in checks]
        failed = [result for result in results if result.holds is False]
        all_hold = all(result.holds for result in results)
        evidence = dict.fromkeys(result.evidence for result in failed or results)
        return CheckResult(False if failed else True if all_hold else None, " ".join(evidence))

    def _decide(self, check: InstrumentCheck) -> CheckResult:
        if self.is_single and check in _COMPARING_CHECKS:
            return CheckResult(None, "Not measured: it compares two images, and there is one.")
        return self._confirm(check, CHECKS[check](self))

    def _confirm(self, check: InstrumentCheck, result: CheckResult) -> CheckResult:
        """Return the result; a Yes only for an image, and often a restyle of this photo, of which it can be true.

        Noise is sharp, black is flat, and in another photo every surface has changed. A No stands.
        """
        if not result.holds or check in _FILE_CHECKS:
            return result
        if self.why_empty:
            return CheckResult(None, f"Not measured: {self.why_empty}.")
        if check in _PHOTO_CHECKS and self.why_unrelated:
            return CheckResult(None, f"Not measured, since it is not this photo any more. {self.why_unrelated}")
        return result

    @cached_property
    def why_empty(self) -> str:
        """Why nothing can be recognized in the restyle; empty where it can."""
        height, width = self.pair.after.shape[:2]
        if min(height, width) < MIN_CHECK_SIDE:
            return f"the picture has only {width}×{height} pixels"
        light = np.ascontiguousarray(to_lab(self.pair.after)[:, :, 0])
        deviation = float(light.std())
        if deviation < BLANK_BELOW:
            return f"the picture is blank (L* deviates by {deviation:.1f})"
        coarse = cv2.resize(light, (width // _COARSE_FACTOR, height // _COARSE_FACTOR), interpolation=cv2.INTER_AREA)
        forms = float(np.std(coarse)) / deviation
        return f"the picture is mere noise ({forms:.0%} of its light and dark has form)" if forms < NOISE_BELOW else ""

    @cached_property
    def why_unrelated(self) -> str:
        """Why the restyle cannot be one of this photo; empty where it can."""
        if self.pair.incomparable_reason:
            return f"{self.pair.incomparable_reason[0].upper()}{self.pair.incomparable_reason[1:]}."
        kept = self.measure("restyle.structure_kept")
        return kept.sentence if kept.value is None or kept.value < restyle.MAX_COMPOSITION_LOST else ""

    def measure(self, name: str) -> Measurement:
        """Return what an instrument measures, and keep it."""
        instrument = pair_instruments()[name]
        measured = instrument.measure(self._image if instrument.kind == "image" else self.pair)
        self.measurements[name] = to_entry(measured)
        if measured.boxes:
            self.boxes[name] = measured.boxes
        return measured

    def analyze(self, analysis: Callable[..., StyleReading], *args: object) -> CheckResult:
        """Return the result of an analysis of the restyle by itself, and keep it."""
        value, holds, evidence = analysis(self._analyzer, *args)
        return self.record(f"look.{analysis.__name__}", value, holds, f"{evidence[0].upper()}{evidence[1:]}.")

    def record(self, name: str, value: float | None, holds: bool | None, evidence: str) -> CheckResult:
        """Keep a measurement that belongs to no instrument, and return the result of its check."""
        self.measurements[name] = MeasurementEntry(value=value, unit="", sentence=evidence)
        return CheckResult(holds, evidence)

    @cached_property
    def _image(self) -> SingleImage:
        """The restyle by itself, larger than it is compared with the photo."""
        if max(self.pair.after.shape) < DEFAULT_SIDE:  # the pair has all of its pixels
            return self.pair.images()[1]
        image = SingleImage.load(self.restyled, side=FULL_SIDE)
        image.size = self.pair.sizes[1]
        return image

    @cached_property
    def _analyzer(self) -> StyleAnalyzer:
        return StyleAnalyzer(self.pair.after)


@cache
def pair_instruments() -> Mapping[str, Instrument]:
    """Return our own instruments for restyles by name; those of plug-ins are not used."""
    return {instrument.name: instrument for instrument in (*restyle.INSTRUMENTS, *quality.INSTRUMENTS)}


def _check_composition_kept(findings: Findings) -> CheckResult:
    kept = findings.measure("restyle.structure_kept")
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


def _check_redrawn(findings: Findings) -> CheckResult:
    """Check that the photo's own detail is gone: a filter gives it another color and leaves it where it was."""
    pair = findings.pair
    if pair.incomparable_reason:
        return CheckResult(None, f"Not measured: {pair.incomparable_reason}.")
    same = float(np.clip(pair.similarity[1][pair.valid], 0, 1).mean())
    evidence = f"{same:.0%} of the photo's own detail is still there, whatever its colour."
    holds = True if same < REDRAWN_BELOW else False if same > FILTERED_ABOVE else None
    return findings.record("look.photo_detail", same, holds, evidence)


def _check_style_everywhere(findings: Findings) -> CheckResult:
    untouched, even = findings.measure("restyle.untouched"), findings.measure("restyle.evenness")
    if untouched.value is None or untouched.map is None:
        return CheckResult(None, untouched.sentence)
    redrawn = findings.check(InstrumentCheck.REDRAWN)
    if redrawn.holds is False:
        return redrawn
    if untouched.value >= restyle.MIN_UNTOUCHED_SEEN:
        # Flat paint may keep the mean color and the edges of a block; a photo keeps its pixels.
        left = untouched.map > 0.5
        near = float(np.median(findings.pair.difference[left])) < UNTOUCHED_DIFFERENCE
        evidence = f"Still photograph: {format_percent(untouched.value)} of the textured parts, {_describe_side(left)}."
        # Shrinking removes the marks of a style, so that a small image is undecided.
        return CheckResult(False if near and max(findings.pair.sizes[1]) >= SMALL_SIDE else None, evidence)
    even_enough = even.value is not None and even.value >= restyle.MIN_EVENNESS
    return CheckResult(
        redrawn.holds if even_enough else None, f"{untouched.sentence} {even.sentence} {redrawn.evidence}"
    )


def _describe_side(where: Bools) -> str:
    """Name the half of the image in which nearly all of something is, or else its place."""
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


def _check_strong(findings: Findings) -> CheckResult:
    """Check for three times the least strength, and for other detail than the photo's."""
    strength, redrawn = findings.measure("restyle.strength"), findings.check(InstrumentCheck.REDRAWN)
    if strength.value is None:
        return CheckResult(None, strength.sentence)
    if strength.value < restyle.MIN_STRENGTH:
        return CheckResult(False, strength.sentence)
    if redrawn.holds is False:
        return redrawn
    return CheckResult(redrawn.holds if strength.value >= 3 * restyle.MIN_STRENGTH else None, strength.sentence)


def _check_strength(findings: Findings) -> CheckResult:
    strength, redrawn = findings.measure("restyle.strength"), findings.check(InstrumentCheck.REDRAWN)
    if strength.value is None:
        return CheckResult(None, strength.sentence)
    if not restyle.MIN_STRENGTH <= strength.value <= restyle.MAX_STRENGTH:
        return CheckResult(False, strength.sentence)
    kept = findings.check(InstrumentCheck.COMPOSITION_KEPT)
    if kept.holds is False:
        return kept
    if redrawn.holds is not True:
        return redrawn
    return CheckResult(kept.holds, f"{strength.sentence} {kept.evidence}")


def _check_light_kept(findings: Findings) -> CheckResult:
    """Check the correlation of L* at 24 px: it holds from 0.6, and not up to 0.2."""
    if findings.pair.incomparable_reason:
        return CheckResult(None, f"Not measured: {findings.pair.incomparable_reason}.")
    height, width = findings.pair.valid.shape
    scale = _LIGHT_SIDE / max(height, width)
    size = max(2, round(width * scale)), max(2, round(height * scale))
    before, after = (
        np.asarray(cv2.resize(gray, size, interpolation=cv2.INTER_AREA)).ravel() for gray in findings.pair.luma
    )
    if min(float(before.std()), float(after.std())) < 0.01:
        return CheckResult(None, "Not measured: one of the images is equally light everywhere.")
    agree = float(np.corrcoef(before, after)[0, 1])
    evidence = f"Light and dark lie as in the photo by a correlation of {agree:.2f}."
    return findings.record("look.light_kept", agree, _holds_between(agree, 0.2, 0.6), evidence)


def _check_sharp(findings: Findings) -> CheckResult:
    sharpness, blocks = findings.measure("quality.sharpness"), findings.measure("quality.blockiness")
    evidence = f"{sharpness.sentence} {blocks.sentence}"
    width, height = findings.pair.sizes[1]
    small = f"It has only {width}×{height} pixels, too few for detail; {SMALL_SIDE} on the longer side are the least."
    if max(width, height) < TINY_SIDE:
        return CheckResult(False, small)
    if max(width, height) < SMALL_SIDE:
        return CheckResult(None, small)
    if blocks.value is not None and blocks.value > quality.HIGH_BLOCKINESS:
        return CheckResult(False, blocks.sentence)
    if sharpness.value is None:
        return CheckResult(None, evidence)
    return CheckResult(_holds_between(sharpness.value, quality.SOFT_SHARPNESS, quality.SHARP_SHARPNESS), evidence)


def _check_clean(findings: Findings) -> CheckResult:
    """Check for blocks and doubled edges only: grain, bands and clipped tones are often part of a style."""
    blocks, halos = findings.measure("quality.blockiness"), findings.measure("quality.halos")
    flaws = [
        flaw.sentence
        for flaw, limit in ((blocks, quality.HIGH_BLOCKINESS), (halos, MAX_OVERSHOOT))
        if flaw.value is not None and flaw.value > limit
    ]
    if flaws:
        return CheckResult(False, " ".join(flaws))
    known = blocks.value is not None
    return CheckResult(True if known else None, f"{blocks.sentence} {halos.sentence}")


def _check_print_size(findings: Findings) -> CheckResult:
    sentence = findings.measure("quality.print_size").sentence
    density = max(findings.pair.sizes[1]) / PAGE_LONG_INCHES
    holds = True if density >= FINE_PRINT else False if density < COARSE_PRINT else None
    return CheckResult(holds, f"{sentence} On a page of A4 that is {density:.0f} an inch.")


_FILE_CHECKS = {InstrumentCheck.PRINT_SIZE, InstrumentCheck.UPRIGHT}
_COMPARING_CHECKS = {
    InstrumentCheck.COMPOSITION_KEPT,
    InstrumentCheck.LIGHT_KEPT,
    InstrumentCheck.REDRAWN,
    InstrumentCheck.STYLE_EVERYWHERE,
    InstrumentCheck.STRONG,
    InstrumentCheck.STRENGTH,
}
_PHOTO_CHECKS = {*_COMPARING_CHECKS, InstrumentCheck.FLAT_COLOUR}

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
    InstrumentCheck.TONAL_RANGE: lambda findings: findings.analyze(StyleAnalyzer.tonal_range),
    InstrumentCheck.DEEP_BLACKS: lambda findings: findings.analyze(StyleAnalyzer.deep_blacks),
    InstrumentCheck.OPEN_SHADOWS: lambda findings: findings.analyze(StyleAnalyzer.open_shadows),
    InstrumentCheck.COLOURLESS: lambda findings: findings.analyze(StyleAnalyzer.colourless),
    InstrumentCheck.SATURATED: lambda findings: findings.analyze(StyleAnalyzer.saturated),
    InstrumentCheck.FEW_COLOURS: lambda findings: findings.analyze(StyleAnalyzer.few_colours),
    InstrumentCheck.FLAT_COLOUR: lambda findings: findings.analyze(StyleAnalyzer.flat_colour),
    InstrumentCheck.WHITE_PAPER: lambda findings: findings.analyze(StyleAnalyzer.white_paper),
    InstrumentCheck.PLAIN_GROUND: lambda findings: findings.analyze(StyleAnalyzer.plain_ground),
    InstrumentCheck.CALM_AREA: lambda findings: findings.analyze(StyleAnalyzer.calm_area),
    InstrumentCheck.UPRIGHT: lambda findings: findings.analyze(StyleAnalyzer.upright, findings.pair.sizes[1]),
}


_NOT_MEASURED = "Left open: no measurement of the pixels answers this."


def answer_restyle(brief: Brief) -> AnswerDocument:
    """Answer the assertions, and abstain from scores, which follow from them; raise `ImageError` for a bad image.

    The first image is taken for the photo, the second for its restyle. One image is checked by itself.
    """
    findings = Findings(load_pair(brief), brief.images[-1].image.data, is_single=len(brief.images) == 1)
    counts: Counter[str] = Counter()
    criteria: AnswerDocument = {}
    for criterion in brief.criteria:
        answers = {assertion.id: _answer_assertion(assertion, findings) for assertion in criterion.assertions}
        tally = Counter(answer for answer, _ in answers.values())
        counts += tally
        criteria[criterion.key] = {
            "assertions": {id_: {"answer": answer, "evidence": why} for id_, (answer, why) in answers.items()},
            "score": ABSTAIN,
            "reason": f"Measured, not seen: {tally[YES]} Yes, {tally[NO]} No, {tally[ABSTAIN]} left open.",
        }
    assessment = f"{counts[YES] + counts[NO]} of {counts.total()} assertions measured, the others left open."
    roles = (brief.images[0].role, brief.images[-1].role)
    return {
        "criteria": criteria,
        "assessment": assessment,
        "measurements": findings.measurements,
        "places": list_places(findings.pair, {**findings.boxes, **_list_evidence_boxes(criteria, findings)}, roles),
    }


def _list_evidence_boxes(criteria: AnswerDocument, findings: Findings) -> dict[str, tuple[Box, ...]]:
    """Return for each assertion whose evidence cites a measurement with a place that place."""
    cited = {findings.measurements[name]["sentence"]: boxes for name, boxes in findings.boxes.items()}
    found: dict[str, tuple[Box, ...]] = {}
    for block in criteria.values():
        assert isinstance(block, dict)
        for id_, answer in block["assertions"].items():
            for sentence, boxes in cited.items():
                if sentence in answer["evidence"]:
                    found.setdefault(id_, boxes)
    return found


def load_pair(brief: Brief) -> ImagePair:
    """Load the two images of a brief, or its one image as both; raise `ImageError` with the role of a bad one."""
    before, after = brief.images[0], brief.images[-1]
    pair = ImagePair.load(before.image.data, after.image.data, names=(before.role, after.role, ""))
    pair.sizes = _file_size(before.image), _file_size(after.image)
    return pair


def _file_size(image: PreparedImage) -> tuple[int, int]:
    """Return width and height of the file, upright; the prepared image may be smaller."""
    width, height = image.source_width, image.source_height
    turned = (width > height) != (image.width > image.height) and width != height
    return (height, width) if turned else (width, height)


def _answer_assertion(assertion: Assertion, findings: Findings) -> tuple[str, str]:
    """Return Yes, No or an abstention, and the evidence."""
    rule = CheckRule.parse(assertion.measured)
    if rule is None:
        return ABSTAIN, _NOT_MEASURED
    if assertion.applies:
        return ABSTAIN, f"Left open: whether there is something to ask about ({assertion.applies}) cannot be measured."
    result = findings.check(*rule.checks)
    if result.holds and rule.yes:
        return YES, result.evidence
    if result.holds is False and rule.no:
        return NO, result.evidence
    if result.holds:
        return ABSTAIN, f"Left open: nothing measured speaks against it. {result.evidence}"
    if result.holds is False:
        return ABSTAIN, f"Left open: nothing measured speaks for it. {result.evidence}"
    return ABSTAIN, f"Left open. {result.evidence}"
