"""The data of a run for its reports, collected in one pass over its verdicts.

`collect_run_data` counts and indexes every verdict, and writes its detail (all that a page shows of it) to a file as it
comes, so that memory stays bounded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, NamedTuple, TypeVar

from beholder.arena.pairs import MODEL_FIRST, MODEL_SECOND
from beholder.instruments.instrument import state_condition
from beholder.judges.audit import DISAGREE, NOT_AUDITED
from beholder.ledger.encoding import FACET_STYLE, FACET_WINNER
from beholder.ledger.ledger import Ledger
from beholder.ledger.query import Tally
from beholder.ledger.types import RunRecord, StoredVerdict
from beholder.reports.text import case_caption, describe_measured, escape_hidden, escape_hidden_values, truncate
from beholder.statistics.data import Scores, tabulate_verdicts
from beholder.verdicts.verdict import CriterionResult, Verdict, quote_value

_UNCUT_KEYS = {"case", "rubric", "judge", "model", "images", "pictures", "gates", "places"}
_OMITTED_KEYS = {"rubric_version", "score_derived"}


class StringTable:
    """Repeated texts, each stored once and referred to by its number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        return list(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


def verdict_detail(
    stored: StoredVerdict, fields: Mapping[str, object], questions: StringTable, pictures: Mapping[str, int]
) -> dict[str, object]:
    """Return what a page shows of a verdict, as JSON values.

    Args:
        stored: The verdict with the groups of its case.
        fields: The texts of the case.
        questions: Table of the texts of questions; new ones are added to it.
        pictures: Number of each picture on the page, by the digest of the image file.

    Returns:
        The names of `Verdict.to_dict` without empty values, with `groups`, `fields`, `lack` (why there is no score) and
        `gates` (what failed it whatever its score);
        each image has its `picture`, each assertion the number of its question.
    """
    verdict = stored.verdict
    values = {key: value for key, value in verdict.to_dict().items() if key not in _OMITTED_KEYS}
    values |= {"groups": dict(stored.groups), "fields": dict(fields), "lack": verdict.missing_score_reason}
    values |= {"reused": stored.reused or None, "partial": verdict.partial or None}
    values |= {"measured": describe_measured(verdict), "score_range": verdict.score_range}
    values["criteria"] = {
        key: _criterion_detail(result, questions) for key, result in _mapping(values["criteria"]).items()
    }
    values["images"] = [_image_detail(image, pictures) for image in _list(values["images"])]
    values["pictures"] = [_image_detail(image, pictures) for image in _list(values.get("pictures", []))]
    values["gates"] = list(verdict.failed_gates)
    values["measurements"] = {
        name: entry | {"sentence": state_condition(name, entry["sentence"])}
        if isinstance(entry, dict) and isinstance(entry.get("sentence"), str)
        else entry
        for name, entry in _mapping(values["measurements"]).items()
    }
    detail = escape_hidden_values({key: value for key, value in values.items() if not _is_empty(value)})
    assert isinstance(detail, dict)
    return detail


def truncate_detail(values: dict[str, object], longest: int) -> dict[str, object]:
    """Return a detail with texts cut to `longest` characters; names of case, judge, criteria and flags stay whole."""
    kept = {key: value for key, value in values.items() if key in _UNCUT_KEYS}
    rest = {key: escape_hidden_values(value, longest) for key, value in values.items() if key not in kept}
    if measurements := rest.get("measurements"):
        rest["measurements"] = {
            key: {part: inner for part, inner in value.items() if part != "sentence"}
            if isinstance(value, dict)
            else value
            for key, value in _mapping(measurements).items()
        }
    return kept | rest


def _criterion_detail(result: object, questions: StringTable) -> dict[str, object]:
    values = {key: value for key, value in _mapping(result).items() if not _is_empty(value)}
    if assertions := values.get("assertions"):
        values["assertions"] = [
            {
                key: questions.number(str(value)) if key == "question" else value
                for key, value in _mapping(assertion).items()
                if not _is_empty(value)
            }
            for assertion in _list(assertions)
        ]
    return values


def _image_detail(image: object, pictures: Mapping[str, int]) -> dict[str, object]:
    values = dict(_mapping(image))
    number = pictures.get(str(values["source_digest"]))
    return values if number is None else {**values, "picture": number}


def _is_empty(value: object) -> bool:
    """Return whether there is nothing to show; 0 and False are values."""
    return value is None or value in ("", [], {})


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, Mapping)
    return value


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


