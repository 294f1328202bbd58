"""A verdict: the checked and scored answer, or the outcome that says why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cache
from math import ceil, isfinite
from typing import Any, TypeVar

import msgspec

from beholder.errors import JudgeUnavailable, UsageError
from beholder.rubrics.rubric import Number, Rubric, to_fraction

Amount = TypeVar("Amount", int, Decimal)

OMIT_IF_NONE = "omit_if_none"  # fields that `to_dict` leaves out where they are `None`: they came later than the others


class Outcome(StrEnum):
    """How judging a case ended. Only `scored` has a score; `unmeasured` has the numbers of what was measured."""

    SCORED = "scored"
    UNMEASURED = "unmeasured"
    REFUSED = "refused"
    FILTERED = "filtered"
    TRUNCATED = "truncated"
    INVALID = "invalid"
    UNREACHABLE = "unreachable"
    UNREADABLE = "unreadable"
    OVER_BUDGET = "over_budget"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Flag:
    """Something a reader of the verdict should know; nothing was changed because of it.

    Attributes:
        flag: What kind of thing, such as `reason_length`.
        at: The place in the answer, the image role, or other part of the verdict.
        said: What the judge said there, if anything.
        why: A sentence for people.
    """

    flag: str
    at: str = ""
    said: object = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Correction:
    """A place where code overruled the judge: what the judge `said`, the value that `stands` instead, and why."""

    at: str
    said: object
    stands: object
    why: str


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """One assertion and its answer: `yes`, `no`, `not_applicable`, or `abstained` from a judge that may abstain."""

    id: str
    question: str
    answer: str
    evidence: str = ""
    confidence: Number | None = None


@dataclass(frozen=True, slots=True)
class CriterionResult:
    """The result of one criterion.

    Attributes:
        score: On the criterion's own scale; `None` where nothing applied or too much was not answered.
        reported: The judge's own score.
        yes: The number of assertions answered Yes; `no` and `not_applicable` likewise.
        abstained: The number of assertions that the judge did not answer; 1 for a criterion without assertions.
        score_range: Where the score lies, whatever the missing answers are; only with abstentions.
        choice: Of a preference, which candidate is better in it, see `Preference.winner`; else `None`.
    """

    score: Number | None
    reported: Number | None
    scale: tuple[Number, Number]
    weight: Number
    reason: str = ""
    yes: int = 0
    no: int = 0
    not_applicable: int = 0
    assertions: tuple[AssertionResult, ...] = ()
    abstained: int = 0
    score_range: tuple[Number, Number] | None = None
    choice: str | None = field(default=None, metadata={OMIT_IF_NONE: True})


# The outcomes of a valid answer: asking again would give the same.
ANSWERED_OUTCOMES = frozenset({Outcome.SCORED, Outcome.UNMEASURED})
FINAL_OUTCOMES = ANSWERED_OUTCOMES | {Outcome.REFUSED, Outcome.FILTERED}  # after which a case is done in its run

MIN_COVERAGE = Fraction(8, 10)  # a verdict that answers a smaller share of what applies has no score


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much was answered: `measured` of the `of` assertions, factors or criteria (`what`) that apply."""

    measured: int
    of: int
    what: str = "assertions"

    @property
    def open(self) -> int:
        """The number that was not answered."""
        return self.of - self.measured

    @property
    def is_enough(self) -> bool:
        """Whether the whole can be scored by what was answered."""
        return self.measured >= MIN_COVERAGE * self.of

    @property
    def sentence(self) -> str:
        """Say that it is not enough, as the `detail` of a verdict."""
        return f"only {self.measured} of {self.of} {self.what} measured, and a score needs {MIN_COVERAGE * 100} %"


@dataclass(frozen=True, slots=True)
class SentImage:
    """An image that was sent to the judge. `width`, `height`, `bytes` and `digest` are of what was sent."""

    role: str
    digest: str
    width: int
    height: int
    bytes: int
    scaled: bool
    media_type: str
    source_digest: str
    source_width: int
    source_height: int
    source_format: str


@dataclass(frozen=True, slots=True)
class CasePicture:
    """An image of the case that no judge was sent: its role, and the digest of its file."""

    role: str
    source_digest: str


