"""A rubric and its parts: frozen values whose fields are the keys of `rubric.yaml`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, json, structs

from beholder.errors import UsageError

Number = int | float


@lru_cache(1024, typed=True)  # scales, weights and scores are the same few numbers in every verdict
def to_fraction(number: Number | Decimal | str) -> Fraction:
    """Return a decimal number exactly as it is written: 0.7 is 7/10, not the double next to it."""
    return Fraction(str(number))


class RubricImage(Struct, frozen=True, forbid_unknown_fields=True):
    """An image that a case needs. `label` is the text that the judge gets right before it."""

    role: str
    label: str
    about: str = ""
    many: bool | UnsetType = UNSET
    """Whether a case may have several images in this role. Unset is no; it is not dumped, so that the fingerprints of
    runs by older rubrics stay as they are."""


class RubricField(Struct, frozen=True, forbid_unknown_fields=True):
    """A text of the case. It is data: the judge gets it fenced, never as part of the rubric."""

    name: str
    about: str = ""
    required: bool = True
    may_be_empty: bool = False
    """Whether a required text may be blank, such as an empty response of an assistant."""
    absent: str = ""
    """The text for the judge when an optional field is not given; empty: none."""


class InstrumentCheck(StrEnum):
    """What instruments can check about a photo and its restyle; an assertion may be `measured` by it.

    `composition_kept`: forms and edges of the photo are in their places.
    `light_kept`: what was light and dark in the photo still is.
    `redrawn`: the photo's own detail is gone; `style_everywhere`: and no region of the photo was left as it was.
    `strong`: the whole is plainly another picture than the photo; `strength`: and has something of the photo left.
    `sharp`: at full size it is neither soft nor blocky; `clean`: there are no coding blocks and no doubled edges.
    `print_size`: it has the pixels for a page (A4) at 150 an inch.
    `tonal_range`: from light to dark; `deep_blacks`: with true blacks; `open_shadows`: without a large black area.
    `colourless`, `saturated`, `few_colours`, `flat_colour`: grey; bold; a handful of inks; areas without gradients.
    `white_paper`: much of it is blank; `plain_ground`: one colour runs all along its border; `calm_area`: a part of it
    is without detail; `upright`: it is higher than wide.
    """

    COMPOSITION_KEPT = "composition_kept"
    LIGHT_KEPT = "light_kept"
    REDRAWN = "redrawn"
    STYLE_EVERYWHERE = "style_everywhere"
    STRONG = "strong"
    STRENGTH = "strength"
    SHARP = "sharp"
    CLEAN = "clean"
    PRINT_SIZE = "print_size"
    TONAL_RANGE = "tonal_range"
    DEEP_BLACKS = "deep_blacks"
    OPEN_SHADOWS = "open_shadows"
    COLOURLESS = "colourless"
    SATURATED = "saturated"
    FEW_COLOURS = "few_colours"
    FLAT_COLOUR = "flat_colour"
    WHITE_PAPER = "white_paper"
    PLAIN_GROUND = "plain_ground"
    CALM_AREA = "calm_area"
    UPRIGHT = "upright"


class CheckRule(Struct, frozen=True):
    """How checks answer an assertion.

    `strong` answers Yes where the check holds and No where it does not. `yes if strong` gives no answer where it does
    not hold, `no unless strong` where it does. `sharp and clean` holds where both do.

    Attributes:
        checks: What must hold.
        yes: Whether Yes can be answered; `no` likewise.
    """

    checks: tuple[InstrumentCheck, ...]
    yes: bool = True
    no: bool = True

    @classmethod
    def parse(cls, text: str) -> CheckRule | None:
        """Return the rule of `measured: TEXT`; `None` where it names an unknown check."""
        yes, no = not text.startswith("no unless "), not text.startswith("yes if ")
        names = text.removeprefix("no unless ").removeprefix("yes if ").split(" and ")
        return cls(tuple(map(InstrumentCheck, names)), yes, no) if set(names) <= set(InstrumentCheck) else None


class Assertion(Struct, frozen=True, forbid_unknown_fields=True):
    """A question whose good answer is Yes. `applies` names what must be in the original for it to be asked; `measured`
    says how instruments answer it (see `CheckRule`), which is in no prompt and no digest."""

    text: str
    id: str = ""
    applies: str = ""
    measured: str = ""


class Criterion(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that is scored. `scale` is its lowest and highest score; `whole` admits only integers."""

    key: str
    title: str = ""
    letter: str = ""
    question: str = ""
    definition: str = ""
    weight: Number = 1
    scale: tuple[Number, Number] = (1, 5)
    whole: bool = True
    examine: tuple[str, ...] = ()
    high: tuple[str, ...] = ()
    low: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    anchors: dict[str, str] = {}
    assertions: tuple[Assertion, ...] = ()

    def with_assertion_ids(self) -> Criterion:
        """Return the criterion with an id for every assertion: its letter, or its key, and the assertion's position."""
        stem = self.letter or f"{self.key}_"
        return structs.replace(
            self,
            assertions=tuple(
                structs.replace(assertion, id=assertion.id or f"{stem}{position}")
                for position, assertion in enumerate(self.assertions, start=1)
            ),
        )

    @property
    def name(self) -> str:
        return self.title or self.key.replace("_", " ").capitalize()