MAX_EXAMPLES = 3
AUDIT_FLAGS = (DISAGREE, NOT_AUDITED)
_MAX_QUOTE = 160  # characters of the text of an example
_MAX_CAPTION = 100  # characters of the instruction on a card
_MAX_DISTINCT = 5000  # texts of a finding that are counted; later ones are only in the cases

T = TypeVar("T")
ProgressCallback = Callable[[str, int, int], object]
"""Called as work proceeds, with its name, how much is done, and how much there is."""


def no_progress(what: str, done: int, of: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class ExampleVerdict:
    """A verdict to show as an example: its number on the page (`None` if it is not there), its case and rubric, and a
    quote."""

    number: int | None
    case: str
    rubric: str
    text: str = ""


class AskedAssertion(NamedTuple):
    """An assertion of a rubric, for a style (empty for none)."""

    rubric: str
    style: str
    id: str
    question: str


@dataclass(slots=True)
class AnswerCounts:
    """How the assertions of a criterion were answered over a run; of one without assertions, how often it has a score
    (`scored`) or was not measured."""

    yes: int = 0
    no: int = 0
    scored: int = 0
    not_measured: int = 0
    not_applicable: int = 0

    def add(self, result: CriterionResult) -> None:
        self.yes += result.yes
        self.no += result.no
        self.not_measured += result.abstained
        self.not_applicable += result.not_applicable
        self.scored += not result.assertions and not result.abstained and result.score is not None


@dataclass(slots=True)
class FindingCount:
    """How often something occurred, of how many times it could have, with a few examples."""

    count: int = 0
    of: int = 0
    examples: list[ExampleVerdict] = field(default_factory=list)

    def add(self, number: int, verdict: Verdict, text: str = "") -> None:
        self.count += 1
        if len(self.examples) < MAX_EXAMPLES and all(example.number != number for example in self.examples):
            self.examples.append(ExampleVerdict(number, verdict.case, verdict.rubric, truncate(text, _MAX_QUOTE)))


PAIR_GROUP = "models"  # the filter of the report by the two models of a pair


def pair_name(model: str, other: str) -> str:
    """Return the two models of a pair in one name, whichever of them is first."""
    return " and ".join(sorted((model, other)))


_VERDICT_COLUMNS = (
    "case",
    "rubric",
    "state",
    "score",
    "grade",
    "passed",
    "flagged",
    "corrected",
    "pictured",
    "no",
    "caption",
)


@dataclass(slots=True)
class VerdictIndex:
    """Columns over all verdicts with what the page needs to filter, sort and draw cards.

    Rubrics, flags, group values and the caption of a card are numbers into the tables `rubrics`, `flags`, `values` and
    `captions`. `no` counts assertions answered No. Of verdicts that were measured in part, `measured` says how far
    and where the score lies (0–1), and `ranges`, by criterion, where its score lies.
    """

    case: list[str] = field(default_factory=list)
    rubric: list[int] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    score: list[float | None] = field(default_factory=list)
    grade: list[str | None] = field(default_factory=list)
    passed: list[bool | None] = field(default_factory=list)
    flagged: list[list[int]] = field(default_factory=list)
    gated: dict[int, list[int]] = field(default_factory=dict)  # only those that failed by a gate
    corrected: list[int] = field(default_factory=list)
    no: list[int] = field(default_factory=list)
    caption: list[int] = field(default_factory=list)
    measured: dict[int, tuple[str, float | None, float | None]] = field(default_factory=dict)
    ranges: dict[str, dict[int, tuple[float, float]]] = field(default_factory=dict)
    pictured: list[list[int]] = field(default_factory=list)
    criteria: dict[str, list[float | None]] = field(default_factory=dict)
    groups: dict[str, list[int | None]] = field(default_factory=dict)
    scales: dict[str, tuple[float, float]] = field(default_factory=dict)
    rubrics: StringTable = field(default_factory=StringTable)
    flags: StringTable = field(default_factory=StringTable)
    gates: StringTable = field(default_factory=StringTable)
    values: StringTable = field(default_factory=StringTable)
    captions: StringTable = field(default_factory=StringTable)

    def __len__(self) -> int:
        return len(self.case)

    def add(self, stored: StoredVerdict, pictures: list[int], caption: str = "") -> int:
        """Add a verdict and return its number on the page."""
        verdict, number = stored.verdict, len(self)
        self.case.append(escape_hidden(verdict.case))
        self.rubric.append(self.rubrics.number(escape_hidden(verdict.rubric)))
        self.state.append(str(stored.verdict.outcome))
        self.score.append(verdict.score)
        self.grade.append(None if verdict.grade is None else escape_hidden(verdict.grade))
        self.passed.append(verdict.passed)
        self.flagged.append(
            [self.flags.number(escape_hidden(name)) for name in dict.fromkeys(f.flag for f in verdict.flags)]
        )
        if gates := verdict.failed_gates:
            self.gated[number] = [self.gates.number(escape_hidden(key)) for key in gates]
        self.corrected.append(len(verdict.corrections))
        self.pictured.append(pictures)
        self.no.append(verdict.no_count)
        self.caption.append(self.captions.number(escape_hidden(caption)))
        if verdict.coverage is not None:
            self.measured[number] = (describe_measured(verdict), *(verdict.score_range or (None, None)))
        for key, result in verdict.criteria.items():
            self.scales.setdefault(escape_hidden(key), (float(result.scale[0]), float(result.scale[1])))
            if result.score is None and result.score_range is not None:
                low, high = result.score_range
                self.ranges.setdefault(escape_hidden(key), {})[number] = (float(low), float(high))
            _append_padded(self.criteria, escape_hidden(key), number, result.score)
        groups = {**stored.groups, FACET_STYLE: verdict.style} if verdict.style else stored.groups
        if verdict.preference is not None and verdict.preference.winner is not None:
            groups = {**groups, FACET_WINNER: verdict.preference.winner}
        if MODEL_FIRST in stored.groups and MODEL_SECOND in stored.groups:
            groups = {**groups, PAIR_GROUP: pair_name(stored.groups[MODEL_FIRST], stored.groups[MODEL_SECOND])}
        for name, value in groups.items():
            _append_padded(self.groups, escape_hidden(name), number, self.values.number(escape_hidden(value)))
        return number

    def select(self, numbers: Sequence[int], picture: Callable[[int], int]) -> VerdictIndex:
        """Return the index of some verdicts, which get new numbers in this order; `picture` numbers pictures anew."""
        self.to_dict()  # pads the columns
        places = {number: place for place, number in enumerate(numbers)}

        def chosen(column: Sequence[T]) -> list[T]:
            return [column[number] for number in numbers]

        def sparse(values: Mapping[int, T]) -> dict[int, T]:
            return {places[number]: value for number, value in values.items() if number in places}

        made = replace(
            self,
            criteria={key: chosen(column) for key, column in self.criteria.items()},
            gated=sparse(self.gated),
            values=StringTable(),  # only those that are still referred to
            captions=StringTable(),
            measured=sparse(self.measured),
            ranges={key: sparse(values) for key, values in self.ranges.items()},
        )
        for name in _VERDICT_COLUMNS:
            setattr(made, name, chosen(getattr(self, name)))
        values, captions = self.values.texts, self.captions.texts
        made.groups = {
            name: [None if value is None else made.values.number(values[value]) for value in chosen(column)]
            for name, column in self.groups.items()
        }
        made.caption = [made.captions.number(captions[one]) for one in made.caption]
        made.pictured = [[picture(one) for one in pictures] for pictures in made.pictured]
        return made

    def to_dict(self) -> dict[str, object]:
        """Return JSON values; columns of criteria and groups are padded to the number of verdicts."""
        for scores in self.criteria.values():
            scores.extend([None] * (len(self) - len(scores)))
        for values in self.groups.values():
            values.extend([None] * (len(self) - len(values)))
        document: dict[str, object] = {name: getattr(self, name) for name in _VERDICT_COLUMNS}
        document |= {"criteria": self.criteria, "groups": self.groups, "scales": self.scales}
        document |= {"measured": self.measured, "gated": self.gated, "ranges": self.ranges}
        tables = ("rubrics", "flags", "gates", "values", "captions")
        return document | {name: getattr(self, name).texts for name in tables}


@dataclass(slots=True)
class RunData:
    """Counts, index and scores of a run.

    Attributes:
        pictures: Number of each image file, by its digest, in order of appearance.
        lacks: Verdicts without a score, by their state.
        answers: By rubric and criterion, in the order in which they occur.
        corrections: By (place, what the judge said, the value that is used, why).
        kept: Verdicts whose details and pictures are in the page, in the order of the details; None for all.
    """

    record: RunRecord
    tally: Tally = field(default_factory=Tally)
    index: VerdictIndex = field(default_factory=VerdictIndex)
    questions: StringTable = field(default_factory=StringTable)
    pictures: dict[str, int] = field(default_factory=dict)
    assertions: dict[AskedAssertion, FindingCount] = field(default_factory=dict)
    answers: dict[tuple[str, str], AnswerCounts] = field(default_factory=dict)
    findings: dict[str, dict[str, FindingCount]] = field(default_factory=dict)
    flags: dict[str, FindingCount] = field(default_factory=dict)
    corrections: dict[tuple[str, str, str, str], FindingCount] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    lacks: dict[str, FindingCount] = field(default_factory=dict)
    scores: Scores = field(default_factory=lambda: Scores("", (), {}))
    cases: int = 0
    kept: list[int] | None = None


def collect_run_data(
    ledger: Ledger, record: RunRecord, details: IO[bytes] | None = None, *, watch: ProgressCallback = no_progress
) -> RunData:
    """Read all verdicts of a run once.

    Args:
        ledger: The ledger that has the run.
        record: The run.
        details: File that the detail of each verdict is written to, as a line of JSON.
        watch: Told of progress.
    """
    gathered = RunData(record)
    fields = {} if details is None else {case.id: case.fields for case in ledger.cases(record.id)}

    def read() -> Iterator[tuple[Verdict, Mapping[str, str]]]:
        for stored in ledger.stored_verdicts(record.id):
            caption = case_caption(fields.get(stored.verdict.case, {}), _MAX_CAPTION)
            number = _record_verdict(gathered, stored, caption)
            if details is not None:
                line = verdict_detail(
                    stored, fields.get(stored.verdict.case, {}), gathered.questions, gathered.pictures
                )
                details.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            watch("reading verdicts", number + 1, record.total)
            yield stored.verdict, _verdict_groups(stored)

    gathered.scores = tabulate_verdicts(escape_hidden(record.name), read())
    gathered.cases = len(gathered.scores)
    return gathered


def _record_verdict(gathered: RunData, stored: StoredVerdict, caption: str) -> int:
    """Index and count a verdict; return its number on the page."""
    verdict = stored.verdict
    digests = [image.source_digest for image in verdict.shown_images]
    pictures = [gathered.pictures.setdefault(digest, len(gathered.pictures)) for digest in digests]
    number = gathered.index.add(stored, pictures, caption)
    gathered.tally.add(stored)
    gathered.versions[verdict.rubric] = verdict.rubric_version
    if verdict.score is None:
        gathered.lacks.setdefault(str(verdict.outcome), FindingCount()).add(number, verdict, verdict.detail)
    _record_findings(gathered, number, verdict)
    return number


def _verdict_groups(stored: StoredVerdict) -> Mapping[str, str]:
    """Return the groups of the case and, as one more group, the style of the verdict."""
    style = stored.verdict.style
    return {**stored.groups, FACET_STYLE: style} if style and FACET_STYLE not in stored.groups else stored.groups


def _record_findings(gathered: RunData, number: int, verdict: Verdict) -> None:
    for key, result in verdict.criteria.items():
        gathered.answers.setdefault((verdict.rubric, key), AnswerCounts()).add(result)
        for assertion in result.assertions:
            if assertion.answer not in ("yes", "no"):
                continue
            name = AskedAssertion(verdict.rubric, verdict.style or "", assertion.id, assertion.question)
            counted = gathered.assertions.setdefault(name, FindingCount())
            counted.of += 1
            if assertion.answer == "no":
                counted.add(number, verdict, assertion.evidence)
    for key, items in verdict.findings.items():
        entries = gathered.findings.setdefault(escape_hidden(key), {})
        for item in dict.fromkeys(items):
            text = escape_hidden(item).strip()
            if text in entries or len(entries) < _MAX_DISTINCT:
                entries.setdefault(text, FindingCount()).add(number, verdict)
    for flag in {flag.flag: flag for flag in reversed(verdict.flags)}.values():  # a verdict counts once for each flag
        gathered.flags.setdefault(flag.flag, FindingCount()).add(number, verdict, flag.why)
    for correction in verdict.corrections:
        what = (
            escape_hidden(correction.at),
            format_correction_value(correction.said),
            format_correction_value(correction.stands),
            escape_hidden(correction.why),
        )
        gathered.corrections.setdefault(what, FindingCount()).add(number, verdict)


def format_correction_value(value: object) -> str:
    """Return a value of a correction as text; a judge may have claimed anything, so it is cut and escaped."""
    if value is None:
        return "nothing"
    return escape_hidden(truncate(value if isinstance(value, str) else quote_value(value), 60))


def _append_padded(columns: dict[str, list[T | None]], name: str, number: int, value: T | None) -> None:
    column = columns.setdefault(name, [])
    column.extend([None] * (number - len(column)))
    column.append(value)
