"""A verdict: the checked and scored answer, or the outcome that says why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cache
from math import isfinite
from typing import TypeVar

from beholder.errors import UsageError
from beholder.rubrics.rubric import Number

Amount = TypeVar("Amount", int, Decimal)


class Outcome(StrEnum):
    """How judging a case ended; the closed list. Only `scored` has numbers."""

    SCORED = "scored"
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
    """Something a reader should know; nothing was changed. `said` is what the judge said, where it said something."""

    flag: str
    at: str = ""
    said: object = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Correction:
    """A place where code overruled the judge: what it said, what stands, and why."""

    at: str
    said: object
    stands: object
    why: str


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """One assertion as it was answered: `yes`, `no` or `not_applicable`; `abstained` where it was left open by a judge
    that may."""

    id: str
    question: str
    answer: str
    evidence: str = ""
    confidence: Number | None = None


@dataclass(frozen=True, slots=True)
class CriterionResult:
    """One criterion. `score` is on its own scale and `None` where nothing in it applied; `reported` is the judge's.

    `abstained` counts the assertions that were left open (1 for a criterion without any); `score_range` is then where
    the score lies, whatever their answers are.
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


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the `what` (assertions, factors, criteria) that apply were answered."""

    measured: int
    of: int
    what: str = "assertions"

    @property
    def open(self) -> int:
        return self.of - self.measured


@dataclass(frozen=True, slots=True)
class SentImage:
    """An image as the judge got it. `width`, `height`, `bytes` and `digest` are of what was sent."""

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
class Juror:
    """What one member of a jury said: its outcome, and its scores if it has any. `flags`, `corrections`, `images` and
    `brief_digest` are those of its own verdict."""

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
    """Several answers combined. `spread` is highest minus lowest score by criterion, and of the overall `score`;
    `agreement` the share of assertions that all answering jurors answered alike (`None` without assertions)."""

    answered: int
    failed: int
    spread: Mapping[str, Number]
    agreement: float | None
    jurors: tuple[Juror, ...]


@dataclass(frozen=True, slots=True)
class CalibratedRating:
    """The mean rating that people would give, by a calibration fitted on what people said; the judge's own number,
    `raw`, stands unchanged beside it.

    `value` lies on the human `scale`, and the mean ratings of most cases (of how many, the calibration says) lie
    between `low` and `high`. Where it could not be applied these are None, and `why` says why. `calibration` is the
    start of the digest of its file; `filled` names what was missing here and taken as usual.
    """

    value: float | None
    low: float | None
    high: float | None
    scale: tuple[float, float]
    raw: Number | None
    calibration: str
    why: str = ""
    filled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The names here are the columns of exports and the words on the page.

    `score` is always 0–1 (`None` when there is none); `score_derived` says that the rubric itself defines no overall
    and this is the mean of its factors. `partial` says that something did not apply and the total was rescaled.
    `reported` keeps overall values that the judge claimed. `detail` is one sentence on an outcome other than `scored`.
    `coverage` and `total_range` are there where a judge that may abstain left something open: then, and only then, a
    scored verdict may have no `score` (see `verdicts.abstaining`). `finish` says why the judge's last answer ended:
    `complete`, `length`, `refused` or `filtered`; `None` where there was none, or it is not known. `calibrated` are by
    aspect the ratings that people would give; nothing else follows from them.
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

    @property
    def scored(self) -> bool:
        return self.outcome is Outcome.SCORED

    @property
    def missing_score_reason(self) -> str:
        """Why there is no `score`, in short: the outcome and its detail, or how little was measured. Empty where there
        is one."""
        if self.score is not None:
            return ""
        if self.scored and self.coverage:
            return f"not measured, only {self.coverage.measured} of {self.coverage.of} {self.coverage.what} measured"
        return f"{self.outcome}, {self.detail}"

    def to_dict(self) -> dict[str, object]:
        """The verdict as JSON values, without the raw answer."""
        values = _to_json(self)
        assert isinstance(values, dict)
        del values["answer"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> Verdict:
        """The verdict that `to_dict` (or a line of `beholder export --to jsonl`) describes; other keys are ignored.

        What JSON cannot hold comes back as JSON held it: a list for a tuple in `said`, and a cost to the precision of
        a double. Raises `UsageError` for anything that is no verdict.
        """
        import msgspec

        usage = values.get("usage")
        if isinstance(usage, Mapping):  # a count past all bounds was quoted as a text
            counts = {name: count if isinstance(count, int) else None for name, count in usage.items()}
            values = {**values, "usage": counts}
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise UsageError(f"This is no verdict: {error}.") from None


def to_plain_number(number: Fraction) -> Number:
    """An exact number for show and storage: an integer where it is one, else the nearest double."""
    return int(number) if number.denominator == 1 else float(number)


def round_half_up(number: Number, places: int = 2) -> Number:
    """A number for people, wherever it is shown: halves away from zero, as a person rounds; whole ones stay whole."""
    if isinstance(number, int):
        return number
    return float(Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


def format_count(count: int, one: str, many: str = "") -> str:
    """`1 word`, `2 words`; `many` where an s is not enough."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def sum_if_known(values: Sequence[Amount | None]) -> Amount | None:
    """The sum, unknown as soon as one part of it is (or there is none)."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return sum(known[1:], known[0])


def _to_json(value: object) -> object:
    # A run asks for thousands of verdicts: what is common comes first, and the slow checks of an ABC last.
    kind: type = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if isinstance(value, int | float):
        return value if -MAX_JSON_NUMBER <= value <= MAX_JSON_NUMBER else quote_value(value)
    if isinstance(value, tuple | list):
        return [_to_json(inner) for inner in value]
    names = _field_names(kind)
    if names:
        return {name: _to_json(getattr(value, name)) for name in names}
    if isinstance(value, dict | Mapping):
        return {str(key): _to_json(inner) for key, inner in value.items()}
    if isinstance(value, Decimal):
        return float(value) if isfinite(value) and -MAX_JSON_NUMBER <= value <= MAX_JSON_NUMBER else quote_value(value)
    if isinstance(value, Fraction):
        return to_plain_number(value)
    return value


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else ()


_MAX_QUOTED = 60


MAX_JSON_NUMBER = 10**18  # past this a number is quoted as a text: not every reader of JSON can hold it


def quote_value(value: object) -> str:
    """A value as an error quotes it: short, on one line."""
    if value is None:
        return "missing"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_JSON_NUMBER:
        return "a huge number"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = str(value) if isinstance(value, Decimal) else repr(value)
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + "…"
