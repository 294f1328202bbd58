"""The audit: compares what a model said about two images with what can be measured of them.

`examine_images` measures, in another process, while the model is asked, and returns only numbers and sentences (and
thumbnails, since the images are decoded there). `apply_audit` adds them to the verdict and flags what they contradict.
No score is changed: flags are for the reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from beholder.errors import ImageError
from beholder.images.headers import ImageHeader
from beholder.images.prepare import DecodedImage, encode_thumbnail
from beholder.rubrics.rubric import Assertion, CheckRule, InstrumentCheck, Number, Rubric, to_fraction
from beholder.verdicts.verdict import CriterionResult, Flag, Place, Verdict

if TYPE_CHECKING:
    from beholder.instruments.pair import ImagePair

BLOCKINESS = "quality.blockiness_change"
DISAGREE, NOT_AUDITED = "pixels_disagree", "not_audited"

# Measured of every pair, whether or not a rule needs it: how much changed, where, and what that did to the whole; of a
# photo and its restyle, where everything should change, how much and what survived.
PAIR_MEASUREMENTS = (
    "geometry.shift",
    "colour.difference_median",
    "locality.changed",
    "locality.leakage",
    "structure.ssim",
)
RESTYLE_MEASUREMENTS = ("geometry.shift", "restyle.structure_kept", "restyle.strength", "restyle.untouched")

# Roles of which the second was made from the first. In any other pair (a person's own edit and the model's) differences
# are measured, and contradict nothing.
_BEFORE_AFTER_ROLES = (("input", "edited"), ("original", "restyled"))

# Checks of `restyle` that have the same result for a small image as for a large one.
_SMALL_IMAGE_CHECKS = frozenset(
    {InstrumentCheck.COMPOSITION_KEPT, InstrumentCheck.REDRAWN, InstrumentCheck.STRONG, InstrumentCheck.STRENGTH}
)


@dataclass(frozen=True, slots=True)
class AuditRule:
    """A high score of a criterion that a measurement contradicts.

    Attributes:
        criterion: key of the criterion.
        measurement: name of the measurement.
        limit: a value above it contradicts the score; with `below` a value below it.
        sentence: what was measured, with a place for the value; by default the measurement's own sentence.
        below: see `limit`.
        min_level: the score counts as high from this level of its scale on, 0 to 1.
    """

    criterion: str
    measurement: str
    limit: float
    sentence: str = ""
    below: bool = False
    min_level: Fraction = Fraction(5, 6)  # 6 of 1 to 7

    def is_broken(self, value: float | None) -> bool:
        return value is not None and (value < self.limit if self.below else value > self.limit)

    def describe(self, reading: AuditReading) -> str:
        return self.sentence.format(reading.value) if self.sentence else reading.sentence


_DETAIL_LOST = "in one place of twenty only {:.0%} of the detail is left, or less"
_SHARPNESS_LOST = "it is only {:.0%} as sharp as before"
_LAYOUT_CHANGED = "the layout of the edges agrees to only {:.0%}"
_DETAIL_NOT_FOUND = "only {:.0%} of the detail before is found again anywhere in its place"
_VIEW_CUT = "only {:.0%} of what was in view still is"

# Ratings by people confirm the rules on detail and structure (`make alignment` prints by how much). The others rarely
# apply, and contradict the words of the criterion.
RULES = (
    AuditRule("unchanged_regions", "naturalness.detail_lost", 0.35, _DETAIL_LOST, below=True),
    AuditRule("unchanged_regions", "quality.sharpness_change", 0.8, _SHARPNESS_LOST, below=True),
    AuditRule("unchanged_regions", "locality.leakage", 0.3),
    AuditRule("unchanged_regions", "geometry.confidence", 0.2, _DETAIL_NOT_FOUND, below=True),
    AuditRule("global_consistency", "restyle.structure_kept", 0.6, _LAYOUT_CHANGED, below=True),
    AuditRule("global_consistency", "colour.cast", 8.0),
    AuditRule("global_consistency", "geometry.kept", 0.85, _VIEW_CUT, below=True),
    AuditRule("identity_preservation", "restyle.structure_kept", 0.6, _LAYOUT_CHANGED, below=True),
    AuditRule("identity_preservation", "geometry.confidence", 0.2, _DETAIL_NOT_FOUND, below=True),
    AuditRule("texture_and_detail", "naturalness.detail_lost", 0.35, _DETAIL_LOST, below=True),
    AuditRule("texture_and_detail", "quality.sharpness_change", 0.8, _SHARPNESS_LOST, below=True),
    AuditRule("image_quality", BLOCKINESS, 1.5),
)

# Of an image that came back unchanged nobody who looked would give the first a high score, or the others a low one.
_CHANGE_CRITERIA = ("alignment", "completeness", "relevance")
_PRESERVATION_CRITERIA = ("unchanged_regions", "global_consistency", "identity_preservation")


@dataclass(frozen=True, slots=True)
class AuditReading:
    """A measurement as it is stored in a verdict."""

    value: float | None
    unit: str
    sentence: str


@dataclass(frozen=True, slots=True)
class AuditEvidence:
    """What was measured of a pair.

    Attributes:
        readings: measurements by name.
        answers: by id of an assertion, whether it holds by measurement, and the evidence.
        identical: whether both images have the same pixels.
        failed: why nothing could be measured; empty where it could.
        rules: whether a verdict may be contradicted.
        places: where in the images something was measured.
    """

    readings: Mapping[str, AuditReading]
    answers: Mapping[str, tuple[bool, str]]
    identical: bool = False
    failed: str = ""
    rules: bool = True
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What to measure for a rubric: the same for all its cases, and small enough to be sent with each.

    Attributes:
        names: of the measurements.
        assertions: those that can be measured.
        rules: whether a verdict may be contradicted.
        roles: of the two images.
    """

    names: tuple[str, ...]
    assertions: tuple[Assertion, ...] = ()
    rules: bool = False
    roles: tuple[str, ...] = ()


