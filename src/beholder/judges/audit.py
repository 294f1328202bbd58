"""The audit: what a model said about two images, against what can be measured of them.

Measuring and comparing are two steps. `measure` runs in another process, while the model is being asked, and brings
back only numbers and sentences; `audited` puts them into the verdict and flags what they contradict. Nothing is
changed: a flag is for the reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from beholder.errors import ImageError
from beholder.rubrics.rubric import Assertion, CheckRule, InstrumentCheck, Number, Rubric, to_fraction
from beholder.verdicts.verdict import CriterionResult, Flag, Verdict

BLOCKINESS = "quality.blockiness_change"
DISAGREE, NOT_AUDITED = "pixels_disagree", "not_audited"

# Told of every pair, whether or not a rule needs it: how much changed, where, and what it did to the whole; of a photo
# and its restyle, where everything was to change, how much and what survived.
PAIR_MEASUREMENTS = (
    "geometry.shift",
    "colour.difference_median",
    "locality.changed",
    "locality.leakage",
    "structure.ssim",
)
RESTYLE_MEASUREMENTS = ("geometry.shift", "restyle.structure_kept", "restyle.strength", "restyle.untouched")

# Roles of which the second is what became of the first. Of any other pair (a person's own edit and the model's) what
# differs is told, and contradicts nothing.
_BEFORE_AFTER_ROLES = (("input", "edited"), ("original", "restyled"))

# The checks of `restyle` that say the same of a small picture as of a large one; small patches do not show in it.
_SMALL_IMAGE_CHECKS = frozenset(
    {InstrumentCheck.COMPOSITION_KEPT, InstrumentCheck.REDRAWN, InstrumentCheck.STRONG, InstrumentCheck.STRENGTH}
)


@dataclass(frozen=True, slots=True)
class AuditRule:
    """A score of at least `least` (its place on the scale, 0–1) is contradicted by a measurement above `limit`, or
    below it (`under`). `says` is what the pixels say, with the value; without it the measurement's own sentence is."""

    criterion: str
    measurement: str
    limit: float
    says: str = ""
    under: bool = False
    least: Fraction = Fraction(5, 6)  # 6 of 1 to 7

    def broken(self, value: float | None) -> bool:
        return value is not None and (value < self.limit if self.under else value > self.limit)

    def why(self, reading: AuditReading) -> str:
        return self.says.format(reading.value) if self.says else reading.sentence


_DETAIL_LOST = "in one place of twenty only {:.0%} of the detail is left, or less"
_SHARPNESS_LOST = "it is only {:.0%} as sharp as before"
_LAYOUT_CHANGED = "the layout of the edges agrees to only {:.0%}"
_DETAIL_NOT_FOUND = "only {:.0%} of the detail before is found again anywhere in its place"
_VIEW_CUT = "only {:.0%} of what was in view still is"

# What detail and structure show is borne out by people (`make alignment` prints by how much). The others are rare, and
# contradict the words as they stand.
RULES = (
    AuditRule("unchanged_regions", "naturalness.detail_lost", 0.35, _DETAIL_LOST, under=True),
    AuditRule("unchanged_regions", "quality.sharpness_change", 0.8, _SHARPNESS_LOST, under=True),
    AuditRule("unchanged_regions", "locality.leakage", 0.3),
    AuditRule("unchanged_regions", "geometry.confidence", 0.2, _DETAIL_NOT_FOUND, under=True),
    AuditRule("global_consistency", "restyle.structure_kept", 0.6, _LAYOUT_CHANGED, under=True),
    AuditRule("global_consistency", "colour.cast", 8.0),
    AuditRule("global_consistency", "geometry.kept", 0.85, _VIEW_CUT, under=True),
    AuditRule("identity_preservation", "restyle.structure_kept", 0.6, _LAYOUT_CHANGED, under=True),
    AuditRule("identity_preservation", "geometry.confidence", 0.2, _DETAIL_NOT_FOUND, under=True),
    AuditRule("texture_and_detail", "naturalness.detail_lost", 0.35, _DETAIL_LOST, under=True),
    AuditRule("texture_and_detail", "quality.sharpness_change", 0.8, _SHARPNESS_LOST, under=True),
    AuditRule("image_quality", BLOCKINESS, 1.5),
)

# What nobody who looked would say of an image that was handed back as it came: that something was done to it, or that
# something is not as it was.
_CHANGE_CRITERIA = ("alignment", "completeness", "relevance")
_PRESERVATION_CRITERIA = ("unchanged_regions", "global_consistency", "identity_preservation")


@dataclass(frozen=True, slots=True)
class AuditReading:
    """A measurement as it is kept in a verdict."""

    value: float | None
    unit: str
    sentence: str