Box = tuple[float, float, float, float]  # left, top, right, bottom in shares of width and height, 0 to 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the images something is that the verdict speaks of.

    Attributes:
        at: What lies there: the name of a measurement, the `at` of a flag, the id of an assertion, or the key of a
            criterion or of findings, with a number from 1 for one of them: `hallucinations.1`.
        boxes: Around it, from the upper left corner.
        role: The role of the image that the boxes are for; empty where they are for all images of the case.
    """

    at: str
    boxes: tuple[Box, ...]
    role: str = ""


@dataclass(frozen=True, slots=True)
class Juror:
    """One member of a jury: its outcome, its scores if it has any, and other parts of its own verdict."""

    judge: str
    sample: int
    outcome: Outcome
    score: float | None = None
    criteria: Mapping[str, Number | None] = field(default_factory=dict)
    detail: str = ""
    model: str | None = None
    flags: tuple[Flag, ...] = ()
    corrections: tuple[Correction, ...] = ()
    images: tuple[SentImage, ...] = ()
    brief_digest: str = ""


@dataclass(frozen=True, slots=True)
class Jury:
    """What is known of a jury besides the combined verdict.

    Attributes:
        answered: The number of jurors with a score.
        failed: The number of jurors without an answer. Those who are in neither number are `unmeasured`.
        spread: The highest minus the lowest score, by criterion, and of the overall `score`.
        agreement: The share of assertions that all answering jurors answered alike; `None` without assertions.
    """

    answered: int
    failed: int
    spread: Mapping[str, Number]
    agreement: float | None
    jurors: tuple[Juror, ...]

    @property
    def unmeasured(self) -> int:
        """The number of jurors who answered too little for a score of their own; what they answered counts."""
        return sum(juror.outcome is Outcome.UNMEASURED for juror in self.jurors)


@dataclass(frozen=True, slots=True)
class CalibratedRating:
    """The mean rating that people would give, as a calibration predicts it.

    Attributes:
        value: On the human `scale`; `None` where the calibration could not be applied, and `why` says why.
        low: The lower end of the interval in which the mean ratings of most cases lie; `high` is the upper end. The
            calibration says of how many cases.
        raw: The judge's own number, unchanged.
        calibration: The start of the digest of the calibration's file.
        filled: The names of inputs that were missing here and replaced by their median.
    """

    value: float | None
    low: float | None
    high: float | None
    scale: tuple[float, float]
    raw: Number | None
    calibration: str
    why: str = ""
    filled: tuple[str, ...] = ()


FIRST, SECOND, TIE, BOTH_BAD = WINNERS = ("first", "second", "tie", "both_bad")


@dataclass(frozen=True, slots=True)
class PreferenceAnswer:
    """What one call said of a pair, or why it said nothing.

    Attributes:
        order: `given`, or `swapped` if the second candidate was shown as A.
        outcome: How the call ended.
        choice: `first`, `second`, `tie` or `both_bad`, whatever letters the judge saw; `None` without an answer.
        strength: 1 to 3, with a candidate as choice; `None` where the judge gave none.
        reason: The judge's own words: its A is the second candidate in swapped order.
        judge: Who was asked; `sample` is the number of the sample.
    """

    order: str
    outcome: Outcome
    choice: str | None = None
    strength: int | None = None
    reason: str = ""
    detail: str = ""
    brief_digest: str = ""
    judge: str = ""
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Preference:
    """Which of two candidates is better.

    Attributes:
        winner: `first`, `second`, `tie` or `both_bad`; `None` unless the verdict is `scored`.
        strength: The mean strength of one judge's answers that named the winner; of a jury the mean over the jurors
            who came to that winner, each counted once. `None` without a candidate as winner, or where none gave one.
        flipped: Whether a judge named one candidate in one order and the other one in the other.
        answers: All calls: for each judge and sample, in each order.
    """

    winner: str | None
    strength: float | None = None
    flipped: bool = False
    answers: tuple[PreferenceAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The checked and scored answer to one case, or the outcome that says why there is none.

    The names of the attributes are also the columns of exports and the keys of verdict JSON.

    Attributes:
        detail: One sentence on an outcome other than `scored`.
        score: Always 0–1; `None` unless the outcome is `scored`.
        score_derived: Whether the rubric defines no overall score, and `score` is the mean of its factors.
        partial: Whether something did not apply, so that the total was rescaled.
        reported: Overall values that the judge claimed.
        finish: Why the judge's last answer ended: `complete`, `length`, `refused` or `filtered`; `None` where there was
            no answer or it is not known.
        coverage: How much was answered; only with abstentions. `total_range` is then where the total lies. Below 80 %
            the outcome is `unmeasured`, and only what was measured in full has a number.
        calibrated: By aspect, the ratings that people would give; nothing else depends on them.
        preference: By a rubric of kind `preference`, which of the two candidates is better. The `score` is then 1 for
            the first, 0 for the second and 0.5 for a tie or two bad ones, and is marked as derived.
        valid_criteria: Of an invalid answer that was scored again (`score`), the criteria that are valid by themselves.
            They count in nothing but calibrations.
        pictures: The images of the case where no judge was sent any, so that they can be shown; `None` where images
            were sent, or none could be read.
        places: Where in the images that is of which the verdict speaks, as far as it is known; `None` where it is not.
    """

    case: str
    rubric: str
    rubric_version: str
    judge: str
    outcome: Outcome
    setting: str | None = None
    style: str | None = None
    model: str | None = None
    detail: str = ""
    criteria: Mapping[str, CriterionResult] = field(default_factory=dict)
    total: float | None = None
    max_total: float | None = None
    percentage: float | None = None
    grade: str | None = None
    score: float | None = None
    score_derived: bool = False
    partial: bool = False
    passed: bool | None = None
    findings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    assessment: str = ""
    reported: Mapping[str, object] = field(default_factory=dict)
    flags: tuple[Flag, ...] = ()
    corrections: tuple[Correction, ...] = ()
    measurements: Mapping[str, object] = field(default_factory=dict)
    jury: Jury | None = None
    images: tuple[SentImage, ...] = ()
    usage: Mapping[str, int | None] = field(default_factory=dict)
    cost_usd: Decimal | None = None
    latency_s: float | None = None
    attempts: int = 0
    finish: str | None = None
    brief_digest: str = ""
    answer: str = ""
    """The judge's answer as it came; kept out of `to_dict`."""
    coverage: Coverage | None = None
    total_range: tuple[float, float] | None = None
    calibrated: Mapping[str, CalibratedRating] = field(default_factory=dict)
    preference: Preference | None = field(default=None, metadata={OMIT_IF_NONE: True})
    valid_criteria: Mapping[str, CriterionResult] | None = field(default=None, metadata={OMIT_IF_NONE: True})
    pictures: tuple[CasePicture, ...] | None = field(default=None, metadata={OMIT_IF_NONE: True})
    places: tuple[Place, ...] | None = field(default=None, metadata={OMIT_IF_NONE: True})

    def __repr__(self) -> str:
        result = str(self.outcome) if self.score is None else f"{self.outcome} {round_half_up(self.score):.2f}"
        if self.preference is not None and self.preference.winner is not None:
            result = f"{self.outcome} {self.preference.winner}"
        return " ".join(f"<Verdict on {self.case!r} by {self.rubric}: {result}, {self.judge}>".split())

    def __ge__(self, other: Number) -> bool:
        """Compare the score, as `>`, `<=` and `<` do: `assert verdict >= 0.8`. Without one it is `JudgeUnavailable`."""
        return self._needed_score >= other if isinstance(other, int | float) else NotImplemented

    def __gt__(self, other: Number) -> bool:
        return self._needed_score > other if isinstance(other, int | float) else NotImplemented

    def __le__(self, other: Number) -> bool:
        return self._needed_score <= other if isinstance(other, int | float) else NotImplemented

    def __lt__(self, other: Number) -> bool:
        return self._needed_score < other if isinstance(other, int | float) else NotImplemented

    @property
    def _needed_score(self) -> float:
        if self.score is None:
            raise JudgeUnavailable(f"{self.case} has no score: {self.missing_score_reason}", self)
        return self.score

    def card(self, *, full: bool = False, width: int = 100) -> str:
        """Return the verdict as a text card, as `beholder judge` prints it; `full` shows every assertion."""
        from beholder.reports.cards import verdict_text

        return verdict_text(self, full=full, width=width)

    def to_seed(self, rubric: Rubric) -> dict[str, object]:
        """Return the published JSON of the rubric's origin, as `--format seed` prints it.

        Args:
            rubric: The rubric, in the style and setting that was used.

        Raises:
            UsageError: The verdict has no score or the rubric no such format.
        """
        from beholder.verdicts.seed_format import to_seed_format

        return to_seed_format(self, rubric)

    def _repr_html_(self) -> str:
        from beholder.reports.cards import verdict_html

        return str(verdict_html(self))

    @property
    def scored(self) -> bool:
        """Whether there is a `score`."""
        return self.outcome is Outcome.SCORED

    @property
    def shown_images(self) -> tuple[SentImage | CasePicture, ...]:
        """The images of the case to be shown beside the verdict, whether or not a judge was sent them."""
        return self.images or self.pictures or ()

    @property
    def failed_gates(self) -> tuple[str, ...]:
        """The keys of the findings and criteria whose gate failed the case whatever its score; those of single jurors
        do not count."""
        gates = {flag.at for flag in self.flags if flag.flag == "gate"}
        return tuple(key for key in (*self.findings, *self.criteria) if key in gates)

    @property
    def is_decisive(self) -> bool:
        """Whether something follows from the score beside which it is shown: the verdict failed, or has a grade."""
        return self.passed is False or self.grade is not None

    @property
    def answered(self) -> bool:
        """Whether a judge gave a valid answer: `scored` or `unmeasured`."""
        return self.outcome in ANSWERED_OUTCOMES

    @property
    def score_range(self) -> tuple[float, float] | None:
        """Where the score lies (0–1) whatever is true of what was not measured; `None` where all was measured."""
        if self.coverage is None or not self.answered:
            return None
        if self.total_range is not None and self.max_total:
            low, high = (end / self.max_total for end in self.total_range)
            return low, high
        ends, weights = [0.0, 0.0], 0.0
        for result in self.criteria.values():
            known = result.score_range if result.score is None else (result.score, result.score)
            bottom, top = result.scale
            if known is not None and top > bottom:
                weights += result.weight
                ends = [
                    end + result.weight * (at - bottom) / (top - bottom) for end, at in zip(ends, known, strict=True)
                ]
        return (ends[0] / weights, ends[1] / weights) if weights else None

    @property
    def no_count(self) -> int:
        """How many assertions were answered No."""
        return sum(result.no for result in self.criteria.values())

    @property
    def missing_score_reason(self) -> str:
        """Why there is no `score`: the outcome and its detail. Empty where there is one."""
        return "" if self.score is not None else f"{self.outcome}, {self.detail}"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values, without the raw answer: `{**verdict.to_dict(), "answer": verdict.answer}`
        has it, and `from_dict` keeps it."""
        values = _to_json(self)
        assert isinstance(values, dict)
        del values["answer"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Verdict:
        """Return the verdict that `to_dict` (or a line of `beholder export --to jsonl`) describes.

        Unknown keys are ignored. `to_dict` leaves out the raw answer, which may be long; where the values have an
        `answer`, as those of `beholder judge --json` do, it is kept. What JSON cannot represent stays as in JSON: a
        tuple in `said` is a list, and a cost has the precision of a double.

        Raises:
            UsageError: When the values describe no verdict.
        """
        if not isinstance(values, Mapping):
            raise UsageError(f"A verdict is described by a mapping, not by {values!r:.60}.")
        usage = values.get("usage")
        if isinstance(usage, Mapping):  # `to_dict` writes an absurdly large count as a text
            counts = {name: count if isinstance(count, int) else None for name, count in usage.items()}
            values = {**values, "usage": counts}
        try:
            return mark_unmeasured(msgspec.convert(values, cls))
        except msgspec.ValidationError as error:
            raise UsageError(f"This is no verdict: {error}.") from None


msgspec.json.Decoder(Verdict)  # prepared, see rubrics/rubric.py


def mark_unmeasured(verdict: Verdict) -> Verdict:
    """Return a verdict as the coverage rule has it: `unmeasured`, without a score, where too little was answered.

    Ledgers before version 5, and what was exported from them, have no such outcome: these verdicts were `scored`
    without a score, and by factors with the mean of however few were answered.
    """
    if verdict.jury is not None:
        jurors = tuple(
            replace(juror, outcome=Outcome.UNMEASURED)
            if juror.outcome is Outcome.SCORED and juror.score is None
            else juror
            for juror in verdict.jury.jurors
        )
        if jurors != verdict.jury.jurors:
            answered = sum(juror.outcome is Outcome.SCORED for juror in jurors)
            verdict = replace(verdict, jury=replace(verdict.jury, answered=answered, jurors=jurors))
    if not verdict.scored or verdict.coverage is None or (verdict.score is not None and verdict.coverage.is_enough):
        return verdict
    return replace(
        verdict,
        outcome=Outcome.UNMEASURED,
        detail=verdict.coverage.sentence,
        total=None,
        percentage=None,
        grade=None,
        score=None,
        partial=False,
        passed=False if any(flag.flag == "gate" for flag in verdict.flags) else None,
    )


def to_plain_number(number: Fraction) -> Number:
    """Return an exact number for storage: an integer where it is one, else the nearest double."""
    return int(number) if number.denominator == 1 else float(number)


def round_half_up(number: Number, places: int = 2) -> Number:
    """Return a rounded number for people: halves go away from zero; integers stay integers."""
    if isinstance(number, int):
        return number
    return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


def round_beside(number: Number, limits: Iterable[Number], places: int = 2) -> Number:
    """Return a rounded number for people that stands beside `limits`: thresholds, the `least` of a gate or grade.

    It has more decimals than `places` where it would otherwise seem to lie on, above or below a limit and does not.
    """
    bounds = [to_fraction(limit) for limit in limits]
    sides = [_compare(to_fraction(number), bound) for bound in bounds]
    for decimals in range(places, 17):
        rounded = round_half_up(number, decimals)
        if [_compare(to_fraction(rounded), bound) for bound in bounds] == sides:
            return rounded
    return number


def _compare(number: Fraction, bound: Fraction) -> int:
    return (number > bound) - (number < bound)


def format_beside(number: Number, limits: Iterable[Number], places: int = 2) -> str:
    """Return `round_beside` as a text with at least so many decimals."""
    rounded = round_beside(number, limits, places)
    short = f"{rounded:.{places}f}"
    return short if to_fraction(short) == to_fraction(rounded) else f"{Decimal(str(rounded)):f}"


def format_share(share: float, places: int = 2, *, decisive: bool) -> str:
    """Return a score, of the whole (0–1) or of a criterion, for people. By a `decisive` one a verdict has failed or has
    its grade, by a limit that the verdict does not name: it is not rounded up to a hundredth that it does not reach."""
    return format_beside(share, [ceil(to_fraction(share) * 100) / 100] if decisive else (), places)


def format_count(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 word`, `2 words`. `many` is the plural where an s is not enough."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def sum_if_known(values: Sequence[Amount | None]) -> Amount | None:
    """Return the sum; `None` where one of the values is unknown, or there are none."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return sum(known[1:], known[0])