def plan_audit(rubric: Rubric) -> AuditPlan | None:
    """Return what to measure for a rubric of two images; `None` for any other."""
    if len(rubric.roles) != 2:
        return None
    if rubric.roles not in _BEFORE_AFTER_ROLES:
        return AuditPlan(PAIR_MEASUREMENTS, roles=rubric.roles)
    keys = {criterion.key for criterion in rubric.criteria}
    always = RESTYLE_MEASUREMENTS if rubric.roles == ("original", "restyled") else PAIR_MEASUREMENTS
    names = dict.fromkeys((*always, *(rule.measurement for rule in RULES if rule.criterion in keys)))
    measured = tuple(one for one in rubric.assertions() if not one.applies and _works_on_small_images(one))
    return AuditPlan(tuple(names), measured, rules=True, roles=rubric.roles)


def measure_evidence(plan: AuditPlan, before: bytes, after: bytes) -> AuditEvidence:
    """Measure everything in `plan` on a pair of encoded images, at 400 px; of edits, color difference and SSIM at 200.

    Never raises for an image: one that cannot be read makes evidence that `failed`.
    """
    evidence = examine_images(plan, [ImageToExamine(before), ImageToExamine(after)]).evidence
    assert evidence is not None
    return evidence


def _measure_decoded(plan: AuditPlan, before: DecodedImage, after: DecodedImage) -> AuditEvidence:
    """Measure everything in `plan` on a pair of decoded images, at 400 px."""
    from beholder.instruments.pair import AUDIT_MAP_SIDE, AUDIT_SIDE, DEFAULT_SIDE, ImagePair
    from beholder.instruments.registry import measure_pair

    pixels = before.scale_to(AUDIT_SIDE), after.scale_to(AUDIT_SIDE)
    # What decides an assertion of a restyle is measured on maps of full size: at half of it 11 of 1,752 would change.
    map_side = None if plan.assertions else AUDIT_MAP_SIDE
    pair = ImagePair(*pixels, sizes=(before.size, after.size), map_side=map_side)
    measured = measure_pair(pair, [name for name in plan.names if name != BLOCKINESS])
    if BLOCKINESS in plan.names:  # of which a smaller copy has none left
        measured |= measure_pair(ImagePair.load(before.data, after.data, side=DEFAULT_SIDE), [BLOCKINESS])
    readings = {
        name: AuditReading(_round_significant(one.value), one.unit, one.sentence) for name, one in measured.items()
    }
    answers = _check_assertions(plan.assertions, pair, after.data) if plan.assertions else {}
    places = tuple(
        Place(name, boxes, role)
        for name, one in measured.items()
        for role, boxes in pair.boxes_by_role(one.boxes, plan.roles).items()
    )
    return AuditEvidence(readings, answers, pair.identical, rules=plan.rules, places=places)


def _check_assertions(assertions: Sequence[Assertion], pair: ImagePair, restyled: bytes) -> dict[str, tuple[bool, str]]:
    """Return for each assertion that can be decided whether it holds, and the evidence."""
    from beholder.judges.offline.restyle import Findings

    findings = Findings(pair, restyled)
    answers = {}
    for assertion in assertions:
        rule = CheckRule.parse(assertion.measured)
        assert rule is not None
        result = findings.check(*rule.checks)
        if result.holds is not None and (rule.yes if result.holds else rule.no):
            answers[assertion.id] = result.holds, result.evidence
    return answers


@dataclass(frozen=True, slots=True)
class Examination:
    """What was made of the pixels of a case's images.

    Attributes:
        evidence: Of the audit; `None` where nothing was to be measured.
        thumbnails: JPEGs by the digest of the image file.
    """

    evidence: AuditEvidence | None = None
    thumbnails: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImageToExamine:
    """An encoded image, on its way to a worker process.

    Attributes:
        data: The whole file.
        header: Its header, where it is known without reading it.
        thumbnail: The digest under which its thumbnail is kept; empty where none is wanted.
    """

    data: bytes
    header: ImageHeader | None = None
    thumbnail: str = ""