@dataclass(frozen=True, slots=True)
class AuditEvidence:
    """What was measured of a pair: readings by name; what the pixels say to assertions, and why; or `failed`."""

    readings: Mapping[str, AuditReading]
    answers: Mapping[str, tuple[bool, str]]
    identical: bool = False
    failed: str = ""
    rules: bool = True  # whether they may contradict anything


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What to measure for a rubric; the same for all its cases, and small enough to send along with each."""

    names: tuple[str, ...]
    assertions: tuple[Assertion, ...] = ()
    rules: bool = False  # whether anything may be contradicted


def plan_audit(rubric: Rubric) -> AuditPlan | None:
    """What bears on a rubric of two images; `None` for any other."""
    if len(rubric.roles) != 2:
        return None
    if rubric.roles not in _BEFORE_AFTER_ROLES:
        return AuditPlan(PAIR_MEASUREMENTS)
    keys = {criterion.key for criterion in rubric.criteria}
    always = RESTYLE_MEASUREMENTS if rubric.roles == ("original", "restyled") else PAIR_MEASUREMENTS
    names = dict.fromkeys((*always, *(rule.measurement for rule in RULES if rule.criterion in keys)))
    measured = tuple(one for one in rubric.assertions() if not one.applies and _is_small(one))
    return AuditPlan(tuple(names), measured, rules=True)


def measure_evidence(order: AuditPlan, before: bytes, after: bytes) -> AuditEvidence:
    """Everything in `order`, at 400 px. Never raises for a picture: one that cannot be read is `failed`."""
    from beholder.instruments.pair import AUDIT_SIDE, DEFAULT_SIDE, ImagePair
    from beholder.instruments.registry import measure_pair
    from beholder.judges.offline.restyle import Findings

    try:
        pair = ImagePair.load(before, after, side=AUDIT_SIDE, names=("the first image", "the second image", ""))
        found = measure_pair(pair, [name for name in order.names if name != BLOCKINESS])
        if BLOCKINESS in order.names:  # a smaller copy has none left
            found |= measure_pair(ImagePair.load(before, after, side=DEFAULT_SIDE), [BLOCKINESS])
    except ImageError as error:
        return AuditEvidence({}, {}, failed=str(error))
    readings = {
        name: AuditReading(_round_significant(one.value), one.unit, one.sentence) for name, one in found.items()
    }
    findings = Findings(pair, after)
    answers = {}
    for assertion in order.assertions:
        how = CheckRule.parse(assertion.measured)
        assert how is not None
        said = findings.check(*how.checks)
        if said.holds is not None and (how.yes if said.holds else how.no):
            answers[assertion.id] = said.holds, said.evidence
    return AuditEvidence(readings, answers, pair.identical, rules=order.rules)


def apply_audit(verdict: Verdict, evidence: AuditEvidence, said: Sequence[tuple[str, Verdict]] = ()) -> Verdict:
    """The scored verdict with what was measured, and a flag for everything that it contradicts. Of a jury, `said` are
    the verdicts of those jurors who look, each with the name it goes by: their words are what is audited."""
    if evidence.failed:
        return replace(verdict, flags=(*verdict.flags, Flag(NOT_AUDITED, why=evidence.failed)))
    measurements = {
        name: {"value": one.value, "unit": one.unit, "sentence": one.sentence}
        for name, one in evidence.readings.items()
    }
    flags = [
        replace(flag, at=f"{name}{flag.at}")
        for name, one in said or [("", verdict)]
        if evidence.rules and one.scored
        for flag in _contradictions(one, evidence)
    ]
    return replace(verdict, measurements={**measurements, **verdict.measurements}, flags=(*verdict.flags, *flags))


def _contradictions(verdict: Verdict, evidence: AuditEvidence) -> Iterator[Flag]:
    if evidence.identical:
        for key, result in verdict.criteria.items():
            if key in _CHANGE_CRITERIA and _reaches(result, Fraction(1, 2)):
                yield _disagreement_flag(verdict, key, "the two images are identical: nothing was done")
            if key in _PRESERVATION_CRITERIA and result.score is not None and not _reaches(result, Fraction(1, 2)):
                yield _disagreement_flag(verdict, key, "the two images are identical: everything was kept")
    for rule in RULES:
        reading = evidence.readings.get(rule.measurement)
        if reading is None or not rule.broken(reading.value):
            continue
        if rule.criterion in verdict.criteria and _reaches(verdict.criteria[rule.criterion], rule.least):
            yield _disagreement_flag(verdict, rule.criterion, rule.why(reading))
    for criterion in verdict.criteria.values():
        for assertion in criterion.assertions:
            holds, why = evidence.answers.get(assertion.id, (None, ""))
            if holds is not None and assertion.answer in ("yes", "no") and (assertion.answer == "yes") is not holds:
                yield Flag(DISAGREE, assertion.id, assertion.answer, why)


def _disagreement_flag(verdict: Verdict, key: str, why: str) -> Flag:
    result = verdict.criteria[key]
    said = f"{_format_score(result.score)} of {_format_score(result.scale[1])}, but {why[:1].lower()}{why[1:]}"
    return Flag(DISAGREE, f"{key}.score", result.score, said)


def _reaches(result: CriterionResult, least: Fraction) -> bool:
    if result.score is None:
        return False
    low, high = map(to_fraction, result.scale)
    return (to_fraction(result.score) - low) / (high - low) >= least


def _is_small(assertion: Assertion) -> bool:
    """Whether it is measured by checks that need no more than a small picture."""
    how = CheckRule.parse(assertion.measured)
    return how is not None and _SMALL_IMAGE_CHECKS.issuperset(how.checks)


def _round_significant(value: float | None) -> float | None:
    """To four significant digits: the pixels have no more."""
    return None if value is None else float(f"{value:.4g}")


def _format_score(number: Number | None) -> str:
    return "–" if number is None else f"{number:g}"