def _to_json(value: object) -> object:
    """Return JSON values. Not `msgspec.to_builtins`, which has no hook for Decimal and for very large numbers.

    A run does this for thousands of verdicts: common types come first, and the slow check for an ABC last.
    """
    kind: type = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if isinstance(value, int | float):
        return value if -MAX_JSON_NUMBER <= value <= MAX_JSON_NUMBER else quote_value(value)
    if isinstance(value, tuple | list):
        return [_to_json(inner) for inner in value]
    names = _field_names(kind)
    if names:
        values = {name: _to_json(getattr(value, name)) for name in names}
        for name in _omitted_names(kind):
            if values[name] is None:
                del values[name]
        return values
    if isinstance(value, dict | Mapping):
        return {str(key): _to_json(inner) for key, inner in value.items()}
    if isinstance(value, Decimal):
        return float(value) if isfinite(value) and -MAX_JSON_NUMBER <= value <= MAX_JSON_NUMBER else quote_value(value)
    if isinstance(value, Fraction):
        return to_plain_number(value)
    return value


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


@cache
def _omitted_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if OMIT_IF_NONE in field.metadata)


_MAX_QUOTED = 60
MAX_JSON_NUMBER = 10**18  # a larger number is written as a text: not every reader of JSON can represent it


def quote_value(value: object) -> str:
    """Return a value as error messages quote it: short, on one line."""
    if value is None:
        return "missing"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_JSON_NUMBER:
        return "a huge number"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = str(value) if isinstance(value, Decimal) else repr(value)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + "…"
