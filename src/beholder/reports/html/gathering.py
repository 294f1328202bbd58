"""A run, gathered for its page in one pass over the verdicts; the details go to a file as they come."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, TypeVar

from beholder.judges.audit import DISAGREE, NOT_AUDITED
from beholder.ledger import Ledger, RunRecord
from beholder.ledger.reading import Judged
from beholder.ledger.tallying import Tally
from beholder.reports.html.details import Numbered, detail, state_of
from beholder.reports.html.texts import cut, plain
from beholder.statistics.data import Scores
from beholder.statistics.reading import scores_of_verdicts
from beholder.verdicts.model import Verdict
from beholder.verdicts.values import shown

EXAMPLES = 3
AUDIT = (DISAGREE, NOT_AUDITED)
STYLE = "style"  # of the verdict: a group of its own beside those of the case
_QUOTED = 160  # characters of an example
_DISTINCT = 5000  # texts of a finding that are told apart; what else there is is in the cases

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Example:
    """A verdict to look at: its number on the page, its case, and what it says on the matter."""

    number: int
    case: str
    text: str = ""


@dataclass(slots=True)
class Counted:
    """Something that came up: how often, of how many times it could have, and a few verdicts to look at."""

    count: int = 0
    of: int = 0
    about: str = ""
    examples: list[Example] = field(default_factory=list)

    def add(self, number: int, verdict: Verdict, text: str = "") -> None:
        self.count += 1
        if len(self.examples) < EXAMPLES and all(one.number != number for one in self.examples):
            self.examples.append(Example(number, plain(verdict.case), plain(cut(text, _QUOTED))))


@dataclass(slots=True)
class Index:
    """What the page needs of every verdict to filter, sort and draw a card; a list for each thing, a place for each
    verdict. Names that come again are numbers into `rubrics`, `flags` and `values`."""

    case: list[str] = field(default_factory=list)
    rubric: list[int] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    score: list[float | None] = field(default_factory=list)
    grade: list[str | None] = field(default_factory=list)
    passed: list[bool | None] = field(default_factory=list)
    flagged: list[list[int]] = field(default_factory=list)
    corrected: list[int] = field(default_factory=list)
    pictured: list[list[int]] = field(default_factory=list)
    criteria: dict[str, list[float | None]] = field(default_factory=dict)
    groups: dict[str, list[int | None]] = field(default_factory=dict)
    scales: dict[str, tuple[float, float]] = field(default_factory=dict)
    rubrics: Numbered = field(default_factory=Numbered)
    flags: Numbered = field(default_factory=Numbered)
    values: Numbered = field(default_factory=Numbered)

    def __len__(self) -> int:
        return len(self.case)

    def add(self, one: Judged, pictures: list[int]) -> int:
        """The number of the verdict on the page."""
        verdict, number = one.verdict, len(self)
        self.case.append(plain(verdict.case))
        self.rubric.append(self.rubrics.number(plain(verdict.rubric)))
        self.state.append(state_of(one))
        self.score.append(verdict.score)
        self.grade.append(None if verdict.grade is None else plain(verdict.grade))
        self.passed.append(verdict.passed)
        self.flagged.append([self.flags.number(plain(name)) for name in dict.fromkeys(f.flag for f in verdict.flags)])
        self.corrected.append(len(verdict.corrections))
        self.pictured.append(pictures)
        for key, result in verdict.criteria.items():
            self.scales.setdefault(plain(key), (float(result.scale[0]), float(result.scale[1])))
            _put(self.criteria, plain(key), number, result.score)
        groups = {**one.groups, STYLE: verdict.style} if verdict.style else one.groups
        for name, value in groups.items():
            _put(self.groups, plain(name), number, self.values.number(plain(value)))
        return number

    def to_dict(self) -> dict[str, object]:
        """JSON values; short columns are filled up."""
        for scores in self.criteria.values():
            scores.extend([None] * (len(self) - len(scores)))
        for values in self.groups.values():
            values.extend([None] * (len(self) - len(values)))
        whole = ("case", "rubric", "state", "score", "grade", "passed", "flagged", "corrected", "pictured")
        found: dict[str, object] = {name: getattr(self, name) for name in whole}
        found |= {"criteria": self.criteria, "groups": self.groups, "scales": self.scales}
        return found | {name: getattr(self, name).texts for name in ("rubrics", "flags", "values")}


@dataclass(slots=True)
class Gathered:
    """What a run came to, as its page tells it. `pictures` numbers the image files by their digest, in order."""

    record: RunRecord
    tally: Tally = field(default_factory=Tally)
    index: Index = field(default_factory=Index)
    questions: Numbered = field(default_factory=Numbered)
    pictures: dict[str, int] = field(default_factory=dict)
    assertions: dict[tuple[str, str, str], Counted] = field(default_factory=dict)
    findings: dict[str, dict[str, Counted]] = field(default_factory=dict)
    flags: dict[str, Counted] = field(default_factory=dict)
    corrections: dict[tuple[str, str, str, str], Counted] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    lacks: dict[str, Counted] = field(default_factory=dict)
    scores: Scores = field(default_factory=lambda: Scores("", (), {}))
    cases: int = 0
    abstained: Counter[str] = field(default_factory=Counter)


def gather(ledger: Ledger, record: RunRecord, details: IO[bytes]) -> Gathered:
    """The run; the detail of each verdict is written to `details`, JSON, a line each."""
    gathered = Gathered(record)
    fields = {case.id: case.fields for case in ledger.cases(record.id)}
    gathered.scores = scores_of_verdicts(plain(record.name), _passing(ledger, gathered, fields, details))
    gathered.cases = len(gathered.scores)
    return gathered


def _passing(
    ledger: Ledger, gathered: Gathered, fields: Mapping[str, Mapping[str, object]], details: IO[bytes]
) -> Iterator[tuple[Verdict, Mapping[str, str]]]:
    """The verdicts on their way into columns, each taken note of as it passes."""
    for one in ledger.judged(gathered.record.id):
        verdict = one.verdict
        pictures = [
            gathered.pictures.setdefault(image.source_digest, len(gathered.pictures)) for image in verdict.images
        ]
        number = gathered.index.add(one, pictures)
        line = detail(one, fields.get(verdict.case, {}), gathered.questions, gathered.pictures)
        details.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        gathered.tally.add(one)
        gathered.versions[verdict.rubric] = verdict.rubric_version
        if verdict.score is None:
            gathered.lacks.setdefault(state_of(one), Counted()).add(
                number, verdict, verdict.detail or verdict.lack.removeprefix("left open, ")
            )
        _note(gathered, number, verdict)
        groups = {**one.groups, STYLE: verdict.style} if verdict.style and STYLE not in one.groups else one.groups
        yield verdict, groups


def _note(gathered: Gathered, number: int, verdict: Verdict) -> None:
    for key, result in verdict.criteria.items():
        for assertion in result.assertions:
            if assertion.answer == "abstained":
                gathered.abstained[key] += 1
                continue
            if assertion.answer not in ("yes", "no"):
                continue
            name = (plain(verdict.style or ""), plain(assertion.id), plain(assertion.question))
            counted = gathered.assertions.setdefault(name, Counted(about=key))
            counted.of += 1
            if assertion.answer == "no":
                counted.add(number, verdict, assertion.evidence)
    for key, items in verdict.findings.items():
        found = gathered.findings.setdefault(plain(key), {})
        for item in dict.fromkeys(items):
            text = plain(item).strip()
            if text in found or len(found) < _DISTINCT:
                found.setdefault(text, Counted()).add(number, verdict)
    for flag in {flag.flag: flag for flag in reversed(verdict.flags)}.values():  # a verdict counts once for a flag
        gathered.flags.setdefault(plain(flag.flag), Counted()).add(number, verdict, flag.why)
    for one in verdict.corrections:
        what = (plain(one.at), said(one.said), said(one.stands), plain(one.why))
        gathered.corrections.setdefault(what, Counted()).add(number, verdict)


def said(value: object) -> str:
    """A value of a correction in words; a judge may have claimed anything."""
    if value is None:
        return "nothing"
    return plain(cut(value if isinstance(value, str) else shown(value), 60))


def _put(columns: dict[str, list[T | None]], name: str, number: int, value: T | None) -> None:
    column = columns.setdefault(name, [])
    column.extend([None] * (number - len(column)))
    column.append(value)