def examine_images(plan: AuditPlan | None, images: Sequence[ImageToExamine]) -> Examination:
    """Decode each image once, make its thumbnail, and measure the pair. This is what a worker process does for a case.

    Thumbnails come from what is decoded for the audit, whether or not there is one: 400 to 512 pixels on the longer
    side, depending on the size to which the codec decodes cheaply.

    Args:
        plan: What to measure; `None` for nothing.
        images: Two where there is a plan.
    """
    from beholder.instruments.pair import AUDIT_SIDE

    names = ("the first image", "the second image") if plan is not None else ["image"] * len(images)
    decoded: list[DecodedImage] = []
    thumbnails: dict[str, bytes] = {}
    why_not = ""
    for name, image in zip(names, images, strict=True):
        try:
            decoded.append(DecodedImage(image.data, AUDIT_SIDE, name=name, header=image.header))
        except ImageError as error:
            why_not = why_not or str(error)
            continue
        if image.thumbnail:
            with suppress(ImageError):  # a verdict is valid without a thumbnail
                thumbnails[image.thumbnail] = encode_thumbnail(decoded[-1])
    if plan is None:
        return Examination(None, thumbnails)
    if not why_not:
        try:
            return Examination(_measure_decoded(plan, decoded[0], decoded[1]), thumbnails)
        except ImageError as error:
            why_not = str(error)
        except Exception as error:  # the thumbnails are made all the same
            why_not = f"measuring failed: {type(error).__name__}: {error}"
    return Examination(AuditEvidence({}, {}, failed=why_not), thumbnails)


def apply_audit(verdict: Verdict, evidence: AuditEvidence, jurors: Sequence[tuple[str, Verdict]] = ()) -> Verdict:
    """Return an answered verdict with what was measured, and a flag for everything that this contradicts.

    Args:
        verdict: the verdict to add to.
        evidence: of its pair of images.
        jurors: in a jury, prefix (for the place of a flag) and verdict of each model; their verdicts are audited then.
    """
    if evidence.failed:
        return replace(verdict, flags=(*verdict.flags, Flag(NOT_AUDITED, why=evidence.failed)))
    measurements = {
        name: {"value": one.value, "unit": one.unit, "sentence": one.sentence}
        for name, one in evidence.readings.items()
    }
    found = [
        (replace(flag, at=f"{prefix}{flag.at}"), measurement)
        for prefix, audited in jurors or [("", verdict)]
        if evidence.rules and audited.answered
        for flag, measurement in _contradictions(audited, evidence)
    ]
    contradicted = [replace(place, at=flag.at) for flag, name in found for place in evidence.places if place.at == name]
    return replace(
        verdict,
        measurements={**measurements, **verdict.measurements},
        flags=(*verdict.flags, *(flag for flag, _ in found)),
        places=(*(verdict.places or ()), *evidence.places, *contradicted) or None,
    )


def _contradictions(verdict: Verdict, evidence: AuditEvidence) -> Iterator[tuple[Flag, str]]:
    """Yield a flag for everything that was measured otherwise, with the name of the measurement if there is one."""
    if evidence.identical:
        for key, result in verdict.criteria.items():
            if key in _CHANGE_CRITERIA and _reaches(result, Fraction(1, 2)):
                yield _disagreement_flag(verdict, key, "the two images are identical: nothing was done"), ""
            if key in _PRESERVATION_CRITERIA and result.score is not None and not _reaches(result, Fraction(1, 2)):
                yield _disagreement_flag(verdict, key, "the two images are identical: everything was kept"), ""
    for rule in RULES:
        reading = evidence.readings.get(rule.measurement)
        if reading is None or not rule.is_broken(reading.value):
            continue
        if rule.criterion in verdict.criteria and _reaches(verdict.criteria[rule.criterion], rule.min_level):
            yield _disagreement_flag(verdict, rule.criterion, rule.describe(reading)), rule.measurement
    for criterion in verdict.criteria.values():
        for assertion in criterion.assertions:
            holds, why = evidence.answers.get(assertion.id, (None, ""))
            if holds is not None and assertion.answer in ("yes", "no") and (assertion.answer == "yes") is not holds:
                yield Flag(DISAGREE, assertion.id, assertion.answer, why), ""


def _disagreement_flag(verdict: Verdict, key: str, why: str) -> Flag:
    result = verdict.criteria[key]
    reason = f"{_format_score(result.score)} of {_format_score(result.scale[1])}, but {why[:1].lower()}{why[1:]}"
    return Flag(DISAGREE, f"{key}.score", result.score, reason)


def _reaches(result: CriterionResult, level: Fraction) -> bool:
    """Return whether a score is at this level of its scale, 0 to 1, or above."""
    if result.score is None:
        return False
    low, high = map(to_fraction, result.scale)
    return (to_fraction(result.score) - low) / (high - low) >= level


def _works_on_small_images(assertion: Assertion) -> bool:
    rule = CheckRule.parse(assertion.measured)
    return rule is not None and _SMALL_IMAGE_CHECKS.issuperset(rule.checks)


def _round_significant(value: float | None) -> float | None:
    """Round to four significant digits: pixels are no more precise."""
    return None if value is None else float(f"{value:.4g}")


def _format_score(number: Number | None) -> str:
    return "–" if number is None else f"{number:g}"