class Finding(Struct, frozen=True, forbid_unknown_fields=True):
    """A list of observations that the judge gives besides its scores."""

    key: str
    about: str = ""


class ProbeQuestion(Struct, frozen=True, forbid_unknown_fields=True):
    """A question about a crop of the region where an edit was made, answered by a number.

    Attributes:
        key: Its answer is the measurement `probe.KEY` of the verdict.
        question: What is asked.
        scale: Lowest and highest answer, whole numbers; `[0, 1]` asks No or Yes.
        low: What the lowest answer means; `high` likewise.
    """

    key: str
    question: str
    scale: tuple[int, int] = (0, 10)
    low: str = ""
    high: str = ""


PROBED_ROLES = ("input", "edited")
"""The images, before and after the edit, that a probe shows crops of."""
PROBED_REGION = "region"
"""`probe.region` is the share of the image that was cropped; no question may have this key."""


class RubricKind(StrEnum):
    """What a judge gives: a score for each criterion of one output, or which of two candidates is better."""

    SCORES = "scores"
    PREFERENCE = "preference"


CANDIDATE_LABELS = {"first": "Candidate A", "second": "Candidate B"}
"""What the judge reads before a candidate: it tells nothing but its position in the brief."""
PREFERENCE_SCALE: tuple[Number, Number] = (-3, 3)
"""A criterion of a preference as a number: strength 1 to 3, positive for the first candidate, 0 for neither."""


class OrderChoice(StrEnum):
    """In which orders the two candidates of a case are shown: in both, one by a hash of the case, or as given."""

    BOTH = "both"
    RANDOM = "random"
    GIVEN = "given"


class ScoringKind(StrEnum):
    """How criteria become one number.

    `weighted_total`: the sum of weight × score against its maximum, a percentage.
    `weighted_mean`: the mean of the scores, each brought to 0–1 by its scale, by weight.
    `factors`: criteria stand alone; their mean, brought to 0–1, is offered and marked as derived.
    """

    WEIGHTED_TOTAL = "weighted_total"
    WEIGHTED_MEAN = "weighted_mean"
    FACTORS = "factors"


class NotApplicable(StrEnum):
    """What an answer N/A is: accepted with a flag, offered to the judge, or an error."""

    ACCEPT = "accept"
    OFFER = "offer"
    REFUSE = "refuse"


class Grade(Struct, frozen=True, forbid_unknown_fields=True):
    """A grade and the lowest percentage (`weighted_total`) or score 0–1 (otherwise) that gets it."""

    grade: str
    least: Number = 0
    about: str = ""


class GateRule(Struct, frozen=True, forbid_unknown_fields=True):
    """What fails a case regardless of its score: a finding that is not empty, or a criterion below `least`."""

    finding: str = ""
    criterion: str = ""
    least: Number | None = None


class Scoring(Struct, frozen=True, forbid_unknown_fields=True):
    """How answers become numbers.

    Attributes:
        ceiling: `ceiling[n]` is the highest score that n failed assertions allow; the last entry counts also for more.
        guidance: `guidance[n]` is the lowest score that the rubric suggests for n failed assertions; it never changes a
            score.
        criterion_score: `confidence` replaces the judge's score by pass rate × mean confidence, at most the top of the
            scale.
        threshold: The lowest score, 0–1, that passes.
    """

    kind: ScoringKind = ScoringKind.WEIGHTED_MEAN
    criterion_score: Literal["given", "confidence"] = "given"
    ceiling: tuple[Number, ...] = ()
    guidance: tuple[Number, ...] = ()
    not_applicable: NotApplicable = NotApplicable.ACCEPT
    threshold: Number | None = None
    gates: tuple[GateRule, ...] = ()
    grades: tuple[Grade, ...] = ()


class Reason(Struct, frozen=True, forbid_unknown_fields=True):
    """The reason beside each score: its key in the answer, and the lowest and highest number of words."""

    key: str = "reason"
    words: tuple[int, int] | None = None


class Setting(Struct, frozen=True, forbid_unknown_fields=True):
    """One way of asking the same criteria: which images it takes, and the key of its results in an answer."""

    images: tuple[str, ...]
    results: str
    about: str = ""


class Style(Struct, frozen=True, forbid_unknown_fields=True):
    """A style for `restyle`: what it is, and the assertions that test it, by criterion."""

    style: str
    description: str
    assertions: dict[str, tuple[Assertion, ...]]
    aliases: tuple[str, ...] = ()
    expect: tuple[str, ...] = ()
    acceptable: tuple[str, ...] = ()
    goes_wrong: tuple[str, ...] = ()
    generic: bool = False
    """Whether this is the generic set under a name that no style has; never in a file."""
    near: str = ""
    """The style whose name is most like that of a generic one; never in a file."""


_PROBE_SUMMARY = (
    "An image was edited by an instruction. You see a crop of it before and after the edit, of the region where the "
    "two differ; the rest is not shown. Answer for this region only: what the instruction asks elsewhere does not "
    "count."
)


class Rubric(Struct, frozen=True, forbid_unknown_fields=True):
    """What a judge is asked. `Rubric.load("restyle")` loads a built-in one, `Rubric.load("mine/")` your own."""

    rubric: str
    criteria: tuple[Criterion, ...]
    version: str = "1.0"
    title: str = ""
    summary: str = ""
    images: tuple[RubricImage, ...] = ()
    settings: dict[str, Setting] = {}
    fields: tuple[RubricField, ...] = ()
    styles: bool = False
    """Whether the assertions come from the style that the case's field `style` names."""
    findings: tuple[Finding, ...] = ()
    assessment: str = ""
    """What the closing text of an answer is about; empty: none is asked for."""
    reason: Reason = Reason()
    echo: str = ""
    """The key under which an answer repeats the case's label; empty: none."""
    sisters: tuple[str, ...] = ()
    """Criteria of sister rubrics: an answer may score them too; they are ignored and flagged."""
    scoring: Scoring = Scoring()
    format: Literal["", "acrue", "acrue_confidence", "description", "factors"] = ""
    """The published JSON form that `--format seed` prints; empty: none."""
    prompt: str = ""
    style: Style | None = None
    """The style that was applied; never in a file."""
    setting: str = ""
    """The setting that was chosen; never in a file."""
    kind: RubricKind | UnsetType = UNSET
    """What a judge gives. Unset is scores; it is not dumped, so that the fingerprints of older runs stay."""
    probe: tuple[ProbeQuestion, ...] | UnsetType = UNSET
    """Questions about a crop of the edit, asked beside the criteria where `load.select_probes` left them in. Unset is
    none; it is not dumped either."""
    places: bool | UnsetType = UNSET
    """Whether the judge is asked for boxes around what it speaks of. Unset is no; it is not dumped either."""

    @classmethod
    def load(cls, name: str | os.PathLike[str]) -> Rubric:
        """Return a built-in or plugin rubric by name, or a user's by the path of its folder or YAML file.

        Raises:
            RubricError: With every problem, its line and key.
            UsageError: When there is no rubric of that name.
        """
        from beholder.rubrics.load import load_rubric

        return load_rubric(name)

    def __repr__(self) -> str:
        criteria = ", ".join(criterion.key for criterion in self.criteria)
        return f"<Rubric {self.rubric} {self.version}, criteria: {criteria}>"

    @property
    def name(self) -> str:
        return self.rubric

    @property
    def is_preference(self) -> bool:
        """Whether a judge says which of two candidates is better, instead of giving scores."""
        return self.kind is RubricKind.PREFERENCE

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the images that a case needs, in order."""
        if self.settings:
            return self.settings[self.setting or next(iter(self.settings))].images
        return tuple(image.role for image in self.images)

    @property
    def results_key(self) -> str:
        """The key of the results of this setting in a published answer; empty for a rubric without settings."""
        return self.settings[self.setting or next(iter(self.settings))].results if self.settings else ""

    def image(self, role: str) -> RubricImage:
        return next(image for image in self.images if image.role == role)

    def assertions(self) -> Iterator[Assertion]:
        for criterion in self.criteria:
            yield from criterion.assertions

    def with_setting(self, setting: str) -> Rubric:
        """Return the rubric in a setting; raise `UsageError` where it has no such setting."""
        if setting and setting not in self.settings:
            raise UsageError(
                f"{self.name} has no setting {setting!r}; there are: {', '.join(self.settings) or 'none'}."
            )
        return structs.replace(self, setting=setting)

    def with_style(self, style: Style) -> Rubric:
        """Return the rubric with the assertions of a style in its criteria, with ids (A1…) by position."""
        criteria = tuple(
            structs.replace(criterion, assertions=style.assertions.get(criterion.key, ())).with_assertion_ids()
            for criterion in self.criteria
        )
        return structs.replace(self, criteria=criteria, style=style)

    def make_probe_rubric(self) -> Rubric | None:
        """Return the questions of the probe as a rubric of their own; `None` for a rubric without a probe."""
        if self.probe is UNSET or not self.probe:
            return None
        crops = [self.image(role) for role in PROBED_ROLES]
        return Rubric(
            rubric=f"{self.name}-probe",
            version=self.version,
            title="A closer look at an edit",
            summary=_PROBE_SUMMARY,
            images=tuple(structs.replace(one, label=f"{one.label}, cropped") for one in crops),
            fields=self.fields,
            criteria=tuple(
                Criterion(
                    key=one.key,
                    question=one.question,
                    scale=one.scale,
                    anchors={
                        str(score): text for score, text in zip(one.scale, (one.low, one.high), strict=True) if text
                    },
                )
                for one in self.probe
            ),
            scoring=Scoring(ScoringKind.FACTORS),
        )

    def with_scoring(self, **changes: object) -> Rubric:
        """Return the rubric with some of its scoring changed, such as `threshold=0.8`."""
        return structs.replace(self, scoring=structs.replace(self.scoring, **changes))


# Prepared here and not by the first use: msgspec crashes where two threads prepare the same type.
json.Decoder(Rubric)


def override_scoring(
    rubric: Rubric, threshold: float | None, gates: Iterable[str], not_applicable: str | None
) -> Rubric:
    """Return the rubric with the scoring that flags or a suite ask for.

    Args:
        rubric: The rubric as it was loaded.
        threshold: The lowest score, 0–1, that passes; `None` for the rubric's own.
        gates: Findings that fail a case, in addition to the rubric's own gates.
        not_applicable: A value of `NotApplicable`; `None` for the rubric's own.

    Raises:
        UsageError: For a value that is not allowed.
    """
    gates = tuple(gates)
    given = {"threshold": threshold is not None, "gates": bool(gates), "not_applicable": not_applicable is not None}
    if rubric.is_preference and (wrong := [name for name, is_given in given.items() if is_given]):
        raise UsageError(
            f"{rubric.name} asks which of two is better and gives no scores: leave out {', '.join(wrong)}."
        )
    if threshold is not None:
        if not 0 <= threshold <= 1:
            raise UsageError(f"The threshold is between 0 and 1, and {threshold} is not.")
        rubric = rubric.with_scoring(threshold=threshold)
    for gate in gates:
        known = [finding.key for finding in rubric.findings]
        if gate not in known:
            raise UsageError(f"{rubric.name} has no finding {gate!r} to gate on; it has {', '.join(known) or 'none'}.")
        rubric = rubric.with_scoring(gates=(*rubric.scoring.gates, GateRule(finding=gate)))
    if not_applicable is not None:
        try:
            rubric = rubric.with_scoring(not_applicable=NotApplicable(not_applicable))
        except ValueError:
            allowed = ", ".join(NotApplicable)
            raise UsageError(
                f"What happens to N/A answers (not_applicable) is one of {allowed}, not {not_applicable!r}."
            ) from None
    return rubric
